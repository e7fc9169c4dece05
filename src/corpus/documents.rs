//! Documents out of a file, in the order in which they stand there.
//!
//! | format | a document is | its id | its label |
//! | --- | --- | --- | --- |
//! | `lines` | a line | its line's number | none |
//! | `blocks` | the lines between blank ones | its first line's number | none |
//! | `files` | a whole file | the file's name | the name of the file's folder |
//! | `mallet` | the third field of a line | the first field | the second field |
//! | `docs` | what follows `#DOC<TAB>id[<TAB>category...]` | the id | the first category |
//!
//! The fields of `mallet` are those of MALLET's own default, `(\S*)[\s,]*(\S*)[\s,]*(.*)`: the first two have no white
//! space in them, so blanks separate as well as TAB does, and an empty label cannot be written. Blank lines are no
//! documents; a `#DOC` with nothing behind it is an empty one. Ids may repeat.
//!
//! What is wrong with a document is reported with its line, and the document left out. Reading is one pass, and memory
//! is bounded: a document of more than [`LONGEST_DOCUMENT`] is a problem too, and no more than a small
//! multiple of that is ever held.

mod gather;
pub mod stream;

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::diagnostic::{Problem, Rule};
use super::lines::{Fault, Lines};
use super::open::open;
use super::text::{Encoding, lossy};

/// A document of more bytes is left out: a file in the wrong format must not fill the memory.
pub const LONGEST_DOCUMENT: usize = 64 << 20;

/// How documents stand in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// A document per line
    #[default]
    Lines,
    /// Blank lines between documents
    Blocks,
    /// A document per file
    Files,
    /// id, label and text on a line, separated by TAB
    Mallet,
    /// A line #DOC, TAB and an id opens a document
    Docs,
}

/// A document, borrowed from the reader's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawDocument<'a> {
    pub id: &'a str,
    /// Its category, or empty.
    pub label: &'a str,
    /// Its lines (a sentence each, where the file has them so), with a line feed behind each but perhaps the last.
    pub text: &'a str,
}

/// What documents take from the paths of their files: their own names, where each is a file.
pub fn names_from_paths(format: Format, files: &[PathBuf]) -> Vec<(String, String)> {
    match format {
        Format::Files => files.iter().map(|path| gather::names(path)).collect(),
        _ => vec![],
    }
}

/// Shows each document of the file at `path` (`-`: standard input) to `visit`, and what is wrong to `report`; fails
/// where the file cannot be opened. A file without documents has at least one problem.
pub fn read_documents(
    path: &Path,
    encoding: Encoding,
    format: Format,
    visit: &mut dyn FnMut(&RawDocument<'_>),
    report: &mut dyn FnMut(Problem),
) -> io::Result<()> {
    let mut sink = Sink { visit, report, is_empty: true };
    read_stream(open_file(path)?, path, encoding, format, LONGEST_DOCUMENT, &mut sink);
    Ok(())
}

/// The unpacked bytes of a file, which is no folder.
fn open_file(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    if path.is_dir() {
        let message = format!("is a folder: name the files in it, such as \"{}/*\"", path.display());
        return Err(io::Error::new(io::ErrorKind::IsADirectory, message));
    }
    open(path)
}

fn empty_file() -> Fault {
    (Rule::EmptyFile, "the file is empty: there is no document in it".to_string())
}

/// Where documents and problems go.
struct Sink<'s> {
    visit: &'s mut dyn FnMut(&RawDocument<'_>),
    report: &'s mut dyn FnMut(Problem),
    /// Whether nothing has come yet.
    is_empty: bool,
}

impl Sink<'_> {
    fn show(&mut self, document: &RawDocument<'_>) {
        self.is_empty = false;
        (self.visit)(document);
    }

    fn report(&mut self, line: u64, id: &str, (rule, message): Fault) {
        self.is_empty = false;
        (self.report)(Problem { line, rule, sentence: lossy(id.as_bytes()), message });
    }
}

/// Reads the unpacked bytes of `path`.
fn read_stream(
    input: Box<dyn Read + Send>,
    path: &Path,
    encoding: Encoding,
    format: Format,
    longest: usize,
    sink: &mut Sink<'_>,
) {
    let read = Lines::begin(input, encoding, longest).and_then(|mut lines| match format {
        Format::Lines | Format::Mallet => read_lines(&mut lines, format, sink),
        Format::Blocks | Format::Files | Format::Docs => gather::read(&mut lines, path, format, longest, sink),
    });
    match read {
        Err(Problem { line, rule, message, .. }) => sink.report(line, "", (rule, message)),
        Ok(()) if sink.is_empty => sink.report(1, "", empty_file()),
        Ok(()) => {}
    }
}

/// The formats with a document per line.
fn read_lines(lines: &mut Lines, format: Format, sink: &mut Sink<'_>) -> Result<(), Problem> {
    while let Some(line) = lines.next_line()? {
        if line.is_blank() {
            continue;
        }
        let number = line.number.to_string();
        let document = line.text.and_then(|text| match format {
            Format::Mallet => mallet_fields(text),
            _ => Ok(RawDocument { id: &number, label: "", text }),
        });
        match document {
            Ok(document) => sink.show(&document),
            Err(fault) => sink.report(line.number, "", fault),
        }
    }
    Ok(())
}

/// Id, label and text of a line, which is not blank.
fn mallet_fields(line: &str) -> Result<RawDocument<'_>, Fault> {
    let is_blank = |c: char| c.is_ascii_whitespace() || c == '\x0b'; // what Java's \s is
    let field = |rest: &str| rest.find(is_blank).unwrap_or(rest.len());
    let (id, rest) = line.split_at(field(line));
    let rest = rest.trim_start_matches(|c| is_blank(c) || c == ',');
    let (label, rest) = rest.split_at(field(rest));
    let text = rest.trim_start_matches(|c| is_blank(c) || c == ',');
    let fault =
        |what: &str| Err((Rule::ColumnCount, format!("{what}: a line is id, label and text, separated by TAB")));
    match (id, label, text) {
        ("", ..) => fault("the line begins with white space"),
        (_, "", _) => fault("1 field instead of 3"),
        (.., "") => fault("2 fields instead of 3"),
        _ => Ok(RawDocument { id, label, text }),
    }
}

#[cfg(test)]
mod tests;
