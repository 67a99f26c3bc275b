//! Names of network namespaces, for people.

use std::fs;
use std::os::unix::fs::MetadataExt;

/// Where `ip netns` keeps the namespaces that it names.
const NAMED: &str = "/run/netns";

/// The path of the named network namespace with this inode, as `ip netns identify` finds it; `None`
/// where it has no name here.
pub(super) fn path(inode: u64) -> Option<String> {
    let device = fs::metadata("/proc/self/ns/net").ok()?.dev();
    let entries = fs::read_dir(NAMED).ok()?.flatten();
    let mut paths = entries.map(|entry| entry.path());
    let is = |of: fs::Metadata| (of.dev(), of.ino()) == (device, inode);
    let found = paths.find(|path| fs::metadata(path).is_ok_and(is))?;
    Some(found.display().to_string())
}
