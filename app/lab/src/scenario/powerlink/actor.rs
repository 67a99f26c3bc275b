//! A node in its namespace, with a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use onbeat_link::Backend;
use onbeat_netdev::Namespace;
use onbeat_powerlink::cn::ControlledNode;
use onbeat_powerlink::mn::{ManagingNode, Step};
use onbeat_powerlink::nmt::State;
use onbeat_powerlink_node::{File, Runner, Simulation, Station, open};
use onbeat_realtime::Profile;
use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::NodeId;

use crate::worker::Worker;
use crate::{Error, Result};

/// Interface name of every node.
const INTERFACE: &str = "eth0";

/// State of a running node.
#[derive(Debug, Default)]
struct NodeState {
    /// The node failed.
    ended: AtomicBool,
    state: AtomicU8,
    /// Of a managing node: nodes in OPERATIONAL, one bit each (up to 63).
    operational: AtomicU64,
}

/// A running node.
pub(super) struct Actor<S: Station> {
    state: Arc<NodeState>,
    worker: Worker<Result<StoppedNode<S>>>,
}

/// A stopped node.
pub(super) struct StoppedNode<S: Station> {
    pub(super) runner: Runner<S>,
    pub(super) simulation: Simulation,
}

pub(super) type ControlledActor = Actor<ControlledNode>;
pub(super) type ManagingActor = Actor<ManagingNode>;

impl ControlledActor {
    /// Starts a controlled node of the network.
    pub(super) fn controlled(
        namespace: &Namespace,
        file: &File,
        node: NodeId,
        realtime: Profile,
    ) -> Result<Self> {
        let simulation = Simulation::controlled(file, node);
        let make = |mac| file.network.controlled(node, mac).map_err(invalid);
        Self::start(namespace, simulation, realtime, make, |_| 0)
    }
}

impl ManagingActor {
    /// Starts the managing node of the network.
    pub(super) fn managing(namespace: &Namespace, file: &File, realtime: Profile) -> Result<Self> {
        let make = |mac| file.network.managing(mac).map_err(invalid);
        let ids: Vec<NodeId> = file.network.nodes.iter().map(|station| station.node).collect();
        let operational = move |node: &ManagingNode| {
            let up = ids.iter().filter(|id| node.step(**id) == Some(Step::Operational));
            up.fold(0, |bits, id| bits | 1 << id.0)
        };
        Self::start(namespace, Simulation::managing(file), realtime, make, operational)
    }

    /// Number of nodes in OPERATIONAL according to it.
    pub(super) fn operational(&self) -> u32 {
        self.state.operational.load(Ordering::Acquire).count_ones()
    }

    /// Whether a node is in OPERATIONAL according to it.
    pub(super) fn has(&self, node: u8) -> bool {
        self.state.operational.load(Ordering::Acquire) >> node & 1 == 1
    }
}

fn invalid(error: impl std::fmt::Display) -> Error {
    Error::Invalid(error.to_string())
}

impl<S: Station + 'static> Actor<S> {
    fn start(
        namespace: &Namespace,
        mut simulation: Simulation,
        realtime: Profile,
        make: impl FnOnce(MacAddress) -> Result<S>,
        operational: impl Fn(&S) -> u64 + Send + 'static,
    ) -> Result<Self> {
        let port = open(Backend::Packet, namespace, INTERFACE)?;
        let station = make(port.mac_address())?;
        let mut runner = Runner::new(port, station)?;
        let state = Arc::new(NodeState::default());
        let inside = Arc::clone(&state);
        let run = move |stop: &AtomicBool| {
            let _realtime = realtime.enter()?;
            let ran = runner.run(
                |station| simulation.turn(station),
                |station| {
                    inside.state.store(station.state().code().0, Ordering::Release);
                    inside.operational.store(operational(station), Ordering::Release);
                    !stop.load(Ordering::Acquire)
                },
            );
            inside.ended.store(true, Ordering::Release);
            ran?;
            Ok(StoppedNode { runner, simulation })
        };
        Ok(Self { state, worker: Worker::start("lab-powerlink", run)? })
    }

    /// Whether it is in OPERATIONAL.
    pub(super) fn is_operational(&self) -> bool {
        self.state.state.load(Ordering::Acquire) == State::Operational.code().0
    }

    /// Whether it is running: it stops only on an error.
    pub(super) fn is_running(&self) -> bool {
        !self.state.ended.load(Ordering::Acquire)
    }

    /// Turns the node off: it stops sending at once.
    pub(super) fn stop(self) -> Result<StoppedNode<S>> {
        self.worker.stop()
    }
}
