//! A language model as it is kept: the restaurants that have customers, from the root on, ready to be looked up.
//!
//! Restaurants are numbered level by level, the root first, those of a level in the order of their contexts: so the
//! children of a restaurant are a run, sorted by their last word, and so are its dishes. A word is looked up by a binary
//! search in each restaurant from the root down.
//!
//! Written are the counts, 12 bytes for a dish and 12 for a restaurant. On reading, the weights that a probability needs
//! are made from them: p(w | h) = seats + share * p(w | h'), where seats = (c - a t) / (C + b) is 0 for a word that the
//! restaurant does not serve, and share = (b + a T) / (C + b).

use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::hpylm::Hpylm;
use super::job::{Order, Plan};
use super::text::{BEGIN, END, Symbols};
use crate::corpus::tokens::Tokenisation;
use crate::corpus::vocabulary::Vocabulary;
use crate::error::{Error, Result};
use crate::job::model_file;
use crate::restaurant::order::StopPrior;
use crate::restaurant::parameters::Parameters;
use crate::restaurant::tree::{NONE, Tree, Visits};

/// The kind in model files.
pub const KIND: &str = "hpylm";

/// What is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    pub vocabulary: Vocabulary,
    pub tokenisation: Tokenisation,
    pub longest: u32,
    /// alpha and beta of the prior of stopping, where the order is infinite.
    pub stop: Option<[f64; 2]>,
    pub parameters: Parameters,
    /// By depth: where its restaurants begin; and their number, at the end.
    levels: Vec<u32>,
    /// By restaurant: the last word of its context, its children and its dishes (where they begin), and its visits.
    elements: Vec<u32>,
    children: Vec<u32>,
    dishes: Vec<u32>,
    visits: Vec<(u32, u32)>,
    /// By dish.
    outcomes: Vec<u32>,
    customers: Vec<u32>,
    tables: Vec<u32>,
}

impl Kept {
    /// What a worker that holds everything has learned.
    pub fn new(vocabulary: Vocabulary, plan: &Plan, model: &Hpylm) -> Kept {
        let tree = model.tree();
        let mut kept = Kept {
            vocabulary,
            tokenisation: plan.corpus.tokenisation.clone(),
            longest: plan.order.longest() as u32,
            stop: match plan.order {
                Order::Fixed(_) => None,
                Order::Infinite { stop, .. } => Some([stop.alpha, stop.beta]),
            },
            parameters: model.parameters().clone(),
            levels: vec![],
            elements: vec![],
            children: vec![],
            dishes: vec![],
            visits: vec![],
            outcomes: vec![],
            customers: vec![],
            tables: vec![],
        };
        kept.reserve(tree);
        let mut number_of = vec![NONE; tree.restaurants.len()];
        for level in &tree.levels {
            kept.levels.push(kept.elements.len() as u32);
            for restaurant in level.restaurants.clone().filter(|r| tree.restaurants[*r as usize].customers > 0) {
                let number = kept.elements.len() as u32;
                number_of[restaurant as usize] = number;
                if let Some(above) = Some(tree.parent_of(restaurant)).filter(|above| *above != NONE) {
                    // Parents that have no child are caught up with; the first child is the first seen.
                    let above = number_of[above as usize] as usize;
                    kept.children.resize(kept.children.len().max(above + 1), number);
                }
                kept.elements.push(tree.elements[restaurant as usize]);
                kept.dishes.push(kept.outcomes.len() as u32);
                if let Some(visits) = tree.visits.get(restaurant as usize) {
                    kept.visits.push((visits.stops, visits.passes));
                }
                for dish in tree.dishes_of(restaurant) {
                    let record = tree.dishes[dish as usize];
                    if record.customers > 0 {
                        kept.outcomes.push(tree.outcomes[dish as usize]);
                        kept.customers.push(record.customers);
                        kept.tables.push(record.tables);
                    }
                }
            }
        }
        let all = kept.elements.len() as u32;
        kept.levels.push(all);
        kept.children.resize(all as usize + 1, all);
        kept.dishes.push(kept.outcomes.len() as u32);
        kept
    }

    /// Makes room: growing by doubling would copy, and peak.
    fn reserve(&mut self, tree: &Tree) {
        let restaurants = tree.restaurants.iter().filter(|restaurant| restaurant.customers > 0).count();
        let dishes = tree.dishes.iter().filter(|dish| dish.customers > 0).count();
        [&mut self.elements, &mut self.children, &mut self.dishes]
            .into_iter()
            .for_each(|list| list.reserve_exact(restaurants + 1));
        [&mut self.outcomes, &mut self.customers, &mut self.tables]
            .into_iter()
            .for_each(|list| list.reserve_exact(dishes));
    }

