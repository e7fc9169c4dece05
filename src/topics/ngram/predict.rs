//! Test documents are evaluated by the workers of their shards, with probabilities from the workers of their contexts.
//!
//! For a test token, what a worker needs to know of the model is one vector, p_k(w | h) of all topics with the coin in it
//! ([`super::descent::Descent::mix`]), whatever the number of particles. The worker whose shard has the context makes it, and
//! sends it to the worker that reads the document ([`super::held_out`]); as many documents at a time as fit into a buffer.

use std::ops::Range;
use std::time::Instant;

use super::dealt::TestDocument;
use super::documents::Alpha;
use super::held_out::Reader;
use super::model::{NgramModel, TestToken};
use crate::cluster::gather::Exchange;
use crate::cluster::rng::{Purpose, generator};
use crate::math::lanes::{Block, LANES, blocks};
use crate::topics::job::EvaluationSettings;

/// Numbers in the vectors of all test tokens that are on their way at a time.
const FULL: usize = 1 << 20;

impl NgramModel {
    /// Evaluates the test documents of the own shards. Every worker calls this.
    pub fn predict(&mut self, exchange: Exchange<'_>, sweep: u64) {
        self.prepare_weights();
        self.evaluated = self.shards.keys().map(|&number| (number, vec![0.0; 3])).collect();
        let began = Instant::now();
        let mut tokens = 0;
        for batch in batches(&self.test_documents, self.setup.all_topics()) {
            let of_batch = self.test_tokens[tokens..].partition_point(|token| (token.origin.0 as usize) < batch.end);
            let own = tokens..tokens + of_batch;
            tokens = own.end;
            let messages = self.vectors(own);
            let vectors = Vectors::new(
                &self.test_documents[batch.clone()],
                batch.start,
                exchange(messages),
                self.setup.all_topics(),
            );
            self.read_batch(batch, &vectors, sweep);
        }
        if let Some(mut first) = self.evaluated.first_entry() {
            first.get_mut()[2] = began.elapsed().as_secs_f64();
        }
    }

    /// The vectors of own test tokens, as messages to the workers of their documents.
    fn vectors(&mut self, own: Range<usize>) -> Vec<Vec<u32>> {
        let peers = self.peers;
        let mut messages = vec![vec![]; peers];
        let topics = self.setup.all_topics();
        for place in own {
            let TestToken { origin, leaf } = self.test_tokens[place];
            let document = self.test_documents[origin.0 as usize];
            self.descent.forget();
            self.descent.go_to(&self.tree, leaf);
            self.descent.look(&self.counts, &self.rules);
            let message: &mut Vec<u32> = &mut messages[document.shard as usize % peers];
            message.extend([origin.0, origin.1]);
            let numbers = self.descent.mix().iter().flat_map(|block| block.0);
            message.extend(numbers.take(topics).map(f32::to_bits));
        }
        messages
    }

    /// Evaluates the own documents of a batch.
    fn read_batch(&mut self, batch: Range<usize>, vectors: &Vectors, sweep: u64) {
        let alpha = Alpha::new(self.prior.alpha(), self.setup.form);
        let (form, topics) = (self.setup.form, self.setup.all_topics());
        let EvaluationSettings { particles, resample, .. } = self.setup.evaluation;
        let mut vector = vec![Block::default(); blocks(topics)];
        for (place, document) in batch.clone().zip(&self.test_documents[batch.clone()]) {
            let Some(figures) = self.evaluated.get_mut(&document.shard) else { continue };
            let mut rng = generator(self.setup.seed, Purpose::Evaluation, u64::from(document.number), sweep);
            let mut reader = Reader::new(&alpha, form, topics, particles, resample);
            for numbers in vectors.of(place - batch.start, document) {
                for (topic, &number) in numbers.iter().enumerate() {
                    vector[topic / LANES].0[topic % LANES] = number;
                }
                figures[0] += reader.read(&vector, &mut rng);
            }
            figures[1] += f64::from(document.tokens);
        }
    }

    /// Restaurants of all topics with customers, and bytes of memory, of a shard and its part of the top.
    pub fn sizes(&self, number: u32) -> [f64; 2] {
        let shard = &self.shards[&number];
        let (mut nodes, mut bytes) = (0, 0);
        for places in shard.places.iter().chain(&shard.of_top) {
            nodes += self.counts.nodes(places.restaurants());
            bytes += self.counts.bytes_of(places.restaurants(), places.dishes());
        }
        [nodes as f64, bytes as f64]
    }
}

/// Runs of documents whose vectors fit into a buffer.
fn batches(documents: &[TestDocument], topics: usize) -> Vec<Range<usize>> {
    let (mut batches, mut numbers) = (vec![], 0);
    for (place, document) in documents.iter().enumerate() {
        numbers += document.tokens as usize * topics;
        match batches.last_mut() {
            Some(Range { end, .. }) if numbers <= FULL => *end = place + 1,
            _ => {
                numbers = document.tokens as usize * topics;
                batches.push(place..place + 1);
            }
        }
    }
    batches
}

/// The vectors of the documents of a batch, in the order of their tokens. Those of other workers' documents stay empty.
struct Vectors {
    topics: usize,
    /// By document of the batch, where its vectors begin.
    starts: Vec<usize>,
    numbers: Vec<f32>,
}

impl Vectors {
    fn new(documents: &[TestDocument], first: usize, messages: Vec<Vec<u32>>, topics: usize) -> Vectors {
        let mut is_own = vec![false; documents.len()];
        let stride = topics + 2;
        let place = |words: &[u32]| words[0] as usize - first;
        messages.iter().flat_map(|message| message.chunks_exact(stride)).for_each(|words| is_own[place(words)] = true);
        let (mut starts, mut end) = (vec![], 0);
        for (document, is_own) in documents.iter().zip(is_own) {
            starts.push(end);
            end += if is_own { document.tokens as usize * topics } else { 0 };
        }
        let mut numbers = vec![0.0; end];
        for words in messages.iter().flat_map(|message| message.chunks_exact(stride)) {
            let start = starts[place(words)] + words[1] as usize * topics;
            numbers[start..start + topics]
                .iter_mut()
                .zip(&words[2..])
                .for_each(|(number, &bits)| *number = f32::from_bits(bits));
        }
        Vectors { topics, starts, numbers }
    }

    /// The vectors of a document's tokens.
    fn of(&self, place: usize, document: &TestDocument) -> impl Iterator<Item = &[f32]> {
        let start = self.starts[place];
        self.numbers[start..start + document.tokens as usize * self.topics].chunks_exact(self.topics)
    }
}
