//! An adaptor grammar as a model of the sweep driver.
//!
//! A sweep over a shard draws the parse of each of its strings, and the tree of each table whose number is the shard's,
//! against the adaptors as they stood at the last synchronisation and its own changes. A synchronisation, at the end of the
//! sweep or several times in it, brings the changes of all shards together ([`super::ledger`]). After the last one of a round a
//! and b are drawn.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::cache::Cache;
use super::corpus::Corpus;
use super::derivation::{Packed, Step, read};
use super::grammar::{Grammar, NONE, Symbol};
use super::hyper::{self, Sizes};
use super::job::{Plan, Start};
use super::ledger::{Delta, Ledger, renumber, words_of};
use super::sampler::{Outcome, Sampler, Target, Task};
use super::score::{Counts, Segmented, common};
use crate::cluster::codec::{decode, encode};
use crate::cluster::rng::{Generator, Purpose, generator};
use crate::cluster::sweep::{Model, Post};
use crate::corpus::shard::shards;
use crate::math::gamma_ln;

/// The parses of a shard's strings, and what is known of how they came about.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Shard {
    /// Empty where the grammar does not derive the string.
    pub parses: Vec<Vec<Packed>>,
    accepted: u64,
    proposed: u64,
    /// By string: segmentations of samples, and how often each was seen.
    seen: Vec<Vec<(Vec<u32>, u32)>>,
}

pub struct Trainer {
    plan: Plan,
    corpus: Corpus,
    /// The strings of every shard.
    runs: Vec<Range<usize>>,
    shards: BTreeMap<u32, Shard>,
    ledger: Ledger,
    /// The adaptors of the ledger.
    base: Cache,
    samples: Vec<Ledger>,
    pending: Vec<(u32, Delta)>,
    sampler: Sampler,
    /// By nonterminal: the view of trees of its tables.
    views: Vec<u32>,
}

/// Figures of an evaluation: accepted, proposed; tokens and boundaries; the same of the segmentation seen most.
const FIGURES: usize = 2 + 6 + 6;

/// Figures of a snapshot before those of adaptors.
const SNAPSHOT: usize = 6;

/// What an evaluation found.
#[derive(Clone, Debug, Default)]
pub struct Evaluated {
    pub sweep: u64,
    pub acceptance_rate: f64,
    pub scores: Segmented,
    /// Of the segmentation of each string that was seen most in the samples so far.
    pub marginal: Segmented,
    pub log_posterior: f64,
    pub tables: f64,
    pub customers: f64,
    pub types: Counts,
}

impl Evaluated {
    pub fn from_figures(sweep: u64, figures: &[f64], snapshot: &[f64]) -> Option<Evaluated> {
        if figures.len() < FIGURES || snapshot.len() < SNAPSHOT {
            return None;
        }
        let segmented = |at: usize| Segmented {
            tokens: Counts::from_figures(&figures[at..]),
            boundaries: Counts::from_figures(&figures[at + 3..]),
        };
        Some(Evaluated {
            sweep,
            acceptance_rate: figures[0] / figures[1].max(1.0),
            scores: segmented(2),
            marginal: segmented(8),
            log_posterior: snapshot[0],
            tables: snapshot[1],
            customers: snapshot[2],
            types: Counts::from_figures(&snapshot[3..]),
        })
    }
}

impl Trainer {
    pub fn new(plan: &Plan, mut corpus: Corpus) -> Trainer {
        let lengths: Vec<u64> = corpus.strings.iter().map(|string| string.len() as u64).collect();
        let Corpus { grammar, views, .. } = &mut corpus;
        let roots = (0..grammar.nonterminals).map(|symbol| match grammar.is_adapted(symbol) {
            true => views.of_root(grammar, symbol),
            false => NONE,
        });
        let roots = roots.collect();
        let ledger = Ledger::new(&corpus.grammar);
        Trainer {
            plan: plan.clone(),
            runs: shards(&lengths, plan.schedule.shards),
            shards: BTreeMap::new(),
            base: ledger.cache(&corpus.grammar),
            ledger,
            samples: vec![],
            pending: vec![],
            sampler: Sampler::default(),
            views: roots,
            corpus,
        }
    }

    pub fn corpus(&self) -> &Corpus {
        &self.corpus
    }

    pub fn base(&self) -> &Cache {
        &self.base
    }

