//! A hierarchy of restaurants as it is kept and asked: p(outcome | context), by going down the tree as far as the context
//! is known.
//!
//! p(x | h) = seats + share * p(x | h'), where seats = (c - a t) / (C + b) is 0 for an outcome that the restaurant does not
//! serve, and share = (b + a T) / (C + b). Written are the counts; what restaurants weigh is made on reading: 16 bytes a
//! restaurant and 12 a dish are all that a hierarchy takes beside its tree.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::mixture::LONG;
use crate::error::ensure;
use crate::restaurant::kept::{KeptTree, Kind};
use crate::restaurant::lone::{Tail, Tails};
use crate::restaurant::parameters::Parameters;
use crate::restaurant::seating::DEEPEST;
use crate::restaurant::tree::Tree;

/// What is written of a hierarchy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptHierarchy {
    tree: KeptTree,
    /// By dish.
    customers: Vec<u32>,
    tables: Vec<u32>,
    pub parameters: Parameters,
    /// Number of outcomes; all are equal below the root.
    outcomes: u32,
    /// Contexts that one token alone has, where they have no restaurants.
    tails: Tails,
}

impl KeptHierarchy {
    /// What was learned, where the tree has everything.
    pub fn of(tree: &Tree, parameters: &Parameters, outcomes: u32) -> KeptHierarchy {
        let (mut customers, mut tables) = (vec![], vec![]);
        let is_kept = |restaurant: u32| tree.restaurants[restaurant as usize].customers > 0;
        let is_dish_kept = |dish: u32| tree.dishes[dish as usize].customers > 0;
        let kept = KeptTree::new(tree, is_kept, is_dish_kept, |_, dish| {
            if let Some(dish) = dish {
                customers.push(tree.dishes[dish as usize].customers);
                tables.push(tree.dishes[dish as usize].tables);
            }
        });
        KeptHierarchy {
            tree: kept,
            customers,
            tables,
            parameters: parameters.clone(),
            outcomes,
            tails: Tails::default(),
        }
    }

    /// What parts of the tokens have taught, as one: their contexts are of one part each, but for the shortest, of which all
    /// parts have the same counts.
    pub fn merge(mut parts: Vec<KeptHierarchy>) -> KeptHierarchy {
        if parts.len() == 1 {
            return parts.remove(0);
        }
        let (mut customers, mut tables, mut origins) = (vec![], vec![], vec![]);
        let trees: Vec<&KeptTree> = parts.iter().map(|part| &part.tree).collect();
        let tree = KeptTree::merge(&trees, |part, kind| match kind {
            Kind::Restaurant(restaurant) => origins.push((part, restaurant)),
            Kind::Dish(dish) => {
                customers.push(parts[part as usize].customers[dish as usize]);
                tables.push(parts[part as usize].tables[dish as usize]);
            }
        });
        let tails: Vec<&Tails> = parts.iter().map(|part| &part.tails).collect();
        let tails = Tails::merge(&tails, tree.level_starts(), &origins);
        KeptHierarchy {
            tree,
            customers,
            tables,
            parameters: parts[0].parameters.clone(),
            outcomes: parts[0].outcomes,
            tails,
        }
    }

    /// The same with tails, of a tree in which every restaurant has customers.
    pub fn with_tails(self, tails: Tails) -> KeptHierarchy {
        KeptHierarchy { tails, ..self }
    }

    /// The first elements of all contexts.
    pub fn first_elements(&self) -> impl Iterator<Item = u32> {
        let level = if self.tree.restaurants() > 0 { self.tree.children(0) } else { 0..0 };
        level.map(|restaurant| self.tree.element(restaurant))
    }

    /// Checks that this can be a hierarchy of contexts of so many elements: files may be damaged.
    pub fn validate(&self, depth: usize, outcomes: u32, elements: u32) -> Result<(), String> {
        ensure(depth <= DEEPEST && self.outcomes == outcomes && outcomes > 0, "the number of outcomes")?;
        self.parameters.validate(depth + 1)?;
        match self.tree.restaurants() {
            0 => {
                self.tree.validate_empty(depth + 1)?;
                ensure(self.customers.is_empty() && self.tables.is_empty() && self.tails.is_empty(), "the counts")?;
            }
            _ => {
                self.tree.validate(depth + 1, outcomes, elements)?;
                self.tree.validate_counts(&self.customers, &self.tables)?;
            }
        }
        ensure(self.tails.is_sound(self.tree.level_starts(), depth, outcomes), "contexts that one token alone has")
    }

