//! What all shards agree on at a synchronisation, and how their changes become one.
//!
//! Strings belong to shards, so how often strings use each rule and sit at each table is exact, and adds up. All else
//! follows: a table lives as long as a string, or the tree of a living table, has a customer there. Between two
//! synchronisations a shard sees the others' customers as they were. Then
//! - a table that one shard has left, and another has joined, lives on; one that all have left ends, with its tree;
//! - tables that several shards have opened for the same tree become one: a shard that had seen the other's would, almost
//!   always, have sat there. Without this, every shard would keep tables of its own for the most frequent strings;
//! - the tree of a table is drawn anew by one shard, that of its number.
//!
//! With one shard nothing of this changes anything, and the sampler is exact. Every worker holds the whole ledger: the
//! trees of one shard are the cached rules of all others. Changes travel to all workers; a round costs as many bytes for
//! each pair of workers as rules, tables and trees have changed in the shards of one.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::cache::Cache;
use super::derivation::{MOST_TABLES, Node, Packed, Step, read};
use super::grammar::{Adaptor, Grammar, NONE, Symbol};
use crate::cluster::codec::mostly_taken;
use crate::error::{ensure, is_positive};

/// A table that lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerTable {
    pub symbol: Symbol,
    pub words: Vec<Symbol>,
    /// Customers that strings have here; the others are those of living tables' trees.
    pub strings: u32,
    pub label: Vec<Packed>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    /// By rule: uses by strings.
    pub rules: Vec<u32>,
    /// By number; none where it is free. Numbers are used again, so that few are.
    #[serde(deserialize_with = "mostly_taken")]
    pub tables: Vec<Option<LedgerTable>>,
    /// By nonterminal.
    pub adaptors: Vec<Adaptor>,
}

/// A table that a shard has opened: its number there, nonterminal, words, customers and tree.
type Opened = (u32, Symbol, Vec<Symbol>, u32, Vec<Packed>);

/// What a shard has changed since the last synchronisation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delta {
    rules: Vec<(u32, i32)>,
    tables: Vec<(u32, i32)>,
    labels: Vec<(u32, Vec<Packed>)>,
    opened: Vec<Opened>,
}

/// New numbers of a shard's tables.
pub type Numbers = HashMap<u32, u32>;

impl Ledger {
    pub fn new(grammar: &Grammar) -> Ledger {
        let adaptors = grammar.adaptors.iter().map(|adaptor| adaptor.unwrap_or(Adaptor { a: 0.0, b: 1.0 }));
        Ledger { rules: vec![0; grammar.rules.len()], tables: vec![], adaptors: adaptors.collect() }
    }

    /// Checks that these can be adaptors of the grammar, so that their trees can be read: files may be damaged.
    ///
    /// The words of a table are those of its tree, whose tables have fewer words, or as many and a symbol that unary rules
    /// lead to. As the grammar has no unary cycle, no tree contains itself.
    pub fn validate(&self, grammar: &Grammar) -> Result<(), String> {
        let adaptors = self.adaptors.iter();
        let has_adaptors = self.adaptors.len() == grammar.nonterminals as usize
            && adaptors.clone().all(|adaptor| (0.0..1.0).contains(&adaptor.a) && is_positive(adaptor.b));
        ensure(has_adaptors, "the adaptors of a sample")?;
        ensure(self.rules.len() == grammar.rules.len(), "the number of rules of a sample")?;
        let mut uses: Vec<u64> = self.rules.iter().map(|&uses| u64::from(uses)).collect();
        let mut customers: Vec<u64> =
            self.tables.iter().map(|t| t.as_ref().map_or(1, |t| u64::from(t.strings))).collect();
        for table in self.tables.iter().flatten() {
            self.validate_tree(grammar, table).ok_or("the tree of a table")?;
            for &node in &table.label {
                match Node::unpack(node) {
                    Node::Table(inner) => customers[inner as usize] += 1,
                    Node::Rule(rule) | Node::Fresh(rule) => uses[rule as usize] += 1,
                }
            }
        }
        ensure(customers.iter().all(|&customers| customers > 0), "a table without customers")?;
        let fits = |counts: &[u64]| counts.iter().sum::<u64>() <= u64::from(u32::MAX);
        ensure(self.tables.len() < MOST_TABLES && fits(&customers) && fits(&uses), "the counts of a sample")
    }

