//! Language models put to use: perplexity, ARPA files as other programs read them, sentences drawn.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use sawmill::job::model_file;
use sawmill::lm::history::History;
use sawmill::lm::index::{Index, Walk};
use sawmill::lm::model::LanguageModel;
use serde_json::Value;

use crate::support::{folder, real_data, run, sawmill, skipped, write};

/// What small models are trained on: 200 sentences of a language with few words, some of them rare.
fn small_text() -> String {
    let (subjects, verbs, objects) =
        (["the dog", "a cat", "the old man", "Mary"], ["sees", "hears", "likes"], ["it", "the sea", "a red car"]);
    (0..200usize)
        .map(|i| {
            let end = if i % 3 == 0 { format!(" word{}", i / 9) } else { String::new() };
            format!("{} {} {}{end}\n", subjects[i * 7 / 3 % 4], verbs[i % 5 % 3], objects[i * 3 % 8 % 3])
        })
        .collect()
}

/// Trains on a text with these settings, and returns the run folder.
fn trained(folder: &Path, text: &str, settings: &[&str]) -> PathBuf {
    write(folder, "text", text);
    let job =
        "kind = 'lm'\nout = 'out'\n[corpus]\ntrain = ['text']\nmin_count = 2\n[sampler]\nsweeps = 30\nburn_in = 10\n";
    let job = write(folder, "job.toml", job);
    let mut command = sawmill();
    command.arg("run").arg(job).arg("--fresh");
    for setting in settings {
        command.args(["--set", setting]);
    }
    let (code, _, stderr) = run(&mut command);
    assert_eq!(code, 0, "{stderr}");
    folder.join("out")
}

fn perplexity(model: &Path, file: &Path, more: &[&str]) -> (i32, String, String) {
    run(sawmill().arg("perplexity").arg(model).arg(file).args(more))
}

fn json(model: &Path, file: &Path, more: &[&str]) -> Value {
    let (code, stdout, stderr) = perplexity(model, file, &[more, &["--json"]].concat());
    assert_eq!(code, 0, "{stderr}");
    serde_json::from_str(&stdout).expect("JSON")
}

/// Rows of a table, without its columns.
fn rows(text: &str) -> Vec<Vec<String>> {
    text.lines().skip(1).map(|line| line.split('\t').map(str::to_string).collect()).collect()
}

fn export(model: &Path) -> String {
    let (code, stdout, stderr) = run(sawmill().arg("export").arg(model).args(["--format", "arpa"]));
    assert_eq!(code, 0, "{stderr}");
    stdout
}

/// An ARPA file: n-grams with log10 p and log10 of the back-off weight.
struct Arpa {
    order: usize,
    ngrams: HashMap<String, (f64, f64)>,
}

impl Arpa {
    /// Reads a file, and checks its numbers of n-grams.
    fn parse(text: &str) -> Arpa {
        let (mut announced, mut found) = (BTreeMap::new(), BTreeMap::<usize, usize>::new());
        let (mut ngrams, mut order) = (HashMap::new(), 0);
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some((length, count)) = line.strip_prefix("ngram ").and_then(|rest| rest.split_once('=')) {
                announced.insert(length.parse().unwrap(), count.parse().unwrap());
            } else if let Some(section) = line.strip_suffix("-grams:") {
                order = section[1..].parse().unwrap();
            } else if !line.starts_with('\\') {
                let fields: Vec<&str> = line.split('\t').collect();
                assert_eq!(fields[1].split(' ').count(), order, "{line}");
                let back_off = fields.get(2).map_or(0.0, |weight| weight.parse().unwrap());
                let before = ngrams.insert(fields[1].to_string(), (fields[0].parse().unwrap(), back_off));
                assert!(before.is_none(), "twice: {line}");
                *found.entry(order).or_default() += 1;
            }
        }
        assert_eq!(announced, found);
        assert!(text.starts_with("\\data\\\n") && text.ends_with("\n\\end\\\n"));
        Arpa { order, ngrams }
    }

    /// log10 p of the last word of `words`, by backing off.
    fn score(&self, words: &[&str]) -> f64 {
        let words = &words[words.len().saturating_sub(self.order)..];
        match self.ngrams.get(&words.join(" ")) {
            Some((log, _)) => *log,
            None => {
                let context = self.ngrams.get(&words[..words.len() - 1].join(" "));
                context.map_or(0.0, |(_, back_off)| *back_off) + self.score(&words[1..])
            }
        }
    }
}

