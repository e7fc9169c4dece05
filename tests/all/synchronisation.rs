//! Operators of the sweep driver against plain sequential twins, on 1, 2 and 3 workers.

use std::collections::BTreeMap;

use rand::RngExt;
use sawmill::cluster::engine::Cluster;
use sawmill::cluster::operators::all_gather::AllGather;
use sawmill::cluster::operators::merge_rows::MergeRows;
use sawmill::cluster::rng::{Purpose, generator};
use sawmill::cluster::rows::{Rows, entries, rows};

const ROWS: u32 = 101;
const COLUMNS: usize = 7;
const SHARDS: u64 = 6;
const ROUNDS: u64 = 5;

/// What a shard changes in a round: some cells, up and down, some by more than 16 bits hold.
fn changes(shard: u64, round: u64) -> BTreeMap<(u32, usize), i32> {
    let mut rng = generator(1, Purpose::Synth, shard, round);
    (0..200)
        .map(|_| {
            (
                (rng.random_range(0..ROWS), rng.random_range(0..COLUMNS as u32) as usize),
                rng.random_range(-50_000..50_000),
            )
        })
        .collect()
}

/// The rows that a shard holds.
fn holds(shard: u64, row: u32) -> bool {
    u64::from(row) % SHARDS >= shard / 2
}

#[test]
fn merged_rows_are_the_sums_that_a_plain_loop_gives() {
    let mut twin = BTreeMap::<(u32, usize), i64>::new();
    for shard in 0..SHARDS {
        for round in 0..ROUNDS {
            changes(shard, round)
                .into_iter()
                .for_each(|(cell, change)| *twin.entry(cell).or_default() += i64::from(change));
        }
    }
    for workers in [1, 2, 3] {
        let results = Cluster::local(workers).run(Vec::new, move |worker| {
            let mine: Vec<u64> =
                (0..SHARDS).filter(|shard| *shard as usize % worker.peers() == worker.index()).collect();
            let held: Vec<u32> = (0..ROWS).filter(|&row| mine.iter().any(|&shard| holds(shard, row))).collect();
            let mut merge = MergeRows::new(worker, ROWS, COLUMNS, held.clone());
            let mut table = BTreeMap::<(u32, usize), i64>::new();
            for round in 0..ROUNDS {
                let mut own = BTreeMap::<(u32, usize), i32>::new();
                for &shard in &mine {
                    changes(shard, round)
                        .into_iter()
                        .for_each(|(cell, change)| *own.entry(cell).or_default() += change);
                }
                let mut packed = Rows::default();
                for row in 0..ROWS {
                    packed.begin_row(row);
                    own.range((row, 0)..(row + 1, 0)).for_each(|((_, column), change)| packed.push(*column, *change));
                    packed.end_row();
                }
                for block in merge.exchange(worker, packed) {
                    for (row, packed) in rows(&block) {
                        entries(packed)
                            .for_each(|(column, change)| *table.entry((row, column)).or_default() += i64::from(change));
                    }
                }
            }
            (held, table, merge.take_sent_bytes())
        });
        for (held, table, sent) in results.expect("the workers run") {
            assert_eq!(sent > 0, workers > 1, "bytes sent by one of {workers}");
            for (cell, sum) in &twin {
                if held.contains(&cell.0) {
                    assert_eq!(table.get(cell).copied().unwrap_or(0), *sum, "{cell:?} on {workers} workers");
                } else if workers > 1 {
                    assert!(!table.contains_key(cell), "{cell:?} is not held, and was sent");
                }
            }
        }
    }
}

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
