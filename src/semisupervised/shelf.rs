//! Sentences on disk: what a worker keeps of the raw text of a shard, so that the text need not fit into memory.
//!
//! They are written once, when the text is cut into words, and read from begin to end in every pass. Words are numbered as
//! the worker meets them, so that frequent ones have small numbers, which take a byte or two ([`Words`]); what a number
//! means to all is known when all have counted. The file has no name: it is gone with the process, however that ends.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::parser::lexicon::Lexicon;

/// The words that a worker has met, in the order in which it did.
#[derive(Debug, Default)]
pub struct Words {
    numbers: FxHashMap<Box<str>, u32>,
    counts: Vec<i64>,
}

impl Words {
    /// The number of a word; it is counted `times` more.
    pub fn count(&mut self, word: &str, times: i64) -> u32 {
        let number = match self.numbers.get(word) {
            Some(&number) => number,
            None => {
                self.counts.push(0);
                let number = self.numbers.len() as u32;
                self.numbers.insert(word.into(), number);
                number
            }
        };
        self.counts[number as usize] += times;
        number
    }

    /// Each word with its count.
    pub fn counts(&self) -> impl Iterator<Item = (&str, i64)> {
        self.numbers.iter().map(|(word, &number)| (&**word, self.counts[number as usize]))
    }

    /// What they are to a lexicon.
    pub fn meanings(self, lexicon: &Lexicon) -> Arc<Meanings> {
        let mut meanings = vec![[0; 2]; self.counts.len()];
        for (word, number) in self.numbers {
            meanings[number as usize] = [true, false].map(|is_first| lexicon.word(&word, is_first));
        }
        Arc::new(Meanings(meanings))
    }
}

/// By a worker's number: the lexicon's number of a word where a sentence begins with it, and elsewhere.
#[derive(Debug, Default)]
pub struct Meanings(Vec<[u32; 2]>);

impl Meanings {
    /// The sentence of these words.
    pub fn sentence(&self, words: impl IntoIterator<Item = u32>) -> Vec<u32> {
        words.into_iter().enumerate().map(|(place, word)| self.0[word as usize][usize::from(place > 0)]).collect()
    }
}

/// Sentences between two places that are noted.
const BLOCK: usize = 128;

/// Bytes that are written and read at once. The sentences of a shard fill pages, which lie between those of other shards.
const PAGE: usize = 1 << 15;

/// The shelves of a worker that are being filled, by shard. They have one file in common: a file for each would be more
/// than a process may open where there are many.
#[derive(Debug, Default)]
pub struct OpenShelves {
    file: Option<File>,
    /// In the file.
    pages: u32,
    shelves: BTreeMap<u32, OpenShelf>,
}

#[derive(Debug, Default)]
struct OpenShelf {
    /// What is not in the file yet.
    rest: Vec<u8>,
    contents: Contents,
}

/// What is where on a shelf.
#[derive(Debug, Default)]
struct Contents {
    /// Numbers of its pages in the file.
    pages: Vec<u32>,
    /// The byte among those of its pages at which every [`BLOCK`]-th sentence begins.
    starts: Vec<u64>,
    sentences: usize,
    words: u64,
}

impl OpenShelves {
    /// Adds a sentence to the shelf of a shard.
    pub fn push(&mut self, shard: u32, words: &[u32]) -> io::Result<()> {
        let OpenShelf { rest, contents } = self.shelves.entry(shard).or_default();
        if contents.sentences.is_multiple_of(BLOCK) {
            contents.starts.push((contents.pages.len() * PAGE + rest.len()) as u64);
        }
        write(rest, words.len() as u32);
        words.iter().for_each(|&word| write(rest, word));
        contents.sentences += 1;
        contents.words += words.len() as u64;
        while rest.len() >= PAGE {
            contents.pages.push(self.pages);
            add_page(&mut self.file, &mut self.pages, &rest[..PAGE])?;
            rest.drain(..PAGE);
        }
        Ok(())
    }

    /// Writes what is still in memory; nothing can be added then.
    pub fn flush(&mut self) -> io::Result<()> {
        for OpenShelf { rest, contents } in self.shelves.values_mut() {
            if !rest.is_empty() {
                rest.resize(PAGE, 0);
                contents.pages.push(self.pages);
                add_page(&mut self.file, &mut self.pages, rest)?;
                *rest = vec![];
            }
        }
        Ok(())
    }

    /// The shelves, which have been flushed, ready to be read.
    pub fn close(self, meanings: &Arc<Meanings>) -> BTreeMap<u32, Arc<Shelf>> {
        let Some(file) = self.file.map(Arc::new) else { return BTreeMap::new() };
        let close =
            |shelf: OpenShelf| Shelf { file: file.clone(), contents: shelf.contents, meanings: meanings.clone() };
        self.shelves.into_iter().map(|(shard, shelf)| (shard, Arc::new(close(shelf)))).collect()
    }
}

/// Adds a page to the end of the file, which is made with the first one.
fn add_page(file: &mut Option<File>, pages: &mut u32, page: &[u8]) -> io::Result<()> {
    let file = match file {
        Some(file) => file,
        none => none.insert(tempfile::tempfile()?),
    };
    *pages += 1;
    file.write_all(page)
}

