//! Customers of topics come and go, on the path that a [`Descent`] stands at.
//!
//! As [`crate::restaurant::seating`], for one of many topics. In HIERARCHICAL a table that opens is labelled by where its
//! dish came from, up or across (Noji et al. 2013, section 4.1), and its label is thrown into the coin of the context.
//! Only counts are kept: of t tables, `ups` went up, and given (c, t, ups) a table that closes went up with probability
//! ups / t, since labels do not depend on who sits at a table.
//!
//! **What is approximate in HIERARCHICAL**, here as in the paper: all choices of one customer on its way up are drawn
//! against the coins as they stood before it came, although the first label that it throws changes the later ones' odds.
//! The test of the sampler against enumeration says how little that is.

use super::counts::{Counts, Form};
use super::descent::Descent;
use super::rules::Rules;
use super::seats::Slot;
use crate::cluster::rng::Generator;
use crate::math::draws::unit;
use crate::restaurant::seating::Path;

/// What a customer has changed on its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The depth nearest to the root at which probabilities of the customer's topic have changed.
    pub depth: usize,
    /// Whether those of other topics have changed too, at any depth.
    pub others: bool,
}

impl Rules {
    /// Seats a customer of `topic` at a depth of the path. `changed` is shown each dish whose tables change.
    #[inline(always)]
    pub fn add(
        &self,
        counts: &mut Counts,
        descent: &Descent,
        topic: usize,
        depth: usize,
        changed: &mut impl FnMut(u32),
        rng: &mut Generator,
    ) -> Touched {
        for at in (0..=depth).rev() {
            let (up, across) = (descent.up(self, topic, at), descent.across(topic, at));
            if !self.sit(counts, &descent.path, topic, at, up + across, rng) {
                return Touched { depth: at, others: self.has_labels(topic) && at < depth };
            }
            changed(descent.path.dish(at));
            if self.has_labels(topic) && !self.label(counts, descent, topic, at, up, across, changed, rng) {
                return Touched { depth: 0, others: true };
            }
        }
        Touched { depth: 0, others: self.has_labels(topic) }
    }

    /// Takes away a customer of `topic` at a depth of the path.
    #[inline(always)]
    pub fn remove(
        &mut self,
        counts: &mut Counts,
        descent: &Descent,
        topic: usize,
        depth: usize,
        changed: &mut impl FnMut(u32),
        rng: &mut Generator,
    ) -> Touched {
        for at in (0..=depth).rev() {
            let Some(goes_up) = self.leave(counts, &descent.path, topic, at, rng) else {
                return Touched { depth: at, others: self.has_labels(topic) && at < depth };
            };
            changed(descent.path.dish(at));
            if self.has_labels(topic) && !self.unlabel(counts, descent, at, goes_up, changed, rng) {
                return Touched { depth: 0, others: true };
            }
        }
        Touched { depth: 0, others: self.has_labels(topic) }
    }

    /// Whether tables of a topic have labels.
    #[inline(always)]
    pub fn has_labels(&self, topic: usize) -> bool {
        self.form == Form::Hierarchical && topic > 0
    }

    /// Draws and notes the label of a table that was opened; returns whether it goes up. One that goes across is a
    /// customer of the global model.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // of one table: what it is, and where it may have come from
    pub fn label(
        &self,
        counts: &mut Counts,
        descent: &Descent,
        topic: usize,
        depth: usize,
        up: f64,
        across: f64,
        changed: &mut impl FnMut(u32),
        rng: &mut Generator,
    ) -> bool {
        let goes_up = self.all_go_up || unit(rng) * (up + across) < up;
        self.throw(counts, descent, goes_up, depth, rng);
        if goes_up {
            let slot = counts.dishes.find(descent.path.dish(depth), topic).expect("the table's dish");
            counts.dishes.at[slot].ups += 1;
        } else {
            self.add_global(counts, descent, depth, changed, rng);
        }
        goes_up
    }

