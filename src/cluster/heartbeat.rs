//! Signs of life: each process says in the run folder how far it is, and notices when it waits for one that is stuck.
//!
//! timely ends a process when a connection breaks, but a peer that is alive and does nothing (stopped, deadlocked, before a
//! disk that does not answer) would be waited for without end. Every process therefore writes `processes/I.json` twice a
//! second. One that has waited in a synchronisation for longer than `stall_after`, with none of its threads at work, looks for
//! others that have been silent or idle for as long, names them and ends, so that the job can be started again from its last
//! checkpoint. One that is waiting too is not to blame; nor is one that uses its processor, however long its shard takes.
//!
//! Signs carry counters, not times: whether a process is silent is judged by how long its counters have stood still on the
//! monotonic clock of the one that waits. So nothing depends on the clocks of hosts, nor on their being set.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::exit;

/// What a process says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sign {
    pub process: usize,
    pub process_id: u32,
    pub sweep: u64,
    /// Signs that it has written.
    pub signs: u64,
    /// How often one of its workers has finished something, or it was found at work.
    pub progress: u64,
    /// Whether a worker waits for others.
    pub is_waiting: bool,
    /// Seconds of a round that its slowest worker sweeps: a mean in which the last rounds count most.
    pub sweep_seconds: f64,
}

/// The last sign of another process, and for how long its counters have stood still.
struct Observed {
    sign: Sign,
    signed: Instant,
    progressed: Instant,
}

impl Observed {
    fn new(sign: Sign, now: Instant) -> Observed {
        Observed { sign, signed: now, progressed: now }
    }

    fn update(&mut self, sign: Sign, now: Instant) {
        // Another process id has counters of its own.
        let is_same = sign.process_id == self.sign.process_id;
        if !is_same || sign.signs != self.sign.signs {
            self.signed = now;
        }
        if !is_same || sign.progress != self.sign.progress {
            self.progressed = now;
        }
        self.sign = sign;
    }

    /// Whether the others wait for this process without end, as far as can be said at `now`.
    fn is_stuck(&self, now: Instant, limit: Duration) -> bool {
        let is_silent = now.saturating_duration_since(self.signed) >= limit;
        is_silent || (!self.sign.is_waiting && self.is_idle(now, limit))
    }

    fn is_idle(&self, now: Instant, limit: Duration) -> bool {
        now.saturating_duration_since(self.progressed) >= limit
    }
}

/// Shared by the workers of a process, which set it, and the thread that writes it down.
pub struct Heartbeat {
    /// What the times below are counted from, in milliseconds.
    started: Instant,
    sweep: AtomicU64,
    signs: AtomicU64,
    progress: AtomicU64,
    progressed: AtomicU64,
    /// Since when a worker waits; 0 if none does.
    waiting: AtomicU64,
    /// Microseconds that the slowest worker has swept in this round, and in a round of late.
    round_micros: AtomicU64,
    mean_micros: AtomicU64,
    ended: AtomicBool,
}

impl Default for Heartbeat {
    fn default() -> Heartbeat {
        Heartbeat {
            started: Instant::now(),
            sweep: AtomicU64::default(),
            signs: AtomicU64::default(),
            progress: AtomicU64::default(),
            progressed: AtomicU64::default(),
            waiting: AtomicU64::default(),
            round_micros: AtomicU64::default(),
            mean_micros: AtomicU64::default(),
            ended: AtomicBool::default(),
        }
    }
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

/// The folder of signs in a run folder.
const FOLDER: &str = "processes";

/// Where process `process` leaves its signs.
fn path(folder: &Path, process: usize) -> PathBuf {
    folder.join(FOLDER).join(format!("{process}.json"))
}

/// The files that the processes of a job have left in the run folder at `folder`.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(folder.join(FOLDER)).into_iter().flatten().flatten().map(|entry| entry.path());
    paths.filter(|path| is_own(path)).collect()
}

/// Whether a file has the place and the name of one that a process leaves: others may appear at any time.
pub fn is_own(path: &Path) -> bool {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().unwrap_or_default();
    let is_number = !stem.is_empty() && stem.bytes().all(|b| b.is_ascii_digit());
    let is_named =
        (is_number && (extension == "json" || extension == "tmp")) || (stem == "nonce" && extension.is_empty());
    is_named && path.parent().is_some_and(|folder| folder.ends_with(FOLDER))
}

/// How often a sign is written.
const EVERY: Duration = Duration::from_millis(500);

