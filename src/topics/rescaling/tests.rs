//! Rescaling against its definition, and both models against themselves alone.

use rand::RngExt;

use super::model::Rescaling;
use crate::cluster::engine::Cluster;
use crate::cluster::own::Own;
use crate::cluster::rng::{Purpose, generator};
use crate::cluster::sweep::{Control, Model, Schedule, train};
use crate::lm::job::Order;
use crate::lm::text::Symbols;
use crate::restaurant::order::StopPrior;
use crate::restaurant::tree::{NONE, Tree};
use crate::topics::collection::Share;
use crate::topics::job::{EvaluationSettings, ModelSettings, ModelType};
use crate::topics::lda::Lda;
use crate::topics::left_to_right::LeftToRight;
use crate::topics::ngram::counts::Form;
use crate::topics::ngram::dealt::Dealt;
use crate::topics::ngram::model::{NgramModel, Setup};
use crate::topics::ngram::seats::Slot;
use crate::topics::rescaling::back_off::BackOff;
use crate::topics::rescaling::predict::Predictor;

/// More than two blocks of words, and the end of a sentence.
const SYMBOLS: Symbols = Symbols { end: 37, begin: 38 };
const SHARDS: u32 = 2;
const EVALUATION: EvaluationSettings = EvaluationSettings { every: 0, burn_in: 0, particles: 3, resample: 10 };

/// Documents of sentences about one of three things.
fn documents(seed: u64, numbers: std::ops::Range<u32>) -> Vec<(u32, Vec<u32>)> {
    let document = |number: u32| {
        let mut rng = generator(seed, Purpose::Synth, u64::from(number), 0);
        let mut words = vec![];
        for _ in 0..rng.random_range(3..12u32) {
            let mut word = rng.random_range(0..12u32);
            for _ in 0..rng.random_range(0..7u32) {
                words.push(12 * (number % 3) + word);
                word = if rng.random_bool(0.6) { (5 * word + 1) % 12 } else { rng.random_range(0..12) };
            }
            words.push(SYMBOLS.end);
        }
        (number, words)
    };
    numbers.map(document).collect()
}

/// All documents, as every worker with n-grams has them.
fn share(seed: u64) -> Share {
    let halves = |from: u32, to: u32| {
        let middle = u32::midpoint(from, to);
        [(0, documents(seed, from..middle)), (1, documents(seed, middle..to))].into_iter().collect()
    };
    Share { training: halves(0, 24), test: halves(24, 30) }
}

fn settings(topics: usize, weight: f64) -> ModelSettings {
    ModelSettings { model: ModelType::Rescaling, topics, weight, ..ModelSettings::default() }
}

const TRIGRAMS: Order = Order::Fixed(3);
const INFINITE: Order = Order::Infinite { longest: 4, stop: StopPrior { alpha: 1.0, beta: 1.0 } };

fn setup(seed: u64, order: Order, topics: usize) -> Setup {
    Setup {
        seed,
        form: Form::Hpytm,
        topics,
        order,
        tables_every: 0,
        strength: 5.0,
        learn_alpha: true,
        evaluation: EVALUATION,
        shards: SHARDS,
        syncs_per_sweep: 2,
    }
}

/// Trains what `model` makes, on one worker.
fn trained<M: Model + Send + 'static>(sweeps: u64, model: impl Fn() -> M + Send + Sync + 'static) -> M {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let control = Control::of_test(folder.path());
    let schedule = Schedule { shards: SHARDS, sweeps, sync_every: 1, evaluate_every: 0, checkpoint_every: 0 };
    let program = move |worker: &mut timely::worker::Worker| {
        train(worker, model(), &schedule, &control, |_, _| ()).map_err(|e| e.to_string()).expect("it trains").0
    };
    Cluster::local(1).run(Vec::new, program).map_err(|e| e.to_string()).expect("it runs").remove(0)
}

