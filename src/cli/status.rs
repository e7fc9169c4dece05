//! `sawmill status`: how far a run has come, from its folder.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use super::print;
use crate::cluster::checkpoint;
use crate::cluster::heartbeat::{self, Sign};
use crate::error::{Result, exit};
use crate::job::folder::LOCK;
use crate::job::manifest::{Manifest, State, now};
use crate::study::results::Listing;

#[derive(Args)]
pub struct Status {
    /// The run folder
    run: PathBuf,
}

impl Status {
    pub fn run(&self) -> Result<u8> {
        let manifest = Manifest::load(&self.run)?;
        let is_active = matches!(manifest.state, State::Running | State::Watching);
        // A run holds the lock while it lives, however it ends. Shared, so that two who look do not see each other.
        let is_alive = File::open(self.run.join(LOCK))
            .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)));
        let state = match manifest.state {
            State::Running if is_alive => "running".to_string(),
            State::Watching if is_alive => "watching for changes".to_string(),
            State::Running | State::Watching => {
                let has_checkpoint = checkpoint::last(&self.run.join("checkpoints")).is_some();
                let how =
                    if has_checkpoint { "run the job again to go on from its checkpoint" } else { "run the job again" };
                format!("died (its process is gone); {how}")
            }
            State::Done => "done".to_string(),
            State::Stopped => "stopped with a checkpoint; run the job again to go on".to_string(),
            State::Failed => format!("failed: {}", manifest.error.as_deref().unwrap_or("no reason given")),
        };
        let mut text = format!("{}: {} job, {state}\n", self.run.display(), manifest.kind);
        let processes =
            if manifest.processes == 1 { "1 process" } else { &format!("{} processes", manifest.processes) };
        text += &format!("workers: {} in {processes}\n", manifest.workers);
        let elapsed = if is_active { now().saturating_sub(manifest.started) as f64 } else { manifest.seconds };
        text += &format!("time: {elapsed:.1} s\n");
        text += &match manifest.kind.as_str() {
            "study" => variants(&self.run, manifest.processes),
            _ => figures(&self.run, manifest.processes).unwrap_or_default(),
        };
        let report = self.run.join("report").join("index.html");
        if report.exists() {
            text += &format!("report: {}\n", report.display());
        }
        print(&text)?;
        Ok(exit::DONE)
    }
}

/// How many variants of a study are done, and how far the one has come that is running.
fn variants(run: &Path, processes: usize) -> String {
    let Ok(listing) = Listing::load(run) else { return String::new() };
    let states = listing.states(run);
    let done = states.iter().filter(|state| **state == Some(State::Done)).count();
    let mut text = format!("variants: {done} of {} done\n", states.len());
    for (listed, state) in listing.variants.iter().zip(states) {
        let what = match state {
            Some(State::Running | State::Watching) => "running",
            Some(State::Stopped) => "stopped",
            Some(State::Failed) => "failed",
            Some(State::Done) | None => continue,
        };
        let figures = figures(&run.join(&listed.name), processes).unwrap_or_default();
        text += &format!("{what}: {}\n{figures}", listed.name);
    }
    text
}

/// The last line of the metrics.
fn figures(run: &Path, processes: usize) -> Option<String> {
    let metrics = std::fs::read_to_string(run.join("metrics.jsonl")).ok()?;
    let last: Value = serde_json::from_str(metrics.lines().last()?).ok()?;
    if let (Some(done), Some(all)) = (last["bytes"].as_f64(), last["bytes_total"].as_f64()) {
        let share = (done / all.max(1.0)).min(1.0);
        let seconds = last["seconds"].as_f64()?;
        let left = seconds * (1.0 / share.max(1e-9) - 1.0);
        return Some(format!("progress: {:.0} %, about {left:.0} s to go\n", 100.0 * share));
    }
    if last["sweep"].is_u64() {
        return sweeps(run, &metrics, processes);
    }
    Some(format!("words: {}, {:.0} per second\n", last["tokens"], last["tokens_per_second"].as_f64()?))
}

