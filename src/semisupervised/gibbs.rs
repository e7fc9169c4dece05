//! Particle Gibbs over raw text, as a model of the sweep driver: tags and trees are drawn, given the words (Buys & Blunsom
//! 2015, section 5.4; Andrieu et al. 2010).
//!
//! A sweep takes the customers of each raw sentence out of the restaurants, draws its derivation by a conditional particle
//! filter that retains the one that was, and seats the customers of the new one, or those that were
//! ([`crate::parser::exchange`]). Trees of the treebank stay; their customers are seated anew.
//!
//! **What is exact.** With one shard and one context for each distribution that learns, the chain has the posterior of tags,
//! derivations and seatings, given the words, over the tags that each word can have ([`crate::parser::latent`]). That some
//! transitions and tags cannot come in some configurations is left out of p where they learn, as in training on trees.
//!
//! **Memory.** A sentence is kept as its words and its derivation: 4 bytes a word each. Customers are found again from these
//! when they are needed. Every worker holds all restaurants of what learns; contexts that a sweep has met stay.

use std::collections::BTreeMap;
use std::ops::Range;

use super::text::Sentences;
use crate::cluster::rng::Generator;
use crate::parser::configuration::Configurations;
use crate::parser::drawing::{Derived, Drawing};
use crate::parser::exchange::{Exchange, Proposal};
use crate::parser::filter::{Filter, Step};
use crate::parser::gold::Gold;
use crate::parser::hierarchies::{Customer, Hierarchies};
use crate::parser::job::Plan;
use crate::parser::latent::{Latent, ToWords, steps_of};
use crate::parser::lexicon::Lexicon;
use crate::parser::model::ParserModel;
use crate::parser::treebank::Word;

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

/// The sentences of the own shards.
pub struct Gibbs<'m> {
    /// The parser that was trained before: what does not learn is as it has it.
    model: &'m ParserModel,
    particles: u32,
    shards: BTreeMap<u32, Shard>,
    /// Hears of each raw sentence that was drawn.
    tell: &'m dyn Fn(),
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
    pub fn model(plan: &Plan, model: &'m ParserModel, particles: u32, tell: &'m dyn Fn()) -> Drawing<Gibbs<'m>> {
        let mut hierarchies = Hierarchies::new(plan, &model.kept.lexicon);
        hierarchies.set_parameters(model.parameters_of(|part| hierarchies.has(part)));
        hierarchies.set_mixtures(model.kept.mixtures.clone());
        let gibbs = Gibbs { model, particles, shards: BTreeMap::new(), tell, work: Work::default() };
        Drawing::new(plan, gibbs, hierarchies)
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

    /// Raw sentences of all own shards.
    pub fn raw_sentences(&self) -> usize {
        self.shards.values().map(|shard| shard.sentences.len() - shard.observed).sum()
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
    fn find_customers(&mut self, latent: Latent<'_>, codes: &[u16], hierarchies: &mut Hierarchies) {
        let Work { arena, customers, .. } = &mut self.work;
        latent.customers(arena, hierarchies, codes, customers);
    }

    /// Draws the derivation of a raw sentence.
    fn resample(&mut self, latent: Latent<'_>, codes: &mut [u16], hierarchies: &mut Hierarchies, rng: &mut Generator) {
        self.find_customers(latent, codes, hierarchies);
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
        if let Some(accepted) = exchange.step(hierarchies, customers, propose, rng) {
            codes.copy_from_slice(&accepted.derivation);
        }
        (self.tell)();
    }
}

impl Derived for Gibbs<'_> {
    type Saved = Vec<u16>;
    const STAGE: u64 = 1 << 40;

    fn has(&self, number: u32) -> bool {
        self.shards.contains_key(&number)
    }

    fn seat(&mut self, number: u32, hierarchies: &mut Hierarchies, rng: &mut Generator) {
        self.each(number, |gibbs, latent, codes, _| {
            gibbs.find_customers(latent, codes, hierarchies);
            for customer in &gibbs.work.customers {
                hierarchies.add(customer, rng);
            }
        });
    }

    fn sweep(&mut self, number: u32, hierarchies: &mut Hierarchies, rng: &mut Generator) {
        self.each(number, |gibbs, latent, codes, is_observed| match is_observed {
            true => {
                gibbs.find_customers(latent, codes, hierarchies);
                gibbs.work.customers.iter().for_each(|customer| hierarchies.reseat(customer, rng));
            }
            false => gibbs.resample(latent, codes, hierarchies, rng),
        });
    }

    fn save(&self, number: u32) -> Vec<u16> {
        self.shards.get(&number).map_or(vec![], |shard| shard.codes.clone())
    }

    fn load(&mut self, number: u32, codes: Vec<u16>, hierarchies: &mut Hierarchies) -> Result<(), String> {
        match self.shards.get_mut(&number) {
            Some(shard) if shard.codes.len() == codes.len() => shard.codes = codes,
            _ => return Err("it has other sentences".to_string()),
        }
        let mut is_sound = true;
        self.each(number, |gibbs, latent, codes, _| {
            is_sound = is_sound && latent.is_derivation(codes);
            if is_sound {
                gibbs.find_customers(latent, codes, hierarchies);
                gibbs.work.customers.iter().for_each(|customer| hierarchies.load_customer(customer));
            }
        });
        match is_sound {
            true => Ok(()),
            false => Err("it has derivations of other words".to_string()),
        }
    }

    /// Words.
    fn tokens(&self, number: u32) -> u64 {
        self.shards.get(&number).map_or(0, |shard| shard.sentences.words().len() as u64)
    }
}
