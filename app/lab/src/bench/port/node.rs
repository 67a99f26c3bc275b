//! The two ends of a rig, as any back end runs them.

use crate::Result;

/// What a node did since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PortNodeCounters {
    /// Frames handed over: requests or responses.
    pub(super) sent: u64,
    /// Frames that could not be handed over.
    pub(super) failed: u64,
    /// Instants of the cycle that passed without a request.
    pub(super) missed: u64,
    /// Frames that found no room on their way in.
    pub(super) dropped: u64,
}

impl PortNodeCounters {
    /// What was done since `before`.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            sent: self.sent - before.sent,
            failed: self.failed - before.failed,
            missed: self.missed - before.missed,
            dropped: self.dropped - before.dropped,
        }
    }
}

impl std::ops::AddAssign for PortNodeCounters {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.failed += other.failed;
        self.missed += other.missed;
        self.dropped += other.dropped;
    }
}

/// Sends a request each cycle, and takes the responses.
pub(super) trait ManagingNode: Send {
    /// Plans a request at `first_ns + n * period_ns` of CLOCK_MONOTONIC for each n.
    fn start_requests(&mut self, first_ns: u64, period_ns: u64) -> Result<()>;

    /// Sends what is due and takes what comes, until `until_ns` or a little less.
    fn serve(&mut self, until_ns: u64) -> Result<()>;

    /// Asks no more.
    fn finish(&mut self) -> Result<()>;

    /// What was done so far.
    fn counters(&mut self) -> Result<PortNodeCounters>;

    /// How late the thread itself was at each instant, in nanoseconds, since the last call; where
    /// the node sleeps by itself and so can tell.
    fn take_wakeups(&mut self) -> Vec<u64> {
        Vec::new()
    }
}

/// Answers each request.
pub(super) trait ControlledNode: Send {
    /// Answers what comes, until `until_ns` or a little less.
    fn serve(&mut self, until_ns: u64) -> Result<()>;

    /// What was done so far.
    fn counters(&mut self) -> Result<PortNodeCounters>;
}
