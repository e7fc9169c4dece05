//! Jobs of every kind under faults drawn at random: whatever happens on the way, the result is that of an undisturbed run.
//!
//! A trial runs a small job in one process, or in two under `launch`, with some number of workers, and disturbs it up to
//! four times at moments within the job's own duration. What is drawn follows from (seed, kind, number) alone and is printed,
//! so `scripts/fault-campaign --seed S --replay NUMBER KIND` repeats a trial (but for the machine's own timing).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rand::RngExt;
use sawmill::cluster::rng::{Generator, Purpose, generator};

use crate::support::{Running, folder, run, sawmill, start, summary, wait_until, write};
use crate::{induction_job, run_folder, semisupervised_job};

const KINDS: [&str; 8] = ["lda", "switching", "lm", "parser", "adaptor", "induction", "semisupervised", "oracle"];

pub fn job(kind: &str, folder: &Path) -> PathBuf {
    match kind {
        "induction" => induction_job::job(
            folder,
            "[model]\ntype = 'evg'\nsmoothing = 'skip-val'\n[estimation]\ngroups = 4\nrestarts = 10\nprune_after = 20\n\
             runs = 2\n[checkpoint]\nevery = 4\n",
        ),
        "semisupervised" => semisupervised_job::job(folder, "passes = 2\ngibbs_sweeps = 2\n"),
        "oracle" => write(
            folder,
            "job.toml",
            "kind = 'oracle'\nout = 'out'\n[oracle]\nreorder = 5\n[treebanks]\nx = { synth = { sentences = 4000 } }\n",
        ),
        kind => run_folder::job(kind, folder),
    }
}

/// The model, tables of the report, and the summary without figures of cost.
fn results(kind: &str, out: &Path) -> Vec<Vec<u8>> {
    let mut summary = summary(out);
    run_folder::forget_costs(&mut summary);
    let mut results = files(kind, out);
    results.push(summary.to_string().into_bytes());
    results
}

fn files(kind: &str, out: &Path) -> Vec<Vec<u8>> {
    match kind {
        "induction" => induction_job::results(out),
        "semisupervised" => semisupervised_job::results(out),
        "oracle" => vec![std::fs::read(out.join("report/memory-cost.tsv")).expect("a result")],
        kind => run_folder::results(kind, out),
    }
}

/// What can happen to a run.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// `kill -9` of the process; of `launch` itself where there is one.
    Kill,
    /// `kill -9` of one process of two: `launch` starts them again.
    KillChild,
    /// A stop, and to go on after 200 ms.
    Pause,
    /// A request to stop, with a checkpoint.
    Terminate,
    /// `kill -9`, and a byte of a part of the newest checkpoint is another one.
    Damage,
    /// `kill -9`, and a part of the newest checkpoint is cut off.
    Truncate,
}

const FAULTS: [Fault; 6] =
    [Fault::Kill, Fault::KillChild, Fault::Pause, Fault::Terminate, Fault::Damage, Fault::Truncate];

/// An undisturbed run of a job, to compare with.
struct Reference {
    kind: &'static str,
    folder: tempfile::TempDir,
    job: PathBuf,
    expected: Vec<Vec<u8>>,
    lasted: Duration,
}

impl Reference {
    fn new(kind: &'static str) -> Reference {
        let folder = folder();
        let job = job(kind, folder.path());
        let out = folder.path().join("undisturbed");
        let started = Instant::now();
        let (code, stderr) = start(&job, &out, &["--workers", "2"]).end();
        assert_eq!(code, 0, "{kind}: {stderr}");
        Reference { kind, expected: results(kind, &out), lasted: started.elapsed(), folder, job }
    }

    /// Runs a trial; returns the faults that hit it.
    fn trial(&self, seed: u64, number: u64) -> u64 {
        let place = KINDS.iter().position(|kind| *kind == self.kind).expect("a known kind") as u64;
        let mut rng = generator(seed, Purpose::Synth, place, number);
        let out = self.folder.path().join(format!("trial-{number}"));
        let (mut log, mut faults) = (format!("{} {number}:", self.kind), 0);
        for _ in 0..rng.random_range(1..=4u32) {
            let (workers, is_launched) = (rng.random_range(1..=3u32), rng.random_bool(0.3));
            let fault = FAULTS[rng.random_range(0..FAULTS.len())];
            let after = self.lasted.mul_f64(rng.random_range(0.0..1.0));
            let _ = write!(log, " {fault:?} after {} ms of {workers} workers", after.as_millis());
            let _ = write!(log, "{};", if is_launched { " in each of 2 processes" } else { "" });
            let mut child = self.start(&out, workers, is_launched);
            std::thread::sleep(after);
            if child.try_wait().expect("it can be asked").is_some() {
                let _ = write!(log, " (over before)");
                continue;
            }
            faults += 1;
            disturb(&out, child, fault, &mut rng).unwrap_or_else(|why| panic!("{log} {why}"));
        }
        let workers = rng.random_range(1..=3u32);
        let (code, stderr) = self.start(&out, workers, false).end();
        eprintln!("{log} ended with {workers} workers");
        assert_eq!(code, 0, "{log} {stderr}");
        let found = results(self.kind, &out);
        for (place, (found, expected)) in found.iter().zip(&self.expected).enumerate() {
            let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(2000)]).into_owned();
            assert!(found == expected, "{log} result {place}: {} instead of {}", text(found), text(expected));
        }
        std::fs::remove_dir_all(&out).expect("a folder of the trial");
        faults
    }

    fn start(&self, out: &Path, workers: u32, is_launched: bool) -> Running {
        let workers = workers.to_string();
        if !is_launched {
            return start(&self.job, out, &["--workers", &workers]);
        }
        let mut command = sawmill();
        command.args(["launch", "-n", "2", "--", "run"]).arg(&self.job).arg("--out").arg(out);
        command.args(["--workers", &workers, "--progress", "none"]);
        Running::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
    }
}

