//! Topic n-gram models as models of the sweep driver.
//!
//! Every worker holds the tree, the counts and the assignments of all shards. A shard sweeps over a copy of the counts as
//! they stood at the last synchronisation; what differs then is its change.
//!
//! Where there are several shards, a sweep has two phases: the token-based sampler passes over shards of documents, and
//! after a synchronisation the table-based one over shards of words (`assignments`). So no block is split. What a
//! shard does not see, in the first phase, is the others' customers; in the second, the totals of restaurants, coins and
//! documents as the others' words change them.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::assignments::{Assignments, Moved, Ranked};
use super::counts::{Counts, Form};
use super::descent::{Descent, by_word};
use super::documents::{Alpha, Seating, ShardTokens};
use super::held_out::Reader;
use super::learn::part;
use super::merge::{Change, Changes, take};
use super::rules::Rules;
use super::table_based::TableSampler;
use super::token_based::TokenSampler;
use crate::cluster::rng::{Purpose, generator};
use crate::cluster::sweep::{Model, Post};
use crate::lm::job::Order;
use crate::lm::text::{Symbols, Tokens};
use crate::restaurant::merge::{Change as CoinChange, Marks};
use crate::restaurant::parameters::{Census, Parameters};
use crate::restaurant::tree::{NONE, Planted, Tree};
use crate::topics::collection::Share;
use crate::topics::job::{EvaluationSettings, Plan};
use crate::topics::prior::Prior;

/// What a model is, and how it is trained.
#[derive(Clone, Debug)]
pub struct Setup {
    pub seed: u64,
    pub form: Form,
    /// Topics of documents, without a global one.
    pub topics: usize,
    pub order: Order,
    /// In every how many sweeps the table-based sampler follows the token-based one; 0: in none.
    pub tables_every: u64,
    /// Sum of the document prior alpha, at first, and whether it is learned.
    pub strength: f64,
    pub learn_alpha: bool,
    pub evaluation: EvaluationSettings,
    pub shards: u32,
}

impl Setup {
    pub fn of(plan: &Plan) -> Setup {
        Setup {
            seed: plan.seed,
            form: plan.model.form(),
            topics: plan.model.topics,
            order: plan.order,
            tables_every: plan.tables_every,
            strength: plan.model.strength,
            learn_alpha: plan.model.learn_alpha,
            evaluation: plan.evaluation,
            shards: plan.schedule.shards,
        }
    }

    /// The same for one n-gram model without topics: an HPYLM.
    pub fn of_one_topic(self) -> Setup {
        Setup { form: Form::Hpytm, topics: 1, tables_every: 0, learn_alpha: false, ..self }
    }

    /// Topics, and the global one where there is one.
    pub fn all_topics(&self) -> usize {
        self.topics + usize::from(self.form.has_global())
    }

    /// The longest context.
    pub fn depth(&self) -> usize {
        self.order.longest() - 1
    }
}

/// What all workers share beside the counts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hyperparameters {
    pub parameters: Parameters,
    pub coins: Parameters,
    pub prior: Prior,
}

/// What a checkpoint keeps of a shard: topics and orders of its tokens; and tables of its part of the dishes, which
/// follow from no shard alone, by (dish, topic) in order, with how many of them went up; and of its part of the coins.
#[derive(Serialize, Deserialize)]
pub struct SavedShard {
    topics: Vec<u16>,
    orders: Vec<u8>,
    tables: Vec<(u32, u16, u32, u32)>,
    coins: Vec<u32>,
}

pub struct NgramModel {
    pub(super) setup: Setup,
    /// The begin of a sentence: contexts that end with it are as long as can be.
    pub(super) begin: u32,
    pub(super) tree: Tree,
    pub(super) counts: Counts,
    /// A copy for a shard to work on; empty where there is one shard.
    work: Counts,
    pub(super) rules: Rules,
    pub(super) prior: Prior,
    token_based: TokenSampler,
    table_based: TableSampler,
    descent: Descent,
    pub(super) assignments: Assignments,
    /// The tokens of own shards' documents.
    tokens: BTreeMap<u32, Vec<u32>>,
    /// Test documents by shard: number in the catalogue, and dishes of whole contexts.
    tests: BTreeMap<u32, Vec<(u32, Vec<u32>)>>,
    marks: Marks,
    changes: Changes,
    pub(super) census: Census,
}

