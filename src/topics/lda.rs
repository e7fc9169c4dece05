//! LDA as a model of the sweep driver: a worker's documents, and the word-by-topic counts of the words that occur in
//! them. Rows of the table are vocabulary ids; one more row, V, has the topic totals.

use std::collections::BTreeMap;
use std::ops::Range;

use super::collection::Share;
use super::counts::TopicCounts;
use super::delta::{Change, Delta};
use super::documents::ShardDocuments;
use super::job::{EvaluationSettings, ModelSettings};
use super::left_to_right::{HeldOut, LeftToRight};
use super::log_likelihood::{WordSide, documents_ln, totals_ln};
use super::prior::{Prior, PriorStatistics};
use super::sampler::Sampler;
use crate::cluster::rng::{Purpose, generator};
use crate::cluster::rows::{Rows, entries, rows};
use crate::cluster::sweep::{Model, Post};

/// Stands for words that this worker does not hold.
const NOT_HELD: u32 = u32::MAX;

pub struct Lda {
    seed: u64,
    settings: ModelSettings,
    evaluation: LeftToRight,
    prior: Prior,
    counts: TopicCounts,
    sampler: Sampler,
    /// Vocabulary ids of the rows, rising; and the row of each id.
    ids: Vec<u32>,
    row_of: Vec<u32>,
    shards: BTreeMap<u32, ShardDocuments>,
    /// Test documents by shard: number in the catalogue, and rows.
    tests: BTreeMap<u32, Vec<(u32, Vec<u32>)>>,
    pending: Delta,
    scratch: Vec<Change>,
}

impl Lda {
    /// The model of a worker with these documents. `holds_all`: whether it keeps the counts of every word, as the one
    /// that writes the result does.
    pub fn new(
        seed: u64,
        settings: &ModelSettings,
        evaluation: &EvaluationSettings,
        vocabulary: usize,
        share: Share,
        holds_all: bool,
    ) -> Lda {
        let mut row_of = vec![if holds_all { 0 } else { NOT_HELD }; vocabulary];
        let documents = share.training.values().chain(share.test.values()).flatten();
        documents.flat_map(|(_, words)| words).for_each(|&word| row_of[word as usize] = 0);
        let ids: Vec<u32> = (0..vocabulary as u32).filter(|&id| row_of[id as usize] != NOT_HELD).collect();
        (0..).zip(&ids).for_each(|(row, &id)| row_of[id as usize] = row);
        let to_rows = |words: Vec<u32>| -> Vec<u32> { words.into_iter().map(|word| row_of[word as usize]).collect() };
        let tests = share.test.into_iter().map(|(shard, documents)| {
            (shard, documents.into_iter().map(|(number, words)| (number, to_rows(words))).collect())
        });
        let tests = tests.collect();
        let shards = share.training.into_iter().map(|(shard, documents)| {
            let mut of_shard = ShardDocuments::default();
            documents.into_iter().for_each(|(_, words)| of_shard.push(to_rows(words)));
            (shard, of_shard)
        });
        let shards = shards.collect();
        Lda {
            seed,
            settings: settings.clone(),
            evaluation: LeftToRight { particles: evaluation.particles, resample: evaluation.resample },
            prior: Prior::new(settings.topics, settings.strength, settings.beta, vocabulary as u64),
            counts: TopicCounts::new(ids.len(), settings.topics),
            sampler: Sampler::new(settings.topics),
            ids,
            row_of,
            shards,
            tests,
            pending: Delta { changes: vec![], totals: vec![0; settings.topics] },
            scratch: vec![],
        }
    }

    pub fn prior(&self) -> &Prior {
        &self.prior
    }

    /// Rows are the words held, by id.
    pub fn counts(&self) -> &TopicCounts {
        &self.counts
    }

