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

/// The sum of the lanes, in a fixed order.
#[inline(always)]
pub fn total(lanes: &Block<f32>) -> f32 {
    group_sums(lanes)[3]
}

/// The outcome at `target`, in [0, `total`), of the weights with these running sums, of which the last are `lanes`.
/// There must be a positive weight.
#[inline(always)]
pub fn find(running: &[Block<f32>], lanes: &Block<f32>, target: f32) -> usize {
    // The group of four lanes, the lane in it, the block.
    let groups = group_sums(lanes);
    let group = (0..3).map(|g| usize::from(groups[g] <= target)).sum::<usize>();
    let mut rest = if group == 0 { target } else { target - groups[group - 1] };
    let first = 4 * group;
    let mut lane = first;
    while lane < first + 3 && lanes.0[lane] <= rest {
        rest -= lanes.0[lane];
        lane += 1;
    }
    let block: usize = running.iter().map(|sums| usize::from(sums.0[lane] <= rest)).sum();
    let found = block < running.len() && weight(running, block, lane) > 0.0;
    if found { block * LANES + lane } else { last_positive(running) }
}

/// Running sums over four groups of four lanes.
#[inline(always)]
fn group_sums(lanes: &Block<f32>) -> [f32; 4] {
    let x = &lanes.0;
    let group = |g: usize| (x[4 * g] + x[4 * g + 1]) + (x[4 * g + 2] + x[4 * g + 3]);
    let (a, b, c, d) = (group(0), group(1), group(2), group(3));
    [a, a + b, (a + b) + c, (a + b) + (c + d)]
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
        for target in 0..total(&lanes) as u32 {
            seen[find(&sums, &lanes, target as f32 + 0.5)] += 1.0;
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
            assert!([3, 17].contains(&find(&sums, &lanes, target)));
        }
    }
}
