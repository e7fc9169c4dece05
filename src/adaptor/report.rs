//! The report of an adaptor job: scores by sweep, cached strings, parses, rules, speed.

use serde_json::{Value, json};

use super::corpus::Corpus;
use super::grammar::Symbol;
use super::job::Plan;
use super::model::AdaptorModel;
use super::score::Counts;
use super::show;
use super::trainer::Evaluated;
use crate::cluster::sweep::Round;
use crate::report::line_chart::over_sweeps;
use crate::report::page::{Page, cards, details, paragraph, thousands};
use crate::report::svg::escape;
use crate::report::table::{Align, Table};

/// Figures of the whole training.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    strings: u64,
    symbols: u64,
    skipped: u64,
    nonterminals: u32,
    rules: usize,
    adapted: usize,
    has_gold: bool,
    sweeps: u64,
    sweep_seconds: f64,
    sync_seconds: f64,
    learn_seconds: f64,
    sync_bytes: u64,
    evaluations: Vec<Evaluated>,
    /// Free energy by sweep, of variational Bayes.
    energies: Vec<(f64, f64)>,
    pub free_energy: Option<f64>,
    /// Some strings with their skeletal parses.
    pub parses: Vec<String>,
}

impl Figures {
    pub fn new(corpus: &Corpus) -> Figures {
        Figures {
            strings: corpus.strings.len() as u64,
            symbols: corpus.symbols(),
            skipped: corpus.view_of.iter().filter(|&&view| view == super::grammar::NONE).count() as u64,
            nonterminals: corpus.grammar.nonterminals,
            rules: corpus.grammar.rules.len(),
            adapted: corpus.grammar.adapted().count(),
            has_gold: !corpus.gold.is_empty(),
            ..Figures::default()
        }
    }

    /// Adds a round; returns what was evaluated.
    pub fn add(&mut self, round: &Round) -> Option<Evaluated> {
        self.sweeps += round.sweeps;
        self.sweep_seconds += round.sweep_seconds;
        self.sync_seconds += round.sync_seconds;
        self.learn_seconds += round.learn_seconds;
        self.sync_bytes += round.sync_bytes;
        if let [energy] = round.snapshot[..] {
            self.energies.push((round.sweep as f64, energy));
        }
        let evaluated = Evaluated::from_figures(round.sweep, &round.evaluation, &round.snapshot)?;
        self.evaluations.push(evaluated.clone());
        Some(evaluated)
    }

    /// What there is to train on.
    pub fn in_words(&self) -> String {
        let skipped = match self.skipped {
            0 => String::new(),
            skipped => format!(", {skipped} of which it does not derive"),
        };
        format!(
            "a grammar of {} rules and {} nonterminals, {} of them adapted; {} strings of {} symbols{skipped}",
            thousands(self.rules as u64),
            thousands(u64::from(self.nonterminals)),
            self.adapted,
            thousands(self.strings),
            thousands(self.symbols)
        )
    }

    fn last(&self) -> Option<&Evaluated> {
        self.evaluations.last()
    }

    fn per_sweep(&self, value: f64) -> f64 {
        value / self.sweeps.max(1) as f64
    }
}

/// Some of many parses, evenly spread: of the longer quarter, since strings of a word or two have little to show.
pub fn spread(parses: impl Iterator<Item = String>) -> Vec<String> {
    const SHOWN: usize = 40;
    let length = |parse: &String| parse.split(' ').count();
    let mut parses: Vec<String> = parses.collect();
    let mut lengths: Vec<usize> = parses.iter().map(length).collect();
    lengths.sort_unstable();
    let least = lengths.get(lengths.len() * 3 / 4).copied().unwrap_or(0);
    parses.retain(|parse| length(parse) >= least);
    let step = parses.len().div_ceil(SHOWN).max(1);
    parses.into_iter().step_by(step).collect()
}

/// Adds the figures of an evaluation to a line of metrics, or a summary.
pub fn add_scores(line: &mut Value, evaluated: &Evaluated) {
    line["log_posterior"] = evaluated.log_posterior.into();
    line["acceptance_rate"] = evaluated.acceptance_rate.into();
    line["tables"] = evaluated.tables.into();
    let (now, marginal) = (&evaluated.scores, &evaluated.marginal);
    let named = [
        ("token", &now.tokens),
        ("boundary", &now.boundaries),
        ("type", &evaluated.types),
        ("marginal_token", &marginal.tokens),
        ("marginal_boundary", &marginal.boundaries),
    ];
    for (name, counts) in named {
        for (figure, value) in [("f", counts.f()), ("precision", counts.precision()), ("recall", counts.recall())] {
            if let Some(value) = value {
                line[format!("{name}_{figure}")] = value.into();
            }
        }
    }
}

