//! Samplers against enumeration, on a corpus of a few tokens.
//!
//! [`enumerate`] has the probability of every state, from the definition of the models alone: tokens come one after
//! another, in all ways to be seated. A sampler is right where it leaves that distribution as it is, so states are drawn
//! from it, each is swept over once, and what comes out is compared with what went in. Topics have to change, since
//! a sampler that never moves would pass too.
//!
//! With hyperparameters learned, and the words themselves drawn too, the same is the test of Geweke (2004): hyperparameters,
//! topics, seating and words are drawn from the model, one sweep and one draw of hyperparameters follow, and the joint
//! distribution has to be what it was.

use std::collections::BTreeMap;

use super::counts::{Counts, Form};
use super::dealt::Dealt;
use super::descent::by_word;
use super::documents::{Alpha, Seating, ShardTokens};
use super::learn::documents_ln as documents_ln_of;
use super::merge::{Change, take};
use super::model::{Hyperparameters, NgramModel, Setup};
use super::rules::Rules;
use super::shard::Places;
use super::table_based::TableSampler;
use super::token_based::TokenSampler;
use crate::cluster::own::Own;
use crate::cluster::rng::{Generator, Purpose, generator};
use crate::cluster::sweep::Model;
use crate::lm::job::Order;
use crate::lm::text::Symbols;
use crate::math::draws::{gamma, unit};
use crate::math::exactness::{ERRORS, assert_near, total_variation};
use crate::math::gamma_ln;
use crate::restaurant::chance::{Outcomes, each_outcome};
use crate::restaurant::merge::Change as CoinChange;
use crate::restaurant::order::StopPrior;
use crate::restaurant::parameters::{Census, Parameters};
use crate::restaurant::tree::{NONE, Paths, Planted, Tree};
use crate::topics::collection::Share;
use crate::topics::job::EvaluationSettings;

/// A context, nearest word first; an outcome; a document.
type Token = (Vec<u32>, u32, u32);

/// Bigrams; or trigrams, of which one begins a sentence. HIERARCHICAL has so many states that two trigrams have to do.
fn tokens(form: Form, depth: usize) -> Vec<Token> {
    match (depth, form) {
        (1, _) => vec![(vec![3], 0, 0), (vec![3], 0, 1), (vec![3], 1, 1), (vec![4], 0, 1)],
        (_, Form::Hierarchical) => vec![(vec![3, 4], 0, 0), (vec![3, 3], 0, 1)],
        _ => vec![(vec![3, 4], 0, 0), (vec![3, 4], 0, 1), (vec![BEGIN], 0, 1)],
    }
}

const OUTCOMES: f64 = 3.0;
/// Discounts, strengths and those of coins, by depth; and the priors.
const A: [f64; 3] = [0.3, 0.6, 0.5];
const B: [f64; 3] = [1.3, 0.8, 1.1];
const GAMMA: [f64; 3] = [0.9, 1.6, 0.7];
const ALPHA: [f64; 2] = [0.7, 0.4];
const STOP: StopPrior = StopPrior { alpha: 1.2, beta: 0.8 };
/// What stands before the first word of a sentence.
const BEGIN: u32 = 5;
struct Corpus<'a>(&'a [Token], usize);

impl Paths for Corpus<'_> {
    fn count(&self) -> usize {
        self.0.len()
    }
    fn symbols(&self) -> usize {
        6
    }
    fn depth(&self) -> usize {
        self.1
    }
    fn outcome(&self, token: usize) -> u32 {
        self.0[token].1
    }
    fn element(&self, token: usize, depth: usize) -> Option<u32> {
        self.0[token].0.get(depth).copied()
    }
}

/// What is tested.
#[derive(Clone, Debug)]
struct ToyModel {
    form: Form,
    is_infinite: bool,
    depth: usize,
    tokens: Vec<Token>,
    /// Discounts, strengths and those of coins, by depth.
    a: Vec<f64>,
    b: Vec<f64>,
    gamma: Vec<f64>,
}

impl ToyModel {
    fn new(form: Form, depth: usize, is_infinite: bool) -> ToyModel {
        let (a, b, gamma) = (A[..=depth].to_vec(), B[..=depth].to_vec(), GAMMA[..=depth].to_vec());
        ToyModel { form, is_infinite, depth, tokens: tokens(form, depth), a, b, gamma }
    }
}

/// Topic, context, outcome.
type Place = (u16, Vec<u32>, u32);

/// Topics and orders of tokens, and the counts of restaurants and coins.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    topics: Vec<u16>,
    orders: Vec<u8>,
    /// (topic, context, outcome): customers, tables, tables that went up (where tables have labels).
    seats: BTreeMap<Place, (u32, u32, u32)>,
    /// (context, side): customers, tables.
    coins: BTreeMap<(Vec<u32>, u32), (u32, u32)>,
    /// Context: stops, passes.
    visits: BTreeMap<Vec<u32>, (u32, u32)>,
}

