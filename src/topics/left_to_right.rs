//! The probability of held-out documents, from left to right (Wallach et al. 2009).
//!
//! ```text
//! p(w_1 .. w_N) = prod_n sum_k p(w_n, z_n = k | w_<n),    phi_kw = (n_kw + beta) / (n_k + V beta) fixed
//! ```
//!
//! Each of R particles holds topics of the words so far. A word's probability under a particle is
//! sum_k (n_k + alpha_k) phi_kw / (n + A), n counting the particle's topics; the estimate is the mean over particles,
//! and each particle then draws the word's topic. Before every `resample`-th word each particle draws all of its earlier
//! topics anew by a pass of Gibbs sampling, which leaves p(z_<n | w_<n) invariant.
//!
//! The plain mean of that method is unbiased for one particle only: a product of means of particles that were drawn
//! without regard to how well they predicted is not. So particles carry weights, the product of the probabilities that
//! they gave since the last pass; the mean is weighted, and before a pass particles are chosen in proportion to their
//! weights (systematic choice). That is a resample-move particle filter, whose product of means is unbiased for any
//! number of particles (Del Moral 2004, 7.4.2), at no further cost.
//!
//! Time O(R N^2 / resample) draws for a document of N words, each O(K / 16); memory O(R (N + K)).

use multiversion::multiversion;

use super::counts::TopicCounts;
use super::dense::accumulate;
use super::prior::Prior;
use crate::cluster::rng::Generator;
use crate::math::draws::{unit, unit_f32};
use crate::math::lanes::{Block, LANES, blocks, find};
use crate::math::{ln, pairs};

/// ln p of held-out words, and their number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HeldOut {
    pub probability_ln: f64,
    pub words: u64,
}

impl HeldOut {
    pub fn add(&mut self, next: HeldOut) {
        self.probability_ln += next.probability_ln;
        self.words += next.words;
    }

    /// exp of the mean negative logarithm.
    pub fn perplexity(&self) -> f64 {
        libm::exp(-self.probability_ln / self.words as f64)
    }
}

/// More particles only cost memory.
pub const MOST_PARTICLES: usize = 1 << 20;

/// The method's two settings.
#[derive(Clone, Copy, Debug)]
pub struct LeftToRight {
    /// R, at least 1.
    pub particles: usize,
    /// All earlier topics are drawn anew before every so many words; 0: never.
    pub resample: usize,
}

impl LeftToRight {
    /// ln p of one document, whose words are rows of `counts`. Documents are independent: key a generator by each.
    pub fn document(&self, counts: &TopicCounts, prior: &Prior, words: &[u32], rng: &mut Generator) -> HeldOut {
        let mut probability_ln = 0.0;
        self.each_word(counts, prior, words, rng, |_, word_ln| probability_ln += word_ln);
        HeldOut { probability_ln, words: words.len() as u64 }
    }

    /// Shows each word of a document and the estimate of ln p(word | those before it) to `visit`.
    pub fn each_word(
        &self,
        counts: &TopicCounts,
        prior: &Prior,
        words: &[u32],
        rng: &mut Generator,
        visit: impl FnMut(u32, f64),
    ) {
        self.walk(counts, prior, words, rng, |_, _| (), visit);
    }

    /// Shows, before each word of a document is seen, its place and m to `visit`, where the estimate of
    /// p(w | those before it) is sum_k m_k (n_kw + beta) for every word w.
    pub fn each_mixture(
        &self,
        counts: &TopicCounts,
        prior: &Prior,
        words: &[u32],
        rng: &mut Generator,
        mut visit: impl FnMut(usize, &[Block<f32>]),
    ) {
        let mut mixture = vec![Block::default(); blocks(counts.topics())];
        let show = |n: usize, filter: &Filter| {
            filter.mix(1.0 / (n as f64 + prior.strength()), &mut mixture);
            visit(n, &mixture);
        };
        self.walk(counts, prior, words, rng, show, |_, _| ());
    }

    /// Goes through a document: `before` is shown the particles before each word, `after` the word and its ln p.
    fn walk(
        &self,
        counts: &TopicCounts,
        prior: &Prior,
        words: &[u32],
        rng: &mut Generator,
        mut before: impl FnMut(usize, &Filter),
        mut after: impl FnMut(u32, f64),
    ) {
        assert!(self.particles > 0, "at least one particle");
        let mut filter = Filter::new(self.particles, counts, prior);
        for n in 0..words.len() {
            if self.resample > 0 && n > 0 && n.is_multiple_of(self.resample) {
                filter.choose(rng);
                filter.redraw(counts, &words[..n], rng);
            }
            before(n, &filter);
            after(words[n], ln(filter.predict(counts, words[n], rng) / (n as f64 + prior.strength())));
        }
    }
}

/// The particles of one document, and what they share.
struct Filter {
    particles: Vec<Particle>,
    spare: Vec<Particle>,
    alpha: Vec<f32>,
    inverse: Vec<f32>,
    beta: f32,
    running: Vec<Block<f32>>,
}

#[derive(Clone)]
struct Particle {
    /// Relative to the mean of all.
    weight: f64,
    topics: Vec<u16>,
    counts: Vec<i32>,
    /// (n_k + alpha_k) / (n_k over the training corpus + V beta), as in [`super::dense`].
    weights: Vec<Block<f32>>,
}

