//! Samplers against exact answers on cases that are small enough to be counted out.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rand::RngExt;

use super::base::{Given, Seated};
use super::merge::{Change, Marks};
use super::order::{self, Scratch, StopPrior};
use super::parameters::{Census, Hyperprior, Parameters};
use super::seating::{DEEPEST, House, Path};
use super::stirling::Alone;
use super::tree::{Dish, NONE, Paths, Planted, Restaurant, Tree, Visits};
use crate::cluster::rng::{Generator, Purpose, generator};
use crate::math::exactness::{Draws, Mean, assert_exact, assert_mean};
use crate::math::{gamma_ln, ln};

/// Tokens given as lists: the context, most important element first, and the outcome last.
pub(crate) struct Lists(pub Vec<Vec<u32>>, pub usize);

impl Paths for Lists {
    fn count(&self) -> usize {
        self.0.len()
    }
    fn symbols(&self) -> usize {
        self.0.iter().flatten().max().map_or(1, |most| *most as usize + 1)
    }
    fn depth(&self) -> usize {
        self.1
    }
    fn outcome(&self, token: usize) -> u32 {
        *self.0[token].last().expect("an outcome")
    }
    fn element(&self, token: usize, depth: usize) -> Option<u32> {
        let context = &self.0[token][..self.0[token].len() - 1];
        context.get(depth).copied()
    }
}

/// The tree of some tokens, and the dish of each.
fn plant(tokens: &[&[u32]], depth: usize) -> (Tree, Vec<u32>) {
    let lists = Lists(tokens.iter().map(|token| token.to_vec()).collect(), depth);
    let Planted { tree, order, leaves } = Tree::plant(&lists);
    let mut of_token = vec![NONE; order.len()];
    order.iter().zip(leaves).for_each(|(&token, leaf)| of_token[token as usize] = leaf);
    (tree, of_token)
}

/// S_a(n, m) for small n.
fn stirling(a: f64, n: usize, m: usize) -> f64 {
    match (n, m) {
        (0, 0) => 1.0,
        (0, _) | (_, 0) => 0.0,
        _ => stirling(a, n - 1, m - 1) + ((n - 1) as f64 - a * m as f64) * stirling(a, n - 1, m),
    }
}

/// The weight of a restaurant's seating: (b | a)_T / (b)_C, times S_a(c, t) for each dish.
pub(crate) fn weight(a: f64, b: f64, dishes: &[(usize, usize)]) -> f64 {
    let (customers, tables) = dishes.iter().fold((0, 0), |sum, dish| (sum.0 + dish.0, sum.1 + dish.1));
    let opened: f64 = (1..tables).map(|i| b + a * i as f64).product();
    let seated: f64 = (1..customers).map(|i| b + i as f64).product();
    opened / seated * dishes.iter().map(|&(c, t)| stirling(a, c, t)).product::<f64>()
}

pub(crate) fn tables_for(customers: usize) -> std::ops::RangeInclusive<usize> {
    customers.min(1)..=customers
}

#[test]
fn a_tree_has_every_context_of_its_tokens_and_no_other() {
    let (tree, leaves) = plant(&[&[1, 2, 7], &[1, 2, 8], &[1, 3, 7], &[1, 7], &[9], &[1, 2, 7]], 2);
    let sizes: Vec<(usize, usize)> =
        tree.levels.iter().map(|level| (level.restaurants.len(), level.dishes.len())).collect();
    assert_eq!(sizes, [(1, 3), (1, 2), (2, 3)]); // (7, 8, 9), (1: 7, 8), (1 2: 7, 8; 1 3: 7)
    assert_eq!(leaves[0], leaves[5]);
    let names: Vec<(Vec<u32>, u32)> = leaves
        .iter()
        .map(|&leaf| {
            let mut context = vec![];
            tree.context(tree.dishes[leaf as usize].restaurant, &mut context);
            (context, tree.outcomes[leaf as usize])
        })
        .collect();
    assert_eq!(names[0], (vec![1, 2], 7));
    assert_eq!(names[2], (vec![1, 3], 7));
    assert_eq!(names[3], (vec![1], 7));
    assert_eq!(names[4], (vec![], 9));
    assert_eq!(tree.dishes[leaves[0] as usize].parent, leaves[3]);
    assert_eq!(tree.depth_of(leaves[0]), 2);
    assert_eq!(tree.depth_of(leaves[4]), 0);
}

