//! The token-based sampler (Noji et al. 2013, section 4.1): every token in turn draws a new topic.
//!
//! ```text
//! p(z = k) ~ (n_jk + alpha_k) p_k(w | h)                                   HPYTM, HIERARCHICAL (eq. 6)
//! p(z = 0) ~ p(l = 0 | h) p_0(w | h)
//! p(z = k) ~ p(l = 1 | h) (n_jk + alpha_k) / (n_j + A) p_k(w | h)           SWITCHING (eq. 9)
//! ```
//!
//! where j is the token's document, and n_j counts its tokens with a topic. In HIERARCHICAL these weights are a proposal, since
//! the coins change while a customer goes up its path ([`super::ascent`]). Where the order is infinite, a token draws its
//! topic and its order n together: the weights above, with h_n for h, times p(n | h), summed over n for the topic and
//! then taken apart for n.
//!
//! Tokens are visited by word first, then by the words before it, nearest first: so the tokens of "hidden unit" come
//! together, "of hidden unit" among them, and share their [`Descent`]. A token that moves changes two topics of each
//! vector. So a token costs K multiplications, sixteen at a time, and a few steps for each level.
//!
//! At first, topics are drawn at random, whatever the word. Drawn by their weights, one token after the other, all tokens
//! of a word would follow the first one, and the sampler would take long to part them (Brown, 50 topics, SWITCHING: test
//! perplexity 220 after 30 sweeps from there, 187 from random topics).
//!
//! Where the order is infinite, tokens have `FIRST_ORDER` words of context at first. Orders drawn from the prior would be
//! mostly of no word at all, and contexts would take long to fill (Brown, 50 topics, SWITCHING: test perplexity after 10, 20 and
//! 40 sweeps 198.6, 184.5 and 180.4 from there, 184.2, 180.3 and 177.7 from here).
//!
//! In HIERARCHICAL all tables go up at first, so that it starts as HPYTM does. With labels drawn, topics at random being all
//! alike, the global model would take nearly all tables: the restaurants of shorter contexts, in which topics differ most,
//! would stay empty, blocks of tables small, and topics alike. (Brown, 50 topics: log-likelihood per token -8.53 and test
//! perplexity 202.5 after 20 sweeps of both samplers from there; -6.40 and 190.9 from tables that went up.)

use multiversion::multiversion;

use super::ascent::Ways;
use super::counts::Form;
use super::descent::Descent;
use super::documents::{Alpha, Seating, ShardTokens, accumulate};
use crate::cluster::rng::Generator;
use crate::math::draws::{unit, unit_f32};
use crate::math::lanes::{Block, blocks, find, weight_of as weight};
use crate::restaurant::chance::Chance;

/// Words of context that tokens have at first, where the order is infinite.
const FIRST_ORDER: usize = 2;

/// Buffers of a sweep.
pub struct TokenSampler {
    topics: usize,
    descent: Descent,
    running: Vec<Block<f32>>,
    /// Of the token at hand, in HIERARCHICAL.
    ways: Ways,
}

impl TokenSampler {
    pub fn new(form: Form, topics: usize, depth: usize) -> TokenSampler {
        let running = vec![Block::default(); blocks(topics)];
        let descent = Descent::new(form, topics, depth);
        TokenSampler { topics, descent, running, ways: Ways::default() }
    }

    /// Passes over a shard. `is_new`: whether its tokens have no topic yet. `changed` is shown each dish that has changed.
    pub fn sweep(
        &mut self,
        seating: &mut Seating<'_>,
        shard: &mut ShardTokens,
        alpha: &Alpha,
        is_new: bool,
        changed: &mut dyn FnMut(u32),
        rng: &mut Generator,
    ) {
        self.descent.forget();
        seating.rules.all_go_up = is_new;
        sweep_tokens(self, seating, shard, alpha, is_new, changed, rng);
        seating.rules.all_go_up = false;
    }
}

/// Compiled for several instruction sets; one is chosen per sweep, so that everything below is inlined into it.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2", "x86_64+avx2", "aarch64+neon"))]
fn sweep_tokens(
    sampler: &mut TokenSampler,
    seating: &mut Seating<'_>,
    shard: &mut ShardTokens,
    alpha: &Alpha,
    is_new: bool,
    changed: &mut dyn FnMut(u32),
    rng: &mut Generator,
) {
    sweep_leaves(sampler, seating, shard, alpha, is_new, &mut |dish| changed(dish), rng);
}

