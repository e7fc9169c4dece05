//! Small records of every worker, brought to every worker, in the order of their keys.
//!
//! For what is little and must be seen by all: statistics for hyperparameters (floats, which are then added up in shard
//! order), stop signals, times. Every record travels to every worker: not for counts.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::{Operator, Probe};
use timely::dataflow::{InputHandle, ProbeHandle};
use timely::worker::Worker;

use super::wait;

type Addressed<T> = (u64, u64, T);

/// Records with their keys, by round: a worker that is ahead may send its next ones before this one has taken these.
type ByRound<T> = BTreeMap<u64, Vec<(u64, T)>>;

/// One worker's end.
pub struct AllGather<T: Clone + Send + Serialize + DeserializeOwned + 'static> {
    input: InputHandle<u64, CapacityContainerBuilder<Vec<Addressed<T>>>>,
    probe: ProbeHandle<u64>,
    received: Rc<RefCell<ByRound<T>>>,
}

impl<T: Clone + Send + Serialize + DeserializeOwned + 'static> AllGather<T> {
    /// Builds the dataflow. Every worker must call this, in the same order among its dataflows.
    pub fn new(worker: &mut Worker, name: &str) -> AllGather<T> {
        let mut input = InputHandle::new();
        let probe = ProbeHandle::new();
        let received: Rc<RefCell<ByRound<T>>> = Rc::default();
        let kept = received.clone();
        worker.dataflow_named::<u64, _, _>(name, |scope| {
            input
                .to_stream(scope)
                .unary::<CapacityContainerBuilder<Vec<()>>, _, _, _>(
                    Exchange::new(|record: &Addressed<T>| record.0),
                    "Gather",
                    move |_, _| {
                        move |input, _| {
                            input.for_each(|capability, records| {
                                let records = records.drain(..).map(|(_, key, record)| (key, record));
                                kept.borrow_mut().entry(*capability.time()).or_default().extend(records);
                            })
                        }
                    },
                )
                .probe_with(&probe);
        });
        AllGather { input, probe, received }
    }

    /// Gives `records`, with keys that no other worker uses, and returns those of all workers by key.
    pub fn exchange(&mut self, worker: &mut Worker, records: Vec<(u64, T)>) -> Vec<(u64, T)> {
        // One's own never leave.
        for to in (0..worker.peers() as u64).filter(|&to| to != worker.index() as u64) {
            records.iter().for_each(|(key, record)| self.input.send((to, *key, record.clone())));
        }
        let round = *self.input.time();
        self.input.advance_to(round + 1);
        wait(worker, &self.probe, round + 1);
        let mut all = self.received.borrow_mut().remove(&round).unwrap_or_default();
        all.extend(records);
        all.sort_by_key(|(key, _)| *key);
        all
    }
}
