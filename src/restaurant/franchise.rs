//! A tree of restaurants whose tokens are dealt to shards by their contexts: the state that a sweep driver's model keeps for
//! one hierarchical Pitman-Yor process.
//!
//! A token's shard follows from the first elements of its context ([`shard_of`]). So all customers of a longer context
//! are of one shard: its restaurant is known nowhere else, and nobody has to be told of it. Only the **top**, the few
//! restaurants of shorter contexts, is common to all: there every shard opens and closes tables against the counts as they
//! stood at the last synchronisation and its own changes, and the sums are then set right ([`super::merge`]). With one shard
//! nothing is common, and a sweep is the Gibbs sampler.
//!
//! Tokens are distinct (context, outcome) leaves with counts, in the order of the tree, so that a sweep stays in the
//! cache; where they come from, and in which order, makes no difference.
//!
//! The caller goes through: `seat` or `load` of each own shard, `synchronise`; then again and again `sweep` and `note` of each
//! own shard, `synchronise`, `statistics` of each own shard, `learn`.

use std::collections::BTreeMap;
use std::ops::Range;

use super::lone::SHORTEST;
use super::merge::{Change, Marks};
use super::owners::{Home, Homes, Owners};
use super::parameters::{Census, Hyperprior, Parameters};
use super::seating::{DEEPEST, House, Path};
use super::tree::{Dish, NONE, Planted, Tree};
use crate::cluster::rng::Generator;
use crate::cluster::sweep::Post;

/// So many elements of a context say which shard its tokens are of.
pub const KEY: usize = 2;

// Where contexts are cut, no token comes to stop in the top. Those of contexts with one element less than the key do: the first
// customer of a dish opens a table, which marks it, and all are of one shard.
const _: () = assert!(KEY <= SHORTEST);

