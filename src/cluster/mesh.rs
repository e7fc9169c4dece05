//! Sockets between the processes of one job, and nobody else.
//!
//! timely's own start-up trusts whoever connects and waits for ever. Here, every process listens only on the address
//! that the host file names for it, dials the processes before it, and takes calls from those behind it. Both ends of
//! a connection prove that they hold the job's secret before anything else is believed: each sends a fresh nonce, and
//! answers with a keyed hash (BLAKE3) over both greetings. A stranger is dropped and the start goes on; a process that
//! holds the secret but runs another job, other settings or another build ends the start with a message on both sides;
//! and a process that does not appear in time is named.
//!
//! The traffic itself is not encrypted: use a private network, or tunnels.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, atomic::AtomicBool, atomic::AtomicUsize, atomic::Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::{SockRef, TcpKeepalive};

use crate::error::{Error, Result};

/// Opens every greeting; the last byte is the version of the protocol.
const MAGIC: &[u8; 8] = b"sawmill\x01";

/// How long a connected peer may take to prove itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// Callers that may be proving themselves at once; more have to wait.
const MOST_CALLERS: usize = 64;

/// This process among those of its job.
#[derive(Clone, Debug)]
pub struct Mesh {
    /// Which of `addresses` this process is.
    pub process: usize,
    /// `host:port` of every process.
    pub addresses: Vec<String>,
    /// What all processes of the job know and nobody else.
    pub secret: String,
    /// What all processes must agree on: hash of the job, its inputs and the build.
    pub fingerprint: [u8; 32],
    /// How long to wait for the others.
    pub start_within: Duration,
}

/// Why a connection is not used.
#[derive(Debug)]
enum Refusal {
    /// Not one of ours: the start goes on.
    Stranger(String),
    /// One of ours, but not of this job: the start ends.
    OtherJob(usize),
}

impl Mesh {
    /// One socket per process, none at this one's own index.
    pub fn connect(&self) -> Result<Vec<Option<TcpStream>>> {
        let listener = self.listen()?;
        let deadline = Instant::now() + self.start_within;
        let (found, finds) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        self.call_earlier_ones(deadline, &found);
        let taking = self.take_calls(listener, &stop, found);
        let peers = self.collect(deadline, &finds);
        stop.store(true, Ordering::Relaxed);
        let _ = taking.join(); // the port is free from here on, for the next job of a study
        peers
    }

    fn listen(&self) -> Result<TcpListener> {
        let address = &self.addresses[self.process];
        let listener = TcpListener::bind(address.as_str()).map_err(|e| {
            Error::Cluster(format!("cannot listen on {address}, which is process {}: {e}", self.process))
        })?;
        listener.set_nonblocking(true).map_err(|e| Error::Cluster(format!("{address}: {e}")))?;
        Ok(listener)
    }

    /// Dials each process before this one, again and again, each in a thread of its own.
    fn call_earlier_ones(&self, deadline: Instant, found: &Sender<Find>) {
        for peer in 0..self.process {
            let (mesh, found) = (self.clone(), found.clone());
            std::thread::spawn(move || {
                while Instant::now() < deadline {
                    if let Ok(socket) = dial(&mesh.addresses[peer]) {
                        match mesh.prove(socket, Some(peer)) {
                            Err(Refusal::Stranger(_)) => {} // the peer itself may still come
                            proven => return drop(found.send(proven)),
                        }
                    }
                    std::thread::sleep(Duration::from_millis(50));
                }
            });
        }
    }

    /// Takes calls until told to stop; each caller proves itself in a thread of its own, so that a silent one delays
    /// nobody.
    fn take_calls(&self, listener: TcpListener, stop: &Arc<AtomicBool>, found: Sender<Find>) -> JoinHandle<()> {
        let (mesh, stop) = (self.clone(), stop.clone());
        std::thread::spawn(move || {
            let callers = Arc::new(AtomicUsize::new(0));
            while !stop.load(Ordering::Relaxed) {
                let waiting = callers.load(Ordering::Relaxed) >= MOST_CALLERS;
                let Some((socket, from)) = (if waiting { None } else { listener.accept().ok() }) else {
                    std::thread::sleep(Duration::from_millis(10));
                    continue;
                };
                callers.fetch_add(1, Ordering::Relaxed);
                let (mesh, found, callers) = (mesh.clone(), found.clone(), callers.clone());
                std::thread::spawn(move || {
                    match mesh.prove(socket, None) {
                        Err(Refusal::Stranger(why)) => say!("sawmill: refused a connection from {from}: {why}"),
                        proven => drop(found.send(proven)),
                    }
                    callers.fetch_sub(1, Ordering::Relaxed);
                });
            }
        })
    }

