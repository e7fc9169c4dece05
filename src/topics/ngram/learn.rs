//! What is learned beside topics: discounts and strengths by depth, shared by all topics, those of the coins, and the
//! prior over documents' topics (Noji et al. 2013, section 4.3); and how likely everything is together.
//!
//! ```text
//! ln p(w, z, seating) =   sum over restaurants of ln p(tables) (restaurant/parameters.rs), and of coins
//!                       + tables at the root * ln (1 / V)            words at the root are drawn from all alike
//!                       + sum over documents of ln p(topics | alpha)
//!                       + sum over contexts of ln p(stops, passes)   where the order is infinite
//! ```
//!
//! Statistics of a part of the restaurants are made by each shard, and are added up.

use super::counts::Form;
use super::model::NgramModel;
use crate::cluster::rng::{Purpose, generator};
use crate::math::{gamma_ln, ln};
use crate::restaurant::order::StopPrior;
use crate::restaurant::parameters::{Hyperprior, Sums};
use crate::restaurant::tree::{Dish, Restaurant, Visits};
use crate::topics::prior::PriorStatistics;

impl NgramModel {
    /// ln p(w, z, seating); then the sums of auxiliary variables by depth; then the statistics of the prior.
    pub(super) fn draw_statistics(&mut self, number: u32, sweep: u64) -> Vec<f64> {
        let mut figures = vec![self.rest_ln(number)];
        for depth in 0..self.tree.levels.len() {
            let sums = self.draw_sums(number, depth, sweep, &mut figures[0]);
            figures.extend(sums.into_iter().flat_map(|sums| sums.figures()));
        }
        let mut statistics = PriorStatistics::new(self.setup.topics);
        if let Some(shard) = self.shards.get(&number) {
            let mut rng = generator(self.setup.seed, Purpose::Statistics, u64::from(number), u64::MAX - sweep);
            let first = usize::from(self.setup.form.has_global());
            let documents = shard.counts.chunks_exact(self.setup.all_topics()).map(|counts| &counts[first..]);
            statistics = PriorStatistics::of_counts(documents, &self.prior, &mut rng);
        }
        figures.extend(statistics.tables.iter().map(|&tables| tables as f64));
        figures.extend([statistics.successes as f64, statistics.eta_ln]);
        figures
    }

    /// Draws the auxiliary variables of a shard's part of the restaurants of one depth, for all topics, and of the coins;
    /// adds ln p of their tables to `likelihood_ln`.
    fn draw_sums(&mut self, number: u32, depth: usize, sweep: u64, likelihood_ln: &mut f64) -> Vec<Sums> {
        let mut rng = generator(self.setup.seed, Purpose::Statistics, u64::from(number), sweep << 8 | depth as u64);
        let level = self.tree.levels[depth].clone();
        let mut census = std::mem::take(&mut self.census);
        let (restaurants, dishes) = (self.part(number, level.restaurants.len()), self.part(number, level.dishes.len()));
        census.clear();
        for place in restaurants.clone() {
            for entry in self.counts.restaurants.list(level.restaurants.start + place as u32) {
                let (customers, tables) = (entry.customers as u32, entry.tables as u32);
                census.count_restaurant(Restaurant { customers, tables });
            }
        }
        for place in dishes {
            for entry in self.counts.dishes.list(level.dishes.start + place as u32) {
                let (customers, tables) = (entry.customers as u32, entry.tables as u32);
                census.count_dish(Dish { customers, tables, ..Dish::default() });
            }
        }
        let (a, b) = (self.rules.parameters.discounts[depth], self.rules.parameters.strengths[depth]);
        *likelihood_ln += census.likelihood_ln(a, b, &mut self.rules.alone[depth]);
        let mut sums = vec![census.draw(a, b, &mut self.rules.alone[depth], &mut rng)];
        if self.setup.form.has_global() {
            census.clear();
            for place in restaurants {
                let place = level.restaurants.start as usize + place;
                census.count_restaurant(self.counts.coins.restaurants[place]);
                self.counts.coins.dishes[2 * place..2 * place + 2].iter().for_each(|&dish| census.count_dish(dish));
            }
            let strength = self.rules.coins.parameters.strengths[depth];
            *likelihood_ln += census.likelihood_ln(0.0, strength, self.rules.coins.alone(depth));
            census.clear_dishes();
            sums.push(census.draw(0.0, strength, self.rules.coins.alone(depth), &mut rng));
        }
        self.census = census;
        sums
    }

