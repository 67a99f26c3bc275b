//! The SDO server: nodes and a diagnostic device read and write the objects of the managing node.
//!
//! A node's frames can belong to two connections: of this node's client, or of its server. The client has
//! precedence: a node that is being configured is served afterwards.
//!
//! Parameters apply from the next reset, by 0x1F9E: of the configuration (with the current values), of the
//! communication or of the node (with those of the start). Commands to nodes are released by 0x1F9F.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddrV4;

use onbeat_wire::powerlink::{
    Connection, MAX_PAYLOAD, NmtCommandId, NmtRequest, NmtState, NodeId, Sdo, SendRequest, Service,
};

use super::receive::WAITING;
use super::station::{Settings, Station};
use super::{Event, ManagingNode, MappingError, Step, dcf, map};
use crate::nmt::{MnEvent, State};
use crate::od::{Abort, Dictionary, ObjectId, id, profile};
use crate::pdo;
use crate::sdo::{
    Client, DatagramServer, Objects, OutgoingFrame, Server, WriteOutcome, parse_datagram,
    timeout_ns,
};

/// The server's connections, and commands by their objects.
#[derive(Debug)]
pub(super) struct ObjectServer {
    server: Server,
    /// Of peers on the IP network, if the node has one.
    pub(super) datagrams: Option<DatagramServer>,
    /// Frames queued for asynchronous phases of this node.
    frames: VecDeque<(NodeId, OutgoingFrame)>,
    /// Queued frames of the diagnostic device.
    pub(super) diagnostic: SendRequest,
    /// A reset to execute when its answer was sent, and the peer that commanded it.
    reset: Option<(NmtCommandId, Commander)>,
}

/// A peer of either server.
#[derive(Debug, Clone, Copy)]
enum Commander {
    /// By frames of the asynchronous phase.
    Node(NodeId),
    /// By datagrams.
    Host(SocketAddrV4),
}

impl ObjectServer {
    pub(super) fn new(od: &Dictionary) -> Self {
        ObjectServer {
            server: Server::new(timeout_ns(od)),
            datagrams: None,
            frames: VecDeque::new(),
            diagnostic: SendRequest::NONE,
            reset: None,
        }
    }

    /// Whether a reset follows the answer to its command.
    pub(super) fn is_reset_commanded(&self) -> bool {
        self.reset.is_some()
    }

    /// Removes the next frame to send.
    pub(super) fn take_frame(&mut self) -> Option<(NodeId, OutgoingFrame)> {
        self.frames.pop_front()
    }
}

impl ManagingNode {
    /// Handles an SDO frame of a node that is not in the network.
    pub(super) fn serve_guest(&mut self, now_ns: u64, from: NodeId, service: &Service<'_>) {
        let is_diagnostic = from == NodeId::DIAGNOSTIC;
        match service {
            Service::IdentResponse(ident) if is_diagnostic => {
                self.server.diagnostic = ident.request;
            }
            Service::StatusResponse(status) if is_diagnostic => {
                self.server.diagnostic = status.request;
            }
            Service::Sdo(sdo) if is_diagnostic || from != NodeId::MN && from.is_managing() => {
                self.serve(now_ns, from, sdo);
            }
            _ => {}
        }
    }

    /// Handles an SDO frame of a node of the network; returns false if it is for the client.
    pub(super) fn serve_station(&mut self, now_ns: u64, place: usize, sdo: &Sdo<'_>) -> bool {
        let station = &mut self.stations[place];
        let (receive, send) = (sdo.sequence.receive.connection, sdo.sequence.send.connection);
        let opens = receive == Connection::None && send == Connection::Initialise;
        // A closed connection has no deadline.
        let is_client_open = station.sdo.next_deadline_ns().is_some();
        if is_client_open && opens && station.sdo.pending() == 0 {
            // The node uses the connection for its own requests.
            station.sdo = Client::new(timeout_ns(&self.od));
            station.frames.clear();
        } else if is_client_open && sdo.command.is_none_or(|command| command.response) {
            return false;
        }
        let node = station.node;
        self.serve(now_ns, node, sdo);
        true
    }

    fn serve(&mut self, now_ns: u64, from: NodeId, sdo: &Sdo<'_>) {
        self.access(Commander::Node(from), |server, access| {
            server.server.receive(now_ns, from, sdo, access, &mut server.frames);
            // A frame without room is sent again, as if it was lost.
            server.frames.truncate(WAITING);
        });
    }

