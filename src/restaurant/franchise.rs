//! A tree of restaurants whose tokens are dealt to shards: the state that a sweep driver's model keeps for one
//! hierarchical Pitman-Yor process.
//!
//! Tokens are distinct (context, outcome) leaves with counts, in the order of the tree, so that a sweep stays in the
//! cache. With one shard a sweep is the Gibbs sampler. With several, every shard opens and closes tables against the counts
//! as they stood at the last synchronisation and its own changes, and the sums are then set right ([`super::merge`]); how
//! often each leaf occurs is exact at every moment.
//!
//! The caller goes through: `seat` or `load` of each own shard, `synchronise`; then again and again `sweep` of each own
//! shard, `synchronise`, `statistics` of each own shard, `learn`.

use std::collections::BTreeMap;
use std::ops::Range;

use super::merge::{Change, Marks};
use super::owners::{Home, Homes, Owners};
use super::parameters::{Census, Hyperprior, Parameters};
use super::seating::{DEEPEST, House, Path};
use super::tree::{NONE, Planted, Tree};
use crate::cluster::rng::Generator;
use crate::cluster::sweep::Post;

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

pub struct Franchise {
    tree: Tree,
    house: House,
    shards: BTreeMap<u32, Leaves>,
    /// Whether the job has one shard, whose counts nobody else changes.
    is_alone: bool,
    /// Tables by dish at the last synchronisation; empty where there is one shard alone.
    base: Vec<u32>,
    /// Until the first synchronisation: what is known of where dishes are at home.
    homes: Homes,
    at_home: BTreeMap<u32, AtHome>,
    owners: Option<Owners>,
    /// Dishes whose tables the sweep over a shard has changed.
    marks: Marks,
    /// What the own shards have changed, and how many of these changes do not stand in the counts (any more).
    changes: Vec<Change>,
    undone: usize,
    /// Tables by shard from a checkpoint, until it is known which dishes they are of.
    loaded: Vec<(u32, Vec<u32>)>,
    census: Census,
    path: Path,
    probabilities: [f64; DEEPEST + 1],
}

impl Franchise {
    /// The restaurants of `planted`, whose tokens of each own shard are a run; other tokens are held for others. `base` is
    /// the probability of every outcome below the root.
    pub fn new(
        planted: Planted,
        tokens: &BTreeMap<u32, Range<usize>>,
        parameters: Parameters,
        base: f64,
        is_alone: bool,
    ) -> Franchise {
        let shards = deal(&planted, tokens);
        let tree = planted.tree;
        let dishes = if is_alone { 0 } else { tree.dishes.len() };
        let homes = own_homes(&tree, &shards);
        Franchise {
            house: House::new(parameters, base),
            shards,
            is_alone,
            base: vec![0; dishes],
            homes,
            at_home: BTreeMap::new(),
            owners: None,
            marks: Marks::new(dishes),
            changes: vec![],
            undone: 0,
            loaded: vec![],
            census: Census::default(),
            path: Path::default(),
            probabilities: [0.0; DEEPEST + 1],
            tree,
        }
    }

    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// What was learned, where all tokens are counted; the rest is dropped.
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

    /// Seats the tokens of a shard for the first time.
    pub fn seat(&mut self, number: u32, rng: &mut Generator) {
        self.undo();
        let leaves = self.shards.remove(&number).unwrap_or_default();
        let Franchise { tree, house, path, probabilities, marks, is_alone, .. } = self;
        let mut changed = |dish, _| {
            if !*is_alone {
                marks.set(dish);
            }
        };
        for &(leaf, tokens) in &leaves {
            path.find(tree, leaf);
            for _ in 0..tokens {
                house.probabilities(tree, path, probabilities);
                house.add(tree, path, path.depth(), probabilities, &mut changed, rng);
            }
        }
        if !self.is_alone {
            self.changes.extend(token_changes(&leaves));
            self.note();
        }
        self.shards.insert(number, leaves);
    }

    /// Takes every token of a shard out and seats it again.
    pub fn sweep(&mut self, number: u32, rng: &mut Generator) {
        let leaves = self.shards.remove(&number).unwrap_or_default();
        match self.is_alone {
            true => self.reseat(&leaves, |_, _, _| (), rng),
            // A token that was its dish's only customer comes back to it, and opens a table again.
            false => self.reseat(
                &leaves,
                |marks, dish, is_only| {
                    if !is_only {
                        marks.set(dish)
                    }
                },
                rng,
            ),
        }
        self.shards.insert(number, leaves);
    }

    #[inline(always)]
    fn reseat(&mut self, leaves: &Leaves, mark: impl Fn(&mut Marks, u32, bool), rng: &mut Generator) {
        let Franchise { tree, house, path, probabilities, marks, .. } = self;
        let mut changed = |dish, is_only| mark(marks, dish, is_only);
        for &(leaf, tokens) in leaves {
            path.find(tree, leaf);
            for _ in 0..tokens {
                house.remove(tree, path, path.depth(), &mut changed, rng);
                house.probabilities(tree, path, probabilities);
                house.add(tree, path, path.depth(), probabilities, &mut changed, rng);
            }
        }
    }