#[inline(always)]
fn sweep_leaves(
    sampler: &mut TokenSampler,
    seating: &mut Seating<'_>,
    shard: &mut ShardTokens,
    alpha: &Alpha,
    is_new: bool,
    changed: &mut impl FnMut(u32),
    chance: &mut impl Chance,
) {
    let TokenSampler { topics, descent, running, ways } = sampler;
    let Seating { tree, counts, rules } = seating;
    let ShardTokens { leaves, documents, topics: of_tokens, orders, counts: document_counts, with_topic } = shard;
    let is_switching = rules.form == Form::Switching;
    let is_hierarchical = rules.form == Form::Hierarchical;
    let is_infinite = rules.stop.is_some();
    let mut token = 0;
    for &(leaf, tokens) in leaves.iter() {
        descent.go_to(tree, leaf);
        for token in token..token + tokens as usize {
            let document = documents[token] as usize;
            let in_document = &mut document_counts[document * *topics..(document + 1) * *topics];
            let with_topic = &mut with_topic[document];
            let (mut old, mut depth) = (0, descent.path.depth());
            if !is_new {
                old = usize::from(of_tokens[token]);
                in_document[old] -= 1;
                *with_topic -= u32::from(old > 0 || !rules.form.has_global());
                if is_infinite {
                    depth = usize::from(orders[token]);
                    counts.visit(tree, descent.path.dish(depth), -1);
                }
                let touched = if is_hierarchical {
                    rules.retreat(counts, descent, old, depth, None, &mut ways.old, changed, chance);
                    ways.old.touched()
                } else {
                    rules.remove(counts, descent, old, depth, changed, chance)
                };
                descent.note(counts, rules, old, touched);
                if is_switching {
                    rules.take_back(counts, descent, old > 0, depth, chance);
                }
            }
            descent.catch_up(counts, rules);
            if is_switching {
                descent.refresh_coin(counts, rules);
            }
            if is_infinite {
                descent.refresh_orders(counts, rules);
            }
            let mut new = if is_new {
                first_topic(rules.form, *topics, chance)
            } else {
                let whole = f64::from(*with_topic) + alpha.strength;
                let (vector, global) = if is_infinite {
                    (descent.mix(), whole)
                } else {
                    // The coin's yes is the same for all topics.
                    let odds = descent.sides[0][depth] / descent.sides[1][depth];
                    (descent.vector(depth), odds * whole)
                };
                let global = is_switching.then_some(global as f32);
                let prefix = accumulate(in_document, &alpha.blocks, vector, global, running);
                let draw = |rng: &mut _| find(running, &prefix, unit_f32(rng) * prefix.total()).min(*topics - 1);
                chance.choose(*topics, |topic| f64::from(weight(running, topic)), draw)
            };
            let old_depth = depth;
            if is_infinite {
                depth = if is_new { descent.path.depth().min(FIRST_ORDER) } else { draw_order(descent, new, chance) };
            }
            let touched = if is_hierarchical {
                if is_new {
                    rules.ascend(counts, descent, new, depth, false, &mut ways.old, changed, chance);
                } else if !rules.propose(counts, descent, new, depth, false, ways, changed, chance) {
                    (new, depth) = (old, old_depth);
                }
                ways.old.touched()
            } else {
                rules.add(counts, descent, new, depth, changed, chance)
            };
            if is_switching {
                rules.throw(counts, descent, new > 0, depth, chance);
            }
            descent.note(counts, rules, new, touched);
            of_tokens[token] = new as u16;
            in_document[new] += 1;
            *with_topic += u32::from(new > 0 || !rules.form.has_global());
            if is_infinite {
                orders[token] = depth as u8;
                counts.visit(tree, descent.path.dish(depth), 1);
            }
        }
        token += tokens as usize;
    }
}

/// Any topic that a token may have: in SWITCHING, the global one for every other token.
fn first_topic(form: Form, topics: usize, chance: &mut impl Chance) -> usize {
    let first = usize::from(form.has_global());
    if form == Form::Switching && chance.is_within(0.5, 1.0) {
        return 0;
    }
    let draw = |rng: &mut _| (first + (unit(rng) * (topics - first) as f64) as usize).min(topics - 1);
    chance.choose(topics, |topic| if topic < first { 0.0 } else { 1.0 }, draw)
}

/// Draws the order of a token of `topic`.
#[inline(always)]
fn draw_order(descent: &Descent, topic: usize, chance: &mut impl Chance) -> usize {
    let weight = |depth: usize| descent.part(topic, depth) * descent.probability(topic, depth);
    let last = descent.path.depth();
    let draw = |rng: &mut _| {
        let sum: f64 = (0..=last).map(weight).sum();
        let mut lot = unit(rng) * sum;
        for depth in 0..last {
            lot -= weight(depth);
            if lot < 0.0 {
                return depth;
            }
        }
        last
    };
    chance.choose(last + 1, weight, draw)
}

#[cfg(test)]
impl TokenSampler {
    /// A sweep decided by a test.
    pub fn sweep_by(
        &mut self,
        seating: &mut Seating<'_>,
        shard: &mut ShardTokens,
        alpha: &Alpha,
        chance: &mut impl Chance,
    ) {
        self.descent.forget();
        sweep_leaves(self, seating, shard, alpha, false, &mut |_| (), chance);
    }
}
