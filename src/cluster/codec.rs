//! How values are stored: serialised with bincode, packed with zstd. The one place that knows either.
//!
//! Reading is bounded, since a checksum only shows that a file is what somebody wrote. A value unpacks to at most
//! `most_unpacked` bytes, no buffer is allocated for a length that the input cannot have, and the window of the unpacker
//! is small. Writing keeps to the same bound: a value that packs better than that is followed by padding, in a frame that
//! every zstd decoder skips.

use std::fmt;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::marker::PhantomData;

use bincode::Options;
use serde::de::{DeserializeOwned, Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// Bytes that are serialised or read at once.
const BUFFER: usize = 1 << 16;

/// The largest ratio of unpacked to packed bytes, beyond the first [`FREE`] unpacked ones. Models reach 3 to 20.
const RATIO: u64 = 256;
const FREE: u64 = 1 << 20;

/// The largest window that is read, as a power of two; level 1 writes 2^19 at most.
const WINDOW: u32 = 22;

/// The number that a skippable frame begins with (RFC 8878, section 3.1.2); its length follows.
const SKIPPABLE: u32 = 0x184d_2a50;

/// How many bytes so many packed ones may unpack to.
fn most_unpacked(packed: u64) -> u64 {
    packed.saturating_mul(RATIO).saturating_add(FREE)
}

/// Serialises and packs a value.
pub fn encode<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    encode_behind(vec![], value)
}

/// Appends a packed value to `bytes`.
pub fn encode_behind<T: Serialize>(bytes: Vec<u8>, value: &T) -> io::Result<Vec<u8>> {
    encode_to(bytes, value)
}

/// Writes a packed value. The serialised form is packed, and the packed one written, as it is made, so that a large value is
/// never in memory a second time.
pub fn encode_to<W: Write, T: Serialize>(out: W, value: &T) -> io::Result<W> {
    let packer = zstd::stream::write::Encoder::new(Counted { inner: out, written: 0 }, 1)?;
    let mut packer = Counted { inner: BufWriter::with_capacity(BUFFER, packer), written: 0 };
    bincode::serialize_into(&mut packer, value).map_err(io::Error::other)?;
    let unpacked = packer.written;
    let mut out = packer.inner.into_inner().map_err(|e| e.into_error())?.finish()?;
    pad(&mut out, unpacked)?;
    Ok(out.inner)
}

/// Adds what is missing for `unpacked` bytes to be within the bound.
fn pad(out: &mut Counted<impl Write>, unpacked: u64) -> io::Result<()> {
    let mut missing = unpacked.saturating_sub(FREE).div_ceil(RATIO).saturating_sub(out.written);
    while missing > 0 {
        let length = missing.min(1 << 30) as u32;
        out.write_all(&SKIPPABLE.to_le_bytes())?;
        out.write_all(&length.to_le_bytes())?;
        io::copy(&mut io::repeat(0).take(u64::from(length)), out)?;
        missing -= u64::from(length);
    }
    Ok(())
}

/// The reverse of [`encode`].
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> io::Result<T> {
    let mut unpacker = zstd::stream::read::Decoder::with_buffer(body)?;
    unpacker.window_log_max(WINDOW)?;
    let mut raw = BufReader::with_capacity(BUFFER, unpacker);
    // As `bincode::deserialize_from`, with a limit: a length above it is refused before anything is allocated for it.
    let options = bincode::options().with_fixint_encoding().with_limit(most_unpacked(body.len() as u64));
    let value = options.deserialize_from(&mut raw).map_err(|e| match *e {
        bincode::ErrorKind::SizeLimit => io::Error::other("it is longer than its packed size allows"),
        other => io::Error::other(other),
    })?;
    match raw.fill_buf()?.is_empty() {
        true => Ok(value),
        false => Err(io::Error::other("there is more than was expected")),
    }
}

/// Deserialises a list in which few entries are free, as `deserialize_with` wants it. A free entry is one byte and takes as
/// much memory as any other, so free ones beyond all proportion are refused while the list is read.
pub fn mostly_taken<'de, D, T>(deserializer: D) -> Result<Vec<Option<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_seq(MostlyTaken(PhantomData))
}

