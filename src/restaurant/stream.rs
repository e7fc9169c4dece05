//! What a shard has learned, on its way to the worker that brings all together: the restaurants of a [`Counted`], level by
//! level, as a stream of bytes that is read once.
//!
//! ```text
//! level       = (above restaurant*)* end        above: the next restaurant of the level above, whose children follow
//! restaurant  = element, visits, dishes         by rising elements
//! dishes      = number, (outcome, customers, tables)*, or 0 and the outcome of the only customer
//! ```
//!
//! All are numbers of seven bits a byte: a context that one token alone has takes about as many bytes as its element and its
//! outcome need. The bytes are in blocks, which travel when they are asked for and are freed as they are read: so who merges
//! the streams of all shards holds little more than what comes of it.

use std::collections::VecDeque;

use super::counted::{Counted, Place, Places, dishes};
use super::lone::Rests;
use super::order::StopPrior;
use super::shard::Shard;
use super::tree::NONE;
use crate::cluster::gather::{Exchange, pack, unpack};
use crate::cluster::own::Own;
use crate::cluster::rng::Generator;

/// The marks of a stream; an element is written as so much more.
const ABOVE: u32 = 0;
const END: u32 = 1;
const ELEMENT: u32 = 2;

/// A block that is as long as this is full. Tests have several, too.
const FULL: usize = if cfg!(test) { 16 } else { 1 << 20 };

/// The restaurants of a shard.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stream {
    /// Each has whole numbers.
    blocks: VecDeque<Vec<u8>>,
}

impl Stream {
    /// What a shard has learned; `rests` are what was cut off of its contexts.
    pub fn of(shard: &Shard, rests: &Rests, stop: Option<&StopPrior>, rng: &mut Generator) -> Stream {
        let mut stream = Stream::default();
        let places = Places::new(shard, rests, stop, rng);
        for depth in 0..shard.tree.levels.len() {
            places.each(depth, |place| match place {
                Place::Above => stream.write(ABOVE),
                Place::Shared(restaurant) => {
                    let tree = &shard.tree;
                    let visits = tree.visits.get(restaurant as usize).map(|visits| (visits.stops, visits.passes));
                    stream.begin(tree.elements[restaurant as usize], visits);
                    stream.write(dishes(tree, restaurant).count() as u32);
                    dishes(tree, restaurant).flatten().for_each(|number| stream.write(number));
                }
                Place::Lone { element, outcome, visits } => {
                    stream.begin(element, visits);
                    stream.write(0);
                    stream.write(outcome);
                }
            });
            stream.write(END);
        }
        stream
    }

    fn begin(&mut self, element: u32, visits: Option<(u32, u32)>) {
        self.write(if element == NONE { ELEMENT } else { element + ELEMENT });
        if let Some((stops, passes)) = visits {
            self.write(stops);
            self.write(passes);
        }
    }

    #[inline]
    fn write(&mut self, mut number: u32) {
        let block = match self.blocks.back_mut() {
            Some(block) if block.len() < FULL => block,
            _ => self.begin_block(),
        };
        while number >= 128 {
            block.push(number as u8 | 128);
            number >>= 7;
        }
        block.push(number as u8);
    }

    #[cold]
    fn begin_block(&mut self) -> &mut Vec<u8> {
        self.blocks.push_back(vec![]);
        self.blocks.back_mut().expect("the new block")
    }

    fn next_block(&mut self) -> Option<Vec<u8>> {
        self.blocks.pop_front()
    }
}

/// What the first worker says to one that has nothing more to send. Other messages are the number of a shard.
const DONE: u32 = u32::MAX;

/// Merges the streams of all workers on the first one, which asks for a block when it has read the one before, so that streams
/// are never in its memory as a whole. `own` are the streams of a worker's shards, in their order. Every worker calls this.
pub fn merge_all(
    worker: Own,
    shards: u32,
    mut own: Vec<Stream>,
    depths: usize,
    has_visits: bool,
    exchange: Exchange<'_>,
) -> Option<Counted> {
    let peers = worker.peers();
    if !worker.has(0) {
        let mut block = vec![];
        loop {
            let mut messages = vec![vec![]; peers];
            messages[0] = std::mem::take(&mut block);
            match exchange(messages)[0][..] {
                [DONE] => return None,
                [shard] => block = pack(&own[shard as usize / peers].next_block().unwrap_or_default()),
                _ => {}
            }
        }
    }
    let mut ask = |shard: u32| {
        let from = shard as usize % peers;
        if from == 0 {
            return own[shard as usize / peers].next_block();
        }
        let mut messages = vec![vec![]; peers];
        messages[from] = vec![shard];
        exchange(messages);
        Some(unpack(&exchange(vec![vec![]; peers])[from])).filter(|block| !block.is_empty())
    };
    let counted = merge(shards, depths, has_visits, &mut ask);
    exchange(vec![vec![DONE]; peers]);
    Some(counted)
}

/// What all shards have learned: a restaurant is of one of them, or has the same counts in all that have it. `source` gives
/// the next block of a shard's stream.
fn merge(shards: u32, depths: usize, has_visits: bool, source: &mut dyn FnMut(u32) -> Option<Vec<u8>>) -> Counted {
    let readers = (0..shards).map(|shard| Reader { block: source(shard).unwrap_or_default(), at: 0 }).collect();
    let mut merge = Merge { readers, source, has_visits, counted: Counted::default(), shards: vec![], several: vec![] };
    for depth in 0..depths {
        merge.level(depth, depth + 1 == depths);
    }
    merge.counted.tree.finish();
    merge.counted
}

