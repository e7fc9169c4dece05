//! Grammar induction as a user sees it: the same grammars whatever happens on the way, quality, parses, and bad input.

use std::path::{Path, PathBuf};

use rand::RngExt;
use sawmill::cluster::rng::{Purpose, generator};
use serde_json::Value;

use crate::support::{Running, figure, folder, free_addresses, real_data, run, run_killed, sawmill, start, write};

/// A sentence: words with tags and heads, as CoNLL-U.
fn rows(id: &str, words: &[(&str, &str, usize)]) -> String {
    let mut text = format!("# sent_id = {id}\n");
    for (number, (form, tag, head)) in (1..).zip(words) {
        text += &format!("{number}\t{form}\t_\t{tag}\t{tag}\t_\t{head}\tdep\t_\t_\n");
    }
    text + "\n"
}

/// Sentences of a small grammar: (D) (A) N V (D) (A) N (.), nouns under verbs, the rest under nouns.
fn treebank(seed: u64, sentences: u64) -> String {
    let mut text = String::new();
    for sentence in 0..sentences {
        let mut rng = generator(seed, Purpose::Synth, sentence, 0);
        let mut words: Vec<(&str, &str, usize)> = vec![];
        let mut phrase = |words: &mut Vec<(&'static str, &'static str, usize)>| {
            let first = words.len();
            rng.random_bool(0.8).then(|| words.push((["the", "a"][rng.random_range(0..2)], "D", 0)));
            rng.random_bool(0.4).then(|| words.push(("old", "A", 0)));
            words.push((["dog", "cat", "bird"][rng.random_range(0..3)], "N", 0));
            let noun = words.len();
            words[first..noun - 1].iter_mut().for_each(|word| word.2 = noun);
            noun
        };
        let subject = phrase(&mut words);
        let verb = words.len() + 1;
        words[subject - 1].2 = verb;
        words.push((["sees", "runs"][rng.random_range(0..2)], "V", 0));
        if rng.random_bool(0.6) {
            let mut more = vec![];
            let before = words.len();
            rng.random_bool(0.8).then(|| more.push(("the", "D", 0)));
            more.push(("mouse", "N", 0));
            let noun = before + more.len();
            more.iter_mut().for_each(|word| word.2 = noun);
            more.last_mut().unwrap().2 = verb;
            words.extend(more);
        }
        words.push((".", "PUNCT", verb));
        text += &rows(&format!("{seed}-{sentence}"), &words);
    }
    text
}

/// Sentences of five to ten words in no order: so many different ones that shards are cut into pieces.
fn jumble(seed: u64, sentences: u64) -> String {
    let words = [("the", "D"), ("old", "A"), ("dog", "N"), ("cat", "N"), ("sees", "V")];
    let sentence = |number: u64| {
        let mut rng = generator(seed, Purpose::Synth, number, 1);
        let length = rng.random_range(5..11);
        let word = |at: usize| (words[rng.random_range(0..words.len())], at);
        let drawn: Vec<_> = (0..length).map(word).map(|((form, tag), head)| (form, tag, head)).collect();
        rows(&format!("jumble-{number}"), &drawn)
    };
    (0..sentences).map(sentence).collect()
}

/// A job over `train.conllu`, `heldout.conllu` and `test.conllu` in `folder`.
pub fn job(folder: &Path, more: &str) -> PathBuf {
    write(folder, "train.conllu", treebank(1, 200));
    write(folder, "heldout.conllu", treebank(2, 30));
    write(folder, "test.conllu", treebank(3, 60));
    let text = format!(
        "kind = 'induction'\nseed = 3\nshards = 5\nout = 'out'\n[corpus]\ntrain = ['train.conllu']\n\
         heldout = ['heldout.conllu']\ntest = ['test.conllu']\n{more}"
    );
    write(folder, "job.toml", text)
}

/// The model and the files of the report that hold nothing about speed.
pub fn results(out: &Path) -> Vec<Vec<u8>> {
    ["model", "report/runs.tsv", "report/winners.tsv", "report/dependents.tsv"]
        .map(|name| std::fs::read(out.join(name)).expect("a result"))
        .to_vec()
}

