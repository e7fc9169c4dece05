//! The sum over all trees of a sentence, and how often each score is used in expectation.
//!
//! [`Chart::inside`] fills the chart from narrow to wide; [`Chart::outside`] goes back and adds up the derivative of the sum
//! with respect to each item. Score times derivative, divided by the sum, is the expected number of uses. Cost for n words:
//! about n^3 / 6 multiplications and additions for each half and each of its two sums inside, twice that outside; memory
//! O(n^2) for each half. Everything is inlined into the caller, who chooses the instructions.

use super::halves::{Half, Halves, Side};
use super::scores::{Lanes, Scores};
use crate::math::pairs;

/// The items of a chart, all halves one after the other, each by head and by the other end. Buffers are reused.
#[derive(Clone, Debug, Default)]
pub struct Chart<const L: usize> {
    words: usize,
    /// U: dependents up to the end, and more may come.
    open: Items<L>,
    /// S: the same, and stopped.
    closed: Items<L>,
    /// I: the dependent at the end has its own dependents only on the side of the head.
    reached: Items<L>,
    /// The part of I in which it is not the nearest dependent.
    reached_far: Items<L>,
    open_outside: Items<L>,
    closed_outside: Items<L>,
    reached_outside: Items<L>,
}

type Items<const L: usize> = Vec<Lanes<L>>;

/// to += a b. The sums are stored when all of them are there: otherwise the compiler goes lane by lane where it cannot tell
/// that `to` is apart from the others.
#[inline(always)]
fn add_product<const L: usize>(to: &mut Lanes<L>, a: &Lanes<L>, b: &Lanes<L>) {
    let mut sums = *to;
    for lane in 0..L {
        sums[lane] += a[lane] * b[lane];
    }
    *to = sums;
}

#[inline(always)]
fn product<const L: usize>(a: &Lanes<L>, b: &Lanes<L>) -> Lanes<L> {
    let mut out = [0.0; L];
    for lane in 0..L {
        out[lane] = a[lane] * b[lane];
    }
    out
}

/// A span of a half: its head and its other end.
#[derive(Clone, Copy)]
struct Span {
    head: usize,
    end: usize,
}

/// The span of that width, from 1, that begins at `start`.
#[inline(always)]
fn span(side: Side, start: usize, width: usize) -> Span {
    match side {
        Side::Right => Span { head: start, end: start + width },
        Side::Left => Span { head: start + width, end: start },
    }
}

impl<const L: usize> Chart<L> {
    #[inline(always)]
    fn at(&self, half: usize, head: usize, end: usize) -> usize {
        (half * self.words + head) * self.words + end
    }

    #[inline(always)]
    fn resize(&mut self, words: usize, halves: &Halves) {
        self.words = words;
        let size = words * words * halves.all.len();
        for items in [&mut self.open, &mut self.closed, &mut self.reached, &mut self.reached_far] {
            if items.len() < size {
                items.resize(size, [0.0; L]);
            }
        }
    }

    /// The sum over all trees.
    #[inline(always)]
    pub fn inside(&mut self, scores: &Scores<L>, halves: &Halves) -> Lanes<L> {
        let words = scores.words();
        self.resize(words, halves);
        for (number, half) in halves.all.iter().enumerate() {
            for word in 0..words {
                let at = self.at(number, word, word);
                self.open[at] = [1.0; L];
                self.closed[at] = *scores.stop(half.side as usize, 0, word);
            }
        }
        for width in 1..words {
            for start in 0..words - width {
                for (number, half) in halves.all.iter().enumerate() {
                    self.reach(scores, number, half, span(half.side, start, width));
                }
                for (number, half) in halves.all.iter().enumerate() {
                    self.complete(scores, number, half, span(half.side, start, width));
                }
            }
        }
        let mut sum = [0.0; L];
        for word in 0..words {
            let (left, right) = self.root_items(halves, word);
            let both = product(&self.closed[left], &self.closed[right]);
            add_product(&mut sum, &both, scores.root(word));
        }
        sum
    }

