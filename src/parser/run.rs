//! Running a parser job: read the treebank, train, parse what is held out, and write what was learned.

use std::sync::Arc;

use timely::worker::Worker;

use super::distribution::KeptHierarchy;
use super::evaluate::{Settings, evaluate};
use super::gather::gather;
use super::job::{OracleKind, Plan};
use super::lexicon::Lexicon;
use super::model::{Kept, ParserModel};
use super::report::{self, Figures};
use super::sampled::Sampler;
use super::tokens::Tokeniser;
use super::trainer::Trainer;
use super::treebank::{NonProjective, Treebank};
use crate::cluster::operators::route::Route;
use crate::cluster::own::Own;
use crate::cluster::sweep::{Control, End, Round, train};
use crate::corpus::diagnostic::Diagnostic;
use crate::corpus::inputs::Inputs;
use crate::error::{Error, Result, exit};
use crate::job::model_file;
use crate::job::session::{Session, peak_memory_mib};
use crate::job::training::{Training, Watcher};
use crate::progress::Unit;

/// What worker 0 brings back.
struct Trained {
    end: End,
    kept: Kept,
    figures: Figures,
    problems: Vec<Diagnostic>,
}

/// Runs the job and returns the exit code.
pub fn run(plan: &Plan, session: &mut Session) -> Result<u8> {
    let job = plan.clone();
    let training = Training {
        schedule: &plan.schedule,
        fingerprint: plan.fingerprint(),
        layout: "parser 2",
        rest: String::new(),
        unit: Unit::Sweeps,
    };
    let (trained, seconds) = training.run(session, move |worker, watcher| program(worker, &job, watcher))?;
    let (Some(record), Some(mut trained)) = (&mut session.record, trained) else { return Ok(exit::DONE) };
    if trained.end == End::Stopped {
        record.stopped(seconds)?;
        say!("sawmill: stopped with a checkpoint; run the same command again to continue");
        return Ok(exit::RESUME);
    }
    model_file::write(&record.folder, &trained.kept)?;
    let model = ParserModel::new(trained.kept).expect("what was learned holds together");
    let settings = Settings {
        search: plan.model.search,
        particles: plan.model.particles,
        tags: plan.model.tags,
        threads: session.cluster.threads,
    };
    for (name, treebank) in sets(plan, &session.inputs, &mut trained.problems)? {
        let evaluation = evaluate(&model, &treebank, &settings);
        say!("sawmill: {name}: {}", report::in_words(&evaluation));
        trained.figures.evaluations.push((name, evaluation));
    }
    for (name, content) in report::files(&session.title, plan, &model, &trained.figures, peak_memory_mib()) {
        record.folder.write(&format!("report/{name}"), content.as_bytes())?;
    }
    record.done(seconds)?;
    trained.problems.iter().for_each(|problem| say!("{problem}"));
    Ok(if trained.problems.is_empty() { exit::DONE } else { exit::SKIPPED })
}

/// What is wrong with the sentences of a treebank.
pub fn diagnostics(treebank: &Treebank) -> Vec<Diagnostic> {
    let diagnostic = |(path, problem): &(std::path::PathBuf, _)| {
        let path = path.display().to_string();
        Diagnostic { path, problem: Clone::clone(problem) }
    };
    treebank.problems.iter().map(diagnostic).collect()
}

/// The trees to train on; there is one at least.
pub fn read_trees(plan: &Plan) -> Result<Treebank> {
    let (column, is_kept) = (plan.model.tag_column, |number| !plan.is_held_out(number));
    let treebank = Treebank::read_some(&plan.train, plan.encoding, column, plan.non_projective, is_kept);
    let mut treebank = treebank.map_err(Error::Input)?;
    treebank.prepare(&plan.preparation);
    if !plan.model.labelled {
        treebank.drop_labels();
    }
    if plan.model.max_memory > 0 {
        treebank.leave_out_deeper(plan.model.max_memory);
    }
    if treebank.is_empty() {
        let reason = diagnostics(&treebank).first().map_or(String::new(), |problem| format!("\n{problem}"));
        return Err(Error::Input(format!("there is no tree to train on{reason}")));
    }
    Ok(treebank)
}

