//! A sweep of collapsed Gibbs sampling: every token's topic is drawn anew, given those of all others.
//!
//! ```text
//! p(z = k | all others) ∝ (n_dk + alpha_k) (n_kw + beta) / (n_k + V beta)            (Griffiths & Steyvers 2004, eq. 5)
//! ```
//!
//! with the token itself taken out of the counts. Two kernels draw from exactly this distribution, and differ in what
//! they cost: [`super::dense`] computes all K weights, 16 at a time, token by token through the documents;
//! [`super::sparse`] goes word by word and computes as many weights as the document has topics. Neither proposes and
//! rejects: a stale alias table with a Metropolis-Hastings correction (Li et al. 2014) was not used, since a table that
//! is built from the chain's own past leaves the posterior only approximately invariant.
//!
//! A pass is over one part of a shard's documents. It starts from the counts, the documents and the generator, and nothing
//! else survives it: its result is a function of these alone. Buffers are kept for their memory only.

use super::counts::TopicCounts;
use super::dense::DenseKernel;
use super::document_counts::DocumentCounts;
use super::documents::ShardDocuments;
use super::prior::Prior;
use super::sparse::SparseKernel;
use crate::cluster::rng::Generator;
use crate::cluster::rows::Rows;

/// From this number of topics on, the sparse kernel is taken. Measured on the Brown corpus (500 documents of 2,300 tokens,
/// AVX2, 40 sweeps with a learned prior; million tokens per second, dense and sparse): K = 500 4.7 and 3.7, 1000 3.5 and
/// 3.3, 2000 2.0 and 2.8. Shorter documents do not move it much.
const SPARSE_FROM: usize = 1200;

/// How the weights of a token's topics are computed. Both draw from the same distribution, but not the same values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    Dense,
    Sparse,
}

impl Kernel {
    /// The faster kernel for this many topics.
    pub fn for_topics(topics: usize) -> Kernel {
        if topics < SPARSE_FROM { Kernel::Dense } else { Kernel::Sparse }
    }
}

/// What a pass works on.
pub struct Pass<'a> {
    /// n_kw of the shard's words, with all of their tokens, and n_k.
    pub counts: &'a mut TopicCounts,
    pub documents: &'a mut ShardDocuments,
    pub part: usize,
    /// n_dk, with the tokens of all shards.
    pub base: Lists<'a>,
    /// How the pass has changed n_dk: a row for each document.
    pub changes: &'a mut Rows,
}

/// Lists of topics by document: those of documents that this worker keeps, and those that were lent to it.
#[derive(Clone, Copy)]
pub struct Lists<'a> {
    pub kept: &'a DocumentCounts,
    /// Packed rows.
    pub lent: &'a [u32],
    /// Of each document: [`KEPT`] and where it is among the kept ones, or where its row begins.
    pub places: &'a [u32],
}

/// Marks the place of a document that is kept.
pub const KEPT: u32 = 1 << 31;

impl<'a> Lists<'a> {
    /// The packed list of a document.
    #[inline]
    pub fn list(&self, document: u32) -> &'a [u32] {
        let place = self.places[document as usize];
        match place & KEPT {
            0 => {
                let length = self.lent[place as usize + 1]; // after the document's number
                &self.lent[place as usize + 2..][..length as usize]
            }
            _ => self.kept.list((place ^ KEPT) as usize),
        }
    }
}

/// A kernel with its buffers; one per worker is enough.
pub enum Sampler {
    Dense(DenseKernel),
    Sparse(SparseKernel),
}

impl Sampler {
    /// A sampler with the faster kernel.
    pub fn new(topics: usize) -> Sampler {
        Sampler::with_kernel(Kernel::for_topics(topics))
    }

    pub fn with_kernel(kernel: Kernel) -> Sampler {
        match kernel {
            Kernel::Dense => Sampler::Dense(DenseKernel::default()),
            Kernel::Sparse => Sampler::Sparse(SparseKernel::default()),
        }
    }

    /// Draws the topic of every token of a part in turn. Counts hold all tokens before, and do so afterwards.
    pub fn sweep(&mut self, pass: &mut Pass<'_>, prior: &Prior, rng: &mut Generator) {
        assert_eq!(pass.counts.topics(), prior.topics(), "counts and prior of the same topics");
        match self {
            Sampler::Dense(kernel) => kernel.sweep(pass, prior, rng),
            Sampler::Sparse(kernel) => kernel.sweep(pass, prior, rng),
        }
    }
}

/// What both kernels keep of prior and totals, in 32 bits: alpha_k, beta, and 1 / (n_k + V beta).
#[derive(Default)]
pub(super) struct Factors {
    pub alpha: Vec<f32>,
    pub beta: f32,
    pub inverse: Vec<f32>,
    vocabulary_mass: f32,
}

impl Factors {
    /// Reads them from `totals` and `prior`.
    pub fn load(&mut self, totals: &[i64], prior: &Prior) {
        self.alpha.clear();
        self.alpha.extend(prior.alpha().iter().map(|&alpha| alpha as f32));
        self.beta = prior.beta() as f32;
        self.vocabulary_mass = prior.vocabulary_mass() as f32;
        self.inverse.clear();
        self.inverse.extend(totals.iter().map(|&total| inverse(total, self.vocabulary_mass)));
    }

    /// Adds topics of weight 0 up to a multiple of `length`.
    pub fn pad(&mut self, length: usize) {
        let length = self.alpha.len().next_multiple_of(length);
        self.alpha.resize(length, 0.0);
        self.inverse.resize(length, 0.0);
    }

    /// Takes note of a new total.
    #[inline(always)]
    pub fn set_total(&mut self, topic: usize, total: i64) -> f32 {
        let value = inverse(total, self.vocabulary_mass);
        self.inverse[topic] = value;
        value
    }
}

#[inline(always)]
fn inverse(total: i64, vocabulary_mass: f32) -> f32 {
    1.0 / (total as f32 + vocabulary_mass)
}
