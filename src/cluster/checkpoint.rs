//! Checkpoints: what a job needs to go on from a sweep, on disk, whole or not at all.
//!
//! A checkpoint is a folder of parts (one per shard, written by the worker that owns it, and one with what all workers
//! share) and becomes valid when a small manifest that names them is renamed into place, after the leader has read every
//! part back: a part that a worker wrote to another disk does not count. The one before is kept. A part has a header outside
//! its serialised body: magic number, format version, the job's fingerprint, length and checksum. A part that is damaged or
//! cut off is refused with its name and the reason, and the checkpoint before it is used. A checkpoint of another job, of other
//! inputs or another build is never passed over in silence: the run ends and says which of them differs. Nothing in a
//! checkpoint depends on the number of workers.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::codec::{decode, encode_behind};

const MAGIC: &[u8; 8] = b"SAWMILLC";
const FORMAT: u32 = 3;
/// Magic, format, 4 bytes of zero, fingerprint, length of the packed body, its checksum.
const HEADER: usize = 8 + 4 + 4 + 32 + 8 + 8;

const LATEST: &str = "latest.json";
const PREVIOUS: &str = "previous.json";
const NEXT: &str = "next.json";
const NEXT_BESIDE: &str = "next.tmp";

/// Extension of a file that is not whole yet.
const BESIDE: &str = "tmp";

/// What a checkpoint must have been made by and from to be continued.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// Of the settings and the inputs.
    pub fingerprint: [u8; 32],
    /// The kind of job, and the version in which it lays out its checkpoints.
    pub layout: String,
    /// Hash of the program: another one may count or draw differently.
    pub build: String,
    /// Whether the user takes that risk.
    pub accepts_other_build: bool,
}

/// The checkpoints of a run.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    folder: PathBuf,
    identity: Identity,
}

const SWEEP: &str = "sweep-";

/// The files that checkpoints have left below `folder`, those of a job's stages included.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = vec![];
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let below = if is_sweep_folder(&name) { parts_below(&path) } else { files_below(&path) };
            files.extend(below);
        } else if [LATEST, PREVIOUS, NEXT, NEXT_BESIDE].contains(&name.as_str()) {
            files.push(path);
        }
    }
    files
}

/// The manifests of the newest checkpoints below `folder`: one, or one of each of a job's stages.
pub fn newest_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = files_below(folder);
    files.retain(|file| file.ends_with(LATEST));
    files
}

fn is_sweep_folder(name: &str) -> bool {
    name.strip_prefix(SWEEP).is_some_and(|number| number.len() >= 8 && number.bytes().all(|b| b.is_ascii_digit()))
}

fn parts_below(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_part = |path: &PathBuf| {
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let has_own_name = name == "shared" || name.starts_with("shard-");
        has_own_name && path.extension().is_none_or(|extension| extension == BESIDE)
    };
    paths.filter(is_part).collect()
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
    #[serde(default)]
    pub layout: String,
    #[serde(default)]
    pub build: String,
    pub parts: Vec<Part>,
    /// XXH3 of all of this but itself: what is damaged must not be taken for another job's.
    #[serde(default)]
    pub xxh3: String,
}

impl Manifest {
    /// The checksum that it should have.
    pub fn checksum(&self) -> String {
        let plain = Manifest { xxh3: String::new(), ..self.clone() };
        format!("{:016x}", xxh3_64(&serde_json::to_vec(&plain).expect("a manifest is JSON")))
    }
}

/// The newest checkpoint that can be continued.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub sweep: Option<u64>,
    /// What was wrong with newer ones.
    pub complaints: Vec<String>,
}

impl Checkpoints {
    /// Those below `folder`, of the job with this identity.
    pub fn new(folder: PathBuf, identity: Identity) -> Checkpoints {
        Checkpoints { folder, identity }
    }

    /// Those of a stage of the job, which has its own.
    pub fn of_stage(&self, name: &str) -> Checkpoints {
        Checkpoints { folder: self.folder.join(name), ..self.clone() }
    }

    fn sweep_folder(&self, sweep: u64) -> PathBuf {
        self.folder.join(format!("{SWEEP}{sweep:08}"))
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
        bytes[16..48].copy_from_slice(&self.identity.fingerprint);
        bytes[48..56].copy_from_slice(&length.to_le_bytes());
        bytes[56..HEADER].copy_from_slice(&checksum.to_le_bytes());
        write_durably(&folder.join(name), &bytes)?;
        Ok(Part { name: name.to_string(), bytes: bytes.len() as u64, xxh3: format!("{checksum:016x}") })
    }

