//! `sawmill show`: what a model has learned.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::Args;

use super::print;
use crate::adaptor;
use crate::adaptor::model::AdaptorModel;
use crate::corpus::diagnostic::Diagnostic;
use crate::corpus::documents::{Format, RawDocument, read_documents};
use crate::corpus::text::Encoding;
use crate::error::{Error, Result, exit};
use crate::induction;
use crate::job::folder::write_whole;
use crate::job::model_file;
use crate::parser;
use crate::parser::evaluate::Settings;
use crate::parser::job::Tags;
use crate::parser::model::ParserModel;
use crate::topics::description::Description;
use crate::topics::left_to_right::LeftToRight;
use crate::topics::model::TopicModel;
use crate::topics::ngram::counts::Form;
use crate::topics::ngram::highlight::{page, shade};
use crate::topics::ngram::kept::Kept;
use crate::topics::ngram::lookup::TopicNgrams;
use crate::topics::ngram::show::describe;
use crate::topics::{self, ngram};

#[derive(Args)]
pub struct Show {
    /// A model, or the run folder that has it
    model: PathBuf,
    /// How many words, phrases, contexts, cached strings and rules to show of each kind
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    words: usize,
    /// As JSON (topic models)
    #[arg(long, conflicts_with_all = ["sentence", "highlight"])]
    json: bool,
    /// Show the parse of this sentence, blanks between words, and the derivations kept after each word (parsers)
    #[arg(long, value_name = "WORDS", conflicts_with = "highlight")]
    sentence: Option<String>,
    /// Show this text instead, each word shaded by its probability of having a topic of its document's (SWITCHING)
    #[arg(long, value_name = "FILE")]
    highlight: Option<PathBuf>,
    /// Write the shaded text there as a page, and not to stdout
    #[arg(long, value_name = "OUT", requires = "highlight")]
    html: Option<PathBuf>,
    /// How documents stand in the text
    #[arg(long, value_enum, default_value = "files", requires = "highlight")]
    format: Format,
    /// The text is ISO 8859-1
    #[arg(long, requires = "highlight")]
    latin_1: bool,
}

impl Show {
    pub fn run(&self) -> Result<u8> {
        let kind = model_file::kind(&self.model)?;
        if self.sentence.is_some() && kind != parser::model::KIND {
            let model = self.model.display();
            return Err(Error::Usage(format!("{model}: --sentence is for parsers; this is a model of kind {kind}")));
        }
        if self.json && ![topics::model::KIND, ngram::kept::KIND].contains(&kind.as_str()) {
            let model = self.model.display();
            return Err(Error::Usage(format!("{model}: --json is for topic models; this is a model of kind {kind}")));
        }
        match (kind.as_str(), &self.highlight) {
            (topics::model::KIND, None) => {
                self.print(&Description::of_lda(&TopicModel::load(&self.model)?, self.words))
            }
            (ngram::kept::KIND, None) => self.print(&describe(&TopicNgrams::new(Kept::load(&self.model)?), self.words)),
            (ngram::kept::KIND, Some(text)) => self.highlight(&TopicNgrams::new(Kept::load(&self.model)?), text),
            (parser::model::KIND, None) => self.parse(),
            (induction::model::KIND, None) => {
                print(&induction::show::describe(&induction::model::Kept::load(&self.model)?, self.words))?;
                Ok(exit::DONE)
            }
            (adaptor::model::KIND, None) => {
                print(&adaptor::show::describe(&AdaptorModel::load(&self.model)?, self.words))?;
                Ok(exit::DONE)
            }
            (topics::model::KIND, Some(_)) => Err(self.not_switching("LDA")),
            (other, _) => Err(Error::input(
                &self.model,
                format!(
                    "this is a model of kind {other}; show is for models of kind {}, {}, {}, {} and {}",
                    topics::model::KIND,
                    ngram::kept::KIND,
                    parser::model::KIND,
                    induction::model::KIND,
                    adaptor::model::KIND
                ),
            )),
        }
    }

    fn print(&self, description: &Description) -> Result<u8> {
        print(&if self.json { description.to_json() } else { description.to_text() })?;
        Ok(exit::DONE)
    }

    fn parse(&self) -> Result<u8> {
        let Some(sentence) = &self.sentence else {
            let model = self.model.display();
            return Err(Error::Usage(format!("{model}: this is a parser; say what to parse, with --sentence \"...\"")));
        };
        let model = ParserModel::load(&self.model)?;
        if !model.kept.is_lexicalised {
            return Err(Error::input(&self.model, "this parser has no words, and cannot find tags"));
        }
        let (search, particles) = (model.kept.search, model.kept.particles);
        let settings = Settings { search, particles, tags: Tags::Predict, threads: 1 };
        print(&parser::show::describe(&model, &settings, sentence))?;
        Ok(exit::DONE)
    }

    fn not_switching(&self, name: &str) -> Error {
        let model = self.model.display();
        Error::Usage(format!("{model}: --highlight is for SWITCHING, whose words have a topic or none; this is {name}"))
    }

    fn highlight(&self, model: &TopicNgrams, text: &Path) -> Result<u8> {
        if model.kept.form != Form::Switching {
            return Err(self.not_switching(&model.kept.name()));
        }
        let encoding = if self.latin_1 { Encoding::Latin1 } else { Encoding::Utf8 };
        let (mut documents, mut problems) = (vec![], 0);
        let method = LeftToRight { particles: 10, resample: 10 };
        let mut visit = |document: &RawDocument<'_>| {
            documents.push(shade(model, method, 1, documents.len() as u64, document.id, document.text));
        };
        let mut report = |problem| {
            problems += 1;
            say!("{}", Diagnostic { path: text.display().to_string(), problem });
        };
        read_documents(text, encoding, self.format, &mut visit, &mut report).map_err(|e| Error::input(text, e))?;
        match &self.html {
            Some(out) if out.is_dir() => return Err(Error::output(out, "it is a folder; name a file")),
            Some(out) => write_whole(out, page(&documents).as_bytes())?,
            None => {
                let is_terminal = std::io::stdout().is_terminal();
                let shown = documents.iter().map(|d| if is_terminal { d.to_ansi() } else { d.to_text() });
                print(&shown.collect::<Vec<String>>().join("\n"))?;
            }
        }
        Ok(if problems == 0 { exit::DONE } else { exit::SKIPPED })
    }
}
