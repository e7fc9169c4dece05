//! The sampler, the prior and the evaluator against exact answers: enumeration, numerical integration, and the joint
//! distribution itself. Every bound is some standard errors wide at a fixed seed, and fails for a sampler that is wrong
//! by a few per cent.

use super::collection::Share;
use super::counts::TopicCounts;
use super::document_counts::DocumentCounts;
use super::documents::ShardDocuments;
use super::job::{EvaluationSettings, ModelSettings, Rounds};
use super::lda::Lda;
use super::left_to_right::LeftToRight;
use super::log_likelihood::{WordSide, documents_ln, totals_ln};
use super::prior::{Prior, PriorStatistics};
use super::sampler::{KEPT, Kernel, Lists, Pass, Sampler};
use crate::cluster::engine::Cluster;
use crate::cluster::rng::{Generator, Purpose, generator};
use crate::cluster::rows::{Rows, rows};
use crate::cluster::sweep::{Control, Model, Schedule, train};
use crate::math::exactness::{Draws, Mean, assert_exact, assert_mean, total_variation};
use crate::math::{draws, gamma_ln};

const KERNELS: [Kernel; 2] = [Kernel::Dense, Kernel::Sparse];

fn rng(a: u64, b: u64) -> Generator {
    generator(20, Purpose::Synth, a, b)
}

/// Documents of one shard, in one part.
fn documents(words: &[&[u32]]) -> ShardDocuments {
    of_words(words.iter().map(|words| words.to_vec()))
}

fn of_words(documents: impl IntoIterator<Item = Vec<u32>>) -> ShardDocuments {
    let mut all = ShardDocuments::default();
    (0..).zip(documents).for_each(|(number, words)| words.into_iter().for_each(|word| all.push(number, word)));
    all.finish(&[0], |word| word);
    all
}

fn counted(documents: &ShardDocuments, rows: usize, topics: usize) -> TopicCounts {
    let mut counts = TopicCounts::new(rows, topics);
    counts.add_documents(documents);
    counts
}

/// n_dk of documents that are all in one shard.
fn listed(documents: &ShardDocuments, topics: usize) -> DocumentCounts {
    let mut lists = DocumentCounts::new((0..documents.len()).map(|d| documents.range(d).len()), topics);
    for document in 0..documents.len() {
        let mut of_document = documents.document(document).1.to_vec();
        of_document.sort_unstable();
        let mut packed = Rows::default();
        packed.begin_row(0);
        of_document.chunk_by(|a, b| a == b).for_each(|z| packed.push(usize::from(z[0]), z.len() as i32));
        packed.end_row();
        rows(packed.words()).for_each(|(_, list)| lists.apply(document, list));
    }
    lists
}

/// What [`documents_ln`] and the statistics of the prior take.
fn lists(counts: &DocumentCounts) -> impl Iterator<Item = impl Iterator<Item = (usize, u32)> + '_> + '_ {
    (0..counts.len()).map(|document| counts.counts(document))
}

/// A sampler, and the counts of documents that are all in one shard.
struct Alone {
    sampler: Sampler,
    lists: DocumentCounts,
    places: Vec<u32>,
    changes: Rows,
}

impl Alone {
    fn new(kernel: Kernel, documents: &ShardDocuments, topics: usize) -> Alone {
        let lists = listed(documents, topics);
        let mut places = vec![];
        for document in 0..documents.len() {
            places.resize(documents.number(document) as usize + 1, KEPT | document as u32);
        }
        Alone { sampler: Sampler::with_kernel(kernel), lists, places, changes: Rows::default() }
    }

    fn sweep(&mut self, counts: &mut TopicCounts, documents: &mut ShardDocuments, prior: &Prior, rng: &mut Generator) {
        self.pass(counts, documents, |sampler, pass| sampler.sweep(pass, prior, rng));
    }

