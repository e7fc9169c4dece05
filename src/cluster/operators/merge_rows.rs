//! Periodic synchronisation of a table of counts: every worker gives what its shards changed, the worker that owns a row
//! adds the changes up, and those that hold the row get the sum.
//!
//! Row r is owned by worker r mod W. Owners add into a dense table, so nothing is hashed or sorted; only changed cells
//! travel, and only to workers whose shards contain the row. Integer sums are the same in any order.
//!
//! Cost per round, with C changed cells: 4 bytes a cell to the owner and 4 a cell to each holder. Memory: the owned part
//! of the table, `rows * columns / W` integers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use timely::container::{CapacityContainerBuilder, NoopBuilder};
use timely::dataflow::channels::ContainerBytes;
use timely::dataflow::channels::pact::DistributorPact;
use timely::dataflow::operators::{Capability, Operator, Probe};
use timely::dataflow::{InputHandle, ProbeHandle};
use timely::worker::Worker;

use super::block::{Block, ByReceiver};
use super::wait;
use crate::cluster::rows::{Rows, entries, rows};

/// Packed words in one block: large enough to be worth sending, small enough that buffers stay small.
const BLOCK: usize = 1 << 15;

/// What the words of a block are: rows that the sender holds, or packed changes.
const HOLDS: u32 = 1;
const CHANGES: u32 = 2;

/// One worker's end of the synchronisation.
pub struct MergeRows {
    input: InputHandle<u64, NoopBuilder<Block>>,
    probe: ProbeHandle<u64>,
    merged: Rc<RefCell<Vec<Arc<Vec<u32>>>>>,
    to_hold: Vec<u32>,
    index: usize,
    peers: usize,
    /// Bytes that this worker has sent to others, as deltas and as an owner.
    sent: Rc<RefCell<u64>>,
}

impl MergeRows {
    /// Builds the dataflow for a table of `row_count` by `columns`; `held` are the rows that this worker wants to hear
    /// of. Every worker must call this, in the same order among its dataflows.
    pub fn new(worker: &mut Worker, row_count: u32, columns: usize, held: Vec<u32>) -> MergeRows {
        let mut input = InputHandle::new_with_builder();
        let probe = ProbeHandle::new();
        let (index, peers) = (worker.index(), worker.peers());
        let merged: Rc<RefCell<Vec<Arc<Vec<u32>>>>> = Rc::default();
        let kept = merged.clone();
        let sent: Rc<RefCell<u64>> = Rc::default();
        let sent_as_owner = sent.clone();
        // With one worker nothing is owned by anybody else, and nothing is sent.
        let owned = if peers == 1 { 0 } else { (row_count as usize).div_ceil(peers) };
        worker.dataflow_named::<u64, _, _>("MergeRows", |scope| {
            input
                .to_stream(scope)
                .unary_frontier::<NoopBuilder<Block>, _, _, _>(DistributorPact(|_| ByReceiver), "AddUp", move |_, _| {
                    let mut owner = Owner::new(index, peers, owned, columns);
                    let mut rounds = BTreeMap::<u64, Capability<u64>>::new();
                    move |(input, frontier), output| {
                        input.for_each(|capability, block| {
                            owner.hear(block);
                            let round = *capability.time();
                            rounds.entry(round).or_insert_with(|| capability.retain(0));
                        });
                        while let Some(first) = rounds.first_entry() {
                            if frontier.less_equal(first.key()) {
                                break;
                            }
                            let capability = first.remove();
                            let mut session = output.session_with_builder(&capability);
                            for mut block in owner.sums() {
                                if block.to as usize != index {
                                    *sent_as_owner.borrow_mut() += block.length_in_bytes() as u64;
                                }
                                session.give_container(&mut block);
                            }
                        }
                    }
                })
                .unary::<CapacityContainerBuilder<Vec<()>>, _, _, _>(
                    DistributorPact(|_| ByReceiver),
                    "Hear",
                    move |_, _| {
                        move |input, _| {
                            input.for_each(|_, block| kept.borrow_mut().push(std::mem::take(&mut block.words)))
                        }
                    },
                )
                .probe_with(&probe);
        });
        MergeRows { input, probe, merged, to_hold: held, index, peers, sent }
    }

