//! Networks on the simulated bus.

mod basic_ethernet;
mod boot;
mod checker;
mod cross;
mod management;
mod multiplexed;
mod server;
mod soak;
mod status;
mod store;
mod transfers;

use onbeat_sim::{Conditions, NetworkConfig};
use onbeat_wire::powerlink::NodeId;

const SECOND_NS: u64 = 1_000_000_000;
const CYCLE_NS: u64 = 1_000_000;
const ONE: NodeId = NodeId(1);

/// Two nodes that may be missing, on a clean medium.
const CONFIG: NetworkConfig = NetworkConfig {
    nodes: 2,
    cycle_us: 1000,
    mandatory: false,
    multiplexed_cycles: 0,
    conditions: Conditions::CLEAN,
    seed: 1,
};
