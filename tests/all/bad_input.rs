//! What goes wrong is said clearly, early, and with the right exit code; what is fine is still counted.

use std::io::Write;
use std::path::Path;

use crate::support::{conllu, folder, run, sawmill, skipped, write};

/// Runs a job over `files` and returns exit code, stdout, stderr and the summary of treebank `x`.
fn run_over(folder: &Path, files: &str) -> (i32, String, String, serde_json::Value) {
    let job = write(folder, "job.toml", format!("kind = 'oracle'\nout = 'out'\n[treebanks]\nx = {files}\n"));
    let (code, stdout, stderr) = run(sawmill().arg("run").arg(job).arg("--fresh"));
    let summary = std::fs::read_to_string(folder.join("out/report/summary.json")).unwrap_or("null".into());
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    (code, stdout, stderr, summary["treebanks"]["x"].clone())
}

#[test]
fn an_empty_file_is_named_and_the_others_are_read() {
    let folder = folder();
    write(folder.path(), "empty.conllu", "");
    write(folder.path(), "good.conllu", conllu("a", &[0, 1]));
    let (code, _, stderr, x) = run_over(folder.path(), "'*.conllu'");
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("empty.conllu:1: empty-file: the file is empty"), "{stderr}");
    assert_eq!(x["sentences_used"], 1);
    assert_eq!((&x["sentences_read"], &x["file_problems"]["empty-file"]), (&1.into(), &1.into()));
}

#[test]
fn a_folder_a_missing_file_and_a_pattern_without_files_end_the_job_before_it_starts() {
    let folder = folder();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    for (files, message) in
        [("'sub'", "is a folder"), ("'gone.conllu'", "No such file"), ("'*.nothing'", "no file matches")]
    {
        let (code, _, stderr, _) = run_over(folder.path(), files);
        assert_eq!(code, 3, "{files}: {stderr}");
        assert!(stderr.contains(message), "{files}: {stderr}");
        assert!(!folder.path().join("out").exists());
    }
}

#[test]
fn a_truncated_archive_is_read_as_far_as_it_goes() {
    let folder = folder();
    // Numbered, so that it does not pack to nothing.
    let text: String = (0..20_000).map(|i| conllu(&format!("s{}", i * 7919 % 100_003), &[0, 1, 2])).collect();
    let mut xz = liblzma::write::XzEncoder::new(vec![], 1);
    xz.write_all(text.as_bytes()).unwrap();
    let whole = xz.finish().unwrap();
    write(folder.path(), "cut.conllu.xz", &whole[..whole.len() / 2]);
    let (code, _, stderr, x) = run_over(folder.path(), "'cut.conllu.xz'");
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("unreadable: cannot read on from here"), "{stderr}");
    let used = x["sentences_used"].as_u64().unwrap();
    assert!((5_000..15_000).contains(&used), "about half of 20000: {used}");
    assert_eq!(x["sentences_read"].as_u64().unwrap(), used, "the file is a problem, not a sentence");
    assert_eq!(x["file_problems"]["unreadable"], 1);
}

#[test]
fn a_line_of_100_megabytes_is_skipped_within_little_memory() {
    let folder = folder();
    let path = folder.path().join("long.conllu");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    file.write_all(conllu("before", &[0, 1]).as_bytes()).unwrap();
    (0..100).for_each(|_| file.write_all(&[b'x'; 1 << 20]).unwrap());
    file.write_all(format!("\n\n{}", conllu("after", &[9])).as_bytes()).unwrap();
    file.write_all(conllu("last", &[2, 0]).as_bytes()).unwrap();
    drop(file);
    let (code, _, stderr, x) = run_over(folder.path(), "'long.conllu'");
    assert_eq!(code, 1, "{stderr}");
    assert_eq!(x["sentences_used"], 2);
    assert_eq!(x["skipped"]["too-long"], 1);
    assert!(stderr.contains("long.conllu:5: too-long"), "{stderr}");
    assert!(stderr.contains("long.conllu:8 [after]: head-range"), "lines behind it are still right: {stderr}");
    let metrics = std::fs::read_to_string(folder.path().join("out/metrics.jsonl")).unwrap();
    let last: serde_json::Value = serde_json::from_str(metrics.lines().last().unwrap()).unwrap();
    assert!(last["peak_memory_mib"].as_f64().unwrap() < 90.0, "{last}");
}