/// So many free entries are allowed for each other one, beyond the first [`FREE`].
const FREE_FOR_TAKEN: u64 = 64;

struct MostlyTaken<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for MostlyTaken<T> {
    type Value = Vec<Option<T>>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Option<T>>, A::Error> {
        let (mut all, mut taken) = (vec![], 0u64);
        while let Some(entry) = list.next_element::<Option<T>>()? {
            taken += u64::from(entry.is_some());
            all.push(entry);
            if all.len() as u64 > FREE + (FREE_FOR_TAKEN + 1) * taken {
                return Err(A::Error::custom("a list with too many free entries"));
            }
        }
        Ok(all)
    }
}

/// Counts the bytes written.
struct Counted<W> {
    inner: W,
    written: u64,
}

impl<W: Write> Write for Counted<W> {
    #[inline]
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(buffer)?;
        self.written += written as u64;
        Ok(written)
    }

    #[inline]
    fn write_all(&mut self, buffer: &[u8]) -> io::Result<()> {
        self.written += buffer.len() as u64;
        self.inner.write_all(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The packed form of raw bytes, whatever they are.
    fn packed(raw: &[u8]) -> Vec<u8> {
        zstd::stream::encode_all(raw, 1).expect("it can be packed")
    }

    #[test]
    fn values_come_back_and_trailing_bytes_are_refused() {
        let value = (vec![1u32, 2, 3], "text".to_string(), Some(0.5f64));
        let bytes = encode(&value).expect("it can be encoded");
        assert_eq!(decode::<(Vec<u32>, String, Option<f64>)>(&bytes).expect("it can be decoded"), value);
        let mut raw = bincode::serialize(&value).expect("it can be serialised");
        assert_eq!(packed(&raw), bytes, "the format is that of bincode's own functions");
        raw.push(0);
        assert!(decode::<(Vec<u32>, String, Option<f64>)>(&packed(&raw)).is_err());
    }

    #[test]
    fn a_value_that_packs_too_well_is_padded() {
        let zeros = vec![0u8; 8 << 20];
        let bytes = encode(&zeros).expect("it can be encoded");
        assert!(bytes.len() as u64 >= ((8 << 20) - FREE) / RATIO);
        assert!(decode::<Vec<u8>>(&bytes).expect("it can be decoded") == zeros);
    }

    #[test]
    fn a_bomb_is_refused() {
        let mut raw = (64u64 << 20).to_le_bytes().to_vec();
        raw.resize(8 + (64 << 20), 0);
        let error = decode::<Vec<u8>>(&packed(&raw)).expect_err("a bomb");
        assert!(error.to_string().contains("longer than its packed size allows"), "{error}");
    }

    #[test]
    fn lengths_that_cannot_be_are_refused_before_memory_is_taken() {
        for length in [u64::MAX, 1 << 62, 1 << 40, 3] {
            let bytes = packed(&length.to_le_bytes());
            assert!(decode::<String>(&bytes).is_err(), "{length}");
            assert!(decode::<Vec<u8>>(&bytes).is_err(), "{length}");
            assert!(decode::<Vec<Vec<String>>>(&bytes).is_err(), "{length}");
            assert!(decode::<std::collections::HashMap<u64, u64>>(&bytes).is_err(), "{length}");
        }
    }

    #[test]
    fn lists_of_free_entries_are_refused() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Tables(#[serde(deserialize_with = "mostly_taken")] Vec<Option<[u64; 8]>>);
        let few = Tables(vec![None, Some([1; 8]), None]);
        assert_eq!(decode::<Tables>(&encode(&few).expect("bytes")).expect("tables"), few);
        let bytes = encode(&Tables(vec![None; 2 << 20])).expect("bytes");
        assert!(decode::<Tables>(&bytes).expect_err("free ones").to_string().contains("too many free entries"));
    }

    #[test]
    fn a_large_window_is_refused() {
        let mut packer = zstd::stream::write::Encoder::new(vec![], 1).expect("a packer");
        packer.window_log(27).expect("a window");
        packer.write_all(&7u64.to_le_bytes()).expect("memory");
        assert!(decode::<u64>(&packer.finish().expect("a frame")).is_err());
    }
}