/// A chain that reseats each token in turn.
fn chain(
    tree: &mut Tree,
    leaves: &[u32],
    house: &mut House,
    rng: &mut Generator,
    sweeps: usize,
    mut visit: impl FnMut(&Tree),
) {
    let (mut path, mut p) = (Path::default(), [0.0; DEEPEST + 1]);
    for sweep in 0..=sweeps {
        for &leaf in leaves {
            path.find(tree, leaf);
            if sweep > 0 {
                house.remove(tree, &path, path.depth(), &mut |_, _| (), rng);
            }
            house.probabilities(tree, &path, &mut p);
            house.add(tree, &path, path.depth(), &p, &mut |_, _| (), rng);
        }
        if sweep > 0 {
            visit(tree);
        }
    }
}

#[test]
fn seatings_of_a_restaurant_have_their_exact_distribution() {
    // Five customers want dish 0 and three dish 1, of four that there are.
    let tokens: Vec<&[u32]> = [&[0u32][..]; 5].into_iter().chain([&[1][..]; 3]).collect();
    for (a, b) in [(0.3, 2.0), (0.8, 0.5)] {
        let (mut tree, leaves) = plant(&tokens, 0);
        let mut house = House::new(Parameters { discounts: vec![a], strengths: vec![b] }, 0.25);
        let mut seen = BTreeMap::new();
        let mut rng = generator(1, Purpose::Synth, 0, 0);
        chain(&mut tree, &leaves, &mut house, &mut rng, 200_000, |tree| {
            *seen.entry((tree.dishes[0].tables as usize, tree.dishes[1].tables as usize)).or_insert(0.0) += 1.0;
        });
        let mut exact = BTreeMap::new();
        for s in tables_for(5) {
            for t in tables_for(3) {
                exact.insert((s, t), weight(a, b, &[(5, s), (3, t)]) * 0.25f64.powi((s + t) as i32));
            }
        }
        assert_exact(&format!("a = {a}, b = {b}"), &seen, &exact, Draws::Chain(200_000), 0.01);
    }
}

#[test]
fn seatings_of_a_hierarchy_have_their_exact_distribution() {
    // Restaurant 5: dish 0 three times, dish 1 once; restaurant 6: dish 0 twice. Both below one root, with 3 dishes.
    let tokens: [&[u32]; 6] = [&[5, 0], &[5, 0], &[5, 0], &[5, 1], &[6, 0], &[6, 0]];
    let (a, b) = ([0.4, 0.7], [1.5, 0.8]);
    let (mut tree, leaves) = plant(&tokens, 1);
    let mut house = House::new(Parameters { discounts: a.to_vec(), strengths: b.to_vec() }, 1.0 / 3.0);
    let mut seen = BTreeMap::new();
    let mut rng = generator(2, Purpose::Synth, 0, 0);
    let root = tree.levels[0].dishes.start as usize;
    chain(&mut tree, &leaves, &mut house, &mut rng, 300_000, |tree| {
        let tables = |dish: usize| tree.dishes[dish].tables as usize;
        *seen.entry((tables(leaves[0] as usize), tables(leaves[4] as usize), tables(root))).or_insert(0.0) += 1.0;
    });
    let mut exact = BTreeMap::new();
    for s in tables_for(3) {
        for t in tables_for(2) {
            for r in tables_for(s + t) {
                let leaves = weight(a[1], b[1], &[(3, s), (1, 1)]) * weight(a[1], b[1], &[(2, t)]);
                let above = weight(a[0], b[0], &[(s + t, r), (1, 1)]) * (1.0f64 / 3.0).powi(r as i32 + 1);
                exact.insert((s, t, r), leaves * above);
            }
        }
    }
    assert_exact("seatings of a hierarchy", &seen, &exact, Draws::Chain(300_000), 0.01);
}

