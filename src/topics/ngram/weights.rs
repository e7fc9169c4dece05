//! Products of many factors, for every topic, and a draw by them.

use crate::math::draws::unit;
use crate::math::pairs;
use crate::math::power::{exp2, log2};
use crate::restaurant::chance::Chance;

/// So many factors may be multiplied before the weights are scaled: none is below 1e-8 or above 1e8.
const BETWEEN_SCALES: u32 = 12;

/// What a weight is scaled by where it is smaller than one over its root, or larger than that.
const SCALE: f64 = f64::from_bits((1023 + 465) << 52);
const SCALE_ROOT: f64 = 1e140;
const SCALE_LOG2: f64 = 465.0;

/// Weights of topics, each with an exponent of its own: those of large blocks differ by thousands of digits on the way, and
/// which is the largest is known at the end only.
pub struct Weights {
    pub values: Vec<f64>,
    /// Powers of [`SCALE`], where weights were scaled.
    exponents: Vec<i32>,
    is_scaled: bool,
    /// Multiplied since the last look at exponents.
    factors: u32,
    /// Sums of [`RUN`] weights each.
    runs: Vec<f64>,
}

/// Weights that are added up on their own, so that no sum waits for all others.
const RUN: usize = 8;

impl Weights {
    pub fn new(topics: usize) -> Weights {
        Weights {
            values: vec![0.0; topics],
            exponents: vec![0; topics],
            is_scaled: false,
            factors: 0,
            runs: vec![0.0; topics.div_ceil(RUN)],
        }
    }

    /// For a first factor of each.
    #[inline(always)]
    pub fn start(&mut self) -> &mut [f64] {
        self.is_scaled = false;
        self.factors = 0;
        &mut self.values
    }

    /// Notes that all were multiplied by another factor; now and then, brings them back to where numbers are exact.
    #[inline(always)]
    pub fn multiplied(&mut self) {
        self.factors += 1;
        if self.factors == BETWEEN_SCALES {
            self.scale();
        }
    }

    fn start_exponents(&mut self) {
        if !self.is_scaled {
            self.exponents.fill(0);
            self.is_scaled = true;
        }
    }

    fn scale(&mut self) {
        self.factors = 0;
        self.start_exponents();
        for (value, exponent) in self.values.iter_mut().zip(&mut self.exponents) {
            if *value > SCALE_ROOT {
                (*value, *exponent) = (*value / SCALE, *exponent + 1);
            } else if *value < 1.0 / SCALE_ROOT && *value > 0.0 {
                (*value, *exponent) = (*value * SCALE, *exponent - 1);
            }
        }
    }

    /// The weights with one exponent: that of the largest. Most have only a few factors, and were never scaled.
    #[inline(always)]
    fn finish(&mut self) {
        if self.is_scaled {
            self.align();
        }
    }

    fn align(&mut self) {
        self.scale();
        let is_there = |(_, value): &(&i32, &f64)| **value > 0.0;
        let most = self.exponents.iter().zip(&self.values).filter(is_there).map(|(exponent, _)| *exponent).max();
        let most = most.unwrap_or(0);
        for (value, exponent) in self.values.iter_mut().zip(&self.exponents) {
            match most - exponent {
                0 => {}
                1 => *value /= SCALE,
                2 => *value = *value / SCALE / SCALE,
                _ => *value = 0.0,
            }
        }
    }

    /// Appends the logarithms to base 2.
    #[inline(always)]
    pub fn log2(&mut self, logarithms: &mut Vec<f32>) {
        self.start_exponents();
        let start = logarithms.len();
        logarithms.resize(start + self.values.len(), 0.0);
        let exponents = &self.exponents;
        let mut topic = 0;
        pairs::each_mut(&mut logarithms[start..], &self.values, |logarithm, &value| {
            *logarithm = (f64::from(exponents[topic]) * SCALE_LOG2 + log2(value)) as f32;
            topic += 1;
        });
    }

    /// Multiplies by factors whose logarithms to base 2 are these, or are all larger or smaller by the same number.
    #[inline(always)]
    pub fn multiply_by_powers(&mut self, logarithms: &[f32]) {
        let mut most = f32::NEG_INFINITY;
        pairs::each(logarithms, logarithms, |&logarithm, _| most = most.max(logarithm));
        self.start_exponents();
        for ((value, exponent), &logarithm) in self.values.iter_mut().zip(&mut self.exponents).zip(logarithms) {
            let logarithm = f64::from(logarithm - most);
            let scales = libm::rint(logarithm / SCALE_LOG2);
            *value *= exp2(logarithm - scales * SCALE_LOG2);
            *exponent += scales as i32;
        }
    }

