//! Parsers that learn from raw text, as a user sees them: the same model whatever happens on the way, what learns and what
//! stays, and odd text.

use std::path::{Path, PathBuf};

use sawmill::parser::model::ParserModel;
use serde_json::Value;

use crate::parser_job::treebank;
use crate::support::{Running, folder, free_addresses, run, run_killed, sawmill, start, summary, write};

/// Sentences of the grammar as tokenised text; half of the nouns are words that the treebank does not have.
fn raw_text(seed: u64, sentences: u64) -> String {
    let mut text = String::new();
    for sentence in treebank(seed, sentences).split("\n\n").filter(|sentence| !sentence.is_empty()) {
        let forms = sentence.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split('\t').nth(1));
        let words: Vec<String> = forms.map(|form| form.replace("n1", "new1").replace("n2", "new2")).collect();
        text += &(words.join(" ") + "\n");
    }
    text
}

/// Trees whose nouns occur once, as most words do: from these, a parser learns what unknown words are.
fn rare_nouns() -> String {
    let rows = |i: u32| {
        format!(
            "1\tthe\t_\tDET\t_\t_\t2\tdet\t_\t_\n2\tr{i}\t_\tNOUN\t_\t_\t3\tnsubj\t_\t_\n3\tv{}s\t_\tVERB\t_\t_\t0\troot\t_\t_\n\n",
            i % 40
        )
    };
    (0..40).map(rows).collect()
}

/// A job over a treebank and raw text in `folder`.
fn job(folder: &Path, more: &str) -> PathBuf {
    write(folder, "train.conllu", treebank(1, 300) + &rare_nouns());
    write(folder, "test.conllu", treebank(2, 40));
    write(folder, "raw.txt", raw_text(3, 500));
    write(folder, "held-out.txt", raw_text(4, 60));
    let text = format!(
        "kind = 'semisupervised'\nseed = 3\nshards = 5\nout = 'out'\n[corpus]\ntrain = ['train.conllu']\ntest = \
         ['test.conllu']\n[sampler]\nsweeps = 8\n[model]\noracle = 'static'\n[ngram]\norder = 3\nsweeps = 6\nburn_in = \
         2\n[checkpoint]\nevery = 2\n[raw]\ntrain = ['raw.txt']\ntest = ['held-out.txt']\nformat = 'lines'\ncut = \
         'lines'\nsweeps = 6\n{more}"
    );
    write(folder, "job.toml", text)
}

/// The model and the files of the report that hold nothing about speed.
fn results(out: &Path) -> Vec<Vec<u8>> {
    let read = |name: &str| std::fs::read(out.join(name)).expect("a result");
    ["model", "report/scores.tsv", "report/perplexity.tsv"].map(read).to_vec()
}

#[test]
fn threads_and_processes_give_the_same_parser() {
    let folder = folder();
    let job = job(folder.path(), "passes = 2\nlearn = 'all'\ngibbs_sweeps = 3\n");
    let mut expected = None;
    for workers in ["1", "2", "7"] {
        let out = folder.path().join(format!("threads-{workers}"));
        let (code, stderr) = start(&job, &out, &["--workers", workers]).end();
        assert_eq!(code, 0, "{stderr}");
        let found = results(&out);
        assert!(expected.get_or_insert(found.clone()) == &found, "{workers} threads");
    }
    let hosts = write(folder.path(), "hosts", free_addresses(2).join("\n"));
    let out = folder.path().join("processes");
    let flags = |process: &'static str| {
        ["--hosts", hosts.to_str().unwrap(), "--process", process, "--workers", "2", "--secret", "s"]
    };
    for (code, stderr) in [start(&job, &out, &flags("0")), start(&job, &out, &flags("1"))].map(Running::end) {
        assert_eq!(code, 0, "{stderr}");
    }
    assert!(expected.as_ref().unwrap() == &results(&out), "2 processes");
    let summary = summary(&out);
    let figure = |key: &str| summary[key].as_f64().unwrap_or_else(|| panic!("{key}: {summary}"));
    // The grammar has about 130 words in all, and says little of which comes next.
    let (perplexity, ngram) = (figure("perplexity"), figure("ngram_perplexity"));
    assert!(perplexity > 5.0 && perplexity < 40.0 && ngram > 5.0 && ngram < 40.0, "{summary}");
    assert!(figure("known_from_raw_text") > 10.0, "{summary}");
    assert_eq!(summary["stages"].as_array().map(Vec::len), Some(4), "{summary}");
    for stage in 0..4 {
        let uas = summary["stages"][stage]["test"]["uas"].as_f64();
        assert!(uas.is_some_and(|uas| uas > 85.0), "{summary}");
    }
}

