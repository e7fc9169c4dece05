//! Sentences to be parsed, and their parses: CoNLL-U (or CoNLL-X) or plain text in, CoNLL-U out, in the order of the input.
//!
//! In CoNLL-U, comments, multiword tokens, empty nodes and all columns but those that the parser finds stay as they are.
//! In plain text a line is a sentence and white space stands between words; blank lines are none. Running text is cut into
//! sentences and words first ([`RunningText`]). Sentences are read in batches, parsed on several threads, and written: memory
//! does not grow with the file.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::Path;

use super::decode::{Decoder, Given, Parse};
use super::evaluate::{Settings, parse_all};
use super::job::Tags;
use super::model::ParserModel;
use crate::corpus::conll::{COLUMNS, column};
use crate::corpus::diagnostic::{Problem, Rule};
use crate::corpus::lines::{Line, Lines};
use crate::corpus::open::open;
use crate::corpus::running::RunningText;
use crate::corpus::text::Encoding;

/// How sentences stand in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// CoNLL-U where a line has ten columns, else plain text
    #[default]
    Auto,
    /// CoNLL-U or CoNLL-X
    Conllu,
    /// A sentence per line, blanks between words
    Text,
    /// Books, pages and the like, a paragraph per line: sentences and words are found by rules made for English
    Running,
    /// CoNLL-U where a line has ten columns; else a word per line with its tag and maybe more, blanks between them
    #[value(skip)]
    Tagged,
}

/// Sentences of a batch.
const BATCH: usize = 2048;

/// The longest line, in bytes.
const LONGEST_LINE: usize = 64 << 20;

/// A sentence of more words is left out and reported: a search keeps derivations for every word.
const LONGEST_SENTENCE: usize = 10_000;

/// Words of a batch, beyond which it is parsed: memory does not grow with the length of sentences.
const BATCH_WORDS: usize = 200_000;

/// Words of a sentence of running text: what has more is hardly one.
const MOST_WORDS: usize = 1000;

/// A sentence as CoNLL-U lines, without what is to be found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unparsed {
    /// The line that it begins on.
    pub first_line: u64,
    lines: Vec<String>,
    /// Which lines are words.
    words: Vec<usize>,
}

impl Unparsed {
    /// A sentence of plain text; `number` is its name.
    pub fn of_text(text: &str, number: u64) -> Unparsed {
        Unparsed::of_words(&text.split_whitespace().collect::<Vec<_>>(), number)
    }

    fn of_words(text: &[&str], number: u64) -> Unparsed {
        let mut sentence = Unparsed::default();
        sentence.lines.push(format!("# sent_id = {number}"));
        sentence.lines.push(format!("# text = {}", text.join(" ")));
        for (id, form) in (1..).zip(text) {
            sentence.words.push(sentence.lines.len());
            sentence.lines.push(format!("{id}\t{form}\t_\t_\t_\t_\t_\t_\t_\t_"));
        }
        sentence
    }

    /// A column of a word.
    pub fn column(&self, word: usize, column: usize) -> &str {
        self.lines[self.words[word]].split('\t').nth(column).unwrap_or("")
    }

    /// The `sent_id`, or nothing.
    pub fn id(&self) -> &str {
        let comments = self.lines.iter().filter_map(|line| line.strip_prefix('#'));
        comments
            .filter_map(|line| line.trim_start().strip_prefix("sent_id"))
            .find_map(|rest| rest.trim_start().strip_prefix('='))
            .map_or("", str::trim)
    }

    /// The words as they are spelt.
    pub fn forms(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|word| self.column(word, column::FORM))
    }

    /// Number of words.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The words as the model numbers them. A tag that is missing, or that the model does not know, is to be found.
    pub fn given(&self, model: &ParserModel, tags: Tags) -> Vec<Given> {
        let (lexicon, tag_column) = (&model.kept.lexicon, model.kept.tag_column.index());
        let tag = |word: usize| match tags {
            Tags::Predict => None,
            Tags::Gold | Tags::Given => lexicon.tag(self.column(word, tag_column)),
        };
        let given = |word: usize| {
            let form = lexicon.word(self.column(word, column::FORM), word == 0);
            Given { form, tag: tag(word) }
        };
        (0..self.len()).map(given).collect()
    }

    /// Writes the sentence with a parse; `rank` is said where several parses are asked for.
    fn write(&self, model: &ParserModel, parse: &Parse, rank: Option<usize>, out: &mut String) {
        let lexicon = &model.kept.lexicon;
        let tag_column = model.kept.tag_column.index();
        let comments =
            rank.map(|rank| format!("# parse = {rank}\n# log_probability = {:.4}\n", parse.ln)).unwrap_or_default();
        self.write_with(&comments, out, |word, at| match at {
            _ if at == tag_column => Some(lexicon.tags[parse.tags[word] as usize].clone()),
            column::HEAD => Some(parse.heads[word].to_string()),
            column::DEPREL => Some(lexicon.labels[usize::from(parse.labels[word].0)].clone()),
            column::DEPS => Some("_".to_string()), // enhanced arcs would be those of another tree
            _ => None,
        });
    }

    /// Writes the sentence with `comments` behind its own; `found` gives what stands in a column of a word, where that is not
    /// what it was.
    pub fn write_with(&self, comments: &str, out: &mut String, found: impl Fn(usize, usize) -> Option<String>) {
        let mut word = 0;
        let first = self.lines.iter().position(|line| !line.starts_with('#')).unwrap_or(self.lines.len());
        for (number, line) in self.lines.iter().enumerate() {
            if number == first {
                *out += comments;
            }
            if self.words.get(word) != Some(&number) {
                *out += line;
                out.push('\n');
                continue;
            }
            for (at, old) in line.split('\t').enumerate() {
                if at > 0 {
                    out.push('\t');
                }
                match found(word, at) {
                    Some(new) => *out += &new,
                    None => *out += old,
                }
            }
            out.push('\n');
            word += 1;
        }
        out.push('\n');
    }
}

