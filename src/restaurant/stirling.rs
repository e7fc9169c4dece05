//! How likely a customer is to sit alone, given only how many customers and tables there are.
//!
//! With discount a, the seatings of c customers at t tables weigh, all together, the generalised Stirling number
//! S_a(c, t), where S(n + 1, m) = S(n, m - 1) + (n - a m) S(n, m). Customers are exchangeable, so the one to be removed
//! may be taken as the last: it opened its table, and sits alone, with probability
//!
//! ```text
//! R(c, t) = S(c - 1, t - 1) / S(c, t)
//! ```
//!
//! This ratio is all that counts-only seating needs: a new customer joins the tables of its dish with weight c - a t,
//! whatever their sizes. With w(n, m) = S(n, m - 1) / S(n, m), rows follow from rows by positive numbers alone, so that
//! nothing overflows or cancels:
//!
//! ```text
//! R(n + 1, m) = w(n, m) / (w(n, m) + n - a m)          w(n + 1, m) = (w(n, m - 1) + n - a (m - 1)) R(n + 1, m)
//! ```
//!
//! Up to [`EXACT`] customers that is done in full. Beyond, c R(c, t) / t, the share of tables with one customer, tends to
//! p(t / c): t table sizes drawn independently, with a mean of c / t, are 1 with probability p = x / f(x), where
//! f(x) = (1 - (1 - x)^a) / a is the exponential generating function of one table and x solves x f'(x) / f(x) = c / t.
//! What that misses for few tables hardly depends on c, and is taken from the last exact row:
//!
//! ```text
//! c R(c, t) / t = p(t / c) * [EXACT R(EXACT, t) / t] / p(t / EXACT)
//! ```
//!
//! which is within 0.5 % of the truth, and 2 % where a < 0.3 and t is 2 or 3 (tested).

use crate::math::{gamma_ln, ln};

/// Up to so many customers the ratio is exact.
pub const EXACT: u32 = 1024;

/// Logarithmic steps of t / c: so many for each factor e.
const STEPS: f64 = 32.0;

/// R(c, t) for one discount. Rows are made when they are first asked for: most depths need few.
#[derive(Clone, Debug)]
pub struct Alone {
    discount: f64,
    /// The last row that is there.
    customers: usize,
    /// Row c has t = 2 .. c - 1.
    rows: Vec<f32>,
    /// w(n, m) of the last row, its successor's space, and that of ratios.
    w: Vec<f64>,
    next: Vec<f64>,
    ratios: Vec<f64>,
    /// a m, by m.
    discounts: Vec<f64>,
    /// For more than [`EXACT`] customers.
    beyond: Option<Beyond>,
}

#[derive(Clone, Debug)]
struct Beyond {
    /// p(t / c) by ln(c / t).
    shares: Vec<f64>,
    /// What the last exact row has over p, by tables.
    factors: Vec<f64>,
}

impl Alone {
    pub fn new(discount: f64) -> Alone {
        Alone {
            discount,
            customers: 1,
            rows: vec![],
            w: vec![],
            next: vec![],
            ratios: vec![],
            discounts: vec![],
            beyond: None,
        }
    }

    /// Starts anew with another discount, in the same space.
    pub fn set_discount(&mut self, discount: f64) {
        self.discount = discount;
        self.customers = 1;
        self.rows.clear();
        self.beyond = None;
    }

    /// R(c, t), for c >= 1 and 1 <= t <= c.
    #[inline]
    pub fn probability(&mut self, customers: u32, tables: u32) -> f64 {
        if tables == customers {
            return 1.0;
        }
        if tables == 1 {
            return 0.0;
        }
        if customers > EXACT {
            return self.beyond(customers, tables);
        }
        if customers as usize > self.customers {
            self.grow(customers as usize);
        }
        f64::from(self.rows[cell(customers, tables)])
    }

    /// ln S_a(c, t), for c >= 1 and 1 <= t <= c: by S(c, t) = S(c - 1, t - 1) / R(c, t), down to one table.
    pub fn stirling_ln(&mut self, customers: u32, tables: u32) -> f64 {
        if tables == customers {
            return 0.0;
        }
        let mut sum = 0.0;
        for less in 0..tables - 1 {
            sum -= ln(self.probability(customers - less, tables - less));
        }
        sum + gamma_ln(f64::from(customers - tables + 1) - self.discount) - gamma_ln(1.0 - self.discount)
    }

