//! Parsing a treebank and scoring the parses, on several threads.
//!
//! Sentences are taken one by one by whoever is free; what comes out is in their order, so it does not show who parsed what.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::decode::{Decoder, Given, Parse};
use super::job::{Search, Tags};
use super::model::ParserModel;
use super::score::{Score, universal};
use super::treebank::Treebank;

/// How sentences are parsed.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub search: Search,
    pub particles: u32,
    pub tags: Tags,
    pub threads: usize,
}

/// What came out of parsing a treebank.
#[derive(Clone, Debug, Default)]
pub struct Evaluation {
    pub score: Score,
    pub seconds: f64,
    /// The mean number of derivations after a word.
    pub beam: f64,
    /// Words that the model does not know.
    pub unknown: u64,
}

impl Evaluation {
    pub fn sentences_per_second(&self) -> f64 {
        self.score.sentences as f64 / self.seconds.max(1e-9)
    }
}

/// Does `work` for all of `count` inputs on several threads; it is given what the thread has made for itself, and the number
/// of an input. Results are in the order of the inputs.
pub fn in_parallel<S, T: Send>(
    threads: usize,
    count: usize,
    start: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::with_capacity(count));
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, count.max(1)) {
            scope.spawn(|| {
                let mut own = start();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    let result = work(&mut own, number);
                    results.lock().expect("no parser panics").push((number, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no parser panics");
    results.sort_unstable_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Parses all of `count` inputs on several threads; `work` is given a decoder and the number of an input. Results are in the
/// order of the inputs.
pub fn parse_all<T: Send>(
    model: &ParserModel,
    settings: &Settings,
    count: usize,
    work: impl Fn(&mut Decoder<'_>, usize) -> T + Sync,
) -> Vec<T> {
    let decoder = || Decoder::new(model, settings.search, settings.particles);
    in_parallel(settings.threads, count, decoder, work)
}

/// Parses and scores a treebank.
pub fn evaluate(model: &ParserModel, treebank: &Treebank, settings: &Settings) -> Evaluation {
    let lexicon = &model.kept.lexicon;
    let tags: Vec<Option<u32>> = treebank.tags.iter().map(|tag| lexicon.tag(tag)).collect();
    let given = |number: usize| -> Vec<Given> {
        let words = treebank.sentence(number).iter().enumerate();
        let tag = |tag: u32| if settings.tags == Tags::Predict { None } else { tags[tag as usize] };
        words
            .map(|(place, word)| Given {
                form: lexicon.word(treebank.forms.name(word.form), place == 0),
                tag: tag(word.tag),
            })
            .collect()
    };
    let began = Instant::now();
    let parses: Vec<(Parse, u64)> = parse_all(model, settings, treebank.len(), |decoder, number| {
        let parse = decoder.parse(&given(number));
        (parse, decoder.sizes.iter().map(|&size| u64::from(size)).sum())
    });
    let mut evaluation = Evaluation { seconds: began.elapsed().as_secs_f64(), ..Evaluation::default() };
    let labels: Vec<&str> = treebank.labels.iter().map(universal).collect();
    for (number, (parse, _)) in parses.iter().enumerate() {
        evaluation.score.add(treebank.sentence(number), |place, word| {
            let label = &lexicon.labels[usize::from(parse.labels[place].0)];
            [
                parse.heads[place] == word.head,
                universal(label) == labels[word.label as usize],
                Some(parse.tags[place]) == tags[word.tag as usize],
            ]
        });
        evaluation.unknown += given(number).iter().filter(|word| lexicon.is_unknown(word.form)).count() as u64;
    }
    let is_unlabelled = lexicon.labels.iter().all(|label| label == "_");
    (evaluation.score.all.is_unlabelled, evaluation.score.no_punctuation.is_unlabelled) =
        (is_unlabelled, is_unlabelled);
    let derivations: u64 = parses.iter().map(|(_, sizes)| sizes).sum();
    evaluation.beam = derivations as f64 / (evaluation.score.all.words as f64).max(1.0);
    evaluation
}