/// Sentences around ones that are too long, in files that are cut at many places: the same whatever the cuts.
#[test]
fn cuts_near_long_sentences_and_binary_files_do_not_show() {
    let folder = folder();
    let good = |name: &str, n: usize| (0..n).map(|i| conllu(&format!("{name}{i}"), &[2, 0, 2])).collect::<String>();
    let long =
        |mebibytes: f64| format!("# {}\n", "x".repeat((mebibytes * (1 << 20) as f64) as usize)) + &conllu("long", &[0]);
    let text =
        good("a", 3000) + &long(8.2) + &good("b", 3000) + &long(7.9) + &good("c", 3000) + &long(20.0) + &good("d", 500);
    write(folder.path(), "a.conllu", &text);
    write(folder.path(), "nul.conllu", format!("1\t\0\t_\tX\t_\t_\t0\troot\t_\t_\n\n{}", good("e", 20_000)));
    let job = write(
        folder.path(),
        "job.toml",
        "kind = 'oracle'\nout = 'out'\n[treebanks]\nx = 'a.conllu'\nnul = 'nul.conllu'\n",
    );
    let mut first = None;
    for shards in [1, 7, 64, 400] {
        let set = format!("shards={shards}");
        let (code, _, stderr) = run(sawmill().arg("run").arg(&job).args(["--fresh", "--set", &set]));
        assert_eq!(code, 1, "{stderr}");
        let report = crate::support::files_below(&folder.path().join("out/report"));
        let summary: serde_json::Value = serde_json::from_slice(&report["summary.json"]).unwrap();
        assert_eq!(summary["treebanks"]["x"]["sentences_used"], 9501);
        assert_eq!(summary["treebanks"]["x"]["skipped"]["too-long"], 2);
        assert_eq!(summary["treebanks"]["nul"]["file_problems"]["not-text"], 1);
        let problems = String::from_utf8_lossy(&report["problems.tsv"]).into_owned();
        assert!(problems.contains("\t15001\t\ttoo-long") && problems.contains("\t45009\t\ttoo-long"), "{problems}");
        let metrics = std::fs::read_to_string(folder.path().join("out/metrics.jsonl")).unwrap();
        let last: serde_json::Value = serde_json::from_str(metrics.lines().last().unwrap()).unwrap();
        assert!(last["peak_memory_mib"].as_f64().unwrap() < 100.0, "{last}");
        crate::support::assert_same_files(first.get_or_insert(report.clone()), &report, &set);
    }
}

#[test]
fn inputs_that_are_missing_doubled_or_no_names_are_told() {
    let folder = folder();
    write(folder.path(), "a.conllu", conllu("a", &[0]));
    write(folder.path(), "b.conllu", conllu("b", &[0]));
    write(folder.path(), ".c.conllu.swp", "rubbish");
    write(folder.path(), "a.conllu~", "rubbish");
    let (code, _, stderr, x) = run_over(folder.path(), "['a.conllu', '*.conllu*']");
    assert_eq!((code, &x["sentences_used"]), (0, &2.into()), "{stderr}");
    assert!(stderr.contains("a.conllu is named twice for x"), "{stderr}");
    for (value, message) in [
        ("[]", "names no input"),
        ("{ files = ['a.conllu', 3] }", "files that are not names"),
        ("{ synth = 3 }", "not a table"),
        ("{ encoding = 'latin-1' }", "neither files nor synth"),
        ("['-', '-']", "once only"),
    ] {
        let (code, _, stderr, _) = run_over(folder.path(), value);
        assert_eq!(code, 2, "{value}: {stderr}");
        assert!(stderr.contains(message), "{value}: {stderr}");
    }
}

