//! The hierarchical Pitman-Yor language model, as a model of the sweep driver.
//!
//! ```text
//! G_h ~ PYP(a_|h|, b_|h|, G_h')      h' is h without its farthest word; below the empty context, all words are equal
//! w_i ~ G_h, h the words before       (fixed order)
//! n_i by stopping on the way down, w_i ~ G_h, h the n_i words before       (infinite order, `restaurant::order`)
//! ```
//!
//! A sweep takes every token out of its restaurant and seats it again. Tokens with the same context and word are alike,
//! so a shard is a list of distinct n-grams with counts, in the order of the tree: its parents' counts stay in the cache.
//!
//! **What is exact and what is not.** With one shard, this is the Gibbs sampler. With several, a shard is a run of
//! sentences; how often each n-gram occurs is exact at every moment, and so are the tokens' orders. Tables are shared:
//! every shard opens and closes them against the counts as they stood at the last synchronisation and its own changes,
//! and the sums are then set right ([`crate::restaurant::merge`]). `scripts/results` has what that costs in perplexity.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::job::{Order, Plan};
use super::text::{Symbols, Tokens};
use crate::cluster::rng::{Generator, Purpose, generator};
use crate::cluster::sweep::{Model, Post};
use crate::corpus::vocabulary::UNKNOWN;
use crate::math::ln;
use crate::restaurant::merge::{Change, Marks};
use crate::restaurant::order::{self, Scratch};
use crate::restaurant::owners::{Home, Homes, Owners};
use crate::restaurant::parameters::{Census, Parameters, Sums};
use crate::restaurant::seating::{House, Path};
use crate::restaurant::tree::{NONE, Paths, Planted, Tree, Visits};

/// The tokens of a shard.
#[derive(Debug, Default)]
struct Shard {
    /// Distinct n-grams as dishes of whole contexts, and how many tokens each is, in the order of contexts.
    leaves: Vec<(u32, u32)>,
    /// The order of each token less one, where tokens have their own: those of the first n-gram first.
    orders: Vec<u8>,
}

/// The test tokens of a shard, in the order of the text.
#[derive(Debug, Default)]
struct Test {
    leaves: Vec<u32>,
    is_unknown: Vec<bool>,
    /// Sum of p over posterior samples.
    sums: Vec<f64>,
}

/// The dishes and restaurants that a shard is the home of: each is at home in one shard, and counted there.
#[derive(Debug, Default)]
struct AtHome {
    dishes: Marks,
    /// Those that more than one token passes: no others ever have a choice, or tell of discounts.
    busy_dishes: Vec<u32>,
    busy_restaurants: Vec<u32>,
}

/// What a checkpoint keeps of a shard.
#[derive(Serialize, Deserialize)]
pub struct SavedShard {
    /// Tables of the dishes whose home the shard is, by number.
    tables: Vec<u32>,
    orders: Vec<u8>,
    sums: Vec<f64>,
}

/// Figures of test tokens: those of known words and ends of sentences, and those of unknown words.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HeldOut {
    /// Sum of ln p by the last sample.
    pub last_ln: [f64; 2],
    /// Sum of ln of the mean of p over the samples so far.
    pub mean_ln: [f64; 2],
    pub tokens: [f64; 2],
}

impl HeldOut {
    pub fn figures(&self) -> Vec<f64> {
        [self.last_ln, self.mean_ln, self.tokens].concat()
    }

    pub fn from_figures(figures: &[f64]) -> Option<HeldOut> {
        let pair = |at: usize| Some([*figures.get(at)?, *figures.get(at + 1)?]);
        Some(HeldOut { last_ln: pair(0)?, mean_ln: pair(2)?, tokens: pair(4)? })
    }
}

