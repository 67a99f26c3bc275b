//! What a runner asks of a node, beyond what a bus does.

use std::fmt::Debug;
use std::time::{SystemTime, UNIX_EPOCH};

use onbeat_powerlink::Node;
use onbeat_powerlink::cn::{self, ControlledNode};
use onbeat_powerlink::mn::{self, ManagingNode};
use onbeat_powerlink::nmt::State;
use onbeat_powerlink::od::{Abort, Dictionary, ObjectId};
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
        matches!(event, cn::Event::State { .. } | cn::Event::Unmapped { .. })
    }

    fn words(event: &cn::Event) -> String {
        match event {
            cn::Event::State { from, to, by } => format!("{from} -> {to}: {by:?}"),
            cn::Event::Unmapped { mapping, why } => {
                format!("mapping {mapping:04X} cannot be used, {why}")
            }
            _ => String::new(),
        }
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
        use mn::Event::{Failed, Node, OtherManagingNode, State};
        matches!(event, State { .. } | Node(..) | Failed(..) | OtherManagingNode(_))
    }

    fn words(event: &mn::Event) -> String {
        match event {
            mn::Event::State { from, to, by } => format!("{from} -> {to}: {by:?}"),
            mn::Event::Node(node, step) => format!("node {node}: {step:?}"),
            mn::Event::Failed(node, failure) => format!("node {node} failed: {failure:?}"),
            mn::Event::OtherManagingNode(mac) => {
                format!("another managing node is on the bus: {mac}")
            }
            _ => String::new(),
        }
    }

    fn objects(&self) -> &Dictionary {
        ManagingNode::objects(self)
    }

    fn set_object(&mut self, object: ObjectId, value: &[u8]) -> Result<(), Abort> {
        ManagingNode::set_object(self, object, value)
    }
}
