//! The probability of documents not seen, from left to right.

use super::back_off::BackOff;
use super::factors::{Factors, Topics};
use crate::cluster::rng::Generator;
use crate::math::ln;
use crate::restaurant::seating::Path;
use crate::topics::counts::TopicCounts;
use crate::topics::left_to_right::LeftToRight;
use crate::topics::prior::Prior;

/// Both models, made ready to predict.
pub struct Predictor<'a> {
    counts: &'a TopicCounts,
    prior: &'a Prior,
    topics: Topics,
    ngrams: BackOff<'a>,
    method: LeftToRight,
}

impl<'a> Predictor<'a> {
    /// `counts` has a row for every outcome of `ngrams`.
    pub fn new(
        counts: &'a TopicCounts,
        prior: &'a Prior,
        ngrams: BackOff<'a>,
        weight: f64,
        method: LeftToRight,
    ) -> Predictor<'a> {
        let topics = Topics::new(counts, prior, weight);
        Predictor { counts, prior, topics, ngrams, method }
    }

    /// Shows ln p(token | those before it) of each token of a document, whose words are these and their places in the tree.
    pub fn each_token(&self, words: &[u32], leaves: &[u32], rng: &mut Generator, mut visit: impl FnMut(usize, f64)) {
        let (mut factors, mut path) = (Factors::new(&self.topics), Path::default());
        let mut first = 0;
        self.method.each_mixture(self.counts, self.prior, words, rng, |token, mixture| {
            factors.push(mixture);
            if !factors.is_full() && token + 1 < words.len() {
                return;
            }
            factors.compute(&self.topics, self.ngrams.root());
            for place in 0..factors.tokens() {
                let (of_words, sum) = factors.of(place);
                visit(first + place, ln(self.ngrams.probability(leaves[first + place], of_words, sum, &mut path)));
            }
            first = token + 1;
            factors.clear();
        });
    }
}
