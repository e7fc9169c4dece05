//! `sawmill run`: from a job file to a run folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use super::print;
use crate::cluster::engine::Cluster;
use crate::cluster::rng::GENERATOR;
use crate::cluster::scan::Progress;
use crate::corpus::piece::Input;
use crate::error::{Error, Result, exit};
use crate::job::Job;
use crate::job::file::Document;
use crate::job::folder::{MANIFEST, RunFolder};
use crate::job::manifest::{Manifest, State, now, records};
use crate::oracle::job::{OracleJob, Plan};
use crate::oracle::run::{Outcome, keep_alive, once};
use crate::progress::{Meter, Style};

#[derive(Args)]
pub struct Run {
    /// The job file
    job: PathBuf,
    /// Change a setting of the job, as in --set oracle.reorder=5 (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The run folder, instead of the job's `out`
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Do nothing where the run folder has this job's result; refuse where it has another job's
    #[arg(long)]
    resume: bool,
    /// Show what would be done, and stop
    #[arg(long)]
    dry_run: bool,
    /// Stay alive: when an input changes, correct the result and rewrite the report, until interrupted
    #[arg(long)]
    watch: bool,
    /// How to show progress
    #[arg(long, value_enum, default_value = "auto")]
    progress: Style,
    #[command(flatten)]
    cluster: ClusterFlags,
}

#[derive(Args)]
#[command(next_help_heading = "Cluster")]
struct ClusterFlags {
    /// Worker threads of this process [default: one per core]
    #[arg(short, long, value_name = "N")]
    workers: Option<usize>,
    /// File with one host:port per process; start sawmill once on each, with its --process
    #[arg(long, value_name = "FILE", requires = "process")]
    hosts: Option<PathBuf>,
    /// Which line of the hosts file this process is, from 0; process 0 writes the run folder
    #[arg(long, value_name = "I", requires = "hosts")]
    process: Option<usize>,
    /// File with the secret that the processes of the job share
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// The secret itself (better in the environment than on a command line)
    #[arg(long, env = "SAWMILL_SECRET", hide_env_values = true, hide = true)]
    secret: Option<String>,
    /// How long to wait for the other processes
    #[arg(long, value_name = "SECONDS", default_value = "60")]
    start_within: u64,
}

impl ClusterFlags {
    fn resolve(&self) -> Result<Cluster> {
        let threads = match self.workers {
            Some(0) => return Err(Error::Usage("--workers 0: at least one is needed".to_string())),
            Some(n) => n,
            None => std::thread::available_parallelism().map_or(1, |n| n.get()),
        };
        let mut cluster = Cluster { start_within: Duration::from_secs(self.start_within), ..Cluster::local(threads) };
        let (Some(file), Some(process)) = (&self.hosts, self.process) else { return Ok(cluster) };
        cluster.hosts = read_hosts(file)?;
        cluster.process = process;
        if process >= cluster.hosts.len() {
            let message =
                format!("--process {process}, but {} names {} hosts, from 0", file.display(), cluster.hosts.len());
            return Err(Error::Usage(message));
        }
        cluster.secret = self.read_secret()?;
        if cluster.hosts.len() > 1 && cluster.secret.is_empty() {
            let message = "several processes need a secret that they share: set SAWMILL_SECRET or --secret-file, the same for all";
            return Err(Error::Usage(message.to_string()));
        }
        Ok(cluster)
    }

    fn read_secret(&self) -> Result<String> {
        let Some(file) = &self.secret_file else { return Ok(self.secret.clone().unwrap_or_default()) };
        let text = std::fs::read_to_string(file)
            .map_err(|e| Error::Usage(format!("--secret-file {}: {e}", file.display())))?;
        Ok(text.trim().to_string())
    }
}

/// One `host:port` per line; blank lines and `#` comments are passed over.
fn read_hosts(file: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(file).map_err(|e| Error::Usage(format!("--hosts {}: {e}", file.display())))?;
    let mut hosts = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let host = line.split('#').next().unwrap_or("").trim();
        if host.is_empty() {
            continue;
        }
        let has_port =
            host.rsplit_once(':').is_some_and(|(name, port)| !name.is_empty() && port.parse::<u16>().is_ok());
        if !has_port {
            return Err(Error::Usage(format!("{}:{number}: `{host}` is not host:port", file.display())));
        }
        hosts.push(host.to_string());
    }
    match hosts.is_empty() {
        true => Err(Error::Usage(format!("{} names no host", file.display()))),
        false => Ok(hosts),
    }
}

