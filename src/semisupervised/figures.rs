//! What a semisupervised job finds out on its way, for its report: sizes, perplexities and scores, costs.

use super::job::Plan;
use super::text::{Size, Text};
use crate::cluster::sweep::Round;
use crate::job::session::{forget_peak_memory, peak_memory_mib};
use crate::lm::report::Evaluated;
use crate::parser::evaluate::Evaluation;
use crate::parser::job::Part;
use crate::parser::model::ParserModel;
use crate::parser::perplexity::Sum;
use crate::parser::treebank::Treebank;
use crate::report::page::thousands;

/// How well held-out text is predicted.
#[derive(Clone, Copy, Debug)]
pub struct Prediction {
    pub sum: Sum,
    /// By the parser and the n-gram model together, with the weights of the parser.
    pub both: Option<(f64, [f64; 2])>,
}

/// What is known after a stage.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub(super) name: String,
    pub(super) scores: Vec<(&'static str, Evaluation)>,
    pub(super) predicted: Option<Prediction>,
}

impl Stage {
    pub(super) fn sum(&self) -> Option<&Sum> {
        self.predicted.as_ref().map(|predicted| &predicted.sum)
    }

    pub(super) fn both(&self) -> Option<(f64, [f64; 2])> {
        self.predicted.as_ref().and_then(|predicted| predicted.both)
    }
}

/// What the sweeps of a stage take.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    pub(super) sweeps: u64,
    pub(super) seconds: f64,
    pub(super) sync_seconds: f64,
    pub(super) sync_bytes: u64,
    pub(super) learn_seconds: f64,
}

impl Cost {
    pub(super) fn add(&mut self, round: &Round) {
        self.sweeps += round.sweeps;
        self.seconds += round.sweep_seconds;
        self.sync_seconds += round.sync_seconds;
        self.sync_bytes += round.sync_bytes;
        self.learn_seconds += round.learn_seconds;
    }

    pub(super) fn bytes_per_sweep(&self) -> Option<f64> {
        (self.sweeps > 0).then(|| self.sync_bytes as f64 / self.sweeps as f64)
    }

    pub(super) fn seconds_per_sweep(&self) -> Option<f64> {
        (self.sweeps > 0).then(|| self.seconds / self.sweeps as f64)
    }
}

/// Figures of all stages.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    pub(super) trees: u64,
    pub(super) tree_words: u64,
    /// Of the treebank: what was done with trees of crossing arcs, how many there are, and sentences that are no trees.
    pub(super) crossing: &'static str,
    pub(super) non_projective: u64,
    pub(super) no_tree: u64,
    /// By [`super::reader::Use`].
    pub(super) sizes: [Size; 3],
    pub(super) known_words: usize,
    pub(super) raw_words: u32,
    pub(super) stages: Vec<Stage>,
    /// What the contexts of the last parser weigh on average, where that was learned.
    pub weights: Vec<(Part, Vec<f64>)>,
    /// The n-gram model after each sweep.
    pub ngram: Vec<Evaluated>,
    /// Of parsing in this run, which may be the rest of one: sentences, seconds by the clock, and of all workers on processors.
    pub(super) parsed: u64,
    pub(super) parsing_seconds: f64,
    pub(super) processor_seconds: f64,
    /// Of learning from trees of raw text in this run, in sweeps over one context each; of drawing tags and trees; and of the n-gram
    /// model.
    pub(super) learning: Cost,
    pub(super) drawing: Cost,
    pub(super) comparing: Cost,
    /// Bytes of tokens and hierarchies that workers have sent each other.
    pub dealt_bytes: u64,
    pub(super) contexts: u64,
    pub workers: usize,
    /// MiB that each worker's process has had at most, by worker.
    pub memory: Vec<f64>,
    /// MiB that the first worker's process has had at most, by stage.
    pub(super) stage_memory: Vec<(String, f64)>,
}

impl Figures {
    pub fn new(plan: &Plan, treebank: &Treebank, text: &Text) -> Figures {
        Figures {
            crossing: plan.parser.non_projective.in_words(),
            non_projective: treebank.non_projective,
            no_tree: treebank.no_tree,
            trees: treebank.len() as u64,
            tree_words: treebank.words.len() as u64,
            sizes: text.sizes,
            known_words: text.lexicon.known_words(),
            raw_words: text.lexicon.raw_words(),
            ..Figures::default()
        }
    }

    /// What is trained on.
    pub fn in_words(&self) -> String {
        let [training, tuning, test] = &self.sizes;
        let [trees, words] = [self.trees, self.tree_words].map(thousands);
        let [sentences, raw_words] = [training.sentences, training.words].map(thousands);
        let [test_sentences, test_words] = [test.sentences, test.words].map(thousands);
        let [cut, left_out]: [fn(&Size) -> u64; 2] = [|size| size.cut, |size| size.left_out];
        let [cut, left_out] = [cut, left_out].map(|count| thousands(self.sizes.iter().map(count).sum()));
        let tuned = match tuning.sentences {
            0 => String::new(),
            sentences => {
                let [sentences, words] = [sentences, tuning.words].map(thousands);
                format!("to learn from what contexts weigh, {sentences} with {words}; ")
            }
        };
        let [known, new] = [self.known_words as u64, u64::from(self.raw_words)].map(thousands);
        let (crossing, [non_projective, no_tree]) = (self.crossing, [self.non_projective, self.no_tree].map(thousands));
        format!(
            "to train on, {trees} trees of {words} words ({non_projective} with crossing arcs {crossing}, {no_tree} that are no \
             trees left out) and {sentences} sentences of raw text with {raw_words} words; {tuned}to test \
             on, {test_sentences} sentences of raw text with {test_words} words ({cut} sentences were too long and cut, {left_out} \
             lines left out); {known} known words, {new} of them from raw text alone"
        )
    }

