//! The shape of a grammar: which distributions it has, and where their probabilities stand.
//!
//! A head H generates, on each side, its nearest dependent (valence 0) and then others (valence 1), and stops:
//!
//! ```text
//! P(stop | side, H, valence)             DMV, EVG, L-EVG
//! P(A | side, H)                         DMV: dependents by head
//! P(A | side, H, valence)                EVG: and by valence
//! P(A | side, H, h, valence)             L-EVG: and by the head's word h, where it is frequent
//! ```
//!
//! (Klein & Manning 2004; Headden, Johnson & McClosky 2009, Figures 2 and 4.) Smoothing interpolates a distribution with
//! one that knows less (section 4), so the distribution of a dependent is a list of levels, each with a coin that says
//! whether to go on to the next:
//!
//! ```text
//! P(A | c) = l_0(c) P_0(A | c_0) + (1 - l_0(c)) ( l_1(c) P_1(A | c_1) + (1 - l_1(c)) ( ... ) )
//! ```
//!
//! A tied PCFG has these coins and distributions as rules. Priors are Dirichlet(1, 1, ...), and Dirichlet(K, 2 K) for a coin
//! over distributions of K outcomes, so that a context has to be seen often before it is trusted.
//!
//! Chains keep their numbers in two flat vectors: *rules*, by distribution; and *uses*, by what a tree uses: arcs by side,
//! valence, symbol of the head and tag of the dependent; stops; roots. A symbol is a tag, or a tag with a frequent word.

use super::job::{ModelType, Smoothing};

/// What a distribution over dependents is conditioned on, beside the side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    Nothing,
    Valence,
    Tag,
    ValenceTag,
    ValenceSymbol,
}

/// A level of the distribution of dependents.
#[derive(Clone, Debug)]
pub struct Level {
    pub context: Context,
    /// How many distributions it has.
    pub classes: usize,
    /// The distribution of (side, valence, symbol); none where the level is passed over.
    class_of: Vec<Option<u32>>,
    /// Where the distributions begin among the rules.
    dependents: usize,
    /// Where the coins begin: stay, or go on; none at the last level.
    coins: Option<usize>,
}

/// A distribution among the rules.
#[derive(Clone, Copy, Debug)]
pub struct Distribution {
    pub start: usize,
    pub outcomes: usize,
    /// Parameters of the Dirichlet prior: of the first outcome, and of the others.
    pub prior: [f64; 2],
}

impl Distribution {
    /// The prior parameter of an outcome.
    #[inline]
    pub fn prior_of(&self, outcome: usize) -> f64 {
        self.prior[usize::from(outcome > 0)]
    }

    /// The sum of the prior parameters.
    pub fn prior_sum(&self) -> f64 {
        self.prior[0] + self.prior[1] * (self.outcomes - 1) as f64
    }
}

#[derive(Clone, Debug)]
pub struct Shape {
    pub tags: usize,
    /// The tag of each symbol; the first symbols are the tags themselves.
    pub tag_of: Vec<u32>,
    pub levels: Vec<Level>,
    pub distributions: Vec<Distribution>,
    /// Where the stops begin among the rules: pairs of stop and go on, by side, valence and tag. Roots come first.
    stops: usize,
    rules: usize,
}

/// Contexts of arcs for each symbol: two sides with two valences each.
pub const CONTEXTS: usize = 4;

impl Shape {
    /// The shape of a model. Lexicalised symbols, each with its tag, come after the tags.
    pub fn new(model: ModelType, smoothing: Smoothing, tags: usize, lexicalised: &[u32]) -> Shape {
        let mut contexts = match model {
            ModelType::Dmv => vec![Context::Tag],
            ModelType::Evg => vec![Context::ValenceTag],
            ModelType::Levg if smoothing == Smoothing::None => vec![Context::ValenceSymbol],
            ModelType::Levg => vec![Context::ValenceSymbol, Context::ValenceTag],
        };
        contexts.extend(match (smoothing, model) {
            (Smoothing::None, _) => None,
            (Smoothing::SkipVal, _) => Some(Context::Tag),
            (Smoothing::SkipHead, ModelType::Dmv) => Some(Context::Nothing),
            (Smoothing::SkipHead, _) => Some(Context::Valence),
        });
        Shape::of_contexts(&contexts, tags, lexicalised)
    }

