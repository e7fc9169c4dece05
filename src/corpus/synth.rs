//! Artificial languages: treebanks with known structure, as CoNLL-U text.
//!
//! A language is described by what matters for memory: how often dependents stand before their heads, how many a head
//! has, how often structures are center-embedded, and how long sentences are. Sentence number i follows from (seed,
//! name, i) alone, so any worker can write any part of the treebank.
//!
//! At a center-embedding rate of 0 every tree has degree 0 in the sense of [`crate::transition::embedding`]: a word
//! that follows its head either carries on to the right through a single dependent or has only single words before
//! it; and of several dependents before a head, only the outermost has dependents of its own. The rate is the
//! probability with which each of these restrictions is lifted where it applies.

use std::io::Write;

use rand::RngExt;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::cluster::rng::{Generator, Purpose, generator};

/// What an artificial language is like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Grammar {
    /// Number of sentences.
    pub sentences: u64,
    /// Mean number of words; lengths are uniform from 1 to twice the mean less 1.
    pub length: u32,
    /// Probability that a dependent stands before its head.
    pub head_final: f64,
    /// Mean number of dependents of a word that has any.
    pub branching: f64,
    /// Probability that a structure which may be center-embedded is.
    pub center_embedding: f64,
}

impl Default for Grammar {
    fn default() -> Grammar {
        Grammar { sentences: 1000, length: 20, head_final: 0.5, branching: 2.0, center_embedding: 0.1 }
    }
}

impl Grammar {
    /// Says what is out of range.
    pub fn check(&self) -> Result<(), String> {
        let probability = |name: &str, p: f64| match (0.0..=1.0).contains(&p) {
            true => Ok(()),
            false => Err(format!("{name} = {p} is not a probability")),
        };
        probability("head_final", self.head_final)?;
        probability("center_embedding", self.center_embedding)?;
        if !(1..=10_000).contains(&self.length) {
            return Err(format!("length = {} is not between 1 and 10000", self.length));
        }
        if !(1.0..=100.0).contains(&self.branching) {
            return Err(format!("branching = {} is not between 1 and 100", self.branching));
        }
        Ok(())
    }
}

/// A language with its name and seed: all that its sentences follow from.
#[derive(Clone, Debug, PartialEq)]
pub struct Language {
    pub name: String,
    pub seed: u64,
    pub grammar: Grammar,
}

impl Language {
    /// Appends sentence number `index` (from 0) as CoNLL-U.
    pub fn write_sentence(&self, index: u64, out: &mut Vec<u8>) {
        let mut rng = generator(self.seed, Purpose::Synth, xxh3_64(self.name.as_bytes()), index);
        let words = rng.random_range(1..=2 * self.grammar.length - 1);
        let heads = self.grow(words, &mut rng);
        let mut has_dependents = vec![false; heads.len() + 1];
        heads.iter().for_each(|&head| has_dependents[head as usize] = true);
        let mut line = |args: std::fmt::Arguments<'_>| out.write_fmt(args).expect("a vector takes every byte");
        line(format_args!("# sent_id = {}-{}\n", self.name, index + 1));
        for (word, &head) in (1..).zip(&heads) {
            let upos = part_of_speech(head == 0, has_dependents[word as usize], &mut rng);
            let (form, deprel) = (form(upos, &mut rng), relation(head, word, upos));
            line(format_args!("{word}\t{form}\t_\t{upos}\t_\t_\t{head}\t{deprel}\t_\t_\n"));
        }
        line(format_args!("\n"));
    }

