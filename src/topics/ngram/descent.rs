//! The probability of a word under all topics at once, at every depth of its path down the tree.
//!
//! For every depth there is a vector of p_k(w | h) over all topics. From a depth to the next only topics with customers in
//! the restaurant change, so a step costs a copy of the vector, sixteen topics at a time, and a few steps for the topics
//! on the lists. In HIERARCHICAL every topic leans on the global model as well:
//!
//! ```text
//! p_k(w | h) = (c - a t) / (C + b) + (b + a T) / (C + b) * (lambda_h p_k(w | h') + (1 - lambda_h) p_0(w | h))
//! ```
//!
//! which is one multiplication and one addition more for a block of sixteen. Words are visited such that paths share
//! what they can ([`by_word`]): then only the last steps of a path are new.

use super::counts::{Counts, Form};
use super::rules::Rules;
use super::seating::Touched;
use super::seats::{Slot, Weights};
use crate::math::lanes::{Block, LANES, blocks};
use crate::math::pairs;
use crate::restaurant::seating::{DEEPEST, Path};
use crate::restaurant::tree::{NONE, Tree};

/// A word's path, and its probabilities.
pub struct Descent {
    form: Form,
    /// p_k(w | h) by depth.
    vectors: Vec<Vec<Block<f32>>>,
    pub path: Path,
    before: Path,
    /// How many of the vectors are right, from the root on.
    right: usize,
    /// The coin's paths: "no" and "yes".
    pub coin: [Path; 2],
    /// p(no) and p(yes) of the coin, by depth.
    pub sides: [[f64; DEEPEST + 1]; 2],
    /// p(n | h), where the order is infinite.
    pub orders: [f64; DEEPEST + 1],
    mixed: Vec<Block<f32>>,
}

impl Descent {
    pub fn new(form: Form, topics: usize, depth: usize) -> Descent {
        Descent {
            form,
            vectors: vec![vec![Block::default(); blocks(topics)]; depth + 1],
            path: Path::default(),
            before: Path::default(),
            right: 0,
            coin: [Path::default(), Path::default()],
            sides: [[0.0; DEEPEST + 1]; 2],
            orders: [0.0; DEEPEST + 1],
            mixed: vec![Block::default(); blocks(topics)],
        }
    }

    /// Forgets all probabilities: counts have changed elsewhere.
    pub fn forget(&mut self) {
        self.right = 0;
    }

    /// Goes to the dish `leaf`. Probabilities follow when they are asked for ([`Descent::catch_up`]), since a token that is
    /// taken away first would change them; those on what the path shares with the last one are right.
    #[inline(always)]
    pub fn go_to(&mut self, tree: &Tree, leaf: u32) {
        std::mem::swap(&mut self.path, &mut self.before);
        self.path.find(tree, leaf);
        self.right = self.right.min(self.path.shared(&self.before));
        self.find_coins();
    }

    /// Goes along a path of dishes and their restaurants, from the root on.
    pub fn go_along(&mut self, places: impl Iterator<Item = (u32, u32)>) {
        self.path.set(places);
        self.right = 0;
        self.find_coins();
    }

    #[inline(always)]
    fn find_coins(&mut self) {
        if !self.form.has_global() {
            return;
        }
        for side in 0..2 {
            let restaurants = (0..=self.path.depth()).map(|depth| self.path.restaurant(depth));
            self.coin[side].set(restaurants.map(|restaurant| (2 * restaurant + side as u32, restaurant)));
        }
    }

    /// Makes everything of the path, for one who only looks.
    pub fn look(&mut self, counts: &Counts, rules: &Rules) {
        if self.form.has_global() {
            self.refresh_coin(counts, rules);
        }
        self.catch_up(counts, rules);
        self.refresh_orders(counts, rules);
    }

    /// Makes the vectors that are not right; in HIERARCHICAL, where coins are part of them, those too.
    #[inline(always)]
    pub fn catch_up(&mut self, counts: &Counts, rules: &Rules) {
        let depths = self.path.depth() + 1;
        if self.right < depths && self.form == Form::Hierarchical {
            self.refresh_coin(counts, rules);
        }
        (self.right..depths).for_each(|depth| self.step(counts, rules, depth));
        self.right = self.right.max(depths);
    }

