//! Handing out pieces of input to whoever is idle, and sharing what one worker reads with those that have nothing.
//!
//! Worker 0 deals: a worker that begins with a piece asks for the next one, so that the answer travels meanwhile. When
//! no piece is left, a worker that has nothing to do is sent to help one that still reads: that worker gives away every
//! block for which a helper has room, and works on the rest itself. So a large file keeps all workers busy to the end,
//! even one that only a single worker can read because it is compressed; and with equal workers nothing is copied at all.
//!
//! Who works on what depends on timing. Whatever is made of the blocks must therefore not depend on the worker, which
//! is so for counts that are added up.
//!
//! The dataflow is one loop: messages go around until nobody has anything to say, and that timely notices that is the
//! end of the pass.

use std::collections::VecDeque;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::{Capability, Concat, ConnectLoop, Feedback, Operator, Probe, ToStream};
use timely::worker::Worker;

/// Blocks that a helper may have waiting: one to work on, one under way.
const ROOM: u32 = 2;

/// What workers say to each other about the work.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Message<B> {
    /// To the dealer: this worker has begun with the last piece that it was given.
    Ask(usize),
    /// To the dealer: this worker has nothing to do, and knows that there are no more pieces.
    Idle(usize),
    /// To a worker: read this piece next; none: there are no more.
    Read(Option<u32>),
    /// To a worker that reads: this one has nothing to do.
    Help(usize),
    /// To a helper, from the worker that reads: a block to work on.
    Block(usize, B),
    /// From a helper: there is room for one more block.
    Room(usize),
    /// To a helper: there is nothing more to help with.
    Over,
}

type Addressed<B> = (u64, Message<B>);

/// Deals `pieces`, in that order, over all workers. `open` starts reading a piece, and `work` takes a block of it; which
/// worker calls them is left open. Returns when all pieces are done. Every worker must call this with the same pieces.
pub fn deal<S, B>(
    worker: &mut Worker,
    pieces: Vec<u32>,
    open: impl FnMut(u32) -> S + 'static,
    work: impl FnMut(B) + 'static,
) where
    S: Iterator<Item = B> + 'static,
    B: Clone + Send + Serialize + DeserializeOwned + 'static,
{
    let (index, peers) = (worker.index(), worker.peers());
    let probe = worker.dataflow_named::<u64, _, _>("Deal", |scope| {
        let everybody = if index == 0 { 0..peers } else { 0..0 };
        let first: Vec<Addressed<B>> = everybody.map(|worker| (0, Message::Ask(worker))).collect();
        let (handle, said) = scope.feedback::<Vec<Addressed<B>>>(1);
        let answers =
            first.to_stream(scope).container::<Vec<Addressed<B>>>().concat(said).unary::<CapacityContainerBuilder<
                Vec<Addressed<B>>,
            >, _, _, _>(
                Exchange::new(|message: &Addressed<B>| message.0),
                "Deal",
                move |_, info| {
                    let activator = scope.activator_for(info.address);
                    let mut hand = Hand::new(index, Dealer::new(pieces, peers), open, work);
                    // Held while there is something to do here, so that the loop stays open.
                    let mut capability: Option<Capability<u64>> = None;
                    move |input, output| {
                        input.for_each(|received, messages| {
                            let received = received.retain(0);
                            if capability.as_ref().is_none_or(|held| held.time() <= received.time()) {
                                capability = Some(received);
                            }
                            messages.drain(..).for_each(|(_, message)| hand.hear(message));
                        });
                        let Some(held) = capability.as_ref() else { return };
                        let is_busy = hand.step();
                        output.session(held).give_iterator(hand.to_say.drain(..));
                        match is_busy {
                            true => activator.activate(),
                            false => capability = None,
                        }
                    }
                },
            );
        let (probe, answers) = answers.probe();
        answers.connect_loop(handle);
        probe
    });
    while !probe.done() {
        worker.step_or_park(None);
    }
}

/// What a worker has in hand.
struct Hand<S, B, O, W> {
    index: usize,
    /// Used on worker 0 only.
    dealer: Dealer,
    open: O,
    work: W,
    reading: Option<S>,
    next: Next,
    /// Helpers, with the number of blocks that each has room for.
    helpers: Vec<(usize, u32)>,
    /// Blocks that were given to this worker, with the giver.
    given: VecDeque<(usize, B)>,
    is_helping: bool,
    to_say: Vec<Addressed<B>>,
}

