//! The report of an induction job: accuracy over runs, free energy against accuracy, what the best grammar has learned, speed.

use serde_json::json;

use super::job::Plan;
use super::model::Kept;
use super::queue::Finished;
use super::setup::Read;
use super::show;
use crate::cluster::sweep::Round;
use crate::report::page::{Page, cards, paragraph, thousands};
use crate::report::scatter::Scatter;
use crate::report::table::{Align, Table};

/// Figures of the whole job.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub read: Read,
    /// What a sentence counts for, where that is not once, in words.
    pub counting: String,
    pub tags: usize,
    /// Words that are conditioned on, with their tags.
    pub lexicalised: usize,
    /// Whether function words are to have no dependents.
    pub is_bound: bool,
    /// The winners of all groups, by group.
    pub finished: Vec<Finished>,
    pub passes: f64,
    pub sweep_seconds: f64,
    /// All of it: passes, adding up, checkpoints.
    pub seconds: f64,
}

impl Outcome {
    /// Adds a round, in which so many sentences were passed over, each once for each grammar.
    pub fn add(&mut self, round: &Round, passes: f64) {
        self.passes += passes;
        self.sweep_seconds += round.sweep_seconds;
        self.seconds += round.seconds;
    }

    /// What is trained on.
    pub fn in_words(&self) -> String {
        let read = &self.read;
        let words = match self.lexicalised {
            0 => String::new(),
            n => format!(", {n} words with their tags"),
        };
        format!(
            "{} sentences of {} words ({} distinct) to train on{} ({} longer ones and {} with problems left out), {} tags{words}{}",
            read.sentences,
            read.words,
            read.distinct,
            self.counting,
            read.too_long,
            read.skipped,
            self.tags,
            self.function_words()
        )
    }

    /// What function words there are, where some are to have no dependents.
    fn function_words(&self) -> String {
        let Read { function_words, function_sentences, .. } = self.read;
        match (self.is_bound, function_words, function_sentences) {
            (false, ..) => String::new(),
            (true, 0, _) => ", no function words: none has a tag of model.function_tags".to_string(),
            (true, words, 0) => format!(", {words} function words without dependents"),
            (true, words, n) => {
                format!(", {words} function words without dependents but in the {n} sentences that have no other words")
            }
        }
    }

    /// Of every run, the winner with the lowest free energy.
    pub fn best(&self, plan: &Plan) -> Vec<&Finished> {
        let of_run = |run: u32| {
            let own = self.finished.iter().filter(move |winner| winner.group / plan.estimation.groups == run);
            own.min_by(|a, b| a.free_energy.total_cmp(&b.free_energy).then(a.group.cmp(&b.group)))
        };
        (0..plan.estimation.runs).filter_map(of_run).collect()
    }

    fn sentences_per_second(&self) -> f64 {
        self.passes / self.seconds.max(1e-9)
    }
}

/// Mean and standard deviation; the latter is 0 for one value.
fn moments(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (mean, (squares / (values.len().max(2) - 1) as f64).sqrt())
}

/// A figure of every run's best.
fn over_runs(outcome: &Outcome, plan: &Plan, figure: impl Fn(&Finished) -> f64) -> (f64, f64) {
    moments(&outcome.best(plan).into_iter().map(figure).collect::<Vec<f64>>())
}

/// All files of the report.
pub fn files(title: &str, plan: &Plan, kept: &Kept, outcome: &Outcome, memory: f64) -> Vec<(&'static str, String)> {
    let scatter = scatter(plan, outcome);
    let mut files = vec![
        ("summary.json", summary(plan, outcome, memory)),
        ("runs.tsv", runs(plan, outcome).to_tsv()),
        ("winners.tsv", winners(plan, outcome).to_tsv()),
        ("dependents.tsv", dependents(kept, usize::MAX).to_tsv()),
        ("index.html", page(title, plan, kept, outcome, &scatter, memory)),
    ];
    files.extend((!scatter.is_empty()).then_some(("free-energy.svg", scatter)));
    files
}

