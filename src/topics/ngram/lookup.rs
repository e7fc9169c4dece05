//! A kept model, to be asked: p_k(w | h) of any word after any words, for all topics at once.
//!
//! The counts are put back into the lists that training has, so that it is the same [`Descent`] which looks up. A context
//! or a dish that the model does not have is the one place of each kind that nobody ever comes to: there every topic
//! passes on the probability of the shorter context. So a path may end where its context does, but in HIERARCHICAL: there
//! a topic leans on the global model once more at every depth, with customers or without.

use super::counts::{Counts, Form};
use super::descent::Descent;
use super::documents::Alpha;
use super::kept::Kept;
use super::rules::Rules;
use super::seats::{Entry, Seats};
use crate::lm::text::{BEGIN, END, Symbols};
use crate::math::lanes::Block;
use crate::restaurant::order::StopPrior;
use crate::restaurant::tree::{Dish, NONE, Restaurant, Tree, Visits};

/// A model to be asked.
pub struct TopicNgrams {
    pub kept: Kept,
    pub symbols: Symbols,
    pub alpha: Alpha,
    counts: Counts,
    rules: Rules,
}

impl TopicNgrams {
    pub fn new(kept: Kept) -> TopicNgrams {
        let symbols = Symbols::new(&kept.vocabulary);
        let stop = kept.stop.map(|[alpha, beta]| StopPrior { alpha, beta });
        let base = 1.0 / f64::from(symbols.outcomes());
        let rules = Rules::new(kept.form, kept.parameters.clone(), kept.coins.clone(), base, stop);
        let mut counts = Counts {
            dishes: dish_seats(&kept),
            restaurants: restaurant_seats(&kept),
            coins: coins(&kept),
            visits: kept.visits.iter().map(|&[stops, passes]| Visits { stops, passes }).collect(),
        };
        if stop.is_some() {
            counts.visits.push(Visits::default());
        }
        for depth in 0..=kept.depth() {
            for restaurant in kept.tree.level(depth) {
                let rooms = counts.restaurants.slots(restaurant as u32);
                rooms.for_each(|room| rules.prepare_one(&mut counts, depth, room));
            }
        }
        TopicNgrams { alpha: Alpha::new(&kept.alpha, kept.form), symbols, counts, rules, kept }
    }

    /// The counts of all topics.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The word of an outcome or of an element of a context.
    pub fn word(&self, symbol: u32) -> &str {
        match symbol {
            symbol if symbol == self.symbols.end => END,
            symbol if symbol == self.symbols.begin => BEGIN,
            symbol => self.kept.vocabulary.word(symbol),
        }
    }
}

/// Lists by dish, and one that nobody is on.
fn dish_seats(kept: &Kept) -> Seats {
    let dishes = 0..kept.tree.all_dishes();
    let mut seats = Seats::new(kept.all_topics(), dishes.clone().map(|dish| kept.list(dish).len() as u32).chain([0]));
    for dish in dishes {
        let entry = |&(topic, customers, tables): &(u16, u32, u32)| entry(topic, customers, tables);
        seats.rewrite(dish as u32, &kept.list(dish).iter().map(entry).collect::<Vec<Entry>>());
    }
    seats
}

fn entry(topic: u16, customers: u32, tables: u32) -> Entry {
    Entry { topic, customers: i64::from(customers), tables: i64::from(tables), ups: 0 }
}

/// The same by restaurant: the sums over its dishes.
fn restaurant_seats(kept: &Kept) -> Seats {
    let mut sums = vec![(0, 0); kept.all_topics()];
    let mut lists = Vec::with_capacity(kept.tree.restaurants());
    for restaurant in 0..kept.tree.restaurants() {
        sums.fill((0, 0));
        for &(topic, customers, tables) in kept.tree.dishes(restaurant).flat_map(|dish| kept.list(dish)) {
            let sum = &mut sums[usize::from(topic)];
            *sum = (sum.0 + customers, sum.1 + tables);
        }
        let there = (0..).zip(&sums).filter(|(_, (customers, _))| *customers > 0);
        lists.push(there.map(|(topic, &(c, t))| entry(topic, c, t)).collect::<Vec<Entry>>());
    }
    let lengths = lists.iter().map(|list| list.len() as u32).chain([0]);
    let mut seats = Seats::new(kept.all_topics(), lengths).with_weights();
    (0..).zip(&lists).for_each(|(restaurant, list)| seats.rewrite(restaurant, list));
    seats
}

/// The coins' restaurants, and one whose coin was never thrown.
fn coins(kept: &Kept) -> Tree {
    let mut tree = Tree::default();
    if !kept.form.has_global() {
        return tree;
    }
    for (restaurant, &throws) in (0..).zip(kept.throws.iter().chain([&[0, 0]])) {
        tree.restaurants.push(Restaurant { customers: throws.iter().sum(), tables: 0 });
        tree.dishes.extend(throws.map(|customers| Dish { customers, tables: 0, parent: NONE, restaurant }));
    }
    tree
}

/// Who asks.
pub struct Lookup<'m> {
    model: &'m TopicNgrams,
    pub descent: Descent,
}

impl<'m> Lookup<'m> {
    pub fn new(model: &'m TopicNgrams) -> Lookup<'m> {
        let kept = &model.kept;
        Lookup { model, descent: Descent::new(kept.form, kept.all_topics(), kept.depth()) }
    }

    /// What a document weighs for `outcome` after `history`, nearest word first: [`Descent::mix`].
    pub fn look(&mut self, history: &[u32], outcome: u32) -> &[Block<f32>] {
        self.go(history, outcome);
        self.descent.mix()
    }

    /// Goes down to the dish of `outcome` after `history`.
    pub fn go(&mut self, history: &[u32], outcome: u32) {
        let TopicNgrams { kept, counts, rules, .. } = self.model;
        let (nobody, nowhere) = (kept.tree.all_dishes() as u32, kept.tree.restaurants() as u32);
        let place = |restaurant: Option<usize>| {
            let dish = restaurant.and_then(|restaurant| kept.tree.find_dish(restaurant, outcome));
            (dish.map_or(nobody, |dish| dish as u32), restaurant.map_or(nowhere, |number| number as u32))
        };
        let mut context = Some(0);
        let longer = history.iter().take(kept.depth()).map_while(|&element| {
            context = context.and_then(|restaurant| kept.tree.find_child(restaurant, element));
            (context.is_some() || kept.form == Form::Hierarchical).then(|| place(context))
        });
        self.descent.go_along([place(Some(0))].into_iter().chain(longer));
        self.descent.look(counts, rules);
    }
}
