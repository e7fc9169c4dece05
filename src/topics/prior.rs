//! The Dirichlet priors of LDA, and how the one over documents is learned.
//!
//! ```text
//! strength ~ Gamma(1, 1)      alpha0 ~ Dirichlet(1, ..., 1)      alpha_k = strength alpha0_k
//! theta_d ~ Dirichlet(alpha)                                     phi_k ~ Dirichlet(beta, ..., beta) over V words
//! ```
//!
//! Given the topics of all tokens, with n_dk tokens of topic k among the N_d of document d,
//!
//! ```text
//! p(z | alpha) = prod_d Gamma(A) / Gamma(A + N_d)  prod_k Gamma(alpha_k + n_dk) / Gamma(alpha_k),   A = strength
//! ```
//!
//! Two families of auxiliary variables make both unknowns conjugate (Escobar & West 1995; Teh et al. 2006, appendix A).
//! Gamma(a + n) / Gamma(a) = sum_t S(n, t) a^t, where t is a number of tables: t_dk is drawn by seating n_dk customers
//! in a restaurant of strength alpha_k. And Gamma(A) / Gamma(A + N) is an integral over eta ~ Beta(A + 1, N) and
//! s ~ Bernoulli(N / (N + A)). Then
//!
//! ```text
//! alpha0   ~ Dirichlet(1 + sum_d t_dk)
//! strength ~ Gamma(1 + sum_dk t_dk - sum_d s_d,  rate 1 - sum_d ln eta_d)
//! ```
//!
//! so that a shard hands over one integer per topic, one more, and one float, which the caller adds in shard order.
//! Time: a multiplication and a comparison per token, and two gamma draws per document.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::cluster::rng::Generator;
use crate::math::draws;

/// No topic's share sinks below this, so that every topic can be drawn in 32-bit arithmetic.
const SMALLEST_ALPHA: f64 = 1e-9;

/// Parameters of the priors are within this: beyond it, products of them would leave the range of 32-bit floats.
pub const PRIOR_RANGE: RangeInclusive<f64> = 1e-12..=1e12;

/// The priors: alpha over a document's topics, beta over a topic's words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prior {
    strength: f64,
    alpha: Vec<f64>,
    beta: f64,
    vocabulary: u64,
}

impl Prior {
    /// A symmetric prior: alpha_k = `strength` / `topics`. `vocabulary` is the number of words of the whole corpus.
    pub fn new(topics: usize, strength: f64, beta: f64, vocabulary: u64) -> Prior {
        assert!(strength > 0.0 && beta > 0.0, "the strengths of Dirichlet priors are positive");
        assert!(topics > 0 && vocabulary > 0, "at least one topic and one word");
        Prior { strength, alpha: vec![strength / topics as f64; topics], beta, vocabulary }
    }

    /// The same with these alphas.
    pub fn with_alpha(mut self, alpha: Vec<f64>) -> Prior {
        assert_eq!(alpha.len(), self.alpha.len(), "one alpha per topic");
        assert!(alpha.iter().all(|&a| a > 0.0), "alphas are positive");
        self.strength = alpha.iter().sum();
        self.alpha = alpha;
        self
    }

    pub fn topics(&self) -> usize {
        self.alpha.len()
    }

    /// alpha_k by topic.
    pub fn alpha(&self) -> &[f64] {
        &self.alpha
    }

    /// The sum of alpha.
    pub fn strength(&self) -> f64 {
        self.strength
    }

    pub fn beta(&self) -> f64 {
        self.beta
    }

    /// V beta: what the prior adds to a topic's total.
    pub fn vocabulary_mass(&self) -> f64 {
        self.vocabulary as f64 * self.beta
    }

    /// Draws alpha0 and the strength from their posterior, given the statistics of all shards.
    pub fn redraw(&mut self, statistics: &PriorStatistics, rng: &mut Generator) {
        let tables: u64 = statistics.tables.iter().sum();
        // Every document with a token has a table and at most one success, so that the shape is at least 1.
        let shape = 1.0 + (tables - statistics.successes) as f64;
        self.strength = draws::gamma(shape, rng) / (1.0 - statistics.eta_ln);
        self.alpha.clear();
        self.alpha.extend(statistics.tables.iter().map(|&t| 1.0 + t as f64));
        draws::dirichlet(&mut self.alpha, rng);
        for alpha in &mut self.alpha {
            *alpha = (*alpha * self.strength).max(SMALLEST_ALPHA);
        }
    }
}

/// What the posterior of a [`Prior`] needs to know of a shard, or of several.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PriorStatistics {
    /// sum_d t_dk by topic.
    pub tables: Vec<u64>,
    /// sum_d s_d.
    pub successes: u64,
    /// sum_d ln eta_d. Add shards in their order.
    pub eta_ln: f64,
}

impl PriorStatistics {
    /// Nothing yet.
    pub fn new(topics: usize) -> PriorStatistics {
        PriorStatistics { tables: vec![0; topics], successes: 0, eta_ln: 0.0 }
    }

    /// Draws the auxiliary variables of a shard, from the topics and counts of its documents, topics rising. The tokens of a
    /// topic are seated one after another: the i-th opens a table with probability alpha_k / (alpha_k + i), i from 0.
    pub fn of_lists<L: Iterator<Item = (usize, u32)>>(
        documents: impl Iterator<Item = L>,
        prior: &Prior,
        rng: &mut Generator,
    ) -> PriorStatistics {
        let mut statistics = PriorStatistics::new(prior.topics());
        for list in documents {
            let mut length = 0;
            for (topic, tokens) in list {
                let alpha = prior.alpha[topic];
                let opens = |before: &u32| *before == 0 || draws::unit(rng) * (alpha + f64::from(*before)) < alpha;
                statistics.tables[topic] += (0..tokens).filter(opens).count() as u64;
                length += tokens;
            }
            statistics.draw_eta(length as usize, prior.strength, rng);
        }
        statistics
    }

    /// The same of documents that have a count for every topic.
    pub fn of_counts<'c>(
        documents: impl Iterator<Item = &'c [u32]>,
        prior: &Prior,
        rng: &mut Generator,
    ) -> PriorStatistics {
        PriorStatistics::of_lists(documents.map(|counts| counts.iter().copied().enumerate()), prior, rng)
    }

    /// Adds the statistics of the next shard.
    pub fn add(&mut self, next: &PriorStatistics) {
        self.tables.iter_mut().zip(&next.tables).for_each(|(sum, tables)| *sum += tables);
        self.successes += next.successes;
        self.eta_ln += next.eta_ln;
    }

    fn draw_eta(&mut self, tokens: usize, strength: f64, rng: &mut Generator) {
        if tokens > 0 {
            let tokens = tokens as f64;
            self.eta_ln += draws::beta_ln(strength + 1.0, tokens, rng);
            self.successes += u64::from(draws::unit(rng) * (tokens + strength) < tokens);
        }
    }
}
