//! The root of the control groups.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// Opens the root of the control groups of version 2, where a program sees the sockets of all processes; `None`:
/// the kernel has none, or refuses.
///
/// It does not depend on the mounts of the caller, of which a /sys for a network namespace may hide the control groups.
#[must_use]
pub fn root_group() -> Option<OwnedFd> {
    let context = fsopen("cgroup2", FsOpenFlags::FSOPEN_CLOEXEC).ok()?;
    fsconfig_create(&context).ok()?;
    // Mounted nowhere; it ends with the descriptors.
    let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty()).ok()?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(&mount, ".", flags, Mode::empty()).ok()
}
