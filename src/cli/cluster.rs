//! Flags that say which workers a job runs on.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use crate::cluster::engine::Cluster;
use crate::error::{Error, Result};

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
    /// File with the secret that the processes of the job share
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// The secret itself (better in the environment than on a command line)
    #[arg(long, env = "SAWMILL_SECRET", hide_env_values = true, hide = true)]
    secret: Option<String>,
    /// How long to wait for the other processes
    #[arg(long, value_name = "SECONDS", default_value = "60")]
    start_within: u64,
    /// How long to wait for a process that is alive but idle
    #[arg(long, value_name = "SECONDS", default_value = "600")]
    stall_after: u64,
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
        cluster.secret = self.read_secret()?;
        if cluster.hosts.len() > 1 && cluster.secret.is_empty() {
            let message = "several processes need a secret that they share: set SAWMILL_SECRET or --secret-file, the same for all";
            return Err(Error::Usage(message.to_string()));
        }
        Ok(cluster)
    }

    /// How long to wait for a process that is idle.
    pub fn stall_after(&self) -> Duration {
        Duration::from_secs(self.stall_after)
    }

    fn read_secret(&self) -> Result<String> {
        let Some(file) = &self.secret_file else { return Ok(self.secret.clone().unwrap_or_default()) };
        let text = std::fs::read_to_string(file)
            .map_err(|e| Error::Usage(format!("--secret-file {}: {e}", file.display())))?;
        Ok(text.trim().to_string())
    }
}

/// One `host:port` per line; blank lines and `#` comments are passed over. What is no file but has a port is a list itself,
/// with commas between the hosts.
pub fn read_hosts(file: &Path) -> Result<Vec<String>> {
    let list = file.to_str().filter(|list| list.contains(':') && !file.exists());
    let text = match list {
        Some(list) => list.replace(',', "\n"),
        None => std::fs::read_to_string(file).map_err(|e| Error::Usage(format!("--hosts {}: {e}", file.display())))?,
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
