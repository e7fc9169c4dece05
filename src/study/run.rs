//! Running a study: one variant after the other, each as a job of its own in a folder below that of the study.

use std::time::Instant;

use super::job::Plan;
use super::results::Listing;
use crate::error::{Error, Result, exit};
use crate::job::session::{Session, forget_peak_memory};

/// Runs the study and returns the exit code.
pub fn run(plan: &Plan, session: &mut Session) -> Result<u8> {
    if session.watch {
        return Err(Error::Usage("--watch is not for studies: it follows changes of one job's inputs".to_string()));
    }
    let started = Instant::now();
    let listing = Listing::new(&session.title, plan);
    if let Some(record) = &session.record {
        listing.save(&record.folder)?;
    }
    let mut code = exit::DONE;
    let mut is_first = true;
    for (number, variant) in (1..).zip(&plan.variants) {
        let name = &variant.settings.name;
        if session.record.is_some() {
            say!("sawmill: variant {number} of {}: {name}", plan.variants.len());
        }
        let mut inner = session.of_variant(name);
        if !is_first {
            // The leader may still be writing the report of the variant before.
            inner.cluster.start_within = inner.cluster.start_within.max(inner.stall_after);
        }
        forget_peak_memory();
        let ended = inner.run(&variant.job, &variant.plan).map_err(|error| error.within(&format!("variant {name}")))?;
        is_first = false;
        if ended == exit::RESUME {
            if let Some(record) = &mut session.record {
                record.stopped(started.elapsed().as_secs_f64())?;
            }
            return Ok(exit::RESUME);
        }
        code = code.max(ended);
        if let Some(record) = &session.record {
            listing.report(&record.folder)?;
        }
    }
    if let Some(record) = &mut session.record {
        record.done(started.elapsed().as_secs_f64())?;
    }
    Ok(code)
}
