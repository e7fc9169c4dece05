//! A parser as it is kept and asked.
//!
//! ```text
//! p(t, w, a) = prod over steps of
//!     p(a | h^a)                                 an action, with its label; where a shift is the only way, it has
//!                                                probability 1
//!     p(t | h^t) p(w | t, h^w)                   at a shift; the dummy root has a tag, and no word
//! ```
//!
//! Each distribution is a hierarchy of restaurants, or a mixture of several that back off in other orders ([`super::mixture`]).
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
use super::mixture::{Example, Levels, Mixture, Weights, level};
use super::recall::Recall;
use super::treebank::TagColumn;
use crate::error::{Result, ensure};
use crate::job::model_file::{self, Stored};
use crate::restaurant::parameters::Parameters;
use crate::restaurant::seating::DEEPEST;
use crate::transition::Label;

/// The kind in model files.
pub const KIND: &str = "parser";

/// The format of model files of this kind; raise it with every change to what is written.
pub const FORMAT: u32 = 1;

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
    /// The weights of the contexts of transitions, tags and words.
    pub mixtures: [Mixture; 3],
}

impl Kept {
    /// What was learned; the contexts of a distribution weigh the same.
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
            mixtures: Part::ALL.map(|part| Mixture::equal(plan.contexts.count(part))),
            contexts: plan.contexts.names(),
        }
    }

    /// The contexts of the three distributions.
    pub fn contexts(&self) -> Result<Contexts, String> {
        let [transition, tag, word] = &self.contexts;
        Contexts::parse([transition, tag, word], self.is_lexicalised)
    }

    /// Checks the distribution of words in contexts that begin with the word's tag, of which candidates are found: its
    /// first elements are tags.
    fn validate_candidates(&self, contexts: &Contexts) -> Result<(), String> {
        let all = contexts.all.iter().zip(&self.hierarchies);
        let mut words = all
            .filter(|((part, elements), _)| *part == Part::Word && elements.first().is_some_and(Element::is_next_tag));
        let tags = 1..=self.lexicon.tags.len() as u32;
        let holds = words.all(|(_, hierarchy)| hierarchy.first_elements().all(|element| tags.contains(&element)));
        ensure(holds, "the tags of words")
    }
}

/// A search keeps at most so many derivations, whether a job, a command line or a damaged file asks for more.
pub const MOST_PARTICLES: u32 = 1 << 20;

impl Stored for Kept {
    const KIND: &'static str = KIND;
    const FORMAT: u32 = FORMAT;

    fn validate(&self) -> Result<(), String> {
        self.lexicon.validate()?;
        ensure((1..=MOST_PARTICLES).contains(&self.particles), "the number of particles")?;
        let contexts = self.contexts()?;
        ensure(contexts.all.len() == self.hierarchies.len(), "the number of contexts")?;
        let is_mixed = |(part, mixture): (Part, &Mixture)| mixture.is_sound(contexts.count(part));
        ensure(Part::ALL.into_iter().zip(&self.mixtures).all(is_mixed), "the weights of contexts")?;
        let elements = self.lexicon.symbols();
        for ((part, list), hierarchy) in contexts.all.iter().zip(&self.hierarchies) {
            let outcomes = self.lexicon.outcomes(*part, self.system);
            hierarchy.validate(list.len(), outcomes, elements).map_err(|e| format!("{}: {e}", part.name()))?;
        }
        self.validate_candidates(&contexts)
    }
}

/// What can be done in a configuration, of one kind: the best label with its probability, and the probability of all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Move {
    pub label: Label,
    pub best: f64,
    pub all: f64,
}

/// A distribution with its contexts: a hierarchy for each, and what they weigh.
struct Mixed {
    contexts: Vec<(Vec<Element>, Distribution)>,
    mixture: Mixture,
    /// Where all values of its contexts stand one behind the other: where the tag of the word is that is being generated.
    next_tags: Vec<usize>,
}

/// The restaurants of a configuration in each hierarchy of a distribution.
type Paths = [Path; MOST_CONTEXTS];

