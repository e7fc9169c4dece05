//! Parsers as a user sees them: the same model whatever happens on the way, quality, parses, scores, and bad input.

use std::path::{Path, PathBuf};
use std::process::Command;

use rand::RngExt;
use sawmill::cluster::rng::{Generator, Purpose, generator};
use serde_json::Value;

use crate::support::{
    Running, figure, folder, free_addresses, real_data, run, run_killed, sawmill, start, summary, write,
};

/// A sentence in the making: (form, tag, head, label), heads counted from 1.
type Words = Vec<(String, &'static str, usize, &'static str)>;

/// Adds a noun phrase; returns the place of its noun.
fn noun_phrase(words: &mut Words, rng: &mut Generator, depth: u32) -> usize {
    let det = rng
        .random_bool(0.7)
        .then(|| words.push((["the", "a", "this"][rng.random_range(0..3)].into(), "DET", 0, "det")));
    let first = words.len();
    let adjectives = rng.random_range(0..3usize).saturating_sub(1);
    (0..adjectives).for_each(|_| words.push((format!("adj{}ish", rng.random_range(0..30u32)), "ADJ", 0, "amod")));
    let noun = words.len() + 1;
    words[first - usize::from(det.is_some())..].iter_mut().for_each(|word| word.2 = noun);
    words.push((format!("n{}", rng.random_range(0..60u32)), "NOUN", 0, "root"));
    if depth < 2 && rng.random_bool(0.3) {
        let case = words.len();
        words.push((["of", "with"][rng.random_range(0..2)].into(), "ADP", 0, "case"));
        let other = noun_phrase(words, rng, depth + 1);
        (words[case].2, words[other - 1].2, words[other - 1].3) = (other, noun, "nmod");
    }
    noun
}

/// Sentences of a small grammar as CoNLL-U.
pub fn treebank(seed: u64, sentences: u64) -> String {
    let mut text = String::new();
    for sentence in 0..sentences {
        let mut rng = generator(seed, Purpose::Synth, sentence, 0);
        let mut words = vec![];
        let subject = noun_phrase(&mut words, &mut rng, 0);
        let verb = words.len() + 1;
        (words[subject - 1].2, words[subject - 1].3) = (verb, "nsubj");
        words.push((format!("v{}s", rng.random_range(0..40u32)), "VERB", 0, "root"));
        if rng.random_bool(0.6) {
            let object = noun_phrase(&mut words, &mut rng, 0);
            (words[object - 1].2, words[object - 1].3) = (verb, "obj");
        }
        words.push((".".into(), "PUNCT", verb, "punct"));
        text += &format!("# sent_id = {seed}-{sentence}\n");
        for (id, (form, tag, head, label)) in (1..).zip(words) {
            text += &format!("{id}\t{form}\t_\t{tag}\t_\t_\t{head}\t{label}\t_\t_\n");
        }
        text.push('\n');
    }
    text
}

/// A job over `train.conllu` and `test.conllu` in `folder`.
pub fn job(folder: &Path, more: &str) -> PathBuf {
    write(folder, "train.conllu", treebank(1, 400));
    write(folder, "test.conllu", treebank(2, 60));
    let text = format!(
        "kind = 'parser'\nseed = 3\nshards = 5\nout = 'out'\n[corpus]\ntrain = ['train.conllu']\ntest = ['test.conllu']\n{more}"
    );
    write(folder, "job.toml", text)
}

/// The model and the files of the report that hold nothing about speed.
pub fn results(out: &Path) -> Vec<Vec<u8>> {
    ["model", "report/scores.tsv", "report/depths.tsv"]
        .map(|name| std::fs::read(out.join(name)).expect("a result"))
        .to_vec()
}

/// `sawmill parse` of a text or file.
fn parse(model: &Path, input: &Path, more: &[&str]) -> (i32, String, String) {
    run(sawmill().arg("parse").arg(model).arg(input).args(more))
}

const SHORT: &str = "[sampler]\nsweeps = 12\nsync_every = 2\n[checkpoint]\nevery = 4\n";

#[test]
fn threads_and_processes_give_the_same_parser() {
    give_the_same_parser("tag_context = [['s1.t', 's1.w'], ['p1.t', 's2.t']]\noracle = 'static'");
}

#[test]
fn threads_and_processes_draw_the_same_derivations() {
    give_the_same_parser("tag_context = [['s1.t', 's1.w'], ['p1.t', 's2.t']]\noracle = 'sampled'");
}

const LEFT_CORNER: &str =
    "system = 'left-corner'\ntransition_context = ['s1.t', 'up(s1).t', 'lc1(s1).t', 'up(s2).t', 'lc1(s2).t']
