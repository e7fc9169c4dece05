//! A tree of restaurants that grows: contexts and dishes are made when they are first needed, and found by hashing.
//!
//! Where tokens change from sweep to sweep, since the derivations that they belong to are drawn anew, nobody can say
//! beforehand which contexts there will be; where they never change, [`super::franchise`] is faster. Counts and seating are
//! the same ([`super::seating`]).
//!
//! A dish is known by its parent and the last element of its context; at the root, by its outcome. Numbers are dealt in the
//! order in which dishes are made, which differs between workers: so no draw and no sum depends on numbers, and what
//! travels are definitions of the dishes that a worker has made since the last time, then changes by the sender's numbers.
//! Every worker holds all restaurants. What is exact with one shard and what is not with several is as in
//! [`super::merge`].

use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::merge::{Change, Marks};
use super::parameters::{Census, Hyperprior, Parameters};
use super::seating::{DEEPEST, House, Path};
use super::stirling::EXACT;
use super::tree::{Dish, NONE, Paths, Restaurant, Tree};
use crate::cluster::rng::Generator;

/// The restaurants of a context, from the root to the longest one that there is.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    restaurants: [u32; DEEPEST + 1],
    length: usize,
}

pub struct Growing {
    tree: Tree,
    house: House,
    /// All contexts have so many elements.
    depth: usize,
    /// By restaurant: its depth, and a number that follows from its context alone.
    depths: Vec<u8>,
    keys: Vec<u64>,
    /// By restaurant and last element, by restaurant and outcome. They are only ever asked, never gone through.
    children: FxHashMap<(u32, u32), u32>,
    served: FxHashMap<(u32, u32), u32>,
    /// Dishes that have changed since the last synchronisation, with their customers and tables then.
    touched: Vec<(u32, [u32; 2])>,
    is_touched: Vec<bool>,
    /// What the own shards have changed.
    changes: Vec<Change>,
    /// Dishes that the other workers have been told of, and by worker what its numbers are here.
    told: usize,
    numbers: Vec<Vec<u32>>,
    path: Path,
    probabilities: [f64; DEEPEST + 1],
}

impl Growing {
    /// No customers. All contexts have `depth` elements; `base` is the probability of every outcome below the root.
    pub fn new(depth: usize, parameters: Parameters, base: f64) -> Growing {
        let mut growing = Growing {
            tree: Tree::default(),
            house: House::new(parameters, base),
            depth,
            depths: vec![],
            keys: vec![],
            children: FxHashMap::default(),
            served: FxHashMap::default(),
            touched: vec![],
            is_touched: vec![],
            changes: vec![],
            told: 0,
            numbers: vec![],
            path: Path::default(),
            probabilities: [0.0; DEEPEST + 1],
        };
        growing.open(0, NONE, 0);
        growing
    }

    pub fn parameters(&self) -> &Parameters {
        &self.house.parameters
    }

    pub fn set_parameters(&mut self, parameters: Parameters) {
        self.house.set_parameters(parameters);
    }

    fn open(&mut self, depth: u8, element: u32, key: u64) -> u32 {
        self.tree.restaurants.push(Restaurant::default());
        self.tree.elements.push(element);
        self.depths.push(depth);
        self.keys.push(key);
        self.depths.len() as u32 - 1
    }

    fn serve(&mut self, restaurant: u32, outcome: u32, parent: u32) -> u32 {
        let Growing { tree, served, is_touched, .. } = self;
        *served.entry((restaurant, outcome)).or_insert_with(|| {
            tree.dishes.push(Dish { parent, restaurant, ..Dish::default() });
            tree.outcomes.push(outcome);
            is_touched.push(false);
            tree.dishes.len() as u32 - 1
        })
    }

    /// The root's dish of an outcome, which is made where there is none.
    fn root_dish(&mut self, outcome: u32) -> u32 {
        self.serve(0, outcome, NONE)
    }

    /// The dish below `parent` whose context has `element` behind.
    fn dish_below(&mut self, parent: u32, element: u32) -> u32 {
        let above = self.tree.dishes[parent as usize].restaurant;
        let restaurant = match self.children.get(&(above, element)) {
            Some(&restaurant) => restaurant,
            None => {
                let key = xxh3_64_with_seed(&element.to_le_bytes(), self.keys[above as usize]);
                let restaurant = self.open(self.depths[above as usize] + 1, element, key);
                self.children.insert((above, element), restaurant);
                restaurant
            }
        };
        self.serve(restaurant, self.tree.outcomes[parent as usize], parent)
    }

