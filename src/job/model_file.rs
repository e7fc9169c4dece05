//! The file `model` of a run folder: what was learned, with a header that says what it is.
//!
//! Magic number, format, the model's kind and a checksum; then the packed body. Every kind of model has formats of its own,
//! counted from 1 ([`Stored::FORMAT`]). A file of another kind or format, and one that is damaged, is refused with the
//! reason. A checksum does not show that the content makes sense, so every model is also validated on reading
//! ([`Stored::validate`]): what has been loaded can be asked without a panic.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

use super::folder::RunFolder;
use crate::cluster::codec::{decode, encode_behind, encode_to};
use crate::corpus::open::first_bytes;
use crate::error::{Error, Result};

/// Its name in a run folder.
const FILE: &str = "model";

const MAGIC: &[u8; 8] = b"SAWMILLM";
/// Magic, format, kind, checksum.
const HEADER: usize = 8 + 4 + 16 + 8;

/// A model as it is stored in a file.
pub trait Stored: Serialize + DeserializeOwned {
    /// The kind in the header: at most 16 bytes.
    const KIND: &'static str;
    /// The format of the files of this kind that are written and read. It is raised with every change to what is stored.
    const FORMAT: u32;

    /// Checks all that a model's methods rely on; the error names the part that is wrong.
    fn validate(&self) -> Result<(), String>;
}

/// The bytes of a model file.
pub fn to_bytes<M: Stored>(model: &M) -> Result<Vec<u8>> {
    pack(M::KIND, M::FORMAT, model).map_err(|e| Error::Usage(format!("the model cannot be serialised: {e}")))
}

/// Writes a model as the file `model` of a run folder, piece by piece: its bytes are never in memory as a whole.
pub fn write<M: Stored>(folder: &RunFolder, model: &M) -> Result<()> {
    let mut file = folder.create_file(FILE)?;
    let mut write = || -> io::Result<()> {
        file.write_all(&[0; HEADER])?;
        let summed = encode_to(Summed { inner: &mut file, sum: Xxh3Default::new() }, model)?;
        let checksum = summed.sum.digest();
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&header(M::KIND, M::FORMAT, checksum))
    };
    write().map_err(|e| Error::output(&folder.path().join(FILE), e))?;
    file.finish()
}

/// Adds up the checksum of what is written.
struct Summed<W> {
    inner: W,
    sum: Xxh3Default,
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(buffer)?;
        self.sum.update(&buffer[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// A value as the body of a model file of this kind and format.
pub fn pack<T: Serialize>(kind: &str, format: u32, value: &T) -> io::Result<Vec<u8>> {
    let bytes = encode_behind(vec![0; HEADER], value)?;
    Ok(with_header(kind, format, bytes))
}

/// Fills in the header of `bytes`, whose body is complete.
pub fn with_header(kind: &str, format: u32, mut bytes: Vec<u8>) -> Vec<u8> {
    let header = header(kind, format, xxh3_64(&bytes[HEADER..]));
    bytes[..HEADER].copy_from_slice(&header);
    bytes
}

fn header(kind: &str, format: u32, checksum: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&format.to_le_bytes());
    header[12..12 + kind.len()].copy_from_slice(kind.as_bytes());
    header[28..].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// The kind of the model at `path`, a model file or a run folder.
pub fn kind(path: &Path) -> Result<String> {
    let path = file_of(path)?;
    let start = first_bytes(&path, HEADER).map_err(|e| Error::input(&path, e))?;
    kind_of(&start).map_err(|e| Error::input(&path, e))
}

/// Reads and validates the model at `path`, a model file or a run folder.
pub fn load<M: Stored>(path: &Path) -> Result<M> {
    let path = file_of(path)?;
    let bytes = read(&path).map_err(|e| Error::input(&path, e))?;
    parse(&bytes).map_err(|e| Error::input(&path, e))
}

/// The bytes of the file at `path`, once its first ones are those of a model: a device may have no end.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(bad("this is not a regular file".to_string()));
    }
    let mut bytes = vec![];
    Read::by_ref(&mut file).take(HEADER as u64).read_to_end(&mut bytes)?;
    kind_of(&bytes)?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The model file at `path`, which may be the run folder that it is in.
fn file_of(path: &Path) -> Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_path_buf());
    }
    let file = path.join(FILE);
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
    Ok(String::from_utf8_lossy(&bytes[12..28]).trim_end_matches('\0').to_string())
}

