//! The model against exact answers: everything that can be generated is enumerated.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::action::{Action, System};
use super::configuration::{Configurations, NOTHING, Upcoming};
use super::decode::{Decoder, Given, Parse, Predicted};
use super::evaluate::Settings;
use super::gold::{Gold, Token};
use super::hierarchies::Hierarchies;
use super::job::{ContextSettings, Contexts, ModelSettings, Part, Plan, Search, Tags};
use super::lexicon::Lexicon;
use super::mixture::Mixture;
use super::model::{Kept, ParserModel};
use super::sampled::{Derivation, Sampler};
use super::tokens::Tokeniser;
use super::trainer::Trainer;
use super::treebank::{NonProjective, Preparation, TagColumn, Treebank};
use super::tuning::{Tuned, tune};
use crate::cluster::rng::{Purpose, generator};
use crate::cluster::sweep::{self as training, Control, Model, Round, Schedule};
use crate::corpus::text::Encoding;
use crate::corpus::tree::Tree;
use crate::math::draws::unit;
use crate::math::exactness::{Draws, assert_exact};
use crate::restaurant::parameters::Hyperprior;
use crate::transition::arc_standard::Transition;
use crate::transition::{ArcStandard, Label, LeftCorner, TransitionSystem, follow_oracle};

/// Sentences as (word, tag, head, label).
pub(crate) fn conllu(sentences: &[&[(&str, &str, u32, &str)]]) -> String {
    let mut text = String::new();
    for sentence in sentences {
        for (id, (word, tag, head, label)) in (1..).zip(*sentence) {
            text += &format!("{id}\t{word}\t_\t{tag}\t_\t_\t{head}\t{label}\t_\t_\n");
        }
        text.push('\n');
    }
    text
}

fn toy(has_several_roots: bool) -> String {
    let mut sentences: Vec<&[_]> = vec![
        &[("the", "D", 2, "l"), ("dog", "N", 3, "l"), ("barks", "V", 0, "r")],
        &[
            ("the", "D", 2, "l"),
            ("dog", "N", 3, "l"),
            ("barks", "V", 0, "r"),
            ("the", "D", 5, "l"),
            ("dog", "N", 3, "r"),
        ],
        &[("barks", "V", 0, "r"), ("dog", "N", 1, "r")],
        &[("dog", "N", 2, "l"), ("barks", "N", 0, "r")],
        &[("dog", "N", 2, "l"), ("barks", "V", 0, "r"), ("dog", "N", 2, "r"), ("barks", "V", 3, "l")],
    ];
    if has_several_roots {
        sentences.push(&[("dog", "N", 0, "r"), ("barks", "V", 0, "r"), ("dog", "N", 2, "l")]);
    }
    conllu(&[&sentences[..], &sentences[..]].concat())
}

pub(crate) fn plan(model: ModelSettings) -> Plan {
    let contexts = Contexts::of(&model).unwrap();
    Plan {
        seed: 7,
        train: vec![],
        dev: vec![],
        test: vec![],
        hold_out: 0,
        encoding: Encoding::Utf8,
        non_projective: NonProjective::Skip,
        preparation: Preparation::default(),
        contexts,
        model,
        prior: Hyperprior::default(),
        learn_every: 1,
        training_particles: 10,
        schedule: Schedule { shards: 1, sweeps: 5, sync_every: 1, evaluate_every: 0, checkpoint_every: 0 },
    }
}

pub(crate) fn read(text: &str) -> Treebank {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("toy.conllu");
    std::fs::write(&path, text).unwrap();
    let treebank = Treebank::read(&[path], Encoding::Utf8, TagColumn::Upos, NonProjective::Skip).unwrap();
    assert!(treebank.problems.is_empty(), "{:?}", treebank.problems);
    treebank
}

