//! Random draws from the distributions that samplers of hyperparameters need.
//!
//! Written here and not taken from a crate, since a draw has to be the same on every processor and in every release:
//! see [`crate::math`].

use rand::Rng;

use super::ln;

/// Uniform on [0, 1), a multiple of 2^-53.
#[inline(always)]
pub fn unit(rng: &mut impl Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// Uniform on [0, 1), a multiple of 2^-24: every value is exact in 32 bits.
#[inline(always)]
pub fn unit_f32(rng: &mut impl Rng) -> f32 {
    (rng.next_u64() >> 40) as f32 * (1.0 / (1u32 << 24) as f32)
}

/// Standard normal, by Marsaglia's polar method.
pub fn normal(rng: &mut impl Rng) -> f64 {
    loop {
        let (x, y) = (2.0 * unit(rng) - 1.0, 2.0 * unit(rng) - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            return x * libm::sqrt(-2.0 * ln(square) / square);
        }
    }
}

/// Gamma(`shape`, rate 1), by Marsaglia & Tsang (2000).
pub fn gamma(shape: f64, rng: &mut impl Rng) -> f64 {
    assert!(shape > 0.0, "a gamma distribution needs a positive shape, not {shape}");
    if shape < 1.0 {
        // Gamma(a) = Gamma(a + 1) U^(1/a).
        let larger = gamma(shape + 1.0, rng);
        return larger * libm::pow(1.0 - unit(rng), 1.0 / shape);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / libm::sqrt(9.0 * d);
    loop {
        let x = normal(rng);
        let v = (1.0 + c * x) * (1.0 + c * x) * (1.0 + c * x);
        if v > 0.0 && ln(1.0 - unit(rng)) < 0.5 * x * x + d - d * v + d * ln(v) {
            return d * v;
        }
    }
}

/// ln of a draw from Beta(`a`, `b`).
pub fn beta_ln(a: f64, b: f64, rng: &mut impl Rng) -> f64 {
    let (x, y) = (gamma(a, rng), gamma(b, rng));
    ln(x) - ln(x + y)
}

/// A draw from Beta(`a`, `b`).
pub fn beta(a: f64, b: f64, rng: &mut impl Rng) -> f64 {
    let (x, y) = (gamma(a, rng), gamma(b, rng));
    x / (x + y)
}

/// How often a coin that shows heads with probability `p` shows them in `n` throws.
///
/// While there are many, they are halved: the k-th smallest of n uniform numbers is Beta(k, n + 1 - k), and whichever side
/// of it `p` lies on, one part is decided (Devroye 1986, X.4.3).
pub fn binomial(mut n: u64, mut p: f64, rng: &mut impl Rng) -> u64 {
    let mut heads = 0;
    while n > 0 && p > 0.0 {
        if p >= 1.0 {
            return heads + n;
        }
        if n as f64 * p.min(1.0 - p) < 12.0 {
            return heads + if p <= 0.5 { count_off(n, p, rng) } else { n - count_off(n, 1.0 - p, rng) };
        }
        let middle = n / 2 + 1;
        let at = beta(middle as f64, (n + 1 - middle) as f64, rng);
        if at <= p {
            heads += middle;
            n -= middle;
            p = ((p - at) / (1.0 - at)).min(1.0);
        } else {
            n = middle - 1;
            p = (p / at).min(1.0);
        }
    }
    heads
}

/// A binomial draw for p <= 1/2 and few heads: one lot is counted off against the probabilities of 0, 1, 2 ... heads.
fn count_off(n: u64, p: f64, rng: &mut impl Rng) -> u64 {
    if n <= 4 {
        return (0..n).filter(|_| unit(rng) < p).count() as u64;
    }
    let odds = p / (1.0 - p);
    let mut probability = libm::exp(n as f64 * libm::log1p(-p));
    let mut lot = unit(rng);
    let mut heads = 0;
    while lot >= probability && heads < n {
        lot -= probability;
        heads += 1;
        probability *= odds * (n + 1 - heads) as f64 / heads as f64;
    }
    heads
}

/// Tails before the first heads, for 0 < p <= 1; at most 2^62.
pub fn geometric(p: f64, rng: &mut impl Rng) -> u64 {
    if p >= 1.0 {
        return 0;
    }
    let tails = ln(1.0 - unit(rng)) / libm::log1p(-p);
    tails.min((1u64 << 62) as f64) as u64
}

/// A draw from Dirichlet(`weights`), written over `weights`.
pub fn dirichlet(weights: &mut [f64], rng: &mut impl Rng) {
    let mut sum = 0.0;
    for weight in weights.iter_mut() {
        *weight = gamma(*weight, rng);
        sum += *weight;
    }
    for weight in weights.iter_mut() {
        *weight /= sum;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::cluster::rng::{Purpose, generator};
    use crate::math::exactness::{Draws, Mean, assert_exact, assert_mean};

    const DRAWS: f64 = 100_000.0;

    /// Mean and variance of [`DRAWS`] draws.
    fn moments(mut draw: impl FnMut() -> f64) -> (f64, f64) {
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..DRAWS as u32 {
            let x = draw();
            sum += x;
            squares += x * x;
        }
        let mean = sum / DRAWS;
        (mean, squares / DRAWS - mean * mean)
    }

    #[test]
    fn binomial_draws_have_the_binomial_distribution() {
        let mut rng = generator(2, Purpose::Synth, 0, 0);
        for (n, p) in [(4u64, 0.3), (30, 0.35), (30, 0.6), (60, 0.5)] {
            let (mut seen, mut exact) = (BTreeMap::new(), BTreeMap::new());
            let draws = 200_000;
            (0..draws).for_each(|_| *seen.entry(binomial(n, p, &mut rng)).or_default() += 1.0);
            let mut probability = libm::pow(1.0 - p, n as f64);
            for k in 0..=n {
                exact.insert(k, probability);
                probability *= p / (1.0 - p) * (n - k) as f64 / (k + 1) as f64;
            }
            // A generator that is off by 0.012 passes with probability exp(-14).
            assert_exact(&format!("Binomial({n}, {p})"), &seen, &exact, Draws::Independent(draws), 0.006);
        }
    }

    /// Asserts the mean that [`moments`] gives, for a distribution with this mean and variance.
    fn assert_mean_is(what: &str, mean: f64, exact: f64, variance: f64) {
        let error = libm::sqrt(variance / DRAWS);
        assert_mean(what, Mean { value: mean, error }, Mean { value: exact, error: 0.0 }, 0.02);
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut rng = generator(1, Purpose::Synth, 0, 0);
        for shape in [0.3, 1.0, 2.5, 400.0] {
            // Mean and variance of Gamma(a, 1) are both a; the variance has a variance of (2 + 6 / a) a^2.
            let (mean, variance) = moments(|| gamma(shape, &mut rng));
            assert_mean_is(&format!("Gamma({shape})"), mean, shape, shape);
            assert_mean_is(
                &format!("variance of Gamma({shape})"),
                variance,
                shape,
                (2.0 + 6.0 / shape) * shape * shape,
            );
        }
        for (n, p) in [(3, 0.2), (40, 0.05), (40, 0.97), (1000, 0.3), (1_000_000, 0.7)] {
            // Mean n p, variance n p (1 - p), whose own variance is its square times 2 + (1 - 6 p (1 - p)) / (n p (1 - p)).
            let (exact, spread) = (n as f64 * p, n as f64 * p * (1.0 - p));
            let (mean, variance) = moments(|| binomial(n, p, &mut rng) as f64);
            assert_mean_is(&format!("Binomial({n}, {p})"), mean, exact, spread);
            let of_variance = spread * spread * (2.0 + (1.0 - 6.0 * p * (1.0 - p)) / spread);
            assert_mean_is(&format!("variance of Binomial({n}, {p})"), variance, spread, of_variance);
        }
        let (mean, _) = moments(|| geometric(0.2, &mut rng) as f64); // mean (1 - p) / p, variance (1 - p) / p^2
        assert_mean_is("tails before heads", mean, 4.0, 20.0);
        let (mean, _) = moments(|| beta(2.0, 3.0, &mut rng));
        assert_mean_is("Beta(2, 3)", mean, 2.0 / 5.0, 1.0 / 25.0);
        // E ln Beta(a, b) = digamma(a) - digamma(a + b), the variance trigamma(a) - trigamma(a + b); for a = 2 and b = 3
        // that is -(1/2 + 1/3 + 1/4) and 1/4 + 1/9 + 1/16.
        let (mean, _) = moments(|| beta_ln(2.0, 3.0, &mut rng));
        assert_mean_is("ln Beta(2, 3)", mean, -13.0 / 12.0, 1.0 / 4.0 + 1.0 / 9.0 + 1.0 / 16.0);
    }
}
