//! What `sawmill run` does in each state of a run folder, and whose files it touches.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use sawmill::cluster::checkpoint;
use serde_json::Value;

use crate::support::{Running, conllu, folder, run, sawmill, start, summary, wait_until, write};
use crate::{adaptor_job, fault_campaign, lm_job, ngram_job, parser_job, topics_job};

const SAMPLER: &str = "[sampler]\nsweeps = 60\nsync_every = 2\n";

/// A job of a kind in `folder`, with 60 sweeps, and a checkpoint every few.
pub fn job(kind: &str, folder: &Path) -> PathBuf {
    let checkpoint = "[checkpoint]\nevery = 4\n";
    let evaluation = "[evaluation]\nevery = 8\nparticles = 1\n";
    match kind {
        "lda" => {
            write(folder, "corpus.txt", topics_job::corpus(150, 120));
            topics_job::job(folder, &format!("[model]\ntopics = 8\n{SAMPLER}{evaluation}{checkpoint}"))
        }
        "switching" => {
            write(folder, "corpus.txt", ngram_job::corpus(150, 20));
            let evaluation = evaluation.replace("particles", "burn_in = 16\nparticles");
            ngram_job::job(folder, ngram_job::SWITCHING, &format!("{SAMPLER}{evaluation}{checkpoint}"))
        }
        "lm" => {
            lm_job::job(folder, &format!("[model]\norder = 4\n{SAMPLER}burn_in = 16\nsample_every = 8\n{checkpoint}"))
        }
        "parser" => parser_job::job(folder, &format!("[model]\nparticles = 20\n{SAMPLER}{checkpoint}")),
        "adaptor" => {
            let evaluation = "[evaluation]\nevery = 8\nburn_in = 16\nsample_every = 8\n";
            adaptor_job::job(folder, adaptor_job::COLLOCATION, &format!("{SAMPLER}{evaluation}{checkpoint}"))
        }
        kind => panic!("{kind}"),
    }
}

pub fn results(kind: &str, out: &Path) -> Vec<Vec<u8>> {
    match kind {
        "lda" => [vec![topics_job::model(out)], topics_job::results(out)].concat(),
        "switching" => vec![format!("{:?}", ngram_job::result(out)).into_bytes()],
        "lm" => lm_job::results(out),
        "parser" => parser_job::results(out),
        _ => adaptor_job::results(out),
    }
}

const KINDS: [&str; 5] = ["lda", "switching", "lm", "parser", "adaptor"];

/// The file of a job whose change past its first 64 KiB nobody notices who reads only these.
fn input(kind: &str) -> &'static str {
    match kind {
        "lda" | "switching" => "corpus.txt",
        "lm" => "train.txt",
        "parser" => "train.conllu",
        _ => "text",
    }
}

/// Starts a job and kills it after its first checkpoint.
fn interrupted(job: &Path, out: &Path) {
    let mut child = start(job, out, &["--workers", "1", "--set", "sampler.sweeps=100000"]);
    wait_until("a checkpoint", || out.join("checkpoints/latest.json").exists());
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
}

fn manifest(out: &Path) -> String {
    std::fs::read_to_string(out.join("manifest.json")).unwrap_or_default()
}

/// Whether the run of a process has taken the folder.
fn is_written_by(out: &Path, process: u32) -> bool {
    manifest(out).contains(&format!("\"process_id\": {process},"))
}

fn succeeds((code, stderr): (i32, String)) -> String {
    assert_eq!(code, 0, "{stderr}");
    stderr
}

