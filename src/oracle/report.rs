//! The study as files: tables for programs, figures, and a page for people.

use std::fmt::Write;

use serde_json::json;

use super::claims::{self, Claim, Verdict};
use super::count::{Order, System};
use super::study::{Study, Treebank};
use crate::corpus::diagnostic::Diagnostic;
use crate::report::dot_plot::DotPlot;
use crate::report::line_chart::{Line, LineChart, grid};
use crate::report::page::{Page, cards, details, paragraph, thousands};
use crate::report::svg::escape;
use crate::report::table::{Align, Table};

/// The costs that figures show.
const SHOWN_COSTS: std::ops::RangeInclusive<usize> = 1..=10;

/// A file of the report: its name below `report/`, and its content.
pub type ReportFile = (&'static str, String);

/// All files of the report, which follow from the study alone.
pub fn files(title: &str, study: &Study, problems: &[Diagnostic]) -> Vec<ReportFile> {
    let claims = claims::check(study);
    let panels: Vec<LineChart> = study.treebanks.iter().map(|t| panel(study, t)).collect();
    let lengths = dependency_length_figure(study);
    vec![
        ("memory-cost.tsv", memory_cost(study).to_tsv()),
        ("cumulative.tsv", cumulative(study).to_tsv()),
        ("dependency-length.tsv", dependency_length(study).to_tsv()),
        ("embedding.tsv", embedding(study).to_tsv()),
        ("claims.tsv", claims_table(&claims).to_tsv()),
        ("skipped.tsv", skipped(study).to_tsv()),
        ("problems.tsv", problems_table(problems).to_tsv()),
        ("summary.json", summary(study)),
        ("memory-cost.svg", grid(&panels, 6.min(panels.len().max(1)), &legend(study), FIGURE_LABEL, "memory cost")),
        ("dependency-length.svg", lengths.to_svg()),
        ("index.html", page(title, study, &claims, &panels, &lengths, problems)),
    ]
}

const FIGURE_LABEL: &str = "Cumulative percentage of configurations by memory cost";

fn memory_cost(study: &Study) -> Table {
    let columns = [("treebank", Align::Text), ("system", Align::Text), ("order", Align::Text), ("cost", Align::Number)];
    let mut table = Table::new(columns.into_iter().chain([("configurations", Align::Number)]));
    each_histogram(study, |treebank, system, order| {
        for (cost, &configurations) in treebank.costs(system, order).iter().enumerate().filter(|(_, n)| **n > 0) {
            table.push(row(
                [&treebank.name, system.name(), order.name()],
                [cost.to_string(), configurations.to_string()],
            ));
        }
    });
    table
}

fn cumulative(study: &Study) -> Table {
    let columns = [("treebank", Align::Text), ("system", Align::Text), ("order", Align::Text), ("mean", Align::Number)];
    let within = SHOWN_COSTS.map(|cost| (format!("<={cost}"), Align::Number));
    let mut table = Table::new(columns.into_iter().map(|(name, align)| (name.to_string(), align)).chain(within));
    each_histogram(study, |treebank, system, order| {
        let mean = treebank.mean_cost(system, order).map_or(String::new(), |mean| format!("{mean:.3}"));
        let percents = SHOWN_COSTS.map(|cost| percent(treebank.percent_within(system, order, cost)));
        table.push(row([&treebank.name, system.name(), order.name()], std::iter::once(mean).chain(percents)));
    });
    table
}

fn each_histogram(study: &Study, mut visit: impl FnMut(&Treebank, System, Order)) {
    for treebank in &study.treebanks {
        for &system in &study.systems {
            for &order in study.orders() {
                visit(treebank, system, order);
            }
        }
    }
}

fn row<'a>(names: impl IntoIterator<Item = &'a str>, values: impl IntoIterator<Item = String>) -> Vec<String> {
    names.into_iter().map(str::to_string).chain(values).collect()
}

fn percent(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| format!("{value:.2}"))
}

