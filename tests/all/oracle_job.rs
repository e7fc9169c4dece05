//! The oracle job as a user sees it: command line, run folder, report.

use std::collections::BTreeMap;
use std::path::Path;

use sawmill::corpus::conll::Reader;
use sawmill::corpus::piece::Block;
use sawmill::corpus::synth::{Grammar, Language};
use sawmill::transition::embedding::Embedding;
use serde_json::Value;

use crate::support::{conllu, folder, real_data, run, sawmill, write};

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))).unwrap()
}

#[test]
fn the_quickstart_ends_with_a_report_of_18_languages() {
    let folder = folder();
    let out = folder.path().join("run");
    let (code, stdout, stderr) =
        run(sawmill().arg("run").arg(repository().join("jobs/quickstart.toml")).arg("--out").arg(&out));
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(stdout.trim(), out.join("report/index.html").canonicalize().unwrap().display().to_string());
    let summary = json(&out.join("report/summary.json"));
    let languages = summary["treebanks"].as_object().unwrap();
    assert_eq!(languages.len(), 18);
    let mean = |name: &str, system: &str| languages[name]["memory_cost"][system]["original"]["mean"].as_f64().unwrap();
    // What the languages were made to show.
    for direction in ["initial", "mixed", "final"] {
        let cost = |rate: &str| mean(&format!("{direction}-flat-{rate}"), "left-corner");
        assert!(cost("e0") < cost("e10") && cost("e10") < cost("e30"), "{direction}");
        let within_3 =
            &languages[&format!("{direction}-deep-e0")]["memory_cost"]["left-corner"]["original"]["percent_within"][2];
        assert_eq!(within_3, 100.0, "nothing is embedded, so nothing costs more than 3");
    }
    assert!(mean("initial-deep-e0", "arc-standard") > 2.0 * mean("final-deep-e0", "arc-standard"));
    let manifest = json(&out.join("manifest.json"));
    assert_eq!((&manifest["state"], &manifest["seed"]), (&"done".into(), &1.into()));
    assert_eq!(manifest["inputs"].as_array().unwrap().len(), 0, "artificial treebanks follow from the job");
    let (code, stdout, _) = run(sawmill().arg("status").arg(&out));
    assert_eq!(code, 0);
    assert!(stdout.contains("oracle job, done") && stdout.contains("index.html"), "{stdout}");
}

#[test]
fn the_table_has_the_promised_columns_and_every_configuration() {
    let folder = folder();
    write(folder.path(), "a.conllu", conllu("one", &[2, 0, 2]) + &conllu("two", &[0]));
    let job = write(folder.path(), "job.toml", "kind = 'oracle'\nout = 'out'\n[treebanks]\ntiny = 'a.conllu'\n");
    assert_eq!(run(sawmill().arg("run").arg(job)).0, 0);
    let table = std::fs::read_to_string(folder.path().join("out/report/memory-cost.tsv")).unwrap();
    assert_eq!(table.lines().next(), Some("treebank\tsystem\torder\tcost\tconfigurations"));
    let mut sums = BTreeMap::new();
    for line in table.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        assert_eq!(columns.len(), 5);
        assert!(["original", "reordered"].contains(&columns[2]));
        *sums.entry((columns[1].to_string(), columns[2].to_string())).or_insert(0) +=
            columns[4].parse::<u32>().unwrap();
    }
    // 2 (n + 1) - 1 configurations per sentence of n words.
    assert_eq!(sums.len(), 6);
    assert!(sums.values().all(|&sum| sum == 7 + 3), "{sums:?}");
}

