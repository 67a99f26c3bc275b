//! The BPF file system, which keeps the data plane without the daemon.

use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};
use onbeat_frer_xdp::{BPF_MOUNT, uses_mount_of_init};

use super::error::{Error, Result};

/// Mounts a BPF file system at its usual path if `pin` requires one there and none is mounted: systemd mounts it
/// at boot, containers and rescue systems do not.
pub(super) fn require(pin: &Path) -> Result<()> {
    let usual = Path::new(BPF_MOUNT);
    if !pin.starts_with(usual) {
        return Ok(()); // the data plane refuses a wrong path
    }
    let mounted = statfs(usual).is_ok_and(|kind| kind.filesystem_type() == BPF_FS_MAGIC);
    if mounted {
        return Ok(());
    }
    if uses_mount_of_init() {
        tracing::info!(
            "no BPF file system is mounted at {BPF_MOUNT} in this mount namespace: pinning in that of \
             process 1"
        );
        return Ok(());
    }
    tracing::info!("mounting a BPF file system at {BPF_MOUNT}");
    mount(Some("bpf"), usual, Some("bpf"), MsFlags::empty(), Some("mode=0700"))
        .map_err(|source| Error::Mount { path: usual.to_path_buf(), source })
}
