//! The job file of an adaptor job.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::grammar::MOST_WEIGHT;
use super::reader::LONGEST_FILE;
use super::strings::{Format, Reading, Symbols};
use crate::cluster::engine::Cluster;
use crate::cluster::sweep::Schedule;
use crate::corpus::open::read_text;
use crate::corpus::text::Encoding;
use crate::error::{Error, Result};
use crate::job::corpus::expand_all;
use crate::job::file::Document;
use crate::restaurant::parameters::Hyperprior;
use crate::topics::job::CheckpointSettings;

/// The job file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct AdaptorJob {
    pub kind: String,
    pub seed: u64,
    /// Logical shards: part of what the result follows from.
    pub shards: u32,
    pub out: String,
    pub corpus: CorpusSettings,
    pub grammar: GrammarSettings,
    pub sampler: SamplerSettings,
    pub evaluation: EvaluationSettings,
    pub checkpoint: CheckpointSettings,
}

impl Default for AdaptorJob {
    fn default() -> AdaptorJob {
        AdaptorJob {
            kind: "adaptor".to_string(),
            seed: 1,
            shards: 1,
            out: String::new(),
            corpus: CorpusSettings::default(),
            grammar: GrammarSettings::default(),
            sampler: SamplerSettings::default(),
            evaluation: EvaluationSettings::default(),
            checkpoint: CheckpointSettings::default(),
        }
    }
}

/// Strings: files or globs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CorpusSettings {
    pub train: Vec<String>,
    /// The same lines with blanks between words; where symbols are separated by blanks, `|` between words.
    pub gold: Vec<String>,
    pub symbols: Symbols,
    pub format: Format,
    pub encoding: Encoding,
    pub lowercase: bool,
    pub cut_at_punctuation: bool,
    /// A file of words at which lines are cut.
    pub cut_at: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GrammarSettings {
    pub file: String,
    /// The start symbol; empty: the parent of the first rule.
    pub start: String,
    /// Of rules without a weight.
    pub weight: f64,
    /// The strength of adaptors for which none is given.
    pub b: f64,
}

