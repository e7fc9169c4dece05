//! What can end a command, with the exit code that says so to scripts.

use std::fmt::Display;
use std::path::Path;

/// Exit codes.
pub mod exit {
    /// Done.
    pub const DONE: u8 = 0;
    /// Done, with inputs that had to be skipped.
    pub const SKIPPED: u8 = 1;
    /// The command line, the job file, or a folder that they name for output.
    pub const USAGE: u8 = 2;
    /// The input data.
    pub const INPUT: u8 = 3;
    /// The other processes of the job.
    pub const CLUSTER: u8 = 4;
    /// A worker failed in a way that is sawmill's own fault.
    pub const PANIC: u8 = 70;
    /// Stopped with a checkpoint: run the job again.
    pub const RESUME: u8 = 75;
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a command ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line, the job file, or a folder that they name for output.
    #[error("{0}")]
    Usage(String),
    /// The input data.
    #[error("{0}")]
    Input(String),
    /// The other processes of the job.
    #[error("{0}")]
    Cluster(String),
}

impl Error {
    /// What the process ends with.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Usage(_) => exit::USAGE,
            Error::Input(_) => exit::INPUT,
            Error::Cluster(_) => exit::CLUSTER,
        }
    }

    /// The same, of a part of the whole.
    pub fn within(self, part: &str) -> Error {
        match self {
            Error::Usage(message) => Error::Usage(format!("{part}: {message}")),
            Error::Input(message) => Error::Input(format!("{part}: {message}")),
            Error::Cluster(message) => Error::Cluster(format!("{part}: {message}")),
        }
    }

    /// Something that cannot be written.
    pub fn output(path: &Path, error: impl Display) -> Error {
        Error::Usage(format!("cannot write {}: {error}", path.display()))
    }

    /// Something that cannot be read.
    pub fn input(path: &Path, error: impl Display) -> Error {
        Error::Input(format!("{}: {error}", path.display()))
    }
}

/// Whether a number is positive and finite: not NaN either.
pub fn is_positive(value: f64) -> bool {
    value > 0.0 && value.is_finite()
}

/// Fails with `message` unless `holds`: one check of a validation.
pub fn ensure(holds: bool, message: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message.to_string()) }
}
