//! What the workers have learned, brought together by the first: each has the contexts of its own shards.

use std::sync::Arc;

use timely::worker::Worker;

use super::distribution::KeptHierarchy;
use crate::cluster::codec::{decode, encode};
use crate::cluster::operators::route::Route;
use crate::error::{Error, Result};

/// The hierarchies of all workers as one each, on the first worker; every worker must call this.
pub fn gather(
    worker: &mut Worker,
    letters: &mut Route,
    own: Vec<KeptHierarchy>,
) -> Result<Option<Vec<Arc<KeptHierarchy>>>> {
    let (index, peers) = (worker.index(), worker.peers());
    let mut all = vec![];
    for own in own {
        let mut outgoing = vec![vec![]; peers];
        let mut parts = vec![];
        match index {
            0 => parts.push(own),
            _ => outgoing[0] = pack(&encode(&own).map_err(damaged)?),
        }
        let incoming = letters.exchange(worker, outgoing);
        if index > 0 {
            continue;
        }
        for letter in incoming.iter().skip(1) {
            parts.push(decode(&unpack(letter)).map_err(damaged)?);
        }
        all.push(Arc::new(if peers == 1 { parts.remove(0) } else { KeptHierarchy::merge(&parts) }));
    }
    Ok((index == 0).then_some(all))
}

fn damaged(error: impl std::fmt::Display) -> Error {
    Error::Usage(format!("what a worker has learned could not be brought together: {error}"))
}

/// Bytes as words: their number, then the bytes, the last word filled up.
pub fn pack(bytes: &[u8]) -> Vec<u32> {
    let word = |four: &[u8]| four.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
    let length = bytes.len() as u64;
    [length as u32, (length >> 32) as u32].into_iter().chain(bytes.chunks(4).map(word)).collect()
}

/// The bytes of [`pack`].
pub fn unpack(words: &[u32]) -> Vec<u8> {
    let length = u64::from(words[0]) | u64::from(words[1]) << 32;
    let mut bytes: Vec<u8> = words[2..].iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.truncate(length as usize);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_travel_as_words() {
        for length in 0..10u8 {
            let bytes: Vec<u8> = (0..length).map(|byte| byte.wrapping_mul(77)).collect();
            assert_eq!(unpack(&pack(&bytes)), bytes);
        }
    }
}
