//! Strings as numbers, with the grammar that is to derive them and, where it is known, where their words end.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use super::chart::{Chart, Current, Mode, has_room};
use super::grammar::{Grammar, NONE, Symbol};
use super::job::Plan;
use super::ledger::Ledger;
use super::reader::{Defaults, LONGEST_FILE, read};
use super::strings::{Strings, Symbols, Text, each_line};
use super::view::Views;
use crate::corpus::diagnostic::{Diagnostic, Problem, Rule};
use crate::corpus::open::read_text;
use crate::error::{Error, Result};

pub struct Corpus {
    pub grammar: Grammar,
    pub strings: Vec<Vec<Symbol>>,
    pub views: Views,
    /// By string; none where the grammar does not derive it.
    pub view_of: Vec<u32>,
    /// The nonterminal whose strings are words, where there is one of that name.
    pub word: Option<Symbol>,
    /// By string: the ends of its words; empty where there is no gold segmentation.
    pub gold: Vec<Vec<u32>>,
    pub problems: Vec<Diagnostic>,
    /// Terminals that no string has.
    unseen: Vec<Symbol>,
}

/// How much of a string is shown in a message.
const SHOWN: usize = 60;

impl Corpus {
    /// Reads what a plan names.
    pub fn read(plan: &Plan) -> Result<Corpus> {
        let strings = plan.reading.read(&plan.train)?;
        if strings.texts.is_empty() {
            let files: Vec<String> = plan.train.iter().map(|path| path.display().to_string()).collect();
            let reason = strings.problems.first().map_or(String::new(), |problem| format!("\n{problem}"));
            return Err(Error::Input(format!("there is no string in {}{reason}", files.join(", "))));
        }
        let file = plan.grammar_file.display().to_string();
        let text = read_text(&plan.grammar_file, LONGEST_FILE).map_err(|e| Error::input(&plan.grammar_file, e))?;
        let settings = &plan.grammar;
        let defaults = Defaults { start: &settings.start, weight: settings.weight, b: settings.b };
        let grammar = read(&file, &text, &strings.alphabet(), &defaults).map_err(Error::Input)?;
        let word = grammar.nonterminal(&plan.evaluation.words);
        if !plan.gold.is_empty() && word.is_none() {
            let name = &plan.evaluation.words;
            return Err(Error::Usage(format!("evaluation.words = \"{name}\": {file} has no such nonterminal")));
        }
        let gold = read_gold(plan, &strings)?;
        let address = |text: &Text| plan.train[text.file as usize].as_path();
        let mut corpus = Corpus {
            grammar,
            strings: vec![],
            views: Views::default(),
            view_of: vec![],
            word,
            gold,
            problems: strings.problems.clone(),
            unseen: vec![],
        };
        corpus.number(&strings, address);
        if corpus.view_of.iter().all(|&view| view == NONE) {
            let mut reason = corpus.problems.first().map_or(String::new(), |problem| format!("\n{problem}"));
            if let Some(unseen) = corpus.unseen() {
                reason += &format!("\n{file}: {unseen}");
            }
            return Err(Error::Input(format!("there is no string that {file} derives{reason}")));
        }
        Ok(corpus)
    }

