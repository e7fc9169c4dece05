//! What people and programs see of a run: tables, figures, one page.
//!
//! Figures are SVG that is written here. A plotting library (kuva 0.6) was measured against it: 65 s more of clean
//! build and six crates, no `viewBox`, classes, tooltips or labels for screen readers on line charts, and ids from a
//! counter of the process, so that rendering the same figure twice gives different bytes.
//!
//! - `table`: a table as TSV and as HTML
//! - `line_chart`, `dot_plot`, `curves`, `scatter`: figures
//! - `svg`: what figures are made of
//! - `page`: one self-contained HTML page: no script, no request to anywhere

pub mod curves;
pub mod dot_plot;
pub mod line_chart;
pub mod page;
pub mod scatter;
pub mod svg;
pub mod table;
