//! The number space of a node: one counter for all its frames, and the silence after a start.

use super::{NODE_REBOOT_MS, NS_PER_MS, REBOOT_MARGIN_MS};

/// Numbers drawn by this node, to recognize its own frames that return.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DrawnNumbers {
    total: u64,
    /// The period of the last number, the total at its start and at the start of the one before.
    period: u32,
    at_start: u64,
    at_start_before: u64,
}

impl DrawnNumbers {
    /// Returns the number of the next frame.
    pub(super) fn next(&self) -> u16 {
        self.total as u16
    }

    /// Draws the number of a frame.
    pub(super) fn draw(&mut self, period: u32) {
        match period.wrapping_sub(self.period) as i32 {
            // Arrival times of ports are not in order.
            -1 => return self.total += 1,
            0 => {}
            1 => (self.at_start_before, self.at_start) = (self.at_start, self.total),
            _ => (self.at_start_before, self.at_start) = (self.total, self.total),
        }
        self.period = period;
        self.total += 1;
    }

    /// Returns whether a number was drawn within the forget time.
    pub(super) fn is_recent(&self, number: u16, period: u32) -> bool {
        let since = match period.wrapping_sub(self.period) as i32 {
            -1 | 0 => self.at_start_before,
            1 => self.at_start,
            _ => self.total,
        };
        let age = (self.total.wrapping_sub(1) as u16).wrapping_sub(number);
        u64::from(age) < self.total - since
    }
}

/// Returns NodeRebootInterval, in nanoseconds: the silence after a start.
pub(super) fn reboot_silence_ns(entry_forget_ms: u32) -> u64 {
    let silence_ms = entry_forget_ms.saturating_add(REBOOT_MARGIN_MS).max(NODE_REBOOT_MS);
    u64::from(silence_ms) * NS_PER_MS
}

/// The number space of a node. Several entities of a node share one: a number identifies a frame of the node.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NumberSpace {
    pub(super) drawn: DrawnNumbers,
    /// No frame is sent before this time: receivers still remember the numbers of a former process.
    pub(super) silent_until_ns: u64,
}

impl NumberSpace {
    /// Starts a number space, which is silent for NodeRebootInterval.
    pub(crate) fn new(entry_forget_ms: u32, now_ns: u64) -> Self {
        let silent_until_ns = now_ns.saturating_add(reboot_silence_ns(entry_forget_ms));
        Self { drawn: DrawnNumbers::default(), silent_until_ns }
    }

    /// Returns the number of the next frame.
    pub(crate) fn next(&self) -> u16 {
        self.drawn.next()
    }

    pub(crate) fn is_silent(&self, now_ns: u64) -> bool {
        now_ns < self.silent_until_ns
    }

    /// Returns the rest of the silence after a start, in milliseconds; `None`: it has ended.
    pub(crate) fn silence_ms(&self, now_ns: u64) -> Option<u32> {
        let rest_ns = self.silent_until_ns.checked_sub(now_ns).filter(|rest_ns| *rest_ns > 0)?;
        Some(u32::try_from(rest_ns.div_ceil(NS_PER_MS)).unwrap_or(u32::MAX))
    }
}