tag_context = ['b.l', 'up(s1).t', 'lc1(s1).t', 'p1.t']\nword_context = ['b.t', 'b.l']";

#[test]
fn threads_and_processes_give_the_same_left_corner_parser() {
    give_the_same_parser(LEFT_CORNER);
}

#[test]
fn left_corner_keeps_to_its_bound_of_memory() {
    let folder = folder();
    let job = job(folder.path(), &format!("[model]\n{LEFT_CORNER}\nmax_memory = 2\n[sampler]\nsweeps = 5\n"));
    let out = folder.path().join("out");
    let (code, stderr) = start(&job, &out, &[]).end();
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("that need more memory than 2 left out"), "{stderr}");
    let (_, shown, _) =
        run(sawmill().arg("show").arg(&out).args(["--sentence", "the n1 of the n2 v3s a n4 with this n5 ."]));
    assert!(["1", "2"].iter().any(|most| shown.contains(&format!("at most {most} items on the stack"))), "{shown}");
    let sentences = sawmill().arg("generate").arg(&out).args(["-n", "20"]).output().expect("sentences");
    assert!(sentences.status.success(), "{}", String::from_utf8_lossy(&sentences.stderr));
    for (settings, message) in [
        ("[model]\nmax_memory = 2\n", "bounds the stack of left-corner"),
        ("[model]\nsystem = 'left-corner'\noracle = 'sampled'\n", "one derivation for each tree"),
        ("[model]\nsystem = 'arc-swift'\n", "left-corner"),
    ] {
        let job = self::job(folder.path(), settings);
        let (code, stderr) = start(&job, &out, &[]).end();
        assert_eq!(code, 2, "{settings}");
        assert!(stderr.contains(message), "{stderr}");
    }
}

fn give_the_same_parser(settings: &str) {
    let folder = folder();
    let job = job(folder.path(), &format!("[model]\n{settings}\n{SHORT}"));
    let mut expected = None;
    for workers in ["1", "2", "3", "7"] {
        let out = folder.path().join(format!("threads-{workers}"));
        let (code, stderr) = start(&job, &out, &["--workers", workers]).end();
        assert_eq!(code, 0, "{stderr}");
        let found = results(&out);
        assert!(expected.get_or_insert(found.clone()) == &found, "{workers} threads");
    }
    let hosts = write(folder.path(), "hosts", free_addresses(2).join("\n"));
    let out = folder.path().join("processes");
    let flags = |process: &'static str| ["--hosts", hosts.to_str().unwrap(), "--process", process, "--workers", "2"];
    for (code, stderr) in [start(&job, &out, &flags("0")), start(&job, &out, &flags("1"))].map(Running::end) {
        assert_eq!(code, 0, "{stderr}");
    }
    assert!(expected.as_ref().unwrap() == &results(&out), "2 processes");
    let summary = summary(&out);
    for key in
        ["uas", "las", "uas_nopunct", "las_nopunct", "tag_accuracy", "sentences_per_second", "train_tokens_per_second"]
    {
        assert!(summary[key].is_number(), "{key}: {summary}");
    }
    // Only the attachment of second modifiers is open.
    assert!(figure(&out, "uas") > 90.0 && figure(&out, "tag_accuracy") > 97.0, "{summary}");
}

#[test]
fn killed_at_any_moment_and_resumed_by_others_the_parser_is_the_same() {
    is_the_same_when_killed("static", 150);
}

#[test]
fn killed_at_any_moment_and_resumed_by_others_derivations_are_the_same() {
    is_the_same_when_killed("sampled", 30);
}

fn is_the_same_when_killed(oracle: &str, sweeps: u32) {
    let folder = folder();
    let settings = format!("[model]\noracle = '{oracle}'\n[sampler]\nsweeps = {sweeps}\n[checkpoint]\nevery = 7\n");
    let job = job(folder.path(), &settings);
    write(folder.path(), "train.conllu", treebank(1, 1200));
    let whole = folder.path().join("whole");
    assert_eq!(start(&job, &whole, &["--workers", "2"]).end().0, 0);
    let out = folder.path().join("killed");
    let kills = run_killed(&job, &out, &[], 4, 150..450);
    assert!(kills >= 2, "it was over after {kills} kills");
    assert!(results(&whole) == results(&out), "killed {kills} times");
}

