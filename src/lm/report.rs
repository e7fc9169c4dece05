//! The report of a language-model job: test perplexity by sweep, discounts and strengths by depth, size and speed.

use serde_json::json;

use super::hpylm::HeldOut;
use super::job::{Order, Plan};
use super::model::LanguageModel;
use super::text::Text;
use crate::cluster::sweep::Round;
use crate::report::line_chart::over_sweeps;
use crate::report::page::{Page, cards, details, paragraph, thousands};
use crate::report::table::{Align, Table};
use crate::restaurant::parameters::Parameters;

/// What was found at an evaluation.
#[derive(Clone, Debug)]
pub struct Evaluated {
    pub sweep: u64,
    /// Posterior samples so far.
    pub samples: u32,
    pub held_out: HeldOut,
    pub parameters: Parameters,
}

fn perplexity(ln: f64, tokens: f64) -> Option<f64> {
    (tokens > 0.0).then(|| libm::exp(-ln / tokens))
}

impl Evaluated {
    /// What a round has found, where it was evaluated.
    pub fn new(round: &Round) -> Option<Evaluated> {
        let (samples, parameters) = round.snapshot.split_first()?;
        let (discounts, strengths) = parameters.split_at(parameters.len() / 2);
        Some(Evaluated {
            sweep: round.sweep,
            samples: *samples as u32,
            held_out: HeldOut::from_figures(&round.evaluation).unwrap_or_default(),
            parameters: Parameters { discounts: discounts.to_vec(), strengths: strengths.to_vec() },
        })
    }

    /// By the mean of p over the samples; none without samples.
    pub fn perplexity(&self) -> Option<f64> {
        self.averaged(self.held_out.mean_ln.iter().sum(), self.held_out.tokens.iter().sum())
    }

    /// By the last sample alone.
    pub fn perplexity_last(&self) -> Option<f64> {
        perplexity(self.held_out.last_ln.iter().sum(), self.held_out.tokens.iter().sum())
    }

    fn averaged(&self, ln: f64, tokens: f64) -> Option<f64> {
        perplexity(ln, tokens).filter(|_| self.samples > 0)
    }

    /// By the mean, without the tokens of unknown words.
    pub fn perplexity_known(&self) -> Option<f64> {
        self.averaged(self.held_out.mean_ln[0], self.held_out.tokens[0])
    }
}

/// Figures of the whole training.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    training_tokens: u64,
    training_sentences: u64,
    test_tokens: u64,
    test_sentences: u64,
    test_unknown: u64,
    sweeps: u64,
    tokens: u64,
    sweep_seconds: f64,
    sync_seconds: f64,
    learn_seconds: f64,
    sync_bytes: u64,
    /// Contexts of training tokens up to the longest order.
    contexts_of_max_order: usize,
    evaluated: Vec<Evaluated>,
}

impl Figures {
    pub fn new(text: &Text) -> Figures {
        Figures {
            training_tokens: text.training_tokens,
            training_sentences: text.training_sentences,
            test_tokens: text.test_tokens,
            test_sentences: text.test_sentences,
            test_unknown: text.test_unknown,
            ..Figures::default()
        }
    }

    /// Takes how many contexts there would be if every token had the longest order.
    pub fn set_contexts_of_max_order(&mut self, contexts: usize) {
        self.contexts_of_max_order = contexts;
    }

    /// Adds a round.
    pub fn add(&mut self, round: &Round, evaluated: Option<Evaluated>) {
        self.sweeps += round.sweeps;
        self.tokens += round.tokens;
        self.sweep_seconds += round.sweep_seconds;
        self.sync_seconds += round.sync_seconds;
        self.learn_seconds += round.learn_seconds;
        self.sync_bytes += round.sync_bytes;
        self.evaluated.extend(evaluated);
    }

    fn per_sweep(&self, value: f64) -> f64 {
        value / self.sweeps.max(1) as f64
    }