/// Name, arcs and total length of each order that was measured, the minimal one last.
fn lengths(study: &Study, treebank: &Treebank) -> Vec<(&'static str, u64, u64)> {
    let measured = study.orders().iter().map(|&order| {
        let (arcs, length) = treebank.lengths(order);
        (order.name(), arcs, length)
    });
    let (arcs, least) = treebank.minimal_length();
    measured.chain([("minimal", arcs, least)]).collect()
}

fn mean_length((_, arcs, length): &(&str, u64, u64)) -> f64 {
    *length as f64 / (*arcs).max(1) as f64
}

fn dependency_length(study: &Study) -> Table {
    let numbers = ["arcs", "total_length", "mean_length"].map(|name| (name, Align::Number));
    let mut table = Table::new([("treebank", Align::Text), ("order", Align::Text)].into_iter().chain(numbers));
    for treebank in &study.treebanks {
        for entry in lengths(study, treebank) {
            let values = [entry.1.to_string(), entry.2.to_string(), format!("{:.4}", mean_length(&entry))];
            table.push(row([treebank.name.as_str(), entry.0], values));
        }
    }
    table
}

fn dependency_length_figure(study: &Study) -> DotPlot {
    let names = |treebank: &Treebank| lengths(study, treebank).iter().map(|entry| entry.0.to_string()).collect();
    DotPlot {
        label: "Mean dependency length by treebank".to_string(),
        axis: "mean distance between a word and its head, in words".to_string(),
        dots: study.treebanks.first().map(names).unwrap_or_default(),
        rows: study
            .treebanks
            .iter()
            .map(|t| (t.name.clone(), lengths(study, t).iter().map(mean_length).collect()))
            .collect(),
    }
}

fn embedding(study: &Study) -> Table {
    let columns =
        [("treebank", Align::Text), ("order", Align::Text), ("degree", Align::Number), ("sentences", Align::Number)];
    let mut table = Table::new(columns);
    for treebank in &study.treebanks {
        for &order in study.orders() {
            for (degree, sentences) in treebank.embedding(order).iter().enumerate().filter(|(_, n)| **n > 0) {
                table.push(row([treebank.name.as_str(), order.name()], [degree.to_string(), sentences.to_string()]));
            }
        }
    }
    table
}

fn claims_table(claims: &[Claim]) -> Table {
    let mut table = Table::new(["claim", "verdict", "statement", "rule", "finding"].map(|name| (name, Align::Text)));
    for claim in claims {
        table.push(row([claim.id, claim.verdict.name(), claim.claim, &claim.rule, &claim.finding], []));
    }
    table
}

fn skipped(study: &Study) -> Table {
    let mut table = Table::new([("treebank", Align::Text), ("reason", Align::Text), ("sentences", Align::Number)]);
    for treebank in &study.treebanks {
        for (reason, sentences) in &treebank.skipped {
            table.push(row([treebank.name.as_str(), reason], [sentences.to_string()]));
        }
    }
    table
}

fn problems_table(problems: &[Diagnostic]) -> Table {
    let columns = [("file", Align::Text), ("line", Align::Number), ("sent_id", Align::Text)];
    let mut table = Table::new(columns.into_iter().chain([("rule", Align::Text), ("message", Align::Text)]));
    for Diagnostic { path, problem } in problems {
        let line = problem.line.to_string();
        table.push(row([path.as_str(), &line, &problem.sentence, problem.rule.name(), &problem.message], []));
    }
    table
}

