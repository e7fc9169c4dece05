//! A language model laid out for reading text: what the next token needs lies together, and is found without searching.
//!
//! A token goes through the restaurants of its history from the root down. Those of the next token are contexts that are
//! longer by this token: `h w`, for each h on the way. As the dish w of h is looked up in any case, it says which
//! restaurant that is. So only dishes are looked up, each on its own, and the processor does several at a time. In a
//! small restaurant a dish is found by looking at all; the dishes of large ones are in a hash table.
//!
//! This holds where every context is an n-gram itself, as in all models of fixed order. Where the order is infinite,
//! tokens are looked up in the model, restaurant by restaurant ([`Walk`] does the one or the other).
//!
//! Memory: 16 bytes a dish and 16 a restaurant, and 5 to 11 a dish of a large restaurant.

use super::history::History;
use super::model::{Contexts, LanguageModel};
use crate::restaurant::seating::DEEPEST;
use crate::restaurant::tree::NONE;

/// Restaurants with more dishes are large: more than two cache lines.
const SMALL: usize = 8;

/// A restaurant: its dishes, and what goes to its parent's distribution.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: u32,
    dishes: u32,
    share: f64,
}

/// A dish: the share that is its own, and the restaurant whose context is the n-gram, or [`NONE`].
#[derive(Clone, Copy, Debug)]
struct Served {
    outcome: u32,
    continued: u32,
    seats: f64,
}

/// A model of fixed order, ready for reading.
pub struct Index {
    base: f64,
    /// The restaurants that a sentence begins with, the root first.
    begin: Vec<u32>,
    restaurants: Vec<Place>,
    dishes: Vec<Served>,
    table: Table,
}

impl Index {
    /// None where a context is no n-gram.
    pub fn new(model: &LanguageModel) -> Option<Index> {
        if model.is_infinite() {
            return None;
        }
        let continued = continued(model, &model.contexts()).ok()?;
        let served =
            |dish: usize| Served { outcome: model.outcome(dish), continued: continued[dish], seats: model.seats(dish) };
        let place = |restaurant: usize| {
            let dishes = model.dishes(restaurant);
            Place { start: dishes.start as u32, dishes: dishes.len() as u32, share: model.share(restaurant) }
        };
        let begin = model.find_child(0, model.symbols.begin).map(|restaurant| restaurant as u32);
        Some(Index {
            base: model.base(),
            begin: std::iter::once(0).chain(begin).collect(),
            dishes: (0..continued.len()).map(served).collect(),
            restaurants: (0..model.restaurants()).map(place).collect(),
            table: Table::new(model),
        })
    }

    #[inline]
    fn find(&self, restaurant: u32, place: &Place, outcome: u32) -> Option<&Served> {
        let (start, count) = (place.start as usize, place.dishes as usize);
        let dishes = &self.dishes[start..start + count];
        if count <= SMALL {
            return dishes.iter().find(|served| served.outcome == outcome);
        }
        // The root serves nearly all words: a word is where its number says.
        if let Some(served) = dishes.get(outcome as usize)
            && served.outcome == outcome
        {
            return Some(served);
        }
        let mut slot = self.table.slot(restaurant, outcome);
        loop {
            let dish = self.table.slots[slot];
            if dish == NONE {
                return None;
            }
            // The same hash may be that of a dish of another restaurant.
            if let Some(served) = dishes.get((dish as usize).wrapping_sub(start))
                && served.outcome == outcome
            {
                return Some(served);
            }
            slot = self.table.behind(slot);
        }
    }
}

/// The dishes of large restaurants by restaurant and outcome: open addressing. At least a quarter stays free.
struct Table {
    slots: Vec<u32>,
    shift: u32,
}

