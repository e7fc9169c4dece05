//! A grammar to parse with: the logarithms of its weights, and one symbol more, for tags that were never seen in training.
//!
//! Such a tag is as likely a dependent as the least likely of the others; as a head it stops with probability 1/2 and takes all
//! tags alike. What EM has never used is very unlikely, but not impossible: every sentence has a tree.

use super::forest::Forest;
use super::pass::Weights;
use super::shape::{CONTEXTS, Shape};
use crate::chart::best::Decoder;
use crate::chart::inside::Chart;
use crate::chart::scores::Scores;
use crate::math::ln;

pub struct Grammar {
    tags: usize,
    tag_of: Vec<u32>,
    forest: Forest,
    arcs: Vec<f64>,
    stops: Vec<f64>,
    roots: Vec<f64>,
}

/// The least weight of an arc, a stop or a root.
const LEAST: f64 = 1e-30;

/// How a tree is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Choice {
    /// The most probable tree
    #[default]
    Viterbi,
    /// The tree whose arcs are right most often in expectation
    MinimumRisk,
}

/// Buffers of parsing.
#[derive(Default)]
pub struct Buffers {
    scores: Scores<1>,
    used: Scores<1>,
    chart: Chart<1>,
    decoder: Decoder,
}

impl Grammar {
    pub fn new(shape: &Shape, weights: &Weights, forest: Forest) -> Grammar {
        let (tags, symbols) = (shape.tags, shape.symbols());
        let mut grammar = Grammar {
            tags,
            tag_of: shape.tag_of.iter().copied().chain([tags as u32]).collect(),
            forest,
            arcs: vec![0.0; CONTEXTS * (symbols + 1) * (tags + 1)],
            stops: vec![ln(0.5); CONTEXTS * (tags + 1)],
            roots: vec![0.0; tags + 1],
        };
        let fill = |to: &mut [f64], from: &[f64]| {
            let mut least = f64::INFINITY;
            for (tag, weight) in from.iter().enumerate() {
                to[tag] = ln(weight.max(LEAST)) + weights.scales[tag];
                least = least.min(to[tag]);
            }
            to[tags] = least;
        };
        for context in 0..CONTEXTS {
            for tag in 0..tags {
                grammar.stops[context * (tags + 1) + tag] = ln(weights.uses[shape.stop(context, tag)].max(LEAST));
            }
            for symbol in 0..symbols {
                let at = grammar.arcs_at(context, symbol);
                fill(&mut grammar.arcs[at..][..tags + 1], &weights.uses[shape.arcs(context, symbol)..][..tags]);
            }
            let at = grammar.arcs_at(context, symbols);
            grammar.arcs[at..][..tags + 1].fill(ln(0.5) - ln(tags as f64));
        }
        fill(&mut grammar.roots, &weights.uses[shape.root(0)..][..tags]);
        grammar
    }

    fn arcs_at(&self, context: usize, symbol: usize) -> usize {
        (context * self.tag_of.len() + symbol) * (self.tags + 1)
    }

    /// The logarithms of a sentence's scores.
    fn score(&self, symbols: &[u32], scores: &mut Scores<1>) {
        scores.resize(symbols.len());
        let tag = |word: usize| self.tag_of[symbols[word] as usize] as usize;
        let heads = self.forest.heads((0..symbols.len()).map(tag));
        for head in 0..symbols.len() {
            let is_head = heads.may_be(tag(head));
            for context in 0..CONTEXTS {
                let (side, valence) = (context / 2, context % 2);
                *scores.stop_mut(side, valence, head) = [self.stops[context * (self.tags + 1) + tag(head)]];
                let at = self.arcs_at(context, symbols[head] as usize);
                for dependent in if side == 0 { 0..head } else { head + 1..symbols.len() } {
                    let arc = if is_head { self.arcs[at + tag(dependent)] } else { f64::NEG_INFINITY };
                    *scores.arc_mut(valence, head, dependent) = [arc];
                }
            }
            *scores.root_mut(head) = [self.roots[tag(head)]];
        }
    }

    /// The heads of a sentence's words, from 1; 0 is the root.
    pub fn parse(&self, symbols: &[u32], choice: Choice, buffers: &mut Buffers) -> Vec<u32> {
        let mut heads = vec![];
        if symbols.is_empty() {
            return heads;
        }
        self.score(symbols, &mut buffers.scores);
        if choice == Choice::MinimumRisk && !self.expect_arcs(buffers) {
            self.score(symbols, &mut buffers.scores);
        }
        buffers.decoder.best(&buffers.scores, &self.forest.halves, &mut heads);
        heads
    }

    /// Puts the probabilities of arcs in the place of scores; what no tree may have stays out. False where all trees are too
    /// unlikely to be added up.
    fn expect_arcs(&self, buffers: &mut Buffers) -> bool {
        let Buffers { scores, used, chart, .. } = buffers;
        let words = scores.words();
        for word in 0..words {
            let exp = |x: &mut [f64; 1]| x[0] = libm::exp(x[0]);
            (0..words * 2).for_each(|i| exp(scores.arc_mut(i % 2, word, i / 2)));
            (0..4).for_each(|i| exp(scores.stop_mut(i / 2, i % 2, word)));
            exp(scores.root_mut(word));
            // A word's own place is no arc, and may hold anything.
            (0..2).for_each(|valence| *scores.arc_mut(valence, word, word) = [0.0]);
        }
        scores.rescale(&mut [0.0]);
        let sum = chart.inside(scores, &self.forest.halves)[0];
        if sum <= 0.0 {
            return false;
        }
        chart.outside(scores, &self.forest.halves, &[1.0 / sum], used);
        for word in 0..words {
            for other in (0..words).filter(|&other| other != word) {
                let both = used.arc(0, word, other)[0] + used.arc(1, word, other)[0];
                let is_out = scores.arc(0, word, other)[0] == 0.0;
                let both = if is_out { f64::NEG_INFINITY } else { both };
                (0..2).for_each(|valence| *scores.arc_mut(valence, word, other) = [both]);
            }
            (0..4).for_each(|i| *scores.stop_mut(i / 2, i % 2, word) = [0.0]);
            *scores.root_mut(word) = *used.root(word);
        }
        true
    }
}