/// The final figures, for programs.
fn summary(study: &Study) -> String {
    let treebank = |t: &Treebank| {
        let mut costs = serde_json::Map::new();
        for &system in &study.systems {
            let orders: serde_json::Map<String, serde_json::Value> = study
                .orders()
                .iter()
                .map(|&order| {
                    let within = |cost| t.percent_within(system, order, cost).map(round);
                    let figures = json!({
                        "configurations": t.costs(system, order).iter().sum::<u64>(),
                        "mean": t.mean_cost(system, order).map(round),
                        "percent_within": SHOWN_COSTS.map(within).collect::<Vec<_>>(),
                    });
                    (order.name().to_string(), figures)
                })
                .collect();
            costs.insert(system.name().to_string(), orders.into());
        }
        let lengths: serde_json::Map<String, serde_json::Value> =
            lengths(study, t).iter().map(|entry| (entry.0.to_string(), round(mean_length(entry)).into())).collect();
        json!({
            "sentences_read": t.sentences_read(),
            "sentences_used": t.sentences_used,
            "tokens_used": t.tokens_used,
            "skipped": t.skipped,
            "file_problems": t.file_problems,
            "memory_cost": costs,
            "mean_dependency_length": lengths,
        })
    };
    let sum = |of: fn(&Treebank) -> u64| study.treebanks.iter().map(of).sum::<u64>();
    let treebanks: serde_json::Map<String, serde_json::Value> =
        study.treebanks.iter().map(|t| (t.name.clone(), treebank(t))).collect();
    let summary = json!({
        "kind": "oracle",
        "sentences_read": sum(Treebank::sentences_read),
        "sentences_used": sum(|t| t.sentences_used),
        "tokens_used": sum(|t| t.tokens_used),
        "treebanks": treebanks,
    });
    let mut text = serde_json::to_string_pretty(&summary).expect("a summary is JSON");
    text.push('\n');
    text
}

