//! Running a semisupervised job, stage by stage.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use timely::worker::Worker;

use super::figures::Figures;
use super::gibbs::Gibbs;
use super::job::{Plan, RawSettings};
use super::ngram::Compared;
use super::parsers::Parsers;
use super::parses::{Parser, Parsing, Trees, with_trees};
use super::report;
use super::share::Desk;
use super::testing::Test;
use super::text::{Sentences, Text, collect};
use crate::cluster::operators::all_gather::AllGather;
use crate::cluster::operators::route::Route;
use crate::cluster::own::Own;
use crate::cluster::sweep::{Control, End, Round, train};
use crate::corpus::diagnostic::Diagnostic;
use crate::corpus::shard::shards;
use crate::error::{Error, Result, exit};
use crate::job::model_file;
use crate::job::session::{Session, most_memory_mib};
use crate::job::training::{Training, Watcher};
use crate::lm::report::Evaluated;
use crate::parser::distribution::KeptHierarchy;
use crate::parser::evaluate::Settings;
use crate::parser::job::{Search, Tags};
use crate::parser::lexicon::Lexicon;
use crate::parser::model::{Kept, ParserModel};
use crate::parser::run::{diagnostics, read_trees, sets, supervise};
use crate::parser::treebank::Treebank;
use crate::parser::tuning::{Tuned, tune};
use crate::progress::Unit;
use crate::report::page::thousands;

/// What worker 0 brings back.
struct Trained {
    end: End,
    /// That of the treebank alone, then that of each pass.
    parsers: Parsers,
    test: BTreeMap<u32, Sentences>,
    /// p of the tokens of `test` by the n-gram model.
    by_ngram: Vec<f64>,
    figures: Figures,
    problems: Vec<Diagnostic>,
}

/// Runs the job and returns the exit code.
pub fn run(plan: &Plan, session: &mut Session) -> Result<u8> {
    let job = plan.clone();
    let mut schedule = plan.parser.schedule.clone();
    schedule.sweeps = plan.work();
    let training = Training {
        schedule: &schedule,
        fingerprint: plan.fingerprint(),
        layout: "semisupervised 2",
        rest: String::new(),
        unit: Unit::Work,
    };
    let desk = Desk::new(session.cluster.threads);
    let (trained, seconds) = training.run(session, move |worker, watcher| program(worker, &job, watcher, &desk))?;
    let (Some(record), Some(trained)) = (&mut session.record, trained) else { return Ok(exit::DONE) };
    if trained.end == End::Stopped {
        record.stopped(seconds)?;
        say!("sawmill: stopped with a checkpoint; run the same command again to continue");
        return Ok(exit::RESUME);
    }
    let Trained { parsers, test: text, by_ngram, mut figures, mut problems, .. } = trained;
    let last = parsers.last().expect("a parser");
    model_file::write(&record.folder, last)?;
    let test = Test { sets: sets(&plan.parser, &session.inputs, &mut problems)?, text, by_ngram };
    test.all(plan, session.cluster.threads, parsers, &mut figures)?;
    for (name, content) in report::files(&session.title, plan, &figures) {
        record.folder.write(&format!("report/{name}"), content.as_bytes())?;
    }
    record.done(seconds)?;
    problems.iter().for_each(|problem| say!("{problem}"));
    if figures.left_out() > 0 {
        let left_out = thousands(figures.left_out());
        say!(
            "sawmill: {left_out} sentences and lines of what there was to learn from, and of raw text to test on, were left out"
        );
    }
    Ok(if problems.is_empty() { exit::DONE } else { exit::SKIPPED })
}

/// A stage, for progress: so many sweeps, and so much work, in all and before it.
pub(super) struct Stage {
    /// Of its checkpoints.
    pub(super) name: String,
    /// For people.
    pub(super) title: String,
    sweeps: u64,
    work: u64,
    before: u64,
    all: u64,
}

impl Stage {
    /// The work that is done where a share of the stage is.
    fn done(&self, share: f64) -> u64 {
        self.before + (share * self.work as f64) as u64
    }

