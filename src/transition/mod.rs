//! Transition systems for projective dependency trees, their static oracles and their memory cost.
//!
//! A *configuration* is a stack, a buffer and the arcs built so far. A *transition* turns one configuration into the
//! next. The *static oracle* of a system names, for a configuration on the way to a gold tree, the transition to take.
//! The *memory cost* of a configuration is the number of unconnected pieces that a parser has to keep in mind there
//! (Noji & Miyao 2014, section 4).
//!
//! Words are 1 ..= n; the dummy root is n + 1, behind the last word (Ballesteros & Nivre 2013). Every system then
//! makes exactly 2(n + 1) - 1 transitions for n words, which makes their histograms comparable.
//!
//! A configuration owns flat buffers that grow to the longest sentence and are reused: a derivation allocates nothing
//! and a transition costs a few nanoseconds. The caller makes one configuration per worker, calls
//! [`TransitionSystem::start`] for each sentence, and then either follows the oracle ([`follow_oracle`]) or chooses
//! among the legal transitions, as a parser does.

pub mod arc_eager;
pub mod arc_standard;
pub mod arcs;
pub mod dependency_length;
pub mod embedding;
pub mod left_corner;
pub mod reorder;

pub use arc_eager::ArcEager;
pub use arc_standard::ArcStandard;
pub use arcs::Arcs;
pub use left_corner::LeftCorner;

use crate::corpus::tree::Tree;

/// Name of a dependency relation, as an integer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(pub u16);

/// A transition system: its configuration is `Self`.
pub trait TransitionSystem: Default {
    /// One step. Transitions that build an arc carry its label.
    type Transition: Copy + std::fmt::Debug + PartialEq;

    /// The name in job files and reports.
    const NAME: &'static str;

    /// Becomes the initial configuration of a sentence of `words` words, keeping its buffers.
    fn start(&mut self, words: u32);

    /// Whether the derivation is complete.
    fn is_final(&self) -> bool;

    /// Whether `transition` may be taken here.
    fn is_legal(&self, transition: Self::Transition) -> bool;

    /// Takes `transition`, which must be legal.
    fn apply(&mut self, transition: Self::Transition);

    /// The transition that leads from here to `gold`, when this configuration was reached by following the oracle.
    fn oracle(&self, gold: &Tree) -> Self::Transition;

    /// Number of unconnected pieces to remember in this configuration.
    fn memory_cost(&self) -> u32;

    /// The arcs built so far.
    fn arcs(&self) -> &Arcs;
}

/// Derives `gold` by the static oracle and shows `visit` each configuration *after* its transition (the initial
/// configuration is not counted).
#[inline]
pub fn follow_oracle<S: TransitionSystem>(system: &mut S, gold: &Tree, mut visit: impl FnMut(&S, S::Transition)) {
    system.start(gold.words());
    while !system.is_final() {
        let transition = system.oracle(gold);
        debug_assert!(system.is_legal(transition), "{}: {transition:?} is not legal here", S::NAME);
        system.apply(transition);
        visit(system, transition);
    }
}