fn summary(plan: &Plan, outcome: &Outcome, memory: f64) -> String {
    let best = outcome.best(plan);
    let lowest = best.iter().map(|winner| winner.free_energy).fold(f64::INFINITY, f64::min);
    let mut summary = json!({
        "model": plan.model.name(), "runs": best.len(), "free_energy": lowest,
        "free_energy_mean": over_runs(outcome, plan, |winner| winner.free_energy).0,
        "iterations": over_runs(outcome, plan, |winner| f64::from(winner.iterations)).0,
        "sentences_per_second": outcome.sentences_per_second(), "training_sentences": outcome.read.sentences,
        "training_words": outcome.read.words, "tags": outcome.tags, "lexicalised_words": outcome.lexicalised,
        "weight": plan.estimation.weight, "skipped": outcome.read.skipped, "function_words": outcome.read.function_words,
        "function_sentences": outcome.read.function_sentences, "seconds_of_passes": outcome.sweep_seconds, "peak_memory_mib": memory,
    });
    if outcome.read.test.words() > 0 {
        let (directed, directed_sd) = over_runs(outcome, plan, |winner| winner.figures.directed_accuracy());
        let (undirected, undirected_sd) = over_runs(outcome, plan, |winner| winner.figures.undirected_accuracy());
        let (risk, risk_sd) = over_runs(outcome, plan, |winner| winner.figures.minimum_risk_accuracy());
        let chosen = best.iter().min_by(|a, b| a.free_energy.total_cmp(&b.free_energy));
        let [next, previous] = baselines(outcome);
        let accuracy = json!({
            "directed_accuracy": directed, "directed_accuracy_sd": directed_sd, "undirected_accuracy": undirected,
            "undirected_accuracy_sd": undirected_sd, "minimum_risk_accuracy": risk, "minimum_risk_accuracy_sd": risk_sd,
            "directed_accuracy_of_lowest": chosen.map(|winner| winner.figures.directed_accuracy()),
            "next_word_accuracy": next, "previous_word_accuracy": previous, "test_words": outcome.read.test.words(),
            "test_sentences": outcome.read.test.heads.len(), "unseen_test_words": outcome.read.test.unseen,
        });
        for (key, value) in accuracy.as_object().expect("an object") {
            summary[key] = value.clone();
        }
    }
    format!("{summary:#}\n")
}

/// Directed accuracy of heads that are the next word, and the previous one; the last word, or first, is the root.
fn baselines(outcome: &Outcome) -> [f64; 2] {
    let percent = |[words, directed, _]: [u64; 3]| 100.0 * directed as f64 / words.max(1) as f64;
    let test = &outcome.read.test;
    let next = test.count(|words| (1..=words.len() as u32).map(|at| (at + 1) % (words.len() as u32 + 1)).collect());
    [percent(next), percent(test.count(|words| (0..words.len() as u32).collect()))]
}

fn row_of(winner: &Finished, plan: &Plan) -> Vec<String> {
    let (run, group) = (winner.group / plan.estimation.groups, winner.group % plan.estimation.groups);
    let figures = &winner.figures;
    let mut row = vec![(run + 1).to_string(), (group + 1).to_string(), (winner.restart + 1).to_string()];
    let heldout = if winner.heldout == 0.0 { "none".to_string() } else { format!("{:.3}", winner.heldout) };
    row.extend([winner.iterations.to_string(), format!("{:.3}", winner.free_energy), heldout]);
    let accuracies = [figures.directed_accuracy(), figures.undirected_accuracy(), figures.minimum_risk_accuracy()];
    row.extend(accuracies.map(|value| format!("{value:.2}")));
    row
}

const COLUMNS: [&str; 9] = [
    "run",
    "group",
    "restart",
    "iterations",
    "free energy",
    "held-out ln p",
    "directed accuracy",
    "undirected accuracy",
    "directed, minimum risk",
];

fn runs(plan: &Plan, outcome: &Outcome) -> Table {
    let mut table = Table::new(COLUMNS.map(|name| (name, Align::Number)));
    outcome.best(plan).into_iter().for_each(|winner| table.push(row_of(winner, plan)));
    table
}

fn winners(plan: &Plan, outcome: &Outcome) -> Table {
    let mut table = Table::new(COLUMNS.map(|name| (name, Align::Number)));
    outcome.finished.iter().for_each(|winner| table.push(row_of(winner, plan)));
    table
}

fn dependents(kept: &Kept, count: usize) -> Table {
    let columns = ["side", "dependent", "tag", "probability"];
    let aligns = [Align::Text, Align::Text, Align::Text, Align::Number];
    let mut table = Table::new(columns.into_iter().zip(aligns));
    let mut add = |side: &str, which: &str, tags: &[(String, f64)]| {
        for (tag, p) in tags.iter().take(count) {
            table.push(vec![side.to_string(), which.to_string(), tag.clone(), format!("{p:.4}")]);
        }
    };
    add("root", "", &show::roots(kept));
    for likely in show::dependents(kept) {
        add(likely.side, likely.valence.map_or("any", |v| ["nearest", "others"][v]), &likely.tags);
    }
    table
}

/// Most likely dependents, a column for each place, as in Table 2 of the paper.
fn likely(kept: &Kept, count: usize) -> Table {
    let mut places = vec![("root".to_string(), show::roots(kept))];
    for likely in show::dependents(kept) {
        let valence = likely.valence.map_or(String::new(), |v| [", nearest", ", others"][v].to_string());
        places.push((format!("{}{valence}", likely.side), likely.tags));
    }
    let columns = places.iter().flat_map(|(name, _)| [(name.clone(), Align::Text), ("p".to_string(), Align::Number)]);
    let mut table = Table::new(columns);
    for rank in 0..count.min(kept.lexicon.tags.len()) {
        let cells = places.iter().flat_map(|(_, tags)| [tags[rank].0.clone(), format!("{:.3}", tags[rank].1)]);
        table.push(cells.collect());
    }
    table
}

