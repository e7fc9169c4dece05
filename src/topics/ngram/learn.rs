//! What is learned beside topics: discounts and strengths by depth, shared by all topics, those of the coins, and the
//! prior over documents' topics (Noji et al. 2013, section 4.3); and how likely everything is together.
//!
//! ```text
//! ln p(w, z, seating) =   sum over restaurants of ln p(tables) (restaurant/parameters.rs), and of coins
//!                       + tables at the root * ln (1 / V)            words at the root are drawn from all alike
//!                       + sum over documents of ln p(topics | alpha)
//!                       + sum over dishes of ln (tables choose those that went up)      HIERARCHICAL
//!                       + sum over contexts of ln p(stops, passes)   where the order is infinite
//! ```
//!
//! Statistics of a part of the restaurants are made by each shard, and are added up.

use super::counts::Form;
use super::documents::Seating;
use super::model::NgramModel;
use super::rules::Rules;
use super::shard::{Places, part};
use crate::cluster::rng::{Generator, Purpose, generator};
use crate::math::{gamma_ln, ln};
use crate::restaurant::order::StopPrior;
use crate::restaurant::parameters::{Census, Hyperprior, Sums};
use crate::restaurant::tree::{Dish, Restaurant, Visits};
use crate::topics::prior::PriorStatistics;

impl Seating<'_> {
    /// Draws the auxiliary variables of a part of the restaurants of one depth, for all topics, and of the coins; adds ln p
    /// of their tables to `likelihood_ln`.
    pub fn draw_sums(
        &mut self,
        census: &mut Census,
        depth: usize,
        places: &[&Places],
        likelihood_ln: &mut f64,
        rng: &mut Generator,
    ) -> Vec<Sums> {
        let Seating { counts, rules, .. } = self;
        let restaurants = || places.iter().flat_map(|places| places.restaurants());
        census.clear();
        for restaurant in restaurants() {
            for entry in counts.restaurants.list(restaurant) {
                let (customers, tables) = (entry.customers as u32, entry.tables as u32);
                census.count_restaurant(Restaurant { customers, tables });
            }
        }
        for dish in places.iter().flat_map(|places| places.dishes()) {
            for entry in counts.dishes.list(dish) {
                let (customers, tables) = (entry.customers as u32, entry.tables as u32);
                census.count_dish(Dish { customers, tables, ..Dish::default() });
                if rules.has_labels(usize::from(entry.topic)) {
                    *likelihood_ln += choices_ln(entry.tables as f64, entry.ups as f64);
                }
            }
        }
        let (a, b) = (rules.parameters.discounts[depth], rules.parameters.strengths[depth]);
        *likelihood_ln += census.likelihood_ln(a, b, &mut rules.alone[depth]);
        let mut sums = vec![census.draw(a, b, &mut rules.alone[depth], rng)];
        if rules.form.has_global() {
            census.clear();
            for place in restaurants().map(|restaurant| restaurant as usize) {
                census.count_restaurant(counts.coins.restaurants[place]);
                counts.coins.dishes[2 * place..2 * place + 2].iter().for_each(|&dish| census.count_dish(dish));
            }
            let strength = rules.coins.parameters.strengths[depth];
            *likelihood_ln += census.likelihood_ln(0.0, strength, rules.coins.alone(depth));
            census.clear_dishes();
            sums.push(census.draw(0.0, strength, rules.coins.alone(depth), rng));
        }
        sums
    }

    /// ln p of what the tables of the root drew from below it.
    pub fn root_ln(&self) -> f64 {
        let Seating { tree, counts, rules } = self;
        let root = &tree.levels[0];
        let mut drawn = 0;
        for entry in root.dishes.clone().flat_map(|place| counts.dishes.list(place)) {
            let has_labels = rules.form == Form::Hierarchical && entry.topic > 0;
            drawn += if has_labels { entry.ups } else { entry.tables };
        }
        let mut sum = drawn as f64 * ln(rules.base);
        if rules.form.has_global() && !root.restaurants.is_empty() {
            let tables = counts.coins.restaurants[root.restaurants.start as usize].tables;
            sum += f64::from(tables) * ln(rules.coins.base);
        }
        sum
    }

    /// ln p of where tokens stopped, in a part of the restaurants; 0 where the order is fixed.
    pub fn orders_ln(&self, begin: u32, restaurants: impl Iterator<Item = u32>) -> f64 {
        let Seating { tree, counts, rules } = self;
        let Some(stop) = rules.stop else { return 0.0 };
        // From the longest contexts, and from those that begin a sentence, there is nowhere to go on to.
        let deepest = &tree.levels[tree.depth()].restaurants;
        let goes_on = |place: &u32| !deepest.contains(place) && tree.elements[*place as usize] != begin;
        restaurants.filter(goes_on).map(|place| visits_ln(&counts.visits[place as usize], &stop)).sum()
    }
}

