//! Topic n-gram models as models of the sweep driver.
//!
//! Every worker holds the tree and the counts of all shards; the topics of tokens belong to the shards. A shard sweeps
//! over a copy of the counts as they stood at the last synchronisation; what differs then is its change.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

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
    pub(super) shards: BTreeMap<u32, ShardTokens>,
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
        let mut shards = BTreeMap::new();
        for number in (0..setup.shards).filter(|&number| is_mine(number)) {
            let documents = places.iter().filter(|place| !place.is_test && place.shard == number);
            let ranges: Vec<Range<usize>> = documents.map(|place| place.tokens.clone()).collect();
            shards.insert(number, shard_tokens(&ranges, &leaf_of, &ranks, topics, stop.is_some()));
        }
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
            shards,
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

    /// Sweeps over a shard, and notes what it changed.
    fn pass(&mut self, number: u32, sweeps: Range<u64>, is_new: bool) {
        let Some(mut shard) = self.shards.remove(&number) else { return };
        let is_alone = self.is_alone();
        let before = if is_alone { ShardTokens::default() } else { shard.clone() };
        let alpha = Alpha::new(self.prior.alpha(), self.setup.form);
        self.rules.prepare(&self.tree, &mut self.counts);
        if !is_alone {
            self.work.copy_from(&self.counts);
        }
        let counts = if is_alone { &mut self.counts } else { &mut self.work };
        let mut seating = Seating { tree: &self.tree, counts, rules: &mut self.rules };
        let marks = &mut self.marks;
        let mut changed = |dish| {
            if !is_alone {
                marks.set(dish);
            }
        };
        for sweep in sweeps {
            let purpose = if is_new { Purpose::Initial } else { Purpose::Sweep };
            let mut rng = generator(self.setup.seed, purpose, u64::from(number), sweep);
            self.token_based.sweep(&mut seating, &mut shard, &alpha, is_new, &mut changed, &mut rng);
            if !is_new && self.setup.tables_every > 0 && sweep % self.setup.tables_every == 0 {
                self.table_based.sweep(&mut seating, &mut shard, &alpha, &mut changed, &mut rng);
            }
        }
        if !is_alone {
            self.note(&shard, (!is_new).then_some(&before));
        }
        self.shards.insert(number, shard);
    }

    /// Notes how the copy differs from the counts.
    fn note(&mut self, shard: &ShardTokens, before: Option<&ShardTokens>) {
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
        self.note_tokens(shard, before);
    }

    /// Notes the tokens whose topic or order differs from `before`, or all of them.
    fn note_tokens(&mut self, shard: &ShardTokens, before: Option<&ShardTokens>) {
        let mut first = 0;
        for &(leaf, tokens) in &shard.leaves {
            let whole = self.tree.depth_of(leaf);
            let stop = |shard: &ShardTokens, token: usize| {
                let order = shard.orders.get(token).map_or(whole, |&order| usize::from(order));
                (order..whole).fold(leaf, |dish, _| self.tree.dishes[dish as usize].parent)
            };
            for token in first..first + tokens as usize {
                let old = before.map(|before| (stop(before, token), before.topics[token]));
                let new = (stop(shard, token), shard.topics[token]);
                if old == Some(new) {
                    continue;
                }
                for ((dish, topic), customers) in old.map(|old| (old, -1)).into_iter().chain([(new, 1)]) {
                    self.changes.tokens.push(Change { dish, topic, customers, ..Change::default() });
                }
            }
            first += tokens as usize;
        }
    }

    fn part(&self, number: u32, count: usize) -> Range<usize> {
        part(count, number, u64::from(self.setup.shards))
    }
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

/// The tokens of the documents at these ranges, in the order in which they are visited.
fn shard_tokens(
    documents: &[Range<usize>],
    leaf_of: &[u32],
    ranks: &[u32],
    topics: usize,
    is_infinite: bool,
) -> ShardTokens {
    let mut order: Vec<(u32, u32, u32)> = vec![];
    for (document, range) in (0..).zip(documents) {
        order.extend(range.clone().map(|token| (ranks[leaf_of[token] as usize], leaf_of[token], document)));
    }
    order.sort_by_key(|&(rank, _, _)| rank);
    let mut shard = ShardTokens {
        counts: vec![0; documents.len() * topics],
        with_topic: vec![0; documents.len()],
        ..ShardTokens::default()
    };
    for (_, leaf, document) in order {
        match shard.leaves.last_mut() {
            Some((last, tokens)) if *last == leaf => *tokens += 1,
            _ => shard.leaves.push((leaf, 1)),
        }
        shard.documents.push(document);
    }
    shard.topics = vec![0; shard.documents.len()];
    shard.orders = vec![0; if is_infinite { shard.documents.len() } else { 0 }];
    shard
}

impl Model for NgramModel {
    type Saved = SavedShard;
    type Shared = Hyperparameters;

    fn draw_shard(&mut self, number: u32) {
        self.pass(number, 0..1, true);
    }

    fn load_shard(&mut self, number: u32, saved: SavedShard) -> Result<(), String> {
        let topics = self.setup.all_topics();
        let Some(mut shard) = self.shards.remove(&number) else { return Ok(()) };
        let fits = saved.topics.len() == shard.topics.len()
            && saved.orders.len() == shard.orders.len()
            && saved.topics.iter().all(|&topic| usize::from(topic) < topics)
            && saved.orders.iter().all(|&order| usize::from(order) <= self.setup.depth());
        if !fits {
            return Err(format!("the checkpoint of shard {number} does not fit its {} tokens", shard.topics.len()));
        }
        (shard.topics, shard.orders) = (saved.topics, saved.orders);
        shard.recount(topics, self.setup.form);
        self.note_tokens(&shard, None);
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
        self.shards.insert(number, shard);
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
        let shard = self.shards.get(&number);
        SavedShard {
            topics: shard.map_or(vec![], |shard| shard.topics.clone()),
            orders: shard.map_or(vec![], |shard| shard.orders.clone()),
            tables,
            coins: coins.iter().map(|dish| dish.tables).collect(),
        }
    }

    /// Nothing: what was drawn or loaded is noted already.
    fn count_shard(&mut self, _: u32) {}

    fn sweep_shard(&mut self, number: u32, sweeps: Range<u64>) {
        self.pass(number, sweeps, false);
    }

    fn synchronise(&mut self, post: &mut Post<'_>) {
        let letter = std::mem::take(&mut self.changes).to_letter();
        let mut changes = Changes::default();
        post.exchange(vec![letter; post.peers()]).iter().for_each(|letter| changes.read(letter));
        take(&self.tree, self.setup.form, &mut self.counts, changes);
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
        self.shards.get(&number).map_or(0, |shard| shard.topics.len() as u64)
    }
}
