//! Raw text, as a dataflow: files are counted together, all agree on the words, and every worker keeps the sentences of its
//! own shards as numbers, on disk ([`super::shelf`]).
//!
//! Runs of `RUN` paragraphs (or lines) are dealt to the shards in turn, those of training documents and those of test documents each by
//! themselves. Every worker reads all files, once, and cuts the lines of its own shards into words. A line that is no text is
//! told with its place and left out; sentences that are too long are cut, and counted.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use timely::worker::Worker;

use super::job::{Cut, Plan, RawPlan};
use super::paragraphs::each_paragraph;
use super::shelf::{OpenShelf, Shelf, Words};
use crate::cluster::operators::all_gather::AllGather;
use crate::cluster::operators::tally::Tally;
use crate::corpus::diagnostic::{Diagnostic, Problem};
use crate::corpus::documents::{RawDocument, read_documents};
use crate::corpus::running::RunningText;
use crate::parser::job::Part;
use crate::parser::lexicon::Lexicon;
use crate::parser::treebank::Treebank;

/// Paragraphs that stay together.
const RUN: u64 = 32;

/// Problems that are kept of a file.
const KEPT_PROBLEMS: usize = 20;

/// Sentences as numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sentences {
    words: Vec<u32>,
    ends: Vec<u32>,
}

impl Sentences {
    pub fn push(&mut self, words: impl IntoIterator<Item = u32>) {
        self.words.extend(words);
        self.ends.push(self.words.len() as u32);
    }

    /// Number of sentences.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Where a sentence's words are among all words.
    pub fn range(&self, number: usize) -> std::ops::Range<usize> {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        start as usize..self.ends[number] as usize
    }

    pub fn sentence(&self, number: usize) -> &[u32] {
        &self.words[self.range(number)]
    }

    pub fn words(&self) -> &[u32] {
        &self.words
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        (0..self.len()).map(|number| self.sentence(number))
    }
}

/// How much text there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    pub sentences: u64,
    pub words: u64,
    /// Sentences that were cut since they were too long.
    pub cut: u64,
}

impl Size {
    fn add(&mut self, other: &Size) {
        self.sentences += other.sentences;
        self.words += other.words;
        self.cut += other.cut;
    }
}

/// What a worker counted: of training and test, with problems by file.
type Found = Result<([Size; 2], Vec<(u32, Problem)>), String>;

/// The text of a worker.
pub struct Text {
    pub lexicon: Lexicon,
    /// By shard: own ones.
    pub training: BTreeMap<u32, Shelf>,
    /// The same; on the first worker, all.
    pub test: BTreeMap<u32, Sentences>,
    /// Of all workers.
    pub sizes: [Size; 2],
    pub problems: Vec<Diagnostic>,
}

/// Reads the raw text of `plan`, and adds its words to those of the treebank. Every worker must call this; all succeed or
/// all fail.
pub fn collect(worker: &mut Worker, plan: &Plan, treebank: &Treebank, lexicon: &Lexicon) -> Result<Text, String> {
    let mut found = AllGather::<Found>::new(worker, "Sizes");
    let mut words = Tally::<String>::new(worker, "Words");
    let mut lexicons = AllGather::<Result<Lexicon, String>>::new(worker, "Lexicon");
    let (index, peers) = (worker.index(), worker.peers());
    let reader = Reader { raw: &plan.raw, shards: plan.shards() };

    let mut cut = Cutting { is_first: index == 0, index, peers, ..Cutting::default() };
    if index == 0 {
        for word in &treebank.words {
            cut.words.count(treebank.forms.name(word.form), 1);
        }
    }
    let own = cut.all(&reader);
    cut.words.counts().for_each(|(word, count)| words.add(word.to_string(), count));
    let (mut sizes, mut problems) = ([Size::default(); 2], vec![]);
    for (_, found) in found.exchange(worker, vec![(index as u64, own)]) {
        let (of_worker, told) = found?;
        sizes.iter_mut().zip(&of_worker).for_each(|(sum, size)| sum.add(size));
        problems.extend(told);
    }
    words.settle(worker);
    let mut built = vec![];
    if index == 0 {
        let counts = words.totals().into_iter().map(|(word, count)| (word, count as u64)).collect();
        let is_known_to_all = plan.learns(Part::Tag);
        built.push((0, lexicon.with_raw_words(&counts, plan.raw.settings.min_count, is_known_to_all)));
    }
    let (_, lexicon) = lexicons.exchange(worker, built).remove(0);
    let lexicon = lexicon?;
    let problems: Vec<Diagnostic> = problems
        .into_iter()
        .map(|(file, problem)| Diagnostic { path: plan.raw.files[file as usize].display().to_string(), problem })
        .collect();
    if sizes[0].sentences == 0 {
        let reason = problems.first().map_or(String::new(), |problem| format!("\n{problem}"));
        return Err(format!("there is no raw text to train on{reason}"));
    }
    let (training, test) = cut.close(&lexicon).map_err(|e| full(&e))?;
    Ok(Text { lexicon, training, test, sizes, problems })
}

/// What is said where a temporary file cannot be written.
fn full(error: &io::Error) -> String {
    let folder = std::env::temp_dir();
    format!("sentences of raw text could not be kept in {}: {error}; TMPDIR can name another folder", folder.display())
}

/// What a worker makes of the text that it cuts into words.
#[derive(Default)]
struct Cutting {
    index: usize,
    peers: usize,
    /// Whether this is the worker that tells of problems, and has all of the text to test on.
    is_first: bool,
    words: Words,
    training: BTreeMap<u32, OpenShelf>,
    /// Sentences as the own words are numbered.
    test: BTreeMap<u32, Sentences>,
}

