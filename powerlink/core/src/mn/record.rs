//! What the managing node knows of each node's boot, for the application and for results.

use onbeat_wire::powerlink::NodeId;

use super::station::Station;
use super::{Failure, ManagingNode, Phase, Step};

/// The boot of a node up to now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BootRecord {
    /// The node.
    pub node: NodeId,
    /// Whether the network waits for it.
    pub mandatory: bool,
    /// Its present step.
    pub step: Step,
    /// How often it entered OPERATIONAL.
    pub operational: u64,
    /// How often it failed.
    pub failures: u64,
    /// Its last failure.
    pub last_failure: Option<Failure>,
    /// Objects of its configuration that it does not have.
    pub skipped: usize,
    /// Ignored frames with its id from another address than its own.
    pub foreign: u64,
}

impl From<&Station> for BootRecord {
    fn from(station: &Station) -> Self {
        BootRecord {
            node: station.node,
            mandatory: station.settings.mandatory,
            step: station.step,
            operational: station.operational,
            failures: station.failures,
            last_failure: station.last_failure,
            skipped: station.skipped.len(),
            foreign: station.foreign,
        }
    }
}

impl ManagingNode {
    /// The boot of each node, nodes of every cycle first.
    pub fn boots(&self) -> impl Iterator<Item = BootRecord> + '_ {
        self.stations.iter().map(BootRecord::from)
    }

    /// The instant of the next SoC, in nanoseconds, or of the current one while it is due.
    pub fn next_soc_ns(&self) -> u64 {
        self.soc_ns
    }

    /// The instant of the next SoC, and the length of the cycle, in nanoseconds, if this SoC is what the node waits
    /// for. `None` as well while another component sends SoC.
    pub fn awaited_soc_ns(&self) -> Option<(u64, u64)> {
        (self.phase == Phase::Soc).then_some((self.soc_ns, self.cycle_ns))
    }

    /// The number of instants of SoC that passed without one, since the cycle before exceeded its length.
    pub fn skipped_cycles(&self) -> u64 {
        self.skipped_cycles
    }

    /// The number of received frames of other managing nodes.
    pub fn foreign_frames(&self) -> u64 {
        self.foreign_frames
    }
}
