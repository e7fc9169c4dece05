//! Configurations of generative parsing, many at once: what all systems share, and arc-standard; [`super::left_corner`] is the
//! other one.
//!
//! A derivation is a chain of immutable items in one arena: shifting adds an item on top of another, an arc adds a new
//! version of its head with one more child. So derivations share all that they have in common, branching costs one item
//! or two of 80 bytes, and the contexts that distributions are conditioned on are read off the top item. The chain back to the
//! beginning is the derivation, from which the tree is read.
//!
//! Words are 0 .. n; the dummy root is generated last, as word n with the tag [`crate::parser::lexicon::Lexicon::root`].

use super::action::{Action, System};
use super::element::{Attribute, Element, PREVIOUS, Relation, STACK, Start};
use super::left_corner::Outline;
use crate::transition::{Label, LeftCorner, TransitionSystem};

/// No item: below the bottom of the stack.
pub const NOTHING: u32 = u32::MAX;

/// The value of an element where there is no such node; others are one more than a tag, word or label.
pub const ABSENT: u32 = 0;

/// A stack item, after an action.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// The word that it is; [`NOTHING`] of a dummy.
    pub word: u32,
    pub tag: u32,
    pub form: u32,
    /// The item below it on the stack.
    pub(super) below: u32,
    /// The top of the stack before the action that made this item.
    pub(super) before: u32,
    pub action: Action,
    /// The item that the last word was generated as.
    pub(super) last: u32,
    /// Items on the stack.
    pub depth: u32,
    /// Children by side and rank, and the labels of their arcs. Of a dummy, the one that came last is first.
    pub(super) children: [[u32; 2]; 2],
    pub(super) labels: [[Label; 2]; 2],
    /// How many children it has on each side, up to 3.
    pub(super) counts: [u8; 2],
    /// Of a dummy: the node above it, and the head of its element.
    pub(super) above: u32,
    pub(super) head: u32,
    pub(super) outline: Outline,
}

impl Item {
    /// The same with one more child.
    #[inline]
    pub(super) fn with_child(mut self, side: usize, child: u32, label: Label) -> Item {
        self.children[side] = [child, self.children[side][0]];
        self.labels[side] = [label, self.labels[side][0]];
        self.counts[side] = (self.counts[side] + 1).min(3);
        self
    }
}

