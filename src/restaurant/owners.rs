//! Who adds up what, where the restaurants are spread over workers.
//!
//! A worker holds the restaurants and dishes that occur in its own shards. The tables of a dish are changed by all who
//! hold it, and only together make sense; so every outcome has an owner, who keeps all of that outcome's dishes, adds up
//! what the holders changed, sets tables right ([`super::merge`]), and tells the holders. A restaurant's totals are sums
//! over outcomes of several owners; so every context has an owner too (by its first element), who is told by the owners
//! of outcomes, and tells the holders. Three letters from everybody to everybody:
//!
//! ```text
//! holders -> owners of outcomes      dish: tables, tokens (changes)
//! owners of outcomes -> holders      dish: customers, tables
//!                    -> owners of contexts      restaurant: customers, tables (changes), and visits
//! owners of contexts -> holders      restaurant: customers, tables, and visits
//! ```
//!
//! Only what changed travels, and only to those who hold it. Dishes and restaurants are named by their place in what the
//! two have in common: sender and receiver number it in the same order, that of a tree planted from it. Every dish also
//! has a home: one of the shards that it occurs in, which counts it where each is to be counted once.
//!
//! With one worker nobody has to be told, and nothing of this is there.

use super::merge::{Change, Marks};
use super::tree::{NONE, Paths, Planted, Restaurant, Tree, Visits};
use crate::cluster::sweep::Post;

/// A shard as the home of something, and how near it is: of the shards that something occurs in, the nearest is its home.
/// Nearness is drawn for each shard from what is housed, so every shard is home to its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Home(u32);

impl Home {
    /// Farther than any shard.
    pub const NOWHERE: Home = Home(u32::MAX);

    /// `shard` as the home of something with the outcome or element `key`.
    pub fn new(key: u32, shard: u32) -> Home {
        debug_assert!(shard < u32::from(u16::MAX));
        let distance = (key ^ shard.wrapping_mul(0x85eb_ca6b)).wrapping_mul(0x9e37_79b9);
        let distance = (distance ^ distance >> 15).wrapping_mul(0x2c1b_3c6d);
        Home(distance & 0xffff_0000 | shard)
    }

    pub fn shard(self) -> u32 {
        self.0 & 0xffff
    }
}

/// The home of each dish and restaurant, and how many tokens pass it.
#[derive(Clone, Debug, Default)]
pub struct Homes {
    pub dishes: Vec<(Home, u32)>,
    pub restaurants: Vec<(Home, u32)>,
}

/// A worker's part in bringing counts together: what it shares with each owner, and what it owns itself.
pub struct Owners {
    /// By owner of outcomes: my dishes, in the order that we have in common; and each dish's place there.
    dishes: Vec<Vec<u32>>,
    place_of_dish: Vec<u32>,
    /// By owner of contexts: my restaurants.
    restaurants: Vec<Vec<u32>>,
    outcomes: OutcomeOwner,
    contexts: ContextOwner,
}

/// All dishes of the outcomes that a worker owns.
struct OutcomeOwner {
    tree: Tree,
    /// By holder: which of my dishes we have in common.
    holders: Vec<Common>,
    /// Restaurants as their owners know them.
    told: Vec<(Restaurant, Visits)>,
    /// The owner of each restaurant's context, and its place in what we have in common.
    place_of_restaurant: Vec<(u32, u32)>,
    marks: Marks,
    restaurant_marks: Marks,
}

/// Totals of the contexts that a worker owns.
struct ContextOwner {
    totals: Vec<(Restaurant, Visits)>,
    /// By holder, and by owner of outcomes: which of my contexts we have in common.
    holders: Vec<Common>,
    tellers: Vec<Common>,
    marks: Marks,
}

/// What a worker has in common with an owner, as the owner keeps it.
struct Common {
    /// The owner's number for each place.
    numbers: Vec<u32>,
    /// The same as a set, and how many are below each 64 numbers: from these, the place of a number.
    set: Marks,
    below: Vec<u32>,
}

