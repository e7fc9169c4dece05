//! Strangers, other jobs, missing processes, and whoever sits between two processes.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sawmill::cluster::mesh::Mesh;

use crate::support::{self, Running, SECRET, finish, folder, free_addresses, sawmill, wait_until, write};
use crate::topics_job::{self, corpus, model};

const JOB: &str = "kind = 'oracle'\n[treebanks]\nx = { synth = { sentences = 200 } }\n";

fn start(folder: &Path, hosts: &Path, process: usize, secret: &str, more: &[&str]) -> Child {
    let mut command = sawmill();
    command.arg("run").arg(folder.join("job.toml")).arg("--out").arg(folder.join("out")).arg("--hosts").arg(hosts);
    command.args(["--process", &process.to_string(), "--workers", "1"]).args(more).env("SAWMILL_SECRET", secret);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("sawmill starts")
}

fn end(child: Child) -> (i32, String) {
    let (code, _, stderr) = finish(child.wait_with_output().expect("it ends"));
    (code, stderr)
}

fn set_up(folder: &Path) -> (PathBuf, Vec<String>) {
    write(folder, "job.toml", JOB);
    let addresses = free_addresses(2);
    (write(folder, "hosts", addresses.join("\n")), addresses)
}

#[test]
fn a_process_that_does_not_appear_is_named() {
    let folder = folder();
    let (hosts, addresses) = set_up(folder.path());
    let (code, stderr) = end(start(folder.path(), &hosts, 0, SECRET, &["--start-within", "1"]));
    assert_eq!(code, 4);
    assert!(stderr.contains(&format!("1 ({})", addresses[1])), "{stderr}");
}

#[test]
fn another_secret_is_refused_on_both_sides() {
    let folder = folder();
    let (hosts, _) = set_up(folder.path());
    let children = [
        start(folder.path(), &hosts, 0, SECRET, &["--start-within", "2"]),
        start(folder.path(), &hosts, 1, "another secret, as long", &["--start-within", "2"]),
    ];
    let [(code_0, stderr_0), (code_1, stderr_1)] = children.map(end);
    assert_eq!((code_0, code_1), (4, 4), "{stderr_0}\n{stderr_1}");
    assert!(stderr_0.contains("another secret"), "{stderr_0}");
    assert!(stderr_1.contains("another secret"), "{stderr_1}");
}

#[test]
fn another_job_is_refused_on_both_sides() {
    let folder = folder();
    let (hosts, _) = set_up(folder.path());
    let children =
        [start(folder.path(), &hosts, 0, SECRET, &[]), start(folder.path(), &hosts, 1, SECRET, &["--set", "seed=9"])];
    for (code, stderr) in children.map(end) {
        assert_eq!(code, 4, "{stderr}");
        assert!(stderr.contains("does not match this process: "), "{stderr}");
        assert!(stderr.contains("seed (here 1, there 9)") || stderr.contains("seed (here 9, there 1)"), "{stderr}");
    }
    // Nor may only one of them encrypt.
    let (hosts, _) = set_up(folder.path());
    let children =
        [start(folder.path(), &hosts, 0, SECRET, &["--encrypt", "off"]), start(folder.path(), &hosts, 1, SECRET, &[])];
    let [(code_0, stderr_0), (code_1, stderr_1)] = children.map(end);
    assert_eq!((code_0, code_1), (4, 4), "{stderr_0}\n{stderr_1}");
    assert!(stderr_0.contains("encryption (here off, there on)"), "{stderr_0}");
    assert!(stderr_1.contains("encryption (here on, there off)"), "{stderr_1}");
    // Nor may one watch while the other does not.
    let (hosts, _) = set_up(folder.path());
    let children =
        [start(folder.path(), &hosts, 0, SECRET, &["--watch"]), start(folder.path(), &hosts, 1, SECRET, &[])];
    assert_eq!(children.map(end).map(|(code, _)| code), [4, 4]);
}

