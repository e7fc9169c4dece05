//! `sawmill generate`: sentences drawn from a language model, or with their trees from a parser.

use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::PathBuf;

use clap::Args;

use crate::error::{Error, Result, exit};
use crate::job::model_file;
use crate::lm::generate::{Sentences, Settings};
use crate::lm::model::LanguageModel;
use crate::parser;
use crate::parser::generate::Drawn;
use crate::parser::model::ParserModel;

#[derive(Args)]
pub struct Generate {
    /// A language model or a parser, or the run folder that has it
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
    /// Of all sentences, only so many, the most probable ones first
    #[arg(long, help_heading = "Parsers", value_name = "N")]
    best: Option<usize>,
    /// Leave out sentences of fewer words
    #[arg(long, help_heading = "Parsers", value_name = "WORDS", default_value_t = 1)]
    min_length: usize,
    /// Words alone, a sentence per line, and no trees
    #[arg(long, help_heading = "Parsers")]
    text: bool,
}

impl Generate {
    pub fn run(&self) -> Result<u8> {
        let mut out = BufWriter::new(io::stdout().lock());
        let written = match model_file::kind(&self.model)?.as_str() {
            parser::model::KIND => self.draw_trees(&mut out)?,
            _ => self.draw_sentences(&mut out)?,
        };
        match written.and_then(|()| out.flush()) {
            Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Error::Usage(format!("cannot write to stdout: {e}"))),
            _ => Ok(exit::DONE),
        }
    }

    fn draw_sentences(&self, out: &mut impl Write) -> Result<io::Result<()>> {
        self.refuse(
            self.best.is_some() || self.text || self.min_length > 1,
            "--best, --min-length and --text",
            "parsers",
        )?;
        let model = LanguageModel::load(&self.model)?;
        let settings = Settings { seed: self.seed, max_length: self.max_length, prefix: self.prefix.clone() };
        let mut sentences = Sentences::new(&model, &settings);
        Ok((0..self.sentences).try_for_each(|number| writeln!(out, "{}", sentences.draw(number))))
    }

    fn draw_trees(&self, out: &mut impl Write) -> Result<io::Result<()>> {
        self.refuse(!self.prefix.is_empty(), "--prefix", "language models")?;
        let model = ParserModel::load(&self.model)?;
        let mut sentences = parser::generate::Sentences::new(&model, self.seed, self.max_length as usize);
        let write = |number: u64, drawn: &Drawn, out: &mut dyn Write| match self.text {
            true => writeln!(out, "{}", drawn.text(&model)),
            false => out.write_all(drawn.to_conllu(&model, number + 1).as_bytes()),
        };
        let drawn = (0..self.sentences).map(|number| (number, sentences.draw(number)));
        let mut long = drawn.filter(|(_, drawn)| drawn.words.len() >= self.min_length);
        let Some(best) = self.best else { return Ok(long.try_for_each(|(number, drawn)| write(number, &drawn, out))) };
        let mut all: Vec<(u64, Drawn)> = long.collect();
        all.sort_by(|a, b| b.1.ln.total_cmp(&a.1.ln));
        Ok(all.iter().take(best).try_for_each(|(number, drawn)| write(*number, drawn, out)))
    }

    /// Refuses flags that are for models of another kind.
    fn refuse(&self, is_given: bool, flags: &str, whose: &str) -> Result<()> {
        match is_given {
            true => Err(Error::Usage(format!("{}: {flags} is for {whose}", self.model.display()))),
            false => Ok(()),
        }
    }
}