impl State {
    /// The ways to seat one customer, with their probabilities.
    fn enter(&self, model: &ToyModel, topic: u16, context: &[u32], outcome: u32) -> Vec<(f64, State)> {
        let (a, b) = (model.a[context.len()], model.b[context.len()]);
        let key = (topic, context.to_vec(), outcome);
        let (c, t, up) = self.seats.get(&key).copied().unwrap_or_default();
        let of_restaurant = self.seats.iter().filter(|(key, _)| key.0 == topic && key.1 == context);
        let (all, tables) =
            of_restaurant.fold((0.0, 0.0), |sum, (_, n)| (sum.0 + f64::from(n.0), sum.1 + f64::from(n.1)));
        let with = |counts| {
            let mut next = self.clone();
            next.seats.insert(key.clone(), counts);
            next
        };
        let mut ways = vec![];
        if c > 0 {
            ways.push(((f64::from(c) - a * f64::from(t)) / (all + b), with((c + 1, t, up))));
        }
        let opens = (b + a * tables) / (all + b);
        if model.form != Form::Hierarchical || topic == 0 {
            ways.extend(scaled(opens, with((c + 1, t + 1, 0)).go_up(model, topic, context, outcome)));
            return ways;
        }
        for (p, next) in with((c + 1, t + 1, up + 1)).flip(model, context, 1) {
            ways.extend(scaled(opens * p, next.go_up(model, topic, context, outcome)));
        }
        for (p, next) in with((c + 1, t + 1, up)).flip(model, context, 0) {
            ways.extend(scaled(opens * p, next.enter(model, 0, context, outcome)));
        }
        ways
    }

    fn go_up(&self, model: &ToyModel, topic: u16, context: &[u32], outcome: u32) -> Vec<(f64, State)> {
        match context.split_last() {
            None => vec![(1.0 / OUTCOMES, self.clone())],
            Some((_, shorter)) => self.enter(model, topic, shorter, outcome),
        }
    }

    /// The ways in which the coin of a context shows a side.
    fn flip(&self, model: &ToyModel, context: &[u32], side: u32) -> Vec<(f64, State)> {
        let gamma = model.gamma[context.len()];
        let key = (context.to_vec(), side);
        let (c, t) = self.coins.get(&key).copied().unwrap_or_default();
        let all: u32 = self.coins.iter().filter(|(key, _)| key.0 == context).map(|(_, counts)| counts.0).sum();
        let with = |counts| {
            let mut next = self.clone();
            next.coins.insert(key.clone(), counts);
            next
        };
        let mut ways = vec![];
        if c > 0 {
            ways.push((f64::from(c) / (f64::from(all) + gamma), with((c + 1, t))));
        }
        let opens = gamma / (f64::from(all) + gamma);
        match context.split_last() {
            None => ways.push((opens * 0.5, with((c + 1, t + 1)))),
            Some((_, shorter)) => ways.extend(scaled(opens, with((c + 1, t + 1)).flip(model, shorter, side))),
        }
        ways
    }

    /// The orders that the next token can have, as the length of its context less than the whole one.
    fn orders(&self, model: &ToyModel) -> Vec<Option<u8>> {
        let whole = model.tokens[self.topics.len()].0.len() as u8;
        if model.is_infinite { (0..=whole).map(Some).collect() } else { vec![None] }
    }

    /// The ways in which the next token, of these topic and order, can come.
    fn token(&self, model: &ToyModel, topic: u16, order: Option<u8>) -> Vec<(f64, State)> {
        let (context, outcome, _) = &model.tokens[self.topics.len()];
        let mut state = self.clone();
        state.topics.push(topic);
        let mut p = 1.0;
        let mut stop = context.as_slice();
        if let Some(order) = order {
            stop = &context[..usize::from(order)];
            state.orders.push(order);
            for passed in 0..=stop.len() {
                let (stops, passes) = state.visits.entry(context[..passed].to_vec()).or_default();
                let visits = crate::restaurant::tree::Visits { stops: *stops, passes: *passes };
                let stays = if passed < context.len() { STOP.probability(visits) } else { 1.0 };
                if passed == stop.len() {
                    p *= stays;
                    *stops += 1;
                } else {
                    p *= 1.0 - stays;
                    *passes += 1;
                }
            }
        }
        let flipped = match model.form {
            Form::Switching => state.flip(model, stop, u32::from(topic > 0)),
            _ => vec![(1.0, state)],
        };
        flipped.into_iter().flat_map(|(q, state)| scaled(p * q, state.enter(model, topic, stop, *outcome))).collect()
    }
}

fn scaled(by: f64, ways: Vec<(f64, State)>) -> impl Iterator<Item = (f64, State)> {
    ways.into_iter().map(move |(p, state)| (by * p, state))
}

