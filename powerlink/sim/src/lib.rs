//! A virtual network. Time advances from one event to the next, so that hours are simulated in seconds. The
//! same seed gives the same run to the nanosecond.
//!
//! - [`Bus`]: nodes on a hub that loses frames, with cables to disconnect and power to turn off.
//! - [`Network`]: a managing node and controlled nodes on a bus, configured and with process data.
//! - [`Transfers`]: values read and written by SDO, and the frames of it.
//! - [`Checker`]: checks the frames of a bus against the rules of POWERLINK. It is independent of the nodes'
//!   code.
#![forbid(unsafe_code)]

mod bus;
mod checker;
mod network;
mod soak;
mod transfers;

pub use bus::{Bus, Conditions, Station};
pub use checker::{Checker, Violation};
pub use network::{DATA, Machine, MachineEvent, Memory, Network, NetworkConfig, Record};
pub use onbeat_powerlink::Node;
pub use onbeat_powerlink::diagnostic::DiagnosticDevice;
pub use soak::{Outcome, Progress, Soak};
pub use transfers::{CapturedFrame, Transfers};
