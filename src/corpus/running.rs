//! Running text, as in books and on the web: paragraphs -> sentences -> words, by rules.
//!
//! Words are those of the English treebanks of Universal Dependencies: punctuation, signs and hyphens are words of their
//! own, equal signs in a row are one (`...`), `'s` and `n't` are cut off. Full stops stay with initials, with words
//! that have one inside (`U.S.`), and with abbreviations; addresses of the web stay whole. A sentence ends behind `.`, `!`,
//! `?` or `…` (with what is closed there) where the next word does not begin in lower case, behind the full stops of
//! Chinese and Japanese, and with its paragraph.
//!
//! Text of any length and script becomes sentences of at most so many words: a longer one is cut behind the last comma,
//! colon or semicolon in its second half, and where there is none, in the middle of what it says.
//!
//! All words are slices of the paragraph; nothing is copied.

use std::ops::Range;

use rustc_hash::FxHashSet;

/// English words that end with a full stop inside of sentences.
const ABBREVIATIONS: &str = "Mr Mrs Ms Messrs Dr Prof Rev Hon Gen Col Capt Lt Sgt Maj Sen Rep Gov Pres St Mt Jr Sr Esq \
    Co Corp Inc Ltd Bros No Nos vs etc viz cf al ca eg ie approx est fig figs eq eqs sec secs vol vols pp ed eds \
    Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Mon Tue Wed Thu Fri Sat Sun Ave Blvd Rd";

/// What is cut off the end of a word. The longest comes first.
const CLITICS: [&str; 13] = ["n't", "n’t", "'re", "’re", "'ve", "’ve", "'ll", "’ll", "'s", "’s", "'d", "’d", "'m"];

/// Cuts running text.
pub struct RunningText {
    abbreviations: FxHashSet<&'static str>,
    most_words: usize,
}

impl RunningText {
    /// Sentences have at most `most_words`, which is not 0.
    pub fn new(most_words: usize) -> RunningText {
        assert!(most_words > 0, "a sentence has words");
        RunningText { abbreviations: ABBREVIATIONS.split_whitespace().collect(), most_words }
    }

    /// Shows the words of each sentence of a paragraph. One that is too long is cut; its first part is shown with `true`, and all
    /// else with `false`.
    pub fn each_sentence<'t>(&self, paragraph: &'t str, mut visit: impl FnMut(&[&'t str], bool)) {
        let (mut words, mut was_cut): (Vec<&str>, _) = (vec![], false);
        let mut chunks = paragraph.split_whitespace().flat_map(whole_sentences).peekable();
        while let Some(chunk) = chunks.next() {
            let before = words.len();
            self.cut(chunk, &mut words);
            let is_end = chunks.peek().is_none_or(|next| self.ends(&words[before..], next));
            let mut start = 0;
            while words.len() - start > self.most_words {
                let end = start + self.place_to_cut(&words[start..]);
                visit(&words[start..end], !was_cut);
                (start, was_cut) = (end, true);
            }
            words.drain(..start);
            if is_end {
                was_cut = false;
                if !words.is_empty() {
                    visit(&words, false);
                    words.clear();
                }
            }
        }
    }

    /// Where a sentence with too many words is cut.
    fn place_to_cut(&self, words: &[&str]) -> usize {
        let half = self.most_words.div_ceil(2);
        let is_pause = |word: &&str| matches!(*word, "," | ";" | ":" | "，" | "、" | "；");
        let last = words[half - 1..self.most_words].iter().rposition(is_pause);
        last.map_or(self.most_words, |at| half + at)
    }

    /// Whether a sentence ends behind these words of one chunk, where `next` is the chunk behind.
    fn ends(&self, words: &[&str], next: &str) -> bool {
        let is_closing =
            |word: &&&str| **word == "''" || word.chars().next().is_some_and(is_closing) && word.chars().count() == 1;
        let Some(last) = words.iter().rev().find(|word| !is_closing(word)) else { return false };
        let Some(sign) = last.chars().next_back() else { return false };
        if is_full_stop(sign) {
            return true;
        }
        // An abbreviation is one word with its full stop.
        let is_stop = matches!(sign, '.' | '!' | '?' | '…') && !last.chars().any(char::is_alphanumeric);
        let first = next.chars().find(|c| c.is_alphanumeric());
        is_stop && first.is_some_and(|c| !c.is_lowercase())
    }

    /// Cuts what stands between white space into words.
    fn cut<'t>(&self, chunk: &'t str, words: &mut Vec<&'t str>) {
        if is_address(chunk) {
            let end = chunk.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', '"', '\'']).len();
            words.push(&chunk[..end]);
            return cut_signs(&chunk[end..], words);
        }
        let core = self.core(chunk);
        cut_signs(&chunk[..core.start], words);
        cut_core(&chunk[core.clone()], words);
        cut_signs(&chunk[core.end..], words);
    }

