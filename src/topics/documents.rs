//! What a shard has of the documents: the tokens of its words, and the topic of each of them, z.
//!
//! Everything else that a sweep needs follows from these, so that topics are what a checkpoint stores. Documents are passed
//! over in parts, which are runs of the collection's documents, the same ones in all shards.
//!
//! Memory: 6 bytes per token, and 8 per document that has one; 8 more per token once the order by words was asked for.

use std::ops::Range;

use rand::RngExt;

use super::word_order::WordOrder;
use crate::cluster::rng::Generator;

/// Documents in flat arenas: document d has the tokens `starts[d]..starts[d + 1]`.
#[derive(Clone, Debug)]
pub struct ShardDocuments {
    /// Their numbers in the collection, rising.
    numbers: Vec<u32>,
    starts: Vec<u32>,
    /// Row of each token's word in [`super::counts::TopicCounts`].
    words: Vec<u32>,
    topics: Vec<u16>,
    parts: Vec<Part>,
}

/// A run of documents.
#[derive(Clone, Debug, Default)]
struct Part {
    documents: Range<usize>,
    /// Follows from the words: built when first asked for.
    order: Option<WordOrder>,
}

impl Default for ShardDocuments {
    fn default() -> ShardDocuments {
        ShardDocuments { numbers: vec![], starts: vec![0], words: vec![], topics: vec![], parts: vec![] }
    }
}

impl ShardDocuments {
    /// Adds a token of a document, with topic 0. Documents come in the order of their numbers.
    #[inline]
    pub fn push(&mut self, number: u32, word: u32) {
        if self.numbers.last() != Some(&number) {
            debug_assert!(self.numbers.last().is_none_or(|&last| last < number), "documents in their order");
            self.numbers.push(number);
            self.starts.push(self.words.len() as u32);
        }
        self.words.push(word);
        self.topics.push(0);
        *self.starts.last_mut().expect("there is a document") =
            u32::try_from(self.words.len()).expect("fewer than 2^32 tokens in a shard");
    }

    /// Ends the adding: gives back what was allocated beyond need, and cuts the documents into parts, which begin with the
    /// documents of these numbers. `row_of` has the row of each word that was given to [`ShardDocuments::push`].
    pub fn finish(&mut self, begins: &[u32], row_of: impl Fn(u32) -> u32) {
        self.words.iter_mut().for_each(|word| *word = row_of(*word));
        self.numbers.shrink_to_fit();
        self.starts.shrink_to_fit();
        self.words.shrink_to_fit();
        self.topics.shrink_to_fit();
        let place = |number: u32| self.numbers.partition_point(|&other| other < number);
        let ends = begins.iter().skip(1).map(|&end| place(end)).chain([self.numbers.len()]);
        let mut start = 0;
        let part = |end: usize| Part { documents: std::mem::replace(&mut start, end)..end, order: None };
        self.parts = ends.map(part).collect();
    }

    /// Draws every token's topic, all of the `topics` alike.
    pub fn assign_at_random(&mut self, topics: usize, rng: &mut Generator) {
        for topic in &mut self.topics {
            *topic = rng.random_range(0..topics as u32) as u16;
        }
    }

    /// Number of documents with tokens.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
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

    /// Number of a document in the collection.
    #[inline]
    pub fn number(&self, document: usize) -> u32 {
        self.numbers[document]
    }

    /// Where the tokens of a document are.
    #[inline]
    pub fn range(&self, document: usize) -> Range<usize> {
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

    /// The documents of a part.
    pub(super) fn part(&self, part: usize) -> Range<usize> {
        self.parts[part].documents.clone()
    }

    /// Builds the order by words of a part, if it is not there yet.
    pub(super) fn prepare_order(&mut self, part: usize) {
        if self.parts[part].order.is_none() {
            self.parts[part].order = Some(WordOrder::new(self, self.part(part)));
        }
    }

    /// The order by words of a part, and topics to change. [`Self::prepare_order`] comes first.
    pub(super) fn by_word(&mut self, part: usize) -> (&WordOrder, &mut [u16]) {
        (self.parts[part].order.as_ref().expect("the order by words was prepared"), &mut self.topics)
    }
}
