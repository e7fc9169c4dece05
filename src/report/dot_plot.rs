//! Several values per row, as dots on a line.

use std::fmt::Write;

use super::svg::{Scale, document, escape, number, round_ticks};

/// Rows of dots over one axis from 0.
#[derive(Clone, Debug)]
pub struct DotPlot {
    pub label: String,
    pub axis: String,
    /// Names of the dots of a row, in order; their colours are 0, 1, 2.
    pub dots: Vec<String>,
    pub rows: Vec<(String, Vec<f64>)>,
}

const WIDTH: f64 = 660.0;
const LEFT: f64 = 130.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 34.0;
const ROW: f64 = 19.0;

impl DotPlot {
    pub fn to_svg(&self) -> String {
        let most = self.rows.iter().flat_map(|(_, values)| values).copied().fold(0.0, f64::max);
        let ticks = round_ticks(most, 6);
        let end = ticks.last().copied().unwrap_or(1.0).max(f64::MIN_POSITIVE);
        let x = Scale { from: (0.0, end), to: (LEFT, WIDTH - RIGHT) };
        let bottom = TOP + self.rows.len() as f64 * ROW;
        let mut out = String::new();
        for (i, name) in self.dots.iter().enumerate() {
            let at = LEFT + i as f64 * 150.0;
            let _ = write!(out, "<circle class=\"hollow s{i}\" cx=\"{}\" cy=\"14\" r=\"4\"/>", number(at));
            let _ = writeln!(out, "<text class=\"axis\" x=\"{}\" y=\"17.5\">{}</text>", number(at + 9.0), escape(name));
        }
        for tick in &ticks {
            let at = x.at(*tick);
            let _ = write!(out, "<path class=\"grid\" d=\"M{at} {}V{}\"/>", number(TOP - 6.0), number(bottom));
            let _ = writeln!(
                out,
                "<text class=\"tick\" x=\"{at}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                number(bottom + 12.0),
                number(*tick)
            );
        }
        for (i, (name, values)) in self.rows.iter().enumerate() {
            let y = number(TOP + i as f64 * ROW + ROW / 2.0 - 4.0);
            let _ = write!(
                out,
                "<text class=\"axis\" x=\"{}\" y=\"{y}\" dy=\"3.5\" text-anchor=\"end\">{}</text>",
                number(LEFT - 10.0),
                escape(name)
            );
            let least = values.iter().copied().fold(f64::MAX, f64::min);
            let largest = values.iter().copied().fold(0.0, f64::max);
            if !values.is_empty() {
                let _ = write!(out, "<path class=\"range\" d=\"M{} {y}H{}\"/>", x.at(least), x.at(largest));
            }
            for (colour, (value, dot)) in values.iter().zip(&self.dots).enumerate() {
                let _ = write!(
                    out,
                    "<circle class=\"hollow s{colour}\" cx=\"{}\" cy=\"{y}\" r=\"4\"><title>{}, {}: {value:.3}</title></circle>",
                    x.at(*value),
                    escape(name),
                    escape(dot)
                );
            }
            out.push('\n');
        }
        let _ = writeln!(
            out,
            "<text class=\"axis\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            number((LEFT + WIDTH) / 2.0),
            number(bottom + 27.0),
            escape(&self.axis)
        );
        document(WIDTH, bottom + 34.0, &self.label, &out)
    }
}
