//! The order of work: restarts in groups, of which the best goes on until it converges (section 5 of the paper).
//!
//! A queue has some groups, and takes up to [`LANES`] chains through one iteration at a time. Restarts come first, until as
//! many winners wait as there are lanes; then these go on together. A chain that is over makes room for the next at once. No
//! chain's numbers depend on which others it goes with, so results do not depend on how groups are dealt out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::chain::Chain;
use super::evaluate::{Figures, Judge};
use super::job::{EstimationSettings, Initialiser, ModelType};
use super::pass::{Expectation, LANES, Setting};
use super::setup::Setup;
use super::shape::Shape;

/// What a queue has come to, as a checkpoint keeps it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    /// Its groups, counted over all runs.
    groups: Vec<u32>,
    /// Restarts that have begun.
    begun: u64,
    young: Vec<Chain>,
    /// How many restarts of a group are over, and the best of them.
    contests: BTreeMap<u32, (u32, Option<Chain>)>,
    waiting: Vec<Chain>,
    old: Vec<Chain>,
    pub finished: Vec<Finished>,
    /// The best chain of each run.
    pub best: BTreeMap<u32, Chain>,
}

/// A chain that has converged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    pub group: u32,
    pub restart: u32,
    pub iterations: u32,
    pub free_energy: f64,
    /// ln-likelihood of the held-out sentences; 0 where there are none.
    pub heldout: f64,
    pub figures: Figures,
}

/// Which chains go through the next iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Restarts.
    Young,
    /// Winners of their groups.
    Old,
}

impl Queue {
    pub fn new(groups: Vec<u32>) -> Queue {
        Queue { groups, ..Queue::default() }
    }

    /// Fills the lanes; returns which chains are due, or none where all is done.
    pub fn prepare(&mut self, setup: &Setup) -> Option<Phase> {
        let EstimationSettings { restarts, initialiser, .. } = setup.estimation;
        while self.young.len() < LANES && self.begun < self.groups.len() as u64 * u64::from(restarts) {
            let group = self.groups[(self.begun / u64::from(restarts)) as usize];
            let restart = (self.begun % u64::from(restarts)) as u32;
            self.young.push(match initialiser {
                Initialiser::Random => Chain::draw(&setup.young, setup.seed, group, restart),
                Initialiser::Harmonic => setup.harmonic_chain(),
            });
            self.begun += 1;
        }
        let room = LANES.saturating_sub(self.old.len()).min(self.waiting.len());
        self.old.extend(self.waiting.drain(..room));
        match () {
            _ if self.old.len() == LANES => Some(Phase::Old),
            _ if !self.young.is_empty() => Some(Phase::Young),
            _ if !self.old.is_empty() => Some(Phase::Old),
            _ => None,
        }
    }

    pub fn is_done(&self, setup: &Setup) -> bool {
        let is_begun = self.begun == self.groups.len() as u64 * u64::from(setup.estimation.restarts);
        is_begun && self.young.is_empty() && self.waiting.is_empty() && self.old.is_empty()
    }

    /// The chains that are due.
    pub fn chains(&self, phase: Phase) -> &[Chain] {
        match phase {
            Phase::Young => &self.young,
            Phase::Old => &self.old,
        }
    }

    /// Ends an iteration of the chains that were due, for which a pass found `found`, and `heldout` in the held-out sentences.
    pub fn settle(&mut self, phase: Phase, setup: &Setup, judge: &mut Judge, found: &[Expectation], heldout: &[f64]) {
        match phase {
            Phase::Young => self.settle_young(setup, found),
            Phase::Old => self.settle_old(setup, judge, found, heldout),
        }
    }

    fn settle_young(&mut self, setup: &Setup, found: &[Expectation]) {
        for (mut chain, found) in std::mem::take(&mut self.young).into_iter().zip(found) {
            // Free energy is dear, and of use where it decides.
            if chain.iterations + 1 >= setup.estimation.prune_after {
                chain.judge(&setup.young, setup.estimation.method, found);
            }
            chain.take(&setup.young, setup.estimation.method, &found.uses);
            if chain.iterations < setup.estimation.prune_after {
                self.young.push(chain);
            } else {
                self.contest(setup, chain);
            }
        }
    }

    /// Enters a restart into the contest of its group, and sends on the best where it was the last.
    fn contest(&mut self, setup: &Setup, chain: Chain) {
        let group = chain.group;
        let (over, best) = self.contests.entry(group).or_insert((0, None));
        *over += 1;
        let key = |chain: &Chain| (chain.free_energy, chain.restart);
        let is_better = best.as_ref().is_none_or(|best| key(&chain) < key(best) || best.free_energy.is_nan());
        if is_better {
            *best = Some(chain);
        }
        if *over < setup.estimation.restarts {
            return;
        }
        let (_, best) = self.contests.remove(&group).expect("it was entered");
        let best = best.expect("a group has restarts");
        self.waiting.push(match setup.model {
            ModelType::Levg => best.lifted(&setup.young, &setup.old),
            _ => best,
        });
    }

    fn settle_old(&mut self, setup: &Setup, judge: &mut Judge, found: &[Expectation], heldout: &[f64]) {
        let (method, estimation) = (setup.estimation.method, &setup.estimation);
        for (at, mut chain) in std::mem::take(&mut self.old).into_iter().enumerate() {
            let before = chain.criterion;
            chain.judge(&setup.old, method, &found[at]);
            chain.criterion = heldout.get(at).copied().unwrap_or(-chain.free_energy);
            let gain = chain.criterion - before;
            // The other way round, so that no number that is none goes on for ever.
            let goes_on = gain > estimation.tolerance * chain.criterion.abs() || before == f64::NEG_INFINITY;
            if goes_on && chain.iterations_after < estimation.max_iterations {
                chain.take(&setup.old, method, &found[at].uses);
                chain.iterations_after += 1;
                self.old.push(chain);
            } else {
                self.finish(setup, judge, chain, heldout.get(at).copied().unwrap_or(0.0));
            }
        }
    }

    fn finish(&mut self, setup: &Setup, judge: &mut Judge, chain: Chain, heldout: f64) {
        let Chain { group, restart, iterations, free_energy, .. } = chain;
        let figures = judge.figures(&setup.old, &chain.point_weights(&setup.old, setup.estimation.method));
        self.finished.push(Finished { group, restart, iterations, free_energy, heldout, figures });
        let run = group / setup.estimation.groups;
        let key = |chain: &Chain| (chain.free_energy, chain.group);
        if self.best.get(&run).is_none_or(|best| key(&chain) < key(best)) {
            self.best.insert(run, chain);
        }
    }

    /// What the chains that are due are passed over with.
    pub fn setting<'a>(phase: Phase, setup: &'a Setup) -> Setting<'a> {
        Setting { shape: Queue::shape(phase, setup), forest: &setup.forest }
    }

    pub fn shape(phase: Phase, setup: &Setup) -> &Shape {
        match phase {
            Phase::Young => &setup.young,
            Phase::Old => &setup.old,
        }
    }

    /// Refuses what another job has left.
    pub fn check(&self, setup: &Setup) -> Result<(), String> {
        let fits = |chains: &[Chain], shape: &Shape| chains.iter().all(|chain| chain.counts.len() == shape.rules());
        let best: Vec<Chain> = self.best.values().cloned().collect();
        let are_old = fits(&self.old, &setup.old) && fits(&self.waiting, &setup.old) && fits(&best, &setup.old);
        match fits(&self.young, &setup.young) && are_old {
            true => Ok(()),
            false => Err("the checkpoint has grammars of another size".to_string()),
        }
    }
}
