//! A parser as it is kept and asked.
//!
//! ```text
//! p(t, w, a) = prod over steps of
//!     p(a | h^a)                                 an action, with its label; where a shift is the only way, it has
//!                                                probability 1
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
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::action::{Action, Actions, Kinds, System, arcs};
use super::configuration::{Configurations, NOTHING, Upcoming};
use super::distribution::{Distribution, KeptHierarchy, Path};
use super::element::Element;
use super::job::{Contexts, MOST_CONTEXTS, Part, Plan, Search, Tags};
use super::lexicon::Lexicon;
use super::recall::Recall;
use super::treebank::TagColumn;
use crate::error::{Error, Result};
use crate::job::model_file;
use crate::restaurant::parameters::Parameters;
use crate::restaurant::seating::DEEPEST;
use crate::transition::Label;

/// The kind in model files.
pub const KIND: &str = "parser";

/// What is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    pub lexicon: Lexicon,
    pub system: System,
    /// The most elements on the stack of left-corner; 0: any number.
    pub max_memory: u32,
    pub is_lexicalised: bool,
    pub is_single_rooted: bool,
    pub tags: Tags,
    pub tag_column: TagColumn,
    pub particles: u32,
    pub search: Search,
    /// Contexts of transitions, tags and words, as in a job file.
    pub contexts: [Vec<Vec<String>>; 3],
    /// One for each context.
    pub hierarchies: Vec<Arc<KeptHierarchy>>,
}

impl Kept {
    /// What was learned.
    pub fn new(plan: &Plan, lexicon: Lexicon, is_single_rooted: bool, hierarchies: Vec<Arc<KeptHierarchy>>) -> Kept {
        Kept {
            hierarchies,
            lexicon,
            system: plan.model.system,
            max_memory: plan.model.max_memory,
            is_lexicalised: plan.model.lexicalised,
            is_single_rooted,
            tags: plan.model.tags,
            tag_column: plan.model.tag_column,
            particles: plan.model.particles,
            search: plan.model.search,
            contexts: plan.contexts.names(),
        }
    }

    /// The contexts, where the numbers can be those of a model; a file may be damaged.
    fn contexts(&self) -> Option<Contexts> {
        let [transition, tag, word] = &self.contexts;
        let contexts = Contexts::parse([transition, tag, word], self.is_lexicalised).ok()?;
        let elements = self.lexicon.symbols();
        let is_sound = |((part, list), hierarchy): (&(Part, Vec<Element>), &Arc<KeptHierarchy>)| {
            hierarchy.is_sound(list.len(), self.lexicon.outcomes(*part, self.system), elements)
        };
        let is_whole = self.particles > 0 && contexts.all.len() == self.hierarchies.len();
        (is_whole && contexts.all.iter().zip(&self.hierarchies).all(is_sound)).then_some(contexts)
    }
}

/// What can be done in a configuration, of one kind: the best label with its probability, and the probability of all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Move {
    pub label: Label,
    pub best: f64,
    pub all: f64,
}

/// A distribution with its contexts: the mean of a hierarchy for each. Where all values of its contexts stand one behind the
/// other, the second list says where the tag of the word is that is being generated.
struct Mean(Vec<(Vec<Element>, Distribution)>, Vec<usize>);

/// The restaurants of a configuration in each hierarchy of a distribution.
type Paths = [Path; MOST_CONTEXTS];

impl Mean {
    fn new(part: Part, contexts: &Contexts, hierarchies: &[Arc<KeptHierarchy>]) -> Mean {
        let own = contexts.all.iter().zip(hierarchies).filter(|((other, _), _)| *other == part);
        let own: Vec<_> =
            own.map(|((_, elements), kept)| (elements.clone(), Distribution::new(kept.clone()))).collect();
        let all = own.iter().flat_map(|(elements, _)| elements).enumerate();
        let of_tag = all.filter(|(_, element)| element.is_next_tag()).map(|(at, _)| at).collect();
        Mean(own, of_tag)
    }

