//! Derivations that are drawn, as a model of the sweep driver: hierarchies that grow with the derivations, and whatever has
//! the sentences.
//!
//! Between two synchronisations a shard sees the others' counts as they were; every worker holds all restaurants.

use std::ops::Range;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::distribution::KeptHierarchy;
use super::hierarchies::Hierarchies;
use super::job::Plan;
use super::lexicon::Lexicon;
use crate::cluster::rng::{Generator, Purpose, generator};
use crate::cluster::sweep::{Model, Post};
use crate::restaurant::parameters::Parameters;

/// The sentences of the own shards, whose derivations are drawn.
pub trait Derived {
    /// The derivations of a shard, as a checkpoint keeps them.
    type Saved: Serialize + DeserializeOwned;

    /// Sets the draws of a stage apart from those of others.
    const STAGE: u64;

    /// Whether a shard is an own one.
    fn has(&self, number: u32) -> bool;

    /// Seats the customers of a shard's first derivations.
    fn seat(&mut self, number: u32, hierarchies: &mut Hierarchies, rng: &mut Generator);

    /// Draws the derivations of a shard anew.
    fn sweep(&mut self, number: u32, hierarchies: &mut Hierarchies, rng: &mut Generator);

    fn save(&self, number: u32) -> Self::Saved;

    /// Takes the derivations of a shard from a checkpoint, and notes their customers; says why they cannot be this shard's.
    fn load(&mut self, number: u32, saved: Self::Saved, hierarchies: &mut Hierarchies) -> Result<(), String>;

    fn tokens(&self, number: u32) -> u64;
}

pub struct Drawing<D> {
    plan: Plan,
    pub sentences: D,
    hierarchies: Hierarchies,
}

impl<D: Derived> Drawing<D> {
    pub fn new(plan: &Plan, sentences: D, hierarchies: Hierarchies) -> Drawing<D> {
        Drawing { plan: plan.clone(), sentences, hierarchies }
    }

    /// What was learned.
    pub fn hierarchies(&self, lexicon: &Lexicon) -> Vec<Arc<KeptHierarchy>> {
        self.hierarchies.kept(&self.plan, lexicon)
    }

    fn is_alone(&self) -> bool {
        self.plan.schedule.shards == 1
    }

    fn rng(&self, purpose: Purpose, shard: u32, sweep: u64) -> Generator {
        generator(self.plan.seed, purpose, u64::from(shard) | D::STAGE, sweep)
    }

    /// Notes what a shard has changed, and returns the counts to where they were.
    fn note(&mut self) {
        let is_alone = self.is_alone();
        self.hierarchies.note(is_alone);
    }
}

impl<D: Derived> Model for Drawing<D> {
    /// Derivations of the sentences; and of the first shard, tables of all hierarchies.
    type Saved = (D::Saved, Vec<Vec<u32>>);
    type Shared = Vec<Parameters>;

    fn draw_shard(&mut self, number: u32, _: u32) {
        let mut rng = self.rng(Purpose::Initial, number, 0);
        self.sentences.seat(number, &mut self.hierarchies, &mut rng);
        self.note();
    }

    fn load_shard(&mut self, number: u32, (derivations, tables): Self::Saved) -> Result<(), String> {
        let cannot = |why: String| format!("the checkpoint of shard {number} is not that of this parser: {why}");
        self.sentences.load(number, derivations, &mut self.hierarchies).map_err(cannot)?;
        match number {
            0 => self.hierarchies.load(tables).map_err(cannot),
            _ => Ok(()),
        }
    }

    fn save_shard(&self, number: u32) -> Self::Saved {
        (self.sentences.save(number), if number == 0 { self.hierarchies.save() } else { vec![] })
    }

    /// Nothing: what was drawn or loaded is noted already.
    fn count_shard(&mut self, _: u32) {}

    fn sweep_shard(&mut self, number: u32, sweeps: Range<u64>, _: u32) {
        for sweep in sweeps {
            let mut rng = self.rng(Purpose::Sweep, number, sweep);
            self.sentences.sweep(number, &mut self.hierarchies, &mut rng);
        }
        self.note();
    }

    fn synchronise(&mut self, post: &mut Post<'_>) {
        let is_alone = self.is_alone();
        self.hierarchies.synchronise(post, is_alone);
    }

    /// The sums of auxiliary variables, by part and depth.
    fn statistics(&mut self, number: u32, sweep: u64) -> Vec<f64> {
        if !self.plan.learns_after(sweep) || (self.is_alone() && !self.sentences.has(number)) {
            return vec![];
        }
        let mut rng = self.rng(Purpose::Statistics, number, sweep);
        self.hierarchies.statistics(number, self.plan.schedule.shards, &mut rng)
    }

    fn learn(&mut self, statistics: &[Vec<f64>], sweep: u64) {
        self.hierarchies.learn(&self.plan, statistics, sweep);
    }

    /// Nothing: sentences are parsed and predicted when training has ended.
    fn evaluate(&mut self, _: u32, _: u64) -> Vec<f64> {
        vec![]
    }

    fn shared(&self) -> Vec<Parameters> {
        self.hierarchies.parameters()
    }

    fn set_shared(&mut self, shared: Vec<Parameters>) {
        self.hierarchies.set_parameters(shared);
    }

    fn tokens(&self, number: u32) -> u64 {
        self.sentences.tokens(number)
    }
}
