//! Running a study: one variant after the other, each as a job of its own in a folder below that of the study.

use std::path::Path;
use std::time::Instant;

use super::job::Plan;
use super::results::Listing;
use crate::error::{Error, Result, exit};
use crate::job::folder::{RunFolder, is_run_folder};
use crate::job::session::{Session, forget_peak_memory};

/// Runs the study and returns the exit code.
pub fn run(plan: &Plan, session: &mut Session) -> Result<u8> {
    if session.watch {
        return Err(Error::Usage("--watch is not for studies: it follows changes of one job's inputs".to_string()));
    }
    let started = Instant::now();
    let listing = Listing::new(&session.title, plan);
    if let Some(record) = &session.record {
        if !session.resume {
            clear(&record.folder, plan)?;
        }
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
        record.done(started.elapsed().as_secs_f64(), None)?;
    }
    Ok(code)
}

/// Removes what an earlier study has left, so that nothing of it is taken for done when this one is resumed. What other
/// processes may be writing already stays: their signs of life.
fn clear(folder: &RunFolder, plan: &Plan) -> Result<()> {
    let failed = |path: &Path, e: std::io::Error| Error::output(path, e);
    for entry in std::fs::read_dir(folder.path()).map_err(|e| failed(folder.path(), e))?.flatten() {
        let is_listed = plan.variants.iter().any(|variant| entry.file_name() == variant.settings.name.as_str());
        if is_run_folder(&entry.path()) && !is_listed {
            std::fs::remove_dir_all(entry.path()).map_err(|e| failed(&entry.path(), e))?;
        }
    }
    for variant in &plan.variants {
        let path = folder.path().join(&variant.settings.name);
        RunFolder::create(&path)?.clear_results(|_| false)?;
        let checkpoints = path.join("checkpoints");
        if checkpoints.exists() {
            std::fs::remove_dir_all(&checkpoints).map_err(|e| failed(&checkpoints, e))?;
        }
    }
    Ok(())
}
