//! Points over two axes, in groups.

use std::fmt::Write;

use super::svg::{COLOURS, Scale, document, escape, label, number, round_ticks};

/// Points over two axes.
#[derive(Clone, Debug)]
pub struct Scatter {
    pub label: String,
    pub x_axis: String,
    pub y_axis: String,
    /// What a point is, its place, and its group: groups have colours, those behind the last colour the first again.
    pub points: Vec<(String, [f64; 2], usize)>,
}

const WIDTH: f64 = 660.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 42.0;

impl Scatter {
    /// The figure; nothing where there is nothing to show.
    pub fn to_svg(&self) -> String {
        if self.points.is_empty() {
            return String::new();
        }
        let axis = |at: usize| ticks(self.points.iter().map(|(_, place, _)| place[at]));
        let (x_ticks, y_ticks) = (axis(0), axis(1));
        let ends = |ticks: &[f64]| (ticks[0], ticks[ticks.len() - 1]);
        let x = Scale { from: ends(&x_ticks), to: (LEFT, WIDTH - RIGHT) };
        let y = Scale { from: ends(&y_ticks), to: (HEIGHT - BOTTOM, TOP) };
        let mut out = String::new();
        let (left, right, bottom) = (number(LEFT), number(WIDTH - RIGHT), number(HEIGHT - BOTTOM));
        for tick in &y_ticks {
            let at = y.at(*tick);
            let _ = write!(out, "<path class=\"grid\" d=\"M{left} {at}H{right}\"/>");
            let _ = writeln!(
                out,
                "<text class=\"tick\" x=\"{}\" y=\"{at}\" dy=\"3\" text-anchor=\"end\">{}</text>",
                number(LEFT - 6.0),
                label(*tick)
            );
        }
        for tick in &x_ticks {
            let at = x.at(*tick);
            let _ = write!(out, "<path class=\"grid\" d=\"M{at} {}V{bottom}\"/>", number(TOP));
            let _ = writeln!(
                out,
                "<text class=\"tick\" x=\"{at}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                number(HEIGHT - BOTTOM + 14.0),
                label(*tick)
            );
        }
        for (name, [px, py], group) in &self.points {
            let _ = writeln!(
                out,
                "<circle class=\"hollow s{}\" cx=\"{}\" cy=\"{}\" r=\"3.5\"><title>{}: {}, {}</title></circle>",
                group % COLOURS,
                x.at(*px),
                y.at(*py),
                escape(name),
                label(*px),
                label(*py)
            );
        }
        let _ = writeln!(
            out,
            "<text class=\"axis\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            number((LEFT + WIDTH - RIGHT) / 2.0),
            number(HEIGHT - 8.0),
            escape(&self.x_axis)
        );
        let _ = writeln!(out, "<text class=\"axis\" x=\"6\" y=\"13\">{}</text>", escape(&self.y_axis));
        document(WIDTH, HEIGHT, &self.label, &out)
    }
}

/// Round values around all of `values`, at least two.
fn ticks(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let finite = values.filter(|value| value.is_finite());
    let (low, high) = finite.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    if low > high {
        return vec![0.0, 1.0];
    }
    let step = round_ticks((high - low).max(high.abs() * 1e-3).max(1e-9), 6).get(1).copied().unwrap_or(1.0);
    let first = (low / step).floor();
    let last = (high / step).ceil().max(first + 1.0);
    (0..=(last - first) as u32).map(|i| (first + f64::from(i)) * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_lie_between_round_values() {
        assert_eq!(ticks([2.1, 7.9].into_iter()), [2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        assert_eq!(ticks([5.0].into_iter()).len(), 2);
        let point = |x, y| ("p".to_string(), [x, y], 0);
        let figure = Scatter {
            label: String::new(),
            x_axis: String::new(),
            y_axis: String::new(),
            points: vec![point(0.0, 0.0), point(10.0, 5.0)],
        };
        let svg = figure.to_svg();
        assert!(svg.contains("cx=\"52\" cy=\"338\"") && svg.contains("cx=\"640\" cy=\"26\""), "{svg}");
    }
}
