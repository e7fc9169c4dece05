//! Transition systems: every oracle rebuilds every gold tree, costs are those of the literature.

use proptest::prelude::*;
use sawmill::cluster::rng::{Purpose, generator};
use sawmill::corpus::conll::Reader;
use sawmill::corpus::piece::{Blocks, Encoding, Input};
use sawmill::corpus::tree::{Shape, Tree};
use sawmill::transition::reorder::{HeadPlacement, Reorderer};
use sawmill::transition::{
    ArcEager, ArcStandard, Label, LeftCorner, TransitionSystem, dependency_length, follow_oracle, left_corner,
};

use crate::support::real_data;

/// Derives `tree` and returns the cost after each transition; fails where the derivation does not end in `tree`.
fn costs<S: TransitionSystem>(tree: &Tree) -> Vec<u32> {
    let mut costs = vec![];
    let mut system = S::default();
    follow_oracle(&mut system, tree, |configuration, _| costs.push(configuration.memory_cost()));
    assert_eq!(system.arcs().heads(), tree.heads(), "{} does not rebuild the tree", S::NAME);
    assert_eq!(costs.len() as u32, 2 * (tree.words() + 1) - 1, "{}", S::NAME);
    costs
}

fn tree(heads: &[u32]) -> Tree {
    let mut tree = Tree::default();
    tree.set_heads(heads.iter().copied());
    tree
}

fn highest<S: TransitionSystem>(heads: &[u32]) -> u32 {
    costs::<S>(&tree(heads)).into_iter().max().expect("a transition")
}

/// All projective trees with one root on `words` words.
fn all_trees(words: u32) -> Vec<Tree> {
    fn fill(at: usize, heads: &mut Vec<u32>, out: &mut Vec<Tree>) {
        if at == heads.len() {
            let tree = tree(heads);
            if tree.roots() == 1 && tree.is_projective() {
                out.push(tree);
            }
            return;
        }
        for head in (0..=heads.len() as u32).filter(|&head| head as usize != at + 1) {
            heads[at] = head;
            fill(at + 1, heads, out);
        }
    }
    let mut out = vec![];
    fill(0, &mut vec![0; words as usize], &mut out);
    out
}

/// Number of single-root projective trees on 1 ..= 7 words.
const TREES: [usize; 7] = [1, 2, 7, 30, 143, 728, 3876];

#[test]
fn every_oracle_rebuilds_every_small_tree_and_depths_are_exact() {
    // Trees whose left-corner stack stays within 1 and 2, over configurations after reduce-type actions.
    let reduced = [[1, 1], [2, 2], [7, 7], [25, 30], [90, 143], [325, 715], [1175, 3648]];
    // Within 1, 2 and 3 over all configurations, for 3 ..= 6 words.
    let all = [[4, 7, 7], [8, 30, 30], [16, 135, 143], [32, 615, 728]];
    for words in 1..=7u32 {
        let trees = all_trees(words);
        assert_eq!(trees.len(), TREES[words as usize - 1]);
        let mut depths = vec![];
        for tree in &trees {
            costs::<ArcStandard>(tree);
            costs::<ArcEager>(tree);
            costs::<LeftCorner>(tree);
            let (mut any, mut after_reduce) = (0, 0);
            follow_oracle(&mut LeftCorner::default(), tree, |c, action: left_corner::Transition| {
                any = any.max(c.memory_cost());
                if !action.is_shift_type() {
                    after_reduce = after_reduce.max(c.memory_cost());
                }
            });
            depths.push((any, after_reduce));
        }
        let within = |limit, of: fn(&(u32, u32)) -> u32| depths.iter().filter(|d| of(d) <= limit).count();
        assert_eq!([1, 2].map(|limit| within(limit, |d| d.1)), reduced[words as usize - 1], "{words} words");
        if (3..=6).contains(&words) {
            assert_eq!([1, 2, 3].map(|limit| within(limit, |d| d.0)), all[words as usize - 3], "{words} words");
        }
    }
}

