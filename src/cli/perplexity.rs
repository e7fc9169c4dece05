//! `sawmill perplexity`: how well a model predicts text that it has not seen.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use serde_json::Value;

use super::print;
use super::rows::Rows;
use crate::corpus::diagnostic::Diagnostic;
use crate::corpus::documents::Format;
use crate::corpus::text::Encoding;
use crate::error::{Error, Result, exit};
use crate::job::model_file;
use crate::lm;
use crate::lm::model::LanguageModel;
use crate::lm::perplexity::{Listener, ScoredSentence, ScoredToken};
use crate::parser;
use crate::parser::evaluate::Settings;
use crate::parser::interpolate::Predictions;
use crate::parser::job::Tags;
use crate::parser::model::ParserModel;
use crate::parser::perplexity::Sum;
use crate::parser::text::{self, Source};
use crate::topics::left_to_right::{LeftToRight, MOST_PARTICLES};
use crate::topics::model::TopicModel;
use crate::topics::ngram::kept::Kept;
use crate::topics::ngram::lookup::TopicNgrams;
use crate::topics::ngram::reading::{Reading, Scorer};
use crate::topics::ngram::stream::stream;
use crate::topics::perplexity::{COLUMNS, LdaScorer, ScoreDocument, Scored, score};
use crate::topics::{self, ngram};

#[derive(Args)]
pub struct Perplexity {
    /// A model, or the run folder that has it
    model: PathBuf,
    /// Text, also gz, xz or zst; - for standard input. For a language model, each line is a sentence;
    /// for a parser too, or a sentence of CoNLL-U
    #[arg(required_unless_present = "stream", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How text stands in the files [default: lines; of a parser, conllu where a line has ten columns, else lines]
    #[arg(long, value_enum)]
    format: Option<TextFormat>,
    /// The files are ISO 8859-1
    #[arg(long)]
    latin_1: bool,
    /// Results as JSON
    #[arg(long)]
    json: bool,
    /// A row per sentence, and one with their sum (also of parsers)
    #[arg(long, help_heading = "Language models", conflicts_with = "tokens")]
    sentences: bool,
    /// A row per word and end of a sentence, with the length of the context that was found
    #[arg(long, help_heading = "Language models")]
    tokens: bool,
    /// Mix the predictions of a parser with those of a language model
    #[arg(long, help_heading = "Parsers", value_name = "MODEL", conflicts_with_all = ["sentences", "tokens"])]
    interpolate: Option<PathBuf>,
    /// The parser's part of the mixture, from 0 to 1 [default: 0.5]
    #[arg(long, help_heading = "Parsers", value_name = "W", requires = "interpolate", value_parser = from_0_to_1)]
    weight: Option<f64>,
    /// Find the best weight for this text first
    #[arg(long, help_heading = "Parsers", value_name = "FILE", requires = "interpolate", conflicts_with = "weight")]
    tune: Option<PathBuf>,
    /// A row per document, and one with their sum
    #[arg(long, help_heading = "Topic models")]
    documents: bool,
    /// Read one document on standard input, and write each word with its probability as soon as it has come
    #[arg(long, help_heading = "Topic models", conflicts_with_all = ["files", "json", "documents", "format"])]
    stream: bool,
    /// Particles of the left-to-right method [default: 10], or of a parser's search [default: as in its job]
    #[arg(long, help_heading = "Topic models", value_name = "N", value_parser = particles)]
    particles: Option<usize>,
    /// Words between resamplings of a particle's earlier topics [default: 10]
    #[arg(long, help_heading = "Topic models", value_name = "WORDS", value_parser = at_least_one)]
    resample: Option<usize>,
    /// Seed of the particles [default: 1]
    #[arg(long, help_heading = "Topic models")]
    seed: Option<u64>,
}

/// How text stands in files: as documents, or as sentences for a parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextFormat {
    Documents(Format),
    Sentences(text::Format),
}

