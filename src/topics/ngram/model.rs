//! Topic n-gram models as models of the sweep driver.
//!
//! **The model is dealt out, documents are synchronised.** A token belongs to the shard of its nearest word
//! ([`crate::restaurant::deal`]), so the restaurants of longer contexts, with their topics, labels and coins, are on one worker
//! only, and their sampler is exact. What shards share is small: the topics of documents, the restaurants of the empty context
//! and of the most frequent words ([`super::top`]), and hyperparameters. A sweep passes over the parts of a shard
//! ([`super::shard`]); after each part, all shards report what they have changed of these. Until then a shard sees the changes
//! of the others as they were, and its own live.
//!
//! **Blocks of tables** move in the part that has their word. Those of shared restaurants have tokens in several shards, and
//! move through the owners of words ([`super::top_blocks`]), in steps between which workers exchange messages.
//!
//! With one shard nothing is shared, a sweep has one part, and the samplers are exact.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::counts::{Counts, Form};
use super::dealt::{Dealt, TestDocument, TokenList, TopDish};
use super::descent::Descent;
use super::documents::{Alpha, Seating, ShardTokens};
use super::merge::{Change, take};
use super::rules::Rules;
use super::shard::{DocumentCounts, Move, Shard, UNASSIGNED, own_shards, part_at};
use super::table_based::TableSampler;
use super::token_based::TokenSampler;
use super::top::{Top, TopChanges, numbers as top_dishes};
use super::top_blocks::{Step, TopBlocks};
use crate::cluster::gather::Exchange;
use crate::cluster::rng::{Generator, Purpose, generator};
use crate::cluster::sweep::{Model, Post};
use crate::lm::job::Order;
use crate::lm::text::Symbols;
use crate::restaurant::merge::Change as CoinChange;
use crate::restaurant::parameters::{Census, Parameters};
use crate::restaurant::tree::{NONE, Paths, Planted, Tree};
use crate::topics::job::{EvaluationSettings, Plan};
use crate::topics::prior::Prior;

/// Blocks of the root, and of other shared restaurants, move in every third sweep of the table-based sampler: with several shards
/// they cost most, and without them perplexity is 0.8 to 2.2 % behind after 30 sweeps. One shard does the same.
const ROOT_EVERY: u64 = 3;

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
    /// Synchronisations in a sweep, if there are several shards.
    pub syncs_per_sweep: u32,
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
            syncs_per_sweep: plan.syncs_per_sweep,
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

    pub fn is_infinite(&self) -> bool {
        self.order.stop().is_some()
    }

    /// How many parts a shard has.
    pub fn parts(&self) -> usize {
        if self.shards == 1 { 1 } else { self.syncs_per_sweep as usize }
    }
}

/// What all workers share beside the counts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hyperparameters {
    pub parameters: Parameters,
    pub coins: Parameters,
    pub prior: Prior,
}

/// What a checkpoint keeps of a shard: topics and orders of its tokens; tables of the dishes that no other shard has, which are
/// counted from 0 in the order of [`Shard::dishes`], by (dish, topic), with how many of them went up; tables of their coins;
/// and, with the first shard, the restaurants that all share.
#[derive(Serialize, Deserialize)]
pub struct SavedShard {
    topics: Vec<u16>,
    orders: Vec<u8>,
    tables: Vec<(u32, u16, u32, u32)>,
    coins: Vec<u32>,
    top: Option<TopChanges>,
}

/// A token to test on.
#[derive(Clone, Copy, Debug)]
pub struct TestToken {
    /// The position of its document among those to test on, and its own in the document.
    pub origin: (u32, u32),
    /// Its dish in the restaurant of the whole context.
    pub leaf: u32,
}

/// What the own shards have changed since the last synchronisation.
#[derive(Debug, Default)]
struct Changes {
    moves: Vec<Move>,
    top: TopChanges,
}

impl Changes {
    fn to_message(&self) -> Vec<u32> {
        let mut message = vec![self.moves.len() as u32];
        let words = |&(document, old, new): &Move| [document, u32::from(old) << 16 | u32::from(new)];
        message.extend(self.moves.iter().flat_map(words));
        self.top.write(&mut message);
        message
    }

