//! Tags, and frequent words with their tags, as symbols.
//!
//! The first symbols are the tags, in the order of their names; then come words that occur `lexicalise_from` times or more,
//! with each tag that they have, by tag and word. A word that is not among them is the symbol of its tag: of the rest of the
//! words with that tag. One more symbol, behind all, is that of tags that were never seen in training.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::corpus::{AllNames, Corpus, Word};
use crate::error::ensure;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lexicon {
    pub tags: Vec<String>,
    /// Tag and word of each symbol behind the tags.
    pub words: Vec<(u32, String)>,
}

impl Lexicon {
    /// The tags of a corpus, and the words that occur at least so often, where that is said.
    pub fn learn(corpus: &Corpus, names: &AllNames, lexicalise_from: Option<u64>) -> Lexicon {
        let words = || corpus.sentences.iter().flatten();
        let seen: BTreeSet<u32> = words().map(|word| word.tag).collect();
        let mut tags: Vec<String> = seen.into_iter().map(|tag| names.tags.name(tag).to_string()).collect();
        tags.sort();
        let mut lexicon = Lexicon { tags, words: vec![] };
        if let Some(least) = lexicalise_from {
            let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
            words().for_each(|word| *counts.entry(word.form).or_insert(0) += 1);
            let frequent = words().filter(|word| counts[&word.form] >= least);
            let pair = |word: &Word| {
                let tag = lexicon.tag(names.tags.name(word.tag)).expect("it was seen");
                (tag, names.forms.name(word.form).to_string())
            };
            let pairs: BTreeSet<(u32, String)> = frequent.map(pair).collect();
            lexicon.words = pairs.into_iter().collect();
        }
        lexicon
    }

    /// Checks that the parts belong together: files may be damaged. Words are there where the model is lexicalised.
    pub fn validate(&self, is_lexicalised: bool) -> Result<(), String> {
        ensure(!self.tags.is_empty() && self.tags.is_sorted_by(|a, b| a < b), "the tags")?;
        ensure(is_lexicalised || self.words.is_empty(), "words where there are tags only")?;
        let tags = self.tags.len();
        ensure(self.words.iter().all(|(tag, _)| (*tag as usize) < tags), "the tag of a word")?;
        ensure(self.words.is_sorted_by(|a, b| a < b), "the order of words")
    }

    /// The number of a tag.
    pub fn tag(&self, name: &str) -> Option<u32> {
        self.tags.binary_search_by(|tag| tag.as_str().cmp(name)).ok().map(|tag| tag as u32)
    }

    /// The symbol of a word; of its tag alone where `is_lexicalised` is not set. That of unseen tags is behind all others.
    pub fn symbol(&self, form: &str, tag: &str, is_lexicalised: bool) -> u32 {
        let Some(tag) = self.tag(tag) else { return self.unseen(is_lexicalised) };
        let key = |(own, word): &(u32, String)| (*own, word.as_str()).cmp(&(tag, form));
        match self.words.binary_search_by(key) {
            Ok(word) if is_lexicalised => (self.tags.len() + word) as u32,
            _ => tag,
        }
    }

    /// The symbol of tags that were never seen.
    pub fn unseen(&self, is_lexicalised: bool) -> u32 {
        (self.tags.len() + if is_lexicalised { self.words.len() } else { 0 }) as u32
    }

    /// The tags of the symbols behind the tags.
    pub fn tags_of_words(&self) -> Vec<u32> {
        self.words.iter().map(|(tag, _)| *tag).collect()
    }

    /// Sentences as symbols.
    pub fn symbols(&self, corpus: &Corpus, names: &AllNames, is_lexicalised: bool) -> Vec<Vec<u32>> {
        let mut known: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        let mut symbol = |word: &Word| {
            *known
                .entry((word.form, word.tag))
                .or_insert_with(|| self.symbol(names.forms.name(word.form), names.tags.name(word.tag), is_lexicalised))
        };
        corpus.sentences.iter().map(|words| words.iter().map(&mut symbol).collect()).collect()
    }
}
