//! Topic n-gram models (Noji, Mochihashi & Miyao 2013): every topic is a hierarchical Pitman-Yor language model.
//!
//! - `seats`: customers and tables by topic, in lists of fixed room
//! - `counts`: the restaurants of all topics on one tree, and the coins of the SWITCHING model
//! - `sampler`: the token-based sampler

pub mod counts;
pub mod sampler;
pub mod seats;

#[cfg(test)]
mod tests;
