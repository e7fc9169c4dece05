//! LDA as a model of the sweep driver: shards of words, with documents that are synchronised many times in a sweep.
//!
//! ```text
//! tokens of a word            one shard ([`super::deal`]): n_kw is exact, on one worker, and is never sent in training
//! topics of a document, n_dk  kept by one worker, lent part by part ([`super::shared_documents`])
//! n_k, split words            common: everybody has them, as of the last synchronisation
//! ```
//!
//! A sweep has `syncs_per_sweep` parts, with a synchronisation after each: changes of documents go to their keepers and those
//! of what is common to one worker for each row; then keepers lend the documents of the next part, and the sums of what is
//! common go to everybody. With as many parts as shards, no two shards are ever at the same document, and what is left of the
//! approximation is that n_k, and counts of the most frequent words, are as old as the part; with one shard there is none.
//!
//! Rows of what travels: documents, then n_k, then the split words.

use std::collections::BTreeMap;
use std::ops::Range;

use super::collection::Share;
use super::counts::TopicCounts;
use super::deal::Deal;
use super::dealing::Dealing;
use super::document_counts::summed;
use super::documents::ShardDocuments;
use super::job::{EvaluationSettings, ModelSettings};
use super::left_to_right::{HeldOut, LeftToRight};
use super::log_likelihood::{WordSide, documents_ln, totals_ln};
use super::prior::{Prior, PriorStatistics};
use super::sampler::{Pass, Sampler};
use super::shared_documents::SharedDocuments;
use crate::cluster::rng::{Purpose, generator};
use crate::cluster::rows::{Rows, entries, rows};
use crate::cluster::sweep::{Model, Post};

pub struct Lda {
    seed: u64,
    settings: ModelSettings,
    evaluation: LeftToRight,
    vocabulary: usize,
    prior: Prior,
    sampler: Sampler,
    /// What has been read, until it is dealt.
    dealing: Option<Dealing>,
    deal: Deal,
    documents: SharedDocuments,
    shards: BTreeMap<u32, Shard>,
    /// n_k, and a row for each split word, as of the last synchronisation; and what has changed since: n_k, then the rows.
    common: TopicCounts,
    common_changes: Vec<i64>,
    /// Changes of documents since then.
    changes: Rows,
    /// Test documents by shard: number in the catalogue, and rows of `held_out`.
    tests: BTreeMap<u32, Vec<(u32, Vec<u32>)>>,
    /// Words that evaluation needs here, rising; and those of own shards that it needs on each worker.
    wanted: Vec<u32>,
    requests: Vec<Vec<u32>>,
    held_out: TopicCounts,
    learned: Vec<Vec<(u16, u32)>>,
}

/// A shard of words.
pub(super) struct Shard {
    pub documents: ShardDocuments,
    /// Words by row, rising.
    pub words: Vec<u32>,
    /// Rows of split words, and which of these they are.
    pub split: Vec<(u32, u32)>,
    pub counts: TopicCounts,
}

impl Shard {
    /// Words of no other shard, and their rows.
    fn whole_words(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut split = self.split.iter().map(|(row, _)| *row).peekable();
        (0..).zip(&self.words).filter(move |(row, _)| split.next_if_eq(row).is_none()).map(|(row, &word)| (word, row))
    }
}

impl Lda {
    /// The model of a worker that has read these documents. `settings` say how often shards are synchronised.
    pub fn new(
        seed: u64,
        settings: &ModelSettings,
        evaluation: &EvaluationSettings,
        vocabulary: usize,
        shards: u32,
        share: Share,
    ) -> Lda {
        let topics = settings.topics;
        let tests = share.test.values().flatten();
        let mut wanted: Vec<u32> = tests.flat_map(|(_, words)| words).copied().collect();
        wanted.sort_unstable();
        wanted.dedup();
        let row_of = |word: &u32| wanted.binary_search(word).expect("a wanted word") as u32;
        let to_rows = |(number, words): &(u32, Vec<u32>)| (*number, words.iter().map(row_of).collect());
        let tests = share.test.iter().map(|(shard, documents)| (*shard, documents.iter().map(to_rows).collect()));
        Lda {
            seed,
            settings: settings.clone(),
            evaluation: LeftToRight { particles: evaluation.particles, resample: evaluation.resample },
            vocabulary,
            prior: Prior::new(topics, settings.strength, settings.beta, vocabulary as u64),
            sampler: Sampler::new(topics),
            deal: Deal::default(),
            documents: SharedDocuments::default(),
            shards: BTreeMap::new(),
            common: TopicCounts::new(0, topics),
            common_changes: vec![],
            changes: Rows::default(),
            tests: tests.collect(),
            wanted,
            requests: vec![],
            held_out: TopicCounts::new(0, topics),
            learned: vec![],
            dealing: Some(Dealing { shards, parts: settings.rounds.parts(shards), training: share.training }),
        }
    }

