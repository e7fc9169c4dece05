//! What one sentence adds to the counts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::job::{Punctuation, Settings};
use super::punctuation;
use crate::cluster::rng::{Purpose, generator};
use crate::cluster::scan;
use crate::corpus::conll::{Reader, Sentence};
use crate::corpus::diagnostic::{Problem, Rule};
use crate::corpus::piece::Block;
use crate::corpus::tree::{Shape, Tree};
use crate::transition::dependency_length::{self, Minimum};
use crate::transition::embedding::Embedding;
use crate::transition::reorder::Reorderer;
use crate::transition::{ArcEager, ArcStandard, LeftCorner, TransitionSystem, follow_oracle};

/// The transition systems, in the order of reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    ArcStandard,
    ArcEager,
    LeftCorner,
}

impl System {
    pub const ALL: [System; 3] = [System::ArcStandard, System::ArcEager, System::LeftCorner];

    pub fn name(self) -> &'static str {
        match self {
            System::ArcStandard => ArcStandard::NAME,
            System::ArcEager => ArcEager::NAME,
            System::LeftCorner => LeftCorner::NAME,
        }
    }
}

/// The word order of the tree that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Order {
    Original,
    Reordered,
}

impl Order {
    pub const ALL: [Order; 2] = [Order::Original, Order::Reordered];

    pub fn name(self) -> &'static str {
        match self {
            Order::Original => "original",
            Order::Reordered => "reordered",
        }
    }
}

/// Why a sentence was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Skipped {
    NonProjective,
    NoRoot,
    TooManyWords,
    OnlyPunctuation,
    /// It broke a rule of the format.
    Problem(Rule),
}

impl Skipped {
    pub fn name(self) -> &'static str {
        match self {
            Skipped::NonProjective => "non_projective",
            Skipped::NoRoot => "no_root",
            Skipped::TooManyWords => "max_length",
            Skipped::OnlyPunctuation => "only_punctuation",
            Skipped::Problem(rule) => rule.name(),
        }
    }
}

/// What is counted. Sums (tokens, lengths) are counts too: every difference is an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Measure {
    SentencesUsed,
    TokensUsed,
    SentencesSkipped(Skipped),
    /// Files that could not be read, or not to their end.
    FileProblems(Rule),
    /// Configurations of that memory cost.
    Configurations(System, Order, u32),
    /// Sentences of that degree of center-embedding.
    Embedding(Order, u32),
    /// Arcs between words, and their total length.
    Arcs(Order),
    ArcLength(Order),
    /// The least total length that projective orders of the same trees have.
    MinimalLength,
}

/// The key of a count: the treebank's index and the measure.
pub type Key = (u16, Measure);

/// Counts sentences; its buffers grow to the longest sentence and are reused.
pub struct Counter {
    settings: Settings,
    seed: u64,
    reader: Reader,
    counts: Counts,
}

impl Counter {
    pub fn new(settings: Settings, seed: u64) -> Counter {
        Counter { settings, seed, reader: Reader::default(), counts: Counts::default() }
    }
}

impl scan::Counter for Counter {
    type Key = Key;

    fn count_block(&mut self, treebank: u16, block: &Block, report: &mut dyn FnMut(&Problem)) -> u64 {
        for problem in &block.problems {
            self.counts.add_problem(treebank, problem, report);
        }
        let Counter { settings, seed, reader, counts } = self;
        let mut sum = 0u64;
        reader.read(block, |sentence| {
            let key = sentence.key();
            sum = sum.wrapping_add(key);
            counts.add(settings, *seed, treebank, sentence, key, report);
        });
        sum
    }

    fn drain(&mut self, emit: &mut dyn FnMut(Key, i64)) {
        self.counts.drain(emit);
    }
}

/// Counts so far, and the systems that make them.
#[derive(Default)]
struct Counts {
    by_treebank: Vec<Histograms>,
    arc_standard: ArcStandard,
    arc_eager: ArcEager,
    left_corner: LeftCorner,
    reorderer: Reorderer,
    minimum: Minimum,
    embedding: Embedding,
    /// The tree without punctuation.
    pruned: Tree,
    reordered: Tree,
    top_down: Vec<u32>,
}

/// Counts of one treebank: dense where the loop is, sparse elsewhere.
#[derive(Clone, Default)]
struct Histograms {
    /// Configurations by cost, for each order and system.
    costs: [[Vec<u64>; System::ALL.len()]; Order::ALL.len()],
    embedding: [Vec<u64>; Order::ALL.len()],
    arcs: [u64; Order::ALL.len()],
    length: [u64; Order::ALL.len()],
    minimal_length: u64,
    sentences: u64,
    tokens: u64,
    skipped: BTreeMap<Skipped, u64>,
    file_problems: BTreeMap<Rule, u64>,
}

impl Counts {
    fn histograms(&mut self, treebank: u16) -> &mut Histograms {
        let index = usize::from(treebank);
        if index >= self.by_treebank.len() {
            self.by_treebank.resize(index + 1, Histograms::default());
        }
        &mut self.by_treebank[index]
    }

    fn skip(&mut self, treebank: u16, why: Skipped) {
        *self.histograms(treebank).skipped.entry(why).or_default() += 1;
    }

    #[cold]
    fn add_problem(&mut self, treebank: u16, problem: &Problem, report: &mut dyn FnMut(&Problem)) {
        match problem.rule.concerns_file() {
            true => *self.histograms(treebank).file_problems.entry(problem.rule).or_default() += 1,
            false => self.skip(treebank, Skipped::Problem(problem.rule)),
        }
        report(problem);
    }

