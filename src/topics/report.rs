//! The report of a topics job: topics, held-out perplexity by sweep, speed and synchronisation.

use std::fmt::Write;

use serde_json::json;

use super::job::Plan;
use super::model::TopicModel;
use crate::cluster::sweep::Round;
use crate::report::line_chart::over_sweeps;
use crate::report::page::{Page, cards, details, paragraph, thousands};
use crate::report::svg::escape;
use crate::report::table::{Align, Table};

/// Words shown with each topic, and listed in tables.
const SHOWN_WORDS: usize = 12;
const LISTED_WORDS: usize = 50;

/// What was found at an evaluation.
#[derive(Clone, Debug)]
pub struct Evaluated {
    pub sweep: u64,
    /// ln p(w, z) per training word.
    pub log_likelihood: f64,
    /// Of the test documents; none where they have no words.
    pub perplexity: Option<f64>,
}

/// Figures of the whole training.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    training_tokens: u64,
    test_tokens: u64,
    test_unknown: u64,
    sweeps: u64,
    tokens: u64,
    sweep_seconds: f64,
    sync_seconds: f64,
    sync_bytes: u64,
    evaluated: Vec<Evaluated>,
}

impl Figures {
    pub fn new(training_tokens: u64, test_tokens: u64, test_unknown: u64) -> Figures {
        Figures { training_tokens, test_tokens, test_unknown, ..Figures::default() }
    }

    /// Adds a round.
    pub fn add(&mut self, round: &Round, evaluated: Option<Evaluated>) {
        self.sweeps += round.sweeps;
        self.tokens += round.tokens;
        self.sweep_seconds += round.sweep_seconds;
        self.sync_seconds += round.sync_seconds;
        self.sync_bytes += round.sync_bytes;
        self.evaluated.extend(evaluated);
    }

    fn per_sweep(&self, value: f64) -> f64 {
        value / self.sweeps.max(1) as f64
    }

    fn tokens_per_second(&self) -> f64 {
        self.tokens as f64 / (self.sweep_seconds + self.sync_seconds).max(1e-9)
    }
}

/// All files of the report but for the documents' topics.
pub fn files(
    title: &str,
    plan: &Plan,
    model: &TopicModel,
    figures: &Figures,
    documents: &[Vec<(f64, String)>],
    peak_memory_mib: f64,
) -> Vec<(&'static str, String)> {
    vec![
        ("topics.tsv", topics(model).to_tsv()),
        ("topic-words.tsv", topic_words(model).to_tsv()),
        ("topic-keys.txt", topic_keys(model)),
        ("perplexity.tsv", perplexity(figures).to_tsv()),
        ("summary.json", summary(plan, model, figures, peak_memory_mib)),
        ("index.html", page(title, plan, model, figures, documents)),
    ]
}

fn words(model: &TopicModel, top: &[(u32, u32)], count: usize) -> String {
    let words: Vec<&str> = top.iter().take(count).map(|(word, _)| model.vocabulary.word(*word)).collect();
    words.join(" ")
}

fn topics(model: &TopicModel) -> Table {
    let numbers = ["topic", "alpha", "tokens"].map(|name| (name, Align::Number));
    let mut table = Table::new(numbers.into_iter().chain([("words", Align::Text)]));
    for (topic, top) in model.top_words(SHOWN_WORDS).iter().enumerate() {
        let (alpha, tokens) = (format!("{:.6}", model.alpha[topic]), model.totals[topic].to_string());
        table.push(vec![topic.to_string(), alpha, tokens, words(model, top, SHOWN_WORDS)]);
    }
    table
}

