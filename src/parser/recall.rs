//! What a distribution was asked before: the same contexts come again and again, within the beam (derivations that differ
//! have most of their contexts in common) and from sentence to sentence.
//!
//! A table of fixed size in which the new replaces the old. An answer is found only where all of the question is the same, so
//! what is recalled is what would be computed.

/// The longest context that is remembered; longer ones are computed.
const LONGEST: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Question {
    /// Which hierarchy is asked, with the length of the context.
    asked: u32,
    outcome: u32,
    context: [u32; LONGEST],
}

const NONE: Question = Question { asked: u32::MAX, outcome: 0, context: [0; LONGEST] };

/// Questions with their answers.
#[derive(Clone, Debug)]
pub struct Recall<T> {
    questions: Box<[Question]>,
    bits: u32,
    /// Answers of each question.
    size: usize,
    answers: Vec<T>,
}

impl<T: Copy + Default> Recall<T> {
    /// Room for 2 to the power of `bits` questions: what fits into a core's cache.
    pub fn new(bits: u32) -> Recall<T> {
        Recall { questions: vec![NONE; 1 << bits].into_boxed_slice(), bits, size: 0, answers: vec![] }
    }

    /// The `size` answers, the same number each time, that `compute` gives for an outcome in a context of the hierarchy
    /// `number`.
    #[inline]
    pub fn ask(
        &mut self,
        number: u32,
        context: &[u32],
        outcome: u32,
        size: usize,
        compute: impl FnOnce(&mut [T]),
    ) -> &[T] {
        if self.size != size {
            self.size = size;
            self.questions.fill(NONE);
            self.answers = vec![T::default(); (self.questions.len() + 1) * size];
        }
        let (place, is_known) = self.find(number, context, outcome);
        let answers = &mut self.answers[place * size..][..size];
        if !is_known {
            compute(answers);
        }
        answers
    }

    /// The place of a question, and whether it was asked before; the last place is for those that are not remembered.
    #[inline]
    fn find(&mut self, number: u32, context: &[u32], outcome: u32) -> (usize, bool) {
        if context.len() > LONGEST {
            return (self.questions.len(), false);
        }
        let asked = number << 8 | context.len() as u32;
        let mut key = u64::from(asked) << 32 | u64::from(outcome);
        for &element in context {
            key = (key.rotate_left(26) ^ u64::from(element)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        let place = (key >> (64 - self.bits)) as usize;
        let question = &mut self.questions[place];
        let is_same =
            question.asked == asked && question.outcome == outcome && question.context[..context.len()] == *context;
        if !is_same {
            (question.asked, question.outcome) = (asked, outcome);
            question.context[..context.len()].copy_from_slice(context);
        }
        (place, is_same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_those_of_the_same_question() {
        let mut recall = Recall::<u32>::new(10);
        let mut computed = 0;
        // Many more questions than there is room for, each twice in a row; some contexts are too long.
        for question in (0..40_000u32).chain(0..40_000) {
            let context: Vec<u32> = (0..question % 10).map(|at| question / 7 + at).collect();
            let (number, outcome) = (question % 3, question % 5);
            let right = number + 10 * outcome + 100 * context.iter().sum::<u32>();
            for _ in 0..2 {
                let found = recall.ask(number, &context, outcome, 2, |answers| {
                    computed += 1;
                    answers.copy_from_slice(&[right, question]);
                });
                assert_eq!(found[0], right, "{context:?}");
            }
        }
        assert!(computed < 110_000, "the second of two is recalled: {computed}");
        assert_eq!(recall.ask(0, &[1], 0, 3, |answers| answers.fill(7)), [7, 7, 7]);
    }
}
