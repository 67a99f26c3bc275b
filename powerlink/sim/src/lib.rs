//! A virtual network. Time jumps from one event to the next, so that hours pass in seconds, and
//! the same seed gives the same run to the nanosecond.
//!
//! - [`Bus`]: nodes on a hub that loses frames, with cables to pull and power to turn off.
//! - [`Network`]: a managing node and controlled nodes on a bus, configured and with process data.
//! - [`Checker`]: rules of POWERLINK over the frames that were on the bus. It knows nothing of the
//!   nodes' own code.
#![forbid(unsafe_code)]

mod bus;
mod checker;
mod network;
mod soak;

pub use bus::{Bus, Conditions, Station};
pub use checker::{Checker, Violation};
pub use network::{Machine, Memory, Network, NetworkConfig, Record, What};
pub use onbeat_powerlink::Node;
pub use soak::{Outcome, Progress, Soak};