impl Filter {
    fn new(particles: usize, counts: &TopicCounts, prior: &Prior) -> Filter {
        let mass = prior.vocabulary_mass();
        let inverse: Vec<f32> = counts.totals().iter().map(|&total| (1.0 / (total as f64 + mass)) as f32).collect();
        let alpha: Vec<f32> = prior.alpha().iter().map(|&alpha| alpha as f32).collect();
        let mut weights = vec![Block::default(); blocks(alpha.len())];
        for topic in 0..alpha.len() {
            weights[topic / LANES].0[topic % LANES] = alpha[topic] * inverse[topic];
        }
        let particle = Particle { weight: 1.0, topics: Vec::new(), counts: vec![0; alpha.len()], weights };
        Filter {
            running: vec![Block::default(); particle.weights.len()],
            particles: vec![particle; particles],
            spare: Vec::new(),
            alpha,
            inverse,
            beta: prior.beta() as f32,
        }
    }

    /// The weighted mean over particles of (n_k + alpha_k) / (n_k over the training corpus + V beta), times `scale`.
    fn mix(&self, scale: f64, mixture: &mut [Block<f32>]) {
        let all: f64 = self.particles.iter().map(|particle| particle.weight).sum();
        mixture.fill(Block::default());
        for particle in &self.particles {
            let share = (particle.weight * scale / all) as f32;
            pairs::each_mut(mixture, &particle.weights, |sums, weights| {
                for lane in 0..LANES {
                    sums.0[lane] += share * weights.0[lane];
                }
            });
        }
    }

    /// Chooses as many particles as there are, in proportion to their weights, which become 1: particle r is taken as
    /// often as a comb of equal spacing with one random offset meets its share.
    fn choose(&mut self, rng: &mut Generator) {
        let sum: f64 = self.particles.iter().map(|particle| particle.weight).sum();
        let spacing = sum / self.particles.len() as f64;
        let (mut tooth, mut passed) = (unit(rng) * spacing, 0.0);
        std::mem::swap(&mut self.particles, &mut self.spare);
        self.particles.clear();
        for particle in &self.spare {
            passed += particle.weight;
            while tooth < passed && self.particles.len() < self.spare.len() {
                self.particles.push(Particle { weight: 1.0, ..particle.clone() });
                tooth += spacing;
            }
        }
        // Rounding may leave the last tooth over.
        while self.particles.len() < self.spare.len() {
            let last = self.spare.last().expect("a particle");
            self.particles.push(Particle { weight: 1.0, ..last.clone() });
        }
    }

    /// A pass of Gibbs sampling over the topics of `words`, for each particle.
    fn redraw(&mut self, counts: &TopicCounts, words: &[u32], rng: &mut Generator) {
        let Filter { particles, alpha, inverse, beta, running, .. } = self;
        let model = Model { counts, alpha, inverse, beta: *beta };
        for particle in particles {
            redraw_topics(particle, &model, words, running, rng);
        }
    }

    /// The weighted mean of sum_k (n_k + alpha_k) phi_kw; each particle takes a topic for the word.
    fn predict(&mut self, counts: &TopicCounts, word: u32, rng: &mut Generator) -> f64 {
        let Filter { particles, alpha, inverse, beta, running, .. } = self;
        let model = Model { counts, alpha, inverse, beta: *beta };
        let (mut weights, mut sum) = (0.0, 0.0);
        for particle in particles.iter_mut() {
            let prefix = accumulate(&particle.weights, counts.row(word), *beta, running);
            let predicted = f64::from(prefix.total());
            weights += particle.weight;
            particle.weight *= predicted;
            sum += particle.weight;
            let topic = find(running, &prefix, unit_f32(rng) * prefix.total());
            particle.topics.push(topic as u16);
            particle.change(topic, 1, &model);
        }
        // Relative weights only: they would vanish in a long document without passes.
        let mean = sum / particles.len() as f64;
        particles.iter_mut().for_each(|particle| particle.weight /= mean);
        sum / weights
    }
}

/// What a particle's weights are made of.
struct Model<'a> {
    counts: &'a TopicCounts,
    alpha: &'a [f32],
    inverse: &'a [f32],
    beta: f32,
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq+avx2", "x86_64+avx2", "aarch64+neon"))]
fn redraw_topics(
    particle: &mut Particle,
    model: &Model<'_>,
    words: &[u32],
    running: &mut [Block<f32>],
    rng: &mut Generator,
) {
    for (position, &word) in words.iter().enumerate() {
        particle.change(particle.topics[position] as usize, -1, model);
        let prefix = accumulate(&particle.weights, model.counts.row(word), model.beta, running);
        let topic = find(running, &prefix, unit_f32(rng) * prefix.total());
        particle.topics[position] = topic as u16;
        particle.change(topic, 1, model);
    }
}

impl Particle {
    #[inline(always)]
    fn change(&mut self, topic: usize, by: i32, model: &Model<'_>) {
        self.counts[topic] += by;
        let weight = (self.counts[topic] as f32 + model.alpha[topic]) * model.inverse[topic];
        self.weights[topic / LANES].0[topic % LANES] = weight;
    }
}
