//! Arc-eager (Nivre 2003): right dependents are attached as soon as they are read.
//!
//! Memory cost: connected components on the stack, plus one when the front of the buffer has left dependents already.
//! A stack item that has a head has it on the stack right below (RIGHT-ARC is the only way to have one and stay), so
//! the components are the stack items without a head. The oracle prefers reduce to shift.

use super::{Arcs, Label, TransitionSystem};
use crate::corpus::tree::Tree;

/// The buffer is `next ..= root`.
#[derive(Clone, Debug, Default)]
pub struct ArcEager {
    stack: Vec<u32>,
    next: u32,
    root: u32,
    arcs: Arcs,
    /// Stack items without a head.
    components: u32,
    /// Whether the front of the buffer has left dependents.
    front_has_dependents: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Transition {
    /// Moves the front of the buffer to the stack.
    Shift,
    /// Removes the top, which has a head.
    Reduce,
    /// The front of the buffer becomes the head of the top, which leaves the stack.
    LeftArc(Label),
    /// The top becomes the head of the front of the buffer, which moves to the stack.
    RightArc(Label),
}

impl ArcEager {
    /// The front of the buffer has been moved to the stack.
    #[inline]
    fn push_front(&mut self) {
        self.stack.push(self.next);
        self.next += 1;
        self.front_has_dependents = false;
    }
}

impl TransitionSystem for ArcEager {
    type Transition = Transition;
    const NAME: &'static str = "arc-eager";

    fn start(&mut self, words: u32) {
        self.stack.clear();
        self.next = 1;
        self.root = words + 1;
        self.arcs.clear(self.root);
        self.components = 0;
        self.front_has_dependents = false;
    }

    #[inline]
    fn is_final(&self) -> bool {
        self.next > self.root
    }

    fn is_legal(&self, transition: Transition) -> bool {
        let top = self.stack.last().copied();
        let top_has_head = top.is_some_and(|top| self.arcs.head(top) != 0);
        match transition {
            // The root is read last, when everything else has found its head.
            Transition::Shift => self.next < self.root || (self.next == self.root && self.stack.is_empty()),
            Transition::Reduce => top_has_head,
            Transition::LeftArc(_) => self.next <= self.root && top.is_some() && !top_has_head,
            Transition::RightArc(_) => self.next < self.root && top.is_some(),
        }
    }

    #[inline]
    fn apply(&mut self, transition: Transition) {
        match transition {
            Transition::Shift => {
                self.push_front();
                self.components += 1;
            }
            Transition::Reduce => {
                self.stack.pop();
            }
            Transition::LeftArc(label) => {
                let top = self.stack.pop().expect("an item");
                self.arcs.add(self.next, top, label);
                self.components -= 1;
                self.front_has_dependents = true;
            }
            Transition::RightArc(label) => {
                let top = *self.stack.last().expect("an item");
                self.arcs.add(top, self.next, label);
                self.push_front();
            }
        }
    }

    #[inline]
    fn oracle(&self, gold: &Tree) -> Transition {
        let Some(&top) = self.stack.last() else { return Transition::Shift };
        if gold.head(top) == self.next {
            Transition::LeftArc(gold.label(top))
        } else if gold.head(self.next) == top {
            Transition::RightArc(gold.label(self.next))
        } else if self.arcs.head(top) != 0 && gold.last_dependent(top) < self.next {
            Transition::Reduce
        } else {
            Transition::Shift
        }
    }

    #[inline]
    fn memory_cost(&self) -> u32 {
        self.components + u32::from(self.front_has_dependents)
    }

    fn arcs(&self) -> &Arcs {
        &self.arcs
    }
}