    /// Sentences that are no trees, and what is no text.
    pub fn left_out(&self) -> u64 {
        self.no_tree + self.sizes.iter().map(|size| size.left_out).sum::<u64>()
    }

    pub fn add_stage(&mut self, name: String, scores: Vec<(&'static str, Evaluation)>, predicted: Option<Prediction>) {
        self.stages.push(Stage { name, scores, predicted });
    }

    /// Adds a pass: sentences, seconds by the clock, and of all workers on processors.
    pub fn add_parsing(&mut self, sentences: u64, seconds: f64, processor_seconds: f64) {
        self.parsed += sentences;
        self.parsing_seconds += seconds;
        self.processor_seconds += processor_seconds;
    }

    /// Notes the most memory that this process has had in a stage that has ended.
    pub fn add_memory(&mut self, stage: &str) {
        self.stage_memory.push((stage.to_string(), peak_memory_mib()));
        forget_peak_memory();
    }

    /// The most of these.
    pub fn most_by_stage(&self) -> f64 {
        self.stage_memory.iter().map(|(_, most)| *most).fold(0.0, f64::max)
    }

    /// Adds a round of learning from trees of raw text in one context.
    pub fn add_learning(&mut self, round: &Round) {
        self.learning.add(round);
    }

    /// Adds a round of drawing tags and trees.
    pub fn add_drawing(&mut self, round: &Round) {
        self.drawing.add(round);
    }

    /// Adds a round of the n-gram model.
    pub fn add_comparing(&mut self, round: &Round) {
        self.comparing.add(round);
    }

    /// Takes the size of the last model.
    pub fn set_size(&mut self, model: &ParserModel) {
        self.contexts = model.kept.hierarchies.iter().flat_map(|kept| kept.sizes()).map(|size| size[0]).sum();
    }

    /// Sweeps over all contexts that learn.
    pub(super) fn whole_sweeps(&self, plan: &Plan) -> f64 {
        self.learning.sweeps as f64 / plan.learning().contexts.all.len().max(1) as f64
    }

    /// A sum over this run as a share of one sweep over all contexts; none where that was done before the run was resumed.
    pub(super) fn per_sweep(&self, plan: &Plan, value: f64) -> Option<f64> {
        (self.learning.sweeps > 0).then(|| value / self.whole_sweeps(plan))
    }

    /// Words a second in sweeps over all contexts.
    pub(super) fn words_per_second(&self, plan: &Plan) -> Option<f64> {
        let words = (self.tree_words + self.sizes[0].words) as f64;
        let seconds = self.learning.seconds + self.learning.sync_seconds;
        (self.learning.sweeps > 0).then(|| words * self.whole_sweeps(plan) / seconds.max(1e-9))
    }

    /// Sentences parsed a second by all workers; none where they were parsed before the run was resumed.
    pub(super) fn sentences_per_second(&self) -> Option<f64> {
        (self.parsing_seconds > 0.0).then(|| self.parsed as f64 / self.parsing_seconds)
    }

    /// Sentences parsed in a second on one processor; none where the system does not say.
    pub(super) fn sentences_per_processor_second(&self) -> Option<f64> {
        (self.processor_seconds > 0.0).then(|| self.parsed as f64 / self.processor_seconds)
    }

    /// Raw sentences whose tags and trees are drawn a second, by each worker.
    pub(super) fn drawn_per_second(&self) -> Option<f64> {
        let drawn = (self.sizes[0].sentences * self.drawing.sweeps) as f64;
        (self.drawing.seconds > 0.0).then(|| drawn / self.drawing.seconds / self.workers.max(1) as f64)
    }

    /// The most memory of a process, in MiB.
    pub(super) fn most_memory(&self) -> f64 {
        self.memory.iter().copied().fold(self.most_by_stage(), f64::max)
    }

    pub(super) fn predicted(&self) -> Option<&Sum> {
        self.stages.last().and_then(Stage::sum)
    }

    pub(super) fn perplexity(&self) -> Option<f64> {
        self.predicted().and_then(Sum::perplexity)
    }

    pub(super) fn perplexity_by_word(&self) -> Option<f64> {
        self.predicted().and_then(Sum::perplexity_by_word)
    }

    /// By the parser and the n-gram model together.
    pub(super) fn both_perplexity(&self) -> Option<f64> {
        self.stages.last().and_then(Stage::both).map(|(perplexity, _)| perplexity)
    }

    pub(super) fn ngram_perplexity(&self) -> Option<f64> {
        self.ngram.last().and_then(Evaluated::perplexity)
    }
}
