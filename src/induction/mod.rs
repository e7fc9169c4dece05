//! The induction job: dependency grammars from tagged sentences alone (Headden, Johnson & McClosky 2009).
//!
//! - [`shape`]: the models, DMV, EVG and L-EVG, with or without smoothing, as lists of distributions
//! - `forest`: which trees a sentence may have: bounded memory, function words without dependents
//! - `rules`: from expected uses to counts of rules and weights of trees: variational Bayes and EM
//! - `sentences`, `pass`: sentences as symbols; expectations of several grammars at once, on [`crate::chart`]
//! - `chain`, `queue`: one start and its iterations; the order of restarts, pruning and convergence
//! - `trainer`, `board`: the two models of the sweep driver: workers divide restarts, or sentences, of which they take each
//!   other's
//! - `grammar`, `evaluate`: parsing, most probable trees or those of minimum risk; how good they are
//! - `job`, `corpus`, `lexicon`, `setup`: the job file, and what is read
//! - `model`, `show`, `text`: what is kept; what it has learned; sentences to be parsed with it
//! - `run`, `report`: running the job, and what it leaves

pub mod board;
pub mod chain;
pub mod corpus;
pub mod evaluate;
pub mod forest;
pub mod grammar;
pub mod job;
pub mod lexicon;
pub mod model;
pub mod pass;
pub mod queue;
pub mod report;
pub mod rules;
pub mod run;
pub mod sentences;
pub mod setup;
pub mod shape;
pub mod show;
pub mod text;
pub mod trainer;

#[cfg(test)]
mod tests;