    /// Executes an access of a peer, and its effects.
    fn access(&mut self, from: Commander, serve: impl FnOnce(&mut ObjectServer, &mut Access<'_>)) {
        let ManagingNode { od, stations, state, server, events, .. } = self;
        let mut access =
            Access { od, stations, state: *state, reset: None, releases: false, written: None };
        serve(server, &mut access);
        let Access { reset, releases, written, .. } = access;
        server.reset = reset.map(|command| (command, from)).or(server.reset);
        events.extend(written.map(Event::Written));
        if releases {
            self.release_command();
        }
    }

    /// Serves SDO over UDP, before the node is turned on: its host is on the IP network of the bus, and passes the
    /// datagrams of [`UDP_PORT`](crate::sdo::UDP_PORT).
    pub fn serve_datagrams(&mut self) {
        profile::add_feature(&mut self.od, profile::SDO_BY_UDP);
        self.server.datagrams = Some(DatagramServer::new(timeout_ns(&self.od)));
    }

    /// Handles a datagram of a peer.
    pub fn handle_datagram(&mut self, now_ns: u64, from: SocketAddrV4, datagram: &[u8]) {
        if matches!(self.state, State::Off | State::NotActive) {
            return;
        }
        let Some(sdo) = parse_datagram(datagram) else { return };
        self.access(Commander::Host(from), |server, access| {
            if let Some(datagrams) = &mut server.datagrams {
                datagrams.receive(now_ns, from, &sdo, access);
            }
        });
    }

    /// Returns the next datagram to send. Call it after each call of the node.
    pub fn poll_datagram(&mut self) -> Option<(SocketAddrV4, Vec<u8>)> {
        self.server.datagrams.as_mut()?.poll()
    }

    /// Repeats frames of the server, and closes connections to silent peers.
    pub(super) fn serve_deadline(&mut self, now_ns: u64) {
        let server = &mut self.server;
        if server.server.next_deadline_ns().is_some_and(|deadline| deadline <= now_ns) {
            server.server.handle_deadline(now_ns, &mut server.frames);
            server.frames.truncate(WAITING);
        }
    }

    /// Executes the command of 0x1F9F.
    fn release_command(&mut self) {
        let number = |sub| self.od.number(id(profile::REQUEST_COMMAND, sub)) as u8;
        let (command, target) = (NmtCommandId(number(2)), NodeId(number(3)));
        let data = self.od.get(id(profile::REQUEST_COMMAND, 4)).unwrap_or_default().to_vec();
        if target == NodeId::BROADCAST && command.extended().is_some() {
            self.command(target, command);
        } else {
            // A node that is not in the network is not commanded.
            let _ = self.execute(&NmtRequest { command, target, data: &data });
        }
        for (sub, value) in [(1, 0), (2, profile::NO_COMMAND.into())] {
            let set = self.od.set_number(id(profile::REQUEST_COMMAND, sub), value);
            debug_assert!(set.is_ok(), "both are octets");
        }
    }

    /// Executes a commanded reset once its answer was sent; returns whether it did.
    pub(super) fn reset_commanded(&mut self, now_ns: u64) -> bool {
        let ObjectServer { frames, datagrams, reset, .. } = &mut self.server;
        let is_answered = |from| match from {
            Commander::Node(node) => frames.iter().all(|(to, _)| *to != node),
            Commander::Host(peer) => {
                datagrams.as_ref().is_none_or(|datagrams| !datagrams.has_queued(peer))
            }
        };
        let answered = reset.take_if(|(_, from)| is_answered(*from));
        let Some((command, _)) = answered else { return false };
        let none = self.od.set_number(profile::RESET_COMMAND, profile::NO_COMMAND.into());
        debug_assert!(none.is_ok(), "a command is an octet");
        match command {
            NmtCommandId::RESET_CONFIGURATION => {}
            NmtCommandId::RESET_COMMUNICATION => self.od.restore(0x1000..=0x1fff),
            _ => self.od.restore(0x1000..=0xffff),
        }
        self.reset(now_ns);
        true
    }

    /// Restarts the node: it listens for another managing node, and all its nodes boot again, with the present
    /// values of its objects. This is the only way out of BASIC_ETHERNET.
    pub fn reset(&mut self, now_ns: u64) {
        self.nmt(now_ns, MnEvent::Reset);
        let stations = match stations(&self.od) {
            Ok(stations) => stations,
            Err(MappingError { mapping, why }) => {
                // Those of the start are valid.
                self.events.push_back(Event::Unmapped { mapping, why });
                self.od.restore(0x1000..=0x1fff);
                stations(&self.od).unwrap_or_default()
            }
        };
        let mut former = core::mem::take(&mut self.stations);
        self.stations = stations;
        for station in &mut self.stations {
            if let Some(place) = former.iter().position(|former| former.node == station.node) {
                let former = former.swap_remove(place);
                station.continue_with(former);
            }
        }
        let datagrams = self.server.datagrams.take().map(|mut datagrams| {
            datagrams.reset(timeout_ns(&self.od));
            datagrams
        });
        self.server = ObjectServer { datagrams, ..ObjectServer::new(&self.od) };
        self.cycle_ns = self.od.number(profile::CYCLE_LENGTH_US) * 1000;
        self.multiplexed_cycles = self.od.number(profile::MULTIPLEXED_CYCLES);
    }
}

/// The nodes of a dictionary with their mappings, nodes of every cycle first: their time in the cycle does not
/// depend on the slot.
pub(super) fn stations(od: &Dictionary) -> Result<Vec<Station>, MappingError> {
    let timeout_ns = timeout_ns(od);
    let station = |sub| {
        let settings = Settings::new(od, NodeId(sub))?;
        Some(Station::new(NodeId(sub), settings, timeout_ns))
    };
    let mut stations: Vec<Station> =
        od.subs(profile::NODE_ASSIGNMENT).filter_map(station).collect();
    map(od, &mut stations)?;
    stations.sort_by_key(|station| station.settings.slot != 0);
    Ok(stations)
}

/// A peer's access to the objects.
struct Access<'a> {
    od: &'a mut Dictionary,
    stations: &'a [Station],
    state: State,
    /// A written reset command.
    reset: Option<NmtCommandId>,
    /// The command of 0x1F9F was released.
    releases: bool,
    written: Option<ObjectId>,
}

