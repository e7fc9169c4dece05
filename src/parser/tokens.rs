//! What the three distributions are trained on: contexts and outcomes of the derivations of trees.
//!
//! ```text
//! transition   h^a -> an action, with its label                      where there is a choice
//! tag          h^t -> tag, the root's at the end                     at every shift
//! word         h^w -> word                                           at every shift but the root's
//! ```
//!
//! Where a distribution has several contexts, each has all of its outcomes. Which shard a token is of follows from its context, and
//! from how many tokens of the treebank have such contexts ([`crate::restaurant::deal`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::action::System;
use super::configuration::Configurations;
use super::element::Element;
use super::gold::{Gold, Token};
use super::job::{Contexts, Part};
use super::lexicon::Lexicon;
use super::treebank::{Treebank, Word};
use crate::restaurant::deal::{Deal, Keys};
use crate::restaurant::seating::DEEPEST;
use crate::restaurant::tokens::Tokens;

/// The tokens of a context: how they are dealt, and those of each own shard.
pub struct Dealt {
    pub deal: Arc<Deal>,
    pub tokens: BTreeMap<u32, Tokens>,
}

/// Makes tokens of trees.
pub struct Tokeniser<'a> {
    pub lexicon: &'a Lexicon,
    pub system: System,
    pub contexts: &'a Contexts,
    pub is_lexicalised: bool,
}

impl Tokeniser<'_> {
    /// Of a treebank: by context, the tokens of the shards `own`. All workers have the same treebank, so that all come to the
    /// same deals.
    pub fn tokens(&self, treebank: &Treebank, shards: u32, own: &[u32]) -> Vec<Dealt> {
        let symbols = self.lexicon.symbols();
        let own = |(deal, (_, elements)): (Arc<Deal>, &(Part, Vec<Element>))| {
            let tokens = own.iter().map(|&shard| (shard, Tokens::new(elements.len(), symbols))).collect();
            Dealt { deal, tokens }
        };
        let mut all: Vec<Dealt> = self.deals(treebank, shards).into_iter().zip(&self.contexts.all).map(own).collect();
        self.each_of(treebank, |number, context, outcome| {
            let Dealt { deal, tokens } = &mut all[number];
            if let Some(tokens) = tokens.get_mut(&deal.shard_of(context.iter().copied(), outcome)) {
                tokens.push(context, outcome);
            }
        });
        all
    }

    /// The deal of each context.
    fn deals(&self, treebank: &Treebank, shards: u32) -> Vec<Arc<Deal>> {
        let contexts = self.contexts.all.len();
        if shards <= 1 {
            return (0..contexts).map(|_| Arc::new(Deal::alone())).collect();
        }
        let mut by_element = vec![vec![0; self.lexicon.symbols() as usize]; contexts];
        self.each_of(treebank, |number, context, _| {
            if let Some(&first) = context.first() {
                by_element[number][first as usize] += 1;
            }
        });
        let keys: Vec<Keys> = by_element.iter().map(|tokens| Keys::new(tokens, shards)).collect();
        let mut by_key: Vec<Vec<u64>> = keys.iter().map(|keys| vec![0; keys.count()]).collect();
        self.each_of(treebank, |number, context, outcome| {
            by_key[number][keys[number].key_of(context.iter().copied(), outcome) as usize] += 1;
        });
        keys.into_iter().zip(by_key).map(|(keys, tokens)| Arc::new(Deal::new(keys, &tokens))).collect()
    }

    /// Shows all tokens of a treebank.
    fn each_of(&self, treebank: &Treebank, mut show: impl FnMut(usize, &[u32], u32)) {
        let mut scratch = Scratch::default();
        for sentence in 0..treebank.len() {
            self.each(&self.lexicon.sentence(treebank, sentence), &mut scratch, &mut show);
        }
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
