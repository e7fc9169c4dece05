//! The parser as a model of the sweep driver: hierarchies of restaurants for transitions, tags and words, one for each
//! context that they have.
//!
//! With the static oracle every tree has one derivation, so given the treebank the hierarchies are independent, and a sweep
//! takes every token of each out of its restaurant and seats it again. What is exact with one shard, and what is not with
//! several, is that of [`Franchise`].

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::distribution::KeptHierarchy;
use super::job::{Part, Plan};
use super::lexicon::Lexicon;
use super::tokens::Dealt;
use crate::cluster::rng::{Generator, Purpose, generator};
use crate::cluster::sweep::{Model, Post, add_up};
use crate::restaurant::deal::Deal;
use crate::restaurant::franchise::Franchise;
use crate::restaurant::lone::{SHORTEST, Tails};
use crate::restaurant::parameters::Parameters;
use crate::restaurant::shard::{SavedShard, Shard};
use crate::restaurant::tree::{Paths, Sorted, Tree};

pub struct Trainer {
    plan: Plan,
    /// Which of the plan's contexts are trained here.
    contexts: Range<usize>,
    /// One for each of them.
    parts: Vec<Franchise>,
    /// By part and own shard: contexts of single tokens, if these were cut off.
    tails: Vec<BTreeMap<u32, Tails>>,
}

impl Trainer {
    /// The model of a worker with the tokens of its own shards, of all contexts.
    pub fn new(plan: &Plan, lexicon: &Lexicon, all: Vec<Dealt>) -> Trainer {
        let contexts = 0..plan.contexts.all.len();
        let plant = |(at, dealt): (usize, Dealt)| {
            let mut part = franchise(plan, lexicon, at, dealt.deal);
            for (shard, tokens) in dealt.tokens {
                part.add(shard, Tree::plant(&tokens), &tokens, tokens.count());
            }
            part
        };
        let parts: Vec<Franchise> = contexts.clone().zip(all).map(plant).collect();
        Trainer { plan: plan.clone(), contexts, tails: vec![BTreeMap::new(); parts.len()], parts }
    }

    /// The same of one context alone, as if it were trained with the others, with contexts of single tokens cut off
    /// ([`crate::restaurant::lone`]).
    pub fn of_one(plan: &Plan, lexicon: &Lexicon, at: usize, dealt: Dealt) -> Trainer {
        let mut part = franchise(plan, lexicon, at, dealt.deal);
        let mut tails = BTreeMap::new();
        for (shard, tokens) in dealt.tokens {
            let mut sorted = Sorted::new(&tokens);
            sorted.cut_lone(SHORTEST);
            let planted = Tree::plant_sorted(&tokens, sorted);
            tails.insert(shard, Tails::new(&tokens, &planted));
            part.add(shard, planted, &tokens, tokens.count());
        }
        Trainer { plan: plan.clone(), contexts: at..at + 1, parts: vec![part], tails: vec![tails] }
    }

    /// What was learned from the own shards' tokens, by context.
    pub fn hierarchies(self, lexicon: &Lexicon) -> Vec<KeptHierarchy> {
        let contexts = self.plan.contexts.all[self.contexts].iter().zip(self.parts).zip(self.tails);
        let keep = |(((part, _), franchise), mut tails): ((&(Part, _), Franchise), BTreeMap<u32, Tails>)| {
            let outcomes = lexicon.outcomes(*part, self.plan.model.system);
            let (shards, parameters) = franchise.into_shards();
            let keep = |(number, shard): (u32, Shard)| {
                KeptHierarchy::of(&shard.tree, &parameters, outcomes)
                    .with_tails(tails.remove(&number).unwrap_or_default())
            };
            let parts: Vec<KeptHierarchy> = shards.into_iter().map(keep).collect();
            match parts.len() {
                0 => KeptHierarchy::of(&Tree::default(), &parameters, outcomes),
                _ => KeptHierarchy::merge(parts),
            }
        };
        contexts.map(keep).collect()
    }

    /// What is wrong with the counts, if anything, where all shards are own ones.
    #[cfg(test)]
    pub fn fault(&self) -> Option<String> {
        self.parts.iter().find_map(Franchise::fault)
    }

