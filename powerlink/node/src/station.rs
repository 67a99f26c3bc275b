//! What a runner asks of a node, beyond what a bus does.

use std::fmt::Debug;
use std::time::{SystemTime, UNIX_EPOCH};

use onbeat_powerlink::Node;
use onbeat_powerlink::cn::{self, ControlledNode};
use onbeat_powerlink::ethernet::NotSent;
use onbeat_powerlink::mn::{self, ManagingNode};
use onbeat_powerlink::nmt::State;
use onbeat_powerlink::od::{Abort, Dictionary, ObjectId, profile};
use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::{NetTime, NodeId, multicast};

/// A controlled or a managing node.
pub trait Station: Node + Send {
    /// What happens to it.
    type Event: Copy + Debug + Send;

    /// Groups whose frames it must receive.
    const GROUPS: &'static [MacAddress];

    /// Its id.
    fn node(&self) -> NodeId;

    /// Its state.
    fn state(&self) -> State;

    /// The state that it is to get to.
    fn goal(&self) -> State {
        State::Operational
    }

    /// Turns it on.
    fn start(&mut self, now_ns: u64);

    /// What happened.
    fn poll_event(&mut self) -> Option<Self::Event>;

    /// Whether the process has its turn: what came is in the objects, and what it gives now goes out
    /// in the next cycle.
    fn is_turn(event: &Self::Event) -> bool;

    /// Whether an event is more than what every cycle has.
    fn is_kept(event: &Self::Event) -> bool;

    /// What an event says to people; nothing of those that are not kept.
    fn words(event: &Self::Event) -> String;

    /// The station as a controlled node, for its automatic responses and its parameters.
    fn controlled(&mut self) -> Option<&mut ControlledNode> {
        None
    }

    /// The station as a managing node, for launched cycles.
    fn managing(&mut self) -> Option<&mut ManagingNode> {
        None
    }

    /// Whether there is room for a frame of another protocol.
    fn has_room(&self) -> bool;

    /// Sends a frame of another protocol in an asynchronous phase.
    ///
    /// # Errors
    /// It is none that can be sent, or there is no room for it.
    fn send_other(&mut self, frame: &[u8]) -> Result<(), NotSent>;

    /// Octets of such a frame behind its header, at most (0x1F98/8).
    fn mtu(&self) -> usize {
        self.objects().number(profile::ASYNC_MTU) as usize
    }

    /// Its objects.
    fn objects(&self) -> &Dictionary;

    /// Gives an object a value.
    ///
    /// # Errors
    /// There is no such object, or the value does not fit it.
    fn set_object(&mut self, object: ObjectId, value: &[u8]) -> Result<(), Abort>;
}

impl Station for ControlledNode {
    type Event = cn::Event;

    const GROUPS: &'static [MacAddress] =
        &[multicast::SOC, multicast::PRES, multicast::SOA, multicast::ASND];

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
        use cn::Event::{InvalidFormat, NotStored, Restored, State, Stored, Unmapped};
        matches!(event, State { .. } | Unmapped { .. } | InvalidFormat)
            || matches!(event, Stored | Restored | NotStored)
    }

    fn words(event: &cn::Event) -> String {
        match event {
            cn::Event::State { from, to, by } => format!("{from} -> {to}: {by}"),
            cn::Event::Unmapped { mapping, why } => {
                format!("mapping {mapping:04X} cannot be used, {why}")
            }
            cn::Event::InvalidFormat => "a poll could not be read".into(),
            cn::Event::Stored => "parameters are kept".into(),
            cn::Event::Restored => "parameters are to be the defaults".into(),
            cn::Event::NotStored => "parameters could not be kept".into(),
            _ => String::new(),
        }
    }

    fn controlled(&mut self) -> Option<&mut ControlledNode> {
        Some(self)
    }

    fn has_room(&self) -> bool {
        ControlledNode::has_room(self)
    }

    fn send_other(&mut self, frame: &[u8]) -> Result<(), NotSent> {
        ControlledNode::send_other(self, frame)
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

    // SoC and SoA as well: another managing node would send them.
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
        // 32 bits of seconds begin anew in 2106.
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
        use mn::Event::{Failed, Missing, Node, OtherManagingNode, Reported, State};
        matches!(event, State { .. } | Node(..) | Failed(..) | Missing(_))
            || matches!(event, Reported(..) | OtherManagingNode(_))
    }

    fn words(event: &mn::Event) -> String {
        match event {
            mn::Event::State { from, to, by } => format!("{from} -> {to}: {by}"),
            mn::Event::Node(node, step) => format!("node {node}: {step}"),
            mn::Event::Failed(node, failure) => format!("node {node} failed: {failure}"),
            mn::Event::Missing(node) => format!("mandatory node {node} does not respond"),
            mn::Event::Reported(node, entry) => format!(
                "node {node} reported error {:04X}, kind {:04X}, at {}; {:#018x}",
                entry.code, entry.kind, entry.time, entry.additional
            ),
            mn::Event::OtherManagingNode(mac) => {
                format!("another managing node is on the bus: {mac}")
            }
            _ => String::new(),
        }
    }

    fn managing(&mut self) -> Option<&mut ManagingNode> {
        Some(self)
    }

    fn has_room(&self) -> bool {
        ManagingNode::has_room(self)
    }

    fn send_other(&mut self, frame: &[u8]) -> Result<(), NotSent> {
        ManagingNode::send_other(self, frame)
    }

    fn objects(&self) -> &Dictionary {
        ManagingNode::objects(self)
    }

    fn set_object(&mut self, object: ObjectId, value: &[u8]) -> Result<(), Abort> {
        ManagingNode::set_object(self, object, value)
    }
}
