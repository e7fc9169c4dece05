//! Checkpoints: what a job needs to go on from a sweep, on disk, whole or not at all.
//!
//! A checkpoint is a folder of parts (one per shard, written by the worker that owns it, and one with what all workers
//! share) and becomes valid when a small manifest that names them is renamed into place. The one before is kept. A part
//! has a header outside its serialised body: magic number, format version, the job's fingerprint, length and checksum.
//! A part that is damaged, cut off or another job's is refused with its name and the reason, and the checkpoint before
//! it is used. Nothing in a checkpoint depends on the number of workers.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::codec::{decode, encode_behind};

const MAGIC: &[u8; 8] = b"SAWMILLC";
const FORMAT: u32 = 1;
/// Magic, format, 4 bytes of zero, fingerprint, length of the packed body, its checksum.
const HEADER: usize = 8 + 4 + 4 + 32 + 8 + 8;

const LATEST: &str = "latest.json";
const PREVIOUS: &str = "previous.json";

/// The checkpoints of a run.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    folder: PathBuf,
    fingerprint: [u8; 32],
}

/// The last checkpoint below `folder`, whichever job it is of: its stage, where the job has stages, its sweep, and when it
/// was made; for people.
pub fn last(folder: &Path) -> Option<(String, u64, SystemTime)> {
    let below = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let of = |folder: PathBuf, stage: String| {
        let path = folder.join(LATEST);
        let manifest: Manifest = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
        Some((stage, manifest.sweep, fs::metadata(&path).ok()?.modified().ok()?))
    };
    let stages = below.filter_map(|path| {
        let stage = path.file_name()?.to_string_lossy().into_owned();
        of(path, stage)
    });
    of(folder.to_path_buf(), String::new()).into_iter().chain(stages).max_by_key(|(_, _, when)| *when)
}

/// A part, as the manifest names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    pub name: String,
    pub bytes: u64,
    pub xxh3: String,
}

/// What makes a checkpoint valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub format: u32,
    pub sweep: u64,
    pub fingerprint: String,
    pub parts: Vec<Part>,
}

impl Checkpoints {
    /// Those below `folder`, of the job with this fingerprint.
    pub fn new(folder: PathBuf, fingerprint: [u8; 32]) -> Checkpoints {
        Checkpoints { folder, fingerprint }
    }

    /// Those of the job with this very input.
    pub fn of_input(&self, digest: u64) -> Checkpoints {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.fingerprint).update(&digest.to_le_bytes());
        Checkpoints { folder: self.folder.clone(), fingerprint: *hasher.finalize().as_bytes() }
    }

    /// Whether there are some of another job, or of the job with another input.
    pub fn are_others(&self) -> bool {
        let manifest = fs::read(self.folder.join(LATEST)).ok().and_then(|text| serde_json::from_slice(&text).ok());
        manifest.is_some_and(|manifest: Manifest| manifest.fingerprint != hex(&self.fingerprint))
    }

    /// Those of a stage of the job, which has its own.
    pub fn of_stage(&self, name: &str) -> Checkpoints {
        Checkpoints { folder: self.folder.join(name), fingerprint: self.fingerprint }
    }

    fn sweep_folder(&self, sweep: u64) -> PathBuf {
        self.folder.join(format!("sweep-{sweep:08}"))
    }

    /// Writes a part of the checkpoint of `sweep`. It counts for nothing before [`Checkpoints::commit`].
    pub fn write_part<T: Serialize>(&self, sweep: u64, name: &str, value: &T) -> io::Result<Part> {
        let folder = self.sweep_folder(sweep);
        fs::create_dir_all(&folder)?;
        let mut bytes = encode_behind(vec![0; HEADER], value)?;
        let body = &bytes[HEADER..];
        let (length, checksum) = (body.len() as u64, xxh3_64(body));
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[16..48].copy_from_slice(&self.fingerprint);
        bytes[48..56].copy_from_slice(&length.to_le_bytes());
        bytes[56..HEADER].copy_from_slice(&checksum.to_le_bytes());
        write_durably(&folder.join(name), &bytes)?;
        Ok(Part { name: name.to_string(), bytes: bytes.len() as u64, xxh3: format!("{checksum:016x}") })
    }

    /// Makes the checkpoint of `sweep`, whose parts have been written, the latest; keeps the one before, and no others.
    pub fn commit(&self, sweep: u64, parts: Vec<Part>) -> io::Result<()> {
        let manifest = Manifest { format: FORMAT, sweep, fingerprint: hex(&self.fingerprint), parts };
        let text = serde_json::to_string_pretty(&manifest).map_err(io::Error::other)?;
        let beside = self.folder.join("next.json");
        write_durably(&beside, text.as_bytes())?;
        let latest = self.folder.join(LATEST);
        if latest.exists() {
            fs::rename(&latest, self.folder.join(PREVIOUS))?;
        }
        fs::rename(&beside, &latest)?;
        File::open(&self.folder)?.sync_all()?;
        self.remove_all_but(&[LATEST, PREVIOUS]);
        Ok(())
    }

    /// Removes the folders of checkpoints that none of `manifests` names. What cannot be removed only takes space.
    fn remove_all_but(&self, manifests: &[&str]) {
        let kept: Vec<PathBuf> =
            manifests.iter().filter_map(|name| self.manifest(name).ok()).map(|m| self.sweep_folder(m.sweep)).collect();
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() && !kept.contains(&path) {
                let _ = fs::remove_dir_all(path);
            }
        }
    }

    /// Forgets all checkpoints.
    pub fn clear(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.folder) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    /// The sweep of the newest checkpoint that is whole, with what was wrong with newer ones; none where there is none.
    pub fn find(&self) -> (Option<u64>, Vec<String>) {
        let mut complaints = Vec::new();
        for name in [LATEST, PREVIOUS] {
            match self.manifest(name).and_then(|manifest| self.verify(&manifest).map(|()| manifest.sweep)) {
                Ok(sweep) => return (Some(sweep), complaints),
                Err(e) if e.kind() == io::ErrorKind::NotFound && !self.folder.join(name).exists() => {}
                Err(e) => complaints.push(e.to_string()),
            }
        }
        (None, complaints)
    }

    fn manifest(&self, name: &str) -> io::Result<Manifest> {
        let path = self.folder.join(name);
        let manifest: Manifest = serde_json::from_slice(&fs::read(&path)?).map_err(|e| bad(&path, &e.to_string()))?;
        if manifest.format != FORMAT {
            return Err(bad(&path, &format!("format {}, not {FORMAT}", manifest.format)));
        }
        if manifest.fingerprint != hex(&self.fingerprint) {
            return Err(bad(&path, "it belongs to another job, other inputs or other settings"));
        }
        Ok(manifest)
    }

    fn verify(&self, manifest: &Manifest) -> io::Result<()> {
        for part in &manifest.parts {
            let path = self.sweep_folder(manifest.sweep).join(&part.name);
            let body = self.read_body(&path)?;
            if format!("{:016x}", xxh3_64(&body)) != part.xxh3 {
                return Err(bad(&path, "it is not the part that the manifest names"));
            }
        }
        Ok(())
    }

    /// Reads a part back.
    pub fn read_part<T: DeserializeOwned>(&self, sweep: u64, name: &str) -> io::Result<T> {
        let path = self.sweep_folder(sweep).join(name);
        decode(&self.read_body(&path)?).map_err(|e| bad(&path, &e.to_string()))
    }

    /// The packed body of a part, once its header and checksum have been found right.
    fn read_body(&self, path: &Path) -> io::Result<Vec<u8>> {
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        let mut bytes = Vec::new();
        File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)).map_err(named)?;
        if bytes.len() < HEADER || !bytes.starts_with(MAGIC) {
            return Err(bad(path, "it is not a checkpoint of sawmill"));
        }
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        if number(8) as u32 != FORMAT {
            return Err(bad(path, &format!("format {}, not {FORMAT}", number(8) as u32)));
        }
        if bytes[16..48] != self.fingerprint {
            return Err(bad(path, "it belongs to another job, other inputs or other settings"));
        }
        let (length, checksum) = (number(48), number(56));
        let body = bytes.split_off(HEADER);
        if body.len() as u64 != length {
            return Err(bad(path, &format!("it is cut off: {} bytes of {length}", body.len())));
        }
        if xxh3_64(&body) != checksum {
            return Err(bad(path, "its checksum does not match: it is damaged"));
        }
        Ok(body)
    }
}

