//! Keys of the store.
//!
//! | key | value | written by |
//! |---|---|---|
//! | `plan/current` | signed [`Current`](crate::Current) | controller, compare of its revision |
//! | `plan/GEN/manifest` | signed [`Manifest`](crate::record::Manifest) | controller, once |
//! | `plan/GEN/batch` | signed [`Batch`](crate::record::Batch) | controller, once |
//! | `plan/GEN/node/NODE` | signed [`NodeFileEntry`](crate::record::NodeFileEntry) | controller, once |
//! | `plan/GEN/node/NODE/PART` | a part of the node's file, at most [`PART_OCTETS`] | controller, once |
//! | `plan/TO/from/FROM` | signed [`Change`](crate::record::Change) | controller, once |
//! | `plan/TO/from/FROM/NODE` | signed [`NodeChange`](crate::record::NodeChange) | controller, once |
//! | `plan/key/NODE` | signed [`NodeKey`](crate::record::NodeKey) | `onbeat fleet invite` |
//! | `plan/cluster` | signed [`ClusterNumber`](crate::record::ClusterNumber) | `onbeat fleet init`, controller |
//! | `plan/pause` | signed [`Pause`](crate::record::Pause) | operator |
//! | `deadline/STEP` | empty, under a lease | controller, in the transaction of the step |
//! | `state/NODE` | [`NodeState`](crate::NodeState), signed by the node, under the agent's lease | agent, compare of its revision |
//! | `inventory/NODE` | signed [`NodeReport`](crate::record::NodeReport) | agent |

use crate::phase::{Generation, Step};

/// The record of all nodes.
pub const CURRENT: &str = "plan/current";

/// The number of the cluster.
pub const CLUSTER: &str = "plan/cluster";

/// Exists while no step may be written.
pub const PAUSE: &str = "plan/pause";

/// Prefix of the keys of all nodes.
pub const NODE_KEYS: &str = "plan/key/";

/// Prefix of the states of all nodes.
pub const STATES: &str = "state/";

/// Prefix of the deadlines of all steps.
pub const DEADLINES: &str = "deadline/";

/// Octets of a part of a file: a request of etcd has at most 1.5 MiB.
pub const PART_OCTETS: usize = 1 << 20;

/// Longest name of a node.
const NAME_LENGTH: usize = 63;

/// Whether a node may have this name: that of node files.
#[must_use]
pub fn is_node_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=NAME_LENGTH).contains(&name.len()) && name.chars().all(is_allowed)
}

/// The manifest of a plan.
#[must_use]
pub fn manifest(generation: Generation) -> String {
    format!("plan/{generation}/manifest")
}

/// What a plan is a batch of.
#[must_use]
pub fn batch(generation: Generation) -> String {
    format!("plan/{generation}/batch")
}

/// The entry of a node's file in a plan.
#[must_use]
pub fn node(generation: Generation, node: &str) -> String {
    format!("plan/{generation}/node/{node}")
}

/// A part of a node's file.
#[must_use]
pub fn part(generation: Generation, node: &str, part: usize) -> String {
    format!("plan/{generation}/node/{node}/{part}")
}

/// The change from one plan to another.
#[must_use]
pub fn change(from: Generation, to: Generation) -> String {
    format!("plan/{to}/from/{from}")
}

/// The change of a node.
#[must_use]
pub fn node_change(from: Generation, to: Generation, node: &str) -> String {
    format!("plan/{to}/from/{from}/{node}")
}

/// The deadline of a step.
#[must_use]
pub fn deadline(step: Step) -> String {
    format!("{DEADLINES}{step}")
}

/// The key of a node.
#[must_use]
pub fn node_key(node: &str) -> String {
    format!("{NODE_KEYS}{node}")
}

/// The state of a node.
#[must_use]
pub fn state(node: &str) -> String {
    format!("{STATES}{node}")
}

/// Prefix of the reports of all nodes.
pub const INVENTORIES: &str = "inventory/";

/// The report of a node.
#[must_use]
pub fn inventory(node: &str) -> String {
    format!("{INVENTORIES}{node}")
}
