//! The n-gram model to compare with: an HPYLM of the very words that the parser has learned from, with the same
//! vocabulary ([`crate::lm::hpylm`]).
//!
//! Its tokens go to the workers of their shards, as those of the parser do ([`crate::restaurant::shuffle`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use timely::worker::Worker;

use super::run::Stages;
use super::text::{Sentences, Text};
use crate::cluster::operators::all_gather::AllGather;
use crate::cluster::own::Own;
use crate::cluster::sweep::{Control, End, Round, train};
use crate::error::Result;
use crate::lm::hpylm::{Hpylm, Settings};
use crate::lm::report::Evaluated;
use crate::lm::text::Symbols;
use crate::restaurant::deal::Deal;
use crate::restaurant::shuffle::{Shuffle, Visit, agree};
use crate::restaurant::tokens::Tokens;
use crate::restaurant::tree::Paths;

/// What it was found to predict.
pub struct Compared {
    /// After each sweep.
    pub evaluated: Vec<Evaluated>,
    /// p of every token to test on, by shard of the text and in its order there: the mean over samples. Nothing where there are
    /// none.
    pub predictions: Vec<f64>,
}

impl Stages<'_> {
    /// Trains it; `tell` is shown each round.
    pub(super) fn compare_with_ngrams(
        &mut self,
        worker: &mut Worker,
        text: &Text,
        control: &Control,
        mut tell: impl FnMut(&Round),
    ) -> Result<(End, Compared)> {
        let ngrams = Ngrams::new(text, self.plan.ngram.order);
        let (deal, tokens) = self.ngrams(worker, text, &ngrams);
        let model = &self.plan.parser.model;
        let settings = Settings {
            seed: self.plan.parser.seed,
            depth: ngrams.depth,
            outcomes: ngrams.symbols.outcomes(),
            unknown: None,
            discount: model.discount,
            strength: model.strength,
            prior: (self.plan.parser.learn_every > 0).then_some(self.plan.parser.prior),
            stop: None,
            burn_in: self.plan.ngram.burn_in,
            sample_every: 1,
        };
        let model = ngrams.model(settings, deal.clone(), tokens, &text.test);
        let mut evaluated = vec![];
        let mut predictions = AllGather::<Vec<f64>>::new(worker, "Predictions");
        let schedule = &self.plan.comparing();
        let (model, end) = train(worker, model, schedule, control, |_, round| {
            tell(round);
            evaluated.extend(Evaluated::new(round));
        })?;
        let by_shard = predictions.exchange(worker, model.predictions(schedule.sweeps));
        Ok((end, Compared { evaluated, predictions: ngrams.in_order(&deal, &text.test, by_shard) }))
    }

    /// The tokens of the own shards to train on, from the trees and the text of all workers.
    fn ngrams(&mut self, worker: &mut Worker, text: &Text, ngrams: &Ngrams) -> (Arc<Deal>, BTreeMap<u32, Tokens>) {
        let (runs, own, treebank) = (self.runs(), Own::of(worker), self.treebank);
        let shards = self.plan.shards();
        let each = |show: &mut Visit<'_>| {
            for shard in own.below(shards) {
                let observed = runs[shard as usize].clone().map(|number| {
                    let words = text.lexicon.sentence(treebank, number);
                    words.iter().map(|word| word.form).collect()
                });
                // What the parser learns weights from is text to learn from here.
                let tuning = text.tuning.get(&shard).into_iter().flat_map(Sentences::iter).map(<[u32]>::to_vec);
                let raw = text.training.get(&shard).into_iter().flat_map(|shelf| shelf.iter());
                for words in observed.chain(raw).chain(tuning) {
                    ngrams.each(&words, &mut *show);
                }
            }
        };
        let deal = agree(worker, &mut self.letters, shards, ngrams.symbols.all(), each);
        let mut shuffle = Shuffle::new(worker, &mut self.letters, &deal, ngrams.depth, ngrams.symbols.all());
        each(&mut |context, outcome| shuffle.push(context, outcome));
        let tokens = shuffle.finish();
        (deal, tokens)
    }
}

/// Makes tokens of sentences: words with those before them.
struct Ngrams {
    symbols: Symbols,
    depth: usize,
}

impl Ngrams {
    fn new(text: &Text, order: usize) -> Ngrams {
        let words = text.lexicon.words();
        Ngrams { symbols: Symbols { end: words, begin: words + 1 }, depth: order - 1 }
    }

