//! Which shard a token belongs to: decided by its context, and by how many tokens have such contexts.
//!
//! All tokens whose nearest element is the same are of one shard, so that the restaurants of all contexts that begin with it
//! are known nowhere else. An element that alone would fill a good part of a shard is **split**: its tokens are dealt by
//! the next element of their contexts, or by outcome where a context ends there. The restaurant of a split element alone is
//! then common to several shards, as the root is: together they are the **top**.
//!
//! ```text
//! tokens by nearest element  ->  Keys: which elements are split
//! tokens by key              ->  Deal: keys packed into shards, the largest first, each into the shard with the least
//! ```
//!
//! A key is an element that is whole, or one of `BUCKETS` that what is split is hashed into. The rule knows the numbers of
//! tokens and shards, never workers. With one shard nothing is split, and nothing is common.

use std::cmp::Reverse;
use std::collections::BTreeSet;

/// An element of more tokens than this share of a mean shard is split. Any that is below one shard can be packed; the more
/// are split, the more restaurants are common.
const LARGEST: f64 = 0.5;

/// Keys of what is split: so many that none of them is large, but where a single pair of elements is.
const BUCKETS: u32 = 1 << 14;

/// By which key a token is dealt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    shards: u32,
    /// By element.
    is_split: Vec<bool>,
}

impl Keys {
    /// `tokens` has, by element, how many tokens have a context that begins with it.
    pub fn new(tokens: &[u64], shards: u32) -> Keys {
        let most = LARGEST * tokens.iter().sum::<u64>() as f64 / f64::from(shards.max(1));
        let is_split = |&tokens: &u64| shards > 1 && tokens as f64 > most;
        Keys { shards: shards.max(1), is_split: tokens.iter().map(is_split).collect() }
    }

    /// The elements that are split, rising.
    pub fn split(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.is_split).filter(|(_, is_split)| **is_split).map(|(element, _)| element)
    }

    /// How many keys there are.
    pub fn count(&self) -> usize {
        self.is_split.len() + BUCKETS as usize
    }

    /// The key of a token.
    #[inline]
    pub fn key_of(&self, context: impl IntoIterator<Item = u32>, outcome: u32) -> u32 {
        let mut context = context.into_iter();
        let bucket = match context.next() {
            Some(first) if !self.is_split[first as usize] => return first,
            Some(first) => match context.next() {
                Some(second) => bucket([first, second, u32::MAX]),
                None => bucket([first, u32::MAX, outcome]),
            },
            None => bucket([u32::MAX, u32::MAX, outcome]),
        };
        self.is_split.len() as u32 + bucket
    }

    /// Whether contexts that begin with an element are dealt to several shards.
    #[inline]
    pub fn is_split(&self, first: u32) -> bool {
        self.is_split[first as usize]
    }
}

/// The shard of every key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deal {
    pub keys: Keys,
    homes: Vec<u32>,
}

impl Deal {
    /// `tokens` has, by key, how many there are; or another measure of what shards are to have equally much of.
    pub fn new(keys: Keys, tokens: &[u64]) -> Deal {
        let mut by_size: Vec<u32> = (0..tokens.len() as u32).collect();
        by_size.sort_by_key(|&key| (Reverse(tokens[key as usize]), key));
        let mut homes = vec![0; tokens.len()];
        // The shard with the least is the first; of equals, that with the lowest number.
        let mut loads: BTreeSet<(u64, u32)> = (0..keys.shards).map(|shard| (0, shard)).collect();
        for key in by_size {
            let (load, shard) = loads.pop_first().expect("a shard");
            // Keys of no token take turns, too: a test token may have them.
            loads.insert((load + tokens[key as usize].max(1), shard));
            homes[key as usize] = shard;
        }
        Deal { keys, homes }
    }

    /// All tokens are of one shard.
    pub fn alone() -> Deal {
        Deal { keys: Keys { shards: 1, is_split: vec![] }, homes: vec![] }
    }

