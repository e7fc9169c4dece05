//! The restaurants that several shards share: the root of every topic, and the contexts of one split word
//! ([`crate::restaurant::deal`]). Together they are the **top**.
//!
//! Every worker has them in its tree, with the same dishes. Between two synchronisations a shard seats its customers there
//! against the counts as they stood at the last one and its own changes, which are then reported and taken back, so that no
//! shard sees what another one of the same worker did. Added up, customers are right by construction; tables may not be,
//! since two shards can each have closed the same one. They are repaired from the longer contexts up, 1 <= t <= c for
//! c > 0, and in HIERARCHICAL so are their labels, 0 <= ups <= t. What is repaired changes the customers of the parent, the
//! coins, and in HIERARCHICAL those of topic 0, whose customers are the tables of the other topics that went across; so topic 0
//! comes last.

use serde::{Deserialize, Serialize};

use super::counts::{Counts, Form};
use super::dealt::TopDish;
use super::rules::Rules;
use super::seats::{Entry, Seats};
use crate::restaurant::merge::Marks;
use crate::restaurant::tree::{NONE, Restaurant, Tree, Visits};

/// By how much a shard has changed a topic of a dish.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SeatChange {
    /// Number in the top.
    pub dish: u32,
    pub topic: u16,
    pub customers: i32,
    pub tables: i32,
    /// Tables that went up, in HIERARCHICAL.
    pub ups: i32,
}

/// By how much a shard, or several together, have changed the top.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopChanges {
    pub seats: Vec<SeatChange>,
    /// By side of a coin: twice the number of the restaurant in the top, and 1 for yes; customers and tables.
    pub coins: Vec<(u32, i32, i32)>,
    /// By restaurant: tokens that stop there, and tokens that pass.
    pub visits: Vec<(u32, i32, i32)>,
}

impl TopChanges {
    /// Appends all to a message.
    pub fn write(&self, message: &mut Vec<u32>) {
        message.extend([&self.seats.len(), &self.coins.len(), &self.visits.len()].map(|&length| length as u32));
        let seats = |change: &SeatChange| {
            let SeatChange { dish, topic, customers, tables, ups } = *change;
            [dish, u32::from(topic), customers as u32, tables as u32, ups as u32]
        };
        message.extend(self.seats.iter().flat_map(seats));
        let triples = self.coins.iter().chain(&self.visits);
        message.extend(triples.flat_map(|&(place, a, b)| [place, a as u32, b as u32]));
    }

    /// Adds the changes of a message.
    pub fn read(&mut self, message: &[u32]) {
        let (lengths, rest) = message.split_at(3);
        let (seats, rest) = rest.split_at(5 * lengths[0] as usize);
        let (coins, visits) = rest.split_at(3 * lengths[1] as usize);
        self.seats.extend(seats.chunks_exact(5).map(|words| SeatChange {
            dish: words[0],
            topic: words[1] as u16,
            customers: words[2] as i32,
            tables: words[3] as i32,
            ups: words[4] as i32,
        }));
        let triple = |words: &[u32]| (words[0], words[1] as i32, words[2] as i32);
        self.coins.extend(coins.chunks_exact(3).map(triple));
        self.visits.extend(visits.chunks_exact(3).map(triple));
    }
}

/// Which dishes of a tree several shards share.
#[derive(Clone, Debug, Default)]
pub struct SharedDishes {
    /// The lowest one: marks count from here.
    lowest: u32,
    marks: Marks,
}

impl SharedDishes {
    #[inline(always)]
    pub fn has(&self, dish: u32) -> bool {
        dish >= self.lowest && self.marks.contains(dish - self.lowest)
    }
}

