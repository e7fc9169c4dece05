//! Dataflows that jobs are built of, one per file.

pub mod deal;
pub mod tally;
