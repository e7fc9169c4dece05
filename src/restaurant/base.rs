//! What is below the root: p(w) of each outcome, which may come from other restaurants.
//!
//! ```text
//! G_() ~ PYP(a_0, b_0, B)         B is uniform, or given outcome by outcome, or B ~ PYP(a', b', B') in its turn
//! ```
//!
//! Where B is itself learned, every table at the root is one of its customers: one comes when the root opens a table, and
//! leaves when it closes one. So several trees (words of several topics; words, given their tags, over all words) can
//! share what they have in common. [`Seated`] does this for a tree; p(w) of the base is asked for once for each token that
//! comes, so a chain of bases costs as much as one tree of their depths together.
//!
//! Language models have no need of this: all words are equal below their root, and [`House`] knows how much that is.

use super::seating::{DEEPEST, House, Path};
use super::tree::Tree;
use crate::cluster::rng::Generator;

/// A base distribution.
pub trait Base {
    /// p(w) of an outcome.
    fn probability(&mut self, outcome: u32) -> f64;

    /// A customer comes: a root above has opened a table.
    fn come(&mut self, outcome: u32, rng: &mut Generator);

    /// A customer leaves: a root above has closed a table.
    fn leave(&mut self, outcome: u32, rng: &mut Generator);
}

/// A distribution that is given, and does not learn.
pub struct Given<F>(pub F);

impl<F: Fn(u32) -> f64> Base for Given<F> {
    fn probability(&mut self, outcome: u32) -> f64 {
        self.0(outcome)
    }

    fn come(&mut self, _: u32, _: &mut Generator) {}

    fn leave(&mut self, _: u32, _: &mut Generator) {}
}

/// A tree of restaurants on a base of its own, with space for the path and the probabilities of one token.
///
/// It is a base too: outcome w comes as a customer of the dish `leaf_of[w]`.
pub struct Seated<'a, B, C> {
    tree: &'a mut Tree,
    house: &'a mut House,
    base: B,
    leaf_of: &'a [u32],
    /// Is shown each dish whose tables change, and whether this was its only customer.
    changed: C,
    path: Path,
    probabilities: [f64; DEEPEST + 1],
}

impl<'a, B: Base, C: FnMut(u32, bool)> Seated<'a, B, C> {
    /// `leaf_of` may be empty where this is nobody's base.
    pub fn new(tree: &'a mut Tree, house: &'a mut House, base: B, leaf_of: &'a [u32], changed: C) -> Seated<'a, B, C> {
        Seated { tree, house, base, leaf_of, changed, path: Path::default(), probabilities: [0.0; DEEPEST + 1] }
    }

    /// p(w | h) of the dish `leaf`.
    pub fn predict(&mut self, leaf: u32) -> f64 {
        self.look_up(leaf);
        self.probabilities[self.path.depth()]
    }

    /// Seats a customer of the dish `leaf`.
    pub fn add(&mut self, leaf: u32, rng: &mut Generator) {
        let below = self.look_up(leaf);
        let Seated { tree, house, path, probabilities, changed, .. } = self;
        if house.add_over(below, tree, path, path.depth(), probabilities, changed, rng) {
            self.base.come(self.tree.outcomes[leaf as usize], rng);
        }
    }

    /// Takes away a customer of the dish `leaf`.
    pub fn remove(&mut self, leaf: u32, rng: &mut Generator) {
        let Seated { tree, house, path, changed, .. } = self;
        path.find(tree, leaf);
        if house.remove(tree, path, path.depth(), changed, rng) {
            self.base.leave(self.tree.outcomes[leaf as usize], rng);
        }
    }

    /// Finds the path to a dish and its probabilities; returns that of the base.
    fn look_up(&mut self, leaf: u32) -> f64 {
        let below = self.base.probability(self.tree.outcomes[leaf as usize]);
        self.path.find(self.tree, leaf);
        self.house.probabilities_over(below, self.tree, &self.path, &mut self.probabilities);
        below
    }
}

impl<B: Base, C: FnMut(u32, bool)> Base for Seated<'_, B, C> {
    fn probability(&mut self, outcome: u32) -> f64 {
        self.predict(self.leaf_of[outcome as usize])
    }

    fn come(&mut self, outcome: u32, rng: &mut Generator) {
        self.add(self.leaf_of[outcome as usize], rng);
    }

    fn leave(&mut self, outcome: u32, rng: &mut Generator) {
        self.remove(self.leaf_of[outcome as usize], rng);
    }
}

/// A base that several trees share.
impl<B: Base> Base for &mut B {
    fn probability(&mut self, outcome: u32) -> f64 {
        (**self).probability(outcome)
    }

    fn come(&mut self, outcome: u32, rng: &mut Generator) {
        (**self).come(outcome, rng);
    }

    fn leave(&mut self, outcome: u32, rng: &mut Generator) {
        (**self).leave(outcome, rng);
    }
}
