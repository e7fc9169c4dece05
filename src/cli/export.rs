//! `sawmill export`: a model as a file of another program.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::print;
use crate::error::{Error, Result, exit};
use crate::job::folder::WholeFile;
use crate::lm::arpa;
use crate::lm::model::LanguageModel;

#[derive(Args)]
pub struct Export {
    /// A language model, or the run folder that has it
    model: PathBuf,
    /// What to write
    #[arg(long, value_enum)]
    format: Format,
    /// The file to write, packed where its name ends in .gz or .zst [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// N-grams with back-off weights, for KenLM (whose readers as they come go up to order 6), SRILM and others
    Arpa,
}

impl Export {
    pub fn run(&self) -> Result<u8> {
        let Format::Arpa = self.format;
        let model = LanguageModel::load(&self.model)?;
        if let Some(reason) = arpa::refusal(&model) {
            return Err(Error::Usage(format!("{}: {reason}", self.model.display())));
        }
        match &self.out {
            Some(path) => {
                write_file(&model, path)?;
                print(&format!("{}\n", path.display()))?;
            }
            None => write_stdout(&model)?,
        }
        Ok(exit::DONE)
    }
}

fn write_stdout(model: &LanguageModel) -> Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    match arpa::write(model, &mut out).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(Error::output(Path::new("to stdout"), e)),
        _ => Ok(()),
    }
}

/// Writes the file whole or not at all.
fn write_file(model: &LanguageModel, path: &Path) -> Result<()> {
    if path.is_dir() {
        return Err(Error::output(path, "it is a folder; name a file"));
    }
    let file = WholeFile::create(path)?;
    let file = match path.extension().and_then(|extension| extension.to_str()) {
        Some("gz") => write_packed(model, GzEncoder::new(file, Compression::default()), GzEncoder::finish),
        Some("zst") => zstd::stream::write::Encoder::new(file, 0)
            .and_then(|packer| write_packed(model, packer, zstd::stream::write::Encoder::finish)),
        _ => write_packed(model, file, Ok),
    };
    file.map_err(|e| Error::output(path, e))?.finish()
}

fn write_packed<W: Write>(
    model: &LanguageModel,
    packer: W,
    finish: impl FnOnce(W) -> io::Result<WholeFile>,
) -> io::Result<WholeFile> {
    let mut out = BufWriter::with_capacity(1 << 16, packer);
    arpa::write(model, &mut out)?;
    finish(out.into_inner().map_err(|e| e.into_error())?)
}
