//! A topic n-gram model as it is kept: the restaurants that have customers of any topic, and who is in them.
//!
//! Written are the counts of each dish, topic by topic, 10 bytes for a topic that has customers there; those of a
//! restaurant are their sums. Of a coin its throws are written: it has no discount, so its tables do not matter to its
//! probability.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::counts::Form;
use super::model::NgramModel;
use crate::corpus::tokens::Tokenisation;
use crate::corpus::vocabulary::Vocabulary;
use crate::error::{Result, ensure, is_positive};
use crate::job::model_file::{self, Stored};
use crate::lm::job::Order;
use crate::lm::text::Symbols;
use crate::restaurant::kept::{KeptTree, Kind, rises};
use crate::restaurant::parameters::Parameters;
use crate::restaurant::seating::DEEPEST;
use crate::topics::counts::MAX_TOPICS;
use crate::topics::prior::PRIOR_RANGE;

/// The kind in model files.
pub const KIND: &str = "topic-ngrams";

/// The format of model files of this kind; raise it with every change to what is written.
pub const FORMAT: u32 = 1;

/// What is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    pub vocabulary: Vocabulary,
    pub tokenisation: Tokenisation,
    pub form: Form,
    /// The longest n-gram.
    pub longest: u32,
    /// alpha and beta of the prior of stopping, where the order is infinite.
    pub stop: Option<[f64; 2]>,
    pub parameters: Parameters,
    pub coins: Parameters,
    /// Of the topics of documents, without a global one.
    pub alpha: Vec<f64>,
    pub tree: KeptTree,
    /// By restaurant: how often its coin showed no and yes, where there are coins; tokens that stop there and that pass,
    /// where the order is infinite.
    pub throws: Vec<[u32; 2]>,
    pub visits: Vec<[u32; 2]>,
    /// By dish: where its list begins; and the length of all, at the end.
    pub lists: Vec<u32>,
    /// A topic, its customers and its tables, list after list.
    pub seats: Vec<(u16, u32, u32)>,
}

/// What a worker keeps of its restaurants, or several workers together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KeptCounts {
    tree: KeptTree,
    throws: Vec<[u32; 2]>,
    visits: Vec<[u32; 2]>,
    lists: Vec<u32>,
    seats: Vec<(u16, u32, u32)>,
}

impl KeptCounts {
    /// Those of a worker. Of the restaurants that several shards share, only the first worker keeps the dishes.
    pub fn new(model: &NgramModel, is_first: bool) -> KeptCounts {
        let (tree, counts, form) = (model.tree(), model.counts(), model.setup().form);
        let (mut throws, mut visits, mut lists, mut seats) = (vec![], vec![], vec![], vec![]);
        let is_kept = |restaurant: u32| counts.restaurants.list(restaurant).next().is_some();
        let is_dish_kept =
            |dish: u32| (is_first || !model.is_shared(dish)) && counts.dishes.list(dish).next().is_some();
        let kept = KeptTree::new(tree, is_kept, is_dish_kept, |restaurant, dish| {
            if let Some(dish) = dish {
                lists.push(seats.len() as u32);
                let list = counts.dishes.list(dish);
                seats.extend(list.map(|entry| (entry.topic, entry.customers as u32, entry.tables as u32)));
                return;
            }
            if form.has_global() {
                throws.push([0, 1].map(|side| counts.coins.dishes[2 * restaurant as usize + side].customers));
            }
            visits.extend(counts.visits.get(restaurant as usize).map(|visits| [visits.stops, visits.passes]));
        });
        lists.push(seats.len() as u32);
        KeptCounts { tree: kept, throws, visits, lists, seats }
    }

    /// Those of all workers together, the first worker's first.
    pub fn merge(mut parts: Vec<KeptCounts>) -> KeptCounts {
        if parts.len() == 1 {
            return parts.remove(0);
        }
        let mut all = KeptCounts::default();
        let trees: Vec<&KeptTree> = parts.iter().map(|part| &part.tree).collect();
        let tree = KeptTree::merge(&trees, |part, kind| {
            let part = &parts[part as usize];
            match kind {
                Kind::Restaurant(number) => {
                    all.throws.extend(part.throws.get(number as usize));
                    all.visits.extend(part.visits.get(number as usize));
                }
                Kind::Dish(number) => {
                    all.lists.push(all.seats.len() as u32);
                    let (start, end) = (part.lists[number as usize], part.lists[number as usize + 1]);
                    all.seats.extend_from_slice(&part.seats[start as usize..end as usize]);
                }
            }
        });
        all.lists.push(all.seats.len() as u32);
        KeptCounts { tree, ..all }
    }
}

