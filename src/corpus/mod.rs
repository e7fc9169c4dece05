//! Inputs: opening them, cutting them into pieces, and reading sentences and trees, or documents, out of them.
//!
//! ```text
//! Input (a file or an artificial language)
//!   -> Piece   what one worker reads at a stretch        piece.rs, open.rs, synth.rs
//!   -> Block   about a megabyte of whole sentences       piece.rs
//!   -> Sentence and Tree, or Problems with addresses     conll.rs, tree.rs, diagnostic.rs
//!
//! Every file   -> hash of its content                  inputs.rs
//!
//! File of documents
//!   -> Line           of bounded length, as UTF-8        open.rs, text.rs, lines.rs
//!   -> RawDocument    or Problems with addresses         documents.rs, diagnostic.rs
//!   -> or their lines, where text is only streamed       documents/stream.rs
//!   -> training and test documents                       hold_out.rs
//!   -> sentences      of running text, and their words   running.rs
//!   -> tokens         numbers and case made one          tokens.rs
//!   -> word ids       rare and unseen words unknown      vocabulary.rs
//!   -> shards         of about equally many tokens       shard.rs
//! ```

#[cfg(test)]
mod brown;
pub mod conll;
pub mod diagnostic;
pub mod documents;
pub mod hold_out;
pub mod inputs;
pub mod lines;
pub mod open;
pub mod piece;
pub mod running;
pub mod shard;
pub mod synth;
pub mod text;
pub mod tokens;
pub mod tree;
pub mod vocabulary;
