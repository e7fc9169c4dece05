//! The weights of a distribution's contexts: p(x | h) = sum over contexts k of w_k(h) p_k(x | h_k).
//!
//! A context is worth the more, the more of it has been seen: so w depends on how much of each p_k comes from long contexts, as
//! one of a few levels ([`level`]). Every combination of levels has weights of its own. They are those under which tokens
//! that nothing else was learned from are most probable, found by expectation maximisation; combinations that few tokens have are
//! drawn towards the weights of all. Levels do not depend on x, so p adds up to one.

use serde::{Deserialize, Serialize};

use super::job::MOST_CONTEXTS;

/// Contexts of so many elements are long.
pub const LONG: usize = 3;

/// Where the levels above the first begin: so much of p comes from long contexts.
const LEVEL_STARTS: [f64; 3] = [0.1, 0.4, 0.7];
const LEVELS: usize = LEVEL_STARTS.len() + 1;

/// Steps of expectation maximisation.
const STEPS: usize = 50;

/// A combination of levels is taken to have so many tokens beside its own that are like those of all combinations.
const PRIOR: f64 = 50.0;

/// By context; 0 where there is none.
pub type Weights = [f64; MOST_CONTEXTS];

/// The level of a context, where so much of p does not come from long contexts.
#[inline]
pub fn level(short: f64) -> usize {
    LEVEL_STARTS.iter().filter(|&&start| 1.0 - short >= start).count()
}

/// The levels of all contexts, as one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Levels(usize);

impl Levels {
    /// The same with that of another context behind.
    #[inline]
    pub fn and(self, level: usize) -> Levels {
        Levels(self.0 * LEVELS + level)
    }
}

/// A token, as each context predicts it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Example {
    pub levels: Levels,
    pub p: Weights,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mixture {
    contexts: u8,
    /// By combination of levels; one for all where nothing was learned.
    weights: Vec<Weights>,
}

impl Mixture {
    /// All contexts weigh the same.
    pub fn equal(contexts: usize) -> Mixture {
        Mixture { contexts: contexts as u8, weights: vec![equal(contexts)] }
    }

    #[inline]
    pub fn weights(&self, levels: Levels) -> &Weights {
        // Without the levels' own weights, the one entry is that of all.
        self.weights.get(levels.0).unwrap_or(&self.weights[0])
    }

    /// p of an outcome.
    #[inline]
    pub fn mix(&self, example: &Example) -> f64 {
        let weights = self.weights(example.levels);
        weights.iter().zip(&example.p).take(usize::from(self.contexts)).map(|(weight, p)| weight * p).sum()
    }

    /// The weights under which the examples are most probable. Examples are sorted by their levels.
    pub fn learn(contexts: usize, examples: &mut [Example]) -> Mixture {
        let mean = maximise(equal(contexts), 0.0, examples);
        let mut weights = vec![mean; LEVELS.pow(contexts as u32)];
        examples.sort_by_key(|example| example.levels);
        for own in examples.chunk_by(|one, other| one.levels == other.levels) {
            weights[own[0].levels.0] = maximise(mean, PRIOR, own);
        }
        Mixture { contexts: contexts as u8, weights }
    }

    /// The mean weight of each context over the examples.
    pub fn mean(&self, examples: &[Example]) -> Vec<f64> {
        let sum = |context: usize| examples.iter().map(|example| self.weights(example.levels)[context]).sum::<f64>();
        (0..usize::from(self.contexts)).map(|context| sum(context) / examples.len() as f64).collect()
    }

    /// Whether the numbers can be those of so many contexts; a file may be damaged.
    pub fn is_sound(&self, contexts: usize) -> bool {
        let is_whole = [1, LEVELS.pow(contexts as u32)].contains(&self.weights.len());
        let adds_up = |weights: &Weights| {
            let (own, others) = weights.split_at(contexts.min(MOST_CONTEXTS));
            own.iter().all(|&weight| weight >= 0.0)
                && (own.iter().sum::<f64>() - 1.0).abs() < 1e-9
                && others.iter().all(|&weight| weight == 0.0)
        };
        usize::from(self.contexts) == contexts && is_whole && self.weights.iter().all(adds_up)
    }
}

