//! Draws and special functions that give the same bits on every processor.
//!
//! The system's mathematical library chooses its instructions by processor (with or without fused multiply-add), and its
//! last bits with them: enough to let two hosts of one job drift apart. Everything here rests on the crate `libm`, which
//! computes in software, on polynomials of our own where many numbers are due at once ([`power`]), and on sums in a fixed
//! order.

pub mod digamma;
pub mod draws;
#[cfg(test)]
pub mod exactness;
pub mod lanes;
pub mod pairs;
pub mod power;

/// ln of the gamma function.
#[inline]
pub fn gamma_ln(x: f64) -> f64 {
    libm::lgamma(x)
}

/// Natural logarithm.
#[inline]
pub fn ln(x: f64) -> f64 {
    libm::log(x)
}
