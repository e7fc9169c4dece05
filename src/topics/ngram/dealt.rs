//! Tokens travel from the workers that read their documents to the workers of the shards that their contexts belong to
//! ([`crate::restaurant::deal`]).
//!
//! Every worker reads documents of its own. Two sums over all workers come first: how often each word is the nearest one
//! before a token, which decides how contexts are dealt; and which dishes the shared restaurants serve. Then every token
//! travels once.

use std::collections::BTreeMap;
use std::ops::Range;

use super::work;
use crate::cluster::gather::Exchange;
use crate::cluster::own::Own;
use crate::lm::text::{Symbols, Tokens};
use crate::restaurant::deal::{Deal, Keys};
use crate::restaurant::tree::{NONE, Paths};
use crate::topics::collection::Share;

/// Words that a worker sends at most between two exchanges.
const FULL: usize = 1 << 19;

/// Tokens with their contexts and origins.
#[derive(Clone, Debug, Default)]
pub struct TokenList {
    depth: usize,
    symbols: usize,
    /// Of each token: its outcome, then its context, filled up with [`NONE`].
    words: Vec<u32>,
    /// Of each token: its document, and its position there.
    pub origins: Vec<(u32, u32)>,
}

impl TokenList {
    fn new(depth: usize, symbols: Symbols) -> TokenList {
        TokenList { depth, symbols: symbols.all() as usize, ..TokenList::default() }
    }

    fn stride(&self) -> usize {
        self.depth + 1
    }

    pub fn context(&self, token: usize) -> impl Iterator<Item = u32> + '_ {
        let start = token * self.stride();
        self.words[start + 1..start + self.stride()].iter().copied().take_while(|&word| word != NONE)
    }

    fn push(&mut self, origin: (u32, u32), words: impl Iterator<Item = u32>) {
        self.origins.push(origin);
        self.words.extend(words);
    }

    /// Sorts tokens by document, then position.
    fn sort(&mut self) {
        let mut order: Vec<usize> = (0..self.origins.len()).collect();
        order.sort_unstable_by_key(|&token| self.origins[token]);
        self.words =
            order.iter().flat_map(|&token| &self.words[token * self.stride()..][..self.stride()]).copied().collect();
        self.origins = order.iter().map(|&token| self.origins[token]).collect();
    }
}

impl Paths for TokenList {
    fn count(&self) -> usize {
        self.origins.len()
    }
    fn symbols(&self) -> usize {
        self.symbols
    }
    fn depth(&self) -> usize {
        self.depth
    }
    #[inline(always)]
    fn outcome(&self, token: usize) -> u32 {
        self.words[token * self.stride()]
    }
    #[inline(always)]
    fn element(&self, token: usize, depth: usize) -> Option<u32> {
        Some(self.words[token * self.stride() + 1 + depth]).filter(|&word| word != NONE)
    }
}

/// A document to test on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TestDocument {
    /// In the catalogue.
    pub number: u32,
    /// The shard whose worker evaluates it.
    pub shard: u32,
    pub tokens: u32,
}

/// A dish of a shared restaurant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TopDish {
    /// The context, which is one word; [`NONE`] for the empty context.
    pub element: u32,
    pub outcome: u32,
    /// Training tokens of all shards that pass it.
    pub tokens: u32,
}

/// The tokens of a worker's shards.
pub struct Dealt {
    pub deal: Deal,
    pub own: Own,
    /// How many documents there are to train on.
    pub documents: usize,
    /// All documents to test on; the shards take turns.
    pub test_documents: Vec<TestDocument>,
    /// Tokens to train on, with their documents counted from 0.
    pub training: TokenList,
    /// Tokens to test on, sorted, with the positions of their documents in `test_documents`.
    pub test: TokenList,
    /// Dishes of shared restaurants, sorted; those of the empty context last. None if there is one shard.
    pub top: Vec<TopDish>,
    /// Training tokens of each outcome, over all shards.
    pub by_outcome: Vec<u64>,
    /// In which part of a pass each outcome is; empty if there is one part.
    pub part_of: Vec<u8>,
}