/// A random projective tree over n words, possibly with several roots: dependents to the left and right of each head.
fn projective_tree() -> impl Strategy<Value = Tree> {
    (proptest::collection::vec(any::<(u16, u16)>(), 1..60)).prop_map(|choices| {
        let mut heads = vec![0; choices.len()];
        // A span of words and the head of whatever word is chosen to rule it.
        let mut open = vec![(0, choices.len(), 0)];
        while let Some((from, to, head)) = open.pop() {
            if from == to {
                continue;
            }
            let (at, cut) = choices[from];
            // Either one word rules the whole span, or the span falls into two under the same head.
            if cut % 3 == 0 && to - from > 1 {
                let middle = from + 1 + usize::from(at) % (to - from - 1);
                open.extend([(from, middle, head), (middle, to, head)]);
            } else {
                let ruler = from + usize::from(at) % (to - from);
                heads[ruler] = head;
                let ruler_id = ruler as u32 + 1;
                open.extend([(from, ruler, ruler_id), (ruler + 1, to, ruler_id)]);
            }
        }
        tree(&heads)
    })
}

proptest! {
    #[test]
    fn every_oracle_rebuilds_random_projective_trees(tree in projective_tree()) {
        prop_assert!(tree.is_projective());
        costs::<ArcStandard>(&tree);
        costs::<ArcEager>(&tree);
        costs::<LeftCorner>(&tree);
    }

    #[test]
    fn labels_come_back_with_the_arcs(mut tree in projective_tree()) {
        for word in 1..=tree.words() {
            tree.set_label(word, Label(word as u16 * 7));
        }
        fn check<S: TransitionSystem>(tree: &Tree) {
            let mut system = S::default();
            follow_oracle(&mut system, tree, |_, _| ());
            (1..=tree.words()).for_each(|word| assert_eq!(system.arcs().label(word), tree.label(word), "{}", S::NAME));
        }
        check::<ArcStandard>(&tree);
        check::<ArcEager>(&tree);
        check::<LeftCorner>(&tree);
    }

    #[test]
    fn reorderings_are_projective_and_keep_the_tree(tree in projective_tree(), seed: u64, sides: bool) {
        let placement = if sides { HeadPlacement::Sides } else { HeadPlacement::Uniform };
        let mut reordered = Tree::default();
        Reorderer::default().reorder(&tree, placement, &mut generator(seed, Purpose::Reorder, 0, 0), &mut reordered);
        prop_assert!(reordered.is_projective());
        prop_assert_eq!(shape_code(&reordered, reordered.root()), shape_code(&tree, tree.root()));
        let mut order = vec![];
        tree.top_down(&mut order);
        let least = dependency_length::Minimum::default().total(&tree, &order);
        prop_assert!(least <= dependency_length::total(&tree) && least <= dependency_length::total(&reordered));
    }

    #[test]
    fn whatever_is_legal_ends_in_a_projective_tree(words in 1..30u32, choices in proptest::collection::vec(any::<u16>(), 61)) {
        random_derivation::<ArcStandard>(words, &choices, &[
            sawmill::transition::arc_standard::Transition::Shift,
            sawmill::transition::arc_standard::Transition::LeftArc(Label(1)),
            sawmill::transition::arc_standard::Transition::RightArc(Label(1)),
        ]);
        random_derivation::<ArcEager>(words, &choices, &[
            sawmill::transition::arc_eager::Transition::Shift,
            sawmill::transition::arc_eager::Transition::Reduce,
            sawmill::transition::arc_eager::Transition::LeftArc(Label(1)),
            sawmill::transition::arc_eager::Transition::RightArc(Label(1)),
        ]);
        random_derivation::<LeftCorner>(words, &choices, &[
            left_corner::Transition::Shift,
            left_corner::Transition::Insert(Label(1)),
            left_corner::Transition::LeftPred(Label(1)),
            left_corner::Transition::RightPred,
            left_corner::Transition::LeftComp(Label(1)),
            left_corner::Transition::RightComp(Label(1)),
        ]);
    }
}

