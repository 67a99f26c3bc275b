//! Events of a node, as `show --events` prints them.

use std::fmt;

use onbeat_frer::prp::{BlockCause, NodeKind, PrpEvent};
use onbeat_frer::reading::PortLosses;
use onbeat_frer::watch::EventKind;
use onbeat_report::format::count_of;
use serde::{Deserialize, Serialize};

use super::{LinkState, PortMode};

/// An event of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Number, from 1 at each start of the daemon, without gaps.
    pub number: u64,
    /// Time of detection: RFC 3339, UTC, in microseconds.
    pub time: String,
    /// The same on CLOCK_MONOTONIC, in nanoseconds.
    pub monotonic_ns: u64,
    /// The stream concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    /// The port concerned; for a member stream, the port that receives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// The member of the stream, counted from 0 in the order of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<usize>,
    /// Type and parameters.
    #[serde(flatten)]
    pub detail: EventDetail,
}

/// Type and parameters of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventDetail {
    /// The daemon started; earlier events are of an earlier daemon.
    Started,
    /// Latent error detection (7.4.4) signals.
    LatentError {
        /// Number of missing replicas; negative: of excess replicas.
        difference: i64,
        /// Permitted difference.
        allowed: u32,
    },
    /// No latent error signal during one reset period.
    LatentErrorEnded,
    /// No frame can go through a port's interface.
    PortAway {
        /// State of the link.
        link: LinkState,
        /// The interface.
        interface: String,
    },
    /// Frames can go through it again.
    PortBack {
        /// The interface.
        interface: String,
    },
    /// At the start, a port's interface has no carrier.
    PortWaiting {
        /// The interface.
        interface: String,
    },
    /// Another process detached or replaced a port's program, or it cannot be attached again.
    ProgramDetached {
        /// The interface.
        interface: String,
        /// Cause of the failed attachment.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
        /// Seconds until the next attempt.
        retry_s: u64,
    },
    /// The program is attached again.
    ProgramAttached {
        /// The interface.
        interface: String,
    },
    /// The other end of a port's interface leaves checksums unfinished, or no longer does.
    UnfinishedChecksums {
        /// Cause and remedy; none: resolved.
        why: Option<String>,
    },
    /// A port with mode "auto" is not in native mode, or is again.
    PortMode {
        /// Present mode.
        mode: PortMode,
        /// Cause and remedy; none: resolved.
        why: Option<String>,
    },
    /// Frames received by a port are lost.
    FramesLost {
        /// Cause and remedy; none: resolved.
        why: Option<String>,
    },
    /// The MTU of a port's interface changed.
    PortMtu {
        /// The interface.
        interface: String,
        /// Present MTU.
        mtu: u32,
        /// MTU before.
        before: u32,
        /// Streams whose frames may not fit, and the remedy; none: all fit.
        why: Option<String>,
    },
    /// The data plane lost frames at a port since the event before.
    FramesDropped {
        /// Their number by cause.
        losses: PortLosses,
    },
    /// Streams were added, changed or removed one by one.
    Streams {
        /// Number of new streams.
        added: usize,
        /// Number of changed streams.
        changed: usize,
        /// Number of removed streams.
        removed: usize,
    },
    /// Parameters of a stream's recovery follow the measured paths.
    RecoveryAdapted {
        /// History length; none with match recovery.
        history_length: Option<u16>,
        /// Reset timeout in milliseconds.
        reset_timeout_ms: u32,
    },
    /// A doubly attached node, a RedBox or a station behind one is heard for the first time.
    NodeAppeared {
        /// Its address.
        mac: String,
        /// Its type; none: a sender of R-TAGs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<NodeKind>,
    },
    /// A node was not heard for NodeForgetTime.
    NodeGone {
        /// Its address.
        mac: String,
    },
    /// A node is heard on the other LAN only.
    NodeLanLost {
        /// Its address.
        mac: String,
    },
    /// A node is heard on this LAN again.
    NodeLanRestored {
        /// Its address.
        mac: String,
    },
    /// A node sends frames of the other LAN on this one.
    WrongLan {
        /// Its address.
        mac: String,
    },
    /// Frames that this node sent return.
    OwnFramesReturn {
        /// They were sent on the other LAN; none: R-TAGs name no path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lans_connected: Option<bool>,
    },
    /// Further nodes appeared, were gone or lost a LAN, which are not reported one by one.
    FurtherNodes {
        /// Their events.
        events: u64,
    },
    /// A LAN brought fewer frames of a node than the other one.
    NodeLanLoses {
        /// Its address.
        mac: String,
        /// Frames that it did not bring.
        lost: u64,
        /// Frames that the other one brought.
        of: u64,
    },
    /// A LAN brings frames of a node with redundancy without their trailers.
    TrailersRemoved {
        /// Its address.
        mac: String,
    },
    /// A LAN or path brings frames of another protocol of redundancy.
    OtherProtocol,
    /// The host port of a RedBox is connected to a LAN, and blocked.
    HostPortBlocked,
    /// Another RedBox of the same LANs serves the stations; this one is its standby.
    RedboxStandby {
        /// Its address.
        mac: String,
    },
    /// The host port of a RedBox forwards again.
    HostPortForwards,
    /// The NodesTable is full of nodes in use.
    NodesTableFull,
    /// Event of a stream's monitor.
    #[serde(untagged)]
    Watch(EventKind),
}

