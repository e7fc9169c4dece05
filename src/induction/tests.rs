//! Models against enumeration, against each other, and against what their estimation promises.

use std::collections::BTreeMap;

use rand::RngExt;

use super::chain::Chain;
use super::forest::Forest;
use super::grammar::{Buffers, Choice, Grammar};
use super::job::{Method, ModelType, Smoothing};
use super::pass::{Expectation, LANES, Passer, Setting, Weights};
use super::rules::share;
use super::sentences::Sentences;
use super::shape::{CONTEXTS, Context, Shape};
use crate::chart::tests::{Use, trees_within, uses};
use crate::cluster::rng::{Purpose, generator};

const TAGS: usize = 5;
/// Words of two tags are lexicalised.
const WORDS: [u32; 3] = [1, 1, 3];

/// Tags of function words.
const FUNCTION: [&str; 2] = ["0", "3"];

fn forest_of(bound: Option<u32>, function: &[&str]) -> Forest {
    let tags: Vec<String> = (0..TAGS).map(|tag| tag.to_string()).collect();
    Forest::new(bound, &function.iter().map(|tag| tag.to_string()).collect::<Vec<_>>(), &tags)
}

/// Sentences of up to seven words, some of them equal.
fn sentences(shape: &Shape, shards: usize) -> Vec<Sentences> {
    Sentences::shards(&symbols(shape), 1.0, TAGS, &shape.tag_of, shards)
}

/// The symbols of these.
fn symbols(shape: &Shape) -> Vec<Vec<u32>> {
    let mut rng = generator(5, Purpose::Synth, 0, 0);
    let draw = |_| (0..rng.random_range(1..8)).map(|_| rng.random_range(0..TAGS as u32)).collect();
    let mut all: Vec<Vec<u32>> = (0..40).map(draw).collect();
    all.extend_from_within(..10);
    // The same tags, with words where the shape has them.
    let words = shape.symbols() - TAGS;
    for (number, symbol) in all.iter_mut().flatten().enumerate().filter(|_| words > 0) {
        let of_tag: Vec<u32> = (0..words as u32).filter(|&word| WORDS[word as usize] == *symbol).collect();
        if !of_tag.is_empty() && number % 3 > 0 {
            *symbol = TAGS as u32 + of_tag[number % of_tag.len()];
        }
    }
    all
}

fn models() -> Vec<(ModelType, Smoothing)> {
    use ModelType::{Dmv, Evg, Levg};
    use Smoothing::{None, SkipHead, SkipVal};
    vec![
        (Dmv, None),
        (Dmv, SkipHead),
        (Evg, None),
        (Evg, SkipHead),
        (Evg, SkipVal),
        (Levg, None),
        (Levg, SkipHead),
        (Levg, SkipVal),
    ]
}

fn shape_of(model: ModelType, smoothing: Smoothing) -> Shape {
    let words: &[u32] = if model == ModelType::Levg { &WORDS } else { &[] };
    Shape::new(model, smoothing, TAGS, words)
}

/// One pass of one chain over all shards.
fn pass(shape: &Shape, forest: &Forest, weights: &Weights, shards: &[Sentences]) -> Expectation {
    let mut passer = Passer::default();
    passer.load(std::slice::from_ref(weights));
    let mut sum = passer.expect(Setting { shape, forest }, &shards[0]);
    shards[1..].iter().for_each(|sentences| sum.add(&passer.expect(Setting { shape, forest }, sentences)));
    sum.by_grammar(1).remove(0)
}

