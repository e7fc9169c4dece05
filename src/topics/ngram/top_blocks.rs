//! Blocks of tables of shared restaurants move, too: their customers are tables of longer contexts, which are in several
//! shards ([`super::table_based`] has the rest).
//!
//! Every word has a shard that **owns** it, and the same part of all shards is at hand. A round has these steps, with messages
//! between them; the last two are done for one batch of the groups after the other:
//!
//! 1. A pass has seated the tokens of a shard's part, up to the customers of shared restaurants. The shard reports to the owner
//!    of each word how many there are of each dish and topic, and of how many tokens.
//! 2. The owner draws who sits at which table, and informs the shards; customers of one table are a **group**.
//! 3. Each shard weighs its part of a group: for every topic the product over its restaurants (eq. 12). It sends these weights and
//!    the documents of the part's tokens.
//! 4. The owner moves one group after another, with its customer and its tables in shared restaurants and the documents
//!    (eq. 13) as they are by then, and sends its decisions to the shards.
//!
//! What is approximate: restaurants of longer contexts are seen as they stood before the batch, and so are the moves of groups of
//! other owners. Groups in topic 0 of SWITCHING stay. Where words are split, their contexts are a level
//! of their own below the root: a round moves the tables of one level.

use std::collections::BTreeMap;

use super::documents::{Alpha, Seating, ShardTokens};
use super::table_based::{Arena, BlockToken, Customer, LARGEST, Node, Place, Seats, TableSampler, change_seats};
use super::top::Top;
use crate::cluster::rng::Generator;
use crate::math::draws::unit;
use crate::restaurant::tree::{NONE, Tree};

/// The steps of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Report,
    Group,
    /// For a batch.
    Weigh(u32),
    Move(u32),
}

/// In how many batches groups move: those that move together do not see each other. With HIERARCHICAL and two shards, the test
/// perplexity of Brown after 40 sweeps is 193.0 with 1 batch, 192.6 with 4, 192.1 with 16 and 191.4 with 64; 191.3 with one shard.
const BATCHES: u32 = 16;

impl Step {
    /// All steps of a round.
    pub fn all() -> impl Iterator<Item = Step> {
        let of_batches = (0..BATCHES).flat_map(|batch| [Step::Weigh(batch), Step::Move(batch)]);
        [Step::Report, Step::Group].into_iter().chain(of_batches)
    }
}

/// A shard's part between the steps.
#[derive(Default)]
struct SeatedPart {
    arena: Arena,
    /// Of customers that may move: batch, owner, group, and the place of the customer; sorted.
    groups: Vec<(u32, u32, u32, u32)>,
}

/// What sits at a table of a shared restaurant.
#[derive(Clone, Debug)]
struct Group {
    topic: u16,
    depth: usize,
    goes_up: bool,
    /// Of shared dishes, its own first.
    nodes: Vec<Node>,
}

/// Customers of a dish and topic in one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Reported {
    /// In the top.
    dish: u32,
    topic: u16,
    shard: u32,
    customers: u32,
    /// Where their numbers of tokens begin.
    start: u32,
}

/// All that shards report to an owner.
#[derive(Clone, Debug, Default)]
struct Reports {
    of_dishes: Vec<Reported>,
    /// The tokens of each customer, or `MANY`.
    tokens: Vec<u8>,
}

/// More tokens than blocks that move have.
const MANY: u8 = LARGEST as u8 + 1;

/// The weights of parts of groups, from all shards.
#[derive(Clone, Debug, Default, PartialEq)]
struct Weighed {
    /// Of each part: the documents of its tokens, then log2 of the weight of every topic.
    words: Vec<u32>,
    /// Group, shard, where its words begin, and how many documents there are.
    parts: Vec<(u32, u32, u32, u32)>,
}

impl Weighed {
    fn documents(&self, &(_, _, start, documents): &(u32, u32, u32, u32)) -> &[u32] {
        &self.words[start as usize..(start + documents) as usize]
    }

    fn log2(&self, &(_, _, start, documents): &(u32, u32, u32, u32), topics: usize) -> impl Iterator<Item = f32> {
        self.words[(start + documents) as usize..][..topics].iter().map(|&bits| f32::from_bits(bits))
    }
}

/// A group has gone to another topic.
#[derive(Clone, Copy, Debug)]
pub struct Decision {
    shard: u32,
    owner: u32,
    group: u32,
    topic: u16,
}

