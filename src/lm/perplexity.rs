//! How well a language model predicts sentences.
//!
//! A sentence is a line of a document; its tokens are its words and its end. A word that the model does not know is
//! taken for its unknown word. Two figures are given, since either alone misleads where vocabularies differ: over all
//! tokens; and without the unknown words, whose probabilities are then left out, while they still stand before the words
//! that follow them.
//!
//! Reading is one pass: held is the document that is being read, and nothing of those before.

use std::cell::RefCell;
use std::f64::consts::LN_10;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::index::{Index, Walk};
use super::model::LanguageModel;
use super::text::{END, each_word};
use crate::corpus::diagnostic::Diagnostic;
use crate::corpus::documents::{Format, RawDocument, read_documents};
use crate::corpus::text::Encoding;
use crate::corpus::vocabulary::UNKNOWN;
use crate::error::{Error, Result};
use crate::math::ln;

/// What was counted, of one sentence or of several. Logarithms are natural.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Score {
    pub sentences: u64,
    /// Words and ends of sentences.
    pub tokens: u64,
    pub unknown: u64,
    pub probability_ln: f64,
    /// Without unknown words.
    pub known_ln: f64,
}

impl Score {
    fn add(&mut self, next: &Score) {
        self.sentences += next.sentences;
        self.tokens += next.tokens;
        self.unknown += next.unknown;
        self.probability_ln += next.probability_ln;
        self.known_ln += next.known_ln;
    }

    /// None without tokens.
    pub fn perplexity(&self) -> Option<f64> {
        perplexity(self.probability_ln, self.tokens)
    }

    /// None without tokens that are known; the end of a sentence is.
    pub fn known_perplexity(&self) -> Option<f64> {
        perplexity(self.known_ln, self.tokens - self.unknown)
    }

    /// For people.
    pub fn to_text(&self) -> String {
        let figure = |value: Option<f64>| value.map_or("none".to_string(), |p| format!("{p:.4}"));
        let share = 100.0 * self.unknown as f64 / self.tokens.max(1) as f64;
        let logarithms = |ln: f64| format!("{ln:.4} (base e), {:.4} (base 10)", ln / LN_10);
        format!(
            "sentences: {}\ntokens: {} ({} words and {} ends of sentences)\nunknown words: {} ({share:.2} %)\n\
             log-probability: {}; without unknown words {}\n\
             perplexity: {}; without unknown words {}\n",
            self.sentences,
            self.tokens,
            self.tokens - self.sentences,
            self.sentences,
            self.unknown,
            logarithms(self.probability_ln),
            logarithms(self.known_ln),
            figure(self.perplexity()),
            figure(self.known_perplexity()),
        )
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        json!({
            "sentences": self.sentences,
            "tokens": self.tokens,
            "unknown": self.unknown,
            "log_probability": self.probability_ln,
            "log_probability_without_unknown": self.known_ln,
            "log10_probability": self.probability_ln / LN_10,
            "log10_probability_without_unknown": self.known_ln / LN_10,
            "perplexity": self.perplexity(),
            "perplexity_without_unknown": self.known_perplexity(),
        })
    }
}

fn perplexity(probability_ln: f64, tokens: u64) -> Option<f64> {
    (tokens > 0).then(|| libm::exp(-probability_ln / tokens as f64))
}

/// A token that was scored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoredToken<'a> {
    /// Which sentence it is in, over all files, counted from 1.
    pub sentence: u64,
    /// As the model reads it.
    pub word: &'a str,
    pub is_unknown: bool,
    pub probability_ln: f64,
    /// How many words before it there is a restaurant for, the begin of the sentence among them.
    pub context: usize,
}

impl ScoredToken<'_> {
    /// The columns of [`ScoredToken::to_row`].
    pub const COLUMNS: &'static str = "sentence\tword\tunknown\tlog10_probability\tcontext\n";

    /// A line of a table.
    pub fn to_row(&self) -> String {
        let &ScoredToken { sentence, word, is_unknown, probability_ln, context } = self;
        format!("{sentence}\t{word}\t{}\t{:.6}\t{context}\n", u8::from(is_unknown), probability_ln / LN_10)
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        json!({
            "sentence": self.sentence,
            "word": self.word,
            "unknown": self.is_unknown,
            "log10_probability": self.probability_ln / LN_10,
            "context": self.context,
        })
    }
}