const SMALL: &str = "[model]\ntype = 'levg'\nsmoothing = 'skip-head'\nlexicalise_from = 40\n\
                     [estimation]\ngroups = 3\nrestarts = 3\nprune_after = 8\nruns = 2\n[checkpoint]\nevery = 20\n";

#[test]
fn threads_processes_and_what_is_spread_give_the_same_grammars() {
    let folder = folder();
    let job = job(folder.path(), SMALL);
    write(folder.path(), "train.conllu", treebank(1, 200) + &jumble(4, 300));
    let mut expected = None;
    for spread in ["restarts", "sentences"] {
        for workers in ["1", "2", "3", "7"] {
            let out = folder.path().join(format!("{spread}-{workers}"));
            let spread = format!("estimation.spread='{spread}'");
            let (code, stderr) = start(&job, &out, &["--workers", workers, "--set", &spread]).end();
            assert_eq!(code, 0, "{stderr}");
            let found = results(&out);
            assert!(expected.get_or_insert(found.clone()) == &found, "{workers} threads, {spread}");
        }
        let hosts = write(folder.path(), "hosts", free_addresses(2).join("\n"));
        let out = folder.path().join(format!("{spread}-processes"));
        let spread = format!("estimation.spread='{spread}'");
        let flags = |process: &'static str| {
            let hosts = hosts.to_str().unwrap();
            ["--hosts", hosts, "--process", process, "--workers", "2", "--set", &spread].map(String::from)
        };
        let processes = ["0", "1"].map(|process| {
            let flags = flags(process);
            start(&job, &out, &flags.iter().map(String::as_str).collect::<Vec<_>>())
        });
        for (code, stderr) in processes.map(Running::end) {
            assert_eq!(code, 0, "{stderr}");
        }
        assert!(expected.as_ref().unwrap() == &results(&out), "2 processes, {spread}");
        for key in
            ["directed_accuracy", "directed_accuracy_sd", "undirected_accuracy", "free_energy", "sentences_per_second"]
        {
            assert!(figure(&out, key).is_finite(), "{key}");
        }
    }
}

/// A weight of three is what naming the file three times is, but that occurrences of words are counted as they are.
#[test]
fn a_weight_is_what_naming_a_file_so_often_is() {
    let folder = folder();
    let job = job(folder.path(), SMALL);
    let results_of = |name: &str, settings: &[&str]| {
        let out = folder.path().join(name);
        let flags: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
        let (code, stderr) = start(&job, &out, &flags).end();
        assert_eq!(code, 0, "{stderr}");
        // The model keeps the settings, which differ.
        (results(&out)[1..].to_vec(), figure(&out, "free_energy"), figure(&out, "training_sentences"), stderr)
    };
    let once = results_of("once", &[]);
    let weighted = results_of("weighted", &["estimation.weight=3.0"]);
    let file = "corpus.train=['train.conllu', 'train.conllu', 'train.conllu']";
    let thrice = results_of("thrice", &[file, "model.lexicalise_from=120"]);
    assert!(weighted.0 == thrice.0 && weighted.1 == thrice.1);
    assert_eq!((once.2, weighted.2, thrice.2), (200.0, 200.0, 600.0));
    assert!(weighted.3.contains("to train on, each counted 3 times"), "{}", weighted.3);
    assert!(once.0 != weighted.0 && once.1 < weighted.1, "{} and {}", once.1, weighted.1);
    // A run with another weight is another job.
    let out = folder.path().join("once");
    let (code, stderr) = start(&job, &out, &["--resume", "--set", "estimation.weight=3.0"]).end();
    assert!(code == 2 && stderr.contains("weight"), "{code}: {stderr}");
}

/// Grammars whose process is killed again and again, and goes on with other numbers of workers.
fn kill_and_resume(spread: &str) {
    let folder = folder();
    let job = job(
        folder.path(),
        "[model]\ntype = 'evg'\nsmoothing = 'skip-val'\n[estimation]\ngroups = 6\nrestarts = 30\nprune_after = 40\nruns = 2\n\
         [checkpoint]\nevery = 10\n",
    );
    write(folder.path(), "train.conllu", treebank(1, 1000));
    let whole = folder.path().join("whole");
    assert_eq!(start(&job, &whole, &["--workers", "2", "--set", spread]).end().0, 0);
    let out = folder.path().join("killed");
    let kills = run_killed(&job, &out, &["--set", spread], 3, 100..350);
    assert!(kills >= 1, "{spread}: it was over after {kills} kills");
    assert!(results(&whole) == results(&out), "{spread}: killed {kills} times");
}

