//! A small line chart; many of them, side by side, make small multiples.

use std::fmt::Write;

use super::svg::{Scale, document, escape, label, number, round_ticks};

/// A panel: lines over common axes.
#[derive(Clone, Debug)]
pub struct LineChart {
    pub title: String,
    pub x: (f64, f64),
    pub y: (f64, f64),
    pub x_ticks: Vec<f64>,
    pub y_ticks: Vec<f64>,
    /// A value of y to draw a faint line at.
    pub mark: Option<f64>,
    pub lines: Vec<Line>,
}

/// A line, with a colour (0, 1, 2) and whether it is dotted.
#[derive(Clone, Debug)]
pub struct Line {
    pub name: String,
    pub colour: usize,
    pub dotted: bool,
    pub points: Vec<(f64, f64)>,
    /// What it says when pointed at.
    pub tip: String,
}

/// Size of a panel.
pub const WIDTH: f64 = 220.0;
pub const HEIGHT: f64 = 170.0;

const LEFT: f64 = 28.0;
const RIGHT: f64 = 6.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 18.0;

impl LineChart {
    /// The panel as an image for a page.
    pub fn to_svg(&self) -> String {
        format!(
            "<svg class=\"panel\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n",
            escape(&self.title),
            self.content()
        )
    }

    fn content(&self) -> String {
        let x = Scale { from: self.x, to: (LEFT, WIDTH - RIGHT) };
        let y = Scale { from: self.y, to: (HEIGHT - BOTTOM, TOP) };
        let (left, right, bottom) = (number(LEFT), number(WIDTH - RIGHT), number(HEIGHT - BOTTOM));
        let mut out = String::new();
        let _ = writeln!(out, "<text class=\"name\" x=\"{left}\" y=\"14\">{}</text>", escape(&self.title));
        for tick in &self.y_ticks {
            let at = y.at(*tick);
            let _ = write!(out, "<path class=\"grid\" d=\"M{left} {at}H{right}\"/>");
            let _ = writeln!(
                out,
                "<text class=\"tick\" x=\"{}\" y=\"{at}\" dy=\"3\" text-anchor=\"end\">{}</text>",
                number(LEFT - 4.0),
                label(*tick)
            );
        }
        for tick in &self.x_ticks {
            let (at, name) = (x.at(*tick), number(*tick));
            // A long number at the right end would be cut off.
            let anchor = if *tick == self.x.1 && name.len() > 2 { "end" } else { "middle" };
            let _ = writeln!(
                out,
                "<text class=\"tick\" x=\"{at}\" y=\"{}\" text-anchor=\"{anchor}\">{name}</text>",
                number(HEIGHT - 6.0),
            );
        }
        if let Some(mark) = self.mark {
            let _ = writeln!(out, "<path class=\"mark\" d=\"M{left} {}H{right}\"/>", y.at(mark));
        }
        let _ = writeln!(out, "<path class=\"grid\" d=\"M{left} {bottom}H{right}\"/>");
        for line in &self.lines {
            let points: Vec<String> =
                line.points.iter().map(|(px, py)| format!("{},{}", x.at(*px), y.at(*py))).collect();
            let dotted = if line.dotted { " dotted" } else { "" };
            let _ = writeln!(
                out,
                "<polyline class=\"line s{}{dotted}\" points=\"{}\"><title>{}</title></polyline>",
                line.colour,
                points.join(" "),
                escape(&line.tip)
            );
        }
        out
    }
}

/// A line over sweeps, from 0 on; nothing where there are fewer than two points.
pub fn over_sweeps(title: &str, colour: usize, points: Vec<(f64, f64)>) -> String {
    over("sweep", title, colour, points)
}

/// The same over anything else; `unit` is what one of it is called.
pub fn over(unit: &str, title: &str, colour: usize, mut points: Vec<(f64, f64)>) -> String {
    let (Some(&(first, _)), Some(&(last, _))) = (points.first(), points.last()) else { return String::new() };
    if first >= last {
        return String::new();
    }
    let tip: Vec<String> =
        points.iter().map(|(x, value)| format!("{unit} {}: {value:.3}", (10.0 * x).round() / 10.0)).collect();
    // The first sweeps may be far off: the axis is that of what comes after.
    points.retain(|p| p.0 > last / 20.0 || p.0 == last);
    let (low, high) = points.iter().fold((f64::MAX, f64::MIN), |(l, h), p| (l.min(p.1), h.max(p.1)));
    let step = round_ticks((high - low).max(1e-3), 4).get(1).copied().unwrap_or(1.0);
    let (from, to) = ((low / step).floor() * step, (high / step).ceil() * step);
    LineChart {
        title: title.to_string(),
        x: (0.0, last),
        y: (from, to.max(from + step)),
        x_ticks: vec![0.0, (last / 2.0).round(), last.floor()],
        y_ticks: (0..=((to - from) / step).round() as u32).map(|i| from + f64::from(i) * step).collect(),
        mark: None,
        lines: vec![Line { name: title.to_string(), colour, dotted: false, points, tip: tip.join("\n") }],
    }
    .to_svg()
}

/// The panels as one image of `columns` columns, under a legend of (name, colour, dotted).
pub fn grid(
    panels: &[LineChart],
    columns: usize,
    legend: &[(String, usize, bool)],
    label: &str,
    x_axis: &str,
) -> String {
    let rows = panels.len().div_ceil(columns).max(1);
    let (width, top) = (columns as f64 * WIDTH, 30.0);
    let height = top + rows as f64 * HEIGHT + 18.0;
    let mut content = String::new();
    let step = width / legend.len().max(1) as f64;
    for (i, (name, colour, dotted)) in legend.iter().enumerate() {
        let at = i as f64 * step + LEFT;
        let class = if *dotted { " dotted" } else { "" };
        let _ = writeln!(
            content,
            "<path class=\"line s{colour}{class}\" d=\"M{} 15h26\"/><text class=\"axis\" x=\"{}\" y=\"18\">{}</text>",
            number(at),
            number(at + 32.0),
            escape(name)
        );
    }
    for (i, panel) in panels.iter().enumerate() {
        let (column, row) = (i % columns, i / columns);
        let (dx, dy) = (number(column as f64 * WIDTH), number(top + row as f64 * HEIGHT));
        let _ = write!(content, "<g transform=\"translate({dx} {dy})\">\n{}</g>\n", panel.content());
    }
    let _ = writeln!(
        content,
        "<text class=\"axis\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
        number(width / 2.0),
        number(height - 5.0),
        escape(x_axis)
    );
    document(width, height, label, &content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_the_first_sweeps_are_drawn_and_no_number_is_cut_off() {
        let chart = over_sweeps("t", 0, vec![(5.0, 9000.0), (50.0, 634.9), (100.0, 624.9), (200.0, 618.7)]);
        let points = chart.split("points=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a line");
        assert_eq!(points.split(' ').count(), 3, "{chart}");
        assert!(chart.contains("sweep 5: 9000.000"), "{chart}");
        assert!(chart.contains("text-anchor=\"end\">200<") && chart.contains("text-anchor=\"middle\">100<"), "{chart}");
        assert_eq!(over_sweeps("t", 0, vec![(50.0, 1.0)]), "");
    }
}
