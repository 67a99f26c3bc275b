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
        /// Its present name: it was renamed, and its program still processes its frames.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        renamed: Option<String>,
    },
    /// Frames can go through it again.
    PortBack {
        /// The interface.
        interface: String,
        /// Why the port cannot use it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
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
    /// A port's interface became a port of a bridge or bond, or left it.
    PortMaster {
        /// The interface.
        interface: String,
        /// The bridge or bond; none: it left.
        master: Option<String>,
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
    /// The number of a stream's next packet was set on request.
    NumberSet {
        /// The number.
        next: u16,
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
    /// A node that sent frames of the other LAN sends those of this one.
    WrongLanEnded {
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
    OtherProtocol {
        /// Their last source; none: of wildcards, and with the back end xdp.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mac: Option<String>,
    },
    /// A LAN brings supervision frames of another version, or incomplete frames.
    InvalidFrames,
    /// A LAN brings more supervision frames than are read.
    SupervisionFlood,
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
    /// The table of stations behind the host port is full.
    ProxyTableFull,
    /// Event of a stream's monitor.
    #[serde(untagged)]
    Watch(EventKind),
}

impl EventDetail {
    /// Name and MESSAGE_ID of each event, in alphabetical order. The catalog (packaging/catalog) has the same ids.
    pub const MESSAGES: [(&str, &str); 44] = [
        ("all_rogue", "75e0a6bcb6e24c039ccf7fd8c657fd5e"),
        ("all_rogue_ended", "2915d11b173744e79676b4a4c08e486a"),
        ("frames_dropped", "e5136cbbbff54b97996482462c58e37a"),
        ("frames_lost", "6d69b87a847545c2b37a7ca87b3b02a8"),
        ("further_nodes", "6e8acbd818ab4f059b26cc4f341d1974"),
        ("host_port_blocked", "10061bc6df9642018fb0fcf064924a85"),
        ("host_port_forwards", "cc931e25cf454c2095afd9140ec94b9a"),
        ("invalid_frames", "417bce63e1a246b9a8ed2b6a7c55ef38"),
        ("latent_error", "ced2c6e2ca9c4190914adf2014b29714"),
        ("latent_error_ended", "cc2bcf34cc674002baf3f6901dcabb04"),
        ("node_appeared", "6c73a89a3dc14353ba93d5f035fca6fc"),
        ("node_gone", "565348657f4d48c7a6a5b3fa91446cf0"),
        ("node_lan_loses", "7ef0a59e8af147bbbe2bc001568bbda4"),
        ("node_lan_lost", "c85290eba5cb45ca811b3414dbe80583"),
        ("node_lan_restored", "6641febfe33b491594dfe49a319b5220"),
        ("nodes_table_full", "6c973edde9f444e3b1eb6ba9cdf66d51"),
        ("number_set", "b1f0c9a25d7e4c03a6f4e8d1920b57ce"),
        ("other_protocol", "64df3fac69784dbbbba59212e62b9052"),
        ("own_frames_return", "629472f1924b4b0dbc48ad4f06eed62e"),
        ("path_back", "0f7cf5a7f4e640808754827f5a195df7"),
        ("path_loss", "3e363bedc4714b4bbc04b1577a9fc17a"),
        ("port_away", "548120ff73ff45b49d3dfca212f91846"),
        ("port_back", "9e6b8700927e43a6a1c6ec25f370fac9"),
        ("port_master", "8449017c5f2c494cb4affd033ef41bf0"),
        ("port_mode", "a08a0003eb50417e89a18a999048b41b"),
        ("port_mtu", "d7b51a70c9a44cc6884bf7e63bba6eb7"),
        ("port_waiting", "cc99f01db0fe42fd9febc3df4ae7092a"),
        ("program_attached", "fb04f1dc64d24767a941b074f2acac9a"),
        ("program_detached", "27a87f08d1004fb28ca0e0eb2ccd5bd1"),
        ("proxy_table_full", "f2eecd00b9a34e2cafa0f4aee6467d0a"),
        ("recovery_adapted", "3ac79eb72ff7484299b399290358a382"),
        ("redbox_standby", "ebf22fc439e94cd585de14e4a473fe18"),
        ("reset", "26dd8b035fdd4da5b3f8510c0306eba5"),
        ("rogue_flood", "d3e9f4b248b449c7bff5c3a61cf03d2f"),
        ("rogue_flood_ended", "a82426a7712e44fe900d4cb26a49e297"),
        ("started", "5ea96f64dd2149fe89a60095500951f4"),
        ("streams", "33f5118c4ed9416dad5896960b831184"),
        ("stuck_transmitter", "cfaab2e976664867bd72b9dea1406896"),
        ("stuck_transmitter_ended", "8a433fcc93d8445e82b0985532f7c1c3"),
        ("supervision_flood", "48657e0c380c468ba77d4d5f30eb9a58"),
        ("trailers_removed", "d3dcf165344044b69d71db15c6921e0a"),
        ("unfinished_checksums", "ba3a318b92274162b1abdfe2ba36aacf"),
        ("wrong_lan", "9d33373bb09c4f73921fe9f2b3bdf029"),
        ("wrong_lan_ended", "19a8e986d8d04bcca7b4160fc836217b"),
    ];

    /// Its MESSAGE_ID in the journal of systemd.
    pub fn message_id(&self) -> Option<&'static str> {
        let name = self.name();
        Self::MESSAGES.iter().find(|(known, _)| *known == name).map(|(_, id)| *id)
    }

    /// Its name.
    pub fn name(&self) -> String {
        // The tag of its JSON form, which always exists.
        let name = serde_json::to_value(self).ok();
        let name = name.as_ref().and_then(|value| value.get("event")?.as_str());
        name.unwrap_or_default().to_owned()
    }

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
            PrpEvent::WrongLanEnded(mac, _) => Self::WrongLanEnded { mac: mac.to_string() },
            PrpEvent::OwnFramesReturn(_, lans_connected) => {
                Self::OwnFramesReturn { lans_connected: Some(lans_connected) }
            }
            PrpEvent::FurtherNodes(events) => Self::FurtherNodes { events },
            PrpEvent::LanLoses(mac, _, lost, of) => {
                Self::NodeLanLoses { mac: mac.to_string(), lost, of }
            }
            PrpEvent::TrailersRemoved(mac, _) => Self::TrailersRemoved { mac: mac.to_string() },
            PrpEvent::OtherProtocol(_, mac) => {
                Self::OtherProtocol { mac: mac.map(|mac| mac.to_string()) }
            }
            PrpEvent::InvalidFrames(_) => Self::InvalidFrames,
            PrpEvent::SupervisionFlood(_) => Self::SupervisionFlood,
            PrpEvent::HostPortBlocked(BlockCause::ByLan) => Self::HostPortBlocked,
            PrpEvent::HostPortBlocked(BlockCause::ByRedBox(mac)) => {
                Self::RedboxStandby { mac: mac.to_string() }
            }
            PrpEvent::HostPortForwards => Self::HostPortForwards,
            PrpEvent::TableFull => Self::NodesTableFull,
            PrpEvent::ProxiesFull => Self::ProxyTableFull,
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
            | Self::OtherProtocol { .. }
            | Self::InvalidFrames
            | Self::SupervisionFlood
            | Self::HostPortBlocked
            | Self::NodesTableFull
            | Self::ProxyTableFull
            | Self::FurtherNodes { .. }
            | Self::PortAway { .. }
            | Self::PortWaiting { .. }
            | Self::FramesDropped { .. }
            | Self::ProgramDetached { .. } => true,
            Self::PortMode { why, .. }
            | Self::PortMtu { why, .. }
            | Self::PortMaster { master: why, .. }
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
            | Self::NumberSet { .. }
            | Self::NodeAppeared { .. }
            | Self::NodeGone { .. }
            | Self::NodeLanRestored { .. }
            | Self::WrongLanEnded { .. }
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
            Self::PortAway { interface, renamed: Some(name), .. } => write!(
                f,
                "interface {interface} is named {name} now; run: ip link set {name} name {interface}, or name it in the \
                 file and restart the node"
            ),
            Self::PortAway { link, interface, renamed: None } => {
                let what = if *link == LinkState::Missing { "missing" } else { "down" };
                write!(f, "interface {interface} is {what}")
            }
            Self::PortBack { interface, why: None } => {
                write!(f, "interface {interface} is up again")
            }
            Self::PortBack { interface, why: Some(why) } => {
                write!(f, "interface {interface} is up again, but its port does not use it: {why}")
            }
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
                write!(f, "MTU of {interface} is {mtu}")?;
                if before != mtu {
                    write!(f, " instead of {before}")?;
                }
                why.iter().try_for_each(|why| write!(f, ": {why}"))
            }
            Self::PortMaster { interface, master: Some(master) } => write!(
                f,
                "{interface} became a port of {master}, which forwards its frames besides; run: ip link set {interface} nomaster"
            ),
            Self::PortMaster { interface, master: None } => {
                write!(f, "{interface} is no longer a port of a bridge or bond")
            }
            Self::FramesLost { why: Some(why) } => write!(f, "frames are lost: {why}"),
            Self::FramesLost { why: None } => f.write_str("frames are no longer lost"),
            Self::FramesDropped { losses } => {
                write!(f, "frames lost: {losses}")?;
                losses.remedy().iter().try_for_each(|remedy| write!(f, ": {remedy}"))
            }
            Self::NumberSet { next } => {
                write!(f, "sequence generation: the next packet has number {next}, on request")
            }
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
                write!(f, "node {mac} sends frames of the other LAN on this one: its cables, or those of this host, are crossed")
            }
            Self::WrongLanEnded { mac } => {
                write!(f, "node {mac} sends frames of this LAN: its cables are no longer crossed")
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
                "{events} further events of nodes are not recorded one by one: a LAN may be flooded by forged sources"
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
            Self::OtherProtocol { mac: Some(mac) } => write!(
                f,
                "frames of another protocol from {mac}: it sends R-TAGs or HSR tags to a PRP node; they are delivered with their tags; use the same --format",
            ),
            Self::OtherProtocol { mac: None } => f.write_str(
                "frames of another protocol: a peer sends R-TAGs or HSR tags to a PRP node, or PRP to one with R-TAGs; use the same --format",
            ),
            Self::InvalidFrames => f.write_str(
                "supervision frames of another version, or incomplete frames: a device of this LAN sends an obsolete format, or is faulty; onbeat show --nodes counts them",
            ),
            Self::SupervisionFlood => f.write_str(
                "more supervision frames than are read: a device of this LAN floods it; nodes may be reported late",
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
            Self::ProxyTableFull => f.write_str(
                "the table of stations is full: further stations are served, but not supervised; increase max-nodes in [prp] or [wildcard]",
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

    /// Metrics list each event before the first one occurs.
    #[test]
    fn the_list_of_names_is_that_of_the_documents() {
        let page = onbeat_testing::root().join("docs/reference/events.md");
        let page = std::fs::read_to_string(page).unwrap();
        let table = page.split("| `event` |").nth(1).unwrap().split("\n\n").next().unwrap();
        let row = |line: &str| Some(line.strip_prefix("| `")?.split('`').next()?.to_owned());
        let mut documented: Vec<String> = table.lines().filter_map(row).collect();
        documented.sort();
        assert_eq!(documented, EventDetail::MESSAGES.map(|(name, _)| name));
        let (link, interface) = (LinkState::Down, String::new());
        assert_eq!(EventDetail::PortAway { link, interface, renamed: None }.name(), "port_away");
        let loss = EventDetail::Watch(EventKind::PathLoss { packets: 1 });
        assert_eq!(loss.name(), "path_loss");
    }

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
    fn lost_frames_are_reported_with_a_remedy() {
        let text = |too_long, queue_full| {
            let losses = PortLosses { too_long, queue_full, ..PortLosses::default() };
            EventDetail::FramesDropped { losses }.to_string()
        };
        assert_eq!(text(0, 7), "frames lost: receive queue full 7");
        let remedy = "ethtool -K IF tso off gso off";
        assert!(text(245, 0).starts_with("frames lost: longer than the MTU 245: the sender "));
        assert!(text(245, 7).contains(remedy));
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
