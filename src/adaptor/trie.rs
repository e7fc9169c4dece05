//! The strings that are cached, as a trie over symbols: walked from each position of a string, it finds all that begin
//! there, and stops where none goes on.

use rustc_hash::FxHashMap;

use super::grammar::{NONE, Symbol};

/// A node of the trie.
pub type Node = u32;

pub const ROOT: Node = 0;

#[derive(Clone, Debug)]
pub struct Trie {
    /// By node and symbol.
    children: FxHashMap<u64, Node>,
    /// By node: the first of what is kept there.
    pub first: Vec<u32>,
}

impl Default for Trie {
    fn default() -> Trie {
        Trie { children: FxHashMap::default(), first: vec![NONE] }
    }
}

impl Trie {
    #[inline]
    pub fn child(&self, node: Node, symbol: Symbol) -> Option<Node> {
        self.children.get(&key(node, symbol)).copied()
    }

    /// The node of a string, made where it is not there.
    pub fn insert(&mut self, string: &[Symbol]) -> Node {
        string.iter().fold(ROOT, |node, &symbol| {
            let new = self.first.len() as Node;
            let child = *self.children.entry(key(node, symbol)).or_insert(new);
            if child == new {
                self.first.push(NONE);
            }
            child
        })
    }
}

#[inline]
fn key(node: Node, symbol: Symbol) -> u64 {
    u64::from(node) << 32 | u64::from(symbol)
}
