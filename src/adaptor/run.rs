//! Running an adaptor job: read grammar and strings, train, and write what was learned.

use timely::worker::Worker;

use super::corpus::Corpus;
use super::job::{Method, Plan};
use super::ledger::Ledger;
use super::model::{AdaptorModel, Kept};
use super::report::{self, Figures};
use super::trainer::Trainer;
use super::tree::bracketed;
use super::variational::Variational;
use crate::cluster::sweep::{End, train};
use crate::corpus::diagnostic::Diagnostic;
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
        layout: "adaptor 1",
        rest: String::new(),
        unit: Unit::Sweeps,
    };
    let (trained, seconds) = training.run(session, move |worker, watcher| program(worker, &job, watcher))?;
    let (Some(record), Some(trained)) = (&mut session.record, trained) else { return Ok(exit::DONE) };
    if trained.end == End::Stopped {
        record.stopped(seconds)?;
        say!("sawmill: stopped with a checkpoint; run the same command again to continue");
        return Ok(exit::RESUME);
    }
    model_file::write(&record.folder, &trained.kept)?;
    let model = AdaptorModel::new(trained.kept);
    for (name, content) in report::files(&session.title, plan, &model, &trained.figures, peak_memory_mib()) {
        record.folder.write(&format!("report/{name}"), content.as_bytes())?;
    }
    record.done(seconds)?;
    trained.problems.iter().for_each(|problem| say!("{problem}"));
    Ok(if trained.problems.is_empty() { exit::DONE } else { exit::SKIPPED })
}

/// What one worker does.
fn program(worker: &mut Worker, plan: &Plan, watcher: &Watcher) -> Result<Option<Trained>> {
    let is_leader = worker.index() == 0;
    let corpus = Corpus::read(plan)?;
    watcher.has_read()?;
    let problems = corpus.problems.clone();
    let mut figures = Figures::new(&corpus);
    if is_leader {
        say!("sawmill: {}", figures.in_words());
        if let Some(unseen) = corpus.unseen() {
            say!("sawmill: {}: {unseen}", plan.grammar_file.display());
        }
    }
    if plan.sampler.method == Method::Variational {
        return variational(worker, plan, watcher, corpus, figures);
    }
    let trainer = Trainer::new(plan, corpus);
    let (trainer, end) = train(worker, trainer, &plan.schedule, &watcher.control, |_, round| {
        watcher.at(round.sweep);
        let evaluated = figures.add(round);
        if !round.is_past {
            let mut line = watcher.metrics(round);
            if let Some(evaluated) = evaluated {
                report::add_scores(&mut line, &evaluated);
            }
            watcher.tell(round, &line);
        }
    })?;
    if !is_leader {
        return Ok(None);
    }
    let (grammar, base) = (&trainer.corpus().grammar, trainer.base());
    let parses = trainer.first_parses().filter(|parse| !parse.is_empty());
    figures.parses = report::spread(parses.map(|parse| bracketed(grammar, base, parse, false)));
    let (corpus, samples) = trainer.into_samples();
    let kept = kept(plan, corpus, samples, vec![]);
    Ok(Some(Trained { end, kept, figures, problems }))
}

/// The same by variational Bayes.
fn variational(
    worker: &mut Worker,
    plan: &Plan,
    watcher: &Watcher,
    corpus: Corpus,
    mut figures: Figures,
) -> Result<Option<Trained>> {
    if let Some(symbol) = corpus.grammar.adapted().next() {
        let name = corpus.grammar.name(symbol);
        let remedy = "leave its a and b out, or set sampler.method = \"sampling\"";
        let file = plan.grammar_file.display();
        return Err(Error::Usage(format!(
            "{file}: variational Bayes is for plain grammars, and {name} is adapted: {remedy}"
        )));
    }
    let problems = corpus.problems.clone();
    let (model, end) =
        train(worker, Variational::new(plan, corpus), &plan.schedule, &watcher.control, |model, round| {
            watcher.at(round.sweep);
            figures.add(round);
            if !round.is_past {
                let mut line = watcher.metrics(round);
                line["free_energy"] = model.free_energy().into();
                watcher.tell(round, &line);
            }
        })?;
    figures.free_energy = Some(model.free_energy());
    let (corpus, expected) = model.into_expected();
    let samples = vec![Ledger::new(&corpus.grammar)];
    let kept = kept(plan, corpus, samples, expected);
    Ok((worker.index() == 0).then_some(Trained { end, kept, figures, problems }))
}

fn kept(plan: &Plan, corpus: Corpus, samples: Vec<Ledger>, expected: Vec<f64>) -> Kept {
    Kept { grammar: corpus.grammar, reading: plan.reading.clone(), word: corpus.word, samples, expected }
}
