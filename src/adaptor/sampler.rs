//! Metropolis-Hastings over the parse of one string, given all others (Johnson, Griffiths & Goldwater 2007).
//!
//! The parse is taken out. What remains is a plain grammar whose extra rules are the cached trees; a derivation is drawn
//! from it, seated, and accepted with probability
//!
//! ```text
//! min(1, p(new) q(old) / (p(old) q(new)))
//! ```
//!
//! where q is the grammar's probability, which leaves out that a parse changes the counts that it is itself drawn from, and
//! p is the model's: customers and rules one after the other. With a temperature T, p and q count by their 1/T-th power.
//! The tree of a table is drawn anew in the same way, for all of its customers at once (Johnson & Goldwater 2009).

use super::cache::{Cache, Seats};
use super::chart::{Chart, Current, Mode};
use super::derivation::{Derivation, Packed};
use super::grammar::{Grammar, Symbol};
use super::view::View;
use crate::cluster::rng::Generator;
use crate::math::draws::unit;
use crate::math::ln;

/// What became of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was the parse that was there.
    Same,
    Accepted,
    Rejected,
    /// The grammar does not derive the string.
    None,
}

/// What is drawn anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    String,
    /// The tree of this table.
    Label(u32),
}

/// One string and how it is drawn.
pub struct Task<'a> {
    pub grammar: &'a Grammar,
    pub view: (u32, &'a View),
    pub words: &'a [Symbol],
    pub target: Target,
    /// 1 / T.
    pub power: f64,
}

#[derive(Default)]
pub struct Sampler {
    chart: Chart,
    old: Derivation,
    new: Derivation,
    seated: Vec<Packed>,
}

impl Sampler {
    /// Draws the first parse of a string.
    pub fn draw(
        &mut self,
        task: &Task<'_>,
        cache: &mut Cache,
        parse: &mut Vec<Packed>,
        rng: &mut Generator,
    ) -> Outcome {
        if !self.propose(task, cache, rng) {
            return Outcome::None;
        }
        parse.clear();
        let is_string = task.target == Target::String;
        cache.seat(task.grammar, &self.new, task.words, is_string, Seats::Draw(rng), parse);
        Outcome::Accepted
    }

    /// The same from the grammar as `from` has it: the parse does not depend on those before it.
    pub fn draw_from(
        &mut self,
        task: &Task<'_>,
        from: &Cache,
        cache: &mut Cache,
        parse: &mut Vec<Packed>,
        rng: &mut Generator,
    ) -> Outcome {
        if !self.propose(task, from, rng) {
            return Outcome::None;
        }
        parse.clear();
        cache.seat(task.grammar, &self.new, task.words, true, Seats::Draw(rng), parse);
        Outcome::Accepted
    }

    /// Draws a derivation from the grammar as it stands.
    fn propose(&mut self, task: &Task<'_>, cache: &Cache, rng: &mut Generator) -> bool {
        let weights = Current { grammar: task.grammar, cache, power: task.power };
        if !self.chart.fill(task.grammar, task.view, task.words, &weights, Mode::Sum) {
            return false;
        }
        let is_label = task.target != Target::String;
        self.chart.derive(task.view.1, &weights, is_label, Some(rng), &mut self.new);
        true
    }

    /// Draws a parse anew.
    pub fn redraw(
        &mut self,
        task: &Task<'_>,
        cache: &mut Cache,
        parse: &mut Vec<Packed>,
        rng: &mut Generator,
    ) -> Outcome {
        let grammar = task.grammar;
        let is_string = task.target == Target::String;
        cache.unseat(grammar, parse, is_string);
        cache.derivation_of(parse, &mut self.old);
        if !self.propose(task, cache, rng) {
            let old = &self.old;
            self.seated.clear();
            cache.seat(grammar, old, task.words, is_string, Seats::AsBefore, &mut self.seated);
            cache.settle();
            return Outcome::None;
        }
        // The usual case: nothing changes, and there is nothing to compute.
        if self.new.nodes == self.old.nodes && !self.new.may_repeat() {
            self.seated.clear();
            cache.seat(grammar, &self.old, task.words, is_string, Seats::AsBefore, &mut self.seated);
            cache.settle();
            return Outcome::Same;
        }
        let proposal_new = cache.proposal_ln(grammar, &self.new);
        let proposal_old = cache.proposal_ln(grammar, &self.old);
        self.seated.clear();
        let (old, join_old) = cache.seat(grammar, &self.old, task.words, is_string, Seats::AsBefore, &mut self.seated);
        cache.unseat(grammar, &self.seated, is_string);
        self.seated.clear();
        let (new, join_new) = cache.seat(grammar, &self.new, task.words, is_string, Seats::Draw(rng), &mut self.seated);
        let ratio = task.power * (new - old + proposal_old - proposal_new) + join_old - join_new;
        let outcome = match ratio >= 0.0 || ln(1.0 - unit(rng)) < ratio {
            true => {
                std::mem::swap(parse, &mut self.seated);
                Outcome::Accepted
            }
            false => {
                cache.unseat(grammar, &self.seated, is_string);
                self.seated.clear();
                cache.seat(grammar, &self.old, task.words, is_string, Seats::AsBefore, &mut self.seated);
                Outcome::Rejected
            }
        };
        cache.settle();
        outcome
    }

    /// Draws the tree of a table anew.
    pub fn relabel(
        &mut self,
        task: &Task<'_>,
        cache: &mut Cache,
        label: &mut Vec<Packed>,
        rng: &mut Generator,
    ) -> Outcome {
        let Target::Label(table) = task.target else { unreachable!("a table's tree") };
        label.clear();
        label.extend_from_slice(cache.label(table));
        let outcome = self.redraw(task, cache, label, rng);
        if outcome == Outcome::Accepted {
            cache.set_label(table, label);
            if table < cache.kept {
                cache.relabelled.push(table);
            }
        }
        outcome
    }
}
