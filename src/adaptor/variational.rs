//! Variational Bayes for plain grammars (Kurihara & Sato 2006): expected uses of rules by the inside and outside
//! probabilities, under rule weights
//!
//! ```text
//! w(X --> beta) = exp(digamma(weight + uses)) / exp(digamma(sum of weights + uses of X))
//! ```
//!
//! A sweep adds up the expectations of each shard's strings; shards are added up in their order, and every worker updates
//! the weights to the same. The free energy that falls is -(sum of ln inside) + KL(q(theta) | p(theta)).

use std::collections::BTreeMap;
use std::ops::Range;

use super::chart::{Chart, Mode, cuts};
use super::corpus::Corpus;
use super::grammar::{Grammar, NONE};
use super::job::Plan;
use super::model::Fixed;
use super::view::View;
use crate::cluster::rng::{Purpose, generator};
use crate::cluster::sweep::{Model, Post};
use crate::corpus::shard::shards;
use crate::math::digamma::exp_digamma_all;
use crate::math::draws::unit;
use crate::math::{gamma_ln, ln};

/// Inside and outside over one chart.
#[derive(Default)]
pub struct Outside {
    pub chart: Chart,
    cells: Vec<f64>,
}

impl Outside {
    /// Adds the expected uses of rules in a string; returns ln of its inside probability.
    pub fn expect(
        &mut self,
        grammar: &Grammar,
        (number, view): (u32, &View),
        string: &[u32],
        weights: &[f64],
        expected: &mut [f64],
    ) -> Option<f64> {
        if !self.chart.fill(grammar, (number, view), string, &Fixed(weights), Mode::Sum) {
            return None;
        }
        let Outside { chart, cells } = self;
        let n = chart.length();
        cells.clear();
        cells.resize(chart.cells.len(), 0.0);
        let root = chart.places[view.root as usize];
        let total = chart.cells[root.cell(0, n)];
        cells[root.cell(0, n)] = 1.0 / total;
        // The other way round than inside: from long to short, and parents before what they are made of by unary rules.
        for j in (1..=n).rev() {
            let most = if j == n { view.last_most } else { view.inner_most } as usize;
            let from = j.saturating_sub(most);
            if from > 0 {
                Self::span(chart, cells, view, 0, j, expected);
            }
            for i in from..j {
                Self::span(chart, cells, view, i, j, expected);
            }
        }
        Some(chart.total_ln(view))
    }

    fn span(chart: &Chart, cells: &mut [f64], view: &View, i: usize, j: usize, expected: &mut [f64]) {
        for (number, local) in view.locals.iter().enumerate().rev() {
            let spot = &chart.places[number];
            if !spot.stands(i, j, chart.length()) || !spot.has(i, j) {
                continue;
            }
            let outer = cells[spot.cell(i, j)];
            if outer == 0.0 {
                continue;
            }
            if local.has_lexical && j == i + 1 {
                let (weight, rule) = chart.word_rule(number, i);
                if rule != NONE {
                    expected[rule as usize] += outer * weight * chart.scale();
                }
            }
            for at in local.from as usize..local.to as usize {
                let production = &view.productions[at];
                let left = &chart.places[production.left as usize];
                let weight = outer * chart.weights[at];
                let mut uses = 0.0;
                if production.right == NONE {
                    if left.has(i, j) {
                        cells[left.cell(i, j)] += weight;
                        uses = weight * chart.cells[left.cell(i, j)];
                    }
                } else {
                    let right = &chart.places[production.right as usize];
                    let (low, high) = cuts(left, right, i, j);
                    for k in low..high {
                        let (one, two) = (left.cell(i, k), right.cell(k, j));
                        let (inner_left, inner_right) = (chart.cells[one], chart.cells[two]);
                        cells[one] += weight * inner_right;
                        cells[two] += weight * inner_left;
                        uses += weight * inner_left * inner_right;
                    }
                }
                if production.rule != NONE {
                    expected[production.rule as usize] += uses;
                }
            }
        }
    }
}

/// exp(digamma) weights of rules with these expected uses.
pub fn variational_weights(grammar: &Grammar, expected: &[f64]) -> Vec<f64> {
    let mut totals = totals(grammar, expected);
    exp_digamma_all(&mut totals);
    let mut weights: Vec<f64> = grammar.rules.iter().zip(expected).map(|(rule, uses)| rule.weight + uses).collect();
    exp_digamma_all(&mut weights);
    grammar.rules.iter().zip(&mut weights).for_each(|(rule, weight)| *weight /= totals[rule.parent as usize]);
    weights
}

