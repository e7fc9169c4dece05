//! The job file of a language-model job.

use serde::{Deserialize, Serialize};

use super::hpylm::Settings;
use crate::cluster::engine::Cluster;
use crate::cluster::sweep::Schedule;
use crate::corpus::vocabulary::UNKNOWN;
use crate::error::{Error, Result};
use crate::job::corpus::{Corpus, CorpusSettings};
use crate::job::file::Document;
use crate::restaurant::order::StopPrior;
use crate::restaurant::parameters::Hyperprior;
use crate::restaurant::seating::DEEPEST;
use crate::topics::job::CheckpointSettings;

/// The job file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct LmJob {
    pub kind: String,
    pub seed: u64,
    /// Logical shards: part of what the result follows from.
    pub shards: u32,
    pub out: String,
    pub corpus: CorpusSettings,
    pub model: ModelSettings,
    pub sampler: SamplerSettings,
    pub checkpoint: CheckpointSettings,
}

impl Default for LmJob {
    fn default() -> LmJob {
        LmJob {
            kind: "lm".to_string(),
            seed: 1,
            shards: 1,
            out: String::new(),
            corpus: CorpusSettings::default(),
            model: ModelSettings::default(),
            sampler: SamplerSettings::default(),
            checkpoint: CheckpointSettings::default(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelSettings {
    /// A number of words, or "infinite".
    pub order: toml::Value,
    /// The longest order where the order is infinite.
    pub max_order: usize,
    /// Discount and strength of every depth, at first.
    pub discount: f64,
    pub strength: f64,
    /// Whether they are learned.
    pub learn: bool,
    /// alpha and beta of the Beta prior of discounts.
    pub discount_prior: [f64; 2],
    /// Shape and rate of the Gamma prior of strengths.
    pub strength_prior: [f64; 2],
    /// alpha and beta of the Beta prior of stopping, where the order is infinite.
    pub stop_prior: [f64; 2],
}

impl Default for ModelSettings {
    fn default() -> ModelSettings {
        ModelSettings {
            order: toml::Value::Integer(5),
            max_order: 8,
            discount: 0.5,
            strength: 1.0,
            learn: true,
            discount_prior: [1.0, 1.0],
            strength_prior: [1.0, 1.0],
            stop_prior: [1.0, 1.0],
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SamplerSettings {
    pub sweeps: u64,
    /// Sweeps before the first posterior sample.
    pub burn_in: u64,
    /// Sweeps between posterior samples, and between evaluations.
    pub sample_every: u64,
    pub sync_every: u64,
}

impl Default for SamplerSettings {
    fn default() -> SamplerSettings {
        SamplerSettings { sweeps: 200, burn_in: 50, sample_every: 5, sync_every: 1 }
    }
}

/// How long contexts are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    Fixed(usize),
    /// Every token has its own, up to the longest.
    Infinite {
        longest: usize,
        stop: StopPrior,
    },
}

impl Order {
    /// What a job file says of `model.order` and its kin, or what is wrong with it.
    pub fn parse(order: &toml::Value, max_order: usize, stop_prior: [f64; 2]) -> std::result::Result<Order, String> {
        let deepest = DEEPEST + 1;
        match order {
            toml::Value::Integer(order) if (1..=deepest as i64).contains(order) => Ok(Order::Fixed(*order as usize)),
            toml::Value::String(word) if word == "infinite" => {
                if !(1..=deepest).contains(&max_order) {
                    return Err("model.max_order has to be between 1 and 32".to_string());
                }
                let [alpha, beta] = stop_prior;
                Ok(Order::Infinite { longest: max_order, stop: StopPrior { alpha, beta } })
            }
            other => Err(format!("model.order = {other} is not a number from 1 to 32, nor \"infinite\"")),
        }
    }

    /// The prior of stopping, where the order is infinite.
    pub fn stop(&self) -> Option<StopPrior> {
        match self {
            Order::Fixed(_) => None,
            Order::Infinite { stop, .. } => Some(*stop),
        }
    }

    /// The longest n-gram.
    pub fn longest(&self) -> usize {
        match self {
            Order::Fixed(order) => *order,
            Order::Infinite { longest, .. } => *longest,
        }
    }

    /// How it is said: "5-gram", "infinite-order (at most 8)".
    pub fn name(&self) -> String {
        match self {
            Order::Fixed(order) => format!("{order}-gram"),
            Order::Infinite { longest, .. } => format!("infinite-order (at most {longest})"),
        }
    }
}

/// The job, resolved.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub corpus: Corpus,
    pub order: Order,
    pub discount: f64,
    pub strength: f64,
    pub learn: bool,
    pub prior: Hyperprior,
    pub burn_in: u64,
    pub schedule: Schedule,
}

impl LmJob {
    /// The same job with paths that do not depend on where its file lies.
    pub fn with_whole_paths(mut self, document: &Document) -> LmJob {
        self.corpus.make_paths_whole(document);
        if !self.out.is_empty() {
            self.out = document.whole_path(&self.out);
        }
        self
    }

    /// Checks the settings and finds the files.
    pub fn plan(&self, document: &Document) -> Result<Plan> {
        let refuse = |message: &str| Error::Usage(format!("{}: {message}", document.name()));
        let require = |holds: bool, message: &str| if holds { Ok(()) } else { Err(refuse(message)) };
        let (model, sampler) = (&self.model, &self.sampler);
        require(sampler.sync_every > 0, "sampler.sync_every is 0; it has to be at least 1")?;
        require(sampler.sample_every > 0, "sampler.sample_every is 0; it has to be at least 1")?;
        require(
            sampler.sample_every.is_multiple_of(sampler.sync_every),
            "sampler.sample_every has to be a multiple of sampler.sync_every: samples are taken where shards agree",
        )?;
        require((0.0..1.0).contains(&model.discount), "model.discount has to be at least 0 and below 1")?;
        require(model.strength > 0.0, "model.strength has to be positive")?;
        let priors = [model.discount_prior, model.strength_prior, model.stop_prior];
        require(
            priors.iter().flatten().all(|&value| value > 0.0 && value.is_finite()),
            "model.discount_prior, strength_prior and stop_prior are two positive numbers each",
        )?;
        let order = Order::parse(&model.order, model.max_order, model.stop_prior).map_err(|e| refuse(&e))?;
        Ok(Plan {
            seed: self.seed,
            corpus: self.corpus.resolve(document)?,
            order,
            discount: model.discount,
            strength: model.strength,
            learn: model.learn,
            prior: Hyperprior { discount: model.discount_prior, strength: model.strength_prior },
            burn_in: sampler.burn_in,
            schedule: Schedule {
                shards: self.shards,
                sweeps: sampler.sweeps,
                sync_every: sampler.sync_every,
                evaluate_every: sampler.sample_every,
                checkpoint_every: self.checkpoint.every,
            },
        })
    }
}

impl Plan {
    /// The longest context.
    pub fn depth(&self) -> usize {
        self.order.longest() - 1
    }

    /// What the model follows from beside its tokens.
    pub fn settings(&self, outcomes: u32) -> Settings {
        Settings {
            seed: self.seed,
            depth: self.depth(),
            outcomes,
            unknown: Some(UNKNOWN),
            discount: self.discount,
            strength: self.strength,
            prior: self.learn.then_some(self.prior),
            stop: self.order.stop(),
            burn_in: self.burn_in,
            sample_every: self.schedule.evaluate_every,
        }
    }

    /// How many posterior samples there will be.
    pub fn samples(&self) -> u64 {
        self.settings(1).samples(self.schedule.sweeps)
    }

    /// The plan, for people.
    pub fn describe(&self, cluster: &Cluster) -> String {
        let schedule = &self.schedule;
        let samples = self.samples();
        let mut text = format!(
            "language-model job, seed {}: {} HPYLM, {} sweeps over {} shards, synchronised every {}; {samples} samples after \
             a burn-in of {}\n",
            self.seed,
            self.order.name(),
            schedule.sweeps,
            schedule.shards,
            schedule.sync_every,
            self.burn_in
        );
        text += &self.corpus.describe(cluster);
        text
    }

    /// Hash of the settings that the result follows from: not of how many workers, sweeps or checkpoints there are.
    pub fn fingerprint(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        let corpus = &self.corpus;
        let text = (&corpus.test, &corpus.format, &corpus.encoding, &corpus.tokenisation, corpus.min_count);
        let model = (&self.order, self.discount, self.strength, self.learn, &self.prior);
        let sampler = (self.seed, self.burn_in, self.schedule.shards, self.schedule.sync_every);
        let samples = self.schedule.evaluate_every;
        let version = env!("CARGO_PKG_VERSION");
        hasher.update(format!("lm {version} {text:?} {model:?} {sampler:?} {samples}").as_bytes());
        hasher.update(&(corpus.training_files as u64).to_le_bytes());
        *hasher.finalize().as_bytes()
    }
}