/// A model of the text after a few sweeps, with one shard and no other worker.
pub(crate) fn train(text: &str, settings: ModelSettings) -> (ParserModel, Treebank) {
    let treebank = read(text);
    let plan = plan(settings);
    let lexicon = Lexicon::learn(&treebank, plan.model.min_count).unwrap();
    let tokeniser = Tokeniser {
        lexicon: &lexicon,
        system: plan.model.system,
        contexts: &plan.contexts,
        is_lexicalised: plan.model.lexicalised,
    };
    let mut trainer = Trainer::new(&plan, &lexicon, tokeniser.tokens(&treebank, 1, &[0]));
    trainer.draw_shard(0, 0);
    trainer.sweep_shard(0, 0..5, 0);
    let kept = {
        let hierarchies = trainer.hierarchies(&lexicon).into_iter().map(Arc::new).collect();
        Kept::new(&plan, lexicon, treebank.is_single_rooted(), hierarchies)
    };
    (ParserModel::new(kept).expect("a sound model"), treebank)
}

/// The same where it is learned, from the same sentences, what the contexts of tags and words weigh.
fn train_tuned(text: &str, settings: ModelSettings) -> (ParserModel, Treebank) {
    let (model, treebank) = train(text, settings);
    let forms = |number: usize| model.kept.lexicon.sentence(&treebank, number).iter().map(|word| word.form).collect();
    let sentences: Vec<Vec<u32>> = (0..treebank.len()).map(forms).collect();
    let sentences: Vec<&[u32]> = sentences.iter().map(Vec::as_slice).collect();
    let settings = Settings { search: Search::Particles, particles: 100, tags: Tags::Predict, threads: 2 };
    let Tuned { mixtures, means } = tune(&model, &settings, &sentences, |part| part != Part::Transition);
    assert_eq!(means.iter().map(|(part, _)| *part).collect::<Vec<_>>(), [Part::Tag, Part::Word]);
    assert!(means.iter().all(|(_, weights)| (weights.iter().sum::<f64>() - 1.0).abs() < 1e-9), "{means:?}");
    let is_equal = Part::ALL.map(|part| mixtures[part as usize] == Mixture::equal(2));
    assert_eq!(is_equal, [true, false, false]);
    (ParserModel::new(Kept { mixtures, ..model.kept }).expect("a sound model"), treebank)
}

/// Everything that can be done next: the new top, whether a word was generated, and the probability.
fn steps(
    model: &ParserModel,
    arena: &mut Configurations,
    top: u32,
    words: u32,
    only: Option<Given>,
) -> Vec<(u32, bool, f64)> {
    let lexicon = &model.kept.lexicon;
    let mut found = vec![];
    let mut moves = vec![];
    let mut actions = vec![(Action::Shift, 1.0)];
    if arena.has_choice(top, model.kept.system) {
        model.all_moves(arena, top, &mut moves);
        let possible = moves.iter().enumerate().filter(|(_, p)| **p > 0.0);
        actions = possible.map(|(outcome, &p)| (model.actions().of_outcome(outcome).0, p)).collect();
    }
    for (action, p) in actions {
        if !action.has_word() {
            found.push((arena.reduce(top, action), false, p));
            continue;
        }
        if model.can_end(arena, top, action) {
            let p = p * model.tagger(arena, top, action).probability(lexicon.root());
            found.push((arena.generate(top, action, words, lexicon.root(), lexicon.words()), true, p));
        }
        for tag in 0..lexicon.root() {
            let p_tag = model.tagger(arena, top, action).probability(tag);
            for form in (0..lexicon.words()).filter(|&form| only.is_none_or(|only| only.form == form)) {
                let upcoming = Upcoming { tag, action: action.value() };
                let p = p * p_tag * model.word(arena, top, upcoming, form);
                found.push((arena.generate(top, action, words, tag, form), true, p));
            }
        }
    }
    found
}

/// The word that was generated last.
fn last_tag(arena: &Configurations, top: u32) -> u32 {
    arena.words(top).next().expect("a word").tag
}

fn is_complete(model: &ParserModel, arena: &Configurations, top: u32) -> bool {
    top != NOTHING && model.is_complete(arena, top)
}

/// The probability of all sentences of up to `longest` words, and that of all longer ones.
fn mass(model: &ParserModel, arena: &mut Configurations, top: u32, words: u32, longest: u32) -> (f64, f64) {
    if is_complete(model, arena, top) {
        return (1.0, 0.0);
    }
    let mut sums = (0.0, 0.0);
    for (next, is_shift, p) in steps(model, arena, top, words, None) {
        let is_word = is_shift && last_tag(arena, next) != model.kept.lexicon.root();
        if is_word && words == longest {
            sums.1 += p;
            continue;
        }
        let (short, long) = mass(model, arena, next, words + u32::from(is_word), longest);
        sums = (sums.0 + p * short, sums.1 + p * long);
    }
    sums
}

