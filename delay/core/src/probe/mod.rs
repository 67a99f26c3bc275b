//! Probes of a path: STAMP (RFC 8762) as state machines without clock or socket.
//!
//! ```text
//! profile ── intended transmission times ── Sender ── test packet ──────────┐
//!                                             ▲                          reflect
//!                                             └──── reflected packet ───────┘
//! ```
//!
//! A probe carries its actual transmission time, and is recorded with the intended one: a delayed sender must not
//! make delays appear shorter than on schedule (coordinated omission).
//!
//! With a [`Key`] packets are authenticated in both directions, and unverified packets are discarded.

mod key;
mod one_way;
mod profile;
mod reflect;
mod sender;
mod sessions;

pub use key::Key;
pub use one_way::{ClockComparison, DirectionalDelays, OneWayDelays};
pub use profile::{Profile, ProfileError, ProfileSegment, RateCurve};
pub use reflect::{RejectedDatagram, ReplyFields, admit, is_reflected, reflect};
pub use sender::{ArrivalTimes, Counts, ProbeReply, Sample, Sender, Session, StrayDatagram};
pub use sessions::Sessions;
