//! Finding the best derivation of a sentence: particles (Algorithm 1 of Buys & Blunsom 2015), and a plain beam.
//!
//! K particles are divided among the derivations in the beam. In the pass for a word, each derivation's particles are
//! divided between shifting the word and the best arc to either side, in proportion to their probabilities; derivations
//! that were given an arc are looked at again, until all particles have shifted the word, with one of up to three tags.
//! (In left-corner parsing, likewise between the best action of each kind.)
//! Then particles are dealt anew, in proportion to each derivation's particles times its probability, and derivations
//! without a particle are dropped: where the model is sure, few are left. A pass costs as many steps as derivations take,
//! and a derivation takes no more arcs than it has shifted words: so a sentence costs time in proportion to its length.
//!
//! After the last word, the same pass generates the dummy root, and what is then left on the stack becomes its dependents.
//! In every configuration something can be done, so every list of words gets a tree.

use super::action::{Action, Kinds, MOST_KINDS};
use super::configuration::{Configurations, NOTHING};
use super::job::Search;
use super::model::{Candidate, ParserModel, Scratch};
use super::weight::Weight;
use crate::transition::Label;

/// Tags that a word is tried with in one derivation.
const TAGS: usize = 3;

/// Tags are not tried that are worth less than this share of one of the particles that a derivation has, by p(t | h^t) and what
/// the tag alone says of the word.
const LEAST: f64 = 0.05;

/// A word to be parsed, as the lexicon numbers it, with its tag where that is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    pub form: u32,
    pub tag: Option<u32>,
}

/// A parse.
#[derive(Clone, Debug, PartialEq)]
pub struct Parse {
    /// As in CoNLL-U: words are 1 .. n, 0 is the root.
    pub heads: Vec<u32>,
    pub labels: Vec<Label>,
    pub tags: Vec<u32>,
    /// ln p of words, tags and tree, by the derivations of it that were found.
    pub ln: f64,
    /// The most items that were on the stack at once.
    pub memory: u32,
}

/// How likely words are.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicted {
    /// ln of p of each word, and of the end of the sentence, given those before: of the derivations that were kept before it,
    /// the share that goes on to it. Which these are does not depend on the word: so these are the predictions of an
    /// incremental parser (Roark 2001), and add up to at most one over all words. (A left-corner parser keeps what can still
    /// end with the words that are left; so its predictions are those of one that knows how many there are.)
    pub words_ln: Vec<f64>,
    /// ln of the sum of p over the derivations that were found at the end: what the words have at least.
    pub evidence_ln: f64,
}

/// What a pass is to generate: a word, or the dummy root.
#[derive(Clone, Copy, Debug)]
struct Next {
    place: u32,
    word: Option<Given>,
    /// Words from here on, the root not counted.
    words_left: u32,
}

/// Actions, each with its p and with that of all of its kind.
struct Options {
    list: [(Action, f64, f64); MOST_KINDS],
    length: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { list: [(Action::Shift, 0.0, 0.0); MOST_KINDS], length: 0 }
    }
}

impl Options {
    #[inline]
    fn push(&mut self, action: Action, p: f64, all: f64) {
        self.list[self.length] = (action, p, all);
        self.length += 1;
    }

    fn sum(&self) -> f64 {
        self.list[..self.length].iter().map(|(_, _, all)| all).sum()
    }
}

#[derive(Clone, Copy, Debug)]
struct Derivation {
    top: u32,
    weight: Weight,
    particles: u32,
}

/// Parses sentences one by one; its buffers are reused.
pub struct Decoder<'m> {
    model: &'m ParserModel,
    search: Search,
    particles: u32,
    arena: Configurations,
    beam: Vec<Derivation>,
    shifted: Vec<Derivation>,
    reduced: Vec<Derivation>,
    scratch: Scratch,
    /// Derivations that had a particle after each word of the last sentence.
    pub sizes: Vec<u32>,
    /// Where words are to be predicted one by one: ln of p of each so far.
    words_ln: Option<Vec<f64>>,
    /// ln of the sum of p over the derivations that were kept last, there.
    kept_ln: f64,
}

