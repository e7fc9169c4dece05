//! How well a parser predicts words, in two ways.
//!
//! **At once**: by the sum of p over the derivations that a search has found, which is at most p of the words. So the
//! perplexity is an upper bound of the model's own (Buys & Blunsom 2015, section 5.4). What was dropped on the way is lost.
//!
//! **Word by word**, as an n-gram model does: each word is predicted by the derivations that were kept of the words before,
//! by their shares ([`super::decode::Predicted`]). Given the words before, these probabilities add up to at most one: this
//! is a language model of its own, the parser with a beam.
//!
//! A sentence has a token for each word and one for its end. An unknown word is predicted as its class.

use std::io;

use serde_json::{Value, json};

use super::decode::{Decoder, Given, Predicted};
use super::evaluate::{Settings, parse_all};
use super::model::ParserModel;
use super::text::{Source, Unparsed, read_sentences};
use crate::corpus::diagnostic::Problem;

/// Sums over sentences.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    pub sentences: u64,
    /// Words and ends of sentences.
    pub tokens: u64,
    pub unknown: u64,
    /// Of the words at once.
    pub ln: f64,
    /// Of the words one by one.
    pub by_word_ln: f64,
}

impl Sum {
    /// The columns of [`Sum::to_row`].
    pub const COLUMNS: &'static str = "sentence\ttokens\tunknown\tlog_probability\tperplexity\tperplexity_by_word\n";

    pub fn add(&mut self, other: &Sum) {
        self.sentences += other.sentences;
        self.tokens += other.tokens;
        self.unknown += other.unknown;
        self.ln += other.ln;
        self.by_word_ln += other.by_word_ln;
    }

    /// Of a sentence.
    pub fn of(predicted: &Predicted, model: &ParserModel, given: &[Given]) -> Sum {
        let unknown = given.iter().filter(|word| model.kept.lexicon.is_unknown(word.form)).count() as u64;
        let by_word_ln = predicted.words_ln.iter().sum();
        Sum { sentences: 1, tokens: given.len() as u64 + 1, unknown, ln: predicted.evidence_ln, by_word_ln }
    }

    /// Of the words at once: an upper bound.
    pub fn perplexity(&self) -> Option<f64> {
        self.perplexity_of(self.ln)
    }

    /// Of the words one by one.
    pub fn perplexity_by_word(&self) -> Option<f64> {
        self.perplexity_of(self.by_word_ln)
    }

    fn perplexity_of(&self, ln: f64) -> Option<f64> {
        (self.tokens > 0).then(|| libm::exp(-ln / self.tokens as f64))
    }

    pub fn to_json(&self) -> Value {
        json!({
            "perplexity": self.perplexity(), "sentences": self.sentences, "tokens": self.tokens, "unknown": self.unknown,
            "log_likelihood": self.ln, "bound": "upper", "perplexity_by_word": self.perplexity_by_word(),
        })
    }

    pub fn to_row(&self, name: &str) -> String {
        let show = |perplexity: Option<f64>| perplexity.map_or("none".to_string(), |p| format!("{p:.4}"));
        let [at_once, by_word] = [self.perplexity(), self.perplexity_by_word()].map(show);
        format!("{name}\t{}\t{}\t{:.4}\t{at_once}\t{by_word}\n", self.tokens, self.unknown, self.ln)
    }

    pub fn to_text(&self) -> String {
        let show = |perplexity: Option<f64>| perplexity.map_or("none".to_string(), |p| format!("{p:.2}"));
        format!(
            "perplexity at most {} by the derivations found, {} word by word; over {} tokens: {} words and the ends of {} \
             sentences; {} unknown words are predicted as their classes; natural log-likelihood {:.2}\n",
            show(self.perplexity()),
            show(self.perplexity_by_word()),
            self.tokens,
            self.tokens - self.sentences,
            self.sentences,
            self.unknown,
            self.ln
        )
    }
}

/// Scores the sentences of files; `visit` is shown each one's sum, in their order.
pub fn score(
    model: &ParserModel,
    settings: &Settings,
    source: &Source<'_>,
    mut visit: impl FnMut(&Sum),
    report: impl FnMut(Problem),
) -> io::Result<Sum> {
    let mut all = Sum::default();
    let work = |decoder: &mut Decoder<'_>, sentence: &Unparsed| {
        let given = sentence.given(model, settings.tags);
        Sum::of(&decoder.predict(&given), model, &given)
    };
    let batch = |batch: &[Unparsed]| {
        for sum in parse_all(model, settings, batch.len(), |decoder, number| work(decoder, &batch[number])) {
            visit(&sum);
            all.add(&sum);
        }
        Ok(())
    };
    read_sentences(source, batch, report)?;
    Ok(all)
}
