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
//! shards of w: load, or draw    ->  counts: exchanged, merged
//! repeat: sweep own shards      ->  changes: exchanged, merged      (operators/merge_rows.rs)
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
use super::operators::merge_rows::MergeRows;
use super::rows::Rows;
use crate::error::{Error, Result};

/// A model that is trained by sweeps over shards. Every worker has one, with its own shards' latent variables and the
/// counts that these shards need.
pub trait Model {
    /// The latent variables of one shard, as a checkpoint keeps them: free of anything that depends on the worker.
    type Saved: Serialize + DeserializeOwned;
    /// What all workers share beside the counts: hyperparameters.
    type Shared: Serialize + DeserializeOwned;

    /// Rows and columns of the table of counts, and the rows that this worker wants to hear of.
    fn table(&self) -> (u32, usize, Vec<u32>);

    /// Draws the latent variables of a shard for the first time.
    fn draw_shard(&mut self, number: u32);

    /// Takes the latent variables of a shard from a checkpoint; refuses what cannot be this shard's.
    fn load_shard(&mut self, number: u32, saved: Self::Saved) -> std::result::Result<(), String>;

    fn save_shard(&self, number: u32) -> Self::Saved;

    /// Notes everything in a shard as changed: where the counts start from nothing.
    fn count_shard(&mut self, number: u32);

    /// Passes over a shard for each of `sweeps`, notes what it changed, and returns the counts to where they were.
    fn sweep_shard(&mut self, number: u32, sweeps: Range<u64>);

    /// What was noted since the last call, of all shards together.
    fn take_changes(&mut self) -> Rows;

    /// Takes the changes of all workers, packed.
    fn apply(&mut self, changes: &[u32]);

    /// What [`Model::learn`] needs of a shard after a synchronisation. Sums of integers are exact in floats.
    fn statistics(&mut self, number: u32, sweep: u64) -> Vec<f64>;

    /// Learns hyperparameters from the statistics of all shards, in their order: the same on every worker.
    fn learn(&mut self, statistics: &[Vec<f64>], sweep: u64);

    /// Held-out figures of a shard, to be added up in shard order.
    fn evaluate(&mut self, number: u32, sweep: u64) -> Vec<f64>;

    fn shared(&self) -> Self::Shared;
    fn set_shared(&mut self, shared: Self::Shared);

    /// Tokens of a shard, for speed.
    fn tokens(&self, number: u32) -> u64;
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
    /// Whether to go on from a checkpoint, where there is one.
    pub resume: bool,
    /// Set when the process is asked to stop.
    pub stop: Arc<AtomicBool>,
    pub heartbeat: Arc<Heartbeat>,
}