fn signal(name: &str, process: u32) {
    run(Command::new("kill").args([name, &process.to_string()])); // it may be gone already
}

/// The processes that `launch` has started.
fn children(launch: u32) -> Vec<u32> {
    let list = std::fs::read_to_string(format!("/proc/{launch}/task/{launch}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

/// Disturbs a run and waits until its processes are gone; says what should not have been.
fn disturb(out: &Path, mut child: Running, fault: Fault, rng: &mut Generator) -> Result<(), String> {
    let below = children(child.id());
    match fault {
        Fault::Pause => {
            let victim = below.first().copied().unwrap_or(child.id());
            signal("-STOP", victim);
            std::thread::sleep(Duration::from_millis(200));
            signal("-CONT", victim);
            expect(child.end(), &[0])
        }
        Fault::KillChild if !below.is_empty() => {
            signal("-KILL", below[rng.random_range(0..below.len())]);
            expect(child.end(), &[0])
        }
        Fault::Terminate => {
            signal("-TERM", child.id());
            // Over by itself, stopped, or ended by the signal before anything was there to be saved.
            expect(child.end(), &[0, 75, -1])
        }
        Fault::Kill | Fault::KillChild | Fault::Damage | Fault::Truncate => {
            child.kill().map_err(|e| e.to_string())?;
            child.wait().map_err(|e| e.to_string())?;
            let is_gone = |process: &u32| !Path::new(&format!("/proc/{process}")).exists();
            wait_until("the processes of a launch that is gone", || below.iter().all(is_gone));
            damage(out, fault, rng);
            Ok(())
        }
    }
}

fn expect((code, stderr): (i32, String), codes: &[i32]) -> Result<(), String> {
    if codes.contains(&code) { Ok(()) } else { Err(format!("ended with code {code}: {stderr}")) }
}

/// Damages a part of the newest checkpoint, if there is one.
fn damage(out: &Path, fault: Fault, rng: &mut Generator) {
    if !matches!(fault, Fault::Damage | Fault::Truncate) {
        return;
    }
    let folders = std::fs::read_dir(out.join("checkpoints")).into_iter().flatten().flatten().map(|entry| entry.path());
    let Some(newest) = folders.filter(|path| path.is_dir()).max() else { return };
    let mut parts: Vec<PathBuf> =
        std::fs::read_dir(newest).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    parts.retain(|path| path.is_file());
    parts.sort();
    if parts.is_empty() {
        return;
    }
    let part = &parts[rng.random_range(0..parts.len())];
    let mut bytes = std::fs::read(part).expect("a part");
    if bytes.is_empty() {
        return;
    }
    let at = rng.random_range(0..bytes.len());
    match fault {
        Fault::Truncate => bytes.truncate(at),
        _ => bytes[at] ^= 1 << rng.random_range(0..8u32),
    }
    std::fs::write(part, bytes).expect("a part that can be written");
}

#[test]
fn a_few_trials_end_with_the_undisturbed_result() {
    for kind in KINDS {
        Reference::new(kind).trial(1, 0);
    }
}

/// `scripts/fault-campaign` runs this.
#[test]
#[ignore = "takes hours with many trials; see scripts/fault-campaign"]
fn campaign() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let kinds = std::env::var("SAWMILL_FAULT_KINDS").unwrap_or_default();
    let seed = number("SAWMILL_FAULT_SEED").unwrap_or(1);
    let trials = match number("SAWMILL_FAULT_REPLAY") {
        Some(trial) => trial..trial + 1,
        None => 0..number("SAWMILL_FAULT_TRIALS").unwrap_or(10),
    };
    for kind in KINDS {
        if !kinds.is_empty() && !kinds.split_whitespace().any(|wanted| wanted == kind) {
            continue;
        }
        let reference = Reference::new(kind);
        let faults: u64 = trials.clone().map(|trial| reference.trial(seed, trial)).sum();
        eprintln!("{kind}: {} trials with {faults} faults, all with the undisturbed result", trials.clone().count());
    }
}