#[test]
fn parses_do_not_depend_on_threads_and_are_scored() {
    let folder = folder();
    let job = job(folder.path(), "[sampler]\nsweeps = 5\n");
    let out = folder.path().join("out");
    assert_eq!(start(&job, &out, &["--set", "shards=1"]).end().0, 0);
    let test = folder.path().join("test.conllu");
    let (code, one, stderr) = parse(&out, &test, &["--workers", "1"]);
    assert_eq!(code, 0, "{stderr}");
    for more in [&["--workers", "2"][..], &["--workers", "5", "--particles", "1000"], &["--format", "conllu"]] {
        assert!(parse(&out, &test, more).1 == one, "{more:?}");
    }
    let system = write(folder.path(), "system.conllu", &one);
    let (code, scores, stderr) = run(sawmill().arg("score").arg(&test).arg(&system).arg("--json"));
    assert_eq!(code, 0, "{stderr}");
    let scores: Value = serde_json::from_str(&scores).expect("JSON");
    for (key, own) in [("uas", "uas"), ("las", "las"), ("upos", "tag_accuracy"), ("las_nopunct", "las_nopunct")] {
        assert!((scores[key].as_f64().unwrap() - figure(&out, own)).abs() < 1e-9, "{key}: {scores}");
    }
    // A file against itself, and against one with other words.
    let (_, same, _) = run(sawmill().arg("score").arg(&test).arg(&test));
    assert!(same.contains("UAS\t100.00\t100.00\nLAS\t100.00\t100.00\nUPOS\t100.00\t100.00"), "{same}");
    let (code, _, stderr) = run(sawmill().arg("score").arg(&test).arg(folder.path().join("train.conllu")));
    assert!(code == 3 && stderr.contains("sentences instead of"), "{code}: {stderr}");
    // Gold tags are kept where they are given, and the beam finds trees as good.
    let (_, given, _) = parse(&out, &test, &["--tags", "given", "--search", "beam", "--particles", "50"]);
    let given = write(folder.path(), "given.conllu", &given);
    let (_, scores, _) = run(sawmill().arg("score").arg(&test).arg(&given));
    assert!(scores.contains("UPOS\t100.00"), "{scores}");
}

/// Says `text` to `sawmill parse` on standard input.
fn parse_text(model: &Path, text: &str, more: &[&str]) -> (i32, String, String) {
    let folder = folder();
    parse(model, &write(folder.path(), "text", text), more)
}

/// Checks that heads are a tree with one root, and returns the number of words.
fn check_trees(text: &str) -> usize {
    let mut words = 0;
    for sentence in text.split("\n\n").filter(|sentence| !sentence.trim().is_empty()) {
        let rows = sentence.lines().filter(|line| !line.starts_with('#'));
        let heads: Vec<usize> = rows
            .map(|row| row.split('\t').collect::<Vec<_>>())
            .filter(|row| row[0].parse::<usize>().is_ok())
            .map(|row| row[6].parse().expect("a head"))
            .collect();
        assert_eq!(heads.iter().filter(|head| **head == 0).count(), 1, "{sentence}");
        for word in 1..=heads.len() {
            let (mut at, mut steps) = (word, 0);
            while at != 0 {
                at = heads[at - 1];
                steps += 1;
                assert!(steps <= heads.len(), "a circle in {sentence}");
            }
        }
        words += heads.len();
    }
    words
}