impl NgramModel {
    /// The model of a worker that has the documents of all shards in `share`, and owns those for which `is_mine`.
    pub fn new(setup: Setup, symbols: Symbols, share: Share, is_mine: impl Fn(u32) -> bool) -> NgramModel {
        let (form, depth, topics) = (setup.form, setup.depth(), setup.all_topics());
        let (places, tokens) = lay_out(symbols, share, depth);
        let Planted { tree, order, leaves } = Tree::plant(&tokens);
        let mut leaf_of = vec![NONE; order.len()];
        order.iter().zip(&leaves).for_each(|(&token, &leaf)| leaf_of[token as usize] = leaf);
        drop((order, leaves, tokens));

        let stop = setup.order.stop();
        let training = places.iter().filter(|place| !place.is_test);
        let passing = passing(&tree, training.flat_map(|place| leaf_of[place.tokens.clone()].iter().copied()));
        let counts = Counts::new(&tree, form, topics, &passing, stop.is_some());
        let ranks = by_word(&tree);
        let (by_rank, of_documents) = deal(&places, setup.shards, &leaf_of, &ranks);
        let assignments = Assignments::new(form, topics, by_rank, of_documents, &tree, stop.is_some());
        let own = (0..setup.shards).filter(|&number| is_mine(number));
        let tokens = own.map(|number| (number, assignments.of_documents(number))).collect();
        let mut tests: BTreeMap<u32, Vec<(u32, Vec<u32>)>> = BTreeMap::new();
        for place in places.iter().filter(|place| place.is_test && is_mine(place.shard)) {
            tests.entry(place.shard).or_default().push((place.number, leaf_of[place.tokens.clone()].to_vec()));
        }
        let (parameters, coins) = (Parameters::new(depth, 0.5, 1.0), Parameters::new(depth, 0.0, 1.0));
        let is_alone = setup.shards == 1;
        NgramModel {
            work: if is_alone { Counts::default() } else { counts.clone() },
            counts,
            rules: Rules::new(form, parameters, coins, 1.0 / f64::from(symbols.outcomes()), stop),
            prior: Prior::new(setup.topics, setup.strength, 1.0, u64::from(symbols.outcomes())),
            token_based: TokenSampler::new(form, topics, depth),
            table_based: TableSampler::new(form, topics, depth),
            descent: Descent::new(form, topics, depth),
            assignments,
            tokens,
            tests,
            marks: Marks::new(if is_alone { 0 } else { tree.dishes.len() }),
            changes: Changes::default(),
            census: Census::default(),
            tree,
            begin: symbols.begin,
            setup,
        }
    }

    fn is_alone(&self) -> bool {
        self.setup.shards == 1
    }

    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    pub fn hyperparameters(&self) -> Hyperparameters {
        Hyperparameters {
            parameters: self.rules.parameters.clone(),
            coins: self.rules.coins.parameters.clone(),
            prior: self.prior.clone(),
        }
    }

    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The test documents of an own shard: number in the catalogue, and dishes of whole contexts.
    pub fn test_documents(&self, shard: u32) -> &[(u32, Vec<u32>)] {
        self.tests.get(&shard).map_or(&[], Vec::as_slice)
    }

    /// Bytes of memory of the tree and the counts, without copies.
    pub fn bytes(&self) -> usize {
        let tree = self.tree.dishes.len() * 20 + self.tree.restaurants.len() * 16;
        tree + self.counts.bytes()
    }

    /// Whether the table-based sampler follows the token-based one in a sweep.
    fn has_tables(&self, sweep: u64) -> bool {
        self.setup.tables_every > 0 && sweep.is_multiple_of(self.setup.tables_every)
    }

