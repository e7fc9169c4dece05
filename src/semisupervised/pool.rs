//! Sentences to be parsed, for whichever worker of a process is free: what a shard's sentences are given is the same whoever
//! parses them, so nobody of a process has to wait while another one has more to do.
//!
//! A worker offers the sentences of its shards in chunks, takes chunks, its own or others', until its own have trees, and goes
//! on doing so until all workers of the process have theirs.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::parses::Trees;
use super::shelf::Shelf;

/// Sentences of a chunk.
const CHUNK: usize = 64;

/// What the workers of a process have in common.
pub struct Pool {
    workers: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    chunks: VecDeque<Chunk>,
    /// How often a worker has had all of its trees: each once, then each a second time, and so on.
    done: u64,
}

/// Sentences that are to be parsed.
struct Chunk {
    shelf: Arc<Shelf>,
    sentences: Range<usize>,
    /// Where their trees are left.
    number: usize,
    board: Arc<Mutex<Board>>,
}

/// The trees of a shard, as far as they have been found.
struct Board {
    trees: Vec<Trees>,
    /// Chunks without trees.
    left: usize,
}

impl Pool {
    pub fn new(workers: usize) -> Pool {
        Pool { workers: workers as u64, state: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no parser panics")
    }

    /// The trees of some sentences of a shard, one behind the other; `parse` finds those of a chunk, whosever it is.
    pub fn trees(
        &self,
        shelf: &Arc<Shelf>,
        sentences: Range<usize>,
        mut parse: impl FnMut(&Shelf, Range<usize>) -> Trees,
    ) -> Trees {
        let count = sentences.len().div_ceil(CHUNK);
        let board = Arc::new(Mutex::new(Board { trees: vec![vec![]; count], left: count }));
        let chunk = |number: usize| {
            let start = sentences.start + number * CHUNK;
            let sentences = start..sentences.end.min(start + CHUNK);
            Chunk { shelf: shelf.clone(), sentences, number, board: board.clone() }
        };
        self.lock().chunks.extend((0..count).map(chunk));
        self.changed.notify_all();
        self.work(&mut parse, |_| board.lock().expect("no parser panics").left == 0);
        let trees = std::mem::take(&mut board.lock().expect("no parser panics").trees);
        trees.concat()
    }

    /// Parses sentences of others, until all workers of the process have called this as often as the one that calls.
    pub fn help(&self, mut parse: impl FnMut(&Shelf, Range<usize>) -> Trees) {
        let all = {
            let mut state = self.lock();
            state.done += 1;
            state.done.next_multiple_of(self.workers)
        };
        self.changed.notify_all();
        self.work(&mut parse, |state| state.done >= all);
    }

    /// Parses chunks until `is_over`.
    fn work(&self, parse: &mut impl FnMut(&Shelf, Range<usize>) -> Trees, is_over: impl Fn(&State) -> bool) {
        while let Some(Chunk { shelf, sentences, number, board }) = self.next(&is_over) {
            let trees = parse(&shelf, sentences);
            let is_last = {
                let mut board = board.lock().expect("no parser panics");
                board.trees[number] = trees;
                board.left -= 1;
                board.left == 0
            };
            if is_last {
                // Locked, so that who has just found that something is left is told.
                let _state = self.lock();
                self.changed.notify_all();
            }
        }
    }

    /// The next chunk, which is waited for; none where it `is_over`.
    fn next(&self, is_over: impl Fn(&State) -> bool) -> Option<Chunk> {
        let mut state = self.lock();
        loop {
            if is_over(&state) {
                return None;
            }
            if let Some(chunk) = state.chunks.pop_front() {
                return Some(chunk);
            }
            state = self.changed.wait(state).expect("no parser panics");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::semisupervised::shelf::tests::shelf;

    /// Whoever parses them, and however long that takes: trees are in the order of their sentences.
    #[test]
    fn everybody_gets_the_trees_of_their_own_sentences() {
        let (workers, rounds) = (4u32, 3);
        let pool = Pool::new(workers as usize);
        let sentences = |worker: u32| (0..50 + worker * 300).map(move |number| vec![worker, number % 7]);
        let shelves: Vec<_> = (0..workers).map(|worker| shelf(sentences(worker))).collect();
        let tree = |words: Vec<u32>, by: u32| words.into_iter().map(move |word| [word as u16, 0, by as u16]);
        let parsed_for_others = Mutex::new(0);
        std::thread::scope(|scope| {
            for worker in 0..workers {
                let (pool, shelf, parsed_for_others) = (&pool, &shelves[worker as usize], &parsed_for_others);
                scope.spawn(move || {
                    let mut parse = |shelf: &Shelf, part: Range<usize>| -> Trees {
                        std::thread::sleep(std::time::Duration::from_micros(u64::from(worker) * 300));
                        shelf.part(part).flat_map(|words| tree(words, worker)).collect()
                    };
                    for round in 0..rounds {
                        let part = |round: usize| shelf.len() * round / rounds;
                        let found = pool.trees(shelf, part(round)..part(round + 1), &mut parse);
                        let expected: Vec<u32> = shelf.part(part(round)..part(round + 1)).flatten().collect();
                        assert_eq!(found.iter().map(|[word, ..]| u32::from(*word)).collect::<Vec<_>>(), expected);
                        let others = found.iter().filter(|[_, _, by]| u32::from(*by) != worker).count();
                        *parsed_for_others.lock().unwrap() += others;
                        pool.help(&mut parse);
                    }
                });
            }
        });
        assert!(parsed_for_others.into_inner().unwrap() > 0, "nobody has helped");
        assert!(pool.lock().chunks.is_empty());
    }
}
