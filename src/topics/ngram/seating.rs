//! Customers of topics come and go, on the path that a [`Descent`] stands at.
//!
//! As [`crate::restaurant::seating`], for one of many topics. Topics whose tables have labels, in HIERARCHICAL, are the
//! matter of [`super::ascent`].

use super::counts::{Counts, Form};
use super::descent::Descent;
use super::rules::Rules;
use super::seats::Slot;
use crate::restaurant::chance::Chance;
use crate::restaurant::seating::Path;

/// What a customer has changed on its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The depth nearest to the root at which probabilities of the customer's topic have changed.
    pub depth: usize,
    /// The same of other topics; below all contexts where theirs are as they were.
    pub others: usize,
}

/// Below all contexts.
pub(super) const NOWHERE: usize = usize::MAX;

impl Rules {
    /// Seats a customer of `topic`, which has no labels, at a depth of the path. `changed` is shown each dish whose tables
    /// change.
    #[inline(always)]
    pub fn add(
        &self,
        counts: &mut Counts,
        descent: &Descent,
        topic: usize,
        depth: usize,
        changed: &mut impl FnMut(u32),
        chance: &mut impl Chance,
    ) -> Touched {
        let tables = self.enter(counts, descent, topic, depth, changed, chance);
        Touched { depth: depth.saturating_sub(tables), others: NOWHERE }
    }

    /// The same; returns how many tables were opened.
    #[inline(always)]
    pub(super) fn enter(
        &self,
        counts: &mut Counts,
        descent: &Descent,
        topic: usize,
        depth: usize,
        changed: &mut impl FnMut(u32),
        chance: &mut impl Chance,
    ) -> usize {
        for at in (0..=depth).rev() {
            if !self.sit(counts, &descent.path, topic, at, descent.up(self, topic, at), chance) {
                return depth - at;
            }
            changed(descent.path.dish(at));
        }
        depth + 1
    }

    /// Takes away a customer of `topic`, which has no labels, at a depth of the path.
    #[inline(always)]
    pub fn remove(
        &mut self,
        counts: &mut Counts,
        descent: &Descent,
        topic: usize,
        depth: usize,
        changed: &mut impl FnMut(u32),
        chance: &mut impl Chance,
    ) -> Touched {
        let tables = self.exit(counts, descent, topic, depth, changed, chance);
        Touched { depth: depth.saturating_sub(tables), others: NOWHERE }
    }

    /// The same; returns how many tables were closed.
    #[inline(always)]
    pub(super) fn exit(
        &mut self,
        counts: &mut Counts,
        descent: &Descent,
        topic: usize,
        depth: usize,
        changed: &mut impl FnMut(u32),
        chance: &mut impl Chance,
    ) -> usize {
        for at in (0..=depth).rev() {
            if self.leave(counts, &descent.path, topic, at, chance).is_none() {
                return depth - at;
            }
            changed(descent.path.dish(at));
        }
        depth + 1
    }

    /// Whether tables of a topic have labels.
    #[inline(always)]
    pub fn has_labels(&self, topic: usize) -> bool {
        self.form == Form::Hierarchical && topic > 0
    }

    /// Throws a coin of the path's context at a depth: it shows yes or no.
    #[inline(always)]
    pub fn throw(&self, counts: &mut Counts, descent: &Descent, yes: bool, depth: usize, chance: &mut impl Chance) {
        let side = usize::from(yes);
        let (path, probabilities) = (&descent.coin[side], &descent.sides[side]);
        self.coins.add(&mut counts.coins, path, depth, probabilities, &mut |_, _| (), chance);
    }

    /// Takes back a coin that was thrown.
    #[inline(always)]
    pub fn take_back(
        &mut self,
        counts: &mut Counts,
        descent: &Descent,
        yes: bool,
        depth: usize,
        chance: &mut impl Chance,
    ) {
        self.coins.remove(&mut counts.coins, &descent.coin[usize::from(yes)], depth, &mut |_, _| (), chance);
    }

    /// Seats a customer in one restaurant; returns whether a table was opened. `below` is the probability of its dish
    /// there.
    #[inline(always)]
    pub(super) fn sit(
        &self,
        counts: &mut Counts,
        path: &Path,
        topic: usize,
        depth: usize,
        below: f64,
        chance: &mut impl Chance,
    ) -> bool {
        let (a, b) = (self.parameters.discounts[depth], self.parameters.strengths[depth]);
        let slot = counts.dishes.open(path.dish(depth), topic);
        let room = counts.restaurants.open(path.restaurant(depth), topic);
        let (dish, restaurant) = (&mut counts.dishes.at[slot], &mut counts.restaurants.at[room]);
        let opens = dish.customers == 0 || {
            let seats = f64::from(dish.customers) - a * f64::from(dish.tables);
            let new = (b + a * f64::from(restaurant.tables)) * below;
            chance.is_within(new, seats + new)
        };
        dish.customers += 1;
        restaurant.customers += 1;
        dish.tables += u32::from(opens);
        restaurant.tables += u32::from(opens);
        self.prepare_one(counts, depth, room);
        opens
    }

    /// Takes a customer away from one restaurant. Where a table closes, returns whether it had gone up.
    #[inline(always)]
    pub(super) fn leave(
        &mut self,
        counts: &mut Counts,
        path: &Path,
        topic: usize,
        depth: usize,
        chance: &mut impl Chance,
    ) -> Option<bool> {
        let (place, hall) = (path.dish(depth), path.restaurant(depth));
        let slot = counts.dishes.find(place, topic).expect("a customer of the topic");
        let room = counts.restaurants.find(hall, topic).expect("a customer of the topic");
        let (dish, restaurant) = (&mut counts.dishes.at[slot], &mut counts.restaurants.at[room]);
        let Slot { customers, tables, .. } = *dish;
        let closes = chance.was_alone(&mut self.alone[depth], customers, tables);
        dish.customers -= 1;
        restaurant.customers -= 1;
        let mut went_up = true;
        if closes {
            dish.tables -= 1;
            restaurant.tables -= 1;
            if self.has_labels(topic) {
                went_up = chance.is_within(f64::from(dish.ups), f64::from(tables));
                dish.ups -= u32::from(went_up);
            }
        }
        self.prepare_one(counts, depth, room);
        counts.dishes.close(place, slot);
        counts.restaurants.close(hall, room);
        closes.then_some(went_up)
    }
}
