//! Training with derivations drawn: the parser as a model of the sweep driver where every tree has many derivations.
//!
//! A sweep takes each sentence out of the restaurants, draws a derivation of its tree by a conditional particle filter that
//! retains the one that was, and seats it again, or the one that was ([`super::exchange`]).
//!
//! With one shard and one context for each distribution, the chain has exactly the posterior of derivations and seatings.
//! (With several contexts p is their mean, and each hierarchy learns from all tokens: there is no such posterior, and the
//! chain is a heuristic. That some transitions and tags cannot come in some configurations is left out of p in training, as
//! it is with the static oracle.) A tree with one derivation only has its tokens seated anew, one by one.

use std::collections::BTreeMap;

use super::action::{Action, Actions, System};
use super::configuration::{Configurations, Upcoming};
use super::drawing::{Derived, Drawing};
use super::exchange::{Exchange, Proposal};
use super::filter::{Choice, Choices, Filter, Step};
use super::gold::{Gold, Token};
use super::hierarchies::{Customer, Hierarchies};
use super::job::{Part, Plan};
use super::lexicon::Lexicon;
use super::treebank::{Treebank, Word};
use crate::cluster::rng::Generator;
use crate::corpus::shard::shards;

/// A derivation: where a left arc may wait, whether it does.
pub type Derivation = Vec<bool>;

/// A training sentence with its derivation.
#[derive(Clone, Debug, Default)]
struct Sentence {
    /// With the lexicon's numbers.
    words: Vec<Word>,
    derivation: Derivation,
    /// What it generates.
    customers: Vec<Customer>,
}

/// The trees of the own shards.
pub struct Sampler {
    lexicon: Lexicon,
    is_lexicalised: bool,
    particles: u32,
    /// The sentences of each own shard.
    sentences: BTreeMap<u32, Vec<Sentence>>,
    gold: Gold,
    arena: Configurations,
    filter: Filter,
    retained: Vec<Step>,
    exchange: Exchange,
}

/// What can be done on the way to a tree.
struct ToGold<'a> {
    gold: &'a Gold,
    hierarchies: &'a Hierarchies,
    lexicon: &'a Lexicon,
    is_lexicalised: bool,
}

impl ToGold<'_> {
    /// A step with its p: that of the action, and that of the tag and the word which it generates.
    fn choice(&self, arena: &Configurations, top: u32, step: Step) -> Choice {
        let actions = Actions { system: System::ArcStandard, labels: self.lexicon.labels.len() };
        let token = |part, upcoming, outcome| self.hierarchies.predict(arena, Token { part, top, upcoming, outcome });
        let q = match arena.has_choice(top, System::ArcStandard) {
            true => token(Part::Transition, Upcoming::default(), actions.outcome(step.action)),
            false => 1.0,
        };
        let mut p = q;
        if step.action.has_word() {
            let upcoming = Upcoming { tag: 0, action: step.action.value() };
            p *= token(Part::Tag, upcoming, step.tag);
            if self.is_lexicalised && step.tag != self.lexicon.root() {
                p *= token(Part::Word, Upcoming { tag: step.tag, ..upcoming }, step.form);
            }
        }
        Choice { step, p, q, learned: p }
    }

    fn step(&self, action: Action, next: u32) -> Step {
        let (tag, form) = if action.has_word() { self.gold.id(next) } else { (0, 0) };
        Step { action, tag, form }
    }
}

impl Choices for ToGold<'_> {
    fn choices(&self, arena: &Configurations, top: u32, next: u32, choices: &mut Vec<Choice>) {
        let Some((first, may_wait)) = self.gold.step(arena, top, next) else { return };
        for action in [Some(first), may_wait.then_some(Action::Shift)].into_iter().flatten() {
            choices.push(self.choice(arena, top, self.step(action, next)));
        }
    }
}

impl Sampler {
    /// The model of a worker whose shards are those that are `is_mine`.
    pub fn model(
        plan: &Plan,
        lexicon: &Lexicon,
        treebank: &Treebank,
        is_mine: impl Fn(u32) -> bool,
    ) -> Drawing<Sampler> {
        let lengths: Vec<u64> = treebank.sentences().map(|sentence| sentence.len() as u64).collect();
        let runs = shards(&lengths, plan.schedule.shards);
        let sentence = |number: usize| Sentence { words: lexicon.sentence(treebank, number), ..Sentence::default() };
        let own = (0..).zip(runs).filter(|(number, _)| is_mine(*number));
        let sampler = Sampler {
            lexicon: lexicon.clone(),
            is_lexicalised: plan.model.lexicalised,
            particles: plan.training_particles,
            sentences: own.map(|(number, run)| (number, run.map(sentence).collect())).collect(),
            gold: Gold::default(),
            arena: Configurations::default(),
            filter: Filter::default(),
            retained: vec![],
            exchange: Exchange::default(),
        };
        Drawing::new(plan, sampler, Hierarchies::new(plan, lexicon))
    }

    /// The derivations of all own sentences.
    #[cfg(test)]
    pub fn derivations(&self) -> Vec<Derivation> {
        self.sentences.values().flatten().map(|sentence| sentence.derivation.clone()).collect()
    }

