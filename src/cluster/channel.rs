//! An authenticated, encrypted connection between two processes that share a secret.
//!
//! [`Channel::call`] and [`Channel::answer`] run the Noise handshake NNpsk0: fresh keys for every connection, which only
//! holders of the secret can agree on. Neither returns before the other end has proved itself. From then on a channel
//! reads and writes like a socket, and timely uses it in place of one.
//!
//! Data travels in frames: a sealed header of two bytes, the length, and as many sealed bytes. Each seal includes a
//! counter, so a frame that was altered, dropped, repeated or moved does not open, and reading fails. The header has a
//! seal of its own so that an altered length is noticed at once, not when bytes that were never sent fail to arrive.
//! A stream ends with an end frame; a connection that closes without one was cut, which is an error too. Idle
//! connections carry an empty frame every few seconds ([`start_pulse`]), so that the loss of the last frame is noticed.
//!
//! Clones share their counters: no two frames are ever sealed under the same key and counter.
//!
//! [`Channel::stop_encrypting`] switches to frames in the clear with a keyed BLAKE3 tag, for networks that are private
//! anyway. Integrity stays.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use snow::{Builder, HandshakeState, StatelessTransportState};
use timely::communication::allocator::zero_copy::stream::Stream;

/// The first bytes of both ends; the last one is the version of the protocol.
const MAGIC: &[u8; 8] = b"sawmill\x02";

/// With AES instructions, AES-GCM is twice as fast as ChaChaPoly; see `scripts/results/channel-2026-11-18.md`.
const PATTERN: &str = "Noise_NNpsk0_25519_AESGCM_SHA256";

/// Length of both messages of the handshake: a public key and a tag.
const HANDSHAKE: usize = 32 + 16;

/// Data bytes per frame: large enough that headers cost nothing, small enough for the cache.
const FRAME: usize = 32 << 10;

/// Data bytes per system call. timely's writer hands over 64 KiB at a time, or single messages that are larger.
const WRITE: usize = 8 * FRAME;

/// Size of the receive buffer.
const BUFFER: usize = 256 << 10;

/// The length that marks the end of the stream.
const END: u16 = u16::MAX;

/// The length of a frame without data.
const PULSE: u16 = 0;

/// How often idle connections carry a frame.
const PULSE_EVERY: Duration = Duration::from_secs(5);

/// The key that follows from a job's secret.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    pub fn new(secret: &str) -> Key {
        Key(blake3::derive_key(
            "sawmill 2026-11-18 secret of a job to pre-shared key of its channels",
            secret.as_bytes(),
        ))
    }
}

/// How the frames of one direction are protected.
enum Seal {
    /// Encrypted and authenticated.
    Noise(Arc<StatelessTransportState>),
    /// In the clear, with a tag under this key.
    Tag([u8; 32]),
}

impl Seal {
    /// Bytes that sealing adds.
    fn overhead(&self) -> usize {
        match self {
            Seal::Noise(_) => 16,
            Seal::Tag(_) => blake3::OUT_LEN,
        }
    }

    /// Appends `plain` to `frames`, sealed as number `count`.
    fn seal(&self, count: u64, plain: &[u8], frames: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Seal::Noise(noise) => {
                let start = frames.len();
                frames.resize(start + plain.len() + self.overhead(), 0);
                noise.write_message(count, plain, &mut frames[start..]).map(drop).map_err(io::Error::other)
            }
            Seal::Tag(key) => {
                frames.extend_from_slice(plain);
                frames.extend_from_slice(tag(key, count, plain).as_bytes());
                Ok(())
            }
        }
    }

    /// Opens what was sealed as number `count` into `plain`, which has just the right length.
    fn open(&self, count: u64, sealed: &[u8], plain: &mut [u8]) -> io::Result<()> {
        let forged = || io::Error::new(ErrorKind::InvalidData, "a frame is not authentic");
        match self {
            Seal::Noise(noise) => noise.read_message(count, sealed, plain).map(drop).map_err(|_| forged()),
            Seal::Tag(key) => {
                let (data, found) = sealed.split_at(plain.len());
                let found: [u8; blake3::OUT_LEN] = found.try_into().map_err(|_| forged())?;
                // The comparison of BLAKE3 hashes takes the same time wherever they differ.
                if tag(key, count, data) != blake3::Hash::from(found) {
                    return Err(forged());
                }
                plain.copy_from_slice(data);
                Ok(())
            }
        }
    }
}