/// ln of the Dirichlet-multinomial probability of the documents' topics.
fn documents_ln(model: &ToyModel, topics: &[u16]) -> f64 {
    let first = u16::from(model.form.has_global());
    let mut sum = 0.0;
    for document in 0..2 {
        let mut counts = [0.0; 2];
        for (token, &topic) in
            model.tokens.iter().zip(topics).filter(|(token, topic)| token.2 == document && **topic >= first)
        {
            counts[usize::from(topic - first)] += f64::from(u32::from(token.2 == document));
        }
        let (n, strength): (f64, f64) = (counts.iter().sum(), ALPHA.iter().sum());
        sum += gamma_ln(strength) - gamma_ln(strength + n);
        sum += counts.iter().zip(&ALPHA).map(|(n, alpha)| gamma_ln(alpha + n) - gamma_ln(*alpha)).sum::<f64>();
    }
    sum
}

/// The topics that a token can have.
fn choices(form: Form) -> std::ops::Range<u16> {
    match form {
        Form::Hpytm => 0..2,
        Form::Hierarchical => 1..3,
        Form::Switching => 0..3,
    }
}

/// Every state with its probability, given the tokens.
fn enumerate(model: &ToyModel) -> Vec<(State, f64)> {
    let mut states = enumerate_together(model);
    let sum: f64 = states.iter().map(|(_, p)| p).sum();
    states.iter_mut().for_each(|(_, p)| *p /= sum);
    states
}

/// The probability of every state and of the tokens together.
fn enumerate_together(model: &ToyModel) -> Vec<(State, f64)> {
    let mut states = BTreeMap::from([(State::default(), 1.0)]);
    for _ in &model.tokens {
        let mut next = BTreeMap::new();
        for (state, p) in states {
            for topic in choices(model.form) {
                for order in state.orders(model) {
                    for (q, state) in state.token(model, topic, order) {
                        *next.entry(state).or_insert(0.0) += p * q;
                    }
                }
            }
        }
        states = next;
    }
    let mut states: Vec<(State, f64)> = states.into_iter().collect();
    states.iter_mut().for_each(|(state, p)| *p *= libm::exp(documents_ln(model, &state.topics)));
    states
}

/// The toy corpus as the samplers have it.
struct Toy {
    model: ToyModel,
    tree: Tree,
    counts: Counts,
    rules: Rules,
    alpha: Alpha,
    shard: ShardTokens,
    /// The token at each place of the shard.
    tokens: Vec<usize>,
    leaf_of: Vec<u32>,
    token_based: TokenSampler,
    table_based: TableSampler,
    rng: Generator,
    /// Without a customer.
    empty: Counts,
}

impl Toy {
    fn new(model: &ToyModel) -> Toy {
        let ToyModel { form, is_infinite, depth, tokens: corpus, a, b, gamma } = model;
        let (form, is_infinite, depth) = (*form, *is_infinite, *depth);
        let topics = 2 + usize::from(form.has_global());
        let Planted { tree, order, leaves } = Tree::plant(&Corpus(corpus, depth));
        let mut leaf_of = vec![0; corpus.len()];
        order.iter().zip(&leaves).for_each(|(&token, &leaf)| leaf_of[token as usize] = leaf);
        let ranks = by_word(&tree);
        let mut tokens: Vec<usize> = (0..corpus.len()).collect();
        tokens.sort_by_key(|&token| ranks[leaf_of[token] as usize]);
        let mut shard = ShardTokens {
            documents: tokens.iter().map(|&token| corpus[token].2).collect(),
            topics: vec![0; corpus.len()],
            orders: vec![0; if is_infinite { corpus.len() } else { 0 }],
            counts: vec![0; 2 * topics],
            with_topic: vec![0; 2],
            leaves: vec![],
        };
        for of_leaf in tokens.chunk_by(|&a, &b| leaf_of[a] == leaf_of[b]) {
            shard.leaves.push((leaf_of[of_leaf[0]], of_leaf.len() as u32));
        }
        let mut passing = vec![0; tree.dishes.len()];
        for &leaf in &leaf_of {
            let mut dish = leaf;
            while dish != NONE {
                passing[dish as usize] += 1;
                dish = tree.dishes[dish as usize].parent;
            }
        }
        let parameters = Parameters { discounts: a.clone(), strengths: b.clone() };
        let coins = Parameters { discounts: vec![0.0; depth + 1], strengths: gamma.clone() };
        let empty = Counts::new(&tree, form, topics, &passing, is_infinite);
        Toy {
            model: model.clone(),
            counts: empty.clone(),
            empty,
            rules: Rules::new(form, parameters, coins, 1.0 / OUTCOMES, is_infinite.then_some(STOP)),
            alpha: Alpha::new(&ALPHA, form),
            shard,
            tokens,
            leaf_of,
            token_based: TokenSampler::new(form, topics, depth),
            table_based: TableSampler::new(form, topics, depth),
            rng: generator(1, Purpose::Synth, 0, 0),
            tree,
        }
    }

    fn sweep_tokens(&mut self, is_new: bool) {
        let mut seating = Seating { tree: &self.tree, counts: &mut self.counts, rules: &mut self.rules };
        self.token_based.sweep(&mut seating, &mut self.shard, &self.alpha, is_new, &mut |_| (), &mut self.rng);
    }

