//! A private view of the file system, for control sockets and pinned programs.

use std::path::Path;

use nix::mount::{MsFlags, mount};
use onbeat_host::PrivateDirectory;
use onbeat_netdev::PrivateMounts;

use crate::{Error, Result};

/// Directory of configurations, sockets and logs of the lab's nodes.
pub(super) const DIRECTORY: &str = onbeat_host::run_directory!("lab");

/// A mount namespace of the calling thread, and of the threads and processes that it starts: an empty
/// /run with /run/onbeat, and an empty bpffs on /sys/fs/bpf. Files there are invisible to other
/// processes, and are removed with the last process inside.
///
/// On drop the thread returns to its former namespace.
#[derive(Debug)]
pub struct Mounts {
    _private: PrivateMounts,
}

impl Mounts {
    /// Moves the calling thread into a new mount namespace.
    ///
    /// # Errors
    /// The caller lacks CAP_SYS_ADMIN, or the kernel lacks tmpfs or BPF.
    pub fn enter() -> Result<Self> {
        let mounts = Self { _private: PrivateMounts::enter()? };
        // Permissions as on a host: other users cannot write there.
        fresh("tmpfs", Path::new("/run"), Some("mode=0755"))?;
        fresh("bpf", Path::new("/sys/fs/bpf"), None)?;
        PrivateDirectory::create(Path::new(DIRECTORY))?;
        Ok(mounts)
    }
}

fn fresh(kind: &str, target: &Path, options: Option<&str>) -> Result<()> {
    mount(Some(kind), target, Some(kind), MsFlags::empty(), options)
        .map_err(|errno| Error::io(format!("mount a {kind} on {}", target.display()), errno))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    use onbeat_testing::{Feature, require};

    #[test]
    fn mounts_are_private_and_temporary() {
        if !require(Feature::Root) {
            return;
        }
        let mounts = Mounts::enter().unwrap();
        let id = std::process::id();
        let marks = [format!("{DIRECTORY}/mark-{id}"), format!("/sys/fs/bpf/mark-{id}")];
        marks.iter().for_each(|mark| fs::create_dir(mark).unwrap());
        drop(mounts);
        assert!(marks.iter().all(|mark| !Path::new(mark).exists()));
    }
}
