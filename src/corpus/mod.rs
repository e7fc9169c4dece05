//! Inputs: opening them, cutting them into pieces, and reading sentences and trees out of them.
//!
//! ```text
//! Input (a file or an artificial language)
//!   -> Piece   what one worker reads at a stretch        piece.rs, open.rs, synth.rs
//!   -> Block   about a megabyte of whole sentences       piece.rs
//!   -> Sentence and Tree, or Problems with addresses     conll.rs, tree.rs, diagnostic.rs
//! ```

pub mod conll;
pub mod diagnostic;
pub mod open;
pub mod piece;
pub mod synth;
pub mod tree;
