//! One run of a job: its workers, its folder, and what is recorded of it there.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use super::folder::{RunFolder, is_run_folder, move_aside, remove_previous};
use super::manifest::{MANIFEST, Manifest, State, now};
use super::standing::{Identity, JOB, Standing};
use super::{Job, Plan};
use crate::cluster::checkpoint::hex;
use crate::cluster::engine::{Cluster, build_hash};
use crate::cluster::rng::GENERATOR;
use crate::cluster::stop::{CurrentPhase, Phase, end_in_time};
use crate::corpus::inputs::Inputs;
use crate::error::{Error, Result, exit};
use crate::progress::Style;
use crate::study;

/// What a run of any kind of job is given.
pub struct Session {
    /// Name of the job file, for titles.
    pub title: String,
    /// The run folder, which all processes see and the first one writes.
    pub out: PathBuf,
    /// Whether to move an earlier run aside and start over.
    pub fresh: bool,
    /// Whether to continue what another build of sawmill has started.
    pub accepts_other_build: bool,
    /// How long to wait for another process that makes no progress.
    pub stall_after: Duration,
    /// How long a sweep may go on after SIGTERM.
    pub stop_within: Duration,
    pub cluster: Cluster,
    pub progress: Style,
    /// Whether to stay alive and follow changes of the inputs.
    pub watch: bool,
    /// The files that the job reads.
    pub inputs: Arc<Inputs>,
    /// The run folder, in the process that writes it, while a job runs.
    pub record: Option<Record>,
    /// That of the study that the job is a variant of.
    pub study: Option<Record>,
    /// Whether the job has stopped with a checkpoint; known to every process.
    pub is_stopped: bool,
    /// What a training that has ended is at, for whoever must end the process in time.
    pub reporting: Option<Arc<CurrentPhase>>,
}

impl Session {
    /// The same for one job of a study, in a folder of its own.
    pub fn of_variant(&self, name: &str) -> Session {
        Session {
            title: name.to_string(),
            out: self.out.join(name),
            fresh: false, // the study has been moved aside as a whole
            cluster: self.cluster.clone(),
            inputs: Arc::default(),
            record: None,
            study: self.record.clone(),
            is_stopped: false,
            reporting: None,
            ..*self
        }
    }

    /// Brings the run folder to its finished state: starts the job, continues it, or finds that it is done. Returns the exit code.
    pub fn run(&mut self, job: &Job, plan: &Plan) -> Result<u8> {
        let is_leader = self.cluster.is_leader();
        let kind = job.header().kind;
        if self.watch && kind != "oracle" {
            return Err(Error::Usage(format!(
                "--watch follows changes of treebanks, in oracle jobs; this is a {kind} job"
            )));
        }
        // One spelling for the folder, whatever links lead to it.
        self.out = self.out.canonicalize().unwrap_or(self.out.clone());
        if !self.watch {
            let _stoppable = self.stoppable()?;
            self.inputs = Arc::new(Inputs::hash(&plan.files(), self.cluster.threads)?);
        }
        if self.fresh && is_leader {
            let is_done = Manifest::load(&self.out).is_ok_and(|manifest| manifest.state == State::Done);
            if let Some(kept) = move_aside(&self.out, is_done)? {
                say!("sawmill: the run before is kept in {} until this one is finished", kept.display());
            }
        }
        // Locked before it is looked at, so that what is found stays as it is.
        let folder = if is_leader { Some(RunFolder::create(&self.out)?) } else { None };
        let settings = settings_of(plan);
        if let Plan::Study(study) = plan {
            let _stoppable = self.stoppable()?;
            self.check_variants(study)?;
        }
        let standing = self.standing(job, &settings)?;
        if standing == Standing::Done {
            if is_leader {
                remove_previous(&self.out)?;
                say!("sawmill: {} is done already; --fresh starts over", self.out.display());
            }
            return Ok(exit::DONE);
        }
        self.record = folder.map(|folder| Record::start(self, folder, job, settings, standing)).transpose()?;
        // What is counted in one pass is not saved in between.
        let stoppable = (kind == "oracle" && !self.watch).then(|| self.stoppable()).transpose()?;
        let result = plan.run(self);
        self.reporting.take().iter().for_each(|phase| phase.set(Phase::Ended));
        drop(stoppable);
        if let Some(record) = &self.record {
            match &result {
                Err(error) => record.failed(error)?,
                Ok(_) if !self.is_stopped => remove_previous(&self.out)?,
                Ok(_) => {}
            }
        }
        if self.is_stopped { result.map(|_| exit::RESUME) } else { result }
    }

    /// Fails if the folder of a variant holds the run of another job, before anything is recorded of the study. All processes read
    /// the inputs for that, so that none has to wait for another.
    fn check_variants(&self, study: &study::job::Plan) -> Result<()> {
        let mut last: Option<(Vec<PathBuf>, Arc<Inputs>)> = None;
        for variant in &study.variants {
            let mut session = self.of_variant(&variant.settings.name);
            if !is_run_folder(&session.out) {
                continue;
            }
            let files = variant.plan.files();
            session.inputs = match last.take().filter(|(same, _)| *same == files) {
                Some((_, inputs)) => inputs,
                None => Arc::new(Inputs::hash(&files, self.cluster.threads)?),
            };
            last = Some((files, session.inputs.clone()));
            session
                .standing(&variant.job, &settings_of(&variant.plan))
                .map_err(|error| error.within(&format!("variant {}", variant.settings.name)))?;
        }
        Ok(())
    }

