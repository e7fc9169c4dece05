//! A hierarchical Pitman-Yor language model of one order, as a model of the sweep driver.
//!
//! Its tokens are dealt to shards by their contexts, as those of the parser are ([`crate::restaurant::franchise`]), and
//! contexts that one token alone has are cut off ([`crate::restaurant::lone`]): so no worker holds all of it. Tokens to test
//! on are planted with the others, and never seated: they find the restaurants that their contexts share with training tokens;
//! below these they would be the only ones, where p is that of the parent. With one shard this is the Gibbs sampler; with
//! several, what is common to all is synchronised after each sweep.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::cluster::rng::{Generator, Purpose, generator};
use crate::cluster::sweep::{Model, Post, add_up};
use crate::lm::hpylm::HeldOut;
use crate::math::ln;
use crate::parser::tokens::Tokens;
use crate::restaurant::franchise::Franchise;
use crate::restaurant::parameters::{Hyperprior, Parameters};
use crate::restaurant::tree::{Paths, Sorted, Tree};

/// What the model follows from beside its tokens, and the shards that are a worker's own.
pub struct Plan {
    pub seed: u64,
    /// None: discounts and strengths stay as they are.
    pub prior: Option<Hyperprior>,
    pub burn_in: u64,
    pub shards: u32,
    pub own: Vec<u32>,
}

/// The tokens to test on of a shard, in the order of the text.
#[derive(Default)]
struct Test {
    leaves: Vec<u32>,
    /// Sum of p over posterior samples.
    sums: Vec<f64>,
}

/// The hierarchical Pitman-Yor language model of one order, as a model of the sweep driver.
pub struct Hpylm {
    plan: Plan,
    pub(super) franchise: Franchise,
    tests: BTreeMap<u32, Test>,
    /// The last sweep after which parameters were learned.
    sweep: u64,
}

/// What a checkpoint keeps of a shard.
#[derive(Serialize, Deserialize)]
pub struct Saved {
    tables: Vec<u32>,
    sums: Vec<f64>,
}

impl Hpylm {
    /// The last of `tokens` are to test on, and of the shards `asked`.
    pub fn new(plan: Plan, tokens: Tokens, asked: Vec<u32>, parameters: Parameters, base: f64) -> Hpylm {
        let seated = tokens.count() - asked.len();
        let mut sorted = Sorted::new(&tokens);
        sorted.cut_lone();
        let planted = Tree::plant_sorted(&tokens, sorted);
        drop(tokens); // they are large, and no longer needed
        let mut leaves = vec![0; asked.len()];
        for (&token, &leaf) in planted.order.iter().zip(&planted.leaves) {
            if let Some(test) = (token as usize).checked_sub(seated) {
                leaves[test] = leaf;
            }
        }
        let mut tests: BTreeMap<u32, Test> = plan.own.iter().map(|&shard| (shard, Test::default())).collect();
        for (shard, leaf) in asked.into_iter().zip(leaves) {
            tests.get_mut(&shard).expect("tokens of own shards").leaves.push(leaf);
        }
        tests.values_mut().for_each(|test| test.sums = vec![0.0; test.leaves.len()]);
        let franchise = Franchise::of_first(seated, planted, &plan.own, plan.shards, parameters, base);
        Hpylm { plan, franchise, tests, sweep: 0 }
    }

    fn samples(&self, sweep: u64) -> u64 {
        sweep.saturating_sub(self.plan.burn_in)
    }

    /// After the last sweep: by own shard, p of each token to test on, by the mean over the samples; nothing without
    /// samples.
    pub fn predictions(&self, last: u64) -> Vec<(u64, Vec<f64>)> {
        let samples = self.samples(last);
        let mean = |test: &Test| test.sums.iter().filter(|_| samples > 0).map(|sum| sum / samples as f64).collect();
        self.tests.iter().map(|(&shard, test)| (u64::from(shard), mean(test))).collect()
    }

    fn rng(&self, purpose: Purpose, shard: u32, sweep: u64) -> Generator {
        generator(self.plan.seed, purpose, u64::from(shard), sweep)
    }
}

impl Model for Hpylm {
    type Saved = Saved;
    type Shared = Parameters;

    fn draw_shard(&mut self, number: u32, _: u32) {
        let mut rng = self.rng(Purpose::Initial, number, 0);
        self.franchise.seat(number, &mut rng);
        self.franchise.note();
    }

    fn load_shard(&mut self, number: u32, saved: Saved) -> Result<(), String> {
        let test = self.tests.get_mut(&number).filter(|test| test.sums.len() == saved.sums.len());
        test.ok_or_else(|| format!("the checkpoint of shard {number} has other tokens to test on"))?.sums = saved.sums;
        self.franchise.load(number, saved.tables);
        Ok(())
    }

    fn save_shard(&self, number: u32) -> Saved {
        let sums = self.tests.get(&number).map_or(vec![], |test| test.sums.clone());
        Saved { tables: self.franchise.save(number), sums }
    }

    /// Nothing: what was drawn or loaded is noted already.
    fn count_shard(&mut self, _: u32) {}

    fn sweep_shard(&mut self, number: u32, sweeps: Range<u64>, _: u32) {
        for sweep in sweeps {
            let mut rng = self.rng(Purpose::Sweep, number, sweep);
            self.franchise.sweep(number, &mut rng);
        }
        self.franchise.note();
    }

    fn synchronise(&mut self, post: &mut Post<'_>) {
        self.franchise.synchronise(post);
    }

    fn statistics(&mut self, number: u32, sweep: u64) -> Vec<f64> {
        if self.plan.prior.is_none() {
            return vec![];
        }
        let mut rng = self.rng(Purpose::Statistics, number, sweep);
        self.franchise.statistics(number, &mut rng)
    }

    fn learn(&mut self, statistics: &[Vec<f64>], sweep: u64) {
        self.sweep = sweep;
        let Some(prior) = self.plan.prior else { return };
        let mut rng = generator(self.plan.seed, Purpose::Hyperparameters, sweep, 0);
        self.franchise.learn(&add_up(statistics), &prior, &mut rng);
    }

    fn evaluate(&mut self, number: u32, sweep: u64) -> Vec<f64> {
        let samples = self.samples(sweep);
        let Some(Test { leaves, sums }) = self.tests.get_mut(&number) else { return vec![] };
        let mut held_out = HeldOut::default();
        for (&leaf, sum) in leaves.iter().zip(sums) {
            let p = self.franchise.probability(leaf);
            if samples > 0 {
                *sum += p;
            }
            held_out.last_ln[0] += ln(p);
            held_out.mean_ln[0] += ln(if samples > 0 { *sum / samples as f64 } else { p });
            held_out.tokens[0] += 1.0;
        }
        held_out.figures()
    }

    /// The number of samples, discounts, strengths.
    fn snapshot(&self) -> Vec<f64> {
        let Parameters { discounts, strengths } = self.franchise.parameters();
        [&[self.samples(self.sweep) as f64], discounts.as_slice(), strengths.as_slice()].concat()
    }

    fn shared(&self) -> Parameters {
        self.franchise.parameters().clone()
    }

    fn set_shared(&mut self, shared: Parameters) {
        self.franchise.set_parameters(shared);
    }

    fn tokens(&self, number: u32) -> u64 {
        self.franchise.tokens(number)
    }
}