impl EventDetail {
    /// The event of a PRP node; its LAN is the port of the event.
    pub(crate) fn of_prp(event: PrpEvent) -> Self {
        match event {
            PrpEvent::NodeAppeared(mac, kind) => {
                Self::NodeAppeared { mac: mac.to_string(), kind: Some(kind) }
            }
            PrpEvent::NodeGone(mac) => Self::NodeGone { mac: mac.to_string() },
            PrpEvent::LanLost(mac, _) => Self::NodeLanLost { mac: mac.to_string() },
            PrpEvent::LanRestored(mac, _) => Self::NodeLanRestored { mac: mac.to_string() },
            PrpEvent::WrongLan(mac, _) => Self::WrongLan { mac: mac.to_string() },
            PrpEvent::OwnFramesReturn(_, lans_connected) => {
                Self::OwnFramesReturn { lans_connected: Some(lans_connected) }
            }
            PrpEvent::FurtherNodes(events) => Self::FurtherNodes { events },
            PrpEvent::LanLoses(mac, _, lost, of) => {
                Self::NodeLanLoses { mac: mac.to_string(), lost, of }
            }
            PrpEvent::TrailersRemoved(mac, _) => Self::TrailersRemoved { mac: mac.to_string() },
            PrpEvent::OtherProtocol(_) => Self::OtherProtocol,
            PrpEvent::HostPortBlocked(BlockCause::ByLan) => Self::HostPortBlocked,
            PrpEvent::HostPortBlocked(BlockCause::ByRedBox(mac)) => {
                Self::RedboxStandby { mac: mac.to_string() }
            }
            PrpEvent::HostPortForwards => Self::HostPortForwards,
            PrpEvent::TableFull => Self::NodesTableFull,
        }
    }

    /// The event of a wildcard; its path is the port of the event.
    pub(crate) fn of_wildcard(event: PrpEvent) -> Self {
        match event {
            PrpEvent::NodeAppeared(mac, _) => {
                Self::NodeAppeared { mac: mac.to_string(), kind: None }
            }
            PrpEvent::OwnFramesReturn(..) => Self::OwnFramesReturn { lans_connected: None },
            event => Self::of_prp(event),
        }
    }

    /// Whether it requires attention and is logged as a warning.
    pub fn is_bad(&self) -> bool {
        match self {
            Self::LatentError { .. }
            | Self::Watch(
                EventKind::PathLoss { .. }
                | EventKind::RogueFlood { .. }
                | EventKind::AllRogue { .. }
                | EventKind::StuckTransmitter { .. },
            )
            | Self::NodeLanLost { .. }
            | Self::WrongLan { .. }
            | Self::OwnFramesReturn { .. }
            | Self::NodeLanLoses { .. }
            | Self::TrailersRemoved { .. }
            | Self::OtherProtocol
            | Self::HostPortBlocked
            | Self::NodesTableFull
            | Self::FurtherNodes { .. }
            | Self::PortAway { .. }
            | Self::PortWaiting { .. }
            | Self::FramesDropped { .. }
            | Self::ProgramDetached { .. } => true,
            Self::PortMode { why, .. }
            | Self::PortMtu { why, .. }
            | Self::FramesLost { why }
            | Self::UnfinishedChecksums { why } => why.is_some(),
            Self::Started
            | Self::Watch(_)
            | Self::LatentErrorEnded
            | Self::RedboxStandby { .. }
            | Self::HostPortForwards
            | Self::PortBack { .. }
            | Self::ProgramAttached { .. }
            | Self::RecoveryAdapted { .. }
            | Self::NodeAppeared { .. }
            | Self::NodeGone { .. }
            | Self::NodeLanRestored { .. }
            | Self::Streams { .. } => false,
        }
    }
}

