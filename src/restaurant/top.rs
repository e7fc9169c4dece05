//! The top: what all shards have in common, which is the root and the restaurants of split elements ([`super::deal`]).
//!
//! Between two synchronisations every shard seats its own customers in the top against the counts as they stood at the last one
//! and its own changes. Its customers there are exact at every synchronisation: they are the tables of the restaurants below,
//! each of which one shard alone has, and the tokens that stop in the top. Tables are added up, and set right
//! ([`super::merge`]).
//!
//! Every dish of the top has an **owner**: one of the first 64 shards, by its outcome. All dishes of one outcome have the
//! same, so an owner can set them right by itself. A synchronisation takes two messages from every worker to every other:
//!
//! ```text
//! shards -> owners     by dish: change of tables, change of the customers that are not tables of the top
//!                      by restaurant: change of visits, to all
//! owners -> shards     by dish: customers, tables
//!                      by restaurant: change of customers and tables, to all
//! ```
//!
//! Only what has changed is sent, and only to shards whose tokens have that dish. Shard and owner name a dish by its place
//! in the list of those that they have in common, on which they agree at the first synchronisation.

use std::collections::BTreeMap;

use super::deal::Deal;
use super::merge::{Change, Marks};
use super::parameters::Census;
use super::seating::Path;
use super::shard::Shard;
use super::tree::{Dish, NONE, Restaurant, Tree, Visits};
use crate::cluster::sweep::Post;

/// The most owners: every shard has a list for each of them.
const OWNERS: u32 = 64;

/// How many owners there are.
fn owners(shards: u32) -> u32 {
    shards.min(OWNERS)
}

/// What a shard has of the top.
#[derive(Debug, Default)]
pub struct View {
    /// The tree's dishes of the top, rising, and how many customers and tables they had at the last synchronisation.
    dishes: Vec<u32>,
    before: Vec<[u32; 2]>,
    /// Those that have changed since, by place in `dishes`.
    marks: Marks,
    /// By owner: places of the dishes in common; and the place of each dish there.
    by_owner: Vec<Vec<u32>>,
    place: Vec<u32>,
    /// The tree's restaurants of the top: which of the top's, and its number in the tree.
    restaurants: Vec<(u32, u32)>,
    /// By restaurant of depth 1: its first dish's number less that dish's place in `dishes`; [`NONE`] if it is not of the top.
    shifts: Vec<u32>,
    /// The first restaurant of depth 1.
    first: u32,
    /// The same as `shifts` of the root.
    root_shift: u32,
    /// By depth up to 2, the first dish there.
    starts: [u32; 3],
    /// How many restaurants of the top the path has that was entered last, and the shift of the one of depth 1.
    depth: usize,
    shift: u32,
}

impl View {
    /// What `tree` has of the top.
    pub fn new(tree: &Tree, deal: &Deal) -> View {
        if deal.shards() == 1 || tree.restaurants.is_empty() {
            return View::default();
        }
        let split: Vec<u32> = deal.keys.split().collect();
        let start = |depth: usize| tree.levels.get(depth).map_or(0, |level| level.dishes.start);
        let level = tree.levels.get(1).map_or(0..0, |level| level.restaurants.clone());
        let mut view = View { first: level.start, starts: [start(0), start(1), start(2)], ..View::default() };
        for restaurant in level {
            let dishes = tree.dishes_of(restaurant);
            let found = split.binary_search(&tree.elements[restaurant as usize]);
            view.shifts.push(found.map_or(NONE, |_| dishes.start - view.dishes.len() as u32));
            if let Ok(number) = found {
                view.restaurants.push((number as u32, restaurant));
                view.dishes.extend(dishes);
            }
        }
        view.root_shift = start(0) - view.dishes.len() as u32;
        let root = tree.levels[0].restaurants.start;
        view.restaurants.push((split.len() as u32, root));
        view.dishes.extend(tree.dishes_of(root));
        view.before = vec![[0; 2]; view.dishes.len()];
        view.marks = Marks::new(view.dishes.len());
        view.by_owner = vec![vec![]; owners(deal.shards()) as usize];
        for (at, &dish) in (0..).zip(&view.dishes) {
            let own = &mut view.by_owner[(tree.outcomes[dish as usize] % owners(deal.shards())) as usize];
            view.place.push(own.len() as u32);
            own.push(at);
        }
        view
    }

    /// Whether nothing is common.
    pub fn is_empty(&self) -> bool {
        self.dishes.is_empty()
    }

    /// Whether a restaurant of a depth is of the top.
    pub fn has(&self, depth: usize, restaurant: u32) -> bool {
        match depth {
            0 => !self.is_empty(),
            1 if !self.is_empty() => self.shifts[(restaurant - self.first) as usize] != NONE,
            _ => false,
        }
    }

