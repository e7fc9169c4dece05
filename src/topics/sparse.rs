//! The sparse kernel: word by word, as many weights as the document has topics.
//!
//! The weights of a token's topics fall into two parts (as in F+LDA, Yu et al. 2015):
//!
//! ```text
//! (n_dk + alpha_k) c_k  =  n_dk c_k  +  alpha_k c_k,      c_k = (n_kw + beta) / (n_k + V beta)
//! ```
//!
//! All tokens of a word are visited in one go, so that c_k stays in the nearest cache and only the entries of the two
//! topics that a token leaves and takes change. The first part needs the topics of the document only, which are kept as
//! a list; the sum of the second is kept up to date per 64 topics, and its topics are looked at only when the draw
//! falls there. Both parts are exact: nothing is proposed and rejected. From a random start, this order of tokens needs a
//! few sweeps more than that of the dense kernel to reach the same likelihood; the distribution is the same.
//!
//! Time per token O(topics of the document) + O(K / 64 + 64) with the probability of the second part; O(K / 16) once
//! per word. Memory O(tokens): 6 bytes per (document, topic) that may occur, and O(K).

use multiversion::multiversion;

use super::document_topics::DocumentTopics;
use super::prior::Prior;
use super::sampler::{Factors, Pass};
use crate::cluster::rng::Generator;
use crate::math::draws::unit;
use crate::math::lanes::{Block, LANES, Prefix, find, total};

/// Topics per partial sum of the second part.
const GROUP: usize = 64;

/// The sparse kernel's buffers.
#[derive(Default)]
pub struct SparseKernel {
    factors: Factors,
    documents: DocumentTopics,
    word: WordWeights,
    running: Vec<Block<f32>>,
    /// See [`DocumentTopics::note`].
    by: Vec<i32>,
    touched: Vec<u16>,
}

/// c_k of the word at hand, and sums of alpha_k c_k.
#[derive(Default)]
struct WordWeights {
    /// As long as there are 16-bit numbers, so that a topic is always a valid index; 0 behind the last topic.
    factor: Option<Box<[f32; 1 << 16]>>,
    groups: Vec<f64>,
    total: f64,
}

impl SparseKernel {
    pub fn sweep(&mut self, pass: &mut Pass<'_>, prior: &Prior, rng: &mut Generator) {
        self.load(pass, prior);
        sweep_words(self, pass, rng);
        self.note(pass);
    }

    /// The same with the instructions that every processor of this kind has.
    #[cfg(test)]
    pub fn sweep_plainly(&mut self, pass: &mut Pass<'_>, prior: &Prior, rng: &mut Generator) {
        self.load(pass, prior);
        sweep_here(self, pass, rng);
        self.note(pass);
    }

    fn load(&mut self, pass: &mut Pass<'_>, prior: &Prior) {
        self.factors.load(pass.counts.totals(), prior);
        self.factors.pad(GROUP);
        let longest = self.documents.load(pass, prior.topics());
        self.running.resize(longest, Block::default());
        self.by.resize(prior.topics(), 0);
        pass.documents.prepare_order(pass.part);
    }

    fn note(&mut self, pass: &mut Pass<'_>) {
        for (place, document) in pass.documents.part(pass.part).enumerate() {
            let number = pass.documents.number(document);
            pass.changes.begin_row(number);
            self.documents.note(place, pass.base.list(number), &mut self.by, &mut self.touched, pass.changes);
            pass.changes.end_row();
        }
    }
}

/// Compiled for several instruction sets; one is chosen per sweep, so that everything below is inlined into it.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2", "x86_64+avx2", "aarch64+neon"))]
fn sweep_words(kernel: &mut SparseKernel, pass: &mut Pass<'_>, rng: &mut Generator) {
    sweep_here(kernel, pass, rng);
}

#[inline(always)]
fn sweep_here(kernel: &mut SparseKernel, pass: &mut Pass<'_>, rng: &mut Generator) {
    let SparseKernel { factors, documents: document_topics, word, running, .. } = kernel;
    let Pass { counts, documents, part, .. } = pass;
    let (order, topics) = documents.by_word(*part);
    for i in 0..order.len() {
        let (row, occurrences) = order.word(i);
        word.load(counts.row(row), factors);
        for occurrence in occurrences {
            let topic = &mut topics[occurrence.position as usize];
            let document = occurrence.document as usize;
            let (count, total) = counts.remove(row, *topic);
            word.change(*topic, count, total, factors);
            document_topics.remove(document, *topic);
            *topic = draw(word, document_topics, document, factors, running, rng);
            let (count, total) = counts.add(row, *topic);
            word.change(*topic, count, total, factors);
        }
    }
}

