//! Which shard a document, or a piece of another kind, belongs to: decided by the data alone, and balanced by tokens.
//!
//! Lay the documents end to end in their order, and cut the line of tokens into equal parts: a document belongs to the
//! part that its middle lies in. So a shard is a run of whole documents, and its tokens differ from the mean by no more
//! than the longest document has. A shard is empty where there are fewer documents than shards, or where a document
//! longer than a shard has swallowed it.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Range;

/// The runs of documents that are the shards; `tokens` are the documents' lengths. There are `shards` of them, at least
/// one.
pub fn shards(tokens: &[u64], shards: u32) -> Vec<Range<usize>> {
    let shards = shards.max(1);
    let total: u64 = tokens.iter().sum();
    let mut ends = vec![0; shards as usize];
    let mut before = 0;
    for (place, &length) in tokens.iter().enumerate() {
        let shard = match total {
            0 => share(2 * place as u128 + 1, 2 * tokens.len() as u128, shards),
            _ => shard_of(before, length, total, shards),
        };
        ends[shard as usize] = place + 1;
        before += length;
    }
    let mut start = 0;
    ends.into_iter()
        .map(|end| {
            let run = start..end.max(start);
            start = run.end;
            run
        })
        .collect()
}

/// The shard of a document of `length` tokens with `before` tokens before it, of `total` (which is not 0) in all.
pub fn shard_of(before: u64, length: u64, total: u64, shards: u32) -> u32 {
    share(2 * u128::from(before) + u128::from(length), 2 * u128::from(total), shards)
}

/// The shard of each of some pieces that have no order, packed evenly: the largest piece first, each into the shard with the
/// least so far. No shard exceeds the mean by more than the largest piece, and by far less if there are many small ones.
pub fn pack(sizes: &[u64], shards: u32) -> Vec<u32> {
    let mut by_size: Vec<usize> = (0..sizes.len()).collect();
    by_size.sort_by_key(|&piece| (Reverse(sizes[piece]), piece));
    // The shard with the least is the first; of equals, that with the lowest number.
    let mut loads: BTreeSet<(u64, u32)> = (0..shards.max(1)).map(|shard| (0, shard)).collect();
    let mut shard_of = vec![0; sizes.len()];
    for piece in by_size {
        let (load, shard) = loads.pop_first().expect("a shard");
        loads.insert((load + sizes[piece].max(1), shard)); // empty pieces take turns, too
        shard_of[piece] = shard;
    }
    shard_of
}

/// The part, of `parts` equal ones, in which the point `at` of a line of length `whole` lies.
fn share(at: u128, whole: u128, parts: u32) -> u32 {
    let part = at * u128::from(parts) / whole;
    part.min(u128::from(parts) - 1) as u32 // an empty document at the very end lies on the last cut
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_documents_are_dealt_equally() {
        assert_eq!(shards(&[5; 6], 3), [0..2, 2..4, 4..6]);
        assert_eq!(shards(&[5; 3], 3), [0..1, 1..2, 2..3]);
        assert_eq!(shards(&[0; 6], 3), [0..2, 2..4, 4..6]);
    }

    #[test]
    fn there_may_be_fewer_documents_than_shards() {
        assert_eq!(shards(&[], 2), [0..0, 0..0]);
        assert_eq!(shards(&[7], 3), [0..0, 0..1, 1..1]);
        assert_eq!(shards(&[7, 0, 7, 0], 2), [0..1, 1..4]); // on the cut: the later one
        assert_eq!(shards(&[7], 0), shards(&[7], 1));
    }

    #[test]
    fn a_long_document_swallows_shards() {
        assert_eq!(shards(&[1, 1000, 1], 4), [0..1, 1..1, 1..2, 2..3]);
    }

    #[test]
    fn the_largest_pieces_are_packed_first() {
        assert_eq!(pack(&[1, 5, 2, 2, 0, 4], 3), [1, 0, 2, 2, 2, 1]);
        assert_eq!(pack(&[3, 1], 0), [0, 0]);
        assert_eq!(pack(&[0; 4], 2), [0, 1, 0, 1]);
    }

    proptest! {
        #[test]
        fn packed_shards_are_even(
            sizes in prop::collection::vec(0..1000u64, 0..300),
            number in 1..40u32,
        ) {
            let mut loads = vec![0; number as usize];
            pack(&sizes, number).iter().zip(&sizes).for_each(|(&shard, size)| loads[shard as usize] += size);
            let mean = sizes.iter().sum::<u64>() as f64 / f64::from(number);
            let largest = sizes.iter().copied().max().unwrap_or(0) as f64;
            // Empty pieces count as 1 while they are packed.
            let slack = largest + sizes.len() as f64 / f64::from(number) + 1.0;
            prop_assert!(loads.iter().all(|&load| load as f64 <= mean + slack), "{:?}, {} on average", loads, mean);
        }

        #[test]
        fn shards_cover_the_documents_and_are_balanced(
            tokens in prop::collection::vec(prop_oneof![Just(0u64), 1..50u64, 1..100_000u64], 0..100),
            number in 1..40u32,
        ) {
            let runs = shards(&tokens, number);
            prop_assert_eq!(runs.len(), number as usize);
            prop_assert_eq!((runs[0].start, runs[runs.len() - 1].end), (0, tokens.len()));
            prop_assert!(runs.windows(2).all(|pair| pair[0].end == pair[1].start));
            let mean = tokens.iter().sum::<u64>() as f64 / f64::from(number);
            let longest = tokens.iter().copied().max().unwrap_or(0) as f64;
            for run in &runs {
                let size = tokens[run.clone()].iter().sum::<u64>() as f64;
                prop_assert!((size - mean).abs() <= longest + 1e-6, "{} tokens, {} on average", size, mean);
            }
        }

        #[test]
        fn no_shard_is_empty_while_documents_are_alike(documents in 1..200usize, length in 1..1000u64, number in 1..200u32) {
            prop_assume!(documents >= number as usize);
            prop_assert!(shards(&vec![length; documents], number).iter().all(|run| !run.is_empty()));
        }
    }
}