/// All that a worker needs between the steps of a round.
#[derive(Default)]
pub struct TopBlocks {
    shards: u32,
    /// By worker.
    outbox: Vec<Vec<u32>>,
    seated: BTreeMap<u32, SeatedPart>,
    /// By owner.
    reported: BTreeMap<u32, Reports>,
    assigned: BTreeMap<u32, Vec<(u32, Vec<u32>)>>,
    groups: BTreeMap<u32, Vec<Group>>,
    weighed: BTreeMap<u32, Weighed>,
}

impl TopBlocks {
    pub fn new(shards: u32, peers: usize) -> TopBlocks {
        TopBlocks { shards, outbox: vec![vec![]; peers], ..TopBlocks::default() }
    }

    fn owner_of(&self, tree: &Tree, dish: u32) -> u32 {
        tree.outcomes[dish as usize] % self.shards
    }

    /// The messages of a step, by worker.
    pub fn take_messages(&mut self) -> Vec<Vec<u32>> {
        self.outbox.iter_mut().map(std::mem::take).collect()
    }

    fn send(&mut self, shard: u32) -> &mut Vec<u32> {
        let peers = self.outbox.len();
        &mut self.outbox[shard as usize % peers]
    }

    /// Forgets the last round.
    pub fn clear(&mut self) {
        self.seated.clear();
        self.groups.clear();
    }

    /// Keeps the tables of a shard's part.
    pub(super) fn keep(&mut self, shard: u32, arena: Arena) {
        self.seated.insert(shard, SeatedPart { arena, groups: vec![] });
    }

    /// Step 1: reports the customers of shared dishes.
    pub fn report(&mut self, shard: u32, seating: &Seating<'_>, top: &Top) {
        let mut seated = self.seated.remove(&shard).expect("a part that is seated");
        seated.groups.clear();
        let has_global = seating.rules.form.has_global();
        let mut customers = std::mem::take(&mut seated.arena.of_shared);
        customers.retain(|customer| customer.topic > 0 || !has_global);
        customers.sort_unstable();
        for same in customers.chunk_by(|a, b| (a.dish, a.topic) == (b.dish, b.topic)) {
            let Customer { dish, topic, .. } = same[0];
            let owner = self.owner_of(seating.tree, dish);
            let dish = top.number_of(seating.tree, dish);
            let message = self.send(owner);
            message.extend([shard, owner, dish, u32::from(topic), same.len() as u32]);
            let tokens = |customer: &Customer| seated.arena.tokens_of(customer).min(u32::from(MANY));
            let packed = same.chunks(4).map(|four| four.iter().rev().fold(0, |word, one| word << 8 | tokens(one)));
            message.extend(packed);
        }
        seated.arena.of_shared = customers;
        self.seated.insert(shard, seated);
    }

    pub fn read_reported(&mut self, messages: &[Vec<u32>]) {
        for message in messages {
            let mut rest = message.as_slice();
            while let &[shard, owner, dish, topic, customers, ref more @ ..] = rest {
                let (packed, more) = more.split_at(customers.div_ceil(4) as usize);
                let Reports { of_dishes, tokens } = self.reported.entry(owner).or_default();
                let start = tokens.len() as u32;
                of_dishes.push(Reported { dish, topic: topic as u16, shard, customers, start });
                tokens.extend(packed.iter().flat_map(|word| word.to_le_bytes()));
                tokens.truncate((start + customers) as usize);
                rest = more;
            }
        }
    }

    /// Step 2: draws who sits at which table of the owner's words. `depth` is that of the tables that may move.
    pub fn group(&mut self, owner: u32, depth: usize, seating: &mut Seating<'_>, top: &Top, rng: &mut Generator) {
        let Reports { of_dishes: mut reported, tokens } = self.reported.remove(&owner).unwrap_or_default();
        reported.sort_unstable();
        let (seats, groups, of_customers) = (Seats::default(), vec![], BTreeMap::new());
        let mut draw = Drawing { depth, seating, top, tokens, seats, groups, of_customers };
        let tree = draw.seating.tree;
        let outcome = |reported: &Reported| tree.outcomes[top.dish(reported.dish) as usize];
        reported.sort_by_key(|reported| outcome(reported)); // stable: those of a word by dish, topic and shard
        for of_word in reported.chunk_by(|a, b| outcome(a) == outcome(b)) {
            draw.word(of_word, rng);
        }
        let Drawing { groups, of_customers, .. } = draw;
        for (shard, groups) in of_customers {
            let mut own: Vec<(u32, u16, Vec<u32>)> = groups;
            own.sort_by_key(|&(dish, topic, _)| (dish, topic)); // as the shard has its customers
            let list: Vec<u32> = own.into_iter().flat_map(|(_, _, groups)| groups).collect();
            self.send(shard).extend([shard, owner, list.len() as u32]);
            self.send(shard).extend(list);
        }
        self.groups.insert(owner, groups);
    }