/// Documents one after the other.
struct LaidOut {
    tokens: Tokens,
    /// Number in the catalogue, shard, and tokens.
    documents: Vec<(u32, u32, Range<usize>)>,
}

impl LaidOut {
    fn new(symbols: Symbols, depth: usize, shares: impl IntoIterator<Item = (u32, Vec<(u32, Vec<u32>)>)>) -> LaidOut {
        let mut tokens = Tokens::new(symbols, depth);
        let mut documents = vec![];
        for (shard, of_shard) in shares {
            for (number, words) in of_shard {
                let start = tokens.len();
                words.split_inclusive(|&word| word == symbols.end).for_each(|words| tokens.push_sentence(words));
                documents.push((number, shard, start..tokens.len()));
            }
        }
        LaidOut { tokens, documents }
    }

    fn context(&self, token: usize) -> impl Iterator<Item = u32> + '_ {
        (0..self.tokens.depth()).map_while(move |depth| self.tokens.element(token, depth))
    }

    fn tokens(&self) -> impl Iterator<Item = usize> + use<> {
        0..self.tokens.len()
    }
}

impl Dealt {
    /// Deals the tokens of the documents of all workers, each of which has its own in `share`. Every worker calls this.
    /// `parts` is the number of parts of a pass.
    pub fn new(
        own: Own,
        exchange: Exchange<'_>,
        symbols: Symbols,
        depth: usize,
        shards: u32,
        parts: usize,
        share: Share,
    ) -> Dealt {
        let mut dealer = Dealer { own, exchange };
        let [training, test] = [share.training, share.test].map(|shares| LaidOut::new(symbols, depth, shares));
        let (numbers, test_documents) = (dealer.numbers(&training), dealer.test_documents(&test));
        let by_outcome = dealer.by_outcome(&training, symbols);
        let deal = dealer.agree(&training, symbols, shards);
        let top = if shards == 1 { vec![] } else { dealer.top(&training, &test, symbols, &deal, &by_outcome) };
        let place = |number: u32| numbers.binary_search(&number).expect("the number of a document") as u32;
        let training = dealer.send(training, place, &deal, TokenList::new(depth, symbols));
        let part_of = if parts == 1 { vec![] } else { dealer.part_of(&training, &deal, by_outcome.len(), parts) };
        let places: BTreeMap<u32, u32> = test_documents.iter().map(|document| document.number).zip(0..).collect();
        let place = |number: u32| places[&number];
        let mut test = dealer.send(test, place, &deal, TokenList::new(depth, symbols));
        test.sort();
        Dealt { documents: numbers.len(), own, test_documents, training, test, top, by_outcome, part_of, deal }
    }
}

/// A worker that deals together with the others.
struct Dealer<'e> {
    own: Own,
    exchange: Exchange<'e>,
}

