//! The hierarchies of a parser while derivations are drawn: one for each context, growing with the derivations.

use std::sync::Arc;

use super::configuration::{Configurations, Upcoming};
use super::distribution::KeptHierarchy;
use super::gold::Token;
use super::job::{Contexts, MOST_CONTEXTS, Part, Plan};
use super::lexicon::Lexicon;
use super::mixture::{Example, LONG, Levels, Mixture, Weights, level};
use crate::cluster::rng::{Generator, Purpose, generator};
use crate::cluster::sweep::{Post, add_up};
use crate::restaurant::growing::{Chain, Growing};
use crate::restaurant::parameters::Parameters;
use crate::restaurant::seating::DEEPEST;

pub struct Hierarchies {
    contexts: Contexts,
    /// One for each context.
    parts: Vec<Growing>,
    /// By [`Part`]: which of them are its own, and what these weigh.
    runs: [std::ops::Range<usize>; 3],
    mixtures: [Mixture; 3],
}

/// A token as a customer: its dish in each hierarchy of its distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Customer {
    part: Part,
    leaves: [u32; MOST_CONTEXTS],
}

/// p of outcomes in a configuration.
pub struct Predictor<'h> {
    parts: &'h [Growing],
    chains: [Option<Chain>; MOST_CONTEXTS],
    weights: &'h Weights,
}

impl Predictor<'_> {
    /// That of the mixture of all contexts.
    pub fn probability(&self, outcome: u32) -> f64 {
        let all = self.parts.iter().zip(self.chains.iter().flatten()).zip(self.weights);
        all.map(|((part, chain), weight)| weight * part.predict(chain, outcome)).sum()
    }
}

/// How many tables a customer opened or closed in each hierarchy.
pub type Tables = [u8; MOST_CONTEXTS];

impl Hierarchies {
    pub fn new(plan: &Plan, lexicon: &Lexicon) -> Hierarchies {
        let contexts = plan.contexts.clone();
        let part = |(part, elements): &(Part, Vec<_>)| {
            let parameters = Parameters::new(elements.len(), plan.model.discount, plan.model.strength);
            Growing::new(elements.len(), parameters, 1.0 / f64::from(lexicon.outcomes(*part, plan.model.system)))
        };
        let parts = contexts.all.iter().map(part).collect();
        let runs = Part::ALL.map(|part| {
            let own = |(other, _): &(Part, _)| *other == part;
            let start = contexts.all.iter().position(own).unwrap_or(0);
            start..start + contexts.all.iter().filter(|context| own(context)).count()
        });
        let mixtures = Part::ALL.map(|part| Mixture::equal(contexts.count(part)));
        Hierarchies { contexts, parts, runs, mixtures }
    }

    /// Sets what the contexts of each distribution weigh.
    pub fn set_mixtures(&mut self, mixtures: [Mixture; 3]) {
        self.mixtures = mixtures;
    }

    fn run(&self, part: Part) -> std::ops::Range<usize> {
        self.runs[part as usize].clone()
    }

    /// p of a token, by all of its contexts.
    pub fn predict(&self, arena: &Configurations, token: Token) -> f64 {
        self.predictor(arena, token.part, token.top, token.upcoming).probability(token.outcome)
    }

