//! The interface between a runner and a node, besides that of a bus.

use std::fmt::Debug;
use std::net::SocketAddrV4;
use std::time::{SystemTime, UNIX_EPOCH};

use onbeat_powerlink::Node;
use onbeat_powerlink::cn::{self, ControlledNode};
use onbeat_powerlink::ethernet::SendError;
use onbeat_powerlink::mn::{self, BootRecord, ManagingNode};
use onbeat_powerlink::nmt::State;
use onbeat_powerlink::od::{Abort, Dictionary, ObjectId, profile};
use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::{NetTime, NodeId, multicast};

/// A controlled or a managing node.
pub trait Station: Node + Send {
    /// Its events.
    type Event: Copy + Debug + Send;

    /// Groups whose frames it must receive.
    const GROUPS: &'static [MacAddress];

    /// Its id.
    fn node(&self) -> NodeId;

    /// Its state.
    fn state(&self) -> State;

    /// Its target state.
    fn goal(&self) -> State {
        State::Operational
    }

    /// Turns it on.
    fn start(&mut self, now_ns: u64);

    /// Returns the next event.
    fn poll_event(&mut self) -> Option<Self::Event>;

    /// Whether the event is the process's turn: received values are in the objects, and values set now are sent
    /// in the next cycle.
    fn is_turn(event: &Self::Event) -> bool;

    /// Whether an event is recorded: not those of every cycle.
    fn is_kept(event: &Self::Event) -> bool;

    /// The text of an event; empty for events that are not recorded.
    fn description(event: &Self::Event) -> String;

    /// The former and the new state of the node, if the event is its change.
    fn state_change(event: &Self::Event) -> Option<(State, State)>;

    /// The text of an event that is printed as it occurs: a change of a state, or its cause.
    fn progress(&self, event: &Self::Event) -> Option<String> {
        let (_, to) = Self::state_change(event)?;
        to.communicates().then(|| format!("node {}: {}", self.node(), Self::description(event)))
    }

    /// The station as a controlled node, for its automatic responses and its parameters.
    fn controlled(&mut self) -> Option<&mut ControlledNode> {
        None
    }

    /// The station as a managing node, for launched cycles.
    fn managing(&mut self) -> Option<&mut ManagingNode> {
        None
    }

    /// The number of received frames of other managing nodes than that of the network.
    fn foreign_frames(&self) -> u64;

    /// The number of requests that a controlled node did not answer, since their slot was over.
    fn late_requests(&self) -> u64 {
        0
    }

    /// The number of instants of SoC at which a managing node sent none, since the cycle before exceeded its length.
    fn skipped_cycles(&self) -> u64 {
        0
    }

    /// The boot of each node of a managing node.
    fn boots(&self) -> Vec<BootRecord> {
        Vec::new()
    }

    /// Whether there is room for a frame of another protocol.
    fn has_room(&self) -> bool;

    /// Sends a frame of another protocol in an asynchronous phase.
    ///
    /// # Errors
    /// It cannot be sent, or the queue is full.
    fn send_other(&mut self, frame: &[u8]) -> Result<(), SendError>;

    /// Serves SDO over UDP, before the station is turned on.
    fn serve_datagrams(&mut self);

    /// Handles a datagram of a peer on the IP network.
    fn handle_datagram(&mut self, now_ns: u64, from: SocketAddrV4, datagram: &[u8]);

    /// Returns the next datagram to send.
    fn poll_datagram(&mut self) -> Option<(SocketAddrV4, Vec<u8>)>;

    /// Maximum octets of a frame of another protocol after its header (0x1F98/8).
    fn mtu(&self) -> usize {
        self.objects().number(profile::ASYNC_MTU) as usize
    }

    /// Its objects.
    fn objects(&self) -> &Dictionary;

    /// Sets an object.
    ///
    /// # Errors
    /// The object does not exist, or the value does not fit it.
    fn set_object(&mut self, object: ObjectId, value: &[u8]) -> Result<(), Abort>;
}

impl Station for ControlledNode {
    type Event = cn::Event;

    // AMNI as well: it announces a redundant managing node.
    const GROUPS: &'static [MacAddress] =
        &[multicast::SOC, multicast::PRES, multicast::SOA, multicast::ASND, multicast::AMNI];

