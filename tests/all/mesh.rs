//! Strangers, other jobs and missing processes.

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};

use crate::support::{finish, folder, free_addresses, sawmill, write};

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

fn set_up(folder: &Path) -> (std::path::PathBuf, Vec<String>) {
    write(folder, "job.toml", JOB);
    let addresses = free_addresses(2);
    (write(folder, "hosts", addresses.join("\n")), addresses)
}

#[test]
fn a_process_that_does_not_appear_is_named() {
    let folder = folder();
    let (hosts, addresses) = set_up(folder.path());
    let (code, stderr) = end(start(folder.path(), &hosts, 0, "s", &["--start-within", "1"]));
    assert_eq!(code, 4);
    assert!(stderr.contains(&format!("1 ({})", addresses[1])), "{stderr}");
}

#[test]
fn another_secret_is_refused_on_both_sides() {
    let folder = folder();
    let (hosts, _) = set_up(folder.path());
    let children = [
        start(folder.path(), &hosts, 0, "s", &["--start-within", "2"]),
        start(folder.path(), &hosts, 1, "t", &["--start-within", "2"]),
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
        [start(folder.path(), &hosts, 0, "s", &[]), start(folder.path(), &hosts, 1, "s", &["--set", "seed=9"])];
    for (code, stderr) in children.map(end) {
        assert_eq!(code, 4, "{stderr}");
        assert!(stderr.contains("runs another job"), "{stderr}");
    }
    // Nor may one watch while the other does not.
    let (hosts, _) = set_up(folder.path());
    let children = [start(folder.path(), &hosts, 0, "s", &["--watch"]), start(folder.path(), &hosts, 1, "s", &[])];
    assert_eq!(children.map(end).map(|(code, _)| code), [4, 4]);
}

#[test]
fn an_interrupt_of_one_ends_all_that_watch() {
    let folder = folder();
    let (hosts, _) = set_up(folder.path());
    let children = [0, 1].map(|process| start(folder.path(), &hosts, process, "s", &["--watch"]));
    crate::support::wait_until("the first report", || folder.path().join("out/report/index.html").exists());
    std::process::Command::new("kill").args(["-INT", &children[0].id().to_string()]).status().expect("kill");
    assert_eq!(children.map(end).map(|(code, _)| code), [0, 0]);
}

#[test]
fn standard_input_is_not_for_several_processes() {
    let folder = folder();
    let (hosts, _) = set_up(folder.path());
    let (code, stderr) = end(start(folder.path(), &hosts, 0, "s", &["--set", "treebanks.x='-'"]));
    assert_eq!(code, 2);
    assert!(stderr.contains("each has its own"), "{stderr}");
}

#[test]
fn strangers_are_dropped_and_the_job_goes_on() {
    let folder = folder();
    let (hosts, addresses) = set_up(folder.path());
    let first = start(folder.path(), &hosts, 0, "s", &[]);
    // One that speaks another protocol, one that floods, and one that says nothing.
    let connect = || loop {
        if let Ok(socket) = TcpStream::connect(&addresses[0]) {
            return socket;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    connect().write_all(b"GET / HTTP/1.1\r\nHost: sawmill\r\n\r\n").expect("it listens");
    let mut flood = connect();
    while flood.write_all(&[0; 1 << 16]).is_ok() {}
    let silent = connect();
    let second = start(folder.path(), &hosts, 1, "s", &[]);
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
    let survivor = start(folder.path(), &hosts, 0, "s", &[]);
    let mut victim = start(folder.path(), &hosts, 1, "s", &[]);
    crate::support::wait_until("both have begun", || folder.path().join("out/metrics.jsonl").exists());
    victim.kill().expect("it runs");
    victim.wait().expect("it ends");
    let (code, stderr) = end(survivor);
    assert_eq!(code, 4, "{stderr}");
    assert!(stderr.contains("was lost"), "{stderr}");
}
