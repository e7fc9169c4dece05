//! Which topics the documents of a part of a shard have, and how often: n_dk as one short list per document, to be changed
//! token by token.
//!
//! Lists lie in blocks of 16 slots, with room for as many topics as a document may have in a pass; slots without a token lie behind
//! the others, with count 0 and [`NO_TOPIC`]. Memory: 6 bytes per slot, at most one slot per token and 15 more
//! per document.

use super::document_counts::summed;
use super::sampler::Pass;
use crate::cluster::rows::{Rows, entries};
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
    /// Takes the lists of the documents that a pass is over; returns the largest number of blocks of a list.
    pub fn load(&mut self, pass: &Pass<'_>, topics: usize) -> usize {
        let (mut start, mut longest) = (0, 0);
        self.lists.clear();
        for document in pass.documents.part(pass.part) {
            let tokens = pass.documents.range(document).len();
            let room = blocks((pass.base.list(pass.documents.number(document)).len() + tokens).min(topics));
            self.lists.push(List { start, length: 0 });
            start += room as u32;
            longest = longest.max(room);
        }
        self.topics.clear();
        self.topics.resize(start as usize, Block([NO_TOPIC; LANES]));
        self.counts.clear();
        self.counts.resize(start as usize, Block::default());
        for (place, document) in pass.documents.part(pass.part).enumerate() {
            for (topic, count) in summed(pass.base.list(pass.documents.number(document))) {
                self.push(place, topic as u16, count as f32);
            }
        }
        longest
    }

    /// Notes how the list of a document differs from `base`. `by` has a place for every topic, all 0 before and afterwards.
    pub fn note(&self, document: usize, base: &[u32], by: &mut [i32], touched: &mut Vec<u16>, changes: &mut Rows) {
        let (topics, counts) = self.blocks(document);
        let length = self.lists[document].length as usize;
        let slots = topics.iter().flat_map(|block| block.0).zip(counts.iter().flat_map(|block| block.0));
        for (topic, count) in slots.take(length) {
            by[topic as usize] += count as i32;
            touched.push(topic);
        }
        for (topic, count) in entries(base) {
            by[topic] -= count;
            touched.push(topic as u16);
        }
        touched.sort_unstable();
        for topic in touched.drain(..) {
            // A topic met twice has given its change the first time.
            changes.push(usize::from(topic), std::mem::take(&mut by[usize::from(topic)]));
        }
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
            None => self.push(document, topic, 1.0),
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
    fn push(&mut self, document: usize, topic: u16, count: f32) {
        let slot = self.lists[document].length as usize;
        self.lists[document].length += 1;
        let (block, lane) = self.locate(document, slot);
        self.topics[block].0[lane] = topic;
        self.counts[block].0[lane] = count;
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