    /// The items of a word that depends on the root.
    #[inline(always)]
    fn root_items(&self, halves: &Halves, word: usize) -> (usize, usize) {
        (self.at(halves.root[0], word, 0), self.at(halves.root[1], word, self.words - 1))
    }

    /// Items of the two parts between a head and its farthest dependent, `head` and `end`: the dependent's half towards
    /// the head, nearest cut first, and the head's half, from one dependent on.
    #[inline(always)]
    fn parts(&self, half: &Half, dependent: [usize; 2], Span { head, end }: Span) -> Parts {
        match half.side {
            Side::Right => Parts {
                near: self.at(dependent[0], end, head + 1),
                closed: self.at(dependent[0], end, head + 2),
                open: half.before.map(|before| self.at(before, head, head + 1)),
                count: end - head - 1,
            },
            Side::Left => Parts {
                near: self.at(dependent[1], end, head - 1),
                closed: self.at(dependent[1], end, end),
                open: half.before.map(|before| self.at(before, head, end + 1)),
                count: head - end - 1,
            },
        }
    }

    /// I, for the dependent at the end of a span.
    #[inline(always)]
    fn reach(&mut self, scores: &Scores<L>, number: usize, half: &Half, span: Span) {
        let Some(dependent) = half.dependent else { return };
        let parts = self.parts(half, dependent, span);
        let near = product(scores.arc(0, span.head, span.end), &self.closed[parts.near]);
        let mut far = [0.0; L];
        if let Some(open) = parts.open {
            let heads = &self.open[open..][..parts.count];
            let dependents = &self.closed[parts.closed..][..parts.count];
            pairs::each(heads, dependents, |a, b| add_product(&mut far, a, b));
        }
        let far = product(&far, scores.arc(1, span.head, span.end));
        let at = self.at(number, span.head, span.end);
        self.reached_far[at] = far;
        for lane in 0..L {
            self.reached[at][lane] = near[lane] + far[lane];
        }
    }

    /// Dependents at which a span can be cut: the first and last item of I, and of the dependent's outer half, whose items
    /// are a row apart.
    #[inline(always)]
    fn cuts(
        &self,
        number: usize,
        half: &Half,
        dependent: [usize; 2],
        Span { head, end }: Span,
    ) -> (usize, usize, usize) {
        match half.side {
            Side::Right => (self.at(number, head, head + 1), self.at(dependent[1], head + 1, end), end - head),
            Side::Left => (self.at(number, head, end), self.at(dependent[0], end, end), head - end),
        }
    }

    /// U and S of a span.
    #[inline(always)]
    fn complete(&mut self, scores: &Scores<L>, number: usize, half: &Half, span: Span) {
        let mut sum = [0.0; L];
        if let Some(dependent) = half.dependent {
            let (reached, closed, count) = self.cuts(number, half, dependent, span);
            let (reached, outer) = (&self.reached[reached..][..count], &self.closed[closed..]);
            for cut in 0..count {
                add_product(&mut sum, &reached[cut], &outer[cut * self.words]);
            }
        }
        let at = self.at(number, span.head, span.end);
        self.open[at] = sum;
        self.closed[at] = product(&sum, scores.stop(half.side as usize, 1, span.head));
    }