pub struct Hpylm {
    plan: Plan,
    tree: Tree,
    house: House,
    shards: BTreeMap<u32, Shard>,
    tests: BTreeMap<u32, Test>,
    /// Tables by dish at the last synchronisation; empty where there is one shard alone.
    base: Vec<u32>,
    /// Until the first synchronisation: what is known of where dishes are at home.
    homes: Homes,
    /// By own shard: what is at home there.
    at_home: BTreeMap<u32, AtHome>,
    owners: Option<Owners>,
    /// Dishes whose tables the sweep over a shard has changed.
    marks: Marks,
    /// What the own shards have changed, and how many of these changes do not stand in the counts (any more): those of all
    /// shards but the last one swept, since every shard starts from the counts of the last synchronisation.
    changes: Vec<Change>,
    undone: usize,
    /// Tables by shard from a checkpoint, until it is known which dishes they are of.
    loaded: Vec<(u32, Vec<u32>)>,
    census: Census,
    contexts_of_max_order: usize,
    /// The last sweep after which parameters were learned.
    sweep: u64,
    path: Path,
    scratch: Scratch,
}

impl Hpylm {
    /// The model of a worker with these tokens.
    pub fn new(plan: &Plan, symbols: Symbols, tokens: Tokens) -> Hpylm {
        let Planted { mut tree, order, leaves } = Tree::plant(&tokens);
        if matches!(plan.order, Order::Infinite { .. }) {
            tree.visits = vec![Visits::default(); tree.restaurants.len()];
        }
        let (shards, tests) = deal(&tokens, &order, &leaves);
        let contexts_of_max_order = count_contexts(&tree, &tokens, &order, &leaves);
        let parameters = Parameters::new(plan.depth(), plan.discount, plan.strength);
        let mut model = Hpylm {
            plan: plan.clone(),
            house: House::new(parameters, 1.0 / f64::from(symbols.outcomes())),
            shards,
            tests,
            base: vec![],
            homes: Homes::default(),
            at_home: BTreeMap::new(),
            owners: None,
            marks: Marks::default(),
            changes: vec![],
            undone: 0,
            loaded: vec![],
            census: Census::default(),
            contexts_of_max_order,
            sweep: 0,
            path: Path::default(),
            scratch: Scratch::default(),
            tree,
        };
        model.homes = model.own_homes();
        if !model.is_alone() {
            model.base = vec![0; model.tree.dishes.len()];
            model.marks = Marks::new(model.tree.dishes.len());
        }
        model
    }

    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The contexts of all training tokens that this worker holds, up to the longest order.
    pub fn contexts_of_max_order(&self) -> usize {
        self.contexts_of_max_order
    }

    pub fn parameters(&self) -> &Parameters {
        &self.house.parameters
    }

    /// Whether the job has one shard, whose counts nobody else changes.
    fn is_alone(&self) -> bool {
        self.plan.schedule.shards == 1
    }

    fn is_infinite(&self) -> bool {
        matches!(self.plan.order, Order::Infinite { .. })
    }

    /// The homes of dishes and restaurants as far as this worker's own shards tell.
    fn own_homes(&self) -> Homes {
        let mut homes = Homes {
            dishes: vec![(Home::NOWHERE, 0); self.tree.dishes.len()],
            restaurants: vec![(Home::NOWHERE, 0); self.tree.restaurants.len()],
        };
        for (&number, shard) in &self.shards {
            for &(leaf, tokens) in &shard.leaves {
                let mut dish = leaf;
                while dish != NONE {
                    let record = self.tree.dishes[dish as usize];
                    let (outcome, element) =
                        (self.tree.outcomes[dish as usize], self.tree.elements[record.restaurant as usize]);
                    for (home, key) in [
                        (&mut homes.dishes[dish as usize], outcome),
                        (&mut homes.restaurants[record.restaurant as usize], element),
                    ] {
                        *home = (home.0.min(Home::new(key, number)), home.1 + tokens);
                    }
                    dish = record.parent;
                }
            }
        }
        homes
    }

    /// Notes what is at home in each own shard, once all workers agree.
    fn settle_homes(&mut self) {
        let homes = std::mem::take(&mut self.homes);
        let nothing = || AtHome { dishes: Marks::new(homes.dishes.len()), ..AtHome::default() };
        self.at_home = self.shards.keys().map(|&number| (number, nothing())).collect();
        for (dish, &(home, tokens)) in (0..).zip(&homes.dishes) {
            if let Some(at_home) = self.at_home.get_mut(&home.shard()) {
                at_home.dishes.set(dish);
                if tokens > 1 {
                    at_home.busy_dishes.push(dish);
                }
            }
        }
        for (restaurant, &(home, tokens)) in (0..).zip(&homes.restaurants) {
            if let Some(at_home) = self.at_home.get_mut(&home.shard()).filter(|_| tokens > 1) {
                at_home.busy_restaurants.push(restaurant);
            }
        }
    }

