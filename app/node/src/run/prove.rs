//! Probes of the paths of streams: frames without R-TAG, which relays forward, and which recovery at the end of a path
//! counts and discards (7.4.3.4, 10.8.7). The history of a stream does not change, and hosts receive none.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use onbeat_frer::spec::{
    Egress, Identification, Rewrite, SequenceTag, Stream, TagMatch, VlanAction, VlanMatch,
};
use onbeat_netdev::{Link, PacketSocket};
use onbeat_report::format::count_of;
use onbeat_wire::MacAddress;

use super::assembly::Node;
use super::change::longest_text;
use super::error::{Error, Result};
use crate::config::{Addition, PortConfig, StreamOperation};
use crate::control::{LONGEST_PROBES, SHORTEST_PROBES};

/// Pauses of a request, in which a full queue gets room.
const PAUSES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// Longest time of a request whose probes wait for the link.
const LONGEST: Duration = Duration::from_secs(5);

/// Paths with dropped probes that an error names.
const NAMED: usize = 4;

/// Maximum number of streams in a request: their probes are sent within some 100 ms.
const MOST_STREAMS: usize = 1024;

/// Length of the shortest frame without FCS.
const SHORTEST: usize = 60;

const ADDRESSES_AND_TYPE: usize = 14;
const VLAN_TAG: usize = 4;
const R_TAG: u32 = 6;

/// EtherType of probes: for experiments (IEEE 802, 9.2.4).
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

/// Sends probes of these streams, or all of a text, which describes them. Returns a report.
///
/// # Errors
/// A stream does not exist or has no paths; a frame cannot be sent, or is dropped. Probes of all paths are sent before
/// dropped ones are reported.
pub(super) fn prove(node: &Node, names: &[String], text: Option<(&str, &str)>) -> Result<String> {
    let described = match text {
        Some((text, file)) => {
            let longest = longest_text(node.setup.node.max_streams);
            if text.len() as u64 > longest {
                return Err(Error::LongText { octets: text.len(), longest });
            }
            let room = (0, node.setup.node.max_streams);
            let ports = &node.setup.ports;
            Addition::parse(text, file, StreamOperation::Change, ports, room)?.streams
        }
        None => Vec::new(),
    };
    let find = |name: &String| {
        let found = match text {
            Some(_) => described.iter().find(|stream| stream.name == *name),
            None => node.setup.streams.get(name),
        };
        found.ok_or_else(|| Error::NoStream { stream: name.clone() })
    };
    let streams: Vec<&Stream> = match names {
        [] => described.iter().collect(),
        _ => names.iter().map(find).collect::<Result<_>>()?,
    };
    if streams.len() > MOST_STREAMS {
        return Err(Error::ManyProved { streams: streams.len(), most: MOST_STREAMS });
    }
    // Nothing is sent for streams of which one cannot be proved.
    let mut links = Links::new(node);
    let mut probes = Vec::new();
    for stream in streams {
        probes.extend(Probe::of(&mut links, stream)?);
    }
    let mut sockets =
        Sockets { node, ports: BTreeMap::new(), pauses: PAUSES, end: Instant::now() + LONGEST };
    let mut sent = Vec::with_capacity(probes.len());
    for probe in &probes {
        for (frame, count) in [(&probe.shortest, SHORTEST_PROBES), (&probe.longest, LONGEST_PROBES)]
        {
            sent.push((probe, frame, count, sockets.send(probe, frame, count)?));
        }
    }
    let dropping = sockets.dropping()?;
    let mut drops = Vec::new();
    for (probe, frame, count, left) in &mut sent {
        if dropping.contains(probe.port.name.as_str()) && frame.len() > SHORTEST {
            // Which frames were dropped is known of one path at a time. The shortest alone must never prove a path.
            *left = sockets.send_and_count(probe, frame, *count)?;
        }
        if *left < *count {
            drops.push(Drop {
                stream: probe.stream.name.clone(),
                port: probe.port.name.clone(),
                interface: probe.port.attached_interface(),
                octets: frame.len(),
                sent: *count,
                dropped: *count - *left,
                mtu: probe.mtu,
            });
        }
    }
    let lines = sent.chunks_exact(2).map(|lengths| {
        let (stream, port) = (&lengths[0].0.stream.name, &lengths[0].0.port.name);
        let sent = |(_, frame, _, left): &(_, &Vec<u8>, _, usize)| {
            format!("{left} of {} octets", frame.len())
        };
        let [shortest, longest] = [sent(&lengths[0]), sent(&lengths[1])];
        format!("stream {stream:?}: port {port:?}: sent {shortest}, {longest}")
    });
    match drops.is_empty() {
        true => Ok(lines.collect::<Vec<_>>().join("\n")),
        false => Err(Error::DroppedProbes(DroppedProbes(drops))),
    }
}

