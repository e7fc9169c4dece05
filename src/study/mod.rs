//! Studies: one job in several variants, run one after the other on all workers, and reported side by side.
//!
//! ```text
//! base job  x  [[variants]]  x  [grid]   ->   variants, each an ordinary job with a run folder of its own
//!                                        ->   one figure and one table of what they came to
//! ```
//!
//! A study knows nothing of the kinds of jobs that it runs: a variant is a set of changes to a job file, its result is
//! what its `report/summary.json` and `metrics.jsonl` say. Every process of a job goes through the same list in the same
//! order, and the processes connect anew for each variant. What is finished stays finished: a study that is run again passes over it and
//! goes on in the variant that was interrupted, from its own checkpoint.
//!
//! - `variants`: from the base, the variants and the grid to a list of jobs
//! - `job`: the job file and its plan
//! - `run`: one variant after the other
//! - `results`: what variants have left in their folders
//! - `report`: figures, table, page

pub mod job;
pub mod report;
pub mod results;
pub mod run;
pub mod variants;
