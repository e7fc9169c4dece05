//! Particle Gibbs against exact answers: all tags and derivations of a sentence are enumerated, with all seatings of what
//! they generate.

use std::collections::BTreeMap;

use super::gibbs::Gibbs;
use super::parses::tree;
use crate::cluster::sweep::Model;
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

/// p of a derivation of `latent`, together with the trees and summed over all seatings in what learns.
fn exact(plan: &Plan, model: &ParserModel, latent: Latent<'_>, codes: &[u16], trees: &[(Vec<u32>, Vec<u16>)]) -> f64 {
    let (mut p, mut tokens) = (1.0, vec![vec![]; plan.contexts.all.len()]);
    let at = |part: Part| plan.contexts.all.iter().position(|(own, _)| *own == part);
    let of_trees = trees.iter().map(|(words, codes)| (Latent { words, model }, &codes[..]));
    for (number, (latent, codes)) in of_trees.chain([(latent, codes)]).enumerate() {
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

/// How far a long chain is from the posterior: half of the sum of differences, over all derivations of a sentence.
fn distance(learns: impl Fn(Part) -> bool, sweeps: u64) -> f64 {
    let (model, treebank) = train(&conllu(&TREES), settings());
    let lexicon = &model.kept.lexicon;
    let mut plan = Plan { learn_every: 0, ..plan(settings()) };
    plan.contexts.all.retain(|(part, _)| learns(*part));
    let words: Vec<u32> = ["a", "b", "a"].map(|word| lexicon.word(word, false)).to_vec();
    let tags = lexicon.tags.len() as u16;
    let latent = Latent { words: &words, model: &model };

    let mut gibbs = Gibbs::model(&plan, &model, 4);
    let flat = (0..plan.contexts.all.len()).map(|at| {
        let depth = plan.contexts.all[at].1.len();
        crate::restaurant::parameters::Parameters::new(depth, plan.model.discount, plan.model.strength)
    });
    gibbs.set_shared(flat.collect());
    let observed = (0..treebank.len()).map(|number| lexicon.sentence(&treebank, number));
    // All words depend on the second.
    gibbs.sentences.add_shard(0, observed, std::iter::once(tree(&words, &[[0, 0, 2], [1, 0, 0], [0, 0, 2]])));
    let trees: Vec<(Vec<u32>, Vec<u16>)> = gibbs.sentences.observed(0);

    let all = derivations(words.len(), tags);
    assert_eq!(all.len(), 8 * 8, "two brackets, two arcs to either side, three tags");
    assert!(all.iter().all(|codes| latent.is_derivation(codes)));
    let exact: BTreeMap<Vec<u16>, f64> =
        all.into_iter().map(|codes| (codes.clone(), exact(&plan, &model, latent, &codes, &trees))).collect();
    let sum: f64 = exact.values().sum();
    let most = exact.values().copied().fold(0.0, f64::max) / sum;
    assert!(most < 0.5, "the posterior is spread: {most}");

    gibbs.draw_shard(0, 0);
    let mut found: BTreeMap<Vec<u16>, f64> = BTreeMap::new();
    for sweep in 0..sweeps {
        gibbs.sweep_shard(0, sweep..sweep + 1, 0);
        *found.entry(gibbs.sentences.derivations(0).remove(0)).or_default() += 1.0 / sweeps as f64;
    }
    assert!(found.keys().all(|codes| exact.contains_key(codes)), "{found:?}");
    exact.iter().map(|(codes, p)| (p / sum - found.get(codes).copied().unwrap_or(0.0)).abs()).sum::<f64>() / 2.0
}

#[test]
fn tags_and_trees_are_drawn_from_their_posterior() {
    for (what, is_all) in [("all", true), ("words", false)] {
        let distance = distance(|part| is_all || part == Part::Word, 120_000);
        assert!(distance < 0.02, "{what} learn: total variation {distance}");
    }
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
