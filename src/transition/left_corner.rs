//! Left-corner (Noji & Miyao 2014, Figure 2): predicts heads and dependents as dummy nodes and composes subtrees.
//!
//! A stack element is the right spine of a subtree. It is *incomplete* while its last node is a dummy x(lambda), where
//! lambda are the left dependents that the dummy has already. Shift-type actions (SHIFT, INSERT) and reduce-type
//! actions (the four others) alternate; after a shift-type action the top is complete.
//!
//! Of a spine, only three things are ever looked at: its head (sigma_11), the node right above the dummy (`i` in the
//! paper) and lambda. That is what `Spine` keeps, so an element is 12 bytes and no action walks a spine. The members
//! of lambda are chained through one array shared by all elements.
//!
//! Memory cost: stack elements. The oracle composes or inserts when it can; what the paper leaves open is settled so
//! that it rebuilds every projective tree:
//! - RIGHT-COMP needs *exactly one* more dependent in the buffer, RIGHT-PRED *at least one*: only the top of a spine
//!   can take further dependents later.
//! - RIGHT-COMP attaches sigma_11 to `i` where there is one; without `i` it never fires under this oracle.
//! - INSERT without `i` asks only that some member of lambda has the front as head, which may still have right
//!   dependents; with `i`, the front must have none.
//! - The derivation ends with the INSERT of the dummy root.

use super::{Arcs, Label, TransitionSystem};
use crate::corpus::tree::Tree;

#[derive(Clone, Debug, Default)]
pub struct LeftCorner {
    stack: Vec<Spine>,
    /// The member of lambda that joined before this one, 0 at the first; by node.
    joined_before: Vec<u32>,
    /// Label that a member of lambda will have, by node.
    future_label: Vec<Label>,
    next: u32,
    root: u32,
    arcs: Arcs,
    /// Whether the last action was a shift-type one, so that a reduce-type one is due.
    reduce_is_due: bool,
}

/// A right spine, reduced to what actions look at. 0 stands for "none".
#[derive(Clone, Copy, Debug)]
struct Spine {
    /// The topmost node; none when that is the dummy.
    head: u32,
    /// The node above the dummy; none when the dummy is the topmost node. Meaningless in a complete spine.
    above: u32,
    /// The left dependent that the dummy got last.
    lambda: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Transition {
    /// The front of the buffer becomes a stack element of its own.
    Shift,
    /// The front of the buffer takes the place of the top's dummy; labelled for its arc from the node above.
    Insert(Label),
    /// The top becomes the left dependent of a new dummy.
    LeftPred(Label),
    /// The top's head gets a new dummy as right dependent.
    RightPred,
    /// The top becomes a left dependent of the dummy below it.
    LeftComp(Label),
    /// The top takes the place of the dummy below it and gets a new dummy as right dependent.
    RightComp(Label),
}

impl Transition {
    /// Whether this is SHIFT or INSERT.
    pub fn is_shift_type(self) -> bool {
        matches!(self, Transition::Shift | Transition::Insert(_))
    }
}

/// Whether `elements` incomplete elements can become one whose dummy is its head, ready for the root, within
/// `words_left` words: a word can join two elements (INSERT, then a composition), and one more is needed to turn a
/// bottom element that waits for a right dependent (`bottom_waits`) into one that waits for a head.
fn can_close(elements: u32, bottom_waits: bool, words_left: u32) -> bool {
    words_left + 1 >= elements + u32::from(bottom_waits)
}

impl LeftCorner {
    /// Puts `node` where the dummy of `spine` is: arcs to the members of lambda, and from the node above.
    #[inline]
    fn fill_dummy(&mut self, spine: Spine, node: u32, label: Label) {
        let mut member = spine.lambda;
        while member != 0 {
            self.arcs.add(node, member, self.future_label[member as usize]);
            member = self.joined_before[member as usize];
        }
        if spine.above != 0 {
            self.arcs.add(spine.above, node, label);
        }
    }

    /// `node` joins the left dependents whose last one was `lambda`.
    #[inline]
    fn join(&mut self, node: u32, lambda: u32, label: Label) {
        self.joined_before[node as usize] = lambda;
        self.future_label[node as usize] = label;
    }

    #[inline]
    fn oracle_shift(&self, gold: &Tree) -> Transition {
        let next = self.next;
        match self.stack.last() {
            // After a reduce-type action the top is incomplete.
            Some(top) => {
                let insert = if top.above != 0 {
                    gold.head(next) == top.above && gold.last_dependent(next) <= next
                } else {
                    // All members of lambda have the same gold head.
                    top.lambda != 0 && gold.head(top.lambda) == next
                };
                if insert { Transition::Insert(gold.label(next)) } else { Transition::Shift }
            }
            None => Transition::Shift,
        }
    }

