//! A shard of tokens: those whose contexts were dealt to it, in parts that are synchronised one after another; and the
//! restaurants that no other shard has.
//!
//! A part has whole words: all of a shard's tokens of a word are in one, so that blocks of tables can move there. All shards
//! divide the words in the same way, and each passes over another part than the others at the same time ([`part_at`]): so
//! the shared restaurants, which serve a word to all shards, rarely change for several at once.
//!
//! In a part, tokens are sorted by word, then by the words before it, nearest first: those that follow share most of their
//! probabilities with the ones before ([`super::descent`]).

use std::ops::Range;

use super::dealt::{Dealt, TokenList};
use super::descent::by_word;
use super::documents::ShardTokens;
use super::top::Top;
use crate::restaurant::tree::{NONE, Paths, Tree};

/// The topic of a token that has none yet.
pub const UNASSIGNED: u16 = u16::MAX;

/// Runs of restaurants at one depth, and their dishes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    pub restaurants: Vec<Range<u32>>,
    pub dishes: Vec<Range<u32>>,
}

impl Places {
    /// All of a tree, by depth.
    pub fn all(tree: &Tree) -> Vec<Places> {
        let place = |range: &Range<u32>| vec![range.clone()];
        tree.levels
            .iter()
            .map(|level| Places { restaurants: place(&level.restaurants), dishes: place(&level.dishes) })
            .collect()
    }

    /// Adds a restaurant with its dishes.
    fn push(&mut self, tree: &Tree, restaurant: u32) {
        for (runs, next) in
            [(&mut self.restaurants, restaurant..restaurant + 1), (&mut self.dishes, tree.dishes_of(restaurant))]
        {
            match runs.last_mut().filter(|last| last.end == next.start) {
                Some(last) => last.end = next.end,
                None => runs.push(next),
            }
        }
    }

    pub fn restaurants(&self) -> impl Iterator<Item = u32> + '_ {
        self.restaurants.iter().cloned().flatten()
    }

    pub fn dishes(&self) -> impl Iterator<Item = u32> + '_ {
        self.dishes.iter().cloned().flatten()
    }
}

/// A shard of a worker's own.
#[derive(Clone, Debug, Default)]
pub struct Shard {
    /// Without the counts of documents, which all shards share.
    pub parts: Vec<ShardTokens>,
    /// By depth, the restaurants that no other shard has.
    pub places: Vec<Places>,
    /// By depth, what the shard counts of the top for statistics, so that all is counted once.
    pub of_top: Vec<Places>,
}

impl Shard {
    pub fn tokens(&self) -> usize {
        self.parts.iter().map(|part| part.topics.len()).sum()
    }

    /// The dishes that no other shard has, in an order that other shards have no part in.
    pub fn dishes(&self) -> impl Iterator<Item = u32> + '_ {
        self.places.iter().rev().flat_map(Places::dishes)
    }

    /// The same of restaurants.
    pub fn restaurants(&self) -> impl Iterator<Item = u32> + '_ {
        self.places.iter().rev().flat_map(Places::restaurants)
    }
}

/// The part that a shard passes over in a phase.
pub fn part_at(shard: u32, phase: u32, parts: usize) -> usize {
    (shard as usize + phase as usize) % parts
}

/// The own shards of a worker whose training tokens have these leaves in the tree.
pub fn own_shards(
    dealt: &Dealt,
    tree: &Tree,
    leaves: &[u32],
    parts: usize,
    is_infinite: bool,
    top: Option<&Top>,
) -> Vec<(u32, Shard)> {
    let (deal, list, parts) = (&dealt.deal, &dealt.training, parts as u32);
    let ranks = by_word(tree);
    let keys: Vec<(u32, u32)> = (0..list.count())
        .map(|token| {
            let outcome = list.outcome(token);
            let shard = deal.shard_of(list.context(token), outcome);
            let part = dealt.part_of.get(outcome as usize).map_or(0, |&part| u32::from(part));
            (shard * parts + part, ranks[leaves[token] as usize])
        })
        .collect();
    drop(ranks);
    let mut order: Vec<u32> = (0..list.count() as u32).collect();
    order.sort_unstable_by_key(|&token| (keys[token as usize], list.origins[token as usize]));
    let mut places = places(dealt, tree, top);
    let mut rest = order.as_slice();
    let mut shards = vec![];
    for (place, number) in dealt.own.below(deal.shards()).enumerate() {
        let mut shard = Shard { places: std::mem::take(&mut places[place]), ..Shard::default() };
        shard.of_top = top.map_or(vec![], |top| share_of_top(top, tree, number, deal.shards()));
        for part in 0..parts {
            let end = rest.partition_point(|&token| keys[token as usize].0 <= number * parts + part);
            let (own, others) = rest.split_at(end);
            shard.parts.push(tokens_of(list, leaves, own, is_infinite));
            rest = others;
        }
        shards.push((number, shard));
    }
    debug_assert!(rest.is_empty(), "all tokens are of own shards");
    shards
}