/// Says where the file and `perplexity --tokens` differ.
fn assert_same_probabilities(arpa: &Arpa, tokens: &str) {
    let mut sentence = vec!["<s>".to_string()];
    for row in rows(tokens) {
        sentence.push(if row[2] == "1" { "<unk>".to_string() } else { row[1].clone() });
        let (ours, words) = (row[3].parse::<f64>().unwrap(), sentence.iter().map(String::as_str).collect::<Vec<_>>());
        let theirs = arpa.score(&words);
        assert!((ours - theirs).abs() < 2e-6, "{words:?}: {ours} is {theirs} in the file");
        if row[1] == "</s>" {
            sentence.truncate(1);
        }
    }
}

const OTHER_TEXT: &str =
    "the dog sees the red sea word3\na man hears xyz it\n\nMary\nxyz xyz the old cat likes it word1\n";

#[test]
fn what_is_counted_is_said_and_adds_up() {
    let folder = folder();
    let model = trained(folder.path(), &small_text(), &["model.order=3"]);
    let text = write(folder.path(), "other", OTHER_TEXT);
    let found = json(&model, &text, &[]);
    let counts = ["sentences", "tokens", "unknown"].map(|key| found[key].as_u64().unwrap());
    assert_eq!(counts, [4, 25, 3]);
    let (_, stdout, _) = perplexity(&model, &text, &[]);
    for words in ["sentences: 4\n", "tokens: 25 (21 words and 4 ends of sentences)\n", "unknown words: 3 (12.00 %)\n"] {
        assert!(stdout.contains(words), "{words}: {stdout}");
    }
    let figure = |key: &str| found[key].as_f64().unwrap();
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-4, "{a} {b}: {found}");
    close(figure("log10_probability"), figure("log_probability") / 10f64.ln());
    close(figure("perplexity"), (-figure("log_probability") / 25.0).exp());
    close(figure("perplexity_without_unknown"), (-figure("log_probability_without_unknown") / 22.0).exp());

    let tokens = rows(&perplexity(&model, &text, &["--tokens"]).1);
    let sentences = rows(&perplexity(&model, &text, &["--sentences"]).1);
    let sum = |which: &dyn Fn(&&Vec<String>) -> bool| -> f64 {
        tokens.iter().filter(which).map(|row| row[3].parse::<f64>().unwrap()).sum()
    };
    assert_eq!((tokens.len(), sentences.len()), (25, 5));
    assert_eq!(tokens[0][..3], ["1", "the", "0"]);
    assert_eq!(tokens[7][..3], ["1", "</s>", "0"]);
    assert_eq!(tokens[11][..3], ["2", "xyz", "1"]);
    assert_eq!(
        (tokens[0][4].as_str(), tokens[1][4].as_str()),
        ("1", "2"),
        "contexts of the begin, and of one word more"
    );
    close(sum(&|_| true), figure("log10_probability"));
    close(sum(&|row| row[2] == "0"), figure("log10_probability_without_unknown"));
    for row in &sentences[..4] {
        close(sum(&|token| token[0] == row[0]), row[3].parse().unwrap());
    }
    assert_eq!(sentences[4][..3], ["total", "25", "3"]);

    let by_token = json(&model, &text, &["--tokens"]);
    let by_sentence = json(&model, &text, &["--sentences"]);
    assert_eq!(
        (by_token["tokens"].as_u64(), by_sentence["perplexity"].as_f64()),
        (Some(25), Some(figure("perplexity")))
    );
    assert_eq!(
        (by_token["by_token"].as_array().unwrap().len(), &by_token["by_token"][24]["word"]),
        (25, &"</s>".into())
    );
    assert_eq!(by_sentence["by_sentence"][3]["sentence"], 4);
}

