//! Reads sentences of raw text, and knows which shard each is of.
//!
//! Runs of `RUN` paragraphs (or lines) are dealt to the shards in turn, those of training documents and those of test
//! documents each by themselves.

use std::cell::Cell;

use xxhash_rust::xxh3::Xxh3;

use super::job::{Cut, RawPlan};
use super::paragraphs::Paragraph;
use crate::corpus::diagnostic::Problem;
use crate::corpus::documents::stream::{Piece, read_pieces};
use crate::corpus::running::RunningText;

/// Paragraphs that stay together.
const RUN: u64 = 32;

pub struct Reader<'a> {
    pub raw: &'a RawPlan,
    pub shards: u32,
}

impl Reader<'_> {
    /// Shows each sentence that is wanted by its shard and by whether it is to test on: these two, its words, and whether it
    /// was cut; and problems, with their files and whether they are in what is to test on. Returns what each file as a whole
    /// is, so that it can be told from another one, and how many documents there are.
    pub fn each_sentence(
        &self,
        is_wanted: impl Fn(u32, bool) -> bool,
        mut visit: impl FnMut(u32, bool, &[&str], bool),
        report: &mut dyn FnMut(u32, bool, Problem),
    ) -> Result<(Vec<u64>, u64), String> {
        let settings = &self.raw.settings;
        let running = RunningText::new(settings.max_words);
        let (mut lines, mut document, mut digests) = ([0u64; 2], 0, vec![]);
        for (file, path) in (0..).zip(&self.raw.files) {
            let is_test_file = file as usize >= self.raw.training_files;
            let is_test = Cell::new(is_test_file);
            let (mut paragraph, mut digest, mut left_out) = (Paragraph::default(), Xxh3::new(), 0u64);
            let mut cut = |text: &str| {
                let is_test = is_test.get();
                let number = &mut lines[usize::from(is_test)];
                let shard = (*number / RUN % u64::from(self.shards)) as u32;
                *number += 1;
                if is_wanted(shard, is_test) {
                    self.cut(&running, text, |words, is_cut| visit(shard, is_test, words, is_cut));
                }
            };
            let mut take = |piece: Piece<'_>| match piece {
                Piece::Document => {
                    digest.update(b"\xff"); // no text has this byte
                    paragraph.end(&mut cut);
                    document += 1;
                    is_test.set(is_test_file || (settings.hold_out > 0 && document % settings.hold_out == 0));
                }
                Piece::Line(line) => {
                    digest.update(line.as_bytes());
                    digest.update(b"\n");
                    match settings.cut {
                        Cut::Wrapped => paragraph.push(line, &mut cut),
                        Cut::Lines | Cut::Running => cut(line),
                    }
                }
            };
            let mut tell = |problem: Problem| {
                left_out += 1;
                report(file, is_test.get(), problem);
            };
            read_pieces(path, settings.encoding, settings.format, &mut take, &mut tell)
                .map_err(|e| format!("{}: {e}", path.display()))?;
            paragraph.end(&mut cut);
            digests.push(digest.digest() ^ left_out);
        }
        Ok((digests, document))
    }

    fn cut<'t>(&self, running: &RunningText, line: &'t str, mut visit: impl FnMut(&[&'t str], bool)) {
        match self.raw.settings.cut {
            Cut::Running | Cut::Wrapped => running.each_sentence(line, visit),
            Cut::Lines => {
                let words: Vec<&str> = line.split_whitespace().collect();
                let is_cut = words.len() > self.raw.settings.max_words;
                words.chunks(self.raw.settings.max_words).for_each(|words| visit(words, is_cut));
            }
        }
    }
}
