//! The hierarchical Pitman-Yor language model, as a model of the sweep driver.
//!
//! ```text
//! G_h ~ PYP(a_|h|, b_|h|, G_h')      h' is h without its farthest word; below the empty context, all words are equal
//! w_i ~ G_h, h the words before       (fixed order)
//! n_i by stopping on the way down, w_i ~ G_h, h the n_i words before       (infinite order, `restaurant::order`)
//! ```
//!
//! A sweep takes every token out of its restaurant and seats it again.
//!
//! **What is exact and what is not.** Tokens are dealt to shards by their contexts ([`crate::restaurant::deal`]), so that a
//! restaurant exists in one shard alone and is exact, except for those of the shortest contexts, which all shards share
//! ([`crate::restaurant::top`]). With one shard, this is the Gibbs sampler. `scripts/results` has what several cost in
//! perplexity.
//!
//! **Memory.** In training, a token stops at the longest context that it shares with another token, in training or to test on
//! ([`crate::restaurant::lone`]); its rest is kept in a few bytes, and every context is there again in the model that is
//! written ([`crate::restaurant::counted`]).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::cluster::gather::Exchange;
use crate::cluster::own::Own;
use crate::cluster::rng::{Generator, Purpose, generator};
use crate::cluster::sweep::{Model, Post, add_up};
use crate::math::ln;
use crate::restaurant::counted::Counted;
use crate::restaurant::deal::Deal;
use crate::restaurant::franchise::Franchise;
use crate::restaurant::lone::Rests;
use crate::restaurant::order::StopPrior;
use crate::restaurant::parameters::{Hyperprior, Parameters};
use crate::restaurant::shard::{SavedShard, Shard};
use crate::restaurant::stream::{Stream, merge_all};
use crate::restaurant::tokens::Tokens;
use crate::restaurant::tree::{Paths, Sorted, Tree};

/// What the model follows from beside its tokens.
#[derive(Clone, Debug)]
pub struct Settings {
    pub seed: u64,
    /// The longest context.
    pub depth: usize,
    /// Number of outcomes.
    pub outcomes: u32,
    /// The outcome that stands for unknown words, whose predictions are counted apart.
    pub unknown: Option<u32>,
    /// Discount and strength of every depth, at first.
    pub discount: f64,
    pub strength: f64,
    /// None: they stay as they are.
    pub prior: Option<Hyperprior>,
    /// If every token has an order of its own.
    pub stop: Option<StopPrior>,
    pub burn_in: u64,
    /// Sweeps between posterior samples.
    pub sample_every: u64,
}

impl Settings {
    /// Whether the state after `sweep` is a posterior sample to be averaged over.
    pub fn is_sample(&self, sweep: u64) -> bool {
        sweep > self.burn_in && sweep.is_multiple_of(self.sample_every)
    }

    /// How many samples there are after `sweep`.
    pub fn samples(&self, sweep: u64) -> u64 {
        (sweep / self.sample_every).saturating_sub(self.burn_in / self.sample_every)
    }

    fn rng(&self, purpose: Purpose, shard: u32, sweep: u64) -> Generator {
        generator(self.seed, purpose, u64::from(shard), sweep)
    }
}

/// What the shards of a worker have learned.
pub enum Learned {
    /// The only shard of a model of fixed order.
    Whole(Counted),
    /// By shard.
    Parts(Vec<Stream>),
}

impl Learned {
    /// What all workers have learned, as one, on the first. Every worker calls this.
    pub fn merge(
        self,
        worker: Own,
        shards: u32,
        depths: usize,
        has_visits: bool,
        exchange: Exchange<'_>,
    ) -> Option<Counted> {
        match self {
            Learned::Whole(counted) => Some(counted),
            Learned::Parts(_) if shards == 1 && !has_visits => None, // the first worker has the whole
            Learned::Parts(own) => merge_all(worker, shards, own, depths, has_visits, exchange),
        }
    }
}

/// The tokens of a shard to test on.
#[derive(Debug, Default)]
struct Test {
    leaves: Vec<u32>,
    /// Sum of p over posterior samples.
    sums: Vec<f64>,
}

