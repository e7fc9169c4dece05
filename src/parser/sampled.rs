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
use std::ops::Range;
use std::sync::Arc;

use super::action::{Action, Actions, System};
use super::configuration::{Configurations, Upcoming};
use super::distribution::KeptHierarchy;
use super::exchange::{Exchange, Proposal};
use super::filter::{Choice, Choices, Filter, Step};
use super::gold::{Gold, Token};
use super::hierarchies::{Customer, Hierarchies};
use super::job::{Part, Plan};
use super::lexicon::Lexicon;
use super::treebank::{Treebank, Word};
use crate::cluster::rng::{Generator, Purpose, generator};
use crate::cluster::sweep::{Model, Post};
use crate::corpus::shard::shards;
use crate::restaurant::parameters::Parameters;

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

pub struct Sampler {
    plan: Plan,
    lexicon: Lexicon,
    hierarchies: Hierarchies,
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
    pub fn new(plan: &Plan, lexicon: &Lexicon, treebank: &Treebank, is_mine: impl Fn(u32) -> bool) -> Sampler {
        let lengths: Vec<u64> = treebank.sentences().map(|sentence| sentence.len() as u64).collect();
        let runs = shards(&lengths, plan.schedule.shards);
        let sentence = |number: usize| Sentence { words: lexicon.sentence(treebank, number), ..Sentence::default() };
        let own = (0..).zip(runs).filter(|(number, _)| is_mine(*number));
        Sampler {
            hierarchies: Hierarchies::new(plan, lexicon),
            plan: plan.clone(),
            lexicon: lexicon.clone(),
            sentences: own.map(|(number, run)| (number, run.map(sentence).collect())).collect(),
            gold: Gold::default(),
            arena: Configurations::default(),
            filter: Filter::default(),
            retained: vec![],
            exchange: Exchange::default(),
        }
    }

    /// What was learned.
    pub fn hierarchies(&self) -> Vec<Arc<KeptHierarchy>> {
        self.hierarchies.kept(&self.plan, &self.lexicon)
    }

    /// The derivations of all own sentences.
    #[cfg(test)]
    pub fn derivations(&self) -> Vec<Derivation> {
        self.sentences.values().flatten().map(|sentence| sentence.derivation.clone()).collect()
    }

    /// The customers of a sentence's derivation; `derivation` becomes as long as there are choices.
    fn customers(&mut self, derivation: &mut Derivation) -> Vec<Customer> {
        let Sampler { gold, arena, hierarchies, lexicon, plan, .. } = self;
        customers(gold, arena, hierarchies, lexicon, plan.model.lexicalised, derivation)
    }

    fn read(&mut self, sentence: &Sentence) {
        self.gold.set(sentence.words.iter().copied(), &self.lexicon);
    }

    /// Seats a sentence for the first time.
    fn seat(&mut self, sentence: &mut Sentence, rng: &mut Generator) {
        self.read(sentence);
        sentence.customers = self.customers(&mut sentence.derivation);
        for customer in &sentence.customers {
            self.hierarchies.add(customer, rng);
        }
    }

    /// Draws a sentence's derivation and seats anew.
    fn resample(&mut self, sentence: &mut Sentence, rng: &mut Generator) {
        if sentence.derivation.is_empty() {
            return sentence.customers.iter().for_each(|customer| self.hierarchies.reseat(customer, rng));
        }
        self.read(sentence);
        let Sampler { gold, arena, hierarchies, lexicon, plan, filter, retained: steps, exchange, .. } = self;
        let propose = |hierarchies: &mut Hierarchies, rng: &mut Generator| {
            let choices = ToGold { gold, hierarchies, lexicon, is_lexicalised: plan.model.lexicalised };
            steps.clear();
            arena.clear();
            let (mut answers, mut next) = (sentence.derivation.iter(), 0);
            let waits = || *answers.next().expect("an answer for each choice");
            gold.follow(arena, waits, |_, _, action| {
                steps.push(choices.step(action, next));
                next += u32::from(action.has_word());
            });
            arena.clear();
            let drawn = filter.draw(&choices, arena, gold.len(), steps, plan.training_particles, rng);
            let mut derivation = read_derivation(gold, arena, drawn.top);
            let customers = customers(gold, arena, hierarchies, lexicon, plan.model.lexicalised, &mut derivation);
            Proposal { derivation, customers, ratio_ln: drawn.retained_ln - drawn.ln }
        };
        if let Some(accepted) = exchange.step(hierarchies, &sentence.customers, propose, rng) {
            (sentence.derivation, sentence.customers) = (accepted.derivation, accepted.customers);
        }
    }

