//! Topic n-gram models as models of the sweep driver.
//!
//! Every worker holds the tree and the counts of all shards; the topics of tokens belong to the shards. A shard sweeps
//! over a copy of the counts as they stood at the last synchronisation; what differs then is its change.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::counts::{Counts, Rules};
use super::held_out::{DocumentPrior, Seen, each_token};
use super::merge::{Change, merge};
use super::sampler::{Sampler, Seating, ShardTokens, by_word};
use crate::cluster::rng::{Purpose, generator};
use crate::cluster::sweep::{Model, Post};
use crate::lm::text::{Symbols, Tokens};
use crate::restaurant::merge::{Change as CoinChange, Marks};
use crate::restaurant::parameters::{Census, Hyperprior, Parameters, Sums};
use crate::restaurant::tree::{Dish, NONE, Planted, Restaurant, Tree};
use crate::topics::collection::Share;
use crate::topics::job::{EvaluationSettings, ModelSettings};
use crate::topics::prior::{Prior, PriorStatistics};

/// What all workers share beside the counts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hyperparameters {
    pub parameters: Parameters,
    pub coins: Parameters,
    pub prior: Prior,
}

/// What a checkpoint keeps of a shard: topics of its tokens; and tables of its part of the dishes, which follow from no
/// shard alone, by (dish, topic) in order, and of its part of the coins.
#[derive(Serialize, Deserialize)]
pub struct SavedShard {
    topics: Vec<u16>,
    tables: Vec<(u32, u16, u32)>,
    coins: Vec<u32>,
}

pub struct NgramModel {
    seed: u64,
    settings: ModelSettings,
    evaluation: EvaluationSettings,
    shard_count: u32,
    topics: usize,
    tree: Tree,
    counts: Counts,
    /// A copy for a shard to work on; empty where there is one shard.
    work: Counts,
    rules: Rules,
    prior: Prior,
    sampler: Sampler,
    shards: BTreeMap<u32, ShardTokens>,
    /// Test documents by shard: number in the catalogue, and dishes of whole contexts.
    tests: BTreeMap<u32, Vec<(u32, Vec<u32>)>>,
    marks: Marks,
    changes: Vec<Change>,
    coin_changes: Vec<CoinChange>,
    census: Census,
}

