//! The table-based sampler (Noji et al. 2013, section 4.2): all that sits at a table, and at the tables that its customers
//! are, moves to another topic together, across documents.
//!
//! A table of dish w in the restaurant of context h and topic k has customers that are tokens, or tables of longer
//! contexts. Down to its tokens that is a block S. With the block taken out of everything,
//!
//! ```text
//! p(S -> k) ~ p_k(w | h')                                                       the table as a customer of its parent
//!             prod_s prod_{i<t_s} (b + a (T_s + i)) / prod_{i<c_s} (b + C_s + i)   restaurants in which S has tables (eq. 12)
//!             prod_j prod_{i<n_j(S)} (n_jk + alpha_k + i)                          documents (eq. 13)
//! ```
//!
//! **Counts only.** No restaurant remembers who sits where, so it is drawn: given (c, t), from its exact conditional. A
//! word at a time, from the longest contexts up, the customers of a dish and topic are seated at tables; each table then
//! moves as a block, while everything above it is counts; and the tables, with whatever topic they have then, are the
//! customers to be seated one context up. So every step is a Gibbs step on counts and a part of the seating. The tables of
//! a dish are visited in the order of their first tokens, whatever their topics.
//!
//! **What moves.** A block of one token is left where it is: the token-based sampler, which goes before, moves it by itself, and
//! is freer in where it is seated. So is a block of more than `LARGEST` tokens, and one whose first table has one customer that
//! is a table: that table's block, which has just moved, is the same tokens. A block has the same tokens and tables before and
//! after a move, so what is left out does not depend on what is drawn, and the sampler stays exact. Blocks of the root move in some
//! sweeps only (`TableSampler::moves_root`).
//!
//! **Shards** have all customers of the dishes that are theirs. Those of dishes that several shards share are not seated here:
//! their blocks move in a round of their own ([`super::top_blocks`]).
//!
//! **SWITCHING.** A block that goes from or to topic 0 turns the coins of its tokens ([`Turn`]). That is tried for a share
//! of `TURNS` of blocks; the others stay on their side.
//!
//! **HIERARCHICAL.** Blocks go down tables that went up; tables of topic 0 are none, being other topics'. The first table
//! of a block draws its label anew, and its move is accepted or not as that of a token is ([`super::ascent`]).
//!
//! Cost: a token is in as many blocks as its context is long, and one more; a block costs K operations for each of its
//! tokens, and for each of its tables those for the topics of the restaurant. A part's tables are kept after a pass only if blocks
//! of shared restaurants move next.

use std::ops::RangeInclusive;

use multiversion::multiversion;

use super::ascent::Ways;
use super::counts::Form;
use super::descent::Descent;
use super::documents::{Alpha, Seating, ShardTokens};
use super::rules::Rules;
use super::seats::Slot;
use super::top::SharedDishes;
use super::turn::Turn;
use super::weights::Weights;
use crate::cluster::rng::Generator;
use crate::math::draws::unit;
use crate::math::lanes::LANES;
use crate::math::pairs;
use crate::restaurant::chance::Chance;
use crate::restaurant::stirling::Alone;
use crate::restaurant::tree::{NONE, Tree};

/// A customer that is a token has this bit beside the token's number; others are tables.
const TOKEN: u32 = 1 << 31;

/// Blocks of more tokens are left where they are: in Brown, one in a hundred of those of 64 to 127 tokens moves and one in ten
/// thousand of larger ones, which have half of all tokens of blocks.
pub(super) const LARGEST: u32 = 63;

/// How often a block may go from or to topic 0, in SWITCHING.
const TURNS: f64 = 0.5;

/// A customer of a dish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Customer {
    pub dish: u32,
    pub topic: u16,
    pub who: u32,
}

/// A table, whose customers are a run of `members`.
#[derive(Clone, Copy, Debug)]
struct Table {
    dish: u32,
    topic: u16,
    first: u32,
    last: u32,
    /// The first token of its block, and how many there are.
    token: u32,
    tokens: u32,
    goes_up: bool,
}

impl Table {
    /// Whether its block moves, if those of so many tokens do. That of a table with one customer, which is a table, is that
    /// table's.
    #[inline(always)]
    fn moves(&self, sizes: &RangeInclusive<u32>) -> bool {
        sizes.contains(&self.tokens) && (self.last - self.first > 1 || self.tokens == 1)
    }
}