    /// The tree's restaurants of the top.
    pub fn restaurants(&self) -> impl Iterator<Item = u32> + '_ {
        self.restaurants.iter().map(|(_, restaurant)| *restaurant)
    }

    /// Tokens of this path come and go next.
    #[inline]
    pub fn enter(&mut self, path: &Path) {
        self.shift = if path.depth() == 0 { NONE } else { self.shifts[(path.restaurant(1) - self.first) as usize] };
        self.depth = 1 + usize::from(self.shift != NONE);
    }

    /// Notes that the tables of a dish of the path have changed: they are customers of the dish above.
    #[inline]
    pub fn touch(&mut self, path: &Path, dish: u32) {
        if dish >= self.starts[self.depth] {
            let is_root = self.depth == 1 || dish == path.dish(0);
            self.mark(path, if is_root { 0 } else { 1 });
        }
    }

    /// Notes that a token of the path has come or gone that stops at a depth.
    #[inline]
    pub fn touch_end(&mut self, path: &Path, depth: usize) {
        if depth.min(path.depth()) < self.depth {
            self.mark(path, depth.min(path.depth()));
        }
    }

    #[inline]
    fn mark(&mut self, path: &Path, depth: usize) {
        let shift = if depth == 0 { self.root_shift } else { self.shift };
        self.marks.set(path.dish(depth) - shift);
    }

    /// Notes that everything may have changed.
    pub fn touch_all(&mut self) {
        (0..self.dishes.len() as u32).for_each(|at| self.marks.set(at));
    }

    /// By owner, what has changed: the dish's place, more tables, more customers that are not tables of the top. The counts of
    /// what has changed are not to be used until they are [`View::set`].
    fn take(&mut self, tree: &mut Tree) -> Vec<Vec<u32>> {
        let mut changes = vec![vec![]; self.by_owner.len()];
        let mut from = 0;
        // Dishes of split elements are shown before those of the root, which are their parents.
        while let Some(at) = self.marks.next(from) {
            from = at + 1;
            let dish = self.dishes[at as usize];
            let (now, before) = (tree.dishes[dish as usize], self.before[at as usize]);
            let [customers, tables] = [now.customers.wrapping_sub(before[0]), now.tables.wrapping_sub(before[1])];
            if tables != 0 && now.parent != NONE {
                let above = &mut tree.dishes[now.parent as usize];
                above.customers = above.customers.wrapping_sub(tables);
                self.marks.set(now.parent - self.root_shift);
            }
            if [customers, tables] != [0; 2] {
                let owner = tree.outcomes[dish as usize] as usize % changes.len();
                changes[owner].extend_from_slice(&[self.place[at as usize], tables, customers]);
            }
        }
        self.marks.clear();
        changes
    }

    /// Takes what an owner tells: places, customers and tables.
    fn set(&mut self, tree: &mut Tree, owner: usize, told: &[u32]) {
        for entry in told.chunks_exact(3) {
            let at = self.by_owner[owner][entry[0] as usize] as usize;
            let dish = &mut tree.dishes[self.dishes[at] as usize];
            (dish.customers, dish.tables) = (entry[1], entry[2]);
            self.before[at] = [entry[1], entry[2]];
        }
    }

    /// The restaurant and outcome of each dish that is in common with an owner.
    fn common(&self, tree: &Tree, owner: usize) -> Vec<u32> {
        let mut restaurants = self.restaurants.iter().peekable();
        let name = |&at: &u32| {
            let dish = self.dishes[at as usize];
            let restaurant = tree.dishes[dish as usize].restaurant;
            while restaurants.peek().is_some_and(|(_, other)| *other != restaurant) {
                restaurants.next();
            }
            [restaurants.peek().expect("a restaurant of the top").0, tree.outcomes[dish as usize]]
        };
        self.by_owner[owner].iter().flat_map(name).collect()
    }
}

/// The dishes that a shard owns.
struct Owner {
    /// Dishes of split elements, then of the root; and sums over them. Nothing else of a tree is there.
    tree: Tree,
    /// The sums as all were told of them.
    told: Vec<Restaurant>,
    /// By shard: the dishes in common, by place.
    holders: Vec<Vec<u32>>,
    marks: Marks,
}

