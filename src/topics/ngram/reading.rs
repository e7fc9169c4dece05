//! Reading a document under a kept model, word by word: every word makes the document's topics clearer for the next.

use super::held_out::Reader;
use super::lookup::{Lookup, TopicNgrams};
use crate::cluster::rng::{Generator, Purpose, generator};
use crate::corpus::vocabulary::UNKNOWN;
use crate::lm::history::History;
use crate::lm::text::{END, each_word};
use crate::topics::left_to_right::LeftToRight;
use crate::topics::perplexity::{Score, ScoreDocument};

/// Who reads a document.
pub struct Reading<'m> {
    model: &'m TopicNgrams,
    lookup: Lookup<'m>,
    reader: Reader<'m>,
    history: History,
    rng: Generator,
}

impl<'m> Reading<'m> {
    /// Opens the document of this number. It draws from a generator keyed by the seed and its number.
    pub fn begin(model: &'m TopicNgrams, method: LeftToRight, seed: u64, number: u64) -> Reading<'m> {
        let kept = &model.kept;
        Reading {
            model,
            lookup: Lookup::new(model),
            reader: Reader::new(&model.alpha, kept.form, kept.all_topics(), method.particles, method.resample),
            history: History::begin(&model.symbols, kept.depth()),
            rng: generator(seed, Purpose::Evaluation, number, 0),
        }
    }

    /// Reads the next word or end of a sentence; returns ln p(word | all before it in the document).
    pub fn next(&mut self, symbol: u32) -> f64 {
        let vector = self.lookup.look(self.history.words(), symbol);
        let probability_ln = self.reader.read(vector, &mut self.rng);
        match symbol == self.model.symbols.end {
            true => self.history = History::begin(&self.model.symbols, self.model.kept.depth()),
            false => self.history.push(symbol),
        }
        probability_ln
    }

    /// Reads text within a sentence: shows each of its words with ln p.
    pub fn words(&mut self, text: &str, visit: &mut dyn FnMut(&str, u32, f64)) {
        let model = self.model;
        each_word(&model.kept.tokenisation, text, |word| {
            let symbol = model.kept.vocabulary.id(word);
            visit(word, symbol, self.next(symbol));
        });
    }

    /// Reads the end of a sentence.
    pub fn end(&mut self, visit: &mut dyn FnMut(&str, u32, f64)) {
        let end = self.model.symbols.end;
        visit(END, end, self.next(end));
    }

    /// Reads a document: lines that are not blank are sentences.
    pub fn document(&mut self, text: &str, visit: &mut dyn FnMut(&str, u32, f64)) {
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            self.words(line, visit);
            self.end(visit);
        }
    }

    /// The document's topics as they stand, without a global one.
    pub fn shares(&self) -> Vec<f64> {
        self.reader.shares()
    }
}

/// Scores documents.
pub struct Scorer<'m> {
    pub model: &'m TopicNgrams,
    pub method: LeftToRight,
    pub seed: u64,
}

impl ScoreDocument for Scorer<'_> {
    /// Tokens are words and ends of sentences.
    fn document(&self, number: u64, text: &str) -> Score {
        let mut score = Score { documents: 1, ..Score::default() };
        let mut reading = Reading::begin(self.model, self.method, self.seed, number);
        reading.document(text, &mut |_, symbol, word_ln| score.count(symbol == UNKNOWN, word_ln));
        score
    }
}