    fn sweep_tables(&mut self) {
        let mut seating = Seating { tree: &self.tree, counts: &mut self.counts, rules: &mut self.rules };
        self.table_based.sweep(&mut seating, &mut self.shard, &self.alpha, &mut |_| (), &mut self.rng);
    }

    /// The token-based sampler's step for the token at a place of the shard, decided by a test.
    fn move_token(&mut self, place: usize, chance: &mut Outcomes) {
        let shard = &mut self.shard;
        let mut one = ShardTokens {
            leaves: vec![(self.leaf_of[self.tokens[place]], 1)],
            documents: vec![shard.documents[place]],
            topics: vec![shard.topics[place]],
            orders: shard.orders.get(place).copied().into_iter().collect(),
            counts: std::mem::take(&mut shard.counts),
            with_topic: std::mem::take(&mut shard.with_topic),
        };
        let mut seating = Seating { tree: &self.tree, counts: &mut self.counts, rules: &mut self.rules };
        self.token_based.sweep_by(&mut seating, &mut one, &self.alpha, chance);
        shard.topics[place] = one.topics[0];
        one.orders.first().into_iter().for_each(|&order| shard.orders[place] = order);
        (shard.counts, shard.with_topic) = (one.counts, one.with_topic);
    }

    /// The table-based sampler's sweep over blocks of two tokens and more, decided by a test.
    fn move_blocks(&mut self, chance: &mut Outcomes) {
        let mut seating = Seating { tree: &self.tree, counts: &mut self.counts, rules: &mut self.rules };
        self.table_based.sweep_by(&mut seating, &mut self.shard, &self.alpha, chance);
    }

    /// Numbers that tell states apart.
    fn key(&self) -> Vec<u32> {
        let tokens = self.shard.topics.iter().map(|&topic| u32::from(topic));
        let orders = self.shard.orders.iter().map(|&order| u32::from(order));
        let mut key: Vec<u32> = tokens.chain(orders).collect();
        for dish in 0..self.tree.dishes.len() as u32 {
            for entry in self.counts.dishes.list(dish) {
                key.extend([
                    dish,
                    u32::from(entry.topic),
                    entry.customers as u32,
                    entry.tables as u32,
                    entry.ups as u32,
                ]);
            }
        }
        key.extend(self.counts.coins.dishes.iter().flat_map(|dish| [dish.customers, dish.tables]));
        key.extend(self.counts.visits.iter().flat_map(|visits| [visits.stops, visits.passes]));
        key
    }

    /// ln p of the tokens and the state together.
    fn likelihood_ln(&mut self) -> f64 {
        let mut seating = Seating { tree: &self.tree, counts: &mut self.counts, rules: &mut self.rules };
        let places = Places::all(&self.tree);
        let mut sum = seating.root_ln() + seating.orders_ln(BEGIN, 0..self.tree.restaurants.len() as u32);
        for (depth, places) in places.iter().enumerate() {
            seating.draw_sums(&mut Census::default(), depth, &[places], &mut sum, &mut self.rng);
        }
        sum + documents_ln_of(&self.shard.counts, self.all_topics(), &ALPHA)
    }

    /// Topics, and the global one.
    fn all_topics(&self) -> usize {
        2 + usize::from(self.model.form.has_global())
    }

    /// Draws hyperparameters.
    fn learn(&mut self) {
        let mut seating = Seating { tree: &self.tree, counts: &mut self.counts, rules: &mut self.rules };
        let places = Places::all(&self.tree);
        let (mut census, mut sums) = (Census::default(), vec![]);
        for (depth, places) in places.iter().enumerate() {
            sums.extend(seating.draw_sums(&mut census, depth, &[places], &mut 0.0, &mut self.rng));
        }
        self.rules.redraw(sums.into_iter(), &mut self.rng);
    }

    fn context(&self, restaurant: u32) -> Vec<u32> {
        let mut context = vec![];
        self.tree.context(restaurant, &mut context);
        context
    }

    fn state(&self) -> State {
        let mut state = State { topics: vec![0; self.tokens.len()], ..State::default() };
        state.orders = vec![0; self.shard.orders.len()];
        for (place, &token) in self.tokens.iter().enumerate() {
            state.topics[token] = self.shard.topics[place];
            if !state.orders.is_empty() {
                state.orders[token] = self.shard.orders[place];
            }
        }
        for (number, dish) in (0..).zip(&self.tree.dishes) {
            for entry in self.counts.dishes.list(number) {
                let key = (entry.topic, self.context(dish.restaurant), self.tree.outcomes[number as usize]);
                state.seats.insert(key, (entry.customers as u32, entry.tables as u32, entry.ups as u32));
            }
        }
        for (number, dish) in self.counts.coins.dishes.iter().enumerate().filter(|(_, dish)| dish.customers > 0) {
            let key = (self.context(dish.restaurant), number as u32 % 2);
            state.coins.insert(key, (dish.customers, dish.tables));
        }
        for (number, visits) in (0..).zip(&self.counts.visits).filter(|(_, v)| v.stops + v.passes > 0) {
            state.visits.insert(self.context(number), (visits.stops, visits.passes));
        }
        state
    }

