//! A parser as it is kept and asked.
//!
//! ```text
//! p(t, w, a) = prod over steps of
//!     p(a | h^a)                                 a shift, or an arc with its label; where fewer than two items are on the
//!                                                stack, a shift is the only way, and has probability 1
//!     p(t | h^t) p(w | t, h^w)                   at a shift; the dummy root has a tag, and no word
//! ```
//!
//! The dummy root is generated last, and ends the sentence: then what is left on the stack becomes its dependents. Where
//! every training tree has one word below the root, the root can come only when one item is on the stack. What cannot
//! happen in a configuration has no probability: the others' are divided by their sum. So the probabilities of all
//! sentences, tags and derivations add up to one.

use std::path::Path as FilePath;

use serde::{Deserialize, Serialize};

use super::configuration::Configurations;
use super::distribution::{Distribution, KeptHierarchy, Path};
use super::element::Element;
use super::job::{Contexts, Plan, Search, Tags};
use super::lexicon::Lexicon;
use super::tokens::transition;
use super::trainer::Trainer;
use super::treebank::TagColumn;
use crate::error::{Error, Result};
use crate::job::model_file;
use crate::restaurant::seating::DEEPEST;
use crate::transition::Label;
use crate::transition::arc_standard::Transition;

/// The kind in model files.
pub const KIND: &str = "parser";

/// What is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    pub lexicon: Lexicon,
    pub is_lexicalised: bool,
    pub is_single_rooted: bool,
    pub tags: Tags,
    pub tag_column: TagColumn,
    pub particles: u32,
    pub search: Search,
    /// Contexts of transitions, tags and words, as in a job file.
    pub contexts: [Vec<String>; 3],
    /// Transitions, tags, words.
    pub hierarchies: [KeptHierarchy; 3],
}

impl Kept {
    /// What a worker that holds everything has learned.
    pub fn new(plan: &Plan, lexicon: Lexicon, is_single_rooted: bool, trainer: &Trainer) -> Kept {
        let names = |elements: &[Element]| elements.iter().map(Element::to_string).collect();
        let [transitions, tags, words] = trainer.parts();
        Kept {
            hierarchies: [
                KeptHierarchy::new(transitions, lexicon.transitions()),
                KeptHierarchy::new(tags, lexicon.root() + 1),
                KeptHierarchy::new(words, lexicon.words()),
            ],
            lexicon,
            is_lexicalised: plan.model.lexicalised,
            is_single_rooted,
            tags: plan.model.tags,
            tag_column: plan.model.tag_column,
            particles: plan.model.particles,
            search: plan.model.search,
            contexts: [&plan.contexts.transition, &plan.contexts.tag, &plan.contexts.word].map(|c| names(c)),
        }
    }

    /// The contexts, where the numbers can be those of a model; a file may be damaged.
    fn contexts(&self) -> Option<Contexts> {
        let [transition, tag, word] = &self.contexts;
        let contexts = Contexts::parse(transition, tag, word, self.is_lexicalised).ok()?;
        let lexicon = &self.lexicon;
        let elements = lexicon.symbols();
        let outcomes = [lexicon.transitions(), lexicon.root() + 1, lexicon.words()];
        let depths = [&contexts.transition, &contexts.tag, &contexts.word].map(Vec::len);
        let is_sound = |part: usize| self.hierarchies[part].is_sound(depths[part], outcomes[part], elements);
        (self.particles > 0 && (0..3).all(is_sound)).then_some(contexts)
    }
}

/// What can be done in a configuration: the best of each kind, with its probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moves {
    pub shift: f64,
    pub left: (Label, f64),
    pub right: (Label, f64),
    /// All left arcs together.
    pub all_left: f64,
}

/// A parser to be asked.
pub struct ParserModel {
    pub kept: Kept,
    pub contexts: Contexts,
    transitions: Distribution,
    tags: Distribution,
    words: Distribution,
    /// By restaurant of the transitions.
    moves: Vec<Moves>,
    /// By restaurant of the tags: of the root's tag.
    roots: Vec<f64>,
    /// By word: the tags that it can have, in `candidates`.
    candidate_starts: Vec<u32>,
    candidates: Vec<u32>,
}

/// A word seen less often may have any tag that its class can have.
const SURE: u32 = 8;

impl ParserModel {
    /// Reads the model at `path`, a model file or a run folder.
    pub fn load(path: &FilePath) -> Result<ParserModel> {
        let kept: Kept = model_file::load(path, KIND)?;
        ParserModel::new(kept)
            .ok_or_else(|| Error::input(path, "the model does not hold together: the file is damaged"))
    }

    /// None where the numbers cannot be those of a model.
    pub fn new(kept: Kept) -> Option<ParserModel> {
        let contexts = kept.contexts()?;
        let [transitions, tags, words] = [0, 1, 2].map(|part| Distribution::new(&kept.hierarchies[part]));
        let mut moves =
            vec![Moves::of(&vec![1.0 / f64::from(transitions.outcomes()); transitions.outcomes() as usize])];
        moves.resize(transitions.tree().restaurants().max(1), moves[0]);
        transitions.each_restaurant(|restaurant, probabilities| moves[restaurant] = Moves::of(probabilities));
        let mut roots = vec![0.0; tags.tree().restaurants()];
        let root = kept.lexicon.root() as usize;
        tags.each_restaurant(|restaurant, probabilities| roots[restaurant] = probabilities[root]);
        let mut model = ParserModel {
            kept,
            contexts,
            transitions,
            tags,
            words,
            moves,
            roots,
            candidate_starts: vec![],
            candidates: vec![],
        };
        model.find_candidates();
        Some(model)
    }

