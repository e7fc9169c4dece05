//! sawmill: a distributed batch pipeline for Bayesian NLP.

pub mod cli;
pub mod cluster;
pub mod corpus;
pub mod error;
pub mod job;
pub mod oracle;
pub mod progress;
pub mod report;
pub mod transition;
