//! Particle Gibbs over raw text, as a model of the sweep driver: tags and trees are drawn, given the words (Buys & Blunsom
//! 2015, section 5.4; Andrieu et al. 2010).
//!
//! A sweep takes the customers of each raw sentence out of the restaurants, draws its derivation by a conditional particle
//! filter that retains the one that was, and seats the customers of the new one, or those that were
//! ([`crate::parser::exchange`]). Trees of the treebank stay; their customers are seated anew.
//!
//! **What is exact.** With one shard and one context for each distribution that learns, the chain has the posterior of tags,
//! derivations and seatings, given the words, over the tags that each word can have ([`crate::parser::latent`]).
//!
//! **Memory.** A sentence is kept as its words and its derivation: 4 bytes a word each. Customers are found again from these
//! when they are needed. Every worker holds all restaurants of what learns; contexts that a sweep has met stay.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::text::Sentences;
use crate::cluster::rng::{Generator, Purpose, generator};
use crate::cluster::sweep::{Model, Post};
use crate::parser::configuration::Configurations;
use crate::parser::distribution::KeptHierarchy;
use crate::parser::exchange::{Exchange, Proposal};
use crate::parser::filter::{Filter, Step};
use crate::parser::gold::Gold;
use crate::parser::hierarchies::{Customer, Hierarchies};
use crate::parser::job::Plan;
use crate::parser::latent::{Latent, ToWords, steps_of};
use crate::parser::lexicon::Lexicon;
use crate::parser::model::ParserModel;
use crate::parser::treebank::Word;
use crate::restaurant::parameters::Parameters;

/// Sets the draws of this stage apart from those of others.
const STAGE: u64 = 1 << 40;

/// The sentences of a shard: those of the treebank, then raw ones.
#[derive(Default)]
struct Shard {
    sentences: Sentences,
    /// How many are of the treebank.
    observed: usize,
    /// The derivations, one behind the other.
    codes: Vec<u16>,
}

impl Shard {
    /// Where the derivation of a sentence is.
    fn range(&self, number: usize) -> Range<usize> {
        let words = self.sentences.range(number);
        let start = 2 * words.start + number;
        start..start + steps_of(words.len())
    }

    /// Adds a sentence, derived as the static oracle derives its tree.
    fn push(&mut self, words: &[Word], lexicon: &Lexicon, model: &ParserModel) {
        let forms: Vec<u32> = words.iter().map(|word| word.form).collect();
        let (mut gold, mut arena, mut next) = (Gold::default(), Configurations::default(), 0);
        gold.set(words.iter().copied(), lexicon);
        let latent = Latent { words: &forms, model };
        let codes = &mut self.codes;
        gold.follow(
            &mut arena,
            || false,
            |_, _, action| {
                let (tag, form) = if action.has_word() { gold.id(next) } else { (0, 0) };
                next += u32::from(action.has_word());
                codes.push(latent.encode(Step { action, tag, form }));
            },
        );
        self.sentences.push(forms);
    }
}

pub struct Gibbs<'m> {
    plan: Plan,
    /// The parser that was trained before: what does not learn is as it has it.
    model: &'m ParserModel,
    particles: u32,
    hierarchies: Hierarchies,
    shards: BTreeMap<u32, Shard>,
    work: Work,
}

/// What is reused from sentence to sentence.
#[derive(Default)]
struct Work {
    arena: Configurations,
    filter: Filter,
    exchange: Exchange,
    retained: Vec<Step>,
    customers: Vec<Customer>,
}

