//! Being asked to stop: by a signal, or because whoever launched this process is gone.

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};

use crate::error::{Error, Result, exit};

/// A flag that SIGTERM, SIGUSR1 or the first interrupt sets; a second interrupt ends the process at once. It is the
/// same for all who ask: what is said to a process between two jobs of a study counts for the next one.
pub fn stop_flag() -> Result<Arc<AtomicBool>> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    if let Some(stop) = FLAG.get() {
        return Ok(stop.clone());
    }
    let stop = Arc::new(AtomicBool::new(false));
    let register = || -> std::io::Result<()> {
        // In this order: the shutdown looks at the flag before the same signal sets it.
        signal_hook::flag::register_conditional_shutdown(SIGINT, exit::RESUME.into(), stop.clone())?;
        for signal in [SIGINT, SIGTERM, SIGUSR1] {
            signal_hook::flag::register(signal, stop.clone())?;
        }
        Ok(())
    };
    register().map_err(|e| Error::Usage(format!("cannot listen for signals: {e}")))?;
    Ok(FLAG.get_or_init(|| stop).clone())
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
