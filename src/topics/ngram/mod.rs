//! Topic n-gram models (Noji, Mochihashi & Miyao 2013): every topic is a hierarchical Pitman-Yor language model.
//!
//! - `seats`: customers and tables by topic, in lists of fixed room
//! - `counts`: the restaurants of all topics on one tree, and the coins of SWITCHING and HIERARCHICAL
//! - `rules`: discounts and strengths; `seating`: customers of a topic come and go; `ascent`: the same in HIERARCHICAL, with
//!   the labels of tables
//! - `descent`: the probability of a word under all topics at once
//! - `documents`: tokens with their topics; the prior over a document's topics
//! - `dealt`: tokens travel to the workers of their contexts; `shard`: the tokens of a shard, in parts; `work`: how long
//!   they take, so that all take equally long
//! - `top`: the restaurants that several shards share; `top_blocks`: blocks of their tables move
//! - `token_based`, `table_based`: the two samplers; `weights`: products of many factors, for blocks of tables;
//!   `turn`: the coins of a block that goes from or to the global topic
//! - `merge`: the seating of a checkpoint
//! - `held_out`: the probability of documents not seen; `predict`: who computes it
//! - `learn`: discounts, strengths and the prior
//! - `model`, `run`: the model of the sweep driver, and the job
//! - `kept`, `lookup`: the trained model as a file, and asked; `reading`, `stream`: documents read with it, word by word
//! - `show`, `highlight`: what it has learned, for people

pub mod ascent;
pub mod counts;
pub mod dealt;
pub mod descent;
pub mod documents;
pub mod held_out;
pub mod highlight;
pub mod kept;
mod learn;
pub mod lookup;
pub mod merge;
pub mod model;
mod predict;
pub mod reading;
pub mod rules;
pub mod run;
pub mod seating;
pub mod seats;
pub mod shard;
pub mod show;
pub mod stream;
pub mod table_based;
pub mod token_based;
pub mod top;
pub mod top_blocks;
pub mod turn;
mod weights;
pub mod work;

#[cfg(test)]
mod invariants;
#[cfg(test)]
mod tests;
