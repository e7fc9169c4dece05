//! Customers come and go: the Chinese restaurant process on a tree of restaurants.
//!
//! A restaurant with C customers at T tables, of which c customers at t tables have dish w, serves w next with
//! probability (Teh 2006, eq. 7; Noji et al. 2013, eq. 2)
//!
//! ```text
//! p(w | h) = (c - a t + (b + a T) p(w | h')) / (C + b)
//! ```
//!
//! where h' is the parent's context and a, b are the discount and strength of the depth. The first term is a seat at a
//! table that is there, the second a new table, which is itself a customer of the parent.
//!
//! **Only counts are kept, no table sizes.** A new customer needs none. A customer that leaves was alone with the
//! probability that [`Alone`] gives, all seatings of (c, t) weighed together: so the chain over (c, t) is exactly that
//! of a sampler with explicit tables, whose sizes are summed out. See [`crate::restaurant`] for the figures that led to
//! this choice.
//!
//! Invariants: t = 0 exactly where c = 0, and 1 <= t <= c elsewhere; a dish's customers are the tables of its children
//! and the tokens that stop there; C and T are the sums of c and t.

use super::chance::Chance;
use super::parameters::Parameters;
use super::stirling::Alone;
use super::tree::{NONE, Tree};

/// The deepest context that there may be.
pub const DEEPEST: usize = 31;

/// A token's dishes and restaurants, from the root to the whole context.
#[derive(Clone, Debug)]
pub struct Path {
    depth: usize,
    dishes: [u32; DEEPEST + 1],
    restaurants: [u32; DEEPEST + 1],
}

impl Default for Path {
    fn default() -> Path {
        Path { depth: 0, dishes: [0; DEEPEST + 1], restaurants: [0; DEEPEST + 1] }
    }
}

impl Path {
    /// The path from the root to the dish `leaf`.
    #[inline]
    pub fn find(&mut self, tree: &Tree, leaf: u32) {
        self.find_at(tree, leaf, tree.depth_of(leaf));
    }

    /// The same where the depth of `leaf` is known.
    #[inline]
    pub fn find_at(&mut self, tree: &Tree, leaf: u32, depth: usize) {
        self.depth = depth;
        let mut dish = leaf;
        for depth in (0..=self.depth).rev() {
            let record = tree.dishes[dish as usize];
            self.dishes[depth] = dish;
            self.restaurants[depth] = record.restaurant;
            dish = record.parent;
        }
        debug_assert_eq!(dish, NONE, "the path ends at the root");
    }

    /// A path of these dishes and restaurants, from the root on.
    #[inline]
    pub fn set(&mut self, places: impl Iterator<Item = (u32, u32)>) {
        self.depth = 0;
        for (depth, (dish, restaurant)) in places.enumerate() {
            (self.depth, self.dishes[depth], self.restaurants[depth]) = (depth, dish, restaurant);
        }
    }

    /// The same restaurants with other dishes, one in each.
    #[inline]
    pub fn map(&mut self, dish: impl Fn(u32) -> u32) {
        for depth in 0..=self.depth {
            self.dishes[depth] = dish(self.restaurants[depth]);
        }
    }

    /// How many dishes, from the root on, are those of another path too.
    #[inline]
    pub fn shared(&self, other: &Path) -> usize {
        let most = self.depth.min(other.depth) + 1;
        (0..most).take_while(|&depth| self.dishes[depth] == other.dishes[depth]).count()
    }

    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The dish at a depth.
    #[inline]
    pub fn dish(&self, depth: usize) -> u32 {
        self.dishes[depth]
    }

    /// The restaurant at a depth.
    #[inline]
    pub fn restaurant(&self, depth: usize) -> u32 {
        self.restaurants[depth]
    }
}

/// What seating needs beside the tree: discounts and strengths, who sits alone, and the base distribution.
#[derive(Clone, Debug)]
pub struct House {
    pub parameters: Parameters,
    alone: Vec<Alone>,
    /// p(w) below the root where all outcomes are equal. For others there are [`House::probabilities_over`] and
    /// [`House::add_over`], and [`super::base`].
    pub base: f64,
}

impl House {
    pub fn new(parameters: Parameters, base: f64) -> House {
        let alone = parameters.discounts.iter().map(|&discount| Alone::new(discount)).collect();
        House { parameters, alone, base }
    }

    /// Takes other discounts and strengths.
    pub fn set_parameters(&mut self, parameters: Parameters) {
        self.alone.iter_mut().zip(&parameters.discounts).for_each(|(alone, &discount)| alone.set_discount(discount));
        self.parameters = parameters;
    }

