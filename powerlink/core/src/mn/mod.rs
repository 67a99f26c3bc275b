//! A managing node.
//!
//! It is driven as a controlled node is. The reduced cycle and the isochronous one are in
//! `cycle`, who gets the asynchronous phase in `schedule`, and each node's way to OPERATIONAL in
//! `boot`.

mod access;
mod boot;
mod cycle;
mod dcf;
mod launch;
mod order;
mod receive;
mod schedule;
mod station;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;

use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::{ErrorEntry, NetTime, NodeId, PdoVersion};

use crate::Node;
use crate::asynchronous::Queue;
use crate::code;
use crate::frame::Outbox;
use crate::nmt::{MnEvent, State, next_mn};
use crate::od::profile::startup;
use crate::od::{Abort, Dictionary, ObjectId, id, profile};
use crate::pdo::{Channel, Direction};
use crate::sdo::Done;
pub use access::NotReachable;
pub use dcf::{concise as concise_dcf, entries as dcf_entries};
pub use launch::Launch;
use launch::Launching;
use order::Order;
pub use station::{Mismatch, Step};
use station::{Settings, Station};

/// What a managing node needs to be one.
#[derive(Debug, Clone)]
pub struct Config {
    /// The address it sends from.
    pub mac: MacAddress,
    /// Its objects: those of [`profile::managing_node`], and the application's.
    pub objects: Dictionary,
}

/// A mapping of a managing node that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unmapped {
    /// Its index.
    pub mapping: u16,
    /// Why.
    pub why: Abort,
}

impl fmt::Display for Unmapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mapping {:04X} cannot be used, {}", self.mapping, self.why)
    }
}

impl core::error::Error for Unmapped {}

