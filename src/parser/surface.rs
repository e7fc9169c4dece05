//! Classes of unknown words by their surface: capitals, digits, hyphens, punctuation, and suffixes.
//!
//! Nothing is known of the language. Which suffixes tell of a word's tag is learned from the rare words of the training
//! set: a suffix of up to four letters is taken where the tags of the words that end so differ from those of the next
//! shorter one that was taken, by more than chance (the likelihood ratio against half a logarithm of the counts for each
//! tag, as in BIC). Classes are the shapes and suffixes that occur often enough there; a word of another class falls
//! back to its shape alone, then to the class of all unknown words.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::ensure;
use crate::math::ln;

/// The longest suffix that is looked at.
const LONGEST: usize = 4;

/// A suffix or a class is learned from so many rare words at least.
const ENOUGH: u32 = 8;

/// What a word looks like, without its suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Shape {
    /// Neither letters nor digits.
    Mark,
    /// Digits, and no letters.
    Number,
    /// Digits and letters.
    Mixed,
    /// More than one letter, all of them capitals.
    Capitals,
    /// Begins with a capital, at the beginning of a sentence.
    FirstCapital,
    Capital,
    Lower,
    /// Letters of a script without capitals.
    Uncased,
}

impl Shape {
    fn of(form: &str, is_first: bool) -> Shape {
        let letters = || form.chars().filter(|c| c.is_alphabetic());
        let has_digit = form.chars().any(char::is_numeric);
        match letters().next() {
            None if has_digit => Shape::Number,
            None => Shape::Mark,
            Some(_) if has_digit => Shape::Mixed,
            Some(first) if first.is_uppercase() => match () {
                () if letters().count() > 1 && !letters().any(char::is_lowercase) => Shape::Capitals,
                () if is_first => Shape::FirstCapital,
                () => Shape::Capital,
            },
            Some(_) if letters().any(char::is_lowercase) => Shape::Lower,
            Some(_) => Shape::Uncased,
        }
    }

    fn has_suffix(self) -> bool {
        !matches!(self, Shape::Mark | Shape::Number | Shape::Mixed)
    }
}

/// A shape, whether there is a hyphen inside, and a suffix ("" for none).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Class {
    shape: Shape,
    has_hyphen: bool,
    suffix: String,
}

/// The classes, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surface {
    /// Sorted.
    suffixes: Vec<String>,
    /// Sorted.
    classes: Vec<Class>,
}

impl Surface {
    /// Learns classes from rare words: form, tag, and whether it begins a sentence.
    pub fn learn(rare: &[(&str, u32, bool)]) -> Surface {
        let mut surface = Surface { suffixes: learn_suffixes(rare), classes: vec![] };
        let mut counts = BTreeMap::<Class, u32>::new();
        for &(form, _, is_first) in rare {
            let class = surface.class_of(form, is_first);
            let bare = Class { suffix: String::new(), ..class.clone() };
            if class != bare {
                *counts.entry(bare).or_default() += 1;
            }
            *counts.entry(class).or_default() += 1;
        }
        surface.classes = counts.into_iter().filter(|(_, count)| *count >= ENOUGH).map(|(class, _)| class).collect();
        surface
    }

    /// Checks what binary searches rely on.
    pub fn validate(&self) -> Result<(), String> {
        let is_sorted = self.suffixes.is_sorted_by(|a, b| a < b) && self.classes.is_sorted_by(|a, b| a < b);
        ensure(is_sorted, "the classes of unknown words")
    }

