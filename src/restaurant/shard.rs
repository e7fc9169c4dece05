//! The restaurants of one shard: a tree planted from its tokens, and the seating of these.
//!
//! Tokens are distinct (context, outcome) leaves with counts, in the order of the tree, so that a sweep stays in the
//! cache; where they come from, and in which order, makes no difference.
//!
//! A shard's tree also has the restaurants of the top that its tokens pass ([`super::top`]), with the counts of all shards as
//! they stood at the last synchronisation and the shard's own changes since.

use super::merge::{Change, Marks};
use super::order::{self, Scratch, StopPrior};
use super::parameters::{Census, Parameters};
use super::seating::{House, Path};
use super::top::View;
use super::tree::{NONE, Paths, Planted, Tree, Visits};
use crate::cluster::rng::Generator;
use crate::error::ensure;

/// Tokens of one context and outcome.
#[derive(Clone, Copy, Debug)]
struct Leaf {
    dish: u32,
    /// How many, and whether their contexts were cut ([`CUT`]).
    tokens: u32,
}

/// Marks leaves whose tokens have longer contexts than the tree has for them.
const CUT: u32 = 1 << 31;

impl Leaf {
    #[inline]
    fn tokens(self) -> u32 {
        self.tokens & !CUT
    }

    #[inline]
    fn is_cut(self) -> bool {
        self.tokens & CUT != 0
    }
}

/// What seating takes beside a shard.
pub struct Sampler {
    pub house: House,
    /// The prior of stopping, if every token has an order of its own.
    pub stop: Option<StopPrior>,
    path: Path,
    scratch: Scratch,
    census: Census,
}

impl Sampler {
    pub fn new(house: House, stop: Option<StopPrior>) -> Sampler {
        Sampler { house, stop, path: Path::default(), scratch: Scratch::default(), census: Census::default() }
    }
}

/// One shard.
pub struct Shard {
    pub tree: Tree,
    leaves: Vec<Leaf>,
    /// The order of each token, if tokens have their own: those of the first leaf first ([`order::add`]).
    orders: Vec<u8>,
    pub(super) view: View,
    /// How many contexts its tokens have that are not of the top, those that were cut off among them.
    contexts: u64,
}

/// A shard as a checkpoint keeps it: the tables of the dishes that it alone has, and orders.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct SavedShard {
    pub(super) tables: Vec<u32>,
    /// Tables of the dishes of the top whose owner the shard is.
    pub(super) owned: Vec<u32>,
    pub(super) orders: Vec<u8>,
}

impl Shard {
    /// The restaurants of `planted`, of which the first `seated` of `paths` are customers; of the others, p can be asked.
    pub(super) fn new(planted: Planted, paths: &impl Paths, seated: usize, view: View, has_orders: bool) -> Shard {
        let Planted { mut tree, order, leaves: dishes } = planted;
        if has_orders {
            tree.visits = vec![Visits::default(); tree.restaurants.len()];
        }
        let mut leaves: Vec<Leaf> = vec![];
        for (&token, &dish) in order.iter().zip(&dishes).filter(|(token, _)| (**token as usize) < seated) {
            let is_cut = paths.length(token as usize) > tree.depth_of(dish);
            let kind = if is_cut { CUT } else { 0 };
            match leaves.last_mut() {
                Some(last) if last.dish == dish && last.is_cut() == is_cut => last.tokens += 1,
                _ => leaves.push(Leaf { dish, tokens: 1 | kind }),
            }
        }
        leaves.shrink_to_fit();
        let mut shard = Shard { tree, leaves, orders: vec![], view, contexts: 0 };
        let seated = order.iter().zip(&dishes).filter(|(token, _)| (**token as usize) < seated);
        let cut = seated.map(|(&token, &dish)| paths.length(token as usize) - shard.tree.depth_of(dish));
        shard.contexts = cut.sum::<usize>() as u64 + shard.passed();
        shard
    }

    /// How many restaurants its tokens pass that are not of the top.
    fn passed(&self) -> u64 {
        let mut passed = Marks::new(self.tree.restaurants.len());
        for leaf in &self.leaves {
            let mut dish = leaf.dish;
            while dish != NONE && !passed.contains(self.tree.dishes[dish as usize].restaurant) {
                passed.set(self.tree.dishes[dish as usize].restaurant);
                dish = self.tree.dishes[dish as usize].parent;
            }
        }
        let of_top = self.view.restaurants().filter(|&restaurant| passed.contains(restaurant)).count();
        (passed.iter().count() - of_top) as u64
    }

    /// How many contexts its tokens have that no other shard has, whatever their orders are.
    pub fn contexts(&self) -> u64 {
        self.contexts
    }

    /// Number of tokens.
    pub fn tokens(&self) -> u64 {
        self.leaves.iter().map(|leaf| u64::from(leaf.tokens())).sum()
    }