    pub fn shards(&self) -> u32 {
        self.keys.shards
    }

    /// The shard of a token.
    #[inline]
    pub fn shard_of(&self, context: impl IntoIterator<Item = u32>, outcome: u32) -> u32 {
        if self.keys.shards == 1 {
            return 0;
        }
        self.homes[self.keys.key_of(context, outcome) as usize]
    }

    /// Whether the restaurant of a context is common to several shards.
    #[inline]
    pub fn is_top(&self, context: &[u32]) -> bool {
        match context {
            [] => self.keys.shards > 1,
            [first] => self.keys.shards > 1 && self.keys.is_split(*first),
            _ => false,
        }
    }
}

/// One of [`BUCKETS`], which are equally likely.
#[inline]
fn bucket(numbers: [u32; 3]) -> u32 {
    let mix = |hash: u64, number: u32| (hash ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let hash = numbers.into_iter().fold(0x85eb_ca6b, mix).wrapping_mul(0xd6e8_feb8_6659_fd93);
    ((u128::from(hash) * u128::from(BUCKETS)) >> 64) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::rng::{Purpose, generator};
    use crate::math::draws::unit;

    const SYMBOLS: u32 = 20_000;

    /// Tokens (first, second, outcome) whose n-th word is as frequent as 1 / n; where the first one is 0, a context ends there.
    fn tokens() -> Vec<[u32; 3]> {
        let mut rng = generator(1, Purpose::Synth, 0, 0);
        let mut word = || (f64::from(SYMBOLS).powf(unit(&mut rng)) - 1.0) as u32;
        (0..500_000).map(|_| [word(), word(), word()]).collect()
    }

    fn context(token: &[u32; 3]) -> &[u32] {
        if token[0] == 0 { &token[..1] } else { &token[..2] }
    }

    fn dealt(tokens: &[[u32; 3]], shards: u32) -> Deal {
        let mut by_element = vec![0; SYMBOLS as usize];
        tokens.iter().for_each(|token| by_element[token[0] as usize] += 1);
        let keys = Keys::new(&by_element, shards);
        let mut by_key = vec![0; keys.count()];
        for token in tokens {
            by_key[keys.key_of(context(token).iter().copied(), token[2]) as usize] += 1;
        }
        Deal::new(keys, &by_key)
    }

    #[test]
    fn shards_are_even_and_a_context_is_whole() {
        let tokens = tokens();
        for shards in [1, 2, 8, 32, 64] {
            let deal = dealt(&tokens, shards);
            let mut loads = vec![0; shards as usize];
            for token in &tokens {
                let shard = deal.shard_of(context(token).iter().copied(), token[2]);
                loads[shard as usize] += 1;
                if !deal.is_top(context(token)) {
                    assert_eq!(shard, deal.shard_of(context(token).iter().copied(), 0), "its outcome does not matter");
                }
                if !deal.is_top(&token[..1]) {
                    assert_eq!(shard, deal.shard_of([token[0]], 0), "nor does what is before");
                }
            }
            let (most, mean) = (*loads.iter().max().unwrap() as f64, tokens.len() as f64 / f64::from(shards));
            assert!(most <= 1.05 * mean, "{shards} shards: {most} of {mean}");
            let split = (0..SYMBOLS).filter(|&element| deal.keys.is_split(element)).count();
            assert!((split == 0) == (shards <= 2) && split < 60, "{shards} shards: {split} split");
        }
    }

    #[test]
    fn tokens_without_contexts_are_dealt_by_outcome() {
        let keys = Keys::new(&[0; 5], 4);
        let mut tokens = vec![0; keys.count()];
        (0..100).for_each(|outcome| tokens[keys.key_of([], outcome) as usize] += 1);
        let deal = Deal::new(keys, &tokens);
        let shards: BTreeSet<u32> = (0..100).map(|outcome| deal.shard_of([], outcome)).collect();
        assert_eq!(shards.len(), 4);
        assert!(deal.is_top(&[]));
    }
}