/// What a block has at a dish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Node {
    pub dish: u32,
    pub tables: u32,
    pub customers: u32,
}

/// A token of a block. In a block they are sorted by document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BlockToken {
    pub document: u32,
    pub token: u32,
    /// Where its context ends.
    pub dish: u32,
}

/// A table with all that hangs on it.
#[derive(Default)]
pub(super) struct Block {
    pub tables: Vec<u32>,
    pub nodes: Vec<Node>,
    pub tokens: Vec<BlockToken>,
}

/// Who sits where: the tables of the word at hand, or of a whole part.
#[derive(Debug, Default)]
pub(super) struct Arena {
    tables: Vec<Table>,
    members: Vec<u32>,
    /// Customers of dishes that several shards share.
    pub of_shared: Vec<Customer>,
}

impl Arena {
    fn clear(&mut self) {
        self.tables.clear();
        self.members.clear();
        self.of_shared.clear();
    }

    /// How many tokens a customer stands for.
    #[inline(always)]
    pub fn tokens_of(&self, customer: &Customer) -> u32 {
        match customer.who & TOKEN {
            0 => self.tables[customer.who as usize].tokens,
            _ => 1,
        }
    }

    pub fn set_topics(&mut self, tables: &[u32], topic: u16) {
        tables.iter().for_each(|&table| self.tables[table as usize].topic = topic);
    }
}

/// Buffers of a sweep.
pub struct TableSampler {
    topics: usize,
    /// Blocks of fewer tokens are left where they are.
    pub(super) smallest: u32,
    /// Whether blocks of the root move, and of what several shards share.
    pub(super) moves_root: bool,
    /// Dishes that several shards share: no shard has all of their customers.
    pub(super) is_shared: Option<SharedDishes>,
    descent: Descent,
    pub(super) arena: Arena,
    /// Customers by the depth of their dish.
    waiting: Vec<Vec<Customer>>,
    pub(super) block: Block,
    turn: Turn,
    /// Of the first table of the block at hand, in HIERARCHICAL.
    ways: Ways,
    seats: Seats,
    weights: Weights,
    alpha: Vec<f64>,
}

/// Buffers of seating.
#[derive(Default)]
pub(super) struct Seats {
    opens: Vec<bool>,
    /// The table of each customer, counted from the first of the dish and topic.
    pub at: Vec<u32>,
    pub sizes: Vec<u32>,
}

impl Seats {
    /// Draws who sits at which table, given how many customers and tables there are.
    #[inline(always)]
    pub fn draw(&mut self, customers: u32, tables: u32, a: f64, alone: &mut Alone, chance: &mut impl Chance) {
        let Seats { opens, at, sizes } = self;
        // Back to before the first of them came: the last one opened a table with probability R(n, m)
        // (restaurant/stirling.rs), and so on.
        opens.clear();
        let (mut n, mut m) = (customers, tables);
        for _ in 0..customers {
            let opened = chance.was_alone(alone, n, m);
            opens.push(opened);
            n -= 1;
            m -= u32::from(opened);
        }
        // And forward again: whoever did not open a table joined one, by its size less the discount.
        at.clear();
        sizes.clear();
        for (seated, &opened) in opens.iter().rev().enumerate() {
            if opened {
                at.push(sizes.len() as u32);
                sizes.push(1);
            } else {
                let table = join(sizes, a, seated as f64 - a * sizes.len() as f64, chance);
                sizes[table] += 1;
                at.push(table as u32);
            }
        }
    }
}

impl TableSampler {
    pub fn new(form: Form, topics: usize, depth: usize) -> TableSampler {
        TableSampler {
            topics,
            smallest: 2,
            moves_root: true,
            is_shared: None,
            descent: Descent::new(form, topics, depth),
            arena: Arena::default(),
            waiting: vec![vec![]; depth + 1],
            block: Block::default(),
            turn: Turn::default(),
            ways: Ways::default(),
            seats: Seats::default(),
            weights: Weights::new(topics),
            alpha: vec![],
        }
    }

    /// Passes over a shard. `changed` is shown each dish that has changed.
    pub fn sweep(
        &mut self,
        seating: &mut Seating<'_>,
        shard: &mut ShardTokens,
        alpha: &Alpha,
        changed: &mut dyn FnMut(u32),
        rng: &mut Generator,
    ) {
        self.take_prior(alpha);
        sweep_tables(self, seating, shard, alpha.strength, changed, rng);
    }
}