impl Objects for Access<'_> {
    fn check_write(&self, id: ObjectId, len: usize) -> Result<(), Abort> {
        self.od.check_write(id, len)
    }

    fn read(&mut self, object: ObjectId) -> Result<Vec<u8>, Abort> {
        let value = self.od.read(object)?;
        let state = match object {
            profile::NMT_STATE => Some(self.state.code()),
            ObjectId { index: profile::NODE_STATE | profile::EXPECTED_STATE, sub } => {
                self.state_of(object.index, NodeId(sub))
            }
            _ => None,
        };
        Ok(state.map_or_else(|| value.to_vec(), |state| Vec::from([state.0])))
    }

    fn write(&mut self, object: ObjectId, value: &[u8]) -> Result<WriteOutcome, Abort> {
        self.od.check(object, value)?;
        pdo::check_mapping(self.od, object, value, MAX_PAYLOAD)?;
        let release = id(profile::REQUEST_COMMAND, 1);
        match (object, value) {
            (profile::RESET_COMMAND, [command]) if *command != profile::NO_COMMAND => {
                self.reset = Some(reset_command(*command)?);
            }
            // No octets: the node has no configuration.
            (ObjectId { index: profile::CONCISE_DCF, .. }, octets @ [_, ..])
                if !dcf::is_concise(octets) =>
            {
                return Err(Abort::VALUE);
            }
            (object, [flag]) if object == release => {
                let command = self.od.number(id(profile::REQUEST_COMMAND, 2)) as u8;
                self.releases = *flag != 0;
                if self.releases && !is_released(NmtCommandId(command)) {
                    return Err(Abort::VALUE);
                }
            }
            _ => {}
        }
        self.od.write(object, value)?;
        self.written = Some(object);
        Ok(WriteOutcome::Done)
    }
}

impl Access<'_> {
    /// The present or expected state of a node, if it is in the network or this one.
    fn state_of(&self, index: u16, node: NodeId) -> Option<NmtState> {
        if node == NodeId::MN {
            return Some(self.state.code());
        }
        let station = self.stations.iter().find(|station| station.node == node)?;
        if index == profile::NODE_STATE {
            return Some(station.state);
        }
        Some(match station.step {
            Step::Identify | Step::Configure | Step::Reset | Step::Configured => {
                NmtState::PRE_OPERATIONAL_1
            }
            Step::CheckPreOperational2 => NmtState::PRE_OPERATIONAL_2,
            Step::Enable | Step::Ready => NmtState::READY_TO_OPERATE,
            Step::Start | Step::Operational => NmtState::OPERATIONAL,
            Step::Stopped => NmtState::STOPPED,
        })
    }
}

/// A command of 0x1F9E that the node executes by itself.
fn reset_command(command: u8) -> Result<NmtCommandId, Abort> {
    match NmtCommandId(command) {
        reset @ (NmtCommandId::RESET_NODE
        | NmtCommandId::RESET_COMMUNICATION
        | NmtCommandId::RESET_CONFIGURATION
        | NmtCommandId::SW_RESET) => Ok(reset),
        _ => Err(Abort::VALUE),
    }
}

/// Whether a command can be released by 0x1F9F: those that a controlled node can request.
fn is_released(command: NmtCommandId) -> bool {
    const MANAGING: [NmtCommandId; 4] = [
        NmtCommandId::IDENT_REQUEST,
        NmtCommandId::STATUS_REQUEST,
        NmtCommandId::NET_HOST_NAME_SET,
        NmtCommandId::FLUSH_ARP_ENTRY,
    ];
    MANAGING.contains(&command)
        || command.extended().is_some()
        || command.plain().is_some()
        || command.publishes()
}
