//! Sentences parsed with a grammar, as CoNLL-U.
//!
//! Punctuation, which the grammar has not seen, depends on the word before it (or the first word): arcs never cross through it.

use std::io::{self, Write};

use super::corpus::kept_words;
use super::grammar::{Buffers, Choice, Grammar};
use super::model::Kept;
use crate::corpus::conll::column;
use crate::corpus::diagnostic::{Problem, Rule};
use crate::parser::evaluate::in_parallel;
use crate::parser::text::{Source, Unparsed, read_sentences};

/// Longer sentences are refused: a chart is quadratic in memory and cubic in time.
const LONGEST: usize = 500;

/// Parses a file; returns how many sentences were left out.
pub fn parse_file(
    kept: &Kept,
    source: &Source<'_>,
    choice: Choice,
    threads: usize,
    out: &mut dyn Write,
    mut report: impl FnMut(Problem),
) -> io::Result<u64> {
    let grammar = kept.grammar();
    let mut skipped = 0;
    let mut problems = vec![];
    let visit = |batch: &[Unparsed]| {
        let parse = |buffers: &mut Buffers, number: usize| one(kept, &grammar, choice, &batch[number], buffers);
        for text in in_parallel(threads, batch.len(), Buffers::default, parse) {
            match text {
                Ok(text) => out.write_all(text.as_bytes())?,
                Err(problem) => problems.push(problem),
            }
        }
        Ok(())
    };
    let mut unreadable = vec![];
    read_sentences(source, visit, |problem| unreadable.push(problem))?;
    problems.extend(unreadable);
    problems.sort_by_key(|problem| problem.line);
    for problem in problems {
        skipped += 1;
        report(problem);
    }
    Ok(skipped)
}

/// A sentence with its heads.
fn one(
    kept: &Kept,
    grammar: &Grammar,
    choice: Choice,
    sentence: &Unparsed,
    buffers: &mut Buffers,
) -> Result<String, Problem> {
    let problem = |(rule, message)| {
        let (line, sentence) = (sentence.first_line, sentence.id().to_string());
        Problem { line, rule, sentence, message }
    };
    let is_kept = kept_words(sentence, &kept.corpus).map_err(problem)?;
    let places: Vec<usize> = (0..is_kept.len()).filter(|&word| is_kept[word]).collect();
    if places.len() > LONGEST {
        let message = format!("{} words; sentences of at most {LONGEST} are parsed", places.len());
        return Err(problem((Rule::TooLong, message)));
    }
    let tag_column = kept.corpus.tag_column.index();
    let symbol = |&word: &usize| {
        let (form, tag) = (sentence.column(word, column::FORM), sentence.column(word, tag_column));
        kept.lexicon.symbol(form, tag, kept.is_lexicalised())
    };
    let symbols: Vec<u32> = places.iter().map(symbol).collect();
    let found = grammar.parse(&symbols, choice, buffers);
    let mut heads = vec![0; is_kept.len()];
    for (&word, &head) in places.iter().zip(&found) {
        heads[word] = if head == 0 { 0 } else { places[head as usize - 1] + 1 };
    }
    let first = places.first().copied().unwrap_or(0);
    let mut before = first;
    for word in 0..heads.len() {
        match is_kept[word] {
            true => before = word,
            false => heads[word] = if places.is_empty() && word == 0 { 0 } else { before + 1 },
        }
    }
    let mut text = String::new();
    sentence.write_with("", &mut text, |word, at| match at {
        column::HEAD => Some(heads[word].to_string()),
        column::DEPREL => Some(if heads[word] == 0 { "root" } else { "dep" }.to_string()),
        column::DEPS => Some("_".to_string()), // enhanced arcs would be those of another tree
        _ => None,
    });
    Ok(text)
}