#[test]
fn killed_at_any_moment_and_resumed_by_others_the_parser_is_the_same() {
    let folder = folder();
    let job = job(folder.path(), "passes = 2\ngibbs_sweeps = 4\n");
    write(folder.path(), "raw.txt", raw_text(3, 4000));
    let whole = folder.path().join("whole");
    assert_eq!(start(&job, &whole, &["--workers", "2"]).end().0, 0);
    let out = folder.path().join("killed");
    let kills = run_killed(&job, &out, &[], 5, 200..500);
    assert!(kills >= 2, "it was over after {kills} kills");
    assert!(results(&whole) == results(&out), "killed {kills} times");
}

#[test]
fn only_words_learn_unless_all_is_set() {
    let folder = folder();
    let job = job(folder.path(), "");
    let out = folder.path().join("out");
    assert_eq!(start(&job, &out, &[]).end().0, 0);
    let learned = ParserModel::load(&out).expect("a parser").kept;
    // The parser of the same treebank alone.
    let text = std::fs::read_to_string(&job).unwrap();
    let text = text.split("[ngram]").next().unwrap().replace("semisupervised", "parser");
    let supervised = write(folder.path(), "supervised.toml", text);
    let alone = folder.path().join("alone");
    let (code, stderr) = start(&supervised, &alone, &[]).end();
    assert_eq!(code, 0, "{stderr}");
    let alone = ParserModel::load(&alone).expect("a parser").kept;
    assert_eq!(learned.hierarchies[..2], alone.hierarchies[..2], "transitions and tags");
    assert_ne!(learned.hierarchies[2], alone.hierarchies[2], "words");
    let customers = |kept: &sawmill::parser::model::Kept| kept.hierarchies[2].sizes().last().unwrap()[1];
    assert!(customers(&learned) > 2 * customers(&alone), "words of raw text are customers");
    assert_eq!(start(&job, &out, &["--set", "raw.learn='all'"]).end().0, 0);
    let all = ParserModel::load(&out).expect("a parser").kept;
    assert_ne!(all.hierarchies[..2], alone.hierarchies[..2]);
    // A word of raw text alone has found its tag.
    let text = write(folder.path(), "text", "the new12 v1s a new21 .\n");
    let (code, trees, stderr) = run(sawmill().arg("parse").arg(&out).arg(&text));
    assert_eq!(code, 0, "{stderr}");
    assert!(trees.contains("2\tnew12\t_\tNOUN\t") && trees.contains("5\tnew21\t_\tNOUN\t"), "{trees}");
}

