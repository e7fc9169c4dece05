//! Grammar files: a rule per line, as in Johnson's adaptor-grammar sampler.
//!
//! ```text
//! [weight [a [b]]] Parent --> Child ...
//! ```
//!
//! The weight is the rule's Dirichlet parameter. A nonterminal with an a other than 1 is adapted: a Pitman-Yor process with
//! discount a and strength b. The parent of the first rule is the start symbol. Lines that begin with `#` are comments.
//!
//! Right-hand sides may have optional and repeated parts ([`super::right_side`]). A schema is a rule with indices in braces,
//! and stands for a rule for each of their values:
//!
//! ```text
//! %i = 1..20                     numbers
//! %j = documents                 what follows the _ of strings' first symbols
//! %w = words                     all other symbols of the corpus
//! Doc{j} --> Doc{j} Topic{i}
//! Topic{i} --> {w}
//! 0.1 Doc{j},{i} --> Doc{j},{k} Topic{i} where i != k
//! ```

use std::collections::{BTreeMap, HashMap};

use super::cycles;
use super::grammar::{Adaptor, Grammar, MOST_WEIGHT, Symbol};
use super::right_side::{Name, RightSide};

/// The symbols that a corpus has, which schemata can speak of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alphabet {
    /// What follows the `_` of the strings' first symbols, in the order of the corpus.
    pub documents: Vec<String>,
    /// All other symbols.
    pub words: Vec<String>,
}

/// What the file leaves open.
#[derive(Clone, Debug)]
pub struct Defaults<'a> {
    /// The start symbol; empty: the parent of the first rule.
    pub start: &'a str,
    /// Of rules without a weight, or with weight 0.
    pub weight: f64,
    /// The strength of adaptors for which none is given.
    pub b: f64,
}

impl Default for Defaults<'_> {
    fn default() -> Self {
        Defaults { start: "", weight: 1.0, b: 1.0 }
    }
}

/// No grammar file, and no list of words to cut at, is larger in bytes.
pub const LONGEST_FILE: u64 = 64 << 20;

/// No grammar has more rules, once its schemata are written out.
const MOST_RULES: usize = 20_000_000;

/// A rule with names.
struct Named {
    line: usize,
    parent: String,
    children: Vec<Name>,
    weight: f64,
    adaptor: Option<(f64, Option<f64>)>,
}

/// Reads a grammar; messages begin with `file:line`.
pub fn read(file: &str, text: &str, alphabet: &Alphabet, defaults: &Defaults<'_>) -> Result<Grammar, String> {
    let mut reader = Reader { alphabet, indices: BTreeMap::new(), rules: vec![], plus: BTreeMap::new() };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (number, line) in (1..).zip(text.lines()) {
        reader.line(number, line).map_err(|message| format!("{file}:{number}: {message}"))?;
    }
    reader.grammar(defaults).map_err(|(line, message)| match line {
        0 => format!("{file}: {message}"),
        line => format!("{file}:{line}: {message}"),
    })
}

struct Reader<'a> {
    alphabet: &'a Alphabet,
    /// The values of indices, and whether they are symbols of the corpus.
    indices: BTreeMap<String, (Vec<String>, bool)>,
    rules: Vec<Named>,
    /// Lines that made the nonterminals of `+`.
    plus: BTreeMap<String, usize>,
}

