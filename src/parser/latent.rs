//! A sentence of which only the words are known: its derivations as a list of numbers, the tokens that they generate, and
//! what can be done where tags and tree are to be drawn.
//!
//! All derivations of n words by arc-standard have n + 1 shifts (the dummy root's is the last) and n arcs. So a derivation is
//! 2 n + 1 numbers of two bytes, one for each step:
//!
//! ```text
//! t                    a shift, of a word with tag t
//! (root's tag) + a     the arc that is outcome a = 1, 2 ... of the transitions
//! ```
//!
//! Distributions that learn are asked with the counts as they stand; those that do not, as the parser has them that was
//! trained before. A word can have the tags that this parser knows it with.

use super::action::{Action, Actions, System};
use super::configuration::{Configurations, NOTHING, Upcoming};
use super::filter::{Choice, Choices, Step};
use super::gold::Token;
use super::hierarchies::{Customer, Hierarchies};
use super::job::Part;
use super::model::{Candidate, ParserModel};
use crate::transition::Label;

/// How many steps a derivation of so many words has.
pub const fn steps_of(words: usize) -> usize {
    2 * words + 1
}

/// The words of a sentence, and the parser that was trained before.
#[derive(Clone, Copy)]
pub struct Latent<'a> {
    pub words: &'a [u32],
    pub model: &'a ParserModel,
}

impl Latent<'_> {
    fn actions(&self) -> Actions {
        self.model.actions()
    }

    fn root(&self) -> u32 {
        self.model.kept.lexicon.root()
    }

    /// The number that a step is.
    pub fn encode(&self, step: Step) -> u16 {
        match step.action.has_word() {
            true => step.tag as u16,
            false => (self.root() + self.actions().outcome(step.action)) as u16,
        }
    }

    /// The step that a number is, where `next` words have been shifted.
    pub fn decode(&self, code: u16, next: u32) -> Step {
        match u32::from(code).checked_sub(self.root() + 1) {
            Some(arc) => {
                let (action, _) = self.actions().of_outcome(arc as usize + 1);
                Step { action, tag: 0, form: 0 }
            }
            None => self.shift(u32::from(code), next),
        }
    }

    fn shift(&self, tag: u32, next: u32) -> Step {
        let form = self.words.get(next as usize).copied();
        Step { action: Action::Shift, tag, form: form.unwrap_or(self.model.kept.lexicon.words()) }
    }

    /// Whether the numbers are a derivation of the words; a file may be damaged.
    pub fn is_derivation(&self, codes: &[u16]) -> bool {
        let (mut depth, mut next, words) = (0, 0, self.words.len());
        let outcomes = self.root() + self.actions().outcomes();
        codes.len() == steps_of(words)
            && codes.iter().all(|&code| {
                let is_shift = u32::from(code) <= self.root();
                next += usize::from(is_shift);
                let is_root = u32::from(code) == self.root();
                let is_possible = if is_shift { is_root == (next == words + 1) } else { depth >= 2 };
                depth = if is_shift { depth + 1 } else { depth - usize::from(is_possible) };
                is_possible && next <= words + 1 && u32::from(code) < outcomes
            })
    }

    /// Follows a derivation and shows what it generates.
    pub fn tokens(&self, arena: &mut Configurations, codes: &[u16], mut show: impl FnMut(&Configurations, Token)) {
        arena.clear();
        let (mut top, mut next) = (NOTHING, 0);
        for &code in codes {
            let step = self.decode(code, next);
            if arena.has_choice(top, System::ArcStandard) {
                let outcome = self.actions().outcome(step.action);
                show(arena, Token { part: Part::Transition, top, upcoming: Upcoming::default(), outcome });
            }
            if !step.action.has_word() {
                top = arena.reduce(top, step.action);
                continue;
            }
            let upcoming = Upcoming { tag: 0, action: step.action.value() };
            show(arena, Token { part: Part::Tag, top, upcoming, outcome: step.tag });
            if step.tag != self.root() {
                let upcoming = Upcoming { tag: step.tag, ..upcoming };
                show(arena, Token { part: Part::Word, top, upcoming, outcome: step.form });
            }
            top = arena.generate(top, step.action, next, step.tag, step.form);
            next += 1;
        }
    }

    /// The customers of a derivation, in what learns.
    pub fn customers(
        &self,
        arena: &mut Configurations,
        hierarchies: &mut Hierarchies,
        codes: &[u16],
        customers: &mut Vec<Customer>,
    ) {
        customers.clear();
        self.tokens(arena, codes, |arena, token| {
            if hierarchies.has(token.part) {
                customers.push(hierarchies.customer(arena, token));
            }
        });
    }

    /// The steps of a derivation.
    pub fn steps(&self, codes: &[u16], steps: &mut Vec<Step>) {
        steps.clear();
        let mut next = 0;
        for &code in codes {
            let step = self.decode(code, next);
            next += u32::from(step.action.has_word());
            steps.push(step);
        }
    }

    /// The derivation that ends with `top`.
    pub fn read(&self, arena: &Configurations, top: u32) -> Vec<u16> {
        let mut tags = arena.words(top).map(|item| item.tag);
        let code = |action: Action| match action.has_word() {
            true => tags.next().expect("a word for each shift") as u16,
            false => (self.root() + self.actions().outcome(action)) as u16,
        };
        let mut codes: Vec<u16> = arena.backwards(top).map(|(item, _)| item.action).map(code).collect();
        codes.reverse();
        codes
    }
}

