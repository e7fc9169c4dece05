//! Some documents' tokens in the order of their words, for passes that treat all tokens of a word in one go.
//!
//! In: tokens by document. Out: tokens by word row, and by document and position within a word. Built once per part of a
//! shard by a counting sort, in time O(tokens + largest row); 8 bytes per token.

use std::ops::Range;

use super::documents::ShardDocuments;

/// A token: where it stands in the shard's arenas, and in which of the documents.
#[derive(Clone, Copy, Debug)]
pub struct Occurrence {
    pub position: u32,
    pub document: u32,
}

/// Tokens by word.
#[derive(Clone, Debug)]
pub struct WordOrder {
    /// Rows that occur, ascending, each with the end of its occurrences.
    rows: Vec<(u32, u32)>,
    occurrences: Vec<Occurrence>,
}

impl WordOrder {
    /// That of a run of documents.
    pub fn new(documents: &ShardDocuments, run: Range<usize>) -> WordOrder {
        let start = if run.is_empty() { 0 } else { documents.range(run.start).start };
        let end = if run.is_empty() { 0 } else { documents.range(run.end - 1).end };
        let words = &documents.words()[start..end];
        let rows = words.iter().max().map_or(0, |&row| row as usize + 1);
        let mut next = vec![0u32; rows + 1];
        for &row in words {
            next[row as usize + 1] += 1;
        }
        for row in 0..rows {
            next[row + 1] += next[row];
        }
        let mut occurrences = vec![Occurrence { position: 0, document: 0 }; words.len()];
        for (place, document) in (0..).zip(run) {
            for position in documents.range(document) {
                let slot = &mut next[documents.words()[position] as usize];
                occurrences[*slot as usize] = Occurrence { position: position as u32, document: place };
                *slot += 1;
            }
        }
        // Each row's slot has now come to its end, which is where the next row begins.
        let mut start = 0;
        let ends = (0..rows as u32).zip(next).filter(|&(_, end)| std::mem::replace(&mut start, end) != end);
        WordOrder { rows: ends.collect(), occurrences }
    }

    /// Number of different words.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The i-th word that occurs: its row and its tokens.
    #[inline]
    pub fn word(&self, i: usize) -> (u32, &[Occurrence]) {
        let start = if i == 0 { 0 } else { self.rows[i - 1].1 };
        let (row, end) = self.rows[i];
        (row, &self.occurrences[start as usize..end as usize])
    }
}