#[test]
fn brackets_in_names_are_brackets_where_such_files_are() {
    let folder = folder();
    let odd = folder.path().join("da[1]ta");
    std::fs::create_dir(&odd).unwrap();
    write(&odd, "b[x].conllu", conllu("b", &[0]));
    for files in ["'b[x].conllu'", "'*.conllu'", "'${SAWMILL_TEST_FOLDER}/*.conllu'"] {
        let job = write(&odd, "job.toml", format!("kind = 'oracle'\nout = 'out'\n[treebanks]\nx = {files}\n"));
        let (code, _, stderr) = run(sawmill().arg("run").arg(job).env("SAWMILL_TEST_FOLDER", &odd));
        assert_eq!(code, 0, "{files}: {stderr}");
    }
}

#[test]
fn an_environment_variable_is_expanded_once() {
    let folder = folder();
    let job =
        write(folder.path(), "job.toml", "kind = 'oracle'\nout = 'out'\n[treebanks]\nx = '${SAWMILL_TEST_LOOP}'\n");
    let (code, _, stderr) = run(sawmill().arg("run").arg(job).env("SAWMILL_TEST_LOOP", "${SAWMILL_TEST_LOOP}"));
    assert_eq!(code, 3, "{stderr}");
}

#[test]
fn broken_bytes_skip_a_sentence_and_name_the_remedy() {
    let folder = folder();
    let bad = b"# sent_id = bad\n1\tcaf\xe9\t_\tX\t_\t_\t0\troot\t_\t_\n\n";
    write(folder.path(), "a.conllu", [conllu("a", &[0]).as_bytes(), bad, conllu("b", &[0, 1]).as_bytes()].concat());
    let (code, _, stderr, x) = run_over(folder.path(), "'a.conllu'");
    assert_eq!(code, 1);
    assert!(stderr.contains("a.conllu:5 [bad]: broken-encoding: byte 0xe9 is not UTF-8"), "{stderr}");
    assert!(stderr.contains("latin-1"), "{stderr}");
    assert_eq!(x["sentences_used"], 2);
}

#[test]
fn cycles_and_heads_out_of_range_are_counted_by_kind() {
    let folder = folder();
    let text = conllu("c1", &[0, 3, 2])
        + &conllu("r", &[0, 9])
        + &conllu("c2", &[0, 4, 2, 3])
        + &conllu("ok", &[0])
        + &conllu("none", &[2, 1]);
    write(folder.path(), "a.conllu", text);
    let (code, _, _, x) = run_over(folder.path(), "'a.conllu'");
    assert_eq!(code, 1);
    assert_eq!(x["skipped"]["cycle"], 2);
    assert_eq!(x["skipped"]["head-range"], 1);
    assert_eq!(x["skipped"]["no_root"], 1);
    assert_eq!((&x["sentences_read"], &x["sentences_used"]), (&5.into(), &1.into()));
}

#[test]
fn windows_line_ends_give_the_same_report() {
    let folder = folder();
    let text: String = (0..500).map(|i| conllu(&format!("s{i}"), &[2, 0, 2, 3])).collect();
    write(folder.path(), "a.conllu", &text);
    let (_, _, _, unix) = run_over(folder.path(), "'a.conllu'");
    write(folder.path(), "a.conllu", text.replace('\n', "\r\n"));
    let (code, _, _, windows) = run_over(folder.path(), "'a.conllu'");
    assert_eq!(code, 0);
    assert_eq!(unix, windows);
}

#[test]
fn what_is_likely_to_be_given_by_mistake_is_recognised() {
    let folder = folder();
    let utf16: Vec<u8> = [0xff, 0xfe].into_iter().chain("1\tx\n".encode_utf16().flat_map(u16::to_le_bytes)).collect();
    let mistakes: [(&[u8], &str); 3] =
        [(&utf16, "UTF-16"), (b"PK\x03\x04rest", "zip archive"), (b"\x7fELF\0\0\0\0", "binary file")];
    for (bytes, message) in mistakes {
        write(folder.path(), "a.conllu", bytes);
        let (code, stdout, stderr) = run(sawmill().arg("check").arg(folder.path().join("a.conllu")));
        assert_eq!(code, 3);
        assert!(stdout.contains(message), "{stdout}{stderr}");
    }
}

