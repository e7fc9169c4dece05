//! The report of a study: what its variants came to, in one figure and one table.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::results::{Found, Listed, Listing};
use super::variants::short;
use crate::report::curves::{Curve, Curves, Shape};
use crate::report::dot_plot::DotPlot;
use crate::report::page::{Page, cards, details, paragraph, thousands};
use crate::report::table::{Align, Table};

/// Figures that the page shows where variants have them, with their names for people. All others are in `study.tsv`.
const SHOWN: [(&str, &str); 21] = [
    ("perplexity", "test perplexity"),
    ("directed_accuracy", "directed accuracy"),
    ("directed_accuracy_sd", "its standard deviation"),
    ("undirected_accuracy", "undirected accuracy"),
    ("next_word_accuracy", "head is the next word"),
    ("free_energy", "lowest free energy"),
    ("uas", "UAS"),
    ("las", "LAS"),
    ("uas_nopunct", "UAS without punctuation"),
    ("las_nopunct", "LAS without punctuation"),
    ("tag_accuracy", "tags right, %"),
    ("sentences_per_second", "sentences per second"),
    ("train_tokens_per_second", "words per second of training"),
    ("log_likelihood", "log-likelihood"),
    ("nodes", "nodes"),
    ("contexts", "contexts"),
    ("sweeps", "sweeps"),
    ("seconds", "seconds of training"),
    ("prediction_seconds", "seconds of prediction"),
    ("tokens_per_second", "tokens per second"),
    ("peak_memory_mib", "memory, MiB"),
];

/// All files of the report.
pub fn files(listing: &Listing, found: &[Found]) -> Vec<(&'static str, String)> {
    let (quality, descent) = (quality(listing, found), descent(listing, found));
    let mut files = vec![
        ("study.tsv", every_figure(listing, found).to_tsv()),
        ("summary.json", summary(listing, found)),
        ("index.html", page(listing, found, &quality, &descent)),
    ];
    files.extend((!quality.is_empty()).then_some(("figure.svg", quality)));
    files.extend((!descent.is_empty()).then_some(("log-likelihood.svg", descent)));
    files
}

/// A value as people write it.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

/// The value of a key at a variant's point of the grid.
fn at<'a>(listed: &'a Listed, key: &str) -> Option<&'a Value> {
    listed.point.iter().find(|(own, _)| own == key).map(|(_, value)| value)
}

/// All keys of the grid.
fn keys(listing: &Listing) -> Vec<String> {
    let mut keys: Vec<String> = vec![];
    for (key, _) in listing.variants.iter().flat_map(|listed| &listed.point) {
        if !keys.contains(key) {
            keys.push(key.clone());
        }
    }
    keys.sort();
    keys
}

/// Everything that variants tell of themselves, for programs.
fn every_figure(listing: &Listing, found: &[Found]) -> Table {
    let keys = keys(listing);
    let names: BTreeSet<&String> = found.iter().flat_map(|found| found.figures.keys()).collect();
    let mut columns = vec![("name".to_string(), Align::Text), ("variant".to_string(), Align::Text)];
    columns.extend(keys.iter().map(|key| (key.clone(), Align::Number)));
    columns.extend(names.iter().map(|name| (name.to_string(), Align::Number)));
    let mut table = Table::new(columns);
    for (listed, found) in listing.variants.iter().zip(found) {
        let mut row = vec![listed.name.clone(), listed.variant.clone()];
        row.extend(keys.iter().map(|key| at(listed, key).map_or(String::new(), plain)));
        row.extend(names.iter().map(|name| found.figures.get(*name).map_or(String::new(), Value::to_string)));
        table.push(row);
    }
    table
}