impl Dealer<'_> {
    /// The messages of all workers to all workers, one after the other.
    fn share(&mut self, message: Vec<u32>) -> Vec<u32> {
        let messages = vec![message; self.own.peers()];
        (self.exchange)(messages).concat()
    }

    /// The sum of all workers' counts.
    fn sum(&mut self, counts: &[u64]) -> Vec<u64> {
        let message = counts.iter().flat_map(|&count| [count as u32, (count >> 32) as u32]).collect();
        let mut sums = vec![0; counts.len()];
        for (place, words) in self.share(message).chunks_exact(2).enumerate() {
            sums[place % counts.len()] += u64::from(words[0]) | u64::from(words[1]) << 32;
        }
        sums
    }

    /// The numbers of all documents to train on, rising.
    fn numbers(&mut self, training: &LaidOut) -> Vec<u32> {
        let mut numbers = self.share(training.documents.iter().map(|(number, ..)| *number).collect());
        numbers.sort_unstable();
        numbers
    }

    fn test_documents(&mut self, test: &LaidOut) -> Vec<TestDocument> {
        let words = |(number, shard, tokens): &(u32, u32, Range<usize>)| [*number, *shard, tokens.len() as u32];
        let message = test.documents.iter().flat_map(words).collect();
        let document = |words: &[u32]| TestDocument { number: words[0], shard: words[1], tokens: words[2] };
        let mut documents: Vec<TestDocument> = self.share(message).chunks_exact(3).map(document).collect();
        documents.sort_unstable();
        take_turns(documents)
    }

    fn by_outcome(&mut self, training: &LaidOut, symbols: Symbols) -> Vec<u64> {
        let mut by_outcome = vec![0; symbols.outcomes() as usize];
        training.tokens().for_each(|token| by_outcome[training.tokens.outcome(token) as usize] += 1);
        self.sum(&by_outcome)
    }

    /// The part of a pass of each outcome. The own tokens have been dealt.
    fn part_of(&mut self, training: &TokenList, deal: &Deal, outcomes: usize, parts: usize) -> Vec<u8> {
        let (own, shards) = (work::of_words(training, deal), deal.shards() as usize);
        let mut by_outcome = vec![0; outcomes];
        own.iter().for_each(|&(_, outcome, work)| by_outcome[outcome as usize] += work);
        let runs = work::runs(&self.sum(&by_outcome), deal.shards(), parts);
        let mut by_run = vec![0; runs.len() * shards];
        for (shard, outcome, work) in own {
            let run = runs.partition_point(|run| run.end <= outcome as usize);
            by_run[run * shards + shard as usize] += work;
        }
        let by_run: Vec<Vec<u64>> = self.sum(&by_run).chunks(shards).map(<[u64]>::to_vec).collect();
        let of_runs = runs.iter().zip(work::deal_runs(&by_run, parts));
        of_runs.flat_map(|(run, part)| run.clone().map(move |_| part as u8)).collect()
    }

    /// Agrees with the other workers on the shard of every context.
    fn agree(&mut self, training: &LaidOut, symbols: Symbols, shards: u32) -> Deal {
        if shards == 1 {
            return Deal::alone();
        }
        let mut by_element = vec![0; symbols.all() as usize];
        let first = |token: usize| training.context(token).next();
        training.tokens().filter_map(first).for_each(|first| by_element[first as usize] += 1);
        let keys = Keys::new(&self.sum(&by_element), shards);
        let by_key = self.work_by_key(training, &keys);
        Deal::new(keys, &by_key)
    }

    /// The work of every key. Whichever worker reads an n-gram, one of them counts it as a first token: that of its hash.
    fn work_by_key(&mut self, training: &LaidOut, keys: &Keys) -> Vec<u64> {
        let (mut by_key, mut ngrams) = (vec![0; keys.count()], Vec::with_capacity(training.tokens.len()));
        for token in training.tokens() {
            let outcome = training.tokens.outcome(token);
            let key = keys.key_of(training.context(token), outcome);
            by_key[key as usize] += 1;
            ngrams.push((key, work::hash(training.context(token), outcome)));
        }
        ngrams.sort_unstable();
        ngrams.dedup();
        let peers = self.own.peers();
        let mut messages = vec![vec![]; peers];
        ngrams.drain(..).for_each(|(key, hash)| messages[hash as usize % peers].extend([key, hash]));
        for message in (self.exchange)(messages) {
            ngrams.extend(message.chunks_exact(2).map(|words| (words[0], words[1])));
        }
        ngrams.sort_unstable();
        ngrams.dedup();
        ngrams.iter().for_each(|(key, _)| by_key[*key as usize] += work::FIRST_TOKEN - 1);
        self.sum(&by_key)
    }

    /// The dishes of the shared restaurants: of contexts that are one split word, and of the empty one. Those that only test
    /// tokens have are among them, so that they have the same numbers on all workers.
    fn top(
        &mut self,
        training: &LaidOut,
        test: &LaidOut,
        symbols: Symbols,
        deal: &Deal,
        by_outcome: &[u64],
    ) -> Vec<TopDish> {
        let (mut dishes, mut tested) = (vec![], vec![0; symbols.outcomes() as usize]);
        for (part, tokens) in [(training, 1), (test, 0)] {
            for token in part.tokens() {
                let outcome = part.tokens.outcome(token);
                tested[outcome as usize] += 1 - u64::from(tokens);
                let split = part.context(token).next().filter(|&first| deal.keys.is_split(first));
                dishes.extend(split.map(|element| TopDish { element, outcome, tokens }));
            }
        }
        let tested = self.sum(&tested);
        let message = added_up(dishes).into_iter().flat_map(|dish| [dish.element, dish.outcome, dish.tokens]).collect();
        let dish = |words: &[u32]| TopDish { element: words[0], outcome: words[1], tokens: words[2] };
        let mut dishes = added_up(self.share(message).chunks_exact(3).map(dish).collect());
        for ((outcome, &tokens), &tested) in (0..).zip(by_outcome).zip(&tested) {
            if tokens + tested > 0 {
                dishes.push(TopDish { element: NONE, outcome, tokens: tokens as u32 });
            }
        }
        dishes
    }

    /// Sends tokens to the workers of their shards, and adds those of the own shards to `list`. `place` is the number of a
    /// document that goes with them.
    fn send(&mut self, laid_out: LaidOut, place: impl Fn(u32) -> u32, deal: &Deal, mut list: TokenList) -> TokenList {
        let (peers, depth) = (self.own.peers(), list.depth);
        let mut tokens = laid_out.documents.iter().flat_map(|(number, _, tokens)| {
            let document = place(*number);
            tokens.clone().map(move |token| (document, (token - tokens.start) as u32, token))
        });
        let mut is_more = true;
        while is_more {
            let (mut messages, mut words, mut has_more) = (vec![vec![]; peers], 0, false);
            for (document, at, token) in tokens.by_ref() {
                let outcome = laid_out.tokens.outcome(token);
                let shard = deal.shard_of(laid_out.context(token), outcome);
                let message: &mut Vec<u32> = &mut messages[shard as usize % peers];
                message.extend([document, at, outcome]);
                message.extend(laid_out.context(token).chain(std::iter::repeat(NONE)).take(depth));
                words += 3 + depth;
                has_more = words >= FULL;
                if has_more {
                    break;
                }
            }
            messages.iter_mut().for_each(|message| message.push(u32::from(has_more)));
            is_more = false;
            for message in (self.exchange)(messages) {
                let (&flag, tokens) = message.split_last().expect("a flag at the end");
                is_more |= flag == 1;
                for token in tokens.chunks_exact(3 + depth) {
                    list.push((token[0], token[1]), token[2..].iter().copied());
                }
            }
        }
        list
    }
}

/// Puts documents into an order in which the shards take turns, so that all workers have some of any few that are evaluated
/// together. Those of a shard stay in their order.
fn take_turns(documents: Vec<TestDocument>) -> Vec<TestDocument> {
    let mut turns = BTreeMap::new();
    let turn = |document: TestDocument| {
        let turn = turns.entry(document.shard).or_insert(0u32);
        *turn += 1;
        (*turn, document.shard, document)
    };
    let mut documents: Vec<_> = documents.into_iter().map(turn).collect();
    documents.sort_unstable();
    documents.into_iter().map(|(.., document)| document).collect()
}

/// The same dishes, sorted, each once with the sum of its tokens.
fn added_up(mut dishes: Vec<TopDish>) -> Vec<TopDish> {
    dishes.sort_unstable();
    let same = dishes.chunk_by(|a, b| (a.element, a.outcome) == (b.element, b.outcome));
    same.map(|same| TopDish { tokens: same.iter().map(|dish| dish.tokens).sum(), ..same[0] }).collect()
}
