//! The right-hand side of a rule: symbols, with `X?` or `(X Y)` for what may be left out and `X+` or `(X Y)+` for what is
//! there one or more times.
//!
//! A quoted symbol is a terminal as it stands; a lone bracket, `+` or `?` is a terminal too.

use std::collections::HashSet;

/// How often a part is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Times {
    Once,
    Optional,
    Plus,
}

/// A symbol as a rule names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Name {
    /// A nonterminal where some rule has it on its left, otherwise a terminal.
    Plain(String),
    Terminal(String),
}

impl Name {
    fn text(&self) -> &str {
        let (Name::Plain(text) | Name::Terminal(text)) = self;
        text
    }
}

#[derive(Clone, Debug)]
enum Part {
    Name(Name),
    Group(Vec<Item>),
}

#[derive(Clone, Debug)]
struct Item {
    part: Part,
    times: Times,
}

/// A parsed right-hand side.
#[derive(Clone, Debug)]
pub struct RightSide(Vec<Item>);

/// Plain right-hand sides: what a right-hand side stands for, and what its `+` parts do.
#[derive(Clone, Debug, Default)]
pub struct Plain {
    pub sides: Vec<Vec<Name>>,
    /// Nonterminals made for `+`, with their rules.
    pub made: Vec<(String, Vec<Vec<Name>>)>,
}

/// A rule stands for at most so many.
const MOST: usize = 4096;

impl RightSide {
    /// Parses the tokens behind the arrow.
    pub fn parse(tokens: &[String]) -> Result<RightSide, String> {
        let mut open: Vec<Vec<Item>> = vec![vec![]];
        for token in tokens {
            let mut rest = token.as_str();
            if rest.chars().count() > 1 && !rest.starts_with('"') {
                while let Some(after) = rest.strip_prefix('(') {
                    open.push(vec![]);
                    rest = after;
                }
            }
            // What closes groups, and how often they are there: read from the end.
            let mut closing = vec![];
            while open.len() > 1 + closing.len() {
                let (inner, times) = split_times(rest);
                let Some(inner) = inner.strip_suffix(')') else { break };
                closing.push(if times == Times::Once { Times::Optional } else { times });
                rest = inner;
            }
            if !rest.is_empty() {
                open.last_mut().expect("a level").push(symbol(rest)?);
            }
            for times in closing.into_iter().rev() {
                let group = open.pop().expect("an open group");
                if group.is_empty() {
                    return Err("there is nothing between ( and )".to_string());
                }
                open.last_mut().expect("a level").push(Item { part: Part::Group(group), times });
            }
        }
        if open.len() > 1 {
            return Err("a ( is not closed; write a terminal of this form in double quotes".to_string());
        }
        match open.pop() {
            Some(items) if !items.is_empty() => Ok(RightSide(items)),
            _ => Err("nothing stands behind -->; sawmill has no empty rules".to_string()),
        }
    }

    /// All that it stands for, with `name` applied to each symbol.
    pub fn expand(&self, name: &dyn Fn(&Name) -> Name) -> Result<Plain, String> {
        let mut plain = Plain::default();
        let sides = expand(&self.0, name, &mut plain.made)?;
        // `(A) (B) (A)` is A in two ways, and stands for it once.
        let mut seen = HashSet::new();
        plain.sides = sides.into_iter().filter(|side| !side.is_empty() && seen.insert(side.clone())).collect();
        Ok(plain)
    }

    /// Calls `visit` with the text of each symbol.
    pub fn visit(&self, visit: &mut dyn FnMut(&str)) {
        fn each(items: &[Item], visit: &mut dyn FnMut(&str)) {
            for item in items {
                match &item.part {
                    Part::Name(name) => visit(name.text()),
                    Part::Group(items) => each(items, visit),
                }
            }
        }
        each(&self.0, visit);
    }
}

/// A symbol with its sign.
fn symbol(text: &str) -> Result<Item, String> {
    if let Some(quoted) = text.strip_prefix('"').filter(|_| text.len() > 1) {
        let (inner, times) = split_times(quoted);
        let inner = inner.strip_suffix('"').or_else(|| quoted.strip_suffix('"'));
        return match inner {
            Some(inner) if !inner.is_empty() => {
                let times = if quoted.ends_with('"') { Times::Once } else { times };
                Ok(Item { part: Part::Name(Name::Terminal(inner.to_string())), times })
            }
            _ => Err(format!("{text}: a quote is not closed, or there is nothing in it")),
        };
    }
    match text.chars().count() {
        1 if "()+?".contains(text) => Ok(Item { part: Part::Name(Name::Terminal(text.into())), times: Times::Once }),
        1 => Ok(Item { part: Part::Name(Name::Plain(text.into())), times: Times::Once }),
        _ => {
            let (inner, times) = split_times(text);
            if times != Times::Once && inner.ends_with(['+', '?']) {
                return Err(format!("{text}: a symbol has one sign; write a terminal of this form in double quotes"));
            }
            Ok(Item { part: Part::Name(Name::Plain(inner.to_string())), times })
        }
    }
}