/// The mean probabilities of rules with these expected uses.
pub fn means(grammar: &Grammar, expected: &[f64]) -> Vec<f64> {
    let totals = totals(grammar, expected);
    let mean = |(rule, uses): (&super::grammar::Rule, &f64)| (rule.weight + uses) / totals[rule.parent as usize];
    grammar.rules.iter().zip(expected).map(mean).collect()
}

/// Weights and uses of each nonterminal's rules.
fn totals(grammar: &Grammar, expected: &[f64]) -> Vec<f64> {
    let mut totals = grammar.weight_of.clone();
    grammar.rules.iter().zip(expected).for_each(|(rule, uses)| totals[rule.parent as usize] += uses);
    totals
}

/// KL divergence of the Dirichlets of all nonterminals from their priors; `weights` are those of `expected`.
fn divergence(grammar: &Grammar, expected: &[f64], weights: &[f64]) -> f64 {
    let totals = totals(grammar, expected);
    let mut sum = 0.0;
    for (symbol, &total) in totals.iter().enumerate() {
        sum += gamma_ln(total) - gamma_ln(grammar.weight_of[symbol]);
    }
    for ((rule, &uses), &weight) in grammar.rules.iter().zip(expected).zip(weights) {
        sum += gamma_ln(rule.weight) - gamma_ln(rule.weight + uses);
        // A rule that is not used may have a weight too small for a number.
        if uses > 0.0 {
            sum += uses * ln(weight);
        }
    }
    sum
}

/// Variational Bayes as a model of the sweep driver.
pub struct Variational {
    corpus: Corpus,
    runs: Vec<Range<usize>>,
    /// Expected uses of rules, of all shards.
    expected: Vec<f64>,
    weights: Vec<f64>,
    free_energy: f64,
    /// Of each own shard's last sweep: the sum of ln inside, and expected uses.
    found: BTreeMap<u32, Vec<f64>>,
    outside: Outside,
}

impl Variational {
    pub fn new(plan: &Plan, corpus: Corpus) -> Variational {
        let lengths: Vec<u64> = corpus.strings.iter().map(|string| string.len() as u64).collect();
        // Equal weights would stay equal: everybody draws the same uneven ones.
        let mut rng = generator(plan.seed, Purpose::Initial, 0, 0);
        let expected: Vec<f64> = corpus.grammar.rules.iter().map(|_| unit(&mut rng)).collect();
        Variational {
            runs: shards(&lengths, plan.schedule.shards),
            weights: variational_weights(&corpus.grammar, &expected),
            expected,
            free_energy: f64::INFINITY,
            found: BTreeMap::new(),
            outside: Outside::default(),
            corpus,
        }
    }

    pub fn free_energy(&self) -> f64 {
        self.free_energy
    }

    /// The corpus, and expected uses of rules.
    pub fn into_expected(self) -> (Corpus, Vec<f64>) {
        (self.corpus, self.expected)
    }
}

impl Model for Variational {
    /// Nothing: all follows from the weights.
    type Saved = ();
    type Shared = (Vec<f64>, f64);

    fn draw_shard(&mut self, _: u32, _: u32) {}

    fn load_shard(&mut self, _: u32, (): ()) -> Result<(), String> {
        Ok(())
    }

    fn save_shard(&self, _: u32) {}

    fn count_shard(&mut self, _: u32) {}

    /// One pass: the weights only change when all shards have been passed over.
    fn sweep_shard(&mut self, number: u32, _: Range<u64>, _: u32) {
        let Variational { corpus, outside, weights, .. } = self;
        let mut found = vec![0.0; 1 + corpus.grammar.rules.len()];
        let (likelihood, expected) = found.split_first_mut().expect("a likelihood");
        for string in self.runs[number as usize].clone() {
            let view = corpus.view_of[string];
            if view != NONE {
                let at = (view, &corpus.views.all[view as usize]);
                let ln = outside.expect(&corpus.grammar, at, &corpus.strings[string], weights, expected);
                *likelihood += ln.unwrap_or(0.0);
            }
        }
        self.found.insert(number, found);
    }

