//! What authentication and encryption of the traffic between processes cost: bytes per second, and the time of a small
//! message to the other end and back, over plain TCP, with tags only, and encrypted. Run by `scripts/bench-channel`.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sawmill::cluster::channel::{Channel, Key};

/// Bytes that timely writes at a time, and room for those that it reads.
const WRITE: usize = 64 << 10;
const READ: usize = 1 << 20;

/// Bytes per measurement.
const BYTES: usize = 2 << 30;

/// Small messages per measurement, and their size: about that of timely's notes on progress.
const MESSAGES: u32 = 20_000;
const SMALL: usize = 128;

const TRIALS: usize = 5;

trait Connection: Read + Write + Send + 'static {}

impl<C: Read + Write + Send + 'static> Connection for C {}

/// Both ends of a connection over loopback.
type Pair = [Box<dyn Connection>; 2];

/// A kind of connection: its name, and how to make one.
type Kind = (&'static str, fn() -> io::Result<Pair>);

fn sockets() -> io::Result<[TcpStream; 2]> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let ends = [TcpStream::connect(listener.local_addr()?)?, listener.accept()?.0];
    for end in &ends {
        end.set_nodelay(true)?;
    }
    Ok(ends)
}

fn channels(encrypt: bool) -> io::Result<[Channel; 2]> {
    let [ours, theirs] = sockets()?.map(Arc::new);
    let (key, deadline) = (Key::new("of this benchmark"), Instant::now() + Duration::from_secs(5));
    let (their_key, answering) = (key.clone(), theirs);
    let answering = std::thread::spawn(move || Channel::answer(answering, &their_key, deadline));
    let mut ends = [Channel::call(ours, &key, deadline)?, answering.join().expect("it does not panic")?];
    for end in &mut ends {
        end.set_deadline(None)?;
        if !encrypt {
            end.stop_encrypting();
        }
    }
    Ok(ends)
}

fn boxed<C: Connection>([ours, theirs]: [C; 2]) -> Pair {
    [Box::new(ours), Box::new(theirs)]
}

/// Bytes per second in one direction.
fn throughput([mut ours, mut theirs]: Pair) -> f64 {
    let started = Instant::now();
    let reading = std::thread::spawn(move || {
        let (mut buffer, mut left) = (vec![0; READ], BYTES);
        while left > 0 {
            left -= theirs.read(&mut buffer).expect("it arrives");
        }
    });
    let data = vec![7; WRITE];
    for _ in 0..BYTES / WRITE {
        ours.write_all(&data).expect("it is read");
    }
    reading.join().expect("it does not panic");
    BYTES as f64 / started.elapsed().as_secs_f64()
}

/// Seconds for a small message and its answer.
fn round_trip([mut ours, mut theirs]: Pair) -> f64 {
    let answering = std::thread::spawn(move || {
        let mut message = [0; SMALL];
        for _ in 0..MESSAGES {
            theirs.read_exact(&mut message).expect("it arrives");
            theirs.write_all(&message).expect("it is read");
        }
    });
    let (started, mut message) = (Instant::now(), [7; SMALL]);
    for _ in 0..MESSAGES {
        ours.write_all(&message).expect("it is read");
        ours.read_exact(&mut message).expect("it arrives");
    }
    answering.join().expect("it does not panic");
    started.elapsed().as_secs_f64() / f64::from(MESSAGES)
}

fn main() -> io::Result<()> {
    let kinds: [Kind; 3] = [
        ("plain TCP", || sockets().map(boxed)),
        ("tags only", || channels(false).map(boxed)),
        ("encrypted", || channels(true).map(boxed)),
    ];
    let mut output = io::stdout();
    for (name, connect) in kinds {
        let (mut speeds, mut times) = (vec![], vec![]);
        for _ in 0..TRIALS {
            speeds.push(throughput(connect()?) / 1e6);
            times.push(round_trip(connect()?) * 1e6);
        }
        speeds.sort_by(f64::total_cmp);
        times.sort_by(f64::total_cmp);
        let (middle, last) = (TRIALS / 2, TRIALS - 1);
        writeln!(
            output,
            "{name}: {:.0} MB/s ({:.0} to {:.0}), round trip of {SMALL} bytes {:.1} us ({:.1} to {:.1})",
            speeds[middle], speeds[0], speeds[last], times[middle], times[0], times[last]
        )?;
    }
    Ok(())
}
