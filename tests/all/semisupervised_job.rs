//! Parsers that learn from raw text, as a user sees them: the same model whatever happens on the way, what learns and what
//! stays, and odd text.

use std::path::{Path, PathBuf};

use sawmill::parser::model::ParserModel;
use serde_json::Value;

use crate::parser_job::treebank;
use crate::support::{Running, folder, free_addresses, run, run_killed, sawmill, start, summary, wait_until, write};

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
pub fn job(folder: &Path, more: &str) -> PathBuf {
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
pub fn results(out: &Path) -> Vec<Vec<u8>> {
    let read = |name: &str| std::fs::read(out.join(name)).expect("a result");
    ["model", "report/scores.tsv", "report/perplexity.tsv"].map(read).to_vec()
}

#[test]
fn threads_and_processes_give_the_same_parser() {
    let folder = folder();
    let job = job(folder.path(), "passes = 2\nlearn = 'all'\ngibbs_sweeps = 3\ntune = 10\n");
    let contexts = "model.word_context=[['b.t','p1.w','s1.w'],['b.t','s1.w','s1.t','s2.w']]";
    let mut expected = None;
    for workers in ["1", "2", "7"] {
        let out = folder.path().join(format!("threads-{workers}"));
        let (code, stderr) = start(&job, &out, &["--workers", workers, "--set", contexts]).end();
        assert_eq!(code, 0, "{stderr}");
        let found = results(&out);
        assert!(expected.get_or_insert(found.clone()) == &found, "{workers} threads");
    }
    let hosts = write(folder.path(), "hosts", free_addresses(2).join("\n"));
    let out = folder.path().join("processes");
    let flags = |process: &'static str| {
        ["--hosts", hosts.to_str().unwrap(), "--process", process, "--workers", "2", "--set", contexts]
    };
    for (code, stderr) in [start(&job, &out, &flags("0")), start(&job, &out, &flags("1"))].map(Running::end) {
        assert_eq!(code, 0, "{stderr}");
    }
    assert!(expected.as_ref().unwrap() == &results(&out), "2 processes");
    let (_, status, _) = run(sawmill().arg("status").arg(&out));
    assert!(status.contains("progress: 100 %, particle Gibbs, sweep 3 of 3, about 0 s"), "{status}");
    assert!(status.contains("last checkpoint: gibbs, sweep 3"), "{status}");
    assert!(status.contains(" words per second (particle Gibbs);"), "{status}");
    assert!(status.contains("test perplexity of the n-gram model: "), "{status}");
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

/// The sentences of `raw_text` as documents of paragraphs with wrapped lines.
fn wrapped(seed: u64, documents: u64) -> String {
    let mut text = String::new();
    for document in 0..documents {
        text += &format!("#DOC\td{document}\n");
        for paragraph in raw_text(seed + document, 12).lines().collect::<Vec<_>>().chunks(3) {
            let capitalised = |sentence: &&str| sentence[..1].to_uppercase() + &sentence[1..] + ".";
            let words = paragraph.iter().map(capitalised).collect::<Vec<_>>().join(" ");
            for (place, word) in words.split(' ').enumerate() {
                text += word;
                text.push(if place % 7 == 6 { '\n' } else { ' ' });
            }
            text += "\n\n";
        }
    }
    text
}

#[test]
fn documents_of_wrapped_lines_are_the_same_text_for_all_workers() {
    let folder = folder();
    let job = job(folder.path(), "learn = 'all'\n");
    write(folder.path(), "docs-1.txt", wrapped(20, 30));
    write(folder.path(), "docs-2.txt", wrapped(50, 25));
    let mut expected = None;
    for workers in ["1", "2", "5"] {
        let out = folder.path().join(workers);
        let settings =
            ["raw.train=['docs-*.txt']", "raw.test=[]", "raw.format='docs'", "raw.cut='wrapped'", "raw.hold_out=9"];
        let flags: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
        let (code, stderr) = start(&job, &out, &[&flags[..], &["--workers", workers]].concat()).end();
        assert_eq!(code, 0, "{stderr}");
        let summary = summary(&out);
        let sentences = ["raw_sentences", "test_sentences"].map(|key| summary[key].as_u64());
        assert_eq!(sentences, [Some(49 * 12), Some(6 * 12)], "{stderr}");
        let found = (results(&out), summary["ngram_perplexity"].clone(), summary["interpolated_perplexity"].clone());
        assert!(found.1.is_number() && found.2.is_number(), "{summary}");
        assert!(expected.get_or_insert(found.clone()) == &found, "{workers} workers");
    }
}

/// The stages of which the metrics tell, one for each line.
fn stages_told(out: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(out.join("metrics.jsonl")).unwrap_or_default();
    let stage = |line: &str| Some(serde_json::from_str::<Value>(line).ok()?["stage"].as_str()?.to_string());
    text.lines().filter_map(stage).collect()
}

#[test]
fn killed_in_every_kind_of_stage_the_parser_is_the_same() {
    let folder = folder();
    let job = job(folder.path(), "passes = 2\nlearn = 'all'\ngibbs_sweeps = 3\nrounds = 20\n");
    write(folder.path(), "raw.txt", raw_text(3, 800));
    let settings = [
        "raw.sweeps=16",
        "raw.particles=20",
        "model.particles=50",
        "model.tag_context=[['s1.t','s2.t'],['p1.t','p1.w']]",
        "model.word_context=[['b.t','p1.w'],['b.t','s1.w']]",
        "raw.tune=40",
    ];
    let flags: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    let start = |out: &Path, more: &[&str]| start(&job, out, &[&flags[..], more].concat());
    let whole = folder.path().join("whole");
    let (code, stderr) = start(&whole, &["--workers", "2"]).end();
    assert_eq!(code, 0, "{stderr}");
    let out = folder.path().join("killed");
    let mut hit = vec![];
    let stages = ["treebank", "parses-1", "ngram", "learning-1-0", "learning-1-3", "parses-2", "learning-2-4", "gibbs"];
    for (stage, workers) in stages.iter().zip(["1", "3", "2"].iter().cycle()) {
        let mut child = start(&out, &["--resume", "--workers", workers]);
        while !stages_told(&out).iter().any(|told| told == stage) {
            assert!(child.try_wait().unwrap().is_none(), "it was over before {stage}");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        hit.extend(stages_told(&out).pop());
    }
    let (code, stderr) = start(&out, &["--resume", "--workers", "2"]).end();
    assert_eq!(code, 0, "{stderr}");
    assert!(results(&whole) == results(&out), "killed in {hit:?}");
    hit.dedup();
    assert!(hit.len() >= 4, "stages are too short: {hit:?}");
}

/// Also where the change is so small that only whoever reads all of it can see it.
#[test]
fn trees_of_other_text_are_not_resumed_from() {
    let folder = folder();
    let job = job(folder.path(), "rounds = 20\n");
    let (text, trees) = (raw_text(3, 4000), treebank(1, 800));
    write(folder.path(), "raw.txt", &text);
    write(folder.path(), "train.conllu", &trees);
    let out = folder.path().join("killed");
    let mut child = start(&job, &out, &["--workers", "2"]);
    wait_until("parses", || stages_told(&out).iter().any(|stage| stage == "parses-1"));
    child.kill().unwrap();
    child.wait().unwrap();
    for (name, content, old, new) in
        [("raw.txt", text, "the ", "new "), ("train.conllu", trees, "\tNOUN\t", "\tVERB\t")]
    {
        let at = content.rfind(old).unwrap();
        assert!(at > 1 << 16, "{name} ends at {at}");
        write(folder.path(), name, content[..at].to_string() + new + &content[at + old.len()..]);
        for workers in ["1", "2"] {
            let (code, stderr) = start(&job, &out, &["--resume", "--workers", workers]).end();
            assert_eq!(code, 2, "{name}: {stderr}");
            assert!(stderr.contains("other inputs") && stderr.contains(name), "{stderr}");
        }
        write(folder.path(), name, content);
    }
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
    assert_eq!(start(&job, &out, &["--fresh", "--set", "raw.learn='all'"]).end().0, 0);
    let all = ParserModel::load(&out).expect("a parser").kept;
    assert_ne!(all.hierarchies[..2], alone.hierarchies[..2]);
    // A word of raw text alone has found its tag.
    let text = write(folder.path(), "text", "the new12 v1s a new21 .\n");
    let (code, trees, stderr) = run(sawmill().arg("parse").arg(&out).arg(&text));
    assert_eq!(code, 0, "{stderr}");
    assert!(trees.contains("2\tnew12\t_\tNOUN\t") && trees.contains("5\tnew21\t_\tNOUN\t"), "{trees}");
}

#[test]
fn what_contexts_weigh_is_learned_from_text_of_its_own() {
    let folder = folder();
    let job = job(folder.path(), "learn = 'all'\n");
    let out = folder.path().join("out");
    // What stands deep on the stack says less of a tag than what is on top of it; words have one context.
    let contexts = ["--set", "model.tag_context=[['s3.t','s4.t'],['s1.t','s2.t','p1.w']]"];
    let (code, stderr) = start(&job, &out, &contexts).end();
    assert_eq!(code, 0, "{stderr}");
    let equal = summary(&out);
    assert_eq!(
        (&equal["tuning_sentences"], equal["context_weights"].as_object().map(|all| all.len())),
        (&0.into(), Some(0))
    );
    let (code, stderr) = start(&job, &out, &[&contexts[..], &["--fresh", "--set", "raw.tune=5"]].concat()).end();
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("to learn from what contexts weigh, 100 with "), "{stderr}");
    let tuned = summary(&out);
    assert_eq!((&tuned["raw_sentences"], &tuned["tuning_sentences"]), (&400.into(), &100.into()));
    let weights: Vec<f64> = serde_json::from_value(tuned["context_weights"]["tag"].clone()).expect("weights");
    assert!(weights.len() == 2 && weights[1] > 0.8, "{weights:?}");
    assert!(tuned["context_weights"].as_object().is_some_and(|all| all.len() == 1), "{tuned}");
    let perplexity = |summary: &Value| summary["perplexity_by_word"].as_f64().expect("a perplexity");
    assert!(perplexity(&tuned) < 0.95 * perplexity(&equal), "{} {}", perplexity(&tuned), perplexity(&equal));
    let page = std::fs::read_to_string(out.join("report/index.html")).unwrap();
    assert!(page.contains("What contexts weigh") && page.contains("s1.t s2.t p1.w"), "{page}");
    // Too few documents are said, and nothing is weighed.
    let few = ["--fresh", "--set", "raw.tune=2000", "--set", "raw.test=[]", "--set", "raw.hold_out=1000"];
    let (code, stderr) = start(&job, &out, &[&contexts[..], &few].concat()).end();
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("raw.tune is 2000, and there are 500 documents: none is set aside"), "{stderr}");
    assert!(stderr.contains("no raw text to test on (raw.hold_out is 1000, and there are 500 documents)"), "{stderr}");
    assert_eq!(summary(&out)["context_weights"], serde_json::json!({}));
    // Where there is nothing to weigh, no text is left out for it.
    for (setting, reason) in
        [("raw.tune=5", "no distribution that learns has several"), ("raw.tune=1", "nothing to train on")]
    {
        let (code, stderr) = start(&job, &out, &["--set", setting]).end();
        assert!(code == 2 && stderr.contains(reason), "{stderr}");
    }
}