/// Four decimals are plenty, and do not look like noise.
fn round(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

/// One language of Figure 4.
fn panel(study: &Study, treebank: &Treebank) -> LineChart {
    let mut lines = Vec::new();
    for &order in study.orders().iter().rev() {
        for &system in &study.systems {
            let within: Vec<(f64, f64)> = SHOWN_COSTS
                .filter_map(|cost| Some((cost as f64, treebank.percent_within(system, order, cost)?)))
                .collect();
            let tip: Vec<String> =
                within.iter().map(|(cost, percent)| format!("\u{2264}{cost}: {percent:.1} %")).collect();
            lines.push(Line {
                name: line_name(system, order),
                colour: system as usize,
                dotted: order == Order::Reordered,
                points: within,
                tip: format!("{}, {}\n{}", treebank.name, line_name(system, order), tip.join("\n")),
            });
        }
    }
    LineChart {
        title: treebank.name.clone(),
        x: (1.0, 10.0),
        y: (0.0, 100.0),
        x_ticks: SHOWN_COSTS.map(|cost| cost as f64).collect(),
        y_ticks: vec![0.0, 25.0, 50.0, 75.0, 100.0],
        mark: Some(claims::SHARE),
        lines,
    }
}

fn line_name(system: System, order: Order) -> String {
    match order {
        Order::Original => system.name().to_string(),
        Order::Reordered => format!("{}, reordered", system.name()),
    }
}

/// Name, colour and whether dotted, for each kind of line.
fn legend(study: &Study) -> Vec<(String, usize, bool)> {
    let orders = study.orders().iter();
    orders
        .flat_map(|&order| study.systems.iter().map(move |&system| (system, order)))
        .map(|(system, order)| (line_name(system, order), system as usize, order == Order::Reordered))
        .collect()
}

fn page(
    title: &str,
    study: &Study,
    claims: &[Claim],
    panels: &[LineChart],
    lengths: &DotPlot,
    problems: &[Diagnostic],
) -> String {
    let sum = |of: fn(&Treebank) -> u64| study.treebanks.iter().map(of).sum::<u64>();
    let mut page = Page::new(
        &format!("Memory cost of parsing: {title}"),
        "How much a parser has to keep in mind, configuration by configuration, when it derives the trees of a treebank \
         by the oracle of its transition system (after Noji & Miyao 2014).",
    );
    let counts = [
        (study.treebanks.len().to_string(), "treebanks"),
        (thousands(sum(|t| t.sentences_used)), "sentences used"),
        (thousands(sum(|t| t.tokens_used)), "words"),
        (thousands(sum(|t| t.sentences_read() - t.sentences_used)), "sentences left out"),
    ];
    let counts = counts.map(|(value, name)| (value, name.to_string()));
    page.section("memory-cost", "Memory cost by treebank", &(cards(&counts) + &figure(study, panels)));
    page.section("claims", "The claims of the paper on this data", &claims_html(claims));
    page.section("reordering", "Original and reordered", &reordering_html(study));
    page.section("length", "Dependency length", &length_html(study, lengths));
    page.section("embedding", "Center-embedding", &embedding_html(study));
    page.section("inputs", "What was read and left out", &inputs_html(study, problems));
    page.to_html()
}

fn figure(study: &Study, panels: &[LineChart]) -> String {
    let mut out = paragraph(&format!(
        "Share of configurations (%, upwards) whose memory cost is at most the number below. {}The faint line is at {} %.",
        if study.has_reordered() {
            "Solid: sentences as they are. Dotted: the same trees with children in random order. "
        } else {
            ""
        },
        claims::SHARE
    ));
    out.push_str("<ul class=\"legend\">\n");
    for (name, colour, dotted) in legend(study) {
        let class = if dotted { " dotted" } else { "" };
        let _ = writeln!(
            out,
            "<li><svg viewBox=\"0 0 32 11\" aria-hidden=\"true\"><path class=\"line s{colour}{class}\" d=\"M2 5.5h28\"/></svg>{}</li>",
            escape(&name)
        );
    }
    out.push_str("</ul>\n<div class=\"panels\">\n");
    panels.iter().for_each(|panel| out.push_str(&panel.to_svg()));
    out.push_str("</div>\n");
    out + &details("All percentages as a table", &cumulative(study).to_html())
}

fn claims_html(claims: &[Claim]) -> String {
    let mut out = String::from("<ul class=\"claims\">\n");
    for claim in claims {
        let class = claim.verdict.name().replace(' ', "-");
        let _ = write!(
            out,
            "<li><p><span class=\"verdict {class}\">{}</span> <strong>{}</strong></p>\n<p>{}</p>\n<p class=\"rule\">{}</p></li>\n",
            claim.verdict.name(),
            escape(claim.claim),
            escape(&claim.finding),
            escape(&claim.rule)
        );
    }
    out.push_str("</ul>\n");
    if claims.iter().any(|claim| claim.verdict == Verdict::NotTested) {
        out.push_str("<p class=\"small\">Not tested: this study has none of the languages that the claim names.</p>\n");
    }
    out
}

fn reordering_html(study: &Study) -> String {
    if !study.has_reordered() {
        return paragraph("No reorderings were asked for (oracle.reorder = 0).");
    }
    let systems = study.systems.iter();
    let columns =
        systems.flat_map(|system| [system.name(), "reordered", "change"].map(|name| (name.to_string(), Align::Number)));
    let mut table = Table::new([("treebank".to_string(), Align::Text)].into_iter().chain(columns));
    for treebank in &study.treebanks {
        let mut cells = vec![treebank.name.clone()];
        for &system in &study.systems {
            let [original, reordered] = Order::ALL.map(|order| treebank.mean_cost(system, order));
            let show = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.2}"));
            let change = original.zip(reordered).map(|(before, after)| format!("{:+.2}", after - before));
            cells.extend([show(original), show(reordered), change.unwrap_or_default()]);
        }
        table.push(cells);
    }
    paragraph("Mean memory cost of a configuration.") + &table.to_html()
}

fn length_html(study: &Study, figure: &DotPlot) -> String {
    paragraph(
        "Mean distance between a word and its head, as it is and as short as a projective order can make it. Arcs from \
         the dummy root are not counted.",
    ) + &format!("<div class=\"figure\">\n{}</div>\n", figure.to_svg())
        + &details("As a table", &dependency_length(study).to_html())
}

