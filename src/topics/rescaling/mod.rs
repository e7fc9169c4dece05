//! RESCALING: an n-gram model whose words are weighed by a topic model (Gildea & Hofmann 1999; Noji et al. 2013, eq. 14).
//!
//! ```text
//! p(w | h, d) = (p(w | d) / p(w))^weight p(w | h) / Z(h, d),     Z(h, d) = sum over all words w
//! ```
//!
//! p(w | h) is an HPYLM, p(w | d) is LDA: both are trained in one job, on the same tokens, and know nothing of each other.
//! What the paper leaves open is settled so:
//!
//! - **The end of a sentence** is a word of LDA's documents too, so that all models predict the same tokens.
//! - **p(w | d)** is LDA's prediction given the words of the document so far: the weighted mean over the particles of the
//!   left-to-right method ([`crate::topics::left_to_right`]), which see LDA alone. Eq. 14 asks for LDA's predictive
//!   distribution, and that is the particles' estimate of it; a mean of distributions that are rescaled particle by particle
//!   would be another model, and cost as many times more as there are particles.
//! - **p(w)** is what LDA predicts for a document with the whole corpus's share of topics,
//!   sum_k n_k / n (n_kw + beta) / (n_k + V beta): the relative frequency, smoothed as p(w | d) is. So a document that is
//!   like the corpus, and LDA with one topic, change nothing. The HPYLM's own distribution without context would not do: it
//!   counts contexts rather than tokens (as Kneser-Ney smoothing does), and the ratio would then favour words that
//!   follow few others, whatever the topic.
//!
//! **Z without a sum over n-grams.** With r_w = (p(w | d) / p(w))^weight and p(w | h) = s_h(w) + q_h p(w | h'), where s_h(w)
//! are the seats of w in the restaurant of h and q_h is the share of new tables, Z(h) = sum_w r_w s_h(w) + q_h Z(h'): a sum
//! over the dishes of each restaurant on the path, and one over the vocabulary at the root.
//!
//! Cost of a token: K V multiplications for p(w | d) of all words, in lanes, many tokens at a time so that the topics are
//! read from memory once for all of them; V powers ([`crate::math::power`]); and a look-up for each dish on the path.
//!
//! - `factors`: r_w of all words
//! - `back_off`: the HPYLM as seats and shares, and Z
//! - `predict`: the probability of documents not seen
//! - `model`: both models as one of the sweep driver

mod back_off;
mod factors;
pub mod model;
pub mod predict;
#[cfg(test)]
mod tests;
