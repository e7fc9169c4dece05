//! The names behind the numbers of a parser: words, classes of unknown words, tags, labels.
//!
//! A word is known where it occurs `min_count` times in training. A form that is not known is taken in lower case; where
//! that is not known either, it is the class of its surface ([`super::surface`]), in training as later: so the model
//! learns from rare words how unknown ones behave.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::action::{Actions, System};
use super::job::Part;
use super::surface::Surface;
use super::treebank::Treebank;
use crate::corpus::vocabulary::{Occurrences, UNKNOWN, Vocabulary};

/// What stands in the lists of tags for the dummy root.
pub const ROOT: &str = "<root>";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lexicon {
    vocabulary: Vocabulary,
    surface: Surface,
    pub tags: Vec<String>,
    pub labels: Vec<String>,
}

impl Lexicon {
    /// The lexicon of a treebank.
    pub fn learn(treebank: &Treebank, min_count: u64) -> Result<Lexicon, String> {
        let mut counts = vec![0u64; treebank.forms.len()];
        treebank.words.iter().for_each(|word| counts[word.form as usize] += 1);
        let by_form: BTreeMap<&str, u64> = treebank.forms.iter().zip(counts.iter().copied()).collect();
        let occurrences = by_form.iter().map(|(form, &training)| (*form, Occurrences { training, test: 0 }));
        let vocabulary = Vocabulary::build(occurrences, min_count)?;
        let mut lexicon = Lexicon {
            vocabulary,
            surface: Surface::default(),
            tags: treebank.tags.iter().map(str::to_string).collect(),
            labels: treebank.labels.iter().map(str::to_string).collect(),
        };
        if lexicon.labels.len() > usize::from(u16::MAX) {
            return Err(format!("{} labels are too many: is the DEPREL column right?", lexicon.labels.len()));
        }
        let mut rare = vec![];
        for sentence in treebank.sentences() {
            for (place, word) in sentence.iter().enumerate() {
                let form = treebank.forms.name(word.form);
                if lexicon.known(form).is_none() {
                    rare.push((form, word.tag, place == 0));
                }
            }
        }
        lexicon.surface = Surface::learn(&rare);
        Ok(lexicon)
    }

    /// The number of a word that is known, in lower case if not as it is.
    fn known(&self, form: &str) -> Option<u32> {
        let id = |form: &str| Some(self.vocabulary.id(form)).filter(|id| *id != UNKNOWN);
        id(form).or_else(|| id(&form.to_lowercase()))
    }

    /// The number of a word, or of its class.
    pub fn word(&self, form: &str, is_first: bool) -> u32 {
        self.known(form).unwrap_or_else(|| {
            self.surface.class(form, is_first).map_or(UNKNOWN, |class| self.vocabulary.len() as u32 + class)
        })
    }

    /// Whether a number is that of a class of unknown words.
    pub fn is_unknown(&self, word: u32) -> bool {
        word == UNKNOWN || word as usize >= self.vocabulary.len()
    }

    /// How many words and classes there are.
    pub fn words(&self) -> u32 {
        (self.vocabulary.len() + self.surface.len()) as u32
    }

    /// Words that are known.
    pub fn known_words(&self) -> usize {
        self.vocabulary.len() - 1
    }

    /// Classes of unknown words.
    pub fn classes(&self) -> usize {
        self.surface.len() + 1
    }

    /// The word of a number, or the name of the class.
    pub fn word_name(&self, word: u32) -> String {
        match (word as usize).checked_sub(self.vocabulary.len()) {
            None => self.vocabulary.word(word).to_string(),
            Some(class) => self.surface.name(class as u32),
        }
    }

    /// The tag of the dummy root, behind all others.
    pub fn root(&self) -> u32 {
        self.tags.len() as u32
    }

    /// The number of a tag.
    pub fn tag(&self, name: &str) -> Option<u32> {
        self.tags.iter().position(|tag| tag == name).map(|tag| tag as u32)
    }

    /// All values of elements and all outcomes are below this.
    pub fn symbols(&self) -> u32 {
        const VALENCIES: u32 = 16;
        let system = System::LeftCorner; // it has the most outcomes
        self.words().max(self.outcomes(Part::Transition, system)).max(self.root()).max(VALENCIES) + 2
    }

    /// How many outcomes a distribution has.
    pub fn outcomes(&self, part: Part, system: System) -> u32 {
        match part {
            Part::Transition => Actions { system, labels: self.labels.len() }.outcomes(),
            Part::Tag => self.root() + 1,
            Part::Word => self.words(),
        }
    }
}

/// Names with numbers, in the order in which they came.
#[derive(Clone, Debug, Default)]
pub struct Names {
    names: Vec<String>,
    numbers: FxHashMap<String, u32>,
}

impl Names {
    /// The number of a name, which is new where it has not come before.
    pub fn number(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_string());
        self.numbers.insert(name.to_string(), number);
        number
    }

    pub fn name(&self, number: u32) -> &str {
        &self.names[number as usize]
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
}