/// Why the managing node resets a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// It is not the device that is expected.
    Identity(Mismatch),
    /// An object of its configuration was refused, or the node did not answer.
    Configuration(ObjectId, Abort),
    /// It was configured, and does not say so.
    NotConfigured,
    /// It did not answer polls (0x1C09).
    LossOfPres,
    /// It did not answer requests for its status (0x1C17).
    LossOfStatus,
    /// Its responses to polls came too late (0x1C06).
    LatePres,
    /// It sent what cannot be read.
    InvalidFormat,
    /// It is in another state than it was told to be in.
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
    /// The error that NMTResetNode gives as its reason.
    pub const fn code(self) -> u16 {
        match self {
            Failure::Identity(mismatch) => match mismatch.expected_at {
                at @ 0x1f84..=0x1f88 => code::DEVICE_TYPE + (at - 0x1f84),
                // There is none for a version of software.
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

/// What an application may want to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The managing node's state changed.
    State {
        /// From this one.
        from: State,
        /// To this one.
        to: State,
        /// By this.
        by: MnEvent,
    },
    /// A node came to another step.
    Node(NodeId, Step),
    /// A node has to begin anew.
    Failed(NodeId, Failure),
    /// A cycle began.
    Cycle,
    /// All nodes were polled: what they sent is in the objects, and what the application gives now
    /// goes to all of them in the next cycle.
    Exchanged,
    /// A cycle took longer than it may; the next began later.
    CycleExceeded,
    /// The SoC that somebody else was to send did not leave when it was due, or nobody told.
    NotLaunched,
    /// A node did not answer its poll in time.
    LostPres(NodeId),
    /// A node did not answer a request for its status before the next phase began.
    LostStatus(NodeId),
    /// A node answered its poll when the time for it had passed.
    LatePres(NodeId),
    /// A mandatory node was not identified in time (0x1F89/2); it is waited for.
    Missing(NodeId),
    /// A node told an error: a new entry of its status.
    Reported(NodeId, ErrorEntry),
    /// Process data of a node were received and are in the objects.
    Received(NodeId),
    /// Process data could not be read: another version of the mapping, or too short.
    Unreadable(NodeId),
    /// Another managing node is on the bus; told once in a second at most.
    OtherManagingNode(MacAddress),
}

/// What the managing node waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Off,
    /// For another managing node to be heard, until the timer.
    Listen,
    /// For nothing: the network is one of plain Ethernet.
    BasicEthernet,
    /// For the end of an asynchronous phase of the reduced cycle.
    Reduced {
        /// Who may send in it.
        target: NodeId,
    },
    /// For the response of the node polled.
    Poll {
        /// Its place among the stations.
        station: usize,
    },
    /// For the next cycle.
    Soc,
    /// For the SoC of the next cycle, which somebody else sends.
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
    /// When the next cycle begins.
    soc_ns: u64,
    cycle_ns: u64,
    cycles: u64,
    /// Cycles of a multiplexed cycle; 0 where there is none.
    multiplexed_cycles: u64,
    /// Which of them this one is, from 0 on.
    multiplexed_cycle: u64,
    /// Since when the node is in its state, and in which cycle that was.
    since_ns: u64,
    since_cycle: u64,
    /// Time of day, and when it was.
    clock: (NetTime, u64),
    /// Asynchronous phases to pass before the nodes are reset.
    quiet_phases: u32,
    stations: Vec<Station>,
    /// The place of the station that was asked for its status, and did not answer yet.
    status_asked: Option<usize>,
    commands: VecDeque<Order>,
    turn: schedule::Turn,
    launching: Launching,
    /// Frames of other protocols.
    pub(crate) others: Queue,
    pub(crate) out: Outbox,
    /// Memory for the payload of a poll.
    payload: Vec<u8>,
    events: VecDeque<Event>,
    /// Requests of the application to nodes' objects that are done.
    done: VecDeque<(NodeId, Done)>,
    /// When another managing node was told last.
    other_told_ns: Option<u64>,
    /// Mandatory nodes that are missing were told.
    missing_told: bool,
    /// The cycle took too long too often: the network begins anew instead of the next.
    cycle_failed: bool,
    /// The application lets the node go to its next state.
    allowed: bool,
}

impl ManagingNode {
    /// A managing node that is off.
    ///
    /// # Errors
    /// A mapping cannot be used.
    pub fn new(config: Config) -> Result<Self, Unmapped> {
        let Config { mac, objects: od } = config;
        let sdo_timeout_ns = od.number(profile::SDO_TIMEOUT_MS) * 1_000_000;
        let mut stations = Vec::new();
        for sub in od.subs(profile::NODE_ASSIGNMENT) {
            if let Some(settings) = Settings::new(&od, NodeId(sub)) {
                stations.push(Station::new(NodeId(sub), settings, sdo_timeout_ns));
            }
        }
        map(&od, &mut stations)?;
        // Those of every cycle first: their time in it does not depend on whose slot it is.
        stations.sort_by_key(|station| station.settings.slot != 0);
        Ok(ManagingNode {
            mac,
            state: State::Off,
            phase: Phase::Off,
            timer_ns: u64::MAX,
            soc_ns: 0,
            multiplexed_cycles: od.number(profile::MULTIPLEXED_CYCLES),
            multiplexed_cycle: 0,
            cycle_ns: od.number(profile::CYCLE_LENGTH_US) * 1000,
            cycles: 0,
            since_ns: 0,
            since_cycle: 0,
            clock: (NetTime::default(), 0),
            quiet_phases: 0,
            stations,
            status_asked: None,
            commands: VecDeque::new(),
            turn: schedule::Turn::default(),
            launching: Launching::default(),
            others: Queue::default(),
            out: Outbox::default(),
            payload: Vec::new(),
            events: VecDeque::new(),
            done: VecDeque::new(),
            other_told_ns: None,
            missing_told: false,
            cycle_failed: false,
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

    /// How far a node is.
    pub fn step(&self, node: NodeId) -> Option<Step> {
        self.stations.iter().find(|station| station.node == node).map(|station| station.step)
    }

    /// The node's objects.
    pub fn objects(&self) -> &Dictionary {
        &self.od
    }

    /// The application gives an object a value: an output, for one.
    ///
    /// # Errors
    /// There is no such object, or the value does not fit it.
    pub fn set_object(&mut self, id: ObjectId, value: &[u8]) -> Result<(), Abort> {
        self.od.set(id, value)
    }

    /// Has the node begin anew: it listens for another managing node, and all its nodes boot again. Out
    /// of BASIC_ETHERNET nothing else leads.
    pub fn reset(&mut self, now_ns: u64) {
        self.nmt(now_ns, MnEvent::Reset);
    }

    /// Lets the node go to its next state, where 0x1F80 has it wait for the application.
    pub fn allow(&mut self) {
        self.allowed = true;
    }

    /// What happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Takes an event of network management to the state it leads to.
    fn nmt(&mut self, now_ns: u64, by: MnEvent) {
        let Some(to) = next_mn(self.state, by) else { return };
        let from = core::mem::replace(&mut self.state, to);
        self.events.push_back(Event::State { from, to, by });
        (self.since_ns, self.since_cycle) = (now_ns, self.cycles);
        (self.allowed, self.missing_told) = (false, false);
        let written = self.od.set_number(profile::NMT_STATE, to.code().0.into());
        debug_assert!(written.is_ok(), "every dictionary of a managing node has its state");
        match to {
            State::NotActive => {
                self.begin_anew();
                self.phase = Phase::Listen;
                self.timer_ns = now_ns + self.microseconds(profile::WAIT_NOT_ACTIVE_US);
            }
            State::BasicEthernet => self.phase = Phase::BasicEthernet,
            State::PreOperational1 => {
                self.begin_anew();
                // Who listens hears that a managing node is there before it is told anything.
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

    /// Forgets what its nodes were.
    fn begin_anew(&mut self) {
        for place in 0..self.stations.len() {
            self.forget(place);
            self.stations[place].step = Step::Identify;
        }
        self.cycle_failed = false;
        self.status_asked = None;
        self.commands.clear();
        self.cancel_launch();
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
        if now_ns < self.timer_ns {
            return;
        }
        match self.phase {
            Phase::Off | Phase::BasicEthernet => {}
            Phase::Listen if !self.starts_up(startup::BASIC_ETHERNET) => {
                self.nmt(now_ns, MnEvent::Alone);
            }
            Phase::Listen => self.nmt(now_ns, MnEvent::AloneInBasicEthernet),
            Phase::Reduced { .. } => self.reduced_cycle(now_ns),
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
        (!matches!(self.phase, Phase::Off | Phase::BasicEthernet)).then_some(self.timer_ns)
    }

    fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.out.pop()
    }

    fn recycle(&mut self, frame: Vec<u8>) {
        self.out.recycle(frame);
    }
}

/// Works out the mappings of the dictionary, for the stations they are of.
fn map(od: &Dictionary, stations: &mut [Station]) -> Result<(), Unmapped> {
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
                .map_err(|why| Unmapped { mapping, why })?;
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
    fn failures_are_in_the_words_of_the_specification() {
        let mismatch = Mismatch { expected_at: 0x1f85, expected: 7, found: 8 };
        for (failure, text) in [
            (
                Failure::Identity(mismatch),
                "another device, 0x00000008 instead of 0x00000007 (object 1F85)",
            ),
            (
                Failure::Configuration(id(0x1006, 0), Abort::VALUE),
                "configuration of object 1006/00 refused, 0x06090030: the value is none of those allowed",
            ),
            (Failure::TimeOut(Step::Enable), "timeout of step \"transition to READY_TO_OPERATE\""),
        ] {
            assert_eq!(alloc::format!("{failure}"), text);
        }
    }
}
