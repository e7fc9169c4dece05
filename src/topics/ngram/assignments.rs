//! The topic and the order of every token, as of the last synchronisation, and who may change which of them.
//!
//! There are two ways to deal tokens to shards. The token-based sampler needs a document's counts to be exact, so it
//! passes over shards of whole **documents**. The table-based one moves tables, whose tokens are all of one word and of
//! any document, so it passes over shards of whole **words**: with documents dealt out, a block would be split among
//! shards and could not move. All workers know all assignments, which are small beside the tree, and hear at each
//! synchronisation which tokens have moved.
//!
//! Tokens are numbered by word first, as the samplers visit them: a shard of words is a run.

use std::ops::Range;

use super::counts::Form;
use super::documents::ShardTokens;
use crate::corpus::shard::shards;
use crate::restaurant::tree::{NONE, Tree};

/// The topic of a token that has none yet.
const UNASSIGNED: u16 = u16::MAX;

/// A token to train on: the rank of its leaf, the leaf, and the document.
pub type Ranked = (u32, u32, u32);

/// A token, and the topic and order that it has now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    pub token: u32,
    pub topic: u16,
    pub order: u8,
}

pub struct Assignments {
    form: Form,
    /// Topics, and the global one.
    all_topics: usize,
    /// By token: its dish in the whole context, its document, topic and order. Orders are there where they are drawn.
    leaves: Vec<u32>,
    documents: Vec<u32>,
    topics: Vec<u16>,
    orders: Vec<u8>,
    /// n_jk, document by document, and the tokens of each with a topic of its own.
    counts: Vec<u32>,
    with_topic: Vec<u32>,
    /// By shard: its documents, and its words' tokens.
    of_documents: Vec<Range<u32>>,
    of_words: Vec<Range<usize>>,
}

impl Assignments {
    /// `of_documents` are the documents of each shard.
    pub fn new(
        form: Form,
        all_topics: usize,
        mut tokens: Vec<Ranked>,
        of_documents: Vec<Range<u32>>,
        tree: &Tree,
        is_infinite: bool,
    ) -> Assignments {
        tokens.sort_by_key(|&(rank, _, document)| (rank, document));
        let leaves: Vec<u32> = tokens.iter().map(|&(_, leaf, _)| leaf).collect();
        let words: Vec<u64> = leaves
            .chunk_by(|&a, &b| tree.outcomes[a as usize] == tree.outcomes[b as usize])
            .map(|of_word| of_word.len() as u64)
            .collect();
        let mut first = 0;
        let of_words = shards(&words, of_documents.len() as u32).into_iter().map(|run| {
            let tokens = words[run].iter().sum::<u64>() as usize;
            first += tokens;
            first - tokens..first
        });
        let documents = of_documents.last().map_or(0, |run| run.end as usize);
        Assignments {
            form,
            all_topics,
            of_words: of_words.collect(),
            documents: tokens.iter().map(|&(_, _, document)| document).collect(),
            topics: vec![UNASSIGNED; leaves.len()],
            orders: vec![0; if is_infinite { leaves.len() } else { 0 }],
            leaves,
            counts: vec![0; documents * all_topics],
            with_topic: vec![0; documents],
            of_documents,
        }
    }

    /// The numbers of the tokens of a shard's documents.
    pub fn of_documents(&self, shard: u32) -> Vec<u32> {
        let own = &self.of_documents[shard as usize];
        (0..).zip(&self.documents).filter(|(_, document)| own.contains(document)).map(|(token, _)| token).collect()
    }

    /// The numbers of the tokens of a shard's words.
    pub fn of_words(&self, shard: u32) -> Range<u32> {
        let Range { start, end } = self.of_words[shard as usize];
        start as u32..end as u32
    }

    /// n_jk of a shard's documents.
    pub fn counts(&self, shard: u32) -> &[u32] {
        let Range { start, end } = self.of_documents[shard as usize];
        &self.counts[start as usize * self.all_topics..end as usize * self.all_topics]
    }

