//! A training tree with all of its derivations.
//!
//! The non-deterministic oracle (Buys & Blunsom 2015, section 2) adds a right arc as soon as it can; a left arc may wait as
//! long as its head has right dependents to come. So a derivation of a tree is a list of answers, one for each time that an
//! arc may wait: whether it does. The static oracle never waits.
//!
//! Of left-corner, the one derivation by its static oracle is taken ([`crate::transition::left_corner`]).

use super::action::{Action, Actions, System};
use super::configuration::{Configurations, NOTHING, Upcoming};
use super::job::Part;
use super::lexicon::Lexicon;
use super::treebank::Word;
use crate::corpus::tree::Tree;
use crate::transition::{Label, LeftCorner, arc_standard, follow_oracle, left_corner};

/// A tree; its buffers are reused from sentence to sentence.
#[derive(Clone, Debug, Default)]
pub struct Gold {
    tree: Tree,
    /// Tag and form of each word; the dummy root's are last.
    ids: Vec<(u32, u32)>,
    corners: LeftCorner,
    /// Of left-corner.
    transitions: Vec<left_corner::Transition>,
}

/// Something that a derivation generates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub part: Part,
    /// The top of the stack before it.
    pub top: u32,
    /// Of a tag: what generates its word; of a word: its tag, too.
    pub upcoming: Upcoming,
    pub outcome: u32,
}

impl Gold {
    /// Becomes a tree of words whose forms are numbers of the lexicon.
    pub fn set(&mut self, words: impl ExactSizeIterator<Item = Word> + Clone, lexicon: &Lexicon) {
        self.tree.set_heads(words.clone().map(|word| word.head));
        self.ids.clear();
        for (place, word) in (1..).zip(words) {
            self.tree.set_label(place, Label(word.label as u16));
            self.ids.push((word.tag, word.form));
        }
        self.ids.push((lexicon.root(), lexicon.words()));
    }

    /// Tag and form of a word, counted from 0; the dummy root is the last.
    pub fn id(&self, word: u32) -> (u32, u32) {
        self.ids[word as usize]
    }

    /// Number of words, the dummy root included.
    pub fn len(&self) -> u32 {
        self.ids.len() as u32
    }

    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The action that the static oracle of arc-standard takes where `next` words have been shifted, and whether it may wait instead;
    /// none where the tree is complete.
    #[inline]
    pub fn step(&self, arena: &Configurations, top: u32, next: u32) -> Option<(Action, bool)> {
        let below = if top == NOTHING { NOTHING } else { arena.below(top) };
        if below == NOTHING {
            return (next < self.len()).then_some((Action::Shift, false));
        }
        let node = |item: u32| arena.item(item).word + 1;
        let (transition, may_wait) = arc_standard::oracle(Some((node(below), node(top))), next + 1, &self.tree);
        Some((Action::of_arc_standard(transition), may_wait))
    }

    /// Takes a step; a word is generated with its tag and form.
    fn take(&self, arena: &mut Configurations, top: u32, next: u32, action: Action) -> u32 {
        if !action.has_word() {
            return arena.reduce(top, action);
        }
        let (tag, form) = self.id(next);
        arena.generate(top, action, next, tag, form)
    }

    /// Follows the derivation of arc-standard in which arcs wait as `waits` says.
    pub fn follow(
        &self,
        arena: &mut Configurations,
        mut waits: impl FnMut() -> bool,
        mut show: impl FnMut(&Configurations, u32, Action),
    ) {
        let (mut top, mut next) = (NOTHING, 0);
        while let Some((mut action, may_wait)) = self.step(arena, top, next) {
            if may_wait && waits() {
                action = Action::Shift;
            }
            show(arena, top, action);
            top = self.take(arena, top, next, action);
            next += u32::from(action.has_word());
        }
    }

    /// Follows the derivation of left-corner, whose transitions are known.
    fn follow_corners(&self, arena: &mut Configurations, mut show: impl FnMut(&Configurations, u32, Action)) {
        let (mut top, mut next) = (NOTHING, 0);
        for &transition in &self.transitions {
            let action = Action::of_left_corner(transition, arena.has_above(top));
            show(arena, top, action);
            top = self.take(arena, top, next, action);
            next += u32::from(action.has_word());
        }
    }

    /// Follows a derivation and shows what it generates.
    pub fn tokens(
        &mut self,
        arena: &mut Configurations,
        system: System,
        lexicon: &Lexicon,
        is_lexicalised: bool,
        waits: impl FnMut() -> bool,
        mut show: impl FnMut(&Configurations, Token),
    ) {
        let actions = Actions { system, labels: lexicon.labels.len() };
        if system == System::LeftCorner {
            let Gold { tree, corners, transitions, .. } = self;
            transitions.clear();
            follow_oracle(corners, tree, |_, transition| transitions.push(transition));
        }
        let this: &Gold = self;
        let mut next = 0;
        let tell = |arena: &Configurations, top: u32, action: Action| {
            if arena.has_choice(top, system) {
                let outcome = actions.outcome(action);
                show(arena, Token { part: Part::Transition, top, upcoming: Upcoming::default(), outcome });
            }
            if action.has_word() {
                let (tag, form) = this.id(next);
                next += 1;
                let upcoming = Upcoming { tag: 0, action: action.value() };
                show(arena, Token { part: Part::Tag, top, upcoming, outcome: tag });
                if is_lexicalised && tag != lexicon.root() {
                    show(arena, Token { part: Part::Word, top, upcoming: Upcoming { tag, ..upcoming }, outcome: form });
                }
            }
        };
        match system {
            System::ArcStandard => this.follow(arena, waits, tell),
            System::LeftCorner => this.follow_corners(arena, tell),
        }
    }
}
