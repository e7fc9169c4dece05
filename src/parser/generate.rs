//! Sentences drawn from a parser, with their trees: step by step, each from its distribution given the configuration.
//!
//! A sentence follows from the seed and its number, whatever else is drawn. Where it has the most words that it may have,
//! no further word is shifted; its probability is still that of the derivation.

use super::action::Action;
use super::configuration::{Configurations, NOTHING, Upcoming};
use super::model::ParserModel;
use crate::cluster::rng::{Generator, Purpose, generator};
use crate::math::draws::unit;
use crate::math::ln;
use crate::transition::Label;

/// A sentence that was drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    /// Words and tags.
    pub words: Vec<(u32, u32)>,
    /// As in CoNLL-U: words are 1 .. n, 0 is the root.
    pub heads: Vec<u32>,
    pub labels: Vec<Label>,
    /// ln p of the derivation.
    pub ln: f64,
}

impl Drawn {
    /// As CoNLL-U.
    pub fn to_conllu(&self, model: &ParserModel, id: u64) -> String {
        let lexicon = &model.kept.lexicon;
        let text = format!("# sent_id = {id}\n# text = {}\n# log_probability = {:.4}\n", self.text(model), self.ln);
        let row = |(place, &(form, tag)): (usize, &(u32, u32))| {
            let (form, tag) = (lexicon.word_name(form), &lexicon.tags[tag as usize]);
            let (upos, xpos) = model.kept.tag_column.split(tag);
            let label = &lexicon.labels[usize::from(self.labels[place].0)];
            format!("{}\t{form}\t_\t{upos}\t{xpos}\t_\t{}\t{label}\t_\t_\n", place + 1, self.heads[place])
        };
        text + &self.words.iter().enumerate().map(row).collect::<String>() + "\n"
    }

    /// Its words.
    pub fn text(&self, model: &ParserModel) -> String {
        let words: Vec<String> = self.words.iter().map(|&(form, _)| model.kept.lexicon.word_name(form)).collect();
        words.join(" ")
    }
}

/// Draws sentences of one model; its buffers are reused.
pub struct Sentences<'m> {
    model: &'m ParserModel,
    seed: u64,
    max_length: usize,
    arena: Configurations,
    probabilities: Vec<f64>,
}

impl<'m> Sentences<'m> {
    pub fn new(model: &'m ParserModel, seed: u64, max_length: usize) -> Sentences<'m> {
        Sentences { model, seed, max_length, arena: Configurations::default(), probabilities: vec![] }
    }

    /// The sentence of a number.
    pub fn draw(&mut self, number: u64) -> Drawn {
        let mut rng = generator(self.seed, Purpose::Generate, number, 0);
        let lexicon = &self.model.kept.lexicon;
        self.arena.clear();
        let mut drawn = Drawn { words: vec![], heads: vec![], labels: vec![], ln: 0.0 };
        let (mut top, mut is_ended) = (NOTHING, false);
        while !is_ended || !self.model.is_complete(&self.arena, top) {
            let action = self.draw_action(top, &mut drawn, &mut rng);
            if !action.has_word() {
                top = self.arena.reduce(top, action);
                continue;
            }
            let (tag, form) = self.draw_word(top, action, &mut drawn, &mut rng);
            top = self.arena.generate(top, action, drawn.words.len() as u32, tag, form);
            is_ended = tag == lexicon.root();
            if !is_ended {
                drawn.words.push((form, tag));
            }
        }
        let words = drawn.words.len();
        (drawn.heads, drawn.labels) = (vec![0; words], vec![Label(0); words]);
        self.arena.arcs(top, |dependent, head, label| {
            drawn.heads[dependent as usize] = if head as usize == words { 0 } else { head + 1 };
            drawn.labels[dependent as usize] = label;
        });
        drawn
    }

    /// Words that the sentence may still have.
    fn words_left(&self, drawn: &Drawn) -> u32 {
        self.max_length.saturating_sub(drawn.words.len()).min(1 << 30) as u32
    }

    fn draw_action(&mut self, top: u32, drawn: &mut Drawn, rng: &mut Generator) -> Action {
        if !self.arena.has_choice(top, self.model.kept.system) {
            return Action::Shift;
        }
        let (actions, words_left) = (self.model.actions(), self.words_left(drawn));
        self.model.all_moves(&self.arena, top, &mut self.probabilities);
        let possible = self.model.possible(&self.arena, top);
        let feasible = self.model.feasible(&self.arena, top, possible, words_left);
        for (kind, range) in actions.ranges().enumerate() {
            if feasible >> kind & 1 == 0 {
                self.probabilities[range].fill(0.0);
            }
        }
        let (outcome, p) = draw(&self.probabilities, rng);
        drawn.ln += ln(p);
        actions.of_outcome(outcome).0
    }

    /// Draws a tag and a word; the tag may be the root's.
    fn draw_word(&mut self, top: u32, action: Action, drawn: &mut Drawn, rng: &mut Generator) -> (u32, u32) {
        let lexicon = &self.model.kept.lexicon;
        let tagger = self.model.tagger(&self.arena, top, action);
        let root = lexicon.root();
        self.probabilities.clear();
        let can_end = self.model.can_end(&self.arena, top, action);
        let is_full = can_end && self.words_left(drawn) == 0;
        let p = |tag: u32| if is_full && tag != root { 0.0 } else { tagger.probability(tag) };
        self.probabilities.extend((0..root + u32::from(can_end)).map(p));
        let (tag, p) = draw(&self.probabilities, rng);
        drawn.ln += ln(p);
        if tag as u32 == root {
            return (root, lexicon.words());
        }
        if !self.model.kept.is_lexicalised {
            return (tag as u32, 0);
        }
        let upcoming = Upcoming { tag: tag as u32, action: action.value() };
        self.model.all_words(&self.arena, top, upcoming, &mut self.probabilities);
        let (form, p) = draw(&self.probabilities, rng);
        drawn.ln += ln(p);
        (tag as u32, form as u32)
    }
}

/// Draws one of these in proportion, and tells its own.
fn draw(probabilities: &[f64], rng: &mut Generator) -> (usize, f64) {
    let mut lot = unit(rng) * probabilities.iter().sum::<f64>();
    let found = probabilities.iter().position(|p| {
        lot -= p;
        lot < 0.0
    });
    // What rounding leaves over is the last one's that can be.
    let at = found.or_else(|| probabilities.iter().rposition(|p| *p > 0.0)).unwrap_or(0);
    (at, probabilities[at])
}
