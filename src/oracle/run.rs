//! Running an oracle job: once, or kept alive.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::count::{Counter, Key};
use super::job::Plan;
use super::report;
use super::study::{Study, Treebank};
use super::watch::Remembered;
use crate::cluster::agreement::Fact;
use crate::cluster::engine::Cluster;
use crate::cluster::scan::{Found, Progress, scan};
use crate::cluster::stop::stop_flag;
use crate::cluster::watch::watch;
use crate::corpus::diagnostic::{Diagnostic, Problem};
use crate::corpus::inputs::Inputs;
use crate::corpus::piece::{Input, Origin};
use crate::error::{Error, Result, exit};
use crate::job::folder::RunFolder;
use crate::job::session::{Session, peak_memory_mib, record_metrics};
use crate::progress::{Meter, Unit};

/// What a run leaves so that its report can be made again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    pub title: String,
    pub study: Study,
    problems: Vec<(String, Problem)>,
    /// Content hashes of the inputs; none where the job was kept alive.
    contents: Vec<u64>,
}

/// Its file in the run folder.
pub const OUTCOME: &str = "study.json";

impl Outcome {
    fn new(title: &str, plan: &Plan, found: &Found<Key>) -> Outcome {
        let study = Study::new(&plan.treebanks, &plan.settings.systems, &found.counts);
        let problems = found.problems.iter().map(|d| (d.path.clone(), d.problem.clone())).collect();
        Outcome { title: title.to_string(), study, problems, contents: found.contents.clone() }
    }

    /// What is wrong with the inputs, as far as it was kept.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        self.problems
            .iter()
            .map(|(path, problem)| Diagnostic { path: path.clone(), problem: problem.clone() })
            .collect()
    }

    /// Says on stderr what came out.
    fn tell(&self, seconds: f64) {
        let sum = |of: fn(&Treebank) -> u64| self.study.treebanks.iter().map(of).sum::<u64>();
        let (used, tokens) = (sum(|t| t.sentences_used), sum(|t| t.tokens_used));
        say!(
            "sawmill: {} treebanks, {used} sentences of {tokens} words in {seconds:.2} s ({:.0} words/s); {} left out",
            self.study.treebanks.len(),
            tokens as f64 / seconds,
            sum(|t| t.sentences_read() - t.sentences_used),
        );
    }

    /// Says on stderr what was wrong with the inputs; returns whether anything was.
    fn tell_problems(&self) -> bool {
        const SHOWN: usize = 20;
        for problem in self.diagnostics().iter().take(SHOWN) {
            say!("{problem}");
        }
        let sentences: u64 = self.study.treebanks.iter().map(|t| t.broken).sum();
        let files: u64 = self.study.treebanks.iter().flat_map(|t| t.file_problems.values()).sum();
        if sentences + files > 0 {
            say!("sawmill: problems with {sentences} sentences and {files} files; see report/problems.tsv");
        }
        sentences + files > 0
    }

    /// The outcome in the run folder at `path`.
    pub fn load(path: &std::path::Path) -> Result<Outcome> {
        let file = path.join(OUTCOME);
        let text = std::fs::read(&file).map_err(|e| Error::input(&file, format!("{e}; has the run ended?")))?;
        serde_json::from_slice(&text).map_err(|e| Error::input(&file, e))
    }

    /// Writes the report and what it is made of.
    pub fn write(&self, folder: &RunFolder) -> Result<()> {
        let json = serde_json::to_vec(self).expect("an outcome is JSON");
        folder.write(OUTCOME, &json)?;
        for (name, content) in report::files(&self.title, &self.study, &self.diagnostics()) {
            folder.write(&format!("report/{name}"), content.as_bytes())?;
        }
        Ok(())
    }
}

/// Runs the job as `session` asks, and returns the exit code.
pub fn run(plan: &Plan, session: &mut Session) -> Result<u8> {
    if session.cluster.processes() > 1 && plan.inputs.iter().any(Input::is_stdin) {
        let message = "standard input (`-`) cannot be an input of several processes: each has its own";
        return Err(Error::Usage(message.to_string()));
    }
    if session.watch { run_watching(plan, session) } else { run_once(plan, session) }
}

