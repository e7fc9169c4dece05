//! LDA as a user sees it: the same model whatever happens on the way, faults, and bad input.

use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rand::RngExt;
use sawmill::cluster::rng::{Purpose, generator};
use serde_json::Value;

use crate::support::{
    Running, SECRET, folder, free_addresses, real_data, run, sawmill, skipped, start, start_with_secret, wait_until,
    write,
};

/// Documents about four things, each with its own words and some common ones.
pub fn corpus(documents: u64, words: u64) -> String {
    let mut text = String::new();
    for document in 0..documents {
        let mut rng = generator(1, Purpose::Synth, document, 0);
        text += &format!("#DOC\td{document}\tc{}\n", document % 3);
        for i in 0..words {
            let theme = if rng.random_bool(0.7) { document % 4 } else { rng.random_range(0..5) };
            text += &format!("w{theme}x{}{}", rng.random_range(0..40u32), if i % 12 == 11 { "\n" } else { " " });
        }
        text.push('\n');
    }
    text
}

/// A job over `corpus.txt` in `folder`.
pub fn job(folder: &Path, more: &str) -> PathBuf {
    let text = format!(
        "kind = 'topics'\nseed = 3\nshards = 5\nout = 'out'\n[corpus]\ntrain = ['corpus.txt']\nformat = 'docs'\n\
         test = {{ hold_out = 6, by = 'category' }}\nmin_count = 2\n{more}"
    );
    write(folder, "job.toml", text)
}

pub const SHORT: &str =
    "[model]\ntopics = 8\n[sampler]\nsweeps = 30\nsync_every = 2\n[evaluation]\nevery = 10\n[checkpoint]\nevery = 4\n";

pub fn model(out: &Path) -> Vec<u8> {
    std::fs::read(out.join("model")).expect("a model")
}

/// Files of the report that hold nothing about speed.
pub fn results(out: &Path) -> Vec<Vec<u8>> {
    ["topics.tsv", "topic-words.tsv", "topic-keys.txt", "perplexity.tsv", "doc-topics.txt", "state.gz"]
        .map(|name| std::fs::read(out.join("report").join(name)).expect("a report"))
        .to_vec()
}

fn kill(signal: &str, process: u32) {
    Command::new("kill").args([signal, &process.to_string()]).status().expect("kill");
}

#[test]
fn threads_and_processes_give_the_same_model() {
    let folder = folder();
    write(folder.path(), "corpus.txt", corpus(60, 80));
    let job = job(folder.path(), SHORT);
    let mut expected = None;
    for workers in ["1", "2", "3"] {
        let out = folder.path().join(format!("threads-{workers}"));
        let (code, stderr) = start(&job, &out, &["--workers", workers]).end();
        assert_eq!(code, 0, "{stderr}");
        let found = (model(&out), results(&out));
        assert_eq!(expected.get_or_insert(found.clone()), &found, "{workers} threads");
    }
    for workers in ["1", "2", "3"] {
        let hosts = write(folder.path(), "hosts", free_addresses(2).join("\n"));
        let out = folder.path().join(format!("processes-{workers}"));
        let flags =
            |process: &'static str| ["--hosts", hosts.to_str().unwrap(), "--process", process, "--workers", workers];
        for (code, stderr) in [start(&job, &out, &flags("0")), start(&job, &out, &flags("1"))].map(Running::end) {
            assert_eq!(code, 0, "{stderr}");
        }
        assert_eq!(expected.as_ref().unwrap(), &(model(&out), results(&out)), "2 processes of {workers}");
    }
    // The model has found the four themes: the best topic of each theme is mostly its words.
    let words = std::fs::read_to_string(folder.path().join("threads-1/report/topics.tsv")).unwrap();
    for theme in 0..4 {
        let own = format!("w{theme}x");
        let best = words.lines().map(|line| line.matches(&own).count()).max();
        assert!(best >= Some(8), "theme {theme}: {words}");
    }
    // The page shows every topic with its words as bars and the documents that have most of it.
    let page = std::fs::read_to_string(folder.path().join("threads-1/report/index.html")).unwrap();
    let topics: Vec<&str> = page.split("<article>").skip(1).collect();
    assert_eq!(topics.len(), 8);
    for topic in topics {
        assert!(topic.matches("class=\"bar\"").count() == 12 && topic.contains(" %, \u{3b1} "), "{topic}");
        assert!(topic.contains("<p class=\"small\">d") && topic.contains(" %)"), "{topic}");
    }
    let summary: Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("threads-1/report/summary.json")).unwrap()).unwrap();
    for key in [
        "perplexity",
        "test_tokens",
        "log_likelihood",
        "sweeps",
        "tokens_per_second",
        "sync_bytes_per_sweep",
        "sync_seconds_per_sweep",
    ] {
        assert!(summary[key].is_number(), "{key}: {summary}");
    }
    assert!(summary["perplexity"].as_f64().unwrap() < 150.0, "200 words, four themes: {summary}");
}