fn tokens_of(list: &TokenList, leaves: &[u32], tokens: &[u32], is_infinite: bool) -> ShardTokens {
    let same = tokens.chunk_by(|&a, &b| leaves[a as usize] == leaves[b as usize]);
    ShardTokens {
        leaves: same.map(|same| (leaves[same[0] as usize], same.len() as u32)).collect(),
        documents: tokens.iter().map(|&token| list.origins[token as usize].0).collect(),
        topics: vec![UNASSIGNED; tokens.len()],
        orders: vec![0; if is_infinite { tokens.len() } else { 0 }],
        ..ShardTokens::default()
    }
}

/// By own shard and depth, the restaurants that no other shard has.
fn places(dealt: &Dealt, tree: &Tree, top: Option<&Top>) -> Vec<Vec<Places>> {
    let (deal, peers) = (&dealt.deal, dealt.own.peers());
    let own = dealt.own.below(deal.shards()).count();
    let Some(top) = top else { return vec![Places::all(tree)] };
    let mut places = vec![vec![Places::default(); tree.levels.len()]; own];
    // The first two elements of a context decide its shard.
    let mut starts = vec![[NONE; 2]; tree.restaurants.len()];
    for (depth, level) in tree.levels.iter().enumerate().skip(1) {
        for restaurant in level.restaurants.clone() {
            let parent = tree.parent_of(restaurant);
            let mut start = starts[parent as usize];
            if let Some(element) = start.get_mut(depth - 1) {
                *element = tree.elements[restaurant as usize];
            }
            starts[restaurant as usize] = start;
            if !top.restaurants().contains(&restaurant) {
                // Contexts that are not shared have one shard, whatever the outcome.
                let shard = deal.shard_of(start.into_iter().take_while(|element| *element != NONE), 0);
                places[shard as usize / peers][depth].push(tree, restaurant);
            }
        }
    }
    places
}

/// What a shard counts of the top, by depth: the dishes are divided, and each restaurant belongs to one shard.
fn share_of_top(top: &Top, tree: &Tree, shard: u32, shards: u32) -> Vec<Places> {
    let mut places = vec![Places::default(); tree.levels.len()];
    for (number, &restaurant) in (0..).zip(top.restaurants()) {
        let dishes = tree.dishes_of(restaurant);
        let of_depth = &mut places[tree.depth_of(dishes.start)];
        let cut = part(dishes.len(), shard, u64::from(shards));
        of_depth.dishes.push(dishes.start + cut.start as u32..dishes.start + cut.end as u32);
        if number % shards == shard {
            of_depth.restaurants.push(restaurant..restaurant + 1);
        }
    }
    places
}

/// The part of so many things that is a shard's: an even one of all.
pub fn part(count: usize, shard: u32, shards: u64) -> Range<usize> {
    let cut = |shard: u64| (count as u64 * shard / shards) as usize;
    cut(u64::from(shard))..cut(u64::from(shard) + 1)
}

/// How many tokens of each topic documents have, as of the last synchronisation and what the shard at work has changed.
#[derive(Clone, Debug, Default)]
pub struct DocumentCounts {
    /// Topics, and the global one.
    topics: usize,
    has_global: bool,
    /// n_jk, document by document, and the tokens of each with a topic of its own.
    pub counts: Vec<u32>,
    pub with_topic: Vec<u32>,
}

/// A token's document, and the topics that it had and has.
pub type Move = (u32, u16, u16);

impl DocumentCounts {
    pub fn new(documents: usize, topics: usize, has_global: bool) -> DocumentCounts {
        DocumentCounts { topics, has_global, counts: vec![0; documents * topics], with_topic: vec![0; documents] }
    }

    /// Gives the counts to the tokens of a part, or takes them back.
    pub fn swap(&mut self, part: &mut ShardTokens) {
        std::mem::swap(&mut self.counts, &mut part.counts);
        std::mem::swap(&mut self.with_topic, &mut part.with_topic);
    }

    /// Moves a token from one topic to another.
    pub fn apply(&mut self, (document, old, new): Move) {
        for (topic, by) in [(old, -1), (new, 1)].into_iter().filter(|(topic, _)| *topic != UNASSIGNED) {
            let count = &mut self.counts[document as usize * self.topics + usize::from(topic)];
            *count = count.wrapping_add_signed(by);
            if topic > 0 || !self.has_global {
                let with_topic = &mut self.with_topic[document as usize];
                *with_topic = with_topic.wrapping_add_signed(by);
            }
        }
    }

    /// Moves it back.
    pub fn undo(&mut self, (document, old, new): Move) {
        self.apply((document, new, old));
    }
}
