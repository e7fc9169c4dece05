//! The semisupervised job: a parser that learns words from text without trees, and so becomes a language model (Buys &
//! Blunsom 2015, section 5.4).
//!
//! ```text
//! treebank  -> parser                        as in a parser job
//! raw text  -> trees, by that parser         every worker parses its shards
//! both      -> the distribution of words     Gibbs sweeps over the seating of all words in their trees, synchronised;
//!                                            tags and transitions stay as the treebank has taught them, or learn too
//! other     -> what contexts weigh           text set aside, where a distribution has several, and that is asked for
//! again     -> trees, by the parser of the pass before, and so on
//! then      -> tags and trees of raw text    where that is asked for: drawn with what learns, by particle Gibbs
//! ```
//!
//! In the first pass, before anything learns, an HPYLM of the same words is trained, to compare with ([`ngram`]).
//!
//! Each stage is a training of its own under the sweep driver, with checkpoints of its own: a run that is resumed finds each
//! stage that has ended in its last checkpoint, and goes on in the first that has not.
//!
//! **What is exact.** Trees of raw text are the best that were found, and stay for a pass, as in the paper; a tree is derived
//! as the static oracle derives it. Given the trees, the seating of words is sampled as in a parser job. Where tags and trees
//! are drawn, see [`gibbs`].
//!
//! **Memory.** Raw text is read once, by every worker; the paragraphs of its own shards are cut into words, and kept on disk as
//! numbers ([`shelf`]); what is to tune and to test on is in memory everywhere. In memory a word takes 6 bytes for its place in
//! its tree. The threads of a process have the parser in common that they parse with. The contexts of a parser learn one behind
//! the other (`learning`). For each, tokens go to the worker of their shard, which follows from their context: so a restaurant is
//! in one shard, except for those of the shortest contexts, and only these are synchronised ([`crate::restaurant::franchise`]). Contexts that a
//! single token has need no restaurants ([`crate::restaurant::lone`]). The first worker gathers what was learned, as it is
//! written to the model file: so the model has to fit there, as it has to wherever it is used. The report has the most memory
//! of each stage.
//!
//! - `job`, `run`, `figures`, `report`: the job file, running it, what is found out on the way, and what is left of it
//! - `reader`, `paragraphs`: sentences of raw text, dealt to shards; paragraphs that go over several lines
//! - `text`, `shelf`: raw text, as sentences of numbers; sentences on disk
//! - `share`, `parses`, `pool`: the parser of a pass, brought to all workers; the pass, and its trees; sentences for whichever
//!   worker of a process is free
//! - `learning`: what is learned from them, context by context
//! - `gibbs`: tags and trees that are drawn
//! - `parsers`, `testing`: those of the stages that have ended; how good they are
//! - `ngram`: the n-gram model to compare with

pub mod figures;
pub mod gibbs;
pub mod job;
mod learning;
pub mod ngram;
pub mod paragraphs;
mod parsers;
pub mod parses;
mod pool;
pub mod reader;
pub mod report;
pub mod run;
mod share;
pub mod shelf;
mod testing;
pub mod text;

#[cfg(test)]
mod tests;