/// Starts a job as one process, or as two.
fn start_several(job: &Path, out: &Path, processes: usize, more: &[&str]) -> Vec<Running> {
    if processes == 1 {
        return vec![start(job, out, more)];
    }
    let hosts = write(job.parent().unwrap(), "hosts", free_addresses(processes).join("\n"));
    let number = |process: usize| process.to_string();
    (0..processes)
        .map(|process| {
            let flags = ["--hosts", hosts.to_str().unwrap(), "--process", &number(process)];
            start(job, out, &[&flags, more].concat())
        })
        .collect()
}

#[test]
fn killed_at_any_moment_and_resumed_by_others_the_model_is_the_same() {
    let folder = folder();
    write(folder.path(), "corpus.txt", corpus(200, 300));
    let job = job(
        folder.path(),
        "[model]\ntopics = 20\n[sampler]\nsweeps = 300\nsyncs_per_sweep = 2\n[evaluation]\nevery = 0\nparticles = 2\n[checkpoint]\nevery = 7\n",
    );
    let whole = folder.path().join("whole");
    assert_eq!(start(&job, &whole, &["--workers", "2"]).end().0, 0);
    for processes in [1, 2] {
        let out = folder.path().join(format!("killed-{processes}"));
        let mut rng = generator(9, Purpose::Synth, processes as u64, 0);
        for killed in 0..5u64 {
            let _ = std::fs::remove_file(out.join("metrics.jsonl")); // of the run before
            let workers = (1 + killed % 3).to_string();
            let mut children = start_several(&job, &out, processes, &["--resume", "--workers", &workers]);
            // Twice at the start, all at once, since they would wait a minute for one that does not appear; else one of
            // them after some sweeps, fewer than a fifth.
            let is_at_start = killed % 3 == 1;
            let sweeps = if is_at_start { 0 } else { rng.random_range(1..50) };
            let is_over = |child: &mut Running| child.try_wait().unwrap().is_some();
            wait_until("some sweeps", || swept(&out) >= sweeps || children.iter_mut().any(is_over));
            std::thread::sleep(Duration::from_millis(rng.random_range(0..60)));
            let is_victim = |process: usize| is_at_start || process == killed as usize % processes;
            for (_, child) in children.iter_mut().enumerate().filter(|(process, _)| is_victim(*process)) {
                child.kill().unwrap();
            }
            for (process, child) in children.into_iter().enumerate() {
                let (code, stderr) = child.end();
                let expected = if is_victim(process) { -1 } else { 4 }; // another code: it was over before it was killed
                assert_eq!(code, expected, "process {process} of {processes}: {stderr}");
            }
        }
        let ends = start_several(&job, &out, processes, &["--resume", "--workers", "2"]).into_iter().map(Running::end);
        ends.for_each(|(code, stderr)| assert_eq!(code, 0, "{stderr}"));
        assert_eq!(model(&whole), model(&out), "{processes} processes");
        assert_eq!(results(&whole), results(&out), "{processes} processes");
    }
}

#[test]
fn killed_before_it_has_begun_it_leaves_a_folder_to_resume_in() {
    let folder = folder();
    write(folder.path(), "corpus.txt", corpus(20, 30));
    let job = job(folder.path(), SHORT);
    let whole = folder.path().join("whole");
    assert_eq!(start(&job, &whole, &["--workers", "1"]).end().0, 0);
    // What is there between two steps of the start: in a new folder, and in one that holds a result.
    let states: [&[&str]; 5] = [
        &["report/"],
        &["report/", ".lock", ".manifest.json.aB3x9z.sawmill-tmp"],
        &["report/", ".lock", "manifest.json"],
        &["report/", ".lock", ".files", "manifest.json", ".job.toml.aB3x9z.sawmill-tmp"],
        &["report/", ".lock", ".files", "manifest.json"],
    ];
    for (number, state) in states.iter().enumerate() {
        let out = folder.path().join(format!("cut-short-{number}"));
        std::fs::create_dir_all(out.join("report")).unwrap();
        for name in state.iter().filter(|name| !name.ends_with('/')) {
            let content = std::fs::read_to_string(whole.join(name)).unwrap_or_default();
            std::fs::write(out.join(name), content.replace("\"done\"", "\"running\"")).unwrap();
        }
        let (code, stderr) = start(&job, &out, &["--resume"]).end();
        assert_eq!(code, 0, "{state:?}: {stderr}");
        assert!(!stderr.contains("done already"), "{state:?}: {stderr}");
        assert_eq!((model(&whole), results(&whole)), (model(&out), results(&out)), "{state:?}");
    }
    // What is not a run folder is left alone.
    let foreign = folder.path().join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("thesis.tex"), "years").unwrap();
    assert_eq!(start(&job, &foreign, &["--resume"]).end().0, 2);
    assert!(foreign.join("thesis.tex").exists());
}

