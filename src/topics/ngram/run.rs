//! Running a topics job whose topics are models of n-grams.

use serde_json::json;
use timely::worker::Worker;

use super::dealt::Dealt;
use super::kept::{Kept, KeptCounts};
use super::model::{NgramModel, Setup};
use crate::cluster::gather::gather;
use crate::cluster::operators::route::Route;
use crate::cluster::own::Own;
use crate::cluster::sweep::{End, Round, train};
use crate::corpus::diagnostic::Diagnostic;
use crate::error::{Error, Result, exit};
use crate::job::folder::RunFolder;
use crate::job::model_file;
use crate::job::session::{Session, peak_memory_mib};
use crate::job::training::{Training, Watcher};
use crate::lm::text::Symbols;
use crate::progress::Unit;
use crate::report::line_chart::{over, over_sweeps};
use crate::report::page::{Page, cards, details, paragraph, thousands};
use crate::report::table::{Align, Table};
use crate::topics::collection::{Catalogue, Share, collect, each_document};
use crate::topics::held_out_file::HeldOut;
use crate::topics::job::{ModelType, Plan};
use crate::topics::rescaling::model::Rescaling;

/// What was found at an evaluation.
#[derive(Clone, Debug)]
struct Evaluated {
    sweep: u64,
    perplexity: Option<f64>,
    /// What the evaluation took, added up over workers.
    seconds: f64,
    nodes: u64,
    /// Memory of the tree and the counts.
    bytes: u64,
}

/// What worker 0 brings back.
struct Trained {
    end: End,
    evaluated: Vec<Evaluated>,
    /// -ln p(w, z, seating) per token by seconds of training; empty of RESCALING.
    descent: Vec<(f64, f64)>,
    rounds: Round,
    tokens: [u64; 3],
    vocabulary: usize,
    /// None of RESCALING.
    model: Option<Kept>,
    catalogue: Catalogue,
}

/// Runs the job and returns the exit code.
pub fn run(plan: &Plan, session: &mut Session) -> Result<u8> {
    let job = plan.clone();
    let rest = format!("{:?}", plan.evaluation);
    let training = Training {
        schedule: &plan.schedule,
        fingerprint: plan.fingerprint(),
        layout: "topic n-grams 3",
        rest,
        unit: Unit::Sweeps,
    };
    let (trained, seconds) = training.run(session, move |worker, watcher| program(worker, &job, watcher))?;
    let (Some(record), Some(trained)) = (&mut session.record, trained) else { return Ok(exit::DONE) };
    if trained.end == End::Stopped {
        record.stopped(seconds)?;
        say!("sawmill: stopped with a checkpoint; run the same command again to continue");
        return Ok(exit::RESUME);
    }
    if let Some(model) = &trained.model {
        model_file::write(&record.folder, model)?;
    }
    write_held_out(plan, &trained.catalogue, &record.folder)?;
    record.folder.write("report/perplexity.tsv", perplexity_table(&trained).to_tsv().as_bytes())?;
    record.folder.write("report/summary.json", summary(plan, &trained).as_bytes())?;
    record.folder.write("report/index.html", page(&session.title, plan, &trained).as_bytes())?;
    record.done(seconds)?;
    for (file, problem) in &trained.catalogue.problems {
        let path = plan.files[*file as usize].display().to_string();
        say!("{}", Diagnostic { path, problem: problem.clone() });
    }
    Ok(if trained.catalogue.problems.is_empty() { exit::DONE } else { exit::SKIPPED })
}

/// Reads the documents once more, and writes those that were held out.
fn write_held_out(plan: &Plan, catalogue: &Catalogue, folder: &RunFolder) -> Result<()> {
    let mut file = HeldOut::create(plan, folder)?;
    let mut numbers: Vec<u32> = catalogue.entries.iter().map(|entry| entry.file).collect();
    numbers.dedup();
    let mut written = Ok(());
    each_document(plan, catalogue, &numbers, |number, document| {
        if written.is_ok() && catalogue.is_test[number] {
            written = file.document(document);
        }
    })
    .map_err(Error::Input)?;
    written.map_err(|e| Error::output(&folder.path().join("report"), e))?;
    file.finish()
}

