//! A parser and an n-gram model as one language model: at each token, p = w p_parser + (1 - w) p_ngram.
//!
//! The parser predicts word by word as an incremental parser does ([`Decoder::predict`]). Each model sees a token as its own
//! vocabulary has it: a word that it does not know is a class or the unknown word there, which is more probable than the word
//! itself. So the mixture is tuned, and its perplexity told, over the tokens that both know, which are the same to both; those
//! over all tokens are told beside.

use std::io;

use serde_json::{Value, json};

use super::decode::{Decoder, Given};
use super::evaluate::{Settings, parse_all};
use super::model::ParserModel;
use super::text::{Source, Unparsed, read_sentences};
use crate::corpus::diagnostic::Problem;
use crate::corpus::vocabulary::{UNKNOWN, UNKNOWN_WORD};
use crate::lm::index::{Index, Walk};
use crate::lm::model::LanguageModel;
use crate::math::ln;

/// Steps towards the best weight.
const STEPS: usize = 100;

/// p of every token, by the parser and by the n-gram model.
#[derive(Clone, Debug, Default)]
pub struct Predictions {
    sentences: u64,
    /// Those that both know, and those that one of them does not.
    known: Vec<[f64; 2]>,
    others: Vec<[f64; 2]>,
    /// Words that each does not know.
    unknown: [u64; 2],
}

/// A token that two models predict: p, and whether it is a word that each knows.
type Predicted = ([f64; 2], [bool; 2]);

impl Predictions {
    /// Adds the sentences of a file.
    pub fn read(
        &mut self,
        model: &ParserModel,
        ngram: &LanguageModel,
        settings: &Settings,
        source: &Source<'_>,
        report: impl FnMut(Problem),
    ) -> io::Result<()> {
        let index = Index::new(ngram);
        let work = |decoder: &mut Decoder<'_>, sentence: &Unparsed| -> Vec<Predicted> {
            let given = sentence.given(model, settings.tags);
            let words_ln = decoder.predict(&given).words_ln;
            // A text whose rare words were made one by whoever prepared it has that word, and both know it.
            let is_unknown =
                |(word, form): (&Given, &str)| model.kept.lexicon.is_unknown(word.form) && form != UNKNOWN_WORD;
            let is_known = given.iter().zip(sentence.forms()).map(|word| !is_unknown(word)).chain([true]);
            let by_parser = words_ln.into_iter().map(libm::exp).zip(is_known);
            let by_ngram = predict(ngram, index.as_ref(), sentence);
            by_parser.zip(by_ngram).map(|((p, of_parser), (q, of_ngram))| ([p, q], [of_parser, of_ngram])).collect()
        };
        let batch = |batch: &[Unparsed]| {
            let all = parse_all(model, settings, batch.len(), |decoder, number| work(decoder, &batch[number]));
            for sentence in all {
                self.push(sentence);
            }
            Ok(())
        };
        read_sentences(source, batch, report)
    }

    /// Adds a sentence.
    pub fn push(&mut self, tokens: impl IntoIterator<Item = Predicted>) {
        self.sentences += 1;
        for (p, is_known) in tokens {
            self.unknown.iter_mut().zip(is_known).for_each(|(unknown, known)| *unknown += u64::from(!known));
            if is_known == [true; 2] { &mut self.known } else { &mut self.others }.push(p);
        }
    }

    /// Words and ends of sentences.
    pub fn tokens(&self) -> usize {
        self.known.len() + self.others.len()
    }

    /// The weight of the parser with which the tokens that both know are most probable: expectation maximisation, which goes
    /// up in every step to the one maximum that there is.
    pub fn best_weight(&self) -> f64 {
        let mut weight = 0.5;
        for _ in 0..STEPS {
            let share = |[p, q]: &[f64; 2]| weight * p / (weight * p + (1.0 - weight) * q);
            weight = self.known.iter().map(share).sum::<f64>() / self.known.len().max(1) as f64;
        }
        weight
    }

    /// Of the mixture, over the tokens that both know; 1 is the parser alone.
    pub fn perplexity(&self, weight: f64) -> f64 {
        perplexity(&[&self.known], weight)
    }

    /// The same over all tokens.
    fn perplexity_of_all(&self, weight: f64) -> f64 {
        perplexity(&[&self.known, &self.others], weight)
    }

    pub fn to_json(&self, weight: f64) -> Value {
        json!({
            "perplexity": self.perplexity(weight), "weight": weight, "perplexity_parser": self.perplexity(1.0),
            "perplexity_ngram": self.perplexity(0.0), "tokens": self.known.len(), "sentences": self.sentences,
            "unknown_parser": self.unknown[0], "unknown_ngram": self.unknown[1], "all_tokens": self.tokens(),
            "perplexity_of_all": self.perplexity_of_all(weight),
            "perplexity_of_all_parser": self.perplexity_of_all(1.0),
            "perplexity_of_all_ngram": self.perplexity_of_all(0.0),
        })
    }

    pub fn to_text(&self, weight: f64) -> String {
        let figures = |perplexity: &dyn Fn(f64) -> f64| {
            let [both, parser, ngram] = [weight, 1.0, 0.0].map(perplexity);
            format!("{both:.2}; {parser:.2} by the parser alone, word by word; {ngram:.2} by the n-gram model alone")
        };
        let (all, ends, [of_parser, of_ngram]) = (self.tokens() as u64, self.sentences, self.unknown);
        let mut text = format!(
            "with a weight of {weight:.3} for the parser: perplexity {}; over {} tokens: words that both know, and the ends of \
             {ends} sentences\n",
            figures(&|weight| self.perplexity(weight)),
            self.known.len()
        );
        if !self.others.is_empty() {
            text += &format!(
                "{of_parser} words are unknown to the parser and predicted as their classes, {of_ngram} are to the n-gram model; \
                 with these, over {all} tokens: perplexity {}\n",
                figures(&|weight| self.perplexity_of_all(weight))
            );
        }
        text
    }
}