    /// Makes the checkpoint of `sweep`, whose parts have been written, the latest once all parts have been read back; keeps the
    /// one before, and no others.
    pub fn commit(&self, sweep: u64, parts: Vec<Part>) -> io::Result<()> {
        let Identity { fingerprint, layout, build, .. } = self.identity.clone();
        let (format, fingerprint, xxh3) = (FORMAT, hex(&fingerprint), String::new());
        let mut manifest = Manifest { format, sweep, fingerprint, layout, build, parts, xxh3 };
        manifest.xxh3 = manifest.checksum();
        self.verify(&manifest)?;
        let text = serde_json::to_string_pretty(&manifest).map_err(io::Error::other)?;
        let beside = self.folder.join(NEXT);
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

    /// Removes the parts of checkpoints that none of `manifests` names. What cannot be removed only takes space.
    fn remove_all_but(&self, manifests: &[&str]) {
        let kept: Vec<PathBuf> =
            manifests.iter().filter_map(|name| self.manifest(name).ok()).map(|m| self.sweep_folder(m.sweep)).collect();
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if is_sweep_folder(&entry.file_name().to_string_lossy()) && !kept.contains(&path) {
                parts_below(&path).iter().for_each(|part| drop(fs::remove_file(part)));
                let _ = fs::remove_dir(path);
            }
        }
    }

    /// The newest checkpoint that is whole and that `is_usable` accepts by its sweep. Fails if there is one of another job,
    /// other inputs, another layout or another build.
    pub fn find(&self, is_usable: impl Fn(u64) -> bool) -> io::Result<Found> {
        let mut found = Found::default();
        for name in [LATEST, PREVIOUS] {
            let path = self.folder.join(name);
            let manifest = match self.manifest(name) {
                Err(e) if e.kind() == io::ErrorKind::NotFound && !path.exists() => continue,
                Err(e) => {
                    found.complaints.push(e.to_string());
                    continue;
                }
                Ok(manifest) => manifest,
            };
            self.check_identity(&manifest).map_err(|why| bad(&path, &why))?;
            if !is_usable(manifest.sweep) {
                continue;
            }
            match self.verify(&manifest) {
                Ok(()) => return Ok(Found { sweep: Some(manifest.sweep), ..found }),
                Err(e) => found.complaints.push(e.to_string()),
            }
        }
        Ok(found)
    }

    /// Whether there is any, usable or not.
    pub fn exist(&self) -> bool {
        [LATEST, PREVIOUS].iter().any(|name| self.folder.join(name).exists())
    }

    fn manifest(&self, name: &str) -> io::Result<Manifest> {
        let path = self.folder.join(name);
        let manifest: Manifest = serde_json::from_slice(&fs::read(&path)?).map_err(|e| bad(&path, &e.to_string()))?;
        match manifest.format {
            FORMAT if manifest.xxh3 != manifest.checksum() => {
                Err(bad(&path, "its checksum does not match: it is damaged"))
            }
            FORMAT => Ok(manifest),
            format => Err(bad(&path, &format!("made in format {format}; this sawmill reads format {FORMAT}"))),
        }
    }

    /// Says in what a checkpoint is not of this job, inputs, layout and build.
    fn check_identity(&self, manifest: &Manifest) -> Result<(), String> {
        let Identity { fingerprint, layout, build, accepts_other_build } = &self.identity;
        if manifest.layout != *layout {
            return Err(format!("made by format {:?}; this sawmill reads {layout:?}", manifest.layout));
        }
        if manifest.fingerprint != hex(fingerprint) {
            return Err(
                "it belongs to another job, other inputs or other settings; start over with --fresh".to_string()
            );
        }
        if manifest.build != *build && !accepts_other_build {
            return Err(
                "it was made by another build of sawmill, which may count or draw differently; use that build, \
                        go on all the same with --accept-other-build, or start over with --fresh"
                    .to_string(),
            );
        }
        Ok(())
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
            let format = number(8) as u32;
            return Err(bad(path, &format!("made in format {format}; this sawmill reads format {FORMAT}")));
        }
        if bytes[16..48] != self.identity.fingerprint {
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
    let beside = path.with_extension(BESIDE);
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
        let identity = Identity { fingerprint: [7; 32], layout: "x 1".to_string(), ..Identity::default() };
        Checkpoints::new(folder.join("checkpoints"), identity)
    }

    fn find(checkpoints: &Checkpoints) -> Found {
        checkpoints.find(|_| true).unwrap()
    }

    fn write(checkpoints: &Checkpoints, sweep: u64) {
        let parts = [("shared", vec![1u32, 2, 3]), ("shard-00000", vec![sweep as u32; 1000])]
            .map(|(name, value)| checkpoints.write_part(sweep, name, &value).unwrap());
        checkpoints.commit(sweep, parts.to_vec()).unwrap();
    }

