//! Learning from trees of raw text, one context behind the other.
//!
//! Given the trees, the hierarchies of a parser have nothing to do with each other: so each is trained by itself, as a
//! training of its own under the sweep driver, with the draws that it would have among the others. Its tokens go to the
//! workers whose shards their contexts are of ([`crate::restaurant::shuffle`]). Memory is that of the own part of the largest one, and, on
//! the first worker, of what all have learned before. Contexts of single tokens have no restaurants
//! ([`crate::restaurant::lone`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use timely::worker::Worker;

use super::parses::{Trees, with_trees};
use super::run::Stages;
use super::text::Text;
use crate::cluster::own::Own;
use crate::cluster::sweep::{End, train};
use crate::error::Result;
use crate::parser::distribution::KeptHierarchy;
use crate::parser::gather::gather;
use crate::parser::job::{Contexts, Plan};
use crate::parser::tokens::{Dealt, Scratch, Tokeniser};
use crate::parser::trainer::Trainer;
use crate::restaurant::shuffle::{Shuffle, Visit, agree};

impl Stages<'_> {
    /// Learns from the trees of a pass; the first worker has what was learned.
    pub(super) fn learn(
        &mut self,
        worker: &mut Worker,
        pass: u64,
        text: &Text,
        trees: &BTreeMap<u32, Trees>,
    ) -> Result<(End, Option<Vec<Arc<KeptHierarchy>>>)> {
        let plan = self.plan.learning();
        let mut all = vec![];
        for context in 0..plan.contexts.all.len() {
            let tokens = self.tokens(worker, &plan, context, text, trees);
            let (end, learned) = self.learn_one(worker, &plan, pass, context, text, tokens)?;
            all.extend(learned.into_iter().flatten());
            if end == End::Stopped {
                return Ok((end, None));
            }
        }
        Ok((End::Done, (worker.index() == 0).then_some(all)))
    }

    /// The tokens of a context that are of the own shards, from the trees of all workers.
    fn tokens(
        &mut self,
        worker: &mut Worker,
        plan: &Plan,
        context: usize,
        text: &Text,
        trees: &BTreeMap<u32, Trees>,
    ) -> Dealt {
        let tokeniser = Tokeniser {
            lexicon: &text.lexicon,
            system: plan.model.system,
            contexts: &Contexts { all: vec![plan.contexts.all[context].clone()] },
            is_lexicalised: true,
        };
        let (runs, treebank) = (self.runs(), self.treebank);
        let own: Vec<u32> = Own::of(worker).below(plan.schedule.shards).collect();
        let mut scratch = Scratch::default();
        let mut each = |show: &mut Visit<'_>| {
            for &shard in &own {
                let observed = runs[shard as usize].clone().map(|number| text.lexicon.sentence(treebank, number));
                let raw = text.training.get(&shard).zip(trees.get(&shard));
                for words in observed.chain(raw.into_iter().flat_map(|(shelf, trees)| with_trees(shelf, trees))) {
                    tokeniser.each(&words, &mut scratch, |_, context, outcome| show(context, outcome));
                }
            }
        };
        let (depth, symbols) = (plan.contexts.all[context].1.len(), text.lexicon.symbols());
        let deal = agree(worker, &mut self.letters, plan.schedule.shards, symbols, &mut each);
        let mut shuffle = Shuffle::new(worker, &mut self.letters, &deal, depth, symbols);
        each(&mut |context, outcome| shuffle.push(context, outcome));
        let tokens = shuffle.finish();
        Dealt { deal, tokens }
    }

    fn learn_one(
        &mut self,
        worker: &mut Worker,
        plan: &Plan,
        pass: u64,
        context: usize,
        text: &Text,
        tokens: Dealt,
    ) -> Result<(End, Option<Vec<Arc<KeptHierarchy>>>)> {
        let trainer = Trainer::of_one(plan, &text.lexicon, context, tokens);
        let title = format!("learning, pass {pass}: {}", name_of(&plan.contexts, context));
        let stage =
            self.stage(&format!("learning-{pass}-{context}"), &title, plan.schedule.sweeps, plan.schedule.sweeps);
        let (watcher, figures) = (self.watcher, &mut self.figures);
        let control = self.control.of_stage(&stage.name);
        let (trainer, end) = train(worker, trainer, &plan.schedule, &control, |_, round| {
            stage.tell(watcher, round);
            figures.add_learning(round);
        })?;
        self.before += plan.schedule.sweeps;
        if end == End::Stopped {
            return Ok((end, None));
        }
        let learned = gather(worker, &mut self.letters, trainer.hierarchies(&text.lexicon))?;
        self.end_stage(worker, &title);
        Ok((end, learned))
    }
}

/// A context for people: its distribution, and which of its contexts it is.
fn name_of(contexts: &Contexts, context: usize) -> String {
    let (part, _) = &contexts.all[context];
    let place = contexts.all[..=context].iter().filter(|(other, _)| other == part).count();
    format!("{}s, context {place}", part.name())
}
