//! Transition systems: every oracle rebuilds every gold tree, costs are those of the literature.

use proptest::prelude::*;
use sawmill::corpus::tree::Tree;
use sawmill::transition::{ArcEager, ArcStandard, LeftCorner, TransitionSystem, follow_oracle, left_corner};

/// Derives `tree` and returns the cost after each transition; fails where the derivation does not end in `tree`.
fn costs<S: TransitionSystem>(tree: &Tree) -> Vec<u32> {
    let mut costs = vec![];
    let mut system = S::default();
    follow_oracle(&mut system, tree, |configuration, _| costs.push(configuration.memory_cost()));
    assert_eq!(system.arcs().heads(), tree.heads(), "{} does not rebuild the tree", S::NAME);
    assert_eq!(costs.len() as u32, 2 * (tree.words() + 1) - 1, "{}", S::NAME);
    costs
}

fn tree(heads: &[u32]) -> Tree {
    let mut tree = Tree::default();
    tree.set_heads(heads.iter().copied());
    tree
}

fn highest<S: TransitionSystem>(heads: &[u32]) -> u32 {
    costs::<S>(&tree(heads)).into_iter().max().expect("a transition")
}

/// All projective trees with one root on `words` words.
fn all_trees(words: u32) -> Vec<Tree> {
    fn fill(at: usize, heads: &mut Vec<u32>, out: &mut Vec<Tree>) {
        if at == heads.len() {
            let tree = tree(heads);
            if tree.roots() == 1 && tree.is_projective() {
                out.push(tree);
            }
            return;
        }
        for head in (0..=heads.len() as u32).filter(|&head| head as usize != at + 1) {
            heads[at] = head;
            fill(at + 1, heads, out);
        }
    }
    let mut out = vec![];
    fill(0, &mut vec![0; words as usize], &mut out);
    out
}

/// Number of single-root projective trees on 1 ..= 7 words.
const TREES: [usize; 7] = [1, 2, 7, 30, 143, 728, 3876];

#[test]
fn every_oracle_rebuilds_every_small_tree_and_depths_are_exact() {
    // Trees whose left-corner stack stays within 1 and 2, over configurations after reduce-type actions.
    let reduced = [[1, 1], [2, 2], [7, 7], [25, 30], [90, 143], [325, 715], [1175, 3648]];
    // Within 1, 2 and 3 over all configurations, for 3 ..= 6 words.
    let all = [[4, 7, 7], [8, 30, 30], [16, 135, 143], [32, 615, 728]];
    for words in 1..=7u32 {
        let trees = all_trees(words);
        assert_eq!(trees.len(), TREES[words as usize - 1]);
        let mut depths = vec![];
        for tree in &trees {
            costs::<ArcStandard>(tree);
            costs::<ArcEager>(tree);
            costs::<LeftCorner>(tree);
            let (mut any, mut after_reduce) = (0, 0);
            follow_oracle(&mut LeftCorner::default(), tree, |c, action: left_corner::Transition| {
                any = any.max(c.memory_cost());
                if !action.is_shift_type() {
                    after_reduce = after_reduce.max(c.memory_cost());
                }
            });
            depths.push((any, after_reduce));
        }
        let within = |limit, of: fn(&(u32, u32)) -> u32| depths.iter().filter(|d| of(d) <= limit).count();
        assert_eq!([1, 2].map(|limit| within(limit, |d| d.1)), reduced[words as usize - 1], "{words} words");
        if (3..=6).contains(&words) {
            assert_eq!([1, 2, 3].map(|limit| within(limit, |d| d.0)), all[words as usize - 3], "{words} words");
        }
    }
}