/// Takes legal transitions at random: there must always be one, and the end must be a projective tree.
fn random_derivation<S: TransitionSystem>(words: u32, choices: &[u16], transitions: &[S::Transition]) {
    let mut system = S::default();
    system.start(words);
    for choice in choices.iter().take(2 * words as usize + 1) {
        assert!(!system.is_final(), "{}: too few transitions", S::NAME);
        let legal: Vec<_> = transitions.iter().filter(|t| system.is_legal(**t)).collect();
        assert!(!legal.is_empty(), "{}: nothing is legal", S::NAME);
        system.apply(*legal[usize::from(*choice) % legal.len()]);
    }
    assert!(system.is_final(), "{}: too many transitions", S::NAME);
    let root = words + 1;
    let heads: Vec<u32> = (1..=words).map(|word| system.arcs().head(word)).collect();
    assert!(heads.iter().all(|&head| head != 0), "{}: {heads:?}", S::NAME);
    let tree = tree(&heads.iter().map(|&head| if head == root { 0 } else { head }).collect::<Vec<_>>());
    assert!(tree.is_projective(), "{}: {heads:?}", S::NAME);
}

/// The tree below `node` but for the order of children.
fn shape_code(tree: &Tree, node: u32) -> String {
    let mut parts: Vec<_> = tree.dependents_backwards(node).map(|d| shape_code(tree, d)).collect();
    parts.sort();
    format!("({})", parts.concat())
}

/// How often each order of a head (0) and its children (1, 2, ..) comes out.
fn orders(children: u32, placement: HeadPlacement, draws: u64) -> std::collections::BTreeMap<Vec<u16>, u64> {
    let heads: Vec<u32> = (0..=children).map(|word| if word == 0 { 0 } else { 1 }).collect();
    let mut family = tree(&heads);
    (1..=children + 1).for_each(|word| family.set_label(word, Label(word as u16 - 1)));
    let (mut reorderer, mut out) = (Reorderer::default(), Tree::default());
    let mut counts = std::collections::BTreeMap::new();
    for i in 0..draws {
        reorderer.reorder(&family, placement, &mut generator(7, Purpose::Reorder, i, 0), &mut out);
        let order: Vec<u16> = (1..=out.words()).map(|word| out.label(word).0).collect();
        *counts.entry(order).or_insert(0) += 1;
    }
    counts
}

#[test]
fn reordering_draws_every_order_as_often_as_it_should() {
    // Uniform: all 3! orders of a head with two children alike; chi-square on 5 degrees of freedom, p = 0.001.
    let uniform = orders(2, HeadPlacement::Uniform, 60_000);
    assert_eq!(uniform.len(), 6);
    let chi_square: f64 = uniform.values().map(|&n| (n as f64 - 10_000.0).powi(2) / 10_000.0).sum();
    assert!(chi_square < 20.5, "{uniform:?}: {chi_square}");
    // Sides: the head is second in half of the draws (one child on each side), first and last in a quarter each.
    let sides = orders(2, HeadPlacement::Sides, 60_000);
    assert_eq!(sides.len(), 6);
    let expected = |order: &Vec<u16>| if order[1] == 0 { 15_000.0 } else { 7_500.0 };
    let chi_square: f64 = sides.iter().map(|(order, &n)| (n as f64 - expected(order)).powi(2) / expected(order)).sum();
    assert!(chi_square < 20.5, "{sides:?}: {chi_square}");
}

