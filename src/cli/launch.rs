//! `sawmill launch`: a job as several processes, started, watched, and started again from the last checkpoint when one
//! of them dies.
//!
//! The processes are local (`-n`), or one per line of a hosts file, through ssh. Each has its standard input connected
//! to this process: it brings the job's secret to other hosts, and when it closes, however this process ends, the others
//! write a checkpoint and end.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use clap::{Args, Parser};

use super::cluster::{read_hosts, seconds};
use super::run::Run;
use crate::cluster::checkpoint::{self, hex};
use crate::cluster::stop::stop_flag;
use crate::error::{Error, Result, exit};
use crate::job::folder::CHECKPOINTS;

#[derive(Args)]
pub struct Launch {
    /// Number of local processes
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "hosts", required_unless_present = "hosts")]
    processes: Option<usize>,
    /// File with one host:port per process, each started through ssh; paths must mean the same on all hosts
    #[arg(long, value_name = "FILE")]
    hosts: Option<PathBuf>,
    /// The command that reaches another host
    #[arg(long, value_name = "COMMAND", default_value = "ssh -o BatchMode=yes")]
    ssh: String,
    /// An environment variable that other hosts get, too, as all do whose names begin with SAWMILL_
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,
    /// How often to start again from the last checkpoint when a process dies, without a new checkpoint in between
    #[arg(long, value_name = "N", default_value_t = 5)]
    retries: u32,
    /// How long the processes may take to write a checkpoint when asked to stop, before they are killed
    #[arg(long, value_name = "SECONDS", value_parser = seconds(), default_value = "60")]
    stop_within: u64,
    /// What to launch: run JOB.toml ...
    #[arg(last = true, required = true, value_name = "run JOB.toml ...")]
    command: Vec<String>,
}

/// Reads the command to launch as `run` does.
#[derive(Parser)]
#[command(no_binary_name = false, name = "run")]
struct Launched {
    #[command(flatten)]
    run: Run,
}

/// The newest checkpoints of a run's stages, or of a study's variants, and when each was made. Only whether they change counts:
/// clocks may be set back.
fn newest_checkpoints(out: &Path) -> BTreeMap<PathBuf, Option<SystemTime>> {
    let below = std::fs::read_dir(out).into_iter().flatten().flatten().map(|entry| entry.path());
    let files = below.chain([out.to_path_buf()]).flat_map(|folder| checkpoint::newest_below(&folder.join(CHECKPOINTS)));
    let made = |file: &PathBuf| std::fs::metadata(file).and_then(|found| found.modified()).ok();
    files.map(|file| (file.clone(), made(&file))).collect()
}

/// How one try ended.
enum Ended {
    /// All processes are done; this is what the first one said.
    Done(u8),
    /// They were asked to stop.
    Stopped,
    /// Trying again would not help.
    Refused(u8),
    /// A process died.
    Died(String),
}