impl TableSampler {
    pub(super) fn topics(&self) -> usize {
        self.topics
    }

    /// Whether the tables of a whole part are kept, for blocks of what several shards share.
    fn keeps_tables(&self) -> bool {
        self.moves_root && self.is_shared.is_some()
    }

    fn take_prior(&mut self, alpha: &Alpha) {
        self.alpha.clear();
        let lanes = alpha.blocks.iter().flat_map(|block| block.0);
        self.alpha.extend(lanes.take(self.topics).map(f64::from));
    }

    /// A sweep decided by a test.
    #[cfg(test)]
    pub fn sweep_by(
        &mut self,
        seating: &mut Seating<'_>,
        shard: &mut ShardTokens,
        alpha: &Alpha,
        chance: &mut impl Chance,
    ) {
        self.take_prior(alpha);
        sweep_words(self, seating, shard, alpha.strength, &mut |_| (), chance);
    }
}

/// Compiled for several instruction sets; one is chosen per sweep, so that everything below is inlined into it.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2", "x86_64+avx2", "aarch64+neon"))]
fn sweep_tables(
    sampler: &mut TableSampler,
    seating: &mut Seating<'_>,
    shard: &mut ShardTokens,
    strength: f64,
    changed: &mut dyn FnMut(u32),
    rng: &mut Generator,
) {
    sweep_words(sampler, seating, shard, strength, &mut |dish| changed(dish), rng);
}

#[inline(always)]
fn sweep_words(
    sampler: &mut TableSampler,
    seating: &mut Seating<'_>,
    shard: &mut ShardTokens,
    strength: f64,
    changed: &mut impl FnMut(u32),
    chance: &mut impl Chance,
) {
    let tree = seating.tree;
    let (mut leaf, mut token) = (0, 0);
    let keeps = sampler.keeps_tables();
    sampler.arena.clear();
    while leaf < shard.leaves.len() {
        let word = tree.outcomes[shard.leaves[leaf].0 as usize];
        if !keeps {
            sampler.arena.clear();
        }
        while leaf < shard.leaves.len() && tree.outcomes[shard.leaves[leaf].0 as usize] == word {
            token = sampler.wait(tree, shard, leaf, token);
            leaf += 1;
        }
        let shallowest = usize::from(!sampler.moves_root);
        for depth in (shallowest..sampler.waiting.len()).rev() {
            sampler.descent.forget();
            sweep_level(sampler, seating, shard, strength, depth, changed, chance);
        }
        sampler.waiting[0].clear();
    }
}

impl TableSampler {
    /// Makes the tokens of an n-gram wait as customers of their dishes; returns the token after them.
    #[inline(always)]
    fn wait(&mut self, tree: &Tree, shard: &ShardTokens, leaf: usize, token: usize) -> usize {
        let (dish, tokens) = shard.leaves[leaf];
        let whole = tree.depth_of(dish);
        for token in token..token + tokens as usize {
            let order = shard.orders.get(token).map_or(whole, |&order| usize::from(order));
            let mut stop = dish;
            for _ in order..whole {
                stop = tree.dishes[stop as usize].parent;
            }
            let topic = shard.topics[token];
            self.waiting[order].push(Customer { dish: stop, topic, who: token as u32 | TOKEN });
        }
        token + tokens as usize
    }
}

/// Seats the customers of one depth, moves each of their tables, and makes the tables wait one depth up.
#[inline(always)]
fn sweep_level(
    sampler: &mut TableSampler,
    seating: &mut Seating<'_>,
    shard: &mut ShardTokens,
    strength: f64,
    depth: usize,
    changed: &mut impl FnMut(u32),
    chance: &mut impl Chance,
) {
    let mut customers = std::mem::take(&mut sampler.waiting[depth]);
    customers.sort_unstable();
    for of_dish in customers.chunk_by(|a, b| a.dish == b.dish) {
        let dish = of_dish[0].dish;
        if sampler.is_shared.as_ref().is_some_and(|shared| shared.has(dish)) {
            if sampler.moves_root {
                sampler.arena.of_shared.extend_from_slice(of_dish);
            }
            continue;
        }
        let first = sampler.arena.tables.len();
        for of_topic in of_dish.chunk_by(|a, b| a.topic == b.topic) {
            sampler.seat(seating, of_topic, depth, chance);
        }
        let sizes = sampler.smallest..=LARGEST;
        let moves = |table: &Table| table.moves(&sizes);
        if sampler.arena.tables[first..].iter().any(moves) {
            sampler.approach(seating, dish, depth);
        }
        // In an order that topics have no part in: where those of one topic went first, the sampler would not be exact.
        sampler.arena.tables[first..].sort_unstable_by_key(|table| table.token);
        for table in first..sampler.arena.tables.len() {
            if moves(&sampler.arena.tables[table]) {
                move_block(sampler, seating, shard, strength, table, depth, changed, chance);
            }
            let Table { topic, goes_up, .. } = sampler.arena.tables[table];
            let parent = seating.tree.dishes[dish as usize].parent;
            if parent != NONE && goes_up {
                sampler.waiting[depth - 1].push(Customer { dish: parent, topic, who: table as u32 });
            }
        }
    }
    customers.clear();
    sampler.waiting[depth] = customers;
}

