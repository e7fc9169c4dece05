//! The part of a grammar that can derive a string, made ready for the chart: only its own nonterminals, numbered anew,
//! with rules of at most two parts, and what is known of where each can stand.
//!
//! Strings with the same nonterminals share a view, so a sentence of document j sees the rules of j alone. Longer rules
//! share their beginnings: `X --> A B C` becomes `[A B] --> A B` and `X --> [A B] C`. For every symbol the view knows
//! - the lengths that it can have: `Phonemes --> Phoneme Phonemes` has one place to be cut, and not j - i;
//! - whether it begins every string, or ends it: left- and right-branching spines take linear time and space.

use std::collections::{BTreeSet, HashMap};

use super::grammar::{Grammar, NONE, Symbol};

/// One way to make a symbol of one or two others, over the same words.
#[derive(Clone, Copy, Debug)]
pub struct Production {
    pub left: u32,
    /// None: a unary rule.
    pub right: u32,
    /// None: the beginning of longer rules.
    pub rule: u32,
}

/// A symbol of a view.
#[derive(Clone, Debug)]
pub struct Local {
    /// None: the beginning of longer rules.
    pub symbol: Symbol,
    pub is_terminal: bool,
    pub is_adapted: bool,
    pub has_lexical: bool,
    /// Its productions.
    pub from: u32,
    pub to: u32,
    /// Fewest and most words; most is NONE where there is no limit.
    pub fewest: u32,
    pub most: u32,
    /// Whether it only ever stands at the begin of a string, or at its end.
    pub begins: bool,
    pub ends: bool,
}

#[derive(Clone, Debug)]
pub struct View {
    /// Symbols in an order in which those that are made by unary rules follow what they are made of.
    pub locals: Vec<Local>,
    pub productions: Vec<Production>,
    pub root: u32,
    /// The longest that a symbol can be that stands neither always at the begin nor, where `j` is not the end, at the end.
    pub inner_most: u32,
    pub last_most: u32,
}

/// Views, found by what they are made of.
#[derive(Default)]
pub struct Views {
    pub all: Vec<View>,
    known: HashMap<(Symbol, Vec<Symbol>), u32>,
    /// By what the words of a string can be; none where the start symbol cannot be made of it.
    strings: HashMap<Vec<Symbol>, Option<u32>>,
}

impl Views {
    /// The view of strings of these symbols; none where the start symbol cannot be made of them.
    pub fn of_string(&mut self, grammar: &Grammar, string: &[Symbol]) -> Option<u32> {
        let mut seeds: Vec<Symbol> = vec![];
        for &word in string {
            let terminal = (word - grammar.nonterminals) as usize;
            seeds.extend(grammar.lexical[terminal].iter().map(|&rule| grammar.rules[rule as usize].parent));
            seeds.extend(grammar.is_inner[terminal].then_some(word));
        }
        seeds.sort_unstable();
        seeds.dedup();
        // Strings of a document are alike in this, so that the rules of others are met once for each document.
        if let Some(&known) = self.strings.get(&seeds) {
            return known;
        }
        let active = active(grammar, &seeds);
        let view = active
            .contains(&grammar.start)
            .then(|| self.get(grammar, grammar.start, reachable(grammar, grammar.start, &active)));
        self.strings.insert(seeds, view);
        view
    }

    /// The view of all that `root` can be expanded to.
    pub fn of_root(&mut self, grammar: &Grammar, root: Symbol) -> u32 {
        let all: BTreeSet<Symbol> = (0..grammar.nonterminals).collect();
        self.get(grammar, root, reachable(grammar, root, &all))
    }

    fn get(&mut self, grammar: &Grammar, root: Symbol, nonterminals: Vec<Symbol>) -> u32 {
        if let Some(&known) = self.known.get(&(root, nonterminals.clone())) {
            return known;
        }
        let number = self.all.len() as u32;
        self.all.push(View::new(grammar, root, &nonterminals));
        self.known.insert((root, nonterminals), number);
        number
    }
}

