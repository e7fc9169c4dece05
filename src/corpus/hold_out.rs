//! Which documents are held out for testing.
//!
//! `random` takes any of them with equal probability. `category` gives every label its share of the test documents, as
//! near as whole numbers come to it (largest remainders; equal ones in the order of the labels), and chooses at random
//! among the documents of a label.
//!
//! Every document draws a number, keyed by the seed, its place and its id; those with the lowest are held out. So the
//! choice is a function of the seed and of the documents' order, ids and labels alone.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rand::Rng;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::cluster::rng::{Purpose, generator};

/// As in a job file: `{ hold_out = 30, by = "category" }`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldOut {
    #[serde(rename = "hold_out")]
    pub documents: u32,
    #[serde(default)]
    pub by: By,
}

/// How they are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    #[default]
    Random,
    /// Spread evenly over the labels.
    Category,
}

/// What the choice depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    pub id: &'a str,
    pub label: &'a str,
}

impl HoldOut {
    /// The places of the test documents among `documents`, rising. Fails where none would be left for training.
    pub fn choose(&self, seed: u64, documents: &[Candidate<'_>]) -> Result<Vec<usize>, String> {
        let (test, all) = (self.documents as usize, documents.len());
        if test > 0 && test >= all {
            return Err(format!("hold_out = {test} of {all} documents leaves none to train on"));
        }
        let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (place, document) in documents.iter().enumerate() {
            let group = if self.by == By::Category { document.label } else { "" };
            groups.entry(group).or_default().push(place);
        }
        let sizes: Vec<usize> = groups.values().map(Vec::len).collect();
        let mut chosen = Vec::with_capacity(test);
        for (mut group, share) in groups.into_values().zip(shares(&sizes, test)) {
            group.sort_by_cached_key(|&place| (draw(seed, place, documents[place].id), place));
            chosen.extend_from_slice(&group[..share]);
        }
        chosen.sort_unstable();
        Ok(chosen)
    }
}

/// The number that a document draws.
fn draw(seed: u64, place: usize, id: &str) -> u64 {
    generator(seed, Purpose::HoldOut, place as u64, xxh3_64(id.as_bytes())).next_u64()
}

/// Divides `total` in proportion to `sizes`, which add up to more: no share is larger than its size.
fn shares(sizes: &[usize], total: usize) -> Vec<usize> {
    let all = sizes.iter().sum::<usize>().max(1) as u128;
    let exact = |at: usize| sizes[at] as u128 * total as u128;
    let mut shares: Vec<usize> = (0..sizes.len()).map(|at| (exact(at) / all) as usize).collect();
    let left = total - shares.iter().sum::<usize>();
    let mut by_remainder: Vec<usize> = (0..sizes.len()).collect();
    by_remainder.sort_by_key(|&at| Reverse(exact(at) % all)); // stable: equal ones stay in the order of the labels
    by_remainder[..left].iter().for_each(|&at| shares[at] += 1);
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn candidates(labels: &[&'static str]) -> Vec<Candidate<'static>> {
        labels.iter().map(|label| Candidate { id: "x", label }).collect()
    }

    #[test]
    fn shares_are_those_of_largest_remainders() {
        assert_eq!(shares(&[10, 10, 10], 3), [1, 1, 1]);
        assert_eq!(shares(&[10, 10, 10], 4), [2, 1, 1]); // equal remainders: the first label
        assert_eq!(shares(&[70, 20, 10], 5), [4, 1, 0]); // 3.5, 1, 0.5
        assert_eq!(shares(&[1, 98, 1], 1), [0, 1, 0]);
        assert_eq!(shares(&[], 0), [0; 0]);
    }

    #[test]
    fn every_document_has_the_same_chance() {
        let documents = candidates(&["a"; 20]);
        let mut hits = [0; 20];
        for seed in 0..4000 {
            let chosen = HoldOut { documents: 5, by: By::Random }.choose(seed, &documents).unwrap();
            chosen.into_iter().for_each(|place| hits[place] += 1);
        }
        // 1000 expected, with a standard deviation of 27.
        assert!(hits.iter().all(|hit| (880..1120).contains(hit)), "{hits:?}");
    }

    #[test]
    fn the_choice_is_that_of_earlier_releases() {
        let documents = candidates(&["a", "b", "b", "a", "b", "c", "b", "b"]);
        let choose = |by| HoldOut { documents: 4, by }.choose(7, &documents).unwrap();
        assert_eq!((choose(By::Random), choose(By::Category)), (vec![0, 3, 5, 6], vec![1, 3, 4, 6]));
    }

    #[test]
    fn some_documents_must_be_left() {
        let documents = candidates(&["a"; 3]);
        let choose = |n| HoldOut { documents: n, by: By::Random }.choose(1, &documents);
        assert_eq!(choose(0), Ok(vec![]));
        assert_eq!(choose(2).map(|chosen| chosen.len()), Ok(2));
        assert!(choose(3).unwrap_err().contains("3 of 3 documents"));
        assert_eq!(HoldOut::default().choose(1, &[]), Ok(vec![]));
    }

    #[test]
    fn it_is_written_as_in_a_job_file() {
        let read = |text: &str| toml::from_str::<HoldOut>(text).map_err(|e| e.to_string());
        assert_eq!(read("hold_out = 30\nby = \"category\""), Ok(HoldOut { documents: 30, by: By::Category }));
        assert_eq!(read("hold_out = 30"), Ok(HoldOut { documents: 30, by: By::Random }));
        assert!(read("by = \"random\"").is_err());
    }

    proptest! {
        #[test]
        fn labels_get_their_share(labels in prop::collection::vec(0..6usize, 2..80), part in 0.0..1.0f64, seed: u64) {
            const NAMES: [&str; 6] = ["", "a", "b", "c", "d", "e"];
            let documents: Vec<_> = labels.iter().map(|&label| Candidate { id: "x", label: NAMES[label] }).collect();
            let test = ((labels.len() - 1) as f64 * part) as u32;
            let chosen = HoldOut { documents: test, by: By::Category }.choose(seed, &documents).unwrap();
            prop_assert_eq!(chosen.len(), test as usize);
            prop_assert!(chosen.is_sorted_by(|a, b| a < b));
            for label in 0..6 {
                let size = labels.iter().filter(|&&l| l == label).count();
                let got = chosen.iter().filter(|&&place| labels[place] == label).count();
                let exact = size as f64 * f64::from(test) / labels.len() as f64;
                prop_assert!((got as f64 - exact).abs() < 1.0 + 1e-9, "{} of {}, {} is due", got, size, exact);
            }
        }
    }
}