/// What a checkpoint keeps of a shard.
#[derive(Serialize, Deserialize)]
pub struct Saved {
    seating: SavedShard,
    sums: Vec<f64>,
}

/// Figures of test tokens: those of known words and ends of sentences, and those of unknown words.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HeldOut {
    /// Sum of ln p by the last sample.
    pub last_ln: [f64; 2],
    /// Sum of ln of the mean of p over the samples so far.
    pub mean_ln: [f64; 2],
    pub tokens: [f64; 2],
}

impl HeldOut {
    pub fn figures(&self) -> Vec<f64> {
        [self.last_ln, self.mean_ln, self.tokens].concat()
    }

    pub fn from_figures(figures: &[f64]) -> Option<HeldOut> {
        let pair = |at: usize| Some([*figures.get(at)?, *figures.get(at + 1)?]);
        Some(HeldOut { last_ln: pair(0)?, mean_ln: pair(2)?, tokens: pair(4)? })
    }
}

pub struct Hpylm {
    settings: Settings,
    pub(super) franchise: Franchise,
    tests: BTreeMap<u32, Test>,
    /// By own shard: what was cut off of contexts.
    rests: BTreeMap<u32, Rests>,
    /// The last sweep after which parameters were learned.
    sweep: u64,
}

impl Hpylm {
    /// No shard yet.
    pub fn new(settings: Settings, deal: Arc<Deal>) -> Hpylm {
        let parameters = Parameters::new(settings.depth, settings.discount, settings.strength);
        let base = 1.0 / f64::from(settings.outcomes);
        let franchise = Franchise::new(deal, parameters, base, settings.stop);
        Hpylm { settings, franchise, tests: BTreeMap::new(), rests: BTreeMap::new(), sweep: 0 }
    }

    /// Adds an own shard; those of its tokens behind the first `seated` are to test on. `is_kept`: what was learned of it will be
    /// asked for.
    pub fn add(&mut self, number: u32, tokens: Tokens, seated: usize, is_kept: bool) {
        let mut sorted = Sorted::new(&tokens);
        sorted.cut_lone(1);
        let planted = Tree::plant_sorted(&tokens, sorted);
        let mut leaves = vec![0; tokens.count() - seated];
        for (&token, &leaf) in planted.order.iter().zip(&planted.leaves) {
            if let Some(test) = (token as usize).checked_sub(seated) {
                leaves[test] = leaf;
            }
        }
        if is_kept {
            self.rests.insert(number, Rests::new(&tokens, &planted, seated));
        }
        self.tests.insert(number, Test { sums: vec![0.0; leaves.len()], leaves });
        self.franchise.add(number, planted, &tokens, seated);
    }

    /// Brings the tokens to test on into an order that depends on them alone.
    pub fn sort_tests(&mut self) {
        self.tests.values_mut().for_each(|test| test.leaves.sort_unstable());
    }

    /// How many contexts the training tokens of the own shards have, up to the longest order: without those that shards share,
    /// and these.
    pub fn contexts(&self) -> [u64; 2] {
        [self.franchise.shards().map(Shard::contexts).sum(), self.franchise.shared_contexts() as u64]
    }

    /// After the last sweep: by own shard, p of each token to test on, by the mean over the samples; nothing without
    /// samples.
    pub fn predictions(&self, last: u64) -> Vec<(u64, Vec<f64>)> {
        let samples = self.settings.samples(last);
        let mean = |test: &Test| test.sums.iter().filter(|_| samples > 0).map(|sum| sum / samples as f64).collect();
        self.tests.iter().map(|(&shard, test)| (u64::from(shard), mean(test))).collect()
    }

