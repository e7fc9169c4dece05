//! The two ways in which workers share the work, as models of the sweep driver. A sweep is one iteration of the chains that
//! are due.
//!
//! - [`Restarts`]: a shard has some groups of restarts and takes them through all of their iterations alone. Nothing travels
//!   but, at the end, the best grammars and the figures.
//! - [`BySentences`]: a shard has some sentences, all chains are everywhere, and expectations are added up in shard order
//!   after every iteration.
//!
//! Expectations are sums by shard of sentences, added up in shard order, in both: so both give the same bits.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::evaluate::{Figures, Judge};
use super::job::Spread;
use super::pass::{Expectation, Passer, Weights};
use super::queue::{Finished, Phase, Queue};
use super::sentences::Sentences;
use super::setup::Setup;
use crate::cluster::sweep::{Model, Post};

/// What a pass over some sentences found for the chains that are due: expectations, and the likelihood of held-out ones.
type Found = (Vec<Expectation>, Vec<f64>);

/// The weights of the chains that are due, for training and for held-out sentences.
struct Due {
    weights: Vec<Weights>,
    points: Vec<Weights>,
}

impl Due {
    fn new(queue: &Queue, phase: Phase, setup: &Setup) -> Due {
        let shape = Queue::shape(phase, setup);
        let chains = queue.chains(phase);
        let has_heldout = phase == Phase::Old && !setup.heldout.is_empty();
        let points = chains.iter().filter(|_| has_heldout);
        Due {
            weights: chains.iter().map(|chain| chain.weights(shape)).collect(),
            points: points.map(|chain| chain.point_weights(shape, setup.estimation.method)).collect(),
        }
    }

    /// Passes over a shard of sentences.
    fn pass(&self, phase: Phase, setup: &Setup, shard: usize, passer: &mut Passer) -> Found {
        let setting = Queue::setting(phase, setup);
        let weights: Vec<&Weights> = self.weights.iter().collect();
        let found = passer.expect(setting, &weights, &setup.sentences(phase)[shard]);
        let points: Vec<&Weights> = self.points.iter().collect();
        let heldout =
            if points.is_empty() { vec![] } else { passer.likelihood(setting, &points, &setup.heldout[shard]) };
        (found, heldout)
    }
}

/// Adds what was found in one more shard.
fn add(sum: &mut Option<Found>, found: Found) {
    match sum {
        None => *sum = Some(found),
        Some((expectations, heldout)) => {
            expectations.iter_mut().zip(&found.0).for_each(|(sum, found)| sum.add(found));
            heldout.iter_mut().zip(&found.1).for_each(|(sum, found)| *sum += found);
        }
    }
}

/// What both ways have.
pub struct Common {
    setup: Arc<Setup>,
    judge: Judge,
    passer: Passer,
    /// Sentences and words passed over since they were last asked for, each once for each chain.
    passes: [u64; 2],
}

impl Common {
    pub fn new(setup: Arc<Setup>, judge: Judge) -> Common {
        Common { setup, judge, passer: Passer::default(), passes: [0, 0] }
    }

    fn note(&mut self, sentences: &Sentences, chains: usize) {
        self.passes[0] += sentences.sentences() * chains as u64;
        self.passes[1] += sentences.words() * chains as u64;
    }
}

/// Groups of restarts by shard.
pub struct Restarts {
    common: Common,
    queues: BTreeMap<u32, Queue>,
    /// For each run, the shard that has its best grammar.
    owners: Vec<usize>,
    is_done: bool,
    /// Words passed over in a sweep, by shard.
    words: BTreeMap<u32, u64>,
}

impl Restarts {
    pub fn new(common: Common) -> Restarts {
        assert_eq!(common.setup.estimation.spread, Spread::Restarts);
        Restarts { common, queues: BTreeMap::new(), owners: vec![], is_done: false, words: BTreeMap::new() }
    }

    fn iterate(&mut self, number: u32) {
        let setup = self.common.setup.clone();
        let queue = self.queues.get_mut(&number).expect("an own shard");
        let Some(phase) = queue.prepare(&setup) else { return };
        let due = Due::new(queue, phase, &setup);
        let mut sum = None;
        for shard in 0..setup.sentences(phase).len() {
            add(&mut sum, due.pass(phase, &setup, shard, &mut self.common.passer));
            self.common.note(&setup.sentences(phase)[shard], due.weights.len());
        }
        let (found, heldout) = sum.expect("there are shards");
        queue.settle(phase, &setup, &mut self.common.judge, &found, &heldout);
    }
}

