//! Runs inputs one by one, and stops at the first that panics, hangs or fills the memory.
//!
//! Panics are caught. A thread watches how long the input takes and how much memory the process has; as it cannot stop
//! another thread, it ends the process, with a message that names the input. An abort, as of an allocation that fails,
//! ends the process too: the file that `SAWMILL_FUZZ_STATE` names then says which input it was.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::mutation::input;
use super::targets::Target;

/// An input takes milliseconds; this is for machines that have something else to do.
const LONGEST: Duration = Duration::from_secs(20);

/// Bytes that the process may have beyond what it has at the start; other tests run in it, too.
const MOST_MEMORY: u64 = 1 << 30;

/// Runs inputs `numbers` of a target; the error says which input failed, and how.
pub fn run(target: &Target, seed: u64, numbers: std::ops::Range<u64>, until: Option<Instant>) -> Result<u64, String> {
    let seeds = (target.seeds)();
    let state = std::env::var_os("SAWMILL_FUZZ_STATE").map(|path| File::create(path).expect("a state file"));
    let watch = Watch::start(target.name, seed);
    let mut done = 0;
    for number in numbers {
        if until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
        if let Some(file) = &state {
            let text = format!("{:<20} seed {seed} input {number:<20}\n", target.name);
            file.write_all_at(text.as_bytes(), 0).expect("a state file that can be written");
        }
        watch.begin(number);
        let bytes = input(target.name, seed, number, &seeds);
        if catch_unwind(AssertUnwindSafe(|| (target.run)(&bytes, number))).is_err() {
            return Err(format!("{}: seed {seed}, input {number} panics", target.name));
        }
        done += 1;
    }
    Ok(done)
}

/// The thread that watches, until this is dropped.
struct Watch {
    shared: Arc<Shared>,
}

struct Shared {
    number: AtomicU64,
    /// Milliseconds since the start.
    begun: AtomicU64,
    start: Instant,
    is_over: AtomicBool,
}

impl Watch {
    fn start(target: &'static str, seed: u64) -> Watch {
        let shared = Arc::new(Shared {
            number: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            start: Instant::now(),
            is_over: AtomicBool::new(false),
        });
        let (watched, before) = (shared.clone(), resident());
        std::thread::spawn(move || {
            while !watched.is_over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(20));
                let begun = Duration::from_millis(watched.begun.load(Ordering::Relaxed));
                let took = watched.start.elapsed().saturating_sub(begun);
                let more = resident().saturating_sub(before);
                if (took > LONGEST || more > MOST_MEMORY) && !watched.is_over.load(Ordering::Relaxed) {
                    let number = watched.number.load(Ordering::Relaxed);
                    let message = format!("{target}: seed {seed}, input {number} took {took:?} and {} MiB", more >> 20);
                    let _ = writeln!(std::io::stderr(), "{message}");
                    std::process::exit(101);
                }
            }
        });
        Watch { shared }
    }

    fn begin(&self, number: u64) {
        self.shared.number.store(number, Ordering::Relaxed);
        self.shared.begun.store(self.shared.start.elapsed().as_millis() as u64, Ordering::Relaxed);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
    }
}

/// Bytes of memory that the process has; 0 where the system does not say.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}
