//! `sawmill export`: a model as a file of another program, or the text of a run as others can read it.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::print;
use crate::error::{Error, Result, exit};
use crate::job::file::Document;
use crate::job::folder::WholeFile;
use crate::job::{Job, Plan};
use crate::lm::arpa;
use crate::lm::model::LanguageModel;
use crate::semisupervised::reader::{Use, write_sentences};

#[derive(Args)]
pub struct Export {
    /// A language model, or a run folder
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// What to write
    #[arg(long, value_enum)]
    format: Format,
    /// With --format sentences: which part of the text
    #[arg(long, value_enum, value_name = "PART")]
    of: Option<Use>,
    /// The file to write, packed where its name ends in .gz or .zst [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Of a language model: n-grams with back-off weights, for KenLM (whose readers as they come go up to order 6), SRILM and
    /// others
    Arpa,
    /// Of a semisupervised run: its raw text as it was cut, a sentence per line with blanks between words
    Sentences,
}

impl Export {
    pub fn run(&self) -> Result<u8> {
        match (self.format, self.of) {
            (Format::Arpa, None) => self.arpa(),
            (Format::Arpa, Some(_)) => Err(Error::Usage("--of is for --format sentences".to_string())),
            (Format::Sentences, Some(part)) => self.sentences(part),
            (Format::Sentences, None) => {
                Err(Error::Usage("--format sentences needs --of train, tune or test".to_string()))
            }
        }
    }

    fn arpa(&self) -> Result<u8> {
        let model = LanguageModel::load(&self.model)?;
        if let Some(reason) = arpa::refusal(&model) {
            return Err(Error::Usage(format!("{}: {reason}", self.model.display())));
        }
        self.write(|mut out| arpa::write(&model, &mut out))?;
        Ok(exit::DONE)
    }

    fn sentences(&self, part: Use) -> Result<u8> {
        let document = Document::load(&self.model.join("job.toml"), &[])?;
        let Plan::Semisupervised(plan) = Job::read(&document)?.plan(&document)? else {
            return Err(Error::Usage(format!("{}: this is no semisupervised run", self.model.display())));
        };
        let mut left_out = 0u64;
        let mut tell = |problem: String| {
            left_out += 1;
            say!("{problem}");
        };
        self.write(|out| write_sentences(&plan.raw, part, out, &mut tell))?;
        Ok(if left_out > 0 { exit::SKIPPED } else { exit::DONE })
    }

    /// Writes to the file that was asked for, or to stdout.
    fn write(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
        match &self.out {
            Some(path) => {
                write_file(path, write)?;
                print(&format!("{}\n", path.display()))
            }
            None => write_stdout(write),
        }
    }
}

/// Why nothing could be written, or read for it.
fn failure(error: io::Error, path: &Path) -> Error {
    match error.kind() {
        io::ErrorKind::InvalidData => Error::Input(error.to_string()),
        _ => Error::output(path, error),
    }
}

fn write_stdout(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(failure(e, Path::new("to stdout"))),
        _ => Ok(()),
    }
}

/// Writes the file whole or not at all.
fn write_file(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    if path.is_dir() {
        return Err(Error::output(path, "it is a folder; name a file"));
    }
    let file = WholeFile::create(path)?;
    let file = match path.extension().and_then(|extension| extension.to_str()) {
        Some("gz") => write_packed(write, GzEncoder::new(file, Compression::default()), GzEncoder::finish),
        Some("zst") => zstd::stream::write::Encoder::new(file, 0)
            .and_then(|packer| write_packed(write, packer, zstd::stream::write::Encoder::finish)),
        _ => write_packed(write, file, Ok),
    };
    file.map_err(|e| failure(e, path))?.finish()
}

fn write_packed<W: Write>(
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    packer: W,
    finish: impl FnOnce(W) -> io::Result<WholeFile>,
) -> io::Result<WholeFile> {
    let mut out = BufWriter::with_capacity(1 << 16, packer);
    write(&mut out)?;
    finish(out.into_inner().map_err(|e| e.into_error())?)
}
