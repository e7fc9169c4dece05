//! Job files: TOML, with `--set key.path=value` on top and `${NAME}` for environment variables.
//!
//! Paths in a job file are relative to that file. A key that nobody reads is refused, and the nearest known one named:
//! a misspelt setting must not silently keep its default.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::error::{Error, Result};

/// A job file, read and resolved, but not yet understood.
#[derive(Clone, Debug)]
pub struct Document {
    path: PathBuf,
    text: String,
    table: Table,
}

impl Document {
    /// Reads the file at `path` and applies `--set` settings, each `key.path=value`.
    pub fn load(path: &Path, set: &[String]) -> Result<Document> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| Error::Usage(format!("cannot read the job file {}: {e}", path.display())))?;
        Document::parse(path, text, set)
    }

    /// As [`Document::load`], from the text of the file.
    pub fn parse(path: &Path, text: String, set: &[String]) -> Result<Document> {
        let mut table: Table =
            text.parse().map_err(|e| Error::Usage(format!("{}: {}", path.display(), to_one_paragraph(&e))))?;
        for setting in set {
            apply(&mut table, setting)?;
        }
        let mut document = Document { path: path.to_path_buf(), text, table: Table::new() };
        for (key, value) in &mut table {
            document.fill_in_environment(value, key)?;
        }
        document.table = table;
        Ok(document)
    }

    /// The file's name, for messages.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// What relative paths in the file start from.
    pub fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        }
    }

    /// The kind of job, where one is given.
    pub fn kind(&self) -> Option<&str> {
        self.table.get("kind").and_then(Value::as_str)
    }

    /// Understands the whole file as a job of one kind.
    pub fn read_job<T: DeserializeOwned + Serialize + Default>(&self) -> Result<T> {
        self.read(&Value::Table(self.table.clone()), "")
    }

    /// Understands `value`, which stands at `path` in the file, and refuses keys that `T` does not have.
    pub fn read<T: DeserializeOwned + Serialize + Default>(&self, value: &Value, path: &str) -> Result<T> {
        let mut unknown = Vec::new();
        let read = serde_ignored::deserialize(value.clone(), |ignored| unknown.push(keys_of(&ignored)));
        let read: T = read.map_err(|e: toml::de::Error| {
            let place = if path.is_empty() { String::new() } else { format!("{path}: ") };
            Error::Usage(format!("{}: {place}{}", self.name(), to_one_paragraph(&e)))
        })?;
        match unknown.first() {
            Some(keys) => Err(self.refuse_key(keys, path, &Value::try_from(T::default()).expect("settings are TOML"))),
            None => Ok(read),
        }
    }

    /// Says that nobody reads the key at `keys` below `path`; `known` has every key that is read there.
    fn refuse_key(&self, keys: &[String], path: &str, known: &Value) -> Error {
        let (key, parents) = keys.split_last().expect("a key");
        let siblings = parents.iter().try_fold(known, |value, parent| value.get(parent));
        let siblings: Vec<&str> =
            siblings.and_then(Value::as_table).map(|t| t.keys().map(String::as_str).collect()).unwrap_or_default();
        let full: Vec<&str> =
            path.split('.').filter(|p| !p.is_empty()).chain(keys.iter().map(String::as_str)).collect();
        let hint = match nearest(key, &siblings) {
            Some(near) => format!("; did you mean `{near}`?"),
            None => format!("; known here: {}", siblings.join(", ")),
        };
        let line = self.line_of(key).map_or(String::new(), |line| format!(":{line}"));
        Error::Usage(format!("{}{line}: unknown key `{}`{hint}", self.name(), full.join(".")))
    }

    /// The line on which `key` is set, where the file (and not `--set`) sets it.
    fn line_of(&self, key: &str) -> Option<usize> {
        let sets = |line: &str| {
            let line = line.trim_start();
            let header = line.trim_start_matches('[');
            let rest = header.strip_prefix(key).or_else(|| {
                let dotted = format!(".{key}");
                let at = line.find(&dotted)?;
                Some(&line[at + dotted.len()..])
            });
            rest.is_some_and(|rest| rest.trim_start().starts_with(['=', ']', '.']))
                || line.contains(&format!(" {key} =")) // in an inline table
        };
        self.text.lines().position(sets).map(|index| index + 1)
    }

    /// Replaces `${NAME}` in every string of `value`.
    fn fill_in_environment(&self, value: &mut Value, path: &str) -> Result<()> {
        match value {
            Value::String(text) => {
                while let Some(start) = text.find("${") {
                    let Some(length) = text[start..].find('}') else {
                        return Err(Error::Usage(format!("{}: {path}: `${{` is not closed", self.name())));
                    };
                    let name = text[start + 2..start + length].to_string();
                    let filled = std::env::var(&name).map_err(|_| {
                        let message = "is not set (or not UTF-8); set it, as with";
                        Error::Usage(format!(
                            "{}: {path}: the environment variable {name} {message} `export {name}=...`",
                            self.name()
                        ))
                    })?;
                    text.replace_range(start..=start + length, &filled);
                }
                Ok(())
            }
            Value::Array(list) => list.iter_mut().try_for_each(|item| self.fill_in_environment(item, path)),
            Value::Table(table) => {
                table.iter_mut().try_for_each(|(key, item)| self.fill_in_environment(item, &format!("{path}.{key}")))
            }
            _ => Ok(()),
        }
    }
}

