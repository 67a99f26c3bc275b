//! SoC that something else sends, at an instant that it is told ahead: a NIC or a kernel that keeps
//! launch times, or a timer that needs nobody to be awake.
//!
//! The frame that begins a cycle is given away at the end of the one before
//! ([`poll_launch`](ManagingNode::poll_launch)). Polls begin once it is known that it left
//! ([`handle_launched`](ManagingNode::handle_launched)): whoever sends them must not overtake it.

use alloc::vec::Vec;

use super::{Event, ManagingNode, Phase};

/// What is to be done about the SoC of the next cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launch<'a> {
    /// This frame, without FCS, is to leave at an instant.
    At {
        /// The instant, in nanoseconds by the node's clock.
        at_ns: u64,
        /// The frame.
        frame: &'a [u8],
    },
    /// What was to be launched is not to leave any more.
    Cancel,
}

#[derive(Debug, Default)]
pub(super) struct Launching {
    /// Somebody else sends SoC.
    pub(super) on: bool,
    frame: Vec<u8>,
    news: Option<News>,
}

#[derive(Debug, Clone, Copy)]
enum News {
    At(u64),
    Cancel,
}

impl ManagingNode {
    /// Has somebody else send SoC from the next cycle on.
    pub fn launch_cycles(&mut self) {
        self.launching.on = true;
    }

    /// What is to be done about the SoC of the next cycle, once for each; to be asked after whatever is
    /// done with the node.
    pub fn poll_launch(&mut self) -> Option<Launch<'_>> {
        Some(match self.launching.news.take()? {
            News::At(at_ns) => Launch::At { at_ns, frame: &self.launching.frame },
            News::Cancel => Launch::Cancel,
        })
    }

    /// The SoC that was to leave at an instant did, or could not: then this node sends one now.
    pub fn handle_launched(&mut self, now_ns: u64, at_ns: u64, sent: bool) {
        if self.phase != Phase::Launch || at_ns != self.soc_ns {
            return;
        }
        if sent {
            self.cycle_begun(now_ns);
        } else {
            self.events.push_back(Event::NotLaunched);
            self.isochronous_cycle(now_ns);
        }
    }

    /// Nobody told that the SoC left.
    pub(super) fn launch_unknown(&mut self, now_ns: u64) {
        self.events.push_back(Event::NotLaunched);
        self.cycle_begun(now_ns);
    }

    /// Waits for the next cycle to begin.
    pub(super) fn await_cycle(&mut self) {
        (self.phase, self.timer_ns) = (Phase::Soc, self.soc_ns);
        if self.launching.on {
            let memory = core::mem::take(&mut self.launching.frame);
            self.launching.frame = self.soc(self.soc_ns, memory);
            self.launching.news = Some(News::At(self.soc_ns));
            self.phase = Phase::Launch;
            // Half a cycle is left for what follows.
            self.timer_ns = self.soc_ns + self.cycle_ns / 2;
        }
    }

    /// The isochronous cycle is left.
    pub(super) fn cancel_launch(&mut self) {
        if self.phase == Phase::Launch {
            self.launching.news = Some(News::Cancel);
        }
    }
}
