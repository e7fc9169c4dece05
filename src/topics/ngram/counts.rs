//! What the topics of all tokens come to: customers and tables of every topic's restaurants, on one tree.
//!
//! Topic k has a restaurant of its own for every context h, with the shorter context h' (Noji et al. 2013):
//!
//! ```text
//! G^k_h ~ PYP(a_|h|, b_|h|, G^k_h')                                               HPYTM (section 2.2), SWITCHING (3.2)
//! G^k_h ~ PYP(a_|h|, b_|h|, lambda_h G^k_h' + (1 - lambda_h) G^0_h)    k > 0      HIERARCHICAL (eq. 3)
//! lambda_h ~ DP(gamma_|h|, lambda_h'), lambda at the root ~ DP(gamma_0, 1/2)      SWITCHING, HIERARCHICAL (eq. 5)
//! ```
//!
//! The trees of all topics have the same shape, so there is one tree, and at each of its dishes and restaurants a list of
//! the topics that have customers there. A topic without customers in a restaurant passes its parent's probability on
//! unchanged, so lists are all that has to be looked at.
//!
//! Topic 0 is the global one, where there is one. lambda_h is a coin: a restaurant with the dishes "no" and "yes". In
//! SWITCHING it says, for every token, whether it has a topic of its document's (yes) or is of topic 0 (no). In
//! HIERARCHICAL it says, for every table of a topic, whether its dish came from the topic's shorter context (yes: the
//! table goes up) or from the global model in the same context (no: it goes across).
//!
//! Where the order is infinite, [`Counts::visits`] has how many tokens stop at a context and how many go on, whatever
//! their topic ([`crate::restaurant::order`]).

use serde::{Deserialize, Serialize};

use crate::restaurant::merge::visit;
use crate::restaurant::tree::{Tree, Visits};

use super::seats::Seats;

/// Memory of a restaurant and a dish in a tree.
const RESTAURANT_BYTES: usize = 16;
const DISH_BYTES: usize = 20;

/// How topics and the global model come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    Hpytm,
    Hierarchical,
    Switching,
}

impl Form {
    /// Whether topic 0 is the global one, outside of documents' topics.
    pub fn has_global(self) -> bool {
        self != Form::Hpytm
    }

    /// For how many topics a place needs room that so many tokens pass.
    pub fn room(self, tokens: u32) -> u32 {
        // In HIERARCHICAL a token's topic may have sent a table across to the global one.
        if tokens == 0 { 0 } else { tokens + u32::from(self == Form::Hierarchical) }
    }
}

/// Customers and tables by dish and topic, and by restaurant and topic; and the coins' restaurants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    pub dishes: Seats,
    pub restaurants: Seats,
    /// Dish 2 r is "no", 2 r + 1 is "yes" in restaurant r; empty where the model has no coins.
    pub coins: Tree,
    /// By restaurant; empty where the order is fixed.
    pub visits: Vec<Visits>,
}

impl Counts {
    /// Nobody yet. `tokens` are those that pass each dish.
    pub fn new(tree: &Tree, form: Form, topics: usize, tokens: &[u32], is_infinite: bool) -> Counts {
        let mut passing = vec![0; tree.restaurants.len()];
        tree.dishes.iter().zip(tokens).for_each(|(dish, &tokens)| passing[dish.restaurant as usize] += tokens);
        Counts {
            dishes: Seats::new(topics, tokens.iter().map(|&tokens| form.room(tokens))),
            restaurants: Seats::new(topics, passing.into_iter().map(|tokens| form.room(tokens))).with_weights(),
            coins: if form.has_global() { tree.with_dishes(2) } else { Tree::default() },
            visits: vec![Visits::default(); if is_infinite { tree.restaurants.len() } else { 0 }],
        }
    }

    /// Notes that `tokens` more stop at a dish, where the order is infinite.
    #[inline]
    pub fn visit(&mut self, tree: &Tree, dish: u32, tokens: i32) {
        if !self.visits.is_empty() {
            visit(&tree.dishes, &mut self.visits, dish, tokens);
        }
    }

    /// Restaurants of any topic that have customers: the nodes of the paper's section 6.3.
    pub fn nodes(&self, restaurants: impl Iterator<Item = u32>) -> usize {
        restaurants.map(|place| self.restaurants.list(place).count()).sum()
    }

    /// Bytes of memory of these restaurants and dishes, the tree included.
    pub fn bytes_of(&self, restaurants: impl Iterator<Item = u32>, dishes: impl Iterator<Item = u32>) -> usize {
        // A coin is a restaurant with two dishes.
        let coins = if self.coins.dishes.is_empty() { 0 } else { RESTAURANT_BYTES + 2 * DISH_BYTES };
        let visits = if self.visits.is_empty() { 0 } else { size_of::<Visits>() };
        let of_restaurants = restaurants.map(|place| RESTAURANT_BYTES + coins + visits + self.restaurants.bytes(place));
        of_restaurants.sum::<usize>() + dishes.map(|dish| DISH_BYTES + self.dishes.bytes(dish)).sum::<usize>()
    }
}
