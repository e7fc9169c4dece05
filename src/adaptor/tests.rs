//! The sampler against enumeration: all parses of three strings under a plain grammar, all parses and seatings under an
//! adaptor grammar, and all topics of a tiny corpus under LDA.

use std::collections::BTreeMap;

use super::cache::Cache;
use super::derivation::{Node, Packed};
use super::grammar::{Grammar, Symbol};
use super::ledger::words_of;
use super::reader::{Alphabet, Defaults, read};
use super::sampler::{Outcome, Sampler, Target, Task};
use super::view::Views;
use crate::cluster::rng::{Generator, Purpose, generator};

fn grammar(text: &str) -> Grammar {
    read("g", text, &Alphabet::default(), &Defaults::default()).expect("a grammar")
}

fn words(grammar: &Grammar, text: &str) -> Vec<Symbol> {
    let terminals = grammar.terminals();
    text.split(' ').map(|word| terminals[word]).collect()
}

/// A chain over strings.
struct Chain {
    grammar: Grammar,
    strings: Vec<Vec<Symbol>>,
    cache: Cache,
    parses: Vec<Vec<Packed>>,
    views: Views,
    sampler: Sampler,
    rng: Generator,
    power: f64,
}

impl Chain {
    fn new(grammar: Grammar, strings: &[&str], power: f64) -> Chain {
        let strings: Vec<Vec<Symbol>> = strings.iter().map(|text| words(&grammar, text)).collect();
        let adaptors =
            grammar.adaptors.iter().map(|adaptor| adaptor.unwrap_or(super::grammar::Adaptor { a: 0.0, b: 1.0 }));
        let cache = Cache::new(&grammar, adaptors.collect());
        let parses = vec![vec![]; strings.len()];
        let rng = generator(5, Purpose::Sweep, 0, 0);
        let views = Views::default();
        let mut chain = Chain { grammar, strings, cache, parses, views, sampler: Sampler::default(), rng, power };
        for string in 0..chain.strings.len() {
            assert_eq!(chain.visit(string, true), Outcome::Accepted);
        }
        chain
    }

    fn visit(&mut self, string: usize, is_first: bool) -> Outcome {
        let number = self.views.of_string(&self.grammar, &self.strings[string]).expect("a view");
        let task = Task {
            grammar: &self.grammar,
            view: (number, &self.views.all[number as usize]),
            words: &self.strings[string],
            target: Target::String,
            power: self.power,
        };
        let (cache, parse, rng) = (&mut self.cache, &mut self.parses[string], &mut self.rng);
        match is_first {
            true => self.sampler.draw(&task, cache, parse, rng),
            false => self.sampler.redraw(&task, cache, parse, rng),
        }
    }

    fn relabel(&mut self, table: u32) {
        let symbol = self.cache.symbol_of(table);
        let number = self.views.of_root(&self.grammar, symbol);
        let words = words_of(&self.grammar, &self.cache, self.cache.label(table));
        let task = Task {
            grammar: &self.grammar,
            view: (number, &self.views.all[number as usize]),
            words: &words,
            target: Target::Label(table),
            power: self.power,
        };
        self.sampler.relabel(&task, &mut self.cache, &mut vec![], &mut self.rng);
    }

    /// How often each state is seen in so many sweeps.
    fn run(&mut self, sweeps: u32, with_labels: bool) -> BTreeMap<String, f64> {
        let mut seen = BTreeMap::new();
        for sweep in 0..sweeps {
            for string in 0..self.strings.len() {
                self.visit(string, false);
            }
            if with_labels {
                for table in 0..self.cache.tables.len() as u32 {
                    if self.cache.tables[table as usize].customers > 0 {
                        self.relabel(table);
                    }
                }
            }
            if sweep >= 100 {
                *seen.entry(self.state()).or_insert(0.0) += 1.0 / f64::from(sweeps - 100);
            }
        }
        seen
    }

