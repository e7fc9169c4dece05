//! Models put to use: perplexity of documents, and models of other programs.

use std::io::Read;
use std::path::{Path, PathBuf};

use sawmill::job::model_file;
use serde_json::Value;

use crate::support::{folder, run, sawmill, write};

/// A state of one topic: `a` three times, `b` twice, the unknown word once.
const STATE: &str = "#doc source pos typeindex type topic\n#alpha : 0.5\n#beta : 0.1\n\
    0 a file 0 0 a 0\n0 a file 1 1 b 0\n0 a file 2 0 a 0\n1 NA 0 2 <unk> 0\n1 NA 1 1 b 0\n1 NA 2 0 a 0\n";

fn import(folder: &Path, state: &str, more: &[&str]) -> (i32, String) {
    let (state, out) = (write(folder, "state", state), folder.join("imported"));
    let (code, _, stderr) = run(sawmill().arg("import").arg(state).arg("--out").arg(out).args(more));
    (code, stderr)
}

fn perplexity(model: &Path, file: &Path, more: &[&str]) -> (i32, String, String) {
    run(sawmill().arg("perplexity").arg(model).arg(file).args(more))
}

fn json(model: &Path, file: &Path, more: &[&str]) -> Value {
    let (code, stdout, stderr) = perplexity(model, file, &[more, &["--json"]].concat());
    assert_eq!(code, 0, "{stderr}");
    serde_json::from_str(&stdout).expect("JSON")
}

/// A run over documents about two things, with capitals and numbers in them.
fn trained(folder: &Path) -> PathBuf {
    let mut text = String::new();
    for i in 0..40 {
        let words = if i % 2 == 0 { "Sun moon STAR 17 sky" } else { "bread Milk 3.50 egg salt" };
        text += &format!("#DOC\td{i}\tc\n{words} {words} the\n{words} rare{i}\n");
    }
    write(folder, "corpus.txt", text);
    let job = "kind = 'topics'\nshards = 2\nout = 'out'\n[corpus]\ntrain = ['corpus.txt']\nformat = 'docs'\n\
        test = { hold_out = 6 }\nlowercase = true\nnumbers = '#'\nmin_count = 2\n[model]\ntopics = 3\n[sampler]\nsweeps = 40\n";
    let job = write(folder, "job.toml", job);
    let (code, _, stderr) = run(sawmill().arg("run").arg(job));
    assert_eq!(code, 0, "{stderr}");
    folder.join("out")
}

#[test]
fn what_is_counted_is_said_and_right() {
    let folder = folder();
    assert_eq!(import(folder.path(), STATE, &[]).0, 0);
    let (model, text) = (folder.path().join("imported"), write(folder.path(), "text", "a b x\n\na <unk>\n"));
    let found = json(&model, &text, &[]);
    // One topic: a word's probability is (n + 0.1) / (6 + 3 * 0.1), whatever stands before it.
    let ln = |count: f64| ((count + 0.1) / 6.3f64).ln();
    let (known, unknown) = (2.0 * ln(3.0) + ln(2.0), 2.0 * ln(1.0));
    let close = |key: &str, expected: f64| {
        let figure = found[key].as_f64().expect("a number");
        assert!((figure / expected - 1.0).abs() < 1e-5, "{key}: {figure}, not {expected}");
    };
    assert_eq!((&found["documents"], &found["tokens"], &found["unknown"]), (&2.into(), &5.into(), &2.into()));
    close("log_probability", known + unknown);
    close("log_probability_without_unknown", known);
    close("perplexity", (-(known + unknown) / 5.0).exp());
    close("perplexity_without_unknown", (-known / 3.0).exp());
    let (_, stdout, _) = perplexity(&model, &text, &[]);
    for line in ["documents: 2", "tokens: 5", "unknown words: 2 (40.00 %)", "(base e)", "; without unknown words "] {
        assert!(stdout.contains(line), "{line}: {stdout}");
    }
}

