//! The command line: one file per verb. Flags are resolved here, the work is done elsewhere.

mod check;
pub mod cluster;
mod export;
mod generate;
mod import;
mod launch;
mod parse;
mod perplexity;
mod report;
mod rows;
mod run;
mod score;
mod show;
mod status;
mod synth;

use clap::{Parser, Subcommand};

use crate::error::Result;

/// Distributed batch pipeline for Bayesian NLP: treebanks and text in; histograms, models and reports out.
#[derive(Parser)]
#[command(name = "sawmill", version, max_term_width = 100, arg_required_else_help = true)]
#[command(
    after_help = "Exit codes: 0 done; 1 done, with skipped inputs; 2 usage or job file; 3 input data; 4 cluster; \
                        70 a fault of sawmill itself; 75 checkpointed, run me again."
)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run a job file
    Run(run::Run),
    /// Run a job as several processes, and start them again when one dies
    Launch(launch::Launch),
    /// Show how far a run has come
    Status(status::Status),
    /// Make the report of a run again, or compare several runs
    Report(report::Report),
    /// Say how well a model predicts text that it has not seen
    Perplexity(perplexity::Perplexity),
    /// Show what a topic model has learned: words, phrases and contexts of its topics; or a text, shaded by it; or a parse
    Show(show::Show),
    /// Find the tags and dependency trees of sentences
    Parse(parse::Parse),
    /// Score dependency trees against those made by hand: UAS, LAS, UPOS as in the CoNLL 2018 shared task
    Score(score::ScoreTrees),
    /// Draw sentences from a language model, or with their trees from a parser
    Generate(generate::Generate),
    /// Write for other programs: a language model as an ARPA file, or the raw text of a semisupervised run as it was cut
    Export(export::Export),
    /// Make a model of what another program has trained: MALLET's state file
    Import(import::Import),
    /// Validate treebank files: `file:line [sent_id]: rule: what is wrong`
    Check(check::Check),
    /// Make artificial data with known structure
    Synth(synth::Synth),
}

/// Runs what the command line asks for and returns the exit code.
pub fn main() -> u8 {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print(); // nothing can be said where this cannot
            return if error.use_stderr() { 2 } else { 0 };
        }
    };
    match arguments.verb.run() {
        Ok(code) => code,
        Err(error) => {
            say!("sawmill: {error}");
            error.exit_code()
        }
    }
}

impl Verb {
    fn run(self) -> Result<u8> {
        match self {
            Verb::Run(run) => run.run(),
            Verb::Launch(launch) => launch.run(),
            Verb::Status(status) => status.run(),
            Verb::Report(report) => report.run(),
            Verb::Perplexity(perplexity) => perplexity.run(),
            Verb::Show(show) => show.run(),
            Verb::Parse(parse) => parse.run(),
            Verb::Score(score) => score.run(),
            Verb::Generate(generate) => generate.run(),
            Verb::Export(export) => export.run(),
            Verb::Import(import) => import.run(),
            Verb::Check(check) => check.run(),
            Verb::Synth(synth) => synth.run(),
        }
    }
}

/// Writes results to stdout; a reader that has gone away is not an error.
fn print(text: &str) -> Result<()> {
    use std::io::{ErrorKind, Write};
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(crate::error::Error::Usage(format!("cannot write to stdout: {e}")))
        }
        _ => Ok(()),
    }
}