/// What one worker does.
fn program(worker: &mut Worker, plan: &Plan, watcher: &Watcher) -> Result<Option<Trained>> {
    let collection = collect(worker, plan).map_err(Error::Input)?;
    watcher.has_read()?;
    let (own, is_leader) = (Own::of(worker), worker.index() == 0);
    let symbols = Symbols::new(&collection.vocabulary);
    let is_rescaling = plan.model.model == ModelType::Rescaling;
    let setup = Setup::of(plan);
    let mut route = Route::new(worker, "Model");
    // RESCALING needs the documents as they are, too.
    let of_lda = if is_rescaling { collection.share.clone() } else { Share::default() };
    let dealt = Dealt::new(
        own,
        &mut |messages| route.exchange(worker, messages),
        symbols,
        setup.depth(),
        plan.schedule.shards,
        setup.parts(),
        collection.share,
    );
    let training_tokens: u64 = dealt.by_outcome.iter().sum();
    let (mut evaluated, mut rounds, mut descent) = (vec![], Round::default(), vec![]);
    let mut tell = |round: &Round| {
        watcher.at(round.sweep);
        let found = round.evaluation.first_chunk().map(|&[probability_ln, tokens, seconds, nodes, bytes]| Evaluated {
            sweep: round.sweep,
            perplexity: (tokens > 0.0).then(|| libm::exp(-probability_ln / tokens)),
            seconds,
            nodes: nodes as u64,
            bytes: bytes as u64,
        });
        if !round.is_past {
            let mut line = watcher.metrics(round);
            if !is_rescaling {
                line["log_likelihood"] = (round.statistics[0] / training_tokens as f64).into();
            }
            if let Some(Evaluated { sweep, perplexity: Some(perplexity), .. }) = &found {
                line["perplexity"] = (*perplexity).into();
                say!("sawmill: sweep {sweep}: test perplexity {perplexity:.2}");
            }
            watcher.tell(round, &line);
        }
        evaluated.extend(found);
        add(&mut rounds, round);
        if let Some(sum) = round.statistics.first().filter(|_| !is_rescaling) {
            let seconds = rounds.sweep_seconds + rounds.sync_seconds + rounds.learn_seconds;
            descent.push((seconds, -sum / training_tokens as f64));
        }
    };
    let (schedule, control) = (&plan.schedule, &watcher.control);
    let (model, end) = if is_rescaling {
        let model = Rescaling::new(&plan.model, setup, plan.before_ngrams, symbols, of_lda, dealt);
        (None, train(worker, model, schedule, control, |_, round| tell(round))?.1)
    } else {
        let model = NgramModel::new(setup, symbols, dealt);
        let (model, end) = train(worker, model, schedule, control, |_, round| tell(round))?;
        let counts = KeptCounts::new(&model, is_leader);
        let parts = gather(worker, &mut route, counts)?;
        (parts.map(|parts| (model, KeptCounts::merge(parts))), end)
    };
    let vocabulary = collection.vocabulary.len();
    Ok(is_leader.then(|| Trained {
        end,
        evaluated,
        descent,
        rounds,
        tokens: [training_tokens, collection.test_tokens, collection.test_unknown],
        vocabulary,
        model: model.map(|(model, counts)| Kept::new(collection.vocabulary, plan.tokenisation.clone(), &model, counts)),
        catalogue: collection.catalogue,
    }))
}

fn add(sum: &mut Round, round: &Round) {
    sum.sweeps += round.sweeps;
    sum.tokens += round.tokens;
    sum.sweep_seconds += round.sweep_seconds;
    sum.sync_seconds += round.sync_seconds;
    sum.learn_seconds += round.learn_seconds;
    sum.sync_bytes += round.sync_bytes;
}

fn perplexity_table(trained: &Trained) -> Table {
    let mut table = Table::new(["sweep", "perplexity", "nodes"].map(|name| (name, Align::Number)));
    for Evaluated { sweep, perplexity, nodes, .. } in &trained.evaluated {
        let perplexity = perplexity.map_or(String::new(), |p| format!("{p:.4}"));
        table.push(vec![sweep.to_string(), perplexity, nodes.to_string()]);
    }
    table
}

