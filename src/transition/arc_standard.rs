//! Arc-standard (Nivre 2003): reduce actions connect the two topmost stack items.
//!
//! Memory cost: stack items, since none of them is connected to another. The oracle prefers reduce to shift.

use super::{Arcs, Label, TransitionSystem};
use crate::corpus::tree::Tree;

/// The stack holds roots of finished or growing subtrees; the buffer is `next ..= root`.
#[derive(Clone, Debug, Default)]
pub struct ArcStandard {
    stack: Vec<u32>,
    next: u32,
    root: u32,
    arcs: Arcs,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Transition {
    /// Moves the front of the buffer to the stack.
    Shift,
    /// The top becomes the head of the item below it, which leaves the stack.
    LeftArc(Label),
    /// The item below the top becomes the head of the top, which leaves the stack.
    RightArc(Label),
}

impl ArcStandard {
    /// The two topmost items, (below, top), where there are two.
    #[inline]
    fn top_two(&self) -> Option<(u32, u32)> {
        match *self.stack.as_slice() {
            [.., below, top] => Some((below, top)),
            _ => None,
        }
    }

    /// All transitions that lead from here to `gold`, when this configuration was reached by following them.
    pub fn oracles(&self, gold: &Tree) -> impl Iterator<Item = Transition> {
        let (first, may_wait) = oracle(self.top_two(), self.next, gold);
        [Some(first), may_wait.then_some(Transition::Shift)].into_iter().flatten()
    }
}

/// The non-deterministic oracle (Buys & Blunsom 2015, section 2), where these are the two topmost items (below, top) and
/// `next` is the front of the buffer: the transition that leads to `gold`, and whether it may wait, so that a shift does so
/// too. Right arcs are added as soon as they can be; a left arc may wait as long as its head has right dependents to come.
#[inline]
pub fn oracle(top_two: Option<(u32, u32)>, next: u32, gold: &Tree) -> (Transition, bool) {
    match top_two {
        Some((below, top)) if gold.head(below) == top => {
            (Transition::LeftArc(gold.label(below)), gold.last_dependent(top) >= next)
        }
        // Everything above `top` has been reduced, so `top` has all its dependents once the last one was read.
        Some((below, top)) if gold.head(top) == below && gold.last_dependent(top) < next => {
            (Transition::RightArc(gold.label(top)), false)
        }
        _ => (Transition::Shift, false),
    }
}

impl TransitionSystem for ArcStandard {
    type Transition = Transition;
    const NAME: &'static str = "arc-standard";

    fn start(&mut self, words: u32) {
        self.stack.clear();
        self.next = 1;
        self.root = words + 1;
        self.arcs.clear(self.root);
    }

    #[inline]
    fn is_final(&self) -> bool {
        self.next > self.root && self.stack.len() == 1
    }

    fn is_legal(&self, transition: Transition) -> bool {
        match transition {
            Transition::Shift => self.next <= self.root,
            Transition::LeftArc(_) => self.stack.len() >= 2,
            // The dummy root is nobody's dependent.
            Transition::RightArc(_) => self.top_two().is_some_and(|(_, top)| top != self.root),
        }
    }

    #[inline]
    fn apply(&mut self, transition: Transition) {
        match transition {
            Transition::Shift => {
                self.stack.push(self.next);
                self.next += 1;
            }
            Transition::LeftArc(label) => {
                let top = self.stack.pop().expect("two items");
                let below = std::mem::replace(self.stack.last_mut().expect("two items"), top);
                self.arcs.add(top, below, label);
            }
            Transition::RightArc(label) => {
                let top = self.stack.pop().expect("two items");
                let below = *self.stack.last().expect("two items");
                self.arcs.add(below, top, label);
            }
        }
    }

    #[inline]
    fn oracle(&self, gold: &Tree) -> Transition {
        oracle(self.top_two(), self.next, gold).0
    }

    #[inline]
    fn memory_cost(&self) -> u32 {
        self.stack.len() as u32
    }

    fn arcs(&self) -> &Arcs {
        &self.arcs
    }
}