    #[inline]
    fn oracle_reduce(&self, gold: &Tree) -> Transition {
        let next = self.next;
        let top = self.stack[self.stack.len() - 1].head;
        let last = gold.last_dependent(top);
        if last < next {
            // No more dependents in the buffer: the top is to become a left dependent.
            let head = gold.head(top);
            if let [.., below, _] = *self.stack.as_slice() {
                let is_left_dependent = if below.above != 0 {
                    // The head of the top is the leftmost dependent of `above` that is still in the buffer.
                    head >= next && gold.head(head) == below.above && gold.previous_sibling(head) < next
                } else {
                    gold.head(below.lambda) == head
                };
                if is_left_dependent {
                    return Transition::LeftComp(gold.label(top));
                }
            }
            return Transition::LeftPred(gold.label(top));
        }
        if let [.., below, _] = *self.stack.as_slice()
            && gold.previous_sibling(last) < next // exactly one more dependent
            && below.above != 0
            && gold.head(top) == below.above
        {
            return Transition::RightComp(gold.label(top));
        }
        Transition::RightPred
    }
}

impl TransitionSystem for LeftCorner {
    type Transition = Transition;
    const NAME: &'static str = "left-corner";

    fn start(&mut self, words: u32) {
        self.stack.clear();
        self.next = 1;
        self.root = words + 1;
        self.arcs.clear(self.root);
        let nodes = self.root as usize + 1;
        if self.joined_before.len() < nodes {
            self.joined_before.resize(nodes, 0);
            self.future_label.resize(nodes, Label::default());
        }
        self.reduce_is_due = false;
    }

    #[inline]
    fn is_final(&self) -> bool {
        self.next > self.root
    }

    fn is_legal(&self, transition: Transition) -> bool {
        if self.is_final() || transition.is_shift_type() == self.reduce_is_due {
            return false;
        }
        let elements = self.stack.len() as u32;
        let words_left = self.root - self.next; // the root itself is not counted
        let bottom_waits = self.stack.first().is_some_and(|bottom| bottom.above != 0);
        match transition {
            Transition::Shift => match elements {
                0 => words_left >= 1,
                _ => words_left > 0 && can_close(elements, bottom_waits, words_left - 1),
            },
            Transition::Insert(_) => elements >= 1 && (words_left >= 1 || (elements == 1 && !bottom_waits)),
            Transition::LeftPred(_) => can_close(elements, elements > 1 && bottom_waits, words_left),
            Transition::RightPred => can_close(elements, elements == 1 || bottom_waits, words_left),
            Transition::LeftComp(_) => elements >= 2 && can_close(elements - 1, bottom_waits, words_left),
            Transition::RightComp(_) => {
                elements >= 2 && can_close(elements - 1, elements == 2 || bottom_waits, words_left)
            }
        }
    }

    #[inline]
    fn apply(&mut self, transition: Transition) {
        self.reduce_is_due = transition.is_shift_type();
        match transition {
            Transition::Shift => {
                self.stack.push(Spine { head: self.next, above: 0, lambda: 0 });
                self.next += 1;
            }
            Transition::Insert(label) => {
                let top = *self.stack.last().expect("an incomplete element");
                self.fill_dummy(top, self.next, label);
                let head = if top.head != 0 { top.head } else { self.next };
                *self.stack.last_mut().expect("the same element") = Spine { head, above: 0, lambda: 0 };
                self.next += 1;
            }
            Transition::LeftPred(label) => {
                let head = self.stack.last().expect("a complete element").head;
                self.join(head, 0, label);
                *self.stack.last_mut().expect("the same element") = Spine { head: 0, above: 0, lambda: head };
            }
            Transition::RightPred => {
                let top = self.stack.last_mut().expect("a complete element");
                *top = Spine { head: top.head, above: top.head, lambda: 0 };
            }
            Transition::LeftComp(label) => {
                let node = self.stack.pop().expect("a complete element").head;
                let lambda = self.stack.last().expect("an incomplete element").lambda;
                self.join(node, lambda, label);
                self.stack.last_mut().expect("the same element").lambda = node;
            }
            Transition::RightComp(label) => {
                let node = self.stack.pop().expect("a complete element").head;
                let below = *self.stack.last().expect("an incomplete element");
                self.fill_dummy(below, node, label);
                let head = if below.head != 0 { below.head } else { node };
                *self.stack.last_mut().expect("the same element") = Spine { head, above: node, lambda: 0 };
            }
        }
    }

    #[inline]
    fn oracle(&self, gold: &Tree) -> Transition {
        if self.reduce_is_due { self.oracle_reduce(gold) } else { self.oracle_shift(gold) }
    }

    #[inline]
    fn memory_cost(&self) -> u32 {
        self.stack.len() as u32
    }

    fn arcs(&self) -> &Arcs {
        &self.arcs
    }
}
