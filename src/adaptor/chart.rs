//! The inside algorithm over a view: the probability of every symbol over every span of a string, and derivations drawn,
//! or the best one found, from it.
//!
//! ```text
//! in(X, i, j) = c(X, i, j) + f(X) ( p(X --> w_j) [j = i + 1] + sum over X --> Y of p in(Y, i, j)
//!                                   + sum over X --> Y Z, k of p in(Y, i, k) in(Z, k, j) )
//! ```
//!
//! where c is the probability of the cached trees with these words and f that of a new table (c = 0, f = 1 where X is not
//! adapted). Cells lie in one flat array; a symbol that always begins or ends a string, or has a bounded length, has a
//! row and not a square. Probabilities are multiplied by a scale for each word, chosen so that long strings neither sink nor
//! rise out of range.

use super::cache::Cache;
use super::derivation::{Derivation, Fresh, Node};
use super::grammar::{Grammar, NONE, Symbol};
use super::trie::ROOT;
use super::view::{Local, View};
use crate::cluster::rng::Generator;
use crate::math::draws::unit;

/// What the chart asks of a model.
pub trait Weights {
    /// p(rule | its parent).
    fn rule(&self, rule: u32) -> f64;
    /// The cached trees; none for a plain grammar.
    fn cache(&self) -> Option<&Cache>;
    /// What a probability counts for: its power, where the sampler is annealed.
    fn power(&self) -> f64 {
        1.0
    }
}

/// The model as it stands.
pub struct Current<'a> {
    pub grammar: &'a Grammar,
    pub cache: &'a Cache,
    pub power: f64,
}

impl Weights for Current<'_> {
    #[inline]
    fn rule(&self, rule: u32) -> f64 {
        raised(self.cache.rule_probability(self.grammar, rule), self.power)
    }

    fn cache(&self) -> Option<&Cache> {
        (!self.cache.entries.is_empty()).then_some(self.cache)
    }

    fn power(&self) -> f64 {
        self.power
    }
}

#[inline]
pub fn raised(value: f64, power: f64) -> f64 {
    if power == 1.0 { value } else { libm::pow(value, power) }
}

/// Whether derivations add up, or the best one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Sum,
    Best,
}

/// Where the cells of a symbol are: cell (i, j) is at offset + i row + j column.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    offset: usize,
    row: usize,
    column: usize,
    /// Of the cached entries, with the same rows and columns.
    entries: usize,
    /// Of lexical probabilities, by position.
    lexical: usize,
    /// The probability of a new table.
    new: f64,
}

#[derive(Default)]
pub struct Chart {
    n: usize,
    pub(super) places: Vec<Spot>,
    /// Of the last string; there may be more than it needs.
    pub(super) cells: Vec<f64>,
    entries: Vec<u32>,
    /// p(X --> w_i) and the rule.
    lexical: Vec<(f64, u32)>,
    /// By production.
    pub(super) weights: Vec<f64>,
    /// By nonterminal: its number in the view.
    local_of: Vec<u32>,
    view: u32,
    known: Vec<Symbol>,
    /// The scale for a word, and its powers.
    scale: f64,
    powers: Vec<f64>,
    stack: Vec<(u32, u32, u32)>,
}

/// A symbol's place, and what the loops need to know of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spot {
    place: Place,
    fewest: usize,
    most: usize,
    begins: bool,
    ends: bool,
}

impl Spot {
    #[inline]
    pub(super) fn cell(&self, i: usize, j: usize) -> usize {
        self.place.offset + i * self.place.row + j * self.place.column
    }
}

/// No chart has more cells: one of a gigabyte.
const MOST_CELLS: f64 = (1u32 << 27) as f64;

/// Whether there is room for the chart of a string of so many symbols.
pub fn has_room(view: &View, n: usize) -> bool {
    // Charts of spines, which a document may have, are no larger than the string.
    n < 1 << 24 && view.locals.iter().map(|local| layout(local, n).2 as f64).sum::<f64>() <= MOST_CELLS
}

