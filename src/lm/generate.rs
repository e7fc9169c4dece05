//! Sentences drawn from a language model, word by word, as its restaurants seat a customer: at a context, a new table
//! (with probability share(h)) takes what the next shorter context gives; otherwise a dish is taken by its seats. Below
//! the empty context, all outcomes are equal. Where the order is infinite, how long the context is is drawn first.

use super::history::History;
use super::model::LanguageModel;
use super::text::each_word;
use crate::cluster::rng::{Generator, Purpose, generator};
use crate::math::draws::unit;

/// What is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub seed: u64,
    /// A sentence is cut off behind so many words that were drawn.
    pub max_length: u64,
    /// How every sentence begins.
    pub prefix: String,
}

/// Draws sentences of one model.
pub struct Sentences<'m> {
    model: &'m LanguageModel,
    settings: &'m Settings,
    /// The prefix, as the model reads it, and the history behind it.
    prefix: Vec<String>,
    history: History,
    /// The restaurants of a history, the root first.
    path: Vec<usize>,
}

impl<'m> Sentences<'m> {
    pub fn new(model: &'m LanguageModel, settings: &'m Settings) -> Sentences<'m> {
        let mut history = History::begin(&model.symbols, model.depths() - 1);
        let mut prefix = vec![];
        each_word(&model.kept.tokenisation, &settings.prefix, |word| {
            history.push(model.kept.vocabulary.id(word));
            prefix.push(word.to_string());
        });
        Sentences { model, settings, prefix, history, path: vec![] }
    }

    /// The sentence of a number. It follows from the seed and the number, whatever else is drawn.
    pub fn draw(&mut self, number: u64) -> String {
        let mut rng = generator(self.settings.seed, Purpose::Generate, number, 0);
        let mut history = self.history.clone();
        let mut words: Vec<&str> = self.prefix.iter().map(String::as_str).collect();
        for _ in 0..self.settings.max_length {
            let symbol = draw_next(self.model, &history, &mut self.path, &mut rng);
            if symbol == self.model.symbols.end {
                break;
            }
            words.push(self.model.word(symbol));
            history.push(symbol);
        }
        words.join(" ")
    }
}

/// Draws an outcome from p(w | h). `path` is there to be reused.
fn draw_next(model: &LanguageModel, history: &History, path: &mut Vec<usize>, rng: &mut Generator) -> u32 {
    find_context(model, history, path, rng);
    while let Some(restaurant) = path.pop() {
        let lot = unit(rng) - model.share(restaurant);
        if lot >= 0.0 {
            return draw_dish(model, restaurant, lot);
        }
    }
    (unit(rng) * f64::from(model.symbols.outcomes())) as u32
}

/// The restaurants from the root to the one that is drawn from: the deepest, or where a token stops.
fn find_context(model: &LanguageModel, history: &History, path: &mut Vec<usize>, rng: &mut Generator) {
    path.clear();
    path.push(0);
    let mut at = 0;
    for &element in history.words() {
        if model.is_infinite() && unit(rng) < model.stop(at) {
            return;
        }
        match model.find_child(at, element) {
            Some(child) => at = child,
            None => return,
        }
        path.push(at);
    }
}

/// The dish that `lot`, from 0 to the sum of a restaurant's seats, falls on.
fn draw_dish(model: &LanguageModel, restaurant: usize, mut lot: f64) -> u32 {
    let dishes = model.dishes(restaurant);
    let last = dishes.end - 1; // what rounding leaves over is the last one's
    let dish = dishes.clone().find(|&dish| {
        lot -= model.seats(dish);
        lot < 0.0
    });
    model.outcome(dish.unwrap_or(last))
}