    /// Lets a request to stop end the process at once, until what is returned is dropped.
    fn stoppable(&self) -> Result<impl Drop + use<>> {
        struct Reading(Arc<CurrentPhase>);
        impl Drop for Reading {
            fn drop(&mut self) {
                self.0.set(Phase::Ended);
            }
        }
        let reading = Reading(Arc::default());
        self.end_in_time(reading.0.clone())?;
        Ok(reading)
    }

    /// Ends the process in time if it is asked to stop and cannot finish its sweep, with the last checkpoint that there is.
    pub fn end_in_time(&self, phase: Arc<CurrentPhase>) -> Result<()> {
        let records = [self.record.clone(), self.study.clone()];
        end_in_time(phase, self.stop_within, move |phase| {
            let why = match phase {
                Phase::Reading => "stopped while reading; nothing had to be saved",
                Phase::Reporting => "stopped before the report was written; the last checkpoint has all sweeps",
                _ => {
                    "stopped in the middle of a sweep, which took too long to finish (--stop-within); the last checkpoint counts"
                }
            };
            say!("sawmill: {why}; run the same command again to continue");
            for record in records.into_iter().flatten() {
                let _ = record.stopped(record.age()); // the process ends in any case
            }
            std::process::exit(exit::RESUME.into());
        })
    }

    /// How the run folder stands to the job. A study leaves that to each of its variants, so that others can be added to it. Only the leader judges what it finds: it may be at work in the folder while the
    /// others look.
    fn standing(&self, job: &Job, settings: &str) -> Result<Standing> {
        let kind = job.header().kind;
        if let Some(other) = Manifest::load(&self.out).ok().filter(|manifest| manifest.kind != kind) {
            let (out, other) = (self.out.display(), other.kind);
            let message = format!("{out} holds a run of another kind of job: {other}, not {kind}");
            return Err(Error::Usage(format!(
                "{message}; choose another folder with --out, or start over with --fresh"
            )));
        }
        if matches!(job, Job::Study(_)) {
            return Ok(if is_run_folder(&self.out) { Standing::Unfinished } else { Standing::New });
        }
        let identity = Identity {
            job: &job.to_toml(),
            inputs: &self.inputs,
            settings,
            build: &hex(&build_hash()),
            accepts_other_build: self.accepts_other_build,
        };
        let standing = match self.watch {
            true => identity.standing_of_watched(&self.out),
            false => identity.standing(&self.out),
        };
        match standing {
            Err(_) if !self.cluster.is_leader() => Ok(Standing::Unfinished),
            // What another process of this job sees of a folder that is about to be moved aside does not count.
            Ok(Standing::Done) if self.fresh && !self.cluster.is_leader() => Ok(Standing::Unfinished),
            standing => standing,
        }
    }
}

/// The hash of a job's settings, as the manifest records it.
fn settings_of(plan: &Plan) -> String {
    plan.fingerprint().map_or(String::new(), |hash| hex(&hash))
}

/// The run folder and its manifest. Clones are the same record.
#[derive(Clone)]
pub struct Record {
    pub folder: Arc<RunFolder>,
    manifest: Arc<Mutex<Manifest>>,
}

/// How far a run has come, line by line.
const METRICS: &str = "metrics.jsonl";

impl Record {
    /// Takes the run folder for `job`. If it is continued, what is there stays until it is replaced.
    fn start(session: &Session, folder: RunFolder, job: &Job, settings: String, standing: Standing) -> Result<Record> {
        let header = job.header();
        let (format, version) = Manifest::header();
        let manifest = Manifest {
            format,
            version,
            sawmill: env!("CARGO_PKG_VERSION").to_string(),
            build: hex(&build_hash()),
            kind: header.kind.to_string(),
            state: State::Running,
            error: None,
            seed: header.seed,
            shards: header.shards,
            generator: GENERATOR.to_string(),
            processes: session.cluster.processes(),
            workers: session.cluster.workers(),
            process_id: std::process::id(),
            started: now(),
            updated: now(),
            seconds: 0.0,
            settings,
            inputs: session.inputs.records(),
        };
        let record = Record { folder: Arc::new(folder), manifest: Arc::new(Mutex::new(manifest)) };
        // The manifest first: whenever this is cut short, the folder is known as a run folder, and without a job file as one
        // in which nothing has started.
        record.save(State::Running)?;
        if standing == Standing::New {
            record.folder.clear(|_| false)?;
        }
        record.folder.write(JOB, job.to_toml().as_bytes())?;
        Ok(record)
    }

    /// Records that the run stays alive.
    pub fn watching(&self) -> Result<()> {
        self.save(State::Watching)
    }

    /// Records that the run is done, after so many seconds.
    pub fn done(&self, seconds: f64) -> Result<()> {
        self.manifest.lock().expect("nobody panics with it").seconds = seconds;
        self.save(State::Done)
    }

    /// Records that the run was stopped, and can be continued.
    pub fn stopped(&self, seconds: f64) -> Result<()> {
        self.manifest.lock().expect("nobody panics with it").seconds = seconds;
        self.save(State::Stopped)
    }

    /// Seconds since the run was started.
    fn age(&self) -> f64 {
        now().saturating_sub(self.manifest.lock().expect("nobody panics with it").started) as f64
    }

    /// Records why the run failed.
    pub fn failed(&self, error: &Error) -> Result<()> {
        self.manifest.lock().expect("nobody panics with it").error = Some(error.to_string());
        self.save(State::Failed)
    }

    fn save(&self, state: State) -> Result<()> {
        let mut manifest = self.manifest.lock().expect("nobody panics with it");
        manifest.state = state;
        manifest.updated = now();
        self.folder.write(MANIFEST, manifest.to_json().as_bytes())
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
