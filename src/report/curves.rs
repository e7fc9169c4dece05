//! Named curves over common axes, each with its name at its end: what is compared in a study.

use std::fmt::Write;

use super::svg::{COLOURS, Scale, document, escape, label, number, round_ticks};

/// Curves over common axes.
#[derive(Clone, Debug)]
pub struct Curves {
    pub label: String,
    pub x_axis: String,
    pub y_axis: String,
    /// Where x is told, and how; empty: at round values.
    pub x_ticks: Vec<(f64, String)>,
    pub curves: Vec<Curve>,
}

#[derive(Clone, Debug)]
pub struct Curve {
    pub name: String,
    /// By x; a curve without an x of its own, such as a baseline, is one value at all of them.
    pub shape: Shape,
    /// Whether each point is marked.
    pub is_marked: bool,
}

#[derive(Clone, Debug)]
pub enum Shape {
    Points(Vec<(f64, f64)>),
    Level(f64),
}

impl Shape {
    fn values(&self) -> Vec<f64> {
        match self {
            Shape::Points(points) => points.iter().map(|point| point.1).collect(),
            Shape::Level(value) => vec![*value],
        }
    }

    fn places(&self) -> Vec<f64> {
        match self {
            Shape::Points(points) => points.iter().map(|point| point.0).collect(),
            Shape::Level(_) => vec![],
        }
    }
}

const WIDTH: f64 = 660.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 130.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 42.0;
/// Between names.
const LINE: f64 = 14.0;

impl Curves {
    /// The figure; nothing where there is nothing to show.
    pub fn to_svg(&self) -> String {
        let values: Vec<f64> = self.curves.iter().flat_map(|curve| curve.shape.values()).collect();
        let Some((low, high)) = range(&values) else { return String::new() };
        let step = round_ticks((high - low).max(high.abs() * 1e-3).max(1e-9), 5).get(1).copied().unwrap_or(1.0);
        let (from, to) = ((low / step).floor() * step, (high / step).ceil() * step);
        let to = if to > from { to } else { from + step };
        let y = Scale { from: (from, to), to: (HEIGHT - BOTTOM, TOP) };
        let places: Vec<f64> = self.curves.iter().flat_map(|curve| curve.shape.places()).collect();
        let x_range = match range(&places) {
            Some((first, last)) if first < last => (first, last),
            Some((only, _)) => (only - 1.0, only + 1.0),
            None => (0.0, 1.0),
        };
        let x = Scale { from: x_range, to: (LEFT + 8.0, WIDTH - RIGHT - 8.0) };
        let mut out = String::new();
        let ticks = (0..=((to - from) / step).round() as u32).map(|i| from + f64::from(i) * step);
        self.draw_axes(&x, &y, ticks.collect(), &mut out);
        for (i, curve) in self.curves.iter().enumerate() {
            draw(i, curve, &x, &y, &mut out);
        }
        self.draw_names(&y, &mut out);
        document(WIDTH, HEIGHT, &self.label, &out)
    }

    fn draw_axes(&self, x: &Scale, y: &Scale, y_ticks: Vec<f64>, out: &mut String) {
        let (left, right, bottom) = (number(LEFT), number(WIDTH - RIGHT), HEIGHT - BOTTOM);
        for tick in y_ticks {
            let at = y.at(tick);
            let _ = write!(out, "<path class=\"grid\" d=\"M{left} {at}H{right}\"/>");
            let _ = writeln!(
                out,
                "<text class=\"tick\" x=\"{}\" y=\"{at}\" dy=\"3\" text-anchor=\"end\">{}</text>",
                number(LEFT - 6.0),
                label(tick)
            );
        }
        let round = |tick: &f64| (x.from.0..=x.from.1).contains(tick);
        let x_ticks = match self.x_ticks.is_empty() {
            true => round_ticks(x.from.1, 6).into_iter().filter(round).map(|tick| (tick, label(tick))).collect(),
            false => self.x_ticks.clone(),
        };
        for (tick, name) in x_ticks {
            let _ = writeln!(
                out,
                "<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                x.at(tick),
                number(bottom + 14.0),
                escape(&name)
            );
        }
        let middle = number((LEFT + WIDTH - RIGHT) / 2.0);
        let _ = writeln!(
            out,
            "<text class=\"axis\" x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            number(HEIGHT - 8.0),
            escape(&self.x_axis)
        );
        let _ = writeln!(out, "<text class=\"axis\" x=\"6\" y=\"13\">{}</text>", escape(&self.y_axis));
    }

    /// Names at the ends of their curves, moved apart where they would lie over each other.
    fn draw_names(&self, y: &Scale, out: &mut String) {
        let end = |curve: &Curve| curve.shape.values().last().copied();
        let mut ends: Vec<(f64, usize)> = vec![];
        for (i, curve) in self.curves.iter().enumerate() {
            ends.extend(end(curve).and_then(|value| y.at(value).parse().ok()).map(|at: f64| (at, i)));
        }
        ends.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut next = TOP;
        for place in &mut ends {
            place.0 = place.0.max(next);
            next = place.0 + LINE;
        }
        let mut last = HEIGHT - BOTTOM + LINE / 2.0;
        for place in ends.iter_mut().rev() {
            place.0 = place.0.min(last);
            last = place.0 - LINE;
        }
        for (at, i) in ends {
            let from = number(WIDTH - RIGHT + 6.0);
            let _ = write!(out, "<path class=\"line {}\" d=\"M{from} {}h14\"/>", class(i), number(at));
            let _ = writeln!(
                out,
                "<text class=\"axis\" x=\"{}\" y=\"{}\" dy=\"3.5\">{}</text>",
                number(WIDTH - RIGHT + 24.0),
                number(at),
                escape(&self.curves[i].name)
            );
        }
    }
}

fn range(values: &[f64]) -> Option<(f64, f64)> {
    let finite = values.iter().copied().filter(|value| value.is_finite());
    let (low, high) = finite.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    (low <= high).then_some((low, high))
}

/// The colour of the i-th curve; past the last colour they come again, dotted.
fn class(i: usize) -> String {
    let dotted = if i / COLOURS % 2 == 1 { " dotted" } else { "" };
    format!("s{}{dotted}", i % COLOURS)
}

fn draw(i: usize, curve: &Curve, x: &Scale, y: &Scale, out: &mut String) {
    let name = escape(&curve.name);
    match &curve.shape {
        Shape::Level(value) => {
            let (at, left, right) = (y.at(*value), number(LEFT), number(WIDTH - RIGHT));
            let tip = format!("<title>{name}: {value:.4}</title>");
            let _ = writeln!(out, "<path class=\"line {}\" d=\"M{left} {at}H{right}\">{tip}</path>", class(i));
        }
        Shape::Points(points) => {
            let path: Vec<String> = points.iter().map(|(px, py)| format!("{},{}", x.at(*px), y.at(*py))).collect();
            let tip = format!("<title>{name}</title>");
            let _ =
                writeln!(out, "<polyline class=\"line {}\" points=\"{}\">{tip}</polyline>", class(i), path.join(" "));
            for (px, py) in points.iter().filter(|_| curve.is_marked) {
                let _ = writeln!(
                    out,
                    "<circle class=\"hollow {}\" cx=\"{}\" cy=\"{}\" r=\"3.5\"><title>{name}, {}: {py:.4}</title></circle>",
                    class(i),
                    x.at(*px),
                    y.at(*py),
                    label(*px)
                );
            }
        }
    }
}
