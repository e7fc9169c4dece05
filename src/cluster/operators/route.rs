//! Letters between workers: everybody writes to everybody, and reads what was written to it, by sender.
//!
//! The plain building block for synchronisations whose merging is more than a sum: what the letters say is the
//! model's business. They travel in blocks of bounded size, in order.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use timely::container::{CapacityContainerBuilder, NoopBuilder};
use timely::dataflow::channels::ContainerBytes;
use timely::dataflow::channels::pact::DistributorPact;
use timely::dataflow::operators::{Operator, Probe};
use timely::dataflow::{InputHandle, ProbeHandle};
use timely::worker::Worker;

use super::block::{Block, ByReceiver};
use super::wait;

/// Words in one block: large enough to be worth sending, small enough that buffers stay small.
const BLOCK: usize = 1 << 16;

/// Blocks by round, with their numbers: a worker that is ahead may send its next ones before this one has taken these.
type ByRound = BTreeMap<u64, Vec<(u32, u32, Arc<Vec<u32>>)>>;

/// One worker's end.
pub struct Route {
    input: InputHandle<u64, NoopBuilder<Block>>,
    probe: ProbeHandle<u64>,
    received: Rc<RefCell<ByRound>>,
    index: usize,
    peers: usize,
    sent: u64,
}

impl Route {
    /// Builds the dataflow. Every worker must call this, in the same order among its dataflows.
    pub fn new(worker: &mut Worker, name: &str) -> Route {
        let mut input = InputHandle::new_with_builder();
        let probe = ProbeHandle::new();
        let received: Rc<RefCell<ByRound>> = Rc::default();
        let kept = received.clone();
        worker.dataflow_named::<u64, _, _>(name, |scope| {
            input
                .to_stream(scope)
                .unary::<CapacityContainerBuilder<Vec<()>>, _, _, _>(
                    DistributorPact(|_| ByReceiver),
                    "Read",
                    move |_, _| {
                        move |input, _| {
                            input.for_each(|capability, block| {
                                let letter = (block.from, block.kind, std::mem::take(&mut block.words));
                                kept.borrow_mut().entry(*capability.time()).or_default().push(letter);
                            })
                        }
                    },
                )
                .probe_with(&probe);
        });
        Route { input, probe, received, index: worker.index(), peers: worker.peers(), sent: 0 }
    }

    /// Sends each worker its letter, and returns those of all workers to this one, by sender.
    pub fn exchange(&mut self, worker: &mut Worker, letters: Vec<Vec<u32>>) -> Vec<Vec<u32>> {
        assert_eq!(letters.len(), self.peers, "one letter for each worker");
        if self.peers == 1 {
            return letters; // there is nobody to wait for
        }
        let mut read = vec![vec![]; self.peers];
        for (to, words) in letters.into_iter().enumerate() {
            if to == self.index {
                read[to] = words; // one's own never leaves
                continue;
            }
            for (part, words) in (1..).zip(words.chunks(BLOCK)) {
                let mut block =
                    Block { kind: part, to: to as u32, from: self.index as u32, words: Arc::new(words.to_vec()) };
                self.sent += block.length_in_bytes() as u64;
                self.input.send_batch(&mut block);
            }
        }
        let round = *self.input.time();
        self.input.advance_to(round + 1);
        wait(worker, &self.probe, round + 1);
        let mut blocks = self.received.borrow_mut().remove(&round).unwrap_or_default();
        blocks.sort_unstable_by_key(|(from, part, _)| (*from, *part));
        blocks.iter().for_each(|(from, _, words)| read[*from as usize].extend_from_slice(words));
        read
    }

    /// Bytes that this worker has sent to others since the last call.
    pub fn take_sent_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.sent)
    }
}
