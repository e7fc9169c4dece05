//! Keyed random generators: every draw of a job comes from a generator named by what it is drawn for, never by the
//! worker that draws.
//!
//! A generator is keyed by the job's seed, a purpose and two numbers (such as shard and sweep, or sentence and
//! repetition). The algorithm is xoshiro256++, a named and portable one; the test below holds its values, since a
//! release of `rand` may change what is drawn from the same state.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// The generator of all random draws.
pub type Generator = Xoshiro256PlusPlus;

/// Its name, for manifests.
pub const GENERATOR: &str = "xoshiro256++";

/// What random numbers are drawn for. The values are part of the results: never renumber.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    Reorder = 1,
    Synth = 2,
    HoldOut = 3,
    /// The first state of a shard.
    Initial = 4,
    /// A sweep over a shard.
    Sweep = 5,
    /// Auxiliary variables of a shard, for hyperparameters.
    Statistics = 6,
    /// Hyperparameters.
    Hyperparameters = 7,
    /// Held-out evaluation of a document.
    Evaluation = 8,
    /// A sentence drawn from a model.
    Generate = 9,
    /// A table-based sweep over a shard.
    Tables = 10,
    /// The orders of a shard's tokens in contexts that they alone have.
    Rests = 11,
}

/// The generator for (`seed`, `purpose`, `a`, `b`).
pub fn generator(seed: u64, purpose: Purpose, a: u64, b: u64) -> Generator {
    let mut key = [0; 24];
    key[..8].copy_from_slice(&(purpose as u64).to_le_bytes());
    key[8..16].copy_from_slice(&a.to_le_bytes());
    key[16..].copy_from_slice(&b.to_le_bytes());
    let hash = xxh3_128_with_seed(&key, seed);
    let mut state = [0; 32];
    // xxh3 spreads the key over 128 bits; the other half of the state only has to differ.
    state[..16].copy_from_slice(&hash.to_le_bytes());
    state[16..].copy_from_slice(&(hash.rotate_left(64) ^ 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834).to_le_bytes());
    Generator::from_seed(state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, RngExt, seq::SliceRandom};

    #[test]
    fn draws_are_those_of_earlier_releases() {
        let mut rng = generator(42, Purpose::Reorder, 3, 9);
        let words = [rng.next_u64(), rng.next_u64()];
        let small: Vec<u32> = (0..8).map(|_| rng.random_range(0..10)).collect();
        let mut order: Vec<u32> = (0..8).collect();
        order.shuffle(&mut rng);
        assert_eq!(
            (words, small, order),
            ([1778676992371378129, 4530623657965418193], vec![8, 3, 1, 3, 8, 1, 8, 0], vec![5, 6, 3, 4, 7, 0, 1, 2])
        );
    }

    #[test]
    fn neighbouring_keys_give_unrelated_draws() {
        let first = |seed, a, b| generator(seed, Purpose::Reorder, a, b).next_u64();
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..10 {
            for a in 0..10 {
                for b in 0..10 {
                    seen.insert(first(seed, a, b));
                }
            }
        }
        assert_eq!(seen.len(), 1000);
        let ones: u32 = seen.iter().map(|x| x.count_ones()).sum();
        assert!((31_000..33_000).contains(&ones), "{ones} of 64000 bits are set");
    }
}
