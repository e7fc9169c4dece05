//! The job file of an oracle job, and the inputs that it names.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::count::System;
use crate::cluster::engine::Cluster;
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
    /// By name: a file or glob, a table, or a list of these (see `Source`).
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Punctuation {
    #[default]
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

impl Plan {
    /// Hash of the settings that the result follows from: not of how the inputs are cut, nor of where they lie.
    pub fn fingerprint(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(format!("oracle {} {:?} {:?}", self.seed, self.settings, self.treebanks).as_bytes());
        for input in &self.inputs {
            let origin = match &input.origin {
                Origin::File { encoding, .. } => format!("{encoding:?}"),
                Origin::Synthetic(language) => format!("{language:?}"),
            };
            hasher.update(format!("{} {origin}", input.group).as_bytes());
        }
        *hasher.finalize().as_bytes()
    }

    /// The files that are read.
    pub fn files(&self) -> Vec<PathBuf> {
        let path = |input: &Input| match &input.origin {
            Origin::File { path, .. } => Some(path.clone()),
            Origin::Synthetic(_) => None,
        };
        self.inputs.iter().filter_map(path).collect()
    }
}

impl OracleJob {
    /// The same job with paths that do not depend on where its file lies.
    pub fn with_whole_paths(mut self, document: &Document) -> OracleJob {
        let whole = |path: &str| document.whole_path(path);
        for value in self.treebanks.values_mut() {
            make_whole(value, &whole);
        }
        if !self.out.is_empty() {
            self.out = whole(&self.out);
        }
        self
    }

    /// Checks the settings and finds the inputs.
    pub fn plan(&self, document: &Document) -> Result<Plan> {
        let refuse = |message: String| Err(Error::Usage(format!("{}: {message}", document.name())));
        let mut settings = self.oracle.clone();
        settings.systems.sort();
        settings.systems.dedup();
        if settings.systems.is_empty() {
            return refuse("oracle.systems names no transition system".to_string());
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
        if inputs.iter().filter(|input| input.is_stdin()).count() > 1 {
            return refuse("standard input (`-`) can be read once only".to_string());
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
        for pattern in strings(&source.files).unwrap_or_default() {
            for path in file::expand(document.folder(), &pattern)? {
                let input = Input::file(treebank, path.clone(), source.encoding).map_err(|e| Error::input(&path, e))?;
                let is_named_before = !input.is_stdin()
                    && inputs.iter().any(|other| other.group == treebank && other.name() == input.name());
                match is_named_before {
                    true => say!("sawmill: {} is named twice for {name}, and read once", path.display()),
                    false => inputs.push(input),
                }
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
    let refuse = |message: &str| Err(Error::Usage(format!("{}: {path} {message}", document.name())));
    match value {
        toml::Value::Array(list) => {
            let parts: Result<Vec<_>> = list.iter().map(|item| sources(item, path, document)).collect();
            match parts?.into_iter().flatten().collect::<Vec<_>>() {
                parts if parts.is_empty() => refuse("names no input"),
                parts => Ok(parts),
            }
        }
        toml::Value::String(_) => Ok(vec![Source { files: value.clone(), ..Source::default() }]),
        toml::Value::Table(_) => {
            let source: Source = document.read(value, path)?;
            let has_synth = source.synth != Source::default().synth;
            match () {
                () if has_synth && !source.synth.is_table() => refuse("has a synth that is not a table"),
                () if strings(&source.files).is_none() => refuse("has files that are not names"),
                () if source.files == Source::default().files && !has_synth => refuse("has neither files nor synth"),
                () => Ok(vec![source]),
            }
        }
        other => refuse(&format!("is {}, not a file name, a table or a list of these", other.type_str())),
    }
}

/// Makes the file names in a treebank's value whole.
fn make_whole(value: &mut toml::Value, whole: &dyn Fn(&str) -> String) {
    match value {
        toml::Value::String(path) => *path = whole(path),
        toml::Value::Array(list) => list.iter_mut().for_each(|item| make_whole(item, whole)),
        toml::Value::Table(table) => table.get_mut("files").into_iter().for_each(|files| make_whole(files, whole)),
        _ => {}
    }
}

/// A string or a list of strings; none where it is anything else.
fn strings(value: &toml::Value) -> Option<Vec<String>> {
    match value {
        toml::Value::String(one) => Some(vec![one.clone()]),
        toml::Value::Array(list) => list.iter().map(|item| item.as_str().map(str::to_string)).collect(),
        _ => None,
    }
}

impl Plan {
    /// The plan, for people.
    pub fn describe(&self, cluster: &Cluster) -> String {
        use std::fmt::Write;
        let mut text = String::new();
        let systems: Vec<&str> = self.settings.systems.iter().map(|system| system.name()).collect();
        let _ = writeln!(
            text,
            "oracle job, seed {}, {} with {} reorderings",
            self.seed,
            systems.join(", "),
            self.settings.reorder
        );
        for (index, name) in self.treebanks.iter().enumerate() {
            let inputs: Vec<&Input> = self.inputs.iter().filter(|input| usize::from(input.group) == index).collect();
            let weight: u64 = inputs.iter().map(|input| input.weight()).sum();
            let _ = writeln!(text, "  {name}: {} inputs, about {:.1} MB of text", inputs.len(), weight as f64 / 1e6);
            for input in inputs {
                let _ = writeln!(text, "    {}", input.name());
            }
        }
        let bytes = self.inputs.iter().map(Input::weight).fold(0, u64::saturating_add);
        // Measured: about 150 MB/s a worker with one reordering, half of it more for each further one.
        let rate = 150e6 / (0.5 + 0.5 * f64::from(self.settings.reorder.max(1)));
        let seconds = bytes as f64 / rate / cluster.workers() as f64;
        let _ = writeln!(
            text,
            "{} pieces for {} workers in {} processes",
            self.pieces.len(),
            cluster.workers(),
            cluster.processes()
        );
        let _ = writeln!(
            text,
            "about {:.0} MB of text, {seconds:.1} s, {} MB of memory per process",
            bytes as f64 / 1e6,
            15 + 10 * cluster.threads
        );
        text
    }
}
