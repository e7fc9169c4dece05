//! Customers of HIERARCHICAL come and go: the tables that one opens on its way up the path, and the labels of these.
//!
//! A table that a customer opens in topic k is labelled by where its dish came from, up or across (Noji et al. 2013, section
//! 4.1), and its label is thrown into the coin of the context. Only counts are kept: of t tables, `ups` went up, and given
//! (c, t, ups) a table that closes went up with probability ups / t, since labels do not depend on who sits at a table.
//!
//! **Exactness.** A customer that opens tables at several depths throws a label at each, and every throw changes the coins of
//! the shorter contexts, on which its later throws depend. The weights of all topics are made with the coins as they
//! stand without the customer ([`Descent`]). The paper draws from these weights; here they are a proposal:
//!
//! ```text
//! r = prod_{i > 1} p(l_i | l_1 .. l_{i-1}, others) / p(l_i | others)          labels in the order of throwing
//! ```
//!
//! is what the model gives a way up relative to its weight, and the proposal is accepted with probability
//! min(1, r_new / r_old) (Metropolis-Hastings). Labels are thrown the deepest first, each by the coins as they stand then. A
//! customer that leaves takes its labels back in the reverse order, the last one thrown first, so that the probabilities
//! of its r are those of throwing the labels again. If the proposal is rejected, the old seats, labels and tables of coins
//! are put back exactly. A way up with one label or none has r = 1, so most proposals need no correction.

use super::counts::Counts;
use super::descent::Descent;
use super::rules::Rules;
use super::seating::{NOWHERE, Touched};
use crate::restaurant::chance::Chance;
use crate::restaurant::merge::Change;
use crate::restaurant::seating::{DEEPEST, Path};

/// What one customer of a topic with labels opened, or closed, on its way up the path.
#[derive(Clone, Debug, Default)]
pub struct Ascent {
    topic: usize,
    /// The depth where it starts.
    depth: usize,
    /// Whether it is the first table of a block, at `depth`, whose seats there are not part of the way.
    is_table: bool,
    /// Tables of the topic, one at each depth from `depth` up; each has a label.
    labels: usize,
    /// Whether the last of these came from the global model.
    goes_across: bool,
    /// Tables of the global model, from the depth of the last label up.
    global: usize,
    /// By label: tables of its coin, from its depth up.
    coins: [u8; DEEPEST + 1],
    /// The probability of all labels but the first, each thrown after those before it.
    thrown: f64,
}

/// Of one customer: the way that it left, and the one that it is to take.
#[derive(Clone, Debug, Default)]
pub struct Ways {
    pub old: Ascent,
    pub new: Ascent,
}

impl Ascent {
    fn start(&mut self, topic: usize, depth: usize, is_table: bool) {
        (self.topic, self.depth, self.is_table) = (topic, depth, is_table);
        (self.labels, self.goes_across, self.global, self.thrown) = (0, false, 0, 1.0);
    }

    /// The label of the first table: whether it went up.
    pub fn goes_up(&self) -> bool {
        !(self.goes_across && self.labels == 1)
    }

    /// The side of the coin that a label shows: 1 for up.
    #[inline(always)]
    fn side(&self, label: usize) -> usize {
        usize::from(!(self.goes_across && label + 1 == self.labels))
    }

    /// r: the probability of the labels relative to that by the coins without the customer, for which `descent` has been
    /// made.
    fn ratio(&self, descent: &Descent) -> f64 {
        let without = |label: usize| descent.sides[self.side(label)][self.depth - label];
        self.thrown / (1..self.labels).map(without).product::<f64>()
    }

    /// Whether this way is taken instead of `old`.
    #[inline(always)]
    fn is_accepted(&self, old: &Ascent, descent: &Descent, chance: &mut impl Chance) -> bool {
        if self.labels < 2 && old.labels < 2 {
            return true;
        }
        let (new, old) = (self.ratio(descent), old.ratio(descent));
        new >= old || chance.is_within(new, old)
    }

