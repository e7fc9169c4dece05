//! From expected uses to counts of rules, and from rules to the weights of trees.
//!
//! Expectations are of what trees use: arcs, stops, roots. An arc is a draw from one of the levels of its context, so its
//! expectation is divided among them by how probable each was ([`share`]). With the priors, the counts are the Dirichlet
//! posteriors of variational Bayes (Kurihara & Sato 2004); [`estimate`] makes weights of them, which go back into trees
//! ([`weigh`]).

use multiversion::multiversion;

use super::job::Method;
use super::shape::{CONTEXTS, Distribution, Shape};
use crate::math::digamma::{WIDTH, exp_digamma};
use crate::math::{gamma_ln, ln, pairs};

/// The levels of a context are at most so many.
const MOST_LEVELS: usize = 3;

/// Weights of rules from their counts: in variational Bayes, exp of the expectation of ln theta, exp(digamma(alpha + count)) /
/// exp(digamma(sum)); in EM, relative frequencies.
pub fn estimate(shape: &Shape, method: Method, counts: &[f64], weights: &mut [f64]) {
    match method {
        Method::Vb => variational(shape, counts, weights),
        Method::Em => frequencies(shape, counts, weights),
    }
}

/// The point estimate that sentences are parsed with: the mean of the posterior, or the estimate of EM.
pub fn point_estimate(shape: &Shape, method: Method, counts: &[f64], weights: &mut [f64]) {
    match method {
        Method::Vb => for_each(shape, counts, |d, counts, at, outcome| {
            let sum: f64 = counts.iter().sum();
            weights[at] = (d.prior_of(outcome) + counts[outcome]) / (d.prior_sum() + sum);
        }),
        Method::Em => frequencies(shape, counts, weights),
    }
}

/// Shows each rule: its distribution, the counts of this, its place and its outcome.
fn for_each(shape: &Shape, counts: &[f64], mut visit: impl FnMut(&Distribution, &[f64], usize, usize)) {
    for d in &shape.distributions {
        (0..d.outcomes).for_each(|outcome| visit(d, &counts[d.start..][..d.outcomes], d.start + outcome, outcome));
    }
}

