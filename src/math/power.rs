//! x^p in lanes of 32-bit numbers: x^p = 2^(p log2 x), by polynomials of our own, the same bits on every processor.
//!
//! ```text
//! x = 2^e (1 + t),   sqrt(1/2) <= 1 + t < sqrt(2)      log2(1 + t) = t Q(t),    Q of degree 8, within 2.7e-8 of it
//! p log2 x = n + f,  n whole, |f| <= 1/2               2^f = E(f),              E of degree 6, within 1.9e-9 of it
//! ```
//!
//! Both polynomials have the smallest relative error of their degree (Remez). What would cost accuracy is p e, which
//! may be large where f is small: p is held as a sum of two numbers of which the first has 11 bits, so that its product
//! with e is exact. The result is within 1e-6 of the true one, relatively, for all normal x and results; smaller
//! results than 2^-126 become 2^-126.
//!
//! Cost: about 40 instructions for 16 numbers with wide registers.

use super::lanes::{Block, LANES};

/// An exponent.
#[derive(Clone, Copy, Debug)]
pub struct Power {
    whole: f32,
    high: f32,
    low: f32,
}

/// The bits of sqrt(1/2), where a mantissa begins.
const HALF_ROOT: i32 = 0x3f35_04f3;

/// Adding and taking away this rounds a number below 2^22 to a whole one.
const ROUNDING: f32 = 12_582_912.0;

/// Q, from the constant on.
const LOG2: [f32; 9] = [
    std::f32::consts::LOG2_E,
    -0.721_347_35,
    0.480_910_65,
    -0.360_703_68,
    0.287_916_25,
    -0.238_944_82,
    0.215_715_6,
    -0.207_269_73,
    0.125_837,
];

/// E, from the constant on.
const EXP2: [f32; 7] =
    [1.0, std::f32::consts::LN_2, 0.240_226_47, 0.055_503_29, 0.009_618_489, 0.001_339_993_1, 0.000_153_458_12];

/// log2 of a positive normal number, within 1e-7 times the larger of 1 and itself.
#[inline(always)]
pub fn log2(x: f64) -> f64 {
    const HALF_ROOT: i64 = 0x3fe6_a09e_6000_0000;
    let bits = x.to_bits() as i64;
    let exponent = (bits - HALF_ROOT) >> 52;
    let t = (f64::from_bits((bits - (exponent << 52)) as u64) - 1.0) as f32;
    // The last bits of a sum hold a whole number: a conversion would not become lanes.
    let whole = f64::from_bits((exponent + ROUNDING_BITS) as u64) - f64::from_bits(ROUNDING_BITS as u64);
    whole + f64::from(t * polynomial(&LOG2, t))
}

/// 2^x for |x| < 1,000, within 1e-6 of it relatively.
#[inline(always)]
pub fn exp2(x: f64) -> f64 {
    let rounded = x + f64::from_bits(ROUNDING_BITS as u64);
    let f = (x - (rounded - f64::from_bits(ROUNDING_BITS as u64))) as f32;
    let scale = f64::from_bits(((rounded.to_bits() as i64 - ROUNDING_BITS + 1023) << 52) as u64);
    f64::from(polynomial(&EXP2, f)) * scale
}

/// The bits of a number whose last bit counts ones.
const ROUNDING_BITS: i64 = 0x4338_0000_0000_0000;

impl Power {
    /// Exponents from -2 to 2 keep the promise above for x between 2^-60 and 2^60.
    pub fn new(power: f32) -> Power {
        let high = f32::from_bits(power.to_bits() & 0xffff_e000);
        Power { whole: power, high, low: power - high }
    }

    /// x^p of positive numbers.
    #[inline(always)]
    pub fn of(&self, x: &Block<f32>) -> Block<f32> {
        let mut out = Block([0.0; LANES]);
        for lane in 0..LANES {
            out.0[lane] = self.of_one(x.0[lane]);
        }
        out
    }

    /// Without branches, so that lanes are computed together.
    #[inline(always)]
    fn of_one(&self, x: f32) -> f32 {
        let bits = x.to_bits() as i32;
        let exponent = (bits - HALF_ROOT) >> 23;
        let t = f32::from_bits((bits - (exponent << 23)) as u32) - 1.0;
        let fraction = t * polynomial(&LOG2, t);
        let exponent = exponent as f32;
        let rounded = (self.whole * (exponent + fraction)).clamp(-126.0, 127.0) + ROUNDING;
        let n = rounded - ROUNDING;
        let f = (self.high * exponent - n) + (self.low * exponent + self.whole * fraction);
        // The whole number is in the last bits of the sum: a conversion would look at each lane for what it cannot
        // hold.
        let scale = f32::from_bits(((rounded.to_bits() as i32 - ROUNDING.to_bits() as i32 + 127) << 23) as u32);
        polynomial(&EXP2, f) * scale
    }
}

/// By Horner's rule.
#[inline(always)]
fn polynomial<const N: usize>(coefficients: &[f32; N], x: f32) -> f32 {
    let mut sum = coefficients[N - 1];
    for coefficient in coefficients[..N - 1].iter().rev() {
        sum = sum * x + coefficient;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_within_a_millionth_of_the_exact_ones() {
        for power in [0.7f32, 1.0, 0.5, 0.05, 1.3, 2.0, -0.7, -2.0, 0.0] {
            let lanes = Power::new(power);
            let mut worst = (0.0, 0.0);
            // Every exponent from 2^-60 to 2^60, and mantissas close together.
            for exponent in -60..60 {
                for step in 0..4096 {
                    let x = libm::ldexpf(1.0 + step as f32 / 4096.0 + 1e-5, exponent);
                    let found = lanes.of(&Block([x; LANES])).0[3];
                    let exact = libm::pow(f64::from(x), f64::from(power));
                    let error = (f64::from(found) / exact - 1.0).abs();
                    if error > worst.0 {
                        worst = (error, x);
                    }
                }
            }
            assert!(worst.0 < 1e-6, "{}^{power} is off by {}", worst.1, worst.0);
        }
    }

    #[test]
    fn logarithms_and_powers_of_two_are_near_the_exact_ones() {
        for step in -40_000..40_000 {
            let x = f64::from(step) / 41.7;
            let (found, exact) = (exp2(x), libm::exp2(x));
            assert!((found / exact - 1.0).abs() < 1e-6, "2^{x}: {found}, not {exact}");
            let (found, exact) = (log2(exact), libm::log2(exact));
            assert!((found - exact).abs() < 1e-7 * exact.abs().max(1.0), "log2 of 2^{x}: {found}, not {exact}");
        }
    }

    #[test]
    fn to_the_power_of_nothing_and_one() {
        let x = Block(std::array::from_fn(|lane| 0.01 * 3f32.powi(lane as i32)));
        assert_eq!(Power::new(0.0).of(&x).0, [1.0; LANES]);
        for (found, x) in Power::new(1.0).of(&x).0.iter().zip(&x.0) {
            assert!((found / x - 1.0).abs() < 1e-6);
        }
    }
}