    fn node(&self) -> NodeId {
        ControlledNode::node(self)
    }

    fn state(&self) -> State {
        ControlledNode::state(self)
    }

    fn start(&mut self, now_ns: u64) {
        ControlledNode::start(self, now_ns);
    }

    fn poll_event(&mut self) -> Option<cn::Event> {
        ControlledNode::poll_event(self)
    }

    fn is_turn(event: &cn::Event) -> bool {
        matches!(event, cn::Event::Cycle)
    }

    fn is_kept(event: &cn::Event) -> bool {
        use cn::Event::{ForeignManager, InvalidFormat, ManagerReplaced, State, Unmapped};
        use cn::Event::{LateRequest, NotStored, Restored, Stored};
        matches!(event, State { .. } | Unmapped { .. } | InvalidFormat)
            || matches!(event, ForeignManager(_) | ManagerReplaced { .. })
            || matches!(event, LateRequest(_) | Stored | Restored | NotStored)
    }

    fn description(event: &cn::Event) -> String {
        match event {
            cn::Event::State { from, to, by } => format!("{from} -> {to}: {by}"),
            cn::Event::Unmapped { mapping, why } => {
                format!("cannot use mapping {mapping:04X}: {why}")
            }
            cn::Event::InvalidFormat => "a poll had an invalid format".into(),
            cn::Event::ForeignManager(mac) => {
                format!("frames of another managing node ignored: {mac}")
            }
            cn::Event::ManagerReplaced { before, mac } => {
                format!("managing node {mac} has taken over from {before}")
            }
            cn::Event::LateRequest(count) => {
                format!("late request not answered, its slot was over; {count} so far")
            }
            cn::Event::Stored => "parameters stored".into(),
            cn::Event::Restored => {
                "default parameters restored, effective after the next reset".into()
            }
            cn::Event::NotStored => "parameters could not be stored".into(),
            _ => String::new(),
        }
    }

    fn state_change(event: &cn::Event) -> Option<(State, State)> {
        match event {
            cn::Event::State { from, to, .. } => Some((*from, *to)),
            _ => None,
        }
    }

    fn controlled(&mut self) -> Option<&mut ControlledNode> {
        Some(self)
    }

    fn foreign_frames(&self) -> u64 {
        ControlledNode::foreign_frames(self)
    }

    fn late_requests(&self) -> u64 {
        ControlledNode::late_requests(self)
    }

    fn has_room(&self) -> bool {
        ControlledNode::has_room(self)
    }

    fn send_other(&mut self, frame: &[u8]) -> Result<(), SendError> {
        ControlledNode::send_other(self, frame)
    }

    fn serve_datagrams(&mut self) {
        ControlledNode::serve_datagrams(self);
    }

    fn handle_datagram(&mut self, now_ns: u64, from: SocketAddrV4, datagram: &[u8]) {
        ControlledNode::handle_datagram(self, now_ns, from, datagram);
    }

    fn poll_datagram(&mut self) -> Option<(SocketAddrV4, Vec<u8>)> {
        ControlledNode::poll_datagram(self)
    }

    fn objects(&self) -> &Dictionary {
        ControlledNode::objects(self)
    }

    fn set_object(&mut self, object: ObjectId, value: &[u8]) -> Result<(), Abort> {
        ControlledNode::set_object(self, object, value)
    }
}

impl Station for ManagingNode {
    type Event = mn::Event;

    // SoC and SoA as well: they reveal another managing node.
    const GROUPS: &'static [MacAddress] =
        &[multicast::SOC, multicast::PRES, multicast::SOA, multicast::ASND, multicast::AMNI];

    fn node(&self) -> NodeId {
        NodeId::MN
    }

    fn state(&self) -> State {
        ManagingNode::state(self)
    }

    fn goal(&self) -> State {
        let startup = self.objects().number(profile::STARTUP);
        match startup & u64::from(profile::startup::BASIC_ETHERNET) {
            0 => State::Operational,
            _ => State::BasicEthernet,
        }
    }

