//! What was learned, as it is kept and asked: the grammar, and the adaptors of one or several samples.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::cache::Cache;
use super::chart::{Chart, Current, Mode, Weights, has_room, has_time};
use super::derivation::Derivation;
use super::grammar::{Grammar, MOST_WEIGHT, Symbol};
use super::ledger::Ledger;
use super::strings::Reading;
use super::trainer::{ends_of, see, seen_most};
use super::tree::{Style, bracketed};
use super::view::Views;
use crate::cluster::rng::{Purpose, generator};
use crate::error::{Result, ensure};
use crate::job::model_file::{self, Stored};

/// The kind of these models.
pub const KIND: &str = "adaptor";

/// The format of model files of this kind; raise it with every change to what is written.
pub const FORMAT: u32 = 1;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kept {
    pub grammar: Grammar,
    pub reading: Reading,
    /// The nonterminal whose strings are words.
    pub word: Option<Symbol>,
    /// Samples, the last one last; for variational Bayes, one without counts.
    pub samples: Vec<Ledger>,
    /// Expected uses of rules, of variational Bayes; empty otherwise.
    pub expected: Vec<f64>,
}

impl Stored for Kept {
    const KIND: &'static str = KIND;
    const FORMAT: u32 = FORMAT;

    fn validate(&self) -> Result<(), String> {
        self.grammar.validate()?;
        ensure(self.word.is_none_or(|word| word < self.grammar.nonterminals), "the nonterminal of words")?;
        ensure(!self.samples.is_empty(), "there is no sample")?;
        self.samples.iter().try_for_each(|ledger| ledger.validate(&self.grammar))?;
        let has_uses = self.expected.is_empty() || self.expected.len() == self.grammar.rules.len();
        ensure(has_uses, "the number of rules")?;
        ensure(self.expected.iter().all(|uses| (0.0..=MOST_WEIGHT).contains(uses)), "the uses of a rule")
    }
}

pub struct AdaptorModel {
    pub kept: Kept,
    /// The adaptors of each sample.
    pub caches: Vec<Cache>,
    views: Views,
    chart: Chart,
    terminals: std::collections::HashMap<String, Symbol>,
}

/// Rules with given probabilities, and nothing cached.
pub struct Fixed<'a>(pub &'a [f64]);

impl Weights for Fixed<'_> {
    fn rule(&self, rule: u32) -> f64 {
        self.0[rule as usize]
    }

    fn cache(&self) -> Option<&Cache> {
        None
    }
}

/// Derivations that are drawn from each sample for a segmentation.
const DRAWS: u64 = 10;

impl AdaptorModel {
    pub fn new(kept: Kept) -> AdaptorModel {
        let caches = kept.samples.iter().map(|ledger| ledger.cache(&kept.grammar)).collect();
        let terminals = kept.grammar.terminals().into_iter().map(|(name, symbol)| (name.to_string(), symbol)).collect();
        AdaptorModel { kept, caches, views: Views::default(), chart: Chart::default(), terminals }
    }

    pub fn load(path: &Path) -> Result<AdaptorModel> {
        Ok(AdaptorModel::new(model_file::load(path)?))
    }

    pub fn last(&self) -> &Cache {
        self.caches.last().expect("a sample")
    }

    /// p(rule | its parent), as the last sample has it, or in expectation.
    pub fn rule_probability(&self, rule: u32) -> f64 {
        let grammar = &self.kept.grammar;
        if self.kept.expected.is_empty() {
            return self.last().rule_probability(grammar, rule);
        }
        let parent = grammar.rules[rule as usize].parent as usize;
        let uses: f64 = grammar.rules_of[parent].iter().map(|&rule| self.kept.expected[rule as usize]).sum();
        (grammar.rules[rule as usize].weight + self.kept.expected[rule as usize]) / (grammar.weight_of[parent] + uses)
    }

    /// The parse of a string, or why there is none.
    pub fn parse(&mut self, symbols: &[String], style: Style) -> std::result::Result<String, String> {
        let words: std::result::Result<Vec<Symbol>, String> = symbols
            .iter()
            .map(|symbol| self.terminals.get(symbol).copied().ok_or_else(|| format!("{symbol} stands in no rule")))
            .collect();
        let words = words?;
        let view = self.views.of_string(&self.kept.grammar, &words).ok_or("the grammar does not derive it")?;
        let local = &self.views.all[view as usize];
        if !has_room(local, words.len()) || !has_time(local, words.len()) {
            return Err(format!("a string of {} symbols is too long for this grammar", words.len()));
        }
        match style {
            Style::Words => self.segment(view, &words),
            _ => self.best(view, &words, style == Style::Full),
        }
    }

    /// The best derivation under the last sample.
    fn best(&mut self, number: u32, words: &[Symbol], is_full: bool) -> std::result::Result<String, String> {
        let AdaptorModel { kept, caches, views, chart, .. } = self;
        let (grammar, view) = (&kept.grammar, &views.all[number as usize]);
        let cache = caches.last().expect("a sample");
        let mut derivation = Derivation::default();
        let is_derived = match kept.expected.is_empty() {
            true => {
                let weights = Current { grammar, cache, power: 1.0 };
                let is_derived = chart.fill(grammar, (number, view), words, &weights, Mode::Best);
                is_derived.then(|| chart.derive(view, &weights, false, None, &mut derivation))
            }
            false => {
                let probabilities = super::variational::means(grammar, &kept.expected);
                let weights = Fixed(&probabilities);
                let is_derived = chart.fill(grammar, (number, view), words, &weights, Mode::Best);
                is_derived.then(|| chart.derive(view, &weights, false, None, &mut derivation))
            }
        };
        is_derived.ok_or("the grammar does not derive it")?;
        Ok(bracketed(grammar, cache, &derivation.nodes, is_full))
    }

    /// The segmentation that is drawn most, over all samples.
    fn segment(&mut self, number: u32, words: &[Symbol]) -> std::result::Result<String, String> {
        let AdaptorModel { kept, caches, views, chart, .. } = self;
        let (grammar, view) = (&kept.grammar, &views.all[number as usize]);
        let word = kept.word.ok_or("the model has no nonterminal for words (evaluation.words in its job)")?;
        if !kept.expected.is_empty() {
            return Err("a model of variational Bayes has no samples to draw words from".to_string());
        }
        let mut seen = vec![];
        let mut derivation = Derivation::default();
        for (sample, cache) in (0..).zip(caches.iter()) {
            let weights = Current { grammar, cache, power: 1.0 };
            if !chart.fill(grammar, (number, view), words, &weights, Mode::Sum) {
                return Err("the grammar does not derive it".to_string());
            }
            let mut rng = generator(1, Purpose::Generate, sample, 0);
            for _ in 0..DRAWS {
                chart.derive(view, &weights, false, Some(&mut rng), &mut derivation);
                see(&mut seen, ends_of(grammar, cache, word, &derivation.nodes));
            }
        }
        let ends = seen_most(&seen).expect("it was drawn");
        let begins = std::iter::once(0).chain(ends.iter().copied());
        let joint = match kept.reading.symbols {
            super::strings::Symbols::Characters => "",
            super::strings::Symbols::Blanks => " ",
        };
        let words = begins.zip(ends).map(|(from, &to)| {
            let names = words[from as usize..to as usize].iter().map(|&word| grammar.name(word));
            names.collect::<Vec<_>>().join(joint)
        });
        let between = if joint.is_empty() { " " } else { " | " };
        Ok(words.collect::<Vec<_>>().join(between))
    }
}
