//! Dataflows that jobs are built of, one per file.

pub mod all_gather;
pub mod block;
pub mod deal;
pub mod merge_rows;
pub mod route;
pub mod tally;