/// Two trees over a third, which has restaurants of its own over a given distribution.
///
/// The first: context 5 has dish 0 three times and dish 1 once. The second: the root has dish 0 twice. Below both: dish 0
/// and dish 1 in context 9 of another tree, and its root.
#[test]
fn trees_over_other_restaurants_have_their_exact_distribution() {
    const BOTTOM: [f64; 3] = [0.6, 0.3, 0.1];
    let (a, b) = ([0.4, 0.7], [1.5, 0.8]); // of the first, by depth
    let (c, d) = (0.2, 0.6); // of the second
    let (e, f) = ([0.5, 0.3], [0.9, 1.1]); // of the base, by depth
    let (mut first, leaves) = plant(&[&[5, 0], &[5, 0], &[5, 0], &[5, 1]], 1);
    let (mut second, others) = plant(&[&[0], &[0]], 0);
    let (mut below, leaf_of) = plant(&[&[9, 0], &[9, 1]], 1);
    let given = |discounts: &[f64], strengths: &[f64]| {
        House::new(Parameters { discounts: discounts.to_vec(), strengths: strengths.to_vec() }, f64::NAN)
    };
    let (mut house_a, mut house_c, mut house_e) = (given(&a, &b), given(&[c], &[d]), given(&e, &f));
    let roots = [&first, &below].map(|tree: &Tree| tree.levels[0].dishes.start as usize);
    let mut seen = BTreeMap::new();
    let mut rng = generator(8, Purpose::Synth, 0, 0);
    for sweep in 0..=400_000 {
        let mut base = Seated::new(&mut below, &mut house_e, Given(|w| BOTTOM[w as usize]), &leaf_of, |_, _| ());
        let mut tree = Seated::new(&mut first, &mut house_a, &mut base, &[], |_, _| ());
        for &leaf in &leaves {
            if sweep > 0 {
                tree.remove(leaf, &mut rng);
            }
            tree.add(leaf, &mut rng);
        }
        let mut tree = Seated::new(&mut second, &mut house_c, &mut base, &[], |_, _| ());
        for &leaf in &others {
            if sweep > 0 {
                tree.remove(leaf, &mut rng);
            }
            tree.add(leaf, &mut rng);
        }
        let tables = [
            first.dishes[leaves[0] as usize],
            first.dishes[roots[0]],
            second.dishes[0],
            below.dishes[leaf_of[0] as usize],
            below.dishes[roots[1]],
        ]
        .map(|dish| dish.tables as usize);
        assert_eq!(
            below.dishes[leaf_of[0] as usize].customers as usize,
            tables[1] + tables[2],
            "customers of the base"
        );
        if sweep > 0 {
            *seen.entry(tables).or_insert(0.0) += 1.0;
        }
    }
    let mut exact = BTreeMap::new();
    // Dish 1 has one customer at one table everywhere on its way down.
    for s in tables_for(3) {
        for r in tables_for(s) {
            for t in tables_for(2) {
                for u in tables_for(r + t) {
                    for v in tables_for(u) {
                        let above = weight(a[1], b[1], &[(3, s), (1, 1)])
                            * weight(a[0], b[0], &[(s, r), (1, 1)])
                            * weight(c, d, &[(2, t)]);
                        let base = weight(e[1], f[1], &[(r + t, u), (1, 1)]) * weight(e[0], f[0], &[(u, v), (1, 1)]);
                        exact.insert([s, r, t, u, v], above * base * BOTTOM[0].powi(v as i32) * BOTTOM[1]);
                    }
                }
            }
        }
    }
    assert_exact("trees over others", &seen, &exact, Draws::Chain(300_000), 0.01);
}