    /// The same, with the counts of all words wherever it is evaluated.
    pub fn with_all_words(mut self) -> Lda {
        assert!(self.tests.is_empty(), "the rows of test documents are known");
        self.wanted = (0..self.vocabulary as u32).collect();
        self
    }

    pub fn prior(&self) -> &Prior {
        &self.prior
    }

    /// n_k.
    pub fn totals(&self) -> &[i64] {
        self.common.totals()
    }

    /// Counts of the words that evaluation needs here, as of the last one.
    pub fn held_out(&self) -> &TopicCounts {
        &self.held_out
    }

    /// Which shards tokens belong to.
    pub fn deal(&self) -> &Deal {
        &self.deal
    }

    /// By word, topics and counts, as of the end; on the first worker.
    pub fn take_learned(&mut self) -> Vec<Vec<(u16, u32)>> {
        std::mem::take(&mut self.learned)
    }

    /// Whose row of what travels a topic total or a split word is.
    fn common_row(&self, at: usize) -> u32 {
        (self.documents.count() + at) as u32
    }

    fn common_rows(&self) -> usize {
        1 + self.common.rows()
    }

    /// Notes how the common counts in a shard differ from those of the last synchronisation.
    fn note_common(&mut self, number: u32) {
        let (shard, topics) = (&self.shards[&number], self.settings.topics);
        let (of_totals, of_rows) = self.common_changes.split_at_mut(topics);
        let totals = shard.counts.totals().iter().zip(self.common.totals());
        of_totals.iter_mut().zip(totals).for_each(|(sum, (now, before))| *sum += now - before);
        for &(row, at) in &shard.split {
            let sums = &mut of_rows[at as usize * topics..][..topics];
            for (topic, sum) in sums.iter_mut().enumerate() {
                *sum += i64::from(shard.counts.get(row, topic as u16) - self.common.get(at, topic as u16));
            }
        }
    }

    /// Whether there is one shard, with nobody to synchronise with between sweeps.
    fn is_alone(&self) -> bool {
        self.documents.shards() == 1
    }

    /// Passes over the documents that a shard has in a part of a sweep.
    fn pass(&mut self, number: u32, sweep: u64, part: u32) {
        let Shard { documents, counts, .. } = self.shards.get_mut(&number).expect("an own shard");
        let mut rng = generator(self.seed, Purpose::Sweep, u64::from(number) | u64::from(part) << 32, sweep);
        let (part, base) = (self.documents.part_of(number, part), self.documents.lists());
        let mut pass = Pass { counts, documents, part, base, changes: &mut self.changes };
        self.sampler.sweep(&mut pass, &self.prior, &mut rng);
    }

    /// The rows of words in own shards, packed.
    fn pack_words(&self, words: impl IntoIterator<Item = u32>, letter: &mut Rows) {
        for word in words {
            let shard = &self.shards[&self.deal.place_of(word).expect("a word with one shard")];
            if let Ok(row) = shard.words.binary_search(&word) {
                letter.begin_row(word);
                shard.counts.row(row as u32).iter().flat_map(|block| block.0).enumerate().for_each(|(topic, count)| {
                    letter.push(topic, count);
                });
                letter.end_row();
            }
        }
    }

    /// The next part of the documents, for the shards of this worker to pass over.
    fn synchronise_for(&mut self, part: u32, post: &mut Post<'_>) {
        let (topics, peers, me) = (self.settings.topics, post.peers(), post.index());
        let mut letters = vec![Rows::default(); peers];
        self.documents.send(&mut self.changes, &mut letters);
        for at in 0..self.common_rows() {
            let changes = &self.common_changes[at * topics..][..topics];
            pack(self.common_row(at), changes, &mut letters[at % peers]);
        }
        let letters = post.exchange(letters.into_iter().map(Rows::into_words).collect());
        let documents = self.documents.count() as u32;
        self.common_changes.fill(0);
        for (row, packed) in letters.iter().flat_map(|letter| rows(letter)) {
            match row.checked_sub(documents) {
                None => self.documents.apply(row, packed),
                Some(at) => {
                    let sums = &mut self.common_changes[at as usize * topics..][..topics];
                    entries(packed).for_each(|(topic, change)| sums[topic] += i64::from(change));
                }
            }
        }
        let mut letters = vec![Rows::default(); peers];
        self.documents.lend(part, &mut letters);
        for at in (me..self.common_rows()).step_by(peers) {
            let sums = &self.common_changes[at * topics..][..topics];
            letters.iter_mut().for_each(|letter| pack(self.common_row(at), sums, letter));
        }
        self.common_changes.fill(0);
        let letters = post.exchange(letters.into_iter().map(Rows::into_words).collect());
        let common = &mut self.common;
        self.documents.borrow(&letters, |row, packed| match (row - documents).checked_sub(1) {
            None => entries(packed).for_each(|(topic, change)| common.change_total(topic, i64::from(change))),
            Some(at) => entries(packed).for_each(|(topic, change)| common.change_cell(at, topic, change)),
        });
    }
}

