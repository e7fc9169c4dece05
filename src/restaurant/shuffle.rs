//! Tokens on their way from the worker that reads them to the workers of their shards; and how all workers agree on which
//! shards these are.
//!
//! Every worker makes the tokens of its own part of the data: twice to count them, by nearest element and then by key
//! ([`super::deal`]), and once to send them. Memory stays bounded while tokens are sent, since they travel in rounds.

use std::collections::BTreeMap;
use std::sync::Arc;

use timely::worker::Worker;

use super::deal::{Deal, Keys};
use super::tokens::Tokens;
use super::tree::NONE;
use crate::cluster::operators::route::Route;
use crate::cluster::own::Own;

/// Words that a worker has on their way at most, in messages to all others.
const FULL: usize = 1 << 21;

/// Is shown a token: its context and outcome.
pub type Visit<'v> = dyn FnMut(&[u32], u32) + 'v;

/// The deal of the tokens of all workers. `each` shows those of this worker, the same at every call; elements are below
/// `symbols`. Every worker calls this.
pub fn agree(
    worker: &mut Worker,
    route: &mut Route,
    shards: u32,
    symbols: u32,
    mut each: impl FnMut(&mut Visit<'_>),
) -> Arc<Deal> {
    if shards <= 1 {
        return Arc::new(Deal::alone());
    }
    let mut by_element = vec![0; symbols as usize];
    each(&mut |context, _| {
        if let Some(&first) = context.first() {
            by_element[first as usize] += 1;
        }
    });
    let keys = Keys::new(&add_up(worker, route, by_element), shards);
    let mut by_key = vec![0; keys.count()];
    each(&mut |context, outcome| by_key[keys.key_of(context.iter().copied(), outcome) as usize] += 1);
    let by_key = add_up(worker, route, by_key);
    Arc::new(Deal::new(keys, &by_key))
}

/// The sums of the counts of all workers.
fn add_up(worker: &mut Worker, route: &mut Route, mut counts: Vec<u64>) -> Vec<u64> {
    if worker.peers() == 1 {
        return counts;
    }
    let known = (0..).zip(&counts).filter(|(_, count)| **count > 0);
    let message: Vec<u32> = known.flat_map(|(at, &count)| [at, count as u32, (count >> 32) as u32]).collect();
    let own = worker.index();
    let messages = (0..worker.peers()).map(|to| if to == own { vec![] } else { message.clone() }).collect();
    for message in route.exchange(worker, messages) {
        for entry in message.chunks_exact(3) {
            counts[entry[0] as usize] += u64::from(entry[1]) | u64::from(entry[2]) << 32;
        }
    }
    counts
}

/// One worker's end of the exchange of tokens.
pub struct Shuffle<'a> {
    worker: &'a mut Worker,
    route: &'a mut Route,
    deal: &'a Deal,
    /// By worker: outcomes with their contexts, filled up with [`NONE`].
    messages: Vec<Vec<u32>>,
    /// Words of a message that is sent.
    full: usize,
    depth: usize,
    tokens: BTreeMap<u32, Tokens>,
}

impl<'a> Shuffle<'a> {
    /// For contexts of up to `depth` elements, which are below `symbols`. Every worker must begin and [`Shuffle::finish`].
    pub fn new(
        worker: &'a mut Worker,
        route: &'a mut Route,
        deal: &'a Deal,
        depth: usize,
        symbols: u32,
    ) -> Shuffle<'a> {
        let own = Own::of(worker).below(deal.shards());
        let tokens = own.map(|shard| (shard, Tokens::new(depth, symbols))).collect();
        Shuffle::more(worker, route, deal, depth, tokens)
    }

    /// The same for tokens that are added to those of the own shards.
    pub fn more(
        worker: &'a mut Worker,
        route: &'a mut Route,
        deal: &'a Deal,
        depth: usize,
        tokens: BTreeMap<u32, Tokens>,
    ) -> Shuffle<'a> {
        let messages = vec![vec![]; worker.peers()];
        Shuffle { full: FULL / messages.len(), worker, route, deal, messages, depth, tokens }
    }

    /// Sends a token to where it belongs.
    pub fn push(&mut self, context: &[u32], outcome: u32) {
        let shard = self.deal.shard_of(context.iter().copied(), outcome);
        if let Some(tokens) = self.tokens.get_mut(&shard) {
            return tokens.push(context, outcome);
        }
        let message = &mut self.messages[shard as usize % self.worker.peers()];
        message.push(outcome);
        message.extend_from_slice(context);
        message.resize(message.len() + self.depth - context.len(), NONE);
        if message.len() >= self.full {
            self.round(true);
        }
    }

    /// Sends what is left, and takes what others send until nobody has more; returns the tokens of each own shard. Their order
    /// depends on the workers.
    pub fn finish(mut self) -> BTreeMap<u32, Tokens> {
        while self.messages.len() > 1 && self.round(false) {}
        self.tokens
    }

    /// Sends the messages, and takes those of others; returns whether anybody, this worker included, has more.
    fn round(&mut self, has_more: bool) -> bool {
        self.messages.iter_mut().for_each(|message| message.push(u32::from(has_more)));
        let empty = vec![vec![]; self.messages.len()];
        let messages = self.route.exchange(self.worker, std::mem::replace(&mut self.messages, empty));
        let mut is_more = false;
        for message in &messages {
            let (&flag, tokens) = message.split_last().expect("everybody says whether there is more");
            is_more |= flag == 1;
            for token in tokens.chunks_exact(self.depth + 1) {
                let context = token[1..].split(|element| *element == NONE).next().expect("a context, if an empty one");
                let shard = self.deal.shard_of(context.iter().copied(), token[0]);
                self.tokens.get_mut(&shard).expect("a token of an own shard").push(context, token[0]);
            }
        }
        is_more
    }
}
