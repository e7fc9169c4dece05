//! The job file of a semisupervised job: that of a parser job, and what is done with raw text.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::cluster::engine::Cluster;
use crate::cluster::sweep::Schedule;
use crate::corpus::documents::Format;
use crate::corpus::text::Encoding;
use crate::error::{Error, Result};
use crate::job::corpus::expand_all;
use crate::job::file::Document;
use crate::parser::action::System;
use crate::parser::job::{self as parser, CorpusSettings, ModelSettings, ParserJob, Part, SamplerSettings, Tags};
use crate::parser::model::MOST_PARTICLES;
use crate::topics::job::CheckpointSettings;

/// The job file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct SemisupervisedJob {
    pub kind: String,
    pub seed: u64,
    /// Logical shards: part of what the result follows from.
    pub shards: u32,
    pub out: String,
    /// The treebank.
    pub corpus: CorpusSettings,
    pub model: ModelSettings,
    pub sampler: SamplerSettings,
    pub raw: RawSettings,
    pub ngram: NgramSettings,
    pub checkpoint: CheckpointSettings,
}

impl Default for SemisupervisedJob {
    fn default() -> SemisupervisedJob {
        let ParserJob { seed, shards, out, corpus, model, sampler, checkpoint, .. } = ParserJob::default();
        let (kind, raw, ngram) = ("semisupervised".to_string(), RawSettings::default(), NgramSettings::default());
        SemisupervisedJob { kind, seed, shards, out, corpus, model, sampler, raw, ngram, checkpoint }
    }
}

/// How the lines of a document become sentences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cut {
    /// Lines are paragraphs, which are cut into sentences and words.
    #[default]
    Running,
    /// The same where paragraphs go over several lines ([`super::paragraphs`]).
    Wrapped,
    /// Lines are sentences, with white space between words.
    Lines,
}

/// Which distributions learn from raw text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Learn {
    /// That of words; transitions and tags stay as the treebank has taught them, as in the paper.
    #[default]
    Words,
    All,
}

/// Raw text.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct RawSettings {
    pub train: Vec<String>,
    pub test: Vec<String>,
    /// Where there are no files to test on: every so many-th document of those to train on; 0: none.
    pub hold_out: u64,
    /// Every so many-th document of those to train on is left out, to learn from it what contexts weigh; 0: none, and they weigh
    /// the same.
    pub tune: u64,
    pub format: Format,
    pub encoding: Encoding,
    pub cut: Cut,
    /// Longer sentences are cut.
    pub max_words: usize,
    /// Words that occur so often in raw text and treebank are known.
    pub min_count: u64,
    pub passes: u64,
    /// Gibbs sweeps over the seating after each pass.
    pub sweeps: u64,
    /// Sweeps of particle Gibbs after the last pass, in which tags and trees are drawn; 0: the best parses stay.
    pub gibbs_sweeps: u64,
    /// Parts of a pass, between which checkpoints can be written.
    pub rounds: u64,
    pub particles: u32,
    pub learn: Learn,
}

impl Default for RawSettings {
    fn default() -> RawSettings {
        RawSettings {
            train: vec![],
            test: vec![],
            hold_out: 0,
            tune: 0,
            format: Format::Docs,
            encoding: Encoding::default(),
            cut: Cut::default(),
            max_words: 100,
            min_count: 3,
            passes: 1,
            sweeps: 10,
            gibbs_sweeps: 0,
            rounds: 4,
            particles: 100,
            learn: Learn::default(),
        }
    }
}

/// The n-gram model to compare with.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct NgramSettings {
    /// 0: none.
    pub order: usize,
    pub sweeps: u64,
    pub burn_in: u64,
}

impl Default for NgramSettings {
    fn default() -> NgramSettings {
        NgramSettings { order: 5, sweeps: 30, burn_in: 15 }
    }
}

/// Raw text, resolved.
#[derive(Clone, Debug)]
pub struct RawPlan {
    /// Files to train on, then files to test on.
    pub files: Vec<PathBuf>,
    pub training_files: usize,
    pub settings: RawSettings,
}