impl Default for GrammarSettings {
    fn default() -> GrammarSettings {
        GrammarSettings { file: String::new(), start: String::new(), weight: 1.0, b: 1.0 }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Metropolis-Hastings over parses.
    #[default]
    Sampling,
    /// Variational Bayes, for grammars without adapted nonterminals.
    Variational,
}

/// How the first parses are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// One after the other: each string sees those before it.
    #[default]
    Incremental,
    /// All from the prior.
    Batch,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SamplerSettings {
    pub method: Method,
    pub sweeps: u64,
    pub sync_every: u64,
    /// Parts that a sweep over a shard is cut into, with a synchronisation after each; where there are several shards.
    pub syncs_per_sweep: u32,
    pub start: Start,
    /// Whether the trees of tables are drawn anew in every sweep.
    pub tables: bool,
    /// Whether a and b are learned.
    pub learn: bool,
    /// alpha and beta of the Beta prior of a.
    pub a_prior: [f64; 2],
    /// Shape and rate of the Gamma prior of b.
    pub b_prior: [f64; 2],
    /// The temperature at first; it falls to 1, evenly, over so many sweeps.
    pub temperature: f64,
    pub anneal: u64,
}

impl Default for SamplerSettings {
    fn default() -> SamplerSettings {
        SamplerSettings {
            method: Method::default(),
            sweeps: 200,
            sync_every: 1,
            syncs_per_sweep: 1,
            start: Start::default(),
            tables: true,
            learn: true,
            a_prior: [1.0, 1.0],
            b_prior: [0.1, 0.1],
            temperature: 1.0,
            anneal: 0,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EvaluationSettings {
    /// The nonterminal whose strings are the words of a segmentation.
    pub words: String,
    /// Sweeps between evaluations.
    pub every: u64,
    /// Sweeps before the first sample that is kept.
    pub burn_in: u64,
    /// Sweeps between samples that the model keeps.
    pub sample_every: u64,
}

impl Default for EvaluationSettings {
    fn default() -> EvaluationSettings {
        EvaluationSettings { words: "Word".to_string(), every: 10, burn_in: 100, sample_every: 20 }
    }
}

/// The job, resolved.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub train: Vec<PathBuf>,
    pub gold: Vec<PathBuf>,
    pub reading: Reading,
    pub grammar_file: PathBuf,
    pub grammar: GrammarSettings,
    pub sampler: SamplerSettings,
    pub evaluation: EvaluationSettings,
    pub prior: Hyperprior,
    pub schedule: Schedule,
}

impl AdaptorJob {
    /// The same job with paths that do not depend on where its file lies.
    pub fn with_whole_paths(mut self, document: &Document) -> AdaptorJob {
        let corpus = &mut self.corpus;
        let lists = corpus.train.iter_mut().chain(&mut corpus.gold);
        let single = [&mut corpus.cut_at, &mut self.grammar.file, &mut self.out];
        for path in lists.chain(single).filter(|path| !path.is_empty()) {
            *path = document.whole_path(path);
        }
        self
    }

    /// Checks the settings and finds the files.
    pub fn plan(&self, document: &Document) -> Result<Plan> {
        let require = |holds: bool, message: &str| match holds {
            true => Ok(()),
            false => Err(Error::Usage(format!("{}: {message}", document.name()))),
        };
        let (corpus, sampler, evaluation) = (&self.corpus, &self.sampler, &self.evaluation);
        require(!corpus.train.is_empty(), "corpus.train names no file")?;
        require(!self.grammar.file.is_empty(), "grammar.file names no grammar")?;
        require(
            self.grammar.weight > 0.0 && self.grammar.weight <= MOST_WEIGHT,
            "grammar.weight has to be positive, and at most 1e100",
        )?;
        require(self.grammar.b > 0.0 && self.grammar.b.is_finite(), "grammar.b has to be positive")?;
        require(sampler.sweeps > 0, "sampler.sweeps is 0; it has to be at least 1")?;
        require(sampler.sync_every > 0, "sampler.sync_every is 0; it has to be at least 1")?;
        require(
            sampler.syncs_per_sweep == 1
                || sampler.sync_every == 1
                    && (1..=1000).contains(&sampler.syncs_per_sweep)
                    && sampler.method == Method::Sampling,
            "sampler.syncs_per_sweep is 1 to 1000; where it is not 1, sync_every is 1 and the method is sampling",
        )?;
        require(sampler.temperature >= 1.0 && sampler.temperature.is_finite(), "sampler.temperature is 1 or more")?;
        require(evaluation.sample_every > 0, "evaluation.sample_every is 0; it has to be at least 1")?;
        require(
            [sampler.a_prior, sampler.b_prior].iter().flatten().all(|&x| x > 0.0 && x.is_finite()),
            "sampler.a_prior and b_prior are two positive numbers each",
        )?;
        require(
            corpus.gold.is_empty()
                || corpus.format == Format::Lines && !corpus.cut_at_punctuation && corpus.cut_at.is_empty(),
            "corpus.gold goes line by line with corpus.train: it is for format = \"lines\", without cutting",
        )?;
        let cut_at = match corpus.cut_at.as_str() {
            "" => String::new(),
            path => read_text(Path::new(path), LONGEST_FILE).map_err(|e| Error::input(Path::new(path), e))?,
        };
        let grammar_file = PathBuf::from(&self.grammar.file);
        std::fs::metadata(&grammar_file).map_err(|e| Error::input(&grammar_file, e))?;
        Ok(Plan {
            seed: self.seed,
            train: expand_all(document, &corpus.train)?,
            gold: expand_all(document, &corpus.gold)?,
            reading: Reading {
                symbols: corpus.symbols,
                format: corpus.format,
                encoding: corpus.encoding,
                lowercase: corpus.lowercase,
                cut_at_punctuation: corpus.cut_at_punctuation,
                cut_at: cut_at.split_whitespace().map(str::to_string).collect(),
            },
            grammar_file,
            grammar: self.grammar.clone(),
            sampler: sampler.clone(),
            evaluation: evaluation.clone(),
            prior: Hyperprior { discount: sampler.a_prior, strength: sampler.b_prior },
            schedule: Schedule {
                shards: self.shards,
                sweeps: sampler.sweeps,
                sync_every: sampler.sync_every,
                evaluate_every: evaluation.every,
                checkpoint_every: self.checkpoint.every,
            },
        })
    }
}

impl Plan {
    /// All files that the result follows from.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.train.iter().chain(&self.gold).chain([&self.grammar_file])
    }

    /// 1 / temperature in a sweep, counted from 0.
    pub fn power(&self, sweep: u64) -> f64 {
        let SamplerSettings { temperature, anneal, .. } = self.sampler;
        match sweep < anneal {
            true => 1.0 / (temperature + (1.0 - temperature) * sweep as f64 / anneal as f64),
            false => 1.0,
        }
    }

    /// Whether the state after a sweep is one of the samples, however long the chain is; its last state always is one.
    pub fn is_sample(&self, sweep: u64) -> bool {
        let EvaluationSettings { burn_in, sample_every, .. } = self.evaluation;
        sweep > burn_in && (sweep - burn_in).is_multiple_of(sample_every)
    }

    /// The plan, for people.
    pub fn describe(&self, cluster: &Cluster) -> String {
        let (schedule, sampler) = (&self.schedule, &self.sampler);
        let method = match sampler.method {
            Method::Sampling => "sampling",
            Method::Variational => "variational Bayes",
        };
        let mut text = format!(
            "adaptor job, seed {}: {method}, {} sweeps over {} shards, synchronised every {}\n",
            self.seed, schedule.sweeps, schedule.shards, schedule.sync_every
        );
        text += &format!("  grammar: {}\n", self.grammar_file.display());
        for (what, files) in [("train", &self.train), ("gold", &self.gold)] {
            files.iter().for_each(|path| text += &format!("  {what}: {}\n", path.display()));
        }
        text += &format!("{} workers in {} processes\n", cluster.workers(), cluster.processes());
        text
    }

    /// Hash of the settings that the result follows from: not of how many workers, sweeps or checkpoints there are.
    pub fn fingerprint(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        let version = env!("CARGO_PKG_VERSION");
        // More sweeps of the same training may be asked for.
        let sampler = SamplerSettings { sweeps: 0, ..self.sampler.clone() };
        let rest = (&self.reading, &self.grammar, &sampler, &self.evaluation, self.seed, self.schedule.shards);
        hasher.update(format!("adaptor {version} {rest:?} {}", self.train.len()).as_bytes());
        *hasher.finalize().as_bytes()
    }
}