    fn start(&mut self, now_ns: u64) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // 32 bits of seconds overflow in 2106.
        let (seconds, nanoseconds) = (since.as_secs() as u32, since.subsec_nanos());
        ManagingNode::start(self, now_ns, NetTime { seconds, nanoseconds });
    }

    fn poll_event(&mut self) -> Option<mn::Event> {
        ManagingNode::poll_event(self)
    }

    fn is_turn(event: &mn::Event) -> bool {
        matches!(event, mn::Event::Exchanged)
    }

    fn is_kept(event: &mn::Event) -> bool {
        use mn::Event::{Delayed, Failed, ForeignAddress, Missing, Node, OtherManagingNode};
        use mn::Event::{Reported, Skipped, State, Unmapped};
        matches!(event, State { .. } | Node(..) | Failed(..) | Missing(_) | Delayed { .. })
            || matches!(event, Reported(..) | OtherManagingNode(_) | ForeignAddress(..))
            || matches!(event, Skipped(..) | Unmapped { .. })
    }

    fn description(event: &mn::Event) -> String {
        match event {
            mn::Event::State { from, to, by } => format!("{from} -> {to}: {by}"),
            mn::Event::Node(node, step) => format!("node {node}: {step}"),
            mn::Event::Failed(node, failure) => format!("node {node} failed: {failure}"),
            mn::Event::Delayed { node, failures, wait_ns } => {
                let wait_s = *wait_ns as f64 / 1e9;
                format!("node {node}: next attempt in {wait_s} s, after {failures} failures")
            }
            mn::Event::Skipped(node, object) => {
                format!("node {node} lacks object {object}, which is optional: not configured")
            }
            mn::Event::ForeignAddress(node, mac) => {
                format!("frames with the id of node {node} from another address ignored: {mac}")
            }
            mn::Event::Missing(node) => format!("mandatory node {node} does not respond"),
            mn::Event::Reported(node, entry) => format!(
                "node {node} reported error {:04X}, kind {:04X}, at {}; {:#018x}",
                entry.code, entry.kind, entry.time, entry.additional
            ),
            mn::Event::Unmapped { mapping, why } => format!(
                "cannot use mapping {mapping:04X}, which another node wrote: {why}; restored the \
                 parameters of the start"
            ),
            mn::Event::OtherManagingNode(mac) => {
                format!("another managing node is on the bus: {mac}")
            }
            _ => String::new(),
        }
    }

    fn state_change(event: &mn::Event) -> Option<(State, State)> {
        match event {
            mn::Event::State { from, to, .. } => Some((*from, *to)),
            _ => None,
        }
    }

    fn progress(&self, event: &mn::Event) -> Option<String> {
        use mn::Event::{Delayed, Failed, Missing, Node, OtherManagingNode};
        match event {
            mn::Event::State { .. } => {
                Some(format!("node {}: {}", NodeId::MN, Self::description(event)))
            }
            Node(..) | Failed(..) | Delayed { .. } | Missing(_) | OtherManagingNode(_) => {
                Some(Self::description(event))
            }
            _ => None,
        }
    }

    fn managing(&mut self) -> Option<&mut ManagingNode> {
        Some(self)
    }

    fn foreign_frames(&self) -> u64 {
        ManagingNode::foreign_frames(self)
    }

    fn skipped_cycles(&self) -> u64 {
        ManagingNode::skipped_cycles(self)
    }

    fn boots(&self) -> Vec<BootRecord> {
        ManagingNode::boots(self).collect()
    }

    fn has_room(&self) -> bool {
        ManagingNode::has_room(self)
    }

    fn send_other(&mut self, frame: &[u8]) -> Result<(), SendError> {
        ManagingNode::send_other(self, frame)
    }

    fn serve_datagrams(&mut self) {
        ManagingNode::serve_datagrams(self);
    }

    fn handle_datagram(&mut self, now_ns: u64, from: SocketAddrV4, datagram: &[u8]) {
        ManagingNode::handle_datagram(self, now_ns, from, datagram);
    }

    fn poll_datagram(&mut self) -> Option<(SocketAddrV4, Vec<u8>)> {
        ManagingNode::poll_datagram(self)
    }

    fn objects(&self) -> &Dictionary {
        ManagingNode::objects(self)
    }

    fn set_object(&mut self, object: ObjectId, value: &[u8]) -> Result<(), Abort> {
        ManagingNode::set_object(self, object, value)
    }
}