fn equal(contexts: usize) -> Weights {
    std::array::from_fn(|context| if context < contexts { 1.0 / contexts as f64 } else { 0.0 })
}

/// The weights under which the examples, and so many more that `mean` would share out, are most probable.
fn maximise(mean: Weights, prior: f64, examples: &[Example]) -> Weights {
    let mut weights = mean;
    for _ in 0..STEPS {
        let mut sums = mean.map(|weight| weight * prior);
        for Example { p, .. } in examples {
            let parts: Weights = std::array::from_fn(|context| weights[context] * p[context]);
            let whole: f64 = parts.iter().sum();
            sums.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part / whole);
        }
        let whole: f64 = sums.iter().sum();
        if whole > 0.0 {
            weights = sums.map(|sum| sum / whole);
        }
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens with two outcomes, of which the first context predicts one with 0.9, the second the other with 0.6.
    fn examples(level: usize, counts: [usize; 2]) -> Vec<Example> {
        let example = |[first, second]: [f64; 2]| Example {
            levels: Levels::default().and(level).and(1),
            p: [first, second, 0.0, 0.0],
        };
        let [one, other] = [[0.9, 0.4], [0.1, 0.6]].map(example);
        [vec![one; counts[0]], vec![other; counts[1]]].concat()
    }

    fn likelihood(mixture: &Mixture, examples: &[Example]) -> f64 {
        examples.iter().map(|example| crate::math::ln(mixture.mix(example))).sum()
    }

    #[test]
    fn learned_weights_are_the_most_probable() {
        // p of the first outcome is 0.4 + 0.5 w: with 3 of 5, w = 0.4.
        let mut all = examples(0, [60_000, 40_000]);
        let mixture = Mixture::learn(2, &mut all);
        let weights = mixture.weights(all[0].levels);
        assert!((weights[0] - 0.4).abs() < 1e-3, "{weights:?}");
        let best = likelihood(&mixture, &all);
        for other in [0.37, 0.43] {
            let moved = Mixture { contexts: 2, weights: vec![[other, 1.0 - other, 0.0, 0.0]] };
            assert!(likelihood(&moved, &all) < best, "{other}");
        }
        assert!(mixture.is_sound(2) && !mixture.is_sound(3));
    }

    #[test]
    fn levels_have_weights_of_their_own() {
        let mut all = [examples(0, [40_000, 60_000]), examples(3, [90_000, 10_000]), examples(2, [1, 0])].concat();
        let mixture = Mixture::learn(2, &mut all);
        let weight = |level: usize| mixture.weights(Levels::default().and(level).and(1))[0];
        assert!(weight(0) < 0.05 && weight(3) > 0.95, "{} {}", weight(0), weight(3));
        // One token says little; none says nothing.
        let of_all = mixture.weights(Levels::default().and(1).and(0))[0];
        assert!((weight(2) - of_all).abs() < 0.03 && weight(2) > of_all, "{} {of_all}", weight(2));
    }

    #[test]
    fn equal_weights_are_the_mean() {
        let example = Example { levels: Levels::default().and(3).and(2).and(1), p: [0.1, 0.2, 0.6, 0.0] };
        assert!((Mixture::equal(3).mix(&example) - 0.3).abs() < 1e-15);
        assert_eq!([level(1.0), level(0.95), level(0.8), level(0.5), level(0.0)], [0, 0, 1, 2, 3]);
        assert!(Mixture::equal(3).is_sound(3) && Mixture::equal(4).is_sound(4));
        let damaged = |weights| Mixture { contexts: 2, weights: vec![weights] };
        assert!(!damaged([0.5, 0.4, 0.0, 0.0]).is_sound(2) && !damaged([f64::NAN; 4]).is_sound(2));
        assert!(!damaged([0.5, 0.3, 0.2, 0.0]).is_sound(2) && damaged([1.0, 0.0, 0.0, 0.0]).is_sound(2));
    }
}
