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
//! corpus/      inputs -> pieces -> blocks of whole sentences -> sentences and trees, or problems with addresses;
//!              files -> documents -> words -> shards
//! cluster/     workers, and what travels between them: the only place with timely and differential types
//! transition/  transition systems, their oracles, memory cost; reordering, dependency length, center-embedding
//! oracle/      the oracle job: what a sentence adds to the counts, the study made of them, and its report
//! restaurant/  Pitman-Yor restaurants: trees of them, seating, discounts and strengths, merging seatings of shards
//! lm/          the lm job: hierarchical Pitman-Yor language models, and what is done with one: scoring, ARPA, generation
//! topics/      the topics job: LDA, and topic n-gram models (topics/ngram)
//! parser/      the parser job: generative dependency parsing over the transition systems, and what is done with a parser
//! semisupervised/  the semisupervised job: a parser that learns words from text without trees; beside it, an n-gram model
//! chart/       charts of split-head dependency grammars: sums over all trees, the best tree, bounded memory
//! induction/   the induction job: dependency grammars from tagged sentences: DMV, EVG, L-EVG
//! adaptor/     the adaptor job: adaptor grammars and Bayesian PCFGs: grammar files, charts, cached trees
//! study/       the study job: other jobs in several variants, side by side
//! math/        lanes, draws and special functions that give the same bits on every processor
//! report/      tables, figures, one self-contained page
//! progress.rs, error.rs    what is said on stderr, and exit codes
//! ```
//!
//! # The one law: the cluster never shows in the result
//!
//! A result is a function of the inputs, the job file and its seed: never of the number of threads, processes or hosts,
//! of timing, of who did what, or of a crash in between. It holds because of four habits:
//! - Pieces, blocks and shards follow from the data and the job file. In a pass, workers are dealt pieces; in training,
//!   a worker owns some shards and treats each as if it were alone since the last synchronisation ([`cluster::sweep`]).
//! - Every random draw comes from a generator that is keyed by what is drawn for ([`cluster::rng`]), never by a worker.
//! - Counts are integers, which add up to the same whatever the order. Nothing iterates over a hash map on the way to a
//!   draw or a file.
//! - Floats are added up in shard order, and computed in an order that no processor changes ([`math`]).
//!
//! `tests/all/law.rs`, `topics_job.rs`, `lm_job.rs`, `ngram_job.rs`, `parser_job.rs`, `semisupervised_job.rs`, `induction_job.rs`,
//! `adaptor_job.rs` and `study_job.rs` hold every job to it, byte for byte.
//!
//! # Crashes
//!
//! A process that dies takes the dataflow with it: that is timely's contract. The answer is the checkpoint
//! ([`cluster::checkpoint`]): `run` goes on from the last one with any number of workers, and `launch` does so
//! by itself. A peer that is alive but stuck is found by its missing signs of life ([`cluster::heartbeat`]).
//!
//! # Other processes
//!
//! The network is not trusted. A connection carries data only after both ends have proved that they hold the job's secret
//! ([`cluster::channel`]) and have found that they run the same job on the same inputs and run folder
//! ([`cluster::agreement`]). From then on, data that is not authentic ends the job.
//!
//! # Bad input
//!
//! A problem in the data is data: it is counted by rule and keeps its address ([`corpus::diagnostic`]), and the job goes
//! on. An error that ends a command says what to do and has an exit code ([`error`]). A panic is a fault of sawmill
//! itself and ends the process, since workers would otherwise wait for the one that is gone.

/// Says something on stderr. Where nobody listens any more, it is not said: that is no reason to stop.
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}

pub mod adaptor;
pub mod chart;
pub mod cli;
pub mod cluster;
pub mod corpus;
pub mod error;
pub mod induction;
pub mod job;
pub mod lm;
pub mod math;
pub mod oracle;
pub mod parser;
pub mod progress;
pub mod report;
pub mod restaurant;
pub mod semisupervised;
pub mod study;
pub mod topics;
pub mod transition;
