//! Flags that say which workers a job runs on.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};

use crate::cluster::engine::Cluster;
use crate::error::{Error, Result};

/// Shortest secret, in bytes: anybody who can reach the port may try to guess it.
const SHORTEST_SECRET: usize = 16;

/// How to make one.
const MAKE_SECRET: &str = r"head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n'";

/// The environment variable with the secret.
const SECRET: &str = "SAWMILL_SECRET";

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Switch {
    On,
    Off,
}

#[derive(Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterFlags {
    /// Worker threads of this process [default: one per core]
    #[arg(short, long, value_name = "N")]
    workers: Option<usize>,
    /// File with one host:port per process, or these with commas between; start sawmill once on each, with its --process
    #[arg(long, value_name = "FILE|LIST", requires = "process")]
    hosts: Option<PathBuf>,
    /// Which line of the hosts file this process is, from 0; process 0 writes the run folder
    #[arg(long, value_name = "I", requires = "hosts")]
    process: Option<usize>,
    /// File with the secret that the processes share, readable by its owner only [default: SAWMILL_SECRET from the
    /// environment]
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Whether to encrypt the traffic between processes; it is authenticated in any case
    #[arg(long, value_enum, value_name = "on|off", default_value = "on", hide_possible_values = true)]
    encrypt: Switch,
    /// How long to wait for the other processes
    #[arg(long, value_name = "SECONDS", value_parser = seconds(), default_value = "60")]
    start_within: u64,
    /// How long to wait for a process that is alive but idle
    #[arg(long, value_name = "SECONDS", value_parser = seconds(), default_value = "600")]
    stall_after: u64,
}

/// Seconds of a flag: some thirty years at most, which clocks can add to any time.
pub fn seconds() -> RangedU64ValueParser {
    clap::value_parser!(u64).range(..=1_000_000_000)
}

impl ClusterFlags {
    /// The workers, this process among them.
    pub fn resolve(&self) -> Result<Cluster> {
        let threads = match self.workers {
            Some(0) => return Err(Error::Usage("--workers 0: at least one is needed".to_string())),
            Some(n) => n,
            None => std::thread::available_parallelism().map_or(1, |n| n.get()),
        };
        let mut cluster = Cluster { start_within: Duration::from_secs(self.start_within), ..Cluster::local(threads) };
        let (Some(file), Some(process)) = (&self.hosts, self.process) else { return Ok(cluster) };
        cluster.hosts = read_hosts(file)?;
        cluster.process = process;
        if process >= cluster.hosts.len() {
            let message =
                format!("--process {process}, but {} names {} hosts, from 0", file.display(), cluster.hosts.len());
            return Err(Error::Usage(message));
        }
        cluster.encrypt = self.encrypt == Switch::On;
        if cluster.hosts.len() > 1 {
            cluster.secret = self.read_secret()?;
        }
        Ok(cluster)
    }

    /// How long to wait for a process that is idle.
    pub fn stall_after(&self) -> Duration {
        Duration::from_secs(self.stall_after)
    }

    /// The secret, from its file or the environment; never from the command line, which other users can see.
    fn read_secret(&self) -> Result<String> {
        let (secret, source) = match (&self.secret_file, std::env::var_os(SECRET)) {
            (Some(file), _) => (read_secret_file(file)?, format!("--secret-file {}", file.display())),
            (None, Some(secret)) => {
                let secret = secret.into_string();
                (secret.map_err(|_| Error::Usage(format!("{SECRET} is not valid text")))?, SECRET.to_string())
            }
            (None, None) => (String::new(), SECRET.to_string()),
        };
        let secret = secret.trim();
        match secret.len() {
            0 => Err(Error::Usage(format!(
                "several processes need a secret that they share: set {SECRET} or --secret-file, the same for all. To \
                 make one: {MAKE_SECRET}"
            ))),
            length if length < SHORTEST_SECRET => Err(Error::Usage(format!(
                "{source}: a secret of {length} bytes can be guessed; at least {SHORTEST_SECRET} are needed. To make \
                 one: {MAKE_SECRET}"
            ))),
            _ => Ok(secret.to_string()),
        }
    }
}

/// Reads a secret from a file that nobody but its owner can read.
fn read_secret_file(path: &Path) -> Result<String> {
    let failed = |reason: String| Error::Usage(format!("--secret-file {}: {reason}", path.display()));
    // Asked before it is opened: opening a pipe would wait for its writer.
    let found = std::fs::metadata(path).map_err(|e| failed(e.to_string()))?;
    if !found.is_file() {
        return Err(failed("this is not a regular file".to_string()));
    }
    let file = File::open(path).map_err(|e| failed(e.to_string()))?;
    let mode = file.metadata().map_err(|e| failed(e.to_string()))?.permissions().mode();
    if mode & 0o077 != 0 {
        let reason = format!(
            "its permissions ({:04o}) let other users read or write it; run: chmod 600 {}",
            mode & 0o7777,
            path.display()
        );
        return Err(failed(reason));
    }
    let mut secret = String::new();
    file.take(1 << 16).read_to_string(&mut secret).map_err(|e| failed(e.to_string()))?;
    Ok(secret)
}

/// The text of a file of flags: one that is longer than any such file is not read whole.
fn read_text(file: &Path) -> std::io::Result<String> {
    const LONGEST: u64 = 1 << 20;
    let mut text = String::new();
    match File::open(file)?.take(LONGEST + 1).read_to_string(&mut text)? as u64 {
        0..=LONGEST => Ok(text),
        _ => Err(std::io::Error::other("it is longer than 1 MiB")),
    }
}

/// One `host:port` per line; blank lines and `#` comments are passed over. What is no file but has a port is a list itself,
/// with commas between the hosts.
pub fn read_hosts(file: &Path) -> Result<Vec<String>> {
    let list = file.to_str().filter(|list| list.contains(':') && !file.exists());
    let text = match list {
        Some(list) => list.replace(',', "\n"),
        None => read_text(file).map_err(|e| Error::Usage(format!("--hosts {}: {e}", file.display())))?,
    };
    let mut hosts = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let host = line.split('#').next().unwrap_or("").trim();
        if host.is_empty() {
            continue;
        }
        let has_port =
            host.rsplit_once(':').is_some_and(|(name, port)| !name.is_empty() && port.parse::<u16>().is_ok());
        if !has_port {
            return Err(Error::Usage(format!("{}:{number}: `{host}` is not host:port", file.display())));
        }
        hosts.push(host.to_string());
    }
    match hosts.is_empty() {
        true => Err(Error::Usage(format!("{} names no host", file.display()))),
        false => Ok(hosts),
    }
}
