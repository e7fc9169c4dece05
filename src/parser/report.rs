//! The report of a parser job: scores, size of the model, speed.

use serde_json::{Value, json};

use super::evaluate::Evaluation;
use super::job::Plan;
use super::lexicon::Lexicon;
use super::model::ParserModel;
use super::treebank::Treebank;
use crate::cluster::sweep::Round;
use crate::report::page::{Page, cards, paragraph, thousands};
use crate::report::table::{Align, Table};

/// Figures of the whole training, and of what was parsed.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    sentences: u64,
    words: u64,
    non_projective: u64,
    no_tree: u64,
    too_deep: u64,
    is_single_rooted: bool,
    known_words: usize,
    classes: usize,
    tags: usize,
    labels: usize,
    sweeps: u64,
    tokens: u64,
    sweep_seconds: f64,
    sync_seconds: f64,
    learn_seconds: f64,
    sync_bytes: u64,
    /// Of "dev" and "test".
    pub evaluations: Vec<(&'static str, Evaluation)>,
}

impl Figures {
    pub fn new(treebank: &Treebank, lexicon: &Lexicon, is_single_rooted: bool) -> Figures {
        Figures {
            sentences: treebank.len() as u64,
            words: treebank.words.len() as u64,
            non_projective: treebank.non_projective,
            no_tree: treebank.no_tree,
            too_deep: treebank.too_deep,
            is_single_rooted,
            known_words: lexicon.known_words(),
            classes: lexicon.classes(),
            tags: lexicon.tags.len(),
            labels: lexicon.labels.len(),
            ..Figures::default()
        }
    }

    /// Adds a round.
    pub fn add(&mut self, round: &Round) {
        self.sweeps += round.sweeps;
        self.tokens += round.tokens;
        self.sweep_seconds += round.sweep_seconds;
        self.sync_seconds += round.sync_seconds;
        self.learn_seconds += round.learn_seconds;
        self.sync_bytes += round.sync_bytes;
    }

    /// What is trained on.
    pub fn in_words(&self, plan: &Plan) -> String {
        let too_deep = match plan.model.max_memory {
            0 => String::new(),
            bound => format!(", {} that need more memory than {bound} left out", self.too_deep),
        };
        format!(
            "{} trees of {} words to train on ({} with crossing arcs {}, {} that are no trees left out{too_deep}); {} known \
             words, {} classes of others, {} tags, {} labels",
            self.sentences,
            self.words,
            self.non_projective,
            plan.non_projective.in_words(),
            self.no_tree,
            self.known_words,
            self.classes,
            self.tags,
            self.labels
        )
    }

    fn per_sweep(&self, value: f64) -> f64 {
        value / self.sweeps.max(1) as f64
    }

    fn tokens_per_second(&self) -> f64 {
        self.tokens as f64 / (self.sweep_seconds + self.sync_seconds).max(1e-9)
    }

    /// The evaluation that the summary speaks of: that of the test set, or of the development set where there is none.
    fn main(&self) -> Option<&Evaluation> {
        self.evaluations.last().map(|(_, evaluation)| evaluation)
    }
}

/// An evaluation as a line.
pub fn in_words(evaluation: &Evaluation) -> String {
    let (all, bare) = (&evaluation.score.all, &evaluation.score.no_punctuation);
    let show = |value: Option<f64>| value.map_or("none".to_string(), |value| format!("{value:.2}"));
    format!(
        "UAS {}, LAS {}; without punctuation UAS {}, LAS {}; tags {}; {:.0} sentences a second",
        show(all.uas()),
        show(all.las()),
        show(bare.uas()),
        show(bare.las()),
        show(all.tag_accuracy()),
        evaluation.sentences_per_second()
    )
}

/// All files of the report.
pub fn files(
    title: &str,
    plan: &Plan,
    model: &ParserModel,
    figures: &Figures,
    peak_memory_mib: f64,
) -> Vec<(&'static str, String)> {
    vec![
        ("summary.json", summary(plan, figures, peak_memory_mib)),
        ("scores.tsv", score_table(figures).to_tsv()),
        ("depths.tsv", depth_table(model).to_tsv()),
        ("index.html", page(title, plan, model, figures, peak_memory_mib)),
    ]
}

/// The figures of an evaluation, for programs.
fn evaluation_json(evaluation: &Evaluation) -> Value {
    let (all, bare) = (&evaluation.score.all, &evaluation.score.no_punctuation);
    json!({
        "sentences": evaluation.score.sentences, "words": all.words, "unknown": evaluation.unknown,
        "uas": all.uas(), "las": all.las(), "uas_nopunct": bare.uas(), "las_nopunct": bare.las(),
        "tag_accuracy": all.tag_accuracy(), "sentences_per_second": evaluation.sentences_per_second(),
        "beam": evaluation.beam,
    })
}

fn summary(plan: &Plan, figures: &Figures, peak_memory_mib: f64) -> String {
    let mut summary = figures.main().map_or(json!({}), evaluation_json);
    for (name, evaluation) in &figures.evaluations {
        summary[*name] = evaluation_json(evaluation);
    }
    let rest = json!({
        "particles": plan.model.particles, "training_sentences": figures.sentences, "training_words": figures.words,
        "non_projective": figures.non_projective, "no_tree": figures.no_tree,
        "train_tokens_per_second": figures.tokens_per_second(), "sweeps": plan.schedule.sweeps,
        "seconds_per_sweep": figures.per_sweep(figures.sweep_seconds),
        "hyper_seconds_per_sweep": figures.per_sweep(figures.learn_seconds),
        "sync_seconds_per_sweep": figures.per_sweep(figures.sync_seconds),
        "sync_bytes_per_sweep": figures.per_sweep(figures.sync_bytes as f64), "peak_memory_mib": peak_memory_mib,
    });
    for (key, value) in rest.as_object().expect("an object") {
        summary[key] = value.clone();
    }
    format!("{summary:#}\n")
}