/// The symbols that can be made of some of these. A rule is looked at when the child that watches it is
/// found, and again where others were missing then.
fn active(grammar: &Grammar, seeds: &[Symbol]) -> BTreeSet<Symbol> {
    let mut found: BTreeSet<Symbol> = seeds.iter().copied().collect();
    let mut open: Vec<Symbol> = found.iter().copied().collect();
    let mut waiting: Vec<u32> = vec![];
    loop {
        let before = found.len();
        while let Some(symbol) = open.pop() {
            for &rule in &grammar.watched[symbol as usize] {
                let rule_here = &grammar.rules[rule as usize];
                if !rule_here.children.iter().all(|child| found.contains(child)) {
                    waiting.push(rule);
                } else if found.insert(rule_here.parent) {
                    open.push(rule_here.parent);
                }
            }
        }
        waiting.retain(|&rule| {
            let rule = &grammar.rules[rule as usize];
            let is_whole = rule.children.iter().all(|child| found.contains(child));
            if is_whole && found.insert(rule.parent) {
                open.push(rule.parent);
            }
            !is_whole
        });
        if found.len() == before {
            return found;
        }
    }
}

/// The nonterminals among `active` that `root` can lead to, in order.
fn reachable(grammar: &Grammar, root: Symbol, active: &BTreeSet<Symbol>) -> Vec<Symbol> {
    let mut found = BTreeSet::from([root]);
    let mut open = vec![root];
    while let Some(symbol) = open.pop() {
        // Only rules whose children are all there: a document's nonterminals lead to no other's.
        let children = grammar.inner_of[symbol as usize].iter().map(|&rule| &grammar.rules[rule as usize].children);
        for children in children {
            if children.iter().all(|child| grammar.is_terminal(*child) || active.contains(child)) {
                for &child in children.iter().filter(|child| !grammar.is_terminal(**child)) {
                    if found.insert(child) {
                        open.push(child);
                    }
                }
            }
        }
    }
    found.into_iter().collect()
}

/// A view in the making.
struct Maker<'a> {
    grammar: &'a Grammar,
    locals: Vec<Local>,
    productions: Vec<Vec<Production>>,
    numbers: HashMap<Symbol, u32>,
    beginnings: HashMap<(u32, u32), u32>,
}

impl Maker<'_> {
    fn local(&mut self, symbol: Symbol) -> u32 {
        if let Some(&number) = self.numbers.get(&symbol) {
            return number;
        }
        let number = self.push(symbol);
        self.numbers.insert(symbol, number);
        number
    }

    fn push(&mut self, symbol: Symbol) -> u32 {
        let is_terminal = symbol != NONE && self.grammar.is_terminal(symbol);
        self.locals.push(Local {
            symbol,
            is_terminal,
            is_adapted: symbol != NONE && !is_terminal && self.grammar.is_adapted(symbol),
            has_lexical: false,
            from: 0,
            to: 0,
            fewest: NONE,
            most: 0,
            begins: true,
            ends: true,
        });
        self.productions.push(vec![]);
        self.locals.len() as u32 - 1
    }

    /// The symbol for the beginning `left right` of longer rules.
    fn beginning(&mut self, left: u32, right: u32) -> u32 {
        if let Some(&number) = self.beginnings.get(&(left, right)) {
            return number;
        }
        let number = self.push(NONE);
        self.productions[number as usize].push(Production { left, right, rule: NONE });
        self.beginnings.insert((left, right), number);
        number
    }

    fn rule(&mut self, number: u32) {
        let grammar = self.grammar;
        let rule = &grammar.rules[number as usize];
        let parent = self.local(rule.parent);
        if let [child] = rule.children[..] {
            let left = self.local(child);
            self.productions[parent as usize].push(Production { left, right: NONE, rule: number });
            return;
        }
        let (&last, before) = rule.children.split_last().expect("a child");
        let mut left = self.local(before[0]);
        for &child in &before[1..] {
            let right = self.local(child);
            left = self.beginning(left, right);
        }
        let right = self.local(last);
        self.productions[parent as usize].push(Production { left, right, rule: number });
    }
}