#[test]
fn every_text_gets_trees_or_a_clear_error() {
    let folder = folder();
    let job = job(folder.path(), "[sampler]\nsweeps = 3\n");
    let out = folder.path().join("out");
    assert_eq!(start(&job, &out, &["--set", "shards=2"]).end().0, 0);
    let (code, trees, stderr) = parse_text(&out, "the n1 v1s .\n\n  \nΞένος 日本語 🙂 ١٢٣\nx\n", &[]);
    assert_eq!((code, check_trees(&trees)), (0, 9), "{stderr}");
    assert!(trees.starts_with("# sent_id = 1\n# text = the n1 v1s .\n1\tthe\t_\tDET\t_\t_\t2\tdet\t_\t_\n"), "{trees}");
    let (code, trees, _) = parse_text(&out, &("n1 of ".repeat(5000) + "\n"), &["--particles", "10"]);
    assert_eq!((code, check_trees(&trees)), (0, 10_000));
    assert_eq!(parse_text(&out, "", &[]).0, 0);
    // Running text is cut into sentences and words first.
    let text = "The n1 v1s. \"A n2 v2s\", n3.\n\nn4!\n";
    let (code, trees, stderr) = parse_text(&out, text, &["--format", "running"]);
    assert_eq!((code, check_trees(&trees)), (0, 14), "{stderr}");
    assert!(trees.contains("# sent_id = 2\n# text = \" A n2 v2s \" , n3 .\n"), "{trees}");
    // Tags, heads and labels missing; multiword tokens, empty nodes and other columns stay.
    let rows = "# c\n1-2\tthen1\t_\t_\t_\t_\t_\t_\t_\tA=b\n1\tthe\tx\t_\ty\tF=g\t_\t_\t9:z\tM=n\n1.1\te\t_\t_\t_\t_\t_\t_\t_\t_\n2\tn1\t_\tQQ\t_\t_\t_\t_\t_\t_\n\n";
    let (code, trees, stderr) = parse_text(&out, rows, &["--tags", "given"]);
    assert_eq!((code, check_trees(&trees)), (0, 2), "{stderr}");
    assert!(trees.contains("1\tthe\tx\tDET\ty\tF=g\t2\tdet\t_\tM=n\n1.1\te") && trees.contains("A=b"), "{trees}");
    assert!(!trees.contains("QQ"), "{trees}");
    let (_, best, _) = parse_text(&out, "the n1 v1s n2 of n3 with n4 .\n", &["--best", "3"]);
    let ranks: Vec<f64> =
        best.lines().filter_map(|line| line.strip_prefix("# log_probability = ")?.parse().ok()).collect();
    assert!(!ranks.is_empty() && ranks.is_sorted_by(|a, b| a >= b), "{best}");
    // A broken row is told with its line, and the next sentence parsed.
    let (code, trees, stderr) = parse_text(&out, "1\tthe\n\n1\tn1\t_\t_\t_\t_\t_\t_\t_\t_\n", &["--format", "conllu"]);
    assert_eq!((code, check_trees(&trees)), (1, 1), "{stderr}");
    assert!(stderr.contains("text:1: column-count"), "{stderr}");
    // What is no parser.
    let (code, _, stderr) = parse(&job, &job, &[]);
    assert!(code == 3 && stderr.contains("not a model"), "{code}: {stderr}");
    let mut bytes = std::fs::read(out.join("model")).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    let damaged = write(folder.path(), "damaged", bytes);
    let (code, _, stderr) = parse(&damaged, &job, &[]);
    assert!(code == 3 && stderr.contains("damaged"), "{code}: {stderr}");
}