    /// Notes what the sweeps over a shard have changed since the last synchronisation.
    pub fn note(&mut self) {
        for dish in self.marks.iter() {
            let tables = self.tree.dishes[dish as usize].tables.wrapping_sub(self.base[dish as usize]) as i32;
            if tables != 0 {
                self.changes.push(Change { dish, tables, tokens: 0 });
            }
        }
        self.marks.clear();
    }

    /// Returns the counts to where they were at the last synchronisation.
    pub fn undo(&mut self) {
        for change in &self.changes[self.undone..] {
            self.tree.change(Change { tables: -change.tables, tokens: -change.tokens, ..*change });
        }
        self.undone = self.changes.len();
    }

    /// Notes changes that do not stand in the counts.
    fn note_undone(&mut self, changes: impl IntoIterator<Item = Change>) {
        self.undo();
        self.changes.extend(changes);
        self.undone = self.changes.len();
    }

    /// What a checkpoint keeps of a shard: tables of the dishes whose home it is, by number.
    pub fn save(&self, number: u32) -> Vec<u32> {
        let dishes = self.at_home.get(&number).into_iter().flat_map(|at_home| at_home.dishes.iter());
        dishes.map(|dish| self.tree.dishes[dish as usize].tables).collect()
    }

    /// Takes a shard from a checkpoint.
    pub fn load(&mut self, number: u32, tables: Vec<u32>) {
        let changes = self.shards.get(&number).map_or(vec![], token_changes);
        self.note_undone(changes);
        self.loaded.push((number, tables));
    }

    /// Turns tables from a checkpoint into changes of the dishes that they are of.
    fn take_loaded(&mut self) {
        for (number, tables) in std::mem::take(&mut self.loaded) {
            let dishes: Vec<u32> = self.at_home.get(&number).expect("an own shard").dishes.iter().collect();
            assert_eq!(dishes.len(), tables.len(), "the checkpoint of shard {number} has other dishes");
            let change = |(dish, tables)| Change { dish, tables: tables as i32, tokens: 0 };
            self.note_undone(dishes.into_iter().zip(tables).map(change));
        }
    }

    /// Brings what all shards have changed together. Every worker calls this.
    pub fn synchronise(&mut self, post: &mut Post<'_>) {
        if post.peers() > 1 && self.owners.is_none() && !self.is_alone {
            self.owners = Some(Owners::agree(&self.tree, &mut self.homes, false, post));
        }
        if !self.homes.dishes.is_empty() {
            self.settle_homes();
        }
        self.take_loaded();
        let (changes, undone) = (std::mem::take(&mut self.changes), std::mem::take(&mut self.undone));
        let base = &mut self.base;
        if let Some(owners) = &mut self.owners {
            return owners.synchronise(&mut self.tree, &changes, post, |dish, tree| {
                base[dish as usize] = tree.dishes[dish as usize].tables;
            });
        }
        if changes.is_empty() {
            return;
        }
        let mut marks = Marks::new(self.tree.dishes.len());
        let (undone, standing) = changes.split_at(undone);
        undone.iter().for_each(|change| self.tree.apply(*change, &mut marks));
        standing.iter().for_each(|change| self.tree.touch(*change, &mut marks));
        self.tree.repair(&mut marks);
        if !self.is_alone {
            marks.iter().for_each(|dish| base[dish as usize] = self.tree.dishes[dish as usize].tables);
        }
    }

    /// Notes what is at home in each own shard, once all workers agree.
    fn settle_homes(&mut self) {
        let homes = std::mem::take(&mut self.homes);
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

/// The tokens of a shard as changes: where they are counted for the first time.
fn token_changes(leaves: &Leaves) -> Vec<Change> {
    leaves.iter().map(|&(dish, tokens)| Change { dish, tables: 0, tokens: tokens as i32 }).collect()
}

/// The leaves of each own shard.
fn deal(planted: &Planted, tokens: &BTreeMap<u32, Range<usize>>) -> BTreeMap<u32, Leaves> {
    let mut shards: BTreeMap<u32, Leaves> = tokens.keys().map(|&number| (number, vec![])).collect();
    let mut runs: Vec<(&Range<usize>, u32)> = tokens.iter().map(|(number, range)| (range, *number)).collect();
    runs.sort_by_key(|(range, _)| range.start);
    for (&token, &leaf) in planted.order.iter().zip(&planted.leaves) {
        let run = runs.partition_point(|(range, _)| range.end <= token as usize);
        let Some((_, number)) = runs.get(run) else { continue }; // held for others
        let leaves = shards.get_mut(number).expect("a shard");
        match leaves.last_mut() {
            Some((last, tokens)) if *last == leaf => *tokens += 1,
            _ => leaves.push((leaf, 1)),
        }
    }
    shards
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
