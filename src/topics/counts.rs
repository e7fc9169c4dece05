//! How often each word has each topic: n_kw, and n_k = the sum of n_kw over all words.
//!
//! Rows are the words of one shard, numbered from 0, and the totals those of the whole corpus. The counts of a word are those
//! of all of its tokens, always; totals, and counts of words that have tokens in other shards too ([`super::deal`]), are
//! those of the last synchronisation and the changes of the shard's own pass.
//!
//! Invariant: no count is negative. Memory: 4 bytes x rows x topics, the topics rounded up to a block of 16.

use super::documents::ShardDocuments;
use crate::math::lanes::{Block, LANES, blocks};

/// The largest number of topics: assignments are stored in 16 bits, of which one value stands for none.
pub const MAX_TOPICS: usize = u16::MAX as usize;

/// Word-by-topic counts and topic totals.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicCounts {
    topics: usize,
    /// Blocks per row; lanes behind the last topic are always 0.
    stride: usize,
    cells: Vec<Block<i32>>,
    totals: Vec<i64>,
}

impl TopicCounts {
    /// Zero counts.
    pub fn new(rows: usize, topics: usize) -> TopicCounts {
        assert!((1..=MAX_TOPICS).contains(&topics), "between 1 and {MAX_TOPICS} topics are possible, not {topics}");
        let stride = blocks(topics);
        TopicCounts { topics, stride, cells: vec![Block::default(); rows * stride], totals: vec![0; topics] }
    }

    pub fn topics(&self) -> usize {
        self.topics
    }

    pub fn rows(&self) -> usize {
        self.cells.len() / self.stride
    }

    /// n_k by topic.
    pub fn totals(&self) -> &[i64] {
        &self.totals
    }

    /// n_kw of one word by topic, in blocks.
    #[inline(always)]
    pub fn row(&self, row: u32) -> &[Block<i32>] {
        &self.cells[row as usize * self.stride..][..self.stride]
    }

    /// n_kw.
    #[inline]
    pub fn get(&self, row: u32, topic: u16) -> i32 {
        self.row(row)[topic as usize / LANES].0[topic as usize % LANES]
    }

    /// Adds a token; returns n_kw and n_k.
    #[inline(always)]
    pub fn add(&mut self, row: u32, topic: u16) -> (i32, i64) {
        self.change(row, topic, 1)
    }

    /// Takes a token away; returns n_kw and n_k.
    #[inline(always)]
    pub fn remove(&mut self, row: u32, topic: u16) -> (i32, i64) {
        self.change(row, topic, -1)
    }

    #[inline(always)]
    fn change(&mut self, row: u32, topic: u16, by: i32) -> (i32, i64) {
        let cell = self.cell(row, topic);
        *cell += by;
        let count = *cell;
        let total = &mut self.totals[topic as usize];
        *total += i64::from(by);
        debug_assert!(count >= 0 && *total >= 0, "a negative count");
        (count, *total)
    }

    #[inline(always)]
    fn cell(&mut self, row: u32, topic: u16) -> &mut i32 {
        let block = row as usize * self.stride + topic as usize / LANES;
        &mut self.cells[block].0[topic as usize % LANES]
    }

    /// Adds every token of a shard: how the counts begin, and how a resumed job gets them back.
    pub fn add_documents(&mut self, documents: &ShardDocuments) {
        for (&row, &topic) in documents.words().iter().zip(documents.topics()) {
            self.add(row, topic);
        }
    }

    /// Changes a count of a row. Totals are changed apart, since they count all words and not only the rows here.
    #[inline]
    pub fn change_cell(&mut self, row: u32, topic: usize, by: i32) {
        *self.cell(row, topic as u16) += by;
    }

    /// Changes the total of a topic.
    #[inline]
    pub fn change_total(&mut self, topic: usize, by: i64) {
        self.totals[topic] += by;
    }

    /// Takes the totals of another table.
    pub fn copy_totals(&mut self, from: &TopicCounts) {
        self.totals.copy_from_slice(&from.totals);
    }

    /// Takes a row of another table.
    pub fn copy_row(&mut self, row: u32, from: &TopicCounts, from_row: u32) {
        let start = row as usize * self.stride;
        self.cells[start..start + self.stride].copy_from_slice(from.row(from_row));
    }
}
