//! Particle Gibbs against exact answers: all tags and derivations of sentences are enumerated, with all seatings of what
//! they generate.

use std::collections::BTreeMap;

use super::gibbs::Gibbs;
use super::parses::tree;
use crate::cluster::sweep::Model;
use crate::math::exactness::{Draws, assert_exact};
use crate::parser::action::Action;
use crate::parser::configuration::Configurations;
use crate::parser::job::{ContextSettings, ModelSettings, Part, Plan};
use crate::parser::latent::Latent;
use crate::parser::model::ParserModel;
use crate::parser::tests::{Plain, conllu, plan, train};

/// Trees with two tags and no labels. Their words go with both tags.
const TREES: [&[(&str, &str, u32, &str)]; 2] =
    [&[("a", "X", 2, "_"), ("b", "Y", 0, "_")], &[("b", "X", 0, "_"), ("a", "Y", 1, "_")]];

fn settings() -> ModelSettings {
    let context = |elements: &[&str]| ContextSettings::One(elements.iter().map(|e| e.to_string()).collect());
    ModelSettings {
        transition_context: context(&["s1.t"]),
        tag_context: context(&["s1.t"]),
        word_context: context(&["b.t", "s1.w"]),
        min_count: 1,
        discount: 0.3,
        strength: 1.5,
        ..ModelSettings::default()
    }
}

/// All derivations of so many words, with all tags below `tags`, which is the dummy root's: it has one dependent.
fn derivations(words: usize, tags: u16) -> Vec<Vec<u16>> {
    let mut found = vec![];
    let mut open = vec![(vec![], 0, 0)];
    while let Some((codes, depth, next)) = open.pop() {
        if next == words + 1 && depth == 1 {
            found.push(codes);
            continue;
        }
        let mut add = |code: u16, depth: usize, next: usize| open.push(([&codes[..], &[code]].concat(), depth, next));
        if next < words {
            (0..tags).for_each(|tag| add(tag, depth + 1, next + 1));
        } else if next == words && depth == 1 {
            add(tags, depth + 1, next + 1);
        }
        if depth >= 2 {
            add(tags + 1, depth - 1, next);
            if next <= words {
                add(tags + 2, depth - 1, next);
            }
        }
    }
    found
}

/// Words with their derivation.
type Derived = (Vec<u32>, Vec<u16>);

/// p of the derivations of raw sentences, together with the trees and summed over all seatings in what learns.
fn exact(plan: &Plan, model: &ParserModel, raw: &[Derived], trees: &[Derived]) -> f64 {
    let (mut p, mut tokens) = (1.0, vec![vec![]; plan.contexts.all.len()]);
    let at = |part: Part| plan.contexts.all.iter().position(|(own, _)| *own == part);
    for (number, (words, codes)) in trees.iter().chain(raw).enumerate() {
        let latent = Latent { words, model };
        latent.tokens(&mut Configurations::default(), codes, |arena, token| match at(token.part) {
            Some(at) => {
                let mut values = vec![0; plan.contexts.all[at].1.len()];
                arena.values(token.top, &plan.contexts.all[at].1, token.upcoming, &mut values);
                tokens[at].push((values, token.outcome));
            }
            None if number < trees.len() => {}
            None if token.part == Part::Tag => {
                p *= model.tagger(arena, token.top, Action::Shift).probability(token.outcome);
            }
            None => {
                let mut all = vec![];
                model.all_moves(arena, token.top, &mut all);
                p *= all[token.outcome as usize];
            }
        });
    }
    for ((part, _), tokens) in plan.contexts.all.iter().zip(&tokens) {
        let base = 1.0 / f64::from(model.kept.lexicon.outcomes(*part, plan.model.system));
        let (discount, strength) = (plan.model.discount, plan.model.strength);
        p *= Plain { counts: BTreeMap::new(), discount, strength, base }.sum(tokens);
    }
    p
}