/// A chart whose symbols can stand anywhere takes cubic time: strings for it have at most so many symbols.
const LONGEST_CUBIC: usize = 1000;

/// Whether a string of so many symbols can be parsed in minutes. Where symbols that can stand anywhere are short, time is
/// nearly linear.
pub fn has_time(view: &View, n: usize) -> bool {
    n <= LONGEST_CUBIC || (view.inner_most as usize).min(n).saturating_mul(n) <= LONGEST_CUBIC * LONGEST_CUBIC
}

/// Rows and columns of a symbol's cells, and how many there are.
fn layout(local: &Local, n: usize) -> (usize, usize, usize) {
    let most = (local.most as usize).min(n);
    match (local.begins, local.ends) {
        (true, _) => (0, 1, n + 1),
        (_, true) => (1, 0, n + 1),
        // Behind i there are as many cells as it can have lengths; the first is at j = i + 1.
        _ if most < n => (most - usize::from(most > 0), 1, n * most + 2),
        _ => (n + 1, 1, (n + 1) * (n + 1)),
    }
}

/// Values below or above are out of range soon.
const RANGE: std::ops::Range<f64> = 1e-250..1e250;

impl Chart {
    /// Fills the chart for `string`; returns whether the root of the view covers it.
    pub fn fill(
        &mut self,
        grammar: &Grammar,
        (number, view): (u32, &View),
        string: &[Symbol],
        weights: &impl Weights,
        mode: Mode,
    ) -> bool {
        self.begin(grammar, number, view, string, weights);
        self.scale = self.likely_scale(view, string.len());
        // Few strings are so unlikely that they need another scale.
        for _ in 0..40 {
            self.set_scale(view, string, weights);
            match mode {
                Mode::Sum => self.add_up::<false>(view, string),
                Mode::Best => self.add_up::<true>(view, string),
            }
            let total = self.total(view);
            if RANGE.contains(&total) {
                return true;
            }
            if total >= RANGE.end || total.is_nan() {
                self.scale /= 4.0;
            } else {
                self.scale *= 32.0;
                if string.len() < 20 && total == 0.0 {
                    return false;
                }
            }
        }
        self.total(view) > 0.0
    }

    /// A scale that keeps long strings in range: 1 / the usual probability of a word.
    fn likely_scale(&self, view: &View, n: usize) -> f64 {
        if n < 40 {
            return 1.0;
        }
        let mut sum = 0.0;
        for i in 0..n {
            let words = view.locals.iter().zip(&self.places).filter(|(local, _)| local.has_lexical);
            let best = words.map(|(_, spot)| self.lexical[spot.place.lexical + i].0).fold(0.0, f64::max);
            sum += crate::math::ln(best.max(1e-12));
        }
        libm::exp(-sum / n as f64)
    }

    /// The root's value over the whole string, with its scale.
    fn total(&self, view: &View) -> f64 {
        let root = &self.places[view.root as usize];
        match root.fewest <= self.n && self.n <= root.most {
            true => self.cells[root.cell(0, self.n)],
            false => 0.0,
        }
    }

    /// ln of the root's value over the whole string.
    pub fn total_ln(&self, view: &View) -> f64 {
        crate::math::ln(self.total(view)) - self.n as f64 * crate::math::ln(self.scale)
    }

