//! Customers and tables by topic, for many places: dishes of a tree, or its restaurants.
//!
//! A place holds a short list, sorted by topic, of the topics that have customers there. Its room never changes: no place
//! can have more topics than tokens pass it (and the global one, where topics lean on it), nor more than there are. A
//! place with room for all topics has them all, in order, and is looked up without a search. So nothing is allocated in
//! a sweep, and what a list looks like follows from the counts alone.

use std::ops::Range;

/// What a topic has at a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    pub topic: u16,
    pub customers: i64,
    pub tables: i64,
    pub ups: i64,
}

impl Entry {
    pub fn is_there(&self) -> bool {
        (self.customers, self.tables) != (0, 0)
    }
}

/// Lists of counts by topic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seats {
    topics: usize,
    /// Where each place's room begins, and the end of the last.
    starts: Vec<u32>,
    lengths: Vec<u16>,
    topic: Vec<u16>,
    pub customers: Vec<u32>,
    pub tables: Vec<u32>,
    /// Of dishes in the HIERARCHICAL model: tables whose dish came from the topic's own shorter context; the others' came
    /// from the global model. Empty elsewhere.
    pub ups: Vec<u32>,
    /// Of restaurants, what a probability is made of, kept beside the counts that it follows from:
    /// (b + a T) / (C + b) and 1 / (C + b). Empty for dishes.
    pub shares: Vec<f32>,
    pub inverses: Vec<f32>,
}

impl Seats {
    /// Places that this many tokens pass, each.
    pub fn new(topics: usize, tokens: impl Iterator<Item = u32>) -> Seats {
        let mut seats = Seats { topics, ..Seats::default() };
        let mut end = 0u32;
        for tokens in tokens {
            seats.starts.push(end);
            end += tokens.min(topics as u32);
        }
        let places = seats.starts.len();
        seats.starts.push(end);
        seats.topic = vec![0; end as usize];
        seats.customers = vec![0; end as usize];
        seats.tables = vec![0; end as usize];
        seats.lengths = vec![0; places];
        for place in 0..places {
            if seats.has_all(place as u32) {
                let start = seats.starts[place] as usize;
                seats.lengths[place] = topics as u16;
                (0..topics).for_each(|topic| seats.topic[start + topic] = topic as u16);
            }
        }
        seats
    }

    /// The same with room for what probabilities are made of.
    pub fn with_shares(mut self) -> Seats {
        self.shares = vec![1.0; self.topic.len()];
        self.inverses = vec![0.0; self.topic.len()];
        self
    }

    /// The same with room for where tables' dishes came from.
    pub fn with_ups(mut self) -> Seats {
        self.ups = vec![0; self.topic.len()];
        self
    }

    /// Whether a place has room for all topics.
    #[inline]
    fn has_all(&self, place: u32) -> bool {
        (self.starts[place as usize + 1] - self.starts[place as usize]) as usize == self.topics
    }

    /// Number of places.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// The slots of a place's list.
    #[inline]
    pub fn slots(&self, place: u32) -> Range<usize> {
        let start = self.starts[place as usize] as usize;
        start..start + usize::from(self.lengths[place as usize])
    }

    /// Whether a place has a slot for every topic, in order.
    #[inline]
    pub fn is_full(&self, place: u32) -> bool {
        usize::from(self.lengths[place as usize]) == self.topics
    }

    /// The topic of a slot.
    #[inline]
    pub fn topic(&self, slot: usize) -> usize {
        usize::from(self.topic[slot])
    }

    /// The slot of a topic, if it has one.
    #[inline]
    pub fn find(&self, place: u32, topic: usize) -> Option<usize> {
        let slots = self.slots(place);
        if slots.len() == self.topics {
            return Some(slots.start + topic);
        }
        let list = &self.topic[slots.clone()];
        list.iter().position(|&other| usize::from(other) == topic).map(|at| slots.start + at)
    }

    /// The slot of a topic, which is made where there is none.
    #[inline]
    pub fn open(&mut self, place: u32, topic: usize) -> usize {
        match self.find(place, topic) {
            Some(slot) => slot,
            None => self.insert(place, topic),
        }
    }

    fn insert(&mut self, place: u32, topic: usize) -> usize {
        let slots = self.slots(place);
        let at = slots.start + self.topic[slots.clone()].partition_point(|&other| usize::from(other) < topic);
        self.shift(at..slots.end, at + 1);
        (self.topic[at], self.customers[at], self.tables[at]) = (topic as u16, 0, 0);
        if !self.ups.is_empty() {
            self.ups[at] = 0;
        }
        self.lengths[place as usize] += 1;
        at
    }

    fn shift(&mut self, slots: Range<usize>, to: usize) {
        self.topic.copy_within(slots.clone(), to);
        self.customers.copy_within(slots.clone(), to);
        self.tables.copy_within(slots.clone(), to);
        if !self.ups.is_empty() {
            self.ups.copy_within(slots.clone(), to);
        }
        if !self.shares.is_empty() {
            self.shares.copy_within(slots.clone(), to);
            self.inverses.copy_within(slots, to);
        }
    }

