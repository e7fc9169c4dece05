//! The model against exact answers, with one shard and with several.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::hpylm::{Hpylm, Settings};
use crate::cluster::operators::route::Route;
use crate::cluster::own::Own;
use crate::cluster::rng::{Purpose, generator};
use crate::cluster::sweep::{Control, Round, Schedule, train};
use crate::math::exactness::{Draws, assert_exact, total_variation};
use crate::math::gamma_ln;
use crate::restaurant::counted::Counted;
use crate::restaurant::deal::Deal;
use crate::restaurant::franchise::Franchise;
use crate::restaurant::lone::Rests;
use crate::restaurant::order::StopPrior;
use crate::restaurant::parameters::Parameters;
use crate::restaurant::shard::Shard;
use crate::restaurant::shuffle::{Shuffle, Visit, agree};
use crate::restaurant::stream::{Stream, merge_all};
use crate::restaurant::tests::{Lists, tables_for, weight};
use crate::restaurant::tree::{NONE, Paths, Sorted, Tree};

const SYMBOLS: u32 = 100;

fn settings(depth: usize, outcomes: u32, stop: Option<StopPrior>) -> Settings {
    Settings {
        seed: 1,
        depth,
        outcomes,
        unknown: None,
        discount: 0.5,
        strength: 1.0,
        prior: None,
        stop,
        burn_in: 0,
        sample_every: 1,
    }
}

/// Trains on tokens, each a context and an outcome, and shows the state after each sweep.
fn sample(
    settings: Settings,
    parameters: Parameters,
    tokens: Vec<Vec<u32>>,
    shards: u32,
    sweeps: u64,
    mut visit: impl FnMut(&Hpylm) + Send + Sync + 'static,
) {
    let folder = tempfile::tempdir().unwrap();
    let control = Control::of_test(folder.path());
    timely::execute_directly(move |worker| {
        let mut route = Route::new(worker, "Tokens");
        let each = |show: &mut Visit<'_>| {
            tokens.iter().for_each(|token| show(&token[..token.len() - 1], *token.last().unwrap()));
        };
        let deal = agree(worker, &mut route, shards, SYMBOLS, each);
        let mut shuffle = Shuffle::new(worker, &mut route, &deal, settings.depth, SYMBOLS);
        each(&mut |context, outcome| shuffle.push(context, outcome));
        let dealt = shuffle.finish();
        assert!(dealt.values().all(|tokens| tokens.count() > 0), "every shard has tokens");
        let mut model = Hpylm::new(settings, deal);
        model.franchise.set_parameters(parameters);
        dealt.into_iter().for_each(|(shard, own)| {
            let seated = own.count();
            model.add(shard, own, seated, true);
        });
        let schedule = Schedule { shards, sweeps, sync_every: 1, evaluate_every: 0, checkpoint_every: 0 };
        let tell = |model: &Hpylm, round: &Round| {
            if round.sweep.is_multiple_of(1000) {
                assert_eq!(model.fault(), None);
            }
            visit(model);
        };
        train(worker, model, &schedule, &control, tell).unwrap();
    });
}

/// The dish of an outcome in a context, and the tree.
fn find<'m>(model: &'m Hpylm, context: &[u32], outcome: u32) -> Option<(&'m Tree, u32)> {
    let mut found = vec![];
    let dish = |shard: &'m Shard| {
        let tree = &shard.tree;
        let is_found = |&dish: &u32| {
            tree.context(tree.dishes[dish as usize].restaurant, &mut found);
            tree.outcomes[dish as usize] == outcome && found == context
        };
        (0..tree.dishes.len() as u32).find(is_found).map(|dish| (tree, dish))
    };
    model.franchise.shards().find_map(dish)
}

/// Tables of a dish; those of a dish that one token alone has are 1, if its context was cut.
fn tables(model: &Hpylm, context: &[u32], outcome: u32) -> usize {
    find(model, context, outcome).map_or(1, |(tree, dish)| tree.dishes[dish as usize].tables as usize)
}

