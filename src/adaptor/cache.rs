//! The adaptors: for each adapted nonterminal a Pitman-Yor restaurant whose tables carry trees, and the counts of rules.
//!
//! ```text
//! p(table t)   = (n_t - a) / (n + b)                           a tree that is cached
//! p(new table) = (m a + b) / (n + b)  prod of its tree: p(rule) = (weight + uses) / (sum of weights + uses of the parent)
//! ```
//!
//! n customers at m tables, n_t at table t. The tree of a table is expanded once, however many customers it has; adapted
//! nonterminals in it are customers of other tables. So a table lives as long as a parse, or the tree of a living table,
//! has it.
//!
//! The restaurants of [`crate::restaurant`] keep counts by dish only, and draw which table closes: here a table has an
//! identity, since parses and trees name it, and its tree can be drawn anew while its customers stay. So sizes are kept
//! table by table, and nothing has to be drawn when a customer leaves.

use super::derivation::{Derivation, Node, Packed};
use super::grammar::{Adaptor, Grammar, NONE, Symbol};
use super::trie::Trie;
use crate::cluster::rng::Generator;
use crate::math::draws::unit;
use crate::math::ln;

/// A table; one without customers is not there.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    pub customers: u32,
    pub entry: u32,
    /// Its tree, in the arena.
    label: (u32, u32),
    /// Tables of the same entry.
    next: u32,
    before: u32,
}

/// The tables of a nonterminal with the same words.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub symbol: Symbol,
    pub customers: u32,
    pub tables: u32,
    pub first: u32,
    /// The next entry with the same words.
    pub next: u32,
}

#[derive(Clone, Debug, Default)]
pub struct Cache {
    /// By rule, and by nonterminal.
    pub uses: Vec<u32>,
    pub uses_of: Vec<u32>,
    /// By nonterminal.
    pub customers: Vec<u32>,
    pub tables_of: Vec<u32>,
    pub adaptors: Vec<Adaptor>,
    pub tables: Vec<Table>,
    labels: Vec<Packed>,
    pub entries: Vec<Entry>,
    pub trie: Trie,
    /// Tables below this were there at the last synchronisation, and keep their number even where they end: others may
    /// have customers there.
    pub kept: u32,
    free: Vec<u32>,
    /// Tables that have ended since [`Cache::settle`].
    ended: Vec<u32>,
    /// By rule and table: what strings have added since the last synchronisation; trees of tables are not counted.
    pub rule_changes: Vec<i32>,
    pub table_changes: Vec<i32>,
    /// Tables whose trees are others than at the last synchronisation.
    pub relabelled: Vec<u32>,
    scratch: Scratch,
}

#[derive(Clone, Debug, Default)]
struct Scratch {
    /// Tables that were opened in this seating, and where in the derivation.
    opened: Vec<(u32, usize, usize)>,
    labels: Vec<Vec<Packed>>,
    ranges: Vec<(u32, u32)>,
}

/// A product that does not sink out of range.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    value: f64,
    ln: f64,
}

impl Default for Product {
    fn default() -> Product {
        Product { value: 1.0, ln: 0.0 }
    }
}

impl Product {
    #[inline]
    pub fn times(&mut self, factor: f64) {
        self.value *= factor;
        if self.value < 1e-200 {
            self.ln += ln(self.value);
            self.value = 1.0;
        }
    }

    pub fn ln(&self) -> f64 {
        self.ln + ln(self.value)
    }
}

/// Where a fresh node could sit at a table that its own string has just opened, it does so with this probability: close
/// to what the model itself would do. Any value between 0 and 1 is exact.
const JOIN: f64 = 0.99;

/// How to seat a derivation.
pub enum Seats<'r> {
    /// At the tables that fresh nodes had before.
    AsBefore,
    Draw(&'r mut Generator),
}

impl Cache {
    /// Adaptors without customers.
    pub fn new(grammar: &Grammar, adaptors: Vec<Adaptor>) -> Cache {
        let nonterminals = grammar.nonterminals as usize;
        Cache {
            uses: vec![0; grammar.rules.len()],
            uses_of: vec![0; nonterminals],
            customers: vec![0; nonterminals],
            tables_of: vec![0; nonterminals],
            adaptors,
            rule_changes: vec![0; grammar.rules.len()],
            ..Cache::default()
        }
    }

