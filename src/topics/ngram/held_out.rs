//! The probability of held-out documents under a topic n-gram model, from left to right (Wallach et al. 2009).
//!
//! As [`crate::topics::left_to_right`], with p_k(w | h) in the place of a topic's word distribution, and the coin of the
//! context where the model is SWITCHING:
//!
//! ```text
//! p(w | h, document so far) = p(l = 0 | h) p_0(w | h) + p(l = 1 | h) sum_k (n_k + alpha_k) / (n + A) p_k(w | h)
//! ```
//!
//! The topics' probabilities of a token do not depend on the particle: they are looked up once.

use multiversion::multiversion;

use super::sampler::accumulate;
use crate::cluster::rng::Generator;
use crate::math::draws::{unit, unit_f32};
use crate::math::lanes::{Block, find};
use crate::math::ln;

/// A document as the model sees it.
#[derive(Default)]
pub struct Seen {
    /// p_k(w | h), token by token.
    pub vectors: Vec<Block<f32>>,
    /// p(l = 1 | h) of each token; 1 where there are no coins.
    pub yes: Vec<f64>,
}

/// The prior of a document, and whether topic 0 is global.
#[derive(Clone, Copy)]
pub struct DocumentPrior<'a> {
    pub alpha: &'a [Block<f32>],
    pub strength: f64,
    pub topics: usize,
    pub has_global: bool,
}

#[derive(Clone)]
struct Particle {
    weight: f64,
    topics: Vec<u16>,
    counts: Vec<u32>,
    /// Tokens with a topic that is not the global one.
    with_topic: u32,
}

/// Shows ln p(word | those before it) of each token to `visit`.
pub fn each_token(
    seen: &Seen,
    prior: &DocumentPrior<'_>,
    particles: usize,
    resample: usize,
    rng: &mut Generator,
    mut visit: impl FnMut(usize, f64),
) {
    let particle = Particle { weight: 1.0, topics: vec![], counts: vec![0; prior.topics], with_topic: 0 };
    let mut particles = vec![particle; particles];
    let mut running = vec![Block::default(); prior.alpha.len()];
    for token in 0..seen.yes.len() {
        if resample > 0 && token > 0 && token.is_multiple_of(resample) {
            choose(&mut particles, rng);
            for particle in &mut particles {
                redraw(particle, seen, prior, token, &mut running, rng);
            }
        }
        let (mut weights, mut sum) = (0.0, 0.0);
        for particle in &mut particles {
            let predicted = draw(particle, seen, prior, token, &mut running, rng);
            weights += particle.weight;
            particle.weight *= predicted;
            sum += particle.weight;
        }
        let mean = sum / particles.len() as f64;
        particles.iter_mut().for_each(|particle| particle.weight /= mean);
        visit(token, ln(sum / weights));
    }
}

/// Draws the topic of a token, which has none; returns the token's probability.
#[inline(always)]
fn draw(
    particle: &mut Particle,
    seen: &Seen,
    prior: &DocumentPrior<'_>,
    token: usize,
    running: &mut [Block<f32>],
    rng: &mut Generator,
) -> f64 {
    let width = prior.alpha.len();
    let vector = &seen.vectors[token * width..(token + 1) * width];
    let (yes, whole) = (seen.yes[token], f64::from(particle.with_topic) + prior.strength);
    let global = prior.has_global.then(|| ((1.0 - yes) / yes * whole) as f32);
    let prefix = accumulate(&particle.counts, prior.alpha, vector, global, running);
    let topic = find(running, &prefix, unit_f32(rng) * prefix.total()).min(prior.topics - 1);
    if particle.topics.len() == token {
        particle.topics.push(topic as u16);
    } else {
        particle.topics[token] = topic as u16;
    }
    particle.counts[topic] += 1;
    particle.with_topic += u32::from(topic > 0 || !prior.has_global);
    f64::from(prefix.total()) * yes / whole
}

/// Draws all topics so far anew, by a pass of Gibbs sampling.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2", "x86_64+avx2", "aarch64+neon"))]
fn redraw(
    particle: &mut Particle,
    seen: &Seen,
    prior: &DocumentPrior<'_>,
    tokens: usize,
    running: &mut [Block<f32>],
    rng: &mut Generator,
) {
    for token in 0..tokens {
        let topic = usize::from(particle.topics[token]);
        particle.counts[topic] -= 1;
        particle.with_topic -= u32::from(topic > 0 || !prior.has_global);
        draw(particle, seen, prior, token, running, rng);
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