    fn tokens_per_second(&self) -> f64 {
        self.tokens as f64 / (self.sweep_seconds + self.sync_seconds).max(1e-9)
    }

    fn last(&self) -> Option<&Evaluated> {
        self.evaluated.last()
    }
}

/// All files of the report.
pub fn files(
    title: &str,
    plan: &Plan,
    model: &LanguageModel,
    figures: &Figures,
    peak_memory_mib: f64,
) -> Vec<(&'static str, String)> {
    let mut files = vec![
        ("perplexity.tsv", perplexity_table(figures).to_tsv()),
        ("depths.tsv", depth_table(model, |count| count.to_string()).to_tsv()),
        ("summary.json", summary(plan, model, figures, peak_memory_mib)),
        ("index.html", page(title, plan, model, figures, peak_memory_mib)),
    ];
    if model.is_infinite() {
        files.push(("orders.tsv", order_table(model, |count| count.to_string()).to_tsv()));
        files.push(("contexts.tsv", context_table(model).to_tsv()));
    }
    files
}

fn bytes_per_context(model: &LanguageModel, peak_memory_mib: f64) -> f64 {
    peak_memory_mib * (1 << 20) as f64 / model.restaurants() as f64
}

fn summary(plan: &Plan, model: &LanguageModel, figures: &Figures, peak_memory_mib: f64) -> String {
    let last = figures.last();
    let dishes: usize = (0..model.restaurants()).map(|restaurant| model.dishes(restaurant).len()).sum();
    let summary = json!({
        "kind": "lm",
        "model": "hpylm",
        "order": match plan.order {
            Order::Fixed(order) => json!(order),
            Order::Infinite { .. } => json!("infinite"),
        },
        "max_order": plan.order.longest(),
        "vocabulary": model.kept.vocabulary.len(),
        "training_tokens": figures.training_tokens,
        "training_sentences": figures.training_sentences,
        "tokens": figures.test_tokens,
        "sentences": figures.test_sentences,
        "unknown": figures.test_unknown,
        "perplexity": last.and_then(Evaluated::perplexity),
        "perplexity_last": last.and_then(Evaluated::perplexity_last),
        "perplexity_without_unknown": last.and_then(Evaluated::perplexity_known),
        "samples": last.map_or(0, |last| last.samples),
        "sweeps": plan.schedule.sweeps,
        "contexts": model.restaurants(),
        "contexts_of_max_order": figures.contexts_of_max_order,
        "ngrams": dishes,
        "discounts": model.kept.parameters.discounts,
        "strengths": model.kept.parameters.strengths,
        "bytes_per_context": bytes_per_context(model, peak_memory_mib),
        "peak_memory_mib": peak_memory_mib,
        "tokens_per_second": figures.tokens_per_second(),
        "sweep_seconds_per_sweep": figures.per_sweep(figures.sweep_seconds),
        "hyper_seconds_per_sweep": figures.per_sweep(figures.learn_seconds),
        "sync_seconds_per_sweep": figures.per_sweep(figures.sync_seconds),
        "sync_bytes_per_sweep": figures.per_sweep(figures.sync_bytes as f64),
    });
    let mut text = serde_json::to_string_pretty(&summary).expect("a summary is JSON");
    text.push('\n');
    text
}

fn perplexity_table(figures: &Figures) -> Table {
    let columns = ["sweep", "perplexity_last", "perplexity", "samples"];
    let mut table = Table::new(columns.map(|name| (name, Align::Number)));
    let shown = |value: Option<f64>| value.map_or(String::new(), |p| format!("{p:.4}"));
    for evaluated in &figures.evaluated {
        table.push(vec![
            evaluated.sweep.to_string(),
            shown(evaluated.perplexity_last()),
            shown(evaluated.perplexity()),
            evaluated.samples.to_string(),
        ]);
    }
    table
}