    /// Where probabilities change by this way.
    pub fn touched(&self) -> Touched {
        let mut others = NOWHERE;
        for label in 0..self.labels {
            others = others.min((self.depth - label).saturating_sub(usize::from(self.coins[label])));
        }
        if !self.goes_across {
            return Touched { depth: self.depth.saturating_sub(self.labels), others };
        }
        let last = self.depth + 1 - self.labels;
        Touched { depth: last, others: others.min(last.saturating_sub(self.global)) }
    }
}

impl Rules {
    /// Lets a customer that has left on `ways.old` go a way in the topic that is drawn for it, or back; returns whether it
    /// went. Then `ways.old` is the way that it is on.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // as `ascend`
    pub fn propose(
        &self,
        counts: &mut Counts,
        descent: &Descent,
        topic: usize,
        depth: usize,
        is_table: bool,
        ways: &mut Ways,
        changed: &mut impl FnMut(u32),
        chance: &mut impl Chance,
    ) -> bool {
        let Ways { old, new } = ways;
        self.ascend(counts, descent, topic, depth, is_table, new, changed, chance);
        let is_accepted = new.is_accepted(old, descent, chance);
        if is_accepted {
            std::mem::swap(old, new);
        } else {
            self.retrace(counts, descent, new, -1);
            self.retrace(counts, descent, old, 1);
        }
        is_accepted
    }

    /// Seats a customer of `topic` at a depth of the path, or if `is_table` a table that is there already as a customer of what
    /// it came from. `changed` is shown each dish whose tables change.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // who comes and where, and what a sweep has
    pub fn ascend(
        &self,
        counts: &mut Counts,
        descent: &Descent,
        topic: usize,
        depth: usize,
        is_table: bool,
        ascent: &mut Ascent,
        changed: &mut impl FnMut(u32),
        chance: &mut impl Chance,
    ) {
        ascent.start(topic, depth, is_table);
        for at in (0..=depth).rev() {
            let (up, across) = (descent.up(self, topic, at), descent.across(topic, at));
            let is_there = is_table && at == depth;
            if !is_there && !self.sit(counts, &descent.path, topic, at, up + across, chance) {
                return;
            }
            changed(descent.path.dish(at));
            let goes_up = self.all_go_up || chance.is_within(up, up + across);
            self.throw_label(counts, descent, goes_up, at, ascent, chance);
            if !goes_up {
                ascent.goes_across = true;
                ascent.global = self.enter(counts, descent, 0, at, changed, chance);
                return;
            }
            if !is_there {
                let slot = counts.dishes.find(descent.path.dish(at), topic).expect("the table's dish");
                counts.dishes.at[slot].ups += 1;
            }
        }
    }

    /// Takes away a customer of `topic` at a depth of the path; or, with the label of a table at that depth, the table's
    /// customer where it came from: then whether the table itself counts as gone up is the caller's.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // who leaves and where, and what a sweep has
    pub fn retreat(
        &mut self,
        counts: &mut Counts,
        descent: &Descent,
        topic: usize,
        depth: usize,
        table_goes_up: Option<bool>,
        ascent: &mut Ascent,
        changed: &mut impl FnMut(u32),
        chance: &mut impl Chance,
    ) {
        ascent.start(topic, depth, table_goes_up.is_some());
        for at in (0..=depth).rev() {
            // Not by a closure: it would be compiled on its own, without the wide registers of the sweep.
            let goes_up = match table_goes_up {
                Some(goes_up) if at == depth => Some(goes_up),
                _ => self.leave(counts, &descent.path, topic, at, chance),
            };
            let Some(goes_up) = goes_up else { break };
            changed(descent.path.dish(at));
            ascent.labels += 1;
            if !goes_up {
                ascent.goes_across = true;
                ascent.global = self.exit(counts, descent, 0, at, changed, chance);
                break;
            }
        }
        for label in (0..ascent.labels).rev() {
            let (side, at) = (ascent.side(label), depth - label);
            let (path, mut closed) = (&descent.coin[side], 0);
            self.coins.remove(&mut counts.coins, path, at, &mut |_, _| closed += 1, chance);
            ascent.coins[label] = closed;
            if label > 0 {
                ascent.thrown *= self.coins_now(counts, path, at)[at];
            }
        }
    }

