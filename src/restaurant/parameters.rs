//! Discount and strength by depth, and how they are learned.
//!
//! ```text
//! a_d ~ Beta(alpha_a, beta_a)        b_d ~ Gamma(alpha_b, rate beta_b)         one pair for each depth d
//! ```
//!
//! Given the seating, a restaurant with C customers at T tables has the likelihood
//!
//! ```text
//! prod_{i=1}^{T-1} (b + a i)  /  prod_{j=1}^{C-1} (b + j)  *  prod over dishes of S_a(c, t)
//! ```
//!
//! and auxiliary variables make both unknowns conjugate (Teh 2006, appendix C):
//!
//! ```text
//! x   ~ Beta(b + 1, C - 1)                    for each restaurant with C >= 2
//! y_i ~ Bernoulli(b / (b + a i))              for each of its tables but one
//! z   ~ Bernoulli((n - m) / (n - a m))        for each customer that did not open a table, where n customers at m
//!                                             tables had the dish before: n - a m = (n - m) + m (1 - a)
//! a   ~ Beta(alpha_a + sum (1 - y), beta_a + sum (1 - z))
//! b   ~ Gamma(alpha_b + sum y, rate beta_b - sum ln x)
//! ```
//!
//! Teh draws z by table sizes; here the sizes are summed out, and the order in which customers came is drawn instead,
//! backwards from (c, t): the last one opened a table with probability R(c, t) ([`Alone`]).
//!
//! **All restaurants at once.** Only sums of the variables are needed, so restaurants that are alike are drawn
//! together, exactly:
//! - -ln Beta(b + 1, k) for a whole k is the sum of independent exponentials with rates b + 1 .. b + k (Rényi 1953), so
//!   the sum over restaurants takes one gamma draw for each j: of shape "how many have C >= j + 2", divided by b + 1 + j;
//! - y_i of all restaurants with more than i tables is one binomial draw;
//! - dishes in the same state (c, t) step back together: one binomial for those whose last customer opened a table.
//!
//! So the cost grows with the number of distinct states, not of restaurants, beside one pass that counts them.

use serde::{Deserialize, Serialize};

use super::stirling::{Alone, EXACT};
use super::tree::{Dish, Restaurant};
use crate::cluster::rng::Generator;
use crate::error::{ensure, is_positive};
use crate::math::draws::{beta, beta_ln, binomial, gamma, geometric, unit};
use crate::math::{gamma_ln, ln};

/// Discounts and strengths, by depth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameters {
    pub discounts: Vec<f64>,
    pub strengths: Vec<f64>,
}

impl Parameters {
    /// The same at every depth.
    pub fn new(depth: usize, discount: f64, strength: f64) -> Parameters {
        assert!((0.0..1.0).contains(&discount) && strength > 0.0, "a discount is in [0, 1), a strength positive");
        Parameters { discounts: vec![discount; depth + 1], strengths: vec![strength; depth + 1] }
    }

    /// Checks that there is a discount in [0, 1) and a positive strength for each of so many depths.
    pub fn validate(&self, depths: usize) -> Result<(), String> {
        let Parameters { discounts, strengths } = self;
        ensure([discounts.len(), strengths.len()] == [depths; 2], "the number of discounts and strengths")?;
        ensure(discounts.iter().all(|a| (0.0..1.0).contains(a)), "a discount that is not in [0, 1)")?;
        ensure(strengths.iter().all(|&b| is_positive(b)), "a strength that is not positive")
    }

    /// New ones, from the sums of auxiliary variables by depth, as figures.
    pub fn redrawn(&self, sums: &[f64], prior: &Hyperprior, rng: &mut Generator) -> Parameters {
        let mut parameters = self.clone();
        for (depth, sums) in sums.chunks_exact(4).enumerate() {
            let sums = Sums::from_figures(sums);
            (parameters.discounts[depth], parameters.strengths[depth]) = sums.redraw(prior, rng);
        }
        parameters
    }
}

/// The priors of discounts and strengths.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hyperprior {
    /// alpha and beta of the Beta prior of discounts.
    pub discount: [f64; 2],
    /// Shape and rate of the Gamma prior of strengths.
    pub strength: [f64; 2],
}

impl Default for Hyperprior {
    fn default() -> Hyperprior {
        Hyperprior { discount: [1.0, 1.0], strength: [1.0, 1.0] }
    }
}

