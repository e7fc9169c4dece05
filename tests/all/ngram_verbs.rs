//! Topic n-gram models put to use: looked up, scored, streamed and shown.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rand::RngExt;
use sawmill::cluster::rng::{Purpose, generator};
use sawmill::topics::left_to_right::LeftToRight;
use sawmill::topics::ngram::kept::Kept;
use sawmill::topics::ngram::lookup::TopicNgrams;
use sawmill::topics::ngram::reading::Reading;
use serde_json::Value;

use crate::support::{folder, run, sawmill, write};

const MODELS: [&str; 6] = [
    "type = 'hpytm'\norder = 3",
    "type = 'hierarchical'\norder = 3",
    "type = 'switching'\norder = 3",
    "type = 'hpytm'\norder = 'infinite'\nmax_order = 4",
    "type = 'hierarchical'\norder = 'infinite'\nmax_order = 4",
    "type = 'switching'\norder = 'infinite'\nmax_order = 4",
];

/// Documents about two things: frames that all share, and phrases of their own in them; some words are rare.
fn corpus(documents: u64) -> String {
    let things = [
        ["red wine glass", "old oak barrel", "Sweet Grape juice"],
        ["fast jet plane", "long flight path", "17 air miles"],
    ];
    let mut text = String::new();
    for document in 0..documents {
        let mut rng = generator(1, Purpose::Synth, document, 0);
        text += &format!("#DOC\td{document}\tc{}\n", document % 2);
        for _ in 0..8 {
            let of = if rng.random_bool(0.9) { document % 2 } else { rng.random_range(0..2) };
            let phrase = things[of as usize][rng.random_range(0..3usize)];
            let frame = ["in spite of the PHRASE", "on behalf of a PHRASE we go", "they saw the PHRASE again"];
            text += &frame[rng.random_range(0..3usize)].replace("PHRASE", phrase);
            text += if rng.random_bool(0.1) { " rare" } else { "" };
            text += &if rng.random_bool(0.1) { format!(" only{document}\n") } else { "\n".to_string() };
        }
    }
    text
}

const THINGS: [[&str; 5]; 2] = [["red", "wine", "oak", "grape", "barrel"], ["jet", "plane", "flight", "miles", "path"]];

/// Documents about one of two things each, which have no word in common.
fn two_things(documents: u64) -> String {
    let mut text = String::new();
    for document in 0..documents {
        let mut rng = generator(2, Purpose::Synth, document, 0);
        text += &format!("#DOC\td{document}\tc{}\n", document % 2);
        for _ in 0..8 {
            let words = [0; 8].map(|_| THINGS[document as usize % 2][rng.random_range(0..5usize)]);
            text += &(words.join(" ") + "\n");
        }
    }
    text
}

/// A run of a model in `folder`.
fn trained(folder: &Path, model: &str, corpus: String) -> PathBuf {
    write(folder, "corpus.txt", corpus);
    let job = format!(
        "kind = 'topics'\nseed = 3\nshards = 2\nout = 'out'\n[corpus]\ntrain = ['corpus.txt']\nformat = 'docs'\n\
         test = {{ hold_out = 10, by = 'category' }}\nlowercase = true\nnumbers = '#'\nmin_count = 2\n\
         [model]\n{model}\ntopics = 3\n[sampler]\nsweeps = 60\n[evaluation]\nparticles = 50\n"
    );
    let job = write(folder, "job.toml", job);
    let (code, _, stderr) = run(sawmill().arg("run").arg(job).args(["--progress", "none"]));
    assert_eq!(code, 0, "{stderr}");
    folder.join("out")
}

fn perplexity(model: &Path, more: &[&str]) -> (i32, String, String) {
    run(sawmill().arg("perplexity").arg(model).args(more))
}

fn json(model: &Path, file: &Path, more: &[&str]) -> Value {
    let (code, stdout, stderr) = perplexity(model, &[&[file.to_str().unwrap(), "--json"], more].concat());
    assert_eq!(code, 0, "{stderr}");
    serde_json::from_str(&stdout).expect("JSON")
}

