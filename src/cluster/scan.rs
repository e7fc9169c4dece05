//! One pass over the input on all workers: pieces are dealt, blocks counted where they are read or sent, and the counts
//! added up on worker 0.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use timely::worker::Worker;

use super::operators::deal::deal;
use super::operators::tally::{Key, Tally};
use crate::corpus::diagnostic::{Diagnostic, Problem, Rule};
use crate::corpus::piece::{Block, Blocks, Input, Piece};

/// Addressed problems that are kept, per input and rule; all are counted.
const KEPT_PROBLEMS: usize = 20;

/// What a job counts in its input. Each worker has its own.
pub trait Counter: 'static {
    type Key: Key;

    /// Counts the sentences of `block`, which belongs to group `group` of the inputs. Returns the sum of the sentences'
    /// hashes, which tells the same content from other content wherever it is cut.
    fn count_block(&mut self, group: u16, block: &Block, report: &mut dyn FnMut(&Problem)) -> u64;

    /// Hands out what was counted since the last call.
    fn drain(&mut self, emit: &mut dyn FnMut(Self::Key, i64));
}

/// What a pass found.
#[derive(Clone, Debug)]
pub struct Found<K> {
    pub counts: BTreeMap<K, i64>,
    /// The first problems of each input and rule, in the order of the inputs.
    pub problems: Vec<Diagnostic>,
    /// Sum of the hashes of the sentences, by input.
    pub contents: Vec<u64>,
}

/// What workers tell worker 0 beside the counts; with the difference as the number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Note {
    /// Lines of a piece: worker 0 turns lines of pieces into lines of files with them.
    Lines(u32),
    Problem(u32, Problem),
    /// Sum of the hashes of an input's sentences, as two halves that cannot overflow.
    ContentLow(u32),
    ContentHigh(u32),
}

/// Bytes that this process has worked on, for progress.
#[derive(Default)]
pub struct Progress {
    pub bytes: AtomicU64,
}

/// Passes over all `pieces`. Every worker must call this with the same arguments; worker 0 gets what was found.
pub fn scan<C: Counter>(
    worker: &mut Worker,
    inputs: &Arc<Vec<Input>>,
    pieces: &Arc<Vec<Piece>>,
    counter: C,
    progress: Arc<Progress>,
) -> Option<Found<C::Key>> {
    let mut counts = Tally::<C::Key>::new(worker, "Counts");
    let mut notes = Tally::<Note>::new(worker, "Notes");
    let desk = Rc::new(RefCell::new(Desk { counter, problems: Problems::default(), sums: BTreeMap::new() }));
    let (all_inputs, all_pieces) = (inputs.clone(), pieces.clone());
    let open = move |number: u32| {
        let piece = &all_pieces[number as usize];
        let mut blocks = Blocks::open(number, piece, &all_inputs[piece.input as usize]);
        std::iter::from_fn(move || blocks.next_block())
    };
    let (working, all_inputs, all_pieces) = (desk.clone(), inputs.clone(), pieces.clone());
    let work = move |block: Block| {
        let input = all_pieces[block.piece as usize].input;
        working.borrow_mut().count(input, all_inputs[input as usize].group, &block);
        progress.bytes.fetch_add(block.text.len() as u64, Ordering::Relaxed);
    };
    deal(worker, heaviest_first(pieces), open, work);
    let mut desk = desk.borrow_mut();
    desk.counter.drain(&mut |key, count| counts.add(key, count));
    std::mem::take(&mut desk.sums).into_iter().for_each(|(note, sum)| notes.add(note, sum));
    desk.problems.drain().for_each(|(piece, problem)| notes.add(Note::Problem(piece, problem), 1));
    counts.settle(worker);
    notes.settle(worker);
    (worker.index() == 0).then(|| {
        let notes = notes.totals();
        let contents = (0..inputs.len() as u32).map(|input| content(&notes, input)).collect();
        Found { counts: counts.totals(), problems: addressed(notes, inputs, pieces), contents }
    })
}

/// The order in which pieces are dealt: large ones first, so that the last ones to end are small.
fn heaviest_first(pieces: &[Piece]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..pieces.len() as u32).collect();
    order.sort_by_key(|&number| std::cmp::Reverse(pieces[number as usize].weight));
    order
}

/// What a worker has counted so far.
struct Desk<C> {
    counter: C,
    problems: Problems,
    /// Lines and contents.
    sums: BTreeMap<Note, i64>,
}

impl<C: Counter> Desk<C> {
    fn count(&mut self, input: u32, group: u16, block: &Block) {
        let problems = &mut self.problems;
        let hash = self.counter.count_block(group, block, &mut |problem| problems.keep(input, block.piece, problem));
        let mut add = |note, n: u64| *self.sums.entry(note).or_default() += n as i64;
        add(Note::Lines(block.piece), block.lines);
        add(Note::ContentLow(input), hash & u64::from(u32::MAX));
        add(Note::ContentHigh(input), hash >> 32);
    }
}

/// The first problems of each input and rule: of what one worker saw, or of all.
#[derive(Default)]
pub struct Problems {
    kept: BTreeMap<(u32, Rule), BTreeSet<(u32, Problem)>>,
}

impl Problems {
    /// Keeps `problem` of piece `piece`, unless there are enough earlier ones.
    pub fn keep(&mut self, input: u32, piece: u32, problem: &Problem) {
        let kept = self.kept.entry((input, problem.rule)).or_default();
        kept.insert((piece, problem.clone()));
        if kept.len() > KEPT_PROBLEMS {
            kept.pop_last();
        }
    }

    /// Hands out the kept problems with their pieces.
    pub fn drain(&mut self) -> impl Iterator<Item = (u32, Problem)> + use<> {
        std::mem::take(&mut self.kept).into_values().flatten()
    }
}

/// The sum of the hashes of an input's sentences, modulo 2^64.
fn content(notes: &BTreeMap<Note, i64>, input: u32) -> u64 {
    let half = |note| notes.get(&note).copied().unwrap_or(0) as u64;
    (half(Note::ContentHigh(input)) << 32).wrapping_add(half(Note::ContentLow(input)))
}

/// Gives the problems their addresses: a line of a file is a line of a piece plus the lines of the pieces before it.
pub fn addressed(notes: BTreeMap<Note, i64>, inputs: &[Input], pieces: &[Piece]) -> Vec<Diagnostic> {
    let mut before = vec![0; pieces.len()];
    for number in 1..pieces.len() {
        if pieces[number].input == pieces[number - 1].input {
            let lines = notes.get(&Note::Lines(number as u32 - 1)).copied().unwrap_or(0);
            before[number] = before[number - 1] + lines as u64;
        }
    }
    let mut first = Problems::default();
    for note in notes.into_keys() {
        if let Note::Problem(piece, mut problem) = note {
            problem.line += before[piece as usize];
            first.keep(pieces[piece as usize].input, piece, &problem);
        }
    }
    let mut found: Vec<(u32, Problem)> = first.drain().collect();
    found.sort();
    found
        .into_iter()
        .map(|(piece, problem)| Diagnostic { path: inputs[pieces[piece as usize].input as usize].name(), problem })
        .collect()
}
