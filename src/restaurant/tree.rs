//! The tree of restaurants, in flat arenas: which contexts there are, which dishes each serves, and who is whose parent.
//!
//! A context is a list of elements, the most important first; a restaurant's parent is the one of the context without
//! its last element. For a language model the elements are the words before, nearest first; for a parser they are
//! features of a configuration. All are numbers.
//!
//! The shape follows from the corpus and never changes in training: it has every context and dish that any token can
//! ever need, so a sweep hashes nothing and allocates nothing. Numbers are dealt level by level, the deepest level first,
//! and within a level in the order of contexts, then dishes. So a pass over tokens in the order of their contexts goes
//! through every level from its begin to its end, and a pass over dishes by number meets children before parents.
//!
//! Memory: 20 bytes a dish and 16 a restaurant. Building takes one counting sort per element and a sort of each
//! restaurant's dishes, and about 14 bytes a token on top.

use std::ops::Range;

/// A dish as one restaurant serves it: the counts that seating needs, in one quarter of a cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dish {
    pub customers: u32,
    pub tables: u32,
    /// The same dish in the parent restaurant; [`NONE`] at the root.
    pub parent: u32,
    pub restaurant: u32,
}

/// All customers and tables of one restaurant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restaurant {
    pub customers: u32,
    pub tables: u32,
}

/// How many tokens stop at a restaurant, and how many pass it on their way to a longer context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visits {
    pub stops: u32,
    pub passes: u32,
}

/// No number.
pub const NONE: u32 = u32::MAX;

/// The restaurants with contexts of one length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Level {
    pub restaurants: Range<u32>,
    pub dishes: Range<u32>,
}

/// Restaurants and dishes with their counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    pub dishes: Vec<Dish>,
    pub restaurants: Vec<Restaurant>,
    /// By restaurant, where every token has an order of its own ([`super::order`]); empty otherwise.
    pub visits: Vec<Visits>,
    /// What each dish is: a word, or another outcome.
    pub outcomes: Vec<u32>,
    /// The last element of each restaurant's context; [`NONE`] at the root.
    pub elements: Vec<u32>,
    /// The first dish of each restaurant, and the number of dishes behind the last.
    first: Vec<u32>,
    /// By depth, which is the length of a context.
    pub levels: Vec<Level>,
}

/// What a tree is built from: tokens, each with a context and an outcome.
pub trait Paths {
    /// Number of tokens.
    fn count(&self) -> usize;
    /// All elements and outcomes are below this.
    fn symbols(&self) -> usize;
    /// The longest context.
    fn depth(&self) -> usize;
    fn outcome(&self, token: usize) -> u32;
    /// The element of a token's context at `depth`, counted from 0, or none where the context is shorter.
    fn element(&self, token: usize, depth: usize) -> Option<u32>;

    fn length(&self, token: usize) -> usize {
        (0..self.depth()).take_while(|&depth| self.element(token, depth).is_some()).count()
    }
}

/// A tree and where its tokens are in it.
pub struct Planted {
    pub tree: Tree,
    /// The tokens in the order of their contexts, then outcomes.
    pub order: Vec<u32>,
    /// The dish of each token, in that order, in the restaurant of its whole context.
    pub leaves: Vec<u32>,
}

/// Tokens in the order of their contexts, then outcomes.
pub struct Sorted {
    pub order: Vec<u32>,
    /// By place in the order: the length of the context, and how much of it is that of the token before.
    pub lengths: Vec<u8>,
    pub shared: Vec<u8>,
}

impl Sorted {
    pub fn new(paths: &impl Paths) -> Sorted {
        let order = sorted(paths);
        let lengths: Vec<u8> = order.iter().map(|&token| paths.length(token as usize) as u8).collect();
        let shared = shared_lengths(paths, &order, &lengths);
        Sorted { order, lengths, shared }
    }
}

impl Tree {
    /// Builds the tree of `paths`, without customers.
    pub fn plant(paths: &impl Paths) -> Planted {
        Tree::plant_sorted(paths, Sorted::new(paths))
    }

    /// The same of tokens that are sorted; contexts may have been cut to lengths that are at least what is shared.
    pub fn plant_sorted(paths: &impl Paths, sorted: Sorted) -> Planted {
        let Sorted { order, lengths, shared } = sorted;
        let mut tree = Tree { levels: vec![Level::default(); paths.depth() + 1], ..Tree::default() };
        tree.reserve(paths, &order, &lengths, &shared);
        let mut leaves = vec![NONE; order.len()];
        for depth in (0..=paths.depth()).rev() {
            tree.grow(depth, paths, &order, &lengths, &shared, &mut leaves);
        }
        tree.first.push(tree.dishes.len() as u32);
        tree.dishes.shrink_to_fit();
        tree.outcomes.shrink_to_fit();
        Planted { tree, order, leaves }
    }

