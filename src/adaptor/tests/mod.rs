//! The sampler against enumeration: all parses of three strings under a plain grammar, all parses and seatings under an
//! adaptor grammar, the same with a and b integrated out, and all topics of a tiny corpus under LDA; and the chart against
//! sums over all derivations.
//!
//! - `chain`: what is tested
//! - `enumeration`: what it is compared with
//! - `inside`: the chart alone, on grammars drawn at random

mod chain;
mod enumeration;
mod inside;

use std::collections::BTreeMap;

use chain::{Chain, Steps};
use enumeration::{enumerate, normalised, weigh};

use super::derivation::Node;
use super::grammar::{Adaptor, Grammar, Symbol};
use super::reader::{Alphabet, Defaults, read};
use crate::math::exactness::{Draws, assert_exact};
use crate::restaurant::parameters::Hyperprior;

fn grammar(text: &str) -> Grammar {
    read("g", text, &Alphabet::default(), &Defaults::default()).expect("a grammar")
}

fn words(grammar: &Grammar, text: &str) -> Vec<Symbol> {
    let terminals = grammar.terminals();
    text.split(' ').map(|word| terminals[word]).collect()
}

/// Compares a chain with enumeration; the noise of so many sweeps is about a third of `tolerance`.
fn compare(text: &str, strings: &[&str], power: f64, sweeps: u32, tolerance: f64, steps: Steps) {
    let grammar = grammar(text);
    let exact = enumerate(&grammar, strings, power);
    check(grammar, strings, power, sweeps, tolerance, steps, &exact);
}

fn check(
    grammar: Grammar,
    strings: &[&str],
    power: f64,
    sweeps: u32,
    tolerance: f64,
    steps: Steps,
    exact: &BTreeMap<String, f64>,
) {
    let seen = Chain::new(grammar, strings, power).run(sweeps, steps);
    assert!(exact.len() > 10, "{} states", exact.len());
    assert_exact(&format!("{strings:?}"), &seen, exact, Draws::Chain(sweeps as usize), tolerance);
}

/// Parses alone.
const PARSES: Steps = Steps { labels: false, sync_every: 0, hyper: None };
const LABELS: Steps = Steps { labels: true, ..PARSES };

const PLAIN: &str =
    "S --> X\nS --> X S\n0.5 X --> a\nX --> a a\n2 X --> b\nX --> a Y a\nX --> Z\nY --> b\nZ --> a b\nZ --> b a";

#[test]
fn a_plain_grammar_gives_the_posterior_over_trees() {
    compare(PLAIN, &["a a b a", "a b a", "b a a"], 1.0, 100_000, 0.02, PARSES);
    compare(PLAIN, &["a a b a", "a b a", "b a a"], 0.5, 100_000, 0.02, PARSES);
}

const NESTED: &str = "S --> C\nS --> C S\n1 0.4 0.7 C --> W\n2 C --> W W\n1 0.2 1.5 W --> a\nW --> a a\n0.5 W --> b";

#[test]
fn an_adaptor_grammar_gives_the_posterior_over_trees_and_seatings() {
    compare(NESTED, &["a a", "a a", "b"], 1.0, 200_000, 0.02, PARSES);
    compare(NESTED, &["a a", "a a", "b"], 1.0, 200_000, 0.02, LABELS);
    compare(NESTED, &["a a", "a"], 0.6, 100_000, 0.02, LABELS);
}

/// With one shard a synchronisation changes nothing but numbers.
#[test]
fn the_ledger_of_one_shard_is_exact() {
    compare(PLAIN, &["a a b a", "b a a"], 1.0, 50_000, 0.03, Steps { sync_every: 1, ..PARSES });
    compare(NESTED, &["a a", "a a", "b"], 1.0, 100_000, 0.03, Steps { sync_every: 1, ..LABELS });
    // A tree that is drawn in one sweep ends in the next, before others have heard of it.
    compare(NESTED, &["a a", "a a", "b"], 1.0, 100_000, 0.03, Steps { sync_every: 3, ..LABELS });
}

