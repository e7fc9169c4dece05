//! Sentences as symbols, each sequence once with the number of times that it occurs.

use std::collections::BTreeMap;

/// Distinct sequences of symbols.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sentences {
    symbols: Vec<u32>,
    /// Where each sequence ends, and how often it occurs.
    ends: Vec<(usize, f64)>,
    /// How often each tag occurs.
    pub tag_counts: Vec<f64>,
}

impl Sentences {
    /// Takes in sequences, and deals them out over shards: by length, then as they come first. `tag_of` is by symbol.
    pub fn shards(sequences: &[Vec<u32>], tags: usize, tag_of: &[u32], shards: usize) -> Vec<Sentences> {
        let mut counts: BTreeMap<(usize, &[u32]), (usize, u64)> = BTreeMap::new();
        for (number, sequence) in sequences.iter().enumerate().filter(|(_, sequence)| !sequence.is_empty()) {
            counts.entry((sequence.len(), sequence)).or_insert((number, 0)).1 += 1;
        }
        let mut distinct: Vec<_> = counts.into_iter().collect();
        distinct.sort_unstable_by_key(|((length, _), (first, _))| (*length, *first));
        let mut all = vec![Sentences { tag_counts: vec![0.0; tags], ..Sentences::default() }; shards];
        for (number, ((_, sequence), (_, count))) in distinct.into_iter().enumerate() {
            let shard = &mut all[number % shards];
            shard.symbols.extend(sequence);
            shard.ends.push((shard.symbols.len(), count as f64));
            sequence.iter().for_each(|&symbol| shard.tag_counts[tag_of[symbol as usize] as usize] += count as f64);
        }
        all
    }

    /// Each sequence with the number of times that it occurs.
    #[inline(always)]
    pub fn iter(&self) -> impl Iterator<Item = (&[u32], f64)> {
        let mut start = 0;
        self.ends.iter().map(move |&(end, count)| {
            let symbols = &self.symbols[start..end];
            start = end;
            (symbols, count)
        })
    }

    /// Distinct sequences.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Sentences, each as often as it occurs.
    pub fn sentences(&self) -> u64 {
        self.ends.iter().map(|(_, count)| *count as u64).sum()
    }

    /// Words of all sentences.
    pub fn words(&self) -> u64 {
        self.tag_counts.iter().sum::<f64>() as u64
    }
}