/// What people want to see first, with a link to each variant's own report.
fn shown_figures(listing: &Listing, found: &[Found]) -> String {
    let keys = keys(listing);
    let has = |name: &str| found.iter().any(|found| found.figures.contains_key(name));
    let y = listing.figure.y.as_str();
    let mut shown: Vec<(&str, &str)> = SHOWN.iter().copied().filter(|(name, _)| has(name)).collect();
    if has(y) && !shown.iter().any(|(name, _)| *name == y) {
        shown.insert(0, (y, y));
    }
    let mut columns = vec![("variant", Align::Text)];
    columns.extend(keys.iter().map(|key| (short(key), Align::Number)));
    columns.extend(shown.iter().map(|(_, name)| (*name, Align::Number)));
    let mut table = Table::new(columns);
    let mut links = vec![];
    for (listed, found) in listing.variants.iter().zip(found) {
        let mut row = vec![listed.name.clone()];
        row.extend(keys.iter().map(|key| at(listed, key).map_or(String::new(), plain)));
        row.extend(shown.iter().map(|(name, _)| found.figure(name).map_or(String::new(), figure)));
        table.push(row);
        links.push(found.is_done.then(|| format!("../{}/report/index.html", listed.name)));
    }
    table.to_html_with_links(&links)
}

/// A number, with four digits or more.
fn figure(value: f64) -> String {
    match value.abs() {
        _ if value.fract() == 0.0 && value >= 0.0 => thousands(value as u64),
        size if size >= 10_000.0 && value > 0.0 => thousands(value.round() as u64),
        size if size >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// More lines than these cannot be told apart.
const MOST_LINES: usize = 10;

/// A plot of dots has so many colours.
const MOST_DOTS: usize = 3;

/// The figure of the study: a line for each variant over one key of the grid; a row of dots for each where there is no grid, or
/// where there are too many lines.
fn quality(listing: &Listing, found: &[Found]) -> String {
    let y = listing.figure.y.as_str();
    let name = SHOWN.iter().find(|(name, _)| *name == y).map_or(y, |(_, name)| *name);
    let keys = keys(listing);
    if keys.is_empty() {
        let values = listing.variants.iter().zip(found).filter_map(|(listed, found)| {
            Some((listed.name.clone(), vec![found.figure(y).filter(|value| *value >= 0.0)?]))
        });
        return dots(name, vec![name.to_string()], values.collect());
    }
    let x = match listing.figure.x.as_str() {
        "" => keys.first().cloned().unwrap_or_default(),
        x => x.to_string(),
    };
    let places = Places::new(listing, &x);
    let mut curves: Vec<Curve> = vec![];
    for (listed, found) in listing.variants.iter().zip(found) {
        let Some(value) = found.figure(y).filter(|value| value.is_finite()) else { continue };
        let name = line_name(listed, &x);
        let Some(place) = at(listed, &x).and_then(|value| places.of(value)) else {
            curves.push(Curve { name, shape: Shape::Level(value), is_marked: false });
            continue;
        };
        match curves.iter_mut().find(|curve| curve.name == name) {
            Some(Curve { shape: Shape::Points(points), .. }) => points.push((place, value)),
            _ => curves.push(Curve { name, shape: Shape::Points(vec![(place, value)]), is_marked: true }),
        }
    }
    for curve in &mut curves {
        if let Shape::Points(points) = &mut curve.shape {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
    }
    if curves.len() > MOST_LINES && places.ticks.len() <= MOST_DOTS {
        let row = |curve: Curve| match curve.shape {
            Shape::Points(points) if points.len() == places.ticks.len() && points.iter().all(|p| p.1 >= 0.0) => {
                Some((curve.name, points.into_iter().map(|(_, value)| value).collect()))
            }
            _ => None,
        };
        let names = places.ticks.iter().map(|(_, value)| format!("{} {value}", short(&x))).collect();
        return dots(name, names, curves.into_iter().filter_map(row).collect());
    }
    Curves {
        label: format!("{name} of the study's variants"),
        x_axis: x,
        y_axis: name.to_string(),
        x_ticks: places.ticks,
        curves,
    }
    .to_svg()
}

/// A row of dots for each of several variants.
fn dots(name: &str, dots: Vec<String>, rows: Vec<(String, Vec<f64>)>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    DotPlot { label: format!("{name} of the study's variants"), axis: name.to_string(), dots, rows }.to_svg()
}

/// What a line is called: its variant, and the keys of the grid but for the one that it runs over.
fn line_name(listed: &Listed, x: &str) -> String {
    let mut parts = vec![];
    if !listed.variant.is_empty() {
        parts.push(listed.variant.clone());
    }
    let others = listed.point.iter().filter(|(key, _)| key != x);
    parts.extend(others.map(|(key, value)| format!("{} {}", short(key), plain(value))));
    parts.join(", ")
}

/// Where values of a key lie: numbers where they are, others side by side.
struct Places {
    ticks: Vec<(f64, String)>,
}

impl Places {
    fn new(listing: &Listing, key: &str) -> Places {
        let mut values: Vec<&Value> = vec![];
        for value in listing.variants.iter().filter_map(|listed| at(listed, key)) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        let numbers: Option<Vec<f64>> = values.iter().map(|value| value.as_f64()).collect();
        let places = numbers.unwrap_or_else(|| (0..values.len()).map(|place| place as f64).collect());
        Places { ticks: places.into_iter().zip(values.into_iter().map(plain)).collect() }
    }

    fn of(&self, value: &Value) -> Option<f64> {
        let name = plain(value);
        self.ticks.iter().find(|(_, other)| *other == name).map(|(place, _)| *place)
    }
}

/// Negative log-likelihood by seconds of training (Noji et al. 2013, Figure 4 a to c), where variants tell it.
fn descent(listing: &Listing, found: &[Found]) -> String {
    let curve = |(listed, found): (&Listed, &Found)| {
        let last = found.descent.last()?.0;
        // The first sweeps are far off: they would make a line of all that comes after.
        let points: Vec<(f64, f64)> =
            found.descent.iter().copied().filter(|point| point.0 >= last / 20.0 && point.1.is_finite()).collect();
        (points.len() > 1).then(|| Curve { name: listed.name.clone(), shape: Shape::Points(points), is_marked: false })
    };
    Curves {
        label: "negative log-likelihood by seconds of training".to_string(),
        x_axis: "seconds of training".to_string(),
        y_axis: "negative log-likelihood".to_string(),
        x_ticks: vec![],
        curves: listing.variants.iter().zip(found).filter_map(curve).collect(),
    }
    .to_svg()
}

fn page(listing: &Listing, found: &[Found], quality: &str, descent: &str) -> String {
    let done = found.iter().filter(|found| found.is_done).count();
    let lead = format!("{} variants of one job, side by side.", listing.variants.len());
    let mut page = Page::new(&format!("Study: {}", listing.title), &lead);
    let mut counts = vec![(format!("{done} of {}", found.len()), "variants done".to_string())];
    let y = listing.figure.y.as_str();
    let values = listing.variants.iter().zip(found).filter_map(|(v, found)| Some((found.figure(y)?, &v.name)));
    let is_score = y.contains("accuracy") || y.starts_with("uas") || y.starts_with("las") || y.ends_with("_f");
    let best = match is_score {
        true => values.max_by(|a, b| a.0.total_cmp(&b.0)),
        false => values.min_by(|a, b| a.0.total_cmp(&b.0)),
    };
    if let Some((best, name)) = best {
        let which = if is_score { "highest" } else { "lowest" };
        counts.push((figure(best), format!("{which} {}: {name}", y.replace('_', " "))));
    }
    let mut first = cards(&counts);
    if !quality.is_empty() {
        first += &format!("<div class=\"figure\">\n{quality}</div>\n");
    }
    page.section("figure", "Side by side", &first);
    let table = shown_figures(listing, found);
    let note = "Figures come from each variant's own summary; seconds are those of sweeps, synchronisation and learning of \
                hyperparameters. Seconds, speed and memory depend on the machine and its load; nothing else does.";
    page.section(
        "variants",
        "Variants",
        &(paragraph(note) + &table + &details("What each changes", &changes(listing))),
    );
    if !descent.is_empty() {
        let note = "From a twentieth of each variant's time on.";
        let figure = format!("<div class=\"figure\">\n{descent}</div>\n");
        page.section("log-likelihood", "Negative log-likelihood by time", &(paragraph(note) + &figure));
    }
    page.to_html()
}

fn changes(listing: &Listing) -> String {
    let mut table = Table::new([("variant", Align::Text), ("settings", Align::Text)]);
    for listed in &listing.variants {
        let set: Vec<String> = listed.set.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        table.push(vec![listed.name.clone(), set.join(", ")]);
    }
    table.to_html()
}

fn summary(listing: &Listing, found: &[Found]) -> String {
    let object =
        |pairs: &[(String, Value)]| -> Value { pairs.iter().cloned().collect::<serde_json::Map<_, _>>().into() };
    let variants = listing.variants.iter().zip(found).map(|(listed, found)| {
        json!({
            "name": listed.name, "variant": listed.variant, "point": object(&listed.point), "set": object(&listed.set),
            "done": found.is_done, "figures": found.figures,
        })
    });
    let summary = json!({ "kind": "study", "variants": variants.collect::<Vec<Value>>() });
    let mut text = serde_json::to_string_pretty(&summary).expect("a summary is JSON");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::job::FigureSettings;

    fn listing() -> Listing {
        let listed = |name: &str, variant: &str, point: &[(&str, Value)]| Listed {
            name: name.to_string(),
            variant: variant.to_string(),
            point: point.iter().map(|(key, value)| (key.to_string(), value.clone())).collect(),
            set: vec![],
        };
        Listing {
            title: "t".to_string(),
            figure: FigureSettings::default(),
            variants: vec![
                listed("base", "base", &[]),
                listed("a-50", "a", &[("model.topics", json!(50))]),
                listed("a-10", "a", &[("model.topics", json!(10))]),
            ],
        }
    }

    fn found(perplexity: f64) -> Found {
        let figures = [("perplexity".to_string(), json!(perplexity))].into_iter().collect();
        Found { is_done: true, figures, descent: vec![(0.0, 99.0), (1.0, 9.5), (2.0, 9.0)] }
    }

    #[test]
    fn a_variant_without_the_key_is_a_level_and_the_others_are_lines_in_order() {
        let all = files(&listing(), &[found(240.0), found(210.0), found(220.0)]);
        let file = |name: &str| &all.iter().find(|(own, _)| *own == name).expect("a file").1;
        let figure = file("figure.svg");
        assert_eq!(figure.matches("<polyline").count(), 1, "{figure}");
        assert_eq!(figure.matches("<circle").count(), 2);
        assert!(figure.contains("<title>base: 240.0000</title>"));
        let points = figure.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        let x: Vec<f64> = points.split(' ').map(|point| point.split(',').next().unwrap().parse().unwrap()).collect();
        assert!(x.is_sorted(), "{points}");
        assert_eq!(file("log-likelihood.svg").matches("<polyline").count(), 3);
        assert!(file("index.html").contains("<a href=\"../a-10/report/index.html\">a-10</a>"));
        assert!(file("index.html").contains("lowest perplexity: a-50"));
        assert_eq!(
            file("study.tsv"),
            "name\tvariant\tmodel.topics\tperplexity\nbase\tbase\t\t240.0\na-50\ta\t50\t210.0\na-10\ta\t10\t220.0\n"
        );
    }

    #[test]
    fn too_many_lines_are_rows_of_dots() {
        let mut many = listing();
        let listed = many.variants.remove(1);
        many.variants.clear();
        for variant in 0..=MOST_LINES {
            for topics in [10, 50] {
                let point = [("model.topics".to_string(), json!(topics))].into_iter().collect();
                many.variants.push(Listed { variant: format!("v{variant}"), point, ..listed.clone() });
            }
        }
        let found: Vec<Found> = many.variants.iter().map(|_| found(200.0)).collect();
        let figure = quality(&many, &found);
        assert_eq!(
            (figure.matches("<polyline").count(), figure.matches("<circle").count()),
            (0, 2 * (MOST_LINES + 1) + 2)
        );
    }

    #[test]
    fn what_has_not_ended_leaves_a_gap() {
        let all = files(&listing(), &[found(240.0), Found::default(), Found::default()]);
        assert!(all.iter().any(|(name, text)| *name == "study.tsv" && text.contains("a-50\ta\t50\t\n")));
        let none = files(&listing(), &[Found::default(), Found::default(), Found::default()]);
        assert!(!none.iter().any(|(name, _)| *name == "figure.svg"));
    }
}
