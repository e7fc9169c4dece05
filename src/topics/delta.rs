//! What a pass over a shard changed: n_kw by word and topic, and n_k by topic.
//!
//! A token that went from topic a to topic b takes one from (w, a) and gives one to (w, b). Changes are summed word by
//! word, so that a delta is sorted by (row, topic) without sorting tokens, and entries that cancel are dropped.
//! Time O(tokens), the topics of a word sorted among themselves; memory 12 bytes per entry.

use serde::{Deserialize, Serialize};

use super::counts::TopicCounts;
use super::documents::ShardDocuments;
use crate::math::lanes::LANES;

/// A change of one count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub row: u32,
    pub topic: u16,
    pub by: i32,
}

/// The changes of a shard since its last synchronisation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delta {
    /// Sorted by row and topic; none is zero.
    pub changes: Vec<Change>,
    /// By topic; the sum over all words of `changes`.
    pub totals: Vec<i64>,
}

impl Delta {
    /// The difference between the topics `before` and those of `documents` now.
    pub fn new(topics: usize, before: &[u16], documents: &mut ShardDocuments) -> Delta {
        assert_eq!(before.len(), documents.tokens(), "topics of the same tokens");
        documents.prepare_order();
        let (order, after) = documents.by_word();
        // Side by side, since the order by words jumps about in them.
        let moves: Vec<(u16, u16)> = before.iter().copied().zip(after.iter().copied()).collect();
        let mut delta = Delta { changes: Vec::new(), totals: vec![0; topics] };
        let mut word = WordChanges { by: vec![0; topics.next_multiple_of(LANES)], touched: Vec::new() };
        for i in 0..order.len() {
            let (row, occurrences) = order.word(i);
            let moves = occurrences.iter().map(|occurrence| moves[occurrence.position as usize]);
            if occurrences.len() * LANES >= topics {
                word.add_common(moves, row, &mut delta);
            } else {
                word.add_rare(moves, row, &mut delta);
            }
        }
        delta
    }

    #[inline]
    fn push(&mut self, row: u32, topic: u16, by: i32) {
        if by != 0 {
            self.changes.push(Change { row, topic, by });
            self.totals[topic as usize] += i64::from(by);
        }
    }

    /// Returns `counts`, which the pass has changed, to what they were before it.
    pub fn roll_back(&self, counts: &mut TopicCounts) {
        counts.take_back(&self.changes);
        counts.take_back_totals(&self.totals);
    }

    /// Does to `counts` what the pass did.
    pub fn apply(&self, counts: &mut TopicCounts) {
        counts.apply(&self.changes);
        counts.apply_totals(&self.totals);
    }
}

/// Changes of one word, by topic: all 0 between words.
struct WordChanges {
    by: Vec<i32>,
    /// Topics that were changed, some more than once.
    touched: Vec<u16>,
}

impl WordChanges {
    /// For a word with many tokens: every topic is looked at once, and no branch depends on a token.
    fn add_common(&mut self, moves: impl Iterator<Item = (u16, u16)>, row: u32, delta: &mut Delta) {
        for (from, to) in moves {
            self.by[from as usize] -= 1;
            self.by[to as usize] += 1;
        }
        for (block, by) in self.by.chunks_exact_mut(LANES).enumerate() {
            if by.iter().fold(0, |any, by| any | by) != 0 {
                for (lane, by) in by.iter_mut().enumerate() {
                    delta.push(row, (block * LANES + lane) as u16, std::mem::take(by));
                }
            }
        }
    }

    /// For a word with few: only the topics that changed are looked at.
    fn add_rare(&mut self, moves: impl Iterator<Item = (u16, u16)>, row: u32, delta: &mut Delta) {
        for (from, to) in moves.filter(|(from, to)| from != to) {
            self.by[from as usize] -= 1;
            self.by[to as usize] += 1;
            self.touched.extend([from, to]);
        }
        self.touched.sort_unstable();
        for topic in self.touched.drain(..) {
            // A topic met twice has given its sum the first time.
            delta.push(row, topic, std::mem::take(&mut self.by[topic as usize]));
        }
    }
}