    /// Takes a state, as a synchronisation would.
    fn set(&mut self, state: &State) {
        self.counts.clone_from(&self.empty);
        let (mut tokens, mut tables, mut coins) = (vec![], vec![], vec![]);
        for (place, &token) in self.tokens.iter().enumerate() {
            self.shard.topics[place] = state.topics[token];
            let mut dish = self.leaf_of[token];
            if let Some(&order) = state.orders.get(token) {
                self.shard.orders[place] = order;
                let whole = self.tree.depth_of(dish);
                dish = (usize::from(order)..whole).fold(dish, |dish, _| self.tree.dishes[dish as usize].parent);
            }
            tokens.push(Change { dish, topic: state.topics[token], customers: 1, ..Change::default() });
        }
        self.shard.recount(self.all_topics(), self.model.form);
        for (number, dish) in (0..).zip(&self.tree.dishes) {
            let place = (self.context(dish.restaurant), self.tree.outcomes[number as usize]);
            for (key, &(_, at, ups)) in state.seats.iter().filter(|(key, _)| (&key.1, key.2) == (&place.0, place.1)) {
                let change = Change { dish: number, topic: key.0, customers: 0, tables: at as i32, ups: ups as i32 };
                tables.push(change);
            }
        }
        let with_coins = if self.model.form.has_global() { self.tree.restaurants.len() as u32 } else { 0 };
        for restaurant in 0..with_coins {
            for side in 0..2 {
                let tables = state.coins.get(&(self.context(restaurant), side)).map_or(0, |counts| counts.1 as i32);
                coins.push(CoinChange { dish: 2 * restaurant + side, tables, tokens: 0 });
            }
        }
        take(&self.tree, self.model.form, &mut self.counts, tokens, tables, coins);
        self.rules.prepare(&self.tree, &mut self.counts);
    }
}

/// What of a state is compared: few enough figures that noise is small.
type View = fn(&State) -> Vec<u32>;
const VIEWS: [(&str, View); 4] = [
    ("topics", |state| state.topics.iter().map(|&topic| u32::from(topic)).collect()),
    ("tables", |state| {
        let at = |depth: bool| state.seats.iter().filter(move |(key, _)| key.1.is_empty() != depth);
        vec![at(false).map(|(_, counts)| counts.1).sum(), at(true).map(|(_, counts)| counts.1).sum()]
    }),
    ("labels", |state| {
        let of_coins =
            |side: u32| state.coins.iter().filter(move |(key, _)| key.1 == side).map(|(_, counts)| counts.1).sum();
        vec![of_coins(1), state.seats.values().map(|counts| counts.2).sum()]
    }),
    ("orders and the first topics", |state| {
        let orders = state.orders.iter().map(|&order| u32::from(order));
        orders.chain(state.topics[..2].iter().map(|&topic| u32::from(topic))).collect()
    }),
];

/// Half the sum of differences between two distributions, as each view has them: the largest.
fn distance(exact: &[(State, f64)], seen: &BTreeMap<State, f64>) -> f64 {
    let distance_of = |view: View| {
        let (mut expected, mut found) = (BTreeMap::<Vec<u32>, f64>::new(), BTreeMap::new());
        exact.iter().for_each(|(state, p)| *expected.entry(view(state)).or_default() += p);
        seen.iter().for_each(|(state, p)| *found.entry(view(state)).or_default() += p);
        total_variation(&found, &expected)
    };
    let found = VIEWS.map(|(name, view)| (name, distance_of(view)));
    eprintln!("{found:.4?}");
    found.iter().map(|(_, found)| *found).fold(0.0, f64::max)
}

/// States that are drawn from the exact distribution, each independent of the others.
const DRAWS: u32 = 40_000;

/// How far states drawn from the exact distribution are from it after one sweep.
fn after_a_sweep(model: &ToyModel, sweep: impl Fn(&mut Toy)) -> f64 {
    let exact = enumerate(model);
    let mut toy = Toy::new(model);
    let mut rng = generator(2, Purpose::Synth, 0, 0);
    let mut passed = 0.0;
    let upto: Vec<f64> = exact
        .iter()
        .map(|(_, p)| {
            passed += p;
            passed
        })
        .collect();
    let mut seen = BTreeMap::new();
    let mut moved = 0;
    for draw in 0..DRAWS {
        // Spread evenly, which takes noise out of the start.
        let lot = (f64::from(draw) + unit(&mut rng)) / f64::from(DRAWS) * passed;
        let drawn = &exact[upto.partition_point(|&p| p <= lot).min(exact.len() - 1)].0;
        toy.set(drawn);
        assert_eq!(toy.state(), *drawn, "a state that is taken is what is there");
        sweep(&mut toy);
        let state = toy.state();
        moved += u32::from(state.topics != drawn.topics);
        *seen.entry(state).or_insert(0.0) += 1.0 / f64::from(DRAWS);
    }
    assert!(20 * moved > DRAWS, "{model:?}: topics changed in {moved} of {DRAWS} sweeps");
    distance(&exact, &seen)
}

