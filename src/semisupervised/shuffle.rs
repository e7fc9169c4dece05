//! Tokens on their way: from the worker that has parsed their sentence to the one whose shard their context is of.
//!
//! Every worker makes the tokens of its own trees, a round of them at a time, so that what is on its way stays small.

use timely::worker::Worker;

use crate::cluster::operators::route::Route;
use crate::parser::tokens::Tokens;
use crate::restaurant::franchise::shard_of;
use crate::restaurant::tree::NONE;

/// Words that a worker has on their way at most, in letters to all others.
const FULL: usize = 1 << 21;

/// One worker's end.
pub struct Shuffle<'a> {
    worker: &'a mut Worker,
    route: &'a mut Route,
    shards: u32,
    /// By worker: outcomes with their contexts, filled up with [`NONE`].
    letters: Vec<Vec<u32>>,
    /// Words of a letter that is sent.
    full: usize,
    depth: usize,
    tokens: Tokens,
}

impl<'a> Shuffle<'a> {
    /// For contexts of up to `depth` elements, which are below `symbols`. Every worker must begin and [`Shuffle::finish`].
    pub fn new(worker: &'a mut Worker, route: &'a mut Route, shards: u32, depth: usize, symbols: u32) -> Shuffle<'a> {
        let letters = vec![vec![]; worker.peers()];
        let full = FULL / letters.len();
        Shuffle { worker, route, shards, letters, full, depth, tokens: Tokens::new(depth, symbols) }
    }

    /// Sends a token to where it belongs.
    pub fn push(&mut self, context: &[u32], outcome: u32) {
        let to = shard_of(context.iter().copied(), self.shards) as usize % self.letters.len();
        if to == self.worker.index() {
            return self.tokens.push(context, outcome);
        }
        let letter = &mut self.letters[to];
        letter.push(outcome);
        letter.extend_from_slice(context);
        letter.resize(letter.len() + self.depth - context.len(), NONE);
        if letter.len() >= self.full {
            self.round(true);
        }
    }

    /// Sends what is left, and takes what others send until nobody has more; returns the tokens of the own shards.
    pub fn finish(mut self) -> Tokens {
        while self.letters.len() > 1 && self.round(false) {}
        self.tokens
    }

    /// Sends the letters, and takes those of others; returns whether anybody, this worker included, has more.
    fn round(&mut self, has_more: bool) -> bool {
        self.letters.iter_mut().for_each(|letter| letter.push(u32::from(has_more)));
        let empty = vec![vec![]; self.letters.len()];
        let letters = self.route.exchange(self.worker, std::mem::replace(&mut self.letters, empty));
        let mut is_more = false;
        for letter in &letters {
            let (&flag, tokens) = letter.split_last().expect("everybody says whether there is more");
            is_more |= flag == 1;
            for token in tokens.chunks_exact(self.depth + 1) {
                let context = token[1..].split(|element| *element == NONE).next().expect("a context, if an empty one");
                self.tokens.push(context, token[0]);
            }
        }
        is_more
    }
}
