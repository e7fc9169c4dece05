//! A parse drawn as text, and how sure the parser was on the way.

use super::decode::Decoder;
use super::evaluate::Settings;
use super::model::ParserModel;
use super::text::Unparsed;

/// The best parse of a sentence as a tree, and the derivations that had particles after each word.
pub fn describe(model: &ParserModel, settings: &Settings, text: &str) -> String {
    let sentence = Unparsed::of_text(text, 1);
    let given = sentence.given(model, settings.tags);
    let mut decoder = Decoder::new(model, settings.search, settings.particles);
    let parse = decoder.parse(&given);
    let lexicon = &model.kept.lexicon;
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = |word: usize| {
        let class = given[word].form;
        let as_unknown =
            if lexicon.is_unknown(class) { format!("  as {}", lexicon.word_name(class)) } else { String::new() };
        let label = &lexicon.labels[usize::from(parse.labels[word].0)];
        format!("{} {} {label}{as_unknown}\n", words[word], lexicon.tags[parse.tags[word] as usize])
    };
    let mut out = String::new();
    draw(&parse.heads, 0, "", &line, &mut out);
    out += &format!(
        "\nlog-probability {:.4}, of the best tree and tags; at most {} items on the stack\n\nword\tderivations\n",
        parse.ln, parse.memory
    );
    for (word, size) in words.iter().zip(&decoder.sizes) {
        out += &format!("{word}\t{size}\n");
    }
    out
}

/// Draws the dependents of `head`, each with its own below it.
fn draw(heads: &[u32], head: u32, before: &str, line: &dyn Fn(usize) -> String, out: &mut String) {
    // Not by recursion: trees of long sentences can be as deep as they are long.
    let dependents = |head: u32| (1..=heads.len() as u32).filter(move |&word| heads[word as usize - 1] == head);
    let mut open: Vec<(u32, String, bool)> = vec![];
    let push = |head: u32, before: &str, open: &mut Vec<(u32, String, bool)>| {
        let children: Vec<u32> = dependents(head).collect();
        for (rank, &child) in children.iter().enumerate().rev() {
            open.push((child, before.to_string(), rank + 1 == children.len()));
        }
    };
    push(head, before, &mut open);
    while let Some((word, before, is_last)) = open.pop() {
        let (turn, under) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        *out += &format!("{before}{turn}{}", line(word as usize - 1));
        push(word, &(before + under), &mut open);
    }
}
