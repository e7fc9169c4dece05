//! A pass over sentences: expected uses and log-likelihood, for several grammars at once.
//!
//! Grammars of the same shape are lanes ([`crate::chart`]): their weights stand beside each other in one table, and so do
//! their expectations, so that a sentence is one run over the chart for all of them, with contiguous loads and no lookups
//! by lane. Lanes never mix: a grammar's numbers are the same bits alone as among others.

use multiversion::multiversion;

use super::forest::Forest;
use super::sentences::Sentences;
use super::shape::Shape;
use crate::chart::inside::Chart;
use crate::chart::scores::{Lanes, Scores};
use crate::math::{ln, pairs};

/// Grammars that are passed over at once.
pub const LANES: usize = 8;

/// Below this, a sum over trees is taken again with other scales.
const SMALL: f64 = 1e-250;

/// Weights of one grammar: of uses, and the scale of each tag (see [`super::rules::weigh`]).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Weights {
    pub uses: Vec<f64>,
    pub scales: Vec<f64>,
}

/// What a pass found for one grammar.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expectation {
    /// Empty where only the likelihood was asked for.
    pub uses: Vec<f64>,
    pub ln_likelihood: f64,
}

/// What a pass found for all grammars, as it stands in the lanes: sums are added up so, without being taken apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// By lane.
    pub ln_likelihoods: Vec<f64>,
    /// By use and lane; empty where only the likelihood was asked for.
    pub uses: Vec<f64>,
}

impl Found {
    /// Adds what was found for other sentences.
    pub fn add(&mut self, other: &Found) {
        add_all(&mut self.ln_likelihoods, &other.ln_likelihoods);
        add_all(&mut self.uses, &other.uses);
    }

    /// By grammar, of which there are `count`.
    pub fn by_grammar(&self, count: usize) -> Vec<Expectation> {
        let lanes = self.ln_likelihoods.len();
        let of = |lane: usize| Expectation {
            uses: self.uses.iter().skip(lane).step_by(lanes).copied().collect(),
            ln_likelihood: self.ln_likelihoods[lane],
        };
        (0..count).map(of).collect()
    }
}

/// Adds numbers to sums.
pub fn add_all(sums: &mut [f64], values: &[f64]) {
    pairs::each_mut(sums, values, |sum, value| *sum += value);
}

/// Passes over sentences with the grammars that were loaded last. Buffers are reused.
#[derive(Clone, Debug, Default)]
pub struct Passer {
    grammars: usize,
    one: Buffers<1>,
    many: Buffers<LANES>,
}

#[derive(Clone, Debug, Default)]
struct Buffers<const L: usize> {
    weights: Vec<Lanes<L>>,
    scales: Vec<Lanes<L>>,
    expected: Vec<Lanes<L>>,
    scores: Scores<L>,
    used: Scores<L>,
    chart: Chart<L>,
}

/// What all grammars of a pass have in common.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    pub shape: &'a Shape,
    pub forest: &'a Forest,
}

impl Passer {
    /// Takes grammars, at most as many as there are lanes.
    pub fn load(&mut self, grammars: &[Weights]) {
        assert!((1..=LANES).contains(&grammars.len()), "a lane for each grammar");
        self.grammars = grammars.len();
        match grammars {
            [_] => self.one.load(grammars),
            _ => self.many.load(grammars),
        }
    }

    /// Expected uses and log-likelihood of the sentences.
    pub fn expect(&mut self, setting: Setting<'_>, sentences: &Sentences) -> Found {
        self.pass(setting, sentences, true)
    }

    /// Log-likelihood alone, by grammar.
    pub fn likelihood(&mut self, setting: Setting<'_>, sentences: &Sentences) -> Vec<f64> {
        let mut found = self.pass(setting, sentences, false).ln_likelihoods;
        found.truncate(self.grammars);
        found
    }

    fn pass(&mut self, setting: Setting<'_>, sentences: &Sentences, is_expected: bool) -> Found {
        match self.grammars {
            1 => self.one.run(setting, sentences, is_expected, pass_one),
            _ => self.many.run(setting, sentences, is_expected, pass_many),
        }
    }
}