impl ValueEnum for TextFormat {
    fn value_variants<'a>() -> &'a [TextFormat] {
        use TextFormat::{Documents, Sentences};
        &[
            Documents(Format::Lines),
            Documents(Format::Blocks),
            Documents(Format::Files),
            Documents(Format::Mallet),
            Documents(Format::Docs),
            Sentences(text::Format::Conllu),
            Sentences(text::Format::Running),
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            TextFormat::Documents(format) => format.to_possible_value(),
            TextFormat::Sentences(format) => format.to_possible_value(),
        }
    }
}

fn particles(text: &str) -> std::result::Result<usize, String> {
    match at_least_one(text)? {
        number if number <= MOST_PARTICLES => Ok(number),
        _ => Err(format!("it has to be at most {MOST_PARTICLES}")),
    }
}

fn at_least_one(text: &str) -> std::result::Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("it has to be at least 1".to_string()),
        Ok(number) => Ok(number),
        Err(e) => Err(format!("{e}")),
    }
}

fn from_0_to_1(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(weight) if (0.0..=1.0).contains(&weight) => Ok(weight),
        Ok(_) => Err("it has to be between 0 and 1".to_string()),
        Err(e) => Err(format!("{e}")),
    }
}

impl Perplexity {
    pub fn run(&self) -> Result<u8> {
        let for_sentences = [("--sentences", self.sentences), ("--tokens", self.tokens)];
        let for_documents = [
            ("--documents", self.documents),
            ("--particles", self.particles.is_some()),
            ("--resample", self.resample.is_some()),
            ("--seed", self.seed.is_some()),
        ];
        let kind = model_file::kind(&self.model)?;
        if kind != parser::model::KIND {
            let whose = format!("parsers; this is a model of kind {kind}");
            self.refuse(&[("--interpolate", self.interpolate.is_some())], &whose)?;
        }
        if kind != ngram::kept::KIND {
            let whose = format!("topic n-gram models; this is a model of kind {kind}");
            self.refuse(&[("--stream", self.stream)], &whose)?;
        }
        match kind.as_str() {
            topics::model::KIND => {
                self.refuse(&for_sentences, "a language model; this is a topic model")?;
                let model = TopicModel::load(&self.model)?;
                self.score_documents(&LdaScorer::new(&model, self.method(), self.seed()))
            }
            ngram::kept::KIND => {
                self.refuse(&for_sentences, "a language model; this is a topic model")?;
                let model = TopicNgrams::new(Kept::load(&self.model)?);
                if self.stream {
                    return self.stream(&model);
                }
                let scorer = Scorer { model: &model, method: self.method(), seed: self.seed() };
                self.score_documents(&scorer)
            }
            lm::model::KIND => {
                self.refuse(&for_documents, "a topic model; this is a language model")?;
                self.score_sentences()
            }
            parser::model::KIND => {
                let others = [for_documents[0], for_documents[2], for_documents[3], for_sentences[1]];
                self.refuse(&others, "models of another kind; this is a parser")?;
                self.score_parses()
            }
            other => Err(Error::input(
                &self.model,
                format!(
                    "this is a model of kind {other}; perplexity is for models of kind {}, {}, {} and {}",
                    topics::model::KIND,
                    ngram::kept::KIND,
                    lm::model::KIND,
                    parser::model::KIND
                ),
            )),
        }
    }

