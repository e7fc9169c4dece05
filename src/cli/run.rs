//! `sawmill run`: from a job file to a run folder.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::cluster::{ClusterFlags, seconds};
use super::print;
use crate::cluster::stop::{stop_flag, stop_with_stdin};
use crate::error::{Error, Result, exit};
use crate::job::Job;
use crate::job::file::Document;
use crate::job::session::{Session, report_page};
use crate::progress::Style;

/// Workers of a process: each is a thread, with buffers for every other worker.
const MOST_THREADS: usize = 1024;

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
    /// Move an earlier run aside and start over; it is removed when the new one is finished
    #[arg(long)]
    fresh: bool,
    /// Continue a run that another build of sawmill has started
    #[arg(long)]
    accept_other_build: bool,
    /// Continue an unfinished run, which is what always happens; accepted for old scripts
    #[arg(long, hide = true, conflicts_with = "fresh")]
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
    /// How long a sweep may go on after SIGTERM or SIGUSR1, before a checkpoint is written; a sweep that takes longer is given
    /// up, and the checkpoint before it counts
    #[arg(long, value_name = "SECONDS", value_parser = seconds(), default_value = "5")]
    stop_within: u64,
    /// Stop, with a checkpoint, when standard input ends (`launch` uses this)
    #[arg(long, hide = true)]
    end_with_stdin: bool,
    #[command(flatten)]
    cluster: ClusterFlags,
}

impl Run {
    pub fn run(&self) -> Result<u8> {
        let cluster = self.cluster.resolve()?;
        if cluster.threads > MOST_THREADS {
            let message = format!("--workers {}: at most {MOST_THREADS} for each process", cluster.threads);
            return Err(Error::Usage(message));
        }
        let document = Document::load(&self.job, &self.set)?;
        let job = Job::read(&document)?;
        let out = self.out(&job, &document)?;
        let plan = job.plan(&document)?;
        if self.dry_run {
            let folder = format!("run folder: {}\n", out.display());
            return print(&(plan.describe(&cluster) + &folder)).map(|()| exit::DONE);
        }
        let is_leader = cluster.is_leader();
        let mut session = Session {
            title: self.title(),
            out: out.clone(),
            fresh: self.fresh,
            accepts_other_build: self.accept_other_build,
            stall_after: self.cluster.stall_after(),
            stop_within: Duration::from_secs(self.stop_within),
            inputs: Arc::default(),
            cluster,
            progress: self.progress,
            watch: self.watch,
            record: None,
            study: None,
            is_stopped: false,
            reporting: None,
        };
        if self.end_with_stdin {
            stop_with_stdin(&stop_flag()?);
        }
        let code = session.run(&job, &plan)?;
        if is_leader && code != exit::RESUME {
            print(&format!("{}\n", report_page(&out).display()))?;
        }
        Ok(code)
    }

    /// The run folder of the job.
    pub fn run_folder(&self) -> Result<PathBuf> {
        let document = Document::load(&self.job, &self.set)?;
        self.out(&Job::read(&document)?, &document)
    }

    fn out(&self, job: &Job, document: &Document) -> Result<PathBuf> {
        match (&self.out, job.header().out) {
            (Some(out), _) => Ok(out.clone()),
            (None, "") => {
                Err(Error::Usage(format!("{}: there is no `out`; add it, or give --out DIR", document.name())))
            }
            (None, out) => Ok(PathBuf::from(out)),
        }
    }

    fn title(&self) -> String {
        self.job.file_stem().map_or("job".to_string(), |stem| stem.to_string_lossy().into_owned())
    }
}
