//! n_dk of all documents, on the workers that keep them, and lent to those that pass over them.
//!
//! A document is kept by the worker of its own shard of documents, which counts it for evaluation and hyperparameters. In
//! part i of m, the shard s of words passes over the documents of part (i + s) mod m, so that as long as there are no more
//! shards than parts, no document is in the hands of two shards. Before a part, the keeper lends the lists of its documents
//! to the workers whose shards are about to pass over them and have tokens in them; afterwards, these send back what they
//! changed. Nobody holds the lists of all documents.

use std::collections::BTreeMap;
use std::ops::Range;

use super::document_counts::DocumentCounts;
use super::sampler::{KEPT, Lists};
use crate::cluster::rows::{Rows, rows};

/// The lists that a worker keeps, and those that it was lent.
#[derive(Default)]
pub struct SharedDocuments {
    index: usize,
    peers: usize,
    shards: u32,
    /// The first document of each part, and of each shard of documents.
    parts: Vec<u32>,
    begins: Vec<u32>,
    kept: DocumentCounts,
    /// By own shard of documents, where they are among the kept ones.
    runs: BTreeMap<u32, Range<usize>>,
    /// Numbers of the kept documents, rising.
    numbers: Vec<u32>,
    /// By kept document, a bit for each shard of words that has tokens in it.
    visitors: Vec<u64>,
    lent: Vec<u32>,
    places: Vec<u32>,
}

impl SharedDocuments {
    /// Lists without tokens. `parts` and `begins` have the first document of each part and of each shard of documents; `own`
    /// has the documents that this worker keeps, with their lengths.
    pub fn new(
        (index, peers): (usize, usize),
        (parts, begins): (Vec<u32>, Vec<u32>),
        documents: usize,
        own: &[(u32, u32)],
        topics: usize,
    ) -> SharedDocuments {
        assert!(documents < KEPT as usize, "fewer than 2^31 documents");
        let shards = begins.len() as u32;
        let mut shared = SharedDocuments { index, peers, shards, parts, begins, ..SharedDocuments::default() };
        shared.places = vec![0; documents];
        for (place, &(number, _)) in (0..).zip(own) {
            shared.places[number as usize] = KEPT | place;
            shared.numbers.push(number);
        }
        for shard in (index as u32..shards).step_by(peers) {
            let end = shared.begins.get(shard as usize + 1).copied().unwrap_or(documents as u32);
            let place = |number: u32| shared.numbers.partition_point(|&other| other < number);
            let run = place(shared.begins[shard as usize])..place(end);
            shared.runs.insert(shard, run);
        }
        shared.kept = DocumentCounts::new(own.iter().map(|&(_, length)| length as usize), topics);
        shared.visitors = vec![0; own.len() * shared.visitor_words()];
        shared
    }

    fn visitor_words(&self) -> usize {
        (self.shards as usize).div_ceil(64)
    }

    /// Says that a shard of words has tokens in a document that is kept here.
    #[inline]
    pub fn visit(&mut self, document: u32, shard: u32) {
        let place = (self.places[document as usize] ^ KEPT) as usize * self.visitor_words();
        self.visitors[place + shard as usize / 64] |= 1 << (shard % 64);
    }

    /// How many documents there are.
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// How many shards there are.
    pub fn shards(&self) -> u32 {
        self.shards
    }

    /// In how many parts a sweep passes over them.
    pub fn parts(&self) -> u32 {
        self.parts.len() as u32
    }

    /// The first documents of the parts.
    pub fn part_begins(&self) -> &[u32] {
        &self.parts
    }

    /// The part of the documents that a shard of words passes over in a part of a sweep.
    pub fn part_of(&self, shard: u32, part: u32) -> usize {
        (u64::from(shard) + u64::from(part)) as usize % self.parts.len()
    }

    /// For a pass over documents at hand.
    pub fn lists(&self) -> Lists<'_> {
        Lists { kept: &self.kept, lent: &self.lent, places: &self.places }
    }

    /// Topics and counts of the documents of an own shard of documents.
    pub fn of_shard(&self, shard: u32) -> impl Iterator<Item = impl Iterator<Item = (usize, u32)> + '_> + '_ {
        self.runs.get(&shard).cloned().unwrap_or_default().map(|document| self.kept.counts(document))
    }

    /// The worker that keeps a document.
    fn keeper(&self, document: u32) -> usize {
        // Of shards that begin with the same document, all but the last are empty.
        (self.begins.partition_point(|&begin| begin <= document) - 1) % self.peers
    }

    /// Gives each row of changes to the keeper of its document.
    pub fn send(&self, changes: &mut Rows, letters: &mut [Rows]) {
        if self.peers == 1 {
            std::mem::swap(changes, &mut letters[0]);
        }
        for (document, packed) in rows(changes.words()) {
            let letter = &mut letters[self.keeper(document)];
            letter.begin_row(document);
            letter.extend_row(packed);
            letter.end_row();
        }
        changes.clear();
    }

    /// Makes a change to a kept document.
    pub fn apply(&mut self, document: u32, packed: &[u32]) {
        self.kept.apply((self.places[document as usize] ^ KEPT) as usize, packed);
    }

    /// Lends the documents of a part of a sweep to other workers that are about to pass over them.
    pub fn lend(&self, part: u32, letters: &mut [Rows]) {
        if self.peers == 1 {
            return;
        }
        let parts = self.parts.len();
        let (mut own, words) = (0, self.visitor_words());
        let mut taken = vec![u32::MAX; self.peers];
        for (place, &document) in self.numbers.iter().enumerate() {
            while self.parts.get(own + 1).is_some_and(|&begin| begin <= document) {
                own += 1;
            }
            let visitors = &self.visitors[place * words..(place + 1) * words];
            let first = (own + parts - part as usize % parts) % parts;
            for shard in (first..self.shards as usize).step_by(parts) {
                let worker = shard % self.peers;
                let is_visitor = visitors[shard / 64] >> (shard % 64) & 1 == 1;
                if is_visitor && worker != self.index && std::mem::replace(&mut taken[worker], document) != document {
                    let letter = &mut letters[worker];
                    letter.begin_row(document);
                    letter.extend_row(self.kept.list(place));
                    letter.end_row();
                }
            }
        }
    }

    /// Takes the documents that others lend; the ones from before go back. Rows of other things are shown to `visit`.
    pub fn borrow(&mut self, letters: &[Vec<u32>], mut visit: impl FnMut(u32, &[u32])) {
        self.lent.clear();
        for letter in letters {
            let mut place = self.lent.len() as u32;
            assert!(self.lent.len() + letter.len() < KEPT as usize, "fewer than 2^31 words of lists are lent at once");
            self.lent.extend_from_slice(letter);
            for (row, packed) in rows(letter) {
                match self.places.get_mut(row as usize) {
                    Some(of_document) => *of_document = place,
                    None => visit(row, packed),
                }
                place += 2 + packed.len() as u32;
            }
        }
    }
}