#[test]
fn free_energy_never_rises_and_likelihood_never_falls() {
    for (model, smoothing) in models() {
        for (method, weight, bound, function) in [
            (Method::Vb, 1.0, None, &[][..]),
            (Method::Vb, 3.7, None, &[]),
            (Method::Vb, 0.2, Some(1), &[]),
            (Method::Vb, 1.0, Some(2), &FUNCTION),
            (Method::Em, 1.0, None, &[]),
            (Method::Em, 2.5, Some(1), &FUNCTION),
        ] {
            let shape = shape_of(model, smoothing);
            let forest = forest_of(bound, function);
            let shards = Sentences::shards(&symbols(&shape), weight, TAGS, &shape.tag_of, 2);
            let mut chain = Chain::draw(&shape, 1, 0, 0);
            let mut before = f64::INFINITY;
            for iteration in 0..60 {
                let found = pass(&shape, &forest, &chain.weights(&shape), &shards);
                chain.judge(&shape, method, &found);
                let rise = chain.free_energy - before;
                let is_known = iteration > 0 || method == Method::Em;
                assert_eq!(chain.free_energy.is_finite(), is_known);
                assert!(
                    rise <= 1e-9 || before.is_infinite(),
                    "{model:?} {smoothing:?} {method:?} {weight} {bound:?}: {rise} in iteration {iteration}"
                );
                before = chain.free_energy;
                chain.take(&shape, method, &found.uses);
            }
        }
    }
}

/// A weight is what naming a file so often is; sentences and words are counted once all the same.
#[test]
fn a_weight_of_three_is_every_sentence_three_times() {
    let shape = shape_of(ModelType::Levg, Smoothing::SkipHead);
    let once = symbols(&shape);
    let weighted = Sentences::shards(&once, 3.0, TAGS, &shape.tag_of, 2);
    let thrice = Sentences::shards(&[once.clone(), once.clone(), once].concat(), 1.0, TAGS, &shape.tag_of, 2);
    let weights = Chain::draw(&shape, 11, 0, 0).weights(&shape);
    let [found, same] = [&weighted, &thrice].map(|shards| pass(&shape, &Forest::of_depth(None), &weights, shards));
    assert_eq!(found, same);
    for (weighted, thrice) in weighted.iter().zip(&thrice) {
        assert_eq!((3 * weighted.sentences(), 3 * weighted.words()), (thrice.sentences(), thrice.words()));
    }
}

#[test]
fn expected_counts_add_up() {
    for (model, smoothing) in models() {
        let shape = shape_of(model, smoothing);
        let shards = sentences(&shape, 3);
        let count: f64 = shards.iter().map(|shard| shard.sentences() as f64).sum();
        let words: f64 = shards.iter().map(|shard| shard.words() as f64).sum();
        assert_eq!(count, 50.0);
        let chain = Chain::draw(&shape, 2, 0, 0);
        let found = pass(&shape, &Forest::of_depth(None), &chain.weights(&shape), &shards);
        let near = |found: f64, exact: f64| assert!((found - exact).abs() < 1e-9, "{found} for {exact}");
        // A root for each sentence, an arc for each other word, a stop on each side of each word.
        near(found.uses[shape.root(0)..].iter().sum(), count);
        near(found.uses[..shape.stop(0, 0)].iter().sum(), words - count);
        near(found.uses[shape.stop(0, 0)..shape.root(0)].iter().sum(), 2.0 * words);
        // Every arc is drawn from one level, and every coin thrown once for each draw above it.
        let mut started = chain.clone();
        started.take(&shape, Method::Vb, &found.uses);
        let counts = &started.counts;
        near(counts[..TAGS].iter().sum(), count);
        for context in 0..CONTEXTS {
            for tag in 0..TAGS {
                let symbols = (0..shape.symbols()).filter(|&symbol| shape.tag_of[symbol] as usize == tag);
                let arcs: f64 =
                    symbols.map(|symbol| found.uses[shape.arcs(context, symbol)..][..TAGS].iter().sum::<f64>()).sum();
                near(counts[shape.stop_rule(context, tag) + 1], arcs);
                near(counts[shape.stop_rule(context, tag)], found.uses[shape.stop(context, tag)]);
            }
        }
        let levels: f64 = shape
            .levels
            .iter()
            .enumerate()
            .map(|(at, level)| {
                let from = shape.dependents_of(at, 0);
                counts[from..from + level.classes * TAGS].iter().sum::<f64>()
            })
            .sum();
        near(levels, words - count);
    }
}

