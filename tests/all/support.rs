//! Running sawmill as a user does, and reading what it left.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::{Deref, DerefMut, Range};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rand::RngExt;
use sawmill::cluster::rng::{Purpose, generator};
use serde_json::Value;

/// The program under test.
pub fn sawmill() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sawmill"));
    command.stdin(Stdio::null()).env_remove("SAWMILL_SECRET");
    command
}

/// Runs `command` and returns its exit code, stdout and stderr.
pub fn run(command: &mut Command) -> (i32, String, String) {
    finish(command.output().expect("sawmill starts"))
}

pub fn finish(output: Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// A process that does not outlive its test, however that ends: one that waits for something would hold what it has.
pub struct Running(Option<Child>);

impl Running {
    pub fn spawn(command: &mut Command) -> Running {
        Running(Some(command.spawn().expect("it starts")))
    }

    /// Waits for its end; returns its exit code and stderr.
    pub fn end(mut self) -> (i32, String) {
        let child = self.0.take().expect("it has not been waited for");
        let (code, _, stderr) = finish(child.wait_with_output().expect("it ends"));
        (code, stderr)
    }
}

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().expect("it has not been waited for")
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().expect("it has not been waited for")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill(); // it may be gone already
            let _ = child.wait();
        }
    }
}

/// What the processes of a job share, where a test does not say otherwise.
pub const SECRET: &str = "known to the tests only";

/// Starts a run of a job.
pub fn start(job: &Path, out: &Path, more: &[&str]) -> Running {
    start_with_secret(job, out, SECRET, more)
}

/// Starts a run of a job with another secret than the other processes have, or with none.
pub fn start_with_secret(job: &Path, out: &Path, secret: &str, more: &[&str]) -> Running {
    let mut command = sawmill();
    command.env("SAWMILL_SECRET", secret);
    command.arg("run").arg(job).arg("--out").arg(out).args(["--progress", "none"]).args(more);
    Running::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
}

/// Runs a job that is killed up to `most` times, each time after some milliseconds drawn from `pauses`, and resumed with another
/// number of workers, until it is done. Returns how often it was killed.
pub fn run_killed(job: &Path, out: &Path, more: &[&str], most: u64, pauses: Range<u64>) -> u64 {
    let mut rng = generator(9, Purpose::Synth, 0, 0);
    let mut kills = 0;
    let mut child = start(job, out, &[more, &["--workers", "1"]].concat());
    while kills < most {
        std::thread::sleep(Duration::from_millis(rng.random_range(pauses.clone())));
        if child.try_wait().expect("it can be asked").is_some() {
            break;
        }
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
        kills += 1;
        let workers = (1 + kills % 3).to_string();
        child = start(job, out, &[more, &["--resume", "--workers", &workers]].concat());
    }
    let (code, stderr) = child.end();
    assert_eq!(code, 0, "{stderr}");
    kills
}

/// The file `summary.json` of a run.
pub fn summary(out: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(out.join("report/summary.json")).expect("a summary")).expect("JSON")
}

/// A figure of it.
pub fn figure(out: &Path, key: &str) -> f64 {
    summary(out)[key].as_f64().unwrap_or_else(|| panic!("{key} in {}", summary(out)))
}

/// A folder for one test, removed at its end.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Writes a file below `folder` and returns its path.
pub fn write(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, content).expect("a file in a temporary folder");
    path
}

/// All files below `folder`, by relative name.
pub fn files_below(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("below").display().to_string();
                files.insert(name, std::fs::read(&path).expect("a file"));
            }
        }
    }
    files
}

/// Says which files differ, and where, and fails; passes where none does.
pub fn assert_same_files(left: &BTreeMap<String, Vec<u8>>, right: &BTreeMap<String, Vec<u8>>, what: &str) {
    assert!(!left.is_empty(), "{what}: there is nothing to compare");
    assert_eq!(left.keys().collect::<Vec<_>>(), right.keys().collect::<Vec<_>>(), "{what}: other files");
    for (name, content) in left {
        let other = &right[name];
        if content != other {
            let (a, b) = (String::from_utf8_lossy(content), String::from_utf8_lossy(other));
            let line = a.lines().zip(b.lines()).find(|(a, b)| a != b);
            panic!("{what}: {name} differs, first at {line:?}");
        }
    }
}

/// Says that the test is skipped, and why; to be called once, by a test that then ends: `.ci/run` counts these lines. Not by `eprintln`, which the harness keeps to itself where a test passes.
pub fn skipped(reason: &str) {
    writeln!(std::io::stderr(), "skipped: {reason}").expect("stderr is open");
}

/// The folder of real data, or none, said on stderr.
pub fn real_data(test: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("SAWMILL_DATA").map(PathBuf::from).filter(|path| path.join("treebanks").is_dir());
    if folder.is_none() {
        skipped(&format!("{test} needs SAWMILL_DATA, a folder with treebanks/"));
    }
    folder
}

/// Waits until `condition` holds; fails after five minutes, which is long for a busy machine too.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(300);
    while !condition() {
        assert!(Instant::now() < deadline, "gave up waiting: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// `n` addresses on loopback that nobody listens on.
pub fn free_addresses(n: usize) -> Vec<String> {
    let listeners: Vec<_> = (0..n).map(|_| std::net::TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    listeners.iter().map(|l| l.local_addr().expect("an address").to_string()).collect()
}

/// A sentence as CoNLL-U, with these heads.
pub fn conllu(id: &str, heads: &[u32]) -> String {
    let mut text = format!("# sent_id = {id}\n");
    for (word, head) in (1..).zip(heads) {
        text += &format!("{word}\tw{word}\t_\tX\t_\t_\t{head}\tdep\t_\t_\n");
    }
    text + "\n"
}
