//! Topic n-gram models as a user sees them: the same result whatever happens on the way.

use std::path::{Path, PathBuf};

use rand::RngExt;
use sawmill::cluster::rng::{Purpose, generator};
use xxhash_rust::xxh3::xxh3_64;

use crate::support::{Running, folder, free_addresses, run_killed, start, summary, write};

/// Documents about three things: each thing has words of its own, and an order of them.
pub fn corpus(documents: u64, sentences: u64) -> String {
    let mut text = String::new();
    for document in 0..documents {
        let mut rng = generator(1, Purpose::Synth, document, 0);
        text += &format!("#DOC\td{document}\tc{}\n", document % 3);
        for _ in 0..sentences {
            let theme = if rng.random_bool(0.8) { document % 3 } else { rng.random_range(0..3) };
            let mut word = rng.random_range(0..10u64);
            for _ in 0..8 {
                text += &format!("w{theme}x{word} ");
                word = if rng.random_bool(0.7) { (3 * word + theme + 1) % 10 } else { rng.random_range(0..10) };
            }
            text.push('\n');
        }
    }
    text
}

/// Type and order of the models that are run.
const HPYTM: &str = "type = 'hpytm'\norder = 3";
const HIERARCHICAL: &str = "type = 'hierarchical'\norder = 3";
pub const SWITCHING: &str = "type = 'switching'\norder = 3";
const INFINITE: &str = "type = 'switching'\norder = 'infinite'\nmax_order = 4";
const RESCALING: &str = "type = 'rescaling'\norder = 3";

pub fn job(folder: &Path, model: &str, sampler: &str) -> PathBuf {
    let text = format!(
        "kind = 'topics'\nseed = 3\nshards = 5\nout = 'out'\n[corpus]\ntrain = ['corpus.txt']\nformat = 'docs'\n\
         test = {{ hold_out = 6, by = 'category' }}\n[model]\n{model}\ntopics = 4\n{sampler}"
    );
    write(folder, "job.toml", text)
}

/// The table of perplexities, and a hash of the model's bytes, of which there are many; RESCALING keeps none.
pub fn result(out: &Path) -> (String, Option<u64>) {
    let model = std::fs::read(out.join("model")).ok();
    assert_eq!(model.is_none(), summary(out)["model"] == "rescaling");
    let table = std::fs::read_to_string(out.join("report/perplexity.tsv")).expect("a report");
    (table, model.map(|bytes| xxh3_64(&bytes)))
}

#[test]
fn threads_and_processes_give_the_same_topic_ngrams() {
    for model in [HPYTM, HIERARCHICAL, SWITCHING, INFINITE, RESCALING] {
        let folder = folder();
        write(folder.path(), "corpus.txt", corpus(36, 12));
        let sampler = "[sampler]\nsweeps = 20\nsync_every = 2\n[evaluation]\nevery = 4\nburn_in = 10\n";
        let job = job(folder.path(), model, sampler);
        let mut expected = None;
        for workers in ["1", "2", "3", "7"] {
            let out = folder.path().join(format!("threads-{workers}"));
            let (code, stderr) = start(&job, &out, &["--workers", workers]).end();
            assert_eq!(code, 0, "{stderr}");
            let found = result(&out);
            assert_eq!(expected.get_or_insert(found.clone()), &found, "{model}: {workers} threads");
            let summary = summary(&out);
            assert_eq!(summary["test_tokens"], 6 * 12 * 9, "{summary}");
            assert_eq!(summary["samples"], 3, "{summary}");
            // 30 words in three orders: far below the vocabulary.
            assert!(summary["perplexity"].as_f64().unwrap() < 14.0, "{summary}");
        }
        let hosts = write(folder.path(), "hosts", free_addresses(2).join("\n"));
        let out = folder.path().join("processes");
        let flags =
            |process: &'static str| ["--hosts", hosts.to_str().unwrap(), "--process", process, "--workers", "2"];
        for (code, stderr) in [start(&job, &out, &flags("0")), start(&job, &out, &flags("1"))].map(Running::end) {
            assert_eq!(code, 0, "{stderr}");
        }
        assert_eq!(expected.as_ref().unwrap(), &result(&out), "{model}: 2 processes of 2");
    }
}

/// A topic n-gram model whose process is killed again and again, and goes on with other numbers of workers.
fn kill_and_resume(model: &str) {
    let folder = folder();
    write(folder.path(), "corpus.txt", corpus(150, 20));
    let sampler = "[sampler]\nsweeps = 120\n[evaluation]\nevery = 30\nparticles = 2\n[checkpoint]\nevery = 5\n";
    let job = job(folder.path(), model, sampler);
    let whole = folder.path().join("whole");
    let (code, stderr) = start(&job, &whole, &["--workers", "2"]).end();
    assert_eq!(code, 0, "{stderr}");
    let out = folder.path().join("killed");
    let kills = run_killed(&job, &out, &[], 4, 150..600);
    assert!(kills >= 2, "it was over after {kills} kills");
    assert_eq!(result(&whole), result(&out), "{model}: killed {kills} times");
}

#[test]
fn killed_at_any_moment_and_resumed_by_others_switching_is_the_same() {
    kill_and_resume(SWITCHING);
}

#[test]
fn killed_at_any_moment_and_resumed_by_others_rescaling_is_the_same() {
    kill_and_resume(RESCALING);
}

/// Kept and written like SWITCHING, which every run of the tests kills.
#[test]
#[ignore = "half a minute; run by scripts/check --all"]
fn killed_at_any_moment_and_resumed_by_others_the_other_topic_ngrams_are_the_same() {
    [HPYTM, HIERARCHICAL, INFINITE].into_iter().for_each(kill_and_resume);
}

#[test]
fn settings_of_rescaling_are_checked() {
    let folder = folder();
    write(folder.path(), "corpus.txt", corpus(9, 2));
    let job = job(folder.path(), RESCALING, "[sampler]\nsweeps = 2\n");
    for (setting, expected) in [("model.weight=2.5", "between 0"), ("sampler.ngram_sweeps=0", "at least once")] {
        let (code, stderr) = start(&job, &folder.path().join("out"), &["--set", setting]).end();
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
    }
}
