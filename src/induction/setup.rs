//! What all chains of a job have in common: shapes, sentences, and how they are estimated. The same on every worker.

use std::path::PathBuf;

use super::chain::Chain;
use super::corpus::{AllNames, Corpus};
use super::evaluate::Test;
use super::forest::Forest;
use super::job::{EstimationSettings, ModelType, Plan};
use super::lexicon::Lexicon;
use super::pass::{Setting, harmonic};
use super::queue::Phase;
use super::sentences::Sentences;
use super::shape::Shape;
use crate::corpus::diagnostic::Diagnostic;
use crate::error::{Error, Result};

/// The least cost of a piece of a shard, for each use of a grammar: what it takes to add up all uses once more is then small
/// beside what the piece takes. One word cubed costs about as much as adding one use.
const LEAST_PIECE: u64 = 8;

pub struct Setup {
    pub seed: u64,
    pub model: ModelType,
    pub estimation: EstimationSettings,
    pub lexicon: Lexicon,
    /// The shape of restarts, and that of winners: L-EVG begins as EVG (section 5).
    pub young: Shape,
    pub old: Shape,
    pub forest: Forest,
    /// Sentences by shard, in pieces, as symbols of either shape.
    young_sentences: Vec<Vec<Sentences>>,
    old_sentences: Vec<Vec<Sentences>>,
    pub heldout: Vec<Sentences>,
}

/// What was read, for the report.
#[derive(Clone, Debug, Default)]
pub struct Read {
    pub sentences: usize,
    pub words: usize,
    pub distinct: usize,
    pub too_long: u64,
    pub skipped: u64,
    /// Function words to train on, and sentences that have no others, so that some of these have dependents.
    pub function_words: usize,
    pub function_sentences: usize,
    /// Held-out sentences, and those of them that have a tag that was never seen.
    pub heldout: usize,
    pub heldout_unseen: usize,
    pub test: Test,
    pub problems: Vec<Diagnostic>,
}

impl Setup {
    /// Reads the files of a job.
    pub fn read(plan: &Plan) -> Result<(Setup, Read)> {
        let mut names = AllNames::default();
        let mut corpus = |files: &[PathBuf], has_heads| Corpus::read(files, &plan.corpus, has_heads, &mut names);
        let train = corpus(&plan.train, false)?;
        let heldout = corpus(&plan.heldout, false)?;
        let test = corpus(&plan.test, true)?;
        check(plan, &train)?;
        let is_lexicalised = plan.model.model == ModelType::Levg;
        let lexicon = Lexicon::learn(&train, &names, is_lexicalised.then_some(plan.model.lexicalise_from));
        let (model, smoothing, tags) = (plan.model.model, plan.model.smoothing, lexicon.tags.len());
        let young_model = if is_lexicalised { ModelType::Evg } else { model };
        let young = Shape::new(young_model, smoothing, tags, &[]);
        let old = Shape::new(model, smoothing, tags, &lexicon.tags_of_words());
        let shards = plan.schedule.shards as usize;
        let deal = |symbols: &[Vec<u32>], weight: f64, shape: &Shape| {
            Sentences::shards(symbols, weight, tags, &shape.tag_of, shards)
        };
        let deal_in_pieces = |symbols: &[Vec<u32>], shape: &Shape| -> Vec<Vec<Sentences>> {
            let all = deal(symbols, plan.estimation.weight, shape);
            all.iter().map(|sentences| sentences.cut(&shape.tag_of, LEAST_PIECE * shape.uses() as u64)).collect()
        };
        let forest = plan.model.forest(&lexicon.tags);
        let old_symbols = lexicon.symbols(&train, &names, is_lexicalised);
        let tags_of =
            |symbols: &[u32]| symbols.iter().map(|&s| old.tag_of[s as usize] as usize).collect::<Vec<usize>>();
        let tagged = || old_symbols.iter().map(|symbols| tags_of(symbols));
        let mut heldout_symbols = lexicon.symbols(&heldout, &names, is_lexicalised);
        let unseen = lexicon.unseen(is_lexicalised);
        heldout_symbols.retain(|symbols| !symbols.contains(&unseen));
        let old_sentences = deal_in_pieces(&old_symbols, &old);
        let young_sentences = match is_lexicalised {
            true => deal_in_pieces(&lexicon.symbols(&train, &names, false), &young),
            false => vec![],
        };
        let test_symbols = lexicon.symbols(&test, &names, is_lexicalised);
        let mut problems = train.problems.clone();
        let new = heldout.problems.iter().chain(&test.problems).filter(|problem| !train.problems.contains(problem));
        problems.extend(new.cloned());
        let read = Read {
            sentences: train.sentences.len(),
            words: train.words(),
            distinct: old_sentences.iter().flatten().map(Sentences::len).sum(),
            too_long: train.too_long,
            skipped: train.skipped,
            function_words: tagged().flatten().filter(|&tag| forest.is_function(tag)).count(),
            function_sentences: tagged().filter(|tags| forest.is_free(tags)).count(),
            heldout: heldout.sentences.len(),
            heldout_unseen: heldout.sentences.len() - heldout_symbols.len(),
            test: Test::new(test_symbols, &test, unseen),
            problems,
        };
        let setup = Setup {
            seed: plan.seed,
            model,
            estimation: plan.estimation,
            heldout: if heldout_symbols.is_empty() { vec![] } else { deal(&heldout_symbols, 1.0, &old) },
            lexicon,
            young,
            old,
            forest,
            young_sentences,
            old_sentences,
        };
        Ok((setup, read))
    }

    /// The sentences to train on, by shard and piece, as symbols of the phase's shape.
    pub fn sentences(&self, phase: Phase) -> &[Vec<Sentences>] {
        match phase {
            Phase::Young if !self.young_sentences.is_empty() => &self.young_sentences,
            _ => &self.old_sentences,
        }
    }

    /// The one start of the harmonic initialiser.
    pub fn harmonic_chain(&self) -> Chain {
        let setting = Setting { shape: &self.young, forest: &self.forest };
        let mut uses = vec![0.0; self.young.uses()];
        for sentences in self.sentences(Phase::Young).iter().flatten() {
            uses.iter_mut().zip(harmonic(setting, sentences)).for_each(|(sum, value)| *sum += value);
        }
        Chain::from_uses(&self.young, self.estimation.method, &uses)
    }
}

/// Refuses what nothing can be learned from.
fn check(plan: &Plan, train: &Corpus) -> Result<()> {
    let reason = train.problems.first().map_or(String::new(), |problem| format!("\n{problem}"));
    if train.sentences.is_empty() {
        let longer = match train.too_long {
            0 => String::new(),
            n => format!("; {n} have more than {} words (corpus.max_length)", plan.corpus.max_length),
        };
        return Err(Error::Input(format!("there is no tagged sentence to train on{longer}{reason}")));
    }
    if train.sentences.iter().all(|sentence| sentence.len() < 2) {
        let count = train.sentences.len();
        return Err(Error::Input(format!(
            "none of the {count} sentences to train on has two words or more: there is nothing to attach{reason}"
        )));
    }
    Ok(())
}