/// All files of the report.
pub fn files(
    title: &str,
    plan: &Plan,
    model: &AdaptorModel,
    figures: &Figures,
    peak_memory_mib: f64,
) -> Vec<(&'static str, String)> {
    let mut parses = figures.parses.join("\n");
    parses.push('\n');
    vec![
        ("summary.json", summary(plan, figures, peak_memory_mib)),
        ("scores.tsv", score_table(figures).to_tsv()),
        ("cached.tsv", cached_table(model, usize::MAX).to_tsv()),
        ("rules.tsv", rule_table(model).to_tsv()),
        ("adaptors.tsv", adaptor_table(model).to_tsv()),
        ("parses.txt", parses),
        ("index.html", page(title, plan, model, figures, peak_memory_mib)),
    ]
}

fn summary(plan: &Plan, figures: &Figures, peak_memory_mib: f64) -> String {
    let mut summary = json!({
        "strings": figures.strings, "symbols": figures.symbols, "not_derived": figures.skipped,
        "rules": figures.rules, "sweeps": plan.schedule.sweeps, "shards": plan.schedule.shards,
        "seconds_per_sweep": figures.per_sweep(figures.sweep_seconds),
        "sync_seconds_per_sweep": figures.per_sweep(figures.sync_seconds),
        "hyper_seconds_per_sweep": figures.per_sweep(figures.learn_seconds),
        "sync_bytes_per_sweep": figures.per_sweep(figures.sync_bytes as f64), "peak_memory_mib": peak_memory_mib,
    });
    if let Some(evaluated) = figures.last() {
        add_scores(&mut summary, evaluated);
    }
    if let Some(energy) = figures.free_energy {
        summary["free_energy"] = energy.into();
    }
    format!("{summary:#}\n")
}

fn show_score(value: Option<f64>) -> String {
    value.map_or("none".to_string(), |value| format!("{value:.2}"))
}

fn score_table(figures: &Figures) -> Table {
    let mut columns = vec!["sweep", "log posterior", "accepted, %"];
    if figures.adapted > 0 {
        columns.extend(["tables", "customers"]);
    }
    if figures.has_gold {
        columns.extend(["token F", "token P", "token R", "boundary F", "boundary P", "boundary R"]);
        columns.extend(["type F", "type P", "type R", "token F, most seen", "boundary F, most seen"]);
    }
    let mut table = Table::new(columns.into_iter().map(|name| (name, Align::Number)));
    let all = |counts: &Counts| [counts.f(), counts.precision(), counts.recall()].map(show_score);
    for evaluated in &figures.evaluations {
        let mut row = vec![
            evaluated.sweep.to_string(),
            format!("{:.1}", evaluated.log_posterior),
            format!("{:.2}", 100.0 * evaluated.acceptance_rate),
        ];
        if figures.adapted > 0 {
            row.extend([evaluated.tables.to_string(), evaluated.customers.to_string()]);
        }
        if figures.has_gold {
            row.extend(all(&evaluated.scores.tokens));
            row.extend(all(&evaluated.scores.boundaries));
            row.extend(all(&evaluated.types));
            row.extend([evaluated.marginal.tokens.f(), evaluated.marginal.boundaries.f()].map(show_score));
        }
        table.push(row);
    }
    table
}

fn cached_table(model: &AdaptorModel, most: usize) -> Table {
    let columns = [
        ("nonterminal", Align::Text),
        ("string", Align::Text),
        ("customers", Align::Number),
        ("tables", Align::Number),
    ];
    let mut table = Table::new(columns);
    let grammar = &model.kept.grammar;
    for symbol in grammar.adapted() {
        for (string, customers, tables) in show::cached(grammar, model.last(), symbol).into_iter().take(most) {
            table.push(vec![grammar.name(symbol).to_string(), string, customers.to_string(), tables.to_string()]);
        }
    }
    table
}

fn rule_table(model: &AdaptorModel) -> Table {
    let grammar = &model.kept.grammar;
    let columns = [("parent", Align::Text), ("children", Align::Text), ("probability", Align::Number)];
    let mut table = Table::new(columns);
    for symbol in 0..grammar.nonterminals {
        for (children, probability) in show::rules(model, symbol) {
            table.push(vec![grammar.name(symbol).to_string(), children, format!("{probability:.6}")]);
        }
    }
    table
}

fn adaptor_table(model: &AdaptorModel) -> Table {
    let columns = ["strings", "tables", "customers", "a", "b"].map(|name| (name, Align::Number));
    let mut table = Table::new([("nonterminal", Align::Text)].into_iter().chain(columns));
    let (grammar, cache) = (&model.kept.grammar, model.last());
    for symbol in grammar.adapted() {
        let at = symbol as usize;
        let strings = cache.entries.iter().filter(|entry| entry.symbol == symbol && entry.tables > 0).count();
        table.push(vec![
            grammar.name(symbol).to_string(),
            strings.to_string(),
            cache.tables_of[at].to_string(),
            cache.customers[at].to_string(),
            format!("{:.4}", cache.adaptors[at].a),
            format!("{:.3}", cache.adaptors[at].b),
        ]);
    }
    table
}