impl TableSampler {
    /// Seats the customers of one dish and topic, given its counts, and adds their tables.
    #[inline(always)]
    fn seat(&mut self, seating: &mut Seating<'_>, all: &[Customer], depth: usize, chance: &mut impl Chance) {
        let Customer { dish, topic, .. } = all[0];
        let slot = seating.counts.dishes.find(dish, usize::from(topic)).expect("customers are counted");
        let Slot { customers, tables, ups, .. } = seating.counts.dishes.at[slot];
        debug_assert_eq!(customers as usize, all.len(), "all customers of the dish");
        let labels = seating.rules.has_labels(usize::from(topic));
        let mut ups = if labels { ups } else { tables };
        let a = seating.rules.parameters.discounts[depth];
        let alone = &mut seating.rules.alone[depth];
        self.seats.draw(customers, tables, a, alone, chance);
        let Seats { at, sizes, .. } = &self.seats;
        let first = self.arena.tables.len();
        let mut place = self.arena.members.len() as u32;
        let mut left = tables;
        for &size in sizes.iter() {
            // Labels are spread evenly over tables.
            let goes_up = !labels || chance.is_within(f64::from(ups), f64::from(left));
            ups -= u32::from(goes_up);
            left -= 1;
            self.arena.tables.push(Table { dish, topic, first: place, last: place, token: NONE, tokens: 0, goes_up });
            place += size;
        }
        self.arena.members.resize(place as usize, 0);
        for (customer, &at) in all.iter().zip(at.iter()) {
            let token = match customer.who & TOKEN {
                0 => self.arena.tables[customer.who as usize].token,
                _ => customer.who & !TOKEN,
            };
            let tokens = self.arena.tokens_of(customer);
            let table = &mut self.arena.tables[first + at as usize];
            self.arena.members[table.last as usize] = customer.who;
            table.last += 1;
            table.token = table.token.min(token);
            table.tokens += tokens;
        }
    }

    /// log2 of the weight of every topic by the restaurants of the block at hand, as if it were taken out of `old`.
    pub(super) fn weigh_nodes(&mut self, seating: &Seating<'_>, old: usize, log2: &mut Vec<f32>) {
        weigh_all(self, seating, old, log2);
    }

    /// Goes to where the tables of a dish are customers.
    #[inline(always)]
    fn approach(&mut self, seating: &Seating<'_>, dish: u32, depth: usize) {
        let Seating { tree, rules, .. } = seating;
        if rules.form == Form::Hierarchical {
            self.descent.go_to(tree, dish);
        } else if depth > 0 {
            self.descent.go_to(tree, tree.dishes[dish as usize].parent);
        }
    }

    /// Collects the block of a table.
    #[inline(always)]
    fn collect(&mut self, shard: &ShardTokens, table: usize) {
        self.block.clear();
        self.block.tables.push(table as u32);
        self.follow(shard);
        let Block { nodes, tokens, .. } = &mut self.block;
        if nodes.len() > 2 {
            nodes[1..].sort_unstable(); // the first table's dish stays first
            add_up(nodes);
        }
        if tokens.len() > 1 {
            tokens.sort_unstable();
        }
    }