#[test]
fn repeated_runs_continue_and_finished_ones_are_left_alone() {
    let folder = folder();
    let job = job("lda", folder.path());
    let (whole, out) = (folder.path().join("whole"), folder.path().join("out"));
    succeeds(start(&job, &whole, &[]).end());
    let slow = ["--workers", "1", "--set", "checkpoint.every=1"];
    let mut child = start(&job, &out, &slow);
    wait_until("a checkpoint", || out.join("checkpoints/latest.json").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let stderr = succeeds(start(&job, &out, &["--workers", "2"]).end());
    assert!(stderr.contains("going on after sweep"), "{stderr}");
    assert!(results("lda", &whole) == results("lda", &out));
    let before = std::fs::read(out.join("manifest.json")).unwrap();
    let stderr = succeeds(start(&job, &out, &[]).end());
    assert!(stderr.contains("done already"), "{stderr}");
    assert_eq!(std::fs::read(out.join("manifest.json")).unwrap(), before);
    // A report that somebody has removed is made again.
    std::fs::remove_file(out.join("report/topics.tsv")).unwrap();
    succeeds(start(&job, &out, &[]).end());
    assert!(results("lda", &whole) == results("lda", &out));
}

/// The chain may have ended between two evaluations, which a longer one does not know of.
#[test]
fn a_longer_chain_is_as_if_it_had_been_that_long_from_the_start() {
    for kind in KINDS {
        let folder = folder();
        let job = job(kind, folder.path());
        let (whole, out) = (folder.path().join("whole"), folder.path().join("out"));
        succeeds(start(&job, &whole, &["--workers", "2"]).end());
        // 22 is on the way of the longer chain; 27 is not, since it synchronises every second sweep: it goes on after 24.
        for (sweeps, after) in [("22", None), ("27", Some(22)), ("60", Some(24))] {
            let setting = format!("sampler.sweeps={sweeps}");
            let stderr = succeeds(start(&job, &out, &["--set", &setting]).end());
            let expected = after.map_or(String::new(), |after| format!("going on after sweep {after}\n"));
            assert!(stderr.contains(&expected), "{kind}, {sweeps}: {stderr}");
        }
        assert!(results(kind, &whole) == results(kind, &out), "{kind}");
        let (code, stderr) = start(&job, &out, &["--set", "sampler.sweeps=40"]).end();
        assert!(code == 2 && stderr.contains("sampler.sweeps: 60 -> 40"), "{kind}, {code}: {stderr}");
    }
}

#[test]
fn an_input_that_changed_anywhere_is_refused_and_a_touched_one_is_not() {
    for kind in KINDS {
        let folder = folder();
        let job = job(kind, folder.path());
        let path = folder.path().join(input(kind));
        // Longer than what used to be looked at.
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.repeat((1 << 17) / text.len() + 1);
        write(folder.path(), input(kind), &text);
        let out = folder.path().join("out");
        interrupted(&job, &out);
        let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
        let at = text.char_indices().rfind(|(_, c)| c.is_ascii_lowercase()).unwrap().0;
        assert!(at > 1 << 16, "{kind}");
        let other = if &text[at..=at] == "a" { "b" } else { "a" };
        write(folder.path(), input(kind), format!("{}{other}{}", &text[..at], &text[at + 1..]));
        File::options().append(true).open(&path).unwrap().set_modified(modified).unwrap();
        let (code, stderr) = start(&job, &out, &["--set", "sampler.sweeps=100000"]).end();
        assert!(code == 2 && stderr.contains("other inputs") && stderr.contains(input(kind)), "{kind}: {stderr}");
        write(folder.path(), input(kind), &text);
        let mut child = start(&job, &out, &["--set", "sampler.sweeps=100000"]);
        wait_until("it runs", || is_written_by(&out, child.id()));
        assert!(child.try_wait().unwrap().is_none(), "{kind}: it was only touched");
        // The manifest has the inputs from the start.
        let hash = blake3::hash(text.as_bytes()).to_hex();
        assert!(manifest(&out).contains(hash.as_str()), "{kind}: {}", manifest(&out));
    }
}

#[test]
fn another_build_continues_only_if_it_is_told_to() {
    for kind in KINDS {
        let folder = folder();
        let job = job(kind, folder.path());
        continues_another_build_if_it_is_told_to(folder.path(), &job, &["--set", "sampler.sweeps=100000"]);
    }
    for (kind, longer) in [("induction", "estimation.runs=10000"), ("semisupervised", "raw.gibbs_sweeps=100000")] {
        let folder = folder();
        let job = fault_campaign::job(kind, folder.path());
        let more = ["--set", longer, "--set", "checkpoint.every=1"];
        continues_another_build_if_it_is_told_to(folder.path(), &job, &more);
    }
}

/// The manifests of checkpoints, those of stages included.
fn checkpoints(out: &Path) -> Vec<PathBuf> {
    let files = checkpoint::files_below(&out.join("checkpoints"));
    files.into_iter().filter(|path| path.ends_with("latest.json") || path.ends_with("previous.json")).collect()
}

fn continues_another_build_if_it_is_told_to(folder: &Path, job: &Path, more: &[&str]) {
    let out = folder.join("out");
    let more = [more, &["--workers", "1"]].concat();
    let mut child = start(job, &out, &more);
    wait_until("a checkpoint", || !checkpoints(&out).is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    let text = manifest(&out);
    let at = text.find("\"build\": \"").unwrap() + 10;
    let other = format!("{}{}{}", &text[..at], "0".repeat(64), &text[at + 64..]);
    std::fs::write(out.join("manifest.json"), other).unwrap();
    let load = |path: &PathBuf| serde_json::from_slice::<checkpoint::Manifest>(&std::fs::read(path).ok()?).ok();
    for path in checkpoints(&out) {
        let mut manifest = load(&path).unwrap();
        manifest.build = "0".repeat(64);
        manifest.xxh3 = manifest.checksum();
        std::fs::write(path, serde_json::to_vec(&manifest).unwrap()).unwrap();
    }
    let (code, stderr) = start(job, &out, &more).end();
    assert!(code == 2 && stderr.contains("another build") && stderr.contains("--accept-other-build"), "{stderr}");
    // Told by the checkpoints alone, too.
    std::fs::write(out.join("manifest.json"), text).unwrap();
    let (code, stderr) = start(job, &out, &more).end();
    assert!(code == 2 && stderr.contains("another build") && stderr.contains("--accept-other-build"), "{stderr}");
    let mut child = start(job, &out, &[&more[..], &["--accept-other-build"]].concat());
    wait_until("a checkpoint of this build", || {
        assert!(child.try_wait().unwrap().is_none(), "{:?} ended", job);
        checkpoints(&out).iter().filter_map(load).any(|manifest| manifest.build != "0".repeat(64))
    });
}

#[test]
fn a_fresh_start_keeps_the_old_run_until_the_new_one_is_finished() {
    let folder = folder();
    let job = job("lm", folder.path());
    let (out, previous) = (folder.path().join("out"), folder.path().join("out.previous"));
    succeeds(start(&job, &out, &[]).end());
    let old = results("lm", &out);
    let other = ["--set", "seed=9", "--set", "sampler.sweeps=100000"];
    let fresh = [&other[..], &["--fresh"]].concat();
    for _ in 0..2 {
        let mut child = start(&job, &out, &fresh);
        wait_until("a checkpoint of its own", || {
            is_written_by(&out, child.id()) && out.join("checkpoints/latest.json").exists()
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(results("lm", &previous) == old, "it is all there");
    }
    // To go on with the new one needs no flag; the old one is gone when it is finished.
    let (code, stderr) = start(&job, &out, &["--set", "seed=9"]).end();
    assert!(code == 2 && stderr.contains("sampler.sweeps"), "{stderr}");
    let stderr = succeeds(start(&job, &out, &["--set", "seed=9", "--fresh"]).end());
    assert!(stderr.contains("out.previous until this one is finished"), "{stderr}");
    assert!(!previous.exists());
    assert!(results("lm", &out) != old);
}

#[test]
fn files_of_others_stay() {
    let folder = folder();
    let job = job("lm", folder.path());
    let untouched = |name: &str, files: &[(&str, &str)]| {
        let out = folder.path().join(name);
        for (file, content) in files {
            std::fs::create_dir_all(out.join(file).parent().unwrap()).unwrap();
            std::fs::write(out.join(file), content).unwrap();
        }
        for more in [&[][..], &["--resume"], &["--fresh"]] {
            let (code, stderr) = start(&job, &out, more).end();
            assert_eq!(code, 2, "{name}: {stderr}");
        }
        for (file, content) in files {
            assert_eq!(std::fs::read_to_string(out.join(file)).unwrap(), *content, "{name}");
        }
    };
    untouched("web", &[("manifest.json", r#"{"name":"x"}"#), ("thesis.tex", "t")]);
    untouched("training", &[("checkpoints/model.pt", "weights")]);
    untouched("latest", &[("checkpoints/latest.json", "{}")]);
    untouched("paper", &[("report/index.html", "mine")]);
    // What somebody puts into a run folder stays there, too, whatever becomes of the run.
    let out = folder.path().join("out");
    succeeds(start(&job, &out, &[]).end());
    for name in ["notes.txt", "report/notes.txt", "checkpoints/notes.txt"] {
        std::fs::write(out.join(name), "mine").unwrap();
    }
    succeeds(start(&job, &out, &["--set", "sampler.sweeps=70"]).end());
    let (code, stderr) = start(&job, &out, &["--fresh"]).end();
    assert!(code == 2 && stderr.contains("notes.txt"), "{stderr}");
    for name in ["notes.txt", "report/notes.txt", "checkpoints/notes.txt"] {
        assert_eq!(std::fs::read_to_string(out.join(name)).unwrap(), "mine", "{name}");
    }
}

/// Sends a signal and returns how long the process took to end, and how it ended.
fn stopped(child: Running, signal: &str) -> (Duration, (i32, String)) {
    let sent = Instant::now();
    run(std::process::Command::new("kill").args([signal, &child.id().to_string()]));
    let end = child.end();
    (sent.elapsed(), end)
}

#[test]
fn asked_to_stop_in_a_long_sweep_it_ends_in_time_with_the_checkpoint_before() {
    let folder = folder();
    let text = "a b c d e f g h\n".repeat(400);
    write(folder.path(), "train.txt", text);
    // A round of a million sweeps would take minutes.
    let job = "kind = 'lm'\nout = 'out'\n[corpus]\ntrain = ['train.txt']\n[sampler]\nsweeps = 2000000\nsync_every = 1000000\nsample_every = 1000000\nburn_in = 0\n";
    let job = write(folder.path(), "job.toml", job);
    let out = folder.path().join("out");
    let child = start(&job, &out, &["--workers", "1", "--stop-within", "1"]);
    wait_until("it runs", || out.join("job.toml").exists());
    std::thread::sleep(Duration::from_millis(1500));
    let (seconds, (code, stderr)) = stopped(child, "-TERM");
    assert_eq!(code, 75, "{stderr}");
    assert!(stderr.contains("in the middle of a sweep") || stderr.contains("while reading"), "{stderr}");
    assert!(seconds < Duration::from_secs(20), "{seconds:?}");
    let (_, status, _) = run(sawmill().arg("status").arg(&out));
    assert!(status.contains("stopped"), "{status}");
}

#[test]
fn asked_to_stop_while_it_reads_it_ends_at_once() {
    let folder = folder();
    write(folder.path(), "train.txt", "a b c d e f g h\n".repeat(4_000_000));
    let job = write(folder.path(), "job.toml", "kind = 'lm'\nout = 'out'\n[corpus]\ntrain = ['train.txt']\n");
    let out = folder.path().join("out");
    let child = start(&job, &out, &["--workers", "1"]);
    wait_until("it reads", || out.join("job.toml").exists());
    std::thread::sleep(Duration::from_millis(300));
    let (seconds, (code, stderr)) = stopped(child, "-TERM");
    assert!(code == 75 && stderr.contains("while reading"), "{code}: {stderr}");
    assert!(seconds < Duration::from_secs(5), "{seconds:?}");
}

/// What was trained is evaluated by the first process alone, for as long as that takes.
#[test]
fn asked_to_stop_while_it_evaluates_it_ends_in_time_and_goes_on_there() {
    let folder = folder();
    let settings = "[model]\nparticles = 1000\n[sampler]\nsweeps = 2\n";
    let job = parser_job::job(folder.path(), settings);
    // Words in any order have many derivations, which takes minutes.
    let train = parser_job::treebank(2, 40);
    let words: Vec<Vec<&str>> = train.lines().map(|line| line.split('\t').collect()).collect();
    let words: Vec<&Vec<&str>> = words.iter().filter(|columns| columns.len() > 7).collect();
    let row = |sentence: usize, number: usize| {
        let word = words[(sentence * 17 + number * number * 31) % words.len()];
        format!("{number}\t{}\t_\t{}\t{}\t_\t{}\t{}\t_\t_\n", word[1], word[3], word[4], number - 1, word[7])
    };
    let sentence = |sentence| (1..=80).map(|number| row(sentence, number)).collect::<String>() + "\n";
    write(folder.path(), "test.conllu", (0..4000).map(sentence).collect::<String>());
    let out = folder.path().join("out");
    let child = start(&job, &out, &["--workers", "1", "--stop-within", "1"]);
    wait_until("a model", || out.join("model").exists());
    let (seconds, (code, stderr)) = stopped(child, "-TERM");
    assert!(code == 75 && stderr.contains("stopped before the report"), "{code}: {stderr}");
    assert!(seconds < Duration::from_secs(10), "{seconds:?}");
    let (_, status, _) = run(sawmill().arg("status").arg(&out));
    assert!(status.contains("stopped"), "{status}");
    std::fs::remove_file(out.join("model")).unwrap();
    let child = start(&job, &out, &["--workers", "1", "--stop-within", "1"]);
    wait_until("a model", || out.join("model").exists());
    let (_, (code, stderr)) = stopped(child, "-INT");
    assert!(code == 75 && stderr.contains("going on after sweep 2"), "{code}: {stderr}");
    assert!(!out.join("report/index.html").exists());
}

/// A sparse file takes no place on the disk, but all its bytes are hashed.
#[test]
fn asked_to_stop_while_it_hashes_its_inputs_it_ends_at_once() {
    let folder = folder();
    File::create(folder.path().join("train.txt")).unwrap().set_len(1 << 38).unwrap();
    let job = write(folder.path(), "job.toml", "kind = 'lm'\nout = 'out'\n[corpus]\ntrain = ['train.txt']\n");
    let child = start(&job, &folder.path().join("out"), &["--workers", "1"]);
    std::thread::sleep(Duration::from_millis(500));
    let (seconds, (code, stderr)) = stopped(child, "-TERM");
    assert!(code == 75 && stderr.contains("while reading"), "{code}: {stderr}");
    assert!(seconds < Duration::from_secs(5), "{seconds:?}");
}

#[test]
fn an_oracle_job_that_is_asked_to_stop_says_so_and_starts_over() {
    let folder = folder();
    let job =
        "kind = 'oracle'\nout = 'out'\n[oracle]\nreorder = 9\n[treebanks]\nx = { synth = { sentences = 400_000 } }\n";
    let job = write(folder.path(), "job.toml", job);
    let out = folder.path().join("out");
    let child = start(&job, &out, &["--workers", "1"]);
    wait_until("it counts", || out.join("job.toml").exists());
    let (seconds, (code, stderr)) = stopped(child, "-TERM");
    assert!(code == 75 && seconds < Duration::from_secs(5), "{code} after {seconds:?}: {stderr}");
    let (_, status, _) = run(sawmill().arg("status").arg(&out));
    assert!(status.contains("stopped"), "{status}");
    let small = ["--set", "treebanks.x.synth.sentences=200"];
    succeeds(start(&job, &out, &small).end());
    assert!(succeeds(start(&job, &out, &small).end()).contains("done already"));
}

/// A scheduler's signal and one interrupt are two requests to stop, not an order to end at once.
#[test]
fn only_a_second_interrupt_ends_at_once() {
    let folder = folder();
    write(folder.path(), "train.txt", "a b c d e f g h\n".repeat(400));
    let job = "kind = 'lm'\nout = 'out'\n[corpus]\ntrain = ['train.txt']\n[sampler]\nsweeps = 2000000\nsync_every = 1000000\nsample_every = 1000000\nburn_in = 0\n";
    let job = write(folder.path(), "job.toml", job);
    let out = folder.path().join("out");
    let mut child = start(&job, &out, &["--workers", "1", "--stop-within", "600"]);
    wait_until("it runs", || out.join("job.toml").exists());
    std::thread::sleep(Duration::from_millis(1500));
    for signal in ["-TERM", "-INT"] {
        run(std::process::Command::new("kill").args([signal, &child.id().to_string()]));
        std::thread::sleep(Duration::from_millis(500));
        assert!(child.try_wait().unwrap().is_none(), "it finishes its sweeps after {signal}");
    }
    let (seconds, (code, _)) = stopped(child, "-INT");
    assert!(code == 75 && seconds < Duration::from_secs(5), "{code} after {seconds:?}");
}

/// What standard input held is gone, and so is what a run that followed changes has read in the meantime.
#[test]
fn what_nobody_can_compare_is_never_done_already() {
    let folder = folder();
    let job = write(folder.path(), "piped.toml", "kind = 'oracle'\nout = 'out'\n[treebanks]\nx = '-'\n");
    for heads in [[0, 1, 2], [2, 0, 2]] {
        let mut command = sawmill();
        command.arg("run").arg(&job).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Running::spawn(&mut command);
        child.stdin.take().unwrap().write_all(conllu("s", &heads).as_bytes()).unwrap();
        assert!(!succeeds(child.end()).contains("done already"));
    }
    let job = "kind = 'oracle'\nout = 'watched'\n[treebanks]\nx = 'x.conllu'\n";
    let job = write(folder.path(), "oracle.toml", job);
    write(folder.path(), "x.conllu", conllu("s", &[0, 1]));
    let out = folder.path().join("watched");
    let child = start(&job, &out, &["--watch"]);
    wait_until("a report", || out.join("report/summary.json").exists());
    let (_, (code, stderr)) = stopped(child, "-TERM");
    assert_eq!(code, 0, "{stderr}");
    assert!(!succeeds(start(&job, &out, &[]).end()).contains("done already"));
    assert!(succeeds(start(&job, &out, &[]).end()).contains("done already"));
    // Nor does following changes make another job of a finished one.
    let (code, stderr) = start(&job, &out, &["--watch", "--set", "oracle.reorder=2"]).end();
    assert!(code == 2 && stderr.contains("oracle.reorder: 1 -> 2"), "{code} {stderr}");
    assert!(succeeds(start(&job, &out, &[]).end()).contains("done already"));
}

#[test]
fn names_of_files_count_where_they_are_names_of_documents() {
    let folder = folder();
    for name in ["a", "b", "c"] {
        write(folder.path(), name, format!("the {name} of it\n").repeat(40));
    }
    let job = "kind = 'topics'\nout = 'out'\n[corpus]\ntrain = ['?']\n[model]\ntopics = 2\n[sampler]\nsweeps = 4\n";
    let job = write(folder.path(), "job.toml", job);
    let rename = |from: &str, to: &str| std::fs::rename(folder.path().join(from), folder.path().join(to)).unwrap();
    for format in ["lines", "files"] {
        let out = folder.path().join(format!("out-{format}"));
        let format = format!("corpus.format='{format}'");
        let start = || start(&job, &out, &["--set", &format]).end();
        succeeds(start());
        rename("c", "d");
        let (code, stderr) = start();
        match format.contains("lines") {
            true => assert!(code == 0 && stderr.contains("done already"), "{stderr}"),
            false => assert!(code == 2 && stderr.contains("names of documents"), "{code} {stderr}"),
        }
        rename("d", "c");
        assert!(succeeds(start()).contains("done already"));
    }
}

#[cfg(unix)]
#[test]
fn a_link_to_nowhere_and_a_damaged_manifest_are_named() {
    let folder = folder();
    let job = job("lm", folder.path());
    let (link, out) = (folder.path().join("link"), folder.path().join("out"));
    std::os::unix::fs::symlink(folder.path().join("nowhere"), &link).unwrap();
    let (code, stderr) = start(&job, &link, &[]).end();
    assert!(code == 2 && stderr.contains("a link to a folder that is not there"), "{stderr}");
    succeeds(start(&job, &out, &[]).end());
    let whole = std::fs::read(out.join("manifest.json")).unwrap();
    std::fs::write(out.join("manifest.json"), &whole[..whole.len() / 2]).unwrap();
    for more in [&[][..], &["--fresh"]] {
        let (code, stderr) = start(&job, &out, more).end();
        assert!(code == 2 && stderr.contains("manifest.json is not a manifest of sawmill, or damaged"), "{stderr}");
    }
    std::fs::write(out.join("manifest.json"), whole).unwrap();
    assert!(succeeds(start(&job, &out, &[]).end()).contains("done already"));
}

#[test]
fn summaries_of_disturbed_runs_are_those_of_undisturbed_ones() {
    for kind in KINDS {
        let folder = folder();
        let job = job(kind, folder.path());
        let (whole, out) = (folder.path().join("whole"), folder.path().join("out"));
        succeeds(start(&job, &whole, &["--workers", "1"]).end());
        let mut child = start(&job, &out, &["--workers", "1", "--set", "checkpoint.every=1"]);
        wait_until("a checkpoint", || {
            out.join("checkpoints/latest.json").exists() || child.try_wait().is_ok_and(|end| end.is_some())
        });
        child.kill().unwrap();
        child.wait().unwrap();
        succeeds(start(&job, &out, &["--workers", "2"]).end());
        let [whole, out] = [&whole, &out].map(|out| {
            let mut summary = summary(out);
            forget_costs(&mut summary);
            summary
        });
        assert_eq!(whole, out, "{kind}");
    }
}

/// Removes what is about time, memory, workers and bytes sent, and may differ.
pub fn forget_costs(summary: &mut Value) {
    let costs = ["second", "memory", "bytes", "workers", "mib", "share", "sync"];
    let Some(figures) = summary.as_object_mut() else { return };
    figures.retain(|key, _| !costs.iter().any(|part| key.contains(part)));
    figures.values_mut().for_each(forget_costs);
}

#[test]
fn files_with_another_part_are_another_job() {
    let folder = folder();
    for name in ["a", "b", "c"] {
        write(folder.path(), name, format!("the {name} of it\n").repeat(40));
    }
    let job =
        write(folder.path(), "job.toml", "kind = 'lm'\nout = 'out'\n[corpus]\n[sampler]\nsweeps = 4\nburn_in = 1\n");
    let out = folder.path().join("out");
    let with = |train: &str, test: &str| {
        let [train, test] = [train, test].map(|names| names.replace("DIR", folder.path().to_str().unwrap()));
        let [train, test] = [format!("corpus.train={train}"), format!("corpus.test={test}")];
        start(&job, &out, &["--set", &train, "--set", &test]).end()
    };
    succeeds(with("['DIR/a','DIR/b']", "['DIR/c']"));
    let (code, stderr) = with("['DIR/a']", "['DIR/b','DIR/c']");
    assert!(code == 2 && stderr.contains("corpus.train"), "{stderr}");
    assert!(succeeds(with("['DIR/a','DIR/b']", "['DIR/c']")).contains("done already"));
}

#[test]
fn the_folder_of_another_kind_of_job_is_refused() {
    let folder = folder();
    let oracle = "kind = 'oracle'\nout = 'out'\n[treebanks]\nx = { synth = { sentences = 20 } }\n";
    let oracle = write(folder.path(), "oracle.toml", oracle);
    let study = "kind = 'study'\nbase = 'oracle.toml'\nout = 'out'\n[figure]\ny = 'seconds'\n[grid]\n\"oracle.reorder\" = [0, 1]\n";
    let study = write(folder.path(), "study.toml", study);
    let out = folder.path().join("out");
    succeeds(start(&oracle, &out, &[]).end());
    let (code, stderr) = start(&study, &out, &[]).end();
    assert!(code == 2 && stderr.contains("another kind of job: oracle, not study"), "{stderr}");
    assert!(succeeds(start(&oracle, &out, &[]).end()).contains("done already"));
    // What somebody else keeps beside it is neither removed nor in the way of a plain run.
    let previous = folder.path().join("out.previous");
    succeeds(start(&oracle, &previous, &[]).end());
    assert!(succeeds(start(&oracle, &out, &[]).end()).contains("done already"));
    assert!(previous.join("manifest.json").exists());
    let (code, stderr) = start(&oracle, &out, &["--fresh"]).end();
    assert!(code == 2 && stderr.contains("in the way"), "{stderr}");
}

#[cfg(unix)]
#[test]
fn a_fresh_start_follows_links_to_the_folder() {
    let folder = folder();
    let job = job("lm", folder.path());
    let (target, link) = (folder.path().join("disk"), folder.path().join("link"));
    std::fs::create_dir(&target).unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    for _ in 0..2 {
        succeeds(start(&job, &link, &["--fresh"]).end());
        assert!(link.is_symlink() && target.join("model").exists());
        assert!(!folder.path().join("disk.previous").exists());
    }
}