    fn pass(
        &mut self,
        counts: &mut TopicCounts,
        documents: &mut ShardDocuments,
        sweep: impl FnOnce(&mut Sampler, &mut Pass<'_>),
    ) {
        let base = Lists { kept: &self.lists, lent: &[], places: &self.places };
        sweep(&mut self.sampler, &mut Pass { counts, documents, part: 0, base, changes: &mut self.changes });
        for (number, packed) in rows(self.changes.words()) {
            self.lists.apply((self.places[number as usize] ^ KEPT) as usize, packed);
        }
        self.changes.clear();
    }
}

/// ln p(w, z | alpha, beta).
fn joint_ln(counts: &TopicCounts, documents: &ShardDocuments, prior: &Prior) -> f64 {
    let side = WordSide::new(prior);
    let words: f64 = (0..counts.rows() as u32).map(|row| side.word_ln(counts.row(row))).sum();
    totals_ln(counts.totals(), prior) + words + documents_ln(lists(&listed(documents, prior.topics())), prior)
}

/// All assignments of `tokens` topics, as digits of a number to the base K.
fn assignments(tokens: usize, topics: usize) -> impl Iterator<Item = Vec<u16>> {
    (0..topics.pow(tokens as u32))
        .map(move |code| (0..tokens).map(|i| (code / topics.pow(i as u32) % topics) as u16).collect())
}

/// p(z | w) by enumeration.
fn posterior(documents: &ShardDocuments, rows: usize, prior: &Prior) -> Vec<f64> {
    let mut documents = documents.clone();
    let mut p: Vec<f64> = assignments(documents.tokens(), prior.topics())
        .map(|topics| {
            documents.topics_mut().copy_from_slice(&topics);
            joint_ln(&counted(&documents, rows, prior.topics()), &documents, prior).exp()
        })
        .collect();
    let sum: f64 = p.iter().sum();
    p.iter_mut().for_each(|p| *p /= sum);
    p
}

/// Three documents over three of four words (the fourth occurs nowhere), with an empty one between.
fn tiny() -> (ShardDocuments, Prior) {
    let prior = Prior::new(3, 1.0, 0.3, 4).with_alpha(vec![0.9, 0.4, 0.2]);
    (documents(&[&[0, 1, 0], &[2, 2], &[], &[0, 2]]), prior)
}

#[test]
fn a_long_chain_visits_assignments_as_often_as_enumeration_says() {
    let (start, prior) = tiny();
    let exact = posterior(&start, 3, &prior);
    const KEPT: usize = 400_000;
    for kernel in KERNELS {
        let mut documents = start.clone();
        let mut counts = counted(&documents, 3, 3);
        let mut sampler = Alone::new(kernel, &documents, 3);
        let mut visits = vec![0usize; exact.len()];
        let mut rng = rng(1, kernel as u64);
        for sweep in 0..KEPT * 3 {
            sampler.sweep(&mut counts, &mut documents, &prior, &mut rng);
            // Every third sweep is nearly independent of the last.
            if sweep % 3 == 2 {
                let code = documents.topics().iter().rev().fold(0, |code, &topic| code * 3 + usize::from(topic));
                visits[code] += 1;
            }
        }
        let kept = KEPT as f64;
        let chi: f64 = visits.iter().zip(&exact).map(|(&n, p)| (n as f64 - kept * p).powi(2) / (kept * p)).sum();
        // 2187 states: independent draws have distance about 0.025, and chi-square 2186 with deviation 66. A sampler that is
        // off by 0.056 passes the first with probability exp(-290).
        let seen = visits.iter().map(|&n| n as f64).enumerate().collect();
        let exact = exact.iter().copied().enumerate().collect();
        assert_exact(&format!("{kernel:?}"), &seen, &exact, Draws::Chain(KEPT), 0.028);
        assert!(chi < 2600.0, "{kernel:?}: chi-square {chi}");
    }
}

/// Words and topics drawn from the model itself, phi and theta included.
fn forward(lengths: &[usize], rows: usize, prior: &Prior, rng: &mut Generator) -> ShardDocuments {
    let topics = prior.topics();
    let mut phi = vec![vec![prior.beta(); rows]; topics];
    phi.iter_mut().for_each(|phi| draws::dirichlet(phi, rng));
    let (mut documents, mut z) = (vec![], vec![]);
    for &length in lengths {
        let mut theta = prior.alpha().to_vec();
        draws::dirichlet(&mut theta, rng);
        let start = z.len();
        z.extend((0..length).map(|_| pick(&theta, rng) as u16));
        let words: Vec<u32> = z[start..].iter().map(|&topic| pick(&phi[topic as usize], rng) as u32).collect();
        documents.push(words);
    }
    let mut documents = of_words(documents);
    documents.topics_mut().copy_from_slice(&z);
    documents
}

fn pick(weights: &[f64], rng: &mut Generator) -> usize {
    let mut target = draws::unit(rng) * weights.iter().sum::<f64>();
    for (i, weight) in weights.iter().enumerate() {
        target -= weight;
        if target < 0.0 {
            return i;
        }
    }
    weights.len() - 1
}

/// Statistics that Geweke's test compares: of topics alone, of words and topics, and of neighbours in a document.
fn geweke_statistics(documents: &ShardDocuments, topics: usize) -> [f64; 4] {
    let (mut largest, mut same_word, mut neighbours, mut zeros) = (0.0, 0.0, 0.0, 0.0);
    let (words, z) = (documents.words(), documents.topics());
    for topic in 0..topics as u16 {
        largest = z.iter().filter(|&&other| other == topic).count().max(largest as usize) as f64;
    }
    for i in 0..z.len() {
        zeros += f64::from(u8::from(z[i] == 0));
        same_word += (0..i).filter(|&j| words[i] == words[j] && z[i] == z[j]).count() as f64;
    }
    for document in 0..documents.len() {
        let (_, z) = documents.document(document);
        neighbours += z.windows(2).filter(|pair| pair[0] == pair[1]).count() as f64;
    }
    [largest, same_word, neighbours, zeros]
}

/// Geweke (2004): alternating sweeps of z given w with draws of w given z has the same joint distribution as drawing
/// both from the model.
#[test]
fn sweeps_leave_the_joint_distribution_as_it_is() {
    const ROUNDS: usize = 60_000;
    let prior = Prior::new(4, 1.0, 0.5, 5).with_alpha(vec![0.7, 0.5, 0.3, 0.2]);
    let lengths = [6, 3, 8];
    let mut forward_rng = rng(2, 0);
    let expected = Batches::gather(ROUNDS, || geweke_statistics(&forward(&lengths, 5, &prior, &mut forward_rng), 4));
    for kernel in KERNELS {
        let mut rng = rng(2, 1 + kernel as u64);
        let mut documents = forward(&lengths, 5, &prior, &mut rng);
        let mut sampler = Alone::new(kernel, &documents, 4);
        let chain = Batches::gather(ROUNDS, || {
            let mut counts = counted(&documents, 5, 4);
            sampler.sweep(&mut counts, &mut documents, &prior, &mut rng);
            documents = redraw_words(&documents, 5, &prior, &mut rng);
            geweke_statistics(&documents, 4)
        });
        for i in 0..4 {
            assert_mean(&format!("{kernel:?}, statistic {i}"), chain.mean(i), expected.mean(i), 0.01);
        }
    }
}

/// w given z: fresh phi from its posterior given nothing but z, which is its prior.
fn redraw_words(documents: &ShardDocuments, rows: usize, prior: &Prior, rng: &mut Generator) -> ShardDocuments {
    let mut phi = vec![vec![prior.beta(); rows]; prior.topics()];
    phi.iter_mut().for_each(|phi| draws::dirichlet(phi, rng));
    let words = (0..documents.len()).map(|document| {
        let (_, z) = documents.document(document);
        z.iter().map(|&topic| pick(&phi[topic as usize], rng) as u32).collect()
    });
    let mut redrawn = of_words(words);
    redrawn.topics_mut().copy_from_slice(documents.topics());
    redrawn
}

/// Means of 100 batches of four statistics, for standard errors of dependent draws.
struct Batches(Vec<[f64; 4]>);

impl Batches {
    fn gather(rounds: usize, mut draw: impl FnMut() -> [f64; 4]) -> Batches {
        let mut batches = vec![[0.0; 4]; 100];
        for batch in &mut batches {
            for _ in 0..rounds / 100 {
                let statistics = draw();
                (0..4).for_each(|i| batch[i] += statistics[i] / (rounds / 100) as f64);
            }
        }
        Batches(batches)
    }