/// The tokens of all documents, dealt to the shards of one worker.
fn dealt(seed: u64, order: Order) -> Dealt {
    Dealt::new(Own::all(), &mut |messages| messages, SYMBOLS, order.longest() - 1, SHARDS, 2, share(seed))
}

fn rescaling(seed: u64, order: Order, topics: usize, weight: f64, sweeps: u64, before_ngrams: u64) -> Rescaling {
    trained(sweeps, move || {
        let settings = settings(topics, weight);
        Rescaling::new(&settings, setup(seed, order, topics), before_ngrams, SYMBOLS, share(seed), dealt(seed, order))
    })
}

/// p(w | h) of every word where `restaurant` is that of the whole context, by the definition.
fn distribution(model: &NgramModel, restaurant: u32) -> Vec<f64> {
    let Some(stop) = model.setup().order.stop() else { return of_restaurant(model, restaurant) };
    let mut contexts = vec![restaurant];
    while model.tree().parent_of(contexts[contexts.len() - 1]) != NONE {
        contexts.push(model.tree().parent_of(contexts[contexts.len() - 1]));
    }
    let (mut sum, mut left) = (vec![0.0; SYMBOLS.outcomes() as usize], 1.0);
    for &context in contexts.iter().rev() {
        let stops = if context == restaurant { 1.0 } else { stop.probability(model.counts().visits[context as usize]) };
        sum.iter_mut().zip(of_restaurant(model, context)).for_each(|(sum, p)| *sum += left * stops * p);
        left *= 1.0 - stops;
    }
    sum
}

/// The distribution of one restaurant.
fn of_restaurant(model: &NgramModel, restaurant: u32) -> Vec<f64> {
    let (tree, counts, parameters): (&Tree, _, _) = (model.tree(), model.counts(), model.hyperparameters().parameters);
    let parent = tree.parent_of(restaurant);
    let outcomes = SYMBOLS.outcomes() as usize;
    let below = match parent {
        NONE => vec![1.0 / outcomes as f64; outcomes],
        parent => of_restaurant(model, parent),
    };
    let depth = tree.depth_of(tree.dishes_of(restaurant).start);
    let (a, b) = (parameters.discounts[depth], parameters.strengths[depth]);
    let Slot { customers, tables, .. } = counts.restaurants.get(restaurant, 0);
    let new = b + a * f64::from(tables);
    let mut all: Vec<f64> = below.iter().map(|below| new * below).collect();
    for dish in tree.dishes_of(restaurant) {
        let Slot { customers, tables, .. } = counts.dishes.get(dish, 0);
        all[tree.outcomes[dish as usize] as usize] += f64::from(customers) - a * f64::from(tables);
    }
    all.iter().map(|seats| seats / (f64::from(customers) + b)).collect()
}

/// ln p of each token of a document, by eq. 14.
fn twin(model: &Rescaling, weight: f64, leaves: &[u32], method: LeftToRight, seed: u64) -> Vec<f64> {
    let (lda, ngrams) = (model.lda(), model.ngrams());
    let (counts, prior) = (lda.held_out(), lda.prior());
    let words: Vec<u32> = leaves.iter().map(|&leaf| ngrams.tree().outcomes[leaf as usize]).collect();
    let all: f64 = lda.totals().iter().sum::<i64>() as f64;
    let count = |word: u32, topic: usize| f64::from(counts.get(word, topic as u16)) + prior.beta();
    let everywhere = |word: u32| -> f64 {
        let totals = lda.totals().iter().map(|&total| total as f64).enumerate();
        totals.map(|(k, total)| total / all * count(word, k) / (total + prior.vocabulary_mass())).sum()
    };
    let sum: f64 = (0..SYMBOLS.outcomes()).map(everywhere).sum();
    assert!((sum - 1.0).abs() < 1e-9, "p(w) sums to {sum}");
    let mut found = vec![];
    let mut rng = generator(seed, Purpose::Evaluation, 0, 0);
    method.each_mixture(counts, prior, &words, &mut rng, |token, mixture| {
        let here = |word: u32| -> f64 {
            (0..counts.topics()).map(|k| f64::from(mixture[k / 16].0[k % 16]) * count(word, k)).sum()
        };
        let sum: f64 = (0..SYMBOLS.outcomes()).map(here).sum();
        assert!((sum - 1.0).abs() < 1e-4, "p(w | d) sums to {sum}");
        let restaurant = ngrams.tree().dishes[leaves[token] as usize].restaurant;
        let after = distribution(ngrams, restaurant);
        assert!((after.iter().sum::<f64>() - 1.0).abs() < 1e-9, "p(w | h) sums to one");
        let rescaled = (0..SYMBOLS.outcomes()).zip(&after);
        let rescaled: Vec<f64> =
            rescaled.map(|(word, p)| libm::pow(here(word) / everywhere(word), weight) * p).collect();
        found.push(libm::log(rescaled[words[token] as usize] / rescaled.iter().sum::<f64>()));
    });
    found
}