    fn add(
        &mut self,
        settings: &Settings,
        seed: u64,
        treebank: u16,
        sentence: &Sentence<'_>,
        key: u64,
        report: &mut dyn FnMut(&Problem),
    ) {
        if let Some(first) = sentence.problems.first() {
            self.skip(treebank, Skipped::Problem(first.rule));
            sentence.problems.iter().for_each(report);
            return;
        }
        let mut pruned = std::mem::take(&mut self.pruned);
        let (tree, shape) = match settings.punctuation {
            Punctuation::Keep => (sentence.tree, sentence.shape),
            Punctuation::Drop => {
                punctuation::drop(sentence, &mut pruned);
                (&pruned, pruned.shape(&mut self.top_down))
            }
        };
        let skipped = match sentence.shape {
            Shape::Rootless => Some(Skipped::NoRoot),
            _ if tree.words() == 0 => Some(Skipped::OnlyPunctuation),
            _ if settings.max_length > 0 && tree.words() > settings.max_length => Some(Skipped::TooManyWords),
            _ if shape != Shape::Projective => Some(Skipped::NonProjective),
            _ => None,
        };
        match skipped {
            Some(why) => self.skip(treebank, why),
            None => self.use_sentence(settings, seed, treebank, key, tree),
        }
        self.pruned = pruned;
    }

    fn use_sentence(&mut self, settings: &Settings, seed: u64, treebank: u16, key: u64, tree: &Tree) {
        let histograms = self.histograms(treebank);
        histograms.sentences += 1;
        histograms.tokens += u64::from(tree.words());
        self.measure(settings, treebank, tree, Order::Original);
        // The least length is the same for all orders; `measure` has just listed the nodes.
        let least = self.minimum.total(tree, &self.top_down);
        self.histograms(treebank).minimal_length += least;
        if settings.reorder == 0 {
            return;
        }
        let mut reordered = std::mem::take(&mut self.reordered);
        for repetition in 0..settings.reorder {
            let mut rng = generator(seed, Purpose::Reorder, key, u64::from(repetition));
            self.reorderer.reorder(tree, settings.head_placement, &mut rng, &mut reordered);
            self.measure(settings, treebank, &reordered, Order::Reordered);
        }
        self.reordered = reordered;
    }

    /// Runs the oracles on `tree` and counts.
    fn measure(&mut self, settings: &Settings, treebank: u16, tree: &Tree, order: Order) {
        let at = order as usize;
        let histograms = &mut self.by_treebank[usize::from(treebank)];
        for &system in &settings.systems {
            let costs = &mut histograms.costs[at][system as usize];
            match system {
                System::ArcStandard => count_costs(&mut self.arc_standard, tree, costs),
                System::ArcEager => count_costs(&mut self.arc_eager, tree, costs),
                System::LeftCorner => count_costs(&mut self.left_corner, tree, costs),
            }
        }
        tree.top_down(&mut self.top_down);
        add_one(&mut histograms.embedding[at], self.embedding.degree(tree, &self.top_down));
        histograms.arcs[at] += u64::from(tree.words()) - tree.roots() as u64;
        histograms.length[at] += dependency_length::total(tree);
    }

    fn drain(&mut self, emit: &mut dyn FnMut(Key, i64)) {
        for (treebank, histograms) in (0u16..).zip(&mut self.by_treebank) {
            histograms.drain(&mut |measure, count| {
                if count != 0 {
                    emit((treebank, measure), count as i64);
                }
            });
        }
    }
}

impl Histograms {
    /// Hands everything out and starts from nothing, keeping buffers.
    fn drain(&mut self, emit: &mut dyn FnMut(Measure, u64)) {
        use std::mem::take;
        emit(Measure::SentencesUsed, take(&mut self.sentences));
        emit(Measure::TokensUsed, take(&mut self.tokens));
        emit(Measure::MinimalLength, take(&mut self.minimal_length));
        for (why, count) in take(&mut self.skipped) {
            emit(Measure::SentencesSkipped(why), count);
        }
        for (rule, count) in take(&mut self.file_problems) {
            emit(Measure::FileProblems(rule), count);
        }
        for order in Order::ALL {
            let at = order as usize;
            emit(Measure::Arcs(order), take(&mut self.arcs[at]));
            emit(Measure::ArcLength(order), take(&mut self.length[at]));
            for (degree, count) in (0..).zip(self.embedding[at].drain(..)) {
                emit(Measure::Embedding(order, degree), count);
            }
            for system in System::ALL {
                for (cost, count) in (0..).zip(self.costs[at][system as usize].drain(..)) {
                    emit(Measure::Configurations(system, order, cost), count);
                }
            }
        }
    }
}

/// Counts the configurations of a derivation by cost.
#[inline]
fn count_costs<S: TransitionSystem>(system: &mut S, tree: &Tree, costs: &mut Vec<u64>) {
    let most = tree.words() as usize + 2; // no configuration holds more than all nodes
    if costs.len() <= most {
        costs.resize(most + 1, 0);
    }
    let costs = costs.as_mut_slice();
    follow_oracle(system, tree, |configuration, _| costs[configuration.memory_cost() as usize] += 1);
}

fn add_one(histogram: &mut Vec<u64>, at: u32) {
    let at = at as usize;
    if histogram.len() <= at {
        histogram.resize(at + 1, 0);
    }
    histogram[at] += 1;
}
