//! The token-based sampler (Noji et al. 2013, section 4.1): every token in turn draws a new topic.
//!
//! ```text
//! p(z = k) ~ (n_jk + alpha_k) p_k(w | h)                                   HPYTM (eq. 6)
//! p(z = 0) ~ p(l = 0 | h) p_0(w | h)
//! p(z = k) ~ p(l = 1 | h) (n_jk + alpha_k) / (n_j + A) p_k(w | h)           SWITCHING (eq. 9)
//! ```
//!
//! where j is the token's document, and n_j counts its tokens with a topic.
//!
//! **Order.** Tokens are visited by word first, then by the words before it, nearest first: so the tokens of "hidden unit"
//! come together, "of hidden unit" among them. For every level of the path there is a vector of p_k(w | h) over all
//! topics; from a level to the next, only topics with customers in the restaurant change. A token that moves changes
//! two topics of each vector. So a token costs K multiplications, sixteen at a time, and a few steps for each level.

use multiversion::multiversion;

use super::counts::{Counts, Rules};
use crate::cluster::rng::Generator;
use crate::math::draws::unit_f32;
use crate::math::lanes::{Block, LANES, Prefix, blocks, find};
use crate::restaurant::seating::{DEEPEST, Path};
use crate::restaurant::tree::{NONE, Tree};

/// The tokens of a shard, in the order in which they are visited.
#[derive(Clone, Debug, Default)]
pub struct ShardTokens {
    /// Distinct n-grams as dishes of whole contexts, and how many tokens each is.
    pub leaves: Vec<(u32, u32)>,
    /// The document of each token, counted from 0 in the shard, and its topic.
    pub documents: Vec<u32>,
    pub topics: Vec<u16>,
    /// n_jk, document by document.
    pub counts: Vec<u32>,
}

impl ShardTokens {
    /// n_jk of a document.
    pub fn document(&self, document: usize, topics: usize) -> &[u32] {
        &self.counts[document * topics..(document + 1) * topics]
    }
}

/// What a sweep changes, and by which rules.
pub struct Seating<'a> {
    pub tree: &'a Tree,
    pub counts: &'a mut Counts,
    pub rules: &'a mut Rules,
}

/// Buffers of a sweep.
pub struct Sampler {
    topics: usize,
    /// Whether topic 0 is the global one, outside of documents' topics.
    has_global: bool,
    /// p_k(w | h) by depth.
    vectors: Vec<Vec<Block<f32>>>,
    running: Vec<Block<f32>>,
    alpha: Vec<Block<f32>>,
    strength: f64,
    path: Path,
    before: Path,
    coin: [Path; 2],
}

impl Sampler {
    pub fn new(topics: usize, depth: usize, has_global: bool) -> Sampler {
        Sampler {
            topics,
            has_global,
            vectors: vec![vec![Block::default(); blocks(topics)]; depth + 1],
            running: vec![Block::default(); blocks(topics)],
            alpha: vec![Block::default(); blocks(topics)],
            strength: 0.0,
            path: Path::default(),
            before: Path::default(),
            coin: [Path::default(), Path::default()],
        }
    }

    /// Takes the prior over a document's topics.
    pub fn set_alpha(&mut self, alpha: &[f64]) {
        let first = usize::from(self.has_global);
        assert_eq!(alpha.len() + first, self.topics, "one alpha for each topic of documents");
        self.alpha.fill(Block::default());
        for (topic, &alpha) in (first..).zip(alpha) {
            self.alpha[topic / LANES].0[topic % LANES] = alpha as f32;
        }
        self.strength = alpha.iter().sum();
    }

    /// Passes over a shard. `is_new`: whether its tokens have no topic yet. `changed` is shown each dish that has changed.
    pub fn sweep(
        &mut self,
        seating: &mut Seating<'_>,
        shard: &mut ShardTokens,
        is_new: bool,
        changed: &mut dyn FnMut(u32),
        rng: &mut Generator,
    ) {
        sweep_tokens(self, seating, shard, is_new, changed, rng);
    }