#[test]
fn settings_reach_the_result() {
    let folder = folder();
    let sentence = "1\tA\t_\tNOUN\t_\t_\t2\tnsubj\t_\t_\n2\tb\t_\tVERB\t_\t_\t0\troot\t_\t_\n3\t?\t_\tPUNCT\t_\t_\t2\tpunct\t_\t_\n4\tc\t_\tNOUN\t_\t_\t3\tdep\t_\t_\n\n";
    write(folder.path(), "a.conllu", sentence.to_string() + &conllu("long", &[0, 1, 2, 3, 4, 5]));
    let job = write(folder.path(), "job.toml", "kind = 'oracle'\nout = 'out'\n[treebanks]\nx = 'a.conllu'\n");
    let summary = |set: &str| {
        let (code, _, stderr) = run(sawmill().arg("run").arg(&job).args(["--fresh", "--set", set]));
        assert_eq!(code, 0, "{stderr}");
        json(&folder.path().join("out/report/summary.json"))["treebanks"]["x"].clone()
    };
    assert_eq!(summary("oracle.max_length=5")["skipped"]["max_length"], 1);
    assert_eq!(summary("oracle.punctuation=drop")["tokens_used"], 9);
    let plain = summary("oracle.reorder=0");
    assert!(plain["memory_cost"]["left-corner"].get("reordered").is_none());
    assert_eq!(summary("oracle.systems=['arc-eager']")["memory_cost"].as_object().unwrap().len(), 1);
    let thrice = &summary("oracle.reorder=3")["memory_cost"]["arc-eager"];
    assert_eq!(thrice["reordered"]["configurations"], 3 * thrice["original"]["configurations"].as_u64().unwrap());
    let resolved = std::fs::read_to_string(folder.path().join("out/job.toml")).unwrap();
    assert!(resolved.contains("reorder = 3"), "{resolved}");
}

#[test]
fn a_dry_run_shows_the_plan_and_writes_nothing() {
    let folder = folder();
    write(folder.path(), "a.conllu", conllu("one", &[0]));
    let job = write(folder.path(), "job.toml", "kind = 'oracle'\nout = 'out'\n[treebanks]\nx = 'a.conllu'\n");
    let (code, stdout, _) = run(sawmill().arg("run").arg(job).args(["--dry-run", "--workers", "3"]));
    assert_eq!(code, 0);
    for word in ["x: 1 inputs", "a.conllu", "3 workers", "MB of memory", "run folder"] {
        assert!(stdout.contains(word), "{word}: {stdout}");
    }
    assert!(!folder.path().join("out").exists());
}

#[test]
fn what_is_done_is_not_done_again_and_other_settings_are_refused() {
    let folder = folder();
    let job = write(
        folder.path(),
        "job.toml",
        "kind = 'oracle'\nout = 'out'\n[treebanks]\nx = { synth = { sentences = 50 } }\n",
    );
    let try_run = |more: &[&str]| run(sawmill().arg("run").arg(&job).args(more));
    assert_eq!(try_run(&[]).0, 0, "there is nothing yet: it starts");
    for more in [&[][..], &["--resume"]] {
        let (code, stdout, stderr) = try_run(more);
        assert_eq!(code, 0);
        assert!(stderr.contains("done already") && stdout.contains("report/index.html"), "{stderr}");
    }
    let (code, _, stderr) = try_run(&["--set", "seed=2"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("seed: 1 -> 2") && stderr.contains("--fresh"), "{stderr}");
    // The job as it was understood can be run again from where it lies.
    let (code, _, stderr) = run(sawmill().arg("run").arg(folder.path().join("out/job.toml")));
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("done already"), "{stderr}");
    // An input that has changed is not passed over.
    let file = write(folder.path(), "a.conllu", conllu("one", &[0]));
    let job = write(folder.path(), "job.toml", "kind = 'oracle'\nout = 'out2'\n[treebanks]\nx = 'a.conllu'\n");
    assert_eq!(run(sawmill().arg("run").arg(&job)).0, 0);
    std::fs::write(file, conllu("one", &[0, 1])).unwrap();
    let (code, _, stderr) = run(sawmill().arg("run").arg(&job));
    assert_eq!(code, 2);
    assert!(stderr.contains("other inputs") && stderr.contains("a.conllu"), "{stderr}");
}

