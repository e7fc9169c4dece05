//! Running a semisupervised job, stage by stage.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde_bytes::ByteBuf;
use timely::worker::Worker;

use super::gibbs::Gibbs;
use super::job::Plan;
use super::ngram::{self, Compared};
use super::parses::{Parsing, Trees, with_trees};
use super::report::{self, Figures, Prediction};
use super::text::{Sentences, Text, collect};
use crate::cluster::checkpoint::{decode, encode};
use crate::cluster::operators::all_gather::AllGather;
use crate::cluster::operators::route::Route;
use crate::cluster::sweep::{Control, End, Round, train};
use crate::corpus::diagnostic::Diagnostic;
use crate::corpus::shard::shards;
use crate::error::{Error, Result, exit};
use crate::job::manifest::InputRecord;
use crate::job::model_file;
use crate::job::session::{Session, peak_memory_mib};
use crate::job::training::{Training, Watcher};
use crate::lm::report::Evaluated;
use crate::parser::decode::{Decoder, Given};
use crate::parser::distribution::KeptHierarchy;
use crate::parser::evaluate::{Evaluation, Settings, evaluate, parse_all};
use crate::parser::interpolate::Halves;
use crate::parser::job::Tags;
use crate::parser::lexicon::Lexicon;
use crate::parser::model::{KIND, Kept, ParserModel};
use crate::parser::perplexity::Sum;
use crate::parser::run::{diagnostics, read_trees, supervise};
use crate::parser::treebank::{NonProjective, Treebank};

/// What worker 0 brings back.
struct Trained {
    end: End,
    /// The parser of the treebank alone, then that of each pass.
    kept: Vec<Kept>,
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
    schedule.sweeps = plan.all_sweeps();
    let training = Training { schedule: &schedule, fingerprint: plan.fingerprint(), rest: String::new() };
    let (trained, seconds) = training.run(session, move |worker, watcher| program(worker, &job, watcher))?;
    let (Some(record), Some(mut trained)) = (&mut session.record, trained) else { return Ok(exit::DONE) };
    if trained.end == End::Stopped {
        record.stopped(seconds)?;
        say!("sawmill: stopped with a checkpoint; go on with --resume");
        return Ok(exit::RESUME);
    }
    let threads = session.cluster.threads;
    let last = trained.kept.last().expect("a parser");
    record.folder.write("model", &model_file::to_bytes(KIND, last)?)?;
    let all = trained.kept.len();
    for (stage, kept) in trained.kept.into_iter().enumerate() {
        let model = ParserModel::new(kept).expect("what was learned holds together");
        let name = match stage as u64 {
            0 => "treebank".to_string(),
            pass if pass <= plan.raw.settings.passes => format!("pass {pass}"),
            _ => "particle Gibbs".to_string(),
        };
        let mut scores = vec![];
        for (set, files) in [("dev", &plan.parser.dev), ("test", &plan.parser.test)] {
            let evaluation = accuracy(plan, &model, files, threads)?;
            if let Some(evaluation) = evaluation {
                say!("sawmill: {name}: {set}: {}", crate::parser::report::in_words(&evaluation));
                scores.push((set, evaluation));
            }
        }
        // Before any pass, the words of raw text are not known: that perplexity would be another figure.
        let predicted = (stage > 0).then(|| predict(plan, &model, &trained.test, &trained.by_ngram, threads));
        let perplexities = predicted.as_ref().and_then(|of| of.sum.perplexity().zip(of.sum.perplexity_by_word()));
        if let Some((at_once, by_word)) = perplexities {
            say!("sawmill: {name}: perplexity of raw text {by_word:.2} word by word, at most {at_once:.2} at once");
        }
        if let Some((both, _)) = predicted.as_ref().and_then(|of| of.both) {
            say!("sawmill: {name}: with the n-gram model: {both:.2}");
        }
        trained.figures.add_stage(name, scores, predicted);
        if stage + 1 == all {
            trained.figures.set_size(&model);
        }
    }
    trained.figures.add_memory("prediction");
    for (name, content) in report::files(&session.title, plan, &trained.figures) {
        record.folder.write(&format!("report/{name}"), content.as_bytes())?;
    }
    record.done(seconds, Some(plan.files().map(|path| InputRecord::of_file(path)).collect()))?;
    trained.problems.iter().for_each(|problem| say!("{problem}"));
    Ok(if trained.problems.is_empty() { exit::DONE } else { exit::SKIPPED })
}

