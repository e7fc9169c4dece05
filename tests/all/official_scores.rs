//! `sawmill score` beside the official evaluation of the CoNLL 2018 shared task.
//!
//! The script is not ours to give away: name it in SAWMILL_CONLL18_EVAL (`scripts/fetch-conll18-eval FOLDER` gets it), or
//! nothing is compared.

use std::path::{Path, PathBuf};
use std::process::Command;

use rand::RngExt;
use sawmill::cluster::rng::{Purpose, generator};
use serde_json::Value;

use crate::support::{folder, real_data, run, sawmill, skipped, write};

fn script() -> Option<PathBuf> {
    let script = std::env::var_os("SAWMILL_CONLL18_EVAL").map(PathBuf::from).filter(|path| path.is_file());
    if script.is_none() {
        skipped("comparing scores needs SAWMILL_CONLL18_EVAL, the path of conll18_ud_eval.py");
    }
    script
}

/// The official figures of these two files, by name.
fn official(script: &Path, gold: &Path, system: &Path, metric: &str) -> f64 {
    let (code, out, stderr) = run(Command::new("python3").arg(script).arg("-v").arg(gold).arg(system));
    assert_eq!(code, 0, "{stderr}");
    let row = out.lines().find(|line| line.starts_with(metric)).unwrap_or_else(|| panic!("{metric} in {out}"));
    row.split('|').nth(3).and_then(|f1| f1.trim().parse().ok()).unwrap_or_else(|| panic!("{row}"))
}

/// The text with other tags, heads and labels here and there; trees stay trees.
fn spoil(text: &str, seed: u64) -> String {
    let mut rng = generator(seed, Purpose::Synth, 0, 0);
    let mut spoilt = String::new();
    for sentence in text.split_inclusive("\n\n") {
        let is_root = |line: &&str| line.split('\t').nth(6) == Some("0");
        let root = sentence.lines().find(is_root).and_then(|line| line.split('\t').next()).unwrap_or("0");
        for line in sentence.lines() {
            let mut columns: Vec<&str> = line.split('\t').collect();
            let is_word = columns.len() == 10 && columns[0].parse::<u32>().is_ok();
            if is_word && rng.random_bool(0.1) {
                columns[3] = ["NOUN", "VERB", "X"][rng.random_range(0..3)];
            }
            if is_word && columns[6] != "0" && rng.random_bool(0.2) {
                columns[6] = root;
            }
            if is_word && columns[6] != "0" && rng.random_bool(0.2) {
                columns[7] = ["nsubj:pass", "nmod", "obl:tmod"][rng.random_range(0..3)];
            }
            spoilt += &columns.join("\t");
            spoilt.push('\n');
        }
    }
    spoilt
}

fn compare(script: &Path, gold: &Path, text: &str, seed: u64) {
    let folder = folder();
    let gold_copy = write(folder.path(), "gold.conllu", text);
    let system = write(folder.path(), "system.conllu", spoil(text, seed));
    let (code, scores, stderr) = run(sawmill().arg("score").arg(&gold_copy).arg(&system).arg("--json"));
    assert_eq!(code, 0, "{}: {stderr}", gold.display());
    let scores: Value = serde_json::from_str(&scores).expect("JSON");
    for (key, metric) in [("uas", "UAS"), ("las", "LAS"), ("upos", "UPOS")] {
        let (own, theirs) = (scores[key].as_f64().unwrap(), official(script, &gold_copy, &system, metric));
        // They write two digits.
        assert!((own - theirs).abs() < 0.0051, "{}: {metric} {own} instead of {theirs}", gold.display());
        assert!(own < 99.0, "something is wrong in what is compared: {metric} {own}");
    }
}

#[test]
fn scores_are_those_of_the_official_evaluation() {
    let Some(script) = script() else { return };
    let text = "# text = dal vado\n1-2\tdal\t_\t_\t_\t_\t_\t_\t_\t_\n1\tda\t_\tADP\t_\t_\t2\tcase\t_\t_\n\
                2\til\t_\tDET\t_\t_\t3\tdet\t_\t_\n3\tvado\t_\tVERB\t_\t_\t0\troot\t_\t_\n\n";
    compare(&script, Path::new("by hand"), &text.repeat(20), 1);
}

#[test]
fn scores_of_real_treebanks_are_those_of_the_official_evaluation() {
    let Some(script) = script() else { return };
    let Some(data) = real_data("scores_of_real_treebanks_are_those_of_the_official_evaluation") else { return };
    // Files with many multiword tokens, and with empty nodes.
    for name in ["italian/ParTUT/it_partut-ud-test.conllu", "italian/PoSTWITA/it_postwita-ud-dev.conllu"] {
        let path = data.join("treebanks").join(name);
        if let Ok(text) = std::fs::read_to_string(&path) {
            compare(&script, &path, &text, 2);
        }
    }
}
