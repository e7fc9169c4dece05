//! Keeping the counts right while treebanks change.
//!
//! Each sentence of a watched file is remembered by its fingerprint, with what it added to the counts. When the file
//! changes, the sentences that are gone are taken away, only those that are new are parsed, and all others cost a hash.
//! Memory: some 400 bytes per sentence, most of it for its 40 or so counts of 8 bytes.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_128;

use super::count::{Counter, Key};
use crate::cluster::scan::{self, Note, Problems};
use crate::cluster::watch::Memory;
use crate::corpus::diagnostic::Problem;
use crate::corpus::piece::{Block, Blocks, Input, Origin};

/// One worker's memory of the inputs that it looks after.
pub struct Remembered {
    inputs: Arc<Vec<Input>>,
    counter: Counter,
    versions: BTreeMap<u32, Version>,
    keys: Keys,
}

/// Keys of counts by number, so that a remembered count takes 8 bytes.
#[derive(Default)]
struct Keys {
    keys: Vec<Key>,
    numbers: FxHashMap<Key, u32>,
}

impl Keys {
    fn number(&mut self, key: Key) -> u32 {
        *self.numbers.entry(key).or_insert_with(|| {
            self.keys.push(key);
            self.keys.len() as u32 - 1
        })
    }
}

/// An input as it was when last read.
#[derive(Default)]
struct Version {
    stamp: Option<Stamp>,
    sentences: FxHashMap<u128, Contribution>,
    problems: BTreeMap<Note, i64>,
}

/// What tells that a file has changed: its size, times and number on the disk, or that it cannot be looked at.
type Stamp = Result<[i64; 6], std::io::ErrorKind>;

/// What a sentence adds to the counts, and how often it occurs.
struct Contribution {
    occurrences: i64,
    /// Number of the key (see [`Keys`]) and count.
    counts: Box<[(u32, u32)]>,
    /// With lines relative to that on which the sentence begins.
    problems: Box<[Problem]>,
}

impl Remembered {
    pub fn new(inputs: Arc<Vec<Input>>, counter: Counter) -> Remembered {
        Remembered { inputs, counter, versions: BTreeMap::new(), keys: Keys::default() }
    }

    /// Reads the input anew. Sentences of `old` are not parsed again; returns how many others there were, too.
    fn read(&mut self, number: u32, old: &FxHashMap<u128, Contribution>) -> (Version, u64) {
        let input = whole(&self.inputs[number as usize]);
        let mut version = Version::default();
        let mut problems = Problems::default();
        let mut parsed = 0;
        let mut blocks = Blocks::open(0, &input.whole_piece(0), &input);
        while let Some(mut block) = blocks.next_block() {
            for problem in block.problems.drain(..) {
                let key = xxh3_128(format!("{problem:?}").as_bytes());
                let alone = Block { problems: vec![Problem { line: 1, ..problem.clone() }], ..Block::default() };
                let contribution = self.contribution(input.group, &alone);
                remember(&mut version, &mut problems, number, problem.line, key, contribution);
            }
            for (line, text) in sentences(&block) {
                let key = xxh3_128(text);
                let contribution = match old.get(&key).or(version.sentences.get(&key)) {
                    Some(known) => known.once_more(),
                    None => {
                        parsed += 1;
                        self.contribution(
                            input.group,
                            &Block { first_line: 1, text: text.to_vec(), ..Block::default() },
                        )
                    }
                };
                remember(&mut version, &mut problems, number, line, key, contribution);
            }
        }
        version.problems = problems.drain().map(|(_, problem)| (Note::Problem(number, problem), 1)).collect();
        (version, parsed)
    }

    /// What a block, of one sentence or of none, adds to the counts.
    fn contribution(&mut self, group: u16, block: &Block) -> Contribution {
        let (mut counts, mut problems) = (vec![], vec![]);
        scan::Counter::count_block(&mut self.counter, group, block, &mut |problem| problems.push(problem.clone()));
        scan::Counter::drain(&mut self.counter, &mut |key, count| counts.push((self.keys.number(key), count as u32)));
        Contribution { occurrences: 1, counts: counts.into(), problems: problems.into() }
    }
}