    /// Makes the rows up to `customers`.
    #[cold]
    fn grow(&mut self, customers: usize) {
        if self.w.len() < customers + 2 {
            let room = (2 * customers).min(EXACT as usize) + 2;
            self.next.resize(room, 0.0);
            self.w.resize(room, 0.0);
            self.ratios.resize(room, 0.0);
        }
        let a = self.discount;
        self.discounts.clear();
        self.discounts.extend((0..customers + 2).map(|m| a * m as f64));
        for n in self.customers..customers {
            self.w[1] = 0.0;
            step(n, &self.discounts, &self.w, &mut self.ratios, &mut self.next);
            let size = n as f64;
            self.next[n + 1] = self.w[n] + size - a * size; // the only seating of n + 1 at n + 1: nothing to be divided by
            self.rows.extend(self.ratios[2..n.max(1) + 1].iter().map(|&ratio| ratio as f32));
            std::mem::swap(&mut self.w, &mut self.next);
        }
        self.customers = customers;
    }

    #[cold]
    fn beyond(&mut self, customers: u32, tables: u32) -> f64 {
        if self.beyond.is_none() {
            self.grow(EXACT as usize); // rows that are there are not made again
            self.beyond = Some(Beyond::new(self.discount, &self.rows));
        }
        self.beyond.as_ref().map_or(0.0, |beyond| beyond.probability(customers, tables))
    }
}

/// R(n + 1, m) and w(n + 1, m) for m = 2 .. n from w(n, m); `discounts` are a m.
#[multiversion::multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn step(n: usize, discounts: &[f64], w: &[f64], ratios: &mut [f64], next: &mut [f64]) {
    if n < 2 {
        return;
    }
    let size = n as f64;
    let (before, here) = (&w[1..n], &w[2..n + 1]);
    let (discounts_before, discounts) = (&discounts[1..n], &discounts[2..n + 1]);
    let (ratios, next) = (&mut ratios[2..n + 1], &mut next[2..n + 1]);
    for i in 0..n - 1 {
        let ratio = here[i] / (here[i] + size - discounts[i]);
        ratios[i] = ratio;
        next[i] = (before[i] + size - discounts_before[i]) * ratio;
    }
}

/// Where row c begins.
#[inline]
fn row_start(customers: u32) -> usize {
    (customers as usize - 2) * customers.saturating_sub(3) as usize / 2
}

#[inline]
fn cell(customers: u32, tables: u32) -> usize {
    row_start(customers) + tables as usize - 2
}

impl Beyond {
    /// Beyond the exact `rows`, which are all there.
    fn new(discount: f64, rows: &[f32]) -> Beyond {
        let mut beyond = Beyond { shares: singleton_shares(discount), factors: vec![0.0; EXACT as usize] };
        for tables in 2..EXACT {
            let exact = f64::from(EXACT) / f64::from(tables) * f64::from(rows[cell(EXACT, tables)]);
            beyond.factors[tables as usize] = exact / beyond.share(EXACT, tables);
        }
        beyond
    }

    fn share(&self, customers: u32, tables: u32) -> f64 {
        let at = ln(f64::from(customers) / f64::from(tables)) * STEPS;
        let place = (at as usize).min(self.shares.len() - 2);
        let (low, high) = (self.shares[place], self.shares[place + 1]);
        low + (at - place as f64) * (high - low)
    }

    fn probability(&self, customers: u32, tables: u32) -> f64 {
        let factor = self.factors.get(tables as usize).copied().unwrap_or(1.0);
        f64::from(tables) / f64::from(customers) * (factor * self.share(customers, tables)).min(1.0)
    }
}

