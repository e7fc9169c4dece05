//! LDA and an HPYLM as one model of the sweep driver: everything is done to both, each as if it were alone.
//!
//! The HPYLM needs far fewer sweeps than LDA (the paper: 100 and 900), so it is swept in the last rounds only; it counts its
//! own sweeps from there, and is what a job of its own would make of as many sweeps.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

use super::back_off::BackOff;
use super::predict::Predictor;
use crate::cluster::gather::Exchange;
use crate::cluster::rng::{Purpose, generator};
use crate::cluster::sweep::{Model, Post};
use crate::lm::text::Symbols;
use crate::topics::collection::Share;
use crate::topics::job::ModelSettings;
use crate::topics::lda::Lda;
use crate::topics::left_to_right::LeftToRight;
use crate::topics::ngram::dealt::Dealt;
use crate::topics::ngram::model::{NgramModel, Setup};

/// Keeps the draws of the two apart.
pub(super) const NGRAM_SEED: u64 = 0x6e67_7261_6d73;

pub struct Rescaling {
    seed: u64,
    weight: f64,
    method: LeftToRight,
    /// The last sweep before the first one of the HPYLM.
    before_ngrams: u64,
    lda: Lda,
    ngrams: NgramModel,
    symbols: Symbols,
    /// The own test documents by shard: number in the catalogue, and words.
    tests: BTreeMap<u32, Vec<(u32, Vec<u32>)>>,
    /// By own shard, what was evaluated last.
    evaluated: BTreeMap<u32, Vec<f64>>,
}

impl Rescaling {
    /// The sweeps of the n-gram model, which begin later.
    fn ngram_sweeps(&self, sweeps: &Range<u64>) -> Range<u64> {
        let own = |sweep: u64| sweep.saturating_sub(self.before_ngrams);
        own(sweeps.start)..own(sweeps.end)
    }

    /// The model of a worker whose documents are in `share`, and whose shards have the tokens in `dealt`. The HPYLM is swept after
    /// the first `before_ngrams` sweeps.
    pub fn new(
        settings: &ModelSettings,
        setup: Setup,
        before_ngrams: u64,
        symbols: Symbols,
        share: Share,
        dealt: Dealt,
    ) -> Rescaling {
        let (seed, evaluation) = (setup.seed, setup.evaluation);
        let own = Share { training: share.training, ..Share::default() };
        let outcomes = symbols.outcomes() as usize;
        let lda = Lda::new(seed, settings, &evaluation, outcomes, setup.shards, own).with_all_words();
        let of_ngrams = Setup::of_one_topic(Setup { seed: seed ^ NGRAM_SEED, ..setup });
        Rescaling {
            seed,
            weight: settings.weight,
            method: LeftToRight { particles: evaluation.particles, resample: evaluation.resample },
            before_ngrams,
            lda,
            ngrams: NgramModel::new(of_ngrams, symbols, dealt),
            tests: share.test,
            symbols,
            evaluated: BTreeMap::new(),
        }
    }

    pub fn lda(&self) -> &Lda {
        &self.lda
    }

    pub fn ngrams(&self) -> &NgramModel {
        &self.ngrams
    }

    /// Evaluates the own test documents. Every worker calls this.
    pub fn predict(&mut self, exchange: Exchange<'_>, sweep: u64) {
        let tests: Vec<&[u32]> = self.tests.values().flatten().map(|(_, words)| words.as_slice()).collect();
        let (ngrams, leaves) = BackOff::gather(&self.ngrams, self.symbols, &tests, exchange);
        let began = Instant::now();
        let predictor = Predictor::new(self.lda.held_out(), self.lda.prior(), ngrams, self.weight, self.method);
        let mut leaves = leaves.as_slice();
        for (&shard, documents) in &self.tests {
            let (mut probability_ln, mut tokens) = (0.0, 0);
            for (document, words) in documents {
                let own = leaves.split_off(..words.len()).expect("a leaf for every word");
                let mut rng = generator(self.seed, Purpose::Evaluation, u64::from(*document), sweep);
                predictor.each_token(words, own, &mut rng, |_, word_ln| probability_ln += word_ln);
                tokens += words.len();
            }
            self.evaluated.insert(shard, vec![probability_ln, tokens as f64, 0.0]);
        }
        if let Some(mut first) = self.evaluated.first_entry() {
            first.get_mut()[2] = began.elapsed().as_secs_f64();
        }
    }

    /// The HPYLM's own number of a sweep; none where it has not begun.
    fn own(&self, sweep: u64) -> Option<u64> {
        sweep.checked_sub(self.before_ngrams).filter(|&own| own > 0)
    }
}