#[test]
fn unknown_keys_are_refused_with_the_nearest_known_one() {
    let folder = folder();
    let cases = [
        ("kind = 'oracle'\nshard = 3\n", "job.toml:2: unknown key `shard`; did you mean `shards`?"),
        ("kind = 'oracle'\n[oracle]\nreoder = 3\n", "job.toml:3: unknown key `oracle.reoder`; did you mean `reorder`?"),
        ("kind = 'oracle'\n[treebanks]\nx = { file = 'a' }\n", "unknown key `treebanks.x.file`; did you mean `files`?"),
        (
            "kind = 'oracle'\n[treebanks]\nx = { synth = { lenght = 3 } }\n",
            "`treebanks.x.synth.lenght`; did you mean `length`?",
        ),
        ("kind = 'orcale'\n", "did you mean \"oracle\"?"),
        ("kind = 'oracle'\nseed = 1\n[oracle]\n\nseed = 3\n", "job.toml:5: unknown key `oracle.seed`"),
        ("seed = 1\n", "there is no kind"),
        ("kind = 'oracle'\n[oracle]\nsystems = ['arc-swift']\n", "arc-swift"),
        ("kind = 'oracle'\nseed = 'x'\n", "seed"),
        ("kind = 'oracle'\nkind = 'oracle'\n", "duplicate key"),
        (
            "kind = 'oracle'\n[treebanks]\nx = '${SAWMILL_NOT_SET}/a'\n",
            "environment variable SAWMILL_NOT_SET is not set",
        ),
        ("kind = 'oracle'\n", "there is no [treebanks] section"),
    ];
    for (text, message) in cases {
        let job = write(folder.path(), "job.toml", text);
        let (code, _, stderr) = run(sawmill().arg("run").arg(&job).arg("--out").arg(folder.path().join("out")));
        assert_eq!(code, 2, "{text}\n{stderr}");
        assert!(stderr.contains(message), "{text}\n{stderr}");
    }
    let job = write(folder.path(), "job.toml", "kind = 'oracle'\n[treebanks]\nx = { synth = {} }\n");
    let (code, _, stderr) = run(sawmill().arg("run").arg(&job).args(["--out", "x", "--set", "oracle.system=1"]));
    assert_eq!(code, 2);
    assert!(stderr.contains("did you mean `systems`?"), "{stderr}");
}

#[test]
fn a_run_folder_that_cannot_be_written_is_found_before_the_work_starts() {
    let folder = folder();
    let job =
        write(folder.path(), "job.toml", "kind = 'oracle'\n[treebanks]\nx = { synth = { sentences = 100000000 } }\n");
    let file = write(folder.path(), "file", "");
    std::fs::create_dir(folder.path().join("foreign")).unwrap();
    write(folder.path(), "foreign/thesis.tex", "precious");
    for (out, message) in [
        (file.join("below"), "cannot write"),
        (file, "not a folder"),
        (folder.path().join("foreign"), "not a run folder"),
    ] {
        let (code, _, stderr) = run(sawmill().arg("run").arg(&job).arg("--out").arg(&out));
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains(message) && stderr.contains(&out.display().to_string()), "{stderr}");
    }
}

#[test]
fn a_full_disk_is_told() {
    let folder = folder();
    let job = write(folder.path(), "job.toml", "kind = 'oracle'\n[treebanks]\nx = { synth = { sentences = 10 } }\n");
    let small = folder.path().join("small");
    std::fs::create_dir(&small).unwrap();
    let mounted =
        std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=24k", "none"]).arg(&small).status();
    if !mounted.is_ok_and(|status| status.success()) {
        return skipped("a_full_disk_is_told needs the right to mount a small tmpfs");
    }
    let (code, _, stderr) = run(sawmill().arg("run").arg(&job).arg("--out").arg(small.join("run")));
    let _ = std::process::Command::new("umount").arg(&small).status();
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("cannot write") && stderr.contains("No space left"), "{stderr}");
}