#[test]
fn a_parser_and_an_ngram_model_predict_together() {
    let folder = folder();
    let job = job(folder.path(), "");
    let (parser, ngram) = (folder.path().join("parser"), folder.path().join("ngram"));
    assert_eq!(start(&job, &parser, &["--set", "ngram.order=0"]).end().0, 0);
    let text = "kind = 'lm'\n[corpus]\ntrain = ['raw.txt']\n[model]\norder = 3\n[sampler]\nsweeps = 10\n";
    let (code, stderr) = start(&write(folder.path(), "lm.toml", text), &ngram, &[]).end();
    assert_eq!(code, 0, "{stderr}");
    write(folder.path(), "dev.txt", raw_text(6, 60));
    let perplexity = |more: &[&str]| {
        let mut command = sawmill();
        command.current_dir(folder.path()).args(["perplexity", "parser", "held-out.txt", "--json"]).args(more);
        let (code, stdout, stderr) = run(&mut command);
        assert_eq!(code, 0, "{stderr}");
        serde_json::from_str::<Value>(&stdout).expect("JSON")
    };
    let mixed = perplexity(&["--interpolate", "ngram", "--tune", "dev.txt"]);
    let figure = |key: &str| mixed[key].as_f64().unwrap_or_else(|| panic!("{key}: {mixed}"));
    let alone = [figure("perplexity_parser"), figure("perplexity_ngram")];
    assert!(figure("perplexity") < alone[0].min(alone[1]), "{mixed}");
    assert!(figure("weight") > 0.0 && figure("weight") < 1.0, "{mixed}");
    // At the ends of the scale each is alone; over the derivations kept to the end, the parser's figure is no better.
    for (weight, alone) in [("1", alone[0]), ("0", alone[1])] {
        let ends = perplexity(&["--interpolate", "ngram", "--weight", weight]);
        assert_eq!(ends["perplexity"].as_f64(), Some(alone), "{ends}");
    }
    let bound = perplexity(&[])["perplexity"].as_f64().expect("a figure");
    assert!(bound > alone[0] * (1.0 - 1e-9), "{bound} {mixed}");
    let command = |more: &[&str]| {
        let mut command = sawmill();
        run(command.current_dir(folder.path()).args(["perplexity", "ngram", "held-out.txt"]).args(more))
    };
    let (code, _, stderr) = command(&["--interpolate", "ngram"]);
    assert!(code == 2 && stderr.contains("is for parsers"), "{code}: {stderr}");
    assert_eq!(command(&["--interpolate", "ngram", "--weight", "2"]).0, 2);
}

#[test]
fn odd_text_is_counted_and_told() {
    let folder = folder();
    let job = job(folder.path(), "max_words = 50\n");
    let out = folder.path().join("out");
    let mut odd = raw_text(3, 100).into_bytes();
    odd.extend(b"\n\n<p>markup &amp; more</p>\n\xff\xfe broken\n");
    odd.extend("Ξένος 日本語 🙂 ١٢٣\n".as_bytes());
    odd.extend("n1 of ".repeat(2500).as_bytes());
    odd.push(b'\n');
    write(folder.path(), "raw.txt", &odd);
    for cut in ["lines", "running"] {
        let (code, stderr) = start(&job, &out, &["--set", &format!("raw.cut='{cut}'")]).end();
        assert_eq!(code, 1, "{stderr}");
        assert!(stderr.contains("raw.txt:104: broken-encoding"), "{stderr}");
        let (sentences, cut) = (summary(&out)["raw_sentences"].clone(), summary(&out)["raw_cut"].clone());
        assert!(
            sentences.as_u64().is_some_and(|n| n >= 202) && cut.as_u64().is_some_and(|n| n >= 99),
            "{cut} {sentences}"
        );
    }
    write(folder.path(), "raw.txt", "\n \n");
    let (code, stderr) = start(&job, &out, &[]).end();
    assert!(code == 3 && stderr.contains("no raw text to train on"), "{code}: {stderr}");
    for (setting, what) in [
        ("raw.train=[]", "raw.train"),
        ("raw.hold_out=5", "set one of them"),
        ("raw.passes=0", "raw.passes"),
        ("raw.max_words=0", "raw.max_words"),
        ("model.tags='gold'", "has no tags"),
        ("raw.cut='words'", "raw.cut"),
    ] {
        let (code, stderr) = start(&job, &out, &["--set", setting]).end();
        assert!(code == 2 && stderr.contains(what), "{setting}, {code}: {stderr}");
    }
}