    /// Sets `expected` to the expected number of uses of each score, times a weight; `seed` is the weight divided by what
    /// [`Chart::inside`] returned for the same scores.
    #[inline(always)]
    pub fn outside(&mut self, scores: &Scores<L>, halves: &Halves, seed: &Lanes<L>, expected: &mut Scores<L>) {
        let words = self.words;
        let size = words * words * halves.all.len();
        for items in [&mut self.open_outside, &mut self.closed_outside, &mut self.reached_outside] {
            if items.len() < size {
                items.resize(size, [0.0; L]);
            }
            for item in &mut items[..size] {
                *item = [0.0; L];
            }
        }
        clear(expected, words);
        for word in 0..words {
            let (left, right) = self.root_items(halves, word);
            let root = product(scores.root(word), seed);
            *expected.root_mut(word) = product(&root, &product(&self.closed[left], &self.closed[right]));
            add_product(&mut self.closed_outside[left], &root, &self.closed[right]);
            add_product(&mut self.closed_outside[right], &root, &self.closed[left]);
        }
        for width in (1..words).rev() {
            for start in 0..words - width {
                for (number, half) in halves.all.iter().enumerate() {
                    self.complete_outside(scores, number, half, span(half.side, start, width), expected);
                }
                for (number, half) in halves.all.iter().enumerate() {
                    self.reach_outside(scores, number, half, span(half.side, start, width), expected);
                }
            }
        }
        for (number, half) in halves.all.iter().enumerate() {
            for word in 0..words {
                let at = self.at(number, word, word);
                add_product(expected.stop_mut(half.side as usize, 0, word), &self.closed_outside[at], &self.closed[at]);
            }
        }
    }

    /// From S to U, and from U to I and the outer halves of dependents.
    #[inline(always)]
    fn complete_outside(
        &mut self,
        scores: &Scores<L>,
        number: usize,
        half: &Half,
        span: Span,
        expected: &mut Scores<L>,
    ) {
        let Some(dependent) = half.dependent else { return };
        let at = self.at(number, span.head, span.end);
        let side = half.side as usize;
        let outside = &self.closed_outside[at];
        add_product(expected.stop_mut(side, 1, span.head), outside, &self.closed[at]);
        let mut open = self.open_outside[at];
        add_product(&mut open, outside, scores.stop(side, 1, span.head));
        let (reached, closed, count) = self.cuts(number, half, dependent, span);
        let (inner, outer) = (&mut self.reached_outside[reached..][..count], &self.closed[closed..]);
        for cut in 0..count {
            add_product(&mut inner[cut], &open, &outer[cut * self.words]);
        }
        let (inner, outer) = (&self.reached[reached..][..count], &mut self.closed_outside[closed..]);
        for cut in 0..count {
            add_product(&mut outer[cut * self.words], &open, &inner[cut]);
        }
    }

    /// From I to the head's half before it, and to the dependent's half towards the head.
    #[inline(always)]
    fn reach_outside(&mut self, scores: &Scores<L>, number: usize, half: &Half, span: Span, expected: &mut Scores<L>) {
        let Some(dependent) = half.dependent else { return };
        let parts = self.parts(half, dependent, span);
        let at = self.at(number, span.head, span.end);
        let outside = self.reached_outside[at];
        add_product(expected.arc_mut(1, span.head, span.end), &outside, &self.reached_far[at]);
        let near = product(&outside, scores.arc(0, span.head, span.end));
        add_product(expected.arc_mut(0, span.head, span.end), &near, &self.closed[parts.near]);
        pairs::each_mut(&mut self.closed_outside[parts.near], &near, |to, near| *to += near);
        if let Some(open) = parts.open {
            let far = product(&outside, scores.arc(1, span.head, span.end));
            let closed = &self.closed[parts.closed..][..parts.count];
            let heads = &mut self.open_outside[open..][..parts.count];
            pairs::each_mut(heads, closed, |to, b| add_product(to, &far, b));
            let open = &self.open[open..][..parts.count];
            let dependents = &mut self.closed_outside[parts.closed..][..parts.count];
            pairs::each_mut(dependents, open, |to, a| add_product(to, &far, a));
        }
    }
}

/// Where the parts between a head and a dependent lie among the items.
struct Parts {
    /// The dependent's half towards the head, where it is the nearest dependent.
    near: usize,
    /// The same half where it is not, and the head's half before it, cut by cut.
    closed: usize,
    open: Option<usize>,
    count: usize,
}

#[inline(always)]
fn clear<const L: usize>(expected: &mut Scores<L>, words: usize) {
    expected.resize(words);
    for word in 0..words {
        (0..words).for_each(|other| (0..2).for_each(|v| *expected.arc_mut(v, word, other) = [0.0; L]));
        (0..4).for_each(|i| *expected.stop_mut(i / 2, i % 2, word) = [0.0; L]);
    }
}
