//! A grammar as it is kept.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::grammar::Grammar;
use super::job::{CorpusSettings, Method, ModelSettings, ModelType, Plan};
use super::lexicon::Lexicon;
use super::pass::Weights;
use super::rules::{point_estimate, weigh};
use super::shape::Shape;
use crate::error::{Error, Result};
use crate::job::model_file;

/// The kind of model file.
pub const KIND: &str = "grammar";

/// What is kept: expected counts of rules, from which all else follows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    pub model: ModelSettings,
    pub method: Method,
    /// How sentences are read; it names no files.
    pub corpus: CorpusSettings,
    pub lexicon: Lexicon,
    pub counts: Vec<f64>,
    pub free_energy: f64,
}

impl Kept {
    pub fn new(plan: &Plan, lexicon: Lexicon, counts: Vec<f64>, free_energy: f64) -> Kept {
        let corpus = CorpusSettings { train: vec![], heldout: vec![], test: vec![], ..plan.corpus.clone() };
        Kept { model: plan.model.clone(), method: plan.estimation.method, corpus, lexicon, counts, free_energy }
    }

    /// Reads the grammar at `path`, a model file or a run folder.
    pub fn load(path: &Path) -> Result<Kept> {
        let kept: Kept = model_file::load(path, KIND)?;
        match kept.shape().rules() == kept.counts.len() {
            true => Ok(kept),
            false => Err(Error::input(path, "the grammar does not hold together")),
        }
    }

    pub fn is_lexicalised(&self) -> bool {
        self.model.model == ModelType::Levg
    }

    pub fn shape(&self) -> Shape {
        let ModelSettings { model, smoothing, .. } = self.model;
        Shape::new(model, smoothing, self.lexicon.tags.len(), &self.lexicon.tags_of_words())
    }

    /// The probabilities of rules.
    pub fn rules(&self, shape: &Shape) -> Vec<f64> {
        let mut rules = vec![0.0; shape.rules()];
        point_estimate(shape, self.method, &self.counts, &mut rules);
        rules
    }

    /// To parse with.
    pub fn grammar(&self) -> Grammar {
        let shape = self.shape();
        let mut weights = Weights { uses: vec![0.0; shape.uses()], scales: vec![0.0; shape.tags] };
        weigh(&shape, &self.rules(&shape), &mut weights.uses, &mut weights.scales);
        Grammar::new(&shape, &weights, self.model.forest(&self.lexicon.tags))
    }
}
