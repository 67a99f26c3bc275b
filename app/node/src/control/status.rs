//! The state of a node, as `show --json` prints it. Counters have the names of 802.1CB.

use std::fmt;

use onbeat_frer::counters::Counters;
use onbeat_frer::reading::PortLosses;
use serde::{Deserialize, Serialize};

use super::wildcards::WildcardStatus;
use onbeat_host::ptp::PtpStatus;

/// A node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its name.
    pub node: String,
    /// Process id of its daemon.
    pub pid: u32,
    /// Seconds since the daemon started.
    pub uptime_s: u64,
    /// Since when its counters are counted, RFC 3339: its tables can be older than the daemon.
    #[serde(default)]
    pub counted_since: String,
    /// Its file.
    #[serde(default)]
    pub configuration: FileVersion,
    /// Data plane, unless a port has another one: `xdp`, `packet` or `xsk`.
    pub data_plane: String,
    /// Why frames that left are not counted: `output_packets` of ports are then frames handed to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_gap: Option<String>,
    /// Memory of its stream tables, if they are allocated at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryStatus>,
    /// Its ports, in the order of the configuration.
    pub ports: Vec<PortStatus>,
    /// Its streams, in the order of the configuration.
    pub streams: Vec<StreamStatus>,
    /// Its wildcards, by precedence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wildcards: Vec<WildcardStatus>,
    /// The clock of its host, if ptp4l keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ptp: Option<PtpStatus>,
}

/// The configuration file of a node, and its version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileVersion {
    /// Its path, as on the command line.
    pub file: String,
    /// SHA-256 of the content that was read last.
    pub sha256: String,
    /// Its key `tag`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Its key `managed-by`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_by: Option<String>,
    /// Whether streams were added, changed or removed one by one since then.
    pub streams_changed: bool,
}

/// The node has no stream with this name.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UnknownStream(String);

impl NodeStatus {
    /// The stream with this name.
    ///
    /// # Errors
    /// There is no such stream.
    pub fn stream(&self, name: &str) -> Result<&StreamStatus, UnknownStream> {
        let names = self.streams.iter().map(|stream| stream.name.as_str());
        let found = self.streams.iter().find(|stream| stream.name == name);
        found.ok_or_else(|| UnknownStream::new(&self.node, name, names))
    }
}

impl UnknownStream {
    /// Creates the error of a node with these streams.
    pub(crate) fn new<'a>(
        node: &str,
        name: &str,
        mut streams: impl Iterator<Item = &'a str>,
    ) -> UnknownStream {
        /// Maximum number of names in the message.
        const NAMED: usize = 16;
        let names: Vec<&str> = streams.by_ref().take(NAMED).collect();
        let more = if streams.next().is_some() { ", ... (all of them: onbeat show)" } else { "" };
        let streams = match names.as_slice() {
            [] => "it has no streams".to_owned(),
            _ => format!("streams: {}{more}", names.join(", ")),
        };
        UnknownStream(format!("node {node:?} has no stream {name:?}; {streams}"))
    }
}

/// Memory of a data plane in the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryStatus {
    /// Maximum number of streams.
    pub streams: u32,
    /// Octets of all tables.
    pub octets: u64,
    /// Octets per stream of the maximum number.
    pub octets_per_stream: u64,
}

/// Attachment of a data plane to an interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PortMode {
    /// In the driver.
    Native,
    /// In the kernel's generic hook.
    Generic,
    /// By packet sockets of the daemon.
    Packet,
    /// By AF_XDP sockets of the daemon, into whose memory the driver receives.
    XskZeroCopy,
    /// By AF_XDP sockets of the daemon; frames are copied in the driver's XDP hook.
    XskCopy,
    /// By AF_XDP sockets of the daemon; frames are copied in the kernel's generic hook.
    XskGeneric,
    /// Not attached: the interface is gone, or the program was removed.
    #[default]
    Detached,
}

impl fmt::Display for PortMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Packet => "packet",
            Self::XskZeroCopy => "xsk zero-copy",
            Self::XskCopy => "xsk copy",
            Self::XskGeneric => "xsk generic",
            Self::Detached => "detached",
        })
    }
}

/// State of the link of an interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkState {
    /// Up, with carrier.
    Up,
    /// Down, or without carrier.
    Down,
    /// The interface does not exist.
    #[default]
    Missing,
}

impl LinkState {
    /// The state of an interface in the kernel; `None`: missing.
    pub(crate) fn of(link: Option<&onbeat_netdev::Link>) -> LinkState {
        match link {
            Some(link) if link.up && link.carrier => LinkState::Up,
            Some(_) => LinkState::Down,
            None => LinkState::Missing,
        }
    }
}

/// A port: sums over its streams (9.3, 10.9), each packet counted once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortStatus {
    /// Its name in the configuration.
    pub name: String,
    /// Its interface.
    pub interface: String,
    /// Index of the interface; 0 while it is missing.
    pub ifindex: u32,
    /// Attachment of the data plane.
    pub mode: PortMode,
    /// Why the data plane is not attached though the interface exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_attached: Option<String>,
    /// Cause and remedy if it is in generic mode though the configuration permits native mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_native: Option<String>,
    /// Cause and remedy if received frames are lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames_lost: Option<String>,
    /// Cause and remedy if checksums of received frames are, or may be, unfinished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfinished_checksums: Option<String>,
    /// Whether frames can go through.
    pub link: LinkState,
    /// Whether the interface is set up, with or without carrier.
    #[serde(default)]
    pub admin_up: bool,
    /// 9.3.1: packets of any stream received.
    pub input_packets: u64,
    /// 9.3.2: packets of any stream that left.
    pub output_packets: u64,
    /// 10.9.1: packets that recovery accepted.
    pub passed: u64,
    /// 10.9.2: packets that recovery discarded, rogue ones counted once.
    pub discard: u64,
    /// Frames without a stream, passed to the network stack.
    pub unmatched: u64,
    /// Frames that the data plane lost at the port, by cause.
    #[serde(default)]
    pub lost: PortLosses,
}

