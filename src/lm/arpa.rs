//! A language model as an ARPA file, for KenLM, SRILM and all that read it.
//!
//! A line is log10 p(w | h), the words of h and w, and log10 of the back-off weight of `h w` where that is a context. An
//! HPYLM of fixed order has exactly this form: p(w | h) of a word that the restaurant of h does not serve is
//! share(h) p(w | h'), and of a context without a restaurant it is that of the next shorter one. So nothing is
//! approximated, and what reads the file gives the model's own probabilities, but for the digits.
//!
//! N-grams are those that a restaurant serves, by length, then in the order of the model's restaurants and dishes; and
//! all words as unigrams. Memory: 12 bytes a dish.

use std::io::{self, Write};

use super::index::continued;
use super::model::{Contexts, LanguageModel};
use super::text::BEGIN;
use crate::restaurant::tree::NONE;

/// What stands for the logarithm of 0: the begin of a sentence is never predicted.
const NEVER: f64 = -99.0;

/// Why a model cannot be written so.
pub fn refusal(model: &LanguageModel) -> Option<&'static str> {
    model.is_infinite().then_some(
        "the order of this model is infinite: its probabilities are averages over context lengths, which have no \
         back-off form; train with a fixed model.order to export to ARPA",
    )
}

/// Writes `model`, which is of fixed order.
pub fn write(model: &LanguageModel, out: &mut impl Write) -> io::Result<()> {
    let contexts = model.contexts();
    let ngrams = Ngrams::new(model, &contexts)?;
    writeln!(out, "\\data\\")?;
    writeln!(out, "ngram 1={}", model.symbols.all())?;
    for depth in 1..model.depths() {
        writeln!(out, "ngram {}={}", depth + 1, ngrams.of(depth))?;
    }
    ngrams.write_words(out)?;
    for depth in 1..model.depths() {
        ngrams.write_level(depth, out)?;
    }
    writeln!(out, "\n\\end\\")
}

struct Ngrams<'m> {
    model: &'m LanguageModel,
    contexts: &'m Contexts<'m>,
    /// By dish: p(w | h).
    probabilities: Vec<f64>,
    /// By dish: the restaurant whose context is the n-gram; [`NONE`] where there is none.
    continued: Vec<u32>,
}

impl<'m> Ngrams<'m> {
    fn new(model: &'m LanguageModel, contexts: &'m Contexts<'m>) -> io::Result<Ngrams<'m>> {
        let probabilities = probabilities(model, contexts);
        // A reader of the file would not find the back-off weight of a context that is no n-gram.
        let continued = continued(model, contexts).map_err(|restaurant| {
            let words = contexts.words(restaurant).join(" ");
            io::Error::other(format!(
                "the model file is inconsistent (corrupt?): `{words}` is a context, but no n-gram"
            ))
        })?;
        Ok(Ngrams { model, contexts, probabilities, continued })
    }

    /// How many there are with contexts of `depth` words.
    fn of(&self, depth: usize) -> usize {
        self.model.level(depth).map(|restaurant| self.model.dishes(restaurant).len()).sum()
    }

    /// Unigrams: every word, also one that the root does not serve.
    fn write_words(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "\n\\1-grams:")?;
        let begin = self.model.find_child(0, self.model.symbols.begin);
        self.write_line(NEVER, "", BEGIN, begin, out)?;
        let nobody = self.model.share(0) * self.model.base();
        for word in 0..self.model.symbols.outcomes() {
            let dish = self.model.find_dish(0, word);
            let probability = dish.map_or(nobody, |dish| self.probabilities[dish]);
            let restaurant = self.model.find_child(0, word);
            self.write_line(libm::log10(probability), "", self.model.word(word), restaurant, out)?;
        }
        Ok(())
    }

    fn write_level(&self, depth: usize, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "\n\\{}-grams:", depth + 1)?;
        for restaurant in self.model.level(depth) {
            let mut context = self.contexts.words(restaurant).join(" ");
            context.push(' ');
            for dish in self.model.dishes(restaurant) {
                let continued = Some(self.continued[dish]).filter(|&number| number != NONE).map(|n| n as usize);
                let word = self.model.word(self.model.outcome(dish));
                self.write_line(libm::log10(self.probabilities[dish]), &context, word, continued, out)?;
            }
        }
        Ok(())
    }

    fn write_line(
        &self,
        log: f64,
        context: &str,
        word: &str,
        restaurant: Option<usize>,
        out: &mut impl Write,
    ) -> io::Result<()> {
        match restaurant {
            Some(restaurant) => writeln!(out, "{log:.7}\t{context}{word}\t{:.7}", self.back_off(restaurant)),
            None => writeln!(out, "{log:.7}\t{context}{word}"),
        }
    }

    /// log10 of what a context leaves to the next shorter one.
    fn back_off(&self, restaurant: usize) -> f64 {
        libm::log10(self.model.share(restaurant))
    }
}

/// p(w | h) by dish: parents come before children.
fn probabilities(model: &LanguageModel, contexts: &Contexts<'_>) -> Vec<f64> {
    let mut probabilities = vec![];
    for restaurant in 0..model.restaurants() {
        let parent = contexts.parent(restaurant);
        for dish in model.dishes(restaurant) {
            let below = match restaurant {
                0 => model.base(),
                _ => probability_at(model, contexts, &probabilities, parent, model.outcome(dish)),
            };
            probabilities.push(model.seats(dish) + model.share(restaurant) * below);
        }
    }
    probabilities
}

/// p(w | h) at a restaurant whose dishes are known already. What a restaurant serves its parent serves too: the walk up
/// is there for models that were trained in shards and do not hold to that.
fn probability_at(
    model: &LanguageModel,
    contexts: &Contexts<'_>,
    known: &[f64],
    restaurant: usize,
    outcome: u32,
) -> f64 {
    match (model.find_dish(restaurant, outcome), restaurant) {
        (Some(dish), _) => known[dish],
        (None, 0) => model.share(0) * model.base(),
        (None, _) => {
            let below = probability_at(model, contexts, known, contexts.parent(restaurant), outcome);
            model.share(restaurant) * below
        }
    }
}
