//! A language model as it is kept: the restaurants that have customers, from the root on, ready to be looked up.
//!
//! The shape of the tree is a [`KeptTree`]; what belongs to restaurants and dishes is kept beside it, by their numbers.
//!
//! Written are the counts, 12 bytes for a dish and 12 for a restaurant. On reading, the weights that a probability needs
//! are made from them: p(w | h) = seats + share * p(w | h'), where seats = (c - a t) / (C + b) is 0 for a word that the
//! restaurant does not serve, and share = (b + a T) / (C + b).

use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::job::Plan;
use super::text::{BEGIN, END, Symbols};
use crate::corpus::tokens::Tokenisation;
use crate::corpus::vocabulary::Vocabulary;
use crate::error::{Result, ensure, is_positive};
use crate::job::model_file::{self, Stored};
use crate::restaurant::counted::Counted;
use crate::restaurant::kept::KeptTree;
use crate::restaurant::order::StopPrior;
use crate::restaurant::parameters::Parameters;
use crate::restaurant::seating::DEEPEST;
use crate::restaurant::tree::Visits;

/// The kind in model files.
pub const KIND: &str = "hpylm";

/// The format of model files of this kind; raise it with every change to what is written.
pub const FORMAT: u32 = 1;

/// What is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    pub vocabulary: Vocabulary,
    pub tokenisation: Tokenisation,
    pub longest: u32,
    /// alpha and beta of the prior of stopping, where the order is infinite.
    pub stop: Option<[f64; 2]>,
    pub parameters: Parameters,
    tree: KeptTree,
    /// By restaurant: tokens that stop there and that pass, where the order is infinite.
    visits: Vec<(u32, u32)>,
    /// By dish.
    customers: Vec<u32>,
    tables: Vec<u32>,
}

impl Kept {
    /// What was learned of all tokens.
    pub fn new(vocabulary: Vocabulary, plan: &Plan, parameters: Parameters, counted: Counted) -> Kept {
        let Counted { tree, visits, customers, tables } = counted;
        Kept {
            vocabulary,
            tokenisation: plan.corpus.tokenisation.clone(),
            longest: plan.order.longest() as u32,
            stop: plan.order.stop().map(|stop| [stop.alpha, stop.beta]),
            parameters,
            tree,
            visits,
            customers,
            tables,
        }
    }
}

impl Stored for Kept {
    const KIND: &'static str = KIND;
    const FORMAT: u32 = FORMAT;

    fn validate(&self) -> Result<(), String> {
        let symbols = Symbols::new(&self.vocabulary);
        let depths = self.longest as usize;
        ensure((1..=DEEPEST + 1).contains(&depths), "the length of n-grams")?;
        self.parameters.validate(depths)?;
        self.tree.validate(depths, symbols.outcomes(), symbols.all())?;
        self.tree.validate_counts(&self.customers, &self.tables)?;
        ensure(self.stop.iter().flatten().all(|&value| is_positive(value)), "the prior of stopping")?;
        let has_visits = self.visits.len() == self.tree.restaurants();
        ensure(has_visits || (self.stop.is_none() && self.visits.is_empty()), "the number of visits")
    }
}

/// A model to be asked.
pub struct LanguageModel {
    pub kept: Kept,
    pub symbols: Symbols,
    base: f64,
    stop: Option<StopPrior>,
    /// By restaurant: what goes to the parent's distribution, and the probability of stopping.
    shares: Vec<f64>,
    stops: Vec<f64>,
    /// By dish.
    seats: Vec<f64>,
}

impl LanguageModel {
    /// Reads the model at `path`, a model file or a run folder.
    pub fn load(path: &Path) -> Result<LanguageModel> {
        Ok(LanguageModel::new(model_file::load(path)?))
    }

    pub fn new(kept: Kept) -> LanguageModel {
        let mut model = LanguageModel::to_report(kept);
        model.weigh();
        model
    }

    /// A model that can tell of its contexts and counts; probabilities of words are not to be asked.
    pub fn to_report(kept: Kept) -> LanguageModel {
        let symbols = Symbols::new(&kept.vocabulary);
        let stop = kept.stop.map(|[alpha, beta]| StopPrior { alpha, beta });
        let mut model = LanguageModel {
            base: 1.0 / f64::from(symbols.outcomes()),
            symbols,
            stop,
            shares: vec![],
            stops: vec![],
            seats: vec![],
            kept,
        };
        if let Some(prior) = stop {
            let last = model.depths() - 1;
            let (deepest, begin) = (model.level(last), model.symbols.begin);
            for (restaurant, &(stops, passes)) in model.kept.visits.iter().enumerate() {
                // Where there is nowhere to go on to, everything stops.
                let is_end = deepest.contains(&restaurant) || model.element(restaurant) == begin;
                model.stops.push(if is_end { 1.0 } else { prior.probability(Visits { stops, passes }) });
            }
        }
        model
    }

