//! `sawmill synth`: artificial data with known structure.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::corpus::synth::{Grammar, Language};
use crate::error::{Error, Result, exit};

#[derive(Args)]
pub struct Synth {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// A treebank of an artificial language, as CoNLL-U
    Treebank(Treebank),
}

#[derive(Args)]
struct Treebank {
    /// Number of sentences
    #[arg(short = 'n', long, default_value_t = Grammar::default().sentences)]
    sentences: u64,
    /// Mean number of words of a sentence
    #[arg(long, value_name = "WORDS", default_value_t = Grammar::default().length)]
    length: u32,
    /// Probability that a dependent stands before its head: 0 head-initial, 1 head-final
    #[arg(long, value_name = "P", default_value_t = Grammar::default().head_final)]
    head_final: f64,
    /// Mean number of dependents of a word that has any
    #[arg(long, value_name = "MEAN", default_value_t = Grammar::default().branching)]
    branching: f64,
    /// Probability that a structure which may be center-embedded is; at 0, nothing is
    #[arg(long, value_name = "P", default_value_t = Grammar::default().center_embedding)]
    center_embedding: f64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Name of the language: part of sentence ids, and of what the sentences follow from
    #[arg(long, default_value = "synthetic")]
    name: String,
    /// Where the treebank goes [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Synth {
    pub fn run(&self) -> Result<u8> {
        let What::Treebank(treebank) = &self.what;
        treebank.run()
    }
}

impl Treebank {
    fn run(&self) -> Result<u8> {
        let grammar = Grammar {
            sentences: self.sentences,
            length: self.length,
            head_final: self.head_final,
            branching: self.branching,
            center_embedding: self.center_embedding,
        };
        if self.name.chars().any(char::is_control) {
            return Err(Error::Usage("--name must not have control characters in it".to_string()));
        }
        grammar.check().map_err(|e| Error::Usage(e.replace('_', "-")))?;
        let language = Language { name: self.name.clone(), seed: self.seed, grammar };
        let (name, written) = match &self.out {
            Some(path) => (path.clone(), File::create(path).and_then(|file| write(&language, file))),
            None => (PathBuf::from("standard output"), write(&language, io::stdout().lock())),
        };
        match written {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(Error::output(&name, e)),
            _ => Ok(exit::DONE),
        }
    }
}

fn write(language: &Language, out: impl Write) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, out);
    let mut sentence = Vec::new();
    for index in 0..language.grammar.sentences {
        sentence.clear();
        language.write_sentence(index, &mut sentence);
        out.write_all(&sentence)?;
    }
    out.flush()
}