#[test]
fn asked_to_stop_it_leaves_a_checkpoint_and_goes_on_with_other_workers() {
    let folder = folder();
    write(folder.path(), "corpus.txt", corpus(100, 100));
    let job = job(
        folder.path(),
        "[model]\ntopics = 10\n[sampler]\nsweeps = 2000\nsyncs_per_sweep = 2\n[evaluation]\nparticles = 2\n[checkpoint]\nevery = 0\n",
    );
    let (whole, out) = (folder.path().join("whole"), folder.path().join("stopped"));
    assert_eq!(start(&job, &whole, &["--workers", "1"]).end().0, 0);
    for signal in ["-TERM", "-USR1"] {
        let resume: &[&str] = if signal == "-TERM" { &["--workers", "2"] } else { &["--workers", "3", "--resume"] };
        let _ = std::fs::remove_file(out.join("metrics.jsonl")); // of the run before
        let child = start(&job, &out, resume);
        wait_until("some sweeps", || swept(&out) > 5);
        kill(signal, child.id());
        let (code, stderr) = child.end();
        assert_eq!(code, 75, "{stderr}");
        let (_, status, _) = run(sawmill().arg("status").arg(&out));
        assert!(status.contains("stopped with a checkpoint") && status.contains("sweep "), "{status}");
    }
    let (code, stderr) = start(&job, &out, &["--resume", "--workers", "1"]).end();
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("going on after sweep"), "{stderr}");
    assert_eq!(model(&whole), model(&out));
}

#[test]
fn launch_brings_a_job_through_a_killed_process() {
    let folder = folder();
    write(folder.path(), "corpus.txt", corpus(200, 300));
    let job = job(
        folder.path(),
        "[model]\ntopics = 20\n[sampler]\nsweeps = 600\nsyncs_per_sweep = 2\n[evaluation]\nparticles = 2\n[checkpoint]\nevery = 10\n",
    );
    let whole = folder.path().join("whole");
    assert_eq!(start(&job, &whole, &["--workers", "2"]).end().0, 0);
    let out = folder.path().join("launched");
    let mut command = sawmill();
    command.args(["launch", "-n", "2", "--", "run"]).arg(&job).arg("--out").arg(&out).args([
        "--workers",
        "1",
        "--progress",
        "none",
    ]);
    let child = Running::spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()));
    wait_until("a checkpoint", || {
        out.join("checkpoints/latest.json").exists() && out.join("processes/1.json").exists()
    });
    let sign: Value = serde_json::from_slice(&std::fs::read(out.join("processes/1.json")).unwrap()).unwrap();
    kill("-KILL", sign["process_id"].as_u64().unwrap() as u32);
    let (code, stderr) = child.end();
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("starting again from the last checkpoint"), "{stderr}");
    assert!(stderr.contains("process 1 was killed"), "{stderr}");
    assert_eq!(model(&whole), model(&out));
}