    /// Reads a message: tokens move in `documents`, other changes are added to `of_top`.
    fn read(message: &[u32], documents: &mut DocumentCounts, of_top: &mut TopChanges) {
        let (moves, rest) = message[1..].split_at(2 * message[0] as usize);
        for words in moves.chunks_exact(2) {
            documents.apply((words[0], (words[1] >> 16) as u16, words[1] as u16));
        }
        of_top.read(rest);
    }
}

/// What is done to a shard between two synchronisations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PhaseStep {
    /// A pass over a part.
    Pass,
    /// A step of moving blocks of shared restaurants, whose tables are at this depth.
    TopBlocks(usize, Step),
}

pub struct NgramModel {
    pub(super) setup: Setup,
    /// How many workers there are.
    pub(super) peers: usize,
    /// The begin of a sentence: contexts that end with it are as long as can be.
    pub(super) begin: u32,
    pub(super) tree: Tree,
    pub(super) counts: Counts,
    pub(super) rules: Rules,
    pub(super) prior: Prior,
    token_based: TokenSampler,
    table_based: TableSampler,
    pub(super) descent: Descent,
    pub(super) shards: BTreeMap<u32, Shard>,
    pub(super) documents: DocumentCounts,
    /// None if there is one shard.
    pub(super) top: Option<Top>,
    /// All documents to test on, and the own tokens of them.
    pub(super) test_documents: Vec<TestDocument>,
    pub(super) test_tokens: Vec<TestToken>,
    /// By own shard, what was evaluated last.
    pub(super) evaluated: BTreeMap<u32, Vec<f64>>,
    changes: Changes,
    top_blocks: TopBlocks,
    /// What is done to each part of a shard in the sweeps at hand.
    steps: Vec<PhaseStep>,
    /// Whether the weights of restaurants are those of their counts and the parameters.
    is_prepared: bool,
    pub(super) census: Census,
}

impl NgramModel {
    /// The model of a worker with these tokens.
    pub fn new(setup: Setup, symbols: Symbols, dealt: Dealt) -> NgramModel {
        let (form, depth, topics) = (setup.form, setup.depth(), setup.all_topics());
        let (tree, leaves) = plant(&dealt);
        let (seated, tested) = leaves.split_at(dealt.training.count());
        let tokens = passing(&tree, seated, &dealt.top);
        let counts = Counts::new(&tree, form, topics, &tokens, setup.is_infinite());
        let top = (setup.shards > 1).then(|| Top::new(&tree, form, topics, &dealt.top, setup.is_infinite()));
        let parts = setup.parts();
        let shards = own_shards(&dealt, &tree, seated, parts, setup.is_infinite(), top.as_ref());
        let origins = dealt.test.origins.iter();
        let test_tokens = origins.zip(tested).map(|(&origin, &leaf)| TestToken { origin, leaf }).collect();
        let (parameters, coins) = (Parameters::new(depth, 0.5, 1.0), Parameters::new(depth, 0.0, 1.0));
        let mut table_based = TableSampler::new(form, topics, depth);
        table_based.is_shared = top.as_ref().map(|top| top.shared().clone());
        NgramModel {
            counts,
            rules: Rules::new(form, parameters, coins, 1.0 / f64::from(symbols.outcomes()), setup.order.stop()),
            prior: Prior::new(setup.topics, setup.strength, 1.0, u64::from(symbols.outcomes())),
            token_based: TokenSampler::new(form, topics, depth),
            table_based,
            descent: Descent::new(form, topics, depth),
            shards: shards.into_iter().collect(),
            documents: DocumentCounts::new(dealt.documents, topics, form.has_global()),
            top,
            test_documents: dealt.test_documents,
            test_tokens,
            evaluated: BTreeMap::new(),
            changes: Changes::default(),
            top_blocks: TopBlocks::new(setup.shards, dealt.own.peers()),
            steps: vec![PhaseStep::Pass],
            is_prepared: false,
            census: Census::default(),
            tree,
            begin: symbols.begin,
            peers: dealt.own.peers(),
            setup,
        }
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

    /// How many workers there are, and whether this is the first.
    pub fn peers(&self) -> usize {
        self.peers
    }

    pub fn is_first(&self) -> bool {
        self.shards.contains_key(&0)
    }

    /// The dishes of own test tokens.
    pub fn test_leaves(&self) -> impl Iterator<Item = u32> + '_ {
        self.test_tokens.iter().map(|token| token.leaf)
    }

