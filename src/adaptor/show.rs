//! What an adaptor grammar has learned: cached strings, and the probabilities of rules.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::cache::Cache;
use super::grammar::{Grammar, Symbol};
use super::ledger::words_of;
use super::model::AdaptorModel;

/// The strings of an adapted nonterminal, with customers and tables, the most frequent first.
pub fn cached(grammar: &Grammar, cache: &Cache, symbol: Symbol) -> Vec<(String, u32, u32)> {
    let mut strings: BTreeMap<Vec<Symbol>, (u32, u32)> = BTreeMap::new();
    for entry in (0..cache.entries.len() as u32).filter(|&entry| cache.entries[entry as usize].symbol == symbol) {
        let here = &cache.entries[entry as usize];
        if let Some(table) = cache.tables_at(entry).next() {
            strings.insert(words_of(grammar, cache, cache.label(table)), (here.customers, here.tables));
        }
    }
    let name = |words: &[Symbol]| words.iter().map(|&word| grammar.name(word)).collect::<Vec<_>>().join(" ");
    let mut strings: Vec<_> = strings.iter().map(|(words, counts)| (name(words), counts.0, counts.1)).collect();
    strings.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    strings
}

/// The rules of a nonterminal with their probabilities, the most probable first.
pub fn rules(model: &AdaptorModel, symbol: Symbol) -> Vec<(String, f64)> {
    let grammar = &model.kept.grammar;
    let own = grammar.rules_of[symbol as usize].iter();
    let mut rules: Vec<(String, f64)> = own
        .map(|&rule| {
            (
                grammar.show_rule(rule).replacen(&format!("{} --> ", grammar.name(symbol)), "", 1),
                model.rule_probability(rule),
            )
        })
        .collect();
    rules.sort_by(|a, b| b.1.total_cmp(&a.1));
    rules
}

/// Nonterminals whose rules are shown at most.
const SHOWN: usize = 60;

/// The model, for people: `count` strings and rules of each nonterminal.
pub fn describe(model: &AdaptorModel, count: usize) -> String {
    let grammar = &model.kept.grammar;
    let adapted: Vec<Symbol> = grammar.adapted().collect();
    let mut text = format!(
        "adaptor grammar: {} nonterminals, {} of them adapted, {} rules; {} samples\n",
        grammar.nonterminals,
        adapted.len(),
        grammar.rules.len(),
        model.kept.samples.len()
    );
    let cache = model.last();
    for symbol in adapted {
        let at = symbol as usize;
        let _ = writeln!(
            text,
            "\n{}: {} tables for {} strings, a = {:.3}, b = {:.2}",
            grammar.name(symbol),
            cache.tables_of[at],
            cache.customers[at],
            cache.adaptors[at].a,
            cache.adaptors[at].b
        );
        for (string, customers, tables) in cached(grammar, cache, symbol).into_iter().take(count) {
            let _ = writeln!(
                text,
                "  {customers:>7}  {string}{}",
                if tables > 1 { format!("  ({tables} tables)") } else { String::new() }
            );
        }
    }
    text += "\nrules\n";
    let open: Vec<Symbol> = (0..grammar.nonterminals).filter(|&s| grammar.rules_of[s as usize].len() > 1).collect();
    for &symbol in open.iter().take(SHOWN) {
        for (children, probability) in rules(model, symbol).into_iter().take(count) {
            let _ = writeln!(text, "  {probability:.4}  {} --> {children}", grammar.name(symbol));
        }
    }
    if open.len() > SHOWN {
        let _ = writeln!(text, "  ... and the rules of {} more nonterminals", open.len() - SHOWN);
    }
    text
}
