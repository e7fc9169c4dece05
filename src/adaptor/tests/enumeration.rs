//! All parses of strings with all seatings, by brute force.

use std::collections::BTreeMap;

use super::words;
use crate::adaptor::grammar::{Grammar, Symbol};

/// A seating in the making, by brute force.
#[derive(Clone, Default)]
struct World {
    uses: BTreeMap<u32, f64>,
    /// Nonterminal, words, customers, tree.
    tables: Vec<(Symbol, Vec<Symbol>, f64, Vec<Tree>)>,
    probability: f64,
}

/// A node as brute force has it: a rule, or a table.
#[derive(Clone, Copy)]
enum Tree {
    Rule(u32),
    Table(usize),
}

/// All ways to derive `words` from `symbol` in `world`, each with the nodes that it adds.
fn expand(grammar: &Grammar, world: &World, symbol: Symbol, words: &[Symbol]) -> Vec<(World, Vec<Tree>)> {
    if grammar.is_terminal(symbol) {
        return if words == [symbol] { vec![(world.clone(), vec![])] } else { vec![] };
    }
    let Some(adaptor) = grammar.adaptors[symbol as usize] else { return by_rules(grammar, world, symbol, words) };
    let (n, m) = world.tables.iter().filter(|table| table.0 == symbol).fold((0.0, 0.0), |(n, m), t| (n + t.2, m + 1.0));
    let mut ways = vec![];
    for (number, table) in world.tables.iter().enumerate() {
        if table.0 == symbol && table.1 == words && !table.3.is_empty() {
            let mut next = world.clone();
            next.probability *= (table.2 - adaptor.a) / (n + adaptor.b);
            next.tables[number].2 += 1.0;
            ways.push((next, vec![Tree::Table(number)]));
        }
    }
    let mut opened = world.clone();
    opened.probability *= (m * adaptor.a + adaptor.b) / (n + adaptor.b);
    let number = opened.tables.len();
    opened.tables.push((symbol, words.to_vec(), 1.0, vec![]));
    for (mut next, tree) in by_rules(grammar, &opened, symbol, words) {
        next.tables[number].3 = tree;
        ways.push((next, vec![Tree::Table(number)]));
    }
    ways
}

fn by_rules(grammar: &Grammar, world: &World, symbol: Symbol, words: &[Symbol]) -> Vec<(World, Vec<Tree>)> {
    let mut ways = vec![];
    for &rule in &grammar.rules_of[symbol as usize] {
        let all: f64 = grammar.rules_of[symbol as usize].iter().map(|r| world.uses.get(r).unwrap_or(&0.0)).sum();
        let mut next = world.clone();
        let uses = next.uses.entry(rule).or_insert(0.0);
        next.probability *= (grammar.rules[rule as usize].weight + *uses) / (grammar.weight_of[symbol as usize] + all);
        *uses += 1.0;
        ways.extend(in_sequence(grammar, &next, &grammar.rules[rule as usize].children, words, vec![Tree::Rule(rule)]));
    }
    ways
}

fn in_sequence(
    grammar: &Grammar,
    world: &World,
    symbols: &[Symbol],
    words: &[Symbol],
    before: Vec<Tree>,
) -> Vec<(World, Vec<Tree>)> {
    let Some((&first, rest)) = symbols.split_first() else {
        return if words.is_empty() { vec![(world.clone(), before)] } else { vec![] };
    };
    let mut ways = vec![];
    for cut in 1..=words.len() {
        for (next, tree) in expand(grammar, world, first, &words[..cut]) {
            ways.extend(in_sequence(grammar, &next, rest, &words[cut..], [before.clone(), tree].concat()));
        }
    }
    ways
}

/// Probability to the power, by state.
pub fn enumerate(grammar: &Grammar, strings: &[&str], power: f64) -> BTreeMap<String, f64> {
    normalised(weigh(grammar, strings, power))
}

/// Weights as probabilities.
pub fn normalised(states: BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let total: f64 = states.values().sum();
    states.into_iter().map(|(state, weight)| (state, weight / total)).collect()
}

/// p(strings, state) to the power, by state.
pub fn weigh(grammar: &Grammar, strings: &[&str], power: f64) -> BTreeMap<String, f64> {
    let mut worlds = vec![(World { probability: 1.0, ..World::default() }, vec![])];
    for string in strings {
        let string = words(grammar, string);
        let next = worlds.iter().flat_map(|(world, trees)| {
            let ways = expand(grammar, world, grammar.start, &string);
            ways.into_iter().map(|(world, tree)| (world, [trees.clone(), vec![tree]].concat()))
        });
        worlds = next.collect();
    }
    fn write(world: &World, tree: &[Tree], numbers: &mut BTreeMap<usize, usize>, text: &mut String) {
        for &node in tree {
            match node {
                Tree::Rule(rule) => *text += &format!(" {rule}"),
                Tree::Table(table) => {
                    let next = numbers.len();
                    let is_new = !numbers.contains_key(&table);
                    *text += &format!(" t{}", numbers.entry(table).or_insert(next));
                    if is_new {
                        text.push('(');
                        write(world, &world.tables[table].3, numbers, text);
                        text.push(')');
                    }
                }
            }
        }
    }
    let mut states: BTreeMap<String, f64> = BTreeMap::new();
    for (world, trees) in &worlds {
        let (mut text, mut numbers) = (String::new(), BTreeMap::new());
        for tree in trees {
            write(world, tree, &mut numbers, &mut text);
            text.push(';');
        }
        *states.entry(text).or_insert(0.0) += libm::pow(world.probability, power);
    }
    states
}