    /// p_k(w | h) of all topics for the dish `leaf`, and the probability of having a topic.
    pub fn look(&mut self, tree: &Tree, counts: &Counts, rules: &Rules, leaf: u32) -> (&[Block<f32>], f64) {
        self.path.find(tree, leaf);
        for depth in 0..=self.path.depth() {
            self.descend(counts, rules, depth);
        }
        let mut coin = [0.0; DEEPEST + 1];
        let mut yes = 1.0;
        if self.has_global {
            self.find_coin();
            rules.coins.probabilities(&counts.coins, &self.coin[1], &mut coin);
            yes = coin[self.path.depth()];
        }
        (&self.vectors[self.path.depth()], yes)
    }

    /// The prior over a document's topics, in blocks, 0 for a global one; and its sum.
    pub fn alpha(&self) -> (&[Block<f32>], f64) {
        (&self.alpha, self.strength)
    }

    /// The vector of a depth of the path, made from that of the depth before.
    #[inline(always)]
    fn descend(&mut self, counts: &Counts, rules: &Rules, depth: usize) {
        let (above, rest) = self.vectors.split_at_mut(depth);
        let vector = &mut rest[0];
        match above.last() {
            Some(above) => vector.copy_from_slice(above),
            None => vector.fill(Block([rules.base as f32; LANES])),
        }
        let (seats, hall) = (&counts.restaurants, self.path.restaurant(depth));
        let rooms = seats.slots(hall);
        let is_full = seats.is_full(hall);
        if is_full {
            scale(vector, &seats.shares[rooms.clone()]);
        } else {
            for room in rooms.clone() {
                let topic = seats.topic(room);
                vector[topic / LANES].0[topic % LANES] *= seats.shares[room];
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
            let seats_here = counts.dishes.customers[dish] as f32 - a * counts.dishes.tables[dish] as f32;
            vector[topic / LANES].0[topic % LANES] += seats_here * seats.inverses[room];
        }
    }

    /// Makes the entries of one topic anew, from `depth` on.
    #[inline(always)]
    fn refresh(&mut self, counts: &Counts, rules: &Rules, topic: usize, depth: usize) {
        let (block, lane) = (topic / LANES, topic % LANES);
        let mut below = match depth {
            0 => rules.base,
            depth => f64::from(self.vectors[depth - 1][block].0[lane]),
        };
        for depth in depth..=self.path.depth() {
            below = rules.probability(counts, &self.path, depth, topic, below);
            self.vectors[depth][block].0[lane] = below as f32;
        }
    }

    /// p_k(w | h) of one topic at every depth of the path.
    #[inline(always)]
    fn chain(&self, topic: usize) -> [f64; DEEPEST + 1] {
        let mut chain = [0.0; DEEPEST + 1];
        for (p, vector) in chain.iter_mut().zip(&self.vectors[..=self.path.depth()]) {
            *p = f64::from(vector[topic / LANES].0[topic % LANES]);
        }
        chain
    }

    /// The coin's two paths for the context at hand.
    fn find_coin(&mut self) {
        for side in 0..2 {
            let restaurants = (0..=self.path.depth()).map(|depth| self.path.restaurant(depth));
            self.coin[side].set(restaurants.map(|restaurant| (2 * restaurant + side as u32, restaurant)));
        }
    }
}

/// Running sums of the weights of all topics: (n_jk + alpha_k) p_k, but `global` p_0 for topic 0 where there is a global
/// one.
#[inline(always)]
pub fn accumulate(
    document: &[u32],
    alpha: &[Block<f32>],
    vector: &[Block<f32>],
    global: Option<f32>,
    running: &mut [Block<f32>],
) -> Prefix {
    let mut sums = Block([0.0; LANES]);
    // Whole blocks have a length that the compiler knows; the last one may be shorter.
    let whole = document.len() / LANES;
    for block in 0..vector.len() {
        if block < whole {
            let counts: &[u32; LANES] = document[block * LANES..][..LANES].try_into().expect("a block");
            add_weights(&mut sums, counts, &alpha[block], &vector[block]);
        } else {
            add_weights(&mut sums, &document[block * LANES..], &alpha[block], &vector[block]);
        }
        if let (0, Some(global)) = (block, global) {
            sums.0[0] = global * vector[0].0[0];
        }
        running[block] = sums;
    }
    Prefix::new(&std::hint::black_box(sums))
}

/// Multiplies a vector by factors, one for each topic.
#[inline(always)]
fn scale(vector: &mut [Block<f32>], factors: &[f32]) {
    for (block, factors) in vector.iter_mut().zip(factors.chunks(LANES)) {
        match <&[f32; LANES]>::try_from(factors) {
            Ok(factors) => block.0.iter_mut().zip(factors).for_each(|(p, factor)| *p *= factor),
            Err(_) => block.0.iter_mut().zip(factors).for_each(|(p, factor)| *p *= factor), // the last one
        }
    }
}

/// Adds (n_jk + alpha_k) p_k of a block of topics.
#[inline(always)]
fn add_weights(sums: &mut Block<f32>, counts: &[u32], alpha: &Block<f32>, vector: &Block<f32>) {
    for (((sum, &count), alpha), p) in sums.0.iter_mut().zip(counts).zip(&alpha.0).zip(&vector.0) {
        *sum += (count as f32 + alpha) * p;
    }
}

/// Compiled for several instruction sets; one is chosen per sweep, so that everything below is inlined into it.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2", "x86_64+avx2", "aarch64+neon"))]
fn sweep_tokens(
    sampler: &mut Sampler,
    seating: &mut Seating<'_>,
    shard: &mut ShardTokens,
    is_new: bool,
    changed: &mut dyn FnMut(u32),
    rng: &mut Generator,
) {
    let Seating { tree, counts, rules } = seating;
    let topics = sampler.topics;
    let ShardTokens { leaves, documents, topics: of_tokens, counts: document_counts } = shard;
    let mut changed = |dish| changed(dish);
    let mut token = 0;
    let mut is_first = true;
    let mut coin = [0.0; DEEPEST + 1];
    for &(leaf, tokens) in leaves.iter() {
        std::mem::swap(&mut sampler.path, &mut sampler.before);
        sampler.path.find(tree, leaf);
        let shared = if is_first { 0 } else { sampler.path.shared(&sampler.before) };
        is_first = false;
        for depth in shared..=sampler.path.depth() {
            sampler.descend(counts, rules, depth);
        }
        if sampler.has_global {
            sampler.find_coin();
        }
        for token in token..token + tokens as usize {
            let start = documents[token] as usize * topics;
            let document = &mut document_counts[start..start + topics];
            if !is_new {
                let old = usize::from(of_tokens[token]);
                document[old] -= 1;
                let depth = rules.remove(counts, &sampler.path, old, &mut changed, rng);
                sampler.refresh(counts, rules, old, depth);
                if sampler.has_global {
                    let side = &sampler.coin[usize::from(old > 0)];
                    rules.coins.remove(&mut counts.coins, side, side.depth(), &mut |_, _| (), rng);
                }
            }
            let mut global = None;
            if sampler.has_global {
                rules.coins.probabilities(&counts.coins, &sampler.coin[1], &mut coin);
                let yes = coin[sampler.path.depth()];
                let with_topic: u32 = document[1..].iter().sum();
                global = Some(((1.0 - yes) / yes * (f64::from(with_topic) + sampler.strength)) as f32);
            }
            let vector = &sampler.vectors[sampler.path.depth()];
            let prefix = accumulate(document, &sampler.alpha, vector, global, &mut sampler.running);
            let new = find(&sampler.running, &prefix, unit_f32(rng) * prefix.total()).min(topics - 1);
            of_tokens[token] = new as u16;
            document[new] += 1;
            let depth = rules.add(counts, &sampler.path, new, &sampler.chain(new), &mut changed, rng);
            sampler.refresh(counts, rules, new, depth);
            if sampler.has_global {
                let side = usize::from(new > 0);
                if side == 0 {
                    rules.coins.probabilities(&counts.coins, &sampler.coin[0], &mut coin);
                }
                let side = &sampler.coin[side];
                rules.coins.add(&mut counts.coins, side, side.depth(), &coin, &mut |_, _| (), rng);
            }
        }
        token += tokens as usize;
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
