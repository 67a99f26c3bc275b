//! The two ends of a rig, for any back end.

use crate::Result;

/// Counters of a node since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PortNodeCounters {
    /// Frames accepted for transmission: requests or responses.
    pub(super) sent: u64,
    /// Frames refused for transmission.
    pub(super) failed: u64,
    /// Instants of the cycle without a request.
    pub(super) missed: u64,
    /// Frames dropped on ingress because a queue was full.
    pub(super) dropped: u64,
}

impl PortNodeCounters {
    /// The difference to `before`.
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

/// A managing node: sends a request each cycle, and receives the responses.
pub(super) trait ManagingNode: Send {
    /// Plans a request at `first_ns + n * period_ns` of CLOCK_MONOTONIC for each n.
    fn start_requests(&mut self, first_ns: u64, period_ns: u64) -> Result<()>;

    /// Sends due requests and receives responses, until `until_ns` or slightly earlier.
    fn serve(&mut self, until_ns: u64) -> Result<()>;

    /// Stops sending requests.
    fn finish(&mut self) -> Result<()>;

    /// The counters so far.
    fn counters(&mut self) -> Result<PortNodeCounters>;

    /// Wake-up latencies of the thread at each instant, in nanoseconds, since the last call; empty if
    /// the node does not sleep itself.
    fn take_wakeups(&mut self) -> Vec<u64> {
        Vec::new()
    }
}

/// A controlled node: responds to each request.
pub(super) trait ControlledNode: Send {
    /// Responds to requests, until `until_ns` or slightly earlier.
    fn serve(&mut self, until_ns: u64) -> Result<()>;

    /// The counters so far.
    fn counters(&mut self) -> Result<PortNodeCounters>;
}