impl Launch {
    pub fn run(&self) -> Result<u8> {
        if self.command.first().map(String::as_str) != Some("run") {
            return Err(Error::Usage("launch what? The form is: sawmill launch -n 4 -- run JOB.toml".to_string()));
        }
        if self.processes == Some(0) {
            return Err(Error::Usage("-n 0: at least one process is needed".to_string()));
        }
        let stop = stop_flag()?;
        let out = self.launched_run()?.run_folder()?;
        let (mut tries, mut is_retry, mut reached) = (0, false, newest_checkpoints(&out));
        loop {
            let ended = self.attempt(is_retry, &stop)?;
            is_retry = true;
            let reaches = newest_checkpoints(&out);
            if reaches != reached {
                (tries, reached) = (0, reaches);
            }
            match ended {
                Ended::Done(code) | Ended::Refused(code) => return Ok(code),
                Ended::Stopped => return Ok(exit::RESUME),
                Ended::Died(why) if tries == self.retries => {
                    return Err(Error::Cluster(format!("{why}; given up after {tries} retries (--retries)")));
                }
                Ended::Died(why) => {
                    let pause = Duration::from_secs(1 << tries.min(5)).min(Duration::from_secs(30));
                    tries += 1;
                    say!(
                        "sawmill: {why}; starting again from the last checkpoint in {} s ({tries} of {})",
                        pause.as_secs(),
                        self.retries
                    );
                    let until = Instant::now() + pause;
                    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
                        std::thread::sleep(Duration::from_millis(50));
                    }
                    if stop.load(Ordering::Relaxed) {
                        return Ok(exit::RESUME);
                    }
                }
            }
        }
    }

    /// The command to launch, as `run` itself would read it.
    fn launched_run(&self) -> Result<Run> {
        let parsed =
            Launched::try_parse_from(&self.command).map_err(|e| Error::Usage(e.to_string().trim_end().to_string()))?;
        Ok(parsed.run)
    }

    fn attempt(&self, is_retry: bool, stop: &AtomicBool) -> Result<Ended> {
        let secret = fresh_secret()?;
        let (hosts_flag, hosts) = self.hosts()?;
        let mut children = Vec::new();
        for (process, host) in hosts.iter().enumerate() {
            let mut arguments = self.command.clone();
            // Once is enough: after that, the fresh run is the one to be continued.
            arguments.retain(|argument| !is_retry || argument != "--fresh");
            let process_flag = process.to_string();
            let flags = ["--hosts", &hosts_flag, "--process", &process_flag, "--end-with-stdin"];
            arguments.extend(flags.map(str::to_string));
            children.push(self.start(process, host, &arguments, &secret)?);
        }
        Ok(watch(&mut children, stop, Duration::from_secs(self.stop_within)))
    }

    /// The value of `--hosts`, and the hosts that it stands for: the user's, or a list of free ports for local processes.
    fn hosts(&self) -> Result<(String, Vec<String>)> {
        if let Some(file) = &self.hosts {
            let whole = file.canonicalize().map_err(|e| Error::Usage(format!("--hosts {}: {e}", file.display())))?;
            return Ok((whole.display().to_string(), read_hosts(file)?));
        }
        let listeners: std::io::Result<Vec<TcpListener>> =
            (0..self.processes.unwrap_or(1)).map(|_| TcpListener::bind("127.0.0.1:0")).collect();
        let addresses = listeners.and_then(|l| l.iter().map(|l| Ok(l.local_addr()?.to_string())).collect());
        let hosts: Vec<String> = addresses.map_err(|e| Error::Cluster(format!("no free ports on loopback: {e}")))?;
        Ok((hosts.join(","), hosts))
    }

    fn start(&self, process: usize, host: &str, arguments: &[String], secret: &str) -> Result<Child> {
        let failed = |e: std::io::Error| Error::Cluster(format!("cannot start process {process}: {e}"));
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = match &self.hosts {
            None => {
                let mut command = Command::new(program);
                command.args(arguments).env("SAWMILL_SECRET", secret);
                command
            }
            Some(_) => {
                let here = std::env::current_dir().map_err(failed)?;
                let words: Vec<String> = arguments.iter().map(|argument| quoted(argument)).collect();
                let remote = format!(
                    "read -r SAWMILL_SECRET && export SAWMILL_SECRET{} && cd {} && exec {} {}",
                    self.environment()?,
                    quoted(&here.display().to_string()),
                    quoted(&program.display().to_string()),
                    words.join(" ")
                );
                let mut ssh = self.ssh.split_whitespace();
                let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
                let mut command = Command::new(ssh.next().unwrap_or("ssh"));
                command.args(ssh).arg(name).arg(remote);
                command
            }
        };
        let stdout = if process == 0 { Stdio::inherit() } else { Stdio::null() };
        let mut child = command.stdin(Stdio::piped()).stdout(stdout).stderr(Stdio::piped()).spawn().map_err(failed)?;
        if self.hosts.is_some()
            && let Some(stdin) = &mut child.stdin
        {
            let _ = writeln!(stdin, "{secret}"); // a child that is gone is noticed by its exit
        }
        if let Some(stderr) = child.stderr.take() {
            pass_on(process, stderr);
        }
        Ok(child)
    }

    /// What other hosts get of the environment, for their shell: ` NAME='value'` of each variable.
    fn environment(&self) -> Result<String> {
        let is_own = |name: &str| name.starts_with("SAWMILL_") && name != "SAWMILL_SECRET";
        let own = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).filter(|name| is_own(name));
        let names: BTreeSet<String> = own.chain(self.env.iter().cloned()).collect();
        let mut list = String::new();
        for name in names {
            let is_name = !name.starts_with(|c: char| c.is_ascii_digit())
                && !name.is_empty()
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            let value = std::env::var(&name).ok().filter(|_| is_name);
            let value = value.ok_or_else(|| Error::Usage(format!("--env {name}: there is no such variable here")))?;
            list.push_str(&format!(" {name}={}", quoted(&value)));
        }
        Ok(list)
    }
}

