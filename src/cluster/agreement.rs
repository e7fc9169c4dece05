//! What the processes of a job must have in common, exchanged after they have proved that they hold its secret.
//!
//! Facts are names with values, such as the hash of the settings or the number of workers per process: they must be the
//! same everywhere. The run folder must be the same folder, not only have the same name: process 0 writes a random
//! number into it, and the others have to find that number there.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::checkpoint::hex;
use crate::error::{Error, Result};

/// Most bytes of a message, which other processes would otherwise have to take on trust.
const MOST_BYTES: u64 = 16 << 20;

/// Facts that differ and are named in a message.
const MOST_NAMED: usize = 5;

/// Longest value that is shown, in characters.
const SHORT: usize = 48;

/// A name and a value.
pub type Fact = (String, String);

/// The first message of both ends.
#[derive(Serialize, Deserialize)]
pub struct Hello {
    pub process: u64,
    pub facts: Vec<Fact>,
    /// What process 0 has written into the run folder.
    pub nonce: Option<Nonce>,
}

/// The last message of both ends.
#[derive(Debug, Serialize, Deserialize)]
pub enum Verdict {
    Accepted,
    /// With the reason.
    Refused(String),
}

/// Sends a message.
pub fn send(socket: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let body = bincode::serialize(message).map_err(io::Error::other)?;
    let mut bytes = (body.len() as u64).to_le_bytes().to_vec();
    bytes.extend(body);
    socket.write_all(&bytes)
}

/// Receives a message.
pub fn receive<T: DeserializeOwned>(socket: &mut impl Read) -> io::Result<T> {
    let mut length = [0; 8];
    socket.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > MOST_BYTES {
        return Err(io::Error::new(ErrorKind::InvalidInput, format!("it sends {length} bytes about its job")));
    }
    let mut body = vec![];
    socket.take(length).read_to_end(&mut body)?;
    bincode::deserialize(&body).map_err(|e| io::Error::new(ErrorKind::InvalidInput, e))
}

/// Fails if the facts are more than another process would accept.
pub fn check_size(facts: &[Fact]) -> Result<()> {
    let bytes: usize = facts.iter().map(|(name, value)| name.len() + value.len() + 16).sum();
    match bytes as u64 + 1024 > MOST_BYTES {
        true => Err(Error::Cluster(format!(
            "processes cannot agree on this job: they would have to compare {} MiB, and at most {} are allowed",
            bytes >> 20,
            MOST_BYTES >> 20
        ))),
        false => Ok(()),
    }
}

/// In which facts two processes differ, for a message; none if they agree.
pub fn differences(here: &[Fact], there: &[Fact]) -> Option<String> {
    let (here, there) = (by_name(here), by_name(there));
    let names = here.keys().chain(there.keys().filter(|name| !here.contains_key(*name)));
    let differing: Vec<String> = names
        .filter(|name| here.get(*name) != there.get(*name))
        .map(|name| difference(name, here.get(name), there.get(name)))
        .collect();
    let named = differing.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", ");
    match differing.len().saturating_sub(MOST_NAMED) {
        _ if differing.is_empty() => None,
        0 => Some(named),
        more => Some(format!("{named}, and {more} more")),
    }
}

/// Names may occur more than once: their values are then compared in their order.
fn by_name(facts: &[Fact]) -> BTreeMap<&str, Vec<&str>> {
    let mut values = BTreeMap::<&str, Vec<&str>>::new();
    for (name, value) in facts {
        values.entry(name).or_default().push(value);
    }
    values
}

fn difference(name: &str, here: Option<&Vec<&str>>, there: Option<&Vec<&str>>) -> String {
    let name = name.escape_debug(); // from another process, on its way to a terminal
    let shown = |values: Option<&Vec<&str>>| match values {
        None => Some("missing".to_string()),
        Some(values) => Some(values.join(" ")).filter(|value| value.chars().count() <= SHORT),
    };
    match (shown(here), shown(there)) {
        (Some(here), Some(there)) => {
            format!("{name} (here {}, there {})", here.escape_debug(), there.escape_debug())
        }
        _ => name.to_string(),
    }
}

