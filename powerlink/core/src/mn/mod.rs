//! A managing node.
//!
//! It is driven as a controlled node. The reduced and the isochronous cycle are in `cycle`, the assignment of
//! the asynchronous phase in `schedule`, and each node's boot to OPERATIONAL in `boot`.

mod access;
mod boot;
mod cycle;
mod dcf;
mod launch;
mod order;
mod receive;
mod record;
mod schedule;
mod server;
mod station;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;

use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::{ErrorEntry, NetTime, NodeId, PdoVersion};

use crate::Node;
use crate::asynchronous::Queue;
use crate::code;
use crate::ethernet::{self, address};
use crate::frame::Outbox;
use crate::nmt::{MnEvent, State, next_mn};
use crate::od::profile::startup;
use crate::od::{Abort, Dictionary, ObjectId, id, profile};
use crate::pdo::{Channel, Direction};
use crate::report::ReportInterval;
use crate::sdo::{CompletedRequest, DatagramServer};
pub use access::UnreachableNode;
use cycle::CycleTiming;
pub(crate) use dcf::split_entry as split_dcf_entry;
pub use dcf::{
    concise as concise_dcf, entries as dcf_entries, is_concise as is_concise_dcf, is_optional,
};
pub use launch::Launch;
use launch::LaunchState;
use order::Order;
pub use record::BootRecord;
use server::ObjectServer;
use station::Station;
pub use station::{Mismatch, Step};

/// The configuration of a managing node.
#[derive(Debug, Clone)]
pub struct Config {
    /// The source address of its frames.
    pub mac: MacAddress,
    /// Its objects: those of [`profile::managing_node`], and the application's.
    pub objects: Dictionary,
}

/// A mapping of a managing node that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MappingError {
    /// Its index.
    pub mapping: u16,
    /// The reason.
    pub why: Abort,
}

impl fmt::Display for MappingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot use mapping {:04X}: {}", self.mapping, self.why)
    }
}

impl core::error::Error for MappingError {}

/// The reason why the managing node resets a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// It is not the expected device.
    Identity(Mismatch),
    /// An object of its configuration was refused, or the node did not answer.
    Configuration(ObjectId, Abort),
    /// It was configured, and does not report this configuration.
    NotConfigured,
    /// It did not answer polls (0x1C09).
    LossOfPres,
    /// It did not answer StatusRequests (0x1C17).
    LossOfStatus,
    /// Its responses to polls came too late (0x1C06).
    LatePres,
    /// It sent a frame with an invalid format.
    InvalidFormat,
    /// Its state differs from the commanded one.
    State,
    /// A step took too long (0x1F89).
    TimeOut(Step),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Identity(mismatch) => write!(f, "another device, {mismatch}"),
            Failure::Configuration(object, abort) => {
                write!(f, "configuration of object {object} refused, {abort}")
            }
            Failure::NotConfigured => f.write_str("does not report its configuration"),
            Failure::LossOfPres => f.write_str("loss of PRes"),
            Failure::LossOfStatus => f.write_str("loss of StatusResponse"),
            Failure::LatePres => f.write_str("late PRes"),
            Failure::InvalidFormat => f.write_str("invalid format"),
            Failure::State => f.write_str("wrong NMT state"),
            Failure::TimeOut(step) => write!(f, "timeout of step \"{step}\""),
        }
    }
}

impl Failure {
    /// Whether the node is likely to fail in the same way again: further attempts are delayed.
    pub(super) const fn recurs(self) -> bool {
        !matches!(self, Failure::LossOfPres | Failure::LossOfStatus | Failure::LatePres)
    }

    /// The error code of NMTResetNode.
    pub const fn code(self) -> u16 {
        match self {
            Failure::Identity(mismatch) => match mismatch.expected_at {
                at @ 0x1f84..=0x1f88 => code::DEVICE_TYPE + (at - 0x1f84),
                // There is no code for a software version.
                _ => code::CONFIGURATION,
            },
            Failure::Configuration(..) | Failure::NotConfigured => code::CONFIGURATION,
            Failure::LossOfPres => code::LOSS_OF_PRES,
            Failure::LossOfStatus => code::NO_STATUS,
            Failure::LatePres => code::LATE_PRES,
            Failure::InvalidFormat => code::INVALID_FORMAT,
            Failure::State => code::WRONG_STATE,
            Failure::TimeOut(Step::Start) => code::READY_TO_OPERATE,
            Failure::TimeOut(_) => code::PRE_OPERATIONAL_2,
        }
    }
}

