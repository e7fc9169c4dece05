//! Inputs without end, and settings beyond all reason: refused early, with the limit.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{folder, run, sawmill, write};

fn sample(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/models").join(name)
}

/// Runs a command that has to end soon; returns its exit code and stderr.
fn soon(arguments: &[&str]) -> (i32, String, String) {
    let begun = Instant::now();
    let (code, stdout, stderr) = run(sawmill().args(arguments));
    assert!(begun.elapsed() < Duration::from_secs(30), "{arguments:?} took {:?}", begun.elapsed());
    (code, stdout, stderr)
}

fn refused(arguments: &[&str], code: i32, words: &str) {
    let (found, _, stderr) = soon(arguments);
    assert!(found == code && stderr.contains(words), "{arguments:?}: {found} {stderr}");
}

#[test]
fn devices_and_huge_files_are_not_read_to_their_end() {
    let folder = folder();
    refused(&["run", "/dev/zero"], 2, "more than 1 MiB of text: this is not a regular file");
    let large = write(folder.path(), "large.toml", "# nothing\n".repeat(200_000));
    refused(&["run", large.to_str().unwrap()], 2, "more than 1 MiB of text: is the file the right one?");
    for verb in ["perplexity", "parse", "show"] {
        let file = if verb == "show" { vec![] } else { vec!["/dev/null"] };
        refused(&[vec![verb, "/dev/zero"], file].concat(), 3, "/dev/zero: this is not a model of sawmill");
    }
    refused(&["export", "/dev/zero", "--format", "arpa"], 3, "/dev/zero: this is not a regular file");
    refused(&["generate", "/dev/zero"], 3, "/dev/zero: this is not a model of sawmill");
    write(folder.path(), "text", "a b\n");
    let job = "kind = 'adaptor'\nout = 'out'\n[corpus]\ntrain = ['text']\n[grammar]\nfile = '/dev/zero'\n";
    let job = write(folder.path(), "adaptor.toml", job);
    refused(&["launch", "--hosts", "/dev/zero", "--", "run", job.to_str().unwrap()], 2, "longer than 1 MiB");
    refused(&["run", job.to_str().unwrap()], 3, "/dev/zero: there is more than 64 MiB of text");
}

#[test]
fn shards_and_workers_have_limits_in_every_kind_of_job() {
    let folder = folder();
    for kind in ["oracle", "topics", "lm", "parser", "semisupervised", "induction", "adaptor"] {
        let job = write(folder.path(), "job.toml", format!("kind = '{kind}'\nshards = 4294967295\nout = 'out'\n"));
        refused(&["run", job.to_str().unwrap()], 2, "shards has to be between 1 and 65534");
        refused(&["run", job.to_str().unwrap(), "--workers", "100000"], 2, "--workers 100000: at most 1024");
    }
    let base = write(folder.path(), "base.toml", "kind = 'topics'\nshards = 4294967295\nout = 'out'\n");
    let study = format!("kind = 'study'\nout = 'study'\nbase = '{}'\n[grid]\nseed = [1, 2]\n", base.display());
    let study = write(folder.path(), "study.toml", study);
    refused(&["run", study.to_str().unwrap()], 2, "shards has to be between 1 and 65534");
    refused(&["run", study.to_str().unwrap(), "--workers", "100000"], 2, "--workers 100000: at most 1024");
}

#[test]
fn particles_chains_and_seconds_have_limits() {
    let folder = folder();
    write(folder.path(), "text", "a b\n");
    write(folder.path(), "trees", "1\ta\t_\tX\tX\t_\t0\troot\t_\t_\n\n");
    let corpus = |kind: &str| if kind == "topics" { "text" } else { "trees" };
    for (kind, setting, words) in [
        ("topics", "evaluation.particles", "evaluation.particles has to be between 1 and 1048576"),
        ("parser", "model.particles", "model.particles has to be between 1 and 1048576"),
        ("parser", "sampler.particles", "sampler.particles has to be between 2 and 1048576"),
        ("semisupervised", "raw.particles", "raw.particles has to be between 1 and 1048576"),
        ("induction", "estimation.runs", "make more than 1000000 chains in all"),
    ] {
        let corpus = corpus(kind);
        let raw = if kind == "semisupervised" { "[raw]\ntrain = ['text']\n" } else { "" };
        let job = format!("kind = '{kind}'\nout = 'out'\n[corpus]\ntrain = ['{corpus}']\n{raw}");
        let job = write(folder.path(), "job.toml", job);
        let job = job.to_str().unwrap();
        refused(&["run", job, "--set", &format!("{setting}=4000000000")], 2, words);
        refused(&["run", job, "--stop-within", "18446744073709551615"], 2, "is not in 0..=1000000000");
        refused(&["run", job, "--start-within", "18446744073709551615"], 2, "is not in 0..=1000000000");
    }
    let (lda, parser) = (sample("lda.model"), sample("parser.model"));
    for (verb, model) in [("perplexity", lda), ("parse", parser)] {
        refused(&[verb, model.to_str().unwrap(), "/dev/null", "--particles", "4000000000"], 2, "1048576");
    }
}

#[test]
fn long_strings_are_refused_with_their_line() {
    let folder = folder();
    let text = write(folder.path(), "text", format!("badogmi\n{}\nsalo\n", "ba".repeat(2500)));
    for style in ["skeletal", "words"] {
        let (code, stdout, stderr) =
            soon(&["parse", sample("adaptor.model").to_str().unwrap(), text.to_str().unwrap(), "--tree", style]);
        assert_eq!((code, stdout.lines().count()), (1, 3), "{stderr}");
        assert!(stderr.contains("text:2: ") && stderr.contains("5000 symbols is too long"), "{stderr}");
    }
}

#[test]
fn sentences_of_a_million_words_are_skipped_and_counted() {
    let folder = folder();
    let long = "the ".repeat(1_000_000);
    let text = write(folder.path(), "text", format!("the n1 v2s\n{long}\nthe n2 v1s\n"));
    let trees: String = (1..=1_000_000).map(|id| format!("{id}\tthe\t_\tDET\tDET\t_\t0\troot\t_\t_\n")).collect();
    let trees = write(folder.path(), "trees", format!("{trees}\n1\tthe\t_\tDET\tDET\t_\t0\troot\t_\t_\n\n"));
    let model = sample("parser.model");
    let model = model.to_str().unwrap();
    let (code, stdout, stderr) = soon(&["perplexity", model, text.to_str().unwrap()]);
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("text:2: too-long: a sentence of more than 10000 words"), "{stderr}");
    assert!(stdout.contains("the ends of 2 sentences"), "{stdout}");
    let (code, stdout, stderr) = soon(&["parse", model, trees.to_str().unwrap()]);
    assert_eq!((code, stdout.lines().filter(|line| !line.is_empty()).count()), (1, 1), "{stderr}");
    assert!(stderr.contains("trees:10001: too-long"), "{stderr}");
}