/// Probes that did not leave.
#[derive(Debug)]
pub struct DroppedProbes(Vec<Drop>);

/// Probes of one length that a port dropped.
#[derive(Debug)]
struct Drop {
    stream: String,
    port: String,
    interface: String,
    octets: usize,
    sent: usize,
    dropped: usize,
    mtu: usize,
}

impl fmt::Display for DroppedProbes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, drop) in self.0.iter().take(NAMED).enumerate() {
            let Drop { stream, port, interface, octets, sent, dropped, mtu } = drop;
            let separator = if number > 0 { "; " } else { "" };
            let probes = count_of(*dropped as u64, *sent as u64, "probe");
            write!(
                f,
                "{separator}stream {stream:?}: port {port:?} ({interface}) dropped {probes} of {octets} octets: set the MTU at \
                 the other end of its link to at least {mtu}"
            )?;
        }
        if let Some(further @ 1..) = self.0.len().checked_sub(NAMED) {
            write!(f, "; so did {further} further paths")?;
        }
        write!(f, "; if the MTU is right, the queue was full: prove again")
    }
}

/// Links of ports, each read once: a request has a thousand paths.
struct Links<'a> {
    node: &'a Node,
    known: BTreeMap<&'a str, Link>,
}

impl<'a> Links<'a> {
    fn new(node: &'a Node) -> Self {
        Self { node, known: BTreeMap::new() }
    }

    /// The link of a port; an error if its interface does not exist.
    fn of(&mut self, port: &'a PortConfig) -> Result<&Link> {
        let handle = &self.node.devices.handle;
        Ok(match self.known.entry(&port.name) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(handle.link(&port.attached_interface())?),
        })
    }
}

/// Sockets at the ports of a request.
struct Sockets<'a> {
    node: &'a Node,
    ports: BTreeMap<&'a str, PortSocket>,
    /// Pauses that are left.
    pauses: u32,
    /// When a socket without room is an error.
    end: Instant,
}

/// A socket at a port.
struct PortSocket {
    interface: String,
    socket: PacketSocket,
    /// Frames that its interface had dropped before the first probe.
    dropped_before: u64,
    /// Probes that it has refused since.
    refused: u64,
}

impl<'a> Sockets<'a> {
    /// Sends probes of a path, and returns how many its interface accepted.
    fn send(&mut self, probe: &Probe<'a>, frame: &[u8], count: usize) -> Result<usize> {
        let interface = probe.port.attached_interface();
        let failed = |octets: usize, source| Error::Probe {
            stream: probe.stream.name.clone(),
            octets,
            port: probe.port.name.clone(),
            interface: interface.clone(),
            source,
        };
        let handle = &self.node.devices.handle;
        let port = match self.ports.entry(&probe.port.name) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let socket = PacketSocket::open(handle.index(&interface)?);
                let socket = socket.and_then(|socket| socket.bind(0).map(|()| socket));
                new.insert(PortSocket {
                    interface: interface.clone(),
                    socket: socket.map_err(|source| failed(SHORTEST, source))?,
                    dropped_before: handle.statistics(&interface)?.tx_dropped,
                    refused: 0,
                })
            }
        };
        let mut accepted = 0;
        for _ in 0..count {
            loop {
                match port.socket.send(frame) {
                    Ok(()) => accepted += 1,
                    // The interface dropped it: its queue is full, or a veth's peer has a smaller MTU.
                    Err(error) if error.raw_os_error() == Some(Errno::ENOBUFS as i32) => {
                        port.refused += 1;
                        if self.pauses > 0 {
                            self.pauses -= 1;
                            sleep(PAUSE);
                            continue;
                        }
                    }
                    // The frames in its transmit queue fill the socket's buffer: the link is slower than this loop.
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        let rest = self.end.saturating_duration_since(Instant::now());
                        if !has_room(&port.socket, rest) {
                            return Err(failed(frame.len(), error));
                        }
                        continue;
                    }
                    Err(source) => return Err(failed(frame.len(), source)),
                }
                break;
            }
        }
        Ok(accepted)
    }

    /// Ports that may have dropped frames which they had accepted: a veth of a kernel before 6.7 reports no error, and a queue that
    /// refuses counts no drop.
    fn dropping(&self) -> Result<BTreeSet<&'a str>> {
        let mut dropping = BTreeSet::new();
        for (name, port) in &self.ports {
            if port.refused > 0 || self.lost(port)? > 0 {
                dropping.insert(*name);
            }
        }
        Ok(dropping)
    }

    /// Accepted frames that a port has dropped.
    fn lost(&self, port: &PortSocket) -> Result<u64> {
        let dropped = self.node.devices.handle.statistics(&port.interface)?.tx_dropped;
        Ok(dropped.saturating_sub(port.dropped_before).saturating_sub(port.refused))
    }

    /// Sends probes of a path, and returns how many left.
    fn send_and_count(&mut self, probe: &Probe<'a>, frame: &[u8], count: usize) -> Result<usize> {
        let lost = |sockets: &Self| {
            sockets.ports.get(probe.port.name.as_str()).map_or(Ok(0), |port| sockets.lost(port))
        };
        let before = lost(self)?;
        let accepted = self.send(probe, frame, count)?;
        let lost = lost(self)?.saturating_sub(before) as usize;
        Ok(accepted - lost.min(accepted))
    }
}