    /// Whether several shards share a dish.
    pub fn is_shared(&self, dish: u32) -> bool {
        self.top.as_ref().is_some_and(|top| top.has(dish))
    }

    /// Whether the table-based sampler follows the token-based one in a sweep.
    fn has_tables(&self, sweep: u64) -> bool {
        self.setup.tables_every > 0 && sweep.is_multiple_of(self.setup.tables_every)
    }

    /// Whether blocks of the root, and of other shared restaurants, move in the last of `sweeps`, where all are done between two
    /// synchronisations.
    fn moves_top_blocks(&self, sweeps: &Range<u64>) -> bool {
        let is_due = |sweep| self.has_tables(sweep) && (sweep / self.setup.tables_every).is_multiple_of(ROOT_EVERY);
        self.has_tables(sweeps.end - 1) && sweeps.clone().any(is_due)
    }

    /// Passes over a part of a shard, for the first time or for each of `sweeps`, and notes what it changed of what is shared.
    fn pass(&mut self, number: u32, phase: u32, sweeps: Option<Range<u64>>) {
        let mut shard = self.shards.remove(&number).expect("an own shard");
        let moves_top = sweeps.as_ref().is_some_and(|sweeps| self.moves_top_blocks(sweeps));
        let place = if moves_top { phase as usize } else { part_at(number, phase, shard.parts.len()) };
        let part = &mut shard.parts[place];
        let before = self.top.as_ref().map(|_| (part.topics.clone(), part.orders.clone()));
        self.prepare_weights();
        self.documents.swap(part);
        let seed = self.setup.seed;
        let stream = |purpose, sweep: u64| stream(seed, purpose, number, sweep, place);
        match sweeps {
            None => self.draw(part, stream(Purpose::Initial, 0)),
            Some(sweeps) => {
                for sweep in sweeps.clone() {
                    let tables = self.has_tables(sweep).then(|| stream(Purpose::Tables, sweep));
                    let tokens = stream(Purpose::Sweep, sweep);
                    self.table_based.moves_root = moves_top && sweep + 1 == sweeps.end;
                    self.sweep(part, tokens, tables);
                }
            }
        }
        self.documents.swap(part);
        if let Some((topics, orders)) = before {
            self.note(part, &topics, &orders);
            if moves_top {
                self.top_blocks.keep(number, std::mem::take(&mut self.table_based.arena));
            }
        }
        self.shards.insert(number, shard);
    }

    /// Sees to it that the weights of restaurants are right: samplers keep them so.
    pub(super) fn prepare_weights(&mut self) {
        if !self.is_prepared {
            self.rules.prepare(&self.tree, &mut self.counts);
            self.is_prepared = true;
        }
    }

    /// Draws the first topics of a part's tokens.
    fn draw(&mut self, part: &mut ShardTokens, rng: Generator) {
        self.run(part, |samplers, seating, part, alpha, changed| {
            samplers.0.sweep(seating, part, alpha, true, changed, &mut { rng });
        });
    }

    fn sweep(&mut self, part: &mut ShardTokens, tokens: Generator, tables: Option<Generator>) {
        self.run(part, |samplers, seating, part, alpha, changed| {
            samplers.0.sweep(seating, part, alpha, false, changed, &mut { tokens });
            if let Some(tables) = tables {
                samplers.1.sweep(seating, part, alpha, changed, &mut { tables });
            }
        });
    }

    /// Gives the samplers all that they need.
    fn run(
        &mut self,
        part: &mut ShardTokens,
        sweep: impl FnOnce(Samplers<'_>, &mut Seating<'_>, &mut ShardTokens, &Alpha, &mut dyn FnMut(u32)),
    ) {
        let alpha = Alpha::new(self.prior.alpha(), self.setup.form);
        let (tree, top) = (&self.tree, &mut self.top);
        let mut seating = Seating { tree, counts: &mut self.counts, rules: &mut self.rules };
        let samplers = (&mut self.token_based, &mut self.table_based);
        match top {
            None => sweep(samplers, &mut seating, part, &alpha, &mut |_| ()),
            Some(top) => sweep(samplers, &mut seating, part, &alpha, &mut |dish| top.touch(tree, dish)),
        }
    }

