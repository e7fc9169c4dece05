//! The report of a semisupervised job: perplexity beside the n-gram model's, accuracy after each stage, speed.

use serde_json::{Value, json};

use super::job::Plan;
use super::text::{Size, Text};
use crate::cluster::sweep::Round;
use crate::job::session::{forget_peak_memory, peak_memory_mib};
use crate::lm::report::Evaluated;
use crate::parser::evaluate::Evaluation;
use crate::parser::model::ParserModel;
use crate::parser::perplexity::Sum;
use crate::parser::treebank::Treebank;
use crate::report::page::{Page, cards, paragraph, thousands};
use crate::report::table::{Align, Table};

/// How well held-out text is predicted.
#[derive(Clone, Copy, Debug)]
pub struct Prediction {
    pub sum: Sum,
    /// By the parser and the n-gram model together, with the weights of the parser.
    pub both: Option<(f64, [f64; 2])>,
}

/// What is known after a stage.
#[derive(Clone, Debug)]
struct Stage {
    name: String,
    scores: Vec<(&'static str, Evaluation)>,
    predicted: Option<Prediction>,
}

impl Stage {
    fn sum(&self) -> Option<&Sum> {
        self.predicted.as_ref().map(|predicted| &predicted.sum)
    }

    fn both(&self) -> Option<(f64, [f64; 2])> {
        self.predicted.as_ref().and_then(|predicted| predicted.both)
    }
}

/// What it takes to draw tags and trees.
#[derive(Clone, Copy, Debug, Default)]
struct Drawing {
    sweeps: u64,
    seconds: f64,
    sync_bytes: u64,
}

/// Figures of all stages.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    trees: u64,
    tree_words: u64,
    sizes: [Size; 2],
    known_words: usize,
    raw_words: u32,
    stages: Vec<Stage>,
    pub ngram: Option<Evaluated>,
    parsing_seconds: f64,
    processor_seconds: f64,
    /// Of learning from trees of raw text.
    sweeps: u64,
    tokens: u64,
    sweep_seconds: f64,
    sync_seconds: f64,
    sync_bytes: u64,
    learn_seconds: f64,
    /// Of drawing tags and trees.
    drawing: Drawing,
    contexts: u64,
    pub workers: usize,
    /// MiB that each worker's process has had at most, by worker.
    pub memory: Vec<f64>,
    /// MiB that the first worker's process has had at most, by stage.
    stage_memory: Vec<(String, f64)>,
}