/// Packs a row of sums.
fn pack(row: u32, sums: &[i64], letter: &mut Rows) {
    letter.begin_row(row);
    for (topic, &sum) in sums.iter().enumerate() {
        let mut left = sum;
        while left != 0 {
            let part = left.clamp(i64::from(i32::MIN), i64::from(i32::MAX));
            letter.push(topic, part as i32);
            left -= part;
        }
    }
    letter.end_row();
}

impl Model for Lda {
    /// Topics of the shard's tokens: the words follow from the corpus.
    type Saved = Vec<u16>;
    type Shared = Prior;

    /// Deals the tokens to the shards of their words.
    fn prepare(&mut self, post: &mut Post<'_>) {
        let dealing = self.dealing.take().expect("dealt once");
        let dealt = dealing.deal(self.vocabulary, self.settings.topics, post);
        (self.deal, self.documents, self.shards) = (dealt.deal, dealt.documents, dealt.shards);
        self.common = TopicCounts::new(self.deal.split().len(), self.settings.topics);
        self.common_changes = vec![0; self.common_rows() * self.settings.topics];
        let mut letters = vec![vec![]; post.peers()];
        for &word in &self.wanted {
            if let Ok(shard) = self.deal.place_of(word) {
                letters[shard as usize % post.peers()].push(word);
            }
        }
        self.requests = post.exchange(letters);
    }

    fn phases(&self, is_first: bool) -> u32 {
        if is_first || self.is_alone() { 1 } else { self.settings.rounds.sync_every as u32 * self.documents.parts() }
    }

    fn draw_shard(&mut self, number: u32, _: u32) {
        let mut rng = generator(self.seed, Purpose::Initial, u64::from(number), 0);
        let shard = self.shards.get_mut(&number).expect("an own shard");
        shard.documents.assign_at_random(self.settings.topics, &mut rng);
    }

    fn load_shard(&mut self, number: u32, saved: Vec<u16>) -> Result<(), String> {
        let topics = self.settings.topics;
        let documents = &mut self.shards.get_mut(&number).expect("an own shard").documents;
        if saved.len() != documents.tokens() || saved.iter().any(|&topic| usize::from(topic) >= topics) {
            return Err(format!("the checkpoint of shard {number} does not fit its {} tokens", documents.tokens()));
        }
        documents.topics_mut().copy_from_slice(&saved);
        Ok(())
    }

    fn save_shard(&self, number: u32) -> Vec<u16> {
        self.shards[&number].documents.topics().to_vec()
    }

    fn count_shard(&mut self, number: u32) {
        let shard = self.shards.get_mut(&number).expect("an own shard");
        shard.counts.add_documents(&shard.documents);
        let mut topics = vec![];
        for document in 0..shard.documents.len() {
            topics.clear();
            topics.extend_from_slice(shard.documents.document(document).1);
            topics.sort_unstable();
            self.changes.begin_row(shard.documents.number(document));
            for tokens in topics.chunk_by(|a, b| a == b) {
                self.changes.push(usize::from(tokens[0]), tokens.len() as i32);
            }
            self.changes.end_row();
        }
        self.note_common(number);
    }

    fn sweep_shard(&mut self, number: u32, sweeps: Range<u64>, phase: u32) {
        self.held_out = TopicCounts::new(0, self.settings.topics);
        let Shard { counts, split, .. } = self.shards.get_mut(&number).expect("an own shard");
        counts.copy_totals(&self.common);
        split.iter().for_each(|&(row, at)| counts.copy_row(row, &self.common, at));
        if self.is_alone() {
            for sweep in sweeps {
                self.pass(number, sweep, 0);
                rows(self.changes.words()).for_each(|(document, packed)| self.documents.apply(document, packed));
                self.changes.clear();
            }
        } else {
            let parts = self.documents.parts();
            let sweep = sweeps.start + u64::from(phase / parts);
            if sweep < sweeps.end {
                self.pass(number, sweep, phase % parts); // the last sweeps may be fewer
            }
        }
        self.note_common(number);
    }

    fn synchronise(&mut self, post: &mut Post<'_>) {
        let next = post.phase().map_or(0, |phase| (phase + 1) % self.documents.parts());
        self.synchronise_for(next, post);
    }

