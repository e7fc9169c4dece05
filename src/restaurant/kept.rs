//! The shape of a tree as it is kept in a model file: the restaurants that have customers, ready to be looked up.
//!
//! Restaurants are numbered level by level, the root first, those of a level in the order of their contexts: so the
//! children of a restaurant are a run, sorted by their last element, and so are its dishes, by what they are. A word is
//! looked up by a binary search in each restaurant from the root down.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::tree::{NONE, Tree};
use crate::error::ensure;

/// Contexts and dishes; what belongs to them is kept beside, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KeptTree {
    /// By depth: where its restaurants begin; and their number, at the end.
    levels: Vec<u32>,
    /// By restaurant: the last element of its context, its children and its dishes (where they begin).
    elements: Vec<u32>,
    children: Vec<u32>,
    dishes: Vec<u32>,
    /// What each dish is.
    outcomes: Vec<u32>,
}

impl KeptTree {
    /// The shape of those restaurants and dishes of `tree` that are to be kept, a restaurant only with its parent. `keep`
    /// is shown, in the order of their new numbers, each restaurant followed by its dishes, as `tree` numbers them.
    pub fn new(
        tree: &Tree,
        is_kept: impl Fn(u32) -> bool,
        is_dish_kept: impl Fn(u32) -> bool,
        mut keep: impl FnMut(u32, Option<u32>),
    ) -> KeptTree {
        let mut kept = KeptTree::default();
        kept.reserve(tree, &is_kept, &is_dish_kept);
        let mut number_of = vec![NONE; tree.restaurants.len()];
        for level in &tree.levels {
            kept.levels.push(kept.elements.len() as u32);
            for restaurant in level.restaurants.clone().filter(|&restaurant| is_kept(restaurant)) {
                let number = kept.elements.len() as u32;
                number_of[restaurant as usize] = number;
                if let Some(above) = Some(tree.parent_of(restaurant)).filter(|above| *above != NONE) {
                    // Parents that have no child are caught up with; the first child is the first seen.
                    let above = number_of[above as usize] as usize;
                    kept.children.resize(kept.children.len().max(above + 1), number);
                }
                kept.elements.push(tree.elements[restaurant as usize]);
                kept.dishes.push(kept.outcomes.len() as u32);
                keep(restaurant, None);
                for dish in tree.dishes_of(restaurant).filter(|&dish| is_dish_kept(dish)) {
                    kept.outcomes.push(tree.outcomes[dish as usize]);
                    keep(restaurant, Some(dish));
                }
            }
        }
        kept.finish();
        kept
    }

    /// A tree may also be built step by step, level by level from the root on, in the order of contexts: each level begins,
    /// and then comes, for each restaurant of the level above, [`KeptTree::begin_children`], with its children behind it.
    pub fn begin_level(&mut self) {
        self.levels.push(self.elements.len() as u32);
    }

    /// The next restaurant of the level above has the children that are pushed next.
    pub fn begin_children(&mut self) {
        self.children.push(self.elements.len() as u32);
    }

    /// Adds a restaurant by the last element of its context; its dishes are pushed next.
    pub fn push_restaurant(&mut self, element: u32) {
        self.elements.push(element);
        self.dishes.push(self.outcomes.len() as u32);
    }

    pub fn push_dish(&mut self, outcome: u32) {
        self.outcomes.push(outcome);
    }

    /// Ends the last level.
    pub fn finish(&mut self) {
        let all = self.elements.len() as u32;
        self.levels.push(all);
        self.children.resize(all as usize + 1, all);
        self.dishes.push(self.outcomes.len() as u32);
    }

    /// Trees of parts of the tokens, as one: restaurants of the same context are one, and so are their dishes of the same
    /// outcome. `keep` is shown, in the order of their new numbers, each restaurant followed by its dishes: a part that has
    /// it, and its number there.
    pub fn merge(parts: &[&KeptTree], mut keep: impl FnMut(u32, Kind)) -> KeptTree {
        let mut kept = KeptTree::default();
        kept.reserve_for(parts);
        // Of the restaurants of a level: by which parts they are had, and where these end.
        let is_there = |part: &u32| parts[*part as usize].restaurants() > 0;
        let mut sources: Vec<(u32, u32)> = (0..parts.len() as u32).filter(is_there).map(|part| (part, 0)).collect();
        let mut ends: Vec<usize> = Some(sources.len()).filter(|&all| all > 0).into_iter().collect();
        let depths = parts.iter().map(|part| part.levels.len()).max().unwrap_or(1) - 1;
        for _ in 0..depths {
            kept.levels.push(kept.elements.len() as u32);
            let next_level = kept.elements.len() + ends.len();
            let (mut below, mut below_ends) = (vec![], vec![]);
            let mut start = 0;
            for &end in &ends {
                let own = &sources[start..end];
                start = end;
                kept.elements.push(parts[own[0].0 as usize].element(own[0].1 as usize));
                kept.dishes.push(kept.outcomes.len() as u32);
                keep(own[0].0, Kind::Restaurant(own[0].1));
                merge_by(
                    own,
                    |part, restaurant| parts[part].dishes(restaurant),
                    |part, dish| parts[part].outcome(dish),
                    |same| {
                        kept.outcomes.push(parts[same[0].0 as usize].outcome(same[0].1 as usize));
                        keep(same[0].0, Kind::Dish(same[0].1));
                    },
                );
                kept.children.push((next_level + below_ends.len()) as u32);
                merge_by(
                    own,
                    |part, restaurant| parts[part].children(restaurant),
                    |part, child| parts[part].element(child),
                    |same| {
                        below.extend_from_slice(same);
                        below_ends.push(below.len());
                    },
                );
            }
            (sources, ends) = (below, below_ends);
        }
        kept.finish();
        kept
    }