impl Owner {
    /// `names` has, by shard, restaurants and outcomes of the dishes in common.
    fn new(names: &[Vec<u32>], restaurants: usize) -> Owner {
        let key = |name: &[u32]| u64::from(name[0]) << 32 | u64::from(name[1]);
        let mut keys: Vec<u64> = names.iter().flat_map(|of_shard| of_shard.chunks_exact(2).map(key)).collect();
        keys.sort_unstable();
        keys.dedup();
        let find = |key: u64| keys.binary_search(&key).expect("a dish in common") as u32;
        let root = restaurants as u32 - 1;
        let dish = |&key: &u64| {
            let restaurant = (key >> 32) as u32;
            // Who has a dish has its parent, too.
            let parent = if restaurant == root { NONE } else { find(u64::from(root) << 32 | key & 0xffff_ffff) };
            Dish { restaurant, parent, ..Dish::default() }
        };
        let mut tree = Tree::default();
        tree.dishes.extend(keys.iter().map(dish));
        tree.restaurants.resize(restaurants, Restaurant::default());
        Owner {
            told: tree.restaurants.clone(),
            holders: names
                .iter()
                .map(|of_shard| of_shard.chunks_exact(2).map(|name| find(key(name))).collect())
                .collect(),
            marks: Marks::new(keys.len()),
            tree,
        }
    }

    /// Tables from a checkpoint.
    fn load(&mut self, tables: &[u32]) {
        assert_eq!(tables.len(), self.tree.dishes.len(), "the checkpoint has other dishes that shards have in common");
        for (dish, &tables) in (0..).zip(tables) {
            self.tree.apply(Change { dish, tables: tables as i32, tokens: 0 }, &mut self.marks);
        }
    }

    fn add_up(&mut self, shard: usize, changes: &[u32]) {
        for entry in changes.chunks_exact(3) {
            let dish = self.holders[shard][entry[0] as usize];
            let change = Change { dish, tables: entry[1] as i32, tokens: entry[2] as i32 };
            self.tree.apply(change, &mut self.marks);
        }
    }

    /// What a shard is told of the dishes that have changed.
    fn tell(&self, shard: usize, message: &mut Vec<u32>) {
        for (place, &dish) in (0..).zip(&self.holders[shard]).filter(|(_, dish)| self.marks.contains(**dish)) {
            let Dish { customers, tables, .. } = self.tree.dishes[dish as usize];
            message.extend_from_slice(&[place, customers, tables]);
        }
    }
}

/// What a worker has of the top.
pub struct Top {
    shards: u32,
    /// Of split elements, in their order, and the root at the end.
    restaurants: Vec<Restaurant>,
    /// Empty if tokens have no orders.
    visits: Vec<Visits>,
    /// Those of the own shards, once all have agreed.
    owners: BTreeMap<u32, Owner>,
    has_agreed: bool,
    /// Tables from a checkpoint, by owner, until then.
    loaded: BTreeMap<u32, Vec<u32>>,
}

impl Top {
    pub fn new(deal: &Deal, has_visits: bool) -> Top {
        let restaurants = if deal.shards() == 1 { 0 } else { deal.keys.split().count() + 1 };
        let visits = if has_visits { restaurants } else { 0 };
        Top {
            shards: deal.shards(),
            restaurants: vec![Restaurant::default(); restaurants],
            visits: vec![Visits::default(); visits],
            owners: BTreeMap::new(),
            has_agreed: false,
            loaded: BTreeMap::new(),
        }
    }

    /// How many restaurants are common.
    pub fn restaurants(&self) -> usize {
        self.restaurants.len()
    }

    /// Tables of the dishes that a shard owns.
    pub fn save(&self, number: u32) -> Vec<u32> {
        let dishes = self.owners.get(&number).into_iter().flat_map(|owner| &owner.tree.dishes);
        dishes.map(|dish| dish.tables).collect()
    }

    pub fn load(&mut self, number: u32, tables: Vec<u32>) {
        self.loaded.insert(number, tables);
    }

    /// Counts the states of the restaurants and dishes of a depth that a shard owns.
    pub fn count(&self, number: u32, depth: usize, census: &mut Census) {
        let (Some(owner), Some(root)) = (self.owners.get(&number), self.restaurants.len().checked_sub(1)) else {
            return;
        };
        let is_there = |restaurant: usize| depth == usize::from(restaurant != root);
        let own = (0u32..).zip(&self.restaurants).filter(|(at, _)| at % owners(self.shards) == number);
        own.filter(|(at, _)| is_there(*at as usize)).for_each(|(_, &restaurant)| census.count_restaurant(restaurant));
        let dishes = owner.tree.dishes.iter().filter(|dish| is_there(dish.restaurant as usize));
        dishes.for_each(|&dish| census.count_dish(dish));
    }

