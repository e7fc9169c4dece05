//! Paragraphs of text whose lines were wrapped, as in books of Project Gutenberg.
//!
//! A paragraph ends with an empty line, and where the text ends. A line of more than `LONGEST` characters was not wrapped: it is
//! a paragraph of its own, so that text with and without wrapped lines can stand side by side. Where no empty line comes for
//! `MOST` bytes, there are no paragraphs, and the text is cut there, behind a line.

/// Nobody wraps lines later.
const LONGEST: usize = 120;

/// Nobody writes more in one paragraph.
const MOST: usize = 1 << 18;

/// A paragraph in the making.
#[derive(Debug, Default)]
pub struct Paragraph {
    open: String,
}

impl Paragraph {
    /// Takes the next line, and shows each paragraph that has ended, on one line.
    pub fn push(&mut self, line: &str, mut show: impl FnMut(&str)) {
        let is_whole = line.chars().nth(LONGEST).is_some();
        if is_whole || line.trim().is_empty() {
            self.end(&mut show);
        }
        if !self.open.is_empty() {
            self.open.push(' ');
        }
        self.open.push_str(line.trim());
        if is_whole || self.open.len() > MOST {
            self.end(show);
        }
    }

    /// The text ends.
    pub fn end(&mut self, mut show: impl FnMut(&str)) {
        if !self.open.is_empty() {
            show(&self.open);
            self.open.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_lines_are_joined_and_long_ones_are_not() {
        let long = "word ".repeat(30);
        let text = format!("CHAPTER I\n\n  It was the best\n of times.\n \n\n{long}\nIt was\n{long}\nof times");
        let (mut paragraph, mut found) = (Paragraph::default(), vec![]);
        text.lines().for_each(|line| paragraph.push(line, |text| found.push(text.to_string())));
        paragraph.end(|text| found.push(text.to_string()));
        paragraph.end(|text| panic!("{text}"));
        let (mut longest, mut count) = (0, 0);
        (0..MOST).for_each(|_| paragraph.push("word", |text| (longest, count) = (text.len().max(longest), count + 1)));
        assert!(count > 3 && longest < MOST + 10, "{count} of up to {longest}");
        paragraph.end(|_| ());
        // A line is as long as its characters are many, whatever bytes they take.
        let russian = "Все счастливые семьи похожи друг на друга, каждая несчастливая семья";
        assert!(russian.len() > LONGEST);
        for line in [russian, "несчастлива"] {
            paragraph.push(line, |text| panic!("{text}"));
        }
        paragraph.end(|text| found.push(text.to_string()));
        let long = long.trim();
        assert_eq!(found.pop(), Some(format!("{russian} несчастлива")));
        assert_eq!(found, ["CHAPTER I", "It was the best of times.", long, "It was", long, "of times"]);
    }
}
