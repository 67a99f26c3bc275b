//! Frames of other protocols in the asynchronous phase (EPSG DS 301, 4.2.4.2 and 5.1): a node is also a host of
//! an IP network. It sends such frames unchanged once it is invited.

use alloc::vec::Vec;
use core::fmt;
use core::net::Ipv4Addr;

use onbeat_wire::EtherType;
use onbeat_wire::ethernet::{HEADER_LEN, Header, MIN_FRAME_LEN};
use onbeat_wire::powerlink::{NodeId, Priority, RequestedService};

use crate::asynchronous::Queue;
use crate::cn::ControlledNode;
use crate::mn::ManagingNode;
use crate::nmt::State;
use crate::od::{Dictionary, profile};

/// Network mask of every network: a class C network.
pub const MASK: Ipv4Addr = Ipv4Addr::new(255, 255, 255, 0);
/// The gateway to other networks.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(192, 168, 100, 254);

/// Maximum number of queued frames of other protocols. They share the queue with SDO, which must find room.
const WAITING: usize = 16;

/// The address of a node, which is derived from its id: 192.168.100.ID.
pub const fn address(NodeId(node): NodeId) -> Ipv4Addr {
    Ipv4Addr::new(192, 168, 100, node)
}

/// The reason why a frame is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendError {
    /// The queue is full: retry later.
    Full,
    /// The node does not communicate.
    State(State),
    /// The frame is shorter than a header, or longer than the asynchronous phase permits (0x1F98/8).
    Length {
        /// Its octets, without FCS.
        octets: usize,
        /// The maximum.
        most: usize,
    },
    /// A POWERLINK frame, which only the node itself sends.
    Powerlink,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::Full => {
                f.write_str("the queue for the asynchronous phase is full; send the frame later")
            }
            SendError::State(state) => write!(f, "the node does not communicate in state {state}"),
            SendError::Length { octets, most } => {
                write!(f, "invalid frame length {octets}; use {HEADER_LEN} to {most} octets")
            }
            SendError::Powerlink => f.write_str("POWERLINK frames are sent by the node only"),
        }
    }
}

impl core::error::Error for SendError {}

/// The frame, padded, if it can be sent.
fn checked(od: &Dictionary, frame: &[u8]) -> Result<Vec<u8>, SendError> {
    let most = HEADER_LEN + od.number(profile::ASYNC_MTU) as usize;
    let length = SendError::Length { octets: frame.len(), most };
    let header = Header::new_checked(frame).map_err(|_| length)?;
    if frame.len() > most {
        return Err(length);
    }
    if header.ethertype() == EtherType::POWERLINK {
        return Err(SendError::Powerlink);
    }
    let mut frame = frame.to_vec();
    frame.resize(frame.len().max(MIN_FRAME_LEN), 0);
    Ok(frame)
}

fn room(queue: &Queue) -> bool {
    queue.generic() < WAITING
}

impl ControlledNode {
    /// Whether there is room for a frame of another protocol.
    pub fn has_room(&self) -> bool {
        room(&self.queue)
    }

    /// Sends a frame of another protocol once the node is invited; without FCS, from the node's address. In
    /// BASIC_ETHERNET it is sent at once, since there is no cycle.
    ///
    /// # Errors
    /// The frame is too long, or the queue is full.
    pub fn send_other(&mut self, frame: &[u8]) -> Result<(), SendError> {
        let frame = checked(&self.od, frame)?;
        if !self.state.communicates() {
            return Err(SendError::State(self.state));
        }
        if self.state == State::BasicEthernet {
            self.out.push(frame);
            return Ok(());
        }
        let sent = room(&self.queue) && self.queue.push(Priority::GENERIC, frame);
        if sent { Ok(()) } else { Err(SendError::Full) }
    }
}

impl ManagingNode {
    /// Whether there is room for a frame of another protocol.
    pub fn has_room(&self) -> bool {
        room(&self.others)
    }

    /// Sends a frame of another protocol in an asynchronous phase of this node; without FCS, from the node's
    /// address. In BASIC_ETHERNET it is sent at once, since there is no cycle.
    ///
    /// # Errors
    /// The frame is too long, or the queue is full.
    pub fn send_other(&mut self, frame: &[u8]) -> Result<(), SendError> {
        let frame = checked(&self.od, frame)?;
        if matches!(self.state, State::Off | State::NotActive) {
            return Err(SendError::State(self.state));
        }
        if self.state == State::BasicEthernet {
            self.out.push(frame);
            return Ok(());
        }
        let sent = room(&self.others) && self.others.push(Priority::GENERIC, frame);
        if sent { Ok(()) } else { Err(SendError::Full) }
    }

    /// Removes the frame for the next phase.
    pub(crate) fn take_other(&mut self) -> Option<Vec<u8>> {
        self.others.take(RequestedService::UNSPECIFIED_INVITE)
    }
}
