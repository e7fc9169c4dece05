//! Documents on their way to shards, as a dataflow: every worker reads some of the files, all learn which documents
//! there are and choose the same test set and shards, words are counted together, and every worker keeps the documents
//! of its own shards as word ids.
//!
//! Files are read three times (which documents, which words, the documents themselves) and never kept as text.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use timely::worker::Worker;

use super::job::Plan;
use crate::cluster::operators::all_gather::AllGather;
use crate::cluster::operators::tally::Tally;
use crate::cluster::own::Own;
use crate::corpus::diagnostic::Problem;
use crate::corpus::documents::{RawDocument, read_documents};
use crate::corpus::hold_out::Candidate;
use crate::corpus::shard::shards;
use crate::corpus::vocabulary::{Occurrences, UNKNOWN, Vocabulary};
use crate::job::corpus::Test;
use crate::lm::text::{Symbols, each_word};

/// Problems that are kept of a file.
const KEPT_PROBLEMS: usize = 20;

/// What is known of a document before it is read for good.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    pub file: u32,
    pub id: String,
    pub label: String,
    pub tokens: u64,
}

/// The documents of a file and what is wrong with it, or why it cannot be read.
type Listed = Result<(Vec<Entry>, Vec<Problem>), String>;

/// All documents of a job, in the order of files and of places in them; the same on every worker.
pub struct Catalogue {
    pub entries: Vec<Entry>,
    pub is_test: Vec<bool>,
    /// The shard of each document; test documents have one too, for evaluation.
    pub shard: Vec<u32>,
    pub problems: Vec<(u32, Problem)>,
}

/// A worker's documents: by shard, each with its number in the catalogue and its word ids.
#[derive(Clone, Default)]
pub struct Share {
    pub training: BTreeMap<u32, Vec<(u32, Vec<u32>)>>,
    pub test: BTreeMap<u32, Vec<(u32, Vec<u32>)>>,
}

/// What the workers make of the files.
pub struct Collection {
    pub catalogue: Catalogue,
    pub vocabulary: Vocabulary,
    pub share: Share,
    /// Tokens of the test set, and how many of them are unknown.
    pub test_tokens: u64,
    pub test_unknown: u64,
}

/// Reads the documents of `plan`. Every worker must call this; all succeed or all fail.
pub fn collect(worker: &mut Worker, plan: &Plan) -> Result<Collection, String> {
    let mut lists = AllGather::<Listed>::new(worker, "Documents");
    let mut words = Tally::<(bool, String)>::new(worker, "Words");
    let mut vocabularies = AllGather::<Result<Vocabulary, String>>::new(worker, "Vocabulary");
    let mut sums = AllGather::<(u64, u64)>::new(worker, "Unknown");
    let own = Own::of(worker);
    let mine: Vec<u32> = own.below(plan.files.len() as u32).collect();

    let list = mine.iter().map(|&file| (u64::from(file), list_documents(plan, file))).collect();
    let catalogue = catalogue(plan, lists.exchange(worker, list))?;

    count_words(plan, &catalogue, &mine, &mut words)?;
    words.settle(worker);
    let built = if worker.index() == 0 { vec![(0, build_vocabulary(plan, &words))] } else { vec![] };
    let (_, vocabulary) = vocabularies.exchange(worker, built).remove(0);
    let vocabulary = vocabulary?;

    let share = load(plan, &catalogue, &vocabulary, own)?;
    let mine = share.test.iter().filter(|(shard, _)| own.has(**shard));
    let (mut tokens, mut unknown) = (0, 0);
    for (_, words) in mine.flat_map(|(_, documents)| documents) {
        tokens += words.len() as u64;
        unknown += words.iter().filter(|&&word| word == UNKNOWN).count() as u64;
    }
    let all = sums.exchange(worker, vec![(worker.index() as u64, (tokens, unknown))]);
    let (test_tokens, test_unknown) = all.iter().fold((0, 0), |sum, (_, part)| (sum.0 + part.0, sum.1 + part.1));
    Ok(Collection { catalogue, vocabulary, share, test_tokens, test_unknown })
}

/// Reads the documents of a file.
fn read(
    plan: &Plan,
    file: u32,
    visit: &mut dyn FnMut(&RawDocument<'_>),
    report: &mut dyn FnMut(Problem),
) -> Result<(), String> {
    let path = &plan.files[file as usize];
    read_documents(path, plan.encoding, plan.format, visit, report).map_err(|e| format!("{}: {e}", path.display()))
}

fn list_documents(plan: &Plan, file: u32) -> Listed {
    let (mut entries, mut problems) = (vec![], vec![]);
    let mut visit = |document: &RawDocument<'_>| {
        let tokens = document.text.split_whitespace().count() as u64;
        entries.push(Entry { file, id: document.id.to_string(), label: document.label.to_string(), tokens });
    };
    read(plan, file, &mut visit, &mut |problem| {
        if problems.len() < KEPT_PROBLEMS {
            problems.push(problem);
        }
    })?;
    Ok((entries, problems))
}