    /// None where the tree of a table cannot be read, or is not that of its words.
    fn validate_tree(&self, grammar: &Grammar, table: &LedgerTable) -> Option<()> {
        let is_adapted = table.symbol < grammar.nonterminals && grammar.is_adapted(table.symbol);
        let (mut nodes, mut words) = (table.label.iter(), table.words.iter());
        // The root is expanded by a rule; all other adapted nonterminals are at tables.
        let mut due = vec![(table.symbol, true)];
        while let Some((symbol, is_root)) = due.pop() {
            if grammar.is_terminal(symbol) {
                (words.next()? == &symbol).then_some(())?;
                continue;
            }
            match Node::unpack(*nodes.next()?) {
                Node::Rule(rule) if is_root || !grammar.is_adapted(symbol) => {
                    let rule = grammar.rules.get(rule as usize).filter(|rule| rule.parent == symbol)?;
                    due.extend(rule.children.iter().rev().map(|&child| (child, false)));
                }
                Node::Table(inner) if !is_root => {
                    let inner = self.tables.get(inner as usize)?.as_ref().filter(|inner| inner.symbol == symbol)?;
                    (!inner.words.is_empty() && words.as_slice().starts_with(&inner.words)).then_some(())?;
                    words = words.as_slice()[inner.words.len()..].iter();
                }
                _ => return None,
            }
        }
        (is_adapted && nodes.next().is_none() && words.next().is_none()).then_some(())
    }

    /// The adaptors as they stand.
    pub fn cache(&self, grammar: &Grammar) -> Cache {
        let mut cache = Cache::new(grammar, self.adaptors.clone());
        let customers = self.customers();
        let use_rule = |uses: &mut Vec<u32>, uses_of: &mut Vec<u32>, rule: u32, times: u32| {
            uses[rule as usize] += times;
            uses_of[grammar.rules[rule as usize].parent as usize] += times;
        };
        for (rule, &times) in (0..).zip(&self.rules) {
            use_rule(&mut cache.uses, &mut cache.uses_of, rule, times);
        }
        for (table, number) in self.tables.iter().zip(0..) {
            let Some(table) = table else {
                cache.take_number(NONE);
                continue;
            };
            let entry = cache.entry(table.symbol, &table.words);
            cache.take_number(entry);
            cache.set_label(number, &table.label);
            cache.open(number, customers[number as usize]);
            for &node in &table.label {
                if let Node::Rule(rule) = Node::unpack(node) {
                    use_rule(&mut cache.uses, &mut cache.uses_of, rule, 1);
                }
            }
        }
        cache.kept = self.tables.len() as u32;
        cache
    }

    /// Customers by table: those of strings, and of the trees of tables.
    fn customers(&self) -> Vec<u32> {
        let mut customers = vec![0; self.tables.len()];
        for (table, number) in self.tables.iter().zip(0..) {
            let Some(table) = table else { continue };
            customers[number] += table.strings;
            for &node in &table.label {
                if let Node::Table(inner) = Node::unpack(node) {
                    customers[inner as usize] += 1;
                }
            }
        }
        customers
    }

