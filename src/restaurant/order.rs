//! Infinite order: every token has a context length of its own (Mochihashi & Sumita 2008).
//!
//! A token walks down the tree from the root, and at each restaurant stops with probability q ~ Beta(alpha, beta). Where
//! `stops` tokens have stopped and `passes` gone on,
//!
//! ```text
//! p(n | h) = prod_{i < n} (passes_i + beta) / (stops_i + passes_i + alpha + beta)
//!            * (stops_n + alpha) / (stops_n + passes_n + alpha + beta)
//! p(w | h) = sum_n p(n | h) p(w | h_n)
//! ```
//!
//! where h_n are the n nearest words. At the deepest level, and where the sentence begins, there is nowhere to go on to:
//! what is left stops there.

use super::seating::{DEEPEST, House, Path};
use super::tree::{Tree, Visits};
use crate::cluster::rng::Generator;
use crate::math::draws::unit;

/// The prior of stopping: alpha and beta.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StopPrior {
    pub alpha: f64,
    pub beta: f64,
}

impl StopPrior {
    /// The probability of stopping at a restaurant.
    #[inline]
    pub fn probability(&self, visits: Visits) -> f64 {
        let (stops, passes) = (f64::from(visits.stops), f64::from(visits.passes));
        (stops + self.alpha) / (stops + passes + self.alpha + self.beta)
    }

    /// p(n | h) for each n up to the length of the path.
    #[inline]
    pub fn orders(&self, visits: &[Visits], path: &Path, probabilities: &mut [f64; DEEPEST + 1]) {
        let mut left = 1.0;
        for (depth, probability) in probabilities[..path.depth()].iter_mut().enumerate() {
            let stop = self.probability(visits[path.restaurant(depth) as usize]);
            *probability = left * stop;
            left *= 1.0 - stop;
        }
        probabilities[path.depth()] = left;
    }
}

/// Space for the probabilities of a token.
#[derive(Clone, Debug)]
pub struct Scratch {
    pub words: [f64; DEEPEST + 1],
    pub orders: [f64; DEEPEST + 1],
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch { words: [0.0; DEEPEST + 1], orders: [0.0; DEEPEST + 1] }
    }
}

/// Seats a token of the path: draws its order from p(n | h) p(w | h_n), and returns it. `changed` is shown each dish whose
/// tables change.
///
/// `is_cut`: the token's context is longer than the path, and no other token has the rest of it ([`super::lone`]). Then all
/// longer orders have the p(w | h_n) of the path's end, and the order that is returned for them is one more than the path's
/// depth: the token passes the last restaurant, and stops somewhere beyond.
#[inline]
#[allow(clippy::too_many_arguments)] // what `House::add` takes, and the two that orders follow from
pub fn add(
    house: &House,
    prior: &StopPrior,
    tree: &mut Tree,
    path: &Path,
    is_cut: bool,
    scratch: &mut Scratch,
    changed: &mut impl FnMut(u32, bool),
    rng: &mut Generator,
) -> usize {
    let end = path.depth();
    house.probabilities(tree, path, &mut scratch.words);
    prior.orders(&tree.visits, path, &mut scratch.orders);
    let mut sum = 0.0;
    for depth in 0..=end {
        sum += scratch.orders[depth] * scratch.words[depth];
        scratch.orders[depth] = sum;
    }
    let lot = unit(rng) * sum;
    let mut order = (0..end).find(|&depth| lot < scratch.orders[depth]).unwrap_or(end);
    if is_cut && order == end {
        let before = end.checked_sub(1).map_or(0.0, |depth| scratch.orders[depth]);
        let stop = prior.probability(tree.visits[path.restaurant(end) as usize]);
        order += usize::from(lot - before >= stop * (sum - before));
    }
    house.add(tree, path, order.min(end), &scratch.words, changed, rng);
    visit(tree, path, order, 1);
    order
}

/// Takes a token of an order away.
#[inline]
pub fn remove(
    house: &mut House,
    tree: &mut Tree,
    path: &Path,
    order: usize,
    changed: &mut impl FnMut(u32, bool),
    rng: &mut Generator,
) {
    house.remove(tree, path, order.min(path.depth()), changed, rng);
    visit(tree, path, order, -1);
}

/// Notes that `tokens` more of an order stop and pass on the path.
#[inline]
pub fn visit(tree: &mut Tree, path: &Path, order: usize, tokens: i32) {
    for depth in 0..order.min(path.depth() + 1) {
        let visits = &mut tree.visits[path.restaurant(depth) as usize];
        visits.passes = visits.passes.wrapping_add_signed(tokens);
    }
    if order <= path.depth() {
        let visits = &mut tree.visits[path.restaurant(order) as usize];
        visits.stops = visits.stops.wrapping_add_signed(tokens);
    }
}

/// p(w | h) of the path's word, over all orders.
pub fn probability(house: &House, prior: &StopPrior, tree: &Tree, path: &Path, scratch: &mut Scratch) -> f64 {
    house.probabilities(tree, path, &mut scratch.words);
    prior.orders(&tree.visits, path, &mut scratch.orders);
    (0..=path.depth()).map(|depth| scratch.orders[depth] * scratch.words[depth]).sum()
}