/// A sentence's probability as a product of rules, summed over every tree and every way to draw its arcs, is what the pass
/// finds: smoothing is a mixture.
#[test]
fn smoothed_weights_are_interpolations() {
    for (model, smoothing) in models() {
        let shape = shape_of(model, smoothing);
        let chain = Chain::draw(&shape, 3, 0, 0);
        let weights = chain.weights(&shape);
        for context in 0..CONTEXTS {
            for symbol in 0..shape.symbols() {
                // Probabilities of dependents, with the decision to have one, and of stopping: one in all.
                let arcs = &weights.uses[shape.arcs(context, symbol)..][..TAGS];
                let arcs: f64 = arcs.iter().zip(&weights.scales).map(|(arc, scale)| arc * libm::exp(*scale)).sum();
                let stop = weights.uses[shape.stop(context, shape.tag_of[symbol] as usize)];
                assert!((arcs + stop - 1.0).abs() < 1e-12, "{model:?} {smoothing:?}: {arcs} and {stop}");
            }
        }
    }
}

/// The trees of a sentence in which function words have no dependents, or all where there are no others, each with its
/// probability and uses.
fn enumerated(shape: &Shape, weights: &Weights, bound: Option<u32>, tags: &[u32]) -> Vec<(Vec<u32>, f64, Vec<usize>)> {
    let is_function = |word: usize| FUNCTION.contains(&tags[word].to_string().as_str());
    let is_bound = (0..tags.len()).any(|word| !is_function(word));
    let may_be = |heads: &Vec<u32>| !is_bound || heads.iter().all(|&head| head == 0 || !is_function(head as usize - 1));
    let of = |heads: Vec<u32>| {
        let (arcs, stops, root) = uses(&heads);
        let tag = |word: usize| tags[word] as usize;
        let arc =
            |&(v, head, dependent): &Use| shape.arcs(2 * usize::from(head < dependent) + v, tag(head)) + tag(dependent);
        let mut used: Vec<usize> = arcs.iter().map(arc).collect();
        used.extend(stops.iter().map(|&(side, v, head)| shape.stop(2 * side + v, tag(head))));
        used.push(shape.root(tag(root)));
        let scale: f64 = tags.iter().map(|&tag| weights.scales[tag as usize]).sum();
        let p = used.iter().map(|&at| weights.uses[at]).product::<f64>() * libm::exp(scale);
        (heads, p, used)
    };
    trees_within(tags.len(), bound).into_iter().filter(may_be).map(of).collect()
}

#[test]
fn sums_and_parses_are_over_trees_in_which_function_words_have_no_dependents() {
    let shape = shape_of(ModelType::Evg, Smoothing::SkipHead);
    let weights = Chain::draw(&shape, 10, 0, 0).weights(&shape);
    let mut buffers = Buffers::default();
    // Function words among others, at the edges, alone, one alone, and none.
    let all: [&[u32]; 8] = [
        &[0, 1, 3, 2, 0, 4],
        &[3, 0, 3, 1, 0],
        &[1, 0, 0, 3, 3, 0],
        &[2, 0],
        &[3, 0, 0, 3],
        &[0],
        &[0, 0],
        &[1, 4, 2, 2, 1],
    ];
    for bound in [None, Some(1), Some(2)] {
        let forest = forest_of(bound, &FUNCTION);
        let grammar = Grammar::new(&shape, &weights, forest.clone());
        for tags in all {
            let trees = enumerated(&shape, &weights, bound, tags);
            let sum: f64 = trees.iter().map(|(_, p, _)| p).sum();
            let mut exact = vec![0.0; shape.uses()];
            let mut right: BTreeMap<(usize, u32), f64> = BTreeMap::new();
            for (heads, p, used) in &trees {
                used.iter().for_each(|&at| exact[at] += p / sum);
                heads.iter().enumerate().for_each(|arc| *right.entry((arc.0, *arc.1)).or_insert(0.0) += p / sum);
            }
            let found =
                pass(&shape, &forest, &weights, &Sentences::shards(&[tags.to_vec()], 1.0, TAGS, &shape.tag_of, 1));
            assert!((found.ln_likelihood - libm::log(sum)).abs() < 1e-12, "{tags:?}, {bound:?}");
            assert!(found.uses.iter().zip(&exact).all(|(found, exact)| (found - exact).abs() < 1e-12), "{tags:?}");
            let (best, ..) = trees.iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("a tree");
            assert_eq!(&grammar.parse(tags, Choice::Viterbi, &mut buffers), best, "{tags:?}, {bound:?}");
            let gain = |heads: &[u32]| heads.iter().enumerate().map(|(word, &head)| right[&(word, head)]).sum::<f64>();
            let least_risk = grammar.parse(tags, Choice::MinimumRisk, &mut buffers);
            assert!(trees.iter().any(|(heads, ..)| heads == &least_risk), "{tags:?}, {bound:?}: {least_risk:?}");
            assert!(trees.iter().all(|(heads, ..)| gain(heads) <= gain(&least_risk) + 1e-12), "{tags:?}, {bound:?}");
        }
    }
}