/// Starts a job of many sweeps as two processes.
fn launch_long(folder: &Path, flags: &[&str]) -> (Running, PathBuf) {
    write(folder, "corpus.txt", corpus(200, 300));
    let job = job(
        folder,
        "[model]\ntopics = 20\n[sampler]\nsweeps = 100000\nsyncs_per_sweep = 2\n[evaluation]\nparticles = 2\n[checkpoint]\nevery = 5\n",
    );
    let out = folder.join("launched");
    let mut command = sawmill();
    command.args(["launch", "-n", "2"]).args(flags).args(["--", "run"]).arg(&job).arg("--out").arg(&out);
    command.args(["--workers", "1", "--progress", "none"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    (Running::spawn(&mut command), out)
}

/// The process id of the second process, once the job has a checkpoint from after `since`.
fn second_process(out: &Path, since: std::time::SystemTime) -> u32 {
    let latest = out.join("checkpoints/latest.json");
    let is_new = |path: &Path| std::fs::metadata(path).and_then(|file| file.modified()).is_ok_and(|time| time > since);
    wait_until("a new checkpoint", || is_new(&latest));
    let sign = std::fs::read(out.join("processes/1.json")).expect("a sign of life");
    let sign: Value = serde_json::from_slice(&sign).expect("JSON");
    sign["process_id"].as_u64().expect("a number") as u32
}

#[test]
fn launch_kills_a_stuck_process_when_asked_to_stop() {
    let folder = folder();
    let (child, out) = launch_long(folder.path(), &["--stop-within", "2"]);
    let stuck = second_process(&out, std::time::UNIX_EPOCH);
    kill("-STOP", stuck);
    let asked = Instant::now();
    kill("-TERM", child.id());
    let (code, stderr) = child.end();
    assert!(code == 75 && stderr.contains("not stopped within 2 s"), "{code}: {stderr}");
    assert!(asked.elapsed() < Duration::from_secs(30), "{:?}", asked.elapsed());
    assert!(!Path::new(&format!("/proc/{stuck}")).exists());
}

#[test]
fn launch_counts_retries_since_the_last_checkpoint() {
    let folder = folder();
    let (mut child, out) = launch_long(folder.path(), &["--retries", "1"]);
    for _ in 0..3 {
        let since = std::time::SystemTime::now();
        let victim = second_process(&out, since);
        assert!(child.try_wait().unwrap().is_none(), "it goes on");
        kill("-KILL", victim);
    }
    second_process(&out, std::time::SystemTime::now());
    kill("-TERM", child.id());
    let (code, stderr) = child.end();
    assert_eq!(code, 75, "{stderr}");
    assert_eq!(stderr.matches("(1 of 1)").count(), 3, "{stderr}");
}

#[test]
fn launch_reaches_other_hosts_through_ssh() {
    let folder = folder();
    write(folder.path(), "corpus.txt", corpus(60, 80));
    let job = job(folder.path(), SHORT);
    let (whole, out) = (folder.path().join("whole"), folder.path().join("hosts run"));
    assert_eq!(start(&job, &whole, &[]).end().0, 0);
    // In the place of ssh: takes options, a host and a command, and runs the command here, with an empty environment.
    let ssh = write(folder.path(), "ssh", "#!/bin/sh\n[ \"$1\" = -q ] && shift\nshift\nexec env -i sh -c \"$*\"\n");
    Command::new("chmod").arg("+x").arg(&ssh).status().expect("chmod");
    let hosts = write(folder.path(), "hosts.txt", free_addresses(2).join("\n"));
    // Variables that the job names: one that goes along by its name, one that has to be asked for.
    let text = std::fs::read_to_string(&job).unwrap().replace("corpus.txt", "${SAWMILL_FOLDER}/${CORPUS}");
    write(folder.path(), "job.toml", text);
    let launch = |more: &[&str]| {
        let mut command = sawmill();
        command.current_dir(folder.path()).args(["launch", "--hosts"]).arg(&hosts).args(more);
        command.env("SAWMILL_FOLDER", folder.path()).env("CORPUS", "corpus.txt");
        command.arg("--ssh").arg(format!("{} -q", ssh.display()));
        command.args(["--", "run", "job.toml", "--out"]).arg(&out).args(["--workers", "1"]);
        let (code, _, stderr) = run(&mut command);
        (code, stderr)
    };
    let (code, stderr) = launch(&[]);
    assert!(code == 2 && stderr.contains("variable CORPUS is not set"), "{code}: {stderr}");
    let (code, stderr) = launch(&["--env", "CORPSE"]);
    assert!(code == 2 && stderr.contains("--env CORPSE: there is no such variable here"), "{code}: {stderr}");
    let (code, stderr) = launch(&["--env", "CORPUS"]);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(model(&whole), model(&out));
}

/// Two network namespaces with a cable between them, removed at the end.
struct TwoHosts {
    names: [String; 2],
}

impl TwoHosts {
    /// None where they cannot be made.
    fn new() -> Option<TwoHosts> {
        let id = std::process::id() % 10_000;
        let names = ["a", "b"].map(|side| format!("saw{id}{side}"));
        let hosts = TwoHosts { names };
        let ip = |line: String| {
            Command::new("ip").args(line.split(' ')).output().is_ok_and(|output| output.status.success())
        };
        let [a, b] = &hosts.names;
        let made = ip(format!("netns add {a}"))
            && ip(format!("netns add {b}"))
            && ip(format!("link add v{a} netns {a} type veth peer name v{b} netns {b}"))
            && ip(format!("-n {a} addr add 10.77.9.1/24 dev v{a}"))
            && ip(format!("-n {b} addr add 10.77.9.2/24 dev v{b}"))
            && ip(format!("-n {a} link set v{a} up"))
            && ip(format!("-n {b} link set v{b} up"))
            && ip(format!("-n {a} link set lo up"))
            && ip(format!("-n {b} link set lo up"));
        if !made {
            skipped("a test on two hosts needs the right to make network namespaces (and `ip`)");
        }
        made.then_some(hosts)
    }
}

impl Drop for TwoHosts {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

#[test]
fn two_hosts_give_the_same_model() {
    let Some(hosts) = TwoHosts::new() else { return };
    let folder = folder();
    write(folder.path(), "corpus.txt", corpus(60, 80));
    let job = job(folder.path(), SHORT);
    let (whole, out) = (folder.path().join("whole"), folder.path().join("out"));
    assert_eq!(start(&job, &whole, &[]).end().0, 0);
    let file = write(folder.path(), "hosts.txt", "10.77.9.1:7701\n10.77.9.2:7701\n");
    let children = [0, 1].map(|process: usize| {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &hosts.names[process], env!("CARGO_BIN_EXE_sawmill"), "run"]).arg(&job);
        command.arg("--out").arg(&out).arg("--hosts").arg(&file).args([
            "--process",
            &process.to_string(),
            "--workers",
            "2",
        ]);
        command.env("SAWMILL_SECRET", SECRET).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::spawn(&mut command)
    });
    for (code, stderr) in children.map(Running::end) {
        assert_eq!(code, 0, "{stderr}");
    }
    assert_eq!(model(&whole), model(&out));
}

#[test]
fn a_panic_of_one_worker_ends_the_process_with_its_cause() {
    use sawmill::cluster::engine::{Cluster, end_process_on_panic};
    const CHILD: &str = "SAWMILL_TEST_PANICS";
    if std::env::var_os(CHILD).is_some() {
        end_process_on_panic();
        let _ = Cluster::local(3).run(Vec::new, |worker| {
            let mut gather = sawmill::cluster::operators::all_gather::AllGather::<u8>::new(worker, "Never");
            assert!(worker.index() != 1, "worker 1 has had enough");
            gather.exchange(worker, vec![]);
        });
        return;
    }
    let this = "topics_job::a_panic_of_one_worker_ends_the_process_with_its_cause";
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", this, "--nocapture"]).env(CHILD, "1").stdout(Stdio::null()).stderr(Stdio::piped());
    let (code, stderr) = Running::spawn(&mut command).end();
    assert_eq!(code, 70, "{stderr}");
    assert!(stderr.contains("worker 1 has had enough"), "{stderr}");
}

#[test]
fn when_launch_itself_is_killed_its_processes_stop_with_a_checkpoint() {
    let folder = folder();
    write(folder.path(), "corpus.txt", corpus(100, 200));
    let job = job(folder.path(), "[model]\ntopics = 20\n[sampler]\nsweeps = 1000000\n[checkpoint]\nevery = 0\n");
    let out = folder.path().join("out");
    let mut command = sawmill();
    command.args(["launch", "-n", "2", "--", "run"]).arg(&job).args(["--workers", "1"]);
    let mut child = Running::spawn(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()));
    wait_until("some sweeps", || swept(&out) > 5);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("a checkpoint", || out.join("checkpoints/latest.json").exists());
    wait_until("the processes are gone", || {
        run(sawmill().arg("status").arg(&out)).1.contains("stopped with a checkpoint")
    });
}