/// The counter has a fixed length and comes last, so that no two inputs are the same and the data stays aligned.
fn tag(key: &[u8; 32], count: u64, data: &[u8]) -> blake3::Hash {
    blake3::Hasher::new_keyed(key).update(data).update(&count.to_le_bytes()).finalize()
}

/// The sending half.
struct Sender {
    seal: Seal,
    count: u64,
    frames: Vec<u8>,
    is_closed: bool,
}

impl Sender {
    fn new(seal: Seal) -> Sender {
        Sender { seal, count: 0, frames: vec![], is_closed: false }
    }

    /// Sends frames with these lengths and data in one go.
    fn send<'a>(&mut self, socket: &mut impl Write, frames: impl Iterator<Item = (u16, &'a [u8])>) -> io::Result<()> {
        if self.is_closed {
            return Err(io::Error::new(ErrorKind::BrokenPipe, "this end has been closed"));
        }
        self.frames.clear();
        for (length, data) in frames {
            self.seal(&length.to_be_bytes())?;
            if !data.is_empty() {
                self.seal(data)?;
            }
        }
        // A frame of which only a part was sent cannot be continued.
        socket.write_all(&self.frames).inspect_err(|_| self.is_closed = true)
    }

    fn seal(&mut self, plain: &[u8]) -> io::Result<()> {
        let count = self.count;
        self.count += 1; // whatever happens, this number has been used
        self.seal.seal(count, plain, &mut self.frames)
    }

    fn close(&mut self, socket: &mut impl Write) -> io::Result<()> {
        if self.is_closed {
            return Ok(());
        }
        let sent = self.send(socket, std::iter::once((END, &[][..])));
        self.is_closed = true;
        sent
    }
}

/// The receiving half.
struct Receiver {
    seal: Seal,
    count: u64,
    /// What has arrived: `buffer[start..end]`.
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Data that has been opened, and how much of it has been read.
    plain: Vec<u8>,
    read: usize,
    has_ended: bool,
    has_failed: bool,
}

impl Receiver {
    fn new(seal: Seal) -> Receiver {
        let buffer = vec![0; BUFFER].into_boxed_slice();
        let plain = vec![];
        Receiver { seal, count: 0, buffer, start: 0, end: 0, plain, read: 0, has_ended: false, has_failed: false }
    }

    /// Reads some data, or nothing at the end of the stream. After a failure there is no more data.
    fn read(&mut self, socket: &mut impl Read, data: &mut [u8]) -> io::Result<usize> {
        if self.has_failed {
            return Err(io::Error::new(ErrorKind::InvalidData, "the connection has failed before"));
        }
        self.read_frames(socket, data).inspect_err(|_| self.has_failed = true)
    }

    fn read_frames(&mut self, socket: &mut impl Read, data: &mut [u8]) -> io::Result<usize> {
        while self.read == self.plain.len() && !self.has_ended && !data.is_empty() {
            match self.header(socket)? {
                PULSE => {}
                END => self.has_ended = true,
                length if usize::from(length) <= data.len() => {
                    self.open(socket, &mut data[..usize::from(length)])?;
                    return Ok(length.into());
                }
                length => {
                    let mut plain = std::mem::take(&mut self.plain);
                    plain.resize(length.into(), 0);
                    self.open(socket, &mut plain)?;
                    (self.plain, self.read) = (plain, 0);
                }
            }
        }
        let rest = &self.plain[self.read..];
        let length = rest.len().min(data.len());
        data[..length].copy_from_slice(&rest[..length]);
        self.read += length;
        Ok(length)
    }

    fn header(&mut self, socket: &mut impl Read) -> io::Result<u16> {
        let mut length = [0; 2];
        self.open(socket, &mut length)?;
        Ok(u16::from_be_bytes(length))
    }

    /// Opens the next seal, with as many bytes in it as `plain` has.
    fn open(&mut self, socket: &mut impl Read, plain: &mut [u8]) -> io::Result<()> {
        let length = plain.len() + self.seal.overhead();
        self.fill(socket, length)?;
        self.seal.open(self.count, &self.buffer[self.start..self.start + length], plain)?;
        self.count += 1;
        self.start += length;
        Ok(())
    }

