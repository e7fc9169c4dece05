//! The chart against its definition: sums over all rules, cuts and tables, on grammars and strings drawn at random, so that
//! every layout of cells is met: squares, rows of symbols that begin or end strings, bands of bounded length.

use std::collections::HashMap;

use rand::RngExt;

use super::chain::Chain;
use crate::adaptor::cache::Cache;
use crate::adaptor::chart::{Chart, Current, Mode};
use crate::adaptor::derivation::Derivation;
use crate::adaptor::grammar::{Grammar, Symbol};
use crate::adaptor::ledger::words_of;
use crate::adaptor::reader::{Alphabet, Defaults, read};
use crate::adaptor::view::Views;
use crate::cluster::rng::{Generator, Purpose, generator};

/// in(X, i, j) as it is defined, or the best derivation in place of the sum.
struct Naive<'a> {
    grammar: &'a Grammar,
    cache: &'a Cache,
    /// Words of each living table.
    tables: Vec<(u32, Symbol, Vec<Symbol>)>,
    string: &'a [Symbol],
    is_best: bool,
    known: HashMap<(Symbol, usize, usize), f64>,
}

impl Naive<'_> {
    fn add(&self, one: f64, two: f64) -> f64 {
        if self.is_best { one.max(two) } else { one + two }
    }

    fn symbol(&mut self, symbol: Symbol, i: usize, j: usize) -> f64 {
        if self.grammar.is_terminal(symbol) {
            return if self.string[i..j] == [symbol] { 1.0 } else { 0.0 };
        }
        if let Some(&value) = self.known.get(&(symbol, i, j)) {
            return value;
        }
        let mut value = 0.0;
        for &rule in &self.grammar.rules_of[symbol as usize] {
            let children = &self.grammar.rules[rule as usize].children;
            let inner = self.cache.rule_probability(self.grammar, rule) * self.sequence(children, i, j);
            value = self.add(value, inner);
        }
        if self.grammar.is_adapted(symbol) {
            let here = self.tables.iter().filter(|table| table.1 == symbol && table.2 == self.string[i..j]);
            // Which of several tables is best does not matter to the tree: the chart counts them as one.
            let cached: f64 = here.map(|table| self.cache.table_probability(table.0)).sum();
            value = self.add(cached, value * self.cache.new_probability(symbol));
        }
        self.known.insert((symbol, i, j), value);
        value
    }

    fn sequence(&mut self, symbols: &[Symbol], i: usize, j: usize) -> f64 {
        let (first, rest) = symbols.split_first().expect("a symbol");
        if rest.is_empty() {
            return self.symbol(*first, i, j);
        }
        // Each of the rest needs a word.
        (i + 1..(j + 1).saturating_sub(rest.len())).fold(0.0, |sum, cut| {
            let product = self.symbol(*first, i, cut) * self.sequence(rest, cut, j);
            self.add(sum, product)
        })
    }
}

/// A grammar over a, b and c; some of its nonterminals are adapted.
fn draw_grammar(rng: &mut Generator) -> String {
    let parents = ["S", "A", "B", "C"];
    let symbols = ["S", "A", "B", "C", "a", "b", "c"];
    let mut text = String::from("S --> A\nS --> A S\nA --> b\n");
    for (number, parent) in parents.iter().enumerate() {
        let adaptor = if number > 0 && rng.random_bool(0.4) { "1 0.4 0.8 " } else { "" };
        for _ in 0..rng.random_range(1..4) {
            // Children come later in the list, or there is a terminal beside them: few cycles.
            let from = if rng.random_bool(0.7) { number + 1 } else { 0 };
            let count = rng.random_range(1..4);
            let children: Vec<&str> = (0..count).map(|_| symbols[rng.random_range(from..symbols.len())]).collect();
            text += &format!("{adaptor}{parent} --> {}\n", children.join(" "));
        }
    }
    text + "C --> a\n"
}

#[test]
fn the_chart_adds_up_all_derivations() {
    let (mut grammars, mut derived, mut cached) = (0, 0, 0);
    for seed in 0..1500 {
        let mut rng = generator(seed, Purpose::Synth, 0, 0);
        let text = draw_grammar(&mut rng);
        let Ok(grammar) = read("g", &text, &Alphabet::default(), &Defaults::default()) else { continue };
        let terminals: Vec<Symbol> = grammar.terminals().into_values().collect();
        grammars += 1;
        let mut strings: Vec<Vec<Symbol>> = vec![];
        for length in 1..8 {
            strings.push((0..length).map(|_| terminals[rng.random_range(0..terminals.len())]).collect());
        }
        // Strings that are derived are parsed, so that something is cached; each of them then is asked for again.
        let mut views = Views::default();
        let mut chart = Chart::default();
        let prior = Chain::new(grammar.clone(), &[], 1.0);
        let is_derived = |string: &Vec<Symbol>| naive(&grammar, &prior.cache, string, false) > 0.0;
        let names: Vec<String> =
            strings.iter().filter(|string| is_derived(string)).map(|string| show(&grammar, string)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let chain = Chain::new(grammar.clone(), &names, 1.0);
        cached += chain.cache.tables.len();
        for string in &strings {
            for mode in [Mode::Sum, Mode::Best] {
                let exact = naive(&grammar, &chain.cache, string, mode == Mode::Best);
                let weights = Current { grammar: &grammar, cache: &chain.cache, power: 1.0 };
                let mut found = 0.0;
                if let Some(number) = views.of_string(&grammar, string) {
                    let view = &views.all[number as usize];
                    if chart.fill(&grammar, (number, view), string, &weights, mode) {
                        found = libm::exp(chart.total_ln(view));
                        derived += 1;
                        let mut derivation = Derivation::default();
                        let mut rng = generator(seed, Purpose::Synth, 1, 0);
                        let rng = (mode == Mode::Sum).then_some(&mut rng);
                        chart.derive(view, &weights, false, rng, &mut derivation);
                        assert_eq!(words_of(&grammar, &chain.cache, &derivation.nodes), *string, "{text}");
                    }
                }
                let shown = show(&grammar, string);
                assert!((found - exact).abs() <= 1e-9 * exact, "{mode:?} of {shown}: {found}, not {exact}\n{text}");
            }
        }
    }
    assert!(grammars > 200 && derived > 1000 && cached > 300, "{grammars} {derived} {cached}");
}

fn naive(grammar: &Grammar, cache: &Cache, string: &[Symbol], is_best: bool) -> f64 {
    let lives = |table: &u32| cache.tables[*table as usize].customers > 0;
    let tables = (0..cache.tables.len() as u32).filter(lives).map(|table| {
        let words = words_of(grammar, cache, cache.label(table));
        (table, cache.symbol_of(table), words)
    });
    let tables = tables.collect();
    let mut naive = Naive { grammar, cache, tables, string, is_best, known: HashMap::new() };
    naive.symbol(grammar.start, 0, string.len())
}

fn show(grammar: &Grammar, string: &[Symbol]) -> String {
    string.iter().map(|&symbol| grammar.name(symbol)).collect::<Vec<_>>().join(" ")
}
