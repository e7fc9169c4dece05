//! The vocabulary: words by number, and numbers by word.
//!
//! A word is known where it occurs in training, and at least `min_count` times in training and test together; every
//! other one is the unknown token. (The preprocessing of Noji, Mochihashi and Miyao 2013, Table 1.) The unknown token is
//! number 0; words follow by falling training count, equal ones by their bytes, so that a vocabulary follows from the
//! counts alone.
//!
//! Memory: the words one behind another, 4 bytes for each word's end, and 5 to 11 bytes for the table of numbers by
//! word, which is not stored but made anew on reading.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// The unknown token; a word of the corpus that is spelt so is unknown too.
pub const UNKNOWN_WORD: &str = "<unk>";

/// Its number.
pub const UNKNOWN: u32 = 0;

/// How often a word occurs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occurrences {
    pub training: u64,
    pub test: u64,
}

/// Words and their numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Words", into = "Words")]
pub struct Vocabulary {
    words: Words,
    /// Open addressing by hash: a number plus one, or 0 where there is none. The length is a power of two.
    table: Vec<u32>,
}

/// Words by number: what is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Words {
    text: String,
    /// Where each word ends in the text.
    ends: Vec<u32>,
}

impl Vocabulary {
    /// The vocabulary of `counts`, in which every word comes once. Fails above 4 GiB of words.
    pub fn build<'w>(
        counts: impl IntoIterator<Item = (&'w str, Occurrences)>,
        min_count: u64,
    ) -> Result<Vocabulary, String> {
        let is_known =
            |word: &str, n: Occurrences| n.training > 0 && n.training + n.test >= min_count && word != UNKNOWN_WORD;
        let mut known: Vec<(Reverse<u64>, &str)> = counts
            .into_iter()
            .filter(|&(word, occurrences)| is_known(word, occurrences))
            .map(|(word, occurrences)| (Reverse(occurrences.training), word))
            .collect();
        known.sort_unstable();
        let mut words = Words::default();
        for word in std::iter::once(UNKNOWN_WORD).chain(known.into_iter().map(|(_, word)| word)) {
            words.text.push_str(word);
            let end = u32::try_from(words.text.len());
            words.ends.push(end.map_err(|_| "the words are more than 4 GiB: raise min_count".to_string())?);
        }
        Vocabulary::try_from(words)
    }

    /// Number of words, the unknown token among them.
    #[allow(clippy::len_without_is_empty)] // it never is: the unknown token is always there
    pub fn len(&self) -> usize {
        self.words.ends.len()
    }

    /// The word of a number; numbers are below [`Vocabulary::len`].
    pub fn word(&self, id: u32) -> &str {
        self.words.get(id)
    }

    /// The words, by number.
    pub fn words(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len()).map(|id| self.words.get(id as u32))
    }

    /// The number of a word: [`UNKNOWN`] where it is not known.
    #[inline]
    pub fn id(&self, word: &str) -> u32 {
        match self.table[self.slot(word)] {
            0 => UNKNOWN,
            next => next - 1,
        }
    }

    /// Where `word` is in the table, or would be.
    #[inline]
    fn slot(&self, word: &str) -> usize {
        let mask = self.table.len() - 1;
        let mut slot = xxh3_64(word.as_bytes()) as usize & mask;
        while self.table[slot] != 0 && self.words.get(self.table[slot] - 1) != word {
            slot = (slot + 1) & mask;
        }
        slot
    }
}

impl Words {
    #[inline]
    fn get(&self, id: u32) -> &str {
        let start = id.checked_sub(1).map_or(0, |before| self.ends[before as usize]);
        &self.text[start as usize..self.ends[id as usize] as usize]
    }

    /// Whether the ends are those of words; a file may be damaged.
    fn is_sound(&self) -> bool {
        let mut start = 0;
        let ends_rise = self.ends.iter().all(|&end| {
            let rises = end > start && self.text.is_char_boundary(end as usize);
            start = end;
            rises
        });
        ends_rise && start as usize == self.text.len() && !self.ends.is_empty() && self.get(UNKNOWN) == UNKNOWN_WORD
    }
}

impl TryFrom<Words> for Vocabulary {
    type Error = String;

