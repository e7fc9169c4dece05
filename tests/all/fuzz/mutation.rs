//! Inputs made from seeds by a keyed generator: an input follows from its target, the seed and its number alone.

use rand::{Rng, RngExt};
use sawmill::cluster::rng::{Generator, Purpose, generator};
use xxhash_rust::xxh3::xxh3_64;

/// What is put between bytes: what readers look for, and a broken character.
const TEXTS: &[&[u8]] = &[b"\t", b"\n", b"0", b"-1", b"99999999999", b"\"", b"{", b"\xc3", b"\r\n", b" "];

/// No input is longer, however often parts of it were repeated.
const LONGEST: usize = 1 << 16;

/// Input `number` of the target named `target`.
pub fn input(target: &str, seed: u64, number: u64, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut rng = generator(seed, Purpose::Synth, xxh3_64(target.as_bytes()), number);
    let mut bytes = pick(seeds, &mut rng).clone();
    // Half of all inputs keep their length, and so the place of everything.
    let kinds = if rng.random_bool(0.5) { 4 } else { 10 };
    for _ in 0..1 + rng.random_range(0..4u32) * rng.random_range(0..4u32) {
        mutate(&mut bytes, seeds, kinds, &mut rng);
    }
    bytes.truncate(LONGEST);
    bytes
}

fn pick<'a, T>(list: &'a [T], rng: &mut Generator) -> &'a T {
    &list[rng.random_range(0..list.len())]
}

/// A part of so many bytes, mostly a short one.
fn part(length: usize, rng: &mut Generator) -> std::ops::Range<usize> {
    let start = rng.random_range(0..=length);
    let most = (length - start).min(1 << rng.random_range(0..10u32));
    start..start + rng.random_range(0..=most)
}

/// Changes the bytes in one place, by one of the first `kinds` kinds of change.
fn mutate(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], kinds: u32, rng: &mut Generator) {
    if bytes.is_empty() {
        bytes.push(rng.next_u32() as u8);
    }
    let at = rng.random_range(0..bytes.len());
    match rng.random_range(0..kinds) {
        0 => bytes[at] ^= 1 << rng.random_range(0..8u32),
        1 => bytes[at] = *pick(&[0, 1, 2, 9, 10, 32, 127, 128, 254, 255], rng),
        2 => bytes[at] = rng.next_u32() as u8,
        3 => set_number(bytes, at, rng),
        4 => drop(bytes.drain(part(bytes.len(), rng))),
        5 => {
            let copy = bytes[part(bytes.len(), rng)].to_vec();
            insert(bytes, at, copy);
        }
        6 => {
            let other = pick(seeds, rng);
            let copy = other[part(other.len(), rng)].to_vec();
            insert(bytes, at, copy);
        }
        7 => {
            let other = pick(seeds, rng);
            let from = rng.random_range(0..=other.len());
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
        8 => bytes.truncate(at),
        _ => {
            let copy = pick(TEXTS, rng).to_vec();
            insert(bytes, at, copy);
        }
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, what: Vec<u8>) {
    drop(bytes.splice(at..at, what));
}

/// Takes some bytes as a number, and sets it to one more, one less, or one that is large.
fn set_number(bytes: &mut [u8], at: usize, rng: &mut Generator) {
    let width = (*pick(&[1usize, 2, 4, 8], rng)).min(bytes.len() - at);
    let mut number = [0; 8];
    number[..width].copy_from_slice(&bytes[at..at + width]);
    let old = u64::from_le_bytes(number);
    let new = match rng.random_range(0..7u32) {
        0 => old.wrapping_add(1),
        1 => old.wrapping_sub(1),
        2 => u64::MAX,
        3 => 1 << rng.random_range(0..64u32),
        4 => (1 << rng.random_range(0..64u32)) - 1,
        5 => f64::NAN.to_bits(),
        _ => 0,
    };
    bytes[at..at + width].copy_from_slice(&new.to_le_bytes()[..width]);
}
