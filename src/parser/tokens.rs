//! What the three distributions are trained on: contexts and outcomes of the derivations of trees.
//!
//! ```text
//! transition   h^a -> shift, or left or right arc with a label       where there is a choice: two items on the stack
//! tag          h^t -> tag, the root's at the end                     at every shift
//! word         h^w -> word                                           at every shift but the root's
//! ```
//!
//! Where a distribution has several contexts, each has all of its outcomes.

use std::collections::BTreeMap;
use std::ops::Range;

use super::configuration::{Configurations, NOTHING};
use super::element::Element;
use super::job::{Contexts, Part};
use super::lexicon::Lexicon;
use super::treebank::{Treebank, Word};
use crate::corpus::shard::shards;
use crate::corpus::tree::Tree;
use crate::restaurant::tree::Paths;
use crate::transition::arc_standard::Transition;
use crate::transition::{ArcStandard, Label, follow_oracle};

/// The outcome that a transition is; `labels` is their number.
#[inline]
pub fn outcome(transition: Transition, labels: usize) -> u32 {
    match transition {
        Transition::Shift => 0,
        Transition::LeftArc(label) => 1 + u32::from(label.0),
        Transition::RightArc(label) => 1 + labels as u32 + u32::from(label.0),
    }
}

/// The transition that an outcome is.
pub fn transition(outcome: u32, labels: usize) -> Transition {
    match (outcome.checked_sub(1), labels as u32) {
        (None, _) => Transition::Shift,
        (Some(label), labels) if label < labels => Transition::LeftArc(Label(label as u16)),
        (Some(label), labels) => Transition::RightArc(Label((label - labels) as u16)),
    }
}

/// Contexts of one length with outcomes.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    depth: usize,
    contexts: Vec<u32>,
    outcomes: Vec<u32>,
    symbols: usize,
    /// The tokens of each own shard.
    pub shards: BTreeMap<u32, Range<usize>>,
}

impl Tokens {
    fn new(depth: usize, symbols: u32) -> Tokens {
        Tokens { depth, symbols: symbols as usize, ..Tokens::default() }
    }

    fn push(&mut self, arena: &Configurations, top: u32, elements: &[Element], tag: u32, outcome: u32) {
        let start = self.contexts.len();
        self.contexts.resize(start + self.depth, 0);
        arena.values(top, elements, tag, &mut self.contexts[start..]);
        self.outcomes.push(outcome);
    }
}

impl Paths for Tokens {
    fn count(&self) -> usize {
        self.outcomes.len()
    }

    fn symbols(&self) -> usize {
        self.symbols
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn outcome(&self, token: usize) -> u32 {
        self.outcomes[token]
    }

    #[inline]
    fn element(&self, token: usize, depth: usize) -> Option<u32> {
        (depth < self.depth).then(|| self.contexts[token * self.depth + depth])
    }

    fn length(&self, _: usize) -> usize {
        self.depth
    }
}

/// Makes tokens of trees.
pub struct Tokeniser<'a> {
    pub lexicon: &'a Lexicon,
    pub contexts: &'a Contexts,
    pub is_lexicalised: bool,
}

impl Tokeniser<'_> {
    /// The tokens of each context: of the shards that are `is_mine`, shard by shard; then, where the worker `holds_all`, those
    /// of the others.
    pub fn tokens(
        &self,
        treebank: &Treebank,
        count: u32,
        is_mine: impl Fn(u32) -> bool,
        holds_all: bool,
    ) -> Vec<Tokens> {
        let symbols = self.lexicon.symbols();
        let mut all: Vec<Tokens> =
            self.contexts.all.iter().map(|(_, elements)| Tokens::new(elements.len(), symbols)).collect();
        let lengths: Vec<u64> = treebank.sentences().map(|sentence| sentence.len() as u64).collect();
        let runs = shards(&lengths, count);
        let mut scratch = Scratch::default();
        for (number, run) in (0..).zip(&runs).filter(|(number, _)| is_mine(*number)) {
            let before: Vec<usize> = all.iter().map(|tokens| tokens.outcomes.len()).collect();
            run.clone().for_each(|sentence| self.add(treebank, sentence, &mut scratch, &mut all));
            for (tokens, before) in all.iter_mut().zip(before) {
                tokens.shards.insert(number, before..tokens.outcomes.len());
            }
        }
        for (_, run) in (0..).zip(&runs).filter(|(number, _)| holds_all && !is_mine(*number)) {
            run.clone().for_each(|sentence| self.add(treebank, sentence, &mut scratch, &mut all));
        }
        all
    }

    /// Notes a token of one distribution, with each of its contexts.
    fn push(&self, part: Part, arena: &Configurations, top: u32, tag: u32, outcome: u32, all: &mut [Tokens]) {
        for ((own, elements), tokens) in self.contexts.all.iter().zip(all) {
            if *own == part {
                tokens.push(arena, top, elements, tag, outcome);
            }
        }
    }

    fn add(&self, treebank: &Treebank, sentence: usize, scratch: &mut Scratch, all: &mut [Tokens]) {
        let words = treebank.sentence(sentence);
        scratch.tree.set_heads(words.iter().map(|word| word.head));
        for (place, word) in (1..).zip(words) {
            scratch.tree.set_label(place, Label(word.label as u16));
        }
        scratch.ids.clear();
        let id =
            |(place, word): (usize, &Word)| (word.tag, self.lexicon.word(treebank.forms.name(word.form), place == 0));
        scratch.ids.extend(words.iter().enumerate().map(id));
        scratch.ids.push((self.lexicon.root(), self.lexicon.words()));
        scratch.transitions.clear();
        let Scratch { system, tree, transitions, arena, ids } = scratch;
        follow_oracle(system, tree, |_, transition| transitions.push(transition));
        arena.clear();
        self.derive(arena, ids, transitions, all);
    }

    /// Follows a derivation and notes its tokens.
    fn derive(&self, arena: &mut Configurations, ids: &[(u32, u32)], transitions: &[Transition], all: &mut [Tokens]) {
        let (mut top, mut next) = (NOTHING, 0);
        for &step in transitions {
            if arena.depth(top) >= 2 {
                let outcome = outcome(step, self.lexicon.labels.len());
                self.push(Part::Transition, arena, top, 0, outcome, all);
            }
            top = match step {
                Transition::Shift => {
                    let (tag, form) = ids[next];
                    self.push(Part::Tag, arena, top, 0, tag, all);
                    if self.is_lexicalised && tag != self.lexicon.root() {
                        self.push(Part::Word, arena, top, tag, form, all);
                    }
                    next += 1;
                    arena.shift(top, next as u32 - 1, tag, form)
                }
                reduce => arena.reduce(top, reduce),
            };
        }
    }
}

/// What is reused from sentence to sentence.
#[derive(Default)]
struct Scratch {
    system: ArcStandard,
    tree: Tree,
    transitions: Vec<Transition>,
    arena: Configurations,
    ids: Vec<(u32, u32)>,
}
