//! The job file of a topics job.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::cluster::engine::Cluster;
use crate::cluster::sweep::Schedule;
use crate::corpus::documents::{Format, names_from_paths};
use crate::corpus::text::Encoding;
use crate::corpus::tokens::Tokenisation;
use crate::error::{Error, Result};
use crate::job::corpus::{Corpus, CorpusSettings, Test};
use crate::job::file::Document;
use crate::lm::job::Order;
use crate::topics::left_to_right::MOST_PARTICLES;
use crate::topics::ngram::counts::Form;
use crate::topics::prior::PRIOR_RANGE;

/// The largest number of synchronisations per sweep, and of sweeps between draws of hyperparameters.
const MOST_SYNCS: u32 = 10_000;

/// The job file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct TopicsJob {
    pub kind: String,
    pub seed: u64,
    /// Logical shards: part of what the result follows from.
    pub shards: u32,
    pub out: String,
    pub corpus: CorpusSettings,
    pub model: ModelSettings,
    pub sampler: SamplerSettings,
    pub evaluation: EvaluationSettings,
    pub checkpoint: CheckpointSettings,
}

impl Default for TopicsJob {
    fn default() -> TopicsJob {
        TopicsJob {
            kind: "topics".to_string(),
            seed: 1,
            shards: 4,
            out: String::new(),
            corpus: CorpusSettings::default(),
            model: ModelSettings::default(),
            sampler: SamplerSettings::default(),
            evaluation: EvaluationSettings::default(),
            checkpoint: CheckpointSettings::default(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelSettings {
    #[serde(rename = "type")]
    pub model: ModelType,
    pub topics: usize,
    /// Words of an n-gram, in models of n-grams, or "infinite".
    pub order: toml::Value,
    /// The longest order where the order is infinite.
    pub max_order: usize,
    /// alpha and beta of the Beta prior of stopping, where the order is infinite.
    pub stop_prior: [f64; 2],
    /// Sum of the document prior alpha, at first.
    pub strength: f64,
    /// Whether alpha is learned.
    pub learn_alpha: bool,
    /// Prior of a word in a topic.
    pub beta: f64,
    /// Of the topics, where they rescale an n-gram model.
    pub weight: f64,
    /// As the sampler's settings have it: see [`SamplerSettings`].
    #[serde(skip)]
    pub rounds: Rounds,
}

/// How often shards are synchronised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounds {
    pub sync_every: u64,
    pub syncs_per_sweep: u32,
}

impl Rounds {
    /// In how many parts a sweep is cut: a shard that is alone has nobody to synchronise with.
    pub fn parts(self, shards: u32) -> u32 {
        if shards > 1 { self.syncs_per_sweep } else { 1 }
    }
}

impl Default for Rounds {
    fn default() -> Rounds {
        let SamplerSettings { sync_every, syncs_per_sweep, .. } = SamplerSettings::default();
        Rounds { sync_every, syncs_per_sweep }
    }
}

impl Default for ModelSettings {
    fn default() -> ModelSettings {
        ModelSettings {
            model: ModelType::Lda,
            topics: 50,
            order: toml::Value::Integer(3),
            max_order: 8,
            stop_prior: [1.0, 1.0],
            strength: 5.0,
            learn_alpha: true,
            beta: 0.01,
            weight: 0.7,
            rounds: Rounds::default(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelType {
    Lda,
    /// An n-gram model for each topic.
    Hpytm,
    /// The same, and a global n-gram model that all of them lean on.
    Hierarchical,
    /// The same and a global n-gram model, with a coin for each context.
    Switching,
    /// One n-gram model, whose words LDA weighs.
    Rescaling,
}

impl ModelSettings {
    /// Whether tokens are n-grams, and ends of sentences are among them.
    pub fn is_ngram(&self) -> bool {
        self.model != ModelType::Lda
    }

    /// How topics and a global model come together, in models of n-grams.
    pub fn form(&self) -> Form {
        match self.model {
            ModelType::Lda | ModelType::Hpytm | ModelType::Rescaling => Form::Hpytm,
            ModelType::Hierarchical => Form::Hierarchical,
            ModelType::Switching => Form::Switching,
        }
    }

    /// The model's name, as the paper has it.
    pub fn name(&self) -> &'static str {
        match self.model {
            ModelType::Lda => "LDA",
            ModelType::Hpytm => "HPYTM",
            ModelType::Hierarchical => "HIERARCHICAL",
            ModelType::Switching => "SWITCHING",
            ModelType::Rescaling => "RESCALING",
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct SamplerSettings {
    pub sweeps: u64,
    /// Sweeps between draws of hyperparameters.
    pub sync_every: u64,
    /// Parts that a sweep is cut into if there are several shards, with a synchronisation after each.
    pub syncs_per_sweep: u32,
    /// Whether the table-based sampler is used too, in models of n-grams, and in every how many sweeps it follows the
    /// token-based one.
    pub tables: bool,
    pub tables_every: u64,
    /// How many of the sweeps, the last ones, also pass over the n-gram model that topics rescale.
    pub ngram_sweeps: u64,
}

impl Default for SamplerSettings {
    fn default() -> SamplerSettings {
        SamplerSettings {
            sweeps: 200,
            sync_every: 1,
            syncs_per_sweep: 8,
            tables: true,
            tables_every: 1,
            ngram_sweeps: 100,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EvaluationSettings {
    /// Sweeps between evaluations; 0: only at the end.
    pub every: u64,
    /// Sweeps before the first evaluation that counts as a posterior sample, in models of n-grams.
    pub burn_in: u64,
    pub particles: usize,
    /// Words between resamplings of a particle's earlier topics.
    pub resample: usize,
}

impl Default for EvaluationSettings {
    fn default() -> EvaluationSettings {
        EvaluationSettings { every: 0, burn_in: 0, particles: 10, resample: 10 }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct CheckpointSettings {
    /// Sweeps between checkpoints; 0: only when stopped, and at the end.
    pub every: u64,
}

impl Default for CheckpointSettings {
    fn default() -> CheckpointSettings {
        CheckpointSettings { every: 20 }
    }
}

/// The job, resolved.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    /// Training files, then test files.
    pub files: Vec<PathBuf>,
    pub training_files: usize,
    pub test: Test,
    pub format: Format,
    pub encoding: Encoding,
    pub tokenisation: Tokenisation,
    pub min_count: u64,
    pub model: ModelSettings,
    pub order: Order,
    /// In every how many sweeps blocks of tables move, in models of n-grams; 0: in none.
    pub tables_every: u64,
    /// Synchronisations in a sweep, if there are several shards.
    pub syncs_per_sweep: u32,
    pub evaluation: EvaluationSettings,
    pub schedule: Schedule,
    /// Sweeps before the first one of the n-gram model that topics rescale.
    pub before_ngrams: u64,
}

impl TopicsJob {
    /// The same job with paths that do not depend on where its file lies.
    pub fn with_whole_paths(mut self, document: &Document) -> TopicsJob {
        self.corpus.make_paths_whole(document);
        if !self.out.is_empty() {
            self.out = document.whole_path(&self.out);
        }
        self
    }

    /// Checks the settings and finds the files.
    pub fn plan(&self, document: &Document) -> Result<Plan> {
        let refuse = |message: String| Error::Usage(format!("{}: {message}", document.name()));
        let require = |holds: bool, message: &str| if holds { Ok(()) } else { Err(refuse(message.to_string())) };
        require(self.sampler.sync_every > 0, "sampler.sync_every is 0; it has to be at least 1")?;
        require(
            (1..=MOST_SYNCS).contains(&self.sampler.syncs_per_sweep)
                && self.sampler.sync_every <= u64::from(MOST_SYNCS),
            "sampler.syncs_per_sweep has to be between 1 and 10000, sampler.sync_every at most 10000",
        )?;
        require(
            !self.model.is_ngram() || self.sampler.syncs_per_sweep <= 256,
            "sampler.syncs_per_sweep has to be between 1 and 256 for models of n-grams",
        )?;
        require(
            self.sampler.tables_every > 0,
            "sampler.tables_every is 0; without the table-based sampler, tables = false",
        )?;
        let order = Order::parse(&self.model.order, self.model.max_order, self.model.stop_prior).map_err(refuse)?;
        require(
            self.model.stop_prior.iter().all(|&value| value > 0.0 && value.is_finite()),
            "model.stop_prior is two positive numbers",
        )?;
        require((1..=65_534).contains(&self.model.topics), "model.topics has to be between 1 and 65534")?;
        require(
            (1e-6..=1e12).contains(&self.model.strength) && PRIOR_RANGE.contains(&self.model.beta),
            "model.strength has to be between 1e-6 and 1e12, model.beta between 1e-12 and 1e12",
        )?;
        require(
            (0.0..=2.0).contains(&self.model.weight),
            "model.weight has to be between 0 (n-grams alone) and 2; 0.7 is usual",
        )?;
        let is_rescaling = self.model.model == ModelType::Rescaling;
        require(
            !is_rescaling || self.sampler.ngram_sweeps > 0,
            "sampler.ngram_sweeps is 0; the n-gram model has to be swept at least once",
        )?;
        require(
            (1..=MOST_PARTICLES).contains(&self.evaluation.particles),
            &format!("evaluation.particles has to be between 1 and {MOST_PARTICLES}"),
        )?;
        require(self.evaluation.resample > 0, "evaluation.resample is 0; it has to be at least 1")?;
        let Corpus { files, training_files, test, format, encoding, tokenisation, min_count } =
            self.corpus.resolve(document)?;
        Ok(Plan {
            seed: self.seed,
            files,
            training_files,
            test,
            format,
            encoding,
            tokenisation,
            min_count,
            model: ModelSettings {
                rounds: Rounds { sync_every: self.sampler.sync_every, syncs_per_sweep: self.sampler.syncs_per_sweep },
                ..self.model.clone()
            },
            order,
            tables_every: if self.sampler.tables { self.sampler.tables_every } else { 0 },
            syncs_per_sweep: self.sampler.syncs_per_sweep,
            evaluation: self.evaluation,
            schedule: Schedule {
                shards: self.shards,
                sweeps: self.sampler.sweeps,
                sync_every: self.sampler.sync_every,
                evaluate_every: self.evaluation.every,
                checkpoint_every: self.checkpoint.every,
            },
            before_ngrams: match is_rescaling {
                true => self.sampler.sweeps.saturating_sub(self.sampler.ngram_sweeps),
                false => 0,
            },
        })
    }
}

impl Plan {
    /// The plan, for people.
    pub fn describe(&self, cluster: &Cluster) -> String {
        let mut text = format!(
            "topics job, seed {}: {}{} with {} topics, {} sweeps over {} shards, synchronised {}\n",
            self.seed,
            if self.model.is_ngram() { self.order.name() + " " } else { String::new() },
            self.model.name(),
            self.model.topics,
            self.schedule.sweeps,
            self.schedule.shards,
            match self.model.is_ngram() {
                true => format!("every {}", self.schedule.sync_every),
                false => format!("{} times per sweep", self.model.rounds.parts(self.schedule.shards)),
            }
        );
        let mut bytes = 0;
        for (number, path) in self.files.iter().enumerate() {
            let what = if number < self.training_files { "train" } else { "test" };
            bytes += std::fs::metadata(path).map_or(0, |metadata| metadata.len());
            text += &format!("  {what}: {}\n", path.display());
        }
        text += &format!(
            "{} workers in {} processes; {:.1} MB of files as stored\n",
            cluster.workers(),
            cluster.processes(),
            bytes as f64 / 1e6
        );
        text
    }

    /// Hash of the settings that the result follows from: not of how many workers, sweeps or checkpoints there are.
    pub fn fingerprint(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        let settings = (env!("CARGO_PKG_VERSION"), self.seed, &self.test, &self.format, &self.encoding);
        let syncs = (self.schedule.sync_every, self.syncs_per_sweep);
        let sampler = (self.tables_every, self.before_ngrams, self.schedule.shards, syncs);
        let model = (&self.tokenisation, self.min_count, &self.model, sampler);
        hasher.update(format!("{settings:?} {model:?} {}", self.training_files).as_bytes());
        for (id, label) in names_from_paths(self.format, &self.files) {
            hasher.update(format!("{id:?} {label:?}").as_bytes());
        }
        *hasher.finalize().as_bytes()
    }
}