/// `count` writes a number: plainly for programs, in thousands for people.
fn depth_table(model: &LanguageModel, count: fn(u64) -> String) -> Table {
    let columns = ["context length", "discount", "strength", "contexts", "n-grams", "customers", "tables"];
    let mut table = Table::new(columns.map(|name| (name, Align::Number)));
    for depth in 0..model.depths() {
        let level = model.level(depth);
        let dishes = || level.clone().flat_map(|restaurant| model.dishes(restaurant));
        table.push(vec![
            depth.to_string(),
            format!("{:.4}", model.kept.parameters.discounts[depth]),
            format!("{:.4}", model.kept.parameters.strengths[depth]),
            count(level.len() as u64),
            count(dishes().count() as u64),
            count(dishes().map(|dish| u64::from(model.customers(dish))).sum()),
            count(dishes().map(|dish| u64::from(model.tables(dish))).sum()),
        ]);
    }
    table
}

/// How many tokens have which order.
fn order_table(model: &LanguageModel, count: fn(u64) -> String) -> Table {
    let mut table = Table::new(["order", "tokens", "share", "contexts"].map(|name| (name, Align::Number)));
    let stops = |depth: usize| model.level(depth).map(|at| u64::from(model.visits(at).stops)).sum::<u64>();
    let all: u64 = (0..model.depths()).map(stops).sum();
    for depth in 0..model.depths() {
        table.push(vec![
            (depth + 1).to_string(),
            count(stops(depth)),
            format!("{:.4}", stops(depth) as f64 / all.max(1) as f64),
            count(model.level(depth).len() as u64),
        ]);
    }
    table
}

/// For each length, the contexts at which most tokens stop, with the posterior probability of stopping there.
fn context_table(model: &LanguageModel) -> Table {
    const SHOWN: usize = 10;
    let columns = [("order", Align::Number), ("context", Align::Text), ("stops", Align::Number)];
    let rest = [("passes", Align::Number), ("p(stop)", Align::Number)];
    let mut table = Table::new(columns.into_iter().chain(rest));
    let contexts = model.contexts();
    for depth in 0..model.depths() {
        let mut level: Vec<usize> = model.level(depth).collect();
        level.sort_by_key(|&at| (std::cmp::Reverse(model.visits(at).stops), at));
        for &at in level.iter().take(SHOWN).filter(|at| model.visits(**at).stops > 0) {
            let visits = model.visits(at);
            table.push(vec![
                (depth + 1).to_string(),
                if depth == 0 { "(none)".to_string() } else { contexts.words(at).join(" ") },
                visits.stops.to_string(),
                visits.passes.to_string(),
                format!("{:.4}", model.stop(at)),
            ]);
        }
    }
    table
}

fn page(title: &str, plan: &Plan, model: &LanguageModel, figures: &Figures, peak_memory_mib: f64) -> String {
    let mut page = Page::new(
        &format!("Language model: {title}"),
        &format!(
            "A hierarchical Pitman-Yor {} language model, and how well it predicts text not seen.",
            plan.order.name()
        ),
    );
    let last = figures.last();
    let value = |p: Option<f64>| p.map_or("none".to_string(), |p| format!("{p:.2}"));
    let counts = [
        (value(last.and_then(Evaluated::perplexity)), "test perplexity, averaged over samples"),
        (value(last.and_then(Evaluated::perplexity_last)), "by the last sample alone"),
        (thousands(figures.training_tokens), "tokens to train on"),
        (thousands(model.restaurants() as u64), "contexts"),
    ];
    let counts = counts.map(|(value, name)| (value, name.to_string()));
    page.section("quality", "Test perplexity", &(cards(&counts) + &quality(figures)));
    page.section("depths", "Discount and strength by context length", &depths(model, figures));
    if model.is_infinite() {
        page.section("orders", "Orders", &orders(model, figures));
    }
    page.section("speed", "Size, speed and synchronisation", &speed(plan, model, figures, peak_memory_mib));
    page.to_html()
}