    /// The dish of an outcome in the restaurant of a whole context.
    pub fn leaf(&mut self, context: &[u32], outcome: u32) -> u32 {
        let root = self.root_dish(outcome);
        context.iter().fold(root, |parent, &element| self.dish_below(parent, element))
    }

    /// The restaurants of a context.
    #[inline]
    pub fn chain(&self, context: &[u32]) -> Chain {
        let mut chain = Chain { restaurants: [0; DEEPEST + 1], length: 1 };
        for &element in context {
            let last = chain.restaurants[chain.length - 1];
            let Some(&child) = self.children.get(&(last, element)) else { break };
            chain.restaurants[chain.length] = child;
            chain.length += 1;
        }
        chain
    }

    /// p(outcome | context). Restaurants without customers say nothing: whether a worker has met them must not show, not
    /// even as what is lost in rounding.
    #[inline]
    pub fn predict(&self, chain: &Chain, outcome: u32) -> f64 {
        let Parameters { discounts, strengths } = &self.house.parameters;
        let mut p = self.house.base;
        let mut is_served = true; // a dish that a parent does not serve, no child does
        for (depth, &number) in chain.restaurants[..chain.length].iter().enumerate() {
            let (a, b) = (discounts[depth], strengths[depth]);
            let restaurant = self.tree.restaurants[number as usize];
            if restaurant.customers == 0 {
                break;
            }
            let mut seats = 0.0;
            if is_served {
                match self.served.get(&(number, outcome)) {
                    Some(&dish) => {
                        let dish = self.tree.dishes[dish as usize];
                        seats = f64::from(dish.customers) - a * f64::from(dish.tables);
                    }
                    None => is_served = false,
                }
            }
            p = (seats + (b + a * f64::from(restaurant.tables)) * p) / (f64::from(restaurant.customers) + b);
        }
        p
    }

    /// How much of p in a context does not come from its restaurants at `depth` and below.
    #[inline]
    pub fn short_share(&self, chain: &Chain, depth: usize) -> f64 {
        self.share_of(chain.restaurants[..chain.length].iter().copied().enumerate().skip(depth))
    }

    /// The same in the context of a dish.
    pub fn short_share_at(&mut self, leaf: u32, depth: usize) -> f64 {
        self.path.find_at(&self.tree, leaf, self.depth);
        self.share_of((depth..=self.depth).map(|depth| (depth, self.path.restaurant(depth))))
    }

    /// How much of p restaurants, each with its depth, leave to their parents.
    fn share_of(&self, restaurants: impl Iterator<Item = (usize, u32)>) -> f64 {
        let Parameters { discounts, strengths } = &self.house.parameters;
        let all = restaurants.map(|(depth, number)| (depth, self.tree.restaurants[number as usize]));
        let with_customers = all.take_while(|(_, restaurant)| restaurant.customers > 0);
        let share = |(depth, restaurant): (usize, Restaurant)| {
            let (customers, tables) = (f64::from(restaurant.customers), f64::from(restaurant.tables));
            (strengths[depth] + discounts[depth] * tables) / (customers + strengths[depth])
        };
        with_customers.map(share).product()
    }

    fn touch(touched: &mut Vec<(u32, [u32; 2])>, is_touched: &mut [bool], number: u32, dish: &Dish) {
        if !std::mem::replace(&mut is_touched[number as usize], true) {
            touched.push((number, [dish.customers, dish.tables]));
        }
    }

    fn find_path(&mut self, leaf: u32) {
        let Growing { path, tree, touched, is_touched, depth, .. } = self;
        path.find_at(tree, leaf, *depth);
        for depth in 0..=*depth {
            let dish = path.dish(depth);
            Growing::touch(touched, is_touched, dish, &tree.dishes[dish as usize]);
        }
    }

    /// p of the next customer of `leaf`.
    pub fn probability(&mut self, leaf: u32) -> f64 {
        let Growing { path, tree, house, probabilities, depth, .. } = self;
        path.find_at(tree, leaf, *depth);
        house.probabilities(tree, path, probabilities);
        probabilities[*depth]
    }

    /// Seats a customer; returns p of it before, and how many tables it opened.
    pub fn add(&mut self, leaf: u32, rng: &mut Generator) -> (f64, u8) {
        self.find_path(leaf);
        let Growing { path, tree, house, probabilities, depth, .. } = self;
        house.probabilities(tree, path, probabilities);
        let mut opened = 0;
        house.add(tree, path, *depth, probabilities, &mut |_, _| opened += 1, rng);
        (probabilities[*depth], opened)
    }