/// The shared restaurants of a worker, and their counts as of the last synchronisation.
pub struct Top {
    form: Form,
    /// The numbers of the restaurants in the tree, those of split words first, then the root.
    restaurants: Vec<u32>,
    /// By restaurant, its first dish among those of the top; and the number of all dishes.
    starts: Vec<u32>,
    /// The numbers of all dishes in the tree.
    dishes: Vec<u32>,
    shared: SharedDishes,
    /// Those that the shard at work has touched, counted from the lowest one.
    touched: Marks,
    /// Counts by number in the top: of dishes, and of restaurants.
    seats: Seats,
    rooms: Seats,
    /// Of both sides of each restaurant's coin: customers and tables.
    coins: Vec<(u32, u32)>,
    visits: Vec<Visits>,
}

impl Top {
    /// The top of a tree that has all dishes of `list`, without customers.
    pub fn new(tree: &Tree, form: Form, topics: usize, list: &[TopDish], is_infinite: bool) -> Top {
        let (mut restaurants, mut starts, mut dishes, mut tokens) = (vec![], vec![], vec![], vec![]);
        for same in list.chunk_by(|a, b| a.element == b.element) {
            let restaurant = find(tree, same[0].element);
            debug_assert!(tree.dishes_of(restaurant).len() == same.len(), "the dishes are those of the list");
            restaurants.push(restaurant);
            starts.push(dishes.len() as u32);
            dishes.extend(tree.dishes_of(restaurant));
            tokens.push(same.iter().map(|dish| dish.tokens).sum());
        }
        starts.push(dishes.len() as u32);
        let lowest = dishes.iter().copied().min().unwrap_or(0);
        let touched = Marks::new(tree.dishes.len() - lowest as usize);
        let mut marks = touched.clone();
        dishes.iter().for_each(|dish| marks.set(dish - lowest));
        Top {
            form,
            seats: Seats::new(topics, list.iter().map(|dish| form.room(dish.tokens))),
            rooms: Seats::new(topics, tokens.into_iter().map(|tokens| form.room(tokens))),
            coins: vec![(0, 0); if form.has_global() { 2 * restaurants.len() } else { 0 }],
            visits: vec![Visits::default(); if is_infinite { restaurants.len() } else { 0 }],
            restaurants,
            starts,
            dishes,
            shared: SharedDishes { lowest, marks },
            touched,
        }
    }

    /// Which dishes are shared.
    pub fn shared(&self) -> &SharedDishes {
        &self.shared
    }

    /// The restaurants, by their numbers in the tree.
    pub fn restaurants(&self) -> &[u32] {
        &self.restaurants
    }

    /// The number in the tree of a dish of the top.
    pub fn dish(&self, number: u32) -> u32 {
        self.dishes[number as usize]
    }

    /// Whether the contexts of some words are shared.
    pub fn has_split(&self) -> bool {
        self.restaurants.len() > 1
    }

    /// Whether several shards share a dish.
    #[inline]
    pub fn has(&self, dish: u32) -> bool {
        self.shared.has(dish)
    }

    /// Notes that the tables of a dish have changed, or tokens that stop there: it and its parent may be shared.
    #[inline]
    pub fn touch(&mut self, tree: &Tree, dish: u32) {
        for dish in [dish, tree.dishes[dish as usize].parent] {
            if dish != NONE && self.has(dish) {
                self.touched.set(dish - self.shared.lowest);
            }
        }
    }

    /// The number in the top of a shared dish.
    pub fn number_of(&self, tree: &Tree, dish: u32) -> u32 {
        let restaurant = tree.dishes[dish as usize].restaurant;
        let place = self.restaurants.iter().rposition(|&other| other == restaurant).expect("a shared restaurant");
        self.starts[place] + (dish - tree.dishes_of(restaurant).start)
    }

