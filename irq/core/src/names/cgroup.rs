//! Units, containers and pods in the path of a control group.

/// Length of the id of a container.
const CONTAINER_ID: usize = 64;

/// The container. Docker, Podman, containerd and CRI-O name it by 64 hexadecimal digits, LXC by its name.
#[must_use]
pub fn container(path: &[u8]) -> Option<&[u8]> {
    const PAYLOAD: &[u8] = b"lxc.payload.";
    let is_id = |word: &&[u8]| word.len() == CONTAINER_ID && is_hex(word);
    let mut words = path.rsplit(|octet| b"/-.:".contains(octet));
    words.find(is_id).or_else(|| {
        let named = components(path).find_map(|part| part.strip_prefix(PAYLOAD));
        named.or_else(|| components(path).skip_while(|part| *part != b"lxc").nth(1))
    })
}

/// The systemd unit: the first below the slices; below the manager of a user, the unit of that manager.
#[must_use]
pub fn unit(path: &[u8]) -> Option<&[u8]> {
    let mut units = components(path).map(unescaped).filter(|part| !part.ends_with(b".slice"));
    let first = units.next().filter(|part| is_unit(part))?;
    if !first.starts_with(b"user@") {
        return Some(first);
    }
    units.next().filter(|part| is_unit(part)).or(Some(first))
}

/// The Kubernetes pod: its UID, with dashes. The kubelet names the group `pod<UID>` (driver cgroupfs), or
/// `kubepods-<class>-pod<UID>.slice` with underscores (driver systemd).
#[must_use]
pub fn pod(path: &[u8]) -> Option<String> {
    if !contains(path, b"kubepods") {
        return None;
    }
    path.split(|octet| b"/:".contains(octet)).find_map(|part| {
        let part = part.strip_suffix(b".slice").unwrap_or(part);
        let name = match part.strip_prefix(b"pod") {
            Some(name) => name,
            None => &part[part.windows(4).rposition(|window| window == b"-pod")? + 4..],
        };
        let uid: String = std::str::from_utf8(name).ok()?.replace('_', "-");
        is_uid(&uid).then_some(uid)
    })
}

/// A UUID; of a static pod, a hash of 32 digits.
fn is_uid(uid: &str) -> bool {
    let digits: Vec<&str> = uid.split('-').collect();
    let lengths: Vec<usize> = digits.iter().map(|part| part.len()).collect();
    matches!(lengths.as_slice(), [32] | [8, 4, 4, 4, 12])
        && digits.iter().all(|part| is_hex(part.as_bytes()))
}

fn is_hex(word: &[u8]) -> bool {
    word.iter().all(u8::is_ascii_hexdigit)
}

fn contains(path: &[u8], word: &[u8]) -> bool {
    path.windows(word.len()).any(|window| window == word)
}

fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|octet| *octet == b'/').filter(|part| !part.is_empty())
}

/// Units whose processes have a group of their own.
fn is_unit(part: &[u8]) -> bool {
    [&b".service"[..], b".scope", b".socket", b".mount", b".swap"]
        .iter()
        .any(|suffix| part.len() > suffix.len() && part.ends_with(suffix))
}

