//! A parser and an n-gram model as one language model: at each token, p = w p_parser + (1 - w) p_ngram.
//!
//! The parser predicts word by word as an incremental parser does ([`Decoder::predict`]). Each model sees a token as its own
//! vocabulary has it; a word that one of them does not know is its class or unknown word there, which is at most as
//! probable as what the two have in common. So the perplexity is an upper bound.

use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::decode::Decoder;
use super::evaluate::{Settings, parse_all};
use super::model::ParserModel;
use super::text::{Format, Source, Unparsed, read_sentences};
use crate::corpus::diagnostic::Problem;
use crate::corpus::text::Encoding;
use crate::lm::index::{Index, Walk};
use crate::lm::model::LanguageModel;
use crate::math::ln;

/// Steps towards the best weight.
const STEPS: usize = 100;

/// p of every token, by the parser and by the n-gram model.
#[derive(Clone, Debug, Default)]
pub struct Predictions {
    sentences: u64,
    tokens: Vec<[f64; 2]>,
}

impl Predictions {
    /// Adds the sentences of a file.
    pub fn read(
        &mut self,
        model: &ParserModel,
        ngram: &LanguageModel,
        settings: &Settings,
        path: &Path,
        encoding: Encoding,
        report: impl FnMut(Problem),
    ) -> io::Result<()> {
        let index = Index::new(ngram);
        let work = |decoder: &mut Decoder<'_>, sentence: &Unparsed| {
            let words_ln = decoder.predict(&sentence.given(model, settings.tags)).words_ln;
            let by_ngram = predict(ngram, index.as_ref(), sentence);
            words_ln.into_iter().zip(by_ngram).map(|(word_ln, q)| [libm::exp(word_ln), q]).collect()
        };
        let batch = |batch: &[Unparsed]| {
            let all: Vec<Vec<[f64; 2]>> =
                parse_all(model, settings, batch.len(), |decoder, number| work(decoder, &batch[number]));
            all.into_iter().for_each(|tokens| self.push(tokens));
            Ok(())
        };
        read_sentences(&Source { path, encoding, format: Format::Auto }, batch, report)
    }

    /// Adds a sentence.
    pub fn push(&mut self, tokens: impl IntoIterator<Item = [f64; 2]>) {
        self.sentences += 1;
        self.tokens.extend(tokens);
    }

    /// Words and ends of sentences.
    pub fn tokens(&self) -> usize {
        self.tokens.len()
    }

    /// The weight of the parser with which the tokens are most probable: expectation maximisation, which goes up in every
    /// step to the one maximum that there is.
    pub fn best_weight(&self) -> f64 {
        let mut weight = 0.5;
        for _ in 0..STEPS {
            let share = |[p, q]: &[f64; 2]| weight * p / (weight * p + (1.0 - weight) * q);
            weight = self.tokens.iter().map(share).sum::<f64>() / self.tokens.len().max(1) as f64;
        }
        weight
    }

    /// Of the mixture; 1 is the parser alone.
    pub fn perplexity(&self, weight: f64) -> f64 {
        libm::exp(-self.ln(weight) / self.tokens.len().max(1) as f64)
    }

    /// ln of p of all tokens by the mixture.
    fn ln(&self, weight: f64) -> f64 {
        self.tokens.iter().map(|[p, q]| ln(weight * p + (1.0 - weight) * q)).sum()
    }

    pub fn to_json(&self, weight: f64) -> Value {
        json!({
            "perplexity": self.perplexity(weight), "weight": weight, "perplexity_parser": self.perplexity(1.0),
            "perplexity_ngram": self.perplexity(0.0), "tokens": self.tokens.len(), "sentences": self.sentences,
        })
    }

    pub fn to_text(&self, weight: f64) -> String {
        format!(
            "perplexity at most {:.2} with a weight of {weight:.3} for the parser; {:.2} by the parser alone, word by word; \
             {:.2} by the n-gram model alone; over {} tokens: {} words and the ends of {} sentences\n",
            self.perplexity(weight),
            self.perplexity(1.0),
            self.perplexity(0.0),
            self.tokens.len(),
            self.tokens.len() as u64 - self.sentences,
            self.sentences
        )
    }
}

/// Two halves of a text, each predicted by the mixture that is best for the other: nothing is tuned on what it is tested on.
#[derive(Clone, Debug, Default)]
pub struct Halves([Predictions; 2]);

impl Halves {
    /// Adds a sentence to one half or the other, in turn.
    pub fn push(&mut self, tokens: impl IntoIterator<Item = [f64; 2]>) {
        let [first, second] = &mut self.0;
        if first.sentences > second.sentences { second } else { first }.push(tokens);
    }

    /// The perplexity of both, and the weights of the parser; none where a half has no sentence.
    pub fn perplexity(&self) -> Option<(f64, [f64; 2])> {
        let [first, second] = &self.0;
        let weights = [second.best_weight(), first.best_weight()];
        let tokens = (first.tokens() + second.tokens()) as f64;
        let perplexity = libm::exp(-(first.ln(weights[0]) + second.ln(weights[1])) / tokens);
        (second.sentences > 0).then_some((perplexity, weights))
    }
}

/// p of each word of a sentence and of its end by the n-gram model.
fn predict(ngram: &LanguageModel, index: Option<&Index>, sentence: &Unparsed) -> Vec<f64> {
    let (vocabulary, tokenisation) = (&ngram.kept.vocabulary, &ngram.kept.tokenisation);
    let mut walk = Walk::begin(ngram, index);
    let mut scratch = String::new();
    let mut all: Vec<f64> =
        sentence.forms().map(|form| walk.next(vocabulary.id(tokenisation.normalise(form, &mut scratch))).0).collect();
    all.push(walk.next(ngram.symbols.end).0);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_weight_is_found() {
        // Of 10 tokens the parser gives 7 four times the other's probability, and 3 a quarter of it.
        let tokens = (0..10).map(|i| if i < 7 { [0.4, 0.1] } else { [0.1, 0.4] }).collect();
        let predictions = Predictions { sentences: 1, tokens };
        let best = predictions.best_weight();
        let here = predictions.perplexity(best);
        for other in [0.0, 1.0, best - 0.01, best + 0.01] {
            assert!(predictions.perplexity(other) > here, "{other} against {best}");
        }
        assert!((predictions.perplexity(1.0).ln() + 0.7 * 0.4f64.ln() + 0.3 * 0.1f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn each_half_is_predicted_by_what_is_best_for_the_other() {
        let mut halves = Halves::default();
        assert_eq!(halves.perplexity(), None);
        // What is best for one half, the parser alone, is worst for the other.
        for number in 0..4 {
            halves.push([if number % 2 == 0 { [0.4, 0.1] } else { [0.1, 0.4] }]);
        }
        let (perplexity, weights) = halves.perplexity().unwrap();
        assert!((perplexity - 10.0).abs() < 0.1, "{perplexity}");
        assert!(weights[0] < 0.01 && weights[1] > 0.99, "{weights:?}");
    }
}