/// A sentence that was scored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoredSentence {
    /// Over all files, counted from 1; none for the sum of all.
    pub number: Option<u64>,
    pub score: Score,
}

impl ScoredSentence {
    /// The columns of [`ScoredSentence::to_row`].
    pub const COLUMNS: &'static str =
        "sentence\ttokens\tunknown\tlog10_probability\tperplexity\tperplexity_without_unknown\n";

    /// A line of a table.
    pub fn to_row(&self) -> String {
        let number = self.number.map_or("total".to_string(), |number| number.to_string());
        let figure = |value: Option<f64>| value.map_or(String::new(), |p| format!("{p:.4}"));
        let Score { tokens, unknown, probability_ln, .. } = self.score;
        let (all, known) = (figure(self.score.perplexity()), figure(self.score.known_perplexity()));
        format!("{number}\t{tokens}\t{unknown}\t{:.6}\t{all}\t{known}\n", probability_ln / LN_10)
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        let mut value = self.score.to_json();
        value["sentence"] = self.number.into();
        value.as_object_mut().expect("an object").remove("sentences");
        value
    }
}

/// Where results go while files are read.
pub trait Listener {
    /// Each token, in the order of the text.
    #[inline]
    fn token(&mut self, _token: &ScoredToken<'_>) {}

    /// Each sentence, behind its tokens.
    fn sentence(&mut self, _sentence: &ScoredSentence) {}

    /// What is wrong with a file.
    fn problem(&mut self, _problem: Diagnostic) {}

    /// Whether nobody wants to hear more.
    fn is_gone(&self) -> bool {
        false
    }
}

/// Scores the sentences of `files`, and tells `listener` of each; returns the sum.
pub fn score(
    model: &LanguageModel,
    files: &[PathBuf],
    format: Format,
    encoding: Encoding,
    listener: &mut impl Listener,
) -> Result<Score> {
    let mut sum = Score::default();
    let index = Index::new(model);
    let reader = Reader { model, index: index.as_ref() };
    for path in files {
        reader.score_file(path, format, encoding, listener, &mut sum)?;
    }
    match sum.sentences {
        0 => Err(Error::Input("there is no sentence to score: the files have none, or only blank lines".to_string())),
        _ => Ok(sum),
    }
}

/// A model as it is read with.
struct Reader<'m> {
    model: &'m LanguageModel,
    index: Option<&'m Index>,
}

impl Reader<'_> {
    fn score_file(
        &self,
        path: &Path,
        format: Format,
        encoding: Encoding,
        listener: &mut impl Listener,
        sum: &mut Score,
    ) -> Result<()> {
        let name = path.display().to_string();
        let listener = RefCell::new(listener); // both of the reader's visitors speak to it, in turn
        let mut visit = |document: &RawDocument<'_>| {
            let listener = &mut **listener.borrow_mut();
            for line in document.text.lines().filter(|line| !line.trim().is_empty()) {
                if listener.is_gone() {
                    return;
                }
                let number = sum.sentences + 1;
                let score = self.score_sentence(number, line, listener);
                listener.sentence(&ScoredSentence { number: Some(number), score });
                sum.add(&score);
            }
        };
        let mut report = |problem| listener.borrow_mut().problem(Diagnostic { path: name.clone(), problem });
        read_documents(path, encoding, format, &mut visit, &mut report).map_err(|e| Error::input(path, e))
    }

    fn score_sentence(&self, number: u64, line: &str, listener: &mut impl Listener) -> Score {
        let mut score = Score { sentences: 1, ..Score::default() };
        let mut walk = Walk::begin(self.model, self.index);
        let mut next = |word: &str, symbol: u32| {
            let (probability, context) = walk.next(symbol);
            let (probability_ln, is_unknown) = (ln(probability), symbol == UNKNOWN);
            score.tokens += 1;
            score.probability_ln += probability_ln;
            match is_unknown {
                true => score.unknown += 1,
                false => score.known_ln += probability_ln,
            }
            listener.token(&ScoredToken { sentence: number, word, is_unknown, probability_ln, context });
        };
        let vocabulary = &self.model.kept.vocabulary;
        each_word(&self.model.kept.tokenisation, line, |word| next(word, vocabulary.id(word)));
        next(END, self.model.symbols.end);
        score
    }
}