    /// Brings together what all shards have changed. Every worker calls this.
    pub fn synchronise(&mut self, shards: &mut BTreeMap<u32, Shard>, post: &mut Post<'_>) {
        if self.restaurants.is_empty() {
            return;
        }
        if !std::mem::replace(&mut self.has_agreed, true) {
            self.agree(shards, post);
        }
        let changes = post.exchange(self.take(shards, post));
        self.add_up(&changes, post);
        let told = post.exchange(self.tell(post));
        self.set(shards, &told, post);
    }

    /// The shards of a worker.
    fn shards_of(&self, worker: usize, post: &Post<'_>) -> impl Iterator<Item = u32> + Clone + use<> {
        (worker as u32..self.shards).step_by(post.peers())
    }

    /// Those of them that own dishes.
    fn owners_of(&self, worker: usize, post: &Post<'_>) -> impl Iterator<Item = u32> + use<> {
        (worker as u32..owners(self.shards)).step_by(post.peers())
    }

    /// Agrees on what shards and owners have in common.
    fn agree(&mut self, shards: &BTreeMap<u32, Shard>, post: &mut Post<'_>) {
        let mut messages = vec![vec![]; post.peers()];
        for (worker, message) in messages.iter_mut().enumerate() {
            for owner in self.owners_of(worker, post) {
                for shard in shards.values() {
                    let is_common = !shard.view.is_empty();
                    let names = if is_common { shard.view.common(&shard.tree, owner as usize) } else { vec![] };
                    write_list(message, &names);
                }
            }
        }
        let messages = post.exchange(messages);
        let mut readers: Vec<&[u32]> = messages.iter().map(Vec::as_slice).collect();
        for number in self.owners_of(post.index(), post) {
            let mut names = vec![vec![]; self.shards as usize];
            for (worker, reader) in readers.iter_mut().enumerate() {
                self.shards_of(worker, post).for_each(|shard| names[shard as usize] = read_list(reader).to_vec());
            }
            let mut owner = Owner::new(&names, self.restaurants.len());
            if let Some(tables) = self.loaded.remove(&number) {
                owner.load(&tables);
            }
            self.owners.insert(number, owner);
        }
    }

    /// What the own shards have changed.
    fn take(&mut self, shards: &mut BTreeMap<u32, Shard>, post: &Post<'_>) -> Vec<Vec<u32>> {
        let mut visits = vec![0u32; 2 * self.visits.len()];
        let mut changes: Vec<Vec<Vec<u32>>> = vec![];
        for shard in shards.values_mut() {
            for &(number, restaurant) in shard.view.restaurants.iter().filter(|_| !self.visits.is_empty()) {
                let (now, before) = (shard.tree.visits[restaurant as usize], self.visits[number as usize]);
                let sums = &mut visits[2 * number as usize..];
                sums[0] = sums[0].wrapping_add(now.stops.wrapping_sub(before.stops));
                sums[1] = sums[1].wrapping_add(now.passes.wrapping_sub(before.passes));
            }
            changes.push(shard.view.take(&mut shard.tree));
        }
        let mut messages = vec![visits; post.peers()];
        for (worker, message) in messages.iter_mut().enumerate() {
            for owner in self.owners_of(worker, post) {
                let of_owner =
                    changes.iter().map(|of_shard| of_shard.get(owner as usize).map_or(&[][..], Vec::as_slice));
                of_owner.for_each(|list| write_list(message, list));
            }
        }
        messages
    }

    /// Adds up the changes of all shards, and sets tables right.
    fn add_up(&mut self, messages: &[Vec<u32>], post: &Post<'_>) {
        let mut readers: Vec<&[u32]> = messages.iter().map(Vec::as_slice).collect();
        for reader in &mut readers {
            let (sums, rest) = reader.split_at(2 * self.visits.len());
            for (visits, sums) in self.visits.iter_mut().zip(sums.chunks_exact(2)) {
                visits.stops = visits.stops.wrapping_add(sums[0]);
                visits.passes = visits.passes.wrapping_add(sums[1]);
            }
            *reader = rest;
        }
        let shards_of: Vec<_> = (0..post.peers()).map(|worker| self.shards_of(worker, post)).collect();
        for owner in self.owners.values_mut() {
            for (reader, shards) in readers.iter_mut().zip(&shards_of) {
                shards.clone().for_each(|shard| owner.add_up(shard as usize, read_list(reader)));
            }
            owner.tree.repair(&mut owner.marks);
        }
    }

