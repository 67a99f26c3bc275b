//! Interfaces that udev has yet to name. Until then an interface has the kernel's name, which may be that of another one in a
//! moment, and an interface that is up cannot be renamed before Linux 6.2.

use std::fs;
use std::path::Path;

use crate::Link;

/// Its state: it runs, and what it knows of each device. Private formats of systemd, unchanged since 2011.
const DIRECTORY: &str = "/run/udev";
/// Sockets of netlink in the namespace of this thread.
const SOCKETS: &str = "/proc/thread-self/net/netlink";
/// `NETLINK_KOBJECT_UEVENT`, and its group of the kernel's events, which udev receives.
const EVENTS: &str = "15";
const KERNEL_GROUP: u32 = 1;

/// Returns whether udev runs for the network namespace of this thread, and has yet to name an interface.
#[must_use]
pub fn has_yet_to_name(link: &Link) -> bool {
    let sockets = || fs::read_to_string(SOCKETS).is_ok_and(|text| receives_events(&text));
    !is_named(Path::new(DIRECTORY), link.index) && sockets()
}

/// Whether udev has processed an interface, or does not run.
fn is_named(directory: &Path, index: u32) -> bool {
    let data = || fs::read_to_string(directory.join(format!("data/n{index}")));
    // The time at which it was first processed, which udev writes after it has renamed the interface.
    let is_processed = || data().is_ok_and(|text| text.lines().any(|line| line.starts_with("I:")));
    !directory.join("control").exists() || is_processed()
}

/// Whether a socket of this list receives the kernel's events.
fn receives_events(sockets: &str) -> bool {
    let groups = |line: &str| {
        let mut columns = line.split_whitespace().skip(1);
        (columns.next() == Some(EVENTS)).then(|| u32::from_str_radix(columns.nth(1)?, 16).ok())?
    };
    sockets.lines().filter_map(groups).any(|groups| groups & KERNEL_GROUP != 0)
}

#[cfg(test)]
mod tests {
    use onbeat_testing::TemporaryDirectory;

    use super::*;

    /// As Linux 6.18 prints them, where systemd-udevd 252 runs, and a service beside that receives udev's own events.
    const WITH_UDEV: &str = "\
sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode
00000000732956e6 0   0          00000001 0        0        0     2        0        21273689
000000004546c690 15  0          00000000 0        0        0     2        0        21273692
00000000d98b2fbe 15  25889      00000001 0        0        0     2        0        21273714
00000000d98b2fbf 15  25890      00000002 0        0        0     2        0        21273715
";

    #[test]
    fn udev_runs_where_a_socket_receives_events_of_the_kernel() {
        assert!(receives_events(WITH_UDEV));
        let without: String = WITH_UDEV
            .lines()
            .filter(|line| !line.contains("25889"))
            .map(|line| format!("{line}\n"))
            .collect();
        assert!(!receives_events(&without), "{without}");
    }

    #[test]
    fn an_interface_is_named_once_udev_has_processed_it() {
        let directory = TemporaryDirectory::new("udev");
        assert!(is_named(directory.path(), 3), "no udev");
        fs::write(directory.file("control"), "").unwrap();
        assert!(!is_named(directory.path(), 3));
        fs::create_dir(directory.file("data")).unwrap();
        fs::write(directory.file("data/n3"), "E:ID_RENAMING=1\nG:systemd\n").unwrap();
        assert!(!is_named(directory.path(), 3));
        fs::write(directory.file("data/n3"), "I:69060201175\nE:ID_NET_NAME=lan0\n").unwrap();
        assert!(is_named(directory.path(), 3) && !is_named(directory.path(), 4));
    }
}