impl Common {
    /// `numbers` rise; all are below `count`.
    fn new(numbers: Vec<u32>, count: usize) -> Common {
        assert!(numbers.is_sorted(), "what is in common has the same order for both");
        let mut set = Marks::new(count);
        numbers.iter().for_each(|&number| set.set(number));
        let below = set.words().scan(0, |sum, word| Some(std::mem::replace(sum, *sum + word.count_ones())));
        Common { below: below.collect(), numbers, set }
    }

    /// Shows the place and the number of all that is in common and marked, rising.
    fn marked(&self, marks: &Marks, mut show: impl FnMut(u32, u32)) {
        for ((at, (held, marked)), below) in (0..).zip(self.set.words().zip(marks.words())).zip(&self.below) {
            let mut both = held & marked;
            while both != 0 {
                let bit = both.trailing_zeros();
                show(below + (held & ((1 << bit) - 1)).count_ones(), 64 * at + bit);
                both &= both - 1;
            }
        }
    }
}

impl Owners {
    /// Agrees with the others on who owns what; `homes` are those among this worker's shards, and become those among all.
    /// `has_visits`: whether visits are counted (a worker without shards cannot tell from its tree).
    pub fn agree(tree: &Tree, homes: &mut Homes, has_visits: bool, post: &mut Post<'_>) -> Owners {
        let (peers, depth) = (post.peers(), tree.depth());
        let mut outcomes = OutcomeOwner::new(post.exchange(dish_paths(tree, peers)), depth);
        if has_visits {
            outcomes.tree.visits = vec![Visits::default(); outcomes.tree.restaurants.len()];
        }

        let mut dishes = vec![vec![]; peers];
        let mut place_of_dish = vec![0; tree.dishes.len()];
        for (dish, &outcome) in tree.outcomes.iter().enumerate() {
            let shared = &mut dishes[outcome as usize % peers];
            place_of_dish[dish] = shared.len() as u32;
            shared.push(dish as u32);
        }
        let restaurants = restaurants_by_owner(tree, peers);
        outcomes.place_restaurants(peers);

        let held = post.exchange(context_paths(tree, peers));
        let told = post.exchange(context_paths(&outcomes.tree, peers));
        let contexts = ContextOwner::new(held, told, depth);
        let mut owners = Owners { dishes, place_of_dish, restaurants, outcomes, contexts };
        owners.agree_on_homes(homes, post);
        owners
    }

    fn agree_on_homes(&mut self, homes: &mut Homes, post: &mut Post<'_>) {
        let of = |places: &[Vec<u32>], homes: &[(Home, u32)]| -> Vec<Vec<u32>> {
            let told = |&at: &u32| [homes[at as usize].0.0, homes[at as usize].1];
            places.iter().map(|places| places.iter().flat_map(told).collect()).collect()
        };
        for (mine, holders, homes, count) in [
            (&self.dishes, &self.outcomes.holders, &mut homes.dishes, self.outcomes.tree.dishes.len()),
            (&self.restaurants, &self.contexts.holders, &mut homes.restaurants, self.contexts.totals.len()),
        ] {
            let mut all = vec![(Home::NOWHERE, 0); count];
            let letters = post.exchange(of(mine, homes));
            for (common, letter) in holders.iter().zip(&letters) {
                for (&at, told) in common.numbers.iter().zip(letter.chunks_exact(2)) {
                    let (home, tokens) = &mut all[at as usize];
                    (*home, *tokens) = ((*home).min(Home(told[0])), *tokens + told[1]);
                }
            }
            let answer = |&at: &u32| [all[at as usize].0.0, all[at as usize].1];
            let answers = holders.iter().map(|common| common.numbers.iter().flat_map(answer).collect()).collect();
            for (places, answer) in mine.iter().zip(post.exchange(answers)) {
                for (&at, told) in places.iter().zip(answer.chunks_exact(2)) {
                    homes[at as usize] = (Home(told[0]), told[1]);
                }
            }
        }
    }

