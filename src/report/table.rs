//! A table, as TSV for programs and as HTML for people.

use std::fmt::Write;

use super::svg::escape;

/// Rows under named columns.
#[derive(Clone, Debug, Default)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

/// Text to the left, numbers to the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Text,
    Number,
}

impl Table {
    /// A table without rows.
    pub fn new<S: Into<String>>(columns: impl IntoIterator<Item = (S, Align)>) -> Table {
        Table { columns: columns.into_iter().map(|(name, align)| (name.into(), align)).collect(), rows: vec![] }
    }

    /// Adds a row, which must have as many cells as there are columns.
    pub fn push(&mut self, row: Vec<String>) {
        assert_eq!(row.len(), self.columns.len(), "a row of another length");
        self.rows.push(row);
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Tab-separated, with a header. Tabs and line ends in cells become spaces.
    pub fn to_tsv(&self) -> String {
        let header: Vec<&str> = self.columns.iter().map(|(name, _)| name.as_str()).collect();
        let mut out = header.join("\t");
        out.push('\n');
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(|cell| cell.replace(['\t', '\n', '\r'], " ")).collect();
            out.push_str(&cells.join("\t"));
            out.push('\n');
        }
        out
    }

    /// A table that scrolls sideways where the screen is narrow.
    pub fn to_html(&self) -> String {
        self.to_html_with_links(&[])
    }

    /// The same with the first cells of rows as links, where there is one.
    pub fn to_html_with_links(&self, links: &[Option<String>]) -> String {
        let class = |align: Align| if align == Align::Number { " class=\"number\"" } else { "" };
        let mut out = String::from("<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>");
        for (name, align) in &self.columns {
            let _ = write!(out, "<th scope=\"col\"{}>{}</th>", class(*align), escape(name));
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for (number, row) in self.rows.iter().enumerate() {
            out.push_str("<tr>");
            let mut link = links.get(number).and_then(Option::as_ref);
            for ((_, align), cell) in self.columns.iter().zip(row) {
                let _ = match link.take() {
                    Some(link) => {
                        write!(out, "<td{}><a href=\"{}\">{}</a></td>", class(*align), escape(link), escape(cell))
                    }
                    None => write!(out, "<td{}>{}</td>", class(*align), escape(cell)),
                };
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div>\n");
        out
    }
}