#[test]
fn an_interrupt_of_one_ends_all_that_watch() {
    let folder = folder();
    let (hosts, _) = set_up(folder.path());
    let children = [0, 1].map(|process| start(folder.path(), &hosts, process, SECRET, &["--watch"]));
    wait_until("the first report", || folder.path().join("out/report/index.html").exists());
    std::process::Command::new("kill").args(["-INT", &children[0].id().to_string()]).status().expect("kill");
    assert_eq!(children.map(end).map(|(code, _)| code), [0, 0]);
}

#[test]
fn standard_input_is_not_for_several_processes() {
    let folder = folder();
    let (hosts, _) = set_up(folder.path());
    let (code, stderr) = end(start(folder.path(), &hosts, 0, SECRET, &["--set", "treebanks.x='-'"]));
    assert_eq!(code, 2);
    assert!(stderr.contains("each has its own"), "{stderr}");
}

#[test]
fn strangers_are_dropped_and_the_job_goes_on() {
    let folder = folder();
    let (hosts, addresses) = set_up(folder.path());
    let first = start(folder.path(), &hosts, 0, SECRET, &[]);
    // One that speaks another protocol, one that floods, and one that says nothing.
    let connect = || loop {
        if let Ok(socket) = TcpStream::connect(&addresses[0]) {
            return socket;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    connect().write_all(b"GET / HTTP/1.1\r\nHost: sawmill\r\n\r\n").expect("it listens");
    let mut flood = connect();
    while flood.write_all(&[0; 1 << 16]).is_ok() {}
    let silent = connect();
    let second = start(folder.path(), &hosts, 1, SECRET, &[]);
    let (code, stderr) = end(second);
    assert_eq!(code, 0, "{stderr}");
    let (code, stderr) = end(first);
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("refused a connection"), "{stderr}");
    drop(silent);
}

#[test]
fn several_processes_need_a_secret() {
    let folder = folder();
    let (hosts, _) = set_up(folder.path());
    let (code, stderr) = end(start(folder.path(), &hosts, 0, "", &[]));
    assert_eq!(code, 2);
    assert!(stderr.contains("SAWMILL_SECRET"), "{stderr}");
}

#[test]
fn when_one_process_is_killed_the_other_ends() {
    let folder = folder();
    // Enough work that both are in the middle of it.
    write(folder.path(), "job.toml", "kind = 'oracle'\n[treebanks]\nx = { synth = { sentences = 5000000 } }\n");
    let hosts = write(folder.path(), "hosts", free_addresses(2).join("\n"));
    let survivor = start(folder.path(), &hosts, 0, SECRET, &[]);
    let mut victim = start(folder.path(), &hosts, 1, SECRET, &[]);
    wait_until("both have begun", || folder.path().join("out/metrics.jsonl").exists());
    victim.kill().expect("it runs");
    victim.wait().expect("it ends");
    let (code, stderr) = end(survivor);
    assert_eq!(code, 4, "{stderr}");
    assert!(stderr.contains("was lost"), "{stderr}");
}

/// A connection to a process that is about to listen.
fn connect(address: &str) -> TcpStream {
    let mut socket = None;
    wait_until("it listens", || {
        socket = TcpStream::connect(address).ok();
        socket.is_some()
    });
    socket.expect("a socket")
}

#[test]
fn silent_and_slow_strangers_keep_nobody_out() {
    let folder = folder();
    let (hosts, addresses) = set_up(folder.path());
    let first = start(folder.path(), &hosts, 0, SECRET, &[]);
    drop(connect(&addresses[0]));
    let silent: Vec<TcpStream> = (0..300).map(|_| connect(&addresses[0])).collect();
    let mut slow: Vec<TcpStream> = (0..64).map(|_| connect(&addresses[0])).collect();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let writing = std::thread::spawn(move || {
        while stopped
            .recv_timeout(Duration::from_secs(1))
            .is_err_and(|e| e == std::sync::mpsc::RecvTimeoutError::Timeout)
        {
            slow.iter_mut().for_each(|socket| drop(socket.write_all(b"s"))); // it may have been dropped
        }
    });
    let started = Instant::now();
    let second = start(folder.path(), &hosts, 1, SECRET, &[]);
    for (code, stderr) in [second, first].map(end) {
        assert_eq!(code, 0, "{stderr}");
        assert!(stderr.lines().count() < 40, "not a line for each of them: {stderr}");
    }
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    drop(stop);
    writing.join().unwrap();
    drop(silent);
}

#[test]
fn a_stranger_has_five_seconds_in_all() {
    let folder = folder();
    let (hosts, addresses) = set_up(folder.path());
    let mut first = start(folder.path(), &hosts, 0, SECRET, &["--start-within", "60"]);
    let mut slow = connect(&addresses[0]);
    let started = Instant::now();
    slow.set_read_timeout(Some(Duration::from_millis(1000))).unwrap();
    let is_open = |socket: &mut TcpStream| match socket.read(&mut [0]) {
        Ok(read) => read > 0,
        Err(e) => matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut),
    };
    while is_open(&mut slow) {
        assert!(started.elapsed() < Duration::from_secs(30), "it is still connected");
        let _ = slow.write_all(b"s");
    }
    assert!(started.elapsed() > Duration::from_secs(4) && started.elapsed() < Duration::from_secs(15));
    first.kill().unwrap();
    first.wait().unwrap();
}