/// What was parsed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parsed {
    pub sentences: u64,
    pub words: u64,
    /// Sentences that could not be read.
    pub skipped: u64,
}

/// Reads sentences.
struct SentenceReader {
    lines: Lines,
    format: Format,
    number: u64,
    /// A sentence in the making, the line that it begins on, and what is wrong with it.
    sentence: Unparsed,
    fault: Option<Problem>,
    running: RunningText,
    /// Sentences of a paragraph that are still to be handed out.
    waiting: VecDeque<Unparsed>,
}

impl SentenceReader {
    /// The next sentence, or what is wrong with it; none at the end.
    fn next(&mut self) -> Result<Option<Result<Unparsed, Problem>>, Problem> {
        loop {
            if let Some(sentence) = self.waiting.pop_front() {
                return Ok(Some(Ok(sentence)));
            }
            let Some(line) = self.lines.next_line()? else { return Ok(self.finish()) };
            if self.format == Format::Running
                && let Ok(text) = &line.text
            {
                self.running.each_sentence(text, |words, _| {
                    self.number += 1;
                    self.waiting.push_back(Unparsed::of_words(words, self.number));
                });
                continue;
            }
            let SentenceReader { sentence, fault, format, number, waiting, .. } = self;
            let is_end = take(sentence, fault, format, number, waiting, &line);
            if is_end && let Some(sentence) = self.finish() {
                return Ok(Some(sentence));
            }
        }
    }

    /// Hands out the sentence in the making, where there is one.
    fn finish(&mut self) -> Option<Result<Unparsed, Problem>> {
        let sentence = std::mem::take(&mut self.sentence);
        match self.fault.take() {
            Some(fault) => Some(Err(fault)),
            None if sentence.is_empty() => None,
            None => Some(Ok(sentence)),
        }
    }
}

/// Adds a line to the sentence in the making, or is it one by itself, to those that wait; returns whether one ends there.
fn take(
    sentence: &mut Unparsed,
    fault: &mut Option<Problem>,
    format: &mut Format,
    number: &mut u64,
    waiting: &mut VecDeque<Unparsed>,
    line: &Line<'_>,
) -> bool {
    if sentence.lines.is_empty() {
        sentence.first_line = line.number;
    }
    let mut problem = |rule, message| {
        fault.get_or_insert(Problem { line: line.number, rule, sentence: String::new(), message });
    };
    let text = match &line.text {
        Ok(text) => *text,
        Err((rule, message)) => {
            problem(*rule, message.clone());
            return matches!(*format, Format::Text | Format::Running);
        }
    };
    let mut wait = |text: &str| {
        *number += 1;
        if text.split_whitespace().nth(LONGEST_SENTENCE).is_some() {
            return problem(Rule::TooLong, too_many_words());
        }
        waiting.push_back(Unparsed { first_line: line.number, ..Unparsed::of_text(text, *number) });
    };
    if *format == Format::Auto && line.is_blank() {
        return false;
    }
    if *format == Format::Auto && !text.starts_with('#') {
        *format = if text.split('\t').count() == COLUMNS { Format::Conllu } else { Format::Text };
        if *format == Format::Text {
            // What looked like comments were sentences.
            std::mem::take(sentence).lines.iter().for_each(|line| wait(line));
        }
    }
    if *format == Format::Tagged && sentence.is_empty() && text.split('\t').count() == COLUMNS {
        *format = Format::Conllu;
    }
    match *format {
        Format::Text => {
            if !line.is_blank() {
                wait(text);
            }
            fault.is_some()
        }
        _ if text.is_empty() => true,
        // Behind a word, # is one too: comments come first.
        Format::Tagged if !(text.starts_with('#') && sentence.is_empty()) => {
            take_tagged(sentence, text, &mut problem);
            false
        }
        _ => {
            take_row(sentence, text, &mut problem);
            false
        }
    }
}

