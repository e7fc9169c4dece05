//! The chart against all trees, one by one.

use super::best::Decoder;
use super::halves::Halves;
use super::inside::Chart;
use super::scores::Scores;
use crate::cluster::rng::{Generator, Purpose, generator};
use crate::corpus::tree::Tree;
use crate::math::draws::unit;
use crate::transition::{LeftCorner, TransitionSystem, follow_oracle};

/// All projective trees of so many words with one root: heads, the root is 0.
fn trees(words: usize) -> Vec<Vec<u32>> {
    let mut found = vec![];
    let mut heads = vec![0u32; words];
    let mut tree = Tree::default();
    loop {
        if heads.iter().filter(|&&head| head == 0).count() == 1 {
            tree.set_heads(heads.iter().copied());
            if tree.is_projective() {
                found.push(heads.clone());
            }
        }
        let Some(place) = heads.iter().position(|&head| (head as usize) < words) else { return found };
        heads[..place].fill(0);
        heads[place] += 1;
    }
}

pub type Use = (usize, usize, usize);

/// Which arcs (valence, head, dependent) and stops (side, valence, head) a tree uses.
pub fn uses(heads: &[u32]) -> (Vec<Use>, Vec<Use>, usize) {
    let words = heads.len();
    let (mut arcs, mut stops) = (vec![], vec![]);
    for head in 0..words {
        let of = |dependent: &usize| heads[*dependent] as usize == head + 1;
        let left: Vec<usize> = (0..head).rev().filter(of).collect();
        let right: Vec<usize> = (head + 1..words).filter(of).collect();
        for (side, dependents) in [left, right].iter().enumerate() {
            arcs.extend(dependents.iter().enumerate().map(|(rank, &dependent)| (rank.min(1), head, dependent)));
            stops.push((side, dependents.len().min(1), head));
        }
    }
    let root = heads.iter().position(|&head| head == 0).expect("there is a root");
    (arcs, stops, root)
}

fn score<const L: usize>(scores: &Scores<L>, heads: &[u32], lane: usize) -> f64 {
    let (arcs, stops, root) = uses(heads);
    let arcs: f64 = arcs.iter().map(|&(v, head, dependent)| scores.arc(v, head, dependent)[lane]).product();
    let stops: f64 = stops.iter().map(|&(side, v, head)| scores.stop(side, v, head)[lane]).product();
    arcs * stops * scores.root(root)[lane]
}

fn random_scores<const L: usize>(words: usize, rng: &mut Generator) -> Scores<L> {
    let mut scores = Scores::default();
    scores.resize(words);
    let mut draw = || [0.0; L].map(|_| 0.05 + unit(rng));
    for word in 0..words {
        for v in 0..2 {
            (0..words).for_each(|other| *scores.arc_mut(v, word, other) = draw());
            (0..2).for_each(|side| *scores.stop_mut(side, v, word) = draw());
        }
        *scores.root_mut(word) = draw();
    }
    scores
}

/// The left-corner depth of a tree: the most stack elements after a reduce-type action of its oracle.
fn depth(heads: &[u32]) -> u32 {
    let mut tree = Tree::default();
    tree.set_heads(heads.iter().copied());
    let mut most = 0;
    follow_oracle(&mut LeftCorner::default(), &tree, |system, transition| {
        if !transition.is_shift_type() {
            most = most.max(system.memory_cost());
        }
    });
    most
}

/// All trees of so many words within a bound.
pub fn trees_within(words: usize, bound: Option<u32>) -> Vec<Vec<u32>> {
    trees(words).into_iter().filter(|heads| bound.is_none_or(|bound| depth(heads) <= bound)).collect()
}

fn bounds() -> [Option<u32>; 4] {
    [None, Some(1), Some(2), Some(3)]
}

#[test]
fn inside_is_the_sum_over_all_trees_and_outside_counts_their_uses() {
    let mut rng = generator(1, Purpose::Synth, 0, 0);
    let mut chart = Chart::<2>::default();
    for words in 1..=6 {
        for bound in bounds() {
            let halves = Halves::new(bound);
            let scores: Scores<2> = random_scores(words, &mut rng);
            let within = trees_within(words, bound);
            let sum = chart.inside(&scores, &halves);
            let mut expected = Scores::default();
            chart.outside(&scores, &halves, &sum.map(|sum| 1.0 / sum), &mut expected);
            for (lane, sum) in sum.into_iter().enumerate() {
                let exact: f64 = within.iter().map(|heads| score(&scores, heads, lane)).sum();
                assert!((sum / exact - 1.0).abs() < 1e-12, "{words} words, {bound:?}: {} for {exact}", sum);
                let mut counts = Scores::<1>::default();
                counts.resize(words);
                for heads in &within {
                    let share = score(&scores, heads, lane) / exact;
                    let (arcs, stops, root) = uses(heads);
                    arcs.iter().for_each(|&(v, head, dependent)| counts.arc_mut(v, head, dependent)[0] += share);
                    stops.iter().for_each(|&(side, v, head)| counts.stop_mut(side, v, head)[0] += share);
                    counts.root_mut(root)[0] += share;
                }
                let is_near = |found: f64, exact: f64| assert!((found - exact).abs() < 1e-12, "{found} for {exact}");
                for word in 0..words {
                    is_near(expected.root(word)[lane], counts.root(word)[0]);
                    for v in 0..2 {
                        (0..2).for_each(|s| is_near(expected.stop(s, v, word)[lane], counts.stop(s, v, word)[0]));
                        let others = (0..words).filter(|&other| other != word);
                        others.for_each(|other| {
                            is_near(expected.arc(v, word, other)[lane], counts.arc(v, word, other)[0])
                        });
                    }
                }
            }
        }
    }
}

