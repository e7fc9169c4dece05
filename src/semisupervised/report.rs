//! The report of a semisupervised job: perplexity beside the n-gram model's, accuracy after each stage, speed.

use serde_json::{Value, json};

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
use crate::report::line_chart::over_sweeps;
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

/// What the sweeps of a stage take.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    sweeps: u64,
    seconds: f64,
    sync_bytes: u64,
}

impl Cost {
    fn add(&mut self, round: &Round) {
        self.sweeps += round.sweeps;
        self.seconds += round.sweep_seconds;
        self.sync_bytes += round.sync_bytes;
    }

    fn bytes_per_sweep(&self) -> Option<f64> {
        (self.sweeps > 0).then(|| self.sync_bytes as f64 / self.sweeps as f64)
    }

    fn seconds_per_sweep(&self) -> Option<f64> {
        (self.sweeps > 0).then(|| self.seconds / self.sweeps as f64)
    }
}

/// Figures of all stages.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    trees: u64,
    tree_words: u64,
    /// Of the treebank: what was done with trees of crossing arcs, how many there are, and sentences that are no trees.
    crossing: &'static str,
    non_projective: u64,
    no_tree: u64,
    /// By [`super::reader::Use`].
    sizes: [Size; 3],
    known_words: usize,
    raw_words: u32,
    stages: Vec<Stage>,
    /// What the contexts of the last parser weigh on average, where that was learned.
    pub weights: Vec<(Part, Vec<f64>)>,
    /// The n-gram model after each sweep.
    pub ngram: Vec<Evaluated>,
    /// Of parsing in this run, which may be the rest of one: sentences, seconds by the clock, and of all workers on processors.
    parsed: u64,
    parsing_seconds: f64,
    processor_seconds: f64,
    /// Of learning from trees of raw text in this run; sweeps over one context each.
    sweeps: u64,
    sweep_seconds: f64,
    sync_seconds: f64,
    sync_bytes: u64,
    learn_seconds: f64,
    /// Of drawing tags and trees, and of the n-gram model.
    drawing: Cost,
    comparing: Cost,
    /// Bytes of tokens and hierarchies that workers have sent each other.
    pub dealt_bytes: u64,
    contexts: u64,
    pub workers: usize,
    /// MiB that each worker's process has had at most, by worker.
    pub memory: Vec<f64>,
    /// MiB that the first worker's process has had at most, by stage.
    stage_memory: Vec<(String, f64)>,
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
        self.sweeps += round.sweeps;
        self.sweep_seconds += round.sweep_seconds;
        self.sync_seconds += round.sync_seconds;
        self.sync_bytes += round.sync_bytes;
        self.learn_seconds += round.learn_seconds;
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
    fn whole_sweeps(&self, plan: &Plan) -> f64 {
        self.sweeps as f64 / plan.learning().contexts.all.len().max(1) as f64
    }

    /// A sum over this run as a share of one sweep over all contexts; none where that was done before the run was resumed.
    fn per_sweep(&self, plan: &Plan, value: f64) -> Option<f64> {
        (self.sweeps > 0).then(|| value / self.whole_sweeps(plan))
    }

    /// Words a second in sweeps over all contexts.
    fn words_per_second(&self, plan: &Plan) -> Option<f64> {
        let words = (self.tree_words + self.sizes[0].words) as f64;
        let seconds = self.sweep_seconds + self.sync_seconds;
        (self.sweeps > 0).then(|| words * self.whole_sweeps(plan) / seconds.max(1e-9))
    }

    /// Sentences parsed a second by all workers; none where they were parsed before the run was resumed.
    fn sentences_per_second(&self) -> Option<f64> {
        (self.parsing_seconds > 0.0).then(|| self.parsed as f64 / self.parsing_seconds)
    }

    /// Sentences parsed in a second on one processor; none where the system does not say.
    fn sentences_per_processor_second(&self) -> Option<f64> {
        (self.processor_seconds > 0.0).then(|| self.parsed as f64 / self.processor_seconds)
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
        self.ngram.last().and_then(Evaluated::perplexity)
    }
}

