//! How a run folder stands to the job that is about to run in it: new, unfinished, or done.
//!
//! `sawmill run` brings a run folder to its finished state from whatever state it is in. That is safe only if it can be proved
//! that the folder is that of this very job. So the settings, the inputs (by content, see [`Inputs`]) and the build are
//! compared with what the folder records, and the run ends with the differences if there are any. What may differ: the folder's
//! own place, where input files lie as long as their content is the same, how often checkpoints are written, and the number
//! of sweeps of a chain, which may be raised.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use toml::{Table, Value};

use super::folder::{CHECKPOINTS, is_complete};
use super::manifest::{Manifest, State};
use crate::cluster::checkpoint;
use crate::corpus::inputs::{InputRecord, Inputs};
use crate::error::{Error, Result};

/// The job as it was resolved, in the run folder.
pub const JOB: &str = "job.toml";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// There is no run of any job.
    New,
    /// A run of this job that has not ended, or is to be lengthened.
    Unfinished,
    /// The finished run of this job.
    Done,
}

/// What a run is recognised by.
pub struct Identity<'a> {
    /// The resolved job file.
    pub job: &'a str,
    pub inputs: &'a Inputs,
    /// Hash of the settings that the result follows from, as in the manifest.
    pub settings: &'a str,
    pub build: &'a str,
    pub accepts_other_build: bool,
}

/// Settings with which the result is the same.
const HARMLESS: [&str; 2] = ["out", "checkpoint.every"];

/// Settings that name inputs, which are compared by content.
const INPUTS: [&str; 10] = [
    "corpus.train",
    "corpus.test",
    "corpus.dev",
    "corpus.heldout",
    "corpus.gold",
    "corpus.cut_at",
    "grammar.file",
    "raw.train",
    "raw.test",
    "treebanks",
];

/// Kinds of job whose `sampler.sweeps` may be raised.
const CHAINS: [&str; 4] = ["lm", "topics", "parser", "adaptor"];
const SWEEPS: &str = "sampler.sweeps";

