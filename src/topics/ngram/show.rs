//! What a topic n-gram model has learned, for people: the words and phrases of its topics, and which contexts are topical.

use super::kept::Kept;
use super::lookup::{Lookup, TopicNgrams};
use crate::corpus::vocabulary::UNKNOWN;
use crate::math::ln;
use crate::restaurant::tree::NONE;
use crate::topics::description::{Description, Range, Topic};
use crate::topics::model::relevance;

/// The ranges of lambda that the paper's Table 3 shows.
const RANGES: [[f64; 2]; 3] = [[0.0, 0.1], [0.5, 0.6], [0.9, 1.0]];

/// Everything, with so many words, phrases and contexts in a row.
pub fn describe(model: &TopicNgrams, count: usize) -> Description {
    let (kept, contexts) = (&model.kept, Contexts::new(model));
    let first = usize::from(kept.form.has_global());
    let strength: f64 = kept.alpha.iter().sum();
    let lists = top_words(kept, count).into_iter().zip(top_phrases(&contexts, count));
    let topic = |(topic, (words, phrases)): (usize, (Vec<u32>, Vec<String>))| Topic {
        topic,
        share: topic.checked_sub(first).map(|at| kept.alpha[at] / strength),
        words: words.into_iter().map(|word| model.word(word).to_string()).collect(),
        phrases: Some(phrases),
    };
    let of_range = |([from, to], contexts): ([f64; 2], Vec<String>)| Range { from, to, contexts };
    let by_lambda = match kept.form.has_global() {
        true => RANGES.into_iter().zip(contexts.by_topicality(count)).map(of_range).collect(),
        false => vec![],
    };
    Description {
        model: kept.name(),
        vocabulary: kept.vocabulary.len(),
        contexts: Some(kept.tree.restaurants()),
        topics: lists.enumerate().map(topic).collect(),
        contexts_by_lambda: by_lambda,
    }
}

/// The words that set each topic off most, by its customers at the root: how many contexts it is a surprise in.
fn top_words(kept: &Kept, count: usize) -> Vec<Vec<u32>> {
    let mut totals = vec![0.0; kept.all_topics()];
    let root = || kept.tree.dishes(0).map(|dish| (kept.tree.outcome(dish), kept.list(dish)));
    for &(topic, customers, _) in root().flat_map(|(_, list)| list) {
        totals[usize::from(topic)] += f64::from(customers);
    }
    let all: f64 = totals.iter().sum();
    let mut scored: Vec<Vec<(f64, u32)>> = vec![vec![]; totals.len()];
    // The unknown word and the end of a sentence, which is behind all words, tell nothing.
    for (word, list) in root().filter(|(word, _)| *word != UNKNOWN && (*word as usize) < kept.vocabulary.len()) {
        let overall = list.iter().map(|seat| f64::from(seat.1)).sum::<f64>() / all;
        for &(topic, customers, _) in list {
            let inside = f64::from(customers) / totals[usize::from(topic)];
            scored[usize::from(topic)].push((relevance(inside, overall), word));
        }
    }
    scored.into_iter().map(|words| best(words, count)).collect()
}

/// Those with the highest scores; of equal ones the first.
fn best<T>(mut scored: Vec<(f64, T)>, count: usize) -> Vec<T> {
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.into_iter().take(count).map(|(_, item)| item).collect()
}