    /// Collects what hangs on customers of a dish.
    pub(super) fn collect_all(&mut self, shard: &ShardTokens, customers: impl Iterator<Item = (u32, u32)>) -> &Block {
        self.block.clear();
        for (dish, who) in customers {
            let token = who & !TOKEN;
            match who & TOKEN {
                0 => self.block.tables.push(who),
                _ => self.block.tokens.push(BlockToken { document: shard.documents[token as usize], token, dish }),
            }
        }
        self.follow(shard);
        self.block.nodes.sort_unstable();
        add_up(&mut self.block.nodes);
        self.block.tokens.sort_unstable();
        &self.block
    }

    /// Adds to the block what hangs on its tables.
    #[inline(always)]
    fn follow(&mut self, shard: &ShardTokens) {
        let Block { tables, nodes, tokens, .. } = &mut self.block;
        let mut next = 0;
        while next < tables.len() {
            let Table { dish, first, last, .. } = self.arena.tables[tables[next] as usize];
            next += 1;
            nodes.push(Node { dish, tables: 1, customers: last - first });
            for &member in &self.arena.members[first as usize..last as usize] {
                let token = member & !TOKEN;
                match member & TOKEN {
                    0 => tables.push(member),
                    _ => tokens.push(BlockToken { document: shard.documents[token as usize], token, dish }),
                }
            }
        }
    }
}

/// See [`TableSampler::weigh_nodes`].
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2", "x86_64+avx2", "aarch64+neon"))]
fn weigh_all(sampler: &mut TableSampler, seating: &Seating<'_>, old: usize, log2: &mut Vec<f32>) {
    sampler.weights.start().fill(1.0);
    for node in &sampler.block.nodes {
        weigh_restaurant(seating, node, old, &mut sampler.weights);
    }
    sampler.weights.log2(log2);
}

/// Makes one node of those at the same dish, which follow each other.
fn add_up(nodes: &mut Vec<Node>) {
    nodes.dedup_by(|next, node| {
        let is_same = next.dish == node.dish;
        if is_same {
            node.tables += next.tables;
            node.customers += next.customers;
        }
        is_same
    });
}

/// A table, by its size less the discount; `sum` is that of all.
#[inline(always)]
fn join(sizes: &[u32], a: f64, sum: f64, chance: &mut impl Chance) -> usize {
    let weight = |table: usize| f64::from(sizes[table]) - a;
    let draw = |rng: &mut _| {
        let mut lot = unit(rng) * sum;
        for table in 0..sizes.len() {
            lot -= weight(table);
            if lot < 0.0 {
                return table;
            }
        }
        sizes.len() - 1
    };
    chance.choose(sizes.len(), weight, draw)
}

/// Draws a topic for the block of a table.
#[inline(always)]
#[allow(clippy::too_many_arguments)] // what a sweep has, and where it is
fn move_block(
    sampler: &mut TableSampler,
    seating: &mut Seating<'_>,
    shard: &mut ShardTokens,
    strength: f64,
    table: usize,
    depth: usize,
    changed: &mut impl FnMut(u32),
    chance: &mut impl Chance,
) {
    let Table { topic, goes_up, .. } = sampler.arena.tables[table];
    let old = usize::from(topic);
    let is_switching = seating.rules.form == Form::Switching;
    let tries_turn = is_switching && chance.is_within(TURNS, 1.0);
    if is_switching && old == 0 && !tries_turn {
        return; // there is one global topic
    }
    sampler.collect(shard, table);
    let place = Place { depth, topic: old, goes_up, tries_turn };
    let (new, goes_up) = move_collected(sampler, seating, shard, strength, place, &[], changed, chance);
    if new != old {
        sampler.arena.set_topics(&sampler.block.tables, new as u16);
        sampler.block.tokens.iter().for_each(|moved| shard.topics[moved.token as usize] = new as u16);
    }
    sampler.arena.tables[table].goes_up = goes_up;
}

/// Where a block is: the depth and the topic of its first table, and whether that goes up; and whether the block may go from or
/// to topic 0, in SWITCHING.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub depth: usize,
    pub topic: usize,
    pub goes_up: bool,
    pub tries_turn: bool,
}

/// See [`TableSampler::move_given`].
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2", "x86_64+avx2", "aarch64+neon"))]
#[allow(clippy::too_many_arguments)] // those of `move_collected`
fn move_one(
    sampler: &mut TableSampler,
    seating: &mut Seating<'_>,
    shard: &mut ShardTokens,
    strength: f64,
    place: Place,
    elsewhere: &[f32],
    changed: &mut dyn FnMut(u32),
    rng: &mut Generator,
) -> (usize, bool) {
    move_collected(sampler, seating, shard, strength, place, elsewhere, &mut |dish| changed(dish), rng)
}

