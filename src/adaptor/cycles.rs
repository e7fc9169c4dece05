//! What a grammar must not have: unary cycles, which give a string infinitely many derivations, and adapted nonterminals
//! that are left-recursive.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::grammar::{Grammar, Symbol};

/// The first cycle that is not allowed, for people.
pub fn find(grammar: &Grammar) -> Option<String> {
    let is_nonterminal = |symbol: &Symbol| !grammar.is_terminal(*symbol);
    let unary = |symbol: Symbol| {
        let rules = grammar.inner_of[symbol as usize].iter().map(|&rule| &grammar.rules[rule as usize].children);
        rules.filter(|children| children.len() == 1).map(|children| children[0]).filter(is_nonterminal)
    };
    if let Some(cycle) = (0..grammar.nonterminals).find_map(|symbol| path_back(grammar, symbol, &unary)) {
        return Some(format!("unary cycle: {cycle}"));
    }
    let first = |symbol: Symbol| {
        let rules = grammar.inner_of[symbol as usize].iter().map(|&rule| &grammar.rules[rule as usize].children);
        rules.map(|children| children[0]).filter(is_nonterminal)
    };
    let cycle = grammar.adapted().find_map(|symbol| path_back(grammar, symbol, &first))?;
    Some(format!("an adapted nonterminal is left-recursive: {cycle}"))
}

/// A path from `symbol` back to it along `next`.
fn path_back<I: Iterator<Item = Symbol>>(
    grammar: &Grammar,
    symbol: Symbol,
    next: &dyn Fn(Symbol) -> I,
) -> Option<String> {
    let mut from = BTreeMap::new();
    let mut open = vec![symbol];
    while let Some(at) = open.pop() {
        for child in next(at) {
            if child == symbol {
                let mut path = vec![symbol, at];
                while let Some(&before) =
                    from.get(path.last().expect("a symbol")).filter(|_| path.last() != Some(&symbol))
                {
                    path.push(before);
                }
                let names: Vec<&str> = path.iter().rev().map(|&symbol| grammar.name(symbol)).collect();
                return Some(names.join(" --> "));
            }
            if let Entry::Vacant(place) = from.entry(child) {
                place.insert(at);
                open.push(child);
            }
        }
    }
    None
}
