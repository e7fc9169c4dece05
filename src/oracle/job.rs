//! The job file of an oracle job, and the inputs that it names.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::count::System;
use crate::corpus::piece::{Encoding, Input, Origin, Piece, cut};
use crate::corpus::synth::{Grammar, Language};
use crate::error::{Error, Result};
use crate::job::file::{self, Document};
use crate::transition::reorder::HeadPlacement;

/// The job file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct OracleJob {
    pub kind: String,
    pub seed: u64,
    /// About how many pieces the inputs are cut into; does not show in the result.
    pub shards: u32,
    pub out: String,
    pub oracle: Settings,
    /// By name: a file or glob, a table, or a list of these (see [`Source`]).
    pub treebanks: BTreeMap<String, toml::Value>,
}

impl Default for OracleJob {
    fn default() -> OracleJob {
        OracleJob {
            kind: "oracle".to_string(),
            seed: 1,
            shards: 64,
            out: String::new(),
            oracle: Settings::default(),
            treebanks: BTreeMap::new(),
        }
    }
}

/// What is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    pub systems: Vec<System>,
    /// How many random reorderings of each sentence are measured.
    pub reorder: u32,
    /// Where a head goes among its shuffled children.
    pub head_placement: HeadPlacement,
    /// Sentences of more words are left out; 0: no limit.
    pub max_length: u32,
    pub punctuation: Punctuation,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            systems: System::ALL.to_vec(),
            reorder: 1,
            head_placement: HeadPlacement::default(),
            max_length: 0,
            punctuation: Punctuation::Keep,
        }
    }
}

/// Whether punctuation is part of the trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Punctuation {
    Keep,
    Drop,
}

/// A part of a treebank, as a table: files or globs with their encoding, or an artificial language.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
struct Source {
    files: toml::Value,
    encoding: Encoding,
    synth: toml::Value,
}

impl Default for Source {
    fn default() -> Source {
        let nothing = toml::Value::Array(vec![]);
        Source { files: nothing.clone(), encoding: Encoding::Utf8, synth: nothing }
    }
}

/// The job resolved: what is read, and in which pieces.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub settings: Settings,
    /// Names of the treebanks, by index.
    pub treebanks: Vec<String>,
    pub inputs: Vec<Input>,
    pub pieces: Vec<Piece>,
}

impl OracleJob {
    /// Checks the settings and finds the inputs.
    pub fn plan(&self, document: &Document) -> Result<Plan> {
        let refuse = |message: String| Err(Error::Usage(format!("{}: {message}", document.name())));
        let mut settings = self.oracle.clone();
        settings.systems.sort();
        settings.systems.dedup();
        if settings.systems.is_empty() {
            return refuse("oracle.systems names no transition system".to_string());
        }
        if self.shards == 0 {
            return refuse("shards is 0; it has to be at least 1".to_string());
        }
        if self.treebanks.is_empty() {
            return refuse("there is no [treebanks] section: add lines such as english = \"en-*.conllu\"".to_string());
        }
        if self.treebanks.len() > usize::from(u16::MAX) {
            return refuse(format!("{} treebanks are more than {}", self.treebanks.len(), u16::MAX));
        }
        let mut inputs = Vec::new();
        for (treebank, (name, value)) in (0..).zip(&self.treebanks) {
            let path = format!("treebanks.{name}");
            let mut part = 0;
            for source in sources(value, &path, document)? {
                self.add_inputs(&source, treebank, name, &mut part, document, &mut inputs)?;
            }
        }
        let pieces = cut(&inputs, self.shards);
        let treebanks = self.treebanks.keys().cloned().collect();
        Ok(Plan { seed: self.seed, settings, treebanks, inputs, pieces })
    }

    fn add_inputs(
        &self,
        source: &Source,
        treebank: u16,
        name: &str,
        part: &mut u32,
        document: &Document,
        inputs: &mut Vec<Input>,
    ) -> Result<()> {
        for pattern in strings(&source.files) {
            for path in file::expand(document.folder(), &pattern)? {
                let input = Input::file(treebank, path.clone(), source.encoding).map_err(|e| Error::input(&path, e))?;
                inputs.push(input);
            }
        }
        if source.synth.is_table() {
            let path = format!("treebanks.{name}.synth");
            let grammar: Grammar = document.read(&source.synth, &path)?;
            grammar.check().map_err(|e| Error::Usage(format!("{}: {path}: {e}", document.name())))?;
            *part += 1;
            let name = if *part == 1 { name.to_string() } else { format!("{name}-{part}") };
            let language = Language { name, seed: self.seed, grammar };
            inputs.push(Input { group: treebank, origin: Origin::Synthetic(Box::new(language)) });
        }
        Ok(())
    }
}

/// The parts of a treebank: a string, a table, or a list of these.
fn sources(value: &toml::Value, path: &str, document: &Document) -> Result<Vec<Source>> {
    match value {
        toml::Value::Array(list) => {
            let parts: Result<Vec<_>> = list.iter().map(|item| sources(item, path, document)).collect();
            Ok(parts?.into_iter().flatten().collect())
        }
        toml::Value::String(_) => Ok(vec![Source { files: value.clone(), ..Source::default() }]),
        toml::Value::Table(_) => {
            let source: Source = document.read(value, path)?;
            match strings(&source.files).is_empty() && !source.synth.is_table() {
                true => Err(Error::Usage(format!("{}: {path} has neither files nor synth", document.name()))),
                false => Ok(vec![source]),
            }
        }
        other => Err(Error::Usage(format!(
            "{}: {path} is {}, not a file name, a table or a list of these",
            document.name(),
            other.type_str()
        ))),
    }
}

/// A string or a list of strings.
fn strings(value: &toml::Value) -> Vec<String> {
    match value {
        toml::Value::String(one) => vec![one.clone()],
        toml::Value::Array(list) => list.iter().flat_map(strings).collect(),
        _ => vec![],
    }
}

impl Plan {
    /// The file of an input, or none for an artificial one.
    pub fn file(input: &Input) -> Option<&Path> {
        match &input.origin {
            Origin::File { path, .. } => Some(path),
            Origin::Synthetic(_) => None,
        }
    }
}