    /// By depth: restaurants, customers and tables; those of single tokens are among them.
    pub fn sizes(&self) -> Vec<[u64; 3]> {
        let sum = |list: &[u32]| list.iter().map(|&n| u64::from(n)).sum::<u64>();
        let size = |depth: usize| {
            let mut size = [0; 3];
            for restaurant in self.tree.level(depth) {
                let dishes = self.tree.dishes(restaurant);
                size[0] += 1;
                size[1] += sum(&self.customers[dishes.clone()]);
                size[2] += sum(&self.tables[dishes]);
            }
            size
        };
        let mut sizes: Vec<[u64; 3]> = (0..self.parameters.discounts.len()).map(size).collect();
        for (depth, tails) in self.tails.counts().enumerate() {
            sizes.iter_mut().skip(depth + 1).flatten().for_each(|count| *count += tails);
        }
        sizes
    }
}

/// The restaurants of a context, from the root to the longest one that is known.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    restaurants: [u32; DEEPEST + 1],
    length: usize,
    /// Where the context goes on as that of a single token.
    tail: Option<Tail>,
}

impl Path {
    /// No restaurant.
    pub const EMPTY: Path = Path { restaurants: [0; DEEPEST + 1], length: 0, tail: None };

    /// The restaurant of the longest context; none where there are no restaurants.
    #[inline]
    pub fn deepest(&self) -> Option<usize> {
        Some(self.restaurants[self.length.checked_sub(1)?] as usize)
    }

    /// A number that two paths of a hierarchy have in common only where they predict the same.
    #[inline]
    pub fn key(&self) -> u64 {
        match (self.tail, self.deepest()) {
            (Some(tail), _) => 1 << 63 | u64::from(tail.number) << 8 | u64::from(tail.length),
            (None, Some(restaurant)) => restaurant as u64,
            (None, None) => u64::MAX,
        }
    }
}

/// A hierarchy to be asked.
pub struct Distribution {
    kept: Arc<KeptHierarchy>,
    base: f64,
    /// By restaurant: the share of its parent, and 1 / (C + b).
    shares: Vec<[f64; 2]>,
    /// By depth: share and seat of the only customer of a restaurant.
    lone: Vec<[f64; 2]>,
}

impl Distribution {
    pub fn new(kept: Arc<KeptHierarchy>) -> Distribution {
        let mut shares = Vec::with_capacity(kept.tree.restaurants());
        let parameters = || kept.parameters.discounts.iter().zip(&kept.parameters.strengths);
        for (depth, (a, b)) in parameters().enumerate().filter(|_| kept.tree.restaurants() > 0) {
            for restaurant in kept.tree.level(depth) {
                let dishes = kept.tree.dishes(restaurant);
                let customers: u64 = kept.customers[dishes.clone()].iter().map(|&c| u64::from(c)).sum();
                let tables: u64 = kept.tables[dishes].iter().map(|&t| u64::from(t)).sum();
                let whole = customers as f64 + b;
                shares.push([(b + a * tables as f64) / whole, 1.0 / whole]);
            }
        }
        let lone = parameters().map(|(a, b)| [(b + a) / (1.0 + b), (1.0 - a) * (1.0 / (1.0 + b))]).collect();
        Distribution { base: 1.0 / f64::from(kept.outcomes), shares, lone, kept }
    }

    pub fn tree(&self) -> &KeptTree {
        &self.kept.tree
    }

    /// Number of outcomes.
    pub fn outcomes(&self) -> usize {
        self.kept.outcomes as usize
    }

    pub fn customers(&self, dish: usize) -> u32 {
        self.kept.customers[dish]
    }

    /// Whether all contexts have restaurants.
    pub fn has_all_contexts(&self) -> bool {
        self.kept.tails.is_empty()
    }

