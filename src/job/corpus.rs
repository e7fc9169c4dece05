//! The part of a job file that says what text is read, and how it becomes words.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::file::{self, Document};
use crate::cluster::engine::Cluster;
use crate::corpus::documents::Format;
use crate::corpus::hold_out::HoldOut;
use crate::corpus::text::Encoding;
use crate::corpus::tokens::Tokenisation;
use crate::error::{Error, Result};

/// What is read, and how text becomes words.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct CorpusSettings {
    pub train: Vec<String>,
    /// A list of files, or `{ hold_out = 30, by = "category" }`.
    pub test: toml::Value,
    pub format: Format,
    pub encoding: Encoding,
    pub lowercase: bool,
    /// What numbers become; "" keeps them.
    pub numbers: String,
    /// Words that are rarer, over training and test, become unknown; so do words of the test set alone.
    pub min_count: u64,
}

impl Default for CorpusSettings {
    fn default() -> CorpusSettings {
        CorpusSettings {
            train: vec![],
            test: toml::Value::Array(vec![]),
            format: Format::default(),
            encoding: Encoding::default(),
            lowercase: false,
            numbers: String::new(),
            min_count: 1,
        }
    }
}

/// Where test documents come from.
#[derive(Clone, Debug)]
pub enum Test {
    Files,
    HoldOut(HoldOut),
}

/// The settings, resolved.
#[derive(Clone, Debug)]
pub struct Corpus {
    /// Training files, then test files.
    pub files: Vec<PathBuf>,
    pub training_files: usize,
    pub test: Test,
    pub format: Format,
    pub encoding: Encoding,
    pub tokenisation: Tokenisation,
    pub min_count: u64,
}

impl CorpusSettings {
    /// Makes paths independent of where the job file lies.
    pub fn make_paths_whole(&mut self, document: &Document) {
        self.train.iter_mut().for_each(|path| *path = document.whole_path(path));
        for path in self.test.as_array_mut().into_iter().flatten() {
            if let toml::Value::String(path) = path {
                *path = document.whole_path(path);
            }
        }
    }

    /// Checks the settings and finds the files.
    pub fn resolve(&self, document: &Document) -> Result<Corpus> {
        let refuse = |message: String| Error::Usage(format!("{}: {message}", document.name()));
        if self.train.is_empty() {
            return Err(refuse("corpus.train names no file".to_string()));
        }
        let tokenisation = Tokenisation { lowercase: self.lowercase, numbers: self.numbers.clone() };
        tokenisation.check().map_err(|e| refuse(format!("corpus.numbers: {e}")))?;
        let mut files = expand_all(document, &self.train)?;
        let training_files = files.len();
        let test = match &self.test {
            toml::Value::Array(list) => {
                let names: Option<Vec<String>> = list.iter().map(|item| item.as_str().map(str::to_string)).collect();
                let names =
                    names.ok_or_else(|| refuse("corpus.test has entries that are not file names".to_string()))?;
                files.extend(expand_all(document, &names)?);
                Test::Files
            }
            table => Test::HoldOut(document.read(table, "corpus.test")?),
        };
        let (format, encoding, min_count) = (self.format, self.encoding, self.min_count);
        Ok(Corpus { files, training_files, test, format, encoding, tokenisation, min_count })
    }
}

impl Corpus {
    /// The files, for people, and the workers that will read them.
    pub fn describe(&self, cluster: &Cluster) -> String {
        let mut text = String::new();
        let mut bytes = 0;
        for (number, path) in self.files.iter().enumerate() {
            let what = if number < self.training_files { "train" } else { "test" };
            bytes += std::fs::metadata(path).map_or(0, |metadata| metadata.len());
            text += &format!("  {what}: {}\n", path.display());
        }
        let (workers, processes) = (cluster.workers(), cluster.processes());
        text +=
            &format!("{workers} workers in {processes} processes; {:.1} MB of files as stored\n", bytes as f64 / 1e6);
        text
    }
}

const READ_TWICE: &str = "files of a corpus are read more than once";

/// The files that `patterns` name, each of which can be read more than once.
pub fn expand_all(document: &Document, patterns: &[String]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for pattern in patterns {
        if pattern == "-" || pattern.ends_with("/-") {
            return Err(Error::Usage(format!("{}: {READ_TWICE}, and standard input cannot be", document.name())));
        }
        for path in file::expand(document.folder(), pattern)? {
            let metadata = std::fs::metadata(&path).map_err(|e| Error::input(&path, e))?;
            if metadata.is_dir() {
                return Err(Error::input(&path, "is a folder: name the files in it, such as \"folder/*\""));
            }
            if !metadata.is_file() {
                return Err(Error::input(&path, format!("{READ_TWICE}, and a pipe or device cannot be")));
            }
            files.push(path);
        }
    }
    Ok(files)
}