    /// `lexicon` is given where words that raw text has taught are not known.
    #[inline]
    fn paths(&self, arena: &Configurations, top: u32, upcoming: Upcoming, lexicon: Option<&Lexicon>) -> Paths {
        let mut paths = [Path::EMPTY; MOST_CONTEXTS];
        for (path, (elements, distribution)) in paths.iter_mut().zip(&self.0) {
            let mut values = [0; DEEPEST];
            let values = &mut values[..elements.len()];
            arena.values(top, elements, upcoming, values);
            if let Some(lexicon) = lexicon {
                lexicon.coarsen(elements, values);
            }
            *path = distribution.path(values);
        }
        paths
    }

    /// The values of all contexts, one behind the other.
    #[inline]
    fn look(&self, arena: &Configurations, top: u32, action: u32, lexicon: Option<&Lexicon>, values: &mut Vec<u32>) {
        values.clear();
        for (elements, _) in &self.0 {
            let start = values.len();
            values.resize(start + elements.len(), 0);
            arena.values(top, elements, Upcoming { tag: 0, action }, &mut values[start..]);
            if let Some(lexicon) = lexicon {
                lexicon.coarsen(elements, &mut values[start..]);
            }
        }
    }

    /// The same as [`Mean::probability`] of the paths of `values`.
    #[inline]
    fn recalled(&self, values: &[u32], outcome: u32, recall: &mut Recall<f64>) -> f64 {
        let (mut sum, mut rest) = (0.0, values);
        for (number, (elements, distribution)) in (0..).zip(&self.0) {
            let (context, behind) = rest.split_at(elements.len());
            rest = behind;
            sum += recall.ask(number, context, outcome, 1, |answer| {
                answer[0] = distribution.probability(&distribution.path(context), outcome);
            })[0];
        }
        sum / self.0.len() as f64
    }

