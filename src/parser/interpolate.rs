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
            self.sentences += batch.len() as u64;
            self.tokens.extend(all.into_iter().flatten());
            Ok(())
        };
        read_sentences(&Source { path, encoding, format: Format::Auto }, batch, report)
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
        let token_ln = |[p, q]: &[f64; 2]| ln(weight * p + (1.0 - weight) * q);
        libm::exp(-self.tokens.iter().map(token_ln).sum::<f64>() / self.tokens.len().max(1) as f64)
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
}
