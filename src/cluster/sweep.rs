//! The sweep driver: one loop for every job that passes over its shards again and again.
//!
//! A model gives the driver: a shard's state drawn for the first time; a pass over a shard against the counts as they
//! stood at the last synchronisation; what the shard has changed; and how to learn hyperparameters from statistics of
//! all shards. The driver gives the model: shards, synchronisation every `sync_every` sweeps, evaluation, checkpoints.
//!
//! Shards are logical. A worker owns those whose number is its own modulo the number of workers, and treats each as if
//! it were alone: between two synchronisations, a shard sees the others' counts as they were and its own live. So
//! nothing depends on how many workers there are, and a checkpoint written by some is read by any other number.
//!
//! The loop of worker w, all workers in step:
//!
//! ```text
//! prepare; shards of w: load, or draw    ->  counts: exchanged, merged
//! repeat: sweep own shards      ->  changes: exchanged, merged      (operators/route.rs), phase by phase
//!         statistics of shards  ->  in shard order, to everybody    (operators/all_gather.rs) -> hyperparameters
//!         evaluate, checkpoint, stop: at the same sweep for all
//! ```

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use timely::worker::Worker;

use super::checkpoint::{Checkpoints, Part};
use super::heartbeat::Heartbeat;
use super::operators::all_gather::AllGather;
use super::operators::route::Route;
use super::own::Own;
use super::stop::{CurrentPhase, Phase};
use crate::error::{Error, Result};

/// A model that is trained by sweeps over shards. Every worker has one, with its own shards' latent variables and the
/// counts that these shards need.
pub trait Model {
    /// The latent variables of one shard, as a checkpoint keeps them: free of anything that depends on the worker.
    type Saved: Serialize + DeserializeOwned;
    /// What all workers share beside the counts: hyperparameters.
    type Shared: Serialize + DeserializeOwned;

