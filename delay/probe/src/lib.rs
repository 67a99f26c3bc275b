//! STAMP (RFC 8762) over UDP sockets: a session reflector and a session sender.
//!
//! ```text
//! ping: Sender (onbeat_delay::probe) ── socket ── path ── socket ── echo: reflect (the same)
//!         its clock: SessionClock                           its clock: CLOCK_REALTIME
//! ```
//!
//! The machines are in [`onbeat_delay::probe`]; here are sockets and clocks. The kernel stamps what
//! comes and what goes (SO_TIMESTAMPING, in software); where it does not, the program does, and
//! says how often. With a key, packets are authenticated and verified.
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
