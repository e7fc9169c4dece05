//! Studies as a user sees them: jobs in several variants, side by side.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rand::RngExt;
use sawmill::cluster::rng::{Purpose, generator};
use serde_json::Value;

use crate::support::{
    SECRET, assert_same_files, files_below, finish, folder, free_addresses, run, sawmill, wait_until, write,
};

fn corpus(seed: u64, sentences: u64) -> String {
    let mut text = String::new();
    for sentence in 0..sentences {
        let mut rng = generator(seed, Purpose::Synth, sentence, 0);
        let mut word = rng.random_range(0..20u32);
        for _ in 0..8 {
            text += &format!("w{word} ");
            word = if rng.random_bool(0.7) { (3 * word + 1) % 20 } else { rng.random_range(0..20) };
        }
        text.push('\n');
    }
    text
}

/// A base job and a study of it with four variants.
fn study(folder: &Path, sweeps: u64) -> PathBuf {
    write(folder, "train.txt", corpus(1, 300));
    write(folder, "test.txt", corpus(2, 40));
    let base = format!(
        "kind = 'lm'\nseed = 3\nshards = 3\nout = 'elsewhere'\n[corpus]\ntrain = ['train.txt']\ntest = ['test.txt']\n\
         [sampler]\nsweeps = {sweeps}\nburn_in = 2\nsample_every = 2\n[checkpoint]\nevery = 5\n"
    );
    write(folder, "base.toml", base);
    let study = "kind = 'study'\nout = 'out'\nbase = 'base.toml'\n[grid]\nmodel.order = [2, 3]\n\
                 [[variants]]\nname = 'unigrams'\nset = { model.order = 1 }\n\
                 [[variants]]\nname = 'plain'\n\
                 [[variants]]\nname = 'other'\nset = { model.discount_prior = [2.0, 3.0] }\n";
    write(folder, "study.toml", study)
}

const VARIANTS: [&str; 5] = ["unigrams", "plain-2", "plain-3", "other-2", "other-3"];

fn start(study: &Path, out: &Path, more: &[&str]) -> Child {
    let mut command = sawmill();
    command.arg("run").arg(study).arg("--out").arg(out).args(["--progress", "none"]).args(more);
    command.env("SAWMILL_SECRET", SECRET).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("sawmill starts")
}

fn end(child: Child) -> (i32, String) {
    let (code, _, stderr) = finish(child.wait_with_output().expect("it ends"));
    (code, stderr)
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON")
}

fn models(out: &Path) -> Vec<Vec<u8>> {
    VARIANTS.iter().map(|name| std::fs::read(out.join(name).join("model")).expect("a model")).collect()
}

fn kill(signal: &str, id: u32) {
    assert!(Command::new("kill").args([signal, &id.to_string()]).status().expect("kill").success());
}