    /// The words' entry for a nonterminal, made where it is not there.
    pub fn entry(&mut self, symbol: Symbol, words: &[Symbol]) -> u32 {
        let node = self.trie.insert(words) as usize;
        let mut at = self.trie.first[node];
        while at != NONE && self.entries[at as usize].symbol != symbol {
            at = self.entries[at as usize].next;
        }
        if at == NONE {
            at = self.entries.len() as u32;
            self.entries.push(Entry { symbol, customers: 0, tables: 0, first: NONE, next: self.trie.first[node] });
            self.trie.first[node] = at;
        }
        at
    }

    pub fn symbol_of(&self, table: u32) -> Symbol {
        self.entries[self.tables[table as usize].entry as usize].symbol
    }

    pub fn label(&self, table: u32) -> &[Packed] {
        let (from, to) = self.tables[table as usize].label;
        &self.labels[from as usize..to as usize]
    }

    /// The tables of an entry, the latest first.
    pub fn tables_at(&self, entry: u32) -> impl Iterator<Item = u32> + '_ {
        let mut at = self.entries[entry as usize].first;
        std::iter::from_fn(move || {
            let table = at;
            (table != NONE).then(|| at = self.tables[table as usize].next)?;
            Some(table)
        })
    }

    /// p(rule | its parent).
    #[inline]
    pub fn rule_probability(&self, grammar: &Grammar, rule: u32) -> f64 {
        let here = &grammar.rules[rule as usize];
        let parent = here.parent as usize;
        (here.weight + f64::from(self.uses[rule as usize]))
            / (grammar.weight_of[parent] + f64::from(self.uses_of[parent]))
    }

    /// p(this table | a customer comes).
    #[inline]
    pub fn table_probability(&self, table: u32) -> f64 {
        let symbol = self.symbol_of(table) as usize;
        let Adaptor { a, b } = self.adaptors[symbol];
        (f64::from(self.tables[table as usize].customers) - a) / (f64::from(self.customers[symbol]) + b)
    }

    /// p(a new table | a customer comes).
    #[inline]
    pub fn new_probability(&self, symbol: Symbol) -> f64 {
        let Adaptor { a, b } = self.adaptors[symbol as usize];
        (f64::from(self.tables_of[symbol as usize]) * a + b) / (f64::from(self.customers[symbol as usize]) + b)
    }

    /// ln of what the proposal gives to a derivation: the adaptors as they stand, whatever the derivation itself adds.
    pub fn proposal_ln(&self, grammar: &Grammar, derivation: &Derivation) -> f64 {
        let mut product = Product::default();
        for &node in &derivation.nodes {
            match Node::unpack(node) {
                Node::Rule(rule) => product.times(self.rule_probability(grammar, rule)),
                Node::Table(table) => product.times(self.table_probability(table)),
                Node::Fresh(rule) => {
                    product.times(self.new_probability(grammar.rules[rule as usize].parent));
                    product.times(self.rule_probability(grammar, rule));
                }
            }
        }
        product.ln()
    }

    /// Seats a derivation of `words`; the parse is added to `parse`. Returns ln of the model's probability of what was
    /// added, one after the other, and ln of the probability of how fresh nodes were put together.
    pub fn seat(
        &mut self,
        grammar: &Grammar,
        derivation: &Derivation,
        words: &[Symbol],
        is_string: bool,
        mut seats: Seats<'_>,
        parse: &mut Vec<Packed>,
    ) -> (f64, f64) {
        let mut seating = Seating {
            grammar,
            derivation,
            words,
            at: 0,
            fresh_at: 0,
            probability: Product::default(),
            joining: Product::default(),
        };
        self.scratch.opened.clear();
        self.seat_nodes(&mut seating, 1, is_string, &mut seats, parse);
        (seating.probability.ln(), seating.joining.ln())
    }

    /// Seats the next `open` subtrees.
    fn seat_nodes(
        &mut self,
        seating: &mut Seating<'_>,
        mut open: usize,
        is_string: bool,
        seats: &mut Seats<'_>,
        parse: &mut Vec<Packed>,
    ) {
        while open > 0 {
            let packed = seating.derivation.nodes[seating.at];
            seating.at += 1;
            open -= 1;
            match Node::unpack(packed) {
                Node::Rule(rule) => {
                    self.use_rule(seating, rule, is_string);
                    parse.push(packed);
                    open += seating.grammar.rules[rule as usize].arity as usize;
                }
                Node::Table(table) => {
                    self.sit(seating, table, is_string);
                    parse.push(packed);
                }
                Node::Fresh(rule) => {
                    let table = self.seat_fresh(seating, rule, is_string, seats);
                    parse.push(Node::Table(table).pack());
                }
            }
        }
    }

    #[inline]
    fn use_rule(&mut self, seating: &mut Seating<'_>, rule: u32, is_string: bool) {
        seating.probability.times(self.rule_probability(seating.grammar, rule));
        self.uses[rule as usize] += 1;
        self.uses_of[seating.grammar.rules[rule as usize].parent as usize] += 1;
        if is_string {
            self.rule_changes[rule as usize] += 1;
        }
    }

    #[inline]
    fn sit(&mut self, seating: &mut Seating<'_>, table: u32, is_string: bool) {
        seating.probability.times(self.table_probability(table));
        self.come(table, 1);
        if is_string {
            self.table_changes[table as usize] += 1;
        }
    }

    fn come(&mut self, table: u32, customers: u32) {
        let at = &mut self.tables[table as usize];
        at.customers += customers;
        let entry = &mut self.entries[at.entry as usize];
        entry.customers += customers;
        self.customers[entry.symbol as usize] += customers;
    }

    /// Seats a node that is expanded afresh: at a table that this derivation has opened for the same tree, or at a new one.
    fn seat_fresh(&mut self, seating: &mut Seating<'_>, rule: u32, is_string: bool, seats: &mut Seats<'_>) -> u32 {
        let begin = seating.at - 1;
        let fresh = seating.derivation.fresh[seating.fresh_at];
        seating.fresh_at += 1;
        // The same list of nodes is the same tree.
        let mut alike: Vec<u32> = vec![];
        if !self.scratch.opened.is_empty() {
            let (end, inside) = seating.derivation.end_of(seating.grammar, begin);
            let nodes = &seating.derivation.nodes;
            let same = |(from, to): (usize, usize)| nodes[from..to] == nodes[begin..end];
            alike = self.scratch.opened.iter().filter(|o| same((o.1, o.2))).map(|o| o.0).collect();
            if !alike.is_empty() {
                let joined = match seats {
                    Seats::AsBefore => alike.iter().copied().find(|&table| table == fresh.table),
                    Seats::Draw(rng) => {
                        let lot = unit(*rng);
                        (lot < JOIN).then(|| alike[((lot / JOIN * alike.len() as f64) as usize).min(alike.len() - 1)])
                    }
                };
                if let Some(table) = joined {
                    seating.joining.times(JOIN / alike.len() as f64);
                    self.sit(seating, table, is_string);
                    seating.at = end;
                    seating.fresh_at += inside - 1;
                    return table;
                }
                seating.joining.times(1.0 - JOIN);
            }
        }
        let end = seating.derivation.end_of(seating.grammar, begin).0;
        let symbol = seating.grammar.rules[rule as usize].parent;
        seating.probability.times(self.new_probability(symbol));
        let table = match seats {
            Seats::AsBefore => fresh.table,
            Seats::Draw(_) => {
                let words = &seating.words[fresh.from as usize..fresh.to as usize];
                let entry = self.entry(symbol, words);
                self.take_number(entry)
            }
        };
        self.open(table, 1);
        if is_string {
            self.table_changes[table as usize] += 1;
        }
        self.scratch.opened.push((table, begin, end));
        let mut label = self.scratch.labels.pop().unwrap_or_default();
        label.clear();
        label.push(Node::Rule(rule).pack());
        self.use_rule(seating, rule, false);
        let arity = seating.grammar.rules[rule as usize].arity as usize;
        self.seat_nodes(seating, arity, false, seats, &mut label);
        self.set_label(table, &label);
        self.scratch.labels.push(label);
        table
    }

    /// A number for a new table.
    pub fn take_number(&mut self, entry: u32) -> u32 {
        let empty = Table { customers: 0, entry, label: (0, 0), next: NONE, before: NONE };
        match self.free.pop() {
            Some(table) => {
                self.tables[table as usize] = empty;
                table
            }
            None => {
                self.tables.push(empty);
                self.table_changes.push(0);
                self.tables.len() as u32 - 1
            }
        }
    }

    /// Opens a table, with its first customers.
    pub fn open(&mut self, table: u32, customers: u32) {
        let entry = self.tables[table as usize].entry;
        let first = self.entries[entry as usize].first;
        if first != NONE {
            self.tables[first as usize].before = table;
        }
        let at = &mut self.tables[table as usize];
        (at.next, at.before) = (first, NONE);
        let entry = &mut self.entries[entry as usize];
        entry.first = table;
        entry.tables += 1;
        self.tables_of[entry.symbol as usize] += 1;
        self.come(table, customers);
    }

    /// Gives a table its tree.
    pub fn set_label(&mut self, table: u32, label: &[Packed]) {
        let (from, to) = self.tables[table as usize].label;
        let room = (to - from) as usize;
        if room == label.len() {
            self.labels[from as usize..to as usize].copy_from_slice(label);
            return;
        }
        let from = self.labels.len() as u32;
        self.labels.extend_from_slice(label);
        self.tables[table as usize].label = (from, from + label.len() as u32);
    }

    /// Takes a parse out. Tables that end take their trees with them.
    pub fn unseat(&mut self, grammar: &Grammar, parse: &[Packed], is_string: bool) {
        self.unseat_nodes(grammar, |_, at| parse.get(at).copied(), is_string);
        while let Some((from, to)) = self.scratch.ranges.pop() {
            let label =
                |cache: &Cache, at: usize| (at < (to - from) as usize).then(|| cache.labels[from as usize + at]);
            self.unseat_nodes(grammar, label, false);
        }
    }

    fn unseat_nodes(&mut self, grammar: &Grammar, node: impl Fn(&Cache, usize) -> Option<Packed>, is_string: bool) {
        let mut at = 0;
        while let Some(packed) = node(self, at) {
            at += 1;
            match Node::unpack(packed) {
                Node::Rule(rule) | Node::Fresh(rule) => {
                    self.uses[rule as usize] -= 1;
                    self.uses_of[grammar.rules[rule as usize].parent as usize] -= 1;
                    if is_string {
                        self.rule_changes[rule as usize] -= 1;
                    }
                }
                Node::Table(table) => {
                    if is_string {
                        self.table_changes[table as usize] -= 1;
                    }
                    self.leave(table);
                }
            }
        }
    }

    /// A customer leaves; where it was the last, the table ends, and its tree waits to be taken out.
    fn leave(&mut self, table: u32) {
        let at = &mut self.tables[table as usize];
        at.customers -= 1;
        let Table { customers, entry: entry_number, label, next, before } = *at;
        let entry = &mut self.entries[entry_number as usize];
        entry.customers -= 1;
        self.customers[entry.symbol as usize] -= 1;
        if customers > 0 {
            return;
        }
        entry.tables -= 1;
        self.tables_of[entry.symbol as usize] -= 1;
        match before {
            NONE => entry.first = next,
            before => self.tables[before as usize].next = next,
        }
        if next != NONE {
            self.tables[next as usize].before = before;
        }
        self.ended.push(table);
        self.scratch.ranges.push(label);
    }

    /// The derivation that a parse has now that it has been taken out: tables that have ended with it are fresh.
    pub fn derivation_of(&self, parse: &[Packed], derivation: &mut Derivation) {
        derivation.clear();
        self.derive(parse, derivation);
    }

    fn derive(&self, parse: &[Packed], derivation: &mut Derivation) {
        for &packed in parse {
            match Node::unpack(packed) {
                Node::Table(table) if self.tables[table as usize].customers == 0 => {
                    let label = self.label(table);
                    let Node::Rule(rule) = Node::unpack(label[0]) else { unreachable!("a tree begins with a rule") };
                    derivation.nodes.push(Node::Fresh(rule).pack());
                    derivation.fresh.push(super::derivation::Fresh { from: 0, to: 0, table });
                    self.derive(&label[1..], derivation);
                }
                _ => derivation.nodes.push(packed),
            }
        }
    }

    /// Numbers of tables that have ended can be used again.
    pub fn settle(&mut self) {
        for at in 0..self.ended.len() {
            let table = self.ended[at];
            if table >= self.kept
                && self.tables[table as usize].customers == 0
                && self.tables[table as usize].entry != NONE
            {
                self.tables[table as usize].entry = NONE;
                self.free.push(table);
            }
        }
        self.ended.clear();
    }
}

/// A seating under way.
struct Seating<'a> {
    grammar: &'a Grammar,
    derivation: &'a Derivation,
    words: &'a [Symbol],
    at: usize,
    fresh_at: usize,
    probability: Product,
    joining: Product,
}
