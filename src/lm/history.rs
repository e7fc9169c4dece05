//! The words before the next one, as far back as any model looks.

use super::text::Symbols;
use crate::restaurant::seating::DEEPEST;

/// The nearest words of a sentence, and its begin where that is near enough. Nothing stands before the begin.
#[derive(Clone, Debug)]
pub struct History {
    /// Nearest first.
    words: [u32; DEEPEST],
    length: usize,
    /// How far back is looked.
    longest: usize,
}

impl History {
    /// The begin of a sentence, for contexts of at most `longest` words.
    pub fn begin(symbols: &Symbols, longest: usize) -> History {
        let mut history = History { words: [0; DEEPEST], length: 0, longest: longest.min(DEEPEST) };
        history.push(symbols.begin);
        history
    }

    /// Puts the next word of the sentence behind the others; the farthest is forgotten.
    #[inline]
    pub fn push(&mut self, word: u32) {
        self.length = (self.length + 1).min(self.longest);
        for at in (1..self.length).rev() {
            self.words[at] = self.words[at - 1];
        }
        if self.length > 0 {
            self.words[0] = word;
        }
    }

    /// The words, nearest first.
    #[inline]
    pub fn words(&self) -> &[u32] {
        &self.words[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_words_are_kept() {
        let symbols = Symbols { end: 7, begin: 8 };
        let seen = |longest: usize| {
            let mut history = History::begin(&symbols, longest);
            let mut seen = vec![history.words().to_vec()];
            for word in [1, 2, 3] {
                history.push(word);
                seen.push(history.words().to_vec());
            }
            seen
        };
        assert_eq!(seen(0), [[0; 0]; 4]);
        assert_eq!(seen(2), [vec![8], vec![1, 8], vec![2, 1], vec![3, 2]]);
        assert_eq!(seen(9), [vec![8], vec![1, 8], vec![2, 1, 8], vec![3, 2, 1, 8]]);
    }
}
