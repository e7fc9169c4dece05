//! Seatings of several shards, brought together.
//!
//! Between two synchronisations every shard seats its own customers against the counts as they stood, at tables that may
//! be others'. What it hands over is, for each dish, by how much tables and tokens have changed. Added up, tokens are
//! right by construction; tables may not be, since two shards can each have closed the same one. They are set right from
//! the deepest restaurants up, where a dish's customers are known before its tables: 1 <= t <= c where there is a
//! customer, and 0 otherwise. What is put right at a dish changes the customers of its parent, and so on to the root.
//!
//! All dishes of one outcome have one root dish, so whoever owns an outcome can put right all of it alone ([`super::top`]).

use super::tree::{Dish, NONE, Tree, Visits};

/// What a shard changed at a dish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    pub dish: u32,
    /// More tables than before.
    pub tables: i32,
    /// More tokens that stop here than before.
    pub tokens: i32,
}

/// A set of dishes, as bits, read in rising order.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    words: Vec<u64>,
}

impl Marks {
    pub fn new(dishes: usize) -> Marks {
        Marks { words: vec![0; dishes.div_ceil(64)] }
    }

    #[inline]
    pub fn set(&mut self, dish: u32) {
        self.words[dish as usize / 64] |= 1 << (dish % 64);
    }

    #[inline]
    pub fn contains(&self, dish: u32) -> bool {
        self.words[dish as usize / 64] >> (dish % 64) & 1 == 1
    }

    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// The bits of 64 dishes each.
    pub fn words(&self) -> impl Iterator<Item = u64> + '_ {
        self.words.iter().copied()
    }

    /// All of them, rising.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let mut from = 0;
        std::iter::from_fn(move || {
            let next = self.next(from)?;
            from = next + 1;
            Some(next)
        })
    }

    /// The first one at or above `from`.
    #[inline]
    pub fn next(&self, from: u32) -> Option<u32> {
        let mut place = from as usize / 64;
        let mut word = *self.words.get(place)? >> (from % 64) << (from % 64);
        while word == 0 {
            place += 1;
            word = *self.words.get(place)?;
        }
        Some(place as u32 * 64 + word.trailing_zeros())
    }
}

/// Notes that `tokens` more stop at a dish, and pass all restaurants above.
#[inline]
pub fn visit(dishes: &[Dish], visits: &mut [Visits], dish: u32, tokens: i32) {
    let dish = dishes[dish as usize];
    let here = &mut visits[dish.restaurant as usize];
    here.stops = here.stops.wrapping_add_signed(tokens);
    let mut above = dish.parent;
    while above != NONE {
        let dish = dishes[above as usize];
        let here = &mut visits[dish.restaurant as usize];
        here.passes = here.passes.wrapping_add_signed(tokens);
        above = dish.parent;
    }
}

impl Tree {
    /// Adds `change` to the counts, and marks what it touches. In between, counts may be negative: they wrap.
    #[inline]
    pub fn apply(&mut self, change: Change, marks: &mut Marks) {
        self.change(change);
        self.touch(change, marks);
    }

    /// Marks what `change` touches.
    #[inline]
    pub fn touch(&self, change: Change, marks: &mut Marks) {
        marks.set(change.dish);
        let parent = self.dishes[change.dish as usize].parent;
        if parent != NONE && change.tables != 0 {
            marks.set(parent);
        }
    }

    /// Adds tokens that stop at a dish, without tables.
    pub fn come(&mut self, dish: u32, tokens: u32) {
        let dish = &mut self.dishes[dish as usize];
        dish.customers += tokens;
        self.restaurants[dish.restaurant as usize].customers += tokens;
    }

    /// Adds `change` to the counts of the dish, of its restaurant and of its parent, whose customers its tables are.
    #[inline]
    pub fn change(&mut self, change: Change) {
        let dish = &mut self.dishes[change.dish as usize];
        dish.tables = dish.tables.wrapping_add_signed(change.tables);
        dish.customers = dish.customers.wrapping_add_signed(change.tokens);
        let parent = dish.parent;
        let restaurant = &mut self.restaurants[dish.restaurant as usize];
        restaurant.tables = restaurant.tables.wrapping_add_signed(change.tables);
        restaurant.customers = restaurant.customers.wrapping_add_signed(change.tokens);
        if parent != NONE {
            let parent = &mut self.dishes[parent as usize];
            parent.customers = parent.customers.wrapping_add_signed(change.tables);
            let restaurant = &mut self.restaurants[parent.restaurant as usize];
            restaurant.customers = restaurant.customers.wrapping_add_signed(change.tables);
        }
        if change.tokens != 0 && !self.visits.is_empty() {
            self.visit(change.dish, change.tokens);
        }
    }

    /// Notes that `tokens` more stop at a dish, and pass all restaurants above.
    #[inline]
    pub fn visit(&mut self, dish: u32, tokens: i32) {
        visit(&self.dishes, &mut self.visits, dish, tokens);
    }

    /// Sets tables right, from the deepest marked dish up; what is changed on the way is marked too.
    pub fn repair(&mut self, marks: &mut Marks) {
        let mut from = 0;
        while let Some(number) = marks.next(from) {
            from = number + 1;
            let dish = self.dishes[number as usize];
            let (customers, tables) = (dish.customers as i32, dish.tables as i32);
            debug_assert!(customers >= 0, "dish {number} has {customers} customers");
            let right = tables.clamp(customers.min(1), customers);
            if right != tables {
                self.apply(Change { dish: number, tables: right - tables, tokens: 0 }, marks);
            }
        }
    }

    /// What is wrong with the counts, if anything: the invariants of seating. `tokens` are those that stop at a dish.
    pub fn fault(&self, tokens: impl Fn(u32) -> u32) -> Option<String> {
        let mut customers: Vec<u64> = (0..self.dishes.len() as u32).map(|dish| u64::from(tokens(dish))).collect();
        let mut totals = vec![(0u64, 0u64); self.restaurants.len()];
        for (number, dish) in self.dishes.iter().enumerate() {
            if customers[number] != u64::from(dish.customers) {
                return Some(format!(
                    "dish {number} has {} customers instead of {}",
                    dish.customers, customers[number]
                ));
            }
            if dish.tables < dish.customers.min(1) || dish.tables > dish.customers {
                return Some(format!("dish {number} has {} customers at {} tables", dish.customers, dish.tables));
            }
            if dish.parent != NONE {
                customers[dish.parent as usize] += u64::from(dish.tables);
            }
            let total = &mut totals[dish.restaurant as usize];
            *total = (total.0 + u64::from(dish.customers), total.1 + u64::from(dish.tables));
        }
        let sums = self.restaurants.iter().map(|r| (u64::from(r.customers), u64::from(r.tables)));
        let wrong = sums.zip(&totals).position(|(sum, total)| sum != *total)?;
        Some(format!("restaurant {wrong} has {:?} instead of {:?}", self.restaurants[wrong], totals[wrong]))
    }
}