/// What is known after a synchronisation.
#[derive(Clone, Debug, Default)]
pub struct Round {
    pub sweep: u64,
    pub sweeps: u64,
    pub tokens: u64,
    /// Wall-clock seconds of the round, and the largest and the sum of the workers' seconds in each of its parts.
    pub seconds: f64,
    pub sweep_seconds: f64,
    pub sync_seconds: f64,
    pub sync_bytes: u64,
    /// Sum over shards of what the model evaluated; empty where it was not evaluated.
    pub evaluation: Vec<f64>,
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

/// What a worker says of its parts of a checkpoint: their names, or why they could not be written.
type Written = std::result::Result<Vec<(String, u64, String)>, String>;

/// Trains `model` as `schedule` says. Every worker calls this; worker 0 shows `tell` each round. A checkpoint that cannot
/// be read is an error of the run folder and ends the job.
pub fn train<M: Model>(
    worker: &mut Worker,
    mut model: M,
    schedule: &Schedule,
    control: &Control,
    mut tell: impl FnMut(&M, &Round),
) -> Result<(M, End)> {
    let (index, peers) = (worker.index() as u32, worker.peers() as u32);
    let mine: Vec<u32> = (0..schedule.shards).filter(|shard| shard % peers == index).collect();
    let (row_count, columns, held) = model.table();
    let mut merge = MergeRows::new(worker, row_count, columns, held);
    let mut figures = AllGather::<Vec<f64>>::new(worker, "Figures");
    let mut reports = AllGather::<Report>::new(worker, "Reports");
    let mut choices = AllGather::<Option<u64>>::new(worker, "Choices");
    let mut written = AllGather::<Written>::new(worker, "Written");

    // The leader chooses where to go on from, so that all choose the same.
    let found = (index == 0 && control.resume).then(|| control.checkpoints.find());
    for complaint in found.iter().flat_map(|(_, complaints)| complaints) {
        eprintln!("sawmill: checkpoint refused: {complaint}");
    }
    let choice = choices.exchange(worker, vec![(u64::from(index), found.and_then(|(sweep, _)| sweep))]);
    let start = choice.first().and_then(|(_, sweep)| *sweep);
    for &number in &mine {
        match start {
            Some(sweep) => {
                let saved = read_part(&control.checkpoints, sweep, &part_name(number))?;
                model.load_shard(number, saved).map_err(Error::Input)?;
            }
            None => model.draw_shard(number),
        }
    }
    if let Some(sweep) = start {
        model.set_shared(read_part(&control.checkpoints, sweep, SHARED)?);
        if index == 0 {
            eprintln!("sawmill: going on after sweep {sweep}");
        }
    }
    mine.iter().for_each(|&number| model.count_shard(number));
    let changes = model.take_changes();
    merge.exchange(worker, changes).iter().for_each(|block| model.apply(block));
    merge.take_sent_bytes();

    let mut sweep = start.unwrap_or(0);
    while sweep < schedule.sweeps {
        let began = Instant::now();
        let next = next_multiple(sweep, schedule.sync_every).min(schedule.sweeps);
        for &number in &mine {
            model.sweep_shard(number, sweep..next);
            control.heartbeat.progressed();
        }
        let changes = model.take_changes();
        let sweep_seconds = began.elapsed().as_secs_f64();
        control.heartbeat.waits();
        merge.exchange(worker, changes).iter().for_each(|block| model.apply(block));
        let sync_seconds = began.elapsed().as_secs_f64() - sweep_seconds;
        let tokens: u64 = mine.iter().map(|&number| model.tokens(number)).sum();
        let mut round = Round { sweep: next, sweeps: next - sweep, ..Round::default() };
        sweep = next;

        let statistics = mine.iter().map(|&number| (u64::from(number), model.statistics(number, sweep))).collect();
        let statistics: Vec<Vec<f64>> =
            figures.exchange(worker, statistics).into_iter().map(|(_, figures)| figures).collect();
        model.learn(&statistics, sweep);
        round.statistics = add_up(&statistics);
        if is_due(sweep, schedule.evaluate_every) || sweep == schedule.sweeps {
            let mut evaluate = |&number: &u32| {
                let figures = model.evaluate(number, sweep);
                control.heartbeat.progressed();
                (u64::from(number), figures)
            };
            let mine = mine.iter().map(&mut evaluate).collect();
            let all: Vec<Vec<f64>> = figures.exchange(worker, mine).into_iter().map(|(_, figures)| figures).collect();
            round.evaluation = add_up(&all);
        }
        let report = Report {
            stop: control.stop.load(Ordering::Relaxed),
            tokens: tokens * round.sweeps,
            sweep_seconds,
            sync_seconds,
            sync_bytes: merge.take_sent_bytes(),
        };
        let all = reports.exchange(worker, vec![(u64::from(index), report)]);
        let is_stopped = all.iter().any(|(_, report)| report.stop) && sweep < schedule.sweeps;
        for (_, report) in &all {
            round.tokens += report.tokens;
            round.sync_bytes += report.sync_bytes;
            round.sweep_seconds = round.sweep_seconds.max(report.sweep_seconds);
            // The worker that waited least shows what the exchange itself took.
            round.sync_seconds = if round.sync_seconds == 0.0 {
                report.sync_seconds
            } else {
                round.sync_seconds.min(report.sync_seconds)
            };
        }
        if is_due(sweep, schedule.checkpoint_every) || sweep == schedule.sweeps || is_stopped {
            let result = checkpoint(worker, &mut written, control, sweep, &model, &mine);
            round.checkpointed = result.is_ok();
            round.checkpoint_error = result.err();
        }
        control.heartbeat.synchronised(sweep, sweep_seconds);
        round.seconds = began.elapsed().as_secs_f64();
        if index == 0 {
            tell(&model, &round);
        }
        if let (true, Some(error)) = (is_stopped || sweep == schedule.sweeps, &round.checkpoint_error) {
            return Err(Error::Usage(format!("the last checkpoint could not be written: {error}")));
        }
        if is_stopped {
            return Ok((model, End::Stopped));
        }
    }
    Ok((model, End::Done))
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

/// Every worker writes its shards, the leader what is shared; when all are on disk, the leader makes them count.
fn checkpoint<M: Model>(
    worker: &mut Worker,
    written: &mut AllGather<Written>,
    control: &Control,
    sweep: u64,
    model: &M,
    mine: &[u32],
) -> std::result::Result<(), String> {
    let index = worker.index() as u64;
    let write = || -> std::io::Result<Vec<Part>> {
        let mut parts = Vec::new();
        for &number in mine {
            parts.push(control.checkpoints.write_part(sweep, &part_name(number), &model.save_shard(number))?);
        }
        if index == 0 {
            parts.push(control.checkpoints.write_part(sweep, SHARED, &model.shared())?);
        }
        Ok(parts)
    };
    let outcome: Written = match write() {
        Ok(parts) => Ok(parts.into_iter().map(|part| (part.name, part.bytes, part.xxh3)).collect()),
        Err(e) => Err(e.to_string()),
    };
    let mut parts = Vec::new();
    for (_, outcome) in written.exchange(worker, vec![(index, outcome)]) {
        parts.extend(outcome?.into_iter().map(|(name, bytes, xxh3)| Part { name, bytes, xxh3 }));
    }
    parts.sort_by(|a, b| a.name.cmp(&b.name));
    // The others wait for the leader's word, so that nobody ends while the checkpoint does not count yet.
    let committed: Written = match index {
        0 => control.checkpoints.commit(sweep, parts).map(|()| vec![]).map_err(|e| e.to_string()),
        _ => Ok(vec![]),
    };
    for (_, outcome) in written.exchange(worker, vec![(index, committed)]) {
        outcome?;
    }
    Ok(())
}

fn is_due(sweep: u64, every: u64) -> bool {
    every > 0 && sweep.is_multiple_of(every)
}

/// The next multiple of `step` above `at`.
fn next_multiple(at: u64, step: u64) -> u64 {
    (at / step.max(1) + 1) * step.max(1)
}

/// Adds vectors up in their order, which fixes every rounding.
fn add_up(vectors: &[Vec<f64>]) -> Vec<f64> {
    let mut sum = vec![0.0; vectors.iter().map(Vec::len).max().unwrap_or(0)];
    for vector in vectors {
        sum.iter_mut().zip(vector).for_each(|(total, value)| *total += value);
    }
    sum
}
