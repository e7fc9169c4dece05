//! CoNLL-X and CoNLL-U: sentences out of a block of text.
//!
//! Both are ten columns separated by TAB, a blank line behind each sentence. CoNLL-U adds comments (`# sent_id = ..`),
//! multiword tokens (`3-4`) and empty nodes (`5.1`); neither of the last two is a word of the tree. Nothing is copied:
//! a token remembers where its columns begin in the block.
//!
//! A sentence with problems is shown with all of them, so that `check` can list each one, and has no tree.

use simdutf8::basic::from_utf8;
use xxhash_rust::xxh3::xxh3_64;

use super::diagnostic::{Problem, Rule};
use super::piece::Block;
use super::text::{broken_byte, lossy};
use super::tree::{Shape, Tree};

/// Columns of a token line.
pub const COLUMNS: usize = 10;

/// The columns by name, as indices.
pub mod column {
    pub const ID: usize = 0;
    pub const FORM: usize = 1;
    pub const LEMMA: usize = 2;
    pub const UPOS: usize = 3;
    pub const XPOS: usize = 4;
    pub const FEATS: usize = 5;
    pub const HEAD: usize = 6;
    pub const DEPREL: usize = 7;
    pub const DEPS: usize = 8;
}

/// A word: its head, and where its columns begin in the text of the sentence (the last entry: behind the line).
#[derive(Clone, Copy, Debug)]
pub struct Token {
    pub head: u32,
    starts: [u32; COLUMNS + 1],
}

/// A sentence, borrowed from the block and from the reader's buffers.
pub struct Sentence<'a> {
    /// Its lines, comments included, without the blank line.
    pub text: &'a [u8],
    /// Line on which it begins.
    pub first_line: u64,
    pub tokens: &'a [Token],
    /// What is wrong with it; where this is not empty, there is no tree.
    pub problems: &'a [Problem],
    pub tree: &'a Tree,
    pub shape: Shape,
}

impl<'a> Sentence<'a> {
    /// A column of word `index` (from 0).
    pub fn column(&self, index: usize, column: usize) -> &'a str {
        let token = &self.tokens[index];
        let bytes = &self.text[token.starts[column] as usize..token.starts[column + 1] as usize - 1];
        std::str::from_utf8(bytes).unwrap_or("") // a sentence without problems is UTF-8
    }

    /// The `sent_id`, or nothing.
    pub fn id(&self) -> &'a str {
        sentence_id(self.text)
    }

    /// A key that follows from the sentence alone, comments included: what random draws for it are keyed by.
    pub fn key(&self) -> u64 {
        xxh3_64(self.text)
    }
}

/// Reads blocks; its buffers grow to the longest sentence and are reused.
#[derive(Default)]
pub struct Reader {
    tokens: Vec<Token>,
    problems: Vec<Problem>,
    tree: Tree,
    order: Vec<u32>,
}