    /// The model of the tokens of the own shards, with all text to test on.
    fn model(
        &self,
        settings: Settings,
        deal: Arc<Deal>,
        mut tokens: BTreeMap<u32, Tokens>,
        test: &BTreeMap<u32, Sentences>,
    ) -> Hpylm {
        let seated: BTreeMap<u32, usize> = tokens.iter().map(|(&shard, tokens)| (shard, tokens.count())).collect();
        self.each_to_test(&deal, test, |shard, context, outcome| {
            if let Some(tokens) = tokens.get_mut(&shard) {
                tokens.push(context, outcome);
            }
        });
        let mut model = Hpylm::new(settings, deal);
        for (shard, tokens) in tokens {
            model.add(shard, tokens, seated[&shard], false);
        }
        model
    }

    /// Shows each token of a sentence, its end among them: the words before, nearest first and the begin of the sentence
    /// last, as far as contexts reach; and the token.
    fn each(&self, words: &[u32], mut show: impl FnMut(&[u32], u32)) {
        let Symbols { end, begin } = self.symbols;
        let backwards: Vec<u32> = [end].into_iter().chain(words.iter().rev().copied()).chain([begin]).collect();
        for place in (0..=words.len()).rev() {
            let before = &backwards[place + 1..];
            show(&before[..self.depth.min(before.len())], backwards[place]);
        }
    }

    /// The same of all text to test on, with the shard that each token is of.
    fn each_to_test(&self, deal: &Deal, test: &BTreeMap<u32, Sentences>, mut show: impl FnMut(u32, &[u32], u32)) {
        for words in test.values().flat_map(Sentences::iter) {
            self.each(words, |context, outcome| {
                show(deal.shard_of(context.iter().copied(), outcome), context, outcome);
            });
        }
    }