/// Waits for room in the buffer of a socket; returns whether there is some.
fn has_room(socket: &PacketSocket, longest: Duration) -> bool {
    let timeout = PollTimeout::try_from(longest).unwrap_or(PollTimeout::ZERO);
    poll(&mut [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)], timeout)
        .is_ok_and(|ready| ready > 0)
}

/// The probes of one path.
struct Probe<'a> {
    stream: &'a Stream,
    port: &'a PortConfig,
    mtu: usize,
    shortest: Vec<u8>,
    longest: Vec<u8>,
}

impl<'a> Probe<'a> {
    /// The probes of a stream: one path for each egress port toward other nodes.
    fn of(links: &mut Links<'a>, stream: &'a Stream) -> Result<Vec<Self>> {
        let refused = |why: String| Error::NotProvable { stream: stream.name.clone(), why };
        let (destination, vlan) = match stream.members.first().map(|member| &member.identification)
        {
            Some(Identification::Null { destination, vlan }) => (*destination, vlan_id(*vlan)),
            Some(Identification::ActiveDestination { destination, vlan, up }) => {
                edited(*destination, vlan_id(*vlan), up)
            }
            other => {
                let kind = other.map_or("none", |other| other.kind().name());
                return Err(refused(format!(
                    "probes do not have the values of identification type {kind:?}; use \"null\" or \"active\""
                )));
            }
        };
        let paths = stream.egress.iter().filter(|egress| egress.tag != SequenceTag::Remove);
        let probes: Vec<Self> = paths
            .map(|egress| Self::of_path(links, stream, egress, (destination, vlan)))
            .collect::<Result<_>>()?;
        if probes.is_empty() {
            let why = "all its egress ports have tag = \"none\", so that it ends here; prove it at its talker";
            return Err(refused(why.into()));
        }
        Ok(probes)
    }

    fn of_path(
        links: &mut Links<'a>,
        stream: &'a Stream,
        egress: &Egress,
        (destination, vlan): (MacAddress, Option<u16>),
    ) -> Result<Self> {
        let node = links.node;
        let port = node.setup.port(egress.port);
        let (mtu, mac) = links.of(port).map(|link| (link.mtu, link.mac.unwrap_or_default()))?;
        let (destination, vlan) = edited(destination, vlan, &egress.rewrite);
        // The longest frame of the stream at this port: that of its ingress ports, with an R-TAG.
        let ingress = stream.members.iter().map(|member| node.setup.port(member.port));
        let ingress = ingress.filter_map(|port| Some(links.of(port).ok()?.mtu)).max();
        let added = if stream.generate { R_TAG } else { 0 };
        let mtu = ingress.map_or(mtu, |ingress| mtu.min(ingress + added)) as usize;
        let mut head = [destination.0, mac.0].concat();
        if let Some(vlan) = vlan {
            let [high, low] = vlan.to_be_bytes();
            let pcp = egress.rewrite.priority.unwrap_or(0) << 5;
            head.extend([0x81, 0x00, pcp | high, low]);
        }
        head.extend(ETHERTYPE);
        let tag = if vlan.is_some() { VLAN_TAG } else { 0 };
        let of_length = |length: usize| {
            let mut frame = head.clone();
            frame.resize(length.max(SHORTEST), 0);
            frame
        };
        let longest = of_length(ADDRESSES_AND_TYPE + tag + mtu);
        Ok(Self { stream, port, mtu, shortest: of_length(SHORTEST), longest })
    }
}

/// A VLAN id that matches; `None`: no tag does.
fn vlan_id(vlan: VlanMatch) -> Option<u16> {
    match (vlan.tagged, vlan.vlan) {
        (TagMatch::Priority, _) | (TagMatch::All, 0) => None,
        // Any VLAN id.
        (TagMatch::Tagged, 0) => Some(1),
        (_, id) => Some(id),
    }
}

fn edited(
    destination: MacAddress,
    vlan: Option<u16>,
    rewrite: &Rewrite,
) -> (MacAddress, Option<u16>) {
    let vlan = match rewrite.vlan {
        VlanAction::Keep => vlan,
        VlanAction::Set(id) => Some(id),
        VlanAction::Remove => None,
    };
    (rewrite.destination.unwrap_or(destination), vlan)
}