/// Discounts, and strengths: that of the root is so large that p is the base there, whoever its customers are. So the contexts
/// of one first element have nothing to do with those of another.
fn parameters_without_root() -> Parameters {
    Parameters { discounts: vec![0.0, 0.4, 0.7], strengths: vec![1e12, 1.5, 0.8] }
}

/// First elements 1 to 9: none of them is frequent enough to be split.
const FIRST: std::ops::RangeInclusive<u32> = 1..=9;

/// Below the top, a sweep is the Gibbs sampler whatever the number of shards.
#[test]
fn deep_restaurants_have_their_exact_distribution_in_several_shards() {
    for shards in [1, 3] {
        // Context (f, 20): outcome 0 three times; (f, 21): 0 once and 1 once; of three outcomes.
        let tokens: Vec<Vec<u32>> = FIRST
            .flat_map(|f| [[f, 20, 0], [f, 20, 0], [f, 20, 0], [f, 21, 0], [f, 21, 1]].map(|token| token.to_vec()))
            .collect();
        let (sender, receiver) = std::sync::mpsc::channel();
        sample(settings(2, 3, None), parameters_without_root(), tokens, shards, 20_000, move |model| {
            for f in FIRST {
                let _ = sender.send([tables(model, &[f, 20], 0), tables(model, &[f], 0), tables(model, &[f], 1)]);
            }
        });
        let mut seen = BTreeMap::new();
        receiver.iter().for_each(|state| *seen.entry(state).or_insert(0.0) += 1.0);
        let Parameters { discounts: a, strengths: b } = parameters_without_root();
        let mut exact = BTreeMap::new();
        for s in tables_for(3) {
            for t in tables_for(s + 1) {
                let deep = weight(a[2], b[2], &[(3, s)]) * weight(a[2], b[2], &[(1, 1), (1, 1)]);
                let above = weight(a[1], b[1], &[(s + 1, t), (1, 1)]);
                exact.insert([s, t, 1], deep * above * f64::powi(1.0 / 3.0, t as i32 + 1));
            }
        }
        assert_exact(&format!("{shards} shards"), &seen, &exact, Draws::Chain(180_000), 0.01);
    }
}

/// Orders of three tokens with contexts (1, 20), (1, 20), (1, 21), of which the last is cut: two words as the whole tree has
/// them, weighed over all tables.
fn exact_orders(
    stop: &StopPrior,
    parameters: &Parameters,
    root: impl Fn(f64, f64) -> f64,
) -> BTreeMap<Vec<usize>, f64> {
    let Parameters { discounts: a, strengths: b } = parameters;
    let rising = |from: f64, n: f64| gamma_ln(from + n) - gamma_ln(from);
    let visited = |stops: f64, passes: f64| {
        rising(stop.alpha, stops) + rising(stop.beta, passes) - rising(stop.alpha + stop.beta, stops + passes)
    };
    let mut exact = BTreeMap::new();
    for code in 0..27usize {
        let orders = [code % 3, code / 3 % 3, code / 9];
        let count = |tokens: &[usize], order: usize| tokens.iter().filter(|&&own| own == order).count();
        let all = |order: usize| count(&orders, order) as f64;
        let at_first = libm::exp(visited(all(1), all(2)));
        let at_root = root(all(0), all(1) + all(2));
        // Customers by depth of outcome 0 (the first two tokens) and of outcome 1.
        let (zero, one) =
            ([0, 1, 2].map(|order| count(&orders[..2], order)), [0, 1, 2].map(|o| count(&orders[2..], o)));
        let mut sum = 0.0;
        for s in tables_for(zero[2]) {
            for t in tables_for(zero[1] + s) {
                for r in tables_for(zero[0] + t) {
                    // Outcome 1 has one customer, at one table, from where it stops up to the root.
                    let (deep, first) = (one[2], one[1] + one[2]);
                    let seated = weight(a[2], b[2], &[(zero[2], s)])
                        * weight(a[2], b[2], &[(deep, deep)])
                        * weight(a[1], b[1], &[(zero[1] + s, t), (first, first)])
                        * weight(a[0], b[0], &[(zero[0] + t, r), (1, 1)]);
                    sum += seated * f64::powi(0.5, r as i32 + 1);
                }
            }
        }
        exact.insert(orders.to_vec(), sum * at_first * at_root);
    }
    exact
}