impl Model for Restarts {
    type Saved = Queue;
    type Shared = ();

    fn draw_shard(&mut self, number: u32, _: u32) {
        let all = self.common.setup.estimation.all_groups();
        let shards = self.common.setup.sentences(Phase::Old).len() as u32;
        let groups = (0..all).filter(|group| group % shards == number).collect();
        self.queues.insert(number, Queue::new(groups));
    }

    fn load_shard(&mut self, number: u32, saved: Queue) -> Result<(), String> {
        saved.check(&self.common.setup)?;
        self.queues.insert(number, saved);
        Ok(())
    }

    fn save_shard(&self, number: u32) -> Queue {
        self.queues[&number].clone()
    }

    fn count_shard(&mut self, _: u32) {}

    fn sweep_shard(&mut self, number: u32, sweeps: Range<u64>, _: u32) {
        let before = self.common.passes[1];
        let count = (sweeps.end - sweeps.start).max(1);
        sweeps.for_each(|_| self.iterate(number));
        self.words.insert(number, (self.common.passes[1] - before) / count);
    }

    fn synchronise(&mut self, _: &mut Post<'_>) {}

    /// Whether the shard is done, the sentences that it passed over, and the free energy of its best grammar of each run.
    fn statistics(&mut self, number: u32, _: u64) -> Vec<f64> {
        let setup = &self.common.setup;
        let queue = &self.queues[&number];
        let mut figures = vec![f64::from(u8::from(queue.is_done(setup))), self.common.passes[0] as f64];
        self.common.passes = [0, 0];
        let best = |run| queue.best.get(&run).map_or(f64::INFINITY, |chain| chain.free_energy);
        figures.extend((0..setup.estimation.runs).map(best));
        figures
    }

    fn learn(&mut self, statistics: &[Vec<f64>], _: u64) {
        self.is_done = statistics.iter().all(|of_shard| of_shard[0] == 1.0);
        let owner = |run: usize| {
            let shards = 0..statistics.len();
            shards.min_by(|&a, &b| statistics[a][2 + run].total_cmp(&statistics[b][2 + run])).unwrap_or(0)
        };
        self.owners = (0..self.common.setup.estimation.runs as usize).map(owner).collect();
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn evaluate(&mut self, number: u32, _: u64) -> Vec<f64> {
        let is_mine = |run: u32| self.owners.get(run as usize) == Some(&(number as usize));
        outcome(&self.queues[&number], &self.common.setup, is_mine)
    }

    fn shared(&self) {}
    fn set_shared(&mut self, _: ()) {}

    fn tokens(&self, number: u32) -> u64 {
        self.words.get(&number).copied().unwrap_or(0)
    }
}

/// Sentences by shard.
pub struct BySentences {
    common: Common,
    queue: Queue,
    found: BTreeMap<u32, Found>,
    /// The weights of this iteration, made when the first shard asks for them.
    due: Option<(Phase, Due)>,
}

impl BySentences {
    pub fn new(common: Common) -> BySentences {
        let groups = (0..common.setup.estimation.all_groups()).collect();
        BySentences { common, queue: Queue::new(groups), found: BTreeMap::new(), due: None }
    }
}

impl Model for BySentences {
    type Saved = ();
    type Shared = Queue;

    fn draw_shard(&mut self, _: u32, _: u32) {}

    fn load_shard(&mut self, _: u32, (): ()) -> Result<(), String> {
        Ok(())
    }

    fn save_shard(&self, _: u32) {}
    fn count_shard(&mut self, _: u32) {}

    fn sweep_shard(&mut self, number: u32, _: Range<u64>, _: u32) {
        let setup = self.common.setup.clone();
        if self.due.is_none() {
            self.due = self.queue.prepare(&setup).map(|phase| (phase, Due::new(&self.queue, phase, &setup)));
        }
        if let Some((phase, due)) = &self.due {
            let found = due.pass(*phase, &setup, number as usize, &mut self.common.passer);
            self.common.note(&setup.sentences(*phase)[number as usize], found.0.len());
            self.found.insert(number, found);
        }
    }

    fn synchronise(&mut self, _: &mut Post<'_>) {}

    /// Sentences passed over, chains, held-out likelihoods; then each chain's likelihood and expected uses.
    fn statistics(&mut self, number: u32, _: u64) -> Vec<f64> {
        let passes = std::mem::take(&mut self.common.passes)[0] as f64;
        let Some((expectations, heldout)) = self.found.remove(&number) else { return vec![passes, 0.0, 0.0] };
        let mut figures = vec![passes, expectations.len() as f64, heldout.len() as f64];
        figures.extend(&heldout);
        for found in &expectations {
            figures.push(found.ln_likelihood);
            figures.extend(&found.uses);
        }
        figures
    }

    fn learn(&mut self, statistics: &[Vec<f64>], _: u64) {
        let setup = self.common.setup.clone();
        // A worker without shards has not asked.
        let Some(phase) = self.queue.prepare(&setup) else { return };
        self.due = None;
        let size = Queue::shape(phase, &setup).uses() + 1;
        let mut sum = None;
        for figures in statistics {
            let (chains, heldout) = (figures[1] as usize, figures[2] as usize);
            let (likelihoods, rest) = figures[3..].split_at(heldout);
            let expectations = rest.chunks(size).take(chains);
            let expectations =
                expectations.map(|chunk| Expectation { ln_likelihood: chunk[0], uses: chunk[1..].to_vec() });
            add(&mut sum, (expectations.collect(), likelihoods.to_vec()));
        }
        let (found, heldout) = sum.expect("there are shards");
        self.queue.settle(phase, &setup, &mut self.common.judge, &found, &heldout);
    }

    fn is_done(&self) -> bool {
        self.queue.is_done(&self.common.setup)
    }

    fn evaluate(&mut self, number: u32, _: u64) -> Vec<f64> {
        match number {
            0 => outcome(&self.queue, &self.common.setup, |_| true),
            _ => vec![],
        }
    }

    fn shared(&self) -> Queue {
        self.queue.clone()
    }

    fn set_shared(&mut self, shared: Queue) {
        self.queue = shared;
    }

    fn tokens(&self, number: u32) -> u64 {
        self.common.setup.sentences(Phase::Old)[number as usize].words()
            * self.queue.chains(Phase::Young).len().max(1) as u64
    }
}

/// Figures of a chain that has converged.
const FIGURES: usize = 9;

/// What came out, as figures that add up over shards: those of every group's winner, then the counts of every run's best.
fn outcome(queue: &Queue, setup: &Setup, is_mine: impl Fn(u32) -> bool) -> Vec<f64> {
    let (groups, runs, rules) = (setup.estimation.all_groups(), setup.estimation.runs, setup.old.rules());
    let mut figures = vec![0.0; groups as usize * FIGURES + runs as usize * rules];
    for finished in &queue.finished {
        let of = &finished.figures;
        let own = [
            f64::from(finished.restart),
            f64::from(finished.iterations),
            finished.free_energy,
            finished.heldout,
            of.words as f64,
            of.directed as f64,
            of.undirected as f64,
            of.minimum_risk as f64,
            1.0,
        ];
        figures[finished.group as usize * FIGURES..][..FIGURES].copy_from_slice(&own);
    }
    for (&run, chain) in queue.best.iter().filter(|(run, _)| is_mine(**run)) {
        figures[groups as usize * FIGURES + run as usize * rules..][..rules].copy_from_slice(&chain.counts);
    }
    figures
}

/// The reverse of what shards have told, added up: every group's winner, and the counts of every run's best.
pub fn read_outcome(figures: &[f64], setup: &Setup) -> (Vec<Finished>, Vec<Vec<f64>>) {
    let (groups, rules) = (setup.estimation.all_groups() as usize, setup.old.rules());
    let (winners, counts) = figures.split_at(groups * FIGURES);
    let finished = |(group, own): (usize, &[f64])| Finished {
        group: group as u32,
        restart: own[0] as u32,
        iterations: own[1] as u32,
        free_energy: own[2],
        heldout: own[3],
        figures: Figures {
            words: own[4] as u64,
            directed: own[5] as u64,
            undirected: own[6] as u64,
            minimum_risk: own[7] as u64,
        },
    };
    let winners = winners.chunks(FIGURES).enumerate().filter(|(_, own)| own[8] == 1.0).map(finished).collect();
    (winners, counts.chunks(rules).map(<[f64]>::to_vec).collect())
}