#[test]
fn sentences_of_function_words_alone_are_known() {
    let forest = forest_of(None, &FUNCTION);
    let is_free = [&[0, 3][..], &[0], &[0, 1], &[], &[TAGS, 0]].map(|tags| forest.is_free(tags));
    assert_eq!(is_free, [true, false, false, false, false]);
}

#[test]
fn an_evg_that_ties_valences_is_a_dmv() {
    let (dmv, evg) = (shape_of(ModelType::Dmv, Smoothing::None), shape_of(ModelType::Evg, Smoothing::None));
    let tied = Shape::of_contexts(&[Context::Tag], TAGS, &[]);
    let shards = sentences(&dmv, 2);
    let forest = Forest::of_depth(None);
    let mut chain = Chain::draw(&dmv, 4, 0, 0);
    let mut other = Chain::draw(&tied, 4, 0, 0);
    for _ in 0..5 {
        // EVG with the same dependents for both valences: the same weights and expectations, to the bit.
        let weights = chain.weights(&dmv);
        let found = pass(&dmv, &forest, &weights, &shards);
        let as_evg = pass(&evg, &forest, &weights, &shards);
        assert_eq!(found, as_evg);
        let counts_of = |shape: &Shape| {
            let mut counts = vec![0.0; shape.rules()];
            share(shape, &vec![1.0; shape.rules()], &found.uses, &mut counts);
            counts
        };
        let (tied_counts, evg_counts) = (counts_of(&dmv), counts_of(&evg));
        for side in 0..2 {
            for tag in 0..TAGS {
                let at = |shape: &Shape, context: usize| shape.levels_of(context, tag).next().expect("a level").0;
                for dependent in 0..TAGS {
                    let both: f64 = (0..2).map(|v| evg_counts[at(&evg, 2 * side + v) + dependent]).sum();
                    assert!((tied_counts[at(&dmv, 2 * side) + dependent] - both).abs() < 1e-12);
                }
            }
        }
        chain.take(&dmv, Method::Vb, &found.uses);
        let found = pass(&tied, &forest, &other.weights(&tied), &shards);
        other.take(&tied, Method::Vb, &found.uses);
        assert_eq!(chain, other);
    }
}

