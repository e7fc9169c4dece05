//! Tokens with their contexts, as a table with a column for each element.

use super::column::Column;
use super::tree::Paths;

/// Contexts with outcomes.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    /// By depth.
    elements: Vec<Column>,
    outcomes: Column,
    symbols: usize,
}

impl Tokens {
    /// Contexts have up to `depth` elements; all symbols are below `symbols`.
    pub fn new(depth: usize, symbols: u32) -> Tokens {
        Tokens { elements: vec![Column::default(); depth], symbols: symbols as usize, ..Tokens::default() }
    }

    #[inline]
    pub fn push(&mut self, context: &[u32], outcome: u32) {
        let nothing = self.symbols as u32;
        let values = context.iter().copied().chain(std::iter::repeat(nothing));
        self.elements.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
        self.outcomes.push(outcome);
    }
}

impl Paths for Tokens {
    fn count(&self) -> usize {
        self.outcomes.len()
    }

    fn symbols(&self) -> usize {
        self.symbols
    }

    fn depth(&self) -> usize {
        self.elements.len()
    }

    fn outcome(&self, token: usize) -> u32 {
        self.outcomes.get(token)
    }

    #[inline]
    fn element(&self, token: usize, depth: usize) -> Option<u32> {
        self.elements.get(depth).map(|column| column.get(token)).filter(|element| (*element as usize) < self.symbols)
    }

    /// Most contexts are whole.
    fn length(&self, token: usize) -> usize {
        let mut length = self.elements.len();
        while length > 0 && self.element(token, length - 1).is_none() {
            length -= 1;
        }
        length
    }
}
