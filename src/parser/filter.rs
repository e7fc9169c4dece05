//! A conditional particle filter: draws a derivation, given one that is retained (particle Gibbs; Andrieu et al. 2010).
//!
//! K particles, one of them on the retained derivation, take steps with probabilities proportional to q among what is
//! possible, until they have shifted a word; a particle's weight is the product of p over its share of q. Then the K - 1
//! others are drawn anew by weight. At the end one of the K is drawn. (Were q the same as p, hardly a particle would shift
//! where it can add an arc, since p of a shift has p of the word in it.) This leaves the distribution
//!
//! ```text
//! pi(d)  proportional to  the product of p over the steps of d, with fixed counts
//! ```
//!
//! as it is, for any K >= 2 and any positive q, and is reversible (Chopin & Singh 2015): so a caller whose counts are not fixed can correct
//! for that by accepting or rejecting.
//!
//! Particles that have done the same so far are one group with their number, so the cost is that of the derivations that
//! differ, not of K.

use super::action::Action;
use super::configuration::{Configurations, NOTHING};
use super::weight::Weight;
use crate::cluster::rng::Generator;
use crate::math::draws::{binomial, unit};

/// A step of a derivation; words have a tag and a form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    pub action: Action,
    pub tag: u32,
    pub form: u32,
}

/// A step that can be taken.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    pub step: Step,
    pub p: f64,
    /// In proportion to this it is tried.
    pub q: f64,
    /// The part of p that comes of distributions which learn.
    pub learned: f64,
}

/// What is possible, and with which probability.
pub trait Choices {
    /// The steps that can be taken where `next` words have been shifted; none at the end.
    fn choices(&self, arena: &Configurations, top: u32, next: u32, choices: &mut Vec<Choice>);
}

/// Particles that share a derivation.
#[derive(Clone, Copy, Debug)]
struct Group {
    top: u32,
    /// How many, the retained one included.
    particles: u32,
    /// Of each of them, since they were last drawn anew.
    weight: f64,
    /// The product of what is learned of p, over the steps of the derivation.
    learned: Weight,
    /// The steps taken, where the retained particle is among them.
    retained: Option<usize>,
}

/// What a filter has drawn.
#[derive(Clone, Copy, Debug)]
pub struct Drawn {
    pub top: u32,
    /// ln of the product of what is learned of p, over the steps: of the derivation that was drawn, and of the retained one.
    pub ln: f64,
    pub retained_ln: f64,
}

/// Its buffers are reused.
#[derive(Default)]
pub struct Filter {
    open: Vec<Group>,
    shifted: Vec<Group>,
    choices: Vec<Choice>,
    shares: Vec<u32>,
}

impl Filter {
    /// Draws a derivation of `words` words, where `retained` is one of them.
    pub fn draw(
        &mut self,
        choices: &impl Choices,
        arena: &mut Configurations,
        words: u32,
        retained: &[Step],
        particles: u32,
        rng: &mut Generator,
    ) -> Drawn {
        self.open.clear();
        self.open.push(Group { top: NOTHING, particles, weight: 1.0, learned: Weight::ONE, retained: Some(0) });
        // After the last word, what is left to be done.
        for next in 0..=words {
            self.shifted.clear();
            while let Some(group) = self.open.pop() {
                self.advance(choices, arena, next, group, retained, rng);
            }
            std::mem::swap(&mut self.open, &mut self.shifted);
            if next < words {
                self.select(particles, rng);
            }
        }
        self.end(rng)
    }

    /// Takes one step with every particle of a group.
    fn advance(
        &mut self,
        choices: &impl Choices,
        arena: &mut Configurations,
        next: u32,
        group: Group,
        retained: &[Step],
        rng: &mut Generator,
    ) {
        self.choices.clear();
        choices.choices(arena, group.top, next, &mut self.choices);
        if self.choices.is_empty() {
            return self.shifted.push(group);
        }
        let sum: f64 = self.choices.iter().map(|choice| choice.q).sum();
        let kept = group.retained.map(|at| {
            let is_kept = |choice: &Choice| choice.step == retained[at];
            self.choices.iter().position(is_kept).expect("the retained derivation is possible")
        });
        let others = group.particles - u32::from(kept.is_some());
        deal(others, self.choices.iter().map(|choice| choice.q), &mut self.shares, rng);
        for (at, &Choice { step, p, q, learned }) in self.choices.iter().enumerate() {
            let is_kept = kept == Some(at);
            let particles = self.shares[at] + u32::from(is_kept);
            if particles == 0 {
                continue;
            }
            let has_word = step.action.has_word();
            let top = match has_word {
                true => arena.generate(group.top, step.action, next, step.tag, step.form),
                false => arena.reduce(group.top, step.action),
            };
            let new = Group {
                top,
                particles,
                weight: group.weight * sum * p / q,
                learned: group.learned.times(learned),
                retained: group.retained.filter(|_| is_kept).map(|at| at + 1),
            };
            if has_word { self.shifted.push(new) } else { self.open.push(new) }
        }
    }

    /// Draws all particles but the retained one anew, by weight.
    fn select(&mut self, particles: u32, rng: &mut Generator) {
        if self.open.len() > 1 {
            let top = self.open.iter().map(|group| group.weight).fold(0.0, f64::max);
            let weights = self.open.iter().map(|group| f64::from(group.particles) * (group.weight / top));
            deal(particles - 1, weights, &mut self.shares, rng);
            for (group, &share) in self.open.iter_mut().zip(&self.shares) {
                group.particles = share + u32::from(group.retained.is_some());
            }
            self.open.retain(|group| group.particles > 0);
        }
        self.open.iter_mut().for_each(|group| group.weight = 1.0);
    }

    /// Draws one of the particles by weight.
    fn end(&self, rng: &mut Generator) -> Drawn {
        let top = self.open.iter().map(|group| group.weight).fold(0.0, f64::max);
        let score = |group: &Group| f64::from(group.particles) * (group.weight / top);
        let mut lot = unit(rng) * self.open.iter().map(score).sum::<f64>();
        let drawn = self.open.iter().find(|group| {
            lot -= score(group);
            lot < 0.0
        });
        let drawn = drawn.or(self.open.last()).expect("a particle");
        let retained = self.open.iter().find(|group| group.retained.is_some()).expect("the retained one stays");
        Drawn { top: drawn.top, ln: drawn.learned.ln(), retained_ln: retained.learned.ln() }
    }
}

/// Deals particles one by one, by weight.
fn deal(mut particles: u32, weights: impl Iterator<Item = f64> + Clone, shares: &mut Vec<u32>, rng: &mut Generator) {
    shares.clear();
    let mut left: f64 = weights.clone().sum();
    let last = weights.clone().count() - 1;
    for (at, weight) in weights.enumerate() {
        let share = match at == last || particles == 0 {
            true => particles,
            false => binomial(u64::from(particles), (weight / left).min(1.0), rng) as u32,
        };
        shares.push(share);
        particles -= share;
        left -= weight;
    }
}
