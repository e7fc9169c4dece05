//! `sawmill check`: treebank files, every problem with its address.

use std::path::{Path, PathBuf};

use clap::Args;

use super::print;
use crate::corpus::conll::Reader;
use crate::corpus::diagnostic::{Diagnostic, Problem, Rule};
use crate::corpus::piece::{Blocks, Encoding, Input};
use crate::corpus::tree::Shape;
use crate::error::{Error, Result, exit};

#[derive(Args)]
pub struct Check {
    /// CoNLL-X or CoNLL-U files, also gz, xz or zst; - for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The files are ISO 8859-1, as some of CoNLL 2006 and 2007 are
    #[arg(long)]
    latin_1: bool,
    /// Print no summary of each file
    #[arg(short, long)]
    quiet: bool,
}

/// What a file holds.
#[derive(Default)]
struct Summary {
    sentences: u64,
    words: u64,
    broken: u64,
    non_projective: u64,
    rootless: u64,
    several_roots: u64,
    problems: u64,
}

impl Check {
    pub fn run(&self) -> Result<u8> {
        let mut problems = 0;
        for file in &self.files {
            let summary = match self.check(file) {
                Ok(summary) => summary,
                Err(Error::Input(message)) => {
                    print(&format!("{message}\n"))?;
                    problems += 1;
                    continue;
                }
                Err(other) => return Err(other),
            };
            problems += summary.problems;
            if !self.quiet {
                say!(
                    "{}: {} sentences, {} words; {} with problems, {} non-projective, {} without a root, {} with several roots",
                    file.display(),
                    summary.sentences,
                    summary.words,
                    summary.broken,
                    summary.non_projective,
                    summary.rootless,
                    summary.several_roots
                );
            }
        }
        match problems {
            0 => Ok(exit::DONE),
            1 => Err(Error::Input("1 problem was found".to_string())),
            n => Err(Error::Input(format!("{n} problems were found"))),
        }
    }

    fn check(&self, file: &Path) -> Result<Summary> {
        let encoding = if self.latin_1 { Encoding::Latin1 } else { Encoding::Utf8 };
        let input = Input::file(0, file.to_path_buf(), encoding).map_err(|e| Error::input(file, e))?;
        let mut blocks = Blocks::open(0, &input.whole_piece(0), &input);
        let mut reader = Reader::default();
        let mut summary = Summary::default();
        while let Some(block) = blocks.next_block() {
            let mut found: Vec<Problem> = block.problems.clone();
            reader.read(&block, |sentence| {
                summary.sentences += 1;
                summary.words += sentence.tokens.len() as u64;
                summary.broken += u64::from(!sentence.problems.is_empty());
                found.extend_from_slice(sentence.problems);
                if sentence.problems.is_empty() {
                    summary.non_projective += u64::from(sentence.shape == Shape::NonProjective);
                    if sentence.shape == Shape::Rootless {
                        // Jobs leave these out without ado; for a treebank it is a fault.
                        summary.rootless += 1;
                        let message = "no word has head 0".to_string();
                        found.push(Problem {
                            line: sentence.first_line,
                            rule: Rule::NoRoot,
                            sentence: sentence.id().to_string(),
                            message,
                        });
                    }
                    summary.several_roots += u64::from(sentence.tree.roots() > 1);
                }
            });
            summary.problems += found.len() as u64;
            let path = input.name();
            let lines = found.into_iter().map(|problem| format!("{}\n", Diagnostic { path: path.clone(), problem }));
            print(&lines.collect::<String>())?;
        }
        Ok(summary)
    }
}