/// Sums of the auxiliary variables of restaurants at one depth.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// sum y
    pub y: f64,
    /// sum (1 - y)
    pub not_y: f64,
    /// sum (1 - z)
    pub not_z: f64,
    /// -sum ln x
    pub x_ln: f64,
}

impl Sums {
    /// As figures that can be added up.
    pub fn figures(&self) -> [f64; 4] {
        [self.y, self.not_y, self.not_z, self.x_ln]
    }

    pub fn from_figures(figures: &[f64]) -> Sums {
        Sums { y: figures[0], not_y: figures[1], not_z: figures[2], x_ln: figures[3] }
    }

    /// A new discount and strength.
    pub fn redraw(&self, prior: &Hyperprior, rng: &mut Generator) -> (f64, f64) {
        let discount = beta(prior.discount[0] + self.not_y, prior.discount[1] + self.not_z, rng);
        let strength = gamma(prior.strength[0] + self.y, rng) / (prior.strength[1] + self.x_ln);
        // Within what arithmetic can tell from the ends.
        (discount.clamp(1e-6, 1.0 - 1e-6), strength.clamp(1e-6, 1e9))
    }
}

/// How many restaurants and dishes of one depth are in which state: all that the auxiliary variables depend on.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// By number of customers, up to [`EXACT`].
    restaurants: Vec<u32>,
    /// Customers of the larger ones.
    large_restaurants: Vec<u32>,
    /// By number of tables.
    tables: Vec<u32>,
    /// Row c has t = 1 .. c, for c up to [`EXACT`].
    dishes: Vec<Vec<u32>>,
    /// Customers and tables of the larger ones.
    large_dishes: Vec<(u32, u32)>,
}

impl Census {
    pub fn clear(&mut self) {
        self.restaurants.clear();
        self.large_restaurants.clear();
        self.tables.clear();
        self.clear_dishes();
    }

    #[inline]
    pub fn count_restaurant(&mut self, restaurant: Restaurant) {
        let customers = restaurant.customers;
        if customers < 2 {
            return;
        }
        match customers <= EXACT {
            true => count(&mut self.restaurants, customers as usize),
            false => self.large_restaurants.push(customers),
        }
        if restaurant.tables > 1 {
            count(&mut self.tables, restaurant.tables as usize);
        }
    }

    #[inline]
    pub fn count_dish(&mut self, dish: Dish) {
        let (customers, tables) = (dish.customers, dish.tables);
        if tables == customers {
            return; // every customer opened a table: there is no z
        }
        if customers > EXACT {
            self.large_dishes.push((customers, tables));
            return;
        }
        while self.dishes.len() <= customers as usize {
            self.dishes.push(vec![0; self.dishes.len() + 1]);
        }
        self.dishes[customers as usize][tables as usize] += 1;
    }

    /// ln of the likelihood of all (see the head of this file): of the tables, given that dishes are what they are.
    pub fn likelihood_ln(&self, a: f64, b: f64, alone: &mut Alone) -> f64 {
        let (mut sum, mut rising) = (0.0, 0.0);
        for (customers, &restaurants) in self.restaurants.iter().enumerate().skip(2) {
            rising += ln(b + (customers - 1) as f64);
            sum -= f64::from(restaurants) * rising;
        }
        for &customers in &self.large_restaurants {
            sum -= gamma_ln(b + f64::from(customers)) - gamma_ln(b + 1.0);
        }
        rising = 0.0;
        for (tables, &restaurants) in self.tables.iter().enumerate().skip(2) {
            rising += ln(b + a * (tables - 1) as f64);
            sum += f64::from(restaurants) * rising;
        }
        for (customers, row) in self.dishes.iter().enumerate().skip(2) {
            for (tables, &dishes) in row.iter().enumerate().filter(|(_, dishes)| **dishes > 0) {
                sum += f64::from(dishes) * alone.stirling_ln(customers as u32, tables as u32);
            }
        }
        for &(customers, tables) in &self.large_dishes {
            sum += alone.stirling_ln(customers, tables);
        }
        sum
    }

    /// Forgets dishes: where the discount is known, nothing else needs them.
    pub fn clear_dishes(&mut self) {
        self.dishes.iter_mut().for_each(|row| row.fill(0));
        self.large_dishes.clear();
    }