/// The orders of the tokens of a shard, by leaf.
fn orders(shard: &Shard) -> Vec<(u32, usize)> {
    shard.each_token().map(|(leaf, _)| leaf).zip(shard.orders().iter().map(|&order| usize::from(order))).collect()
}

/// A token whose context is cut stops where it would in the whole tree, or beyond the cut.
#[test]
fn orders_of_cut_contexts_have_their_exact_distribution() {
    let stop = StopPrior { alpha: 1.5, beta: 0.8 };
    let parameters = Parameters { discounts: vec![0.2, 0.3, 0.6], strengths: vec![0.9, 1.2, 0.7] };
    let tokens = vec![vec![1, 20, 0], vec![1, 20, 0], vec![1, 21, 1]];
    let (sender, receiver) = std::sync::mpsc::channel();
    sample(settings(2, 2, Some(stop)), parameters.clone(), tokens, 1, 200_000, move |model| {
        let shard = model.franchise.shards().next().unwrap();
        assert_eq!(shard.tree.levels[2].restaurants.len(), 1, "one context of two words is not cut");
        let _ = sender.send(orders(shard).into_iter().map(|(_, order)| order).collect::<Vec<_>>());
    });
    let mut seen = BTreeMap::new();
    receiver.iter().for_each(|state| *seen.entry(state).or_insert(0.0) += 1.0);
    let root = |stops: f64, passes: f64| libm::exp(gamma_ln(stop.alpha + stops) + gamma_ln(stop.beta + passes));
    assert_exact("orders", &seen, &exact_orders(&stop, &parameters, root), Draws::Chain(200_000), 0.01);
}

/// The same in several shards, with a root where all stop with nearly the same probability.
#[test]
fn orders_have_their_exact_distribution_in_several_shards() {
    let stop = StopPrior { alpha: 3e6, beta: 2e6 };
    let parameters = parameters_without_root();
    for shards in [1, 3] {
        let tokens: Vec<Vec<u32>> =
            FIRST.flat_map(|f| [[f, 20, 0], [f, 20, 0], [f, 21, 1]].map(|token| token.to_vec())).collect();
        let (sender, receiver) = std::sync::mpsc::channel();
        sample(settings(2, 2, Some(stop)), parameters.clone(), tokens, shards, 30_000, move |model| {
            for shard in model.franchise.shards() {
                let mut by_first = BTreeMap::<u32, Vec<usize>>::new();
                let mut context = vec![];
                for (leaf, order) in orders(shard) {
                    shard.tree.context(shard.tree.dishes[leaf as usize].restaurant, &mut context);
                    by_first.entry(context[0]).or_default().push(order);
                }
                by_first.into_values().for_each(|orders| drop(sender.send(orders)));
            }
        });
        let mut seen = BTreeMap::new();
        receiver.iter().for_each(|state| *seen.entry(state).or_insert(0.0) += 1.0);
        let fixed = |stops: f64, passes: f64| f64::powf(0.6, stops) * f64::powf(0.4, passes);
        let exact = exact_orders(&stop, &parameters, fixed);
        assert_exact(&format!("{shards} shards"), &seen, &exact, Draws::Chain(270_000), 0.01);
    }
}

