//! What the workers have, brought together by the first.

use serde::Serialize;
use serde::de::DeserializeOwned;
use timely::worker::Worker;

use super::codec::{decode, encode};
use super::operators::route::Route;
use crate::error::{Error, Result};

/// How a worker reaches the others: gives each a message, and returns the messages of all to it, by sender.
pub type Exchange<'a> = &'a mut dyn FnMut(Vec<Vec<u32>>) -> Vec<Vec<u32>>;

/// What all workers have, by worker, on the first one; every worker must call this.
pub fn gather<T: Serialize + DeserializeOwned>(
    worker: &mut Worker,
    route: &mut Route,
    own: T,
) -> Result<Option<Vec<T>>> {
    let mut messages = vec![vec![]; worker.peers()];
    let mut parts = vec![];
    match worker.index() {
        0 => parts.push(own),
        _ => {
            let bytes = encode(&own).map_err(damaged)?;
            drop(own);
            messages[0] = pack(&bytes);
        }
    }
    let messages = route.exchange(worker, messages);
    if worker.index() > 0 {
        return Ok(None);
    }
    for message in messages.into_iter().skip(1) {
        parts.push(decode(&unpack(&message)).map_err(damaged)?);
    }
    Ok(Some(parts))
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