    /// Moves what was changed since the last synchronisation from the counts to `changes`.
    pub fn take_back(&mut self, tree: &Tree, rules: &Rules, counts: &mut Counts, changes: &mut TopChanges) {
        let mut list = vec![];
        let touched = std::mem::take(&mut self.touched);
        for dish in touched.iter().map(|dish| dish + self.shared.lowest) {
            let number = self.number_of(tree, dish);
            list.clear();
            list.extend(self.seats.list(number));
            differences(&list, counts.dishes.list(dish), number, &mut changes.seats);
            counts.dishes.rewrite(dish, &list);
        }
        self.touched = touched;
        self.touched.clear();
        for (side, &(customers, tables)) in (0..).zip(&self.coins) {
            let now = counts.coins.dishes[self.coin(side) as usize];
            let change = (side, now.customers.wrapping_sub(customers) as i32, now.tables.wrapping_sub(tables) as i32);
            changes.coins.extend(Some(change).filter(|change| (change.1, change.2) != (0, 0)));
        }
        for (place, before) in (0..).zip(&self.visits) {
            let now = counts.visits[self.restaurants[place as usize] as usize];
            let stops = now.stops.wrapping_sub(before.stops) as i32;
            changes.visits.push((place, stops, now.passes.wrapping_sub(before.passes) as i32));
        }
        self.set_sums(tree, rules, counts);
    }

    /// The number of a side of a coin in the tree of coins.
    fn coin(&self, side: u32) -> u32 {
        2 * self.restaurants[side as usize / 2] + side % 2
    }

    /// Sets the sums of restaurants, the coins and the visits to those of the last synchronisation.
    fn set_sums(&self, tree: &Tree, rules: &Rules, counts: &mut Counts) {
        let mut list = vec![];
        for (place, &restaurant) in self.restaurants.iter().enumerate() {
            list.clear();
            list.extend(self.rooms.list(place as u32));
            counts.restaurants.rewrite(restaurant, &list);
            let depth = tree.depth_of(tree.dishes_of(restaurant).start);
            counts.restaurants.slots(restaurant).for_each(|slot| rules.prepare_one(counts, depth, slot));
            if let Some(visits) = self.visits.get(place) {
                counts.visits[restaurant as usize] = *visits;
            }
            if let Some([no, yes]) = self.coins.get(2 * place..2 * place + 2) {
                let sums = Restaurant { customers: no.0 + yes.0, tables: no.1 + yes.1 };
                counts.coins.restaurants[restaurant as usize] = sums;
            }
        }
        for (side, &(customers, tables)) in (0..).zip(&self.coins) {
            let dish = &mut counts.coins.dishes[self.coin(side) as usize];
            (dish.customers, dish.tables) = (customers, tables);
        }
    }

    /// Sets all of the top in the counts to what it was at the last synchronisation.
    pub fn reset(&mut self, tree: &Tree, rules: &Rules, counts: &mut Counts) {
        for (number, &dish) in (0..).zip(&self.dishes) {
            let list: Vec<Entry> = self.seats.list(number).collect();
            counts.dishes.rewrite(dish, &list);
        }
        self.touched.clear();
        self.set_sums(tree, rules, counts);
    }

    /// Adds the changes of all shards, here and in the counts, and repairs tables.
    pub fn apply(&mut self, tree: &Tree, rules: &Rules, counts: &mut Counts, mut changes: TopChanges) {
        for (side, customers, tables) in changes.coins {
            let (c, t) = &mut self.coins[side as usize];
            (*c, *t) = (c.wrapping_add_signed(customers), t.wrapping_add_signed(tables));
        }
        for (place, stops, passes) in changes.visits {
            let Visits { stops: all, passes: more } = &mut self.visits[place as usize];
            (*all, *more) = (all.wrapping_add_signed(stops), more.wrapping_add_signed(passes));
        }
        // The root comes last: it takes what is repaired in the other restaurants.
        let root = self.starts[self.starts.len() - 2];
        changes.seats.sort(); // those of each shard are sorted
        let (split, of_root) = changes.seats.split_at(changes.seats.partition_point(|change| change.dish < root));
        let mut repaired = vec![];
        self.apply_seats(tree, counts, split, &mut repaired);
        let mut of_root = [of_root, &repaired].concat();
        of_root.sort_unstable();
        self.apply_seats(tree, counts, &of_root, &mut vec![]);
        self.repair_coins();
        self.set_sums(tree, rules, counts);
    }

