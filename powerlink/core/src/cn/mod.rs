//! A controlled node.
//!
//! Its driver calls [`handle_frame`](ControlledNode::handle_frame) and
//! [`handle_deadline`](ControlledNode::handle_deadline). After each,
//! [`poll_transmit`](ControlledNode::poll_transmit) returns the frames to send, and
//! [`poll_event`](ControlledNode::poll_event) the events. If a port answers polls automatically,
//! [`poll_response`](ControlledNode::poll_response) returns the response.

mod answer;
mod automatic;
mod datagram;
mod errors;
mod jitter;
mod manager;
mod published;
mod receive;
mod request;
mod signaling;
mod store;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::{
    NetTime, NmtCommandId, NodeId, NodeSet, NodeStates, PdoVersion, Priority, TimeOfDay,
};

use crate::Node;
use crate::asynchronous::Queue;
use crate::code;
use crate::dll::{Counter, Cycle, CycleEvent, Losses, Multiplex};
use crate::frame::Outbox;
use crate::nmt::{self, State};
use crate::od::{Abort, Dictionary, ObjectId, id, profile};
use crate::pdo::{Channel, Direction, check_write};
use crate::report::ReportInterval;
use crate::sdo::{DatagramServer, Objects, OutgoingFrame, Server, WriteOutcome, timeout_ns};
use automatic::AutomaticResponse;
pub use automatic::{POLL_KEY_LEN, PollKey, Response};
use manager::Manager;
use signaling::{Entries, Signaling};
use store::Store;
pub use store::{StoreCommand, StoredParametersError};

/// The configuration of a controlled node.
#[derive(Debug, Clone)]
pub struct Config {
    /// Its id, `1..=239`.
    pub node: NodeId,
    /// The source address of its frames.
    pub mac: MacAddress,
    /// Its objects: those of [`profile::controlled_node`], and the application's.
    pub objects: Dictionary,
}

/// A node id that no controlled node can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidNodeId(pub NodeId);

impl core::fmt::Display for InvalidNodeId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "invalid controlled-node id {}; use 1 to 239", self.0)
    }
}

impl core::error::Error for InvalidNodeId {}

/// An event for the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The state changed.
    State {
        /// The former state.
        from: State,
        /// The new state.
        to: State,
        /// The cause.
        by: nmt::Event,
    },
    /// A cycle started: inputs were sampled, and outputs of the previous cycle are in the objects.
    Cycle,
    /// Process data of a node (0: of the poll) were received and are in the objects.
    Received(NodeId),
    /// Process data could not be read: another version of the mapping, or too short.
    Unreadable(NodeId),
    /// A mapping cannot be used; nothing is received or sent by it.
    Unmapped {
        /// Its index.
        mapping: u16,
        /// The reason.
        why: Abort,
    },
    /// Frames were lost.
    Lost(Losses),
    /// A peer wrote an object.
    Written(ObjectId),
    /// A frame of the managing node for this node could not be read.
    InvalidFormat,
    /// A frame with the id of the managing node has another address and is ignored; reported at most once per
    /// second.
    ForeignManager(MacAddress),
    /// A redundant managing node, or a replaced one, has taken over.
    ManagerReplaced {
        /// The former address.
        before: MacAddress,
        /// The new address.
        mac: MacAddress,
    },
    /// A request was not answered, since its slot was over; with the number of such requests so far. Reported at most
    /// once per second.
    LateRequest(u64),
    /// The owner of an ARP table must resolve the IP address of this node again.
    FlushArp(NodeId),
    /// The managing node published the list of nodes of this service.
    Nodes(NmtCommandId, NodeSet),
    /// It published the state of every node, returned by [`ControlledNode::node_states`].
    NodeStates,
    /// It published date and time.
    Time(TimeOfDay),
    /// The parameters are stored: they apply from the next reset.
    Stored,
    /// The defaults are restored: they apply from the next reset.
    Restored,
    /// The parameters could not be stored or cleared.
    NotStored,
}

/// The content of responses to requests of the asynchronous phase. A response is prepared before its request
/// arrives: it has the values of the end of the previous phase.
#[derive(Debug)]
struct PreparedResponse {
    state: State,
    exception_new: bool,
    exception_clear: bool,
    entries: Entries,
    static_errors: [u8; 8],
}

impl PreparedResponse {
    fn new(state: State, signaling: &Signaling, static_errors: [u8; 8]) -> Self {
        let (exception_new, exception_clear) = (signaling.new, signaling.clear);
        let entries = signaling.octets();
        PreparedResponse { state, exception_new, exception_clear, entries, static_errors }
    }
}

