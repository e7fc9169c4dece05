//! Inputs cut into pieces, and pieces read as blocks of whole sentences.
//!
//! A *file* belongs to one treebank. A *piece* is what one worker reads at a stretch: a byte range of a plain file, a
//! whole compressed file, or a run of artificial sentences. A *block* is about a megabyte of a piece that ends where a
//! sentence ends: what is parsed at once, and what an idle worker can be given.
//!
//! Where pieces begin and end follows from the files and the number of shards alone. A range owns the sentences whose
//! first byte lies in it, so every sentence belongs to exactly one piece, wherever the cuts fall.
//!
//! Memory: one block per worker, and never more than [`LONGEST_SENTENCE`], whatever the file holds.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::diagnostic::{Problem, Rule};
use super::open;
use super::synth::Language;
pub use super::text::Encoding;
use super::text::{BYTE_ORDER_MARK, START, latin1_to_utf8, not_text, unify_lines};

/// A block holds at least this much, where the piece does.
const BLOCK: usize = 1 << 19;

/// A sentence of more bytes is skipped, as a problem: no treebank has one, and no worker has to hold it.
pub const LONGEST_SENTENCE: usize = 8 << 20;

/// No piece of a plain file is smaller, so that small files are not cut at all.
const SMALLEST_PIECE: u64 = 256 << 10;

/// An input of a job.
#[derive(Clone, Debug)]
pub struct Input {
    /// Index of the treebank that it belongs to.
    pub group: u16,
    pub origin: Origin,
}

/// Where the text of an input comes from.
#[derive(Clone, Debug)]
pub enum Origin {
    File { path: PathBuf, encoding: Encoding, bytes: u64, seekable: bool },
    Synthetic(Box<Language>),
}

impl Input {
    /// A file, looked at: its size, and whether it can be cut.
    pub fn file(group: u16, path: PathBuf, encoding: Encoding) -> io::Result<Input> {
        if path == Path::new("-") {
            return Ok(Input { group, origin: Origin::File { path, encoding, bytes: 0, seekable: false } });
        }
        let metadata = std::fs::metadata(&path)?;
        if metadata.is_dir() {
            let message = format!("is a folder: name the files in it, such as \"{}/*.conllu*\"", path.display());
            return Err(io::Error::new(io::ErrorKind::IsADirectory, message));
        }
        // What is no text at all is not cut, so that it is one problem wherever cuts would fall.
        let seekable = metadata.is_file() && {
            let start = open::first_bytes(&path, START)?;
            open::Packing::of(&start) == open::Packing::Plain && not_text(&start).is_none()
        };
        Ok(Input { group, origin: Origin::File { path, encoding, bytes: metadata.len(), seekable } })
    }

    /// Whether it is standard input, which only one process has.
    pub fn is_stdin(&self) -> bool {
        matches!(&self.origin, Origin::File { path, .. } if path == Path::new("-"))
    }

    /// What addresses in it begin with.
    pub fn name(&self) -> String {
        match &self.origin {
            Origin::File { path, .. } => path.display().to_string(),
            Origin::Synthetic(language) => format!("synthetic:{}", language.name),
        }
    }

    /// All of it, as one piece; `number` is its index.
    pub fn whole_piece(&self, number: u32) -> Piece {
        let end = match &self.origin {
            Origin::File { .. } => u64::MAX,
            Origin::Synthetic(language) => language.grammar.sentences,
        };
        Piece { input: number, start: 0, end, weight: self.weight() }
    }

    /// About how much work it is, in bytes of plain text.
    pub fn weight(&self) -> u64 {
        match &self.origin {
            Origin::File { bytes, seekable: true, .. } => *bytes,
            Origin::File { bytes, .. } => bytes.saturating_mul(9), // what xz makes of treebanks
            Origin::Synthetic(language) => {
                language.grammar.sentences.saturating_mul(40 * u64::from(language.grammar.length))
            }
        }
    }
}

/// A part of an input, for one worker to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Index of the input.
    pub input: u32,
    /// Bytes of a plain file, or sentences of an artificial one; the whole of a compressed file.
    pub start: u64,
    pub end: u64,
    /// About how much work it is (see [`Input::weight`]).
    pub weight: u64,
}

/// Cuts `inputs` into about `shards` pieces of equal weight, in the order of the inputs.
pub fn cut(inputs: &[Input], shards: u32) -> Vec<Piece> {
    let total = inputs.iter().map(Input::weight).fold(0, u64::saturating_add);
    let target = (total / u64::from(shards.max(1))).max(SMALLEST_PIECE);
    let mut pieces = Vec::new();
    for (index, input) in inputs.iter().enumerate() {
        let weight = input.weight();
        let (length, parts) = match &input.origin {
            Origin::File { bytes, seekable: true, .. } => (*bytes, weight.div_ceil(target)),
            Origin::File { bytes, .. } => (*bytes, 1),
            Origin::Synthetic(language) => (language.grammar.sentences, weight.div_ceil(target)),
        };
        let parts = parts.clamp(1, length.max(1));
        for part in 0..parts {
            let at = |part: u64| (u128::from(length) * u128::from(part) / u128::from(parts)) as u64;
            pieces.push(Piece { input: index as u32, start: at(part), end: at(part + 1), weight: weight / parts });
        }
    }
    pieces
}