    /// What the own shards tell as owners.
    fn tell(&mut self, post: &Post<'_>) -> Vec<Vec<u32>> {
        let mut sums = vec![0u32; 2 * self.restaurants.len()];
        for owner in self.owners.values_mut() {
            for ((sums, now), told) in sums.chunks_exact_mut(2).zip(&owner.tree.restaurants).zip(&mut owner.told) {
                sums[0] = sums[0].wrapping_add(now.customers.wrapping_sub(told.customers));
                sums[1] = sums[1].wrapping_add(now.tables.wrapping_sub(told.tables));
                *told = *now;
            }
        }
        let mut told = vec![];
        let mut messages = vec![sums; post.peers()];
        for (worker, message) in messages.iter_mut().enumerate() {
            for shard in self.shards_of(worker, post) {
                for owner in self.owners.values() {
                    told.clear();
                    owner.tell(shard as usize, &mut told);
                    write_list(message, &told);
                }
            }
        }
        self.owners.values_mut().for_each(|owner| owner.marks.clear());
        messages
    }

    /// Takes what all owners tell into the own shards.
    fn set(&mut self, shards: &mut BTreeMap<u32, Shard>, messages: &[Vec<u32>], post: &Post<'_>) {
        let mut readers: Vec<&[u32]> = messages.iter().map(Vec::as_slice).collect();
        for reader in &mut readers {
            let (sums, rest) = reader.split_at(2 * self.restaurants.len());
            for (restaurant, sums) in self.restaurants.iter_mut().zip(sums.chunks_exact(2)) {
                restaurant.customers = restaurant.customers.wrapping_add(sums[0]);
                restaurant.tables = restaurant.tables.wrapping_add(sums[1]);
            }
            *reader = rest;
        }
        for shard in shards.values_mut() {
            for (worker, reader) in readers.iter_mut().enumerate() {
                for owner in self.owners_of(worker, post) {
                    shard.view.set(&mut shard.tree, owner as usize, read_list(reader));
                }
            }
            for &(number, restaurant) in &shard.view.restaurants {
                shard.tree.restaurants[restaurant as usize] = self.restaurants[number as usize];
                if let Some(visits) = self.visits.get(number as usize) {
                    shard.tree.visits[restaurant as usize] = *visits;
                }
            }
        }
    }

    /// What is wrong with the top after a synchronisation, if anything, if all shards are own ones.
    #[cfg(test)]
    pub fn fault(&self, shards: &BTreeMap<u32, Shard>) -> Option<String> {
        let mut customers = BTreeMap::<(u32, u32), u64>::new();
        let mut counts = BTreeMap::<(u32, u32), (u32, u32)>::new();
        for (number, shard) in shards {
            let Shard { tree, view, .. } = shard;
            let name: BTreeMap<u32, (u32, u32)> = (view.restaurants.iter())
                .flat_map(|&(number, restaurant)| tree.dishes_of(restaurant).map(move |dish| (dish, number)))
                .map(|(dish, number)| (dish, (number, tree.outcomes[dish as usize])))
                .collect();
            for (dish, stops) in (0..).zip(shard.stops()) {
                let Dish { customers: now, tables, parent, .. } = tree.dishes[dish as usize];
                if let Some(&name) = name.get(&dish) {
                    *customers.entry(name).or_default() += u64::from(stops);
                    if *counts.entry(name).or_insert((now, tables)) != (now, tables) {
                        return Some(format!("shard {number} has other counts of {name:?}"));
                    }
                } else if let Some(&above) = name.get(&parent) {
                    *customers.entry(above).or_default() += u64::from(tables);
                }
            }
        }
        let root = self.restaurants.len().checked_sub(1)? as u32;
        for (&(_, outcome), &(_, tables)) in counts.iter().filter(|((restaurant, _), _)| *restaurant != root) {
            *customers.entry((root, outcome)).or_default() += u64::from(tables);
        }
        let mut sums = vec![Restaurant::default(); self.restaurants.len()];
        for (name, &(now, tables)) in &counts {
            let expected = customers.get(name).copied().unwrap_or(0);
            if u64::from(now) != expected || tables < now.min(1) || tables > now {
                return Some(format!("{name:?} has {now} customers at {tables} tables instead of {expected}"));
            }
            sums[name.0 as usize].customers += now;
            sums[name.0 as usize].tables += tables;
        }
        (sums != self.restaurants).then(|| format!("the sums are {:?} instead of {sums:?}", self.restaurants))
    }
}

/// A list in a message: its length, then what it has.
fn write_list(message: &mut Vec<u32>, list: &[u32]) {
    message.push(list.len() as u32);
    message.extend_from_slice(list);
}

fn read_list<'m>(message: &mut &'m [u32]) -> &'m [u32] {
    let (&length, rest) = message.split_first().expect("a list");
    let (list, rest) = rest.split_at(length as usize);
    *message = rest;
    list
}
