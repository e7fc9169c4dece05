//! What a grammar has learned: the most likely dependents by side and valence (Table 2 of the paper), and roots.

use std::fmt::Write;

use super::model::Kept;
use super::shape::{Context, Shape};

/// The most likely dependents in one place.
#[derive(Clone, Debug)]
pub struct Likely {
    pub side: &'static str,
    /// None where the model does not tell valences apart.
    pub valence: Option<usize>,
    /// Tags with probabilities, the most likely first.
    pub tags: Vec<(String, f64)>,
}

/// P(tag | side, valence): that of smoothing where the model has it, else how often each tag is expected there.
pub fn dependents(kept: &Kept) -> Vec<Likely> {
    let shape = kept.shape();
    let has_valence = shape.levels[0].context != Context::Tag;
    let valences: Vec<Option<usize>> = if has_valence { vec![Some(0), Some(1)] } else { vec![None] };
    let mut found = vec![];
    for (side, name) in ["left", "right"].into_iter().enumerate() {
        for &valence in &valences {
            let weights = place(kept, &shape, side, valence);
            let tags = sorted(kept, &weights);
            found.push(Likely { side: name, valence, tags });
        }
    }
    found
}

/// The distribution of dependents over tags in one place.
fn place(kept: &Kept, shape: &Shape, side: usize, valence: Option<usize>) -> Vec<f64> {
    let last = shape.levels.last().expect("a level");
    if matches!(last.context, Context::Nothing | Context::Valence) {
        let class = side * last.classes / 2 + valence.filter(|_| last.context == Context::Valence).unwrap_or(0);
        let at = shape.dependents_of(shape.levels.len() - 1, class);
        return kept.rules(shape)[at..][..shape.tags].to_vec();
    }
    let mut sums = vec![0.0; shape.tags];
    let mut seen = std::collections::BTreeSet::new();
    let contexts = (0..2).filter(|v| valence.is_none_or(|valence| valence == *v)).map(|v| 2 * side + v);
    for context in contexts {
        for symbol in 0..shape.symbols() {
            for (dependents, _) in shape.levels_of(context, symbol) {
                if seen.insert(dependents) {
                    sums.iter_mut().zip(&kept.counts[dependents..]).for_each(|(sum, count)| *sum += count);
                }
            }
        }
    }
    let all: f64 = sums.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    sums.iter_mut().for_each(|sum| *sum /= all);
    sums
}

/// The most likely words below the root.
pub fn roots(kept: &Kept) -> Vec<(String, f64)> {
    let shape = kept.shape();
    sorted(kept, &kept.rules(&shape)[..shape.tags])
}

fn sorted(kept: &Kept, weights: &[f64]) -> Vec<(String, f64)> {
    let mut tags: Vec<(String, f64)> = kept.lexicon.tags.iter().cloned().zip(weights.iter().copied()).collect();
    tags.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    tags
}

/// Tags with probabilities in one line.
pub fn in_words(tags: &[(String, f64)], count: usize) -> String {
    let shown: Vec<String> = tags.iter().take(count).map(|(tag, p)| format!("{tag} {p:.3}")).collect();
    shown.join(", ")
}

/// The grammar, for people.
pub fn describe(kept: &Kept, count: usize) -> String {
    let lexicon = &kept.lexicon;
    let mut text = format!("{}: {} tags", kept.model.name(), lexicon.tags.len());
    if kept.is_lexicalised() {
        let _ = write!(text, ", {} words with their tags", lexicon.words.len());
    }
    let _ = write!(text, "; free energy {:.2}\n\nroot: {}\n", kept.free_energy, in_words(&roots(kept), count));
    for likely in dependents(kept) {
        let valence = likely.valence.map_or(String::new(), |v| [", nearest", ", others"][v].to_string());
        let _ = writeln!(text, "{}{valence}: {}", likely.side, in_words(&likely.tags, count));
    }
    text
}