    /// Adds sorted changes to dishes of one depth; `repaired` receives what their repair changes in the parents.
    fn apply_seats(
        &mut self,
        tree: &Tree,
        counts: &mut Counts,
        changes: &[SeatChange],
        repaired: &mut Vec<SeatChange>,
    ) {
        let (mut before, mut list) = (vec![], vec![]);
        let mut of_restaurants: Vec<SeatChange> = vec![];
        for of_dish in changes.chunk_by(|a, b| a.dish == b.dish) {
            let number = of_dish[0].dish;
            let dish = self.dishes[number as usize];
            let place = self.starts.partition_point(|&start| start <= number) - 1;
            before.clear();
            before.extend(self.seats.list(number));
            add(&before, of_dish, &mut list);
            let raw = list.clone();
            self.repair(&mut list);
            self.note_repairs(tree, place, dish, &raw, &list, repaired);
            differences(&before, list.iter().copied(), place as u32, &mut of_restaurants);
            list.retain(Entry::is_there);
            self.seats.rewrite(number, &list);
            counts.dishes.rewrite(dish, &list);
        }
        of_restaurants.sort_unstable();
        for of_restaurant in of_restaurants.chunk_by(|a, b| a.dish == b.dish) {
            let restaurant = of_restaurant[0].dish;
            before.clear();
            before.extend(self.rooms.list(restaurant));
            add(&before, of_restaurant, &mut list);
            list.retain(Entry::is_there);
            self.rooms.rewrite(restaurant, &list);
        }
    }

    /// Repairs tables by customers, labels by tables, and in HIERARCHICAL then customers of topic 0 by labels.
    fn repair(&self, list: &mut Vec<Entry>) {
        let right = |entry: &mut Entry| entry.tables = entry.tables.clamp(entry.customers.min(1), entry.customers);
        if self.form != Form::Hierarchical {
            return list.iter_mut().for_each(right);
        }
        let across = |list: &[Entry]| list.iter().filter(|e| e.topic > 0).map(|e| e.tables - e.ups).sum::<i64>();
        let before = across(list);
        for entry in list.iter_mut().filter(|entry| entry.topic > 0) {
            right(entry);
            entry.ups = entry.ups.clamp(0, entry.tables);
        }
        let more = across(list) - before;
        if more != 0 && list.first().is_none_or(|entry| entry.topic > 0) {
            list.insert(0, Entry::default());
        }
        if let Some(global) = list.first_mut().filter(|entry| entry.topic == 0) {
            global.customers += more;
            right(global);
        }
    }

    /// Passes the repairs of a dish's topics on: to its parent, and in HIERARCHICAL to the coin of its restaurant.
    fn note_repairs(
        &mut self,
        tree: &Tree,
        place: usize,
        dish: u32,
        raw: &[Entry],
        list: &[Entry],
        repaired: &mut Vec<SeatChange>,
    ) {
        let mut changes = vec![];
        differences(raw, list.iter().copied(), 0, &mut changes);
        let parent = tree.dishes[dish as usize].parent;
        for change in changes {
            let mut up = change.tables;
            if self.form == Form::Hierarchical && change.topic > 0 {
                up = change.ups;
                let [no, yes] = &mut self.coins[2 * place..2 * place + 2] else { unreachable!("two sides") };
                no.0 = no.0.wrapping_add_signed(change.tables - change.ups);
                yes.0 = yes.0.wrapping_add_signed(change.ups);
            }
            if parent != NONE && up != 0 {
                let dish = self.number_of(tree, parent);
                repaired.push(SeatChange { dish, topic: change.topic, customers: up, tables: 0, ups: 0 });
            }
        }
    }

    /// Repairs the tables of coins by their customers, the root's last.
    fn repair_coins(&mut self) {
        let Some(root) = self.coins.len().checked_sub(2) else { return };
        for side in 0..self.coins.len() {
            let (customers, tables) = self.coins[side];
            let right = (tables as i32).clamp(customers.min(1) as i32, customers as i32);
            self.coins[side].1 = right as u32;
            if side < root {
                let above = &mut self.coins[root + side % 2].0;
                *above = above.wrapping_add_signed(right - tables as i32);
            }
        }
    }

