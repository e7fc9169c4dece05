//! A pass of parsing over raw text, as a training: a sweep parses a part of every shard, and nothing has to be brought
//! together.

use std::collections::BTreeMap;
use std::ops::Range;

use super::shelf::Shelf;
use crate::cluster::sweep::{Model, Post};
use crate::job::session::thread_seconds;
use crate::parser::decode::{Decoder, Given};
use crate::parser::job::Search;
use crate::parser::lexicon::Lexicon;
use crate::parser::model::ParserModel;
use crate::parser::treebank::Word;

/// Of each word of a shard, one behind the other: tag, label and head.
pub type Trees = Vec<[u16; 3]>;

pub struct Parsing<'a> {
    pub model: &'a ParserModel,
    /// Of the words of the text, which the model may not know all.
    pub lexicon: &'a Lexicon,
    pub particles: u32,
    pub rounds: u64,
    /// Of the own shards.
    pub text: &'a BTreeMap<u32, Shelf>,
    pub trees: BTreeMap<u32, Trees>,
    /// Hears what share of the own text has trees.
    pub tell: &'a dyn Fn(f64),
    /// Of this worker: sentences parsed in this run, and seconds on a processor.
    pub parsed: u64,
    pub seconds: f64,
}

/// So many sentences are parsed before progress is told.
const TOLD: u64 = 256;

impl Parsing<'_> {
    fn tell_share(&self) {
        let done: usize = self.trees.values().map(Vec::len).sum();
        let all: u64 = self.text.values().map(Shelf::words).sum();
        (self.tell)(done as f64 / all.max(1) as f64);
    }

    /// Words of a shard.
    fn words(&self, number: u32) -> usize {
        self.text.get(&number).map_or(0, Shelf::words) as usize
    }

    /// The sentences that a sweep parses.
    fn part(&self, number: u32, sweep: u64) -> Range<usize> {
        let all = self.text.get(&number).map_or(0, Shelf::len) as u64;
        (all * sweep / self.rounds) as usize..(all * (sweep + 1) / self.rounds) as usize
    }
}

/// The sentences of a shard with their trees.
pub fn with_trees<'a>(sentences: &'a Shelf, trees: &'a Trees) -> impl Iterator<Item = Vec<Word>> + 'a {
    let mut rest = trees.as_slice();
    sentences.iter().map(move |forms| {
        let (own, behind) = rest.split_at(forms.len());
        rest = behind;
        tree(&forms, own)
    })
}

/// A sentence with its tree.
pub fn tree(forms: &[u32], tree: &[[u16; 3]]) -> Vec<Word> {
    let word = |(&form, &[tag, label, head]): (&u32, &[u16; 3])| Word {
        form,
        tag: u32::from(tag),
        head: u32::from(head),
        label: u32::from(label),
        is_punctuation: false,
    };
    forms.iter().zip(tree).map(word).collect()
}

impl Model for Parsing<'_> {
    type Saved = Trees;
    type Shared = ();

    fn draw_shard(&mut self, number: u32, _: u32) {
        self.trees.insert(number, Vec::with_capacity(self.words(number)));
    }

    fn load_shard(&mut self, number: u32, mut saved: Trees) -> Result<(), String> {
        let Some(left) = self.words(number).checked_sub(saved.len()) else {
            return Err(format!("the checkpoint of shard {number} has trees of other sentences"));
        };
        saved.reserve_exact(left);
        self.trees.insert(number, saved);
        Ok(())
    }

    fn save_shard(&self, number: u32) -> Trees {
        self.trees.get(&number).cloned().unwrap_or_default()
    }

    fn count_shard(&mut self, _: u32) {}

    fn sweep_shard(&mut self, number: u32, sweeps: Range<u64>, _: u32) {
        let Some(sentences) = self.text.get(&number) else { return };
        let began = thread_seconds();
        let knows_all = self.model.kept.lexicon.words() == self.lexicon.words();
        let known = |(place, &form): (usize, &u32)| Given {
            form: if knows_all { form } else { self.lexicon.taken_for(form, place == 0) },
            tag: None,
        };
        let parts: Vec<Range<usize>> = sweeps.map(|sweep| self.part(number, sweep)).collect();
        let mut decoder = Decoder::new(self.model, Search::Particles, self.particles);
        let mut given = vec![];
        for forms in parts.into_iter().flat_map(|part| sentences.part(part)) {
            given.clear();
            given.extend(forms.iter().enumerate().map(known));
            let parse = decoder.parse(&given);
            self.parsed += 1;
            let places = parse.tags.iter().zip(&parse.labels).zip(&parse.heads);
            let tree = places.map(|((&tag, label), &head)| [tag as u16, label.0, head as u16]);
            self.trees.entry(number).or_default().extend(tree);
            if self.parsed.is_multiple_of(TOLD) {
                self.tell_share();
            }
        }
        self.seconds += thread_seconds() - began;
        self.tell_share();
    }

    fn synchronise(&mut self, _: &mut Post<'_>) {}

    fn statistics(&mut self, _: u32, _: u64) -> Vec<f64> {
        vec![]
    }

    fn learn(&mut self, _: &[Vec<f64>], _: u64) {}

    fn evaluate(&mut self, _: u32, _: u64) -> Vec<f64> {
        vec![]
    }

    fn shared(&self) {}

    fn set_shared(&mut self, (): ()) {}

    fn tokens(&self, number: u32) -> u64 {
        self.words(number) as u64 / self.rounds
    }
}