    fn mean(&self, i: usize) -> Mean {
        let value = self.0.iter().map(|batch| batch[i]).sum::<f64>() / self.0.len() as f64;
        let squares: f64 = self.0.iter().map(|batch| (batch[i] - value).powi(2)).sum();
        Mean { value, error: squares.sqrt() / self.0.len() as f64 }
    }
}

#[test]
fn left_to_right_is_exact_in_expectation() {
    let (training, prior) = tiny();
    let mut training = training;
    training.topics_mut().copy_from_slice(&[0, 1, 0, 2, 1, 0, 2]);
    let counts = counted(&training, 3, 3);
    let words = [0u32, 2, 1, 0, 2, 2];
    // sum over z of p(z | alpha) prod_n phi.
    let mut held_out = documents(&[&words]);
    let phi = |word, topic: u16| {
        let total = counts.totals()[topic as usize] as f64;
        (f64::from(counts.get(word, topic)) + prior.beta()) / (total + prior.vocabulary_mass())
    };
    let exact: f64 = assignments(words.len(), 3)
        .map(|z| {
            held_out.topics_mut().copy_from_slice(&z);
            let words: f64 = words.iter().zip(&z).map(|(&word, &topic)| phi(word, topic)).product();
            documents_ln(lists(&listed(&held_out, 3)), &prior).exp() * words
        })
        .sum();
    const RUNS: usize = 200_000;
    for (particles, resample) in [(1, 0), (1, 2), (3, 2), (4, 1), (3, 0)] {
        let method = LeftToRight { particles, resample };
        let mut rng = rng(3, (particles * 10 + resample) as u64);
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..RUNS {
            let held_out = method.document(&counts, &prior, &words, &mut rng);
            assert_eq!(held_out.words, 6);
            let p = held_out.probability_ln.exp() / exact;
            sum += p;
            squares += p * p;
        }
        let mean = sum / RUNS as f64;
        let error = ((squares / RUNS as f64 - mean * mean) / RUNS as f64).sqrt();
        assert_mean(&format!("{method:?}"), Mean { value: mean, error }, Mean { value: 1.0, error: 0.0 }, 0.002);
    }
}

/// Means of the strength and of alpha0_0 under their posterior, by integration over a grid for two topics.
fn integrated(documents: &ShardDocuments) -> (f64, f64) {
    let (mut sum, mut strength_sum, mut share_sum) = (0.0, 0.0, 0.0);
    const STEPS: usize = 400;
    for i in 0..STEPS * 4 {
        let strength = (i as f64 + 0.5) * 20.0 / (STEPS * 4) as f64;
        for j in 0..STEPS {
            let share = (j as f64 + 0.5) / STEPS as f64;
            let alpha = [strength * share, strength * (1.0 - share)];
            let mut p_ln = -strength;
            for document in 0..documents.len() {
                let (_, z) = documents.document(document);
                p_ln += gamma_ln(strength) - gamma_ln(strength + z.len() as f64);
                for topic in 0..2u16 {
                    let n = z.iter().filter(|&&other| other == topic).count() as f64;
                    p_ln += gamma_ln(alpha[topic as usize] + n) - gamma_ln(alpha[topic as usize]);
                }
            }
            let p = p_ln.exp();
            sum += p;
            strength_sum += p * strength;
            share_sum += p * share;
        }
    }
    (strength_sum / sum, share_sum / sum)
}

#[test]
fn the_prior_is_drawn_from_its_posterior() {
    let mut documents = documents(&[&[0; 7], &[0; 4], &[], &[0; 1], &[0; 9]]);
    documents.topics_mut().copy_from_slice(&[0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0]);
    let (strength, share) = integrated(&documents);
    let mut prior = Prior::new(2, 1.0, 0.1, 1);
    let counts = listed(&documents, 2);
    let mut rng = rng(4, 0);
    let chain = Batches::gather(400_000, || {
        let statistics = PriorStatistics::of_lists(lists(&counts), &prior, &mut rng);
        prior.redraw(&statistics, &mut rng);
        [prior.strength(), prior.alpha()[0] / prior.strength(), 0.0, 0.0]
    });
    for (i, exact) in [strength, share].into_iter().enumerate() {
        // The error is that of the grid.
        assert_mean(&i.to_string(), chain.mean(i), Mean { value: exact, error: 2.5e-5 }, 0.01);
    }
}

#[test]
fn statistics_of_shards_add_up() {
    let (documents, prior) = tiny();
    let counts = listed(&documents, 3);
    let first = PriorStatistics::of_lists(lists(&counts), &prior, &mut rng(5, 0));
    let second = PriorStatistics::of_lists(lists(&counts), &prior, &mut rng(5, 1));
    let mut sum = PriorStatistics::new(3);
    sum.add(&first);
    sum.add(&second);
    assert_eq!(sum.tables[0], first.tables[0] + second.tables[0]);
    assert_eq!(sum.eta_ln, first.eta_ln + second.eta_ln);
    // All tokens are in topic 0, and each document that has some has a table.
    assert!(first.tables[0] >= 3 && first.tables[1..] == [0, 0] && first.successes <= 3);
}

/// A collection with `topics` topics of which each document has a few.
fn synthetic(topics: usize, rows: usize, count: usize, length: usize) -> ShardDocuments {
    let prior = Prior::new(topics, 2.0, 0.05, rows as u64);
    forward(&vec![length; count], rows, &prior, &mut rng(6, topics as u64))
}

/// The mean of ln p(w, z) over 60 sweeps. The chain starts from the topics that the words were drawn with, which are
/// themselves a draw from the posterior, so that it has nothing to forget; from a random start, chains end in modes up
/// to 1 % apart.
fn mean_joint_ln(kernel: Kernel, topics: usize) -> f64 {
    let prior = Prior::new(topics, 2.0, 0.05, 500);
    let mut documents = synthetic(topics, 500, 200, 100);
    let mut counts = counted(&documents, 500, topics);
    let mut sampler = Alone::new(kernel, &documents, topics);
    let mut sum = 0.0;
    for sweep in 0..60 {
        sampler.sweep(&mut counts, &mut documents, &prior, &mut rng(8, sweep));
        sum += joint_ln(&counts, &documents, &prior);
    }
    assert_eq!(counts, counted(&documents, 500, topics), "{kernel:?} keeps its counts");
    sum / 60.0
}

#[test]
fn kernels_agree_on_a_larger_corpus() {
    for topics in [20, 150] {
        let [dense, sparse] = KERNELS.map(|kernel| mean_joint_ln(kernel, topics));
        assert!((dense / sparse - 1.0).abs() < 0.002, "{topics} topics: dense {dense}, sparse {sparse}");
    }
}

#[test]
fn a_sweep_is_a_function_of_its_inputs() {
    for kernel in KERNELS {
        let mut used = Sampler::with_kernel(kernel);
        let mut results = Vec::new();
        for repetition in 0..2 {
            let mut documents = synthetic(30, 100, 40, 50);
            let mut counts = counted(&documents, 100, 30);
            let prior = Prior::new(30, 2.0, 0.05, 100);
            let mut alone = Alone::new(kernel, &documents, 30);
            if repetition == 1 {
                std::mem::swap(&mut alone.sampler, &mut used);
            }
            alone.sweep(&mut counts, &mut documents, &prior, &mut rng(9, 0));
            results.push(documents.topics().to_vec());
            // Other work in between leaves nothing behind in the buffers that would show.
            let mut other = synthetic(7, 40, 9, 30);
            let mut counts = counted(&other, 40, 7);
            let mut alone = Alone { sampler: used, ..Alone::new(kernel, &other, 7) };
            alone.sweep(&mut counts, &mut other, &Prior::new(7, 1.0, 0.1, 40), &mut rng(9, 1));
            used = alone.sampler;
        }
        assert_eq!(results[0], results[1], "{kernel:?}");
    }
}

#[test]
fn every_instruction_set_draws_the_same() {
    for (kernel, topics) in [(Kernel::Dense, 30), (Kernel::Dense, 300), (Kernel::Sparse, 30), (Kernel::Sparse, 300)] {
        let start = synthetic(topics, 300, 60, 150);
        let prior = Prior::new(topics, 2.0, 0.05, 300);
        let (mut wide, mut plain) = (start.clone(), start.clone());
        let (mut wide_counts, mut plain_counts) = (counted(&start, 300, topics), counted(&start, 300, topics));
        let (mut wide_rng, mut plain_rng) = (rng(13, 0), rng(13, 0));
        let mut of_wide = Alone::new(kernel, &start, topics);
        let mut of_plain = Alone::new(kernel, &start, topics);
        for _ in 0..20 {
            of_wide.sweep(&mut wide_counts, &mut wide, &prior, &mut wide_rng);
            of_plain.pass(&mut plain_counts, &mut plain, |sampler, pass| match sampler {
                Sampler::Dense(kernel) => kernel.sweep_plainly(pass, &prior, &mut plain_rng),
                Sampler::Sparse(kernel) => kernel.sweep_plainly(pass, &prior, &mut plain_rng),
            });
        }
        assert!(wide.topics() == plain.topics(), "{kernel:?} with {topics} topics");
    }
}

#[test]
fn what_a_pass_notes_is_what_it_changed() {
    for (kernel, topics) in [(Kernel::Dense, 30), (Kernel::Sparse, 30), (Kernel::Sparse, 300)] {
        let mut documents = synthetic(topics, 100, 40, 50);
        let mut counts = counted(&documents, 100, topics);
        let prior = Prior::new(topics, 2.0, 0.05, 100);
        let mut alone = Alone::new(kernel, &documents, topics);
        for sweep in 0..5 {
            alone.sweep(&mut counts, &mut documents, &prior, &mut rng(10, sweep));
            let expected = listed(&documents, topics);
            assert!((0..documents.len()).all(|d| alone.lists.list(d) == expected.list(d)), "{kernel:?}");
            assert_eq!(counts, counted(&documents, 100, topics));
        }
    }
}

#[test]
fn edge_cases_are_sensible() {
    for kernel in KERNELS {
        // No document; one topic; more topics than tokens.
        for (words, topics) in [(&[][..], 3), (&[&[0u32, 1][..]][..], 1), (&[&[0u32, 1][..], &[]][..], 1000)] {
            let mut documents = documents(words);
            documents.assign_at_random(topics, &mut rng(11, 0));
            let mut counts = counted(&documents, 2, topics);
            let prior = Prior::new(topics, 0.5, 0.1, 2);
            for sweep in 0..20 {
                Alone::new(kernel, &documents, topics).sweep(&mut counts, &mut documents, &prior, &mut rng(12, sweep));
            }
            assert_eq!(counts, counted(&documents, 2, topics));
            assert!(documents.topics().iter().all(|&topic| usize::from(topic) < topics));
        }
    }
}

/// Runs `visit` after every sweep of LDA, on one worker; with the topics of all tokens by document.
fn run_in_shards(
    words: &[&[u32]],
    vocabulary: usize,
    prior: &Prior,
    (shards, syncs_per_sweep): (u32, u32),
    sweeps: u64,
    mut visit: impl FnMut(&[u16]) + Send + 'static,
) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let control = Control::of_test(folder.path());
    let schedule = Schedule { shards, sweeps, sync_every: 1, evaluate_every: 0, checkpoint_every: 0 };
    let settings = ModelSettings {
        topics: prior.topics(),
        beta: prior.beta(),
        learn_alpha: false,
        rounds: Rounds { sync_every: 1, syncs_per_sweep },
        ..ModelSettings::default()
    };
    let words: Vec<Vec<u32>> = words.iter().map(|words| words.to_vec()).collect();
    let documents = (0..).zip(words.clone()).collect();
    let share = Share { training: [(0, documents)].into_iter().collect(), ..Share::default() };
    let mut lda = Lda::new(31, &settings, &EvaluationSettings::default(), vocabulary, shards, share);
    lda.set_shared(prior.clone());
    let mut started = Some((lda, move |lda: &Lda| {
        let mut topics: Vec<_> = (0..shards).map(|shard| lda.save_shard(shard).into_iter()).collect();
        let tokens = (0..).zip(&words).flat_map(|(document, words)| words.iter().map(move |&word| (word, document)));
        let of_token = |(word, document)| topics[lda.deal().shard_of(word, document) as usize].next().expect("a topic");
        visit(&tokens.map(of_token).collect::<Vec<u16>>());
    }));
    let started = std::sync::Mutex::new(started.take());
    let program = move |worker: &mut timely::worker::Worker| {
        let (lda, mut visit) = started.lock().expect("one worker").take().expect("one worker");
        train(worker, lda, &schedule, &control, |lda, _| visit(lda)).map_err(|e| e.to_string()).map(|_| ())
    };
    Cluster::local(1).run(Vec::new, program).map_err(|e| e.to_string()).expect("it runs").remove(0).expect("it trains");
}