    pub fn read_assigned(&mut self, messages: &[Vec<u32>]) {
        for message in messages {
            let mut rest = message.as_slice();
            while let [shard, owner, length, more @ ..] = rest {
                let (groups, more) = more.split_at(*length as usize);
                self.assigned.entry(*shard).or_default().push((*owner, groups.to_vec()));
                rest = more;
            }
        }
    }

    /// Notes the groups of the customers of a shard's part.
    fn note_groups(&self, part: &mut SeatedPart, tree: &Tree, assigned: Vec<(u32, Vec<u32>)>) {
        let mut lists: BTreeMap<u32, std::vec::IntoIter<u32>> =
            assigned.into_iter().map(|(owner, groups)| (owner, groups.into_iter())).collect();
        for (place, customer) in (0..).zip(&part.arena.of_shared) {
            let owner = self.owner_of(tree, customer.dish);
            let group = lists.get_mut(&owner).and_then(Iterator::next).expect("a group for every customer");
            if group != NONE {
                part.groups.push((group % BATCHES, owner, group, place));
            }
        }
        part.groups.sort_unstable();
    }

    /// Step 3: weighs a shard's parts of the groups of a batch.
    pub fn weigh(
        &mut self,
        shard: u32,
        batch: u32,
        sampler: &mut TableSampler,
        seating: &Seating<'_>,
        part: &ShardTokens,
    ) {
        let mut seated = self.seated.remove(&shard).expect("a part that is seated");
        if let Some(assigned) = self.assigned.remove(&shard) {
            self.note_groups(&mut seated, seating.tree, assigned);
        }
        std::mem::swap(&mut sampler.arena, &mut seated.arena);
        let customers = std::mem::take(&mut sampler.arena.of_shared);
        let (mut log2, mut words) = (vec![], vec![]);
        let start = seated.groups.partition_point(|group| group.0 < batch);
        let end = seated.groups.partition_point(|group| group.0 <= batch);
        for same in seated.groups[start..end].chunk_by(|a, b| (a.1, a.2) == (b.1, b.2)) {
            let (_, owner, group, first) = same[0];
            let topic = usize::from(customers[first as usize].topic);
            let of_group = same.iter().map(|&(.., place)| &customers[place as usize]);
            let block = sampler.collect_all(part, of_group.map(|customer| (customer.dish, customer.who)));
            words.clear();
            words.extend(block.tokens.iter().map(|token| token.document));
            log2.clear();
            sampler.weigh_nodes(seating, topic, &mut log2);
            let message = self.send(owner);
            message.extend([shard, owner, group, words.len() as u32, log2.len() as u32]);
            message.extend_from_slice(&words);
            message.extend(log2.iter().map(|number| number.to_bits()));
        }
        sampler.arena.of_shared = customers;
        std::mem::swap(&mut sampler.arena, &mut seated.arena);
        self.seated.insert(shard, seated);
    }

    pub fn read_weighed(&mut self, messages: &[Vec<u32>]) {
        for message in messages {
            let mut rest = message.as_slice();
            while let [shard, owner, group, documents, topics, more @ ..] = rest {
                let (words, more) = more.split_at((documents + topics) as usize);
                let weighed = self.weighed.entry(*owner).or_default();
                weighed.parts.push((*group, *shard, weighed.words.len() as u32, *documents));
                weighed.words.extend_from_slice(words);
                rest = more;
            }
        }
    }