#[test]
fn odd_jobs_give_sensible_results_or_clear_errors() {
    let folder = folder();
    let job = job(folder.path(), "[sampler]\nsweeps = 2\n");
    let out = folder.path().join("out");
    let try_run = |more: &[&str]| start(&job, &out, &[&["--fresh"], more].concat()).end();
    for (setting, what) in [
        ("model.system='arc-hybrid'", "model.system"),
        ("model.particles=0", "model.particles"),
        ("model.tag_context=['b.t']", "not known before the word is shifted"),
        ("model.word_context=['s9.t']", "is no element of a context"),
        ("model.tag_context=[['s1.t'],['s2.t'],['s3.t'],['s4.t'],['s1.w']]", "1 to 4 contexts"),
        ("corpus.hold_out=5", "set one of them"),
        ("corpus.train=[]", "corpus.train"),
        ("corpus.non_projective='keep'", "non_projective"),
        ("shards=0", "shards"),
        ("model.lexicalised=false", "has no words"),
        ("model.contexts=[]", "unknown key"),
    ] {
        let (code, stderr) = try_run(&["--set", setting]);
        assert!(code == 2 && stderr.contains(what), "{setting}, {code}: {stderr}");
    }
    let (code, stderr) = try_run(&["--set", "model.lexicalised=false", "--set", "model.tags='gold'"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(figure(&out, "uas") > 80.0, "{}", summary(&out));
    // Crossing arcs are left out or lifted, and counted; what is no tree is told.
    let crossing = "1\ta\t_\tX\t_\t_\t3\td\t_\t_\n2\tb\t_\tX\t_\t_\t0\troot\t_\t_\n3\tc\t_\tX\t_\t_\t2\td\t_\t_\n4\td\t_\tX\t_\t_\t1\td\t_\t_\n\n";
    let circle = "1\ta\t_\tX\t_\t_\t2\td\t_\t_\n2\tb\t_\tX\t_\t_\t1\troot\t_\t_\n3\tb\t_\tX\t_\t_\t0\troot\t_\t_\n\n";
    write(folder.path(), "train.conllu", treebank(1, 20) + crossing + circle);
    for (how, sentences) in [("skip", 20.0), ("lift", 21.0)] {
        let (code, stderr) = try_run(&["--set", &format!("corpus.non_projective='{how}'")]);
        assert!(code == 1 && stderr.contains("cycle"), "{code}: {stderr}");
        assert_eq!((figure(&out, "training_sentences"), figure(&out, "non_projective")), (sentences, 1.0));
    }
    write(folder.path(), "train.conllu", "");
    let (code, stderr) = try_run(&[]);
    assert!(code == 3 && stderr.contains("no tree to train on"), "{code}: {stderr}");
}

#[test]
fn parsers_generate_predict_and_show() {
    let folder = folder();
    let job = job(folder.path(), "[sampler]\nsweeps = 5\n");
    let out = folder.path().join("out");
    let held_out = ["--set", "corpus.test=[]", "--set", "corpus.hold_out=10"];
    assert_eq!(start(&job, &out, &held_out).end().0, 0);
    assert_eq!((figure(&out, "sentences"), figure(&out, "training_sentences")), (40.0, 360.0));
    let model = out.to_str().unwrap();
    let say = |arguments: &[&str]| run(sawmill().args(arguments));
    // Sentences follow from the seed, are trees, and are listed by probability.
    let draw = |more: &[&str]| say(&[&["generate", model, "-n", "300"], more].concat()).1;
    let best = draw(&["--best", "5", "--min-length", "6"]);
    assert_eq!(best, draw(&["--best", "5", "--min-length", "6"]));
    assert!(check_trees(&best) >= 30, "{best}");
    let ranks: Vec<f64> =
        best.lines().filter_map(|line| line.strip_prefix("# log_probability = ")?.parse().ok()).collect();
    assert!(ranks.len() == 5 && ranks.is_sorted_by(|a, b| a >= b), "{best}");
    assert_eq!(draw(&["--text"]).lines().count(), 300);
    assert!(draw(&["--text", "--max-length", "3"]).lines().all(|line| line.split(' ').count() <= 3));
    // More particles find more of the probability; the sum is that of the sentences.
    let test = folder.path().join("test.conllu");
    let score = |more: &[&str]| say(&[&["perplexity", model, test.to_str().unwrap()], more].concat()).1;
    let perplexity = |particles: &str| -> f64 {
        let text = score(&["--json", "--particles", particles]);
        serde_json::from_str::<Value>(&text).expect("JSON")["perplexity"].as_f64().expect("a number")
    };
    let (few, many) = (perplexity("1"), perplexity("100000"));
    assert!(many <= few && many > 2.0 && few < 60.0, "{few} {many}");
    let rows = score(&["--sentences"]);
    assert!(rows.lines().count() == 62 && rows.contains("\ntotal\t"), "{rows}");
    let (code, shown, _) = say(&["show", model, "--sentence", "the n1 v1s qqq ."]);
    assert!(code == 0 && shown.contains("└─ v1s VERB root") && shown.contains("as <unk"), "{shown}");
    assert!(shown.contains("word\tderivations\nthe\t"), "{shown}");
    for wrong in [&["show", model][..], &["generate", model, "--prefix", "a"], &["perplexity", model, "x", "--tokens"]]
    {
        assert_eq!(say(wrong).0, 2, "{wrong:?}");
    }
}

/// English EWT, a short training.
#[test]
fn english_is_parsed_as_well_as_by_peers() {
    let Some(data) = real_data("english_is_parsed_as_well_as_by_peers") else { return };
    let folder = folder();
    let path =
        |part: &str| data.join(format!("treebanks/english/EWT/en_ewt-ud-{part}.conllu.xz")).display().to_string();
    let text = format!(
        "kind = 'parser'\nout = 'out'\n[corpus]\ntrain = ['{}']\ntest = ['{}']\n[model]\nparticles = 100\n[sampler]\nsweeps = 10\n",
        path("train"),
        path("test")
    );
    let job = write(folder.path(), "ewt.toml", text);
    let train = |name: &str, flags: &[&str]| {
        let out = folder.path().join(name);
        let mut command: Command = sawmill();
        command.arg("run").arg(&job).arg("--out").arg(&out).args(["--progress", "none"]).args(flags);
        let (code, _, stderr) = run(&mut command);
        assert_eq!(code, 0, "{stderr}");
        (figure(&out, "uas_nopunct"), figure(&out, "tag_accuracy"))
    };
    let (gold, _) = train("gold", &["--set", "model.tags='gold'"]);
    let (predicted, tags) = train("predicted", &[]);
    let (unlexicalised, _) = train("tags", &["--set", "model.tags='gold'", "--set", "model.lexicalised=false"]);
    assert!(gold > 84.0, "gold tags: {gold}");
    assert!(predicted > 80.0 && tags > 93.0, "predicted tags: {predicted}, {tags} of them right");
    assert!(unlexicalised < gold, "without words: {unlexicalised}");
}