    /// Makes room for all of `parts`.
    fn reserve_for(&mut self, parts: &[&KeptTree]) {
        let restaurants = parts.iter().map(|part| part.restaurants()).sum::<usize>() + 1;
        let by_restaurant = [&mut self.elements, &mut self.children, &mut self.dishes];
        by_restaurant.into_iter().for_each(|list| list.reserve_exact(restaurants));
        self.outcomes.reserve_exact(parts.iter().map(|part| part.all_dishes()).sum());
    }

    /// Makes room: growing by doubling would copy, and peak.
    fn reserve(&mut self, tree: &Tree, is_kept: impl Fn(u32) -> bool, is_dish_kept: impl Fn(u32) -> bool) {
        let restaurants = (0..tree.restaurants.len() as u32).filter(|&restaurant| is_kept(restaurant)).count();
        let dishes = (0..tree.dishes.len() as u32).filter(|&dish| is_dish_kept(dish)).count();
        let by_restaurant = [&mut self.elements, &mut self.children, &mut self.dishes];
        by_restaurant.into_iter().for_each(|list| list.reserve_exact(restaurants + 1));
        self.outcomes.reserve_exact(dishes);
    }

    /// Checks that this can be a tree with so many depths, outcomes and elements: files may be damaged.
    pub fn validate(&self, depths: usize, outcomes: u32, elements: u32) -> Result<(), String> {
        let restaurants = self.restaurants();
        let has_levels = restaurants > 0
            && self.levels.len() == depths + 1
            && depths > 0
            && rises(&self.levels, restaurants)
            && self.levels[..2] == [0, 1];
        ensure(has_levels, "the levels of a tree of restaurants")?;
        // Children lie on the level below their parent, and so come after it: there are no cycles.
        let has_children = self.children.len() == restaurants + 1
            && rises(&self.children, restaurants)
            && self.levels[1..].iter().zip(&self.levels).all(|(&below, &own)| self.children[own as usize] == below);
        ensure(has_children, "the children of restaurants")?;
        let has_dishes = self.dishes.len() == restaurants + 1
            && self.dishes[0] == 0
            && rises(&self.dishes, self.outcomes.len())
            && self.outcomes.iter().all(|&outcome| outcome < outcomes);
        ensure(has_dishes, "the dishes of restaurants")?;
        ensure(self.elements[1..].iter().all(|&element| element < elements), "the contexts of restaurants")?;
        // Lookups are binary searches.
        ensure(runs_rise(&self.children, &self.elements), "the order of contexts")?;
        ensure(runs_rise(&self.dishes, &self.outcomes), "the order of dishes")
    }

    /// Checks that nothing is kept at all: a distribution that nothing was learned of.
    pub fn validate_empty(&self, depths: usize) -> Result<(), String> {
        let is_empty = |list: &[u32]| list.iter().all(|&start| start == 0);
        let holds = self.elements.is_empty()
            && self.outcomes.is_empty()
            && self.levels.len() <= depths + 1
            && self.children.len() <= 1
            && self.dishes.len() <= 1
            && [&self.levels, &self.children, &self.dishes].into_iter().all(|list| is_empty(list));
        ensure(holds, "an empty tree of restaurants")
    }

    /// Checks the customers and tables of all dishes: at least one customer at each table, and sums by level that fit into
    /// 32 bits, since no level has more customers than there are tokens.
    pub fn validate_counts(&self, customers: &[u32], tables: &[u32]) -> Result<(), String> {
        ensure([customers.len(), tables.len()] == [self.all_dishes(); 2], "the number of counts")?;
        let holds = customers.iter().zip(tables).all(|(c, t)| (1..=*c).contains(t));
        ensure(holds, "customers and tables of dishes")?;
        let dishes = |depth: usize| {
            let level = self.level(depth);
            self.dishes[level.start] as usize..self.dishes[level.end] as usize
        };
        let fits = |depth: usize| {
            let sum: u64 = customers[dishes(depth)].iter().map(|&c| u64::from(c)).sum();
            sum <= u64::from(u32::MAX)
        };
        ensure((0..self.levels.len().saturating_sub(1)).all(fits), "the number of customers")
    }

