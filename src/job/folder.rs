//! The run folder: which files in it are the run's own, and the proof that nobody else is writing it.
//!
//! A folder is a run folder if its manifest parses as sawmill's ([`super::manifest`]). Files are written beside their old
//! versions and renamed over them, so a reader sees a file whole or not at all, and a run that dies leaves what was there
//! before. The name of every file is added to a ledger before the file is first written; only files in the ledger, and those
//! in `checkpoints/` and `processes/` that have the names which sawmill gives, are ever removed. A user's own files stay.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tempfile::TempPath;

use super::manifest::{self, MANIFEST};
use crate::cluster::{checkpoint, heartbeat};
use crate::error::{Error, Result};

/// Locked by the process that writes the folder.
pub const LOCK: &str = ".lock";

/// The names of all files that were written with [`RunFolder::write`] and its like, a line each.
const LEDGER: &str = ".files";

/// Marks a run that was moved aside, and may be removed when the one that took its place is finished.
const ASIDE: &str = ".moved-aside";

/// Folder of checkpoints.
pub const CHECKPOINTS: &str = "checkpoints";

/// A folder that this process, alone, writes a run into.
pub struct RunFolder {
    path: PathBuf,
    ledger: Mutex<BTreeSet<String>>,
    _lock: File,
}

impl RunFolder {
    /// Makes the folder, or takes over one that an earlier run left. Fails at once if nothing can be written.
    pub fn create(path: &Path) -> Result<RunFolder> {
        if path.is_symlink() && !path.exists() {
            return Err(Error::output(path, "it is a link to a folder that is not there"));
        }
        if path.exists() && !path.is_dir() {
            return Err(Error::output(path, "a file of that name is there, not a folder"));
        }
        check_manifest(path)?;
        if let Some(foreign) = foreign_file(path) {
            let message = format!("the folder is not a run folder of sawmill: it holds {}", foreign.display());
            return Err(Error::output(path, format!("{message}; choose another with --out")));
        }
        fs::create_dir_all(path).map_err(|e| Error::output(path, e))?;
        let open = || File::options().create(true).append(true).open(path.join(LOCK));
        let lock = open().map_err(|e| Error::output(path, e))?;
        acquire(&lock).map_err(|why| Error::output(path, why))?;

        // A run that somebody has moved back to its place is not to be removed when it is moved away again.
        remove_file(&path.join(ASIDE))?;
        Ok(RunFolder { path: path.to_path_buf(), ledger: Mutex::new(ledger(path)), _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes `name`, a path in the folder, whole or not at all.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<()> {
        let mut file = self.create_file(name)?;
        file.write_all(content).map_err(|e| Error::output(&self.path.join(name), e))?;
        file.finish()
    }

    /// Begins to write `name`, a path in the folder, piece by piece.
    pub fn create_file(&self, name: &str) -> Result<WholeFile> {
        let path = self.own(name)?;
        WholeFile::create(&path)
    }

    /// Appends a line to `name`.
    pub fn append(&self, name: &str, line: &str) -> Result<()> {
        let path = self.own(name)?;
        append_line(&path, line).map_err(|e| Error::output(&path, e))
    }

    /// Adds `name` to the ledger if it is not in it, and makes the folder that the file is in. A file that is there but not
    /// in the ledger is somebody else's.
    fn own(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        path.parent().map_or(Ok(()), fs::create_dir_all).map_err(|e| Error::output(&path, e))?;
        let mut ledger = self.ledger.lock().expect("nobody panics with it");
        if ledger.contains(name) {
            return Ok(path);
        }
        if name != MANIFEST && path.exists() {
            return Err(Error::output(&path, "a file of that name is there that this run did not write; move it away"));
        }
        append_line(&self.path.join(LEDGER), name).map_err(|e| Error::output(&path, e))?;
        ledger.insert(name.to_string());
        Ok(path)
    }

    /// Removes what the run has written, but for the manifest and what `stays`.
    pub fn clear(&self, stays: impl Fn(&str) -> bool) -> Result<()> {
        let ledger = self.ledger.lock().expect("nobody panics with it").clone();
        for name in ledger.iter().filter(|name| *name != MANIFEST && !stays(name)) {
            remove_file(&self.path.join(name))?;
        }
        remove_all(&checkpoint::files_below(&self.path.join(CHECKPOINTS)))
    }
}

/// How long to wait for the lock of a run folder: `status` holds it for a moment.
const LOCK_WITHIN: Duration = Duration::from_millis(500);

/// Locks a run folder; returns why that is not possible.
fn acquire(lock: &File) -> std::result::Result<(), String> {
    let started = Instant::now();
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if started.elapsed() < LOCK_WITHIN => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(TryLockError::WouldBlock) => {
                let message = "another run is writing into this folder; wait for it, or choose another with --out";
                return Err(message.to_string());
            }
            Err(TryLockError::Error(e)) => return Err(e.to_string()),
        }
    }
}

/// Whether all files are there that the run at `path` has written.
pub fn is_complete(path: &Path) -> bool {
    let ledger = ledger(path);
    !ledger.is_empty() && ledger.iter().all(|name| path.join(name).exists())
}

/// Fails where the folder has a manifest that is not sawmill's, or that this version cannot read: whose the other files are is
/// not known then.
fn check_manifest(path: &Path) -> Result<()> {
    match manifest::Manifest::load(path) {
        Err(why) if path.join(MANIFEST).exists() => {
            Err(Error::Usage(format!("{why}; choose another folder with --out")))
        }
        _ => Ok(()),
    }
}

/// Whether a run has left something at `path`.
pub fn is_run_folder(path: &Path) -> bool {
    manifest::Manifest::load(path).is_ok()
}

/// The name of the folder that an earlier run is moved to while a new one takes its place.
fn previous(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".previous");
    PathBuf::from(name)
}