/// How far a long chain is from the exact distribution.
fn chain(model: &ToyModel, sweep: impl Fn(&mut Toy)) -> f64 {
    let exact = enumerate(model);
    let mut toy = Toy::new(model);
    toy.sweep_tokens(true);
    let sweeps = 60_000;
    let mut seen = BTreeMap::new();
    for _ in 0..sweeps {
        sweep(&mut toy);
        *seen.entry(toy.state()).or_insert(0.0) += 1.0 / f64::from(sweeps);
    }
    distance(&exact, &seen)
}

/// Every model, of bigrams and of trigrams, of fixed and of infinite order.
fn models() -> Vec<ToyModel> {
    let mut models = vec![];
    for form in [Form::Hpytm, Form::Hierarchical, Form::Switching] {
        for depth in [1, 2] {
            models.extend([false, true].map(|is_infinite| ToyModel::new(form, depth, is_infinite)));
        }
    }
    models
}

/// A sampler that moves the distribution by 0.05 in one sweep passes with probability exp(-50).
fn assert_all_stay(sweep: impl Fn(&mut Toy)) {
    for model in models() {
        let found = after_a_sweep(&model, &sweep);
        assert_near(&format!("{model:?}"), found, f64::from(DRAWS), 0.025);
    }
}

/// How far a step takes the exact distribution away from itself, every outcome of the sampler's own code weighed by its
/// probability; and how much of the distribution goes to other topics.
fn enumerated(model: &ToyModel, step: impl Fn(&mut Toy, &mut Outcomes)) -> (f64, f64) {
    let mut toy = Toy::new(model);
    let (mut exact, mut seen, mut moved) = (BTreeMap::new(), BTreeMap::new(), 0.0);
    for (state, p) in &enumerate(model) {
        toy.set(state);
        assert!(exact.insert(toy.key(), *p).is_none(), "every state has a key of its own");
        let (counts, shard) = (toy.counts.clone(), toy.shard.clone());
        let one_step = |chance: &mut Outcomes| {
            toy.counts.clone_from(&counts);
            toy.shard.clone_from(&shard);
            step(&mut toy, chance);
            (toy.key(), toy.shard.topics != shard.topics)
        };
        each_outcome(one_step, |(next, has_moved), q| {
            moved += if has_moved { p * q } else { 0.0 };
            *seen.entry(next).or_insert(0.0) += p * q;
        });
    }
    (total_variation(&seen, &exact), moved)
}

/// Without the correction of HIERARCHICAL, tokens move it by 0.01 to 0.04 and blocks by up to 0.003. Distances that
/// are left are of 32 bits.
#[test]
fn all_outcomes_of_a_step_together_leave_the_exact_distribution_as_it_is() {
    let one_context = [vec![3, 4], vec![3, 4], vec![3, 4]];
    let two_contexts = [vec![3, 4], vec![3, 3], vec![BEGIN]];
    for mut model in models() {
        for (tables, contexts) in [(false, &two_contexts), (true, &one_context), (true, &two_contexts)] {
            // With three tokens, some have millions of outcomes.
            let is_small = match model.form {
                Form::Hpytm => true,
                Form::Hierarchical => model.depth == 1 && tables && *contexts == two_contexts,
                Form::Switching => model.depth == 1,
            };
            let tokens = if is_small { 3 } else { 2 };
            let token = |(document, context): (u32, &Vec<u32>)| {
                (context[..model.depth.min(context.len())].to_vec(), 0, document % 2)
            };
            model.tokens = (0..).zip(&contexts[..tokens]).map(token).collect();
            let (distance, moved) = enumerated(&model, |toy, chance| match tables {
                false => toy.move_token(1, chance),
                true => toy.move_blocks(chance),
            });
            assert!(moved > 0.02, "{model:?}: topics change with probability {moved}");
            assert!(distance < 1e-6, "{model:?}: {distance} from the exact distribution");
        }
    }
}

fn sweep_both(toy: &mut Toy) {
    toy.sweep_tokens(false);
    toy.sweep_tables();
}

#[test]
fn the_token_based_sampler_leaves_the_exact_distribution_as_it_is() {
    assert_all_stay(|toy| toy.sweep_tokens(false));
}

#[test]
fn the_table_based_sampler_leaves_the_exact_distribution_as_it_is() {
    for smallest in [1, 2] {
        assert_all_stay(|toy| {
            toy.table_based.smallest = smallest;
            toy.sweep_tables();
        });
    }
}