#[test]
fn a_second_process_of_the_same_number_is_told_so() {
    let addresses = free_addresses(4);
    let join = |process: usize, own: usize| {
        let mut mesh = Mesh {
            process,
            addresses: addresses[..3].to_vec(),
            secret: SECRET.to_string(),
            encrypt: true,
            facts: vec![],
            folder: None,
            start_within: Duration::from_secs(3),
        };
        mesh.addresses[process] = addresses[own].clone();
        std::thread::spawn(move || mesh.connect().map(drop))
    };
    let all = [join(0, 0), join(1, 1)];
    std::thread::sleep(Duration::from_millis(1000));
    let error = join(1, 3).join().unwrap().unwrap_err().to_string();
    assert!(error.contains("there is a process 1 already"), "{error}");
    for waiting in all {
        let error = waiting.join().unwrap().unwrap_err().to_string();
        assert!(error.contains(&format!("had not appeared (or hold another secret): 2 ({})", addresses[2])), "{error}");
    }
}

#[test]
fn a_host_that_is_not_known_yet_is_tried_again() {
    let folder = folder();
    write(folder.path(), "job.toml", JOB);
    let addresses = free_addresses(2);
    let hosts = write(folder.path(), "hosts", format!("no-such-host.invalid:7701\n{}", addresses[1]));
    for process in [0, 1] {
        let started = Instant::now();
        let (code, stderr) = end(start(folder.path(), &hosts, process, SECRET, &["--start-within", "2"]));
        assert_eq!(code, 4, "{stderr}");
        assert!(started.elapsed() >= Duration::from_secs(2), "it gave up: {stderr}");
        assert!(stderr.contains("no-such-host.invalid:7701") && stderr.contains("failed to lookup"), "{stderr}");
    }
}

#[test]
fn secrets_are_long_and_kept_from_others() {
    let folder = folder();
    let (hosts, _) = set_up(folder.path());
    let (code, stderr) = end(start(folder.path(), &hosts, 0, "15 bytes of it.", &[]));
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("at least 16") && stderr.contains("head -c 32 /dev/urandom"), "{stderr}");

    let file = write(folder.path(), "secret", format!("{SECRET}\n"));
    let with_file = |file: &Path| {
        let flags = ["--start-within", "0", "--secret-file", file.to_str().unwrap()];
        end(start(folder.path(), &hosts, 0, "", &flags))
    };
    for mode in [0o640, 0o604, 0o620] {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let (code, stderr) = with_file(&file);
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains(&format!("chmod 600 {}", file.display())), "{stderr}");
    }
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o400)).unwrap();
    let (code, stderr) = with_file(&file);
    assert_eq!(code, 4, "the secret is fine, but nobody comes: {stderr}");
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    for other in [folder.path(), &pipe] {
        let (code, stderr) = with_file(other);
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains("not a regular file"), "{stderr}");
    }
}