    /// Comes before shards are drawn or loaded: whatever workers have to exchange first. Everybody is called.
    fn prepare(&mut self, _post: &mut Post<'_>) {}

    /// Called on every worker before the sweeps between two rounds of learning.
    fn begin_sweeps(&mut self, _sweeps: &Range<u64>) {}

    /// In how many phases shards are drawn (`is_first`) or swept over, with a synchronisation after each.
    fn phases(&self, _is_first: bool) -> u32 {
        1
    }

    /// Draws the latent variables of a shard for the first time, or those of a phase.
    fn draw_shard(&mut self, number: u32, phase: u32);

    /// Takes the latent variables of a shard from a checkpoint; refuses what cannot be this shard's.
    fn load_shard(&mut self, number: u32, saved: Self::Saved) -> std::result::Result<(), String>;

    fn save_shard(&self, number: u32) -> Self::Saved;

    /// Notes everything in a shard as changed: where the counts start from nothing.
    fn count_shard(&mut self, number: u32);

    /// Passes over a shard for each of `sweeps`, or over its part in a phase; notes what it changed, and returns the counts
    /// to where they were.
    fn sweep_shard(&mut self, number: u32, sweeps: Range<u64>, phase: u32);

    /// Gives what the own shards have noted since the last call, and takes what those of all workers have. Everybody is
    /// called, the same number of times.
    fn synchronise(&mut self, post: &mut Post<'_>);

    /// What [`Model::learn`] needs of a shard after a synchronisation. Sums of integers are exact in floats.
    fn statistics(&mut self, number: u32, sweep: u64) -> Vec<f64>;

    /// Learns hyperparameters from the statistics of all shards, in their order: the same on every worker.
    fn learn(&mut self, statistics: &[Vec<f64>], sweep: u64);

    /// Whether what is left of the sweeps has nothing to do: asked after [`Model::learn`], the same on every worker.
    fn is_done(&self) -> bool {
        false
    }

    /// Exchanges what evaluation needs: called on every worker before [`Model::evaluate`] is, for each own shard.
    fn prepare_evaluation(&mut self, _post: &mut Post<'_>, _sweep: u64) {}

    /// Held-out figures of a shard, to be added up in shard order.
    fn evaluate(&mut self, number: u32, sweep: u64) -> Vec<f64>;

    /// What else is to be told of the model where it was evaluated, by the first worker.
    fn snapshot(&self) -> Vec<f64> {
        vec![]
    }

    /// Comes after the last sweep, if training was not stopped: brings together what is written by one worker. Everybody is
    /// called.
    fn finish(&mut self, _post: &mut Post<'_>) {}

    fn shared(&self) -> Self::Shared;
    fn set_shared(&mut self, shared: Self::Shared);

    /// Tokens of a shard, for speed.
    fn tokens(&self, number: u32) -> u64;
}

/// A worker's way to the others, in a synchronisation.
pub struct Post<'a> {
    worker: &'a mut Worker,
    route: &'a mut Route,
    phase: Option<u32>,
}

impl Post<'_> {
    /// The phase of a sweep that is synchronised; none outside of sweeps.
    pub fn phase(&self) -> Option<u32> {
        self.phase
    }

    /// This worker's number.
    pub fn index(&self) -> usize {
        self.worker.index()
    }

    /// How many workers there are.
    pub fn peers(&self) -> usize {
        self.worker.peers()
    }

    /// Sends each worker a letter, and returns the letters of all to this one, by sender.
    pub fn exchange(&mut self, letters: Vec<Vec<u32>>) -> Vec<Vec<u32>> {
        self.route.exchange(self.worker, letters)
    }
}

/// When what is done.
#[derive(Clone, Debug)]
pub struct Schedule {
    pub shards: u32,
    pub sweeps: u64,
    pub sync_every: u64,
    /// 0: only at the end.
    pub evaluate_every: u64,
    /// 0: only when stopped and at the end.
    pub checkpoint_every: u64,
}

/// What the driver of a process is given beside the model.
#[derive(Clone)]
pub struct Control {
    pub checkpoints: Checkpoints,
    /// What is said before a line of a stage.
    pub stage: String,
    /// Whether to go on from a checkpoint, where there is one.
    pub resume: bool,
    /// Set when the process is asked to stop.
    pub stop: Arc<AtomicBool>,
    /// What the workers are at, for whoever must end the process in time.
    pub phase: Arc<CurrentPhase>,
    /// Set when training has ended early, since this or another process was asked to stop.
    pub stopped: Arc<AtomicBool>,
    pub heartbeat: Arc<Heartbeat>,
}

impl Control {
    /// A run that starts in `folder`, and that nobody stops.
    #[cfg(test)]
    pub fn of_test(folder: &std::path::Path) -> Control {
        Control {
            checkpoints: Checkpoints::new(folder.to_path_buf(), Default::default()),
            phase: Default::default(),
            stage: String::new(),
            resume: false,
            stop: Default::default(),
            stopped: Default::default(),
            heartbeat: Default::default(),
        }
    }

    /// The same for a stage of a job, which has checkpoints of its own.
    pub fn of_stage(&self, name: &str) -> Control {
        Control { checkpoints: self.checkpoints.of_stage(name), stage: format!("{name}: "), ..self.clone() }
    }
}

/// What is known after a synchronisation.
#[derive(Clone, Debug, Default)]
pub struct Round {
    pub sweep: u64,
    pub sweeps: u64,
    pub tokens: u64,
    /// Wall-clock seconds of the round.
    pub seconds: f64,
    /// Seconds of sweeping of the slowest worker.
    pub sweep_seconds: f64,
    /// Seconds of the synchronisation, waiting for slower workers not counted.
    pub sync_seconds: f64,
    pub sync_bytes: u64,
    /// Seconds of learning hyperparameters, on this worker.
    pub learn_seconds: f64,
    /// Sum over shards of what the model evaluated; empty where it was not evaluated.
    pub evaluation: Vec<f64>,
    /// What the model told of itself there.
    pub snapshot: Vec<f64>,
    /// Whether this is a round of before a crash, of which only the evaluation is known.
    pub is_past: bool,
    /// Sum over shards of the statistics.
    pub statistics: Vec<f64>,
    /// Why a checkpoint that was due could not be written.
    pub checkpoint_error: Option<String>,
    pub checkpointed: bool,
}

/// How training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All sweeps are done, and the last checkpoint holds them.
    Done,
    /// Asked to stop: the last checkpoint holds what was done.
    Stopped,
}

/// What a worker says of its round.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Report {
    stop: bool,
    tokens: u64,
    sweep_seconds: f64,
    sync_seconds: f64,
    sync_bytes: u64,
}

