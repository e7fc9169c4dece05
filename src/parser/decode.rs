//! Finding the best derivation of a sentence: particles (Algorithm 1 of Buys & Blunsom 2015), and a plain beam.
//!
//! K particles are divided among the derivations in the beam. In the pass for a word, each derivation's particles are
//! divided between shifting the word and the best arc to either side, in proportion to their probabilities; derivations
//! that were given an arc are looked at again, until all particles have shifted the word, with one of up to three tags.
//! Then particles are dealt anew, in proportion to each derivation's particles times its probability, and derivations
//! without a particle are dropped: where the model is sure, few are left. A pass costs as many steps as derivations take,
//! and a derivation takes no more arcs than it has shifted words: so a sentence costs time in proportion to its length.
//!
//! After the last word, the same pass generates the dummy root, and what is then left on the stack becomes its dependents.
//! In every configuration something can be done, so every list of words gets a tree.

use rustc_hash::FxHashMap;

use super::configuration::{Configurations, NOTHING};
use super::job::{Answer, Search};
use super::model::{ParserModel, Scratch};
use super::weight::Weight;
use crate::transition::Label;
use crate::transition::arc_standard::Transition;

/// Tags that a word is tried with in one derivation.
const TAGS: usize = 3;

/// Derivations with a smaller share of the best one's probability are left out of expectations.
const NEGLIGIBLE: f64 = 1e-4;

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
    /// p of arcs, by dependent and head. It is only ever asked, never gone through.
    heads: FxHashMap<usize, f64>,
    /// Derivations that had a particle after each word of the last sentence.
    pub sizes: Vec<u32>,
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
            heads: FxHashMap::default(),
            sizes: vec![],
        }
    }

    /// The parse that is the answer.
    pub fn parse(&mut self, words: &[Given]) -> Parse {
        self.search(words);
        if self.model.kept.answer == Answer::Expected {
            self.keep_expected(words.len());
        }
        let best = self.beam.iter().reduce(|best, other| if other.weight > best.weight { other } else { best });
        self.read(best.expect("a derivation"), words.len())
    }

    /// Keeps the derivation whose heads are right most often, where each of those that were found is the true one with its
    /// share of probability: minimum Bayes risk.
    fn keep_expected(&mut self, words: usize) {
        let most = self.beam.iter().map(|d| d.weight).fold(self.beam[0].weight, |a, b| if b > a { b } else { a });
        self.beam.retain(|d| d.weight.at_scale(most.scale) >= NEGLIGIBLE * most.at_scale(most.scale));
        let Decoder { arena, beam, heads, .. } = self;
        heads.clear();
        let head_of = |derivation: &Derivation, show: &mut dyn FnMut(usize, f64)| {
            arena.arcs(derivation.top, |dependent, head, _| {
                show(dependent as usize * (words + 1) + head as usize, derivation.weight.at_scale(most.scale));
            });
        };
        for derivation in &*beam {
            head_of(derivation, &mut |arc, p| *heads.entry(arc).or_insert(0.0) += p);
        }
        let mut best = (0, -1.0);
        for (place, derivation) in beam.iter().enumerate() {
            let mut expected = 0.0;
            head_of(derivation, &mut |arc, _| expected += heads[&arc]);
            if expected > best.1 {
                best = (place, expected);
            }
        }
        beam.swap(0, best.0);
        beam.truncate(1);
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

    /// ln of the sum of p over the derivations that were found: what the words have at least.
    pub fn evidence_ln(&mut self, words: &[Given]) -> f64 {
        self.search(words);
        Weight::sum_ln(self.beam.iter().map(|d| d.weight))
    }

    /// Leaves complete derivations in the beam.
    fn search(&mut self, words: &[Given]) {
        self.arena.clear();
        self.beam.clear();
        self.sizes.clear();
        self.beam.push(Derivation { top: NOTHING, weight: Weight::ONE, particles: self.particles });
        for (place, &word) in (0..).zip(words) {
            self.pass(place, Some(word));
            self.sizes.push(self.beam.len() as u32);
        }
        self.pass(words.len() as u32, None);
        for at in 0..self.beam.len() {
            self.beam[at] = self.end(self.beam[at]);
        }
    }

    /// Brings all derivations to where the next word, or the dummy root, is shifted.
    fn pass(&mut self, place: u32, word: Option<Given>) {
        self.shifted.clear();
        match self.search {
            Search::Particles => {
                self.divide(place, word);
                std::mem::swap(&mut self.beam, &mut self.shifted);
                self.select();
            }
            Search::Beam => {
                self.widen(place, word);
                std::mem::swap(&mut self.beam, &mut self.shifted);
                prune(&mut self.beam, self.particles as usize);
            }
        }
    }

    /// The search step of particles.
    fn divide(&mut self, place: u32, word: Option<Given>) {
        let mut at = 0;
        while at < self.beam.len() {
            let derivation = self.beam[at];
            at += 1;
            let depth = self.arena.depth(derivation.top);
            if depth < 2 {
                self.shift(place, word, derivation, 1.0);
                continue;
            }
            let moves = self.model.moves(&self.arena, derivation.top, &mut self.scratch);
            let particles = derivation.particles;
            let shift = if word.is_some() || self.model.can_end(depth) { share(particles, moves.shift) } else { 0 };
            let left = share(particles - shift, moves.left.1 / (moves.left.1 + moves.right.1));
            let right = particles - shift - left;
            for (particles, transition, p) in [
                (left, Transition::LeftArc(moves.left.0), moves.left.1),
                (right, Transition::RightArc(moves.right.0), moves.right.1),
            ] {
                if particles > 0 {
                    let top = self.arena.reduce(derivation.top, transition);
                    self.beam.push(Derivation { top, weight: derivation.weight.times(p), particles });
                }
            }
            if shift > 0 {
                self.shift(place, word, Derivation { particles: shift, ..derivation }, moves.shift);
            }
        }
    }

    /// The search step of a plain beam: all derivations are shifted and reduced, until those that could still be reduced are
    /// worse than all that will be kept.
    fn widen(&mut self, place: u32, word: Option<Given>) {
        let width = self.particles as usize;
        while !self.beam.is_empty() {
            self.reduced.clear();
            for at in 0..self.beam.len() {
                let derivation = self.beam[at];
                let depth = self.arena.depth(derivation.top);
                if depth < 2 {
                    self.shift(place, word, derivation, 1.0);
                    continue;
                }
                let moves = self.model.moves(&self.arena, derivation.top, &mut self.scratch);
                for (transition, p) in [
                    (Transition::LeftArc(moves.left.0), moves.left.1),
                    (Transition::RightArc(moves.right.0), moves.right.1),
                ] {
                    let top = self.arena.reduce(derivation.top, transition);
                    self.reduced.push(Derivation { top, weight: derivation.weight.times(p), ..derivation });
                }
                if word.is_some() || self.model.can_end(depth) {
                    self.shift(place, word, derivation, moves.shift);
                }
            }
            prune(&mut self.reduced, width);
            prune(&mut self.shifted, width);
            let worst = self.shifted.last().filter(|_| self.shifted.len() == width).map(|d| d.weight);
            self.reduced.retain(|d| worst.is_none_or(|worst| d.weight > worst));
            std::mem::swap(&mut self.beam, &mut self.reduced);
        }
    }

    /// Shifts a word, with each of the tags that it is tried with, or the dummy root; `p` is that of shifting.
    fn shift(&mut self, place: u32, word: Option<Given>, derivation: Derivation, p: f64) {
        let lexicon = &self.model.kept.lexicon;
        let Derivation { top, weight, particles } = derivation;
        let tagger = self.model.tagger(&self.arena, top);
        let Some(word) = word else {
            let root = lexicon.root();
            let weight = weight.times(p).times(tagger.probability(root));
            let top = self.arena.shift(top, place, root, lexicon.words());
            return self.shifted.push(Derivation { top, weight, particles });
        };
        let joint = |tag: u32| tagger.probability(tag) * self.model.word(&self.arena, top, tag, word.form);
        let mut tried = [(0u32, 0.0f64); TAGS];
        let mut sum = 0.0;
        match word.tag {
            Some(tag) => {
                tried[0] = (tag, joint(tag));
                sum = tried[0].1;
            }
            None => {
                for &tag in self.model.candidates(word.form) {
                    let mut new = (tag, joint(tag));
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
            let top = self.arena.shift(top, place, tag, word.form);
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

    /// Makes what is on the stack dependents of the dummy root, which is on top.
    fn end(&mut self, mut derivation: Derivation) -> Derivation {
        while self.arena.depth(derivation.top) > 1 {
            let moves = self.model.moves(&self.arena, derivation.top, &mut self.scratch);
            derivation.top = self.arena.reduce(derivation.top, Transition::LeftArc(moves.left.0));
            derivation.weight = derivation.weight.times(moves.left.1 / moves.all_left);
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
        };
        self.arena.arcs(derivation.top, |dependent, head, label| {
            parse.heads[dependent as usize] = if head as usize == words { 0 } else { head + 1 };
            parse.labels[dependent as usize] = label;
        });
        for (item, _) in self.arena.backwards(derivation.top) {
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