    #[test]
    fn the_latest_whole_checkpoint_is_found_and_two_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let checkpoints = checkpoints(folder.path());
        assert_eq!(find(&checkpoints), Found::default());
        for sweep in [10, 20, 30] {
            write(&checkpoints, sweep);
        }
        assert_eq!(find(&checkpoints), Found { sweep: Some(30), complaints: vec![] });
        assert_eq!(checkpoints.read_part::<Vec<u32>>(30, "shard-00000").unwrap(), vec![30; 1000]);
        assert!(!checkpoints.sweep_folder(10).exists() && checkpoints.sweep_folder(20).exists());
        // A part without a manifest counts for nothing.
        checkpoints.write_part(40, "shared", &0u8).unwrap();
        assert_eq!(find(&checkpoints).sweep, Some(30));
        // One that is not on the way of a longer chain is passed over.
        assert_eq!(checkpoints.find(|sweep| sweep % 20 == 0).unwrap().sweep, Some(20));
    }

    #[test]
    fn damage_is_named_and_the_one_before_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let checkpoints = checkpoints(folder.path());
        write(&checkpoints, 1);
        write(&checkpoints, 2);
        let part = checkpoints.sweep_folder(2).join("shard-00000");
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
            let Found { sweep, complaints } = find(&checkpoints);
            assert_eq!(sweep, Some(1));
            assert!(
                complaints[0].contains(reason) && complaints[0].contains("sweep-00000002/shard-00000"),
                "{complaints:?}"
            );
        }
        fs::write(&part, whole).unwrap();
        // A damaged manifest is not taken for one of another job or build.
        let latest = checkpoints.folder.join(LATEST);
        let text = fs::read_to_string(&latest).unwrap();
        for damaged in [text.replace("\"sweep\": 2", "\"sweep\": 3"), text.replace("0707", "0708")] {
            assert_ne!(damaged, text);
            fs::write(&latest, damaged).unwrap();
            let Found { sweep, complaints } = find(&checkpoints);
            assert!(sweep == Some(1) && complaints[0].contains("damaged"), "{complaints:?}");
        }
        fs::write(&latest, text).unwrap();
        assert_eq!(find(&checkpoints), Found { sweep: Some(2), complaints: vec![] });
        fs::remove_file(&part).unwrap();
        assert_eq!(find(&checkpoints).sweep, Some(1));
    }

    #[test]
    fn checkpoints_of_another_job_layout_or_build_are_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let own = checkpoints(folder.path());
        write(&own, 1);
        let refused = |change: fn(&mut Identity)| {
            let mut other = own.clone();
            change(&mut other.identity);
            other.find(|_| true).map(|found| found.sweep).map_err(|e| e.to_string())
        };
        assert!(refused(|other| other.fingerprint = [8; 32]).unwrap_err().contains("other inputs"));
        assert!(refused(|other| other.layout = "x 2".to_string()).unwrap_err().contains("made by format"));
        assert!(refused(|other| other.build = "b".to_string()).unwrap_err().contains("--accept-other-build"));
        let accepting = |other: &mut Identity| (other.build, other.accepts_other_build) = ("b".to_string(), true);
        assert_eq!(refused(accepting), Ok(Some(1)));
    }

    #[test]
    fn a_part_that_the_leader_cannot_read_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let checkpoints = checkpoints(folder.path());
        write(&checkpoints, 1);
        let part = checkpoints.write_part(2, "shared", &1u8).unwrap();
        fs::remove_file(checkpoints.sweep_folder(2).join("shared")).unwrap();
        assert!(checkpoints.commit(2, vec![part]).unwrap_err().to_string().contains("sweep-00000002/shared"));
        assert_eq!(find(&checkpoints).sweep, Some(1));
    }

    #[test]
    fn only_files_of_checkpoints_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        let stage = checkpoints(folder.path()).of_stage("treebank");
        write(&stage, 1);
        fs::write(stage.folder.join("thesis.tex"), "mine").unwrap();
        fs::write(stage.sweep_folder(1).join("notes"), "mine").unwrap();
        fs::write(stage.sweep_folder(1).join("shard-00000"), "part").unwrap();
        let found = files_below(&folder.path().join("checkpoints"));
        assert_eq!(found.iter().filter(|path| path.ends_with("shard-00000")).count(), 1);
        assert!(found.iter().all(|path| !path.ends_with("thesis.tex") && !path.ends_with("notes")), "{found:?}");
    }
}
