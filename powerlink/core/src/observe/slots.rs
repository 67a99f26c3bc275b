//! Multiplexed cycles, as SoC tells them.

use onbeat_wire::powerlink::Soc;

/// Where a cycle is in its multiplexed cycle.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slots {
    /// MC of the last SoC.
    completed: Option<bool>,
    /// Cycles since MC changed.
    position: u64,
    /// MC changed since the first SoC that was seen, or that one was the bus's first.
    whole: bool,
    /// Cycles of a multiplexed cycle.
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

    /// Cycles of a multiplexed cycle, once one was seen from begin to end.
    pub(super) fn length(&self) -> Option<u64> {
        self.length
    }

    /// The place of this cycle, from 1 on.
    pub(super) fn place(&self) -> Option<u64> {
        self.length.map(|_| self.position + 1)
    }
}
