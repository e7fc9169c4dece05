//! The seating of a checkpoint: tokens take their seats at tables whose numbers are known.
//!
//! Customers follow from the tokens that stop at a dish and from the tables of longer contexts, level by level, the deepest
//! first. In HIERARCHICAL a dish's customers of topic 0 are the tables of the other topics that went across, so that topic 0
//! comes last. Numbers of tables that cannot be are repaired: 1 <= t <= c for c > 0, and 0 <= ups <= t.

use super::counts::{Counts, Form};
use super::seats::{Entry, Seats};
use crate::restaurant::merge::{Change as CoinChange, Marks};
use crate::restaurant::tree::{NONE, Tree};

/// What is added at a dish.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    pub dish: u32,
    pub topic: u16,
    /// More tokens of the topic that stop here, more tables, and more of those that went up, than before.
    pub customers: i32,
    pub tables: i32,
    pub ups: i32,
}

/// Adds tokens that stop at dishes, tables of dishes and tables of coins to the counts.
pub fn take(
    tree: &Tree,
    form: Form,
    counts: &mut Counts,
    tokens: Vec<Change>,
    tables: Vec<Change>,
    mut coins: Vec<CoinChange>,
) {
    for change in &tokens {
        counts.visit(tree, change.dish, change.customers);
        if form == Form::Switching {
            let dish = 2 * tree.dishes[change.dish as usize].restaurant + u32::from(change.topic > 0);
            coins.push(CoinChange { dish, tables: 0, tokens: change.customers });
        }
    }
    coins.extend(merge(tree, form, counts, tokens.into_iter().chain(tables)));
    let mut marks = Marks::new(counts.coins.dishes.len());
    coins.into_iter().for_each(|change| counts.coins.apply(change, &mut marks));
    counts.coins.repair(&mut marks);
}

/// A list of counts by topic in the making.
type List = Vec<Entry>;

/// Adds `changes` to the counts and sets tables right. Returns what it comes to for the coins of HIERARCHICAL, which
/// follow from the labels of tables.
fn merge(tree: &Tree, form: Form, counts: &mut Counts, changes: impl Iterator<Item = Change>) -> Vec<CoinChange> {
    let mut of_level: Vec<Vec<Change>> = vec![vec![]; tree.levels.len()];
    changes.for_each(|change| of_level[tree.depth_of(change.dish)].push(change));
    let mut coins = vec![];
    for depth in (0..tree.levels.len()).rev() {
        let mut changes = std::mem::take(&mut of_level[depth]);
        changes.sort_unstable();
        let mut of_restaurants: Vec<Change> = vec![];
        for of_dish in changes.chunk_by(|a, b| a.dish == b.dish) {
            let dish = of_dish[0].dish;
            let record = tree.dishes[dish as usize];
            let before: List = counts.dishes.list(dish).collect();
            let mut list = added(&before, of_dish);
            set_right(&mut list, &before, form);
            for change in differences(&before, &list, record.restaurant) {
                of_restaurants.push(change);
                // Tables that went up are customers of the parent.
                let has_labels = form == Form::Hierarchical && change.topic > 0;
                let ups = if has_labels { change.ups } else { change.tables };
                if record.parent != NONE && ups != 0 {
                    let of_parent = Change { dish: record.parent, customers: ups, tables: 0, ups: 0, ..change };
                    of_level[depth - 1].push(of_parent);
                }
                if has_labels {
                    let coin =
                        |side: u32, tokens: i32| CoinChange { dish: 2 * record.restaurant + side, tables: 0, tokens };
                    coins.extend([coin(0, change.tables - change.ups), coin(1, change.ups)]);
                }
            }
            list.retain(Entry::is_there);
            counts.dishes.rewrite(dish, &list);
        }
        add_to_restaurants(&mut counts.restaurants, of_restaurants);
    }
    coins
}

/// Sets tables right by their customers, and labels by tables; in HIERARCHICAL, then the customers of topic 0 by labels.
fn set_right(list: &mut List, before: &List, form: Form) {
    let right = |entry: &mut Entry| entry.tables = entry.tables.clamp(entry.customers.min(1), entry.customers);
    if form != Form::Hierarchical {
        return list.iter_mut().for_each(right);
    }
    let topical = |list: &List| list.iter().filter(|entry| entry.topic > 0).map(|e| e.tables - e.ups).sum::<i64>();
    for entry in list.iter_mut().filter(|entry| entry.topic > 0) {
        right(entry);
        entry.ups = entry.ups.clamp(0, entry.tables);
    }
    let more = topical(list) - topical(before);
    if more != 0 && list.first().is_none_or(|entry| entry.topic > 0) {
        list.insert(0, Entry::default());
    }
    if let Some(global) = list.first_mut().filter(|entry| entry.topic == 0) {
        global.customers += more;
        right(global);
    }
}

fn add_to_restaurants(restaurants: &mut Seats, mut changes: Vec<Change>) {
    changes.sort_unstable();
    for of_restaurant in changes.chunk_by(|a, b| a.dish == b.dish) {
        let restaurant = of_restaurant[0].dish;
        let before: List = restaurants.list(restaurant).collect();
        let mut list = added(&before, of_restaurant);
        list.retain(Entry::is_there);
        restaurants.rewrite(restaurant, &list);
    }
}

/// A list with changes added.
fn added(before: &List, changes: &[Change]) -> List {
    let mut list = before.clone();
    for change in changes {
        let at = match list.binary_search_by_key(&change.topic, |entry| entry.topic) {
            Ok(at) => at,
            Err(at) => {
                list.insert(at, Entry { topic: change.topic, ..Entry::default() });
                at
            }
        };
        list[at].customers += i64::from(change.customers);
        list[at].tables += i64::from(change.tables);
        list[at].ups += i64::from(change.ups);
    }
    list
}

/// By how much each topic of `after` differs from what it was, as changes of `place`; `after` has all topics of `before`.
fn differences(before: &List, after: &List, place: u32) -> Vec<Change> {
    let mut old = before.iter().peekable();
    let mut found = vec![];
    for new in after {
        let old = old.next_if(|entry| entry.topic == new.topic).copied().unwrap_or_default();
        let change = Change {
            dish: place,
            topic: new.topic,
            customers: (new.customers - old.customers) as i32,
            tables: (new.tables - old.tables) as i32,
            ups: (new.ups - old.ups) as i32,
        };
        if (change.customers, change.tables, change.ups) != (0, 0, 0) {
            found.push(change);
        }
    }
    found
}