    /// Refuses flags that are for models of another kind.
    fn refuse(&self, flags: &[(&str, bool)], whose: &str) -> Result<()> {
        match flags.iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) => Err(Error::Usage(format!("{}: {flag} is for {whose}", self.model.display()))),
            None => Ok(()),
        }
    }

    fn encoding(&self) -> Encoding {
        if self.latin_1 { Encoding::Latin1 } else { Encoding::Utf8 }
    }

    /// How documents stand in the files.
    fn documents(&self) -> Result<Format> {
        match self.format {
            None => Ok(Format::Lines),
            Some(TextFormat::Documents(format)) => Ok(format),
            Some(TextFormat::Sentences(_)) => Err(Error::Usage(format!(
                "{}: --format conllu and running are for parsers, which this is not",
                self.model.display()
            ))),
        }
    }

    /// How a file of sentences for a parser is read.
    fn source<'p>(&self, path: &'p Path) -> Result<Source<'p>> {
        let format = match self.format {
            None => text::Format::Auto,
            Some(TextFormat::Documents(Format::Lines)) => text::Format::Text,
            Some(TextFormat::Sentences(format)) => format,
            Some(TextFormat::Documents(_)) => {
                let message = "a parser reads sentences: --format lines, conllu or running";
                return Err(Error::Usage(format!("{}: {message}", self.model.display())));
            }
        };
        Ok(Source { path, encoding: self.encoding(), format })
    }

    fn method(&self) -> LeftToRight {
        LeftToRight { particles: self.particles.unwrap_or(10), resample: self.resample.unwrap_or(10) }
    }

    fn seed(&self) -> u64 {
        self.seed.unwrap_or(1)
    }

    fn score_documents(&self, scorer: &dyn ScoreDocument) -> Result<u8> {
        let (mut rows, mut written) = (Vec::<Value>::new(), Ok(()));
        if self.documents && !self.json {
            print(COLUMNS)?;
        }
        let mut visit = |scored: Scored| match (self.documents, self.json) {
            (true, true) => rows.push(scored.to_json()),
            (true, false) if written.is_ok() => written = print(&scored.to_row()),
            _ => {}
        };
        let mut problems = 0;
        let sum = score(scorer, &self.files, (self.documents()?, self.encoding()), &mut visit, &mut |problem| {
            problems += 1;
            say!("{problem}");
        })?;
        written?;
        print(&match (self.documents, self.json) {
            (_, true) => {
                let mut value = sum.to_json();
                if self.documents {
                    value["by_document"] = rows.into();
                }
                format!("{value:#}\n")
            }
            (true, false) => Scored { file: "total".to_string(), id: String::new(), score: sum }.to_row(),
            (false, false) => sum.to_text(),
        })?;
        Ok(if problems == 0 { exit::DONE } else { exit::SKIPPED })
    }

    fn stream(&self, model: &TopicNgrams) -> Result<u8> {
        let reading = Reading::begin(model, self.method(), self.seed(), 0);
        let mut out = io::stdout().lock();
        let (mut written, mut input) = (Ok(()), io::stdin().lock());
        let read = stream(reading, self.encoding(), &mut input, &mut |word, word_ln| {
            written = writeln!(out, "{word}\t{:.6e}", libm::exp(word_ln)).and_then(|()| out.flush());
            written.as_ref().map_err(|e| e.kind().into()).copied()
        });
        match (written, read) {
            // A reader that has gone away is not an error.
            (Err(e), _) if e.kind() == io::ErrorKind::BrokenPipe => Ok(exit::DONE),
            (Err(e), _) => Err(Error::Usage(format!("cannot write to stdout: {e}"))),
            (_, read) => read.map(|()| exit::DONE).map_err(|e| Error::Input(format!("standard input: {e}"))),
        }
    }

    fn score_parses(&self) -> Result<u8> {
        let model = ParserModel::load(&self.model)?;
        let settings = Settings {
            search: model.kept.search,
            particles: self.particles.map_or(model.kept.particles, |n| n as u32),
            tags: Tags::Predict,
            threads: std::thread::available_parallelism().map_or(1, |n| n.get()),
        };
        if !model.kept.is_lexicalised {
            return Err(Error::input(&self.model, "this parser has no words, and predicts none"));
        }
        if let Some(other) = &self.interpolate {
            return self.interpolate(&model, &settings, &LanguageModel::load(other)?);
        }
        let head = self.sentences.then_some((Sum::COLUMNS, "by_sentence"));
        let (mut rows, mut problems, mut all) = (Rows::new(self.json, head), 0, Sum::default());
        for path in &self.files {
            let report = |problem| {
                problems += 1;
                say!("{}", Diagnostic { path: path.display().to_string(), problem });
            };
            let mut number = all.sentences;
            let visit = |sum: &Sum| {
                number += 1;
                if self.sentences {
                    rows.push(|| sum.to_row(&number.to_string()), || sum.to_json());
                }
            };
            let sum = parser::perplexity::score(&model, &settings, &self.source(path)?, visit, report);
            all.add(&sum.map_err(|e| Error::input(path, e))?);
        }
        if all.tokens == 0 {
            return Err(no_sentence());
        }
        let end = if self.sentences { all.to_row("total") } else { all.to_text() };
        rows.finish(&end, &all.to_json())?;
        Ok(if problems == 0 { exit::DONE } else { exit::SKIPPED })
    }

    fn interpolate(&self, model: &ParserModel, settings: &Settings, ngram: &LanguageModel) -> Result<u8> {
        let mut problems = 0;
        let mut predict = |files: &[PathBuf]| -> Result<Predictions> {
            let mut all = Predictions::default();
            for path in files {
                let report = |problem| {
                    problems += 1;
                    say!("{}", Diagnostic { path: path.display().to_string(), problem });
                };
                let read = all.read(model, ngram, settings, &self.source(path)?, report);
                read.map_err(|e| Error::input(path, e))?;
            }
            match all.tokens() {
                0 => Err(no_sentence()),
                _ => Ok(all),
            }
        };
        let weight = match &self.tune {
            Some(file) => predict(std::slice::from_ref(file))?.best_weight(),
            None => self.weight.unwrap_or(0.5),
        };
        let all = predict(&self.files)?;
        print(&if self.json { format!("{:#}\n", all.to_json(weight)) } else { all.to_text(weight) })?;
        Ok(if problems == 0 { exit::DONE } else { exit::SKIPPED })
    }

    fn score_sentences(&self) -> Result<u8> {
        let model = LanguageModel::load(&self.model)?;
        let head = match (self.tokens, self.sentences) {
            (true, _) => Some((ScoredToken::COLUMNS, "by_token")),
            (_, true) => Some((ScoredSentence::COLUMNS, "by_sentence")),
            _ => None,
        };
        let mut table =
            Table { tokens: self.tokens, sentences: self.sentences, rows: Rows::new(self.json, head), problems: 0 };
        let sum = lm::perplexity::score(&model, &self.files, self.documents()?, self.encoding(), &mut table)?;
        let end = match (self.tokens, self.sentences) {
            (true, _) => String::new(), // a sum has other columns than a token
            (_, true) => ScoredSentence { number: None, score: sum }.to_row(),
            _ => sum.to_text(),
        };
        table.rows.finish(&end, &sum.to_json())?;
        Ok(if table.problems == 0 { exit::DONE } else { exit::SKIPPED })
    }
}

fn no_sentence() -> Error {
    Error::Input("there is no sentence to score: the files have none".to_string())
}

/// Writes what it hears of as rows.
struct Table {
    tokens: bool,
    sentences: bool,
    rows: Rows,
    problems: u64,
}

impl Listener for Table {
    #[inline]
    fn token(&mut self, token: &ScoredToken<'_>) {
        if self.tokens {
            self.rows.push(|| token.to_row(), || token.to_json());
        }
    }

    fn sentence(&mut self, sentence: &ScoredSentence) {
        if self.sentences {
            self.rows.push(|| sentence.to_row(), || sentence.to_json());
        }
    }

    fn problem(&mut self, problem: Diagnostic) {
        self.problems += 1;
        say!("{problem}");
    }

    fn is_gone(&self) -> bool {
        self.rows.is_closed()
    }
}