    /// What ln p(w, z, seating) has of a shard beside its part of the restaurants.
    fn rest_ln(&self, number: u32) -> f64 {
        let mut sum = 0.0;
        if number == 0 {
            // There is one root, so one shard says what its tables drew from the base.
            let root = self.tree.levels[0].clone();
            for place in root.dishes {
                for entry in self.counts.dishes.list(place) {
                    let has_labels = self.setup.form == Form::Hierarchical && entry.topic > 0;
                    sum += (if has_labels { entry.ups } else { entry.tables }) as f64 * ln(self.rules.base);
                }
            }
            if self.setup.form.has_global() {
                let tables = self.counts.coins.restaurants[root.restaurants.start as usize].tables;
                sum += f64::from(tables) * ln(self.rules.coins.base);
            }
        }
        if let Some(stop) = self.rules.stop {
            // From the longest contexts, and from those that begin a sentence, there is nowhere to go on to.
            let deepest = &self.tree.levels[self.tree.depth()].restaurants;
            for place in self.part(number, self.counts.visits.len()) {
                if !deepest.contains(&(place as u32)) && self.tree.elements[place] != self.begin {
                    sum += visits_ln(&self.counts.visits[place], &stop);
                }
            }
        }
        let first = usize::from(self.setup.form.has_global());
        let (alpha, strength) = (self.prior.alpha(), self.prior.strength());
        for counts in self.shards.get(&number).into_iter().flat_map(|s| s.counts.chunks_exact(self.setup.all_topics()))
        {
            let tokens: u32 = counts[first..].iter().sum();
            sum += gamma_ln(strength) - gamma_ln(strength + f64::from(tokens));
            for (&count, &alpha) in counts[first..].iter().zip(alpha).filter(|(count, _)| **count > 0) {
                sum += gamma_ln(alpha + f64::from(count)) - gamma_ln(alpha);
            }
        }
        sum
    }

    /// Draws discounts, strengths and the prior anew, from the statistics of all shards.
    pub(super) fn learn_parameters(&mut self, statistics: &[Vec<f64>], sweep: u64) {
        let mut sum = vec![0.0; statistics.iter().map(Vec::len).max().unwrap_or(0)];
        for of_shard in statistics {
            sum.iter_mut().zip(of_shard).for_each(|(sum, figure)| *sum += figure);
        }
        let mut rng = generator(self.setup.seed, Purpose::Hyperparameters, sweep, 0);
        let (mut parameters, mut coins) = (self.rules.parameters.clone(), self.rules.coins.parameters.clone());
        let mut figures = sum[1..].chunks_exact(4);
        let prior = Hyperprior::default();
        for depth in 0..parameters.discounts.len() {
            let sums = Sums::from_figures(figures.next().expect("figures of a depth"));
            (parameters.discounts[depth], parameters.strengths[depth]) = sums.redraw(&prior, &mut rng);
            if self.setup.form.has_global() {
                let sums = Sums::from_figures(figures.next().expect("figures of the coins"));
                coins.strengths[depth] = sums.redraw(&prior, &mut rng).1;
            }
        }
        let of_prior = &sum[sum.len() - self.setup.topics - 2..];
        if self.setup.learn_alpha {
            let statistics = PriorStatistics {
                tables: of_prior[..self.setup.topics].iter().map(|&tables| tables as u64).collect(),
                successes: of_prior[self.setup.topics] as u64,
                eta_ln: of_prior[self.setup.topics + 1],
            };
            self.prior.redraw(&statistics, &mut rng);
        }
        self.rules.set_parameters(parameters, coins);
    }
}

/// ln of the probability that these tokens stop at a context and pass it, its stop probability integrated out.
fn visits_ln(visits: &Visits, prior: &StopPrior) -> f64 {
    let beta_ln = |a: f64, b: f64| gamma_ln(a) + gamma_ln(b) - gamma_ln(a + b);
    beta_ln(prior.alpha + f64::from(visits.stops), prior.beta + f64::from(visits.passes))
        - beta_ln(prior.alpha, prior.beta)
}
