//! Contexts that one token alone has: most of all contexts, where they are long.
//!
//! Where a single token passes a restaurant, it is the only customer there, at the only table, whatever is drawn: it has no
//! choice, tells nothing of discounts, and sends one customer to the parent. So a token can stop at the longest context that
//! it shares with another token, and every draw and every count that is left is the same as if it went on. In training the
//! restaurants below are not there. What they would predict is kept as **tails**: of each such token, the rest of its context
//! and its outcome. A test token that follows the tail for some elements meets restaurants with one customer, whose counts
//! are known.
//!
//! A tail takes as many bytes as its elements and its outcome need: one for a tag, two or three for a word.

use serde::{Deserialize, Serialize};

use super::tree::{Paths, Planted, Sorted, Tree};

/// In a parser, contexts of this length stay even if one token alone has them: whoever asks which outcomes a first element has
/// had finds them all in restaurants.
pub const SHORTEST: usize = 2;

impl Sorted {
    /// Cuts every context to what it shares with another token's, but never below `shortest` elements. All tokens whose
    /// contexts begin with the same `shortest + 1` elements have to be there.
    pub fn cut_lone(&mut self, shortest: usize) {
        for place in 0..self.order.len() {
            let next = self.shared.get(place + 1).copied().unwrap_or(0);
            let least = self.lengths[place].min(shortest as u8);
            self.lengths[place] = self.shared[place].max(next).max(least);
        }
    }
}

/// The tails of a tree's restaurants, which are numbered level by level, the root first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tails {
    /// By depth: bytes of the largest element behind a context of this length, and, at the end, of the largest outcome.
    widths: Vec<u8>,
    /// By restaurant: where its tails begin; and their number, at the end. Empty where there is no tail at all.
    starts: Vec<u32>,
    /// By depth: the first tail of its restaurants, and where its bytes begin; and of the end.
    levels: Vec<(u32, u64)>,
    /// Of each tail: the elements behind its restaurant's context, then the outcome. Those of a restaurant rise.
    #[serde(with = "serde_bytes")]
    bytes: Vec<u8>,
}

/// A tail as far as a context follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    pub number: u32,
    /// Elements in common; one at least.
    pub length: u8,
    pub outcome: u32,
}

/// What is read at once; so many bytes stand behind the last tail.
const READ: usize = 4;

impl Tails {
    /// The tails of tokens whose contexts were cut when `planted` was planted.
    pub fn new(paths: &impl Paths, planted: &Planted) -> Tails {
        let tree = &planted.tree;
        let numbers = Numbers::of(tree);
        let mut tails = Tails { starts: vec![0; tree.restaurants.len() + 1], ..Tails::default() };
        let cut = |place: usize| {
            let token = planted.order[place] as usize;
            let dish = planted.leaves[place];
            let depth = tree.depth_of(dish);
            (depth < paths.length(token)).then(|| (token, depth, numbers.of_dish(tree, dish, depth)))
        };
        let element = |token, depth| paths.element(token, depth).expect("an element that was cut off");
        // Of tails alone: so it does not matter with which other tokens they were learned.
        let mut largest = vec![0; paths.depth() + 1];
        for (token, depth, restaurant) in (0..planted.order.len()).filter_map(cut) {
            tails.starts[restaurant + 1] += 1;
            let values = (depth..paths.depth()).map(|depth| element(token, depth)).chain([paths.outcome(token)]);
            largest[depth..].iter_mut().zip(values).for_each(|(most, value)| *most = value.max(*most));
        }
        if tails.starts.iter().all(|&count| count == 0) {
            return Tails::default();
        }
        tails.widths = largest.into_iter().map(width_of).collect();
        tails.place(&numbers.starts);
        let mut next = tails.starts.clone();
        // Tokens come in the order of their contexts: so the tails of a restaurant rise.
        for (token, depth, restaurant) in (0..planted.order.len()).filter_map(cut) {
            let mut at = tails.at(next[restaurant], depth);
            next[restaurant] += 1;
            for (depth, width) in (depth..paths.depth()).zip(&tails.widths[depth..]) {
                write(&mut tails.bytes, &mut at, element(token, depth), *width);
            }
            write(&mut tails.bytes, &mut at, paths.outcome(token), *tails.widths.last().expect("of outcomes"));
        }
        tails
    }