/// Shows what a process says, with its number before what is not the first one's.
fn pass_on(process: usize, stderr: impl Read + Send + 'static) {
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(std::result::Result::ok) {
            if process == 0 { say!("{line}") } else { say!("[{process}] {line}") }
        }
    });
}

/// What ended a try.
struct Failure {
    process: usize,
    /// -1: by a signal.
    code: i32,
    /// When the first process failed.
    since: Instant,
}

/// Waits for the processes. When one fails the others get a moment to notice, and are then killed; so are those that have been
/// asked to stop and are not done `within` a time.
fn watch(children: &mut [Child], stop: &AtomicBool, within: Duration) -> Ended {
    let mut codes: Vec<Option<i32>> = vec![None; children.len()];
    let mut failure: Option<Failure> = None;
    let (mut stopping, mut is_ending): (Option<Instant>, bool) = (None, false);
    loop {
        for (process, child) in children.iter_mut().enumerate() {
            if codes[process].is_none()
                && let Ok(Some(status)) = child.try_wait()
            {
                let code = status.code().unwrap_or(-1);
                codes[process] = Some(code);
                // The one that died, rather than those that lost their connection to it, or were ended here.
                let is_lost = |code: i32| code == i32::from(exit::CLUSTER);
                let is_cause = failure.as_ref().is_none_or(|before| is_lost(before.code) && !is_lost(code));
                if !matches!(code, 0 | 1) && is_cause && !is_ending {
                    let since = failure.map_or_else(Instant::now, |before| before.since);
                    failure = Some(Failure { process, code, since });
                }
            }
        }
        if codes.iter().all(Option::is_some) {
            break;
        }
        if stop.load(Ordering::Relaxed) && stopping.is_none() {
            stopping = Some(Instant::now());
            children.iter_mut().for_each(|child| drop(child.stdin.take()));
        }
        let has_failed = failure.as_ref().is_some_and(|failure| failure.since.elapsed() > Duration::from_secs(5));
        let is_late = stopping.is_some_and(|since| since.elapsed() > within);
        if !is_ending && (is_late || (has_failed && stopping.is_none())) {
            is_ending = true;
            if is_late {
                say!("sawmill: not stopped within {} s (--stop-within); the last checkpoint counts", within.as_secs());
            }
            children.iter_mut().for_each(|child| drop(child.kill()));
        }
        std::thread::sleep(Duration::from_millis(30));
    }
    match failure {
        None if is_ending => Ended::Stopped,
        None => Ended::Done(codes[0].unwrap_or(0) as u8),
        Some(_) if stopping.is_some() || codes.iter().all(|code| *code == Some(exit::RESUME.into())) => Ended::Stopped,
        Some(Failure { code, .. }) if code == i32::from(exit::USAGE) || code == i32::from(exit::INPUT) => {
            Ended::Refused(code as u8)
        }
        Some(Failure { process, code: -1, .. }) => Ended::Died(format!("process {process} was killed")),
        Some(Failure { process, code, .. }) => Ended::Died(format!("process {process} ended with code {code}")),
    }
}

/// 32 random bytes.
fn fresh_secret() -> Result<String> {
    let mut bytes = [0; 32];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|e| Error::Cluster(format!("cannot make a secret: {e}")))?;
    Ok(hex(&bytes))
}

/// For the shell of another host.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_new_whatever_the_clock_says() {
        let folder = tempfile::tempdir().unwrap();
        for stage in ["checkpoints", "checkpoints/ngram", "variant/checkpoints"] {
            let latest = folder.path().join(stage).join("latest.json");
            let before = newest_checkpoints(folder.path());
            std::fs::create_dir_all(latest.parent().unwrap()).unwrap();
            std::fs::write(&latest, "{}").unwrap();
            let first = newest_checkpoints(folder.path());
            assert_ne!(first, before, "{stage}");
            assert_eq!(first, newest_checkpoints(folder.path()));
            let hour_ago = SystemTime::now() - Duration::from_secs(3600);
            std::fs::File::options().append(true).open(&latest).unwrap().set_modified(hour_ago).unwrap();
            assert_ne!(first, newest_checkpoints(folder.path()), "{stage}");
        }
    }
}