impl Contribution {
    fn once_more(&self) -> Contribution {
        Contribution { occurrences: 1, counts: self.counts.clone(), problems: self.problems.clone() }
    }
}

impl Memory for Remembered {
    type Key = Key;

    fn look(&mut self, number: u32, count: &mut dyn FnMut(Key, i64), note: &mut dyn FnMut(Note, i64)) {
        let stamp = stamp(&self.inputs[number as usize]);
        let old = self.versions.remove(&number).unwrap_or_default();
        if old.stamp.as_ref() == Some(&stamp) {
            self.versions.insert(number, old);
            return;
        }
        let (mut new, parsed) = self.read(number, &old.sentences);
        let mut gone = 0;
        for (key, contribution) in &new.sentences {
            let before = old.sentences.get(key).map_or(0, |c| c.occurrences);
            contribution.emit(contribution.occurrences - before, &self.keys, count);
        }
        for (_, contribution) in old.sentences.iter().filter(|(key, _)| !new.sentences.contains_key(key)) {
            contribution.emit(-contribution.occurrences, &self.keys, count);
            gone += contribution.occurrences;
        }
        new.problems.iter().for_each(|(key, n)| note(key.clone(), *n));
        old.problems.iter().for_each(|(key, n)| note(key.clone(), -n));
        if old.stamp.is_some() {
            let name = self.inputs[number as usize].name();
            say!("sawmill: {name} changed: {parsed} sentences parsed, {gone} taken away");
        }
        new.stamp = Some(stamp);
        self.versions.insert(number, new);
    }
}

impl Contribution {
    fn emit(&self, occurrences: i64, keys: &Keys, count: &mut dyn FnMut(Key, i64)) {
        if occurrences != 0 {
            self.counts.iter().for_each(|&(key, n)| count(keys.keys[key as usize], i64::from(n) * occurrences));
        }
    }
}

/// Adds one occurrence of a sentence that begins on `line`.
fn remember(
    version: &mut Version,
    problems: &mut Problems,
    input: u32,
    line: u64,
    key: u128,
    contribution: Contribution,
) {
    for problem in &contribution.problems {
        problems.keep(input, 0, &Problem { line: problem.line + line - 1, ..problem.clone() });
    }
    version.sentences.entry(key).and_modify(|known| known.occurrences += 1).or_insert(contribution);
}

/// A plain file is read whole here, whatever it has become since the job was planned.
fn whole(input: &Input) -> Input {
    let mut input = input.clone();
    if let Origin::File { seekable, .. } = &mut input.origin {
        *seekable = false;
    }
    input
}

fn stamp(input: &Input) -> Stamp {
    match &input.origin {
        Origin::Synthetic(_) => Ok([0; 6]),
        Origin::File { path, .. } => std::fs::metadata(path)
            .map(|m| [m.size() as i64, m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec(), m.ino() as i64])
            .map_err(|e| e.kind()),
    }
}

/// The sentences of a block, each with the line on which it begins.
fn sentences(block: &Block) -> impl Iterator<Item = (u64, &[u8])> {
    let mut rest = block.text.as_slice();
    let mut line = block.first_line;
    std::iter::from_fn(move || {
        while let Some(after) = rest.strip_prefix(b"\n") {
            rest = after;
            line += 1;
        }
        if rest.is_empty() {
            return None;
        }
        let end = memchr::memmem::find(rest, b"\n\n").map_or(rest.len(), |at| at + 1);
        let (sentence, after) = rest.split_at(end);
        let first_line = line;
        line += memchr::memchr_iter(b'\n', sentence).count() as u64;
        rest = after;
        Some((first_line, sentence))
    })
}