#[test]
fn variants_are_the_jobs_that_they_say_side_by_side() {
    let folder = folder();
    let study = study(folder.path(), 8);
    let (code, plan, _) = run(sawmill().arg("run").arg(&study).arg("--dry-run"));
    assert_eq!(code, 0);
    assert!(plan.contains("study of 5 variants") && plan.contains("other-3   model.discount_prior"), "{plan}");
    assert!(!folder.path().join("out").exists());

    let (code, page, stderr) = run(sawmill().arg("run").arg(&study).args(["--workers", "2", "--progress", "none"]));
    assert_eq!(code, 0, "{stderr}");
    assert!(page.trim().ends_with("out/report/index.html"), "{page}");
    assert!(stderr.contains("variant 5 of 5: other-3"), "{stderr}");
    let out = folder.path().join("out");
    let table = std::fs::read_to_string(out.join("report/study.tsv")).unwrap();
    let names: Vec<&str> = table.lines().skip(1).map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(names, VARIANTS);
    let header: Vec<&str> = table.lines().next().unwrap().split('\t').collect();
    for column in ["model.order", "perplexity", "seconds", "tokens_per_second", "contexts", "peak_memory_mib"] {
        assert!(header.contains(&column), "{table}");
    }
    let summary = json(&out.join("report/summary.json"));
    for (place, name) in VARIANTS.iter().enumerate() {
        let own = json(&out.join(name).join("report/summary.json"));
        assert_eq!(summary["variants"][place]["figures"]["perplexity"], own["perplexity"], "{name}");
    }
    let page = std::fs::read_to_string(out.join("report/index.html")).unwrap();
    assert!(page.contains("href=\"../plain-3/report/index.html\"") && page.contains("<polyline"), "{page}");

    // A variant is the base job with its settings.
    let alone = folder.path().join("alone");
    let base = folder.path().join("base.toml");
    let (code, stderr) =
        end(start(&base, &alone, &["--set", "model.order=3", "--set", "model.discount_prior=[2.0,3.0]"]));
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(std::fs::read(alone.join("model")).unwrap(), models(&out)[4]);

    let (code, status, _) = run(sawmill().arg("status").arg(&out));
    assert_eq!(code, 0);
    assert!(status.contains("study job, done") && status.contains("variants: 5 of 5 done"), "{status}");

    // Further variants can be added: what is done stays.
    let started = |name: &str| json(&out.join(name).join("manifest.json"))["started"].clone();
    let before = started("plain-2");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let (code, stderr) = end(start(&study, &out, &["--set", "grid.model.order=[2,3,4]"]));
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(before, started("plain-2"));
    assert!(before != started("plain-4"));
    std::fs::remove_file(out.join("report/study.tsv")).unwrap();
    assert_eq!(run(sawmill().arg("report").arg(&out)).0, 0);
    assert_eq!(std::fs::read_to_string(out.join("report/study.tsv")).unwrap().lines().count(), 8);

    // All is done again if that is asked for.
    let (code, stderr) = end(start(&study, &out, &["--fresh"]));
    assert_eq!(code, 0, "{stderr}");
    assert!(before != started("plain-2"));
    assert!(!out.join("plain-4").exists());
}

