//! Running an oracle job: once, or kept alive.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use super::count::{Counter, Key};
use super::job::Plan;
use super::report;
use super::study::Study;
use super::watch::Remembered;
use crate::cluster::engine::Cluster;
use crate::cluster::scan::{Found, Progress, scan};
use crate::cluster::watch::watch;
use crate::corpus::diagnostic::{Diagnostic, Problem};
use crate::corpus::piece::Origin;
use crate::error::{Error, Result};
use crate::job::folder::RunFolder;

/// What a run leaves so that its report can be made again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    pub title: String,
    pub study: Study,
    problems: Vec<(String, Problem)>,
    contents: Vec<u64>,
}

/// Its file in the run folder.
pub const OUTCOME: &str = "study.json";

impl Outcome {
    fn new(title: &str, plan: &Plan, found: &Found<Key>) -> Outcome {
        let study = Study::new(&plan.treebanks, &plan.settings.systems, &found.counts);
        let problems = found.problems.iter().map(|d| (d.path.clone(), d.problem.clone())).collect();
        Outcome { title: title.to_string(), study, problems, contents: found.contents.clone() }
    }

    /// What is wrong with the inputs, as far as it was kept.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        self.problems
            .iter()
            .map(|(path, problem)| Diagnostic { path: path.clone(), problem: problem.clone() })
            .collect()
    }

    /// Content hashes of the inputs; nothing where the job was kept alive.
    pub fn contents(&self) -> &[u64] {
        &self.contents
    }

    /// The outcome in the run folder at `path`.
    pub fn load(path: &std::path::Path) -> Result<Outcome> {
        let file = path.join(OUTCOME);
        let text = std::fs::read(&file).map_err(|e| Error::input(&file, format!("{e}; has the run ended?")))?;
        serde_json::from_slice(&text).map_err(|e| Error::input(&file, e))
    }

    /// Writes the report and what it is made of.
    pub fn write(&self, folder: &RunFolder) -> Result<()> {
        let json = serde_json::to_vec(self).expect("an outcome is JSON");
        folder.write(OUTCOME, &json)?;
        for (name, content) in report::files(&self.title, &self.study, &self.diagnostics()) {
            folder.write(&format!("report/{name}"), content.as_bytes())?;
        }
        Ok(())
    }
}

/// Runs the job once. The leader gets the outcome.
pub fn once(plan: &Plan, title: &str, cluster: &Cluster, progress: &Arc<Progress>) -> Result<Option<Outcome>> {
    let (inputs, pieces) = (Arc::new(plan.inputs.clone()), Arc::new(plan.pieces.clone()));
    let (settings, seed, progress) = (plan.settings.clone(), plan.seed, progress.clone());
    let results = cluster.run(fingerprint(plan, cluster), move |worker| {
        let counter = Counter::new(settings.clone(), seed);
        scan(worker, &inputs, &pieces, counter, progress.clone())
    })?;
    Ok(results.into_iter().flatten().next().map(|found| Outcome::new(title, plan, &found)))
}

/// Keeps the job alive until `stop` is set, and shows `changed` each new outcome, on the leader.
pub fn keep_alive(
    plan: &Plan,
    title: &str,
    cluster: &Cluster,
    stop: &Arc<AtomicBool>,
    changed: impl FnMut(Outcome) + Send + 'static,
) -> Result<()> {
    let inputs = Arc::new(plan.inputs.clone());
    let (plan, title, stop) = (plan.clone(), title.to_string(), stop.clone());
    let changed = Mutex::new(changed); // worker 0 is the only one to call it
    let mark = fingerprint(&plan, cluster);
    cluster.run(mark, move |worker| {
        let counter = Counter::new(plan.settings.clone(), plan.seed);
        let memory = Remembered::new(inputs.clone(), counter);
        watch(worker, &inputs, memory, &stop, |found| {
            let mut changed = changed.lock().expect("nobody else holds it");
            changed(Outcome::new(&title, &plan, &found));
        });
    })?;
    Ok(())
}

/// What all processes of a job must agree on: the build, the settings, and the inputs but for where they lie.
fn fingerprint(plan: &Plan, cluster: &Cluster) -> [u8; 32] {
    let inputs: Vec<String> = plan
        .inputs
        .iter()
        .map(|input| match &input.origin {
            Origin::File { path, encoding, bytes, .. } => format!("{:?} {encoding:?} {bytes}", path.file_name()),
            Origin::Synthetic(language) => format!("{language:?}"),
        })
        .collect();
    let all = (env!("CARGO_PKG_VERSION"), cluster.threads, &cluster.hosts, plan.seed, &plan.settings);
    *blake3::hash(format!("{all:?} {:?} {:?} {inputs:?}", plan.treebanks, plan.pieces).as_bytes()).as_bytes()
}