#[test]
fn a_parser_and_an_ngram_model_predict_together() {
    let folder = folder();
    let job = job(folder.path(), "");
    let (parser, ngram) = (folder.path().join("parser"), folder.path().join("ngram"));
    assert_eq!(start(&job, &parser, &["--set", "ngram.order=0"]).end().0, 0);
    // It has more to learn from than the parser, so that it has something to add.
    write(folder.path(), "more.txt", raw_text(7, 2000));
    let text = "kind = 'lm'\n[corpus]\ntrain = ['raw.txt', 'more.txt']\n[model]\norder = 3\n[sampler]\nsweeps = 10\n";
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
    // A model that knows hardly a word is not praised for predicting that words are unknown.
    write(folder.path(), "foreign.txt", "x y z .\n".repeat(300));
    let text = text.replace("'raw.txt', 'more.txt'", "'foreign.txt'");
    assert_eq!(start(&write(folder.path(), "foreign.toml", text), &folder.path().join("foreign"), &[]).end().0, 0);
    let foreign = perplexity(&["--interpolate", "foreign", "--tune", "dev.txt"]);
    assert!(foreign["unknown_ngram"].as_u64() > Some(200) && foreign["unknown_parser"] == 0, "{foreign}");
    assert!(foreign["tokens"].as_u64() < foreign["all_tokens"].as_u64(), "{foreign}");
    assert!(foreign["weight"].as_f64() > Some(0.9), "{foreign}");
    let command = |more: &[&str]| {
        let mut command = sawmill();
        run(command.current_dir(folder.path()).args(["perplexity", "ngram", "held-out.txt"]).args(more))
    };
    let (code, _, stderr) = command(&["--interpolate", "ngram"]);
    assert!(code == 2 && stderr.contains("is for parsers"), "{code}: {stderr}");
    assert_eq!(command(&["--interpolate", "ngram", "--weight", "2"]).0, 2);
    let (code, _, stderr) = command(&["--format", "running"]);
    assert!(code == 2 && stderr.contains("are for parsers"), "{code}: {stderr}");
}

