//! An input is its content: what a job read is known by a hash of every byte, never by name, size or time.
//!
//! Every process hashes all files of its job before it reads them (BLAKE3 of the file as stored, packed or not, as `b3sum`
//! prints it), several files at a time. The hashes go into the fingerprint of checkpoints and of finished runs, into what the
//! processes of a job have to agree on, and into the manifest. Files that change between hashing and the end of reading are
//! noticed by [`Inputs::check_unchanged`], which compares what the file system says of them.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The input files of a job in the job's order, with their hashes.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    files: Vec<InputFile>,
    /// Whether there are others, whose content nobody knows before they are read.
    pub has_streams: bool,
}

#[derive(Clone, Debug)]
struct InputFile {
    path: PathBuf,
    stamp: Stamp,
    hash: blake3::Hash,
}

/// An input as the manifest records it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputRecord {
    pub path: String,
    /// Size of the file as stored.
    pub bytes: u64,
    /// BLAKE3 of the file as stored.
    pub blake3: String,
}

/// What changes when somebody writes to a file or replaces it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    modified: Option<SystemTime>,
    identity: Identity,
}

#[cfg(unix)]
type Identity = (u64, u64, i64, i64);
#[cfg(not(unix))]
type Identity = ();

/// Device, inode, and when the inode last changed: a file that is replaced by one with the same size and time has others.
#[cfg(unix)]
fn identity(metadata: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> Identity {}

impl Stamp {
    fn of(metadata: &Metadata) -> Stamp {
        Stamp { bytes: metadata.len(), modified: metadata.modified().ok(), identity: identity(metadata) }
    }
}

impl Inputs {
    /// Hashes the files at `paths`, up to `threads` at a time. A file that is named several times is hashed once. What is
    /// not a regular file (standard input, a pipe) has no content before it is read, and is left out.
    pub fn hash(paths: &[PathBuf], threads: usize) -> Result<Inputs> {
        let mut distinct: Vec<&PathBuf> = paths.iter().collect();
        distinct.sort();
        distinct.dedup();
        let next = AtomicUsize::new(0);
        let hash_some = || {
            let mut found = vec![];
            while let Some(path) = distinct.get(next.fetch_add(1, Ordering::Relaxed)) {
                found.push((*path, hash_file(path)));
            }
            found
        };
        let hashed: Vec<_> = std::thread::scope(|scope| {
            let workers: Vec<_> =
                (0..threads.clamp(1, distinct.len().max(1))).map(|_| scope.spawn(hash_some)).collect();
            workers.into_iter().flat_map(|worker| worker.join().expect("hashing does not panic")).collect()
        });
        let mut by_path = BTreeMap::new();
        for (path, file) in hashed {
            by_path.insert(path, file.map_err(|e| Error::input(path, e))?);
        }
        let files: Vec<InputFile> = paths.iter().filter_map(|path| by_path[path].clone()).collect();
        Ok(Inputs { has_streams: files.len() < paths.len(), files })
    }

    /// A hash of all contents, in the order in which the job names them.
    pub fn digest(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        for file in &self.files {
            hasher.update(file.hash.as_bytes());
        }
        *hasher.finalize().as_bytes()
    }

    pub fn records(&self) -> Vec<InputRecord> {
        let record = |file: &InputFile| InputRecord {
            path: file.path.display().to_string(),
            bytes: file.stamp.bytes,
            blake3: file.hash.to_hex().to_string(),
        };
        self.files.iter().map(record).collect()
    }

    /// Name and hash of each file, for processes to compare with those that others read.
    pub fn facts(&self) -> Vec<(String, String)> {
        let name = |file: &InputFile| file.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let fact = |(number, file): (usize, &InputFile)| {
            (format!("input {number}, {}", name(file)), format!("BLAKE3 {}", file.hash.to_hex()))
        };
        (1..).zip(&self.files).map(fact).collect()
    }

    /// Fails if one of the files with `is_read` is not what it was when it was hashed: nobody can tell what was read then.
    pub fn check_unchanged(&self, is_read: impl Fn(&Path) -> bool) -> Result<()> {
        for file in self.files.iter().filter(|file| is_read(&file.path)) {
            let failed = |e: io::Error| Error::input(&file.path, e);
            let is_untouched = Stamp::of(&std::fs::metadata(&file.path).map_err(failed)?) == file.stamp;
            let is_same = || hash_file(&file.path).map(|now| now.is_some_and(|now| now.hash == file.hash));
            if !is_untouched && !is_same().map_err(failed)? {
                return Err(Error::input(&file.path, "it changed while the job was reading; run the job again"));
            }
        }
        Ok(())
    }
}

/// None for what is not a regular file.
fn hash_file(path: &Path) -> io::Result<Option<InputFile>> {
    if path == Path::new("-") || !std::fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    let mut file = File::open(path)?;
    let stamp = Stamp::of(&file.metadata()?);
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        let read = super::open::read_up_to(&mut file, &mut buffer)?;
        if read == 0 {
            break;
        }
        hasher.update(&buffer[..read]);
    }
    Ok(Some(InputFile { path: path.to_path_buf(), stamp, hash: hasher.finalize() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, content: &[u8]) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    #[test]
    fn files_are_known_by_every_byte_and_by_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let long = vec![b'x'; 700_000];
        let digest = |paths: &[PathBuf]| Inputs::hash(paths, 2).unwrap().digest();
        let files = [write(folder.path(), "a", &long), write(folder.path(), "b", b"short")];
        let first = digest(&files);
        let copies = [write(folder.path(), "copy of a", &long), write(folder.path(), "copy of b", b"short")];
        assert_eq!(digest(&copies), first, "names do not count");
        assert_ne!(digest(&[files[1].clone(), files[0].clone()]), first, "the order does");
        let mut other = long.clone();
        other[600_000] ^= 1;
        assert_ne!(digest(&[write(folder.path(), "a", &other), files[1].clone()]), first);
        let twice = Inputs::hash(&[files[1].clone(), files[1].clone()], 3).unwrap().records();
        assert_eq!((twice.len(), &twice[0]), (2, &twice[1]));
        assert_eq!(twice[0].blake3, blake3::hash(b"short").to_hex().to_string());
    }

    #[test]
    fn a_file_that_is_written_to_or_replaced_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), "a", b"one");
        let inputs = Inputs::hash(std::slice::from_ref(&path), 1).unwrap();
        inputs.check_unchanged(|_| true).unwrap();
        std::fs::write(&path, b"one").unwrap();
        inputs.check_unchanged(|_| true).expect("it was only touched");
        let time = std::fs::metadata(&path).unwrap().modified().unwrap();
        let new = write(folder.path(), "b", b"two");
        File::options().append(true).open(&new).unwrap().set_modified(time).unwrap();
        std::fs::rename(&new, &path).unwrap();
        assert!(inputs.check_unchanged(|_| true).unwrap_err().to_string().contains("changed while"));
    }

    #[test]
    fn what_is_missing_is_named_and_pipes_have_no_content() {
        let missing = Inputs::hash(&[PathBuf::from("/no/such/file")], 1).unwrap_err();
        assert!(missing.to_string().contains("/no/such/file"));
        assert!(Inputs::hash(&[PathBuf::from("-"), PathBuf::from("/dev/null")], 1).unwrap().records().is_empty());
    }
}