    /// Draws the auxiliary variables of all. The dishes' part of the census is used up.
    pub fn draw(&mut self, a: f64, b: f64, alone: &mut Alone, rng: &mut Generator) -> Sums {
        let mut sums = Sums::default();
        let mut with_more = 0u64;
        for customers in (2..self.restaurants.len()).rev() {
            with_more += u64::from(self.restaurants[customers]);
            sums.x_ln += gamma(with_more as f64, rng) / (b + (customers - 1) as f64);
        }
        for &customers in &self.large_restaurants {
            sums.x_ln -= beta_ln(b + 1.0, f64::from(customers - 1), rng);
        }
        let mut with_more = 0u64;
        for table in (1..self.tables.len().max(1) - 1).rev() {
            with_more += u64::from(self.tables[table + 1]);
            let y = binomial(with_more, b / (b + a * table as f64), rng);
            sums.y += y as f64;
            sums.not_y += (with_more - y) as f64;
        }
        for place in 0..self.large_dishes.len() {
            let (customers, tables) = self.large_dishes[place];
            let (tables, not_z) = step_back(customers, tables, a, alone, rng);
            sums.not_z += not_z as f64;
            self.count_dish(Dish { customers: EXACT, tables, ..Dish::default() });
        }
        sums.not_z += self.step_all_back(a, alone, rng) as f64;
        sums
    }

    /// Takes the customers of all dishes away, the last first; returns sum (1 - z).
    fn step_all_back(&mut self, a: f64, alone: &mut Alone, rng: &mut Generator) -> u64 {
        let mut not_z = 0;
        for customers in (2..self.dishes.len()).rev() {
            let (before, row) = self.dishes.split_at_mut(customers);
            let (before, row) = (&mut before[customers - 1], &row[0]);
            for (tables, &here) in row.iter().enumerate().filter(|(_, here)| **here > 0) {
                let opened = binomial(u64::from(here), alone.probability(customers as u32, tables as u32), rng) as u32;
                let joined = u64::from(here - opened);
                let (n, m) = ((customers - 1) as f64, tables as f64);
                not_z += binomial(joined, m * (1.0 - a) / (n - a * m), rng);
                if opened > 0 {
                    before[tables - 1] += opened;
                }
                if joined > 0 && tables < customers - 1 {
                    before[tables] += joined as u32;
                }
            }
        }
        not_z
    }
}

#[inline]
fn count(counts: &mut Vec<u32>, value: usize) {
    if counts.len() <= value {
        counts.resize(value + 1, 0);
    }
    counts[value] += 1;
}

/// Takes customers of a large dish away until [`EXACT`] are left; returns its tables then, and sum (1 - z).
///
/// Hardly any step changes something, so runs of steps are leapt over: within a factor 2 of customers, no step changes
/// something with more than the probability of the run's last one, and a step that is landed on is taken with the ratio
/// of its probability to that one.
fn step_back(mut customers: u32, mut tables: u32, a: f64, alone: &mut Alone, rng: &mut Generator) -> (u32, u64) {
    let mut not_z = 0;
    // Of the step from n customers to n - 1: that a table closes, and that one is not opened but counts as 1 - z.
    let mut chances = |n: u32, tables: u32| {
        let opened = alone.probability(n, tables);
        let before = f64::from(n - 1) - a * f64::from(tables);
        (opened, (1.0 - opened) * (f64::from(tables) * (1.0 - a) / before).min(1.0))
    };
    while customers > EXACT {
        let end = (customers / 2).max(EXACT).max(tables);
        if end >= customers {
            // As many tables as customers: each opened one.
            return (EXACT, not_z);
        }
        let (opened, counted) = chances(end + 1, tables);
        let most = (1.05 * (opened + counted)).min(1.0); // the ratios beyond the exact rows are not smooth to the last digit
        while customers > end {
            let leap = geometric(most, rng);
            if leap >= u64::from(customers - end) {
                customers = end;
                break;
            }
            customers -= leap as u32;
            let (opened, counted) = chances(customers, tables);
            let lot = unit(rng) * most;
            if lot < opened {
                tables -= 1;
            } else if lot < opened + counted {
                not_z += 1;
            }
            customers -= 1;
        }
    }
    (tables.min(EXACT), not_z)
}
