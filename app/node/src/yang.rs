//! A node as JSON of IEEE YANG modules.

use std::collections::{BTreeMap, HashMap};

use onbeat_frer::spec::Stream;
use onbeat_frer_xdp::compile::LONGEST_MSDU_MASK;
pub use onbeat_yang::{Document, Faults};
use onbeat_yang::{
    Fault, Interface, InterfaceState, MemberState, NodeState, StreamHandles, StreamState,
};
use serde_json::Value;

use crate::config::{Backend, Config, ConfigError, PortConfig, add_stream, sha256};
use crate::control::{
    Client, ClientError, LinkState, NodeStatus, PortStatus, Request, StreamStatus,
};

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
    /// SHA-256 of the configuration as its node sent it, from which a change is derived.
    pub sha256: Option<String>,
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
    let (document, mut lost) = onbeat_yang::configuration(
        &interfaces(&config.ports),
        &config.streams,
        config.kept_handles(),
    );
    if config.prp.is_some() {
        lost.push("protocol = \"prp\"".to_owned());
    }
    lost.extend(config.wildcards.iter().map(|wildcard| format!("wildcard {:?}", wildcard.name)));
    let draining = config.draining_streams().map(|name| format!("stream {name:?}: draining"));
    lost.extend(draining);
    NodeData { document, lost, sha256: None }
}

/// Reads the configuration of a running node, and its state.
///
/// # Errors
/// The node does not respond, or has another version.
pub fn running(client: &mut Client, with_state: bool) -> Result<NodeData, ReadError> {
    /// Number of attempts to read state and configuration of the same streams.
    const ATTEMPTS: usize = 3;
    for _ in 0..ATTEMPTS {
        let text = client.configuration()?;
        let config = Config::parse(&text, RUNNING)?;
        let mut data = NodeData { sha256: Some(sha256(&text)), ..configuration(&config) };
        if !with_state {
            return Ok(data);
        }
        let status = client.status()?;
        data.lost.extend(
            status.wildcards.iter().map(|wildcard| format!("wildcard {:?}", wildcard.name)),
        );
        if let Some(state) = state(&config, &status) {
            let interfaces = interfaces(&config.ports);
            let streams = (&config.streams, config.kept_handles());
            onbeat_yang::state(&mut data.document, &interfaces, streams, &state);
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

/// A document that a node does not set.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// Leaves that are wrong, or that the node cannot set.
    #[error(transparent)]
    Faults(#[from] Faults),
    /// Its configuration cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It refuses.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Its configuration is not the one that the change is derived from.
    #[error(
        "the configuration of the node has changed since it was read; nothing is set: read it again, and repeat the change"
    )]
    Changed,
}

/// Terms of a change.
#[derive(Debug, Default)]
pub struct SetTerms {
    /// SHA-256 of the configuration that it is derived from; none: any.
    pub base: Option<String>,
    /// Whether a restart and a reload keep it.
    pub store: bool,
    /// Whether this process has the lock of running, and stores nothing.
    pub has_lock: bool,
    /// Whether another system may manage the node.
    pub force: bool,
}

/// The request that gives a node the configuration of a document.
#[derive(Debug)]
pub struct Difference {
    /// Names of streams to remove.
    pub remove: Vec<String>,
    /// `[[stream]]` tables of new and changed streams.
    pub text: String,
}

impl Difference {
    /// Whether the node has this configuration.
    pub fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.text.is_empty()
    }
}

/// A stream of a document, with its handles.
type NamedStream<'a> = (&'a Stream, &'a StreamHandles);