impl Heartbeat {
    /// Starts writing signs of life into the run folder.
    pub fn start(folder: PathBuf, process: usize, processes: usize, stall_after: Duration) -> Arc<Heartbeat> {
        let heartbeat = Arc::new(Heartbeat::default());
        heartbeat.progressed();
        let beating = heartbeat.clone();
        std::thread::spawn(move || {
            let mut before = processor_ticks();
            let mut watch = Watch::new(folder.clone(), process, processes, stall_after);
            while !beating.ended.load(Ordering::Relaxed) {
                beating.write(&folder, process);
                watch.look(&beating);
                std::thread::sleep(EVERY);
                let now = processor_ticks();
                if now >= before + AT_WORK {
                    beating.progressed();
                }
                before = now;
            }
        });
        heartbeat
    }

    /// Milliseconds since the start; never 0.
    fn now(&self) -> u64 {
        self.started.elapsed().as_millis() as u64 + 1
    }

    /// A worker has finished something, or is at it.
    pub fn progressed(&self) {
        self.progressed.store(self.now(), Ordering::Relaxed);
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    /// A worker has swept for so many seconds of this round and begins to wait for the others; it calls
    /// [`Heartbeat::met`] or [`Heartbeat::synchronised`] when they have come.
    pub fn waits(&self, sweep_seconds: f64) {
        self.round_micros.fetch_max((sweep_seconds * 1e6) as u64, Ordering::Relaxed);
        self.progressed();
        self.waiting.store(self.now(), Ordering::Relaxed);
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
            signs: self.signs.fetch_add(1, Ordering::Relaxed),
            progress: self.progress.load(Ordering::Relaxed),
            is_waiting: self.waiting.load(Ordering::Relaxed) > 0,
            sweep_seconds: self.mean_micros.load(Ordering::Relaxed) as f64 / 1e6,
        };
        let path = path(folder, process);
        let beside = path.with_extension("tmp");
        // The leader may have moved the folder of an earlier run aside, so it is made again. A sign that cannot be written is
        // missed by nobody but the watchdogs of the others, who will say so.
        let _ = std::fs::create_dir_all(folder.join(FOLDER));
        if let Ok(text) = serde_json::to_vec(&sign)
            && std::fs::write(&beside, text).is_ok()
        {
            let _ = std::fs::rename(beside, path);
        }
    }

    /// How long a worker has waited with no other one of this process at work.
    fn waited(&self, now: u64) -> Option<Duration> {
        let [waiting, progressed] = [&self.waiting, &self.progressed].map(|time| time.load(Ordering::Relaxed));
        (waiting > 0).then(|| Duration::from_millis(now.saturating_sub(waiting.max(progressed))))
    }
}

/// What a process has seen of the others since it began to wait.
struct Watch {
    folder: PathBuf,
    process: usize,
    processes: usize,
    stall_after: Duration,
    since: Option<Instant>,
    looked: Option<Instant>,
    others: BTreeMap<usize, Observed>,
}

impl Watch {
    fn new(folder: PathBuf, process: usize, processes: usize, stall_after: Duration) -> Watch {
        Watch { folder, process, processes, stall_after, since: None, looked: None, others: BTreeMap::new() }
    }

    /// Looks at the signs of the others while this process waits, and ends it when it has waited too long and another one is
    /// to blame, or none gets anywhere.
    fn look(&mut self, own: &Heartbeat) {
        let Some(waited) = own.waited(own.now()).filter(|_| self.processes > 1) else {
            (self.since, self.looked) = (None, None);
            return self.others.clear();
        };
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        // Seldom enough for a network file system: a hundredth of the limit, but at least every five seconds.
        let every = (self.stall_after / 100).clamp(EVERY, Duration::from_secs(5));
        if self.looked.is_some_and(|looked| now.saturating_duration_since(looked) < every) {
            return;
        }
        self.looked = Some(now);
        self.read(now);
        if waited < self.stall_after || now.saturating_duration_since(since) < self.stall_after {
            return;
        }
        if let Some(reason) = self.blame(now) {
            let (process, seconds) = (self.process, waited.as_secs());
            say!(
                "sawmill: process {process} has waited {seconds} s for {reason}; ending, so that the job can be continued"
            );
            std::process::exit(exit::CLUSTER.into());
        }
    }

    fn read(&mut self, now: Instant) {
        for other in (0..self.processes).filter(|&other| other != self.process) {
            let Some(sign) = read(&self.folder, other) else { continue };
            match self.others.get_mut(&other) {
                Some(observed) => observed.update(sign, now),
                None => drop(self.others.insert(other, Observed::new(sign, now))),
            }
        }
    }

