//! Job files: TOML, with `--set key.path=value` on top and `${NAME}` for environment variables.
//!
//! Paths in a job file are relative to that file. A key that nobody reads is refused, and the nearest known one named:
//! a misspelt setting must not silently keep its default.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::settings::{Reader, Trail, UnknownKey};
use crate::corpus::open::read_text;
use crate::error::{Error, Result};

/// Job files are at most so large, in bytes.
const LONGEST: u64 = 1 << 20;

/// A job file, read and resolved, but not yet understood.
#[derive(Clone, Debug)]
pub struct Document {
    path: PathBuf,
    /// How messages call it.
    name: String,
    text: String,
    table: Table,
}

impl Document {
    /// Reads the file at `path` and applies `--set` settings, each `key.path=value`.
    pub fn load(path: &Path, set: &[String]) -> Result<Document> {
        let text = read_text(path, LONGEST)
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
        let name = path.display().to_string();
        let mut document = Document { path: path.to_path_buf(), name, text, table: Table::new() };
        for (key, value) in &mut table {
            document.fill_in_environment(value, key)?;
        }
        document.table = table;
        Ok(document)
    }

    /// A job that stands in this file as `table`, or follows from what does.
    pub fn inside(&self, name: String, table: Table) -> Document {
        Document { path: self.path.clone(), name, text: String::new(), table }
    }

    /// The file's name, for messages.
    pub fn name(&self) -> String {
        self.name.clone()
    }

