//! The documents of a shard: which words they have, and the topic of each token, z.
//!
//! Everything else that a sweep needs from the shard follows from these, so that they are what a checkpoint stores.
//! Memory: 6 bytes per token, and 8 more for the order by words once that was asked for.

use rand::RngExt;
use serde::{Deserialize, Serialize};

use super::word_order::WordOrder;
use crate::cluster::rng::Generator;

/// Documents in flat arenas: document d has the tokens `starts[d]..starts[d + 1]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ShardDocuments {
    starts: Vec<u32>,
    /// Row of each token's word in [`super::counts::TopicCounts`].
    words: Vec<u32>,
    topics: Vec<u16>,
    /// Follows from the words: built when first asked for, and never stored.
    #[serde(skip)]
    order: Option<WordOrder>,
}

impl Default for ShardDocuments {
    fn default() -> ShardDocuments {
        ShardDocuments { starts: vec![0], words: Vec::new(), topics: Vec::new(), order: None }
    }
}

impl ShardDocuments {
    /// Adds a document, all of its tokens in topic 0; it may be empty.
    pub fn push(&mut self, words: impl IntoIterator<Item = u32>) {
        self.words.extend(words);
        self.topics.resize(self.words.len(), 0);
        self.starts.push(u32::try_from(self.words.len()).expect("fewer than 2^32 tokens in a shard"));
        self.order = None;
    }

    /// Draws every token's topic, all of the `topics` alike.
    pub fn assign_at_random(&mut self, topics: usize, rng: &mut Generator) {
        for topic in &mut self.topics {
            *topic = rng.random_range(0..topics as u32) as u16;
        }
    }

    /// Number of documents.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of tokens.
    pub fn tokens(&self) -> usize {
        self.words.len()
    }

    /// Rows of all tokens' words.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Topics of all tokens.
    pub fn topics(&self) -> &[u16] {
        &self.topics
    }

    /// Topics of all tokens, to be overwritten (as by a checkpoint).
    pub fn topics_mut(&mut self) -> &mut [u16] {
        &mut self.topics
    }

    /// Where the tokens of a document are.
    #[inline]
    pub fn range(&self, document: usize) -> std::ops::Range<usize> {
        self.starts[document] as usize..self.starts[document + 1] as usize
    }

    /// Words and topics of one document.
    pub fn document(&self, document: usize) -> (&[u32], &[u16]) {
        let range = self.range(document);
        (&self.words[range.clone()], &self.topics[range])
    }

    /// Words of one document, and its topics to change.
    #[inline]
    pub(super) fn document_mut(&mut self, document: usize) -> (&[u32], &mut [u16]) {
        let range = self.range(document);
        (&self.words[range.clone()], &mut self.topics[range])
    }

    /// Builds the order by words, if it is not there yet.
    pub(super) fn prepare_order(&mut self) {
        if self.order.is_none() {
            self.order = Some(WordOrder::new(self));
        }
    }

    /// The order by words, and topics to change. [`Self::prepare_order`] comes first.
    pub(super) fn by_word(&mut self) -> (&WordOrder, &mut [u16]) {
        (self.order.as_ref().expect("the order by words was prepared"), &mut self.topics)
    }
}
