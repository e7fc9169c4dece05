//! Treebanks that change under a running job.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::support::{assert_same_files, conllu, files_below, folder, run, sawmill, write};

fn treebank(sentences: std::ops::Range<u32>) -> String {
    sentences
        .map(|i| {
            conllu(
                &format!("s{i}"),
                &[2, 0, 4, 2, 4][..1 + i as usize % 5]
                    .iter()
                    .map(|&h| if h > 1 + i % 5 { 0 } else { h })
                    .collect::<Vec<_>>(),
            )
        })
        .collect()
}

#[test]
fn a_changed_file_is_corrected_by_its_differences() {
    let folder = folder();
    let text = treebank(0..1000);
    let file = write(folder.path(), "a.conllu", &text);
    write(folder.path(), "b.conllu", treebank(5000..5100));
    let job = write(folder.path(), "job.toml", "kind = 'oracle'\n[treebanks]\na = 'a.conllu'\nb = 'b.conllu'\n");
    let out = folder.path().join("watched");
    let mut child = sawmill()
        .arg("run")
        .arg(&job)
        .arg("--out")
        .arg(&out)
        .args(["--watch", "--workers", "2"])
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sawmill starts");
    let lines = listen(child.stderr.take().unwrap());
    await_line(&lines, "report written");
    assert_same_files(&fresh(&job, folder.path(), "before"), &files_below(&out.join("report")), "before the change");

    // Two sentences go, three come, one is broken, and everything behind them moves down.
    let changed = treebank(0..10) + &treebank(2000..2003) + &conllu("broken", &[9]) + &treebank(12..1000);
    write(folder.path(), "beside", &changed);
    std::fs::rename(folder.path().join("beside"), &file).unwrap();
    let said = await_line(&lines, "changed");
    assert!(said.contains("4 sentences parsed, 2 taken away"), "{said}");
    await_line(&lines, "report written");
    assert_same_files(&fresh(&job, folder.path(), "after"), &files_below(&out.join("report")), "after the change");

    // A file that goes away takes its sentences with it.
    std::fs::remove_file(folder.path().join("b.conllu")).unwrap();
    await_line(&lines, "report written");
    let summary = std::fs::read_to_string(out.join("report/summary.json")).unwrap();
    assert!(summary.contains("\"unreadable\": 1"), "{summary}");
    // And brings them back.
    write(folder.path(), "b.conllu", treebank(5000..5100));
    await_line(&lines, "report written");
    assert_same_files(&fresh(&job, folder.path(), "again"), &files_below(&out.join("report")), "when it is back");

    Command::new("kill").arg(child.id().to_string()).status().expect("kill");
    assert_eq!(child.wait().unwrap().code(), Some(1), "one sentence is broken");
    let (_, stdout, _) = run(sawmill().arg("status").arg(&out));
    assert!(stdout.contains("done"), "{stdout}");
}

/// The report of a run of its own.
fn fresh(job: &Path, folder: &Path, name: &str) -> std::collections::BTreeMap<String, Vec<u8>> {
    let out = folder.join(name);
    run(sawmill().arg("run").arg(job).arg("--out").arg(&out));
    files_below(&out.join("report"))
}

/// The lines of a stream as they come.
fn listen(stream: impl std::io::Read + Send + 'static) -> mpsc::Receiver<String> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        BufReader::new(stream).lines().map_while(Result::ok).try_for_each(|line| send.send(line))
    });
    receive
}

fn await_line(lines: &mpsc::Receiver<String>, word: &str) -> String {
    loop {
        let line = lines.recv_timeout(Duration::from_secs(30)).unwrap_or_else(|e| panic!("no line with `{word}`: {e}"));
        if line.contains(word) {
            return line;
        }
    }
}