#[test]
fn a_stuck_process_is_named() {
    let folder = folder();
    write(folder.path(), "corpus.txt", corpus(50, 50));
    let job = job(folder.path(), "[model]\ntopics = 4\n[sampler]\nsweeps = 1000000\n");
    let out = folder.path().join("out");
    let children = start_several(&job, &out, 3, &["--workers", "1", "--stall-after", "3"]);
    wait_until("some sweeps", || swept(&out) > 5);
    wait_until("signs of life", || (0..3).all(|process| out.join(format!("processes/{process}.json")).exists()));
    kill("-STOP", children[1].id());
    let (mut codes, mut said) = (vec![], String::new());
    for (process, mut child) in children.into_iter().enumerate() {
        if process == 1 {
            child.kill().unwrap();
            child.wait().unwrap();
        } else {
            let (code, stderr) = child.end();
            codes.push(code);
            said += &stderr;
        }
    }
    assert_eq!(codes, [4, 4], "{said}");
    // Process 0 and 2 wait for each other too, but only process 1 is to blame.
    assert!(said.contains("for process 1 (process id") && said.contains("which is stuck"), "{said}");
}

#[test]
fn a_process_that_works_for_long_is_not_stuck() {
    let folder = folder();
    write(folder.path(), "corpus.txt", corpus(100, 300));
    // A round is one call of 4000 sweeps over a single shard, while process 1 has nothing to do but wait.
    let job = job(
        folder.path(),
        "[model]\ntopics = 20\n[sampler]\nsweeps = 4000\nsync_every = 4000\n[evaluation]\nevery = 0\n",
    );
    let out = folder.path().join("out");
    let began = Instant::now();
    let children = start_several(&job, &out, 2, &["--workers", "1", "--stall-after", "1", "--set", "shards=1"]);
    children.into_iter().map(Running::end).for_each(|(code, stderr)| assert_eq!(code, 0, "{stderr}"));
    assert!(began.elapsed() > Duration::from_secs(2), "longer than anybody would wait");
}

