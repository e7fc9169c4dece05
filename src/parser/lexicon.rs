//! The names behind the numbers of a parser: words, classes of unknown words, tags, labels.
//!
//! A word is known where it occurs `min_count` times in training. A form that is not known is taken in lower case; where
//! that is not known either, it is the class of its surface ([`super::surface`]), in training as later: so the model
//! learns from rare words how unknown ones behave.
//!
//! Text without trees can teach more words ([`Lexicon::with_raw_words`]). Where only the distribution of words learns from
//! it, no other knows them: to transitions and tags, which trees alone have taught, each is what it was before, and would be
//! within a sentence.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::action::{Actions, System};
use super::element::{Attribute, Element};
use super::job::Part;
use super::surface::Surface;
use super::treebank::{Treebank, Word};
use crate::corpus::vocabulary::{Occurrences, UNKNOWN, Vocabulary};
use crate::error::ensure;

/// What stands in the lists of tags for the dummy root.
pub const ROOT: &str = "<root>";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lexicon {
    vocabulary: Vocabulary,
    surface: Surface,
    pub tags: Vec<String>,
    pub labels: Vec<String>,
    raw: Option<RawWords>,
}

/// Words that are known from text without trees alone; their numbers are behind all others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct RawWords {
    vocabulary: Vocabulary,
    /// By word: the word or class that it was before, where a sentence begins with it, and elsewhere.
    taken_for: Vec<[u32; 2]>,
    /// Whether they stand in contexts of transitions and tags, too.
    is_known_to_all: bool,
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
            raw: None,
        };
        if !lexicon.fits() {
            let (tags, labels) = (lexicon.tags.len(), lexicon.labels.len());
            return Err(format!("{tags} tags and {labels} labels are too many: are the columns right?"));
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

    /// The same lexicon with the words that occur at least `min_count` times in `counts`; they are known to the distribution
    /// of words, or to all.
    pub fn with_raw_words(
        &self,
        counts: &BTreeMap<String, u64>,
        min_count: u64,
        is_known_to_all: bool,
    ) -> Result<Lexicon, String> {
        let is_new = |form: &str| self.vocabulary.id(form) == UNKNOWN;
        let new = counts.iter().filter(|(form, _)| is_new(form));
        let occurrences = new.map(|(form, &training)| (form.as_str(), Occurrences { training, test: 0 }));
        let vocabulary = Vocabulary::build(occurrences, min_count)?;
        let taken_for = vocabulary.words().map(|form| [true, false].map(|is_first| self.word(form, is_first)));
        let taken_for = taken_for.collect();
        Ok(Lexicon { raw: Some(RawWords { vocabulary, taken_for, is_known_to_all }), ..self.clone() })
    }

    /// Whether tags and actions can be numbers of 16 bits, as trees and derivations keep them.
    fn fits(&self) -> bool {
        let most = usize::from(u16::MAX);
        self.tags.len().max(self.labels.len()) <= most
            && self.root() + self.outcomes(Part::Transition, System::LeftCorner) <= u32::from(u16::MAX)
    }

    /// Checks that the parts belong together: files may be damaged.
    pub fn validate(&self) -> Result<(), String> {
        ensure(!self.tags.is_empty() && !self.labels.is_empty() && self.fits(), "the number of tags and labels")?;
        self.surface.validate()?;
        let Some(raw) = &self.raw else { return Ok(()) };
        ensure(raw.taken_for.len() == raw.vocabulary.len(), "the number of words of raw text")?;
        ensure(raw.taken_for.iter().flatten().all(|&word| word < self.words()), "words of raw text")
    }

    /// The number of a word that is known as it is.
    fn exactly(&self, form: &str) -> Option<u32> {
        let id = |vocabulary: &Vocabulary| Some(vocabulary.id(form)).filter(|id| *id != UNKNOWN);
        let raw = || self.raw.as_ref().and_then(|raw| id(&raw.vocabulary));
        id(&self.vocabulary).or_else(|| raw().map(|id| self.first_raw() - 1 + id))
    }

    /// The number of a word that is known, in lower case if not as it is.
    fn known(&self, form: &str) -> Option<u32> {
        self.exactly(form).or_else(|| self.exactly(&form.to_lowercase()))
    }

    /// The number of a word, or of its class.
    pub fn word(&self, form: &str, is_first: bool) -> u32 {
        self.known(form).unwrap_or_else(|| {
            self.surface.class(form, is_first).map_or(UNKNOWN, |class| self.vocabulary.len() as u32 + class)
        })
    }

    /// Whether a number is that of a class of unknown words.
    pub fn is_unknown(&self, word: u32) -> bool {
        word == UNKNOWN || (self.vocabulary.len() as u32..self.first_raw()).contains(&word)
    }

    /// The number of the first word that raw text alone has taught.
    fn first_raw(&self) -> u32 {
        (self.vocabulary.len() + self.surface.len()) as u32
    }

    /// What a word was before raw text taught it, as the first of a sentence or not.
    pub fn taken_for(&self, word: u32, is_first: bool) -> u32 {
        match (&self.raw, word.checked_sub(self.first_raw())) {
            (Some(raw), Some(at)) => raw.taken_for.get(at as usize + 1).map_or(word, |of| of[usize::from(!is_first)]),
            _ => word,
        }
    }

    /// Turns the words in a context of transitions or tags into what they were before raw text taught them.
    #[inline]
    pub fn coarsen(&self, elements: &[Element], values: &mut [u32]) {
        if self.raw.as_ref().is_none_or(|raw| raw.is_known_to_all) {
            return;
        }
        for (value, element) in values.iter_mut().zip(elements) {
            if element.attribute == Attribute::Word && *value > self.first_raw() {
                *value = self.taken_for(*value - 1, false) + 1;
            }
        }
    }

    /// How many words and classes there are.
    pub fn words(&self) -> u32 {
        self.first_raw() + self.raw_words()
    }

    /// How many words raw text alone has taught.
    pub fn raw_words(&self) -> u32 {
        self.raw.as_ref().map_or(0, |raw| raw.vocabulary.len() as u32 - 1)
    }

    /// Words that are known.
    pub fn known_words(&self) -> usize {
        self.vocabulary.len() - 1 + self.raw_words() as usize
    }

    /// Classes of unknown words.
    pub fn classes(&self) -> usize {
        self.surface.len() + 1
    }

    /// The word of a number, or the name of the class.
    pub fn word_name(&self, word: u32) -> String {
        if let (Some(raw), Some(at)) = (&self.raw, word.checked_sub(self.first_raw())) {
            return raw.vocabulary.word(at + 1).to_string();
        }
        match (word as usize).checked_sub(self.vocabulary.len()) {
            None => self.vocabulary.word(word).to_string(),
            Some(class) => self.surface.name(class as u32),
        }
    }

    /// The words of a sentence of a treebank, with their numbers.
    pub fn sentence(&self, treebank: &Treebank, sentence: usize) -> Vec<Word> {
        let words = treebank.sentence(sentence).iter().enumerate();
        let word = |(place, word): (usize, &Word)| Word {
            form: self.word(treebank.forms.name(word.form), place == 0),
            ..*word
        };
        words.map(word).collect()
    }

    /// The tag of the dummy root, behind all others.
    #[inline]
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