#[test]
fn sentences_are_lines_of_documents_and_may_have_marks() {
    let folder = folder();
    let model = trained(folder.path(), &small_text(), &["model.order=3"]);
    let plain = json(&model, &write(folder.path(), "other", OTHER_TEXT), &[]);
    let marked: String = OTHER_TEXT.lines().map(|line| format!("<s> {line} </s>\n")).collect();
    let marked = marked.replace("<s>  </s>\n", "");
    assert_eq!(json(&model, &write(folder.path(), "marked", marked), &[]), plain);
    let documents = format!("#DOC\ta\n{}", OTHER_TEXT.replace("\n\n", "\n#DOC\tb\n"));
    assert_eq!(json(&model, &write(folder.path(), "docs", documents), &["--format", "docs"]), plain);
    let parts: Vec<PathBuf> = OTHER_TEXT
        .split_inclusive('\n')
        .enumerate()
        .filter(|(_, line)| line.len() > 1)
        .map(|(i, line)| write(folder.path(), &format!("part{i}"), line))
        .collect();
    let (code, stdout, _) = run(sawmill().arg("perplexity").arg(&model).args(parts).arg("--json"));
    assert_eq!((code, serde_json::from_str::<Value>(&stdout).unwrap()), (0, plain));
}

#[test]
fn the_index_gives_the_models_own_probabilities() {
    let folder = folder();
    for order in ["model.order=1", "model.order=2", "model.order=5", "model.order='infinite'"] {
        let out = trained(folder.path(), &small_text(), &[order]);
        let model = LanguageModel::load(&out).unwrap();
        let index = Index::new(&model);
        assert_eq!(index.is_none(), model.is_infinite(), "{order}");
        let mut seen = 0;
        for line in (small_text() + OTHER_TEXT).lines() {
            let mut walk = Walk::begin(&model, index.as_ref());
            let mut history = History::begin(&model.symbols, model.depths() - 1);
            let words = line.split_whitespace().map(|word| model.kept.vocabulary.id(word));
            for symbol in words.chain([model.symbols.end]) {
                let expected = model.probability(history.words().iter().copied(), symbol);
                assert_eq!(walk.next(symbol), expected, "{order}: {line}");
                history.push(symbol);
                seen = seen.max(expected.1);
            }
        }
        assert!(seen + 1 >= model.depths().min(5), "{order}: contexts up to {seen} words were seen");
    }
}

#[test]
fn an_arpa_file_backs_off_to_the_models_probabilities() {
    let folder = folder();
    for order in 1..=5 {
        let model = trained(folder.path(), &small_text(), &[&format!("model.order={order}")]);
        let text = write(folder.path(), "other", OTHER_TEXT.repeat(2) + &small_text());
        let file = export(&model);
        let arpa = Arpa::parse(&file);
        assert_eq!((arpa.order, arpa.ngrams["<s>"].0), (order, -99.0));
        assert!(["<unk>", "</s>"].iter().all(|word| arpa.ngrams.contains_key(*word)));
        assert_same_probabilities(&arpa, &perplexity(&model, &text, &["--tokens"]).1);
        // Probabilities sum to one in every context, seen or not.
        let words: Vec<&str> =
            arpa.ngrams.keys().map(String::as_str).filter(|w| !w.contains(' ') && *w != "<s>").collect();
        for context in [&["<s>"][..], &["<s>", "the"], &["the", "old"], &["it", "it"], &["a", "red", "car"]] {
            let sum: f64 = words.iter().map(|word| 10f64.powf(arpa.score(&[context, &[word]].concat()))).sum();
            assert!((sum - 1.0).abs() < 1e-5, "order {order}, {context:?}: {sum}");
        }
        assert_eq!(export(&model), file);
    }
}

#[test]
fn an_arpa_file_of_several_shards_holds_together() {
    let folder = folder();
    let model = trained(folder.path(), &small_text(), &["model.order=4", "shards=3"]);
    let tokens = perplexity(&model, &write(folder.path(), "other", OTHER_TEXT), &["--tokens"]).1;
    assert_same_probabilities(&Arpa::parse(&export(&model)), &tokens);
}

