//! What the three distributions are trained on: contexts and outcomes of the derivations of trees.
//!
//! ```text
//! transition   h^a -> an action, with its label                      where there is a choice
//! tag          h^t -> tag, the root's at the end                     at every shift
//! word         h^w -> word                                           at every shift but the root's
//! ```
//!
//! Where a distribution has several contexts, each has all of its outcomes. Which shard a token is of follows from its context
//! ([`crate::restaurant::franchise`]).

use super::action::System;
use super::configuration::Configurations;
use super::gold::{Gold, Token};
use super::job::{Contexts, Part};
use super::lexicon::Lexicon;
use super::treebank::{Treebank, Word};
use crate::restaurant::column::Column;
use crate::restaurant::franchise::shard_of;
use crate::restaurant::seating::DEEPEST;
use crate::restaurant::tree::Paths;

/// Contexts with outcomes.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    /// By depth.
    elements: Vec<Column>,
    outcomes: Column,
    symbols: usize,
}

impl Tokens {
    /// Contexts have up to `depth` elements; all symbols are below `symbols`.
    pub fn new(depth: usize, symbols: u32) -> Tokens {
        Tokens { elements: vec![Column::default(); depth], symbols: symbols as usize, ..Tokens::default() }
    }

    #[inline]
    pub fn push(&mut self, context: &[u32], outcome: u32) {
        let nothing = self.symbols as u32;
        let values = context.iter().copied().chain(std::iter::repeat(nothing));
        self.elements.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
        self.outcomes.push(outcome);
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
        self.elements.get(depth).map(|column| column.get(token)).filter(|element| (*element as usize) < self.symbols)
    }

    /// Most contexts are whole.
    fn length(&self, token: usize) -> usize {
        let mut length = self.elements.len();
        while length > 0 && self.element(token, length - 1).is_none() {
            length -= 1;
        }
        length
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
    /// Of a treebank: by context, the tokens of the shards that are `is_mine`.
    pub fn tokens(&self, treebank: &Treebank, shards: u32, is_mine: impl Fn(u32) -> bool) -> Vec<Tokens> {
        let symbols = self.lexicon.symbols();
        let mut all: Vec<Tokens> =
            self.contexts.all.iter().map(|(_, elements)| Tokens::new(elements.len(), symbols)).collect();
        let mut scratch = Scratch::default();
        for sentence in 0..treebank.len() {
            self.each(&self.lexicon.sentence(treebank, sentence), &mut scratch, |number, context, outcome| {
                if is_mine(shard_of(context.iter().copied(), shards)) {
                    all[number].push(context, outcome);
                }
            });
        }
        all
    }

    /// Shows the tokens of a tree, with words as the lexicon numbers them: the number of a context, its values, the outcome.
    pub fn each(&self, words: &[Word], scratch: &mut Scratch, mut show: impl FnMut(usize, &[u32], u32)) {
        let Scratch { gold, arena } = scratch;
        gold.set(words.iter().copied(), self.lexicon);
        arena.clear();
        let mut values = [0; DEEPEST];
        let visit = |arena: &Configurations, token: Token| {
            let own = self.contexts.all.iter().enumerate().filter(|(_, (part, _))| *part == token.part);
            for (number, (part, elements)) in own {
                let values = &mut values[..elements.len()];
                arena.values(token.top, elements, token.upcoming, values);
                if *part != Part::Word {
                    self.lexicon.coarsen(elements, values);
                }
                show(number, values, token.outcome);
            }
        };
        gold.tokens(arena, self.system, self.lexicon, self.is_lexicalised, || false, visit);
    }
}

/// What is reused from sentence to sentence.
#[derive(Default)]
pub struct Scratch {
    gold: Gold,
    arena: Configurations,
}
