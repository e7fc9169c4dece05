//! The forest of a sentence: the trees that it may have.
//!
//! All projective ones, or those within a bound on memory ([`Halves`]); and where there are function words, of these the trees in
//! which function words have no dependents. That is what Universal Dependencies hold of adpositions, auxiliaries, determiners
//! and the like, and what tags alone do not tell: a noun goes with its determiner whichever of them is the head (Noji,
//! Miyao & Johnson 2016 bind function words in this way). A word without dependents is a score of 0 for each arc from it, so
//! charts are as they were, and sums are over the trees that are left.
//!
//! A sentence of function words alone has no such tree: its trees are all those within the bound on memory. Every other
//! sentence has one for any bound: that in which words depend on the next content word, and those behind the last on it, is of
//! depth 1.

use crate::chart::halves::Halves;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forest {
    pub halves: Halves,
    /// By tag: whether words with it are function words. Those of other tags are not.
    is_function: Vec<bool>,
}

/// Which words of a sentence may have dependents.
#[derive(Clone, Copy, Debug)]
pub struct Heads<'a> {
    forest: &'a Forest,
    is_bound: bool,
}

impl Forest {
    /// Trees of at most this depth, or any, in which words with these tags, out of all, have no dependents.
    pub fn new(depth: Option<u32>, function: &[String], tags: &[String]) -> Forest {
        let is_function = tags.iter().map(|tag| function.contains(tag)).collect();
        Forest { halves: Halves::new(depth), is_function }
    }

    /// Trees of at most this depth, or any.
    pub fn of_depth(depth: Option<u32>) -> Forest {
        Forest { halves: Halves::new(depth), is_function: vec![] }
    }

    pub fn is_function(&self, tag: usize) -> bool {
        self.is_function.get(tag).copied().unwrap_or(false)
    }

    /// Which words have dependents in a sentence with these tags.
    #[inline(always)]
    pub fn heads(&self, mut tags: impl Iterator<Item = usize>) -> Heads<'_> {
        Heads { forest: self, is_bound: tags.any(|tag| !self.is_function(tag)) }
    }

    /// Whether a sentence has function words alone, several of them, so that some have dependents.
    pub fn is_free(&self, tags: &[usize]) -> bool {
        tags.len() > 1 && tags.iter().all(|&tag| self.is_function(tag))
    }
}

impl Heads<'_> {
    /// Whether a word with this tag may have dependents.
    #[inline(always)]
    pub fn may_be(&self, tag: usize) -> bool {
        !(self.is_bound && self.forest.is_function(tag))
    }
}
