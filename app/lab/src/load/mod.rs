//! Reproducible load: on the scheduler ([`Hackbench`]), on CPUs ([`Stress`], [`DutyLoad`]), on the
//! network ([`UdpLoad`], [`UdpSource`]).

mod duty;
mod hackbench;
mod report;
mod source;
mod stress;
mod udp;

use std::thread::{self, JoinHandle};

use onbeat_realtime::{CpuSet, Profile};

use crate::{Error, Result};

pub use duty::{DutyLoad, DutyProfile, DutyReport, DutyRow};
pub use hackbench::{Hackbench, RunningHackbench};
pub use report::{UdpReport, UdpSpec};
pub use source::{UdpSource, UdpTarget};
pub use stress::{Stress, Stressor};
pub use udp::UdpLoad;

/// Starts a load thread on these CPUs.
fn start_on<T: Send + 'static>(
    cpus: &CpuSet,
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    // Threads inherit the affinity of the thread that starts them.
    let _there = Profile::default().on_cpus(cpus.clone()).enter()?;
    start(name, run)
}

/// Starts a load thread with the affinity of the caller.
fn start<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    let thread = thread::Builder::new().name(name.into()).spawn(run);
    thread.map_err(|error| Error::io("start a thread for load", error))
}
