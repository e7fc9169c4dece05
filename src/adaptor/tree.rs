//! Parses as people read them: bracketed trees, whole or with the adapted nonterminals alone.

use std::fmt::Write;

use super::cache::Cache;
use super::derivation::{Packed, Step, read};
use super::grammar::Grammar;

/// How a parse is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Style {
    /// Every node
    Full,
    /// Adapted nonterminals only, as in the skeletal parses of Johnson (2010); every node where none is adapted
    #[default]
    Skeletal,
    /// The words of the segmentation that is drawn most, over all samples of the model
    Words,
}

/// The tree of a parse, or of a derivation, on one line: with every node, or with the adapted nonterminals alone, where
/// there are some.
pub fn bracketed(grammar: &Grammar, cache: &Cache, nodes: &[Packed], is_full: bool) -> String {
    let mut text = String::new();
    let is_full = is_full || grammar.adapted().next().is_none();
    let is_shown = |symbol| is_full || grammar.is_adapted(symbol);
    read(grammar, &|table| cache.label(table), nodes, &mut |step| {
        let blank = if text.is_empty() || text.ends_with('(') { "" } else { " " };
        let _ = match step {
            Step::Open(symbol) if is_shown(symbol) => write!(text, "{blank}({}", grammar.name(symbol)),
            Step::Word(word) => write!(text, "{blank}{}", grammar.name(word)),
            Step::Close(symbol) if is_shown(symbol) => write!(text, ")"),
            _ => Ok(()),
        };
    });
    text
}