    /// What relative paths in the file start from.
    pub fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        }
    }

    /// `path`, which stands in the file, from the root of the file system.
    pub fn whole_path(&self, path: &str) -> String {
        if path == "-" || Path::new(path).is_absolute() {
            return path.to_string();
        }
        let folder = self.folder().canonicalize().unwrap_or(self.folder().to_path_buf());
        // `folder/../runs` is said as `runs` beside the folder; the folder has no links left in it.
        let mut parts = folder;
        for part in Path::new(path).components() {
            match part {
                std::path::Component::ParentDir => drop(parts.pop()),
                std::path::Component::CurDir => {}
                part => parts.push(part),
            }
        }
        parts.display().to_string()
    }

    /// The kind of job, where one is given.
    pub fn kind(&self) -> Option<&str> {
        self.table.get("kind").and_then(Value::as_str)
    }

    /// Understands the whole file as a job of one kind.
    pub fn read_job<T: DeserializeOwned>(&self) -> Result<T> {
        self.read(&Value::Table(self.table.clone()), "")
    }

    /// Understands `value`, which stands at `path` in the file, and refuses keys that `T` does not have.
    pub fn read<T: DeserializeOwned>(&self, value: &Value, path: &str) -> Result<T> {
        let mut trail = Trail::default();
        let read = T::deserialize(Reader { value: value.clone(), trail: &mut trail });
        match (read, trail.unknown.first()) {
            (Err(error), _) => Err(self.refuse_value(&error, path, &trail.path)),
            (Ok(_), Some(unknown)) => Err(self.refuse_key(unknown, path)),
            (Ok(read), None) => Ok(read),
        }
    }

    /// Says that the value at `keys` below `path` is not what it should be.
    fn refuse_value(&self, error: &toml::de::Error, path: &str, keys: &[String]) -> Error {
        let full = below(path, keys);
        let place = if full.is_empty() { String::new() } else { format!("{}: ", full.join(".")) };
        Error::Usage(format!("{}: {place}{}", self.address(&full), to_one_paragraph(error)))
    }

    /// Says that nothing reads a key below `path`.
    fn refuse_key(&self, unknown: &UnknownKey, path: &str) -> Error {
        let full = below(path, &unknown.path);
        let key = full.last().expect("a key");
        let hint = match nearest(key, unknown.known) {
            Some(near) => format!("; did you mean `{near}`?"),
            None => {
                let mut known = unknown.known.to_vec();
                known.sort_unstable();
                format!("; known here: {}", known.join(", "))
            }
        };
        Error::Usage(format!("{}: unknown key `{}`{hint}", self.address(&full), full.join(".")))
    }

    /// The file's name, with the line on which the key at `path` is set if the file sets it.
    fn address(&self, path: &[&str]) -> String {
        match self.line_of(path) {
            Some(line) => format!("{}:{line}", self.name),
            None => self.name.clone(),
        }
    }

    /// The line on which the key at `path` is set, where the file (and not `--set`) sets it.
    fn line_of(&self, path: &[&str]) -> Option<usize> {
        let whole = path.join(".");
        let mut section = String::new();
        for (number, line) in (1..).zip(self.text.lines()) {
            let line = line.trim();
            if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
                section = header.trim_matches('[').trim().to_string();
                if section == whole {
                    return Some(number);
                }
                continue;
            }
            let Some((key, value)) = line.split_once('=') else { continue };
            let key = match section.as_str() {
                "" => key.trim().to_string(),
                section => format!("{section}.{}", key.trim()),
            };
            let is_inside = whole.strip_prefix(&key).is_some_and(|rest| rest.starts_with('.'));
            if key == whole || (is_inside && path.last().is_some_and(|last| value.contains(last))) {
                return Some(number);
            }
        }
        None
    }

    /// `text` with every `${NAME}` replaced; what comes in is not looked at again.
    fn expanded(&self, text: &str, path: &str) -> Result<String> {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let Some((name, after)) = after.split_once('}') else {
                return Err(Error::Usage(format!("{}: {path}: `${{` is not closed", self.name())));
            };
            let value = std::env::var(name).map_err(|_| {
                let remedy = format!("is not set (or not UTF-8); set it, as with `export {name}=...`");
                Error::Usage(format!("{}: {path}: the environment variable {name} {remedy}", self.name()))
            })?;
            out.push_str(before);
            out.push_str(&value);
            rest = after;
        }
        out.push_str(rest);
        Ok(out)
    }

    /// Replaces `${NAME}` in every string of `value`.
    fn fill_in_environment(&self, value: &mut Value, path: &str) -> Result<()> {
        match value {
            Value::String(text) => {
                *text = self.expanded(text, path)?;
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
    if path.trim().split('.').any(str::is_empty) {
        return Err(usage());
    }
    set(table, path.trim(), value).map_err(|parent| Error::Usage(format!("--set {setting}: {parent} is not a table")))
}

/// Sets `key.path` to a value; fails with the first part of the path that stands for something else than a table.
pub fn set(mut table: &mut Table, path: &str, value: Value) -> std::result::Result<(), String> {
    let (parents, last) = path.rsplit_once('.').unwrap_or(("", path));
    for parent in parents.split('.').filter(|parent| !parent.is_empty()) {
        let entry = table.entry(parent.to_string()).or_insert_with(|| Value::Table(Table::new()));
        table = entry.as_table_mut().ok_or_else(|| parent.to_string())?;
    }
    table.insert(last.to_string(), value);
    Ok(())
}

/// `keys`, which stand below `path`, from the top of the file.
fn below<'a>(path: &'a str, keys: &'a [String]) -> Vec<&'a str> {
    path.split('.').filter(|part| !part.is_empty()).chain(keys.iter().map(String::as_str)).collect()
}

/// The one of `known` that `word` was probably meant to be.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let distance = |known: &str| strsim::damerau_levenshtein(word, known);
    known.iter().copied().min_by_key(|k| distance(k)).filter(|k| distance(k) <= 1 + k.len() / 3)
}

/// The files that `pattern`, relative to `folder`, stands for, sorted. A name that is there as it is written is that
/// file, whatever it is written with. Patterns leave hidden files and editors' copies (`name~`) out.
pub fn expand(folder: &Path, pattern: &str) -> Result<Vec<PathBuf>> {
    let path = folder.join(pattern);
    if pattern == "-" {
        return Ok(vec![PathBuf::from("-")]);
    }
    if !pattern.contains(['*', '?', '[']) || path.exists() {
        return Ok(vec![path]);
    }
    let whole = match Path::new(pattern).is_absolute() {
        true => pattern.to_string(),
        false => format!("{}/{pattern}", glob::Pattern::escape(&folder.to_string_lossy())),
    };
    let mut files = matching(&whole)?;
    if files.is_empty() {
        files = matching(&whole.replace("[[]", "[").replace('[', "[[]"))?; // brackets that only are brackets
    }
    match files.is_empty() {
        true => Err(Error::Input(format!("no file matches {}", path.display()))),
        false => Ok(files),
    }
}

fn matching(pattern: &str) -> Result<Vec<PathBuf>> {
    let options = glob::MatchOptions { require_literal_leading_dot: true, ..glob::MatchOptions::new() };
    let found = glob::glob_with(pattern, options).map_err(|e| Error::Usage(format!("{pattern}: {e}")))?;
    let mut files = Vec::new();
    for path in found {
        let path = path.map_err(|e| Error::input(e.path(), e.error()))?;
        if !path.is_dir() && !path.to_string_lossy().ends_with('~') {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// An error of the TOML reader without its trailing line end.
fn to_one_paragraph(error: &toml::de::Error) -> String {
    error.to_string().trim_end().to_string()
}