fn split_times(text: &str) -> (&str, Times) {
    match (text.strip_suffix('+'), text.strip_suffix('?')) {
        (Some(inner), _) => (inner, Times::Plus),
        (_, Some(inner)) => (inner, Times::Optional),
        _ => (text, Times::Once),
    }
}

type Made = Vec<(String, Vec<Vec<Name>>)>;

/// The sequences that `items` stand for.
fn expand(items: &[Item], name: &dyn Fn(&Name) -> Name, made: &mut Made) -> Result<Vec<Vec<Name>>, String> {
    let mut sides: Vec<Vec<Name>> = vec![vec![]];
    for item in items {
        let mut inner = match &item.part {
            Part::Name(symbol) => vec![vec![name(symbol)]],
            Part::Group(items) => expand(items, name, made)?,
        };
        if item.times == Times::Plus {
            inner.retain(|side| !side.is_empty());
            inner = vec![vec![Name::Plain(make_plus(&inner, matches!(item.part, Part::Group(_)), made))]];
        }
        if item.times == Times::Optional {
            inner.push(vec![]);
        }
        let longer = sides.iter().flat_map(|side| inner.iter().map(move |next| [&side[..], next].concat()));
        sides = longer.collect();
        if sides.len() > MOST {
            return Err(format!("this rule stands for more than {MOST}: it has too many parts that may be left out"));
        }
    }
    Ok(sides)
}

/// The nonterminal for one or more of `sides`: `X+ --> X` and `X+ --> X X+`.
fn make_plus(sides: &[Vec<Name>], is_group: bool, made: &mut Made) -> String {
    let text = |side: &Vec<Name>| side.iter().map(Name::text).collect::<Vec<_>>().join(" ");
    let inner = sides.iter().map(text).collect::<Vec<_>>().join(" | ");
    let own = if is_group { format!("({inner})+") } else { format!("{inner}+") };
    if !made.iter().any(|(name, _)| *name == own) {
        let again = sides.iter().map(|side| [&side[..], &[Name::Plain(own.clone())]].concat());
        made.push((own.clone(), sides.iter().cloned().chain(again).collect()));
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sides(text: &str) -> Vec<String> {
        let tokens: Vec<String> = text.split_whitespace().map(str::to_string).collect();
        let plain = RightSide::parse(&tokens).unwrap().expand(&Name::clone).unwrap();
        let show = |side: &Vec<Name>| side.iter().map(Name::text).collect::<Vec<_>>().join(" ");
        let made = plain
            .made
            .iter()
            .flat_map(|(name, sides)| sides.iter().map(move |side| format!("{name} > {}", show(side))));
        plain.sides.iter().map(show).chain(made).collect()
    }

    #[test]
    fn optional_and_repeated_parts_are_written_out() {
        assert_eq!(sides("A (B) C?"), ["A B C", "A B", "A C", "A"]);
        assert_eq!(sides("(A B)"), ["A B"]);
        assert_eq!(sides("X+ y"), ["X+ y", "X+ > X", "X+ > X X+"]);
        assert_eq!(sides("(A b)+"), ["(A b)+", "(A b)+ > A b", "(A b)+ > A b (A b)+"]);
        assert_eq!(sides("((A) B)?"), ["A B", "B"]);
        assert_eq!(sides("(A) (B) (A)"), ["A B A", "A B", "A A", "A", "B A", "B"]);
    }

    #[test]
    fn brackets_and_signs_can_be_terminals() {
        assert_eq!(sides("( ) + ?"), ["( ) + ?"]);
        assert_eq!(sides("\"C++\" \"x\"+"), ["C++ x+", "x+ > x", "x+ > x x+"]);
    }

    #[test]
    fn what_is_left_open_is_refused() {
        let refused = |text: &str| {
            let tokens: Vec<String> = text.split_whitespace().map(str::to_string).collect();
            RightSide::parse(&tokens).unwrap_err()
        };
        assert!(refused("(A B").contains("not closed"));
        assert!(refused("\"A").contains("not closed"));
        assert!(refused("").contains("empty rules"));
        assert!(refused("X++").contains("one sign"));
    }
}
