//! Language models as a user sees them: the same model whatever happens on the way, quality, and bad input.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rand::RngExt;
use sawmill::cluster::rng::{Purpose, generator};
use sawmill::lm::history::History;
use sawmill::lm::model::LanguageModel;

use crate::support::{
    Running, figure, folder, free_addresses, real_data, run, run_killed, sawmill, start, summary, write,
};

/// Sentences out of a small grammar of words, some of them rare.
fn corpus(seed: u64, sentences: u64) -> String {
    let mut text = String::new();
    for sentence in 0..sentences {
        let mut rng = generator(seed, Purpose::Synth, sentence, 0);
        let mut state = rng.random_range(0..6u32);
        for _ in 0..rng.random_range(1..15u32) {
            let word = if rng.random_bool(0.1) { rng.random_range(0..200) } else { rng.random_range(0..8) };
            text += &format!("w{state}x{word} ");
            state = (state * 5 + word + 1) % 6;
        }
        text.push('\n');
    }
    text
}

/// A job over `train.txt` and `test.txt` in `folder`.
pub fn job(folder: &Path, more: &str) -> PathBuf {
    write(folder, "train.txt", corpus(1, 600));
    write(folder, "test.txt", corpus(2, 80));
    let text = format!(
        "kind = 'lm'\nseed = 3\nshards = 5\nout = 'out'\n[corpus]\ntrain = ['train.txt']\ntest = ['test.txt']\n\
         min_count = 2\n{more}"
    );
    write(folder, "job.toml", text)
}

const SHORT: &str = "[sampler]\nsweeps = 24\nburn_in = 8\nsample_every = 4\nsync_every = 2\n[checkpoint]\nevery = 4\n";

/// The model and the files of the report that hold nothing about speed.
pub fn results(out: &Path) -> Vec<Vec<u8>> {
    ["model", "report/perplexity.tsv", "report/depths.tsv"]
        .map(|name| std::fs::read(out.join(name)).expect("a result"))
        .to_vec()
}

#[test]
fn threads_and_processes_give_the_same_language_model() {
    for order in ["[model]\norder = 4\n", "[model]\norder = 'infinite'\nmax_order = 5\n"] {
        let folder = folder();
        let job = job(folder.path(), &format!("{order}{SHORT}"));
        let mut expected = None;
        for workers in ["1", "2", "3", "7"] {
            let out = folder.path().join(format!("threads-{workers}"));
            let (code, stderr) = start(&job, &out, &["--workers", workers]).end();
            assert_eq!(code, 0, "{stderr}");
            let found = results(&out);
            assert!(expected.get_or_insert(found.clone()) == &found, "{order}: {workers} threads");
        }
        for workers in ["1", "2"] {
            let hosts = write(folder.path(), "hosts", free_addresses(2).join("\n"));
            let out = folder.path().join(format!("processes-{workers}"));
            let flags = |process: &'static str| {
                ["--hosts", hosts.to_str().unwrap(), "--process", process, "--workers", workers]
            };
            for (code, stderr) in [start(&job, &out, &flags("0")), start(&job, &out, &flags("1"))].map(Running::end) {
                assert_eq!(code, 0, "{stderr}");
            }
            assert!(expected.as_ref().unwrap() == &results(&out), "{order}: 2 processes of {workers}");
        }
        let summary = summary(&folder.path().join("threads-1"));
        for key in [
            "perplexity",
            "perplexity_last",
            "tokens",
            "unknown",
            "contexts",
            "bytes_per_context",
            "tokens_per_second",
            "hyper_seconds_per_sweep",
        ] {
            assert!(summary[key].is_number(), "{key}: {summary}");
        }
        // Six states with eight words each, and the ends: far below the vocabulary.
        assert!(summary["perplexity"].as_f64().unwrap() < 60.0, "{summary}");
        assert!(summary["samples"] == 4, "{summary}");
    }
}