#[test]
fn killed_and_stopped_a_study_goes_on_in_the_variant_at_hand() {
    let folder = folder();
    let study = study(folder.path(), 400);
    let (whole, out) = (folder.path().join("whole"), folder.path().join("killed"));
    let (code, stderr) = end(start(&study, &whole, &["--workers", "2"]));
    assert_eq!(code, 0, "{stderr}");

    let mut child = start(&study, &out, &["--workers", "1"]);
    wait_until("the second variant", || out.join("plain-2/checkpoints/latest.json").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let first = json(&out.join("unigrams/manifest.json"));
    assert_eq!(first["state"], "done");
    let (_, status, _) = run(sawmill().arg("status").arg(&out));
    assert!(status.contains("variants: 1 of 5 done\nrunning: plain-2\nprogress: sweep "), "{status}");

    let child = start(&study, &out, &["--workers", "2", "--resume"]);
    wait_until("the fourth variant", || out.join("other-2/checkpoints/latest.json").exists());
    kill("-TERM", child.id());
    let (code, stderr) = end(child);
    assert_eq!(code, 75, "{stderr}");
    assert!(stderr.contains("variant 2 of 5: plain-2\n"), "{stderr}");
    assert!(stderr.contains("going on after sweep"), "{stderr}");
    let (_, status, _) = run(sawmill().arg("status").arg(&out));
    assert!(status.contains("stopped with a checkpoint") && status.contains("stopped: other-2"), "{status}");

    let (code, stderr) = end(start(&study, &out, &["--workers", "3", "--resume"]));
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(first, json(&out.join("unigrams/manifest.json")));
    assert!(models(&whole) == models(&out), "killed and stopped");
    // Training is as long as its sweeps, whenever they were done.
    let rounds = std::fs::read_to_string(out.join("other-2/metrics.jsonl")).unwrap();
    assert!(rounds.starts_with("{\"checkpointed\":false") && rounds.contains("\"sweep\":1,"), "{rounds}");
}

/// A variant that somebody runs on its own is in use, though its study is not.
#[test]
fn a_study_does_not_start_over_while_a_variant_is_written() {
    let folder = folder();
    let study = study(folder.path(), 8);
    let out = folder.path().join("out");
    let (code, stderr) = end(start(&study, &out, &[]));
    assert_eq!(code, 0, "{stderr}");
    let before = models(&out);
    let lock = std::fs::File::options().append(true).open(out.join("plain-3/.lock")).expect("a lock");
    lock.lock().unwrap();
    let (code, stderr) = end(start(&study, &out, &["--fresh"]));
    assert!(code == 2 && stderr.contains("plain-3: another run is writing"), "{stderr}");
    assert!(models(&out) == before && !folder.path().join("out.previous").exists());
    drop(lock);
    let (code, stderr) = end(start(&study, &out, &["--fresh"]));
    assert_eq!(code, 0, "{stderr}");
    assert!(models(&out) == before);
}

#[test]
fn a_study_that_is_stopped_while_a_variant_reads_says_so() {
    let folder = folder();
    let study = study(folder.path(), 8);
    std::fs::File::create(folder.path().join("train.txt")).unwrap().set_len(1 << 38).unwrap();
    let out = folder.path().join("out");
    let child = start(&study, &out, &[]);
    wait_until("it runs", || out.join("job.toml").exists());
    std::thread::sleep(std::time::Duration::from_millis(300));
    kill("-TERM", child.id());
    let (code, stderr) = end(child);
    assert!(code == 75 && stderr.contains("while reading"), "{code} {stderr}");
    let (_, status, _) = run(sawmill().arg("status").arg(&out));
    assert!(status.contains("study job, stopped"), "{status}");
}

/// What a variant has been trained with before is looked at before the study itself is touched.
#[test]
fn a_refused_variant_leaves_the_finished_study_as_it_is() {
    let folder = folder();
    let study = study(folder.path(), 8);
    let out = folder.path().join("out");
    let (code, stderr) = end(start(&study, &out, &[]));
    assert_eq!(code, 0, "{stderr}");
    let before = files_below(&out);
    let (code, stderr) = end(start(&study, &out, &["--set", "set.seed=4"]));
    assert!(code == 2 && stderr.contains("variant unigrams: ") && stderr.contains("seed: 3 -> 4"), "{code} {stderr}");
    write(folder.path(), "test.txt", corpus(5, 40));
    let (code, stderr) = end(start(&study, &out, &[]));
    assert!(code == 2 && stderr.contains("variant unigrams: ") && stderr.contains("test.txt"), "{code} {stderr}");
    assert_same_files(&before, &files_below(&out), "a refused study");
    let (_, status, _) = run(sawmill().arg("status").arg(&out));
    assert!(status.contains("study job, done"), "{status}");
}

#[test]
fn several_processes_go_through_the_variants_together() {
    let folder = folder();
    let study = study(folder.path(), 300);
    let whole = folder.path().join("whole");
    let (code, stderr) = end(start(&study, &whole, &["--workers", "1"]));
    assert_eq!(code, 0, "{stderr}");

    let hosts = write(folder.path(), "hosts", free_addresses(2).join("\n"));
    let out = folder.path().join("processes");
    let flags = |process: &'static str, more: &[&'static str]| {
        let hosts = hosts.to_str().unwrap().to_string();
        let mut flags = vec!["--hosts".to_string(), hosts];
        flags.extend(["--process", process, "--workers", "1"].map(str::to_string));
        flags.extend(more.iter().map(|flag| flag.to_string()));
        flags
    };
    let both = |more: &[&'static str]| -> [Child; 2] {
        // The later process first: it leaves signs of life in a folder that nobody has made yet.
        ["1", "0"].map(|process| {
            let flags = flags(process, more);
            let child = start(&study, &out, &flags.iter().map(String::as_str).collect::<Vec<_>>());
            std::thread::sleep(std::time::Duration::from_millis(200));
            child
        })
    };
    // Whichever is asked to stop, all do.
    let children = both(&[]);
    wait_until("the second variant", || out.join("plain-2/checkpoints/latest.json").exists());
    kill("-TERM", children[0].id());
    for child in children {
        let (code, stderr) = end(child);
        assert_eq!(code, 75, "{stderr}");
    }
    for child in both(&["--resume"]) {
        let (code, stderr) = end(child);
        assert_eq!(code, 0, "{stderr}");
    }
    assert!(models(&whole) == models(&out), "two processes");

    // And when one is killed, `launch` starts all again from where they were.
    let launched = folder.path().join("launched");
    let mut command = sawmill();
    command.args(["launch", "-n", "2", "--", "run"]).arg(&study).arg("--out").arg(&launched);
    command.args(["--workers", "1", "--progress", "none"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let is_there = |name: &str| launched.join("plain-3").join(name).exists();
    wait_until("a checkpoint", || is_there("checkpoints/latest.json") && is_there("processes/1.json"));
    let sign = json(&launched.join("plain-3/processes/1.json"));
    kill("-KILL", sign["process_id"].as_u64().unwrap() as u32);
    let (code, stderr) = end(child);
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("starting again"), "{stderr}");
    assert!(models(&whole) == models(&launched), "launched");
}

#[test]
fn a_study_of_another_kind_and_with_its_base_inside() {
    let folder = folder();
    let study = "kind = 'study'\nout = 'out'\n[figure]\ny = 'seconds'\n[base]\nkind = 'oracle'\n\
                 [base.treebanks]\na = { synth = { sentences = 30 } }\n[grid]\n\"oracle.reorder\" = [0, 1]\n";
    let study = write(folder.path(), "study.toml", study);
    let (code, _, stderr) = run(sawmill().arg("run").arg(&study).args(["--progress", "none"]));
    assert_eq!(code, 0, "{stderr}");
    let table = std::fs::read_to_string(folder.path().join("out/report/study.tsv")).unwrap();
    assert!(table.starts_with("name\tvariant\toracle.reorder\t") && table.contains("reorder-1\t\t1\t"), "{table}");
    assert!(folder.path().join("out/reorder-0/report/index.html").exists());
}

#[test]
fn what_is_wrong_with_a_study_is_said_before_anything_is_run() {
    let folder = folder();
    study(folder.path(), 2);
    let lines = [
        ("base = 'base.toml'\n[gird]\nseed = [1, 2]", "study.toml:4: unknown key `gird`; did you mean `grid`?"),
        (
            "base = 'base.toml'\n[grid]\nmodel.ordr = [1, 2]",
            "variant ordr-1: unknown key `model.ordr`; did you mean `order`?",
        ),
        (
            "base = 'base.toml'\n[[variants]]\nname = 'a'\nsets = { seed = 2 }",
            "unknown key `variants.sets`; did you mean `set`?",
        ),
        ("base = 'base.toml'\n[[variants]]\nname = 'a'\n[[variants]]\nname = 'a'", "two variants are named a"),
        (
            "base = 'base.toml'\n[[variants]]\nname = 'a'\nset = { kind = 'study' }",
            "variant a: a variant cannot be a study itself",
        ),
        ("base = 'base.toml'\n[[variants]]\nname = 'a'\nset = { out = 'x' }", "variant a: a variant cannot set out"),
        (
            "base = 'base.toml'\n[[variants]]\nname = 'a'\nset = { seed.x = 1 }",
            "variant a: seed.x: seed is not a table",
        ),
        ("base = 'base.toml'\n[grid]\nmodel.order = ['two']", "variant order-two: "),
        ("base = 'base.toml'\n[grid]\ncorpus.train = ['nowhere.txt']", "variant train-nowhere.txt: "),
        ("base = 'base.toml'\n[grid]\nseed = [1]\n[figure]\nx = 'sed'", "figure.x = \"sed\" is no key of the grid"),
        ("base = 'base.toml'", "there is nothing to compare"),
        ("base = 'study.toml'\n[grid]\nseed = [1]", "the base is itself a study"),
        ("base = 'nowhere.toml'\n[grid]\nseed = [1]", "nowhere.toml"),
        ("[grid]\nseed = [1]", "there is no base"),
        ("base = 7\n[grid]\nseed = [1]", "the name of a job file"),
    ];
    for (text, expected) in lines {
        let study = write(folder.path(), "study.toml", format!("kind = 'study'\nout = 'out'\n{text}\n"));
        let (code, _, stderr) = run(sawmill().arg("run").arg(&study));
        assert_eq!(code, 2, "{text}: {stderr}");
        assert!(stderr.contains(expected), "{text}: {stderr}");
        assert!(!folder.path().join("out").exists(), "{text}");
    }
    write(folder.path(), "base.toml", "kind = 'lm'\n[modle]\norder = 2\n");
    let study =
        write(folder.path(), "study.toml", "kind = 'study'\nout = 'out'\nbase = 'base.toml'\n[grid]\nseed = [1]\n");
    let (code, _, stderr) = run(sawmill().arg("run").arg(&study));
    assert_eq!(code, 2);
    assert!(stderr.contains("base.toml:2: unknown key `modle`"), "{stderr}");
}
