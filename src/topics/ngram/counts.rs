//! What the topics of all tokens come to: customers and tables of every topic's restaurants, on one tree.
//!
//! Topic k has a restaurant of its own for every context, G^k_h ~ PYP(a_|h|, b_|h|, G^k_h') (Noji et al. 2013, section 2.2).
//! The trees of all topics have the same shape, so there is one tree, and at each of its dishes and restaurants a list of
//! the topics that have customers there. A topic without customers in a restaurant passes its parent's probability on
//! unchanged, so lists are all that has to be looked at.
//!
//! In the SWITCHING model (section 3.2) topic 0 is the global one, and every context has a coin lambda_h that says
//! whether the next word has a topic: lambda_h ~ DP(gamma_|h|, lambda_h'), a restaurant with the two dishes "no" and "yes".

use crate::cluster::rng::Generator;
use crate::math::draws::unit;
use crate::restaurant::parameters::Parameters;
use crate::restaurant::seating::{DEEPEST, House, Path};
use crate::restaurant::stirling::Alone;
use crate::restaurant::tree::Tree;

use super::seats::Seats;

/// Customers and tables by dish and topic, and by restaurant and topic; and the coins' restaurants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    pub dishes: Seats,
    pub restaurants: Seats,
    /// Dish 2 r is "no", 2 r + 1 is "yes" in restaurant r; empty where the model has no coins.
    pub coins: Tree,
}

impl Counts {
    /// Nobody yet. `tokens` are those that pass each dish.
    pub fn new(tree: &Tree, topics: usize, tokens: &[u32], has_coins: bool) -> Counts {
        let mut passing = vec![0; tree.restaurants.len()];
        tree.dishes.iter().zip(tokens).for_each(|(dish, &tokens)| passing[dish.restaurant as usize] += tokens);
        Counts {
            dishes: Seats::new(topics, tokens),
            restaurants: Seats::new(topics, &passing).with_shares(),
            coins: if has_coins { tree.with_dishes(2) } else { Tree::default() },
        }
    }

    /// Takes the counts of `other`, which has the same shape, into the space that is there.
    pub fn copy_from(&mut self, other: &Counts) {
        self.dishes.copy_from(&other.dishes);
        self.restaurants.copy_from(&other.restaurants);
        self.coins.dishes.clone_from(&other.coins.dishes);
        self.coins.restaurants.clone_from(&other.coins.restaurants);
    }
}

/// Discounts and strengths by depth, and who sits alone, for all topics.
#[derive(Clone, Debug)]
pub struct Rules {
    pub parameters: Parameters,
    pub alone: Vec<Alone>,
    pub base: f64,
    /// Those of the coins.
    pub coins: House,
}

impl Rules {
    pub fn new(parameters: Parameters, coins: Parameters, base: f64) -> Rules {
        let alone = parameters.discounts.iter().map(|&discount| Alone::new(discount)).collect();
        Rules { parameters, alone, base, coins: House::new(coins, 0.5) }
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

    #[inline(always)]
    fn prepare_one(&self, counts: &mut Counts, depth: usize, room: usize) {
        let (a, b) = (self.parameters.discounts[depth], self.parameters.strengths[depth]);
        let seats = &mut counts.restaurants;
        let inverse = 1.0 / (f64::from(seats.customers[room]) + b);
        seats.shares[room] = ((b + a * f64::from(seats.tables[room])) * inverse) as f32;
        seats.inverses[room] = inverse as f32;
    }

    /// p_k(w | h) at a depth of the path, where the parent's is `below`.
    #[inline]
    pub fn probability(&self, counts: &Counts, path: &Path, depth: usize, topic: usize, below: f64) -> f64 {
        let Some(room) = counts.restaurants.find(path.restaurant(depth), topic) else { return below };
        let a = self.parameters.discounts[depth];
        let seats = match counts.dishes.find(path.dish(depth), topic) {
            Some(slot) => f64::from(counts.dishes.customers[slot]) - a * f64::from(counts.dishes.tables[slot]),
            None => 0.0,
        };
        seats * f64::from(counts.restaurants.inverses[room]) + f64::from(counts.restaurants.shares[room]) * below
    }

    /// Seats a customer of `topic` at the end of the path; `below[d]` is p_k(w | h) at depth d. Returns the highest depth
    /// (nearest to the root) whose counts have changed.
    #[inline]
    pub fn add(
        &self,
        counts: &mut Counts,
        path: &Path,
        topic: usize,
        below: &[f64; DEEPEST + 1],
        changed: &mut impl FnMut(u32),
        rng: &mut Generator,
    ) -> usize {
        for depth in (0..=path.depth()).rev() {
            let below = if depth == 0 { self.base } else { below[depth - 1] };
            let (a, b) = (self.parameters.discounts[depth], self.parameters.strengths[depth]);
            let slot = counts.dishes.open(path.dish(depth), topic);
            let room = counts.restaurants.open(path.restaurant(depth), topic);
            let (customers, tables) = (counts.dishes.customers[slot], counts.dishes.tables[slot]);
            let opens = customers == 0 || {
                let seats = f64::from(customers) - a * f64::from(tables);
                let new = (b + a * f64::from(counts.restaurants.tables[room])) * below;
                unit(rng) * (seats + new) < new
            };
            counts.dishes.customers[slot] += 1;
            counts.restaurants.customers[room] += 1;
            counts.dishes.tables[slot] += u32::from(opens);
            counts.restaurants.tables[room] += u32::from(opens);
            self.prepare_one(counts, depth, room);
            if !opens {
                return depth;
            }
            changed(path.dish(depth));
        }
        0
    }

    /// Takes away a customer of `topic` at the end of the path. Returns the highest depth whose counts have changed.
    #[inline]
    pub fn remove(
        &mut self,
        counts: &mut Counts,
        path: &Path,
        topic: usize,
        changed: &mut impl FnMut(u32),
        rng: &mut Generator,
    ) -> usize {
        for depth in (0..=path.depth()).rev() {
            let (place, hall) = (path.dish(depth), path.restaurant(depth));
            let slot = counts.dishes.find(place, topic).expect("a customer of the topic");
            let room = counts.restaurants.find(hall, topic).expect("a customer of the topic");
            let (customers, tables) = (counts.dishes.customers[slot], counts.dishes.tables[slot]);
            let closes = match tables {
                _ if tables == customers => true,
                1 => false,
                _ => unit(rng) < self.alone[depth].probability(customers, tables),
            };
            counts.dishes.customers[slot] -= 1;
            counts.restaurants.customers[room] -= 1;
            if closes {
                counts.dishes.tables[slot] -= 1;
                counts.restaurants.tables[room] -= 1;
                changed(place);
            }
            self.prepare_one(counts, depth, room);
            counts.dishes.close(place, slot);
            counts.restaurants.close(hall, room);
            if !closes {
                return depth;
            }
        }
        0
    }
}
