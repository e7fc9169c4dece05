//! Degree of center-embedding of a dependency tree.
//!
//! The tree is read as a binary constituency tree in which every head takes its left dependents first, nearest first,
//! and then its right ones: the conversion that the left-corner oracle recognises (Noji & Miyao 2014, section 3). A
//! constituent of several words is center-embedded when it is the left child of a right child, so that words stand on
//! both sides of it. The degree of a tree is the largest number of such constituents around one word. Left- and
//! right-branching trees have degree 0, and a left-corner parser grows its stack with the degree only.

use crate::corpus::tree::Tree;

/// Reusable buffers: the degree of the constituent of each node, as a left child (or the whole) and as a right child.
#[derive(Default)]
pub struct Embedding {
    as_left: Vec<u32>,
    as_right: Vec<u32>,
}

impl Embedding {
    /// The degree of center-embedding of `tree`, whose nodes `top_down` lists, heads first.
    pub fn degree(&mut self, tree: &Tree, top_down: &[u32]) -> u32 {
        let nodes = tree.root() as usize + 1;
        self.as_left.clear();
        self.as_left.resize(nodes, 0);
        self.as_right.clear();
        self.as_right.resize(nodes, 0);
        for &node in top_down.iter().rev() {
            if tree.last_dependent(node) != 0 {
                self.combine(tree, node);
            }
        }
        self.as_left[tree.root() as usize]
    }

    /// Builds the constituent of `node` out of those of its dependents.
    #[inline]
    fn combine(&mut self, tree: &Tree, node: u32) {
        let several = |dependent: u32| u32::from(tree.last_dependent(dependent) != 0);
        let mut last = None; // as_right of the outermost right dependent
        let mut inner_right = 0; // the largest as_right of the other right dependents
        // What the head has gathered on its left so far, as a left child and as a right child.
        let (mut left, mut right) = (0, 0);
        let mut words_left = false;
        for dependent in tree.dependents_backwards(node) {
            if dependent > node {
                match last {
                    None => last = Some(self.as_right[dependent as usize]),
                    Some(_) => inner_right = inner_right.max(self.as_right[dependent as usize]),
                }
            } else {
                let outer = self.as_left[dependent as usize];
                left = outer.max(right);
                right = (outer + several(dependent)).max(right);
                words_left = true;
            }
        }
        if let Some(last) = last {
            let inside = left.max(inner_right);
            let inside_has_several = words_left || tree.previous_sibling(tree.last_dependent(node)) > node;
            left = inside.max(last);
            right = (inside + u32::from(inside_has_several)).max(last);
        }
        self.as_left[node as usize] = left;
        self.as_right[node as usize] = right;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::transition::{LeftCorner, TransitionSystem, follow_oracle};

    /// All projective trees with one root on `words` words.
    pub(crate) fn all_trees(words: u32) -> Vec<Tree> {
        let mut heads = vec![0u32; words as usize];
        let mut out = vec![];
        fn fill(at: usize, heads: &mut Vec<u32>, out: &mut Vec<Tree>) {
            if at == heads.len() {
                let mut tree = Tree::default();
                tree.set_heads(heads.iter().copied());
                if heads.iter().filter(|&&h| h == 0).count() == 1 && tree.is_projective() {
                    out.push(tree);
                }
                return;
            }
            for head in 0..=heads.len() as u32 {
                if head as usize != at + 1 {
                    heads[at] = head;
                    fill(at + 1, heads, out);
                }
            }
        }
        fill(0, &mut heads, &mut out);
        out
    }

    /// Degree by the definition, on an explicit binary tree.
    fn by_definition(tree: &Tree) -> u32 {
        enum Node {
            Leaf,
            Pair(Box<Node>, Box<Node>),
        }
        fn constituent(tree: &Tree, head: u32) -> Node {
            let mut dependents: Vec<u32> = tree.dependents_backwards(head).collect();
            dependents.reverse();
            let mut node = Node::Leaf;
            for &d in dependents.iter().rev().filter(|&&d| d < head) {
                node = Node::Pair(Box::new(constituent(tree, d)), Box::new(node));
            }
            for &d in dependents.iter().filter(|&&d| d > head) {
                node = Node::Pair(Box::new(node), Box::new(constituent(tree, d)));
            }
            node
        }
        fn degree(node: &Node, is_right: bool) -> u32 {
            match node {
                Node::Leaf => 0,
                Node::Pair(left, right) => {
                    let embedded = is_right && matches!(**left, Node::Pair(..));
                    (degree(left, false) + u32::from(embedded)).max(degree(right, true))
                }
            }
        }
        degree(&constituent(tree, tree.root()), false)
    }

    #[test]
    fn the_degree_equals_its_definition_and_bounds_the_left_corner_stack() {
        let (mut embedding, mut order, mut parser) = (Embedding::default(), vec![], LeftCorner::default());
        for words in 1..=7 {
            for tree in all_trees(words) {
                tree.top_down(&mut order);
                let degree = embedding.degree(&tree, &order);
                assert_eq!(degree, by_definition(&tree), "{:?}", tree.heads());
                let mut deepest = 0;
                follow_oracle(&mut parser, &tree, |c, _| deepest = deepest.max(c.memory_cost()));
                assert!(deepest <= degree + 3, "{:?}: degree {degree}, depth {deepest}", tree.heads());
                assert!(degree > 0 || deepest <= 3);
            }
        }
    }
}