    /// The same of all outcomes, where these are few.
    #[inline]
    fn recalled_all(&self, values: &[u32], recall: &mut Recall<f64>, probabilities: &mut Vec<f64>) {
        probabilities.clear();
        let mut rest = values;
        for (number, (elements, distribution)) in (0..).zip(&self.0) {
            let (context, behind) = rest.split_at(elements.len());
            rest = behind;
            probabilities.resize(distribution.outcomes(), 0.0);
            let all = recall.ask(number, context, 0, distribution.outcomes(), |answers| {
                distribution.fill_slice(&distribution.path(context), answers);
            });
            probabilities.iter_mut().zip(all).for_each(|(sum, p)| *sum += p);
        }
        probabilities.iter_mut().for_each(|p| *p /= self.0.len() as f64);
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
#[derive(Clone, Debug)]
pub struct Scratch {
    one: Vec<f64>,
    mean: Vec<f64>,
    /// By the longest contexts that are known: where in `moves` theirs begin. It is only ever asked, never gone through.
    met: FxHashMap<[u64; MOST_CONTEXTS], u32>,
    moves: Vec<Move>,
    /// The values of contexts in the configuration that was looked at last: of words, and of others.
    word_values: Vec<u32>,
    values: Vec<u32>,
    /// p of each tag there.
    tags: Vec<f64>,
    met_words: Recall<f64>,
    met_tags: Recall<f64>,
    /// Restaurants of the transitions, where these have one context.
    met_moves: Recall<u32>,
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch {
            one: vec![],
            mean: vec![],
            met: FxHashMap::default(),
            moves: vec![],
            word_values: vec![],
            values: vec![],
            tags: vec![],
            met_words: Recall::new(13),
            met_tags: Recall::new(11),
            met_moves: Recall::new(12),
        }
    }
}

/// Configurations that are remembered.
const REMEMBERED: usize = 1 << 16;

/// A parser to be asked.
pub struct ParserModel {
    pub kept: Kept,
    transitions: Mean,
    tags: Mean,
    words: Mean,
    actions: Actions,
    /// By restaurant of the transitions and kind, where these have one context, and restaurants for all of it.
    moves: Vec<Move>,
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
        let actions = Actions { system: kept.system, labels: kept.lexicon.labels.len() };
        let (mut moves, kinds) = (vec![], actions.kinds());
        if let [(_, only)] = &transitions.0[..]
            && only.has_all_contexts()
        {
            moves.resize(only.tree().restaurants() * kinds, Move::default());
            only.each_restaurant(|restaurant, probabilities| {
                let own = moves[restaurant * kinds..].iter_mut();
                own.zip(moves_of(actions, probabilities)).for_each(|(own, found)| *own = found);
            });
        }
        let mut model = ParserModel {
            kept,
            transitions,
            tags,
            words,
            actions,
            moves,
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
        let is_by_tag = |(elements, distribution): &&(Vec<Element>, Distribution)| {
            elements.first().is_some_and(Element::is_next_tag) && distribution.tree().restaurants() > 0
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

    /// Discounts and strengths of the distributions that are `wanted`, one for each context.
    pub fn parameters_of(&self, wanted: impl Fn(Part) -> bool) -> Vec<Parameters> {
        let counts = self.kept.contexts.iter().map(Vec::len);
        let parts = Part::ALL.into_iter().zip(counts).flat_map(|(part, count)| std::iter::repeat_n(part, count));
        let all = parts.zip(&self.kept.hierarchies).filter(|(part, _)| wanted(*part));
        all.map(|(_, hierarchy)| hierarchy.parameters.clone()).collect()
    }

    /// The tags that a word can have.
    pub fn candidates(&self, word: u32) -> &[u32] {
        let at = |word: u32| self.candidate_starts[word as usize] as usize;
        &self.candidates[at(word)..at(word + 1)]
    }

    pub fn actions(&self) -> Actions {
        self.actions
    }

    /// Whether the dummy root can be generated by `action`.
    #[inline]
    pub fn can_end(&self, arena: &Configurations, top: u32, action: Action) -> bool {
        match self.kept.system {
            System::ArcStandard => {
                let depth = arena.depth(top);
                depth == 1 || (depth > 1 && !self.kept.is_single_rooted)
            }
            System::LeftCorner => action == Action::InsertHead && arena.can_root_end(top, self.kept.is_single_rooted),
        }
    }

    /// Whether the derivation is complete.
    #[inline]
    pub fn is_complete(&self, arena: &Configurations, top: u32) -> bool {
        arena.depth(top) == 1 && arena.item(top).tag == self.kept.lexicon.root() && arena.item(top).word != NOTHING
    }

    /// The kinds of actions that have a probability; all others are impossible.
    #[inline]
    pub fn possible(&self, arena: &Configurations, top: u32) -> Kinds {
        match self.kept.system {
            System::ArcStandard if arena.depth(top) < 2 => arcs::SHIFT,
            System::ArcStandard if arena.item(top).tag == self.kept.lexicon.root() => arcs::LEFT,
            System::ArcStandard => arcs::SHIFT | arcs::LEFT | arcs::RIGHT,
            System::LeftCorner => arena.corner_kinds(top, self.kept.max_memory),
        }
    }

    /// Of these kinds, those that can lead to the end of a sentence in which `words_left` words are to come before the root.
    #[inline]
    pub fn feasible(&self, arena: &Configurations, top: u32, kinds: Kinds, words_left: u32) -> Kinds {
        match self.kept.system {
            System::ArcStandard if words_left == 0 && !self.can_end(arena, top, Action::Shift) => kinds & !arcs::SHIFT,
            System::ArcStandard => kinds,
            System::LeftCorner => arena.corner_feasible(top, kinds, words_left, self.kept.is_single_rooted),
        }
    }

    /// What can be done where there is a choice, by kind; impossible kinds have a share, too.
    #[inline]
    pub fn moves<'a>(&'a self, arena: &Configurations, top: u32, scratch: &'a mut Scratch) -> &'a [Move] {
        let kinds = self.actions.kinds();
        if !self.moves.is_empty() {
            let Scratch { values, met_moves, .. } = scratch;
            let distribution = &self.transitions.0[0].1;
            self.transitions.look(arena, top, Upcoming::default().action, Some(&self.kept.lexicon), values);
            let found = met_moves.ask(0, values, 0, 1, |answer| {
                answer[0] = distribution.path(values).deepest().expect("there is the root") as u32;
            });
            return &self.moves[found[0] as usize * kinds..][..kinds];
        }
        let paths = self.transitions.paths(arena, top, Upcoming::default(), Some(&self.kept.lexicon));
        let key = paths.map(|path| path.key());
        if let Some(&start) = scratch.met.get(&key) {
            return &scratch.moves[start as usize..][..kinds];
        }
        self.transitions.fill(&paths, &mut scratch.one, &mut scratch.mean);
        if scratch.met.len() == REMEMBERED {
            scratch.met.clear();
            scratch.moves.clear();
        }
        let start = scratch.moves.len();
        scratch.met.insert(key, start as u32);
        scratch.moves.extend(moves_of(self.actions, &scratch.mean));
        &scratch.moves[start..]
    }

    /// p of every action by outcome, where there is a choice: 0 of those that are impossible.
    pub fn all_moves(&self, arena: &Configurations, top: u32, probabilities: &mut Vec<f64>) {
        let paths = self.transitions.paths(arena, top, Upcoming::default(), Some(&self.kept.lexicon));
        self.transitions.fill(&paths, &mut vec![], probabilities);
        let possible = self.possible(arena, top);
        for (kind, range) in self.actions.ranges().enumerate() {
            if possible >> kind & 1 == 0 {
                probabilities[range].fill(0.0);
            }
        }
        let sum: f64 = probabilities.iter().sum();
        probabilities.iter_mut().for_each(|p| *p /= sum);
    }

    /// Ready to ask for the tag of a word that `action` generates.
    #[inline]
    pub fn tagger(&self, arena: &Configurations, top: u32, action: Action) -> Tagger<'_> {
        let paths = self.tags.paths(arena, top, Upcoming { tag: 0, action: action.value() }, Some(&self.kept.lexicon));
        let root = || self.tags.probability(&paths, self.kept.lexicon.root());
        let left = if self.can_end(arena, top, action) { 1.0 } else { 1.0 - root() };
        Tagger { model: self, paths, left }
    }

    /// Looks at a configuration, to ask how likely each tag and word is that `action` generates there; returns the probability
    /// of all tags that can come.
    #[inline]
    pub fn look(&self, arena: &Configurations, top: u32, action: Action, scratch: &mut Scratch) -> f64 {
        let Scratch { word_values, values, tags, met_tags, .. } = scratch;
        self.tags.look(arena, top, action.value(), Some(&self.kept.lexicon), values);
        self.tags.recalled_all(values, met_tags, tags);
        if self.kept.is_lexicalised {
            self.words.look(arena, top, action.value(), None, word_values);
        }
        match self.can_end(arena, top, action) {
            true => 1.0,
            false => 1.0 - tags[self.kept.lexicon.root() as usize],
        }
    }

    /// p(t | h^t) where [`ParserModel::look`] has looked and found `left`, of a tag that can come.
    #[inline]
    pub fn tag_there(&self, tag: u32, left: f64, scratch: &Scratch) -> f64 {
        scratch.tags[tag as usize] / left
    }

    /// p(w | t, h^w) there; 1 where the model has no words.
    #[inline]
    pub fn word_there(&self, tag: u32, word: u32, scratch: &mut Scratch) -> f64 {
        if !self.kept.is_lexicalised {
            return 1.0;
        }
        self.words.1.iter().for_each(|&at| scratch.word_values[at] = tag + 1);
        self.words.recalled(&scratch.word_values, word, &mut scratch.met_words)
    }

    /// p(w | t, h^w); 1 where the model has no words.
    #[inline]
    pub fn word(&self, arena: &Configurations, top: u32, upcoming: Upcoming, word: u32) -> f64 {
        if !self.kept.is_lexicalised {
            return 1.0;
        }
        self.words.probability(&self.words.paths(arena, top, upcoming, None), word)
    }

    /// p of every word, given its tag.
    pub fn all_words(&self, arena: &Configurations, top: u32, upcoming: Upcoming, probabilities: &mut Vec<f64>) {
        self.words.fill(&self.words.paths(arena, top, upcoming, None), &mut vec![], probabilities);
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

/// The moves of each kind, from p of every outcome.
fn moves_of(actions: Actions, probabilities: &[f64]) -> impl Iterator<Item = Move> {
    actions.ranges().map(move |range| {
        let mut found = Move { all: probabilities[range.clone()].iter().sum(), ..Move::default() };
        for (label, &p) in probabilities[range].iter().enumerate() {
            if p > found.best {
                (found.label, found.best) = (Label(label as u16), p);
            }
        }
        found
    })
}
