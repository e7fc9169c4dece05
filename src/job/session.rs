//! One run of a job: its workers, its folder, and what is said of it there.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;

use super::folder::{MANIFEST, RunFolder, is_run_folder};
use super::manifest::{InputRecord, Manifest, State, now};
use super::{Job, Plan};
use crate::cluster::engine::Cluster;
use crate::cluster::rng::GENERATOR;
use crate::error::{Error, Result, exit};
use crate::progress::Style;

/// What a run of any kind of job is given.
pub struct Session {
    /// Name of the job file, for titles.
    pub title: String,
    /// The run folder, which all processes see and the first one writes.
    pub out: PathBuf,
    /// Whether to go on from a checkpoint.
    pub resume: bool,
    /// Whether to stop, with a checkpoint, when standard input ends.
    pub end_with_stdin: bool,
    /// How long to wait for another process that makes no progress.
    pub stall_after: Duration,
    pub cluster: Cluster,
    pub progress: Style,
    /// Whether to stay alive and follow changes of the inputs.
    pub watch: bool,
    /// The run folder, in the process that writes it, while a job runs.
    pub record: Option<Record>,
    /// Whether the job has stopped with a checkpoint; known to every process.
    pub is_stopped: bool,
}

impl Session {
    /// The same for one job of a study, in a folder of its own.
    pub fn of_variant(&self, name: &str) -> Session {
        Session {
            title: name.to_string(),
            out: self.out.join(name),
            cluster: self.cluster.clone(),
            record: None,
            is_stopped: false,
            ..*self
        }
    }

    /// Runs `job`, unless its result is there already, and leaves in the run folder how it ended. Returns the exit code.
    pub fn run(&mut self, job: &Job, plan: &Plan) -> Result<u8> {
        if self.resume && self.is_done(job)? {
            say!("sawmill: this job is done already");
            return Ok(exit::DONE);
        }
        if self.cluster.is_leader() {
            self.record = Some(Record::start(&self.out, job, &self.cluster, self.resume)?);
        }
        let result = plan.run(self);
        if let (Err(error), Some(record)) = (&result, &mut self.record) {
            record.failed(error)?;
        }
        if self.is_stopped { result.map(|_| exit::RESUME) } else { result }
    }

    /// Whether the result is there. Only the leader judges what else is: it may be clearing the folder while the others
    /// look.
    fn is_done(&self, job: &Job) -> Result<bool> {
        let found = has_result(&self.out, job);
        if self.cluster.is_leader() { found } else { Ok(found.unwrap_or(false)) }
    }
}

/// The run folder and what is said in it.
pub struct Record {
    pub folder: Arc<RunFolder>,
    manifest: Manifest,
}

/// The job as it was understood.
const JOB: &str = "job.toml";

/// How far a run has come, line by line.
const METRICS: &str = "metrics.jsonl";

impl Record {
    /// Takes the run folder at `out` for `job`. Where it is resumed, metrics of before stay; the runs of a study are its own
    /// concern.
    pub fn start(out: &Path, job: &Job, cluster: &Cluster, resume: bool) -> Result<Record> {
        let folder = RunFolder::create(out)?;
        let header = job.header();
        let manifest = Manifest {
            sawmill: env!("CARGO_PKG_VERSION").to_string(),
            kind: header.kind.to_string(),
            state: State::Running,
            error: None,
            seed: header.seed,
            shards: header.shards,
            generator: GENERATOR.to_string(),
            processes: cluster.processes(),
            workers: cluster.workers(),
            process_id: std::process::id(),
            started: now(),
            updated: now(),
            seconds: 0.0,
            inputs: vec![],
        };
        let mut record = Record { folder: Arc::new(folder), manifest };
        // In this order: wherever it is cut short, what is left is not taken for a result, nor for another job's.
        record.folder.remove(JOB)?;
        record.save(State::Running)?;
        let is_study = matches!(job, Job::Study(_));
        let stays = |name: &str| (resume && name == METRICS) || (is_study && is_run_folder(&out.join(name)));
        record.folder.clear_results(stays)?;
        record.folder.write(JOB, job.to_toml().as_bytes())?;
        Ok(record)
    }

    /// Says that the run stays alive, and what it reads.
    pub fn watching(&mut self, inputs: Vec<InputRecord>) -> Result<()> {
        self.manifest.inputs = inputs;
        self.save(State::Watching)
    }