impl View {
    fn new(grammar: &Grammar, root: Symbol, nonterminals: &[Symbol]) -> View {
        let there: BTreeSet<Symbol> = nonterminals.iter().copied().collect();
        let mut maker =
            Maker { grammar, locals: vec![], productions: vec![], numbers: HashMap::new(), beginnings: HashMap::new() };
        for &symbol in nonterminals {
            maker.local(symbol);
        }
        for &symbol in nonterminals {
            let number = maker.local(symbol) as usize;
            let inner = &grammar.inner_of[symbol as usize];
            maker.locals[number].has_lexical = inner.len() < grammar.rules_of[symbol as usize].len();
            for &rule in inner {
                let children = &grammar.rules[rule as usize].children;
                if children.iter().all(|child| grammar.is_terminal(*child) || there.contains(child)) {
                    maker.rule(rule);
                }
            }
        }
        let root = maker.numbers[&root];
        let mut view = in_unary_order(maker.locals, &maker.productions, root);
        view.find_lengths();
        view.find_ends();
        let longest = |is_counted: &dyn Fn(&Local) -> bool| {
            view.locals.iter().filter(|local| is_counted(local)).map(|local| local.most).max().unwrap_or(0)
        };
        view.inner_most = longest(&|local| !local.begins && !local.ends);
        view.last_most = longest(&|local| !local.begins);
        view
    }

    pub fn productions(&self, local: &Local) -> &[Production] {
        &self.productions[local.from as usize..local.to as usize]
    }

    /// Fewest and most words of every symbol, until nothing changes.
    fn find_lengths(&mut self) {
        // NONE is the largest number: what has no limit stays so.
        let add = u32::saturating_add;
        for round in 0.. {
            let mut is_changed = false;
            for number in 0..self.locals.len() {
                let local = &self.locals[number];
                let (mut fewest, mut most) = match local.is_terminal || local.has_lexical {
                    true => (1, 1),
                    false => (local.fewest, local.most),
                };
                for production in self.productions(local) {
                    let left = &self.locals[production.left as usize];
                    let (mut short, mut long) = (left.fewest, left.most);
                    if production.right != NONE {
                        let right = &self.locals[production.right as usize];
                        short = add(short, right.fewest);
                        // What has no length yet adds none.
                        long = if left.most == 0 || right.most == 0 { 0 } else { add(long, right.most) };
                    }
                    (fewest, most) = (fewest.min(short), most.max(long));
                }
                most = most.max(local.most);
                // What still grows after as many rounds as there are symbols grows without end.
                if most > local.most && round > self.locals.len() {
                    most = NONE;
                }
                let local = &mut self.locals[number];
                if (local.fewest, local.most) != (fewest, most) {
                    (local.fewest, local.most, is_changed) = (fewest, most, true);
                }
            }
            if !is_changed {
                return;
            }
        }
    }

    /// Which symbols always begin or end strings, until nothing changes.
    fn find_ends(&mut self) {
        loop {
            let mut is_changed = false;
            for number in 0..self.locals.len() {
                let (begins, ends) = (self.locals[number].begins, self.locals[number].ends);
                for at in self.locals[number].from..self.locals[number].to {
                    let Production { left, right, .. } = self.productions[at as usize];
                    let is_binary = right != NONE;
                    let mut forbid = |child: u32, may_begin: bool, may_end: bool| {
                        let child = &mut self.locals[child as usize];
                        is_changed |= (child.begins && !may_begin) || (child.ends && !may_end);
                        (child.begins, child.ends) = (child.begins && may_begin, child.ends && may_end);
                    };
                    forbid(left, begins, ends && !is_binary);
                    if is_binary {
                        forbid(right, false, ends);
                    }
                }
            }
            if !is_changed {
                return;
            }
        }
    }
}