    /// Passes over a shard, and notes what it changed.
    fn pass(&mut self, number: u32, sweeps: Range<u64>, what: Pass) {
        let own = match what {
            Pass::Tables if !sweeps.clone().any(|sweep| self.has_tables(sweep)) => return,
            Pass::Tables => self.assignments.of_words(number).collect(),
            _ => self.tokens[&number].clone(),
        };
        let mut shard = match what {
            Pass::Tables => self.assignments.with_words(number),
            _ => self.assignments.with_documents(number, &own),
        };
        self.sweep(number, &mut shard, sweeps, what);
        let moved = self.assignments.moved(own.into_iter(), &shard);
        if self.is_alone() {
            for moved in moved {
                self.assignments.assign(&self.tree, moved); // the counts know already
            }
        } else {
            self.note_tables();
            self.changes.moved.extend(moved);
        }
    }

    /// Sweeps over tokens and a copy of the counts; over the counts themselves where there is one shard.
    fn sweep(&mut self, number: u32, shard: &mut ShardTokens, sweeps: Range<u64>, what: Pass) {
        let is_alone = self.is_alone();
        let alpha = Alpha::new(self.prior.alpha(), self.setup.form);
        self.rules.prepare(&self.tree, &mut self.counts);
        if !is_alone {
            self.work.copy_from(&self.counts);
        }
        let with_tables: Vec<bool> = sweeps.clone().map(|sweep| self.has_tables(sweep)).collect();
        let counts = if is_alone { &mut self.counts } else { &mut self.work };
        let mut seating = Seating { tree: &self.tree, counts, rules: &mut self.rules };
        let marks = &mut self.marks;
        let mut changed = |dish| {
            if !is_alone {
                marks.set(dish);
            }
        };
        let rng = |purpose: Purpose, sweep: u64| generator(self.setup.seed, purpose, u64::from(number), sweep);
        for (sweep, with_tables) in sweeps.zip(with_tables) {
            if what != Pass::Tables {
                let (is_new, purpose) = match what {
                    Pass::First => (true, Purpose::Initial),
                    _ => (false, Purpose::Sweep),
                };
                self.token_based.sweep(&mut seating, shard, &alpha, is_new, &mut changed, &mut rng(purpose, sweep));
            }
            if with_tables && matches!(what, Pass::Tables | Pass::Both) {
                self.table_based.sweep(&mut seating, shard, &alpha, &mut changed, &mut rng(Purpose::Tables, sweep));
            }
        }
    }

    /// Notes how the tables of the copy differ from those of the counts.
    fn note_tables(&mut self) {
        let (old, new) = (&self.counts.dishes, &self.work.dishes);
        for dish in self.marks.iter() {
            let mut topics: Vec<usize> = old.slots(dish).map(|slot| old.topic(slot)).collect();
            topics.extend(new.slots(dish).map(|slot| new.topic(slot)));
            topics.sort_unstable();
            topics.dedup();
            for topic in topics {
                let (old, new) = (old.get(dish, topic), new.get(dish, topic));
                let tables = new.tables.wrapping_sub(old.tables) as i32;
                let ups = new.ups.wrapping_sub(old.ups) as i32;
                if (tables, ups) != (0, 0) {
                    let change = Change { dish, topic: topic as u16, customers: 0, tables, ups };
                    self.changes.tables.push(change);
                }
            }
        }
        self.marks.clear();
        for (dish, (new, old)) in (0..).zip(self.work.coins.dishes.iter().zip(&self.counts.coins.dishes)) {
            let tables = new.tables.wrapping_sub(old.tables) as i32;
            if tables != 0 {
                self.changes.coins.push(CoinChange { dish, tables, tokens: 0 });
            }
        }
    }

    fn part(&self, number: u32, count: usize) -> Range<usize> {
        part(count, number, u64::from(self.setup.shards))
    }
}

