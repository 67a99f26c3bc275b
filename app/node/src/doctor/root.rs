//! The host as files: /proc, /sys and /dev below a prefix.

use std::fmt;
use std::fs;
use std::path::PathBuf;

use super::device::{DeviceReader, KernelDevices};

/// Root directory and devices of an examined host.
pub struct HostRoot<'a> {
    prefix: PathBuf,
    devices: &'a dyn DeviceReader,
}

impl fmt::Debug for HostRoot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostRoot").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl HostRoot<'static> {
    /// This host.
    pub fn host() -> HostRoot<'static> {
        HostRoot { prefix: "/".into(), devices: &KernelDevices }
    }
}

impl<'a> HostRoot<'a> {
    /// A host with files below a directory, and with the given devices.
    pub fn below(prefix: impl Into<PathBuf>, devices: &'a dyn DeviceReader) -> HostRoot<'a> {
        HostRoot { prefix: prefix.into(), devices }
    }

    pub(super) fn devices(&self) -> &dyn DeviceReader {
        self.devices
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.prefix.join(path.trim_start_matches('/'))
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// The text of a file without surrounding white space; `None` if it cannot be read.
    pub(super) fn read(&self, path: &str) -> Option<String> {
        Some(fs::read_to_string(self.path(path)).ok()?.trim().to_owned())
    }

    pub(super) fn number(&self, path: &str) -> Option<i64> {
        self.read(path)?.parse().ok()
    }

    pub(super) fn octets(&self, path: &str) -> Option<Vec<u8>> {
        fs::read(self.path(path)).ok()
    }

    /// The names in a directory, sorted by trailing number; empty if it cannot be read.
    pub(super) fn list(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_by_key(|name| (trailing_number(name), name.clone()));
        names
    }

    /// The CPUs of this host: directories cpu0, cpu1 and so on.
    pub(super) fn cpus(&self) -> Vec<String> {
        let is_cpu = |name: &String| {
            name.strip_prefix("cpu").is_some_and(|number| number.parse::<u32>().is_ok())
        };
        self.list("/sys/devices/system/cpu").into_iter().filter(is_cpu).collect()
    }
}

fn trailing_number(name: &str) -> u64 {
    let digits = name.rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1);
    name.get(digits..).and_then(|digits| digits.parse().ok()).unwrap_or(0)
}
