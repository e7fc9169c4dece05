//! How much more likely LDA makes each word in a document than anywhere: r_w = (p(w | d) / p(w))^weight, for all words.
//!
//! p(w | d) / p(w) = sum_k m_k (n_kw + beta) / p(w), where m_k = (n_dk + alpha_k) / ((n_d + A) (n_k + V beta)) is what
//! differs between tokens: a product of a matrix of K rows and V columns with a vector. Words are taken sixteen at a
//! time: a tile has their numbers topic by topic, K cache lines, and stays in the nearest cache while it is multiplied
//! with the vectors of all tokens at hand.
//!
//! Memory: 4 K V bytes, and 4 V for each token at hand.

use multiversion::multiversion;

use crate::math::lanes::{Block, LANES, blocks, total};
use crate::math::pairs;
use crate::math::power::Power;
use crate::topics::counts::TopicCounts;
use crate::topics::prior::Prior;

/// Tokens that are multiplied with a tile together: their sums fit into registers.
const GROUP: usize = 8;

/// Tokens at hand.
pub const TOKENS: usize = 4 * GROUP;

/// Tiles whose part of a sum is added up in 32 bits.
const STRETCH: usize = 32;

/// (n_kw + beta) / p(w), and the weight.
pub struct Topics {
    topics: usize,
    tiles: Vec<Block<f32>>,
    weight: Power,
}

impl Topics {
    /// Those of `counts`, which has a row for every word.
    pub fn new(counts: &TopicCounts, prior: &Prior, weight: f64) -> Topics {
        let (topics, beta, mass) = (counts.topics(), prior.beta(), prior.vocabulary_mass());
        let all = counts.totals().iter().sum::<i64>().max(1) as f64;
        let shares: Vec<f64> =
            counts.totals().iter().map(|&total| total as f64 / all / (total as f64 + mass)).collect();
        let mut tiles = vec![Block::default(); blocks(counts.rows()) * topics];
        for word in 0..counts.rows() {
            let count = |topic: usize| f64::from(counts.get(word as u32, topic as u16)) + beta;
            let everywhere: f64 = shares.iter().enumerate().map(|(topic, share)| share * count(topic)).sum();
            for topic in 0..topics {
                tiles[word / LANES * topics + topic].0[word % LANES] = (count(topic) / everywhere) as f32;
            }
        }
        Topics { topics, tiles, weight: Power::new(weight as f32) }
    }

    /// Blocks of words.
    fn tiles(&self) -> usize {
        self.tiles.len() / self.topics
    }
}

/// r_w of all words for the tokens at hand, which come one by one.
pub struct Factors {
    topics: usize,
    tokens: usize,
    /// m_k by group of tokens, then topic.
    mixtures: Vec<[f32; GROUP]>,
    /// r_w by token, then word.
    factors: Vec<Block<f32>>,
    /// sum_w r_w p(w) of each token, p being a distribution that the caller gives.
    sums: [f64; TOKENS],
    width: usize,
}

impl Factors {
    pub fn new(topics: &Topics) -> Factors {
        Factors {
            topics: topics.topics,
            tokens: 0,
            mixtures: vec![[0.0; GROUP]; TOKENS / GROUP * topics.topics],
            factors: vec![Block::default(); TOKENS * topics.tiles()],
            sums: [0.0; TOKENS],
            width: topics.tiles(),
        }
    }

    /// Tokens so far.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    pub fn is_full(&self) -> bool {
        self.tokens == TOKENS
    }

    /// Adds a token, of which m_k is known.
    pub fn push(&mut self, mixture: &[Block<f32>]) {
        let (group, place) = (self.tokens / GROUP, self.tokens % GROUP);
        for (topic, by_token) in self.mixtures[group * self.topics..][..self.topics].iter_mut().enumerate() {
            by_token[place] = mixture[topic / LANES].0[topic % LANES];
        }
        self.tokens += 1;
    }

    /// Makes the factors of the tokens at hand, and their sums over the distribution `base`.
    pub fn compute(&mut self, topics: &Topics, base: &[Block<f32>]) {
        let groups = self.tokens.div_ceil(GROUP);
        self.sums = [0.0; TOKENS];
        rescale(topics, &self.mixtures[..groups * self.topics], base, &mut self.factors, &mut self.sums);
    }

    /// r_w of a token, by word, and the sum.
    pub fn of(&self, token: usize) -> (&[Block<f32>], f64) {
        (&self.factors[token * self.width..][..self.width], self.sums[token])
    }

    /// Makes room for the next tokens.
    pub fn clear(&mut self) {
        self.tokens = 0;
    }
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2", "x86_64+avx2", "aarch64+neon"))]
fn rescale(
    topics: &Topics,
    mixtures: &[[f32; GROUP]],
    base: &[Block<f32>],
    factors: &mut [Block<f32>],
    sums: &mut [f64; TOKENS],
) {
    let width = topics.tiles();
    let mut parts = [Block([0.0; LANES]); TOKENS];
    for (tile, rows) in topics.tiles.chunks_exact(topics.topics).enumerate() {
        for (group, mixtures) in mixtures.chunks_exact(topics.topics).enumerate() {
            let ratios = product(rows, mixtures);
            for (place, ratio) in ratios.iter().enumerate() {
                let token = group * GROUP + place;
                let factor = topics.weight.of(ratio);
                for lane in 0..LANES {
                    parts[token].0[lane] += factor.0[lane] * base[tile].0[lane];
                }
                factors[token * width + tile] = factor;
            }
        }
        if tile % STRETCH == STRETCH - 1 || tile == width - 1 {
            pairs::each_mut(sums, &parts, |sum, part| *sum += f64::from(total(part)));
            parts = [Block([0.0; LANES]); TOKENS];
        }
    }
}

/// A tile's numbers times the vectors of a group of tokens. The loop over lanes is outside of that over tokens: the
/// other way round, the compiler gathers numbers across tokens, and it takes twenty times as long.
#[inline(always)]
fn product(rows: &[Block<f32>], mixtures: &[[f32; GROUP]]) -> [Block<f32>; GROUP] {
    let mut sums = [Block([0.0; LANES]); GROUP];
    pairs::each(rows, mixtures, |row, by_token| {
        for lane in 0..LANES {
            for token in 0..GROUP {
                sums[token].0[lane] += by_token[token] * row.0[lane];
            }
        }
    });
    sums
}