    /// Numbers the strings, and finds out which of them the grammar derives.
    fn number<'p>(&mut self, strings: &Strings, path: impl Fn(&Text) -> &'p Path) {
        let grammar = &self.grammar;
        let terminals = grammar.terminals();
        let prior = Ledger::new(grammar).cache(grammar);
        let mut chart = Chart::default();
        let seen: HashSet<&str> = strings.texts.iter().flat_map(|text| &text.symbols).map(String::as_str).collect();
        let unseen = terminals.iter().filter(|(name, _)| !seen.contains(*name)).map(|(_, &symbol)| symbol);
        self.unseen = unseen.collect();
        for text in &strings.texts {
            let unknown = text.symbols.iter().find(|symbol| !terminals.contains_key(symbol.as_str()));
            let mut numbers: Vec<Symbol> = vec![];
            let mut view = NONE;
            let mut reason = unknown.map_or(String::new(), |symbol| format!(": {symbol} stands in no rule"));
            if unknown.is_none() {
                numbers = text.symbols.iter().map(|symbol| terminals[symbol.as_str()]).collect();
                if let Some(number) = self.views.of_string(grammar, &numbers) {
                    let weights = Current { grammar, cache: &prior, power: 1.0 };
                    let at = (number, &self.views.all[number as usize]);
                    if !has_room(at.1, numbers.len()) {
                        reason = format!(": its {} symbols are too many for this grammar", numbers.len());
                    } else if chart.fill(grammar, at, &numbers, &weights, Mode::Sum) {
                        view = number;
                    }
                }
            }
            if view == NONE {
                let shown: String = text.symbols.join(" ").chars().take(SHOWN).collect();
                let message = format!("the grammar does not derive \"{shown}\"{reason}");
                let problem = Problem { line: text.line, rule: Rule::NotDerived, sentence: String::new(), message };
                self.problems.push(Diagnostic { path: path(text).display().to_string(), problem });
            }
            self.strings.push(numbers);
            self.view_of.push(view);
        }
    }

    /// The terminals that no string has, in words: one of them may be a nonterminal with a slip in its name.
    pub fn unseen(&self) -> Option<String> {
        let names: Vec<&str> = self.unseen.iter().map(|&symbol| self.grammar.name(symbol)).collect();
        match names[..] {
            [] => None,
            [name] => Some(format!("{name} has no rule and stands in no string")),
            [first, second, ..] => {
                let count = names.len();
                Some(format!("{count} symbols have no rule and stand in no string, such as {first} and {second}"))
            }
        }
    }

    pub fn symbols(&self) -> u64 {
        self.strings.iter().map(|string| string.len() as u64).sum()
    }

    /// The words of the gold segmentation.
    pub fn gold_types(&self) -> BTreeSet<&[Symbol]> {
        let mut types = BTreeSet::new();
        for (string, ends) in self.strings.iter().zip(&self.gold).filter(|(string, _)| !string.is_empty()) {
            let begins = std::iter::once(0).chain(ends.iter().copied());
            types.extend(begins.zip(ends).map(|(from, &to)| &string[from as usize..to as usize]));
        }
        types
    }
}

/// The gold segmentation of every string.
fn read_gold(plan: &Plan, strings: &Strings) -> Result<Vec<Vec<u32>>> {
    if plan.gold.is_empty() {
        return Ok(vec![]);
    }
    if plan.gold.len() != plan.train.len() {
        return Err(Error::Usage("corpus.gold has to name a file for each of corpus.train".to_string()));
    }
    let mut all = vec![];
    let mut texts = strings.texts.iter().peekable();
    for (file, path) in (0..).zip(&plan.gold) {
        let mut fault = None;
        each_line(path, plan.reading.encoding, |number, line| {
            let Some(text) = texts.peek().filter(|text| text.file == file && text.line == number) else { return };
            let line = line.unwrap_or_default();
            let lower = plan.reading.lowercase.then(|| line.to_lowercase());
            let (symbols, ends) = segmented(lower.as_deref().unwrap_or(line), plan.reading.symbols);
            if symbols != text.symbols && fault.is_none() {
                fault = Some(number);
            }
            all.push(ends);
            texts.next();
        })?;
        if let Some(line) = fault {
            let train = plan.train[file as usize].display();
            let message = format!("the symbols are not those of {train}:{line}");
            return Err(Error::Input(format!("{}:{line}: {message}", path.display())));
        }
    }
    match texts.next() {
        None => Ok(all),
        Some(text) => {
            let (gold, train) = (&plan.gold[text.file as usize], &plan.train[text.file as usize]);
            let message = format!("there is no line for {}:{}", train.display(), text.line);
            Err(Error::Input(format!("{}: {message}", gold.display())))
        }
    }
}

/// The symbols of a segmented line, and where its words end.
fn segmented(line: &str, symbols: Symbols) -> (Vec<String>, Vec<u32>) {
    let words: Vec<Vec<String>> = match symbols {
        Symbols::Characters => line.split_whitespace().map(|word| word.chars().map(String::from).collect()).collect(),
        Symbols::Blanks => line.split('|').map(|word| word.split_whitespace().map(str::to_string).collect()).collect(),
    };
    let mut ends = vec![];
    let mut all = vec![];
    for word in words.into_iter().filter(|word| !word.is_empty()) {
        all.extend(word);
        ends.push(all.len() as u32);
    }
    (all, ends)
}
