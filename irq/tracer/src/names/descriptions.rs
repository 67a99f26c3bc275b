//! Descriptions of processes.

use std::fs;
use std::path::Path;

use onbeat_irq_core::charge::Process;
use onbeat_irq_core::names::{Description, Octets};

use super::Stat;

/// The name and groups of a running process; `None` if it has exited, even if another process has its number.
///
/// Numbers are those of the host's first pid namespace, as in the ledger. In a container with its own pid
/// namespace they belong to other processes with another start, so the result is `None`.
#[must_use]
pub fn describe(process: Process) -> Option<Description> {
    let directory = Path::new("/proc").join(process.pid.to_string());
    let cgroups = fs::read(directory.join("cgroup")).unwrap_or_default();
    // Checked afterwards: the group was this process's if it still exists.
    let Stat { command, .. } = Stat::of(process)?;
    let cgroup = cgroup(&cgroups);
    let container = cgroup.and_then(container).map(Octets::from);
    Some(Description { command, cgroup: cgroup.map(Octets::from), container })
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

/// The container of a control group. Docker, Podman, containerd and CRI-O name it by 64 hexadecimal digits, LXC
/// by its name.
fn container(cgroup: &[u8]) -> Option<&[u8]> {
    const ID: usize = 64;
    const PAYLOAD: &[u8] = b"lxc.payload.";
    let is_id = |word: &&[u8]| word.len() == ID && word.iter().all(u8::is_ascii_hexdigit);
    let mut words = cgroup.rsplit(|octet| b"/-.:".contains(octet));
    words.find(is_id).or_else(|| {
        let parts = || cgroup.split(|octet| *octet == b'/');
        let named = parts().find_map(|part| part.strip_prefix(PAYLOAD));
        named.or_else(|| parts().skip_while(|part| *part != b"lxc").nth(1))
    })
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

    #[test]
    fn containers_by_the_groups_of_their_managers() {
        let id = "3f".repeat(32);
        for path in [
            format!("/docker/{id}"),
            format!("/system.slice/docker-{id}.scope"),
            format!("/machine.slice/libpod-{id}.scope/container"),
            format!("/kubepods.slice/kubepods-pod1_2.slice/cri-containerd-{id}.scope"),
            format!("/kubepods/besteffort/pod9/{id}"),
            format!("/system.slice/containerd.service/kubepods-pod1.slice:cri-containerd:{id}"),
            format!("/docker/{}/docker/{id}", "0a".repeat(32)),
        ] {
            assert_eq!(container(path.as_bytes()), Some(id.as_bytes()), "{path}");
        }
        for (path, name) in [
            ("/lxc/web/init.scope", Some("web")),
            ("/lxc.payload.web/system.slice", Some("web")),
            ("/user.slice/user-0.slice/session-1.scope", None),
            ("/", None),
        ] {
            assert_eq!(container(path.as_bytes()), name.map(str::as_bytes), "{path}");
        }
    }
}
