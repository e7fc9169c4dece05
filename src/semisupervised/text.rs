//! Raw text, as a dataflow: files are counted together, all agree on the words, and every worker keeps the sentences of its
//! own shards as numbers, on disk ([`super::shelf`]).
//!
//! Every worker reads all files, once ([`super::reader`]), and cuts the lines of its own shards into words; those to tune and
//! to test on are cut, and kept in memory, by all. All must have read the same, or none goes on. A line that is no text is told
//! with its place and left out; sentences that are too long are cut, and counted.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use timely::worker::Worker;
use xxhash_rust::xxh3::xxh3_64;

use super::job::Plan;
use super::reader::{Reader, Use};
use super::shelf::{OpenShelves, Shelf, Words};
use crate::cluster::operators::all_gather::AllGather;
use crate::cluster::operators::tally::Tally;
use crate::cluster::own::Own;
use crate::corpus::diagnostic::{Diagnostic, Problem};
use crate::parser::job::Part;
use crate::parser::lexicon::Lexicon;
use crate::parser::treebank::Treebank;

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
    /// What was left out since it is no text, or stands in no document: how often something was told.
    pub left_out: u64,
}

impl Size {
    fn add(&mut self, other: &Size) {
        self.sentences += other.sentences;
        self.words += other.words;
        self.cut += other.cut;
        self.left_out += other.left_out;
    }
}

/// What a worker has found in all files.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Found {
    /// Of its own shards, by [`Use`].
    sizes: [Size; 3],
    /// The trees that it has.
    trees: u64,
    /// By file: what the whole of it is.
    digests: Vec<u64>,
    /// Of all files.
    documents: u64,
    /// With their files.
    problems: Vec<(u32, Problem)>,
}

/// The sentences to train on, by shard.
type Shelves = BTreeMap<u32, Arc<Shelf>>;

/// The text of a worker.
pub struct Text {
    pub lexicon: Lexicon,
    /// By shard: own ones.
    pub training: Shelves,
    /// By shard: all of them, on every worker.
    pub tuning: BTreeMap<u32, Sentences>,
    pub test: BTreeMap<u32, Sentences>,
    /// Of all workers, by [`Use`].
    pub sizes: [Size; 3],
    pub problems: Vec<Diagnostic>,
    /// Tells it and the treebank from others.
    pub digest: u64,
    /// In files to train and to test on.
    pub documents: u64,
}

/// Reads the raw text of `plan`, and adds its words to those of the treebank. Every worker must call this; all succeed or
/// all fail.
pub fn collect(worker: &mut Worker, plan: &Plan, treebank: &Treebank, lexicon: &Lexicon) -> Result<Text, String> {
    let mut found = AllGather::<Result<Found, String>>::new(worker, "Sizes");
    let mut words = Tally::<String>::new(worker, "Words");
    let mut lexicons = AllGather::<Result<Lexicon, String>>::new(worker, "Lexicon");
    let index = worker.index();
    let reader = Reader { raw: &plan.raw, shards: plan.shards() };

    let mut cut = Cutting::new(worker);
    if index == 0 {
        for word in &treebank.words {
            cut.words.count(treebank.forms.name(word.form), 1);
        }
    }
    let own = cut.all(&reader).map(|found| Found { trees: treebank.digest(), ..found });
    cut.words.counts().for_each(|(word, count)| words.add(word.to_string(), count));
    let all = found.exchange(worker, vec![(index as u64, own)]);
    let mut all: Vec<Found> = all.into_iter().map(|(_, found)| found).collect::<Result<_, _>>()?;
    let path = |file: u32| plan.raw.files[file as usize].as_path();
    agree(&all, path)?;
    let mut sizes = [Size::default(); 3];
    all.iter().for_each(|found| sizes.iter_mut().zip(&found.sizes).for_each(|(sum, size)| sum.add(size)));
    let Found { trees, mut digests, documents, problems, .. } = all.swap_remove(0);
    let problems: Vec<_> = problems.into_iter().map(|(file, problem)| diagnostic(path(file), problem)).collect();
    words.settle(worker);
    let mut built = vec![];
    if index == 0 {
        let counts = words.totals().into_iter().map(|(word, count)| (word, count as u64)).collect();
        let is_known_to_all = plan.learns(Part::Tag);
        built.push((0, lexicon.with_raw_words(&counts, plan.raw.settings.min_count, is_known_to_all)));
    }
    let (_, lexicon) = lexicons.exchange(worker, built).remove(0);
    let lexicon = lexicon?;
    if sizes[0].sentences == 0 {
        let reason = problems.first().map_or(String::new(), |problem| format!("\n{problem}"));
        return Err(format!("there is no raw text to train on{reason}"));
    }
    let (training, [tuning, test]) = cut.close(&lexicon);
    digests.push(trees);
    let digest = xxh3_64(&digests.iter().flat_map(|digest| digest.to_le_bytes()).collect::<Vec<u8>>());
    Ok(Text { lexicon, training, tuning, test, sizes, problems, digest, documents })
}

fn diagnostic(path: &Path, problem: Problem) -> Diagnostic {
    Diagnostic { path: path.display().to_string(), problem }
}