    /// Seats the tokens of a shard for the first time.
    fn seat(&mut self, shard: &mut Shard, rng: &mut Generator) {
        let is_alone = self.is_alone();
        let Hpylm { tree, house, path, scratch, marks, .. } = self;
        let mut changed = |dish, _| {
            if !is_alone {
                marks.set(dish);
            }
        };
        shard.orders.clear();
        for &(leaf, tokens) in &shard.leaves {
            path.find(tree, leaf);
            for _ in 0..tokens {
                match &self.plan.order {
                    Order::Fixed(_) => {
                        house.probabilities(tree, path, &mut scratch.words);
                        house.add(tree, path, path.depth(), &scratch.words, &mut changed, rng);
                    }
                    Order::Infinite { stop, .. } => {
                        let order = order::add(house, stop, tree, path, scratch, &mut changed, rng);
                        shard.orders.push(order as u8);
                    }
                }
            }
        }
    }

    /// Takes every token of a shard out and seats it again.
    fn sweep(&mut self, shard: &mut Shard, rng: &mut Generator) {
        let mark = |marks: &mut Marks, dish, _| marks.set(dish);
        // Where the order is fixed, a token that was its dish's only customer comes back to it, and opens a table again.
        let mark_most = |marks: &mut Marks, dish, is_only: bool| {
            if !is_only {
                marks.set(dish);
            }
        };
        match (self.is_alone(), self.is_infinite()) {
            (true, _) => self.reseat(shard, |_, _, _| (), rng),
            (false, true) => self.reseat(shard, mark, rng),
            (false, false) => self.reseat(shard, mark_most, rng),
        }
    }

    /// The same; `mark` notes a dish whose tables change, and is told whether the customer was its only one.
    #[inline(always)]
    fn reseat(&mut self, shard: &mut Shard, mark: impl Fn(&mut Marks, u32, bool), rng: &mut Generator) {
        let Hpylm { tree, house, path, scratch, marks, .. } = self;
        let mut changed = |dish, is_only| mark(marks, dish, is_only);
        let mut token = 0;
        for &(leaf, tokens) in &shard.leaves {
            path.find(tree, leaf);
            match &self.plan.order {
                Order::Fixed(_) => {
                    for _ in 0..tokens {
                        house.remove(tree, path, path.depth(), &mut changed, rng);
                        house.probabilities(tree, path, &mut scratch.words);
                        house.add(tree, path, path.depth(), &scratch.words, &mut changed, rng);
                    }
                }
                Order::Infinite { stop, .. } => {
                    for order in &mut shard.orders[token..token + tokens as usize] {
                        order::remove(house, tree, path, usize::from(*order), &mut changed, rng);
                        *order = order::add(house, stop, tree, path, scratch, &mut changed, rng) as u8;
                    }
                }
            }
            token += tokens as usize;
        }
    }

    /// Notes what a shard has changed. `before` are the orders at first.
    fn note(&mut self, shard: &Shard, before: &[u8]) {
        let mut from = 0;
        while let Some(dish) = self.marks.next(from) {
            let tables = self.tree.dishes[dish as usize].tables.wrapping_sub(self.base[dish as usize]) as i32;
            if tables != 0 {
                self.changes.push(Change { dish, tables, tokens: 0 });
            }
            from = dish + 1;
        }
        self.marks.clear();
        let mut token = 0;
        let leaves = if self.is_infinite() { shard.leaves.as_slice() } else { &[] };
        for &(leaf, tokens) in leaves {
            self.path.find(&self.tree, leaf);
            for _ in 0..tokens {
                let (old, new) = (before.get(token).copied(), shard.orders[token]);
                token += 1;
                if old != Some(new) {
                    let (dish, tables) = (self.path.dish(usize::from(new)), 0);
                    self.changes.push(Change { dish, tables, tokens: 1 });
                    if let Some(old) = old {
                        let dish = self.path.dish(usize::from(old));
                        self.changes.push(Change { dish, tables, tokens: -1 });
                    }
                }
            }
        }
    }

