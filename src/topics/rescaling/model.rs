//! LDA and an HPYLM as one model of the sweep driver: everything is done to both, each as if it were alone.
//!
//! The HPYLM needs far fewer sweeps than LDA (the paper: 100 and 900), so it is swept in the last rounds only; it counts its
//! own sweeps from there, and is what a job of its own would make of as many sweeps.

use std::ops::Range;
use std::time::Instant;

use super::predict::Predictor;
use crate::cluster::rng::{Purpose, generator};
use crate::cluster::sweep::{Model, Post};
use crate::lm::text::Symbols;
use crate::topics::collection::Share;
use crate::topics::job::ModelSettings;
use crate::topics::lda::Lda;
use crate::topics::left_to_right::LeftToRight;
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
}

impl Rescaling {
    /// The model of a worker that has the documents of all shards in `share`, and owns those for which `is_mine`. The HPYLM
    /// is swept after the first `before_ngrams` sweeps.
    pub fn new(
        settings: &ModelSettings,
        setup: Setup,
        before_ngrams: u64,
        symbols: Symbols,
        share: Share,
        is_mine: impl Fn(u32) -> bool,
    ) -> Rescaling {
        let (seed, evaluation) = (setup.seed, setup.evaluation);
        let own = share.training.iter().filter(|(shard, _)| is_mine(**shard));
        let own =
            Share { training: own.map(|(shard, documents)| (*shard, documents.clone())).collect(), ..Share::default() };
        let outcomes = symbols.outcomes() as usize;
        let lda = Lda::new(seed, settings, &evaluation, outcomes, setup.shards, own).with_all_words();
        let of_ngrams = Setup::of_one_topic(Setup { seed: seed ^ NGRAM_SEED, ..setup });
        Rescaling {
            seed,
            weight: settings.weight,
            method: LeftToRight { particles: evaluation.particles, resample: evaluation.resample },
            before_ngrams,
            lda,
            ngrams: NgramModel::new(of_ngrams, symbols, share, is_mine),
        }
    }

    pub fn lda(&self) -> &Lda {
        &self.lda
    }

    pub fn ngrams(&self) -> &NgramModel {
        &self.ngrams
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
        let own = |sweep: u64| sweep.saturating_sub(self.before_ngrams);
        let own = own(sweeps.start)..own(sweeps.end);
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

    fn gather(&mut self, post: &mut Post<'_>) {
        self.lda.gather(post);
        self.ngrams.gather(post);
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

    /// ln p of the test documents, their tokens, and the seconds that it took; nothing where the HPYLM has not been swept.
    fn evaluate(&mut self, number: u32, sweep: u64) -> Vec<f64> {
        let documents = self.ngrams.test_documents(number);
        if self.own(sweep).is_none() || documents.is_empty() {
            return vec![0.0; 3];
        }
        let began = Instant::now();
        let predictor = Predictor::new(self.lda.held_out(), self.lda.prior(), &self.ngrams, self.weight, self.method);
        let (mut probability_ln, mut tokens) = (0.0, 0);
        for (document, leaves) in documents {
            let words: Vec<u32> = leaves.iter().map(|&leaf| self.ngrams.tree().outcomes[leaf as usize]).collect();
            let mut rng = generator(self.seed, Purpose::Evaluation, u64::from(*document), sweep);
            predictor.each_token(&words, leaves, &mut rng, |_, word_ln| probability_ln += word_ln);
            tokens += leaves.len();
        }
        vec![probability_ln, tokens as f64, began.elapsed().as_secs_f64()]
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
