//! Dataflows that jobs are built of, one per file.

use std::time::{Duration, Instant};

use timely::dataflow::ProbeHandle;
use timely::worker::Worker;

pub mod all_gather;
pub mod block;
pub mod deal;
pub mod route;
pub mod tally;

/// How long a worker looks for news before it sleeps: to be woken takes about as long, and there is one after the other to
/// wait for in a round.
const AWAKE: Duration = Duration::from_micros(200);

/// Works until all workers are done with what came before `round`.
fn wait(worker: &mut Worker, probe: &ProbeHandle<u64>, round: u64) {
    let began = Instant::now();
    while probe.less_than(&round) {
        if began.elapsed() < AWAKE {
            worker.step();
            std::thread::yield_now(); // where there are more workers than cores, another has something to do
        } else {
            worker.step_or_park(None);
        }
    }
}