/// Drawing parses, trees and, in turn, a and b, against a sum over a grid of a and b.
#[test]
fn parses_have_their_posterior_where_a_and_b_are_learned() {
    let text = "S --> W\nS --> W S\n1 0.5 1 W --> a\nW --> a a\n0.3 W --> b";
    let strings = ["a a", "a b a", "a"];
    let prior = Hyperprior { discount: [2.0, 3.0], strength: [3.0, 2.0] };
    let mut exact: BTreeMap<String, f64> = BTreeMap::new();
    let mut grammar = grammar(text);
    let word = grammar.adapted().next().expect("W") as usize;
    for (i, j) in (0..20).flat_map(|i| (0..40).map(move |j| (i, j))) {
        let (a, b) = ((f64::from(i) + 0.5) / 20.0, (f64::from(j) + 0.5) / 5.0);
        grammar.adaptors[word] = Some(Adaptor { a, b });
        let density = a * (1.0 - a) * (1.0 - a) * b * b * libm::exp(-2.0 * b);
        for (state, weight) in weigh(&grammar, &strings, 1.0) {
            *exact.entry(state).or_insert(0.0) += density * weight;
        }
    }
    let steps = Steps { hyper: Some(prior), ..LABELS };
    check(grammar, &strings, 1.0, 50_000, 0.03, steps, &normalised(exact));
}

#[test]
fn a_tree_that_repeats_itself_can_share_a_table_or_not() {
    compare("S --> W W\n1 0.5 1 W --> a\nW --> V\n1 0.3 0.5 V --> a", &["a a", "a a"], 1.0, 200_000, 0.02, LABELS);
}

#[test]
fn long_strings_stay_in_range() {
    let alphabet = Alphabet { documents: vec![], words: (0..1000).map(|word| format!("w{word}")).collect() };
    let grammar = read("g", "%w = words\nS --> W\nS --> W S\nW --> {w}", &alphabet, &Defaults::default()).unwrap();
    let text: Vec<String> = (0..800).map(|word| format!("w{}", word * 7 % 1000)).collect();
    let chain = Chain::new(grammar, &[&text.join(" ")], 1.0);
    assert_eq!(chain.parses[0].len(), 1600);
}

/// Section 4: a grammar whose posterior over topics is that of LDA.
#[test]
fn lda_as_a_grammar_has_the_posterior_of_lda() {
    let documents: [&[usize]; 2] = [&[0, 1, 0], &[2, 1]];
    let (alpha, beta, topics, vocabulary) = (0.4, 0.3, 2, 3);
    let text = "%i = 1..2\n%j = documents\n%w = words\nS --> P{j}\nP{j} --> _{j}\nP{j} --> P{j} D{j}\n0.4 D{j} --> T{i}\n0.3 T{i} --> {w}";
    let names = |list: &[&str]| list.iter().map(|name| name.to_string()).collect();
    let alphabet = Alphabet { documents: names(&["1", "2"]), words: names(&["w0", "w1", "w2"]) };
    let grammar = read("g", text, &alphabet, &Defaults::default()).unwrap();
    let tokens: Vec<(usize, usize)> =
        documents.iter().enumerate().flat_map(|(d, words)| words.iter().map(move |&w| (d, w))).collect();
    let mut exact: BTreeMap<String, f64> = BTreeMap::new();
    for code in 0..1usize << tokens.len() {
        let (mut by_document, mut by_topic) = ([[0.0; 2]; 2], [[0.0; 3]; 2]);
        let mut probability = 1.0;
        let mut state = String::new();
        for (token, &(document, word)) in tokens.iter().enumerate() {
            let topic = code >> token & 1;
            let (in_document, in_topic): (f64, f64) =
                (by_document[document].iter().sum(), by_topic[topic].iter().sum());
            probability *= (by_document[document][topic] + alpha) / (in_document + alpha * topics as f64);
            probability *= (by_topic[topic][word] + beta) / (in_topic + beta * vocabulary as f64);
            by_document[document][topic] += 1.0;
            by_topic[topic][word] += 1.0;
            state += &topic.to_string();
        }
        exact.insert(state, probability);
    }
    let exact = normalised(exact);
    let mut chain = Chain::new(grammar, &["_1 w0 w1 w0", "_2 w2 w1"], 1.0);
    let mut seen: BTreeMap<String, f64> = BTreeMap::new();
    let sweeps = 100_000;
    for _ in 0..sweeps {
        for string in 0..2 {
            chain.visit(string, false);
        }
        let mut state = String::new();
        for parse in &chain.parses {
            for &node in parse {
                if let Node::Rule(rule) = Node::unpack(node)
                    && chain.grammar.name(chain.grammar.rules[rule as usize].parent).starts_with('D')
                {
                    let topic = chain.grammar.rules[rule as usize].children[0];
                    state += if chain.grammar.name(topic) == "T1" { "0" } else { "1" };
                }
            }
        }
        *seen.entry(state).or_insert(0.0) += 1.0 / f64::from(sweeps);
    }
    assert_exact("topics", &seen, &exact, Draws::Chain(sweeps as usize), 0.02);
}
