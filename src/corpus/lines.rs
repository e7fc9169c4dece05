//! A file as lines: unpacked, UTF-8, without line ends or byte-order mark, and none longer than a limit.
//!
//! A line that is too long or not UTF-8 comes with a fault in the place of its text, and reading goes on behind it; its
//! reader knows what it belonged to. What ends the reading of a file is a [`Problem`].
//!
//! Memory: one line, in a buffer that grows to at most twice the limit (and a second one for ISO 8859-1).

use std::io::{self, BufRead, BufReader, Cursor, Read};

use simdutf8::basic::from_utf8;

use super::diagnostic::{Problem, Rule};
use super::open::read_up_to;
use super::text::{BYTE_ORDER_MARK, Encoding, START, broken_byte, latin1_to_utf8, not_text};

/// One line.
pub struct Line<'a> {
    /// Counted from 1.
    pub number: u64,
    /// Its bytes, for a look at how it begins: of a line that is too long, only the first ones.
    pub bytes: &'a [u8],
    /// Its text, or what is wrong with it.
    pub text: Result<&'a str, Fault>,
}

/// What is wrong with a line.
pub type Fault = (Rule, String);

impl Line<'_> {
    /// Whether there is nothing in it but white space.
    pub fn is_blank(&self) -> bool {
        self.bytes.iter().all(u8::is_ascii_whitespace)
    }
}

/// Reads line by line; the buffers are reused.
pub struct Lines {
    input: Box<dyn BufRead>,
    encoding: Encoding,
    longest: usize,
    number: u64,
    line: Vec<u8>,
}

impl Lines {
    /// Begins to read `input`, which is unpacked. A line of more than `longest` bytes (as UTF-8) is a fault.
    pub fn begin(mut input: Box<dyn Read + Send>, encoding: Encoding, longest: usize) -> Result<Lines, Problem> {
        let mut start = vec![0; START];
        let read = read_up_to(&mut input, &mut start).map_err(|error| unreadable(1, &error))?;
        start.truncate(read);
        if let Some(message) = not_text(&start) {
            return Err(Problem { line: 1, rule: Rule::NotText, sentence: String::new(), message });
        }
        if start.starts_with(BYTE_ORDER_MARK) {
            start.drain(..BYTE_ORDER_MARK.len());
        }
        let input = Box::new(BufReader::with_capacity(1 << 16, Cursor::new(start).chain(input)));
        Ok(Lines { input, encoding, longest, number: 0, line: Vec::new() })
    }

    /// The next line; none at the end.
    pub fn next_line(&mut self) -> Result<Option<Line<'_>>, Problem> {
        let Some(mut fits) = self.fetch().map_err(|error| unreadable(self.number + 1, &error))? else {
            return Ok(None);
        };
        self.number += 1;
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        if self.encoding == Encoding::Latin1 && !self.line.is_ascii() {
            self.line = latin1_to_utf8(&self.line);
            fits &= self.line.len() <= self.longest;
        }
        let text = match from_utf8(&self.line) {
            _ if !fits => Err(too_long("line", self.longest)),
            Ok(text) => Ok(text),
            Err(_) => Err((Rule::BrokenEncoding, broken_byte(&self.line).expect("a broken byte").1)),
        };
        Ok(Some(Line { number: self.number, bytes: &self.line, text }))
    }

    /// Fills the buffer up to the next line feed; says whether all of the line went in. None at the end of the input.
    fn fetch(&mut self) -> io::Result<Option<bool>> {
        self.line.clear();
        let mut fetched = None;
        loop {
            let chunk = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                chunk => chunk?,
            };
            if chunk.is_empty() {
                return Ok(fetched);
            }
            let feed = memchr::memchr(b'\n', chunk);
            let body = &chunk[..feed.unwrap_or(chunk.len())];
            let kept = body.len().min(self.longest - self.line.len());
            self.line.extend_from_slice(&body[..kept]);
            fetched = Some(fetched.unwrap_or(true) && kept == body.len());
            let used = body.len() + usize::from(feed.is_some());
            self.input.consume(used);
            if feed.is_some() {
                return Ok(fetched);
            }
        }
    }
}

