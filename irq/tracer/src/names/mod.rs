//! Names of processes, devices and drop reasons on this host, from /proc, netlink and the kernel's types.

mod descriptions;
mod devices;
mod lines;
mod processes;
mod saved;
mod stat;
mod users;

pub use descriptions::describe;
pub(crate) use devices::namespace;
pub use devices::{Devices, device_exists};
pub use lines::line;
pub use processes::Processes;
pub(crate) use saved::SavedNames;
pub use stat::{Stat, process, processes};

use onbeat_bpf::Reasons;
use onbeat_irq_core::charge::{Device, Process, ReceiveQueue};
use onbeat_irq_core::names::{self, ProcessInfo};

/// The names of this host, read on demand.
#[derive(Debug)]
pub struct Names {
    processes: Processes,
    devices: Devices,
    reasons: Reasons,
}

impl Names {
    /// Only the kernel's drop reasons are read yet.
    #[must_use]
    pub fn new() -> Self {
        Self::with(Processes::default())
    }

    /// Also the names of processes that have exited, as the kernel saved them.
    pub(crate) fn with_saved(saved: SavedNames) -> Self {
        Self::with(Processes::with_saved(saved))
    }

    fn with(processes: Processes) -> Self {
        Self { processes, devices: Devices::default(), reasons: Reasons::of_kernel() }
    }

    /// Evicts exited processes and removed devices that were not queried since the last call; all others are
    /// read again at their next query.
    pub fn refresh(&mut self) {
        self.processes.refresh();
        self.devices.refresh();
    }
}

impl Default for Names {
    fn default() -> Self {
        Self::new()
    }
}

impl names::Names for Names {
    fn process(&mut self, process: Process) -> ProcessInfo {
        self.processes.get(process)
    }

    fn device(&mut self, device: Device) -> String {
        self.devices.name(device)
    }

    fn queue(&mut self, queue: ReceiveQueue) -> String {
        self.devices.queue(queue)
    }

    fn reason(&mut self, reason: u32) -> String {
        self.reasons.name(reason)
    }

    fn line(&mut self, number: u32) -> String {
        lines::line(number)
    }
}
