//! The language-model job: HPYLM of fixed and infinite order.
//!
//! - `arpa`: a model as an ARPA file
//! - `generate`: sentences drawn from a model
//! - `history`: the words before the next one
//! - `hpylm`: the model as it is trained
//! - `index`: a model laid out for reading text fast
//! - `job`: its job file
//! - `model`: what was learned, to be kept and asked
//! - `perplexity`: how well a model predicts sentences
//! - `report`, `run`: a job from its text to its report
//! - `text`: files -> sentences -> tokens -> shards

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