#[test]
fn probabilities_are_those_of_the_definition() {
    for (seed, order, weight) in [(1, TRIGRAMS, 0.7), (2, TRIGRAMS, 1.3), (3, INFINITE, 0.2), (4, INFINITE, 0.7)] {
        let model = rescaling(seed, order, 5, weight, 12, 4);
        let method = LeftToRight { particles: 3, resample: 10 };
        // The shards take turns.
        let of_shards: Vec<Vec<(u32, Vec<u32>)>> = share(seed).test.into_values().collect();
        let turns = (0..of_shards[0].len()).flat_map(|turn| of_shards.iter().map(move |documents| &documents[turn].1));
        let tests: Vec<Vec<u32>> = turns.cloned().collect();
        let documents: Vec<&[u32]> = tests.iter().map(Vec::as_slice).collect();
        let (back_off, found_leaves) = BackOff::gather(model.ngrams(), SYMBOLS, &documents, &mut |messages| messages);
        let predictor = Predictor::new(model.lda().held_out(), model.lda().prior(), back_off, weight, method);
        let own_leaves: Vec<u32> = model.ngrams().test_leaves().collect();
        let mut start = 0;
        let mut tokens = 0;
        for words in &tests {
            let tokens_here = start..start + words.len();
            start = tokens_here.end;
            let mut found = vec![];
            let mut rng = generator(seed, Purpose::Evaluation, 0, 0);
            predictor.each_token(words, &found_leaves[tokens_here.clone()], &mut rng, |token, word_ln| {
                assert_eq!(token, found.len());
                found.push(word_ln);
            });
            let expected = twin(&model, weight, &own_leaves[tokens_here], method, seed);
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(&expected) {
                assert!((found - expected).abs() < 1e-5, "{found}, but {expected} by the definition");
            }
            tokens += found.len();
        }
        assert!(tokens > 100, "{tokens} tokens");
    }
}

