//! Being asked to stop: by a signal, or because whoever launched this process is gone.
//!
//! A run that is asked to stop finishes its sweep, writes a checkpoint and ends. An interrupt from the terminal waits for that
//! as long as it takes; a second one ends the process at once. SIGTERM and SIGUSR1 come from schedulers, which kill what does
//! not end in time: after a while ([`end_in_time`]) the process ends with the last checkpoint that there is.

use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};

use crate::error::{Error, Result, exit};

/// The flags that signals set.
#[derive(Clone, Default)]
struct Flags {
    /// By any of the signals, or the end of standard input.
    stop: Arc<AtomicBool>,
    /// By SIGTERM or SIGUSR1.
    in_time: Arc<AtomicBool>,
    /// By an interrupt.
    interrupted: Arc<AtomicBool>,
}

fn flags() -> Result<&'static Flags> {
    static FLAGS: OnceLock<Flags> = OnceLock::new();
    if let Some(flags) = FLAGS.get() {
        return Ok(flags);
    }
    let flags = Flags::default();
    let register = || -> std::io::Result<()> {
        // In this order: the shutdown looks at the flag before the same signal sets it.
        signal_hook::flag::register_conditional_shutdown(SIGINT, exit::RESUME.into(), flags.interrupted.clone())?;
        signal_hook::flag::register(SIGINT, flags.interrupted.clone())?;
        signal_hook::flag::register(SIGINT, flags.stop.clone())?;
        for signal in [SIGTERM, SIGUSR1] {
            signal_hook::flag::register(signal, flags.in_time.clone())?;
            signal_hook::flag::register(signal, flags.stop.clone())?;
        }
        Ok(())
    };
    register().map_err(|e| Error::Usage(format!("cannot listen for signals: {e}")))?;
    Ok(FLAGS.get_or_init(|| flags))
}

/// A flag that SIGTERM, SIGUSR1 or the first interrupt sets; a second interrupt ends the process at once. It is the
/// same for everyone who asks: a signal that comes between two jobs of a study counts for the next one.
pub fn stop_flag() -> Result<Arc<AtomicBool>> {
    Ok(flags()?.stop.clone())
}

/// Sets `stop` when standard input ends: `launch` holds the other end of it, and it closes however `launch` ends.
pub fn stop_with_stdin(stop: &Arc<AtomicBool>) {
    let stop = stop.clone();
    std::thread::spawn(move || {
        let mut input = std::io::stdin();
        let mut buffer = [0; 64];
        while !matches!(input.read(&mut buffer), Ok(0) | Err(_)) {}
        stop.store(true, Ordering::Relaxed);
    });
}

/// What the workers of a process are at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Reading, or counting what will not be saved in between: there is nothing to save yet.
    Reading,
    Sweeping,
    /// Writing a checkpoint.
    Saving,
    /// Evaluating what was trained, and writing the report: the last checkpoint holds all sweeps.
    Reporting,
    /// There is nothing left that takes long.
    Ended,
}

/// The [`Phase`] of a process, shared by its workers.
#[derive(Debug, Default)]
pub struct CurrentPhase(AtomicU8);

impl CurrentPhase {
    pub fn set(&self, phase: Phase) {
        self.0.store(phase as u8, Ordering::Relaxed);
    }

    fn get(&self) -> Phase {
        match self.0.load(Ordering::Relaxed) {
            0 => Phase::Reading,
            1 => Phase::Sweeping,
            2 => Phase::Saving,
            3 => Phase::Reporting,
            _ => Phase::Ended,
        }
    }
}

/// Watches `phase` until it is [`Phase::Ended`]. If the process is asked to stop, it ends it through `end`: at once while it
/// reads, `within` a time while it reports, and `within` a time after SIGTERM or SIGUSR1 while it sweeps. A checkpoint that is
/// being written is waited for.
pub fn end_in_time(phase: Arc<CurrentPhase>, within: Duration, end: impl FnOnce(Phase) + Send + 'static) -> Result<()> {
    let flags = flags()?;
    std::thread::spawn(move || {
        let mut asked: Option<Instant> = None;
        loop {
            std::thread::sleep(Duration::from_millis(50));
            let now = phase.get();
            if now == Phase::Ended {
                return;
            }
            let is_asked = flags.stop.load(Ordering::Relaxed);
            if flags.in_time.load(Ordering::Relaxed) || (now == Phase::Reporting && is_asked) {
                asked.get_or_insert_with(Instant::now);
            }
            let is_late = asked.is_some_and(|asked| asked.elapsed() >= within);
            let has_limit = matches!(now, Phase::Sweeping | Phase::Reporting);
            if (now == Phase::Reading && is_asked) || (has_limit && is_late) {
                return end(now);
            }
        }
    });
    Ok(())
}