    /// Whether the numbers can be those of a model; a file may be damaged.
    fn is_sound(&self) -> bool {
        let (restaurants, dishes) = (self.elements.len(), self.outcomes.len());
        let rises = |starts: &[u32], end: usize| {
            starts.windows(2).all(|pair| pair[0] <= pair[1]) && starts.last() == Some(&(end as u32))
        };
        let symbols = Symbols::new(&self.vocabulary);
        let depths = self.longest as usize;
        restaurants > 0
            && (1..=32).contains(&self.longest)
            && [self.parameters.discounts.len(), self.parameters.strengths.len()] == [depths, depths]
            && self.levels.len() == depths + 1
            && rises(&self.levels, restaurants)
            && self.children.len() == restaurants + 1
            && rises(&self.children, restaurants)
            && (1..).zip(&self.children[..restaurants]).all(|(next, &first)| first >= next)
            && self.dishes.len() == restaurants + 1
            && rises(&self.dishes, dishes)
            && [self.customers.len(), self.tables.len()] == [dishes, dishes]
            && (self.stop.is_none() || self.visits.len() == restaurants)
            && self.outcomes.iter().all(|&outcome| outcome < symbols.outcomes())
            && self.elements[1..].iter().all(|&element| element < symbols.all())
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
        let kept: Kept = model_file::load(path, KIND)?;
        match kept.is_sound() {
            true => Ok(LanguageModel::new(kept)),
            false => Err(Error::input(path, "the model does not hold together: the file is damaged")),
        }
    }

    pub fn new(kept: Kept) -> LanguageModel {
        let symbols = Symbols::new(&kept.vocabulary);
        let stop = kept.stop.map(|[alpha, beta]| StopPrior { alpha, beta });
        let mut model = LanguageModel {
            base: 1.0 / f64::from(symbols.outcomes()),
            symbols,
            stop,
            shares: Vec::with_capacity(kept.elements.len()),
            stops: vec![],
            seats: Vec::with_capacity(kept.outcomes.len()),
            kept,
        };
        for depth in 0..model.depths() {
            let (a, b) = (model.kept.parameters.discounts[depth], model.kept.parameters.strengths[depth]);
            for restaurant in model.level(depth) {
                let dishes = model.dishes(restaurant);
                let customers: u64 = model.kept.customers[dishes.clone()].iter().map(|&c| u64::from(c)).sum();
                let tables: u64 = model.kept.tables[dishes.clone()].iter().map(|&t| u64::from(t)).sum();
                let whole = customers as f64 + b;
                model.shares.push((b + a * tables as f64) / whole);
                for dish in dishes {
                    let (c, t) = (f64::from(model.kept.customers[dish]), f64::from(model.kept.tables[dish]));
                    model.seats.push((c - a * t) / whole);
                }
            }
        }
        if let Some(prior) = stop {
            let last = model.depths() - 1;
            let (deepest, begin) = (model.level(last), model.symbols.begin);
            for (restaurant, &(stops, passes)) in model.kept.visits.iter().enumerate() {
                // Where there is nowhere to go on to, everything stops.
                let is_end = deepest.contains(&restaurant) || model.kept.elements[restaurant] == begin;
                model.stops.push(if is_end { 1.0 } else { prior.probability(Visits { stops, passes }) });
            }
        }
        model
    }

    /// How many context lengths there are: 0 up to the order less one.
    pub fn depths(&self) -> usize {
        self.kept.longest as usize
    }

    /// The restaurants of a depth.
    pub fn level(&self, depth: usize) -> Range<usize> {
        self.kept.levels[depth] as usize..self.kept.levels[depth + 1] as usize
    }

    pub fn restaurants(&self) -> usize {
        self.kept.elements.len()
    }

    /// The dishes of a restaurant.
    pub fn dishes(&self, restaurant: usize) -> Range<usize> {
        self.kept.dishes[restaurant] as usize..self.kept.dishes[restaurant + 1] as usize
    }

    pub fn children(&self, restaurant: usize) -> Range<usize> {
        self.kept.children[restaurant] as usize..self.kept.children[restaurant + 1] as usize
    }

    /// What each dish is.
    pub fn outcome(&self, dish: usize) -> u32 {
        self.kept.outcomes[dish]
    }

    /// The last word of a restaurant's context.
    pub fn element(&self, restaurant: usize) -> u32 {
        self.kept.elements[restaurant]
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
        let mut parents = vec![0; self.restaurants()];
        for restaurant in 0..self.restaurants() {
            self.children(restaurant).for_each(|child| parents[child] = restaurant as u32);
        }
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
        let dishes = self.dishes(restaurant);
        let place = find(&self.kept.outcomes[dishes.clone()], outcome)?;
        Some(dishes.start + place)
    }

    /// The restaurant whose context is that of `restaurant` and `element` behind.
    #[inline]
    pub fn find_child(&self, restaurant: usize, element: u32) -> Option<usize> {
        let children = self.children(restaurant);
        let place = find(&self.kept.elements[children.clone()], element)?;
        Some(children.start + place)
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

/// The place of `value` in a sorted list. Most lists are short.
#[inline]
fn find(list: &[u32], value: u32) -> Option<usize> {
    if list.len() <= 8 {
        return list.iter().position(|&other| other == value);
    }
    // Outcomes of frequent restaurants are nearly all numbers: the value is often where it would be then.
    if let Some(&other) = list.get(value as usize)
        && other == value
    {
        return Some(value as usize);
    }
    list.binary_search(&value).ok()
}
