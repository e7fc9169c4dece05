//! Text on its way to shards, as a dataflow: files are counted together, all agree on the vocabulary, and every word travels
//! once, with the words before it, to the worker of its shard.
//!
//! A sentence is a line; the marks `<s>` and `</s>` are set here, and left out where a corpus has them already. The end of
//! a sentence is a token like any other; its begin is only ever a context. Sentences lie end to end in the order of the
//! files, and every worker reads a run of them, as even in tokens as whole sentences allow ([`crate::corpus::shard`]). Which
//! shard a token belongs to follows from its context ([`crate::restaurant::deal`]), whoever has read it.
//!
//! Files are read twice (which words, the sentences themselves), and once more before that if test documents are held
//! out; they are never kept as text.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use timely::worker::Worker;

use super::job::Plan;
use crate::cluster::operators::all_gather::AllGather;
use crate::cluster::operators::route::Route;
use crate::cluster::operators::tally::Tally;
use crate::cluster::own::Own;
use crate::corpus::diagnostic::{Diagnostic, Problem};
use crate::corpus::documents::{RawDocument, read_documents};
use crate::corpus::hold_out::Candidate;
use crate::corpus::shard::shard_of;
use crate::corpus::tokens::Tokenisation;
use crate::corpus::vocabulary::{Occurrences, UNKNOWN, Vocabulary};
use crate::job::corpus::{Corpus, Test};
use crate::restaurant::deal::Deal;
use crate::restaurant::seating::DEEPEST;
use crate::restaurant::shuffle::{Shuffle, Visit, agree};
use crate::restaurant::tokens;
use crate::restaurant::tree::Paths;

/// The marks of a sentence's begin and end.
pub const BEGIN: &str = "<s>";
pub const END: &str = "</s>";

/// Problems that are kept of a file.
const KEPT_PROBLEMS: usize = 20;

/// Numbers of the outcomes: words, then the end of a sentence; and of the begin, which is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbols {
    pub end: u32,
    pub begin: u32,
}

impl Symbols {
    pub fn new(vocabulary: &Vocabulary) -> Symbols {
        let words = vocabulary.len() as u32;
        Symbols { end: words, begin: words + 1 }
    }

    /// What a token can be.
    pub fn outcomes(&self) -> u32 {
        self.end + 1
    }

    /// What can stand in a context or be a token.
    pub fn all(&self) -> u32 {
        self.begin + 1
    }
}

/// How much a file has: of training (0) and test (1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Size {
    sentences: [u64; 2],
    /// With the ends of sentences.
    tokens: [u64; 2],
}

/// What a worker found in a file, or why it cannot be read.
type Found = Result<(Size, Vec<Problem>), String>;

/// Ids and labels of a file's documents, to choose held-out ones from.
type Listed = Result<Vec<(String, String)>, String>;

/// Tokens in the order of the text.
#[derive(Debug, Default)]
pub struct Tokens {
    /// Words of all sentences, each with a begin before it and an end behind it.
    words: Vec<u32>,
    begin: u32,
    /// Where each token is in `words`.
    at: Vec<u32>,
    depth: usize,
}

impl Tokens {
    /// No tokens yet; contexts have up to `depth` words.
    pub fn new(symbols: Symbols, depth: usize) -> Tokens {
        Tokens { begin: symbols.begin, depth, ..Tokens::default() }
    }

    /// Adds the tokens of a sentence, its end among them.
    pub fn push_sentence(&mut self, sentence: &[u32]) {
        self.words.push(self.begin);
        self.at.extend((0..sentence.len() as u32).map(|place| self.words.len() as u32 + place));
        self.words.extend_from_slice(sentence);
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.at.len()
    }

    pub fn is_empty(&self) -> bool {
        self.at.is_empty()
    }
}

impl Paths for Tokens {
    fn count(&self) -> usize {
        self.at.len()
    }

