//! Probing a path: STAMP (RFC 8762) as machines without clock or socket.
//!
//! ```text
//! profile ── when a probe is meant to go ── Sender ── test packet ──────────┐
//!                                             ▲                          reflect
//!                                             └──── reflected packet ───────┘
//! ```
//!
//! Probes carry the time at which they are sent and are remembered with the time at which they
//! were meant to be: a sender that is held up must not make delays look shorter than what somebody
//! who kept the schedule would have seen (coordinated omission).
//!
//! With a [`Key`] packets are authenticated both ways, and what does not verify is believed by nobody.

mod key;
mod one_way;
mod profile;
mod reflect;
mod sender;
mod sessions;

pub use key::Key;
pub use one_way::{ClockComparison, OneWayDelays, DirectionalDelays};
pub use profile::{RateCurve, Profile, ProfileError, ProfileSegment};
pub use reflect::{ReplyFields, RejectedDatagram, admit, is_reflected, reflect};
pub use sender::{Counts, ProbeReply, Sample, Sender, Session, StrayDatagram};
pub use sessions::Sessions;