#[test]
fn a_parser_scores_text_as_it_stands() {
    let folder = folder();
    let job = job(folder.path(), "");
    assert_eq!(start(&job, &folder.path().join("out"), &["--set", "ngram.order=0"]).end().0, 0);
    let score = |text: &str, more: &[&str]| {
        write(folder.path(), "text", text);
        let mut command = sawmill();
        run(command.current_dir(folder.path()).args(["perplexity", "out", "text", "--json"]).args(more))
    };
    let figures = |text: &str, more: &[&str]| {
        let (code, stdout, stderr) = score(text, more);
        assert_eq!(code, 0, "{stderr}");
        let value: Value = serde_json::from_str(&stdout).expect("JSON");
        ["sentences", "tokens", "unknown"].map(|key| value[key].as_u64().unwrap_or_else(|| panic!("{key}: {value}")))
    };
    let tokenised = "the n11 v1s .\nthe n12 v2s .\n";
    assert_eq!(figures(tokenised, &[]), [2, 10, 0]);
    assert_eq!(figures(tokenised, &["--format", "lines"]), [2, 10, 0]);
    assert_eq!(figures("The n11 v1s. The n12 v2s.\n", &["--format", "running"]), [2, 10, 0]);
    // What looks like a comment, and a line of blanks, before text.
    assert_eq!(figures(&format!("  \n# the n11\n\n{tokenised}"), &[])[..2], [3, 14]);
    let (code, _, stderr) = score(tokenised, &["--format", "docs"]);
    assert!(code == 2 && stderr.contains("--format lines, conllu or running"), "{stderr}");
    let (code, _, stderr) = score("\n", &[]);
    assert!(code == 3 && stderr.contains("no sentence to score"), "{stderr}");
}