impl Mixed {
    fn new(part: Part, contexts: &Contexts, kept: &Kept) -> Mixed {
        let own = contexts.all.iter().zip(&kept.hierarchies).filter(|((other, _), _)| *other == part);
        let own: Vec<_> =
            own.map(|((_, elements), kept)| (elements.clone(), Distribution::new(kept.clone()))).collect();
        let all = own.iter().flat_map(|(elements, _)| elements).enumerate();
        let next_tags = all.filter(|(_, element)| element.is_next_tag()).map(|(at, _)| at).collect();
        Mixed { contexts: own, mixture: kept.mixtures[part as usize].clone(), next_tags }
    }

    /// `lexicon` is given where words that raw text has taught are not known.
    #[inline]
    fn paths(&self, arena: &Configurations, top: u32, upcoming: Upcoming, lexicon: Option<&Lexicon>) -> Paths {
        let mut paths = [Path::EMPTY; MOST_CONTEXTS];
        for (path, (elements, distribution)) in paths.iter_mut().zip(&self.contexts) {
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
        for (elements, _) in &self.contexts {
            let start = values.len();
            values.resize(start + elements.len(), 0);
            arena.values(top, elements, Upcoming { tag: 0, action }, &mut values[start..]);
            if let Some(lexicon) = lexicon {
                lexicon.coarsen(elements, &mut values[start..]);
            }
        }
    }

    /// The same as [`Mixed::probability`] of the paths of `values`.
    #[inline]
    fn recalled(&self, values: &[u32], outcome: u32, recall: &mut Recall<f64>) -> f64 {
        self.mixture.mix(&self.example(values, outcome, recall))
    }

    /// An outcome, as each context predicts it.
    #[inline]
    fn example(&self, values: &[u32], outcome: u32, recall: &mut Recall<f64>) -> Example {
        let (mut example, mut rest) = (Example::default(), values);
        for (number, (elements, distribution)) in self.contexts.iter().enumerate() {
            let (context, behind) = rest.split_at(elements.len());
            rest = behind;
            let answer = recall.ask(number as u32, context, outcome, 2, |answer| {
                let path = distribution.path(context);
                answer[0] = distribution.probability(&path, outcome);
                answer[1] = level(distribution.short_share(&path)) as f64;
            });
            example.p[number] = answer[0];
            example.levels = example.levels.and(answer[1] as usize);
        }
        example
    }

    /// p of all outcomes, where these are few.
    #[inline]
    fn recalled_all(&self, values: &[u32], recall: &mut Recall<f64>, probabilities: &mut Vec<f64>) {
        let outcomes = self.contexts[0].1.outcomes();
        let (mut levels, mut rest) = (Levels::default(), values);
        probabilities.clear();
        for (number, (elements, distribution)) in (0..).zip(&self.contexts) {
            let (context, behind) = rest.split_at(elements.len());
            rest = behind;
            let answers = recall.ask(number, context, 0, outcomes + 1, |answers| {
                let path = distribution.path(context);
                distribution.fill_slice(&path, &mut answers[..outcomes]);
                answers[outcomes] = level(distribution.short_share(&path)) as f64;
            });
            probabilities.extend_from_slice(&answers[..outcomes]);
            levels = levels.and(answers[outcomes] as usize);
        }
        // Only now are the weights known.
        let weights = self.mixture.weights(levels);
        let (mixed, others) = probabilities.split_at_mut(outcomes);
        mixed.iter_mut().for_each(|p| *p *= weights[0]);
        for (other, weight) in others.chunks(outcomes).zip(&weights[1..]) {
            mixed.iter_mut().zip(other).for_each(|(sum, p)| *sum += weight * p);
        }
        probabilities.truncate(outcomes);
    }

    #[inline]
    fn weights(&self, paths: &Paths) -> &Weights {
        let levels = self.contexts.iter().zip(paths).map(|((_, distribution), path)| distribution.short_share(path));
        self.mixture.weights(levels.fold(Levels::default(), |levels, short| levels.and(level(short))))
    }

    #[inline]
    fn probability(&self, paths: &Paths, outcome: u32) -> f64 {
        let all = self.contexts.iter().zip(paths).zip(self.weights(paths));
        all.map(|(((_, distribution), path), weight)| weight * distribution.probability(path, outcome)).sum()
    }

    /// p of every outcome.
    fn fill(&self, paths: &Paths, scratch: &mut Vec<f64>, probabilities: &mut Vec<f64>) {
        probabilities.clear();
        probabilities.resize(self.contexts[0].1.outcomes(), 0.0);
        for (((_, distribution), path), weight) in self.contexts.iter().zip(paths).zip(self.weights(paths)) {
            distribution.fill(path, scratch);
            probabilities.iter_mut().zip(&*scratch).for_each(|(sum, p)| *sum += weight * p);
        }
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
    transitions: Mixed,
    tags: Mixed,
    words: Mixed,
    actions: Actions,
    /// By restaurant of the transitions and kind, where these have one context, and restaurants for all of it.
    moves: Vec<Move>,
    /// By word: the tags that it can have, in `candidates`.
    candidate_starts: Vec<u32>,
    candidates: Vec<Candidate>,
}

/// A tag that a word can have.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    pub tag: u32,
    /// p(w | t), roughly: whatever the context.
    pub likelihood: f32,
}

/// A word seen less often may have any tag that its class can have.
const SURE: u32 = 8;

impl ParserModel {
    /// Reads the model at `path`, a model file or a run folder.
    pub fn load(path: &FilePath) -> Result<ParserModel> {
        Ok(ParserModel::of(model_file::load(path)?))
    }