#[test]
fn a_run_scores_its_held_out_documents_as_it_did_itself() {
    let folder = folder();
    let out = trained(folder.path());
    let held_out = out.join("report/test-documents.txt");
    let summary: Value = serde_json::from_slice(&std::fs::read(out.join("report/summary.json")).unwrap()).unwrap();
    let found = json(&out, &held_out, &["--format", "docs", "--particles", "50"]);
    assert_eq!((&found["tokens"], &found["unknown"]), (&summary["test_tokens"], &summary["test_unknown"]));
    let figure = |value: &Value| value["perplexity"].as_f64().unwrap();
    assert!((figure(&found) / figure(&summary) - 1.0).abs() < 0.05, "{found} {summary}");
    // The same again, and from the model file itself; another seed is another estimate.
    let again = json(&out.join("model"), &held_out, &["--format", "docs", "--particles", "50"]);
    assert_eq!(found, again);
    let other = json(&out, &held_out, &["--format", "docs", "--particles", "50", "--seed", "2"]);
    assert_ne!(figure(&found), figure(&other));
    assert!((figure(&found) / figure(&other) - 1.0).abs() < 0.05, "{found} {other}");
}

#[test]
fn words_are_made_one_as_in_training() {
    let folder = folder();
    let out = trained(folder.path());
    let same = ["SUN Moon 99 sky", "sun moon 17 sky"].map(|text| json(&out, &write(folder.path(), "text", text), &[]));
    assert_eq!(same[0], same[1]);
    assert_eq!(same[0]["unknown"], 0);
}

#[test]
fn a_row_per_document_and_their_sum() {
    let folder = folder();
    let out = trained(folder.path());
    let text = write(folder.path(), "text", "id-1\tl\tsun moon\nid-2\tl\tbread zzz\n");
    let (code, stdout, _) = perplexity(&out, &text, &["--format", "mallet", "--documents"]);
    assert_eq!(code, 0);
    let rows: Vec<Vec<&str>> = stdout.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows[0][..4], ["file", "document", "tokens", "unknown"]);
    assert_eq!((rows[1][1], &rows[1][2..4]), ("id-1", &["2", "0"][..]));
    assert_eq!((rows[2][1], &rows[2][2..4]), ("id-2", &["2", "1"][..]));
    assert_eq!((rows[3][0], &rows[3][2..4]), ("total", &["4", "1"][..]));
    let number = |row: usize| rows[row][4].parse::<f64>().unwrap();
    assert!((number(1) + number(2) - number(3)).abs() < 1e-3);
    let found = json(&out, &text, &["--format", "mallet", "--documents"]);
    assert_eq!(found["by_document"][1]["document"], "id-2");
    assert_eq!(found["by_document"].as_array().unwrap().len(), 2);
}

#[test]
fn what_cannot_be_scored_is_named() {
    let folder = folder();
    assert_eq!(import(folder.path(), STATE, &[]).0, 0);
    let (model, text) = (folder.path().join("imported"), write(folder.path(), "text", "a b\n"));
    let refused = |model: &Path, text: &Path, more: &[&str], expected: i32, words: &str| {
        let (code, stdout, stderr) = perplexity(model, text, more);
        assert_eq!((code, stdout.as_str()), (expected, ""), "{stderr}");
        assert!(stderr.contains(words), "{words}: {stderr}");
    };
    let other = write(folder.path(), "other", model_file::pack("other", 1, &vec![1u8]).unwrap());
    refused(
        &other,
        &text,
        &[],
        3,
        "this is a model of kind other; perplexity is for models of kind lda, topic-ngrams, hpylm and parser",
    );
    refused(&text, &text, &[], 3, "text: this is not a model of sawmill");
    refused(&folder.path().join("none"), &text, &[], 3, "No such file");
    refused(folder.path(), &text, &[], 3, "there is no model in this folder");
    let mut bytes = std::fs::read(&model).unwrap();
    bytes.pop();
    refused(&write(folder.path(), "cut", bytes), &text, &[], 3, "damaged or cut off");
    let unsound = (vec![0u8; 0], 1u8);
    refused(&write(folder.path(), "odd", model_file::pack("lda", 1, &unsound).unwrap()), &text, &[], 3, "odd: ");
    refused(&model, &write(folder.path(), "empty", ""), &[], 3, "there is no word to score");
    refused(&model, &folder.path().join("none"), &[], 3, "none: No such file");
    refused(&model, &text, &["--particles", "0"], 2, "at least 1");
    refused(
        &model,
        &text,
        &["--format", "xml"],
        2,
        "[possible values: lines, blocks, files, mallet, docs, conllu, running]",
    );
    // A document that cannot be read is left out, and said.
    let (code, stdout, stderr) = perplexity(&model, &write(folder.path(), "broken", b"a b\ncaf\xe9\n"), &[]);
    assert_eq!(code, 1, "{stderr}");
    assert!(stdout.contains("documents: 1\n") && stderr.contains("broken:2: broken-encoding"), "{stdout} {stderr}");
    assert_eq!(perplexity(&model, &folder.path().join("broken"), &["--latin-1"]).0, 0);
}

