//! Documents' topics, from the last checkpoint: MALLET's doc-topics and state, and the documents that show each topic.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufWriter, Write as _};

use flate2::{Compression, GzBuilder};

use super::collection::{Catalogue, each_document};
use super::job::Plan;
use super::model::TopicModel;
use crate::cluster::checkpoint::Checkpoints;
use crate::cluster::sweep::part_name;

/// Documents shown with each topic.
const SHOWN: usize = 5;

/// What is made of the training documents.
pub struct DocumentTopics {
    /// MALLET's doc-topics: number, id, and the share of each topic.
    pub table: String,
    /// MALLET's state: document, source, position, word and topic of every token; gzip.
    pub state: Vec<u8>,
    /// By topic: the documents with the largest share, as (share, id).
    pub shown: Vec<Vec<(f64, String)>>,
}

impl DocumentTopics {
    /// Reads the documents once more, and their topics from the checkpoint of the last sweep.
    pub fn collect(
        plan: &Plan,
        catalogue: &Catalogue,
        model: &TopicModel,
        checkpoints: &Checkpoints,
    ) -> Result<DocumentTopics, String> {
        let mut shards = BTreeMap::<u32, std::vec::IntoIter<u16>>::new();
        for number in 0..plan.schedule.shards {
            let topics: Vec<u16> =
                checkpoints.read_part(plan.schedule.sweeps, &part_name(number)).map_err(|e| e.to_string())?;
            shards.insert(number, topics.into_iter());
        }
        let strength: f64 = model.alpha.iter().sum();
        let alphas: Vec<String> = model.alpha.iter().map(|alpha| format!("{alpha}")).collect();
        let mut table = String::from("#doc name topic proportion ...\n");
        let gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::fast());
        let mut state = BufWriter::with_capacity(1 << 16, gzip); // tokens are short lines
        let mut write_error = writeln!(
            state,
            "#doc source pos typeindex type topic\n#alpha : {}\n#beta : {}",
            alphas.join(" "),
            model.beta
        )
        .err();
        let mut shown: Vec<Vec<(f64, String)>> = vec![vec![]; model.topics()];
        let mut document_number = 0;
        let files: Vec<u32> = (0..plan.files.len() as u32).collect();
        each_document(plan, catalogue, &files, |number, document| {
            if catalogue.is_test[number] {
                return;
            }
            let topics = shards.get_mut(&catalogue.shard[number]).expect("every shard has been read");
            let mut counts = vec![0u32; model.topics()];
            let mut position = 0;
            plan.tokenisation.each_token(document.text, |token| {
                let (id, topic) = (model.vocabulary.id(token), topics.next().unwrap_or(0));
                counts[usize::from(topic)] += 1;
                let word = model.vocabulary.word(id);
                let line = writeln!(state, "{document_number} {} {position} {id} {word} {topic}", document.id);
                write_error = write_error.take().or(line.err());
                position += 1;
            });
            let share =
                |topic: usize| (f64::from(counts[topic]) + model.alpha[topic]) / (f64::from(position) + strength);
            let _ = write!(table, "{document_number}\t{}", document.id);
            for topic in 0..model.topics() {
                let _ = write!(table, "\t{:.6}", share(topic));
                if counts[topic] > 0 {
                    keep(&mut shown[topic], share(topic), document.id);
                }
            }
            table.push('\n');
            document_number += 1;
        })?;
        match write_error {
            Some(error) => Err(error.to_string()),
            None => {
                let gzip = state.into_inner().map_err(|e| e.to_string())?;
                Ok(DocumentTopics { table, state: gzip.finish().map_err(|e| e.to_string())?, shown })
            }
        }
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