/// With coins as they stood before a customer came, without a correction, this is 0.06 off.
#[test]
fn coins_that_a_customer_changes_on_its_way_are_accounted_for() {
    let found = chain(&ToyModel::new(Form::Hierarchical, 1, false), sweep_both);
    assert!(found < 0.025, "{found} from the exact distribution");
}

#[test]
fn the_likelihood_is_that_of_enumeration() {
    for model in models() {
        let mut toy = Toy::new(&model);
        for (state, p) in enumerate_together(&model) {
            toy.set(&state);
            let found = toy.likelihood_ln();
            assert!((found - libm::log(p)).abs() < 1e-6, "{model:?} {state:?}: {found} instead of {}", libm::log(p));
        }
    }
}

/// Hyperparameters, tokens and a state, drawn from the model. Contexts and documents are as in the toy corpus,
/// several times.
fn draw_together(form: Form, depth: usize, is_infinite: bool, rng: &mut Generator) -> (ToyModel, State) {
    let mut model = ToyModel::new(form, depth, is_infinite);
    let times = if depth == 1 { 3 } else { 2 };
    model.tokens = vec![model.tokens.clone(); times].concat();
    model.a.iter_mut().for_each(|a| *a = unit(rng).clamp(1e-6, 1.0 - 1e-6));
    model.b.iter_mut().for_each(|b| *b = gamma(1.0, rng).max(1e-6));
    model.gamma.iter_mut().for_each(|strength| *strength = gamma(1.0, rng).max(1e-6));
    let mut state = State::default();
    let first = u16::from(form.has_global());
    for token in 0..model.tokens.len() {
        let mut ways = vec![];
        for topic in choices(form) {
            let mut topics = state.topics.clone();
            let before = documents_ln(&model, &topics);
            topics.push(topic);
            let p = if topic < first { 1.0 } else { libm::exp(documents_ln(&model, &topics) - before) };
            for outcome in 0..OUTCOMES as u32 {
                model.tokens[token].1 = outcome;
                for order in state.orders(&model) {
                    let seated = state.token(&model, topic, order);
                    ways.extend(scaled(p, seated).map(|(p, state)| (p, outcome, state)));
                }
            }
        }
        let sum: f64 = ways.iter().map(|(p, ..)| p).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum} of all ways");
        let mut lot = unit(rng) * sum;
        let chosen = ways.iter().position(|(p, ..)| {
            lot -= p;
            lot < 0.0
        });
        let (_, outcome, next) = ways.swap_remove(chosen.unwrap_or(ways.len() - 1));
        (model.tokens[token].1, state) = (outcome, next);
    }
    (model, state)
}

/// Figures of hyperparameters and a state.
fn figures(toy: &Toy) -> Vec<f64> {
    let state = toy.state();
    let tables = |is_root: bool| {
        state
            .seats
            .iter()
            .filter(move |(key, _)| key.1.is_empty() == is_root)
            .map(|(_, counts)| f64::from(counts.1))
            .sum()
    };
    let share = |strength: f64| strength / (1.0 + strength);
    let (own, coins) = (&toy.rules.parameters, &toy.rules.coins.parameters);
    let global = state.topics.iter().filter(|topic| **topic == 0).count() as f64;
    let mut figures = vec![tables(true), tables(false), global];
    figures.extend(own.discounts.iter().chain(own.strengths.iter()).map(|&x| if x < 1.0 { x } else { 2.0 - 1.0 / x }));
    figures.extend(coins.strengths.iter().map(|&gamma| share(gamma)));
    figures.push(f64::from(u32::from(state.topics[1] == state.topics[2])));
    figures.push(state.coins.iter().filter(|(key, _)| key.1 == 1).map(|(_, counts)| f64::from(counts.0)).sum());
    figures.push(state.orders.iter().map(|&order| f64::from(order)).sum());
    figures.push(own.discounts[1] * tables(false));
    figures.push(share(coins.strengths[1]) * figures[figures.len() - 3]);
    figures
}

/// By how many standard errors each figure has moved, drawn from the model and then swept over; the most of all.
fn geweke(form: Form, depth: usize, is_infinite: bool, draws: u32) -> f64 {
    let mut rng = generator(5, Purpose::Synth, form as u64, depth as u64 * 2 + u64::from(is_infinite));
    let (mut sum, mut squares) = (vec![], vec![]);
    for draw in 0..draws {
        let (model, state) = draw_together(form, depth, is_infinite, &mut rng);
        let mut toy = Toy::new(&model);
        toy.rng = generator(6, Purpose::Synth, u64::from(draw), 0);
        toy.set(&state);
        let before = figures(&toy);
        sweep_both(&mut toy);
        toy.learn();
        let moved = figures(&toy).into_iter().zip(before).map(|(after, before)| after - before);
        sum.resize(moved.len(), 0.0);
        squares.resize(sum.len(), 0.0);
        for ((sum, squares), moved) in sum.iter_mut().zip(squares.iter_mut()).zip(moved) {
            *sum += moved;
            *squares += moved * moved;
        }
    }
    let scores: Vec<f64> =
        sum.iter().zip(&squares).map(|(sum, squares): (&f64, &f64)| sum / squares.sqrt().max(1e-9)).collect();
    eprintln!("{form:?} {depth} {is_infinite}: {scores:.2?}");
    scores.iter().fold(0.0, |most, score| most.max(score.abs()))
}