    /// Lays out the cells, and takes over the weights of rules.
    fn begin(&mut self, grammar: &Grammar, number: u32, view: &View, string: &[Symbol], weights: &impl Weights) {
        let n = string.len();
        self.n = n;
        if self.view != number || self.local_of.is_empty() {
            self.local_of.resize(grammar.nonterminals as usize, NONE);
            self.known.drain(..).for_each(|symbol| self.local_of[symbol as usize] = NONE);
            for (local, number) in view.locals.iter().zip(0..) {
                if local.symbol != NONE && !local.is_terminal {
                    self.local_of[local.symbol as usize] = number;
                    self.known.push(local.symbol);
                }
            }
            self.view = number;
        }
        self.places.clear();
        let (mut cells, mut entries, mut lexical) = (0, 0, 0);
        for local in &view.locals {
            let most = (local.most as usize).min(n);
            let (row, column, count) = layout(local, n);
            let mut place = Place { offset: cells, row, column, ..Place::default() };
            cells += count;
            if local.is_adapted
                && let Some(cache) = weights.cache()
            {
                place.entries = entries;
                entries += count;
                place.new = raised(cache.new_probability(local.symbol), weights.power());
            } else {
                place.new = 1.0;
            }
            if local.has_lexical {
                place.lexical = lexical;
                lexical += n;
            }
            let fewest = local.fewest as usize;
            self.places.push(Spot { place, fewest, most, begins: local.begins, ends: local.ends });
        }
        if self.cells.len() < cells {
            self.cells.resize(cells, 0.0);
        }
        self.entries.clear();
        self.entries.resize(entries, NONE);
        self.lexical.clear();
        self.lexical.resize(lexical, (0.0, NONE));
        self.weights.clear();
        self.weights.extend(view.productions.iter().map(|production| match production.rule {
            NONE => 1.0,
            rule => weights.rule(rule),
        }));
        self.find_words(grammar, view, string, weights);
        self.find_cached(view, string, weights);
    }

    /// The rules for each word.
    fn find_words(&mut self, grammar: &Grammar, view: &View, string: &[Symbol], weights: &impl Weights) {
        for (i, &word) in string.iter().enumerate() {
            for &rule in &grammar.lexical[(word - grammar.nonterminals) as usize] {
                let local = self.local_of[grammar.rules[rule as usize].parent as usize];
                if local != NONE && view.locals[local as usize].has_lexical {
                    self.lexical[self.places[local as usize].place.lexical + i] = (weights.rule(rule), rule);
                }
            }
        }
    }

    /// Walks the trie from each position.
    fn find_cached(&mut self, view: &View, string: &[Symbol], weights: &impl Weights) {
        let Some(cache) = weights.cache() else { return };
        if self.entries.is_empty() {
            return;
        }
        for i in 0..string.len() {
            let mut node = ROOT;
            for j in i + 1..=string.len() {
                let Some(child) = cache.trie.child(node, string[j - 1]) else { break };
                node = child;
                let mut at = cache.trie.first[node as usize];
                while at != NONE {
                    let entry = &cache.entries[at as usize];
                    let local = self.local_of[entry.symbol as usize];
                    if entry.customers > 0 && local != NONE {
                        let spot = &self.places[local as usize];
                        if view.locals[local as usize].is_adapted && spot.stands(i, j, string.len()) {
                            let place = spot.cell(i, j) - spot.place.offset + spot.place.entries;
                            self.entries[place] = at;
                        }
                    }
                    at = entry.next;
                }
            }
        }
        self.find_entry_weights(view, string.len(), weights, cache);
    }

    /// Puts the probabilities of cached entries where the sums begin.
    fn find_entry_weights(&mut self, view: &View, n: usize, weights: &impl Weights, cache: &Cache) {
        let power = weights.power();
        for (local, number) in view.locals.iter().zip(0..) {
            if !local.is_adapted {
                continue;
            }
            let spot = self.places[number];
            spot.each(n, |i, j| {
                let cell = spot.cell(i, j);
                let at = self.entries[cell - spot.place.offset + spot.place.entries];
                self.cells[cell] = if at == NONE { 0.0 } else { entry_weight(cache, at, power) };
            });
        }
    }

