//! Load to measure under: on the scheduler ([`Hackbench`]), on CPUs ([`Stress`]), on the network
//! ([`UdpLoad`]).

mod hackbench;
mod stress;
mod udp;

pub use hackbench::{Hackbench, Running};
pub use stress::{Stress, Stressor};
pub use udp::{UdpLoad, UdpReport, UdpSpec};