fn topic_words(model: &TopicModel) -> Table {
    let columns = [("topic", Align::Number), ("rank", Align::Number), ("word", Align::Text)];
    let mut table = Table::new(columns.into_iter().chain([("count", Align::Number), ("probability", Align::Number)]));
    for (topic, top) in model.top_words(LISTED_WORDS).iter().enumerate() {
        for (rank, (word, count)) in (1..).zip(top) {
            let probability = format!("{:.6}", model.probability(topic, *count));
            let word = model.vocabulary.word(*word).to_string();
            table.push(vec![topic.to_string(), rank.to_string(), word, count.to_string(), probability]);
        }
    }
    table
}

/// MALLET's topic-keys: topic, alpha, words.
fn topic_keys(model: &TopicModel) -> String {
    let mut out = String::new();
    for (topic, top) in model.top_words(20).iter().enumerate() {
        let _ = writeln!(out, "{topic}\t{:.5}\t{} ", model.alpha[topic], words(model, top, 20));
    }
    out
}

fn perplexity(figures: &Figures) -> Table {
    let mut table = Table::new(["sweep", "log_likelihood", "perplexity"].map(|name| (name, Align::Number)));
    for evaluated in &figures.evaluated {
        let perplexity = evaluated.perplexity.map_or(String::new(), |p| format!("{p:.4}"));
        table.push(vec![evaluated.sweep.to_string(), format!("{:.6}", evaluated.log_likelihood), perplexity]);
    }
    table
}

fn summary(plan: &Plan, model: &TopicModel, figures: &Figures, peak_memory_mib: f64) -> String {
    let last = figures.evaluated.last();
    let summary = json!({
        "kind": "topics",
        "model": "lda",
        "topics": model.topics(),
        "vocabulary": model.vocabulary.len(),
        "training_tokens": figures.training_tokens,
        "test_tokens": figures.test_tokens,
        "test_unknown": figures.test_unknown,
        "perplexity": last.and_then(|e| e.perplexity),
        "log_likelihood": last.map(|e| e.log_likelihood),
        "sweeps": plan.schedule.sweeps,
        "alpha_sum": model.alpha.iter().sum::<f64>(),
        "tokens_per_second": figures.tokens_per_second(),
        "sync_bytes_per_sweep": figures.per_sweep(figures.sync_bytes as f64),
        "sync_seconds_per_sweep": figures.per_sweep(figures.sync_seconds),
        "sweep_seconds_per_sweep": figures.per_sweep(figures.sweep_seconds),
        "peak_memory_mib": peak_memory_mib,
    });
    let mut text = serde_json::to_string_pretty(&summary).expect("a summary is JSON");
    text.push('\n');
    text
}

fn page(title: &str, plan: &Plan, model: &TopicModel, figures: &Figures, documents: &[Vec<(f64, String)>]) -> String {
    let mut page = Page::new(
        &format!("Topics: {title}"),
        "Latent Dirichlet allocation: what the documents are about, and how well the topics predict documents not seen.",
    );
    let perplexity = figures.evaluated.last().and_then(|e| e.perplexity);
    let counts = [
        (model.topics().to_string(), "topics"),
        (thousands(figures.training_tokens), "words to train on"),
        (thousands(model.vocabulary.len() as u64), "words in the vocabulary"),
        (perplexity.map_or("none".to_string(), |p| format!("{p:.1}")), "test perplexity"),
    ];
    let counts = counts.map(|(value, name)| (value, name.to_string()));
    page.section("quality", "Quality by sweep", &(cards(&counts) + &quality(figures)));
    page.section("topics", "Topics", &topic_browser(model, documents));
    page.section("speed", "Speed and synchronisation", &speed(plan, figures));
    page.to_html()
}

fn quality(figures: &Figures) -> String {
    let unknown = format!(
        "Test perplexity is over {} words of the held-out documents, {} of them unknown words, by the left-to-right \
         method; the log-likelihood is that of training words and their topics.",
        thousands(figures.test_tokens),
        thousands(figures.test_unknown)
    );
    let mut charts = String::from("<div class=\"panels wide\">\n");
    let points = |value: &dyn Fn(&Evaluated) -> Option<f64>| -> Vec<(f64, f64)> {
        figures.evaluated.iter().filter_map(|e| Some((e.sweep as f64, value(e)?))).collect()
    };
    charts += &over_sweeps("test perplexity by sweep", 0, points(&|e| e.perplexity));
    charts += &over_sweeps("log-likelihood per word", 1, points(&|e| Some(e.log_likelihood)));
    paragraph(&unknown) + &charts + "</div>\n" + &details("As a table", &perplexity(figures).to_html())
}

