//! Paragraphs of text whose lines were wrapped, as in books of Project Gutenberg.
//!
//! A paragraph ends with an empty line, and where the text ends. A line of more than `LONGEST` bytes was not wrapped: it is
//! a paragraph of its own, so that text with and without wrapped lines can stand side by side.

/// Nobody wraps lines later.
const LONGEST: usize = 120;

/// Shows each paragraph of a text, on one line.
pub fn each_paragraph(text: &str, mut show: impl FnMut(&str)) {
    let mut open = String::new();
    let mut close = |open: &mut String| {
        if !open.is_empty() {
            show(open);
            open.clear();
        }
    };
    for line in text.lines() {
        if line.trim().is_empty() || line.len() > LONGEST {
            close(&mut open);
        }
        if !open.is_empty() {
            open.push(' ');
        }
        open.push_str(line.trim());
        if line.len() > LONGEST {
            close(&mut open);
        }
    }
    close(&mut open);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_lines_are_joined_and_long_ones_are_not() {
        let long = "word ".repeat(30);
        let text = format!("CHAPTER I\n\n  It was the best\n of times.\n \n\n{long}\nIt was\n{long}");
        let mut found = vec![];
        each_paragraph(&text, |paragraph| found.push(paragraph.to_string()));
        let long = long.trim();
        assert_eq!(found, ["CHAPTER I", "It was the best of times.", long, "It was", long]);
        each_paragraph("", |paragraph| panic!("{paragraph}"));
    }
}