impl Reader<'_> {
    fn line(&mut self, number: usize, line: &str) -> Result<(), String> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if let Some((name, values)) = line.strip_prefix('%').and_then(|rest| rest.split_once('='))
            && !line.contains("-->")
        {
            return self.index(name.trim(), values.trim());
        }
        self.rule(number, line)
    }

    /// `%name = values`
    fn index(&mut self, name: &str, values: &str) -> Result<(), String> {
        let is_word = |text: &str| !text.is_empty() && text.chars().all(char::is_alphanumeric);
        if !is_word(name) {
            return Err(format!("%{name}: an index is named by letters and digits"));
        }
        let values = match values {
            "documents" => (self.alphabet.documents.clone(), true),
            "words" => (self.alphabet.words.clone(), true),
            range => {
                let ends = range.split_once("..").and_then(|(from, to)| {
                    Some((from.trim().parse::<u32>().ok()?, to.trim().trim_start_matches('=').parse::<u32>().ok()?))
                });
                let (from, to) = ends.ok_or_else(|| {
                    format!("%{name} = {range}: an index is a range such as 1..20, or documents, or words")
                })?;
                if to < from || to - from >= 1_000_000 {
                    return Err(format!("%{name} = {range}: the range is empty or too long"));
                }
                ((from..=to).map(|value| value.to_string()).collect(), false)
            }
        };
        if values.0.is_empty() {
            let remedy = "documents are named by strings whose first symbol begins with _";
            return Err(format!("%{name}: the corpus has none; {remedy}"));
        }
        match self.indices.insert(name.to_string(), values) {
            Some(_) => Err(format!("%{name} is given twice")),
            None => Ok(()),
        }
    }

    fn rule(&mut self, number: usize, line: &str) -> Result<(), String> {
        let mut tokens: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        let Some(arrow) = tokens.iter().position(|token| token == "-->") else {
            return Err(
                "there is no --> with blanks around it; a rule is: [weight [a [b]]] Parent --> Child ...".into()
            );
        };
        let unequal = self.condition(&mut tokens)?;
        let Some((parent, numbers)) = tokens[..arrow].split_last() else {
            return Err("there is no parent before -->".to_string());
        };
        let figures: Result<Vec<f64>, String> = numbers.iter().map(|text| figure(text)).collect();
        let (weight, adaptor) = match figures?[..] {
            [] => (0.0, None),
            [weight] => (weight, None),
            [weight, a] => (weight, Some((a, None))),
            [weight, a, b] => (weight, Some((a, Some(b)))),
            _ => return Err("before the parent there are at most three numbers: weight, a and b".to_string()),
        };
        check_figures(weight, adaptor)?;
        let side = RightSide::parse(&tokens[arrow + 1..])?;
        let mut used = vec![];
        self.used_in(parent, &mut used)?;
        let mut missing = Ok(());
        side.visit(&mut |text| {
            if missing.is_ok() {
                missing = self.used_in(text, &mut used);
            }
        });
        missing?;
        self.write_out(number, parent, &side, &used, unequal, weight, adaptor)
    }

    /// Takes `where i != k` off the end of a rule.
    fn condition(&self, tokens: &mut Vec<String>) -> Result<Option<(String, String)>, String> {
        let [.., keyword, left, sign, right] = &tokens[..] else { return Ok(None) };
        // `where` may be a word as well.
        if keyword != "where" || (sign != "!=" && ![left, right].iter().any(|name| self.indices.contains_key(*name))) {
            return Ok(None);
        }
        if sign != "!=" {
            return Err(format!("where {left} {sign} {right}: a condition is: where i != k"));
        }
        let pair = (left.clone(), right.clone());
        if let Some(unknown) = [left, right].into_iter().find(|name| !self.indices.contains_key(*name)) {
            return Err(format!(
                "where {left} != {right}: there is no index {unknown}; give it, as in %{unknown} = 1..20"
            ));
        }
        tokens.truncate(tokens.len() - 4);
        Ok(Some(pair))
    }

    /// Notes the indices in a symbol.
    fn used_in(&self, text: &str, used: &mut Vec<String>) -> Result<(), String> {
        for part in text.split('{').skip(1) {
            let Some((name, _)) = part.split_once('}') else {
                match self.indices.contains_key(part) {
                    true => return Err(format!("{text}: a {{ is not closed")),
                    false => continue,
                }
            };
            if !self.indices.contains_key(name) {
                return Err(format!("{text}: there is no index {name}; give it above, as in %{name} = 1..20"));
            }
            if !used.iter().any(|known| known == name) {
                used.push(name.to_string());
            }
        }
        Ok(())
    }

    /// Adds the rules that a line stands for, for all values of its indices.
    #[allow(clippy::too_many_arguments)]
    fn write_out(
        &mut self,
        line: usize,
        parent: &str,
        side: &RightSide,
        used: &[String],
        unequal: Option<(String, String)>,
        weight: f64,
        adaptor: Option<(f64, Option<f64>)>,
    ) -> Result<(), String> {
        let sizes: Vec<usize> = used.iter().map(|name| self.indices[name].0.len()).collect();
        let all = sizes.iter().try_fold(1usize, |product, &size| product.checked_mul(size)).unwrap_or(usize::MAX);
        if all > MOST_RULES {
            return Err(format!("this schema stands for more than {MOST_RULES} rules"));
        }
        for number in 0..all {
            let mut rest = number;
            let mut values: Vec<(&str, &str, bool)> = vec![];
            for (name, &size) in used.iter().zip(&sizes) {
                let (list, is_corpus) = &self.indices[name];
                values.push((name, &list[rest % size], *is_corpus));
                rest /= size;
            }
            let value = |name: &str| values.iter().find(|(own, _, _)| *own == name).map(|(_, value, _)| *value);
            if unequal.as_ref().is_some_and(|(left, right)| value(left) == value(right)) {
                continue;
            }
            let name = |name: &Name| fill(name, &values);
            let plain = side.expand(&name)?;
            let Name::Plain(parent) = fill(&Name::Plain(parent.to_string()), &values) else {
                return Err("a terminal of the corpus cannot be a parent".to_string());
            };
            let rule = |parent: &str, children: Vec<Name>, weight, adaptor| Named {
                line,
                parent: parent.to_string(),
                children,
                weight,
                adaptor,
            };
            self.rules.extend(plain.sides.into_iter().map(|side| rule(&parent, side, weight, adaptor)));
            for (made, sides) in plain.made {
                if self.plus.insert(made.clone(), line).is_none() {
                    self.rules.extend(sides.into_iter().map(|side| rule(&made, side, 0.0, None)));
                }
            }
        }
        Ok(())
    }

    /// Numbers the symbols, and checks the whole.
    fn grammar(self, defaults: &Defaults<'_>) -> Result<Grammar, (usize, String)> {
        let Some(first) = self.rules.first() else { return Err((0, "there is no rule in it".to_string())) };
        let mut names: Vec<String> = vec![];
        let mut nonterminals: HashMap<&str, Symbol> = HashMap::new();
        for rule in &self.rules {
            nonterminals.entry(&rule.parent).or_insert_with(|| {
                names.push(rule.parent.clone());
                names.len() as Symbol - 1
            });
        }
        let count = names.len() as u32;
        let mut adaptors = vec![None; names.len()];
        let mut terminals: HashMap<&str, Symbol> = HashMap::new();
        let mut rules = Vec::with_capacity(self.rules.len());
        let mut lines: HashMap<(Symbol, Vec<Symbol>), usize> = HashMap::new();
        for rule in &self.rules {
            let parent = nonterminals[rule.parent.as_str()];
            let children: Vec<Symbol> = rule
                .children
                .iter()
                .map(|child| match child {
                    Name::Plain(name) if nonterminals.contains_key(name.as_str()) => nonterminals[name.as_str()],
                    Name::Plain(name) | Name::Terminal(name) => *terminals.entry(name).or_insert_with(|| {
                        names.push(name.clone());
                        names.len() as Symbol - 1
                    }),
                })
                .collect();
            if let Some(before) = lines.insert((parent, children.clone()), rule.line) {
                let remedy = if before == rule.line { "; a schema makes it twice: say where i != k" } else { "" };
                let shown: Vec<&str> = children.iter().map(|&child| names[child as usize].as_str()).collect();
                let shown = format!("{} --> {}", rule.parent, shown.join(" "));
                return Err((rule.line, format!("{shown} stands on line {before} already{remedy}")));
            }
            adapt(&mut adaptors[parent as usize], rule, defaults.b).map_err(|message| (rule.line, message))?;
            rules.push((parent, children, if rule.weight > 0.0 { rule.weight } else { defaults.weight }));
        }
        let start = match defaults.start {
            "" => nonterminals[first.parent.as_str()],
            name => match nonterminals.get(name) {
                Some(&symbol) => symbol,
                None => return Err((0, format!("there is no rule for the start symbol {name}"))),
            },
        };
        let line_of: Vec<usize> = self.rules.iter().map(|rule| rule.line).collect();
        let grammar = Grammar::new(names, count, start, rules, adaptors);
        match cycles::find(&grammar) {
            None => Ok(grammar),
            Some(cycle) => {
                let name = cycle.split(": ").nth(1).and_then(|path| path.split(" --> ").next()).unwrap_or_default();
                let line =
                    grammar.nonterminal(name).map(|symbol| line_of[grammar.rules_of[symbol as usize][0] as usize]);
                Err((line.unwrap_or(0), cycle))
            }
        }
    }
}