#[test]
fn a_run_that_dies_leaves_no_result_of_another_job() {
    let folder = folder();
    let job = |sentences: &str| {
        write(
            folder.path(),
            "job.toml",
            format!("kind = 'oracle'\nout = 'out'\n[treebanks]\nx = {{ synth = {{ sentences = {sentences} }} }}\n"),
        )
    };
    assert_eq!(run(sawmill().arg("run").arg(job("20"))).0, 0);
    let mut child =
        sawmill().arg("run").arg(job("100000000")).arg("--fresh").stderr(std::process::Stdio::null()).spawn().unwrap();
    let metrics = folder.path().join("out/metrics.jsonl");
    crate::support::wait_until("the second run is under way", || {
        std::fs::read_to_string(&metrics).is_ok_and(|m| m.contains("bytes_total"))
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let (_, status, _) = run(sawmill().arg("status").arg(folder.path().join("out")));
    assert!(status.contains("died") && !status.contains("index.html"), "{status}");
    assert_eq!(run(sawmill().arg("report").arg(folder.path().join("out"))).0, 3);
}

#[test]
fn two_runs_into_one_folder_are_refused() {
    let folder = folder();
    let job = write(
        folder.path(),
        "job.toml",
        "kind = 'oracle'\nout = 'out'\n[treebanks]\nx = { synth = { sentences = 20 } }\n",
    );
    let mut first = sawmill().arg("run").arg(&job).arg("--watch").stderr(std::process::Stdio::null()).spawn().unwrap();
    crate::support::wait_until("the first run is there", || folder.path().join("out/report/index.html").exists());
    let (code, _, stderr) = run(sawmill().arg("run").arg(&job));
    let (_, status, _) = run(sawmill().arg("status").arg(folder.path().join("out")));
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(code, 2);
    assert!(stderr.contains("another run is writing"), "{stderr}");
    assert!(status.contains("watching"), "{status}");
    let (_, status, _) = run(sawmill().arg("status").arg(folder.path().join("out")));
    assert!(status.contains("died"), "{status}");
}

#[test]
fn a_report_is_made_again_and_runs_are_compared() {
    let folder = folder();
    let job = write(folder.path(), "job.toml", "kind = 'oracle'\n[treebanks]\nx = { synth = { sentences = 50 } }\n");
    let out = |name: &str| folder.path().join(name);
    for (name, set) in [("a", "seed=1"), ("b", "seed=2")] {
        assert_eq!(run(sawmill().arg("run").arg(&job).arg("--out").arg(out(name)).args(["--set", set])).0, 0);
    }
    let page = out("a").join("report/index.html");
    let before = std::fs::read(&page).unwrap();
    std::fs::remove_dir_all(out("a").join("report")).unwrap();
    assert_eq!(run(sawmill().arg("report").arg(out("a"))).0, 0);
    assert_eq!(std::fs::read(&page).unwrap(), before);
    let (code, ..) = run(sawmill().arg("report").arg(out("a")).arg(out("b")).arg("-o").arg(out("both.html")));
    assert_eq!(code, 0);
    assert!(std::fs::read_to_string(out("both.html")).unwrap().contains("left-corner"));
    let (code, _, stderr) = run(sawmill().arg("report").arg(folder.path()));
    assert_eq!(code, 2);
    assert!(stderr.contains("is not a run folder"), "{stderr}");
}

#[test]
fn synth_makes_the_structure_that_was_asked_for() {
    let (code, text, _) =
        run(sawmill().args(["synth", "treebank", "-n", "300", "--length", "15", "--head-final", "1", "--seed", "4"]));
    assert_eq!(code, 0);
    assert_eq!(
        run(sawmill().args(["synth", "treebank", "-n", "300", "--length", "15", "--head-final", "1", "--seed", "4"])).1,
        text
    );
    let (mut sentences, mut words) = (0, 0);
    Reader::default().read(&Block { first_line: 1, text: text.into_bytes(), ..Block::default() }, |s| {
        assert!(s.problems.is_empty());
        assert!(s.tree.is_projective() && s.tree.roots() == 1);
        assert!((1..=s.tree.words()).all(|w| s.tree.head(w) > w), "every head is behind its dependents");
        sentences += 1;
        words += s.tokens.len();
    });
    assert_eq!(sentences, 300);
    assert!((13..17).contains(&(words / 300)), "mean length {}", words / 300);
    let (code, _, stderr) = run(sawmill().args(["synth", "treebank", "--head-final", "1.5"]));
    assert_eq!(code, 2);
    assert!(stderr.contains("head-final = 1.5 is not a probability"), "{stderr}");
}

#[test]
fn without_center_embedding_nothing_is_embedded_and_with_it_much_is() {
    let degrees = |rate: f64, head_final: f64| {
        let grammar = Grammar { center_embedding: rate, head_final, branching: 3.0, ..Grammar::default() };
        let language = Language { name: "x".into(), seed: 1, grammar };
        let mut text = Vec::new();
        (0..500).for_each(|index| language.write_sentence(index, &mut text));
        let (mut embedding, mut order, mut sum) = (Embedding::default(), vec![], 0);
        Reader::default().read(&Block { first_line: 1, text, ..Block::default() }, |s| {
            s.tree.top_down(&mut order);
            sum += embedding.degree(s.tree, &order);
        });
        sum
    };
    for head_final in [0.1, 0.5, 0.9] {
        assert_eq!(degrees(0.0, head_final), 0);
        assert!(degrees(0.3, head_final) > 100);
    }
}

/// Percentages for cost 1 to 5 in the original order, on development and test sets, as first published for these data.
#[test]
fn real_treebanks_give_the_known_percentages() {
    let Some(data) = real_data("real_treebanks_give_the_known_percentages") else { return };
    let folder = folder();
    let data = data.display();
    let job = format!(
        "kind = 'oracle'\nout = 'out'\n[oracle]\nreorder = 0\n[treebanks]\n\
         english = ['{data}/treebanks/english/EWT/*-dev*', '{data}/treebanks/english/EWT/*-test*']\n\
         japanese = '{data}/treebanks/japanese/GSD/*.conllu*'\narabic = '{data}/treebanks/arabic/PADT/*.conllu*'\n\
         spanish = '{data}/treebanks/spanish/conll2007/esp.train*'\n"
    );
    let job = write(folder.path(), "job.toml", job);
    assert_eq!(run(sawmill().arg("run").arg(job)).0, 0);
    let summary = json(&folder.path().join("out/report/summary.json"));
    let within = |treebank: &str, system: &str| -> Vec<f64> {
        let percents = &summary["treebanks"][treebank]["memory_cost"][system]["original"]["percent_within"];
        percents.as_array().unwrap().iter().take(5).map(|p| p.as_f64().unwrap()).collect()
    };
    let expected = [
        ("english", "left-corner", [60.6, 95.0, 99.7, 100.0, 100.0]),
        ("english", "arc-eager", [51.4, 75.3, 89.2, 95.9, 98.5]),
        ("english", "arc-standard", [20.7, 47.9, 67.0, 81.4, 90.4]),
        ("japanese", "left-corner", [47.8, 89.0, 98.8, 99.9, 100.0]),
        ("japanese", "arc-standard", [21.2, 54.8, 78.3, 91.4, 96.9]),
    ];
    for (treebank, system, percents) in expected {
        let found = within(treebank, system);
        assert!(found.iter().zip(percents).all(|(a, b)| (a - b).abs() < 0.1), "{treebank} {system}: {found:?}");
    }
    assert!((within("arabic", "left-corner")[2] - 95.7).abs() < 0.05);
    // Just short of 98: 97.97 was found with the test part of CoNLL 2007, which is not in this file.
    assert!((97.9..98.0).contains(&within("spanish", "left-corner")[2]));
}
