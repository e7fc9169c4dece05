//! The documents that were held out, as a file of the report, `test-documents.txt`, in the format `docs`.

use std::io::{self, Write};

use super::job::Plan;
use crate::corpus::documents::RawDocument;
use crate::error::Result;
use crate::job::corpus::Test;
use crate::job::folder::{RunFolder, WholeFile};

/// The file in the making; none where the user has the test documents as files.
pub struct HeldOut(Option<WholeFile>);

impl HeldOut {
    pub fn create(plan: &Plan, folder: &RunFolder) -> Result<HeldOut> {
        let is_held_out = matches!(&plan.test, Test::HoldOut(hold_out) if hold_out.documents > 0);
        Ok(HeldOut(is_held_out.then(|| folder.create_file("report/test-documents.txt")).transpose()?))
    }

    pub fn document(&mut self, document: &RawDocument<'_>) -> io::Result<()> {
        let Some(file) = &mut self.0 else { return Ok(()) };
        // An id of the other formats may be empty or have a TAB in it.
        let id: Vec<&str> = document.id.split_whitespace().collect();
        let id = if id.is_empty() { "-".to_string() } else { id.join(" ") };
        writeln!(file, "#DOC\t{id}\t{}", document.label.trim())?;
        for line in document.text.lines() {
            let indent = if line.starts_with("#DOC") { " " } else { "" }; // else it would open a document
            writeln!(file, "{indent}{line}")?;
        }
        Ok(())
    }

    pub fn finish(self) -> Result<()> {
        self.0.map_or(Ok(()), WholeFile::finish)
    }
}
