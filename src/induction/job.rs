//! The job file of an induction job.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::cluster::engine::Cluster;
use crate::cluster::sweep::Schedule;
use crate::corpus::text::Encoding;
use crate::error::{Error, Result};
use crate::induction::forest::Forest;
use crate::induction::pass::LANES;
use crate::job::corpus::expand_all;
use crate::job::file::Document;
use crate::parser::treebank::TagColumn;
use crate::topics::job::CheckpointSettings;

/// The job file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct InductionJob {
    pub kind: String,
    pub seed: u64,
    /// Logical shards: of groups of restarts, or of sentences.
    pub shards: u32,
    pub out: String,
    pub corpus: CorpusSettings,
    pub model: ModelSettings,
    pub estimation: EstimationSettings,
    pub checkpoint: CheckpointSettings,
}

impl Default for InductionJob {
    fn default() -> InductionJob {
        InductionJob {
            kind: "induction".to_string(),
            seed: 1,
            shards: 8,
            out: String::new(),
            corpus: CorpusSettings::default(),
            model: ModelSettings::default(),
            estimation: EstimationSettings::default(),
            checkpoint: CheckpointSettings { every: 100 },
        }
    }
}

/// Tagged sentences: files or globs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CorpusSettings {
    pub train: Vec<String>,
    /// Convergence is judged by the likelihood of these; without any, by the free energy.
    pub heldout: Vec<String>,
    /// Trees to score parses against.
    pub test: Vec<String>,
    pub encoding: Encoding,
    pub tag_column: TagColumn,
    /// Longer sentences are left out, after punctuation is.
    pub max_length: usize,
    pub drop_punctuation: bool,
    /// Tags that are punctuation; without any, PUNCT and words of punctuation characters alone are.
    pub punctuation_tags: Vec<String>,
}

impl Default for CorpusSettings {
    fn default() -> CorpusSettings {
        CorpusSettings {
            train: vec![],
            heldout: vec![],
            test: vec![],
            encoding: Encoding::default(),
            tag_column: TagColumn::default(),
            max_length: 10,
            drop_punctuation: true,
            punctuation_tags: vec![],
        }
    }
}

/// Which distributions there are: see [`super::shape`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelType {
    /// Dependency model with valence (Klein & Manning 2004).
    #[default]
    Dmv,
    /// Extended valence grammar.
    Evg,
    /// Lexicalised extended valence grammar.
    Levg,
}

/// What the distribution of dependents is interpolated with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Smoothing {
    #[default]
    None,
    /// One that does not know the head.
    SkipHead,
    /// One that does not know the valence.
    SkipVal,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelSettings {
    #[serde(rename = "type")]
    pub model: ModelType,
    pub smoothing: Smoothing,
    /// Words that occur so often in training are conditioned on, in L-EVG.
    pub lexicalise_from: u64,
    /// The largest left-corner depth that trees may have; 0: any.
    pub max_depth: u32,
    /// Tags of function words, which have no dependents.
    pub function_tags: Vec<String>,
}

impl Default for ModelSettings {
    fn default() -> ModelSettings {
        ModelSettings {
            model: ModelType::default(),
            smoothing: Smoothing::default(),
            lexicalise_from: 100,
            max_depth: 0,
            function_tags: vec![],
        }
    }
}

impl ModelSettings {
    /// The bound on depth.
    pub fn bound(&self) -> Option<u32> {
        Some(self.max_depth).filter(|&depth| depth > 0)
    }

    /// The trees that sentences with these tags may have.
    pub fn forest(&self, tags: &[String]) -> Forest {
        Forest::new(self.bound(), &self.function_tags, tags)
    }