/// A tiny corpus is where shards of words are furthest from exact: within a part, another shard may change a good part of
/// a topic's tokens. As long as there are parts enough, it is only that.
#[test]
fn shards_of_words_visit_assignments_nearly_as_often_as_enumeration_says() {
    const KEPT: usize = 40_000;
    let words: [&[u32]; 3] = [&[0, 1, 0], &[2, 1], &[]];
    let prior = Prior::new(2, 1.0, 0.3, 4).with_alpha(vec![0.9, 0.4]);
    let exact: std::collections::BTreeMap<usize, f64> =
        posterior(&documents(&words), 3, &prior).into_iter().enumerate().collect();
    // Shards, synchronisations, and how far from exact they may be: measured 0.0094, which is noise, 0.0625 and 0.0949.
    for (shards, syncs, most) in [(1, 3, 0.015), (3, 2, 0.07), (3, 1, 0.105)] {
        let seen = std::sync::Arc::new(std::sync::Mutex::new(std::collections::BTreeMap::<usize, f64>::new()));
        let (visits, mut sweep) = (seen.clone(), 0);
        run_in_shards(&words, 4, &prior, (shards, syncs), 2 * KEPT as u64, move |topics| {
            sweep += 1;
            if sweep % 2 == 0 {
                let code = topics.iter().rev().fold(0, |code, &topic| code * 2 + usize::from(topic));
                *visits.lock().expect("one worker").entry(code).or_default() += 1.0;
            }
        });
        let seen = seen.lock().expect("one worker").clone();
        let distance = total_variation(&seen, &exact);
        assert!(distance < most, "{shards} shards, {syncs} synchronisations: {distance}");
    }
}
