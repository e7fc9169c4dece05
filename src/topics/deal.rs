//! Which shard a token belongs to: that of its word.
//!
//! All tokens of a word are in one shard, so that its counts n_kw are known nowhere else, are always exact, and take memory
//! on one worker. Words are packed by how many tokens they have ([`pack`]). A word with more tokens than a shard should
//! have is **split**: its documents are dealt to several shards, and its counts are common to all, as the totals n_k are.
//! The rule knows numbers of tokens and shards, never workers. With one shard nothing is split.

use crate::corpus::shard::pack;

/// Pieces of a split word, per mean shard that it would fill: small enough that packing stays even.
const PIECES: u64 = 2;

/// Marks the place of a split word.
const SPLIT: u32 = 1 << 31;

/// The shard of every token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deal {
    /// By word: the shard, or where it stands among the split ones.
    places: Vec<u32>,
    split: Vec<Split>,
}

/// A word with several shards.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Split {
    word: u32,
    shards: Vec<u32>,
}

impl Deal {
    /// `tokens` has, by word, how many there are.
    pub fn new(tokens: &[u64], shards: u32) -> Deal {
        let shards = shards.clamp(1, SPLIT - 1);
        let mean = tokens.iter().sum::<u64>().div_ceil(u64::from(shards)).max(1);
        let mut sizes = vec![];
        let mut pieces = vec![];
        for (word, &tokens) in (0..).zip(tokens) {
            let count = if shards > 1 && tokens > mean { (PIECES * tokens).div_ceil(mean) } else { 1 };
            (0..count).for_each(|piece| sizes.push((tokens + piece) / count));
            pieces.push((word, count));
        }
        let mut shard_of = pack(&sizes, shards).into_iter();
        let mut deal = Deal::default();
        for (word, count) in pieces {
            let shards: Vec<u32> = shard_of.by_ref().take(count as usize).collect();
            if shards.len() == 1 {
                deal.places.push(shards[0]);
            } else {
                deal.places.push(SPLIT | deal.split.len() as u32);
                deal.split.push(Split { word, shards });
            }
        }
        deal
    }

    /// The shard of a token. Documents are numbered from 0.
    #[inline]
    pub fn shard_of(&self, word: u32, document: u32) -> u32 {
        match self.places[word as usize] {
            place if place < SPLIT => place,
            place => {
                let shards = &self.split[(place ^ SPLIT) as usize].shards;
                shards[document as usize % shards.len()]
            }
        }
    }

    /// The one shard of a word, or where it stands among the split ones.
    pub fn place_of(&self, word: u32) -> Result<u32, usize> {
        match self.places[word as usize] {
            place if place < SPLIT => Ok(place),
            place => Err((place ^ SPLIT) as usize),
        }
    }

    /// Words with several shards, rising.
    pub fn split(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.split.iter().map(|split| split.word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words as frequent as 1 / rank, in documents that have as many of each.
    fn tokens() -> Vec<u64> {
        (1..=5000).map(|rank| 100_000 / rank).collect()
    }

    #[test]
    fn shards_are_even_and_few_words_are_split() {
        let tokens = tokens();
        for shards in [1, 2, 8, 32, 64, 256] {
            let deal = Deal::new(&tokens, shards);
            let mut loads = vec![0.0; shards as usize];
            for (word, &tokens) in (0..).zip(&tokens) {
                (0..1000).for_each(|document| loads[deal.shard_of(word, document) as usize] += tokens as f64 / 1000.0);
                match deal.place_of(word) {
                    Ok(shard) => assert_eq!(shard, deal.shard_of(word, 7)),
                    Err(at) => assert_eq!(deal.split().nth(at), Some(word)),
                }
            }
            let mean = tokens.iter().sum::<u64>() as f64 / f64::from(shards);
            let most = loads.iter().copied().fold(0.0, f64::max);
            assert!(most <= 1.05 * mean, "{shards} shards: {most} of {mean}");
            let split = deal.split().count();
            assert_eq!(split, tokens.iter().filter(|&&n| shards > 1 && n as f64 > mean).count(), "{shards} shards");
            assert!(split * 8 <= shards as usize, "{shards} shards: {split} split");
        }
    }
}
