//! Running a language-model job: collect the text, train, and write what was learned.

use timely::worker::Worker;

use super::hpylm::Hpylm;
use super::job::Plan;
use super::model::{Kept, LanguageModel};
use super::report::{self, Evaluated, Figures};
use super::text::collect;
use crate::cluster::operators::all_gather::AllGather;
use crate::cluster::operators::route::Route;
use crate::cluster::own::Own;
use crate::cluster::sweep::{End, Round, train};
use crate::corpus::diagnostic::{Diagnostic, Problem};
use crate::error::{Error, Result, exit};
use crate::job::model_file;
use crate::job::session::{Session, peak_memory_mib};
use crate::job::training::{Training, Watcher};
use crate::progress::Unit;

/// What worker 0 brings back.
struct Trained {
    /// None if it was stopped.
    kept: Option<Kept>,
    figures: Figures,
    problems: Vec<(u32, Problem)>,
}

/// Runs the job and returns the exit code.
pub fn run(plan: &Plan, session: &mut Session) -> Result<u8> {
    let job = plan.clone();
    let training = Training {
        schedule: &plan.schedule,
        fingerprint: plan.fingerprint(),
        layout: "lm 2",
        rest: String::new(),
        unit: Unit::Sweeps,
    };
    let (trained, seconds) = training.run(session, move |worker, watcher| program(worker, &job, watcher))?;
    let (Some(record), Some(trained)) = (&mut session.record, trained) else { return Ok(exit::DONE) };
    let Some(kept) = trained.kept else {
        record.stopped(seconds)?;
        say!("sawmill: stopped with a checkpoint; run the same command again to continue");
        return Ok(exit::RESUME);
    };
    let peak = peak_memory_mib();
    model_file::write(&record.folder, &kept)?;
    let model = LanguageModel::to_report(kept);
    for (name, content) in report::files(&session.title, plan, &model, &trained.figures, peak) {
        record.folder.write(&format!("report/{name}"), content.as_bytes())?;
    }
    record.done(seconds)?;
    for (file, problem) in &trained.problems {
        let path = plan.corpus.files[*file as usize].display().to_string();
        say!("{}", Diagnostic { path, problem: problem.clone() });
    }
    Ok(if trained.problems.is_empty() { exit::DONE } else { exit::SKIPPED })
}

/// What one worker does.
fn program(worker: &mut Worker, plan: &Plan, watcher: &Watcher) -> Result<Option<Trained>> {
    let is_leader = worker.index() == 0;
    let mut letters = Route::new(worker, "Tokens");
    let text = collect(worker, plan, &mut letters).map_err(Error::Input)?;
    watcher.has_read()?;
    if is_leader {
        say!(
            "sawmill: {} sentences of {} tokens to train on, {} of {} to test on ({} unknown); {} words in the vocabulary",
            text.training_sentences,
            text.training_tokens,
            text.test_sentences,
            text.test_tokens,
            text.test_unknown,
            text.vocabulary.len(),
        );
    }
    let mut figures = Figures::new(&text);
    let mut model = Hpylm::new(plan.settings(text.symbols.outcomes()), text.deal);
    for (shard, tokens) in text.tokens {
        model.add(shard, tokens, text.seated[&shard], true);
    }
    model.sort_tests();
    let mut contexts = AllGather::<[u64; 2]>::new(worker, "Contexts");
    let contexts = contexts.exchange(worker, vec![(worker.index() as u64, model.contexts())]);
    let [_, shared] = contexts[0].1;
    figures.set_contexts_of_max_order((contexts.iter().map(|(_, [own, _])| own).sum::<u64>() + shared) as usize);
    if is_leader && plan.samples() == 0 {
        say!(
            "sawmill: no sweep of {} is a posterior sample: the burn-in is {}, and samples come every {}; there will be no \
             averaged perplexity",
            plan.schedule.sweeps,
            plan.burn_in,
            plan.schedule.evaluate_every
        );
    }
    let (model, end) = train(worker, model, &plan.schedule, &watcher.control, |_, round| {
        watcher.at(round.sweep);
        let evaluated = Evaluated::new(round);
        tell(watcher, round, evaluated.as_ref());
        figures.add(round, evaluated);
    })?;
    let kept = match end {
        End::Done => {
            let (own, parameters) = model.into_learned();
            let (depths, has_visits) = (plan.order.longest(), plan.order.stop().is_some());
            let (own_shards, shards) = (Own::of(worker), plan.schedule.shards);
            let mut exchange = |messages| letters.exchange(worker, messages);
            own.merge(own_shards, shards, depths, has_visits, &mut exchange)
                .map(|counted| Kept::new(text.vocabulary, plan, parameters, counted))
        }
        End::Stopped => None,
    };
    Ok(is_leader.then_some(Trained { kept, figures, problems: text.problems }))
}

/// Writes a round into the metrics, and what is worth a line on stderr there.
fn tell(watcher: &Watcher, round: &Round, evaluated: Option<&Evaluated>) {
    if round.is_past {
        return;
    }
    let mut line = watcher.metrics(round);
    if let Some(evaluated) = evaluated {
        let (last, mean) = (evaluated.perplexity_last(), evaluated.perplexity());
        line["perplexity_last"] = last.into();
        line["perplexity"] = mean.into();
        line["samples"] = evaluated.samples.into();
        if let Some(last) = last {
            let samples = evaluated.samples;
            let over = mean.map_or(String::new(), |mean| format!(", {mean:.2} averaged over {samples} samples"));
            say!("sawmill: sweep {}: test perplexity {last:.2}{over}", round.sweep);
        }
    }
    watcher.tell(round, &line);
}
