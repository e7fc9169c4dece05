//! A parser as it is kept and asked.
//!
//! ```text
//! p(t, w, a) = prod over steps of
//!     p(a | h^a)                                 a shift, or an arc with its label; where fewer than two items are on the
//!                                                stack, a shift is the only way, and has probability 1
//!     p(t | h^t) p(w | t, h^w)                   at a shift; the dummy root has a tag, and no word
//! ```
//!
//! Each distribution is a hierarchy of restaurants, or the mean of several that back off in other orders.
//!
//! The dummy root is generated last, and ends the sentence: then what is left on the stack becomes its dependents. Where
//! every training tree has one word below the root, the root can come only when one item is on the stack. What cannot
//! happen in a configuration has no probability: the others' are divided by their sum. So the probabilities of all
//! sentences, tags and derivations add up to one.

use std::path::Path as FilePath;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::configuration::Configurations;
use super::distribution::{Distribution, KeptHierarchy, Path};
use super::element::{Element, Start};
use super::job::{Answer, Contexts, MOST_CONTEXTS, Part, Plan, Search, Tags};
use super::lexicon::Lexicon;
use super::tokens::transition;
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
    pub answer: Answer,
    /// Contexts of transitions, tags and words, as in a job file.
    pub contexts: [Vec<Vec<String>>; 3],
    /// One for each context.
    pub hierarchies: Vec<KeptHierarchy>,
}

impl Kept {
    /// What was learned.
    pub fn new(plan: &Plan, lexicon: Lexicon, is_single_rooted: bool, hierarchies: Vec<KeptHierarchy>) -> Kept {
        Kept {
            hierarchies,
            lexicon,
            is_lexicalised: plan.model.lexicalised,
            is_single_rooted,
            tags: plan.model.tags,
            tag_column: plan.model.tag_column,
            particles: plan.model.particles,
            search: plan.model.search,
            answer: plan.model.answer,
            contexts: plan.contexts.names(),
        }
    }

    /// The contexts, where the numbers can be those of a model; a file may be damaged.
    fn contexts(&self) -> Option<Contexts> {
        let [transition, tag, word] = &self.contexts;
        let contexts = Contexts::parse([transition, tag, word], self.is_lexicalised).ok()?;
        let elements = self.lexicon.symbols();
        let is_sound = |((part, list), hierarchy): (&(Part, Vec<Element>), &KeptHierarchy)| {
            hierarchy.is_sound(list.len(), self.lexicon.outcomes(*part), elements)
        };
        let is_whole = self.particles > 0 && contexts.all.len() == self.hierarchies.len();
        (is_whole && contexts.all.iter().zip(&self.hierarchies).all(is_sound)).then_some(contexts)
    }
}

/// What can be done in a configuration: the best of each kind, with its probability.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moves {
    pub shift: f64,
    pub left: (Label, f64),
    pub right: (Label, f64),
    /// All left arcs together.
    pub all_left: f64,
}

/// A distribution with its contexts: the mean of a hierarchy for each.
struct Mean(Vec<(Vec<Element>, Distribution)>);

/// The restaurants of a configuration in each hierarchy of a distribution.
type Paths = [Path; MOST_CONTEXTS];

impl Mean {
    fn new(part: Part, contexts: &Contexts, hierarchies: &[KeptHierarchy]) -> Mean {
        let own = contexts.all.iter().zip(hierarchies).filter(|((other, _), _)| *other == part);
        Mean(own.map(|((_, elements), kept)| (elements.clone(), Distribution::new(kept))).collect())
    }

    #[inline]
    fn paths(&self, arena: &Configurations, top: u32, tag: u32) -> Paths {
        let mut paths = [Path::EMPTY; MOST_CONTEXTS];
        for (path, (elements, distribution)) in paths.iter_mut().zip(&self.0) {
            let mut values = [0; DEEPEST];
            let values = &mut values[..elements.len()];
            arena.values(top, elements, tag, values);
            *path = distribution.path(values);
        }
        paths
    }

    #[inline]
    fn probability(&self, paths: &Paths, outcome: u32) -> f64 {
        let all = self.0.iter().zip(paths).map(|((_, distribution), path)| distribution.probability(path, outcome));
        all.sum::<f64>() / self.0.len() as f64
    }

    /// p of every outcome.
    fn fill(&self, paths: &Paths, scratch: &mut Vec<f64>, probabilities: &mut Vec<f64>) {
        self.0[0].1.fill(&paths[0], probabilities);
        for ((_, distribution), path) in self.0.iter().zip(paths).skip(1) {
            distribution.fill(path, scratch);
            probabilities.iter_mut().zip(&*scratch).for_each(|(sum, p)| *sum += p);
        }
        let share = 1.0 / self.0.len() as f64;
        probabilities.iter_mut().for_each(|p| *p *= share);
    }
}

/// Space for the probabilities of a step, and the moves of configurations that were met before.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    one: Vec<f64>,
    mean: Vec<f64>,
    /// By the restaurants of the longest contexts. It is only ever asked, never gone through.
    met: FxHashMap<[u32; MOST_CONTEXTS], Moves>,
}

