//! Signs of life: each process says in the run folder how far it is, and notices when it waits for one that is stuck.
//!
//! timely ends a process when a connection breaks, but a peer that is alive and does nothing (stopped, deadlocked, before a
//! disk that does not answer) would be waited for without end. Every process therefore writes `processes/I.json` twice a
//! second. One that has waited in a synchronisation for longer than `stall_after`, with none of its threads at work, looks for
//! others that have been silent or idle for as long, names them and ends, so that the job can be started again from its last
//! checkpoint. One that is waiting too is not to blame; nor is one that uses its processor, however long its shard takes.

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
    /// Milliseconds since 1970 at which this was written.
    pub written: u64,
    /// Likewise, at which a worker last finished something, or the process was at work.
    pub progress: u64,
    /// Since when a worker waits for others, or 0.
    pub waiting: u64,
    /// Seconds of a round that its slowest worker sweeps: a mean in which the last rounds count most.
    pub sweep_seconds: f64,
}

impl Sign {
    /// Whether the others wait for this process without end, as far as can be said at `now`.
    fn is_stuck(&self, now: u64, limit: u64) -> bool {
        let is_silent = now.saturating_sub(self.written) >= limit;
        is_silent || (self.waiting == 0 && self.is_idle(now, limit))
    }

    fn is_idle(&self, now: u64, limit: u64) -> bool {
        now.saturating_sub(self.progress) >= limit
    }
}

/// Shared by the workers of a process, which set it, and the thread that writes it down.
#[derive(Default)]
pub struct Heartbeat {
    sweep: AtomicU64,
    progress: AtomicU64,
    waiting: AtomicU64,
    /// Microseconds that the slowest worker has swept in this round, and in a round of late.
    round_micros: AtomicU64,
    mean_micros: AtomicU64,
    ended: AtomicBool,
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}

/// A process that has used its processors for so many ticks between two signs is at work: one that waits sleeps.
const AT_WORK: u64 = 5;

/// Hundredths of a second for which this process has used processors; always 0 where the system (not Linux) does not tell.
fn processor_ticks() -> u64 {
    // The name, the second field, may have spaces; times in user and kernel mode are the 14th and 15th.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    behind_name.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
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
            let mut before = processor_ticks();
            while !beating.ended.load(Ordering::Relaxed) {
                beating.write(&folder, process);
                beating.look_for_stuck_ones(&folder, process, processes, stall_after);
                std::thread::sleep(Duration::from_millis(500));
                let now = processor_ticks();
                if now >= before + AT_WORK {
                    beating.progressed();
                }
                before = now;
            }
        });
        heartbeat
    }

    /// A worker has finished something, or is at it.
    pub fn progressed(&self) {
        self.progress.store(now(), Ordering::Relaxed);
    }

    /// A worker has swept for so many seconds of this round and begins to wait for the others; it calls
    /// [`Heartbeat::met`] or [`Heartbeat::synchronised`] when they have come.
    pub fn waits(&self, sweep_seconds: f64) {
        self.round_micros.fetch_max((sweep_seconds * 1e6) as u64, Ordering::Relaxed);
        self.progressed();
        self.waiting.store(now(), Ordering::Relaxed);
    }

    /// The others have come; the round goes on.
    pub fn met(&self) {
        self.waiting.store(0, Ordering::Relaxed);
        self.progressed();
    }

    /// All workers are done with the round up to `sweep`.
    pub fn synchronised(&self, sweep: u64) {
        self.waiting.store(0, Ordering::Relaxed);
        // All workers of this process have swept; the first of them to come here closes the round.
        if self.sweep.swap(sweep, Ordering::Relaxed) != sweep {
            let micros = self.round_micros.swap(0, Ordering::Relaxed);
            let mean = match self.mean_micros.load(Ordering::Relaxed) {
                0 => micros,
                mean => (7 * mean + micros) / 8,
            };
            self.mean_micros.store(mean, Ordering::Relaxed);
        }
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
            written: now(),
            progress: self.progress.load(Ordering::Relaxed),
            waiting: self.waiting.load(Ordering::Relaxed),
            sweep_seconds: self.mean_micros.load(Ordering::Relaxed) as f64 / 1e6,
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

    /// Milliseconds for which a worker has waited, and no other one of this process has been at work.
    fn waited(&self, now: u64) -> Option<u64> {
        let [waiting, progress] = [&self.waiting, &self.progress].map(|time| time.load(Ordering::Relaxed));
        (waiting > 0).then(|| now.saturating_sub(waiting.max(progress)))
    }

    /// Ends this process when it has waited too long and another one is to blame, or none gets anywhere.
    fn look_for_stuck_ones(&self, folder: &Path, process: usize, processes: usize, stall_after: Duration) {
        let (now, limit) = (now(), stall_after.as_millis() as u64);
        let Some(waited) = self.waited(now).filter(|&waited| processes > 1 && waited >= limit) else { return };
        let others: Vec<(usize, Option<Sign>)> =
            (0..processes).filter(|&other| other != process).map(|other| (other, read(folder, other))).collect();
        if let Some(reason) = blame(&others, now, limit) {
            say!(
                "sawmill: process {process} has waited {} s for {reason}; ending, so that the job can be resumed",
                waited / 1000
            );
            std::process::exit(exit::CLUSTER.into());
        }
    }
}

