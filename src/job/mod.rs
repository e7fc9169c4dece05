//! From a job file to a plan, and the folder that a run leaves behind.
//!
//! - `corpus`: which text is read, and how it becomes words
//! - `file`: reading job files: `--set`, `${NAME}`, unknown keys
//! - `folder`: the run folder, its lock, and writing files that are whole or absent
//! - `manifest`: what a run records of itself: state, versions, seed, inputs
//! - `model_file`: the file `model` of a run folder
//! - `settings`: TOML values become settings; keys that nothing reads are found
//! - `session`: one run: its workers, its folder, and what is recorded of it there
//! - `standing`: whether a run folder is new, unfinished or done, and whether it is this job's at all
//! - `training`: what jobs that are trained by sweeps have in common

pub mod corpus;
pub mod file;
pub mod folder;
pub mod manifest;
pub mod model_file;
pub mod session;
pub mod settings;
pub mod standing;
pub mod training;

use std::path::PathBuf;

use crate::adaptor::{self, job::AdaptorJob};
use crate::cluster::engine::Cluster;
use crate::error::{Error, Result};
use crate::induction::{self, job::InductionJob};
use crate::lm::{self, job::LmJob};
use crate::oracle::{self, job::OracleJob};
use crate::parser::{self, job::ParserJob};
use crate::semisupervised::{self, job::SemisupervisedJob};
use crate::study::{self, job::StudyJob};
use crate::topics::{self, job::TopicsJob};
use file::Document;
use session::Session;

/// A job of some kind.
#[derive(Clone, Debug)]
pub enum Job {
    Oracle(OracleJob),
    Topics(Box<TopicsJob>),
    Lm(Box<LmJob>),
    Parser(Box<ParserJob>),
    Semisupervised(Box<SemisupervisedJob>),
    Induction(Box<InductionJob>),
    Adaptor(Box<AdaptorJob>),
    Study(Box<StudyJob>),
}

/// Shards of a job are numbered with 16 bits, two values of which are taken.
const MOST_SHARDS: u32 = 65_534;

/// The kinds that a job file can name.
const KINDS: &[&str] = &["oracle", "topics", "lm", "parser", "semisupervised", "induction", "adaptor", "study"];

impl Job {
    /// Reads the job that `document` describes.
    pub fn read(document: &Document) -> Result<Job> {
        let refuse = |message: String| Err(Error::Usage(format!("{}: {message}", document.name())));
        match document.kind() {
            Some("oracle") => Ok(Job::Oracle(document.read_job::<OracleJob>()?.with_whole_paths(document))),
            Some("topics") => Ok(Job::Topics(Box::new(document.read_job::<TopicsJob>()?.with_whole_paths(document)))),
            Some("lm") => Ok(Job::Lm(Box::new(document.read_job::<LmJob>()?.with_whole_paths(document)))),
            Some("parser") => Ok(Job::Parser(Box::new(document.read_job::<ParserJob>()?.with_whole_paths(document)))),
            Some("induction") => {
                Ok(Job::Induction(Box::new(document.read_job::<InductionJob>()?.with_whole_paths(document))))
            }
            Some("adaptor") => {
                Ok(Job::Adaptor(Box::new(document.read_job::<AdaptorJob>()?.with_whole_paths(document))))
            }
            Some("semisupervised") => {
                let job = document.read_job::<SemisupervisedJob>()?.with_whole_paths(document);
                Ok(Job::Semisupervised(Box::new(job)))
            }
            Some("study") => Ok(Job::Study(Box::new(document.read_job::<StudyJob>()?.with_whole_base(document)?))),
            Some(other) => match file::nearest(other, KINDS) {
                Some(known) => refuse(format!("kind = \"{other}\" is not known; did you mean \"{known}\"?")),
                None => refuse(format!("kind = \"{other}\" is not known; kinds are: {}", KINDS.join(", "))),
            },
            None => refuse(format!("there is no kind; add kind = \"{}\" at the top", KINDS.join("\" or \""))),
        }
    }

