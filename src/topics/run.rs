//! Running a topics job: collect the documents, train, and write what was learned.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::json;
use timely::worker::Worker;

use super::collection::{Catalogue, collect};
use super::documents_report;
use super::job::Plan;
use super::lda::Lda;
use super::model::{KIND, TopicModel};
use super::report::{self, Evaluated, Figures};
use crate::cluster::checkpoint::Checkpoints;
use crate::cluster::engine::build_hash;
use crate::cluster::heartbeat::Heartbeat;
use crate::cluster::stop::{stop_flag, stop_with_stdin};
use crate::cluster::sweep::{Control, End, Round, train};
use crate::corpus::diagnostic::Diagnostic;
use crate::corpus::open;
use crate::error::{Error, Result, exit};
use crate::job::folder::RunFolder;
use crate::job::manifest::InputRecord;
use crate::job::model_file;
use crate::job::session::{Session, peak_memory_mib, record_metrics};
use crate::progress::{Meter, Unit};

/// What worker 0 brings back.
struct Trained {
    end: End,
    model: TopicModel,
    catalogue: Catalogue,
    figures: Figures,
}

/// Runs the job and returns the exit code.
pub fn run(plan: &Plan, session: &mut Session) -> Result<u8> {
    if session.watch {
        return Err(Error::Usage(
            "--watch follows changes of treebanks, in oracle jobs; it is not for topics".to_string(),
        ));
    }
    let stop = stop_flag()?;
    if session.end_with_stdin {
        stop_with_stdin(&stop);
    }
    let cluster = session.cluster.clone();
    let checkpoints = Checkpoints::new(session.out.join("checkpoints"), plan.fingerprint());
    if cluster.is_leader() && !session.resume {
        checkpoints.clear().map_err(|e| Error::output(&session.out, e))?;
    }
    let heartbeat = Heartbeat::start(session.out.clone(), cluster.process, cluster.processes(), session.stall_after);
    let control =
        Control { checkpoints: checkpoints.clone(), resume: session.resume, stop, heartbeat: heartbeat.clone() };
    let folder = session.record.as_ref().map(|record| record.folder.clone());
    let sweep = Arc::new(Mutex::new(0));
    let meter = folder.as_ref().map(|_| {
        let (sweep, all) = (sweep.clone(), plan.schedule.sweeps);
        Meter::start(session.progress, Unit::Sweeps, Arc::new(move || (*sweep.lock().expect("a number"), all)), |_| ())
    });
    let started = Instant::now();
    let (job, telling) = (plan.clone(), folder.clone());
    let results = cluster.run(
        || mesh_fingerprint(plan, session),
        move |worker| program(worker, &job, &control, telling.as_deref(), &sweep),
    );
    drop(meter);
    heartbeat.end();
    let mut trained = None;
    for result in results? {
        trained = result?.or(trained);
    }
    let (Some(record), Some(trained)) = (&mut session.record, trained) else { return Ok(exit::DONE) };
    let seconds = started.elapsed().as_secs_f64();
    if trained.end == End::Stopped {
        record.stopped(seconds)?;
        eprintln!("sawmill: stopped with a checkpoint; go on with --resume");
        return Ok(exit::RESUME);
    }
    let problems = write(plan, &session.title, &record.folder, &checkpoints, &trained)?;
    record.done(seconds, Some(inputs(plan)))?;
    for problem in &problems {
        eprintln!("{problem}");
    }
    Ok(if problems.is_empty() { exit::DONE } else { exit::SKIPPED })
}

