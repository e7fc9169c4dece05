//! Models of other programs: MALLET's state file, which says the topic of every token, as a model.
//!
//! ```text
//! #doc source pos typeindex type topic
//! #alpha : 0.1 0.1 ...
//! #beta : 0.01
//! 0 file-0 0 17 word 3
//! ```
//!
//! The model is made of the counts. Its vocabulary is that of a job over the same tokens: the unknown word first, which
//! is `<unk>`, and has no tokens where the state has none of that name; then the others by falling count. A source may
//! have blanks in it, since the fields are taken from the end. A line that is not right ends the import with its address:
//! a model without some of its tokens would be another model.
//!
//! Memory: the words, and a pair for each word and topic that met.

use std::collections::BTreeMap;
use std::path::Path;

use rustc_hash::FxHashMap;

use super::counts::MAX_TOPICS;
use super::model::TopicModel;
use crate::corpus::diagnostic::{Diagnostic, Problem, Rule};
use crate::corpus::lines::{Fault, Lines};
use crate::corpus::open::open;
use crate::corpus::text::{Encoding, lossy};
use crate::corpus::tokens::Tokenisation;
use crate::corpus::vocabulary::{Occurrences, Vocabulary};
use crate::error::{Error, Result};
use crate::job::model_file::Stored;

/// The longest line: that of alpha has a number for every topic.
const LONGEST_LINE: usize = 4 << 20;

/// Reads the state at `path` (`-`: standard input). `tokenisation` is what was done to the words before the other
/// program saw them, and will be done to those that the model scores.
pub fn read_state(path: &Path, tokenisation: Tokenisation) -> Result<TopicModel> {
    let name = path.display().to_string();
    let addressed = |problem| Error::Input(Diagnostic { path: name.clone(), problem }.to_string());
    let input = open(path).map_err(|e| Error::input(path, e))?;
    let state = State::read(input).map_err(addressed)?;
    let model = state.into_model(tokenisation).map_err(|message| Error::input(path, message))?;
    model.validate().map_err(|message| Error::input(path, format!("the state makes no model: {message}")))?;
    Ok(model)
}

/// What has been read so far.
#[derive(Default)]
struct State {
    alpha: Vec<f64>,
    beta: Option<f64>,
    /// By typeindex.
    words: FxHashMap<u32, Word>,
    indices: FxHashMap<String, u32>,
}

/// A word and its tokens by topic.
struct Word {
    text: String,
    topics: BTreeMap<u16, u32>,
}

impl State {
    fn read(input: Box<dyn std::io::Read + Send>) -> std::result::Result<State, Problem> {
        let mut lines = Lines::begin(input, Encoding::Utf8, LONGEST_LINE)?;
        let (mut state, mut last) = (State::default(), 0);
        while let Some(line) = lines.next_line()? {
            last = line.number;
            line.text.and_then(|text| state.take(text)).map_err(|fault| problem(last, fault))?;
        }
        match state.words.is_empty() {
            true => Err(problem(last.max(1), (Rule::EmptyFile, "there is no token in the state".to_string()))),
            false => Ok(state),
        }
    }

    fn take(&mut self, line: &str) -> std::result::Result<(), Fault> {
        match line.strip_prefix('#') {
            Some(header) => self.take_header(header),
            None if line.trim_ascii().is_empty() => Ok(()),
            None => self.take_token(line),
        }
    }

