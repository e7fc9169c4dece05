//! Documents' topics, from the last checkpoint: MALLET's doc-topics and state, the documents that show each topic, and
//! the documents that were held out.
//!
//! Everything is written as it is read: memory holds the topics of one shard, and one document.

use std::io::{self, BufWriter, Write};

use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};

use super::collection::{Catalogue, each_document};
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
    model: &TopicModel,
    checkpoints: &Checkpoints,
    folder: &RunFolder,
) -> Result<Shown> {
    let mut writer = Writer::new(plan, model, checkpoints, folder)?;
    let files: Vec<u32> = (0..plan.files.len() as u32).collect();
    let mut written = Ok(());
    each_document(plan, catalogue, &files, |number, document| {
        if written.is_ok() {
            let shard = (!catalogue.is_test[number]).then(|| catalogue.shard[number]);
            written = writer.document(shard, document);
        }
    })
    .map_err(Error::Input)?;
    written?;
    writer.finish()
}

/// The files in the making.
struct Writer<'a> {
    plan: &'a Plan,
    model: &'a TopicModel,
    checkpoints: &'a Checkpoints,
    folder: &'a RunFolder,
    /// Documents so far.
    number: u64,
    /// The shard that the last document belongs to, and the topics of its tokens that are left.
    shard: Option<u32>,
    topics: std::vec::IntoIter<u16>,
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
        model: &'a TopicModel,
        checkpoints: &'a Checkpoints,
        folder: &'a RunFolder,
    ) -> Result<Writer<'a>> {
        let state = GzBuilder::new().mtime(0).write(folder.create_file("report/state.gz")?, Compression::fast());
        let mut writer = Writer {
            plan,
            model,
            checkpoints,
            folder,
            number: 0,
            shard: None,
            topics: vec![].into_iter(),
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

    /// Writes what is to be said of a document; one of no shard is held out.
    fn document(&mut self, shard: Option<u32>, document: &RawDocument<'_>) -> Result<()> {
        let written = match shard {
            Some(shard) => {
                self.turn_to(shard)?;
                self.training_document(document)
            }
            None => self.held_out.document(document),
        };
        written.map_err(|e| Error::output(&self.folder.path().join("report"), e))
    }

    fn training_document(&mut self, document: &RawDocument<'_>) -> io::Result<()> {
        let (model, mut counts, mut position) = (self.model, vec![0u32; self.model.topics()], 0u32);
        let mut written = Ok(());
        self.plan.tokenisation.each_token(document.text, |token| {
            let (id, topic) = (model.vocabulary.id(token), self.topics.next().unwrap_or(0));
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

    /// Shards are runs of documents: when the next one begins, the one before is done with.
    fn turn_to(&mut self, shard: u32) -> Result<()> {
        if self.shard != Some(shard) {
            let topics = self.checkpoints.read_part::<Vec<u16>>(self.plan.schedule.sweeps, &part_name(shard));
            let topics = topics.map_err(|e| Error::Input(e.to_string()))?;
            self.topics = topics.into_iter();
            self.shard = Some(shard);
        }
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

/// Keeps the documents with the largest shares, in falling order; of equal ones the earlier.
fn keep(shown: &mut Vec<(f64, String)>, share: f64, id: &str) {
    let at = shown.partition_point(|(other, _)| *other >= share);
    if at < SHOWN {
        shown.insert(at, (share, id.to_string()));
        shown.truncate(SHOWN);
    }
}