impl Identity<'_> {
    /// The standing of the folder `out`, or an error that names what differs.
    pub fn standing(&self, out: &Path) -> Result<Standing> {
        let Ok(manifest) = Manifest::load(out) else { return Ok(Standing::New) };
        // Without a job file, the run was killed before it started; without checkpoints and results, there is nothing to lose.
        let has_work = manifest.state == State::Done || !checkpoint::files_below(&out.join(CHECKPOINTS)).is_empty();
        let old = match std::fs::read_to_string(out.join(JOB)) {
            Ok(old) if has_work => old,
            Err(_) if has_work => return Err(refuse(out, format!("holds a run whose {JOB} is missing"))),
            _ => return Ok(Standing::New),
        };
        let is_longer = self.compare_settings(out, &old, &manifest)?;
        self.compare_inputs(out, &manifest)?;
        self.compare_builds(out, &manifest)?;
        // What a run that followed changes has read, or one of standard input, is not known.
        let has_known_inputs = !self.inputs.has_streams && manifest.inputs.len() == self.inputs.records().len();
        let is_done = manifest.state == State::Done && !is_longer && has_known_inputs && is_complete(out);
        Ok(if is_done { Standing::Done } else { Standing::Unfinished })
    }

    /// The standing of the folder of a run that follows changes, and starts over with whatever its files hold now. Fails if the
    /// result of another job is there.
    pub fn standing_of_watched(&self, out: &Path) -> Result<Standing> {
        let Ok(manifest) = Manifest::load(out) else { return Ok(Standing::New) };
        let old = leaves(&std::fs::read_to_string(out.join(JOB)).unwrap_or_default());
        if manifest.state != State::Done || old.is_empty() {
            return Ok(Standing::Unfinished);
        }
        let new = leaves(self.job);
        let differences: String = differing(&old, &new)
            .filter(|key| !is_harmless(key))
            .map(|key| format!("\n  {key}: {} -> {}", shown(old.get(key)), shown(new.get(key))))
            .collect();
        match differences.is_empty() {
            true => Ok(Standing::Unfinished),
            false => Err(refuse(out, format!("holds a run with other settings:{differences}"))),
        }
    }

    /// Whether the job is the same with more sweeps. Fails if it is another one.
    fn compare_settings(&self, out: &Path, old: &str, manifest: &Manifest) -> Result<bool> {
        let (old, new) = (leaves(old), leaves(self.job));
        // Settings that name inputs may differ as long as each file has the part that it had: training, test, a treebank.
        let has_same_parts = manifest.settings == self.settings;
        let is_free = |key: &str| is_harmless(key) || (has_same_parts && names_inputs(key, &new));
        let (mut is_longer, mut differences) = (false, vec![]);
        for key in differing(&old, &new).filter(|key| !is_free(key)) {
            let [before, now] = [&old, &new].map(|settings| settings.get(key));
            match is_raised(key, before, now, &new) {
                true if has_same_parts => is_longer = true,
                true => differences.push(format!(
                    "\n  {key}: {} -> {}, which changes what the sweeps before it do",
                    shown(before),
                    shown(now)
                )),
                false => differences.push(format!("\n  {key}: {} -> {}", shown(before), shown(now))),
            }
        }
        if differences.is_empty() && has_same_parts {
            return Ok(is_longer);
        }
        if differences.is_empty() {
            self.compare_inputs(out, manifest)?;
            differences.push("\n  the names of files, which are names of documents here".to_string());
        }
        let differences = differences.concat();
        Err(refuse(out, format!("holds a run with other settings:{differences}")))
    }

    /// Fails if the inputs are not those that the manifest records. A run that was killed while it hashed its inputs, or that
    /// follows changes, records none.
    fn compare_inputs(&self, out: &Path, manifest: &Manifest) -> Result<()> {
        let (old, new) = (&manifest.inputs, self.inputs.records());
        if old.is_empty() || old.iter().map(|file| &file.blake3).eq(new.iter().map(|file| &file.blake3)) {
            return Ok(());
        }
        const SHOWN: usize = 5;
        let mut differences = changes(old, &new);
        let more = differences.len().saturating_sub(SHOWN);
        differences.truncate(SHOWN);
        let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
        Err(refuse(out, format!("holds a run with other inputs:{}{more}", differences.concat())))
    }

    fn compare_builds(&self, out: &Path, manifest: &Manifest) -> Result<()> {
        if manifest.build == self.build || self.accepts_other_build {
            return Ok(());
        }
        let short = |build: &str| build.chars().take(12).collect::<String>();
        let why = format!(
            "holds a run of another build of sawmill ({} {}; this is {} {}), which may count or draw differently; use that build, \
             go on all the same with --accept-other-build",
            manifest.sawmill,
            short(&manifest.build),
            env!("CARGO_PKG_VERSION"),
            short(self.build)
        );
        Err(refuse(out, why))
    }
}

fn refuse(out: &Path, why: String) -> Error {
    let separator = if why.contains('\n') { "\n" } else { ", " };
    Error::Usage(format!(
        "{} {why}{separator}choose another folder with --out, or start over with --fresh",
        out.display()
    ))
}

/// The keys with different values, in their order.
fn differing<'a>(
    old: &'a BTreeMap<String, Value>,
    new: &'a BTreeMap<String, Value>,
) -> impl Iterator<Item = &'a String> {
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    keys.into_iter().filter(|key| old.get(*key) != new.get(*key))
}

/// Whether the result is the same whatever a setting is.
fn is_harmless(key: &str) -> bool {
    HARMLESS.contains(&key)
}

/// Whether a setting names input files, which are compared by content.
fn names_inputs(key: &str, new: &BTreeMap<String, Value>) -> bool {
    let is_below = |parent: &str| key.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    // Not the settings of artificial treebanks, nor how a test set is held out.
    let names_files = |value: &Value| match value {
        Value::String(_) => true,
        Value::Array(list) => list.iter().all(|item| item.is_str()),
        _ => false,
    };
    let is_input = INPUTS.iter().any(|parent| is_below(parent)) && new.get(key).is_some_and(names_files);
    let last = key.rsplit('.').next().unwrap_or(key);
    is_input && !["by", "encoding"].contains(&last)
}

/// Whether a setting is a number of sweeps that has been raised.
fn is_raised(key: &str, old: Option<&Value>, new: Option<&Value>, job: &BTreeMap<String, Value>) -> bool {
    let is_chain = job.get("kind").and_then(Value::as_str).is_some_and(|kind| CHAINS.contains(&kind));
    let sweeps = |value: Option<&Value>| value.and_then(Value::as_integer);
    is_chain && key == SWEEPS && sweeps(old).zip(sweeps(new)).is_some_and(|(old, new)| old < new)
}