fn embedding_html(study: &Study) -> String {
    let degrees = 0..=3usize;
    let columns = degrees.clone().map(|degree| match degree {
        3 => "3 or more".to_string(),
        _ => format!("degree {degree}"),
    });
    let names = ["treebank", "order"].map(|name| (name.to_string(), Align::Text));
    let mut table = Table::new(names.into_iter().chain(columns.map(|name| (name, Align::Number))));
    for treebank in &study.treebanks {
        for &order in study.orders() {
            let sentences = treebank.embedding(order);
            let total = sentences.iter().sum::<u64>().max(1) as f64;
            let share = |degree: usize| {
                let at = if degree == 3 {
                    &sentences[sentences.len().min(3)..]
                } else {
                    sentences.get(degree..=degree).unwrap_or(&[])
                };
                format!("{:.1}", 100.0 * at.iter().sum::<u64>() as f64 / total)
            };
            table.push(row([treebank.name.as_str(), order.name()], degrees.clone().map(share)));
        }
    }
    paragraph(
        "Share of sentences (%) by the largest number of constituents of several words that stand, one inside the other, \
         in the middle of others: what a left-corner parser needs its stack for.",
    ) + &table.to_html()
}

fn inputs_html(study: &Study, problems: &[Diagnostic]) -> String {
    let mut reasons: Vec<&String> = study.treebanks.iter().flat_map(|t| t.skipped.keys()).collect();
    reasons.sort();
    reasons.dedup();
    let numbers = ["sentences read", "used", "words"].map(str::to_string);
    let columns = numbers.into_iter().chain(reasons.iter().map(|reason| reason.replace('_', " ")));
    let mut table = Table::new(
        [("treebank".to_string(), Align::Text)].into_iter().chain(columns.map(|name| (name, Align::Number))),
    );
    for t in &study.treebanks {
        let numbers = [t.sentences_read(), t.sentences_used, t.tokens_used].map(thousands);
        let skipped = reasons.iter().map(|reason| t.skipped.get(*reason).map_or(String::new(), |n| thousands(*n)));
        table.push(row([t.name.as_str()], numbers.into_iter().chain(skipped)));
    }
    let mut out = table.to_html();
    let files: u64 = study.treebanks.iter().flat_map(|t| t.file_problems.values()).sum();
    if files > 0 {
        out += &paragraph(&format!("{files} files could not be read, or not to their end."));
    }
    if !problems.is_empty() {
        out += &paragraph("What broke a rule of the format, the first of each file and rule:");
        out += &problems_table(problems).to_html();
    }
    out
}

/// A page that shows several runs side by side: the treebanks and orders that any of them has, by system.
pub fn compare(runs: &[(String, super::run::Outcome)]) -> String {
    let mut names: Vec<&str> = runs.iter().flat_map(|(_, run)| &run.study.treebanks).map(|t| t.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let mut page = Page::new("Runs side by side", "Mean memory cost of a configuration, and the share within cost 3.");
    for system in
        System::ALL.into_iter().filter(|system| runs.iter().any(|(_, run)| run.study.systems.contains(system)))
    {
        for order in
            Order::ALL.into_iter().filter(|order| runs.iter().any(|(_, run)| run.study.orders().contains(order)))
        {
            let heading = line_name(system, order);
            page.section(&heading.replace(", ", "-"), &heading, &compare_one(runs, &names, system, order).to_html());
        }
    }
    page.to_html()
}

fn compare_one(runs: &[(String, super::run::Outcome)], names: &[&str], system: System, order: Order) -> Table {
    let columns = runs.iter().flat_map(|(run, _)| {
        [format!("{run}: mean"), format!("% \u{2264} {}", claims::COST)].map(|name| (name, Align::Number))
    });
    let mut table = Table::new([("treebank".to_string(), Align::Text)].into_iter().chain(columns));
    for name in names {
        let mut cells = vec![name.to_string()];
        for (_, run) in runs {
            let treebank = run.study.treebanks.iter().find(|t| t.name == *name);
            let mean = treebank.and_then(|t| t.mean_cost(system, order));
            let within = treebank.and_then(|t| t.percent_within(system, order, claims::COST));
            cells.extend([mean.map_or(String::new(), |mean| format!("{mean:.3}")), percent(within)]);
        }
        table.push(cells);
    }
    table
}