    /// Ready to ask for the outcomes of a distribution in a configuration.
    pub fn predictor(&self, arena: &Configurations, part: Part, top: u32, upcoming: Upcoming) -> Predictor<'_> {
        let run = self.run(part);
        let chain = |at: usize| {
            let elements = &self.contexts.all[at].1;
            let mut values = [0; DEEPEST];
            let values = &mut values[..elements.len()];
            arena.values(top, elements, upcoming, values);
            self.parts[at].chain(values)
        };
        let chains = std::array::from_fn(|place| (place < run.len()).then(|| chain(run.start + place)));
        let parts = &self.parts[run];
        let short = parts.iter().zip(chains.iter().flatten()).map(|(part, chain)| part.short_share(chain, LONG));
        let levels = short.fold(Levels::default(), |levels, short| levels.and(level(short)));
        Predictor { parts, chains, weights: self.mixtures[part as usize].weights(levels) }
    }

    /// The customer that a token is; where there is no such dish yet, there is one then.
    pub fn customer(&mut self, arena: &Configurations, token: Token) -> Customer {
        let mut leaves = [0; MOST_CONTEXTS];
        for (at, leaf) in self.run(token.part).zip(&mut leaves) {
            let elements = &self.contexts.all[at].1;
            let mut values = [0; DEEPEST];
            let values = &mut values[..elements.len()];
            arena.values(token.top, elements, token.upcoming, values);
            *leaf = self.parts[at].leaf(values, token.outcome);
        }
        Customer { part: token.part, leaves }
    }

    /// Does something in each hierarchy of a customer.
    fn each<T>(&mut self, customer: &Customer, mut act: impl FnMut(&mut Growing, u32, usize) -> T) {
        for (at, part) in self.run(customer.part).enumerate() {
            act(&mut self.parts[part], customer.leaves[at], at);
        }
    }

    /// Seats a customer; returns p of it before, and the tables it opened.
    pub fn add(&mut self, customer: &Customer, rng: &mut Generator) -> (f64, Tables) {
        let (mut example, mut tables) = (Example::default(), [0; MOST_CONTEXTS]);
        self.each(customer, |part, leaf, at| {
            example.levels = example.levels.and(level(part.short_share_at(leaf, LONG)));
            (example.p[at], tables[at]) = part.add(leaf, rng);
        });
        (self.mixtures[customer.part as usize].mix(&example), tables)
    }

    /// Takes a customer away; returns p of it after, and the tables it closed.
    pub fn remove(&mut self, customer: &Customer, rng: &mut Generator) -> (f64, Tables) {
        let (mut example, mut tables) = (Example::default(), [0; MOST_CONTEXTS]);
        self.each(customer, |part, leaf, at| {
            tables[at] = part.remove(leaf, rng);
            example.levels = example.levels.and(level(part.short_share_at(leaf, LONG)));
            example.p[at] = part.probability(leaf);
        });
        (self.mixtures[customer.part as usize].mix(&example), tables)
    }

    /// Seats a customer who opens so many tables.
    pub fn put_back(&mut self, customer: &Customer, tables: &Tables) {
        self.each(customer, |part, leaf, at| part.put_back(leaf, tables[at]));
    }

    /// Takes a customer away who opened so many tables, and was the last to come.
    pub fn take_back(&mut self, customer: &Customer, tables: &Tables) {
        self.each(customer, |part, leaf, at| part.take_back(leaf, tables[at]));
    }

    /// Takes a customer out, and seats it again.
    pub fn reseat(&mut self, customer: &Customer, rng: &mut Generator) {
        self.each(customer, |part, leaf, _| {
            part.remove(leaf, rng);
            part.add(leaf, rng);
        });
    }

    /// Whether a distribution is among these.
    pub fn has(&self, part: Part) -> bool {
        !self.run(part).is_empty()
    }

    /// What was learned.
    pub fn kept(&self, plan: &Plan, lexicon: &Lexicon) -> Vec<Arc<KeptHierarchy>> {
        let contexts = self.contexts.all.iter().zip(&self.parts);
        let keep = |((part, _), growing): (&(Part, _), &Growing)| {
            let outcomes = lexicon.outcomes(*part, plan.model.system);
            Arc::new(KeptHierarchy::of(&growing.to_tree(), growing.parameters(), outcomes))
        };
        contexts.map(keep).collect()
    }
}

/// What the sweep driver asks of a model ([`crate::cluster::sweep::Model`]), as far as hierarchies answer it.
impl Hierarchies {
    /// Notes what a shard has changed since the last synchronisation, and returns the counts to where they were then; a
    /// shard that is alone goes on.
    pub fn note(&mut self, is_alone: bool) {
        for part in &mut self.parts {
            if is_alone {
                part.settle();
            } else {
                let before = part.noted();
                part.note();
                part.undo(before);
            }
        }
    }

    /// Everybody hears of all changes.
    pub fn synchronise(&mut self, post: &mut Post<'_>, is_alone: bool) {
        for part in &mut self.parts {
            if post.peers() == 1 || is_alone {
                part.take_own();
                continue;
            }
            let letter = part.letter();
            let letters = post.exchange(vec![letter; post.peers()]);
            part.take_letters(letters.iter().map(Vec::as_slice));
        }
    }

    /// The sums of auxiliary variables, by part and depth.
    pub fn statistics(&mut self, shard: u32, shards: u32, rng: &mut Generator) -> Vec<f64> {
        self.parts.iter_mut().flat_map(|part| part.statistics(shard, shards, rng)).collect()
    }

    /// Draws discounts and strengths from the statistics of all shards.
    pub fn learn(&mut self, plan: &Plan, statistics: &[Vec<f64>], sweep: u64) {
        let sums = add_up(statistics);
        if sums.is_empty() {
            return;
        }
        let mut rest = sums.as_slice();
        for (number, part) in self.parts.iter_mut().enumerate() {
            let (here, behind) = rest.split_at(part.statistics_count());
            rest = behind;
            let mut rng = generator(plan.seed, Purpose::Hyperparameters, sweep, number as u64);
            part.learn(here, &plan.prior, &mut rng);
        }
    }

    /// The tables of all restaurants, for the first shard's checkpoint.
    pub fn save(&self) -> Vec<Vec<u32>> {
        self.parts.iter().map(Growing::save).collect()
    }

    /// Notes a customer of a checkpoint, which does not stand in the counts yet.
    pub fn load_customer(&mut self, customer: &Customer) {
        self.each(customer, |part, leaf, _| part.load_token(leaf));
    }

    /// Notes the tables that [`Hierarchies::save`] gave.
    pub fn load(&mut self, tables: Vec<Vec<u32>>) -> Result<(), String> {
        if tables.len() != self.parts.len() {
            return Err("it has other contexts".to_string());
        }
        self.parts.iter_mut().zip(tables).try_for_each(|(part, tables)| part.load(&tables))
    }

    pub fn parameters(&self) -> Vec<Parameters> {
        self.parts.iter().map(|part| part.parameters().clone()).collect()
    }

    pub fn set_parameters(&mut self, parameters: Vec<Parameters>) {
        self.parts.iter_mut().zip(parameters).for_each(|(part, parameters)| part.set_parameters(parameters));
    }
}
