//! The HPYLM as prediction needs it: p(w | h) = s_h(w) + q_h p(w | h'), and what is left of that sum when every word
//! has a factor.
//!
//! s_h(w) = (c - a t) / (C + b) and q_h = (b + a T) / (C + b), for a dish with c customers at t tables in a restaurant
//! with C and T (Noji et al. 2013, eq. 2); a restaurant without customers hands its parent's distribution on. Where the
//! order is infinite, p(w | h) is the mean of these over the lengths of contexts, by p(n | h).

use std::borrow::Cow;

use crate::cluster::gather::Exchange;
use crate::lm::text::{Symbols, Tokens};
use crate::math::lanes::{Block, LANES, blocks};
use crate::math::pairs;
use crate::restaurant::merge::Marks;
use crate::restaurant::order::StopPrior;
use crate::restaurant::parameters::Parameters;
use crate::restaurant::seating::{DEEPEST, Path};
use crate::restaurant::tree::{NONE, Paths, Planted, Tree, Visits};
use crate::topics::ngram::model::NgramModel;
use crate::topics::ngram::seats::Slot;

/// Seats by dish, and shares of new tables by restaurant.
pub struct BackOff<'a> {
    tree: Cow<'a, Tree>,
    seats: Vec<f32>,
    shares: Vec<f32>,
    /// p(w) at the root, by outcome.
    root: Vec<Block<f32>>,
    /// Where the order is infinite.
    stop: Option<(StopPrior, Cow<'a, [Visits]>)>,
}

/// What a restaurant gives: seats of its dishes, and the share of new tables.
struct Given {
    seats: Vec<f32>,
    share: f32,
}

impl Given {
    fn new(model: &NgramModel, parameters: &Parameters, depth: usize, restaurant: u32) -> Given {
        let (counts, a, b) = (model.counts(), parameters.discounts[depth], parameters.strengths[depth]);
        let Slot { customers, tables, .. } = counts.restaurants.get(restaurant, 0);
        let all = f64::from(customers) + b;
        let share = ((b + a * f64::from(tables)) / all) as f32;
        let seats = model.tree().dishes_of(restaurant).map(|dish| {
            let Slot { customers, tables, .. } = counts.dishes.get(dish, 0);
            ((f64::from(customers) - a * f64::from(tables)) / all) as f32
        });
        Given { seats: seats.collect(), share }
    }
}