    /// What jobs of every kind say at the top of their file.
    pub fn header(&self) -> Header<'_> {
        match self {
            Job::Oracle(job) => Header::new(&job.kind, job.seed, job.shards, &job.out),
            Job::Topics(job) => Header::new(&job.kind, job.seed, job.shards, &job.out),
            Job::Lm(job) => Header::new(&job.kind, job.seed, job.shards, &job.out),
            Job::Parser(job) => Header::new(&job.kind, job.seed, job.shards, &job.out),
            Job::Semisupervised(job) => Header::new(&job.kind, job.seed, job.shards, &job.out),
            Job::Induction(job) => Header::new(&job.kind, job.seed, job.shards, &job.out),
            Job::Adaptor(job) => Header::new(&job.kind, job.seed, job.shards, &job.out),
            Job::Study(job) => Header { kind: &job.kind, seed: None, shards: None, out: &job.out },
        }
    }

    /// Checks the settings and finds the inputs.
    pub fn plan(&self, document: &Document) -> Result<Plan> {
        if self.header().shards.is_some_and(|shards| !(1..=MOST_SHARDS).contains(&shards)) {
            let message = format!("shards has to be between 1 and {MOST_SHARDS}");
            return Err(Error::Usage(format!("{}: {message}", document.name())));
        }
        match self {
            Job::Oracle(job) => Ok(Plan::Oracle(job.plan(document)?)),
            Job::Topics(job) => Ok(Plan::Topics(Box::new(job.plan(document)?))),
            Job::Lm(job) => Ok(Plan::Lm(Box::new(job.plan(document)?))),
            Job::Parser(job) => Ok(Plan::Parser(Box::new(job.plan(document)?))),
            Job::Semisupervised(job) => Ok(Plan::Semisupervised(Box::new(job.plan(document)?))),
            Job::Induction(job) => Ok(Plan::Induction(Box::new(job.plan(document)?))),
            Job::Adaptor(job) => Ok(Plan::Adaptor(Box::new(job.plan(document)?))),
            Job::Study(job) => Ok(Plan::Study(Box::new(job.plan(document)?))),
        }
    }

    /// The job file as it was understood, every setting with its value.
    pub fn to_toml(&self) -> String {
        let text = match self {
            Job::Oracle(job) => toml::to_string_pretty(job),
            Job::Topics(job) => toml::to_string_pretty(job),
            Job::Lm(job) => toml::to_string_pretty(job),
            Job::Parser(job) => toml::to_string_pretty(job),
            Job::Semisupervised(job) => toml::to_string_pretty(job),
            Job::Induction(job) => toml::to_string_pretty(job),
            Job::Adaptor(job) => toml::to_string_pretty(job),
            Job::Study(job) => toml::to_string_pretty(job),
        };
        text.expect("every job can be written as TOML")
    }
}

/// What jobs of every kind say at the top of their file.
pub struct Header<'a> {
    pub kind: &'a str,
    /// None where every variant of a study has its own; so with shards.
    pub seed: Option<u64>,
    pub shards: Option<u32>,
    pub out: &'a str,
}

impl Header<'_> {
    fn new<'a>(kind: &'a str, seed: u64, shards: u32, out: &'a str) -> Header<'a> {
        Header { kind, seed: Some(seed), shards: Some(shards), out }
    }
}

/// A job, resolved: what `--dry-run` prints and what is then run.
#[derive(Clone, Debug)]
pub enum Plan {
    Oracle(oracle::job::Plan),
    Topics(Box<topics::job::Plan>),
    Lm(Box<lm::job::Plan>),
    Parser(Box<parser::job::Plan>),
    Semisupervised(Box<semisupervised::job::Plan>),
    Induction(Box<induction::job::Plan>),
    Adaptor(Box<adaptor::job::Plan>),
    Study(Box<study::job::Plan>),
}

impl Plan {
    /// The plan, for people.
    pub fn describe(&self, cluster: &Cluster) -> String {
        match self {
            Plan::Oracle(plan) => plan.describe(cluster),
            Plan::Topics(plan) => plan.describe(cluster),
            Plan::Lm(plan) => plan.describe(cluster),
            Plan::Parser(plan) => plan.describe(cluster),
            Plan::Semisupervised(plan) => plan.describe(cluster),
            Plan::Induction(plan) => plan.describe(cluster),
            Plan::Adaptor(plan) => plan.describe(cluster),
            Plan::Study(plan) => plan.describe(cluster),
        }
    }

    /// The files that the result follows from, in the job's order. Those of a study are its variants'.
    pub fn files(&self) -> Vec<PathBuf> {
        match self {
            Plan::Oracle(plan) => plan.files(),
            Plan::Topics(plan) => plan.files.clone(),
            Plan::Lm(plan) => plan.corpus.files.clone(),
            Plan::Parser(plan) => plan.files().cloned().collect(),
            Plan::Semisupervised(plan) => plan.files().cloned().collect(),
            Plan::Induction(plan) => plan.files().cloned().collect(),
            Plan::Adaptor(plan) => plan.files().cloned().collect(),
            Plan::Study(_) => vec![],
        }
    }

    /// Hash of the settings that the result follows from, the parts of the inputs among them; none for a study, whose variants
    /// have their own.
    pub fn fingerprint(&self) -> Option<[u8; 32]> {
        match self {
            Plan::Oracle(plan) => Some(plan.fingerprint()),
            Plan::Topics(plan) => Some(plan.fingerprint()),
            Plan::Lm(plan) => Some(plan.fingerprint()),
            Plan::Parser(plan) => Some(plan.fingerprint()),
            Plan::Semisupervised(plan) => Some(plan.fingerprint()),
            Plan::Induction(plan) => Some(plan.fingerprint()),
            Plan::Adaptor(plan) => Some(plan.fingerprint()),
            Plan::Study(_) => None,
        }
    }

    /// Runs the job and returns the exit code.
    pub fn run(&self, session: &mut Session) -> Result<u8> {
        match self {
            Plan::Oracle(plan) => oracle::run::run(plan, session),
            Plan::Topics(plan) => topics::run::run(plan, session),
            Plan::Lm(plan) => lm::run::run(plan, session),
            Plan::Parser(plan) => parser::run::run(plan, session),
            Plan::Semisupervised(plan) => semisupervised::run::run(plan, session),
            Plan::Induction(plan) => induction::run::run(plan, session),
            Plan::Adaptor(plan) => adaptor::run::run(plan, session),
            Plan::Study(plan) => study::run::run(plan, session),
        }
    }
}