/// The mean of the samples' perplexities, as the paper does, and their number.
fn mean_perplexity(plan: &Plan, trained: &Trained) -> Option<(f64, usize)> {
    let is_sample = |e: &&Evaluated| e.sweep > plan.evaluation.burn_in;
    let samples: Vec<f64> = trained.evaluated.iter().filter(is_sample).filter_map(|e| e.perplexity).collect();
    (!samples.is_empty()).then(|| (samples.iter().sum::<f64>() / samples.len() as f64, samples.len()))
}

fn page(title: &str, plan: &Plan, trained: &Trained) -> String {
    let mut page = Page::new(
        &format!("Topic n-grams: {title}"),
        &format!("{}: {} models with {} topics.", plan.model.name(), plan.order.name(), plan.model.topics),
    );
    let mean = mean_perplexity(plan, trained);
    let value = |p: Option<f64>| p.map_or("none".to_string(), |p| format!("{p:.2}"));
    let last = trained.evaluated.last();
    let counts = [
        (value(mean.map(|(p, _)| p)), "test perplexity, mean of samples"),
        (value(last.and_then(|e| e.perplexity)), "of the last sample"),
        (thousands(trained.tokens[0]), "tokens to train on"),
        (thousands(last.map_or(0, |e| e.nodes)), "restaurants of all topics"),
    ];
    let counts = counts.map(|(value, name)| (value, name.to_string()));
    let points = trained.evaluated.iter().filter_map(|e| Some((e.sweep as f64, e.perplexity?))).collect();
    let what = format!(
        "Over {} words of the held-out documents and the ends of their sentences, {} of them unknown words, by the \
         left-to-right method; {} samples.",
        thousands(trained.tokens[1]),
        thousands(trained.tokens[2]),
        mean.map_or(0, |(_, samples)| samples)
    );
    let charts = over_sweeps("test perplexity by sweep", 0, points)
        + &over("second", "negative log-likelihood per token by seconds of training", 1, trained.descent.clone());
    let chart = format!("<div class=\"panels wide\">\n{charts}</div>\n");
    let table = details("As a table", &perplexity_table(trained).to_html());
    page.section("quality", "Test perplexity", &(cards(&counts) + &paragraph(&what) + &chart + &table));
    page.to_html()
}

fn summary(plan: &Plan, trained: &Trained) -> String {
    let rounds = &trained.rounds;
    let per_sweep = |value: f64| value / rounds.sweeps.max(1) as f64;
    let mean = mean_perplexity(plan, trained);
    let summary = json!({
        "kind": "topics",
        "model": plan.model.model,
        "order": plan.model.order,
        "tables": plan.tables_every > 0,
        "tables_every": plan.tables_every,
        "topics": plan.model.topics,
        "vocabulary": trained.vocabulary,
        "training_tokens": trained.tokens[0],
        "test_tokens": trained.tokens[1],
        "test_unknown": trained.tokens[2],
        "perplexity": mean.map(|(perplexity, _)| perplexity),
        "perplexity_last": trained.evaluated.last().and_then(|e| e.perplexity),
        "samples": mean.map_or(0, |(_, samples)| samples),
        "nodes": trained.evaluated.last().map(|e| e.nodes),
        "bytes_per_node": trained.evaluated.last().map(|e| e.bytes as f64 / e.nodes.max(1) as f64),
        "prediction_seconds": trained.evaluated.last().map(|e| e.seconds),
        "log_likelihood": trained.descent.last().map(|(_, negative)| -negative),
        "sweeps": plan.schedule.sweeps,
        "tokens_per_second": rounds.tokens as f64 / (rounds.sweep_seconds + rounds.sync_seconds).max(1e-9),
        "sweep_seconds_per_sweep": per_sweep(rounds.sweep_seconds),
        "hyper_seconds_per_sweep": per_sweep(rounds.learn_seconds),
        "sync_seconds_per_sweep": per_sweep(rounds.sync_seconds),
        "sync_bytes_per_sweep": per_sweep(rounds.sync_bytes as f64),
        "peak_memory_mib": peak_memory_mib(),
    });
    let mut text = serde_json::to_string_pretty(&summary).expect("a summary is JSON");
    text.push('\n');
    text
}