#[test]
fn an_levg_without_words_is_an_evg() {
    for smoothing in [Smoothing::None, Smoothing::SkipHead, Smoothing::SkipVal] {
        let evg = Shape::new(ModelType::Evg, smoothing, TAGS, &[]);
        let levg = Shape::new(ModelType::Levg, smoothing, TAGS, &[]);
        let (shards, forest) = (sentences(&evg, 2), Forest::of_depth(None));
        let mut chain = Chain::draw(&evg, 6, 0, 0);
        for _ in 0..3 {
            let found = pass(&evg, &forest, &chain.weights(&evg), &shards);
            chain.take(&evg, Method::Vb, &found.uses);
        }
        let mut lifted = chain.clone().lifted(&evg, &levg);
        for _ in 0..3 {
            assert_eq!(chain.weights(&evg), lifted.weights(&levg));
            let found = pass(&evg, &forest, &chain.weights(&evg), &shards);
            let same = pass(&levg, &forest, &lifted.weights(&levg), &shards);
            chain.take(&evg, Method::Vb, &found.uses);
            lifted.take(&levg, Method::Vb, &same.uses);
            assert_eq!(chain.counts, lifted.counts, "{smoothing:?}");
        }
    }
}

#[test]
fn an_levg_begins_as_its_evg() {
    for smoothing in [Smoothing::None, Smoothing::SkipHead, Smoothing::SkipVal] {
        let (evg, levg) = (shape_of(ModelType::Evg, smoothing), shape_of(ModelType::Levg, smoothing));
        let chain = Chain::draw(&evg, 7, 0, 0);
        let (old, new) = (chain.weights(&evg), chain.clone().lifted(&evg, &levg).weights(&levg));
        for context in 0..CONTEXTS {
            for symbol in 0..levg.symbols() {
                for tag in 0..TAGS {
                    let own =
                        old.uses[evg.arcs(context, levg.tag_of[symbol] as usize) + tag] * libm::exp(old.scales[tag]);
                    let lifted = new.uses[levg.arcs(context, symbol) + tag] * libm::exp(new.scales[tag]);
                    assert!((own - lifted).abs() < 1e-12, "{smoothing:?}: {own} and {lifted}");
                }
            }
        }
    }
}

#[test]
fn a_grammar_is_the_same_alone_and_among_others() {
    let shape = shape_of(ModelType::Levg, Smoothing::SkipHead);
    let shards = sentences(&shape, 1);
    let chains: Vec<Chain> = (0..LANES as u32).map(|restart| Chain::draw(&shape, 8, 0, restart)).collect();
    let weights: Vec<Weights> = chains.iter().map(|chain| chain.weights(&shape)).collect();
    for bound in [None, Some(2)] {
        let forest = Forest::of_depth(bound);
        let setting = Setting { shape: &shape, forest: &forest };
        let mut passer = Passer::default();
        // Lanes that are full, and lanes that are not.
        for count in [LANES, 3] {
            passer.load(&weights[..count]);
            let all = passer.expect(setting, &shards[0]).by_grammar(count);
            let likelihoods = passer.likelihood(setting, &shards[0]);
            assert_eq!((all.len(), likelihoods.len()), (count, count));
            for ((weights, found), likelihood) in weights.iter().zip(&all).zip(likelihoods) {
                assert_eq!(likelihood, found.ln_likelihood);
                assert_eq!(&pass(&shape, &forest, weights, &shards), found);
            }
        }
    }
}

#[test]
fn long_sentences_do_not_underflow() {
    let shape = shape_of(ModelType::Dmv, Smoothing::None);
    let symbols: Vec<u32> = (0..150).map(|word| word * 7 % TAGS as u32).collect();
    let shards = Sentences::shards(&[symbols], 1.0, TAGS, &shape.tag_of, 1);
    let mut weights = Chain::draw(&shape, 9, 0, 0).weights(&shape);
    // As if every weight were tiny.
    let size = weights.uses.len();
    weights.uses.iter_mut().take(size - TAGS).for_each(|weight| *weight *= 1e-4);
    let found = pass(&shape, &Forest::of_depth(None), &weights, &shards);
    assert!(found.ln_likelihood.is_finite() && found.ln_likelihood < -1000.0, "{}", found.ln_likelihood);
    assert!((found.uses[shape.root(0)..].iter().sum::<f64>() - 1.0).abs() < 1e-9);
}