impl Reader {
    /// Shows each sentence of `block` to `visit`.
    pub fn read(&mut self, block: &Block, mut visit: impl FnMut(&Sentence<'_>)) {
        let text = block.text.as_slice();
        let is_utf8 = from_utf8(text).is_ok();
        let mut line = block.first_line;
        let mut at = 0;
        while at < text.len() {
            at = self.parse_sentence(text, at, &mut line, is_utf8, &mut visit);
        }
    }

    /// Reads one sentence from `at` on, and the blank line behind it; returns where the next one begins.
    #[inline]
    fn parse_sentence(
        &mut self,
        text: &[u8],
        start: usize,
        line: &mut u64,
        is_utf8: bool,
        visit: &mut impl FnMut(&Sentence<'_>),
    ) -> usize {
        self.tokens.clear();
        self.problems.clear();
        let first_line = *line;
        let mut at = start;
        let mut sentence_end = start;
        while at < text.len() {
            let this_line = *line;
            *line += 1;
            let end = match text[at] {
                b'\n' => {
                    at += 1;
                    break;
                }
                b'#' => memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |i| at + i),
                _ => {
                    let row = Row::scan(text, at);
                    self.parse_token(&text[start..row.end], at - start, &row, this_line);
                    row.end
                }
            };
            sentence_end = end;
            at = end + 1;
        }
        let sentence = &text[start..sentence_end];
        if !self.tokens.is_empty() || !self.problems.is_empty() {
            self.finish(sentence, first_line, is_utf8, visit);
        }
        at.min(text.len())
    }

    /// Reads the token line that begins at `at` and ends with `text`.
    #[inline]
    fn parse_token(&mut self, text: &[u8], at: usize, row: &Row, line: u64) {
        if row.columns != COLUMNS {
            return self.problem(line, Rule::ColumnCount, column_message(&text[at..], row.columns));
        }
        let mut starts = row.starts;
        starts.iter_mut().for_each(|start| *start += at as u32);
        starts[COLUMNS] = text.len() as u32 + 1;
        let column = |index: usize| &text[starts[index] as usize..starts[index + 1] as usize - 1];
        let due = self.tokens.len() as u32 + 1;
        let id = column(column::ID);
        match number(id) {
            Some(id) if id == due => {}
            Some(_) => {
                self.problem(line, Rule::IdOrder, format!("ID is {}, not {due}", lossy(id)));
            }
            None if is_range(id) || is_empty_node(id) => return,
            None => {
                self.problem(line, Rule::BadId, format!("ID is `{}`, not a number, range or empty node", lossy(id)))
            }
        }
        let head = column(column::HEAD);
        let head = match number(head) {
            Some(head) => head,
            None => {
                let message = match head {
                    b"_" | b"" => "HEAD is missing".to_string(),
                    _ => format!("HEAD is `{}`, not a number", lossy(head)),
                };
                self.problem(line, Rule::BadHead, message);
                0
            }
        };
        if head == due {
            self.problem(line, Rule::SelfHead, format!("word {due} is its own head"));
        }
        self.tokens.push(Token { head, starts });
    }

    /// Checks the sentence as a whole and shows it.
    #[inline]
    fn finish(&mut self, text: &[u8], first_line: u64, is_utf8: bool, visit: &mut impl FnMut(&Sentence<'_>)) {
        let words = self.tokens.len() as u32;
        if self.tokens.iter().any(|token| token.head > words) {
            self.find_heads_out_of_range(text, first_line);
        }
        if !is_utf8 {
            self.find_broken_bytes(text, first_line);
        }
        let mut shape = Shape::Projective;
        if self.problems.is_empty() {
            self.tree.set_heads(self.tokens.iter().map(|token| token.head));
            shape = self.tree.shape(&mut self.order);
            if shape == Shape::Cyclic {
                let message = self.cycle_message();
                self.problem(first_line, Rule::Cycle, message);
            }
        }
        if !self.problems.is_empty() {
            self.address(text);
        }
        let Reader { tokens, problems, tree, .. } = self;
        visit(&Sentence { text, first_line, tokens, problems, tree, shape });
    }

    #[cold]
    fn problem(&mut self, line: u64, rule: Rule, message: String) {
        self.problems.push(Problem { line, rule, sentence: String::new(), message });
    }

    /// Gives the problems the sentence's name.
    #[cold]
    fn address(&mut self, text: &[u8]) {
        let id = sentence_id(text);
        for problem in &mut self.problems {
            problem.sentence = id.to_string();
        }
        self.problems.sort();
    }

    #[cold]
    fn find_heads_out_of_range(&mut self, text: &[u8], first_line: u64) {
        let words = self.tokens.len() as u32;
        for at in 0..self.tokens.len() {
            let Token { head, starts } = self.tokens[at];
            if head > words {
                let line = first_line + line_ends(&text[..starts[0] as usize]);
                self.problem(line, Rule::HeadRange, format!("HEAD is {head}, but the last word is {words}"));
            }
        }
    }

    #[cold]
    fn find_broken_bytes(&mut self, text: &[u8], first_line: u64) {
        if let Some((at, message)) = broken_byte(text) {
            let line = first_line + line_ends(&text[..at]);
            self.problem(line, Rule::BrokenEncoding, message);
        }
    }

    /// Names the words of one circle.
    #[cold]
    fn cycle_message(&self) -> String {
        let tree = &self.tree;
        let mut reached = vec![false; tree.root() as usize + 1];
        self.order.iter().for_each(|&node| reached[node as usize] = true);
        let mut word = (1..tree.root()).find(|&word| !reached[word as usize]).expect("a word outside the tree");
        for _ in 0..tree.words() {
            word = tree.head(word); // after that many steps, surely on the circle
        }
        let mut circle = vec![word];
        while tree.head(*circle.last().expect("a word")) != word {
            circle.push(tree.head(*circle.last().expect("a word")));
        }
        let shown: Vec<String> = circle.iter().take(8).map(u32::to_string).collect();
        let more = if circle.len() > 8 { " ..." } else { "" };
        format!("the heads run in a circle: {}{more} -> {word}", shown.join(" -> "))
    }
}

/// Where the columns of a line begin, counted from the line's own beginning.
struct Row {
    /// Where the line ends in the text.
    end: usize,
    columns: usize,
    starts: [u32; COLUMNS + 1],
}

impl Row {
    /// Looks for tabs and the line end, eight bytes at a time: columns are short, and a search for each one costs more
    /// than what it finds.
    #[inline]
    fn scan(text: &[u8], at: usize) -> Row {
        const EVERY: u64 = u64::from_le_bytes([1; 8]);
        let mut row = Row { end: text.len(), columns: 1, starts: [0; COLUMNS + 1] };
        let mut word = at;
        while word < text.len() {
            let bytes = match text.get(word..word + 8) {
                Some(bytes) => u64::from_le_bytes(bytes.try_into().expect("8 bytes")),
                None => last_bytes(&text[word..]),
            };
            // TAB and line feed are 0x09 and 0x0a: zero the bytes 0x08 ..= 0x0b, then find the zeros.
            let masked = (bytes & (EVERY * 0xfc)) ^ (EVERY * 0x08);
            let mut hits = !((((masked & (EVERY * 0x7f)) + EVERY * 0x7f) | masked) | (EVERY * 0x7f));
            while hits != 0 {
                let hit = word + (hits.trailing_zeros() / 8) as usize;
                hits &= hits - 1;
                match text[hit] {
                    b'\t' => {
                        if row.columns < COLUMNS {
                            row.starts[row.columns] = (hit - at) as u32 + 1;
                        }
                        row.columns += 1;
                    }
                    b'\n' => {
                        row.end = hit;
                        return row;
                    }
                    _ => {}
                }
            }
            word += 8;
        }
        row
    }
}

/// Fewer than eight bytes as a word, filled up with bytes that are neither TAB nor line feed.
#[cold]
fn last_bytes(bytes: &[u8]) -> u64 {
    let mut word = [b'_'; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// Line ends in `text`.
fn line_ends(text: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', text).count() as u64
}

/// A whole number of at most nine digits.
#[inline]
fn number(text: &[u8]) -> Option<u32> {
    if text.is_empty() || text.len() > 9 {
        return None;
    }
    let mut value = 0;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u32::from(digit);
    }
    Some(value)
}

/// `3-4`: a multiword token.
fn is_range(id: &[u8]) -> bool {
    let mut parts = id.split(|&b| b == b'-').map(number);
    matches!((parts.next(), parts.next(), parts.next()), (Some(Some(from)), Some(Some(to)), None) if from <= to)
}

/// `5.1`: an empty node.
fn is_empty_node(id: &[u8]) -> bool {
    let mut parts = id.split(|&b| b == b'.').map(number);
    matches!((parts.next(), parts.next(), parts.next()), (Some(Some(_)), Some(Some(_)), None))
}

/// The value of the comment `# sent_id = ..`.
fn sentence_id(text: &[u8]) -> &str {
    let comments = text.split(|&b| b == b'\n').take_while(|line| line.starts_with(b"#"));
    comments
        .filter_map(|line| std::str::from_utf8(line).ok())
        .filter_map(|line| line[1..].trim_start().strip_prefix("sent_id"))
        .find_map(|rest| rest.trim_start().strip_prefix('='))
        .map_or("", str::trim)
}

fn column_message(row: &[u8], columns: usize) -> String {
    let hint = match columns {
        _ if row.iter().all(u8::is_ascii_whitespace) => "; a blank line has to be empty",
        1 if row.contains(&b' ') => "; columns are separated by TAB, not by spaces",
        _ => "",
    };
    format!("{columns} column{} instead of {COLUMNS}{hint}", if columns == 1 { "" } else { "s" })
}
