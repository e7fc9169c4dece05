//! A pass that is kept alive: every worker looks after some of the inputs, and when one changes, sends the differences
//! between its old and its new sentences. Worker 0 sees the corrected totals of each round in which anything changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use timely::worker::Worker;

use super::operators::all_gather::AllGather;
use super::operators::tally::{Key, Tally};
use super::scan::{Found, Note, addressed};
use crate::corpus::piece::{Input, Piece};

/// How often inputs are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The sentences of some inputs as they were when last read.
pub trait Memory: 'static {
    type Key: Key;

    /// Looks whether input `number` has changed; if so, reads it again and emits the differences.
    fn look(&mut self, number: u32, count: &mut dyn FnMut(Self::Key, i64), note: &mut dyn FnMut(Note, i64));
}

/// Watches `inputs` until `stop` is set. On worker 0, `changed` is called with the totals after the first round and
/// after each one that changed them.
pub fn watch<M: Memory>(
    worker: &mut Worker,
    inputs: &Arc<Vec<Input>>,
    mut memory: M,
    stop: &AtomicBool,
    mut changed: impl FnMut(Found<M::Key>),
) {
    let mut counts = Tally::<M::Key>::new(worker, "Counts");
    let mut notes = Tally::<Note>::new(worker, "Notes");
    let mut stops = AllGather::<bool>::new(worker, "Stops");
    let mine = shares(inputs, worker.peers()).swap_remove(worker.index());
    // Whole inputs stand for pieces here: a line of one is a line of the other.
    let pieces: Vec<Piece> = (0..).zip(inputs.iter()).map(|(number, input)| input.whole_piece(number)).collect();
    let mut last = None;
    loop {
        let next_look = Instant::now() + LOOK_EVERY;
        for &number in &mine {
            memory.look(number, &mut |key, d| counts.add(key, d), &mut |note, d| notes.add(note, d));
        }
        counts.settle(worker);
        notes.settle(worker);
        let now = (counts.totals(), notes.totals());
        if worker.index() == 0 && last.as_ref() != Some(&now) {
            let problems = addressed(now.1.clone(), inputs, &pieces);
            changed(Found { counts: now.0.clone(), problems, contents: vec![] });
            last = Some(now);
        }
        while Instant::now() < next_look && !stop.load(Ordering::Relaxed) {
            worker.step();
            std::thread::sleep(Duration::from_millis(20));
        }
        // One that is asked to stop takes all others with it.
        let asked = stops.exchange(worker, vec![(worker.index() as u64, stop.load(Ordering::Relaxed))]);
        if asked.into_iter().any(|(_, stop)| stop) {
            return;
        }
    }
}

/// Which inputs each worker looks after: the heaviest first, each to the worker that has least.
fn shares(inputs: &[Input], workers: usize) -> Vec<Vec<u32>> {
    let mut order: Vec<u32> = (0..inputs.len() as u32).collect();
    order.sort_by_key(|&number| std::cmp::Reverse(inputs[number as usize].weight()));
    let mut shares = vec![vec![]; workers];
    let mut loads = vec![0; workers];
    for number in order {
        let least = (0..workers).min_by_key(|&worker| loads[worker]).expect("a worker");
        shares[least].push(number);
        loads[least] += inputs[number as usize].weight().max(1);
    }
    shares
}
