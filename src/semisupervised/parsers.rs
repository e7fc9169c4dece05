//! The parsers of the stages that have ended: the last one as it is, since the next stage goes on from it; those before packed,
//! which takes a fraction of the memory, until all are tested.

use std::sync::Arc;

use crate::cluster::codec::{decode, encode};
use crate::error::{Error, Result};
use crate::parser::distribution::KeptHierarchy;
use crate::parser::job::{Part, Plan};
use crate::parser::lexicon::Lexicon;
use crate::parser::model::{Kept, ParserModel};

#[derive(Default)]
pub struct Parsers {
    before: Vec<Vec<u8>>,
    last: Option<Kept>,
}

impl Parsers {
    /// That of the last stage that has ended.
    pub fn last(&self) -> Option<&Kept> {
        self.last.as_ref()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.before.len() + usize::from(self.last.is_some())
    }

    pub fn push(&mut self, kept: Kept) -> Result<()> {
        if let Some(before) = self.last.replace(kept) {
            self.before.push(encode(&before).map_err(|e| Error::Usage(e.to_string()))?);
        }
        Ok(())
    }

    /// A parser of what was learned, and of the last one where it did not learn.
    pub fn learned(
        &self,
        plan: &Plan,
        lexicon: &Lexicon,
        learned: Vec<Arc<KeptHierarchy>>,
        learns: impl Fn(Part) -> bool,
    ) -> Kept {
        let last = self.last.as_ref().expect("that of the treebank");
        let mut learned = learned.into_iter();
        let contexts = plan.contexts.all.iter().zip(&last.hierarchies);
        let choose = |((part, _), old): (&(Part, _), &Arc<KeptHierarchy>)| match learns(*part) {
            true => learned.next().expect("one for each context"),
            false => old.clone(),
        };
        let all = contexts.map(choose).collect();
        Kept::new(plan, lexicon.clone(), last.is_single_rooted, all)
    }

    /// Each of them, the first stage's first; beside the last one, one is in memory at a time.
    pub fn models(self) -> impl Iterator<Item = Result<ParserModel>> {
        let unpack = |bytes: Vec<u8>| decode(&bytes).map_err(|e| Error::Usage(e.to_string()));
        let all = self.before.into_iter().map(unpack).chain(self.last.map(Ok));
        all.map(|kept| Ok(ParserModel::new(kept?).expect("what was learned holds together")))
    }
}