/// Every distribution as a mixture of two that back off in other orders.
fn several_contexts() -> ModelSettings {
    let more = |context: &ContextSettings| {
        let list = context.lists().remove(0);
        let mut other = list.clone();
        other[1..].reverse();
        ContextSettings::Several(vec![list, other])
    };
    let one = ModelSettings::default();
    ModelSettings {
        transition_context: more(&one.transition_context),
        tag_context: more(&one.tag_context),
        word_context: more(&one.word_context),
        ..one
    }
}

/// The default contexts of left-corner, as far as a toy needs them.
fn left_corner(max_memory: u32) -> ModelSettings {
    let context = |elements: &[&str]| ContextSettings::One(elements.iter().map(|e| e.to_string()).collect());
    ModelSettings {
        system: System::LeftCorner,
        max_memory,
        transition_context: context(&["s1.t", "up(s1).t", "lc1(s1).t", "up(s2).t", "lc1(s2).t", "s1.w"]),
        tag_context: context(&["b.l", "up(s1).t", "lc1(s1).t", "up(s1).w"]),
        word_context: context(&["b.t", "b.l", "up(s1).t", "lc1(s1).w"]),
        ..ModelSettings::default()
    }
}

fn assert_mass_is_one(model: &ParserModel, longest: u32) {
    let (short, long) = mass(model, &mut Configurations::default(), NOTHING, 0, longest);
    assert!((short + long - 1.0).abs() < 1e-9, "{short} + {long}");
    assert!(short > 0.2 && long > 0.01, "{short} + {long}");
}

#[test]
fn probabilities_sum_to_one_whatever_contexts_weigh() {
    assert_mass_is_one(&train_tuned(&toy(false), several_contexts()).0, 3);
}

/// Shows what the derivations of all trees generate.
fn each_token(treebank: &Treebank, lexicon: &Lexicon, mut visit: impl FnMut(&Configurations, Token)) {
    let (mut gold, mut arena) = (Gold::default(), Configurations::default());
    for number in 0..treebank.len() {
        gold.set(lexicon.sentence(treebank, number).iter().copied(), lexicon);
        arena.clear();
        gold.tokens(&mut arena, System::ArcStandard, lexicon, true, || false, &mut visit);
    }
}

/// Restaurants that grow predict what those of a model do.
#[test]
fn growing_hierarchies_weigh_contexts_as_the_model_does() {
    let (tuned, treebank) = train_tuned(&toy(false), several_contexts());
    let (lexicon, plan) = (&tuned.kept.lexicon, plan(several_contexts()));
    let mut hierarchies = Hierarchies::new(&plan, lexicon);
    hierarchies.set_mixtures(tuned.kept.mixtures.clone());
    let (mut customers, mut rng) = (vec![], generator(1, Purpose::Sweep, 0, 0));
    each_token(&treebank, lexicon, |arena, token| {
        let customer = hierarchies.customer(arena, token);
        let before = hierarchies.predict(arena, token);
        let (p, _) = hierarchies.add(&customer, &mut rng);
        assert!((p - before).abs() < 1e-12, "{p} {before}");
        customers.push(customer);
    });
    let mixtures = tuned.kept.mixtures.clone();
    let kept = Kept { hierarchies: hierarchies.kept(&plan, lexicon), mixtures, ..tuned.kept.clone() };
    let model = ParserModel::new(kept).expect("a sound model");
    let mut differs = 0;
    each_token(&treebank, lexicon, |arena, token| {
        if token.part != Part::Word {
            return;
        }
        let p = model.word(arena, token.top, token.upcoming, token.outcome);
        let grown = hierarchies.predict(arena, token);
        assert!((p - grown).abs() < 1e-12, "{p} {grown}");
        let mut all = vec![];
        model.all_words(arena, token.top, token.upcoming, &mut all);
        assert!((p - all[token.outcome as usize]).abs() < 1e-12);
        let before = tuned.word(arena, token.top, token.upcoming, token.outcome);
        differs += usize::from((before - p).abs() > 1e-6);
    });
    assert!(differs > 0, "the counts are others");
    // p of a customer who was taken away is that of the same one before it comes again.
    for customer in &customers {
        let (after, _) = hierarchies.remove(customer, &mut rng);
        let (before, _) = hierarchies.add(customer, &mut rng);
        assert!((after - before).abs() < 1e-12, "{after} {before}");
    }
}