    /// The restaurants of a context.
    #[inline]
    pub fn path(&self, values: &[u32]) -> Path {
        let tree = &self.kept.tree;
        let mut path = Path { length: usize::from(tree.restaurants() > 0), ..Path::EMPTY };
        let mut at = 0;
        for (depth, &value) in values.iter().enumerate().take_while(|_| tree.restaurants() > 0) {
            let Some(child) = tree.find_child(at, value) else {
                path.tail = self.kept.tails.follow(at, depth, &values[depth..]);
                break;
            };
            at = child;
            path.restaurants[path.length] = at as u32;
            path.length += 1;
        }
        path
    }

    /// (c - a t) / (C + b) of a dish of a restaurant.
    #[inline]
    fn seats(&self, depth: usize, restaurant: usize, dish: usize) -> f64 {
        let (c, t) = (f64::from(self.kept.customers[dish]), f64::from(self.kept.tables[dish]));
        (c - self.kept.parameters.discounts[depth] * t) * self.shares[restaurant][1]
    }

    /// Share and seat of the restaurants of a path's tail.
    fn lone(&self, path: &Path) -> impl Iterator<Item = (u32, &[f64; 2])> {
        let outcome_and_length = path.tail.map_or((0, 0), |tail| (tail.outcome, usize::from(tail.length)));
        let (outcome, length) = outcome_and_length;
        self.lone[path.length..path.length + length].iter().map(move |lone| (outcome, lone))
    }

    /// How much of p does not come from long contexts ([`super::mixture`]).
    #[inline]
    pub fn short_share(&self, path: &Path) -> f64 {
        let long = path.restaurants[..path.length].iter().skip(LONG);
        let shares: f64 = long.map(|&restaurant| self.shares[restaurant as usize][0]).product();
        let tail = self.lone(path).skip(LONG.saturating_sub(path.length));
        tail.fold(shares, |all, (_, [share, _])| all * share)
    }

    /// p(outcome | context).
    #[inline]
    pub fn probability(&self, path: &Path, outcome: u32) -> f64 {
        let mut p = self.base;
        let mut is_served = true; // what a restaurant does not serve, none below it does
        for (depth, &restaurant) in path.restaurants[..path.length].iter().enumerate() {
            let restaurant = restaurant as usize;
            let dish = if is_served { self.kept.tree.find_dish(restaurant, outcome) } else { None };
            is_served = dish.is_some();
            let seats = dish.map_or(0.0, |dish| self.seats(depth, restaurant, dish));
            p = seats + self.shares[restaurant][0] * p;
        }
        if path.tail.is_some() {
            for (only, [share, seat]) in self.lone(path) {
                p = if only == outcome { *seat } else { 0.0 } + share * p;
            }
        }
        p
    }

    /// p of every outcome, given the context.
    pub fn fill(&self, path: &Path, probabilities: &mut Vec<f64>) {
        probabilities.resize(self.kept.outcomes as usize, 0.0);
        self.fill_slice(path, probabilities);
    }

    /// The same; there is a place for each.
    pub fn fill_slice(&self, path: &Path, probabilities: &mut [f64]) {
        probabilities.fill(self.base);
        for (depth, &restaurant) in path.restaurants[..path.length].iter().enumerate() {
            self.descend(depth, restaurant as usize, probabilities);
        }
        for (only, [share, seat]) in self.lone(path) {
            probabilities.iter_mut().for_each(|p| *p *= share);
            probabilities[only as usize] += seat;
        }
    }

    /// Turns p of every outcome at a restaurant's parent into those at the restaurant.
    fn descend(&self, depth: usize, restaurant: usize, probabilities: &mut [f64]) {
        let share = self.shares[restaurant][0];
        probabilities.iter_mut().for_each(|p| *p *= share);
        for dish in self.kept.tree.dishes(restaurant) {
            probabilities[self.kept.tree.outcome(dish) as usize] += self.seats(depth, restaurant, dish);
        }
    }