/// Process data that the node receives.
#[derive(Debug)]
struct Rpdo {
    /// The sending node; 0: the poll.
    source: NodeId,
    channel: Channel,
    /// The last payload was unreadable.
    unreadable: bool,
}

/// A controlled node.
#[derive(Debug)]
pub struct ControlledNode {
    node: NodeId,
    mac: MacAddress,
    pub(crate) od: Dictionary,
    pub(crate) state: State,
    manager: Manager,
    cycle: Cycle,
    /// When the next SoC is late, or the node without a network enters BASIC_ETHERNET.
    timer_ns: Option<u64>,
    /// NMTEnableReadyToOperate was received.
    enabled: bool,
    application_ready: bool,
    tpdo: Channel,
    /// The payload of this cycle.
    payload: Vec<u8>,
    rpdos: Vec<Rpdo>,
    multiplex: Multiplex,
    /// Time of the last SoC, if the next one is expected a cycle later.
    soc_ns: Option<u64>,
    signaling: Signaling,
    prepared: PreparedResponse,
    /// Present errors of the device.
    device_errors: [u8; 6],
    sdo: Server,
    /// Of peers on the IP network, if the node has one.
    pub(crate) datagrams: Option<DatagramServer>,
    /// Storage of its parameters, if it has one.
    store: Option<Store>,
    pub(crate) queue: Queue,
    /// A reset to execute when its queued answer was sent.
    reset: Option<(nmt::Event, Vec<u8>)>,
    automatic: AutomaticResponse,
    /// The slot of the current frame is over.
    late: bool,
    late_requests: u64,
    late_reports: ReportInterval,
    pub(crate) out: Outbox,
    events: VecDeque<Event>,
    time: NetTime,
    /// As the managing node last published them.
    node_states: NodeStates,
}

impl ControlledNode {
    /// Creates a node that is off.
    ///
    /// # Errors
    /// The node id is not valid for a controlled node.
    pub fn new(config: Config) -> Result<Self, InvalidNodeId> {
        let Config { node, mac, objects: od } = config;
        if !node.is_controlled() {
            return Err(InvalidNodeId(node));
        }
        Ok(ControlledNode {
            node,
            mac,
            sdo: Server::new(timeout_ns(&od)),
            datagrams: None,
            od,
            state: State::Off,
            manager: Manager::default(),
            cycle: Cycle::NonCyclic,
            timer_ns: None,
            enabled: false,
            application_ready: true,
            tpdo: Channel::default(),
            payload: Vec::new(),
            rpdos: Vec::new(),
            multiplex: Multiplex::new(false),
            soc_ns: None,
            signaling: Signaling::new(),
            prepared: PreparedResponse::new(State::Off, &Signaling::new(), [0; 8]),
            device_errors: [0; 6],
            store: None,
            queue: Queue::default(),
            reset: None,
            automatic: AutomaticResponse::default(),
            late: false,
            late_requests: 0,
            late_reports: ReportInterval::default(),
            out: Outbox::default(),
            events: VecDeque::new(),
            time: NetTime::default(),
            node_states: NodeStates::OFF,
        })
    }

    /// Turns the node on.
    pub fn start(&mut self, now_ns: u64) {
        if self.state == State::Off {
            self.state = State::Initialising;
            self.pass(now_ns);
        }
    }

    /// State of the node.
    pub fn state(&self) -> State {
        self.state
    }

    /// The time of day, as last received from the managing node: with a SoC, or by NMTPublishTime.
    pub fn net_time(&self) -> NetTime {
        self.time
    }

    /// The node's id.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// The node's objects.
    pub fn objects(&self) -> &Dictionary {
        &self.od
    }

    /// Sets an object from the application, such as an input.
    ///
    /// # Errors
    /// The object does not exist, or the value does not fit it.
    pub fn set_object(&mut self, id: ObjectId, value: &[u8]) -> Result<(), Abort> {
        self.od.set(id, value)
    }