fn run_once(plan: &Plan, session: &mut Session) -> Result<u8> {
    let progress = Arc::new(Progress::default());
    let started = Instant::now();
    // The leader shows its own part of the work as if all processes were as fast.
    let meter = session.record.as_ref().map(|record| {
        let (progress, processes) = (progress.clone(), session.cluster.processes() as u64);
        let all: u64 = plan.inputs.iter().map(Input::weight).sum();
        let gauge = move || (progress.bytes.load(Ordering::Relaxed) * processes, all);
        let folder = record.folder.clone();
        Meter::start(session.progress, Unit::Bytes, Arc::new(gauge), move |figures| {
            let _ = record_metrics(&folder, figures); // missing metrics are no reason to stop
        })
    });
    let outcome = once(plan, session, &progress)?;
    drop(meter);
    let (Some(record), Some(outcome)) = (&mut session.record, outcome) else { return Ok(exit::DONE) };
    let seconds = started.elapsed().as_secs_f64();
    outcome.write(&record.folder)?;
    let tokens: u64 = outcome.study.treebanks.iter().map(|t| t.tokens_used).sum();
    let figures = json!({
        "seconds": seconds, "tokens": tokens, "tokens_per_second": tokens as f64 / seconds,
        "peak_memory_mib": peak_memory_mib(),
    });
    record_metrics(&record.folder, &figures)?;
    session.inputs.check_unchanged(|_| true)?;
    record.done(seconds)?;
    outcome.tell(seconds);
    Ok(if outcome.tell_problems() { exit::SKIPPED } else { exit::DONE })
}

fn run_watching(plan: &Plan, session: &mut Session) -> Result<u8> {
    let stop = stop_flag()?;
    if let Some(record) = &mut session.record {
        record.watching()?;
    }
    let folder = session.record.as_ref().map(|record| record.folder.clone());
    let started = Instant::now();
    let has_problems = Arc::new(AtomicBool::new(false));
    let problems_seen = has_problems.clone();
    keep_alive(plan, &session.title, &session.cluster, &stop, move |outcome| {
        let Some(folder) = &folder else { return };
        problems_seen.store(outcome.tell_problems(), Ordering::Relaxed);
        match outcome.write(folder) {
            Ok(()) => say!("sawmill: report written; watching for changes (interrupt to end)"),
            Err(error) => say!("sawmill: {error}"),
        }
    })?;
    if let Some(record) = &mut session.record {
        record.done(started.elapsed().as_secs_f64())?;
    }
    Ok(if has_problems.load(Ordering::Relaxed) { exit::SKIPPED } else { exit::DONE })
}

/// Runs the job once. The leader gets the outcome.
fn once(plan: &Plan, session: &Session, progress: &Arc<Progress>) -> Result<Option<Outcome>> {
    let cluster = &session.cluster;
    let (inputs, pieces) = (Arc::new(plan.inputs.clone()), Arc::new(plan.pieces.clone()));
    let (settings, seed, progress) = (plan.settings.clone(), plan.seed, progress.clone());
    let results = cluster.run(
        || facts(plan, cluster, Some(&session.inputs)),
        move |worker| {
            let counter = Counter::new(settings.clone(), seed);
            scan(worker, &inputs, &pieces, counter, progress.clone())
        },
    )?;
    Ok(results.into_iter().flatten().next().map(|found| Outcome::new(&session.title, plan, &found)))
}

/// Keeps the job alive until `stop` is set, and shows `changed` each new outcome, on the leader.
fn keep_alive(
    plan: &Plan,
    title: &str,
    cluster: &Cluster,
    stop: &Arc<AtomicBool>,
    changed: impl FnMut(Outcome) + Send + 'static,
) -> Result<()> {
    let inputs = Arc::new(plan.inputs.clone());
    let (plan, title, stop) = (plan.clone(), title.to_string(), stop.clone());
    let changed = Mutex::new(changed); // worker 0 is the only one to call it
    let compared = plan.clone();
    cluster.run(
        || facts(&compared, cluster, None),
        move |worker| {
            let counter = Counter::new(plan.settings.clone(), plan.seed);
            let memory = Remembered::new(inputs.clone(), counter);
            watch(worker, &inputs, memory, &stop, |found| {
                let mut changed = changed.lock().expect("nobody else holds it");
                changed(Outcome::new(&title, &plan, &found));
            });
        },
    )?;
    Ok(())
}

/// What all processes of a job must agree on: the workers, the settings, and the content of the inputs, unless the job follows
/// changes of them.
fn facts(plan: &Plan, cluster: &Cluster, inputs: Option<&Inputs>) -> Vec<Fact> {
    let mut treebanks = blake3::Hasher::new();
    treebanks.update(format!("{:?} {:?}", plan.treebanks, plan.pieces).as_bytes());
    for input in &plan.inputs {
        let text = match &input.origin {
            Origin::Synthetic(language) => format!("{language:?}"),
            Origin::File { path, encoding, .. } => format!("{encoding:?} {:?}", path.file_name()),
        };
        treebanks.update(text.as_bytes());
    }
    let own = [
        ("seed", plan.seed.to_string()),
        ("settings", blake3::hash(format!("{:?}", plan.settings).as_bytes()).to_hex().to_string()),
        ("treebanks", treebanks.finalize().to_hex().to_string()),
        ("watch", if inputs.is_none() { "yes" } else { "no" }.to_string()),
    ];
    let mut facts = cluster.facts();
    facts.extend(own.map(|(name, value)| (name.to_string(), value)));
    facts.extend(inputs.into_iter().flat_map(Inputs::facts));
    facts
}