fn page(title: &str, plan: &Plan, model: &AdaptorModel, figures: &Figures, peak_memory_mib: f64) -> String {
    let what = if figures.adapted > 0 { "An adaptor grammar" } else { "A Bayesian grammar" };
    let file = plan.grammar_file.file_name().unwrap_or_default().to_string_lossy();
    let mut page = Page::new(title, &format!("{what}, {file}, after {} sweeps.", plan.schedule.sweeps));
    page.section("scores", if figures.has_gold { "Segmentation" } else { "Training" }, &scores(figures));
    if figures.adapted > 0 {
        page.section("cached", "Cached strings", &cached(model));
    }
    let topics = topic_words(model);
    if !topics.is_empty() {
        page.section("words", "Words of nonterminals", &topics);
    }
    if !figures.parses.is_empty() {
        let shown =
            if figures.adapted > 0 { "the adapted nonterminals of their last parses" } else { "their last parses" };
        let about = format!("Some of the longer strings of the first shard, with {shown}.");
        let parses: Vec<String> = figures.parses.iter().map(|parse| escape(parse)).collect();
        let list = format!("<pre class=\"scroll\">{}</pre>\n", parses.join("\n"));
        page.section("parses", "Parses", &(paragraph(&about) + &list));
    }
    page.section("rules", "Rules", &rules(model));
    page.section("speed", "Speed", &speed(plan, figures, peak_memory_mib));
    page.to_html()
}

fn scores(figures: &Figures) -> String {
    let mut html = String::new();
    let mut top = vec![];
    if let Some(last) = figures.last() {
        if figures.has_gold {
            let show = |counts: &Counts| counts.f().map_or("none".to_string(), |value| format!("{value:.1}"));
            top.push((show(&last.scores.tokens), "token F".to_string()));
            top.push((show(&last.scores.boundaries), "boundary F".to_string()));
            top.push((show(&last.types), "type F".to_string()));
            if last.marginal.tokens.found > 0.0 {
                top.push((show(&last.marginal.tokens), "token F of what was seen most".to_string()));
            }
        }
        top.push((format!("{:.1} %", 100.0 * last.acceptance_rate), "proposals accepted".to_string()));
        top.push((format!("{:.0}", last.log_posterior), "log posterior".to_string()));
    }
    if let Some(energy) = figures.free_energy {
        top.push((format!("{energy:.1}"), "free energy, nats".to_string()));
    }
    html += &cards(&top);
    html += &paragraph(&format!("Trained on {}.", figures.in_words()));
    let line = |value: &dyn Fn(&Evaluated) -> Option<f64>| -> Vec<(f64, f64)> {
        figures.evaluations.iter().filter_map(|e| Some((e.sweep as f64, value(e)?))).collect()
    };
    let mut charts = over_sweeps("log posterior", 0, line(&|e| Some(e.log_posterior)));
    if figures.has_gold {
        charts += &over_sweeps("token F", 1, line(&|e| e.scores.tokens.f()));
        charts += &over_sweeps("boundary F", 2, line(&|e| e.scores.boundaries.f()));
        charts += &over_sweeps("type F", 3, line(&|e| e.types.f()));
    }
    charts += &over_sweeps("free energy", 0, figures.energies.clone());
    html += &format!("<div class=\"panels wide\">{charts}</div>\n");
    if !figures.evaluations.is_empty() {
        html += &details("Figures by sweep", &score_table(figures).to_html());
    }
    if figures.has_gold {
        html += &paragraph(
            "A token is right where both ends are and nothing is cut inside; boundaries at the ends of strings do not count. \
             \"Most seen\" is, for each string, the segmentation that most samples after the burn-in have.",
        );
    }
    html
}

/// Lists side by side: of each adapted nonterminal its most frequent strings.
fn cached(model: &AdaptorModel) -> String {
    let (grammar, cache) = (&model.kept.grammar, model.last());
    let mut html = paragraph("The most frequent strings of each adapted nonterminal, with how often each is used.");
    let lists: Vec<(String, Vec<(String, f64)>)> = grammar
        .adapted()
        .map(|symbol| {
            let strings = show::cached(grammar, cache, symbol).into_iter().take(15);
            (
                grammar.name(symbol).to_string(),
                strings.map(|(string, customers, _)| (string, f64::from(customers))).collect(),
            )
        })
        .collect();
    html += &side_by_side(&lists, &|value| thousands(value as u64));
    // Of topics, what sets them off are strings of several words.
    let long: Vec<(String, Vec<(String, f64)>)> = grammar
        .adapted()
        .map(|symbol| {
            let strings =
                show::cached(grammar, cache, symbol).into_iter().filter(|(string, _, _)| string.contains(' '));
            let strings = strings.take(15).map(|(string, customers, _)| (string, f64::from(customers)));
            (grammar.name(symbol).to_string(), strings.collect())
        })
        .collect();
    if lists != long && long.iter().any(|(_, strings)| !strings.is_empty()) {
        html += &details("Strings of two or more symbols only", &side_by_side(&long, &|value| thousands(value as u64)));
    }
    html + &details("Discounts a and strengths b", &adaptor_table(model).to_html())
}