/// Left-branching: each word depends on the next. Right-branching: each on the one before. Center-embedded: as in
/// "the rat the cat the dog chased bit ate", nouns first, then their verbs, each verb under the noun before it.
fn branching(words: u32) -> [Vec<u32>; 3] {
    let left = (1..=words).map(|word| if word == words { 0 } else { word + 1 }).collect();
    let right = (1..=words).map(|word| word - 1).collect();
    // Nouns 1 .. k, verbs k + 1 .. 2k: verb 2k + 1 - i belongs to noun i; a noun depends on its verb, a verb on the
    // noun outside, the outermost verb is the root.
    let k = words / 2;
    let embedded = (1..=2 * k)
        .map(|word| match word {
            noun if noun <= k => 2 * k + 1 - noun,
            verb if verb == 2 * k => 0,
            verb => 2 * k - verb,
        })
        .collect();
    [left, right, embedded]
}

#[test]
fn table_1_of_the_paper() {
    let highest_of = |words| {
        branching(words)
            .map(|heads| [highest::<ArcStandard>(&heads), highest::<ArcEager>(&heads), highest::<LeftCorner>(&heads)])
    };
    let [left_20, right_20, embedded_20] = highest_of(20);
    let [left_40, right_40, embedded_40] = highest_of(40);
    // Left-branching: constant for all.
    assert_eq!(left_20, left_40);
    assert!(left_40.iter().all(|&cost| cost <= 3), "{left_40:?}");
    // Right-branching: arc-standard grows; arc-eager does not on this one; left-corner is constant.
    assert!(right_40[0] >= right_20[0] + 20, "{right_20:?} {right_40:?}");
    assert_eq!(right_20[1..], right_40[1..]);
    assert!(right_40[2] <= 3);
    // Center-embedding: arc-standard and left-corner grow.
    for system in [0, 2] {
        assert!(embedded_40[system] >= embedded_20[system] + 5, "{embedded_20:?} {embedded_40:?}");
    }
    // Arc-eager, O(1 ~ n): right-branching with every word's left dependent in between (Figure 1 b: a <- x, b -> x).
    let zigzag = |k: u32| -> Vec<u32> {
        (1..=2 * k).map(|w| if w <= k { 2 * k + 1 - w } else { (w + 1) % (2 * k + 1) }).collect()
    };
    let grows = |k| highest::<ArcEager>(&zigzag(k));
    assert!(tree(&zigzag(5)).is_projective());
    assert!(grows(20) >= grows(10) + 5, "{} {}", grows(10), grows(20));
}

#[test]
fn every_oracle_rebuilds_every_sentence_of_the_real_treebanks() {
    let Some(data) = real_data("every_oracle_rebuilds_every_sentence_of_the_real_treebanks") else { return };
    let pattern = data.join("treebanks/*/*/*").display().to_string();
    let mut derived = 0;
    let (mut standard, mut eager, mut corner) = (ArcStandard::default(), ArcEager::default(), LeftCorner::default());
    for path in glob::glob(&pattern).expect("a pattern").map(|path| path.expect("a path")) {
        let name = path.display().to_string();
        if !name.contains(".conll") && !name.contains(".train") {
            continue;
        }
        let encoding = if name.contains("eus.train") { Encoding::Latin1 } else { Encoding::Utf8 };
        let input = Input::file(0, path, encoding).expect("a treebank");
        let mut blocks = Blocks::open(0, &input.whole_piece(0), &input);
        let mut reader = Reader::default();
        while let Some(block) = blocks.next_block() {
            assert!(block.problems.is_empty(), "{name}: {:?}", block.problems);
            reader.read(&block, |sentence| {
                assert!(sentence.problems.is_empty(), "{name}: {:?}", sentence.problems);
                if sentence.shape == Shape::Projective {
                    rebuilds(&mut standard, sentence.tree);
                    rebuilds(&mut eager, sentence.tree);
                    rebuilds(&mut corner, sentence.tree);
                    derived += 1;
                }
            });
        }
    }
    assert_eq!(derived, 87_588);
}

fn rebuilds<S: TransitionSystem>(system: &mut S, tree: &Tree) {
    let mut steps = 0;
    follow_oracle(system, tree, |_, _| steps += 1);
    assert_eq!(system.arcs().heads(), tree.heads(), "{}", S::NAME);
    assert_eq!(steps, 2 * tree.words() + 1, "{}", S::NAME);
}