#[test]
fn an_arpa_file_is_packed_by_its_name() {
    let folder = folder();
    let model = trained(folder.path(), &small_text(), &["model.order=3"]);
    let expected = export(&model);
    for name in ["m.arpa", "m.arpa.gz", "m.arpa.zst"] {
        let path = folder.path().join(name);
        let (code, stdout, stderr) =
            run(sawmill().arg("export").arg(&model).args(["--format", "arpa", "--out"]).arg(&path));
        assert_eq!((code, stdout.trim()), (0, path.to_str().unwrap()), "{stderr}");
        let mut unpacked = String::new();
        sawmill::corpus::open::open(&path).unwrap().read_to_string(&mut unpacked).unwrap();
        assert!(unpacked == expected, "{name} has another content");
        assert_eq!(std::fs::read(&path).unwrap().starts_with(b"\\data\\"), name == "m.arpa");
    }
}

/// A python that has kenlm: that of SAWMILL_PYTHON, the system's, or one that is made for this.
fn python_with_kenlm() -> Result<PathBuf, String> {
    let has_kenlm = |python: &Path| {
        Command::new(python).args(["-c", "import kenlm"]).output().is_ok_and(|output| output.status.success())
    };
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kenlm");
    let named = std::env::var_os("SAWMILL_PYTHON").map(PathBuf::from);
    let candidates = [named, Some(PathBuf::from("python3")), Some(made.join("bin/python"))];
    if let Some(python) = candidates.into_iter().flatten().find(|python| has_kenlm(python)) {
        return Ok(python);
    }
    let made_by = |command: &mut Command| match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_string()),
        Err(e) => Err(e.to_string()),
    };
    made_by(Command::new("python3").args(["-m", "venv"]).arg(&made))?;
    let pip = ["-m", "pip", "install", "--quiet", "--retries", "0", "--timeout", "10", "kenlm"];
    made_by(Command::new(made.join("bin/python")).args(pip))?;
    Ok(made.join("bin/python"))
}

/// Prints log10 p of every token of a text, then the perplexity.
const QUERY: &str = "
import kenlm, sys
model, total, tokens = kenlm.Model(sys.argv[1]), 0.0, 0
for line in open(sys.argv[2], encoding='utf-8'):
    if line.strip():
        for log, length, is_unknown in model.full_scores(line.strip()):
            print(repr(log))
            total, tokens = total + log, tokens + 1
print(10 ** (-total / tokens))
";

/// Compares the text's tokens as KenLM and we score them, and the perplexities to four digits behind the point.
fn compare_with_kenlm(python: &Path, model: &Path, text: &Path, folder: &Path, at_least: usize) {
    let arpa = write(folder, "model.arpa", export(model));
    let (query, tokens) = (write(folder, "query.py", QUERY), rows(&perplexity(model, text, &["--tokens"]).1));
    let (code, stdout, stderr) = run(Command::new(python).arg(query).arg(arpa).arg(text));
    assert_eq!(code, 0, "{stderr}");
    let theirs: Vec<f64> = stdout.lines().map(|line| line.parse().expect("a number")).collect();
    let (their_perplexity, theirs) = theirs.split_last().expect("figures");
    assert_eq!(theirs.len(), tokens.len());
    assert!(tokens.len() >= at_least, "{} tokens", tokens.len());
    let mut largest: f64 = 0.0;
    for (row, theirs) in tokens.iter().zip(theirs) {
        let difference = (row[3].parse::<f64>().unwrap() - theirs).abs();
        assert!(difference < 1e-4, "{row:?} is {theirs} in KenLM");
        largest = largest.max(difference);
    }
    let ours = json(model, text, &[])["perplexity"].as_f64().unwrap();
    eprintln!("KenLM: {} tokens, largest difference {largest:.1e}; {their_perplexity}, {ours} here", tokens.len());
    assert!((ours / their_perplexity - 1.0).abs() < 5e-6, "perplexity {their_perplexity} in KenLM, {ours} here");
}

/// A Python with kenlm, or none, said on stderr; looked for once, whichever tests ask.
fn kenlm() -> Option<PathBuf> {
    static FOUND: LazyLock<Result<PathBuf, String>> = LazyLock::new(python_with_kenlm);
    let tell = |reason: &String| skipped(&format!("there is no kenlm, and it cannot be installed: {reason}"));
    FOUND.as_ref().inspect_err(|reason| tell(reason)).ok().cloned()
}

