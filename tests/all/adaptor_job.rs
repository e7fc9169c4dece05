//! Adaptor grammars as a user sees them: the same model whatever happens on the way, segmentation, parses, bad input.

use std::path::{Path, PathBuf};

use rand::RngExt;
use sawmill::cluster::rng::{Purpose, generator};
use serde_json::Value;

use crate::support::{
    Running, figure, folder, free_addresses, real_data, run, run_killed, sawmill, skipped, start, write,
};

/// Utterances of a small language: words that are drawn one by one, blanks between them.
fn utterances(seed: u64, count: u64) -> String {
    let words = ["ba", "dog", "kitu", "mi", "salo", "pe", "tukabi", "rano", "ges", "lun"];
    let mut text = String::new();
    for utterance in 0..count {
        let mut rng = generator(seed, Purpose::Synth, utterance, 0);
        let line: Vec<&str> = (0..rng.random_range(1..6)).map(|_| words[rng.random_range(0..words.len())]).collect();
        text += &line.join(" ");
        text.push('\n');
    }
    text
}

pub const COLLOCATION: &str = "%s = words\nS --> C+\n1 0.5 10 C --> Word+\n1 0.5 10 Word --> Phonemes\n\
    Phonemes --> P\nPhonemes --> P Phonemes\nP --> {s}\n";

/// A segmentation job in `folder`.
pub fn job(folder: &Path, grammar: &str, more: &str) -> PathBuf {
    write(folder, "text", utterances(1, 300));
    write(folder, "grammar.lt", grammar);
    let text = format!(
        "kind = 'adaptor'\nseed = 3\nshards = 5\nout = 'out'\n[corpus]\ntrain = ['text']\ngold = ['text']\n\
         symbols = 'characters'\n[grammar]\nfile = 'grammar.lt'\n{more}"
    );
    write(folder, "job.toml", text)
}

/// The model and the files of the report that hold nothing about speed.
pub fn results(out: &Path) -> Vec<Vec<u8>> {
    ["model", "report/scores.tsv", "report/cached.tsv", "report/rules.tsv", "report/parses.txt"]
        .map(|name| std::fs::read(out.join(name)).expect("a result"))
        .to_vec()
}

const SHORT: &str = "[sampler]\nsweeps = 30\nsync_every = 2\ntemperature = 2.0\nanneal = 6\n\
    [evaluation]\nevery = 4\nburn_in = 10\nsample_every = 6\n[checkpoint]\nevery = 4\n";

#[test]
fn threads_and_processes_give_the_same_grammar() {
    let folder = folder();
    let job = job(folder.path(), COLLOCATION, SHORT);
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
    for key in ["log_posterior", "acceptance_rate", "seconds_per_sweep", "token_f", "boundary_f", "type_f"] {
        figure(&out, key);
    }
    // Cutting everywhere gives about 5, nowhere about 15.
    assert!(figure(&out, "token_f") > 50.0 && figure(&out, "acceptance_rate") > 0.9, "{}", figure(&out, "token_f"));
}

#[test]
fn killed_at_any_moment_and_resumed_by_others_the_grammar_is_the_same() {
    let folder = folder();
    let job = job(
        folder.path(),
        COLLOCATION,
        "[sampler]\nsweeps = 240\nsyncs_per_sweep = 3\n[evaluation]\nburn_in = 50\n[checkpoint]\nevery = 7\n",
    );
    write(folder.path(), "text", utterances(1, 800));
    let whole = folder.path().join("whole");
    assert_eq!(start(&job, &whole, &["--workers", "2"]).end().0, 0);
    let out = folder.path().join("killed");
    let kills = run_killed(&job, &out, &[], 4, 100..350);
    assert!(kills >= 2, "it was over after {kills} kills");
    assert!(results(&whole) == results(&out), "killed {kills} times");
}

