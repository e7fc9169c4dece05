//! Trees to train on and to be scored against, as numbers.
//!
//! Memory: 20 bytes a word, and each form once. Every worker reads all of the training set (the vocabulary, tags, labels
//! and suffixes follow from all of it); contexts are made for the worker's own shards.

use std::path::PathBuf;

use xxhash_rust::xxh3::Xxh3;

use super::lexicon::Names;
use crate::corpus::conll::{Reader, Sentence, column};
use crate::corpus::diagnostic::Problem;
use crate::corpus::piece::{Blocks, Input};
use crate::corpus::text::Encoding;
use crate::corpus::tokens::Tokenisation;
use crate::corpus::tree::{Shape, Tree};
use crate::oracle::punctuation::is_punctuation;
use crate::transition::{LeftCorner, TransitionSystem, follow_oracle};

/// A word of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    pub form: u32,
    pub tag: u32,
    /// As in CoNLL-U: words are 1 .. n, 0 is the root.
    pub head: u32,
    pub label: u32,
    pub is_punctuation: bool,
}

/// Which column is the tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TagColumn {
    #[default]
    Upos,
    Xpos,
}

impl TagColumn {
    pub fn index(self) -> usize {
        match self {
            TagColumn::Upos => column::UPOS,
            TagColumn::Xpos => column::XPOS,
        }
    }

    /// Its name in job files, and that of the other one.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            TagColumn::Upos => ("upos", "xpos"),
            TagColumn::Xpos => ("xpos", "upos"),
        }
    }

    /// A tag as the two columns.
    pub fn split(self, tag: &str) -> (&str, &str) {
        match self {
            TagColumn::Upos => (tag, "_"),
            TagColumn::Xpos => ("_", tag),
        }
    }
}

/// What is done with trees that have crossing arcs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NonProjective {
    /// They are left out.
    #[default]
    Skip,
    /// Words are lifted to the heads of their heads until no arcs cross.
    Lift,
    /// They stay: for trees to be scored against.
    Keep,
}

impl NonProjective {
    /// What has been done.
    pub fn in_words(self) -> &'static str {
        match self {
            NonProjective::Skip => "left out",
            NonProjective::Lift => "lifted",
            NonProjective::Keep => "kept",
        }
    }
}

/// What is done to the words of trees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preparation {
    pub tokenisation: Tokenisation,
    pub drops_punctuation: bool,
}

#[derive(Debug, Default)]
pub struct Treebank {
    pub forms: Names,
    pub tags: Names,
    pub labels: Names,
    pub words: Vec<Word>,
    /// Where each sentence ends among the words.
    ends: Vec<usize>,
    /// Sentences with crossing arcs: left out or lifted.
    pub non_projective: u64,
    /// Sentences that were left out since they need more memory than there is.
    pub too_deep: u64,
    /// Sentences whose heads are no tree.
    pub no_tree: u64,
    /// The first problems, with the file that each is of.
    pub problems: Vec<(PathBuf, Problem)>,
}

/// Problems that are kept.
const KEPT_PROBLEMS: usize = 20;

impl Treebank {
    /// Tells these trees from others.
    pub fn digest(&self) -> u64 {
        let mut digest = Xxh3::new();
        for name in [&self.forms, &self.tags, &self.labels].into_iter().flat_map(Names::iter) {
            digest.update(name.as_bytes());
            digest.update(b"\xff"); // no name has this byte
        }
        for sentence in self.sentences() {
            digest.update(&(sentence.len() as u32).to_le_bytes());
            for Word { form, tag, head, label, is_punctuation } in sentence {
                let numbers = [*form, *tag, *head, *label, u32::from(*is_punctuation)];
                numbers.iter().for_each(|number| digest.update(&number.to_le_bytes()));
            }
        }
        digest.digest()
    }

    /// Reads all sentences of the files.
    pub fn read(
        files: &[PathBuf],
        encoding: Encoding,
        tag: TagColumn,
        crossing: NonProjective,
    ) -> Result<Treebank, String> {
        Treebank::read_some(files, encoding, tag, crossing, |_| true)
    }

    /// The same, of the sentences whose number `is_wanted`, counted from 0 over all files.
    pub fn read_some(
        files: &[PathBuf],
        encoding: Encoding,
        tag: TagColumn,
        crossing: NonProjective,
        is_wanted: impl Fn(u64) -> bool,
    ) -> Result<Treebank, String> {
        let mut number = 0;
        let mut treebank = Treebank::default();
        let mut reader = Reader::default();
        for path in files {
            let cannot = |e: std::io::Error| format!("{}: {e}", path.display());
            let input = Input::file(0, path.clone(), encoding).map_err(cannot)?;
            let mut blocks = Blocks::open(0, &input.whole_piece(0), &input);
            while let Some(block) = blocks.next_block() {
                block.problems.iter().for_each(|problem| treebank.keep_problem(path, problem));
                reader.read(&block, |sentence| {
                    number += 1;
                    if is_wanted(number - 1) {
                        treebank.add(path, sentence, tag, crossing);
                    }
                });
            }
        }
        Ok(treebank)
    }

    fn keep_problem(&mut self, path: &std::path::Path, problem: &Problem) {
        if self.problems.len() < KEPT_PROBLEMS {
            self.problems.push((path.to_path_buf(), problem.clone()));
        }
    }