/// Draws a topic for a token and adds it to the document's.
#[inline(always)]
fn draw(
    word: &WordWeights,
    documents: &mut DocumentTopics,
    document: usize,
    factors: &Factors,
    running: &mut [Block<f32>],
    rng: &mut Generator,
) -> u16 {
    let (topics, counts) = documents.blocks(document);
    let running = &mut running[..topics.len()];
    let prefix = accumulate(topics, counts, word.factor(), running);
    let own = f64::from(prefix.total());
    let target = unit(rng) * (own + word.total);
    if target < own {
        let slot = find(running, &prefix, target as f32);
        documents.increment(document, slot)
    } else {
        let topic = word.find(target - own, &factors.alpha);
        documents.add(document, topic);
        topic
    }
}

/// The running sums of n_dk c_k over a document's topics, and those over the lanes of the last.
#[inline(always)]
fn accumulate(
    topics: &[Block<u16>],
    counts: &[Block<f32>],
    factor: &[f32; 1 << 16],
    running: &mut [Block<f32>],
) -> Prefix {
    let mut sums = Block([0.0; LANES]);
    let length = running.len();
    let (topics, counts) = (&topics[..length], &counts[..length]);
    for block in 0..length {
        for lane in 0..LANES {
            sums.0[lane] += counts[block].0[lane] * factor[topics[block].0[lane] as usize];
        }
        running[block] = sums;
    }
    // See the dense kernel.
    Prefix::new(&std::hint::black_box(sums))
}

impl WordWeights {
    #[inline(always)]
    fn factor(&self) -> &[f32; 1 << 16] {
        self.factor.as_ref().expect("a word was loaded")
    }

    /// Computes c_k of a word from its counts, and the sums.
    #[inline(always)]
    fn load(&mut self, counts: &[Block<i32>], factors: &Factors) {
        let factor = self.factor.get_or_insert_with(|| vec![0.0; 1 << 16].try_into().expect("that length"));
        self.groups.clear();
        for (group, counts) in counts.chunks(GROUP / LANES).enumerate() {
            let mut sums = Block([0.0; LANES]);
            for (block, counts) in counts.iter().enumerate() {
                let start = group * GROUP + block * LANES;
                let (inverse, alpha) = (&factors.inverse[start..][..LANES], &factors.alpha[start..][..LANES]);
                let factor = &mut factor[start..start + LANES];
                for lane in 0..LANES {
                    factor[lane] = (counts.0[lane] as f32 + factors.beta) * inverse[lane];
                    sums.0[lane] += alpha[lane] * factor[lane];
                }
            }
            self.groups.push(f64::from(total(&sums)));
        }
        self.total = self.groups.iter().sum();
    }

    /// The counts of a topic are now these.
    #[inline(always)]
    fn change(&mut self, topic: u16, count: i32, total: i64, factors: &mut Factors) {
        let inverse = factors.set_total(topic as usize, total);
        let factor = &mut self.factor.as_mut().expect("a word was loaded")[topic as usize];
        let before = *factor;
        *factor = (count as f32 + factors.beta) * inverse;
        // In 64 bits the sums keep their digits through all tokens of a word.
        let by = f64::from(factors.alpha[topic as usize]) * (f64::from(*factor) - f64::from(before));
        self.groups[topic as usize / GROUP] += by;
        self.total += by;
    }

    /// The topic at `target` among those with weights alpha_k c_k.
    #[inline(always)]
    fn find(&self, mut target: f64, alpha: &[f32]) -> u16 {
        let mut group = 0;
        while group + 1 < self.groups.len() && target >= self.groups[group] {
            target -= self.groups[group];
            group += 1;
        }
        let range = group * GROUP..(group + 1) * GROUP;
        let (alpha, factor) = (&alpha[range.clone()], &self.factor()[range]);
        let mut running = [Block([0.0; LANES]); GROUP / LANES];
        let mut sums = Block([0.0; LANES]);
        for (block, running) in running.iter_mut().enumerate() {
            for lane in 0..LANES {
                sums.0[lane] += alpha[block * LANES + lane] * factor[block * LANES + lane];
            }
            *running = sums;
        }
        let topic = find(&running, &Prefix::new(&std::hint::black_box(sums)), target as f32);
        (group * GROUP + topic) as u16
    }
}
