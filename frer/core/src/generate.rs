//! Sequence generation (802.1CB 7.4.1).

use core::num::NonZero;

/// A sequence generation function: numbers the packets of one stream.
///
/// A number is drawn with `&mut self`, so that two receivers of packets of the stream cannot draw
/// the same one.
#[derive(Debug, Clone)]
pub struct Generate {
    /// GenSeqNum: the number of the next packet.
    gen_seq_num: u16,
    /// SeqGenResets; BEGIN is the first. Of many streams' generators what a
    /// packet touches should fit into a cache.
    resets: NonZero<u64>,
}

impl Generate {
    /// A function at BEGIN, which counts as its first reset (7.4.1.3).
    pub fn new() -> Self {
        Self { gen_seq_num: 0, resets: NonZero::<u64>::MIN }
    }

    /// Starts over at 0 (frerSeqGenReset, 10.3).
    pub fn reset(&mut self) {
        self.gen_seq_num = 0;
        self.resets = self.resets.saturating_add(1);
    }

    /// The number of the packet at hand.
    #[allow(clippy::should_implement_trait, reason = "a stream of packets has no end")]
    pub fn next(&mut self) -> u16 {
        let number = self.gen_seq_num;
        self.gen_seq_num = number.wrapping_add(1);
        number
    }

    /// SeqGenResets (10.8.2).
    pub fn resets(&self) -> u64 {
        self.resets.get()
    }
}

impl Default for Generate {
    fn default() -> Self {
        Self::new()
    }
}
