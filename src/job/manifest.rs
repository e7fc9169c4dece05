//! What a run says of itself, in `manifest.json`.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::corpus::open::content_hash;
use crate::corpus::piece::{Input, Origin};
use crate::error::{Error, Result};

use super::folder::MANIFEST;

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    Running,
    /// The dataflow stays alive and waits for changes.
    Watching,
    Done,
    /// Stopped, with a checkpoint to go on from.
    Stopped,
    Failed,
}

/// The manifest of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Manifest {
    pub sawmill: String,
    pub kind: String,
    pub state: State,
    /// Why it failed.
    #[serde(default)]
    pub error: Option<String>,
    /// None for a study, whose variants have their own.
    pub seed: Option<u64>,
    pub shards: Option<u32>,
    pub generator: String,
    pub processes: usize,
    pub workers: usize,
    pub process_id: u32,
    /// Seconds since 1970.
    pub started: u64,
    pub updated: u64,
    pub seconds: f64,
    pub inputs: Vec<InputRecord>,
}

/// What was read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InputRecord {
    pub path: String,
    /// Size of the file as stored.
    pub bytes: u64,
    /// Of a treebank: the sum, modulo 2^64, of the XXH3 hashes of its sentences, the same however the file is packed or
    /// cut; null where the run follows changes. Of documents: the XXH3 hash of the file as stored.
    pub content: Option<String>,
}

impl InputRecord {
    /// What is to be said of a file of documents.
    pub fn of_file(path: &Path) -> InputRecord {
        InputRecord {
            path: path.display().to_string(),
            bytes: std::fs::metadata(path).map_or(0, |metadata| metadata.len()),
            content: content_hash(path).ok().map(|hash| format!("{hash:016x}")),
        }
    }
}

impl Manifest {
    /// The manifest in the run folder at `path`.
    pub fn load(path: &Path) -> Result<Manifest> {
        let file = path.join(MANIFEST);
        let text = std::fs::read_to_string(&file).map_err(|e| {
            Error::Usage(format!("{} is not a run folder: cannot read {}: {e}", path.display(), file.display()))
        })?;
        serde_json::from_str(&text).map_err(|e| Error::Usage(format!("{}: {e}", file.display())))
    }

    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a manifest is JSON");
        text.push('\n');
        text
    }
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// What is to be said of `inputs`, whose content hashes may be known.
pub fn records(inputs: &[Input], contents: &[u64]) -> Vec<InputRecord> {
    let record = |(index, input): (usize, &Input)| InputRecord {
        path: input.name(),
        bytes: match &input.origin {
            Origin::File { bytes, .. } => *bytes,
            Origin::Synthetic(_) => 0,
        },
        content: contents.get(index).map(|hash| format!("{hash:016x}")),
    };
    inputs.iter().enumerate().map(record).collect()
}
