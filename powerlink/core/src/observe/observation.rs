//! Observations of a bus.

use core::fmt;
use core::net::Ipv4Addr;

use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::{Body, HostName, IdentResponse, NmtCommandId, NmtState, NodeId};

/// A request of the managing node to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Request {
    /// Its process data: PReq.
    Poll,
    /// Its identity: SoA with IdentRequest.
    Ident,
    /// Its state and errors: SoA with StatusRequest.
    Status,
    /// A queued frame: SoA with an invite.
    Invite,
}

impl Request {
    /// All requests, in the order of [`Node::requests`].
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

/// The meaning of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observation {
    /// A cycle ended with the SoC of the next.
    Cycle {
        /// From SoC to SoC, in nanoseconds.
        interval_ns: u64,
        /// The increment of RelativeTime: the nominal cycle time.
        step_ns: u64,
    },
    /// A node answered.
    Response {
        /// The node.
        node: NodeId,
        /// The request.
        request: Request,
        /// From request to response, in nanoseconds.
        delay_ns: u64,
    },
    /// A node did not answer before the next request of the managing node.
    Unanswered {
        /// The node.
        node: NodeId,
        /// The request.
        request: Request,
    },
    /// A node sent an unsolicited frame, or a late response.
    Unsolicited {
        /// The node.
        node: NodeId,
    },
    /// A node reported another state than before.
    State {
        /// The node.
        node: NodeId,
        /// The former state; none for the first response after a reset.
        from: Option<NmtState>,
        /// The state now.
        to: NmtState,
    },
    /// A node reported its identity, for the first time or with a change.
    Identified {
        /// The node.
        node: NodeId,
        /// The identity.
        identity: Identity,
    },
    /// A command of the managing node.
    Command {
        /// The destination; 255: all.
        node: NodeId,
        /// The command.
        command: NmtCommandId,
    },
    /// A frame with the id of a node is from another address: of a second device with this id, or forged.
    ForeignAddress {
        /// The node.
        node: NodeId,
        /// Its address.
        of_node: MacAddress,
        /// The address of the frame.
        mac: MacAddress,
    },
    /// A redundant managing node took over after its announcement (AMNI).
    TakenOver {
        /// The address of the former managing node.
        before: MacAddress,
        /// The address of the new one.
        mac: MacAddress,
    },
    /// A node has another source address than before its silence: the device was replaced.
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
    /// Truncated frames, or unknown message types.
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

    /// Valid messages of POWERLINK.
    pub const fn messages(&self) -> u64 {
        self.soc + self.preq + self.pres + self.soa + self.asnd + self.amni
    }
}

/// Numbers of requests to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Requests {
    /// Requests.
    pub sent: u64,
    /// Requests without a response before the next request.
    pub unanswered: u64,
}

/// Observations of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Node {
    /// The source address of its frames.
    pub mac: Option<MacAddress>,
    /// Its last reported state.
    pub state: Option<NmtState>,
    /// Its identity.
    pub identity: Option<Identity>,
    /// The cycle of a multiplexed cycle in which it was last polled, starting at 1; none if it is polled in every
    /// cycle.
    pub slot: Option<u64>,
    /// By [`Request`], in the order of [`Request::ALL`].
    pub requests: [Requests; Request::ALL.len()],
    /// Its PRes.
    pub responses: u64,
    /// Unsolicited frames, or late responses.
    pub unsolicited: u64,
    /// Changes of the source address after a silence.
    pub addresses: u64,
    /// Changes of the managing node's address after the announcement of a redundant one.
    pub takeovers: u64,
    /// Frames with its id from another address.
    pub foreign: u64,
}

impl Node {
    /// The numbers of a request.
    pub const fn requests(&self, request: Request) -> Requests {
        self.requests[request as usize]
    }

    pub(super) fn count(&mut self, request: Request) -> &mut Requests {
        &mut self.requests[request as usize]
    }
}

/// The identity of a node: the fields of its IdentResponse that distinguish it.
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