#[test]
fn variational_bayes_is_the_same_for_all_workers_and_its_free_energy_falls() {
    let folder = folder();
    let plain = COLLOCATION.replace("1 0.5 10 ", "");
    let settings = "[sampler]\nmethod = 'variational'\nsweeps = 12\n[evaluation]\nevery = 1\n";
    let job = job(folder.path(), &plain, settings);
    let mut expected = None;
    for workers in ["1", "3"] {
        let out = folder.path().join(workers);
        let (code, stderr) = start(&job, &out, &["--workers", workers]).end();
        assert_eq!(code, 0, "{stderr}");
        let found = [std::fs::read(out.join("model")).unwrap(), std::fs::read(out.join("report/rules.tsv")).unwrap()];
        assert!(expected.get_or_insert(found.clone()) == &found, "{workers} threads");
    }
    let metrics = std::fs::read_to_string(folder.path().join("3/metrics.jsonl")).unwrap();
    let energies: Vec<f64> = metrics
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["free_energy"].as_f64().unwrap())
        .collect();
    assert!(energies.len() == 12 && energies.windows(2).all(|pair| pair[1] <= pair[0] + 1e-6), "{energies:?}");
    let (code, trees, stderr) = run(sawmill()
        .arg("parse")
        .arg(folder.path().join("1"))
        .args([folder.path().join("text")])
        .args(["--tree", "full"]));
    assert!(code == 0 && trees.starts_with("(S (C+ (C (Word+ (Word (Phonemes (P "), "{trees} {stderr}");
    let (code, stderr) = start(&job, &folder.path().join("out"), &["--set", "grammar.file=other.lt"]).end();
    assert!(code == 3 && stderr.contains("other.lt"), "{code}: {stderr}");
    write(folder.path(), "grammar.lt", COLLOCATION);
    let (code, stderr) = start(&job, &folder.path().join("out"), &[]).end();
    assert!(code == 2 && stderr.contains("C is adapted"), "{code}: {stderr}");
}

#[test]
fn a_grammar_parses_segments_and_is_shown() {
    let folder = folder();
    let job =
        job(folder.path(), COLLOCATION, "[sampler]\nsweeps = 60\n[evaluation]\nburn_in = 20\nsample_every = 10\n");
    let out = folder.path().join("out");
    assert_eq!(start(&job, &out, &["--set", "shards=1"]).end().0, 0);
    assert!(figure(&out, "marginal_token_f") > 45.0, "{}", figure(&out, "marginal_token_f"));
    let text = write(folder.path(), "new", "tukabidog\n\nkitumisalo\n");
    let parse = |more: &[&str]| run(sawmill().arg("parse").arg(&out).arg(&text).args(more));
    let (code, words, stderr) = parse(&["--tree", "words"]);
    assert_eq!((code, words.replace(' ', "").as_str()), (0, "tukabidog\nkitumisalo\n"), "{stderr}");
    let (_, skeletal, _) = parse(&[]);
    assert!(skeletal.lines().count() == 2 && skeletal.lines().all(|line| line.starts_with("(C (Word ")), "{skeletal}");
    let (_, full, _) = parse(&["--tree", "full"]);
    assert!(full.starts_with("(S (C+ (C (Word+ (Word (Phonemes (P t)"), "{full}");
    for line in full.lines() {
        assert_eq!(line.matches('(').count(), line.matches(')').count(), "{line}");
    }
    let strange = write(folder.path(), "strange", "dog\ndXg\n");
    let (code, words, stderr) = run(sawmill().arg("parse").arg(&out).arg(&strange).args(["--tree", "words"]));
    assert!(
        code == 1
            && words.replace(' ', "") == "dog\n\n"
            && stderr.contains("strange:2: not-derived: X stands in no rule"),
        "{stderr}"
    );
    let (code, shown, stderr) = run(sawmill().arg("show").arg(&out).args(["-n", "12"]));
    assert_eq!(code, 0, "{stderr}");
    for part in ["\nWord: ", "\nC: ", "a = ", "P --> "] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(parse(&["--particles", "5", "--tree", "full"]).0, 2);
}

#[test]
fn documents_have_their_own_rules() {
    let folder = folder();
    let documents = "#DOC\tx\nred green (blue) the red\n#DOC\ty\none two three\ntwo one\n";
    write(folder.path(), "docs", documents);
    write(folder.path(), "stop", "the\n");
    let grammar = "%i = 1..2\n%j = documents\n%w = words\nS --> P{j}\nP{j} --> _{j}\nP{j} --> P{j} D{j}\n0.1 D{j} --> T{i}\n0.1 T{i} --> {w}\n";
    write(folder.path(), "lda.lt", grammar);
    let text = "kind = 'adaptor'\nout = 'out'\n[corpus]\ntrain = ['docs']\nformat = 'docs'\ncut_at_punctuation = true\ncut_at = 'stop'\n[grammar]\nfile = 'lda.lt'\n[sampler]\nsweeps = 50\n";
    let job = write(folder.path(), "job.toml", text);
    let out = folder.path().join("out");
    let (code, stderr) = start(&job, &out, &[]).end();
    assert_eq!(code, 0, "{stderr}");
    // red green | blue | red | one two three | two one, each behind its document's name.
    assert_eq!((figure(&out, "strings"), figure(&out, "symbols")), (5.0, 14.0));
    let rules = std::fs::read_to_string(out.join("report/rules.tsv")).unwrap();
    assert!(rules.contains("Dx\tT") && rules.contains("Dy\tT") && rules.contains("T1\tthree"), "{rules}");
}

