//! The scores of a sentence, in lanes, or how often each was used; see [`super`].

/// A number for each lane.
pub type Lanes<const L: usize> = [f64; L];

/// Scores, or expectations, by place in the sentence.
#[derive(Clone, Debug, Default)]
pub struct Scores<const L: usize> {
    words: usize,
    /// By valence, head and dependent; a word's own place is unused.
    arcs: [Vec<Lanes<L>>; 2],
    /// By side and valence, then by head.
    stops: [[Vec<Lanes<L>>; 2]; 2],
    roots: Vec<Lanes<L>>,
}

impl<const L: usize> Scores<L> {
    /// Makes room for a sentence of so many words.
    #[inline(always)]
    pub fn resize(&mut self, words: usize) {
        if self.words == words {
            return;
        }
        self.words = words;
        self.arcs.iter_mut().for_each(|arcs| arcs.resize(words * words, [0.0; L]));
        self.stops.iter_mut().flatten().for_each(|stops| stops.resize(words, [0.0; L]));
        self.roots.resize(words, [0.0; L]);
    }

    /// Number of words.
    #[inline(always)]
    pub fn words(&self) -> usize {
        self.words
    }

    /// Of the arc from `head` to `dependent`: the nearest dependent on its side has valence 0, others 1.
    #[inline(always)]
    pub fn arc(&self, valence: usize, head: usize, dependent: usize) -> &Lanes<L> {
        &self.arcs[valence][head * self.words + dependent]
    }

    #[inline(always)]
    pub fn arc_mut(&mut self, valence: usize, head: usize, dependent: usize) -> &mut Lanes<L> {
        &mut self.arcs[valence][head * self.words + dependent]
    }

    /// Of stopping: without any dependent on that side, or behind some.
    #[inline(always)]
    pub fn stop(&self, side: usize, valence: usize, head: usize) -> &Lanes<L> {
        &self.stops[side][valence][head]
    }

    #[inline(always)]
    pub fn stop_mut(&mut self, side: usize, valence: usize, head: usize) -> &mut Lanes<L> {
        &mut self.stops[side][valence][head]
    }

    /// Of being the word that depends on the root.
    #[inline(always)]
    pub fn root(&self, word: usize) -> &Lanes<L> {
        &self.roots[word]
    }

    #[inline(always)]
    pub fn root_mut(&mut self, word: usize) -> &mut Lanes<L> {
        &mut self.roots[word]
    }

    /// Divides by the largest score of an arc to each word and of each word's stopping on either side; adds the logarithms of
    /// these to `ln`, so that ln of the sum over trees plus `ln` stays what it was. No expectation changes.
    #[cold]
    pub fn rescale(&mut self, ln: &mut Lanes<L>) {
        for word in 0..self.words {
            let heads = (0..self.words).filter(|&head| head != word);
            let scores = heads.flat_map(|head| [(0, head), (1, head)]);
            let scores: Vec<(usize, usize)> = scores.collect();
            for (lane, ln) in ln.iter_mut().enumerate() {
                let most = |most: f64, &(v, head): &(usize, usize)| most.max(self.arc(v, head, word)[lane]);
                let largest = scores.iter().fold(0.0, most); // roots are one word only, and go with the rest
                if largest > 0.0 {
                    *ln += libm::log(largest);
                    self.roots[word][lane] /= largest;
                    scores.iter().for_each(|&(v, head)| self.arc_mut(v, head, word)[lane] /= largest);
                }
                for side in 0..2 {
                    let largest = self.stops[side][0][word][lane].max(self.stops[side][1][word][lane]);
                    if largest > 0.0 {
                        *ln += libm::log(largest);
                        (0..2).for_each(|v| self.stops[side][v][word][lane] /= largest);
                    }
                }
            }
        }
    }
}
