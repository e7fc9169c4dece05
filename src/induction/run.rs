//! Running an induction job: read, estimate, score, and write what was learned.

use std::sync::Arc;

use serde_json::json;
use timely::worker::Worker;

use super::board::Board;
use super::evaluate::Judge;
use super::grammar::Buffers;
use super::job::{Plan, Spread};
use super::model::Kept;
use super::report::{self, Outcome};
use super::setup::Setup;
use super::trainer::{BySentences, Common, Restarts, read_outcome};
use crate::cluster::sweep::{End, Model, Round, train};
use crate::error::{Result, exit};
use crate::job::model_file;
use crate::job::session::{Session, peak_memory_mib};
use crate::job::training::{Training, Watcher};
use crate::progress::Unit;

/// What worker 0 brings back.
struct Trained {
    end: End,
    kept: Option<Kept>,
    outcome: Outcome,
}

/// Runs the job and returns the exit code.
pub fn run(plan: &Plan, session: &mut Session) -> Result<u8> {
    let job = plan.clone();
    let board = Arc::new(Board::new(plan.schedule.shards as usize));
    let training = Training {
        schedule: &plan.schedule,
        fingerprint: plan.fingerprint(),
        layout: "induction 1",
        rest: String::new(),
        unit: Unit::Sweeps,
    };
    let (trained, seconds) = training.run(session, move |worker, watcher| program(worker, &job, &board, watcher))?;
    let (Some(record), Some(trained)) = (&mut session.record, trained) else { return Ok(exit::DONE) };
    let (End::Done, Some(kept)) = (trained.end, trained.kept) else {
        record.stopped(seconds)?;
        say!("sawmill: stopped with a checkpoint; run the same command again to continue");
        return Ok(exit::RESUME);
    };
    model_file::write(&record.folder, &kept)?;
    for (name, content) in report::files(&session.title, plan, &kept, &trained.outcome, peak_memory_mib()) {
        record.folder.write(&format!("report/{name}"), content.as_bytes())?;
    }
    record.done(seconds)?;
    let problems = &trained.outcome.read.problems;
    problems.iter().for_each(|problem| say!("{problem}"));
    Ok(if problems.is_empty() { exit::DONE } else { exit::SKIPPED })
}

/// What one worker does. The board is that of its process.
fn program(worker: &mut Worker, plan: &Plan, board: &Arc<Board>, watcher: &Watcher) -> Result<Option<Trained>> {
    let (setup, read) = Setup::read(plan)?;
    watcher.has_read()?;
    let is_leader = worker.index() == 0;
    let (tags, lexicalised) = (setup.lexicon.tags.len(), setup.lexicon.words.len());
    let is_bound = !plan.model.function_tags.is_empty();
    let counting = plan.estimation.counting();
    let outcome = Outcome { read, counting, tags, lexicalised, is_bound, ..Outcome::default() };
    if is_leader {
        say!("sawmill: {}", outcome.in_words());
    }
    let setup = Arc::new(setup);
    let judge = Judge { test: outcome.read.test.clone(), forest: setup.forest.clone(), buffers: Buffers::default() };
    let common = Common::new(setup.clone(), judge);
    let (end, mut outcome, figures) = match plan.estimation.spread {
        Spread::Sentences => follow(worker, BySentences::new(common, board.clone()), plan, watcher, outcome, 0)?,
        _ => follow(worker, Restarts::new(common), plan, watcher, outcome, 1)?,
    };
    if !is_leader {
        return Ok(None);
    }
    if end == End::Stopped {
        return Ok(Some(Trained { end, kept: None, outcome }));
    }
    let (finished, counts) = read_outcome(&figures, &setup);
    outcome.finished = finished;
    let best = outcome.best(plan).into_iter().min_by(|a, b| a.free_energy.total_cmp(&b.free_energy)).cloned();
    let kept = best.map(|best| {
        let run = (best.group / plan.estimation.groups) as usize;
        Kept::new(plan, setup.lexicon.clone(), counts[run].clone(), best.free_energy)
    });
    Ok(Some(Trained { end, kept, outcome }))
}

/// Trains; returns what was told at the end. The sentences passed over stand at `passes` among the statistics.
fn follow<M: Model>(
    worker: &mut Worker,
    model: M,
    plan: &Plan,
    watcher: &Watcher,
    mut outcome: Outcome,
    passes: usize,
) -> Result<(End, Outcome, Vec<f64>)> {
    let mut figures = vec![];
    let (_, end) = train(worker, model, &plan.schedule, &watcher.control, |_, round: &Round| {
        watcher.at(round.sweep);
        if !round.is_past {
            let passed = round.statistics.get(passes).copied().unwrap_or(0.0);
            let mut line = watcher.metrics(round);
            line["sentences"] = json!(passed);
            watcher.tell(round, &line);
            outcome.add(round, passed);
        }
        if !round.evaluation.is_empty() {
            figures = round.evaluation.clone();
        }
    })?;
    Ok((end, outcome, figures))
}