#[test]
fn kenlm_reads_the_arpa_file_and_agrees() {
    let Some(python) = kenlm() else { return };
    let folder = folder();
    let model = trained(folder.path(), &small_text(), &["model.order=4"]);
    let text = write(folder.path(), "other", OTHER_TEXT.to_string() + &small_text());
    compare_with_kenlm(&python, &model, &text, folder.path(), 1000);
}

#[test]
fn kenlm_agrees_on_the_penn_treebank() {
    let Some(python) = kenlm() else { return };
    let folder = folder();
    let Some(data) = real_data("KenLM on the Penn Treebank") else { return };
    let (valid, test) = (data.join("ptb10k-lm/ptb.valid.txt"), data.join("ptb10k-lm/ptb.test.txt"));
    if !valid.exists() || !test.exists() {
        return skipped("KenLM on the Penn Treebank needs ptb10k-lm/ in SAWMILL_DATA");
    }
    let train = std::fs::read_to_string(&valid).unwrap(); // small enough for a test
    let model = trained(folder.path(), &train, &["model.order=5", "sampler.sweeps=5"]);
    compare_with_kenlm(&python, &model, &test, folder.path(), 80_000);
}

fn generate(model: &Path, more: &[&str]) -> String {
    let (code, stdout, stderr) = run(sawmill().arg("generate").arg(model).args(more));
    assert_eq!(code, 0, "{stderr}");
    stdout
}

#[test]
fn first_words_come_as_often_as_they_should() {
    const DRAWS: usize = 20_000;
    let folder = folder();
    for (order, prefix) in [("3", ""), ("3", "the"), ("4", "xyz a"), ("'infinite'", ""), ("'infinite'", "the")] {
        let out = trained(folder.path(), &small_text(), &[&format!("model.order={order}")]);
        let text = generate(&out, &["-n", &DRAWS.to_string(), "--max-length", "1", "--prefix", prefix]);
        let mut counts = HashMap::<&str, usize>::new();
        for line in text.lines() {
            let drawn = line.strip_prefix(prefix).expect("the prefix").trim();
            *counts.entry(if drawn.is_empty() { "</s>" } else { drawn }).or_default() += 1;
        }
        let model = LanguageModel::load(&out).unwrap();
        let mut history = History::begin(&model.symbols, model.depths() - 1);
        prefix.split_whitespace().for_each(|word| history.push(model.kept.vocabulary.id(word)));
        let (mut sum, mut chi_square) = (0.0, 0.0);
        for outcome in 0..model.symbols.outcomes() {
            let p = model.probability(history.words().iter().copied(), outcome).0;
            let (found, expected) = (*counts.get(model.word(outcome)).unwrap_or(&0) as f64, p * DRAWS as f64);
            let deviation = (expected * (1.0 - p)).sqrt();
            assert!(
                (found - expected).abs() < 4.5 * deviation + 0.5,
                "{order} {prefix} {}: {found}, {expected}",
                model.word(outcome)
            );
            sum += p;
            chi_square += (found - expected).powi(2) / expected;
        }
        assert!((sum - 1.0).abs() < 1e-9, "{order}, {prefix}: {sum}");
        let freedom = f64::from(model.symbols.outcomes() - 1);
        assert!(chi_square < freedom + 5.0 * (2.0 * freedom).sqrt(), "{order} {prefix}: {chi_square} of {freedom}");
    }
}

#[test]
fn a_seed_gives_its_sentences_again() {
    let folder = folder();
    let model = trained(folder.path(), &small_text(), &["model.order=3"]);
    let ten = generate(&model, &[]);
    assert_eq!(ten.lines().count(), 10);
    assert_eq!(generate(&model, &["-n", "10", "--seed", "1"]), ten);
    assert!(generate(&model, &["-n", "20"]).starts_with(&ten), "more sentences do not change the first ones");
    assert_ne!(generate(&model, &["--seed", "2"]), ten);
    let cut = generate(&model, &["-n", "50", "--max-length", "2", "--prefix", "the old"]);
    assert!(cut.lines().all(|line| line.starts_with("the old") && line.split(' ').count() <= 4), "{cut}");
    assert_eq!(generate(&model, &["-n", "0"]), "");
}

