//! A hierarchy of restaurants as it is kept and asked: p(outcome | context), by going down the tree as far as the context
//! is known.
//!
//! p(x | h) = seats + share * p(x | h'), where seats = (c - a t) / (C + b) is 0 for an outcome that the restaurant does not
//! serve, and share = (b + a T) / (C + b). Written are the counts; the weights are made on reading.

use serde::{Deserialize, Serialize};

use crate::restaurant::kept::KeptTree;
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
        KeptHierarchy { tree: kept, customers, tables, parameters: parameters.clone(), outcomes }
    }

    /// Whether the numbers can be those of a model with contexts of so many elements; a file may be damaged.
    pub fn is_sound(&self, depth: usize, outcomes: u32, elements: u32) -> bool {
        let Parameters { discounts, strengths } = &self.parameters;
        let dishes = self.customers.len();
        let is_empty = self.tree.restaurants() == 0 && dishes == 0;
        depth <= DEEPEST
            && self.outcomes == outcomes
            && [discounts.len(), strengths.len()] == [depth + 1, depth + 1]
            && (is_empty || self.tree.is_sound(depth + 1, outcomes, elements))
            && [self.tree.all_dishes(), self.tables.len()] == [dishes, dishes]
    }

    /// By depth: restaurants, customers and tables.
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
        (0..self.parameters.discounts.len()).map(size).collect()
    }
}

/// The restaurants of a context, from the root to the longest one that is known.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    restaurants: [u32; DEEPEST + 1],
    length: usize,
}

impl Path {
    /// No restaurant.
    pub const EMPTY: Path = Path { restaurants: [0; DEEPEST + 1], length: 0 };

    /// The restaurant of the longest context; none where there are no restaurants.
    #[inline]
    pub fn deepest(&self) -> Option<usize> {
        Some(self.restaurants[self.length.checked_sub(1)?] as usize)
    }
}

/// A hierarchy to be asked.
pub struct Distribution {
    tree: KeptTree,
    base: f64,
    outcomes: u32,
    /// By restaurant.
    shares: Vec<f64>,
    /// By dish.
    seats: Vec<f64>,
    /// By dish: how many customers it has.
    customers: Vec<u32>,
}

impl Distribution {
    pub fn new(kept: &KeptHierarchy) -> Distribution {
        let mut distribution = Distribution {
            tree: kept.tree.clone(),
            base: 1.0 / f64::from(kept.outcomes),
            outcomes: kept.outcomes,
            shares: vec![],
            seats: vec![],
            customers: kept.customers.clone(),
        };
        let depths = if kept.tree.restaurants() == 0 { 0 } else { kept.parameters.discounts.len() };
        for depth in 0..depths {
            let (a, b) = (kept.parameters.discounts[depth], kept.parameters.strengths[depth]);
            for restaurant in kept.tree.level(depth) {
                let dishes = kept.tree.dishes(restaurant);
                let customers: u64 = kept.customers[dishes.clone()].iter().map(|&c| u64::from(c)).sum();
                let tables: u64 = kept.tables[dishes.clone()].iter().map(|&t| u64::from(t)).sum();
                let whole = customers as f64 + b;
                distribution.shares.push((b + a * tables as f64) / whole);
                for dish in dishes {
                    let (c, t) = (f64::from(kept.customers[dish]), f64::from(kept.tables[dish]));
                    distribution.seats.push((c - a * t) / whole);
                }
            }
        }
        distribution
    }

    pub fn tree(&self) -> &KeptTree {
        &self.tree
    }

    pub fn outcomes(&self) -> u32 {
        self.outcomes
    }

    pub fn customers(&self, dish: usize) -> u32 {
        self.customers[dish]
    }

    /// The restaurants of a context.
    #[inline]
    pub fn path(&self, values: &[u32]) -> Path {
        let mut path = Path { length: usize::from(self.tree.restaurants() > 0), ..Path::EMPTY };
        let mut at = 0;
        for &value in values.iter().take_while(|_| self.tree.restaurants() > 0) {
            let Some(child) = self.tree.find_child(at, value) else { break };
            at = child;
            path.restaurants[path.length] = at as u32;
            path.length += 1;
        }
        path
    }

    /// p(outcome | context).
    #[inline]
    pub fn probability(&self, path: &Path, outcome: u32) -> f64 {
        let mut p = self.base;
        for &restaurant in &path.restaurants[..path.length] {
            let seats = self.tree.find_dish(restaurant as usize, outcome).map_or(0.0, |dish| self.seats[dish]);
            p = seats + self.shares[restaurant as usize] * p;
        }
        p
    }

    /// p of every outcome, given the context.
    pub fn fill(&self, path: &Path, probabilities: &mut Vec<f64>) {
        probabilities.clear();
        probabilities.resize(self.outcomes as usize, self.base);
        path.restaurants[..path.length].iter().for_each(|&restaurant| self.descend(restaurant as usize, probabilities));
    }

    /// Turns p of every outcome at a restaurant's parent into those at the restaurant.
    fn descend(&self, restaurant: usize, probabilities: &mut [f64]) {
        let share = self.shares[restaurant];
        probabilities.iter_mut().for_each(|p| *p *= share);
        for dish in self.tree.dishes(restaurant) {
            probabilities[self.tree.outcome(dish) as usize] += self.seats[dish];
        }
    }

    /// Shows each restaurant with p of every outcome there.
    pub fn each_restaurant(&self, mut show: impl FnMut(usize, &[f64])) {
        if self.tree.restaurants() == 0 {
            return;
        }
        let mut levels = vec![vec![self.base; self.outcomes as usize]];
        let mut open = vec![(0usize, 0usize)];
        while let Some((restaurant, depth)) = open.pop() {
            if levels.len() <= depth + 1 {
                levels.push(vec![]);
            }
            let (above, below) = levels.split_at_mut(depth + 1);
            below[0].clone_from(&above[depth]);
            self.descend(restaurant, &mut below[0]);
            show(restaurant, &below[0]);
            open.extend(self.tree.children(restaurant).map(|child| (child, depth + 1)));
        }
    }
}