    /// Finds the customers of a sentence's derivation, which becomes as long as there are choices.
    fn find_customers(&mut self, sentence: &mut Sentence, hierarchies: &mut Hierarchies) {
        self.read(sentence);
        let Sampler { gold, arena, lexicon, is_lexicalised, .. } = self;
        sentence.customers = customers(gold, arena, hierarchies, lexicon, *is_lexicalised, &mut sentence.derivation);
    }

    fn read(&mut self, sentence: &Sentence) {
        self.gold.set(sentence.words.iter().copied(), &self.lexicon);
    }

    /// Draws a sentence's derivation and seats anew.
    fn resample(&mut self, sentence: &mut Sentence, hierarchies: &mut Hierarchies, rng: &mut Generator) {
        if sentence.derivation.is_empty() {
            return sentence.customers.iter().for_each(|customer| hierarchies.reseat(customer, rng));
        }
        self.read(sentence);
        let Sampler { gold, arena, lexicon, is_lexicalised, particles, filter, retained: steps, exchange, .. } = self;
        let is_lexicalised = *is_lexicalised;
        let propose = |hierarchies: &mut Hierarchies, rng: &mut Generator| {
            let choices = ToGold { gold, hierarchies, lexicon, is_lexicalised };
            steps.clear();
            arena.clear();
            let (mut answers, mut next) = (sentence.derivation.iter(), 0);
            let waits = || *answers.next().expect("an answer for each choice");
            gold.follow(arena, waits, |_, _, action| {
                steps.push(choices.step(action, next));
                next += u32::from(action.has_word());
            });
            arena.clear();
            let drawn = filter.draw(&choices, arena, gold.len(), steps, *particles, rng);
            let mut derivation = read_derivation(gold, arena, drawn.top);
            let customers = customers(gold, arena, hierarchies, lexicon, is_lexicalised, &mut derivation);
            Proposal { derivation, customers, ratio_ln: drawn.retained_ln - drawn.ln }
        };
        if let Some(accepted) = exchange.step(hierarchies, &sentence.customers, propose, rng) {
            (sentence.derivation, sentence.customers) = (accepted.derivation, accepted.customers);
        }
    }

    /// Does something with each sentence of a shard.
    fn each(&mut self, number: u32, mut act: impl FnMut(&mut Sampler, &mut Sentence)) {
        let mut sentences = self.sentences.remove(&number).unwrap_or_default();
        sentences.iter_mut().for_each(|sentence| act(self, sentence));
        self.sentences.insert(number, sentences);
    }
}

/// The customers of a derivation of a tree; `derivation` becomes as long as there are choices.
fn customers(
    gold: &mut Gold,
    arena: &mut Configurations,
    hierarchies: &mut Hierarchies,
    lexicon: &Lexicon,
    is_lexicalised: bool,
    derivation: &mut Derivation,
) -> Vec<Customer> {
    let mut customers = vec![];
    let mut at = 0;
    let waits = || {
        at += 1;
        if derivation.len() < at {
            derivation.push(false);
        }
        derivation[at - 1]
    };
    arena.clear();
    gold.tokens(arena, System::ArcStandard, lexicon, is_lexicalised, waits, |arena, token| {
        customers.push(hierarchies.customer(arena, token));
    });
    customers
}

/// The answers of the derivation that ends with `top`.
fn read_derivation(gold: &Gold, arena: &Configurations, top: u32) -> Derivation {
    let mut steps: Vec<(Action, u32)> = arena.backwards(top).map(|(item, top)| (item.action, top)).collect();
    steps.reverse();
    let (mut answers, mut next) = (vec![], 0);
    for (action, top) in steps {
        if let Some((first, true)) = gold.step(arena, top, next) {
            answers.push(action != first);
        }
        next += u32::from(action.has_word());
    }
    answers
}

impl Derived for Sampler {
    type Saved = Vec<Derivation>;
    const STAGE: u64 = 0;

    fn has(&self, number: u32) -> bool {
        self.sentences.contains_key(&number)
    }

    fn seat(&mut self, number: u32, hierarchies: &mut Hierarchies, rng: &mut Generator) {
        self.each(number, |sampler, sentence| {
            sampler.find_customers(sentence, hierarchies);
            for customer in &sentence.customers {
                hierarchies.add(customer, rng);
            }
        });
    }

    fn sweep(&mut self, number: u32, hierarchies: &mut Hierarchies, rng: &mut Generator) {
        self.each(number, |sampler, sentence| sampler.resample(sentence, hierarchies, rng));
    }

    fn save(&self, number: u32) -> Vec<Derivation> {
        let sentences = self.sentences.get(&number).into_iter().flatten();
        sentences.map(|sentence| sentence.derivation.clone()).collect()
    }

    fn load(&mut self, number: u32, derivations: Vec<Derivation>, hierarchies: &mut Hierarchies) -> Result<(), String> {
        if self.sentences.get(&number).map_or(0, Vec::len) != derivations.len() {
            return Err("it has other sentences".to_string());
        }
        let mut derivations = derivations.into_iter();
        self.each(number, |sampler, sentence| {
            sentence.derivation = derivations.next().expect("one for each");
            sampler.find_customers(sentence, hierarchies);
            sentence.customers.iter().for_each(|customer| hierarchies.load_customer(customer));
        });
        Ok(())
    }

    /// Tags, one for each word and the root.
    fn tokens(&self, number: u32) -> u64 {
        self.sentences.get(&number).into_iter().flatten().map(|sentence| sentence.words.len() as u64 + 1).sum()
    }
}