/// An event for the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The managing node's state changed.
    State {
        /// The former state.
        from: State,
        /// The new state.
        to: State,
        /// The cause.
        by: MnEvent,
    },
    /// A node entered another step.
    Node(NodeId, Step),
    /// A node failed and is reset.
    Failed(NodeId, Failure),
    /// A node failed again before it reached OPERATIONAL: its next attempt is delayed.
    Delayed {
        /// The node.
        node: NodeId,
        /// Failures in succession.
        failures: u32,
        /// The delay in nanoseconds.
        wait_ns: u64,
    },
    /// A node lacks an optional object of its configuration, which is skipped; reported once for each object.
    Skipped(NodeId, ObjectId),
    /// A cycle started.
    Cycle,
    /// All nodes were polled: their data is in the objects, and values that the application sets now are sent
    /// in the next cycle.
    Exchanged,
    /// A cycle exceeded its length; the next one started later.
    CycleExceeded,
    /// The SoC of another component was not sent when it was due, or not confirmed.
    NotLaunched,
    /// A node did not answer its poll in time.
    LostPres(NodeId),
    /// A node did not answer a StatusRequest before the next phase started.
    LostStatus(NodeId),
    /// A node answered its poll after the timeout.
    LatePres(NodeId),
    /// A mandatory node was not identified in time (0x1F89/2); the managing node keeps waiting.
    Missing(NodeId),
    /// A node reported an error: a new entry of its status.
    Reported(NodeId, ErrorEntry),
    /// Process data of a node were received and are in the objects.
    Received(NodeId),
    /// Process data could not be read: another version of the mapping, or too short.
    Unreadable(NodeId),
    /// Another node wrote an object of the managing node.
    Written(ObjectId),
    /// A mapping that other nodes wrote cannot be used: all parameters have the values of the start again.
    Unmapped {
        /// Its index.
        mapping: u16,
        /// The reason.
        why: Abort,
    },
    /// Another managing node is on the bus; reported at most once per second.
    OtherManagingNode(MacAddress),
    /// A frame with the id of a node has another address than the node and is ignored; reported at most once per
    /// second.
    ForeignAddress(NodeId, MacAddress),
}

/// The state of the cycle: the expected event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Off,
    /// Listens for another managing node, until the timer.
    Listen,
    /// None: plain Ethernet.
    BasicEthernet,
    /// The end of an asynchronous phase of the reduced cycle.
    Reduced {
        /// The node that may send in it.
        target: NodeId,
    },
    /// The time from SoC to the first poll (0x1F8A/1).
    FirstPoll,
    /// The response of the polled node.
    Poll {
        /// Its station index.
        station: usize,
    },
    /// The next cycle.
    Soc,
    /// The SoC of the next cycle, which another component sends.
    Launch,
}

/// A managing node.
#[derive(Debug)]
pub struct ManagingNode {
    mac: MacAddress,
    pub(crate) od: Dictionary,
    pub(crate) state: State,
    phase: Phase,
    /// When the phase ends.
    timer_ns: u64,
    /// When the next cycle starts.
    soc_ns: u64,
    cycle_ns: u64,
    timing: CycleTiming,
    cycles: u64,
    /// Number of cycles in a multiplexed cycle; 0: none.
    multiplexed_cycles: u64,
    /// The index of this cycle in it, from 0.
    multiplexed_cycle: u64,
    /// Start of the current state, and its cycle.
    since_ns: u64,
    since_cycle: u64,
    /// Time of day, and the instant it is for.
    clock: (NetTime, u64),
    /// Asynchronous phases before the nodes are reset.
    quiet_phases: u32,
    stations: Vec<Station>,
    /// Index of the station with an unanswered StatusRequest.
    status_requested: Option<usize>,
    commands: VecDeque<Order>,
    turn: schedule::RoundRobin,
    launching: LaunchState,
    /// Access of other nodes to the objects.
    server: ObjectServer,
    /// Frames of other protocols.
    pub(crate) others: Queue,
    pub(crate) out: Outbox,
    /// Buffer for the payload of a poll.
    payload: Vec<u8>,
    events: VecDeque<Event>,
    /// Completed requests of the application.
    done: VecDeque<(NodeId, CompletedRequest)>,
    /// Reports of another managing node.
    other_reports: ReportInterval,
    /// Received frames of other managing nodes.
    foreign_frames: u64,
    /// Reports of ignored frames with the id of a node.
    foreign_reports: ReportInterval,
    /// The missing mandatory nodes were reported.
    missing_reported: bool,
    /// The cycle was exceeded too often: the network restarts instead of the next cycle.
    cycle_failed: bool,
    /// Instants of SoC without one, since the cycle before exceeded its length.
    skipped_cycles: u64,
    /// The application permits the next state.
    allowed: bool,
}

