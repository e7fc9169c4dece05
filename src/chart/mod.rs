//! Charts of split-head dependency grammars: sums over all projective trees of a sentence, and the best of them, in O(n^3)
//! (Eisner & Satta 1999).
//!
//! A word generates its dependents to the left and to the right independently, each side from the inside out, and stops
//! on each side once. A tree of n words has the score
//!
//! ```text
//! root(r)  prod over arcs h -> d of arc_v(h, d)  prod over words h and sides of stop_v(h, side)
//! ```
//!
//! where the valence v is 0 for the nearest dependent of its head on its side (and for stopping without any), and 1 for all
//! others (and for stopping behind some). Every model of [`crate::induction`] is of this form; it only says where the scores
//! come from. Since valence is seen from a half's width, it costs nothing in the chart:
//!
//! ```text
//! U[h][e]   the dependents of h up to e, complete, and h may take more       U[h][h] = 1
//! S[h][e] = U[h][e] stop_v(h)                                                v = 0 where e = h
//! I[h][d] = arc_0(h, d) S'[d][h + 1]  +  arc_1(h, d) sum_r U[h][r] S'[d][r + 1]
//! U[h][e] = sum_m I[h][m] S[m][e]                                            (right side; S' is of the left side)
//! ```
//!
//! - [`halves`]: which halves there are: one for each side, or several where memory is bounded
//! - [`scores`]: scores of a sentence, in lanes
//! - [`inside`]: sums over all trees, and expected numbers of arcs and stops
//! - [`best`]: the best tree
//!
//! Sums are of plain numbers, not of logarithms, in lanes: lane l of every number belongs to the l-th grammar, so that
//! several are estimated from the same sentence at once. Scores are to be scaled so that the sum is neither 0 nor infinite
//! ([`scores::Scores::rescale`]): each word has one head and stops once on each side, so a factor for each cancels.

pub mod best;
pub mod halves;
pub mod inside;
pub mod scores;

#[cfg(test)]
pub(crate) mod tests;