    /// The name for people.
    pub fn name(&self) -> String {
        let model = match self.model {
            ModelType::Dmv => "DMV",
            ModelType::Evg => "EVG",
            ModelType::Levg => "L-EVG",
        };
        let smoothing = match self.smoothing {
            Smoothing::None => "",
            Smoothing::SkipHead => " smoothed-skip-head",
            Smoothing::SkipVal => " smoothed-skip-val",
        };
        let bound = self.bound().map_or(String::new(), |depth| format!(", left-corner depth at most {depth}"));
        let function = match self.function_tags.as_slice() {
            [] => String::new(),
            tags => format!(", function words ({}) without dependents", tags.join(" ")),
        };
        format!("{model}{smoothing}{bound}{function}")
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Variational Bayes.
    #[default]
    Vb,
    /// Expectation maximisation.
    Em,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Initialiser {
    /// Draws from the prior.
    #[default]
    Random,
    /// Short arcs are likelier; there is one start only.
    Harmonic,
}

/// What workers divide among themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// Restarts where there are several groups, else sentences.
    #[default]
    Auto,
    /// Groups of restarts, each of which one worker takes through all of its iterations.
    Restarts,
    /// Sentences; expectations are added up after every iteration.
    Sentences,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EstimationSettings {
    pub method: Method,
    pub initialiser: Initialiser,
    /// What each sentence to train on counts for, against the priors: expectations are multiplied by it.
    pub weight: f64,
    /// M: the best restart of each group goes on.
    pub groups: u32,
    /// B: restarts in a group.
    pub restarts: u32,
    /// Iterations of each restart.
    pub prune_after: u32,
    /// How often all of this is done.
    pub runs: u32,
    /// The most iterations of those that go on.
    pub max_iterations: u32,
    /// Convergence: the likelihood (or free energy) gains less than this share of itself in an iteration.
    pub tolerance: f64,
    pub spread: Spread,
}

impl Default for EstimationSettings {
    fn default() -> EstimationSettings {
        EstimationSettings {
            method: Method::default(),
            initialiser: Initialiser::default(),
            weight: 1.0,
            groups: 50,
            restarts: 20,
            prune_after: 40,
            runs: 10,
            max_iterations: 500,
            tolerance: 1e-6,
            spread: Spread::default(),
        }
    }
}

/// The job, resolved.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub train: Vec<PathBuf>,
    pub heldout: Vec<PathBuf>,
    pub test: Vec<PathBuf>,
    pub corpus: CorpusSettings,
    pub model: ModelSettings,
    /// With one start only where it is harmonic, and never [`Spread::Auto`].
    pub estimation: EstimationSettings,
    pub schedule: Schedule,
}

/// The longest sentences: a chart of so many words is some 100 MB.
const LONGEST: usize = 200;

/// The largest bound on depth: trees of the longest sentences that are parsed are no deeper.
pub const MOST_DEPTH: u32 = 500;

/// The largest weight of a sentence: far beyond sense, far from where sums of expectations lose what small ones add.
const MOST_WEIGHT: f64 = 1e6;

/// Chains of all runs: what is known of each is in memory.
const MOST_CHAINS: u128 = 1_000_000;

impl InductionJob {
    /// The same job with paths that do not depend on where its file lies.
    pub fn with_whole_paths(mut self, document: &Document) -> InductionJob {
        let corpus = &mut self.corpus;
        for path in corpus.train.iter_mut().chain(&mut corpus.heldout).chain(&mut corpus.test) {
            *path = document.whole_path(path);
        }
        if !self.out.is_empty() {
            self.out = document.whole_path(&self.out);
        }
        self
    }