impl<'m> Gibbs<'m> {
    /// The model of a worker; `plan` has the contexts of what learns. It starts without sentences.
    pub fn new(plan: &Plan, model: &'m ParserModel, particles: u32) -> Gibbs<'m> {
        let mut hierarchies = Hierarchies::new(plan, &model.kept.lexicon);
        hierarchies.set_parameters(model.parameters_of(|part| hierarchies.has(part)));
        Gibbs { plan: plan.clone(), model, particles, hierarchies, shards: BTreeMap::new(), work: Work::default() }
    }

    /// Adds a shard: trees of the treebank, and raw sentences with the trees to start from.
    pub fn add_shard(
        &mut self,
        number: u32,
        trees: impl Iterator<Item = Vec<Word>>,
        raw: impl Iterator<Item = Vec<Word>>,
    ) {
        let (lexicon, model) = (&self.model.kept.lexicon, self.model);
        let mut shard = Shard::default();
        trees.for_each(|words| shard.push(&words, lexicon, model));
        shard.observed = shard.sentences.len();
        raw.for_each(|words| shard.push(&words, lexicon, model));
        self.shards.insert(number, shard);
    }

    /// What was learned.
    pub fn hierarchies(&self) -> Vec<Arc<KeptHierarchy>> {
        self.hierarchies.kept(&self.plan, &self.model.kept.lexicon)
    }

    /// The derivations of a shard's raw sentences.
    #[cfg(test)]
    pub fn derivations(&self, number: u32) -> Vec<Vec<u16>> {
        let shard = &self.shards[&number];
        (shard.observed..shard.sentences.len()).map(|at| shard.codes[shard.range(at)].to_vec()).collect()
    }

    /// The trees of a shard: words and derivations.
    #[cfg(test)]
    pub fn observed(&self, number: u32) -> Vec<(Vec<u32>, Vec<u16>)> {
        let shard = &self.shards[&number];
        let of = |at: usize| (shard.sentences.sentence(at).to_vec(), shard.codes[shard.range(at)].to_vec());
        (0..shard.observed).map(of).collect()
    }

    fn is_alone(&self) -> bool {
        self.plan.schedule.shards == 1
    }

    fn rng(&self, purpose: Purpose, shard: u32, sweep: u64) -> Generator {
        generator(self.plan.seed, purpose, u64::from(shard) | STAGE, sweep)
    }

    /// Shows each sentence of a shard with its derivation, and whether it is of the treebank.
    fn each(&mut self, number: u32, mut act: impl FnMut(&mut Gibbs<'m>, Latent<'_>, &mut [u16], bool)) {
        let mut shard = self.shards.remove(&number).unwrap_or_default();
        for at in 0..shard.sentences.len() {
            let (range, is_observed) = (shard.range(at), at < shard.observed);
            let latent = Latent { words: shard.sentences.sentence(at), model: self.model };
            act(self, latent, &mut shard.codes[range], is_observed);
        }
        self.shards.insert(number, shard);
    }

    /// Finds the customers of a derivation.
    fn find_customers(&mut self, latent: Latent<'_>, codes: &[u16]) {
        let Work { arena, customers, .. } = &mut self.work;
        latent.customers(arena, &mut self.hierarchies, codes, customers);
    }

    /// Draws the derivation of a raw sentence.
    fn resample(&mut self, latent: Latent<'_>, codes: &mut [u16], rng: &mut Generator) {
        self.find_customers(latent, codes);
        let Work { arena, filter, exchange, retained, customers } = &mut self.work;
        let particles = self.particles;
        let propose = |hierarchies: &mut Hierarchies, rng: &mut Generator| {
            latent.steps(codes, retained);
            arena.clear();
            let choices = ToWords { sentence: latent, hierarchies };
            let drawn = filter.draw(&choices, arena, latent.words.len() as u32 + 1, retained, particles, rng);
            let derivation = latent.read(arena, drawn.top);
            let mut customers = vec![];
            latent.customers(arena, hierarchies, &derivation, &mut customers);
            Proposal { derivation, customers, ratio_ln: drawn.retained_ln - drawn.ln }
        };
        if let Some(accepted) = exchange.step(&mut self.hierarchies, customers, propose, rng) {
            codes.copy_from_slice(&accepted.derivation);
        }
    }
}

impl Model for Gibbs<'_> {
    /// Derivations of the sentences; and of the first shard, tables of all hierarchies.
    type Saved = (Vec<u16>, Vec<Vec<u32>>);
    type Shared = Vec<Parameters>;