    /// Returns the counts to where they were at the last synchronisation.
    fn undo(&mut self) {
        for change in &self.changes[self.undone..] {
            self.tree.change(Change { tables: -change.tables, tokens: -change.tokens, ..*change });
        }
        self.undone = self.changes.len();
    }

    /// Notes changes that do not stand in the counts.
    fn note_undone(&mut self, changes: impl IntoIterator<Item = Change>) {
        self.undo();
        self.changes.extend(changes);
        self.undone = self.changes.len();
    }

    /// The tokens of a shard as changes: where they are counted for the first time.
    fn token_changes(&self, shard: &Shard) -> Vec<Change> {
        let mut changes = vec![];
        let mut path = Path::default();
        let mut token = 0;
        for &(leaf, tokens) in &shard.leaves {
            if shard.orders.is_empty() {
                changes.push(Change { dish: leaf, tables: 0, tokens: tokens as i32 });
                continue;
            }
            path.find(&self.tree, leaf);
            for &order in &shard.orders[token..token + tokens as usize] {
                changes.push(Change { dish: path.dish(usize::from(order)), tables: 0, tokens: 1 });
            }
            token += tokens as usize;
        }
        changes
    }

    /// Turns tables from a checkpoint into changes of the dishes that they are of.
    fn take_loaded(&mut self) {
        for (number, tables) in std::mem::take(&mut self.loaded) {
            let dishes: Vec<u32> = self.at_home.get(&number).expect("an own shard").dishes.iter().collect();
            assert_eq!(dishes.len(), tables.len(), "the checkpoint of shard {number} has other dishes");
            let change = |(dish, tables)| Change { dish, tables: tables as i32, tokens: 0 };
            self.note_undone(dishes.into_iter().zip(tables).map(change));
        }
    }

    /// p of a test token.
    fn probability(&mut self, leaf: u32) -> f64 {
        let Hpylm { tree, house, path, scratch, .. } = self;
        path.find(tree, leaf);
        match &self.plan.order {
            Order::Fixed(_) => {
                house.probabilities(tree, path, &mut scratch.words);
                scratch.words[path.depth()]
            }
            Order::Infinite { stop, .. } => order::probability(house, stop, tree, path, scratch),
        }
    }

    /// Draws the auxiliary variables of the restaurants and dishes at home in a shard.
    fn draw_statistics(&mut self, number: u32, sweep: u64) -> Vec<f64> {
        let Some(at_home) = self.at_home.get(&number) else { return vec![] };
        let mut rng = generator(self.plan.seed, Purpose::Statistics, u64::from(number), sweep);
        let mut figures = vec![];
        let part = |list: &[u32], range: &Range<u32>| -> Range<usize> {
            list.partition_point(|at| *at < range.start)..list.partition_point(|at| *at < range.end)
        };
        for (depth, level) in self.tree.levels.iter().enumerate() {
            self.census.clear();
            for &restaurant in &at_home.busy_restaurants[part(&at_home.busy_restaurants, &level.restaurants)] {
                self.census.count_restaurant(self.tree.restaurants[restaurant as usize]);
            }
            for &dish in &at_home.busy_dishes[part(&at_home.busy_dishes, &level.dishes)] {
                self.census.count_dish(self.tree.dishes[dish as usize]);
            }
            let (a, b) = (self.house.parameters.discounts[depth], self.house.parameters.strengths[depth]);
            figures.extend(self.census.draw(a, b, self.house.alone(depth), &mut rng).figures());
        }
        figures
    }
}

/// Counts the restaurants that a training token passes.
fn count_contexts(tree: &Tree, tokens: &Tokens, order: &[u32], leaves: &[u32]) -> usize {
    let mut passed = Marks::new(tree.restaurants.len());
    let is_test = |token: usize| tokens.test.values().any(|range| range.contains(&token));
    for (_, &leaf) in order.iter().zip(leaves).filter(|(token, _)| !is_test(**token as usize)) {
        let mut dish = leaf;
        while dish != NONE && !passed.contains(tree.dishes[dish as usize].restaurant) {
            passed.set(tree.dishes[dish as usize].restaurant);
            dish = tree.dishes[dish as usize].parent;
        }
    }
    passed.iter().count()
}

