//! A text with each word shaded by the probability that it is of one of its document's topics, and not of topic 0 (Noji et
//! al. 2013, Figure 5).
//!
//! The document is read twice: once from left to right, for its topics; then each word is judged by what they are at the
//! end: p(not 0 | w, h) = sum_k share_k p(yes | h) p_k(w | h) / (the same + p(no | h) p_0(w | h)).

use std::fmt::Write;

use super::counts::Form;
use super::lookup::{Lookup, TopicNgrams};
use super::reading::Reading;
use crate::lm::history::History;
use crate::lm::text::each_word;
use crate::math::lanes::Block;
use crate::report::page::Page;
use crate::report::svg::escape;
use crate::topics::left_to_right::LeftToRight;

/// A document, line by line: each word as it stands there, with its probability.
pub struct Shaded {
    pub id: String,
    pub lines: Vec<Vec<(String, f64)>>,
}

/// Shades the document of this number. The model has to be SWITCHING.
pub fn shade(model: &TopicNgrams, method: LeftToRight, seed: u64, number: u64, id: &str, text: &str) -> Shaded {
    assert_eq!(model.kept.form, Form::Switching, "only SWITCHING has tokens of topic 0 beside others");
    let mut reading = Reading::begin(model, method, seed, number);
    reading.document(text, &mut |_, _, _| ());
    let shares = reading.shares();
    let mut lookup = Lookup::new(model);
    let mut shade_line = |line: &str| {
        let mut history = History::begin(&model.symbols, model.kept.depth());
        let mut shaded = vec![];
        for whole in line.split_whitespace() {
            each_word(&model.kept.tokenisation, whole, |word| {
                let symbol = model.kept.vocabulary.id(word);
                let p = of_topics(lookup.look(history.words(), symbol), &shares);
                history.push(symbol);
                shaded.push((whole.to_string(), p));
            });
        }
        shaded
    };
    let lines = text.lines().filter(|line| !line.trim().is_empty()).map(&mut shade_line).collect();
    Shaded { id: id.to_string(), lines }
}

/// The part that a document's topics have in the probability of a word.
fn of_topics(mixed: &[Block<f32>], shares: &[f64]) -> f64 {
    let mut lanes = mixed.iter().flat_map(|block| block.0).map(f64::from);
    let global = lanes.next().unwrap_or(0.0);
    let own: f64 = lanes.zip(shares).map(|(p, share)| p * share).sum();
    own / (own + global)
}

impl Shaded {
    /// For a terminal: words on greys, of 256 colours, the darker the more topical.
    pub fn to_ansi(&self) -> String {
        self.to_lines(|word, p| {
            let grey = 255 - (p * 15.0).round() as u8;
            let ink = if p < 0.5 { 16 } else { 231 };
            format!("\x1b[38;5;{ink};48;5;{grey}m{word}\x1b[0m")
        })
    }

    /// For a file: words that are more likely a topic's than not stand in brackets.
    pub fn to_text(&self) -> String {
        self.to_lines(|word, p| if p >= 0.5 { format!("[{word}]") } else { word.to_string() })
    }

    fn to_lines(&self, show: impl Fn(&str, f64) -> String) -> String {
        let line = |words: &Vec<(String, f64)>| {
            let words: Vec<String> = words.iter().map(|(word, p)| show(word, *p)).collect();
            words.join(" ") + "\n"
        };
        self.lines.iter().map(line).collect()
    }

    /// A paragraph per line.
    fn to_html(&self) -> String {
        let mut html = String::new();
        for line in &self.lines {
            html += "<p>";
            for (word, p) in line {
                let style = format!("background:rgb(128 128 128/{:.2});border-radius:.2rem;padding:0 .15rem", 0.75 * p);
                let _ = write!(html, "<span style=\"{style}\" title=\"{:.0} %\">{}</span> ", 100.0 * p, escape(word));
            }
            html += "</p>\n";
        }
        html
    }
}

/// A page of documents.
pub fn page(documents: &[Shaded]) -> String {
    let lead = "The darker a word, the more likely it is of one of its document's topics, and not of the global model.";
    let mut page = Page::new("Topical words", lead);
    for (number, document) in (1..).zip(documents) {
        let name = if document.id.is_empty() { format!("document {number}") } else { document.id.clone() };
        page.section(&format!("d{number}"), &name, &document.to_html());
    }
    page.to_html()
}