impl<S, B, O, W> Hand<S, B, O, W>
where
    S: Iterator<Item = B>,
    O: FnMut(u32) -> S,
    W: FnMut(B),
{
    fn new(index: usize, dealer: Dealer, open: O, work: W) -> Self {
        Hand {
            index,
            dealer,
            open,
            work,
            reading: None,
            next: Next::Asked, // on everybody's behalf
            helpers: vec![],
            given: VecDeque::new(),
            is_helping: false,
            to_say: vec![],
        }
    }

    fn say(&mut self, to: usize, message: Message<B>) {
        self.to_say.push((to as u64, message));
    }

    fn hear(&mut self, message: Message<B>) {
        match message {
            Message::Ask(worker) => {
                let piece = self.dealer.next_piece(worker);
                self.say(worker, Message::Read(piece));
            }
            Message::Idle(worker) => {
                if let Some(reader) = self.dealer.reader_to_help(worker) {
                    self.say(reader, Message::Help(worker));
                }
            }
            Message::Read(piece) => {
                self.next = piece.map_or(Next::None, Next::Piece);
                if self.reading.is_none() {
                    self.begin_next();
                }
            }
            Message::Help(worker) if self.reading.is_some() => self.helpers.push((worker, ROOM)),
            Message::Help(worker) => self.say(worker, Message::Over),
            Message::Block(from, block) => {
                self.is_helping = true;
                self.given.push_back((from, block));
            }
            Message::Room(worker) => {
                if let Some(helper) = self.helpers.iter_mut().find(|helper| helper.0 == worker) {
                    helper.1 += 1;
                }
            }
            Message::Over => {
                self.is_helping = false;
                if self.given.is_empty() {
                    self.say(0, Message::Idle(self.index));
                }
            }
        }
    }

    /// Begins with the next piece, if it has come; says so if there is none.
    fn begin_next(&mut self) {
        match self.next {
            Next::Asked => {}
            Next::Piece(piece) => {
                self.reading = Some((self.open)(piece));
                self.next = Next::Asked;
                self.say(0, Message::Ask(self.index));
            }
            Next::None => self.say(0, Message::Idle(self.index)),
        }
    }

    /// Does a block's worth of work; returns whether there is more to do.
    fn step(&mut self) -> bool {
        if let Some((from, block)) = self.given.pop_front() {
            self.say(from, Message::Room(self.index));
            (self.work)(block);
            if self.given.is_empty() && !self.is_helping {
                self.say(0, Message::Idle(self.index));
            }
        } else if let Some(reading) = &mut self.reading {
            match reading.next() {
                Some(block) => match self.helpers.iter_mut().find(|helper| helper.1 > 0) {
                    Some(helper) => {
                        helper.1 -= 1;
                        let worker = helper.0;
                        self.say(worker, Message::Block(self.index, block));
                    }
                    None => (self.work)(block),
                },
                None => {
                    self.reading = None;
                    for (worker, _) in std::mem::take(&mut self.helpers) {
                        self.say(worker, Message::Over);
                    }
                    self.begin_next();
                }
            }
        }
        self.reading.is_some() || !self.given.is_empty()
    }
}

/// What a worker will read when it is done with what it reads.
enum Next {
    Asked,
    Piece(u32),
    None,
}

/// Worker 0's list of what is left and who reads.
struct Dealer {
    pieces: std::vec::IntoIter<u32>,
    is_reading: Vec<bool>,
    /// Where the search for somebody to help starts, so that helpers spread.
    next_to_help: usize,
}

impl Dealer {
    fn new(pieces: Vec<u32>, peers: usize) -> Dealer {
        Dealer { pieces: pieces.into_iter(), is_reading: vec![false; peers], next_to_help: 0 }
    }

    fn next_piece(&mut self, worker: usize) -> Option<u32> {
        self.is_reading[worker] |= !self.pieces.as_slice().is_empty();
        self.pieces.next()
    }

    /// A worker that reads, for the idle one to help.
    fn reader_to_help(&mut self, idle: usize) -> Option<usize> {
        self.is_reading[idle] = false;
        let peers = self.is_reading.len();
        let reader = (0..peers).map(|i| (self.next_to_help + i) % peers).find(|&reader| self.is_reading[reader])?;
        self.next_to_help = reader + 1;
        Some(reader)
    }
}