    /// Takes the slot away where nobody is left.
    #[inline]
    pub fn close(&mut self, place: u32, slot: usize) {
        let slots = self.slots(place);
        if self.customers[slot] != 0 || self.tables[slot] != 0 || slots.len() == self.topics {
            return;
        }
        self.shift(slot + 1..slots.end, slot);
        self.lengths[place as usize] -= 1;
    }

    /// Customers and tables of a topic.
    pub fn get(&self, place: u32, topic: usize) -> (u32, u32) {
        self.find(place, topic).map_or((0, 0), |slot| (self.customers[slot], self.tables[slot]))
    }

    /// Tables of a topic whose dish came from the topic's own shorter context.
    pub fn ups(&self, place: u32, topic: usize) -> u32 {
        match self.find(place, topic) {
            Some(slot) if !self.ups.is_empty() => self.ups[slot],
            _ => 0,
        }
    }

    /// Takes another list for a place, by topic.
    pub fn rewrite(&mut self, place: u32, list: &[Entry]) {
        let (start, end) = (self.starts[place as usize] as usize, self.starts[place as usize + 1] as usize);
        if self.slots(place).len() == self.topics {
            self.customers[start..end].fill(0);
            self.tables[start..end].fill(0);
            if !self.ups.is_empty() {
                self.ups[start..end].fill(0);
            }
            list.iter().for_each(|entry| self.set(start + usize::from(entry.topic), entry));
            return;
        }
        assert!(list.len() <= end - start, "more topics than tokens");
        self.lengths[place as usize] = list.len() as u16;
        (start..).zip(list).for_each(|(slot, entry)| self.set(slot, entry));
    }

    fn set(&mut self, slot: usize, entry: &Entry) {
        self.topic[slot] = entry.topic;
        (self.customers[slot], self.tables[slot]) = (entry.customers as u32, entry.tables as u32);
        if !self.ups.is_empty() {
            self.ups[slot] = entry.ups as u32;
        }
    }

    /// The list of a place, of those with customers or tables.
    pub fn list(&self, place: u32) -> impl Iterator<Item = Entry> + '_ {
        let entry = |slot: usize| Entry {
            topic: self.topic[slot],
            customers: i64::from(self.customers[slot]),
            tables: i64::from(self.tables[slot]),
            ups: self.ups.get(slot).map_or(0, |&ups| i64::from(ups)),
        };
        self.slots(place).map(entry).filter(Entry::is_there)
    }

    /// Takes the counts of `other`, which has the same places, into the space that is there.
    pub fn copy_from(&mut self, other: &Seats) {
        self.lengths.clone_from(&other.lengths);
        self.topic.clone_from(&other.topic);
        self.customers.clone_from(&other.customers);
        self.tables.clone_from(&other.tables);
        self.ups.clone_from(&other.ups);
        self.shares.clone_from(&other.shares);
        self.inverses.clone_from(&other.inverses);
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        let of_slot = 10 + 4 * usize::from(!self.ups.is_empty()) + 8 * usize::from(!self.shares.is_empty());
        self.starts.len() * 4 + self.lengths.len() * 2 + self.topic.len() * of_slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn lists_are_what_a_map_is(changes in prop::collection::vec((0..4u32, 0..5usize, any::<bool>()), 1..300)) {
            // Place 0 and 1 have room for all five topics, the others for as many tokens as ever come.
            let mut seats = Seats::new(5, [9, 5, 4, 3].into_iter());
            let mut twin = BTreeMap::<(u32, usize), (u32, u32)>::new();
            for (place, topic, adds) in changes {
                let held = twin.get(&(place, topic)).copied().unwrap_or((0, 0));
                let topics = twin.keys().filter(|key| key.0 == place && **key != (place, topic)).count() as u32;
                if adds && (place < 2 || topics < 5 - place) {
                    let slot = seats.open(place, topic);
                    (seats.customers[slot], seats.tables[slot]) = (held.0 + 2, held.1 + 1);
                    twin.insert((place, topic), (held.0 + 2, held.1 + 1));
                } else if held.0 > 0 {
                    let slot = seats.find(place, topic).unwrap();
                    (seats.customers[slot], seats.tables[slot]) = (held.0 - 2, held.1 - 1);
                    seats.close(place, slot);
                    twin.insert((place, topic), (held.0 - 2, held.1 - 1));
                    twin.retain(|_, counts| *counts != (0, 0));
                }
                for place in 0..4 {
                    let listed: BTreeMap<(u32, usize), (u32, u32)> = seats
                        .slots(place)
                        .map(|slot| ((place, seats.topic(slot)), (seats.customers[slot], seats.tables[slot])))
                        .filter(|(_, counts)| *counts != (0, 0))
                        .collect();
                    let expected: BTreeMap<_, _> =
                        twin.iter().filter(|(key, _)| key.0 == place).map(|(key, counts)| (*key, *counts)).collect();
                    prop_assert_eq!(listed, expected);
                    let order: Vec<usize> = seats.slots(place).map(|slot| seats.topic(slot)).collect();
                    prop_assert!(order.is_sorted());
                }
            }
        }
    }
}
