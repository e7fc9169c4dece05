//! Tokens on their way from the workers that have read the documents to the shards of their words.
//!
//! ```text
//! own documents  ->  their lengths, to everybody: parts, and who keeps what
//!                    tokens by word, added up where a word's number says, to everybody: the deal
//!                    tokens, to the workers of their words, some documents at a time
//! ```
//!
//! Memory: the tokens once, and those of the documents on their way.

use std::collections::BTreeMap;
use std::ops::Range;

use super::counts::TopicCounts;
use super::deal::Deal;
use super::documents::ShardDocuments;
use super::lda::Shard;
use super::shared_documents::SharedDocuments;
use crate::cluster::sweep::Post;
use crate::corpus::shard::shards;

/// Tokens of all workers that are on their way at once, about.
const AT_ONCE: u64 = 1 << 22;

/// What a worker has read.
pub(super) struct Dealing {
    pub shards: u32,
    /// In how many parts a sweep passes over the documents.
    pub parts: u32,
    /// Documents by shard of documents: numbers in the catalogue, which rise, and words.
    pub training: BTreeMap<u32, Vec<(u32, Vec<u32>)>>,
}

/// What a worker has afterwards.
pub(super) struct Dealt {
    pub deal: Deal,
    pub documents: SharedDocuments,
    pub shards: BTreeMap<u32, Shard>,
}

impl Dealing {
    pub fn deal(mut self, vocabulary: usize, topics: usize, post: &mut Post<'_>) -> Dealt {
        let entries = self.list(post);
        let deal = Deal::new(&self.count(vocabulary, post), self.shards);
        let lengths: Vec<u64> = entries.iter().map(|entry| u64::from(entry.length)).collect();
        let parts = shards(&lengths, self.parts).iter().map(|run| run.start as u32).collect();
        let begins = (0..self.shards).map(|shard| entries.partition_point(|entry| entry.shard < shard) as u32);
        let own = self.training.values().flatten().map(|(number, words)| {
            let document = entries.binary_search_by_key(number, |entry| entry.number).expect("a document of the list");
            (document as u32, words.len() as u32)
        });
        let own: Vec<(u32, u32)> = own.collect();
        let workers = (post.index(), post.peers());
        let mut documents = SharedDocuments::new(workers, (parts, begins.collect()), entries.len(), &own, topics);
        drop(entries);
        let own_shards = (post.index() as u32..self.shards).step_by(post.peers());
        let mut shards: BTreeMap<u32, ShardDocuments> = own_shards.map(|s| (s, ShardDocuments::default())).collect();
        let mut unread = own.iter().map(|(document, _)| *document).zip(self.take_words());
        let mut next = unread.next();
        for run in at_once(&lengths) {
            let mut letters = vec![vec![]; post.peers()];
            while let Some((document, words)) = next.take_if(|(document, _)| run.contains(document)) {
                send(&deal, document, &words, &mut documents, &mut letters);
                next = unread.next();
            }
            take(&deal, &post.exchange(letters), &mut shards);
        }
        let mut row_of = vec![0; vocabulary];
        let finish = |(number, documents_of)| (number, finish(documents_of, &deal, &documents, &mut row_of, topics));
        Dealt { shards: shards.into_iter().map(finish).collect(), deal, documents }
    }

    /// All documents, in their order.
    fn list(&self, post: &mut Post<'_>) -> Vec<Entry> {
        let mut letter = vec![];
        for (&shard, documents) in &self.training {
            documents.iter().for_each(|(number, words)| letter.extend([*number, shard, words.len() as u32]));
        }
        let letters = post.exchange(vec![letter; post.peers()]);
        let triples = letters.iter().flat_map(|letter| letter.as_chunks::<3>().0);
        let mut entries: Vec<Entry> = triples.map(|&[number, shard, length]| Entry { number, shard, length }).collect();
        entries.sort_unstable_by_key(|entry| entry.number);
        assert!(entries.is_sorted_by_key(|entry| entry.shard), "shards of documents are runs of them");
        entries
    }

