//! `sawmill report`: the report of a run again, or several runs side by side.

use std::path::{Path, PathBuf};

use clap::Args;

use super::print;
use crate::error::{Error, Result, exit};
use crate::job::folder::{RunFolder, write_whole};
use crate::job::manifest::Manifest;
use crate::oracle::report::compare;
use crate::oracle::run::Outcome;
use crate::study::results::Listing;

#[derive(Args)]
pub struct Report {
    /// Run folders; with several, a page that compares them
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Where the page that compares several runs goes
    #[arg(short, long, value_name = "FILE", default_value = "comparison.html")]
    out: PathBuf,
}

impl Report {
    pub fn run(&self) -> Result<u8> {
        for run in &self.runs {
            let manifest = Manifest::load(run)?;
            if manifest.kind == "study" && self.runs.len() == 1 {
                Listing::load(run)?.report(&RunFolder::create(run)?)?;
            }
            if manifest.kind != "oracle" {
                return self.find(run, &manifest.kind);
            }
        }
        let path = match self.runs.as_slice() {
            [run] => {
                let outcome = Outcome::load(run)?;
                outcome.write(&RunFolder::create(run)?)?;
                run.join("report").join("index.html")
            }
            runs => {
                let outcomes: Result<Vec<(String, Outcome)>> =
                    runs.iter().map(|run| Ok((run.display().to_string(), Outcome::load(run)?))).collect();
                let page = compare(&outcomes?);
                if self.out.is_dir() {
                    return Err(Error::output(&self.out, "it is a folder; name a file"));
                }
                write_whole(&self.out, page.as_bytes())?;
                self.out.clone()
            }
        };
        print(&format!("{}\n", path.display()))?;
        Ok(exit::DONE)
    }

    /// Trainings write their report when they end; it is not made again, nor compared.
    fn find(&self, run: &Path, kind: &str) -> Result<u8> {
        let page = run.join("report").join("index.html");
        match (self.runs.len(), page.exists()) {
            (1, true) => {
                print(&format!("{}\n", page.display()))?;
                Ok(exit::DONE)
            }
            (1, false) => Err(Error::input(run, "the run has no report yet: `sawmill status` says how far it is")),
            _ => Err(Error::Usage(format!(
                "{}: runs of kind {kind} cannot be compared; only oracle runs can",
                run.display()
            ))),
        }
    }
}
