//! A sentence's derivation against another one: a Metropolis-Hastings step.
//!
//! ```text
//! take out   d with its tables, the last token first: P(d) is the product of p of each token given those still seated
//! propose    d', with the counts fixed, reversibly with respect to pi (filter.rs)
//! seat       d', token by token: P(d')
//! accept     with probability min(1, P(d') pi(d) / (P(d) pi(d'))); else d is put back as it was
//! ```
//!
//! The proposal does not see that the tokens of a sentence tell of each other, which the last step makes good. What does
//! not learn has the same p in P and in pi, so it is left out of both.

use super::hierarchies::{Customer, Hierarchies, Tables};
use super::weight::Weight;
use crate::cluster::rng::Generator;
use crate::math::draws::unit;
use crate::math::ln;

/// Its buffers are reused.
#[derive(Default)]
pub struct Exchange {
    taken: Vec<Tables>,
    given: Vec<Tables>,
}

/// What is proposed.
pub struct Proposal<D> {
    pub derivation: D,
    pub customers: Vec<Customer>,
    /// ln pi(d) - ln pi(d').
    pub ratio_ln: f64,
}

impl Exchange {
    /// Takes `old` away, and seats what is proposed, or `old` again; returns what was proposed where it is seated.
    pub fn step<D>(
        &mut self,
        hierarchies: &mut Hierarchies,
        old: &[Customer],
        propose: impl FnOnce(&mut Hierarchies, &mut Generator) -> Proposal<D>,
        rng: &mut Generator,
    ) -> Option<Proposal<D>> {
        let (mut before, mut after) = (Weight::ONE, Weight::ONE);
        self.taken.clear();
        for customer in old.iter().rev() {
            let (p, tables) = hierarchies.remove(customer, rng);
            self.taken.push(tables);
            before = before.times(p);
        }
        let proposal = propose(hierarchies, rng);
        self.given.clear();
        for customer in &proposal.customers {
            let (p, tables) = hierarchies.add(customer, rng);
            self.given.push(tables);
            after = after.times(p);
        }
        if ln(unit(rng)) < after.ln() - before.ln() + proposal.ratio_ln {
            return Some(proposal);
        }
        for (customer, tables) in proposal.customers.iter().zip(&self.given).rev() {
            hierarchies.take_back(customer, tables);
        }
        for (customer, tables) in old.iter().zip(self.taken.iter().rev()) {
            hierarchies.put_back(customer, tables);
        }
        None
    }
}