/// Relative frequencies; what was never used stays as the prior has it.
fn frequencies(shape: &Shape, counts: &[f64], weights: &mut [f64]) {
    for d in &shape.distributions {
        let sum: f64 = counts[d.start..][..d.outcomes].iter().sum();
        for outcome in 0..d.outcomes {
            let count = counts[d.start + outcome];
            weights[d.start + outcome] = if sum > 0.0 { count / sum } else { d.prior_of(outcome) / d.prior_sum() };
        }
    }
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2", "x86_64+avx2", "aarch64+neon"))]
fn variational(shape: &Shape, counts: &[f64], weights: &mut [f64]) {
    for group in shape.distributions.chunks(WIDTH) {
        let mut sums = [1.0; WIDTH];
        pairs::each_mut(&mut sums, group, |sum, d| {
            *sum = 0.0;
            for outcome in 0..d.outcomes {
                let parameter = d.prior_of(outcome) + counts[d.start + outcome];
                weights[d.start + outcome] = parameter;
                *sum += parameter;
            }
        });
        pairs::each(&exp_digamma(&sums), group, |sum, d| {
            for chunk in weights[d.start..][..d.outcomes].chunks_mut(WIDTH) {
                let mut padded = [1.0; WIDTH];
                padded[..chunk.len()].copy_from_slice(chunk);
                pairs::each_mut(chunk, &exp_digamma(&padded), |weight, value| *weight = value / sum);
            }
        });
    }
}

/// How probable each level of a context is, with the coins thrown; and where its dependents stand among the rules.
#[inline(always)]
fn levels(shape: &Shape, rules: &[f64], context: usize, symbol: usize) -> ([(f64, usize); MOST_LEVELS], usize) {
    let mut found = [(0.0, 0); MOST_LEVELS];
    let mut count = 0;
    let mut rest = 1.0;
    for (dependents, coin) in shape.levels_of(context, symbol) {
        let (stay, go_on) = coin.map_or((1.0, 0.0), |coin| (rules[coin], rules[coin + 1]));
        found[count] = (rest * stay, dependents);
        rest *= go_on;
        count += 1;
    }
    (found, count)
}

/// The weights of arcs, stops and roots, from those of rules. Arcs to a tag, and roots, are divided by the largest of them,
/// whose logarithm is left in `scales`: each word is at the end of one arc, so ln of a sentence's sum over trees is lower by
/// the scales of its words, and far from underflow.
pub fn weigh(shape: &Shape, rules: &[f64], uses: &mut [f64], scales: &mut [f64]) {
    let tags = shape.tags;
    scales.fill(0.0);
    for context in 0..CONTEXTS {
        for tag in 0..tags {
            uses[shape.stop(context, tag)] = rules[shape.stop_rule(context, tag)];
        }
        for symbol in 0..shape.symbols() {
            let go_on = rules[shape.stop_rule(context, shape.tag_of[symbol] as usize) + 1];
            let arcs = &mut uses[shape.arcs(context, symbol)..][..tags];
            arcs.fill(0.0);
            let (levels, count) = levels(shape, rules, context, symbol);
            for &(probability, dependents) in &levels[..count] {
                let weight = probability * go_on;
                pairs::each_mut(arcs, &rules[dependents..][..tags], |arc, rule| *arc += weight * rule);
            }
            pairs::each_mut(scales, arcs, |most, arc| *most = arc.max(*most));
        }
    }
    for tag in 0..tags {
        scales[tag] = scales[tag].max(rules[tag]);
        uses[shape.root(tag)] = rules[tag];
    }
    scales.iter_mut().filter(|scale| **scale <= 0.0).for_each(|scale| *scale = 1.0);
    for context in 0..CONTEXTS {
        for symbol in 0..shape.symbols() {
            let arcs = &mut uses[shape.arcs(context, symbol)..][..tags];
            pairs::each_mut(arcs, scales, |arc, scale| *arc /= scale);
        }
    }
    for tag in 0..tags {
        uses[shape.root(tag)] /= scales[tag];
        scales[tag] = ln(scales[tag]);
    }
}

/// Counts of rules from the expected uses of trees whose weights came from `rules`.
pub fn share(shape: &Shape, rules: &[f64], uses: &[f64], counts: &mut [f64]) {
    let tags = shape.tags;
    counts.fill(0.0);
    counts[..tags].copy_from_slice(&uses[shape.root(0)..][..tags]);
    for context in 0..CONTEXTS {
        for tag in 0..tags {
            counts[shape.stop_rule(context, tag)] = uses[shape.stop(context, tag)];
        }
        for symbol in 0..shape.symbols() {
            let arcs = &uses[shape.arcs(context, symbol)..][..tags];
            counts[shape.stop_rule(context, shape.tag_of[symbol] as usize) + 1] += arcs.iter().sum::<f64>();
            let (levels, count) = levels(shape, rules, context, symbol);
            let levels = &levels[..count];
            let mut drawn = [0.0; MOST_LEVELS];
            for (tag, &arc) in arcs.iter().enumerate() {
                if arc == 0.0 {
                    continue;
                }
                let mut parts = [0.0; MOST_LEVELS];
                let mut sum = 0.0;
                for (part, &(probability, dependents)) in parts.iter_mut().zip(levels) {
                    *part = probability * rules[dependents + tag];
                    sum += *part;
                }
                for (level, &(_, dependents)) in levels.iter().enumerate() {
                    let part = if count == 1 { arc } else { arc * (parts[level] / sum) };
                    counts[dependents + tag] += part;
                    drawn[level] += part;
                }
            }
            for (level, (_, coin)) in shape.levels_of(context, symbol).enumerate() {
                if let Some(coin) = coin {
                    counts[coin] += drawn[level];
                    counts[coin + 1] += drawn[level + 1..count].iter().sum::<f64>();
                }
            }
        }
    }
}

/// The Kullback-Leibler divergence of the Dirichlet priors from the posteriors with these counts; `weights` are those of
/// variational Bayes for the counts, whose logarithms are the expectations of ln theta.
pub fn divergence(shape: &Shape, counts: &[f64], weights: &[f64]) -> f64 {
    let mut sum = 0.0;
    for d in &shape.distributions {
        let all: f64 = counts[d.start..][..d.outcomes].iter().sum();
        if all == 0.0 {
            continue;
        }
        sum += gamma_ln(d.prior_sum() + all) - gamma_ln(d.prior_sum());
        for outcome in 0..d.outcomes {
            let (count, prior) = (counts[d.start + outcome], d.prior_of(outcome));
            if count > 0.0 {
                sum += gamma_ln(prior) - gamma_ln(prior + count) + count * ln(weights[d.start + outcome]);
            }
        }
    }
    sum
}