/// Lists as small articles with bars.
fn side_by_side(lists: &[(String, Vec<(String, f64)>)], show: &dyn Fn(f64) -> String) -> String {
    let mut html = String::from("<div class=\"topics\">\n");
    for (name, items) in lists.iter().filter(|(_, items)| !items.is_empty()) {
        html += &format!("<article><h3>{}</h3><ol>", escape(name));
        let most = items.iter().map(|(_, value)| *value).fold(f64::MIN_POSITIVE, f64::max);
        for (text, value) in items {
            let width = (100.0 * value / most).round();
            html += &format!(
                "<li><span class=\"bar\" style=\"width:{width}%\"></span><span>{} <small>{}</small></span></li>",
                escape(text),
                show(*value)
            );
        }
        html += "</ol></article>\n";
    }
    html + "</div>\n"
}

/// Of nonterminals that are not adapted and have many words: the most probable ones, as a topic model shows them.
fn topic_words(model: &AdaptorModel) -> String {
    let grammar = &model.kept.grammar;
    let is_shown = |symbol: &Symbol| {
        let rules = &grammar.rules_of[*symbol as usize];
        let is_lexical = |rule: &&u32| {
            let children = &grammar.rules[**rule as usize].children;
            children.len() == 1 && grammar.is_terminal(children[0])
        };
        !grammar.is_adapted(*symbol) && rules.len() > 20 && rules.iter().filter(is_lexical).count() == rules.len()
    };
    let symbols: Vec<Symbol> = (0..grammar.nonterminals).filter(is_shown).take(60).collect();
    if symbols.len() < 2 {
        return String::new();
    }
    let lists: Vec<(String, Vec<(String, f64)>)> = symbols
        .into_iter()
        .map(|symbol| (grammar.name(symbol).to_string(), show::rules(model, symbol).into_iter().take(12).collect()))
        .collect();
    paragraph("The most probable words of each nonterminal.") + &side_by_side(&lists, &|value| format!("{value:.3}"))
}

/// Rules of the nonterminals that have a choice, but for words.
fn rules(model: &AdaptorModel) -> String {
    let grammar = &model.kept.grammar;
    let mut table = Table::new([("parent", Align::Text), ("children", Align::Text), ("probability", Align::Number)]);
    let mut left = 0;
    for symbol in (0..grammar.nonterminals).filter(|&symbol| grammar.rules_of[symbol as usize].len() > 1) {
        let rules = show::rules(model, symbol);
        left += rules.len().saturating_sub(8) as u64;
        for (children, probability) in rules.into_iter().take(8) {
            table.push(vec![grammar.name(symbol).to_string(), children, format!("{probability:.4}")]);
        }
        if table.len() > 200 {
            break;
        }
    }
    let mut html =
        paragraph("The most probable rules of nonterminals that have a choice, as the last sweep leaves them.");
    if left > 0 {
        html += &paragraph("Up to 8 for each nonterminal; rules.tsv has all of them.");
    }
    match table.len() > 24 {
        true => html + &details("Rules", &table.to_html()),
        false => html + &table.to_html(),
    }
}

fn speed(plan: &Plan, figures: &Figures, peak_memory_mib: f64) -> String {
    let mut table = Table::new([("figure", Align::Text), ("value", Align::Number)]);
    let seconds = |value: f64| format!("{:.4}", figures.per_sweep(value));
    let rows = [
        ("seconds per sweep", seconds(figures.sweep_seconds)),
        ("seconds of synchronisation per sweep", seconds(figures.sync_seconds)),
        ("seconds of a and b per sweep", seconds(figures.learn_seconds)),
        ("bytes of synchronisation per sweep", thousands(figures.per_sweep(figures.sync_bytes as f64) as u64)),
        ("most memory of the first process", format!("{peak_memory_mib:.0} MiB")),
        ("shards", plan.schedule.shards.to_string()),
    ];
    rows.into_iter().for_each(|(name, value)| table.push(vec![name.to_string(), value]));
    paragraph("These depend on the machine and its load; nothing else in this report does.") + &table.to_html()
}