impl Table {
    fn new(model: &LanguageModel) -> Table {
        let large = || (0..model.restaurants()).filter(|&restaurant| model.dishes(restaurant).len() > SMALL);
        let dishes: usize = large().map(|restaurant| model.dishes(restaurant).len()).sum();
        let length = (dishes * 4 / 3 + 2).next_power_of_two();
        let mut table = Table { slots: vec![NONE; length], shift: 64 - length.ilog2() };
        for restaurant in large() {
            for dish in model.dishes(restaurant) {
                let mut slot = table.slot(restaurant as u32, model.outcome(dish));
                while table.slots[slot] != NONE {
                    slot = table.behind(slot);
                }
                table.slots[slot] = dish as u32;
            }
        }
        table
    }

    /// Where a dish is looked for first.
    #[inline]
    fn slot(&self, restaurant: u32, outcome: u32) -> usize {
        let key = u64::from(restaurant) << 32 | u64::from(outcome);
        let mixed = (key ^ key >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93) >> self.shift) as usize
    }

    /// Where it is looked for then.
    #[inline]
    fn behind(&self, slot: usize) -> usize {
        (slot + 1) & (self.slots.len() - 1)
    }
}

/// Reads sentences token by token.
pub struct Walk<'m> {
    model: &'m LanguageModel,
    index: Option<&'m Index>,
    /// With an index: the restaurants of the words before, the root first.
    path: [u32; DEEPEST + 1],
    length: usize,
    /// Without: the words before.
    history: History,
}

impl<'m> Walk<'m> {
    /// The begin of a sentence. `index` is that of `model`, where it has one.
    pub fn begin(model: &'m LanguageModel, index: Option<&'m Index>) -> Walk<'m> {
        let history = History::begin(&model.symbols, model.depths() - 1);
        let mut walk = Walk { model, index, path: [0; DEEPEST + 1], length: 0, history };
        if let Some(index) = index {
            walk.length = index.begin.len();
            walk.path[..walk.length].copy_from_slice(&index.begin);
        }
        walk
    }

    /// p of the next token, and how many words before it there is a restaurant for; then goes on behind it.
    #[inline]
    pub fn next(&mut self, outcome: u32) -> (f64, usize) {
        match self.index {
            Some(index) => self.next_in(index, outcome),
            None => {
                let found = self.model.probability(self.history.words().iter().copied(), outcome);
                self.history.push(outcome);
                found
            }
        }
    }

    #[inline]
    fn next_in(&mut self, index: &Index, outcome: u32) -> (f64, usize) {
        let (mut below, mut restaurant, mut length) = (index.base, 0, 1);
        for depth in 0..self.length {
            let place = &index.restaurants[restaurant as usize];
            // Read before it is written over.
            let deeper = self.path.get(depth + 1).copied().unwrap_or(NONE);
            below *= place.share;
            if let Some(served) = index.find(restaurant, place, outcome) {
                below += served.seats;
                if served.continued != NONE {
                    self.path[depth + 1] = served.continued;
                    length = depth + 2;
                }
            }
            restaurant = deeper;
        }
        let context = self.length - 1;
        self.length = length;
        (below, context)
    }
}

/// By dish: the restaurant whose context is the dish's n-gram, or [`NONE`]; for dishes of the root too. Fails with a
/// restaurant whose context is no n-gram.
pub fn continued(model: &LanguageModel, contexts: &Contexts<'_>) -> Result<Vec<u32>, usize> {
    let mut continued = vec![NONE; model.dishes(model.restaurants() - 1).end];
    // By restaurant: the nearest word of its context, and the restaurant of the context without it.
    let (mut nearest, mut farther) = (vec![NONE; model.restaurants()], vec![0; model.restaurants()]);
    for restaurant in 1..model.restaurants() {
        let (above, element) = (contexts.parent(restaurant), model.element(restaurant));
        if above == 0 {
            nearest[restaurant] = element;
            if element == model.symbols.begin {
                continue; // nothing stands before it, and it is never an outcome
            }
        } else {
            nearest[restaurant] = nearest[above];
            farther[restaurant] = model.find_child(farther[above] as usize, element).ok_or(restaurant)? as u32;
        }
        let dish = model.find_dish(farther[restaurant] as usize, nearest[restaurant]).ok_or(restaurant)?;
        continued[dish] = restaurant as u32;
    }
    Ok(continued)
}
