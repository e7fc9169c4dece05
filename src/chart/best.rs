//! The best tree of a sentence: the same recursions as [`super::inside`] with maxima of sums of logarithms. The way back is
//! found by looking again for what was best. Where several trees are equally good, nearer dependents win.

use super::halves::{Half, Halves, Side};
use super::scores::Scores;

/// Finds best trees. Buffers are reused.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    words: usize,
    open: Vec<f64>,
    closed: Vec<f64>,
    reached: Vec<f64>,
    /// Spans whose dependents are still to be told: the half, its head and its other end.
    due: Vec<(usize, usize, usize)>,
}

impl Decoder {
    fn at(&self, half: usize, head: usize, end: usize) -> usize {
        (half * self.words + head) * self.words + end
    }

    /// The heads of the best tree (the first word is 1, the root 0), and its score; `scores` are logarithms.
    pub fn best(&mut self, scores: &Scores<1>, halves: &Halves, heads: &mut Vec<u32>) -> f64 {
        self.words = scores.words();
        let size = self.words * self.words * halves.all.len();
        for items in [&mut self.open, &mut self.closed, &mut self.reached] {
            items.clear();
            items.resize(size, f64::NEG_INFINITY);
        }
        self.fill(scores, halves);
        let last = self.words - 1;
        let of_root = |word: usize| {
            let sides = [self.at(halves.root[0], word, 0), self.at(halves.root[1], word, last)];
            scores.root(word)[0] + self.closed[sides[0]] + self.closed[sides[1]]
        };
        let root = first_best(0..self.words, of_root).expect("a sentence has words");
        let score = of_root(root);
        heads.clear();
        heads.resize(self.words, 0);
        self.due.clear();
        self.due.extend([(halves.root[0], root, 0), (halves.root[1], root, last)]);
        while let Some((number, head, end)) = self.due.pop() {
            if head != end {
                self.tell(scores, halves, (number, head, end), heads);
            }
        }
        score
    }

    fn fill(&mut self, scores: &Scores<1>, halves: &Halves) {
        for (number, half) in halves.all.iter().enumerate() {
            for word in 0..self.words {
                let at = self.at(number, word, word);
                self.open[at] = 0.0;
                self.closed[at] = scores.stop(half.side as usize, 0, word)[0];
            }
        }
        for width in 1..self.words {
            for start in 0..self.words - width {
                for (number, half) in halves.all.iter().enumerate() {
                    let (head, end) = ends(half.side, start, width);
                    let at = self.at(number, head, end);
                    let cuts = splits(head, end).map(|cut| self.reaching(scores, half, head, end, cut));
                    self.reached[at] = cuts.fold(f64::NEG_INFINITY, f64::max);
                }
                for (number, half) in halves.all.iter().enumerate() {
                    let (head, end) = ends(half.side, start, width);
                    let at = self.at(number, head, end);
                    let lasts = dependents(head, end).map(|last| self.completing(number, half, head, end, last));
                    self.open[at] = lasts.fold(f64::NEG_INFINITY, f64::max);
                    self.closed[at] = self.open[at] + scores.stop(half.side as usize, 1, head)[0];
                }
            }
        }
    }

    /// I of (head, end) where the head's part goes up to `cut`.
    fn reaching(&self, scores: &Scores<1>, half: &Half, head: usize, end: usize, cut: usize) -> f64 {
        let Some(dependent) = half.dependent else { return f64::NEG_INFINITY };
        let (inner, other) = match half.side {
            Side::Right => (dependent[0], cut + 1),
            Side::Left => (dependent[1], cut.wrapping_sub(1)),
        };
        let before = match half.before {
            _ if cut == head => 0.0,
            Some(before) => self.open[self.at(before, head, cut)],
            None => return f64::NEG_INFINITY,
        };
        let valence = usize::from(cut != head);
        before + scores.arc(valence, head, end)[0] + self.closed[self.at(inner, end, other)]
    }

    /// U of (head, end) whose farthest dependent is `last`.
    fn completing(&self, number: usize, half: &Half, head: usize, end: usize, last: usize) -> f64 {
        let Some(dependent) = half.dependent else { return f64::NEG_INFINITY };
        self.reached[self.at(number, head, last)] + self.closed[self.at(dependent[half.side as usize], last, end)]
    }

    /// Sets the head of the farthest dependent of a span, and notes what is left of the span.
    fn tell(&mut self, scores: &Scores<1>, halves: &Halves, span: (usize, usize, usize), heads: &mut [u32]) {
        let (number, head, end) = span;
        let half = &halves.all[number];
        let last = first_best(dependents(head, end), |last| self.completing(number, half, head, end, last));
        let last = last.expect("a span has a dependent");
        heads[last] = head as u32 + 1;
        let cut = first_best(splits(head, last), |cut| self.reaching(scores, half, head, last, cut));
        let cut = cut.expect("a dependent is reached");
        let dependent = half.dependent.expect("it has one");
        self.due.push((dependent[half.side as usize], last, end));
        match half.side {
            Side::Right => self.due.push((dependent[0], last, cut + 1)),
            Side::Left => self.due.push((dependent[1], last, cut - 1)),
        }
        if let Some(before) = half.before {
            self.due.push((before, head, cut));
        }
    }
}

fn ends(side: Side, start: usize, width: usize) -> (usize, usize) {
    match side {
        Side::Right => (start, start + width),
        Side::Left => (start + width, start),
    }
}

/// How far the head's part can go before a dependent at `end`, from the head on.
fn splits(head: usize, end: usize) -> impl Iterator<Item = usize> {
    let distance = head.abs_diff(end);
    (0..distance).map(move |step| if end > head { head + step } else { head - step })
}

/// The words up to `end`, from the head on, without it.
fn dependents(head: usize, end: usize) -> impl Iterator<Item = usize> {
    let distance = head.abs_diff(end);
    (1..=distance).map(move |step| if end > head { head + step } else { head - step })
}

/// The first candidate with the largest score.
fn first_best(candidates: impl Iterator<Item = usize>, score: impl Fn(usize) -> f64) -> Option<usize> {
    let mut best: Option<(usize, f64)> = None;
    for candidate in candidates {
        let score = score(candidate);
        if best.is_none_or(|(_, most)| score > most) {
            best = Some((candidate, score));
        }
    }
    best.map(|(candidate, _)| candidate)
}
