//! Names of the processes, devices and drop reasons that the ledger has by number.

mod octets;

pub use octets::Octets;

use crate::charge::{Device, Process};

/// What people call the things that accounts have by number.
pub trait Names {
    /// What is known of a process.
    fn process(&mut self, process: Process) -> Known;
    /// The name of a device; that of a device of another network namespace ends with `@` and the
    /// namespace's inode.
    fn device(&mut self, device: Device) -> String;
    /// Why packets were dropped.
    fn reason(&mut self, reason: u32) -> String;
}

/// A process as a person knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Description {
    /// Its name: at most 15 octets, and not always that of its program.
    pub command: Octets,
    /// Its control group, from the root of the hierarchy: `/system.slice/ssh.service`.
    pub cgroup: Option<Octets>,
    /// The container it is in, by the id or name that the container's manager uses.
    pub container: Option<Octets>,
}

/// What is known of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// As it was when it was last seen; `None` where it had ended before anybody looked.
    pub description: Option<Description>,
    /// Whether it has ended.
    pub ended: bool,
}