impl ManagingNode {
    /// Creates a managing node that is off.
    ///
    /// # Errors
    /// A mapping cannot be used.
    pub fn new(config: Config) -> Result<Self, MappingError> {
        let Config { mac, objects: mut od } = config;
        // A node with its own dictionary may lack them.
        let _ = od.set(profile::INTERFACE_ADDRESS, &mac.0);
        let _ = od.set_number(profile::NODE_ID, NodeId::MN.0.into());
        for (object, address) in
            [(profile::ADDRESS, address(NodeId::MN)), (profile::GATEWAY, ethernet::GATEWAY)]
        {
            let _ = od.set(object, &u32::from(address).to_le_bytes());
        }
        // A reset restores the current values.
        od.keep();
        let stations = server::stations(&od)?;
        Ok(ManagingNode {
            mac,
            state: State::Off,
            phase: Phase::Off,
            timer_ns: u64::MAX,
            soc_ns: 0,
            multiplexed_cycles: od.number(profile::MULTIPLEXED_CYCLES),
            multiplexed_cycle: 0,
            cycle_ns: od.number(profile::CYCLE_LENGTH_US) * 1000,
            timing: CycleTiming::new(&od),
            cycles: 0,
            since_ns: 0,
            since_cycle: 0,
            clock: (NetTime::default(), 0),
            quiet_phases: 0,
            stations,
            status_requested: None,
            commands: VecDeque::new(),
            turn: schedule::RoundRobin::default(),
            launching: LaunchState::default(),
            others: Queue::default(),
            server: ObjectServer::new(&od),
            out: Outbox::default(),
            payload: Vec::new(),
            events: VecDeque::new(),
            done: VecDeque::new(),
            other_reports: ReportInterval::default(),
            foreign_frames: 0,
            foreign_reports: ReportInterval::default(),
            missing_reported: false,
            cycle_failed: false,
            skipped_cycles: 0,
            allowed: false,
            od,
        })
    }

    /// Turns the node on; `time` is the time of day.
    pub fn start(&mut self, now_ns: u64, time: NetTime) {
        if self.state == State::Off {
            self.clock = (time, now_ns);
            self.nmt(now_ns, MnEvent::Start);
        }
    }

    /// State of the node.
    pub fn state(&self) -> State {
        self.state
    }

    /// The boot step of a node.
    pub fn step(&self, node: NodeId) -> Option<Step> {
        self.stations.iter().find(|station| station.node == node).map(|station| station.step)
    }

    /// The node's objects.
    pub fn objects(&self) -> &Dictionary {
        &self.od
    }

    /// Sets an object from the application, such as an output.
    ///
    /// # Errors
    /// The object does not exist, or the value does not fit it.
    pub fn set_object(&mut self, id: ObjectId, value: &[u8]) -> Result<(), Abort> {
        self.od.set(id, value)
    }

    /// Permits the next state, if 0x1F80 requires the application's permission.
    pub fn allow(&mut self) {
        self.allowed = true;
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Applies an NMT event.
    fn nmt(&mut self, now_ns: u64, by: MnEvent) {
        let Some(to) = next_mn(self.state, by) else { return };
        let from = core::mem::replace(&mut self.state, to);
        self.events.push_back(Event::State { from, to, by });
        (self.since_ns, self.since_cycle) = (now_ns, self.cycles);
        (self.allowed, self.missing_reported) = (false, false);
        let written = self.od.set_number(profile::NMT_STATE, to.code().0.into());
        debug_assert!(written.is_ok(), "every dictionary of a managing node has its state");
        match to {
            State::NotActive => {
                self.reset_network();
                self.phase = Phase::Listen;
                self.timer_ns = now_ns + self.microseconds(profile::WAIT_NOT_ACTIVE_US);
            }
            State::BasicEthernet => self.phase = Phase::BasicEthernet,
            State::PreOperational1 => {
                self.timing = CycleTiming::new(&self.od);
                self.reset_network();
                // Listening nodes detect a managing node before they receive commands.
                self.quiet_phases = 10;
                self.reduced_cycle(now_ns);
            }
            State::PreOperational2 => {
                self.soc_ns = now_ns + self.cycle_ns;
                self.cycles = 0;
                self.since_cycle = 0;
                self.await_cycle();
            }
            _ => {}
        }
    }

    /// Resets the state of all nodes.
    fn reset_network(&mut self) {
        for place in 0..self.stations.len() {
            self.reset_station(place);
            self.stations[place].step = Step::Identify;
        }
        self.cycle_failed = false;
        self.status_requested = None;
        self.commands.clear();
        self.cancel_launch();
    }

    /// When the phase ends, if it has an end.
    fn phase_end_ns(&self) -> Option<u64> {
        let ends = match self.phase {
            Phase::Off => false,
            // A commanded reset follows its answer.
            Phase::BasicEthernet => self.server.is_reset_commanded(),
            _ => true,
        };
        ends.then_some(self.timer_ns)
    }

    fn microseconds(&self, object: ObjectId) -> u64 {
        self.od.number(object) * 1000
    }
}

impl Node for ManagingNode {
    fn handle_frame(&mut self, now_ns: u64, frame: &[u8]) {
        self.receive(now_ns, frame);
    }

