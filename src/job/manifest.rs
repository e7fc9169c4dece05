//! What a run says of itself, in `manifest.json`.

use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::corpus::open::read_up_to;
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
    pub seed: u64,
    pub shards: u32,
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
    pub bytes: u64,
    /// XXH3, 128 bits, of the file as stored: what `xxhsum -H2` prints. Null for what is not a file.
    pub xxh3: Option<String>,
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

/// Names and hashes of `inputs`.
pub fn records(inputs: &[Input]) -> Vec<InputRecord> {
    let record = |input: &Input| match &input.origin {
        Origin::Synthetic(_) => InputRecord { path: input.name(), bytes: 0, xxh3: None },
        Origin::File { path, bytes, .. } => {
            InputRecord { path: input.name(), bytes: *bytes, xxh3: hash_file(path).ok().map(|h| format!("{h:032x}")) }
        }
    };
    inputs.iter().map(record).collect()
}

fn hash_file(path: &Path) -> io::Result<u128> {
    if path == Path::new("-") {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut file = std::fs::File::open(path)?;
    let mut hasher = Xxh3::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        let read = read_up_to(&mut file, &mut buffer)?;
        if read == 0 {
            return Ok(hasher.digest128());
        }
        hasher.update(&buffer[..read]);
    }
}