    /// What is done to each part of a shard in these sweeps.
    fn steps_of(&self, sweeps: &Range<u64>) -> Vec<PhaseStep> {
        let mut steps = vec![PhaseStep::Pass];
        if let Some(top) = self.top.as_ref().filter(|_| self.moves_top_blocks(sweeps)) {
            for depth in (0..1 + usize::from(top.has_split())).rev() {
                steps.extend(Step::all().map(|step| PhaseStep::TopBlocks(depth, step)));
            }
        }
        steps
    }

    /// A step of moving blocks of shared restaurants.
    fn move_top_blocks(&mut self, number: u32, part: usize, sweep: u64, at: usize) {
        let PhaseStep::TopBlocks(depth, step) = self.steps[at] else { return };
        self.prepare_weights();
        let NgramModel { tree, counts, rules, top, shards, documents, top_blocks, table_based, .. } = self;
        let top = top.as_mut().expect("several shards");
        let mut seating = Seating { tree, counts, rules };
        let mut rng = stream(self.setup.seed, Purpose::Tables, number, sweep, 256 * at + part);
        let of_shard = &shards[&number].parts[part];
        match step {
            Step::Report => top_blocks.report(number, &seating, top),
            Step::Group => top_blocks.group(number, depth, &mut seating, top, &mut rng),
            Step::Weigh(batch) => top_blocks.weigh(number, batch, table_based, &seating, of_shard),
            Step::Move(_) => {
                let alpha = Alpha::new(self.prior.alpha(), self.setup.form);
                let Changes { moves, top: of_top } = &mut self.changes;
                let before = moves.len();
                let mut all = ShardTokens::default();
                documents.swap(&mut all);
                let changed = &mut |dish| top.touch(tree, dish);
                let moved = |moved| moves.push(moved);
                top_blocks.move_groups(number, table_based, &mut seating, &mut all, &alpha, changed, moved, &mut rng);
                documents.swap(&mut all);
                moves[before..].iter().for_each(|&moved| documents.undo(moved));
                top.take_back(tree, &self.rules, &mut self.counts, of_top);
            }
        }
    }

    /// Exchanges the messages of a step of moving blocks of shared restaurants.
    fn exchange_top_blocks(&mut self, exchange: Exchange<'_>, part: usize, step: Step) {
        let mut messages = self.top_blocks.take_messages();
        if let Step::Move(_) = step {
            let changes = std::mem::take(&mut self.changes).to_message();
            for message in &mut messages {
                message.push(message.len() as u32);
                message.rotate_right(1);
                message.extend_from_slice(&changes);
            }
        }
        let received = exchange(messages);
        match step {
            Step::Report => self.top_blocks.read_reported(&received),
            Step::Group => self.top_blocks.read_assigned(&received),
            Step::Weigh(_) => self.top_blocks.read_weighed(&received),
            Step::Move(_) => {
                let mut of_top = TopChanges::default();
                for message in &received {
                    let (decisions, changes) = message[1..].split_at(message[0] as usize);
                    for decision in TopBlocks::decisions(decisions) {
                        let NgramModel { tree, counts, rules, shards, table_based, .. } = self;
                        let shard = shards.get_mut(&TopBlocks::shard_of(&decision)).expect("an own shard");
                        let mut seating = Seating { tree, counts, rules };
                        self.top_blocks.apply(decision, table_based, &mut seating, &mut shard.parts[part]);
                    }
                    Changes::read(changes, &mut self.documents, &mut of_top);
                }
                let top = self.top.as_mut().expect("several shards");
                top.apply(&self.tree, &self.rules, &mut self.counts, of_top);
            }
        }
    }

    /// Brings together what all workers have changed. Every worker calls this, after shards were drawn or loaded, and after each
    /// phase of a sweep.
    pub(super) fn synchronise_by(&mut self, exchange: Exchange<'_>, phase: Option<u32>) {
        if let Some(phase) = phase.map(|phase| phase as usize)
            && let PhaseStep::TopBlocks(_, step) = self.steps[phase % self.steps.len()]
        {
            return self.exchange_top_blocks(exchange, phase / self.steps.len(), step);
        }
        let changes = std::mem::take(&mut self.changes);
        let Some(top) = &mut self.top else {
            changes.moves.into_iter().for_each(|moved| self.documents.apply(moved));
            return;
        };
        let message = changes.to_message();
        let mut of_top = TopChanges::default();
        for message in exchange(vec![message; self.peers]) {
            Changes::read(&message, &mut self.documents, &mut of_top);
        }
        top.apply(&self.tree, &self.rules, &mut self.counts, of_top);
    }