/// Deals the tokens of a planted tree to the shards that they are of.
fn deal(tokens: &Tokens, order: &[u32], leaves: &[u32]) -> (BTreeMap<u32, Shard>, BTreeMap<u32, Test>) {
    let mut shards: BTreeMap<u32, Shard> = tokens.training.keys().map(|&number| (number, Shard::default())).collect();
    let mut tests: BTreeMap<u32, Test> = BTreeMap::new();
    for (&number, range) in &tokens.test {
        let is_unknown = range.clone().map(|token| tokens.outcome(token) == UNKNOWN).collect();
        let sums = vec![0.0; range.len()];
        tests.insert(number, Test { leaves: vec![NONE; range.len()], is_unknown, sums });
    }
    // Which shard each token is of: tokens of a shard are one run.
    let mut runs: Vec<(&Range<usize>, bool, u32)> =
        tokens.training.iter().map(|(n, range)| (range, false, *n)).collect();
    runs.extend(tokens.test.iter().map(|(n, range)| (range, true, *n)));
    runs.sort_by_key(|(range, ..)| range.start);
    for (&token, &leaf) in order.iter().zip(leaves) {
        let token = token as usize;
        let run = runs.partition_point(|(range, ..)| range.end <= token);
        let Some((range, is_test, number)) = runs.get(run) else { continue }; // held for others
        if *is_test {
            tests.get_mut(number).expect("a test shard").leaves[token - range.start] = leaf;
        } else {
            let leaves = &mut shards.get_mut(number).expect("a shard").leaves;
            match leaves.last_mut() {
                Some((last, tokens)) if *last == leaf => *tokens += 1,
                _ => leaves.push((leaf, 1)),
            }
        }
    }
    (shards, tests)
}

impl Model for Hpylm {
    type Saved = SavedShard;
    type Shared = Parameters;

    fn draw_shard(&mut self, number: u32, _: u32) {
        let Some(mut shard) = self.shards.remove(&number) else { return };
        let mut rng = generator(self.plan.seed, Purpose::Initial, u64::from(number), 0);
        self.undo();
        self.seat(&mut shard, &mut rng);
        if !self.is_alone() {
            let changes = match self.plan.order {
                Order::Fixed(_) => self.token_changes(&shard),
                Order::Infinite { .. } => vec![], // noted with their orders
            };
            self.changes.extend(changes);
            self.note(&shard, &[]);
        }
        self.shards.insert(number, shard);
    }

    fn load_shard(&mut self, number: u32, saved: SavedShard) -> Result<(), String> {
        let tokens: usize = self.tokens(number) as usize;
        let deepest = self.plan.depth();
        let orders = if self.is_infinite() { tokens } else { 0 };
        let test = self.tests.get(&number).map_or(0, |test| test.leaves.len());
        if saved.orders.len() != orders
            || saved.sums.len() != test
            || saved.orders.iter().any(|&order| usize::from(order) > deepest)
        {
            return Err(format!("the checkpoint of shard {number} does not fit its {tokens} tokens"));
        }
        if let Some(test) = self.tests.get_mut(&number) {
            test.sums = saved.sums;
        }
        let mut shard = self.shards.remove(&number).unwrap_or_default();
        shard.orders = saved.orders;
        let changes = self.token_changes(&shard);
        self.note_undone(changes);
        self.shards.insert(number, shard);
        self.loaded.push((number, saved.tables));
        Ok(())
    }

    fn save_shard(&self, number: u32) -> SavedShard {
        let dishes = self.at_home.get(&number).into_iter().flat_map(|at_home| at_home.dishes.iter());
        let tables = dishes.map(|dish| self.tree.dishes[dish as usize].tables).collect();
        let test = self.tests.get(&number);
        SavedShard {
            tables,
            orders: self.shards.get(&number).map_or(vec![], |shard| shard.orders.clone()),
            sums: test.map_or(vec![], |test| test.sums.clone()),
        }
    }

    /// Nothing: what was drawn or loaded is noted already.
    fn count_shard(&mut self, _: u32) {}

    fn sweep_shard(&mut self, number: u32, sweeps: Range<u64>, _: u32) {
        let Some(mut shard) = self.shards.remove(&number) else { return };
        let before = if self.is_alone() { vec![] } else { shard.orders.clone() };
        self.undo();
        for sweep in sweeps {
            let mut rng = generator(self.plan.seed, Purpose::Sweep, u64::from(number), sweep);
            self.sweep(&mut shard, &mut rng);
        }
        if !self.is_alone() {
            self.note(&shard, &before);
        }
        self.shards.insert(number, shard);
    }