    /// Step 4: moves the groups of an owner; `moved` is shown the document, the topic before and the topic after of each token
    /// of those that go elsewhere.
    #[allow(clippy::too_many_arguments)] // what a sweep has
    pub fn move_groups(
        &mut self,
        owner: u32,
        sampler: &mut TableSampler,
        seating: &mut Seating<'_>,
        documents: &mut ShardTokens,
        alpha: &Alpha,
        changed: &mut dyn FnMut(u32),
        mut moved: impl FnMut((u32, u16, u16)),
        rng: &mut Generator,
    ) {
        let Some(mut weighed) = self.weighed.remove(&owner) else { return };
        let groups = &self.groups[&owner];
        weighed.parts.sort_unstable();
        let topics = sampler.topics();
        let (mut log2, mut tokens) = (vec![], vec![]);
        for of_group in weighed.parts.chunk_by(|a, b| a.0 == b.0) {
            let Group { topic, depth, goes_up, nodes } = &groups[of_group[0].0 as usize];
            log2.clear();
            log2.extend(weighed.log2(&of_group[0], topics));
            for part in &of_group[1..] {
                log2.iter_mut().zip(weighed.log2(part, topics)).for_each(|(sum, more)| *sum += more);
            }
            tokens.clear();
            let of_tokens = of_group.iter().flat_map(|part| weighed.documents(part));
            tokens.extend(of_tokens.map(|&document| BlockToken { document, token: 0, dish: NONE }));
            tokens.sort_unstable();
            let place = Place { depth: *depth, topic: usize::from(*topic), goes_up: *goes_up, tries_turn: false };
            let (new, _) = sampler.move_given(seating, documents, alpha, nodes, &tokens, place, &log2, changed, rng);
            if new == usize::from(*topic) {
                continue;
            }
            tokens.iter().for_each(|token| moved((token.document, *topic, new as u16)));
            let peers = self.outbox.len();
            for &(group, shard, ..) in of_group {
                self.outbox[shard as usize % peers].extend([shard, owner, group, new as u32]);
            }
        }
    }

    /// The decisions of a message.
    pub fn decisions(message: &[u32]) -> impl Iterator<Item = Decision> + '_ {
        let decision =
            |words: &[u32]| Decision { shard: words[0], owner: words[1], group: words[2], topic: words[3] as u16 };
        message.chunks_exact(4).map(decision)
    }

    /// Moves a shard's part of a group; `part` has its tokens. Documents are not counted here.
    pub fn apply(
        &mut self,
        decision: Decision,
        sampler: &mut TableSampler,
        seating: &mut Seating<'_>,
        part: &mut ShardTokens,
    ) {
        let SeatedPart { arena, groups } = self.seated.get_mut(&decision.shard).expect("an own shard");
        let key = (decision.group % BATCHES, decision.owner, decision.group);
        let start = groups.partition_point(|&(batch, owner, group, _)| (batch, owner, group) < key);
        let same = groups[start..].iter().take_while(|&&(batch, owner, group, _)| (batch, owner, group) == key);
        let places = same.clone().map(|&(.., place)| place as usize);
        let (old, new) = (arena.of_shared[groups[start].3 as usize].topic, decision.topic);
        std::mem::swap(&mut sampler.arena, arena);
        let mut customers = std::mem::take(&mut sampler.arena.of_shared);
        let block =
            sampler.collect_all(part, places.clone().map(|place| (customers[place].dish, customers[place].who)));
        change_seats(&block.nodes, 0, seating, usize::from(old), -1);
        change_seats(&block.nodes, 0, seating, usize::from(new), 1);
        block.tokens.iter().for_each(|token| part.topics[token.token as usize] = new);
        sampler.arena.set_topics(&sampler.block.tables, new);
        places.for_each(|place| customers[place].topic = new);
        sampler.arena.of_shared = customers;
        std::mem::swap(&mut sampler.arena, arena);
    }

    /// The shard that a decision is for.
    pub fn shard_of(decision: &Decision) -> u32 {
        decision.shard
    }
}

/// Tables of the words of an owner, being drawn.
struct Drawing<'a, 's> {
    depth: usize,
    seating: &'a mut Seating<'s>,
    top: &'a Top,
    /// The tokens of each customer that is reported.
    tokens: Vec<u8>,
    seats: Seats,
    groups: Vec<Group>,
    /// By shard: dish and topic, and the groups of the customers there.
    of_customers: BTreeMap<u32, Vec<(u32, u16, Vec<u32>)>>,
}

/// A customer of a shared dish: one of a shard, counted from 0 among those of its dish and topic; or a table of a split
/// restaurant.
#[derive(Clone, Debug)]
struct Guest {
    /// The place in `of_customers`, for each customer of shards that it stands for.
    who: Vec<(u32, u32, u32)>,
    tokens: u32,
    nodes: Vec<Node>,
}