type Pass<const L: usize> = fn(&mut Buffers<L>, Setting<'_>, &Sentences, bool) -> Lanes<L>;

impl<const L: usize> Buffers<L> {
    fn load(&mut self, grammars: &[Weights]) {
        // A lane without a grammar has that of the first: numbers that are good for nothing, and do no harm.
        let of = |lane: usize| grammars.get(lane).unwrap_or(&grammars[0]);
        let lanes: [&Weights; L] = std::array::from_fn(of);
        self.weights.clear();
        self.weights.extend((0..lanes[0].uses.len()).map(|at| lanes.map(|grammar| grammar.uses[at])));
        self.scales.clear();
        self.scales.extend((0..lanes[0].scales.len()).map(|tag| lanes.map(|grammar| grammar.scales[tag])));
    }

    fn run(&mut self, setting: Setting<'_>, sentences: &Sentences, is_expected: bool, pass: Pass<L>) -> Found {
        self.expected = vec![[0.0; L]; if is_expected { setting.shape.uses() } else { 0 }];
        let ln = pass(self, setting, sentences, is_expected);
        let mut scale = [0.0; L];
        for (weight, scales) in sentences.tag_weights.iter().zip(&self.scales).filter(|(weight, _)| **weight > 0.0) {
            (0..L).for_each(|lane| scale[lane] += weight * scales[lane]);
        }
        Found {
            ln_likelihoods: (0..L).map(|lane| ln[lane] + scale[lane]).collect(),
            uses: std::mem::take(&mut self.expected).into_flattened(),
        }
    }

    /// Returns the log-likelihoods.
    #[inline(always)]
    fn pass(&mut self, setting: Setting<'_>, sentences: &Sentences, is_expected: bool) -> Lanes<L> {
        let halves = &setting.forest.halves;
        let mut likelihoods = [0.0; L];
        for (symbols, weight) in sentences.iter() {
            self.score(setting, symbols);
            let mut sum = self.chart.inside(&self.scores, halves);
            let mut lost = [0.0; L];
            if sum.iter().any(|&sum| sum < SMALL) {
                self.scores.rescale(&mut lost);
                sum = self.chart.inside(&self.scores, halves);
            }
            for lane in 0..L {
                likelihoods[lane] += weight * (ln(sum[lane]) + lost[lane]);
            }
            if is_expected {
                let mut seed = [0.0; L];
                pairs::each_mut(&mut seed, &sum, |seed, &sum| *seed = if sum > 0.0 { weight / sum } else { 0.0 });
                self.chart.outside(&self.scores, halves, &seed, &mut self.used);
                self.count(setting.shape, symbols);
            }
        }
        likelihoods
    }

    /// The scores of a sentence.
    #[inline(always)]
    fn score(&mut self, Setting { shape, forest }: Setting<'_>, symbols: &[u32]) {
        self.scores.resize(symbols.len());
        let heads = forest.heads(symbols.iter().map(|&symbol| shape.tag_of[symbol as usize] as usize));
        for (head, &symbol) in symbols.iter().enumerate() {
            let tag = shape.tag_of[symbol as usize] as usize;
            let is_head = heads.may_be(tag);
            for context in 0..4 {
                let (side, valence) = (context / 2, context % 2);
                *self.scores.stop_mut(side, valence, head) = self.weights[shape.stop(context, tag)];
                let arcs = &self.weights[shape.arcs(context, symbol as usize)..][..shape.tags];
                let others = if side == 0 { 0..head } else { head + 1..symbols.len() };
                for dependent in others {
                    let tag = shape.tag_of[symbols[dependent] as usize] as usize;
                    *self.scores.arc_mut(valence, head, dependent) = if is_head { arcs[tag] } else { [0.0; L] };
                }
            }
            *self.scores.root_mut(head) = self.weights[shape.root(tag)];
        }
    }

    /// Adds the expected uses of a sentence.
    #[inline(always)]
    fn count(&mut self, shape: &Shape, symbols: &[u32]) {
        for (head, &symbol) in symbols.iter().enumerate() {
            let tag = shape.tag_of[symbol as usize] as usize;
            for context in 0..4 {
                let (side, valence) = (context / 2, context % 2);
                add(&mut self.expected[shape.stop(context, tag)], self.used.stop(side, valence, head));
                let arcs = &mut self.expected[shape.arcs(context, symbol as usize)..][..shape.tags];
                let others = if side == 0 { 0..head } else { head + 1..symbols.len() };
                for dependent in others {
                    let tag = shape.tag_of[symbols[dependent] as usize] as usize;
                    add(&mut arcs[tag], self.used.arc(valence, head, dependent));
                }
            }
            add(&mut self.expected[shape.root(tag)], self.used.root(head));
        }
    }
}

#[inline(always)]
fn add<const L: usize>(to: &mut Lanes<L>, value: &Lanes<L>) {
    let mut sums = *to; // as in the chart: stored at once
    for lane in 0..L {
        sums[lane] += value[lane];
    }
    *to = sums;
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2", "x86_64+avx2", "aarch64+neon"))]
fn pass_many(
    buffers: &mut Buffers<LANES>,
    setting: Setting<'_>,
    sentences: &Sentences,
    is_expected: bool,
) -> Lanes<LANES> {
    buffers.pass(setting, sentences, is_expected)
}

/// One grammar has one lane, which wide registers do not help.
fn pass_one(buffers: &mut Buffers<1>, setting: Setting<'_>, sentences: &Sentences, is_expected: bool) -> Lanes<1> {
    buffers.pass(setting, sentences, is_expected)
}

/// Expected uses where a tree's weight is the product of 1 / distance over its arcs: short arcs are likelier (the harmonic
/// initialiser of Klein & Manning 2004).
pub fn harmonic(setting: Setting<'_>, sentences: &Sentences) -> Vec<f64> {
    let mut buffers = Buffers::<1>::default();
    buffers.expected.resize(setting.shape.uses(), [0.0]);
    let Setting { shape, forest } = setting;
    for (symbols, weight) in sentences.iter() {
        let words = symbols.len();
        let tag = |word: usize| shape.tag_of[symbols[word] as usize] as usize;
        let heads = forest.heads((0..words).map(tag));
        buffers.scores.resize(words);
        for head in 0..words {
            for at in 0..4 {
                *buffers.scores.stop_mut(at / 2, at % 2, head) = [1.0];
            }
            for dependent in (0..words).filter(|&dependent| dependent != head) {
                let near = 1.0 / head.abs_diff(dependent) as f64;
                let score = [if heads.may_be(tag(head)) { near } else { 0.0 }];
                (0..2).for_each(|valence| *buffers.scores.arc_mut(valence, head, dependent) = score);
            }
            *buffers.scores.root_mut(head) = [1.0];
        }
        let sum = buffers.chart.inside(&buffers.scores, &forest.halves);
        buffers.chart.outside(&buffers.scores, &forest.halves, &[weight / sum[0]], &mut buffers.used);
        buffers.count(shape, symbols);
    }
    buffers.expected.iter().map(|lanes| lanes[0]).collect()
}