/// Moves the run at `path` aside, as a whole, so that another can start there; [`remove_previous`] removes it. If an earlier
/// new start has not finished, the run before it is kept and the unfinished one is removed. Returns where a run is kept.
pub fn move_aside(path: &Path, is_done: bool) -> Result<Option<PathBuf>> {
    if !path.exists() {
        return Ok(None);
    }
    check_manifest(path)?;
    if let Some(foreign) = stray_file(path) {
        let message = format!("{} is not of this run: move it, or choose another folder with --out", foreign.display());
        return Err(Error::Usage(format!("--fresh: {message}")));
    }
    let _locks = lock_all(path)?;
    let previous = previous(path);
    let is_ours = previous.join(ASIDE).exists();
    if is_ours && !is_done {
        return remove_run(path).map(|()| Some(previous));
    }
    remove_previous(path)?;
    if previous.symlink_metadata().is_ok() {
        let message = format!("{} is in the way and not sawmill's to remove; move it", previous.display());
        return Err(Error::Usage(format!("--fresh: {message}")));
    }
    fs::write(path.join(ASIDE), "").map_err(|e| Error::output(path, e))?;
    fs::rename(path, &previous).map_err(|e| {
        let message = format!("cannot move {} aside to {}: {e}", path.display(), previous.display());
        Error::Usage(format!("--fresh: {message}; choose another folder with --out"))
    })?;
    Ok(Some(previous))
}

/// Removes the run that was moved aside, now that the new one is finished.
pub fn remove_previous(path: &Path) -> Result<()> {
    let previous = previous(path);
    if previous.join(ASIDE).exists() { remove_run(&previous) } else { Ok(()) }
}

/// Locks a run folder and those below it, so that nobody writes into them.
fn lock_all(path: &Path) -> Result<Vec<RunFolder>> {
    let mut locks = vec![RunFolder::create(path)?];
    for entry in fs::read_dir(path).map_err(|e| Error::output(path, e))?.flatten() {
        if is_run_folder(&entry.path()) {
            locks.extend(lock_all(&entry.path())?);
        }
    }
    Ok(locks)
}

