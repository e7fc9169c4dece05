//! Workers, and what travels between them: the only place with timely and differential types.
//!
//! - `rng`: keyed random generators
//! - `mesh`: sockets between the processes of one job, and nobody else
//! - `engine`: starting workers, threads or processes
//! - `operators/deal`: handing out pieces of input to whoever is idle
//! - `operators/tally`: counts that are corrected by differences
//! - `scan`: one pass over the input on all workers, counted: deal, then tally
//! - `watch`: the same, kept alive: tally again whatever changes

pub mod engine;
pub mod mesh;
pub mod operators;
pub mod rng;
pub mod scan;
pub mod watch;