/// Configurations that are remembered.
const REMEMBERED: usize = 1 << 16;

/// A parser to be asked.
pub struct ParserModel {
    pub kept: Kept,
    transitions: Mean,
    tags: Mean,
    words: Mean,
    /// By restaurant of the transitions, where these have one context.
    moves: Vec<Moves>,
    /// By restaurant of each hierarchy of the tags: of the root's tag.
    roots: Vec<Vec<f64>>,
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
        let [transitions, tags, words] = Part::ALL.map(|part| Mean::new(part, &contexts, &kept.hierarchies));
        let mut moves = vec![];
        if let [(_, only)] = &transitions.0[..] {
            moves.resize(only.tree().restaurants(), Moves::default());
            only.each_restaurant(|restaurant, probabilities| moves[restaurant] = Moves::of(probabilities));
        }
        let root = kept.lexicon.root() as usize;
        let roots = |(_, hierarchy): &(_, Distribution)| {
            let mut roots = vec![0.0; hierarchy.tree().restaurants()];
            hierarchy.each_restaurant(|restaurant, probabilities| roots[restaurant] = probabilities[root]);
            roots
        };
        let roots = tags.0.iter().map(roots).collect();
        let mut model =
            ParserModel { kept, transitions, tags, words, moves, roots, candidate_starts: vec![], candidates: vec![] };
        model.find_candidates();
        Some(model)
    }

    /// Notes which tags each word has had; those of rare words are joined by those of unknown words.
    fn find_candidates(&mut self) {
        let lexicon = &self.kept.lexicon;
        let mut seen: Vec<Vec<(u32, u32)>> = vec![vec![]; lexicon.words() as usize];
        let is_by_tag = |(elements, distribution): &&(Vec<Element>, Distribution)| {
            elements.first().is_some_and(|first| first.start == Start::Next) && distribution.tree().restaurants() > 0
        };
        if let Some((_, distribution)) = self.words.0.iter().find(is_by_tag) {
            let tree = distribution.tree();
            for restaurant in tree.children(0) {
                for dish in tree.dishes(restaurant) {
                    let tag = tree.element(restaurant) - 1;
                    seen[tree.outcome(dish) as usize].push((tag, distribution.customers(dish)));
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
    pub fn moves(&self, arena: &Configurations, top: u32, scratch: &mut Scratch) -> Moves {
        let paths = self.transitions.paths(arena, top, 0);
        if let Some(moves) = paths[0].deepest().and_then(|restaurant| self.moves.get(restaurant)) {
            return *moves;
        }
        let key = paths.map(|path| path.deepest().map_or(u32::MAX, |restaurant| restaurant as u32));
        if let Some(moves) = scratch.met.get(&key) {
            return *moves;
        }
        self.transitions.fill(&paths, &mut scratch.one, &mut scratch.mean);
        let moves = Moves::of(&scratch.mean);
        if scratch.met.len() == REMEMBERED {
            scratch.met.clear();
        }
        scratch.met.insert(key, moves);
        moves
    }

    /// p of every transition by outcome, where two items or more are on the stack.
    pub fn all_moves(&self, arena: &Configurations, top: u32, probabilities: &mut Vec<f64>) {
        self.transitions.fill(&self.transitions.paths(arena, top, 0), &mut vec![], probabilities);
    }

    /// Ready to ask for tags.
    #[inline]
    pub fn tagger(&self, arena: &Configurations, top: u32) -> Tagger<'_> {
        let paths = self.tags.paths(arena, top, 0);
        let root = |(path, roots): (&Path, &Vec<f64>)| path.deepest().map_or(0.0, |restaurant| roots[restaurant]);
        let root = paths.iter().zip(&self.roots).map(root).sum::<f64>() / self.roots.len() as f64;
        Tagger { model: self, paths, left: if self.can_end(arena.depth(top)) { 1.0 } else { 1.0 - root } }
    }

    /// p(w | t, h^w); 1 where the model has no words.
    #[inline]
    pub fn word(&self, arena: &Configurations, top: u32, tag: u32, word: u32) -> f64 {
        if !self.kept.is_lexicalised {
            return 1.0;
        }
        self.words.probability(&self.words.paths(arena, top, tag), word)
    }

    /// p of every word, given its tag.
    pub fn all_words(&self, arena: &Configurations, top: u32, tag: u32, probabilities: &mut Vec<f64>) {
        self.words.fill(&self.words.paths(arena, top, tag), &mut vec![], probabilities);
    }
}

/// p(t | h^t) in a configuration.
pub struct Tagger<'m> {
    model: &'m ParserModel,
    paths: Paths,
    /// The probability of all tags that can come.
    left: f64,
}

impl Tagger<'_> {
    /// p of a tag, which can come.
    #[inline]
    pub fn probability(&self, tag: u32) -> f64 {
        self.model.tags.probability(&self.paths, tag) / self.left
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