#[test]
fn probabilities_of_everything_sum_to_one() {
    for (has_several_roots, settings) in [
        (false, ModelSettings::default()),
        (true, ModelSettings::default()),
        (false, several_contexts()),
        (false, left_corner(0)),
        (true, left_corner(0)),
        (false, left_corner(2)),
    ] {
        let (model, _) = train(&toy(has_several_roots), settings);
        assert_eq!(model.kept.is_single_rooted, !has_several_roots);
        // Left-corner has more to choose from.
        let longest = if model.kept.system == System::LeftCorner { 2 } else { 3 };
        assert_mass_is_one(&model, longest);
    }
}

/// Every derivation of the words: its parse.
fn derivations(model: &ParserModel, words: &[Given]) -> Vec<Parse> {
    let mut found = vec![];
    let mut arena = Configurations::default();
    let mut open = vec![(NOTHING, 0, 1.0f64)];
    while let Some((top, shifted, p)) = open.pop() {
        if is_complete(model, &arena, top) {
            let mut parse = Parse {
                heads: vec![0; words.len()],
                labels: vec![Default::default(); words.len()],
                tags: vec![0; words.len()],
                ln: p.ln(),
                memory: arena.backwards(top).map(|(item, _)| item.depth).max().unwrap_or(0),
            };
            arena.arcs(top, |dependent, head, label| {
                parse.heads[dependent as usize] = if head as usize == words.len() { 0 } else { head + 1 };
                parse.labels[dependent as usize] = label;
            });
            for item in arena.words(top).filter(|item| (item.word as usize) < words.len()) {
                parse.tags[item.word as usize] = item.tag;
            }
            found.push(parse);
            continue;
        }
        let only = words.get(shifted as usize).copied();
        for (next, is_shift, q) in steps(model, &mut arena, top, shifted, only) {
            let is_root = is_shift && last_tag(&arena, next) == model.kept.lexicon.root();
            let is_due = !is_shift || is_root == (shifted as usize == words.len());
            if is_due {
                open.push((next, shifted + u32::from(is_shift && !is_root), p * q));
            }
        }
    }
    found
}

fn words(model: &ParserModel, text: &str) -> Vec<Given> {
    let form = |(place, form): (usize, &str)| Given { form: model.kept.lexicon.word(form, place == 0), tag: None };
    text.split(' ').enumerate().map(form).collect()
}

#[test]
fn enough_particles_find_the_best_derivation() {
    for (has_several_roots, settings) in [
        (false, ModelSettings::default()),
        (true, ModelSettings::default()),
        (true, several_contexts()),
        (false, left_corner(0)),
        (true, left_corner(0)),
        (false, left_corner(2)),
    ] {
        let is_mixed = settings == several_contexts();
        let train = if is_mixed { train_tuned } else { train };
        let (model, _) = train(&toy(has_several_roots), settings);
        let texts = ["dog", "the dog", "dog barks", "the dog barks", "barks dog the", "dog dog dog"];
        let count = if model.kept.system == System::LeftCorner { 4 } else { texts.len() };
        for text in &texts[..count] {
            let words = words(&model, text);
            let all = derivations(&model, &words);
            let best = all.iter().max_by(|a, b| a.ln.total_cmp(&b.ln)).expect("a derivation");
            for search in [Search::Particles, Search::Beam] {
                let particles = if search == Search::Beam { 10_000 } else { 100_000_000 };
                let found = Decoder::new(&model, search, particles).parse(&words);
                assert!((found.ln - best.ln).abs() < 1e-9, "{text} {search:?}: {found:?} instead of {best:?}");
                assert_eq!((&found.heads, &found.tags), (&best.heads, &best.tags), "{text} {search:?}");
            }
            let all_ln = all.iter().map(|parse| parse.ln.exp()).sum::<f64>().ln();
            let evidence = Decoder::new(&model, Search::Beam, 10_000).predict(&words).evidence_ln;
            assert!(evidence <= all_ln + 1e-9 && evidence >= best.ln - 1e-9, "{best:?} {evidence} {all_ln}");
            // Word by word, nothing is lost where no derivation is; where some are, what is left makes up for them.
            for (particles, is_whole) in [(10_000, true), (1, false)] {
                let mut decoder = Decoder::new(&model, Search::Beam, particles);
                let Predicted { words_ln, evidence_ln: evidence } = decoder.predict(&words);
                let by_word: f64 = words_ln.iter().sum();
                assert_eq!(words_ln.len(), words.len() + 1);
                assert!(by_word > evidence - 1e-9 && (!is_whole || by_word < evidence + 1e-9), "{by_word} {evidence}");
            }
        }
    }
}

