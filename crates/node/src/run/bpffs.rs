//! The BPF file system, in which the data plane outlives the daemon.

use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};

use super::error::{Error, Result};

/// Where distributions mount it.
const USUAL: &str = "/sys/fs/bpf";

/// Mounts a BPF file system at its usual place, where `pin` needs one there and none is: systemd
/// does that at boot, containers and rescue systems do not.
pub(super) fn require(pin: &Path) -> Result<()> {
    let usual = Path::new(USUAL);
    if !pin.starts_with(usual) {
        return Ok(()); // the data plane says what is wrong with another place
    }
    let mounted = statfs(usual).is_ok_and(|kind| kind.filesystem_type() == BPF_FS_MAGIC);
    if mounted {
        return Ok(());
    }
    tracing::info!("mounting a BPF file system at {USUAL}");
    mount(Some("bpf"), usual, Some("bpf"), MsFlags::empty(), None::<&str>)
        .map_err(|source| Error::Mount { path: usual.to_path_buf(), source })
}