#[test]
fn over_a_learned_base_probabilities_sum_to_one_and_nothing_is_left_behind() {
    const OUTCOMES: u32 = 6;
    let mut rng = generator(10, Purpose::Synth, 0, 0);
    let tokens: Vec<[u32; 3]> =
        (0..300).map(|_| [rng.random_range(0..4), rng.random_range(0..4), rng.random_range(0..OUTCOMES)]).collect();
    // Every outcome in context (0, 0) too, to be asked for; and in the base.
    let asked: Vec<[u32; 3]> = (0..OUTCOMES).map(|w| [0, 0, w]).collect();
    let lists: Vec<&[u32]> = tokens.iter().chain(&asked).map(|token| &token[..]).collect();
    let (mut tree, leaves) = plant(&lists, 2);
    let all: Vec<[u32; 1]> = (0..OUTCOMES).map(|w| [w]).collect();
    let (mut below, leaf_of) = plant(&all.iter().map(|token| &token[..]).collect::<Vec<_>>(), 0);
    let empty = (tree.clone(), below.clone());
    let mut house = House::new(Parameters::new(2, 0.6, 0.4), f64::NAN);
    let mut house_below = House::new(Parameters::new(0, 0.3, 2.0), f64::NAN);
    let mut base = Seated::new(
        &mut below,
        &mut house_below,
        Given(|w| f64::from(w + 1) / f64::from(OUTCOMES * (OUTCOMES + 1) / 2)),
        &leaf_of,
        |_, _| (),
    );
    let mut over = Seated::new(&mut tree, &mut house, &mut base, &[], |_, _| ());
    let (seated, asked) = leaves.split_at(tokens.len());
    for round in 0..20 {
        for &leaf in seated {
            if round > 0 {
                over.remove(leaf, &mut rng);
            }
            over.add(leaf, &mut rng);
        }
        let sum: f64 = asked.iter().map(|&leaf| over.predict(leaf)).sum();
        assert!((sum - 1.0).abs() < 1e-12, "{sum}");
    }
    seated.iter().for_each(|&leaf| over.remove(leaf, &mut rng));
    assert_eq!((tree, below), empty);
}

#[test]
fn orders_of_tokens_have_their_exact_distribution() {
    // Context 5: dish 0 twice, dish 1 once; a token may stop at the root or go on to the context. Two dishes in all.
    let tokens: [&[u32]; 3] = [&[5, 0], &[5, 0], &[5, 1]];
    let (a, b, base) = ([0.3, 0.6], [1.2, 0.7], 0.5);
    let prior = StopPrior { alpha: 1.5, beta: 0.8 };
    let (mut tree, leaves) = plant(&tokens, 1);
    tree.visits = vec![Visits::default(); tree.restaurants.len()];
    let mut house = House::new(Parameters { discounts: a.to_vec(), strengths: b.to_vec() }, base);
    let (mut path, mut scratch) = (Path::default(), Scratch::default());
    let mut rng = generator(3, Purpose::Synth, 0, 0);
    let mut orders = vec![0; 3];
    let mut seen = BTreeMap::new();
    for sweep in 0..=300_000 {
        for (token, &leaf) in leaves.iter().enumerate() {
            path.find(&tree, leaf);
            if sweep > 0 {
                order::remove(&mut house, &mut tree, &path, orders[token], &mut |_, _| (), &mut rng);
            }
            orders[token] = order::add(&house, &prior, &mut tree, &path, false, &mut scratch, &mut |_, _| (), &mut rng);
        }
        if sweep > 0 {
            *seen.entry(orders.clone()).or_insert(0.0) += 1.0;
        }
    }
    let mut exact = BTreeMap::new();
    for bits in 0..8usize {
        let orders: Vec<usize> = (0..3).map(|token| bits >> token & 1).collect();
        let passes = orders.iter().sum::<usize>() as f64;
        let stops = 3.0 - passes;
        let ordered = gamma_ln(prior.alpha + stops) + gamma_ln(prior.beta + passes); // Beta-binomial, up to a constant
        let (zero, one) = (orders[0] + orders[1], orders[2]);
        let mut sum = 0.0;
        for s in tables_for(zero) {
            for t in tables_for(one) {
                for r in tables_for(2 - zero + s) {
                    for q in tables_for(1 - one + t) {
                        let leaves = weight(a[1], b[1], &[(zero, s), (one, t)]);
                        let above = weight(a[0], b[0], &[(2 - zero + s, r), (1 - one + t, q)]);
                        sum += leaves * above * f64::powi(base, (r + q) as i32);
                    }
                }
            }
        }
        exact.insert(orders, sum * libm::exp(ordered));
    }
    assert_exact("orders", &seen, &exact, Draws::Chain(300_000), 0.01);
}

