//! Dependency length: the sum of the distances between words and their heads (arcs from the dummy root not counted).
//!
//! The minimum over all projective orders follows from subtree sizes alone (Gildea & Temperley 2007; Hochberg &
//! Stallmann 2003). Around a head, dependents stand on alternating sides, the largest outermost; an arc is lengthened
//! by each smaller subtree of its side that it spans. The i-th largest dependent (i = 0, 1, ..) of a root has
//! floor(i / 2) arcs above it; of any other head, floor((i + 1) / 2), since the arc from its own head spans one side.

use crate::corpus::tree::Tree;

/// Total length of the arcs between words.
pub fn total(tree: &Tree) -> u64 {
    let root = tree.root();
    (1..root)
        .map(|word| (word, tree.head(word)))
        .filter(|&(_, h)| h != root)
        .map(|(w, h)| u64::from(w.abs_diff(h)))
        .sum()
}

/// Reusable buffers for the minimum.
#[derive(Default)]
pub struct Minimum {
    sizes: Vec<u32>,
    family: Vec<u32>,
}

impl Minimum {
    /// The least total length that a projective order of `tree` can have. `top_down` lists its nodes, heads first.
    pub fn total(&mut self, tree: &Tree, top_down: &[u32]) -> u64 {
        let root = tree.root();
        self.sizes.clear();
        self.sizes.resize(root as usize + 1, 1);
        let mut sum = 0;
        for &node in top_down.iter().rev() {
            if node == root {
                break; // heads first: nothing is left
            }
            let head = tree.head(node);
            self.sizes[head as usize] += self.sizes[node as usize];
            sum += u64::from(head != root); // every arc is one word long before anything is put under it
            sum += self.spanned(tree, node, u64::from(head != root));
        }
        sum
    }

    /// Words under the arcs from `node` to its dependents; `outer` is 1 where an arc from a head spans one side.
    fn spanned(&mut self, tree: &Tree, node: u32, outer: u64) -> u64 {
        let last = tree.last_dependent(node);
        if last == 0 || tree.previous_sibling(last) == 0 {
            return 0; // one dependent: on the free side, nothing between
        }
        self.family.clear();
        self.family.extend(tree.dependents_backwards(node).map(|d| self.sizes[d as usize]));
        self.family.sort_unstable_by(|a, b| b.cmp(a));
        self.family.iter().zip(0u64..).map(|(&size, i)| u64::from(size) * ((i + outer) / 2)).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::transition::embedding::tests::all_trees;

    fn canonical(tree: &Tree, node: u32) -> String {
        let mut parts: Vec<_> = tree.dependents_backwards(node).map(|d| canonical(tree, d)).collect();
        parts.sort();
        format!("({})", parts.concat())
    }

    #[test]
    fn the_minimum_equals_enumeration_on_all_small_trees() {
        let mut order = vec![];
        let mut minimum = Minimum::default();
        for words in 1..=7 {
            // The projective orders of a tree are the projective trees that are the same but for the order of children.
            let mut least = BTreeMap::<String, u64>::new();
            let trees = all_trees(words);
            for tree in &trees {
                let best = least.entry(canonical(tree, tree.root())).or_insert(u64::MAX);
                *best = total(tree).min(*best);
            }
            for tree in &trees {
                tree.top_down(&mut order);
                let expected = least[&canonical(tree, tree.root())];
                assert_eq!(minimum.total(tree, &order), expected, "{:?}", tree.heads());
            }
        }
    }
}
