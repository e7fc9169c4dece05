//! What an LDA job has learned: topics over words, and the prior of documents over topics.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::counts::{MAX_TOPICS, TopicCounts};
use super::lda::Lda;
use super::prior::{PRIOR_RANGE, Prior};
use crate::corpus::tokens::Tokenisation;
use crate::corpus::vocabulary::{UNKNOWN, Vocabulary};
use crate::error::{Result, ensure};
use crate::job::model_file::{self, Stored};
use crate::math::ln;

/// The kind in model files.
pub const KIND: &str = "lda";

/// The format of model files of this kind; raise it with every change to what is written.
pub const FORMAT: u32 = 1;

/// Topics over words, as counts; only cells that are not 0.
#[derive(Clone, Serialize, Deserialize)]
pub struct TopicModel {
    pub vocabulary: Vocabulary,
    /// How text becomes words of the vocabulary.
    pub tokenisation: Tokenisation,
    pub alpha: Vec<f64>,
    pub beta: f64,
    /// Tokens by topic.
    pub totals: Vec<u64>,
    /// By word: topics and counts.
    pub words: Vec<Vec<(u16, u32)>>,
}

impl TopicModel {
    /// What was learned; for the worker that has brought all words together.
    pub fn new(vocabulary: Vocabulary, tokenisation: Tokenisation, lda: &mut Lda) -> TopicModel {
        TopicModel {
            alpha: lda.prior().alpha().to_vec(),
            beta: lda.prior().beta(),
            totals: lda.totals().iter().map(|&total| total as u64).collect(),
            words: lda.take_learned(),
            vocabulary,
            tokenisation,
        }
    }

    /// Reads the model at `path`, a model file or a run folder.
    pub fn load(path: &Path) -> Result<TopicModel> {
        model_file::load(path)
    }

    pub fn topics(&self) -> usize {
        self.alpha.len()
    }

    /// The `count` most frequent words of each topic, with their counts.
    pub fn top_words(&self, count: usize) -> Vec<Vec<(u32, u32)>> {
        self.ranked(count, |_, _, count| f64::from(count))
    }

    /// The `count` words that set each topic off most from the whole corpus, with their counts: by [`relevance`]. The
    /// unknown word tells nothing.
    pub fn distinctive_words(&self, count: usize) -> Vec<Vec<(u32, u32)>> {
        let all = self.totals.iter().sum::<u64>().max(1) as f64;
        let shares: Vec<f64> =
            self.words.iter().map(|cells| cells.iter().map(|(_, n)| f64::from(*n)).sum::<f64>() / all).collect();
        self.ranked(count, |topic, word, count| {
            if word == UNKNOWN {
                return f64::NEG_INFINITY;
            }
            let inside = f64::from(count) / self.totals[topic].max(1) as f64;
            relevance(inside, shares[word as usize])
        })
    }

    /// The `count` words of each topic with the highest score, of equal ones the more frequent in the corpus.
    fn ranked(&self, count: usize, score: impl Fn(usize, u32, u32) -> f64) -> Vec<Vec<(u32, u32)>> {
        let mut top: Vec<Vec<(u32, u32)>> = vec![vec![]; self.topics()];
        for (word, cells) in (0..).zip(&self.words) {
            cells.iter().for_each(|&(topic, count)| top[usize::from(topic)].push((word, count)));
        }
        for (topic, words) in top.iter_mut().enumerate() {
            let score = |&(word, count): &(u32, u32)| score(topic, word, count);
            words.sort_by(|a, b| score(b).total_cmp(&score(a)).then(a.0.cmp(&b.0)));
            words.truncate(count);
        }
        top
    }

    /// The priors.
    pub fn prior(&self) -> Prior {
        let strength = self.alpha.iter().sum();
        Prior::new(self.topics(), strength, self.beta, self.vocabulary.len() as u64).with_alpha(self.alpha.clone())
    }