impl Run {
    pub fn run(&self) -> Result<u8> {
        let cluster = self.cluster.resolve()?;
        let document = Document::load(&self.job, &self.set)?;
        let job = Job::read(&document)?;
        let out = self.out(&job, &document)?;
        let Job::Oracle(oracle) = &job;
        let plan = oracle.plan(&document)?;
        if self.dry_run {
            return print(&describe(&plan, &cluster, &out)).map(|()| exit::DONE);
        }
        if self.resume && has_result(&out, &job)? {
            eprintln!("sawmill: this job is done already");
            return print(&format!("{}\n", report_path(&out).display())).map(|()| exit::DONE);
        }
        let folder = if cluster.is_leader() { Some(RunFolder::create(&out)?) } else { None };
        let mut record = folder.map(|folder| Record::start(folder, &job, oracle, &plan, &cluster)).transpose()?;
        let result = match self.watch {
            true => self.watch(&plan, &cluster, &mut record),
            false => self.once(&plan, &cluster, &mut record),
        };
        if let (Err(error), Some(record)) = (&result, &mut record) {
            record.manifest.error = Some(error.to_string());
            record.save(State::Failed)?;
        }
        result
    }

    fn out(&self, job: &Job, document: &Document) -> Result<PathBuf> {
        match (&self.out, job.out()) {
            (Some(out), _) => Ok(out.clone()),
            (None, "") => {
                Err(Error::Usage(format!("{}: there is no `out`; add it, or give --out DIR", document.name())))
            }
            (None, out) => Ok(document.folder().join(out)),
        }
    }

    fn title(&self) -> String {
        self.job.file_stem().map_or("job".to_string(), |stem| stem.to_string_lossy().into_owned())
    }

    fn once(&self, plan: &Plan, cluster: &Cluster, record: &mut Option<Record>) -> Result<u8> {
        let progress = Arc::new(Progress::default());
        let started = Instant::now();
        // The leader shows its own part of the work as if all processes were as fast.
        let meter = record.as_ref().map(|record| {
            let (progress, processes) = (progress.clone(), cluster.processes() as u64);
            let all: u64 = plan.inputs.iter().map(Input::weight).sum();
            let gauge = move || (progress.bytes.load(Ordering::Relaxed) * processes, all);
            let folder = record.folder.clone();
            Meter::start(self.progress, Arc::new(gauge), move |figures| {
                let _ = folder.append(METRICS, &figures.to_string()); // missing metrics are no reason to stop
            })
        });
        let outcome = once(plan, &self.title(), cluster, &progress)?;
        drop(meter);
        let (Some(record), Some(outcome)) = (record, outcome) else { return Ok(exit::DONE) };
        let seconds = started.elapsed().as_secs_f64();
        outcome.write(&record.folder)?;
        record.manifest.seconds = seconds;
        record.manifest.inputs = records(&plan.inputs, outcome.contents());
        let tokens: u64 = outcome.study.treebanks.iter().map(|t| t.tokens_used).sum();
        let figures = json!({
            "seconds": seconds, "tokens": tokens, "tokens_per_second": tokens as f64 / seconds, "peak_memory_mib": peak_memory_mib(),
        });
        record.folder.append(METRICS, &figures.to_string())?;
        record.save(State::Done)?;
        self.tell(&outcome, record, seconds)
    }

    /// Says what came out, and where the report is.
    fn tell(&self, outcome: &Outcome, record: &Record, seconds: f64) -> Result<u8> {
        let sum = |of: fn(&crate::oracle::study::Treebank) -> u64| outcome.study.treebanks.iter().map(of).sum::<u64>();
        let (used, tokens) = (sum(|t| t.sentences_used), sum(|t| t.tokens_used));
        eprintln!(
            "sawmill: {} treebanks, {used} sentences of {tokens} words in {seconds:.2} s ({:.0} words/s); {} left out",
            outcome.study.treebanks.len(),
            tokens as f64 / seconds,
            sum(|t| t.sentences_read() - t.sentences_used),
        );
        let broken = tell_problems(outcome);
        print(&format!("{}\n", report_path(record.folder.path()).display()))?;
        Ok(if broken { exit::SKIPPED } else { exit::DONE })
    }

    fn watch(&self, plan: &Plan, cluster: &Cluster, record: &mut Option<Record>) -> Result<u8> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = stop.clone();
        ctrlc::set_handler(move || stopping.store(true, Ordering::Relaxed))
            .map_err(|e| Error::Usage(format!("cannot watch for interrupts: {e}")))?;
        if let Some(record) = record {
            record.manifest.inputs = records(&plan.inputs, &[]);
            record.save(State::Watching)?;
        }
        let folder = record.as_ref().map(|record| record.folder.clone());
        let started = Instant::now();
        keep_alive(plan, &self.title(), cluster, &stop, move |outcome| {
            let Some(folder) = &folder else { return };
            tell_problems(&outcome);
            match outcome.write(folder) {
                Ok(()) => eprintln!("sawmill: report written; watching for changes (interrupt to end)"),
                Err(error) => eprintln!("sawmill: {error}"),
            }
        })?;
        if let Some(record) = record {
            record.manifest.seconds = started.elapsed().as_secs_f64();
            record.save(State::Done)?;
            print(&format!("{}\n", report_path(record.folder.path()).display()))?;
        }
        Ok(exit::DONE)
    }
}

