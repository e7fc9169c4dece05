//! The probability of held-out documents under a topic n-gram model, from left to right (Wallach et al. 2009).
//!
//! As [`crate::topics::left_to_right`], with p_k(w | h) in the place of a topic's word distribution, and the coin of the
//! context where the model is SWITCHING:
//!
//! ```text
//! p(w | h, document so far) = p(l = 0 | h) p_0(w | h) + p(l = 1 | h) sum_k (n_k + alpha_k) / (n + A) p_k(w | h)
//! ```
//!
//! (where the order is infinite, summed over n with p(n | h) and h_n for h). What does not depend on the particle is looked
//! up once for a token: one vector, with the coin in it ([`super::descent::Descent::mix`]).

use multiversion::multiversion;

use super::counts::Form;
use super::documents::{Alpha, accumulate};
use crate::cluster::rng::Generator;
use crate::math::draws::{unit, unit_f32};
use crate::math::lanes::{Block, find};
use crate::math::ln;

/// The vectors of a document's tokens, one after the other.
pub type Seen = Vec<Block<f32>>;

/// Who reads a document: particles, each with topics for the tokens so far.
pub struct Reader<'a> {
    alpha: &'a Alpha,
    form: Form,
    topics: usize,
    /// Tokens between two resamplings.
    resample: usize,
    particles: Vec<Particle>,
    seen: Seen,
    tokens: usize,
    running: Vec<Block<f32>>,
}

#[derive(Clone)]
struct Particle {
    weight: f64,
    topics: Vec<u16>,
    counts: Vec<u32>,
    /// Tokens with a topic that is not the global one.
    with_topic: u32,
}

impl<'a> Reader<'a> {
    /// At the begin of a document. `topics`: with a global one.
    pub fn new(alpha: &'a Alpha, form: Form, topics: usize, particles: usize, resample: usize) -> Reader<'a> {
        let particle = Particle { weight: 1.0, topics: vec![], counts: vec![0; topics], with_topic: 0 };
        let running = vec![Block::default(); alpha.blocks.len()];
        let particles = vec![particle; particles];
        Reader { alpha, form, topics, resample, particles, seen: vec![], tokens: 0, running }
    }

    /// Whether the first topic is the global one, of no document.
    fn has_global(&self) -> bool {
        self.form.has_global()
    }

    /// Takes the vector of the next token; returns ln p(word | those before it).
    pub fn read(&mut self, vector: &[Block<f32>], rng: &mut Generator) -> f64 {
        if self.resample > 0 && self.tokens > 0 && self.tokens.is_multiple_of(self.resample) {
            choose(&mut self.particles, rng);
            let mut particles = std::mem::take(&mut self.particles);
            particles.iter_mut().for_each(|particle| redraw(self, particle, rng));
            self.particles = particles;
        }
        self.seen.extend_from_slice(vector);
        let (mut weights, mut sum) = (0.0, 0.0);
        let mut particles = std::mem::take(&mut self.particles);
        for particle in &mut particles {
            let predicted = self.draw(particle, self.tokens, rng);
            weights += particle.weight;
            particle.weight *= predicted;
            sum += particle.weight;
        }
        let mean = sum / particles.len() as f64;
        particles.iter_mut().for_each(|particle| particle.weight /= mean);
        self.particles = particles;
        self.tokens += 1;
        ln(sum / weights)
    }

    /// The document's topics as they stand: (n_k + alpha_k) / (n + A), the mean over particles, in order of topics.
    pub fn shares(&self) -> Vec<f64> {
        let mut shares = vec![0.0; self.topics];
        let weights: f64 = self.particles.iter().map(|particle| particle.weight).sum();
        for particle in &self.particles {
            let whole = f64::from(particle.with_topic) + self.alpha.strength;
            let lanes = self.alpha.blocks.iter().flat_map(|block| block.0);
            for ((share, &count), alpha) in shares.iter_mut().zip(&particle.counts).zip(lanes) {
                *share += particle.weight / weights * (f64::from(count) + f64::from(alpha)) / whole;
            }
        }
        if self.has_global() {
            shares.remove(0);
        }
        shares
    }

    /// Draws the topic of a token, which has none; returns the token's probability.
    #[inline(always)]
    fn draw(&mut self, particle: &mut Particle, token: usize, rng: &mut Generator) -> f64 {
        let width = self.alpha.blocks.len();
        let vector = &self.seen[token * width..(token + 1) * width];
        let whole = f64::from(particle.with_topic) + self.alpha.strength;
        let global = (self.form == Form::Switching).then_some(whole as f32);
        let prefix = accumulate(&particle.counts, &self.alpha.blocks, vector, global, &mut self.running);
        let total = prefix.total();
        let lot = unit_f32(rng) * total;
        // With extreme counts, every weight may be too small for a number: then one topic is as good as any.
        let has_weight = total > 0.0 && total.is_finite();
        let topic = if has_weight { find(&self.running, &prefix, lot).min(self.topics - 1) } else { 0 };
        if particle.topics.len() == token {
            particle.topics.push(topic as u16);
        } else {
            particle.topics[token] = topic as u16;
        }
        particle.counts[topic] += 1;
        particle.with_topic += u32::from(topic > 0 || !self.has_global());
        f64::from(prefix.total()) / whole
    }
}

/// Draws all topics so far anew, by a pass of Gibbs sampling.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2", "x86_64+avx2", "aarch64+neon"))]
fn redraw(reader: &mut Reader<'_>, particle: &mut Particle, rng: &mut Generator) {
    for token in 0..reader.tokens {
        let topic = usize::from(particle.topics[token]);
        particle.counts[topic] -= 1;
        particle.with_topic -= u32::from(topic > 0 || !reader.has_global());
        reader.draw(particle, token, rng);
    }
}

/// Chooses as many particles as there are, in proportion to their weights, which become 1 (systematic choice).
fn choose(particles: &mut Vec<Particle>, rng: &mut Generator) {
    let sum: f64 = particles.iter().map(|particle| particle.weight).sum();
    let spacing = sum / particles.len() as f64;
    let (mut tooth, mut passed) = (unit(rng) * spacing, 0.0);
    let mut chosen: Vec<Particle> = Vec::with_capacity(particles.len());
    for particle in particles.iter() {
        passed += particle.weight;
        while tooth < passed && chosen.len() < particles.len() {
            chosen.push(Particle { weight: 1.0, ..particle.clone() });
            tooth += spacing;
        }
    }
    while chosen.len() < particles.len() {
        chosen.push(Particle { weight: 1.0, ..particles[particles.len() - 1].clone() });
    }
    *particles = chosen;
}