/// A language model whose process is killed again and again, and goes on with other numbers of workers.
fn kill_and_resume(order: &str) {
    let folder = folder();
    let sampler = "[sampler]\nsweeps = 300\nburn_in = 20\nsample_every = 3\n[checkpoint]\nevery = 7\n";
    let job = job(folder.path(), &format!("{order}{sampler}"));
    write(folder.path(), "train.txt", corpus(1, 6000));
    let whole = folder.path().join("whole");
    assert_eq!(start(&job, &whole, &["--workers", "2"]).end().0, 0);
    let out = folder.path().join("killed");
    let kills = run_killed(&job, &out, &[], 5, 100..500);
    assert!(kills >= 2, "it was over after {kills} kills");
    assert!(results(&whole) == results(&out), "{order}: killed {kills} times");
}

#[test]
fn killed_at_any_moment_and_resumed_by_others_the_language_model_is_the_same() {
    kill_and_resume("[model]\norder = 4\n");
}

#[test]
fn killed_at_any_moment_and_resumed_by_others_the_infinite_model_is_the_same() {
    kill_and_resume("[model]\norder = 'infinite'\nmax_order = 5\n");
}

/// How often each context, nearest word first, is followed by each word: contexts as long as the order and the sentence's
/// begin allow.
fn count_ngrams(model: &LanguageModel, text: &str) -> BTreeMap<(Vec<u32>, u32), u32> {
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        let mut history = History::begin(&model.symbols, model.depths() - 1);
        let words = line.split_whitespace().map(|word| model.kept.vocabulary.id(word));
        for symbol in words.chain([model.symbols.end]) {
            *counts.entry((history.words().to_vec(), symbol)).or_insert(0) += 1;
            history.push(symbol);
        }
    }
    counts
}

/// Checks a restaurant and all below it: customers are the children's tables and the tokens that stop here; every dish
/// with customers has tables, and not more than them; probabilities sum to one.
fn check_restaurant(model: &LanguageModel, at: usize, context: &mut Vec<u32>, ngrams: &BTreeMap<(Vec<u32>, u32), u32>) {
    let is_last = context.len() + 1 == model.depths() || context.last() == Some(&model.symbols.begin);
    let (mut stops, mut passes) = (0, 0);
    for dish in model.dishes(at) {
        let (customers, tables, outcome) = (model.customers(dish), model.tables(dish), model.outcome(dish));
        assert!(1 <= tables && tables <= customers, "{context:?} {outcome}: {customers} customers at {tables} tables");
        let of_child = |child: usize| model.find_dish(child, outcome).map_or(0, |dish| model.tables(dish));
        let below: u32 = model.children(at).map(of_child).sum();
        assert!(customers >= below, "{context:?} {outcome}: {customers} customers, {below} tables below");
        stops += customers - below;
        if is_last && !model.is_infinite() {
            assert_eq!(ngrams.get(&(context.clone(), outcome)), Some(&customers), "{context:?} {outcome}");
        }
    }
    for child in model.children(at) {
        context.push(model.element(child));
        check_restaurant(model, child, context, ngrams);
        context.pop();
        passes += model.visits(child).stops + model.visits(child).passes;
    }
    match model.is_infinite() {
        true => assert_eq!((model.visits(at).stops, model.visits(at).passes), (stops, passes), "{context:?}"),
        false => assert!(is_last || stops == 0, "{context:?}: {stops} tokens have a longer context"),
    }
    let p = |outcome: u32| model.probability(context.iter().copied(), outcome).0;
    let sum: f64 = (0..model.symbols.outcomes()).map(p).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{context:?}: probabilities sum to {sum}");
}