/// systemd prefixes names that the kernel reserves.
fn unescaped(part: &[u8]) -> &[u8] {
    part.strip_prefix(b"_").unwrap_or(part)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "3f8a1c2e5b7d9f013f8a1c2e5b7d9f013f8a1c2e5b7d9f013f8a1c2e5b7d9f01";
    const UID: &str = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0";
    const UID_: &str = "0b1c2d3e_4f50_6172_8394_a5b6c7d8e9f0";

    /// Path, unit, whether it names the container [`ID`], whether it names the pod [`UID`].
    fn vectors() -> Vec<(String, Option<&'static str>, bool, bool)> {
        let class = "kubepods-burstable";
        vec![
            ("/".into(), None, false, false),
            ("/init.scope".into(), Some("init.scope"), false, false),
            // systemd
            ("/system.slice/ssh.service".into(), Some("ssh.service"), false, false),
            (
                "/system.slice/system-getty.slice/getty@tty1.service".into(),
                Some("getty@tty1.service"),
                false,
                false,
            ),
            ("/system.slice/_cgroup.service".into(), Some("cgroup.service"), false, false),
            ("/system.slice/run-u12.scope".into(), Some("run-u12.scope"), false, false),
            (
                "/user.slice/user-1000.slice/session-3.scope".into(),
                Some("session-3.scope"),
                false,
                false,
            ),
            (
                "/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome-Terminal-42.scope".into(),
                Some("app-gnome-Terminal-42.scope"),
                false,
                false,
            ),
            (
                "/user.slice/user-1000.slice/user@1000.service/init.scope".into(),
                Some("init.scope"),
                false,
                false,
            ),
            (
                "/user.slice/user-1000.slice/user@1000.service".into(),
                Some("user@1000.service"),
                false,
                false,
            ),
            (
                "/machine.slice/systemd-nspawn@web.service/payload/system.slice/a.service".into(),
                Some("systemd-nspawn@web.service"),
                false,
                false,
            ),
            // Docker: driver cgroupfs, driver systemd, Docker in Docker
            (format!("/docker/{ID}"), None, true, false),
            (format!("/system.slice/docker-{ID}.scope"), Some("docker.scope"), true, false),
            (format!("/docker/{}/docker/{ID}", "0a".repeat(32)), None, true, false),
            // Podman: of root, of a user, with cgroupfs
            (format!("/machine.slice/libpod-{ID}.scope/container"), Some("libpod.scope"), true, false),
            (
                format!(
                    "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope/container"
                ),
                Some("libpod.scope"),
                true,
                false,
            ),
            (format!("/libpod_parent/libpod-{ID}"), None, true, false),
            // Kubernetes: containerd and CRI-O, drivers systemd and cgroupfs, guaranteed and other classes
            (
                format!("/kubepods.slice/{class}.slice/{class}-pod{UID_}.slice/cri-containerd-{ID}.scope"),
                Some("cri-containerd.scope"),
                true,
                true,
            ),
            (
                format!("/kubepods.slice/kubepods-pod{UID_}.slice/crio-{ID}.scope"),
                Some("crio.scope"),
                true,
                true,
            ),
            (
                format!("/kubepods.slice/kubepods-pod{UID_}.slice/crio-{ID}.scope/container"),
                Some("crio.scope"),
                true,
                true,
            ),
            (format!("/kubepods/besteffort/pod{UID}/{ID}"), None, true, true),
            (format!("/kubepods/pod{UID}/crio-{ID}"), None, true, true),
            // kind: a kubelet within a container
            (
                format!(
                    "/docker/{}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/\
                     kubelet-kubepods-besteffort-pod{UID_}.slice/cri-containerd-{ID}.scope",
                    "0a".repeat(32)
                ),
                None,
                true,
                true,
            ),
            // containerd with cgroupfs under a kubelet with systemd
            (
                format!("/system.slice/containerd.service/{class}-pod{UID_}.slice:cri-containerd:{ID}"),
                Some("containerd.service"),
                true,
                true,
            ),
            // Only the pod's own processes
            (format!("/kubepods.slice/{class}.slice/{class}-pod{UID_}.slice"), None, false, true),
        ]
    }

    #[test]
    fn paths_of_managers() {
        for (path, unit_name, has_id, has_uid) in vectors() {
            let found =
                unit(path.as_bytes()).map(|name| String::from_utf8_lossy(name).into_owned());
            // The ids of units of containers are left out of the vectors.
            let found = found.map(|name| name.replace(&format!("-{ID}"), ""));
            assert_eq!(found.as_deref(), unit_name, "{path}");
            assert_eq!(container(path.as_bytes()), has_id.then_some(ID.as_bytes()), "{path}");
            assert_eq!(pod(path.as_bytes()).as_deref(), has_uid.then_some(UID), "{path}");
        }
    }

    #[test]
    fn lxc_static_pods_and_lookalikes() {
        for (path, name) in [
            ("/lxc/web/init.scope", Some("web")),
            ("/lxc.payload.web/system.slice", Some("web")),
            ("/user.slice/user-0.slice/session-1.scope", None),
        ] {
            assert_eq!(container(path.as_bytes()), name.map(str::as_bytes), "{path}");
        }
        let hash = "6ab2c1ba1b1fd1e4ec2bcf4b9b8a2d33";
        let fixed =
            format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{hash}.slice");
        assert_eq!(pod(fixed.as_bytes()).as_deref(), Some(hash));
        for path in [
            format!("/system.slice/pod{UID}"),
            "/kubepods/podx".into(),
            "/kubepods/pod".into(),
            format!("/machine.slice/machine-libpod_pod_{ID}.slice/libpod-{ID}.scope"),
        ] {
            assert_eq!(pod(path.as_bytes()), None, "{path}");
        }
        for path in ["/.service", "/a.services", "/_/b.service", "/system.slice/a/b.service"] {
            assert_eq!(unit(path.as_bytes()), None, "{path}");
        }
    }

    proptest! {
        /// Names of groups are input of any process with a delegated group.
        #[test]
        fn any_path_is_read(path in proptest::collection::vec(
            prop_oneof![Just(b'/'), Just(b'-'), Just(b'p'), Just(b'o'), Just(b'd'), any::<u8>()], 0..200)) {
            let path = [b"/kubepods/pod", &path[..]].concat();
            let _ = (unit(&path), container(&path), pod(&path));
        }
    }
}