fn too_many_words() -> String {
    format!("a sentence of more than {LONGEST_SENTENCE} words")
}

/// Adds a line of CoNLL-U.
fn take_row(sentence: &mut Unparsed, text: &str, problem: &mut dyn FnMut(Rule, String)) {
    if sentence.lines.len() > 4 * LONGEST_SENTENCE || sentence.words.len() >= LONGEST_SENTENCE {
        return problem(Rule::TooLong, too_many_words());
    }
    if !text.starts_with('#') {
        let columns = text.split('\t').count();
        let (id, due) = (text.split('\t').next().unwrap_or(""), sentence.words.len() + 1);
        match id.parse::<usize>() {
            _ if columns != COLUMNS => problem(Rule::ColumnCount, format!("{columns} columns instead of {COLUMNS}")),
            Ok(id) if id == due => sentence.words.push(sentence.lines.len()),
            Ok(_) => problem(Rule::IdOrder, format!("ID is {id}, not {due}")),
            Err(_) if id.contains(['-', '.']) => {} // a multiword token or an empty node
            Err(_) => problem(Rule::BadId, format!("ID is `{id}`, not a number, range or empty node")),
        }
    }
    sentence.lines.push(text.to_string());
}

/// Adds a word with its tag.
fn take_tagged(sentence: &mut Unparsed, text: &str, problem: &mut dyn FnMut(Rule, String)) {
    let mut columns = text.split_ascii_whitespace();
    let (Some(form), Some(tag)) = (columns.next(), columns.next()) else {
        let message = "neither ten columns with TABs between them, nor a word and its tag".to_string();
        return problem(Rule::ColumnCount, message);
    };
    if sentence.words.len() >= LONGEST_SENTENCE {
        return problem(Rule::TooLong, too_many_words());
    }
    let id = sentence.words.len() + 1;
    sentence.words.push(sentence.lines.len());
    sentence.lines.push(format!("{id}\t{form}\t_\t{tag}\t{tag}\t_\t_\t_\t_\t_"));
}

/// A file of sentences.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    pub path: &'a Path,
    pub encoding: Encoding,
    pub format: Format,
}

/// Shows the sentences of a file in batches; what is wrong with others is reported.
pub fn read_sentences(
    source: &Source<'_>,
    mut visit: impl FnMut(&[Unparsed]) -> io::Result<()>,
    mut report: impl FnMut(Problem),
) -> io::Result<()> {
    let lines = match Lines::begin(open(source.path)?, source.encoding, LONGEST_LINE) {
        Ok(lines) => lines,
        Err(problem) => return Err(io::Error::new(io::ErrorKind::InvalidData, problem.message)),
    };
    let mut reader = SentenceReader {
        lines,
        format: source.format,
        number: 0,
        sentence: Unparsed::default(),
        fault: None,
        running: RunningText::new(MOST_WORDS),
        waiting: VecDeque::new(),
    };
    let (mut batch, mut words) = (vec![], 0);
    loop {
        match reader.next() {
            Ok(Some(Ok(sentence))) => {
                words += sentence.len();
                batch.push(sentence);
            }
            Ok(Some(Err(problem))) => report(problem),
            Ok(None) => break,
            Err(problem) => {
                report(problem);
                break;
            }
        }
        if batch.len() == BATCH || words > BATCH_WORDS {
            visit(&batch)?;
            batch.clear();
            words = 0;
        }
    }
    if batch.is_empty() { Ok(()) } else { visit(&batch) }
}

/// Parses a file; `best` parses of each sentence where more than one is asked for.
pub fn parse_file(
    model: &ParserModel,
    settings: &Settings,
    source: &Source<'_>,
    best: Option<usize>,
    out: &mut dyn Write,
    mut report: impl FnMut(Problem),
) -> io::Result<Parsed> {
    let mut parsed = Parsed::default();
    let mut skipped = 0;
    let parse = |decoder: &mut Decoder<'_>, sentence: &Unparsed| {
        let given = sentence.given(model, settings.tags);
        let mut text = String::new();
        match best {
            None => sentence.write(model, &decoder.parse(&given), None, &mut text),
            Some(count) => {
                for (rank, parse) in (1..).zip(&decoder.best(&given, count)) {
                    sentence.write(model, parse, Some(rank), &mut text);
                }
            }
        }
        text
    };
    let visit = |batch: &[Unparsed]| {
        parsed.sentences += batch.len() as u64;
        parsed.words += batch.iter().map(|sentence| sentence.len() as u64).sum::<u64>();
        let texts = parse_all(model, settings, batch.len(), |decoder, number| parse(decoder, &batch[number]));
        texts.iter().try_for_each(|text| out.write_all(text.as_bytes()))
    };
    read_sentences(source, visit, |problem| {
        skipped += 1;
        report(problem);
    })?;
    parsed.skipped = skipped;
    Ok(parsed)
}