    /// How many tokens each word has.
    fn count(&self, vocabulary: usize, post: &mut Post<'_>) -> Vec<u64> {
        let mut own = vec![0u64; vocabulary];
        let words = self.training.values().flatten().flat_map(|(_, words)| words);
        words.for_each(|&word| own[word as usize] += 1);
        let mut letters = vec![vec![]; post.peers()];
        for (word, &count) in own.iter().enumerate().filter(|(_, count)| **count > 0) {
            letters[word % post.peers()].extend([word as u32, count as u32, (count >> 32) as u32]);
        }
        let sums = add_up(vocabulary, &post.exchange(letters));
        let mut letter = vec![];
        for (word, &count) in sums.iter().enumerate().filter(|(_, count)| **count > 0) {
            letter.extend([word as u32, count as u32, (count >> 32) as u32]);
        }
        add_up(vocabulary, &post.exchange(vec![letter; post.peers()]))
    }

    /// The words of own documents, each to be dropped when it has been dealt.
    fn take_words(&mut self) -> impl Iterator<Item = Vec<u32>> + use<> {
        std::mem::take(&mut self.training).into_values().flatten().map(|(_, words)| words)
    }
}

/// A document as everybody knows it.
struct Entry {
    number: u32,
    shard: u32,
    length: u32,
}

/// Adds up words with counts.
fn add_up(vocabulary: usize, letters: &[Vec<u32>]) -> Vec<u64> {
    let mut sums = vec![0; vocabulary];
    for &[word, low, high] in letters.iter().flat_map(|letter| letter.as_chunks::<3>().0) {
        sums[word as usize] += u64::from(low) | u64::from(high) << 32;
    }
    sums
}

/// Runs of documents that are dealt together.
fn at_once(lengths: &[u64]) -> Vec<Range<u32>> {
    let (mut runs, mut start, mut tokens) = (vec![], 0, 0);
    for (document, length) in (0..).zip(lengths) {
        tokens += length;
        if tokens >= AT_ONCE || document + 1 == lengths.len() as u32 {
            runs.push(start..document + 1);
            (start, tokens) = (document + 1, 0);
        }
    }
    runs
}

/// Writes the tokens of an own document to the workers of their words: document, number of words, words.
fn send(deal: &Deal, document: u32, words: &[u32], documents: &mut SharedDocuments, letters: &mut [Vec<u32>]) {
    let begins: Vec<usize> = letters.iter().map(Vec::len).collect();
    letters.iter_mut().for_each(|letter| letter.extend([document, 0]));
    for &word in words {
        let shard = deal.shard_of(word, document);
        documents.visit(document, shard);
        let to = shard as usize % letters.len();
        letters[to].push(word);
    }
    for (letter, begin) in letters.iter_mut().zip(begins) {
        match letter.len() - begin - 2 {
            0 => letter.truncate(begin),
            words => letter[begin + 1] = words as u32,
        }
    }
}

/// Reads the letters of all workers, each of which has documents in their order.
fn take(deal: &Deal, letters: &[Vec<u32>], shards: &mut BTreeMap<u32, ShardDocuments>) {
    let mut documents: Vec<(u32, &[u32])> = vec![];
    for letter in letters {
        let mut rest = letter.as_slice();
        while let [document, words, after @ ..] = rest {
            let (words, after) = after.split_at(*words as usize);
            documents.push((*document, words));
            rest = after;
        }
    }
    documents.sort_unstable_by_key(|(document, _)| *document);
    for (document, words) in documents {
        for &word in words {
            let shard = shards.get_mut(&deal.shard_of(word, document)).expect("an own shard");
            shard.push(document, word);
        }
    }
}

/// A shard of the tokens that have come.
fn finish(
    mut documents: ShardDocuments,
    deal: &Deal,
    shared: &SharedDocuments,
    row_of: &mut [u32],
    topics: usize,
) -> Shard {
    let mut words: Vec<u32> = documents.words().to_vec();
    words.sort_unstable();
    words.dedup();
    words.shrink_to_fit();
    (0..).zip(&words).for_each(|(row, &word)| row_of[word as usize] = row);
    documents.finish(shared.part_begins(), |word| row_of[word as usize]);
    let split = (0..).zip(&words).filter_map(|(row, &word)| Some((row, deal.place_of(word).err()? as u32)));
    let (split, counts) = (split.collect(), TopicCounts::new(words.len(), topics));
    Shard { documents, words, split, counts }
}