/// A compound stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamStatus {
    /// Its name.
    pub name: String,
    /// Its member streams.
    pub members: Vec<MemberStatus>,
    /// Its sequence generation, if any.
    pub generation: Option<GenerationStatus>,
    /// Its sequence recovery, if any.
    pub recovery: Option<RecoveryStatus>,
    /// Its egress ports.
    pub egress: Vec<EgressStatus>,
    /// 10.8.11: packets whose sequence tag could not be decoded.
    pub seq_enc_errored: u64,
}

/// A member stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// Name of the port.
    pub port: String,
    /// `type` of its identification in the configuration.
    pub identification: String,
    /// 9.2.1: packets of the stream received by the port.
    pub input_packets: u64,
    /// 10.8.11: packets whose sequence tag could not be decoded.
    #[serde(default)]
    pub seq_enc_errored: u64,
    /// It delivers no packets, while other members do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
    /// Its path is being removed: key `draining`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draining: bool,
    /// Its individual recovery, if any.
    pub individual: Option<RecoveryStatus>,
}

/// Sequence generation (7.4.1).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationStatus {
    /// GenSeqNum: the number of the next packet.
    pub gen_seq_num: u16,
    /// 10.8.2: resets, BEGIN among them.
    pub seq_gen_resets: u64,
}

/// A recovery function (7.4.2).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryStatus {
    /// RecovSeqNum.
    pub recov_seq_num: u16,
    /// TakeAny: the next packet is accepted with any sequence number.
    pub take_any: bool,
    /// Its counters, in one object with the other keys.
    #[serde(flatten, with = "counters")]
    pub counters: Counters,
    /// Latent error signals (7.4.4.1.3) so far.
    pub latent_errors: u64,
}

impl RecoveryStatus {
    /// The counters of a table row, by name; `lost` counts only packets that were sent.
    pub fn columns(&self) -> [(&'static str, u64); 7] {
        let counters = &self.counters;
        [
            ("passed", counters.passed),
            ("discarded", counters.discarded),
            ("rogue", counters.rogue),
            ("lost", self.really_lost()),
            ("out_of_order", counters.out_of_order),
            ("tagless", counters.tagless),
            ("resets", counters.resets),
        ]
    }

    /// Packets that were sent and not received on any path.
    pub fn really_lost(&self) -> u64 {
        self.counters.lost.saturating_sub(self.counters.lost_before_first)
    }
}

/// Serializes counters with their names as keys.
pub(super) mod counters {
    use std::collections::BTreeMap;

    use onbeat_frer::counters::Counters;
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;
    use serde_json::Value;

    pub(crate) fn serialize<S: Serializer>(
        set: &Counters,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer
            .collect_map(Counters::FIELDS.iter().map(|field| (field.name, (field.value)(set))))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Counters, D::Error> {
        let values = BTreeMap::<String, Value>::deserialize(from)?;
        let mut set = Counters::default();
        for field in Counters::FIELDS {
            let value = values.get(field.name).and_then(Value::as_u64);
            *(field.value_mut)(&mut set) = value.ok_or_else(|| Error::missing_field(field.name))?;
        }
        Ok(set)
    }
}

/// An egress port of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EgressStatus {
    /// Name of the port.
    pub port: String,
    /// 9.2.2: packets of the stream handed to the port.
    pub output_packets: u64,
    /// The port loses frames to send, of this stream or another.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub loses: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_keys_of_their_function_in_the_order_of_the_standard() {
        let counters = Counters { out_of_order: 1, lost: 5, resets: 8, ..Counters::default() };
        let status = RecoveryStatus { recov_seq_num: 9, counters, ..RecoveryStatus::default() };
        let json = serde_json::to_string(&status).unwrap();
        assert_eq!(
            json,
            "{\"recov_seq_num\":9,\"take_any\":false,\"out_of_order\":1,\"rogue\":0,\"passed\":0,\
             \"discarded\":0,\"lost\":5,\"lost_before_first\":0,\"tagless\":0,\"resets\":8,\
             \"latent_error_resets\":0,\"contended\":0,\"latent_errors\":0}"
        );
        assert_eq!(serde_json::from_str::<RecoveryStatus>(&json).unwrap(), status);
        let error =
            serde_json::from_str::<RecoveryStatus>(&json.replace("rogue", "x")).unwrap_err();
        assert!(error.to_string().starts_with("missing field `rogue`"), "{error}");
    }

    #[test]
    fn the_error_of_an_unknown_stream_lists_some_streams() {
        let stream = |n| StreamStatus { name: format!("s{n}"), ..StreamStatus::default() };
        let node = |n| NodeStatus {
            node: "a".into(),
            streams: (0..n).map(stream).collect(),
            ..NodeStatus::default()
        };
        let message = |n| node(n).stream("x").unwrap_err().to_string();
        assert!(message(0).contains("it has no streams"));
        assert!(message(2).ends_with("streams: s0, s1"), "{}", message(2));
        assert!(message(4096).contains("s15, ... (all of them: onbeat show)"));
        assert_eq!(node(3).stream("s2").unwrap().name, "s2");
    }
}
