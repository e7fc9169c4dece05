//! Which topics each document of a shard has, and how often: n_dk as one short list per document.
//!
//! Lists lie in blocks of 16 slots, with room for as many topics as a document can have; slots without a token lie behind
//! the others, with count 0 and [`NO_TOPIC`]. Memory: 6 bytes per slot, at most one slot per token and 15 more
//! per document.

use super::documents::ShardDocuments;
use crate::math::lanes::{Block, LANES, blocks};

/// The topic of a slot that has none: never a topic, see [`super::counts::MAX_TOPICS`].
const NO_TOPIC: u16 = u16::MAX;

/// Lists of (topic, count).
#[derive(Default)]
pub(super) struct DocumentTopics {
    lists: Vec<List>,
    topics: Vec<Block<u16>>,
    /// Counts are whole numbers below 2^24, exact in 32 bits.
    counts: Vec<Block<f32>>,
}

#[derive(Clone, Copy, Default)]
struct List {
    /// First block.
    start: u32,
    /// Slots in use.
    length: u32,
}

impl DocumentTopics {
    /// Counts the topics of all documents; returns the largest number of blocks of a list.
    pub fn load(&mut self, documents: &ShardDocuments, topics: usize) -> usize {
        let mut start = 0;
        let room = |document| blocks(documents.range(document).len().min(topics));
        self.lists.clear();
        for document in 0..documents.len() {
            self.lists.push(List { start, length: 0 });
            start += room(document) as u32;
        }
        self.topics.clear();
        self.topics.resize(start as usize, Block([NO_TOPIC; LANES]));
        self.counts.clear();
        self.counts.resize(start as usize, Block::default());
        let mut slots = vec![u32::MAX; topics];
        for document in 0..documents.len() {
            self.load_document(document, documents.document(document).1, &mut slots);
        }
        (0..documents.len()).map(room).max().unwrap_or(0)
    }

    /// `slots` are those of each topic in this document: none before and afterwards.
    fn load_document(&mut self, document: usize, topics: &[u16], slots: &mut [u32]) {
        for &topic in topics {
            let slot = &mut slots[topic as usize];
            if *slot == u32::MAX {
                *slot = self.lists[document].length;
                self.push(document, topic);
            } else {
                self.increment(document, *slot as usize);
            }
        }
        topics.iter().for_each(|&topic| slots[topic as usize] = u32::MAX);
    }

    /// The list of a document.
    #[inline(always)]
    pub fn blocks(&self, document: usize) -> (&[Block<u16>], &[Block<f32>]) {
        let range = self.range(document);
        (&self.topics[range.clone()], &self.counts[range])
    }

    #[inline(always)]
    fn range(&self, document: usize) -> std::ops::Range<usize> {
        let list = self.lists[document];
        list.start as usize..list.start as usize + blocks(list.length as usize)
    }

    /// One more token of the topic in this slot, which is returned.
    #[inline(always)]
    pub fn increment(&mut self, document: usize, slot: usize) -> u16 {
        let (block, lane) = self.locate(document, slot);
        self.counts[block].0[lane] += 1.0;
        self.topics[block].0[lane]
    }

    /// One more token of a topic.
    #[inline(always)]
    pub fn add(&mut self, document: usize, topic: u16) {
        match self.find(document, topic) {
            Some(slot) => {
                self.increment(document, slot);
            }
            None => self.push(document, topic),
        }
    }

    /// One token less of a topic; the last slot moves into one that became empty.
    #[inline(always)]
    pub fn remove(&mut self, document: usize, topic: u16) {
        let slot = self.find(document, topic).expect("a topic of the document");
        let (block, lane) = self.locate(document, slot);
        let count = &mut self.counts[block].0[lane];
        *count -= 1.0;
        if *count == 0.0 {
            let last = self.lists[document].length as usize - 1;
            self.lists[document].length = last as u32;
            let (last_block, last_lane) = self.locate(document, last);
            self.topics[block].0[lane] = self.topics[last_block].0[last_lane];
            self.counts[block].0[lane] = self.counts[last_block].0[last_lane];
            self.topics[last_block].0[last_lane] = NO_TOPIC;
            self.counts[last_block].0[last_lane] = 0.0;
        }
    }

    #[inline(always)]
    fn push(&mut self, document: usize, topic: u16) {
        let slot = self.lists[document].length as usize;
        self.lists[document].length += 1;
        let (block, lane) = self.locate(document, slot);
        self.topics[block].0[lane] = topic;
        self.counts[block].0[lane] = 1.0;
    }

    #[inline(always)]
    fn locate(&self, document: usize, slot: usize) -> (usize, usize) {
        (self.lists[document].start as usize + slot / LANES, slot % LANES)
    }

    /// The slot of a topic that has a token.
    #[inline(always)]
    fn find(&self, document: usize, topic: u16) -> Option<usize> {
        let (topics, _) = self.blocks(document);
        for (block, topics) in topics.iter().enumerate() {
            // A topic has one slot at most: the sum is its lane + 1, or 0. No branch depends on the lane.
            let lane: u16 = (0..LANES).map(|lane| if topics.0[lane] == topic { lane as u16 + 1 } else { 0 }).sum();
            if lane > 0 {
                return Some(block * LANES + lane as usize - 1);
            }
        }
        None
    }
}