#[test]
fn counts_are_those_of_the_tokens_of_all_shards() {
    let folder = tempfile::tempdir().unwrap();
    let control = Control::of_test(folder.path());
    for settings in [ModelSettings::default(), several_contexts()] {
        let mut plan = plan(settings);
        plan.schedule = Schedule { shards: 3, sweeps: 20, ..plan.schedule };
        let control = control.clone();
        timely::execute_directly(move |worker| {
            let treebank = read(&toy(true).repeat(5));
            let lexicon = Lexicon::learn(&treebank, plan.model.min_count).unwrap();
            let tokeniser = Tokeniser {
                lexicon: &lexicon,
                system: plan.model.system,
                contexts: &plan.contexts,
                is_lexicalised: true,
            };
            let trainer = Trainer::new(&plan, &lexicon, tokeniser.tokens(&treebank, 3, &[0, 1, 2]));
            let check = |trainer: &Trainer, _: &Round| assert_eq!(trainer.fault(), None);
            let (trainer, _) = training::train(worker, trainer, &plan.schedule, &control, check).unwrap();
            assert!((0..3).filter(|&shard| trainer.tokens(shard) > 0).count() > 1, "tokens are of several shards");
        });
    }
}

#[test]
fn predictions_of_a_word_add_up_to_at_most_one() {
    let (model, _) = train_tuned(&toy(false), several_contexts());
    let vocabulary = model.kept.lexicon.words();
    for (search, particles) in [
        (Search::Particles, 1),
        (Search::Particles, 5),
        (Search::Particles, 1000),
        (Search::Beam, 1),
        (Search::Beam, 4),
        (Search::Beam, 1000),
    ] {
        let mut decoder = Decoder::new(&model, search, particles);
        for text in ["dog", "the dog", "the dog barks the", "barks dog the barks the the"] {
            let mut words = words(&model, text);
            let place = words.len();
            let mut sum = decoder.predict(&words).words_ln[place].exp();
            for form in 0..vocabulary {
                words.push(Given { form, tag: None });
                sum += decoder.predict(&words).words_ln[place].exp();
                words.pop();
            }
            // What is lost is what no derivation was left for: other labels, and words with other tags.
            assert!(sum < 1.0 + 1e-9, "{search:?} {particles}: {text}: {sum}");
            assert!(particles < 1000 || sum > 0.5, "{search:?} {particles}: {text}: {sum}");
        }
    }
}

/// The sum of p over derivations of a tree by the non-deterministic oracle, and how many there are.
fn oracle_sum(model: &ParserModel, gold: &Tree, ids: &[(u32, u32)]) -> (f64, usize) {
    let (mut sum, mut count) = (0.0, 0);
    let mut arena = Configurations::default();
    let mut start = ArcStandard::default();
    start.start(gold.words());
    let mut open = vec![(start, NOTHING, 0usize, 1.0f64)];
    while let Some((system, top, shifted, p)) = open.pop() {
        if system.is_final() {
            sum += p;
            count += 1;
            continue;
        }
        for step in system.oracles(gold) {
            let only = ids.get(shifted).map(|&(_, form)| Given { form, tag: None });
            let reached = steps(model, &mut arena, top, shifted as u32, only);
            let is_this = |next: u32| {
                let item = arena.item(next);
                item.action == Action::of_arc_standard(step)
                    && (step != Transition::Shift || item.tag == ids[shifted].0)
            };
            let (next, is_shift, q) = *reached.iter().find(|(next, ..)| is_this(*next)).expect("a legal step");
            let mut after = system.clone();
            after.apply(step);
            open.push((after, next, shifted + usize::from(is_shift), p * q));
        }
    }
    (sum, count)
}

