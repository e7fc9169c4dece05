//! How often each document has each topic: n_dk, as short lists by topic.
//!
//! A list is packed as changes are on their way ([`crate::cluster::rows`]): topic and count in 32 bits, a count above 16 bits
//! in several entries. So a list is sent as it is, and changes are merged into it in its order. Topics rise, so that what
//! is drawn along a list does not depend on how it came about.
//!
//! Memory: 4 bytes per entry, of which a document has room for as many as it may ever need: one for each of its tokens, or
//! each topic, and 12 bytes per document.

use crate::cluster::rows::{entries, push_entry};

/// A count above this takes several entries.
const MOST: usize = i16::MAX as usize;

/// Lists of documents, numbered from 0.
#[derive(Clone, Debug, Default)]
pub struct DocumentCounts {
    /// Where the room of each document begins, and where the last one ends.
    starts: Vec<usize>,
    /// Entries in use.
    lengths: Vec<u32>,
    entries: Vec<u32>,
    scratch: Vec<u32>,
}

impl DocumentCounts {
    /// Lists without tokens, for documents that will have `tokens` of them.
    pub fn new(tokens: impl IntoIterator<Item = usize>, topics: usize) -> DocumentCounts {
        let mut starts = vec![0];
        for tokens in tokens {
            starts.push(starts[starts.len() - 1] + tokens.min(topics) + tokens / MOST);
        }
        let entries = vec![0; starts[starts.len() - 1]];
        DocumentCounts { lengths: vec![0; starts.len() - 1], starts, entries, scratch: vec![] }
    }

    /// Number of documents.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// The packed list of a document.
    #[inline]
    pub fn list(&self, document: usize) -> &[u32] {
        &self.entries[self.starts[document]..][..self.lengths[document] as usize]
    }

    /// Topics and counts of a document.
    pub fn counts(&self, document: usize) -> impl Iterator<Item = (usize, u32)> + '_ {
        summed(self.list(document)).map(|(topic, count)| (topic, count as u32))
    }

    /// Merges packed changes, whose topics rise, into the list of a document.
    pub fn apply(&mut self, document: usize, changes: &[u32]) {
        let mut merged = std::mem::take(&mut self.scratch);
        merged.clear();
        let (mut old, mut new) = (summed(self.list(document)).peekable(), summed(changes).peekable());
        loop {
            let topic = match (old.peek(), new.peek()) {
                (None, None) => break,
                (Some(&(topic, _)), None) | (None, Some(&(topic, _))) => topic,
                (Some(&(a, _)), Some(&(b, _))) => a.min(b),
            };
            let mut sum = 0;
            for list in [&mut old, &mut new] {
                sum += list.next_if(|entry| entry.0 == topic).map_or(0, |entry| entry.1);
            }
            debug_assert!(sum >= 0, "a negative count");
            push_entry(&mut merged, topic, sum);
        }
        drop((old, new));
        let start = self.starts[document];
        assert!(start + merged.len() <= self.starts[document + 1], "a document with more topics than tokens");
        self.entries[start..start + merged.len()].copy_from_slice(&merged);
        self.lengths[document] = merged.len() as u32;
        self.scratch = merged;
    }
}

/// The entries of a list whose topics rise, each topic once.
pub fn summed(packed: &[u32]) -> impl Iterator<Item = (usize, i32)> + '_ {
    let mut rest = entries(packed).peekable();
    std::iter::from_fn(move || {
        let (topic, mut sum) = rest.next()?;
        while let Some((_, more)) = rest.next_if(|entry| entry.0 == topic) {
            sum += more;
        }
        Some((topic, sum))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::rng::{Purpose, generator};
    use rand::RngExt;

    #[test]
    fn lists_are_the_sums_of_changes() {
        const TOPICS: usize = 40;
        let mut rng = generator(1, Purpose::Synth, 0, 0);
        let lengths = [0, 1, 7, 30, 200, 100_000];
        let mut lists = DocumentCounts::new(lengths, TOPICS);
        let mut twin = vec![[0i32; TOPICS]; lengths.len()];
        for round in 0..200 {
            for (document, &length) in lengths.iter().enumerate() {
                // Tokens come in the first round, and change their topics afterwards.
                let mut by = [0i32; TOPICS];
                for _ in 0..if round == 0 { length } else { length / 3 } {
                    let to = rng.random_range(0..TOPICS as u32) as usize / (1 + round % 7);
                    let from = rng.random_range(0..TOPICS as u32) as usize;
                    if round > 0 && twin[document][from] + by[from] > 0 {
                        by[from] -= 1;
                        by[to] += 1;
                    } else if round == 0 {
                        by[to] += 1;
                    }
                }
                let mut packed = vec![];
                by.iter().enumerate().for_each(|(topic, &by)| push_entry(&mut packed, topic, by));
                lists.apply(document, &packed);
                twin[document].iter_mut().zip(by).for_each(|(sum, by)| *sum += by);
                let expected = twin[document].iter().enumerate().filter(|(_, count)| **count > 0);
                let expected: Vec<(usize, u32)> = expected.map(|(topic, &count)| (topic, count as u32)).collect();
                assert_eq!(lists.counts(document).collect::<Vec<_>>(), expected);
            }
        }
    }
}
