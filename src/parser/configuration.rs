//! Configurations of generative arc-standard parsing, many at once.
//!
//! A derivation is a chain of immutable items in one arena: shifting adds an item on top of another, an arc adds a new
//! version of its head with one more child. So derivations share all that they have in common, branching costs one item
//! of 64 bytes, and the contexts that distributions are conditioned on are read off the top item. The chain back to the
//! beginning is the derivation, from which the tree is read.
//!
//! Words are 0 .. n; the dummy root is generated last, as word n with the tag [`crate::parser::lexicon::Lexicon::root`].

use super::element::{Attribute, Element, PREVIOUS, STACK, Start};
use crate::transition::Label;
use crate::transition::arc_standard::Transition;

/// No item: below the bottom of the stack.
pub const NOTHING: u32 = u32::MAX;

/// The value of an element where there is no such node; others are one more than a tag, word or label.
pub const ABSENT: u32 = 0;

/// A stack item, after a transition.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// The word that it is.
    pub word: u32,
    pub tag: u32,
    pub form: u32,
    /// The item below it on the stack.
    below: u32,
    /// The top of the stack before the transition that made this item.
    before: u32,
    pub transition: Transition,
    /// The item that the last word was shifted as.
    last: u32,
    /// Items on the stack.
    pub depth: u32,
    /// Children by side and rank, and the labels of their arcs.
    children: [[u32; 2]; 2],
    labels: [[Label; 2]; 2],
    /// How many children it has on each side, up to 3.
    counts: [u8; 2],
}

/// An arena of items.
#[derive(Clone, Debug, Default)]
pub struct Configurations {
    items: Vec<Item>,
}

impl Configurations {
    /// Forgets all items.
    pub fn clear(&mut self) {
        self.items.clear();
    }

    pub fn item(&self, at: u32) -> &Item {
        &self.items[at as usize]
    }

    /// Items on the stack whose top is `top`.
    #[inline]
    pub fn depth(&self, top: u32) -> u32 {
        if top == NOTHING { 0 } else { self.items[top as usize].depth }
    }

    /// The item below another on the stack.
    #[inline]
    pub fn below(&self, at: u32) -> u32 {
        self.items[at as usize].below
    }

    fn push(&mut self, item: Item) -> u32 {
        self.items.push(item);
        self.items.len() as u32 - 1
    }

    /// Shifts a word onto the stack; returns the new top.
    #[inline]
    pub fn shift(&mut self, top: u32, word: u32, tag: u32, form: u32) -> u32 {
        let depth = self.depth(top) + 1;
        self.push(Item {
            word,
            tag,
            form,
            below: top,
            before: top,
            transition: Transition::Shift,
            last: self.items.len() as u32,
            depth,
            children: [[NOTHING; 2]; 2],
            labels: [[Label(0); 2]; 2],
            counts: [0; 2],
        })
    }

    /// Takes a reduce transition where there are two items; returns the new top.
    #[inline]
    pub fn reduce(&mut self, top: u32, transition: Transition) -> u32 {
        let first = self.items[top as usize];
        let second = self.items[first.below as usize];
        let (head, child, below, side, label) = match transition {
            Transition::LeftArc(label) => (first, first.below, second.below, 0, label),
            Transition::RightArc(label) => (second, top, second.below, 1, label),
            Transition::Shift => unreachable!("a shift reduces nothing"),
        };
        let mut item = Item { below, before: top, transition, last: first.last, depth: second.depth, ..head };
        item.children[side] = [child, head.children[side][0]];
        item.labels[side] = [label, head.labels[side][0]];
        item.counts[side] = (head.counts[side] + 1).min(3);
        self.push(item)
    }

    /// The values of a context's elements where `top` is the top of the stack; `tag` is that of the word that is being
    /// generated.
    #[inline]
    pub fn values(&self, top: u32, elements: &[Element], tag: u32, values: &mut [u32]) {
        let mut stack = [NOTHING; STACK];
        let mut at = top;
        for place in &mut stack {
            if at == NOTHING {
                break;
            }
            *place = at;
            at = self.items[at as usize].below;
        }
        let mut previous = [NOTHING; PREVIOUS];
        let mut at = top;
        for place in &mut previous {
            if at == NOTHING {
                break;
            }
            *place = self.items[at as usize].last;
            at = self.items[*place as usize].before;
        }
        for (value, element) in values.iter_mut().zip(elements) {
            *value = self.value(&stack, &previous, element, tag);
        }
    }

