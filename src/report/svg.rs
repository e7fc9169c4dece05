//! What figures are made of.

/// Makes `text` safe between and inside tags.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            _ => out.push(c),
        }
    }
    out
}

/// Maps a range of values to a range of pixels.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub from: (f64, f64),
    pub to: (f64, f64),
}

impl Scale {
    /// The pixel of `value`, to a tenth, as text.
    pub fn at(&self, value: f64) -> String {
        let share = (value - self.from.0) / (self.from.1 - self.from.0);
        number(self.to.0 + share * (self.to.1 - self.to.0))
    }
}

/// A number with at most one decimal.
pub fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_string)
}

/// A value on an axis: with at most two decimals.
pub fn label(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// About `count` round values from 0 to `most`, and a little above it.
pub fn round_ticks(most: f64, count: usize) -> Vec<f64> {
    let rough = (most / count as f64).max(f64::MIN_POSITIVE);
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|s| s * power).find(|s| *s >= rough).unwrap_or(power);
    let last = (most / step).ceil() as u32;
    (0..=last).map(|i| f64::from(i) * step).collect()
}

/// An image of its own around `content`, with the colours of figures.
pub fn document(width: f64, height: f64, label: &str, content: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n<style>{}</style>\n\
         <rect width=\"100%\" height=\"100%\" class=\"paper\"/>\n{content}</svg>\n",
        number(width),
        number(height),
        escape(label),
        STYLE
    )
}

/// How many colours lines can have: classes `s0`, `s1`, ...
pub const COLOURS: usize = 7;

/// The look of figures, inside pages and on their own. Colours on light paper are those of Okabe & Ito
/// (2008), a little darker where they would be faint, and the third line is thicker, so that they are told apart without
/// colour vision.
pub const STYLE: &str = "\
:root{--paper:#fff;--ink:#1d2327;--faint:#667079;--grid:#e3e7ea;--c0:#d55e00;--c1:#0072b2;--c2:#009e73;--c3:#cc79a7;--c4:#b98a00;--c5:#56b4e9;--c6:#5b6770}\
@media (prefers-color-scheme:dark){:root{--paper:#14181b;--ink:#e8ecee;--faint:#9aa5ad;--grid:#2b3238;--c0:#ff8f3f;--c1:#56b4e9;--c2:#2fd3a3;--c3:#e8a0c6;--c4:#f0c846;--c5:#8f9bff;--c6:#b4bec6}}\
svg{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}\
.paper{fill:var(--paper)}.grid{stroke:var(--grid);stroke-width:1;fill:none}.mark{stroke:var(--faint);stroke-width:1;stroke-dasharray:1 3}\
.tick{fill:var(--faint);font-size:9px}.name{fill:var(--ink);font-size:12px;font-weight:600}.axis{fill:var(--faint);font-size:10px}\
.line{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}.dotted{stroke-dasharray:1.5 3.5}\
.s0{stroke:var(--c0)}.s1{stroke:var(--c1)}.s2{stroke:var(--c2)}.s3{stroke:var(--c3)}.s4{stroke:var(--c4)}.s5{stroke:var(--c5)}.s6{stroke:var(--c6)}.line.s2{stroke-width:2.4}\
.range{stroke:var(--grid);stroke-width:3;stroke-linecap:round}.hollow{fill:var(--paper);stroke-width:1.8}";