fn scatter(plan: &Plan, outcome: &Outcome) -> String {
    if outcome.read.test.words() == 0 {
        return String::new();
    }
    let words = plan.estimation.weight * outcome.read.words as f64;
    let point = |winner: &Finished| {
        let (run, group) = (winner.group / plan.estimation.groups, winner.group % plan.estimation.groups);
        let name = format!("run {}, group {}", run + 1, group + 1);
        (name, [winner.free_energy / words, winner.figures.directed_accuracy()], run as usize)
    };
    Scatter {
        label: "Free energy against directed accuracy".to_string(),
        x_axis: "free energy per word".to_string(),
        y_axis: "directed accuracy, %".to_string(),
        points: outcome.finished.iter().filter(|winner| winner.free_energy.is_finite()).map(point).collect(),
    }
    .to_svg()
}

fn page(title: &str, plan: &Plan, kept: &Kept, outcome: &Outcome, scatter: &str, memory: f64) -> String {
    let estimation = &plan.estimation;
    let lead = format!(
        "{}, {} runs of {} groups of {} restarts.",
        plan.model.name(),
        estimation.runs,
        estimation.groups,
        estimation.restarts
    );
    let mut page = Page::new(title, &lead);
    let mut top = vec![];
    if outcome.read.test.words() > 0 {
        let show = |(mean, sd): (f64, f64)| {
            if estimation.runs > 1 { format!("{mean:.1} ± {sd:.1}") } else { format!("{mean:.1}") }
        };
        let of = |figure: fn(&Finished) -> f64| show(over_runs(outcome, plan, figure));
        top.push((of(|winner| winner.figures.directed_accuracy()), "directed accuracy, %".to_string()));
        top.push((of(|winner| winner.figures.undirected_accuracy()), "undirected accuracy, %".to_string()));
        top.push((of(|winner| winner.figures.minimum_risk_accuracy()), "directed, minimum risk, %".to_string()));
        let [next, previous] = baselines(outcome);
        top.push((format!("{next:.1}"), "head is the next word, %".to_string()));
        top.push((format!("{previous:.1}"), "head is the previous word, %".to_string()));
    }
    let about = "Each run's grammar with the lowest free energy. Accuracy is of the most probable trees, arcs from the root \
                 included; cards show the mean over runs and its standard deviation.";
    let counted = format!("There were {}.", outcome.in_words());
    let unseen = match (outcome.read.test.unseen, outcome.read.heldout_unseen) {
        (0, 0) => String::new(),
        (test, heldout) => paragraph(&format!(
            "{test} test words and {heldout} held-out sentences have tags that training has not; the latter are left out."
        )),
    };
    let scores = cards(&top) + &paragraph(about) + &runs(plan, outcome).to_html() + &paragraph(&counted) + &unseen;
    page.section("runs", "Runs", &scores);
    if !scatter.is_empty() {
        let about = "The winners of all groups; colours are runs. Free energy is what estimation lowers: where accuracy does \
                     not rise as it falls, the model and the treebank disagree.";
        page.section(
            "free-energy",
            "Free energy and accuracy",
            &format!("{}<div class=\"figure\">{scatter}</div>\n", paragraph(about)),
        );
    }
    let about = "Most likely words below the root, and dependents by side and valence (nearest to the head, or others), in the \
                 grammar with the lowest free energy.";
    page.section("dependents", "Most likely dependents", &(paragraph(about) + &likely(kept, 15).to_html()));
    page.section("speed", "Speed", &speed(plan, outcome, memory));
    page.to_html()
}

fn speed(plan: &Plan, outcome: &Outcome, memory: f64) -> String {
    let mut table = Table::new([("figure", Align::Text), ("value", Align::Number)]);
    let rows = [
        ("sentences passed over, once for each grammar", thousands(outcome.passes as u64)),
        ("sentences per second, all workers", thousands(outcome.sentences_per_second() as u64)),
        ("seconds of passes", format!("{:.2}", outcome.sweep_seconds)),
        ("seconds of estimation", format!("{:.2}", outcome.seconds)),
        ("most memory of the first process", format!("{memory:.0} MiB")),
        ("shards", plan.schedule.shards.to_string()),
    ];
    rows.into_iter().for_each(|(name, value)| table.push(vec![name.to_string(), value]));
    paragraph("These depend on the machine and its load; nothing else in this report does.") + &table.to_html()
}
