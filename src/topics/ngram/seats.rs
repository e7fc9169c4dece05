//! Customers and tables by topic, for many places: dishes of a tree, or its restaurants.
//!
//! A place holds a short list, sorted by topic, of the topics that have customers there. Its room never changes: no place
//! can have more topics than tokens pass it (and the global one, where topics lean on it), nor more than there are. A
//! place with room for all topics has them all, in order, and is looked up without a search. So nothing is allocated in
//! a sweep, and what a list looks like follows from the counts alone.
//!
//! Memory is what a sweep waits for, so what is used together lies together: 8 bytes for a place, and 16 for a topic at
//! it; the lists of most dishes are within one cache line. Restaurants have 8 bytes more for a topic.

use std::ops::Range;

/// What a topic has at a place, to be added to or taken from.
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

/// What a topic has at a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    pub customers: u32,
    pub tables: u32,
    /// Of dishes in the HIERARCHICAL model: tables whose dish came from the topic's own shorter context; the others' came
    /// from the global model.
    pub ups: u32,
    topic: u16,
}

/// Of a topic's restaurant, what a probability is made of, kept beside the counts that it follows from.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weights {
    /// (b + a T) / (C + b)
    pub share: f32,
    /// 1 / (C + b)
    pub inverse: f32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    start: u32,
    length: u16,
    room: u16,
}

/// Lists of counts by topic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seats {
    topics: usize,
    places: Vec<Place>,
    pub at: Vec<Slot>,
    /// Of restaurants; empty for dishes.
    pub weights: Vec<Weights>,
}

impl Seats {
    /// Places that this many tokens pass, each.
    pub fn new(topics: usize, tokens: impl Iterator<Item = u32>) -> Seats {
        let mut seats = Seats { topics, ..Seats::default() };
        for tokens in tokens {
            let room = (tokens as usize).min(topics);
            let is_full = room == topics;
            let start = seats.at.len() as u32;
            let topic = |topic: usize| if is_full { topic as u16 } else { 0 };
            seats.at.extend((0..room).map(|place| Slot { topic: topic(place), ..Slot::default() }));
            let length = if is_full { topics as u16 } else { 0 };
            seats.places.push(Place { start, length, room: room as u16 });
        }
        seats
    }

    /// The same with room for what probabilities are made of.
    pub fn with_weights(mut self) -> Seats {
        self.weights = vec![Weights { share: 1.0, inverse: 0.0 }; self.at.len()];
        self
    }

    pub fn topics(&self) -> usize {
        self.topics
    }

    /// Number of places.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The slots of a place's list.
    #[inline(always)]
    pub fn slots(&self, place: u32) -> Range<usize> {
        let Place { start, length, .. } = self.places[place as usize];
        start as usize..start as usize + usize::from(length)
    }

    /// Whether a place has a slot for every topic, in order.
    #[inline(always)]
    pub fn is_full(&self, place: u32) -> bool {
        usize::from(self.places[place as usize].length) == self.topics
    }

    /// The topic of a slot.
    #[inline(always)]
    pub fn topic(&self, slot: usize) -> usize {
        usize::from(self.at[slot].topic)
    }

    /// The slot of a topic, if it has one.
    #[inline(always)]
    pub fn find(&self, place: u32, topic: usize) -> Option<usize> {
        let slots = self.slots(place);
        if slots.len() == self.topics {
            return Some(slots.start + topic);
        }
        let list = &self.at[slots.clone()];
        list.iter().position(|slot| usize::from(slot.topic) == topic).map(|at| slots.start + at)
    }

    /// The slot of a topic, which is made where there is none.
    #[inline(always)]
    pub fn open(&mut self, place: u32, topic: usize) -> usize {
        match self.find(place, topic) {
            Some(slot) => slot,
            None => self.insert(place, topic),
        }
    }

    fn insert(&mut self, place: u32, topic: usize) -> usize {
        let slots = self.slots(place);
        assert!(slots.len() < usize::from(self.places[place as usize].room), "more topics than tokens");
        let at = slots.start + self.at[slots.clone()].partition_point(|slot| usize::from(slot.topic) < topic);
        self.shift(at..slots.end, at + 1);
        self.at[at] = Slot { topic: topic as u16, ..Slot::default() };
        self.places[place as usize].length += 1;
        at
    }

    fn shift(&mut self, slots: Range<usize>, to: usize) {
        self.at.copy_within(slots.clone(), to);
        if !self.weights.is_empty() {
            self.weights.copy_within(slots, to);
        }
    }

    /// Takes the slot away where nobody is left.
    #[inline(always)]
    pub fn close(&mut self, place: u32, slot: usize) {
        let Slot { customers, tables, .. } = self.at[slot];
        let slots = self.slots(place);
        if customers != 0 || tables != 0 || slots.len() == self.topics {
            return;
        }
        self.shift(slot + 1..slots.end, slot);
        self.places[place as usize].length -= 1;
    }

    /// Customers, tables, and those that went up, of a topic.
    pub fn get(&self, place: u32, topic: usize) -> Slot {
        self.find(place, topic).map_or(Slot::default(), |slot| self.at[slot])
    }

    /// Takes another list for a place, by topic.
    pub fn rewrite(&mut self, place: u32, list: &[Entry]) {
        let Place { start, length, room } = self.places[place as usize];
        let start = start as usize;
        if usize::from(length) == self.topics {
            for (topic, slot) in self.at[start..start + self.topics].iter_mut().enumerate() {
                *slot = Slot { topic: topic as u16, ..Slot::default() };
            }
            list.iter().for_each(|entry| self.set(start + usize::from(entry.topic), entry));
            return;
        }
        assert!(list.len() <= usize::from(room), "more topics than tokens");
        self.places[place as usize].length = list.len() as u16;
        (start..).zip(list).for_each(|(slot, entry)| self.set(slot, entry));
    }

    fn set(&mut self, slot: usize, entry: &Entry) {
        let Entry { topic, customers, tables, ups } = *entry;
        self.at[slot] = Slot { topic, customers: customers as u32, tables: tables as u32, ups: ups as u32 };
    }

    /// The list of a place, of those with customers or tables.
    pub fn list(&self, place: u32) -> impl Iterator<Item = Entry> + '_ {
        let entry = |slot: &Slot| Entry {
            topic: slot.topic,
            customers: i64::from(slot.customers),
            tables: i64::from(slot.tables),
            ups: i64::from(slot.ups),
        };
        self.at[self.slots(place)].iter().map(entry).filter(Entry::is_there)
    }

    /// Bytes of memory of a place.
    pub fn bytes(&self, place: u32) -> usize {
        let slot = if self.weights.is_empty() { size_of::<Slot>() } else { size_of::<Slot>() + size_of::<Weights>() };
        size_of::<Place>() + usize::from(self.places[place as usize].room) * slot
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
                    (seats.at[slot].customers, seats.at[slot].tables) = (held.0 + 2, held.1 + 1);
                    twin.insert((place, topic), (held.0 + 2, held.1 + 1));
                } else if held.0 > 0 {
                    let slot = seats.find(place, topic).unwrap();
                    (seats.at[slot].customers, seats.at[slot].tables) = (held.0 - 2, held.1 - 1);
                    seats.close(place, slot);
                    twin.insert((place, topic), (held.0 - 2, held.1 - 1));
                    twin.retain(|_, counts| *counts != (0, 0));
                }
                for place in 0..4 {
                    let listed: BTreeMap<(u32, usize), (u32, u32)> = seats
                        .slots(place)
                        .map(|slot| ((place, seats.topic(slot)), (seats.at[slot].customers, seats.at[slot].tables)))
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