#[test]
fn what_is_drawn_from_a_model_stays_so_under_its_sampler() {
    for form in [Form::Hpytm, Form::Hierarchical, Form::Switching] {
        for (depth, is_infinite) in [(1, false), (1, true), (2, false), (2, true)] {
            let found = geweke(form, depth, is_infinite, 1_500);
            assert!(found < ERRORS, "{form:?} {depth} {is_infinite}: moved by {found} standard errors");
        }
    }
}

/// How far the topics of documents of trigrams, in so many shards, are from their exact distribution after a long chain with fixed
/// hyperparameters. Three shards share the root and all contexts of one word; those of two words are in one shard each.
fn distance_of_shards(form: Form, documents: &[&[u32]], shards: u32, sweeps: u64) -> f64 {
    let symbols = Symbols { end: 2, begin: 3 };
    let mut training = BTreeMap::<u32, Vec<(u32, Vec<u32>)>>::new();
    for (number, document) in (0..).zip(documents) {
        training.entry(number % shards).or_default().push((number, document.to_vec()));
    }
    let setup = Setup {
        seed: 1,
        form,
        topics: 2,
        order: Order::Fixed(3),
        tables_every: 1,
        strength: ALPHA.iter().sum(),
        learn_alpha: false,
        evaluation: EvaluationSettings::default(),
        shards,
        syncs_per_sweep: 3,
    };
    let share = Share { training, test: BTreeMap::new() };
    let dealt = Dealt::new(Own::all(), &mut |messages| messages, symbols, 2, shards, setup.parts(), share);
    let token = |token: usize| {
        (dealt.training.context(token).collect(), dealt.training.outcome(token), dealt.training.origins[token].0)
    };
    let mut toy = ToyModel::new(form, 2, false);
    toy.tokens = (0..dealt.training.count()).map(token).collect();
    toy.tokens.sort();
    let mut exact = BTreeMap::new();
    enumerate(&toy).into_iter().for_each(|(state, p)| *exact.entry(state.topics).or_insert(0.0) += p);
    let mut model = NgramModel::new(setup, symbols, dealt);
    let parameters = Parameters { discounts: A.to_vec(), strengths: B.to_vec() };
    let coins = Parameters { discounts: vec![0.0; 3], strengths: GAMMA.to_vec() };
    let prior = model.prior.clone().with_alpha(ALPHA.to_vec());
    model.set_shared(Hyperparameters { parameters, coins, prior });
    for phase in 0..model.phases(true) {
        (0..shards).for_each(|number| model.draw_shard(number, phase));
        model.synchronise_by(&mut |messages| messages, None);
    }
    let mut seen = BTreeMap::new();
    for sweep in 0..sweeps {
        model.begin_sweeps(&(sweep..sweep + 1));
        for phase in 0..model.phases(false) {
            (0..shards).for_each(|number| model.sweep_shard(number, sweep..sweep + 1, phase));
            model.synchronise_by(&mut |messages| messages, Some(phase));
        }
        *seen.entry(topics_of(&model)).or_insert(0.0) += 1.0;
    }
    total_variation(&seen, &exact)
}

/// The topics of all tokens, by context, outcome and document.
fn topics_of(model: &NgramModel) -> Vec<u16> {
    let mut topics = vec![];
    for part in model.shards.values().flat_map(|shard| &shard.parts) {
        let leaves = part.leaves.iter().flat_map(|&(leaf, tokens)| (0..tokens).map(move |_| leaf));
        for (leaf, (&document, &topic)) in leaves.zip(part.documents.iter().zip(&part.topics)) {
            let mut context = vec![];
            model.tree.context(model.tree.dishes[leaf as usize].restaurant, &mut context);
            topics.push(((context, model.tree.outcomes[leaf as usize], document), topic));
        }
    }
    topics.sort();
    topics.into_iter().map(|(_, topic)| topic).collect()
}

/// One shard is 0.005 to 0.012 away, which is the error of the chain; three are 0.029 to 0.038 away.
#[test]
fn three_shards_of_trigrams_are_near_the_exact_distribution() {
    let (long, short): (&[&[u32]], &[&[u32]]) = (&[&[0, 2], &[0, 2]], &[&[0, 0], &[0]]);
    for (form, documents) in [(Form::Hpytm, long), (Form::Switching, long), (Form::Hierarchical, short)] {
        let [one, three] = [1, 3].map(|shards| distance_of_shards(form, documents, shards, 40_000));
        assert!(one < 0.02, "{form:?}: one shard is {one} from the exact distribution");
        assert!(three < 0.06, "{form:?}: three shards are {three} from the exact distribution");
    }
}