    /// Waits until every process has been found.
    fn collect(&self, deadline: Instant, finds: &mpsc::Receiver<Find>) -> Result<Vec<Option<TcpStream>>> {
        let mut peers: Vec<Option<TcpStream>> = self.addresses.iter().map(|_| None).collect();
        loop {
            let missing: Vec<usize> = (0..peers.len()).filter(|&p| p != self.process && peers[p].is_none()).collect();
            if missing.is_empty() {
                return Ok(peers);
            }
            match finds.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Ok((peer, socket))) if peers[peer].is_none() => peers[peer] = Some(socket),
                Ok(Ok((peer, _))) => say!("sawmill: refused a second connection from process {peer}"),
                Ok(Err(Refusal::OtherJob(peer))) => {
                    return Err(Error::Cluster(format!(
                        "process {peer} ({}) runs another job, other settings, other inputs or another build of sawmill",
                        self.addresses[peer]
                    )));
                }
                Ok(Err(Refusal::Stranger(_))) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let names: Vec<String> =
                        missing.iter().map(|&peer| format!("{peer} ({})", self.addresses[peer])).collect();
                    return Err(Error::Cluster(format!(
                        "after {} s, these processes had not appeared (or hold another secret): {}",
                        self.start_within.as_secs(),
                        names.join(", ")
                    )));
                }
            }
        }
    }

    /// Exchanges greetings and proofs. `dialled` is the process that was called; a caller has to be a later one.
    fn prove(&self, mut socket: TcpStream, dialled: Option<usize>) -> Find {
        let stranger = |e: io::Error| Refusal::Stranger(format!("it does not speak our protocol ({e})"));
        tune(&socket).map_err(stranger)?;
        let mine = Greeting::new(self.process, self.fingerprint).map_err(stranger)?;
        socket.write_all(&mine.to_bytes()).map_err(stranger)?;
        let mut bytes = [0; Greeting::BYTES];
        socket.read_exact(&mut bytes).map_err(stranger)?;
        let theirs = Greeting::from_bytes(&bytes).ok_or_else(|| Refusal::Stranger("it is not sawmill".to_string()))?;
        let is_caller = dialled.is_some();
        socket.write_all(&self.proof(is_caller, &mine, &theirs)).map_err(stranger)?;
        let mut proof = [0; 32];
        socket.read_exact(&mut proof).map_err(stranger)?;
        // The comparison of blake3 hashes takes the same time wherever they differ.
        if blake3::Hash::from(proof) != blake3::Hash::from(self.proof(!is_caller, &theirs, &mine)) {
            return Err(Refusal::Stranger("it holds another secret".to_string()));
        }
        let peer = theirs.process as usize;
        let is_expected = match dialled {
            Some(dialled) => peer == dialled,
            None => peer > self.process && peer < self.addresses.len(),
        };
        if !is_expected {
            return Err(Refusal::Stranger(format!("it says that it is process {peer}")));
        }
        if theirs.fingerprint != self.fingerprint {
            return Err(Refusal::OtherJob(peer));
        }
        socket.set_read_timeout(None).and_then(|()| socket.set_write_timeout(None)).map_err(stranger)?;
        Ok((peer, socket))
    }

    /// What shows that the sender of greeting `from` holds the secret.
    fn proof(&self, is_caller: bool, from: &Greeting, to: &Greeting) -> [u8; 32] {
        let key = blake3::derive_key("sawmill 2026 mesh secret", self.secret.as_bytes());
        let mut hasher = blake3::Hasher::new_keyed(&key);
        hasher.update(&[u8::from(is_caller)]).update(&from.to_bytes()).update(&to.to_bytes());
        *hasher.finalize().as_bytes()
    }
}

/// A process that has proved itself, or why it could not.
type Find = std::result::Result<(usize, TcpStream), Refusal>;

/// What both ends say first.
struct Greeting {
    process: u64,
    fingerprint: [u8; 32],
    nonce: [u8; 32],
}

impl Greeting {
    const BYTES: usize = 8 + 8 + 32 + 32;

    fn new(process: usize, fingerprint: [u8; 32]) -> io::Result<Greeting> {
        let mut nonce = [0; 32];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut nonce)?;
        Ok(Greeting { process: process as u64, fingerprint, nonce })
    }

    fn to_bytes(&self) -> [u8; Greeting::BYTES] {
        let mut bytes = [0; Greeting::BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&self.process.to_le_bytes());
        bytes[16..48].copy_from_slice(&self.fingerprint);
        bytes[48..].copy_from_slice(&self.nonce);
        bytes
    }

    fn from_bytes(bytes: &[u8; Greeting::BYTES]) -> Option<Greeting> {
        let array = |from: usize| bytes[from..from + 32].try_into().expect("32 bytes");
        let process = u64::from_le_bytes(bytes[8..16].try_into().expect("8 bytes"));
        bytes.starts_with(MAGIC).then(|| Greeting { process, fingerprint: array(16), nonce: array(48) })
    }
}

fn dial(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, Duration::from_secs(2)) {
            Ok(socket) => return Ok(socket),
            Err(e) => last = e,
        }
    }
    Err(last)
}

/// Small messages at once, a limit on the proof, and notice of a host that has gone without a word.
fn tune(socket: &TcpStream) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    let keepalive =
        TcpKeepalive::new().with_time(Duration::from_secs(10)).with_interval(Duration::from_secs(5)).with_retries(3);
    let socket = SockRef::from(socket);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(Duration::from_secs(25)))
}
