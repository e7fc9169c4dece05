//! What the contexts of a parser weigh ([`super::mixture`]), learned from sentences that it has learned nothing else from: they
//! are parsed with the weights as they are, and of the tokens of their best trees (as the static oracle derives them) it is asked
//! how each context predicts them.

use super::decode::{Decoder, Given};
use super::evaluate::{Settings, parse_all};
use super::job::Part;
use super::mixture::{Example, Mixture};
use super::model::ParserModel;
use super::recall::Recall;
use super::tokens::{Scratch, Tokeniser};
use super::treebank::Word;

/// What was learned.
pub struct Tuned {
    /// The weights of all distributions.
    pub mixtures: [Mixture; 3],
    /// The mean weights of those that were learned, over their tokens.
    pub means: Vec<(Part, Vec<f64>)>,
}

/// Learns the weights of those distributions that are `wanted`; the others' stay as they are. Sentences are as
/// the model numbers their words.
pub fn tune(
    model: &ParserModel,
    settings: &Settings,
    sentences: &[&[u32]],
    wanted: impl Fn(Part) -> bool + Sync,
) -> Tuned {
    let mut contexts = model.kept.contexts().expect("they are those of a model");
    contexts.all.retain(|(part, _)| wanted(*part));
    let tokeniser = Tokeniser {
        lexicon: &model.kept.lexicon,
        system: model.kept.system,
        contexts: &contexts,
        is_lexicalised: model.kept.is_lexicalised,
    };
    let examples_of = |decoder: &mut Decoder<'_>, number: usize| {
        let (mut examples, mut values) = (<[Vec<Example>; 3]>::default(), vec![]);
        let mut recall = Recall::new(4);
        let tree = parse(decoder, sentences[number]);
        tokeniser.each(&tree, &mut Scratch::default(), |number, context, outcome| {
            let (part, _) = contexts.all[number];
            values.extend_from_slice(context);
            // The contexts of a token come one behind the other.
            if contexts.all.get(number + 1).is_none_or(|(next, _)| *next != part) {
                examples[part as usize].push(model.example(part, &values, outcome, &mut recall));
                values.clear();
            }
        });
        examples
    };
    let mut all = <[Vec<Example>; 3]>::default();
    for examples in parse_all(model, settings, sentences.len(), examples_of) {
        all.iter_mut().zip(examples).for_each(|(all, own)| all.extend(own));
    }
    let (mut mixtures, mut means) = (model.kept.mixtures.clone(), vec![]);
    for (part, examples) in Part::ALL.into_iter().zip(&mut all).filter(|(_, examples)| !examples.is_empty()) {
        let mixture = Mixture::learn(contexts.count(part), examples);
        means.push((part, mixture.mean(examples)));
        mixtures[part as usize] = mixture;
    }
    Tuned { mixtures, means }
}

/// The best tree of a sentence.
fn parse(decoder: &mut Decoder<'_>, words: &[u32]) -> Vec<Word> {
    let given: Vec<Given> = words.iter().map(|&form| Given { form, tag: None }).collect();
    let parse = decoder.parse(&given);
    let word = |place: usize| Word {
        form: words[place],
        tag: parse.tags[place],
        head: parse.heads[place],
        label: u32::from(parse.labels[place].0),
        is_punctuation: false,
    };
    (0..words.len()).map(word).collect()
}