/// Draws a topic for the block at hand, and moves its counts there. `elsewhere` are weights of all topics as logarithms to base 2,
/// of what is not among the block's nodes. Returns the topic, and whether the first table goes up.
#[inline(always)]
#[allow(clippy::too_many_arguments)] // what a sweep has, and the block's place
fn move_collected(
    sampler: &mut TableSampler,
    seating: &mut Seating<'_>,
    shard: &mut ShardTokens,
    strength: f64,
    place: Place,
    elsewhere: &[f32],
    changed: &mut impl FnMut(u32),
    chance: &mut impl Chance,
) -> (usize, bool) {
    let Place { depth, topic: old, goes_up, tries_turn } = place;
    let is_hierarchical = seating.rules.form == Form::Hierarchical;
    sampler.leave_parent(seating, old, goes_up, depth, changed, chance);
    sampler.turn.clear();
    if tries_turn {
        let stops = sampler.block.tokens.iter().map(|token| token.dish);
        sampler.turn.lift(seating, stops, old > 0, chance);
    }
    sampler.weigh(seating, shard, strength, old, depth, elsewhere);
    let mut new = sampler.weights.choose(chance);
    if tries_turn && !sampler.turn.lay(seating, old > 0, new > 0, chance) {
        new = old;
    }
    if is_hierarchical {
        let (Seating { counts, rules, .. }, TableSampler { descent, ways, .. }) = (&mut *seating, &mut *sampler);
        if !rules.propose(counts, descent, new, depth, true, ways, changed, chance) {
            new = old;
        }
    }
    if new != old {
        change_block(&sampler.block, seating, shard, old, sampler.topics, -1);
        change_block(&sampler.block, seating, shard, new, sampler.topics, 1);
        sampler.block.nodes.iter().for_each(|node| changed(node.dish));
    }
    (new, sampler.join_parent(seating, new, depth, changed, chance))
}

impl TableSampler {
    /// The same for a block that is given. `elsewhere`: see [`move_collected`].
    #[allow(clippy::too_many_arguments)] // what a sweep has, and the block
    pub(super) fn move_given(
        &mut self,
        seating: &mut Seating<'_>,
        documents: &mut ShardTokens,
        alpha: &Alpha,
        nodes: &[Node],
        tokens: &[BlockToken],
        place: Place,
        elsewhere: &[f32],
        changed: &mut dyn FnMut(u32),
        rng: &mut Generator,
    ) -> (usize, bool) {
        self.take_prior(alpha);
        self.block.clear();
        self.block.nodes.extend_from_slice(nodes);
        self.block.tokens.extend_from_slice(tokens);
        self.descent.forget();
        self.approach(seating, nodes[0].dish, place.depth);
        move_one(self, seating, documents, alpha.strength, place, elsewhere, changed, rng)
    }
}

impl TableSampler {
    /// Takes the first table of a block away from where it is a customer.
    #[inline(always)]
    fn leave_parent(
        &mut self,
        seating: &mut Seating<'_>,
        topic: usize,
        goes_up: bool,
        depth: usize,
        changed: &mut impl FnMut(u32),
        chance: &mut impl Chance,
    ) {
        let Seating { counts, rules, .. } = seating;
        let descent = &mut self.descent;
        if rules.has_labels(topic) {
            let slot = counts.dishes.find(descent.path.dish(depth), topic).expect("the table's dish");
            counts.dishes.at[slot].ups -= u32::from(goes_up);
            rules.retreat(counts, descent, topic, depth, Some(goes_up), &mut self.ways.old, changed, chance);
            descent.note(counts, rules, topic, self.ways.old.touched());
            descent.catch_up_with_origins(counts, rules);
        } else if depth > 0 {
            let touched = rules.remove(counts, descent, topic, depth - 1, changed, chance);
            descent.note(counts, rules, topic, touched);
            descent.catch_up(counts, rules);
        }
    }

