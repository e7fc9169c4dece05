//! What every job that is trained by sweeps does around its training: stop signals, checkpoints, signs of life, progress.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use serde_json::{Value, json};
use timely::worker::Worker;

use super::folder::{CHECKPOINTS, RunFolder};
use super::session::{Session, record_metrics};
use crate::cluster::agreement::Fact;
use crate::cluster::checkpoint::{Checkpoints, Identity, hex};
use crate::cluster::engine::{Cluster, build_hash};
use crate::cluster::heartbeat::Heartbeat;
use crate::cluster::stop::{Phase, stop_flag};
use crate::cluster::sweep::{Control, Round, Schedule};
use crate::corpus::inputs::Inputs;
use crate::error::{Error, Result};
use crate::progress::{Meter, Unit};

/// A training, to be run.
pub struct Training<'a> {
    pub schedule: &'a Schedule,
    /// Hash of the settings that the result follows from; the inputs' is added to it.
    pub fingerprint: [u8; 32],
    /// The kind of job, and the version in which it lays out its checkpoints: raised whenever an older checkpoint would be
    /// read as something else.
    pub layout: &'static str,
    /// What else all processes must agree on.
    pub rest: String,
    /// What the schedule's sweeps are to those who watch.
    pub unit: Unit,
}

/// What the workers of a process have in common: how to stop, where to save, whom to tell.
#[derive(Clone)]
pub struct Watcher {
    pub control: Control,
    folder: Option<Arc<RunFolder>>,
    sweep: Arc<Mutex<u64>>,
    inputs: Arc<Inputs>,
    /// Why the inputs are not what they were, once that has been looked at.
    changed: Arc<OnceLock<Option<String>>>,
}

impl Training<'_> {
    /// Runs `program` on every worker; returns what worker 0 made, and the seconds that it took.
    pub fn run<T: Send + 'static>(
        &self,
        session: &mut Session,
        program: impl Fn(&mut Worker, &Watcher) -> Result<Option<T>> + Send + Sync + 'static,
    ) -> Result<(Option<T>, f64)> {
        if session.watch {
            return Err(Error::Usage(
                "--watch follows changes of treebanks, in oracle jobs; it is not for training".to_string(),
            ));
        }
        let stop = stop_flag()?;
        let cluster = Cluster { folder: Some(session.out.clone()), ..session.cluster.clone() };
        let checkpoints = self.checkpoints(session);
        let heartbeat =
            Heartbeat::start(session.out.clone(), cluster.process, cluster.processes(), session.stall_after);
        let stopped = Arc::<AtomicBool>::default();
        let control = Control {
            checkpoints,
            stage: String::new(),
            resume: true,
            stop,
            phase: Arc::default(),
            stopped: stopped.clone(),
            heartbeat: heartbeat.clone(),
        };
        let folder = session.record.as_ref().map(|record| record.folder.clone());
        let sweep = Arc::new(Mutex::new(0));
        let meter = folder.as_ref().map(|_| {
            let (sweep, all) = (sweep.clone(), self.schedule.sweeps);
            let progress = Arc::new(move || (*sweep.lock().expect("a number"), all));
            Meter::start(session.progress, self.unit, progress, |_| ())
        });
        let started = Instant::now();
        let phase = control.phase.clone();
        session.end_in_time(phase.clone())?;
        let watcher = Watcher { control, folder, sweep, inputs: session.inputs.clone(), changed: Arc::default() };
        let results = cluster.run(|| self.facts(session), move |worker| program(worker, &watcher));
        session.is_stopped = stopped.load(Ordering::Relaxed);
        phase.set(if session.is_stopped || results.is_err() { Phase::Ended } else { Phase::Reporting });
        session.reporting = Some(phase);
        drop(meter);
        heartbeat.end();
        let mut made = None;
        for result in results? {
            made = result?.or(made);
        }
        Ok((made, started.elapsed().as_secs_f64()))
    }

    /// The checkpoints of a run.
    pub fn checkpoints(&self, session: &Session) -> Checkpoints {
        let identity = Identity {
            fingerprint: self.identity(session),
            layout: self.layout.to_string(),
            build: hex(&build_hash()),
            accepts_other_build: session.accepts_other_build,
        };
        Checkpoints::new(session.out.join(CHECKPOINTS), identity)
    }

    /// What the result follows from: the settings and the content of the inputs.
    fn identity(&self, session: &Session) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.fingerprint).update(&session.inputs.digest());
        *hasher.finalize().as_bytes()
    }

    /// What all processes must agree on: the job, its inputs, and the workers.
    fn facts(&self, session: &Session) -> Vec<Fact> {
        let own = [
            ("settings", hex(&self.fingerprint)),
            ("schedule", format!("{:?}", self.schedule)),
            ("evaluation", self.rest.clone()),
        ];
        let mut facts = session.cluster.facts();
        facts.extend(own.map(|(name, value)| (name.to_string(), value)));
        facts.extend(session.inputs.facts());
        facts
    }
}

impl Watcher {
    /// To be called when all inputs have been read: fails if one of them has changed since it was hashed. All workers of a
    /// process get the same answer.
    pub fn has_read(&self) -> Result<()> {
        let look = || self.inputs.check_unchanged(|_| true).err().map(|error| error.to_string());
        self.changed.get_or_init(look).clone().map_or(Ok(()), |why| Err(Error::Input(why)))
    }

    /// Notes how far the training has come.
    pub fn at(&self, sweep: u64) {
        *self.sweep.lock().expect("a number") = sweep;
    }

    /// What is known of every round.
    pub fn metrics(&self, round: &Round) -> Value {
        json!({
            "sweep": round.sweep, "sweeps": round.sweeps, "tokens": round.tokens, "seconds": round.seconds,
            "tokens_per_second": round.tokens as f64 / round.seconds, "sweep_seconds": round.sweep_seconds, "sync_seconds": round.sync_seconds,
            "sync_bytes": round.sync_bytes, "learn_seconds": round.learn_seconds, "checkpointed": round.checkpointed,
        })
    }

    /// Adds a round to the metrics, and says where a checkpoint failed.
    pub fn tell(&self, round: &Round, line: &Value) {
        if let Some(error) = &round.checkpoint_error {
            say!(
                "sawmill: sweep {}: the checkpoint could not be written ({error}); the one before it stays",
                round.sweep
            );
        }
        if let Some(folder) = &self.folder {
            let _ = record_metrics(folder, line); // missing metrics are no reason to stop
        }
    }
}