/// The phrases of each topic.
///
/// Those of the paper's Table 4 have a high p(w, n | k, h) = p(n | h) p(w | k, n, h). Nearly every context that was seen
/// once has one. So here a phrase counts as often as topic k has it, and as far as that is more than is to be expected:
///
/// ```text
/// c_k(w | h) p(n | h) p(w | k, n, h) ln (share of k among the customers of w after h / share of k among all)
/// ```
///
/// Where the order is fixed, phrases are whole n-grams and p(n | h) is 1. Punctuation ends a phrase.
fn top_phrases(contexts: &Contexts<'_>, count: usize) -> Vec<Vec<String>> {
    let kept = &contexts.model.kept;
    let mut totals = vec![0.0; kept.all_topics()];
    kept.seats.iter().for_each(|&(topic, customers, _)| totals[usize::from(topic)] += f64::from(customers));
    let all: f64 = totals.iter().sum();
    let shortest = if kept.stop.is_some() { 1 } else { kept.depth().max(1) };
    let mut scored: Vec<Vec<(f64, (usize, u32))>> = vec![vec![]; totals.len()];
    let (mut lookup, mut history) = (Lookup::new(contexts.model), vec![]);
    for depth in shortest..=kept.depth() {
        for context in kept.tree.level(depth) {
            contexts.history(context, &mut history);
            if !history.iter().all(|&word| contexts.is_in_phrases(word)) {
                continue;
            }
            for dish in kept.tree.dishes(context).filter(|&dish| contexts.is_in_phrases(kept.tree.outcome(dish))) {
                let (word, list) = (kept.tree.outcome(dish), kept.list(dish));
                if list.iter().all(|seat| seat.1 < 2) {
                    continue; // once is no phrase
                }
                lookup.go(&history, word);
                let here: f64 = list.iter().map(|seat| f64::from(seat.1)).sum();
                for &(topic, customers, _) in list.iter().filter(|seat| seat.1 > 1) {
                    let (topic, customers) = (usize::from(topic), f64::from(customers));
                    let lift_ln = ln(customers / here / (totals[topic] / all));
                    let fits = lookup.descent.orders[depth] * lookup.descent.probability(topic, depth);
                    if lift_ln > 0.0 {
                        scored[topic].push((customers * fits * lift_ln, (context, word)));
                    }
                }
            }
        }
    }
    let phrase = |(context, word)| format!("{} {}", contexts.words(context), contexts.model.word(word));
    scored.into_iter().map(|phrases| best(phrases, count).into_iter().map(phrase).collect()).collect()
}

/// The contexts of a model's restaurants.
struct Contexts<'m> {
    model: &'m TopicNgrams,
    parents: Vec<u32>,
}

impl<'m> Contexts<'m> {
    fn new(model: &'m TopicNgrams) -> Contexts<'m> {
        Contexts { model, parents: model.kept.tree.parents() }
    }

    /// Whether a symbol is a word, and a known one.
    fn is_plain(&self, symbol: u32) -> bool {
        symbol != UNKNOWN && symbol < self.model.symbols.end
    }

    /// The same, and no punctuation.
    fn is_in_phrases(&self, symbol: u32) -> bool {
        self.is_plain(symbol) && self.model.word(symbol).contains(char::is_alphanumeric)
    }

    /// The words of a context, nearest first.
    fn history(&self, mut restaurant: usize, words: &mut Vec<u32>) {
        words.clear();
        while self.parents[restaurant] != NONE {
            words.push(self.model.kept.tree.element(restaurant));
            restaurant = self.parents[restaurant] as usize;
        }
        words.reverse();
    }

    /// The same as text.
    fn words(&self, restaurant: usize) -> String {
        let mut words = vec![];
        self.history(restaurant, &mut words);
        words.iter().rev().map(|&word| self.model.word(word)).collect::<Vec<&str>>().join(" ")
    }

    /// For each range of lambda, the contexts that are thrown for most often. Where the order is fixed, they are whole.
    fn by_topicality(&self, count: usize) -> Vec<Vec<String>> {
        let kept = &self.model.kept;
        let lambdas = self.lambdas();
        let shortest = if kept.stop.is_some() { 1 } else { kept.depth().max(1) };
        let whole = if kept.depth() < shortest { 0..0 } else { kept.tree.level(shortest).start..lambdas.len() };
        let mut history = vec![];
        let of_range = |[from, to]: [f64; 2]| {
            let mut scored = vec![];
            for context in whole.clone() {
                let is_in = lambdas[context] >= from && (lambdas[context] < to || to == 1.0);
                self.history(context, &mut history);
                if is_in && history.iter().all(|&word| self.is_plain(word)) {
                    scored.push((f64::from(kept.throws[context].iter().sum::<u32>()), context));
                }
            }
            best(scored, count).into_iter().map(|context| self.words(context)).collect()
        };
        RANGES.map(of_range).to_vec()
    }

    /// p(yes) of each coin.
    fn lambdas(&self) -> Vec<f64> {
        let kept = &self.model.kept;
        let mut lambdas: Vec<f64> = Vec::with_capacity(kept.tree.restaurants());
        for (depth, gamma) in kept.coins.strengths.iter().enumerate() {
            for restaurant in kept.tree.level(depth) {
                let [no, yes] = kept.throws[restaurant].map(f64::from);
                let above = match self.parents[restaurant] {
                    NONE => 0.5,
                    parent => lambdas[parent as usize],
                };
                lambdas.push((yes + gamma * above) / (no + yes + gamma));
            }
        }
        lambdas
    }
}