    /// Notes what a pass over a part has changed of what is shared, and takes it back. `topics` and `orders` were those of its
    /// tokens before.
    fn note(&mut self, part: &ShardTokens, topics: &[u16], orders: &[u8]) {
        let Some(top) = &mut self.top else { return };
        let tokens = part.documents.iter().zip(topics.iter().zip(&part.topics));
        for (&document, (&old, &new)) in tokens.filter(|(_, (old, new))| old != new) {
            self.documents.undo((document, old, new));
            self.changes.moves.push((document, old, new));
        }
        touch_stops(top, &self.tree, part, orders);
        top.take_back(&self.tree, &self.rules, &mut self.counts, &mut self.changes.top);
    }

    /// The dishes at which the tokens of a part stop, with their topics.
    pub(super) fn stops(tree: &Tree, part: &ShardTokens) -> Vec<(u32, u16)> {
        let mut stops = Vec::with_capacity(part.topics.len());
        for &(leaf, tokens) in &part.leaves {
            for _ in 0..tokens {
                let token = stops.len();
                let dish = part.orders.get(token).map_or(leaf, |&order| above(tree, leaf, usize::from(order)));
                stops.push((dish, part.topics[token]));
            }
        }
        stops
    }

    /// Whether a checkpoint can be that of a shard.
    fn fits(&self, shard: &Shard, saved: &SavedShard) -> bool {
        let (tokens, topics) = (shard.tokens(), self.setup.all_topics());
        let orders = if self.setup.is_infinite() { tokens } else { 0 };
        let coins = if self.setup.form.has_global() { 2 * shard.restaurants().count() } else { 0 };
        let top = match (&self.top, &saved.top) {
            (Some(top), Some(saved)) => top.fits(saved),
            _ => true,
        };
        saved.topics.len() == tokens
            && saved.orders.len() == orders
            && saved.orders.iter().all(|&order| usize::from(order) <= self.setup.depth())
            && saved.topics.iter().all(|&topic| usize::from(topic) < topics)
            && saved.coins.len() == coins
            && saved.tables.iter().all(|table| usize::from(table.1) < topics)
            && top
    }

    /// Seats the tokens of a shard at the tables of a checkpoint.
    fn seat(&mut self, shard: &Shard, saved: SavedShard) -> Result<(), String> {
        let dishes: Vec<u32> = shard.dishes().collect();
        let stops = shard.parts.iter().flat_map(|part| NgramModel::stops(&self.tree, part));
        let tokens = stops.map(|(dish, topic)| Change { dish, topic, customers: 1, ..Change::default() }).collect();
        let mut tables = vec![];
        for (place, topic, at, ups) in saved.tables {
            let &dish = dishes.get(place as usize).ok_or("a dish that is not there")?;
            tables.push(Change { dish, topic, customers: 0, tables: at as i32, ups: ups as i32 });
        }
        let sides = shard.restaurants().flat_map(|restaurant| [2 * restaurant, 2 * restaurant + 1]);
        let coin = |(dish, tables)| CoinChange { dish, tables: tables as i32, tokens: 0 };
        let coins = sides.zip(saved.coins).filter(|(_, tables)| *tables > 0).map(coin).collect();
        take(&self.tree, self.setup.form, &mut self.counts, tokens, tables, coins);
        if let Some(top) = &mut self.top {
            // What all share comes with the first shard.
            top.reset(&self.tree, &self.rules, &mut self.counts);
        }
        Ok(())
    }
}

/// The generator of a part of a shard. That of the first does not depend on how many there are.
fn stream(seed: u64, purpose: Purpose, shard: u32, sweep: u64, part: usize) -> Generator {
    generator(seed, purpose, u64::from(shard), (part as u64) << 48 | sweep)
}

/// The token-based sampler, and the table-based one.
type Samplers<'a> = (&'a mut TokenSampler, &'a mut TableSampler);

