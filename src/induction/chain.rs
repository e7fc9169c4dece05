//! A chain: one start, as its iterations change it.

use serde::{Deserialize, Serialize};

use super::job::Method;
use super::pass::{Expectation, Weights};
use super::rules::{divergence, estimate, point_estimate, share, weigh};
use super::shape::Shape;
use crate::cluster::rng::{Purpose, generator};
use crate::math::draws::dirichlet;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chain {
    /// The group, counted over all runs, and the place in it.
    pub group: u32,
    pub restart: u32,
    /// Iterations so far, and those since the group was pruned.
    pub iterations: u32,
    pub iterations_after: u32,
    /// The free energy (in EM, minus the log-likelihood) of the counts, where it is known; see [`Chain::judge`].
    pub free_energy: f64,
    /// What convergence is judged by, one iteration ago.
    pub criterion: f64,
    /// Whether the rules are not yet those of counts.
    is_fresh: bool,
    pub counts: Vec<f64>,
    rules: Vec<f64>,
}

impl Chain {
    fn fresh(group: u32, restart: u32, shape: &Shape, rules: Vec<f64>) -> Chain {
        Chain {
            group,
            restart,
            iterations: 0,
            iterations_after: 0,
            free_energy: f64::INFINITY,
            criterion: f64::NEG_INFINITY,
            is_fresh: true,
            counts: vec![0.0; shape.rules()],
            rules,
        }
    }

    /// Rules drawn from the prior.
    pub fn draw(shape: &Shape, seed: u64, group: u32, restart: u32) -> Chain {
        let mut rng = generator(seed, Purpose::Initial, u64::from(group), u64::from(restart));
        let mut rules = vec![0.0; shape.rules()];
        for d in &shape.distributions {
            let drawn = &mut rules[d.start..][..d.outcomes];
            drawn.iter_mut().enumerate().for_each(|(outcome, rule)| *rule = d.prior_of(outcome));
            dirichlet(drawn, &mut rng);
        }
        Chain::fresh(group, restart, shape, rules)
    }

    /// What follows from expected uses that no rules gave: as if they came from the mean of the prior.
    pub fn from_uses(shape: &Shape, method: Method, uses: &[f64]) -> Chain {
        let mut chain = Chain::fresh(0, 0, shape, vec![0.0; shape.rules()]);
        point_estimate(shape, Method::Vb, &chain.counts, &mut chain.rules);
        chain.take(shape, method, uses);
        chain
    }

    /// The chain of a lexicalised shape that begins as this one of the shape without words is: words of a tag have the
    /// dependents of the tag.
    pub fn lifted(mut self, from: &Shape, to: &Shape) -> Chain {
        let mut rules = vec![0.0; to.rules()];
        point_estimate(to, Method::Vb, &vec![0.0; to.rules()], &mut rules);
        rules[..from.tags].copy_from_slice(&self.rules[..from.tags]);
        let uses = self.weights(from);
        for context in 0..super::shape::CONTEXTS {
            for tag in 0..from.tags {
                let (old, new) = (from.stop_rule(context, tag), to.stop_rule(context, tag));
                rules[new..new + 2].copy_from_slice(&self.rules[old..old + 2]);
            }
            for symbol in 0..to.symbols() {
                let tag = to.tag_of[symbol] as usize;
                let old: Vec<(usize, Option<usize>)> = from.levels_of(context, tag).collect();
                let new: Vec<(usize, Option<usize>)> = to.levels_of(context, symbol).collect();
                // Levels that both have are the last ones.
                for (&(old, old_coin), &(new, new_coin)) in old.iter().rev().zip(new.iter().rev()) {
                    let dependents = self.rules[old..][..from.tags].to_vec();
                    rules[new..][..from.tags].copy_from_slice(&dependents);
                    if let (Some(old), Some(new)) = (old_coin, new_coin) {
                        rules[new..new + 2].copy_from_slice(&self.rules[old..old + 2]);
                    }
                }
                if new.len() > old.len() {
                    let go_on = self.rules[from.stop_rule(context, tag) + 1].max(f64::MIN_POSITIVE);
                    for dependent in 0..from.tags {
                        let arc = uses.uses[from.arcs(context, tag) + dependent];
                        rules[new[0].0 + dependent] = arc * libm::exp(uses.scales[dependent]) / go_on;
                    }
                }
            }
        }
        (self.counts, self.rules) = (vec![0.0; to.rules()], rules);
        (self.is_fresh, self.criterion) = (true, f64::NEG_INFINITY);
        self
    }

    /// The weights that trees have now.
    pub fn weights(&self, shape: &Shape) -> Weights {
        weights_of(shape, &self.rules)
    }

    /// The weights that sentences are parsed with, and by which held-out ones are judged.
    pub fn point_weights(&self, shape: &Shape, method: Method) -> Weights {
        if self.is_fresh {
            return self.weights(shape);
        }
        let mut rules = vec![0.0; shape.rules()];
        point_estimate(shape, method, &self.counts, &mut rules);
        weights_of(shape, &rules)
    }

    /// Sets the free energy of the chain as it is, whose pass over the sentences found `found`.
    pub fn judge(&mut self, shape: &Shape, method: Method, found: &Expectation) {
        self.free_energy = match method {
            _ if found.ln_likelihood.is_nan() => f64::INFINITY,
            Method::Em => -found.ln_likelihood,
            Method::Vb if self.is_fresh => f64::INFINITY,
            Method::Vb => divergence(shape, &self.counts, &self.rules) - found.ln_likelihood,
        };
    }

    /// Ends an iteration: new counts from expected uses, and rules from them.
    pub fn take(&mut self, shape: &Shape, method: Method, uses: &[f64]) {
        share(shape, &self.rules, uses, &mut self.counts);
        estimate(shape, method, &self.counts, &mut self.rules);
        self.is_fresh = false;
        self.iterations += 1;
    }
}

fn weights_of(shape: &Shape, rules: &[f64]) -> Weights {
    let mut weights = Weights { uses: vec![0.0; shape.uses()], scales: vec![0.0; shape.tags] };
    weigh(shape, rules, &mut weights.uses, &mut weights.scales);
    weights
}
