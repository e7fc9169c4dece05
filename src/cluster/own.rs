//! Which pieces of a job are a worker's own: the rule is one for shards and for files.

use timely::worker::Worker;

/// A worker's: the numbers that are its own modulo the number of workers.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    index: u32,
    peers: u32,
}

impl Own {
    pub fn of(worker: &Worker) -> Own {
        Own { index: worker.index() as u32, peers: worker.peers() as u32 }
    }

    /// The only worker of a job, which owns all.
    pub fn all() -> Own {
        Own { index: 0, peers: 1 }
    }

    /// How many workers there are.
    pub fn peers(self) -> usize {
        self.peers as usize
    }

    #[inline]
    pub fn has(self, number: u32) -> bool {
        number % self.peers == self.index
    }

    /// Those below `count`.
    pub fn below(self, count: u32) -> impl Iterator<Item = u32> {
        (self.index..count).step_by(self.peers as usize)
    }
}