    /// Notes which tags each word has had; those of rare words are joined by those of unknown words.
    fn find_candidates(&mut self) {
        let lexicon = &self.kept.lexicon;
        let mut seen: Vec<Vec<(u32, u32)>> = vec![vec![]; lexicon.words() as usize];
        let tree = self.words.tree();
        let is_by_tag = self.kept.contexts[2].first().is_some_and(|first| first == "b.t");
        if tree.restaurants() > 0 && is_by_tag {
            for restaurant in tree.children(0) {
                for dish in tree.dishes(restaurant) {
                    let tag = tree.element(restaurant) - 1;
                    seen[tree.outcome(dish) as usize].push((tag, self.words.customers(dish)));
                }
            }
        }
        let mut unknown = vec![false; lexicon.tags.len()];
        for word in (0..lexicon.words()).filter(|&word| lexicon.is_unknown(word)) {
            seen[word as usize].iter().for_each(|&(tag, _)| unknown[tag as usize] = true);
        }
        let any = unknown.iter().any(|&is_open| is_open);
        for tags in &seen {
            self.candidate_starts.push(self.candidates.len() as u32);
            let is_sure = tags.iter().map(|(_, count)| count).sum::<u32>() >= SURE;
            let has = |tag: u32| tags.iter().any(|(seen, _)| *seen == tag);
            let all = 0..lexicon.tags.len() as u32;
            self.candidates.extend(all.filter(|&tag| has(tag) || (!is_sure && (!any || unknown[tag as usize]))));
        }
        self.candidate_starts.push(self.candidates.len() as u32);
    }

    /// The tags that a word can have.
    pub fn candidates(&self, word: u32) -> &[u32] {
        let at = |word: u32| self.candidate_starts[word as usize] as usize;
        &self.candidates[at(word)..at(word + 1)]
    }

    /// Whether the dummy root can come where so many items are on the stack.
    #[inline]
    pub fn can_end(&self, depth: u32) -> bool {
        depth == 1 || (depth > 1 && !self.kept.is_single_rooted)
    }

    /// What can be done where two items or more are on the stack.
    #[inline]
    pub fn moves(&self, arena: &Configurations, top: u32) -> Moves {
        let mut values = [0; DEEPEST];
        let values = &mut values[..self.contexts.transition.len()];
        arena.values(top, &self.contexts.transition, 0, values);
        match self.transitions.tree().restaurants() {
            0 => self.moves[0],
            _ => self.moves[self.transitions.path(values).deepest()],
        }
    }

    /// p of every transition by outcome, where two items or more are on the stack.
    pub fn all_moves(&self, arena: &Configurations, top: u32, probabilities: &mut Vec<f64>) {
        let mut values = [0; DEEPEST];
        let values = &mut values[..self.contexts.transition.len()];
        arena.values(top, &self.contexts.transition, 0, values);
        self.transitions.fill(&self.transitions.path(values), probabilities);
    }

    /// Ready to ask for tags.
    #[inline]
    pub fn tagger(&self, arena: &Configurations, top: u32) -> Tagger<'_> {
        let mut values = [0; DEEPEST];
        let values = &mut values[..self.contexts.tag.len()];
        arena.values(top, &self.contexts.tag, 0, values);
        let path = self.tags.path(values);
        let depth = arena.depth(top);
        let root = if self.roots.is_empty() { 0.0 } else { self.roots[path.deepest()] };
        Tagger { model: self, path, left: if self.can_end(depth) { 1.0 } else { 1.0 - root } }
    }

    /// p(w | t, h^w); 1 where the model has no words.
    #[inline]
    pub fn word(&self, arena: &Configurations, top: u32, tag: u32, word: u32) -> f64 {
        if !self.kept.is_lexicalised {
            return 1.0;
        }
        self.words.probability(&self.word_path(arena, top, tag), word)
    }

    fn word_path(&self, arena: &Configurations, top: u32, tag: u32) -> Path {
        let mut values = [0; DEEPEST];
        let values = &mut values[..self.contexts.word.len()];
        arena.values(top, &self.contexts.word, tag, values);
        self.words.path(values)
    }

    /// p of every word, given its tag.
    pub fn all_words(&self, arena: &Configurations, top: u32, tag: u32, probabilities: &mut Vec<f64>) {
        self.words.fill(&self.word_path(arena, top, tag), probabilities);
    }
}

/// p(t | h^t) in a configuration.
pub struct Tagger<'m> {
    model: &'m ParserModel,
    path: Path,
    /// The probability of all tags that can come.
    left: f64,
}

impl Tagger<'_> {
    /// p of a tag, which can come.
    #[inline]
    pub fn probability(&self, tag: u32) -> f64 {
        self.model.tags.probability(&self.path, tag) / self.left
    }
}

impl Moves {
    fn of(probabilities: &[f64]) -> Moves {
        let labels = (probabilities.len() - 1) / 2;
        let best = |outcomes: std::ops::Range<usize>| {
            let first = (outcomes.start, 0.0);
            let (at, p) = outcomes.fold(first, |(at, most), outcome| match probabilities[outcome] > most {
                true => (outcome, probabilities[outcome]),
                false => (at, most),
            });
            match transition(at as u32, labels) {
                Transition::LeftArc(label) | Transition::RightArc(label) => (label, p),
                Transition::Shift => (Label(0), 0.0),
            }
        };
        Moves {
            shift: probabilities[0],
            left: best(1..1 + labels),
            right: best(1 + labels..1 + 2 * labels),
            all_left: probabilities[1..1 + labels].iter().sum(),
        }
    }
}
