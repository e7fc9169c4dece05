//! `sawmill score`: how well trees agree with those made by hand.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::print;
use crate::corpus::diagnostic::Diagnostic;
use crate::corpus::text::Encoding;
use crate::error::{Error, Result, exit};
use crate::parser::score::{Counts, Score, compare};
use crate::parser::treebank::{NonProjective, TagColumn, Treebank};

#[derive(Args)]
pub struct ScoreTrees {
    /// Trees made by hand, as CoNLL-U
    gold: PathBuf,
    /// The same sentences with the trees to be scored
    system: PathBuf,
    /// The files are ISO 8859-1
    #[arg(long)]
    latin_1: bool,
    /// Results as JSON
    #[arg(long)]
    json: bool,
}

impl ScoreTrees {
    pub fn run(&self) -> Result<u8> {
        let gold = self.read(&self.gold)?;
        let system = self.read(&self.system)?;
        let score = compare(&gold, &system).map_err(|e| Error::input(&self.system, e))?;
        print(&if self.json { to_json(&score) } else { to_text(&score) })?;
        Ok(exit::DONE)
    }

    fn read(&self, path: &Path) -> Result<Treebank> {
        let encoding = if self.latin_1 { Encoding::Latin1 } else { Encoding::Utf8 };
        let files = [path.to_path_buf()];
        let treebank = Treebank::read(&files, encoding, TagColumn::Upos, NonProjective::Keep).map_err(Error::Input)?;
        match treebank.problems.first() {
            Some((path, problem)) => {
                let path = path.display().to_string();
                Err(Error::Input(Diagnostic { path, problem: problem.clone() }.to_string()))
            }
            None if treebank.no_tree > 0 => {
                Err(Error::input(path, "a sentence has no root, so there is no tree to score"))
            }
            None => Ok(treebank),
        }
    }
}

fn to_text(score: &Score) -> String {
    let row = |name: &str, value: fn(&Counts) -> Option<f64>| {
        let show = |counts: &Counts| value(counts).map_or("none".to_string(), |value| format!("{value:.2}"));
        format!("{name}\t{}\t{}\n", show(&score.all), show(&score.no_punctuation))
    };
    let words = format!("words\t{}\t{}\n", score.all.words, score.no_punctuation.words);
    "metric\tall\twithout punctuation\n".to_string()
        + &row("UAS", Counts::uas)
        + &row("LAS", Counts::las)
        + &row("UPOS", Counts::tag_accuracy)
        + &words
        + &format!("sentences\t{}\t{}\n", score.sentences, score.sentences)
}

fn to_json(score: &Score) -> String {
    let (all, bare) = (&score.all, &score.no_punctuation);
    let object = json!({
        "uas": all.uas(), "las": all.las(), "upos": all.tag_accuracy(), "uas_nopunct": bare.uas(),
        "las_nopunct": bare.las(), "upos_nopunct": bare.tag_accuracy(), "words": all.words,
        "words_nopunct": bare.words, "sentences": score.sentences, "whole_trees": score.exact,
    });
    format!("{object:#}\n")
}