    /// The generator of a part for a purpose.
    fn rng(&self, purpose: Purpose, part: usize, shard: u32, sweep: u64) -> Generator {
        let part = self.contexts.start + part;
        generator(self.plan.seed, purpose, u64::from(shard) << 8 | part as u64, sweep)
    }
}

/// The restaurants of a context.
fn franchise(plan: &Plan, lexicon: &Lexicon, context: usize, deal: Arc<Deal>) -> Franchise {
    let (part, elements) = &plan.contexts.all[context];
    let parameters = Parameters::new(elements.len(), plan.model.discount, plan.model.strength);
    let base = 1.0 / f64::from(lexicon.outcomes(*part, plan.model.system));
    Franchise::new(deal, parameters, base, None)
}

impl Model for Trainer {
    /// Of each part.
    type Saved = Vec<SavedShard>;
    type Shared = Vec<Parameters>;

    fn draw_shard(&mut self, number: u32, _: u32) {
        for part in 0..self.parts.len() {
            let mut rng = self.rng(Purpose::Initial, part, number, 0);
            self.parts[part].seat(number, &mut rng);
        }
    }

    fn load_shard(&mut self, number: u32, saved: Vec<SavedShard>) -> Result<(), String> {
        if saved.len() != self.parts.len() {
            return Err(format!("the checkpoint of shard {number} is not that of a parser"));
        }
        self.parts.iter_mut().zip(saved).try_for_each(|(part, saved)| part.load(number, saved))
    }

    fn save_shard(&self, number: u32) -> Vec<SavedShard> {
        self.parts.iter().map(|part| part.save(number)).collect()
    }

    /// Nothing: changes are known from the counts.
    fn count_shard(&mut self, _: u32) {}

    fn sweep_shard(&mut self, number: u32, sweeps: Range<u64>, _: u32) {
        for part in 0..self.parts.len() {
            for sweep in sweeps.clone() {
                let mut rng = self.rng(Purpose::Sweep, part, number, sweep);
                self.parts[part].sweep(number, &mut rng);
            }
        }
    }

    fn synchronise(&mut self, post: &mut Post<'_>) {
        self.parts.iter_mut().for_each(|part| part.synchronise(post));
    }

    /// The sums of auxiliary variables, by part and depth.
    fn statistics(&mut self, number: u32, sweep: u64) -> Vec<f64> {
        if !self.plan.learns_after(sweep) {
            return vec![];
        }
        let mut figures = vec![];
        for part in 0..self.parts.len() {
            let mut rng = self.rng(Purpose::Statistics, part, number, sweep);
            figures.extend(self.parts[part].statistics(number, &mut rng));
        }
        figures
    }

    fn learn(&mut self, statistics: &[Vec<f64>], sweep: u64) {
        let sums = add_up(statistics);
        if sums.is_empty() {
            return;
        }
        let mut rest = sums.as_slice();
        for (number, part) in self.parts.iter_mut().enumerate() {
            let (here, behind) = rest.split_at(part.statistics_count());
            rest = behind;
            let number = (self.contexts.start + number) as u64;
            let mut rng = generator(self.plan.seed, Purpose::Hyperparameters, sweep, number);
            part.learn(here, &self.plan.prior, &mut rng);
        }
    }

    /// Nothing: sentences are parsed when training has ended, by the worker that holds all of the model.
    fn evaluate(&mut self, _: u32, _: u64) -> Vec<f64> {
        vec![]
    }

    fn shared(&self) -> Vec<Parameters> {
        self.parts.iter().map(|part| part.parameters().clone()).collect()
    }

    fn set_shared(&mut self, shared: Vec<Parameters>) {
        self.parts.iter_mut().zip(shared).for_each(|(part, parameters)| part.set_parameters(parameters));
    }

    fn tokens(&self, number: u32) -> u64 {
        // A tag is generated with each word. One context alone has tokens of its own.
        let tags = self.plan.contexts.all[self.contexts.clone()].iter().position(|(part, _)| *part == Part::Tag);
        self.parts.get(tags.unwrap_or(0)).map_or(0, |part| part.tokens(number))
    }
}