    /// What the own shards have learned. Shards are dropped one by one.
    pub fn into_learned(self) -> (Learned, Parameters) {
        let Hpylm { settings, franchise, mut rests, sweep, .. } = self;
        // With orders, what was learned has far fewer contexts than the tree: the two are better not in memory together.
        let is_alone = franchise.shared_contexts() == 0 && settings.stop.is_none();
        let (shards, parameters) = franchise.into_shards();
        let stop = settings.stop.as_ref();
        let mut learned = Learned::Parts(vec![]);
        for (number, shard) in shards {
            let rests = rests.remove(&number).expect("a shard that is kept");
            let mut rng = settings.rng(Purpose::Rests, number, sweep);
            match &mut learned {
                Learned::Parts(parts) if !is_alone => parts.push(Stream::of(&shard, &rests, stop, &mut rng)),
                _ => learned = Learned::Whole(Counted::of(&shard, &rests, stop, &mut rng)),
            }
        }
        (learned, parameters)
    }

    /// What is wrong with the counts, if anything, if all shards are own ones.
    #[cfg(test)]
    pub fn fault(&self) -> Option<String> {
        self.franchise.fault()
    }
}

impl Model for Hpylm {
    type Saved = Saved;
    type Shared = Parameters;

    fn draw_shard(&mut self, number: u32, _: u32) {
        let mut rng = self.settings.rng(Purpose::Initial, number, 0);
        self.franchise.seat(number, &mut rng);
    }

    fn load_shard(&mut self, number: u32, saved: Saved) -> Result<(), String> {
        let test = self.tests.get_mut(&number).filter(|test| test.sums.len() == saved.sums.len());
        test.ok_or_else(|| format!("the checkpoint of shard {number} has other tokens to test on"))?.sums = saved.sums;
        self.franchise.load(number, saved.seating)
    }

    fn save_shard(&self, number: u32) -> Saved {
        Saved { seating: self.franchise.save(number), sums: self.tests[&number].sums.clone() }
    }

    /// Nothing: changes are known from the counts.
    fn count_shard(&mut self, _: u32) {}

    fn sweep_shard(&mut self, number: u32, sweeps: Range<u64>, _: u32) {
        for sweep in sweeps {
            let mut rng = self.settings.rng(Purpose::Sweep, number, sweep);
            self.franchise.sweep(number, &mut rng);
        }
    }

    fn synchronise(&mut self, post: &mut Post<'_>) {
        self.franchise.synchronise(post);
    }

    /// The sums of auxiliary variables, by depth.
    fn statistics(&mut self, number: u32, sweep: u64) -> Vec<f64> {
        if self.settings.prior.is_none() {
            return vec![];
        }
        let mut rng = self.settings.rng(Purpose::Statistics, number, sweep);
        self.franchise.statistics(number, &mut rng)
    }

    fn learn(&mut self, statistics: &[Vec<f64>], sweep: u64) {
        self.sweep = sweep;
        let Some(prior) = self.settings.prior else { return };
        let mut rng = generator(self.settings.seed, Purpose::Hyperparameters, sweep, 0);
        self.franchise.learn(&add_up(statistics), &prior, &mut rng);
    }

    fn evaluate(&mut self, number: u32, sweep: u64) -> Vec<f64> {
        let (is_sample, samples) = (self.settings.is_sample(sweep), self.settings.samples(sweep));
        let Some(Test { leaves, sums }) = self.tests.get_mut(&number) else { return vec![] };
        let mut held_out = HeldOut::default();
        for (&leaf, sum) in leaves.iter().zip(sums) {
            let p = self.franchise.probability(number, leaf);
            if is_sample {
                *sum += p;
            }
            let mean = if samples > 0 { *sum / samples as f64 } else { p };
            let kind = usize::from(Some(self.franchise.outcome(number, leaf)) == self.settings.unknown);
            held_out.last_ln[kind] += ln(p);
            held_out.mean_ln[kind] += ln(mean);
            held_out.tokens[kind] += 1.0;
        }
        held_out.figures()
    }

    /// The number of samples, discounts, strengths.
    fn snapshot(&self) -> Vec<f64> {
        let Parameters { discounts, strengths } = self.franchise.parameters();
        [&[self.settings.samples(self.sweep) as f64], discounts.as_slice(), strengths.as_slice()].concat()
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