impl Figures {
    pub fn new(treebank: &Treebank, text: &Text) -> Figures {
        Figures {
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
        let [training, test] = &self.sizes;
        format!(
            "{} trees of {} words, and {} sentences of raw text with {} words, to train on; {} sentences of raw text with {} \
             words to test on ({} sentences were too long and cut); {} known words, {} of them from raw text alone",
            self.trees,
            self.tree_words,
            training.sentences,
            training.words,
            test.sentences,
            test.words,
            training.cut + test.cut,
            self.known_words,
            self.raw_words
        )
    }

    pub fn add_stage(&mut self, name: String, scores: Vec<(&'static str, Evaluation)>, predicted: Option<Prediction>) {
        self.stages.push(Stage { name, scores, predicted });
    }

    /// Adds a pass: seconds by the clock, and of all workers on processors.
    pub fn add_parsing(&mut self, seconds: f64, processor_seconds: f64) {
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

    /// Adds a round of learning from trees of raw text in one context; sweeps and tokens are those of one that is counted.
    pub fn add_learning(&mut self, round: &Round, is_counted: bool) {
        if is_counted {
            self.sweeps += round.sweeps;
            self.tokens += round.tokens;
        }
        self.sweep_seconds += round.sweep_seconds;
        self.sync_seconds += round.sync_seconds;
        self.sync_bytes += round.sync_bytes;
        self.learn_seconds += round.learn_seconds;
    }

    /// Adds a round of drawing tags and trees.
    pub fn add_drawing(&mut self, round: &Round) {
        self.drawing.sweeps += round.sweeps;
        self.drawing.seconds += round.sweep_seconds;
        self.drawing.sync_bytes += round.sync_bytes;
    }

    /// Takes the size of the last model.
    pub fn set_size(&mut self, model: &ParserModel) {
        self.contexts = model.kept.hierarchies.iter().flat_map(|kept| kept.sizes()).map(|size| size[0]).sum();
    }

    fn per_sweep(&self, value: f64) -> f64 {
        value / self.sweeps.max(1) as f64
    }

    /// Sentences parsed a second by all workers; none where they were parsed before the run was resumed.
    fn sentences_per_second(&self, plan: &Plan) -> Option<f64> {
        let parsed = self.sizes[0].sentences * plan.raw.settings.passes;
        (self.parsing_seconds > 0.0).then(|| parsed as f64 / self.parsing_seconds)
    }

    /// Sentences parsed in a second on one processor; none where the system does not say.
    fn sentences_per_processor_second(&self, plan: &Plan) -> Option<f64> {
        let parsed = self.sizes[0].sentences * plan.raw.settings.passes;
        (self.processor_seconds > 0.0).then(|| parsed as f64 / self.processor_seconds)
    }

    /// Raw sentences whose tags and trees are drawn a second, by each worker.
    fn drawn_per_second(&self) -> Option<f64> {
        let drawn = (self.sizes[0].sentences * self.drawing.sweeps) as f64;
        (self.drawing.seconds > 0.0).then(|| drawn / self.drawing.seconds / self.workers.max(1) as f64)
    }

    /// The most memory of a process, in MiB.
    fn most_memory(&self) -> f64 {
        self.memory.iter().copied().fold(self.most_by_stage(), f64::max)
    }

    fn predicted(&self) -> Option<&Sum> {
        self.stages.last().and_then(Stage::sum)
    }

    fn perplexity(&self) -> Option<f64> {
        self.predicted().and_then(Sum::perplexity)
    }

    fn perplexity_by_word(&self) -> Option<f64> {
        self.predicted().and_then(Sum::perplexity_by_word)
    }

    /// By the parser and the n-gram model together.
    fn both_perplexity(&self) -> Option<f64> {
        self.stages.last().and_then(Stage::both).map(|(perplexity, _)| perplexity)
    }

    fn ngram_perplexity(&self) -> Option<f64> {
        self.ngram.as_ref().and_then(Evaluated::perplexity)
    }
}

/// All files of the report.
pub fn files(title: &str, plan: &Plan, figures: &Figures) -> Vec<(&'static str, String)> {
    vec![
        ("summary.json", summary(plan, figures)),
        ("perplexity.tsv", perplexity_table(plan, figures).to_tsv()),
        ("scores.tsv", score_table(figures).to_tsv()),
        ("index.html", page(title, plan, figures)),
    ]
}

fn summary(plan: &Plan, figures: &Figures) -> String {
    let [training, test] = &figures.sizes;
    let mut summary = json!({
        "perplexity": figures.perplexity(),
        "perplexity_by_word": figures.perplexity_by_word(),
        "interpolated_perplexity": figures.both_perplexity(),
        "tokens": figures.predicted().map(|sum| sum.tokens),
        "unknown": figures.predicted().map(|sum| sum.unknown),
        "ngram_perplexity": figures.ngram_perplexity(),
        "ngram_perplexity_last": figures.ngram.as_ref().and_then(Evaluated::perplexity_last),
        "training_sentences": figures.trees, "training_words": figures.tree_words,
        "raw_sentences": training.sentences, "raw_words": training.words, "raw_cut": training.cut,
        "test_sentences": test.sentences, "test_words": test.words,
        "known_words": figures.known_words, "known_from_raw_text": figures.raw_words, "contexts": figures.contexts,
        "sentences_per_second": figures.sentences_per_second(plan), "particles": plan.raw.settings.particles,
        "train_tokens_per_second": figures.tokens as f64 / (figures.sweep_seconds + figures.sync_seconds).max(1e-9),
        "seconds_per_sweep": figures.per_sweep(figures.sweep_seconds),
        "hyper_seconds_per_sweep": figures.per_sweep(figures.learn_seconds),
        "sync_seconds_per_sweep": figures.per_sweep(figures.sync_seconds),
        "sync_bytes_per_sweep": figures.per_sweep(figures.sync_bytes as f64),
        "workers": figures.workers,
        "sentences_per_second_per_worker": figures.sentences_per_second(plan).map(|rate| rate / figures.workers.max(1) as f64),
        "sentences_per_processor_second": figures.sentences_per_processor_second(plan),
        "drawn_sentences_per_second_per_worker": figures.drawn_per_second(),
        "drawn_sync_bytes_per_sweep": figures.drawing.sync_bytes as f64 / figures.drawing.sweeps.max(1) as f64,
        "peak_memory_mib": figures.most_memory(), "peak_memory_mib_by_worker": figures.memory,
    });
    let by_stage = figures.stage_memory.iter().map(|(stage, most)| json!({"stage": stage, "mib": most.round()}));
    summary["peak_memory_mib_by_stage"] = by_stage.collect();
    summary["stages"] = figures.stages.iter().map(stage_json).collect();
    format!("{summary:#}\n")
}

fn stage_json(stage: &Stage) -> Value {
    let mut value = json!({
        "stage": stage.name,
        "perplexity": stage.sum().and_then(Sum::perplexity),
        "perplexity_by_word": stage.sum().and_then(Sum::perplexity_by_word),
        "interpolated_perplexity": stage.both().map(|(perplexity, _)| perplexity),
        "interpolation_weights": stage.both().map(|(_, weights)| weights),
    });
    for (set, Evaluation { score, .. }) in &stage.scores {
        let (all, bare) = (&score.all, &score.no_punctuation);
        value[*set] = json!({
            "uas": all.uas(), "las": all.las(), "uas_nopunct": bare.uas(), "las_nopunct": bare.las(),
            "tag_accuracy": all.tag_accuracy(),
        });
    }
    value
}

fn perplexity_table(plan: &Plan, figures: &Figures) -> Table {
    let mut table = Table::new([("model", Align::Text), ("perplexity", Align::Number), ("what it is", Align::Text)]);
    let show = |value: Option<f64>| value.map_or("none".to_string(), |value| format!("{value:.2}"));
    if let Some(ngram) = &figures.ngram {
        let name = format!("{}-gram HPYLM", plan.ngram.order);
        let samples = format!("mean of p over {} samples", ngram.samples);
        table.push(vec![name.clone(), show(ngram.perplexity()), samples]);
        table.push(vec![name, show(ngram.perplexity_last()), "one sample".to_string()]);
    }
    for stage in &figures.stages {
        if let Some(sum) = stage.sum() {
            for (perplexity, what) in [
                (sum.perplexity_by_word(), "one sample; each word by the derivations kept of those before"),
                (sum.perplexity(), "one sample; all words at once, by the derivations found: an upper bound"),
            ] {
                table.push(vec![format!("parser, {}", stage.name), show(perplexity), what.to_string()]);
            }
        }
        if let Some((perplexity, weights)) = stage.both() {
            let [first, second] = weights.map(|weight| format!("{weight:.2}"));
            let what = format!(
                "word by word, the parser with a weight of {first} and {second} in two halves of the text, each tuned on the other"
            );
            table.push(vec![format!("parser, {}, and HPYLM", stage.name), show(Some(perplexity)), what]);
        }
    }
    table
}

fn score_table(figures: &Figures) -> Table {
    let columns = ["words", "UAS", "LAS", "UAS without punctuation", "LAS without punctuation", "tags"];
    let first = [("stage", Align::Text), ("set", Align::Text)];
    let mut table = Table::new(first.into_iter().chain(columns.map(|name| (name, Align::Number))));
    let show = |value: Option<f64>| value.map_or("none".to_string(), |value| format!("{value:.2}"));
    for stage in &figures.stages {
        for (set, Evaluation { score, .. }) in &stage.scores {
            let (all, bare) = (&score.all, &score.no_punctuation);
            let mut row = vec![stage.name.clone(), set.to_string(), all.words.to_string()];
            row.extend([all.uas(), all.las(), bare.uas(), bare.las(), all.tag_accuracy()].map(show));
            table.push(row);
        }
    }
    table
}

fn page(title: &str, plan: &Plan, figures: &Figures) -> String {
    let lead = "A generative parser that has learned words from text without trees.";
    let mut page = Page::new(title, lead);
    let show = |value: Option<f64>| value.map_or("none".to_string(), |value| format!("{value:.1}"));
    let mut top = vec![(show(figures.perplexity_by_word()), "perplexity of the parser, word by word".to_string())];
    if figures.ngram.is_some() {
        top.push((show(figures.ngram_perplexity()), format!("perplexity of a {}-gram HPYLM", plan.ngram.order)));
    }
    if figures.both_perplexity().is_some() {
        top.push((show(figures.both_perplexity()), "perplexity of both together".to_string()));
    }
    let counted = format!("Trained on {}.", figures.in_words());
    let footing = "Both models predict the same tokens, the words and the ends of sentences, with the same vocabulary; \
                   unknown words are predicted as their classes.";
    let table = perplexity_table(plan, figures).to_html();
    page.section("perplexity", "Perplexity", &(cards(&top) + &table + &paragraph(footing) + &paragraph(&counted)));
    if figures.stages.iter().any(|stage| !stage.scores.is_empty()) {
        page.section("scores", "Accuracy after each stage", &score_table(figures).to_html());
    }
    page.section("speed", "Speed and memory", &(speed(plan, figures) + &memory(figures)));
    page.to_html()
}

fn speed(plan: &Plan, figures: &Figures) -> String {
    let mut table = Table::new([("figure", Align::Text), ("value", Align::Number)]);
    let show = |rate: Option<f64>| rate.map_or("not in this run".to_string(), |rate| format!("{rate:.0}"));
    let parsed = figures.sentences_per_second(plan).map(|rate| rate / figures.workers.max(1) as f64);
    for (name, value) in [
        ("workers", figures.workers.to_string()),
        ("raw sentences parsed a second, by each worker", show(parsed)),
        ("the same in a second on a processor", show(figures.sentences_per_processor_second(plan))),
        ("raw sentences drawn a second, by each worker", show(figures.drawn_per_second())),
        ("seconds per sweep over the words", format!("{:.3}", figures.per_sweep(figures.sweep_seconds))),
        ("seconds of synchronisation per sweep", format!("{:.3}", figures.per_sweep(figures.sync_seconds))),
        ("bytes sent per sweep", thousands(figures.per_sweep(figures.sync_bytes as f64) as u64)),
        ("contexts", thousands(figures.contexts)),
        ("most memory of a process", format!("{:.0} MiB", figures.most_memory())),
        ("shards", plan.shards().to_string()),
    ] {
        table.push(vec![name.to_string(), value]);
    }
    paragraph("These depend on the machine and its load; nothing else in this report does.") + &table.to_html()
}

fn memory(figures: &Figures) -> String {
    let mut table = Table::new([("most memory of the first process", Align::Text), ("MiB", Align::Number)]);
    for (stage, most) in &figures.stage_memory {
        table.push(vec![stage.clone(), format!("{most:.0}")]);
    }
    table.to_html()
}