/// Which sampler passes over a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// Tokens have no topic yet.
    First,
    Tokens,
    Tables,
    Both,
}

/// A document: where its tokens are.
struct Place {
    is_test: bool,
    shard: u32,
    /// In the catalogue.
    number: u32,
    tokens: Range<usize>,
}

/// All documents one after the other.
fn lay_out(symbols: Symbols, share: Share, depth: usize) -> (Vec<Place>, Tokens) {
    let mut tokens = Tokens::new(symbols, depth);
    let mut places = vec![];
    for (is_test, documents) in [(false, share.training), (true, share.test)] {
        for (shard, documents) in documents {
            for (number, words) in documents {
                let start = tokens.len();
                words.split_inclusive(|&word| word == symbols.end).for_each(|words| tokens.push_sentence(words));
                places.push(Place { is_test, shard, number, tokens: start..tokens.len() });
            }
        }
    }
    (places, tokens)
}

/// How many of the tokens with these leaves pass each dish.
fn passing(tree: &Tree, leaves: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut passing = vec![0u32; tree.dishes.len()];
    leaves.for_each(|leaf| passing[leaf as usize] += 1);
    for dish in 0..tree.dishes.len() {
        let parent = tree.dishes[dish].parent;
        if parent != NONE {
            passing[parent as usize] += passing[dish];
        }
    }
    passing
}

/// All tokens to train on, and the documents of each shard.
fn deal(places: &[Place], shards: u32, leaf_of: &[u32], ranks: &[u32]) -> (Vec<Ranked>, Vec<Range<u32>>) {
    let training: Vec<&Place> = places.iter().filter(|place| !place.is_test).collect();
    let mut tokens = vec![];
    for (document, place) in (0..).zip(&training) {
        let leaves = leaf_of[place.tokens.clone()].iter();
        tokens.extend(leaves.map(|&leaf| (ranks[leaf as usize], leaf, document)));
    }
    let first = |shard: u32| training.partition_point(|place| place.shard < shard) as u32;
    (tokens, (0..shards).map(|shard| first(shard)..first(shard + 1)).collect())
}

impl Model for NgramModel {
    type Saved = SavedShard;
    type Shared = Hyperparameters;

    /// One for each sampler, where there are several shards.
    fn phases(&self, is_first: bool) -> u32 {
        if is_first || self.is_alone() || self.setup.tables_every == 0 { 1 } else { 2 }
    }

    fn draw_shard(&mut self, number: u32, _: u32) {
        self.pass(number, 0..1, Pass::First);
    }

    fn load_shard(&mut self, number: u32, saved: SavedShard) -> Result<(), String> {
        let topics = self.setup.all_topics();
        let tokens = &self.tokens[&number];
        let orders = if self.setup.order.stop().is_some() { tokens.len() } else { 0 };
        let fits = saved.topics.len() == tokens.len()
            && saved.orders.len() == orders
            && saved.topics.iter().all(|&topic| usize::from(topic) < topics)
            && saved.orders.iter().all(|&order| usize::from(order) <= self.setup.depth());
        if !fits {
            return Err(format!("the checkpoint of shard {number} does not fit its {} tokens", tokens.len()));
        }
        self.changes.moved.extend(tokens.iter().zip(saved.topics).enumerate().map(|(place, (&token, topic))| Moved {
            token,
            topic,
            order: saved.orders.get(place).copied().unwrap_or(0),
        }));
        self.changes.tables.extend(saved.tables.into_iter().map(|(dish, topic, tables, ups)| Change {
            dish,
            topic,
            customers: 0,
            tables: tables as i32,
            ups: ups as i32,
        }));
        let part = self.part(number, self.counts.coins.dishes.len());
        let coins = part.zip(saved.coins).filter(|(_, tables)| *tables > 0);
        self.changes.coins.extend(coins.map(|(dish, tables)| CoinChange {
            dish: dish as u32,
            tables: tables as i32,
            tokens: 0,
        }));
        Ok(())
    }

