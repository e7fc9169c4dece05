//! Callers that have not proved themselves yet: bounded in number, and unable to keep others out.
//!
//! Every caller has a thread, so their number is bounded. A new caller is always taken: when all places are in use, the
//! oldest caller of the address with most of them loses its place. Real processes prove themselves in milliseconds, and
//! dial again if they were cut off; silent sockets therefore cannot keep them out.

use std::collections::BTreeMap;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// The places, shared by the listening thread and those of the callers.
pub struct Callers {
    most: usize,
    places: Mutex<Places>,
    has_room: Condvar,
}

#[derive(Default)]
struct Places {
    /// By order of arrival.
    callers: BTreeMap<u64, Caller>,
    arrived: u64,
    /// Whether nobody else is taken.
    is_closed: bool,
}

struct Caller {
    from: IpAddr,
    /// By which to cut it off; none when it has proved itself, or has been cut off.
    socket: Option<Arc<TcpStream>>,
}

/// A place, in use until this is dropped.
pub struct Place {
    callers: Arc<Callers>,
    number: u64,
}

impl Callers {
    pub fn new(most: usize) -> Arc<Callers> {
        Arc::new(Callers { most, places: Mutex::default(), has_room: Condvar::new() })
    }

    /// A place for a caller; none when the places are closed.
    pub fn take(self: &Arc<Callers>, socket: &Arc<TcpStream>, from: SocketAddr) -> Option<Place> {
        let caller = Caller { from: from.ip(), socket: Some(socket.clone()) };
        let mut places = self.lock();
        while places.callers.len() >= self.most && !places.is_closed {
            places.cut_off_one();
            places = self.has_room.wait(places).expect("no caller panics here");
        }
        if places.is_closed {
            return None;
        }
        places.arrived += 1;
        let number = places.arrived;
        places.callers.insert(number, caller);
        Some(Place { callers: self.clone(), number })
    }

    /// Ends one caller, if there is any that has not proved itself: this process has run out of sockets or threads.
    pub fn make_room(&self) {
        self.lock().cut_off_one();
    }

    /// Cuts off all callers that have not proved themselves, and takes no more.
    pub fn close(&self) {
        let mut places = self.lock();
        places.is_closed = true;
        places.callers.values_mut().for_each(Caller::cut_off);
        self.has_room.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().expect("no caller panics here")
    }
}

impl Places {
    /// Makes one caller end soon, if there is one that has not proved itself.
    fn cut_off_one(&mut self) {
        let mut by_address = BTreeMap::<IpAddr, usize>::new();
        for caller in self.callers.values().filter(|caller| caller.socket.is_some()) {
            *by_address.entry(caller.from).or_default() += 1;
        }
        let Some((&busiest, _)) = by_address.iter().max_by_key(|(_, count)| **count) else { return };
        let oldest = self.callers.values_mut().find(|caller| caller.from == busiest && caller.socket.is_some());
        oldest.into_iter().for_each(Caller::cut_off);
    }
}

impl Caller {
    fn cut_off(&mut self) {
        if let Some(socket) = self.socket.take() {
            let _ = socket.shutdown(Shutdown::Both); // it may be gone already
        }
    }
}

impl Place {
    /// The caller holds the secret: it is not cut off any more. False if it has been already.
    pub fn proved(&self) -> bool {
        let mut places = self.callers.lock();
        places.callers.get_mut(&self.number).is_some_and(|caller| caller.socket.take().is_some())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.callers.lock().callers.remove(&self.number);
        self.callers.has_room.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    /// Both ends of a connection.
    fn pair(listener: &TcpListener) -> (TcpStream, Arc<TcpStream>, SocketAddr) {
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (theirs, from) = listener.accept().unwrap();
        (ours, Arc::new(theirs), from)
    }

    #[test]
    fn the_oldest_unproved_caller_makes_room() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let callers = Callers::new(2);
        let (_proved_end, proved, from) = pair(&listener);
        let first = callers.take(&proved, from).unwrap();
        assert!(first.proved());
        let (mut silent_end, silent, from) = pair(&listener);
        let second = callers.take(&silent, from).unwrap();
        // As the thread of a caller does: it gives its place back when the socket has been cut off.
        let waiting = std::thread::spawn(move || {
            assert_eq!((&*silent).read(&mut [0]).unwrap(), 0, "cut off");
            assert!(!second.proved());
            drop((second, silent));
        });
        let (_late_end, late, from) = pair(&listener);
        assert!(callers.take(&late, from).is_some());
        waiting.join().unwrap();
        assert_eq!(silent_end.read(&mut [0]).unwrap(), 0);
        callers.close();
        let (_last_end, last, from) = pair(&listener);
        assert!(callers.take(&last, from).is_none());
    }
}