#[test]
fn derivations_by_the_oracle_are_all_derivations_of_a_tree() {
    let (model, treebank) = train(&toy(true), ModelSettings::default());
    let lexicon = &model.kept.lexicon;
    let mut several = 0;
    for sentence in treebank.sentences().filter(|sentence| sentence.len() <= 4) {
        let mut gold = Tree::default();
        gold.set_heads(sentence.iter().map(|word| word.head));
        (1..).zip(sentence).for_each(|(place, word)| gold.set_label(place, Label(word.label as u16)));
        let form = |word: &super::treebank::Word| lexicon.word(treebank.forms.name(word.form), false);
        let mut ids: Vec<(u32, u32)> = sentence.iter().map(|word| (word.tag, form(word))).collect();
        let given: Vec<Given> = ids.iter().map(|&(_, form)| Given { form, tag: None }).collect();
        ids.push((lexicon.root(), lexicon.words()));
        let is_same = |parse: &Parse| {
            sentence.iter().enumerate().all(|(place, word)| {
                (parse.heads[place], u32::from(parse.labels[place].0), parse.tags[place])
                    == (word.head, word.label, word.tag)
            })
        };
        let same: Vec<f64> =
            derivations(&model, &given).iter().filter(|parse| is_same(parse)).map(|parse| parse.ln.exp()).collect();
        let (sum, count) = oracle_sum(&model, &gold, &ids);
        assert_eq!(count, same.len(), "{sentence:?}");
        let brute: f64 = same.iter().sum();
        assert!((sum - brute).abs() < 1e-9 * brute, "{sum} {brute}");
        several += usize::from(count > 1);
    }
    assert!(several > 0, "some tree has several derivations");
}

#[test]
fn a_model_without_words_parses_given_tags() {
    let settings = ModelSettings { lexicalised: false, ..ModelSettings::default() };
    let (model, treebank) = train(&toy(false), settings);
    let tags: Vec<Given> = treebank.sentence(0).iter().map(|word| Given { form: 0, tag: Some(word.tag) }).collect();
    let parse = Decoder::new(&model, Search::Particles, 100).parse(&tags);
    assert_eq!(parse.heads, [2, 3, 0]);
    assert!(Decoder::new(&model, Search::Particles, 100).parse(&[]).heads.is_empty());
}

/// A hierarchy, plainly: customers and tables by context, of an outcome or of all.
pub(crate) struct Plain {
    pub counts: BTreeMap<(Vec<u32>, Option<u32>), [f64; 2]>,
    pub discount: f64,
    pub strength: f64,
    pub base: f64,
}

impl Plain {
    fn counts(&self, context: &[u32], outcome: Option<u32>) -> [f64; 2] {
        self.counts.get(&(context.to_vec(), outcome)).copied().unwrap_or_default()
    }

    /// p of the next customer and of opening a table in so many restaurants, from the whole context up.
    fn p(&self, context: &[u32], outcome: u32, opens: usize) -> f64 {
        let mut p = if opens > context.len() { self.base } else { 1.0 };
        for (above, length) in (0..=context.len()).rev().enumerate().take_while(|(above, _)| *above <= opens) {
            let [customers, tables] = self.counts(&context[..length], None);
            let [own, own_tables] = self.counts(&context[..length], Some(outcome));
            let weight = match above < opens {
                true => self.strength + self.discount * tables,
                false => own - self.discount * own_tables,
            };
            p *= weight / (customers + self.strength);
        }
        p
    }