#[test]
fn counts_hold_together_after_every_synchronisation() {
    for order in ["[model]\norder = 3\n", "[model]\norder = 'infinite'\nmax_order = 4\n"] {
        let folder = folder();
        let job = job(folder.path(), &format!("{order}[checkpoint]\nevery = 0\n"));
        let text = corpus(1, 150);
        write(folder.path(), "train.txt", &text);
        // The states after 0, 1, 2, ... synchronisations, each as the model that a run ends with.
        for sweeps in ["0", "1", "2", "3", "10"] {
            let out = folder.path().join(sweeps);
            let setting = format!("sampler.sweeps={sweeps}");
            let flags = ["--workers", "2", "--set", "corpus.min_count=1", "--set", "corpus.test=[]", "--set", &setting];
            let (code, stderr) = start(&job, &out, &flags).end();
            assert_eq!(code, 0, "{stderr}");
            let model = LanguageModel::load(&out).expect("a model");
            let ngrams = count_ngrams(&model, &text);
            check_restaurant(&model, 0, &mut vec![], &ngrams);
            let tokens: u32 = ngrams.values().sum();
            if model.is_infinite() {
                assert_eq!(model.visits(0).stops + model.visits(0).passes, tokens, "every token stops somewhere");
            } else {
                let leaves = ngrams.iter().filter(|((context, outcome), count)| {
                    let child = |at: Option<usize>, &element: &u32| model.find_child(at?, element);
                    let dish = context.iter().fold(Some(0), child).and_then(|at| model.find_dish(at, *outcome));
                    dish.is_some_and(|dish| model.customers(dish) == **count)
                });
                assert_eq!(leaves.count(), ngrams.len(), "every n-gram is there");
            }
        }
    }
}

#[test]
fn one_shard_and_held_out_sentences() {
    let folder = folder();
    let job = job(folder.path(), SHORT);
    let flags = ["--set", "shards=1", "--set", "corpus.test={ hold_out = 50, by = \"random\" }"];
    let mut expected = None;
    for workers in ["1", "2"] {
        let out = folder.path().join(workers);
        let (code, stderr) = start(&job, &out, &[&flags[..], &["--workers", workers]].concat()).end();
        assert_eq!(code, 0, "{stderr}");
        assert_eq!(summary(&out)["sentences"], 50);
        assert_eq!(summary(&out)["training_sentences"], 550);
        let found = results(&out);
        assert!(expected.get_or_insert(found.clone()) == &found, "{workers} threads");
    }
}

