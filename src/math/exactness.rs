//! Assertions that compare a sampler with the exact distribution, and that reject tests too weak to fail.
//!
//! **Distributions** are compared by total variation, half the sum of absolute differences. Suppose the sampler's own
//! distribution is at distance d from the exact one, and let A be the set of outcomes that it draws too often. The
//! observed distance is at least the observed excess of A, whose mean is d. The sampler can therefore pass only if the
//! observed share of A is below its mean by at least d - tolerance, which n independent draws do with probability at most
//! exp(-2 n (d - tolerance)^2) (Hoeffding 1963). [`assert_exact`] fails unless this bound is below [`MISSED`] for a
//! sampler that is off by twice the tolerance.
//!
//! **Means** are compared in units of their standard error and may differ by [`ERRORS`] of them. A mean that is off by
//! twice as much passes with probability 3e-5. [`assert_mean`] fails unless the standard error is small enough for that to
//! be a useful test.

use std::collections::BTreeMap;
use std::fmt::Debug;

/// The number of standard errors by which two means may differ: 1 pair in 16,000 does so by chance. Seeds are fixed, so a
/// test that has passed once keeps passing until the sampler or its draws change.
pub const ERRORS: f64 = 4.0;

/// The largest acceptable probability that a sampler passes although it is off by twice the tolerance.
const MISSED: f64 = 1e-3;

/// How outcomes were drawn, and how many.
#[derive(Clone, Copy, Debug)]
pub enum Draws {
    Independent(usize),
    /// The states of a Markov chain, one per sweep. Successive states are correlated: if the observed distance is k times
    /// what independent draws would give, k^2 states count as one draw; half of what results is used, to be safe.
    Chain(usize),
}

/// Half the sum of absolute differences of two distributions, which need not be normalised.
pub fn total_variation<K: Ord + Debug>(seen: &BTreeMap<K, f64>, exact: &BTreeMap<K, f64>) -> f64 {
    let (seen_sum, exact_sum): (f64, f64) = (seen.values().sum(), exact.values().sum());
    if let Some(outcome) = seen.keys().find(|outcome| !exact.contains_key(outcome)) {
        panic!("{outcome:?} is impossible but was drawn");
    }
    let difference = |(outcome, p): (&K, &f64)| (p / exact_sum - seen.get(outcome).unwrap_or(&0.0) / seen_sum).abs();
    exact.iter().map(difference).sum::<f64>() / 2.0
}

/// Asserts that the observed frequencies are within `tolerance` of the exact distribution.
pub fn assert_exact<K: Ord + Debug>(
    what: &str,
    seen: &BTreeMap<K, f64>,
    exact: &BTreeMap<K, f64>,
    draws: Draws,
    tolerance: f64,
) {
    let distance = total_variation(seen, exact);
    let independent = match draws {
        Draws::Independent(count) => count as f64,
        Draws::Chain(sweeps) => {
            let dependence = (distance / noise(exact, sweeps)).max(1.0).powi(2);
            sweeps as f64 / (2.0 * dependence)
        }
    };
    assert_near(what, distance, independent, tolerance);
}

/// The expected distance of that many independent draws from their own distribution, by the normal approximation.
fn noise<K>(exact: &BTreeMap<K, f64>, draws: usize) -> f64 {
    let sum: f64 = exact.values().sum();
    let deviation = |p: f64| (p * (1.0 - p) / draws as f64).sqrt();
    exact.values().map(|p| deviation(p / sum) / (2.0 * std::f64::consts::PI).sqrt()).sum()
}

/// Like [`assert_exact`], for a distance that was computed before, from this many independent draws.
pub fn assert_near(what: &str, distance: f64, draws: f64, tolerance: f64) {
    let missed = (-2.0 * draws * tolerance * tolerance).exp();
    assert!(missed < MISSED, "{what}: a sampler that is off by {} passes with probability {missed}", 2.0 * tolerance);
    assert!(distance < tolerance, "{what}: {distance} from the exact distribution, tolerance {tolerance}");
}

/// A mean and its standard error.
#[derive(Clone, Copy, Debug)]
pub struct Mean {
    pub value: f64,
    pub error: f64,
}

/// Asserts that two means agree within their standard errors. Their joint error must be below `resolution` times the
/// expected mean, so that a mean which is off by eight times that passes with probability 3e-5.
pub fn assert_mean(what: &str, found: Mean, expected: Mean, resolution: f64) {
    let error = found.error.hypot(expected.error);
    assert!(
        error < resolution * expected.value.abs(),
        "{what}: the standard error {error} is too large to test {found:?} against {expected:?}"
    );
    assert!((found.value - expected.value).abs() < ERRORS * error, "{what}: {found:?} instead of {expected:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(shares: [f64; 3]) -> BTreeMap<usize, f64> {
        shares.into_iter().enumerate().collect()
    }

    #[test]
    fn distributions_need_not_be_normalised() {
        assert_eq!(total_variation(&of([1.0, 1.0, 2.0]), &of([0.5, 0.25, 0.25])), 0.25);
    }

    #[test]
    #[should_panic(expected = "is impossible")]
    fn an_impossible_outcome_fails() {
        total_variation(&BTreeMap::from([(3, 1.0)]), &of([0.5, 0.25, 0.25]));
    }

    #[test]
    #[should_panic(expected = "too large to test")]
    fn a_mean_that_could_be_anything_fails() {
        assert_mean("any", Mean { value: 1.0, error: 0.5 }, Mean { value: 1.0, error: 0.0 }, 0.1);
    }

    #[test]
    #[should_panic(expected = "passes with probability")]
    fn a_tolerance_that_lets_wrong_samplers_pass_fails() {
        assert_near("ten draws", 0.0, 10.0, 0.1);
    }
}
