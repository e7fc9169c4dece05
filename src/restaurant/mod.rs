//! Pitman-Yor restaurants: trees of them, seating, and discounts and strengths by depth.
//!
//! - `tree`: contexts and dishes in flat arenas, with integer numbers
//! - `seating`: customers come and go; predictive probability
//! - `chance`: what decides the steps of a sampler
//! - `base`: what is below the root: a given distribution, or other restaurants
//! - `stirling`: how likely a customer is to sit alone, given the counts
//! - `parameters`: discount and strength by depth, and how they are learned
//! - `order`: infinite order: every token has a context length of its own
//! - `column`: lists of numbers in as few bytes as they need
//! - `lone`: contexts that one token alone has, which need no restaurants
//! - `deal`: which shard a token belongs to, by its context
//! - `franchise`: one process whose tokens are dealt to shards by their contexts, as models of the sweep driver keep it;
//!   `shard`: the restaurants of one shard; `top`: those that all shards share, and their synchronisation
//! - `tokens`, `shuffle`: tokens with their contexts, and on their way to the workers of their shards
//! - `kept`, `counted`: a tree as it is kept in a model file, and with its counts; `stream`: the same on its way
//! - `growing`: a tree whose contexts are made when they are first needed
//! - `merge`: seatings of several shards, brought together and set right
//!
//! # Why counts only
//!
//! A restaurant can keep the sizes of its tables (as histograms: Blunsom et al. 2009), or only how many customers and
//! tables each dish has. On the Penn Treebank at order 5, with 2.3 million dishes:
//!
//! | | counts only | histograms |
//! | --- | --- | --- |
//! | a sweep, one core, same tokens in the same order | 56 ms (16.6 million tokens/s) | 163 ms (5.7 million tokens/s) |
//! | memory for a dish | 8 bytes | 8 bytes, and a list for the 29,000 dishes whose sizes do not follow from the counts |
//! | a customer comes | c - a t against (b + a T) p | the same, and a table is drawn by size |
//! | a customer leaves | one ratio, from a table by (c, t) | a table is drawn by size |
//! | discounts are learned | dishes in the same state step back together | a draw for every customer |
//! | several shards | table counts are added up, and clamped | sizes of tables cannot be added up |
//!
//! (After 15 sweeps both have the same number of tables, 2.636 million, to 0.04 %.) What decides is the last line: a
//! synchronisation can only add up counts.
//!
//! Counts alone are also what Chen, Du & Buntine (2011) keep, with an indicator for each table that a customer opens; but
//! their sampler needs ratios of Stirling numbers for a customer that comes, where here none are needed.

pub mod base;
pub mod chance;
pub mod column;
pub mod counted;
pub mod deal;
pub mod franchise;
pub mod growing;
pub mod kept;
pub mod lone;
pub mod merge;
pub mod order;
pub mod parameters;
pub mod seating;
pub mod shard;
pub mod shuffle;
pub mod stirling;
pub mod stream;
pub mod tokens;
pub mod top;
pub mod tree;

#[cfg(test)]
pub(crate) mod tests;