/// The text of a run, as it was cut, is what its figures are of.
#[test]
fn the_sentences_of_a_run_can_be_scored_again() {
    let folder = folder();
    let job = job(folder.path(), "");
    write(folder.path(), "docs.txt", wrapped(20, 30));
    let out = folder.path().join("out");
    let settings = [
        "raw.train=['docs.txt']",
        "raw.test=[]",
        "raw.format='docs'",
        "raw.cut='wrapped'",
        "raw.hold_out=7",
        "raw.tune=5",
        "ngram.order=0",
        "model.word_context=[['b.t','p1.w'],['b.t','s1.w']]",
    ];
    let flags: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    let (code, stderr) = start(&job, &out, &flags).end();
    assert_eq!(code, 0, "{stderr}");
    let figures = summary(&out);
    let export = |part: &str, more: &[&str]| {
        run(sawmill().arg("export").arg(&out).args(["--format", "sentences", "--of", part]).args(more))
    };
    for (part, name) in [("train", "raw"), ("tune", "tuning"), ("test", "test")] {
        let (code, text, stderr) = export(part, &[]);
        assert_eq!(code, 0, "{stderr}");
        let [sentences, words] = [text.lines().count(), text.split_whitespace().count()];
        assert!(sentences > 0 && !text.contains('#'), "{text}");
        assert_eq!(figures[format!("{name}_sentences")], sentences, "{part}");
        assert_eq!(figures[format!("{name}_words")], words, "{part}");
    }
    let test = folder.path().join("test.txt.gz");
    assert_eq!(export("test", &["--out", test.to_str().unwrap()]).0, 0);
    let (code, stdout, stderr) =
        run(sawmill().arg("perplexity").arg(&out).arg(&test).args(["--format", "lines", "--json"]));
    assert_eq!(code, 0, "{stderr}");
    let scored: Value = serde_json::from_str(&stdout).expect("JSON");
    for key in ["perplexity", "perplexity_by_word"] {
        let [one, other] = [&scored[key], &figures[key]].map(|value| value.as_f64().expect("a perplexity"));
        assert!((one / other - 1.0).abs() < 1e-9, "{key}: {one} {other}");
    }
    let refused = |arguments: &[&str], reason: &str| {
        let (code, _, stderr) = run(sawmill().arg("export").arg(&out).args(arguments));
        assert!(code == 2 && stderr.contains(reason), "{code}: {stderr}");
    };
    refused(&["--format", "sentences"], "needs --of train, tune or test");
    refused(&["--format", "arpa", "--of", "test"], "--of is for --format sentences");
    std::fs::remove_file(folder.path().join("docs.txt")).unwrap();
    let (code, _, stderr) = export("test", &[]);
    assert!(code == 3 && stderr.contains("docs.txt"), "{code}: {stderr}");
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
        let (code, stderr) = start(&job, &out, &["--fresh", "--set", &format!("raw.cut='{cut}'")]).end();
        assert_eq!(code, 1, "{stderr}");
        assert!(stderr.contains("raw.txt:104: broken-encoding"), "{stderr}");
        assert_eq!(summary(&out)["raw_left_out"], 1);
        assert_eq!(summary(&out)["raw_cut"], 1);
        assert!(summary(&out)["raw_sentences"].as_u64().is_some_and(|n| n >= 202), "{stderr}");
    }
    write(folder.path(), "raw.txt", "\n \n");
    let (code, stderr) = start(&job, &out, &["--fresh"]).end();
    assert!(code == 3 && stderr.contains("no raw text to train on"), "{code}: {stderr}");
    for (setting, what) in [
        ("raw.train=[]", "raw.train"),
        ("raw.hold_out=5", "set one of them"),
        ("raw.passes=0", "raw.passes"),
        ("ngram.burn_in=6", "ngram.burn_in"),
        ("raw.max_words=0", "raw.max_words"),
        ("model.tags='gold'", "has no tags"),
        ("raw.cut='words'", "raw.cut"),
    ] {
        let (code, stderr) = start(&job, &out, &["--set", setting]).end();
        assert!(code == 2 && stderr.contains(what), "{setting}, {code}: {stderr}");
    }
}

