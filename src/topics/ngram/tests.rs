//! Samplers against enumeration on corpora of a few tokens.

use std::collections::BTreeMap;

use super::counts::{Counts, Rules};
use super::sampler::{Sampler, Seating, ShardTokens, by_word};
use crate::cluster::rng::{Purpose, generator};
use crate::math::gamma_ln;
use crate::restaurant::parameters::Parameters;
use crate::restaurant::tree::{Paths, Planted, Tree};

/// Tokens: a context of at most one element, an outcome, and a document.
const TOKENS: [(u32, u32, u32); 5] = [(3, 0, 0), (3, 0, 0), (3, 1, 1), (4, 0, 1), (3, 0, 1)];
const OUTCOMES: f64 = 3.0;

struct Bigrams;

impl Paths for Bigrams {
    fn count(&self) -> usize {
        TOKENS.len()
    }
    fn symbols(&self) -> usize {
        5
    }
    fn depth(&self) -> usize {
        1
    }
    fn outcome(&self, token: usize) -> u32 {
        TOKENS[token].1
    }
    fn element(&self, token: usize, depth: usize) -> Option<u32> {
        (depth == 0).then(|| TOKENS[token].0)
    }
}

/// A two-level restaurant, by the definition: (customers, tables) by (context, outcome); the context 0 is the root.
type Seated = BTreeMap<(u32, u32), (f64, f64)>;

/// The probability of customers in a row, summed over all their seatings.
fn sequence(customers: &[(u32, u32)], seated: &Seated, a: [f64; 2], b: [f64; 2], base: f64) -> f64 {
    let Some(&(context, outcome)) = customers.first() else { return 1.0 };
    ways(context, outcome, seated, a, b, base)
        .into_iter()
        .map(|(probability, next)| probability * sequence(&customers[1..], &next, a, b, base))
        .sum()
}

/// The ways to seat one customer, with their probabilities.
fn ways(context: u32, outcome: u32, seated: &Seated, a: [f64; 2], b: [f64; 2], base: f64) -> Vec<(f64, Seated)> {
    let depth = usize::from(context != 0);
    let of = |key: &(u32, u32)| seated.get(key).copied().unwrap_or((0.0, 0.0));
    let (c, t) = of(&(context, outcome));
    let total =
        seated.iter().filter(|(key, _)| key.0 == context).fold((0.0, 0.0), |sum, (_, n)| (sum.0 + n.0, sum.1 + n.1));
    let mut ways = vec![];
    if c > 0.0 {
        let mut next = seated.clone();
        next.insert((context, outcome), (c + 1.0, t));
        ways.push(((c - a[depth] * t) / (total.0 + b[depth]), next));
    }
    let opens = (b[depth] + a[depth] * total.1) / (total.0 + b[depth]);
    let mut next = seated.clone();
    next.insert((context, outcome), (c + 1.0, t + 1.0));
    match depth {
        0 => ways.push((opens * base, next)),
        _ => ways.extend(self::ways(0, outcome, &next, a, b, base).into_iter().map(|(p, next)| (opens * p, next))),
    }
    ways
}

/// ln of the Dirichlet-multinomial probability of counts.
fn dirichlet_ln(counts: &[f64], alpha: &[f64]) -> f64 {
    let (n, sum): (f64, f64) = (counts.iter().sum(), alpha.iter().sum());
    let of_topics: f64 = counts.iter().zip(alpha).map(|(n, alpha)| gamma_ln(alpha + n) - gamma_ln(*alpha)).sum();
    gamma_ln(sum) - gamma_ln(sum + n) + of_topics
}

