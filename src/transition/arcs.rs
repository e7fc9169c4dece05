//! The arcs that a derivation has built: head and label of every word.

use super::Label;

/// Head and label by dependent. Index 0 is unused; a head of 0 means "none yet".
#[derive(Clone, Debug, Default)]
pub struct Arcs {
    heads: Vec<u32>,
    labels: Vec<Label>,
}

impl Arcs {
    /// No arcs, over nodes 0 ..= `last`.
    pub fn clear(&mut self, last: u32) {
        let nodes = last as usize + 1;
        self.heads.clear();
        self.heads.resize(nodes, 0);
        if self.labels.len() < nodes {
            self.labels.resize(nodes, Label::default()); // stale labels are never read: their heads are 0
        }
    }

    /// Adds the arc from `head` to `dependent`.
    #[inline]
    pub fn add(&mut self, head: u32, dependent: u32, label: Label) {
        debug_assert_eq!(self.heads[dependent as usize], 0, "word {dependent} has a head already");
        self.heads[dependent as usize] = head;
        self.labels[dependent as usize] = label;
    }

    /// Head of `dependent`, 0 where it has none yet.
    #[inline]
    pub fn head(&self, dependent: u32) -> u32 {
        self.heads[dependent as usize]
    }

    /// Label of the arc to `dependent`, which must have a head.
    #[inline]
    pub fn label(&self, dependent: u32) -> Label {
        self.labels[dependent as usize]
    }

    /// Heads by node; the first entry belongs to no word.
    pub fn heads(&self) -> &[u32] {
        &self.heads
    }
}
