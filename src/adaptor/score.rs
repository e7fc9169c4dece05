//! How good a segmentation is: tokens, boundaries and types against the gold segmentation.
//!
//! A word is right where both of its ends are, and no boundary lies in it. Boundaries are those inside strings, since the
//! ends of strings are given. Types are the distinct words of all strings.

use serde::{Deserialize, Serialize};

/// How many there are of each, and how many are right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    pub correct: f64,
    pub found: f64,
    pub gold: f64,
}

impl Counts {
    /// In percent; none where there is nothing to be right or wrong about.
    pub fn precision(&self) -> Option<f64> {
        (self.found > 0.0).then(|| 100.0 * self.correct / self.found)
    }

    pub fn recall(&self) -> Option<f64> {
        (self.gold > 0.0).then(|| 100.0 * self.correct / self.gold)
    }

    pub fn f(&self) -> Option<f64> {
        (self.found + self.gold > 0.0).then(|| 200.0 * self.correct / (self.found + self.gold))
    }

    pub fn figures(&self) -> [f64; 3] {
        [self.correct, self.found, self.gold]
    }

    pub fn from_figures(figures: &[f64]) -> Counts {
        Counts { correct: figures[0], found: figures[1], gold: figures[2] }
    }
}

/// Tokens and boundaries.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Segmented {
    pub tokens: Counts,
    pub boundaries: Counts,
}

impl Segmented {
    /// Adds a string; both segmentations are the ends of words, the last one the end of the string.
    pub fn add(&mut self, found: &[u32], gold: &[u32]) {
        let words = |ends: &[u32]| {
            let begins = std::iter::once(0).chain(ends.iter().copied());
            begins.zip(ends.iter().copied()).collect::<Vec<(u32, u32)>>()
        };
        let (found_words, gold_words) = (words(found), words(gold));
        self.tokens.correct += common(&found_words, &gold_words);
        self.tokens.found += found.len() as f64;
        self.tokens.gold += gold.len() as f64;
        let inner = |ends: &[u32]| ends.split_last().map_or(vec![], |(_, inner)| inner.to_vec());
        let (found, gold) = (inner(found), inner(gold));
        self.boundaries.correct += common(&found, &gold);
        self.boundaries.found += found.len() as f64;
        self.boundaries.gold += gold.len() as f64;
    }
}

/// How many are in both, which rise.
pub fn common<T: Ord>(left: &[T], right: &[T]) -> f64 {
    let (mut i, mut j, mut count) = (0, 0, 0);
    while i < left.len() && j < right.len() {
        match left[i].cmp(&right[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => (i, j, count) = (i + 1, j + 1, count + 1),
        }
    }
    f64::from(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_boundaries_are_counted() {
        let mut scores = Segmented::default();
        // the|dog|barks found as thedog|barks
        scores.add(&[6, 11], &[3, 6, 11]);
        assert_eq!(scores.tokens, Counts { correct: 1.0, found: 2.0, gold: 3.0 });
        assert_eq!(scores.boundaries, Counts { correct: 1.0, found: 1.0, gold: 2.0 });
        scores.add(&[4], &[4]);
        assert_eq!(scores.tokens.f(), Some(400.0 / 7.0));
        assert_eq!((scores.boundaries.precision(), scores.boundaries.recall()), (Some(100.0), Some(50.0)));
        assert_eq!(Counts::default().f(), None);
    }
}
