//! Rows of a table on stdout, written as they come: as text, or as a list in one JSON object.
//!
//! Nothing is written before the first row, so that a command which fails at once leaves stdout empty. A reader that has
//! gone away is not an error, but a reason to stop.

use std::io::{self, BufWriter, ErrorKind, Stdout, Write};

use serde_json::Value;

use crate::error::{Error, Result};

pub struct Rows {
    out: BufWriter<Stdout>,
    is_json: bool,
    /// The table's columns as text, and its key in JSON; none where only the end is written.
    head: Option<(&'static str, &'static str)>,
    is_begun: bool,
    written: io::Result<()>,
}

impl Rows {
    pub fn new(is_json: bool, head: Option<(&'static str, &'static str)>) -> Rows {
        Rows { out: BufWriter::with_capacity(1 << 16, io::stdout()), is_json, head, is_begun: false, written: Ok(()) }
    }

    /// Whether more rows are in vain.
    pub fn is_closed(&self) -> bool {
        self.written.is_err()
    }

    /// Writes a row.
    pub fn push(&mut self, text: impl FnOnce() -> String, json: impl FnOnce() -> Value) {
        if self.is_closed() {
            return;
        }
        let row = if self.is_json { json().to_string() } else { text() };
        self.written = self.begin().and_then(|before| {
            self.out.write_all(before.as_bytes())?;
            self.out.write_all(row.as_bytes())
        });
    }

    /// What stands before the next row, once the table is begun.
    fn begin(&mut self) -> io::Result<&'static str> {
        let (columns, key) = self.head.unwrap_or_default();
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        match (is_first, self.is_json) {
            (true, true) => write!(self.out, "{{\n\"{key}\": [\n")?,
            (true, false) => self.out.write_all(columns.as_bytes())?,
            _ => {}
        }
        Ok(if self.is_json && !is_first { ",\n" } else { "" })
    }

    /// Writes the end: a text, or a JSON object whose keys join the list.
    pub fn finish(mut self, text: &str, json: &Value) -> Result<()> {
        if self.written.is_ok() {
            let object = format!("{json:#}\n");
            let end = match (self.is_json, self.is_begun) {
                (false, _) => text.to_string(),
                (true, false) => object,
                (true, true) => format!("\n],{}", &object[1..]),
            };
            self.written = self.out.write_all(end.as_bytes()).and_then(|()| self.out.flush());
        }
        match self.written {
            Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Error::Usage(format!("cannot write to stdout: {e}"))),
            _ => Ok(()),
        }
    }
}
