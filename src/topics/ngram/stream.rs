//! A document that comes word by word, as it is typed or heard: each word's probability as soon as the word is whole.

use std::io::{self, BufRead, ErrorKind};

use super::reading::Reading;
use crate::corpus::text::{BYTE_ORDER_MARK, Encoding, latin1_to_utf8};

/// Reads one document from `input`, a sentence per line, and shows each word and end of a sentence with ln p as soon as the
/// white space behind it has come. What is not UTF-8 is read as an unknown word. Ends early where `visit` fails.
pub fn stream(
    mut reading: Reading<'_>,
    encoding: Encoding,
    input: &mut dyn BufRead,
    visit: &mut dyn FnMut(&str, f64) -> io::Result<()>,
) -> io::Result<()> {
    let (mut word, mut is_open, mut is_first) = (vec![], false, true);
    loop {
        let bytes = match input.fill_buf() {
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            bytes => bytes?.to_vec(),
        };
        // The end of the input ends the word and the sentence.
        let is_over = bytes.is_empty();
        for &byte in if is_over { b"\n".as_slice() } else { &bytes } {
            if !byte.is_ascii_whitespace() {
                word.push(byte);
                continue;
            }
            let mut shown = Ok(());
            let mut show = |word: &str, _, word_ln: f64| {
                if shown.is_ok() {
                    shown = visit(word, word_ln);
                }
            };
            let text = decode(&word, encoding, std::mem::take(&mut is_first));
            is_open |= !text.trim().is_empty();
            reading.words(&text, &mut show);
            if byte == b'\n' && std::mem::take(&mut is_open) {
                reading.end(&mut show);
            }
            shown?;
            word.clear();
        }
        if is_over {
            return Ok(());
        }
        input.consume(bytes.len());
    }
}

fn decode(word: &[u8], encoding: Encoding, is_first: bool) -> String {
    match encoding {
        Encoding::Latin1 => String::from_utf8_lossy(&latin1_to_utf8(word)).into_owned(),
        Encoding::Utf8 => {
            let word = word.strip_prefix(BYTE_ORDER_MARK).filter(|_| is_first).unwrap_or(word);
            String::from_utf8_lossy(word).into_owned()
        }
    }
}