impl<'m> Decoder<'m> {
    pub fn new(model: &'m ParserModel, search: Search, particles: u32) -> Decoder<'m> {
        Decoder {
            model,
            search,
            particles,
            arena: Configurations::default(),
            beam: vec![],
            shifted: vec![],
            reduced: vec![],
            scratch: Scratch::default(),
            sizes: vec![],
            words_ln: None,
            kept_ln: 0.0,
        }
    }

    /// The best parse.
    pub fn parse(&mut self, words: &[Given]) -> Parse {
        self.search(words);
        let best = self.beam.iter().reduce(|best, other| if other.weight > best.weight { other } else { best });
        self.read(best.expect("a derivation"), words.len())
    }

    /// Up to `count` parses, the best first; derivations of the same parse are added up.
    pub fn best(&mut self, words: &[Given], count: usize) -> Vec<Parse> {
        self.search(words);
        let mut all: Vec<Parse> = self.beam.iter().map(|derivation| self.read(derivation, words.len())).collect();
        let key = |parse: &Parse| (parse.heads.clone(), parse.labels.clone(), parse.tags.clone());
        all.sort_by_cached_key(key);
        all.dedup_by(|other, first| {
            let is_same = key(other) == key(first);
            if is_same {
                let (high, low) = (first.ln.max(other.ln), first.ln.min(other.ln));
                first.ln = high + libm::log1p(libm::exp(low - high));
            }
            is_same
        });
        all.sort_by(|a, b| b.ln.total_cmp(&a.ln));
        all.truncate(count);
        all
    }

    /// Leaves complete derivations in the beam.
    fn search(&mut self, words: &[Given]) {
        self.arena.clear();
        self.beam.clear();
        self.sizes.clear();
        self.beam.push(Derivation { top: NOTHING, weight: Weight::ONE, particles: self.particles });
        let count = words.len() as u32;
        for (place, &word) in (0..).zip(words) {
            self.pass(Next { place, word: Some(word), words_left: count - place });
            self.sizes.push(self.beam.len() as u32);
        }
        self.pass(Next { place: count, word: None, words_left: 0 });
        for at in 0..self.beam.len() {
            self.beam[at] = self.end(self.beam[at]);
        }
    }

    /// How likely the words are, at once and one by one.
    pub fn predict(&mut self, words: &[Given]) -> Predicted {
        self.kept_ln = 0.0;
        self.words_ln = Some(vec![]);
        self.search(words);
        let mut words_ln = self.words_ln.take().expect("they were noted");
        let evidence_ln = self.beam_ln();
        *words_ln.last_mut().expect("the end") += evidence_ln - self.kept_ln;
        Predicted { words_ln, evidence_ln }
    }

    /// ln of the sum of p over the derivations in the beam.
    fn beam_ln(&self) -> f64 {
        Weight::sum_ln(self.beam.iter().map(|d| d.weight))
    }

    /// Brings all derivations to where the next word, or the dummy root, has been generated.
    fn pass(&mut self, next: Next) {
        self.shifted.clear();
        match self.search {
            Search::Particles => {
                self.divide(next);
                std::mem::swap(&mut self.beam, &mut self.shifted);
                self.note_word();
                self.select();
            }
            Search::Beam => {
                self.widen(next);
                std::mem::swap(&mut self.beam, &mut self.shifted);
                self.note_word();
                prune(&mut self.beam, self.particles as usize);
            }
        }
        if self.words_ln.is_some() {
            self.kept_ln = self.beam_ln();
        }
    }

    /// Notes p of the word that all derivations have generated, where that is asked for.
    fn note_word(&mut self) {
        if let Some(mut words_ln) = self.words_ln.take() {
            words_ln.push(self.beam_ln() - self.kept_ln);
            self.words_ln = Some(words_ln);
        }
    }

    /// What can be done with a derivation: kinds as a set, and of each its best action with p and the share of particles that
    /// it is due.
    fn options(&mut self, top: u32, words_left: u32, options: &mut Options) {
        options.length = 0;
        if !self.arena.has_choice(top, self.model.kept.system) {
            return options.push(Action::Shift, 1.0, 1.0);
        }
        let actions = self.model.actions();
        let possible = self.model.possible(&self.arena, top);
        let feasible = self.model.feasible(&self.arena, top, possible, words_left);
        let moves = self.model.moves(&self.arena, top, &mut self.scratch);
        let is_all = possible.count_ones() as usize == moves.len();
        let has = |kinds: Kinds, kind: usize| kinds >> kind & 1 == 1;
        let sum = match is_all {
            true => 1.0,
            false => (0..moves.len()).filter(|&kind| has(possible, kind)).map(|kind| moves[kind].all).sum(),
        };
        for (kind, found) in moves.iter().enumerate().filter(|(kind, _)| has(feasible, *kind)) {
            options.push(actions.action(kind, found.label), found.best / sum, found.all / sum);
        }
    }

    /// The search step of particles.
    fn divide(&mut self, next: Next) {
        let mut options = Options::default();
        let mut at = 0;
        while at < self.beam.len() {
            let derivation = self.beam[at];
            at += 1;
            self.options(derivation.top, next.words_left, &mut options);
            let (mut particles, mut left) = (derivation.particles, options.sum());
            let own = &options.list[..options.length];
            for (place, &(action, p, all)) in own.iter().enumerate() {
                let is_last = place + 1 == own.len();
                let part = if is_last { particles } else { share(particles, all / left) };
                (particles, left) = (particles - part, left - all);
                if part == 0 {
                    continue;
                }
                let derivation = Derivation { particles: part, ..derivation };
                match action.has_word() {
                    true => self.generate(next, derivation, action, p),
                    false => {
                        let top = self.arena.reduce(derivation.top, action);
                        self.beam.push(Derivation { top, weight: derivation.weight.times(p), ..derivation });
                    }
                }
            }
        }
    }

    /// The search step of a plain beam: all derivations take every kind of action, until those that have not generated the
    /// word are worse than all that will be kept.
    fn widen(&mut self, next: Next) {
        let width = self.particles as usize;
        let mut options = Options::default();
        while !self.beam.is_empty() {
            self.reduced.clear();
            for at in 0..self.beam.len() {
                let derivation = self.beam[at];
                self.options(derivation.top, next.words_left, &mut options);
                for &(action, p, _) in &options.list[..options.length] {
                    match action.has_word() {
                        true => self.generate(next, derivation, action, p),
                        false => {
                            let top = self.arena.reduce(derivation.top, action);
                            self.reduced.push(Derivation { top, weight: derivation.weight.times(p), ..derivation });
                        }
                    }
                }
            }
            prune(&mut self.reduced, width);
            prune(&mut self.shifted, width);
            let worst = self.shifted.last().filter(|_| self.shifted.len() == width).map(|d| d.weight);
            self.reduced.retain(|d| worst.is_none_or(|worst| d.weight > worst));
            std::mem::swap(&mut self.beam, &mut self.reduced);
        }
    }

    /// Generates a word, with each of the tags that it is tried with, or the dummy root; `p` is that of the action.
    fn generate(&mut self, next: Next, derivation: Derivation, action: Action, p: f64) {
        let lexicon = &self.model.kept.lexicon;
        let Derivation { top, weight, particles } = derivation;
        let (model, scratch) = (self.model, &mut self.scratch);
        let left = model.look(&self.arena, top, action, scratch);
        let Some(word) = next.word else {
            let root = lexicon.root();
            let weight = weight.times(p).times(model.tag_there(root, left, scratch));
            let top = self.arena.generate(top, action, next.place, root, lexicon.words());
            return self.shifted.push(Derivation { top, weight, particles });
        };
        let mut tried = [(0u32, 0.0f64); TAGS];
        let mut sum = 0.0;
        match word.tag {
            Some(tag) => {
                sum = model.tag_there(tag, left, scratch) * model.word_there(tag, word.form, scratch);
                tried[0] = (tag, sum);
            }
            None => {
                let candidates = model.candidates(word.form);
                let rough = |tag: f64, candidate: &Candidate| tag * f64::from(candidate.likelihood);
                let of_tag = |candidate: &Candidate| model.tag_there(candidate.tag, left, scratch);
                let best = candidates.iter().map(|tag| rough(of_tag(tag), tag)).fold(0.0, f64::max);
                let least = best * LEAST / f64::from(particles);
                for candidate in candidates {
                    let of_tag = model.tag_there(candidate.tag, left, scratch);
                    if rough(of_tag, candidate) < least {
                        continue;
                    }
                    let mut new = (candidate.tag, of_tag * model.word_there(candidate.tag, word.form, scratch));
                    sum += new.1;
                    for old in &mut tried {
                        if new.1 > old.1 {
                            std::mem::swap(old, &mut new);
                        }
                    }
                }
            }
        }
        let shares = self.deal(particles, &tried, sum);
        for ((tag, joint), particles) in tried.into_iter().zip(shares).filter(|(_, particles)| *particles > 0) {
            let top = self.arena.generate(top, action, next.place, tag, word.form);
            self.shifted.push(Derivation { top, weight: weight.times(p).times(joint), particles });
        }
    }

    /// Divides particles among tags, of which `sum` is the probability of all; the best always has one.
    fn deal(&self, particles: u32, tried: &[(u32, f64); TAGS], sum: f64) -> [u32; TAGS] {
        if self.search == Search::Beam {
            return tried.map(|(_, joint)| if joint > 0.0 { particles } else { 0 });
        }
        let mut shares = [particles, 0, 0];
        for (at, &(_, joint)) in tried.iter().enumerate().skip(1) {
            shares[at] = share(particles, joint / sum).min(shares[0] - 1);
            shares[0] -= shares[at];
        }
        shares
    }

    /// The selection step: deals particles anew.
    fn select(&mut self) {
        let top = self.beam.iter().map(|d| d.weight.scale).max().unwrap_or(0);
        let score = |d: &Derivation| f64::from(d.particles) * d.weight.at_scale(top);
        let sum: f64 = self.beam.iter().map(score).sum();
        let best =
            self.beam.iter().copied().reduce(|best, other| if score(&other) > score(&best) { other } else { best });
        for derivation in &mut self.beam {
            derivation.particles = (score(derivation) / sum * f64::from(self.particles)) as u32;
        }
        self.beam.retain(|derivation| derivation.particles > 0);
        if let (true, Some(best)) = (self.beam.is_empty(), best) {
            self.beam.push(Derivation { particles: self.particles, ..best });
        }
    }

    /// Does what is left to be done after the dummy root was generated.
    fn end(&mut self, mut derivation: Derivation) -> Derivation {
        let mut options = Options::default();
        while !self.model.is_complete(&self.arena, derivation.top) {
            self.options(derivation.top, 0, &mut options);
            let (action, p, _) = options.list[0];
            derivation.top = self.arena.reduce(derivation.top, action);
            derivation.weight = derivation.weight.times(p);
        }
        derivation
    }

    /// Reads the parse of a complete derivation.
    fn read(&self, derivation: &Derivation, words: usize) -> Parse {
        let mut parse = Parse {
            heads: vec![0; words],
            labels: vec![Label(0); words],
            tags: vec![0; words],
            ln: derivation.weight.ln(),
            memory: self.arena.backwards(derivation.top).map(|(item, _)| item.depth).max().unwrap_or(0),
        };
        self.arena.arcs(derivation.top, |dependent, head, label| {
            parse.heads[dependent as usize] = if head as usize == words { 0 } else { head + 1 };
            parse.labels[dependent as usize] = label;
        });
        for item in self.arena.words(derivation.top) {
            if let Some(tag) = parse.tags.get_mut(item.word as usize) {
                *tag = item.tag;
            }
        }
        parse
    }
}

/// So many of `particles` as have probability `p`.
fn share(particles: u32, p: f64) -> u32 {
    ((f64::from(particles) * p).round() as u32).min(particles)
}

/// Keeps the best, the best first; of equal ones, those that came first.
fn prune(derivations: &mut Vec<Derivation>, width: usize) {
    derivations.sort_by(|a, b| b.weight.partial_cmp(&a.weight).expect("weights are numbers"));
    derivations.truncate(width);
}