#[test]
fn odd_texts_give_sensible_results_or_clear_errors() {
    let folder = folder();
    let train = |text: &str| write(folder.path(), "train.txt", text);
    let job = job(folder.path(), "[sampler]\nsweeps = 3\n");
    let out = folder.path().join("out");
    let try_run = |more: &[&str]| start(&job, &out, &[&["--fresh"], more].concat()).end();

    train("");
    let (code, stderr) = try_run(&[]);
    assert!(code == 3 && stderr.contains("no word to train on"), "{code}: {stderr}");
    train("a\n");
    for (flags, what) in [
        (["--set", "model.order=0"], "model.order = 0"),
        (["--set", "model.order=99"], "model.order = 99"),
        (["--set", "model.order=\"long\""], "infinite"),
        (["--set", "model.discount=1.0"], "model.discount"),
        (["--set", "sampler.sample_every=0"], "sample_every"),
        (["--set", "model.stop_prior=[0.0, 1.0]"], "stop_prior"),
        (["--set", "shards=0"], "shards"),
    ] {
        let (code, stderr) = try_run(&flags);
        assert!(code == 2 && stderr.contains(what), "{flags:?}, {code}: {stderr}");
    }
    // A vocabulary of one word, fewer sentences than shards, and a test set that is all unknown.
    let (code, stderr) = try_run(&["--set", "corpus.min_count=1", "--workers", "2"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(summary(&out)["perplexity"].is_null() && stderr.contains("no averaged perplexity"), "{stderr}");
    assert!(figure(&out, "perplexity_last") > 1.0);
    assert_eq!(figure(&out, "unknown") as u64, figure(&out, "tokens") as u64 - 80);
    // No test set at all.
    let (code, stderr) = try_run(&["--set", "corpus.test=[]", "--set", "model.order='infinite'"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(summary(&out)["perplexity_last"].is_null());
    // Nothing that is said matters to the work: nobody has to listen.
    train("a b\n");
    let mut child = start(&job, &out, &["--fresh", "--set", "corpus.test=[]"]);
    drop(child.stderr.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    // A training file that is not text is named, with the reason.
    train("a \0 b\n");
    let (code, stderr) = try_run(&[]);
    assert!(code == 3 && stderr.contains("train.txt:1") && stderr.contains("NUL"), "{code}: {stderr}");
    // Marks of sentences in the text are not words.
    train("<s> a b </s>\n<s> b </s>\n");
    let (code, stderr) = try_run(&["--set", "corpus.min_count=1"]);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(figure(&out, "training_tokens"), 5.0);
    assert_eq!(figure(&out, "vocabulary"), 3.0);
}

#[test]
fn a_line_of_ten_million_tokens_is_one_sentence() {
    let folder = folder();
    let job = job(folder.path(), "[model]\norder = 2\n[sampler]\nsweeps = 1\n[checkpoint]\nevery = 0\n");
    let mut text = String::new();
    (0..10_000_000u32).for_each(|i| text.push_str(if (i / 3) % 2 == 0 { "a " } else { "b " }));
    write(folder.path(), "train.txt", text + "\n");
    let out = folder.path().join("out");
    let (code, stderr) = start(&job, &out, &["--workers", "1", "--set", "corpus.min_count=1"]).end();
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(figure(&out, "training_tokens"), 10_000_001.0);
}

/// A short run on the Penn Treebank; longer ones are in `scripts/`.
fn treebank(data: &Path, folder: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let job = write(
        folder,
        "ptb.toml",
        format!(
            "kind = 'lm'\nout = 'ptb'\n[corpus]\ntrain = ['{0}/ptb.train.txt.xz']\ntest = ['{0}/ptb.test.txt']\n\
             [sampler]\nsweeps = 40\nburn_in = 15\nsample_every = 1\n[checkpoint]\nevery = 0\n",
            data.join("ptb10k-lm").display()
        ),
    );
    let out = folder.join(name);
    let mut command = sawmill();
    command.arg("run").arg(job).arg("--out").arg(&out).args(["--progress", "none"]).args(flags);
    let (code, _, stderr) = run(&mut command);
    assert_eq!(code, 0, "{stderr}");
    out
}

#[test]
#[ignore = "a minute; run by scripts/check --all"]
fn the_penn_treebank_is_predicted_as_well_as_it_should_be() {
    let Some(data) = real_data("the_penn_treebank_is_predicted_as_well_as_it_should_be") else { return };
    let folder = folder();
    let run = |name: &str, flags: &[&str]| treebank(&data, folder.path(), name, flags);
    let five = run("5", &[]);
    assert_eq!(figure(&five, "training_tokens"), 929_589.0);
    assert_eq!(figure(&five, "tokens"), 82_430.0);
    let one_shard = figure(&five, "perplexity");
    assert!(one_shard < 141.19, "order 5: {one_shard}; modified Kneser-Ney has 141.19");
    let perplexity = figure(&run("4", &["--set", "model.order=4"]), "perplexity");
    assert!(perplexity < 143.0, "order 4: {perplexity}");
    let perplexity = figure(&run("3", &["--set", "model.order=3"]), "perplexity");
    assert!(perplexity < 147.5, "order 3: {perplexity}");
    let four_shards = figure(&run("shards", &["--set", "shards=4"]), "perplexity");
    assert!((four_shards / one_shard - 1.0).abs() < 0.01, "{four_shards} with 4 shards, {one_shard} with one");
    let infinite = run("infinite", &["--set", "model.order='infinite'", "--set", "model.max_order=8"]);
    let perplexity = figure(&infinite, "perplexity");
    assert!(perplexity < 1.01 * one_shard, "infinite order: {perplexity}, order 5: {one_shard}");
    let (nodes, fixed) = (figure(&infinite, "contexts"), figure(&five, "contexts"));
    assert!(nodes < fixed, "infinite order: {nodes} contexts, order 5: {fixed}");
}
