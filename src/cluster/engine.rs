//! Starting workers: threads of one process, or of several that find each other.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use timely::WorkerConfig;
use timely::communication::Hooks;
use timely::communication::allocator::zero_copy::initialize::initialize_networking_from_sockets;
use timely::communication::allocator::{AllocatorBuilder, ProcessBuilder};
use timely::execute::execute_from;
use timely::worker::Worker;

use super::agreement::Fact;
use super::checkpoint::hex;
use super::mesh::Mesh;
use crate::error::{Error, Result, exit};

/// The workers of a job. Every process must have the same number of threads. It cannot be printed, since it holds the
/// secret.
#[derive(Clone)]
pub struct Cluster {
    /// Worker threads of each process.
    pub threads: usize,
    /// Index of this process.
    pub process: usize,
    /// `host:port` of every process; empty or one for a single process.
    pub hosts: Vec<String>,
    /// What the processes of the job know and nobody else.
    pub secret: String,
    /// Whether to encrypt the traffic between processes. It is authenticated in any case.
    pub encrypt: bool,
    /// The run folder, if all processes must see the same one.
    pub folder: Option<PathBuf>,
    /// How long to wait for the other processes.
    pub start_within: Duration,
}

impl Cluster {
    /// Threads of this process alone.
    pub fn local(threads: usize) -> Cluster {
        Cluster {
            threads,
            process: 0,
            hosts: vec![],
            secret: String::new(),
            encrypt: true,
            folder: None,
            start_within: Duration::from_secs(60),
        }
    }

    pub fn processes(&self) -> usize {
        self.hosts.len().max(1)
    }

    pub fn workers(&self) -> usize {
        self.threads * self.processes()
    }

    /// Whether worker 0, which holds the results, is in this process.
    pub fn is_leader(&self) -> bool {
        self.process == 0
    }

    /// What the processes of every job must agree on.
    pub fn facts(&self) -> Vec<Fact> {
        vec![
            ("build".to_string(), hex(&build_hash())),
            ("workers per process".to_string(), self.threads.to_string()),
            ("hosts".to_string(), self.hosts.join(" ")),
        ]
    }

    /// Runs `program` on every worker and returns what those of this process return. All processes must come with the
    /// same `facts`, names with values, which are asked for only if there are several.
    pub fn run<T, F>(&self, facts: impl FnOnce() -> Vec<Fact>, program: F) -> Result<Vec<T>>
    where
        T: Send + 'static,
        F: Fn(&mut Worker) -> T + Send + Sync + 'static,
    {
        if self.processes() == 1 {
            return join(timely::execute(timely::Config::process(self.threads), program));
        }
        let mesh = Mesh {
            process: self.process,
            addresses: self.hosts.clone(),
            secret: self.secret.clone(),
            encrypt: self.encrypt,
            facts: facts(),
            folder: self.folder.clone(),
            start_within: self.start_within,
        };
        let channels = mesh.connect()?;
        let hooks = Hooks::default();
        let inside = ProcessBuilder::new_typed_vector(self.threads, hooks.refill.clone(), hooks.spill.clone());
        let (builders, guard) = initialize_networking_from_sockets(inside, channels, self.process, self.threads, hooks)
            .map_err(|e| Error::Cluster(format!("cannot start the network threads: {e}")))?;
        let builders = builders.into_iter().map(AllocatorBuilder::Tcp).collect();
        join(execute_from(builders, Box::new(guard), WorkerConfig::default(), program))
    }
}

/// The build: a hash of the program itself, since another build may count or draw differently.
pub fn build_hash() -> [u8; 32] {
    static HASH: OnceLock<[u8; 32]> = OnceLock::new();
    *HASH.get_or_init(|| {
        let mut hasher = blake3::Hasher::new();
        if let Ok(program) = std::env::current_exe().and_then(std::fs::File::open) {
            let _ = hasher.update_reader(program); // what cannot be read is the same nowhere
        }
        *hasher.finalize().as_bytes()
    })
}

/// Waits for the workers of this process.
fn join<T: Send + 'static>(
    guards: std::result::Result<timely::communication::WorkerGuards<T>, String>,
) -> Result<Vec<T>> {
    let guards = guards.map_err(|e| Error::Cluster(format!("cannot start the workers: {e}")))?;
    let lost = || Error::Cluster("a worker or its connection was lost".to_string());
    // After a network failure, joining panics in timely's own threads.
    let results = std::panic::catch_unwind(AssertUnwindSafe(|| guards.join())).map_err(|_| lost())?;
    results.into_iter().map(|result| result.map_err(|_| lost())).collect()
}

/// From now on, a panic of any thread ends the process with its cause. With plain threads, the other workers would wait
/// for the one that is gone; and timely reports a lost connection by a panic.
pub fn end_process_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let message = info.payload_as_str().unwrap_or("");
        // timely communication error: what it was doing: the cause, which a channel explains
        if let Some((_, cause)) = message.split_once("timely communication error: ") {
            say!("sawmill: {}", cause.split_once(": ").map_or(cause, |(_, cause)| cause));
            std::process::exit(exit::CLUSTER.into());
        }
        report(info);
        say!("sawmill: this is a fault of sawmill itself; please report it with the lines above");
        std::process::exit(exit::PANIC.into());
    }));
}