    /// What was learned: the samples, the last one last.
    pub fn into_samples(mut self) -> (Corpus, Vec<Ledger>) {
        // Not before the end: the checkpoint must be that of a longer chain.
        if !self.plan.is_sample(self.plan.schedule.sweeps) {
            self.samples.push(self.ledger);
        }
        (self.corpus, self.samples)
    }

    /// The first strings of the first shard, with their parses.
    pub fn first_parses(&self) -> impl Iterator<Item = &Vec<Packed>> {
        self.shards.get(&0).into_iter().flat_map(|shard| &shard.parses)
    }

    /// Draws the parses of a part of a shard's strings anew, and after the last of them the trees of its tables.
    fn sweep(&mut self, number: u32, shard: &mut Shard, cache: &mut Cache, sweep: u64, part: u32) {
        let parts = self.phases(false);
        let key = sweep * u64::from(parts) + u64::from(part);
        let mut rng = generator(self.plan.seed, Purpose::Sweep, u64::from(number), key);
        let power = self.plan.power(sweep);
        let Trainer { corpus, sampler, .. } = self;
        let run = self.runs[number as usize].clone();
        let cut = |part: u32| run.len() * part as usize / parts as usize;
        for place in cut(part)..cut(part + 1) {
            let (parse, string) = (&mut shard.parses[place], run.start + place);
            if parse.is_empty() {
                continue;
            }
            let outcome = sampler.redraw(&task_of(corpus, string, power), cache, parse, &mut rng);
            shard.proposed += 1;
            shard.accepted += u64::from(matches!(outcome, Outcome::Same | Outcome::Accepted));
        }
        if self.plan.sampler.tables && part + 1 == parts {
            self.relabel(number, cache, power, &mut rng);
        }
    }

    /// Draws the trees of a shard's tables anew: those that it has opened, and every so many-th of the others.
    fn relabel(&mut self, number: u32, cache: &mut Cache, power: f64, rng: &mut Generator) {
        let Trainer { corpus, sampler, .. } = self;
        let mut label = vec![];
        for table in 0..cache.tables.len() as u32 {
            let is_mine = table >= cache.kept || table % self.plan.schedule.shards == number;
            if !is_mine || cache.tables[table as usize].customers == 0 {
                continue;
            }
            let view = self.views[cache.symbol_of(table) as usize];
            let words = words_of(&corpus.grammar, cache, cache.label(table));
            let task = Task {
                grammar: &corpus.grammar,
                view: (view, &corpus.views.all[view as usize]),
                words: &words,
                target: Target::Label(table),
                power,
            };
            sampler.relabel(&task, cache, &mut label, rng);
        }
    }

    /// ln p(strings, parses, seating | a, b), up to a constant that does not depend on them.
    pub fn log_posterior(&self) -> f64 {
        let (grammar, cache) = (&self.corpus.grammar, &self.base);
        let mut sum = 0.0;
        for symbol in 0..grammar.nonterminals as usize {
            if cache.uses_of[symbol] > 0 {
                let weight = grammar.weight_of[symbol];
                sum += gamma_ln(weight) - gamma_ln(weight + f64::from(cache.uses_of[symbol]));
            }
        }
        for (rule, &uses) in grammar.rules.iter().zip(&cache.uses).filter(|(_, uses)| **uses > 0) {
            sum += gamma_ln(rule.weight + f64::from(uses)) - gamma_ln(rule.weight);
        }
        let sizes = Sizes::of_all(cache);
        sum + grammar
            .adapted()
            .map(|symbol| {
                let adaptor = cache.adaptors[symbol as usize];
                sizes[symbol as usize].likelihood_ln(adaptor.a, adaptor.b)
            })
            .sum::<f64>()
    }

    /// Distinct words: of all tables of the nonterminal that words are of, where it is adapted.
    fn types(&self) -> Counts {
        let Some(word) = self.corpus.word.filter(|&word| self.corpus.grammar.is_adapted(word)) else {
            return Counts::default();
        };
        if self.corpus.gold.is_empty() {
            return Counts::default();
        }
        let tables = self.ledger.tables.iter().flatten().filter(|table| table.symbol == word);
        let found: std::collections::BTreeSet<&[Symbol]> = tables.map(|table| table.words.as_slice()).collect();
        let (found, gold): (Vec<_>, Vec<_>) =
            (found.into_iter().collect(), self.corpus.gold_types().into_iter().collect());
        Counts { correct: common(&found, &gold), found: found.len() as f64, gold: gold.len() as f64 }
    }
}

