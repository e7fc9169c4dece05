//! Elements of contexts: what a distribution is conditioned on, written as in `"s1.t"` or `"rc1(s1).w"`.
//!
//! ```text
//! element   = node "." attribute
//! node      = "s" n             the n-th item of the stack, s1 on top
//!           | "p" n             the n-th last word that was generated, p1 the last
//!           | "b"               the word that is being generated
//!           | relation "(" node ")"
//! relation  = "lc1" | "lc2" | "rc1" | "rc2"     the leftmost and second leftmost child, the rightmost and second rightmost
//!           | "up" | "head"     of a dummy of left-corner parsing: the node above it, the head of all that it belongs to
//! attribute = "t" | "w"         tag, word; of b the tag only, in the context of words
//!           | "l"               label of the arc to a child; of b, how it is generated: shifted, or inserted with a label
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
pub const PREVIOUS: usize = 4;

/// Where to go from a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Rank 0: the outermost; 1: the one next to it.
    Child { is_left: bool, rank: usize },
    /// From a dummy to the node above it.
    Above,
    /// From a dummy to the head of its element.
    Head,
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
    /// Where to go from there, in this order.
    pub relations: Vec<Relation>,
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
        let (mut node, mut relations) = (node, vec![]);
        while let Some((outer, rest)) = node.split_once('(') {
            let relation = match outer {
                "lc1" | "lc2" | "rc1" | "rc2" => {
                    Relation::Child { is_left: outer.starts_with('l'), rank: usize::from(outer.ends_with('2')) }
                }
                "up" => Relation::Above,
                "head" => Relation::Head,
                _ => return Err(wrong("children are lc1, lc2, rc1 and rc2; of a dummy there are up and head")),
            };
            relations.insert(0, relation);
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
            _ => return Err(wrong("nodes are s1 to s4, p1 to p4 and, for words, b")),
        };
        if matches!(start, Start::Previous(_))
            && (!matches!(attribute, Attribute::Tag | Attribute::Word) || !relations.is_empty())
        {
            return Err(wrong("of the words before, only tag and word are meant: p1.t, p1.w"));
        }
        let of_next = matches!(attribute, Attribute::Tag | Attribute::Label);
        if start == Start::Next && (!of_next || !relations.is_empty()) {
            return Err(wrong("of the word that is being generated, only b.t and b.l are known"));
        }
        let is_child = matches!(relations.last(), Some(Relation::Child { .. })) || start == Start::Next;
        if attribute == Attribute::Label && !is_child {
            return Err(wrong("only children have labels, as in \"lc1(s1).l\""));
        }
        Ok(Element { start, relations, attribute })
    }

    /// Whether it is the tag of the word that is being generated.
    pub fn is_next_tag(&self) -> bool {
        self.start == Start::Next && self.attribute == Attribute::Tag
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
        for relation in self.relations.iter().rev() {
            match relation {
                Relation::Child { is_left, rank } => write!(f, "{}{}(", if *is_left { "lc" } else { "rc" }, rank + 1)?,
                Relation::Above => write!(f, "up(")?,
                Relation::Head => write!(f, "head(")?,
            }
        }
        match self.start {
            Start::Stack(place) => write!(f, "s{}", place + 1)?,
            Start::Previous(place) => write!(f, "p{}", place + 1)?,
            Start::Next => write!(f, "b")?,
        }
        self.relations.iter().try_for_each(|_| write!(f, ")"))?;
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
        for text in [
            "s1.t",
            "s4.w",
            "b.t",
            "rc1(s1).t",
            "lc2(s2).l",
            "lc1(rc1(s3)).w",
            "p2.w",
            "s1.v",
            "s2.d",
            "b.l",
            "up(s1).t",
            "lc1(head(s2)).l",
        ] {
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
            "up(s1).l",
            "s1.l",
            "s1.q",
            "p5.t",
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