    /// All of the top, as changes of an empty one.
    pub fn saved(&self) -> TopChanges {
        let mut saved = TopChanges::default();
        for number in 0..self.dishes.len() as u32 {
            differences(&[], self.seats.list(number), number, &mut saved.seats);
        }
        let signed = |(place, &(a, b)): (u32, &(u32, u32))| (place, a as i32, b as i32);
        saved.coins = (0..).zip(&self.coins).map(signed).collect();
        let visits = |(place, visits): (u32, &Visits)| (place, visits.stops as i32, visits.passes as i32);
        saved.visits = (0..).zip(&self.visits).map(visits).collect();
        saved
    }

    /// Whether what a checkpoint has can be changes of this top.
    pub fn fits(&self, saved: &TopChanges) -> bool {
        let has = |change: &SeatChange| {
            (change.dish as usize) < self.dishes.len() && usize::from(change.topic) < self.seats.topics()
        };
        saved.seats.iter().all(has)
            && saved.coins.iter().all(|coin| (coin.0 as usize) < self.coins.len())
            && saved.visits.iter().all(|visits| (visits.0 as usize) < self.visits.len())
    }
}

/// The numbers in a tree of all shared dishes, and how many tokens pass each.
pub fn numbers(tree: &Tree, list: &[TopDish]) -> impl Iterator<Item = (u32, u32)> {
    list.chunk_by(|a, b| a.element == b.element).flat_map(|same| {
        let numbers = tree.dishes_of(find(tree, same[0].element));
        numbers.zip(same.iter().map(|dish| dish.tokens))
    })
}

/// The restaurant of the context that is one element, or of the empty one.
fn find(tree: &Tree, element: u32) -> u32 {
    if element == NONE {
        return tree.levels[0].restaurants.start;
    }
    let level = tree.levels[1].restaurants.clone();
    let elements = &tree.elements[level.start as usize..level.end as usize];
    level.start + elements.binary_search(&element).expect("a shared context") as u32
}

/// Makes `list` of `before` with changes added, which are sorted by topic.
fn add(before: &[Entry], changes: &[SeatChange], list: &mut Vec<Entry>) {
    list.clear();
    let mut old = before.iter().peekable();
    for of_topic in changes.chunk_by(|a, b| a.topic == b.topic) {
        let topic = of_topic[0].topic;
        while let Some(entry) = old.next_if(|entry| entry.topic < topic) {
            list.push(*entry);
        }
        let mut entry =
            old.next_if(|entry| entry.topic == topic).copied().unwrap_or(Entry { topic, ..Entry::default() });
        for change in of_topic {
            entry.customers += i64::from(change.customers);
            entry.tables += i64::from(change.tables);
            entry.ups += i64::from(change.ups);
        }
        list.push(entry);
    }
    list.extend(old);
}

/// Appends by how much each topic of `after` differs from what it was in `before`, both sorted by topic.
fn differences(before: &[Entry], after: impl Iterator<Item = Entry>, dish: u32, found: &mut Vec<SeatChange>) {
    let mut push = |topic, old: Entry, new: Entry| {
        let change = SeatChange {
            dish,
            topic,
            customers: (new.customers - old.customers) as i32,
            tables: (new.tables - old.tables) as i32,
            ups: (new.ups - old.ups) as i32,
        };
        found.extend(Some(change).filter(|c| (c.customers, c.tables, c.ups) != (0, 0, 0)));
    };
    let mut old = before.iter().peekable();
    for new in after {
        while let Some(gone) = old.next_if(|old| old.topic < new.topic) {
            push(gone.topic, *gone, Entry::default());
        }
        let old = old.next_if(|old| old.topic == new.topic).copied().unwrap_or_default();
        push(new.topic, old, new);
    }
    old.for_each(|gone| push(gone.topic, *gone, Entry::default()));
}