    /// The counts as a table whose rows are the words of the vocabulary.
    pub fn counts(&self) -> TopicCounts {
        let mut counts = TopicCounts::new(self.vocabulary.len(), self.topics());
        for (row, cells) in (0..).zip(&self.words) {
            cells.iter().for_each(|&(topic, count)| counts.change_cell(row, usize::from(topic), count as i32));
        }
        (0..).zip(&self.totals).for_each(|(topic, &total)| counts.change_total(topic, total as i64));
        counts
    }

    /// p(word | topic) of a count.
    pub fn probability(&self, topic: usize, count: u32) -> f64 {
        let mass = self.vocabulary.len() as f64 * self.beta;
        (f64::from(count) + self.beta) / (self.totals[topic] as f64 + mass)
    }
}

/// The counts of a model as a dense table have at most so many cells: 64 GiB of them.
const MOST_CELLS: u64 = 1 << 34;

impl Stored for TopicModel {
    const KIND: &'static str = KIND;
    const FORMAT: u32 = FORMAT;

    fn validate(&self) -> Result<(), String> {
        let topics = self.topics();
        ensure((1..=MAX_TOPICS).contains(&topics), "the number of topics")?;
        let is_prior = self.alpha.iter().chain([&self.beta]).all(|value| PRIOR_RANGE.contains(value));
        ensure(is_prior, "alpha or beta is out of range")?;
        ensure(self.words.len() == self.vocabulary.len(), "the number of words")?;
        ensure(self.words.len() as u64 * topics as u64 <= MOST_CELLS, "the number of words and topics")?;
        let mut sums = vec![0u64; topics];
        for cells in &self.words {
            let is_right =
                |&(topic, count): &(u16, u32)| usize::from(topic) < topics && (1..=i32::MAX as u32).contains(&count);
            ensure(cells.iter().all(is_right), "a topic or a count of a word")?;
            ensure(cells.is_sorted_by(|a, b| a.0 < b.0), "the order of a word's topics")?;
            cells.iter().for_each(|&(topic, count)| sums[usize::from(topic)] += u64::from(count));
        }
        ensure(self.totals == sums, "the totals of topics")
    }
}

/// How much a word tells of a topic, where it has this share of the topic, and of the whole corpus (Sievert & Shirley
/// 2014): l ln p(w | k) + (1 - l) ln(p(w | k) / p(w)).
pub fn relevance(inside: f64, overall: f64) -> f64 {
    // They found 0.6 best where function words had been taken out; where they are left in, they still come first there.
    const WEIGHT: f64 = 0.3;
    WEIGHT * ln(inside) + (1.0 - WEIGHT) * ln(inside / overall)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::vocabulary::Occurrences;

    #[test]
    fn frequent_words_tell_less_than_those_of_one_topic() {
        let counts =
            [("the", 90), ("boat", 30), ("tax", 30)].map(|(word, training)| (word, Occurrences { training, test: 0 }));
        let vocabulary = Vocabulary::build(counts, 1).expect("a vocabulary");
        let [the, boat, tax] = ["the", "boat", "tax"].map(|word| vocabulary.id(word));
        let mut words = vec![vec![]; 4];
        words[UNKNOWN as usize] = vec![(0, 70), (1, 70)];
        words[the as usize] = vec![(0, 45), (1, 45)];
        words[boat as usize] = vec![(0, 30)];
        words[tax as usize] = vec![(1, 30)];
        let model = TopicModel {
            vocabulary,
            tokenisation: Tokenisation::default(),
            alpha: vec![0.1, 0.1],
            beta: 0.01,
            totals: vec![145, 145],
            words,
        };
        let first = |top: Vec<Vec<(u32, u32)>>| -> Vec<Vec<u32>> {
            top.into_iter().map(|words| words.into_iter().map(|(word, _)| word).collect()).collect()
        };
        assert_eq!(first(model.top_words(2)), [[UNKNOWN, the], [UNKNOWN, the]]);
        assert_eq!(first(model.distinctive_words(2)), [[boat, the], [tax, the]]);
    }
}