    /// What is left without the signs before and behind.
    fn core(&self, chunk: &str) -> Range<usize> {
        let is_inner = |c: char| c.is_alphanumeric() || is_mark(c);
        let Some(start) = chunk.find(is_inner) else { return 0..0 };
        let last = chunk.rfind(is_inner).expect("there is one");
        let end = last + chunk[last..].chars().next().map_or(0, char::len_utf8);
        let word = &chunk[start..end];
        let is_abbreviation = || {
            let is_initial = word.chars().count() == 1 && word.chars().all(char::is_alphabetic);
            let has_stop = word.contains('.') && !word.contains(|c: char| c.is_numeric());
            is_initial || has_stop || self.abbreviations.contains(word)
        };
        let is_stopped = chunk[end..].starts_with('.') && !chunk[end..].starts_with("..");
        start..if is_stopped && is_abbreviation() { end + 1 } else { end }
    }
}

/// What is closed with a sentence.
fn is_closing(sign: char) -> bool {
    matches!(sign, '"' | '\'' | '”' | '’' | '»' | ')' | ']' | '」' | '』' | '）')
}

/// What ends a sentence in Chinese and Japanese, where no white space is needed behind.
fn is_full_stop(sign: char) -> bool {
    matches!(sign, '。' | '！' | '？')
}

/// Cuts what stands between white space behind the full stops of Chinese and Japanese, with what is closed there.
fn whole_sentences(chunk: &str) -> impl Iterator<Item = &str> {
    let mut rest = chunk;
    std::iter::from_fn(move || {
        let stop = rest.find(is_full_stop).unwrap_or(rest.len());
        let is_inner = |c: char| !is_full_stop(c) && !is_closing(c);
        let end = rest[stop..].find(is_inner).map_or(rest.len(), |behind| stop + behind);
        let (sentence, behind) = rest.split_at(end);
        rest = behind;
        (!sentence.is_empty()).then_some(sentence)
    })
}

/// Marks above and below letters, and joiners, which belong to words in many scripts.
fn is_mark(c: char) -> bool {
    use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};
    !c.is_ascii() && c.general_category_group() == GeneralCategoryGroup::Mark || matches!(c, '\u{200c}' | '\u{200d}')
}

fn is_address(chunk: &str) -> bool {
    let has_dot = || chunk.trim_end_matches(|c: char| !c.is_alphanumeric()).contains('.');
    chunk.contains("://") || chunk.starts_with("www.") || (chunk.contains('@') && has_dot())
}

/// Cuts a run of signs: equal ones in a row are one word.
fn cut_signs<'t>(signs: &'t str, words: &mut Vec<&'t str>) {
    let mut start = 0;
    let mut last = None;
    for (at, c) in signs.char_indices() {
        if last.is_some_and(|last| last != c) {
            words.push(&signs[start..at]);
            start = at;
        }
        last = Some(c);
    }
    if start < signs.len() {
        words.push(&signs[start..]);
    }
}

/// Cuts what begins and ends with a letter or a digit.
fn cut_core<'t>(core: &'t str, words: &mut Vec<&'t str>) {
    let mut rest = core;
    while let Some(at) = find_inner_sign(rest) {
        let end = at + rest[at..].find(|c: char| c.is_alphanumeric()).unwrap_or(rest.len() - at);
        cut_clitic(&rest[..at], words);
        cut_signs(&rest[at..end], words);
        rest = &rest[end..];
    }
    cut_clitic(rest, words);
}

/// The first sign that parts two words: a hyphen, a bracket and so on; not what stands within numbers and abbreviations, and
/// no apostrophe.
fn find_inner_sign(text: &str) -> Option<usize> {
    let mut before = ' ';
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map_or(' ', |(_, next)| *next);
        let is_in_number = before.is_numeric() && next.is_numeric() && matches!(c, '.' | ',' | ':');
        let belongs = c.is_alphanumeric() || is_mark(c) || matches!(c, '\'' | '’' | '_' | '&' | '·') || is_in_number;
        if !belongs && !(c == '.' && before.is_alphabetic() && (next.is_alphabetic() || next == ' ')) && at > 0 {
            return Some(at);
        }
        before = c;
    }
    None
}

