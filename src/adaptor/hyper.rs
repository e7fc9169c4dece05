//! Discounts a and strengths b of adaptors, drawn by slice sampling (Neal 2003) from their exact posterior under vague
//! priors, as in Johnson & Goldwater (2009).
//!
//! ```text
//! a ~ Beta(alpha, beta)      b ~ Gamma(shape, rate)
//! p(seating | a, b) = prod_{i=1}^{m-1} (b + a i)  /  prod_{j=1}^{n-1} (b + j)  *  prod over tables of prod_{k=1}^{n_t-1} (k - a)
//! ```
//!
//! Tables are known by their sizes here, so nothing has to be summed out, and the auxiliary variables of
//! [`crate::restaurant::parameters`], which sum table sizes out, are not needed.

use std::collections::BTreeMap;

use super::cache::Cache;
use super::grammar::Adaptor;
use crate::cluster::rng::Generator;
use crate::math::draws::unit;
use crate::math::{gamma_ln, ln};
use crate::restaurant::parameters::Hyperprior;

/// A restaurant, as far as a and b depend on it.
#[derive(Clone, Debug, Default)]
pub struct Sizes {
    customers: f64,
    tables: f64,
    /// How many tables have how many customers, from two on.
    by_size: BTreeMap<u32, u32>,
}

impl Sizes {
    /// Of all nonterminals.
    pub fn of_all(cache: &Cache) -> Vec<Sizes> {
        let counts = cache.customers.iter().zip(&cache.tables_of);
        let mut all: Vec<Sizes> = counts
            .map(|(&customers, &tables)| Sizes {
                customers: f64::from(customers),
                tables: f64::from(tables),
                ..Sizes::default()
            })
            .collect();
        for table in cache.tables.iter().filter(|table| table.customers > 1) {
            let symbol = cache.entries[table.entry as usize].symbol;
            *all[symbol as usize].by_size.entry(table.customers).or_insert(0) += 1;
        }
        all
    }

    /// ln p(seating | a, b).
    pub fn likelihood_ln(&self, a: f64, b: f64) -> f64 {
        if self.tables < 1.0 {
            return 0.0;
        }
        let opened = match a > 1e-9 {
            true => (self.tables - 1.0) * ln(a) + gamma_ln(b / a + self.tables) - gamma_ln(b / a + 1.0),
            false => (self.tables - 1.0) * ln(b),
        };
        let came = gamma_ln(b + self.customers) - gamma_ln(b + 1.0);
        let base = gamma_ln(1.0 - a);
        let sizes =
            self.by_size.iter().map(|(&size, &tables)| f64::from(tables) * (gamma_ln(f64::from(size) - a) - base));
        opened - came + sizes.sum::<f64>()
    }
}

/// A new a and b, given where they stand.
pub fn redraw(sizes: &Sizes, Adaptor { mut a, mut b }: Adaptor, prior: &Hyperprior, rng: &mut Generator) -> Adaptor {
    if sizes.customers < 1.0 {
        return Adaptor { a, b };
    }
    let [alpha, beta] = prior.discount;
    let [shape, rate] = prior.strength;
    a = a.clamp(1e-6, 1.0 - 1e-6);
    // Both ends move, so that neither waits for the other.
    for _ in 0..5 {
        let of_a = |a: f64| (alpha - 1.0) * ln(a) + (beta - 1.0) * ln(1.0 - a) + sizes.likelihood_ln(a, b);
        a = slice(a, (1e-9, 1.0 - 1e-9), 0.1, &of_a, rng);
        // On ln b, whose density has one more factor b.
        let of_b = |b_ln: f64| {
            let b = libm::exp(b_ln);
            shape * b_ln - rate * b + sizes.likelihood_ln(a, b)
        };
        b = libm::exp(slice(ln(b), (-13.0, 20.0), 1.0, &of_b, rng));
    }
    Adaptor { a, b }
}

/// A draw from the density whose ln is `density_ln`, within `range`: a slice through `x`, stepped out and shrunk.
pub fn slice(x: f64, (low, high): (f64, f64), width: f64, density_ln: &dyn Fn(f64) -> f64, rng: &mut Generator) -> f64 {
    let level = density_ln(x) + ln(1.0 - unit(rng));
    let mut left = x - width * unit(rng);
    let mut right = left + width;
    while left > low && density_ln(left) > level {
        left -= width;
    }
    while right < high && density_ln(right) > level {
        right += width;
    }
    (left, right) = (left.max(low), right.min(high));
    loop {
        let next = left + (right - left) * unit(rng);
        if density_ln(next) > level {
            return next;
        }
        // Down to where numbers end: x itself is always on the slice.
        if right - left < 1e-12 {
            return x;
        }
        if next < x { left = next } else { right = next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::rng::{Purpose, generator};

    #[test]
    fn slices_have_the_density() {
        let mut rng = generator(3, Purpose::Hyperparameters, 0, 0);
        let density = |x: f64| 2.0 * ln(x) + ln(1.0 - x);
        let (mut x, mut sum, mut squares) = (0.5, 0.0, 0.0);
        let draws = 40_000;
        for _ in 0..draws {
            x = slice(x, (1e-9, 1.0 - 1e-9), 0.3, &density, &mut rng);
            sum += x;
            squares += x * x;
        }
        // Beta(3, 2).
        let mean = sum / f64::from(draws);
        assert!((mean - 0.6).abs() < 0.006, "{mean}");
        let variance = squares / f64::from(draws) - mean * mean;
        assert!((variance - 0.04).abs() < 0.002, "{variance}");
    }

    #[test]
    fn a_and_b_have_their_posterior() {
        // Five customers at tables of 3 and 2, against a grid.
        let sizes = Sizes { customers: 5.0, tables: 2.0, by_size: BTreeMap::from([(3, 1), (2, 1)]) };
        let prior = Hyperprior { discount: [1.0, 1.0], strength: [1.0, 1.0] };
        let by_hand = |a: f64, b: f64| {
            (b + a) * (1.0 - a) * (2.0 - a) * (1.0 - a) / ((b + 1.0) * (b + 2.0) * (b + 3.0) * (b + 4.0))
        };
        assert!((libm::exp(sizes.likelihood_ln(0.3, 2.0)) - by_hand(0.3, 2.0)).abs() < 1e-12);
        assert!((libm::exp(sizes.likelihood_ln(0.0, 2.0)) - by_hand(0.0, 2.0)).abs() < 1e-12);
        let (mut all, mut mean_a, mut mean_b) = (0.0, 0.0, 0.0);
        for i in 0..200 {
            for j in 0..2000 {
                let (a, b) = ((f64::from(i) + 0.5) / 200.0, (f64::from(j) + 0.5) / 100.0);
                let weight = by_hand(a, b) * libm::exp(-b);
                (all, mean_a, mean_b) = (all + weight, mean_a + weight * a, mean_b + weight * b);
            }
        }
        let mut rng = generator(4, Purpose::Hyperparameters, 0, 0);
        let (mut adaptor, mut sums, draws) = (Adaptor { a: 0.5, b: 1.0 }, (0.0, 0.0), 20_000);
        for _ in 0..draws {
            adaptor = redraw(&sizes, adaptor, &prior, &mut rng);
            sums = (sums.0 + adaptor.a, sums.1 + adaptor.b);
        }
        let (a, b) = (sums.0 / f64::from(draws), sums.1 / f64::from(draws));
        assert!((a - mean_a / all).abs() < 0.01 && (b - mean_b / all).abs() < 0.03, "{a} {b}");
    }
}