    fn rng(&self, purpose: Purpose, shard: u32, sweep: u64) -> Generator {
        generator(self.plan.seed, purpose, u64::from(shard), sweep)
    }

    fn is_alone(&self) -> bool {
        self.plan.schedule.shards == 1
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

impl Model for Sampler {
    /// Derivations of the sentences; and of the first shard, tables of all hierarchies.
    type Saved = (Vec<Derivation>, Vec<Vec<u32>>);
    type Shared = Vec<Parameters>;

    fn draw_shard(&mut self, number: u32, _: u32) {
        let mut rng = self.rng(Purpose::Initial, number, 0);
        self.each(number, |model, sentence| model.seat(sentence, &mut rng));
        let is_alone = self.is_alone();
        self.hierarchies.note(is_alone);
    }

    fn load_shard(&mut self, number: u32, (derivations, tables): Self::Saved) -> Result<(), String> {
        let cannot = |why: &str| format!("the checkpoint of shard {number} is not that of this parser: {why}");
        if self.sentences.get(&number).map_or(0, Vec::len) != derivations.len() {
            return Err(cannot("it has other sentences"));
        }
        let mut derivations = derivations.into_iter();
        self.each(number, |model, sentence| {
            sentence.derivation = derivations.next().expect("one for each");
            model.read(sentence);
            sentence.customers = model.customers(&mut sentence.derivation);
            sentence.customers.iter().for_each(|customer| model.hierarchies.load_customer(customer));
        });
        match number {
            0 => self.hierarchies.load(tables).map_err(|e| cannot(&e)),
            _ => Ok(()),
        }
    }

    fn save_shard(&self, number: u32) -> Self::Saved {
        let sentences = self.sentences.get(&number).into_iter().flatten();
        let tables = if number == 0 { self.hierarchies.save() } else { vec![] };
        (sentences.map(|sentence| sentence.derivation.clone()).collect(), tables)
    }

    /// Nothing: what was drawn or loaded is noted already.
    fn count_shard(&mut self, _: u32) {}

    fn sweep_shard(&mut self, number: u32, sweeps: Range<u64>, _: u32) {
        for sweep in sweeps {
            let mut rng = self.rng(Purpose::Sweep, number, sweep);
            self.each(number, |model, sentence| model.resample(sentence, &mut rng));
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
        if !self.plan.learns_after(sweep) || (self.is_alone() && !self.sentences.contains_key(&number)) {
            return vec![];
        }
        let mut rng = self.rng(Purpose::Statistics, number, sweep);
        self.hierarchies.statistics(number, self.plan.schedule.shards, &mut rng)
    }

    fn learn(&mut self, statistics: &[Vec<f64>], sweep: u64) {
        self.hierarchies.learn(&self.plan, statistics, sweep);
    }

    /// Nothing: sentences are parsed when training has ended.
    fn evaluate(&mut self, _: u32, _: u64) -> Vec<f64> {
        vec![]
    }

    fn shared(&self) -> Vec<Parameters> {
        self.hierarchies.parameters()
    }

    fn set_shared(&mut self, shared: Vec<Parameters>) {
        self.hierarchies.set_parameters(shared);
    }

    /// Tags, one for each word and the root.
    fn tokens(&self, number: u32) -> u64 {
        self.sentences.get(&number).into_iter().flatten().map(|sentence| sentence.words.len() as u64 + 1).sum()
    }
}
