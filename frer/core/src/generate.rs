//! Sequence generation (802.1CB 7.4.1).

use core::num::NonZero;

/// A sequence generation function: numbers the packets of one stream.
///
/// A number is drawn with `&mut self`, so that two receivers of the stream cannot draw the same one.
#[derive(Debug, Clone)]
pub struct SequenceGenerator {
    /// GenSeqNum: the number of the next packet.
    gen_seq_num: u16,
    /// SeqGenResets, including BEGIN. The type is small, so that many generators fit into the cache.
    resets: NonZero<u64>,
}

impl SequenceGenerator {
    /// Creates a function at BEGIN, which counts as its first reset (7.4.1.3).
    pub fn new() -> Self {
        Self { gen_seq_num: 0, resets: NonZero::<u64>::MIN }
    }

    /// Restarts the sequence at 0 (frerSeqGenReset, 10.3).
    pub fn reset(&mut self) {
        self.gen_seq_num = 0;
        self.resets = self.resets.saturating_add(1);
    }

    /// Sets the number of the next packet.
    pub fn set(&mut self, number: u16) {
        self.gen_seq_num = number;
    }

    /// Returns the number of the current packet and advances.
    #[allow(clippy::should_implement_trait, reason = "a stream of packets is unbounded")]
    pub fn next(&mut self) -> u16 {
        let number = self.gen_seq_num;
        self.gen_seq_num = number.wrapping_add(1);
        number
    }

    /// Returns SeqGenResets (10.8.2).
    pub fn resets(&self) -> u64 {
        self.resets.get()
    }
}

impl Default for SequenceGenerator {
    fn default() -> Self {
        Self::new()
    }
}
