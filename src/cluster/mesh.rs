//! Connections between the processes of one job, and nobody else.
//!
//! timely's own start-up trusts whoever connects and waits for ever. Here, every process listens only on the address
//! that the host file names for it, dials the processes before it, and takes calls from those after it. A connection is
//! made in three steps:
//!
//! 1. Both ends prove that they hold the job's secret, and agree on fresh keys ([`super::channel`]). Whoever cannot, or
//!    takes more than five seconds, is dropped, and the start goes on. Silent callers cannot keep others out
//!    ([`super::callers`]).
//! 2. Inside the encrypted channel, both ends compare what they must have in common: facts such as the settings and the
//!    build, and the run folder ([`super::agreement`]).
//! 3. Both ends tell each other whether they accept. A process that is refused ends with the reason; so does the one
//!    that found a difference.
//!
//! A process that does not appear in time is named, with the last reason why it could not be reached.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::{SockRef, TcpKeepalive};

use super::agreement::{self, Fact, Hello, Nonce, Verdict};
use super::callers::{Callers, Place};
use super::channel::{self, Channel, Key};
use crate::error::{Error, Result};

/// How long a connected peer may take to prove itself, in all.
const PROOF: Duration = Duration::from_secs(5);

/// How long two processes that have proved themselves may take to agree.
const AGREEMENT: Duration = Duration::from_secs(30);

/// How long a process looks for the file that process 0 has written into the run folder. Shorter than [`AGREEMENT`].
const FOLDER: Duration = Duration::from_secs(10);

/// How long a process that is refused, or refuses another, goes on answering: others may be about to learn why.
const GRACE: Duration = Duration::from_secs(1);

/// Callers that may be proving themselves at once, beside one place for each process of the job.
const MOST_CALLERS: usize = 256;

/// Memory for the stack of a caller's thread.
const STACK: usize = 512 << 10;

/// Refused connections that are reported one by one.
const MOST_REPORTED: usize = 20;

/// This process among those of its job.
pub struct Mesh {
    /// Which of `addresses` this process is.
    pub process: usize,
    /// `host:port` of every process.
    pub addresses: Vec<String>,
    /// What all processes of the job know and nobody else.
    pub secret: String,
    /// Whether to encrypt traffic, beyond the start. It is authenticated in any case.
    pub encrypt: bool,
    /// What all processes must agree on: names and values.
    pub facts: Vec<Fact>,
    /// The run folder, if all processes must see the same.
    pub folder: Option<PathBuf>,
    /// How long to wait for the others.
    pub start_within: Duration,
}

/// Why a connection is not used.
enum Refusal {
    /// Not one of ours, or not one that is needed: the start goes on.
    Stranger(String),
    /// One of ours that does not fit: the start ends.
    Ends(String),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Refusal {
        Refusal::Stranger(error.to_string())
    }
}

/// A process that has proved itself and agrees, or why there is none.
type Find = std::result::Result<(usize, Channel), Refusal>;

/// A start in progress, shared by its threads.
struct Start {
    mesh: Mesh,
    key: Key,
    /// What this process has written into the run folder, if it is the first one.
    nonce: Option<Nonce>,
    deadline: Instant,
    /// Processes that have called and were accepted.
    accepted: Mutex<Vec<bool>>,
    /// Why processes could not be reached, when last tried.
    reasons: Mutex<BTreeMap<usize, String>>,
    /// Connections that were refused.
    refused: AtomicUsize,
    callers: Arc<Callers>,
    has_ended: AtomicBool,
}

impl Mesh {
    /// One channel per process, none at this one's own index.
    pub fn connect(mut self) -> Result<Vec<Option<Channel>>> {
        self.facts.push(("encryption".to_string(), if self.encrypt { "on" } else { "off" }.to_string()));
        agreement::check_size(&self.facts)?;
        let written = self.folder.clone().filter(|_| self.process == 0);
        let nonce = written.as_ref().map(|folder| Nonce::leave(folder)).transpose()?;
        let peers = Start::new(self, nonce).connect();
        if let Some(folder) = written {
            Nonce::remove(&folder); // all others have seen it
        }
        let peers = peers?;
        channel::start_pulse(peers.iter().flatten());
        Ok(peers)
    }

