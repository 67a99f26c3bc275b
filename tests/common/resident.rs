//! Namespaces of a process, as those of containers.

use std::process::{Child, Command, Stdio};

use onbeat_lab::World;

/// A process that stays in a host's namespace until it is dropped: other processes can find the
/// namespace by its id.
pub(crate) struct ResidentProcess(Child);

impl ResidentProcess {
    pub(crate) fn start(world: &World, host: &str) -> Self {
        let mut command = Command::new("sleep");
        let namespace = world.namespace(host).unwrap();
        Self(namespace.start_in(command.arg("600").stdin(Stdio::null())).spawn().unwrap())
    }

    /// Process id.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for ResidentProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