    /// The tokens of a shard of documents, given their numbers, for a sampler to pass over.
    pub fn with_documents(&self, shard: u32, tokens: &[u32]) -> ShardTokens {
        let own = &self.of_documents[shard as usize];
        let mut picked = self.pick(tokens.iter().copied());
        picked.documents.iter_mut().for_each(|document| *document -= own.start);
        picked.counts = self.counts(shard).to_vec();
        picked.with_topic = self.with_topic[own.start as usize..own.end as usize].to_vec();
        picked
    }

    /// The tokens of a shard of words, and all documents.
    pub fn with_words(&self, shard: u32) -> ShardTokens {
        let picked = self.pick(self.of_words(shard));
        ShardTokens { counts: self.counts.clone(), with_topic: self.with_topic.clone(), ..picked }
    }

    fn pick(&self, tokens: impl Iterator<Item = u32>) -> ShardTokens {
        let mut picked = ShardTokens::default();
        for token in tokens.map(|token| token as usize) {
            match picked.leaves.last_mut() {
                Some((leaf, tokens)) if *leaf == self.leaves[token] => *tokens += 1,
                _ => picked.leaves.push((self.leaves[token], 1)),
            }
            picked.documents.push(self.documents[token]);
            picked.topics.push(self.topics[token]);
            picked.orders.extend(self.orders.get(token));
        }
        picked
    }

    /// Which of these tokens a sampler has moved.
    pub fn moved(&self, tokens: impl Iterator<Item = u32>, picked: &ShardTokens) -> Vec<Moved> {
        let now = |(place, token): (usize, u32)| {
            let order = picked.orders.get(place).copied().unwrap_or(0);
            let is_there = picked.topics[place] == self.topics[token as usize] && order == self.order(token);
            (!is_there).then_some(Moved { token, topic: picked.topics[place], order })
        };
        tokens.enumerate().filter_map(now).collect()
    }

    /// The order of a token where it is drawn, and 0 where it is not.
    fn order(&self, token: u32) -> u8 {
        self.orders.get(token as usize).copied().unwrap_or(0)
    }

    /// What a checkpoint keeps of these tokens: topics and orders.
    pub fn saved(&self, tokens: &[u32]) -> (Vec<u16>, Vec<u8>) {
        let topics = tokens.iter().map(|&token| self.topics[token as usize]).collect();
        (topics, tokens.iter().filter_map(|&token| self.orders.get(token as usize)).copied().collect())
    }

    /// Assigns a token anew, and says where it was, and where it is: (dish, topic).
    pub fn assign(&mut self, tree: &Tree, moved: Moved) -> (Option<(u32, u16)>, (u32, u16)) {
        let token = moved.token as usize;
        let before = self.place(tree, moved.token);
        if let Some((_, topic)) = before {
            self.count(token, topic, -1);
        }
        self.topics[token] = moved.topic;
        if let Some(order) = self.orders.get_mut(token) {
            *order = moved.order;
        }
        self.count(token, moved.topic, 1);
        (before, self.place(tree, moved.token).expect("it has just been assigned"))
    }

    fn count(&mut self, token: usize, topic: u16, by: i32) {
        let document = self.documents[token] as usize;
        let count = &mut self.counts[document * self.all_topics + usize::from(topic)];
        *count = count.strict_add_signed(by);
        if topic > 0 || !self.form.has_global() {
            self.with_topic[document] = self.with_topic[document].strict_add_signed(by);
        }
    }

    /// The dish at which a token stops, and its topic; none where it has none yet.
    fn place(&self, tree: &Tree, token: u32) -> Option<(u32, u16)> {
        let leaf = self.leaves[token as usize];
        let topic = self.topics[token as usize];
        let shorter = match self.orders.get(token as usize) {
            Some(&order) => tree.depth_of(leaf) - usize::from(order),
            None => 0,
        };
        let dish = (0..shorter).fold(leaf, |dish, _| tree.dishes[dish as usize].parent);
        debug_assert_ne!(dish, NONE);
        (topic != UNASSIGNED).then_some((dish, topic))
    }

    /// Every token's dish and topic.
    #[cfg(test)]
    pub fn places(&self, tree: &Tree) -> Vec<(u32, u16)> {
        (0..self.leaves.len() as u32).filter_map(|token| self.place(tree, token)).collect()
    }

    #[cfg(test)]
    pub fn topics(&self) -> &[u16] {
        &self.topics
    }
}