    /// What the shards tell of their tokens to test on, in the order of the text.
    fn in_order(&self, deal: &Deal, test: &BTreeMap<u32, Sentences>, by_shard: Vec<(u64, Vec<f64>)>) -> Vec<f64> {
        let mut rest: BTreeMap<u64, _> = by_shard.into_iter().map(|(shard, told)| (shard, told.into_iter())).collect();
        let mut all = vec![];
        self.each_to_test(deal, test, |shard, _, _| {
            all.extend(rest.get_mut(&u64::from(shard)).and_then(Iterator::next))
        });
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::operators::route::Route;
    use crate::cluster::rng::{Generator, Purpose, generator};
    use crate::cluster::sweep::{Model, Schedule};
    use crate::restaurant::parameters::Hyperprior;

    const WORDS: u32 = 4;

    fn ngrams(depth: usize) -> Ngrams {
        Ngrams { symbols: Symbols { end: WORDS, begin: WORDS + 1 }, depth }
    }

    /// Sentences of up to seven words, some more frequent than others.
    fn sentences(count: usize, seed: u64) -> Vec<Vec<u32>> {
        use rand::RngExt;
        let mut rng = generator(seed, Purpose::Initial, 0, 0);
        let word = |rng: &mut Generator| rng.random_range(0..WORDS) * rng.random_range(0..WORDS) / (WORDS - 1);
        (0..count).map(|_| (0..rng.random_range(0..8)).map(|_| word(&mut rng)).collect()).collect()
    }

    fn schedule(shards: u32, sweeps: u64) -> Schedule {
        Schedule { shards, sweeps, sync_every: 1, evaluate_every: 1, checkpoint_every: 0 }
    }

    fn settings(ngrams: &Ngrams) -> Settings {
        Settings {
            seed: 1,
            depth: ngrams.depth,
            outcomes: ngrams.symbols.outcomes(),
            unknown: None,
            discount: 0.5,
            strength: 0.1,
            prior: Some(Hyperprior::default()),
            stop: None,
            burn_in: 10,
            sample_every: 1,
        }
    }

    /// The deal of the tokens of some sentences, and these tokens by shard.
    fn dealt(
        worker: &mut Worker,
        ngrams: &Ngrams,
        shards: u32,
        training: &[Vec<u32>],
    ) -> (Arc<Deal>, BTreeMap<u32, Tokens>) {
        let mut route = Route::new(worker, "Tokens");
        let each = |show: &mut Visit<'_>| training.iter().for_each(|words| ngrams.each(words, &mut *show));
        let deal = agree(worker, &mut route, shards, ngrams.symbols.all(), each);
        let mut shuffle = Shuffle::new(worker, &mut route, &deal, ngrams.depth, ngrams.symbols.all());
        each(&mut |context, outcome| shuffle.push(context, outcome));
        let tokens = shuffle.finish();
        (deal, tokens)
    }

    #[test]
    fn contexts_end_with_the_begin_of_a_sentence() {
        let mut tokens = vec![];
        ngrams(2).each(&[3, 1], |context, outcome| tokens.push((context.to_vec(), outcome)));
        assert_eq!(tokens, [(vec![5], 3), (vec![3, 5], 1), (vec![1, 3], 4)]);
        ngrams(2).each(&[], |context, outcome| assert_eq!((context, outcome), (&[5][..], 4)));
    }

    #[test]
    fn predictions_of_a_context_add_up_to_one() {
        let folder = tempfile::tempdir().unwrap();
        let control = Control::of_test(folder.path());
        for (depth, shards) in [(0, 1), (0, 3), (1, 1), (1, 3), (2, 3), (4, 1), (4, 3), (4, 7)] {
            let control = control.of_stage(&format!("{depth}-{shards}"));
            timely::execute_directly(move |worker| {
                let ngrams = ngrams(depth);
                let training = sentences(60, 1);
                let (deal, mut tokens) = dealt(worker, &ngrams, shards, &training);
                let seated: BTreeMap<u32, usize> =
                    tokens.iter().map(|(&shard, tokens)| (shard, tokens.count())).collect();
                // Contexts that are known, known in part, and new.
                let mut asked = vec![];
                for words in sentences(20, 2) {
                    ngrams.each(&words, |context, _| {
                        for outcome in 0..=WORDS {
                            let shard = deal.shard_of(context.iter().copied(), outcome);
                            tokens.get_mut(&shard).unwrap().push(context, outcome);
                            asked.push((context.to_vec(), shard));
                        }
                    });
                }
                let mut model = Hpylm::new(settings(&ngrams), deal);
                tokens.into_iter().for_each(|(shard, tokens)| model.add(shard, tokens, seated[&shard], false));
                let check = |model: &Hpylm, round: &Round| {
                    assert_eq!(model.fault(), None, "{depth} words, {shards} shards, after {}", round.sweep);
                };
                let (model, _) = train(worker, model, &schedule(shards, 20), &control, check).unwrap();
                let seated: u64 = (0..shards).map(|shard| model.tokens(shard)).sum();
                assert_eq!(seated as usize, training.iter().map(|words| words.len() + 1).sum::<usize>());
                let mut predictions: BTreeMap<u64, _> =
                    model.predictions(20).into_iter().map(|(shard, told)| (shard, told.into_iter())).collect();
                for of_context in asked.chunks(WORDS as usize + 1) {
                    let next = |(_, shard): &(_, u32)| predictions.get_mut(&u64::from(*shard)).unwrap().next().unwrap();
                    let sum: f64 = of_context.iter().map(next).sum();
                    assert!((sum - 1.0).abs() < 1e-9, "{sum}: {of_context:?} of {depth} words, {shards} shards");
                }
            });
        }
    }

    /// What shards of contexts tell of the text to test on comes back in its order, sentence by sentence, as that of the parser
    /// does.
    #[test]
    fn predictions_are_in_the_order_of_the_text() {
        let ngrams = ngrams(3);
        let deal = timely::execute_directly(move |worker| {
            dealt(worker, &Ngrams { symbols: Symbols { end: WORDS, begin: WORDS + 1 }, depth: 3 }, 5, &sentences(90, 5))
                .0
        });
        let mut test = BTreeMap::<u32, Sentences>::new();
        for (number, words) in (0..).zip(sentences(90, 5)) {
            test.entry(number / 32).or_default().push(words);
        }
        // Stands for p: another number for every token.
        let figure =
            |context: &[u32], outcome| context.iter().fold(f64::from(outcome), |sum, w| 7.0 * sum + f64::from(*w));
        let mut by_shard: BTreeMap<u64, Vec<f64>> = (0..5).map(|shard| (shard, vec![])).collect();
        ngrams.each_to_test(&deal, &test, |shard, context, outcome| {
            by_shard.get_mut(&u64::from(shard)).unwrap().push(figure(context, outcome));
        });
        assert!(by_shard.values().filter(|told| !told.is_empty()).count() > 3);
        let mut expected = vec![];
        for words in test.values().flat_map(Sentences::iter) {
            let before = expected.len();
            ngrams.each(words, |context, outcome| expected.push(figure(context, outcome)));
            assert_eq!(expected.len(), before + words.len() + 1);
        }
        assert_eq!(ngrams.in_order(&deal, &test, by_shard.into_iter().collect()), expected);
    }
}
