//! What a parser does, step by step, in each of the transition systems that it can have.
//!
//! ```text
//! arc-standard   Shift, LeftArc, RightArc
//! left-corner    Shift, InsertHead, Insert         these generate a word
//!                LeftPred, RightPred, LeftComp, RightComp     and one of these follows (Noji & Miyao 2014, Figure 2)
//! ```
//!
//! Insert puts the word where the dummy of the topmost element is, below the node that waits for it; InsertHead does so where
//! nothing is above the dummy, so that there is no arc to be labelled. RightComp is used only where there is a node above the
//! dummy: without one it would be a second way to say the same.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::transition::{Label, arc_standard, left_corner};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// The next word becomes an item of its own.
    Shift,
    LeftArc(Label),
    RightArc(Label),
    /// The next word takes the place of a dummy that is the head of its element.
    InsertHead,
    /// The next word takes the place of a dummy; labelled for the arc from the node above.
    Insert(Label),
    LeftPred(Label),
    RightPred,
    LeftComp(Label),
    RightComp(Label),
}

impl Action {
    /// Whether a word is generated.
    #[inline]
    pub fn has_word(self) -> bool {
        matches!(self, Action::Shift | Action::InsertHead | Action::Insert(_))
    }

    /// Of an action that generates a word: what contexts of its tag and form see of it (`b.l`).
    #[inline]
    pub fn value(self) -> u32 {
        match self {
            Action::Insert(label) => u32::from(label.0) + 3,
            Action::InsertHead => 2,
            _ => 1,
        }
    }

    pub fn of_arc_standard(transition: arc_standard::Transition) -> Action {
        match transition {
            arc_standard::Transition::Shift => Action::Shift,
            arc_standard::Transition::LeftArc(label) => Action::LeftArc(label),
            arc_standard::Transition::RightArc(label) => Action::RightArc(label),
        }
    }

    /// `is_below`: whether there is a node above the dummy.
    pub fn of_left_corner(transition: left_corner::Transition, is_below: bool) -> Action {
        match transition {
            left_corner::Transition::Shift => Action::Shift,
            left_corner::Transition::Insert(label) if is_below => Action::Insert(label),
            left_corner::Transition::Insert(_) => Action::InsertHead,
            left_corner::Transition::LeftPred(label) => Action::LeftPred(label),
            left_corner::Transition::RightPred => Action::RightPred,
            left_corner::Transition::LeftComp(label) => Action::LeftComp(label),
            left_corner::Transition::RightComp(label) => Action::RightComp(label),
        }
    }

    /// The transition of left-corner parsing that this is.
    pub fn to_left_corner(self) -> Option<left_corner::Transition> {
        match self {
            Action::Shift => Some(left_corner::Transition::Shift),
            Action::InsertHead => Some(left_corner::Transition::Insert(Label(0))),
            Action::Insert(label) => Some(left_corner::Transition::Insert(label)),
            Action::LeftPred(label) => Some(left_corner::Transition::LeftPred(label)),
            Action::RightPred => Some(left_corner::Transition::RightPred),
            Action::LeftComp(label) => Some(left_corner::Transition::LeftComp(label)),
            Action::RightComp(label) => Some(left_corner::Transition::RightComp(label)),
            Action::LeftArc(_) | Action::RightArc(_) => None,
        }
    }
}

/// Kinds of actions, without labels: a system has up to seven, by number.
pub const MOST_KINDS: usize = 7;

/// A set of kinds.
pub type Kinds = u8;

/// A transition system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    #[default]
    ArcStandard,
    LeftCorner,
}

impl System {
    /// The name in job files and reports.
    pub fn name(self) -> &'static str {
        match self {
            System::ArcStandard => "arc-standard",
            System::LeftCorner => "left-corner",
        }
    }

    /// Its kinds, in the order of their numbers; those with labels have any here.
    fn kinds(self) -> &'static [Action] {
        const ANY: Label = Label(0);
        match self {
            System::ArcStandard => &[Action::Shift, Action::LeftArc(ANY), Action::RightArc(ANY)],
            System::LeftCorner => &[
                Action::Shift,
                Action::InsertHead,
                Action::Insert(ANY),
                Action::LeftPred(ANY),
                Action::RightPred,
                Action::LeftComp(ANY),
                Action::RightComp(ANY),
            ],
        }
    }
}

/// Numbers of the kinds of arc-standard, as sets.
pub mod arcs {
    use super::Kinds;
    pub const SHIFT: Kinds = 1;
    pub const LEFT: Kinds = 2;
    pub const RIGHT: Kinds = 4;
}

/// Numbers of the kinds of left-corner, as sets.
pub mod corners {
    use super::Kinds;
    pub const SHIFT: Kinds = 1;
    pub const INSERT_HEAD: Kinds = 2;
    pub const INSERT: Kinds = 4;
    pub const LEFT_PRED: Kinds = 8;
    pub const RIGHT_PRED: Kinds = 16;
    pub const LEFT_COMP: Kinds = 32;
    pub const RIGHT_COMP: Kinds = 64;
}

/// The actions of a system as outcomes 0, 1, 2 ...: kind by kind, those with labels once for each label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Actions {
    pub system: System,
    pub labels: usize,
}

/// `action` with another label, and whether it has one.
fn labelled(action: Action, label: Label) -> (Action, bool) {
    let new = match action {
        Action::Shift | Action::InsertHead | Action::RightPred => return (action, false),
        Action::LeftArc(_) => Action::LeftArc(label),
        Action::RightArc(_) => Action::RightArc(label),
        Action::Insert(_) => Action::Insert(label),
        Action::LeftPred(_) => Action::LeftPred(label),
        Action::LeftComp(_) => Action::LeftComp(label),
        Action::RightComp(_) => Action::RightComp(label),
    };
    (new, true)
}

impl Actions {
    /// How many kinds there are.
    #[inline]
    pub fn kinds(self) -> usize {
        self.system.kinds().len()
    }

    /// The outcomes of each kind.
    pub fn ranges(self) -> impl Iterator<Item = Range<usize>> {
        let mut start = 0;
        self.system.kinds().iter().map(move |&kind| {
            let range = start..start + if labelled(kind, Label(0)).1 { self.labels } else { 1 };
            start = range.end;
            range
        })
    }

    /// How many outcomes there are.
    pub fn outcomes(self) -> u32 {
        self.ranges().last().map_or(0, |range| range.end as u32)
    }

    /// The action of a kind with a label.
    #[inline]
    pub fn action(self, kind: usize, label: Label) -> Action {
        labelled(self.system.kinds()[kind], label).0
    }

    /// The outcome that an action is.
    pub fn outcome(self, action: Action) -> u32 {
        let (label, kind) = match action {
            Action::LeftArc(label)
            | Action::RightArc(label)
            | Action::Insert(label)
            | Action::LeftPred(label)
            | Action::LeftComp(label)
            | Action::RightComp(label) => (label, labelled(action, Label(0)).0),
            plain => (Label(0), plain),
        };
        let place = self.system.kinds().iter().position(|other| *other == kind).expect("an action of the system");
        let range = self.ranges().nth(place).expect("its outcomes");
        range.start as u32 + u32::from(label.0)
    }

    /// The action that an outcome is, and its kind.
    pub fn of_outcome(self, outcome: usize) -> (Action, usize) {
        let mut ranges = self.ranges().enumerate();
        let (kind, range) = ranges.find(|(_, range)| range.contains(&outcome)).expect("an outcome of the system");
        (self.action(kind, Label((outcome - range.start) as u16)), kind)
    }
}