/// The job, resolved.
#[derive(Clone, Debug)]
pub struct Plan {
    pub parser: parser::Plan,
    pub raw: RawPlan,
    pub ngram: NgramSettings,
}

impl SemisupervisedJob {
    fn parser_job(&self) -> ParserJob {
        let SemisupervisedJob { seed, shards, corpus, model, sampler, checkpoint, .. } = self.clone();
        ParserJob { kind: "parser".to_string(), seed, shards, out: String::new(), corpus, model, sampler, checkpoint }
    }

    /// The same job with paths that do not depend on where its file lies.
    pub fn with_whole_paths(mut self, document: &Document) -> SemisupervisedJob {
        self.corpus = self.parser_job().with_whole_paths(document).corpus;
        for path in self.raw.train.iter_mut().chain(&mut self.raw.test) {
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
        let raw = &self.raw;
        require(!raw.train.is_empty(), "raw.train names no file")?;
        require(
            raw.hold_out == 0 || raw.test.is_empty(),
            "raw.test names files, and raw.hold_out takes test documents from those to train on: set one of them",
        )?;
        require(raw.hold_out != 1, "raw.hold_out = 1 would leave nothing to train on")?;
        require(raw.tune != 1, "raw.tune = 1 would leave nothing to train on")?;
        require((1..=u16::MAX as usize - 1).contains(&raw.max_words), "raw.max_words has to be between 1 and 65534")?;
        require(raw.passes > 0, "raw.passes is 0; it has to be at least 1")?;
        require(raw.rounds > 0, "raw.rounds is 0; it has to be at least 1")?;
        require(
            (1..=MOST_PARTICLES).contains(&raw.particles),
            &format!("raw.particles has to be between 1 and {MOST_PARTICLES}"),
        )?;
        require(self.ngram.order <= 32, "ngram.order has to be between 1 and 32, or 0 for none")?;
        require(
            self.ngram.order == 0 || self.ngram.burn_in < self.ngram.sweeps,
            "ngram.burn_in has to be below ngram.sweeps: perplexity is by the samples behind it",
        )?;
        require(
            self.model.lexicalised && self.model.tags == Tags::Predict,
            "text without trees has no tags: set model.lexicalised = true and model.tags = \"predict\"",
        )?;
        require(
            raw.gibbs_sweeps == 0 || (self.model.system == System::ArcStandard && raw.particles > 1),
            "raw.gibbs_sweeps draws derivations of arc-standard with two particles or more: set model.system = \
             \"arc-standard\" and raw.particles",
        )?;
        let mut files = expand_all(document, &raw.train)?;
        let training_files = files.len();
        files.extend(expand_all(document, &raw.test)?);
        let plan = Plan {
            parser: self.parser_job().plan(document)?,
            raw: RawPlan { files, training_files, settings: raw.clone() },
            ngram: self.ngram.clone(),
        };
        require(
            raw.tune == 0 || Part::ALL.into_iter().any(|part| plan.tunes(part)),
            "raw.tune leaves text out to learn what contexts weigh, but no distribution that learns has several: leave raw.tune \
             out, or see model.word_context",
        )?;
        Ok(plan)
    }
}

impl Plan {
    pub fn shards(&self) -> u32 {
        self.parser.schedule.shards
    }

    /// Whether a distribution learns from raw text.
    pub fn learns(&self, part: Part) -> bool {
        part == Part::Word || self.raw.settings.learn == Learn::All
    }

    /// Whether it is learned what the contexts of a distribution weigh.
    pub fn tunes(&self, part: Part) -> bool {
        self.raw.settings.tune > 0 && self.learns(part) && self.parser.contexts.count(part) > 1
    }

    /// Parsing, as a training: a sweep is a part of the pass.
    pub fn parsing(&self) -> Schedule {
        Schedule {
            sweeps: self.raw.settings.rounds,
            sync_every: 1,
            evaluate_every: 0,
            checkpoint_every: self.every_long_sweep(),
            ..self.parser.schedule
        }
    }

    /// Where sweeps take long there is a checkpoint after each, unless there are none at all.
    fn every_long_sweep(&self) -> u64 {
        self.parser.schedule.checkpoint_every.min(1)
    }

