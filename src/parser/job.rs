//! The job file of a parser job.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::action::System;
use super::element::{Attribute, Element, Start};
use super::model::MOST_PARTICLES;
use super::treebank::{NonProjective, Preparation, TagColumn};
use crate::cluster::engine::Cluster;
use crate::cluster::sweep::Schedule;
use crate::corpus::text::Encoding;
use crate::corpus::tokens::Tokenisation;
use crate::error::{Error, Result};
use crate::job::corpus::expand_all;
use crate::job::file::Document;
use crate::oracle::job::Punctuation;
use crate::restaurant::parameters::Hyperprior;
use crate::topics::job::CheckpointSettings;

/// The job file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct ParserJob {
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

impl Default for ParserJob {
    fn default() -> ParserJob {
        ParserJob {
            kind: "parser".to_string(),
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

/// Treebanks: files or globs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CorpusSettings {
    pub train: Vec<String>,
    pub dev: Vec<String>,
    pub test: Vec<String>,
    /// Where there are no files to test on: every so many-th sentence of those to train on; 0: none.
    pub hold_out: u64,
    pub encoding: Encoding,
    /// What is done with training trees that have crossing arcs.
    pub non_projective: NonProjective,
    /// What is done with the words of all trees, so that they are like those of prepared text.
    pub lowercase: bool,
    /// What numbers become; empty: they stay as they are.
    pub numbers: String,
    /// The dependents of dropped punctuation go to the nearest ancestor that stays.
    pub punctuation: Punctuation,
}

impl CorpusSettings {
    fn preparation(&self) -> Preparation {
        let tokenisation = Tokenisation { lowercase: self.lowercase, numbers: self.numbers.clone() };
        Preparation { tokenisation, drops_punctuation: self.punctuation == Punctuation::Drop }
    }
}

/// Where tags come from when sentences are parsed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Tags {
    /// The parser finds them, with the tree
    #[default]
    Predict,
    /// They are those of the file, by hand
    Gold,
    /// They are those of the file, whoever made them
    Given,
}

/// How derivations are searched for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Search {
    /// Particles are divided among derivations by probability
    #[default]
    Particles,
    /// The best derivations are kept, a fixed number of them
    Beam,
}

/// Which derivation of a tree is trained on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OracleKind {
    /// The one in which arcs are added as soon as possible.
    #[default]
    Static,
    /// All: derivations are drawn with particles.
    Sampled,
}

/// One context, or several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ContextSettings {
    One(Vec<String>),
    Several(Vec<Vec<String>>),
}