    /// Brings the changes of all workers together, and sets all counts of `tree` that any of them touched, whether they stand
    /// there or not. `settled` is shown each such dish.
    pub fn synchronise(
        &mut self,
        tree: &mut Tree,
        changes: &[Change],
        post: &mut Post<'_>,
        mut settled: impl FnMut(u32, &Tree),
    ) {
        let peers = post.peers();
        let mut letters = vec![vec![]; peers];
        for change in changes {
            let owner = tree.outcomes[change.dish as usize] as usize % peers;
            let place = self.place_of_dish[change.dish as usize];
            letters[owner].extend_from_slice(&[place, change.tables as u32, change.tokens as u32]);
        }
        self.outcomes.add_up(&post.exchange(letters));
        let mut set_right = post.exchange(self.outcomes.tell_holders());
        let totals = post.exchange(self.outcomes.tell_owners(peers));
        for (places, letter) in self.dishes.iter().zip(&mut set_right) {
            for entry in letter.chunks_exact(3) {
                let dish = places[entry[0] as usize];
                tree.dishes[dish as usize].customers = entry[1];
                tree.dishes[dish as usize].tables = entry[2];
                settled(dish, tree);
            }
        }
        self.contexts.add_up(&totals);
        for (places, letter) in self.restaurants.iter().zip(post.exchange(self.contexts.tell_holders())) {
            for entry in letter.chunks_exact(5) {
                let restaurant = places[entry[0] as usize] as usize;
                tree.restaurants[restaurant] = Restaurant { customers: entry[1], tables: entry[2] };
                if let Some(visits) = tree.visits.get_mut(restaurant) {
                    *visits = Visits { stops: entry[3], passes: entry[4] };
                }
            }
        }
    }
}

impl OutcomeOwner {
    /// Plants the tree of all dishes that the holders have named.
    fn new(letters: Vec<Vec<u32>>, depth: usize) -> OutcomeOwner {
        let (tree, holders) = plant_together(letters, depth);
        OutcomeOwner {
            holders: holders.into_iter().map(|numbers| Common::new(numbers, tree.dishes.len())).collect(),
            told: vec![Default::default(); tree.restaurants.len()],
            place_of_restaurant: vec![],
            marks: Marks::new(tree.dishes.len()),
            restaurant_marks: Marks::new(tree.restaurants.len()),
            tree,
        }
    }

    fn place_restaurants(&mut self, peers: usize) {
        self.place_of_restaurant = vec![(0, 0); self.tree.restaurants.len()];
        for (owner, restaurants) in restaurants_by_owner(&self.tree, peers).iter().enumerate().rev() {
            for (place, &restaurant) in restaurants.iter().enumerate() {
                self.place_of_restaurant[restaurant as usize] = (owner as u32, place as u32); // of the root, the first's
            }
        }
    }

    fn add_up(&mut self, letters: &[Vec<u32>]) {
        self.marks.clear();
        for (common, letter) in self.holders.iter().zip(letters) {
            for entry in letter.chunks_exact(3) {
                let dish = common.numbers[entry[0] as usize];
                let change = Change { dish, tables: entry[1] as i32, tokens: entry[2] as i32 };
                self.tree.apply(change, &mut self.marks);
                if change.tokens != 0 && !self.tree.visits.is_empty() {
                    mark_passed(&self.tree, change.dish, &mut self.restaurant_marks);
                }
            }
        }
        self.tree.repair(&mut self.marks);
        let mut from = 0;
        while let Some(dish) = self.marks.next(from) {
            self.restaurant_marks.set(self.tree.dishes[dish as usize].restaurant);
            from = dish + 1;
        }
    }

    fn tell_holders(&self) -> Vec<Vec<u32>> {
        let tell = |common: &Common| {
            let mut letter = vec![];
            common.marked(&self.marks, |place, dish| {
                let record = self.tree.dishes[dish as usize];
                letter.extend_from_slice(&[place, record.customers, record.tables]);
            });
            letter
        };
        self.holders.iter().map(tell).collect()
    }