    /// Takes a customer away; returns how many tables it closed.
    pub fn remove(&mut self, leaf: u32, rng: &mut Generator) -> u8 {
        self.find_path(leaf);
        let Growing { path, tree, house, depth, .. } = self;
        let mut closed = 0;
        house.remove(tree, path, *depth, &mut |_, _| closed += 1, rng);
        closed
    }

    /// Seats a customer who opens so many tables.
    pub fn put_back(&mut self, leaf: u32, tables: u8) {
        self.force(leaf, tables, 1);
    }

    /// Takes a customer away who opened so many tables, and was the last to come.
    pub fn take_back(&mut self, leaf: u32, tables: u8) {
        self.force(leaf, tables, -1);
    }

    fn force(&mut self, leaf: u32, tables: u8, by: i32) {
        self.find_path(leaf);
        let Growing { path, tree, depth, .. } = self;
        for above in 0..=usize::from(tables).min(*depth) {
            let opens = if above < usize::from(tables) { by } else { 0 };
            let dish = &mut tree.dishes[path.dish(*depth - above) as usize];
            let restaurant = &mut tree.restaurants[path.restaurant(*depth - above) as usize];
            dish.customers = dish.customers.wrapping_add_signed(by);
            dish.tables = dish.tables.wrapping_add_signed(opens);
            restaurant.customers = restaurant.customers.wrapping_add_signed(by);
            restaurant.tables = restaurant.tables.wrapping_add_signed(opens);
        }
    }

    /// Notes what has changed since the last synchronisation, and returns the counts to where they were.
    pub fn note(&mut self) {
        for (number, [customers, tables]) in self.touched.drain(..) {
            self.is_touched[number as usize] = false;
            let dish = self.tree.dishes[number as usize];
            let is_leaf = usize::from(self.depths[dish.restaurant as usize]) == self.depth;
            let tokens = if is_leaf { dish.customers.wrapping_sub(customers) as i32 } else { 0 };
            let tables = dish.tables.wrapping_sub(tables) as i32;
            if tokens != 0 || tables != 0 {
                self.changes.push(Change { dish: number, tables, tokens });
            }
        }
    }

    /// Returns the counts to where they were before the changes behind the first `from`.
    pub fn undo(&mut self, from: usize) {
        for change in &self.changes[from..] {
            self.tree.change(Change { tables: -change.tables, tokens: -change.tokens, ..*change });
        }
    }

    /// Changes that are noted.
    pub fn noted(&self) -> usize {
        self.changes.len()
    }

    /// Forgets that anything has changed: where one shard is alone.
    pub fn settle(&mut self) {
        self.touched.drain(..).for_each(|(number, _)| self.is_touched[number as usize] = false);
    }

    /// The tables of every dish, in the order of their numbers: parent, element (or outcome), tables.
    pub fn save(&self) -> Vec<u32> {
        let mut saved = vec![];
        for number in 0..self.tree.dishes.len() {
            self.define(number, &mut saved);
            saved.push(self.tree.dishes[number].tables);
        }
        saved
    }

    /// Notes tables that [`Growing::save`] gave; they do not stand in the counts yet.
    pub fn load(&mut self, saved: &[u32]) -> Result<(), String> {
        let mut own: Vec<u32> = vec![];
        for record in saved.chunks(3) {
            let &[parent, element, tables] = record else { return Err("a record is cut short".to_string()) };
            let dish = self.take_definition(parent, element, &own).ok_or("a parent comes behind its child")?;
            own.push(dish);
            self.changes.push(Change { dish, tables: tables as i32, tokens: 0 });
        }
        Ok(())
    }

    /// Notes tokens that do not stand in the counts yet.
    pub fn load_token(&mut self, leaf: u32) {
        self.changes.push(Change { dish: leaf, tables: 0, tokens: 1 });
    }

    fn define(&self, number: usize, into: &mut Vec<u32>) {
        let dish = self.tree.dishes[number];
        into.push(dish.parent);
        into.push(if dish.parent == NONE {
            self.tree.outcomes[number]
        } else {
            self.tree.elements[dish.restaurant as usize]
        });
    }

    /// The dish that somebody defines; `own` are the numbers here of those that were defined before.
    fn take_definition(&mut self, parent: u32, element: u32, own: &[u32]) -> Option<u32> {
        match parent {
            NONE => Some(self.root_dish(element)),
            parent => {
                let parent = *own.get(parent as usize)?;
                let depth = self.depths[self.tree.dishes[parent as usize].restaurant as usize];
                (usize::from(depth) < self.depth).then(|| self.dish_below(parent, element))
            }
        }
    }

