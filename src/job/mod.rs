//! From a job file to a plan, and the folder that a run leaves behind.
//!
//! - `file`: reading job files: `--set`, `${NAME}`, unknown keys
//! - `folder`: the run folder, its lock, and writing files that are whole or absent
//! - `manifest`: what a run says of itself: state, versions, seed, inputs

pub mod file;
pub mod folder;
pub mod manifest;

use crate::error::{Error, Result};
use crate::oracle::job::OracleJob;
use file::Document;

/// A job of some kind.
#[derive(Clone, Debug)]
pub enum Job {
    Oracle(OracleJob),
}

/// The kinds that a job file can name.
const KINDS: &[&str] = &["oracle"];

impl Job {
    /// Reads the job that `document` describes.
    pub fn read(document: &Document) -> Result<Job> {
        let refuse = |message: String| Err(Error::Usage(format!("{}: {message}", document.name())));
        match document.kind() {
            Some("oracle") => Ok(Job::Oracle(document.read_job()?)),
            Some(other) => match file::nearest(other, KINDS) {
                Some(known) => refuse(format!("kind = \"{other}\" is not known; did you mean \"{known}\"?")),
                None => refuse(format!("kind = \"{other}\" is not known; kinds are: {}", KINDS.join(", "))),
            },
            None => refuse(format!("there is no kind; add kind = \"{}\" at the top", KINDS.join("\" or \""))),
        }
    }

    /// Where the run folder goes, as the job file has it.
    pub fn out(&self) -> &str {
        match self {
            Job::Oracle(job) => &job.out,
        }
    }

    /// The job file as it was understood, every setting with its value.
    pub fn to_toml(&self) -> String {
        let text = match self {
            Job::Oracle(job) => toml::to_string_pretty(job),
        };
        text.expect("every job can be written as TOML")
    }
}
