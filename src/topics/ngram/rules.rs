//! By which rules customers are seated: discounts and strengths by depth, who sits alone, and the coins' own.

use crate::restaurant::order::StopPrior;
use crate::restaurant::parameters::Parameters;
use crate::restaurant::seating::{House, Path};
use crate::restaurant::stirling::Alone;
use crate::restaurant::tree::Tree;

use super::counts::{Counts, Form};
use super::seats::{Slot, Weights};

/// Discounts and strengths by depth, and who sits alone, for all topics.
#[derive(Clone, Debug)]
pub struct Rules {
    pub form: Form,
    pub parameters: Parameters,
    pub alone: Vec<Alone>,
    /// p(w) below the root, all words being equal.
    pub base: f64,
    /// Those of the coins.
    pub coins: House,
    /// Of stopping at a context, where the order is infinite.
    pub stop: Option<StopPrior>,
    /// Whether every table that opens goes up, in HIERARCHICAL: while the first customers come.
    pub all_go_up: bool,
}

impl Rules {
    pub fn new(form: Form, parameters: Parameters, coins: Parameters, base: f64, stop: Option<StopPrior>) -> Rules {
        let alone = parameters.discounts.iter().map(|&discount| Alone::new(discount)).collect();
        Rules { form, parameters, alone, base, coins: House::new(coins, 0.5), stop, all_go_up: false }
    }

    pub fn set_parameters(&mut self, parameters: Parameters, coins: Parameters) {
        let discounts = self.alone.iter_mut().zip(&parameters.discounts);
        discounts.for_each(|(alone, &discount)| alone.set_discount(discount));
        self.parameters = parameters;
        self.coins.set_parameters(coins);
    }

    /// Makes what probabilities are made of from the counts, everywhere: after counts or parameters were set.
    pub fn prepare(&self, tree: &Tree, counts: &mut Counts) {
        for (depth, level) in tree.levels.iter().enumerate() {
            for place in level.restaurants.clone() {
                counts.restaurants.slots(place).for_each(|room| self.prepare_one(counts, depth, room));
            }
        }
    }

    /// The same of one topic's restaurant.
    #[inline(always)]
    pub fn prepare_one(&self, counts: &mut Counts, depth: usize, room: usize) {
        let (a, b) = (self.parameters.discounts[depth], self.parameters.strengths[depth]);
        let seats = &mut counts.restaurants;
        let Slot { customers, tables, .. } = seats.at[room];
        let inverse = 1.0 / (f64::from(customers) + b);
        let share = (b + a * f64::from(tables)) * inverse;
        seats.weights[room] = Weights { share: share as f32, inverse: inverse as f32 };
    }

    /// p_k(w | h) at a depth of the path, where that of the distribution it leans on is `below`.
    #[inline(always)]
    pub fn probability(&self, counts: &Counts, path: &Path, depth: usize, topic: usize, below: f64) -> f64 {
        let Some(room) = counts.restaurants.find(path.restaurant(depth), topic) else { return below };
        let a = self.parameters.discounts[depth];
        let seats = match counts.dishes.find(path.dish(depth), topic) {
            Some(slot) => {
                let Slot { customers, tables, .. } = counts.dishes.at[slot];
                f64::from(customers) - a * f64::from(tables)
            }
            None => 0.0,
        };
        let Weights { share, inverse } = counts.restaurants.weights[room];
        seats * f64::from(inverse) + f64::from(share) * below
    }
}