impl Model for Rescaling {
    type Saved = (<Lda as Model>::Saved, <NgramModel as Model>::Saved);
    type Shared = (<Lda as Model>::Shared, <NgramModel as Model>::Shared);

    fn prepare(&mut self, post: &mut Post<'_>) {
        self.lda.prepare(post);
        self.ngrams.prepare(post);
    }

    fn begin_sweeps(&mut self, sweeps: &Range<u64>) {
        self.lda.begin_sweeps(sweeps);
        self.ngrams.begin_sweeps(&self.ngram_sweeps(sweeps));
    }

    /// As many as the one with more of them; the other does nothing in the last ones.
    fn phases(&self, is_first: bool) -> u32 {
        self.lda.phases(is_first).max(self.ngrams.phases(is_first))
    }

    fn draw_shard(&mut self, number: u32, phase: u32) {
        if phase < self.lda.phases(true) {
            self.lda.draw_shard(number, phase);
        }
        if phase < self.ngrams.phases(true) {
            self.ngrams.draw_shard(number, phase);
        }
    }

    fn load_shard(&mut self, number: u32, saved: Self::Saved) -> Result<(), String> {
        self.lda.load_shard(number, saved.0)?;
        self.ngrams.load_shard(number, saved.1)
    }

    fn save_shard(&self, number: u32) -> Self::Saved {
        (self.lda.save_shard(number), self.ngrams.save_shard(number))
    }

    fn count_shard(&mut self, number: u32) {
        self.lda.count_shard(number);
        self.ngrams.count_shard(number);
    }

    fn sweep_shard(&mut self, number: u32, sweeps: Range<u64>, phase: u32) {
        if phase < self.lda.phases(false) {
            self.lda.sweep_shard(number, sweeps.clone(), phase);
        }
        let own = self.ngram_sweeps(&sweeps);
        if !own.is_empty() && phase < self.ngrams.phases(false) {
            self.ngrams.sweep_shard(number, own, phase);
        }
    }

    fn synchronise(&mut self, post: &mut Post<'_>) {
        let phase = post.phase();
        if phase.is_none_or(|phase| phase < self.lda.phases(false)) {
            self.lda.synchronise(post);
        }
        if phase.is_none_or(|phase| phase < self.ngrams.phases(false)) {
            self.ngrams.synchronise(post);
        }
    }

    fn finish(&mut self, post: &mut Post<'_>) {
        self.ngrams.finish(post);
    }

    /// Those of LDA, and behind them those of the HPYLM, after the number of the former.
    fn statistics(&mut self, number: u32, sweep: u64) -> Vec<f64> {
        let mut figures = self.lda.statistics(number, sweep);
        figures.insert(0, figures.len() as f64);
        if let Some(own) = self.own(sweep) {
            figures.extend(self.ngrams.statistics(number, own));
        }
        figures
    }

    fn learn(&mut self, statistics: &[Vec<f64>], sweep: u64) {
        let parts = |of_shard: &Vec<f64>| {
            let (of_lda, of_ngrams) = of_shard[1..].split_at(of_shard[0] as usize);
            (of_lda.to_vec(), of_ngrams.to_vec())
        };
        let (of_lda, of_ngrams): (Vec<_>, Vec<_>) = statistics.iter().map(parts).unzip();
        self.lda.learn(&of_lda, sweep);
        if let Some(own) = self.own(sweep) {
            self.ngrams.learn(&of_ngrams, own);
        }
    }

    fn prepare_evaluation(&mut self, post: &mut Post<'_>, sweep: u64) {
        self.lda.prepare_evaluation(post, sweep);
        if self.own(sweep).is_some() {
            self.predict(&mut |messages| post.exchange(messages), sweep);
        }
    }

    /// ln p of the test documents, their tokens, and the seconds that it took, nothing before the HPYLM is swept; then its
    /// sizes.
    fn evaluate(&mut self, number: u32, _: u64) -> Vec<f64> {
        let mut figures = self.evaluated.remove(&number).unwrap_or_else(|| vec![0.0; 3]);
        figures.extend(self.ngrams.sizes(number));
        figures
    }

    /// What the HPYLM tells.
    fn snapshot(&self) -> Vec<f64> {
        self.ngrams.snapshot()
    }

    fn shared(&self) -> Self::Shared {
        (self.lda.shared(), self.ngrams.shared())
    }

    fn set_shared(&mut self, shared: Self::Shared) {
        self.lda.set_shared(shared.0);
        self.ngrams.set_shared(shared.1);
    }

    fn tokens(&self, number: u32) -> u64 {
        self.lda.tokens(number)
    }
}