impl NgramModel {
    /// The model of a worker that has the documents of all shards in `share`, and owns those for which `is_mine`.
    pub fn new(
        seed: u64,
        settings: &ModelSettings,
        evaluation: &EvaluationSettings,
        symbols: Symbols,
        share: Share,
        shard_count: u32,
        is_mine: impl Fn(u32) -> bool,
    ) -> NgramModel {
        let depth = settings.order - 1;
        let has_global = settings.has_global();
        let topics = settings.topics + usize::from(has_global);
        let mut tokens = Tokens::new(symbols, depth);
        // Where each document's tokens begin.
        let mut places: Vec<(bool, u32, u32, Range<usize>)> = vec![];
        for (is_test, documents) in [(false, &share.training), (true, &share.test)] {
            for (&shard, documents) in documents {
                for (number, words) in documents {
                    let start = tokens.len();
                    words
                        .split_inclusive(|&word| word == symbols.end)
                        .for_each(|sentence| tokens.push_sentence(sentence));
                    places.push((is_test, shard, *number, start..tokens.len()));
                }
            }
        }
        drop(share);
        let Planted { tree, order, leaves } = Tree::plant(&tokens);
        let mut leaf_of = vec![NONE; order.len()];
        order.iter().zip(&leaves).for_each(|(&token, &leaf)| leaf_of[token as usize] = leaf);
        drop((order, leaves, tokens));

        let mut passing = vec![0u32; tree.dishes.len()];
        for (_, _, _, range) in places.iter().filter(|place| !place.0) {
            leaf_of[range.clone()].iter().for_each(|&leaf| passing[leaf as usize] += 1);
        }
        for dish in 0..tree.dishes.len() {
            let parent = tree.dishes[dish].parent;
            if parent != NONE {
                passing[parent as usize] += passing[dish];
            }
        }
        let counts = Counts::new(&tree, topics, &passing, has_global);
        let ranks = by_word(&tree);
        let mut shards = BTreeMap::new();
        for number in (0..shard_count).filter(|&number| is_mine(number)) {
            let documents = places.iter().filter(|(is_test, shard, ..)| !is_test && *shard == number);
            let ranges: Vec<Range<usize>> = documents.map(|(.., range)| range.clone()).collect();
            shards.insert(number, shard_tokens(&ranges, &leaf_of, &ranks, topics));
        }
        let mut tests: BTreeMap<u32, Vec<(u32, Vec<u32>)>> = BTreeMap::new();
        for (_, shard, number, range) in places.iter().filter(|(is_test, shard, ..)| *is_test && is_mine(*shard)) {
            tests.entry(*shard).or_default().push((*number, leaf_of[range.clone()].to_vec()));
        }
        let parameters = Parameters::new(depth, 0.5, 1.0);
        let coins = Parameters::new(depth, 0.0, 1.0);
        NgramModel {
            seed,
            settings: settings.clone(),
            evaluation: *evaluation,
            shard_count,
            topics,
            work: if shard_count > 1 { counts.clone() } else { Counts::default() },
            counts,
            rules: Rules::new(parameters, coins, 1.0 / f64::from(symbols.outcomes())),
            prior: Prior::new(settings.topics, settings.strength, settings.beta, u64::from(symbols.outcomes())),
            sampler: Sampler::new(topics, depth, has_global),
            shards,
            tests,
            marks: Marks::new(if shard_count > 1 { tree.dishes.len() } else { 0 }),
            changes: vec![],
            coin_changes: vec![],
            census: Census::default(),
            tree,
        }
    }

