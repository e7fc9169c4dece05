//! The lines of documents, one by one, for text that need not be held as documents: so one may be of any length.
//!
//! What is wrong with a line is reported, and that line alone left out; what stands in no document is left out up to the next.

use std::io;
use std::path::Path;

use super::gather::{is_header, outside_document, read_header};
use super::{Format, LONGEST_DOCUMENT, empty_file, mallet_fields, open_file};
use crate::corpus::diagnostic::Problem;
use crate::corpus::lines::{Fault, Line, Lines};
use crate::corpus::text::Encoding;

/// What comes next in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A document begins.
    Document,
    /// One of its lines.
    Line(&'a str),
}

/// Shows what the file at `path` (`-`: standard input) has to `visit`, and what is wrong to `report`; fails where the file
/// cannot be opened. A file without text has at least one problem.
pub fn read_pieces(
    path: &Path,
    encoding: Encoding,
    format: Format,
    visit: &mut dyn FnMut(Piece<'_>),
    report: &mut dyn FnMut(Problem),
) -> io::Result<()> {
    let input = open_file(path)?;
    let mut stream = Stream { visit, report, is_inside: false, is_skipping: false, is_empty: true };
    let read = Lines::begin(input, encoding, LONGEST_DOCUMENT).and_then(|mut lines| {
        if format == Format::Files {
            stream.open();
        }
        while let Some(line) = lines.next_line()? {
            stream.take(line, format);
        }
        Ok(())
    });
    match read {
        Err(problem) => (stream.report)(problem),
        Ok(()) if stream.is_empty => stream.tell(1, empty_file()),
        Ok(()) => {}
    }
    Ok(())
}

struct Stream<'s> {
    visit: &'s mut dyn FnMut(Piece<'_>),
    report: &'s mut dyn FnMut(Problem),
    /// Whether a document is open.
    is_inside: bool,
    /// Whether it was said why what comes next is left out.
    is_skipping: bool,
    /// Whether nothing has come yet.
    is_empty: bool,
}

impl Stream<'_> {
    fn take(&mut self, line: Line<'_>, format: Format) {
        let (number, is_blank) = (line.number, line.is_blank());
        match format {
            Format::Lines | Format::Mallet if is_blank => {}
            Format::Lines | Format::Mallet => {
                let is_mallet = format == Format::Mallet;
                let text = line.text.and_then(|text| if is_mallet { Ok(mallet_fields(text)?.text) } else { Ok(text) });
                if text.is_ok() {
                    self.open();
                }
                self.show(number, text);
            }
            Format::Blocks if is_blank => self.is_inside = false,
            Format::Docs if is_header(line.bytes) => {
                self.is_inside = false;
                match line.text.and_then(read_header) {
                    Ok(_) => self.open(),
                    Err(fault) => self.skip(number, fault),
                }
            }
            Format::Docs if !self.is_inside => {
                if !is_blank && !self.is_skipping {
                    self.skip(number, outside_document());
                }
            }
            Format::Blocks | Format::Files | Format::Docs => {
                if !self.is_inside {
                    self.open();
                }
                self.show(number, line.text);
            }
        }
    }

    fn open(&mut self) {
        (self.is_inside, self.is_skipping) = (true, false);
        (self.visit)(Piece::Document);
    }

    fn show(&mut self, number: u64, text: Result<&str, Fault>) {
        match text {
            Ok(text) => {
                self.is_empty &= text.trim().is_empty();
                (self.visit)(Piece::Line(text));
            }
            Err(fault) => self.tell(number, fault),
        }
    }

    fn skip(&mut self, number: u64, fault: Fault) {
        self.is_skipping = true;
        self.tell(number, fault);
    }

    fn tell(&mut self, line: u64, (rule, message): Fault) {
        self.is_empty = false;
        (self.report)(Problem { line, rule, sentence: String::new(), message });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::diagnostic::Rule;

    /// Documents as lists of lines, and problems with their lines.
    fn read(bytes: &[u8], format: Format) -> (Vec<Vec<String>>, Vec<(u64, Rule)>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, bytes).unwrap();
        let (mut documents, mut problems) = (vec![], vec![]);
        let mut visit = |piece: Piece<'_>| match piece {
            Piece::Document => documents.push(vec![]),
            Piece::Line(text) => documents.last_mut().expect("a document").push(text.to_string()),
        };
        let mut report = |problem: Problem| problems.push((problem.line, problem.rule));
        read_pieces(&path, Encoding::Utf8, format, &mut visit, &mut report).unwrap();
        (documents, problems)
    }

    #[test]
    fn a_broken_line_takes_no_other_with_it() {
        for (bytes, format, expected) in [
            (&b"#DOC\ta\nx\n\xff\ny\n#DOC\tb\nz\n"[..], Format::Docs, vec![vec!["x", "y"], vec!["z"]]),
            (b"x\ny\n\xff\nz\n", Format::Files, vec![vec!["x", "y", "z"]]),
            (b"x\n\n\xff\ny\n\n\nz\n", Format::Blocks, vec![vec!["x"], vec!["y"], vec!["z"]]),
            (b"x\n\n\xff\ny\n", Format::Lines, vec![vec!["x"], vec!["y"]]),
            (b"1 a x\n\n\xff\n2 b y z\n", Format::Mallet, vec![vec!["x"], vec!["y z"]]),
        ] {
            let (documents, problems) = read(bytes, format);
            assert_eq!(documents, expected, "{format:?}");
            assert_eq!(problems, [(3, Rule::BrokenEncoding)], "{format:?}");
        }
    }

    #[test]
    fn text_of_no_document_is_told_once() {
        let (documents, problems) = read(b"\nx\ny\n#DOC\ta\nz\n#DOC\nw\nw\n#DOC\tb\n", Format::Docs);
        assert_eq!(documents, [vec!["z".to_string()], vec![]]);
        assert_eq!(problems, [(2, Rule::OutsideDocument), (6, Rule::BadHeader)]);
        for (format, bytes) in [(Format::Files, &b"\n \n"[..]), (Format::Lines, b""), (Format::Blocks, b"\n")] {
            assert_eq!(read(bytes, format).1, [(1, Rule::EmptyFile)], "{format:?}");
        }
    }
}