    /// Takes back the label of a table that is gone; returns whether it went up.
    #[inline(always)]
    pub fn unlabel(
        &mut self,
        counts: &mut Counts,
        descent: &Descent,
        depth: usize,
        goes_up: bool,
        changed: &mut impl FnMut(u32),
        rng: &mut Generator,
    ) -> bool {
        self.take_back(counts, descent, goes_up, depth, rng);
        if !goes_up {
            self.remove_global(counts, descent, depth, changed, rng);
        }
        goes_up
    }

    /// Seats a customer of the global model.
    fn add_global(
        &self,
        counts: &mut Counts,
        descent: &Descent,
        depth: usize,
        changed: &mut impl FnMut(u32),
        rng: &mut Generator,
    ) {
        for at in (0..=depth).rev() {
            if !self.sit(counts, &descent.path, 0, at, descent.up(self, 0, at), rng) {
                return;
            }
            changed(descent.path.dish(at));
        }
    }

    fn remove_global(
        &mut self,
        counts: &mut Counts,
        descent: &Descent,
        depth: usize,
        changed: &mut impl FnMut(u32),
        rng: &mut Generator,
    ) {
        for at in (0..=depth).rev() {
            if self.leave(counts, &descent.path, 0, at, rng).is_none() {
                return;
            }
            changed(descent.path.dish(at));
        }
    }

    /// Throws a coin of the path's context at a depth: it shows yes or no.
    #[inline(always)]
    pub fn throw(&self, counts: &mut Counts, descent: &Descent, yes: bool, depth: usize, rng: &mut Generator) {
        let side = usize::from(yes);
        let (path, probabilities) = (&descent.coin[side], &descent.sides[side]);
        self.coins.add(&mut counts.coins, path, depth, probabilities, &mut |_, _| (), rng);
    }

    /// Takes back a coin that was thrown.
    #[inline(always)]
    pub fn take_back(&mut self, counts: &mut Counts, descent: &Descent, yes: bool, depth: usize, rng: &mut Generator) {
        self.coins.remove(&mut counts.coins, &descent.coin[usize::from(yes)], depth, &mut |_, _| (), rng);
    }

    /// Seats a customer in one restaurant; returns whether a table was opened. `below` is the probability of its dish
    /// there.
    #[inline(always)]
    fn sit(
        &self,
        counts: &mut Counts,
        path: &Path,
        topic: usize,
        depth: usize,
        below: f64,
        rng: &mut Generator,
    ) -> bool {
        let (a, b) = (self.parameters.discounts[depth], self.parameters.strengths[depth]);
        let slot = counts.dishes.open(path.dish(depth), topic);
        let room = counts.restaurants.open(path.restaurant(depth), topic);
        let (dish, restaurant) = (&mut counts.dishes.at[slot], &mut counts.restaurants.at[room]);
        let opens = dish.customers == 0 || {
            let seats = f64::from(dish.customers) - a * f64::from(dish.tables);
            let new = (b + a * f64::from(restaurant.tables)) * below;
            unit(rng) * (seats + new) < new
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
    fn leave(
        &mut self,
        counts: &mut Counts,
        path: &Path,
        topic: usize,
        depth: usize,
        rng: &mut Generator,
    ) -> Option<bool> {
        let (place, hall) = (path.dish(depth), path.restaurant(depth));
        let slot = counts.dishes.find(place, topic).expect("a customer of the topic");
        let room = counts.restaurants.find(hall, topic).expect("a customer of the topic");
        let (dish, restaurant) = (&mut counts.dishes.at[slot], &mut counts.restaurants.at[room]);
        let Slot { customers, tables, .. } = *dish;
        let closes = match tables {
            _ if tables == customers => true,
            1 => false,
            _ => unit(rng) < self.alone[depth].probability(customers, tables),
        };
        dish.customers -= 1;
        restaurant.customers -= 1;
        let mut went_up = true;
        if closes {
            dish.tables -= 1;
            restaurant.tables -= 1;
            if self.form == Form::Hierarchical && topic > 0 {
                went_up = unit(rng) * f64::from(tables) < f64::from(dish.ups);
                dish.ups -= u32::from(went_up);
            }
        }
        self.prepare_one(counts, depth, room);
        counts.dishes.close(place, slot);
        counts.restaurants.close(hall, room);
        closes.then_some(went_up)
    }
}