/// Sets `key.path` to a value, which is TOML where it parses and a string where it does not.
fn apply(table: &mut Table, setting: &str) -> Result<()> {
    let usage = || Error::Usage(format!("--set {setting}: the form is key.path=value, such as oracle.reorder=5"));
    let (path, text) = setting.split_once('=').ok_or_else(usage)?;
    let value = match format!("value = {text}").parse::<Table>() {
        Ok(mut parsed) if parsed.len() == 1 => parsed.remove("value").expect("it has been parsed"),
        _ => Value::String(text.to_string()),
    };
    let keys: Vec<&str> = path.trim().split('.').collect();
    let (last, parents) = keys.split_last().filter(|_| keys.iter().all(|key| !key.is_empty())).ok_or_else(usage)?;
    let mut table = table;
    for parent in parents {
        let entry = table.entry(parent.to_string()).or_insert_with(|| Value::Table(Table::new()));
        table =
            entry.as_table_mut().ok_or_else(|| Error::Usage(format!("--set {setting}: {parent} is not a table")))?;
    }
    table.insert(last.to_string(), value);
    Ok(())
}

/// The keys on the way to something that was ignored.
fn keys_of(path: &serde_ignored::Path<'_>) -> Vec<String> {
    use serde_ignored::Path::*;
    match path {
        Root => vec![],
        Seq { parent, index } => [keys_of(parent), vec![index.to_string()]].concat(),
        Map { parent, key } => [keys_of(parent), vec![key.clone()]].concat(),
        Some { parent } | NewtypeStruct { parent } | NewtypeVariant { parent } => keys_of(parent),
    }
}

/// The one of `known` that `word` was probably meant to be.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let distance = |known: &str| strsim::damerau_levenshtein(word, known);
    known.iter().copied().min_by_key(|k| distance(k)).filter(|k| distance(k) <= 1 + k.len() / 3)
}

/// The files that `pattern`, relative to `folder`, stands for, sorted.
pub fn expand(folder: &Path, pattern: &str) -> Result<Vec<PathBuf>> {
    let path = folder.join(pattern);
    if pattern == "-" {
        return Ok(vec![PathBuf::from("-")]);
    }
    if !pattern.contains(['*', '?', '[']) {
        return Ok(vec![path]);
    }
    let whole = path.to_string_lossy();
    let found = glob::glob(&whole).map_err(|e| Error::Usage(format!("{pattern}: {e}")))?;
    let mut files: Vec<PathBuf> = found.filter_map(|path| path.ok()).filter(|path| !path.is_dir()).collect();
    files.sort();
    match files.is_empty() {
        true => Err(Error::Input(format!("no file matches {whole}"))),
        false => Ok(files),
    }
}

/// An error of the TOML reader without its trailing line end.
fn to_one_paragraph(error: &toml::de::Error) -> String {
    error.to_string().trim_end().to_string()
}
