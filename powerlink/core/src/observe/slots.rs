//! Multiplexed cycles, detected by MC of SoC.

use onbeat_wire::powerlink::Soc;

/// The position of a cycle in its multiplexed cycle.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slots {
    /// MC of the last SoC.
    completed: Option<bool>,
    /// Cycles since MC toggled.
    position: u64,
    /// MC toggled since the first observed SoC, or that one was the bus's first.
    whole: bool,
    /// Number of cycles in a multiplexed cycle.
    length: Option<u64>,
}

impl Slots {
    pub(super) fn soc(&mut self, soc: &Soc) {
        let before = self.completed.replace(soc.multiplexed_cycle_completed);
        if soc.relative_time_us == 0 {
            (self.position, self.whole) = (0, true);
            return;
        }
        self.position += 1;
        if before.is_some_and(|before| before != soc.multiplexed_cycle_completed) {
            let cycles = core::mem::take(&mut self.position);
            if core::mem::replace(&mut self.whole, true) {
                self.length = Some(cycles);
            }
        }
    }

    /// Number of cycles in a multiplexed cycle, after a complete observation.
    pub(super) fn length(&self) -> Option<u64> {
        self.length
    }

    /// The position of this cycle, starting at 1.
    pub(super) fn place(&self) -> Option<u64> {
        self.length.map(|_| self.position + 1)
    }
}
