//! Documents as the samplers see them: the tokens of a shard with their topics, and the prior over a document's topics.

use crate::math::lanes::{Block, LANES, Prefix, blocks};

use super::counts::{Counts, Form};
use super::rules::Rules;
use crate::restaurant::tree::Tree;

/// The tokens of a shard, in the order in which they are visited.
#[derive(Clone, Debug, Default)]
pub struct ShardTokens {
    /// Distinct n-grams as dishes of whole contexts, and how many tokens each is.
    pub leaves: Vec<(u32, u32)>,
    /// The document of each token, counted from 0 in the shard, and its topic.
    pub documents: Vec<u32>,
    pub topics: Vec<u16>,
    /// The context length of each token; empty where all have their whole context.
    pub orders: Vec<u8>,
    /// n_jk, document by document.
    pub counts: Vec<u32>,
    /// n_j by document: tokens with a topic of its own, not the global one.
    pub with_topic: Vec<u32>,
}

#[cfg(test)]
impl ShardTokens {
    /// Counts the topics of documents from those of tokens.
    pub fn recount(&mut self, topics: usize, form: Form) {
        self.counts.fill(0);
        self.with_topic.fill(0);
        for (&document, &topic) in self.documents.iter().zip(&self.topics) {
            self.counts[document as usize * topics + usize::from(topic)] += 1;
            self.with_topic[document as usize] += u32::from(topic > 0 || !form.has_global());
        }
    }
}

/// What a sweep changes, and by which rules.
pub struct Seating<'a> {
    pub tree: &'a Tree,
    pub counts: &'a mut Counts,
    pub rules: &'a mut Rules,
}

/// The prior over a document's topics, by topic; 0 for a global one.
#[derive(Clone, Debug, Default)]
pub struct Alpha {
    pub blocks: Vec<Block<f32>>,
    /// The sum of all.
    pub strength: f64,
}

impl Alpha {
    /// `alpha` has the topics of documents, without a global one.
    pub fn new(alpha: &[f64], form: Form) -> Alpha {
        let first = usize::from(form.has_global());
        let mut of_topics = vec![Block::default(); blocks(alpha.len() + first)];
        for (topic, &alpha) in (first..).zip(alpha) {
            of_topics[topic / LANES].0[topic % LANES] = alpha as f32;
        }
        Alpha { blocks: of_topics, strength: alpha.iter().sum() }
    }
}

/// Running sums of the weights of all topics: (n_jk + alpha_k) p_k, but `global` p_0 for topic 0 where that is a choice.
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

/// Adds (n_jk + alpha_k) p_k of a block of topics.
#[inline(always)]
fn add_weights(sums: &mut Block<f32>, counts: &[u32], alpha: &Block<f32>, vector: &Block<f32>) {
    for (lane, &count) in counts.iter().enumerate() {
        sums.0[lane] += (count as f32 + alpha.0[lane]) * vector.0[lane];
    }
}