    fn synchronise(&mut self, _: &mut Post<'_>) {}

    fn statistics(&mut self, number: u32, _: u64) -> Vec<f64> {
        self.found.get(&number).cloned().unwrap_or_default()
    }

    fn learn(&mut self, statistics: &[Vec<f64>], _: u64) {
        let mut sums = vec![0.0; 1 + self.corpus.grammar.rules.len()];
        for of_shard in statistics {
            sums.iter_mut().zip(of_shard).for_each(|(sum, figure)| *sum += figure);
        }
        // Of the weights that the likelihood was found with.
        self.free_energy = divergence(&self.corpus.grammar, &self.expected, &self.weights) - sums[0];
        self.expected = sums.split_off(1);
        self.weights = variational_weights(&self.corpus.grammar, &self.expected);
    }

    fn evaluate(&mut self, _: u32, _: u64) -> Vec<f64> {
        vec![]
    }

    fn snapshot(&self) -> Vec<f64> {
        vec![self.free_energy]
    }

    fn shared(&self) -> (Vec<f64>, f64) {
        (self.expected.clone(), self.free_energy)
    }

    fn set_shared(&mut self, (expected, free_energy): (Vec<f64>, f64)) {
        self.weights = variational_weights(&self.corpus.grammar, &expected);
        (self.expected, self.free_energy) = (expected, free_energy);
    }

    fn tokens(&self, number: u32) -> u64 {
        self.corpus.strings[self.runs[number as usize].clone()].iter().map(|string| string.len() as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adaptor::reader::{Alphabet, Defaults, read};
    use crate::adaptor::view::Views;

    const TEXT: &str =
        "S --> X\nS --> X S\n0.5 X --> a\nX --> a a\n2 X --> b\nX --> a Y a\nX --> Z\nY --> b\nZ --> a b\nZ --> b a";

    #[test]
    fn expected_uses_are_derivatives_of_the_inside_probability() {
        let grammar = read("g", TEXT, &Alphabet::default(), &Defaults::default()).unwrap();
        let terminals = grammar.terminals();
        let string: Vec<u32> = "a a b a b a".split(' ').map(|word| terminals[word]).collect();
        let mut views = Views::default();
        let number = views.of_string(&grammar, &string).unwrap();
        let view = &views.all[number as usize];
        let weights: Vec<f64> = (0..grammar.rules.len()).map(|rule| 0.3 + 0.05 * rule as f64).collect();
        let mut outside = Outside::default();
        let mut expected = vec![0.0; grammar.rules.len()];
        let ln = outside.expect(&grammar, (number, view), &string, &weights, &mut expected).unwrap();
        for rule in 0..grammar.rules.len() {
            let mut moved = weights.clone();
            moved[rule] *= 1.0 + 1e-6;
            let ln_moved =
                outside.expect(&grammar, (number, view), &string, &moved, &mut vec![0.0; moved.len()]).unwrap();
            let derivative = (ln_moved - ln) / 1e-6;
            assert!((derivative - expected[rule]).abs() < 1e-4, "{}: {derivative} {}", rule, expected[rule]);
        }
        assert!(expected.iter().sum::<f64>() > 3.0);
    }

    #[test]
    fn the_free_energy_falls() {
        let grammar = read("g", TEXT, &Alphabet::default(), &Defaults::default()).unwrap();
        let terminals = grammar.terminals();
        let strings: Vec<Vec<u32>> = ["a a b a", "a b a", "b a a b", "a a"]
            .map(|text| text.split(' ').map(|word| terminals[word]).collect())
            .to_vec();
        let mut views = Views::default();
        let numbers: Vec<u32> = strings.iter().map(|string| views.of_string(&grammar, string).unwrap()).collect();
        let mut expected: Vec<f64> = (0..grammar.rules.len()).map(|rule| 0.1 * rule as f64).collect();
        let (mut outside, mut last, mut first) = (Outside::default(), f64::INFINITY, 0.0);
        for round in 0..20 {
            let weights = variational_weights(&grammar, &expected);
            let mut next = vec![0.0; grammar.rules.len()];
            let mut ln = 0.0;
            for (string, &number) in strings.iter().zip(&numbers) {
                let view = &views.all[number as usize];
                ln += outside.expect(&grammar, (number, view), string, &weights, &mut next).unwrap();
            }
            let energy = divergence(&grammar, &expected, &weights) - ln;
            assert!(energy <= last + 1e-9, "round {round}: {energy} after {last}");
            if round == 0 {
                first = energy;
            }
            (last, expected) = (energy, next);
        }
        assert!(last < first - 0.1, "{first} {last}");
    }
}