    /// In HIERARCHICAL, makes what a table at the last depth may have come from: the vectors before it, and the global
    /// model's probability there.
    #[inline(always)]
    pub fn catch_up_with_origins(&mut self, counts: &Counts, rules: &Rules) {
        let last = self.path.depth();
        self.refresh_coin(counts, rules);
        (self.right..last).for_each(|depth| self.step(counts, rules, depth));
        let global = rules.probability(counts, &self.path, last, 0, self.up(rules, 0, last));
        self.vectors[last][0].0[0] = global as f32;
        self.right = self.right.max(last);
    }

    /// Takes note that a customer of `topic` came or went.
    #[inline(always)]
    pub fn note(&mut self, counts: &Counts, rules: &Rules, topic: usize, touched: Touched) {
        self.right = self.right.min(touched.others);
        self.refresh(counts, rules, topic, touched.depth);
    }

    /// Makes the coin's probabilities anew.
    #[inline(always)]
    pub fn refresh_coin(&mut self, counts: &Counts, rules: &Rules) {
        let depth = self.path.depth();
        let [no, yes] = &mut self.sides;
        rules.coins.probabilities(&counts.coins, &self.coin[1], yes);
        pairs::each_mut(&mut no[..=depth], &yes[..=depth], |no, yes| *no = 1.0 - yes);
    }

    /// The vector of a depth, made from that of the depth before.
    #[inline(always)]
    fn step(&mut self, counts: &Counts, rules: &Rules, depth: usize) {
        let (above, rest) = self.vectors.split_at_mut(depth);
        let vector = &mut rest[0];
        match above.last() {
            Some(above) => vector.copy_from_slice(above),
            None => vector.fill(Block([rules.base as f32; LANES])),
        }
        let mut global = 0.0;
        if self.form == Form::Hierarchical {
            global = rules.probability(counts, &self.path, depth, 0, f64::from(vector[0].0[0]));
            lean(vector, self.sides[1][depth] as f32, (self.sides[0][depth] * global) as f32);
        }
        let (seats, hall) = (&counts.restaurants, self.path.restaurant(depth));
        let rooms = seats.slots(hall);
        let is_full = seats.is_full(hall);
        if is_full {
            scale(vector, &seats.weights[rooms.clone()]);
        } else {
            for room in rooms.clone() {
                let topic = seats.topic(room);
                vector[topic / LANES].0[topic % LANES] *= seats.weights[room].share;
            }
        }
        let a = rules.parameters.discounts[depth] as f32;
        let mut room = rooms.start;
        for dish in counts.dishes.slots(self.path.dish(depth)) {
            let topic = counts.dishes.topic(dish);
            if is_full {
                room = rooms.start + topic;
            } else {
                // Both are sorted, and every topic of a dish has a room.
                while seats.topic(room) != topic {
                    room += 1;
                }
            }
            let Slot { customers, tables, .. } = counts.dishes.at[dish];
            let seats_here = customers as f32 - a * tables as f32;
            vector[topic / LANES].0[topic % LANES] += seats_here * seats.weights[room].inverse;
        }
        if self.form == Form::Hierarchical {
            vector[0].0[0] = global as f32;
        }
    }

    /// Makes the entries of one topic anew, from `depth` on, in vectors that are right otherwise.
    #[inline(always)]
    fn refresh(&mut self, counts: &Counts, rules: &Rules, topic: usize, depth: usize) {
        for depth in depth..self.right {
            let below = self.below(rules, topic, depth);
            let p = rules.probability(counts, &self.path, depth, topic, below);
            self.vectors[depth][topic / LANES].0[topic % LANES] = p as f32;
        }
    }

    /// p_k(w | h) at a depth.
    #[inline(always)]
    pub fn probability(&self, topic: usize, depth: usize) -> f64 {
        f64::from(self.vectors[depth][topic / LANES].0[topic % LANES])
    }

    /// What a topic would give a new table at a depth by going up: p_k(w | h'), weighed by the coin in HIERARCHICAL.
    #[inline(always)]
    pub fn up(&self, rules: &Rules, topic: usize, depth: usize) -> f64 {
        let above = if depth == 0 { rules.base } else { self.probability(topic, depth - 1) };
        match self.form == Form::Hierarchical && topic > 0 {
            true => self.sides[1][depth] * above,
            false => above,
        }
    }

    /// The same by going across to the global model; 0 but in HIERARCHICAL.
    #[inline(always)]
    pub fn across(&self, topic: usize, depth: usize) -> f64 {
        match self.form == Form::Hierarchical && topic > 0 {
            true => self.sides[0][depth] * self.probability(0, depth),
            false => 0.0,
        }
    }