    /// A process, for messages.
    fn name(&self, process: usize) -> String {
        format!("process {process} ({})", self.addresses[process])
    }
}

impl Start {
    fn new(mesh: Mesh, nonce: Option<Nonce>) -> Arc<Start> {
        Arc::new(Start {
            key: Key::new(&mesh.secret),
            nonce,
            deadline: Instant::now() + mesh.start_within,
            accepted: Mutex::new(vec![false; mesh.addresses.len()]),
            reasons: Mutex::default(),
            refused: AtomicUsize::new(0),
            callers: Callers::new(MOST_CALLERS + mesh.addresses.len()),
            has_ended: AtomicBool::new(false),
            mesh,
        })
    }

    fn connect(self: &Arc<Start>) -> Result<Vec<Option<Channel>>> {
        let listener = self.listen()?;
        let (found, finds) = mpsc::channel();
        self.call_earlier_ones(&found);
        let taking = self.take_calls(listener, found);
        let peers = self.collect(&finds);
        self.has_ended.store(true, Ordering::Relaxed);
        self.callers.close();
        let _ = taking.join(); // the port is free from here on, for the next job of a study
        let refused = self.refused.load(Ordering::Relaxed);
        if refused > MOST_REPORTED {
            say!("sawmill: refused {} more connections", refused - MOST_REPORTED);
        }
        peers
    }