    /// Makes what probabilities need.
    fn weigh(&mut self) {
        self.shares.reserve_exact(self.restaurants());
        self.seats.reserve_exact(self.kept.tree.all_dishes());
        for depth in 0..self.depths() {
            let (a, b) = (self.kept.parameters.discounts[depth], self.kept.parameters.strengths[depth]);
            for restaurant in self.level(depth) {
                let dishes = self.dishes(restaurant);
                let customers: u64 = self.kept.customers[dishes.clone()].iter().map(|&c| u64::from(c)).sum();
                let tables: u64 = self.kept.tables[dishes.clone()].iter().map(|&t| u64::from(t)).sum();
                let whole = customers as f64 + b;
                self.shares.push((b + a * tables as f64) / whole);
                for dish in dishes {
                    let (c, t) = (f64::from(self.kept.customers[dish]), f64::from(self.kept.tables[dish]));
                    self.seats.push((c - a * t) / whole);
                }
            }
        }
    }

    /// How many context lengths there are: 0 up to the order less one.
    pub fn depths(&self) -> usize {
        self.kept.longest as usize
    }

    /// The restaurants of a depth.
    pub fn level(&self, depth: usize) -> Range<usize> {
        self.kept.tree.level(depth)
    }

    pub fn restaurants(&self) -> usize {
        self.kept.tree.restaurants()
    }

    /// The dishes of a restaurant.
    pub fn dishes(&self, restaurant: usize) -> Range<usize> {
        self.kept.tree.dishes(restaurant)
    }

    pub fn children(&self, restaurant: usize) -> Range<usize> {
        self.kept.tree.children(restaurant)
    }

    /// What each dish is.
    pub fn outcome(&self, dish: usize) -> u32 {
        self.kept.tree.outcome(dish)
    }

    /// The last word of a restaurant's context.
    pub fn element(&self, restaurant: usize) -> u32 {
        self.kept.tree.element(restaurant)
    }

    pub fn customers(&self, dish: usize) -> u32 {
        self.kept.customers[dish]
    }

    pub fn tables(&self, dish: usize) -> u32 {
        self.kept.tables[dish]
    }

    /// Tokens that stop at a restaurant and pass it, where the order is infinite.
    pub fn visits(&self, restaurant: usize) -> Visits {
        let (stops, passes) = self.kept.visits.get(restaurant).copied().unwrap_or_default();
        Visits { stops, passes }
    }

    /// The word of an outcome or of an element of a context.
    pub fn word(&self, symbol: u32) -> &str {
        match symbol {
            symbol if symbol == self.symbols.end => END,
            symbol if symbol == self.symbols.begin => BEGIN,
            symbol => self.kept.vocabulary.word(symbol),
        }
    }

    /// The contexts of all restaurants.
    pub fn contexts(&self) -> Contexts<'_> {
        let mut parents = self.kept.tree.parents();
        parents[0] = 0;
        Contexts { model: self, parents }
    }

    /// What goes to the parent's distribution.
    pub fn share(&self, restaurant: usize) -> f64 {
        self.shares[restaurant]
    }

    /// The share of a restaurant that is a dish's own.
    pub fn seats(&self, dish: usize) -> f64 {
        self.seats[dish]
    }

    /// The probability of stopping at a restaurant; 0 where the order is fixed: there every token goes as far as it can.
    pub fn stop(&self, restaurant: usize) -> f64 {
        self.stops.get(restaurant).copied().unwrap_or(0.0)
    }

    /// The distribution below the root: the same for every outcome.
    pub fn base(&self) -> f64 {
        self.base
    }

    pub fn is_infinite(&self) -> bool {
        self.stop.is_some()
    }

    /// The dish of `outcome` in a restaurant.
    #[inline]
    pub fn find_dish(&self, restaurant: usize, outcome: u32) -> Option<usize> {
        self.kept.tree.find_dish(restaurant, outcome)
    }

    /// The restaurant whose context is that of `restaurant` and `element` behind.
    #[inline]
    pub fn find_child(&self, restaurant: usize, element: u32) -> Option<usize> {
        self.kept.tree.find_child(restaurant, element)
    }

    /// p(outcome | history), and how many words of the history there is a restaurant for. `history` has the words before,
    /// nearest first.
    pub fn probability(&self, history: impl Iterator<Item = u32>, outcome: u32) -> (f64, usize) {
        let mut history = history.take(self.depths() - 1);
        let (mut below, mut restaurant, mut depth) = (self.base, 0, 0);
        let (mut sum, mut left) = (0.0, 1.0);
        loop {
            let seats = self.find_dish(restaurant, outcome).map_or(0.0, |dish| self.seats[dish]);
            below = seats + self.shares[restaurant] * below;
            let stop = self.stop(restaurant);
            sum += left * stop * below;
            left *= 1.0 - stop;
            match history.next().and_then(|element| self.find_child(restaurant, element)) {
                Some(child) => (restaurant, depth) = (child, depth + 1),
                None => return (sum + left * below, depth),
            }
        }
    }
}

/// The contexts of a model's restaurants.
pub struct Contexts<'m> {
    model: &'m LanguageModel,
    parents: Vec<u32>,
}

impl Contexts<'_> {
    /// The restaurant of the context without its farthest word; the root's own parent is the root.
    pub fn parent(&self, restaurant: usize) -> usize {
        self.parents[restaurant] as usize
    }

    /// The words of a restaurant's context, as they stand in the text: the nearest to the next word last.
    pub fn words(&self, restaurant: usize) -> Vec<&str> {
        let mut words = vec![];
        let mut at = restaurant;
        while at != 0 {
            words.push(self.model.word(self.model.element(at))); // the farthest word comes first
            at = self.parents[at] as usize;
        }
        words
    }
}