#[test]
fn outside_is_the_derivative_of_the_sum() {
    let mut rng = generator(2, Purpose::Synth, 0, 0);
    let mut chart = Chart::<1>::default();
    for bound in bounds() {
        let halves = Halves::new(bound);
        let mut scores: Scores<1> = random_scores(8, &mut rng);
        let sum = chart.inside(&scores, &halves)[0];
        let mut expected = Scores::default();
        chart.outside(&scores, &halves, &[1.0 / sum], &mut expected);
        for (v, head, dependent) in [(0, 2, 5), (1, 2, 5), (1, 7, 0), (0, 4, 3), (1, 0, 7), (0, 6, 7)] {
            let old = scores.arc(v, head, dependent)[0];
            let mut moved = |by: f64| {
                scores.arc_mut(v, head, dependent)[0] = old * (1.0 + by);
                libm::log(chart.inside(&scores, &halves)[0])
            };
            let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            moved(0.0);
            let found = expected.arc(v, head, dependent)[0];
            assert!((slope - found).abs() < 1e-8, "{bound:?}: {found}, by differences {slope}");
        }
    }
}

#[test]
fn bounded_charts_have_the_trees_of_their_depth() {
    let mut chart = Chart::<1>::default();
    let mut count = |words: usize, bound: Option<u32>| {
        let mut ones = Scores::<1>::default();
        ones.resize(words);
        for word in 0..words {
            (0..words).for_each(|other| (0..2).for_each(|v| *ones.arc_mut(v, word, other) = [1.0]));
            (0..4).for_each(|i| *ones.stop_mut(i / 2, i % 2, word) = [1.0]);
            *ones.root_mut(word) = [1.0];
        }
        chart.inside(&ones, &Halves::new(bound))[0] as u64
    };
    let mut counts = |bound| (1..=8).map(|words| count(words, bound)).collect::<Vec<u64>>();
    assert_eq!(counts(None), [1, 2, 7, 30, 143, 728, 3876, 21318]);
    assert_eq!(counts(Some(1)), [1, 2, 7, 25, 90, 325, 1175, 4250]);
    assert_eq!(counts(Some(2)), [1, 2, 7, 30, 143, 715, 3648, 18773]);
    assert_eq!(counts(Some(8)), counts(None));
}

#[test]
fn the_best_tree_is_the_best_of_all() {
    let mut rng = generator(3, Purpose::Synth, 0, 0);
    let mut decoder = Decoder::default();
    for words in 1..=6 {
        for bound in bounds() {
            let halves = Halves::new(bound);
            let scores: Scores<1> = random_scores(words, &mut rng);
            let mut logarithms = scores.clone();
            for word in 0..words {
                let to_ln = |x: &mut [f64; 1]| x[0] = libm::log(x[0]);
                (0..words).for_each(|other| (0..2).for_each(|v| to_ln(logarithms.arc_mut(v, word, other))));
                (0..4).for_each(|i| to_ln(logarithms.stop_mut(i / 2, i % 2, word)));
                to_ln(logarithms.root_mut(word));
            }
            let within = trees_within(words, bound).into_iter();
            let best = within.max_by(|a, b| score(&scores, a, 0).total_cmp(&score(&scores, b, 0))).expect("a tree");
            let mut heads = vec![];
            let ln = decoder.best(&logarithms, &halves, &mut heads);
            assert_eq!(heads, best, "{words} words, {bound:?}");
            assert!((ln - libm::log(score(&scores, &best, 0))).abs() < 1e-10);
        }
    }
}

#[test]
fn rescaled_scores_have_the_same_expectations() {
    let mut rng = generator(4, Purpose::Synth, 0, 0);
    let halves = Halves::unbounded();
    let mut chart = Chart::<1>::default();
    let scores: Scores<1> = random_scores(7, &mut rng);
    let mut rescaled = scores.clone();
    let mut ln = [0.0];
    rescaled.rescale(&mut ln);
    let expectations = |chart: &mut Chart<1>, scores: &Scores<1>| {
        let sum = chart.inside(scores, &halves);
        let mut expected = Scores::default();
        chart.outside(scores, &halves, &[1.0 / sum[0]], &mut expected);
        (libm::log(sum[0]), expected)
    };
    let (whole, expected) = expectations(&mut chart, &scores);
    let (rest, same) = expectations(&mut chart, &rescaled);
    assert!((whole - rest - ln[0]).abs() < 1e-12);
    for (head, dependent) in [(0, 3), (5, 1), (6, 5)] {
        assert!((expected.arc(1, head, dependent)[0] - same.arc(1, head, dependent)[0]).abs() < 1e-12);
    }
}