/// Evaluations, which are kept with checkpoints so that the report of a resumed run has all of them.
type History = Vec<(u64, Vec<f64>, Vec<f64>)>;

/// The sweep after which the leader goes on, or why it refuses to.
type Choice = std::result::Result<Option<u64>, String>;

/// What a worker says of its parts of a checkpoint, or why they could not be written.
type Written = std::result::Result<Vec<Part>, String>;

/// Trains `model` as `schedule` says. Every worker calls this; worker 0 shows `tell` each round. A checkpoint that cannot
/// be read is an error of the run folder and ends the job.
pub fn train<M: Model>(
    worker: &mut Worker,
    model: M,
    schedule: &Schedule,
    control: &Control,
    mut tell: impl FnMut(&M, &Round),
) -> Result<(M, End)> {
    let mut driver = Driver::new(worker, model, schedule, control);
    control.phase.set(Phase::Sweeping);
    let mut sweep = driver.begin(worker)?;
    if sweep == schedule.sweeps && driver.history.last().is_none_or(|(last, ..)| *last != sweep) {
        driver.evaluate_at(worker, sweep); // the checkpoint is from before it
    }
    if worker.index() == 0 {
        for (sweep, evaluation, snapshot) in driver.history.clone() {
            tell(&driver.model, &Round { sweep, evaluation, snapshot, is_past: true, ..Round::default() });
        }
    }
    while sweep < schedule.sweeps {
        let began = Instant::now();
        let next = next_multiple(sweep, schedule.sync_every).min(schedule.sweeps);
        let mut round = Round { sweep: next, sweeps: next - sweep, ..Round::default() };
        let report = driver.sweep_and_merge(worker, sweep..next);
        sweep = next;
        let learning = Instant::now();
        round.statistics = driver.learn(worker, sweep);
        round.learn_seconds = learning.elapsed().as_secs_f64();
        let is_last = next == schedule.sweeps || driver.model.is_done();
        // A longer chain does not evaluate where this one ends, so the last checkpoint must not know of it.
        let is_due_here = is_due(sweep, schedule.evaluate_every) || (is_last && next < schedule.sweeps);
        if is_due_here {
            (round.evaluation, round.snapshot) = driver.evaluate_at(worker, sweep);
        }
        let is_stopped = driver.share(worker, report, &mut round) && !is_last;
        if is_due(sweep, schedule.checkpoint_every) || is_last || is_stopped {
            control.phase.set(Phase::Saving);
            let result = driver.checkpoint(worker, sweep);
            control.phase.set(Phase::Sweeping);
            round.checkpointed = result.is_ok();
            round.checkpoint_error = result.err();
        }
        if is_last && !is_due_here {
            (round.evaluation, round.snapshot) = driver.evaluate_at(worker, sweep);
        }
        control.heartbeat.synchronised(sweep);
        round.seconds = began.elapsed().as_secs_f64();
        if worker.index() == 0 {
            tell(&driver.model, &round);
        }
        if let (true, Some(error)) = (is_stopped || is_last, &round.checkpoint_error) {
            return Err(Error::Usage(format!("the last checkpoint could not be written: {error}")));
        }
        if is_stopped {
            control.stopped.store(true, Ordering::Relaxed);
            return Ok((driver.model, End::Stopped));
        }
        if is_last {
            break;
        }
    }
    driver.with_post(worker, None, |model, post| model.finish(post));
    Ok((driver.model, End::Done))
}

/// One worker's part of the loop: its model, its shards, and its ends of the exchanges.
struct Driver<'a, M: Model> {
    model: M,
    schedule: &'a Schedule,
    control: &'a Control,
    /// Evaluations so far: the sweep, what the model evaluated, and what it told of itself.
    history: History,
    mine: Vec<u32>,
    route: Route,
    figures: AllGather<Vec<f64>>,
    reports: AllGather<Report>,
    choices: AllGather<Choice>,
    written: AllGather<Written>,
}

