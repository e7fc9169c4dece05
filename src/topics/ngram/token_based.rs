//! The token-based sampler (Noji et al. 2013, section 4.1): every token in turn draws a new topic.
//!
//! ```text
//! p(z = k) ~ (n_jk + alpha_k) p_k(w | h)                                   HPYTM, HIERARCHICAL (eq. 6)
//! p(z = 0) ~ p(l = 0 | h) p_0(w | h)
//! p(z = k) ~ p(l = 1 | h) (n_jk + alpha_k) / (n_j + A) p_k(w | h)           SWITCHING (eq. 9)
//! ```
//!
//! where j is the token's document, and n_j counts its tokens with a topic. Where the order is infinite, a token draws its
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

use super::counts::Form;
use super::descent::Descent;
use super::documents::{Alpha, Seating, ShardTokens, accumulate};
use crate::cluster::rng::Generator;
use crate::math::draws::{unit, unit_f32};
use crate::math::lanes::{Block, blocks, find};

/// Words of context that tokens have at first, where the order is infinite.
const FIRST_ORDER: usize = 2;

/// Buffers of a sweep.
pub struct TokenSampler {
    topics: usize,
    descent: Descent,
    running: Vec<Block<f32>>,
}

impl TokenSampler {
    pub fn new(form: Form, topics: usize, depth: usize) -> TokenSampler {
        let running = vec![Block::default(); blocks(topics)];
        TokenSampler { topics, descent: Descent::new(form, topics, depth), running }
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
    let TokenSampler { topics, descent, running } = sampler;
    let Seating { tree, counts, rules } = seating;
    let ShardTokens { leaves, documents, topics: of_tokens, orders, counts: document_counts, with_topic } = shard;
    let mut changed = |dish| changed(dish);
    let is_switching = rules.form == Form::Switching;
    let is_infinite = rules.stop.is_some();
    let mut token = 0;
    for &(leaf, tokens) in leaves.iter() {
        descent.go_to(tree, leaf);
        for token in token..token + tokens as usize {
            let document = documents[token] as usize;
            let in_document = &mut document_counts[document * *topics..(document + 1) * *topics];
            let with_topic = &mut with_topic[document];
            let mut depth = descent.path.depth();
            if !is_new {
                let old = usize::from(of_tokens[token]);
                in_document[old] -= 1;
                *with_topic -= u32::from(old > 0 || !rules.form.has_global());
                if is_infinite {
                    depth = usize::from(orders[token]);
                    counts.visit(tree, descent.path.dish(depth), -1);
                }
                let touched = rules.remove(counts, descent, old, depth, &mut changed, rng);
                descent.note(counts, rules, old, touched);
                if is_switching {
                    rules.take_back(counts, descent, old > 0, depth, rng);
                }
            }
            descent.catch_up(counts, rules);
            if is_switching {
                descent.refresh_coin(counts, rules);
            }
            if is_infinite {
                descent.refresh_orders(counts, rules);
            }
            let new = if is_new {
                first_topic(rules.form, *topics, rng)
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
                find(running, &prefix, unit_f32(rng) * prefix.total()).min(*topics - 1)
            };
            of_tokens[token] = new as u16;
            in_document[new] += 1;
            *with_topic += u32::from(new > 0 || !rules.form.has_global());
            if is_infinite {
                depth = if is_new { descent.path.depth().min(FIRST_ORDER) } else { draw_order(descent, new, rng) };
                orders[token] = depth as u8;
                counts.visit(tree, descent.path.dish(depth), 1);
            }
            let touched = rules.add(counts, descent, new, depth, &mut changed, rng);
            if is_switching {
                rules.throw(counts, descent, new > 0, depth, rng);
            }
            descent.note(counts, rules, new, touched);
        }
        token += tokens as usize;
    }
}

/// Any topic that a token may have: in SWITCHING, the global one for every other token.
fn first_topic(form: Form, topics: usize, rng: &mut Generator) -> usize {
    let first = usize::from(form.has_global());
    if form == Form::Switching && unit(rng) < 0.5 {
        return 0;
    }
    (first + (unit(rng) * (topics - first) as f64) as usize).min(topics - 1)
}

/// Draws the order of a token of `topic`.
#[inline(always)]
fn draw_order(descent: &Descent, topic: usize, rng: &mut Generator) -> usize {
    let weight = |depth: usize| descent.part(topic, depth) * descent.probability(topic, depth);
    let last = descent.path.depth();
    let sum: f64 = (0..=last).map(weight).sum();
    let mut lot = unit(rng) * sum;
    for depth in 0..last {
        lot -= weight(depth);
        if lot < 0.0 {
            return depth;
        }
    }
    last
}
