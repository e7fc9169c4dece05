//! The language-model job: HPYLM of fixed and infinite order.
pub mod hpylm;
pub mod job;
pub mod model;
pub mod report;
pub mod run;
pub mod text;