/// Fails where trees or files are not the same to all workers: their shards would not be parts of one text.
fn agree<'p>(all: &[Found], path: impl Fn(u32) -> &'p Path) -> Result<(), String> {
    let digests = |worker: usize| (0..).zip(&all[worker].digests);
    for worker in 1..all.len() {
        if all[worker].trees != all[0].trees {
            return Err(format!("worker {worker} reads another treebank than worker 0 does"));
        }
        let other = digests(0).zip(digests(worker)).find(|(one, other)| one != other);
        if let Some(((file, _), _)) = other {
            let mut problems = all[worker].problems.iter().chain(&all[0].problems);
            let problem = problems.find(|(of, problem)| *of == file && problem.rule.concerns_file());
            let reason =
                problem.map_or(String::new(), |(_, problem)| format!(" ({})", diagnostic(path(file), problem.clone())));
            let path = path(file).display();
            return Err(format!("{path}: worker {worker} reads another text here than worker 0 does{reason}"));
        }
    }
    Ok(())
}

/// What is said where a temporary file cannot be written.
fn full(error: &io::Error) -> String {
    let folder = std::env::temp_dir();
    format!("sentences of raw text could not be kept in {}: {error}; TMPDIR can name another folder", folder.display())
}

/// What a worker makes of the text that it cuts into words.
struct Cutting {
    own: Own,
    /// Whether this worker counts what all see.
    is_first: bool,
    words: Words,
    training: OpenShelves,
    /// To tune and to test on: sentences as the own words are numbered.
    kept: [BTreeMap<u32, Sentences>; 2],
}

impl Cutting {
    fn new(worker: &Worker) -> Cutting {
        let (words, training, kept) = Default::default();
        Cutting { own: Own::of(worker), is_first: worker.index() == 0, words, training, kept }
    }

    /// Cuts the text of the own shards.
    fn all(&mut self, reader: &Reader<'_>) -> Result<Found, String> {
        let (mut sizes, mut problems) = ([Size::default(); 3], BTreeMap::<u32, Vec<Problem>>::new());
        let (own, is_first) = (self.own, self.is_first);
        let is_wanted = |shard: u32, used: Use| own.has(shard) || used != Use::Train;
        let (mut failed, mut numbers) = (None, vec![]);
        let visit = |shard: u32, used: Use, words: &[&str], is_cut: bool| {
            if own.has(shard) {
                let size = Size { sentences: 1, words: words.len() as u64, cut: u64::from(is_cut), left_out: 0 };
                sizes[used as usize].add(&size);
            }
            numbers.clear();
            numbers.extend(words.iter().map(|word| self.words.count(word, i64::from(used == Use::Train))));
            let [tuning, test] = &mut self.kept;
            match used {
                Use::Train if failed.is_none() => failed = self.training.push(shard, &numbers).err(),
                Use::Train => {}
                Use::Tune => tuning.entry(shard).or_default().push(numbers.iter().copied()),
                Use::Test => test.entry(shard).or_default().push(numbers.iter().copied()),
            }
        };
        let mut left_out = [0; 3];
        let (digests, documents) = reader.each_sentence(is_wanted, visit, &mut |file, used, problem| {
            let of_file = problems.entry(file).or_default();
            if of_file.len() < KEPT_PROBLEMS || problem.rule.concerns_file() {
                of_file.push(problem);
            }
            left_out[used as usize] += u64::from(is_first); // all see the same: they count once
        })?;
        sizes.iter_mut().zip(left_out).for_each(|(size, left_out)| size.left_out = left_out);
        // Here, where all workers hear of it, and not when the first of them reads.
        failed.map_or(Ok(()), Err).and_then(|()| self.training.flush()).map_err(|e| full(&e))?;
        let told = problems.into_iter().flat_map(|(file, list)| list.into_iter().map(move |problem| (file, problem)));
        Ok(Found { sizes, trees: 0, digests, documents, problems: told.collect() })
    }

    /// The sentences to train on, to tune and to test on, by shard, as a lexicon numbers them.
    fn close(self, lexicon: &Lexicon) -> (Shelves, [BTreeMap<u32, Sentences>; 2]) {
        let meanings = self.words.meanings(lexicon);
        let known = |sentences: Sentences| {
            let mut known = Sentences::default();
            sentences.iter().for_each(|words| known.push(meanings.sentence(words.iter().copied())));
            known
        };
        let kept = self.kept.map(|all| all.into_iter().map(|(shard, sentences)| (shard, known(sentences))).collect());
        (self.training.close(&meanings), kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::diagnostic::Rule;

    #[test]
    fn who_reads_another_text_is_named() {
        let found = |digests: &[u64], problems: &[(u32, Problem)]| Found {
            digests: digests.to_vec(),
            problems: problems.to_vec(),
            ..Found::default()
        };
        let path = |file: u32| Path::new(["a.txt", "b.txt"][file as usize]);
        let one = found(&[1, 2], &[]);
        assert_eq!(agree(&[one.clone(), one.clone(), one.clone()], path), Ok(()));
        let cut = Problem { line: 7, rule: Rule::Unreadable, sentence: String::new(), message: "torn".to_string() };
        let message = agree(&[one.clone(), one.clone(), found(&[1, 3], &[(1, cut)])], path).unwrap_err();
        assert!(message.starts_with("b.txt: worker 2 reads another text here than worker 0"), "{message}");
        assert!(message.contains("b.txt:7") && message.contains("torn"), "{message}");
    }
}