/// How far the long-run shares of all assignments are from the exact ones.
fn distance(has_global: bool) -> f64 {
    let topics = 2 + usize::from(has_global);
    let alpha = [0.7, 0.4];
    let (a, b) = ([0.3, 0.6], [1.3, 0.8]);
    let gamma = [0.9, 1.6];
    let first = usize::from(has_global);

    let mut exact = BTreeMap::new();
    for number in 0..topics.pow(TOKENS.len() as u32) {
        let z: Vec<usize> = (0..TOKENS.len()).map(|token| number / topics.pow(token as u32) % topics).collect();
        let mut probability = 1.0;
        for document in 0..2 {
            let mut counts = [0.0; 2];
            for (token, &topic) in
                TOKENS.iter().zip(&z).filter(|(token, topic)| token.2 == document && **topic >= first)
            {
                counts[topic - first] += f64::from(u32::from(token.2 == document));
            }
            probability *= libm::exp(dirichlet_ln(&counts, &alpha));
        }
        for topic in 0..topics {
            let mine: Vec<(u32, u32)> =
                TOKENS.iter().zip(&z).filter(|(_, of)| **of == topic).map(|(token, _)| (token.0, token.1)).collect();
            probability *= sequence(&mine, &Seated::new(), a, b, 1.0 / OUTCOMES);
        }
        if has_global {
            let sides: Vec<(u32, u32)> =
                TOKENS.iter().zip(&z).map(|(token, topic)| (token.0, u32::from(*topic > 0))).collect();
            probability *= sequence(&sides, &Seated::new(), [0.0; 2], gamma, 0.5);
        }
        exact.insert(z.iter().map(|&topic| topic as u16).collect::<Vec<_>>(), probability);
    }

    let Planted { tree, order, leaves } = Tree::plant(&Bigrams);
    let mut leaf_of = vec![0; TOKENS.len()];
    order.iter().zip(&leaves).for_each(|(&token, &leaf)| leaf_of[token as usize] = leaf);
    let mut distinct: Vec<u32> = leaf_of.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let ranks = by_word(&tree);
    distinct.sort_by_key(|&leaf| ranks[leaf as usize]);
    let mut shard = ShardTokens { counts: vec![0; 2 * topics], ..ShardTokens::default() };
    let mut tokens = vec![];
    for &leaf in &distinct {
        let mine: Vec<usize> = (0..TOKENS.len()).filter(|&token| leaf_of[token] == leaf).collect();
        shard.leaves.push((leaf, mine.len() as u32));
        shard.documents.extend(mine.iter().map(|&token| TOKENS[token].2));
        tokens.extend(mine);
    }
    shard.topics = vec![0; TOKENS.len()];
    let mut passing = vec![0; tree.dishes.len()];
    for &leaf in &leaf_of {
        passing[leaf as usize] += 1;
        passing[tree.dishes[leaf as usize].parent as usize] += 1;
    }
    let mut counts = Counts::new(&tree, topics, &passing, has_global);
    let parameters = Parameters { discounts: a.to_vec(), strengths: b.to_vec() };
    let coins = Parameters { discounts: vec![0.0; 2], strengths: gamma.to_vec() };
    let mut rules = Rules::new(parameters, coins, 1.0 / OUTCOMES);
    let mut sampler = Sampler::new(topics, 1, has_global);
    sampler.set_alpha(&alpha);
    let mut rng = generator(1, Purpose::Synth, 0, 0);
    let mut seen = BTreeMap::new();
    let sweeps = 400_000;
    for sweep in 0..=sweeps {
        let mut seating = Seating { tree: &tree, counts: &mut counts, rules: &mut rules };
        sampler.sweep(&mut seating, &mut shard, sweep == 0, &mut |_| (), &mut rng);
        let mut z = vec![0; TOKENS.len()];
        tokens.iter().zip(&shard.topics).for_each(|(&token, &topic)| z[token] = topic);
        *seen.entry(z).or_insert(0.0) += 1.0 / f64::from(sweeps + 1);
    }
    let sum: f64 = exact.values().sum();
    let shares = exact.iter().map(|(z, exact)| (seen.get(z).copied().unwrap_or(0.0) - exact / sum).abs());
    shares.sum::<f64>() / 2.0
}

#[test]
fn topics_of_tokens_have_their_exact_distribution() {
    let found = distance(false);
    assert!(found < 0.01, "HPYTM: {found} from the exact distribution");
}

#[test]
fn topics_and_coins_of_tokens_have_their_exact_distribution() {
    let found = distance(true);
    assert!(found < 0.015, "SWITCHING: {found} from the exact distribution");
}
