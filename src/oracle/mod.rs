//! The `oracle` job: memory-cost histograms of transition-based parsing (Noji & Miyao 2014).
//!
//! For every sentence of every treebank: leave it out when it cannot be derived; else run the static oracle of each
//! system on the tree as it is and on random reorderings of it, and count every configuration by its memory cost.
//! Beside that, what the paper's discussion asks for: dependency length, and the degree of center-embedding.
//!
//! What a sentence adds to the counts follows from the sentence, the treebank's name and the seed alone, so neither
//! shards nor workers show in the result, and a changed treebank is corrected by the differences of its sentences.
//!
//! - `job`: the job file and what it asks to be read
//! - `count`: what one sentence adds to the counts
//! - `punctuation`: trees without it
//! - `study`: the counts, sorted out by treebank
//! - `claims`: the claims of the paper, checked
//! - `report`: the study as files
//! - `watch`: keeping the counts right while treebanks change

pub mod claims;
pub mod count;
pub mod job;
pub mod punctuation;
pub mod report;
pub mod run;
pub mod study;
pub mod watch;