/// Compares a long chain with the posterior over all derivations of all sentences, each given as its words, all of which
/// depend on one of them.
fn assert_drawn_exactly(what: &str, sentences: &[(&[&str], usize)], learns: impl Fn(Part) -> bool, sweeps: u64) {
    let (model, treebank) = train(&conllu(&TREES), settings());
    let lexicon = &model.kept.lexicon;
    let mut plan = Plan { learn_every: 0, ..plan(settings()) };
    plan.contexts.all.retain(|(part, _)| learns(*part));
    let mut gibbs = Gibbs::model(&plan, &model, 4, &|| ());
    let flat = (0..plan.contexts.all.len()).map(|at| {
        let depth = plan.contexts.all[at].1.len();
        crate::restaurant::parameters::Parameters::new(depth, plan.model.discount, plan.model.strength)
    });
    gibbs.set_shared(flat.collect());
    let observed = (0..treebank.len()).map(|number| lexicon.sentence(&treebank, number));
    let raw = sentences.iter().map(|(words, head)| {
        let forms: Vec<u32> = words.iter().map(|word| lexicon.word(word, false)).collect();
        let place = |at: usize| [0, 0, if at == *head { 0 } else { *head as u16 + 1 }];
        tree(&forms, &(0..words.len()).map(place).collect::<Vec<_>>())
    });
    gibbs.sentences.add_shard(0, observed, raw);
    let trees: Vec<Derived> = gibbs.sentences.observed(0);

    let mut all: Vec<Vec<Derived>> = vec![vec![]];
    for (words, _) in sentences {
        let words: Vec<u32> = words.iter().map(|word| lexicon.word(word, false)).collect();
        let own = derivations(words.len(), lexicon.tags.len() as u16);
        assert!(own.iter().all(|codes| Latent { words: &words, model: &model }.is_derivation(codes)));
        let with = |before: Vec<Derived>| {
            let next = own.iter().map(|codes| (words.clone(), codes.clone()));
            next.map(|derived| [&before[..], &[derived]].concat()).collect::<Vec<_>>()
        };
        all = all.into_iter().flat_map(with).collect();
    }
    let codes = |raw: &[Derived]| raw.iter().map(|(_, codes)| codes.clone()).collect::<Vec<_>>();
    let exact: BTreeMap<Vec<Vec<u16>>, f64> =
        all.iter().map(|raw| (codes(raw), exact(&plan, &model, raw, &trees))).collect();
    let brackets = [0, 1, 1, 2]; // of so many words; with two tags, and arcs to either side
    let count = |words: usize| brackets[words] * (1 << words) * (1 << (words - 1));
    assert_eq!(exact.len(), sentences.iter().map(|(words, _)| count(words.len())).product::<usize>());
    let sum: f64 = exact.values().sum();
    let most = exact.values().copied().fold(0.0, f64::max) / sum;
    assert!(most < 0.5, "the posterior is spread: {most}");

    gibbs.draw_shard(0, 0);
    let mut found: BTreeMap<Vec<Vec<u16>>, f64> = BTreeMap::new();
    for sweep in 0..sweeps {
        gibbs.sweep_shard(0, sweep..sweep + 1, 0);
        *found.entry(gibbs.sentences.derivations(0)).or_default() += 1.0 / sweeps as f64;
    }
    assert_exact(what, &found, &exact, Draws::Chain(sweeps as usize), 0.02);
}

#[test]
fn tags_and_trees_are_drawn_from_their_posterior() {
    for (what, is_all) in [("all", true), ("words", false)] {
        assert_drawn_exactly(what, &[(&["a", "b", "a"], 1)], |part| is_all || part == Part::Word, 120_000);
    }
}

/// Sentences tell of each other: what one says is among what the other is drawn from.
#[test]
fn sentences_are_drawn_from_their_common_posterior() {
    assert_drawn_exactly("two sentences", &[(&["b", "a"], 0), (&["b", "b"], 1)], |_| true, 120_000);
}

#[test]
fn derivations_of_other_words_are_refused() {
    let (model, _) = train(&conllu(&TREES), settings());
    let latent = Latent { words: &[1, 2], model: &model };
    let root = model.kept.lexicon.root() as u16;
    assert!(latent.is_derivation(&[0, 1, root + 1, root, root + 1]));
    for codes in [
        vec![0, 1, root + 1, root],
        vec![0, root + 1, 1, root, root + 1],
        vec![0, 1, root, root + 1, root + 9],
        vec![0, root, 1, root + 1, root + 1],
        vec![0, 1, 1, root + 1, root + 1],
    ] {
        assert!(!latent.is_derivation(&codes), "{codes:?}");
    }
}