impl ContextSettings {
    /// All of them.
    pub fn lists(&self) -> Vec<Vec<String>> {
        match self {
            ContextSettings::One(list) => vec![list.clone()],
            ContextSettings::Several(lists) => lists.clone(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelSettings {
    pub system: System,
    /// Of left-corner: the most elements on the stack; 0: any number.
    pub max_memory: u32,
    /// Whether words are generated, and stand in contexts.
    pub lexicalised: bool,
    /// Whether arcs have labels.
    pub labelled: bool,
    pub tags: Tags,
    pub tag_column: TagColumn,
    /// Elements, the most important first; or several such lists, whose probabilities are mixed.
    pub transition_context: ContextSettings,
    pub tag_context: ContextSettings,
    pub word_context: ContextSettings,
    pub oracle: OracleKind,
    /// Particles of the search, or derivations of the beam.
    pub particles: u32,
    pub search: Search,
    /// Words that are rarer in training become classes of unknown words.
    pub min_count: u64,
    /// Discount and strength of every depth, at first.
    pub discount: f64,
    pub strength: f64,
    /// alpha and beta of the Beta prior of discounts.
    pub discount_prior: [f64; 2],
    /// Shape and rate of the Gamma prior of strengths.
    pub strength_prior: [f64; 2],
}

/// The contexts of transitions and tags in Table 1.
const CONTEXT: [&str; 8] = ["s1.t", "s2.t", "rc1(s1).t", "lc1(s1).t", "s3.t", "rc1(s2).t", "s1.w", "s2.w"];

/// The context of words in Table 1.
const WORD_CONTEXT: [&str; 6] = ["b.t", "s1.t", "rc1(s1).t", "lc1(s1).t", "s1.w", "s2.w"];

impl Default for ModelSettings {
    fn default() -> ModelSettings {
        ModelSettings {
            system: System::default(),
            max_memory: 0,
            lexicalised: true,
            labelled: true,
            tags: Tags::default(),
            tag_column: TagColumn::default(),
            transition_context: ContextSettings::One(CONTEXT.map(str::to_string).to_vec()),
            tag_context: ContextSettings::One(CONTEXT.map(str::to_string).to_vec()),
            word_context: ContextSettings::One(WORD_CONTEXT.map(str::to_string).to_vec()),
            oracle: OracleKind::default(),
            particles: 1000,
            search: Search::default(),
            min_count: 2,
            discount: 0.5,
            strength: 1.0,
            discount_prior: [1.0, 1.0],
            strength_prior: [1.0, 1.0],
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SamplerSettings {
    pub sweeps: u64,
    pub sync_every: u64,
    /// Sweeps between draws of discounts and strengths; 0: they stay as they are. Where it is not set: 1, and 5 where
    /// derivations are drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learn_every: Option<u64>,
    /// Particles of a sentence, where derivations are drawn.
    pub particles: u32,
}

impl Default for SamplerSettings {
    fn default() -> SamplerSettings {
        SamplerSettings { sweeps: 20, sync_every: 1, learn_every: None, particles: 100 }
    }
}

/// The three distributions of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Transition,
    Tag,
    Word,
}

impl Part {
    pub const ALL: [Part; 3] = [Part::Transition, Part::Tag, Part::Word];

    /// The name in job files.
    pub fn name(self) -> &'static str {
        match self {
            Part::Transition => "transition",
            Part::Tag => "tag",
            Part::Word => "word",
        }
    }
}

/// A distribution has at most so many contexts.
pub const MOST_CONTEXTS: usize = 4;

/// The contexts of the three distributions, in their order. Where one has several, its probabilities are a mixture of theirs.
#[derive(Clone, Debug, PartialEq)]
pub struct Contexts {
    pub all: Vec<(Part, Vec<Element>)>,
}

impl Contexts {
    /// Reads them; words stand in none where the model has no words.
    pub fn parse(settings: [&[Vec<String>]; 3], is_lexicalised: bool) -> std::result::Result<Contexts, String> {
        let mut all = vec![];
        for (part, lists) in Part::ALL.into_iter().zip(settings) {
            let name = part.name();
            if !(1..=MOST_CONTEXTS).contains(&lists.len()) {
                return Err(format!(
                    "model.{name}_context: there are 1 to {MOST_CONTEXTS} contexts, not {}",
                    lists.len()
                ));
            }
            for texts in lists {
                let mut elements = Element::parse_all(texts).map_err(|e| format!("model.{name}_context: {e}"))?;
                if !is_lexicalised {
                    elements.retain(|element| element.attribute != Attribute::Word);
                }
                if let Some(element) = elements.iter().find(|e| {
                    let is_tag = e.attribute == Attribute::Tag;
                    e.start == Start::Next && (part == Part::Transition || (part == Part::Tag && is_tag))
                }) {
                    return Err(format!("model.{name}_context: {element} is not known before the word is shifted"));
                }
                all.push((part, elements));
            }
        }
        Ok(Contexts { all })
    }

    /// The contexts that a job file names.
    pub fn of(model: &ModelSettings) -> std::result::Result<Contexts, String> {
        let lists = [&model.transition_context, &model.tag_context, &model.word_context].map(ContextSettings::lists);
        Contexts::parse([&lists[0], &lists[1], &lists[2]], model.lexicalised)
    }

    /// The contexts of one distribution.
    pub fn of_part(&self, part: Part) -> impl Iterator<Item = &[Element]> {
        self.all.iter().filter(move |(own, _)| *own == part).map(|(_, elements)| elements.as_slice())
    }

    /// How many it has.
    pub fn count(&self, part: Part) -> usize {
        self.of_part(part).count()
    }

    /// As names, by distribution.
    pub fn names(&self) -> [Vec<Vec<String>>; 3] {
        Part::ALL.map(|part| self.of_part(part).map(|list| list.iter().map(Element::to_string).collect()).collect())
    }
}

/// The job, resolved.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub train: Vec<PathBuf>,
    pub dev: Vec<PathBuf>,
    pub test: Vec<PathBuf>,
    /// Every so many-th training sentence is held out to test on; 0: none.
    pub hold_out: u64,
    pub encoding: Encoding,
    pub non_projective: NonProjective,
    pub preparation: Preparation,
    pub model: ModelSettings,
    pub contexts: Contexts,
    pub prior: Hyperprior,
    pub learn_every: u64,
    /// Particles of a sentence, where derivations are drawn.
    pub training_particles: u32,
    pub schedule: Schedule,
}

impl ParserJob {
    /// The same job with paths that do not depend on where its file lies.
    pub fn with_whole_paths(mut self, document: &Document) -> ParserJob {
        let corpus = &mut self.corpus;
        for path in corpus.train.iter_mut().chain(&mut corpus.dev).chain(&mut corpus.test) {
            *path = document.whole_path(path);
        }
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
        require(!self.corpus.train.is_empty(), "corpus.train names no file")?;
        require(self.corpus.non_projective != NonProjective::Keep, "corpus.non_projective is \"skip\" or \"lift\"")?;
        require(
            self.corpus.hold_out == 0 || self.corpus.test.is_empty(),
            "corpus.test names files, and corpus.hold_out takes test sentences from those to train on: set one of them",
        )?;
        require(self.corpus.hold_out != 1, "corpus.hold_out = 1 would leave nothing to train on")?;
        let preparation = self.corpus.preparation();
        preparation.tokenisation.check().map_err(|e| refuse(&format!("corpus.{e}")))?;
        let is_left_corner = model.system == System::LeftCorner;
        require(
            is_left_corner || model.max_memory == 0,
            "model.max_memory bounds the stack of left-corner: set model.system = \"left-corner\"",
        )?;
        require(
            !is_left_corner || model.oracle == OracleKind::Static,
            "left-corner has one derivation for each tree: set model.oracle = \"static\"",
        )?;
        require(
            model.lexicalised || model.tags != Tags::Predict,
            "a model that has no words cannot find tags: set model.tags = \"gold\" or \"given\"",
        )?;
        require(sampler.sync_every > 0, "sampler.sync_every is 0; it has to be at least 1")?;
        require(
            (2..=MOST_PARTICLES).contains(&sampler.particles),
            &format!(
                "sampler.particles has to be between 2 and {MOST_PARTICLES}: one keeps the derivation that is, another finds others"
            ),
        )?;
        require(
            (1..=MOST_PARTICLES).contains(&model.particles),
            &format!("model.particles has to be between 1 and {MOST_PARTICLES}"),
        )?;
        require((0.0..1.0).contains(&model.discount), "model.discount has to be at least 0 and below 1")?;
        require(model.strength > 0.0, "model.strength has to be positive")?;
        require(
            [model.discount_prior, model.strength_prior].iter().flatten().all(|&x| x > 0.0 && x.is_finite()),
            "model.discount_prior and strength_prior are two positive numbers each",
        )?;
        let contexts = Contexts::of(model).map_err(|e| refuse(&e))?;
        Ok(Plan {
            seed: self.seed,
            train: expand_all(document, &self.corpus.train)?,
            dev: expand_all(document, &self.corpus.dev)?,
            test: expand_all(document, &self.corpus.test)?,
            hold_out: self.corpus.hold_out,
            encoding: self.corpus.encoding,
            non_projective: self.corpus.non_projective,
            preparation,
            model: model.clone(),
            contexts,
            prior: Hyperprior { discount: model.discount_prior, strength: model.strength_prior },
            learn_every: sampler.learn_every.unwrap_or(match model.oracle {
                OracleKind::Static => 1,
                OracleKind::Sampled => 5,
            }),
            training_particles: sampler.particles,
            schedule: Schedule {
                shards: self.shards,
                sweeps: sampler.sweeps,
                sync_every: sampler.sync_every,
                evaluate_every: 0,
                checkpoint_every: self.checkpoint.every,
            },
        })
    }
}

impl Plan {
    /// Whether a sentence of the training files is held out.
    pub fn is_held_out(&self, number: u64) -> bool {
        self.hold_out > 0 && number % self.hold_out == self.hold_out - 1
    }

    /// Whether discounts and strengths are drawn after a sweep.
    pub fn learns_after(&self, sweep: u64) -> bool {
        self.learn_every > 0 && sweep.is_multiple_of(self.learn_every)
    }

    /// All files, those to train on first.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.train.iter().chain(&self.dev).chain(&self.test)
    }

    /// The plan, for people.
    pub fn describe(&self, cluster: &Cluster) -> String {
        let (schedule, model) = (&self.schedule, &self.model);
        let words = if model.lexicalised { "lexicalised" } else { "unlexicalised" };
        let mut text = format!(
            "parser job, seed {}: {words} {}, {} sweeps over {} shards, synchronised every {}; {} particles\n",
            self.seed,
            model.system.name(),
            schedule.sweeps,
            schedule.shards,
            schedule.sync_every,
            model.particles
        );
        for (part, context) in &self.contexts.all {
            let elements: Vec<String> = context.iter().map(Element::to_string).collect();
            text += &format!("  {} given {}\n", part.name(), elements.join(", "));
        }
        for (what, files) in [("train", &self.train), ("dev", &self.dev), ("test", &self.test)] {
            files.iter().for_each(|path| text += &format!("  {what}: {}\n", path.display()));
        }
        text += &format!("{} workers in {} processes\n", cluster.workers(), cluster.processes());
        text
    }

    /// Hash of the settings that the result follows from: not of how many workers, sweeps or checkpoints there are.
    pub fn fingerprint(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        let files = (self.train.len(), self.dev.len());
        let corpus = (self.encoding, self.non_projective, &self.preparation, self.hold_out, files);
        let sampler =
            (self.seed, self.schedule.shards, self.schedule.sync_every, self.learn_every, self.training_particles);
        let version = env!("CARGO_PKG_VERSION");
        hasher.update(format!("parser {version} {corpus:?} {:?} {sampler:?}", self.model).as_bytes());
        *hasher.finalize().as_bytes()
    }
}
