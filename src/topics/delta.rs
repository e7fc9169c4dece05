//! What a pass over a shard changed: n_kw by word and topic, and n_k by topic.
//!
//! A token that went from topic a to topic b takes one from (w, a) and gives one to (w, b). Changes are summed word by
//! word, so that a delta is sorted by (row, topic) without sorting tokens, and entries that cancel are dropped.
//! Time O(tokens), the topics of a word sorted among themselves; memory 12 bytes per entry.

use serde::{Deserialize, Serialize};

use super::counts::TopicCounts;
use super::documents::ShardDocuments;

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
        let mut delta = Delta { changes: Vec::new(), totals: vec![0; topics] };
        let mut word = WordChanges { by: vec![0; topics], touched: Vec::new() };
        for i in 0..order.len() {
            let (row, occurrences) = order.word(i);
            for occurrence in occurrences {
                let position = occurrence.position as usize;
                word.moved(before[position], after[position]);
            }
            word.drain_into(row, &mut delta);
        }
        delta
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

/// Changes of one word.
struct WordChanges {
    by: Vec<i32>,
    /// Topics that were changed; one whose changes cancelled may be here more than once.
    touched: Vec<u16>,
}

impl WordChanges {
    #[inline]
    fn moved(&mut self, from: u16, to: u16) {
        if from != to {
            self.change(from, -1);
            self.change(to, 1);
        }
    }

    #[inline]
    fn change(&mut self, topic: u16, by: i32) {
        let sum = &mut self.by[topic as usize];
        if *sum == 0 {
            self.touched.push(topic);
        }
        *sum += by;
    }

    fn drain_into(&mut self, row: u32, delta: &mut Delta) {
        self.touched.sort_unstable();
        for topic in self.touched.drain(..) {
            // A topic met twice has given its sum the first time.
            let by = std::mem::take(&mut self.by[topic as usize]);
            if by != 0 {
                delta.changes.push(Change { row, topic, by });
                delta.totals[topic as usize] += i64::from(by);
            }
        }
    }
}