    fn synchronise(&mut self, post: &mut Post<'_>) {
        if post.peers() > 1 && self.owners.is_none() && !self.is_alone() {
            let has_visits = self.is_infinite();
            self.owners = Some(Owners::agree(&self.tree, &mut self.homes, has_visits, post));
        }
        if !self.homes.dishes.is_empty() {
            self.settle_homes();
        }
        self.take_loaded();
        let (changes, undone) = (std::mem::take(&mut self.changes), std::mem::take(&mut self.undone));
        if let Some(owners) = &mut self.owners {
            let base = &mut self.base;
            owners.synchronise(&mut self.tree, &changes, post, |dish, tree| {
                base[dish as usize] = tree.dishes[dish as usize].tables;
            });
            return;
        }
        if changes.is_empty() {
            return;
        }
        self.marks = Marks::new(self.tree.dishes.len());
        let (undone, standing) = changes.split_at(undone);
        undone.iter().for_each(|change| self.tree.apply(*change, &mut self.marks));
        standing.iter().for_each(|change| self.tree.touch(*change, &mut self.marks));
        self.tree.repair(&mut self.marks);
        let mut from = 0;
        while let Some(dish) = self.marks.next(from).filter(|_| !self.is_alone()) {
            self.base[dish as usize] = self.tree.dishes[dish as usize].tables;
            from = dish + 1;
        }
        self.marks.clear();
    }

    /// The sums of auxiliary variables, by depth.
    fn statistics(&mut self, number: u32, sweep: u64) -> Vec<f64> {
        if !self.plan.learn {
            return vec![];
        }
        self.draw_statistics(number, sweep)
    }

    fn learn(&mut self, statistics: &[Vec<f64>], sweep: u64) {
        self.sweep = sweep;
        if !self.plan.learn {
            return;
        }
        let depths = self.house.parameters.discounts.len();
        let mut sum = vec![0.0; 4 * depths];
        for of_shard in statistics {
            sum.iter_mut().zip(of_shard).for_each(|(sum, figure)| *sum += figure);
        }
        let mut rng = generator(self.plan.seed, Purpose::Hyperparameters, sweep, 0);
        let mut parameters = self.house.parameters.clone();
        for depth in 0..depths {
            let sums = Sums::from_figures(&sum[4 * depth..4 * depth + 4]);
            (parameters.discounts[depth], parameters.strengths[depth]) = sums.redraw(&self.plan.prior, &mut rng);
        }
        self.house.set_parameters(parameters);
    }

    fn evaluate(&mut self, number: u32, sweep: u64) -> Vec<f64> {
        let Some(mut test) = self.tests.remove(&number) else { return vec![] };
        let (is_sample, samples) = (self.plan.is_sample(sweep), self.plan.samples(sweep));
        let mut held_out = HeldOut::default();
        for token in 0..test.leaves.len() {
            let p = self.probability(test.leaves[token]);
            if is_sample {
                test.sums[token] += p;
            }
            let mean = if samples > 0 { test.sums[token] / samples as f64 } else { p };
            let kind = usize::from(test.is_unknown[token]);
            held_out.last_ln[kind] += ln(p);
            held_out.mean_ln[kind] += ln(mean);
            held_out.tokens[kind] += 1.0;
        }
        self.tests.insert(number, test);
        held_out.figures()
    }

    /// The number of samples, discounts, strengths.
    fn snapshot(&self) -> Vec<f64> {
        let Parameters { discounts, strengths } = &self.house.parameters;
        [&[self.plan.samples(self.sweep) as f64], discounts.as_slice(), strengths.as_slice()].concat()
    }

    fn shared(&self) -> Parameters {
        self.house.parameters.clone()
    }

    fn set_shared(&mut self, shared: Parameters) {
        self.house.set_parameters(shared);
    }

    fn tokens(&self, number: u32) -> u64 {
        self.shards.get(&number).map_or(0, |shard| shard.leaves.iter().map(|(_, tokens)| u64::from(*tokens)).sum())
    }
}