fn task_of(corpus: &Corpus, string: usize, power: f64) -> Task<'_> {
    let view = corpus.view_of[string];
    Task {
        grammar: &corpus.grammar,
        view: (view, &corpus.views.all[view as usize]),
        words: &corpus.strings[string],
        target: Target::String,
        power,
    }
}

/// Where the words of a parse end; the last is the end of the string.
pub fn ends_of(grammar: &Grammar, cache: &Cache, word: Symbol, parse: &[Packed]) -> Vec<u32> {
    let (mut at, mut ends) = (0, vec![]);
    read(grammar, &|table| cache.label(table), parse, &mut |step| match step {
        Step::Word(_) => at += 1,
        Step::Close(symbol) if symbol == word && ends.last() != Some(&at) => ends.push(at),
        _ => {}
    });
    if ends.last() != Some(&at) {
        ends.push(at);
    }
    ends
}

/// The segmentation that was seen most; of several, the first one seen.
pub fn seen_most(seen: &[(Vec<u32>, u32)]) -> Option<&Vec<u32>> {
    let most = seen.iter().map(|(_, times)| times).max()?;
    seen.iter().find(|(_, times)| times == most).map(|(ends, _)| ends)
}

/// Notes a segmentation.
pub fn see(seen: &mut Vec<(Vec<u32>, u32)>, ends: Vec<u32>) {
    match seen.iter_mut().find(|(known, _)| *known == ends) {
        Some((_, times)) => *times += 1,
        None => seen.push((ends, 1)),
    }
}

impl Model for Trainer {
    type Saved = Shard;
    /// The ledger, and the samples so far.
    type Shared = (Ledger, Vec<Ledger>);

    /// Where strings are drawn one after another, each given those before it, shards would start alone. So they draw few
    /// strings at first, and as many as so far from then on: each knows at least half of what one shard would.
    fn phases(&self, is_first: bool) -> u32 {
        let is_alone = self.plan.schedule.shards == 1;
        match (is_first, self.plan.sampler.start) {
            (true, Start::Incremental) if !is_alone => {
                let most = self.runs.iter().map(Range::len).max().unwrap_or(0);
                (most + 1).next_power_of_two().trailing_zeros().max(1)
            }
            (false, _) if !is_alone => self.plan.sampler.syncs_per_sweep,
            _ => 1,
        }
    }

    fn draw_shard(&mut self, number: u32, phase: u32) {
        let mut rng = generator(self.plan.seed, Purpose::Initial, u64::from(number), u64::from(phase));
        let mut cache = self.base.clone();
        let mut shard = self.shards.remove(&number).unwrap_or_default();
        let power = self.plan.power(0);
        let run = self.runs[number as usize].clone();
        let first = shard.parses.len();
        let last = if phase + 1 == self.phases(true) { run.len() } else { run.len().min((1 << (phase + 1)) - 1) };
        for string in run.start + first..run.start + last {
            let mut parse = vec![];
            if self.corpus.view_of[string] != NONE {
                let task = task_of(&self.corpus, string, power);
                match self.plan.sampler.start {
                    Start::Incremental => self.sampler.draw(&task, &mut cache, &mut parse, &mut rng),
                    Start::Batch => self.sampler.draw_from(&task, &self.base, &mut cache, &mut parse, &mut rng),
                };
            }
            shard.parses.push(parse);
        }
        shard.seen.resize(shard.parses.len(), vec![]);
        self.pending.push((number, Delta::of(&self.corpus.grammar, &cache)));
        self.shards.insert(number, shard);
    }

    fn load_shard(&mut self, number: u32, saved: Shard) -> Result<(), String> {
        if saved.parses.len() != self.runs[number as usize].len() || saved.seen.len() != saved.parses.len() {
            return Err(format!("the checkpoint of shard {number} has another number of strings"));
        }
        self.shards.insert(number, saved);
        Ok(())
    }

    fn save_shard(&self, number: u32) -> Shard {
        self.shards[&number].clone()
    }

    /// Nothing: what was drawn is noted already, and what was loaded stands in the ledger.
    fn count_shard(&mut self, _: u32) {}

    fn sweep_shard(&mut self, number: u32, sweeps: Range<u64>, phase: u32) {
        let mut shard = self.shards.remove(&number).expect("an own shard");
        let mut cache = self.base.clone();
        sweeps.for_each(|sweep| self.sweep(number, &mut shard, &mut cache, sweep, phase));
        self.pending.push((number, Delta::of(&self.corpus.grammar, &cache)));
        self.shards.insert(number, shard);
    }