/// Restaurants of one depth: customers, tables, and dishes with theirs.
const SEATED: [&[(u32, u32)]; 4] = [&[(9, 4), (3, 1), (1, 1)], &[(2, 2), (4, 2)], &[(5, 1)], &[(1, 1), (2, 1), (7, 3)]];

#[test]
fn discount_and_strength_have_their_exact_posterior() {
    let prior = Hyperprior { discount: [1.5, 2.0], strength: [2.0, 0.7] };
    let mut rng = generator(4, Purpose::Synth, 0, 0);
    let (mut a, mut b) = (0.5, 1.0);
    let (mut census, mut alone) = (Census::default(), Alone::new(a));
    let draws = 200_000;
    // Shares of draws in a grid of cells: a in tenths, b in halves up to 5.
    let mut seen = BTreeMap::new();
    for _ in 0..draws {
        census.clear();
        for dishes in SEATED {
            let (customers, tables) = dishes.iter().fold((0, 0), |sum, dish| (sum.0 + dish.0, sum.1 + dish.1));
            census.count_restaurant(Restaurant { customers, tables });
            dishes
                .iter()
                .for_each(|&(customers, tables)| census.count_dish(Dish { customers, tables, ..Dish::default() }));
        }
        alone.set_discount(a);
        (a, b) = census.draw(a, b, &mut alone, &mut rng).redraw(&prior, &mut rng);
        *seen.entry(((a * 10.0) as u32, ((b * 2.0) as u32).min(10))).or_insert(0.0) += 1.0;
    }
    let mut exact = BTreeMap::new();
    let (steps, wide) = (200, 2000);
    for i in 0..steps {
        let a = (f64::from(i) + 0.5) / f64::from(steps);
        for j in 0..wide {
            let b = (f64::from(j) + 0.5) / 100.0;
            let of_prior = (prior.discount[0] - 1.0) * ln(a)
                + (prior.discount[1] - 1.0) * ln(1.0 - a)
                + (prior.strength[0] - 1.0) * ln(b)
                - prior.strength[1] * b;
            let likelihood: f64 = SEATED
                .iter()
                .map(|dishes| weight(a, b, &dishes.iter().map(|d| (d.0 as usize, d.1 as usize)).collect::<Vec<_>>()))
                .product();
            *exact.entry(((a * 10.0) as u32, ((b * 2.0) as u32).min(10))).or_insert(0.0) +=
                likelihood * libm::exp(of_prior);
        }
    }
    assert_exact("a and b", &seen, &exact, Draws::Chain(draws), 0.015);
}

#[test]
fn many_restaurants_drawn_together_are_as_if_drawn_one_by_one() {
    // Mean and variance of each sum, against restaurants drawn apart.
    let (a, b) = (0.6, 1.7);
    let mut rng = generator(5, Purpose::Synth, 0, 0);
    let mut alone = Alone::new(a);
    let restaurants: Vec<(u32, u32)> = (0..40u32).map(|i| (5 + 37 * i, 2 + 9 * i.min(30))).collect();
    let mut moments = [[[0.0; 2]; 4]; 2];
    let rounds = 600;
    for _ in 0..rounds {
        let mut together = Census::default();
        let mut apart = [0.0; 4];
        for &(customers, tables) in &restaurants {
            let mut single = Census::default();
            for census in [&mut together, &mut single] {
                census.count_restaurant(Restaurant { customers, tables });
                census.count_dish(Dish { customers, tables, ..Dish::default() });
            }
            let sums = single.draw(a, b, &mut alone, &mut rng).figures();
            (0..4).for_each(|i| apart[i] += sums[i]);
        }
        let together = together.draw(a, b, &mut alone, &mut rng).figures();
        for (of, sums) in moments.iter_mut().zip([together, apart]) {
            for i in 0..4 {
                of[i][0] += sums[i] / f64::from(rounds);
                of[i][1] += sums[i] * sums[i] / f64::from(rounds);
            }
        }
    }
    for (i, pair) in moments[0].iter().zip(&moments[1]).enumerate() {
        let [(m, v), (n, w)] = [pair.0, pair.1].map(|of| (of[0], of[1] - of[0] * of[0]));
        let [together, apart] =
            [(m, v), (n, w)].map(|(value, v)| Mean { value, error: libm::sqrt(v / f64::from(rounds)) });
        assert_mean(&format!("figure {i}"), together, apart, 0.01);
        assert!((v / w - 1.0).abs() < 0.4, "figure {i}: variance {v} together, {w} apart");
    }
}

