//! What decides the steps of a sampler: a random generator, or in a test every outcome in turn.
//!
//! A sampler that draws through [`Chance`] can be enumerated: `each_outcome` runs the sampler's own code once for every
//! sequence of outcomes that it can have, with the probability of each. Then a test compares distributions to the last
//! bits, and no number of draws limits what it can see.

use super::stirling::Alone;
use crate::cluster::rng::Generator;
use crate::math::draws::unit;

/// Decides by probability.
pub trait Chance {
    /// True with probability `part` / `whole`; always if `part` is larger.
    fn is_within(&mut self, part: f64, whole: f64) -> bool;

    /// Whether a customer that leaves was alone at its table ([`Alone`]).
    #[inline(always)]
    fn was_alone(&mut self, alone: &mut Alone, customers: u32, tables: u32) -> bool {
        match tables {
            _ if tables == customers => true,
            1 => false,
            _ => self.is_within(alone.probability(customers, tables), 1.0),
        }
    }

    /// One of `count` outcomes, in proportion to `weight`; `draw` draws it from a generator.
    fn choose(
        &mut self,
        count: usize,
        weight: impl Fn(usize) -> f64,
        draw: impl FnOnce(&mut Generator) -> usize,
    ) -> usize;
}

impl Chance for Generator {
    #[inline(always)]
    fn is_within(&mut self, part: f64, whole: f64) -> bool {
        unit(self) * whole < part
    }

    #[inline(always)]
    fn choose(&mut self, _: usize, _: impl Fn(usize) -> f64, draw: impl FnOnce(&mut Generator) -> usize) -> usize {
        draw(self)
    }
}

/// A sequence of outcomes, the first of them given.
#[cfg(test)]
pub struct Outcomes {
    /// Each outcome, and whether the other one is still to be tried.
    outcomes: Vec<(bool, bool)>,
    passed: usize,
    probability: f64,
}

#[cfg(test)]
impl Outcomes {
    fn decide(&mut self, p: f64) -> bool {
        if self.passed == self.outcomes.len() {
            self.outcomes.push((p > 0.0, p > 0.0 && p < 1.0));
        }
        let (outcome, _) = self.outcomes[self.passed];
        self.passed += 1;
        self.probability *= if outcome { p } else { 1.0 - p };
        outcome
    }
}

#[cfg(test)]
impl Chance for Outcomes {
    fn is_within(&mut self, part: f64, whole: f64) -> bool {
        self.decide((part / whole).min(1.0))
    }

    /// By R(c, t) in full precision: [`Alone`] keeps it in 32 bits.
    fn was_alone(&mut self, alone: &mut Alone, customers: u32, tables: u32) -> bool {
        if tables == customers || tables == 1 {
            return tables == customers;
        }
        self.decide(alone.exact(customers, tables))
    }

    fn choose(
        &mut self,
        count: usize,
        weight: impl Fn(usize) -> f64,
        _: impl FnOnce(&mut Generator) -> usize,
    ) -> usize {
        let mut left: f64 = (0..count).map(&weight).sum();
        let last = (0..count).rev().find(|&outcome| weight(outcome) > 0.0).expect("an outcome of positive weight");
        for outcome in 0..last {
            if self.is_within(weight(outcome), left) {
                return outcome;
            }
            left -= weight(outcome);
        }
        last
    }
}

/// Runs `step` once for every sequence of outcomes, and shows `seen` what it returns with the probability.
#[cfg(test)]
pub fn each_outcome<T>(mut step: impl FnMut(&mut Outcomes) -> T, mut seen: impl FnMut(T, f64)) {
    let mut outcomes = Outcomes { outcomes: vec![], passed: 0, probability: 1.0 };
    loop {
        (outcomes.passed, outcomes.probability) = (0, 1.0);
        let result = step(&mut outcomes);
        assert_eq!(outcomes.passed, outcomes.outcomes.len(), "the same outcomes lead to the same decisions");
        seen(result, outcomes.probability);
        // On to the last decision that has another outcome.
        while outcomes.outcomes.last().is_some_and(|(_, has_other)| !has_other) {
            outcomes.outcomes.pop();
        }
        match outcomes.outcomes.last_mut() {
            Some(last) => *last = (false, false),
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sequence_of_outcomes_is_run_once() {
        let mut found = vec![];
        let step = |chance: &mut Outcomes| match chance.is_within(1.0, 4.0) {
            true => vec![true, chance.is_within(0.0, 1.0)],
            false => vec![false, chance.is_within(2.0, 1.0), chance.is_within(1.0, 3.0)],
        };
        each_outcome(step, |outcomes, p| found.push((outcomes, p)));
        let expected = [
            (vec![true, false], 0.25),
            (vec![false, true, true], 0.75 * (1.0 / 3.0)),
            (vec![false, true, false], 0.75 * (1.0 - 1.0 / 3.0)),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn outcomes_are_chosen_in_proportion_to_their_weights() {
        let weights = [0.0, 1.0, 0.0, 2.0, 5.0, 0.0];
        let mut found = [0.0; 6];
        let step = |chance: &mut Outcomes| chance.choose(6, |outcome| weights[outcome], |_| unreachable!());
        each_outcome(step, |outcome, p| found[outcome] += p);
        assert_eq!(found, weights.map(|weight| weight / 8.0));
    }
}