    fn is_alone(&self) -> bool {
        self.shard_count == 1
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

    /// Restaurants of any topic that have customers: the nodes of the paper's Table 2.
    pub fn nodes(&self) -> usize {
        let restaurants = &self.counts.restaurants;
        let occupied = |place: u32| restaurants.slots(place).filter(|&slot| restaurants.customers[slot] > 0).count();
        (0..restaurants.len() as u32).map(occupied).sum()
    }

    /// Sweeps over a shard, and notes what it changed.
    fn pass(&mut self, number: u32, sweeps: Range<u64>, is_new: bool) {
        let Some(mut shard) = self.shards.remove(&number) else { return };
        let before = if self.is_alone() { vec![] } else { shard.topics.clone() };
        self.sampler.set_alpha(self.prior.alpha());
        self.rules.prepare(&self.tree, &mut self.counts);
        if self.is_alone() {
            let mut seating = Seating { tree: &self.tree, counts: &mut self.counts, rules: &mut self.rules };
            for sweep in sweeps {
                let purpose = if is_new { Purpose::Initial } else { Purpose::Sweep };
                let mut rng = generator(self.seed, purpose, u64::from(number), sweep);
                self.sampler.sweep(&mut seating, &mut shard, is_new, &mut |_| (), &mut rng);
            }
        } else {
            self.work.copy_from(&self.counts);
            let mut seating = Seating { tree: &self.tree, counts: &mut self.work, rules: &mut self.rules };
            for sweep in sweeps {
                let purpose = if is_new { Purpose::Initial } else { Purpose::Sweep };
                let mut rng = generator(self.seed, purpose, u64::from(number), sweep);
                self.sampler.sweep(&mut seating, &mut shard, is_new, &mut |dish| self.marks.set(dish), &mut rng);
            }
            self.note(&shard, &before, is_new);
        }
        self.shards.insert(number, shard);
    }

    /// Notes how the copy differs from the counts.
    fn note(&mut self, shard: &ShardTokens, before: &[u16], is_new: bool) {
        let mut from = 0;
        while let Some(dish) = self.marks.next(from) {
            from = dish + 1;
            let (old, new) = (&self.counts.dishes, &self.work.dishes);
            let mut topics: Vec<usize> = old.slots(dish).map(|slot| old.topic(slot)).collect();
            topics.extend(new.slots(dish).map(|slot| new.topic(slot)));
            topics.sort_unstable();
            topics.dedup();
            for topic in topics {
                let tables = new.get(dish, topic).1.wrapping_sub(old.get(dish, topic).1) as i32;
                if tables != 0 {
                    self.changes.push(Change { dish, topic: topic as u16, customers: 0, tables });
                }
            }
        }
        self.marks.clear();
        for (dish, (new, old)) in (0..).zip(self.work.coins.dishes.iter().zip(&self.counts.coins.dishes)) {
            let tables = new.tables.wrapping_sub(old.tables) as i32;
            if tables != 0 {
                self.coin_changes.push(CoinChange { dish, tables, tokens: 0 });
            }
        }
        let before = if is_new { None } else { Some(before) };
        self.note_tokens(shard, before);
    }

    /// Notes the tokens whose topic differs from `before`, or all of them.
    fn note_tokens(&mut self, shard: &ShardTokens, before: Option<&[u16]>) {
        let mut token = 0;
        for &(dish, tokens) in &shard.leaves {
            let restaurant = self.tree.dishes[dish as usize].restaurant;
            for token in token..token + tokens as usize {
                let (old, new) = (before.map(|before| before[token]), shard.topics[token]);
                if old == Some(new) {
                    continue;
                }
                for (topic, customers) in old.map(|old| (old, -1)).into_iter().chain([(new, 1)]) {
                    self.changes.push(Change { dish, topic, customers, tables: 0 });
                    if self.settings.has_global() {
                        let dish = 2 * restaurant + u32::from(topic > 0);
                        self.coin_changes.push(CoinChange { dish, tables: 0, tokens: customers });
                    }
                }
            }
            token += tokens as usize;
        }
    }

    /// The dishes whose tables a shard saves: its even part of all.
    fn part(&self, number: u32, count: usize) -> Range<usize> {
        let cut = |number: u64| (count as u64 * number / u64::from(self.shard_count)) as usize;
        cut(u64::from(number))..cut(u64::from(number) + 1)
    }

    /// Draws the auxiliary variables of a shard's part of the restaurants, for all topics.
    fn draw_sums(&mut self, number: u32, sweep: u64) -> Vec<f64> {
        let mut rng = generator(self.seed, Purpose::Statistics, u64::from(number), sweep);
        let mut figures = vec![];
        for depth in 0..self.tree.levels.len() {
            let level = self.tree.levels[depth].clone();
            let mut census = std::mem::take(&mut self.census);
            census.clear();
            for place in self.part(number, level.restaurants.len()) {
                let (seats, place) = (&self.counts.restaurants, level.restaurants.start + place as u32);
                for slot in seats.slots(place) {
                    let (customers, tables) = (seats.customers[slot], seats.tables[slot]);
                    census.count_restaurant(Restaurant { customers, tables });
                }
            }
            for place in self.part(number, level.dishes.len()) {
                let (seats, place) = (&self.counts.dishes, level.dishes.start + place as u32);
                for slot in seats.slots(place) {
                    let (customers, tables) = (seats.customers[slot], seats.tables[slot]);
                    census.count_dish(Dish { customers, tables, ..Dish::default() });
                }
            }
            let (a, b) = (self.rules.parameters.discounts[depth], self.rules.parameters.strengths[depth]);
            figures.extend(census.draw(a, b, &mut self.rules.alone[depth], &mut rng).figures());
            if self.settings.has_global() {
                census.clear();
                for place in self.part(number, level.restaurants.len()) {
                    let place = level.restaurants.start as usize + place;
                    census.count_restaurant(self.counts.coins.restaurants[place]);
                }
                let strength = self.rules.coins.parameters.strengths[depth];
                figures.extend(census.draw(0.0, strength, self.rules.coins.alone(depth), &mut rng).figures());
            }
            self.census = census;
        }
        figures
    }
}

/// The tokens of the documents at these ranges, in the order in which they are visited.
fn shard_tokens(documents: &[Range<usize>], leaf_of: &[u32], ranks: &[u32], topics: usize) -> ShardTokens {
    let mut order: Vec<(u32, u32, u32)> = vec![];
    for (document, range) in (0..).zip(documents) {
        order.extend(range.clone().map(|token| (ranks[leaf_of[token] as usize], leaf_of[token], document)));
    }
    order.sort_by_key(|&(rank, _, _)| rank);
    let mut shard = ShardTokens { counts: vec![0; documents.len() * topics], ..ShardTokens::default() };
    for (_, leaf, document) in order {
        match shard.leaves.last_mut() {
            Some((last, tokens)) if *last == leaf => *tokens += 1,
            _ => shard.leaves.push((leaf, 1)),
        }
        shard.documents.push(document);
    }
    shard.topics = vec![0; shard.documents.len()];
    shard
}

impl Model for NgramModel {
    type Saved = SavedShard;
    type Shared = Hyperparameters;