    /// Throws the label of a table that was opened at a depth.
    #[inline(always)]
    fn throw_label(
        &self,
        counts: &mut Counts,
        descent: &Descent,
        goes_up: bool,
        depth: usize,
        ascent: &mut Ascent,
        chance: &mut impl Chance,
    ) {
        let side = usize::from(goes_up);
        let (path, mut opened) = (&descent.coin[side], 0);
        let mut count = |_, _| opened += 1;
        if ascent.labels == 0 {
            self.coins.add(&mut counts.coins, path, depth, &descent.sides[side], &mut count, chance);
        } else {
            let probabilities = self.coins_now(counts, path, depth);
            ascent.thrown *= probabilities[depth];
            self.coins.add(&mut counts.coins, path, depth, &probabilities, &mut count, chance);
        }
        ascent.coins[ascent.labels] = opened;
        ascent.labels += 1;
    }

    /// The probabilities of one side of the coins as they stand, down to a depth.
    #[inline(always)]
    fn coins_now(&self, counts: &Counts, path: &Path, depth: usize) -> [f64; DEEPEST + 1] {
        let mut probabilities = [0.0; DEEPEST + 1];
        let mut below = self.coins.base;
        for (at, probability) in probabilities[..=depth].iter_mut().enumerate() {
            below = self.coins.probability(&counts.coins, path, at, below);
            *probability = below;
        }
        probabilities
    }

    /// Goes a way again, draw for draw the same (`sign` 1), or back (-1).
    fn retrace(&self, counts: &mut Counts, descent: &Descent, ascent: &Ascent, sign: i32) {
        let &Ascent { topic, depth, labels, goes_across, global, .. } = ascent;
        let path = &descent.path;
        // The topic's seats end at a table that was there, above the root, or where the way goes across.
        let seats = if goes_across { labels } else { (labels + 1).min(depth + 1) };
        for step in usize::from(ascent.is_table)..seats {
            let is_up = step < labels && ascent.side(step) == 1;
            self.change_seats(counts, path, topic, depth - step, sign, step < labels, is_up);
        }
        if goes_across {
            let last = depth + 1 - labels;
            for step in 0..(global + 1).min(last + 1) {
                self.change_seats(counts, path, 0, last - step, sign, step < global, false);
            }
        }
        for label in 0..labels {
            let (coin, first) = (&descent.coin[ascent.side(label)], depth - label);
            let tables = usize::from(ascent.coins[label]);
            let change = |at: usize, opened: bool, is_thrown: bool| Change {
                dish: coin.dish(at),
                tables: if opened { sign } else { 0 },
                tokens: if is_thrown { sign } else { 0 },
            };
            counts.coins.change(change(first, tables > 0, true));
            (1..tables).for_each(|step| counts.coins.change(change(first - step, true, false)));
        }
    }

    /// Adds a customer of a topic at a depth, or takes one away.
    #[allow(clippy::too_many_arguments)] // of one customer: where it is, and what it opened
    fn change_seats(
        &self,
        counts: &mut Counts,
        path: &Path,
        topic: usize,
        depth: usize,
        sign: i32,
        opens: bool,
        goes_up: bool,
    ) {
        let tables = if opens { sign } else { 0 };
        let slot = counts.dishes.open(path.dish(depth), topic);
        let room = counts.restaurants.open(path.restaurant(depth), topic);
        let (dish, restaurant) = (&mut counts.dishes.at[slot], &mut counts.restaurants.at[room]);
        dish.customers = dish.customers.wrapping_add_signed(sign);
        dish.tables = dish.tables.wrapping_add_signed(tables);
        dish.ups = dish.ups.wrapping_add_signed(if goes_up { sign } else { 0 });
        restaurant.customers = restaurant.customers.wrapping_add_signed(sign);
        restaurant.tables = restaurant.tables.wrapping_add_signed(tables);
        self.prepare_one(counts, depth, room);
        counts.dishes.close(path.dish(depth), slot);
        counts.restaurants.close(path.restaurant(depth), room);
    }
}