    /// None where the numbers cannot be those of a model.
    pub fn new(kept: Kept) -> Option<ParserModel> {
        kept.validate().is_ok().then(|| ParserModel::of(kept))
    }

    /// The model of what has been validated.
    fn of(kept: Kept) -> ParserModel {
        let contexts = kept.contexts().expect("contexts that were validated");
        let [transitions, tags, words] = Part::ALL.map(|part| Mixed::new(part, &contexts, &kept));
        let actions = Actions { system: kept.system, labels: kept.lexicon.labels.len() };
        let (mut moves, kinds) = (vec![], actions.kinds());
        if let [(_, only)] = &transitions.contexts[..]
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
        model
    }

    /// Notes which tags each word has had; those of rare words are joined by those of unknown words.
    fn find_candidates(&mut self) {
        let lexicon = &self.kept.lexicon;
        let mut seen: Vec<Vec<(u32, u32)>> = vec![vec![]; lexicon.words() as usize];
        let is_by_tag = |(elements, distribution): &&(Vec<Element>, Distribution)| {
            elements.first().is_some_and(Element::is_next_tag) && distribution.tree().restaurants() > 0
        };
        if let Some((_, distribution)) = self.words.contexts.iter().find(is_by_tag) {
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
        let mut totals = vec![1u64; lexicon.tags.len()];
        seen.iter().flatten().for_each(|&(tag, count)| totals[tag as usize] += u64::from(count));
        for tags in &seen {
            self.candidate_starts.push(self.candidates.len() as u32);
            let is_sure = tags.iter().map(|(_, count)| count).sum::<u32>() >= SURE;
            for tag in 0..lexicon.tags.len() as u32 {
                let seen = tags.iter().find(|(seen, _)| *seen == tag).map(|(_, count)| *count);
                if seen.is_some() || (!is_sure && (!any || unknown[tag as usize])) {
                    let likelihood = (f64::from(seen.unwrap_or(0)) + 0.5) / totals[tag as usize] as f64;
                    self.candidates.push(Candidate { tag, likelihood: likelihood as f32 });
                }
            }
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

    /// An outcome of a distribution, as each of its contexts predicts it; their values stand one behind the other.
    pub fn example(&self, part: Part, values: &[u32], outcome: u32, recall: &mut Recall<f64>) -> Example {
        let mixed = match part {
            Part::Transition => &self.transitions,
            Part::Tag => &self.tags,
            Part::Word => &self.words,
        };
        mixed.example(values, outcome, recall)
    }

    /// The tags that a word can have.
    pub fn candidates(&self, word: u32) -> &[Candidate] {
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
            let distribution = &self.transitions.contexts[0].1;
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
        self.words.next_tags.iter().for_each(|&at| scratch.word_values[at] = tag + 1);
        self.words.recalled(&scratch.word_values, word, &mut scratch.met_words)
    }

    /// p(w | t, h^w); 1 where the model has no words.
    #[cfg(test)]
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
