//! A context-free grammar with Dirichlet weights and adapted nonterminals, as numbers.
//!
//! Nonterminals are numbered from 0, terminals after them. Rules have no empty right-hand sides and nonterminals no unary
//! cycles, so every string has finitely many derivations ([`super::cycles`]).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{ensure, is_positive};

/// No rule has a larger weight, so that their sums stay numbers.
pub const MOST_WEIGHT: f64 = 1e100;

/// A nonterminal or terminal.
pub type Symbol = u32;

/// None of the numbers that something has.
pub const NONE: u32 = u32::MAX;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    pub parent: Symbol,
    pub children: Vec<Symbol>,
    /// The Dirichlet parameter.
    pub weight: f64,
    /// Children that are nonterminals.
    pub arity: u32,
}

/// Discount a and strength b of a Pitman-Yor adaptor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Adaptor {
    pub a: f64,
    pub b: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Grammar {
    /// Of nonterminals, then of terminals.
    pub names: Vec<String>,
    /// How many nonterminals there are.
    pub nonterminals: u32,
    pub start: Symbol,
    pub rules: Vec<Rule>,
    /// Rules by nonterminal, in the order of the file.
    pub rules_of: Vec<Vec<u32>>,
    /// Those of them that are not for one word alone.
    pub inner_of: Vec<Vec<u32>>,
    /// The sum of the weights of all.
    pub weight_of: Vec<f64>,
    /// By nonterminal: the parameters that adaptors start with; none where it is not adapted.
    pub adaptors: Vec<Option<Adaptor>>,
    /// By terminal: the rules that have it alone on their right.
    pub lexical: Vec<Vec<u32>>,
    /// By symbol: the rules of `inner_of` that are looked at when it is found in a string: of a rule's children, that which
    /// stands in the fewest rules is responsible.
    pub watched: Vec<Vec<u32>>,
    /// By terminal: whether it stands in such a rule.
    pub is_inner: Vec<bool>,
}

impl Grammar {
    /// The grammar of these rules: (parent, children, weight), which name symbols as `names` does.
    pub fn new(
        names: Vec<String>,
        nonterminals: u32,
        start: Symbol,
        rules: Vec<(Symbol, Vec<Symbol>, f64)>,
        adaptors: Vec<Option<Adaptor>>,
    ) -> Grammar {
        let mut grammar = Grammar { nonterminals, start, adaptors, ..Grammar::default() };
        grammar.rules_of = vec![vec![]; nonterminals as usize];
        grammar.inner_of = vec![vec![]; nonterminals as usize];
        grammar.weight_of = vec![0.0; nonterminals as usize];
        grammar.lexical = vec![vec![]; names.len() - nonterminals as usize];
        grammar.watched = vec![vec![]; names.len()];
        let mut uses = vec![0u32; names.len()];
        for (number, (parent, children, weight)) in (0..).zip(rules) {
            let arity = children.iter().filter(|&&child| child < nonterminals).count() as u32;
            grammar.rules_of[parent as usize].push(number);
            grammar.weight_of[parent as usize] += weight;
            match children[..] {
                [child] if child >= nonterminals => grammar.lexical[(child - nonterminals) as usize].push(number),
                _ => {
                    grammar.inner_of[parent as usize].push(number);
                    children.iter().for_each(|&child| uses[child as usize] += 1);
                }
            }
            grammar.rules.push(Rule { parent, children, weight, arity });
        }
        for &number in grammar.inner_of.iter().flatten() {
            let rule = &grammar.rules[number as usize];
            let rarest = rule.children.iter().min_by_key(|&&child| uses[child as usize]).expect("a child");
            grammar.watched[*rarest as usize].push(number);
        }
        grammar.is_inner = uses[nonterminals as usize..].iter().map(|&uses| uses > 0).collect();
        grammar.names = names;
        grammar
    }

    /// Checks that the parts belong together and that no nonterminal can be rewritten as itself: files may be damaged.
    pub fn validate(&self) -> Result<(), String> {
        let symbols = self.names.len();
        ensure(self.nonterminals > 0 && self.nonterminals as usize <= symbols, "the number of symbols")?;
        ensure(self.start < self.nonterminals, "the start symbol")?;
        let is_rule = |rule: &Rule| {
            rule.parent < self.nonterminals
                && !rule.children.is_empty()
                && rule.children.iter().all(|&child| (child as usize) < symbols)
                && is_positive(rule.weight)
                && rule.weight <= MOST_WEIGHT
        };
        ensure(self.rules.iter().all(is_rule), "a rule of the grammar")?;
        let is_adaptor = |adaptor: &Adaptor| (0.0..1.0).contains(&adaptor.a) && is_positive(adaptor.b);
        let has_adaptors = self.adaptors.len() == self.nonterminals as usize;
        ensure(has_adaptors && self.adaptors.iter().flatten().all(is_adaptor), "an adaptor")?;
        let rules = self.rules.iter().map(|rule| (rule.parent, rule.children.clone(), rule.weight)).collect();
        let again = Grammar::new(self.names.clone(), self.nonterminals, self.start, rules, self.adaptors.clone());
        ensure(*self == again, "the indices of the grammar")?;
        ensure(!self.has_unary_cycle(), "the grammar has a unary cycle")
    }

    /// Whether a nonterminal can become itself by unary rules. Takes linear time: what leads to nothing is taken away, again
    /// and again, and cycles are left.
    fn has_unary_cycle(&self) -> bool {
        let unary = |rule: &&Rule| rule.children.len() == 1 && !self.is_terminal(rule.children[0]);
        let mut parents: Vec<Vec<Symbol>> = vec![vec![]; self.nonterminals as usize];
        let mut open = vec![0u32; self.nonterminals as usize];
        for rule in self.rules.iter().filter(unary) {
            parents[rule.children[0] as usize].push(rule.parent);
            open[rule.parent as usize] += 1;
        }
        let mut done: Vec<Symbol> = (0..self.nonterminals).filter(|&symbol| open[symbol as usize] == 0).collect();
        let mut count = 0;
        while let Some(symbol) = done.pop() {
            count += 1;
            for &parent in &parents[symbol as usize] {
                open[parent as usize] -= 1;
                if open[parent as usize] == 0 {
                    done.push(parent);
                }
            }
        }
        count < self.nonterminals
    }

    pub fn is_terminal(&self, symbol: Symbol) -> bool {
        symbol >= self.nonterminals
    }

    pub fn name(&self, symbol: Symbol) -> &str {
        &self.names[symbol as usize]
    }

    /// The terminals by name.
    pub fn terminals(&self) -> BTreeMap<&str, Symbol> {
        let first = self.nonterminals as usize;
        self.names[first..].iter().map(String::as_str).zip(self.nonterminals..).collect()
    }

    /// The nonterminal of this name.
    pub fn nonterminal(&self, name: &str) -> Option<Symbol> {
        (0..self.nonterminals).find(|&symbol| self.name(symbol) == name)
    }

    pub fn is_adapted(&self, symbol: Symbol) -> bool {
        self.adaptors.get(symbol as usize).is_some_and(Option::is_some)
    }

    /// The adapted nonterminals.
    pub fn adapted(&self) -> impl Iterator<Item = Symbol> + '_ {
        (0..self.nonterminals).filter(|&symbol| self.is_adapted(symbol))
    }

    /// A rule, for people.
    pub fn show_rule(&self, rule: u32) -> String {
        let rule = &self.rules[rule as usize];
        let children: Vec<&str> = rule.children.iter().map(|&child| self.name(child)).collect();
        format!("{} --> {}", self.name(rule.parent), children.join(" "))
    }
}