    /// The tails of parts of the tokens, as one. `levels` and `origins` are of the tree of all: where the restaurants of each
    /// depth begin, and, by restaurant, a part and its number there; a restaurant that several parts have has no tails.
    pub fn merge(parts: &[&Tails], levels: &[u32], origins: &[(u32, u32)]) -> Tails {
        let filled: Vec<&Tails> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
        let Some(first) = filled.first() else { return Tails::default() };
        let widest = |at: usize| filled.iter().map(|part| part.widths[at]).max().expect("a part");
        let mut tails =
            Tails { widths: (0..first.widths.len()).map(widest).collect(), starts: vec![0], ..Tails::default() };
        let of = |&(part, restaurant): &(u32, u32)| {
            let part = parts[part as usize];
            let at = |restaurant: u32| part.starts.get(restaurant as usize).copied().unwrap_or(0);
            (part, at(restaurant)..at(restaurant + 1))
        };
        tails.starts.extend(origins.iter().map(|origin| of(origin).1.len() as u32));
        tails.place(&levels.iter().map(|&start| start as usize).collect::<Vec<_>>());
        let mut at = 0;
        for (depth, restaurants) in levels.windows(2).enumerate() {
            for origin in &origins[restaurants[0] as usize..restaurants[1] as usize] {
                let (part, own) = of(origin);
                for tail in own {
                    let mut from = part.at(tail, depth);
                    for (&own, &width) in part.widths[depth..].iter().zip(&tails.widths[depth..]) {
                        write(&mut tails.bytes, &mut at, read(&part.bytes, from, own), width);
                        from += usize::from(own);
                    }
                }
            }
        }
        tails
    }

    /// Makes room, where `starts` has the number of tails of each restaurant behind the next; `levels` are the first
    /// restaurants of each depth, and the number of all.
    fn place(&mut self, levels: &[usize]) {
        (1..self.starts.len()).for_each(|at| self.starts[at] += self.starts[at - 1]);
        let mut at = 0;
        for (depth, restaurants) in levels.windows(2).enumerate() {
            let [first, end] = [restaurants[0], restaurants[1]].map(|restaurant| self.starts[restaurant]);
            self.levels.push((first, at));
            at += u64::from(end - first) * self.width(depth) as u64;
        }
        self.levels.push((*self.starts.last().expect("the end"), at));
        self.bytes = vec![0; at as usize + READ];
    }

    /// Bytes of a tail of a restaurant at a depth.
    fn width(&self, depth: usize) -> usize {
        self.widths[depth..].iter().map(|&width| usize::from(width)).sum()
    }

    fn at(&self, tail: u32, depth: usize) -> usize {
        let (first, start) = self.levels[depth];
        start as usize + (tail - first) as usize * self.width(depth)
    }

    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// How many tails the restaurants of each depth have.
    pub fn counts(&self) -> impl Iterator<Item = u64> {
        self.levels.windows(2).map(|pair| u64::from(pair[1].0 - pair[0].0))
    }

    /// The tail of a restaurant at depth `depth` that goes on with `values`, as far as it does.
    #[inline]
    pub fn follow(&self, restaurant: usize, depth: usize, values: &[u32]) -> Option<Tail> {
        let &first = values.first().filter(|_| !self.is_empty())?;
        let (mut low, mut high) = (self.starts[restaurant], self.starts[restaurant + 1]);
        if low == high {
            return None;
        }
        let (size, width) = (self.width(depth), self.widths[depth]);
        let start = self.at(low, depth);
        let base = low;
        while low < high {
            let middle = low + (high - low) / 2;
            let found = read(&self.bytes, start + (middle - base) as usize * size, width);
            match found.cmp(&first) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some(self.follow_on(middle, depth, values)),
            }
        }
        None
    }

    /// A tail whose first element is that of `values`.
    fn follow_on(&self, number: u32, depth: usize, values: &[u32]) -> Tail {
        let mut at = self.at(number, depth);
        let (mut length, mut is_same) = (0, true);
        for (&value, &width) in values.iter().zip(&self.widths[depth..]) {
            is_same = is_same && read(&self.bytes, at, width) == value;
            length += u8::from(is_same);
            at += usize::from(width);
        }
        Tail { number, length, outcome: read(&self.bytes, at, *self.widths.last().expect("of outcomes")) }
    }

    /// Whether the numbers can be those of the tails of a tree with so many restaurants up to each depth (0, 1, ...), contexts
    /// of so many elements, and outcomes; a file may be damaged.
    pub fn is_sound(&self, levels: &[u32], depth: usize, outcomes: u32) -> bool {
        if self.is_empty() {
            return self.bytes.is_empty();
        }
        let is_shaped = self.widths.len() == depth + 1
            && self.widths.iter().all(|width| (1..=4).contains(width))
            && levels.len() == depth + 2
            && self.starts.len() == levels[depth + 1] as usize + 1
            && self.starts.is_sorted()
            && self.levels.len() == levels.len();
        if !is_shaped {
            return false;
        }
        let mut at = 0;
        for (level, &restaurant) in levels.iter().enumerate() {
            if self.levels[level] != (self.starts[restaurant as usize], at) {
                return false;
            }
            if level <= depth {
                let end = self.starts[levels[level + 1] as usize];
                at += u64::from(end - self.levels[level].0) * self.width(level) as u64;
            }
        }
        let width = self.widths[depth];
        let outcome = |level: usize, tail: u32| self.at(tail, level) + self.width(level) - usize::from(width);
        self.bytes.len() as u64 == at + READ as u64
            && (0..=depth).all(|level| {
                let mut tails = self.levels[level].0..self.levels[level + 1].0;
                tails.all(|tail| read(&self.bytes, outcome(level, tail), width) < outcomes)
            })
    }
}

