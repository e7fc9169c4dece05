//! The parser job: a generative transition-based dependency parser (Buys & Blunsom 2015).
//!
//! Sentences are generated left to right by an arc-standard (or left-corner) parser that generates each word, after its tag,
//! when it is shifted:
//!
//! ```text
//! p(t, w, a) = prod_i p(t_i | h^t) p(w_i | t_i, h^w) prod_j p(a_j | h^a)
//! A_h ~ PYP(a_|h|, b_|h|, A_h')       h' is h without its last element; T_h and W_h likewise
//! ```
//!
//! where contexts h are lists of elements of the configuration, such as the tags of the topmost stack items and of their
//! children ([`element`]); labels are generated with their arcs.
//!
//! - `job`, `run`, `report`: the job file, running it, and what it leaves
//! - `treebank`, `lexicon`, `surface`: trees as numbers; words, tags and labels; classes of unknown words
//! - `element`, `configuration`, `left_corner`: what distributions are conditioned on, and where it is read off
//! - `action`: what a parser does, in each transition system
//! - `gold`, `tokens`, `trainer`, `gather`: derivations of a tree, what is trained on, the model of the sweep driver, and what
//!   all workers have learned
//! - `drawing`, `sampled`, `hierarchies`, `filter`, `exchange`: the same where derivations are drawn, with particles
//! - `latent`: derivations of sentences of which only the words are known
//! - `distribution`, `model`, `recall`: what was learned, as it is kept and asked; what was asked before
//! - `mixture`, `tuning`: what contexts weigh, where there are several; learning it
//! - `decode`, `weight`, `evaluate`, `score`: finding the best derivation; many sentences; how good they are
//! - `text`: sentences to be parsed, and their parses
//! - `generate`, `perplexity`, `interpolate`, `show`: what else is done with a parser

pub mod action;
pub mod configuration;
pub mod decode;
pub mod distribution;
pub mod drawing;
pub mod element;
pub mod evaluate;
pub mod exchange;
pub mod filter;
pub mod gather;
pub mod generate;
pub mod gold;
pub mod hierarchies;
pub mod interpolate;
pub mod job;
pub mod latent;
pub mod left_corner;
pub mod lexicon;
pub mod mixture;
pub mod model;
pub mod perplexity;
pub mod recall;
pub mod report;
pub mod run;
pub mod sampled;
pub mod score;
pub mod show;
pub mod surface;
pub mod text;
pub mod tokens;
pub mod trainer;
pub mod treebank;
pub mod tuning;
pub mod weight;

#[cfg(test)]
pub(crate) mod tests;
