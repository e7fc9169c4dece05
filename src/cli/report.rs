//! `sawmill report`: the report of a run again, or several runs side by side.

use std::path::PathBuf;

use clap::Args;

use super::print;
use crate::error::{Error, Result, exit};
use crate::job::folder::{RunFolder, write_whole};
use crate::job::manifest::Manifest;
use crate::oracle::report::compare;
use crate::oracle::run::Outcome;

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
            Manifest::load(run)?;
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
}
