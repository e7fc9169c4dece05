//! A dependency tree over one sentence, laid out for oracles.
//!
//! Words are 1 ..= n and the dummy root is n + 1, behind the last word; several words may depend on it. Beside the
//! heads, each node knows its last dependent and each dependent the one before it under the same head, so that
//! questions such as "has this node further dependents in the buffer?" are one comparison.

use crate::transition::Label;

/// Buffers are reused from sentence to sentence. Index 0 belongs to no node, and 0 stands for "none".
#[derive(Clone, Debug, Default)]
pub struct Tree {
    heads: Vec<u32>,
    labels: Vec<Label>,
    last_dependent: Vec<u32>,
    previous_sibling: Vec<u32>,
}

/// What keeps a set of heads from being a tree that the oracles can derive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Projective,
    NonProjective,
    /// No word depends on the root.
    Rootless,
    /// There is a root, but some words are not connected to it: their heads run in a circle.
    Cyclic,
}

impl Tree {
    /// Takes the heads of words 1, 2, ..., in the convention of CoNLL: 0 is the root. They must be at most n.
    pub fn set_heads(&mut self, heads: impl ExactSizeIterator<Item = u32>) {
        let root = heads.len() as u32 + 1;
        self.heads.clear();
        self.heads.push(0);
        self.heads.extend(heads.map(|head| if head == 0 { root } else { head }));
        self.heads.push(0);
        self.labels.clear();
        self.labels.resize(self.heads.len(), Label::default());
        self.link();
    }

    /// Names the arc to `word`.
    pub fn set_label(&mut self, word: u32, label: Label) {
        self.labels[word as usize] = label;
    }

    /// Becomes `other` with each node moved to `position(node)`; the root stays.
    pub fn rearrange(&mut self, other: &Tree, position: impl Fn(u32) -> u32) {
        let nodes = other.heads.len();
        self.heads.clear();
        self.heads.resize(nodes, 0);
        self.labels.clear();
        self.labels.resize(nodes, Label::default());
        for word in 1..other.root() {
            let to = position(word) as usize;
            self.heads[to] = position(other.head(word));
            self.labels[to] = other.label(word);
        }
        self.link();
    }

    /// Finds last dependents and previous siblings in one pass.
    fn link(&mut self) {
        self.last_dependent.clear();
        self.last_dependent.resize(self.heads.len(), 0);
        self.previous_sibling.clear();
        self.previous_sibling.push(0);
        for word in 1..self.root() {
            let last = &mut self.last_dependent[self.heads[word as usize] as usize];
            self.previous_sibling.push(*last);
            *last = word;
        }
        self.previous_sibling.push(0);
    }

    /// Number of words.
    #[inline]
    pub fn words(&self) -> u32 {
        self.heads.len() as u32 - 2
    }

    /// The dummy root.
    #[inline]
    pub fn root(&self) -> u32 {
        self.heads.len() as u32 - 1
    }

    /// Head of `node`; 0 for the root.
    #[inline]
    pub fn head(&self, node: u32) -> u32 {
        self.heads[node as usize]
    }

    /// Label of the arc to `node`.
    #[inline]
    pub fn label(&self, node: u32) -> Label {
        self.labels[node as usize]
    }

    /// The rightmost dependent of `node`, which may stand to its left; 0 where it has none.
    #[inline]
    pub fn last_dependent(&self, node: u32) -> u32 {
        self.last_dependent[node as usize]
    }

    /// The dependent before `node` under the same head; 0 for the first.
    #[inline]
    pub fn previous_sibling(&self, node: u32) -> u32 {
        self.previous_sibling[node as usize]
    }

    /// The dependents of `node`, from the last to the first.
    #[inline]
    pub fn dependents_backwards(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        let some = |node| (node != 0).then_some(node);
        std::iter::successors(some(self.last_dependent(node)), move |&d| some(self.previous_sibling(d)))
    }

    /// Heads by node, in this layout (see [`Tree`]).
    pub fn heads(&self) -> &[u32] {
        &self.heads
    }

    /// Number of words that depend on the dummy root.
    pub fn roots(&self) -> usize {
        self.dependents_backwards(self.root()).count()
    }

    /// Lists the nodes that are connected to the root, heads before dependents.
    pub fn top_down(&self, order: &mut Vec<u32>) {
        order.clear();
        order.push(self.root());
        let mut at = 0;
        while at < order.len() {
            let node = order[at];
            for dependent in self.dependents_backwards(node) {
                order.push(dependent);
            }
            at += 1;
        }
    }

    /// Whether no two arcs cross, those from the root included, and every word is connected to the root.
    ///
    /// Walks the tree from the last word to the first (right dependents, the head, left dependents): a projective tree
    /// is one in which that walk meets every word in its place.
    pub fn is_projective(&self) -> bool {
        let mut due = self.root(); // the node that the walk has to meet next
        let mut node = self.root();
        let mut dependent = self.last_dependent(node); // the dependent of `node` to visit next
        loop {
            // Between its right and its left dependents a node is met; it has been met before when `due` is below it.
            if dependent < node && due >= node {
                if due != node {
                    return false;
                }
                due -= 1;
            }
            if dependent != 0 {
                node = dependent;
                dependent = self.last_dependent(node);
            } else if node == self.root() {
                return due == 0;
            } else {
                dependent = self.previous_sibling(node);
                node = self.head(node);
            }
        }
    }

    /// Says whether oracles can derive this tree, and why not.
    pub fn shape(&self, order: &mut Vec<u32>) -> Shape {
        if self.is_projective() {
            return Shape::Projective;
        }
        self.top_down(order);
        match order.len() {
            1 => Shape::Rootless,
            reached if reached == self.root() as usize => Shape::NonProjective,
            _ => Shape::Cyclic,
        }
    }
}
