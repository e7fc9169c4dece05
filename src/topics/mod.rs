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
//! from them: n_dk by document ([`document_counts`]), n_kw by word and n_k ([`counts`]).
//!
//! Words are partitioned and documents are shared. A token belongs to the shard of its word ([`deal`], [`dealing`]), which owns
//! its z ([`documents`]), so that n_kw is exact and is on one worker. A sweep goes through the documents in parts; a document
//! is lent to the shards that pass over it ([`shared_documents`]), which draw the topics of its tokens ([`sampler`]) and send
//! back what they changed. In between the document prior is drawn anew ([`prior`]), and the model is judged by
//! [`log_likelihood`] and by [`left_to_right`] on documents held out. [`lda`] puts this together.
//!
//! Invariants: n_kw is the number of tokens of word w with topic k, at any time, unless the word is so frequent that several
//! shards have it; the sum over topics of n_dk is the length of the document. Every draw is from a generator that is keyed;
//! all 32-bit arithmetic has a fixed order, so that no processor draws differently.
//!
//! Cost: see [`dense`] and [`sparse`] for a token, [`counts`], [`documents`] and [`document_counts`] for memory.

pub mod collection;
pub mod counts;
pub mod deal;
pub mod dealing;
pub mod dense;
pub mod description;
pub mod document_counts;
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
pub mod shared_documents;
pub mod sparse;
#[cfg(test)]
mod tests;
mod word_order;
