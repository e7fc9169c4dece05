//! What is wrong with an input, and where.
//!
//! A problem is data, not a failure: it is counted by its rule, keeps its address, and the job goes on without the
//! sentence or document. Rule names are stable, for programs; the message says what to do, for people.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What kind of problem it is. The names of the rules are those in reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Rule {
    EmptyFile,
    Unreadable,
    NotText,
    BrokenEncoding,
    TooLong,
    ColumnCount,
    BadId,
    IdOrder,
    BadHead,
    HeadRange,
    SelfHead,
    Cycle,
    NoRoot,
    BadHeader,
    OutsideDocument,
    BadField,
    NotDerived,
}

impl Rule {
    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Rule::EmptyFile => "empty-file",
            Rule::Unreadable => "unreadable",
            Rule::NotText => "not-text",
            Rule::BrokenEncoding => "broken-encoding",
            Rule::TooLong => "too-long",
            Rule::ColumnCount => "column-count",
            Rule::BadId => "bad-id",
            Rule::IdOrder => "id-order",
            Rule::BadHead => "bad-head",
            Rule::HeadRange => "head-range",
            Rule::SelfHead => "self-head",
            Rule::Cycle => "cycle",
            Rule::NoRoot => "no-root",
            Rule::BadHeader => "bad-header",
            Rule::OutsideDocument => "outside-document",
            Rule::BadField => "bad-field",
            Rule::NotDerived => "not-derived",
        }
    }

    /// Whether the rule speaks of a whole file, or the rest of one, and not of one sentence.
    pub fn concerns_file(self) -> bool {
        matches!(self, Rule::EmptyFile | Rule::Unreadable | Rule::NotText)
    }
}

/// One problem, with its line: counted from 1, in the text that was being read (a file, or a piece of one).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Problem {
    pub line: u64,
    pub rule: Rule,
    /// The sentence's `sent_id`, the document's id, or empty.
    pub sentence: String,
    pub message: String,
}

/// A problem with its full address, which is how people see it: `path:line [sent_id]: rule: message`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    pub path: String,
    pub problem: Problem,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { line, rule, sentence, message } = &self.problem;
        write!(f, "{}:{line}", self.path)?;
        if !sentence.is_empty() {
            write!(f, " [{sentence}]")?;
        }
        write!(f, ": {}: {message}", rule.name())
    }
}