#[test]
fn status_says_which_process_is_slow_and_when_it_will_be_done() {
    let folder = folder();
    write(folder.path(), "corpus.txt", corpus(90, 300));
    // Of three shards, process 0 has two.
    let job = job(
        folder.path(),
        "[model]\ntopics = 100\n[sampler]\nsweeps = 1000000\nsync_every = 5\n[evaluation]\nevery = 10\nparticles = 1\n\
         [checkpoint]\nevery = 20\n",
    );
    let out = folder.path().join("out");
    let children = start_several(&job, &out, 2, &["--workers", "1", "--set", "shards=3"]);
    wait_until("some sweeps", || swept(&out) > 30);
    let status = || run(sawmill().arg("status").arg(&out)).1;
    wait_until("both have said how long they sweep", || status().contains("slowest: process 0"));
    let text = status();
    for part in ["running", "of 1000000, about ", "words per second; synchronisation ", "test perplexity: ", " s ago"] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    kill("-TERM", children[0].id());
    children.into_iter().map(Running::end).for_each(|(code, stderr)| assert_eq!(code, 75, "{stderr}"));
    // What is left, from all rounds: they are of five sweeps each.
    let metrics = std::fs::read_to_string(out.join("metrics.jsonl")).unwrap();
    let seconds = metrics.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["seconds"].as_f64().unwrap());
    let sweep = last_sweep(&out).unwrap();
    let left = seconds.sum::<f64>() / sweep as f64 * (1_000_000 - sweep) as f64;
    let text = status();
    assert!(text.contains(&format!("sweep {sweep} of 1000000, about {left:.0} s to go")), "{left} in {text}");
    assert!(text.contains(&format!("last checkpoint: sweep {sweep}, ")), "{text}");
}

#[test]
fn while_it_sweeps_no_stranger_finds_an_open_port() {
    let folder = folder();
    write(folder.path(), "corpus.txt", corpus(50, 50));
    let job = job(folder.path(), "[model]\ntopics = 4\n[sampler]\nsweeps = 1000000\n");
    let out = folder.path().join("out");
    let children = start_several(&job, &out, 2, &["--workers", "1"]);
    wait_until("some sweeps", || swept(&out) > 5);
    let hosts = std::fs::read_to_string(folder.path().join("hosts")).unwrap();
    for address in hosts.lines() {
        let error = TcpStream::connect(address).expect_err("nobody listens any more");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused, "{address}");
    }
    let before = swept(&out);
    wait_until("it goes on", || swept(&out) > before + 5);
    kill("-TERM", children[1].id());
    children.into_iter().map(Running::end).for_each(|(code, stderr)| assert_eq!(code, 75, "{stderr}"));
}

#[test]
fn a_damaged_checkpoint_is_refused_and_the_one_before_is_used() {
    let folder = folder();
    write(folder.path(), "corpus.txt", corpus(60, 80));
    let job = job(folder.path(), SHORT);
    let out = folder.path().join("out");
    assert_eq!(start(&job, &out, &[]).end().0, 0);
    let expected = model(&out);
    let part = out.join("checkpoints/sweep-00000030/shard-00002");
    let mut bytes = std::fs::read(&part).unwrap();
    *bytes.last_mut().unwrap() ^= 4;
    std::fs::write(&part, bytes).unwrap();
    // As if it had died after the last checkpoint.
    let manifest = std::fs::read_to_string(out.join("manifest.json")).unwrap().replace("\"done\"", "\"running\"");
    std::fs::write(out.join("manifest.json"), manifest).unwrap();
    let (code, stderr) = start(&job, &out, &["--resume"]).end();
    assert_eq!(code, 0, "{stderr}");
    assert!(
        stderr.contains("shard-00002: its checksum does not match") && stderr.contains("going on after sweep 28"),
        "{stderr}"
    );
    assert_eq!(model(&out), expected);
}

#[test]
fn a_full_disk_keeps_the_checkpoint_before() {
    let folder = folder();
    let small = folder.path().join("small");
    std::fs::create_dir(&small).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=120k", "none"]).arg(&small).status();
    if !mounted.is_ok_and(|status| status.success()) {
        return skipped("a_full_disk_keeps_the_checkpoint_before needs the right to mount a small tmpfs");
    }
    write(folder.path(), "corpus.txt", corpus(200, 400));
    let job = job(
        folder.path(),
        "[model]\ntopics = 30\n[sampler]\nsweeps = 20\n[evaluation]\nparticles = 1\n[checkpoint]\nevery = 2\n",
    );
    let (whole, out) = (folder.path().join("whole"), small.join("run"));
    assert_eq!(start(&job, &whole, &[]).end().0, 0);
    let full = start(&job, &out, &["--workers", "2"]).end();
    // With more room it goes on from the checkpoint that was there.
    let _ = Command::new("mount").args(["-o", "remount,size=20m"]).arg(&small).status();
    let resumed = start(&job, &out, &["--workers", "1", "--resume"]).end();
    let models = [model(&whole), std::fs::read(out.join("model")).unwrap_or_default()];
    let _ = Command::new("umount").arg(&small).status();
    let (code, stderr) = full;
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("No space left") && stderr.contains("the one before it stays"), "{stderr}");
    let (code, stderr) = resumed;
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("going on after sweep "), "{stderr}");
    assert!(models[0] == models[1], "the model is the same");
}

