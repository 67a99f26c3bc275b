//! Frames of other protocols, which travel in the asynchronous phase (EPSG DS 301, 4.2.4.2 and 5.1): a
//! node is a host of an IP network, too, and its frames are on the bus as they are, once it is invited.

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
/// Where frames to other networks go.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(192, 168, 100, 254);

/// Frames of other protocols that wait at most. They share the queue with SDO, which must find room.
const WAITING: usize = 16;

/// The address of a node, which follows from its id: 192.168.100.ID.
pub const fn address(NodeId(node): NodeId) -> Ipv4Addr {
    Ipv4Addr::new(192, 168, 100, node)
}

/// Why a frame is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotSent {
    /// As many wait already as there is room for: it may be sent later.
    Full,
    /// The node does not communicate.
    State(State),
    /// It is shorter than a header, or longer than the asynchronous phase allows (0x1F98/8).
    Length {
        /// Its octets, without FCS.
        octets: usize,
        /// The most there may be.
        most: usize,
    },
    /// It is POWERLINK's own, which the node alone sends.
    Powerlink,
}

impl fmt::Display for NotSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotSent::Full => f.write_str("too many frames wait for the asynchronous phase"),
            NotSent::State(state) => write!(f, "the node does not communicate, it is in {state}"),
            NotSent::Length { octets, most } => {
                write!(f, "a frame of {octets} octets; {HEADER_LEN} to {most} can be sent")
            }
            NotSent::Powerlink => f.write_str("a frame of POWERLINK is not another protocol's"),
        }
    }
}

impl core::error::Error for NotSent {}

/// The frame, padded, where it can be sent.
fn checked(od: &Dictionary, frame: &[u8]) -> Result<Vec<u8>, NotSent> {
    let most = HEADER_LEN + od.number(profile::ASYNC_MTU) as usize;
    let length = NotSent::Length { octets: frame.len(), most };
    let header = Header::new_checked(frame).map_err(|_| length)?;
    if frame.len() > most {
        return Err(length);
    }
    if header.ethertype() == EtherType::POWERLINK {
        return Err(NotSent::Powerlink);
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

    /// Sends a frame of another protocol once the node is invited; without FCS, from the node's address.
    /// In BASIC_ETHERNET it is sent at once: there is no cycle to wait for.
    ///
    /// # Errors
    /// It is too long, or there is no room for it.
    pub fn send_other(&mut self, frame: &[u8]) -> Result<(), NotSent> {
        let frame = checked(&self.od, frame)?;
        if !self.state.communicates() {
            return Err(NotSent::State(self.state));
        }
        if self.state == State::BasicEthernet {
            self.out.push(frame);
            return Ok(());
        }
        let sent = room(&self.queue) && self.queue.push(Priority::GENERIC, frame);
        if sent { Ok(()) } else { Err(NotSent::Full) }
    }
}

impl ManagingNode {
    /// Whether there is room for a frame of another protocol.
    pub fn has_room(&self) -> bool {
        room(&self.others)
    }

    /// Sends a frame of another protocol in an asynchronous phase that the node gives itself; without FCS,
    /// from the node's address. In BASIC_ETHERNET it is sent at once: there is no cycle to wait for.
    ///
    /// # Errors
    /// It is too long, or there is no room for it.
    pub fn send_other(&mut self, frame: &[u8]) -> Result<(), NotSent> {
        let frame = checked(&self.od, frame)?;
        if matches!(self.state, State::Off | State::NotActive) {
            return Err(NotSent::State(self.state));
        }
        if self.state == State::BasicEthernet {
            self.out.push(frame);
            return Ok(());
        }
        let sent = room(&self.others) && self.others.push(Priority::GENERIC, frame);
        if sent { Ok(()) } else { Err(NotSent::Full) }
    }

    /// What of it goes out in the next phase.
    pub(crate) fn take_other(&mut self) -> Option<Vec<u8>> {
        self.others.take(RequestedService::UNSPECIFIED_INVITE)
    }
}
