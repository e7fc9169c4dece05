//! Model files of every kind that were written once: they load, and say what they said then.

use std::path::{Path, PathBuf};

use crate::support::{folder, run, sawmill, write};

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/models")
}

/// All sample models.
fn models() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(samples()).expect("samples").map(|entry| entry.expect("a file").path());
    let mut models: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "model")).collect();
    models.sort();
    models
}

#[test]
fn old_models_say_what_they_said() {
    let uses = std::fs::read_to_string(samples().join("uses.tsv")).expect("uses");
    for (name, arguments) in uses.lines().map(|line| line.split_once('\t').expect("a name and arguments")) {
        let recorded = std::fs::read_to_string(samples().join(format!("{name}.out"))).expect("recorded output");
        let (code, stdout, stderr) = run(sawmill().current_dir(samples()).args(arguments.split(' ')));
        assert_eq!(code, 0, "{name}: {stderr}");
        assert_eq!(stdout, recorded, "{name}");
    }
    for model in models() {
        let name = model.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(uses.contains(&format!(" {name}")), "{name} is never used");
    }
}

#[test]
fn other_formats_are_refused_by_number() {
    let folder = folder();
    for model in models() {
        let mut bytes = std::fs::read(&model).expect("a sample");
        bytes[8..12].copy_from_slice(&77u32.to_le_bytes());
        let kind = String::from_utf8_lossy(&bytes[12..28]).trim_end_matches('\0').to_string();
        let verb = match kind.as_str() {
            "grammar" | "adaptor" => "parse",
            _ => "perplexity",
        };
        let file = write(folder.path(), "model", bytes);
        let (code, _, stderr) = run(sawmill().arg(verb).arg(&file).arg(samples().join("text.txt")));
        let expected = format!("model: made by format 77 of {kind} models; this sawmill reads 1");
        assert!(code == 3 && stderr.contains(&expected), "{kind}: {code} {stderr}");
    }
}