/// Removes the files of a run, and of those in folders below it (a study's variants), and folders that are empty then.
fn remove_run(path: &Path) -> Result<()> {
    for entry in fs::read_dir(path).map_err(|e| Error::output(path, e))?.flatten() {
        if is_run_folder(&entry.path()) {
            remove_run(&entry.path())?;
        }
    }
    remove_all(&own_files(path))?;
    // The mark last: until then, the folder is known as one to be removed.
    remove_all(&[MANIFEST, LEDGER, LOCK, ASIDE].map(|name| path.join(name)))?;
    let _ = fs::remove_dir(path); // a user's own files may be left in it
    Ok(())
}

/// Removes files, and folders that are empty then.
fn remove_all(files: &[PathBuf]) -> Result<()> {
    for file in files {
        remove_file(file)?;
        for folder in file.ancestors().skip(1).take(3) {
            if fs::remove_dir(folder).is_err() {
                break; // something is left in it
            }
        }
    }
    Ok(())
}

fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::output(path, e)),
        _ => Ok(()),
    }
}

/// The files of a run folder, but for manifest, ledger and lock.
fn own_files(path: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        ledger(path).iter().filter(|name| *name != MANIFEST).map(|name| path.join(name)).collect();
    files.extend(files.clone().iter().flat_map(|file| all_beside(file)));
    files.extend(checkpoint::files_below(&path.join(CHECKPOINTS)));
    files.extend(heartbeat::files_below(path));
    files
}

/// A file in the folder at `path` that is neither of the run there nor of one below it. The manifest is the first file of a
/// run: before it, there are only the lock and signs of life.
fn stray_file(path: &Path) -> Option<PathBuf> {
    let mut known: BTreeSet<PathBuf> = heartbeat::files_below(path).into_iter().collect();
    known.extend([LEDGER, LOCK, ASIDE].map(|name| path.join(name)));
    known.extend(all_beside(&path.join(MANIFEST)));
    if is_run_folder(path) {
        known.insert(path.join(MANIFEST));
        known.extend(own_files(path));
    }
    stray_below(path, &known)
}

