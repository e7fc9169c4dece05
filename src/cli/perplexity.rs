//! `sawmill perplexity`: how well a model predicts text that it has not seen.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use super::print;
use crate::corpus::documents::Format;
use crate::corpus::text::Encoding;
use crate::error::{Error, Result, exit};
use crate::job::model_file;
use crate::topics::left_to_right::LeftToRight;
use crate::topics::model::{self, TopicModel};
use crate::topics::perplexity::{COLUMNS, Scored, Settings, score};

#[derive(Args)]
pub struct Perplexity {
    /// A model, or the run folder that has it
    model: PathBuf,
    /// Text, also gz, xz or zst; - for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How documents stand in the files
    #[arg(long, value_enum, default_value = "lines")]
    format: Format,
    /// The files are ISO 8859-1
    #[arg(long)]
    latin_1: bool,
    /// Particles of the left-to-right method
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = at_least_one)]
    particles: usize,
    /// Words between resamplings of a particle's earlier topics
    #[arg(long, value_name = "WORDS", default_value_t = 10, value_parser = at_least_one)]
    resample: usize,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A row per document, and one with their sum
    #[arg(long)]
    documents: bool,
    /// Results as JSON
    #[arg(long)]
    json: bool,
}

fn at_least_one(text: &str) -> std::result::Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("it has to be at least 1".to_string()),
        Ok(number) => Ok(number),
        Err(e) => Err(format!("{e}")),
    }
}

impl Perplexity {
    pub fn run(&self) -> Result<u8> {
        match model_file::kind(&self.model)?.as_str() {
            model::KIND => self.score_documents(),
            other => Err(Error::input(
                &self.model,
                format!("this is a model of kind {other}; perplexity is for models of kind {}", model::KIND),
            )),
        }
    }

    fn score_documents(&self) -> Result<u8> {
        let model = TopicModel::load(&self.model)?;
        let settings = Settings {
            format: self.format,
            encoding: if self.latin_1 { Encoding::Latin1 } else { Encoding::Utf8 },
            method: LeftToRight { particles: self.particles, resample: self.resample },
            seed: self.seed,
        };
        let (mut rows, mut written) = (Vec::<Value>::new(), Ok(()));
        if self.documents && !self.json {
            print(COLUMNS)?;
        }
        let mut visit = |scored: Scored| match (self.documents, self.json) {
            (true, true) => rows.push(scored.to_json()),
            (true, false) if written.is_ok() => written = print(&scored.to_row()),
            _ => {}
        };
        let mut problems = 0;
        let sum = score(&model, &self.files, &settings, &mut visit, &mut |problem| {
            problems += 1;
            eprintln!("{problem}");
        })?;
        written?;
        print(&match (self.documents, self.json) {
            (_, true) => {
                let mut value = sum.to_json();
                if self.documents {
                    value["by_document"] = rows.into();
                }
                format!("{value:#}\n")
            }
            (true, false) => Scored { file: "total".to_string(), id: String::new(), score: sum }.to_row(),
            (false, false) => sum.to_text(),
        })?;
        Ok(if problems == 0 { exit::DONE } else { exit::SKIPPED })
    }
}
