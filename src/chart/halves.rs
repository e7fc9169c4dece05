//! Halves: the kinds of half-constituents of a chart.
//!
//! Without a bound on memory there are two, left and right. With one, a half is also told how much memory it may take.
//! The left-corner depth of a tree (Noji & Miyao 2014), after reduce-type actions and over its best order of attachments,
//! follows from two numbers for each subtree t with head h, left dependents l_1 .. l_p and right dependents r_1 .. r_q, the
//! farthest last:
//!
//! ```text
//! A(t) = max( B(l_i),  A(r_q),  1 + A(r_j) for j < q )                 stack items above a head that awaits t
//! B(t) = max( B(l_p),  1 + B(l_i) for i < p,  1 + A(r_j),  1 )         stack items that t needs on its own
//! A = B = 0 for a word without dependents                              depth of a sentence: B of its root
//! ```
//!
//! Both are maxima, so "at most k" asks for something of each dependent alone: a bound goes from heads to dependents, and
//! every tree within it is still derived once. With
//!
//! ```text
//! UR_k  right dependents with A <= k                    UL_k  left dependents with B <= k
//! FR_k  the farthest with A <= k, others A <= k - 1     FL_k  the farthest with B <= k, others B <= k - 1
//! A(t) <= k  is  UL_k and FR_k                          B(t) <= k  is  FL_k and UR_k-1
//! ```
//!
//! a bound D costs 4 D + 2 halves instead of 2: still O(n^3).

/// On which side of its head a half lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Left = 0,
    Right = 1,
}

/// A kind of half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Half {
    pub side: Side,
    /// The half that its last dependent is added to; none where that is the first, too.
    pub before: Option<usize>,
    /// The halves of that dependent: left and right; none where this half has no dependents at all.
    pub dependent: Option<[usize; 2]>,
}

/// The halves of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Halves {
    pub all: Vec<Half>,
    /// The halves of a word that depends on the root: left and right.
    pub root: [usize; 2],
}

impl Halves {
    /// For all projective trees.
    pub fn unbounded() -> Halves {
        let half = |side, own| Half { side, before: Some(own), dependent: Some([0, 1]) };
        Halves { all: vec![half(Side::Left, 0), half(Side::Right, 1)], root: [0, 1] }
    }

    /// For trees of at most this left-corner depth, 1 or more.
    pub fn bounded(depth: usize) -> Halves {
        assert!(depth > 0, "no sentence of two words can be parsed without memory");
        // UR_k, FR_k, UL_k, FL_k from 0 on; those of -1, and FL_0, have no dependents.
        let [none_left, none_right] = [0, 1];
        let at = |kind: usize, k: usize| 2 + 4 * k + kind;
        let right = |k: Option<usize>| k.map_or(none_right, |k| at(0, k));
        let left = |k: Option<usize>| k.map_or(none_left, |k| at(2, k));
        let farthest_right = |k: usize| at(1, k);
        let farthest_left = |k: usize| if k == 0 { none_left } else { at(3, k) };
        let none = |side| Half { side, before: None, dependent: None };
        let mut all = vec![none(Side::Left), none(Side::Right)];
        for k in 0..=depth {
            let below = k.checked_sub(1);
            let awaited = Some([left(Some(k)), farthest_right(k)]);
            let alone = Some([farthest_left(k), right(below)]);
            let some = |half: usize| Some(half).filter(|&half| half > none_right);
            all.push(Half { side: Side::Right, before: Some(right(Some(k))), dependent: awaited });
            all.push(Half { side: Side::Right, before: some(right(below)), dependent: awaited });
            all.push(Half { side: Side::Left, before: Some(left(Some(k))), dependent: alone });
            let is_possible = k > 0;
            all.push(Half {
                side: Side::Left,
                before: some(left(below)),
                dependent: if is_possible { alone } else { None },
            });
        }
        Halves { all, root: [farthest_left(depth), right(Some(depth - 1))] }.needed()
    }

    /// The same without halves that nothing leads to from the root.
    fn needed(self) -> Halves {
        let mut is_needed = vec![false; self.all.len()];
        let mut due = self.root.to_vec();
        while let Some(half) = due.pop() {
            if !std::mem::replace(&mut is_needed[half], true) {
                due.extend(self.all[half].before);
                due.extend(self.all[half].dependent.into_iter().flatten());
            }
        }
        let number = |half: usize| is_needed[..half].iter().filter(|&&is_needed| is_needed).count();
        let renumber = |half: &Half| Half {
            side: half.side,
            before: half.before.map(number),
            dependent: half.dependent.map(|pair| pair.map(number)),
        };
        let kept = self.all.iter().zip(&is_needed).filter(|(_, is_needed)| **is_needed);
        Halves { all: kept.map(|(half, _)| renumber(half)).collect(), root: self.root.map(number) }
    }

    /// With this bound on depth, or none.
    pub fn new(depth: Option<u32>) -> Halves {
        depth.map_or_else(Halves::unbounded, |depth| Halves::bounded(depth as usize))
    }
}