fn settings(plan: &Plan, threads: usize, particles: u32) -> Settings {
    Settings { search: plan.parser.model.search, particles, tags: Tags::Predict, threads }
}

/// How well trees are found; none where there are none to compare with.
fn accuracy(
    plan: &Plan,
    model: &ParserModel,
    files: &[std::path::PathBuf],
    threads: usize,
) -> Result<Option<Evaluation>> {
    let column = plan.parser.model.tag_column;
    let treebank = Treebank::read(files, plan.parser.encoding, column, NonProjective::Keep);
    let mut treebank = treebank.map_err(Error::Input)?;
    treebank.prepare(&plan.parser.preparation);
    let settings = settings(plan, threads, plan.parser.model.particles);
    Ok((!treebank.is_empty()).then(|| evaluate(model, &treebank, &settings)))
}

/// How well held-out text is predicted, with as many particles as the treebank's sentences are parsed with.
fn predict(
    plan: &Plan,
    model: &ParserModel,
    test: &BTreeMap<u32, Sentences>,
    by_ngram: &[f64],
    threads: usize,
) -> Prediction {
    let sentences: Vec<&[u32]> = test.values().flat_map(Sentences::iter).collect();
    let settings = settings(plan, threads, plan.parser.model.particles);
    let score = |decoder: &mut Decoder<'_>, number: usize| {
        let given: Vec<Given> = sentences[number].iter().map(|&form| Given { form, tag: None }).collect();
        let predicted = decoder.predict(&given);
        (Sum::of(&predicted, model, &given), predicted.words_ln)
    };
    let (mut sum, mut halves, mut rest) = (Sum::default(), Halves::default(), by_ngram);
    for (of_sentence, words_ln) in parse_all(model, &settings, sentences.len(), score) {
        sum.add(&of_sentence);
        if let Some((own, behind)) = rest.split_at_checked(words_ln.len()) {
            halves.push(words_ln.iter().zip(own).map(|(&ln, &q)| [libm::exp(ln), q]));
            rest = behind;
        }
    }
    Prediction { sum, both: halves.perplexity() }
}

/// The stages, one behind the other.
pub(super) struct Stages<'a> {
    pub(super) plan: &'a Plan,
    pub(super) watcher: &'a Watcher,
    pub(super) treebank: &'a Treebank,
    pub(super) figures: Figures,
    by_ngram: Vec<f64>,
    /// Sweeps of the stages before, for progress.
    pub(super) before: u64,
    is_single_rooted: bool,
    models: AllGather<ByteBuf>,
    /// For what only some need to know.
    pub(super) letters: Route,
    seconds: AllGather<f64>,
}

/// What one worker does.
fn program(worker: &mut Worker, plan: &Plan, watcher: &Watcher) -> Result<Option<Trained>> {
    let is_leader = worker.index() == 0;
    let treebank = read_trees(&plan.parser)?;
    let mut problems = diagnostics(&treebank);
    let lexicon = Lexicon::learn(&treebank, plan.parser.model.min_count).map_err(Error::Input)?;
    let mut text = collect(worker, plan, &treebank, &lexicon).map_err(Error::Input)?;
    problems.append(&mut text.problems);
    let figures = Figures::new(&treebank, &text);
    if is_leader {
        say!("sawmill: {}", figures.in_words());
    }
    let is_single_rooted = treebank.is_single_rooted();
    let models = AllGather::new(worker, "Models");
    let seconds = AllGather::<f64>::new(worker, "Seconds");
    let mut memory = AllGather::<f64>::new(worker, "Memory");
    let letters = Route::new(worker);
    let mut stages = Stages {
        plan,
        watcher,
        treebank: &treebank,
        figures,
        by_ngram: vec![],
        before: 0,
        is_single_rooted,
        models,
        letters,
        seconds,
    };
    stages.end_stage(worker, "text");
    let mut kept: Vec<Kept> = vec![];
    let mut end = stages.supervise(worker, &lexicon, &mut kept)?;
    for pass in 1..=plan.raw.settings.passes {
        if end == End::Done {
            end = stages.pass(worker, pass, &text, &mut kept)?;
        }
    }
    let (mut figures, by_ngram) = (stages.figures, stages.by_ngram);
    let most = figures.most_by_stage().max(peak_memory_mib());
    let all = memory.exchange(worker, vec![(worker.index() as u64, most)]);
    figures.memory = all.into_iter().map(|(_, most)| most).collect();
    figures.workers = worker.peers();
    Ok(is_leader.then_some(Trained { end, kept, test: text.test, by_ngram, figures, problems }))
}