    /// Waits until `length` bytes have arrived.
    fn fill(&mut self, socket: &mut impl Read, length: usize) -> io::Result<()> {
        if self.start + length > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        while self.end - self.start < length {
            match socket.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Err(io::Error::new(ErrorKind::UnexpectedEof, "it was closed without notice")),
                Ok(read) => self.end += read,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

/// A socket whose reads and writes fail after `deadline`, however many there are.
struct Timed<'a> {
    socket: &'a TcpStream,
    deadline: Option<Instant>,
}

impl Timed<'_> {
    fn remaining(&self) -> io::Result<Option<Duration>> {
        let Some(deadline) = self.deadline else { return Ok(None) };
        let remaining = deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() { Err(late()) } else { Ok(Some(remaining)) }
    }
}

fn late() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "it did not answer in time")
}

/// The operating system reports an expired timeout as `WouldBlock`.
fn named(error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::WouldBlock { late() } else { error }
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(remaining) = self.remaining()? {
            self.socket.set_read_timeout(Some(remaining))?;
        }
        self.socket.read(buffer).map_err(named)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if let Some(remaining) = self.remaining()? {
            self.socket.set_write_timeout(Some(remaining))?;
        }
        self.socket.write(buffer).map_err(named)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// One end of a connection. Clones are handles to the same end.
pub struct Channel {
    socket: Arc<TcpStream>,
    deadline: Option<Instant>,
    /// The other end, for messages.
    peer: Arc<str>,
    sender: Arc<Mutex<Sender>>,
    receiver: Arc<Mutex<Receiver>>,
    /// For frames in the clear: to the other end, and from it.
    tag_keys: [[u8; 32]; 2],
}

impl Channel {
    /// The handshake of the end that has dialled. Fails if the other one cannot prove that it holds the secret, or has
    /// not done so by `deadline`.
    pub fn call(socket: Arc<TcpStream>, key: &Key, deadline: Instant) -> io::Result<Channel> {
        let mut noise = builder(key)?.build_initiator().map_err(io::Error::other)?;
        let mut timed = Timed { socket: &socket, deadline: Some(deadline) };
        send_handshake(&mut timed, &mut noise)?;
        receive_handshake(&mut timed, &mut noise).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => {
                io::Error::new(error.kind(), "it closed the connection, as one with another secret does")
            }
            _ => error,
        })?;
        let channel = Channel::new(socket, noise, key, deadline)?;
        channel.send_pulse()?; // the proof: a greeting may be an old one, repeated
        Ok(channel)
    }

    /// The handshake of the end that was dialled.
    pub fn answer(socket: Arc<TcpStream>, key: &Key, deadline: Instant) -> io::Result<Channel> {
        let mut noise = builder(key)?.build_responder().map_err(io::Error::other)?;
        let mut timed = Timed { socket: &socket, deadline: Some(deadline) };
        receive_handshake(&mut timed, &mut noise)?;
        send_handshake(&mut timed, &mut noise)?;
        let channel = Channel::new(socket, noise, key, deadline)?;
        let first = channel.receiving().header(&mut channel.timed())?;
        match first {
            PULSE => Ok(channel),
            _ => Err(io::Error::new(ErrorKind::InvalidData, "it does not follow the protocol")),
        }
    }

    fn new(socket: Arc<TcpStream>, noise: HandshakeState, key: &Key, deadline: Instant) -> io::Result<Channel> {
        let tag_key = |from_caller: bool| {
            let material = [noise.get_handshake_hash(), &key.0, &[u8::from(from_caller)]].concat();
            blake3::derive_key("sawmill 2026-11-18 tags of frames in one direction", &material)
        };
        let is_caller = noise.is_initiator();
        let tag_keys = [tag_key(is_caller), tag_key(!is_caller)];
        let noise = Arc::new(noise.into_stateless_transport_mode().map_err(io::Error::other)?);
        Ok(Channel {
            socket,
            deadline: Some(deadline),
            peer: Arc::from("another process"),
            sender: Arc::new(Mutex::new(Sender::new(Seal::Noise(noise.clone())))),
            receiver: Arc::new(Mutex::new(Receiver::new(Seal::Noise(noise)))),
            tag_keys,
        })
    }

    /// Until when reads and writes may take; none: as long as they need.
    pub fn set_deadline(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        self.deadline = deadline;
        self.socket.set_read_timeout(None)?;
        self.socket.set_write_timeout(None)
    }

    /// Names the other end in messages.
    pub fn set_peer(&mut self, peer: &str) {
        self.peer = Arc::from(peer);
    }

    /// From here on frames are sent in the clear, with tags. Both ends must do this at the same point of the stream, in
    /// both directions.
    pub fn stop_encrypting(&self) {
        let [to, from] = self.tag_keys;
        let mut sender = self.sending();
        (sender.seal, sender.count) = (Seal::Tag(to), 0);
        let mut receiver = self.receiving();
        (receiver.seal, receiver.count) = (Seal::Tag(from), 0);
    }

    fn send_pulse(&self) -> io::Result<()> {
        self.sending().send(&mut self.timed(), std::iter::once((PULSE, &[][..])))
    }

    fn timed(&self) -> Timed<'_> {
        Timed { socket: &self.socket, deadline: self.deadline }
    }

    fn sending(&self) -> MutexGuard<'_, Sender> {
        self.sender.lock().expect("no sender panics")
    }

    fn receiving(&self) -> MutexGuard<'_, Receiver> {
        self.receiver.lock().expect("no receiver panics")
    }

    /// What a failure means to those who run the job.
    fn explained(&self, error: io::Error) -> io::Error {
        let peer = &self.peer;
        let message = match error.kind() {
            ErrorKind::InvalidData => format!(
                "data from {peer} was altered, dropped, repeated or reordered on its way ({error}); something between \
                 the hosts interferes with their traffic. checkpoints are not affected: start again with --resume"
            ),
            _ => format!("the connection to {peer} was lost: {error}"),
        };
        io::Error::new(error.kind(), message)
    }
}