    /// Tells of a round.
    pub(super) fn tell(&self, watcher: &Watcher, round: &Round) {
        let done = self.done(round.sweep as f64 / self.sweeps.max(1) as f64);
        watcher.at(done);
        if !round.is_past {
            let mut line = watcher.metrics(round);
            (line["stage"], line["stage_title"]) = (self.name.as_str().into(), self.title.as_str().into());
            line["stage_sweeps"] = self.sweeps.into();
            (line["work"], line["work_total"]) = (done.into(), self.all.into());
            if let Some(evaluated) = Evaluated::new(round) {
                line["perplexity"] = evaluated.perplexity().into();
                line["perplexity_last"] = evaluated.perplexity_last().into();
            }
            watcher.tell(round, &line);
        }
    }
}

/// The stages, one behind the other.
pub(super) struct Stages<'a> {
    pub(super) plan: &'a Plan,
    pub(super) watcher: &'a Watcher,
    /// Of all stages.
    pub(super) control: Control,
    pub(super) treebank: &'a Treebank,
    pub(super) figures: Figures,
    by_ngram: Vec<f64>,
    /// Work of the stages before, for progress.
    pub(super) before: u64,
    desk: &'a Desk,
    /// For what only some need to know.
    pub(super) letters: Route,
    parsed: AllGather<(u64, f64)>,
}

/// What one worker does.
fn program(worker: &mut Worker, plan: &Plan, watcher: &Watcher, desk: &Desk) -> Result<Option<Trained>> {
    let is_leader = worker.index() == 0;
    let treebank = read_trees(&plan.parser)?;
    let mut problems = diagnostics(&treebank);
    let lexicon = Lexicon::learn(&treebank, plan.parser.model.min_count).map_err(Error::Input)?;
    let mut text = collect(worker, plan, &treebank, &lexicon).map_err(Error::Input)?;
    watcher.has_read()?;
    let control = watcher.control.clone();
    problems.append(&mut text.problems);
    let figures = Figures::new(plan, &treebank, &text);
    if is_leader {
        say!("sawmill: {}", figures.in_words());
        say_what_is_missing(&plan.raw.settings, &text);
    }
    let parsed = AllGather::<(u64, f64)>::new(worker, "Parsed");
    let mut memory = AllGather::<(f64, u64)>::new(worker, "Memory");
    let letters = Route::new(worker, "Letters");
    let mut stages = Stages {
        plan,
        watcher,
        control,
        treebank: &treebank,
        figures,
        by_ngram: vec![],
        before: 0,
        desk,
        letters,
        parsed,
    };
    stages.end_stage(worker, "text");
    let mut parsers = Parsers::default();
    let mut end = stages.supervise(worker, &lexicon, &mut parsers)?;
    for pass in 1..=plan.raw.settings.passes {
        if end == End::Done {
            end = stages.pass(worker, pass, &text, &mut parsers)?;
        }
    }
    let (mut figures, by_ngram) = (stages.figures, stages.by_ngram);
    let own = (most_memory_mib(), stages.letters.take_sent_bytes());
    let all = memory.exchange(worker, vec![(worker.index() as u64, own)]);
    figures.memory = all.iter().map(|(_, (most, _))| *most).collect();
    figures.dealt_bytes = all.iter().map(|(_, (_, sent))| sent).sum();
    figures.workers = worker.peers();
    Ok(is_leader.then_some(Trained { end, parsers, test: text.test, by_ngram, figures, problems }))
}

/// Says what cannot be done for want of documents.
fn say_what_is_missing(raw: &RawSettings, text: &Text) {
    let documents = text.documents;
    if text.test.is_empty() {
        let why = match raw.hold_out {
            0 => String::new(),
            every => format!(" (raw.hold_out is {every}, and there are {documents} documents)"),
        };
        say!("sawmill: there is no raw text to test on{why}, so no perplexity, and no n-gram model to compare with");
    }
    if raw.tune > 0 && text.tuning.is_empty() {
        say!(
            "sawmill: raw.tune is {}, and there are {documents} documents: none is set aside, so all contexts weigh the same",
            raw.tune
        );
    }
}