/// What one worker does.
fn program(
    worker: &mut Worker,
    plan: &Plan,
    control: &Control,
    folder: Option<&RunFolder>,
    sweep: &Mutex<u64>,
) -> Result<Option<Trained>> {
    let collection = collect(worker, plan).map_err(Error::Input)?;
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
        eprintln!(
            "sawmill: {} documents of {training_tokens} words to train on, {} to test on ({} words, {} unknown); {} words in the vocabulary",
            collection.catalogue.is_test.iter().filter(|test| !**test).count(),
            collection.catalogue.is_test.iter().filter(|test| **test).count(),
            collection.test_tokens,
            collection.test_unknown,
            collection.vocabulary.len(),
        );
    }
    let lda =
        Lda::new(plan.seed, &plan.model, &plan.evaluation, collection.vocabulary.len(), collection.share, is_leader);
    let mut figures = Figures::new(training_tokens, collection.test_tokens, collection.test_unknown);
    let (lda, end) = train(worker, lda, &plan.schedule, control, |lda, round| {
        *sweep.lock().expect("a number") = round.sweep;
        let evaluated = (!round.evaluation.is_empty()).then(|| Evaluated {
            sweep: round.sweep,
            log_likelihood: (lda.words_ln() + round.evaluation[2]) / training_tokens as f64,
            perplexity: (round.evaluation[1] > 0.0).then(|| libm::exp(-round.evaluation[0] / round.evaluation[1])),
        });
        tell(folder, round, evaluated.as_ref());
        figures.add(round, evaluated);
    })?;
    Ok(is_leader.then(|| Trained {
        end,
        model: TopicModel::new(collection.vocabulary, plan.tokenisation.clone(), &lda),
        catalogue: collection.catalogue,
        figures,
    }))
}

/// Writes a round into the metrics, and what is worth a line on stderr there.
fn tell(folder: Option<&RunFolder>, round: &Round, evaluated: Option<&Evaluated>) {
    let mut line = json!({
        "sweep": round.sweep, "seconds": round.seconds, "tokens_per_second": round.tokens as f64 / round.seconds,
        "sweep_seconds": round.sweep_seconds, "sync_seconds": round.sync_seconds, "sync_bytes": round.sync_bytes,
        "checkpointed": round.checkpointed,
    });
    if let Some(evaluated) = evaluated {
        line["log_likelihood"] = evaluated.log_likelihood.into();
        line["perplexity"] = evaluated.perplexity.into();
        let perplexity =
            evaluated.perplexity.map_or("no test words".to_string(), |p| format!("test perplexity {p:.2}"));
        eprintln!(
            "sawmill: sweep {}: {perplexity}, log-likelihood {:.4} per word",
            round.sweep, evaluated.log_likelihood
        );
    }
    if let Some(error) = &round.checkpoint_error {
        eprintln!(
            "sawmill: sweep {}: the checkpoint could not be written ({error}); the one before it stays",
            round.sweep
        );
    }
    if let Some(folder) = folder {
        let _ = record_metrics(folder, &line); // missing metrics are no reason to stop
    }
}

/// Writes the model and the report; returns what was wrong with the inputs.
fn write(
    plan: &Plan,
    title: &str,
    folder: &RunFolder,
    checkpoints: &Checkpoints,
    trained: &Trained,
) -> Result<Vec<Diagnostic>> {
    let Trained { model, catalogue, figures, .. } = trained;
    folder.write("model", &model_file::to_bytes(KIND, model)?)?;
    let shown = documents_report::write(plan, catalogue, model, checkpoints, folder)?;
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

fn inputs(plan: &Plan) -> Vec<InputRecord> {
    let record = |path: &std::path::PathBuf| InputRecord {
        path: path.display().to_string(),
        bytes: std::fs::metadata(path).map_or(0, |metadata| metadata.len()),
        content: open::content_hash(path).ok().map(|hash| format!("{hash:016x}")),
    };
    plan.files.iter().map(record).collect()
}

/// What all processes must agree on: the job, the build, the workers, and where the run folder is.
fn mesh_fingerprint(plan: &Plan, session: &Session) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&plan.fingerprint()).update(&build_hash());
    let rest = (session.cluster.threads, &session.cluster.hosts, session.resume, &plan.schedule, &plan.evaluation);
    hasher.update(format!("{rest:?}").as_bytes());
    *hasher.finalize().as_bytes()
}
