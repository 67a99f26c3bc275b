//! FRER in user space, by packet sockets or by AF_XDP.
//!
//! ```text
//!            ┌─ Forwarder, a thread ─────────────────────────────────────────────┐
//! port 0 ─── │ Input (ring) ──┐                                    ┌── Output    │ ─── port 0
//! port 1 ─── │ Input (ring) ──┴── Plane::frame ── Replica::parts ──┴── Output    │ ─── port 1
//!            └──────────────────────────▲────────────────────────────────────────┘
//!                                       │ between two batches
//!                         Control: changes of streams, counters, resets
//! ```
//!
//! The streams are an [`onbeat_frer::plane::Plane`] owned by the forwarding thread alone: no frame waits for
//! a lock. Other threads submit requests, which are served between two batches.
//!
//! - With packet sockets ([`Port::packet`]) it receives copies. Frames that match no stream are ignored: the
//!   network stack receives them as well. The stack also receives frames of streams; on an interface without
//!   addresses it drops them, but a bridge would forward them a second time.
//! - With AF_XDP ([`Port::xsk`]) it receives the frames that an XDP program redirects, and the network stack
//!   receives the rest. All such ports share memory: one replica of a frame is the frame itself, its headers
//!   edited in place; the others are copies.

mod control;
mod error;
mod forwarder;
mod lanes;
mod plane;
mod port;

use std::ops::AddAssign;

pub use onbeat_link::raw::Unsent;

pub use control::{Control, ThreadState};
pub use error::{Error, Result};
pub use forwarder::{Forwarder, PollMode};
pub use plane::{Options, UserPlane};
pub use port::{CopyMode, Port};

/// Maximum number of frames in an AF_XDP receive queue.
pub const QUEUE_FRAMES: u32 = 2048;

/// Traffic of a port, whether or not it matches streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Frames received.
    pub received: u64,
    /// Received frames longer than the interface's MTU allows.
    pub too_long: u64,
    /// Frames dropped because the ring was full.
    pub no_room: u64,
    /// Frames sent.
    pub sent: u64,
    /// Frames to send that were dropped.
    pub unsent: Unsent,
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.received += other.received;
        self.too_long += other.too_long;
        self.no_room += other.no_room;
        self.sent += other.sent;
        self.unsent.interface_down += other.unsent.interface_down;
        self.unsent.too_long += other.unsent.too_long;
        self.unsent.refused += other.unsent.refused;
    }
}