    /// Number of restaurants.
    #[inline]
    pub fn restaurants(&self) -> usize {
        self.elements.len()
    }

    /// Number of dishes of all restaurants.
    pub fn all_dishes(&self) -> usize {
        self.outcomes.len()
    }

    /// By depth: where its restaurants begin; and their number, at the end.
    pub fn level_starts(&self) -> &[u32] {
        &self.levels
    }

    /// The restaurants of a depth.
    pub fn level(&self, depth: usize) -> Range<usize> {
        self.levels[depth] as usize..self.levels[depth + 1] as usize
    }

    /// The dishes of a restaurant.
    #[inline]
    pub fn dishes(&self, restaurant: usize) -> Range<usize> {
        self.dishes[restaurant] as usize..self.dishes[restaurant + 1] as usize
    }

    #[inline]
    pub fn children(&self, restaurant: usize) -> Range<usize> {
        self.children[restaurant] as usize..self.children[restaurant + 1] as usize
    }

    /// What a dish is.
    #[inline]
    pub fn outcome(&self, dish: usize) -> u32 {
        self.outcomes[dish]
    }

    /// The last element of a restaurant's context; [`NONE`] at the root.
    pub fn element(&self, restaurant: usize) -> u32 {
        self.elements[restaurant]
    }

    /// By restaurant: the one of the context without its last element; [`NONE`] at the root.
    pub fn parents(&self) -> Vec<u32> {
        let mut parents = vec![NONE; self.restaurants()];
        for restaurant in 0..self.restaurants() {
            self.children(restaurant).for_each(|child| parents[child] = restaurant as u32);
        }
        parents
    }

    /// The dish of `outcome` in a restaurant.
    #[inline]
    pub fn find_dish(&self, restaurant: usize, outcome: u32) -> Option<usize> {
        let dishes = self.dishes(restaurant);
        let place = find(&self.outcomes[dishes.clone()], outcome)?;
        Some(dishes.start + place)
    }

    /// The restaurant whose context is that of `restaurant` and `element` behind.
    #[inline]
    pub fn find_child(&self, restaurant: usize, element: u32) -> Option<usize> {
        let children = self.children(restaurant);
        let place = find(&self.elements[children.clone()], element)?;
        Some(children.start + place)
    }
}

/// A restaurant or a dish of a part, by its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Restaurant(u32),
    Dish(u32),
}

/// Shows what several restaurants have, by rising key; what has the same key together. `own` are parts and numbers.
fn merge_by(
    own: &[(u32, u32)],
    list: impl Fn(usize, usize) -> Range<usize>,
    key: impl Fn(usize, usize) -> u32,
    mut show: impl FnMut(&[(u32, u32)]),
) {
    let of = |&(part, number): &(u32, u32)| list(part as usize, number as usize).map(move |at| (part, at as u32));
    if let [only] = own {
        return of(only).for_each(|one| show(&[one]));
    }
    let key = |&(part, at): &(u32, u32)| key(part as usize, at as usize);
    let mut all: Vec<(u32, u32)> = own.iter().flat_map(of).collect();
    all.sort_by_key(key);
    all.chunk_by(|a, b| key(a) == key(b)).for_each(show);
}

/// Whether these can be where runs begin, the last ending at `end`.
pub fn rises(starts: &[u32], end: usize) -> bool {
    starts.windows(2).all(|pair| pair[0] <= pair[1]) && starts.last() == Some(&(end as u32))
}

/// Whether the values of each run, which begin at `starts`, rise strictly.
fn runs_rise(starts: &[u32], values: &[u32]) -> bool {
    let run = |pair: &[u32]| values[pair[0] as usize..pair[1] as usize].is_sorted_by(|a, b| a < b);
    starts.windows(2).all(run)
}

/// The place of `value` in a sorted list. Most lists are short.
#[inline]
fn find(list: &[u32], value: u32) -> Option<usize> {
    if list.len() <= 8 {
        return list.iter().position(|&other| other == value);
    }
    // Outcomes of frequent restaurants are nearly all numbers: the value is often where it would be then.
    if let Some(&other) = list.get(value as usize)
        && other == value
    {
        return Some(value as usize);
    }
    // Values rise, so none is behind the place of its own number; and frequent words, which are asked for most, have small ones.
    list[..list.len().min(value as usize + 1)].binary_search(&value).ok()
}
