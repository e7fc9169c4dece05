//! Trees without punctuation: the dependents of a dropped word go to its nearest kept ancestor.
//!
//! A word is punctuation when its part of speech is PUNCT, or when all characters of its form are punctuation in
//! Unicode, as in the scoring of the CoNLL shared tasks.

use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

use crate::corpus::conll::{Sentence, column};
use crate::corpus::tree::{Shape, Tree};

/// Writes the tree of `sentence` without punctuation into `out`. A sentence whose heads are no tree stays whole.
pub fn drop(sentence: &Sentence<'_>, out: &mut Tree) {
    let words = sentence.tokens.len();
    let is_tree = sentence.shape != Shape::Rootless && sentence.shape != Shape::Cyclic;
    let is_mark = |word| is_punctuation(sentence.column(word, column::FORM), sentence.column(word, column::UPOS));
    let is_kept: Vec<bool> = (0..words).map(|word| !is_tree || !is_mark(word)).collect();
    // New numbers of kept words, from 1.
    let number: Vec<u32> = is_kept
        .iter()
        .scan(0, |kept, &is_kept| {
            *kept += u32::from(is_kept);
            Some(*kept)
        })
        .collect();
    let kept_head = |word: usize| {
        let mut head = sentence.tokens[word].head;
        while head != 0 && !is_kept[head as usize - 1] {
            head = sentence.tokens[head as usize - 1].head;
        }
        if head == 0 { 0 } else { number[head as usize - 1] }
    };
    let heads: Vec<u32> = (0..words).filter(|&word| is_kept[word]).map(kept_head).collect();
    out.set_heads(heads.into_iter());
}

/// Whether a word with this form and part of speech is punctuation.
pub fn is_punctuation(form: &str, upos: &str) -> bool {
    let is_mark = |c: char| c.general_category_group() == GeneralCategoryGroup::Punctuation;
    upos == "PUNCT" || (!form.is_empty() && form != "_" && form.chars().all(is_mark))
}