/// The block of a stream that is being read, and where its next number is. The block is empty after the end of the stream.
struct Reader {
    block: Vec<u8>,
    at: usize,
}

impl Reader {
    /// The next number, and where it ends.
    #[inline]
    fn look(&self) -> (u32, usize) {
        let (mut number, mut shift, mut at) = (0, 0, self.at);
        loop {
            let byte = self.block[at];
            at += 1;
            number |= u32::from(byte & 127) << shift;
            if byte < 128 {
                return (number, at);
            }
            shift += 7;
        }
    }
}

/// Streams that are being merged, level by level.
struct Merge<'a> {
    readers: Vec<Reader>,
    source: &'a mut dyn FnMut(u32) -> Option<Vec<u8>>,
    has_visits: bool,
    counted: Counted,
    /// By restaurant of the level that was merged last: the shard that has it; or, less [`SEVERAL`], which of `several` do.
    shards: Vec<u32>,
    several: Vec<Vec<u32>>,
}

const SEVERAL: u32 = 1 << 31;

impl Merge<'_> {
    #[inline]
    fn read(&mut self, shard: u32) -> u32 {
        let reader = &mut self.readers[shard as usize];
        let (number, end) = reader.look();
        reader.at = end;
        if end == reader.block.len() {
            self.refill(shard);
        }
        number
    }

    #[cold]
    fn refill(&mut self, shard: u32) {
        self.readers[shard as usize].block = vec![]; // freed before the next one comes
        let block = (self.source)(shard).unwrap_or_default();
        self.readers[shard as usize] = Reader { block, at: 0 };
    }

    fn is_empty(&self, shard: u32) -> bool {
        self.readers[shard as usize].block.is_empty()
    }

    /// The mark that comes next.
    #[inline]
    fn next(&self, shard: u32) -> u32 {
        if self.is_empty(shard) { END } else { self.readers[shard as usize].look().0 }
    }

    /// Reads a mark, unless the stream is at its end.
    fn skip(&mut self, shard: u32) {
        if !self.is_empty(shard) {
            self.read(shard);
        }
    }

    /// Reads a restaurant: its visits, and its dishes into `dishes`.
    fn restaurant(&mut self, shard: u32, dishes: &mut Vec<[u32; 3]>) -> Option<(u32, u32)> {
        self.read(shard);
        let visits = self.has_visits.then(|| (self.read(shard), self.read(shard)));
        match self.read(shard) {
            0 => dishes.push([self.read(shard), 1, 1]),
            count => (0..count).for_each(|_| dishes.push([self.read(shard), self.read(shard), self.read(shard)])),
        }
        visits
    }

    fn level(&mut self, depth: usize, is_last: bool) {
        self.counted.tree.begin_level();
        let (above, above_several) = (std::mem::take(&mut self.shards), std::mem::take(&mut self.several));
        let all = 0..self.readers.len() as u32;
        if depth == 0 {
            self.children_of_several(&all.clone().collect::<Vec<_>>(), is_last);
        }
        for shard in above {
            self.counted.tree.begin_children();
            match shard.checked_sub(SEVERAL) {
                None => {
                    self.skip(shard);
                    self.children(shard, is_last);
                }
                Some(several) => {
                    let several = &above_several[several as usize];
                    several.iter().for_each(|&shard| self.skip(shard));
                    self.children_of_several(several, is_last);
                }
            }
        }
        assert!(all.clone().all(|shard| self.next(shard) == END), "all restaurants of a level have their parents");
        all.for_each(|shard| self.skip(shard));
    }

    /// Adds the restaurants that come next in the stream of a shard. Those of the last level have no children.
    fn children(&mut self, shard: u32, is_last: bool) {
        let mut dishes = vec![];
        loop {
            let mark = self.next(shard);
            if mark < ELEMENT {
                return;
            }
            let visits = self.restaurant(shard, &mut dishes);
            self.add(mark, visits, &mut dishes);
            if !is_last {
                self.shards.push(shard);
            }
        }
    }

    /// The same of several shards, by rising elements.
    fn children_of_several(&mut self, shards: &[u32], is_last: bool) {
        let mut dishes = vec![];
        while let Some(mark) = shards.iter().map(|&shard| self.next(shard)).filter(|mark| *mark >= ELEMENT).min() {
            let own: Vec<u32> = shards.iter().copied().filter(|&shard| self.next(shard) == mark).collect();
            let mut visits = None;
            own.iter().for_each(|&shard| visits = self.restaurant(shard, &mut dishes));
            dishes.sort_unstable();
            dishes.dedup();
            self.add(mark, visits, &mut dishes);
            if is_last {
                continue;
            }
            self.shards.push(match own[..] {
                [only] => only,
                _ => {
                    self.several.push(own);
                    SEVERAL + self.several.len() as u32 - 1
                }
            });
        }
    }

    /// Adds a restaurant with its dishes, which are taken.
    fn add(&mut self, mark: u32, visits: Option<(u32, u32)>, dishes: &mut Vec<[u32; 3]>) {
        let is_root = self.counted.tree.restaurants() == 0;
        self.counted.tree.push_restaurant(if is_root { NONE } else { mark - ELEMENT });
        self.counted.visits.extend(visits);
        for [outcome, customers, tables] in dishes.drain(..) {
            self.counted.push_dish(outcome, customers, tables);
        }
    }
}