/// All files of the report.
pub fn files(title: &str, plan: &Plan, figures: &Figures) -> Vec<(&'static str, String)> {
    vec![
        ("summary.json", summary(plan, figures)),
        ("perplexity.tsv", perplexity_table(plan, figures).to_tsv()),
        ("scores.tsv", score_table(figures, true).to_tsv()),
        ("index.html", page(title, plan, figures)),
    ]
}

fn summary(plan: &Plan, figures: &Figures) -> String {
    let [training, tuning, test] = &figures.sizes;
    let mut summary = json!({
        "perplexity": figures.perplexity(),
        "perplexity_by_word": figures.perplexity_by_word(),
        "interpolated_perplexity": figures.both_perplexity(),
        "tokens": figures.predicted().map(|sum| sum.tokens),
        "unknown": figures.predicted().map(|sum| sum.unknown),
        "ngram_perplexity": figures.ngram_perplexity(),
        "ngram_perplexity_last": figures.ngram.last().and_then(Evaluated::perplexity_last),
        "training_sentences": figures.trees, "training_words": figures.tree_words,
        "training_non_projective": figures.non_projective, "training_no_tree": figures.no_tree,
        "raw_sentences": training.sentences, "raw_words": training.words, "raw_cut": training.cut,
        "raw_left_out": training.left_out,
        "tuning_sentences": tuning.sentences, "tuning_words": tuning.words, "tuning_left_out": tuning.left_out,
        "test_sentences": test.sentences, "test_words": test.words, "test_left_out": test.left_out,
        "known_words": figures.known_words, "known_from_raw_text": figures.raw_words, "contexts": figures.contexts,
        "sentences_per_second": figures.sentences_per_second(), "particles": plan.raw.settings.particles,
        "train_tokens_per_second": figures.words_per_second(plan),
        "seconds_per_sweep": figures.per_sweep(plan, figures.sweep_seconds),
        "hyper_seconds_per_sweep": figures.per_sweep(plan, figures.learn_seconds),
        "sync_seconds_per_sweep": figures.per_sweep(plan, figures.sync_seconds),
        "sync_bytes_per_sweep": figures.per_sweep(plan, figures.sync_bytes as f64),
        "workers": figures.workers,
        "sentences_per_second_per_worker": figures.sentences_per_second().map(|rate| rate / figures.workers.max(1) as f64),
        "sentences_per_processor_second": figures.sentences_per_processor_second(),
        "drawn_sentences_per_second_per_worker": figures.drawn_per_second(),
        "drawn_sync_bytes_per_sweep": figures.drawing.bytes_per_sweep(),
        "ngram_seconds_per_sweep": figures.comparing.seconds_per_sweep(),
        "ngram_sync_bytes_per_sweep": figures.comparing.bytes_per_sweep(),
        "dealt_bytes": figures.dealt_bytes,
        "peak_memory_mib": figures.most_memory(), "peak_memory_mib_by_worker": figures.memory,
    });
    let by_stage = figures.stage_memory.iter().map(|(stage, most)| json!({"stage": stage, "mib": most.round()}));
    summary["peak_memory_mib_by_stage"] = by_stage.collect();
    let weights = figures.weights.iter().map(|(part, weights)| (part.name().to_string(), json!(weights)));
    summary["context_weights"] = Value::Object(weights.collect());
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
    if let Some(ngram) = figures.ngram.last() {
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
                "word by word; the parser weighs {first} and {second} in two halves of the text, each tuned on the other"
            );
            table.push(vec![format!("parser, {}, and HPYLM", stage.name), show(Some(perplexity)), what]);
        }
    }
    table
}