impl<'a> BackOff<'a> {
    /// That of a model with one topic over `outcomes` words and ends of sentences, all of which is on one worker.
    #[cfg(test)]
    pub fn new(model: &'a NgramModel, outcomes: u32) -> BackOff<'a> {
        let (tree, parameters) = (model.tree(), model.hyperparameters().parameters);
        let (mut seats, mut shares) = (vec![], vec![]);
        for restaurant in 0..tree.restaurants.len() as u32 {
            let depth = tree.depth_of(tree.dishes_of(restaurant).start);
            let given = Given::new(model, &parameters, depth, restaurant);
            seats.extend(given.seats);
            shares.push(given.share);
        }
        let stop = model.setup().order.stop().map(|stop| (stop, Cow::from(&model.counts().visits)));
        BackOff::of(Cow::Borrowed(tree), seats, shares, stop, outcomes)
    }

    fn of(
        tree: Cow<'a, Tree>,
        seats: Vec<f32>,
        shares: Vec<f32>,
        stop: Option<(StopPrior, Cow<'a, [Visits]>)>,
        outcomes: u32,
    ) -> BackOff<'a> {
        let mut root = vec![Block::default(); blocks(outcomes as usize)];
        if let Some(top) = tree.levels[0].restaurants.clone().next() {
            let base = shares[top as usize] / outcomes as f32;
            (0..outcomes as usize).for_each(|outcome| root[outcome / LANES].0[outcome % LANES] = base);
            for dish in tree.dishes_of(top) {
                let outcome = tree.outcomes[dish as usize] as usize;
                root[outcome / LANES].0[outcome % LANES] += seats[dish as usize];
            }
        }
        BackOff { tree, seats, shares, root, stop }
    }

    /// The restaurants that test tokens of any worker ask for, of all workers, and the leaves of the own test tokens; `tests` are
    /// the words of own documents. Every worker calls this.
    pub fn gather(
        model: &NgramModel,
        symbols: Symbols,
        tests: &[&[u32]],
        exchange: Exchange<'_>,
    ) -> (BackOff<'static>, Vec<u32>) {
        let messages = vec![asked(model); model.peers()];
        let mut tokens = Tokens::new(symbols, model.setup().depth());
        for words in tests {
            words.split_inclusive(|&word| word == symbols.end).for_each(|words| tokens.push_sentence(words));
        }
        let received = Received::new(exchange(messages).concat(), tokens);
        let Planted { tree, order, leaves } = Tree::plant(&received);
        let (mut seats, mut shares) = (vec![0.0; tree.dishes.len()], vec![1.0; tree.restaurants.len()]);
        let mut visits = vec![Visits::default(); tree.restaurants.len()];
        let mut of_tests = vec![0; received.tests.len()];
        for (&path, &leaf) in order.iter().zip(&leaves) {
            let Some(dish) = received.dishes.get(path as usize) else {
                of_tests[path as usize - received.dishes.len()] = leaf;
                continue;
            };
            seats[leaf as usize] = dish.seats;
            let restaurant = tree.dishes[leaf as usize].restaurant as usize;
            let head = &received.words[dish.restaurant..];
            shares[restaurant] = f32::from_bits(head[0]);
            visits[restaurant] = Visits { stops: head[1], passes: head[2] };
        }
        let stop = model.setup().order.stop().map(|stop| (stop, Cow::Owned(visits)));
        (BackOff::of(Cow::Owned(tree), seats, shares, stop, symbols.outcomes()), of_tests)
    }
}

/// The restaurants of a worker on the paths of its test tokens, as a message: of each its share of new tables, visits, the
/// length of its context and the number of its dishes, the context, and the dishes with their seats.
fn asked(model: &NgramModel) -> Vec<u32> {
    let (tree, counts, parameters) = (model.tree(), model.counts(), model.hyperparameters().parameters);
    let mut is_asked = Marks::new(tree.restaurants.len());
    for leaf in model.test_leaves() {
        let mut dish = leaf;
        while dish != NONE {
            is_asked.set(tree.dishes[dish as usize].restaurant);
            dish = tree.dishes[dish as usize].parent;
        }
    }
    let (mut message, mut context) = (vec![], vec![]);
    for restaurant in 0..tree.restaurants.len() as u32 {
        let dishes = tree.dishes_of(restaurant);
        let is_told = match model.is_shared(dishes.start) {
            true => model.is_first(), // all workers have them
            false => is_asked.contains(restaurant),
        };
        if !is_told {
            continue;
        }
        let given = Given::new(model, &parameters, tree.depth_of(dishes.start), restaurant);
        let visits = counts.visits.get(restaurant as usize).copied().unwrap_or_default();
        tree.context(restaurant, &mut context);
        message.extend([given.share.to_bits(), visits.stops, visits.passes, context.len() as u32, dishes.len() as u32]);
        message.extend_from_slice(&context);
        for (dish, seats) in dishes.zip(given.seats) {
            message.extend([tree.outcomes[dish as usize], seats.to_bits()]);
        }
    }
    message
}

/// What all workers have sent, and the own test tokens, as paths of a tree.
struct Received {
    words: Vec<u32>,
    dishes: Vec<ReceivedDish>,
    tests: Tokens,
}

struct ReceivedDish {
    /// Where its restaurant begins in the message.
    restaurant: usize,
    outcome: u32,
    seats: f32,
}

impl Received {
    fn new(words: Vec<u32>, tests: Tokens) -> Received {
        let (mut dishes, mut restaurant) = (vec![], 0);
        while restaurant < words.len() {
            let first = restaurant + 5 + words[restaurant + 3] as usize;
            let end = first + 2 * words[restaurant + 4] as usize;
            let dish = |pair: &[u32]| ReceivedDish { restaurant, outcome: pair[0], seats: f32::from_bits(pair[1]) };
            dishes.extend(words[first..end].chunks_exact(2).map(dish));
            restaurant = end;
        }
        Received { words, dishes, tests }
    }
}

impl Paths for Received {
    fn count(&self) -> usize {
        self.dishes.len() + self.tests.count()
    }
    fn symbols(&self) -> usize {
        self.tests.symbols()
    }
    fn depth(&self) -> usize {
        self.tests.depth()
    }
    fn outcome(&self, path: usize) -> u32 {
        match self.dishes.get(path) {
            Some(dish) => dish.outcome,
            None => self.tests.outcome(path - self.dishes.len()),
        }
    }
    fn element(&self, path: usize, depth: usize) -> Option<u32> {
        match self.dishes.get(path) {
            Some(dish) => {
                let length = self.words[dish.restaurant + 3] as usize;
                (depth < length).then(|| self.words[dish.restaurant + 5 + depth])
            }
            None => self.tests.element(path - self.dishes.len(), depth),
        }
    }
}

impl BackOff<'_> {
    /// p(w) at the root.
    pub fn root(&self) -> &[Block<f32>] {
        &self.root
    }