/// p(t / c) by ln(c / t) in steps, up to 2^32 customers at a table.
fn singleton_shares(discount: f64) -> Vec<f64> {
    // With x = 1 - exp(-u): ln(x f'(x) / f(x)) = ln(1 - exp(-u)) + (1 - a) u + ln a - ln(1 - exp(-a u)), which rises in u.
    let a = discount.clamp(1e-9, 1.0 - 1e-9);
    let tail = |u: f64| -libm::expm1(-u);
    let mut u = 1e-3;
    let mut shares = vec![1.0];
    for step in 1..=(23.0 * STEPS) as usize {
        let target = step as f64 / STEPS;
        for _ in 0..50 {
            let value = ln(tail(u)) + (1.0 - a) * u + ln(a) - ln(tail(a * u)) - target;
            let slope = 1.0 / libm::expm1(u) + (1.0 - a) - a / libm::expm1(a * u);
            let next = u - value / slope;
            let is_close = (next - u).abs() < 1e-10 * u;
            u = if next > 0.0 { next } else { u / 2.0 };
            if is_close {
                break;
            }
        }
        shares.push(a * tail(u) / tail(a * u));
    }
    shares
}

/// S(n, m) itself, for small n.
#[cfg(test)]
fn numbers(discount: f64, largest: usize) -> Vec<Vec<f64>> {
    let mut rows = vec![vec![0.0; largest + 2]; largest + 1];
    rows[0][0] = 1.0;
    for n in 0..largest {
        for m in 0..=n + 1 {
            let opened = if m > 0 { rows[n][m - 1] } else { 0.0 };
            rows[n + 1][m] = opened + (n as f64 - discount * m as f64) * rows[n][m];
        }
    }
    rows
}

#[cfg(test)]
impl Alone {
    /// R(c, t) in full precision, for small c.
    pub fn exact(&self, customers: u32, tables: u32) -> f64 {
        let (customers, tables) = (customers as usize, tables as usize);
        let s = numbers(self.discount, customers);
        s[customers - 1][tables - 1] / s[customers][tables]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_those_of_stirling_numbers() {
        for discount in [0.0, 0.3, 0.75, 0.99] {
            let (mut alone, s) = (Alone::new(discount), numbers(discount, 60));
            for c in 1..=60usize {
                for t in 1..=c {
                    let exact = s[c - 1][t - 1] / s[c][t];
                    let ratio = alone.probability(c as u32, t as u32);
                    assert!(
                        (ratio - exact).abs() < 1e-6 * exact.max(1e-3),
                        "a {discount}, R({c}, {t}): {ratio}, {exact}"
                    );
                }
            }
        }
    }

    #[test]
    fn logarithms_are_those_of_stirling_numbers() {
        for discount in [0.0, 0.3, 0.75] {
            let (mut alone, s) = (Alone::new(discount), numbers(discount, 40));
            for (c, row) in s.iter().enumerate().skip(1) {
                for (t, number) in row.iter().enumerate().take(c + 1).skip(1) {
                    let (found, exact) = (alone.stirling_ln(c as u32, t as u32), ln(*number));
                    assert!((found - exact).abs() < 1e-5, "a {discount}, ln S({c}, {t}): {found}, {exact}");
                }
            }
        }
    }

    /// One row far out, by the exact recursion.
    fn far_row(a: f64, customers: usize, tables: usize) -> Vec<f64> {
        let mut w = vec![0.0; tables + 2];
        let mut ratios = vec![0.0; tables + 2];
        for n in 1..customers {
            let top = n.min(tables);
            let mut before = 0.0;
            for m in 2..=top {
                ratios[m] = w[m] / (w[m] + n as f64 - a * m as f64);
                let next = (before + n as f64 - a * (m - 1) as f64) * ratios[m];
                before = std::mem::replace(&mut w[m], next);
            }
            if n < tables {
                w[n + 1] = before + n as f64 - a * n as f64;
                ratios[n + 1] = 1.0;
            }
        }
        ratios
    }

    #[test]
    fn beyond_the_exact_rows_the_error_is_small() {
        for a in [0.05, 0.2, 0.5, 0.8, 0.95] {
            let mut alone = Alone::new(a);
            for c in [1025usize, 3000, 20_000] {
                let exact = far_row(a, c, 1500);
                for t in [2usize, 3, 4, 8, 30, 100, 400, 900, 1020, 1024, 1400].into_iter().filter(|t| *t < c) {
                    if t > 1000 && c < 1100 {
                        continue;
                    }
                    let ratio = alone.probability(c as u32, t as u32) / exact[t];
                    let most = if a < 0.3 && t < 5 { 0.02 } else { 0.005 };
                    assert!((ratio - 1.0).abs() < most, "a {a}, R({c}, {t}): {ratio} of the exact value");
                }
            }
        }
    }
}
