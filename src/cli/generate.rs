//! `sawmill generate`: sentences drawn from a language model.

use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::PathBuf;

use clap::Args;

use crate::error::{Error, Result, exit};
use crate::lm::generate::{Sentences, Settings};
use crate::lm::model::LanguageModel;

#[derive(Args)]
pub struct Generate {
    /// A language model, or the run folder that has it
    model: PathBuf,
    /// Number of sentences
    #[arg(short = 'n', long, default_value_t = 10)]
    sentences: u64,
    /// The same seed gives the same sentences
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Cut a sentence off when so many words have been drawn
    #[arg(long, value_name = "WORDS", default_value_t = 100)]
    max_length: u64,
    /// Words that every sentence begins with
    #[arg(long, value_name = "WORDS", default_value = "", hide_default_value = true)]
    prefix: String,
}

impl Generate {
    pub fn run(&self) -> Result<u8> {
        let model = LanguageModel::load(&self.model)?;
        let settings = Settings { seed: self.seed, max_length: self.max_length, prefix: self.prefix.clone() };
        let mut sentences = Sentences::new(&model, &settings);
        let mut out = BufWriter::new(io::stdout().lock());
        let written = (0..self.sentences).try_for_each(|number| writeln!(out, "{}", sentences.draw(number)));
        match written.and_then(|()| out.flush()) {
            Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Error::Usage(format!("cannot write to stdout: {e}"))),
            _ => Ok(exit::DONE),
        }
    }
}
