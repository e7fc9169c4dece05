//! The cluster never shows in the result: 1, 2 and 3 threads, 2 processes, and a plain sequential twin give the same
//! reports, byte for byte.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use sawmill::cluster::scan::{Counter as _, Problems};
use sawmill::corpus::diagnostic::Diagnostic;
use sawmill::corpus::piece::{Blocks, Encoding, Input, Origin};
use sawmill::corpus::synth::{Grammar, Language};
use sawmill::oracle::count::{Counter, System};
use sawmill::oracle::job::Settings;
use sawmill::oracle::report;
use sawmill::oracle::study::Study;

use crate::support::{
    SECRET, assert_same_files, conllu, files_below, finish, folder, free_addresses, real_data, run, sawmill, write,
};

/// Some of everything: several files and treebanks, a packed one, an artificial one, a broken sentence in the middle of
/// a file that is cut.
fn mixed_job(folder: &Path) -> PathBuf {
    let language = |name: &str| Language {
        name: name.into(),
        seed: 3,
        grammar: Grammar { sentences: 3000, ..Grammar::default() },
    };
    let mut plain = Vec::new();
    (0..3000).for_each(|index| language("plain").write_sentence(index, &mut plain));
    plain.extend(conllu("broken", &[5]).bytes());
    (3000..4000).for_each(|index| language("plain").write_sentence(index, &mut plain));
    plain.extend(conllu("crossing", &[3, 4, 0, 3]).bytes());
    write(folder, "plain.conllu", &plain);
    let mut packed = Vec::new();
    (0..3000).for_each(|index| language("packed").write_sentence(index, &mut packed));
    write(folder, "packed.conllu.zst", zstd::encode_all(packed.as_slice(), 1).unwrap());
    let job = "kind = 'oracle'\nseed = 5\nshards = 9\nout = 'out'\n[oracle]\nreorder = 2\n[treebanks]\n\
               plain = 'plain.conllu'\npacked = 'packed.conllu.zst'\n\
               both = ['plain.conllu', { synth = { sentences = 500, center_embedding = 0.3 } }]\n";
    write(folder, "job.toml", job)
}

/// The report of `job` as a plain loop makes it.
fn sequential_twin(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let file = |group, name: &str| Input::file(group, folder.join(name), Encoding::Utf8).unwrap();
    let synth = Language {
        name: "both".into(),
        seed: 5,
        grammar: Grammar { sentences: 500, center_embedding: 0.3, ..Grammar::default() },
    };
    // Treebanks are in the order of their names.
    let inputs = [
        file(0, "plain.conllu"),
        Input { group: 0, origin: Origin::Synthetic(Box::new(synth)) },
        file(1, "packed.conllu.zst"),
        file(2, "plain.conllu"),
    ];
    let mut counter = Counter::new(Settings { reorder: 2, ..Settings::default() }, 5);
    let mut problems = Vec::new();
    for (number, input) in (0..).zip(&inputs) {
        let mut blocks = Blocks::open(0, &input.whole_piece(number), input);
        let mut first = Problems::default();
        while let Some(block) = blocks.next_block() {
            counter.count_block(input.group, &block, &mut |problem| first.keep(number, 0, problem));
        }
        problems.extend(first.drain().map(|(_, problem)| Diagnostic { path: input.name(), problem }));
    }
    let mut counts = BTreeMap::new();
    counter.drain(&mut |key, n| *counts.entry(key).or_insert(0) += n);
    let names = ["both", "packed", "plain"].map(str::to_string);
    let study = Study::new(&names, &System::ALL, &counts);
    report::files("job", &study, &problems)
        .into_iter()
        .map(|(name, text)| (name.to_string(), text.into_bytes()))
        .collect()
}

/// Starts one process of several.
fn start(job: &Path, out: &Path, hosts: &Path, process: usize, workers: usize) -> Child {
    let mut command = sawmill();
    command.arg("run").arg(job).arg("--out").arg(out).arg("--hosts").arg(hosts);
    command.args(["--process", &process.to_string(), "--workers", &workers.to_string(), "--progress", "none"]);
    command.env("SAWMILL_SECRET", SECRET).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("sawmill starts")
}

fn report_of_processes(job: &Path, folder: &Path, workers: usize) -> BTreeMap<String, Vec<u8>> {
    let hosts = write(folder, "hosts", format!("# two on loopback\n{}\n", free_addresses(2).join("\n")));
    let out = folder.join(format!("processes-{workers}"));
    let children = [0, 1].map(|process| start(job, &out, &hosts, process, workers));
    for child in children {
        let (code, _, stderr) = finish(child.wait_with_output().expect("it ends"));
        assert!(code <= 1, "{stderr}");
    }
    files_below(&out.join("report"))
}

#[test]
fn threads_processes_and_a_plain_loop_give_the_same_bytes() {
    let folder = folder();
    let job = mixed_job(folder.path());
    let twin = sequential_twin(folder.path());
    assert!(String::from_utf8_lossy(&twin["problems.tsv"]).contains("broken"), "the broken sentence is reported");
    for workers in ["1", "2", "3"] {
        let out = folder.path().join(format!("threads-{workers}"));
        let (code, _, stderr) = run(sawmill().arg("run").arg(&job).arg("--out").arg(&out).args(["--workers", workers]));
        assert_eq!(code, 1, "one sentence is broken: {stderr}");
        assert_same_files(&twin, &files_below(&out.join("report")), &format!("{workers} threads against a plain loop"));
    }
    for workers in [1, 2] {
        let report = report_of_processes(&job, folder.path(), workers);
        assert_same_files(&twin, &report, &format!("2 processes of {workers} against a plain loop"));
    }
}

#[test]
fn the_number_of_shards_does_not_show_either() {
    let folder = folder();
    let job = mixed_job(folder.path());
    let report = |shards: &str| {
        let out = folder.path().join(shards);
        let set = format!("shards={shards}");
        run(sawmill().arg("run").arg(&job).arg("--out").arg(&out).args(["--workers", "2", "--set", &set]));
        files_below(&out.join("report"))
    };
    assert_same_files(&report("1"), &report("200"), "1 shard and 200");
}

#[test]
fn the_18_languages_give_the_same_bytes_on_threads_and_processes() {
    let Some(_) = real_data("the_18_languages_give_the_same_bytes_on_threads_and_processes") else { return };
    let folder = folder();
    let job = Path::new(env!("CARGO_MANIFEST_DIR")).join("jobs/conll18.toml");
    let report = |workers: &str| {
        let out = folder.path().join(workers);
        let (code, _, stderr) = run(sawmill().arg("run").arg(&job).arg("--out").arg(&out).args(["--workers", workers]));
        assert_eq!(code, 0, "{stderr}");
        files_below(&out.join("report"))
    };
    let one = report("1");
    assert_same_files(&one, &report("2"), "1 and 2 threads");
    assert_same_files(&one, &report_of_processes(&job, folder.path(), 1), "1 thread and 2 processes");
}