    fn symbols(&self) -> usize {
        self.begin as usize + 1
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn outcome(&self, token: usize) -> u32 {
        self.words[self.at[token] as usize]
    }

    /// Words before the token, nearest first; the begin of the sentence is the last.
    #[inline(always)]
    fn element(&self, token: usize, depth: usize) -> Option<u32> {
        let before = &self.words[..self.at[token] as usize];
        let nearer = &before[before.len().checked_sub(depth)?..];
        if nearer.contains(&self.begin) {
            return None;
        }
        before.len().checked_sub(depth + 1).map(|at| before[at])
    }

    fn length(&self, token: usize) -> usize {
        let before = &self.words[..self.at[token] as usize];
        let nearest = &before[before.len().saturating_sub(self.depth)..];
        nearest.iter().rev().position(|&word| word == self.begin).map_or(nearest.len(), |begin| begin + 1)
    }
}

/// What the workers make of the files.
pub struct Text {
    pub vocabulary: Vocabulary,
    pub symbols: Symbols,
    pub deal: Arc<Deal>,
    /// By own shard: tokens to train on, then those to test on; and how many there are of the first.
    pub tokens: BTreeMap<u32, tokens::Tokens>,
    pub seated: BTreeMap<u32, usize>,
    pub problems: Vec<(u32, Problem)>,
    /// Of all workers, with the ends of sentences.
    pub training_tokens: u64,
    pub training_sentences: u64,
    pub test_tokens: u64,
    pub test_sentences: u64,
    pub test_unknown: u64,
}

/// Reads the text of `plan`. Every worker must call this; all succeed or all fail.
pub fn collect(worker: &mut Worker, plan: &Plan, route: &mut Route) -> Result<Text, String> {
    let mut lists = AllGather::<Listed>::new(worker, "Documents");
    let mut sizes = AllGather::<Found>::new(worker, "Sizes");
    let mut words = Tally::<(bool, String)>::new(worker, "Words");
    let mut vocabularies = AllGather::<Result<Vocabulary, String>>::new(worker, "Vocabulary");
    let mut failures = AllGather::<Option<String>>::new(worker, "Failures");
    let mut sums = AllGather::<u64>::new(worker, "Unknown");
    let corpus = &plan.corpus;
    let (index, peers) = (worker.index(), worker.peers() as u32);
    let mine: Vec<u32> = Own::of(worker).below(corpus.files.len() as u32).collect();

    let held_out = match &corpus.test {
        Test::Files => HashSet::new(),
        Test::HoldOut(hold_out) => {
            let list = mine.iter().map(|&file| (u64::from(file), list_documents(corpus, file))).collect();
            let mut places = vec![];
            let mut documents = vec![];
            for (file, list) in lists.exchange(worker, list) {
                let list = list?;
                places.extend((0..list.len() as u32).map(|number| (file as u32, number)));
                documents.extend(list);
            }
            let candidates: Vec<Candidate<'_>> = documents.iter().map(|(id, label)| Candidate { id, label }).collect();
            hold_out.choose(plan.seed, &candidates)?.into_iter().map(|place| places[place]).collect()
        }
    };
    let reader = Reader { corpus, held_out };

    let mut counts: [HashMap<String, i64>; 2] = [HashMap::new(), HashMap::new()];
    let found = mine.iter().map(|&file| (u64::from(file), reader.count(file, &mut counts))).collect();
    for (is_test, counts) in [false, true].into_iter().zip(counts) {
        // The order in which they are handed over does not show: they are added up.
        counts.into_iter().for_each(|(word, count)| words.add((is_test, word), count));
    }
    let (mut files, mut problems) = (vec![], vec![]);
    for (file, found) in sizes.exchange(worker, found) {
        let (size, of_file) = found?;
        files.push(size);
        problems.extend(of_file.into_iter().map(|problem| (file as u32, problem)));
    }
    let total = |of: usize| files.iter().map(|size| size.tokens[of]).sum::<u64>();
    let sentences = |of: usize| files.iter().map(|size| size.sentences[of]).sum::<u64>();
    if total(0) == 0 {
        let reason = problems.first().map_or(String::new(), |(file, problem): &(u32, Problem)| {
            let path = corpus.files[*file as usize].display().to_string();
            format!("\n{}", Diagnostic { path, problem: problem.clone() })
        });
        return Err(format!("there is no word to train on: the training files have no sentences{reason}"));
    }
    words.settle(worker);
    let built = if index == 0 { vec![(0, build_vocabulary(corpus.min_count, &words))] } else { vec![] };
    let (_, vocabulary) = vocabularies.exchange(worker, built).remove(0);
    let vocabulary = vocabulary?;

    let symbols = Symbols::new(&vocabulary);
    let mut part =
        Part { vocabulary: &vocabulary, symbols, totals: [total(0), total(1)], index, peers, words: [vec![], vec![]] };
    // All hear of a failure here: nobody waits for the tokens of one that has gone.
    let failed = part.load(&reader, &files).err();
    let failures = failures.exchange(worker, vec![(index as u64, failed)]);
    if let Some(failed) = failures.into_iter().find_map(|(_, failed)| failed) {
        return Err(failed);
    }
    let [training, test] = part.words;
    let unknown = test.iter().filter(|&&word| word == UNKNOWN).count() as u64;
    let depth = plan.depth();
    let each = |words: &[u32], show: &mut Visit<'_>| each_token(words, &symbols, depth, show);
    let deal = agree(worker, route, plan.schedule.shards, symbols.all(), |show| each(&training, show));
    let mut shuffle = Shuffle::new(worker, route, &deal, depth, symbols.all());
    each(&training, &mut |context, outcome| shuffle.push(context, outcome));
    drop(training);
    let tokens = shuffle.finish();
    let seated = tokens.iter().map(|(&shard, tokens)| (shard, tokens.count())).collect();
    let mut shuffle = Shuffle::more(worker, route, &deal, depth, tokens);
    each(&test, &mut |context, outcome| shuffle.push(context, outcome));
    let tokens = shuffle.finish();
    let test_unknown = sums.exchange(worker, vec![(index as u64, unknown)]).iter().map(|(_, unknown)| unknown).sum();
    Ok(Text {
        symbols,
        deal,
        tokens,
        seated,
        problems,
        training_tokens: total(0),
        training_sentences: sentences(0),
        test_tokens: total(1),
        test_sentences: sentences(1),
        test_unknown,
        vocabulary,
    })
}

fn list_documents(corpus: &Corpus, file: u32) -> Listed {
    let mut list = vec![];
    let mut visit = |document: &RawDocument<'_>| list.push((document.id.to_string(), document.label.to_string()));
    read(corpus, file, &mut visit, &mut |_| ())?;
    Ok(list)
}

fn read(
    corpus: &Corpus,
    file: u32,
    visit: &mut dyn FnMut(&RawDocument<'_>),
    report: &mut dyn FnMut(Problem),
) -> Result<(), String> {
    let path = &corpus.files[file as usize];
    read_documents(path, corpus.encoding, corpus.format, visit, report).map_err(|e| format!("{}: {e}", path.display()))
}

fn build_vocabulary(min_count: u64, words: &Tally<(bool, String)>) -> Result<Vocabulary, String> {
    let mut counts = BTreeMap::<String, Occurrences>::new();
    for ((is_test, word), count) in words.totals() {
        let entry = counts.entry(word).or_insert(Occurrences { training: 0, test: 0 });
        *if is_test { &mut entry.test } else { &mut entry.training } += count as u64;
    }
    Vocabulary::build(counts.iter().map(|(word, occurrences)| (word.as_str(), *occurrences)), min_count)
}

/// Shows the words of a sentence, without marks of its begin and end.
pub fn each_word(tokenisation: &Tokenisation, line: &str, mut visit: impl FnMut(&str)) {
    tokenisation.each_token(line, |token| {
        if token != BEGIN && token != END {
            visit(token);
        }
    });
}

/// Reads sentences and knows which are test ones.
struct Reader<'a> {
    corpus: &'a Corpus,
    /// Held-out documents, by file and number.
    held_out: HashSet<(u32, u32)>,
}

impl Reader<'_> {
    /// Shows each sentence of a file, and whether it is a test one. Blank lines are none.
    fn each_sentence(
        &self,
        file: u32,
        mut visit: impl FnMut(bool, &str),
        report: &mut dyn FnMut(Problem),
    ) -> Result<(), String> {
        let is_test_file = file as usize >= self.corpus.training_files;
        let mut number = 0;
        let mut visit_document = |document: &RawDocument<'_>| {
            let is_test = is_test_file || self.held_out.contains(&(file, number));
            number += 1;
            document.text.lines().filter(|line| !line.trim().is_empty()).for_each(|line| visit(is_test, line));
        };
        read(self.corpus, file, &mut visit_document, report)
    }

    /// Counts the words of a file.
    fn count(&self, file: u32, counts: &mut [HashMap<String, i64>; 2]) -> Found {
        let (mut size, mut problems) = (Size::default(), vec![]);
        let count = |is_test: bool, line: &str| {
            let counts = &mut counts[usize::from(is_test)];
            size.sentences[usize::from(is_test)] += 1;
            size.tokens[usize::from(is_test)] += 1;
            each_word(&self.corpus.tokenisation, line, |word| {
                size.tokens[usize::from(is_test)] += 1;
                match counts.get_mut(word) {
                    Some(count) => *count += 1,
                    None => drop(counts.insert(word.to_string(), 1)),
                }
            });
        };
        self.each_sentence(file, count, &mut |problem| {
            if problems.len() < KEPT_PROBLEMS {
                problems.push(problem);
            }
        })?;
        Ok((size, problems))
    }
}