/// Of tokens by the mixture.
fn perplexity(lists: &[&[[f64; 2]]], weight: f64) -> f64 {
    let tokens: usize = lists.iter().map(|tokens| tokens.len()).sum();
    libm::exp(-lists.iter().map(|tokens| sum_ln(tokens, weight)).sum::<f64>() / tokens.max(1) as f64)
}

/// ln of p of all tokens by the mixture.
fn sum_ln(tokens: &[[f64; 2]], weight: f64) -> f64 {
    tokens.iter().map(|[p, q]| ln(weight * p + (1.0 - weight) * q)).sum()
}

/// Two halves of a text, each predicted by the mixture that is best for the other: nothing is tuned on what it is tested on.
#[derive(Clone, Debug, Default)]
pub struct Halves([Predictions; 2]);

impl Halves {
    /// Adds a sentence to one half or the other, in turn.
    pub fn push(&mut self, tokens: impl IntoIterator<Item = [f64; 2]>) {
        let [first, second] = &mut self.0;
        let half = if first.sentences > second.sentences { second } else { first };
        half.push(tokens.into_iter().map(|p| (p, [true; 2]))); // to both they are the same, words or classes
    }

    /// The perplexity of both, and the weights of the parser; none where a half has no sentence.
    pub fn perplexity(&self) -> Option<(f64, [f64; 2])> {
        let [first, second] = &self.0;
        let weights = [second.best_weight(), first.best_weight()];
        let tokens = (first.tokens() + second.tokens()) as f64;
        let sum_ln = sum_ln(&first.known, weights[0]) + sum_ln(&second.known, weights[1]);
        let perplexity = libm::exp(-sum_ln / tokens);
        (second.sentences > 0).then_some((perplexity, weights))
    }
}

/// p of each word of a sentence and of its end by the n-gram model, and whether it knows the word.
fn predict(ngram: &LanguageModel, index: Option<&Index>, sentence: &Unparsed) -> Vec<(f64, bool)> {
    let (vocabulary, tokenisation) = (&ngram.kept.vocabulary, &ngram.kept.tokenisation);
    let mut walk = Walk::begin(ngram, index);
    let mut scratch = String::new();
    let mut number = |form: &str| vocabulary.id(tokenisation.normalise(form, &mut scratch));
    let words = sentence.forms().map(|form| {
        let number = number(form);
        (number, number != UNKNOWN || form == UNKNOWN_WORD)
    });
    words.chain([(ngram.symbols.end, true)]).map(|(word, is_known)| (walk.next(word).0, is_known)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_weight_is_found() {
        // Of 10 tokens the parser gives 7 four times the other's probability, and 3 a quarter of it.
        let tokens = (0..10).map(|i| if i < 7 { [0.4, 0.1] } else { [0.1, 0.4] }).collect();
        let predictions = Predictions { sentences: 1, known: tokens, ..Predictions::default() };
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