impl Stages<'_> {
    /// Notes the most memory that the first process has had in a stage.
    pub(super) fn end_stage(&mut self, worker: &Worker, name: &str) {
        if worker.index() == 0 {
            self.figures.add_memory(name);
        }
    }

    fn control(&self, name: &str) -> Control {
        self.watcher.control.of_stage(name)
    }

    /// Tells of a round of a stage.
    pub(super) fn tell(watcher: &Watcher, before: u64, stage: &str, round: &Round) {
        watcher.at(before + round.sweep);
        if !round.is_past {
            let mut line = watcher.metrics(round);
            line["stage"] = stage.into();
            watcher.tell(round, &line);
        }
    }

    /// Trains on the treebank.
    fn supervise(&mut self, worker: &mut Worker, lexicon: &Lexicon, kept: &mut Vec<Kept>) -> Result<End> {
        let (watcher, plan, before) = (self.watcher, &self.plan.parser, self.before);
        let control = self.control("treebank");
        let tell = |round: &Round| Stages::tell(watcher, before, "treebank", round);
        let (end, hierarchies) = supervise(worker, plan, self.treebank, lexicon, &control, tell)?;
        self.before += plan.schedule.sweeps;
        self.end_stage(worker, "treebank");
        kept.extend(hierarchies.map(|all| Kept::new(plan, lexicon.clone(), self.is_single_rooted, all)));
        Ok(end)
    }

    /// Parses all raw text with the last parser, and learns from the trees; after the last pass, these are drawn.
    fn pass(&mut self, worker: &mut Worker, pass: u64, text: &Text, kept: &mut Vec<Kept>) -> Result<End> {
        let model = self.share(worker, kept.last())?;
        let (mut end, trees) = self.parse(worker, pass, text, &model)?;
        drop(model);
        // Before there is a large parser: the two are never in memory together.
        if end == End::Done && pass == 1 && self.plan.ngram.order > 0 {
            end = self.compare(worker, text)?;
        }
        if end == End::Done {
            let learned;
            (end, learned) = self.learn(worker, pass, text, &trees)?;
            self.keep(learned, text, kept);
        }
        let raw = &self.plan.raw.settings;
        if end == End::Done && pass == raw.passes && raw.gibbs_sweeps > 0 {
            let learned;
            (end, learned) = self.draw(worker, text, &trees, kept.last())?;
            self.keep(learned, text, kept);
        }
        Ok(end)
    }

    /// Makes a parser of what was learned, and of the last one where it did not learn.
    fn keep(&self, learned: Option<Vec<Arc<KeptHierarchy>>>, text: &Text, kept: &mut Vec<Kept>) {
        let (Some(learned), Some(last)) = (learned, kept.last()) else { return };
        let mut learned = learned.into_iter();
        let contexts = self.plan.parser.contexts.all.iter().zip(&last.hierarchies);
        let choose = |((part, _), old): (&(_, _), &Arc<KeptHierarchy>)| match self.plan.learns(*part) {
            true => learned.next().expect("one for each context"),
            false => old.clone(),
        };
        let all = contexts.map(choose).collect();
        kept.push(Kept::new(&self.plan.parser, text.lexicon.clone(), self.is_single_rooted, all));
    }

    /// The leader's parser, for everybody.
    fn share(&mut self, worker: &mut Worker, kept: Option<&Kept>) -> Result<ParserModel> {
        let mine = kept.map(encode).transpose().map_err(|e| Error::Usage(e.to_string()))?;
        let mine = mine.map(|bytes| (0, ByteBuf::from(bytes))).into_iter().collect();
        let (_, bytes) = self.models.exchange(worker, mine).remove(0);
        let kept: Kept = decode(&bytes).map_err(|e| Error::Usage(e.to_string()))?;
        Ok(ParserModel::new(kept).expect("what was learned holds together"))
    }

    fn parse(
        &mut self,
        worker: &mut Worker,
        pass: u64,
        text: &Text,
        model: &ParserModel,
    ) -> Result<(End, BTreeMap<u32, Trees>)> {
        let (watcher, before, raw) = (self.watcher, self.before, &self.plan.raw.settings);
        let stage = format!("parses-{pass}");
        let control = self.control(&stage);
        let parsing = Parsing {
            model,
            lexicon: &text.lexicon,
            particles: raw.particles,
            rounds: raw.rounds,
            text: &text.training,
            trees: BTreeMap::new(),
            seconds: 0.0,
        };
        let mut seconds = 0.0;
        let (parsing, end) = train(worker, parsing, &self.plan.parsing(), &control, |_, round| {
            Stages::tell(watcher, before, &stage, round);
            seconds += round.sweep_seconds;
        })?;
        self.before += raw.rounds;
        let processor = self.seconds.exchange(worker, vec![(worker.index() as u64, parsing.seconds)]);
        self.figures.add_parsing(seconds, processor.iter().map(|(_, seconds)| seconds).sum());
        self.end_stage(worker, &format!("parsing, pass {pass}"));
        Ok((end, parsing.trees))
    }

    /// Draws tags and trees of raw text by particle Gibbs, from `trees` on.
    fn draw(
        &mut self,
        worker: &mut Worker,
        text: &Text,
        trees: &BTreeMap<u32, Trees>,
        kept: Option<&Kept>,
    ) -> Result<(End, Option<Vec<Arc<KeptHierarchy>>>)> {
        let model = self.share(worker, kept)?;
        let (index, peers) = (worker.index(), worker.peers());
        let (watcher, before, plan) = (self.watcher, self.before, self.plan.drawing());
        let mut gibbs = Gibbs::model(&plan, &model, self.plan.raw.settings.particles);
        let runs = self.runs();
        for (shard, run) in (0..).zip(runs).filter(|(shard, _)| *shard as usize % peers == index) {
            let observed = run.map(|number| text.lexicon.sentence(self.treebank, number));
            let raw = text.training.get(&shard).zip(trees.get(&shard));
            gibbs.sentences.add_shard(
                shard,
                observed,
                raw.into_iter().flat_map(|(shelf, trees)| with_trees(shelf, trees)),
            );
        }
        let control = watcher.control.of_stage("gibbs");
        let figures = &mut self.figures;
        let (gibbs, end) = train(worker, gibbs, &plan.schedule, &control, |_, round| {
            Stages::tell(watcher, before, "gibbs", round);
            figures.add_drawing(round);
        })?;
        self.before += plan.schedule.sweeps;
        let learned = (index == 0).then(|| gibbs.hierarchies(&text.lexicon));
        drop(gibbs);
        self.end_stage(worker, "particle Gibbs");
        Ok((end, learned))
    }

    /// The sentences of the treebank that each shard has.
    pub(super) fn runs(&self) -> Vec<Range<usize>> {
        let lengths: Vec<u64> = self.treebank.sentences().map(|sentence| sentence.len() as u64).collect();
        shards(&lengths, self.plan.shards())
    }

    /// Trains the n-gram model.
    fn compare(&mut self, worker: &mut Worker, text: &Text) -> Result<End> {
        let (watcher, before) = (self.watcher, self.before);
        let control = self.control("ngram");
        let tell = |round: &Round| Stages::tell(watcher, before, "ngram", round);
        let (end, Compared { evaluated, predictions }) =
            ngram::compare(worker, self.plan, self.treebank, text, &control, tell)?;
        if let Some(perplexity) = evaluated.as_ref().and_then(Evaluated::perplexity) {
            say!("sawmill: {}-gram HPYLM: perplexity of raw text {perplexity:.2}", self.plan.ngram.order);
        }
        (self.figures.ngram, self.by_ngram) = (evaluated, predictions);
        self.before += self.plan.ngram_sweeps();
        self.end_stage(worker, "n-gram model");
        Ok(end)
    }
}