/// The settings of a job by key path.
fn leaves(job: &str) -> BTreeMap<String, Value> {
    fn add(table: &Table, path: &str, into: &mut BTreeMap<String, Value>) {
        for (key, value) in table {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            match value {
                Value::Table(inner) => add(inner, &path, into),
                value => drop(into.insert(path, value.clone())),
            }
        }
    }
    let mut found = BTreeMap::new();
    add(&job.parse().unwrap_or_default(), "", &mut found);
    found
}

fn shown(value: Option<&Value>) -> String {
    value.map_or("not set".to_string(), Value::to_string)
}

/// In what the inputs of a run differ from those of before, a line each. A file is matched by its path, and a file that was
/// moved by its content.
fn changes(old: &[InputRecord], new: &[InputRecord]) -> Vec<String> {
    let short =
        |file: &InputRecord| format!("{} bytes, BLAKE3 {}", file.bytes, &file.blake3[..file.blake3.len().min(12)]);
    let [old_paths, new_paths] =
        [old, new].map(|files| files.iter().map(|file| (&file.path, file)).collect::<BTreeMap<_, _>>());
    let [gone, come]: [Vec<&InputRecord>; 2] =
        [(&old_paths, &new_paths), (&new_paths, &old_paths)].map(|(these, those)| {
            these.iter().filter(|(path, _)| !those.contains_key(*path)).map(|(_, file)| *file).collect()
        });
    let is_among = |file: &InputRecord, files: &[&InputRecord]| files.iter().any(|other| other.blake3 == file.blake3);
    let mut lines = vec![];
    for (path, file) in &new_paths {
        if let Some(before) = old_paths.get(path).filter(|before| before.blake3 != file.blake3) {
            lines.push(format!("\n  {path}: {} -> {}", short(before), short(file)));
        }
    }
    let removed = gone.iter().filter(|file| !is_among(file, &come));
    lines.extend(removed.map(|file| format!("\n  {} ({}) is no longer read", file.path, short(file))));
    let added = come.iter().filter(|file| !is_among(file, &gone));
    lines.extend(added.map(|file| format!("\n  {} ({}) was not read before", file.path, short(file))));
    if lines.is_empty() {
        lines.push("\n  the same files, in another order".to_string());
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::job::manifest::MANIFEST;
    use crate::job::manifest::tests::example;

    const JOB_FILE: &str = "kind = 'lm'\nseed = 1\nout = 'a'\n[corpus]\ntrain = ['/x/a']\n[sampler]\nsweeps = 10\n";

    struct Folder {
        folder: tempfile::TempDir,
        input: PathBuf,
    }

    /// A finished run.
    fn finished() -> Folder {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("input");
        std::fs::write(&input, "text").unwrap();
        let manifest = Manifest { inputs: hash(&input).records(), ..example() };
        let run = folder.path().join("run");
        std::fs::create_dir_all(run.join("report")).unwrap();
        let ledger = "job.toml\nreport/index.html\nmodel\n";
        for (name, content) in [
            (MANIFEST, manifest.to_json().as_str()),
            (JOB, JOB_FILE),
            ("report/index.html", ""),
            ("model", ""),
            (".files", ledger),
        ] {
            std::fs::write(run.join(name), content).unwrap();
        }
        Folder { folder, input }
    }

    fn hash(path: &Path) -> Inputs {
        Inputs::hash(&[path.to_path_buf()], 1).unwrap()
    }

    impl Folder {
        fn standing(&self, job: &str, build: &str, accepts_other_build: bool) -> Result<Standing, String> {
            let inputs = hash(&self.input);
            let identity = Identity { job, inputs: &inputs, settings: "11", build, accepts_other_build };
            identity.standing(&self.folder.path().join("run")).map_err(|e| e.to_string())
        }
    }

    #[test]
    fn a_finished_run_of_the_same_job_is_done() {
        let run = finished();
        assert_eq!(run.standing(JOB_FILE, "00", false), Ok(Standing::Done));
        let elsewhere = JOB_FILE.replace("'a'", "'b'").replace("/x/a", "/y/b");
        assert_eq!(run.standing(&elsewhere, "00", false), Ok(Standing::Done), "what it reads is the same");
        assert_eq!(run.standing(&JOB_FILE.replace("10", "20"), "00", false), Ok(Standing::Unfinished));
        std::fs::remove_file(run.folder.path().join("run/model")).unwrap();
        assert_eq!(run.standing(JOB_FILE, "00", false), Ok(Standing::Unfinished));
        std::fs::remove_file(run.folder.path().join("run").join(JOB)).unwrap();
        assert!(run.standing(JOB_FILE, "00", false).unwrap_err().contains("job.toml is missing"));
    }

    #[test]
    fn files_with_other_parts_are_other_inputs() {
        let run = finished();
        let inputs = hash(&run.input);
        let other = JOB_FILE.replace("train = ['/x/a']", "train = []\ntest = ['/x/a']");
        let (job, out) = (other.as_str(), run.folder.path().join("run"));
        let identity = Identity { job, inputs: &inputs, settings: "12", build: "00", accepts_other_build: false };
        let message = identity.standing(&out).unwrap_err().to_string();
        assert!(message.contains("corpus.train") && message.contains("corpus.test"), "{message}");
    }

    #[test]
    fn a_run_that_failed_before_its_first_checkpoint_is_no_obstacle() {
        let run = finished();
        let out = run.folder.path().join("run");
        let manifest = Manifest { state: State::Failed, ..example() };
        std::fs::write(out.join(MANIFEST), manifest.to_json()).unwrap();
        let other = JOB_FILE.replace("seed = 1", "seed = 2");
        assert_eq!(run.standing(&other, "00", false), Ok(Standing::New));
        std::fs::create_dir(out.join(CHECKPOINTS)).unwrap();
        std::fs::write(out.join(CHECKPOINTS).join("latest.json"), "{}").unwrap();
        assert!(run.standing(&other, "00", false).is_err());
    }

    #[test]
    fn every_difference_is_named() {
        let run = finished();
        let other = JOB_FILE.replace("seed = 1", "seed = 2\nshards = 4").replace("10", "5");
        let message = run.standing(&other, "00", false).unwrap_err();
        for difference in ["seed: 1 -> 2", "shards: not set -> 4", "sampler.sweeps: 10 -> 5", "--fresh"] {
            assert!(message.contains(difference), "{message}");
        }
        assert!(run.standing(JOB_FILE, "01", false).unwrap_err().contains("--accept-other-build"));
        assert_eq!(run.standing(JOB_FILE, "01", true), Ok(Standing::Done));
        let time = std::fs::metadata(&run.input).unwrap().modified().unwrap();
        std::fs::write(&run.input, "t3xt").unwrap();
        std::fs::File::options().append(true).open(&run.input).unwrap().set_modified(time).unwrap();
        let message = run.standing(JOB_FILE, "00", false).unwrap_err();
        assert!(message.contains("other inputs") && message.contains("4 bytes, BLAKE3"), "{message}");
    }

    #[test]
    fn a_run_whose_ledger_is_gone_is_not_done() {
        let run = finished();
        std::fs::remove_file(run.folder.path().join("run/.files")).unwrap();
        assert_eq!(run.standing(JOB_FILE, "00", false), Ok(Standing::Unfinished));
    }

    #[test]
    fn inputs_are_compared_by_path_and_then_by_content() {
        let record = |(path, content): &(&str, &str)| InputRecord {
            path: path.to_string(),
            bytes: content.len() as u64,
            blake3: content.to_string(),
        };
        let lines = |old: &[(&str, &str)], new: &[(&str, &str)]| {
            let [old, new] = [old, new].map(|files| files.iter().map(record).collect::<Vec<_>>());
            changes(&old, &new).concat().trim().to_string()
        };
        let old = [("a", "1"), ("b", "2"), ("c", "3")];
        assert_eq!(lines(&old, &[("a", "1"), ("c", "3")]), "b (1 bytes, BLAKE3 2) is no longer read");
        assert_eq!(
            lines(&old, &[("0", "0"), ("a", "1"), ("b", "2"), ("c", "3")]),
            "0 (1 bytes, BLAKE3 0) was not read before"
        );
        assert_eq!(lines(&old, &[("a", "1"), ("b", "20"), ("d", "3")]), "b: 1 bytes, BLAKE3 2 -> 2 bytes, BLAKE3 20");
        assert!(lines(&old, &[("b", "2"), ("a", "1"), ("c", "3")]).contains("another order"));
    }
}