impl Kept {
    /// What was learned: the hyperparameters of `model`, and the counts of all workers.
    pub fn new(vocabulary: Vocabulary, tokenisation: Tokenisation, model: &NgramModel, counts: KeptCounts) -> Kept {
        let (setup, shared) = (model.setup(), model.hyperparameters());
        let KeptCounts { tree, throws, visits, lists, seats } = counts;
        Kept {
            vocabulary,
            tokenisation,
            form: setup.form,
            longest: setup.order.longest() as u32,
            stop: match setup.order {
                Order::Fixed(_) => None,
                Order::Infinite { stop, .. } => Some([stop.alpha, stop.beta]),
            },
            parameters: shared.parameters,
            coins: shared.coins,
            alpha: shared.prior.alpha().to_vec(),
            tree,
            throws,
            visits,
            lists,
            seats,
        }
    }

    /// Reads the model at `path`, a model file or a run folder.
    pub fn load(path: &Path) -> Result<Kept> {
        model_file::load(path)
    }

    /// Topics, and the global one where there is one.
    pub fn all_topics(&self) -> usize {
        self.alpha.len() + usize::from(self.form.has_global())
    }

    /// The longest context.
    pub fn depth(&self) -> usize {
        self.longest as usize - 1
    }

    /// The topics at a dish, in order, with their customers and tables.
    pub fn list(&self, dish: usize) -> &[(u16, u32, u32)] {
        &self.seats[self.lists[dish] as usize..self.lists[dish + 1] as usize]
    }

    /// The model's name, as the paper has it.
    pub fn name(&self) -> String {
        let form = match self.form {
            Form::Hpytm => "HPYTM",
            Form::Hierarchical => "HIERARCHICAL",
            Form::Switching => "SWITCHING",
        };
        match self.stop {
            Some(_) => format!("infinite-gram {form}"),
            None => format!("{}-gram {form}", self.longest),
        }
    }
}

impl Stored for Kept {
    const KIND: &'static str = KIND;
    const FORMAT: u32 = FORMAT;

    fn validate(&self) -> Result<(), String> {
        let symbols = Symbols::new(&self.vocabulary);
        let (depths, topics) = (self.longest as usize, self.all_topics());
        ensure((1..=DEEPEST + 1).contains(&depths), "the length of n-grams")?;
        ensure((1..MAX_TOPICS).contains(&self.alpha.len()), "the number of topics")?;
        ensure(self.alpha.iter().all(|alpha| PRIOR_RANGE.contains(alpha)), "alpha is out of range")?;
        ensure(self.stop.iter().flatten().all(|&value| is_positive(value)), "the prior of stopping")?;
        self.parameters.validate(depths)?;
        self.coins.validate(depths)?;
        self.tree.validate(depths, symbols.outcomes(), symbols.all())?;
        let (restaurants, dishes) = (self.tree.restaurants(), self.tree.all_dishes());
        let is_sum = |counts: &[u32; 2]| counts[0].checked_add(counts[1]).is_some();
        let throws = if self.form.has_global() { restaurants } else { 0 };
        ensure(self.throws.len() == throws && self.throws.iter().all(is_sum), "the throws of coins")?;
        let visits = if self.stop.is_some() { restaurants } else { 0 };
        ensure(self.visits.len() == visits, "the number of visits")?;
        let has_lists = self.lists.len() == dishes + 1 && self.lists[0] == 0 && rises(&self.lists, self.seats.len());
        ensure(has_lists, "the topics of dishes")?;
        let is_right = |&(topic, c, t): &(u16, u32, u32)| usize::from(topic) < topics && (1..=c).contains(&t);
        ensure(self.seats.iter().all(is_right), "customers and tables of a topic")?;
        let is_sorted = (0..dishes).all(|dish| self.list(dish).is_sorted_by(|a, b| a.0 < b.0));
        ensure(is_sorted, "the order of a dish's topics")?;
        ensure((0..restaurants).all(|restaurant| self.customers_fit(restaurant)), "the number of customers")
    }
}

impl Kept {
    /// Whether the customers of a restaurant can be counted in 32 bits.
    fn customers_fit(&self, restaurant: usize) -> bool {
        let dishes = self.tree.dishes(restaurant);
        let seats = &self.seats[self.lists[dishes.start] as usize..self.lists[dishes.end] as usize];
        seats.iter().map(|&(_, customers, _)| u64::from(customers)).sum::<u64>() <= u64::from(u32::MAX)
    }
}
