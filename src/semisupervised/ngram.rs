//! The n-gram model to compare with: an HPYLM of the very words that the parser has learned from, with the same
//! vocabulary.
//!
//! Its tokens go to the workers whose shards their contexts are of, as those of the parser do ([`super::shuffle`]).

use std::collections::BTreeMap;

use timely::worker::Worker;

use super::hpylm::{Hpylm, Plan};
use super::run::Stages;
use super::shuffle::Shuffle;
use super::text::{Sentences, Text};
use crate::cluster::operators::all_gather::AllGather;
use crate::cluster::own::Own;
use crate::cluster::sweep::{Control, End, Round, train};
use crate::error::Result;
use crate::lm::report::Evaluated;
use crate::lm::text::Symbols;
use crate::parser::tokens::Tokens;
use crate::restaurant::franchise::shard_of;
use crate::restaurant::parameters::Parameters;

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
        let ngrams = Ngrams::new(text, self.plan.ngram.order, self.plan.shards());
        let (tokens, asked) = self.ngrams(worker, text, &ngrams);
        let plan = Plan {
            seed: self.plan.parser.seed,
            prior: (self.plan.parser.learn_every > 0).then_some(self.plan.parser.prior),
            burn_in: self.plan.ngram.burn_in,
            shards: self.plan.shards(),
            own: Own::of(worker).below(self.plan.shards()).collect(),
        };
        let model = &self.plan.parser.model;
        let parameters = Parameters::new(ngrams.depth, model.discount, model.strength);
        let model = Hpylm::new(plan, tokens, asked, parameters, 1.0 / f64::from(ngrams.symbols.outcomes()));
        let mut evaluated = vec![];
        let mut predictions = AllGather::<Vec<f64>>::new(worker, "Predictions");
        let schedule = &self.plan.comparing();
        let (model, end) = train(worker, model, schedule, control, |_, round| {
            tell(round);
            evaluated.extend(Evaluated::new(round));
        })?;
        let by_shard = predictions.exchange(worker, model.predictions(schedule.sweeps));
        Ok((end, Compared { evaluated, predictions: ngrams.in_order(&text.test, by_shard) }))
    }

    /// The tokens of the own shards, from the trees and the text of all workers; those behind the first ones are to test
    /// on: which shard each is of.
    fn ngrams(&mut self, worker: &mut Worker, text: &Text, ngrams: &Ngrams) -> (Tokens, Vec<u32>) {
        let (runs, own) = (self.runs(), Own::of(worker));
        let mut shuffle =
            Shuffle::new(worker, &mut self.letters, self.plan.shards(), ngrams.depth, ngrams.symbols.all());
        for shard in own.below(self.plan.shards()) {
            let observed = runs[shard as usize].clone().map(|number| {
                let words = text.lexicon.sentence(self.treebank, number);
                words.iter().map(|word| word.form).collect()
            });
            // What the parser learns weights from is text to learn from here.
            let tuning = text.tuning.get(&shard).into_iter().flat_map(Sentences::iter).map(<[u32]>::to_vec);
            for words in
                observed.chain(text.training.get(&shard).into_iter().flat_map(|shelf| shelf.iter())).chain(tuning)
            {
                ngrams.each(&words, |context, outcome| shuffle.push(context, outcome));
            }
        }
        let (mut tokens, mut asked) = (shuffle.finish(), vec![]);
        ngrams.each_to_test(&text.test, |shard, context, outcome| {
            if own.has(shard) {
                tokens.push(context, outcome);
                asked.push(shard);
            }
        });
        (tokens, asked)
    }
}

/// Makes tokens of sentences: words with those before them.
struct Ngrams {
    symbols: Symbols,
    depth: usize,
    shards: u32,
}

