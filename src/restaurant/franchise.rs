//! One hierarchical Pitman-Yor process whose tokens are dealt to shards by their contexts: the state that the models of the
//! sweep driver keep for it.
//!
//! Which shard a token belongs to follows from the first elements of its context ([`super::deal`]), so that all customers of a
//! longer context are in one shard: its restaurant exists there alone, is always exact, and needs no synchronisation. Only
//! the **top** is shared ([`super::top`]): the root, and the restaurants of elements that are too frequent for one shard. With
//! one shard nothing is shared, and a sweep is the Gibbs sampler.
//!
//! Orders may be fixed or drawn ([`super::order`]). Contexts that one token alone has need no restaurants ([`super::lone`]).
//!
//! The caller's steps: [`Franchise::add`] each own shard; `seat` or `load` each own shard, `synchronise`; then repeatedly
//! `sweep` each own shard, `synchronise`, `statistics` of each own shard, `learn`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::deal::Deal;
use super::order::StopPrior;
use super::parameters::{Hyperprior, Parameters};
use super::seating::House;
use super::shard::{Sampler, SavedShard, Shard};
use super::top::{Top, View};
use super::tree::{Paths, Planted};
use crate::cluster::rng::Generator;
use crate::cluster::sweep::Post;

pub struct Franchise {
    sampler: Sampler,
    deal: Arc<Deal>,
    /// The own ones.
    shards: BTreeMap<u32, Shard>,
    top: Top,
}

impl Franchise {
    /// No shard yet. `base` is the probability of every outcome below the root; `stop` is the prior of stopping, if every
    /// token has an order of its own.
    pub fn new(deal: Arc<Deal>, parameters: Parameters, base: f64, stop: Option<StopPrior>) -> Franchise {
        let top = Top::new(&deal, stop.is_some());
        let sampler = Sampler::new(House::new(parameters, base), stop);
        Franchise { sampler, deal, shards: BTreeMap::new(), top }
    }

    /// Adds an own shard, planted from `paths`, of which the first `seated` are customers; of the others, p can be asked. Every
    /// own shard has to be added, even one without tokens.
    pub fn add(&mut self, number: u32, planted: Planted, paths: &impl Paths, seated: usize) {
        let view = View::new(&planted.tree, &self.deal);
        let shard = Shard::new(planted, paths, seated, view, self.sampler.stop.is_some());
        self.shards.insert(number, shard);
    }

    /// What the own shards have learned, by shard; the rest is dropped.
    pub fn into_shards(self) -> (BTreeMap<u32, Shard>, Parameters) {
        (self.shards, self.sampler.house.parameters)
    }

    pub fn shards(&self) -> impl Iterator<Item = &Shard> {
        self.shards.values()
    }

    /// How many restaurants all shards share.
    pub fn shared_contexts(&self) -> usize {
        self.top.restaurants()
    }

    pub fn parameters(&self) -> &Parameters {
        &self.sampler.house.parameters
    }

    pub fn set_parameters(&mut self, parameters: Parameters) {
        self.sampler.house.set_parameters(parameters);
    }

    /// Tokens of an own shard.
    pub fn tokens(&self, number: u32) -> u64 {
        self.shards.get(&number).map_or(0, Shard::tokens)
    }

    /// p of a dish of a shard, if the next customer comes to it.
    pub fn probability(&mut self, number: u32, leaf: u32) -> f64 {
        self.shards[&number].probability(leaf, &mut self.sampler)
    }

    /// What a dish of a shard is.
    pub fn outcome(&self, number: u32, dish: u32) -> u32 {
        self.shards[&number].tree.outcomes[dish as usize]
    }

    /// Seats the tokens of a shard for the first time.
    pub fn seat(&mut self, number: u32, rng: &mut Generator) {
        self.shards.get_mut(&number).expect("an own shard").seat(&mut self.sampler, rng);
    }

    /// Takes every token of a shard out and seats it again.
    pub fn sweep(&mut self, number: u32, rng: &mut Generator) {
        self.shards.get_mut(&number).expect("an own shard").sweep(&mut self.sampler, rng);
    }

    /// What a checkpoint keeps of a shard.
    pub fn save(&self, number: u32) -> SavedShard {
        SavedShard { owned: self.top.save(number), ..self.shards[&number].save() }
    }

    /// Takes a shard from a checkpoint, or says what does not fit.
    pub fn load(&mut self, number: u32, mut saved: SavedShard) -> Result<(), String> {
        self.top.load(number, std::mem::take(&mut saved.owned));
        let shard = self.shards.get_mut(&number).expect("an own shard");
        shard
            .load(saved)
            .map_err(|reason| format!("the checkpoint of shard {number} does not fit its tokens: {reason}"))
    }

    /// Brings together what all shards have changed in the top. Every worker calls this.
    pub fn synchronise(&mut self, post: &mut Post<'_>) {
        self.top.synchronise(&mut self.shards, post);
    }

    /// Draws the auxiliary variables of the restaurants and dishes of a shard, and of those of the top that it owns: their
    /// sums, by depth.
    pub fn statistics(&mut self, number: u32, rng: &mut Generator) -> Vec<f64> {
        let depths = self.sampler.house.parameters.discounts.len();
        let (shard, top) = (&self.shards[&number], &self.top);
        let count = |depth: usize, census: &mut _| {
            shard.count(depth, census);
            top.count(number, depth, census);
        };
        self.sampler.draw_statistics(depths, count, rng)
    }

    /// How many statistics there are.
    pub fn statistics_count(&self) -> usize {
        4 * self.sampler.house.parameters.discounts.len()
    }

    /// Draws discounts and strengths from the sums of the statistics of all shards.
    pub fn learn(&mut self, sums: &[f64], prior: &Hyperprior, rng: &mut Generator) {
        let parameters = self.parameters().redrawn(sums, prior, rng);
        self.set_parameters(parameters);
    }

    /// What is wrong with the counts after a synchronisation, if anything, if all shards are own ones.
    #[cfg(test)]
    pub fn fault(&self) -> Option<String> {
        let of_shard = |(number, shard): (&u32, &Shard)| Some(format!("shard {number}: {}", shard.fault()?));
        self.shards.iter().find_map(of_shard).or_else(|| self.top.fault(&self.shards))
    }
}