    /// Makes the table, a quarter of which at least stays free.
    fn try_from(words: Words) -> Result<Vocabulary, String> {
        if !words.is_sound() {
            return Err("a damaged vocabulary".to_string());
        }
        let slots = (words.ends.len() * 4 / 3 + 2).next_power_of_two();
        let mut vocabulary = Vocabulary { words, table: vec![0; slots] };
        for id in 0..vocabulary.len() as u32 {
            let slot = vocabulary.slot(vocabulary.word(id));
            if vocabulary.table[slot] != 0 {
                return Err(format!("the word `{}` is in the vocabulary twice", vocabulary.word(id)));
            }
            vocabulary.table[slot] = id + 1;
        }
        Ok(vocabulary)
    }
}

impl From<Vocabulary> for Words {
    fn from(vocabulary: Vocabulary) -> Words {
        vocabulary.words
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    fn build(counts: &[(&'static str, u64, u64)], min_count: u64) -> Vocabulary {
        let counts = counts.iter().map(|&(word, training, test)| (word, Occurrences { training, test }));
        Vocabulary::build(counts, min_count).expect("a small vocabulary")
    }

    #[test]
    fn rare_words_and_those_of_the_test_alone_are_unknown() {
        let counts = [("both", 2, 2), ("few", 2, 1), ("test", 0, 9), ("b", 4, 0), ("a", 4, 0), ("the", 9, 1)];
        let vocabulary = build(&counts, 4);
        assert_eq!(vocabulary.words().collect::<Vec<_>>(), [UNKNOWN_WORD, "the", "a", "b", "both"]);
        for (word, id) in [("few", UNKNOWN), ("test", UNKNOWN), ("other", UNKNOWN), ("", UNKNOWN), ("a", 2)] {
            assert_eq!(vocabulary.id(word), id, "{word}");
        }
    }

    #[test]
    fn the_unknown_token_may_stand_in_the_corpus() {
        let vocabulary = build(&[(UNKNOWN_WORD, 100, 0), ("a", 1, 0)], 0);
        assert_eq!(vocabulary.words().collect::<Vec<_>>(), [UNKNOWN_WORD, "a"]);
        assert_eq!(vocabulary.id(UNKNOWN_WORD), UNKNOWN);
    }

    #[test]
    fn nothing_at_all_is_a_vocabulary() {
        let vocabulary = build(&[], 4);
        assert_eq!((vocabulary.len(), vocabulary.id("a")), (1, UNKNOWN));
    }

    #[test]
    fn damaged_ones_are_refused() {
        let sound = r#"{"text":"<unk>aé","ends":[5,6,8]}"#;
        let read = |text: &str| serde_json::from_str::<Vocabulary>(text).map(|v| v.len()).map_err(|e| e.to_string());
        assert_eq!(read(sound), Ok(3));
        for ends in ["[5,6]", "[5,6,7,8]", "[5,6,9]", "[5,6,6,8]", "[6,8]", "[]"] {
            assert!(read(&sound.replace("[5,6,8]", ends)).unwrap_err().contains("damaged"), "{ends}");
        }
        assert!(read(r#"{"text":"<unk>aa","ends":[5,6,7]}"#).unwrap_err().contains("twice"));
    }

    proptest! {
        #[test]
        fn every_known_word_is_found(counts in prop::collection::btree_map("[a-cé]{1,4}", (0..5u64, 0..5u64), 0..200), min_count in 0..6u64) {
            let occurrences = |&(training, test): &(u64, u64)| Occurrences { training, test };
            let listed: Vec<_> = counts.iter().map(|(word, n)| (word.as_str(), occurrences(n))).collect();
            let vocabulary = Vocabulary::build(listed.iter().copied(), min_count).unwrap();
            prop_assert_eq!(&vocabulary, &Vocabulary::build(listed.iter().rev().copied(), min_count).unwrap());
            let known: BTreeMap<_, _> = counts.iter().filter(|(_, n)| n.0 > 0 && n.0 + n.1 >= min_count).collect();
            prop_assert_eq!(vocabulary.len(), known.len() + 1);
            for word in counts.keys() {
                let id = vocabulary.id(word);
                prop_assert_eq!(id != UNKNOWN, known.contains_key(word));
                prop_assert_eq!(vocabulary.word(id), if id == UNKNOWN { UNKNOWN_WORD } else { word });
            }
            let training: Vec<u64> = vocabulary.words().skip(1).map(|word| counts[word].0).collect();
            prop_assert!(training.is_sorted_by(|a, b| a >= b));
            let copy: Vocabulary = bincode::deserialize(&bincode::serialize(&vocabulary).unwrap()).unwrap();
            prop_assert_eq!(copy, vocabulary);
        }
    }
}