    fn is_over(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed) || Instant::now() >= self.deadline
    }

    /// Listens on this process's own address, as soon as that can be resolved: the name of a fresh pod or host may not
    /// be known yet.
    fn listen(&self) -> Result<TcpListener> {
        let mesh = &self.mesh;
        let address = &mesh.addresses[mesh.process];
        let failed = |e: io::Error| {
            Error::Cluster(format!("cannot listen on {address}, the address of process {}: {e}", mesh.process))
        };
        let addresses: Vec<SocketAddr> = loop {
            match address.to_socket_addrs() {
                Ok(addresses) => break addresses.collect(),
                Err(e) if self.is_over() => return Err(failed(e)),
                Err(_) => std::thread::sleep(Duration::from_millis(500)),
            }
        };
        let listener = TcpListener::bind(&addresses[..]).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(listener)
    }

    /// Dials each process before this one, again and again, each in a thread of its own.
    fn call_earlier_ones(self: &Arc<Start>, found: &Sender<Find>) {
        for peer in 0..self.mesh.process {
            let (start, found) = (self.clone(), found.clone());
            std::thread::spawn(move || {
                let mut pause = Duration::from_millis(50);
                while !start.is_over() {
                    let reason = match start.dial(peer) {
                        Err(e) => e.to_string(),
                        Ok(socket) => match start.call(peer, socket) {
                            // The process itself may still come, in place of whoever that was.
                            Err(Refusal::Stranger(reason)) => {
                                pause = (2 * pause).min(Duration::from_secs(1));
                                reason
                            }
                            find => return drop(found.send(find)),
                        },
                    };
                    start.reasons.lock().expect("no thread panics here").insert(peer, reason);
                    std::thread::sleep(pause);
                }
            });
        }
    }

    fn dial(&self, peer: usize) -> io::Result<TcpStream> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in self.mesh.addresses[peer].to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, Duration::from_secs(2)) {
                Ok(socket) => return Ok(socket),
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    /// Takes calls until the start has ended; each caller has a thread of its own, so that a silent one delays nobody.
    fn take_calls(self: &Arc<Start>, listener: TcpListener, found: Sender<Find>) -> JoinHandle<()> {
        let start = self.clone();
        std::thread::spawn(move || {
            while !start.has_ended.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((socket, from)) => start.take_call(socket, from, &found),
                    Err(e) => {
                        if e.kind() != io::ErrorKind::WouldBlock {
                            start.callers.make_room();
                        }
                        std::thread::sleep(Duration::from_millis(10));
                    }
                }
            }
        })
    }

    fn take_call(self: &Arc<Start>, socket: TcpStream, from: SocketAddr, found: &Sender<Find>) {
        let socket = Arc::new(socket);
        let Some(place) = self.callers.take(&socket, from) else { return };
        let (start, found) = (self.clone(), found.clone());
        let answering =
            std::thread::Builder::new().stack_size(STACK).spawn(move || match start.answer(socket, place) {
                Err(Refusal::Stranger(why)) => start.report_refused(from, &why),
                find => drop(found.send(find)),
            });
        if answering.is_err() {
            self.callers.make_room(); // this caller has lost its place, and may call again
        }
    }

    fn report_refused(&self, from: SocketAddr, why: &str) {
        if !self.has_ended.load(Ordering::Relaxed) && self.refused.fetch_add(1, Ordering::Relaxed) < MOST_REPORTED {
            say!("sawmill: refused a connection from {from}: {why}");
        }
    }

    /// Waits until every process has been found.
    fn collect(&self, finds: &mpsc::Receiver<Find>) -> Result<Vec<Option<Channel>>> {
        let mut peers: Vec<Option<Channel>> = self.mesh.addresses.iter().map(|_| None).collect();
        loop {
            let missing: Vec<usize> =
                (0..peers.len()).filter(|&p| p != self.mesh.process && peers[p].is_none()).collect();
            if missing.is_empty() {
                return Ok(peers);
            }
            match finds.recv_timeout(self.deadline.saturating_duration_since(Instant::now())) {
                Ok(Ok((peer, channel))) => peers[peer] = Some(channel),
                Ok(Err(Refusal::Stranger(_))) => {}
                Ok(Err(Refusal::Ends(message))) => {
                    std::thread::sleep(GRACE);
                    return Err(Error::Cluster(message));
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Err(self.late(&missing)),
            }
        }
    }

    fn late(&self, missing: &[usize]) -> Error {
        let reasons = self.reasons.lock().expect("no thread panics here");
        let names: Vec<String> = missing
            .iter()
            .map(|&peer| match reasons.get(&peer) {
                Some(reason) => format!("{peer} ({}): {reason}", self.mesh.addresses[peer]),
                None => format!("{peer} ({})", self.mesh.addresses[peer]),
            })
            .collect();
        Error::Cluster(format!(
            "after {} s, these processes had not appeared (or hold another secret): {}",
            self.mesh.start_within.as_secs(),
            names.join("; ")
        ))
    }

    /// What the end that has dialled does: step by step the opposite of [`Start::answer`].
    fn call(&self, peer: usize, socket: TcpStream) -> Find {
        tune(&socket)?;
        let mut channel = Channel::call(Arc::new(socket), &self.key, Instant::now() + PROOF)?;
        channel.set_deadline(Some(Instant::now() + AGREEMENT))?;
        agreement::send(&mut channel, &self.hello())?;
        let theirs: Hello = agreement::receive(&mut channel)?;
        if theirs.process != peer as u64 {
            return Err(Refusal::Stranger(format!("it claims to be process {}", theirs.process)));
        }
        let ours = self.judge(peer, &theirs);
        agreement::send(&mut channel, &ours)?;
        let verdict: Verdict = agreement::receive(&mut channel)?;
        match (ours, verdict) {
            (Verdict::Refused(reason), _) => Err(Refusal::Ends(reason)),
            (_, Verdict::Refused(reason)) => Err(self.refused_by(peer, &reason)),
            (Verdict::Accepted, Verdict::Accepted) => self.agreed(peer, channel),
        }
    }

    /// What the end that was dialled does. Its verdict is the last message, so that the caller is not accepted twice.
    fn answer(&self, socket: Arc<TcpStream>, place: Place) -> Find {
        tune(&socket)?;
        let mut channel = Channel::answer(socket, &self.key, Instant::now() + PROOF)?;
        if !place.proved() {
            return Err(Refusal::Stranger("it was cut off".to_string()));
        }
        channel.set_deadline(Some(Instant::now() + AGREEMENT))?;
        let theirs: Hello = agreement::receive(&mut channel)?;
        let later = (self.mesh.process as u64 + 1)..self.mesh.addresses.len() as u64;
        if !later.contains(&theirs.process) {
            return Err(Refusal::Stranger(format!("it claims to be process {}", theirs.process)));
        }
        let peer = theirs.process as usize;
        agreement::send(&mut channel, &self.hello())?;
        let ours = self.judge(peer, &theirs);
        let verdict: Verdict = agreement::receive(&mut channel)?;
        if let Verdict::Refused(reason) = &ours {
            agreement::send(&mut channel, &ours)?;
            return Err(Refusal::Ends(reason.clone()));
        }
        if let Verdict::Refused(reason) = verdict {
            agreement::send(&mut channel, &ours)?;
            return Err(self.refused_by(peer, &reason));
        }
        if std::mem::replace(&mut self.accepted.lock().expect("no thread panics here")[peer], true) {
            let reason = format!("there is a process {peer} already; start every process once, with its own --process");
            agreement::send(&mut channel, &Verdict::Refused(reason))?;
            return Err(Refusal::Stranger(format!("a second process {peer}")));
        }
        let sent = agreement::send(&mut channel, &Verdict::Accepted).map_err(Refusal::from);
        sent.and_then(|()| self.agreed(peer, channel))
            .inspect_err(|_| self.accepted.lock().expect("no thread panics here")[peer] = false)
    }

    fn hello(&self) -> Hello {
        Hello { process: self.mesh.process as u64, facts: self.mesh.facts.clone(), nonce: self.nonce }
    }

    /// Whether this process can work with `peer`, as far as it can tell.
    fn judge(&self, peer: usize, theirs: &Hello) -> Verdict {
        let name = self.mesh.name(peer);
        if let Some(differences) = agreement::differences(&self.mesh.facts, &theirs.facts) {
            return Verdict::Refused(format!(
                "{name} does not match this process: {differences}. Start all processes with the same job, inputs, \
                 flags, hosts and build of sawmill"
            ));
        }
        match &self.mesh.folder {
            Some(folder)
                if peer == 0
                    && !theirs
                        .nonce
                        .is_some_and(|nonce| nonce.is_in(folder, FOLDER.min(self.mesh.start_within / 2))) =>
            {
                Verdict::Refused(format!(
                    "{} is not the run folder of {name}: the file that it has just written to processes/nonce does \
                     not appear there, and checkpoints would be lost. Give all processes the same --out, on a file \
                     system that all hosts share, and run them as the same user",
                    folder.display()
                ))
            }
            _ => Verdict::Accepted,
        }
    }

    fn refused_by(&self, peer: usize, reason: &str) -> Refusal {
        Refusal::Ends(format!("{} refused to work with this process: {reason}", self.mesh.name(peer)))
    }

    /// Both ends have accepted: the channel is ready for traffic.
    fn agreed(&self, peer: usize, mut channel: Channel) -> Find {
        channel.set_deadline(None)?;
        channel.set_peer(&self.mesh.name(peer));
        if !self.mesh.encrypt {
            channel.stop_encrypting();
        }
        Ok((peer, channel))
    }
}

/// Sends small messages at once, and detects hosts that have disappeared.
fn tune(socket: &TcpStream) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_nodelay(true)?;
    let keepalive =
        TcpKeepalive::new().with_time(Duration::from_secs(10)).with_interval(Duration::from_secs(5)).with_retries(3);
    let socket = SockRef::from(socket);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(Duration::from_secs(25)))
}