/// Returns the difference of a document from the running configuration. Streams of `fixed`, by name, cannot change.
///
/// # Errors
/// Each leaf that is wrong, or that the node cannot set.
pub fn difference(
    document: &Value,
    running: &Config,
    fixed: &[Stream],
) -> Result<Difference, Faults> {
    let interfaces = interfaces(&running.ports);
    let own = onbeat_yang::handles(&running.streams, running.kept_handles());
    let names: BTreeMap<u32, String> = own
        .zip(&running.streams)
        .flat_map(|(own, stream)| {
            own.members.into_iter().map(|handle| (handle, stream.name.clone()))
        })
        .collect();
    let read = |document| onbeat_yang::streams(document, Some(&interfaces), &names);
    let new = read(document)?;
    has_all(&new, &interfaces)?;
    onbeat_yang::check_kept(document, &interfaces, &new)?;
    // In the form that a document can express.
    let before = read(&configuration(running).document)?;
    let by_name = |document: &'_ Document| -> HashMap<String, (Stream, StreamHandles)> {
        let streams = document.streams.iter().zip(&document.handles);
        streams.map(|(stream, own)| (stream.name.clone(), (stream.clone(), own.clone()))).collect()
    };
    let (old, now) = (by_name(&before), by_name(&new));
    let is_same = |(stream, own): &NamedStream<'_>| {
        old.get(&stream.name).is_some_and(|(before, handles)| (before, handles) == (*stream, *own))
    };
    let changed: Vec<NamedStream<'_>> =
        new.streams.iter().zip(&new.handles).filter(|stream| !is_same(stream)).collect();
    let removed = before.streams.iter().zip(&before.handles);
    let removed: Vec<NamedStream<'_>> =
        removed.filter(|(stream, _)| !now.contains_key(&stream.name)).collect();
    let fixed: std::collections::HashSet<&str> = fixed.iter().map(|stream| &*stream.name).collect();
    let touched = changed.iter().map(|stream| ("changed", stream));
    let touched = touched.chain(removed.iter().map(|stream| ("removed", stream)));
    let faults: Vec<Fault> = touched
        .filter(|(_, (stream, _))| fixed.contains(&*stream.name))
        .map(|(how, (stream, own))| Fault {
            path: onbeat_yang::identity_path(own.members.first().copied().unwrap_or_default()),
            message: format!("stream {:?} is of the node's file, and is {how} here", stream.name),
            help: "change it in that file, then run onbeat reload".to_owned(),
        })
        .collect();
    if !faults.is_empty() {
        return Err(Faults(faults));
    }
    let mut text = String::new();
    for (stream, own) in changed {
        add_stream(&mut text, &running.ports, stream, (&[], Some(own)));
    }
    Ok(Difference { remove: removed.iter().map(|(stream, _)| stream.name.clone()).collect(), text })
}

/// Refuses a document without an interface of the node: it would remove it.
fn has_all(document: &Document, interfaces: &[Interface]) -> Result<(), Faults> {
    let is_missing = |interface: &&Interface| !document.interfaces.contains(&interface.name);
    let fault = |interface: &Interface| Fault {
        path: format!("/ietf-interfaces:interfaces/interface[name='{}']", interface.name),
        message: "the interface is missing, and is a port of the node's file".to_owned(),
        help: "add it, or remove the port in that file".to_owned(),
    };
    match interfaces.iter().filter(is_missing).map(fault).collect::<Vec<_>>() {
        faults if faults.is_empty() => Ok(()),
        faults => Err(Faults(faults)),
    }
}

/// Checks that a node has the configuration of a document, which was read earlier; returns its hash for the terms of a
/// change.
///
/// # Errors
/// It has another configuration by now.
pub fn base(client: &mut Client, document: &Value) -> Result<String, SetError> {
    let text = client.configuration()?;
    let running = Config::parse(&text, RUNNING).map_err(ReadError::from)?;
    match difference(document, &running, &[])?.is_empty() {
        true => Ok(sha256(&text)),
        false => Err(SetError::Changed),
    }
}

/// Gives a running node the configuration of a document, all or nothing. Returns the message of the node; `None`: it has
/// this configuration.
///
/// # Errors
/// Each leaf that is wrong, or that the node cannot set; the node refuses.
pub fn set(
    client: &mut Client,
    document: &Value,
    terms: SetTerms,
    file: &str,
) -> Result<Option<String>, SetError> {
    let SetTerms { base, store, has_lock, force } = terms;
    let text = client.configuration()?;
    let present = sha256(&text);
    if base.is_some_and(|base| base != present) {
        return Err(SetError::Changed);
    }
    let running = Config::parse(&text, RUNNING).map_err(ReadError::from)?;
    let fixed = match store {
        true => {
            let (text, of_file) = client.stored_configuration()?;
            let mut stored = Config::parse(&text, RUNNING).map_err(ReadError::from)?.streams;
            stored.truncate(of_file);
            stored
        }
        false => Vec::new(),
    };
    let Difference { remove, text } = match difference(document, &running, &fixed)? {
        difference if difference.is_empty() && !store => return Ok(None),
        difference => difference,
    };
    let (file, base) = (file.to_owned(), Some(present));
    let request = Request::SetStreams { remove, text, file, store, base, has_lock, force };
    Ok(Some(client.order(&request)?))
}

/// Reads the configuration of a node after a restart.
///
/// # Errors
/// The node does not respond, or has another version.
pub fn startup(client: &mut Client) -> Result<NodeData, ReadError> {
    let (text, _) = client.stored_configuration()?;
    Ok(configuration(&Config::parse(&text, RUNNING)?))
}