#[test]
fn large_dishes_are_stepped_back_as_small_ones_are() {
    // By leaps, and one customer at a time with the same probabilities.
    let (a, customers, tables) = (0.7, 3000u32, 150u32);
    let mut rng = generator(6, Purpose::Synth, 0, 0);
    let mut alone = Alone::new(a);
    let rounds = 600;
    let (mut leaps, mut steps) = ([0.0; 2], [0.0; 2]);
    for _ in 0..rounds {
        let mut census = Census::default();
        census.count_dish(Dish { customers, tables, ..Dish::default() });
        let not_z = census.draw(a, 1.0, &mut alone, &mut rng).not_z;
        leaps = [leaps[0] + not_z, leaps[1] + not_z * not_z];
        let (mut t, mut not_z) = (tables, 0.0);
        for c in (2..=customers).rev() {
            if rng.random::<f64>() < alone.probability(c, t) {
                t -= 1;
            } else if rng.random::<f64>() < f64::from(t) * (1.0 - a) / (f64::from(c - 1) - a * f64::from(t)) {
                not_z += 1.0;
            }
        }
        steps = [steps[0] + not_z, steps[1] + not_z * not_z];
    }
    let [leaps, steps] = [leaps, steps].map(|sums: [f64; 2]| {
        let value = sums[0] / f64::from(rounds);
        let variance = sums[1] / f64::from(rounds) - value * value;
        Mean { value, error: libm::sqrt(variance / f64::from(rounds)) }
    });
    assert_mean("leaps and steps", leaps, steps, 0.01);
}

