//! Derivations and parses as flat lists, in the order in which a tree is read: a node before its children.
//!
//! A *parse* is what a string, or a table of an adaptor, holds: rules, and tables where an adapted nonterminal stands. A
//! *derivation* is what is proposed: adapted nonterminals are at a table that is there, or are expanded afresh.

use super::grammar::{Grammar, Symbol};

/// One node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// A nonterminal that is not adapted, expanded by this rule.
    Rule(u32),
    /// An adapted nonterminal at this table.
    Table(u32),
    /// An adapted nonterminal, expanded afresh by this rule.
    Fresh(u32),
}

const KIND: u32 = 30;
const NUMBER: u32 = (1 << KIND) - 1;

/// Numbers of tables are below this.
pub const MOST_TABLES: usize = NUMBER as usize;

/// A node in 32 bits.
pub type Packed = u32;

impl Node {
    #[inline]
    pub fn pack(self) -> Packed {
        match self {
            Node::Rule(rule) => rule,
            Node::Table(table) => 1 << KIND | table,
            Node::Fresh(rule) => 2 << KIND | rule,
        }
    }

    #[inline]
    pub fn unpack(packed: Packed) -> Node {
        match packed >> KIND {
            0 => Node::Rule(packed),
            1 => Node::Table(packed & NUMBER),
            _ => Node::Fresh(packed & NUMBER),
        }
    }
}

/// Of a fresh node: the words that it covers, and the table that it had, where it had one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fresh {
    pub from: u32,
    pub to: u32,
    pub table: u32,
}

#[derive(Clone, Debug, Default)]
pub struct Derivation {
    pub nodes: Vec<Packed>,
    /// Of each fresh node, in order.
    pub fresh: Vec<Fresh>,
}

impl Derivation {
    pub fn clear(&mut self) {
        self.nodes.clear();
        self.fresh.clear();
    }

    /// Behind the subtree that begins at node `at`, and how many fresh nodes are in it.
    pub fn end_of(&self, grammar: &Grammar, at: usize) -> (usize, usize) {
        let (mut end, mut open, mut fresh) = (at, 1, 0);
        while open > 0 {
            match Node::unpack(self.nodes[end]) {
                Node::Rule(rule) => open += grammar.rules[rule as usize].arity as usize,
                Node::Fresh(rule) => {
                    open += grammar.rules[rule as usize].arity as usize;
                    fresh += 1;
                }
                Node::Table(_) => {}
            }
            open -= 1;
            end += 1;
        }
        (end, fresh)
    }

    /// Whether two fresh nodes have the same rule, and so might have the same tree.
    pub fn may_repeat(&self) -> bool {
        if self.fresh.len() < 2 {
            return false;
        }
        let mut rules: Vec<Packed> =
            self.nodes.iter().copied().filter(|&node| matches!(Node::unpack(node), Node::Fresh(_))).collect();
        rules.sort_unstable();
        rules.windows(2).any(|pair| pair[0] == pair[1])
    }
}

/// A parse written out: what happens at each step of reading the tree.
pub enum Step {
    /// A nonterminal opens.
    Open(Symbol),
    Word(Symbol),
    Close(Symbol),
}

/// Reads the tree of `parse` with the trees of its tables, given by `label`, from left to right.
pub fn read<'p>(
    grammar: &Grammar,
    label: &dyn Fn(u32) -> &'p [Packed],
    parse: &'p [Packed],
    visit: &mut dyn FnMut(Step),
) {
    // What is still to come: children of rules, and the parses that they come from.
    enum Due {
        Child(Symbol),
        Close(Symbol),
        /// Back to the parse that a table's stands in.
        Return,
    }
    let mut sources: Vec<(&[Packed], usize)> = vec![(parse, 0)];
    let mut due: Vec<Due> = vec![Due::Child(super::grammar::NONE)];
    while let Some(next) = due.pop() {
        let symbol = match next {
            Due::Close(symbol) => {
                visit(Step::Close(symbol));
                continue;
            }
            Due::Return => {
                sources.pop();
                continue;
            }
            Due::Child(symbol) => symbol,
        };
        if symbol != super::grammar::NONE && grammar.is_terminal(symbol) {
            visit(Step::Word(symbol));
            continue;
        }
        let (source, at) = sources.last_mut().expect("a parse");
        let node = Node::unpack(source[*at]);
        *at += 1;
        let rule = match node {
            Node::Rule(rule) | Node::Fresh(rule) => {
                visit(Step::Open(grammar.rules[rule as usize].parent));
                rule
            }
            Node::Table(table) => {
                let label = label(table);
                let Node::Rule(rule) = Node::unpack(label[0]) else {
                    unreachable!("a table's tree begins with a rule")
                };
                visit(Step::Open(grammar.rules[rule as usize].parent));
                sources.push((label, 1));
                due.push(Due::Return);
                rule
            }
        };
        let rule = &grammar.rules[rule as usize];
        due.push(Due::Close(rule.parent));
        due.extend(rule.children.iter().rev().map(|&child| Due::Child(child)));
    }
}
