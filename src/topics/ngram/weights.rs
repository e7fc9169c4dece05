//! Products of many factors, for every topic.

/// So many factors may be multiplied before the weights are scaled: none is below 1e-8 or above 1e8.
const BETWEEN_SCALES: u32 = 12;

/// What a weight is scaled by where it is smaller than one over its root, or larger than that.
const SCALE: f64 = f64::from_bits((1023 + 465) << 52);
const SCALE_ROOT: f64 = 1e140;

/// Weights of topics, each with an exponent of its own: those of large blocks differ by thousands of digits on the way, and
/// which is the largest is known at the end only.
pub struct Weights {
    pub values: Vec<f64>,
    /// Powers of [`SCALE`].
    exponents: Vec<i32>,
    /// Multiplied since the last look at exponents.
    factors: u32,
}

impl Weights {
    pub fn new(topics: usize) -> Weights {
        Weights { values: vec![0.0; topics], exponents: vec![0; topics], factors: 0 }
    }

    /// For a first factor of each.
    #[inline(always)]
    pub fn start(&mut self) -> &mut [f64] {
        self.exponents.fill(0);
        self.factors = 0;
        &mut self.values
    }

    /// Notes that all were multiplied by another factor; now and then, brings them back to where numbers are exact.
    #[inline(always)]
    pub fn multiplied(&mut self) {
        self.factors += 1;
        if self.factors < BETWEEN_SCALES {
            return;
        }
        self.factors = 0;
        for (value, exponent) in self.values.iter_mut().zip(&mut self.exponents) {
            if *value > SCALE_ROOT {
                (*value, *exponent) = (*value / SCALE, *exponent + 1);
            } else if *value < 1.0 / SCALE_ROOT && *value > 0.0 {
                (*value, *exponent) = (*value * SCALE, *exponent - 1);
            }
        }
    }

    /// The weights with one exponent: that of the largest.
    #[inline(always)]
    pub fn finish(&mut self) -> &[f64] {
        self.factors = BETWEEN_SCALES;
        self.multiplied();
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
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let found = weights.finish().to_vec();
        assert!((found[1] / found[0] - 0.5).abs() < 1e-9 && found[2] == 0.0, "{found:?}");
        weights.start().copy_from_slice(&[1.0, 1.0, 1.0]);
        for _ in 0..100 {
            weights.values[2] *= 1e6;
            weights.multiplied();
        }
        assert_eq!(weights.finish()[..2], [0.0, 0.0], "far behind at the end");
    }
}
