//! The joint probability of words and topics, ln p(w, z | alpha, beta), with phi and theta integrated out.
//!
//! ```text
//! ln p(w | z) = sum_k [ lnG(V beta) - lnG(n_k + V beta) ]  +  sum_w sum_k [ lnG(n_kw + beta) - lnG(beta) ]
//! ln p(z)     = sum_d [ lnG(A) - lnG(N_d + A)  +  sum_k [ lnG(n_dk + alpha_k) - lnG(alpha_k) ] ]
//! ```
//!
//! (Griffiths & Steyvers 2004, eqs. 2 and 3.) The first line falls into a part for all topics and one for each word, so
//! that whoever owns a word's merged counts gives its part; the second is a sum over shards. Floats: add words in the
//! order of the vocabulary and shards in theirs.
//!
//! Only counts above 0 contribute to the inner sums. Time: one lnG per such count; small counts are looked up.

use super::prior::Prior;
use crate::math::gamma_ln;
use crate::math::lanes::Block;

/// Counts up to this have their term of the word part in a table.
const TABLE: usize = 1024;

/// The word side of the joint probability.
pub struct WordSide {
    beta: f64,
    /// lnG(n + beta) - lnG(beta).
    rising: Vec<f64>,
}

impl WordSide {
    pub fn new(prior: &Prior) -> WordSide {
        let beta = prior.beta();
        let rising = (0..TABLE).map(|n| rising_ln(beta, n as f64)).collect();
        WordSide { beta, rising }
    }

    /// The part of one word, from its row of counts.
    pub fn word_ln(&self, row: &[Block<i32>]) -> f64 {
        let cells = row.iter().flat_map(|block| &block.0);
        cells.filter(|&&count| count > 0).map(|&count| self.count_ln(count)).sum()
    }

    fn count_ln(&self, count: i32) -> f64 {
        self.rising.get(count as usize).copied().unwrap_or_else(|| rising_ln(self.beta, f64::from(count)))
    }
}

/// The part of all topics, from their totals over the whole corpus.
pub fn totals_ln(totals: &[i64], prior: &Prior) -> f64 {
    let mass = prior.vocabulary_mass();
    totals.iter().filter(|&&total| total > 0).map(|&total| -rising_ln(mass, total as f64)).sum()
}

/// ln p(z) of documents, by their topics and counts.
pub fn documents_ln<L: Iterator<Item = (usize, u32)>>(documents: impl Iterator<Item = L>, prior: &Prior) -> f64 {
    let mut sum = 0.0;
    for list in documents {
        let mut tokens = 0;
        for (topic, count) in list {
            sum += rising_ln(prior.alpha()[topic], f64::from(count));
            tokens += count;
        }
        sum -= rising_ln(prior.strength(), f64::from(tokens));
    }
    sum
}

/// ln of the rising factorial, lnG(a + n) - lnG(a); 0 if n is.
fn rising_ln(a: f64, n: f64) -> f64 {
    if n == 0.0 { 0.0 } else { gamma_ln(a + n) - gamma_ln(a) }
}