impl fmt::Display for Event {
    /// Prints object and event, without number and time.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(stream) = &self.stream {
            write!(f, "stream {stream:?}: ")?;
            if let EventDetail::Streams { added, changed, .. } = self.detail {
                return f.write_str(match (added, changed) {
                    (0, 0) => "removed",
                    (0, _) => "changed",
                    _ => "added",
                });
            }
        }
        match (&self.port, self.member) {
            (Some(port), Some(member)) => write!(f, "member {member} (port {port:?}): ")?,
            (Some(port), None) => write!(f, "port {port:?}: ")?,
            (None, _) => {}
        }
        self.detail.fmt(f)
    }
}

impl fmt::Display for EventDetail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => f.write_str("the daemon has started"),
            Self::Watch(kind) => kind.fmt(f),
            Self::LatentError { difference, allowed } => {
                write!(f, "latent error: {difference} replicas missing, {allowed} allowed")
            }
            Self::LatentErrorEnded => f.write_str("latent error: ended"),
            Self::PortAway { link, interface } => {
                let what = if *link == LinkState::Missing { "gone" } else { "down" };
                write!(f, "interface {interface} is {what}")
            }
            Self::PortBack { interface } => write!(f, "interface {interface} is up again"),
            Self::PortWaiting { interface } => write!(f, "waiting for carrier on {interface}"),
            Self::ProgramDetached { interface, why, retry_s } => {
                match why {
                    Some(why) => write!(f, "XDP program cannot be attached to {interface}: {why}")?,
                    None => {
                        write!(f, "XDP program was detached from {interface} by another process")?
                    }
                }
                match retry_s {
                    0 => f.write_str("; attaching it again"),
                    _ => write!(f, "; next attempt to attach it in {retry_s} s"),
                }
            }
            Self::ProgramAttached { interface } => {
                write!(f, "XDP program is attached to {interface} again")
            }
            Self::UnfinishedChecksums { why: Some(why) } => f.write_str(why),
            Self::UnfinishedChecksums { why: None } => f.write_str("checksums are complete"),
            Self::PortMode { mode, why } => {
                write!(f, "XDP in {mode} mode")?;
                why.iter().try_for_each(|why| write!(f, ": {why}"))
            }
            Self::PortMtu { interface, mtu, before, why } => {
                write!(f, "MTU of {interface} is {mtu} instead of {before}")?;
                why.iter().try_for_each(|why| write!(f, ": {why}"))
            }
            Self::FramesLost { why: Some(why) } => write!(f, "frames are lost: {why}"),
            Self::FramesLost { why: None } => f.write_str("frames are no longer lost"),
            Self::FramesDropped { losses } => write!(f, "frames lost: {losses}"),
            Self::RecoveryAdapted { history_length, reset_timeout_ms } => {
                f.write_str("recovery follows the measured paths: ")?;
                history_length.iter().try_for_each(|length| write!(f, "history {length}, "))?;
                write!(f, "reset timeout {reset_timeout_ms} ms")
            }
            Self::NodeAppeared { mac, kind: Some(kind) } => {
                write!(f, "node {mac} ({}) appeared", kind.name())
            }
            Self::NodeAppeared { mac, kind: None } => write!(f, "node {mac} appeared"),
            Self::NodeGone { mac } => write!(f, "node {mac} is no longer heard"),
            Self::NodeLanLost { mac } => {
                write!(f, "node {mac} is heard on the other LAN only: a path to it is broken")
            }
            Self::NodeLanRestored { mac } => write!(f, "node {mac} is heard on this LAN again"),
            Self::WrongLan { mac } => {
                write!(f, "node {mac} sends frames of the other LAN on this one: its cables are crossed")
            }
            Self::OwnFramesReturn { lans_connected: Some(true) } => f.write_str(
                "frames of this node return: both LANs are connected; separate the LANs",
            ),
            Self::OwnFramesReturn { lans_connected: None } => f.write_str(
                "frames of this node return: the paths are connected, the path has a loop, or another node has its address",
            ),
            Self::OwnFramesReturn { lans_connected: Some(false) } => {
                f.write_str("frames of this node return: the LAN has a loop, or another node has its address")
            }
            Self::FurtherNodes { events } => write!(
                f,
                "{events} further events of nodes in 10 minutes: a LAN may be flooded by forged sources"
            ),
            Self::NodeLanLoses { mac, lost, of } => write!(
                f,
                "{} of node {mac} came on the other LAN only: check the MTU of this LAN's switches, and its cables",
                count_of(*lost, *of, "frame")
            ),
            Self::TrailersRemoved { mac } => write!(
                f,
                "frames of node {mac} come without their trailers: a switch removes them, as br_netfilter does; turn it off"
            ),
            Self::OtherProtocol => f.write_str(
                "frames of another protocol: a peer sends R-TAGs or HSR tags to a PRP node, or PRP to one with R-TAGs; use the same --format",
            ),
            Self::HostPortBlocked => f.write_str(
                "the interface of --for is connected to a LAN: its frames are not forwarded; separate them",
            ),
            Self::RedboxStandby { mac } => {
                write!(f, "RedBox {mac} serves the stations: this one is its standby")
            }
            Self::HostPortForwards => f.write_str("this RedBox serves the stations again"),
            Self::NodesTableFull => f.write_str(
                "the NodesTable is full: frames of further nodes may be delivered twice; increase max-nodes in [prp] or [wildcard]",
            ),
            Self::Streams { added, changed, removed } => {
                write!(f, "streams: {added} added, {changed} changed, {removed} removed")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use onbeat_frer::watch::{Cause, Function};

    use super::*;

    #[test]
    fn a_change_of_one_stream_names_the_stream_once() {
        let text = |stream: Option<&str>, added, changed, removed| {
            let what = EventDetail::Streams { added, changed, removed };
            let stream = stream.map(str::to_owned);
            let (time, port, member) = (String::new(), None, None);
            Event { number: 1, time, monotonic_ns: 1, stream, port, member, detail: what }
                .to_string()
        };
        assert_eq!(text(Some("ax"), 1, 0, 0), "stream \"ax\": added");
        assert_eq!(text(Some("ax"), 0, 1, 0), "stream \"ax\": changed");
        assert_eq!(text(Some("ax"), 0, 0, 1), "stream \"ax\": removed");
        assert_eq!(text(None, 2, 0, 1), "streams: 2 added, 0 changed, 1 removed");
    }

    #[test]
    fn stream_events_are_serialized_with_their_keys() {
        let (function, cause) = (Function::Sequence, Cause::TimeOut);
        for (what, keys) in [
            (
                EventDetail::Watch(EventKind::Reset { function, cause, count: 2 }),
                "\"event\":\"reset\",\"function\":\"sequence\",\"cause\":\"time_out\",\"count\":2",
            ),
            (
                EventDetail::Watch(EventKind::RogueFloodEnded { function, packets: 5 }),
                "\"event\":\"rogue_flood_ended\",\"function\":\"sequence\",\"packets\":5",
            ),
            (
                EventDetail::Watch(EventKind::AllRogue {
                    function,
                    packets: 5,
                    reset_timeout_ms: 9,
                }),
                "\"event\":\"all_rogue\",\"function\":\"sequence\",\"packets\":5,\"reset_timeout_ms\":9",
            ),
            (
                EventDetail::RecoveryAdapted { history_length: Some(64), reset_timeout_ms: 100 },
                "\"event\":\"recovery_adapted\",\"history_length\":64,\"reset_timeout_ms\":100",
            ),
            (EventDetail::LatentErrorEnded, "\"event\":\"latent_error_ended\""),
        ] {
            let (time, stream) = ("t".to_owned(), Some("ax".to_owned()));
            let event = Event {
                number: 1,
                time,
                monotonic_ns: 1,
                stream,
                port: None,
                member: None,
                detail: what,
            };
            let json = serde_json::to_string(&event).unwrap();
            let before = "{\"number\":1,\"time\":\"t\",\"monotonic_ns\":1,\"stream\":\"ax\"";
            assert_eq!(json, format!("{before},{keys}}}"));
            assert_eq!(serde_json::from_str::<Event>(&json).unwrap(), event);
        }
    }
}