impl Read for Channel {
    fn read(&mut self, data: &mut [u8]) -> io::Result<usize> {
        let read = self.receiving().read(&mut self.timed(), data);
        read.map_err(|error| self.explained(error))
    }
}

impl Write for Channel {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let data = &data[..data.len().min(WRITE)];
        let frames = data.chunks(FRAME).map(|chunk| (chunk.len() as u16, chunk));
        let sent = self.sending().send(&mut self.timed(), frames);
        sent.map(|()| data.len()).map_err(|error| self.explained(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(()) // nothing is held back
    }
}

impl Stream for Channel {
    fn try_clone(&self) -> io::Result<Channel> {
        Ok(Channel {
            socket: self.socket.clone(),
            deadline: self.deadline,
            peer: self.peer.clone(),
            sender: self.sender.clone(),
            receiver: self.receiver.clone(),
            tag_keys: self.tag_keys,
        })
    }

    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        match nonblocking {
            true => Err(io::Error::new(ErrorKind::Unsupported, "a channel always waits")),
            false => self.socket.set_nonblocking(false),
        }
    }

    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        if how != Shutdown::Read {
            self.sending().close(&mut self.timed())?;
        }
        self.socket.shutdown(how)
    }
}

/// Sends an empty frame over each of the channels every few seconds, until they are closed or dropped. If an earlier frame
/// was lost on the way, this one does not open, and the loss is noticed.
pub fn start_pulse<'a>(channels: impl Iterator<Item = &'a Channel>) {
    type Handle = (Weak<TcpStream>, Weak<Mutex<Sender>>);
    let mut handles: Vec<Handle> =
        channels.map(|channel| (Arc::downgrade(&channel.socket), Arc::downgrade(&channel.sender))).collect();
    std::thread::spawn(move || {
        while !handles.is_empty() {
            std::thread::sleep(PULSE_EVERY);
            handles.retain(|(socket, sender)| match (socket.upgrade(), sender.upgrade()) {
                // A sender at work needs no pulse. Its failures are reported by timely's threads.
                (Some(socket), Some(sender)) => sender
                    .try_lock()
                    .map_or(true, |mut sender| sender.send(&mut &*socket, std::iter::once((PULSE, &[][..]))).is_ok()),
                _ => false,
            });
        }
    });
}

fn builder(key: &Key) -> io::Result<Builder<'_>> {
    let builder = Builder::new(PATTERN.parse().expect("a known pattern"));
    builder.psk(0, &key.0).and_then(|builder| builder.prologue(MAGIC)).map_err(io::Error::other)
}

fn send_handshake(socket: &mut impl Write, noise: &mut HandshakeState) -> io::Result<()> {
    let mut message = [0; MAGIC.len() + HANDSHAKE];
    message[..MAGIC.len()].copy_from_slice(MAGIC);
    noise.write_message(&[], &mut message[MAGIC.len()..]).map_err(io::Error::other)?;
    socket.write_all(&message)
}