    fn synchronise(&mut self, post: &mut Post<'_>) {
        let letter = to_words(&encode(&std::mem::take(&mut self.pending)).expect("changes can be packed"));
        let letters = post.exchange(vec![letter; post.peers()]);
        let mut deltas: Vec<(u32, Delta)> = vec![];
        for letter in letters {
            let own: Vec<(u32, Delta)> = decode(&to_bytes(&letter)).expect("another worker's changes");
            deltas.extend(own);
        }
        deltas.sort_by_key(|(shard, _)| *shard);
        let kept = self.ledger.tables.len() as u32;
        let numbers = self.ledger.apply(&deltas);
        for (number, shard) in &mut self.shards {
            let Some(numbers) = numbers.get(number) else { continue };
            for parse in &mut shard.parses {
                *parse = renumber(parse, kept, numbers).expect("the tables of an own shard");
            }
        }
        self.base = self.ledger.cache(&self.corpus.grammar);
    }

    fn statistics(&mut self, _: u32, _: u64) -> Vec<f64> {
        vec![]
    }

    /// Every worker holds all adaptors, and draws the same a and b.
    fn learn(&mut self, _: &[Vec<f64>], sweep: u64) {
        if self.plan.sampler.learn {
            let sizes = Sizes::of_all(&self.base);
            for symbol in self.corpus.grammar.adapted() {
                let mut rng = generator(self.plan.seed, Purpose::Hyperparameters, sweep, u64::from(symbol));
                let at = symbol as usize;
                self.ledger.adaptors[at] =
                    hyper::redraw(&sizes[at], self.ledger.adaptors[at], &self.plan.prior, &mut rng);
            }
            self.base.adaptors.clone_from(&self.ledger.adaptors);
        }
        if self.plan.is_sample(sweep) {
            self.samples.push(self.ledger.clone());
        }
    }

    fn evaluate(&mut self, number: u32, sweep: u64) -> Vec<f64> {
        let shard = self.shards.get_mut(&number).expect("an own shard");
        let (mut now, mut marginal) = (Segmented::default(), Segmented::default());
        let (grammar, base) = (&self.corpus.grammar, &self.base);
        for (place, string) in self.runs[number as usize].clone().enumerate() {
            let (Some(word), Some(gold)) = (self.corpus.word, self.corpus.gold.get(string)) else { break };
            let parse = &shard.parses[place];
            if parse.is_empty() {
                continue;
            }
            let ends = ends_of(grammar, base, word, parse);
            now.add(&ends, gold);
            if sweep > self.plan.evaluation.burn_in {
                see(&mut shard.seen[place], ends);
                marginal.add(seen_most(&shard.seen[place]).expect("the one just seen"), gold);
            }
        }
        let mut figures = vec![shard.accepted as f64, shard.proposed as f64];
        for scores in [now, marginal] {
            figures.extend(scores.tokens.figures());
            figures.extend(scores.boundaries.figures());
        }
        figures
    }

    fn snapshot(&self) -> Vec<f64> {
        let sum = |counts: &[u32]| counts.iter().map(|&count| f64::from(count)).sum::<f64>();
        let mut figures = vec![self.log_posterior(), sum(&self.base.tables_of), sum(&self.base.customers)];
        figures.extend(self.types().figures());
        figures
    }

    fn shared(&self) -> (Ledger, Vec<Ledger>) {
        (self.ledger.clone(), self.samples.clone())
    }

    fn set_shared(&mut self, (ledger, samples): (Ledger, Vec<Ledger>)) {
        (self.ledger, self.samples) = (ledger, samples);
    }

    fn tokens(&self, number: u32) -> u64 {
        self.corpus.strings[self.runs[number as usize].clone()].iter().map(|string| string.len() as u64).sum()
    }
}

/// Bytes as words of 32 bits, behind their number.
fn to_words(bytes: &[u8]) -> Vec<u32> {
    let words = bytes.chunks(4).map(|chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        u32::from_le_bytes(word)
    });
    std::iter::once(bytes.len() as u32).chain(words).collect()
}

fn to_bytes(words: &[u32]) -> Vec<u8> {
    let (&length, words) = words.split_first().expect("a length");
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.truncate(length as usize);
    bytes
}