/// Whole sentences of a piece: UTF-8 (as far as the file is), line feeds only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Index of the piece.
    pub piece: u32,
    /// The line of the piece, counted from 1, on which the text begins.
    pub first_line: u64,
    /// Lines of the text, or of what had to be skipped in its place.
    pub lines: u64,
    #[serde(with = "serde_bytes")]
    pub text: Vec<u8>,
    /// What is wrong with the piece here: for problems that no sentence has.
    pub problems: Vec<Problem>,
}

/// Reads a piece block by block.
pub struct Blocks {
    piece: u32,
    source: Source,
    line: u64,
}

enum Source {
    Bytes { splitter: Splitter, encoding: Encoding, begins_file: bool },
    Sentences { language: Box<Language>, next: u64, end: u64 },
    Done,
}

impl Blocks {
    /// Opens piece number `number`. What goes wrong is told by the first block.
    pub fn open(number: u32, piece: &Piece, input: &Input) -> Blocks {
        let source = match &input.origin {
            Origin::Synthetic(language) => {
                Source::Sentences { language: language.clone(), next: piece.start, end: piece.end }
            }
            Origin::File { path, encoding, seekable, .. } => {
                let splitter = match seekable {
                    true => Splitter::range(path, piece.start, piece.end),
                    false => Splitter::whole(open::open(path)),
                };
                Source::Bytes { splitter, encoding: *encoding, begins_file: piece.start == 0 }
            }
        };
        Blocks { piece: number, source, line: 1 }
    }

    /// The next block; none at the end.
    pub fn next_block(&mut self) -> Option<Block> {
        let mut block = Block { piece: self.piece, first_line: self.line, ..Block::default() };
        match &mut self.source {
            Source::Done => return None,
            Source::Sentences { language, next, end } => {
                if next == end {
                    return None;
                }
                while next < end && block.text.len() < BLOCK {
                    language.write_sentence(*next, &mut block.text);
                    *next += 1;
                }
            }
            Source::Bytes { splitter, encoding, begins_file } => {
                let begins_file = std::mem::take(begins_file);
                let problem =
                    |rule, message| Problem { line: block.first_line, rule, sentence: String::new(), message };
                match splitter.next(&mut block.text) {
                    Ok(Some(Split::Sentences)) => {
                        if begins_file && let Some(message) = not_text(&block.text) {
                            block.problems.push(problem(Rule::NotText, message));
                            block.text.clear();
                            self.source = Source::Done;
                            return Some(block);
                        }
                        if begins_file && block.text.starts_with(BYTE_ORDER_MARK) {
                            block.text.drain(..BYTE_ORDER_MARK.len());
                        }
                        if *encoding == Encoding::Latin1 {
                            block.text = latin1_to_utf8(&block.text);
                        }
                        unify_lines(&mut block.text);
                    }
                    Ok(Some(Split::Oversize { lines })) => {
                        let message = format!(
                            "more than {} MiB without a blank line: no treebank, or the blank lines between sentences are missing",
                            LONGEST_SENTENCE >> 20
                        );
                        block.problems.push(problem(Rule::TooLong, message));
                        block.lines = lines;
                        self.line += lines;
                        return Some(block);
                    }
                    Ok(None) if begins_file => {
                        block.problems.push(problem(Rule::EmptyFile, "the file is empty".to_string()));
                        self.source = Source::Done;
                        return Some(block);
                    }
                    Ok(None) => return None,
                    Err(error) => {
                        block.problems.push(problem(Rule::Unreadable, format!("cannot read on from here: {error}")));
                        self.source = Source::Done;
                        return Some(block);
                    }
                }
            }
        }
        block.lines = memchr::memchr_iter(b'\n', &block.text).count() as u64;
        self.line += block.lines;
        Some(block)
    }
}

/// What the splitter found.
enum Split {
    /// Whole sentences, in the buffer.
    Sentences,
    /// Something too long to be a sentence, skipped, with that many line ends in it.
    Oversize { lines: u64 },
}

/// Cuts a stream of bytes where sentences end.
struct Splitter {
    input: Box<dyn Read + Send>,
    /// What went wrong while reading; told when everything before it has been handed out.
    failed: Option<io::Error>,
    /// Read, but not handed out: begins where a sentence begins.
    rest: Vec<u8>,
    /// Bytes of the stream before `rest`.
    offset: u64,
    /// Sentences that begin here or later belong to somebody else.
    end: u64,
    at_end: bool,
}