fn score_table(figures: &Figures) -> Table {
    let columns = ["words", "UAS", "LAS", "UAS without punctuation", "LAS without punctuation", "tags", "whole trees"];
    let numbers = columns.map(|name| (name, Align::Number));
    let mut table = Table::new([("set", Align::Text), ("sentences", Align::Number)].into_iter().chain(numbers));
    let show = |value: Option<f64>| value.map_or("none".to_string(), |value| format!("{value:.2}"));
    for (name, Evaluation { score, .. }) in &figures.evaluations {
        let (all, bare) = (&score.all, &score.no_punctuation);
        let mut row = vec![name.to_string(), score.sentences.to_string(), all.words.to_string()];
        row.extend([all.uas(), all.las(), bare.uas(), bare.las(), all.tag_accuracy()].map(show));
        row.push(show(Some(100.0 * score.exact as f64 / score.sentences.max(1) as f64)));
        table.push(row);
    }
    table
}

fn depth_table(model: &ParserModel) -> Table {
    let columns = ["contexts", "customers", "tables", "discount", "strength"].map(|name| (name, Align::Number));
    let first = [("distribution", Align::Text), ("depth", Align::Number), ("element", Align::Text)];
    let mut table = Table::new(first.into_iter().chain(columns));
    let names = model.kept.contexts.iter().zip(["transitions", "tags", "words"]);
    let names = names.flat_map(|(lists, name)| lists.iter().map(move |list| (name, list)));
    for ((name, context), hierarchy) in names.zip(&model.kept.hierarchies) {
        let parameters = &hierarchy.parameters;
        if !model.kept.is_lexicalised && name == "words" {
            continue;
        }
        for (depth, sizes) in hierarchy.sizes().into_iter().enumerate() {
            let element = depth.checked_sub(1).map_or(String::new(), |last| context[last].clone());
            let mut row = vec![name.to_string(), depth.to_string(), element];
            row.extend(sizes.map(|size| size.to_string()));
            row.push(format!("{:.4}", parameters.discounts[depth]));
            row.push(format!("{:.4}", parameters.strengths[depth]));
            table.push(row);
        }
    }
    table
}

fn page(title: &str, plan: &Plan, model: &ParserModel, figures: &Figures, peak_memory_mib: f64) -> String {
    let words = if plan.model.lexicalised { "lexicalised" } else { "unlexicalised" };
    let lead = format!("A {words} generative {} parser, {} sweeps.", plan.model.system.name(), plan.schedule.sweeps);
    let mut page = Page::new(title, &lead);
    let mut top = vec![];
    if let Some(evaluation) = figures.main() {
        let bare = &evaluation.score.no_punctuation;
        let show = |value: Option<f64>| value.map_or("none".to_string(), |value| format!("{value:.1}"));
        top.push((show(bare.uas()), "UAS without punctuation".to_string()));
        top.push((show(bare.las()), "LAS without punctuation".to_string()));
        top.push((show(evaluation.score.all.tag_accuracy()), "tags right, %".to_string()));
        top.push((format!("{:.0}", evaluation.sentences_per_second()), "sentences parsed a second".to_string()));
    }
    let counted = format!("Trained on {}.", figures.in_words(plan));
    let root = match figures.is_single_rooted {
        true => "Every training tree has one word below the root, and so has every parse.",
        false => "Some training trees have several words below the root, and parses may have too.",
    };
    let scores = cards(&top) + &score_table(figures).to_html() + &paragraph(&counted) + &paragraph(root);
    page.section("scores", "Scores", &scores);
    let about =
        "Contexts by length, with the element that each adds, and the discount and strength of the last sample.";
    page.section("depths", "Contexts", &(paragraph(about) + &depth_table(model).to_html()));
    page.section("speed", "Speed", &speed(plan, figures, peak_memory_mib));
    page.to_html()
}

fn speed(plan: &Plan, figures: &Figures, peak_memory_mib: f64) -> String {
    let mut table = Table::new([("figure", Align::Text), ("value", Align::Number)]);
    let mut rows = vec![
        ("words per second of training, all workers".to_string(), thousands(figures.tokens_per_second() as u64)),
        ("seconds per sweep".to_string(), format!("{:.4}", figures.per_sweep(figures.sweep_seconds))),
        (
            "seconds of discounts and strengths per sweep".to_string(),
            format!("{:.4}", figures.per_sweep(figures.learn_seconds)),
        ),
        ("seconds of synchronisation per sweep".to_string(), format!("{:.4}", figures.per_sweep(figures.sync_seconds))),
        ("most memory of the first process".to_string(), format!("{peak_memory_mib:.0} MiB")),
        ("shards".to_string(), plan.schedule.shards.to_string()),
    ];
    for (name, evaluation) in &figures.evaluations {
        rows.push((format!("sentences parsed a second, {name}"), format!("{:.0}", evaluation.sentences_per_second())));
        rows.push((format!("derivations after a word, {name}"), format!("{:.1}", evaluation.beam)));
    }
    rows.into_iter().for_each(|(name, value)| table.push(vec![name, value]));
    paragraph("These depend on the machine and its load; nothing else in this report does.") + &table.to_html()
}
