//! What the threads of a process have in common: the first worker's parser, of which there is one copy for them, and the
//! sentences that they parse with it (`pool`).
//!
//! The parser travels to the first worker of every other process, which leaves it where the others of its process find it.

use std::sync::{Arc, Mutex};

use timely::worker::Worker;

use super::pool::Pool;
use crate::cluster::codec::{decode, encode};
use crate::cluster::gather::{pack, unpack};
use crate::cluster::operators::route::Route;
use crate::error::{Error, Result};
use crate::parser::model::{Kept, ParserModel};

/// Bytes of a parser that are on their way to a process at once.
const BLOCK: usize = 1 << 22;

/// Where the workers of a process leave a parser for each other.
pub struct Desk {
    /// Workers of a process.
    threads: usize,
    /// With how many have not taken it yet.
    parser: Mutex<Option<(Arc<ParserModel>, usize)>>,
    pool: Pool,
}

impl Desk {
    pub fn new(threads: usize) -> Desk {
        Desk { threads, parser: Mutex::default(), pool: Pool::new(threads) }
    }

    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Workers of a process.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The parser of the first worker, who alone has `kept`. Every worker must call this.
    pub fn share(&self, worker: &mut Worker, letters: &mut Route, kept: Option<&Kept>) -> Result<Arc<ParserModel>> {
        let is_first_here = worker.index().is_multiple_of(self.threads);
        let received = self.send(worker, letters, kept)?;
        if is_first_here {
            let kept = kept.cloned().map_or_else(|| decode(&received).map_err(damaged), Ok)?;
            let parser = Arc::new(ParserModel::new(kept).expect("what was learned holds together"));
            *self.parser.lock().expect("a parser") = Some((parser, self.threads));
        }
        letters.exchange(worker, vec![vec![]; worker.peers()]); // now it is there
        Ok(self.take())
    }

    /// What the first worker of a process that has no parser is sent.
    fn send(&self, worker: &mut Worker, letters: &mut Route, kept: Option<&Kept>) -> Result<Vec<u8>> {
        let (peers, mut received) = (worker.peers(), vec![]);
        if peers == self.threads {
            return Ok(received);
        }
        let bytes = kept.map(encode).transpose().map_err(damaged)?.unwrap_or_default();
        let mut blocks = bytes.chunks(BLOCK);
        let mut exchange =
            |letter: &dyn Fn(usize) -> Vec<u32>| letters.exchange(worker, (0..peers).map(letter).collect()).remove(0);
        let count = exchange(&|_| kept.iter().map(|_| blocks.len() as u32).collect())[0];
        for _ in 0..count {
            let block = blocks.next();
            let is_sent = |to: usize| to > 0 && to.is_multiple_of(self.threads);
            let letter = exchange(&|to| block.filter(|_| is_sent(to)).map(pack).unwrap_or_default());
            if !letter.is_empty() {
                received.extend_from_slice(&unpack(&letter));
            }
        }
        Ok(received)
    }

    /// Takes the parser; nothing is left by the last worker who does.
    fn take(&self) -> Arc<ParserModel> {
        let mut left = self.parser.lock().expect("a parser");
        let (parser, takers) = left.take().expect("the first worker of a process has left it");
        if takers > 1 {
            *left = Some((parser.clone(), takers - 1));
        }
        parser
    }
}

fn damaged(error: impl std::fmt::Display) -> Error {
    Error::Usage(format!("a parser could not be sent from worker to worker: {error}"))
}