    fn add(&mut self, path: &std::path::Path, sentence: &Sentence<'_>, tag: TagColumn, crossing: NonProjective) {
        if !sentence.problems.is_empty() || sentence.shape == Shape::Rootless {
            self.no_tree += 1;
            sentence.problems.iter().for_each(|problem| self.keep_problem(path, problem));
            return;
        }
        let mut heads: Vec<u32> = sentence.tokens.iter().map(|token| token.head).collect();
        if sentence.shape == Shape::NonProjective {
            self.non_projective += 1;
            match crossing {
                NonProjective::Skip => return,
                NonProjective::Lift => lift(&mut heads),
                NonProjective::Keep => {}
            }
        }
        for (place, head) in heads.into_iter().enumerate() {
            let form = sentence.column(place, column::FORM);
            let word = Word {
                form: self.forms.number(form),
                tag: self.tags.number(sentence.column(place, tag.index())),
                head,
                label: self.labels.number(sentence.column(place, column::DEPREL)),
                is_punctuation: is_punctuation(form, sentence.column(place, column::UPOS)),
            };
            self.words.push(word);
        }
        self.ends.push(self.words.len());
    }

    /// Number of sentences.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The words of a sentence.
    pub fn sentence(&self, number: usize) -> &[Word] {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.words[start..self.ends[number]]
    }

    pub fn sentences(&self) -> impl ExactSizeIterator<Item = &[Word]> {
        (0..self.len()).map(|number| self.sentence(number))
    }

    /// Leaves out trees whose left-corner derivation has more elements on its stack.
    pub fn leave_out_deeper(&mut self, max_memory: u32) {
        let (mut system, mut tree) = (LeftCorner::default(), Tree::default());
        let (words, ends) = (std::mem::take(&mut self.words), std::mem::take(&mut self.ends));
        let mut start = 0;
        for end in ends {
            let sentence = &words[start..end];
            start = end;
            tree.set_heads(sentence.iter().map(|word| word.head));
            let mut most = 0;
            follow_oracle(&mut system, &tree, |system, _| most = most.max(system.memory_cost()));
            if most > max_memory {
                self.too_deep += 1;
                continue;
            }
            self.words.extend_from_slice(sentence);
            self.ends.push(self.words.len());
        }
    }

    /// Makes the forms one as text is made one, and drops punctuation where that is asked for: so that trees look like
    /// text that was prepared in this way.
    pub fn prepare(&mut self, preparation: &Preparation) {
        if preparation.drops_punctuation {
            self.drop_punctuation();
        }
        let (mut forms, mut scratch) = (Names::default(), String::new());
        let new: Vec<u32> = self
            .forms
            .iter()
            .map(|form| forms.number(preparation.tokenisation.normalise(form, &mut scratch)))
            .collect();
        self.words.iter_mut().for_each(|word| word.form = new[word.form as usize]);
        self.forms = forms;
    }

    /// Drops punctuation; its dependents go to its nearest ancestor that stays. Sentences of nothing else are left out.
    fn drop_punctuation(&mut self) {
        let (words, ends) = (std::mem::take(&mut self.words), std::mem::take(&mut self.ends));
        let mut start = 0;
        for end in ends {
            let sentence = &words[start..end];
            start = end;
            let mut places = vec![0; sentence.len() + 1];
            for (place, word) in (1..).zip(sentence) {
                places[place] = places[place - 1] + u32::from(!word.is_punctuation);
            }
            let before = self.words.len();
            for word in sentence.iter().filter(|word| !word.is_punctuation) {
                let mut head = word.head as usize;
                while head > 0 && sentence[head - 1].is_punctuation {
                    head = sentence[head - 1].head as usize;
                }
                self.words.push(Word { head: places[head], ..*word });
            }
            if self.words.len() > before {
                self.ends.push(self.words.len());
            }
        }
    }

    /// Takes the labels off all arcs.
    pub fn drop_labels(&mut self) {
        self.labels = Names::default();
        let none = self.labels.number("_");
        self.words.iter_mut().for_each(|word| word.label = none);
    }

    /// Whether every sentence has one word that depends on the root.
    pub fn is_single_rooted(&self) -> bool {
        self.sentences().all(|words| words.iter().filter(|word| word.head == 0).count() == 1)
    }
}

/// Makes heads (0 is the root) projective: of the arcs with words between them that are not below their head, the shortest
/// goes up to the head's head, until there is none (Nivre & Nilsson 2005).
pub fn lift(heads: &mut [u32]) {
    let mut tree = Tree::default();
    loop {
        tree.set_heads(heads.iter().copied());
        if tree.is_projective() {
            return;
        }
        let crossing = |&word: &u32| heads[word as usize - 1] != 0 && !is_projective_arc(heads, word);
        let length = |&word: &u32| (word.abs_diff(heads[word as usize - 1]), word);
        let Some(word) = (1..=heads.len() as u32).filter(crossing).min_by_key(length) else { return };
        heads[word as usize - 1] = heads[heads[word as usize - 1] as usize - 1];
    }
}

/// Whether all words between `word` and its head are below the head.
fn is_projective_arc(heads: &[u32], word: u32) -> bool {
    let head = heads[word as usize - 1];
    let is_below = |mut word: u32| {
        while word != 0 && word != head {
            word = heads[word as usize - 1];
        }
        word == head
    };
    (word.min(head) + 1..word.max(head)).all(is_below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crossing_arcs_are_lifted() {
        // 1 and 3 cross 2 -> 4.
        let mut heads = [3, 0, 2, 1, 2];
        let mut tree = Tree::default();
        tree.set_heads(heads.iter().copied());
        assert!(!tree.is_projective());
        lift(&mut heads);
        tree.set_heads(heads.iter().copied());
        assert!(tree.is_projective(), "{heads:?}");
        let mut good = [2, 0, 2];
        lift(&mut good);
        assert_eq!(good, [2, 0, 2]);
    }
}
