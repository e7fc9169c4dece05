//! sawmill: a distributed batch pipeline for Bayesian NLP, on timely and differential dataflow.
//!
//! Trees and text go in, they are sawn into pieces, workers on one laptop or many hosts pass over the pieces, what they
//! counted is merged, and out come figures, tables and models with a report that a person wants to look at.
//!
//! # In the order in which data meets it
//!
//! ```text
//! cli/         flags of one verb each, resolved; no work is done there
//! job/         the job file becomes a job, the job a plan, and the run leaves a folder with a manifest
//! corpus/      inputs -> pieces -> blocks of whole sentences -> sentences and trees, or problems with addresses
//! cluster/     workers, and what travels between them: the only place with timely and differential types
//! transition/  transition systems, their oracles, memory cost; reordering, dependency length, center-embedding
//! oracle/      the oracle job: what a sentence adds to the counts, the study made of them, and its report
//! topics/      latent Dirichlet allocation: counts, sweeps over shards, the learned prior, held-out probability
//! math/        draws and special functions, the same bits on every processor
//! report/      tables, figures, one self-contained page
//! progress.rs, error.rs    what is said on stderr, and exit codes
//! ```
//!
//! # The one law: the cluster never shows in the result
//!
//! A result is a function of the inputs, the job file and its seed: never of the number of threads, processes or hosts,
//! of timing, or of who did what. It holds because of three habits:
//! - Pieces and blocks follow from the data. Workers own nothing; they are dealt pieces and share blocks.
//! - Every random draw comes from a generator that is keyed by what is drawn for ([`cluster::rng`]), never by a worker.
//! - Counts are integers, which add up to the same whatever the order. Nothing iterates over a hash map on the way to a
//!   draw or a file.
//!
//! `tests/all/law.rs` holds every job to it, byte for byte, against a plain sequential twin.
//!
//! # Bad input
//!
//! A problem in the data is data: it is counted by rule and keeps its address ([`corpus::diagnostic`]), and the job goes
//! on. An error that ends a command says what to do and has an exit code ([`error`]). A panic is a fault of sawmill
//! itself and ends the process, since workers would otherwise wait for the one that is gone.

pub mod cli;
pub mod cluster;
pub mod corpus;
pub mod error;
pub mod job;
pub mod math;
pub mod oracle;
pub mod progress;
pub mod report;
pub mod topics;
pub mod transition;