/// Accuracy by stage, of labels where these are wanted.
fn score_table(figures: &Figures, has_labels: bool) -> Table {
    let columns = ["words", "UAS", "LAS", "UAS without punctuation", "LAS without punctuation", "tags"];
    let columns = columns.into_iter().filter(|name| has_labels || !name.starts_with("LAS"));
    let first = [("stage", Align::Text), ("set", Align::Text)];
    let mut table = Table::new(first.into_iter().chain(columns.map(|name| (name, Align::Number))));
    let show = |value: Option<f64>| value.map_or("none".to_string(), |value| format!("{value:.2}"));
    for stage in &figures.stages {
        for (set, Evaluation { score, .. }) in &stage.scores {
            let (all, bare) = (&score.all, &score.no_punctuation);
            let mut row = vec![stage.name.clone(), set.to_string(), thousands(all.words)];
            let figures = match has_labels {
                true => vec![all.uas(), all.las(), bare.uas(), bare.las(), all.tag_accuracy()],
                false => vec![all.uas(), bare.uas(), all.tag_accuracy()],
            };
            row.extend(figures.into_iter().map(show));
            table.push(row);
        }
    }
    table
}

fn page(title: &str, plan: &Plan, figures: &Figures) -> String {
    let lead = "A generative parser that has learned words from text without trees.";
    let mut page = Page::new(title, lead);
    let counted = format!("The data: {}.", figures.in_words());
    match figures.predicted() {
        Some(_) => page.section("perplexity", "Perplexity", &(perplexities(plan, figures) + &paragraph(&counted))),
        None => page.section("data", "Data", &paragraph(&counted)),
    }
    if figures.stages.iter().any(|stage| !stage.scores.is_empty()) {
        page.section(
            "scores",
            "Accuracy after each stage",
            &score_table(figures, plan.parser.model.labelled).to_html(),
        );
    }
    if !figures.weights.is_empty() {
        page.section("weights", "What contexts weigh", &weights(plan, figures));
    }
    page.section("settings", "Settings", &settings(plan, figures));
    page.section("speed", "Speed and memory", &(speed(plan, figures) + &memory(figures)));
    page.to_html()
}

fn weights(plan: &Plan, figures: &Figures) -> String {
    let mut table = Table::new([("of", Align::Text), ("context", Align::Text), ("mean weight", Align::Number)]);
    let names = plan.parser.contexts.names();
    for (part, weights) in &figures.weights {
        for (elements, weight) in names[*part as usize].iter().zip(weights) {
            table.push(vec![format!("{}s", part.name()), elements.join(" "), format!("{weight:.3}")]);
        }
    }
    let footing = "Weights were learned from the text that was set aside for this; they depend on how much of each context has \
                   been seen, and these are their means.";
    table.to_html() + &paragraph(footing)
}

fn perplexities(plan: &Plan, figures: &Figures) -> String {
    let shown = |value: Option<f64>, what: String| value.map(|value| (format!("{value:.1}"), what));
    let top: Vec<_> = [
        shown(figures.perplexity_by_word(), "perplexity of the parser, word by word".to_string()),
        shown(figures.ngram_perplexity(), format!("perplexity of a {}-gram HPYLM", plan.ngram.order)),
        shown(figures.both_perplexity(), "perplexity of both together".to_string()),
    ]
    .into_iter()
    .flatten()
    .collect();
    let unknown = figures.predicted().map_or(0, |sum| sum.unknown);
    let footing = format!(
        "Both models predict the same tokens, the words and the ends of sentences, with the same vocabulary; {} unknown words \
         are predicted as their classes.",
        thousands(unknown)
    );
    let table = perplexity_table(plan, figures).to_html();
    cards(&top) + &table + &paragraph(&footing) + &ngram_chart(figures)
}