#[test]
fn killed_at_any_moment_and_resumed_by_others_the_grammars_of_spread_restarts_are_the_same() {
    kill_and_resume("estimation.spread='restarts'");
}

#[test]
fn killed_at_any_moment_and_resumed_by_others_the_grammars_of_spread_sentences_are_the_same() {
    kill_and_resume("estimation.spread='sentences'");
}

#[test]
fn every_model_learns_a_small_grammar() {
    let folder = folder();
    let job = job(folder.path(), "[estimation]\ngroups = 4\nrestarts = 5\nprune_after = 20\nruns = 1\n");
    let mut energies = vec![];
    for (number, settings) in [
        &["model.type='dmv'"][..],
        &["model.type='dmv'", "model.smoothing='skip-head'", "model.max_depth=1"],
        &["model.type='evg'", "model.smoothing='skip-val'"],
        &["model.type='dmv'", "estimation.initialiser='harmonic'"],
        &["model.type='evg'", "estimation.initialiser='harmonic'", "estimation.method='em'", "corpus.heldout=[]"],
    ]
    .iter()
    .enumerate()
    {
        let out = folder.path().join(format!("model-{number}"));
        let flags: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
        let (code, stderr) = start(&job, &out, &flags).end();
        assert_eq!(code, 0, "{settings:?}: {stderr}");
        // Which end of an arc is its head is not in the data, but what goes together is.
        let undirected = figure(&out, "undirected_accuracy");
        assert!(undirected > 50.0, "{settings:?}: {undirected}");
        energies.push(figure(&out, "free_energy"));
    }
    // Random restarts find what the harmonic start does, or better.
    assert!(energies[0] <= energies[3] + 1e-6, "{energies:?}");
}

/// Heads of all words, and whether each sentence is a tree with one root.
fn heads(text: &str) -> Vec<Vec<usize>> {
    let sentences = text.split("\n\n").filter(|sentence| !sentence.trim().is_empty());
    let head = |row: &str| row.split('\t').nth(6).expect("a head").parse().expect("a number");
    let of = |sentence: &str| sentence.lines().filter(|line| !line.starts_with('#')).map(head).collect();
    sentences.map(of).collect()
}

