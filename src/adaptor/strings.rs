//! The strings that a grammar is to derive: a string per line, or documents whose lines are cut into strings.
//!
//! Symbols are separated by blanks, or are the characters of a line, blanks left out. In documents (`#DOC<TAB>id` opens one)
//! every string begins with the symbol `_id`, which tells the grammar where it comes from.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::reader::Alphabet;
use crate::corpus::diagnostic::{Diagnostic, Problem};
use crate::corpus::lines::Lines;
use crate::corpus::open;
use crate::corpus::text::Encoding;
use crate::error::{Error, Result};

/// What the symbols of a line are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Symbols {
    /// Separated by blanks.
    #[default]
    Blanks,
    /// Its characters; blanks are left out.
    Characters,
}

/// How strings stand in files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// A string per line.
    #[default]
    Lines,
    /// `#DOC<TAB>id` opens a document; its lines follow.
    Docs,
}

/// How lines become strings of symbols.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reading {
    pub symbols: Symbols,
    pub format: Format,
    pub encoding: Encoding,
    pub lowercase: bool,
    /// Whether a line is cut where there is something else than words: runs of letters, digits, - and '.
    pub cut_at_punctuation: bool,
    /// Words at which a line is cut too; they are left out.
    pub cut_at: BTreeSet<String>,
}

/// A string, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    pub symbols: Vec<String>,
    pub file: u32,
    pub line: u64,
}

/// All strings of a corpus.
#[derive(Clone, Debug, Default)]
pub struct Strings {
    pub texts: Vec<Text>,
    pub problems: Vec<Diagnostic>,
}

/// No line is longer, in bytes.
const LONGEST: usize = 1 << 20;

impl Reading {
    /// The strings of a line.
    pub fn strings(&self, line: &str) -> Vec<Vec<String>> {
        let lower = self.lowercase.then(|| line.to_lowercase());
        let line = lower.as_deref().unwrap_or(line);
        if self.symbols == Symbols::Characters {
            return vec![line.chars().filter(|c| !c.is_whitespace()).map(String::from).collect()];
        }
        let mut strings = vec![vec![]];
        let is_word = |c: char| c.is_alphanumeric() || c == '-' || c == '\'';
        for token in line.split_whitespace() {
            if !self.cut_at_punctuation {
                self.add(token, &mut strings);
                continue;
            }
            for part in token.split_inclusive(|c| !is_word(c)) {
                let word = part.trim_end_matches(|c| !is_word(c));
                let bare = word.trim_matches(['-', '\'']);
                if !bare.is_empty() {
                    self.add(bare, &mut strings);
                }
                if word.len() < part.len() || bare.is_empty() {
                    strings.push(vec![]);
                }
            }
        }
        strings
    }

    fn add(&self, word: &str, strings: &mut Vec<Vec<String>>) {
        match self.cut_at.contains(word) {
            true => strings.push(vec![]),
            false => strings.last_mut().expect("a string").push(word.to_string()),
        }
    }

    /// Reads the strings of files.
    pub fn read(&self, files: &[PathBuf]) -> Result<Strings> {
        let mut all = Strings::default();
        for (file, path) in (0..).zip(files) {
            self.read_file(file, path, &mut all)?;
        }
        Ok(all)
    }

    fn read_file(&self, file: u32, path: &Path, all: &mut Strings) -> Result<()> {
        let mut document = None;
        each_line(path, self.encoding, |number, line| {
            let line = match line {
                Ok(line) => line,
                Err(problem) => {
                    all.problems.push(Diagnostic { path: path.display().to_string(), problem });
                    return;
                }
            };
            if self.format == Format::Docs
                && let Some(header) = line.strip_prefix("#DOC\t")
            {
                let id: String = header.split('\t').next().unwrap_or_default().split_whitespace().collect();
                document = Some(format!("_{id}"));
                return;
            }
            for string in self.strings(line).into_iter().filter(|string| !string.is_empty()) {
                let symbols = document.iter().cloned().chain(string).collect();
                all.texts.push(Text { symbols, file, line: number });
            }
        })
    }
}

/// Calls `visit` with every line of a file.
pub fn each_line(path: &Path, encoding: Encoding, mut visit: impl FnMut(u64, Result<&str, Problem>)) -> Result<()> {
    let address = |problem: Problem| {
        let diagnostic = Diagnostic { path: path.display().to_string(), problem };
        Error::Input(diagnostic.to_string())
    };
    let input = open::open(path).map_err(|e| Error::input(path, e))?;
    let mut lines = Lines::begin(input, encoding, LONGEST).map_err(address)?;
    while let Some(line) = lines.next_line().map_err(address)? {
        let number = line.number;
        let fault = |(rule, message)| Problem { line: number, rule, sentence: String::new(), message };
        visit(number, line.text.map_err(fault));
    }
    Ok(())
}

impl Strings {
    /// The symbols, in the order in which they are first seen.
    pub fn alphabet(&self) -> Alphabet {
        let mut alphabet = Alphabet::default();
        let mut seen = HashSet::new();
        for text in &self.texts {
            for (place, symbol) in text.symbols.iter().enumerate() {
                if !seen.insert(symbol.as_str()) {
                    continue;
                }
                match symbol.strip_prefix('_').filter(|id| place == 0 && !id.is_empty() && text.symbols.len() > 1) {
                    Some(id) => alphabet.documents.push(id.to_string()),
                    None => alphabet.words.push(symbol.clone()),
                }
            }
        }
        alphabet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_strings() {
        let show = |reading: &Reading, line: &str| {
            let strings = reading.strings(line);
            strings.iter().map(|s| s.join(" ")).filter(|s| !s.is_empty()).collect::<Vec<_>>()
        };
        let plain = Reading::default();
        assert_eq!(show(&plain, " yu  want (tu) "), ["yu want (tu)"]);
        let characters = Reading { symbols: Symbols::Characters, ..Reading::default() };
        assert_eq!(show(&characters, "yu wA"), ["y u w A"]);
        let cut = Reading {
            lowercase: true,
            cut_at_punctuation: true,
            cut_at: BTreeSet::from(["the".to_string()]),
            ..Reading::default()
        };
        let line = "The two-input gates (e.g., NAND) of the network -- it's \"small\".";
        assert_eq!(show(&cut, line), ["two-input gates", "e", "g", "nand", "of", "network", "it's", "small"]);
    }
}
