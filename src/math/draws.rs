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
    use super::*;
    use crate::cluster::rng::{Purpose, generator};

    /// Mean and variance of `n` draws.
    fn moments(n: u32, mut draw: impl FnMut() -> f64) -> (f64, f64) {
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..n {
            let x = draw();
            sum += x;
            squares += x * x;
        }
        let mean = sum / f64::from(n);
        (mean, squares / f64::from(n) - mean * mean)
    }

    #[test]
    fn binomial_draws_have_the_binomial_distribution() {
        let mut rng = generator(2, Purpose::Synth, 0, 0);
        for (n, p) in [(4u64, 0.3), (30, 0.35), (30, 0.6), (60, 0.5)] {
            let mut seen = vec![0.0; n as usize + 1];
            let draws = 200_000;
            (0..draws).for_each(|_| seen[binomial(n, p, &mut rng) as usize] += 1.0 / f64::from(draws));
            let mut exact = libm::pow(1.0 - p, n as f64);
            let mut distance = 0.0;
            for (k, seen) in seen.iter().enumerate() {
                distance += (seen - exact).abs() / 2.0;
                exact *= p / (1.0 - p) * (n - k as u64) as f64 / (k + 1) as f64;
            }
            assert!(distance < 0.006, "Binomial({n}, {p}): {distance} from the exact distribution");
        }
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut rng = generator(1, Purpose::Synth, 0, 0);
        for shape in [0.3, 1.0, 2.5, 400.0] {
            // Mean and variance of Gamma(a, 1) are both a; the bounds are five standard errors.
            let (mean, variance) = moments(100_000, || gamma(shape, &mut rng));
            let error = libm::sqrt(shape / 100_000.0);
            assert!((mean - shape).abs() < 5.0 * error, "mean {mean} of Gamma({shape})");
            let error = shape * libm::sqrt((2.0 + 6.0 / shape) / 100_000.0);
            assert!((variance - shape).abs() < 5.0 * error, "variance {variance} of Gamma({shape})");
        }
        for (n, p) in [(3, 0.2), (40, 0.05), (40, 0.97), (1000, 0.3), (1_000_000, 0.7)] {
            // Mean n p, variance n p (1 - p), whose own error is about sqrt(2 / 100,000) of it; five standard errors.
            let (exact, spread) = (n as f64 * p, n as f64 * p * (1.0 - p));
            let (mean, variance) = moments(100_000, || binomial(n, p, &mut rng) as f64);
            assert!((mean - exact).abs() < 5.0 * libm::sqrt(spread / 100_000.0), "mean {mean} of Binomial({n}, {p})");
            assert!((variance / spread - 1.0).abs() < 0.05, "variance {variance} of Binomial({n}, {p})");
        }
        let (mean, _) = moments(100_000, || geometric(0.2, &mut rng) as f64); // mean (1 - p) / p, variance (1 - p) / p^2
        assert!((mean - 4.0).abs() < 5.0 * libm::sqrt(20.0 / 100_000.0), "mean {mean} of tails before heads");
        let (mean, _) = moments(100_000, || beta(2.0, 3.0, &mut rng)); // mean 2/5, variance 1/25
        assert!((mean - 0.4).abs() < 5.0 * 0.2 / libm::sqrt(100_000.0), "mean {mean} of Beta(2, 3)");
        // E ln Beta(a, b) = digamma(a) - digamma(a + b); for a = 2, b = 3 that is -(1/2 + 1/3 + 1/4).
        let (mean, _) = moments(100_000, || beta_ln(2.0, 3.0, &mut rng));
        assert!((mean + 13.0 / 12.0).abs() < 0.01, "mean {mean} of ln Beta(2, 3)");
    }
}