/// The run of sentences that a worker reads.
struct Part<'a> {
    vocabulary: &'a Vocabulary,
    symbols: Symbols,
    totals: [u64; 2],
    index: usize,
    peers: u32,
    /// To train and to test on: sentences, each with a begin before it and an end behind it.
    words: [Vec<u32>; 2],
}

impl Part<'_> {
    fn load(&mut self, reader: &Reader<'_>, files: &[Size]) -> Result<(), String> {
        let mut before = [0; 2];
        for (file, size) in (0..).zip(files) {
            if !self.needs(&before, size) {
                (0..2).for_each(|of| before[of] += size.tokens[of]);
                continue;
            }
            let keep = |is_test: bool, line: &str| {
                let of = usize::from(is_test);
                let words = &mut self.words[of];
                let start = words.len();
                words.push(self.symbols.begin);
                each_word(&reader.corpus.tokenisation, line, |word| words.push(self.vocabulary.id(word)));
                words.push(self.symbols.end);
                let length = (words.len() - start - 1) as u64;
                let part = shard_of(before[of], length, self.totals[of], self.peers);
                before[of] += length;
                if part as usize != self.index {
                    words.truncate(start);
                }
            };
            reader.each_sentence(file, keep, &mut |_| ())?;
        }
        Ok(())
    }

    /// Whether a file that begins after `before` tokens has any of this part.
    fn needs(&self, before: &[u64; 2], size: &Size) -> bool {
        let touches = |of: usize| {
            let (tokens, total) = (size.tokens[of], self.totals[of]);
            if tokens == 0 {
                return false;
            }
            // A sentence belongs to the part of its middle, which lies within the file.
            let first = shard_of(before[of], 0, total, self.peers);
            let last = shard_of(before[of] + tokens, 0, total, self.peers);
            (first..=last).contains(&(self.index as u32))
        };
        touches(0) || touches(1)
    }
}