impl Splitter {
    fn whole(input: io::Result<Box<dyn Read + Send>>) -> Splitter {
        let (input, failed) = match input {
            Ok(input) => (input, None),
            Err(error) => (Box::new(io::empty()) as Box<dyn Read + Send>, Some(error)),
        };
        Splitter { at_end: failed.is_some(), input, failed, rest: Vec::new(), offset: 0, end: u64::MAX }
    }

    /// The sentences of a plain file that begin in `start..end`.
    fn range(path: &Path, start: u64, end: u64) -> Splitter {
        let from = start.saturating_sub(3); // enough to see a blank line right before `start`
        let open = || -> io::Result<Box<dyn Read + Send>> {
            let mut file = File::open(path)?;
            file.seek(SeekFrom::Start(from))?;
            Ok(Box::new(file))
        };
        let mut splitter = Splitter { offset: from, end, ..Splitter::whole(open()) };
        if start > 0 {
            splitter.skip_to_boundary(start);
        }
        splitter
    }

    /// Reads one more step into `rest`.
    fn fill(&mut self) {
        let step = BLOCK as u64;
        let read = (&mut self.input).take(step).read_to_end(&mut self.rest);
        self.at_end = !read.as_ref().is_ok_and(|&n| n as u64 == step);
        self.failed = read.err();
    }

    /// Drops everything before the first sentence that begins at `start` or later; returns the line ends in it.
    fn skip_to_boundary(&mut self, start: u64) -> u64 {
        let mut lines = 0;
        loop {
            let from = start.saturating_sub(self.offset) as usize;
            let seen = match first_boundary(&self.rest, from) {
                Some(boundary) => return lines + self.drop_front(boundary),
                None if self.at_end => return lines + self.drop_front(self.rest.len()),
                None => self.rest.len().saturating_sub(3), // a blank line may be in sight by half
            };
            lines += self.drop_front(seen);
            self.fill();
        }
    }

    /// Drops the sentence that `rest` begins with; returns the line ends in it.
    fn skip_first_sentence(&mut self) -> u64 {
        self.skip_to_boundary(self.offset + 1)
    }

    /// Drops bytes from the front; returns the line ends among them.
    fn drop_front(&mut self, bytes: usize) -> u64 {
        let lines = memchr::memchr_iter(b'\n', &self.rest[..bytes]).count() as u64;
        self.rest.drain(..bytes);
        self.offset += bytes as u64;
        lines
    }

    /// Moves whole sentences into `out`, which is empty.
    fn next(&mut self, out: &mut Vec<u8>) -> io::Result<Option<Split>> {
        loop {
            if self.offset >= self.end || (self.at_end && self.rest.is_empty()) {
                return self.failed.take().map_or(Ok(None), Err);
            }
            // Up to where sentences belong to us, if that is in sight; else as far as whole sentences are.
            let owned = (self.end - self.offset).min(self.rest.len() as u64) as usize;
            let cut = first_boundary(&self.rest, owned).or_else(|| last_boundary(&self.rest));
            let cut = match cut {
                None if self.at_end && self.failed.is_some() => {
                    self.rest.clear(); // a sentence whose end was lost
                    continue;
                }
                None if self.at_end => Some(self.rest.len()),
                cut => cut,
            };
            if self.rest.len() > LONGEST_SENTENCE {
                // Only the first sentence can be that long: whatever follows came with the last step.
                let first = first_boundary(&self.rest, 1).or(cut);
                if first.is_none_or(|end| end > LONGEST_SENTENCE) {
                    let lines = self.skip_first_sentence();
                    return Ok(Some(Split::Oversize { lines }));
                }
            }
            if let Some(cut) = cut {
                self.offset += cut as u64;
                out.reserve_exact(cut);
                out.extend_from_slice(&self.rest[..cut]);
                self.rest.drain(..cut);
                return Ok(Some(Split::Sentences));
            }
            self.fill();
        }
    }
}

/// Whether a sentence may begin at `at`: right behind a blank line.
fn is_boundary(text: &[u8], at: usize) -> bool {
    text[..at].ends_with(b"\n\n") || text[..at].ends_with(b"\n\r\n")
}

/// The first boundary at `from` or later.
fn first_boundary(text: &[u8], from: usize) -> Option<usize> {
    if from <= text.len() && is_boundary(text, from) {
        return Some(from);
    }
    let from = from.min(text.len());
    memchr::memchr_iter(b'\n', &text[from..]).map(|i| from + i + 1).find(|&at| is_boundary(text, at))
}

/// The last boundary.
fn last_boundary(text: &[u8]) -> Option<usize> {
    memchr::memrchr_iter(b'\n', text).map(|i| i + 1).find(|&at| is_boundary(text, at))
}