/// The fault of a `what` of more than `longest` bytes.
pub fn too_long(what: &str, longest: usize) -> Fault {
    (Rule::TooLong, format!("a {what} of more than {} MiB; is the format the right one?", longest >> 20))
}

fn unreadable(line: u64, error: &io::Error) -> Problem {
    let message = format!("cannot read on from here: {error}");
    Problem { line, rule: Rule::Unreadable, sentence: String::new(), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Seen = (u64, Result<String, Rule>);

    fn lines_of(bytes: &[u8], encoding: Encoding, longest: usize) -> Vec<Seen> {
        let input = Box::new(Cursor::new(bytes.to_vec()));
        let mut lines = Lines::begin(input, encoding, longest).expect("text");
        let mut seen = vec![];
        while let Some(line) = lines.next_line().expect("bytes") {
            seen.push((line.number, line.text.map(str::to_string).map_err(|fault| fault.0)));
        }
        seen
    }

    fn fine(lines: &[&str]) -> Vec<Seen> {
        (1..).zip(lines).map(|(number, line)| (number, Ok(line.to_string()))).collect()
    }

    #[test]
    fn line_ends_and_byte_order_marks_do_not_show() {
        let plain = fine(&["a b", "", "c"]);
        for text in ["a b\n\nc\n", "a b\n\nc", "a b\r\n\r\nc\r\n", "\u{feff}a b\n\nc\n"] {
            assert_eq!(lines_of(text.as_bytes(), Encoding::Utf8, 99), plain, "{text:?}");
        }
        assert_eq!(lines_of(b"", Encoding::Utf8, 99), []);
    }

    #[test]
    fn a_long_line_is_a_fault_and_the_next_one_is_read() {
        let too_long = (2, Err(Rule::TooLong));
        let seen = lines_of(b"four\nfives\nfour\n", Encoding::Utf8, 4);
        assert_eq!(seen, [(1, Ok("four".to_string())), too_long.clone(), (3, Ok("four".to_string()))]);
        let seen = lines_of(b"a\n\xe9\xe9\xe9\n", Encoding::Latin1, 4); // longer as UTF-8
        assert_eq!(seen, [(1, Ok("a".to_string())), too_long]);
    }

    #[test]
    fn a_line_of_100_megabytes_does_not_have_to_fit_into_memory() {
        let line = io::repeat(b'a').take(100 << 20);
        let mut lines = Lines::begin(Box::new(line.chain(&b"\nb\n"[..])), Encoding::Utf8, 1 << 20).expect("text");
        let first = lines.next_line().expect("bytes").expect("a line");
        assert_eq!(first.text.map_err(|fault| fault.0), Err(Rule::TooLong));
        let second = lines.next_line().expect("bytes").expect("a line");
        assert_eq!((second.number, second.text.ok()), (2, Some("b")));
        assert!(lines.line.capacity() <= 2 << 20, "the buffer holds {}", lines.line.capacity());
    }

    #[test]
    fn what_is_not_text_is_recognised() {
        for (bytes, words) in [(&b"\xff\xfea\0"[..], "UTF-16"), (&b"ab\0c"[..], "byte 3 is NUL")] {
            let problem = Lines::begin(Box::new(bytes), Encoding::Utf8, 99).err().expect("a problem");
            assert_eq!(problem.rule, Rule::NotText);
            assert!(problem.message.contains(words), "{}", problem.message);
        }
        let seen = lines_of(b"a\ncaf\xe9\nb\n", Encoding::Utf8, 99);
        assert_eq!(seen[1], (2, Err(Rule::BrokenEncoding)));
        assert_eq!(lines_of(b"caf\xe9", Encoding::Latin1, 99), fine(&["café"]));
    }
}