impl Ngrams {
    fn new(text: &Text, order: usize, shards: u32) -> Ngrams {
        let words = text.lexicon.words();
        Ngrams { symbols: Symbols { end: words, begin: words + 1 }, depth: order - 1, shards }
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
    fn each_to_test(&self, test: &BTreeMap<u32, Sentences>, mut show: impl FnMut(u32, &[u32], u32)) {
        for words in test.values().flat_map(Sentences::iter) {
            self.each(words, |context, outcome| show(shard_of(context.iter().copied(), self.shards), context, outcome));
        }
    }

    /// What the shards tell of their tokens to test on, in the order of the text.
    fn in_order(&self, test: &BTreeMap<u32, Sentences>, by_shard: Vec<(u64, Vec<f64>)>) -> Vec<f64> {
        let mut rest: BTreeMap<u64, _> = by_shard.into_iter().map(|(shard, told)| (shard, told.into_iter())).collect();
        let mut all = vec![];
        self.each_to_test(test, |shard, _, _| all.extend(rest.get_mut(&u64::from(shard)).and_then(Iterator::next)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::rng::{Generator, Purpose, generator};
    use crate::cluster::sweep::{Model, Schedule};
    use crate::corpus::documents::Format;
    use crate::corpus::text::Encoding;
    use crate::corpus::tokens::Tokenisation;
    use crate::job::corpus::{self, Corpus};
    use crate::lm;
    use crate::parser::tokens::Tokens;
    use crate::restaurant::parameters::Hyperprior;

    const WORDS: u32 = 4;

    fn ngrams(depth: usize, shards: u32) -> Ngrams {
        Ngrams { symbols: Symbols { end: WORDS, begin: WORDS + 1 }, depth, shards }
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

    fn hpylm(ngrams: &Ngrams, training: &[Vec<u32>], test: &[(Vec<u32>, u32)]) -> Hpylm {
        let mut tokens = Tokens::new(ngrams.depth, ngrams.symbols.all());
        training.iter().for_each(|words| ngrams.each(words, |context, outcome| tokens.push(context, outcome)));
        test.iter().for_each(|(context, outcome)| tokens.push(context, *outcome));
        let asked = test.iter().map(|(context, _)| shard_of(context.iter().copied(), ngrams.shards)).collect();
        let (own, shards) = ((0..ngrams.shards).collect(), ngrams.shards);
        let plan = Plan { seed: 1, prior: Some(Hyperprior::default()), burn_in: 10, shards, own };
        let base = 1.0 / f64::from(ngrams.symbols.outcomes());
        Hpylm::new(plan, tokens, asked, Parameters::new(ngrams.depth, 0.5, 0.1), base)
    }

    #[test]
    fn contexts_end_with_the_begin_of_a_sentence() {
        let mut tokens = vec![];
        ngrams(2, 1).each(&[3, 1], |context, outcome| tokens.push((context.to_vec(), outcome)));
        assert_eq!(tokens, [(vec![5], 3), (vec![3, 5], 1), (vec![1, 3], 4)]);
        ngrams(2, 1).each(&[], |context, outcome| assert_eq!((context, outcome), (&[5][..], 4)));
    }

    #[test]
    fn predictions_of_a_context_add_up_to_one() {
        let folder = tempfile::tempdir().unwrap();
        let control = Control::of_test(folder.path());
        for (depth, shards) in [(0, 1), (1, 1), (1, 3), (2, 3), (4, 1), (4, 3)] {
            let control = control.clone();
            timely::execute_directly(move |worker| {
                let ngrams = ngrams(depth, shards);
                let training = sentences(60, 1);
                // Contexts that are known, known in part, and new.
                let mut test = vec![];
                for words in sentences(20, 2) {
                    ngrams.each(&words, |context, _| {
                        test.extend((0..=WORDS).map(|outcome| (context.to_vec(), outcome)));
                    });
                }
                let model = hpylm(&ngrams, &training, &test);
                let check = |model: &Hpylm, _: &Round| assert_eq!(model.franchise.fault(), None);
                let (model, _) = train(worker, model, &schedule(shards, 20), &control, check).unwrap();
                let seated: u64 = (0..shards).map(|shard| model.tokens(shard)).sum();
                assert_eq!(seated as usize, training.iter().map(|words| words.len() + 1).sum::<usize>());
                for (_, predictions) in model.predictions(20) {
                    for of_context in predictions.chunks(WORDS as usize + 1) {
                        let sum: f64 = of_context.iter().sum();
                        assert!((sum - 1.0).abs() < 1e-9, "{of_context:?} of {depth} words, {shards} shards");
                    }
                }
            });
        }
    }

    /// What shards of contexts tell of the text to test on comes back in its order, sentence by sentence, as that of the parser
    /// does.
    #[test]
    fn predictions_are_in_the_order_of_the_text() {
        let ngrams = ngrams(3, 5);
        let mut test = BTreeMap::<u32, Sentences>::new();
        for (number, words) in (0..).zip(sentences(90, 5)) {
            test.entry(number / 32).or_default().push(words);
        }
        // Stands for p: another number for every token.
        let figure =
            |context: &[u32], outcome| context.iter().fold(f64::from(outcome), |sum, w| 7.0 * sum + f64::from(*w));
        let mut by_shard: BTreeMap<u64, Vec<f64>> = (0..5).map(|shard| (shard, vec![])).collect();
        ngrams.each_to_test(&test, |shard, context, outcome| {
            by_shard.get_mut(&u64::from(shard)).unwrap().push(figure(context, outcome));
        });
        assert!(by_shard.values().filter(|told| !told.is_empty()).count() > 3);
        let mut expected = vec![];
        for words in test.values().flat_map(Sentences::iter) {
            let before = expected.len();
            ngrams.each(words, |context, outcome| expected.push(figure(context, outcome)));
            assert_eq!(expected.len(), before + words.len() + 1);
        }
        assert_eq!(ngrams.in_order(&test, by_shard.into_iter().collect()), expected);
    }

    /// The language-model job with the same settings.
    fn plan(order: usize, schedule: Schedule) -> lm::job::Plan {
        lm::job::Plan {
            seed: 1,
            corpus: Corpus {
                files: vec![],
                training_files: 0,
                test: corpus::Test::Files,
                format: Format::Lines,
                encoding: Encoding::Utf8,
                tokenisation: Tokenisation::default(),
                min_count: 1,
            },
            order: lm::job::Order::Fixed(order),
            discount: 0.5,
            strength: 0.1,
            learn: true,
            prior: Hyperprior::default(),
            burn_in: 10,
            schedule,
        }
    }

    /// Contexts are cut here, and not there; everything else is the same model.
    #[test]
    fn it_predicts_what_the_language_model_does() {
        let folder = tempfile::tempdir().unwrap();
        let control = Control::of_test(folder.path());
        timely::execute_directly(move |worker| {
            let (ngrams, schedule) = (ngrams(3, 1), schedule(1, 4_000));
            let (training, asked) = (sentences(40, 3), sentences(20, 4));
            let mut test = vec![];
            for words in &asked {
                ngrams.each(words, |context, outcome| test.push((context.to_vec(), outcome)));
            }
            let mut tokens = lm::text::Tokens::new(ngrams.symbols, ngrams.depth);
            for (sentences, is_test) in [(&training, false), (&asked, true)] {
                let start = tokens.len();
                for words in sentences {
                    tokens.push_sentence(&[words.as_slice(), &[ngrams.symbols.end]].concat());
                }
                let range = start..tokens.len();
                if is_test { &mut tokens.test } else { &mut tokens.training }.insert(0, range);
            }
            let mut last = [None, None];
            let model = hpylm(&ngrams, &training, &test);
            train(worker, model, &schedule, &control.of_stage("own"), |_, round| last[0] = Evaluated::new(round))
                .unwrap();
            let model = lm::hpylm::Hpylm::new(&plan(4, schedule.clone()), ngrams.symbols, tokens);
            train(worker, model, &schedule, &control.of_stage("lm"), |_, round| last[1] = Evaluated::new(round))
                .unwrap();
            let [own, other] = last.map(|evaluated| evaluated.unwrap().perplexity().unwrap());
            assert!((own / other - 1.0).abs() < 0.005, "{own} and {other}");
        });
    }
}