/// ln p of the topics of documents' tokens, by their counts n_jk; `alpha` has the topics of documents, without a global one.
pub fn documents_ln(counts: &[u32], topics: usize, alpha: &[f64]) -> f64 {
    let strength: f64 = alpha.iter().sum();
    let first = topics - alpha.len();
    let mut sum = 0.0;
    for counts in counts.chunks_exact(topics) {
        let tokens: u32 = counts[first..].iter().sum();
        sum += gamma_ln(strength) - gamma_ln(strength + f64::from(tokens));
        for (&count, &alpha) in counts[first..].iter().zip(alpha).filter(|(count, _)| **count > 0) {
            sum += gamma_ln(alpha + f64::from(count)) - gamma_ln(alpha);
        }
    }
    sum
}

impl Rules {
    /// Draws discounts and strengths anew, from sums by depth, each followed by those of the coins.
    pub fn redraw(&mut self, mut sums: impl Iterator<Item = Sums>, rng: &mut Generator) {
        let (mut parameters, mut coins) = (self.parameters.clone(), self.coins.parameters.clone());
        let prior = Hyperprior::default();
        for depth in 0..parameters.discounts.len() {
            let of_depth = sums.next().expect("the sums of a depth");
            (parameters.discounts[depth], parameters.strengths[depth]) = of_depth.redraw(&prior, rng);
            if self.form.has_global() {
                coins.strengths[depth] = sums.next().expect("the sums of the coins").redraw(&prior, rng).1;
            }
        }
        self.set_parameters(parameters, coins);
    }
}

impl NgramModel {
    /// ln p(w, z, seating); then the sums of auxiliary variables by depth; then the statistics of the prior.
    pub(super) fn draw_statistics(&mut self, number: u32, sweep: u64) -> Vec<f64> {
        let shard = &self.shards[&number];
        let mut seating = Seating { tree: &self.tree, counts: &mut self.counts, rules: &mut self.rules };
        let restaurants = shard.places.iter().chain(&shard.of_top).flat_map(Places::restaurants);
        let mut likelihood_ln = seating.orders_ln(self.begin, restaurants);
        if number == 0 {
            likelihood_ln += seating.root_ln(); // there is one root, so one shard says it
        }
        let mut figures = vec![0.0];
        for depth in 0..self.tree.levels.len() {
            let mut rng = generator(self.setup.seed, Purpose::Statistics, u64::from(number), sweep << 8 | depth as u64);
            let places: Vec<&Places> =
                [&shard.places, &shard.of_top].into_iter().filter_map(|by_depth| by_depth.get(depth)).collect();
            let sums = seating.draw_sums(&mut self.census, depth, &places, &mut likelihood_ln, &mut rng);
            figures.extend(sums.into_iter().flat_map(|sums| sums.figures()));
        }
        let topics = self.setup.all_topics();
        let documents = part(self.documents.with_topic.len(), number, u64::from(self.setup.shards));
        let counts = &self.documents.counts[documents.start * topics..documents.end * topics];
        likelihood_ln += documents_ln(counts, topics, self.prior.alpha());
        let mut rng = generator(self.setup.seed, Purpose::Statistics, u64::from(number), u64::MAX - sweep);
        let first = usize::from(self.setup.form.has_global());
        let documents = counts.chunks_exact(topics).map(|counts| &counts[first..]);
        let statistics = PriorStatistics::of_counts(documents, &self.prior, &mut rng);
        figures[0] = likelihood_ln;
        figures.extend(statistics.tables.iter().map(|&tables| tables as f64));
        figures.extend([statistics.successes as f64, statistics.eta_ln]);
        figures
    }

    /// Draws discounts, strengths and the prior anew, from the statistics of all shards.
    pub(super) fn learn_parameters(&mut self, statistics: &[Vec<f64>], sweep: u64) {
        let mut sum = vec![0.0; statistics.iter().map(Vec::len).max().unwrap_or(0)];
        for of_shard in statistics {
            sum.iter_mut().zip(of_shard).for_each(|(sum, figure)| *sum += figure);
        }
        let mut rng = generator(self.setup.seed, Purpose::Hyperparameters, sweep, 0);
        self.rules.redraw(sum[1..].chunks_exact(4).map(Sums::from_figures), &mut rng);
        let of_prior = &sum[sum.len() - self.setup.topics - 2..];
        if self.setup.learn_alpha {
            let statistics = PriorStatistics {
                tables: of_prior[..self.setup.topics].iter().map(|&tables| tables as u64).collect(),
                successes: of_prior[self.setup.topics] as u64,
                eta_ln: of_prior[self.setup.topics + 1],
            };
            self.prior.redraw(&statistics, &mut rng);
        }
    }
}

/// ln of the number of ways to choose `some` of `all`.
fn choices_ln(all: f64, some: f64) -> f64 {
    if some == 0.0 || some == all {
        return 0.0;
    }
    gamma_ln(all + 1.0) - gamma_ln(some + 1.0) - gamma_ln(all - some + 1.0)
}

/// ln of the probability that these tokens stop at a context and pass it, its stop probability integrated out.
fn visits_ln(visits: &Visits, prior: &StopPrior) -> f64 {
    let beta_ln = |a: f64, b: f64| gamma_ln(a) + gamma_ln(b) - gamma_ln(a + b);
    beta_ln(prior.alpha + f64::from(visits.stops), prior.beta + f64::from(visits.passes))
        - beta_ln(prior.alpha, prior.beta)
}