    /// Checks the settings and finds the files.
    pub fn plan(&self, document: &Document) -> Result<Plan> {
        let require = |holds: bool, message: &str| match holds {
            true => Ok(()),
            false => Err(Error::Usage(format!("{}: {message}", document.name()))),
        };
        let (model, estimation) = (&self.model, self.estimation);
        require(!self.corpus.train.is_empty(), "corpus.train names no file")?;
        require(
            (2..=LONGEST).contains(&self.corpus.max_length),
            "corpus.max_length has to be between 2 and 200: a sentence of one word has nothing to attach",
        )?;
        require(
            model.model != ModelType::Dmv || model.smoothing != Smoothing::SkipVal,
            "model.smoothing = \"skip-val\" leaves valence out of the distribution of dependents, which the DMV does \
             not have there; it is for \"evg\" and \"levg\"",
        )?;
        for (name, value) in [
            ("groups", estimation.groups),
            ("restarts", estimation.restarts),
            ("prune_after", estimation.prune_after),
            ("runs", estimation.runs),
            ("max_iterations", estimation.max_iterations),
        ] {
            require(value > 0, &format!("estimation.{name} is 0; it has to be at least 1"))?;
        }
        let factors = [estimation.runs, estimation.groups, estimation.restarts];
        require(
            factors.iter().map(|&factor| u128::from(factor)).product::<u128>() <= MOST_CHAINS,
            &format!("estimation.runs, groups and restarts make more than {MOST_CHAINS} chains in all"),
        )?;
        require(
            estimation.tolerance > 0.0 && estimation.tolerance.is_finite(),
            "estimation.tolerance has to be positive",
        )?;
        require(
            self.model.max_depth <= MOST_DEPTH,
            &format!("model.max_depth is at most {MOST_DEPTH}; 0 is for any depth"),
        )?;
        require(
            estimation.weight > 0.0 && estimation.weight <= MOST_WEIGHT,
            &format!(
                "estimation.weight is {}; it has to be above 0, and at most {MOST_WEIGHT}: so much does each sentence count for",
                estimation.weight
            ),
        )?;
        let estimation = estimation.resolved();
        Ok(Plan {
            seed: self.seed,
            train: expand_all(document, &self.corpus.train)?,
            heldout: expand_all(document, &self.corpus.heldout)?,
            test: expand_all(document, &self.corpus.test)?,
            corpus: self.corpus.clone(),
            model: model.clone(),
            estimation,
            schedule: Schedule {
                shards: self.shards,
                sweeps: estimation.most_sweeps(self.shards),
                sync_every: if estimation.spread == Spread::Sentences { 1 } else { 10 },
                evaluate_every: 0,
                checkpoint_every: self.checkpoint.every,
            },
        })
    }
}

impl EstimationSettings {
    /// One start only where all would be the same; and what is spread.
    fn resolved(mut self) -> EstimationSettings {
        if self.initialiser == Initialiser::Harmonic {
            (self.groups, self.restarts, self.runs) = (1, 1, 1);
        }
        if self.spread == Spread::Auto {
            self.spread = if self.all_groups() > 1 { Spread::Restarts } else { Spread::Sentences };
        }
        self
    }

    /// What a sentence counts for, where that is not once, to be said behind the sentences.
    pub fn counting(&self) -> String {
        if self.weight == 1.0 { String::new() } else { format!(", each counted {} times", self.weight) }
    }

    /// Groups of all runs.
    pub fn all_groups(&self) -> u32 {
        self.runs * self.groups
    }

    /// A bound on the sweeps, one iteration of at most [`LANES`] grammars each, that any shard takes.
    fn most_sweeps(&self, shards: u32) -> u64 {
        let queues = if self.spread == Spread::Restarts { shards } else { 1 };
        let groups = u64::from(self.all_groups().div_ceil(queues));
        let (first, second) = (u64::from(self.prune_after), u64::from(self.max_iterations));
        let lanes = LANES as u64;
        (groups * u64::from(self.restarts)).div_ceil(lanes) * first + groups.div_ceil(lanes) * second + first + second
    }
}

impl Plan {
    /// All files, those to train on first.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.train.iter().chain(&self.heldout).chain(&self.test)
    }

    /// The plan, for people.
    pub fn describe(&self, cluster: &Cluster) -> String {
        let EstimationSettings { groups, restarts, runs, prune_after, .. } = self.estimation;
        let method = match self.estimation.method {
            Method::Vb => "variational Bayes",
            Method::Em => "EM",
        };
        let counting = self.estimation.counting();
        let mut text = format!(
            "induction job, seed {}: {} by {method}, sentences of at most {} words{counting}; {runs} runs of {groups} groups of \
             {restarts} restarts, the best of each group goes on after {prune_after} iterations\n",
            self.seed,
            self.model.name(),
            self.corpus.max_length
        );
        for (what, files) in [("train", &self.train), ("held out", &self.heldout), ("test", &self.test)] {
            files.iter().for_each(|path| text += &format!("  {what}: {}\n", path.display()));
        }
        let spread = match self.estimation.spread {
            Spread::Sentences => "sentences",
            _ => "restarts",
        };
        text += &format!(
            "{} workers in {} processes divide {spread}, in {} shards\n",
            cluster.workers(),
            cluster.processes(),
            self.schedule.shards
        );
        text
    }

    /// Hash of the settings that the result follows from: not of how many workers, sweeps or checkpoints there are.
    pub fn fingerprint(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        let corpus = (&self.corpus, self.train.len(), self.heldout.len());
        let rest = (self.seed, self.schedule.shards, &self.model, self.estimation);
        hasher.update(format!("induction {} {corpus:?} {rest:?}", env!("CARGO_PKG_VERSION")).as_bytes());
        *hasher.finalize().as_bytes()
    }
}
