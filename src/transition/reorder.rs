//! Random projective reordering (Gildea & Temperley 2007): the children of every node are shuffled, subtrees stay
//! contiguous, and the dummy root stays behind the last word.
//!
//! The paper does not say where the head goes. By default it is shuffled together with its children, so that all
//! (k + 1)! orders of a head with k children are equally likely; with [`HeadPlacement::Sides`] each child chooses its
//! side of the head by a fair coin, and each side is shuffled.

use rand::{Rng, RngExt, seq::SliceRandom};
use serde::{Deserialize, Serialize};

use crate::corpus::tree::Tree;

/// Where a head is put among its shuffled children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeadPlacement {
    #[default]
    Uniform,
    Sides,
}

/// Reusable buffers for reordering.
#[derive(Default)]
pub struct Reorderer {
    /// A head with its children, in their new order; the block of each head starts at `starts[head]`.
    families: Vec<u32>,
    starts: Vec<u32>,
    /// New position by old node.
    position: Vec<u32>,
    /// Families whose walk was interrupted by that of a member.
    open: Vec<Walk>,
    /// Children that chose the right side.
    right: Vec<u32>,
}

impl Reorderer {
    /// Writes a random reordering of `tree` into `out`.
    pub fn reorder(&mut self, tree: &Tree, placement: HeadPlacement, rng: &mut impl Rng, out: &mut Tree) {
        self.gather_families(tree);
        self.shuffle_families(tree, placement, rng);
        self.number_nodes(tree);
        let position = &self.position;
        out.rearrange(tree, |node| position[node as usize]);
    }

    /// Puts each node behind its children, block by block.
    fn gather_families(&mut self, tree: &Tree) {
        let root = tree.root() as usize;
        self.starts.clear();
        self.starts.resize(root + 2, 0);
        self.families.clear();
        for node in 1..=root as u32 {
            self.starts[node as usize] = self.families.len() as u32;
            for dependent in tree.dependents_backwards(node) {
                self.families.push(dependent);
            }
            self.families.push(node);
        }
        self.starts[root + 1] = self.families.len() as u32;
    }

    fn shuffle_families(&mut self, tree: &Tree, placement: HeadPlacement, rng: &mut impl Rng) {
        let root = tree.root();
        for node in 1..=root {
            let block = self.starts[node as usize] as usize..self.starts[node as usize + 1] as usize;
            let family = &mut self.families[block];
            if family.len() == 1 {
                continue;
            }
            let last = family.len() - 1;
            if node == root {
                family[..last].shuffle(rng);
            } else if placement == HeadPlacement::Uniform {
                family.shuffle(rng);
            } else {
                family[..last].shuffle(rng);
                place_by_sides(family, &mut self.right, rng);
            }
        }
    }

    /// Numbers the nodes by walking the families from the root's on.
    fn number_nodes(&mut self, tree: &Tree) {
        self.position.clear();
        self.position.resize(tree.root() as usize + 1, 0);
        self.open.clear();
        let mut written = 0;
        let mut walk = Walk::of(tree.root(), &self.starts);
        loop {
            if walk.next == walk.end {
                match self.open.pop() {
                    Some(outer) => walk = outer,
                    None => return,
                }
                continue;
            }
            let node = self.families[walk.next as usize];
            walk.next += 1;
            let inner = Walk::of(node, &self.starts);
            if node == walk.head || inner.end - inner.next == 1 {
                written += 1;
                self.position[node as usize] = written;
            } else {
                self.open.push(std::mem::replace(&mut walk, inner));
            }
        }
    }
}

/// Where the walk through the family of `head` has come to.
#[derive(Clone, Copy)]
struct Walk {
    head: u32,
    next: u32,
    end: u32,
}

impl Walk {
    #[inline]
    fn of(head: u32, starts: &[u32]) -> Walk {
        Walk { head, next: starts[head as usize], end: starts[head as usize + 1] }
    }
}

/// The head, last in `family`, moves between the children that chose the left and those that chose the right.
fn place_by_sides(family: &mut [u32], right: &mut Vec<u32>, rng: &mut impl Rng) {
    let (&mut head, children) = family.split_last_mut().expect("a head");
    right.clear();
    let mut left = 0;
    for i in 0..children.len() {
        if rng.random::<bool>() {
            children[left] = children[i];
            left += 1;
        } else {
            right.push(children[i]);
        }
    }
    family[left] = head;
    family[left + 1..].copy_from_slice(right);
}
