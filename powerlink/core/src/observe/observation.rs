//! What is seen on a bus.

use core::fmt;
use core::net::Ipv4Addr;

use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::{Body, HostName, IdentResponse, NmtCommandId, NmtState, NodeId};

/// What a managing node asks a node for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Request {
    /// Its process data: PReq.
    Poll,
    /// Who it is: SoA with IdentRequest.
    Ident,
    /// Its state and errors: SoA with StatusRequest.
    Status,
    /// A frame of its own: SoA with an invite.
    Invite,
}

impl Request {
    /// All of them, in the order of [`Node::requests`].
    pub const ALL: [Request; 4] = [Request::Poll, Request::Ident, Request::Status, Request::Invite];
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Request::Poll => "PReq",
            Request::Ident => "IdentRequest",
            Request::Status => "StatusRequest",
            Request::Invite => "invite",
        })
    }
}

/// What a frame means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observation {
    /// A cycle ended with the SoC of the next.
    Cycle {
        /// From SoC to SoC, in nanoseconds.
        interval_ns: u64,
        /// By which RelativeTime went on: what the cycle should have taken.
        step_ns: u64,
    },
    /// A node answered.
    Response {
        /// The node.
        node: NodeId,
        /// What it was asked for.
        request: Request,
        /// From request to answer, in nanoseconds.
        delay_ns: u64,
    },
    /// A node did not answer before the managing node went on.
    Unanswered {
        /// The node.
        node: NodeId,
        /// What it was asked for.
        request: Request,
    },
    /// A node sent what it was not asked for, or too late.
    Unasked {
        /// The node.
        node: NodeId,
    },
    /// A node is in another state than it told before.
    State {
        /// The node.
        node: NodeId,
        /// The state before; none of a node that was not heard since it was reset.
        from: Option<NmtState>,
        /// The state now.
        to: NmtState,
    },
    /// A node said who it is, for the first time or otherwise than before.
    Identified {
        /// The node.
        node: NodeId,
        /// Who.
        identity: Identity,
    },
    /// The managing node commands.
    Command {
        /// Whom; 255 is all.
        node: NodeId,
        /// What.
        command: NmtCommandId,
    },
    /// A node's frames come from another address than before: two devices have one node id.
    OtherAddress {
        /// The node.
        node: NodeId,
        /// The address before.
        before: MacAddress,
        /// The address now.
        mac: MacAddress,
    },
}

/// Frames by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Frames {
    /// SoC.
    pub soc: u64,
    /// PReq.
    pub preq: u64,
    /// PRes.
    pub pres: u64,
    /// SoA.
    pub soa: u64,
    /// ASnd.
    pub asnd: u64,
    /// AMNI.
    pub amni: u64,
    /// Frames of other protocols.
    pub foreign: u64,
    /// What is cut off, or a kind of message that is unknown.
    pub malformed: u64,
}

impl Frames {
    pub(super) fn count(&mut self, body: &Body<'_>) {
        *match body {
            Body::Soc(_) => &mut self.soc,
            Body::Preq(_) => &mut self.preq,
            Body::Pres(_) => &mut self.pres,
            Body::Soa(_) => &mut self.soa,
            Body::Asnd(_) => &mut self.asnd,
            Body::Amni => &mut self.amni,
        } += 1;
    }

    /// Messages of POWERLINK that could be read.
    pub const fn messages(&self) -> u64 {
        self.soc + self.preq + self.pres + self.soa + self.asnd + self.amni
    }
}

/// How often a node was asked for something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Requests {
    /// Requests.
    pub asked: u64,
    /// Requests that nobody answered before the next.
    pub unanswered: u64,
}

/// What is known of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Node {
    /// Where its frames come from.
    pub mac: Option<MacAddress>,
    /// The state it told last.
    pub state: Option<NmtState>,
    /// Who it is.
    pub identity: Option<Identity>,
    /// The cycle of a multiplexed cycle in which it was polled last, from 1 on; nothing of a node that
    /// is polled in every cycle.
    pub slot: Option<u64>,
    /// By [`Request`], in the order of [`Request::ALL`].
    pub requests: [Requests; Request::ALL.len()],
    /// Its PRes.
    pub responses: u64,
    /// Frames it was not asked for, or too late.
    pub unasked: u64,
    /// How often its frames came from another address than the one before.
    pub addresses: u64,
}

impl Node {
    /// How often it was asked.
    pub const fn requests(&self, request: Request) -> Requests {
        self.requests[request as usize]
    }

    pub(super) fn count(&mut self, request: Request) -> &mut Requests {
        &mut self.requests[request as usize]
    }
}

/// Who a node is: what of its IdentResponse tells it from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// 0x1000.
    pub device_type: u32,
    /// 0x1018/1.
    pub vendor_id: u32,
    /// 0x1018/2.
    pub product_code: u32,
    /// 0x1018/3.
    pub revision_number: u32,
    /// 0x1018/4.
    pub serial_number: u32,
    /// 0x1020/1, in days since 1984-01-01.
    pub configuration_date: u32,
    /// 0x1020/2, in milliseconds since midnight.
    pub configuration_time: u32,
    /// Its IP address.
    pub address: Ipv4Addr,
    /// Its host name.
    pub host_name: HostName,
}

impl Identity {
    pub(super) fn of(ident: &IdentResponse<'_>) -> Self {
        Identity {
            device_type: ident.device_type,
            vendor_id: ident.vendor_id,
            product_code: ident.product_code,
            revision_number: ident.revision_number,
            serial_number: ident.serial_number,
            configuration_date: ident.configuration_date,
            configuration_time: ident.configuration_time,
            address: ident.address,
            host_name: ident.host_name,
        }
    }
}