    /// Makes the first table of a block a customer in its topic, unless it has a way already; returns whether it goes up.
    #[inline(always)]
    fn join_parent(
        &mut self,
        seating: &mut Seating<'_>,
        topic: usize,
        depth: usize,
        changed: &mut impl FnMut(u32),
        chance: &mut impl Chance,
    ) -> bool {
        let Seating { counts, rules, .. } = seating;
        let descent = &mut self.descent;
        if rules.has_labels(topic) {
            let goes_up = self.ways.old.goes_up();
            let slot = counts.dishes.find(descent.path.dish(depth), topic).expect("the table's dish");
            counts.dishes.at[slot].ups += u32::from(goes_up);
            descent.note(counts, rules, topic, self.ways.old.touched());
            return goes_up;
        }
        if depth > 0 {
            let touched = rules.add(counts, descent, topic, depth - 1, changed, chance);
            descent.note(counts, rules, topic, touched);
        }
        true
    }
}

/// Puts a block into a topic, or takes it out: in its restaurants and documents. All its tables but the first count among
/// those that went up.
#[inline(always)]
fn change_block(
    block: &Block,
    seating: &mut Seating<'_>,
    shard: &mut ShardTokens,
    topic: usize,
    topics: usize,
    sign: i32,
) {
    change_seats(&block.nodes, 1, seating, topic, sign);
    let has_topic = topic > 0 || !seating.rules.form.has_global();
    for &BlockToken { document, .. } in &block.tokens {
        let count = &mut shard.counts[document as usize * topics + topic];
        *count = count.wrapping_add_signed(sign);
        if has_topic {
            let with_topic = &mut shard.with_topic[document as usize];
            *with_topic = with_topic.wrapping_add_signed(sign);
        }
    }
}

/// Puts tables and customers into a topic, or takes them out. All tables but those of the `first` nodes count among those that
/// went up.
#[inline(always)]
pub(super) fn change_seats(nodes: &[Node], first: usize, seating: &mut Seating<'_>, topic: usize, sign: i32) {
    let Seating { tree, counts, rules } = seating;
    let labels = rules.has_labels(topic);
    for (place, node) in nodes.iter().enumerate() {
        let hall = tree.dishes[node.dish as usize].restaurant;
        let (customers, tables) = (sign * node.customers as i32, sign * node.tables as i32);
        let slot = counts.dishes.open(node.dish, topic);
        let dish = &mut counts.dishes.at[slot];
        dish.customers = dish.customers.wrapping_add_signed(customers);
        dish.tables = dish.tables.wrapping_add_signed(tables);
        if labels && place >= first {
            dish.ups = dish.ups.wrapping_add_signed(tables);
        }
        counts.dishes.close(node.dish, slot);
        let room = counts.restaurants.open(hall, topic);
        let restaurant = &mut counts.restaurants.at[room];
        restaurant.customers = restaurant.customers.wrapping_add_signed(customers);
        restaurant.tables = restaurant.tables.wrapping_add_signed(tables);
        rules.prepare_one(counts, tree.depth_of(node.dish), room);
        counts.restaurants.close(hall, room);
    }
}

impl TableSampler {
    /// The weight of every topic for the block, as if it were taken out of `old`, where it stands: most blocks stay, and
    /// finding their places twice would cost more than all else.
    #[inline(always)]
    fn weigh(
        &mut self,
        seating: &Seating<'_>,
        shard: &ShardTokens,
        strength: f64,
        old: usize,
        depth: usize,
        elsewhere: &[f32],
    ) {
        let rules = &seating.rules;
        let weights = &mut self.weights;
        weigh_customer(&self.descent, rules, depth, weights.start());
        if !elsewhere.is_empty() {
            weights.multiply_by_powers(elsewhere);
        }
        let is_switching = rules.form == Form::Switching;
        if rules.form.has_global() && self.turn.odds().len() == 0 {
            weights.values[0] = 0.0; // out of the question from the start, so that nothing is measured against it
        }
        for node in &self.block.nodes {
            weigh_restaurant(seating, node, old, weights);
        }
        let has_topic = old > 0 || !rules.form.has_global();
        let mut odds = self.turn.odds();
        for tokens in self.block.tokens.chunk_by(|a, b| a.document == b.document) {
            let document = tokens[0].document as usize;
            let in_document = &shard.counts[document * self.topics..][..self.topics];
            let own = if has_topic { tokens.len() } else { 0 };
            let others = f64::from(shard.with_topic[document] - own as u32) + strength;
            for token in 0..tokens.len() {
                let more = token as f64;
                let values = &mut weights.values;
                let (whole, global, of_old) = (1.0 / (others + more), values[0], values[old]);
                let alphas = &self.alpha[..self.topics];
                let mut topic = 0;
                pairs::each_mut(&mut values[..self.topics], in_document, |weight, &count| {
                    *weight *= (f64::from(count) + alphas[topic] + more) * whole;
                    topic += 1;
                });
                let in_old = f64::from(in_document[old] - tokens.len() as u32);
                values[old] = of_old * (in_old + self.alpha[old] + more) * whole;
                if is_switching {
                    values[0] = odds.next().map_or(0.0, |odds| global * odds);
                }
                weights.multiplied();
            }
        }
    }
}