/// Chooses the test set and the shards.
fn catalogue(plan: &Plan, lists: Vec<(u64, Listed)>) -> Result<Catalogue, String> {
    let (mut entries, mut problems) = (vec![], vec![]);
    for (file, list) in lists {
        let (of_file, wrong) = list?;
        entries.extend(of_file);
        problems.extend(wrong.into_iter().map(|problem| (file as u32, problem)));
    }
    let mut is_test: Vec<bool> = entries.iter().map(|entry| entry.file as usize >= plan.training_files).collect();
    if let Test::HoldOut(hold_out) = &plan.test {
        let candidates: Vec<Candidate<'_>> = entries.iter().map(|e| Candidate { id: &e.id, label: &e.label }).collect();
        hold_out.choose(plan.seed, &candidates)?.into_iter().for_each(|place| is_test[place] = true);
    }
    let mut shard = vec![0; entries.len()];
    for test in [false, true] {
        let chosen: Vec<usize> = (0..entries.len()).filter(|&place| is_test[place] == test).collect();
        let tokens: Vec<u64> = chosen.iter().map(|&place| entries[place].tokens).collect();
        for (number, range) in (0..).zip(shards(&tokens, plan.schedule.shards)) {
            chosen[range].iter().for_each(|&place| shard[place] = number);
        }
        if !test && tokens.iter().sum::<u64>() == 0 {
            return Err(
                "there is no word to train on: the training files have no documents, or only empty ones".to_string()
            );
        }
    }
    Ok(Catalogue { entries, is_test, shard, problems })
}

/// Visits each document of `files` with its number in the catalogue.
pub fn each_document(
    plan: &Plan,
    catalogue: &Catalogue,
    files: &[u32],
    mut visit: impl FnMut(usize, &RawDocument<'_>),
) -> Result<(), String> {
    for &file in files {
        let mut number = catalogue.entries.partition_point(|entry| entry.file < file);
        let mut visit_next = |document: &RawDocument<'_>| {
            visit(number, document);
            number += 1;
        };
        read(plan, file, &mut visit_next, &mut |_| ())?;
    }
    Ok(())
}

fn count_words(
    plan: &Plan,
    catalogue: &Catalogue,
    files: &[u32],
    words: &mut Tally<(bool, String)>,
) -> Result<(), String> {
    let mut counts: [HashMap<String, i64>; 2] = [HashMap::new(), HashMap::new()];
    each_document(plan, catalogue, files, |number, document| {
        let counts = &mut counts[usize::from(catalogue.is_test[number])];
        plan.tokenisation.each_token(document.text, |token| match counts.get_mut(token) {
            Some(count) => *count += 1,
            None => drop(counts.insert(token.to_string(), 1)),
        });
    })?;
    // The order in which they are handed over does not show: they are added up.
    for (is_test, counts) in [false, true].into_iter().zip(counts) {
        counts.into_iter().for_each(|(word, count)| words.add((is_test, word), count));
    }
    Ok(())
}

fn build_vocabulary(plan: &Plan, words: &Tally<(bool, String)>) -> Result<Vocabulary, String> {
    let mut counts = BTreeMap::<String, Occurrences>::new();
    for ((is_test, word), count) in words.totals() {
        let entry = counts.entry(word).or_insert(Occurrences { training: 0, test: 0 });
        *if is_test { &mut entry.test } else { &mut entry.training } += count as u64;
    }
    Vocabulary::build(counts.iter().map(|(word, occurrences)| (word.as_str(), *occurrences)), plan.min_count)
}

/// The documents of a worker's own shards.
fn load(plan: &Plan, catalogue: &Catalogue, vocabulary: &Vocabulary, own: Own) -> Result<Share, String> {
    // Workers with models of n-grams all have the same tree, that of all documents.
    let is_mine = |number: usize| plan.model.is_ngram() || own.has(catalogue.shard[number]);
    let mut files: Vec<u32> =
        (0..catalogue.entries.len()).filter(|&n| is_mine(n)).map(|n| catalogue.entries[n].file).collect();
    files.dedup();
    let mut share = Share::default();
    each_document(plan, catalogue, &files, |number, document| {
        if !is_mine(number) {
            return;
        }
        let mut words = Vec::with_capacity(catalogue.entries[number].tokens as usize);
        if plan.model.is_ngram() {
            let end = Symbols::new(vocabulary).end;
            for line in document.text.lines().filter(|line| !line.trim().is_empty()) {
                each_word(&plan.tokenisation, line, |word| words.push(vocabulary.id(word)));
                words.push(end);
            }
        } else {
            plan.tokenisation.each_token(document.text, |token| words.push(vocabulary.id(token)));
        }
        let part = if catalogue.is_test[number] { &mut share.test } else { &mut share.training };
        part.entry(catalogue.shard[number]).or_default().push((number as u32, words));
    })?;
    Ok(share)
}