/// Of each token whose context was cut, in the order of contexts: the elements that were cut off. From these the whole tree
/// can be made again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rests {
    /// Bytes of an element.
    width: u8,
    /// By token: the number of elements, and these.
    bytes: Vec<u8>,
}

impl Rests {
    /// Those of the first `seated` tokens.
    pub fn new(paths: &impl Paths, planted: &Planted, seated: usize) -> Rests {
        let width = width_of(paths.symbols() as u32);
        let cut = || {
            let seated = planted.order.iter().zip(&planted.leaves).filter(|(token, _)| (**token as usize) < seated);
            let lengths = seated.map(|(&token, &leaf)| {
                let token = token as usize;
                (token, planted.tree.depth_of(leaf)..paths.length(token))
            });
            lengths.filter(|(_, cut)| !cut.is_empty())
        };
        let size: usize = cut().map(|(_, cut)| 1 + cut.len() * usize::from(width)).sum();
        let mut rests = Rests { width, bytes: vec![0; size + READ] };
        let mut at = 0;
        for (token, cut) in cut() {
            write(&mut rests.bytes, &mut at, cut.len() as u32, 1);
            for depth in cut {
                let element = paths.element(token, depth).expect("an element that was cut off");
                write(&mut rests.bytes, &mut at, element, width);
            }
        }
        rests
    }

    /// Where the first token's are.
    pub fn begin(&self) -> Rest<'_> {
        Rest { rests: self, at: 0 }
    }
}

/// What was cut off of a token's context.
#[derive(Clone, Copy, Debug)]
pub struct Rest<'r> {
    rests: &'r Rests,
    at: usize,
}

impl Rest<'_> {
    /// The number of elements.
    #[inline]
    pub fn length(&self) -> usize {
        usize::from(self.rests.bytes[self.at])
    }

    #[inline]
    pub fn element(&self, number: usize) -> u32 {
        let width = self.rests.width;
        read(&self.rests.bytes, self.at + 1 + number * usize::from(width), width)
    }

    /// Goes on to the next token's.
    #[inline]
    pub fn advance(&mut self) {
        self.at += 1 + self.length() * usize::from(self.rests.width);
    }
}

/// Bytes of a number.
fn width_of(number: u32) -> u8 {
    ((32 - number.leading_zeros()).div_ceil(8) as u8).max(1)
}

/// Restaurants of a tree, which numbers the deepest first, numbered from the root on.
struct Numbers {
    /// By depth: how many restaurants are above; and all, at the end.
    starts: Vec<usize>,
}

impl Numbers {
    fn of(tree: &Tree) -> Numbers {
        let mut starts = vec![0];
        for level in &tree.levels {
            starts.push(starts[starts.len() - 1] + level.restaurants.len());
        }
        Numbers { starts }
    }

    fn of_dish(&self, tree: &Tree, dish: u32, depth: usize) -> usize {
        let restaurant = tree.dishes[dish as usize].restaurant;
        self.starts[depth] + (restaurant - tree.levels[depth].restaurants.start) as usize
    }
}

fn write(bytes: &mut [u8], at: &mut usize, value: u32, width: u8) {
    let width = usize::from(width);
    bytes[*at..*at + width].copy_from_slice(&value.to_le_bytes()[..width]);
    *at += width;
}

#[inline]
fn read(bytes: &[u8], at: usize, width: u8) -> u32 {
    let word = u32::from_le_bytes(bytes[at..at + READ].try_into().expect("four bytes"));
    word & (u32::MAX >> (32 - 8 * u32::from(width)))
}