/// Every topic with its words as bars, its share of the words, and the documents that show it.
fn topic_browser(model: &TopicModel, documents: &[Vec<(f64, String)>]) -> String {
    let all = model.totals.iter().sum::<u64>().max(1) as f64;
    let mut order: Vec<usize> = (0..model.topics()).collect();
    order.sort_by_key(|&topic| (std::cmp::Reverse(model.totals[topic]), topic));
    let (frequent, distinctive) = (model.top_words(SHOWN_WORDS), model.distinctive_words(SHOWN_WORDS));
    let mut out = paragraph(
        "By their share of all words. Each has the words that set it off most from the rest of the collection, with their \
         probability in the topic as a bar; then its most frequent words, and the documents with the largest share of it.",
    );
    out.push_str("<div class=\"topics\">\n");
    for topic in order {
        let share = 100.0 * model.totals[topic] as f64 / all;
        let _ = writeln!(
            out,
            "<article><h3>Topic {topic} <span class=\"small\">{share:.1} %, \u{3b1} {:.3}</span></h3>",
            model.alpha[topic]
        );
        out += &bars(model, topic, &distinctive[topic]);
        let shown: Vec<String> =
            documents[topic].iter().map(|(share, id)| format!("{} ({:.0} %)", escape(id), 100.0 * share)).collect();
        let frequent = escape(&words(model, &frequent[topic], SHOWN_WORDS));
        let _ = writeln!(out, "<p class=\"small frequent\">{frequent}</p>");
        let _ = writeln!(out, "<p class=\"small\">{}</p></article>", shown.join(", "));
    }
    out.push_str("</div>\n");
    out
}

/// Words with their probabilities in a topic as bars, against the largest of them.
fn bars(model: &TopicModel, topic: usize, words: &[(u32, u32)]) -> String {
    let most = words.iter().map(|(_, count)| *count).max().unwrap_or(1);
    let mut out = String::from("<ol>\n");
    for (word, count) in words {
        let width = 100.0 * f64::from(*count) / f64::from(most);
        let _ = writeln!(
            out,
            "<li title=\"{:.5}\"><span class=\"bar\" style=\"width:{width:.1}%\"></span><span>{}</span></li>",
            model.probability(topic, *count),
            escape(model.vocabulary.word(*word))
        );
    }
    out + "</ol>\n"
}

fn speed(plan: &Plan, figures: &Figures) -> String {
    let mut table = Table::new([("figure", Align::Text), ("value", Align::Number)]);
    let share = 100.0 * figures.sync_seconds / (figures.sweep_seconds + figures.sync_seconds).max(1e-9);
    let rows = [
        ("words per second, all workers", thousands(figures.tokens_per_second() as u64)),
        ("seconds per sweep", format!("{:.4}", figures.per_sweep(figures.sweep_seconds))),
        ("seconds of synchronisation per sweep", format!("{:.4}", figures.per_sweep(figures.sync_seconds))),
        ("share of synchronisation", format!("{share:.1} %")),
        ("bytes sent per sweep", thousands(figures.per_sweep(figures.sync_bytes as f64) as u64)),
        ("synchronisations per sweep", plan.model.rounds.parts(plan.schedule.shards).to_string()),
        ("shards", plan.schedule.shards.to_string()),
    ];
    rows.into_iter().for_each(|(name, value)| table.push(vec![name.to_string(), value]));
    paragraph("These depend on the machine and its load; nothing else in this report does.") + &table.to_html()
}
