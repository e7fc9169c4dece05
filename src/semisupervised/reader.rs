//! Reads sentences of raw text, and knows which shard each is of.
//!
//! Runs of paragraphs (or lines) are dealt to the shards, those of documents of each [`Use`] by themselves: each run to
//! the shard that has least so far. Some paragraphs are a thousand times as long as others, and shards should take equally long.

use std::cell::Cell;
use std::io::{self, Write};

use clap::ValueEnum;
use xxhash_rust::xxh3::Xxh3;

use super::job::{Cut, RawPlan, RawSettings};
use super::paragraphs::Paragraph;
use crate::corpus::diagnostic::{Diagnostic, Problem};
use crate::corpus::documents::stream::{Piece, read_pieces};
use crate::corpus::running::RunningText;

/// Bytes of paragraphs that stay together.
const RUN: u64 = 1 << 10;

/// What a document of raw text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Use {
    /// To train on
    Train,
    /// To learn from what contexts weigh, and nothing else
    Tune,
    /// To test on
    Test,
}

/// Writes the sentences of a part of raw text, one per line with blanks between words; tells what is no text. Text that cannot be
/// read is invalid data.
pub fn write_sentences(raw: &RawPlan, part: Use, out: &mut dyn Write, tell: &mut dyn FnMut(String)) -> io::Result<()> {
    let (is_over, mut written) = (Cell::new(false), Ok(()));
    let is_wanted = |_: u32, used: Use| used == part && !is_over.get();
    let visit = |_: u32, _: Use, words: &[&str], _: bool| {
        if written.is_ok() {
            written = writeln!(out, "{}", words.join(" "));
            is_over.set(written.is_err());
        }
    };
    let mut report = |file: u32, used: Use, problem: Problem| {
        if used == part {
            tell(Diagnostic { path: raw.files[file as usize].display().to_string(), problem }.to_string());
        }
    };
    let read = Reader { raw, shards: 1 }.each_sentence(is_wanted, visit, &mut report);
    written.and(read.map(|_| ()).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e)))
}

pub struct Reader<'a> {
    pub raw: &'a RawPlan,
    pub shards: u32,
}

impl Reader<'_> {
    /// What a document is for, by its number in all files, from 1 on.
    fn use_of(&self, document: u64, is_test_file: bool) -> Use {
        let RawSettings { hold_out, tune, .. } = self.raw.settings;
        let is_nth = |every: u64, from: u64| every > 0 && document % every == from;
        match is_test_file || is_nth(hold_out, 0) {
            true => Use::Test,
            false if is_nth(tune, tune / 2) => Use::Tune,
            false => Use::Train,
        }
    }

    /// Shows each sentence that is wanted by its shard and by what it is for: these two, its words, and whether it is the first
    /// part of one that was cut; and problems, with their files and what these are for. Returns what each file as a whole is, so
    /// that it can be told from another one, and how many documents there are.
    pub fn each_sentence(
        &self,
        is_wanted: impl Fn(u32, Use) -> bool,
        mut visit: impl FnMut(u32, Use, &[&str], bool),
        report: &mut dyn FnMut(u32, Use, Problem),
    ) -> Result<(Vec<u64>, u64), String> {
        let settings = &self.raw.settings;
        let running = RunningText::new(settings.max_words);
        let mut dealers = [(); 3].map(|()| Dealer::new(self.shards));
        let (mut document, mut digests) = (0, vec![]);
        for (file, path) in (0..).zip(&self.raw.files) {
            let is_test_file = file as usize >= self.raw.training_files;
            let used = Cell::new(if is_test_file { Use::Test } else { Use::Train });
            let (mut paragraph, mut digest, mut left_out) = (Paragraph::default(), Xxh3::new(), 0u64);
            let mut cut = |text: &str| {
                let used = used.get();
                let shard = dealers[used as usize].deal(text);
                if is_wanted(shard, used) {
                    self.cut(&running, text, |words, is_cut| visit(shard, used, words, is_cut));
                }
            };
            let mut take = |piece: Piece<'_>| match piece {
                Piece::Document => {
                    digest.update(b"\xff"); // no text has this byte
                    paragraph.end(&mut cut);
                    document += 1;
                    used.set(self.use_of(document, is_test_file));
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
                report(file, used.get(), problem);
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
                let most = self.raw.settings.max_words;
                let mut is_first_of_several = words.len() > most;
                for part in words.chunks(most) {
                    visit(part, std::mem::take(&mut is_first_of_several));
                }
            }
        }
    }
}

/// Deals paragraphs to shards, so that these get equally much.
struct Dealer {
    /// By shard: bytes that it has.
    dealt: Vec<u64>,
    /// The shard of the run, and how much of it is left.
    shard: usize,
    left: u64,
}

impl Dealer {
    fn new(shards: u32) -> Dealer {
        Dealer { dealt: vec![0; shards as usize], shard: 0, left: 0 }
    }

    /// The shard of the next paragraph.
    fn deal(&mut self, text: &str) -> u32 {
        if self.left == 0 {
            self.shard = (0..self.dealt.len()).min_by_key(|&shard| self.dealt[shard]).expect("a shard");
            self.left = RUN;
        }
        let bytes = text.len() as u64;
        self.dealt[self.shard] += bytes;
        self.left = self.left.saturating_sub(bytes);
        self.shard as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_get_equally_much_whatever_the_paragraphs() {
        let (shards, longest) = (7, 50_000);
        let mut dealer = Dealer::new(shards);
        let mut dealt = vec![0; shards as usize];
        for number in 0..20_000usize {
            // One in 300 is long.
            let text = "w".repeat(if number % 300 == 7 { longest } else { number % 91 + 1 });
            dealt[dealer.deal(&text) as usize] += text.len();
        }
        let (most, least) = (dealt.iter().max().unwrap(), dealt.iter().min().unwrap());
        assert!(most - least <= longest + RUN as usize, "{dealt:?}");
        assert!(*least > 5 * longest, "{dealt:?}");
    }
}