#[test]
fn every_so_many_th_document_is_held_out_wherever_it_stands() {
    let folder = folder();
    let job = job(folder.path(), "");
    let out = folder.path().join("out");
    let few = ["--set", "raw.test=[]", "--set", "sampler.sweeps=1", "--set", "raw.sweeps=1"];
    for file in 0..4u64 {
        write(folder.path(), &format!("part-{file}.txt"), raw_text(file, 20));
        // A line that is no text, of a document of which everything else stays.
        let text = format!("#DOC\ta\n{}#DOC\tb\n", raw_text(file, 10)).into_bytes();
        write(
            folder.path(),
            &format!("docs-{file}.txt"),
            [&text[..], b"\xff\n", raw_text(file, 7).as_bytes()].concat(),
        );
    }
    for (files, format, hold_out, sentences, left_out) in
        [("part-*.txt", "files", 2, (40, 40), 0), ("docs-*.txt", "docs", 4, (4 * 17 - 14, 14), 2)]
    {
        let settings =
            [format!("raw.train=['{files}']"), format!("raw.format='{format}'"), format!("raw.hold_out={hold_out}")];
        let flags: Vec<&str> =
            settings.iter().flat_map(|setting| ["--set", setting]).chain(few).chain(["--fresh"]).collect();
        let (code, stderr) = start(&job, &out, &flags).end();
        assert_eq!(code, i32::from(left_out > 0), "{stderr}");
        let summary = summary(&out);
        let figure = |key: &str| summary[key].as_u64().unwrap_or_else(|| panic!("{key}: {summary}"));
        assert_eq!((figure("raw_sentences"), figure("test_sentences")), sentences, "{stderr}");
        // Half of them are in documents that are held out.
        assert_eq!((figure("raw_left_out"), figure("test_left_out")), (left_out, left_out), "{stderr}");
        assert!(summary["ngram_perplexity"].as_f64().is_some(), "{summary}");
    }
    // Where nothing is held out, there is nothing to compare.
    let trees = ["--fresh", "--set", "corpus.test=[]", "--set", "corpus.hold_out=10"];
    let (code, stderr) = start(&job, &out, &[&few[..], &trees].concat()).end();
    assert!(code == 0 && stderr.contains("no raw text to test on"), "{stderr}");
    let summary = summary(&out);
    assert!(summary["ngram_perplexity"].is_null(), "{summary}");
    // Trees are held out, too.
    assert!(summary["stages"][1]["test"]["uas"].as_f64().is_some_and(|uas| uas > 80.0), "{summary}");
}
