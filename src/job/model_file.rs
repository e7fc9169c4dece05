//! The file `model` of a run folder: what was learned, with a header that says what it is.
//!
//! Magic number, format version, the model's kind, length and checksum; then the packed body. The header can be read
//! for ever; another kind, another version or a damaged file is refused with the reason.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use xxhash_rust::xxh3::xxh3_64;

use crate::cluster::checkpoint::{decode, encode_behind};
use crate::corpus::open::first_bytes;
use crate::error::{Error, Result};

const MAGIC: &[u8; 8] = b"SAWMILLM";
const FORMAT: u32 = 1;
/// Magic, format, kind, checksum.
const HEADER: usize = 8 + 4 + 16 + 8;

/// The bytes of a model file.
pub fn to_bytes<T: Serialize>(kind: &str, model: &T) -> Result<Vec<u8>> {
    let bytes = encode_behind(vec![0; HEADER], model);
    let mut bytes = bytes.map_err(|e| Error::Usage(format!("the model cannot be serialised: {e}")))?;
    let checksum = xxh3_64(&bytes[HEADER..]);
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    bytes[12..12 + kind.len()].copy_from_slice(kind.as_bytes());
    bytes[28..HEADER].copy_from_slice(&checksum.to_le_bytes());
    Ok(bytes)
}

/// The kind of the model at `path`, a model file or a run folder.
pub fn kind(path: &Path) -> Result<String> {
    let path = file_of(path)?;
    let start = first_bytes(&path, HEADER).map_err(|e| Error::input(&path, e))?;
    kind_of(&start).map_err(|e| Error::input(&path, e))
}

/// Reads the model of kind `kind` at `path`, a model file or a run folder.
pub fn load<T: DeserializeOwned>(path: &Path, kind: &str) -> Result<T> {
    let path = file_of(path)?;
    let bytes = std::fs::read(&path).map_err(|e| Error::input(&path, e))?;
    parse(&bytes, kind).map_err(|e| Error::input(&path, e))
}

/// The model file at `path`, which may be the run folder that it is in.
fn file_of(path: &Path) -> Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_path_buf());
    }
    let file = path.join("model");
    match file.exists() {
        true => Ok(file),
        false => Err(Error::input(
            path,
            "there is no model in this folder: it is not the run folder of a training, or the training has not ended \
             (see sawmill status)",
        )),
    }
}

fn bad(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// The kind that a header names.
fn kind_of(bytes: &[u8]) -> io::Result<String> {
    if bytes.len() < HEADER || !bytes.starts_with(MAGIC) {
        return Err(bad("this is not a model of sawmill".to_string()));
    }
    let format = u32::from_le_bytes(bytes[8..12].try_into().expect("4 bytes"));
    if format != FORMAT {
        return Err(bad(format!("the model has format {format}; this sawmill reads {FORMAT}")));
    }
    Ok(String::from_utf8_lossy(&bytes[12..28]).trim_end_matches('\0').to_string())
}

fn parse<T: DeserializeOwned>(bytes: &[u8], kind: &str) -> io::Result<T> {
    let found = kind_of(bytes)?;
    if found != kind {
        return Err(bad(format!("this is a model of kind {found}, not {kind}")));
    }
    let checksum = u64::from_le_bytes(bytes[28..36].try_into().expect("8 bytes"));
    let body = &bytes[HEADER..];
    if xxh3_64(body) != checksum {
        return Err(bad("the checksum does not match: the file is damaged or cut off".to_string()));
    }
    decode(body).map_err(|e| bad(format!("another version of sawmill has written this model: train it again ({e})")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_kinds_and_damage_are_refused() {
        let bytes = to_bytes("lda", &vec![1u32, 2, 3]).unwrap();
        assert_eq!(parse::<Vec<u32>>(&bytes, "lda").unwrap(), [1, 2, 3]);
        let refused = |bytes: &[u8], kind: &str| parse::<Vec<u32>>(bytes, kind).unwrap_err().to_string();
        assert!(refused(&bytes, "hpylm").contains("of kind lda, not hpylm"));
        assert!(refused(&bytes[..bytes.len() - 1], "lda").contains("damaged or cut off"));
        assert!(refused(b"hello", "lda").contains("not a model of sawmill"));
        let other = to_bytes("lda", &7u8).unwrap();
        assert!(refused(&other, "lda").contains("another version"));
    }
}