    #[inline]
    fn value(&self, stack: &[u32; STACK], previous: &[u32; PREVIOUS], element: &Element, tag: u32) -> u32 {
        let mut at = match element.start {
            Start::Next => return tag + 1,
            Start::Stack(place) => stack[place],
            Start::Previous(place) => previous[place],
        };
        let mut label = Label(0);
        for child in &element.children {
            if at == NOTHING {
                return ABSENT;
            }
            let (item, side) = (&self.items[at as usize], usize::from(!child.is_left));
            at = item.children[side][child.rank];
            label = item.labels[side][child.rank];
        }
        if at == NOTHING {
            return ABSENT;
        }
        let item = &self.items[at as usize];
        match element.attribute {
            Attribute::Tag => item.tag + 1,
            Attribute::Word => item.form + 1,
            Attribute::Label => u32::from(label.0) + 1,
            Attribute::Valency => u32::from(item.counts[0] * 4 + item.counts[1]) + 1,
            Attribute::Distance => distance(self.items[previous[0] as usize].word + 1 - item.word),
        }
    }

    /// Shows the items of the derivation that ends with `top`, the last first, each with the top of the stack before it.
    pub fn backwards(&self, top: u32) -> impl Iterator<Item = (&Item, u32)> {
        let mut at = top;
        std::iter::from_fn(move || {
            let item = self.items.get(at as usize)?;
            at = item.before;
            Some((item, item.before))
        })
    }

    /// Shows the arcs of the derivation that ends with `top`: dependent, head, label.
    pub fn arcs(&self, top: u32, mut show: impl FnMut(u32, u32, Label)) {
        for (item, before) in self.backwards(top) {
            match item.transition {
                Transition::Shift => {}
                Transition::LeftArc(label) => {
                    let below = self.items[before as usize].below;
                    show(self.items[below as usize].word, item.word, label);
                }
                Transition::RightArc(label) => show(self.items[before as usize].word, item.word, label),
            }
        }
    }
}

/// A distance in words, in classes.
fn distance(words: u32) -> u32 {
    match words {
        0..4 => words,
        4..7 => 4,
        _ => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_and_arcs_are_those_of_the_derivation() {
        let mut arena = Configurations::default();
        let (left, right) = (Transition::LeftArc(Label(4)), Transition::RightArc(Label(5)));
        // 0 <- 1 -> 2, and 3 on top.
        let mut top = arena.shift(NOTHING, 0, 10, 20);
        top = arena.shift(top, 1, 11, 21);
        top = arena.reduce(top, left);
        top = arena.shift(top, 2, 12, 22);
        top = arena.reduce(top, right);
        let two = top;
        top = arena.shift(top, 3, 13, 23);
        let value = |text: &str| {
            let mut values = [9];
            arena.values(top, &[Element::parse(text).unwrap()], 7, &mut values);
            values[0]
        };
        assert_eq!(["s1.t", "s2.w", "s3.t", "b.t"].map(value), [14, 22, ABSENT, 8]);
        assert_eq!(["lc1(s2).t", "rc1(s2).w", "rc1(s2).l", "lc1(s2).l"].map(value), [11, 23, 6, 5]);
        assert_eq!(["p1.t", "p2.w", "s1.v", "s2.v", "s1.d", "s2.d"].map(value), [14, 23, 1, 6, 1, 3]);
        assert_eq!(["lc2(s2).t", "rc1(s1).t", "lc1(rc1(s2)).t"].map(value), [ABSENT; 3]);
        let mut arcs = vec![];
        arena.arcs(two, |dependent, head, label| arcs.push((dependent, head, label.0)));
        assert_eq!(arcs, [(2, 1, 5), (0, 1, 4)]);
    }
}
