//! Counts that are corrected by differences: a differential collection whose total is kept on worker 0.
//!
//! Every worker adds and takes away; equal keys meet on the worker that owns them and are netted out there, so worker 0
//! hears of each key at most once per round, and only when its count changed. Counts are integers: the order in which
//! differences arrive does not show.
//!
//! In the dataflow a key is its bytes, so that there is one dataflow for all types of keys.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::rc::Rc;

use differential_dataflow::input::InputSession;
use serde::Serialize;
use serde::de::DeserializeOwned;
use timely::dataflow::ProbeHandle;
use timely::dataflow::operators::{Exchange, Inspect, Probe};
use timely::worker::Worker;

use super::wait;

/// What can be counted: keys are equal where their bytes are.
pub trait Key: Clone + Ord + Serialize + DeserializeOwned + 'static {}
impl<K: Clone + Ord + Serialize + DeserializeOwned + 'static> Key for K {}

/// Counts by the bytes of their keys.
type Totals = BTreeMap<Vec<u8>, i64>;

/// One worker's end of a tally.
pub struct Tally<K: Key> {
    input: InputSession<u64, Vec<u8>, i64>,
    probe: ProbeHandle<u64>,
    totals: Rc<RefCell<Totals>>,
    key: PhantomData<K>,
}

impl<K: Key> Tally<K> {
    /// Builds the dataflow. Every worker must call this, in the same order among its dataflows.
    pub fn new(worker: &mut Worker, name: &str) -> Tally<K> {
        let (input, probe, totals) = count_bytes(worker, name);
        Tally { input, probe, totals, key: PhantomData }
    }

    /// Counts `key` up, or down, by `difference`.
    pub fn add(&mut self, key: K, difference: i64) {
        if difference != 0 {
            self.input.update(bincode::serialize(&key).expect("keys are plain data"), difference);
        }
    }

    /// Ends the round: returns when the differences of all workers have been counted.
    pub fn settle(&mut self, worker: &mut Worker) {
        let next = *self.input.time() + 1;
        self.input.advance_to(next);
        self.input.flush();
        wait(worker, &self.probe, next);
    }

    /// The totals of the rounds so far; on worker 0 only, elsewhere nothing.
    pub fn totals(&self) -> BTreeMap<K, i64> {
        let key = |bytes: &Vec<u8>| bincode::deserialize(bytes).expect("written by the same program");
        self.totals.borrow().iter().map(|(bytes, &total)| (key(bytes), total)).collect()
    }
}

/// Both ends of the dataflow, and how far it has come.
type Ends = (InputSession<u64, Vec<u8>, i64>, ProbeHandle<u64>, Rc<RefCell<Totals>>);

/// Builds the dataflow.
fn count_bytes(worker: &mut Worker, name: &str) -> Ends {
    let mut input = InputSession::<u64, Vec<u8>, i64>::new();
    let probe = ProbeHandle::new();
    let totals: Rc<RefCell<Totals>> = Rc::default();
    let kept = totals.clone();
    worker.dataflow_named::<u64, _, _>(name, |scope| {
        input
            .to_collection(scope)
            .consolidate()
            .inner
            .exchange(|_| 0)
            .inspect_batch(move |_, changes| {
                let mut totals = kept.borrow_mut();
                for (key, _, difference) in changes {
                    correct(&mut totals, key, *difference);
                }
            })
            .probe_with(&probe);
    });
    (input, probe, totals)
}

fn correct(totals: &mut Totals, key: &[u8], difference: i64) {
    match totals.get_mut(key) {
        Some(total) => {
            *total += difference;
            if *total == 0 {
                totals.remove(key);
            }
        }
        None => {
            totals.insert(key.to_vec(), difference);
        }
    }
}