    /// What the other workers are to be told: new dishes, then changes, which do not stand in the counts.
    pub fn letter(&mut self) -> Vec<u32> {
        let new = self.told..self.tree.dishes.len();
        let mut letter = vec![new.len() as u32];
        new.clone().for_each(|number| self.define(number, &mut letter));
        self.told = new.end;
        for change in std::mem::take(&mut self.changes) {
            letter.extend([change.dish, change.tables as u32, change.tokens as u32]);
        }
        letter
    }

    /// Takes the letters of all workers, by sender, and sets tables right.
    pub fn take_letters<'l>(&mut self, letters: impl Iterator<Item = &'l [u32]>) {
        let mut changes = vec![];
        for (sender, letter) in letters.enumerate() {
            if self.numbers.len() <= sender {
                self.numbers.push(vec![]);
            }
            let mut numbers = std::mem::take(&mut self.numbers[sender]);
            let (definitions, rest) = letter[1..].split_at(2 * letter[0] as usize);
            for definition in definitions.chunks_exact(2) {
                let dish = self.take_definition(definition[0], definition[1], &numbers);
                numbers.push(dish.expect("parents are defined first"));
            }
            changes.extend(rest.chunks_exact(3).map(|change| Change {
                dish: numbers[change[0] as usize],
                tables: change[1] as i32,
                tokens: change[2] as i32,
            }));
            self.numbers[sender] = numbers;
        }
        changes.iter().for_each(|change| self.tree.change(*change));
        self.repair(&changes);
    }

    /// Takes the own changes, where there is no other worker, and sets tables right.
    pub fn take_own(&mut self) {
        let changes = std::mem::take(&mut self.changes);
        changes.iter().for_each(|change| self.tree.change(*change));
        self.repair(&changes);
    }

    /// Sets tables right, from the deepest dishes up. Dishes are made before those below them, so their numbers rise with
    /// depth on every path.
    fn repair(&mut self, changes: &[Change]) {
        let mut marks = Marks::new(self.tree.dishes.len());
        let last = self.tree.dishes.len() as u32 - 1;
        let turned = |dish: u32| last - dish;
        for change in changes {
            let mut dish = change.dish;
            while dish != NONE {
                marks.set(turned(dish));
                dish = self.tree.dishes[dish as usize].parent;
            }
        }
        for number in marks.iter().map(turned) {
            let dish = self.tree.dishes[number as usize];
            let (customers, tables) = (dish.customers as i32, dish.tables as i32);
            debug_assert!(customers >= 0, "dish {number} has {customers} customers");
            let right = tables.clamp(customers.min(1), customers);
            if right != tables {
                self.tree.change(Change { dish: number, tables: right - tables, tokens: 0 });
            }
        }
    }

    /// Draws the auxiliary variables of the restaurants at home in a shard: their sums, by depth. A restaurant is at home in
    /// the shard that its context names.
    pub fn statistics(&mut self, shard: u32, shards: u32, rng: &mut Generator) -> Vec<f64> {
        let is_home = |restaurant: usize| self.keys[restaurant] % u64::from(shards) == u64::from(shard);
        let mut census = vec![Census::default(); self.depth + 1];
        // Large ones are drawn one by one, so their order must follow from what they are.
        let (mut large, mut large_dishes) = (vec![], vec![]);
        for (number, &restaurant) in self.tree.restaurants.iter().enumerate().filter(|(number, _)| is_home(*number)) {
            let depth = usize::from(self.depths[number]);
            match restaurant.customers > EXACT {
                true => large.push((depth, restaurant.customers, restaurant.tables)),
                false => census[depth].count_restaurant(restaurant),
            }
        }
        for dish in self.tree.dishes.iter().filter(|dish| is_home(dish.restaurant as usize)) {
            let depth = usize::from(self.depths[dish.restaurant as usize]);
            match dish.customers > EXACT {
                true => large_dishes.push((depth, dish.customers, dish.tables)),
                false => census[depth].count_dish(*dish),
            }
        }
        large.sort_unstable();
        large_dishes.sort_unstable();
        for (depth, customers, tables) in large {
            census[depth].count_restaurant(Restaurant { customers, tables });
        }
        for (depth, customers, tables) in large_dishes {
            census[depth].count_dish(Dish { customers, tables, ..Dish::default() });
        }
        let mut figures = vec![];
        for (depth, census) in census.iter_mut().enumerate() {
            let (a, b) = (self.house.parameters.discounts[depth], self.house.parameters.strengths[depth]);
            figures.extend(census.draw(a, b, self.house.alone(depth), rng).figures());
        }
        figures
    }

    /// How many statistics there are.
    pub fn statistics_count(&self) -> usize {
        4 * (self.depth + 1)
    }

    /// Draws discounts and strengths from the sums of the statistics of all shards.
    pub fn learn(&mut self, sums: &[f64], prior: &Hyperprior, rng: &mut Generator) {
        let parameters = self.house.parameters.redrawn(sums, prior, rng);
        self.house.set_parameters(parameters);
    }

    /// The restaurants that have customers, numbered by their contexts.
    pub fn to_tree(&self) -> Tree {
        let leaves = Leaves::of(self);
        let planted = Tree::plant(&leaves);
        let mut tree = planted.tree;
        for (&token, &leaf) in planted.order.iter().zip(&planted.leaves) {
            let (mut own, mut new) = (leaves.leaves[token as usize], leaf);
            while own != NONE {
                let from = self.tree.dishes[own as usize];
                let to = &mut tree.dishes[new as usize];
                (to.customers, to.tables) = (from.customers, from.tables);
                tree.restaurants[to.restaurant as usize] = self.tree.restaurants[from.restaurant as usize];
                (own, new) = (from.parent, to.parent);
            }
        }
        tree
    }
}