    fn take_header(&mut self, header: &str) -> std::result::Result<(), Fault> {
        let Some((name, values)) = header.split_once(':') else { return Ok(()) };
        let bad = |message: String| (Rule::BadHeader, message);
        let mut numbers = vec![];
        for text in values.split_ascii_whitespace() {
            let number = text.parse::<f64>().ok().filter(|number| *number > 0.0 && number.is_finite());
            let complaint = || bad(format!("{:?} is no positive number", lossy(text.as_bytes())));
            numbers.push(number.ok_or_else(complaint)?);
        }
        match (name.trim_ascii(), numbers.as_slice()) {
            ("alpha", _) if !(1..=MAX_TOPICS).contains(&numbers.len()) => {
                Err(bad(format!("alpha is for {} topics; from 1 to {MAX_TOPICS} are possible", numbers.len())))
            }
            ("alpha", _) => {
                self.alpha = numbers;
                Ok(())
            }
            ("beta", [beta]) => {
                self.beta = Some(*beta);
                Ok(())
            }
            ("beta", _) => Err(bad(format!("beta is one number, not {}", numbers.len()))),
            _ => Ok(()),
        }
    }

    fn take_token(&mut self, line: &str) -> std::result::Result<(), Fault> {
        if self.alpha.is_empty() || self.beta.is_none() {
            let message = "a token before the lines #alpha and #beta: this is no state of MALLET (--output-state)";
            return Err((Rule::BadHeader, message.to_string()));
        }
        let fields: Vec<&str> = line.rsplitn(6, ' ').collect();
        let &[topic, word, index, _position, _source, _document] = fields.as_slice() else {
            let message = "a line has document, source, position, typeindex, type and topic, with blanks between them";
            return Err((Rule::ColumnCount, message.to_string()));
        };
        let topic = self.topic(topic)?;
        let bad = |what: &str| (Rule::BadField, format!("typeindex {:?} {what}", lossy(index.as_bytes())));
        let index = index.parse::<u32>().map_err(|_| bad("is no number"))?;
        match self.words.get_mut(&index) {
            Some(known) if known.text == word => {
                let count = known.topics.entry(topic).or_default();
                *count =
                    count.checked_add(1).filter(|n| *n <= i32::MAX as u32).ok_or_else(|| bad("has too many tokens"))?;
                Ok(())
            }
            Some(known) => Err(bad(&format!("is {word:?} here and {:?} above", known.text))),
            None => self.add_word(index, word, topic),
        }
    }

    fn topic(&self, text: &str) -> std::result::Result<u16, Fault> {
        let topic = text.parse::<u16>().ok().filter(|topic| usize::from(*topic) < self.alpha.len());
        topic.ok_or_else(|| {
            let message = format!("topic {:?} is no number below {}", lossy(text.as_bytes()), self.alpha.len());
            (Rule::BadField, message)
        })
    }

    fn add_word(&mut self, index: u32, word: &str, topic: u16) -> std::result::Result<(), Fault> {
        if word.is_empty() {
            return Err((Rule::BadField, "the type is empty".to_string()));
        }
        if let Some(other) = self.indices.insert(word.to_string(), index) {
            return Err((Rule::BadField, format!("{word:?} has typeindex {index} here and {other} above")));
        }
        self.words.insert(index, Word { text: word.to_string(), topics: BTreeMap::from([(topic, 1)]) });
        Ok(())
    }

    fn into_model(mut self, tokenisation: Tokenisation) -> std::result::Result<TopicModel, String> {
        let occurrences =
            |word: &Word| Occurrences { training: word.topics.values().map(|&n| u64::from(n)).sum(), test: 0 };
        let counts = self.words.values().map(|word| (word.text.as_str(), occurrences(word)));
        let vocabulary = Vocabulary::build(counts, 1)?;
        let mut totals = vec![0; self.alpha.len()];
        let mut words = vec![];
        for word in vocabulary.words() {
            let index = self.indices.get(word);
            let cells = index.and_then(|index| self.words.remove(index)).map_or(BTreeMap::new(), |word| word.topics);
            cells.iter().for_each(|(topic, count)| totals[usize::from(*topic)] += u64::from(*count));
            words.push(cells.into_iter().collect());
        }
        let beta = self.beta.expect("no token without beta");
        Ok(TopicModel { vocabulary, tokenisation, alpha: self.alpha, beta, totals, words })
    }
}

fn problem(line: u64, (rule, message): Fault) -> Problem {
    Problem { line, rule, sentence: String::new(), message }
}
