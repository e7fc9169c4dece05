//! The HPYLM as prediction needs it: p(w | h) = s_h(w) + q_h p(w | h'), and what is left of that sum when every word
//! has a factor.
//!
//! s_h(w) = (c - a t) / (C + b) and q_h = (b + a T) / (C + b), for a dish with c customers at t tables in a restaurant
//! with C and T (Noji et al. 2013, eq. 2); a restaurant without customers hands its parent's distribution on. Where the
//! order is infinite, p(w | h) is the mean of these over the lengths of contexts, by p(n | h).

use crate::math::lanes::{Block, LANES, blocks};
use crate::math::pairs;
use crate::restaurant::order::StopPrior;
use crate::restaurant::seating::{DEEPEST, Path};
use crate::restaurant::tree::{Tree, Visits};
use crate::topics::ngram::model::NgramModel;
use crate::topics::ngram::seats::Slot;

/// Seats by dish, and shares of new tables by restaurant.
pub struct BackOff<'a> {
    tree: &'a Tree,
    seats: Vec<f32>,
    shares: Vec<f32>,
    /// p(w) at the root, by outcome.
    root: Vec<Block<f32>>,
    /// Where the order is infinite.
    stop: Option<(StopPrior, &'a [Visits])>,
}

impl BackOff<'_> {
    /// That of a model with one topic over `outcomes` words and ends of sentences.
    pub fn new(model: &NgramModel, outcomes: u32) -> BackOff<'_> {
        let (tree, counts, parameters) = (model.tree(), model.counts(), model.hyperparameters().parameters);
        let (mut seats, mut shares) = (vec![0.0; tree.dishes.len()], vec![1.0; tree.restaurants.len()]);
        for (depth, level) in tree.levels.iter().enumerate() {
            let (a, b) = (parameters.discounts[depth], parameters.strengths[depth]);
            for restaurant in level.restaurants.clone() {
                let Slot { customers, tables, .. } = counts.restaurants.get(restaurant, 0);
                let all = f64::from(customers) + b;
                shares[restaurant as usize] = ((b + a * f64::from(tables)) / all) as f32;
                for dish in tree.dishes_of(restaurant) {
                    let Slot { customers, tables, .. } = counts.dishes.get(dish, 0);
                    seats[dish as usize] = ((f64::from(customers) - a * f64::from(tables)) / all) as f32;
                }
            }
        }
        let top = tree.levels[0].restaurants.start;
        let mut root = vec![Block::default(); blocks(outcomes as usize)];
        let base = shares[top as usize] / outcomes as f32;
        (0..outcomes as usize).for_each(|outcome| root[outcome / LANES].0[outcome % LANES] = base);
        for dish in tree.dishes_of(top) {
            let outcome = tree.outcomes[dish as usize] as usize;
            root[outcome / LANES].0[outcome % LANES] += seats[dish as usize];
        }
        let stop = model.setup().order.stop().map(|stop| (stop, counts.visits.as_slice()));
        BackOff { tree, seats, shares, root, stop }
    }

    /// p(w) at the root.
    pub fn root(&self) -> &[Block<f32>] {
        &self.root
    }

    /// r_w p(w | h) / Z(h) of the token at `leaf`, where `factors` are r, and `sum` is that of r_w p(w) at the root.
    pub fn probability(&self, leaf: u32, factors: &[Block<f32>], sum: f64, path: &mut Path) -> f64 {
        path.find(self.tree, leaf);
        let word = self.tree.outcomes[leaf as usize];
        let mut orders = [0.0; DEEPEST + 1];
        match &self.stop {
            Some((stop, visits)) => stop.orders(visits, path, &mut orders),
            None => orders[path.depth()] = 1.0,
        }
        let (mut probability, mut sum) = (f64::from(at(&self.root, word)), sum);
        let mut means = [orders[0] * probability, orders[0] * sum];
        for (depth, part) in (1..=path.depth()).zip(&orders[1..]) {
            let share = f64::from(self.shares[path.restaurant(depth) as usize]);
            probability = f64::from(self.seats[path.dish(depth) as usize]) + share * probability;
            sum = self.seats_sum(path.restaurant(depth), factors) + share * sum;
            means[0] += part * probability;
            means[1] += part * sum;
        }
        f64::from(at(factors, word)) * means[0] / means[1]
    }

    /// The sum of r_w s_h(w) over the dishes of a restaurant, in four parts that need not wait for each other.
    fn seats_sum(&self, restaurant: u32, factors: &[Block<f32>]) -> f64 {
        let dishes = self.tree.dishes_of(restaurant);
        let dishes = dishes.start as usize..dishes.end as usize;
        let mut parts = [0.0f64; 4];
        let (fours, rest) = self.seats[dishes.clone()].as_chunks::<4>();
        let (outcomes_of_fours, outcomes_of_rest) = self.tree.outcomes[dishes].as_chunks::<4>();
        let mut add = |part: usize, seats: f32, outcome: u32| parts[part] += f64::from(seats * at(factors, outcome));
        pairs::each(fours, outcomes_of_fours, |seats, outcomes| {
            (0..4).for_each(|part| add(part, seats[part], outcomes[part]));
        });
        (0..rest.len()).for_each(|part| add(part, rest[part], outcomes_of_rest[part]));
        (parts[0] + parts[1]) + (parts[2] + parts[3])
    }
}

#[inline(always)]
fn at(blocks: &[Block<f32>], place: u32) -> f32 {
    blocks[place as usize / LANES].0[place as usize % LANES]
}