fn cut_clitic<'t>(word: &'t str, words: &mut Vec<&'t str>) {
    if word.is_empty() {
        return;
    }
    let cut = CLITICS.iter().find_map(|clitic| {
        let at = word.len().checked_sub(clitic.len()).filter(|&at| at > 0 && word.is_char_boundary(at))?;
        word[at..].eq_ignore_ascii_case(clitic).then_some(at)
    });
    match cut {
        Some(at) => words.extend([&word[..at], &word[at..]]),
        None => words.push(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentences(text: &str, most_words: usize) -> Vec<String> {
        let mut found = vec![];
        RunningText::new(most_words).each_sentence(text, |words, _| found.push(words.join(" ")));
        found
    }

    #[test]
    fn words_are_cut_as_in_treebanks() {
        for (text, words) in [
            ("(don't, can't) I'll \"John's\"", "( do n't , ca n't ) I 'll \" John 's \""),
            ("a well-known dust-pan, and/or 1961-62", "a well - known dust - pan , and / or 1961 - 62"),
            ("$1,000.50 for 42% at 10:30...", "$ 1,000.50 for 42 % at 10:30 ..."),
            ("Mr. J. Smith of the U.S. saw e.g. Dr. Who", "Mr. J. Smith of the U.S. saw e.g. Dr. Who"),
            ("see http://x.org/a-b, or me@x.org.", "see http://x.org/a-b , or me@x.org ."),
            ("what?!! -- no", "what ? !! -- no"),
            ("rock'n'roll AT&T's", "rock'n'roll AT&T 's"),
            ("हिन्दी में।", "हिन्दी में ।"),
        ] {
            assert_eq!(sentences(text, 100), [words], "{text}");
        }
    }

    #[test]
    fn sentences_end_where_they_end() {
        let text = "\"Me, miss? Do you think so?\" asked Tilly. She left. Mrs. Daldy (e.g.) of 3.5 ft. wide no. 7 said: \
            Go! 今日は。はい";
        let found = sentences(text, 100);
        assert_eq!(found[0], "\" Me , miss ?");
        assert_eq!(found[1], "Do you think so ? \" asked Tilly .");
        assert_eq!(found[2], "She left .");
        assert_eq!(found[found.len() - 2..], ["今日は 。", "はい"]);
        assert_eq!(
            sentences("「今日は。」はい！？　そう\"x.\" no。", 9),
            ["「 今日は 。 」", "はい ！ ？", "そう \" x . \" no 。"]
        );
        assert_eq!(sentences("  \t ", 5), [""; 0]);
    }

    #[test]
    fn long_sentences_are_cut_at_pauses() {
        let text = "a b c d , e f g h i j";
        assert_eq!(sentences(text, 6), ["a b c d ,", "e f g h i j"]);
        assert_eq!(sentences(text, 4), ["a b c d", ", e f g", "h i j"]);
        let long = "word ".repeat(5000);
        let found = sentences(&long, 100);
        assert_eq!((found.len(), found[0].len()), (50, 499));
        let all: String = sentences(text, 1).concat();
        assert_eq!(all, "abcd,efghij");
    }

    #[test]
    fn a_sentence_that_is_cut_counts_once() {
        let mut found = vec![];
        let text = "a b c d e f gone. One. A b c d e f! Two";
        RunningText::new(3).each_sentence(text, |words, is_cut| found.push((words.concat(), is_cut)));
        let shown: Vec<(&str, bool)> = found.iter().map(|(words, is_cut)| (words.as_str(), *is_cut)).collect();
        let (cut, whole) = (true, false);
        assert_eq!(shown[..4], [("abc", cut), ("def", whole), ("gone.", whole), ("One.", whole)]);
        assert_eq!(shown[4..], [("Abc", cut), ("def", whole), ("!", whole), ("Two", whole)]);
    }

    /// Nothing of a text is lost but its white space.
    #[test]
    fn all_of_a_text_is_kept() {
        for text in [
            "a'b''c\"\"d--e..f. 'tis (\u{301}x) n't 's .5 -5 U.S.A. a.b,c ''",
            "…‘x’ ¿Qué? \u{200d} 日本。」と",
            "'s-n't",
        ] {
            let kept: String = sentences(text, 3).concat().split_whitespace().collect();
            let whole: String = text.split_whitespace().collect();
            assert_eq!(kept, whole);
        }
    }
}
