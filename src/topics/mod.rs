//! Latent Dirichlet allocation (Blei, Ng & Jordan 2003), by collapsed Gibbs sampling on shards.
//!
//! ```text
//! phi_k ~ Dirichlet(beta) over the V words, for each topic k = 1 .. K
//! for each document d:
//!     theta_d ~ Dirichlet(alpha)
//!     for each token i:    z_i ~ theta_d,    w_i ~ phi_{z_i}
//! ```
//!
//! phi and theta are integrated out. What is left are the topics z of all tokens and three tables of counts that follow
//! from them: n_dk by document ([`documents`], which own z), n_kw by word and n_k ([`counts`]).
//!
//! A round on a worker with several shards, each against the counts of the last synchronisation (AD-LDA, Newman et al.
//! 2009): sweep a shard ([`sampler`]), take its [`delta`], roll it back, go on to the next; then apply the merged delta
//! of all shards. In between the document prior is drawn anew ([`prior`]), and the model is judged by
//! [`log_likelihood`] and by [`left_to_right`] on documents held out.
//!
//! Invariants: n_kw is the number of tokens of word w with topic k in all shards, as of the last synchronisation, and
//! own changes live; the sum over topics of n_dk is the length of the document. Every draw is from a generator that the
//! caller keys; all 32-bit arithmetic has a fixed order, so that no processor draws differently.
//!
//! Cost: see [`dense`] and [`sparse`] for a token, [`counts`] and [`documents`] for memory.

pub mod collection;
pub mod counts;
pub mod delta;
pub mod dense;
pub mod description;
mod document_topics;
pub mod documents;
mod documents_report;
mod held_out_file;
pub mod import;
pub mod job;
pub mod lda;
pub mod left_to_right;
pub mod log_likelihood;
pub mod model;
pub mod ngram;
pub mod perplexity;
pub mod prior;
pub mod report;
pub mod rescaling;
pub mod run;
pub mod sampler;
pub mod sparse;
#[cfg(test)]
mod tests;
mod word_order;