    /// The shape whose levels are conditioned on these, the first of which knows most.
    pub fn of_contexts(contexts: &[Context], tags: usize, lexicalised: &[u32]) -> Shape {
        let tag_of: Vec<u32> = (0..tags as u32).chain(lexicalised.iter().copied()).collect();
        let mut distributions = vec![Distribution { start: 0, outcomes: tags, prior: [1.0, 1.0] }];
        let stops = tags;
        let mut rules = stops;
        let mut add = |outcomes: usize, prior: [f64; 2], rules: &mut usize| {
            distributions.push(Distribution { start: *rules, outcomes, prior });
            *rules += outcomes;
        };
        (0..CONTEXTS * tags).for_each(|_| add(2, [1.0, 1.0], &mut rules));
        let mut levels = vec![];
        for (number, &context) in contexts.iter().enumerate() {
            let is_last = number + 1 == contexts.len();
            let (classes, class_of) = classes(context, is_last, tags, &tag_of);
            let dependents = rules;
            (0..classes).for_each(|_| add(tags, [1.0, 1.0], &mut rules));
            let coins = (!is_last).then_some(rules);
            let k = tags as f64;
            (0..if is_last { 0 } else { classes }).for_each(|_| add(2, [k, 2.0 * k], &mut rules));
            levels.push(Level { context, classes, class_of, dependents, coins });
        }
        Shape { tags, tag_of, levels, distributions, stops, rules }
    }

    pub fn symbols(&self) -> usize {
        self.tag_of.len()
    }

    /// Length of a vector of rules.
    pub fn rules(&self) -> usize {
        self.rules
    }

    /// Length of a vector of uses.
    pub fn uses(&self) -> usize {
        CONTEXTS * self.symbols() * self.tags + (CONTEXTS + 1) * self.tags
    }

    /// Where the arcs of a context (side and valence: 2 side + valence) and symbol begin among the uses.
    #[inline(always)]
    pub fn arcs(&self, context: usize, symbol: usize) -> usize {
        (context * self.symbols() + symbol) * self.tags
    }

    /// A stop among the uses.
    #[inline(always)]
    pub fn stop(&self, context: usize, tag: usize) -> usize {
        CONTEXTS * self.symbols() * self.tags + context * self.tags + tag
    }

    /// A root among the uses.
    #[inline(always)]
    pub fn root(&self, tag: usize) -> usize {
        self.stop(CONTEXTS, tag)
    }

    /// A pair of stop and go on among the rules.
    #[inline(always)]
    pub fn stop_rule(&self, context: usize, tag: usize) -> usize {
        self.stops + 2 * (context * self.tags + tag)
    }

    /// The levels that a context and symbol have: where dependents and, but for the last, the coin stand among the rules.
    #[inline(always)]
    pub fn levels_of(&self, context: usize, symbol: usize) -> impl Iterator<Item = (usize, Option<usize>)> + '_ {
        let at = context * self.symbols() + symbol;
        self.levels.iter().filter_map(move |level| {
            let class = level.class_of[at]? as usize;
            Some((level.dependents + class * self.tags, level.coins.map(|coins| coins + 2 * class)))
        })
    }

    /// Where the distribution of a class of a level stands among the rules.
    pub fn dependents_of(&self, level: usize, class: usize) -> usize {
        self.levels[level].dependents + class * self.tags
    }
}

/// The distributions of a level, and which one each context and symbol has. A tag without frequent words has no
/// distribution of its own for the rest of its words, unless there is no other level.
fn classes(context: Context, is_last: bool, tags: usize, tag_of: &[u32]) -> (usize, Vec<Option<u32>>) {
    let symbols = tag_of.len();
    let mut is_split = vec![is_last; tags];
    tag_of[tags..].iter().for_each(|&tag| is_split[tag as usize] = true);
    let mut class_of = vec![];
    let mut number = std::collections::BTreeMap::new();
    for at in 0..CONTEXTS * symbols {
        let (side, valence, symbol) = (at / symbols / 2, at / symbols % 2, at % symbols);
        let tag = tag_of[symbol] as usize;
        let key = match context {
            Context::Nothing => (side, 0, 0),
            Context::Valence => (side, valence, 0),
            Context::Tag => (side, 0, tag),
            Context::ValenceTag => (side, valence, tag),
            Context::ValenceSymbol if !is_split[tag] => {
                class_of.push(None);
                continue;
            }
            Context::ValenceSymbol => (side, valence, symbol),
        };
        let next = number.len() as u32;
        class_of.push(Some(*number.entry(key).or_insert(next)));
    }
    (number.len(), class_of)
}