#[test]
fn what_may_come_next_sums_to_one_and_a_run_scores_its_held_out_documents_as_it_did_itself() {
    for model in MODELS {
        let folder = folder();
        let out = trained(folder.path(), model, corpus(60));
        let summary: Value = serde_json::from_slice(&std::fs::read(out.join("report/summary.json")).unwrap()).unwrap();
        let held_out = out.join("report/test-documents.txt");
        let found = json(&out, &held_out, &["--format", "docs", "--particles", "50"]);
        assert_eq!((&found["tokens"], &found["unknown"]), (&summary["test_tokens"], &summary["test_unknown"]));
        let (here, there) = (found["perplexity"].as_f64().unwrap(), summary["perplexity_last"].as_f64().unwrap());
        assert!((here / there - 1.0).abs() < 0.01, "{model}: {here}, in training {there}");
        sums_to_one(model, &TopicNgrams::new(Kept::load(&out).unwrap()));
    }
}

/// After random documents, of words that were seen together and of words that never were.
fn sums_to_one(name: &str, model: &TopicNgrams) {
    let corpus = corpus(60);
    let seen: Vec<u32> = corpus.to_lowercase().split_whitespace().map(|word| model.kept.vocabulary.id(word)).collect();
    let method = LeftToRight { particles: 3, resample: 4 };
    let mut rng = generator(5, Purpose::Synth, 0, 0);
    for number in 0..30 {
        let (start, length) = (rng.random_range(0..seen.len() - 20), rng.random_range(0..14));
        let mut before = seen[start..start + length].to_vec();
        for word in &mut before {
            if rng.random_bool(0.2) {
                *word = rng.random_range(0..model.symbols.outcomes());
            }
        }
        let of_outcome = |outcome: u32| {
            let mut reading = Reading::begin(model, method, 1, number);
            for &word in &before {
                reading.next(word);
            }
            reading.next(outcome).exp()
        };
        let sum: f64 = (0..model.symbols.outcomes()).map(of_outcome).sum();
        assert!((sum - 1.0).abs() < 1e-4, "{name}: {sum} after {before:?}");
    }
}

#[test]
fn words_are_scored_as_they_come() {
    let folder = folder();
    let out = trained(folder.path(), MODELS[2], corpus(60));
    let mut child = sawmill()
        .arg("perplexity")
        .arg(&out)
        .arg("--stream")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sawmill starts");
    let (mut stdin, mut lines) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()).lines());
    let mut next = || lines.next().map(|line| line.expect("a line"));
    let text = "in spite of the Fast jet\n\n99 nonsense air\n";
    let (mut sum_ln, mut words) = (0.0, vec![]);
    let mut hear = |row: String| {
        let (word, p) = row.split_once('\t').expect("a word and its probability");
        sum_ln += p.parse::<f64>().expect("a number").ln();
        words.push(word.to_string());
    };
    // Each word is answered before the next one comes: otherwise this would wait for ever.
    for word in text.split_inclusive([' ', '\n']) {
        stdin.write_all(word.as_bytes()).unwrap();
        stdin.flush().unwrap();
        if word != "\n" {
            hear(next().expect("a row"));
        }
        if word.len() > 1 && word.ends_with('\n') {
            hear(next().expect("the end of the sentence"));
        }
    }
    drop(stdin);
    assert_eq!(next(), None);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(words, ["in", "spite", "of", "the", "fast", "jet", "</s>", "#", "nonsense", "air", "</s>"]);
    let file = write(folder.path(), "text", text);
    let whole = json(&out, &file, &["--format", "files"]);
    assert_eq!((&whole["tokens"], &whole["unknown"]), (&11.into(), &1.into()));
    assert!((whole["log_probability"].as_f64().unwrap() - sum_ln).abs() < 1e-4, "{whole} {sum_ln}");
}

