//! The perplexity of documents under a model that is there already: trained by a run, or imported.
//!
//! A word that the model does not know is taken for its unknown word. Two figures are given, since either alone misleads
//! where vocabularies differ: over all words; and without the unknown ones, whose probabilities are then left out, while
//! they still stand before the words that follow them.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::counts::TopicCounts;
use super::left_to_right::LeftToRight;
use super::model::TopicModel;
use super::prior::Prior;
use crate::cluster::rng::{Purpose, generator};
use crate::corpus::diagnostic::Diagnostic;
use crate::corpus::documents::{Format, RawDocument, read_documents};
use crate::corpus::text::Encoding;
use crate::corpus::vocabulary::UNKNOWN;
use crate::error::{Error, Result};

/// Who scores documents: a model, and how their probability is estimated.
pub trait ScoreDocument {
    /// Scores a document; `number` is its place among all.
    fn document(&self, number: u64, text: &str) -> Score;
}

/// What was counted, of one document or of several. Logarithms are natural.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Score {
    pub documents: u64,
    pub tokens: u64,
    pub unknown: u64,
    pub probability_ln: f64,
    /// Without unknown words.
    pub known_ln: f64,
}

impl Score {
    /// Counts a token.
    #[inline]
    pub fn count(&mut self, is_unknown: bool, token_ln: f64) {
        self.tokens += 1;
        self.probability_ln += token_ln;
        match is_unknown {
            true => self.unknown += 1,
            false => self.known_ln += token_ln,
        }
    }

    fn add(&mut self, next: &Score) {
        self.documents += next.documents;
        self.tokens += next.tokens;
        self.unknown += next.unknown;
        self.probability_ln += next.probability_ln;
        self.known_ln += next.known_ln;
    }

    /// None without words.
    pub fn perplexity(&self) -> Option<f64> {
        perplexity(self.probability_ln, self.tokens)
    }

    /// None without known words.
    pub fn known_perplexity(&self) -> Option<f64> {
        perplexity(self.known_ln, self.tokens - self.unknown)
    }

    /// For people.
    pub fn to_text(&self) -> String {
        let figure = |value: Option<f64>| value.map_or("none".to_string(), |p| format!("{p:.4}"));
        let share = 100.0 * self.unknown as f64 / self.tokens.max(1) as f64;
        format!(
            "documents: {}\ntokens: {}\nunknown words: {} ({share:.2} %)\n\
             log-probability: {:.4} (base e); without unknown words {:.4}\n\
             perplexity: {}; without unknown words {}\n",
            self.documents,
            self.tokens,
            self.unknown,
            self.probability_ln,
            self.known_ln,
            figure(self.perplexity()),
            figure(self.known_perplexity()),
        )
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        json!({
            "documents": self.documents,
            "tokens": self.tokens,
            "unknown": self.unknown,
            "log_probability": self.probability_ln,
            "log_probability_without_unknown": self.known_ln,
            "perplexity": self.perplexity(),
            "perplexity_without_unknown": self.known_perplexity(),
        })
    }
}

fn perplexity(probability_ln: f64, words: u64) -> Option<f64> {
    (words > 0).then(|| libm::exp(-probability_ln / words as f64))
}

/// A document's score, with where the document is.
#[derive(Clone, Debug, PartialEq)]
pub struct Scored {
    pub file: String,
    pub id: String,
    pub score: Score,
}

/// The columns of [`Scored::to_row`].
pub const COLUMNS: &str = "file\tdocument\ttokens\tunknown\tlog_probability\tperplexity\tperplexity_without_unknown\n";

impl Scored {
    /// A line of a table.
    pub fn to_row(&self) -> String {
        let figure = |value: Option<f64>| value.map_or(String::new(), |p| format!("{p:.4}"));
        let Score { tokens, unknown, probability_ln, .. } = self.score;
        let (all, known) = (figure(self.score.perplexity()), figure(self.score.known_perplexity()));
        format!("{}\t{}\t{tokens}\t{unknown}\t{probability_ln:.4}\t{all}\t{known}\n", self.file, self.id)
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        let mut value = self.score.to_json();
        value["file"] = self.file.clone().into();
        value["document"] = self.id.clone().into();
        value
    }
}

/// Scores the documents of `files`, shows each to `visit` and what is wrong with the files to `report`; returns the sum.
pub fn score(
    scorer: &dyn ScoreDocument,
    files: &[PathBuf],
    (format, encoding): (Format, Encoding),
    visit: &mut dyn FnMut(Scored),
    report: &mut dyn FnMut(Diagnostic),
) -> Result<Score> {
    let mut sum = Score::default();
    for path in files {
        let name = path.display().to_string();
        let mut score = |document: &RawDocument<'_>| {
            let score = scorer.document(sum.documents, document.text);
            sum.add(&score);
            visit(Scored { file: name.clone(), id: document.id.to_string(), score });
        };
        let mut report = |problem| report(Diagnostic { path: name.clone(), problem });
        read_documents(path, encoding, format, &mut score, &mut report).map_err(|e| Error::input(path, e))?;
    }
    match sum.tokens {
        0 => {
            Err(Error::Input("there is no word to score: the files have no documents, or only empty ones".to_string()))
        }
        _ => Ok(sum),
    }
}

/// Scores documents by LDA. A document draws from a generator keyed by the seed and its place among all documents.
pub struct LdaScorer<'m> {
    model: &'m TopicModel,
    counts: TopicCounts,
    prior: Prior,
    method: LeftToRight,
    seed: u64,
}

impl LdaScorer<'_> {
    pub fn new(model: &TopicModel, method: LeftToRight, seed: u64) -> LdaScorer<'_> {
        LdaScorer { counts: model.counts(), prior: model.prior(), model, method, seed }
    }
}

impl ScoreDocument for LdaScorer<'_> {
    fn document(&self, number: u64, text: &str) -> Score {
        let mut words = vec![];
        self.model.tokenisation.each_token(text, |token| words.push(self.model.vocabulary.id(token)));
        let mut score = Score { documents: 1, ..Score::default() };
        let mut rng = generator(self.seed, Purpose::Evaluation, number, 0);
        self.method.each_word(&self.counts, &self.prior, &words, &mut rng, |word, word_ln| {
            score.count(word == UNKNOWN, word_ln);
        });
        score
    }
}
