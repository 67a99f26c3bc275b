//! A long run with random losses and restarts.

use onbeat_powerlink::mn::Event;
use onbeat_wire::powerlink::NodeId;

use crate::network::What;
use crate::{Network, NetworkConfig, Random, Violation};

/// What a run is like.
#[derive(Debug, Clone, Copy)]
pub struct Soak {
    /// The network.
    pub network: NetworkConfig,
    /// Isochronous cycles to run.
    pub cycles: u64,
    /// Cycles between two faults: a node loses its power, or its cable, for a while.
    pub fault_every: u64,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Isochronous cycles.
    pub cycles: u64,
    /// Frames on the bus.
    pub frames: u64,
    /// Virtual time, in nanoseconds.
    pub time_ns: u64,
    /// Faults that were made.
    pub faults: u64,
    /// Nodes that had to begin anew, those with a fault among them.
    pub failures: u64,
    /// Rules that were broken.
    pub violations: Vec<Violation>,
    /// In the end all nodes were back in OPERATIONAL.
    pub operational: bool,
}

/// Virtual time that a network may take to get everybody back, without losses.
const RECOVERY_NS: u64 = 120_000_000_000;

impl Soak {
    /// Runs.
    pub fn run(self) -> Outcome {
        let mut random = Random::new(self.network.seed ^ 0x5041);
        let mut network = Network::new(self.network);
        let cycle_ns = u64::from(self.network.cycle_us) * 1000;
        let (mut faults, mut failures) = (0, 0);
        while network.checker.cycles() < self.cycles {
            network.run_for(self.fault_every / 2 * cycle_ns);
            let node = NodeId(1 + random.below(self.network.nodes.into()) as u8);
            let pause_ns = (1 + random.below(self.fault_every / 2)) * cycle_ns;
            faults += 1;
            if random.happens(500_000) {
                network.power(node, false);
                network.run_for(pause_ns);
                network.power(node, true);
            } else {
                network.connect(node, false);
                network.run_for(pause_ns);
                network.connect(node, true);
            }
            failures += drain(&mut network);
        }
        network.bus.conditions.loss_per_million = 0;
        let operational = network.run_until(RECOVERY_NS, Network::is_operational);
        failures += drain(&mut network);
        Outcome {
            cycles: network.checker.cycles(),
            frames: network.checker.frames(),
            time_ns: network.bus.now_ns(),
            faults,
            failures,
            violations: network.checker.violations().to_vec(),
            operational,
        }
    }
}

/// Forgets what happened; returns how many nodes failed.
fn drain(network: &mut Network) -> u64 {
    let stations = network.bus.stations.iter_mut();
    let records = stations.flat_map(|station| station.node.records.drain(..));
    records.filter(|record| matches!(record.what, What::Managing(Event::Failed(..)))).count() as u64
}
