//! SoC sent by another component at a launch time: by a NIC or kernel with launch times, or by a timer without
//! waking any thread.
//!
//! [`poll_launch`](ManagingNode::poll_launch) returns the SoC of a cycle at the end of the previous one. Polls
//! start after confirmation of its transmission ([`handle_launched`](ManagingNode::handle_launched)): they must
//! not overtake it.

use alloc::vec::Vec;

use super::{Event, ManagingNode, Phase};

/// A command for the SoC of the next cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launch<'a> {
    /// Send this frame, without FCS, at an instant.
    At {
        /// The instant, in nanoseconds by the node's clock.
        at_ns: u64,
        /// The frame.
        frame: &'a [u8],
    },
    /// Cancel the planned SoC.
    Cancel,
}

#[derive(Debug, Default)]
pub(super) struct LaunchState {
    /// Another component sends SoC.
    pub(super) on: bool,
    frame: Vec<u8>,
    command: Option<LaunchCommand>,
}

#[derive(Debug, Clone, Copy)]
enum LaunchCommand {
    At(u64),
    Cancel,
}

impl ManagingNode {
    /// Makes another component send SoC, from the next cycle.
    pub fn launch_cycles(&mut self) {
        self.launching.on = true;
    }

    /// Returns each command for the SoC of the next cycle once. Call it after each call of the node.
    pub fn poll_launch(&mut self) -> Option<Launch<'_>> {
        Some(match self.launching.command.take()? {
            LaunchCommand::At(at_ns) => Launch::At { at_ns, frame: &self.launching.frame },
            LaunchCommand::Cancel => Launch::Cancel,
        })
    }

    /// Reports whether the SoC of an instant was sent; if not, this node sends one now.
    pub fn handle_launched(&mut self, now_ns: u64, at_ns: u64, sent: bool) {
        if self.phase != Phase::Launch || at_ns != self.soc_ns {
            return;
        }
        if sent {
            self.cycle_started(now_ns);
        } else {
            self.events.push_back(Event::NotLaunched);
            self.isochronous_cycle(now_ns);
        }
    }

    /// Handles a missing confirmation of SoC.
    pub(super) fn launch_unknown(&mut self, now_ns: u64) {
        self.events.push_back(Event::NotLaunched);
        self.cycle_started(now_ns);
    }

    /// Waits for the start of the next cycle.
    pub(super) fn await_cycle(&mut self) {
        (self.phase, self.timer_ns) = (Phase::Soc, self.soc_ns);
        if self.launching.on {
            let memory = core::mem::take(&mut self.launching.frame);
            self.launching.frame = self.soc(self.soc_ns, memory);
            self.launching.command = Some(LaunchCommand::At(self.soc_ns));
            self.phase = Phase::Launch;
            // Half a cycle is left for the rest.
            self.timer_ns = self.soc_ns + self.cycle_ns / 2;
        }
    }

    /// Cancels the launch when the isochronous cycle ends.
    pub(super) fn cancel_launch(&mut self) {
        if self.phase == Phase::Launch {
            self.launching.command = Some(LaunchCommand::Cancel);
        }
    }
}