    /// Makes room: growing by doubling would copy, and peak.
    fn reserve(&mut self, paths: &impl Paths, order: &[u32], lengths: &[u8], shared: &[u8]) {
        let (mut restaurants, mut dishes) = (0, 0);
        for place in 0..order.len() {
            let length = usize::from(lengths[place]);
            // Of a context's elements, those that are not shared begin a restaurant each; the first has the root too.
            let is_first = place == 0;
            restaurants += length - usize::from(shared[place]) + usize::from(is_first);
            let outcome = |place: usize| paths.outcome(order[place] as usize);
            let is_same = !is_first
                && lengths[place - 1] == lengths[place]
                && shared[place] == lengths[place]
                && outcome(place - 1) == outcome(place);
            dishes += if is_same { 0 } else { length + 1 };
        }
        self.restaurants.reserve_exact(restaurants);
        self.elements.reserve_exact(restaurants);
        self.first.reserve_exact(restaurants + 1);
        self.dishes.reserve_exact(dishes);
        self.outcomes.reserve_exact(dishes);
    }

    /// Adds the restaurants of a level: one for each run of tokens that share a context. Its dishes are those of its
    /// children, which are there already, and those of the tokens whose context ends here.
    fn grow(
        &mut self,
        depth: usize,
        paths: &impl Paths,
        order: &[u32],
        lengths: &[u8],
        shared: &[u8],
        leaves: &mut [u32],
    ) {
        let mut child = self.levels.get(depth + 1).map_or(0, |level| level.restaurants.start) as usize;
        let (restaurants, dishes) = (self.restaurants.len() as u32, self.dishes.len() as u32);
        // What a restaurant serves: an outcome, and for whom: a child's dish, or the token at a place of the order.
        let mut served: Vec<(u32, bool, u32)> = vec![];
        let mut place = 0;
        while place < order.len() {
            if usize::from(lengths[place]) < depth {
                place += 1;
                continue;
            }
            let start = place;
            served.clear();
            // What a token shares with the one before it is in one child; a token that ends here, and whatever comes behind
            // it, share no more than this context.
            while place < order.len() && (place == start || usize::from(shared[place]) >= depth) {
                let length = usize::from(lengths[place]);
                if length == depth {
                    served.push((paths.outcome(order[place] as usize), true, place as u32));
                } else if usize::from(shared[place]) <= depth || place == start {
                    let dishes = self.first[child]..self.first.get(child + 1).copied().unwrap_or(dishes);
                    served.extend(dishes.map(|dish| (self.outcomes[dish as usize], false, dish)));
                    child += 1;
                }
                place += 1;
            }
            self.open(depth, paths, order[start] as usize, &mut served, leaves);
        }
        self.levels[depth] =
            Level { restaurants: restaurants..self.restaurants.len() as u32, dishes: dishes..self.dishes.len() as u32 };
    }

    /// Adds a restaurant with what it serves; `token` is one of its tokens.
    fn open(
        &mut self,
        depth: usize,
        paths: &impl Paths,
        token: usize,
        served: &mut [(u32, bool, u32)],
        leaves: &mut [u32],
    ) {
        served.sort_unstable();
        let restaurant = self.restaurants.len() as u32;
        self.elements.push(depth.checked_sub(1).map_or(NONE, |last| paths.element(token, last).expect("a context")));
        self.first.push(self.dishes.len() as u32);
        self.restaurants.push(Restaurant::default());
        for same in served.chunk_by(|a, b| a.0 == b.0) {
            let dish = self.dishes.len() as u32;
            self.dishes.push(Dish { parent: NONE, restaurant, ..Dish::default() });
            self.outcomes.push(same[0].0);
            for &(_, is_token, source) in same {
                match is_token {
                    true => leaves[source as usize] = dish,
                    false => self.dishes[source as usize].parent = dish,
                }
            }
        }
    }

    /// A tree with the same restaurants, each with dishes 0 .. `dishes`: dish `dishes` r + i is the i-th of restaurant r.
    pub fn with_dishes(&self, dishes: u32) -> Tree {
        let mut tree = Tree {
            restaurants: vec![Restaurant::default(); self.restaurants.len()],
            elements: self.elements.clone(),
            ..Tree::default()
        };
        for restaurant in 0..self.restaurants.len() as u32 {
            let above = self.parent_of(restaurant);
            tree.first.push(tree.dishes.len() as u32);
            for dish in 0..dishes {
                let parent = if above == NONE { NONE } else { dishes * above + dish };
                tree.dishes.push(Dish { customers: 0, tables: 0, parent, restaurant });
                tree.outcomes.push(dish);
            }
        }
        tree.first.push(tree.dishes.len() as u32);
        for level in &self.levels {
            let restaurants = level.restaurants.clone();
            let range = dishes * restaurants.start..dishes * restaurants.end;
            tree.levels.push(Level { restaurants, dishes: range });
        }
        tree
    }