#[test]
fn a_state_file_gives_the_model_back() {
    let folder = folder();
    let out = trained(folder.path());
    let imported = folder.path().join("imported");
    let mut plain = String::new();
    let packed = out.join("report/state.gz");
    flate2::read::GzDecoder::new(std::fs::File::open(&packed).unwrap()).read_to_string(&mut plain).unwrap();
    let flags = ["--lowercase", "--numbers", "#"];
    for state in [packed, write(folder.path(), "state", plain)] {
        let (code, stdout, stderr) = run(sawmill().arg("import").arg(&state).arg("--out").arg(&imported).args(flags));
        assert_eq!((code, stdout.trim()), (0, imported.to_str().unwrap()), "{stderr}");
        assert!(stderr.contains("3 topics"), "{stderr}");
        let held_out = out.join("report/test-documents.txt");
        let score = |model: &Path| json(model, &held_out, &["--format", "docs"]);
        assert_eq!(score(&imported), score(&out));
        assert_eq!(std::fs::read(&imported).unwrap(), std::fs::read(out.join("model")).unwrap());
    }
}

#[test]
fn a_state_that_is_not_right_is_refused_with_its_address() {
    let folder = folder();
    let refused = |from: &str, to: &str, words: &str| {
        let state = STATE.replacen(from, to, 1);
        assert_ne!(state, STATE, "{from} is in the state");
        let (code, stderr) = import(folder.path(), &state, &[]);
        assert_eq!(code, 3, "{stderr}");
        assert!(stderr.contains(words), "{words}: {stderr}");
        assert!(!folder.path().join("imported").exists(), "nothing is written");
    };
    refused("#alpha : 0.5\n", "", "state:3: bad-header: a token before the lines #alpha and #beta");
    refused("#beta : 0.1\n", "", "state:3: bad-header: a token before the lines #alpha and #beta");
    refused("0.5", "", "state:2: bad-header: alpha is for 0 topics");
    refused("0.5", "half", "state:2: bad-header: \"half\" is no positive number");
    refused("0.5", "0", "state:2: bad-header: \"0\" is no positive number");
    refused("0.1", "NaN", "state:3: bad-header: \"NaN\" is no positive number");
    refused("0.1", "0.1 0.1", "state:3: bad-header: beta is one number, not 2");
    refused("1 1 b 0", "1 1 b 1", "state:5: bad-field: topic \"1\" is no number below 1");
    refused("1 1 b 0", "1 1 b -1", "state:5: bad-field: topic \"-1\"");
    refused("1 1 b 0", "1 x b 0", "state:5: bad-field: typeindex \"x\" is no number");
    refused("1 1 b 0", "1 0 b 0", "state:5: bad-field: typeindex \"0\" is \"b\" here and \"a\" above");
    refused("1 1 b 0", "1 7 a 0", "state:5: bad-field: \"a\" has typeindex 7 here and 0 above");
    refused("1 1 b 0", "1 1  0", "state:5: bad-field: the type is empty");
    refused("0 a file 1 1 b 0", "0 1 b 0", "state:5: column-count: a line has document, source");
    refused(&STATE[STATE.find("0 a file").unwrap()..], "", "state:3: empty-file: there is no token");
    refused(STATE, "", "state:1: empty-file");
    let binary = write(folder.path(), "binary", b"ab\0c");
    let (code, _, stderr) = run(sawmill().arg("import").arg(binary).args(["--out", "x"]).current_dir(folder.path()));
    assert_eq!(code, 3);
    assert!(stderr.contains("byte 3 is NUL"), "{stderr}");
    // A packed state that was cut off, a folder in the place of the model, and no model named.
    let out = trained(folder.path());
    let packed = std::fs::read(out.join("report/state.gz")).unwrap();
    let cut = write(folder.path(), "cut.gz", &packed[..packed.len() / 2]);
    let (code, _, stderr) = run(sawmill().arg("import").arg(cut).args(["--out", "x"]).current_dir(folder.path()));
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains("cut.gz:") && stderr.contains("unreadable"), "{stderr}");
    let state = write(folder.path(), "state", STATE);
    assert_eq!(run(sawmill().arg("import").arg(&state).arg("--out").arg(folder.path())).0, 2);
    assert_eq!(run(sawmill().arg("import").arg(&state)).0, 2);
    let (code, stderr) = import(folder.path(), STATE, &["--numbers", "a b"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("--numbers"), "{stderr}");
}