impl Cutting {
    /// Cuts the text of the own shards.
    fn all(&mut self, reader: &Reader<'_>) -> Found {
        let (mut sizes, mut problems) = ([Size::default(); 2], BTreeMap::<u32, Vec<Problem>>::new());
        let (index, peers, is_first) = (self.index, self.peers, self.is_first);
        let is_mine = |shard: u32| shard as usize % peers == index;
        let is_wanted = |shard: u32, is_test: bool| is_mine(shard) || (is_test && is_first);
        let (mut failed, mut numbers) = (None, vec![]);
        let visit = |shard: u32, is_test: bool, words: &[&str], is_cut: bool| {
            if is_mine(shard) {
                let size = Size { sentences: 1, words: words.len() as u64, cut: u64::from(is_cut) };
                sizes[usize::from(is_test)].add(&size);
            }
            numbers.clear();
            numbers.extend(words.iter().map(|word| self.words.count(word, i64::from(!is_test))));
            if is_test {
                self.test.entry(shard).or_default().push(numbers.iter().copied());
            } else if let Err(error) = self.keep(shard, &numbers) {
                failed.get_or_insert(full(&error));
            }
        };
        reader.each_sentence(is_wanted, visit, &mut |file, problem| {
            let of_file = problems.entry(file).or_default();
            if is_first && of_file.len() < KEPT_PROBLEMS {
                of_file.push(problem);
            }
        })?;
        if let Some(message) = failed {
            return Err(message);
        }
        // Here, where all workers hear of it, and not when the first of them reads.
        self.training.values_mut().try_for_each(OpenShelf::flush).map_err(|e| full(&e))?;
        let told = problems.into_iter().flat_map(|(file, list)| list.into_iter().map(move |problem| (file, problem)));
        Ok((sizes, told.collect()))
    }

    /// Puts a sentence on the shelf of its shard.
    fn keep(&mut self, shard: u32, numbers: &[u32]) -> io::Result<()> {
        let shelf = match self.training.entry(shard) {
            Entry::Vacant(place) => place.insert(OpenShelf::new()?),
            Entry::Occupied(shelf) => shelf.into_mut(),
        };
        shelf.push(numbers)
    }

    /// The sentences to train and to test on, by shard, as a lexicon numbers them.
    fn close(self, lexicon: &Lexicon) -> io::Result<(BTreeMap<u32, Shelf>, BTreeMap<u32, Sentences>)> {
        let meanings = self.words.meanings(lexicon);
        let mut test = BTreeMap::<u32, Sentences>::new();
        for (shard, sentences) in self.test {
            let known = test.entry(shard).or_default();
            sentences.iter().for_each(|words| known.push(meanings.sentence(words.iter().copied())));
        }
        let close = |(shard, shelf): (u32, OpenShelf)| Ok((shard, shelf.close(meanings.clone())?));
        Ok((self.training.into_iter().map(close).collect::<io::Result<_>>()?, test))
    }
}

/// Reads sentences, and knows which shard each is of.
struct Reader<'a> {
    raw: &'a RawPlan,
    shards: u32,
}

impl Reader<'_> {
    /// Shows each sentence that is wanted by its shard and by whether it is to test on: these two, its words, and whether it
    /// was cut.
    fn each_sentence(
        &self,
        is_wanted: impl Fn(u32, bool) -> bool,
        mut visit: impl FnMut(u32, bool, &[&str], bool),
        report: &mut dyn FnMut(u32, Problem),
    ) -> Result<(), String> {
        let settings = &self.raw.settings;
        let running = RunningText::new(settings.max_words);
        let mut lines = [0u64; 2];
        for (file, path) in (0..).zip(&self.raw.files) {
            let is_test_file = file as usize >= self.raw.training_files;
            let mut document = 0;
            let mut read = |text: &RawDocument<'_>| {
                document += 1;
                let is_test = is_test_file || (settings.hold_out > 0 && document % settings.hold_out == 0);
                let cut = |paragraph: &str| {
                    let number = &mut lines[usize::from(is_test)];
                    let shard = (*number / RUN % u64::from(self.shards)) as u32;
                    *number += 1;
                    if is_wanted(shard, is_test) {
                        self.cut(&running, paragraph, |words, is_cut| visit(shard, is_test, words, is_cut));
                    }
                };
                match settings.cut {
                    Cut::Wrapped => each_paragraph(text.text, cut),
                    Cut::Running | Cut::Lines => text.text.lines().for_each(cut),
                }
            };
            self.read(path, &mut read, &mut |problem| report(file, problem))?;
        }
        Ok(())
    }

    fn read(
        &self,
        path: &Path,
        visit: &mut dyn FnMut(&RawDocument<'_>),
        report: &mut dyn FnMut(Problem),
    ) -> Result<(), String> {
        let settings = &self.raw.settings;
        read_documents(path, settings.encoding, settings.format, visit, report)
            .map_err(|e| format!("{}: {e}", path.display()))
    }

    fn cut<'t>(&self, running: &RunningText, line: &'t str, mut visit: impl FnMut(&[&'t str], bool)) {
        match self.raw.settings.cut {
            Cut::Running | Cut::Wrapped => running.each_sentence(line, visit),
            Cut::Lines => {
                let words: Vec<&str> = line.split_whitespace().collect();
                let is_cut = words.len() > self.raw.settings.max_words;
                words.chunks(self.raw.settings.max_words).for_each(|words| visit(words, is_cut));
            }
        }
    }
}