/// What process 0 writes into the run folder.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Nonce([u8; 32]);

/// Where.
fn nonce_file(folder: &Path) -> PathBuf {
    folder.join("processes").join("nonce")
}

impl Nonce {
    /// Leaves a fresh number in the run folder, which only processes of the same user can read.
    pub fn leave(folder: &Path) -> Result<Nonce> {
        let file = nonce_file(folder);
        let leave = || -> io::Result<Nonce> {
            let mut nonce = [0; 32];
            fs::File::open("/dev/urandom")?.read_exact(&mut nonce)?;
            fs::create_dir_all(folder.join("processes"))?;
            let beside = file.with_extension("tmp");
            let _ = fs::remove_file(&beside); // of a run that was killed
            let mut writer = fs::File::options().write(true).create_new(true).mode(0o600).open(&beside)?;
            writer.write_all(hex(&nonce).as_bytes())?;
            writer.sync_all()?;
            fs::rename(beside, &file)?;
            Ok(Nonce(nonce))
        };
        leave().map_err(|e| Error::output(&file, e))
    }

    /// Whether the number is in the run folder, or appears there before `patience` is over: network file systems do not
    /// show new files at once.
    pub fn is_in(&self, folder: &Path, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        loop {
            if fs::read(nonce_file(folder)).is_ok_and(|found| found == hex(&self.0).as_bytes()) {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Takes the number away again.
    pub fn remove(folder: &Path) {
        let _ = fs::remove_file(nonce_file(folder)); // it does no harm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(facts: &[(&str, &str)]) -> Vec<Fact> {
        facts.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn facts_that_differ_are_named_with_short_values() {
        let here = facts(&[("build", "b"), ("input x", "1"), ("resume", "no"), ("settings", &"a".repeat(64))]);
        assert_eq!(differences(&here, &here), None);
        let there = facts(&[("build", "b"), ("resume", "yes\x1b[2J"), ("settings", &"b".repeat(64)), ("more", "2")]);
        assert_eq!(
            differences(&here, &there).unwrap(),
            "input x (here 1, there missing), resume (here no, there yes\\u{1b}[2J), settings, more (here missing, there 2)"
        );
    }

    #[test]
    fn at_most_five_are_named() {
        let many = |value: &str| (0..12).map(|i| (format!("file {i:02}"), value.to_string())).collect::<Vec<_>>();
        let message = differences(&many("1"), &many("2")).unwrap();
        assert!(message.ends_with("file 04 (here 1, there 2), and 7 more"), "{message}");
    }

    #[test]
    fn facts_with_one_name_are_compared_together() {
        let (here, there) = (facts(&[("input", "1"), ("input", "2")]), facts(&[("input", "1"), ("input", "3")]));
        assert_eq!(differences(&here, &there).unwrap(), "input (here 1 2, there 1 3)");
    }

    #[test]
    fn long_messages_are_refused_before_they_are_read() {
        let mut bytes = (MOST_BYTES + 1).to_le_bytes().to_vec();
        bytes.extend([0; 64]);
        assert!(receive::<Hello>(&mut &bytes[..]).is_err());
        let largest = "x".repeat(MOST_BYTES as usize);
        assert!(check_size(&facts(&[("input", &largest)])).is_err());
        let mut sent = vec![];
        let hello = Hello { process: 1, facts: facts(&[("a", "b")]), nonce: None };
        send(&mut sent, &hello).unwrap();
        assert_eq!(receive::<Hello>(&mut &sent[..]).unwrap().facts, hello.facts);
    }

    #[test]
    fn the_nonce_is_found_in_its_folder_only() {
        use std::os::unix::fs::PermissionsExt;
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let old = Nonce::leave(folder.path()).unwrap();
        let nonce = Nonce::leave(folder.path()).unwrap();
        assert!(old != nonce && nonce.is_in(folder.path(), Duration::ZERO));
        let mode = fs::metadata(nonce_file(folder.path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!nonce.is_in(other.path(), Duration::ZERO));
    }
}