/// Seven bits a byte, the last ones first; all but the last byte have the eighth bit set.
fn write(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 1 << 7 {
        bytes.push(number as u8 | 1 << 7);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// The sentences of a shard.
#[derive(Debug)]
pub struct Shelf {
    file: Arc<File>,
    contents: Contents,
    meanings: Arc<Meanings>,
}

impl Shelf {
    /// Number of sentences.
    pub fn len(&self) -> usize {
        self.contents.sentences
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Words of all sentences.
    pub fn words(&self) -> u64 {
        self.contents.words
    }

    /// All sentences.
    pub fn iter(&self) -> impl Iterator<Item = Vec<u32>> {
        self.part(0..self.len())
    }

    /// Some of them. It is not expected that what this process has written cannot be read.
    pub fn part(&self, range: Range<usize>) -> impl Iterator<Item = Vec<u32>> {
        let (block, behind) = (range.start / BLOCK, range.start % BLOCK);
        let start = self.contents.starts.get(block).copied().unwrap_or(0) as usize;
        let mut reader = PageReader { shelf: self, next: start / PAGE, page: vec![], at: start % PAGE };
        let mut next = move || (0..reader.number()).map(|_| reader.number()).collect::<Vec<u32>>();
        let (before, all) = if range.is_empty() { (0, 0) } else { (behind, behind + range.len()) };
        (0..all).map(move |_| next()).skip(before).map(|words| self.meanings.sentence(words))
    }
}

/// Reads the bytes of a shelf, a page at a time.
struct PageReader<'a> {
    shelf: &'a Shelf,
    /// The page behind that at hand.
    next: usize,
    page: Vec<u8>,
    at: usize,
}

impl PageReader<'_> {
    fn number(&mut self) -> u32 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.byte();
            number |= u32::from(byte & 0x7f) << shift;
            if byte < 1 << 7 {
                return number;
            }
            shift += 7;
        }
    }

    #[inline]
    fn byte(&mut self) -> u8 {
        if self.page.is_empty() || self.at == PAGE {
            self.at %= PAGE;
            self.turn().expect("a temporary file can be read");
        }
        self.at += 1;
        self.page[self.at - 1]
    }

    fn turn(&mut self) -> io::Result<()> {
        let place = u64::from(self.shelf.contents.pages[self.next]) * PAGE as u64;
        self.next += 1;
        self.page.resize(PAGE, 0);
        self.shelf.file.read_exact_at(&mut self.page, place)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A shelf with these sentences, of words below 40,000, whose words mean what they are.
    pub fn shelf(sentences: impl Iterator<Item = Vec<u32>>) -> Arc<Shelf> {
        let mut shelves = OpenShelves::default();
        sentences.for_each(|words| shelves.push(0, &words).unwrap());
        shelves.flush().unwrap();
        let meanings = Meanings((0..40_000).map(|word| [word; 2]).collect());
        shelves.close(&Arc::new(meanings)).remove(&0).expect("a sentence")
    }

    proptest! {
        /// Whatever part is asked for, it is what was put there.
        #[test]
        fn what_is_put_on_a_shelf_is_found_again(
            sentences in prop::collection::vec(prop::collection::vec(prop_oneof![0..3u32, 0..40_000u32], 0..4), 0..3000),
            repeat in 1..12usize,
            cut in (0.0..1.0f64, 0.0..1.0f64),
        ) {
            // Shelf 0 has all sentences, so often that there are several pages; shelf 1 has a word of each, between them.
            let sentences: Vec<_> = std::iter::repeat_n(sentences, repeat).flatten().collect();
            let mut shelves = OpenShelves::default();
            for words in &sentences {
                shelves.push(0, words).unwrap();
                shelves.push(1, &words[..words.len().min(1)]).unwrap();
            }
            shelves.flush().unwrap();
            // A word means another number, and yet another where it is the first.
            let meanings = Meanings((0..40_000).map(|word| [2 * word + 1, 3 * word]).collect());
            let shelves = shelves.close(&Arc::new(meanings));
            prop_assert_eq!(shelves.len(), if sentences.is_empty() { 0 } else { 2 });
            let means = |words: &Vec<u32>| -> Vec<u32> {
                (0..).zip(words).map(|(place, word)| if place == 0 { 2 * word + 1 } else { 3 * word }).collect()
            };
            let expected: Vec<Vec<u32>> = sentences.iter().map(means).collect();
            let first: Vec<Vec<u32>> = expected.iter().map(|words| words[..words.len().min(1)].to_vec()).collect();
            for (number, shelf) in &shelves {
                let expected = if *number == 0 { &expected } else { &first };
                prop_assert_eq!(shelf.len(), sentences.len());
                prop_assert_eq!(shelf.words() as usize, expected.iter().map(Vec::len).sum::<usize>());
                prop_assert_eq!(&shelf.iter().collect::<Vec<_>>(), expected);
                let all = sentences.len();
                let start = (cut.0 * all as f64) as usize;
                let end = start + (cut.1 * (all - start) as f64) as usize;
                prop_assert_eq!(&shelf.part(start..end).collect::<Vec<_>>()[..], &expected[start..end]);
            }
        }
    }

    #[test]
    fn large_numbers_are_kept() {
        let mut bytes = vec![];
        let numbers = [0, 127, 128, 16_383, 16_384, u32::MAX];
        numbers.iter().for_each(|&number| write(&mut bytes, number));
        assert_eq!(bytes.len(), 1 + 1 + 2 + 2 + 3 + 5);
        bytes.resize(PAGE, 0);
        let (mut file, mut pages) = (None, 0);
        add_page(&mut file, &mut pages, &bytes).unwrap();
        let contents = Contents { pages: vec![0], ..Contents::default() };
        let shelf = Shelf { file: Arc::new(file.unwrap()), contents, meanings: Arc::default() };
        let mut reader = PageReader { shelf: &shelf, next: 0, page: vec![], at: 0 };
        assert_eq!(numbers.map(|_| reader.number()), numbers);
    }
}