fn quality(figures: &Figures) -> String {
    let last = figures.last();
    let known = last.and_then(Evaluated::perplexity_known).map_or("none".to_string(), |p| format!("{p:.2}"));
    let counted = format!(
        "Over {} tokens: {} words, and the ends of {} sentences. {} of them are unknown words, predicted as the unknown token; \
         without these, perplexity is {known}. Probabilities are averaged over {} posterior samples.",
        thousands(figures.test_tokens),
        thousands(figures.test_tokens - figures.test_sentences),
        thousands(figures.test_sentences),
        thousands(figures.test_unknown),
        last.map_or(0, |last| last.samples),
    );
    let last = |e: &Evaluated| Some((e.sweep as f64, e.perplexity_last()?));
    let mean = |e: &Evaluated| Some((e.sweep as f64, e.perplexity()?));
    let charts = over_sweeps("one sample, by sweep", 0, figures.evaluated.iter().filter_map(last).collect())
        + &over_sweeps("averaged over samples", 1, figures.evaluated.iter().filter_map(mean).collect());
    paragraph(&counted)
        + &format!("<div class=\"panels wide\">\n{charts}</div>\n")
        + &details("As a table", &perplexity_table(figures).to_html())
}

fn depths(model: &LanguageModel, figures: &Figures) -> String {
    let panels = |name: &str, colour: usize, value: &dyn Fn(&Parameters, usize) -> f64| {
        let panel = |depth: usize| {
            let points = figures.evaluated.iter().map(|e| (e.sweep as f64, value(&e.parameters, depth)));
            over_sweeps(&format!("{name}, length {depth}"), colour, points.collect())
        };
        let charts: String = (0..model.depths()).map(panel).collect();
        format!("<div class=\"panels\">\n{charts}</div>\n")
    };
    paragraph("One pair for each length of context, as the last sample has them.")
        + &depth_table(model, thousands).to_html()
        + &details("Discounts by sweep", &panels("discount", 0, &|p, depth| p.discounts[depth]))
        + &details("Strengths by sweep", &panels("strength", 1, &|p, depth| p.strengths[depth]))
}

fn orders(model: &LanguageModel, figures: &Figures) -> String {
    let nodes = format!(
        "{} contexts have customers; with the fixed order {} there would be {}.",
        thousands(model.restaurants() as u64),
        model.depths(),
        thousands(figures.contexts_of_max_order as u64)
    );
    paragraph(&nodes)
        + &paragraph(
            "Every token has an order of its own: so many words, itself among them, does the model take it to depend on.",
        )
        + &order_table(model, thousands).to_html()
        + &paragraph(
            "The contexts at which most tokens stop in the last sample, by order, with the probability of stopping there:",
        )
        + &context_table(model).to_html()
}

fn speed(plan: &Plan, model: &LanguageModel, figures: &Figures, peak_memory_mib: f64) -> String {
    let mut table = Table::new([("figure", Align::Text), ("value", Align::Number)]);
    let sweeps = (figures.sweep_seconds + figures.sync_seconds).max(1e-9);
    let rows = [
        ("tokens per second, all workers", thousands(figures.tokens_per_second() as u64)),
        ("seconds per sweep", format!("{:.4}", figures.per_sweep(figures.sweep_seconds))),
        ("seconds of discounts and strengths per sweep", format!("{:.4}", figures.per_sweep(figures.learn_seconds))),
        ("seconds of synchronisation per sweep", format!("{:.4}", figures.per_sweep(figures.sync_seconds))),
        ("share of synchronisation", format!("{:.1} %", 100.0 * figures.sync_seconds / sweeps)),
        ("bytes sent per sweep", thousands(figures.per_sweep(figures.sync_bytes as f64) as u64)),
        ("most memory of the first process", format!("{peak_memory_mib:.0} MiB")),
        ("the same, for each context", format!("{:.0} bytes", bytes_per_context(model, peak_memory_mib))),
        ("shards", plan.schedule.shards.to_string()),
    ];
    rows.into_iter().for_each(|(name, value)| table.push(vec![name.to_string(), value]));
    paragraph("These depend on the machine and its load; nothing else in this report does.") + &table.to_html()
}