    /// Multiplies what stands for words by the scale.
    fn set_scale(&mut self, view: &View, string: &[Symbol], weights: &impl Weights) {
        self.powers.clear();
        let mut power = 1.0;
        for _ in 0..=string.len() {
            self.powers.push(power);
            power *= self.scale;
        }
        if self.scale != 1.0
            && let Some(cache) = weights.cache()
            && !self.entries.is_empty()
        {
            self.find_entry_weights(view, string.len(), weights, cache);
            for (local, number) in view.locals.iter().zip(0..) {
                let spot = self.places[number];
                if local.is_adapted {
                    spot.each(string.len(), |i, j| self.cells[spot.cell(i, j)] *= self.powers[j - i]);
                }
            }
        }
    }

    /// All spans, by their ends and then from short to long.
    fn add_up<const BEST: bool>(&mut self, view: &View, string: &[Symbol]) {
        let n = self.n;
        for j in 1..=n {
            let most = if j == n { view.last_most } else { view.inner_most } as usize;
            let from = j.saturating_sub(most);
            for i in (from..j).rev() {
                self.span::<BEST>(view, string, i, j);
            }
            if from > 0 {
                self.span::<BEST>(view, string, 0, j);
            }
        }
    }

    #[inline]
    fn span<const BEST: bool>(&mut self, view: &View, string: &[Symbol], i: usize, j: usize) {
        let length = j - i;
        for (number, local) in view.locals.iter().enumerate() {
            let spot = self.places[number];
            if !spot.stands(i, j, self.n) || length > spot.most {
                continue;
            }
            let mut value = 0.0;
            if length >= spot.fewest {
                value = self.expansions::<BEST>(view, local, &spot, i, j);
                if local.is_terminal {
                    value = if string[i] == local.symbol { self.scale } else { 0.0 };
                }
            }
            let cell = spot.cell(i, j);
            if local.is_adapted && !self.entries.is_empty() {
                let cached = self.cells[cell];
                let new = value * spot.place.new;
                value = if BEST { cached.max(new) } else { cached + new };
            }
            self.cells[cell] = value;
        }
    }

    /// The sum, or the best, of what rules make of a symbol over a span.
    #[inline]
    fn expansions<const BEST: bool>(&self, view: &View, local: &Local, spot: &Spot, i: usize, j: usize) -> f64 {
        let mut value = 0.0;
        if local.has_lexical && j == i + 1 {
            value = self.lexical[spot.place.lexical + i].0 * self.scale;
        }
        for at in local.from as usize..local.to as usize {
            let production = &view.productions[at];
            let left = &self.places[production.left as usize];
            let inner = if production.right == NONE {
                if j - i < left.fewest || j - i > left.most { 0.0 } else { self.cells[left.cell(i, j)] }
            } else {
                let right = &self.places[production.right as usize];
                let (low, high) = cuts(left, right, i, j);
                let mut inner = 0.0;
                let (mut one, mut two) = (left.cell(i, low), right.cell(low, j));
                for _ in low..high {
                    let product = self.cells[one] * self.cells[two];
                    inner = if BEST { f64::max(inner, product) } else { inner + product };
                    one += left.place.column;
                    two += right.place.row;
                }
                inner
            };
            let weighted = inner * self.weights[at];
            value = if BEST { value.max(weighted) } else { value + weighted };
        }
        value
    }

