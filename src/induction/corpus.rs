//! Tagged sentences to learn from, and trees to score parses against.
//!
//! Files are CoNLL-U or CoNLL-X, or have a line for each word with the word, its tag and maybe more, blanks between them, and
//! a blank line behind each sentence. Heads are looked at in test sentences only. Punctuation is left out, dependents of
//! a mark go to its nearest ancestor that is kept; then sentences that are too long are.

use std::path::{Path, PathBuf};

use super::job::CorpusSettings;
use crate::corpus::conll::column;
use crate::corpus::diagnostic::{Diagnostic, Problem, Rule};
use crate::error::{Error, Result};
use crate::oracle::punctuation::is_punctuation;
use crate::parser::lexicon::Names;
use crate::parser::text::{Format, Source, Unparsed, read_sentences};

/// A word that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    pub form: u32,
    pub tag: u32,
    /// Its head among the words that are kept, from 1; 0 is the root. 0 for all where heads are not looked at.
    pub head: u32,
}

/// Sentences of some files.
#[derive(Clone, Debug, Default)]
pub struct Corpus {
    pub sentences: Vec<Vec<Word>>,
    /// Sentences that are longer than wanted, or have no word left.
    pub too_long: u64,
    pub empty: u64,
    /// What is wrong with other sentences; the first of each file, and how many there are in all.
    pub problems: Vec<Diagnostic>,
    pub skipped: u64,
}

/// Names of all words and tags of a job.
#[derive(Clone, Debug, Default)]
pub struct AllNames {
    pub forms: Names,
    pub tags: Names,
}

/// Problems that are kept.
const KEPT_PROBLEMS: usize = 20;

impl Corpus {
    /// Reads files; with heads where `has_heads`.
    pub fn read(files: &[PathBuf], settings: &CorpusSettings, has_heads: bool, names: &mut AllNames) -> Result<Corpus> {
        let mut corpus = Corpus::default();
        for path in files {
            corpus.add_file(path, settings, has_heads, names)?;
        }
        Ok(corpus)
    }

    fn add_file(
        &mut self,
        path: &Path,
        settings: &CorpusSettings,
        has_heads: bool,
        names: &mut AllNames,
    ) -> Result<()> {
        let source = Source { path, encoding: settings.encoding, format: Format::Tagged };
        let mut problems = vec![];
        let visit = |batch: &[Unparsed]| {
            for sentence in batch {
                match self.add(sentence, settings, has_heads, names) {
                    Ok(()) => {}
                    Err((rule, message)) => {
                        let (line, sentence) = (sentence.first_line, sentence.id().to_string());
                        problems.push(Problem { line, rule, sentence, message });
                    }
                }
            }
            Ok(())
        };
        let mut unreadable = vec![];
        read_sentences(&source, visit, |problem| unreadable.push(problem)).map_err(|e| Error::input(path, e))?;
        problems.extend(unreadable);
        problems.sort_by_key(|problem| problem.line);
        self.skipped += problems.len() as u64;
        let room = KEPT_PROBLEMS.saturating_sub(self.problems.len());
        let path = path.display().to_string();
        let diagnostics = problems.into_iter().take(room).map(|problem| Diagnostic { path: path.clone(), problem });
        self.problems.extend(diagnostics);
        Ok(())
    }

    fn add(
        &mut self,
        sentence: &Unparsed,
        settings: &CorpusSettings,
        has_heads: bool,
        names: &mut AllNames,
    ) -> std::result::Result<(), (Rule, String)> {
        let is_kept = kept_words(sentence, settings)?;
        let length = is_kept.iter().filter(|&&is_kept| is_kept).count();
        if length == 0 || length > settings.max_length {
            self.empty += u64::from(length == 0);
            self.too_long += u64::from(length > 0);
            return Ok(());
        }
        let heads = if has_heads { kept_heads(sentence, &is_kept)? } else { vec![0; is_kept.len()] };
        let word = |at: usize| Word {
            form: names.forms.number(sentence.column(at, column::FORM)),
            tag: names.tags.number(sentence.column(at, settings.tag_column.index())),
            head: heads[at],
        };
        self.sentences.push((0..is_kept.len()).filter(|&at| is_kept[at]).map(word).collect());
        Ok(())
    }

    /// Words of all sentences.
    pub fn words(&self) -> usize {
        self.sentences.iter().map(Vec::len).sum()
    }
}

/// Which words of a sentence stay; every one needs a tag.
pub fn kept_words(sentence: &Unparsed, settings: &CorpusSettings) -> std::result::Result<Vec<bool>, (Rule, String)> {
    let mut is_kept = vec![];
    for word in 0..sentence.len() {
        let (form, tag) = (sentence.column(word, column::FORM), sentence.column(word, settings.tag_column.index()));
        if tag.is_empty() || tag == "_" {
            let (name, other) = settings.tag_column.names();
            let message = format!(
                "`{form}` has no tag in column {name}; with tag_column = \"{other}\" those of {other} are taken"
            );
            return Err((Rule::BadField, message));
        }
        let is_mark = match settings.punctuation_tags.as_slice() {
            [] => is_punctuation(form, sentence.column(word, column::UPOS)),
            tags => tags.iter().any(|mark| mark == tag),
        };
        is_kept.push(!(settings.drop_punctuation && is_mark));
    }
    Ok(is_kept)
}

/// Heads by word, among those that are kept.
fn kept_heads(sentence: &Unparsed, is_kept: &[bool]) -> std::result::Result<Vec<u32>, (Rule, String)> {
    let words = is_kept.len();
    let mut heads = vec![];
    for word in 0..words {
        let text = sentence.column(word, column::HEAD);
        match text.parse::<usize>() {
            Ok(head) if head <= words => heads.push(head),
            Ok(head) => return Err((Rule::HeadRange, format!("HEAD is {head}, but the last word is {words}"))),
            Err(_) => return Err((Rule::BadHead, format!("HEAD is `{text}`: there is no tree to score against"))),
        }
    }
    let mut number = vec![0];
    for &is_kept in is_kept {
        number.push(number.last().expect("the root") + u32::from(is_kept));
    }
    let kept_head = |word: usize| {
        let mut head = heads[word];
        for _ in 0..words {
            if head == 0 || is_kept[head - 1] {
                return Ok(if head == 0 { 0 } else { number[head] });
            }
            head = heads[head - 1];
        }
        Err((Rule::Cycle, format!("the heads of word {} run in a circle", word + 1)))
    };
    (0..words).map(kept_head).collect()
}