    /// The probability of the distribution that a topic leans on at a depth.
    #[inline(always)]
    pub fn below(&self, rules: &Rules, topic: usize, depth: usize) -> f64 {
        self.up(rules, topic, depth) + self.across(topic, depth)
    }

    /// The vector at a depth.
    #[inline(always)]
    pub fn vector(&self, depth: usize) -> &[Block<f32>] {
        &self.vectors[depth]
    }

    /// Makes p(n | h) anew.
    #[inline(always)]
    pub fn refresh_orders(&mut self, counts: &Counts, rules: &Rules) {
        match &rules.stop {
            Some(stop) => stop.orders(&counts.visits, &self.path, &mut self.orders),
            None => {
                self.orders[..self.path.depth()].fill(0.0);
                self.orders[self.path.depth()] = 1.0;
            }
        }
    }

    /// The probability of stopping at a depth with a topic there, whatever the document: p(n | h), and in SWITCHING the
    /// coin's part.
    #[inline(always)]
    pub fn part(&self, topic: usize, depth: usize) -> f64 {
        match self.form {
            Form::Switching => self.orders[depth] * self.sides[usize::from(topic > 0)][depth],
            _ => self.orders[depth],
        }
    }

    /// What a document weighs: for each of its topics sum_n p(n | h) p_k(w | h_n), and in SWITCHING the coin's yes with it;
    /// for topic 0 the same with no.
    #[inline(always)]
    pub fn mix(&mut self) -> &[Block<f32>] {
        self.mixed.fill(Block::default());
        for depth in 0..=self.path.depth() {
            if self.orders[depth] == 0.0 {
                continue;
            }
            let part = self.part(1, depth) as f32;
            pairs::each_mut(&mut self.mixed, &self.vectors[depth], |mixed, vector| {
                pairs::each_mut(&mut mixed.0, &vector.0, |mixed, p| *mixed += part * p);
            });
        }
        if self.form.has_global() {
            let of_depth = |depth: usize| self.part(0, depth) * self.probability(0, depth);
            let global: f64 = (0..=self.path.depth()).map(of_depth).sum();
            // In HIERARCHICAL no token is of topic 0.
            self.mixed[0].0[0] = if self.form == Form::Switching { global as f32 } else { 0.0 };
        }
        &self.mixed
    }
}

/// v = yes v + more.
#[inline(always)]
fn lean(vector: &mut [Block<f32>], yes: f32, more: f32) {
    for block in vector {
        block.0.iter_mut().for_each(|p| *p = *p * yes + more);
    }
}

/// Multiplies a vector by the shares of all topics.
#[inline(always)]
fn scale(vector: &mut [Block<f32>], weights: &[Weights]) {
    let (whole, rest) = weights.as_chunks::<LANES>();
    pairs::each_mut(vector, whole, |block, weights| {
        pairs::each_mut(&mut block.0, weights, |p, weights| *p *= weights.share);
    });
    if let Some(block) = vector.get_mut(whole.len()) {
        pairs::each_mut(&mut block.0, rest, |p, weights| *p *= weights.share);
    }
}

/// The order in which dishes are visited: those of one word, then of one nearest word before it, and so on, come together.
pub fn by_word(tree: &Tree) -> Vec<u32> {
    // Children of each dish, by number: a run of `children`.
    let mut starts = vec![0u32; tree.dishes.len() + 2];
    tree.dishes.iter().filter(|dish| dish.parent != NONE).for_each(|dish| starts[dish.parent as usize + 2] += 1);
    (1..starts.len()).for_each(|place| starts[place] += starts[place - 1]);
    let mut children = vec![0; starts[starts.len() - 1] as usize];
    for (number, dish) in (0..).zip(&tree.dishes).filter(|(_, dish)| dish.parent != NONE) {
        let next = &mut starts[dish.parent as usize + 1];
        children[*next as usize] = number;
        *next += 1;
    }
    let mut ranks = vec![0; tree.dishes.len()];
    let mut stack: Vec<u32> = tree.levels[0].dishes.clone().rev().collect();
    let mut rank = 0;
    while let Some(dish) = stack.pop() {
        ranks[dish as usize] = rank;
        rank += 1;
        let of_dish = starts[dish as usize] as usize..starts[dish as usize + 1] as usize;
        stack.extend(children[of_dish].iter().rev());
    }
    ranks
}