    fn tell_owners(&mut self, peers: usize) -> Vec<Vec<u32>> {
        let mut letters = vec![vec![]; peers];
        let mut from = 0;
        while let Some(restaurant) = self.restaurant_marks.next(from).map(|restaurant| restaurant as usize) {
            from = restaurant as u32 + 1;
            let now =
                (self.tree.restaurants[restaurant], self.tree.visits.get(restaurant).copied().unwrap_or_default());
            let before = std::mem::replace(&mut self.told[restaurant], now);
            let (owner, place) = self.place_of_restaurant[restaurant];
            letters[owner as usize].extend_from_slice(&[
                place,
                now.0.customers.wrapping_sub(before.0.customers),
                now.0.tables.wrapping_sub(before.0.tables),
                now.1.stops.wrapping_sub(before.1.stops),
                now.1.passes.wrapping_sub(before.1.passes),
            ]);
        }
        self.restaurant_marks.clear();
        letters
    }
}

/// Marks the restaurants that a token of a dish passes.
fn mark_passed(tree: &Tree, mut dish: u32, restaurants: &mut Marks) {
    while dish != NONE {
        let record = tree.dishes[dish as usize];
        restaurants.set(record.restaurant);
        dish = record.parent;
    }
}

impl ContextOwner {
    fn new(held: Vec<Vec<u32>>, told: Vec<Vec<u32>>, depth: usize) -> ContextOwner {
        let peers = held.len();
        let (tree, mut holders) = plant_together(held.into_iter().chain(told).collect(), depth);
        let tellers = holders.split_off(peers);
        // Every context has the one outcome 0, so dishes and restaurants have the same numbers.
        let count = tree.restaurants.len();
        let common = |numbers: Vec<Vec<u32>>| numbers.into_iter().map(|numbers| Common::new(numbers, count)).collect();
        ContextOwner {
            totals: vec![Default::default(); count],
            holders: common(holders),
            tellers: common(tellers),
            marks: Marks::new(count),
        }
    }

    fn add_up(&mut self, letters: &[Vec<u32>]) {
        self.marks.clear();
        for (common, letter) in self.tellers.iter().zip(letters) {
            for entry in letter.chunks_exact(5) {
                let context = common.numbers[entry[0] as usize];
                self.marks.set(context);
                let (restaurant, visits) = &mut self.totals[context as usize];
                restaurant.customers = restaurant.customers.wrapping_add(entry[1]);
                restaurant.tables = restaurant.tables.wrapping_add(entry[2]);
                visits.stops = visits.stops.wrapping_add(entry[3]);
                visits.passes = visits.passes.wrapping_add(entry[4]);
            }
        }
    }

    fn tell_holders(&self) -> Vec<Vec<u32>> {
        let tell = |common: &Common| {
            let mut letter = vec![];
            common.marked(&self.marks, |place, context| {
                let (restaurant, visits) = self.totals[context as usize];
                letter.extend_from_slice(&[
                    place,
                    restaurant.customers,
                    restaurant.tables,
                    visits.stops,
                    visits.passes,
                ]);
            });
            letter
        };
        self.holders.iter().map(tell).collect()
    }
}

/// Contexts and outcomes as they come in letters, one letter behind the other: length, elements, outcome, and so on.
struct Lists {
    words: Vec<u32>,
    starts: Vec<u32>,
    /// By letter, the number of all contexts up to its end.
    ends: Vec<usize>,
    depth: usize,
    symbols: usize,
}

impl Lists {
    fn new(letters: Vec<Vec<u32>>, depth: usize) -> Lists {
        let words = letters.concat();
        assert!(u32::try_from(words.len()).is_ok(), "an owner is told of fewer than 4 billion elements of contexts");
        let symbols = words.iter().max().map_or(1, |most| *most as usize + 1);
        let (mut starts, mut ends) = (vec![], vec![]);
        let (mut at, mut end) = (0, 0);
        for letter in &letters {
            end += letter.len();
            while at < end {
                starts.push(at as u32);
                at += words[at] as usize + 2;
            }
            ends.push(starts.len());
        }
        Lists { words, starts, ends, depth, symbols }
    }
}