#[test]
fn topics_phrases_and_contexts_are_shown() {
    for (model, has_global) in [(MODELS[0], false), (MODELS[1], true), (MODELS[2], true), (MODELS[5], true)] {
        let folder = folder();
        let out = trained(folder.path(), model, two_things(60));
        let (code, stdout, stderr) = run(sawmill().arg("show").arg(&out).args(["-n", "5"]));
        assert_eq!(code, 0, "{stderr}");
        let topics = stdout.lines().filter(|line| line.starts_with("topic ")).count();
        assert_eq!(topics, 3 + usize::from(has_global), "{stdout}");
        assert_eq!(stdout.contains("contexts by lambda"), has_global, "{stdout}");
        let (code, json, stderr) = run(sawmill().arg("show").arg(&out).args(["-n", "5", "--json"]));
        assert_eq!(code, 0, "{stderr}");
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["topics"].as_array().unwrap().len(), topics, "{json}");
        assert_eq!(json["topics"][0]["share"].is_null(), has_global, "{json}");
        for topic in json["topics"].as_array().unwrap() {
            let words: Vec<&str> =
                topic["words"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
            assert!(
                words.is_empty() || stdout.contains(&format!("words: {}\n", words.join(" | "))),
                "{topic} {stdout}"
            );
        }
        // Each thing has a topic whose phrases are all of it; the global model of SWITCHING may take one of them.
        let first = if has_global { "topic 1" } else { "topic 0" };
        let phrases: Vec<&str> = stdout
            .lines()
            .skip_while(|line| !line.starts_with(first))
            .filter_map(|line| line.strip_prefix("  phrases: "))
            .collect();
        let is_pure = |line: &&str, thing: &[&str]| {
            let mut words = line.split([' ', '|']).filter(|word| !word.is_empty());
            words.all(|word| thing.contains(&word))
        };
        let found = THINGS.iter().filter(|thing| phrases.iter().any(|line| is_pure(line, *thing))).count();
        assert!(found >= if model.contains("switching") { 1 } else { 2 }, "{model}: {stdout}");
        if !model.contains("switching") {
            let text = write(folder.path(), "text", "in spite of\n");
            let (code, stdout, stderr) = run(sawmill().arg("show").arg(&out).arg("--highlight").arg(text));
            assert_eq!((code, stdout.as_str()), (2, ""), "{stderr}");
            assert!(stderr.contains("--highlight is for SWITCHING"), "{stderr}");
        }
    }
}

#[test]
fn topical_words_are_highlighted() {
    let folder = folder();
    let out = trained(folder.path(), MODELS[2], corpus(60));
    let text = write(folder.path(), "text", "#DOC\td\n<s> In spite of the fast jet plane </s>\n\non behalf of a <b>\n");
    let show = |more: &[&str]| {
        let command = &mut sawmill();
        command.arg("show").arg(&out).arg("--highlight").arg(&text).args(["--format", "docs"]).args(more);
        let (code, stdout, stderr) = run(command);
        assert_eq!(code, 0, "{stderr}");
        stdout
    };
    let shown = show(&[]);
    let plain = shown.replace(['[', ']'], "");
    assert_eq!(plain, "In spite of the fast jet plane\non behalf of a <b>\n");
    let page = folder.path().join("page.html");
    assert_eq!(show(&["--html", page.to_str().unwrap()]), "");
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains(">In</span>") && html.contains(">&lt;b&gt;</span>"), "{html}");
    assert!(!html.contains("http"), "{html}");
}

#[test]
fn models_of_other_kinds_are_refused_by_name() {
    let folder = folder();
    let text = "a b c\nb c a\n".repeat(10);
    write(folder.path(), "text", &text);
    let lm = "kind = 'lm'\nshards = 1\nout = 'lm'\n[corpus]\ntrain = ['text']\n[model]\norder = 2\n[sampler]\nsweeps = 5\nburn_in = 1\n";
    let lda = "kind = 'topics'\nshards = 1\nout = 'lda'\n[corpus]\ntrain = ['text']\n[model]\ntopics = 2\n[sampler]\nsweeps = 5\n";
    for (name, job) in [("lm.toml", lm), ("lda.toml", lda)] {
        let (code, _, stderr) = run(sawmill().arg("run").arg(write(folder.path(), name, job)));
        assert_eq!(code, 0, "{stderr}");
    }
    let [lm, lda] = ["lm", "lda"].map(|name| folder.path().join(name));
    let (code, stdout, stderr) = run(sawmill().arg("show").arg(&lda));
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("topic 1, ") && stdout.contains("words: "), "{stdout}");
    let refused = |command: &mut std::process::Command, code: i32, words: &str| {
        let (found, stdout, stderr) = run(command);
        assert_eq!((found, stdout.as_str()), (code, ""), "{stderr}");
        assert!(stderr.contains(words), "{words}: {stderr}");
    };
    refused(sawmill().arg("show").arg(&lm), 3, "of kind hpylm; show is for models of kind lda, topic-ngrams, ");
    refused(sawmill().arg("show").arg(&lm).arg("--json"), 2, "--json is for topic models");
    refused(sawmill().arg("show").arg(&lda).arg("--highlight").arg("x"), 2, "--highlight is for SWITCHING");
    for (model, kind) in [(&lm, "hpylm"), (&lda, "lda")] {
        let words = format!("--stream is for topic n-gram models; this is a model of kind {kind}");
        refused(sawmill().arg("perplexity").arg(model).arg("--stream"), 2, &words);
    }
    refused(sawmill().arg("perplexity").arg(&lda).args(["--stream", "x"]), 2, "cannot be used with");
    refused(sawmill().arg("perplexity").arg(&lda), 2, "required arguments");
}
