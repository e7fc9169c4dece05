//! The dense kernel: all K weights of every token, document by document.
//!
//! With a_k = (n_dk + alpha_k) / (n_k + V beta), kept up to date through a document, the weights of a word's topics are
//! a_k (n_kw + beta): one conversion, addition and multiplication per topic, in blocks of 16 ([`crate::math::lanes`]).
//! Time O(K / 16) per token with wide registers; memory O(K).

use multiversion::multiversion;

use super::counts::TopicCounts;
use super::documents::ShardDocuments;
use super::prior::Prior;
use super::sampler::Factors;
use crate::cluster::rng::Generator;
use crate::math::draws::unit_f32;
use crate::math::lanes::{Block, LANES, Prefix, blocks, find};

/// The dense kernel's buffers.
#[derive(Default)]
pub struct DenseKernel {
    factors: Factors,
    document: DocumentWeights,
    running: Vec<Block<f32>>,
}

/// n_dk of the document at hand, and a_k in blocks, 0 behind the last topic.
#[derive(Default)]
struct DocumentWeights {
    counts: Vec<i32>,
    weights: Vec<Block<f32>>,
}

impl DenseKernel {
    pub fn sweep(
        &mut self,
        counts: &mut TopicCounts,
        documents: &mut ShardDocuments,
        prior: &Prior,
        rng: &mut Generator,
    ) {
        self.load(counts, prior);
        sweep_documents(self, counts, documents, rng);
    }

    /// The same with the instructions that every processor of this kind has.
    #[cfg(test)]
    pub fn sweep_plainly(
        &mut self,
        counts: &mut TopicCounts,
        documents: &mut ShardDocuments,
        prior: &Prior,
        rng: &mut Generator,
    ) {
        self.load(counts, prior);
        sweep_here(self, counts, documents, rng);
    }

    fn load(&mut self, counts: &TopicCounts, prior: &Prior) {
        self.factors.load(counts.totals(), prior);
        self.running.resize(blocks(prior.topics()), Block::default());
    }
}

/// Compiled for several instruction sets; one is chosen per sweep, so that everything below is inlined into it.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2", "x86_64+avx2", "aarch64+neon"))]
fn sweep_documents(
    kernel: &mut DenseKernel,
    counts: &mut TopicCounts,
    documents: &mut ShardDocuments,
    rng: &mut Generator,
) {
    sweep_here(kernel, counts, documents, rng);
}

#[inline(always)]
fn sweep_here(kernel: &mut DenseKernel, counts: &mut TopicCounts, documents: &mut ShardDocuments, rng: &mut Generator) {
    let DenseKernel { factors, document, running } = kernel;
    for d in 0..documents.len() {
        let (words, topics) = documents.document_mut(d);
        document.load(topics, factors);
        for (&word, topic) in words.iter().zip(topics) {
            let old = *topic as usize;
            let (_, old_total) = counts.remove(word, *topic);
            document.change(old, -1, old_total, factors);
            let prefix = accumulate(&document.weights, counts.row(word), factors.beta, running);
            let new = find(running, &prefix, unit_f32(rng) * prefix.total());
            *topic = new as u16;
            let (_, new_total) = counts.add(word, *topic);
            document.change(new, 1, new_total, factors);
        }
    }
}

/// The running sums of weight x (count + beta), block by block, and those over the lanes of the last.
#[inline(always)]
pub(super) fn accumulate(
    weights: &[Block<f32>],
    counts: &[Block<i32>],
    beta: f32,
    running: &mut [Block<f32>],
) -> Prefix {
    let mut sums = Block([0.0; LANES]);
    let length = running.len();
    let (weights, counts) = (&weights[..length], &counts[..length]);
    for block in 0..length {
        for lane in 0..LANES {
            sums.0[lane] += weights[block].0[lane] * (counts[block].0[lane] as f32 + beta);
        }
        running[block] = sums;
    }
    // Without this the compiler shuffles the lanes in the loop to suit the sums across lanes that follow it, and the loop
    // takes four times as long.
    Prefix::new(&std::hint::black_box(sums))
}

impl DocumentWeights {
    #[inline(always)]
    fn load(&mut self, topics: &[u16], factors: &Factors) {
        self.counts.clear();
        self.counts.resize(factors.alpha.len(), 0);
        topics.iter().for_each(|&topic| self.counts[topic as usize] += 1);
        self.weights.clear();
        self.weights.resize(blocks(self.counts.len()), Block::default());
        for topic in 0..self.counts.len() {
            self.set(topic, factors.inverse[topic], factors);
        }
    }

    /// One token more or less of a topic, whose total is now this.
    #[inline(always)]
    fn change(&mut self, topic: usize, by: i32, total: i64, factors: &mut Factors) {
        self.counts[topic] += by;
        let inverse = factors.set_total(topic, total);
        self.set(topic, inverse, factors);
    }

    #[inline(always)]
    fn set(&mut self, topic: usize, inverse: f32, factors: &Factors) {
        let weight = (self.counts[topic] as f32 + factors.alpha[topic]) * inverse;
        self.weights[topic / LANES].0[topic % LANES] = weight;
    }
}