/// The view with its symbols in an order in which unary rules only look back.
fn in_unary_order(locals: Vec<Local>, productions: &[Vec<Production>], root: u32) -> View {
    let mut order: Vec<u32> = vec![];
    let mut is_done = vec![false; locals.len()];
    for first in 0..locals.len() as u32 {
        let mut open = vec![first];
        while let Some(&at) = open.last() {
            let children = productions[at as usize].iter().filter(|p| p.right == NONE).map(|p| p.left);
            let missing: Vec<u32> = children.filter(|&child| !is_done[child as usize]).collect();
            if is_done[at as usize] || missing.is_empty() {
                open.pop();
                if !std::mem::replace(&mut is_done[at as usize], true) {
                    order.push(at);
                }
            } else {
                open.extend(missing);
            }
        }
    }
    let mut place = vec![0; locals.len()];
    (0..).zip(&order).for_each(|(new, &old)| place[old as usize] = new);
    let mut view =
        View { locals: vec![], productions: vec![], root: place[root as usize], inner_most: 0, last_most: 0 };
    for &old in &order {
        let from = view.productions.len() as u32;
        view.productions.extend(productions[old as usize].iter().map(|production| Production {
            left: place[production.left as usize],
            right: if production.right == NONE { NONE } else { place[production.right as usize] },
            rule: production.rule,
        }));
        let to = view.productions.len() as u32;
        view.locals.push(Local { from, to, ..locals[old as usize].clone() });
    }
    view
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adaptor::reader::{Alphabet, Defaults, read};

    #[test]
    fn a_string_of_a_document_sees_its_rules_alone() {
        let alphabet = Alphabet {
            documents: (1..=50).map(|number: u32| number.to_string()).collect(),
            words: ["a", "b", "c"].map(String::from).to_vec(),
        };
        let text = "%i = 1..3\n%j = documents\n%w = words\nS --> P{j}\nP{j} --> _{j}\nP{j} --> P{j} D{j}\nD{j} --> T{i}\nT{i} --> {w}";
        let grammar = read("g", text, &alphabet, &Defaults::default()).unwrap();
        let terminals = grammar.terminals();
        let mut views = Views::default();
        let view = views.of_string(&grammar, &["_7", "a", "c"].map(|name| terminals[name])).unwrap();
        let view = &views.all[view as usize];
        let names: BTreeSet<&str> = view.locals.iter().map(|local| grammar.name(local.symbol)).collect();
        assert_eq!(names, BTreeSet::from(["S", "P7", "D7", "T1", "T2", "T3"]));
        let local = |name: &str| view.locals.iter().find(|local| grammar.name(local.symbol) == name).unwrap();
        assert_eq!((local("D7").fewest, local("D7").most), (1, 1));
        assert_eq!((local("P7").fewest, local("P7").most), (1, NONE));
        assert!(local("P7").begins && !local("P7").ends && !local("D7").begins && local("S").ends);
        // Left-branching: nothing inside is longer than a word, so a chart has linear size.
        assert_eq!((view.inner_most, view.last_most), (1, 1));
        assert_eq!(views.of_string(&grammar, &["a", "c"].map(|name| terminals[name])), None);
        assert_eq!(views.all.len(), 1);
    }

    #[test]
    fn long_rules_share_their_beginnings() {
        let grammar = read(
            "g",
            "S --> A B C\nS --> A B d\nA --> a\nB --> b\nC --> c",
            &Alphabet::default(),
            &Defaults::default(),
        );
        let grammar = grammar.unwrap();
        let mut views = Views::default();
        let view = views.of_root(&grammar, grammar.start);
        let view = &views.all[view as usize];
        assert_eq!(view.locals.iter().filter(|local| local.symbol == NONE).count(), 1);
        assert_eq!((view.locals[view.root as usize].fewest, view.locals[view.root as usize].most), (3, 3));
    }
}