/// p_k(w | h') of every topic, where the first table of a block is a customer; all the same below the root.
#[inline(always)]
fn weigh_customer(descent: &Descent, rules: &Rules, depth: usize, weights: &mut [f64]) {
    match depth {
        0 => weights.fill(rules.base),
        _ => {
            for (at, block) in descent.vector(depth - 1).iter().enumerate() {
                pairs::each_mut(&mut weights[at * LANES..], &block.0, |weight, &p| *weight = f64::from(p));
            }
        }
    }
    if rules.form == Form::Hierarchical {
        let (yes, more) = (descent.sides[1][depth], descent.across(1, depth));
        weights.iter_mut().for_each(|weight| *weight = *weight * yes + more);
    }
}

/// What a restaurant with tables of the block says to every topic (eq. 12), relative to one that nobody is in; the block is
/// counted in `old`, and taken out here.
#[inline(always)]
fn weigh_restaurant(seating: &Seating<'_>, node: &Node, old: usize, weights: &mut Weights) {
    let Seating { tree, counts, rules } = seating;
    let depth = tree.depth_of(node.dish);
    let (a, b) = (rules.parameters.discounts[depth], rules.parameters.strengths[depth]);
    let (seats, hall) = (&counts.restaurants, tree.dishes[node.dish as usize].restaurant);
    let rooms = seats.slots(hall);
    // What the customer after `i` others of the block says to a topic with c customers at t tables.
    let step = |c: f64, t: f64, i: u32| {
        let more = f64::from(i);
        let of_tables = if i < node.tables { (b + a * (t + more)) / (b + a * more) } else { 1.0 };
        of_tables * (b + more) / (b + c + more)
    };
    let all = |c: f64, t: f64| (0..node.customers).map(|i| step(c, t, i)).product::<f64>();
    let with = |slot: &Slot| (f64::from(slot.customers), f64::from(slot.tables));
    let without = |slot: &Slot| (f64::from(slot.customers - node.customers), f64::from(slot.tables - node.tables));
    if node.customers == 1 {
        let values = &mut weights.values;
        let mut of_old = values[old];
        if seats.is_full(hall) {
            let (c, t) = without(&seats.at[rooms.start + old]);
            of_old *= step(c, t, 0);
            let shares = &seats.weights[rooms];
            pairs::each_mut(values, shares, |value, weights| *value *= f64::from(weights.share));
        } else {
            for room in rooms {
                let topic = seats.topic(room);
                values[topic] *= f64::from(seats.weights[room].share);
                if topic == old {
                    let (c, t) = without(&seats.at[room]);
                    of_old *= step(c, t, 0);
                }
            }
        }
        values[old] = of_old;
    } else if seats.is_full(hall) {
        let of_topics = &seats.at[rooms];
        let (c, t) = without(&of_topics[old]);
        for i in 0..node.customers {
            let values = &mut weights.values;
            let of_old = values[old] * step(c, t, i);
            let more = f64::from(i);
            if i < node.tables {
                let empty = (b + more) / (b + a * more);
                pairs::each_mut(values, of_topics, |weight, slot| {
                    let (c, t) = with(slot);
                    *weight *= (b + a * (t + more)) / (b + c + more) * empty;
                });
            } else {
                pairs::each_mut(values, of_topics, |weight, slot| {
                    *weight *= (b + more) / (b + f64::from(slot.customers) + more);
                });
            }
            values[old] = of_old;
            weights.multiplied();
        }
        return;
    } else {
        for room in rooms {
            let topic = seats.topic(room);
            let (c, t) = if topic == old { without(&seats.at[room]) } else { with(&seats.at[room]) };
            weights.values[topic] *= all(c, t);
        }
    }
    weights.multiplied();
}

impl Block {
    pub(super) fn clear(&mut self) {
        self.tables.clear();
        self.nodes.clear();
        self.tokens.clear();
    }
}
