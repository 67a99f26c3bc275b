//! Frames with transmission time stamps, and their delivery.
//!
//! A [`Source`] sends a stream into an interface of a host, a [`Sink`] receives streams from one, and
//! [`Delivery`] describes each frame.

mod delivery;
mod frame;
mod receiver;
mod record;
mod segments;
mod settlement;
mod sink;
pub mod socket;
mod source;
mod stamp;

pub use delivery::{Delivery, Gap};
pub use frame::{FrameError, FrameSpec};
pub use receiver::Receiver;
pub use record::StreamRecord;
pub(crate) use segments::Segments;
pub(crate) use settlement::{SettledStream, sent_all, settle};
pub use sink::{ExpectedStream, Sink, SinkReport};
pub(crate) use socket::BATCH;
pub use source::{Rate, Source, SourceConfig, SourceReport};
pub(crate) use stamp::filled;
pub use stamp::{ETHERTYPE, STAMP_LEN, Stamp, StampError};