    /// Sets whether the application can take part in process data. The node enters READY_TO_OPERATE when it can
    /// and the managing node permits it. Initially it can.
    pub fn set_application_ready(&mut self, now_ns: u64, ready: bool) {
        self.application_ready = ready;
        self.become_ready(now_ns);
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Applies an NMT event, and the states that follow from it.
    fn nmt(&mut self, now_ns: u64, event: nmt::Event) {
        let Some(to) = nmt::next(self.state, event) else { return };
        let from = core::mem::replace(&mut self.state, to);
        self.events.push_back(Event::State { from, to, by: event });
        self.enter(now_ns, from);
        self.pass(now_ns);
        // A node that did not answer requests has no response to repeat.
        if event != nmt::Event::Soc || !from.answers() {
            self.prepare_responses();
        }
    }

    /// Prepares responses with the current values.
    fn prepare_responses(&mut self) {
        self.prepared = PreparedResponse::new(self.state, &self.signaling, self.static_errors());
    }

    /// Passes through the states that need no event.
    fn pass(&mut self, now_ns: u64) {
        while let Some(to) = nmt::next(self.state, nmt::Event::Done) {
            let from = core::mem::replace(&mut self.state, to);
            self.events.push_back(Event::State { from, to, by: nmt::Event::Done });
            self.enter(now_ns, from);
        }
    }

    /// Enters a state.
    fn enter(&mut self, now_ns: u64, from: State) {
        match self.state {
            State::ResetApplication => self.od.restore(0x2000..=0xffff),
            State::ResetCommunication => {
                // The history must stay readable afterwards.
                self.od.restore(0x1000..=0x1002);
                self.od.restore(0x1004..=0x1fff);
                self.device_errors = [0; 6];
                let address = self.od.set(profile::INTERFACE_ADDRESS, &self.mac.0);
                debug_assert!(address.is_ok(), "every dictionary of a node has its address");
                let written = self.od.set_number(profile::NODE_ID, self.node.0.into());
                debug_assert!(written.is_ok(), "every dictionary of a node has its id");
                self.signaling = Signaling::new();
                self.sdo = Server::new(timeout_ns(&self.od));
                if let Some(datagrams) = &mut self.datagrams {
                    datagrams.reset(timeout_ns(&self.od));
                }
                self.queue.clear();
                self.reset = None;
            }
            State::NotActive => {
                self.map();
                let slot = self.od.number(id(profile::MULTIPLEXED_ASSIGNMENT, self.node.0));
                let cycles = self.od.number(profile::MULTIPLEXED_CYCLES);
                self.multiplex = Multiplex::new(slot != 0 && cycles != 0);
                let us = self.od.number(profile::BASIC_ETHERNET_TIMEOUT_US);
                self.timer_ns = (us != 0).then(|| now_ns.saturating_add(us * 1000));
            }
            State::BasicEthernet => self.manager.release(),
            State::Operational => self.communication_works(),
            State::PreOperational2 if from != State::PreOperational1 => self.enabled = false,
            _ => {}
        }
        if !self.state.is_cyclic() {
            self.cycle = Cycle::NonCyclic;
            self.enabled = false;
            self.soc_ns = None;
            if self.state != State::NotActive {
                self.timer_ns = None;
            }
        }
        let state = self.od.set_number(profile::NMT_STATE, self.state.code().0.into());
        debug_assert!(state.is_ok(), "every dictionary of a node has its state");
    }

    /// Activates the mappings of the dictionary.
    fn map(&mut self) {
        let (mut rpdos, events) = (Vec::new(), &mut self.events);
        let mut channel = |od: &Dictionary, parameters: u16, mapping, direction| {
            let version = PdoVersion(od.number(id(parameters, 2)) as u8);
            let limit = match direction {
                Direction::Receive => usize::MAX,
                Direction::Transmit => od.number(profile::PRES_LIMIT) as usize,
            };
            Channel::new(od, mapping, version, direction, limit).unwrap_or_else(|why| {
                events.push_back(Event::Unmapped { mapping, why });
                Channel::default()
            })
        };
        for number in 0..=u16::from(u8::MAX) {
            let (parameters, mapping) = (profile::RPDO + number, profile::RPDO_MAPPING + number);
            if self.od.number(id(mapping, 0)) != 0 {
                let source = NodeId(self.od.number(id(parameters, 1)) as u8);
                let channel = channel(&self.od, parameters, mapping, Direction::Receive);
                rpdos.push(Rpdo { source, channel, unreadable: false });
            }
        }
        rpdos.retain(|rpdo| !rpdo.channel.is_empty());
        self.tpdo = channel(&self.od, profile::TPDO, profile::TPDO_MAPPING, Direction::Transmit);
        self.rpdos = rpdos;
        self.payload = alloc::vec![0; self.tpdo.len()];
    }

    fn become_ready(&mut self, now_ns: u64) {
        if self.enabled && self.application_ready {
            self.nmt(now_ns, nmt::Event::ReadyToOperate);
        }
    }

    /// Applies a cycle event, and counts losses.
    fn cycle_event(&mut self, now_ns: u64, event: CycleEvent) {
        if !self.state.is_cyclic() {
            return;
        }
        let (next, losses) = self.cycle.next(event);
        self.cycle = next;
        let mut losses = self.multiplex.losses(losses);
        losses.preq &= self.is_in_cycle();
        let counted = [
            (profile::LOSS_OF_SOC, losses.soc, CycleEvent::Soc, code::LOSS_OF_SOC),
            (profile::LOSS_OF_SOA, losses.soa, CycleEvent::Soa, code::LOSS_OF_SOA),
            (profile::LOSS_OF_PREQ, losses.preq, CycleEvent::Preq, code::LOSS_OF_PREQ),
        ];
        let mut reached = false;
        for (index, lost, frame, code) in counted {
            let counter = Counter::record(index);
            if lost && counter.error(&mut self.od) {
                reached = true;
                self.communication_error(code);
            } else if !lost && event == frame {
                counter.good(&mut self.od);
            }
        }
        if losses != Losses::default() {
            self.events.push_back(Event::Lost(losses));
        }
        if losses.soc {
            self.soc_ns = None;
        }
        if losses.soc && event != CycleEvent::SocTimeout {
            self.expect_soc(now_ns);
        }
        if reached {
            self.nmt(now_ns, nmt::Event::ErrorCondition);
        }
    }

    /// Whether the managing node polls this node: not before the node is in its cycle, and not once it is
    /// stopped.
    fn is_in_cycle(&self) -> bool {
        matches!(self.state, State::ReadyToOperate | State::Operational)
    }

    /// Sets the time at which the next SoC is late: one cycle and its tolerance from now.
    fn expect_soc(&mut self, now_ns: u64) {
        let cycle_us = self.od.number(profile::CYCLE_LENGTH_US);
        if !self.state.is_cyclic() || cycle_us == 0 {
            self.timer_ns = None;
            return;
        }
        let late_ns = cycle_us * 1000 + self.od.number(profile::SOC_TOLERANCE_NS);
        self.timer_ns = Some(now_ns.saturating_add(late_ns));
    }

    fn queue_sdo(&mut self, peer: NodeId, frame: &OutgoingFrame) {
        let frame = self.sdo_frame(peer, frame);
        // A frame without room is sent again, as if it was lost.
        let _ = self.queue.push(Priority::GENERIC, frame);
    }
}

impl Node for ControlledNode {
    fn handle_frame(&mut self, now_ns: u64, frame: &[u8]) {
        self.receive(now_ns, frame);
    }

