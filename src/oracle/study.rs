//! The counts as the study of the paper: what each treebank needs, and which of the paper's claims hold on this data.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::count::{Key, Measure, Order, Skipped, System};

/// All that was counted, by treebank, in the order of names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Study {
    pub systems: Vec<System>,
    pub treebanks: Vec<Treebank>,
}

/// What was counted in one treebank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Treebank {
    pub name: String,
    pub sentences_used: u64,
    pub tokens_used: u64,
    /// Sentences left out, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Of these, the ones that broke a rule of the format.
    pub broken: u64,
    /// Files that could not be read, or not to their end, by rule.
    pub file_problems: BTreeMap<String, u64>,
    /// Configurations by cost, for each order and system.
    costs: [[Vec<u64>; System::ALL.len()]; Order::ALL.len()],
    /// Sentences by degree of center-embedding, for each order.
    embedding: [Vec<u64>; Order::ALL.len()],
    arcs: [u64; Order::ALL.len()],
    length: [u64; Order::ALL.len()],
    minimal_length: u64,
}

impl Study {
    /// Sorts `counts` out; `names` are those of the treebanks by index.
    pub fn new(names: &[String], systems: &[System], counts: &BTreeMap<Key, i64>) -> Study {
        let mut treebanks: Vec<Treebank> =
            names.iter().map(|name| Treebank { name: name.clone(), ..Treebank::default() }).collect();
        for (&(treebank, measure), &count) in counts {
            treebanks[usize::from(treebank)].take(measure, count as u64);
        }
        Study { systems: systems.to_vec(), treebanks }
    }

    /// Whether reorderings were measured.
    pub fn has_reordered(&self) -> bool {
        self.treebanks.iter().any(|treebank| treebank.arcs[Order::Reordered as usize] > 0)
    }

    /// The orders that were measured.
    pub fn orders(&self) -> &'static [Order] {
        if self.has_reordered() { &Order::ALL } else { &Order::ALL[..1] }
    }
}

impl Treebank {
    fn take(&mut self, measure: Measure, count: u64) {
        match measure {
            Measure::SentencesUsed => self.sentences_used = count,
            Measure::TokensUsed => self.tokens_used = count,
            Measure::SentencesSkipped(why) => {
                *self.skipped.entry(why.name().to_string()).or_default() += count;
                if matches!(why, Skipped::Problem(_)) {
                    self.broken += count;
                }
            }
            Measure::FileProblems(rule) => drop(self.file_problems.insert(rule.name().to_string(), count)),
            Measure::Configurations(system, order, cost) => {
                set(&mut self.costs[order as usize][system as usize], cost, count);
            }
            Measure::Embedding(order, degree) => set(&mut self.embedding[order as usize], degree, count),
            Measure::Arcs(order) => self.arcs[order as usize] = count,
            Measure::ArcLength(order) => self.length[order as usize] = count,
            Measure::MinimalLength => self.minimal_length = count,
        }
    }

    pub fn sentences_read(&self) -> u64 {
        self.sentences_used + self.skipped.values().sum::<u64>()
    }

    /// Configurations by cost.
    pub fn costs(&self, system: System, order: Order) -> &[u64] {
        &self.costs[order as usize][system as usize]
    }

    /// Percentage of configurations of at most `cost`; none where there is no configuration.
    pub fn percent_within(&self, system: System, order: Order, cost: usize) -> Option<f64> {
        percent_within(self.costs(system, order), cost)
    }

    pub fn mean_cost(&self, system: System, order: Order) -> Option<f64> {
        let costs = self.costs(system, order);
        let total: u64 = costs.iter().sum();
        let sum: u64 = (0..).zip(costs).map(|(cost, n): (u64, &u64)| cost * n).sum();
        (total > 0).then(|| sum as f64 / total as f64)
    }

    /// Sentences by degree of center-embedding.
    pub fn embedding(&self, order: Order) -> &[u64] {
        &self.embedding[order as usize]
    }

    /// Number of arcs between words, and their total length.
    pub fn lengths(&self, order: Order) -> (u64, u64) {
        (self.arcs[order as usize], self.length[order as usize])
    }

    /// Number of arcs between words, and the least total length that they can have.
    pub fn minimal_length(&self) -> (u64, u64) {
        (self.arcs[Order::Original as usize], self.minimal_length)
    }
}

fn set(histogram: &mut Vec<u64>, at: u32, count: u64) {
    let at = at as usize;
    if histogram.len() <= at {
        histogram.resize(at + 1, 0);
    }
    histogram[at] = count;
}

/// Percentage of a histogram at or below `at`.
pub fn percent_within(histogram: &[u64], at: usize) -> Option<f64> {
    let total: u64 = histogram.iter().sum();
    let within: u64 = histogram.iter().take(at + 1).sum();
    (total > 0).then(|| 100.0 * within as f64 / total as f64)
}
