//! What the three distributions are trained on: contexts and outcomes of the derivations of trees.
//!
//! ```text
//! transition   h^a -> an action, with its label                      where there is a choice
//! tag          h^t -> tag, the root's at the end                     at every shift
//! word         h^w -> word                                           at every shift but the root's
//! ```
//!
//! Where a distribution has several contexts, each has all of its outcomes.

use std::collections::BTreeMap;
use std::ops::Range;

use super::action::System;
use super::configuration::Configurations;
use super::element::Element;
use super::gold::{Gold, Token};
use super::job::{Contexts, Part};
use super::lexicon::Lexicon;
use super::treebank::{Treebank, Word};
use crate::corpus::shard::shards;
use crate::restaurant::column::Column;
use crate::restaurant::seating::DEEPEST;
use crate::restaurant::tree::Paths;

/// Contexts of one length with outcomes.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    /// By depth.
    elements: Vec<Column>,
    outcomes: Column,
    symbols: usize,
    /// The tokens of each own shard.
    pub shards: BTreeMap<u32, Range<usize>>,
    /// Where the worker holds all: those of the other shards.
    pub held: BTreeMap<u32, Range<usize>>,
}

impl Tokens {
    fn new(depth: usize, symbols: u32) -> Tokens {
        Tokens { elements: vec![Column::default(); depth], symbols: symbols as usize, ..Tokens::default() }
    }

    fn push(&mut self, arena: &Configurations, elements: &[Element], token: Token, lexicon: &Lexicon) {
        let mut values = [0; DEEPEST];
        let values = &mut values[..elements.len()];
        arena.values(token.top, elements, token.upcoming, values);
        if token.part != Part::Word {
            lexicon.coarsen(elements, values);
        }
        self.elements.iter_mut().zip(values).for_each(|(column, value)| column.push(*value));
        self.outcomes.push(token.outcome);
    }
}

impl Paths for Tokens {
    fn count(&self) -> usize {
        self.outcomes.len()
    }

    fn symbols(&self) -> usize {
        self.symbols
    }

    fn depth(&self) -> usize {
        self.elements.len()
    }

    fn outcome(&self, token: usize) -> u32 {
        self.outcomes.get(token)
    }

    #[inline]
    fn element(&self, token: usize, depth: usize) -> Option<u32> {
        self.elements.get(depth).map(|column| column.get(token))
    }

    fn length(&self, _: usize) -> usize {
        self.elements.len()
    }
}

/// Makes tokens of trees.
pub struct Tokeniser<'a> {
    pub lexicon: &'a Lexicon,
    pub system: System,
    pub contexts: &'a Contexts,
    pub is_lexicalised: bool,
}

impl Tokeniser<'_> {
    /// The tokens of each context: of the shards that are `is_mine`, shard by shard; then, where the worker `holds_all`, those
    /// of the others.
    pub fn tokens(
        &self,
        treebank: &Treebank,
        count: u32,
        is_mine: impl Fn(u32) -> bool,
        holds_all: bool,
    ) -> Vec<Tokens> {
        let lengths: Vec<u64> = treebank.sentences().map(|sentence| sentence.len() as u64).collect();
        let runs = shards(&lengths, count);
        self.tokens_of(count, is_mine, holds_all, |number, add| {
            runs[number as usize].clone().for_each(|sentence| add(&self.lexicon.sentence(treebank, sentence)));
        })
    }

    /// The same, of shards whose sentences `each` shows, with words as the lexicon numbers them.
    pub fn tokens_of(
        &self,
        count: u32,
        is_mine: impl Fn(u32) -> bool,
        holds_all: bool,
        each: impl Fn(u32, &mut dyn FnMut(&[Word])),
    ) -> Vec<Tokens> {
        let symbols = self.lexicon.symbols();
        let mut all: Vec<Tokens> =
            self.contexts.all.iter().map(|(_, elements)| Tokens::new(elements.len(), symbols)).collect();
        let mut scratch = Scratch::default();
        let own = (0..count).filter(|number| is_mine(*number)).map(|number| (number, true));
        let others = (0..count).filter(|number| holds_all && !is_mine(*number)).map(|number| (number, false));
        for (number, is_own) in own.chain(others) {
            let before: Vec<usize> = all.iter().map(|tokens| tokens.outcomes.len()).collect();
            each(number, &mut |words| self.add(words, &mut scratch, &mut all));
            for (tokens, before) in all.iter_mut().zip(before) {
                let runs = if is_own { &mut tokens.shards } else { &mut tokens.held };
                runs.insert(number, before..tokens.outcomes.len());
            }
        }
        all
    }

    fn add(&self, words: &[Word], scratch: &mut Scratch, all: &mut [Tokens]) {
        let Scratch { gold, arena } = scratch;
        gold.set(words.iter().copied(), self.lexicon);
        arena.clear();
        gold.tokens(
            arena,
            self.system,
            self.lexicon,
            self.is_lexicalised,
            || false,
            |arena, token| {
                for ((part, elements), tokens) in self.contexts.all.iter().zip(&mut *all) {
                    if *part == token.part {
                        tokens.push(arena, elements, token, self.lexicon);
                    }
                }
            },
        );
    }
}

/// What is reused from sentence to sentence.
#[derive(Default)]
struct Scratch {
    gold: Gold,
    arena: Configurations,
}