    fn handle_deadline(&mut self, now_ns: u64) {
        if self.timer_ns.is_some_and(|timer| timer <= now_ns) {
            self.timer_ns = None;
            if self.state == State::NotActive {
                self.nmt(now_ns, nmt::Event::BasicEthernetTimeout);
            } else {
                self.cycle_event(now_ns, CycleEvent::SocTimeout);
                self.expect_soc(now_ns);
            }
        }
        self.manager.handle_deadline(now_ns);
        let mut frames = VecDeque::new();
        self.sdo.handle_deadline(now_ns, &mut frames);
        for (peer, frame) in frames {
            self.queue_sdo(peer, &frame);
        }
        if let Some(datagrams) = &mut self.datagrams {
            datagrams.handle_deadline(now_ns);
        }
    }

    fn next_deadline_ns(&self) -> Option<u64> {
        let datagrams = self.datagrams.as_ref().and_then(DatagramServer::next_deadline_ns);
        let others = [self.sdo.next_deadline_ns(), self.manager.next_deadline_ns(), datagrams];
        self.timer_ns.into_iter().chain(others.into_iter().flatten()).min()
    }

    fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.out.pop()
    }

    fn recycle(&mut self, frame: Vec<u8>) {
        self.out.recycle(frame);
    }
}

/// A peer's access to objects: writes are checked, and reported to the application.
struct Access<'a> {
    od: &'a mut Dictionary,
    events: &'a mut VecDeque<Event>,
    store: Option<&'a mut Store>,
}

impl Objects for Access<'_> {
    fn check_write(&self, id: ObjectId, len: usize) -> Result<(), Abort> {
        self.od.check_write(id, len)
    }

    fn read(&mut self, id: ObjectId) -> Result<Vec<u8>, Abort> {
        self.od.read(id).map(<[u8]>::to_vec)
    }

    fn write(&mut self, id: ObjectId, value: &[u8]) -> Result<WriteOutcome, Abort> {
        if let Some(store) = &mut self.store {
            if let Some(written) = store.write(self.od, id, value)? {
                return Ok(written);
            }
        }
        check_write(self.od, id, value)?;
        errors::check_write(id, value)?;
        request::check_write(id, value)?;
        self.od.write(id, value)?;
        errors::written(self.od, id);
        store::written(self.od, id);
        self.events.push_back(Event::Written(id));
        Ok(WriteOutcome::Done)
    }
}
