//! The n-gram model to compare with: an HPYLM of the very words that the parser has learned from, with the same
//! vocabulary.

use timely::worker::Worker;

use super::job::Plan;
use super::shelf::Shelf;
use super::text::{Sentences, Text};
use crate::cluster::operators::all_gather::AllGather;
use crate::cluster::sweep::{Control, End, Round, Schedule, train};
use crate::corpus::documents::Format;
use crate::corpus::shard::shards;
use crate::corpus::text::Encoding;
use crate::corpus::tokens::Tokenisation;
use crate::error::Result;
use crate::job::corpus::{Corpus, Test};
use crate::lm::hpylm::Hpylm;
use crate::lm::job::{self as lm, Order};
use crate::lm::report::Evaluated;
use crate::lm::text::{Symbols, Tokens};
use crate::parser::treebank::Treebank;

/// What it was found to predict.
pub struct Compared {
    /// At the last evaluation.
    pub evaluated: Option<Evaluated>,
    /// p of every token to test on, by shard: the mean over samples. Nothing where there are none.
    pub predictions: Vec<f64>,
}

/// Trains it; `tell` is shown each round.
pub fn compare(
    worker: &mut Worker,
    plan: &Plan,
    treebank: &Treebank,
    text: &Text,
    control: &Control,
    mut tell: impl FnMut(&Round),
) -> Result<(End, Compared)> {
    let job = job(plan);
    let words = text.lexicon.words();
    let symbols = Symbols { end: words, begin: words + 1 };
    let (index, peers) = (worker.index(), worker.peers());
    let tokens = tokens(plan, treebank, text, symbols, |shard| shard as usize % peers == index);
    let model = Hpylm::new(&job, symbols, tokens);
    let mut evaluated = None;
    let mut predictions = AllGather::<Vec<f64>>::new(worker, "Predictions");
    let (model, end) = train(worker, model, &job.schedule, control, |_, round| {
        tell(round);
        evaluated = Evaluated::new(round).or(evaluated.take());
    })?;
    let mine = text.test.keys().filter(|&&shard| shard as usize % peers == index);
    let mine = mine.map(|&shard| (u64::from(shard), model.predictions(shard))).collect();
    let predictions = predictions.exchange(worker, mine).into_iter().flat_map(|(_, of_shard)| of_shard).collect();
    Ok((end, Compared { evaluated, predictions }))
}

/// The language-model job that it is; what it reads is given.
fn job(plan: &Plan) -> lm::Plan {
    let model = &plan.parser.model;
    lm::Plan {
        seed: plan.parser.seed,
        corpus: Corpus {
            files: vec![],
            training_files: 0,
            test: Test::Files,
            format: Format::Lines,
            encoding: Encoding::Utf8,
            tokenisation: Tokenisation::default(),
            min_count: 1,
        },
        order: Order::Fixed(plan.ngram.order),
        discount: model.discount,
        strength: model.strength,
        learn: true,
        prior: plan.parser.prior,
        burn_in: plan.ngram.burn_in,
        schedule: Schedule { sweeps: plan.ngram.sweeps, evaluate_every: 1, sync_every: 1, ..plan.parser.schedule },
    }
}

/// The tokens of the own shards: trees and raw text to train on, and text to test on.
fn tokens(plan: &Plan, treebank: &Treebank, text: &Text, symbols: Symbols, is_mine: impl Fn(u32) -> bool) -> Tokens {
    let mut tokens = Tokens::new(symbols, plan.ngram.order - 1);
    let lengths: Vec<u64> = treebank.sentences().map(|sentence| sentence.len() as u64).collect();
    let runs = shards(&lengths, plan.shards());
    let mut sentence = vec![];
    let mut push = |tokens: &mut Tokens, words: &mut dyn Iterator<Item = u32>| {
        sentence.clear();
        sentence.extend(words);
        sentence.push(symbols.end);
        tokens.push_sentence(&sentence);
    };
    for shard in (0..plan.shards()).filter(|shard| is_mine(*shard)) {
        let start = tokens.len();
        for number in runs[shard as usize].clone() {
            let words = text.lexicon.sentence(treebank, number);
            push(&mut tokens, &mut words.iter().map(|word| word.form));
        }
        let raw = text.training.get(&shard).into_iter().flat_map(Shelf::iter);
        raw.for_each(|words| push(&mut tokens, &mut words.into_iter()));
        tokens.training.insert(shard, start..tokens.len());
    }
    for shard in (0..plan.shards()).filter(|shard| is_mine(*shard)) {
        let start = tokens.len();
        let raw = text.test.get(&shard).into_iter().flat_map(Sentences::iter);
        raw.for_each(|words| push(&mut tokens, &mut words.iter().copied()));
        tokens.test.insert(shard, start..tokens.len());
    }
    tokens
}
