//! Progress on stderr: a bar on a terminal, a timed line in a log, JSON lines for programs, or nothing; and the same
//! figures in `metrics.jsonl`.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Style {
    /// A bar on a terminal, lines elsewhere
    Auto,
    Bar,
    Lines,
    Json,
    None,
}

/// What progress is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Bytes,
    Sweeps,
    /// Anything else, of which only the share is told.
    Work,
}

/// How far a job has come: (done, of about so many).
pub type Gauge = Arc<dyn Fn() -> (u64, u64) + Send + Sync>;

/// Shows a gauge until it is finished or dropped.
pub struct Meter {
    end: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// How often a log gets a line, and the metrics file one.
const LINE_EVERY: Duration = Duration::from_secs(10);
const METRIC_EVERY: Duration = Duration::from_secs(1);

impl Meter {
    /// Shows `gauge`, and hands its figures to `record` every second.
    pub fn start(
        style: Style,
        unit: Unit,
        gauge: Gauge,
        record: impl Fn(&serde_json::Value) + Send + 'static,
    ) -> Meter {
        let style = match style {
            Style::Auto if std::io::stderr().is_terminal() => Style::Bar,
            Style::Auto => Style::Lines,
            chosen => chosen,
        };
        let (end, ended) = mpsc::channel();
        let thread = std::thread::spawn(move || show(style, unit, &gauge, record, &ended));
        Meter { end: Some(end), thread: Some(thread) }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it only shows things: nothing is lost with it
        }
    }
}

fn show(style: Style, unit: Unit, gauge: &Gauge, record: impl Fn(&serde_json::Value), ended: &mpsc::Receiver<()>) {
    let started = Instant::now();
    let bar = (style == Style::Bar).then(|| {
        let look = match unit {
            Unit::Bytes => "{wide_bar:.cyan} {percent:>3} %  {binary_bytes_per_sec}  ETA {eta}",
            Unit::Sweeps => "{wide_bar:.cyan} sweep {pos} of {len}  {per_sec}  ETA {eta}",
            Unit::Work => "{wide_bar:.cyan} {percent:>3} %  ETA {eta}",
        };
        let style = ProgressStyle::with_template(look).unwrap_or_else(|_| ProgressStyle::default_bar());
        ProgressBar::new(gauge().1).with_style(style)
    });
    let (mut next_line, mut next_metric) = (started + LINE_EVERY, started + METRIC_EVERY);
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(Duration::from_millis(100)) {
        let (done, all) = gauge();
        let now = Instant::now();
        if let Some(bar) = &bar {
            bar.set_length(all.max(done));
            bar.set_position(done);
        }
        if now >= next_metric {
            next_metric += METRIC_EVERY;
            let seconds = started.elapsed().as_secs_f64();
            let figures = json!({ "seconds": (seconds * 10.0).round() / 10.0, "bytes": done, "bytes_total": all });
            record(&figures);
            if style == Style::Json {
                say!("{figures}");
            }
        }
        if style == Style::Lines && now >= next_line {
            next_line += LINE_EVERY;
            say!("sawmill: {}", line(unit, done, all, started.elapsed()));
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}

fn line(unit: Unit, done: u64, all: u64, elapsed: Duration) -> String {
    if done == 0 {
        return format!("nothing done yet after {:.0} s", elapsed.as_secs_f64());
    }
    let share = done as f64 / all.max(1) as f64;
    let left = elapsed.as_secs_f64() * (1.0 / share.max(1e-9) - 1.0);
    let rate = done as f64 / elapsed.as_secs_f64().max(1e-9);
    let rate = match unit {
        Unit::Bytes => format!("{:.0} MiB/s, ", rate / (1 << 20) as f64),
        Unit::Sweeps => format!("sweep {done} of {all}, {rate:.2} per second, "),
        Unit::Work => String::new(),
    };
    format!(
        "{:.0} % after {:.0} s, {rate}about {:.0} s to go",
        100.0 * share.min(1.0),
        elapsed.as_secs_f64(),
        left.max(0.0)
    )
}
