//! Small records of every worker, brought to every worker, in the order of their keys.
//!
//! For what is little and must be seen by all: statistics for hyperparameters (floats, which are then added up in shard
//! order), stop signals, times. Every record travels to every worker: not for counts.
//!
//! Records travel as bytes in the letters of [`Route`], so that there is one dataflow for all types of them: a dataflow
//! for each type, here and in `tally`, made the compiled library a quarter larger.

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;
use timely::worker::Worker;

use super::route::Route;

/// One worker's end.
pub struct AllGather<T> {
    route: Route,
    record: PhantomData<T>,
}

impl<T: Serialize + DeserializeOwned> AllGather<T> {
    /// Builds the dataflow. Every worker must call this, in the same order among its dataflows.
    pub fn new(worker: &mut Worker, name: &str) -> AllGather<T> {
        AllGather { route: Route::new(worker, name), record: PhantomData }
    }

    /// Gives `records`, with keys that no other worker uses, and returns those of all workers by key.
    pub fn exchange(&mut self, worker: &mut Worker, mut records: Vec<(u64, T)>) -> Vec<(u64, T)> {
        let mut letters = vec![vec![]; worker.peers()];
        if letters.len() > 1 {
            let letter = pack(&bincode::serialize(&records).expect("records are plain data"));
            let others = letters.iter_mut().enumerate().filter(|(to, _)| *to != worker.index());
            others.for_each(|(_, empty)| empty.clone_from(&letter));
        }
        // One's own never leave, and come back empty here.
        for letter in self.route.exchange(worker, letters).iter().filter(|letter| !letter.is_empty()) {
            let of_worker: Vec<(u64, T)> = bincode::deserialize(&unpack(letter)).expect("written by the same program");
            records.extend(of_worker);
        }
        records.sort_by_key(|(key, _)| *key);
        records
    }
}

/// Bytes as words, the last one filled up with zeros. Their reader knows where to end.
fn pack(bytes: &[u8]) -> Vec<u32> {
    let word = |bytes: &[u8]| {
        let mut word = [0; 4];
        word[..bytes.len()].copy_from_slice(bytes);
        u32::from_le_bytes(word)
    };
    bytes.chunks(4).map(word).collect()
}

fn unpack(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked_with_at_most_three_zeros() {
        for length in 0..10u8 {
            let bytes: Vec<u8> = (1..=length).collect();
            let unpacked = unpack(&pack(&bytes));
            assert_eq!(unpacked[..bytes.len()], bytes);
            assert!(unpacked.len() < bytes.len() + 4 && unpacked[bytes.len()..].iter().all(|&byte| byte == 0));
        }
    }
}