/// How far training has come, from the metrics of its rounds.
fn sweeps(run: &Path, metrics: &str, processes: usize) -> Option<String> {
    let rounds: Vec<Value> = metrics.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let last = rounds.last()?;
    let sweep = last["sweep"].as_u64()?;
    let seconds = sum(&rounds, "seconds");
    let mut text = match (last["work"].as_f64(), last["work_total"].as_f64()) {
        (Some(done), Some(all)) => {
            let share = (done / all.max(1.0)).clamp(1e-9, 1.0);
            let (stage, sweeps, left) = (title(last)?, &last["stage_sweeps"], seconds * (1.0 / share - 1.0));
            format!("progress: {:.0} %, {stage}, sweep {sweep} of {sweeps}, about {left:.0} s to go\n", 100.0 * share)
        }
        _ => {
            let job = std::fs::read_to_string(run.join("job.toml")).ok()?;
            let all = job.parse::<toml::Table>().ok()?.get("sampler")?.get("sweeps")?.as_integer()? as u64;
            let left = seconds / sum(&rounds, "sweeps").max(1.0) * all.saturating_sub(sweep) as f64;
            format!("progress: sweep {sweep} of {all}, about {left:.0} s to go\n")
        }
    };
    let (sweeping, merging) = (sum(&rounds, "sweep_seconds"), sum(&rounds, "sync_seconds"));
    let begin = rounds.iter().rposition(|round| round["stage"] != last["stage"]).map_or(0, |before| before + 1);
    let late = &rounds[rounds.len().saturating_sub(10).max(begin)..];
    let seconds = sum(late, "sweep_seconds") + sum(late, "sync_seconds");
    let of_stage = title(last).map_or(String::new(), |stage| format!(" ({stage})"));
    text += &format!(
        "speed: {:.0} words per second{of_stage}; synchronisation {:.1} %\n",
        sum(late, "tokens") / seconds.max(1e-9),
        100.0 * merging / (merging + sweeping).max(1e-9)
    );
    if let Some(round) = rounds.iter().rev().find(|round| round["perplexity"].is_number()) {
        let of_stage = title(round).map_or(String::new(), |stage| format!(" of the {stage}"));
        let (perplexity, sweep) = (round["perplexity"].as_f64()?, &round["sweep"]);
        text += &format!("test perplexity{of_stage}: {perplexity:.2} after sweep {sweep}\n");
    }
    text += &last_checkpoint(run);
    text += &slowest(run, processes).unwrap_or_default();
    Some(text)
}

/// The stage of a round, for people, where a job has several.
fn title(round: &Value) -> Option<&str> {
    round["stage_title"].as_str()
}

fn last_checkpoint(run: &Path) -> String {
    match checkpoint::last(&run.join("checkpoints")) {
        Some((stage, sweep, when)) => {
            let ago = when.elapsed().map_or(0, |elapsed| elapsed.as_secs());
            let stage = if stage.is_empty() { stage } else { format!("{stage}, ") };
            format!("last checkpoint: {stage}sweep {sweep}, {ago} s ago\n")
        }
        None => "last checkpoint: none yet\n".to_string(),
    }
}

/// The process that the others wait for, where there are several.
fn slowest(run: &Path, processes: usize) -> Option<String> {
    let signs: Vec<Sign> = (0..processes).filter_map(|process| heartbeat::read(run, process)).collect();
    let by_seconds = |a: &&Sign, b: &&Sign| a.sweep_seconds.total_cmp(&b.sweep_seconds);
    let (slowest, fastest) = (signs.iter().max_by(by_seconds)?, signs.iter().min_by(by_seconds)?);
    (signs.len() > 1).then(|| {
        format!(
            "slowest: process {}, {:.3} s of sweeping in a round; the fastest, process {}, {:.3} s\n",
            slowest.process, slowest.sweep_seconds, fastest.process, fastest.sweep_seconds
        )
    })
}

/// The sum of a figure over rounds.
fn sum(rounds: &[Value], name: &str) -> f64 {
    rounds.iter().filter_map(|round| round[name].as_f64()).sum()
}