/// The sweep of the last checkpoint.
fn last_checkpoint(out: &Path) -> u64 {
    let text = std::fs::read(out.join("checkpoints/latest.json")).expect("a checkpoint");
    serde_json::from_slice::<Value>(&text).unwrap()["sweep"].as_u64().unwrap()
}

/// How many rounds the metrics tell of.
fn swept(out: &Path) -> usize {
    std::fs::read_to_string(out.join("metrics.jsonl")).map_or(0, |text| text.lines().count())
}

/// The last sweep that the metrics tell of.
fn last_sweep(out: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(out.join("metrics.jsonl")).ok()?;
    serde_json::from_str::<Value>(text.lines().last()?).ok()?["sweep"].as_u64()
}

#[test]
fn killed_while_it_writes_a_checkpoint_the_one_before_counts() {
    let folder = folder();
    write(folder.path(), "corpus.txt", corpus(100, 100));
    let job = job(
        folder.path(),
        "[model]\ntopics = 10\n[sampler]\nsweeps = 2000\nsyncs_per_sweep = 2\n[evaluation]\nparticles = 2\n[checkpoint]\nevery = 50\n",
    );
    let (whole, out) = (folder.path().join("whole"), folder.path().join("killed"));
    assert_eq!(start(&job, &whole, &["--workers", "2"]).end().0, 0);
    let child = start(&job, &out, &["--workers", "1"]);
    wait_until("some sweeps", || last_sweep(&out) > Some(5));
    kill("-TERM", child.id());
    assert_eq!(child.end().0, 75);
    let before = last_checkpoint(&out);
    let next = (before / 50 + 1) * 50;
    // Metrics tell nothing where a run goes on right before the checkpoint it is held at.
    let swept = || last_sweep(&out).unwrap_or(before);
    // A pipe that nobody reads, in the place of a file that is about to be written, holds the writer at that very point:
    // in the first part, in the last one, and when all parts are there but do not count yet.
    let parts = out.join("checkpoints").join(format!("sweep-{next:08}"));
    let points = [parts.join("shard-00001.tmp"), parts.join("shared.tmp"), out.join("checkpoints").join("next.tmp")];
    for (point, workers) in points.iter().zip(["1", "2", "3"]) {
        std::fs::create_dir_all(&parts).unwrap();
        assert!(Command::new("mkfifo").arg(point).status().expect("mkfifo").success());
        let _ = std::fs::remove_file(out.join("metrics.jsonl")); // of the run before
        let mut child = start(&job, &out, &["--resume", "--workers", workers]);
        wait_until("the sweep before", || swept() == next - 1);
        std::thread::sleep(Duration::from_millis(300)); // to get there; where it is slow, it is killed on its way
        assert_eq!((swept(), last_checkpoint(&out)), (next - 1, before), "it waits at {point:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        std::fs::remove_file(point).unwrap();
        std::fs::write(point, "half of a fi").unwrap();
    }
    let (code, stderr) = start(&job, &out, &["--resume", "--workers", "2"]).end();
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains(&format!("going on after sweep {before}")), "{stderr}");
    assert_eq!(model(&whole), model(&out));
    assert_eq!(results(&whole), results(&out));
}

#[test]
fn strangers_at_the_start_do_not_change_the_model() {
    let folder = folder();
    write(folder.path(), "corpus.txt", corpus(60, 80));
    let job = job(folder.path(), SHORT);
    let (whole, out) = (folder.path().join("whole"), folder.path().join("out"));
    assert_eq!(start(&job, &whole, &[]).end().0, 0);
    let addresses = free_addresses(2);
    let hosts = write(folder.path(), "hosts", addresses.join("\n"));
    let process = |number: &'static str, secret: &str, more: &[&str]| {
        let flags = ["--hosts", hosts.to_str().unwrap(), "--process", number, "--workers", "1"];
        start_with_secret(&job, &out, secret, &[&flags, more].concat())
    };
    let first = process("0", SECRET, &[]);
    let connect = || {
        let mut socket = None;
        wait_until("it listens", || {
            socket = TcpStream::connect(&addresses[0]).ok();
            socket.is_some()
        });
        socket.expect("a socket")
    };
    // One that says nothing, one that knows how a greeting begins but no secret, and one that floods.
    let silent = connect();
    let mut parrot = connect();
    parrot.write_all(b"sawmill\x02").expect("it listens");
    let _ = parrot.write_all(&[7; 48]);
    let mut flood = connect();
    while flood.write_all(&[0; 1 << 16]).is_ok() {}
    let (code, stderr) = process("1", "", &[]).end();
    assert_eq!(code, 2, "{stderr}");
    let (code, stderr) = process("1", "another secret, as long", &["--start-within", "1"]).end();
    assert_eq!(code, 4, "{stderr}");
    assert!(stderr.contains("another secret"), "{stderr}");
    let (code, stderr) = process("1", SECRET, &[]).end();
    assert_eq!(code, 0, "{stderr}");
    let (code, stderr) = first.end();
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("it holds another secret") && stderr.contains("it is not sawmill"), "{stderr}");
    assert_eq!(model(&whole), model(&out));
    drop(silent);
}

