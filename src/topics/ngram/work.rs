//! How long a sweep takes for what, so that all shards, and all parts of them, take equally long.
//!
//! Most of the time goes to restaurants that are not in the cache, and the tokens of an n-gram follow each other: so the first
//! token of an n-gram counts [`FIRST_TOKEN`] times as much as the others.
//!
//! A part of a sweep has whole words: all tokens of a word, of all shards. A word is an outcome here, the last word of an n-gram.

use std::cmp::Reverse;
use std::ops::Range;

use super::dealt::TokenList;
use crate::restaurant::deal::Deal;
use crate::restaurant::tree::Paths;

/// How often the first token of an n-gram counts: a fit to the times of 16 parts of Brown gives 7 to 13 for the three models.
pub const FIRST_TOKEN: u64 = 9;

/// A hash of an n-gram, which is the same on all machines.
pub fn hash(context: impl Iterator<Item = u32>, outcome: u32) -> u32 {
    context.fold(outcome, |hash, word| (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b1))
}

/// The work of each word in each shard: (shard, word, work), sorted.
pub fn of_words(tokens: &TokenList, deal: &Deal) -> Vec<(u32, u32, u64)> {
    let ngram = |token: usize| {
        let word = tokens.outcome(token);
        (deal.shard_of(tokens.context(token), word), word, hash(tokens.context(token), word))
    };
    let mut ngrams: Vec<(u32, u32, u32)> = (0..tokens.count()).map(ngram).collect();
    ngrams.sort_unstable();
    let of_word = |same: &[(u32, u32, u32)]| {
        let distinct = same.chunk_by(|a, b| a == b).count() as u64;
        (same[0].0, same[0].1, same.len() as u64 + (FIRST_TOKEN - 1) * distinct)
    };
    ngrams.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)).map(of_word).collect()
}

/// Cuts the words into runs with equal work, as far as single words allow, to be dealt to `parts`.
///
/// Dishes of a restaurant are in the order of words, and those that share a line of the cache are best visited soon after each
/// other: 8 runs of Brown take a sweep 15 % less time than words dealt one by one. But the more runs there are, the more
/// evenly they can be dealt; so there are more for more shards.
pub fn runs(by_word: &[u64], shards: u32, parts: usize) -> Vec<Range<usize>> {
    let count = (parts * (shards as usize / 2).clamp(1, 16)) as u64;
    let all = by_word.iter().sum::<u64>().max(1);
    let (mut runs, mut before, mut last): (Vec<Range<usize>>, u64, u64) = (vec![], 0, u64::MAX);
    for (word, &work) in by_word.iter().enumerate() {
        let run = (2 * before + work) * count / (2 * all);
        match runs.last_mut() {
            Some(same) if run == last => same.end = word + 1,
            _ => runs.push(word..word + 1),
        }
        (last, before) = (run, before + work);
    }
    runs
}

/// Deals runs to parts, so that each part of every shard has as much work. `by_run` has the work of each shard; returns the part of
/// each run.
pub fn deal_runs(by_run: &[Vec<u64>], parts: usize) -> Vec<usize> {
    let mut by_work: Vec<usize> = (0..by_run.len()).collect();
    by_work.sort_by_key(|&run| (Reverse(by_run[run].iter().sum::<u64>()), run));
    let mut filled = vec![vec![0; by_run.first().map_or(0, Vec::len)]; parts];
    let mut part_of = vec![0; by_run.len()];
    for run in by_work {
        // The sum of squares grows by this much, and by as much for every part.
        let more = |part: &Vec<u64>| part.iter().zip(&by_run[run]).map(|(filled, more)| filled * more).sum::<u64>();
        let part = (0..parts).min_by_key(|&part| (more(&filled[part]), part)).expect("at least one part");
        filled[part].iter_mut().zip(&by_run[run]).for_each(|(filled, more)| *filled += more);
        part_of[run] = part;
    }
    part_of
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words whose n-th is as frequent as 1 / (n + 20), in 8 shards, each of which has some words three times as often as others.
    #[test]
    fn parts_are_even_in_all_shards() {
        const SHARDS: usize = 8;
        let by_word: Vec<Vec<u64>> = (21..20_000u64)
            .map(|word| {
                (0..SHARDS as u64).map(|shard| (1 + 2 * u64::from(word % 8 == shard)) * 1_000_000 / word).collect()
            })
            .collect();
        let sums: Vec<u64> = by_word.iter().map(|of_word| of_word.iter().sum()).collect();
        let runs = runs(&sums, SHARDS as u32, 8);
        assert!(runs.len() > 20 && runs[0].start == 0 && runs.last().unwrap().end == by_word.len(), "{runs:?}");
        assert!(runs.windows(2).all(|two| two[0].end == two[1].start), "{runs:?}");
        let of_shard =
            |run: &Range<usize>, shard: usize| by_word[run.clone()].iter().map(|word| word[shard]).sum::<u64>();
        let by_run: Vec<Vec<u64>> =
            runs.iter().map(|run| (0..SHARDS).map(|shard| of_shard(run, shard)).collect()).collect();
        let part_of = deal_runs(&by_run, 8);
        let mut filled = vec![vec![0; SHARDS]; 8];
        for (run, &part) in by_run.iter().zip(&part_of) {
            filled[part].iter_mut().zip(run).for_each(|(sum, more)| *sum += more);
        }
        let mean = sums.iter().sum::<u64>() / (8 * SHARDS as u64);
        let most = filled.iter().flatten().max().unwrap();
        assert!(*most < mean * 5 / 4, "{most} of {mean}");
    }

    #[test]
    fn few_words_are_a_run_each() {
        assert_eq!(runs(&[], 4, 8), vec![]);
        assert_eq!(runs(&[0, 0], 4, 8), vec![0..2]);
        assert_eq!(runs(&[5, 5, 5], 4, 8), vec![0..1, 1..2, 2..3]);
        assert!(deal_runs(&[], 2).is_empty());
        assert_eq!(deal_runs(&[vec![5], vec![9], vec![4]], 2), vec![1, 0, 1]);
    }
}