    /// r_w p(w | h) / Z(h) of the token at `leaf`, where `factors` are r, and `sum` is that of r_w p(w) at the root.
    pub fn probability(&self, leaf: u32, factors: &[Block<f32>], sum: f64, path: &mut Path) -> f64 {
        path.find(&self.tree, leaf);
        let word = self.tree.outcomes[leaf as usize];
        let mut orders = [0.0; DEEPEST + 1];
        match &self.stop {
            Some((stop, visits)) => stop.orders(visits, path, &mut orders),
            None => orders[path.depth()] = 1.0,
        }
        let (mut probability, mut sum) = (f64::from(at(&self.root, word)), sum);
        let mut means = [orders[0] * probability, orders[0] * sum];
        for (depth, part) in (1..=path.depth()).zip(&orders[1..]) {
            let share = f64::from(self.shares[path.restaurant(depth) as usize]);
            probability = f64::from(self.seats[path.dish(depth) as usize]) + share * probability;
            sum = self.seats_sum(path.restaurant(depth), factors) + share * sum;
            means[0] += part * probability;
            means[1] += part * sum;
        }
        f64::from(at(factors, word)) * means[0] / means[1]
    }

    /// The sum of r_w s_h(w) over the dishes of a restaurant, in four parts that need not wait for each other.
    fn seats_sum(&self, restaurant: u32, factors: &[Block<f32>]) -> f64 {
        let dishes = self.tree.dishes_of(restaurant);
        let dishes = dishes.start as usize..dishes.end as usize;
        let mut parts = [0.0f64; 4];
        let (fours, rest) = self.seats[dishes.clone()].as_chunks::<4>();
        let (outcomes_of_fours, outcomes_of_rest) = self.tree.outcomes[dishes].as_chunks::<4>();
        let mut add = |part: usize, seats: f32, outcome: u32| parts[part] += f64::from(seats * at(factors, outcome));
        pairs::each(fours, outcomes_of_fours, |seats, outcomes| {
            (0..4).for_each(|part| add(part, seats[part], outcomes[part]));
        });
        (0..rest.len()).for_each(|part| add(part, rest[part], outcomes_of_rest[part]));
        (parts[0] + parts[1]) + (parts[2] + parts[3])
    }
}

#[inline(always)]
fn at(blocks: &[Block<f32>], place: u32) -> f32 {
    blocks[place as usize / LANES].0[place as usize % LANES]
}
