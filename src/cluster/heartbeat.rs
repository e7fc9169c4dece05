//! Signs of life: each process says in the run folder how far it is, and notices when it waits for one that is stuck.
//!
//! timely ends a process when a connection breaks, but a peer that is alive and does nothing (stopped, deadlocked, lost
//! in one shard) would be waited for without end. Every process therefore writes `processes/I.json` every second. One
//! that has waited in a synchronisation for longer than `stall_after` looks which of the others have made no progress
//! for as long, names them and ends, so that the job can be started again from its last checkpoint.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::error::exit;

/// What a process says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sign {
    pub process: usize,
    pub process_id: u32,
    pub sweep: u64,
    /// Milliseconds since 1970 at which a worker last finished something.
    pub progress: u64,
    /// Since when a worker waits for others, or 0.
    pub waiting: u64,
    /// Seconds of the last round that went into sweeping.
    pub sweep_seconds: f64,
}

/// Shared by the workers of a process, which set it, and the thread that writes it down.
#[derive(Default)]
pub struct Heartbeat {
    sweep: AtomicU64,
    progress: AtomicU64,
    waiting: AtomicU64,
    sweep_micros: AtomicU64,
    ended: AtomicBool,
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}

/// Where process `process` leaves its signs.
fn path(folder: &Path, process: usize) -> PathBuf {
    folder.join("processes").join(format!("{process}.json"))
}

impl Heartbeat {
    /// Starts writing signs of life into the run folder.
    pub fn start(folder: PathBuf, process: usize, processes: usize, stall_after: Duration) -> Arc<Heartbeat> {
        let heartbeat = Arc::new(Heartbeat::default());
        heartbeat.progressed();
        let beating = heartbeat.clone();
        std::thread::spawn(move || {
            let _ = std::fs::create_dir_all(folder.join("processes"));
            while !beating.ended.load(Ordering::Relaxed) {
                beating.write(&folder, process);
                beating.look_for_stuck_ones(&folder, process, processes, stall_after);
                std::thread::sleep(Duration::from_millis(500));
            }
        });
        heartbeat
    }

    /// A worker has finished something.
    pub fn progressed(&self) {
        self.progress.store(now(), Ordering::Relaxed);
    }

    /// A worker begins to wait for the others; it calls [`Heartbeat::synchronised`] when they have come.
    pub fn waits(&self) {
        self.progressed();
        self.waiting.store(now(), Ordering::Relaxed);
    }

    /// All workers are done with the round up to `sweep`, of which so many seconds were sweeping.
    pub fn synchronised(&self, sweep: u64, sweep_seconds: f64) {
        self.waiting.store(0, Ordering::Relaxed);
        self.sweep.store(sweep, Ordering::Relaxed);
        self.sweep_micros.store((sweep_seconds * 1e6) as u64, Ordering::Relaxed);
        self.progressed();
    }

    /// Ends the signs.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    fn write(&self, folder: &Path, process: usize) {
        let sign = Sign {
            process,
            process_id: std::process::id(),
            sweep: self.sweep.load(Ordering::Relaxed),
            progress: self.progress.load(Ordering::Relaxed),
            waiting: self.waiting.load(Ordering::Relaxed),
            sweep_seconds: self.sweep_micros.load(Ordering::Relaxed) as f64 / 1e6,
        };
        let path = path(folder, process);
        let beside = path.with_extension("tmp");
        // A sign that cannot be written is missed by nobody but the watchdogs of the others, who will say so.
        if let Ok(text) = serde_json::to_vec(&sign)
            && std::fs::write(&beside, text).is_ok()
        {
            let _ = std::fs::rename(beside, path);
        }
    }

    /// Ends this process when it has waited too long and another one is to blame.
    fn look_for_stuck_ones(&self, folder: &Path, process: usize, processes: usize, stall_after: Duration) {
        let waiting = self.waiting.load(Ordering::Relaxed);
        let limit = stall_after.as_millis() as u64;
        if waiting == 0 || now().saturating_sub(waiting) < limit {
            return;
        }
        let others = (0..processes).filter(|&other| other != process);
        let stuck: Vec<String> = others
            .filter_map(|other| {
                let sign = read(folder, other);
                let idle = now().saturating_sub(sign.as_ref().map_or(0, |sign| sign.progress));
                let waits_too = sign.as_ref().is_some_and(|sign| sign.waiting != 0 && now() - sign.progress < limit);
                let pid = sign.map_or("unknown".to_string(), |sign| sign.process_id.to_string());
                (idle >= limit && !waits_too).then(|| format!("{other} (process id {pid})"))
            })
            .collect();
        if !stuck.is_empty() {
            say!(
                "sawmill: process {process} has waited {} s for process {}, which is stuck; ending, so that the job can be resumed",
                now().saturating_sub(waiting) / 1000,
                stuck.join(", ")
            );
            std::process::exit(exit::CLUSTER.into());
        }
    }
}

/// The last sign of a process.
pub fn read(folder: &Path, process: usize) -> Option<Sign> {
    serde_json::from_slice(&std::fs::read(path(folder, process)).ok()?).ok()
}
