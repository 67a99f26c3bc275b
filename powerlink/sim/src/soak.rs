//! A long run with random losses and restarts.

use onbeat_powerlink::mn::Event;
use onbeat_wire::powerlink::NodeId;

use crate::network::MachineEvent;
use onbeat_wire::random::Random;

use crate::{Memory, Network, NetworkConfig, Violation};

/// Parameters of a run.
#[derive(Debug, Clone, Copy)]
pub struct Soak {
    /// The network.
    pub network: NetworkConfig,
    /// Isochronous cycles to run.
    pub cycles: u64,
    /// Cycles between two faults: a node loses its power, or its cable, for a while; one of ten faults is the
    /// managing node's.
    pub fault_every: u64,
}

/// The progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Isochronous cycles.
    pub cycles: u64,
    /// Frames on the bus.
    pub frames: u64,
    /// Lost receptions.
    pub lost: u64,
    /// Virtual time, in nanoseconds.
    pub time_ns: u64,
    /// Restarts of controlled nodes.
    pub restarts: u64,
    /// Disconnections of controlled nodes' cables.
    pub cuts: u64,
    /// Restarts of the managing node.
    pub managing_restarts: u64,
    /// Failures of nodes reported by the managing node, including those with a fault.
    pub failures: u64,
    /// Recorded violations.
    pub violations: usize,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The progress at the end.
    pub progress: Progress,
    /// The violations.
    pub violations: Vec<Violation>,
    /// Whether all nodes were in OPERATIONAL at the end.
    pub operational: bool,
}

/// Maximum virtual time for a network to recover, without losses.
const RECOVERY_NS: u64 = 120_000_000_000;

impl Soak {
    /// Runs; `report` receives the progress after each fault.
    pub fn run(self, mut report: impl FnMut(&Progress)) -> Outcome {
        let mut random = Random::new(self.network.seed ^ 0x5041);
        let mut network = Network::new(self.network);
        // Every third node stores its configuration without power.
        for node in (1..=self.network.nodes).filter(|node| node % 3 == 0).map(NodeId) {
            network.set_memory(node, Memory::default());
        }
        let cycle_ns = u64::from(self.network.cycle_us) * 1000;
        let mut progress = Progress::default();
        while network.checker.cycles() < self.cycles {
            network.run_for(self.fault_every / 2 * cycle_ns);
            let node = NodeId(1 + random.below(self.network.nodes.into()) as u8);
            let pause_ns = (1 + random.below(self.fault_every / 2)) * cycle_ns;
            match random.below(20) {
                0 | 1 => {
                    progress.managing_restarts += 1;
                    network.restart_managing();
                    network.run_for(pause_ns);
                }
                2..=10 => {
                    progress.restarts += 1;
                    network.power(node, false);
                    network.run_for(pause_ns);
                    network.power(node, true);
                }
                _ => {
                    progress.cuts += 1;
                    network.connect(node, false);
                    network.run_for(pause_ns);
                    network.connect(node, true);
                }
            }
            progress.look(&mut network);
            report(&progress);
        }
        network.bus.conditions.loss_per_million = 0;
        let operational = network.run_until(RECOVERY_NS, Network::is_operational);
        progress.look(&mut network);
        Outcome { progress, violations: network.checker.violations().to_vec(), operational }
    }
}

impl Progress {
    /// Adds the events since the last call.
    fn look(&mut self, network: &mut Network) {
        self.cycles = network.checker.cycles();
        self.frames = network.checker.frames();
        self.violations = network.checker.violations().len();
        self.lost = network.bus.lost();
        self.time_ns = network.bus.now_ns();
        let stations = network.bus.stations.iter_mut();
        let records = stations.flat_map(|station| station.node.records.drain(..));
        let is_failure = |what| matches!(what, MachineEvent::Managing(Event::Failed(..)));
        self.failures += records.filter(|record| is_failure(record.what)).count() as u64;
    }
}
