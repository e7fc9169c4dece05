//! Workers, and what travels between them: the only place with timely and differential types.
//!
//! - `rng`: keyed random generators
//! - `mesh`: connections between the processes of one job, and nobody else
//! - `channel`: an authenticated, encrypted connection; `callers`: callers before they have proved themselves; `agreement`:
//!   what processes must have in common
//! - `engine`: starting workers, threads or processes
//! - `operators/deal`: handing out pieces of input to whoever is idle
//! - `operators/tally`: counts that are corrected by differences
//! - `scan`: one pass over the input on all workers, counted: deal, then tally
//! - `sweep`: the driver of every job that passes over its shards again and again; `own`: which shards are whose
//! - `operators/route`, `rows`: letters between workers, and how changes of counts are packed in them
//! - `operators/all_gather`: little records of every worker for every worker
//! - `gather`: what all workers have, brought to the first
//! - `codec`: values as packed bytes, with bounds on what reading them takes
//! - `checkpoint`: going on from a sweep; `heartbeat`: signs of life; `stop`: being asked to stop
//! - `watch`: the same, kept alive: tally again whatever changes

pub mod agreement;
pub mod callers;
pub mod channel;
pub mod checkpoint;
pub mod codec;
pub mod engine;
pub mod gather;
pub mod heartbeat;
pub mod mesh;
pub mod operators;
pub mod own;
pub mod rng;
pub mod rows;
pub mod scan;
pub mod stop;
pub mod sweep;
pub mod watch;