/// Whether the n-gram model has had enough sweeps.
fn ngram_chart(figures: &Figures) -> String {
    let line = |value: fn(&Evaluated) -> Option<f64>| -> Vec<(f64, f64)> {
        figures.ngram.iter().filter_map(|at| Some((at.sweep as f64, value(at)?))).collect()
    };
    let charts = over_sweeps("HPYLM, one sample", 0, line(Evaluated::perplexity_last))
        + &over_sweeps("HPYLM, averaged", 1, line(Evaluated::perplexity));
    format!("<div class=\"panels wide\">\n{charts}</div>\n")
}

/// What the parser follows from, and how large it is.
fn settings(plan: &Plan, figures: &Figures) -> String {
    let mut table = Table::new([("setting", Align::Text), ("value", Align::Number)]);
    let (raw, model) = (&plan.raw.settings, &plan.parser.model);
    let learns = if plan.learns(Part::Tag) { "words, tags and transitions" } else { "words" };
    let one_in = |every: u64| if every == 0 { "none".to_string() } else { format!("one in {every}") };
    let tests = if raw.test.is_empty() { one_in(raw.hold_out) } else { "files of their own".to_string() };
    for (name, value) in [
        ("what learns from raw text", learns.to_string()),
        ("documents to test on", tests),
        ("documents set aside for the weights of contexts", one_in(raw.tune)),
        ("words are known that occur so often", raw.min_count.to_string()),
        ("passes", raw.passes.to_string()),
        ("particles in passes; to predict and to test", format!("{}; {}", raw.particles, model.particles)),
        ("sweeps over the seating after each pass", raw.sweeps.to_string()),
        ("sweeps of particle Gibbs", raw.gibbs_sweeps.to_string()),
        ("shards", plan.shards().to_string()),
        ("contexts that were learned", thousands(figures.contexts)),
    ] {
        table.push(vec![name.to_string(), value]);
    }
    table.to_html()
}

fn speed(plan: &Plan, figures: &Figures) -> String {
    let mut table = Table::new([("figure", Align::Text), ("value", Align::Number)]);
    let nothing = || "not in this run".to_string();
    let show = |rate: Option<f64>| rate.map_or_else(nothing, |rate| format!("{rate:.0}"));
    let seconds = |seconds: Option<f64>| seconds.map_or_else(nothing, |seconds| format!("{seconds:.3}"));
    let bytes = |bytes: Option<f64>| bytes.map_or_else(nothing, |bytes| thousands(bytes as u64));
    let parsed = figures.sentences_per_second().map(|rate| rate / figures.workers.max(1) as f64);
    let by_worker: Vec<String> = figures.memory.iter().map(|most| thousands(most.round() as u64)).collect();
    for (name, value) in [
        ("workers", figures.workers.to_string()),
        ("raw sentences parsed a second, by each worker", show(parsed)),
        ("the same in a second on a processor", show(figures.sentences_per_processor_second())),
        ("raw sentences drawn a second, by each worker", show(figures.drawn_per_second())),
        ("seconds per sweep over all contexts", seconds(figures.per_sweep(plan, figures.sweep_seconds))),
        ("seconds of synchronisation per sweep", seconds(figures.per_sweep(plan, figures.sync_seconds))),
        ("bytes sent per sweep", bytes(figures.per_sweep(plan, figures.sync_bytes as f64))),
        ("bytes of tokens, restaurants and parsers sent from worker to worker", thousands(figures.dealt_bytes)),
        ("seconds per sweep of the n-gram model", seconds(figures.comparing.seconds_per_sweep())),
        ("most memory of each worker's process, MiB", by_worker.join("; ")),
    ] {
        table.push(vec![name.to_string(), value]);
    }
    paragraph("These depend on the machine and its load; nothing else in this report does.") + &table.to_html()
}

fn memory(figures: &Figures) -> String {
    let mut table = Table::new([("most memory of the first process", Align::Text), ("MiB", Align::Number)]);
    for (stage, most) in &figures.stage_memory {
        table.push(vec![stage.clone(), thousands(most.round() as u64)]);
    }
    table.to_html()
}