    /// Says that the run is done, after so many seconds.
    pub fn done(&mut self, seconds: f64, inputs: Option<Vec<InputRecord>>) -> Result<()> {
        self.manifest.seconds = seconds;
        if let Some(inputs) = inputs {
            self.manifest.inputs = inputs;
        }
        self.save(State::Done)
    }

    /// Says that the run was stopped, and can be resumed.
    pub fn stopped(&mut self, seconds: f64) -> Result<()> {
        self.manifest.seconds = seconds;
        self.save(State::Stopped)
    }

    /// Says why the run failed.
    pub fn failed(&mut self, error: &Error) -> Result<()> {
        self.manifest.error = Some(error.to_string());
        self.save(State::Failed)
    }

    fn save(&mut self, state: State) -> Result<()> {
        self.manifest.state = state;
        self.manifest.updated = now();
        self.folder.write(MANIFEST, self.manifest.to_json().as_bytes())
    }
}

/// Adds a line to the metrics of the run in `folder`.
pub fn record_metrics(folder: &RunFolder, figures: &Value) -> Result<()> {
    folder.append(METRICS, &figures.to_string())
}

/// The page of the report in the run folder `out`, as short as it can be said from the working directory.
pub fn report_page(out: &Path) -> PathBuf {
    let path = out.join("report").join("index.html");
    let whole = path.canonicalize().unwrap_or(path);
    match std::env::current_dir().ok().and_then(|here| Some(whole.strip_prefix(here).ok()?.to_path_buf())) {
        Some(short) => short,
        None => whole,
    }
}

/// Whether `out` holds the result of just this job; another job's result there is an error. A study asks this of its
/// variants one by one, so that others can be added to it.
fn has_result(out: &Path, job: &Job) -> Result<bool> {
    if !is_run_folder(out) || matches!(job, Job::Study(_)) {
        return Ok(false);
    }
    // Without one, a run was killed before it had begun.
    let Ok(old) = std::fs::read_to_string(out.join(JOB)) else { return Ok(false) };
    let new = job.to_toml();
    if old != new {
        return Err(Error::Usage(format!(
            "--resume: {} holds a run with other settings:{}{}",
            out.display(),
            only_in(&settings(&old), &settings(&new), '-'),
            only_in(&settings(&new), &settings(&old), '+')
        )));
    }
    let manifest = Manifest::load(out)?;
    for input in &manifest.inputs {
        let Ok(file) = std::fs::metadata(&input.path) else { continue };
        let modified = file.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        if file.len() != input.bytes || modified.is_some_and(|time| time.as_secs() > manifest.started) {
            return Err(Error::Usage(format!("--resume: {} has changed since; run without --resume", input.path)));
        }
    }
    Ok(manifest.state == State::Done)
}

/// The lines of a job file, each behind the name of its table.
fn settings(text: &str) -> Vec<String> {
    let mut table = String::new();
    let mut all = vec![];
    for line in text.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(name) => table = format!("{name}."),
            None => all.push(format!("{table}{line}")),
        }
    }
    all
}

/// The settings that `others` lack, each behind `sign`.
fn only_in(settings: &[String], others: &[String], sign: char) -> String {
    settings.iter().filter(|line| !others.contains(line)).map(|line| format!("\n{sign} {line}")).collect()
}

/// The most memory that this process has had, or has had since [`forget_peak_memory`], in MiB; 0 where the system does not
/// say.
pub fn peak_memory_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()).and_then(|kib| kib.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}

/// Seconds that this thread has been on a processor, whatever else ran on the machine; 0 where the system does not say.
pub fn thread_seconds() -> f64 {
    let status = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    status.split_whitespace().next().and_then(|nanoseconds| nanoseconds.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

/// The most that was forgotten, in bytes.
static FORGOTTEN: AtomicU64 = AtomicU64::new(0);

/// Begins to look for the most memory anew, where the system (Linux) lets a process do so.
pub fn forget_peak_memory() {
    FORGOTTEN.fetch_max((peak_memory_mib() * 1048576.0) as u64, Ordering::Relaxed);
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The most memory that this process has ever had, in MiB.
pub fn most_memory_mib() -> f64 {
    peak_memory_mib().max(FORGOTTEN.load(Ordering::Relaxed) as f64 / 1048576.0)
}
