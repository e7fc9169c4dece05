//! A pass of parsing over raw text, as a training: a sweep parses a part of every shard, and nothing has to be brought
//! together. The workers of a process help each other (`pool`).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::pool::Pool;
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
    parser: Parser<'a>,
    rounds: u64,
    /// Of the own shards.
    text: &'a BTreeMap<u32, Arc<Shelf>>,
    pub trees: BTreeMap<u32, Trees>,
    /// Where the workers of a process help each other.
    pool: &'a Pool,
}

impl<'a> Parsing<'a> {
    pub fn new(parser: Parser<'a>, rounds: u64, text: &'a BTreeMap<u32, Arc<Shelf>>, pool: &'a Pool) -> Parsing<'a> {
        Parsing { parser, rounds, text, trees: BTreeMap::new(), pool }
    }

    /// Sentences that this worker has parsed in this run, and its seconds on a processor.
    pub fn parsed(&self) -> (u64, f64) {
        (self.parser.sentences, self.parser.seconds)
    }

    /// Words of a shard.
    fn words(&self, number: u32) -> usize {
        self.text.get(&number).map_or(0, |shelf| shelf.words()) as usize
    }

    /// The sentences that a sweep parses.
    fn part(&self, number: u32, sweep: u64) -> Range<usize> {
        let all = self.text.get(&number).map_or(0, |shelf| shelf.len()) as u64;
        (all * sweep / self.rounds) as usize..(all * (sweep + 1) / self.rounds) as usize
    }
}

/// Parses sentences, own ones and those of others.
pub struct Parser<'a> {
    decoder: Decoder<'a>,
    /// Of the words of the text; whether the model knows all of them.
    lexicon: &'a Lexicon,
    knows_all: bool,
    given: Vec<Given>,
    /// Hears how many words have got trees, at last.
    tell: &'a dyn Fn(u64),
    sentences: u64,
    seconds: f64,
}

impl<'a> Parser<'a> {
    pub fn new(model: &'a ParserModel, lexicon: &'a Lexicon, particles: u32, tell: &'a dyn Fn(u64)) -> Parser<'a> {
        Parser {
            decoder: Decoder::new(model, Search::Particles, particles),
            lexicon,
            knows_all: model.kept.lexicon.words() == lexicon.words(),
            given: vec![],
            tell,
            sentences: 0,
            seconds: 0.0,
        }
    }

    /// The trees of some sentences of a shard.
    fn trees(&mut self, shelf: &Shelf, sentences: Range<usize>) -> Trees {
        let began = thread_seconds();
        let mut trees = vec![];
        for forms in shelf.part(sentences) {
            let Parser { lexicon, knows_all, .. } = *self;
            let known = |(place, &form): (usize, &u32)| Given {
                form: if knows_all { form } else { lexicon.taken_for(form, place == 0) },
                tag: None,
            };
            self.given.clear();
            self.given.extend(forms.iter().enumerate().map(known));
            let parse = self.decoder.parse(&self.given);
            let places = parse.tags.iter().zip(&parse.labels).zip(&parse.heads);
            trees.extend(places.map(|((&tag, label), &head)| [tag as u16, label.0, head as u16]));
            self.sentences += 1;
        }
        self.seconds += thread_seconds() - began;
        (self.tell)(trees.len() as u64);
        trees
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
        let Some(shelf) = self.text.get(&number) else { return };
        for sweep in sweeps {
            let part = self.part(number, sweep);
            let found = self.pool.trees(shelf, part, |shelf, sentences| self.parser.trees(shelf, sentences));
            self.trees.entry(number).or_default().extend(found);
        }
    }

    /// Nothing has to be brought together; meanwhile, others may have sentences left.
    fn synchronise(&mut self, _: &mut Post<'_>) {
        self.pool.help(|shelf, sentences| self.parser.trees(shelf, sentences));
    }

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
