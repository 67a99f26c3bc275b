//! Network managers: whether one manages an interface, and the file that excludes the interface.
//!
//! Which interfaces a manager manages is in its own files under /run, whose format is private: what is not understood
//! counts as unmanaged.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A network manager that reads a file which excludes an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Manager {
    /// NetworkManager.
    NetworkManager,
    /// systemd-networkd.
    Networkd,
}

/// Values of [`SettingLocation::Manager`](super::SettingLocation::Manager).
pub(super) const MANAGED: &str = "managed";
pub(super) const UNMANAGED: &str = "unmanaged";

impl Manager {
    /// All managers.
    pub const ALL: [Self; 2] = [Self::NetworkManager, Self::Networkd];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NetworkManager => "NetworkManager",
            Self::Networkd => "systemd-networkd",
        }
    }

    /// Its state of an interface of the host below `root`. `None`: it does not run in this network namespace, or does not
    /// know the interface.
    #[must_use]
    pub fn state(self, root: &Path, interface: &str) -> Option<String> {
        let read = |path: String| fs::read_to_string(root.join(path)).ok();
        let index = read(format!("sys/class/net/{interface}/ifindex"))?.trim().parse().ok()?;
        let state = read(self.state_file(index))?;
        self.runs(root).then_some(state)
    }

    fn state_file(self, index: u32) -> String {
        match self {
            Self::NetworkManager => format!("run/NetworkManager/devices/{index}"),
            Self::Networkd => format!("run/systemd/netif/links/{index}"),
        }
    }

    /// Whether it runs in this network namespace: its files survive it, and have indices of its own namespace.
    #[must_use]
    pub fn runs(self, root: &Path) -> bool {
        let processes = root.join("proc");
        let namespace = |process: PathBuf| fs::read_link(process.join("ns/net")).ok();
        let own = namespace(processes.join("thread-self"));
        // The kernel shortens names of processes.
        let name: String = self.name().chars().take(15).collect();
        let is_it = |process: PathBuf| {
            fs::read_to_string(process.join("comm")).is_ok_and(|comm| comm.trim_end() == name)
                && namespace(process) == own
        };
        let entries = fs::read_dir(processes).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).any(is_it)
    }

    /// Whether it manages the interface of this state.
    #[must_use]
    pub fn manages(self, state: &str) -> bool {
        match self {
            Self::NetworkManager => value(state, "managed") == Some("true"),
            // Before `initialized`, it has not decided.
            Self::Networkd => matches!(
                value(state, "ADMIN_STATE"),
                Some("initialized" | "configuring" | "configured" | "failed")
            ),
        }
    }

    /// The origin of its configuration of the interface of this state.
    #[must_use]
    pub fn source(self, state: &str) -> Option<&str> {
        let key = match self {
            Self::NetworkManager => "connection-uuid",
            Self::Networkd => "NETWORK_FILE",
        };
        value(state, key)
    }

    /// The file that excludes an interface until the next boot.
    #[must_use]
    pub fn file(self, interface: &str) -> String {
        format!("/run/{}", self.file_name(interface))
    }

    /// The file that excludes it permanently.
    #[must_use]
    pub fn permanent_file(self, interface: &str) -> String {
        format!("/etc/{}", self.file_name(interface))
    }

    /// Each file of NetworkManager adds to a list, and the first file of systemd-networkd that matches wins.
    fn file_name(self, interface: &str) -> String {
        match self {
            Self::NetworkManager => format!("NetworkManager/conf.d/99-onbeat-{interface}.conf"),
            Self::Networkd => format!("systemd/network/05-onbeat-{interface}.network"),
        }
    }

    /// The lines of the file. NetworkManager does not read `managed` of `[device]` again for a known device.
    #[must_use]
    pub fn lines(self, interface: &str) -> Vec<String> {
        let comment = "# A port of onbeat.".to_owned();
        let rule = match self {
            Self::NetworkManager => {
                vec![
                    "[keyfile]".to_owned(),
                    format!("unmanaged-devices+=interface-name:{interface}"),
                ]
            }
            Self::Networkd => vec![
                "[Match]".to_owned(),
                format!("Name={interface}"),
                "[Link]".to_owned(),
                "Unmanaged=yes".to_owned(),
            ],
        };
        [vec![comment], rule].concat()
    }

    /// The command that makes it read its files again.
    #[must_use]
    pub fn reload(self) -> &'static [&'static str] {
        match self {
            Self::NetworkManager => &["/usr/bin/nmcli", "general", "reload", "conf"],
            Self::Networkd => &["/usr/bin/networkctl", "reload"],
        }
    }

    /// Whether an interface name means itself in the files, where some characters are patterns.
    #[must_use]
    pub fn can_name(interface: &str) -> bool {
        let plain = |octet: u8| octet.is_ascii_alphanumeric() || b"._-".contains(&octet);
        !interface.is_empty() && interface.bytes().all(plain) && !interface.starts_with('.')
    }
}

impl fmt::Display for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The value of a key in lines `KEY=VALUE`.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix('=')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_both_managers_are_read() {
        let nm = Manager::NetworkManager;
        assert!(nm.manages("[device]\nmanaged=true\nconnection-uuid=5-a\n"));
        assert_eq!(nm.source("[device]\nconnection-uuid=5-a\n"), Some("5-a"));
        assert!(!nm.manages("[device]\nmanaged=false\n") && !nm.manages(""));
        assert!(!nm.manages("unmanaged=true"));
        let networkd = Manager::Networkd;
        for (state, manages) in [("configured", true), ("pending", false), ("unmanaged", false)] {
            assert_eq!(networkd.manages(&format!("ADMIN_STATE={state}\n")), manages, "{state}");
        }
        assert!(!networkd.manages("ADMIN_STATE=linger") && !networkd.manages("ADMIN"));
    }

    #[test]
    fn only_plain_names_are_written_into_files() {
        for name in ["eth1", "enp3s0f0", "a.5", "A_b-c"] {
            assert!(Manager::can_name(name), "{name}");
        }
        for name in ["", "e*", "a;b", "a,b", ".x", "é", "e[1]", "!a", "a=b", "~x"] {
            assert!(!Manager::can_name(name), "{name}");
        }
    }
}