    /// Heads of a random tree over `words` words, 0 for the root.
    fn grow(&self, words: u32, rng: &mut Generator) -> Vec<u32> {
        let mut heads = vec![0; words as usize];
        let mut open = vec![Span { first: 1, words, parent: 0, follows_head: false }];
        while let Some(span) = open.pop() {
            let lifted = rng.random_bool(self.grammar.center_embedding);
            let (before, after) = match span.follows_head && !lifted {
                true => self.plain_family(span.words - 1, rng),
                false => self.rich_family(span.words - 1, rng),
            };
            let head = span.first + before.iter().sum::<u32>();
            heads[head as usize - 1] = span.parent;
            let mut first = span.first;
            for (sizes, follows_head) in [(before, false), (after, true)] {
                for words in sizes {
                    open.push(Span { first, words, parent: head, follows_head });
                    first += words;
                }
                first += u32::from(!follows_head); // over the head itself
            }
        }
        heads
    }

    /// Sizes of the subtrees before and after a head that must not embed anything: single words before it, or one
    /// subtree after it.
    fn plain_family(&self, words: u32, rng: &mut Generator) -> (Vec<u32>, Vec<u32>) {
        let few = f64::from(words) <= 2.0 * self.grammar.branching;
        match words {
            0 => (vec![], vec![]),
            _ if few && rng.random_bool(self.grammar.head_final) => (vec![1; words as usize], vec![]),
            _ => (vec![], vec![words]),
        }
    }

    /// Sizes of the subtrees before and after a head: of those before it, all but the outermost are single words unless
    /// the restriction is lifted.
    fn rich_family(&self, words: u32, rng: &mut Generator) -> (Vec<u32>, Vec<u32>) {
        if words == 0 {
            return (vec![], vec![]);
        }
        let mut dependents = 1;
        while dependents < words && rng.random_bool(1.0 - 1.0 / self.grammar.branching) {
            dependents += 1;
        }
        let before = (0..dependents).filter(|_| rng.random_bool(self.grammar.head_final)).count();
        let mut sizes = vec![1; dependents as usize];
        let growing: Vec<usize> = (0..dependents as usize)
            .filter(|&i| i == 0 || i >= before || rng.random_bool(self.grammar.center_embedding))
            .collect();
        for _ in dependents..words {
            sizes[growing[rng.random_range(0..growing.len() as u32) as usize]] += 1;
        }
        let after = sizes.split_off(before);
        (sizes, after)
    }
}

/// Words that are to become one subtree.
struct Span {
    first: u32,
    words: u32,
    parent: u32,
    follows_head: bool,
}

fn part_of_speech(is_root: bool, has_dependents: bool, rng: &mut Generator) -> &'static str {
    const HEADS: [&str; 2] = ["NOUN", "VERB"];
    const LEAVES: [&str; 4] = ["DET", "ADJ", "ADV", "PRON"];
    match (is_root, has_dependents) {
        (true, _) => "VERB",
        (false, true) => HEADS[rng.random_range(0..2u32) as usize],
        (false, false) => LEAVES[rng.random_range(0..4u32) as usize],
    }
}

fn relation(head: u32, word: u32, upos: &str) -> &'static str {
    match (head, upos) {
        (0, _) => "root",
        (_, "DET") => "det",
        (_, "ADJ") => "amod",
        (_, "ADV") => "advmod",
        (_, "VERB") => "advcl",
        (head, _) if word < head => "nsubj",
        _ => "obj",
    }
}

/// A word of about a thousand per part of speech, frequent ones short and often drawn.
fn form(upos: &str, rng: &mut Generator) -> String {
    const ONSETS: [char; 10] = ['p', 't', 'k', 'm', 'n', 's', 'l', 'r', 'b', 'd'];
    const VOWELS: [char; 5] = ['a', 'e', 'i', 'o', 'u'];
    // Uniform over magnitudes: about Zipf's law.
    let magnitude = rng.random_range(0..10u32);
    let mut rank = rng.random_range(0..1u32 << magnitude) + (1 << magnitude);
    let mut form = String::new();
    form.push(upos.as_bytes()[0].to_ascii_lowercase().into());
    while rank > 0 {
        form.push(VOWELS[(rank % 5) as usize]);
        form.push(ONSETS[(rank / 5 % 10) as usize]);
        rank /= 50;
    }
    form
}
