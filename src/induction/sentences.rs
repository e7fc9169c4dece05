//! Sentences as symbols, each sequence once with its weight: the number of times that it occurs, times what each of them
//! counts for.

use std::collections::BTreeMap;

/// Distinct sequences of symbols.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sentences {
    symbols: Vec<u32>,
    /// Where each sequence ends, and its weight.
    ends: Vec<(usize, f64)>,
    /// The weight of each tag: of the sequences that it occurs in, as often as it does.
    pub tag_weights: Vec<f64>,
    /// Sentences and words, each as often as it occurs.
    occurrences: [u64; 2],
}

impl Sentences {
    /// Takes in sequences, each occurrence of which counts for `weight`, and deals them out over shards: by length, then as
    /// they come first. `tag_of` is by symbol.
    pub fn shards(sequences: &[Vec<u32>], weight: f64, tags: usize, tag_of: &[u32], shards: usize) -> Vec<Sentences> {
        let mut counts: BTreeMap<(usize, &[u32]), (usize, u64)> = BTreeMap::new();
        for (number, sequence) in sequences.iter().enumerate().filter(|(_, sequence)| !sequence.is_empty()) {
            counts.entry((sequence.len(), sequence)).or_insert((number, 0)).1 += 1;
        }
        let mut distinct: Vec<_> = counts.into_iter().collect();
        distinct.sort_unstable_by_key(|((length, _), (first, _))| (*length, *first));
        let mut all = vec![Sentences { tag_weights: vec![0.0; tags], ..Sentences::default() }; shards];
        for (number, ((_, sequence), (_, count))) in distinct.into_iter().enumerate() {
            let shard = &mut all[number % shards];
            let weight = weight * count as f64;
            shard.symbols.extend(sequence);
            shard.ends.push((shard.symbols.len(), weight));
            sequence.iter().for_each(|&symbol| shard.tag_weights[tag_of[symbol as usize] as usize] += weight);
            shard.occurrences[0] += count;
            shard.occurrences[1] += count * sequence.len() as u64;
        }
        all
    }

    /// Each sequence with its weight.
    #[inline(always)]
    pub fn iter(&self) -> impl Iterator<Item = (&[u32], f64)> {
        let mut start = 0;
        self.ends.iter().map(move |&(end, weight)| {
            let symbols = &self.symbols[start..end];
            start = end;
            (symbols, weight)
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
        self.occurrences[0]
    }

    /// Words of all of these.
    pub fn words(&self) -> u64 {
        self.occurrences[1]
    }
}