/// Tokens with contexts of up to 3 elements, out of few symbols.
fn some_tokens() -> impl Strategy<Value = Vec<Vec<u32>>> {
    prop::collection::vec(prop::collection::vec(0..4u32, 1..5), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_added_and_taken_away_leaves_nothing(tokens in some_tokens(), seed in 0..100u64) {
        let lists: Vec<&[u32]> = tokens.iter().map(Vec::as_slice).collect();
        let (mut tree, leaves) = plant(&lists, 3);
        let empty = tree.clone();
        let mut house = House::new(Parameters::new(3, 0.5, 1.0), 0.25);
        let mut rng = generator(seed, Purpose::Synth, 0, 0);
        chain(&mut tree, &leaves, &mut house, &mut rng, 3, |_| ());
        let mut path = Path::default();
        for &leaf in &leaves {
            path.find(&tree, leaf);
            house.remove(&mut tree, &path, path.depth(), &mut |_, _| (), &mut rng);
        }
        prop_assert_eq!(tree, empty);
    }

    #[test]
    fn probabilities_sum_to_one_in_every_context(tokens in some_tokens(), seed in 0..100u64, a in 0.0..0.95, b in 0.01..9.0) {
        const OUTCOMES: u32 = 4;
        // Every outcome of every context is in the tree, to be asked for.
        let contexts: std::collections::BTreeSet<&[u32]> = tokens.iter().map(|token| &token[..token.len() - 1]).collect();
        let asked: Vec<Vec<u32>> =
            contexts.iter().flat_map(|context| (0..OUTCOMES).map(|w| [context, &[w][..]].concat())).collect();
        let lists: Vec<&[u32]> = tokens.iter().chain(&asked).map(Vec::as_slice).collect();
        let (mut tree, leaves) = plant(&lists, 3);
        let (seated, asked) = leaves.split_at(tokens.len());
        let mut house = House::new(Parameters::new(3, a, b), 1.0 / f64::from(OUTCOMES));
        let mut rng = generator(seed, Purpose::Synth, 0, 0);
        chain(&mut tree, seated, &mut house, &mut rng, 2, |_| ());
        // Tokens that stop and pass on their way, so that orders weigh differently in every context.
        tree.visits = vec![Visits::default(); tree.restaurants.len()];
        seated.iter().for_each(|&leaf| tree.visit(leaf, 1));
        let prior = StopPrior { alpha: b, beta: 1.0 };
        let (mut path, mut scratch) = (Path::default(), Scratch::default());
        for context in asked.chunks(OUTCOMES as usize) {
            let (mut sums, mut infinite) = ([0.0; 4], 0.0);
            for &leaf in context {
                path.find(&tree, leaf);
                house.probabilities(&tree, &path, &mut scratch.words);
                (0..=path.depth()).for_each(|depth| sums[depth] += scratch.words[depth]);
                infinite += order::probability(&house, &prior, &tree, &path, &mut scratch);
            }
            for sum in sums[..=path.depth()].iter().chain([&infinite]) {
                prop_assert!((sum - 1.0).abs() < 1e-12, "{} in {:?}, {}", sum, sums, infinite);
            }
        }
    }

    #[test]
    fn changes_of_several_shards_are_set_right(tokens in some_tokens(), seed in 0..100u64) {
        let lists: Vec<&[u32]> = tokens.iter().map(Vec::as_slice).collect();
        let (mut tree, leaves) = plant(&lists, 3);
        let mut house = House::new(Parameters::new(3, 0.5, 1.0), 0.25);
        let mut rng = generator(seed, Purpose::Synth, 0, 0);
        chain(&mut tree, &leaves, &mut house, &mut rng, 1, |_| ());
        // Every shard sweeps over its own tokens from the same state.
        let mut marks = Marks::new(tree.dishes.len());
        let mut changes = vec![];
        for shard in 0..4 {
            let mut own = tree.clone();
            let mine: Vec<u32> = leaves.iter().copied().skip(shard).step_by(4).collect();
            let mut path = Path::default();
            let mut p = [0.0; DEEPEST + 1];
            for leaf in mine {
                path.find(&own, leaf);
                house.remove(&mut own, &path, path.depth(), &mut |_, _| (), &mut rng);
                house.probabilities(&own, &path, &mut p);
                house.add(&mut own, &path, path.depth(), &p, &mut |_, _| (), &mut rng);
            }
            let changed = own.dishes.iter().zip(&tree.dishes).enumerate();
            changes.extend(changed.map(|(dish, (after, before))| Change {
                dish: dish as u32,
                tables: after.tables as i32 - before.tables as i32,
                tokens: 0,
            }));
        }
        changes.into_iter().for_each(|change| tree.apply(change, &mut marks));
        tree.repair(&mut marks);
        let tokens_at = |dish: u32| leaves.iter().filter(|leaf| **leaf == dish).count() as u32;
        prop_assert_eq!(tree.fault(tokens_at), None);
    }
}

#[test]
fn invariants_hold_after_a_million_operations() {
    let mut rng = generator(7, Purpose::Synth, 0, 0);
    let tokens: Vec<Vec<u32>> = (0..2000)
        .map(|_| (0..4).map(|_| (rng.random::<f64>() * rng.random::<f64>() * 30.0) as u32).collect())
        .collect();
    let lists: Vec<&[u32]> = tokens.iter().map(Vec::as_slice).collect();
    let (mut tree, leaves) = plant(&lists, 3);
    let mut house = House::new(Parameters::new(3, 0.7, 0.5), 1.0 / 30.0);
    let mut seated: Vec<bool> = vec![false; leaves.len()];
    let (mut path, mut p) = (Path::default(), [0.0; DEEPEST + 1]);
    for operation in 0..1_000_000 {
        let token = rng.random_range(0..leaves.len() as u32) as usize;
        path.find(&tree, leaves[token]);
        if seated[token] {
            house.remove(&mut tree, &path, path.depth(), &mut |_, _| (), &mut rng);
        } else {
            house.probabilities(&tree, &path, &mut p);
            house.add(&mut tree, &path, path.depth(), &p, &mut |_, _| (), &mut rng);
        }
        seated[token] = !seated[token];
        if operation % 100_000 == 99_999 {
            let mut at = vec![0; tree.dishes.len()];
            leaves.iter().zip(&seated).for_each(|(&leaf, &seated)| at[leaf as usize] += u32::from(seated));
            assert_eq!(tree.fault(|dish| at[dish as usize]), None, "after {operation} operations");
        }
    }
}
