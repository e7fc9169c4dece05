//! Pieces of the work of an iteration, which the workers of a process take from each other.
//!
//! A shard of sentences is cut into pieces. Its owner takes them one by one, and so does every worker of the process that
//! has none of its own left: a core that is slower for a while, or has other work to do, does not keep the others waiting.
//! Who took a piece does not show: what was found is added up in the order of the pieces.
//!
//! Iterations are counted by each worker for itself, and are the same for all, since all wait for each other at the end of
//! each. So a worker may begin with the pieces of a shard before its owner does.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};

use super::pass::Found;

/// The shards of a job, as far as they are those of this process.
#[derive(Default)]
pub struct Board {
    shards: Vec<Slot>,
}

#[derive(Default)]
struct Slot {
    /// Whether its owner is of this process.
    is_here: AtomicBool,
    /// The last iteration that was begun, and how many of its pieces are taken.
    taken: AtomicU64,
    pile: Mutex<Pile>,
    has_grown: Condvar,
}

/// What was found so far in an iteration.
#[derive(Default)]
struct Pile {
    /// The sum over the first pieces, and how many these are.
    sum: Option<Found>,
    added: usize,
    /// Of pieces behind one that is not done yet.
    waiting: BTreeMap<usize, Found>,
}

/// Iterations stand above the pieces in one number.
const ITERATION: u64 = 1 << 32;

impl Board {
    pub fn new(shards: usize) -> Board {
        Board { shards: (0..shards).map(|_| Slot::default()).collect() }
    }

    /// Says that the shard's owner is of this process.
    pub fn own(&self, shard: usize) {
        self.shards[shard].is_here.store(true, Ordering::Relaxed);
    }

    /// The shards whose owners are of this process.
    pub fn here(&self) -> Vec<usize> {
        (0..self.shards.len()).filter(|&shard| self.shards[shard].is_here.load(Ordering::Relaxed)).collect()
    }

    /// Takes the next of a shard's pieces in an iteration (from 1), where one is left.
    pub fn take(&self, shard: usize, iteration: u64, pieces: usize) -> Option<usize> {
        let next = |taken: u64| match taken / ITERATION {
            begun if begun < iteration => Some(iteration * ITERATION + 1),
            _ if taken % ITERATION < pieces as u64 => Some(taken + 1),
            _ => None,
        };
        let before = self.shards[shard].taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        Some(if before / ITERATION < iteration { 0 } else { (before % ITERATION) as usize })
    }

    /// Gives what was found in a piece that was taken.
    pub fn give(&self, shard: usize, piece: usize, found: Found) {
        let slot = &self.shards[shard];
        let pile = &mut *slot.pile.lock().expect("nobody fails while adding");
        pile.waiting.insert(piece, found);
        while let Some(next) = pile.waiting.remove(&pile.added) {
            pile.added += 1;
            match &mut pile.sum {
                Some(sum) => sum.add(&next),
                None => pile.sum = Some(next),
            }
        }
        slot.has_grown.notify_all();
    }

    /// The sum over all pieces of the iteration, when it is there; for the owner, once.
    pub fn collect(&self, shard: usize, pieces: usize) -> Found {
        let slot = &self.shards[shard];
        let pile = slot.pile.lock().expect("nobody fails while adding");
        let mut pile = slot.has_grown.wait_while(pile, |pile| pile.added < pieces).expect("nobody fails while adding");
        std::mem::take(&mut *pile).sum.expect("there are pieces")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARDS: usize = 3;
    const PIECES: usize = 7;
    const ITERATIONS: u64 = 200;

    /// Numbers whose sum depends on the order in which they are added.
    fn found(shard: usize, piece: usize, iteration: u64) -> Found {
        let value = |at: usize| libm::sqrt((shard * 31 + piece * 17 + at * 7) as f64 + iteration as f64);
        Found { ln_likelihoods: vec![-value(0)], uses: (1..50).map(value).collect() }
    }

    fn sum(shard: usize, iteration: u64) -> Found {
        let mut sum = found(shard, 0, iteration);
        (1..PIECES).for_each(|piece| sum.add(&found(shard, piece, iteration)));
        sum
    }

    /// Workers of one process, the first three of which have a shard; shard 2 may be that of another process.
    fn work(workers: usize, is_here: [bool; SHARDS]) -> u64 {
        let board = Board::new(SHARDS);
        let barrier = std::sync::Barrier::new(workers);
        let done = AtomicU64::new(0);
        let owns = |worker: usize, shard: usize| is_here[shard] && shard % workers == worker;
        let run = |worker: usize| {
            let mine: Vec<usize> = (0..SHARDS).filter(|&shard| owns(worker, shard)).collect();
            mine.iter().for_each(|&shard| board.own(shard));
            for iteration in 1..=ITERATIONS {
                for shard in mine.iter().copied().chain(board.here()) {
                    while let Some(piece) = board.take(shard, iteration, PIECES) {
                        board.give(shard, piece, found(shard, piece, iteration));
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                }
                mine.iter().for_each(|&shard| assert_eq!(board.collect(shard, PIECES), sum(shard, iteration)));
                barrier.wait();
            }
        };
        std::thread::scope(|scope| (0..workers).for_each(|worker| drop(scope.spawn(move || run(worker)))));
        done.into_inner()
    }

    #[test]
    fn the_order_of_arrival_does_not_show() {
        let board = Board::new(SHARDS);
        assert_eq!(
            (0..PIECES).map(|_| board.take(1, 1, PIECES)).collect::<Vec<_>>(),
            (0..PIECES).map(Some).collect::<Vec<_>>()
        );
        assert_eq!(board.take(1, 1, PIECES), None);
        (0..PIECES).rev().for_each(|piece| board.give(1, piece, found(1, piece, 1)));
        let mut backwards = found(1, PIECES - 1, 1);
        (0..PIECES - 1).rev().for_each(|piece| backwards.add(&found(1, piece, 1)));
        assert_ne!(backwards, sum(1, 1), "an order that shows, if it were to");
        assert_eq!(board.collect(1, PIECES), sum(1, 1));
        assert_eq!(board.take(1, 2, PIECES), Some(0));
    }

    #[test]
    fn every_piece_is_taken_once_and_added_in_order() {
        for workers in [1, 2, 3, 5] {
            assert_eq!(work(workers, [true; SHARDS]), ITERATIONS * (SHARDS * PIECES) as u64, "{workers} workers");
        }
        assert_eq!(work(2, [true, true, false]), ITERATIONS * 2 * PIECES as u64);
    }
}