    /// Takes over the changes of shards, in their order; returns the new numbers of each one's tables.
    pub fn apply(&mut self, deltas: &[(u32, Delta)]) -> BTreeMap<u32, Numbers> {
        let kept = self.tables.len() as u32;
        let mut free: Vec<u32> = (0..kept).filter(|&number| self.tables[number as usize].is_none()).rev().collect();
        let mut same = HashMap::new();
        let mut renumbered = BTreeMap::new();
        for (shard, delta) in deltas {
            for &(rule, change) in &delta.rules {
                self.rules[rule as usize] = self.rules[rule as usize].strict_add_signed(change);
            }
            for &(table, change) in &delta.tables {
                let table = self.tables[table as usize].as_mut().expect("a table of the last synchronisation");
                table.strings = table.strings.strict_add_signed(change);
            }
            let numbers = self.add_opened(&delta.opened, kept, &mut free, &mut same);
            for (table, label) in &delta.labels {
                let table = self.tables[*table as usize].as_mut().expect("a table of the last synchronisation");
                table.label = renumber(label, kept, &numbers).expect("trees of known tables");
            }
            renumbered.insert(*shard, numbers);
        }
        self.drop_empty();
        renumbered
    }

    /// Adds the tables that a shard has opened, those without new tables in their trees first.
    fn add_opened(
        &mut self,
        opened: &[Opened],
        kept: u32,
        free: &mut Vec<u32>,
        same: &mut HashMap<(Symbol, Vec<Packed>), Vec<u32>>,
    ) -> Numbers {
        let mut numbers = Numbers::new();
        let mut of_this_shard: HashMap<u32, u32> = HashMap::new();
        let mut open: Vec<&Opened> = opened.iter().collect();
        while !open.is_empty() {
            let before = open.len();
            open.retain(|(local, symbol, words, strings, label)| {
                let Some(label) = renumber(label, kept, &numbers) else { return true };
                // The n-th table of this shard for a tree is the n-th of the others'.
                let tables = same.entry((*symbol, label.clone())).or_default();
                let own = tables.iter().copied().find(|table| !of_this_shard.contains_key(table));
                let number = own.unwrap_or_else(|| {
                    let new = LedgerTable { symbol: *symbol, words: words.clone(), strings: 0, label };
                    let number = free.pop().unwrap_or(self.tables.len() as u32);
                    match self.tables.get_mut(number as usize) {
                        Some(place) => *place = Some(new),
                        None => self.tables.push(Some(new)),
                    }
                    tables.push(number);
                    number
                });
                self.tables[number as usize].as_mut().expect("it has just been added").strings += strings;
                of_this_shard.insert(number, *local);
                numbers.insert(*local, number);
                false
            });
            assert!(open.len() < before, "trees of tables do not contain themselves");
        }
        numbers
    }

    /// Ends the tables that have no customers, with their trees.
    fn drop_empty(&mut self) {
        let mut customers = self.customers();
        let mut open: Vec<u32> =
            (0..self.tables.len() as u32).filter(|&table| customers[table as usize] == 0).collect();
        while let Some(number) = open.pop() {
            let Some(table) = self.tables[number as usize].take() else { continue };
            for node in table.label {
                if let Node::Table(inner) = Node::unpack(node) {
                    customers[inner as usize] -= 1;
                    if customers[inner as usize] == 0 {
                        open.push(inner);
                    }
                }
            }
        }
    }
}

/// A parse with new numbers of tables from `kept` on; none where one is not known yet.
pub fn renumber(parse: &[Packed], kept: u32, numbers: &Numbers) -> Option<Vec<Packed>> {
    let number = |&node: &Packed| match Node::unpack(node) {
        Node::Table(table) if table >= kept => numbers.get(&table).map(|&number| Node::Table(number).pack()),
        _ => Some(node),
    };
    parse.iter().map(number).collect()
}