impl Paths for Lists {
    fn count(&self) -> usize {
        self.starts.len()
    }
    fn symbols(&self) -> usize {
        self.symbols
    }
    fn depth(&self) -> usize {
        self.depth
    }
    fn outcome(&self, token: usize) -> u32 {
        self.words[self.starts[token] as usize + 1 + self.length(token)]
    }
    fn element(&self, token: usize, depth: usize) -> Option<u32> {
        (depth < self.length(token)).then(|| self.words[self.starts[token] as usize + 1 + depth])
    }
    fn length(&self, token: usize) -> usize {
        self.words[self.starts[token] as usize] as usize
    }
}

/// The tree of all letters together, and for each letter, the dish there for each dish of the letter's own tree: of the
/// two trees, one is a part of the other, and they number what they have in common in the same order.
fn plant_together(letters: Vec<Vec<u32>>, depth: usize) -> (Tree, Vec<Vec<u32>>) {
    let lists = Lists::new(letters, depth);
    let Planted { tree, order, leaves } = Tree::plant(&lists);
    let mut parts = vec![Marks::new(tree.dishes.len()); lists.ends.len()];
    for (&token, &leaf) in order.iter().zip(&leaves) {
        let part = &mut parts[lists.ends.partition_point(|&end| end <= token as usize)];
        let mut dish = leaf;
        while dish != NONE && !part.contains(dish) {
            part.set(dish);
            dish = tree.dishes[dish as usize].parent;
        }
    }
    let maps = parts.iter().map(|part| part.iter().collect()).collect();
    (tree, maps)
}

/// The dishes without children, by owner of their outcome: those above follow from them.
fn dish_paths(tree: &Tree, peers: usize) -> Vec<Vec<u32>> {
    let mut is_parent = Marks::new(tree.dishes.len());
    tree.dishes.iter().filter(|dish| dish.parent != NONE).for_each(|dish| is_parent.set(dish.parent));
    let mut letters = vec![vec![]; peers];
    let mut context = vec![];
    for (number, dish) in (0..).zip(&tree.dishes).filter(|(number, _)| !is_parent.contains(*number)) {
        tree.context(dish.restaurant, &mut context);
        let outcome = tree.outcomes[number as usize];
        let letter = &mut letters[outcome as usize % peers];
        letter.push(context.len() as u32);
        letter.extend_from_slice(&context);
        letter.push(outcome);
    }
    letters
}

/// The contexts without longer ones, by owner, each with the outcome 0; the root for everybody.
fn context_paths(tree: &Tree, peers: usize) -> Vec<Vec<u32>> {
    let mut is_parent = Marks::new(tree.restaurants.len());
    let count = tree.restaurants.len() as u32;
    (0..count)
        .map(|number| tree.parent_of(number))
        .filter(|above| *above != NONE)
        .for_each(|above| is_parent.set(above));
    let root = if tree.restaurants.is_empty() { vec![] } else { vec![0, 0] };
    let mut letters = vec![root; peers];
    let mut context = vec![];
    for number in (0..count).filter(|number| !is_parent.contains(*number)) {
        tree.context(number, &mut context);
        if let Some(&first) = context.first() {
            let letter = &mut letters[first as usize % peers];
            letter.push(context.len() as u32);
            letter.extend_from_slice(&context);
            letter.push(0);
        }
    }
    letters
}

/// The restaurants of each owner's contexts, in the order of their numbers; the root, which is last, for everybody.
fn restaurants_by_owner(tree: &Tree, peers: usize) -> Vec<Vec<u32>> {
    let mut first = vec![NONE; tree.restaurants.len()];
    for number in (0..tree.restaurants.len()).rev() {
        let above = tree.parent_of(number as u32);
        if above != NONE {
            let is_first = tree.elements[above as usize] == NONE;
            first[number] = if is_first { tree.elements[number] } else { first[above as usize] };
        }
    }
    let mut by_owner = vec![vec![]; peers];
    for (number, &first) in (0..).zip(&first) {
        match first {
            NONE => by_owner.iter_mut().for_each(|restaurants| restaurants.push(number)),
            first => by_owner[first as usize % peers].push(number),
        }
    }
    by_owner
}
