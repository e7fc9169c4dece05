//! Addressed blocks of 32-bit words: one message from one worker to another.
//!
//! Between threads a block is handed over as it is; between processes it is copied to the wire once, without the
//! element-by-element encoding that vectors of records take.

use std::io::Write;
use std::sync::Arc;

use timely::Accountable;
use timely::communication::Push;
use timely::dataflow::channels::pushers::exchange::Distributor;
use timely::dataflow::channels::{ContainerBytes, Message};

/// One message.
#[derive(Clone, Default)]
pub struct Block {
    /// What the words are, as the operator has it; 0 only where there is no message.
    pub kind: u32,
    pub to: u32,
    pub from: u32,
    pub words: Arc<Vec<u32>>,
}

impl Accountable for Block {
    fn record_count(&self) -> i64 {
        i64::from(self.kind != 0)
    }
}

/// On the wire: kind, receiver, sender, number of words, the words, filled up to eight bytes; little-endian.
impl ContainerBytes for Block {
    fn from_bytes(bytes: timely::bytes::arc::Bytes) -> Block {
        let word = |i: usize| u32::from_le_bytes(bytes[4 * i..4 * i + 4].try_into().expect("4 bytes"));
        let words = bytes[16..16 + 4 * word(3) as usize].chunks_exact(4);
        let words = words.map(|b| u32::from_le_bytes(b.try_into().expect("4 bytes"))).collect();
        Block { kind: word(0), to: word(1), from: word(2), words: Arc::new(words) }
    }

    fn length_in_bytes(&self) -> usize {
        (16 + 4 * self.words.len()).next_multiple_of(8)
    }

    fn into_bytes<W: Write>(&self, writer: &mut W) {
        let header = [self.kind, self.to, self.from, self.words.len() as u32];
        let filling = self.length_in_bytes() - 16 - 4 * self.words.len();
        let mut bytes = Vec::with_capacity(self.length_in_bytes());
        header.iter().chain(self.words.iter()).for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        bytes.resize(bytes.len() + filling, 0);
        writer.write_all(&bytes).expect("timely's buffer takes what it was asked to");
    }
}

/// Sends a block to the worker that it names.
pub struct ByReceiver;

impl Distributor<Block> for ByReceiver {
    fn partition<T: Clone, P: Push<Message<T, Block>>>(&mut self, block: &mut Block, time: &T, pushers: &mut [P]) {
        let to = block.to as usize;
        Message::push_at(block, time.clone(), &mut pushers[to]);
    }

    fn flush<T: Clone, P: Push<Message<T, Block>>>(&mut self, _: &T, _: &mut [P]) {}
}
