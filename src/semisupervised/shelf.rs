//! Sentences on disk: what a worker keeps of the raw text of a shard, so that the text need not fit into memory.
//!
//! They are written once, when the text is cut into words, and read from begin to end in every pass. Words are numbered as
//! the worker meets them, so that frequent ones have small numbers, which take a byte or two ([`Words`]); what a number
//! means to all is known when all have counted. The file has no name: it is gone with the process, however that ends.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
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
const BLOCK: usize = 1024;

/// A shelf that is being filled.
#[derive(Debug)]
pub struct OpenShelf {
    out: BufWriter<File>,
    written: u64,
    /// Where every [`BLOCK`]-th sentence begins.
    starts: Vec<u64>,
    sentences: usize,
    words: u64,
}

impl OpenShelf {
    pub fn new() -> io::Result<OpenShelf> {
        let out = BufWriter::with_capacity(1 << 16, tempfile::tempfile()?);
        Ok(OpenShelf { out, written: 0, starts: vec![], sentences: 0, words: 0 })
    }

    /// Adds a sentence.
    pub fn push(&mut self, words: &[u32]) -> io::Result<()> {
        if self.sentences.is_multiple_of(BLOCK) {
            self.starts.push(self.written);
        }
        self.write(words.len() as u32)?;
        words.iter().try_for_each(|&word| self.write(word))?;
        self.sentences += 1;
        self.words += words.len() as u64;
        Ok(())
    }

    /// Seven bits a byte, the last one first; all but the last byte have the eighth bit set.
    fn write(&mut self, mut number: u32) -> io::Result<()> {
        let (mut bytes, mut length) = ([0; 5], 0);
        while number >= 1 << 7 {
            bytes[length] = number as u8 | 1 << 7;
            (number, length) = (number >> 7, length + 1);
        }
        bytes[length] = number as u8;
        self.written += length as u64 + 1;
        self.out.write_all(&bytes[..=length])
    }

    /// Writes what is still in memory.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// The shelf, ready to be read.
    pub fn close(self, meanings: Arc<Meanings>) -> io::Result<Shelf> {
        let file = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(Shelf { file, starts: self.starts, sentences: self.sentences, words: self.words, meanings })
    }
}

/// The sentences of a shard.
#[derive(Debug)]
pub struct Shelf {
    file: File,
    starts: Vec<u64>,
    sentences: usize,
    words: u64,
    meanings: Arc<Meanings>,
}

impl Shelf {
    /// Number of sentences.
    pub fn len(&self) -> usize {
        self.sentences
    }

    pub fn is_empty(&self) -> bool {
        self.sentences == 0
    }

    /// Words of all sentences.
    pub fn words(&self) -> u64 {
        self.words
    }

    /// All sentences.
    pub fn iter(&self) -> impl Iterator<Item = Vec<u32>> {
        self.part(0..self.len())
    }

    /// Some of them; one part is read at a time. It is not expected that what this process has written cannot be read.
    pub fn part(&self, range: Range<usize>) -> impl Iterator<Item = Vec<u32>> {
        let (block, behind) = (range.start / BLOCK, range.start % BLOCK);
        let mut input = self.read_from(self.starts.get(block).copied()).expect("a temporary file can be read");
        let mut next = move || {
            let length = read(&mut input)?;
            (0..length).map(|_| read(&mut input)).collect::<io::Result<Vec<u32>>>()
        };
        let is_empty = range.is_empty();
        (0..if is_empty { 0 } else { behind + range.len() })
            .map(move |_| next().expect("a temporary file can be read"))
            .skip(if is_empty { 0 } else { behind })
            .map(|words| self.meanings.sentence(words))
    }

    fn read_from(&self, start: Option<u64>) -> io::Result<BufReader<&File>> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(start.unwrap_or(0)))?;
        Ok(BufReader::with_capacity(1 << 16, file))
    }
}

fn read(input: &mut impl Read) -> io::Result<u32> {
    let (mut number, mut shift, mut byte) = (0, 0, [0]);
    loop {
        input.read_exact(&mut byte)?;
        number |= u32::from(byte[0] & 0x7f) << shift;
        if byte[0] < 1 << 7 {
            return Ok(number);
        }
        shift += 7;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever part is asked for, it is what was put there.
        #[test]
        fn what_is_put_on_a_shelf_is_found_again(
            sentences in prop::collection::vec(prop::collection::vec(prop_oneof![0..3u32, 0..40_000u32], 0..4), 0..3000),
            cut in (0.0..1.0f64, 0.0..1.0f64),
        ) {
            let mut shelf = OpenShelf::new().unwrap();
            sentences.iter().for_each(|words| shelf.push(words).unwrap());
            // A word means another number, and yet another where it is the first.
            let meanings = Meanings((0..40_000).map(|word| [2 * word + 1, 3 * word]).collect());
            let shelf = shelf.close(Arc::new(meanings)).unwrap();
            let means = |words: &Vec<u32>| -> Vec<u32> {
                (0..).zip(words).map(|(place, word)| if place == 0 { 2 * word + 1 } else { 3 * word }).collect()
            };
            let expected: Vec<Vec<u32>> = sentences.iter().map(means).collect();
            prop_assert_eq!(shelf.len(), sentences.len());
            prop_assert_eq!(shelf.words() as usize, sentences.iter().map(Vec::len).sum::<usize>());
            prop_assert_eq!(&shelf.iter().collect::<Vec<_>>(), &expected);
            let all = sentences.len();
            let start = (cut.0 * all as f64) as usize;
            let end = start + (cut.1 * (all - start) as f64) as usize;
            prop_assert_eq!(&shelf.part(start..end).collect::<Vec<_>>()[..], &expected[start..end]);
        }
    }

    #[test]
    fn large_numbers_are_kept() {
        let mut shelf = OpenShelf::new().unwrap();
        for number in [0, 127, 128, 16_383, 16_384, u32::MAX] {
            shelf.write(number).unwrap();
        }
        let mut file = shelf.out.into_inner().unwrap();
        file.rewind().unwrap();
        for number in [0, 127, 128, 16_383, 16_384, u32::MAX] {
            assert_eq!(read(&mut file).unwrap(), number);
        }
        assert!(read(&mut file).is_err());
    }
}
