//! What the variants of a study have left in their folders, read without knowing what kind of jobs they are.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::job::{FigureSettings, Plan};
use super::report;
use crate::error::{Error, Result};
use crate::job::folder::RunFolder;
use crate::job::manifest::{Manifest, State};

/// The variants of a study, as its run folder lists them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Listing {
    pub title: String,
    pub figure: FigureSettings,
    pub variants: Vec<Listed>,
}

/// One of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Listed {
    pub name: String,
    pub variant: String,
    /// By key of the grid.
    pub point: Vec<(String, Value)>,
    /// What is different from the base.
    pub set: Vec<(String, Value)>,
}

/// Its file in the run folder of a study.
const LISTING: &str = "variants.json";

impl Listing {
    pub fn new(title: &str, plan: &Plan) -> Listing {
        let json = |pairs: &[(String, toml::Value)]| -> Vec<(String, Value)> {
            let plain = |value: &toml::Value| serde_json::to_value(value).expect("TOML can be JSON");
            pairs.iter().map(|(key, value)| (key.clone(), plain(value))).collect()
        };
        let listed = plan.variants.iter().map(|variant| Listed {
            name: variant.settings.name.clone(),
            variant: variant.settings.variant.clone(),
            point: json(&variant.settings.point),
            set: json(&variant.settings.set),
        });
        Listing { title: title.to_string(), figure: plan.figure.clone(), variants: listed.collect() }
    }

    /// The listing in the run folder at `path`.
    pub fn load(path: &Path) -> Result<Listing> {
        let file = path.join(LISTING);
        let text = std::fs::read(&file).map_err(|e| Error::input(&file, e))?;
        serde_json::from_slice(&text).map_err(|e| Error::input(&file, e))
    }

    pub fn save(&self, folder: &RunFolder) -> Result<()> {
        folder.write(LISTING, &serde_json::to_vec_pretty(self).expect("a listing is JSON"))
    }

    /// How far each variant has come; none where it has not begun.
    pub fn states(&self, path: &Path) -> Vec<Option<State>> {
        self.variants.iter().map(|v| Manifest::load(&path.join(&v.name)).ok().map(|manifest| manifest.state)).collect()
    }

    /// Writes the report of what there is.
    pub fn report(&self, folder: &RunFolder) -> Result<()> {
        let found: Vec<Found> = self.variants.iter().map(|v| Found::load(&folder.path().join(&v.name))).collect();
        for (name, content) in report::files(self, &found) {
            folder.write(&format!("report/{name}"), content.as_bytes())?;
        }
        Ok(())
    }
}

/// What one variant came to.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub is_done: bool,
    /// The numbers of its summary, by name; and `seconds`, those of training where it was trained.
    pub figures: BTreeMap<String, Value>,
    /// Negative log-likelihood by seconds of training.
    pub descent: Vec<(f64, f64)>,
}

impl Found {
    fn load(path: &Path) -> Found {
        let Ok(manifest) = Manifest::load(path) else { return Found::default() };
        if manifest.state != State::Done {
            return Found::default();
        }
        let summary = std::fs::read(path.join("report/summary.json")).unwrap_or_default();
        let summary: BTreeMap<String, Value> = serde_json::from_slice(&summary).unwrap_or_default();
        let mut figures: BTreeMap<String, Value> = summary.into_iter().filter(|(_, value)| value.is_number()).collect();
        let rounds = rounds(&std::fs::read_to_string(path.join("metrics.jsonl")).unwrap_or_default());
        let seconds = rounds.last().map_or(manifest.seconds, |round| round.seconds);
        figures.entry("seconds".to_string()).or_insert(seconds.into());
        let descent = rounds.iter().filter_map(|round| Some((round.seconds, -round.log_likelihood?))).collect();
        Found { is_done: true, figures, descent }
    }

    pub fn figure(&self, name: &str) -> Option<f64> {
        self.figures.get(name).and_then(Value::as_f64)
    }
}

/// A round of training.
struct Round {
    /// Since the begin, of training alone: no evaluation, no checkpoints.
    seconds: f64,
    log_likelihood: Option<f64>,
}

/// The rounds that lead to the result, from the metrics of a run. Where it was interrupted, sweeps behind the checkpoint were
/// done twice: the second time counts.
fn rounds(metrics: &str) -> Vec<Round> {
    let mut by_place = BTreeMap::new();
    for line in metrics.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        // Sweeps are those of a stage, where a job has several: what has been done of all is then told as work.
        if let Some(place) = line["work"].as_u64().or(line["sweep"].as_u64()) {
            by_place.split_off(&place);
            by_place.insert(place, line);
        }
    }
    let mut seconds = 0.0;
    let round = |line: Value| {
        let parts = ["sweep_seconds", "sync_seconds", "learn_seconds"];
        seconds += parts.iter().filter_map(|name| line[name].as_f64()).sum::<f64>();
        Round { seconds, log_likelihood: line["log_likelihood"].as_f64() }
    };
    by_place.into_values().map(round).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_that_were_done_twice_count_once() {
        let line = |sweep: u64, seconds: f64, likelihood: Option<f64>| {
            let line = serde_json::json!({
                "sweep": sweep, "sweep_seconds": seconds, "sync_seconds": 0.5, "seconds": 99.0, "log_likelihood": likelihood,
            });
            format!("{line}\n")
        };
        let metrics = line(1, 1.0, None)
            + &line(2, 1.0, Some(-7.0))
            + &line(3, 9.0, Some(-6.0))
            + &line(2, 2.0, Some(-7.0))
            + "cut off";
        let found: Vec<(f64, Option<f64>)> =
            rounds(&metrics).iter().map(|round| (round.seconds, round.log_likelihood)).collect();
        assert_eq!(found, [(1.5, None), (4.0, Some(-7.0))]);
    }

    #[test]
    fn sweeps_of_all_stages_count() {
        let line = |sweep: u64, work: u64| format!("{{\"sweep\":{sweep},\"work\":{work},\"sweep_seconds\":1.0}}\n");
        let metrics = line(1, 1) + &line(2, 2) + &line(1, 40) + &line(2, 78) + &line(1, 40);
        assert_eq!(rounds(&metrics).last().map(|round| round.seconds), Some(3.0));
    }
}