    /// Number of classes.
    pub fn len(&self) -> usize {
        self.classes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    /// The class of a word, where it has one.
    pub fn class(&self, form: &str, is_first: bool) -> Option<u32> {
        let mut class = self.class_of(form, is_first);
        let mut found = self.classes.binary_search(&class);
        if found.is_err() {
            class.suffix.clear();
            found = self.classes.binary_search(&class);
        }
        found.ok().map(|number| number as u32)
    }

    /// How a class is said, as in `<unk:Capital-ing>`.
    pub fn name(&self, class: u32) -> String {
        let Class { shape, has_hyphen, suffix } = &self.classes[class as usize];
        let hyphen = if *has_hyphen { ":hyphen" } else { "" };
        let suffix = if suffix.is_empty() { String::new() } else { format!("-{suffix}") };
        format!("<unk:{shape:?}{hyphen}{suffix}>")
    }

    fn class_of(&self, form: &str, is_first: bool) -> Class {
        let shape = Shape::of(form, is_first);
        let has_hyphen = shape != Shape::Mark && form.contains(['-', '\u{2010}', '\u{2011}']);
        let mut suffix = String::new();
        if shape.has_suffix() {
            let taken = |end: &String| self.suffixes.binary_search(end).is_ok();
            suffix = suffixes(form).into_iter().rev().find(taken).unwrap_or_default();
        }
        Class { shape, has_hyphen, suffix }
    }
}

/// The suffixes of a word in lower case, shortest first; the word is longer than any.
fn suffixes(form: &str) -> Vec<String> {
    let lower = form.to_lowercase();
    let starts: Vec<usize> = lower.char_indices().map(|(start, _)| start).collect();
    (1..=LONGEST.min(starts.len().saturating_sub(1))).map(|n| lower[starts[starts.len() - n]..].to_string()).collect()
}

/// Tag counts, and their sum.
type Tags = BTreeMap<u32, u32>;

fn learn_suffixes(rare: &[(&str, u32, bool)]) -> Vec<String> {
    let mut all = Tags::new();
    let mut by_suffix = BTreeMap::<(usize, String), Tags>::new();
    for &(form, tag, is_first) in rare {
        if !Shape::of(form, is_first).has_suffix() {
            continue;
        }
        *all.entry(tag).or_default() += 1;
        for suffix in suffixes(form) {
            *by_suffix.entry((suffix.chars().count(), suffix)).or_default().entry(tag).or_default() += 1;
        }
    }
    let mut taken = BTreeMap::<&str, &Tags>::new();
    for ((_, suffix), tags) in &by_suffix {
        let shorter = suffix.char_indices().skip(1).find_map(|(start, _)| taken.get(&suffix[start..]));
        if tells(tags, shorter.copied().unwrap_or(&all)) {
            taken.insert(suffix, tags);
        }
    }
    taken.into_keys().map(str::to_string).collect()
}

/// Whether words with these tags are worth a class apart from `others`, which they are among.
fn tells(tags: &Tags, others: &Tags) -> bool {
    let sum = |tags: &Tags| f64::from(tags.values().sum::<u32>());
    let (here, there) = (sum(tags), sum(others));
    if here < f64::from(ENOUGH) {
        return false;
    }
    let gain =
        |(tag, &count): (&u32, &u32)| f64::from(count) * ln(f64::from(count) / here * there / f64::from(others[tag]));
    tags.iter().map(gain).sum::<f64>() > 0.5 * ln(here) * others.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_told_apart() {
        let shape = |form| Shape::of(form, false);
        assert_eq!([",", "12", "3rd", "USA"].map(shape), [Shape::Mark, Shape::Number, Shape::Mixed, Shape::Capitals]);
        assert_eq!(["Ann", "ann", "日本"].map(shape), [Shape::Capital, Shape::Lower, Shape::Uncased]);
        assert_eq!(Shape::of("Ann", true), Shape::FirstCapital);
        assert_eq!(Shape::of("", true), Shape::Mark);
    }

    #[test]
    fn suffixes_that_tell_of_tags_are_learned() {
        let forms: Vec<(String, u32)> = (0..60u32)
            .flat_map(|i| {
                let stem = char::from(b'a' + (i % 26) as u8);
                [(format!("b{stem}{i:b}ing").replace(['0', '1'], "o"), 0), (format!("{stem}ox{stem}"), i % 5)]
            })
            .collect();
        let rare: Vec<_> = forms.iter().map(|(form, tag)| (form.as_str(), *tag, false)).collect();
        let surface = Surface::learn(&rare);
        let name = |form: &str| surface.class(form, false).map(|class| surface.name(class));
        let class = name("walking").expect("a class");
        assert!(class == "<unk:Lower-g>" || class.ends_with("ing>"), "{class}");
        assert_ne!(name("walking"), name("walker"));
        assert_eq!(surface.class("WALKING", false), None);
    }
}