impl<'a, M: Model> Driver<'a, M> {
    fn new(worker: &mut Worker, model: M, schedule: &'a Schedule, control: &'a Control) -> Driver<'a, M> {
        Driver {
            model,
            schedule,
            control,
            history: vec![],
            mine: Own::of(worker).below(schedule.shards).collect(),
            route: Route::new(worker, "Synchronisation"),
            figures: AllGather::new(worker, "Figures"),
            reports: AllGather::new(worker, "Reports"),
            choices: AllGather::new(worker, "Choices"),
            written: AllGather::new(worker, "Written"),
        }
    }

    /// Loads or draws the shards and merges their counts; returns the sweep that they stand at.
    fn begin(&mut self, worker: &mut Worker) -> Result<u64> {
        self.with_post(worker, None, |model, post| model.prepare(post));
        let start = self.choose_start(worker)?;
        match start {
            Some(sweep) => self.load_all(worker, sweep)?,
            None => self.draw(worker),
        }
        self.mine.iter().for_each(|&number| self.model.count_shard(number));
        self.synchronise(worker, None);
        self.take_sent_bytes();
        Ok(start.unwrap_or(0))
    }

    /// Every worker loads its part; where one cannot, all end, and none waits for it.
    fn load_all(&mut self, worker: &mut Worker, sweep: u64) -> Result<()> {
        let outcome = self.load(sweep).map(|()| vec![]).map_err(|e| e.to_string());
        for (_, outcome) in self.written.exchange(worker, vec![(worker.index() as u64, outcome)]) {
            outcome.map_err(Error::Input)?;
        }
        Ok(())
    }

    /// Loads the own shards, and what is shared.
    fn load(&mut self, sweep: u64) -> Result<()> {
        let checkpoints = &self.control.checkpoints;
        for &number in &self.mine {
            let saved = read_part(checkpoints, sweep, &part_name(number))?;
            self.model.load_shard(number, saved).map_err(Error::Input)?;
        }
        let (shared, history) = read_part::<(M::Shared, History)>(checkpoints, sweep, SHARED)?;
        self.model.set_shared(shared);
        self.history = history;
        Ok(())
    }

    /// Draws the own shards, a phase after the other. The last one is not synchronised yet.
    fn draw(&mut self, worker: &mut Worker) {
        for phase in 0..self.model.phases(true) {
            if phase > 0 {
                self.synchronise(worker, None);
            }
            for &number in &self.mine {
                self.model.draw_shard(number, phase);
                self.control.heartbeat.progressed();
            }
        }
    }

    /// The leader chooses the checkpoint to continue from, so that all choose the same.
    fn choose_start(&mut self, worker: &mut Worker) -> Result<Option<u64>> {
        let index = worker.index() as u64;
        let choice = if index == 0 && self.control.resume { self.find_checkpoint() } else { Ok(None) };
        let mut choices = self.choices.exchange(worker, vec![(index, choice)]);
        choices.swap_remove(0).1.map_err(Error::Usage)
    }

    /// The newest checkpoint that is on the way of this chain: one at the end of a shorter chain whose sweeps are not a multiple of
    /// `sync_every` was synchronised where a longer one is not.
    fn find_checkpoint(&self) -> Choice {
        let Schedule { sweeps, sync_every, .. } = self.schedule;
        let is_usable = |sweep| sweep == *sweeps || (sweep < *sweeps && is_due(sweep, (*sync_every).max(1)));
        let found = self.control.checkpoints.find(is_usable).map_err(|e| e.to_string())?;
        found.complaints.iter().for_each(|complaint| say!("sawmill: checkpoint refused: {complaint}"));
        match found.sweep {
            Some(sweep) => say!("sawmill: {}going on after sweep {sweep}", self.control.stage),
            None if self.control.checkpoints.exist() => {
                say!(
                    "sawmill: {}no checkpoint can be continued; starting again from the first sweep",
                    self.control.stage
                );
            }
            None => {}
        }
        Ok(found.sweep)
    }

    fn synchronise(&mut self, worker: &mut Worker, phase: Option<u32>) {
        self.with_post(worker, phase, |model, post| model.synchronise(post));
    }

    /// Lets the model talk to the other workers.
    fn with_post(&mut self, worker: &mut Worker, phase: Option<u32>, talk: impl FnOnce(&mut M, &mut Post<'_>)) {
        talk(&mut self.model, &mut Post { worker, route: &mut self.route, phase });
    }

    /// Bytes that this worker has sent in synchronisations since the last call.
    fn take_sent_bytes(&mut self) -> u64 {
        self.route.take_sent_bytes()
    }

    /// Sweeps over the own shards and merges what all have changed.
    fn sweep_and_merge(&mut self, worker: &mut Worker, sweeps: Range<u64>) -> Report {
        let (mut sweep_seconds, mut sync_seconds) = (0.0, 0.0);
        self.model.begin_sweeps(&sweeps);
        for phase in 0..self.model.phases(false) {
            if phase > 0 {
                self.control.heartbeat.met();
            }
            let began = Instant::now();
            for &number in &self.mine {
                self.model.sweep_shard(number, sweeps.clone(), phase);
                self.control.heartbeat.progressed();
            }
            let swept = began.elapsed().as_secs_f64();
            sweep_seconds += swept;
            self.control.heartbeat.waits(sweep_seconds);
            self.synchronise(worker, Some(phase));
            sync_seconds += began.elapsed().as_secs_f64() - swept;
        }
        let tokens: u64 = self.mine.iter().map(|&number| self.model.tokens(number)).sum();
        Report {
            stop: false,
            tokens: tokens * (sweeps.end - sweeps.start),
            sweep_seconds,
            sync_seconds,
            sync_bytes: self.take_sent_bytes(),
        }
    }

    /// Learns hyperparameters; returns the sum of the statistics.
    fn learn(&mut self, worker: &mut Worker, sweep: u64) -> Vec<f64> {
        let all = self.gather(worker, |model, number| model.statistics(number, sweep));
        self.model.learn(&all, sweep);
        add_up(&all)
    }

    /// Evaluates and adds the result to the history; returns the sum over shards, and the model's snapshot.
    fn evaluate_at(&mut self, worker: &mut Worker, sweep: u64) -> (Vec<f64>, Vec<f64>) {
        self.with_post(worker, None, |model, post| model.prepare_evaluation(post, sweep));
        let evaluation = add_up(&self.gather(worker, |model, number| model.evaluate(number, sweep)));
        let snapshot = self.model.snapshot();
        self.history.push((sweep, evaluation.clone(), snapshot.clone()));
        (evaluation, snapshot)
    }

    /// Figures of every shard, in shard order.
    fn gather(&mut self, worker: &mut Worker, figures: impl Fn(&mut M, u32) -> Vec<f64>) -> Vec<Vec<f64>> {
        let mut mine = Vec::new();
        for &number in &self.mine {
            mine.push((u64::from(number), figures(&mut self.model, number)));
            self.control.heartbeat.progressed();
        }
        self.figures.exchange(worker, mine).into_iter().map(|(_, figures)| figures).collect()
    }

    /// Tells the others of the round, and hears of theirs; returns whether anybody was asked to stop.
    fn share(&mut self, worker: &mut Worker, mut report: Report, round: &mut Round) -> bool {
        report.stop = self.control.stop.load(Ordering::Relaxed);
        let all = self.reports.exchange(worker, vec![(worker.index() as u64, report)]);
        // The worker that waited least for the others shows what the exchange itself took.
        round.sync_seconds = all.iter().map(|(_, report)| report.sync_seconds).fold(f64::MAX, f64::min);
        for (_, report) in &all {
            round.tokens += report.tokens;
            round.sync_bytes += report.sync_bytes;
            round.sweep_seconds = round.sweep_seconds.max(report.sweep_seconds);
        }
        all.iter().any(|(_, report)| report.stop)
    }

    /// Every worker writes its shards, the leader what is shared; when all are on disk, the leader makes them count.
    fn checkpoint(&mut self, worker: &mut Worker, sweep: u64) -> std::result::Result<(), String> {
        let index = worker.index() as u64;
        let mut parts = Vec::new();
        let outcome = self.write_parts(index, sweep).map_err(|e| e.to_string());
        for (_, outcome) in self.written.exchange(worker, vec![(index, outcome)]) {
            parts.extend(outcome?);
        }
        parts.sort_by(|a, b| a.name.cmp(&b.name));
        // The others wait for the leader's word, so that nobody ends while the checkpoint does not count yet.
        let committed: Written = match index {
            0 => self.control.checkpoints.commit(sweep, parts).map(|()| vec![]).map_err(|e| e.to_string()),
            _ => Ok(vec![]),
        };
        for (_, outcome) in self.written.exchange(worker, vec![(index, committed)]) {
            outcome?;
        }
        Ok(())
    }

    fn write_parts(&self, index: u64, sweep: u64) -> std::io::Result<Vec<Part>> {
        let checkpoints = &self.control.checkpoints;
        let mut parts = Vec::new();
        for &number in &self.mine {
            parts.push(checkpoints.write_part(sweep, &part_name(number), &self.model.save_shard(number))?);
        }
        if index == 0 {
            parts.push(checkpoints.write_part(sweep, SHARED, &(self.model.shared(), &self.history))?);
        }
        Ok(parts)
    }
}

