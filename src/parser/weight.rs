//! Probabilities of whole derivations, which are too small for a float.

use crate::math::ln;

/// A probability that does not vanish: `part` 2^(512 `scale`), part in (2^-512, 1].
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Weight {
    pub scale: i32,
    part: f64,
}

const STEP: f64 = 1.340_780_792_994_259_7e154; // 2^512

impl Weight {
    pub const ONE: Weight = Weight { scale: 0, part: 1.0 };

    #[inline]
    pub fn times(self, p: f64) -> Weight {
        let part = self.part * p;
        match part < 1.0 / STEP {
            true => Weight { scale: self.scale - 1, part: part * STEP },
            false => Weight { scale: self.scale, part },
        }
    }

    pub fn ln(self) -> f64 {
        ln(self.part) + f64::from(self.scale) * ln(STEP)
    }

    /// Its share of a weight of the scale `top`, which is not smaller.
    #[inline]
    pub fn at_scale(self, top: i32) -> f64 {
        match top - self.scale {
            0 => self.part,
            1 => self.part / STEP,
            _ => 0.0,
        }
    }

    /// ln of the sum of several.
    pub fn sum_ln(all: impl Iterator<Item = Weight> + Clone) -> f64 {
        let top = all.clone().map(|weight| weight.scale).max().unwrap_or(0);
        ln(all.map(|weight| weight.at_scale(top)).sum()) + f64::from(top) * ln(STEP)
    }
}
