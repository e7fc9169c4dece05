//! One draw from unnormalised weights that are computed in blocks of 16 lanes.
//!
//! Weights w_0, w_1, ... come in blocks; lane l of the running sums after block b is the sum of w_{16 j + l} over
//! j <= b. Blocks are then added lane by lane, with no sum across lanes until the end, which a processor with wide
//! registers does in one or two instructions; the draw picks a lane by the 16 lane sums, and a block by the running
//! sums of that lane. Outcomes are thus ordered by lane first, which does not matter to their probabilities.
//!
//! The order of all additions is fixed by this file and no multiplication is fused with an addition, so that every
//! processor draws the same, whatever its width.

/// Width of a block: a cache line of 32-bit numbers, one AVX-512 register, two of AVX2.
pub const LANES: usize = 16;

/// 16 numbers, aligned to a cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(64))]
pub struct Block<T>(pub [T; LANES]);

/// Blocks that hold at least `length` numbers.
pub const fn blocks(length: usize) -> usize {
    length.div_ceil(LANES)
}

/// Sums over the first 0, 1, ... 16 lanes, in a fixed order.
pub struct Prefix([f32; LANES + 1]);

impl Prefix {
    #[inline(always)]
    pub fn new(lanes: &Block<f32>) -> Prefix {
        let mut sums = [0.0; LANES + 1];
        let mut before = 0.0;
        // By fours, so that no sum waits for more than six others.
        for group in 0..LANES / 4 {
            let at = 4 * group;
            let (a, b, c, d) = (lanes.0[at], lanes.0[at + 1], lanes.0[at + 2], lanes.0[at + 3]);
            let (ab, cd) = (a + b, c + d);
            let sums = &mut sums[4 * group + 1..][..4];
            (sums[0], sums[1], sums[2], sums[3]) = (before + a, before + ab, before + (ab + c), before + (ab + cd));
            before = sums[3];
        }
        Prefix(sums)
    }

    /// The sum of all lanes.
    #[inline(always)]
    pub fn total(&self) -> f32 {
        self.0[LANES]
    }
}

/// The sum of all lanes.
#[inline(always)]
pub fn total(lanes: &Block<f32>) -> f32 {
    Prefix::new(lanes).total()
}

/// Up to so many blocks are searched one by one, which costs no mispredicted branch.
const FEW: usize = 8;

/// The outcome at `target`, in [0, `prefix.total()`), of the weights with these running sums, `prefix` being over the
/// last of them. There must be a positive weight.
#[inline(always)]
pub fn find(running: &[Block<f32>], prefix: &Prefix, target: f32) -> usize {
    let lane = (1..LANES).map(|lane| usize::from(prefix.0[lane] <= target)).sum::<usize>();
    let rest = target - prefix.0[lane];
    let block = if running.len() <= FEW {
        running.iter().map(|sums| usize::from(sums.0[lane] <= rest)).sum()
    } else {
        running.partition_point(|sums| sums.0[lane] <= rest)
    };
    let found = block < running.len() && weight(running, block, lane) > 0.0;
    if found { block * LANES + lane } else { last_positive(running) }
}

/// The weight of one outcome.
#[inline(always)]
pub fn weight_of(running: &[Block<f32>], outcome: usize) -> f32 {
    weight(running, outcome / LANES, outcome % LANES)
}

#[inline(always)]
fn weight(running: &[Block<f32>], block: usize, lane: usize) -> f32 {
    let before = if block == 0 { 0.0 } else { running[block - 1].0[lane] };
    running[block].0[lane] - before
}

/// Where rounding led past the end of a lane (about once in 2^24 draws), any outcome of positive weight will do.
#[cold]
fn last_positive(running: &[Block<f32>]) -> usize {
    (0..running.len() * LANES)
        .rev()
        .find(|i| weight(running, i / LANES, i % LANES) > 0.0)
        .expect("there is a positive weight")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(weights: &[f32]) -> (Vec<Block<f32>>, Block<f32>) {
        let mut lanes = Block::default();
        let sums = weights.chunks(LANES).map(|chunk| {
            chunk.iter().zip(&mut lanes.0).for_each(|(w, sum)| *sum += w);
            lanes
        });
        let sums: Vec<_> = sums.collect();
        (sums, lanes)
    }

    #[test]
    fn every_outcome_has_its_share() {
        // Whole-number weights are exact: an outcome is found for exactly as many targets as it weighs.
        let weights: Vec<f32> = (0..50).map(|i| ((i * 7) % 5) as f32).collect();
        let (sums, lanes) = running(&weights);
        let mut seen = vec![0.0; 50];
        let prefix = Prefix::new(&lanes);
        for target in 0..prefix.total() as u32 {
            seen[find(&sums, &prefix, target as f32 + 0.5)] += 1.0;
        }
        assert_eq!(seen, weights);
    }

    #[test]
    fn no_target_finds_a_weight_of_zero() {
        let mut weights = vec![0.0; 48];
        weights[17] = 1e-30;
        weights[3] = 0.1;
        let (sums, lanes) = running(&weights);
        for target in [0.0, 0.05, 0.1, 0.2, f32::MAX] {
            assert!([3, 17].contains(&find(&sums, &Prefix::new(&lanes), target)));
        }
    }
}