    fn seat(&mut self, context: &[u32], outcome: u32, opens: usize, by: f64) {
        for (above, length) in (0..=context.len()).rev().enumerate().take_while(|(above, _)| *above <= opens) {
            for outcome in [None, Some(outcome)] {
                let counts = self.counts.entry((context[..length].to_vec(), outcome)).or_default();
                *counts = [counts[0] + by, counts[1] + if above < opens { by } else { 0.0 }];
            }
        }
    }

    /// p that these tokens come in their order: the sum over all seatings.
    pub fn sum(&mut self, tokens: &[(Vec<u32>, u32)]) -> f64 {
        let Some(((context, outcome), rest)) = tokens.split_first() else { return 1.0 };
        let mut sum = 0.0;
        for opens in 0..=context.len() + 1 {
            let p = self.p(context, *outcome, opens);
            if p > 0.0 {
                self.seat(context, *outcome, opens, 1.0);
                sum += p * self.sum(rest);
                self.seat(context, *outcome, opens, -1.0);
            }
        }
        sum
    }
}

/// All derivations of a tree.
fn all_derivations(gold: &Gold) -> Vec<Derivation> {
    let (mut found, mut open) = (vec![], vec![vec![]]);
    while let Some(start) = open.pop() {
        let mut derivation: Derivation = start.clone();
        let mut at = 0;
        let waits = || {
            at += 1;
            if derivation.len() < at {
                derivation.push(false);
                // The other answer here is a derivation to be looked at too.
                open.push(derivation.iter().copied().take(at - 1).chain([true]).collect());
            }
            derivation[at - 1]
        };
        gold.follow(&mut Configurations::default(), waits, |_, _, _| ());
        found.push(derivation);
    }
    found
}

#[test]
fn derivations_are_drawn_from_their_posterior() {
    let text = conllu(&[
        &[("a", "X", 2, "l"), ("b", "Y", 0, "r"), ("a", "X", 2, "l")],
        &[("a", "X", 3, "l"), ("a", "X", 3, "l"), ("b", "Y", 0, "r"), ("a", "X", 3, "l")],
    ]);
    let context = |elements: &[&str]| ContextSettings::One(elements.iter().map(|e| e.to_string()).collect());
    let settings = ModelSettings {
        transition_context: context(&["s1.t", "lc1(s1).t"]),
        tag_context: context(&["s1.t"]),
        word_context: context(&["lc1(s1).t"]),
        min_count: 1,
        discount: 0.3,
        strength: 6.0,
        ..ModelSettings::default()
    };
    let treebank = read(&text);
    let plan = Plan { learn_every: 0, training_particles: 3, ..plan(settings) };
    let lexicon = Lexicon::learn(&treebank, 1).unwrap();

    // The exact posterior: derivations of both trees, each with all seatings of what it generates.
    let mut golds = vec![Gold::default(); 2];
    (0..2).for_each(|number| golds[number].set(lexicon.sentence(&treebank, number).into_iter(), &lexicon));
    let choices: Vec<Vec<Derivation>> = golds.iter().map(all_derivations).collect();
    assert_eq!([choices[0].len(), choices[1].len()], [2, 3]);
    let mut exact = BTreeMap::new();
    for first in &choices[0] {
        for second in &choices[1] {
            let mut tokens = vec![vec![]; 3];
            for (gold, derivation) in golds.iter().zip([first, second]) {
                let mut answers = derivation.iter().copied();
                gold.clone().tokens(
                    &mut Configurations::default(),
                    System::ArcStandard,
                    &lexicon,
                    true,
                    || answers.next().unwrap(),
                    |arena, token| {
                        let elements = &plan.contexts.all[token.part as usize].1;
                        let mut values = vec![0; elements.len()];
                        arena.values(token.top, elements, token.upcoming, &mut values);
                        tokens[token.part as usize].push((values, token.outcome));
                    },
                );
            }
            let p = Part::ALL.into_iter().zip(&tokens).map(|(part, tokens)| {
                let base = 1.0 / f64::from(lexicon.outcomes(part, plan.model.system));
                let (discount, strength) = (plan.model.discount, plan.model.strength);
                Plain { counts: BTreeMap::new(), discount, strength, base }.sum(tokens)
            });
            exact.insert(vec![first.clone(), second.clone()], p.product::<f64>());
        }
    }
    let all: f64 = exact.values().sum();
    let most = exact.values().copied().fold(0.0, f64::max) / all;
    assert!(most < 0.8, "the posterior is spread: {exact:?}");

    // A long chain, of which every tenth state counts as an independent draw: batch means over 12,800,000 sweeps give an
    // integrated autocorrelation time of 7.3.
    const DRAWS: usize = 50_000;
    let mut sampler = Sampler::model(&plan, &lexicon, &treebank, |_| true);
    sampler.draw_shard(0, 0);
    let mut found: BTreeMap<Vec<Derivation>, f64> = BTreeMap::new();
    for draw in 0..DRAWS as u64 {
        sampler.sweep_shard(0, 10 * draw..10 * draw + 10, 0);
        *found.entry(sampler.sentences.derivations()).or_default() += 1.0;
    }
    assert_exact("derivations", &found, &exact, Draws::Independent(DRAWS), 0.01);
}

