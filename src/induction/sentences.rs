//! Sentences as symbols, each sequence once with its weight: the number of times that it occurs, times what each of them
//! counts for.

use std::collections::BTreeMap;

/// Distinct sequences of symbols.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sentences {
    symbols: Vec<u32>,
    sequences: Vec<Sequence>,
    /// The weight of each tag: of the sequences that it occurs in, as often as it does.
    pub tag_weights: Vec<f64>,
    /// Sentences and words, each as often as it occurs.
    occurrences: [u64; 2],
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Sequence {
    /// Where it ends among the symbols.
    end: usize,
    /// How often it occurs.
    count: u64,
    weight: f64,
}

impl Sentences {
    fn empty(tags: usize) -> Sentences {
        Sentences { tag_weights: vec![0.0; tags], ..Sentences::default() }
    }

    fn push(&mut self, symbols: &[u32], count: u64, weight: f64, tag_of: &[u32]) {
        self.symbols.extend(symbols);
        self.sequences.push(Sequence { end: self.symbols.len(), count, weight });
        symbols.iter().for_each(|&symbol| self.tag_weights[tag_of[symbol as usize] as usize] += weight);
        self.occurrences[0] += count;
        self.occurrences[1] += count * symbols.len() as u64;
    }

    /// Takes in sequences, each occurrence of which counts for `weight`, and deals them out over shards: by length, then as
    /// they come first. `tag_of` is by symbol.
    pub fn shards(sequences: &[Vec<u32>], weight: f64, tags: usize, tag_of: &[u32], shards: usize) -> Vec<Sentences> {
        let mut counts: BTreeMap<(usize, &[u32]), (usize, u64)> = BTreeMap::new();
        for (number, sequence) in sequences.iter().enumerate().filter(|(_, sequence)| !sequence.is_empty()) {
            counts.entry((sequence.len(), sequence)).or_insert((number, 0)).1 += 1;
        }
        let mut distinct: Vec<_> = counts.into_iter().collect();
        distinct.sort_unstable_by_key(|((length, _), (first, _))| (*length, *first));
        let mut all = vec![Sentences::empty(tags); shards];
        for (number, ((_, sequence), (_, count))) in distinct.into_iter().enumerate() {
            all[number % shards].push(sequence, count, weight * count as f64, tag_of);
        }
        all
    }

    /// Cuts the sentences into pieces, each of which costs half of what is left, as long as both halves cost `least` or more:
    /// large pieces first, so that they are few, and small ones last, so that workers who share them end at the same time.
    pub fn cut(&self, tag_of: &[u32], least: u64) -> Vec<Sentences> {
        let mut rest: u64 = self.iter().map(|(symbols, _)| cost(symbols)).sum();
        let half_of = |rest: u64| if rest / 2 >= least { rest / 2 } else { u64::MAX };
        let mut pieces = vec![Sentences::empty(self.tag_weights.len())];
        let (mut room, mut begun) = (half_of(rest), 0);
        for ((symbols, weight), sequence) in self.iter().zip(&self.sequences) {
            if begun >= room {
                rest -= begun;
                (room, begun) = (half_of(rest), 0);
                pieces.push(Sentences::empty(self.tag_weights.len()));
            }
            pieces.last_mut().expect("one at least").push(symbols, sequence.count, weight, tag_of);
            begun += cost(symbols);
        }
        pieces
    }

    /// Each sequence with its weight.
    #[inline(always)]
    pub fn iter(&self) -> impl Iterator<Item = (&[u32], f64)> {
        let mut start = 0;
        self.sequences.iter().map(move |&Sequence { end, weight, .. }| {
            let symbols = &self.symbols[start..end];
            start = end;
            (symbols, weight)
        })
    }

    /// Distinct sequences.
    pub fn len(&self) -> usize {
        self.sequences.len()
    }

    pub fn is_empty(&self) -> bool {
        self.sequences.is_empty()
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

/// What a pass over a sentence costs, which is cubic in its length.
fn cost(symbols: &[u32]) -> u64 {
    (symbols.len() as u64).pow(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_sentences_in_order_and_halve_what_is_left() {
        let all: Vec<Vec<u32>> =
            (0..256).map(|number| vec![number % 4, number / 64, number / 16 % 4, number / 4 % 4]).collect();
        let tag_of = [0, 1, 1, 2];
        let whole = &Sentences::shards(&all, 2.5, 3, &tag_of, 1)[0];
        let lengths = |least: u64| whole.cut(&tag_of, least).iter().map(Sentences::len).collect::<Vec<usize>>();
        let each = 4_u64.pow(3);
        assert_eq!(lengths(16 * each), [128, 64, 32, 16, 16]);
        assert_eq!(lengths(17 * each), [128, 64, 32, 32]);
        assert_eq!(lengths(129 * each), [256]);
        let pieces = whole.cut(&tag_of, each);
        let together: Vec<(&[u32], f64)> = pieces.iter().flat_map(Sentences::iter).collect();
        assert_eq!(together, whole.iter().collect::<Vec<_>>());
        assert_eq!(pieces.iter().map(Sentences::sentences).sum::<u64>(), whole.sentences());
        assert_eq!(pieces.iter().map(Sentences::words).sum::<u64>(), whole.words());
        for tag in 0..3 {
            assert_eq!(pieces.iter().map(|piece| piece.tag_weights[tag]).sum::<f64>(), whole.tag_weights[tag]);
        }
        // Nothing at all is one piece, in which there is nothing.
        assert_eq!(Sentences::empty(3).cut(&tag_of, each), [Sentences::empty(3)]);
    }
}