/// The shard of the tokens whose contexts begin with `elements`; those behind the first [`KEY`] do not matter.
#[inline]
pub fn shard_of(elements: impl Iterator<Item = u32>, shards: u32) -> u32 {
    let mix = |hash: u64, element| (hash ^ u64::from(element)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let hash = elements.take(KEY).fold(0x85eb_ca6b, mix).wrapping_mul(0xd6e8_feb8_6659_fd93);
    ((u128::from(hash) * u128::from(shards)) >> 64) as u32
}

/// Leaves and how many tokens each has, in the order of contexts.
type Leaves = Vec<(u32, u32)>;

/// The dishes and restaurants that a shard is the home of: each is at home in one shard, and counted there.
#[derive(Debug, Default)]
struct AtHome {
    dishes: Marks,
    /// Those that more than one token passes: no others ever have a choice, or tell of discounts.
    busy_dishes: Vec<u32>,
    busy_restaurants: Vec<u32>,
}

/// What is common to all shards, as it was at the last synchronisation: the last restaurants and dishes of the tree, with the
/// same numbers less those of the first.
struct Top {
    tree: Tree,
    first_dish: u32,
    first_restaurant: u32,
    /// The first dish below: its tables are customers in the top.
    first_below: u32,
    /// What the sweep over a shard has touched.
    marks: Marks,
    owners: Option<Owners>,
}

pub struct Franchise {
    tree: Tree,
    house: House,
    shards: BTreeMap<u32, Leaves>,
    top: Top,
    /// Until the first synchronisation: what is known of where dishes are at home.
    homes: Option<Homes>,
    at_home: BTreeMap<u32, AtHome>,
    /// What the own shards have changed in the top, where nothing of it stands.
    changes: Vec<Change>,
    /// Tables by shard from a checkpoint, until it is known which dishes they are of.
    loaded: Vec<(u32, Vec<u32>)>,
    census: Census,
    path: Path,
    probabilities: [f64; DEEPEST + 1],
}

impl Top {
    fn new(tree: &Tree, shards: u32) -> Top {
        let depths = if shards == 1 { 0 } else { KEY.min(tree.depth()) };
        let first_dish = tree.first_dish_above(depths);
        Top {
            tree: tree.top(depths),
            first_dish,
            first_restaurant: tree.first_restaurant_above(depths),
            first_below: if depths == 0 { first_dish } else { tree.levels[depths].dishes.start },
            marks: Marks::new(tree.dishes.len() - first_dish as usize),
            owners: None,
        }
    }

    /// Whether anything is common.
    fn is_there(&self) -> bool {
        !self.tree.levels.is_empty()
    }

    /// Agrees with the other workers on who adds up what, and on what is at home where.
    fn agree(&mut self, homes: &mut Homes, post: &mut Post<'_>) {
        let mut common = Homes {
            dishes: homes.dishes.split_off(self.first_dish as usize),
            restaurants: homes.restaurants.split_off(self.first_restaurant as usize),
        };
        self.owners = Some(Owners::agree(&self.tree, &mut common, false, post));
        homes.dishes.append(&mut common.dishes);
        homes.restaurants.append(&mut common.restaurants);
    }

    /// Notes that the tables of a dish of `path` have changed.
    #[inline]
    fn touch(&mut self, path: &Path, dish: u32) {
        if dish >= self.first_dish {
            self.marks.set(dish - self.first_dish);
        } else if dish >= self.first_below {
            self.marks.set(path.dish(self.tree.levels.len() - 1) - self.first_dish);
        }
    }

    /// Shows what was touched, by how much it changed, and leaves it as it was at the last synchronisation.
    fn take_back(&mut self, tree: &mut Tree, mut show: impl FnMut(Change)) {
        let deepest = self.tree.levels.last().map_or(0, |level| level.dishes.end);
        let counts = |dish: &Dish| (dish.customers, dish.tables);
        for dish in self.marks.iter() {
            let (before, now) = (&self.tree.dishes[dish as usize], &mut tree.dishes[(dish + self.first_dish) as usize]);
            // Above the deepest ones, customers are the tables below.
            let tokens = if dish < deepest { now.customers.wrapping_sub(before.customers) as i32 } else { 0 };
            let tables = now.tables.wrapping_sub(before.tables) as i32;
            if (tables, tokens) != (0, 0) {
                show(Change { dish, tables, tokens });
            }
            (now.customers, now.tables) = counts(before);
            if before.parent != NONE {
                let above = &mut tree.dishes[(before.parent + self.first_dish) as usize];
                above.customers = self.tree.dishes[before.parent as usize].customers;
            }
        }
        self.marks.clear();
        tree.restaurants[self.first_restaurant as usize..].copy_from_slice(&self.tree.restaurants);
    }

    /// Brings what all shards have changed together, and writes it into `tree`, where nothing of it stands.
    fn synchronise(&mut self, tree: &mut Tree, changes: &[Change], post: &mut Post<'_>) {
        let first = self.first_dish;
        let mut settle = |dish: u32, top: &Tree| {
            let (now, settled) = (&mut tree.dishes[(dish + first) as usize], top.dishes[dish as usize]);
            (now.customers, now.tables) = (settled.customers, settled.tables);
        };
        match &mut self.owners {
            Some(owners) => owners.synchronise(&mut self.tree, changes, post, settle),
            None => {
                changes.iter().for_each(|change| self.tree.apply(*change, &mut self.marks));
                self.tree.repair(&mut self.marks);
                self.marks.iter().for_each(|dish| settle(dish, &self.tree));
                self.marks.clear();
            }
        }
        tree.restaurants[self.first_restaurant as usize..].copy_from_slice(&self.tree.restaurants);
    }
}

impl Franchise {
    /// The restaurants of `planted`, whose tokens are those of the own of so many `shards`. `base` is the probability of
    /// every outcome below the root.
    pub fn new(planted: Planted, own: &[u32], shards: u32, parameters: Parameters, base: f64) -> Franchise {
        Franchise::of_first(planted.order.len(), planted, own, shards, parameters, base)
    }

    /// The same where only the first `seated` tokens are customers; of the others, p can be asked.
    pub fn of_first(
        seated: usize,
        planted: Planted,
        own: &[u32],
        shards: u32,
        parameters: Parameters,
        base: f64,
    ) -> Franchise {
        let dealt = deal(seated, &planted, own, shards);
        let tree = planted.tree;
        let homes = Some(own_homes(&tree, &dealt));
        Franchise {
            house: House::new(parameters, base),
            top: Top::new(&tree, shards),
            shards: dealt,
            homes,
            at_home: BTreeMap::new(),
            changes: vec![],
            loaded: vec![],
            census: Census::default(),
            path: Path::default(),
            probabilities: [0.0; DEEPEST + 1],
            tree,
        }
    }

    /// What was learned of the own tokens' contexts; the rest is dropped.
    pub fn into_tree(self) -> (Tree, Parameters) {
        (self.tree, self.house.parameters)
    }

    pub fn parameters(&self) -> &Parameters {
        &self.house.parameters
    }

    pub fn set_parameters(&mut self, parameters: Parameters) {
        self.house.set_parameters(parameters);
    }

    /// Tokens of an own shard.
    pub fn tokens(&self, number: u32) -> u64 {
        self.shards.get(&number).map_or(0, |leaves| leaves.iter().map(|(_, tokens)| u64::from(*tokens)).sum())
    }

    /// p of a dish, where the next customer comes to it.
    pub fn probability(&mut self, leaf: u32) -> f64 {
        let Franchise { tree, house, path, probabilities, .. } = self;
        path.find(tree, leaf);
        house.probabilities(tree, path, probabilities);
        probabilities[path.depth()]
    }

    /// Seats the tokens of a shard for the first time.
    pub fn seat(&mut self, number: u32, rng: &mut Generator) {
        let leaves = self.shards.remove(&number).unwrap_or_default();
        let Franchise { tree, house, path, probabilities, top, .. } = self;
        for &(leaf, tokens) in &leaves {
            path.find(tree, leaf);
            for _ in 0..tokens {
                house.probabilities(tree, path, probabilities);
                house.add(tree, path, path.depth(), probabilities, &mut |dish, _| top.touch(path, dish), rng);
            }
        }
        self.shards.insert(number, leaves);
    }

    /// Takes every token of a shard out and seats it again.
    pub fn sweep(&mut self, number: u32, rng: &mut Generator) {
        let leaves = self.shards.remove(&number).unwrap_or_default();
        let Franchise { tree, house, path, probabilities, top, .. } = self;
        for &(leaf, tokens) in &leaves {
            path.find(tree, leaf);
            // A token that was its dish's only customer comes back to it, and opens a table again.
            let mut changed = |dish, is_only: bool| {
                if !is_only {
                    top.touch(path, dish);
                }
            };
            for _ in 0..tokens {
                house.remove(tree, path, path.depth(), &mut changed, rng);
                house.probabilities(tree, path, probabilities);
                house.add(tree, path, path.depth(), probabilities, &mut changed, rng);
            }
        }
        self.shards.insert(number, leaves);
    }

    /// Notes what was done to a shard since the last synchronisation, and returns the top to where it was then.
    pub fn note(&mut self) {
        let Franchise { tree, top, changes, .. } = self;
        top.take_back(tree, |change| changes.push(change));
    }

    /// What a checkpoint keeps of a shard: tables of the dishes whose home it is, by number.
    pub fn save(&self, number: u32) -> Vec<u32> {
        let dishes = self.at_home.get(&number).into_iter().flat_map(|at_home| at_home.dishes.iter());
        dishes.map(|dish| self.tree.dishes[dish as usize].tables).collect()
    }

    /// Takes a shard from a checkpoint.
    pub fn load(&mut self, number: u32, tables: Vec<u32>) {
        self.loaded.push((number, tables));
    }

    /// Seats the tokens of shards from a checkpoint at their tables.
    fn take_loaded(&mut self) {
        for (number, tables) in std::mem::take(&mut self.loaded) {
            let dishes: Vec<u32> = self.at_home[&number].dishes.iter().collect();
            assert_eq!(dishes.len(), tables.len(), "the checkpoint of shard {number} has other dishes");
            let tokens =
                self.shards[&number].iter().map(|&(dish, tokens)| Change { dish, tables: 0, tokens: tokens as i32 });
            let tables =
                dishes.into_iter().zip(tables).map(|(dish, tables)| Change { dish, tables: tables as i32, tokens: 0 });
            for change in tokens.chain(tables) {
                self.tree.change(change);
                self.path.find(&self.tree, change.dish);
                self.top.touch(&self.path, change.dish);
            }
            self.note();
        }
    }

    /// Brings what all shards have changed together. Every worker calls this.
    pub fn synchronise(&mut self, post: &mut Post<'_>) {
        if let Some(mut homes) = self.homes.take() {
            if post.peers() > 1 && self.top.is_there() {
                self.top.agree(&mut homes, post);
            }
            self.settle(&homes);
        }
        self.take_loaded();
        if self.top.is_there() {
            let changes = std::mem::take(&mut self.changes);
            self.top.synchronise(&mut self.tree, &changes, post);
        }
    }

    /// Notes what is at home in each own shard, once all workers agree.
    fn settle(&mut self, homes: &Homes) {
        let nothing = || AtHome { dishes: Marks::new(homes.dishes.len()), ..AtHome::default() };
        self.at_home = self.shards.keys().map(|&number| (number, nothing())).collect();
        for (dish, &(home, tokens)) in (0..).zip(&homes.dishes) {
            if let Some(at_home) = self.at_home.get_mut(&home.shard()) {
                at_home.dishes.set(dish);
                if tokens > 1 {
                    at_home.busy_dishes.push(dish);
                }
            }
        }
        for (restaurant, &(home, tokens)) in (0..).zip(&homes.restaurants) {
            if let Some(at_home) = self.at_home.get_mut(&home.shard()).filter(|_| tokens > 1) {
                at_home.busy_restaurants.push(restaurant);
            }
        }
    }

    /// Draws the auxiliary variables of the restaurants and dishes at home in a shard: their sums, by depth.
    pub fn statistics(&mut self, number: u32, rng: &mut Generator) -> Vec<f64> {
        let depths = self.tree.levels.len();
        let Some(at_home) = self.at_home.get(&number) else { return vec![0.0; 4 * depths] };
        let part = |list: &[u32], range: &Range<u32>| -> Range<usize> {
            list.partition_point(|at| *at < range.start)..list.partition_point(|at| *at < range.end)
        };
        let mut figures = vec![];
        for (depth, level) in self.tree.levels.iter().enumerate() {
            self.census.clear();
            for &restaurant in &at_home.busy_restaurants[part(&at_home.busy_restaurants, &level.restaurants)] {
                self.census.count_restaurant(self.tree.restaurants[restaurant as usize]);
            }
            for &dish in &at_home.busy_dishes[part(&at_home.busy_dishes, &level.dishes)] {
                self.census.count_dish(self.tree.dishes[dish as usize]);
            }
            let (a, b) = (self.house.parameters.discounts[depth], self.house.parameters.strengths[depth]);
            figures.extend(self.census.draw(a, b, self.house.alone(depth), rng).figures());
        }
        figures
    }

    /// What is wrong with the counts after a synchronisation, if anything, where all shards are own ones.
    #[cfg(test)]
    pub fn fault(&self) -> Option<String> {
        let mut tokens = vec![0; self.tree.dishes.len()];
        self.shards.values().flatten().for_each(|&(leaf, count)| tokens[leaf as usize] += count);
        self.tree.fault(|dish| tokens[dish as usize])
    }

    /// How many statistics there are.
    pub fn statistics_count(&self) -> usize {
        4 * self.tree.levels.len()
    }

    /// Draws discounts and strengths from the sums of the statistics of all shards.
    pub fn learn(&mut self, sums: &[f64], prior: &Hyperprior, rng: &mut Generator) {
        let parameters = self.house.parameters.redrawn(sums, prior, rng);
        self.house.set_parameters(parameters);
    }
}

/// The leaves of each own shard, with those of their tokens that are among the first `seated`.
fn deal(seated: usize, planted: &Planted, own: &[u32], shards: u32) -> BTreeMap<u32, Leaves> {
    let mut dealt: BTreeMap<u32, Leaves> = own.iter().map(|&number| (number, vec![])).collect();
    let mut order = planted.order.as_slice();
    for same in planted.leaves.chunk_by(|a, b| a == b) {
        let (here, behind) = order.split_at(same.len());
        order = behind;
        let tokens = here.iter().filter(|token| (**token as usize) < seated).count();
        if tokens > 0 {
            let number = shard_of(key(&planted.tree, same[0]), shards);
            dealt.get_mut(&number).expect("tokens of own shards").push((same[0], tokens as u32));
        }
    }
    dealt
}

/// The first elements of the context in which a dish is served.
fn key(tree: &Tree, dish: u32) -> impl Iterator<Item = u32> {
    let mut restaurant = tree.dishes[dish as usize].restaurant;
    let mut elements = [NONE; KEY];
    for depth in (0..tree.depth_of(dish)).rev() {
        if let Some(element) = elements.get_mut(depth) {
            *element = tree.elements[restaurant as usize];
        }
        restaurant = tree.parent_of(restaurant);
    }
    elements.into_iter().filter(|element| *element != NONE)
}

/// The homes of dishes and restaurants as far as a worker's own shards tell.
fn own_homes(tree: &Tree, shards: &BTreeMap<u32, Leaves>) -> Homes {
    let mut homes = Homes {
        dishes: vec![(Home::NOWHERE, 0); tree.dishes.len()],
        restaurants: vec![(Home::NOWHERE, 0); tree.restaurants.len()],
    };
    for (&number, leaves) in shards {
        for &(leaf, tokens) in leaves {
            let mut dish = leaf;
            while dish != NONE {
                let record = tree.dishes[dish as usize];
                let (outcome, element) = (tree.outcomes[dish as usize], tree.elements[record.restaurant as usize]);
                for (home, key) in [
                    (&mut homes.dishes[dish as usize], outcome),
                    (&mut homes.restaurants[record.restaurant as usize], element),
                ] {
                    *home = (home.0.min(Home::new(key, number)), home.1 + tokens);
                }
                dish = record.parent;
            }
        }
    }
    homes
}