    /// Which of the others keep this process waiting; none if they are only slow.
    fn blame(&self, now: Instant) -> Option<String> {
        let others = (0..self.processes).filter(|&other| other != self.process);
        let others: Vec<(usize, Option<&Observed>)> = others.map(|other| (other, self.others.get(&other))).collect();
        let stuck: Vec<String> = others
            .iter()
            .filter(|(_, observed)| observed.is_none_or(|observed| observed.is_stuck(now, self.stall_after)))
            .map(|(other, observed)| match observed {
                Some(observed) => format!("{other} (process id {})", observed.sign.process_id),
                None => format!("{other} (which has given no sign of life)"),
            })
            .collect();
        let is_idle = |observed: &Option<&Observed>| observed.is_some_and(|one| one.is_idle(now, self.stall_after));
        match stuck.len() {
            0 if others.iter().all(|(_, observed)| is_idle(observed)) => {
                Some("the others, which all wait too".to_string())
            }
            0 => None,
            1 => Some(format!("process {}, which is stuck", stuck[0])),
            _ => Some(format!("processes {}, which are stuck", stuck.join(", "))),
        }
    }
}

/// The last sign of a process.
pub fn read(folder: &Path, process: usize) -> Option<Sign> {
    serde_json::from_slice(&std::fs::read(path(folder, process)).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(1);

    /// A process that wrote and made progress so many milliseconds before `now`.
    fn observed(process: usize, signed: u64, progressed: u64, is_waiting: bool, now: Instant) -> (usize, Observed) {
        let sign = Sign { process, process_id: 7, sweep: 3, signs: 9, progress: 4, is_waiting, sweep_seconds: 0.1 };
        let [signed, progressed] = [signed, progressed].map(|ago| now - Duration::from_millis(ago));
        (process, Observed { sign, signed, progressed })
    }

    #[test]
    fn only_those_that_are_stuck_are_named() {
        let now = Instant::now() + Duration::from_secs(100);
        let waits = || observed(1, 10, 2000, true, now);
        let works = || observed(2, 10, 10, false, now);
        let (stopped, lost) = (|| observed(3, 3000, 3000, false, now), || observed(4, 10, 3000, false, now));
        let stopped_while_waiting = || observed(5, 3000, 3000, true, now);
        // The process that looks is 0; all others but those given are at work.
        let blamed = |given: Vec<(usize, Observed)>, processes: usize| {
            let mut watch = Watch::new(PathBuf::new(), 0, processes, LIMIT);
            watch.others = (1..processes).map(|other| observed(other, 10, 10, false, now)).collect();
            watch.others.extend(given);
            watch.blame(now)
        };
        assert_eq!(blamed(vec![waits(), works()], 6), None);
        for culprit in [stopped(), lost(), stopped_while_waiting()] {
            let name = culprit.0;
            let reason = blamed(vec![waits(), culprit, works()], 6).expect("somebody is to blame");
            assert_eq!(reason, format!("process {name} (process id 7), which is stuck"));
        }
        assert!(blamed(vec![stopped(), lost()], 6).expect("two").contains("3 (process id 7), 4 (process id 7)"));
        assert!(blamed(vec![waits()], 2).expect("nobody gets anywhere").contains("all wait too"));
        let unseen = Watch::new(PathBuf::new(), 0, 2, LIMIT).blame(now).expect("one has never been seen");
        assert!(unseen.contains("no sign of life"));
    }

    #[test]
    fn counters_tell_not_clocks() {
        let now = Instant::now();
        let (_, mut other) = observed(1, 0, 0, false, now);
        let later = now + Duration::from_secs(50);
        let sign = other.sign.clone();
        other.update(Sign { signs: sign.signs + 1, ..sign.clone() }, later);
        assert!(other.is_stuck(later, LIMIT), "it signs, but does nothing");
        other.update(Sign { signs: sign.signs + 2, progress: sign.progress + 1, ..sign.clone() }, later);
        assert!(!other.is_stuck(later, LIMIT));
        other.update(Sign { process_id: 8, signs: sign.signs + 2, ..sign }, later + 2 * LIMIT);
        assert!(!other.is_stuck(later + 2 * LIMIT, LIMIT), "another process of that number has come");
    }

    #[test]
    fn a_process_at_work_does_not_wait() {
        let heartbeat = Heartbeat::default();
        heartbeat.progressed();
        assert_eq!(heartbeat.waited(heartbeat.now() + 5000), None);
        heartbeat.waits(1.0);
        let since = heartbeat.waiting.load(Ordering::Relaxed);
        assert_eq!(heartbeat.waited(since + 5000), Some(Duration::from_secs(5)));
        // Another worker uses a processor meanwhile.
        heartbeat.progressed.store(since + 4000, Ordering::Relaxed);
        assert_eq!(heartbeat.waited(since + 5000), Some(Duration::from_secs(1)));
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