#[test]
fn grammars_parse_and_are_shown() {
    let folder = folder();
    let job = job(folder.path(), "[estimation]\ngroups = 2\nrestarts = 5\nprune_after = 20\nruns = 1\n");
    let out = folder.path().join("out");
    assert_eq!(start(&job, &out, &[]).end().0, 0);
    let test = folder.path().join("test.conllu");
    let parse = |input: &Path, more: &[&str]| run(sawmill().arg("parse").arg(&out).arg(input).args(more));
    let (code, one, stderr) = parse(&test, &["--workers", "1"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(parse(&test, &["--workers", "3"]).1 == one);
    let parsed = heads(&one);
    assert_eq!(parsed.len(), 60);
    assert!(parsed.iter().all(|heads| heads.iter().filter(|head| **head == 0).count() == 1), "{one}");
    // The report's accuracy is that of the parses, without punctuation.
    let system = write(folder.path(), "system.conllu", &one);
    let (code, scores, stderr) = run(sawmill().arg("score").arg(&test).arg(&system).arg("--json"));
    assert_eq!(code, 0, "{stderr}");
    let scores: Value = serde_json::from_str(&scores).expect("JSON");
    assert!((scores["uas_nopunct"].as_f64().unwrap() - figure(&out, "directed_accuracy")).abs() < 1e-9, "{scores}");
    let (code, risk, _) = parse(&test, &["--choose", "minimum-risk"]);
    assert_eq!((code, heads(&risk).len()), (0, 60));
    // Tags that were never seen, words and tags in columns, only punctuation, no tags.
    let odd = "the D\ndog N\nquickly XYZ\n\n. PUNCT\n! PUNCT\n\n";
    let (code, trees, stderr) = parse(&write(folder.path(), "odd.txt", odd), &[]);
    assert_eq!((code, heads(&trees).iter().map(Vec::len).collect::<Vec<_>>()), (0, vec![3, 2]), "{stderr}");
    let untagged = "1\tthe\t_\t_\t_\t_\t_\t_\t_\t_\n\n1\tdog\t_\tN\tN\t_\t_\t_\t_\t_\n\n";
    let (code, trees, stderr) = parse(&write(folder.path(), "untagged.conllu", untagged), &[]);
    assert_eq!((code, heads(&trees)), (1, vec![vec![0]]), "{stderr}");
    assert!(stderr.contains("untagged.conllu:1: bad-field: `the` has no tag in column upos"), "{stderr}");
    for flags in [&["--particles", "5"][..], &["--format", "text"], &["--tags", "predict"], &["--best", "2"]] {
        let (code, _, stderr) = parse(&test, flags);
        assert!(code == 2 && stderr.contains("induced grammar"), "{flags:?}, {code}: {stderr}");
    }
    let (code, shown, _) = run(sawmill().arg("show").arg(&out).args(["-n", "2"]));
    assert!(code == 0 && shown.starts_with("DMV: 4 tags; free energy") && shown.contains("\nleft: "), "{shown}");
}

/// Tags cannot tell whether nouns or determiners are heads; the job file can.
#[test]
fn function_words_have_no_dependents() {
    let folder = folder();
    let settings = "[model]\nfunction_tags = ['D', 'A', 'X']\nmax_depth = 2\n\
                    [estimation]\ngroups = 3\nrestarts = 5\nprune_after = 20\nruns = 1\n";
    let job = job(folder.path(), settings);
    // Four sentences of function words alone, one of them of one word: in three, one of the words is the head.
    let alone =
        rows("a", &[("the", "D", 2), ("old", "A", 0), (".", "PUNCT", 2)]).repeat(3) + &rows("b", &[("a", "D", 0)]);
    write(folder.path(), "train.conllu", treebank(1, 200) + &alone);
    let out = folder.path().join("out");
    let (code, stderr) = start(&job, &out, &["--workers", "2"]).end();
    assert!(code == 0 && stderr.contains("in the 3 sentences that have no other words"), "{code}: {stderr}");
    assert_eq!(figure(&out, "function_sentences"), 3.0);
    assert!(figure(&out, "function_words") > 200.0);
    let text = treebank(3, 60) + &alone;
    let test = write(folder.path(), "more.conllu", &text);
    for choice in ["viterbi", "minimum-risk"] {
        let (code, parsed, stderr) = run(sawmill().arg("parse").arg(&out).arg(&test).args(["--choose", choice]));
        assert_eq!(code, 0, "{stderr}");
        let parsed = heads(&parsed);
        assert!(parsed.iter().all(|heads| heads.iter().filter(|head| **head == 0).count() == 1));
        for (sentence, heads) in text.split("\n\n").zip(&parsed[..60]) {
            let tags: Vec<&str> = sentence.lines().filter_map(|row| row.split('\t').nth(3)).collect();
            // A full stop depends on the word before it, which is never a function word here.
            let is_head = |word: usize| heads.contains(&(word + 1));
            assert!((0..tags.len()).all(|word| !(is_head(word) && ["D", "A"].contains(&tags[word]))), "{sentence}");
        }
    }
    let (_, shown, _) = run(sawmill().arg("show").arg(&out));
    assert!(shown.contains("left-corner depth at most 2, function words (D A X) without dependents"), "{shown}");
    // None of the words has one of the tags: that is said, and nothing else changes.
    let (code, stderr) = start(&job, &out, &["--fresh", "--set", "model.function_tags=['DET']"]).end();
    assert!(code == 0 && stderr.contains("none has a tag of model.function_tags"), "{code}: {stderr}");
}

#[test]
fn odd_jobs_give_sensible_results_or_clear_errors() {
    let folder = folder();
    let job = job(folder.path(), "[estimation]\ngroups = 1\nrestarts = 2\nprune_after = 3\nruns = 1\n");
    let out = folder.path().join("out");
    let try_run = |more: &[&str]| start(&job, &out, &[&["--fresh"], more].concat()).end();
    for (setting, what) in [
        ("model.type='cfg'", "unknown variant"),
        ("model.smoothing='skip-val'", "skip-val"),
        ("estimation.groups=0", "estimation.groups"),
        ("estimation.tolerance=0.0", "estimation.tolerance"),
        ("estimation.weight=0.0", "estimation.weight is 0; it has to be above 0"),
        ("estimation.weight=-3.0", "estimation.weight is -3;"),
        ("estimation.weight=inf", "estimation.weight is inf;"),
        ("estimation.weight=nan", "estimation.weight is NaN;"),
        ("corpus.max_length=1", "corpus.max_length"),
        ("corpus.train=[]", "corpus.train"),
        ("shards=0", "shards"),
        ("model.depth=2", "unknown key"),
    ] {
        let (code, stderr) = try_run(&["--set", setting]);
        assert!(code == 2 && stderr.contains(what), "{setting}, {code}: {stderr}");
    }
    let train = |text: &str| {
        write(folder.path(), "train.conllu", text);
        try_run(&[])
    };
    // No tags at all, in one sentence, one-word sentences only, nothing short enough, nothing.
    let untagged = "1\tthe\t_\t_\tDT\t_\t2\td\t_\t_\n2\tdog\t_\t_\tNN\t_\t0\td\t_\t_\n\n";
    let (code, stderr) = train(untagged);
    assert!(code == 3 && stderr.contains("no tag in column upos") && stderr.contains("xpos"), "{code}: {stderr}");
    let (code, stderr) = train(&(treebank(1, 20) + untagged));
    assert!(code == 1 && stderr.contains("train.conllu:") && stderr.contains("bad-field"), "{code}: {stderr}");
    assert_eq!((figure(&out, "training_sentences"), figure(&out, "skipped")), (20.0, 1.0));
    let (code, stderr) = train(&rows("a", &[("yes", "I", 0), (".", "PUNCT", 1)]).repeat(5));
    assert!(code == 3 && stderr.contains("two words or more"), "{code}: {stderr}");
    let (code, stderr) = train(&rows("a", &[("w", "X", 0); 11]));
    assert!(code == 3 && stderr.contains("corpus.max_length"), "{code}: {stderr}");
    let (code, stderr) = train("");
    assert!(code == 3 && stderr.contains("no tagged sentence"), "{code}: {stderr}");
    // Tags that training has not are counted, and parsed all the same.
    let (code, stderr) = train(&rows("a", &[("dog", "N", 2), ("runs", "V", 0)]).repeat(3));
    assert_eq!(code, 0, "{stderr}");
    assert!(figure(&out, "unseen_test_words") > 0.0);
    assert_eq!(figure(&out, "test_sentences"), 60.0);
    // Heads are needed to test on only.
    let (code, stderr) = train("dog N\nruns V\n\ndog N\nruns V\n\n");
    assert_eq!(code, 0, "{stderr}");
    write(folder.path(), "test.conllu", "dog N\nruns V\n\n");
    let (code, stderr) = try_run(&[]);
    assert!(code == 1 && stderr.contains("there is no tree to score against"), "{code}: {stderr}");
}

/// English EWT with few restarts, and with content words as heads, as Universal Dependencies have it.
#[test]
fn english_is_induced_better_than_by_adjacent_words() {
    let Some(data) = real_data("english_is_induced_better_than_by_adjacent_words") else { return };
    let folder = folder();
    let test = data.join("treebanks/english/EWT/en_ewt-ud-test.conllu.xz").display().to_string();
    let text = format!(
        "kind = 'induction'\nout = 'out'\n[corpus]\ntrain = ['{test}']\ntest = ['{test}']\n\
         [model]\nfunction_tags = ['ADP', 'AUX', 'CCONJ', 'DET', 'PART', 'PRON', 'SCONJ']\n\
         [estimation]\ngroups = 1\nrestarts = 8\nprune_after = 30\nruns = 4\n"
    );
    let job = write(folder.path(), "ewt.toml", text);
    let out = folder.path().join("out");
    assert_eq!(start(&job, &out, &["--workers", "2"]).end().0, 0);
    assert!(figure(&out, "directed_accuracy") > figure(&out, "next_word_accuracy") + 10.0);
}