/// What can be done where only the words are known, with the counts as they stand.
pub struct ToWords<'a> {
    pub sentence: Latent<'a>,
    pub hierarchies: &'a Hierarchies,
}

impl ToWords<'_> {
    /// p of each transition by outcome, and the part of it that is learned.
    fn transitions(&self, arena: &Configurations, top: u32) -> impl Fn(Action) -> [f64; 2] {
        let Latent { model, .. } = self.sentence;
        let (has_choice, learns) = (arena.has_choice(top, System::ArcStandard), self.hierarchies.has(Part::Transition));
        let mut fixed = vec![];
        if has_choice && !learns {
            model.all_moves(arena, top, &mut fixed);
        }
        let learned = || self.hierarchies.predictor(arena, Part::Transition, top, Upcoming::default());
        let learned = (has_choice && learns).then(learned);
        let actions = model.actions();
        move |action: Action| {
            let outcome = actions.outcome(action);
            match (has_choice, &learned) {
                (false, _) => [1.0; 2],
                (true, None) => [fixed[outcome as usize], 1.0],
                (true, Some(learned)) => [learned.probability(outcome); 2],
            }
        }
    }

    /// Adds a shift of the next word with each tag that it can have, or of the dummy root.
    fn add_shifts(&self, arena: &Configurations, top: u32, next: u32, by: [f64; 2], choices: &mut Vec<Choice>) {
        let Latent { words, model } = self.sentence;
        let upcoming = Upcoming { tag: 0, action: Action::Shift.value() };
        let learned =
            self.hierarchies.has(Part::Tag).then(|| self.hierarchies.predictor(arena, Part::Tag, top, upcoming));
        let fixed = learned.is_none().then(|| model.tagger(arena, top, Action::Shift));
        let of_tag = |tag: u32| match (&learned, &fixed) {
            (Some(learned), _) => [learned.probability(tag); 2],
            (None, fixed) => [fixed.as_ref().expect("one of both").probability(tag), 1.0],
        };
        let (root, first) = (self.sentence.root(), choices.len());
        let Some(&word) = words.get(next as usize) else {
            let [p, learned] = of_tag(root);
            let step = self.sentence.shift(root, next);
            return choices.push(Choice { step, p: by[0] * p, q: by[0], learned: by[1] * learned });
        };
        for &Candidate { tag, .. } in model.candidates(word) {
            let [p, learned] = of_tag(tag);
            let token = Token { part: Part::Word, top, upcoming: Upcoming { tag, ..upcoming }, outcome: word };
            let of_word = self.hierarchies.predict(arena, token);
            let step = self.sentence.shift(tag, next);
            let (p, learned) = (by[0] * p * of_word, by[1] * learned * of_word);
            choices.push(Choice { step, p, q: p, learned });
        }
        // All shifts together are tried as often as the transition says, whatever the word.
        let sum: f64 = choices[first..].iter().map(|choice| choice.p).sum();
        choices[first..].iter_mut().for_each(|choice| choice.q *= by[0] / sum);
    }
}

impl Choices for ToWords<'_> {
    fn choices(&self, arena: &Configurations, top: u32, next: u32, choices: &mut Vec<Choice>) {
        let Latent { words, model } = self.sentence;
        let depth = if top == NOTHING { 0 } else { arena.depth(top) };
        let has_root = next as usize > words.len();
        let is_last = next as usize == words.len();
        let transition = self.transitions(arena, top);
        if !has_root && (!is_last || model.can_end(arena, top, Action::Shift)) {
            self.add_shifts(arena, top, next, transition(Action::Shift), choices);
        }
        if depth < 2 {
            return;
        }
        for label in (0..model.kept.lexicon.labels.len()).map(|label| Label(label as u16)) {
            for action in [Action::LeftArc(label), Action::RightArc(label)] {
                // The dummy root depends on nothing.
                if !has_root || matches!(action, Action::LeftArc(_)) {
                    let [p, learned] = transition(action);
                    choices.push(Choice { step: Step { action, tag: 0, form: 0 }, p, q: p, learned });
                }
            }
        }
    }
}