fn bad(path: &Path, reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{}: {reason}", path.display()))
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes a file beside its place, makes it durable, and renames it; a file that could not be written leaves nothing.
fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("tmp");
    let write = || -> io::Result<()> {
        let mut file = File::create(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
    };
    write().inspect_err(|_| drop(fs::remove_file(&beside)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoints(folder: &Path) -> Checkpoints {
        Checkpoints::new(folder.join("checkpoints"), [7; 32])
    }

    fn write(checkpoints: &Checkpoints, sweep: u64) {
        let parts = [("a", vec![1u32, 2, 3]), ("b", vec![sweep as u32; 1000])]
            .map(|(name, value)| checkpoints.write_part(sweep, name, &value).unwrap());
        checkpoints.commit(sweep, parts.to_vec()).unwrap();
    }

    #[test]
    fn the_latest_whole_checkpoint_is_found_and_two_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let checkpoints = checkpoints(folder.path());
        assert_eq!(checkpoints.find(), (None, vec![]));
        for sweep in [10, 20, 30] {
            write(&checkpoints, sweep);
        }
        assert_eq!(checkpoints.find(), (Some(30), vec![]));
        assert_eq!(checkpoints.read_part::<Vec<u32>>(30, "b").unwrap(), vec![30; 1000]);
        assert!(!checkpoints.sweep_folder(10).exists() && checkpoints.sweep_folder(20).exists());
        // A part without a manifest counts for nothing.
        checkpoints.write_part(40, "a", &0u8).unwrap();
        assert_eq!(checkpoints.find().0, Some(30));
    }

    #[test]
    fn damage_is_named_and_the_one_before_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let checkpoints = checkpoints(folder.path());
        write(&checkpoints, 1);
        write(&checkpoints, 2);
        let part = checkpoints.sweep_folder(2).join("b");
        let whole = fs::read(&part).unwrap();
        let mut flipped = whole.clone();
        flipped[HEADER + 5] ^= 1;
        let foreign = [&whole[..20], &[9; 8], &whole[28..]].concat();
        let cases: [(&[u8], &str); 4] = [
            (&flipped, "damaged"),
            (&whole[..whole.len() - 3], "cut off"),
            (&foreign, "another job"),
            (b"hello", "not a checkpoint"),
        ];
        for (bytes, reason) in cases {
            fs::write(&part, bytes).unwrap();
            let (found, complaints) = checkpoints.find();
            assert_eq!(found, Some(1));
            assert!(complaints[0].contains(reason) && complaints[0].contains("sweep-00000002/b"), "{complaints:?}");
        }
        fs::write(&part, whole).unwrap();
        assert_eq!(checkpoints.find(), (Some(2), vec![]));
        fs::remove_file(&part).unwrap();
        assert_eq!(checkpoints.find().0, Some(1));
    }
}