    /// The statistics of the prior.
    fn statistics(&mut self, number: u32, sweep: u64) -> Vec<f64> {
        if !self.settings.learn_alpha {
            return vec![];
        }
        let mut rng = generator(self.seed, Purpose::Statistics, u64::from(number), sweep);
        let statistics = PriorStatistics::of_lists(self.documents.of_shard(number), &self.prior, &mut rng);
        let tables = statistics.tables.iter().map(|&tables| tables as f64);
        tables.chain([statistics.successes as f64, statistics.eta_ln]).collect()
    }

    fn learn(&mut self, statistics: &[Vec<f64>], sweep: u64) {
        if !self.settings.learn_alpha {
            return;
        }
        let topics = self.settings.topics;
        let mut sum = PriorStatistics::new(topics);
        for of_shard in statistics.iter().filter(|of_shard| !of_shard.is_empty()) {
            sum.add(&PriorStatistics {
                tables: of_shard[..topics].iter().map(|&tables| tables as u64).collect(),
                successes: of_shard[topics] as u64,
                eta_ln: of_shard[topics + 1],
            });
        }
        self.prior.redraw(&sum, &mut generator(self.seed, Purpose::Hyperparameters, sweep, 0));
    }

    /// Brings the counts of the words that evaluation needs to where it needs them.
    fn prepare_evaluation(&mut self, post: &mut Post<'_>, _: u64) {
        let mut letters = vec![Rows::default(); post.peers()];
        for (words, letter) in self.requests.iter().zip(&mut letters) {
            self.pack_words(words.iter().copied(), letter);
        }
        let letters = post.exchange(letters.into_iter().map(Rows::into_words).collect());
        self.held_out = TopicCounts::new(self.wanted.len(), self.settings.topics);
        self.held_out.copy_totals(&self.common);
        for (word, packed) in letters.iter().flat_map(|letter| rows(letter)) {
            let row = self.wanted.binary_search(&word).expect("a wanted word") as u32;
            entries(packed).for_each(|(topic, count)| self.held_out.change_cell(row, topic, count));
        }
        for (at, word) in (0..).zip(self.deal.split()) {
            if let Ok(row) = self.wanted.binary_search(&word) {
                self.held_out.copy_row(row as u32, &self.common, at);
            }
        }
    }

    /// ln p of the test documents of a shard, their words, ln p(z) of its training documents, and ln p(w | z) of the words
    /// that it has alone, all but what their topics' totals give to it.
    fn evaluate(&mut self, number: u32, sweep: u64) -> Vec<f64> {
        let mut sum = HeldOut { probability_ln: 0.0, words: 0 };
        for (document, words) in self.tests.get(&number).into_iter().flatten() {
            let mut rng = generator(self.seed, Purpose::Evaluation, u64::from(*document), sweep);
            sum.add(self.evaluation.document(&self.held_out, &self.prior, words, &mut rng));
        }
        let documents = documents_ln(self.documents.of_shard(number), &self.prior);
        let (shard, side) = (&self.shards[&number], WordSide::new(&self.prior));
        let words: f64 = shard.whole_words().map(|(_, row)| side.word_ln(shard.counts.row(row))).sum();
        vec![sum.probability_ln, sum.words as f64, documents, words]
    }

    /// The rest of ln p(w | z).
    fn snapshot(&self) -> Vec<f64> {
        let side = WordSide::new(&self.prior);
        let words: f64 = (0..self.common.rows() as u32).map(|at| side.word_ln(self.common.row(at))).sum();
        vec![totals_ln(self.common.totals(), &self.prior) + words]
    }

    /// Brings what was learned together on the first worker, which writes it.
    fn finish(&mut self, post: &mut Post<'_>) {
        let mut letters = vec![Rows::default(); post.peers()];
        for shard in self.shards.values() {
            self.pack_words(shard.whole_words().map(|(word, _)| word), &mut letters[0]);
        }
        let letters = post.exchange(letters.into_iter().map(Rows::into_words).collect());
        if post.index() != 0 {
            return;
        }
        self.learned = vec![vec![]; self.vocabulary];
        for (word, packed) in letters.iter().flat_map(|letter| rows(letter)) {
            self.learned[word as usize] = summed(packed).map(|(topic, count)| (topic as u16, count as u32)).collect();
        }
        for (at, word) in (0..).zip(self.deal.split()) {
            let counts = self.common.row(at).iter().flat_map(|block| block.0).enumerate();
            let cells = counts.filter(|(_, count)| *count > 0).map(|(topic, count)| (topic as u16, count as u32));
            self.learned[word as usize] = cells.collect();
        }
    }

    fn shared(&self) -> Prior {
        self.prior.clone()
    }

    fn set_shared(&mut self, shared: Prior) {
        self.prior = shared;
    }

    fn tokens(&self, number: u32) -> u64 {
        self.shards[&number].documents.tokens() as u64
    }
}
