//! Requirements of tests, and the report of missing ones.

use std::{env, fmt, io::Write, path::Path, thread};

use nix::{
    sys::{
        resource::{Resource, getrlimit, setrlimit},
        statfs::{BPF_FS_MAGIC, statfs},
    },
    unistd::geteuid,
};

use onbeat_netdev::{Bridge, Error, Handle, Namespace, Result, TapInterface, VethEnd, xdp};

/// A requirement of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Feature {
    /// Effective user id 0, and permission to create network namespaces.
    Root,
    /// veth pairs.
    Veth,
    /// Bridges.
    Bridge,
    /// TAP interfaces.
    Tap,
    /// Generic netlink reports the XDP features of devices (Linux 6.3).
    XdpFeatures,
    /// The BPF file system on /sys/fs/bpf.
    BpfFilesystem,
    /// Types of the kernel (BTF) in /sys/kernel/btf/vmlinux.
    Btf,
    /// At least this version of Linux.
    Kernel(u32, u32),
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Feature::Root => f.write_str("root and network namespaces"),
            Feature::Veth => f.write_str("veth (CONFIG_VETH)"),
            Feature::Bridge => f.write_str("bridges (CONFIG_BRIDGE)"),
            Feature::Tap => f.write_str("/dev/net/tun (CONFIG_TUN)"),
            Feature::XdpFeatures => f.write_str("the netdev generic netlink family (Linux 6.3)"),
            Feature::BpfFilesystem => f.write_str("a BPF file system on /sys/fs/bpf"),
            Feature::Btf => f.write_str("/sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)"),
            Feature::Kernel(major, minor) => write!(f, "Linux {major}.{minor}"),
        }
    }
}

impl Feature {
    /// Returns the reason why the feature is missing, or `None` if it is available. The feature is tried.
    #[must_use]
    pub fn missing(self) -> Option<String> {
        let result = match self {
            Feature::Root if !geteuid().is_root() => {
                return Some(format!("the effective user id is {}", geteuid()));
            }
            Feature::Root => Namespace::new().map(drop),
            Feature::Veth => in_new_namespace(|handle| {
                handle.create_veth(&VethEnd::new("a"), &VethEnd::new("b"))
            }),
            Feature::Bridge => in_new_namespace(|handle| handle.create_bridge(&Bridge::new("a"))),
            Feature::Tap => Namespace::new()
                .and_then(|namespace| TapInterface::create(&namespace, "a"))
                .map(drop),
            Feature::XdpFeatures => in_new_namespace(|handle| match xdp::features(handle, "lo")? {
                Some(_) => Ok(()),
                None => Err(Error::Unsupported {
                    what: "generic netlink family \"netdev\"".into(),
                    remedy: "Linux 6.3 or later".into(),
                }),
            }),
            Feature::BpfFilesystem => {
                return match statfs("/sys/fs/bpf") {
                    Ok(found) if found.filesystem_type() == BPF_FS_MAGIC => None,
                    Ok(_) => Some("it is not mounted: mount -t bpf bpf /sys/fs/bpf".into()),
                    Err(errno) => Some(errno.desc().into()),
                };
            }
            Feature::Btf => {
                let there = Path::new("/sys/kernel/btf/vmlinux").exists();
                return (!there).then(|| "there is no such file".into());
            }
            Feature::Kernel(major, minor) => {
                let release = nix::sys::utsname::uname()
                    .map(|name| name.release().to_string_lossy().into_owned())
                    .unwrap_or_default();
                let new_enough = version(&release).is_some_and(|found| found >= (major, minor));
                return (!new_enough).then(|| format!("this is Linux {release}"));
            }
        };
        result.err().map(|error| error.to_string())
    }
}

/// Returns whether the calling test can run. If not, prints the missing feature; with `ONBEAT_REQUIRE_ALL=1`,
/// panics.
///
/// # Panics
/// The feature is missing and `ONBEAT_REQUIRE_ALL` is `1`.
#[must_use]
pub fn require(feature: Feature) -> bool {
    allow_descriptors();
    match feature.missing() {
        Some(reason) => skip(&format!("{feature}: {reason}")),
        None => true,
    }
}

/// Requires several features like [`require`]; prints the first missing one.
///
/// # Panics
/// As [`require`].
#[must_use]
pub fn require_all(features: &[Feature]) -> bool {
    features.iter().all(|feature| require(*feature))
}

/// Requires something that is no [`Feature`] like [`require`]: `what` describes it, `available` is whether it
/// exists.
///
/// # Panics
/// As [`require`].
#[must_use]
pub fn require_that(available: bool, what: &str) -> bool {
    available || skip(what)
}

/// Raises the limit of open files of this process: parallel tests, one per CPU, open more than the default of
/// 1,024.
fn allow_descriptors() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        if soft < hard {
            // A process that needs more fails with an error.
            let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
        }
    }
}

fn skip(what: &str) -> bool {
    let test = thread::current().name().unwrap_or("test").to_owned();
    assert!(
        env::var_os("ONBEAT_REQUIRE_ALL").is_none_or(|value| value != "1"),
        "{test} needs {what} (ONBEAT_REQUIRE_ALL=1 allows no skipping)"
    );
    // Written to the descriptor directly: the test harness shows output of eprintln! for failed tests only. A
    // write error does not fail the test.
    let _ = writeln!(std::io::stderr(), "SKIP: {test}: needs {what}");
    false
}

fn in_new_namespace(try_it: impl FnOnce(&Handle) -> Result<()>) -> Result<()> {
    try_it(&Handle::in_namespace(&Namespace::new()?)?)
}

/// Returns the major and minor number of a kernel release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read() {
        assert_eq!(version("6.18.44-fc-v595"), Some((6, 18)));
        assert_eq!(version("6.1.0-18-amd64"), Some((6, 1)));
        assert_eq!(version("7.0-rc1"), Some((7, 0)));
        assert_eq!(version("linux"), None);
    }

    #[test]
    fn a_kernel_of_the_future_is_missing() {
        assert_eq!(Feature::Kernel(2, 6).missing(), None);
        let reason = Feature::Kernel(9999, 0).missing().expect("no such kernel");
        assert!(reason.starts_with("this is Linux "), "{reason}");
    }
}
