//! Topic n-gram models (Noji, Mochihashi & Miyao 2013): every topic is a hierarchical Pitman-Yor language model.
//!
//! - `seats`: customers and tables by topic, in lists of fixed room
//! - `counts`: the restaurants of all topics on one tree, and the coins of the SWITCHING model
//! - `sampler`: the token-based sampler
//! - `merge`: seatings of several shards, brought together
//! - `held_out`: the probability of documents not seen
//! - `model`, `run`: the model of the sweep driver, and the job

pub mod counts;
pub mod held_out;
pub mod merge;
pub mod model;
pub mod run;
pub mod sampler;
pub mod seats;

#[cfg(test)]
mod tests;
