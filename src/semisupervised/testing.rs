//! The parsers of all stages, tested: on the treebank's sets, and on raw text beside the n-gram model.

use std::collections::BTreeMap;

use super::figures::{Figures, Prediction};
use super::job::Plan;
use super::parsers::Parsers;
use super::text::Sentences;
use crate::error::Result;
use crate::parser::decode::{Decoder, Given};
use crate::parser::evaluate::{Settings, evaluate, parse_all};
use crate::parser::interpolate::Halves;
use crate::parser::job::Tags;
use crate::parser::model::ParserModel;
use crate::parser::perplexity::Sum;
use crate::parser::treebank::Treebank;

/// What the parser of each stage is tested on.
pub struct Test {
    pub sets: Vec<(&'static str, Treebank)>,
    pub text: BTreeMap<u32, Sentences>,
    /// p of the tokens of `text` by the n-gram model.
    pub by_ngram: Vec<f64>,
}

impl Test {
    /// Tests each of them, and notes what is found.
    pub fn all(&self, plan: &Plan, threads: usize, parsers: Parsers, figures: &mut Figures) -> Result<()> {
        let model = &plan.parser.model;
        let settings = Settings { search: model.search, particles: model.particles, tags: Tags::Predict, threads };
        let (all, passes) = (parsers.count(), plan.raw.settings.passes as usize);
        for (stage, model) in parsers.models().enumerate() {
            let model = model?;
            let name = match stage {
                0 => "treebank".to_string(),
                pass if pass <= passes => format!("pass {pass}"),
                _ => "particle Gibbs".to_string(),
            };
            let mut scores = vec![];
            for (set, treebank) in &self.sets {
                let evaluation = evaluate(&model, treebank, &settings);
                say!("sawmill: {name}: {set}: {}", crate::parser::report::in_words(&evaluation));
                scores.push((*set, evaluation));
            }
            // Before any pass, the words of raw text are not known: that perplexity would be another figure.
            let is_predicted = stage > 0 && !self.text.is_empty();
            let predicted = is_predicted.then(|| predict(&settings, &model, &self.text, &self.by_ngram));
            predicted.iter().for_each(|prediction| tell(&name, prediction));
            figures.add_stage(name, scores, predicted);
            if stage + 1 == all {
                figures.set_size(&model);
            }
        }
        figures.add_memory("prediction");
        Ok(())
    }
}

/// Says how well a stage predicts.
fn tell(stage: &str, prediction: &Prediction) {
    if let Some((at_once, by_word)) = prediction.sum.perplexity().zip(prediction.sum.perplexity_by_word()) {
        say!("sawmill: {stage}: perplexity of raw text {by_word:.2} word by word, at most {at_once:.2} at once");
    }
    if let Some((both, _)) = prediction.both {
        say!("sawmill: {stage}: with the n-gram model: {both:.2}");
    }
}

/// How well held-out text is predicted, with as many particles as the treebank's sentences are parsed with.
fn predict(settings: &Settings, model: &ParserModel, test: &BTreeMap<u32, Sentences>, by_ngram: &[f64]) -> Prediction {
    let sentences: Vec<&[u32]> = test.values().flat_map(Sentences::iter).collect();
    let score = |decoder: &mut Decoder<'_>, number: usize| {
        let given: Vec<Given> = sentences[number].iter().map(|&form| Given { form, tag: None }).collect();
        let predicted = decoder.predict(&given);
        (Sum::of(&predicted, model, &given), predicted.words_ln)
    };
    let (mut sum, mut halves, mut rest) = (Sum::default(), Halves::default(), by_ngram);
    for (of_sentence, words_ln) in parse_all(model, settings, sentences.len(), score) {
        sum.add(&of_sentence);
        if let Some((own, behind)) = rest.split_at_checked(words_ln.len()) {
            halves.push(words_ln.iter().zip(own).map(|(&ln, &q)| [libm::exp(ln), q]));
            rest = behind;
        }
    }
    Prediction { sum, both: halves.perplexity() }
}