    fn save_shard(&self, number: u32) -> SavedShard {
        let seats = &self.counts.dishes;
        let mut tables = vec![];
        for dish in self.part(number, seats.len()) {
            let list = seats.list(dish as u32).filter(|entry| entry.tables > 0);
            tables.extend(list.map(|entry| (dish as u32, entry.topic, entry.tables as u32, entry.ups as u32)));
        }
        let coins = &self.counts.coins.dishes[self.part(number, self.counts.coins.dishes.len())];
        let (topics, orders) = self.assignments.saved(&self.tokens[&number]);
        SavedShard { topics, orders, tables, coins: coins.iter().map(|dish| dish.tables).collect() }
    }

    /// Nothing: what was drawn or loaded is noted already.
    fn count_shard(&mut self, _: u32) {}

    fn sweep_shard(&mut self, number: u32, sweeps: Range<u64>, phase: u32) {
        let what = match (self.is_alone(), phase) {
            (true, _) => Pass::Both,
            (false, 0) => Pass::Tokens,
            (false, _) => Pass::Tables,
        };
        self.pass(number, sweeps, what);
    }

    fn synchronise(&mut self, post: &mut Post<'_>) {
        let letter = std::mem::take(&mut self.changes).to_letter();
        let mut changes = Changes::default();
        post.exchange(vec![letter; post.peers()]).iter().for_each(|letter| changes.read(letter));
        let mut tokens = vec![];
        for moved in changes.moved {
            let (before, after) = self.assignments.assign(&self.tree, moved);
            let change = |(dish, topic), customers| Change { dish, topic, customers, ..Change::default() };
            tokens.extend(before.map(|place| change(place, -1)));
            tokens.push(change(after, 1));
        }
        take(&self.tree, self.setup.form, &mut self.counts, tokens, changes.tables, changes.coins);
    }

    fn statistics(&mut self, number: u32, sweep: u64) -> Vec<f64> {
        self.draw_statistics(number, sweep)
    }

    fn learn(&mut self, statistics: &[Vec<f64>], sweep: u64) {
        self.learn_parameters(statistics, sweep);
    }

    /// ln p of the test documents, their tokens, and the seconds that it took.
    fn evaluate(&mut self, number: u32, sweep: u64) -> Vec<f64> {
        let began = std::time::Instant::now();
        let (mut probability_ln, mut tokens) = (0.0, 0);
        self.rules.prepare(&self.tree, &mut self.counts);
        let alpha = Alpha::new(self.prior.alpha(), self.setup.form);
        let (form, topics) = (self.setup.form, self.setup.all_topics());
        let EvaluationSettings { particles, resample, .. } = self.setup.evaluation;
        for (document, leaves) in self.tests.get(&number).into_iter().flatten() {
            let mut rng = generator(self.setup.seed, Purpose::Evaluation, u64::from(*document), sweep);
            let mut reader = Reader::new(&alpha, form, topics, particles, resample);
            for &leaf in leaves {
                self.descent.forget();
                self.descent.go_to(&self.tree, leaf);
                self.descent.look(&self.counts, &self.rules);
                probability_ln += reader.read(self.descent.mix(), &mut rng);
            }
            tokens += leaves.len();
        }
        vec![probability_ln, tokens as f64, began.elapsed().as_secs_f64()]
    }

    fn snapshot(&self) -> Vec<f64> {
        let (own, coins) = (&self.rules.parameters, &self.rules.coins.parameters);
        let sizes = [self.counts.nodes() as f64, self.bytes() as f64];
        [own.discounts.as_slice(), &own.strengths, &coins.strengths, &sizes].concat()
    }

    fn shared(&self) -> Hyperparameters {
        self.hyperparameters()
    }

    fn set_shared(&mut self, shared: Hyperparameters) {
        self.prior = shared.prior;
        self.rules.set_parameters(shared.parameters, shared.coins);
    }

    fn tokens(&self, number: u32) -> u64 {
        self.tokens[&number].len() as u64
    }
}
