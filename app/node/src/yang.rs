//! A node as JSON of IEEE YANG modules.

use std::collections::{BTreeMap, HashMap};

use onbeat_frer_xdp::compile::LONGEST_MSDU_MASK;
pub use onbeat_yang::{Document, Faults};
use onbeat_yang::{Interface, InterfaceState, MemberState, NodeState, StreamState};
use serde_json::Value;

use crate::config::{Backend, Config, ConfigError, PortConfig};
use crate::control::{Client, ClientError, LinkState, NodeStatus, PortStatus, StreamStatus};

/// Longest mask of the MSDU that the standard permits (9.1.6, 802.1CBdb).
const LONGEST_MASK: u16 = 1984;

/// Name of a node's configuration in messages.
const RUNNING: &str = "configuration of the node";

/// The data of a node.
#[derive(Debug)]
pub struct NodeData {
    /// The document.
    pub document: Value,
    /// Each part that YANG cannot express.
    pub lost: Vec<String>,
}

/// A node whose data cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It does not respond, or refuses.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Its configuration is not one of this version of onbeat.
    #[error("{0}\nuse the version of onbeat that the node runs")]
    Configuration(#[from] ConfigError),
    /// Its streams change from one request to the next.
    #[error("streams of the node change faster than they can be read; repeat the command")]
    Unsteady,
}

/// The interfaces of ports.
fn interfaces(ports: &[PortConfig]) -> Vec<Interface> {
    let interface = |port: &PortConfig| Interface {
        name: port.attached_interface(),
        longest_mask: match port.backend {
            Backend::Xdp => LONGEST_MSDU_MASK,
            Backend::Packet | Backend::Xsk => LONGEST_MASK,
        },
    };
    ports.iter().map(interface).collect()
}

/// Returns the configuration of a file.
pub fn configuration(config: &Config) -> NodeData {
    let (document, mut lost) =
        onbeat_yang::configuration(&interfaces(&config.ports), &config.streams);
    if config.prp.is_some() {
        lost.push("protocol = \"prp\"".to_owned());
    }
    lost.extend(config.wildcards.iter().map(|wildcard| format!("wildcard {:?}", wildcard.name)));
    let draining = config.draining_streams().map(|name| format!("stream {name:?}: draining"));
    lost.extend(draining);
    NodeData { document, lost }
}

/// Reads the configuration of a running node, and its state.
///
/// # Errors
/// The node does not respond, or has another version.
pub fn running(client: &mut Client, with_state: bool) -> Result<NodeData, ReadError> {
    /// Number of attempts to read state and configuration of the same streams.
    const ATTEMPTS: usize = 3;
    for _ in 0..ATTEMPTS {
        let config = Config::parse(&client.configuration()?, RUNNING)?;
        let mut data = configuration(&config);
        if !with_state {
            return Ok(data);
        }
        let status = client.status()?;
        data.lost.extend(
            status.wildcards.iter().map(|wildcard| format!("wildcard {:?}", wildcard.name)),
        );
        if let Some(state) = state(&config, &status) {
            let interfaces = interfaces(&config.ports);
            onbeat_yang::state(&mut data.document, &interfaces, &config.streams, &state);
            return Ok(data);
        }
    }
    Err(ReadError::Unsteady)
}

/// The state of the streams of a configuration; `None`: of others.
fn state(config: &Config, status: &NodeStatus) -> Option<NodeState> {
    let by_name: HashMap<&str, &StreamStatus> =
        status.streams.iter().map(|stream| (stream.name.as_str(), stream)).collect();
    let streams = config.streams.iter().map(|stream| {
        let status = by_name.get(stream.name.as_str())?;
        let same = (status.members.len(), status.egress.len())
            == (stream.members.len(), stream.egress.len());
        same.then(|| of_stream(status))
    });
    let interfaces = config
        .ports
        .iter()
        .map(|port| status.ports.iter().find(|status| status.name == port.name).map(of_port));
    Some(NodeState {
        counted_since: status.counted_since.clone(),
        interfaces: interfaces.collect::<Option<_>>()?,
        streams: streams.collect::<Option<_>>()?,
    })
}

fn of_port(port: &PortStatus) -> InterfaceState {
    InterfaceState {
        link: match port.link {
            LinkState::Up => onbeat_yang::LinkState::Up,
            LinkState::Down => onbeat_yang::LinkState::Down,
            LinkState::Missing => onbeat_yang::LinkState::Missing,
        },
        is_enabled: port.admin_up,
        index: port.ifindex,
        input_packets: port.input_packets,
        output_packets: port.output_packets,
        passed: port.passed,
        discarded: port.discard,
    }
}

fn of_stream(stream: &StreamStatus) -> StreamState {
    let members = stream.members.iter().map(|member| MemberState {
        input_packets: member.input_packets,
        errored: member.seq_enc_errored,
        individual: member.individual.as_ref().map(|individual| individual.counters),
    });
    StreamState {
        members: members.collect(),
        generation_resets: stream.generation.as_ref().map(|generation| generation.seq_gen_resets),
        recovery: stream.recovery.as_ref().map(|recovery| recovery.counters),
        output_packets: stream.egress.iter().map(|egress| egress.output_packets).collect(),
    }
}

/// Reads the streams of a document, which a node with its interfaces could run.
///
/// # Errors
/// Each leaf that is wrong, or that no node can set.
pub fn check(document: &Value) -> Result<Document, Faults> {
    onbeat_yang::streams(document, None, &BTreeMap::new())
}