/// Builds the tree of the own tokens, and of all shared dishes. Returns the leaves of tokens: those to train on, then those to
/// test on.
fn plant(dealt: &Dealt) -> (Tree, Vec<u32>) {
    let paths = AllPaths { training: &dealt.training, test: &dealt.test, top: &dealt.top };
    let Planted { tree, order, leaves } = Tree::plant(&paths);
    let mut leaf_of = vec![NONE; order.len()];
    order.iter().zip(&leaves).for_each(|(&token, &leaf)| leaf_of[token as usize] = leaf);
    leaf_of.truncate(dealt.training.count() + dealt.test.count());
    (tree, leaf_of)
}

/// Tokens to train on, tokens to test on, and shared dishes.
struct AllPaths<'a> {
    training: &'a TokenList,
    test: &'a TokenList,
    top: &'a [TopDish],
}

impl AllPaths<'_> {
    #[inline(always)]
    fn at<T>(&self, number: usize, token: impl Fn(&TokenList, usize) -> T, dish: impl Fn(&TopDish) -> T) -> T {
        let [training, test] = [self.training, self.test].map(Paths::count);
        match number {
            _ if number < training => token(self.training, number),
            _ if number < training + test => token(self.test, number - training),
            _ => dish(&self.top[number - training - test]),
        }
    }
}

impl Paths for AllPaths<'_> {
    fn count(&self) -> usize {
        self.training.count() + self.test.count() + self.top.len()
    }
    fn symbols(&self) -> usize {
        self.training.symbols()
    }
    fn depth(&self) -> usize {
        self.training.depth()
    }
    #[inline(always)]
    fn outcome(&self, number: usize) -> u32 {
        self.at(number, |list, token| list.outcome(token), |dish| dish.outcome)
    }
    #[inline(always)]
    fn element(&self, number: usize, depth: usize) -> Option<u32> {
        let of_dish = |dish: &TopDish| Some(dish.element).filter(|&element| depth == 0 && element != NONE);
        self.at(number, |list, token| list.element(token, depth), of_dish)
    }
}

/// How many training tokens pass each dish: the own ones; of the shared dishes, those of all shards.
fn passing(tree: &Tree, leaves: &[u32], top: &[TopDish]) -> Vec<u32> {
    let mut passing = vec![0u32; tree.dishes.len()];
    leaves.iter().for_each(|&leaf| passing[leaf as usize] += 1);
    for dish in 0..tree.dishes.len() {
        let parent = tree.dishes[dish].parent;
        if parent != NONE {
            passing[parent as usize] += passing[dish];
        }
    }
    for (dish, tokens) in top_dishes(tree, top) {
        passing[dish as usize] = tokens;
    }
    passing
}

/// The dish on the path to `leaf` that is in the restaurant of the `order` nearest words.
fn above(tree: &Tree, leaf: u32, order: usize) -> u32 {
    (order..tree.depth_of(leaf)).fold(leaf, |dish, _| tree.dishes[dish as usize].parent)
}

/// Marks the shared dishes at which tokens stop, or have stopped when their orders were those `before`: their customers may have
/// changed without a table.
fn touch_stops(top: &mut Top, tree: &Tree, part: &ShardTokens, before: &[u8]) {
    let mut token = 0;
    for &(leaf, tokens) in &part.leaves {
        if top.has(leaf) {
            top.touch(tree, leaf);
        }
        // Shared restaurants have contexts of one word at most.
        for token in (token..token + tokens as usize).filter(|&token| token < before.len()) {
            for order in [before[token], part.orders[token]].into_iter().filter(|&order| order < 2) {
                let order = usize::from(order).min(tree.depth_of(leaf));
                top.touch(tree, above(tree, leaf, order));
            }
        }
        token += tokens as usize;
    }
}

impl Model for NgramModel {
    type Saved = SavedShard;
    type Shared = Hyperparameters;

    fn begin_sweeps(&mut self, sweeps: &Range<u64>) {
        self.steps = self.steps_of(sweeps);
        self.top_blocks.clear();
    }

    fn phases(&self, is_first: bool) -> u32 {
        let steps = if is_first { 1 } else { self.steps.len() };
        (self.setup.parts() * steps) as u32
    }

    fn draw_shard(&mut self, number: u32, phase: u32) {
        self.pass(number, phase, None);
    }

