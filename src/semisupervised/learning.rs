//! Learning from trees of raw text, one context behind the other.
//!
//! Given the trees, the hierarchies of a parser have nothing to do with each other: so each is trained by itself, as a
//! training of its own under the sweep driver, with the draws that it would have among the others. Memory is that of the
//! largest one, and of what was learned before. Contexts of single tokens have no restaurants ([`crate::restaurant::lone`]);
//! the first worker, who has all trees, tells the others which these are.

use std::collections::BTreeMap;
use std::sync::Arc;

use timely::worker::Worker;

use super::parses::{Trees, each_tree};
use super::run::Stages;
use super::text::Text;
use crate::cluster::operators::route::Route;
use crate::cluster::sweep::{End, train};
use crate::error::Result;
use crate::parser::distribution::KeptHierarchy;
use crate::parser::job::{Contexts, Part, Plan};
use crate::parser::tokens::{Tokeniser, Tokens};
use crate::parser::trainer::Trainer;
use crate::restaurant::tree::Sorted;

impl Stages<'_> {
    /// Learns from the trees of a pass; the first worker has what was learned.
    pub(super) fn learn(
        &mut self,
        worker: &mut Worker,
        pass: u64,
        text: &Text,
        trees: &BTreeMap<u32, Trees>,
    ) -> Result<(End, Option<Vec<Arc<KeptHierarchy>>>)> {
        let plan = self.plan.learning();
        let mut all = vec![];
        for context in 0..plan.contexts.all.len() {
            let tokens = self.tokens(worker, &plan, context, text, trees);
            let (end, learned) = self.learn_one(worker, &plan, pass, context, text, tokens)?;
            all.extend(learned.into_iter().flatten());
            if end == End::Stopped {
                return Ok((end, None));
            }
        }
        Ok((End::Done, (worker.index() == 0).then_some(all)))
    }

    /// The tokens of a context: those of the own shards, or of all on the first worker.
    fn tokens(
        &self,
        worker: &Worker,
        plan: &Plan,
        context: usize,
        text: &Text,
        trees: &BTreeMap<u32, Trees>,
    ) -> Tokens {
        let (index, peers) = (worker.index(), worker.peers());
        let tokeniser = Tokeniser {
            lexicon: &text.lexicon,
            system: plan.model.system,
            contexts: &Contexts { all: vec![plan.contexts.all[context].clone()] },
            is_lexicalised: true,
        };
        let runs = self.runs();
        let is_mine = |shard: u32| shard as usize % peers == index;
        let mut tokens = tokeniser.tokens_of(plan.schedule.shards, is_mine, index == 0, |shard, add| {
            for number in runs[shard as usize].clone() {
                add(&text.lexicon.sentence(self.treebank, number));
            }
            if let (Some(sentences), Some(trees)) = (text.training.get(&shard), trees.get(&shard)) {
                each_tree(sentences, trees, add);
            }
        });
        tokens.remove(0)
    }

    fn learn_one(
        &mut self,
        worker: &mut Worker,
        plan: &Plan,
        pass: u64,
        context: usize,
        text: &Text,
        tokens: Tokens,
    ) -> Result<(End, Option<Vec<Arc<KeptHierarchy>>>)> {
        let is_leader = worker.index() == 0;
        let sorted = cut_lone(worker, &mut self.letters, &tokens);
        let trainer = Trainer::of_one(plan, &text.lexicon, context, tokens, sorted, is_leader);
        let (watcher, before, figures) = (self.watcher, self.before, &mut self.figures);
        let stage = format!("words-{pass}-{context}");
        let control = watcher.control.of_stage(&stage);
        // A token is a word: those of one context of words are counted.
        let is_counted = plan.contexts.all.iter().position(|(part, _)| *part == Part::Word) == Some(context);
        let (trainer, end) = train(worker, trainer, &plan.schedule, &control, |_, round| {
            Stages::tell(watcher, before, &stage, round);
            figures.add_learning(round, is_counted);
        })?;
        self.before += plan.schedule.sweeps;
        let learned = is_leader.then(|| trainer.hierarchies(&text.lexicon));
        self.end_stage(worker, &format!("learning, pass {pass}: {}", name_of(&plan.contexts, context)));
        Ok((end, learned))
    }
}

/// A context for people: its distribution, and which of its contexts it is.
fn name_of(contexts: &Contexts, context: usize) -> String {
    let (part, _) = &contexts.all[context];
    let place = contexts.all[..=context].iter().filter(|(other, _)| other == part).count();
    let part = match part {
        Part::Transition => "transitions",
        Part::Tag => "tags",
        Part::Word => "words",
    };
    format!("{part}, context {place}")
}

/// The tokens in their order, without the contexts that one token of all workers alone has.
fn cut_lone(worker: &mut Worker, letters: &mut Route, tokens: &Tokens) -> Sorted {
    let mut sorted = Sorted::new(tokens);
    let peers = worker.peers();
    let mut mine = vec![vec![]; peers];
    if worker.index() == 0 {
        sorted.cut_lone();
        if peers == 1 {
            return sorted;
        }
        let lengths = sorted.lengths_by_token();
        for (&shard, run) in &tokens.held {
            mine[shard as usize % peers].extend_from_slice(&lengths[run.clone()]);
        }
    }
    let packed = mine.into_iter().map(|lengths| pack(&lengths)).collect();
    let letter = letters.exchange(worker, packed).swap_remove(0);
    if worker.index() > 0 {
        sorted.cut_to(&unpack(&letter));
    }
    sorted
}

/// Bytes as words, the last filled up.
fn pack(bytes: &[u8]) -> Vec<u32> {
    let word = |four: &[u8]| four.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
    bytes.chunks(4).map(word).collect()
}

fn unpack(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_travel_as_words() {
        for length in 0..10u8 {
            let bytes: Vec<u8> = (0..length).map(|byte| byte.wrapping_mul(77)).collect();
            let there = unpack(&pack(&bytes));
            assert_eq!(there[..bytes.len()], bytes);
            assert!(there.len() < bytes.len() + 4);
        }
    }
}