/// What is known of the word that is being generated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upcoming {
    /// Its tag, where that is known.
    pub tag: u32,
    /// [`Action::value`] of what generates it.
    pub action: u32,
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

    #[inline]
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

    /// Number of items.
    pub(super) fn len(&self) -> u32 {
        self.items.len() as u32
    }

    /// An item, where there is one.
    #[inline]
    pub(super) fn get(&self, at: u32) -> Option<&Item> {
        self.items.get(at as usize)
    }

    #[inline]
    pub(super) fn push(&mut self, item: Item) -> u32 {
        self.items.push(item);
        self.items.len() as u32 - 1
    }

    /// Shifts a word onto the stack; returns the new top.
    #[inline]
    pub fn shift(&mut self, top: u32, word: u32, tag: u32, form: u32) -> u32 {
        let depth = self.depth(top) + 1;
        let outline = self.get(top).map_or(Outline::default(), |item| item.outline).shifted();
        self.push(Item {
            word,
            tag,
            form,
            below: top,
            before: top,
            action: Action::Shift,
            last: self.items.len() as u32,
            depth,
            children: [[NOTHING; 2]; 2],
            labels: [[Label(0); 2]; 2],
            counts: [0; 2],
            above: NOTHING,
            head: NOTHING,
            outline,
        })
    }

    /// Generates a word; returns the new top.
    #[inline]
    pub fn generate(&mut self, top: u32, action: Action, word: u32, tag: u32, form: u32) -> u32 {
        match action {
            Action::Shift => self.shift(top, word, tag, form),
            insert => self.insert(top, insert, word, tag, form),
        }
    }

    /// Takes an action that generates no word; returns the new top.
    #[inline]
    pub fn reduce(&mut self, top: u32, action: Action) -> u32 {
        let (side, label) = match action {
            Action::LeftArc(label) => (0, label),
            Action::RightArc(label) => (1, label),
            action => return self.compose(top, action),
        };
        let first = self.items[top as usize];
        let second = self.items[first.below as usize];
        let (head, child) = if side == 0 { (first, first.below) } else { (second, top) };
        let head = head.with_child(side, child, label);
        self.push(Item { below: second.below, before: top, action, last: first.last, depth: second.depth, ..head })
    }

    /// Whether there is something to choose: else a shift is the only way.
    #[inline]
    pub fn has_choice(&self, top: u32, system: System) -> bool {
        match system {
            System::ArcStandard => self.depth(top) >= 2,
            System::LeftCorner => top != NOTHING,
        }
    }

    /// Whether a dummy with a node above is on top.
    pub fn has_above(&self, top: u32) -> bool {
        self.get(top).is_some_and(|item| item.above != NOTHING)
    }

    /// The values of a context's elements where `top` is the top of the stack, and `upcoming` is what is known of the word
    /// that is being generated.
    #[inline]
    pub fn values(&self, top: u32, elements: &[Element], upcoming: Upcoming, values: &mut [u32]) {
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
            *value = self.value(&stack, &previous, element, upcoming);
        }
    }

    #[inline]
    fn value(&self, stack: &[u32; STACK], previous: &[u32; PREVIOUS], element: &Element, upcoming: Upcoming) -> u32 {
        let mut at = match element.start {
            Start::Next if element.attribute == Attribute::Label => return upcoming.action,
            Start::Next => return upcoming.tag + 1,
            Start::Stack(place) => stack[place],
            Start::Previous(place) => previous[place],
        };
        let mut label = Label(0);
        for relation in &element.relations {
            if at == NOTHING {
                return ABSENT;
            }
            let item = &self.items[at as usize];
            match *relation {
                Relation::Child { is_left, rank } => {
                    let side = usize::from(!is_left);
                    at = item.children[side][rank];
                    label = item.labels[side][rank];
                }
                Relation::Above => at = item.above,
                Relation::Head => at = item.head,
            }
        }
        if at == NOTHING {
            return ABSENT;
        }
        let item = &self.items[at as usize];
        match element.attribute {
            // Of a dummy, nothing is known but what it is connected to.
            Attribute::Tag | Attribute::Word | Attribute::Distance if item.word == NOTHING => ABSENT,
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

    /// Word, tag and form of the words of the derivation that ends with `top`, the last first.
    pub fn words(&self, top: u32) -> impl Iterator<Item = &Item> {
        self.backwards(top).filter(|(item, _)| item.action.has_word()).map(|(item, _)| &self.items[item.last as usize])
    }

    /// Shows the arcs of the derivation that ends with `top`, whose last word is the dummy root: dependent, head, label.
    pub fn arcs(&self, top: u32, mut show: impl FnMut(u32, u32, Label)) {
        if self.items[top as usize].action == Action::InsertHead {
            return self.corner_arcs(top, show);
        }
        for (item, before) in self.backwards(top) {
            match item.action {
                Action::LeftArc(label) => {
                    let below = self.items[before as usize].below;
                    show(self.items[below as usize].word, item.word, label);
                }
                Action::RightArc(label) => show(self.items[before as usize].word, item.word, label),
                _ => {}
            }
        }
    }

    /// The same of left-corner, whose arcs may be decided long before their heads are there: the derivation is done again.
    fn corner_arcs(&self, top: u32, mut show: impl FnMut(u32, u32, Label)) {
        let mut actions: Vec<Action> = self.backwards(top).map(|(item, _)| item.action).collect();
        actions.reverse();
        let words = self.items[self.items[top as usize].last as usize].word;
        let mut system = LeftCorner::default();
        system.start(words);
        for action in actions {
            system.apply(action.to_left_corner().expect("an action of left-corner"));
        }
        for word in 1..=words {
            show(word - 1, system.arcs().head(word) - 1, system.arcs().label(word));
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
        let (left, right) = (Action::LeftArc(Label(4)), Action::RightArc(Label(5)));
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
            arena.values(top, &[Element::parse(text).unwrap()], Upcoming { tag: 7, action: 3 }, &mut values);
            values[0]
        };
        assert_eq!(["s1.t", "s2.w", "s3.t", "b.t", "b.l"].map(value), [14, 22, ABSENT, 8, 3]);
        assert_eq!(["lc1(s2).t", "rc1(s2).w", "rc1(s2).l", "lc1(s2).l"].map(value), [11, 23, 6, 5]);
        assert_eq!(["p1.t", "p2.w", "s1.v", "s2.v", "s1.d", "s2.d"].map(value), [14, 23, 1, 6, 1, 3]);
        assert_eq!(["lc2(s2).t", "rc1(s1).t", "lc1(rc1(s2)).t"].map(value), [ABSENT; 3]);
        let mut arcs = vec![];
        arena.arcs(two, |dependent, head, label| arcs.push((dependent, head, label.0)));
        assert_eq!(arcs, [(2, 1, 5), (0, 1, 4)]);
    }
}