#[test]
fn every_distribution_sums_to_one() {
    // The same tokens, each with every word in its place: what all of them come to is 1, however the sum was split.
    let model = rescaling(4, INFINITE, 6, 0.7, 10, 2);
    let method = LeftToRight { particles: 2, resample: 10 };
    let predictor = Predictor::new(
        model.lda().held_out(),
        model.lda().prior(),
        BackOff::new(model.ngrams(), SYMBOLS.outcomes()),
        0.7,
        method,
    );
    let tree = model.ngrams().tree();
    let top = tree.levels[0].restaurants.start;
    let words = [3, 15, 4, SYMBOLS.end, 3];
    let mut checked = 0;
    for restaurant in (0..tree.restaurants.len() as u32).filter(|r| r % 7 == 0 || *r == top) {
        let dishes: Vec<u32> = tree.dishes_of(restaurant).collect();
        let known = distribution(model.ngrams(), restaurant);
        // Words that the restaurant does not serve have no leaf; their share follows from one that it does.
        let probability = |dish: u32| {
            let mut last = 0.0;
            let mut rng = generator(4, Purpose::Evaluation, 0, 0);
            predictor.each_token(&words, &[dish; 5], &mut rng, |_, word_ln| last = libm::exp(word_ln));
            last
        };
        let mut factors = vec![0.0; known.len()];
        let mut rng = generator(4, Purpose::Evaluation, 0, 0);
        let (counts, prior) = (model.lda().held_out(), model.lda().prior());
        let all = model.lda().totals().iter().sum::<i64>() as f64;
        method.each_mixture(counts, prior, &words, &mut rng, |_, mixture| {
            for (word, factor) in factors.iter_mut().enumerate() {
                let (mut here, mut everywhere) = (0.0, 0.0);
                for (k, &total) in model.lda().totals().iter().enumerate() {
                    let count = f64::from(counts.get(word as u32, k as u16)) + prior.beta();
                    here += f64::from(mixture[k / 16].0[k % 16]) * count;
                    everywhere += total as f64 / all * count / (total as f64 + prior.vocabulary_mass());
                }
                *factor = libm::pow(here / everywhere, 0.7);
            }
        });
        let first = tree.outcomes[dishes[0] as usize] as usize;
        let normaliser = factors[first] * known[first] / probability(dishes[0]);
        let sum: f64 = factors.iter().zip(&known).map(|(r, p)| r * p / normaliser).sum();
        assert!((sum - 1.0).abs() < 1e-5, "restaurant {restaurant}: {sum}");
        checked += 1;
    }
    assert!(checked > 20, "{checked} contexts");
}

#[test]
fn without_topics_or_weight_it_is_the_ngram_model() {
    for (order, topics, weight) in [(TRIGRAMS, 1, 0.7), (TRIGRAMS, 5, 0.0), (INFINITE, 1, 0.7)] {
        let mut model = rescaling(5, order, topics, weight, 8, 3);
        let mut alone = trained(5, move || {
            NgramModel::new(setup(5 ^ super::model::NGRAM_SEED, order, 1).of_one_topic(), SYMBOLS, dealt(5, order))
        });
        model.predict(&mut |messages| messages, 8);
        alone.predict(&mut |messages| messages, 5);
        for shard in 0..SHARDS {
            let (found, expected) = (model.evaluate(shard, 8), alone.evaluate(shard, 5));
            assert_eq!(found[1], expected[1]);
            assert!((found[0] / expected[0] - 1.0).abs() < 1e-6, "{} and {}", found[0], expected[0]);
        }
    }
}

#[test]
fn each_model_is_as_if_it_were_alone() {
    let both = rescaling(6, TRIGRAMS, 5, 0.7, 9, 4);
    let outcomes = SYMBOLS.outcomes() as usize;
    let own = Share { test: Default::default(), ..share(6) };
    let alone = move || Lda::new(6, &settings(5, 0.7), &EVALUATION, outcomes, SHARDS, own.clone()).with_all_words();
    let lda = trained(9, alone);
    assert_eq!(both.lda().held_out(), lda.held_out());
    assert_eq!(both.lda().prior(), lda.prior());
    let ngrams = trained(5, || {
        NgramModel::new(setup(6 ^ super::model::NGRAM_SEED, TRIGRAMS, 1).of_one_topic(), SYMBOLS, dealt(6, TRIGRAMS))
    });
    for dish in 0..ngrams.tree().dishes.len() as u32 {
        assert_eq!(both.ngrams().counts().dishes.get(dish, 0), ngrams.counts().dishes.get(dish, 0));
    }
    let (found, expected) = (both.ngrams().hyperparameters().parameters, ngrams.hyperparameters().parameters);
    assert_eq!((found.discounts, found.strengths), (expected.discounts, expected.strengths));
}