/// Which of `others` keep this process waiting; none where they are only slow.
fn blame(others: &[(usize, Option<Sign>)], now: u64, limit: u64) -> Option<String> {
    let stuck: Vec<String> = others
        .iter()
        .filter(|(_, sign)| sign.as_ref().is_none_or(|sign| sign.is_stuck(now, limit)))
        .map(|(other, sign)| match sign {
            Some(sign) => format!("{other} (process id {})", sign.process_id),
            None => format!("{other} (which has given no sign of life)"),
        })
        .collect();
    match stuck.len() {
        0 if others.iter().all(|(_, sign)| sign.as_ref().is_some_and(|sign| sign.is_idle(now, limit))) => {
            Some("the others, which all wait too".to_string())
        }
        0 => None,
        1 => Some(format!("process {}, which is stuck", stuck[0])),
        _ => Some(format!("processes {}, which are stuck", stuck.join(", "))),
    }
}

/// The last sign of a process.
pub fn read(folder: &Path, process: usize) -> Option<Sign> {
    serde_json::from_slice(&std::fs::read(path(folder, process)).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 1000;
    const NOW: u64 = 50_000;

    /// A process that wrote, made progress and began to wait so long ago.
    fn sign(process: usize, written: u64, progress: u64, waiting: Option<u64>) -> (usize, Option<Sign>) {
        let waiting = waiting.map_or(0, |waiting| NOW - waiting);
        let sign = Sign {
            process,
            process_id: 7,
            sweep: 3,
            written: NOW - written,
            progress: NOW - progress,
            waiting,
            sweep_seconds: 0.1,
        };
        (process, Some(sign))
    }

    #[test]
    fn only_those_that_are_stuck_are_named() {
        let (waits, works) = (sign(1, 10, 2000, Some(2000)), sign(2, 10, 10, None));
        let (stopped, lost) = (sign(3, 3000, 3000, None), sign(4, 10, 3000, None));
        let stopped_while_waiting = sign(5, 3000, 3000, Some(3000));
        let blamed = |others: &[&(usize, Option<Sign>)]| {
            blame(&others.iter().map(|&other| other.clone()).collect::<Vec<_>>(), NOW, LIMIT)
        };
        assert_eq!(blamed(&[&waits, &works]), None);
        for culprit in [&stopped, &lost, &stopped_while_waiting] {
            let reason = blamed(&[&waits, culprit, &works]).expect("somebody is to blame");
            assert_eq!(reason, format!("process {} (process id 7), which is stuck", culprit.0));
        }
        assert!(blamed(&[&stopped, &lost]).expect("two are to blame").contains("3 (process id 7), 4 (process id 7)"));
        assert!(blamed(&[&waits, &(6, None)]).expect("one has never been seen").contains("process 6"));
        assert!(blamed(&[&waits]).expect("nobody gets anywhere").contains("all wait too"));
    }

    #[test]
    fn a_process_at_work_does_not_wait() {
        let heartbeat = Heartbeat::default();
        heartbeat.progressed();
        assert_eq!(heartbeat.waited(now() + 5000), None);
        heartbeat.waits(1.0);
        let since = heartbeat.waiting.load(Ordering::Relaxed);
        assert_eq!(heartbeat.waited(since + 5000), Some(5000));
        // Another worker uses a processor meanwhile.
        heartbeat.progress.store(since + 4000, Ordering::Relaxed);
        assert_eq!(heartbeat.waited(since + 5000), Some(1000));
        heartbeat.met();
        assert_eq!(heartbeat.waited(since + 5000), None);
    }

    #[test]
    fn a_round_is_as_long_as_its_slowest_worker() {
        let heartbeat = Heartbeat::default();
        for (sweep, seconds) in [(1, [0.5, 2.0]), (2, [10.0, 1.0])] {
            seconds.iter().for_each(|&seconds| heartbeat.waits(seconds));
            seconds.iter().for_each(|_| heartbeat.synchronised(sweep));
        }
        assert_eq!(heartbeat.mean_micros.load(Ordering::Relaxed), (7 * 2_000_000 + 10_000_000) / 8);
    }
}
