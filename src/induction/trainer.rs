//! The two ways in which workers share the work, as models of the sweep driver. A sweep is one iteration of the chains that
//! are due.
//!
//! - [`Restarts`]: a shard has some groups of restarts and takes them through all of their iterations alone. Nothing travels
//!   but, at the end, the best grammars and the figures.
//! - [`BySentences`]: a shard has some sentences, all chains are everywhere, and expectations are added up in shard order
//!   after every iteration. Workers of a process who are done with theirs take pieces of the others' ([`Board`]).
//!
//! Expectations are sums by piece of a shard of sentences, added up in the order of pieces, then of shards, in both: so both
//! give the same bits.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::board::Board;
use super::chain::Chain;
use super::evaluate::{Figures, Judge};
use super::job::Spread;
use super::pass::{Found, Passer, add_all};
use super::queue::{Finished, Phase, Queue};
use super::sentences::Sentences;
use super::setup::Setup;
use crate::cluster::sweep::{Model, Post};

/// Passes over sentences with the chains that are due.
#[derive(Default)]
struct Passers {
    train: Passer,
    heldout: Passer,
    /// How many chains are due, and for how many of them held-out sentences are asked about.
    chains: usize,
    points: usize,
}

impl Passers {
    fn load(&mut self, queue: &Queue, phase: Phase, setup: &Setup) {
        let (shape, chains) = (Queue::shape(phase, setup), queue.chains(phase));
        self.train.load(&chains.iter().map(|chain| chain.weights(shape)).collect::<Vec<_>>());
        self.chains = chains.len();
        let has_heldout = phase == Phase::Old && !setup.heldout.is_empty();
        self.points = if has_heldout { chains.len() } else { 0 };
        if has_heldout {
            let point = |chain: &Chain| chain.point_weights(shape, setup.estimation.method);
            self.heldout.load(&chains.iter().map(point).collect::<Vec<_>>());
        }
    }

    /// The likelihood of a shard of held-out sentences, by chain, where it is asked for.
    fn likelihood(&mut self, phase: Phase, setup: &Setup, shard: usize) -> Vec<f64> {
        match self.points {
            0 => vec![],
            _ => self.heldout.likelihood(Queue::setting(phase, setup), &setup.heldout[shard]),
        }
    }
}

/// Adds what was found in one more piece, or shard.
fn add(sum: &mut Option<Found>, found: Found) {
    match sum {
        Some(sum) => sum.add(&found),
        None => *sum = Some(found),
    }
}

/// What both ways have.
pub struct Common {
    setup: Arc<Setup>,
    judge: Judge,
    passers: Passers,
    /// Sentences and words passed over since they were last asked for, each once for each chain.
    passes: [u64; 2],
}

impl Common {
    pub fn new(setup: Arc<Setup>, judge: Judge) -> Common {
        Common { setup, judge, passers: Passers::default(), passes: [0, 0] }
    }

    /// Notes that the pieces of a shard are passed over.
    fn note(&mut self, pieces: &[Sentences]) {
        let chains = self.passers.chains as u64;
        self.passes[0] += pieces.iter().map(Sentences::sentences).sum::<u64>() * chains;
        self.passes[1] += pieces.iter().map(Sentences::words).sum::<u64>() * chains;
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
        self.common.passers.load(queue, phase, &setup);
        let (mut sum, mut heldout) = (None, vec![0.0; self.common.passers.points]);
        for (shard, pieces) in setup.sentences(phase).iter().enumerate() {
            let mut of_shard = None;
            for piece in pieces {
                add(&mut of_shard, self.common.passers.train.expect(Queue::setting(phase, &setup), piece));
            }
            add(&mut sum, of_shard.expect("there are pieces"));
            add_all(&mut heldout, &self.common.passers.likelihood(phase, &setup, shard));
            self.common.note(pieces);
        }
        let found = sum.expect("there are shards").by_grammar(self.common.passers.chains);
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
    board: Arc<Board>,
    /// The next iteration, or this one, counted from 1; 0 before the driver has begun.
    iteration: u64,
    /// The phase of this iteration, whose weights have been made.
    due: Option<Phase>,
    heldout: BTreeMap<u32, Vec<f64>>,
}

impl BySentences {
    /// The board is that of the process.
    pub fn new(common: Common, board: Arc<Board>) -> BySentences {
        let groups = (0..common.setup.estimation.all_groups()).collect();
        BySentences { common, queue: Queue::new(groups), board, iteration: 0, due: None, heldout: BTreeMap::new() }
    }