#[test]
fn what_cannot_be_done_is_said() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let model = trained(folder.path(), &small_text(), &["model.order=3"]).display().to_string();
    let text = path("text");
    write(folder.path(), "empty", "");
    write(folder.path(), "blank", "\n \n");
    write(folder.path(), "broken", b"the dog\ncaf\xe9\n");
    write(folder.path(), "lda", model_file::pack("lda", 1, &vec![1u8]).unwrap());
    write(folder.path(), "odd", model_file::pack("hpylm", 1, &vec![1u8]).unwrap());
    let mut bytes = std::fs::read(Path::new(&model).join("model")).unwrap();
    bytes.pop();
    write(folder.path(), "cut", bytes);
    let refused = |arguments: &[&str], expected: i32, words: &str| {
        let (code, stdout, stderr) = run(sawmill().args(arguments));
        assert_eq!((code, stdout.as_str()), (expected, ""), "{arguments:?}: {stderr}");
        assert!(stderr.contains(words), "{words}: {stderr}");
    };
    let verbs = |model: &str| {
        let words =
            |verb: &str, more: &[&str]| [&[verb, model], more].concat().into_iter().map(str::to_string).collect();
        let verbs: [Vec<String>; 3] =
            [words("perplexity", &[&text]), words("export", &["--format", "arpa"]), words("generate", &[])];
        verbs
    };
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    for (name, words) in [
        ("none", "none: No such file"),
        ("folder", "folder: there is no model in this folder: it is not the run folder of a training"),
        ("text", "text: this is not a model of sawmill"),
        ("cut", "cut: the checksum does not match: the file is damaged or cut off"),
        ("odd", "odd: "),
    ] {
        for verb in verbs(&path(name)) {
            refused(&verb.iter().map(String::as_str).collect::<Vec<_>>(), 3, words);
        }
    }
    for verb in &verbs(&path("lda"))[1..] {
        refused(&verb.iter().map(String::as_str).collect::<Vec<_>>(), 3, "this is a model of kind lda, not hpylm");
    }
    for more in [&[][..], &["--tokens"], &["--sentences"], &["--json"]] {
        for file in ["empty", "blank"] {
            refused(&[&["perplexity", &model, &path(file)], more].concat(), 3, "there is no sentence to score");
        }
    }
    refused(&["perplexity", &model, &path("none")], 3, "none: No such file");
    refused(&["perplexity", &model], 2, "FILE");
    refused(&["perplexity", &model, &text, "--tokens", "--sentences"], 2, "cannot be used with");
    for flags in [&["--documents"][..], &["--particles", "5"], &["--resample", "5"], &["--seed", "5"]] {
        let words = format!("{} is for a topic model; this is a language model", flags[0]);
        refused(&[&["perplexity", &model, &text], flags].concat(), 2, &words);
    }
    for flag in ["--tokens", "--sentences"] {
        let words = format!("{flag} is for a language model; this is a topic model");
        refused(&["perplexity", &path("lda"), &text, flag], 2, &words);
    }
    refused(&["export", &model], 2, "--format");
    refused(&["export", &model, "--format", "csv"], 2, "[possible values: arpa, sentences]");
    refused(&["export", &model, "--format", "arpa", "--out", &path("no/where")], 2, "cannot write");
    refused(&["export", &model, "--format", "arpa", "--out", &path("")], 2, "it is a folder; name a file");
    // A line that cannot be read is left out, and said.
    let (code, stdout, stderr) = run(sawmill().args(["perplexity", &model, &path("broken")]));
    assert!(code == 1 && stdout.contains("sentences: 1\n") && stderr.contains("broken:2: broken-encoding"), "{stderr}");
    trained(folder.path(), &small_text(), &["model.order='infinite'"]);
    refused(&["export", &model, "--format", "arpa"], 2, "no back-off form; train with a fixed model.order");
}