    /// Who sits alone at a depth.
    pub fn alone(&mut self, depth: usize) -> &mut Alone {
        &mut self.alone[depth]
    }

    /// p(w | h) at every depth of the path, the whole context's last: `probabilities[d]` is at depth d.
    #[inline]
    pub fn probabilities(&self, tree: &Tree, path: &Path, probabilities: &mut [f64; DEEPEST + 1]) {
        self.probabilities_over(self.base, tree, path, probabilities);
    }

    /// The same where the path's outcome has p(w) = `base` below the root.
    #[inline]
    pub fn probabilities_over(&self, base: f64, tree: &Tree, path: &Path, probabilities: &mut [f64; DEEPEST + 1]) {
        let mut below = base;
        for (depth, probability) in probabilities[..=path.depth].iter_mut().enumerate() {
            below = self.probability(tree, path, depth, below);
            *probability = below;
        }
    }

    /// p(w | h) at one depth, where the parent's is `below`.
    #[inline]
    pub fn probability(&self, tree: &Tree, path: &Path, depth: usize, below: f64) -> f64 {
        let (a, b) = (self.parameters.discounts[depth], self.parameters.strengths[depth]);
        let dish = &tree.dishes[path.dishes[depth] as usize];
        let restaurant = &tree.restaurants[path.restaurants[depth] as usize];
        let seats = f64::from(dish.customers) - a * f64::from(dish.tables);
        (seats + (b + a * f64::from(restaurant.tables)) * below) / (f64::from(restaurant.customers) + b)
    }

    /// Seats a customer of the dish at `depth` of the path; `probabilities` are those of the path. `changed` is shown each
    /// dish whose tables change, and whether this was its only customer. Returns whether the root opened a table, which is
    /// a customer of the base.
    #[inline]
    pub fn add(
        &self,
        tree: &mut Tree,
        path: &Path,
        depth: usize,
        probabilities: &[f64; DEEPEST + 1],
        changed: &mut impl FnMut(u32, bool),
        chance: &mut impl Chance,
    ) -> bool {
        self.add_over(self.base, tree, path, depth, probabilities, changed, chance)
    }

    /// The same where the path's outcome has p(w) = `base` below the root.
    #[inline]
    #[allow(clippy::too_many_arguments)] // what `add` takes, and the base
    pub fn add_over(
        &self,
        base: f64,
        tree: &mut Tree,
        path: &Path,
        depth: usize,
        probabilities: &[f64; DEEPEST + 1],
        changed: &mut impl FnMut(u32, bool),
        chance: &mut impl Chance,
    ) -> bool {
        for depth in (0..=depth).rev() {
            let below = if depth == 0 { base } else { probabilities[depth - 1] };
            let (a, b) = (self.parameters.discounts[depth], self.parameters.strengths[depth]);
            let dish = &mut tree.dishes[path.dishes[depth] as usize];
            let restaurant = &mut tree.restaurants[path.restaurants[depth] as usize];
            let is_only = dish.customers == 0;
            let opens = is_only || {
                let seats = f64::from(dish.customers) - a * f64::from(dish.tables);
                let new = (b + a * f64::from(restaurant.tables)) * below;
                chance.is_within(new, seats + new)
            };
            dish.customers += 1;
            restaurant.customers += 1;
            if !opens {
                return false;
            }
            dish.tables += 1;
            restaurant.tables += 1;
            changed(path.dishes[depth], is_only);
        }
        true
    }

    /// Takes away a customer of the dish at `depth` of the path. `changed` is shown each dish whose tables change, and
    /// whether this was its only customer. Returns whether the root closed a table: a customer of the base leaves.
    #[inline]
    pub fn remove(
        &mut self,
        tree: &mut Tree,
        path: &Path,
        depth: usize,
        changed: &mut impl FnMut(u32, bool),
        chance: &mut impl Chance,
    ) -> bool {
        for depth in (0..=depth).rev() {
            let dish = &mut tree.dishes[path.dishes[depth] as usize];
            let restaurant = &mut tree.restaurants[path.restaurants[depth] as usize];
            let (customers, tables) = (dish.customers, dish.tables);
            dish.customers -= 1;
            restaurant.customers -= 1;
            let closes = chance.was_alone(&mut self.alone[depth], customers, tables);
            if !closes {
                return false;
            }
            dish.tables -= 1;
            restaurant.tables -= 1;
            changed(path.dishes[depth], customers == 1);
        }
        true
    }
}
