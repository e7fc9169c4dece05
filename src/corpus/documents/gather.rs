//! The formats whose documents have several lines: `blocks`, `files` and `docs`.

use std::path::Path;

use super::{Format, RawDocument, Sink};
use crate::corpus::diagnostic::{Problem, Rule};
use crate::corpus::lines::{Fault, Line, Lines, too_long};

/// Reads `lines`, which are those of `path`.
pub(super) fn read(
    lines: &mut Lines,
    path: &Path,
    format: Format,
    longest: usize,
    sink: &mut Sink<'_>,
) -> Result<(), Problem> {
    let mut document = Gathered { longest, ..Gathered::default() };
    if format == Format::Files {
        let (id, label) = names(path);
        document.open(1, &id, &label);
    }
    while let Some(line) = lines.next_line()? {
        match format {
            Format::Docs if is_header(line.bytes) => {
                document.close(sink);
                document.open_by_header(line, sink);
            }
            Format::Blocks if line.is_blank() => document.close(sink),
            Format::Blocks if document.state == State::Outside => {
                document.open(line.number, &line.number.to_string(), "");
                document.add(line, sink);
            }
            _ => document.add(line, sink),
        }
    }
    if format == Format::Files && document.text.trim_ascii().is_empty() {
        return Ok(()); // nothing but blank lines
    }
    document.close(sink);
    Ok(())
}

/// Id and label of the document that a file is: its name, and that of its folder.
pub fn names(path: &Path) -> (String, String) {
    (name(path), path.parent().map_or(String::new(), name))
}

/// The last part of a path; standard input has none.
fn name(path: &Path) -> String {
    path.file_name().filter(|&name| name != "-").map_or(String::new(), |name| name.to_string_lossy().into_owned())
}

/// Whether the line opens a document, or was meant to.
pub(super) fn is_header(line: &[u8]) -> bool {
    line.strip_prefix(b"#DOC").is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))
}

/// Id and label of the document that the line `#DOC<TAB>id[<TAB>category...]` opens.
pub(super) fn read_header(line: &str) -> Result<(&str, &str), Fault> {
    let mut fields = line.split('\t');
    match (fields.next(), fields.next().map(str::trim).unwrap_or_default()) {
        (Some("#DOC"), id) if !id.is_empty() => Ok((id, fields.next().unwrap_or("").trim())),
        _ => {
            let message = "a document opens with #DOC, TAB and an id; its text is left out";
            Err((Rule::BadHeader, message.to_string()))
        }
    }
}

pub(super) fn outside_document() -> Fault {
    let message = "text before the first #DOC line; without such lines, say format = \"blocks\" or \"lines\"";
    (Rule::OutsideDocument, message.to_string())
}

/// Where the reader is.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// Before the first document, or between two.
    #[default]
    Outside,
    Inside,
    /// In a part of the file that a problem has been reported for.
    Skipping,
}

/// A document in the making.
#[derive(Default)]
struct Gathered {
    state: State,
    longest: usize,
    first_line: u64,
    id: String,
    label: String,
    text: String,
}

impl Gathered {
    fn open(&mut self, line: u64, id: &str, label: &str) {
        self.state = State::Inside;
        self.first_line = line;
        self.id.clear();
        self.id.push_str(id);
        self.label.clear();
        self.label.push_str(label);
    }

    fn open_by_header(&mut self, line: Line<'_>, sink: &mut Sink<'_>) {
        self.id.clear();
        match line.text.and_then(read_header) {
            Ok((id, label)) => self.open(line.number, id, label),
            Err(fault) => self.skip(line.number, fault, sink),
        }
    }

    fn add(&mut self, line: Line<'_>, sink: &mut Sink<'_>) {
        match (self.state, line.text) {
            (State::Inside, Ok(text)) if self.text.len() + text.len() < self.longest => {
                self.text.push_str(text);
                self.text.push('\n');
            }
            (State::Inside, Ok(_)) => self.skip(self.first_line, too_long("document", self.longest), sink),
            (State::Inside, Err(fault)) => self.skip(line.number, fault, sink),
            (State::Outside, _) if !line.bytes.trim_ascii().is_empty() => {
                self.skip(line.number, outside_document(), sink);
            }
            (State::Outside | State::Skipping, _) => {}
        }
    }

    /// Reports a fault and leaves out everything up to the next document.
    fn skip(&mut self, line: u64, fault: Fault, sink: &mut Sink<'_>) {
        sink.report(line, &self.id, fault);
        self.state = State::Skipping;
        self.text.clear();
    }

    /// Shows what has been gathered.
    fn close(&mut self, sink: &mut Sink<'_>) {
        if self.state == State::Inside {
            sink.show(&RawDocument { id: &self.id, label: &self.label, text: &self.text });
        }
        self.state = State::Outside;
        self.text.clear();
    }
}