/// A training by two processes: its folder, its job, and their addresses.
fn training(folder: &Path) -> (PathBuf, PathBuf, Vec<String>) {
    write(folder, "corpus.txt", corpus(60, 80));
    let addresses = free_addresses(2);
    let hosts = write(folder, "hosts", addresses.join("\n"));
    (topics_job::job(folder, topics_job::SHORT), hosts, addresses)
}

/// Files of the same name, size and beginning on two hosts, which differ in one byte further on.
#[test]
fn processes_with_other_inputs_are_refused_and_the_file_is_named() {
    let folder = folder();
    let (job, hosts, _) = training(folder.path());
    let text = corpus(200, 200);
    let at = text.rfind("x1").expect("a word") + 1;
    assert!(at > 1 << 16);
    let texts = [text.clone(), format!("{}2{}", &text[..at], &text[at + 1..])];
    let settings = std::fs::read_to_string(&job).unwrap().replace("corpus.txt", "${HERE}/corpus.txt");
    write(folder.path(), "job.toml", settings);
    let ends = ["0", "1"].map(|process| {
        let here = folder.path().join(process);
        std::fs::create_dir(&here).unwrap();
        write(&here, "corpus.txt", &texts[process.parse::<usize>().unwrap()]);
        let mut command = sawmill();
        command.arg("run").arg(&job).arg("--out").arg(folder.path().join("out")).arg("--hosts").arg(&hosts);
        command.args(["--process", process, "--workers", "1"]).env("SAWMILL_SECRET", SECRET).env("HERE", here);
        Running::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
    });
    for (code, stderr) in ends.map(Running::end) {
        assert_eq!(code, 4, "{stderr}");
        assert!(stderr.contains("input 1, corpus.txt"), "{stderr}");
    }
}

#[test]
fn processes_with_other_run_folders_are_refused() {
    let folder = folder();
    let (job, hosts, _) = training(folder.path());
    let outs = ["0", "1"].map(|process| folder.path().join(format!("out-{process}")));
    // What an earlier start has left is not taken for the number of this one.
    std::fs::create_dir_all(outs[1].join("processes")).unwrap();
    write(&outs[1], "processes/nonce", "0".repeat(64));
    let ends = ["0", "1"].map(|process| {
        let flags = ["--hosts", hosts.to_str().unwrap(), "--process", process, "--workers", "1", "--start-within", "3"];
        support::start(&job, &outs[process.parse::<usize>().unwrap()], &flags)
    });
    for (code, stderr) in ends.map(Running::end) {
        assert_eq!(code, 4, "{stderr}");
        assert!(stderr.contains(outs[1].to_str().unwrap()), "{stderr}");
        assert!(stderr.contains("checkpoints would be lost"), "{stderr}");
    }
    assert!(!outs[0].join("processes/nonce").exists());
}

/// What a relay does to the traffic in one direction (0: towards process 0) after so many bytes of it.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Flip(usize, u64),
    Cut(usize, u64),
}

impl Fault {
    /// Does it to `bytes`, which come after `before` others; returns what is passed on, or none when it is cut.
    fn apply(fault: Option<Fault>, direction: usize, before: u64, bytes: &mut [u8]) -> Option<&[u8]> {
        let within = |at: u64| at.checked_sub(before).filter(|&at| at < bytes.len() as u64).map(|at| at as usize);
        match fault {
            Some(Fault::Flip(side, at)) if side == direction => {
                if let Some(at) = within(at) {
                    bytes[at] ^= 1 << (at % 8);
                }
                Some(bytes)
            }
            Some(Fault::Cut(side, at)) if side == direction && within(at).is_some() => None,
            _ => Some(bytes),
        }
    }
}

/// Passes bytes on in one direction, counted, until the end or a fault.
fn pump(from: TcpStream, to: TcpStream, direction: usize, fault: Option<Fault>, passed: Arc<[AtomicU64; 2]>) {
    let (mut reader, mut writer, mut buffer) = (&from, &to, [0; 1 << 14]);
    while let Ok(read @ 1..) = reader.read(&mut buffer) {
        let before = passed[direction].fetch_add(read as u64, Ordering::Relaxed);
        match Fault::apply(fault, direction, before, &mut buffer[..read]) {
            Some(bytes) if writer.write_all(bytes).is_ok() => {}
            _ => {
                let _ = from.shutdown(Shutdown::Both);
                break;
            }
        }
    }
    let _ = to.shutdown(Shutdown::Write); // an orderly end, as far as TCP can tell
}

