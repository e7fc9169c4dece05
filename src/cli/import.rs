//! `sawmill import`: a model of another program as one of sawmill's.

use std::path::PathBuf;

use clap::Args;

use super::print;
use crate::corpus::tokens::Tokenisation;
use crate::error::{Error, Result, exit};
use crate::job::folder::write_whole;
use crate::job::model_file;
use crate::topics::import::read_state;

#[derive(Args)]
pub struct Import {
    /// A state file of MALLET (--output-state), plain or packed; - for standard input
    state: PathBuf,
    /// The model file to write
    #[arg(short, long, value_name = "MODEL")]
    out: PathBuf,
    /// The words had been made lower-case; do so with words to be scored
    #[arg(long)]
    lowercase: bool,
    /// What numbers had been made; do so with words to be scored
    #[arg(long, value_name = "TOKEN", default_value = "")]
    numbers: String,
}

impl Import {
    pub fn run(&self) -> Result<u8> {
        let tokenisation = Tokenisation { lowercase: self.lowercase, numbers: self.numbers.clone() };
        tokenisation.check().map_err(|e| Error::Usage(format!("--numbers: {e}")))?;
        if self.out.is_dir() {
            return Err(Error::output(&self.out, "it is a folder; name a file"));
        }
        let model = read_state(&self.state, tokenisation)?;
        write_whole(&self.out, &model_file::to_bytes(&model)?)?;
        say!(
            "sawmill: {} topics, {} words in the vocabulary, {} tokens",
            model.topics(),
            model.vocabulary.len(),
            model.totals.iter().sum::<u64>()
        );
        print(&format!("{}\n", self.out.display()))?;
        Ok(exit::DONE)
    }
}
