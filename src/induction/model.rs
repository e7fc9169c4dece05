//! A grammar as it is kept.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::grammar::Grammar;
use super::job::{CorpusSettings, MOST_DEPTH, Method, ModelSettings, ModelType, Plan};
use super::lexicon::Lexicon;
use super::pass::Weights;
use super::rules::{point_estimate, weigh};
use super::shape::Shape;
use crate::error::{Result, ensure};
use crate::job::model_file::{self, Stored};

/// The kind of model file.
pub const KIND: &str = "grammar";

/// The format of model files of this kind; raise it with every change to what is written.
pub const FORMAT: u32 = 1;

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
        model_file::load(path)
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

/// No count of a rule is larger: training takes fewer tokens, and weights them with at most 10^6.
const MOST_COUNT: f64 = 1e30;

impl Stored for Kept {
    const KIND: &'static str = KIND;
    const FORMAT: u32 = FORMAT;

    fn validate(&self) -> Result<(), String> {
        let tags = self.lexicon.tags.len();
        self.lexicon.validate(self.is_lexicalised())?;
        ensure(self.model.max_depth <= MOST_DEPTH, "the largest depth")?;
        // Every tag has rules for stopping, so that the file is not much smaller than the shape.
        ensure(self.counts.len() / 9 >= tags && self.counts.len() == self.shape().rules(), "the number of rules")?;
        ensure(self.counts.iter().all(|count| (0.0..=MOST_COUNT).contains(count)), "the count of a rule")?;
        ensure(self.free_energy.is_finite(), "the free energy")
    }
}
