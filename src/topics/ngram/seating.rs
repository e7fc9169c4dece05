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
    /// The same of other topics; below all contexts where theirs are as they were.
    pub others: usize,
}

const NOWHERE: usize = usize::MAX;

impl Touched {
    /// What two have changed together.
    pub fn and(self, more: Touched) -> Touched {
        Touched { depth: self.depth.min(more.depth), others: self.others.min(more.others) }
    }
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
        let mut others = NOWHERE;
        for at in (0..=depth).rev() {
            let (up, across) = (descent.up(self, topic, at), descent.across(topic, at));
            if !self.sit(counts, &descent.path, topic, at, up + across, rng) {
                return Touched { depth: at, others };
            }
            changed(descent.path.dish(at));
            if self.has_labels(topic) {
                let (goes_up, touched) = self.label(counts, descent, topic, at, up, across, changed, rng);
                others = others.min(touched);
                if !goes_up {
                    return Touched { depth: at, others };
                }
            }
        }
        Touched { depth: 0, others }
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
        let mut others = NOWHERE;
        for at in (0..=depth).rev() {
            let Some(goes_up) = self.leave(counts, &descent.path, topic, at, rng) else {
                return Touched { depth: at, others };
            };
            changed(descent.path.dish(at));
            if self.has_labels(topic) {
                others = others.min(self.unlabel(counts, descent, at, goes_up, changed, rng));
                if !goes_up {
                    return Touched { depth: at, others };
                }
            }
        }
        Touched { depth: 0, others }
    }

    /// Whether tables of a topic have labels.
    #[inline(always)]
    pub fn has_labels(&self, topic: usize) -> bool {
        self.form == Form::Hierarchical && topic > 0
    }

    /// Draws and notes the label of a table that was opened; returns whether it goes up, and the depth nearest to the root at
    /// which coins or the global model have changed. A table that goes across is a customer of the global model.
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
    ) -> (bool, usize) {
        let goes_up = self.all_go_up || unit(rng) * (up + across) < up;
        let mut touched = self.throw(counts, descent, goes_up, depth, rng);
        if goes_up {
            let slot = counts.dishes.find(descent.path.dish(depth), topic).expect("the table's dish");
            counts.dishes.at[slot].ups += 1;
        } else {
            touched = touched.min(self.add_global(counts, descent, depth, changed, rng));
        }
        (goes_up, touched)
    }

    /// Takes back the label of a table that is gone; returns as [`Rules::label`] does what has changed.
    #[inline(always)]
    pub fn unlabel(
        &mut self,
        counts: &mut Counts,
        descent: &Descent,
        depth: usize,
        goes_up: bool,
        changed: &mut impl FnMut(u32),
        rng: &mut Generator,
    ) -> usize {
        let mut touched = self.take_back(counts, descent, goes_up, depth, rng);
        if !goes_up {
            touched = touched.min(self.remove_global(counts, descent, depth, changed, rng));
        }
        touched
    }

    /// Seats a customer of the global model; returns the depth at which it found a seat, or 0.
    fn add_global(
        &self,
        counts: &mut Counts,
        descent: &Descent,
        depth: usize,
        changed: &mut impl FnMut(u32),
        rng: &mut Generator,
    ) -> usize {
        for at in (0..=depth).rev() {
            if !self.sit(counts, &descent.path, 0, at, descent.up(self, 0, at), rng) {
                return at;
            }
            changed(descent.path.dish(at));
        }
        0
    }

    fn remove_global(
        &mut self,
        counts: &mut Counts,
        descent: &Descent,
        depth: usize,
        changed: &mut impl FnMut(u32),
        rng: &mut Generator,
    ) -> usize {
        for at in (0..=depth).rev() {
            if self.leave(counts, &descent.path, 0, at, rng).is_none() {
                return at;
            }
            changed(descent.path.dish(at));
        }
        0
    }

    /// Throws a coin of the path's context at a depth: it shows yes or no. Returns the depth nearest to the root at which
    /// coins have changed.
    #[inline(always)]
    pub fn throw(&self, counts: &mut Counts, descent: &Descent, yes: bool, depth: usize, rng: &mut Generator) -> usize {
        let side = usize::from(yes);
        let (path, probabilities) = (&descent.coin[side], &descent.sides[side]);
        let mut opened = 0;
        self.coins.add(&mut counts.coins, path, depth, probabilities, &mut |_, _| opened += 1, rng);
        depth.saturating_sub(opened)
    }

    /// Takes back a coin that was thrown; returns as [`Rules::throw`] does.
    #[inline(always)]
    pub fn take_back(
        &mut self,
        counts: &mut Counts,
        descent: &Descent,
        yes: bool,
        depth: usize,
        rng: &mut Generator,
    ) -> usize {
        let mut closed = 0;
        let path = &descent.coin[usize::from(yes)];
        self.coins.remove(&mut counts.coins, path, depth, &mut |_, _| closed += 1, rng);
        depth.saturating_sub(closed)
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