    fn draw_shard(&mut self, number: u32) {
        self.pass(number, 0..1, true);
    }

    fn load_shard(&mut self, number: u32, saved: SavedShard) -> Result<(), String> {
        let topics = self.topics;
        let Some(mut shard) = self.shards.remove(&number) else { return Ok(()) };
        if saved.topics.len() != shard.topics.len() || saved.topics.iter().any(|&topic| usize::from(topic) >= topics) {
            return Err(format!("the checkpoint of shard {number} does not fit its {} tokens", shard.topics.len()));
        }
        shard.topics = saved.topics;
        shard.counts.fill(0);
        for (&document, &topic) in shard.documents.iter().zip(&shard.topics) {
            shard.counts[document as usize * topics + usize::from(topic)] += 1;
        }
        self.note_tokens(&shard, None);
        let tables =
            |(dish, topic, tables): (u32, u16, u32)| Change { dish, topic, customers: 0, tables: tables as i32 };
        self.changes.extend(saved.tables.into_iter().map(tables));
        let part = self.part(number, self.counts.coins.dishes.len());
        let coins = part.zip(saved.coins).filter(|(_, tables)| *tables > 0);
        self.coin_changes.extend(coins.map(|(dish, tables)| CoinChange {
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
            let slots = seats.slots(dish as u32).filter(|&slot| seats.tables[slot] > 0);
            tables.extend(slots.map(|slot| (dish as u32, seats.topic(slot) as u16, seats.tables[slot])));
        }
        let coins = &self.counts.coins.dishes[self.part(number, self.counts.coins.dishes.len())];
        SavedShard {
            topics: self.shards.get(&number).map_or(vec![], |shard| shard.topics.clone()),
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
        let (changes, coins) = (std::mem::take(&mut self.changes), std::mem::take(&mut self.coin_changes));
        let mut letter = vec![changes.len() as u32];
        letter.extend(changes.iter().flat_map(|change| change.to_words()));
        letter.extend(coins.iter().flat_map(|change| [change.dish, change.tables as u32, change.tokens as u32]));
        let (mut changes, mut marks) = (vec![], Marks::new(self.counts.coins.dishes.len()));
        for letter in post.exchange(vec![letter; post.peers()]) {
            let (of_topics, of_coins) = letter[1..].split_at(4 * letter[0] as usize);
            changes.extend(of_topics.chunks_exact(4).map(Change::from_words));
            for words in of_coins.chunks_exact(3) {
                let change = CoinChange { dish: words[0], tables: words[1] as i32, tokens: words[2] as i32 };
                self.counts.coins.apply(change, &mut marks);
            }
        }
        merge(&self.tree, &mut self.counts, changes);
        self.counts.coins.repair(&mut marks);
    }

    /// The sums of auxiliary variables by depth; then the statistics of the prior.
    fn statistics(&mut self, number: u32, sweep: u64) -> Vec<f64> {
        let mut figures = self.draw_sums(number, sweep);
        let mut statistics = PriorStatistics::new(self.settings.topics);
        if let Some(shard) = self.shards.get(&number) {
            let mut rng = generator(self.seed, Purpose::Statistics, u64::from(number), u64::MAX - sweep);
            let first = usize::from(self.settings.has_global());
            let documents = shard.counts.chunks_exact(self.topics).map(|counts| &counts[first..]);
            statistics = PriorStatistics::of_counts(documents, &self.prior, &mut rng);
        }
        figures.extend(statistics.tables.iter().map(|&tables| tables as f64));
        figures.extend([statistics.successes as f64, statistics.eta_ln]);
        figures
    }

    fn learn(&mut self, statistics: &[Vec<f64>], sweep: u64) {
        let mut sum = vec![0.0; statistics.iter().map(Vec::len).max().unwrap_or(0)];
        for of_shard in statistics {
            sum.iter_mut().zip(of_shard).for_each(|(sum, figure)| *sum += figure);
        }
        let mut rng = generator(self.seed, Purpose::Hyperparameters, sweep, 0);
        let (mut parameters, mut coins) = (self.rules.parameters.clone(), self.rules.coins.parameters.clone());
        let mut figures = sum.chunks_exact(4);
        let prior = Hyperprior::default();
        for depth in 0..parameters.discounts.len() {
            let sums = Sums::from_figures(figures.next().expect("figures of a depth"));
            (parameters.discounts[depth], parameters.strengths[depth]) = sums.redraw(&prior, &mut rng);
            if self.settings.has_global() {
                let sums = Sums::from_figures(figures.next().expect("figures of the coins"));
                coins.strengths[depth] = sums.redraw(&prior, &mut rng).1;
            }
        }
        let of_prior = &sum[sum.len() - self.settings.topics - 2..];
        if self.settings.learn_alpha {
            let statistics = PriorStatistics {
                tables: of_prior[..self.settings.topics].iter().map(|&tables| tables as u64).collect(),
                successes: of_prior[self.settings.topics] as u64,
                eta_ln: of_prior[self.settings.topics + 1],
            };
            self.prior.redraw(&statistics, &mut rng);
        }
        self.rules.set_parameters(parameters, coins);
    }

    /// ln p of the test documents, and their tokens.
    fn evaluate(&mut self, number: u32, sweep: u64) -> Vec<f64> {
        let (mut probability_ln, mut tokens) = (0.0, 0);
        self.rules.prepare(&self.tree, &mut self.counts);
        self.sampler.set_alpha(self.prior.alpha());
        for (document, leaves) in self.tests.get(&number).into_iter().flatten() {
            let mut seen = Seen::default();
            for &leaf in leaves {
                let (vector, yes) = self.sampler.look(&self.tree, &self.counts, &self.rules, leaf);
                seen.vectors.extend_from_slice(vector);
                seen.yes.push(yes);
            }
            let (alpha, strength) = self.sampler.alpha();
            let has_global = self.settings.has_global();
            let prior = DocumentPrior { alpha, strength, topics: self.topics, has_global };
            let mut rng = generator(self.seed, Purpose::Evaluation, u64::from(*document), sweep);
            let EvaluationSettings { particles, resample, .. } = self.evaluation;
            each_token(&seen, &prior, particles, resample, &mut rng, |_, word_ln| probability_ln += word_ln);
            tokens += leaves.len();
        }
        vec![probability_ln, tokens as f64]
    }

    fn snapshot(&self) -> Vec<f64> {
        let (own, coins) = (&self.rules.parameters, &self.rules.coins.parameters);
        [own.discounts.as_slice(), &own.strengths, &coins.strengths, &[self.nodes() as f64]].concat()
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