/// Reads the magic bytes before anything else: what speaks another protocol may never send as many bytes as we do.
fn receive_handshake(socket: &mut impl Read, noise: &mut HandshakeState) -> io::Result<()> {
    let refused = |why: &str| Err(io::Error::new(ErrorKind::InvalidData, why));
    let cut = |e: io::Error| match e.kind() {
        ErrorKind::UnexpectedEof => io::Error::new(e.kind(), "it closed the connection before it had proved itself"),
        _ => e,
    };
    let mut magic = [0; MAGIC.len()];
    socket.read_exact(&mut magic).map_err(cut)?;
    let (name, version) = MAGIC.split_at(MAGIC.len() - 1);
    if !magic.starts_with(name) {
        return refused("it is not sawmill");
    }
    if !magic.ends_with(version) {
        return refused("it is another version of sawmill");
    }
    let mut message = [0; HANDSHAKE];
    socket.read_exact(&mut message).map_err(cut)?;
    match noise.read_message(&message, &mut []) {
        Ok(_) => Ok(()),
        Err(_) => refused("it holds another secret"),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(5)
    }

    /// Both ends of a plain connection.
    fn sockets() -> (Arc<TcpStream>, Arc<TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (Arc::new(ours), Arc::new(listener.accept().unwrap().0))
    }

    /// Both ends of a handshake between holders of these secrets.
    fn handshake(ours: &str, theirs: &str) -> [io::Result<Channel>; 2] {
        let (caller, answerer) = sockets();
        let key = Key::new(theirs);
        let answering = std::thread::spawn(move || Channel::answer(answerer, &key, soon()));
        [Channel::call(caller, &Key::new(ours), soon()), answering.join().unwrap()]
    }

    fn channels(encrypt: bool) -> [Channel; 2] {
        handshake("secret", "secret").map(|channel| {
            let mut channel = channel.unwrap();
            channel.set_deadline(Some(soon())).unwrap();
            if !encrypt {
                channel.stop_encrypting();
            }
            channel
        })
    }

    /// What the sender of this channel puts on the wire.
    fn sealed(channel: &Channel, length: u16, data: &[u8]) -> Vec<u8> {
        let mut wire = vec![];
        channel.sending().send(&mut wire, std::iter::once((length, data))).unwrap();
        wire
    }

    /// What the receiver of this channel makes of `wire`.
    fn opened(channel: &Channel, mut wire: &[u8]) -> io::Result<Vec<u8>> {
        let (mut all, mut data) = (vec![], [0; 1000]);
        loop {
            match channel.receiving().read(&mut wire, &mut data)? {
                0 => return Ok(all),
                read => all.extend_from_slice(&data[..read]),
            }
        }
    }

    #[test]
    fn data_arrives_as_it_was_sent_in_both_directions() {
        for encrypt in [true, false] {
            let data: Vec<u8> = (0..1_000_000u64).map(|i| ((i * i) >> 7) as u8).collect();
            let threads = channels(encrypt).map(|channel| {
                let (mut reader, mut writer, data) = (channel.try_clone().unwrap(), channel, data.clone());
                let expected = data.clone();
                let writing = std::thread::spawn(move || {
                    for part in data.chunks(77_777) {
                        writer.write_all(part).unwrap();
                    }
                    writer.send_pulse().unwrap();
                    writer.shutdown(Shutdown::Write).unwrap();
                    assert!(writer.write(&[1]).is_err());
                });
                let reading = std::thread::spawn(move || {
                    let mut found = vec![];
                    reader.read_to_end(&mut found).unwrap();
                    assert!(found == expected, "{encrypt}");
                });
                [writing, reading]
            });
            threads.into_iter().flatten().for_each(|thread| thread.join().unwrap());
        }
    }

    #[test]
    fn the_data_cannot_be_seen_unless_that_is_wanted() {
        let data = *b"nobody else needs to see this";
        for encrypt in [true, false] {
            let [ours, _theirs] = channels(encrypt);
            let wire = sealed(&ours, data.len() as u16, &data);
            assert_eq!(wire.windows(data.len()).any(|part| part == data), !encrypt);
        }
    }

    #[test]
    fn every_altered_bit_is_noticed() {
        for encrypt in [true, false] {
            let frame = |channel: &Channel| [sealed(channel, 3, b"abc"), sealed(channel, END, b"")].concat();
            let [ours, theirs] = channels(encrypt);
            let wire = frame(&ours);
            assert_eq!(opened(&theirs, &wire).unwrap(), b"abc");
            for bit in (0..8 * wire.len()).step_by(3) {
                let mut altered = wire.clone();
                altered[bit / 8] ^= 1 << (bit % 8);
                let mut receiver = theirs.receiving();
                (receiver.count, receiver.has_ended, receiver.has_failed) = (if encrypt { 1 } else { 0 }, false, false);
                (receiver.start, receiver.end) = (0, 0);
                (receiver.read, receiver.plain) = (0, vec![]);
                drop(receiver);
                let error = opened(&theirs, &altered).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidData, "bit {bit}: {error}");
                // Nor does it recover.
                assert!(opened(&theirs, &wire).is_err());
            }
        }
    }

    #[test]
    fn frames_that_are_dropped_repeated_or_moved_are_noticed() {
        for encrypt in [true, false] {
            for order in [&[1][..], &[0, 0], &[1, 0, 2], &[0, 2]] {
                let [ours, theirs] = channels(encrypt);
                let frames = [b"a", b"b", b"c"].map(|data| sealed(&ours, 1, data));
                let wire: Vec<u8> = order.iter().flat_map(|&frame| frames[frame].clone()).collect();
                assert_eq!(opened(&theirs, &wire).unwrap_err().kind(), ErrorKind::InvalidData, "{order:?}");
            }
            // Nor can one be sent back to where it came from.
            let [ours, _theirs] = channels(encrypt);
            let wire = sealed(&ours, 1, b"a");
            assert_eq!(opened(&ours, &wire).unwrap_err().kind(), ErrorKind::InvalidData);
        }
    }

    #[test]
    fn clones_never_use_a_number_twice() {
        let [ours, theirs] = channels(true);
        let clone = ours.try_clone().unwrap();
        let frames = [sealed(&ours, 1, b"a"), sealed(&clone, 1, b"a"), sealed(&ours, END, b"")];
        assert_ne!(frames[0], frames[1]);
        assert_eq!(opened(&theirs, &frames.concat()).unwrap(), b"aa");
    }

    #[test]
    fn a_connection_that_is_cut_does_not_look_like_one_that_has_ended() {
        let [ours, mut theirs] = channels(true);
        theirs.set_peer("process 1 (host:1)");
        ours.socket.shutdown(Shutdown::Both).unwrap();
        let error = theirs.read(&mut [0; 10]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        assert!(error.to_string().contains("process 1 (host:1) was lost"), "{error}");
    }

    #[test]
    fn a_lost_frame_is_noticed_at_the_next_pulse() {
        let [ours, mut theirs] = channels(true);
        sealed(&ours, 1, b"x"); // never sent
        ours.send_pulse().unwrap();
        let error = theirs.read(&mut [0; 10]).unwrap_err();
        assert!(error.to_string().contains("altered, dropped, repeated or reordered"), "{error}");
    }

    #[test]
    fn only_holders_of_the_secret_get_in() {
        let [ours, theirs] = handshake("secret", "other");
        assert!(ours.err().unwrap().to_string().contains("another secret"));
        assert!(theirs.err().unwrap().to_string().contains("another secret"));
    }

    #[test]
    fn a_repeated_greeting_is_no_proof() {
        let key = Key::new("secret");
        let mut greeting = vec![];
        send_handshake(&mut greeting, &mut builder(&key).unwrap().build_initiator().unwrap()).unwrap();
        for _ in 0..2 {
            let (caller, answerer) = sockets();
            (&*caller).write_all(&greeting).unwrap();
            let answer = Channel::answer(answerer, &key, Instant::now() + Duration::from_millis(300));
            assert_eq!(answer.err().unwrap().kind(), ErrorKind::TimedOut);
        }
    }

    #[test]
    fn one_deadline_holds_for_all_bytes_of_a_greeting() {
        let (caller, answerer) = sockets();
        let started = Instant::now();
        let answering = std::thread::spawn(move || {
            Channel::answer(answerer, &Key::new("secret"), Instant::now() + Duration::from_secs(1))
        });
        for &byte in MAGIC {
            let _ = (&*caller).write_all(&[byte]);
            std::thread::sleep(Duration::from_millis(300));
            if answering.is_finished() {
                break;
            }
        }
        assert_eq!(answering.join().unwrap().err().unwrap().kind(), ErrorKind::TimedOut);
        assert!(started.elapsed() < Duration::from_secs(2));
    }
}
