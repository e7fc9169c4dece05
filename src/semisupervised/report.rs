//! The report of a semisupervised job: perplexity beside the n-gram model's, accuracy after each stage, speed.

use serde_json::{Value, json};

use super::figures::{Figures, Stage};
use super::job::Plan;
use crate::lm::report::Evaluated;
use crate::parser::evaluate::Evaluation;
use crate::parser::job::Part;
use crate::parser::perplexity::Sum;
use crate::report::line_chart::over_sweeps;
use crate::report::page::{Page, cards, paragraph, thousands};
use crate::report::table::{Align, Table};

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
        "seconds_per_sweep": figures.per_sweep(plan, figures.learning.seconds),
        "hyper_seconds_per_sweep": figures.per_sweep(plan, figures.learning.learn_seconds),
        "sync_seconds_per_sweep": figures.per_sweep(plan, figures.learning.sync_seconds),
        "sync_bytes_per_sweep": figures.per_sweep(plan, figures.learning.sync_bytes as f64),
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
        ("seconds per sweep over all contexts", seconds(figures.per_sweep(plan, figures.learning.seconds))),
        ("seconds of synchronisation per sweep", seconds(figures.per_sweep(plan, figures.learning.sync_seconds))),
        ("bytes sent per sweep", bytes(figures.per_sweep(plan, figures.learning.sync_bytes as f64))),
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