#[test]
fn a_run_folder_is_for_one_job_at_a_time() {
    let folder = folder();
    write(folder.path(), "corpus.txt", corpus(100, 100));
    let job = job(
        folder.path(),
        "[model]\ntopics = 10\n[sampler]\nsweeps = 3000\nsyncs_per_sweep = 2\n[evaluation]\nparticles = 2\n[checkpoint]\nevery = 100\n",
    );
    let (whole, out) = (folder.path().join("whole"), folder.path().join("shared"));
    assert_eq!(start(&job, &whole, &["--workers", "1"]).end().0, 0);
    let mut first = start(&job, &out, &["--workers", "1"]);
    wait_until("a checkpoint", || out.join("checkpoints/latest.json").exists());
    for more in [&[][..], &["--resume"], &["--set", "seed=4"]] {
        let (code, stderr) = start(&job, &out, more).end();
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains("another run is writing into this folder"), "{stderr}");
    }
    assert!(first.try_wait().unwrap().is_none(), "the first is still at it");
    let (code, stderr) = first.end();
    assert_eq!(code, 0, "{stderr}");
    assert_eq!((model(&whole), results(&whole)), (model(&out), results(&out)));
}

#[test]
fn odd_corpora_give_a_clear_message_or_a_sensible_result() {
    let folder = folder();
    let job = |text: &str, more: &str| {
        write(folder.path(), "corpus.txt", text);
        let head = "kind = 'topics'\nout = 'out'\n[corpus]\ntrain = ['corpus.txt']\nformat = 'docs'\n";
        let job = write(folder.path(), "job.toml", format!("{head}{more}\n[sampler]\nsweeps = 3\n"));
        run(sawmill().arg("run").arg(job).arg("--fresh"))
    };
    let doc = |id: u32, text: &str| format!("#DOC\td{id}\tc\n{text}\n");
    let (code, _, stderr) = job("", "");
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains("no word to train on"), "{stderr}");
    let (code, _, stderr) = job(&doc(1, ""), "");
    assert_eq!(code, 3, "{stderr}");
    assert_eq!(job(&doc(1, "one document"), "").0, 0);
    assert_eq!(job(&(doc(1, "a b a") + &doc(2, "") + &doc(3, "rare words only")), "min_count = 2").0, 0);
    assert_eq!(job(&doc(1, "a b"), "[model]\ntopics = 500").0, 0);
    let (code, _, stderr) = job(&doc(1, "a b"), "test = { hold_out = 1 }");
    assert_eq!(code, 3);
    assert!(stderr.contains("leaves none to train on"), "{stderr}");
    write(folder.path(), "test.txt", doc(9, "x y z"));
    let (code, _, stderr) = job(&(doc(1, "a b a b") + &doc(2, "a a a c")), "test = ['test.txt']");
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("(3 words, 3 unknown)"), "{stderr}");
    let _ = Command::new("mkfifo").arg(folder.path().join("pipe")).status();
    for (file, code_of, said) in [("-", 2, "standard input cannot be"), ("pipe", 3, "a pipe or device cannot be")] {
        let (code, _, stderr) = job(&doc(1, "a b"), &format!("test = ['{file}']"));
        assert_eq!(code, code_of, "{stderr}");
        assert!(stderr.contains(said), "{stderr}");
    }
    let (code, _, stderr) = job("no header\n", "");
    assert_eq!(code, 3, "{stderr}");
    let (code, _, stderr) = job(&doc(1, "a"), "[model]\ntopics = 0");
    assert_eq!(code, 2);
    assert!(stderr.contains("between 1 and 65534"), "{stderr}");
}

#[test]
#[ignore = "a minute; run by scripts/check --all"]
fn on_brown_eight_shards_are_as_good_as_one() {
    let Some(_) = real_data("on_brown_eight_shards_are_as_good_as_one") else { return };
    let folder = folder();
    let job = Path::new(env!("CARGO_MANIFEST_DIR")).join("jobs/brown-lda.toml");
    let perplexity = |shards: &str| {
        let out = folder.path().join(shards);
        let set = format!("shards={shards}");
        let (code, stderr) =
            start(&job, &out, &["--set", &set, "--set", "sampler.sweeps=100", "--set", "evaluation.every=0"]).end();
        assert_eq!(code, 0, "{stderr}");
        let summary: Value = serde_json::from_slice(&std::fs::read(out.join("report/summary.json")).unwrap()).unwrap();
        summary["perplexity"].as_f64().unwrap()
    };
    let (one, eight) = (perplexity("1"), perplexity("8"));
    assert!((eight / one - 1.0).abs() < 0.01, "1 shard: {one}, 8 shards: {eight}");
}