impl Drawing<'_, '_> {
    /// Draws the tables of one word, level by level from the split restaurants to the root.
    fn word(&mut self, reported: &[Reported], rng: &mut Generator) {
        let tree = self.seating.tree;
        let mut above: Vec<(u32, u16, Guest)> = vec![];
        let depth_of = |dish: u32| tree.depth_of(self.top.dish(dish));
        let is_split = |reported: &Reported| depth_of(reported.dish) > 0;
        let split = reported.partition_point(|reported| is_split(reported));
        let top = self.top;
        for same in reported[..split].chunk_by(|a, b| (a.dish, a.topic) == (b.dish, b.topic)) {
            let dish = top.dish(same[0].dish);
            let guests = self.guests(same);
            for (table, goes_up) in self.tables(dish, same[0].topic, guests, rng) {
                if goes_up {
                    above.push((tree.dishes[dish as usize].parent, same[0].topic, table));
                }
            }
        }
        above.sort_by_key(|(_, topic, _)| *topic); // stable
        let mut above = above.into_iter().peekable();
        let mut of_root = reported[split..].chunk_by(|a, b| a.topic == b.topic).peekable();
        loop {
            let topics = [above.peek().map(|(_, topic, _)| *topic), of_root.peek().map(|same| same[0].topic)];
            let Some(topic) = topics.into_iter().flatten().min() else { break };
            let mut guests = vec![];
            let mut dish = NONE;
            if let Some(same) = of_root.next_if(|same| same[0].topic == topic) {
                dish = top.dish(same[0].dish);
                guests = self.guests(same);
            }
            while let Some((parent, _, guest)) = above.next_if(|(_, other, _)| *other == topic) {
                dish = parent;
                guests.push(guest);
            }
            self.tables(dish, topic, guests, rng);
        }
    }

    /// The customers of one dish and topic, none of whom is in a group yet.
    fn guests(&mut self, reported: &[Reported]) -> Vec<Guest> {
        let mut guests = vec![];
        for &Reported { dish, topic, shard, customers, start } in reported {
            let of_shard = self.of_customers.entry(shard).or_default();
            let list = of_shard.len() as u32;
            of_shard.push((dish, topic, vec![NONE; customers as usize]));
            guests.extend((0..customers).map(|place| {
                let tokens = u32::from(self.tokens[(start + place) as usize]);
                Guest { who: vec![(shard, list, place)], tokens, nodes: vec![] }
            }));
        }
        guests
    }

    /// Seats the customers of one dish and topic. Returns the tables as customers of the parent, and whether they go up.
    fn tables(&mut self, dish: u32, topic: u16, guests: Vec<Guest>, rng: &mut Generator) -> Vec<(Guest, bool)> {
        let Seating { tree, counts, rules } = self.seating;
        let depth = tree.depth_of(dish);
        let seats = counts.dishes.get(dish, usize::from(topic));
        debug_assert_eq!(seats.customers as usize, guests.len(), "all customers of the dish");
        let labels = rules.has_labels(usize::from(topic));
        self.seats.draw(seats.customers, seats.tables, rules.parameters.discounts[depth], &mut rules.alone[depth], rng);
        let nobody = Guest { who: vec![], tokens: 0, nodes: vec![Node { dish, tables: 1, customers: 0 }] };
        let mut tables = vec![(nobody, true); self.seats.sizes.len()];
        for (guest, &at) in guests.into_iter().zip(&self.seats.at) {
            let (table, _) = &mut tables[at as usize];
            table.who.extend(guest.who);
            table.tokens += guest.tokens;
            table.nodes[0].customers += 1;
            table.nodes.extend(guest.nodes);
        }
        let mut ups = if labels { seats.ups } else { seats.tables };
        for (left, (table, goes_up)) in (1..=seats.tables).rev().zip(&mut tables) {
            *goes_up = !labels || unit(rng) * f64::from(left) < f64::from(ups);
            ups -= u32::from(*goes_up);
            // A table of one customer moves as that customer's block.
            if depth == self.depth && table.nodes[0].customers > 1 && table.tokens <= LARGEST {
                self.note_group(topic, depth, *goes_up, table);
            }
        }
        tables
    }

    fn note_group(&mut self, topic: u16, depth: usize, goes_up: bool, table: &Guest) {
        let number = self.groups.len() as u32;
        for &(shard, list, place) in &table.who {
            let of_shard = self.of_customers.get_mut(&shard).expect("a shard with customers");
            of_shard[list as usize].2[place as usize] = number;
        }
        let mut nodes = table.nodes.clone();
        nodes[1..].sort_unstable();
        // Split restaurants have one node for all of their tables.
        let mut of_split: Vec<Node> = vec![];
        for node in nodes.drain(1..) {
            match of_split.last_mut().filter(|last| last.dish == node.dish) {
                Some(last) => {
                    (last.tables, last.customers) = (last.tables + node.tables, last.customers + node.customers)
                }
                None => of_split.push(node),
            }
        }
        nodes.extend(of_split);
        self.groups.push(Group { topic, depth, goes_up, nodes });
    }
}