/// The leaves that have customers, with their contexts.
struct Leaves<'g> {
    growing: &'g Growing,
    leaves: Vec<u32>,
    contexts: Vec<u32>,
    symbols: usize,
}

impl Leaves<'_> {
    fn of(growing: &Growing) -> Leaves<'_> {
        let tree = &growing.tree;
        let mut found = Leaves { growing, leaves: vec![], contexts: vec![], symbols: 0 };
        for (number, dish) in (0..).zip(&tree.dishes) {
            if dish.customers == 0 || usize::from(growing.depths[dish.restaurant as usize]) < growing.depth {
                continue;
            }
            found.leaves.push(number);
            let start = found.contexts.len();
            let mut at = *dish;
            while at.parent != NONE {
                found.contexts.push(tree.elements[at.restaurant as usize]);
                at = tree.dishes[at.parent as usize];
            }
            found.contexts[start..].reverse();
        }
        let outcomes = found.leaves.iter().map(|&leaf| tree.outcomes[leaf as usize]);
        found.symbols = outcomes.chain(found.contexts.iter().copied()).max().map_or(0, |most| most as usize + 1);
        found
    }
}

impl Paths for Leaves<'_> {
    fn count(&self) -> usize {
        self.leaves.len()
    }

    fn symbols(&self) -> usize {
        self.symbols
    }

    fn depth(&self) -> usize {
        self.growing.depth
    }

    fn outcome(&self, token: usize) -> u32 {
        self.growing.tree.outcomes[self.leaves[token] as usize]
    }

    fn element(&self, token: usize, depth: usize) -> Option<u32> {
        (depth < self.growing.depth).then(|| self.contexts[token * self.growing.depth + depth])
    }

    fn length(&self, _: usize) -> usize {
        self.growing.depth
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;
    use crate::cluster::rng::{Purpose, generator};

    /// Another worker has met other contexts and outcomes, and says the same, bit by bit.
    #[test]
    fn what_has_no_customers_says_nothing() {
        let mut rng = generator(3, Purpose::Synth, 0, 0);
        let mut growing = Growing::new(3, Parameters::new(3, 0.37, 0.61), 0.1);
        let mut draw = |many: u32| -> Vec<([u32; 3], u32)> {
            let token = |rng: &mut Generator| (std::array::from_fn(|_| rng.random_range(0..6)), rng.random_range(0..9));
            (0..many).map(|_| token(&mut rng)).collect()
        };
        let (seated, other) = (draw(60), draw(400));
        let mut rng = generator(3, Purpose::Sweep, 0, 0);
        for (context, outcome) in &seated {
            let leaf = growing.leaf(context, *outcome);
            growing.add(leaf, &mut rng);
        }
        let ask = |growing: &Growing| -> Vec<f64> {
            other.iter().map(|(context, outcome)| growing.predict(&growing.chain(context), *outcome)).collect()
        };
        let before = ask(&growing);
        for (context, outcome) in &other {
            growing.leaf(context, *outcome);
        }
        assert_eq!(before, ask(&growing));
    }
}