    /// Counts of a word by topic; for a worker that holds all.
    pub fn word_counts(&self, id: u32) -> impl Iterator<Item = i32> + '_ {
        let row = self.row_of[id as usize];
        (0..self.settings.topics as u16).map(move |topic| self.counts.get(row, topic))
    }

    pub fn totals(&self) -> &[i64] {
        self.counts.totals()
    }

    /// The word side of ln p(w, z); for a worker that holds all.
    pub fn words_ln(&self) -> f64 {
        let side = WordSide::new(&self.prior);
        let words: f64 = (0..self.ids.len() as u32).map(|row| side.word_ln(self.counts.row(row))).sum();
        words + totals_ln(self.counts.totals(), &self.prior)
    }

    fn shard(&mut self, number: u32) -> &mut ShardDocuments {
        self.shards.entry(number).or_default()
    }

    /// Adds the changes of another shard to what is noted.
    fn note(&mut self, delta: Delta) {
        self.pending.totals.iter_mut().zip(&delta.totals).for_each(|(sum, change)| *sum += change);
        self.pending.changes = match self.pending.changes.is_empty() {
            true => delta.changes,
            false => merged(&self.pending.changes, &delta.changes),
        };
    }

    /// What the own shards have noted, packed.
    fn take_changes(&mut self) -> Rows {
        let mut packed = Rows::default();
        for row in self.pending.changes.chunk_by(|a, b| a.row == b.row) {
            packed.begin_row(self.ids[row[0].row as usize]);
            row.iter().for_each(|change| packed.push(usize::from(change.topic), change.by));
            packed.end_row();
        }
        packed.begin_row(self.row_of.len() as u32);
        for (topic, &change) in self.pending.totals.iter().enumerate() {
            packed.push(topic, change as i32);
        }
        packed.end_row();
        self.pending.changes.clear();
        self.pending.totals.fill(0);
        packed
    }

    /// Takes the changes of all workers, packed.
    fn apply(&mut self, changes: &[u32]) {
        let totals_row = self.row_of.len() as u32;
        for (id, packed) in rows(changes) {
            if id == totals_row {
                let mut totals = vec![0; self.settings.topics];
                entries(packed).for_each(|(topic, change)| totals[topic] += i64::from(change));
                self.counts.apply_totals(&totals);
            } else {
                let row = self.row_of[id as usize];
                self.scratch.clear();
                self.scratch.extend(entries(packed).map(|(topic, by)| Change { row, topic: topic as u16, by }));
                self.counts.apply(&self.scratch);
            }
        }
    }
}

/// Two lists of changes, sorted by row and topic, as one.
fn merged(left: &[Change], right: &[Change]) -> Vec<Change> {
    let key = |change: &Change| (change.row, change.topic);
    let mut out = Vec::with_capacity(left.len() + right.len());
    let (mut i, mut j) = (0, 0);
    while i < left.len() && j < right.len() {
        let (a, b) = (left[i], right[j]);
        match key(&a).cmp(&key(&b)) {
            std::cmp::Ordering::Less => {
                out.push(a);
                i += 1;
            }
            std::cmp::Ordering::Greater => {
                out.push(b);
                j += 1;
            }
            std::cmp::Ordering::Equal => {
                if a.by + b.by != 0 {
                    out.push(Change { by: a.by + b.by, ..a });
                }
                i += 1;
                j += 1;
            }
        }
    }
    out.extend_from_slice(&left[i..]);
    out.extend_from_slice(&right[j..]);
    out
}

impl Model for Lda {
    /// Topics of the shard's tokens: the words follow from the corpus.
    type Saved = Vec<u16>;
    type Shared = Prior;

    fn table(&self) -> Option<(u32, usize, Vec<u32>)> {
        let totals = self.row_of.len() as u32;
        Some((totals + 1, self.settings.topics, self.ids.iter().copied().chain([totals]).collect()))
    }

    fn draw_shard(&mut self, number: u32, _: u32) {
        let mut rng = generator(self.seed, Purpose::Initial, u64::from(number), 0);
        let topics = self.settings.topics;
        self.shard(number).assign_at_random(topics, &mut rng);
    }