    /// A draw by weight.
    #[inline(always)]
    pub fn choose(&mut self, chance: &mut impl Chance) -> usize {
        self.finish();
        let mut sum = 0.0;
        for (number, values) in self.values.chunks(RUN).enumerate() {
            let mut run = 0.0;
            pairs::each(values, values, |&value, _| run += value);
            self.runs[number] = run;
            sum += run;
        }
        assert!(sum > 0.0, "the weights of a block add up to {sum}");
        chance.choose(self.values.len(), |topic| self.values[topic], |rng| self.find(unit(rng) * sum))
    }

    /// The topic at `lot`, of the sum of all.
    #[inline(always)]
    fn find(&self, mut lot: f64) -> usize {
        let mut last = 0;
        for (number, &run) in self.runs.iter().enumerate().filter(|(_, run)| **run > 0.0) {
            last = number;
            if lot < run {
                break;
            }
            lot -= run;
        }
        let first = last * RUN;
        let values = &self.values[first..(first + RUN).min(self.values.len())];
        for (topic, &value) in values.iter().enumerate().filter(|(_, value)| **value > 0.0) {
            last = first + topic;
            lot -= value;
            if lot < 0.0 {
                break;
            }
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::rng::{Purpose, generator};

    /// A topic that falls behind by thousands of digits may catch up: no factor is lost on the way.
    #[test]
    fn weights_are_the_product_of_all_factors() {
        let mut weights = Weights::new(3);
        weights.start().copy_from_slice(&[2.0, 1.0, 0.0]);
        for factor in [1e-7, 1e7] {
            for _ in 0..1000 {
                weights.values[1] *= factor;
                weights.multiplied();
            }
        }
        weights.finish();
        let found = weights.values.clone();
        assert!((found[1] / found[0] - 0.5).abs() < 1e-9 && found[2] == 0.0, "{found:?}");
        weights.start().copy_from_slice(&[1.0, 1.0, 1.0]);
        for _ in 0..100 {
            weights.values[2] *= 1e6;
            weights.multiplied();
        }
        weights.finish();
        assert_eq!(weights.values[..2], [0.0, 0.0], "far behind at the end");
    }

    /// Factors that are given as logarithms may be far beyond what numbers can hold, and later ones make up for them.
    #[test]
    fn factors_may_be_logarithms() {
        let mut weights = Weights::new(3);
        weights.start().copy_from_slice(&[1.0, 3.0, 1.0]);
        weights.multiply_by_powers(&[0.0, -5_000.0, -10_000.0]);
        for _ in 0..1_000 {
            weights.values[1] *= 32.0;
            weights.multiplied();
        }
        let mut logarithms = vec![];
        weights.log2(&mut logarithms);
        assert!((f64::from(logarithms[1] - logarithms[0]) - libm::log2(3.0)).abs() < 1e-3, "{logarithms:?}");
        assert!((logarithms[2] + 10_000.0).abs() < 1e-2, "{logarithms:?}");
        weights.finish();
        assert_eq!((weights.values[1] / weights.values[0]).round(), 3.0, "{:?}", weights.values);
    }

    /// Draws come by weight, those of no weight never, also where there are several runs and the last is short.
    #[test]
    fn draws_are_by_weight() {
        let mut rng = generator(1, Purpose::Sweep, 0, 0);
        let mut weights = Weights::new(19);
        let shares: Vec<f64> = (0..19).map(|topic| if topic % 3 == 0 { 0.0 } else { f64::from(topic) }).collect();
        let sum: f64 = shares.iter().sum();
        let mut drawn = [0.0; 19];
        for _ in 0..100_000 {
            weights.start().copy_from_slice(&shares);
            drawn[weights.choose(&mut rng)] += 1.0;
        }
        for (topic, share) in shares.iter().enumerate() {
            let (p, seen) = (share / sum, drawn[topic] / 100_000.0);
            assert!(
                (seen - p).abs() <= 5.0 * (p * (1.0 - p) / 100_000.0).sqrt(),
                "topic {topic}: {seen}, expected {p}"
            );
        }
    }
}