/// The trees to compare with, by set: files to develop with, files to test on, and what was held out of training. Sets without
/// trees are left out; what is wrong is added to `problems`.
pub fn sets(plan: &Plan, inputs: &Inputs, problems: &mut Vec<Diagnostic>) -> Result<Vec<(&'static str, Treebank)>> {
    let mut sets = vec![];
    for (name, files, is_held_out) in
        [("dev", &plan.dev, false), ("test", &plan.test, false), ("test", &plan.train, true)]
    {
        if is_held_out && plan.hold_out == 0 {
            continue;
        }
        let is_wanted = |number| !is_held_out || plan.is_held_out(number);
        let column = plan.model.tag_column;
        let treebank = Treebank::read_some(files, plan.encoding, column, NonProjective::Keep, is_wanted);
        let mut treebank = treebank.map_err(Error::Input)?;
        inputs.check_unchanged(|path| files.iter().any(|file| file == path))?;
        treebank.prepare(&plan.preparation);
        let new: Vec<_> = diagnostics(&treebank).into_iter().filter(|problem| !problems.contains(problem)).collect();
        problems.extend(new);
        if !treebank.is_empty() {
            sets.push((name, treebank));
        }
    }
    Ok(sets)
}

/// Trains on trees; the first worker has what was learned.
pub fn supervise(
    worker: &mut Worker,
    plan: &Plan,
    treebank: &Treebank,
    lexicon: &Lexicon,
    control: &Control,
    mut tell: impl FnMut(&Round),
) -> Result<(End, Option<Vec<Arc<KeptHierarchy>>>)> {
    let (own, is_leader) = (Own::of(worker), worker.index() == 0);
    let is_mine = |shard: u32| own.has(shard);
    match plan.model.oracle {
        OracleKind::Static => {
            let is_lexicalised = plan.model.lexicalised;
            let tokeniser = Tokeniser { lexicon, system: plan.model.system, contexts: &plan.contexts, is_lexicalised };
            let own: Vec<u32> = own.below(plan.schedule.shards).collect();
            let trainer = Trainer::new(plan, lexicon, tokeniser.tokens(treebank, plan.schedule.shards, &own));
            let mut letters = Route::new(worker, "Letters");
            let (trainer, end) = train(worker, trainer, &plan.schedule, control, |_, round| tell(round))?;
            Ok((end, gather(worker, &mut letters, trainer.hierarchies(lexicon))?))
        }
        OracleKind::Sampled => {
            let sampler = Sampler::model(plan, lexicon, treebank, is_mine);
            let (sampler, end) = train(worker, sampler, &plan.schedule, control, |_, round| tell(round))?;
            Ok((end, is_leader.then(|| sampler.hierarchies(lexicon))))
        }
    }
}

/// What one worker does.
fn program(worker: &mut Worker, plan: &Plan, watcher: &Watcher) -> Result<Option<Trained>> {
    let treebank = read_trees(plan)?;
    watcher.has_read()?;
    let problems = diagnostics(&treebank);
    let lexicon = Lexicon::learn(&treebank, plan.model.min_count).map_err(Error::Input)?;
    let is_single_rooted = treebank.is_single_rooted();
    let mut figures = Figures::new(&treebank, &lexicon, is_single_rooted);
    if worker.index() == 0 {
        say!("sawmill: {}", figures.in_words(plan));
    }
    let tell = |round: &Round| {
        watcher.at(round.sweep);
        if !round.is_past {
            watcher.tell(round, &watcher.metrics(round));
        }
        figures.add(round);
    };
    let (end, hierarchies) = supervise(worker, plan, &treebank, &lexicon, &watcher.control, tell)?;
    let kept = |hierarchies| Kept::new(plan, lexicon, is_single_rooted, hierarchies);
    Ok(hierarchies.map(|hierarchies| Trained { end, kept: kept(hierarchies), figures, problems }))
}