/// Shows each token of some sentences: up to `depth` words before it, nearest first and the begin of the sentence last, and
/// the token.
pub fn each_token(words: &[u32], symbols: &Symbols, depth: usize, show: &mut Visit<'_>) {
    let (mut context, mut length) = ([0; DEEPEST], 0);
    for &word in words {
        if word == symbols.begin {
            (context[0], length) = (word, depth.min(1));
            continue;
        }
        show(&context[..length], word);
        context.copy_within(..depth.saturating_sub(1), 1);
        (context[0], length) = (word, depth.min(length + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_end_with_the_begin_of_the_sentence() {
        // <s> 5 6 </s>, with </s> = 7 and <s> = 8
        let symbols = Symbols { end: 7, begin: 8 };
        let shown = |depth: usize| {
            let mut shown: Vec<(Vec<u32>, u32)> = vec![];
            let mut show = |context: &[u32], word| shown.push((context.to_vec(), word));
            each_token(&[8, 5, 6, 7, 8, 7], &symbols, depth, &mut show);
            shown
        };
        let expected = |depth: usize| {
            let contexts = [(vec![8], 5), (vec![5, 8], 6), (vec![6, 5, 8], 7), (vec![8], 7)];
            contexts.map(|(context, word)| (context[..depth.min(context.len())].to_vec(), word))
        };
        for depth in 0..5 {
            assert_eq!(shown(depth), expected(depth), "{depth}");
        }
        let mut tokens = Tokens::new(symbols, 2);
        [vec![5, 6, 7], vec![7]].iter().for_each(|sentence| tokens.push_sentence(sentence));
        let context = |token| (0..2).map_while(|depth| tokens.element(token, depth)).collect::<Vec<_>>();
        let own: Vec<_> = (0..tokens.count()).map(|token| (context(token), tokens.outcome(token))).collect();
        assert_eq!(own, expected(2));
    }
}