/// A number before the parent.
fn figure(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("{text}: before the parent there are numbers only: weight, a and b"))
}

fn check_figures(weight: f64, adaptor: Option<(f64, Option<f64>)>) -> Result<(), String> {
    if !(weight >= 0.0 && weight.is_finite()) {
        return Err(format!("the weight {weight} is not a positive number"));
    }
    if weight > MOST_WEIGHT {
        return Err(format!("the weight {weight} is more than {MOST_WEIGHT:e}"));
    }
    match adaptor {
        Some((a, _)) if !(0.0..=1.0).contains(&a) => Err(format!("a = {a} is not between 0 and 1")),
        Some((_, Some(b))) if !(b > 0.0 && b.is_finite()) => Err(format!("b = {b} is not a positive number")),
        _ => Ok(()),
    }
}

/// Takes over what a rule says of its parent's adaptor.
fn adapt(adaptor: &mut Option<Adaptor>, rule: &Named, default: f64) -> Result<(), String> {
    let Some((a, b)) = rule.adaptor.filter(|(a, _)| *a < 1.0) else { return Ok(()) };
    let new = Adaptor { a, b: b.unwrap_or(default) };
    match adaptor.replace(new) {
        Some(old) if old != new => Err(format!("{} has another a or b in a rule above", rule.parent)),
        _ => Ok(()),
    }
}