    /// The phase of this iteration, with its weights made; none where all is done.
    fn prepare(&mut self) -> Option<Phase> {
        if self.due.is_none() {
            let setup = self.common.setup.clone();
            self.due = self.queue.prepare(&setup);
            self.due.iter().for_each(|&phase| self.common.passers.load(&self.queue, phase, &setup));
        }
        self.due
    }

    /// Takes a piece of a shard and passes over it; returns whether one was left.
    fn pass(&mut self, phase: Phase, shard: usize) -> bool {
        let setup = &self.common.setup;
        let pieces = &setup.sentences(phase)[shard];
        let Some(piece) = self.board.take(shard, self.iteration, pieces.len()) else { return false };
        let found = self.common.passers.train.expect(Queue::setting(phase, setup), &pieces[piece]);
        self.board.give(shard, piece, found);
        true
    }
}

impl Model for BySentences {
    type Saved = ();
    type Shared = Queue;

    fn draw_shard(&mut self, number: u32, _: u32) {
        self.board.own(number as usize);
    }

    fn load_shard(&mut self, number: u32, (): ()) -> Result<(), String> {
        self.board.own(number as usize);
        Ok(())
    }

    fn save_shard(&self, _: u32) {}
    fn count_shard(&mut self, _: u32) {}

    fn sweep_shard(&mut self, number: u32, _: Range<u64>, _: u32) {
        let Some(phase) = self.prepare() else { return };
        let setup = self.common.setup.clone();
        self.common.note(&setup.sentences(phase)[number as usize]);
        self.heldout.insert(number, self.common.passers.likelihood(phase, &setup, number as usize));
        while self.pass(phase, number as usize) {}
    }

    /// Does what others have not begun yet.
    fn synchronise(&mut self, _: &mut Post<'_>) {
        if self.iteration == 0 {
            self.iteration = 1;
            return;
        }
        let Some(phase) = self.prepare() else { return };
        for shard in self.board.here() {
            while self.pass(phase, shard) {}
        }
    }

    /// Sentences passed over, lanes and held-out likelihoods, these, and what was found in lanes: likelihoods and uses.
    fn statistics(&mut self, number: u32, _: u64) -> Vec<f64> {
        let passes = std::mem::take(&mut self.common.passes)[0] as f64;
        let Some(phase) = self.due else { return vec![passes, 0.0, 0.0] };
        let heldout = self.heldout.remove(&number).unwrap_or_default();
        let pieces = self.common.setup.sentences(phase)[number as usize].len();
        let found = self.board.collect(number as usize, pieces);
        let mut figures = vec![passes, found.ln_likelihoods.len() as f64, heldout.len() as f64];
        figures.reserve_exact(heldout.len() + found.ln_likelihoods.len() + found.uses.len());
        [&heldout, &found.ln_likelihoods, &found.uses].into_iter().for_each(|part| figures.extend(part));
        figures
    }

    fn learn(&mut self, statistics: &[Vec<f64>], _: u64) {
        let setup = self.common.setup.clone();
        self.iteration += 1;
        self.due = None;
        // A worker without shards may not have asked.
        let Some(phase) = self.queue.prepare(&setup) else { return };
        let (lanes, points) = (statistics[0][1] as usize, statistics[0][2] as usize);
        let mut sum = statistics[0][3..].to_vec();
        statistics[1..].iter().for_each(|figures| add_all(&mut sum, &figures[3..]));
        let uses = sum.split_off(points + lanes);
        let ln_likelihoods = sum.split_off(points);
        let found = Found { ln_likelihoods, uses }.by_grammar(self.queue.chains(phase).len());
        self.queue.settle(phase, &setup, &mut self.common.judge, &found, &sum);
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
        let pieces = &self.common.setup.sentences(Phase::Old)[number as usize];
        pieces.iter().map(Sentences::words).sum::<u64>() * self.queue.chains(Phase::Young).len().max(1) as u64
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