    /// The first dish of contexts shorter than `depth`; there are no others behind it.
    pub fn first_dish_above(&self, depth: usize) -> u32 {
        depth.checked_sub(1).map_or(self.dishes.len() as u32, |last| self.levels[last].dishes.start)
    }

    /// The first restaurant of contexts shorter than `depth`; there are no others behind it.
    pub fn first_restaurant_above(&self, depth: usize) -> u32 {
        depth.checked_sub(1).map_or(self.restaurants.len() as u32, |last| self.levels[last].restaurants.start)
    }

    /// The restaurants of contexts shorter than `depth` as a tree of their own, which numbers them in the same order.
    pub fn top(&self, depth: usize) -> Tree {
        let (dishes, restaurants) = (self.first_dish_above(depth), self.first_restaurant_above(depth));
        let less = |range: &Range<u32>, by: u32| range.start - by..range.end - by;
        let (of_dishes, of_restaurants) = (dishes as usize.., restaurants as usize..);
        let dish = |dish: &Dish| Dish {
            parent: if dish.parent == NONE { NONE } else { dish.parent - dishes },
            restaurant: dish.restaurant - restaurants,
            ..*dish
        };
        Tree {
            dishes: self.dishes[of_dishes.clone()].iter().map(dish).collect(),
            restaurants: self.restaurants[of_restaurants.clone()].to_vec(),
            visits: vec![],
            outcomes: self.outcomes[of_dishes].to_vec(),
            elements: self.elements[of_restaurants.clone()].to_vec(),
            first: self.first[of_restaurants].iter().map(|first| first - dishes).collect(),
            levels: self.levels[..depth]
                .iter()
                .map(|level| Level {
                    restaurants: less(&level.restaurants, restaurants),
                    dishes: less(&level.dishes, dishes),
                })
                .collect(),
        }
    }

    /// The longest context.
    pub fn depth(&self) -> usize {
        self.levels.len() - 1
    }

    /// The depth of a dish. Most tokens are at the deepest level, which is looked at first.
    #[inline]
    pub fn depth_of(&self, dish: u32) -> usize {
        let mut depth = self.levels.len() - 1;
        while dish >= self.levels[depth].dishes.end {
            depth -= 1;
        }
        depth
    }

    /// The dishes of a restaurant, by outcome.
    pub fn dishes_of(&self, restaurant: u32) -> Range<u32> {
        self.first[restaurant as usize]..self.first[restaurant as usize + 1]
    }

    /// The parent of a restaurant; [`NONE`] at the root.
    pub fn parent_of(&self, restaurant: u32) -> u32 {
        let dish = self.dishes[self.first[restaurant as usize] as usize];
        if dish.parent == NONE { NONE } else { self.dishes[dish.parent as usize].restaurant }
    }

    /// The elements of a restaurant's context, the first (most important) one first.
    pub fn context(&self, mut restaurant: u32, elements: &mut Vec<u32>) {
        elements.clear();
        while self.elements[restaurant as usize] != NONE {
            elements.push(self.elements[restaurant as usize]);
            restaurant = self.parent_of(restaurant);
        }
        elements.reverse();
    }
}

/// Tokens by context, then outcome: by counting sorts from the last key to the first, shorter contexts first.
fn sorted(paths: &impl Paths) -> Vec<u32> {
    let count = paths.count();
    let mut order: Vec<u32> = (0..count as u32).collect();
    let mut other = vec![0; count];
    let mut keys = vec![0u32; count];
    let mut starts = vec![];
    let mut sort = |key: &dyn Fn(usize) -> u32| {
        starts.clear();
        starts.resize(paths.symbols() + 2, 0u32);
        for (token, kept) in keys.iter_mut().enumerate() {
            *kept = key(token);
            starts[*kept as usize + 1] += 1;
        }
        (1..starts.len()).for_each(|k| starts[k] += starts[k - 1]);
        for &token in &order {
            let start = &mut starts[keys[token as usize] as usize];
            other[*start as usize] = token;
            *start += 1;
        }
        std::mem::swap(&mut order, &mut other);
    };
    sort(&|token| paths.outcome(token));
    for depth in (0..paths.depth()).rev() {
        sort(&|token| paths.element(token, depth).map_or(0, |element| element + 1));
    }
    order
}

/// How many elements of the context each token shares with the one before it in the order.
fn shared_lengths(paths: &impl Paths, order: &[u32], lengths: &[u8]) -> Vec<u8> {
    let mut shared = vec![0; order.len()];
    for place in 1..order.len() {
        let (before, token) = (order[place - 1] as usize, order[place] as usize);
        let most = usize::from(lengths[place - 1].min(lengths[place]));
        let same = (0..most).take_while(|&depth| paths.element(before, depth) == paths.element(token, depth)).count();
        shared[place] = same as u8;
    }
    shared
}