#[test]
fn bad_grammars_and_strings_are_named() {
    let folder = folder();
    let job = job(folder.path(), COLLOCATION, "[sampler]\nsweeps = 2\n");
    let out = folder.path().join("out");
    let fails = |grammar: &str, code: i32, what: &str| {
        write(folder.path(), "grammar.lt", grammar);
        let (found, stderr) = start(&job, &out, &["--fresh"]).end();
        assert!(found == code && stderr.contains(what), "{what}, {found}: {stderr}");
    };
    fails("S --> a\nS -> b\n", 3, "grammar.lt:2: there is no -->");
    fails("S --> Word\nWord --> B\nB --> Word\nB --> a\n", 3, "grammar.lt:2: unary cycle: Word --> B --> Word");
    fails("S --> Word\n1 0.5 1 Word --> Word a\nWord --> a\n", 3, "left-recursive: Word --> Word");
    fails("%s = words\nS --> A+\nA --> {s}\n", 2, "no such nonterminal");
    fails("S --> Word\nWord --> q\n", 3, "there is no string that");
    fails("1 2 Word --> a\n", 3, "a = 2 is not between 0 and 1");
    // Some strings are derived: the others are named, and left out.
    write(folder.path(), "text", "ba\nbaq dog\nba ba\n");
    let short = "S --> Word+\n1 0.5 1 Word --> b a\n";
    fails(short, 1, "text:2: not-derived: the grammar does not derive \"b a q d o g\": q stands in no rule");
    assert_eq!(figure(&out, "not_derived"), 1.0);
    // A slip in a nonterminal's name makes a terminal of it, which is named.
    let slip = "S --> Word+\n1 0.5 1 Word --> b a\nWord --> Wrod a\n";
    fails(slip, 1, "grammar.lt: Wrod has no rule and stands in no string");
    write(folder.path(), "text", format!("ba\n{}\n", "ba".repeat(20_000)));
    fails(COLLOCATION, 1, "text:2: not-derived");
    fails(COLLOCATION, 1, "its 40000 symbols are too many for this grammar");
    write(folder.path(), "text", "\n \n");
    fails(COLLOCATION, 3, "there is no string in");
    write(folder.path(), "text", "ba\nbaq dog\nba ba\n");
    // The gold segmentation is of other symbols, or too short.
    write(folder.path(), "grammar.lt", COLLOCATION);
    for (gold, what) in
        [("ba\nbaq dig\nba ba\n", "other:2: the symbols are not those of"), ("ba\n", "there is no line for")]
    {
        write(folder.path(), "other", gold);
        let (code, stderr) = start(&job, &out, &["--set", "corpus.gold=[\"other\"]"]).end();
        assert!(code == 3 && stderr.contains(what), "{what}, {code}: {stderr}");
    }
    for (setting, what) in [
        ("sampler.sweeps=0", "sampler.sweeps is 0"),
        ("sampler.temperature=0.5", "sampler.temperature is 1 or more"),
        ("grammar.b=0", "grammar.b has to be positive"),
        ("sampler.a_prior=[0,1]", "a_prior"),
        ("sampler.sweps=3", "did you mean `sweeps`"),
        ("corpus.format=docs", "corpus.gold goes line by line"),
    ] {
        let (code, stderr) = start(&job, &out, &["--set", setting]).end();
        assert!(code == 2 && stderr.contains(what), "{setting}, {code}: {stderr}");
    }
}

/// The peer has token F 66.8 and 73.2 after 200 sweeps; this is a short run.
#[test]
#[ignore = "a quarter of a minute; run by scripts/check --all"]
fn words_of_child_directed_speech_are_found() {
    let Some(data) = real_data("words_of_child_directed_speech_are_found") else { return };
    if !data.join("bernstein-ratner-brent").is_dir() {
        return skipped("there is no bernstein-ratner-brent/ in SAWMILL_DATA");
    }
    let folder = folder();
    let jobs = Path::new(env!("CARGO_MANIFEST_DIR")).join("jobs");
    for (job, sweeps, least) in [("brent-segmentation", "60", 62.0), ("brent-collocation", "60", 62.0)] {
        let out = folder.path().join(job);
        let sweeps = format!("sampler.sweeps={sweeps}");
        let (code, stderr) = start(&jobs.join(format!("{job}.toml")), &out, &["--set", &sweeps]).end();
        assert_eq!(code, 0, "{stderr}");
        assert!(figure(&out, "token_f") > least, "{job}: {}", figure(&out, "token_f"));
    }
}