    /// Gives the changes that this worker made since the last round, and returns the changes of all workers to the rows
    /// that it holds, as blocks of packed rows.
    pub fn exchange(&mut self, worker: &mut Worker, changes: Rows) -> Vec<Arc<Vec<u32>>> {
        if self.peers == 1 {
            return vec![Arc::new(changes.into_words())];
        }
        let held = std::mem::take(&mut self.to_hold);
        let mut held_of: Vec<Vec<u32>> = vec![Vec::new(); self.peers];
        held.into_iter().for_each(|row| held_of[row as usize % self.peers].push(row));
        self.send(HOLDS, held_of);
        let mut for_owner: Vec<Vec<u32>> = vec![Vec::new(); self.peers];
        for (row, packed) in rows(changes.words()) {
            let words = &mut for_owner[row as usize % self.peers];
            words.extend_from_slice(&[row, packed.len() as u32]);
            words.extend_from_slice(packed);
        }
        self.send(CHANGES, for_owner);
        let next = *self.input.time() + 1;
        self.input.advance_to(next);
        wait(worker, &self.probe, next);
        self.merged.take()
    }

    /// Sends each worker a block of the words that are for it.
    fn send(&mut self, kind: u32, words: Vec<Vec<u32>>) {
        for (to, words) in words.into_iter().enumerate().filter(|(_, words)| !words.is_empty()) {
            let mut block = Block { kind, to: to as u32, from: self.index as u32, words: Arc::new(words) };
            if to != self.index {
                *self.sent.borrow_mut() += block.length_in_bytes() as u64;
            }
            self.input.send_batch(&mut block);
        }
    }

    /// Bytes that this worker has sent to others since the last call.
    pub fn take_sent_bytes(&mut self) -> u64 {
        self.sent.replace(0)
    }
}

/// The rows that a worker owns: who holds them, and what was changed this round.
struct Owner {
    index: usize,
    peers: usize,
    columns: usize,
    changes: Vec<i32>,
    is_changed: Vec<bool>,
    /// Workers that hold a row, by owned row.
    holders: Vec<Vec<u16>>,
}

impl Owner {
    fn new(index: usize, peers: usize, owned: usize, columns: usize) -> Owner {
        let changes = vec![0; owned * columns];
        Owner { index, peers, columns, changes, is_changed: vec![false; owned], holders: vec![vec![]; owned] }
    }

    fn hear(&mut self, block: &Block) {
        match block.kind {
            HOLDS => {
                for &row in block.words.iter() {
                    let holders = &mut self.holders[row as usize / self.peers];
                    let from = block.from as u16;
                    if let Err(at) = holders.binary_search(&from) {
                        holders.insert(at, from);
                    }
                }
            }
            _ => {
                for (row, packed) in rows(&block.words) {
                    let owned = row as usize / self.peers;
                    self.is_changed[owned] = true;
                    let cells = &mut self.changes[owned * self.columns..(owned + 1) * self.columns];
                    entries(packed).for_each(|(column, change)| cells[column] += change);
                }
            }
        }
    }

    /// The sums of the round for their holders; forgets them.
    fn sums(&mut self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut packed: Vec<Rows> = vec![Rows::default(); self.peers];
        let from = self.index as u32;
        let block =
            |to: usize, rows: Rows| Block { kind: CHANGES, to: to as u32, from, words: Arc::new(rows.into_words()) };
        let mut one = Rows::default();
        for owned in 0..self.is_changed.len() {
            if !std::mem::take(&mut self.is_changed[owned]) {
                continue;
            }
            let row = (owned * self.peers + self.index) as u32;
            let cells = &mut self.changes[owned * self.columns..(owned + 1) * self.columns];
            one.clear();
            one.begin_row(row);
            cells.iter().enumerate().for_each(|(column, &change)| one.push(column, change));
            one.end_row();
            for &holder in &self.holders[owned] {
                let to = usize::from(holder);
                packed[to].extend_packed(one.words());
                if packed[to].len() >= BLOCK {
                    blocks.push(block(to, std::mem::take(&mut packed[to])));
                }
            }
            cells.fill(0);
        }
        let rest = packed.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty());
        blocks.extend(rest.map(|(to, rows)| block(to, rows)));
        blocks
    }
}