    /// The parser job in which tags and trees are drawn.
    pub fn drawing(&self) -> parser::Plan {
        let mut plan = self.learning();
        plan.schedule.sweeps = self.raw.settings.gibbs_sweeps;
        plan.schedule.checkpoint_every = self.every_long_sweep();
        plan
    }

    /// The parser job of what learns from raw text.
    pub fn learning(&self) -> parser::Plan {
        let mut plan = self.parser.clone();
        plan.contexts.all.retain(|(part, _)| self.learns(*part));
        plan.schedule.sweeps = self.raw.settings.sweeps;
        plan.learn_every = plan.learn_every.min(1); // 0: never
        plan
    }

    /// The training of the n-gram model.
    pub fn comparing(&self) -> Schedule {
        Schedule { sweeps: self.ngram.sweeps, evaluate_every: 1, sync_every: 1, ..self.parser.schedule }
    }

    /// What a pass of parsing takes, roughly and as it was measured, where a sweep over one context of raw text is 1; for progress.
    pub fn work_of_parsing(&self) -> u64 {
        3 * (u64::from(self.raw.settings.particles) + 40)
    }

    /// The same of a sweep of particle Gibbs.
    pub fn work_of_drawing(&self) -> u64 {
        12 * u64::from(self.raw.settings.particles)
    }

    /// The same of all stages.
    pub fn work(&self) -> u64 {
        let raw = &self.raw.settings;
        let of_pass = self.work_of_parsing() + raw.sweeps * self.learning().contexts.all.len() as u64;
        let drawing = raw.gibbs_sweeps * self.work_of_drawing();
        self.parser.schedule.sweeps + raw.passes * of_pass + drawing + self.ngram_sweeps()
    }

    pub fn ngram_sweeps(&self) -> u64 {
        if self.ngram.order == 0 { 0 } else { self.ngram.sweeps }
    }

    /// All files.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.parser.files().chain(&self.raw.files)
    }

    /// The plan, for people.
    pub fn describe(&self, cluster: &Cluster) -> String {
        let raw = &self.raw.settings;
        let what = match raw.learn {
            Learn::Words => "words learn",
            Learn::All => "words, tags and transitions learn",
        };
        let passes = if raw.passes == 1 { "a pass".to_string() } else { format!("{} passes", raw.passes) };
        let mut text = format!(
            "semisupervised job: {passes} over raw text with {} particles; {what} in {} sweeps after each\n",
            raw.particles, raw.sweeps
        );
        if raw.gibbs_sweeps > 0 {
            text += &format!("then tags and trees are drawn in {} sweeps of particle Gibbs\n", raw.gibbs_sweeps);
        }
        let cut = match raw.cut {
            Cut::Running => "lines are cut into sentences",
            Cut::Wrapped => "lines are joined to paragraphs and cut into sentences",
            Cut::Lines => "a line is a sentence",
        };
        text += &format!("raw text: {cut}; words are known that occur {} times\n", raw.min_count);
        if raw.hold_out > 0 {
            text += &format!("one document in {} is held out to test on\n", raw.hold_out);
        }
        if raw.tune > 0 {
            text += &format!("from one document in {} it is learned what contexts weigh\n", raw.tune);
        }
        for (number, path) in self.raw.files.iter().enumerate() {
            let what = if number < self.raw.training_files { "raw" } else { "raw, to test on" };
            text += &format!("  {what}: {}\n", path.display());
        }
        if self.ngram.order > 0 {
            text += &format!("compared with a {}-gram HPYLM of {} sweeps\n", self.ngram.order, self.ngram.sweeps);
        }
        text + &self.parser.describe(cluster)
    }

    /// Hash of the settings that the result follows from: not of how many workers, sweeps or checkpoints there are.
    pub fn fingerprint(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.parser.fingerprint());
        let schedule = (self.parser.schedule.sweeps, &self.raw.settings, &self.ngram, self.raw.training_files);
        hasher.update(format!("semisupervised, dealt by contexts {schedule:?}").as_bytes());
        *hasher.finalize().as_bytes()
    }
}
