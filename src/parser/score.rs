//! Attachment scores and tagging accuracy, as in the CoNLL 2018 shared task: words are compared one by one, labels without
//! what stands behind a colon.

use super::treebank::{Treebank, Word};

/// The part of a label that is the same in all languages: `nmod` of `nmod:poss`.
pub fn universal(label: &str) -> &str {
    label.split(':').next().unwrap_or(label)
}

/// What is right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub words: u64,
    pub heads: u64,
    /// Heads and labels.
    pub arcs: u64,
    pub tags: u64,
    /// Where arcs have no labels.
    pub is_unlabelled: bool,
}

impl Counts {
    fn add(&mut self, is_head: bool, is_label: bool, is_tag: bool) {
        self.words += 1;
        self.heads += u64::from(is_head);
        self.arcs += u64::from(is_head && is_label);
        self.tags += u64::from(is_tag);
    }

    fn percent(&self, right: u64) -> Option<f64> {
        (self.words > 0).then(|| 100.0 * right as f64 / self.words as f64)
    }

    pub fn uas(&self) -> Option<f64> {
        self.percent(self.heads)
    }

    pub fn las(&self) -> Option<f64> {
        self.percent(self.arcs).filter(|_| !self.is_unlabelled)
    }

    pub fn tag_accuracy(&self) -> Option<f64> {
        self.percent(self.tags)
    }
}

/// Counts of all words, and of those that are not punctuation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    pub sentences: u64,
    pub exact: u64,
    pub all: Counts,
    pub no_punctuation: Counts,
}

impl Score {
    /// Adds a sentence: of each word, whether head, label and tag are right.
    pub fn add(&mut self, gold: &[Word], is_right: impl Fn(usize, &Word) -> [bool; 3]) {
        self.sentences += 1;
        let before = self.all;
        for (place, word) in gold.iter().enumerate() {
            let [is_head, is_label, is_tag] = is_right(place, word);
            self.all.add(is_head, is_label, is_tag);
            if !word.is_punctuation {
                self.no_punctuation.add(is_head, is_label, is_tag);
            }
        }
        let wrong = (self.all.words - before.words) - (self.all.heads - before.heads);
        self.exact += u64::from(wrong == 0);
    }
}

/// Scores the trees of `system` against those of `gold`, which must have the same words.
pub fn compare(gold: &Treebank, system: &Treebank) -> Result<Score, String> {
    if gold.len() != system.len() {
        return Err(format!("{} sentences instead of {}", system.len(), gold.len()));
    }
    let mut score = Score::default();
    for (number, (right, found)) in gold.sentences().zip(system.sentences()).enumerate() {
        let forms = |treebank: &Treebank, words: &[Word]| -> Vec<String> {
            words.iter().map(|word| treebank.forms.name(word.form).to_string()).collect()
        };
        if forms(gold, right) != forms(system, found) {
            return Err(format!("sentence {} has other words than in the gold file", number + 1));
        }
        score.add(right, |place, word| {
            let other = &found[place];
            [
                word.head == other.head,
                universal(gold.labels.name(word.label)) == universal(system.labels.name(other.label)),
                gold.tags.name(word.tag) == system.tags.name(other.tag),
            ]
        });
    }
    Ok(score)
}
