//! A chain over a few strings, with all that a sweep draws: parses, trees of tables, a and b.

use std::collections::BTreeMap;

use super::words;
use crate::adaptor::cache::Cache;
use crate::adaptor::derivation::{Node, Packed};
use crate::adaptor::grammar::{Grammar, Symbol};
use crate::adaptor::hyper::{self, Sizes};
use crate::adaptor::ledger::{Delta, Ledger, renumber, words_of};
use crate::adaptor::sampler::{Outcome, Sampler, Target, Task};
use crate::adaptor::view::Views;
use crate::cluster::rng::{Generator, Purpose, generator};
use crate::restaurant::parameters::Hyperprior;

/// What a sweep does besides drawing parses.
#[derive(Clone, Copy, Default)]
pub struct Steps {
    /// The trees of tables are drawn anew.
    pub labels: bool,
    /// After so many sweeps the adaptors are written down and made anew, as a synchronisation does; 0: never.
    pub sync_every: u32,
    /// a and b are drawn, under these priors.
    pub hyper: Option<Hyperprior>,
}

/// A chain over strings.
pub struct Chain {
    pub grammar: Grammar,
    strings: Vec<Vec<Symbol>>,
    pub cache: Cache,
    ledger: Ledger,
    pub parses: Vec<Vec<Packed>>,
    views: Views,
    sampler: Sampler,
    rng: Generator,
    power: f64,
}

impl Chain {
    pub fn new(grammar: Grammar, strings: &[&str], power: f64) -> Chain {
        let strings: Vec<Vec<Symbol>> = strings.iter().map(|text| words(&grammar, text)).collect();
        let ledger = Ledger::new(&grammar);
        let mut chain = Chain {
            cache: ledger.cache(&grammar),
            ledger,
            parses: vec![vec![]; strings.len()],
            views: Views::default(),
            sampler: Sampler::default(),
            rng: generator(5, Purpose::Sweep, 0, 0),
            grammar,
            strings,
            power,
        };
        for string in 0..chain.strings.len() {
            assert_eq!(chain.visit(string, true), Outcome::Accepted);
        }
        chain
    }

    pub fn visit(&mut self, string: usize, is_first: bool) -> Outcome {
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
    pub fn run(&mut self, sweeps: u32, steps: Steps) -> BTreeMap<String, f64> {
        let mut seen = BTreeMap::new();
        for sweep in 0..sweeps {
            for string in 0..self.strings.len() {
                self.visit(string, false);
            }
            if steps.labels {
                for table in 0..self.cache.tables.len() as u32 {
                    if self.cache.tables[table as usize].customers > 0 {
                        self.relabel(table);
                    }
                }
            }
            if steps.sync_every > 0 && (sweep + 1).is_multiple_of(steps.sync_every) {
                self.synchronise();
            }
            if let Some(prior) = steps.hyper {
                self.redraw_adaptors(&prior);
            }
            if sweep >= 100 {
                *seen.entry(self.state()).or_insert(0.0) += 1.0 / f64::from(sweeps - 100);
            }
        }
        seen
    }

    /// What a synchronisation does, with one shard.
    fn synchronise(&mut self) {
        let kept = self.ledger.tables.len() as u32;
        let numbers = self.ledger.apply(&[(0, Delta::of(&self.grammar, &self.cache))]);
        for parse in &mut self.parses {
            *parse = renumber(parse, kept, &numbers[&0]).expect("known tables");
        }
        let made = self.ledger.cache(&self.grammar);
        assert_eq!((&made.uses, &made.uses_of), (&self.cache.uses, &self.cache.uses_of));
        assert_eq!((&made.customers, &made.tables_of), (&self.cache.customers, &self.cache.tables_of));
        self.cache = made;
    }

    fn redraw_adaptors(&mut self, prior: &Hyperprior) {
        let sizes = Sizes::of_all(&self.cache);
        for symbol in self.grammar.adapted() {
            let adaptor = &mut self.cache.adaptors[symbol as usize];
            *adaptor = hyper::redraw(&sizes[symbol as usize], *adaptor, prior, &mut self.rng);
        }
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