/// The part with what all workers share.
pub const SHARED: &str = "shared";

/// The part of a shard.
pub fn part_name(shard: u32) -> String {
    format!("shard-{shard:05}")
}

fn read_part<T: DeserializeOwned>(checkpoints: &Checkpoints, sweep: u64, name: &str) -> Result<T> {
    checkpoints.read_part(sweep, name).map_err(|e| Error::Input(e.to_string()))
}

fn is_due(sweep: u64, every: u64) -> bool {
    every > 0 && sweep.is_multiple_of(every)
}

/// The next multiple of `step` above `at`.
fn next_multiple(at: u64, step: u64) -> u64 {
    (at / step.max(1) + 1) * step.max(1)
}

/// Adds vectors up in their order, which fixes every rounding.
pub fn add_up(vectors: &[Vec<f64>]) -> Vec<f64> {
    let mut sum = vec![0.0; vectors.iter().map(Vec::len).max().unwrap_or(0)];
    for vector in vectors {
        sum.iter_mut().zip(vector).for_each(|(total, value)| *total += value);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts nothing; one of its shards may be refused.
    struct Nothing {
        refused: Option<u32>,
    }

    impl Model for Nothing {
        type Saved = ();
        type Shared = ();

        fn draw_shard(&mut self, _: u32, _: u32) {}

        fn load_shard(&mut self, number: u32, (): ()) -> std::result::Result<(), String> {
            if self.refused == Some(number) { Err(format!("shard {number} is another")) } else { Ok(()) }
        }

        fn save_shard(&self, _: u32) {}

        fn count_shard(&mut self, _: u32) {}

        fn sweep_shard(&mut self, _: u32, _: Range<u64>, _: u32) {}

        fn synchronise(&mut self, _: &mut Post<'_>) {}

        fn statistics(&mut self, _: u32, _: u64) -> Vec<f64> {
            vec![]
        }

        fn learn(&mut self, _: &[Vec<f64>], _: u64) {}

        fn evaluate(&mut self, _: u32, _: u64) -> Vec<f64> {
            vec![]
        }

        fn shared(&self) {}

        fn set_shared(&mut self, (): ()) {}

        fn tokens(&self, _: u32) -> u64 {
            0
        }
    }

    #[test]
    fn where_one_worker_cannot_load_its_shard_all_end() {
        let folder = tempfile::tempdir().unwrap();
        let run = |resume: bool, refused: Option<u32>| {
            let path = folder.path().to_path_buf();
            let program = move |worker: &mut Worker| {
                let schedule = Schedule { shards: 5, sweeps: 2, sync_every: 1, evaluate_every: 0, checkpoint_every: 1 };
                let control = Control { resume, ..Control::of_test(&path) };
                let trained = train(worker, Nothing { refused }, &schedule, &control, |_, _| ());
                trained.map(|(_, end)| end).map_err(|e| e.to_string())
            };
            let guards = timely::execute(timely::Config::process(3), program).unwrap();
            guards.join().into_iter().map(|ended| ended.unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(run(false, None), vec![Ok(End::Done); 3]);
        assert_eq!(run(true, None), vec![Ok(End::Done); 3]);
        assert_eq!(run(true, Some(4)), vec![Err("shard 4 is another".to_string()); 3]);
    }
}
