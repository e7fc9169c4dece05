//! A training tree with all of its derivations.
//!
//! The non-deterministic oracle (Buys & Blunsom 2015, section 2) adds a right arc as soon as it can; a left arc may wait as
//! long as its head has right dependents to come. So a derivation of a tree is a list of answers, one for each time that an
//! arc may wait: whether it does. The static oracle never waits.

use super::configuration::{Configurations, NOTHING};
use super::job::Part;
use super::lexicon::Lexicon;
use super::tokens::outcome;
use super::treebank::{Treebank, Word};
use crate::corpus::tree::Tree;
use crate::transition::Label;
use crate::transition::arc_standard::{self, Transition};

/// A tree; its buffers are reused from sentence to sentence.
#[derive(Clone, Debug, Default)]
pub struct Gold {
    tree: Tree,
    /// Tag and form of each word; the dummy root's are last.
    ids: Vec<(u32, u32)>,
}

/// Something that a derivation generates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub part: Part,
    /// The top of the stack before it.
    pub top: u32,
    /// Of a word: its tag.
    pub tag: u32,
    pub outcome: u32,
}

impl Gold {
    /// Becomes a sentence of a treebank.
    pub fn read(&mut self, treebank: &Treebank, sentence: usize, lexicon: &Lexicon) {
        let words = treebank.sentence(sentence).iter().enumerate();
        let words = words.map(|(place, word)| {
            let form = lexicon.word(treebank.forms.name(word.form), place == 0);
            Word { form, ..*word }
        });
        self.set(words, lexicon);
    }

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

    /// The transition that the static oracle takes where `next` words have been shifted, and whether it may wait instead;
    /// none where the tree is complete.
    #[inline]
    pub fn step(&self, arena: &Configurations, top: u32, next: u32) -> Option<(Transition, bool)> {
        let below = if top == NOTHING { NOTHING } else { arena.below(top) };
        if below == NOTHING {
            return (next < self.len()).then_some((Transition::Shift, false));
        }
        let node = |item: u32| arena.item(item).word + 1;
        Some(arc_standard::oracle(Some((node(below), node(top))), next + 1, &self.tree))
    }

    /// Takes a step; a word is shifted with its tag and form.
    pub fn take(&self, arena: &mut Configurations, top: u32, next: u32, step: Transition) -> u32 {
        match step {
            Transition::Shift => {
                let (tag, form) = self.id(next);
                arena.shift(top, next, tag, form)
            }
            reduce => arena.reduce(top, reduce),
        }
    }

    /// Follows the derivation in which arcs wait as `waits` says. Returns the top at the end.
    pub fn follow(
        &self,
        arena: &mut Configurations,
        mut waits: impl FnMut() -> bool,
        mut show: impl FnMut(&Configurations, u32, Transition),
    ) -> u32 {
        let (mut top, mut next) = (NOTHING, 0);
        while let Some((mut step, may_wait)) = self.step(arena, top, next) {
            if may_wait && waits() {
                step = Transition::Shift;
            }
            show(arena, top, step);
            top = self.take(arena, top, next, step);
            next += u32::from(step == Transition::Shift);
        }
        top
    }

    /// Follows a derivation and shows what it generates.
    pub fn tokens(
        &self,
        arena: &mut Configurations,
        lexicon: &Lexicon,
        is_lexicalised: bool,
        waits: impl FnMut() -> bool,
        mut show: impl FnMut(&Configurations, Token),
    ) {
        let (labels, root) = (lexicon.labels.len(), lexicon.root());
        let mut next = 0;
        self.follow(arena, waits, |arena, top, step| {
            if arena.depth(top) >= 2 {
                show(arena, Token { part: Part::Transition, top, tag: 0, outcome: outcome(step, labels) });
            }
            if step == Transition::Shift {
                let (tag, form) = self.ids[next];
                next += 1;
                show(arena, Token { part: Part::Tag, top, tag: 0, outcome: tag });
                if is_lexicalised && tag != root {
                    show(arena, Token { part: Part::Word, top, tag, outcome: form });
                }
            }
        });
    }
}
