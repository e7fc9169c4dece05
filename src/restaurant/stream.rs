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
//! outcome need. So who merges the streams of all shards holds little more than what comes of it.

use serde::{Deserialize, Serialize};

use super::counted::{Counted, Place, Places, dishes};
use super::lone::Rests;
use super::order::StopPrior;
use super::shard::Shard;
use super::tree::NONE;
use crate::cluster::rng::Generator;

/// The marks of a stream; an element is written as so much more.
const ABOVE: u32 = 0;
const END: u32 = 1;
const ELEMENT: u32 = 2;

/// The restaurants of a shard.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stream {
    #[serde(with = "serde_bytes")]
    bytes: Vec<u8>,
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
        stream.bytes.shrink_to_fit();
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
        while number >= 128 {
            self.bytes.push(number as u8 | 128);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    /// What all shards have learned: a restaurant is of one of them, or has the same counts in all that have it.
    pub fn merge(streams: &[Stream], depths: usize, has_visits: bool) -> Counted {
        let readers = streams.iter().map(|stream| Reader { bytes: &stream.bytes, has_visits }).collect();
        let mut merge = Merge { readers, counted: Counted::default(), shards: vec![], several: vec![] };
        for depth in 0..depths {
            merge.level(depth);
        }
        merge.counted.tree.finish();
        merge.counted
    }
}

/// What is left of a stream.
struct Reader<'a> {
    bytes: &'a [u8],
    has_visits: bool,
}

impl Reader<'_> {
    #[inline]
    fn read(&mut self) -> u32 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let (&byte, rest) = self.bytes.split_first().expect("a whole stream");
            self.bytes = rest;
            number |= u32::from(byte & 127) << shift;
            if byte < 128 {
                return number;
            }
            shift += 7;
        }
    }

    /// Reads a mark.
    fn skip(&mut self) {
        self.read();
    }

    /// The mark that comes next.
    #[inline]
    fn next(&self) -> u32 {
        Reader { ..*self }.read()
    }

    /// Reads a restaurant: its visits, and its dishes into `dishes`.
    fn restaurant(&mut self, dishes: &mut Vec<[u32; 3]>) -> Option<(u32, u32)> {
        self.read();
        let visits = self.has_visits.then(|| (self.read(), self.read()));
        match self.read() {
            0 => dishes.push([self.read(), 1, 1]),
            count => (0..count).for_each(|_| dishes.push([self.read(), self.read(), self.read()])),
        }
        visits
    }
}

/// Streams that are being merged, level by level.
struct Merge<'a> {
    readers: Vec<Reader<'a>>,
    counted: Counted,
    /// By restaurant of the level that was merged last: the shard that has it; or, less [`SEVERAL`], which of `several` do.
    shards: Vec<u32>,
    several: Vec<Vec<u32>>,
}

const SEVERAL: u32 = 1 << 31;

impl Merge<'_> {
    fn level(&mut self, depth: usize) {
        self.counted.tree.begin_level();
        let (above, above_several) = (std::mem::take(&mut self.shards), std::mem::take(&mut self.several));
        if depth == 0 {
            let all: Vec<u32> = (0..self.readers.len() as u32).collect();
            self.children_of_several(&all);
        }
        for shard in above {
            self.counted.tree.begin_children();
            match shard.checked_sub(SEVERAL) {
                None => {
                    self.readers[shard as usize].skip();
                    self.children(shard);
                }
                Some(several) => {
                    let several = &above_several[several as usize];
                    several.iter().for_each(|&shard| self.readers[shard as usize].skip());
                    self.children_of_several(several);
                }
            }
        }
        let is_whole = |reader: &Reader<'_>| reader.bytes.is_empty() || reader.next() == END;
        assert!(self.readers.iter().all(is_whole), "all restaurants of a level have their parents");
        self.readers.iter_mut().filter(|reader| !reader.bytes.is_empty()).for_each(Reader::skip);
    }

    /// Adds the restaurants that come next in the stream of a shard.
    fn children(&mut self, shard: u32) {
        let mut dishes = vec![];
        loop {
            let reader = &mut self.readers[shard as usize];
            let mark = reader.next();
            if mark < ELEMENT {
                return;
            }
            let visits = reader.restaurant(&mut dishes);
            self.add(mark, visits, &mut dishes);
            self.shards.push(shard);
        }
    }

    /// The same of several shards, by rising elements.
    fn children_of_several(&mut self, shards: &[u32]) {
        let mut dishes = vec![];
        loop {
            let next = |shard: u32| {
                let reader = &self.readers[shard as usize];
                if reader.bytes.is_empty() { END } else { reader.next() }
            };
            let Some(mark) = shards.iter().map(|&shard| next(shard)).filter(|mark| *mark >= ELEMENT).min() else {
                return;
            };
            let own: Vec<u32> = shards.iter().copied().filter(|&shard| next(shard) == mark).collect();
            let mut visits = None;
            own.iter().for_each(|&shard| visits = self.readers[shard as usize].restaurant(&mut dishes));
            dishes.sort_unstable();
            dishes.dedup();
            self.add(mark, visits, &mut dishes);
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