    /// The leaf of each token, in the order of contexts: its dish, and whether the token's context was cut.
    pub fn each_token(&self) -> impl Iterator<Item = (u32, bool)> + '_ {
        let leaf = |leaf: &Leaf| std::iter::repeat_n((leaf.dish, leaf.is_cut()), leaf.tokens() as usize);
        self.leaves.iter().flat_map(leaf)
    }

    /// The order of each token, if tokens have their own ([`order::add`]).
    pub fn orders(&self) -> &[u8] {
        &self.orders
    }

    /// p of a dish, if the next customer comes to it.
    pub(super) fn probability(&self, leaf: u32, sampler: &mut Sampler) -> f64 {
        let Sampler { house, stop, path, scratch, .. } = sampler;
        path.find(&self.tree, leaf);
        match stop {
            None => {
                house.probabilities(&self.tree, path, &mut scratch.words);
                scratch.words[path.depth()]
            }
            Some(stop) => order::probability(house, stop, &self.tree, path, scratch),
        }
    }

    /// Seats all tokens for the first time.
    pub(super) fn seat(&mut self, sampler: &mut Sampler, rng: &mut Generator) {
        let tokens = if sampler.stop.is_some() { self.tokens() } else { 0 };
        self.orders = vec![0; tokens as usize];
        self.pass::<true>(sampler, rng);
    }

    /// Takes every token out and seats it again.
    pub(super) fn sweep(&mut self, sampler: &mut Sampler, rng: &mut Generator) {
        self.pass::<false>(sampler, rng);
    }

    fn pass<const IS_FIRST: bool>(&mut self, sampler: &mut Sampler, rng: &mut Generator) {
        match (sampler.stop, self.view.is_empty()) {
            (None, true) => self.pass_fixed::<IS_FIRST, false>(sampler, rng),
            (None, false) => self.pass_fixed::<IS_FIRST, true>(sampler, rng),
            (Some(stop), true) => self.pass_infinite::<IS_FIRST, false>(&stop, sampler, rng),
            (Some(stop), false) => self.pass_infinite::<IS_FIRST, true>(&stop, sampler, rng),
        }
    }

    /// `IS_FIRST`: tokens have no seats yet. `HAS_TOP`: changes of the top are noted.
    fn pass_fixed<const IS_FIRST: bool, const HAS_TOP: bool>(&mut self, sampler: &mut Sampler, rng: &mut Generator) {
        let Shard { tree, leaves, view, .. } = self;
        let Sampler { house, path, scratch, .. } = sampler;
        for leaf in leaves.iter() {
            path.find(tree, leaf.dish);
            if HAS_TOP {
                view.enter(path);
            }
            // A token that was its dish's only customer comes back to it, and opens a table again.
            let mut changed = |dish, is_only: bool| {
                if HAS_TOP && (IS_FIRST || !is_only) {
                    view.touch(path, dish);
                }
            };
            for _ in 0..leaf.tokens() {
                if !IS_FIRST {
                    house.remove(tree, path, path.depth(), &mut changed, rng);
                }
                house.probabilities(tree, path, &mut scratch.words);
                house.add(tree, path, path.depth(), &scratch.words, &mut changed, rng);
            }
            if HAS_TOP && IS_FIRST {
                view.touch_end(path, path.depth());
            }
        }
    }

    fn pass_infinite<const IS_FIRST: bool, const HAS_TOP: bool>(
        &mut self,
        stop: &StopPrior,
        sampler: &mut Sampler,
        rng: &mut Generator,
    ) {
        let Shard { tree, leaves, orders, view, .. } = self;
        let Sampler { house, path, scratch, .. } = sampler;
        let mut rest = orders.as_mut_slice();
        for leaf in leaves.iter() {
            path.find(tree, leaf.dish);
            if HAS_TOP {
                view.enter(path);
            }
            let (own, others) = rest.split_at_mut(leaf.tokens() as usize);
            rest = others;
            for kept in own {
                let mut changed = |dish, _| {
                    if HAS_TOP {
                        view.touch(path, dish);
                    }
                };
                let before = usize::from(*kept);
                if !IS_FIRST {
                    order::remove(house, tree, path, before, &mut changed, rng);
                }
                let after = order::add(house, stop, tree, path, leaf.is_cut(), scratch, &mut changed, rng);
                if HAS_TOP {
                    view.touch_end(path, after);
                    if !IS_FIRST {
                        view.touch_end(path, before);
                    }
                }
                *kept = after as u8;
            }
        }
    }

    /// The restaurants of a depth that are not of the top, in runs.
    fn own_restaurants(&self, depth: usize) -> impl Iterator<Item = std::ops::Range<u32>> + '_ {
        let level = self.tree.levels[depth].restaurants.clone();
        let mut from = level.start;
        std::iter::from_fn(move || {
            let is_own = |restaurant: &u32| !self.view.has(depth, *restaurant);
            let start = (from..level.end).find(is_own)?;
            let end = if self.view.is_empty() || depth > 1 {
                level.end
            } else {
                (start..level.end).find(|restaurant| !is_own(restaurant)).unwrap_or(level.end)
            };
            from = end;
            Some(start..end)
        })
    }

    /// The dishes of a depth that are not of the top.
    fn own_dishes(&self, depth: usize) -> impl Iterator<Item = u32> + '_ {
        self.own_restaurants(depth)
            .flat_map(|run| self.tree.dishes_of(run.start).start..self.tree.dishes_of(run.end - 1).end)
    }

    pub(super) fn save(&self) -> SavedShard {
        let dishes = (0..self.tree.levels.len()).flat_map(|depth| self.own_dishes(depth));
        let tables = dishes.map(|dish| self.tree.dishes[dish as usize].tables).collect();
        SavedShard { tables, owned: vec![], orders: self.orders.clone() }
    }

    /// Seats the tokens, which have no seats yet, as a checkpoint has them.
    pub(super) fn load(&mut self, saved: SavedShard) -> Result<(), String> {
        let depths = 0..self.tree.levels.len();
        let dishes: Vec<u32> = depths.flat_map(|depth| self.own_dishes(depth)).collect();
        ensure(dishes.len() == saved.tables.len(), "the number of dishes")?;
        for (dish, tables) in dishes.into_iter().zip(saved.tables) {
            self.tree.change(Change { dish, tables: tables as i32, tokens: 0 });
        }
        let has_orders = !self.tree.visits.is_empty();
        ensure(saved.orders.len() as u64 == if has_orders { self.tokens() } else { 0 }, "the number of orders")?;
        self.orders = saved.orders;
        let Shard { tree, leaves, orders, view, .. } = self;
        let (mut path, mut orders) = (Path::default(), orders.iter());
        for leaf in leaves.iter() {
            path.find(tree, leaf.dish);
            if !has_orders {
                tree.come(leaf.dish, leaf.tokens());
                continue;
            }
            for &order in orders.by_ref().take(leaf.tokens() as usize) {
                let order = usize::from(order);
                ensure(order <= path.depth() + usize::from(leaf.is_cut()), "the orders of tokens")?;
                tree.come(path.dish(order.min(path.depth())), 1);
                order::visit(tree, &path, order, 1);
            }
        }
        view.touch_all();
        Ok(())
    }

    /// Counts the states of the own restaurants and dishes of a depth.
    pub(super) fn count(&self, depth: usize, census: &mut Census) {
        for run in self.own_restaurants(depth) {
            let dishes = self.tree.dishes_of(run.start).start..self.tree.dishes_of(run.end - 1).end;
            self.tree.restaurants[run.start as usize..run.end as usize]
                .iter()
                .for_each(|r| census.count_restaurant(*r));
            self.tree.dishes[dishes.start as usize..dishes.end as usize].iter().for_each(|d| census.count_dish(*d));
        }
    }

    /// What is wrong with the counts below the top, if anything.
    #[cfg(test)]
    pub(super) fn fault(&self) -> Option<String> {
        let stops = self.stops();
        if self.view.is_empty() {
            return self.tree.fault(|dish| stops[dish as usize]);
        }
        let mut customers = stops;
        for (number, dish) in self.tree.dishes.iter().enumerate() {
            let depth = self.tree.depth_of(number as u32);
            if self.view.has(depth, dish.restaurant) {
                continue;
            }
            if dish.customers != customers[number] || !(dish.customers.min(1)..=dish.customers).contains(&dish.tables) {
                return Some(format!("dish {number}: {dish:?}, {} customers", customers[number]));
            }
            customers[dish.parent as usize] += dish.tables;
        }
        None
    }

    /// By dish, the tokens that stop there.
    #[cfg(test)]
    pub(super) fn stops(&self) -> Vec<u32> {
        let mut stops = vec![0; self.tree.dishes.len()];
        let mut path = Path::default();
        for (token, (leaf, _)) in self.each_token().enumerate() {
            path.find(&self.tree, leaf);
            let order = self.orders.get(token).map_or(path.depth(), |&order| usize::from(order));
            stops[path.dish(order.min(path.depth())) as usize] += 1;
        }
        stops
    }
}

impl Sampler {
    /// Draws the auxiliary variables of what `count` counts at each depth: their sums.
    pub(super) fn draw_statistics(
        &mut self,
        depths: usize,
        count: impl Fn(usize, &mut Census),
        rng: &mut Generator,
    ) -> Vec<f64> {
        let mut figures = vec![];
        for depth in 0..depths {
            self.census.clear();
            count(depth, &mut self.census);
            let Parameters { discounts, strengths } = &self.house.parameters;
            let (a, b) = (discounts[depth], strengths[depth]);
            figures.extend(self.census.draw(a, b, self.house.alone(depth), rng).figures());
        }
        figures
    }
}