    /// Trees with the tables that they are at, which are numbered as they are met.
    fn state(&self) -> String {
        let mut numbers = BTreeMap::new();
        let mut text = String::new();
        for parse in &self.parses {
            self.write(parse, &mut numbers, &mut text);
            text.push(';');
        }
        text
    }

    fn write(&self, parse: &[Packed], numbers: &mut BTreeMap<u32, usize>, text: &mut String) {
        for &node in parse {
            match Node::unpack(node) {
                Node::Rule(rule) => *text += &format!(" {rule}"),
                Node::Table(table) => {
                    let next = numbers.len();
                    let is_new = !numbers.contains_key(&table);
                    *text += &format!(" t{}", numbers.entry(table).or_insert(next));
                    if is_new {
                        text.push('(');
                        self.write(self.cache.label(table), numbers, text);
                        text.push(')');
                    }
                }
                Node::Fresh(_) => unreachable!("a parse has no fresh nodes"),
            }
        }
    }
}

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
fn enumerate(grammar: &Grammar, strings: &[&str], power: f64) -> BTreeMap<String, f64> {
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
    let total: f64 = states.values().sum();
    states.into_iter().map(|(state, weight)| (state, weight / total)).collect()
}

/// Half the sum of differences.
fn distance(exact: &BTreeMap<String, f64>, seen: &BTreeMap<String, f64>) -> f64 {
    if let Some(state) = seen.keys().find(|state| !exact.contains_key(*state)) {
        panic!("{state} cannot be");
    }
    exact.iter().map(|(state, p)| (p - seen.get(state).unwrap_or(&0.0)).abs()).sum::<f64>() / 2.0
}

/// Compares a chain with enumeration; the noise of so many sweeps is about a third of `tolerance`.
fn compare(text: &str, strings: &[&str], power: f64, sweeps: u32, tolerance: f64, with_labels: bool) {
    let grammar = grammar(text);
    let exact = enumerate(&grammar, strings, power);
    let mut chain = Chain::new(grammar, strings, power);
    let seen = chain.run(sweeps, with_labels);
    let distance = distance(&exact, &seen);
    assert!(exact.len() > 10, "{} states", exact.len());
    assert!(distance < tolerance, "{distance} over {} states", exact.len());
}

const PLAIN: &str =
    "S --> X\nS --> X S\n0.5 X --> a\nX --> a a\n2 X --> b\nX --> a Y a\nX --> Z\nY --> b\nZ --> a b\nZ --> b a";

#[test]
fn a_plain_grammar_gives_the_posterior_over_trees() {
    compare(PLAIN, &["a a b a", "a b a", "b a a"], 1.0, 100_000, 0.02, false);
    compare(PLAIN, &["a a b a", "a b a", "b a a"], 0.5, 100_000, 0.02, false);
}

const NESTED: &str = "S --> C\nS --> C S\n1 0.4 0.7 C --> W\n2 C --> W W\n1 0.2 1.5 W --> a\nW --> a a\n0.5 W --> b";

#[test]
fn an_adaptor_grammar_gives_the_posterior_over_trees_and_seatings() {
    compare(NESTED, &["a a", "a a", "b"], 1.0, 200_000, 0.02, false);
    compare(NESTED, &["a a", "a a", "b"], 1.0, 200_000, 0.02, true);
    compare(NESTED, &["a a", "a"], 0.6, 100_000, 0.02, true);
}

#[test]
fn a_tree_that_repeats_itself_can_share_a_table_or_not() {
    compare("S --> W W\n1 0.5 1 W --> a\nW --> V\n1 0.3 0.5 V --> a", &["a a", "a a"], 1.0, 200_000, 0.02, true);
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
    let total: f64 = exact.values().sum();
    exact.values_mut().for_each(|probability| *probability /= total);
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
    let distance = distance(&exact, &seen);
    assert!(distance < 0.02, "{distance}");
}