impl Stages<'_> {
    /// Notes the most memory that the first process has had in a stage.
    pub(super) fn end_stage(&mut self, worker: &Worker, name: &str) {
        if worker.index() == 0 {
            self.figures.add_memory(name);
        }
    }

    /// A stage that begins.
    pub(super) fn stage(&self, name: &str, title: &str, sweeps: u64, work: u64) -> Stage {
        let (name, title) = (name.to_string(), title.to_string());
        Stage { name, title, sweeps, work, before: self.before, all: self.plan.work() }
    }

    /// Trains on the treebank.
    fn supervise(&mut self, worker: &mut Worker, lexicon: &Lexicon, parsers: &mut Parsers) -> Result<End> {
        let (watcher, plan) = (self.watcher, &self.plan.parser);
        let stage = self.stage("treebank", "treebank", plan.schedule.sweeps, plan.schedule.sweeps);
        let control = self.control.of_stage(&stage.name);
        let tell = |round: &Round| stage.tell(watcher, round);
        let (end, hierarchies) = supervise(worker, plan, self.treebank, lexicon, &control, tell)?;
        self.before += plan.schedule.sweeps;
        self.end_stage(worker, &stage.title);
        if let Some(all) = hierarchies {
            parsers.push(Kept::new(plan, lexicon.clone(), self.treebank.is_single_rooted(), all))?;
        }
        Ok(end)
    }

    /// Parses all raw text with the last parser, and learns from the trees; after the last pass, these are drawn.
    fn pass(&mut self, worker: &mut Worker, pass: u64, text: &Text, parsers: &mut Parsers) -> Result<End> {
        let model = self.desk.share(worker, &mut self.letters, parsers.last())?;
        let (mut end, trees) = self.parse(worker, pass, text, &model)?;
        drop(model);
        // Before there is a large parser: the two are never in memory together.
        if end == End::Done && pass == 1 && self.plan.ngram.order > 0 && !text.test.is_empty() {
            end = self.compare(worker, text)?;
        }
        if end == End::Done {
            let learned;
            (end, learned) = self.learn(worker, pass, text, &trees)?;
            self.keep(worker, learned, text, parsers)?;
        }
        let raw = &self.plan.raw.settings;
        if end == End::Done && pass == raw.passes && raw.gibbs_sweeps > 0 {
            let learned;
            (end, learned) = self.draw(worker, text, trees, parsers.last())?;
            self.keep(worker, learned, text, parsers)?;
        }
        Ok(end)
    }

    /// Adds the parser of a stage, where this worker has what was learned.
    fn keep(
        &mut self,
        worker: &Worker,
        learned: Option<Vec<Arc<KeptHierarchy>>>,
        text: &Text,
        parsers: &mut Parsers,
    ) -> Result<()> {
        let Some(learned) = learned else { return Ok(()) };
        let mut kept = parsers.learned(&self.plan.parser, &text.lexicon, learned, |part| self.plan.learns(part));
        if !text.tuning.is_empty() {
            kept = self.tune(kept, text);
            self.end_stage(worker, "weights of contexts");
        }
        parsers.push(kept)
    }

    /// Learns what the contexts of a parser weigh.
    fn tune(&mut self, kept: Kept, text: &Text) -> Kept {
        let settings = Settings {
            search: Search::Particles,
            particles: self.plan.raw.settings.particles,
            tags: Tags::Predict,
            threads: self.desk.threads(),
        };
        let sentences: Vec<&[u32]> = text.tuning.values().flat_map(Sentences::iter).collect();
        let model = ParserModel::new(kept).expect("what was learned holds together");
        let Tuned { mixtures, means } = tune(&model, &settings, &sentences, |part| self.plan.tunes(part));
        self.figures.weights = means;
        Kept { mixtures, ..model.kept }
    }

    fn parse(
        &mut self,
        worker: &mut Worker,
        pass: u64,
        text: &Text,
        model: &ParserModel,
    ) -> Result<(End, BTreeMap<u32, Trees>)> {
        let (watcher, raw, is_first) = (self.watcher, &self.plan.raw.settings, worker.index() == 0);
        let (name, title) = (format!("parses-{pass}"), format!("parsing, pass {pass}"));
        let stage = self.stage(&name, &title, raw.rounds, self.plan.work_of_parsing());
        let control = self.control.of_stage(&stage.name);
        // Rounds are long: the first worker tells how far it has come on its way.
        let all: u64 = text.training.values().map(|shelf| shelf.words()).sum();
        let own = Cell::new(0);
        let tell = |words: u64| {
            own.set(own.get() + words);
            if is_first {
                watcher.at(stage.done((own.get() as f64 / all.max(1) as f64).min(1.0)));
            }
        };
        let parser = Parser::new(model, &text.lexicon, raw.particles, &tell);
        let parsing = Parsing::new(parser, raw.rounds, &text.training, self.desk.pool());
        let mut seconds = 0.0;
        let (parsing, end) = train(worker, parsing, &self.plan.parsing(), &control, |_, round| {
            stage.tell(watcher, round);
            seconds += round.sweep_seconds;
            own.set((round.sweep as f64 / raw.rounds as f64 * all as f64) as u64);
        })?;
        self.before += self.plan.work_of_parsing();
        let all = self.parsed.exchange(worker, vec![(worker.index() as u64, parsing.parsed())]);
        let (parsed, processor) = all.iter().fold((0, 0.0), |sum, (_, (n, seconds))| (sum.0 + n, sum.1 + seconds));
        self.figures.add_parsing(parsed, seconds, processor);
        self.end_stage(worker, &title);
        Ok((end, parsing.trees))
    }

    /// Draws tags and trees of raw text by particle Gibbs, from `trees` on.
    fn draw(
        &mut self,
        worker: &mut Worker,
        text: &Text,
        trees: BTreeMap<u32, Trees>,
        kept: Option<&Kept>,
    ) -> Result<(End, Option<Vec<Arc<KeptHierarchy>>>)> {
        let model = self.desk.share(worker, &mut self.letters, kept)?;
        let (watcher, plan) = (self.watcher, self.plan.drawing());
        let work = plan.schedule.sweeps * self.plan.work_of_drawing();
        let stage = self.stage("gibbs", "particle Gibbs", plan.schedule.sweeps, work);
        // Sweeps are long: the first worker tells how far it has come on its way.
        let (is_first, swept, drawn, own) = (worker.index() == 0, Cell::new(0), Cell::new(0), Cell::new(0));
        let tell = || {
            drawn.set(drawn.get() + 1);
            if is_first {
                let sweeps = swept.get() as f64 + f64::from(drawn.get()) / own.get() as f64;
                watcher.at(stage.done(sweeps / plan.schedule.sweeps as f64));
            }
        };
        let mut gibbs = Gibbs::model(&plan, &model, self.plan.raw.settings.particles, &tell);
        let runs = self.runs();
        for shard in Own::of(worker).below(self.plan.shards()) {
            let observed = runs[shard as usize].clone().map(|number| text.lexicon.sentence(self.treebank, number));
            let raw = text.training.get(&shard).zip(trees.get(&shard));
            gibbs.sentences.add_shard(
                shard,
                observed,
                raw.into_iter().flat_map(|(shelf, trees)| with_trees(shelf, trees)),
            );
        }
        drop(trees); // derivations have taken their place
        own.set(gibbs.sentences.raw_sentences());
        let control = self.control.of_stage(&stage.name);
        let figures = &mut self.figures;
        let (gibbs, end) = train(worker, gibbs, &plan.schedule, &control, |_, round| {
            swept.set(round.sweep);
            drawn.set(0);
            stage.tell(watcher, round);
            figures.add_drawing(round);
        })?;
        self.before += work;
        let learned = (worker.index() == 0).then(|| gibbs.hierarchies(&text.lexicon));
        drop(gibbs);
        self.end_stage(worker, &stage.title);
        Ok((end, learned))
    }

    /// The sentences of the treebank that each shard has.
    pub(super) fn runs(&self) -> Vec<Range<usize>> {
        let lengths: Vec<u64> = self.treebank.sentences().map(|sentence| sentence.len() as u64).collect();
        shards(&lengths, self.plan.shards())
    }

    /// Trains the n-gram model.
    fn compare(&mut self, worker: &mut Worker, text: &Text) -> Result<End> {
        let (watcher, sweeps) = (self.watcher, self.plan.ngram_sweeps());
        let stage = self.stage("ngram", "n-gram model", sweeps, sweeps);
        let control = self.control.of_stage(&stage.name);
        let mut rounds = vec![];
        let tell = |round: &Round| {
            stage.tell(watcher, round);
            rounds.push(round.clone());
        };
        let (end, Compared { evaluated, predictions }) = self.compare_with_ngrams(worker, text, &control, tell)?;
        rounds.iter().for_each(|round| self.figures.add_comparing(round));
        let perplexity = evaluated.last().and_then(Evaluated::perplexity).filter(|_| end == End::Done);
        if let Some(perplexity) = perplexity {
            say!("sawmill: {}-gram HPYLM: perplexity of raw text {perplexity:.2}", self.plan.ngram.order);
        }
        (self.figures.ngram, self.by_ngram) = (evaluated, predictions);
        self.before += sweeps;
        self.end_stage(worker, &stage.title);
        Ok(end)
    }
}
