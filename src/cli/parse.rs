//! `sawmill parse`: tags and trees of sentences, or parses of strings by an adaptor grammar.

use std::cell::RefCell;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::PathBuf;

use clap::Args;

use crate::adaptor;
use crate::adaptor::model::AdaptorModel;
use crate::adaptor::tree::Style;
use crate::corpus::diagnostic::{Diagnostic, Problem, Rule};
use crate::corpus::text::Encoding;
use crate::error::{Error, Result, exit};
use crate::induction;
use crate::induction::grammar::Choice;
use crate::induction::model::Kept;
use crate::job::model_file;
use crate::parser::evaluate::Settings;
use crate::parser::job::{Search, Tags};
use crate::parser::model::{MOST_PARTICLES, ParserModel};
use crate::parser::text::{Format, Source, parse_file};

#[derive(Args)]
pub struct Parse {
    /// A parser, an induced or an adaptor grammar, or the run folder that has it
    model: PathBuf,
    /// CoNLL-U, or plain text with a sentence per line; for adaptor grammars, strings as in training; also gz, xz or zst; - for standard input
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
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_PARTICLES)))]
    particles: Option<u32>,
    /// How to search [default: as in the job]
    #[arg(long, value_enum)]
    search: Option<Search>,
    /// Write up to so many parses of each sentence, with their log-probabilities
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    best: Option<u64>,
    /// Which tree to choose, with an induced grammar
    #[arg(long, value_enum, help_heading = "Induced grammars", value_name = "HOW")]
    choose: Option<Choice>,
    /// How parses of an adaptor grammar are written
    #[arg(long, value_enum, default_value = "skeletal", conflicts_with_all = ["tags", "particles", "search", "best"])]
    tree: Style,
    /// Threads [default: one per core]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    workers: Option<u64>,
}

impl Parse {
    pub fn run(&self) -> Result<u8> {
        match model_file::kind(&self.model)?.as_str() {
            induction::model::KIND => self.run_grammar(),
            adaptor::model::KIND => self.derive(),
            _ => self.run_parser(),
        }
    }

    fn run_parser(&self) -> Result<u8> {
        let model = ParserModel::load(&self.model)?;
        if self.choose.is_some() {
            return Err(self.refused("--choose is for induced grammars; this is a parser"));
        }
        let settings = Settings {
            search: self.search.unwrap_or(model.kept.search),
            particles: self.particles.unwrap_or(model.kept.particles),
            tags: self.tags.unwrap_or(model.kept.tags),
            threads: self.threads(),
        };
        if settings.tags == Tags::Predict && !model.kept.is_lexicalised {
            return Err(self
                .refused("this parser has no words, and cannot find tags; give them in the file, with --tags given"));
        }
        let best = self.best.map(|best| best as usize);
        self.each_file(self.format, |source, out, report| {
            parse_file(&model, &settings, source, best, out, report).map(|parsed| parsed.skipped)
        })
    }

    fn run_grammar(&self) -> Result<u8> {
        let is_parsers = self.particles.is_some() || self.search.is_some() || self.best.is_some();
        if is_parsers || self.tags == Some(Tags::Predict) {
            let message = "--particles, --search, --best and --tags predict are for parsers; this is an induced grammar, \
                           which takes the tags of the file";
            return Err(self.refused(message));
        }
        if matches!(self.format, Format::Text | Format::Running) {
            return Err(self.refused("an induced grammar needs tags, which plain text has not"));
        }
        let kept = Kept::load(&self.model)?;
        let choice = self.choose.unwrap_or_default();
        let format = if self.format == Format::Auto { Format::Tagged } else { self.format };
        self.each_file(format, |source, out, report| {
            induction::text::parse_file(&kept, source, choice, self.threads(), out, report)
        })
    }

    fn refused(&self, message: &str) -> Error {
        Error::Usage(format!("{}: {message}", self.model.display()))
    }

    fn threads(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, |n| n.get());
        self.workers.map_or_else(all, |n| n as usize)
    }

    /// Parses every file to stdout by `parse`, which returns how many sentences it left out.
    fn each_file(
        &self,
        format: Format,
        parse: impl Fn(&Source<'_>, &mut dyn Write, &mut dyn FnMut(Problem)) -> io::Result<u64>,
    ) -> Result<u8> {
        let encoding = if self.latin_1 { Encoding::Latin1 } else { Encoding::Utf8 };
        let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
        let mut skipped = 0;
        for path in &self.files {
            let mut report = |problem| say!("{}", Diagnostic { path: path.display().to_string(), problem });
            match parse(&Source { path, encoding, format }, &mut out, &mut report) {
                Ok(count) => skipped += count,
                Err(e) if e.kind() == ErrorKind::BrokenPipe => return Ok(exit::DONE),
                Err(e) => return Err(Error::input(path, e)),
            }
        }
        match out.flush() {
            Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Error::Usage(format!("cannot write to stdout: {e}"))),
            _ => Ok(if skipped == 0 { exit::DONE } else { exit::SKIPPED }),
        }
    }

    /// Parses strings by an adaptor grammar, a line for each.
    fn derive(&self) -> Result<u8> {
        if self.choose.is_some() {
            return Err(self.refused("--choose is for induced grammars; this is an adaptor grammar"));
        }
        let model = RefCell::new(AdaptorModel::load(&self.model)?);
        self.each_file(self.format, |source, out, report| {
            let model = &mut *model.borrow_mut();
            let mut reading = model.kept.reading.clone();
            if self.latin_1 {
                reading.encoding = Encoding::Latin1;
            }
            // The message is given the file's name where it is shown.
            let name = format!("{}: ", source.path.display());
            let strings = reading.read(&[source.path.to_path_buf()]).map_err(|e| {
                let message = e.to_string();
                io::Error::other(message.strip_prefix(&name).unwrap_or(&message).to_string())
            })?;
            let mut skipped = strings.problems.len() as u64;
            strings.problems.into_iter().for_each(|diagnostic| report(diagnostic.problem));
            for text in &strings.texts {
                let parse = model.parse(&text.symbols, self.tree).unwrap_or_else(|message| {
                    skipped += 1;
                    report(Problem { line: text.line, rule: Rule::NotDerived, sentence: String::new(), message });
                    String::new()
                });
                writeln!(out, "{parse}")?;
            }
            Ok(skipped)
        })
    }
}