    fn load_shard(&mut self, number: u32, mut saved: SavedShard) -> Result<(), String> {
        let mut shard = self.shards.remove(&number).expect("an own shard");
        let misfit = |why: &str| format!("the checkpoint of shard {number} does not fit: {why}");
        if !self.fits(&shard, &saved) {
            return Err(misfit(&format!("the shard has {} tokens", shard.tokens())));
        }
        let (mut topics, mut orders) = (saved.topics.as_slice(), saved.orders.as_slice());
        for part in &mut shard.parts {
            part.topics = topics.split_off(..part.topics.len()).expect("as many as tokens").to_vec();
            part.orders = orders.split_off(..part.orders.len()).expect("as many as tokens").to_vec();
            let tokens = part.documents.iter().zip(&part.topics);
            self.changes.moves.extend(tokens.map(|(&document, &topic)| (document, UNASSIGNED, topic)));
        }
        if let Some(top) = saved.top.take() {
            self.changes.top = top;
        }
        let seated = self.seat(&shard, saved);
        self.shards.insert(number, shard);
        self.is_prepared = false;
        seated.map_err(|why| misfit(&why))
    }

    fn save_shard(&self, number: u32) -> SavedShard {
        let shard = &self.shards[&number];
        let mut tables = vec![];
        for (place, dish) in (0..).zip(shard.dishes()) {
            let list = self.counts.dishes.list(dish).filter(|entry| entry.tables > 0);
            tables.extend(list.map(|entry| (place, entry.topic, entry.tables as u32, entry.ups as u32)));
        }
        let sides = |restaurant: u32| {
            let coins = &self.counts.coins.dishes;
            [0, 1].map(|side| coins[(2 * restaurant + side) as usize].tables)
        };
        let has_coins = self.setup.form.has_global();
        SavedShard {
            topics: shard.parts.iter().flat_map(|part| &part.topics).copied().collect(),
            orders: shard.parts.iter().flat_map(|part| &part.orders).copied().collect(),
            tables,
            coins: shard.restaurants().filter(|_| has_coins).flat_map(sides).collect(),
            top: self.top.as_ref().filter(|_| number == 0).map(Top::saved),
        }
    }

    /// Nothing: what was drawn or loaded is noted already.
    fn count_shard(&mut self, _: u32) {}

    fn sweep_shard(&mut self, number: u32, sweeps: Range<u64>, phase: u32) {
        let (part, at) = (phase / self.steps.len() as u32, phase as usize % self.steps.len());
        match self.steps[at] {
            PhaseStep::Pass => self.pass(number, part, Some(sweeps)),
            PhaseStep::TopBlocks(..) => self.move_top_blocks(number, part as usize, sweeps.end - 1, at),
        }
    }

    fn synchronise(&mut self, post: &mut Post<'_>) {
        let phase = post.phase();
        self.synchronise_by(&mut |messages| post.exchange(messages), phase);
    }

    fn statistics(&mut self, number: u32, sweep: u64) -> Vec<f64> {
        self.draw_statistics(number, sweep)
    }

    fn learn(&mut self, statistics: &[Vec<f64>], sweep: u64) {
        self.learn_parameters(statistics, sweep);
        self.is_prepared = false;
    }

    fn prepare_evaluation(&mut self, post: &mut Post<'_>, sweep: u64) {
        self.predict(&mut |messages| post.exchange(messages), sweep);
    }

    /// ln p of the test documents, their tokens, the seconds that it took, restaurants with customers, and bytes of memory of
    /// the tree and the counts.
    fn evaluate(&mut self, number: u32, _: u64) -> Vec<f64> {
        let mut figures = self.evaluated.remove(&number).unwrap_or_else(|| vec![0.0; 3]);
        figures.extend(self.sizes(number));
        figures
    }

    fn snapshot(&self) -> Vec<f64> {
        let (own, coins) = (&self.rules.parameters, &self.rules.coins.parameters);
        [own.discounts.as_slice(), &own.strengths, &coins.strengths].concat()
    }

    fn shared(&self) -> Hyperparameters {
        self.hyperparameters()
    }

    fn set_shared(&mut self, shared: Hyperparameters) {
        self.prior = shared.prior;
        self.rules.set_parameters(shared.parameters, shared.coins);
        self.is_prepared = false;
    }

    fn tokens(&self, number: u32) -> u64 {
        self.shards[&number].tokens() as u64
    }
}