    /// Draws a derivation of the whole string, or finds the best one; where `is_label`, of an adapted nonterminal's own
    /// rules: the tree of a table.
    pub fn derive(
        &mut self,
        view: &View,
        weights: &impl Weights,
        is_label: bool,
        rng: Option<&mut Generator>,
        derivation: &mut Derivation,
    ) {
        derivation.clear();
        let mut chooser = Chooser { rng, lot: 0.0, best: 0.0, choice: (NONE, 0) };
        let mut stack = std::mem::take(&mut self.stack);
        stack.clear();
        stack.push((view.root, 0, self.n as u32));
        let mut is_root = is_label;
        while let Some((number, i, j)) = stack.pop() {
            let (i, j) = (i as usize, j as usize);
            let local = &view.locals[number as usize];
            if local.is_terminal {
                continue;
            }
            let spot = self.places[number as usize];
            let is_adapted = local.is_adapted && !std::mem::take(&mut is_root);
            let cell = self.cells[spot.cell(i, j)];
            let has_cache = local.is_adapted && !self.entries.is_empty();
            let entry = match has_cache && is_adapted {
                true => self.entries[spot.cell(i, j) - spot.place.offset + spot.place.entries],
                false => NONE,
            };
            let cached = match entry {
                NONE => 0.0,
                entry => entry_weight(weights.cache().expect("a cache"), entry, weights.power()) * self.powers[j - i],
            };
            // The root of a label is expanded by rules: what they give is found again.
            let mut rest = match (has_cache, is_adapted) {
                (false, _) => cell,
                (true, true) => (cell - cached) / spot.place.new,
                (true, false) => match chooser.rng.is_some() {
                    true => self.expansions::<false>(view, local, &spot, i, j),
                    false => self.expansions::<true>(view, local, &spot, i, j),
                },
            };
            if entry != NONE && chooser.prefers(cached, cell) {
                let cache = weights.cache().expect("a cache");
                derivation.nodes.push(Node::Table(chooser.table(cache, entry, weights.power())).pack());
                continue;
            }
            if has_cache && is_adapted && chooser.rng.is_none() {
                rest = self.expansions::<true>(view, local, &spot, i, j);
            }
            let (production, cut) = self.choose(view, local, &spot, (i, j), rest, &mut chooser);
            let rule = match production {
                NONE => self.lexical[spot.place.lexical + i].1,
                production => view.productions[production as usize].rule,
            };
            if rule != NONE {
                derivation.nodes.push(if is_adapted { Node::Fresh(rule).pack() } else { Node::Rule(rule).pack() });
                if is_adapted {
                    derivation.fresh.push(Fresh { from: i as u32, to: j as u32, table: NONE });
                }
            }
            if production != NONE {
                let production = view.productions[production as usize];
                match production.right {
                    NONE => stack.push((production.left, i as u32, j as u32)),
                    right => {
                        stack.push((right, cut as u32, j as u32));
                        stack.push((production.left, i as u32, cut as u32));
                    }
                }
            }
        }
        self.stack = stack;
    }

    /// Chooses a production, and where it is cut; none: the rule for the word.
    fn choose(
        &self,
        view: &View,
        local: &Local,
        spot: &Spot,
        (i, j): (usize, usize),
        rest: f64,
        chooser: &mut Chooser<'_>,
    ) -> (u32, usize) {
        chooser.begin(rest);
        if local.has_lexical && j == i + 1 {
            let (probability, rule) = self.lexical[spot.place.lexical + i];
            if rule != NONE && chooser.offer(probability * self.scale, (NONE, 0)) {
                return (NONE, 0);
            }
        }
        for at in local.from as usize..local.to as usize {
            let production = &view.productions[at];
            let left = &self.places[production.left as usize];
            if production.right == NONE {
                if j - i >= left.fewest
                    && j - i <= left.most
                    && chooser.offer(self.cells[left.cell(i, j)] * self.weights[at], (at as u32, 0))
                {
                    return (at as u32, 0);
                }
                continue;
            }
            let right = &self.places[production.right as usize];
            let (low, high) = cuts(left, right, i, j);
            for k in low..high {
                let product = self.cells[left.cell(i, k)] * self.cells[right.cell(k, j)] * self.weights[at];
                if chooser.offer(product, (at as u32, k)) {
                    return (at as u32, k);
                }
            }
        }
        chooser.choice
    }

    /// The rule for a word, and where cells are: for expected counts.
    pub(super) fn word_rule(&self, number: usize, i: usize) -> (f64, u32) {
        self.lexical[self.places[number].place.lexical + i]
    }

    pub(super) fn scale(&self) -> f64 {
        self.scale
    }

    pub(super) fn length(&self) -> usize {
        self.n
    }
}