/// The model in the bytes of a model file.
pub fn parse<M: Stored>(bytes: &[u8]) -> io::Result<M> {
    let found = kind_of(bytes)?;
    if found != M::KIND {
        return Err(bad(format!("this is a model of kind {found}, not {}", M::KIND)));
    }
    let format = u32::from_le_bytes(bytes[8..12].try_into().expect("4 bytes"));
    if format != M::FORMAT {
        let message = format!("made by format {format} of {found} models; this sawmill reads {}", M::FORMAT);
        return Err(bad(message));
    }
    let checksum = u64::from_le_bytes(bytes[28..HEADER].try_into().expect("8 bytes"));
    let body = &bytes[HEADER..];
    if xxh3_64(body) != checksum {
        return Err(bad("the checksum does not match: the file is damaged or cut off".to_string()));
    }
    let inconsistent = |reason: String| bad(format!("the model file is inconsistent (corrupt?): {reason}"));
    let model: M = decode(body).map_err(|e| inconsistent(e.to_string()))?;
    model.validate().map_err(inconsistent)?;
    Ok(model)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Numbers(Vec<u32>);

    #[test]
    fn a_model_written_piece_by_piece_is_that_of_its_bytes() {
        let folder = tempfile::tempdir().expect("a folder");
        let run = RunFolder::create(folder.path()).expect("a run folder");
        let numbers = Numbers((0..1_000_000).map(|n: u32| n.wrapping_mul(0x9e37_79b1) >> 12).collect());
        write(&run, &numbers).expect("it is written");
        assert_eq!(std::fs::read(folder.path().join(FILE)).expect("a file"), to_bytes(&numbers).expect("bytes"));
    }

    impl Stored for Numbers {
        const KIND: &'static str = "numbers";
        const FORMAT: u32 = 3;

        fn validate(&self) -> Result<(), String> {
            crate::error::ensure(!self.0.is_empty(), "no number")
        }
    }

    fn refused(bytes: &[u8]) -> String {
        parse::<Numbers>(bytes).expect_err("it is refused").to_string()
    }

    #[test]
    fn other_kinds_formats_and_damage_are_refused() {
        let bytes = to_bytes(&Numbers(vec![1, 2, 3])).expect("bytes");
        assert_eq!(parse::<Numbers>(&bytes).expect("a model"), Numbers(vec![1, 2, 3]));
        let packed = |kind: &str, format: u32| pack(kind, format, &vec![1u32]).expect("bytes");
        assert_eq!(refused(&packed("lda", 3)), "this is a model of kind lda, not numbers");
        assert_eq!(refused(&packed("numbers", 2)), "made by format 2 of numbers models; this sawmill reads 3");
        assert!(refused(&bytes[..bytes.len() - 1]).contains("damaged or cut off"));
        assert!(refused(b"hello").contains("not a model of sawmill"));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let inconsistent = "the model file is inconsistent (corrupt?): ";
        let empty = refused(&pack("numbers", 3, &Vec::<u32>::new()).expect("bytes"));
        assert_eq!(empty, format!("{inconsistent}no number"));
        assert!(refused(&pack("numbers", 3, &7u8).expect("bytes")).starts_with(inconsistent));
        assert!(refused(&pack("numbers", 3, &(vec![1u32], 0u8)).expect("bytes")).starts_with(inconsistent));
    }
}
