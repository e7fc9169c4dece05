//! The language-model job: hierarchical Pitman-Yor language models (Teh 2006) of fixed and infinite order.
//!
//! - `job`, `run`, `report`: the job file, running it, and what it leaves
//! - `text`: sentences on their way to shards, as word numbers with those before them
//! - `hpylm`: the model of the sweep driver
//! - `model`: a model as it is kept and asked; `index`: the same laid out for scoring text
//! - `perplexity`, `arpa`, `generate`: what is done with a model

pub mod arpa;
pub mod generate;
pub mod history;
pub mod hpylm;
pub mod index;
pub mod job;
pub mod model;
pub mod perplexity;
pub mod report;
pub mod run;
pub mod text;

#[cfg(test)]
mod tests;