/// Two processes, and between them a relay that knows no secret: it takes the call of process 1 before process 0
/// listens at the same address. Returns how they ended, and the bytes passed in both directions.
fn through_relay(folder: &Path, out: &Path, fault: Option<Fault>, more: &[&str]) -> ([(i32, String); 2], [u64; 2]) {
    let (job, hosts, addresses) = training(folder);
    let process = |number: &str| {
        let flags = ["--hosts", hosts.to_str().unwrap(), "--process", number, "--workers", "1"];
        support::start(&job, out, &[&flags, more].concat())
    };
    let listener = TcpListener::bind(&addresses[0]).expect("a free port");
    let second = process("1");
    let (caller, _) = listener.accept().expect("a call");
    drop(listener);
    let first = process("0");
    let called = connect(&addresses[0]);
    let passed = Arc::<[AtomicU64; 2]>::default();
    let pumps: Vec<JoinHandle<()>> = [(&caller, &called), (&called, &caller)]
        .into_iter()
        .enumerate()
        .map(|(direction, (from, to))| {
            let (from, to, passed) = (from.try_clone().unwrap(), to.try_clone().unwrap(), passed.clone());
            std::thread::spawn(move || pump(from, to, direction, fault, passed))
        })
        .collect();
    let ends = [first, second].map(Running::end);
    pumps.into_iter().for_each(|pump| pump.join().unwrap());
    (ends, [0, 1].map(|direction| passed[direction].load(Ordering::Relaxed)))
}

#[test]
fn altered_traffic_ends_the_job_and_never_changes_its_model() {
    let folder = folder();
    let whole = folder.path().join("whole");
    let (job, ..) = training(folder.path());
    assert_eq!(support::start(&job, &whole, &["--workers", "2"]).end().0, 0);
    let mut altered = 0;
    for encrypt in ["on", "off"] {
        let flags = ["--encrypt", encrypt];
        let out = folder.path().join(format!("relayed-{encrypt}"));
        let (ends, passed) = through_relay(folder.path(), &out, None, &flags);
        assert_eq!(ends.each_ref().map(|(code, _)| *code), [0, 0], "{ends:?}");
        assert_eq!(model(&whole), model(&out));
        let trials = [0, 1].into_iter().flat_map(|side| [15, 40, 60, 85].map(|percent| (side, percent)));
        for (side, percent) in trials {
            let at = passed[side] * percent / 100;
            assert!(at > 4000, "beyond the start: {passed:?}");
            let out = folder.path().join(format!("altered-{encrypt}-{side}-{percent}"));
            let (ends, passed) = through_relay(folder.path(), &out, Some(Fault::Flip(side, at)), &flags);
            // How many notes on progress there are depends on timing: there may have been nothing to be altered there.
            if passed[side] <= at {
                assert_eq!(model(&whole), model(&out));
                continue;
            }
            altered += 1;
            assert_eq!(ends.each_ref().map(|(code, _)| *code), [4, 4], "byte {at} towards {side}: {ends:?}");
            assert!(ends[side].1.contains("altered, dropped, repeated or reordered"), "{ends:?}");
            assert!(ends[1 - side].1.contains("was lost"), "{ends:?}");
            assert!(!out.join("model").exists());
        }
    }
    assert!(altered >= 10, "{altered} of 16 trials altered anything");
}

#[test]
fn a_connection_that_is_closed_by_others_ends_the_job() {
    let folder = folder();
    for (side, at) in [(0, 20_000), (1, 50_000)] {
        let out = folder.path().join(format!("cut-{side}"));
        let (ends, _) = through_relay(folder.path(), &out, Some(Fault::Cut(side, at)), &[]);
        for (code, stderr) in ends {
            assert_eq!(code, 4, "{stderr}");
            assert!(stderr.contains("was lost: "), "{stderr}");
        }
        assert!(!out.join("model").exists());
    }
}