    fn draw_shard(&mut self, number: u32, _: u32) {
        let mut rng = self.rng(Purpose::Initial, number, 0);
        self.each(number, |model, latent, codes, _| {
            model.find_customers(latent, codes);
            for customer in &model.work.customers {
                model.hierarchies.add(customer, &mut rng);
            }
        });
        let is_alone = self.is_alone();
        self.hierarchies.note(is_alone);
    }

    fn load_shard(&mut self, number: u32, (codes, tables): Self::Saved) -> Result<(), String> {
        let cannot = |why: &str| format!("the checkpoint of shard {number} is not that of this parser: {why}");
        match self.shards.get_mut(&number) {
            Some(shard) if shard.codes.len() == codes.len() => shard.codes = codes,
            _ => return Err(cannot("it has other sentences")),
        }
        let mut is_sound = true;
        self.each(number, |model, latent, codes, _| {
            is_sound = is_sound && latent.is_derivation(codes);
            if is_sound {
                model.find_customers(latent, codes);
                model.work.customers.iter().for_each(|customer| model.hierarchies.load_customer(customer));
            }
        });
        if !is_sound {
            return Err(cannot("it has derivations of other words"));
        }
        match number {
            0 => self.hierarchies.load(tables).map_err(|e| cannot(&e)),
            _ => Ok(()),
        }
    }

    fn save_shard(&self, number: u32) -> Self::Saved {
        let codes = self.shards.get(&number).map_or(vec![], |shard| shard.codes.clone());
        (codes, if number == 0 { self.hierarchies.save() } else { vec![] })
    }

    /// Nothing: what was drawn or loaded is noted already.
    fn count_shard(&mut self, _: u32) {}

    fn sweep_shard(&mut self, number: u32, sweeps: Range<u64>, _: u32) {
        for sweep in sweeps {
            let mut rng = self.rng(Purpose::Sweep, number, sweep);
            self.each(number, |model, latent, codes, is_observed| match is_observed {
                true => {
                    model.find_customers(latent, codes);
                    for customer in &model.work.customers {
                        model.hierarchies.reseat(customer, &mut rng);
                    }
                }
                false => model.resample(latent, codes, &mut rng),
            });
        }
        let is_alone = self.is_alone();
        self.hierarchies.note(is_alone);
    }

    fn synchronise(&mut self, post: &mut Post<'_>) {
        let is_alone = self.is_alone();
        self.hierarchies.synchronise(post, is_alone);
    }

    /// The sums of auxiliary variables, by part and depth.
    fn statistics(&mut self, number: u32, sweep: u64) -> Vec<f64> {
        if !self.plan.learns_after(sweep) || (self.is_alone() && !self.shards.contains_key(&number)) {
            return vec![];
        }
        let mut rng = self.rng(Purpose::Statistics, number, sweep);
        self.hierarchies.statistics(number, self.plan.schedule.shards, &mut rng)
    }

    fn learn(&mut self, statistics: &[Vec<f64>], sweep: u64) {
        self.hierarchies.learn(&self.plan, statistics, sweep);
    }

    /// Nothing: text is predicted when training has ended.
    fn evaluate(&mut self, _: u32, _: u64) -> Vec<f64> {
        vec![]
    }

    fn shared(&self) -> Vec<Parameters> {
        self.hierarchies.parameters()
    }

    fn set_shared(&mut self, shared: Vec<Parameters>) {
        self.hierarchies.set_parameters(shared);
    }

    /// Words.
    fn tokens(&self, number: u32) -> u64 {
        self.shards.get(&number).map_or(0, |shard| shard.sentences.words().len() as u64)
    }
}
