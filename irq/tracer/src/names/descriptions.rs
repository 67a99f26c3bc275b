//! Descriptions of processes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use onbeat_irq_core::charge::Process;
use onbeat_irq_core::names::{Description, Octets, cgroup};

use super::{Stat, users};

/// The name and groups of a running process; `None` if it has exited, even if another process has its number.
///
/// Numbers are those of the host's first pid namespace, as in the ledger. In a container with its own pid
/// namespace they belong to other processes with another start, so the result is `None`.
#[must_use]
pub fn describe(process: Process) -> Option<Description> {
    let directory = Path::new("/proc").join(process.pid.to_string());
    let cgroups = fs::read(directory.join("cgroup")).unwrap_or_default();
    // The owner of the directory is the effective user, except of a process that cannot be dumped: then it is root.
    let user = fs::metadata(&directory).ok().map(|directory| users::name(directory.uid()));
    // Checked afterwards: these were this process's if it still exists.
    let Stat { command, .. } = Stat::of(process)?;
    Some(Description { user, ..of(command, cgroup(&cgroups)) })
}

/// Without a user.
pub(super) fn of(command: Octets, cgroup: Option<&[u8]>) -> Description {
    let container = cgroup.and_then(cgroup::container).map(Octets::from);
    Description { command, cgroup: cgroup.map(Octets::from), container, user: None }
}

/// The group in /proc/PID/cgroup: that of the unified hierarchy, or else of systemd's or the first.
fn cgroup(text: &[u8]) -> Option<&[u8]> {
    let groups = || text.split(|octet| *octet == b'\n').filter_map(group);
    let of = |hierarchy: &[u8]| groups().find(|(name, _)| *name == hierarchy);
    // On a host with both versions the unified hierarchy may have processes at its root only.
    let found = of(b"").filter(|(_, path)| *path != b"/").or_else(|| of(b"name=systemd"));
    found.or_else(|| groups().next()).map(|(_, path)| path)
}

/// The hierarchy's name and the path of a line.
fn group(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut fields = line.splitn(3, |octet| *octet == b':').skip(1);
    Some((fields.next()?, fields.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_and_its_successor_is_not() {
        let octets = fs::read("/proc/self/stat").unwrap();
        let Stat { command, start_ticks, .. } = Stat::parse(&octets).unwrap();
        let process = Process { pid: std::process::id(), start_ticks };
        assert_eq!(describe(process).unwrap().command, command);
        let successor = Process { start_ticks: start_ticks + 1, ..process };
        assert_eq!(describe(successor), None);
    }

    #[test]
    fn the_group_of_the_most_specific_hierarchy() {
        for (text, group) in [
            ("0::/user.slice\n", Some("/user.slice")),
            ("0::/\n", Some("/")),
            ("12:cpu:/a\n1:name=systemd:/b\n0::/\n", Some("/b")),
            ("12:cpu,cpuacct:/a\n11:net_cls:/c\n", Some("/a")),
            ("12:cpu:/a\n0::/d:e\n", Some("/d:e")),
            ("", None),
            ("broken\n", None),
        ] {
            assert_eq!(cgroup(text.as_bytes()), group.map(str::as_bytes), "{text}");
        }
    }
}
