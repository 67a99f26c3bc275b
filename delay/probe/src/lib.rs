//! STAMP (RFC 8762) over UDP sockets: a session reflector and a session sender.
//!
//! ```text
//! ping: Sender (onbeat_delay::probe) ── socket ── path ── socket ── echo: reflect (the same)
//!         its clock: SessionClock                           its clock: CLOCK_REALTIME
//! ```
//!
//! The protocol state machines are in [`onbeat_delay::probe`]; this crate has sockets and clocks. The kernel stamps
//! received and sent packets (SO_TIMESTAMPING, in software); otherwise the program does, and counts these stamps.
//! With a key, packets are authenticated and verified.
#![forbid(unsafe_code)]

mod clock;
mod echo;
mod error;
mod key;
mod ping;
mod rates;
mod socket;

pub use echo::{EchoConfig, EchoCounts, Reflector};
pub use error::{Error, KeyFileError, Result};
pub use key::read_key;
pub use ping::{PingConfig, PingReport, ping};
pub use rates::{profile_file, rates};
