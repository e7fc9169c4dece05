//! Elements of contexts: what a distribution is conditioned on, written as in `"s1.t"` or `"rc1(s1).w"`.
//!
//! ```text
//! element   = node "." attribute
//! node      = "s" n             the n-th item of the stack, s1 on top
//!           | "p" n             the n-th last word that was generated, p1 the last
//!           | "b"               the word that is being generated (its tag only, in the context of words)
//!           | child "(" node ")"
//! child     = "lc1" | "lc2" | "rc1" | "rc2"     the leftmost and second leftmost child, the rightmost and second rightmost
//! attribute = "t" | "w"         tag, word
//!           | "l"               label of the arc to a child
//!           | "v"               valency: how many children to the left and to the right, up to three each
//!           | "d"               distance to the next word: 1, 2, 3, 4 to 6, or more
//! ```
//!
//! A context is a list of elements, the most important first; the last is dropped first in backing off.

use std::fmt;

use crate::restaurant::seating::DEEPEST;

/// The farthest stack item that can be named.
pub const STACK: usize = 4;

/// The farthest word before that can be named.
pub const PREVIOUS: usize = 2;

/// A child of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    pub is_left: bool,
    /// 0: the outermost; 1: the one next to it.
    pub rank: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute {
    Tag,
    Word,
    Label,
    Valency,
    Distance,
}

/// Where an element's node is found first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// An item of the stack, 0 on top.
    Stack(usize),
    /// A word before, 0 the last.
    Previous(usize),
    /// The word that is being generated.
    Next,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    pub start: Start,
    /// Children to go to, in this order.
    pub children: Vec<Child>,
    pub attribute: Attribute,
}

impl Element {
    /// Reads an element; the error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Element, String> {
        let wrong = |why: &str| format!("\"{text}\" is no element of a context: {why}");
        let (node, attribute) =
            text.trim().rsplit_once('.').ok_or_else(|| wrong("add what of it is meant, as in \"s1.t\""))?;
        let attribute = match attribute {
            "t" => Attribute::Tag,
            "w" => Attribute::Word,
            "l" => Attribute::Label,
            "v" => Attribute::Valency,
            "d" => Attribute::Distance,
            _ => {
                let known = "t (tag), w (word), l (label of a child), v (valency) or d (distance)";
                return Err(wrong(&format!("behind the dot is {known}")));
            }
        };
        let (mut node, mut children) = (node, vec![]);
        while let Some((outer, rest)) = node.split_once('(') {
            let child = match outer {
                "lc1" | "lc2" | "rc1" | "rc2" => {
                    Child { is_left: outer.starts_with('l'), rank: usize::from(outer.ends_with('2')) }
                }
                _ => return Err(wrong("children are lc1, lc2, rc1 and rc2")),
            };
            children.insert(0, child);
            node = rest.strip_suffix(')').ok_or_else(|| wrong("a bracket is not closed"))?;
        }
        let number = |letter: char, last: usize| {
            let number = node.strip_prefix(letter).and_then(|number| number.parse::<usize>().ok());
            number.filter(|number| (1..=last).contains(number)).map(|number| number - 1)
        };
        let start = match (node, number('s', STACK), number('p', PREVIOUS)) {
            ("b", ..) => Start::Next,
            (_, Some(place), _) => Start::Stack(place),
            (_, _, Some(place)) => Start::Previous(place),
            _ => return Err(wrong("nodes are s1 to s4, p1 and p2 and, for words, b")),
        };
        if matches!(start, Start::Previous(_))
            && (!matches!(attribute, Attribute::Tag | Attribute::Word) || !children.is_empty())
        {
            return Err(wrong("of the words before, only tag and word are meant: p1.t, p1.w"));
        }
        if start == Start::Next && (attribute != Attribute::Tag || !children.is_empty()) {
            return Err(wrong("of the word that is being generated, only the tag is known: b.t"));
        }
        if attribute == Attribute::Label && children.is_empty() {
            return Err(wrong("only children have labels, as in \"lc1(s1).l\""));
        }
        Ok(Element { start, children, attribute })
    }

    /// Reads a context.
    pub fn parse_all(texts: &[String]) -> Result<Vec<Element>, String> {
        let elements: Vec<Element> = texts.iter().map(|text| Element::parse(text)).collect::<Result<_, _>>()?;
        if elements.len() > DEEPEST {
            return Err(format!("a context has at most {DEEPEST} elements"));
        }
        match (1..elements.len()).find(|&at| elements[..at].contains(&elements[at])) {
            Some(at) => Err(format!("\"{}\" stands twice in a context", elements[at])),
            None => Ok(elements),
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for child in self.children.iter().rev() {
            write!(f, "{}{}(", if child.is_left { "lc" } else { "rc" }, child.rank + 1)?;
        }
        match self.start {
            Start::Stack(place) => write!(f, "s{}", place + 1)?,
            Start::Previous(place) => write!(f, "p{}", place + 1)?,
            Start::Next => write!(f, "b")?,
        }
        self.children.iter().try_for_each(|_| write!(f, ")"))?;
        match self.attribute {
            Attribute::Tag => write!(f, ".t"),
            Attribute::Word => write!(f, ".w"),
            Attribute::Label => write!(f, ".l"),
            Attribute::Valency => write!(f, ".v"),
            Attribute::Distance => write!(f, ".d"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_read_and_written() {
        for text in ["s1.t", "s4.w", "b.t", "rc1(s1).t", "lc2(s2).l", "lc1(rc1(s3)).w", "p2.w", "s1.v", "s2.d"] {
            assert_eq!(Element::parse(text).unwrap().to_string(), text);
        }
        for text in [
            "s1",
            "s5.t",
            "s0.t",
            "x.t",
            "lc3(s1).t",
            "lc1(s1.t",
            "b.w",
            "lc1(b).t",
            "s1.l",
            "s1.q",
            "p3.t",
            "p1.v",
            "lc1(p1).t",
            "",
        ] {
            assert!(Element::parse(text).unwrap_err().contains("is no element"), "{text}");
        }
        let twice = ["s1.t".to_string(), "s1.t".to_string()];
        assert!(Element::parse_all(&twice).unwrap_err().contains("twice"));
    }
}
