//! The adaptor job: adaptor grammars, and topic models as grammars (Johnson 2010).
//!
//! A grammar with Dirichlet priors generates trees; an adapted nonterminal draws whole subtrees from a Pitman-Yor process
//! over what its rules generate:
//!
//! ```text
//! theta_X ~ Dirichlet(weights of X's rules)
//! G_X     = sum over X --> Y1 .. Ym of theta_X(rule) TREE_X(G_Y1, .., G_Ym)     X not adapted
//! H_X     = the same sum,  G_X ~ PYP(a_X, b_X, H_X)                              X adapted
//! ```
//!
//! Without adapted nonterminals this is a Bayesian PCFG; LDA is one of them (section 4).
//!
//! - `job`, `run`, `report`: the job file, running it, and what it leaves
//! - `grammar`, `reader`, `right_side`, `cycles`: grammars, their files, and what they must not have
//! - `strings`, `corpus`: what is to be derived
//! - `view`, `chart`: the part of a grammar that a string needs, and the inside algorithm over it
//! - `derivation`, `tree`: parses as flat lists, and as people read them
//! - `trie`, `cache`: cached strings, and the restaurants that they are in
//! - `sampler`, `hyper`: parses and trees of tables drawn anew; a and b drawn anew
//! - `ledger`, `trainer`: what shards agree on, and the model of the sweep driver
//! - `variational`: plain grammars by variational Bayes
//! - `score`: how good a segmentation is
//! - `model`, `show`: what was learned, as it is kept, asked and shown

pub mod cache;
pub mod chart;
pub mod corpus;
pub mod cycles;
pub mod derivation;
pub mod grammar;
pub mod hyper;
pub mod job;
pub mod ledger;
pub mod model;
pub mod reader;
pub mod report;
pub mod right_side;
pub mod run;
pub mod sampler;
pub mod score;
pub mod show;
pub mod strings;
pub mod trainer;
pub mod tree;
pub mod trie;
pub mod variational;
pub mod view;

#[cfg(test)]
mod tests;
