//! Running a topics job: collect the documents, train, and write what was learned.

use timely::worker::Worker;

use super::collection::{Catalogue, collect};
use super::deal::Deal;
use super::documents_report;
use super::job::Plan;
use super::lda::Lda;
use super::model::TopicModel;
use super::report::{self, Evaluated, Figures};
use crate::cluster::checkpoint::Checkpoints;
use crate::cluster::sweep::{End, Round, train};
use crate::corpus::diagnostic::Diagnostic;
use crate::error::{Error, Result, exit};
use crate::job::folder::RunFolder;
use crate::job::model_file;
use crate::job::session::{Session, peak_memory_mib};
use crate::job::training::{Training, Watcher};
use crate::progress::Unit;

/// What worker 0 brings back.
struct Trained {
    end: End,
    deal: Deal,
    model: TopicModel,
    catalogue: Catalogue,
    figures: Figures,
}

/// Runs the job and returns the exit code.
pub fn run(plan: &Plan, session: &mut Session) -> Result<u8> {
    if plan.model.is_ngram() {
        return super::ngram::run::run(plan, session);
    }
    let job = plan.clone();
    let rest = format!("{:?}", plan.evaluation);
    let training = Training {
        schedule: &plan.schedule,
        fingerprint: plan.fingerprint(),
        layout: "topics 2",
        rest,
        unit: Unit::Sweeps,
    };
    let checkpoints = training.checkpoints(session);
    let (trained, seconds) = training.run(session, move |worker, watcher| program(worker, &job, watcher))?;
    let (Some(record), Some(trained)) = (&mut session.record, trained) else { return Ok(exit::DONE) };
    if trained.end == End::Stopped {
        record.stopped(seconds)?;
        say!("sawmill: stopped with a checkpoint; run the same command again to continue");
        return Ok(exit::RESUME);
    }
    let problems = write(plan, &session.title, &record.folder, &checkpoints, &trained)?;
    record.done(seconds)?;
    for problem in &problems {
        say!("{problem}");
    }
    Ok(if problems.is_empty() { exit::DONE } else { exit::SKIPPED })
}

/// What one worker does.
fn program(worker: &mut Worker, plan: &Plan, watcher: &Watcher) -> Result<Option<Trained>> {
    let collection = collect(worker, plan).map_err(Error::Input)?;
    watcher.has_read()?;
    let is_leader = worker.index() == 0;
    let training_tokens: u64 = collection
        .catalogue
        .entries
        .iter()
        .zip(&collection.catalogue.is_test)
        .filter(|(_, is_test)| !**is_test)
        .map(|(entry, _)| entry.tokens)
        .sum();
    if is_leader {
        say!(
            "sawmill: {} documents of {training_tokens} words to train on, {} to test on ({} words, {} unknown); {} words in the vocabulary",
            collection.catalogue.is_test.iter().filter(|test| !**test).count(),
            collection.catalogue.is_test.iter().filter(|test| **test).count(),
            collection.test_tokens,
            collection.test_unknown,
            collection.vocabulary.len(),
        );
    }
    let (words, shards) = (collection.vocabulary.len(), plan.schedule.shards);
    let lda = Lda::new(plan.seed, &plan.model, &plan.evaluation, words, shards, collection.share);
    let mut figures = Figures::new(training_tokens, collection.test_tokens, collection.test_unknown);
    let (mut lda, end) = train(worker, lda, &plan.schedule, &watcher.control, |_, round| {
        watcher.at(round.sweep);
        let evaluated = (!round.evaluation.is_empty()).then(|| Evaluated {
            sweep: round.sweep,
            log_likelihood: (round.snapshot[0] + round.evaluation[2] + round.evaluation[3]) / training_tokens as f64,
            perplexity: (round.evaluation[1] > 0.0).then(|| libm::exp(-round.evaluation[0] / round.evaluation[1])),
        });
        tell(watcher, round, evaluated.as_ref());
        figures.add(round, evaluated);
    })?;
    Ok(is_leader.then(|| Trained {
        end,
        deal: lda.deal().clone(),
        model: TopicModel::new(collection.vocabulary, plan.tokenisation.clone(), &mut lda),
        catalogue: collection.catalogue,
        figures,
    }))
}

/// Writes a round into the metrics, and what is worth a line on stderr there.
fn tell(watcher: &Watcher, round: &Round, evaluated: Option<&Evaluated>) {
    if round.is_past {
        return;
    }
    let mut line = watcher.metrics(round);
    if let Some(evaluated) = evaluated {
        line["log_likelihood"] = evaluated.log_likelihood.into();
        line["perplexity"] = evaluated.perplexity.into();
        let perplexity =
            evaluated.perplexity.map_or("no test words".to_string(), |p| format!("test perplexity {p:.2}"));
        say!("sawmill: sweep {}: {perplexity}, log-likelihood {:.4} per word", round.sweep, evaluated.log_likelihood);
    }
    watcher.tell(round, &line);
}

/// Writes the model and the report; returns what was wrong with the inputs.
fn write(
    plan: &Plan,
    title: &str,
    folder: &RunFolder,
    checkpoints: &Checkpoints,
    trained: &Trained,
) -> Result<Vec<Diagnostic>> {
    let Trained { model, catalogue, deal, figures, .. } = trained;
    model_file::write(folder, model)?;
    let shown = documents_report::write(plan, catalogue, deal, model, checkpoints, folder)?;
    let problems: Vec<Diagnostic> = catalogue
        .problems
        .iter()
        .map(|(file, problem)| Diagnostic {
            path: plan.files[*file as usize].display().to_string(),
            problem: problem.clone(),
        })
        .collect();
    for (name, content) in report::files(title, plan, model, figures, &shown, peak_memory_mib()) {
        folder.write(&format!("report/{name}"), content.as_bytes())?;
    }
    Ok(problems)
}
