//! How good a grammar's trees are: directed and undirected accuracy of arcs, those from the root included.

use serde::{Deserialize, Serialize};

use super::corpus::Corpus;
use super::forest::Forest;
use super::grammar::{Buffers, Choice, Grammar};
use super::pass::Weights;
use super::shape::Shape;

/// Test sentences.
#[derive(Clone, Debug, Default)]
pub struct Test {
    pub symbols: Vec<Vec<u32>>,
    pub heads: Vec<Vec<u32>>,
    /// Words whose tag was never seen in training.
    pub unseen: usize,
}

impl Test {
    /// The sentences of `corpus`, as symbols; `unseen` is that of tags that training had not.
    pub fn new(symbols: Vec<Vec<u32>>, corpus: &Corpus, unseen: u32) -> Test {
        Test {
            unseen: symbols.iter().flatten().filter(|&&symbol| symbol == unseen).count(),
            heads: corpus.sentences.iter().map(|words| words.iter().map(|word| word.head).collect()).collect(),
            symbols,
        }
    }

    pub fn words(&self) -> usize {
        self.heads.iter().map(Vec::len).sum()
    }

    /// Figures of trees found by `parse`: words, directed and undirected arcs that are right.
    pub fn count(&self, mut parse: impl FnMut(&[u32]) -> Vec<u32>) -> [u64; 3] {
        let mut counts = [0; 3];
        for (symbols, gold) in self.symbols.iter().zip(&self.heads) {
            let found = parse(symbols);
            for (word, (&head, &right)) in found.iter().zip(gold).enumerate() {
                let is_reversed = head > 0 && gold[head as usize - 1] as usize == word + 1;
                counts[0] += 1;
                counts[1] += u64::from(head == right);
                counts[2] += u64::from(head == right || is_reversed);
            }
        }
        counts
    }
}

/// How good a grammar is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    pub words: u64,
    pub directed: u64,
    pub undirected: u64,
    /// Directed arcs that are right in trees of minimum risk.
    pub minimum_risk: u64,
}

impl Figures {
    fn percent(&self, right: u64) -> f64 {
        100.0 * right as f64 / self.words.max(1) as f64
    }

    pub fn directed_accuracy(&self) -> f64 {
        self.percent(self.directed)
    }

    pub fn undirected_accuracy(&self) -> f64 {
        self.percent(self.undirected)
    }

    pub fn minimum_risk_accuracy(&self) -> f64 {
        self.percent(self.minimum_risk)
    }
}

/// Judges grammars by test sentences.
pub struct Judge {
    pub test: Test,
    pub forest: Forest,
    pub buffers: Buffers,
}

impl Judge {
    pub fn figures(&mut self, shape: &Shape, weights: &Weights) -> Figures {
        let grammar = Grammar::new(shape, weights, self.forest.clone());
        let buffers = &mut self.buffers;
        let [words, directed, undirected] = self.test.count(|symbols| grammar.parse(symbols, Choice::Viterbi, buffers));
        let [_, minimum_risk, _] = self.test.count(|symbols| grammar.parse(symbols, Choice::MinimumRisk, buffers));
        Figures { words, directed, undirected, minimum_risk }
    }
}