impl Delta {
    /// What a shard has changed in `cache` since it was made of the ledger.
    pub fn of(grammar: &Grammar, cache: &Cache) -> Delta {
        let changed =
            |changes: &[i32]| (0..).zip(changes).filter(|(_, change)| **change != 0).map(|(n, &c)| (n, c)).collect();
        let lives = |table: &u32| cache.tables[*table as usize].customers > 0;
        // A table that has ended here may live on elsewhere, with the tree that it had: the tables of its new one, which
        // only this shard knew, have ended with it.
        let mut labels: Vec<u32> = cache.relabelled.iter().copied().filter(lives).collect();
        labels.sort_unstable();
        labels.dedup();
        let opened = (cache.kept..cache.tables.len() as u32).filter(lives).map(|table| {
            let label = cache.label(table);
            let strings = cache.table_changes[table as usize] as u32;
            (table, cache.symbol_of(table), words_of(grammar, cache, label), strings, label.to_vec())
        });
        Delta {
            rules: changed(&cache.rule_changes),
            tables: changed(&cache.table_changes[..cache.kept as usize]),
            labels: labels.into_iter().map(|table| (table, cache.label(table).to_vec())).collect(),
            opened: opened.collect(),
        }
    }
}

/// The words of a parse.
pub fn words_of(grammar: &Grammar, cache: &Cache, parse: &[Packed]) -> Vec<Symbol> {
    let mut words = vec![];
    read(grammar, &|table| cache.label(table), parse, &mut |step| {
        if let Step::Word(word) = step {
            words.push(word);
        }
    });
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(symbol: Symbol, strings: u32, label: &[Node]) -> LedgerTable {
        LedgerTable { symbol, words: vec![9], strings, label: label.iter().map(|node| node.pack()).collect() }
    }

    fn opened(number: u32, strings: u32, label: &[Node]) -> Opened {
        (number, 1, vec![9], strings, label.iter().map(|node| node.pack()).collect())
    }

    #[test]
    fn tables_live_as_long_as_anybody_sits_there() {
        let mut ledger = Ledger { rules: vec![4], tables: vec![], adaptors: vec![] };
        ledger.tables = vec![
            Some(table(1, 0, &[Node::Rule(0)])),                 // only in the tree of 1
            Some(table(2, 2, &[Node::Rule(0), Node::Table(0)])), // both shards have one customer
            Some(table(1, 1, &[Node::Rule(0)])),
        ];
        // Shard 0 and shard 1 both leave 1, which neither saw empty; shard 0 leaves 2, where shard 1 has come.
        let delta = |change| Delta { tables: vec![(1, -1), (2, change)], rules: vec![(0, change)], ..Delta::default() };
        ledger.apply(&[(0, delta(-1)), (1, delta(1))]);
        assert_eq!(ledger.rules, [4]);
        assert_eq!(ledger.tables.iter().map(Option::is_some).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(ledger.tables[2].as_ref().unwrap().strings, 1);
    }

    #[test]
    fn shards_that_open_the_same_table_share_it_but_one_shard_keeps_its_two() {
        let mut ledger = Ledger { rules: vec![0], tables: vec![None], adaptors: vec![] };
        let word = [Node::Rule(0)];
        let first = Delta {
            // Number 1 is the tree of 2, which is listed before it.
            opened: vec![opened(2, 3, &[Node::Rule(0), Node::Table(1)]), opened(1, 0, &word), opened(3, 2, &word)],
            ..Delta::default()
        };
        let second = Delta { opened: vec![opened(1, 5, &word)], ..Delta::default() };
        let numbers = ledger.apply(&[(0, first), (1, second)]);
        let strings: Vec<Option<u32>> = ledger.tables.iter().map(|t| t.as_ref().map(|t| t.strings)).collect();
        assert_eq!(strings, [Some(5), Some(2), Some(3)]);
        assert_eq!(numbers[&0], Numbers::from([(1, 0), (3, 1), (2, 2)]));
        assert_eq!(numbers[&1], Numbers::from([(1, 0)]));
        assert_eq!(ledger.tables[2].as_ref().unwrap().label, [Node::Rule(0).pack(), Node::Table(0).pack()]);
        assert_eq!(ledger.customers(), [6, 2, 3]);
    }
}