#[test]
fn left_corner_derivations_are_possible_and_give_their_trees() {
    for has_several_roots in [false, true] {
        let (model, treebank) = train(&toy(has_several_roots), left_corner(0));
        let lexicon = &model.kept.lexicon;
        for number in 0..treebank.len() {
            let words = treebank.sentence(number);
            let mut gold = Gold::default();
            gold.set(lexicon.sentence(&treebank, number).into_iter(), lexicon);
            let (mut arena, mut top, mut generated) = (Configurations::default(), NOTHING, 0);
            let mut actions = vec![];
            let mut system = LeftCorner::default();
            let mut tree = Tree::default();
            tree.set_heads(words.iter().map(|word| word.head));
            (1..).zip(words).for_each(|(place, word)| tree.set_label(place, Label(word.label as u16)));
            follow_oracle(&mut system, &tree, |_, transition| actions.push(transition));
            for transition in actions {
                let action = Action::of_left_corner(transition, arena.has_above(top));
                let kind = model.actions().of_outcome(model.actions().outcome(action) as usize).1;
                let possible = model.possible(&arena, top);
                let feasible = model.feasible(&arena, top, possible, words.len() as u32 - generated);
                assert!(feasible >> kind & 1 == 1, "{action:?} after {generated} words of sentence {number}");
                let is_root = generated as usize == words.len();
                assert!(!is_root || !action.has_word() || model.can_end(&arena, top, action));
                top = match action.has_word() {
                    true => {
                        let (tag, form) = gold.id(generated);
                        generated += 1;
                        arena.generate(top, action, generated - 1, tag, form)
                    }
                    false => arena.reduce(top, action),
                };
            }
            assert!(model.is_complete(&arena, top));
            arena.arcs(top, |dependent, head, label| {
                let head = if head as usize == words.len() { 0 } else { head + 1 };
                let word = words[dependent as usize];
                assert_eq!((head, u32::from(label.0)), (word.head, word.label), "sentence {number}");
            });
        }
    }
}

#[test]
fn a_bound_of_memory_is_never_exceeded() {
    for (has_several_roots, bound) in [(false, 0), (false, 1), (false, 2), (true, 1), (true, 2), (true, 3)] {
        let (mut model, _) = train(&toy(has_several_roots), left_corner(0));
        model.kept.max_memory = bound;
        let mut most = 0;
        for number in 0..60u64 {
            let mut rng = generator(5, Purpose::Synth, number, 0);
            let length = 1 + number as usize % 20;
            let word = |_| ["the", "dog", "barks", "unseen"][(unit(&mut rng) * 4.0) as usize];
            let text: Vec<&str> = (0..length).map(word).collect();
            for (search, particles) in [(Search::Particles, 1), (Search::Particles, 50), (Search::Beam, 3)] {
                let parse = Decoder::new(&model, search, particles).parse(&words(&model, &text.join(" ")));
                assert!(bound == 0 || parse.memory <= bound, "{} items instead of {bound}", parse.memory);
                let roots = parse.heads.iter().filter(|head| **head == 0).count();
                assert!(roots == 1 || (has_several_roots && roots > 0), "{parse:?}");
                most = most.max(parse.memory);
            }
        }
        assert!(bound > 0 || most > 2, "without a bound, sentences take more: {most}");
    }
}
