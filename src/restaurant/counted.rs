//! What was learned of a hierarchy as it is kept, with every context: those that were cut in training ([`super::lone`]) are
//! there again.
//!
//! A context that one token alone has is a restaurant with one customer at one table. If tokens have orders, one that goes
//! beyond the end of its cut context meets restaurants that nobody has passed: it stops at each with probability
//! alpha / (alpha + beta), and at the end of its whole context for certain. Training needs to know no more than that it goes
//! beyond; where it stops is drawn here.

use serde::{Deserialize, Serialize};

use super::kept::KeptTree;
use super::lone::Rests;
use super::order::StopPrior;
use super::shard::Shard;
use super::tree::{NONE, Tree};
use crate::cluster::rng::Generator;
use crate::math::draws::unit;

/// A tree with its counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    pub tree: KeptTree,
    /// By restaurant: tokens that stop there and that pass, if tokens have orders.
    pub visits: Vec<(u32, u32)>,
    /// By dish.
    pub customers: Vec<u32>,
    pub tables: Vec<u32>,
}

impl Counted {
    /// What a shard has learned; `rests` are what was cut off of its contexts.
    pub fn of(shard: &Shard, rests: &Rests, stop: Option<&StopPrior>, rng: &mut Generator) -> Counted {
        let mut counted = Counted::default();
        let places = Places::new(shard, rests, stop, rng);
        for depth in 0..shard.tree.levels.len() {
            counted.tree.begin_level();
            places.each(depth, |place| match place {
                Place::Above => counted.tree.begin_children(),
                Place::Shared(restaurant) => counted.add(&shard.tree, restaurant),
                Place::Lone { element, outcome, visits } => {
                    counted.tree.push_restaurant(element);
                    counted.visits.extend(visits);
                    counted.push_dish(outcome, 1, 1);
                }
            });
        }
        counted.tree.finish();
        counted
    }

    fn add(&mut self, tree: &Tree, restaurant: u32) {
        self.tree.push_restaurant(tree.elements[restaurant as usize]);
        self.visits.extend(tree.visits.get(restaurant as usize).map(|visits| (visits.stops, visits.passes)));
        dishes(tree, restaurant).for_each(|[outcome, customers, tables]| self.push_dish(outcome, customers, tables));
    }

    pub(super) fn push_dish(&mut self, outcome: u32, customers: u32, tables: u32) {
        self.tree.push_dish(outcome);
        self.customers.push(customers);
        self.tables.push(tables);
    }
}

/// Outcome, customers and tables of the dishes of a restaurant that have customers.
pub(super) fn dishes(tree: &Tree, restaurant: u32) -> impl Iterator<Item = [u32; 3]> + '_ {
    let dish = |dish: u32| {
        let record = tree.dishes[dish as usize];
        [tree.outcomes[dish as usize], record.customers, record.tables]
    };
    tree.dishes_of(restaurant).map(dish).filter(|[_, customers, _]| *customers > 0)
}

/// The orders of all tokens, in their whole contexts.
fn whole_orders(shard: &Shard, rests: &Rests, stop: &StopPrior, rng: &mut Generator) -> Vec<u8> {
    let fresh = stop.alpha / (stop.alpha + stop.beta);
    let mut rest = rests.begin();
    let mut orders = shard.orders().to_vec();
    for ((leaf, is_cut), order) in shard.each_token().zip(&mut orders) {
        if !is_cut {
            continue;
        }
        let end = shard.tree.depth_of(leaf);
        if usize::from(*order) > end {
            let whole = end + rest.length();
            while usize::from(*order) < whole && unit(rng) >= fresh {
                *order += 1;
            }
        }
        rest.advance();
    }
    orders
}

/// A restaurant, in the order of contexts.
pub(super) enum Place {
    /// One of the depth above, whose children come next.
    Above,
    /// One of the tree.
    Shared(u32),
    /// One that a single token has.
    Lone { element: u32, outcome: u32, visits: Option<(u32, u32)> },
}

/// The restaurants of a shard, with those of single tokens.
pub(super) struct Places<'a> {
    shard: &'a Shard,
    rests: &'a Rests,
    /// Of the tokens, if they have any.
    orders: Option<Vec<u8>>,
}

impl<'a> Places<'a> {
    pub fn new(shard: &'a Shard, rests: &'a Rests, stop: Option<&StopPrior>, rng: &mut Generator) -> Places<'a> {
        Places { shard, rests, orders: stop.map(|stop| whole_orders(shard, rests, stop, rng)) }
    }

    /// Shows those of a depth that have customers, in the order of contexts, and each of the depth above before its children.
    pub fn each(&self, depth: usize, mut show: impl FnMut(Place)) {
        let tree = &self.shard.tree;
        let mut rest = self.rests.begin();
        let mut last = [NONE; 2]; // restaurants of the depth above and of this one
        let mut leaf_before = (NONE, 0, [NONE; 2]);
        for (token, (leaf, is_cut)) in self.shard.each_token().enumerate() {
            if leaf_before.0 != leaf {
                leaf_before = self.find(leaf, depth);
            }
            let (_, end, own) = leaf_before;
            let reach = self.orders.as_ref().map_or(usize::MAX, |orders| usize::from(orders[token]));
            let cut = if is_cut { rest.length() } else { 0 };
            if own[0] != last[0] && own[0] != NONE {
                last[0] = own[0];
                show(Place::Above);
            }
            if own[1] != last[1] && own[1] != NONE {
                last[1] = own[1];
                show(Place::Shared(own[1]));
            }
            if depth > end && depth <= end + cut && depth <= reach {
                if depth > end + 1 {
                    show(Place::Above);
                }
                let element = rest.element(depth - end - 1);
                let is_last = depth == reach.min(end + cut);
                let visits = self.orders.as_ref().map(|_| if is_last { (1, 0) } else { (0, 1) });
                show(Place::Lone { element, outcome: tree.outcomes[leaf as usize], visits });
            } else if depth > end + 1 && depth - 1 <= end + cut && depth - 1 <= reach {
                show(Place::Above);
            }
            if is_cut {
                rest.advance();
            }
        }
    }

    /// A leaf, its depth, and the restaurants on its path at the depth above and at `depth`, if they have customers.
    fn find(&self, leaf: u32, depth: usize) -> (u32, usize, [u32; 2]) {
        let tree = &self.shard.tree;
        let end = tree.depth_of(leaf);
        let (mut at, mut dish, mut own) = (end, leaf, [NONE; 2]);
        while at + 1 >= depth {
            let record = tree.dishes[dish as usize];
            let has_customers = tree.restaurants[record.restaurant as usize].customers > 0;
            if at <= depth && has_customers {
                own[usize::from(at == depth)] = record.restaurant;
            }
            if at == 0 {
                break;
            }
            (at, dish) = (at - 1, record.parent);
        }
        (leaf, end, own)
    }
}
