//! The run folder: what a run leaves behind, and the proof that nobody else is writing it.
//!
//! Files are written beside their old versions and renamed over them, so a reader sees a file whole or not at all, and
//! a run that dies leaves what was there before. The manifest is the first file of a run folder and stays for good, so
//! that a run that is killed at any moment leaves a folder that the next one takes over.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Name of the file by which a folder is known to be a run folder.
pub const MANIFEST: &str = "manifest.json";

/// What is not a result.
const KEPT: [&str; 4] = [".lock", "checkpoints", "processes", MANIFEST];

/// What else a folder may hold before it has its manifest.
const BEFORE: [&str; 2] = ["report", "manifest.json.tmp"];

/// A folder that this process, alone, writes a run into.
pub struct RunFolder {
    path: PathBuf,
    _lock: File,
}

impl RunFolder {
    /// Makes the folder, or takes over one that an earlier run left. Fails at once where nothing can be written.
    pub fn create(path: &Path) -> Result<RunFolder> {
        if path.exists() && !path.is_dir() {
            return Err(Error::output(path, "a file of that name is there, not a folder"));
        }
        if is_foreign(path) {
            let message = format!("the folder holds other things and no {MANIFEST}; choose another with --out");
            return Err(Error::output(path, message));
        }
        fs::create_dir_all(path.join("report")).map_err(|e| Error::output(path, e))?;
        let lock = File::create(path.join(".lock")).map_err(|e| Error::output(path, e))?;
        match lock.try_lock() {
            Ok(()) => Ok(RunFolder { path: path.to_path_buf(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(Error::output(
                path,
                "another run is writing into this folder; wait for it, or choose another with --out",
            )),
            Err(TryLockError::Error(e)) => Err(Error::output(path, e)),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes `name`, a path in the folder, whole or not at all.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<()> {
        write_whole(&self.path.join(name), content)
    }

    /// Begins to write `name`, a path in the folder, piece by piece.
    pub fn create_file(&self, name: &str) -> Result<WholeFile> {
        WholeFile::create(&self.path.join(name))
    }

    /// Appends a line to `name`.
    pub fn append(&self, name: &str, line: &str) -> Result<()> {
        let path = self.path.join(name);
        let open = || File::options().create(true).append(true).open(&path);
        open().and_then(|mut file| writeln!(file, "{line}")).map_err(|e| Error::output(&path, e))
    }

    /// Removes `name`, where it is there.
    pub fn remove(&self, name: &str) -> Result<()> {
        match fs::remove_file(self.path.join(name)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::output(&self.path.join(name), e)),
            _ => Ok(()),
        }
    }

    /// Removes what an earlier run left, but for its manifest, its checkpoints and what is named to `stays`: no result may be
    /// taken for that of this run.
    pub fn clear_results(&self, stays: impl Fn(&str) -> bool) -> Result<()> {
        for entry in fs::read_dir(&self.path).map_err(|e| Error::output(&self.path, e))?.flatten() {
            let path = entry.path();
            if KEPT.iter().any(|kept| entry.file_name() == *kept) || entry.file_name().to_str().is_some_and(&stays) {
                continue;
            }
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.map_err(|e| Error::output(&path, e))?;
        }
        fs::create_dir_all(self.path.join("report")).map_err(|e| Error::output(&self.path, e))
    }
}

/// Whether a run has left something at `path`.
pub fn is_run_folder(path: &Path) -> bool {
    path.join(MANIFEST).exists()
}

/// Whether the folder holds what no run has left. Signs of life may be there before anything else, in the folders of a
/// study's variants too.
fn is_foreign(path: &Path) -> bool {
    let is_ours = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        KEPT.iter().chain(&BEFORE).any(|ours| name == *ours) || (entry.path().is_dir() && !is_foreign(&entry.path()))
    };
    !is_run_folder(path) && fs::read_dir(path).is_ok_and(|entries| entries.flatten().any(|entry| !is_ours(&entry)))
}

/// Writes a file beside its old version and renames it over that.
pub fn write_whole(path: &Path, content: &[u8]) -> Result<()> {
    let mut file = WholeFile::create(path)?;
    file.write_all(content).map_err(|e| Error::output(path, e))?;
    file.finish()
}

/// A file in the making, beside its old version until it is whole. Dropped before that, it leaves nothing. A link is
/// followed; what is no plain file, such as a pipe or a device, is written to as it is.
pub struct WholeFile {
    path: PathBuf,
    /// None where it is written to as it is.
    beside: Option<PathBuf>,
    file: BufWriter<File>,
    is_whole: bool,
}

impl WholeFile {
    pub fn create(path: &Path) -> Result<WholeFile> {
        let there = fs::metadata(path);
        if there.as_ref().is_ok_and(|there| !there.is_file() && !there.is_dir()) {
            let file = File::options().write(true).open(path).map_err(|e| Error::output(path, e))?;
            return Ok(WholeFile {
                path: path.to_path_buf(),
                beside: None,
                file: BufWriter::new(file),
                is_whole: true,
            });
        }
        let path = if there.is_ok() { path.canonicalize().unwrap_or(path.to_path_buf()) } else { path.to_path_buf() };
        let mut beside = path.as_os_str().to_owned();
        beside.push(".tmp");
        let beside = PathBuf::from(beside);
        let file = File::create(&beside).map_err(|e| Error::output(&path, e))?;
        Ok(WholeFile { path, beside: Some(beside), file: BufWriter::new(file), is_whole: false })
    }

    /// Makes what was written the file's content.
    pub fn finish(mut self) -> Result<()> {
        let mut finish = || -> io::Result<()> {
            self.file.flush()?;
            let Some(beside) = &self.beside else { return Ok(()) };
            self.file.get_ref().sync_all()?;
            fs::rename(beside, &self.path)
        };
        finish().map_err(|e| Error::output(&self.path, e))?;
        self.is_whole = true;
        Ok(())
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let (false, Some(beside)) = (self.is_whole, &self.beside) {
            let _ = fs::remove_file(beside); // what is left of it is of no use
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_what_is_no_file_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        write_whole(&link, b"new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"new");
        let null = folder.path().join("null");
        std::os::unix::fs::symlink("/dev/null", &null).unwrap();
        write_whole(&null, b"gone").unwrap();
        assert!(null.is_symlink() && !fs::metadata(&null).unwrap().is_file());
    }

    #[test]
    fn a_file_that_was_not_finished_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write_whole(&path, b"old").unwrap();
        let mut file = WholeFile::create(&path).unwrap();
        file.write_all(&[b'n'; 100_000]).unwrap();
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing lies beside it");
        let mut file = WholeFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        file.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