/// In the top, tables of several shards are added up and set right: the distribution is near the exact one, not equal to it.
#[test]
fn the_top_of_several_shards_is_near_its_exact_distribution() {
    // Six first elements, each with outcome 0 twice; at the root, 0 of three outcomes. State: tables of the root.
    let parameters = Parameters { discounts: vec![0.5, 0.4], strengths: vec![1.0, 1.5] };
    let Parameters { discounts: a, strengths: b } = parameters.clone();
    let mut exact = BTreeMap::new();
    let opened: Vec<f64> = tables_for(2).map(|t| weight(a[1], b[1], &[(2, t)])).collect();
    // Of how many tables six restaurants have together, by the polynomial of one.
    let mut together = vec![1.0];
    for _ in 0..6 {
        let mut next = vec![0.0; together.len() + 2];
        for (n, p) in together.iter().enumerate() {
            opened.iter().zip(1..).for_each(|(q, t)| next[n + t] += p * q);
        }
        together = next;
    }
    for (n, p) in together.iter().enumerate().filter(|(n, _)| *n > 0) {
        for r in tables_for(n) {
            *exact.entry(r).or_insert(0.0) += p * weight(a[0], b[0], &[(n, r)]) * f64::powi(1.0 / 3.0, r as i32);
        }
    }
    let mut distances = vec![];
    for shards in [1, 3] {
        let tokens: Vec<Vec<u32>> = (1..=6).flat_map(|f| vec![vec![f, 0]; 2]).collect();
        let (sender, receiver) = std::sync::mpsc::channel();
        sample(settings(1, 3, None), parameters.clone(), tokens, shards, 100_000, move |model| {
            let _ = sender.send(tables(model, &[], 0));
        });
        let mut seen = BTreeMap::new();
        receiver.iter().for_each(|state| *seen.entry(state).or_insert(0.0) += 1.0);
        distances.push(total_variation(&seen, &exact));
    }
    assert!(distances[0] < 0.01, "with one shard it is exact: {distances:?}");
    assert!((0.01..0.2).contains(&distances[1]), "{distances:?}");
}

/// Tokens with contexts of up to 4 elements; the farther ones have more values.
fn some_tokens() -> impl Strategy<Value = Vec<Vec<u32>>> {
    let token = (1..3u32, 1..4u32, 1..8u32, 1..50u32, 0..3u32, 0..=4usize);
    let cut = |(a, b, c, d, outcome, length): (u32, u32, u32, u32, u32, usize)| {
        [&[a, b, c, d][..length], &[outcome]].concat()
    };
    prop::collection::vec(token.prop_map(cut), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// What is kept of a tree whose contexts were cut is what is kept of the whole one.
    #[test]
    fn every_context_is_kept(tokens in some_tokens(), tested in some_tokens()) {
        let seated = tokens.len();
        let lists = Lists(tokens.into_iter().chain(tested).collect(), 4);
        let kept = |is_cut: bool| {
            let mut sorted = Sorted::new(&lists);
            if is_cut {
                sorted.cut_lone(1);
            }
            let planted = Tree::plant_sorted(&lists, sorted);
            let rests = Rests::new(&lists, &planted, seated);
            let restaurants = planted.tree.restaurants.len();
            let mut franchise = Franchise::new(Arc::new(Deal::alone()), Parameters::new(4, 0.5, 1.0), 0.25, None);
            franchise.add(0, planted, &lists, seated);
            let mut rng = generator(1, Purpose::Synth, 0, 0);
            franchise.seat(0, &mut rng);
            franchise.sweep(0, &mut rng);
            let contexts: u64 = franchise.shards().map(Shard::contexts).sum();
            let (shards, _) = franchise.into_shards();
            let counted = Counted::of(&shards[&0], &rests, None, &mut rng);
            let streams = vec![Stream::default(), Stream::of(&shards[&0], &rests, None, &mut rng)];
            let merged = merge_all(Own::all(), 2, streams, 5, false, &mut |messages| messages);
            assert_eq!(merged.as_ref(), Some(&counted));
            (counted, contexts, restaurants)
        };
        let (whole, cut) = (kept(false), kept(true));
        prop_assert_eq!(&whole.0, &cut.0);
        prop_assert_eq!(whole.1, cut.1);
        prop_assert_eq!(whole.1 as usize, cut.0.tree.restaurants());
        prop_assert!(cut.2 <= whole.2);
        prop_assert_eq!(cut.0.tree.validate(5, 3, SYMBOLS), Ok(()));
        prop_assert_eq!(cut.0.tree.validate_counts(&cut.0.customers, &cut.0.tables), Ok(()));
        prop_assert_eq!(cut.0.tree.element(0), NONE);
    }
}
