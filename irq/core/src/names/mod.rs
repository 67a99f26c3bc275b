//! Names of the processes, devices, drop reasons and interrupt lines that the ledger identifies by number.

pub mod cgroup;
mod octets;

pub use octets::Octets;

use crate::charge::{Device, Process, ReceiveQueue};

/// Resolves the numbers of accounts to names.
pub trait Names {
    /// The description of a process.
    fn process(&mut self, process: Process) -> ProcessInfo;
    /// The name of a device; for a device of another network namespace, followed by `@` and the inode of that
    /// namespace.
    fn device(&mut self, device: Device) -> String;
    /// The name of a receive queue: the device, and the number of the queue.
    fn queue(&mut self, queue: ReceiveQueue) -> String {
        format!("{}/napi-{}", self.device(queue.device), queue.napi)
    }
    /// The name of a drop reason.
    fn reason(&mut self, reason: u32) -> String;
    /// The name of an interrupt line.
    fn line(&mut self, number: u32) -> String;
}

/// A description of a process for display.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Description {
    /// Its name: at most 15 octets, not always that of its executable.
    pub command: Octets,
    /// Its control group, from the root of the hierarchy: `/system.slice/ssh.service`.
    pub cgroup: Option<Octets>,
    /// Its container, by the id or name that the container manager uses.
    pub container: Option<Octets>,
    /// Its effective user: the name, or the number of a user without a name on the host.
    pub user: Option<Octets>,
}

/// A process's description and state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessInfo {
    /// Its last known description; `None` if it exited before it was read.
    pub description: Option<Description>,
    /// Whether it has exited.
    pub ended: bool,
}