const METRICS: &str = "metrics.jsonl";

/// The run folder and what is said in it.
struct Record {
    folder: Arc<RunFolder>,
    manifest: Manifest,
}

impl Record {
    fn start(folder: RunFolder, job: &Job, oracle: &OracleJob, plan: &Plan, cluster: &Cluster) -> Result<Record> {
        folder.remove(METRICS)?;
        folder.write("job.toml", job.to_toml().as_bytes())?;
        let manifest = Manifest {
            sawmill: env!("CARGO_PKG_VERSION").to_string(),
            kind: oracle.kind.clone(),
            state: State::Running,
            error: None,
            seed: plan.seed,
            shards: oracle.shards,
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
        record.save(State::Running)?;
        Ok(record)
    }

    fn save(&mut self, state: State) -> Result<()> {
        self.manifest.state = state;
        self.manifest.updated = now();
        self.folder.write(MANIFEST, self.manifest.to_json().as_bytes())
    }
}

/// The report's page, as short as it can be said from the working directory.
fn report_path(out: &Path) -> PathBuf {
    let path = out.join("report").join("index.html");
    let whole = path.canonicalize().unwrap_or(path);
    match std::env::current_dir().ok().and_then(|here| Some(whole.strip_prefix(here).ok()?.to_path_buf())) {
        Some(short) => short,
        None => whole,
    }
}

/// Says on stderr what was wrong with the inputs; returns whether anything was.
fn tell_problems(outcome: &Outcome) -> bool {
    const SHOWN: usize = 20;
    let problems = outcome.diagnostics();
    for problem in problems.iter().take(SHOWN) {
        eprintln!("{problem}");
    }
    let broken: u64 = outcome.study.treebanks.iter().map(|t| t.broken).sum();
    if broken > 0 {
        eprintln!("sawmill: {broken} sentences or files were skipped because of problems; see report/problems.tsv");
    }
    broken > 0
}

/// Whether `out` holds the result of just this job; another job's result there is an error.
fn has_result(out: &Path, job: &Job) -> Result<bool> {
    if !out.join(MANIFEST).exists() {
        return Ok(false);
    }
    let (old, new) = (std::fs::read_to_string(out.join("job.toml")).unwrap_or_default(), job.to_toml());
    if old != new {
        let lines = |a: &str, b: &str, sign: char| -> String {
            a.lines()
                .filter(|line| !b.lines().any(|other| other == *line))
                .map(|line| format!("\n{sign} {line}"))
                .collect()
        };
        return Err(Error::Usage(format!(
            "--resume: {} holds a run with other settings:{}{}",
            out.display(),
            lines(&old, &new, '-'),
            lines(&new, &old, '+')
        )));
    }
    Ok(Manifest::load(out)?.state == State::Done)
}

/// The plan, for people.
fn describe(plan: &Plan, cluster: &Cluster, out: &Path) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    let systems: Vec<&str> = plan.settings.systems.iter().map(|system| system.name()).collect();
    let _ = writeln!(
        text,
        "oracle job, seed {}, {} with {} reorderings",
        plan.seed,
        systems.join(", "),
        plan.settings.reorder
    );
    for (index, name) in plan.treebanks.iter().enumerate() {
        let inputs: Vec<&Input> = plan.inputs.iter().filter(|input| usize::from(input.group) == index).collect();
        let weight: u64 = inputs.iter().map(|input| input.weight()).sum();
        let _ = writeln!(text, "  {name}: {} inputs, about {:.1} MB of text", inputs.len(), weight as f64 / 1e6);
        for input in inputs {
            let _ = writeln!(text, "    {}", input.name());
        }
    }
    let bytes: u64 = plan.inputs.iter().map(Input::weight).sum();
    // Measured: about 150 MB/s a worker with one reordering, half of it more for each further one.
    let rate = 150e6 / (0.5 + 0.5 * f64::from(plan.settings.reorder.max(1)));
    let seconds = bytes as f64 / rate / cluster.workers() as f64;
    let _ = writeln!(
        text,
        "{} pieces for {} workers in {} processes",
        plan.pieces.len(),
        cluster.workers(),
        cluster.processes()
    );
    let _ = writeln!(
        text,
        "about {:.0} MB of text, {seconds:.1} s, {} MB of memory per process",
        bytes as f64 / 1e6,
        15 + 10 * cluster.threads
    );
    let _ = writeln!(text, "run folder: {}", out.display());
    text
}

/// The most memory that this process has had, in MiB; 0 where the system does not say.
fn peak_memory_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()).and_then(|kib| kib.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}
