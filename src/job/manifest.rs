//! The manifest of a run, `manifest.json`: what it runs, on what, with which program, and how far it has come.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::corpus::inputs::InputRecord;
use crate::error::{Error, Result};

/// Name of the file by which a folder is known to be a run folder.
pub const MANIFEST: &str = "manifest.json";

/// What the manifest of every run says first.
const FORMAT: &str = "sawmill run";
const VERSION: u32 = 2;

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
    /// Always "sawmill run".
    pub format: String,
    /// Version of this format.
    pub version: u32,
    pub sawmill: String,
    /// Hash of the program, as in the checkpoints.
    pub build: String,
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
    /// Hash of the settings that the result follows from, the roles of the inputs among them; empty for a study.
    pub settings: String,
    /// The files that are read, with their hashes; empty for a study, and for a run that follows changes.
    pub inputs: Vec<InputRecord>,
}

impl Manifest {
    /// The format and version of this program.
    pub fn header() -> (String, u32) {
        (FORMAT.to_string(), VERSION)
    }

    /// The manifest in the run folder at `path`.
    pub fn load(path: &Path) -> Result<Manifest> {
        let file = path.join(MANIFEST);
        let refuse = |why: String| Error::Usage(format!("{} is not a run folder: {MANIFEST} {why}", path.display()));
        let text = std::fs::read_to_string(&file).map_err(|e| refuse(format!("cannot be read: {e}")))?;
        let header: Header = serde_json::from_str(&text).unwrap_or_default();
        if header.format != FORMAT {
            return Err(refuse("is not a manifest of sawmill, or damaged".to_string()));
        }
        if header.version != VERSION {
            return Err(refuse(format!("has version {}; this sawmill reads version {VERSION}", header.version)));
        }
        serde_json::from_str(&text).map_err(|e| refuse(format!("is damaged: {e}")))
    }

    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a manifest is JSON");
        text.push('\n');
        text
    }
}

/// What tells a manifest of sawmill from any other file of that name.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Header {
    format: String,
    version: u32,
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn example() -> Manifest {
        let (format, version) = Manifest::header();
        Manifest {
            format,
            version,
            sawmill: "0.1.0".to_string(),
            build: "00".to_string(),
            kind: "lm".to_string(),
            state: State::Done,
            error: None,
            seed: Some(1),
            shards: Some(2),
            generator: "xoshiro256++".to_string(),
            processes: 1,
            workers: 1,
            process_id: 1,
            started: 1,
            updated: 2,
            seconds: 1.0,
            settings: "11".to_string(),
            inputs: vec![],
        }
    }

    #[test]
    fn manifests_of_others_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let load = |text: &str| {
            std::fs::write(folder.path().join(MANIFEST), text).unwrap();
            Manifest::load(folder.path()).map(|manifest| manifest.kind).map_err(|e| e.to_string())
        };
        let whole = example().to_json();
        assert_eq!(load(&whole), Ok("lm".to_string()));
        let refused = |text: &str| load(text).unwrap_err();
        assert!(refused(r#"{"name":"x"}"#).contains("not a manifest of sawmill"));
        assert!(refused("[]").contains("not a manifest of sawmill"));
        assert!(refused(&whole.replace("\"version\": 2", "\"version\": 3")).contains("version 3"));
        assert!(refused(&whole.replace("\"kind\"", "\"sort\"")).contains("damaged"));
        assert!(refused(&whole[..whole.len() / 2]).contains("not a manifest of sawmill"));
    }
}