fn stray_below(folder: &Path, known: &BTreeSet<PathBuf>) -> Option<PathBuf> {
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let found = match is_folder {
            true if is_run_folder(&path) => stray_file(&path),
            true => stray_below(&path, known).filter(|_| stray_file(&path).is_some()),
            false => (!known.contains(&path) && !heartbeat::is_own(&path)).then_some(path),
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

/// A file in a folder without a manifest of sawmill that no run has left. The lock and signs of life may be there before the
/// manifest, in the folders of a study's variants too.
fn foreign_file(path: &Path) -> Option<PathBuf> {
    if is_run_folder(path) { None } else { stray_file(path) }
}

fn ledger(path: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(path.join(LEDGER)).unwrap_or_default();
    // A name that leads out of the folder was not written by us.
    let is_below =
        |name: &&str| Path::new(name).components().all(|part| matches!(part, std::path::Component::Normal(_)));
    text.lines().filter(is_below).map(str::to_string).collect()
}

fn append_line(path: &Path, line: &str) -> io::Result<()> {
    let mut file = File::options().create(true).append(true).open(path)?;
    file.write_all(format!("{line}\n").as_bytes())
}

/// Writes a file beside its old version and renames it over that.
pub fn write_whole(path: &Path, content: &[u8]) -> Result<()> {
    let mut file = WholeFile::create(path)?;
    file.write_all(content).map_err(|e| Error::output(path, e))?;
    file.finish()
}

/// What the names of files begin and end with that are written beside `path` until they are whole; a random part is between.
fn beside(path: &Path) -> (String, &'static str) {
    (format!(".{}.", path.file_name().unwrap_or_default().to_string_lossy()), ".sawmill-tmp")
}

/// The files that are being written beside `path`, or were when a process was killed.
fn all_beside(path: &Path) -> Vec<PathBuf> {
    let (start, end) = beside(path);
    let is_beside =
        |name: &str| name.len() > start.len() + end.len() && name.starts_with(&start) && name.ends_with(end);
    let entries = fs::read_dir(folder_of(path)).into_iter().flatten().flatten();
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    files.filter(|entry| is_beside(&entry.file_name().to_string_lossy())).map(|entry| entry.path()).collect()
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Removes what killed processes have left beside `path`: whoever writes such a file has locked it.
fn remove_stale(path: &Path) {
    for file in all_beside(path) {
        if File::open(&file).is_ok_and(|open| open.try_lock().is_ok()) {
            let _ = fs::remove_file(file); // it only takes space
        }
    }
}

/// A file in the making, beside its old version until it is whole. Dropped before that, it leaves nothing. Its name cannot be
/// guessed, so nobody can have put a link there, and two who write the same file do not mix. A link at `path` itself is
/// followed; what is no plain file, such as a pipe or a device, is written to as it is.
pub struct WholeFile {
    path: PathBuf,
    /// None where it is written to as it is.
    beside: Option<TempPath>,
    file: BufWriter<File>,
}

impl WholeFile {
    pub fn create(path: &Path) -> Result<WholeFile> {
        let there = fs::metadata(path);
        if there.as_ref().is_ok_and(|there| !there.is_file() && !there.is_dir()) {
            let file = File::options().write(true).open(path).map_err(|e| Error::output(path, e))?;
            return Ok(WholeFile { path: path.to_path_buf(), beside: None, file: BufWriter::new(file) });
        }
        let path = if there.is_ok() { path.canonicalize().unwrap_or(path.to_path_buf()) } else { path.to_path_buf() };
        remove_stale(&path);
        let create = || -> io::Result<(File, TempPath)> {
            let (start, end) = beside(&path);
            let mut builder = tempfile::Builder::new();
            let (file, beside) = builder
                .prefix(&start)
                .suffix(end)
                .permissions(Permissions::from_mode(0o666)) // less the user's mask, as for any new file
                .tempfile_in(folder_of(&path))?
                .into_parts();
            if let Ok(there) = &there {
                file.set_permissions(there.permissions())?;
            }
            let _ = file.try_lock(); // without locks, what a killed process leaves is not removed
            Ok((file, beside))
        };
        let (file, beside) = create().map_err(|e| Error::output(&path, e))?;
        Ok(WholeFile { path, beside: Some(beside), file: BufWriter::new(file) })
    }

    /// Makes what was written the file's content.
    pub fn finish(mut self) -> Result<()> {
        let mut finish = || -> io::Result<()> {
            self.file.flush()?;
            let Some(beside) = self.beside.take() else { return Ok(()) };
            self.file.get_ref().sync_all()?;
            beside.persist(&self.path).map_err(|e| e.error)
        };
        finish().map_err(|e| Error::output(&self.path, e))
    }
}

impl Seek for WholeFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
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
    fn files_in_the_making_are_private_to_their_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write_whole(&path, b"old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        // What a process that was killed has left is removed; what another one is writing is not.
        fs::write(folder.path().join(".file.0123.sawmill-tmp"), "half").unwrap();
        fs::write(folder.path().join(".file.sawmill-tmp.txt"), "mine").unwrap();
        let mut slow = WholeFile::create(&path).unwrap();
        slow.write_all(b"slow").unwrap();
        assert_eq!(all_beside(&path).len(), 1);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&all_beside(&path)[0]), 0o640);
        write_whole(&path, b"quick").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"quick");
        slow.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"slow");
        assert_eq!((mode(&path), all_beside(&path).len()), (0o640, 0));
        assert_eq!(fs::read(folder.path().join(".file.sawmill-tmp.txt")).unwrap(), b"mine");
    }

    fn manifest() -> String {
        manifest::tests::example().to_json()
    }

    #[test]
    fn only_files_of_the_run_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("run");
        let run = RunFolder::create(&out).unwrap();
        run.write(MANIFEST, manifest().as_bytes()).unwrap();
        run.write("report/index.html", b"page").unwrap();
        fs::write(out.join("report/notes.txt"), "mine").unwrap();
        fs::create_dir_all(out.join("checkpoints/sweep-00000003")).unwrap();
        fs::write(out.join("checkpoints/sweep-00000003/shard-00000"), "part").unwrap();
        fs::write(out.join("checkpoints/thesis.tex"), "mine").unwrap();
        run.clear(|_| false).unwrap();
        assert!(out.join("report/notes.txt").exists() && out.join("checkpoints/thesis.tex").exists());
        assert!(!out.join("report/index.html").exists() && !out.join("checkpoints/sweep-00000003").exists());
        assert!(run.write("report/notes.txt", b"ours").unwrap_err().to_string().contains("did not write"));
    }

    #[test]
    fn a_folder_that_is_looked_at_can_be_taken_and_one_that_is_written_cannot() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("run");
        drop(RunFolder::create(&out).unwrap());
        let looking = File::open(out.join(LOCK)).unwrap();
        looking.lock_shared().unwrap();
        let looked = std::thread::spawn(move || {
            std::thread::sleep(LOCK_WITHIN / 5);
            drop(looking);
        });
        let _run = RunFolder::create(&out).unwrap();
        looked.join().unwrap();
        assert!(RunFolder::create(&out).err().unwrap().to_string().contains("another run is writing"));
    }

    #[test]
    fn folders_of_others_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        for (number, name) in ["manifest.json", "report/index.html", "checkpoints/latest", ".files"].iter().enumerate()
        {
            let out = folder.path().join(number.to_string());
            fs::create_dir_all(out.join(name).parent().unwrap()).unwrap();
            fs::write(out.join(name), r#"{"name":"x"}"#).unwrap();
            fs::write(out.join("thesis.tex"), "mine").unwrap();
            let error = RunFolder::create(&out).err().expect("it is not ours").to_string();
            assert!(error.contains("not a run folder"), "{error}");
        }
    }

    #[test]
    fn a_run_is_moved_aside_whole_and_removed_when_the_new_one_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("run");
        let start = |content: &[u8]| {
            let run = RunFolder::create(&out).unwrap();
            run.write(MANIFEST, manifest().as_bytes()).unwrap();
            run.write("model", content).unwrap();
        };
        start(b"old");
        move_aside(&out, true).unwrap();
        assert!(!out.exists());
        start(b"new");
        // Another new start does not harm what was moved aside.
        move_aside(&out, false).unwrap();
        assert_eq!(fs::read(previous(&out).join("model")).unwrap(), b"old");
        start(b"newer");
        remove_previous(&out).unwrap();
        assert!(!previous(&out).exists());
        // Neither is one that was moved back and then away by hand.
        start(b"old");
        move_aside(&out, true).unwrap();
        fs::rename(previous(&out), &out).unwrap();
        drop(RunFolder::create(&out).unwrap());
        fs::rename(&out, previous(&out)).unwrap();
        start(b"new");
        remove_previous(&out).unwrap();
        assert_eq!(fs::read(previous(&out).join("model")).unwrap(), b"old");
        fs::remove_dir_all(previous(&out)).unwrap();
        // A folder of that name which somebody else has made is neither removed nor a reason to lose the run.
        fs::create_dir(previous(&out)).unwrap();
        fs::write(previous(&out).join("thesis.tex"), "mine").unwrap();
        for is_done in [false, true] {
            assert!(move_aside(&out, is_done).unwrap_err().to_string().contains("in the way"));
        }
        assert_eq!(fs::read(out.join("model")).unwrap(), b"new");
        fs::write(out.join("thesis.tex"), "mine").unwrap();
        assert!(move_aside(&out, true).unwrap_err().to_string().contains("thesis.tex"));
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