impl Spot {
    /// Calls `visit` for every span that the symbol can have.
    pub(super) fn each(&self, n: usize, mut visit: impl FnMut(usize, usize)) {
        for j in (if self.ends { n } else { 1 })..=n {
            let from = if self.begins { 0 } else { j.saturating_sub(self.most) };
            for i in from..(if self.begins { 1 } else { j }) {
                if j - i <= self.most {
                    visit(i, j);
                }
            }
        }
    }

    /// Whether the symbol can stand there, by the ends of the string.
    pub(super) fn stands(&self, i: usize, j: usize, n: usize) -> bool {
        (!self.begins || i == 0) && (!self.ends || j == n)
    }

    pub(super) fn has(&self, i: usize, j: usize) -> bool {
        (self.fewest..=self.most).contains(&(j - i))
    }
}

/// Where a span can be cut: from the first to before the second.
#[inline]
pub(super) fn cuts(left: &Spot, right: &Spot, i: usize, j: usize) -> (usize, usize) {
    let low = (i + left.fewest).max(j.saturating_sub(right.most));
    let high = (i + left.most).min(j.saturating_sub(right.fewest)) + 1;
    if left.fewest > j || right.fewest > j { (i + 1, i + 1) } else { (low, high.max(low)) }
}

/// The probability of the cached trees of an entry.
#[inline]
fn entry_weight(cache: &Cache, entry: u32, power: f64) -> f64 {
    let here = &cache.entries[entry as usize];
    if power != 1.0 {
        return cache.tables_at(entry).map(|table| raised(cache.table_probability(table), power)).sum();
    }
    let symbol = here.symbol as usize;
    let adaptor = cache.adaptors[symbol];
    (f64::from(here.customers) - adaptor.a * f64::from(here.tables)) / (f64::from(cache.customers[symbol]) + adaptor.b)
}

/// Draws among alternatives, or keeps the best.
struct Chooser<'r> {
    rng: Option<&'r mut Generator>,
    lot: f64,
    best: f64,
    choice: (u32, usize),
}

impl Chooser<'_> {
    /// Whether the cached trees are taken, whose part of the cell is `cached`.
    fn prefers(&mut self, cached: f64, cell: f64) -> bool {
        match &mut self.rng {
            Some(rng) => unit(*rng) * cell < cached,
            None => cached >= cell,
        }
    }

    /// A table of an entry.
    fn table(&mut self, cache: &Cache, entry: u32, power: f64) -> u32 {
        let weight = |table: u32| raised(cache.table_probability(table), power);
        let mut chosen = cache.entries[entry as usize].first;
        match &mut self.rng {
            Some(rng) if cache.entries[entry as usize].tables > 1 => {
                let mut lot = unit(*rng) * entry_weight(cache, entry, power);
                for table in cache.tables_at(entry) {
                    chosen = table;
                    lot -= weight(table);
                    if lot < 0.0 {
                        break;
                    }
                }
            }
            Some(_) => {}
            None => {
                let customers = |table: u32| cache.tables[table as usize].customers;
                chosen = cache
                    .tables_at(entry)
                    .fold(chosen, |best, table| if customers(table) > customers(best) { table } else { best });
            }
        }
        chosen
    }

    fn begin(&mut self, total: f64) {
        self.choice = (NONE, 0);
        self.best = -1.0;
        self.lot = match &mut self.rng {
            Some(rng) => unit(*rng) * total,
            None => 0.0,
        };
    }

    /// Offers an alternative; returns whether it is taken. What rounding leaves over goes to the last one that is possible.
    #[inline]
    fn offer(&mut self, weight: f64, choice: (u32, usize)) -> bool {
        if self.rng.is_none() {
            if weight > self.best {
                (self.best, self.choice) = (weight, choice);
            }
            return false;
        }
        if weight > 0.0 {
            self.choice = choice;
        }
        self.lot -= weight;
        self.lot < 0.0 && weight > 0.0
    }
}