/// A symbol with the values of indices in it; where it is nothing but a symbol of the corpus, a terminal.
fn fill(name: &Name, values: &[(&str, &str, bool)]) -> Name {
    let Name::Plain(text) = name else { return name.clone() };
    let mut filled = text.clone();
    for (index, value, is_corpus) in values {
        let place = format!("{{{index}}}");
        if *is_corpus && *text == place {
            return Name::Terminal(value.to_string());
        }
        filled = filled.replace(&place, value);
    }
    Name::Plain(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str, alphabet: &Alphabet) -> Result<Vec<String>, String> {
        let grammar = read("g", text, alphabet, &Defaults::default())?;
        Ok((0..grammar.rules.len() as u32).map(|rule| grammar.show_rule(rule)).collect())
    }

    fn refused(text: &str) -> String {
        rules(text, &Alphabet::default()).unwrap_err()
    }

    #[test]
    fn weights_and_adaptors_are_read() {
        let text = "# words\n\n2 S --> W\nS --> W S\n0 0.5 10 W --> a b\nW --> b\n1 1 X --> c\n";
        let grammar = read("g", text, &Alphabet::default(), &Defaults::default()).unwrap();
        assert_eq!(grammar.rules.iter().map(|rule| rule.weight).collect::<Vec<_>>(), [2.0, 1.0, 1.0, 1.0, 1.0]);
        assert_eq!(grammar.adaptors, [None, Some(Adaptor { a: 0.5, b: 10.0 }), None]);
        assert_eq!((grammar.name(grammar.start), grammar.nonterminals), ("S", 3));
        assert_eq!(grammar.terminals().into_keys().collect::<Vec<_>>(), ["a", "b", "c"]);
    }

    #[test]
    fn schemata_are_written_out() {
        let alphabet = Alphabet { documents: vec!["7".into(), "9".into()], words: vec!["(".into(), "of".into()] };
        let text = "%i = 1..2\n%k = 1..2\n%j = documents\n%w = words\nS --> D{j}\nD{j} --> _{j}\nD{j} --> D{j} T{i}\nT{i} --> {w}";
        let found = rules(text, &alphabet).unwrap();
        assert_eq!(found.len(), 2 + 2 + 4 + 4, "{found:?}");
        assert!(found.contains(&"D9 --> D9 T2".to_string()) && found.contains(&"T1 --> (".to_string()), "{found:?}");
        let pairs = "%i = 1..3\n%k = 1..3\nS{i} --> a S{k} where i != k\nS{i} --> a";
        assert_eq!(rules(pairs, &alphabet).unwrap().len(), 9);
    }

    #[test]
    fn faults_have_their_line() {
        assert_eq!(refused("S --> a\nS -> b").split(':').nth(1), Some("2"));
        assert!(refused("S --> a\n\nx S --> b").starts_with("g:3: x: before the parent"));
        assert!(refused("S --> a\nS --> a").contains("g:2: S --> a stands on line 1 already"));
        assert!(refused("S --> A{i}").contains("there is no index i"));
        assert!(refused("1 2 3 S --> a").contains("a = 2 is not between 0 and 1"));
        assert!(refused("1 0.5 0 S --> a").contains("b = 0 is not"));
        assert!(refused("S --> (A").contains("g:1: a ( is not closed"));
        assert!(refused("").contains("no rule"));
        assert!(refused("%i = 1..2\nS{i} --> a where i = 2").contains("g:2: where i = 2: a condition is"));
        assert!(refused("%i = 1..2\nS --> A{i").contains("g:2: A{i: a { is not closed"));
        assert!(refused("1e200 S --> a").contains("more than 1e100"));
        assert!(rules("\u{feff}S --> where are you", &Alphabet::default()).is_ok());
        assert!(refused("%j = documents\nS --> D{j}").contains("g:1: %j: the corpus has none"));
    }

    #[test]
    fn cycles_are_shown() {
        let message = refused("S --> A b\nA --> B\nB --> C\nB --> a\nC --> A");
        assert!(message.contains("g:2: unary cycle: A --> B --> C --> A"), "{message}");
        let message = refused("S --> A\n1 0.5 1 A --> B c\nB --> A d\nB --> b");
        assert!(message.contains("g:2: an adapted nonterminal is left-recursive: A --> B --> A"), "{message}");
        assert!(rules("S --> A\nA --> A b\n1 0.5 B --> c\nA --> B", &Alphabet::default()).is_ok());
    }
}