    /// Shows each restaurant with p of every outcome there.
    pub fn each_restaurant(&self, mut show: impl FnMut(usize, &[f64])) {
        if self.kept.tree.restaurants() == 0 {
            return;
        }
        let mut levels = vec![vec![self.base; self.kept.outcomes as usize]];
        let mut open = vec![(0usize, 0usize)];
        while let Some((restaurant, depth)) = open.pop() {
            if levels.len() <= depth + 1 {
                levels.push(vec![]);
            }
            let (above, below) = levels.split_at_mut(depth + 1);
            below[0].clone_from(&above[depth]);
            self.descend(depth, restaurant, &mut below[0]);
            show(restaurant, &below[0]);
            open.extend(self.kept.tree.children(restaurant).map(|child| (child, depth + 1)));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cluster::rng::{Purpose, generator};
    use crate::restaurant::deal::{Deal, Keys};
    use crate::restaurant::franchise::Franchise;
    use crate::restaurant::lone::SHORTEST;
    use crate::restaurant::merge::Change;
    use crate::restaurant::tree::{Paths, Sorted};

    const DEPTH: usize = 4;
    const OUTCOMES: u32 = 3;

    /// Contexts of [`DEPTH`] elements, each with an outcome behind.
    struct Lists(Vec<[u32; DEPTH + 1]>);

    impl Paths for Lists {
        fn count(&self) -> usize {
            self.0.len()
        }
        fn symbols(&self) -> usize {
            1000
        }
        fn depth(&self) -> usize {
            DEPTH
        }
        fn outcome(&self, token: usize) -> u32 {
            self.0[token][DEPTH]
        }
        fn element(&self, token: usize, depth: usize) -> Option<u32> {
            (depth < DEPTH).then(|| self.0[token][depth])
        }
    }

    fn train(lists: &Lists, is_cut: bool) -> Distribution {
        let mut sorted = Sorted::new(lists);
        if is_cut {
            sorted.cut_lone(SHORTEST);
        }
        let planted = Tree::plant_sorted(lists, sorted);
        let tails = if is_cut { Tails::new(lists, &planted) } else { Tails::default() };
        let base = 1.0 / f64::from(OUTCOMES);
        let mut franchise = Franchise::new(Arc::new(Deal::alone()), Parameters::new(DEPTH, 0.6, 0.8), base, None);
        franchise.add(0, planted, lists, lists.count());
        let mut rng = generator(3, Purpose::Sweep, 0, 0);
        franchise.seat(0, &mut rng);
        (0..3).for_each(|_| franchise.sweep(0, &mut rng));
        let (shards, parameters) = franchise.into_shards();
        let kept = KeptHierarchy::of(&shards[&0].tree, &parameters, OUTCOMES).with_tails(tails);
        assert_eq!(kept.validate(DEPTH, OUTCOMES, 1000), Ok(()));
        Distribution::new(Arc::new(kept))
    }

    /// Contexts of few values, so that some are shared, and some of many, in one, two and three bytes.
    fn contexts() -> impl Strategy<Value = Vec<[u32; DEPTH + 1]>> {
        let token = (0..2u32, 0..3u32, prop_oneof![0..2u32, 300..302u32], 0..4u32, 0..OUTCOMES);
        prop::collection::vec(token.prop_map(|(a, b, c, d, outcome)| [a, b, c, d, outcome]), 1..30)
    }

    /// What tokens have taught where every dish has one table.
    fn at_one_table(lists: &Lists) -> KeptHierarchy {
        let mut sorted = Sorted::new(lists);
        sorted.cut_lone(SHORTEST);
        let planted = Tree::plant_sorted(lists, sorted);
        let tails = Tails::new(lists, &planted);
        let mut tree = planted.tree;
        planted.leaves.iter().for_each(|&dish| tree.change(Change { dish, tables: 0, tokens: 1 }));
        (0..tree.dishes.len() as u32).for_each(|dish| tree.change(Change { dish, tables: 1, tokens: 0 }));
        KeptHierarchy::of(&tree, &Parameters::new(DEPTH, 0.6, 0.8), OUTCOMES).with_tails(tails)
    }

    /// What the tokens of several shards have taught apart is what they teach together, where contexts are of one shard.
    fn assert_parts_make_up_the_whole(tokens: &[[u32; DEPTH + 1]], shards: u32) {
        let mut by_element = vec![0; 1000];
        tokens.iter().for_each(|token| by_element[token[0] as usize] += 1);
        let keys = Keys::new(&by_element, shards);
        let counts = vec![1; keys.count()];
        let deal = Deal::new(keys, &counts);
        let is_of =
            |token: &[u32; DEPTH + 1], shard| deal.shard_of(token[..DEPTH].iter().copied(), token[DEPTH]) == shard;
        let of = |shard: u32| Lists(tokens.iter().filter(|token| is_of(token, shard)).copied().collect());
        let parts: Vec<KeptHierarchy> = (0..shards).map(|shard| at_one_table(&of(shard))).collect();
        let (merged, whole) = (KeptHierarchy::merge(parts), at_one_table(&Lists(tokens.to_vec())));
        assert_eq!(merged.tree, whole.tree);
        assert_eq!(merged.tails, whole.tails);
        assert_eq!(merged.validate(DEPTH, OUTCOMES, 1000), Ok(()));
        let first = whole.tree.dishes(whole.tree.level(2).start).start;
        assert_eq!(merged.customers[first..], whole.customers[first..]);
        assert_eq!(merged.tables, whole.tables);
    }

    /// What is wide in a shard without tails makes no tail of another shard wider.
    #[test]
    fn tails_are_as_wide_as_they_need_to_be() {
        let shared = [1, 0, 300, 2, 0];
        assert_parts_make_up_the_whole(&[shared, [0; DEPTH + 1], shared], 3);
    }

    proptest! {
        #[test]
        fn parts_make_up_the_whole(tokens in contexts(), shards in 1..4u32) {
            assert_parts_make_up_the_whole(&tokens, shards);
        }

        /// Whether contexts of single tokens have restaurants or not, every draw and every probability is the same.
        #[test]
        fn lone_contexts_need_no_restaurants(tokens in contexts(), asked in contexts()) {
            let lists = Lists(tokens);
            let (whole, cut) = (train(&lists, false), train(&lists, true));
            prop_assert_eq!(whole.kept.sizes(), cut.kept.sizes());
            prop_assert!(cut.tree().restaurants() <= whole.tree().restaurants());
            for question in lists.0.iter().chain(&asked) {
                let (context, outcome) = (&question[..DEPTH], question[DEPTH]);
                let paths = [&whole, &cut].map(|distribution| distribution.path(context));
                prop_assert_eq!(whole.probability(&paths[0], outcome), cut.probability(&paths[1], outcome));
                let mut all = [vec![], vec![]];
                whole.fill(&paths[0], &mut all[0]);
                cut.fill(&paths[1], &mut all[1]);
                prop_assert_eq!(&all[0], &all[1]);
                prop_assert!((all[1].iter().sum::<f64>() - 1.0).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn most_contexts_of_a_sparse_corpus_are_tails() {
        let tokens = (0..200).map(|token| [token % 2, token % 5, token * 7 % 199, token % 3, token % OUTCOMES]);
        let lists = Lists(tokens.collect());
        let (whole, cut) = (train(&lists, false), train(&lists, true));
        assert!(cut.tree().restaurants() * 10 < whole.tree().restaurants(), "{}", cut.tree().restaurants());
        let path = cut.path(&lists.0[11][..DEPTH]);
        let tail = path.tail.expect("a context of its own");
        assert_eq!((tail.length, tail.outcome), (2, lists.0[11][DEPTH]));
        let other = cut.path(&[1, 1, lists.0[11][2], 9]);
        assert_eq!(other.tail.map(|tail| tail.length), Some(1), "{other:?}");
        assert_ne!(path.key(), other.key());
    }

    #[test]
    fn damaged_tails_are_refused() {
        let lists = Lists((0..50).map(|token| [0, 1, token, token, token % OUTCOMES]).collect());
        let kept = train(&lists, true).kept;
        let levels = kept.tree.level_starts();
        assert!(kept.tails.is_sound(levels, DEPTH, OUTCOMES));
        assert!(!kept.tails.is_sound(levels, DEPTH, 1), "outcomes that there are not");
        assert!(!kept.tails.is_sound(levels, DEPTH - 1, OUTCOMES), "another depth");
        assert!(!kept.tails.is_sound(&[0, 1, 2, 2, 2, 2], DEPTH, OUTCOMES), "other restaurants");
    }
}