    fn load_shard(&mut self, number: u32, saved: Vec<u16>) -> Result<(), String> {
        let topics = self.settings.topics;
        let documents = self.shard(number);
        if saved.len() != documents.tokens() || saved.iter().any(|&topic| usize::from(topic) >= topics) {
            return Err(format!("the checkpoint of shard {number} does not fit its {} tokens", documents.tokens()));
        }
        documents.topics_mut().copy_from_slice(&saved);
        Ok(())
    }

    fn save_shard(&self, number: u32) -> Vec<u16> {
        self.shards.get(&number).map_or(vec![], |documents| documents.topics().to_vec())
    }

    fn count_shard(&mut self, number: u32) {
        let topics = self.settings.topics;
        let documents = self.shard(number);
        let mut cells: Vec<(u32, u16)> =
            documents.words().iter().copied().zip(documents.topics().iter().copied()).collect();
        cells.sort_unstable();
        let mut delta = Delta { changes: vec![], totals: vec![0; topics] };
        for cell in cells.chunk_by(|a, b| a == b) {
            let (row, topic) = cell[0];
            delta.changes.push(Change { row, topic, by: cell.len() as i32 });
            delta.totals[usize::from(topic)] += cell.len() as i64;
        }
        self.note(delta);
    }

    fn sweep_shard(&mut self, number: u32, sweeps: Range<u64>, _: u32) {
        let Some(mut documents) = self.shards.remove(&number) else { return };
        let before = documents.topics().to_vec();
        for sweep in sweeps {
            let mut rng = generator(self.seed, Purpose::Sweep, u64::from(number), sweep);
            self.sampler.sweep(&mut self.counts, &mut documents, &self.prior, &mut rng);
        }
        let delta = Delta::new(self.settings.topics, &before, &mut documents);
        delta.roll_back(&mut self.counts);
        self.shards.insert(number, documents);
        self.note(delta);
    }

    fn synchronise(&mut self, post: &mut Post<'_>) {
        let changes = self.take_changes();
        post.merge(changes).iter().for_each(|block| self.apply(block));
    }

    /// The statistics of the prior, then ln p(z) of the shard.
    fn statistics(&mut self, number: u32, sweep: u64) -> Vec<f64> {
        let Some(documents) = self.shards.get(&number) else { return vec![] };
        if !self.settings.learn_alpha {
            return vec![];
        }
        let mut rng = generator(self.seed, Purpose::Statistics, u64::from(number), sweep);
        let statistics = PriorStatistics::of_shard(documents, &self.prior, &mut rng);
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

    /// ln p of the test documents, their words, and ln p(z) of the training documents.
    fn evaluate(&mut self, number: u32, sweep: u64) -> Vec<f64> {
        let mut sum = HeldOut { probability_ln: 0.0, words: 0 };
        for (document, words) in self.tests.get(&number).into_iter().flatten() {
            let mut rng = generator(self.seed, Purpose::Evaluation, u64::from(*document), sweep);
            sum.add(self.evaluation.document(&self.counts, &self.prior, words, &mut rng));
        }
        let training = self.shards.get(&number).map_or(0.0, |documents| documents_ln(documents, &self.prior));
        vec![sum.probability_ln, sum.words as f64, training]
    }

    /// The word side of ln p(w, z), by a worker that holds all.
    fn snapshot(&self) -> Vec<f64> {
        vec![if self.ids.len() == self.row_of.len() { self.words_ln() } else { 0.0 }]
    }

    fn shared(&self) -> Prior {
        self.prior.clone()
    }

    fn set_shared(&mut self, shared: Prior) {
        self.prior = shared;
    }

    fn tokens(&self, number: u32) -> u64 {
        self.shards.get(&number).map_or(0, |documents| documents.tokens() as u64)
    }
}