    fn handle_deadline(&mut self, now_ns: u64) {
        if self.phase_end_ns().is_none_or(|end| now_ns < end) {
            if let Some(datagrams) = &mut self.server.datagrams {
                datagrams.handle_deadline(now_ns);
            }
            return;
        }
        // The frames of the cycle first: datagrams have the next call, which is due at once.
        if self.reset_commanded(now_ns) {
            return;
        }
        match self.phase {
            Phase::Off | Phase::BasicEthernet => {}
            Phase::Listen if !self.starts_up(startup::BASIC_ETHERNET) => {
                self.nmt(now_ns, MnEvent::Alone);
            }
            Phase::Listen => self.nmt(now_ns, MnEvent::AloneInBasicEthernet),
            Phase::Reduced { .. } => self.reduced_cycle(now_ns),
            Phase::FirstPoll => self.poll_from(now_ns, 0),
            Phase::Poll { station } => {
                self.pres_lost(now_ns, station);
                self.poll_from(now_ns, station + 1);
            }
            Phase::Soc if core::mem::take(&mut self.cycle_failed) => {
                self.nmt(now_ns, MnEvent::CycleExceeded);
            }
            Phase::Soc => self.isochronous_cycle(now_ns),
            Phase::Launch => self.launch_unknown(now_ns),
        }
    }

    fn next_deadline_ns(&self) -> Option<u64> {
        let datagrams = self.server.datagrams.as_ref().and_then(DatagramServer::next_deadline_ns);
        datagrams.into_iter().chain(self.phase_end_ns()).min()
    }

    fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.out.pop()
    }

    fn recycle(&mut self, frame: Vec<u8>) {
        self.out.recycle(frame);
    }
}

/// Activates the mappings of the dictionary, for their stations.
fn map(od: &Dictionary, stations: &mut [Station]) -> Result<(), MappingError> {
    for number in 0..=0xff {
        for (direction, parameters, mapping) in [
            (Direction::Receive, profile::RPDO, profile::RPDO_MAPPING),
            (Direction::Transmit, profile::TPDO, profile::TPDO_MAPPING),
        ] {
            let (parameters, mapping) = (parameters + number, mapping + number);
            let node = NodeId(od.number(id(parameters, 1)) as u8);
            let Some(station) = stations.iter_mut().find(|station| station.node == node) else {
                continue;
            };
            let limit = match direction {
                Direction::Receive => usize::MAX,
                Direction::Transmit => station.settings.preq_limit,
            };
            let version = PdoVersion(od.number(id(parameters, 2)) as u8);
            let channel = Channel::new(od, mapping, version, direction, limit)
                .map_err(|why| MappingError { mapping, why })?;
            match direction {
                Direction::Receive => station.rpdo = channel,
                Direction::Transmit => station.tpdo = channel,
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_use_the_terms_of_the_specification() {
        let mismatch = Mismatch { expected_at: 0x1f85, expected: 7, found: 8 };
        for (failure, text) in [
            (
                Failure::Identity(mismatch),
                "another device, 0x00000008 instead of 0x00000007 (object 1F85)",
            ),
            (
                Failure::Configuration(id(0x1006, 0), Abort::VALUE),
                "configuration of object 1006/00 refused, 0x06090030: the value is not allowed",
            ),
            (Failure::TimeOut(Step::Enable), "timeout of step \"transition to READY_TO_OPERATE\""),
        ] {
            assert_eq!(alloc::format!("{failure}"), text);
        }
    }
}
