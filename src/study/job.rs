//! The job file of a study.

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::variants::{Settings, VariantSettings, expand, leaves};
use crate::cluster::engine::Cluster;
use crate::error::{Error, Result};
use crate::job::file::{Document, set};
use crate::job::{self, Job};

/// The job file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct StudyJob {
    pub kind: String,
    pub out: String,
    /// The name of a job file, or the job itself.
    pub base: Value,
    /// What is different from the base in all variants.
    pub set: Table,
    /// By key: the values that it takes.
    pub grid: Table,
    pub variants: Vec<Value>,
    pub figure: FigureSettings,
}

/// What the figure of the study shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FigureSettings {
    /// A key of the grid; empty: the first.
    pub x: String,
    /// A figure of the variants' summaries.
    pub y: String,
}

impl Default for FigureSettings {
    fn default() -> FigureSettings {
        FigureSettings { x: String::new(), y: "perplexity".to_string() }
    }
}

impl Default for StudyJob {
    fn default() -> StudyJob {
        StudyJob {
            kind: "study".to_string(),
            out: String::new(),
            base: Value::String(String::new()),
            set: Table::new(),
            grid: Table::new(),
            variants: vec![],
            figure: FigureSettings::default(),
        }
    }
}

/// A job of the study, resolved.
#[derive(Clone, Debug)]
pub struct Variant {
    pub settings: Settings,
    pub job: Job,
    pub plan: job::Plan,
}

/// The study, resolved.
#[derive(Clone, Debug)]
pub struct Plan {
    pub variants: Vec<Variant>,
    pub figure: FigureSettings,
}

/// What every variant has of its own, and no study changes.
const FIXED: [&str; 2] = ["kind", "out"];

impl StudyJob {
    /// The same study with its base in it, every setting with its value, and with paths that do not depend on where files
    /// lie.
    pub fn with_whole_base(mut self, document: &Document) -> Result<StudyJob> {
        let base = match &self.base {
            Value::String(name) if name.is_empty() => {
                return Err(refuse(
                    document,
                    "there is no base; add base = \"JOB.toml\", or the job itself under [base]",
                ));
            }
            Value::String(name) => Document::load(&document.folder().join(name), &[])?,
            Value::Table(table) => document.inside(format!("{}: base", document.name()), table.clone()),
            _ => return Err(refuse(document, "base has to be the name of a job file, or a job")),
        };
        if base.kind() == Some("study") {
            return Err(refuse(document, "the base is itself a study; name a job of another kind"));
        }
        let whole = Job::read(&base)?.to_toml();
        self.base = Value::Table(whole.parse().expect("a job is written as TOML"));
        if !self.out.is_empty() {
            self.out = document.whole_path(&self.out);
        }
        Ok(self)
    }

    /// Makes the variants, checks the settings of each, and finds their inputs.
    pub fn plan(&self, document: &Document) -> Result<Plan> {
        let variants: Result<Vec<VariantSettings>> =
            self.variants.iter().map(|variant| document.read(variant, "variants")).collect();
        let all = expand(&variants?, &self.grid).map_err(|message| refuse(document, &message))?;
        let x = &self.figure.x;
        if !x.is_empty() && !all.iter().any(|settings| settings.point.iter().any(|(key, _)| key == x)) {
            return Err(refuse(document, &format!("figure.x = \"{x}\" is no key of the grid")));
        }
        let variants: Result<Vec<Variant>> = all.into_iter().map(|settings| self.variant(document, settings)).collect();
        Ok(Plan { variants: variants?, figure: self.figure.clone() })
    }

    fn variant(&self, document: &Document, settings: Settings) -> Result<Variant> {
        let name = format!("{}: variant {}", document.name(), settings.name);
        let mut table = self.base.as_table().cloned().unwrap_or_default();
        for (key, value) in leaves(&self.set).into_iter().chain(settings.set.iter().cloned()) {
            match FIXED.contains(&key.as_str()) {
                true if key == "kind" && value.as_str() == Some("study") => {
                    return Err(Error::Usage(format!("{name}: a variant cannot be a study itself")));
                }
                true => return Err(Error::Usage(format!("{name}: a variant cannot set {key}"))),
                false => set(&mut table, &key, value)
                    .map_err(|parent| Error::Usage(format!("{name}: {key}: {parent} is not a table")))?,
            }
        }
        let own = document.inside(name, table);
        let job = Job::read(&own)?;
        let plan = job.plan(&own)?;
        Ok(Variant { settings, job, plan })
    }
}

fn refuse(document: &Document, message: &str) -> Error {
    Error::Usage(format!("{}: {message}", document.name()))
}

impl Plan {
    /// The plan, for people: what is different in each variant, and the first of them.
    pub fn describe(&self, cluster: &Cluster) -> String {
        let mut text = format!("study of {} variants, one after the other:\n", self.variants.len());
        let width = self.variants.iter().map(|variant| variant.settings.name.len()).max().unwrap_or(0);
        for Variant { settings, .. } in &self.variants {
            let set: Vec<String> = settings.set.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            text += &format!("  {:width$}  {}\n", settings.name, set.join(", "));
        }
        if let Some(first) = self.variants.first() {
            text += &format!("the first: {}", first.plan.describe(cluster));
        }
        text
    }
}
