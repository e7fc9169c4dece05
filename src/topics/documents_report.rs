//! Documents' topics, from the last checkpoint: MALLET's doc-topics and state, the documents that show each topic, and
//! the documents that were held out.
//!
//! Everything is written as it is read: memory holds one document, and the topics of all shards, 2 bytes per token. A shard has
//! them in the order of documents and of tokens within, so that all shards are read side by side.

use std::io::{self, BufWriter, Write};

use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};

use super::collection::{Catalogue, each_document};
use super::deal::Deal;
use super::held_out_file::HeldOut;
use super::job::Plan;
use super::model::TopicModel;
use crate::cluster::checkpoint::Checkpoints;
use crate::cluster::sweep::part_name;
use crate::corpus::documents::RawDocument;
use crate::error::{Error, Result};
use crate::job::folder::{RunFolder, WholeFile};

/// Documents shown with each topic.
const SHOWN: usize = 5;

/// By topic: the documents with the largest share, as (share, id).
pub type Shown = Vec<Vec<(f64, String)>>;

/// Reads the documents once more, and their topics from the checkpoint of the last sweep; writes what is made of them
/// into the report, and returns the documents that show each topic.
pub fn write(
    plan: &Plan,
    catalogue: &Catalogue,
    deal: &Deal,
    model: &TopicModel,
    checkpoints: &Checkpoints,
    folder: &RunFolder,
) -> Result<Shown> {
    let mut writer = Writer::new(plan, deal, model, checkpoints, folder)?;
    let files: Vec<u32> = (0..plan.files.len() as u32).collect();
    let mut written = Ok(());
    each_document(plan, catalogue, &files, |number, document| {
        if written.is_ok() {
            written = writer.document(catalogue.is_test[number], document);
        }
    })
    .map_err(Error::Input)?;
    written?;
    writer.finish()
}

/// The files in the making.
struct Writer<'a> {
    plan: &'a Plan,
    deal: &'a Deal,
    model: &'a TopicModel,
    folder: &'a RunFolder,
    /// Training documents so far.
    number: u32,
    /// By shard, the topics of its tokens that are left.
    topics: Vec<std::vec::IntoIter<u16>>,
    /// MALLET's doc-topics: number, id, and the share of each topic.
    table: WholeFile,
    /// MALLET's state: document, source, position, word and topic of every token. Buffered, since the lines are short.
    state: BufWriter<GzEncoder<WholeFile>>,
    held_out: HeldOut,
    shown: Shown,
}

impl<'a> Writer<'a> {
    fn new(
        plan: &'a Plan,
        deal: &'a Deal,
        model: &'a TopicModel,
        checkpoints: &Checkpoints,
        folder: &'a RunFolder,
    ) -> Result<Writer<'a>> {
        let state = GzBuilder::new().mtime(0).write(folder.create_file("report/state.gz")?, Compression::fast());
        let mut writer = Writer {
            plan,
            deal,
            model,
            folder,
            number: 0,
            topics: topics(plan, checkpoints)?,
            table: folder.create_file("report/doc-topics.txt")?,
            state: BufWriter::with_capacity(1 << 16, state),
            held_out: HeldOut::create(plan, folder)?,
            shown: vec![vec![]; model.topics()],
        };
        writer.heads().map_err(|e| Error::output(&folder.path().join("report"), e))?;
        Ok(writer)
    }

    fn heads(&mut self) -> io::Result<()> {
        let alphas: Vec<String> = self.model.alpha.iter().map(|alpha| format!("{alpha}")).collect();
        writeln!(self.table, "#doc name topic proportion ...")?;
        writeln!(self.state, "#doc source pos typeindex type topic")?;
        writeln!(self.state, "#alpha : {}\n#beta : {}", alphas.join(" "), self.model.beta)
    }

    /// Writes what is to be said of a document.
    fn document(&mut self, is_test: bool, document: &RawDocument<'_>) -> Result<()> {
        let written = if is_test { self.held_out.document(document) } else { self.training_document(document) };
        written.map_err(|e| Error::output(&self.folder.path().join("report"), e))
    }

    fn training_document(&mut self, document: &RawDocument<'_>) -> io::Result<()> {
        let (model, mut counts, mut position) = (self.model, vec![0u32; self.model.topics()], 0u32);
        let mut written = Ok(());
        self.plan.tokenisation.each_token(document.text, |token| {
            let id = model.vocabulary.id(token);
            let shard = self.deal.shard_of(id, self.number);
            let topic = self.topics[shard as usize].next().unwrap_or(0);
            counts[usize::from(topic)] += 1;
            let (number, source, word) = (self.number, document.id, model.vocabulary.word(id));
            let line = writeln!(self.state, "{number} {source} {position} {id} {word} {topic}");
            written = std::mem::replace(&mut written, Ok(())).and(line);
            position += 1;
        });
        written?;
        self.shares(document.id, &counts, position)?;
        self.number += 1;
        Ok(())
    }

    fn shares(&mut self, id: &str, counts: &[u32], tokens: u32) -> io::Result<()> {
        let strength: f64 = self.model.alpha.iter().sum();
        write!(self.table, "{}\t{id}", self.number)?;
        for (topic, &count) in counts.iter().enumerate() {
            let share = (f64::from(count) + self.model.alpha[topic]) / (f64::from(tokens) + strength);
            write!(self.table, "\t{share:.6}")?;
            if count > 0 {
                keep(&mut self.shown[topic], share, id);
            }
        }
        writeln!(self.table)
    }

    fn finish(self) -> Result<Shown> {
        let state = self.state.into_inner().map_err(io::IntoInnerError::into_error).and_then(GzEncoder::finish);
        state.map_err(|e| Error::output(&self.folder.path().join("report"), e))?.finish()?;
        self.table.finish()?;
        self.held_out.finish()?;
        Ok(self.shown)
    }
}

/// The topics of all tokens by shard, from the checkpoint of the last sweep.
fn topics(plan: &Plan, checkpoints: &Checkpoints) -> Result<Vec<std::vec::IntoIter<u16>>> {
    let read = |shard| checkpoints.read_part::<Vec<u16>>(plan.schedule.sweeps, &part_name(shard));
    let topics = (0..plan.schedule.shards).map(|shard| read(shard).map(Vec::into_iter));
    topics.collect::<io::Result<_>>().map_err(|e| Error::Input(e.to_string()))
}

/// Keeps the documents with the largest shares, in falling order; of equal ones the earlier.
fn keep(shown: &mut Vec<(f64, String)>, share: f64, id: &str) {
    let at = shown.partition_point(|(other, _)| *other >= share);
    if at < SHOWN {
        shown.insert(at, (share, id.to_string()));
        shown.truncate(SHOWN);
    }
}
