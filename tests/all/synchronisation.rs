//! Operators of the sweep driver against plain sequential twins, on 1, 2 and 3 workers.

use rand::RngExt;
use sawmill::cluster::engine::Cluster;
use sawmill::cluster::operators::all_gather::AllGather;
use sawmill::cluster::rng::{Purpose, generator};

const SHARDS: u64 = 6;

#[test]
fn gathered_floats_add_up_to_the_same_bits_on_any_number_of_workers() {
    let value = |shard: u64| generator(2, Purpose::Synth, shard, 0).random::<f64>() * 1e10f64.powi(shard as i32 - 3);
    let twin: f64 = (0..SHARDS).map(value).sum();
    for workers in [1, 2, 3] {
        let results = Cluster::local(workers).run(Vec::new, move |worker| {
            let mut gather = AllGather::<f64>::new(worker, "Floats");
            let mine = (0..SHARDS).filter(|shard| *shard as usize % worker.peers() == worker.index());
            let records = mine.map(|shard| (shard, value(shard))).collect();
            gather.exchange(worker, records).into_iter().map(|(_, value)| value).sum::<f64>()
        });
        for sum in results.expect("the workers run") {
            assert_eq!(sum.to_bits(), twin.to_bits(), "{workers} workers");
        }
    }
}
