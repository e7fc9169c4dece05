//! `sawmill parse`: tags and trees of sentences.

use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::PathBuf;

use clap::Args;

use crate::corpus::diagnostic::Diagnostic;
use crate::corpus::text::Encoding;
use crate::error::{Error, Result, exit};
use crate::parser::evaluate::Settings;
use crate::parser::job::{Search, Tags};
use crate::parser::model::ParserModel;
use crate::parser::text::{Format, Source, parse_file};

#[derive(Args)]
pub struct Parse {
    /// A parser, or the run folder that has it
    model: PathBuf,
    /// CoNLL-U, or plain text with a sentence per line; also gz, xz or zst; - for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How sentences stand in the files
    #[arg(long, value_enum, default_value = "auto")]
    format: Format,
    /// The files are ISO 8859-1
    #[arg(long)]
    latin_1: bool,
    /// Where tags come from [default: as the parser was trained for]
    #[arg(long, value_enum)]
    tags: Option<Tags>,
    /// Particles of the search, or derivations of the beam [default: as in the job]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    particles: Option<u32>,
    /// How to search [default: as in the job]
    #[arg(long, value_enum)]
    search: Option<Search>,
    /// Write up to so many parses of each sentence, with their log-probabilities
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    best: Option<u64>,
    /// Threads [default: one per core]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    workers: Option<u64>,
}

impl Parse {
    pub fn run(&self) -> Result<u8> {
        let model = ParserModel::load(&self.model)?;
        let settings = Settings {
            search: self.search.unwrap_or(model.kept.search),
            particles: self.particles.unwrap_or(model.kept.particles),
            tags: self.tags.unwrap_or(model.kept.tags),
            threads: self
                .workers
                .map_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()), |n| n as usize),
        };
        if settings.tags == Tags::Predict && !model.kept.is_lexicalised {
            return Err(Error::Usage(format!(
                "{}: this parser has no words, and cannot find tags; give them in the file, with --tags given",
                self.model.display()
            )));
        }
        let encoding = if self.latin_1 { Encoding::Latin1 } else { Encoding::Utf8 };
        let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
        let best = self.best.map(|best| best as usize);
        let mut skipped = 0;
        for path in &self.files {
            let report = |problem| say!("{}", Diagnostic { path: path.display().to_string(), problem });
            let source = Source { path, encoding, format: self.format };
            match parse_file(&model, &settings, &source, best, &mut out, report) {
                Ok(parsed) => skipped += parsed.skipped,
                Err(e) if e.kind() == ErrorKind::BrokenPipe => return Ok(exit::DONE),
                Err(e) => return Err(Error::input(path, e)),
            }
        }
        match out.flush() {
            Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Error::Usage(format!("cannot write to stdout: {e}"))),
            _ => Ok(if skipped == 0 { exit::DONE } else { exit::SKIPPED }),
        }
    }
}
