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
//! The streams are an [`onbeat_frer::plane::Plane`], which belongs to the forwarding thread alone:
//! no frame waits for a lock. Who wants to look at it or to change it sends a piece of work, which
//! is done between two batches.
//!
//! - By packet sockets ([`Port::packet`]) it gets copies. Frames of no stream are none of its
//!   business: the network stack has got them as well. Frames of streams it gets too; on an interface
//!   without addresses the stack drops them, but a bridge would forward them once more.
//! - By AF_XDP ([`Port::xsk`]) it gets what an XDP program hands to it, and the network stack the
//!   rest. All such ports share memory: of a frame's replicas one is the frame itself, its headers
//!   changed where it lies; the others are copies.

mod control;
mod error;
mod forwarder;
mod plane;
mod port;

pub use control::{Control, Inside};
pub use error::{Error, Result};
pub use forwarder::{Forwarder, Poll};
pub use plane::{Options, UserPlane};
pub use port::{Copies, Port};

/// Frames that came in by a queue over AF_XDP and were not looked at, at most.
pub const QUEUE_FRAMES: u32 = 2048;

/// What came and went at a port, streams or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Frames received.
    pub received: u64,
    /// Of these: longer than the interface's MTU allows.
    pub too_long: u64,
    /// Frames that the ring had no room for, and that nobody looked at.
    pub no_room: u64,
    /// Frames sent.
    pub sent: u64,
    /// Frames that the interface did not take.
    pub not_sent: u64,
}
