//! The dense kernel: all K weights of every token, document by document.
//!
//! With a_k = (n_dk + alpha_k) / (n_k + V beta), kept up to date through a document, the weights of a word's topics are
//! a_k (n_kw + beta): one conversion, addition and multiplication per topic, in blocks of 16 ([`crate::math::lanes`]).
//! Time O(K / 16) per token with wide registers; memory O(K).

use multiversion::multiversion;

use super::counts::TopicCounts;
use super::prior::Prior;
use super::sampler::{Factors, Pass};
use crate::cluster::rng::Generator;
use crate::cluster::rows::{Rows, entries};
use crate::math::draws::unit_f32;
use crate::math::lanes::{Block, LANES, Prefix, blocks, find};

/// The dense kernel's buffers.
#[derive(Default)]
pub struct DenseKernel {
    factors: Factors,
    document: DocumentWeights,
    running: Vec<Block<f32>>,
}

/// n_dk of the document at hand, before the pass and now, and a_k; in blocks, 0 behind the last topic.
#[derive(Default)]
struct DocumentWeights {
    before: Vec<Block<i32>>,
    counts: Vec<Block<i32>>,
    weights: Vec<Block<f32>>,
}

impl DenseKernel {
    pub fn sweep(&mut self, pass: &mut Pass<'_>, prior: &Prior, rng: &mut Generator) {
        self.load(pass.counts, prior);
        sweep_documents(self, pass, rng);
    }

    /// The same with the instructions that every processor of this kind has.
    #[cfg(test)]
    pub fn sweep_plainly(&mut self, pass: &mut Pass<'_>, prior: &Prior, rng: &mut Generator) {
        self.load(pass.counts, prior);
        sweep_here(self, pass, rng);
    }

    fn load(&mut self, counts: &TopicCounts, prior: &Prior) {
        self.factors.load(counts.totals(), prior);
        self.factors.pad(LANES);
        let blocks = blocks(prior.topics());
        self.running.resize(blocks, Block::default());
        self.document.before.resize(blocks, Block::default());
        self.document.counts.resize(blocks, Block::default());
        self.document.weights.resize(blocks, Block::default());
    }
}

/// Compiled for several instruction sets; one is chosen per sweep, so that everything below is inlined into it.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2", "x86_64+avx2", "aarch64+neon"))]
fn sweep_documents(kernel: &mut DenseKernel, pass: &mut Pass<'_>, rng: &mut Generator) {
    sweep_here(kernel, pass, rng);
}

#[inline(always)]
fn sweep_here(kernel: &mut DenseKernel, pass: &mut Pass<'_>, rng: &mut Generator) {
    let DenseKernel { factors, document, running } = kernel;
    let Pass { counts, documents, part, base, changes } = pass;
    for d in documents.part(*part) {
        let number = documents.number(d);
        let (words, topics) = documents.document_mut(d);
        document.load(base.list(number), factors);
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
        document.note(number, changes);
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
    fn load(&mut self, list: &[u32], factors: &Factors) {
        self.before.fill(Block::default());
        entries(list).for_each(|(topic, count)| self.before[topic / LANES].0[topic % LANES] += count);
        self.counts.copy_from_slice(&self.before);
        let (alpha, inverse) = (factors.alpha.as_chunks::<LANES>().0, factors.inverse.as_chunks::<LANES>().0);
        for (block, weights) in self.weights.iter_mut().enumerate() {
            for lane in 0..LANES {
                weights.0[lane] = (self.counts[block].0[lane] as f32 + alpha[block][lane]) * inverse[block][lane];
            }
        }
    }

    /// One token more or less of a topic, whose total is now this.
    #[inline(always)]
    fn change(&mut self, topic: usize, by: i32, total: i64, factors: &mut Factors) {
        let count = &mut self.counts[topic / LANES].0[topic % LANES];
        *count += by;
        let inverse = factors.set_total(topic, total);
        let weight = (*count as f32 + factors.alpha[topic]) * inverse;
        self.weights[topic / LANES].0[topic % LANES] = weight;
    }

    /// Notes what has changed since [`DocumentWeights::load`].
    #[inline(always)]
    fn note(&self, number: u32, changes: &mut Rows) {
        changes.begin_row(number);
        for (block, (before, counts)) in self.before.iter().zip(&self.counts).enumerate() {
            if before != counts {
                for lane in 0..LANES {
                    changes.push(block * LANES + lane, counts.0[lane] - before.0[lane]);
                }
            }
        }
        changes.end_row();
    }
}
