//! Seatings of several shards, brought together, for all topics: as [`crate::restaurant::merge`] does for one.
//!
//! Every worker holds the whole tree, hears the changes of all shards, and adds them up in the same way. Topics belong to
//! tokens, so how many tokens of a topic stop at a dish is exact; tables are set right level by level, the deepest first.

use super::counts::Counts;
use crate::restaurant::tree::{NONE, Tree};

/// What a shard changed at a dish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    pub dish: u32,
    pub topic: u16,
    /// More tokens of the topic that stop here, and more tables, than before.
    pub customers: i32,
    pub tables: i32,
}

impl Change {
    /// As words of a letter.
    pub fn to_words(self) -> [u32; 4] {
        [self.dish, u32::from(self.topic), self.customers as u32, self.tables as u32]
    }

    pub fn from_words(words: &[u32]) -> Change {
        Change { dish: words[0], topic: words[1] as u16, customers: words[2] as i32, tables: words[3] as i32 }
    }
}

/// A list of counts by topic in the making.
type List = Vec<(u16, i64, i64)>;

/// Adds `changes` to the counts and sets tables right.
pub fn merge(tree: &Tree, counts: &mut Counts, changes: Vec<Change>) {
    let mut of_level: Vec<Vec<Change>> = vec![vec![]; tree.levels.len()];
    changes.into_iter().for_each(|change| of_level[tree.depth_of(change.dish)].push(change));
    for depth in (0..tree.levels.len()).rev() {
        let mut changes = std::mem::take(&mut of_level[depth]);
        changes.sort_unstable();
        let mut of_restaurants: Vec<Change> = vec![];
        for of_dish in changes.chunk_by(|a, b| a.dish == b.dish) {
            let dish = of_dish[0].dish;
            let record = tree.dishes[dish as usize];
            let (mut list, before) = added(&counts.dishes, dish, of_dish);
            for entry in &mut list {
                entry.2 = entry.2.clamp(entry.1.min(1), entry.1);
            }
            for (topic, customers, tables) in differences(&before, &list) {
                of_restaurants.push(Change { dish: record.restaurant, topic, customers, tables });
                if record.parent != NONE && tables != 0 {
                    // Its tables are customers of the parent.
                    of_level[depth - 1].push(Change { dish: record.parent, topic, customers: tables, tables: 0 });
                }
            }
            counts.dishes.rewrite(dish, &packed(&list));
        }
        of_restaurants.sort_unstable();
        for of_restaurant in of_restaurants.chunk_by(|a, b| a.dish == b.dish) {
            let restaurant = of_restaurant[0].dish;
            let (list, _) = added(&counts.restaurants, restaurant, of_restaurant);
            counts.restaurants.rewrite(restaurant, &packed(&list));
        }
    }
}

/// The list of a place with changes added, and as it was.
fn added(seats: &super::seats::Seats, place: u32, changes: &[Change]) -> (List, List) {
    let slots = seats.slots(place);
    let entry =
        |slot: usize| (seats.topic(slot) as u16, i64::from(seats.customers[slot]), i64::from(seats.tables[slot]));
    let before: List = slots.map(entry).filter(|entry| (entry.1, entry.2) != (0, 0)).collect();
    let mut list = before.clone();
    for change in changes {
        let at = match list.binary_search_by_key(&change.topic, |entry| entry.0) {
            Ok(at) => at,
            Err(at) => {
                list.insert(at, (change.topic, 0, 0));
                at
            }
        };
        list[at].1 += i64::from(change.customers);
        list[at].2 += i64::from(change.tables);
    }
    (list, before)
}

/// By how much each topic of `after` differs from what it was; `after` has all topics of `before`.
fn differences(before: &List, after: &List) -> Vec<(u16, i32, i32)> {
    let mut old = before.iter().peekable();
    let mut found = vec![];
    for &(topic, customers, tables) in after {
        let (c, t) = match old.next_if(|entry| entry.0 == topic) {
            Some(&(_, c, t)) => (c, t),
            None => (0, 0),
        };
        if (customers, tables) != (c, t) {
            found.push((topic, (customers - c) as i32, (tables - t) as i32));
        }
    }
    found
}

fn packed(list: &List) -> Vec<(u16, u32, u32)> {
    let some = list.iter().filter(|entry| (entry.1, entry.2) != (0, 0));
    some.map(|&(topic, customers, tables)| (topic, customers as u32, tables as u32)).collect()
}
