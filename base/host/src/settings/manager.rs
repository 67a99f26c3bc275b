//! Network managers: whether one has an interface, and the file that keeps it away.
//!
//! Which interfaces a manager has is in its own files under /run, whose format is private: what is not understood counts
//! as unmanaged.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A network manager that a file keeps away from an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkManager {
    /// NetworkManager of GNOME.
    NetworkManager,
    /// systemd-networkd.
    Networkd,
}

/// Values of [`SettingLocation::Manager`](super::SettingLocation::Manager).
pub(super) const MANAGED: &str = "managed";
pub(super) const UNMANAGED: &str = "unmanaged";

impl NetworkManager {
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

    /// The file with its state of the interface with this index. Without it, it does not know the interface.
    #[must_use]
    pub fn state_file(self, index: u32) -> String {
        match self {
            Self::NetworkManager => format!("/run/NetworkManager/devices/{index}"),
            Self::Networkd => format!("/run/systemd/netif/links/{index}"),
        }
    }

    /// Whether the manager has the interface of this state: it configures the interface, or will.
    #[must_use]
    pub fn has(self, state: &str) -> bool {
        match self {
            Self::NetworkManager => value(state, "managed") == Some("true"),
            // Before `initialized`, it has not decided.
            Self::Networkd => matches!(
                value(state, "ADMIN_STATE"),
                Some("initialized" | "configuring" | "configured" | "failed")
            ),
        }
    }

    /// Where the manager has its configuration of the interface from, by its state.
    #[must_use]
    pub fn source(self, state: &str) -> Option<&str> {
        let key = match self {
            Self::NetworkManager => "connection-uuid",
            Self::Networkd => "NETWORK_FILE",
        };
        value(state, key)
    }

    /// The file that keeps the manager away from an interface until the next boot.
    #[must_use]
    pub fn file(self, interface: &str) -> String {
        let (directory, name) = self.place(interface);
        format!("/run/{directory}/{name}")
    }

    /// The file that keeps it away permanently.
    #[must_use]
    pub fn permanent_file(self, interface: &str) -> String {
        let (directory, name) = self.place(interface);
        format!("/etc/{directory}/{name}")
    }

    /// Each file of NetworkManager adds to a list, and the first file of systemd-networkd that matches wins.
    fn place(self, interface: &str) -> (&'static str, String) {
        match self {
            Self::NetworkManager => {
                ("NetworkManager/conf.d", format!("99-onbeat-{interface}.conf"))
            }
            Self::Networkd => ("systemd/network", format!("05-onbeat-{interface}.network")),
        }
    }

    /// The content of the file. NetworkManager does not read `managed` of `[device]` again for a known device.
    #[must_use]
    pub fn text(self, interface: &str) -> String {
        let rule = match self {
            Self::NetworkManager => {
                format!("[keyfile]\nunmanaged-devices+=interface-name:{interface}\n")
            }
            Self::Networkd => format!("[Match]\nName={interface}\n\n[Link]\nUnmanaged=yes\n"),
        };
        format!("# Written by onbeat doctor --fix.\n{rule}")
    }

    /// The command that makes it read its files again.
    #[must_use]
    pub fn reload(self) -> &'static [&'static str] {
        match self {
            Self::NetworkManager => &["/usr/bin/nmcli", "general", "reload", "conf"],
            Self::Networkd => &["/usr/bin/networkctl", "reload"],
        }
    }

    /// Whether an interface name means itself in the files, where some characters have a meaning.
    #[must_use]
    pub fn can_name(interface: &str) -> bool {
        let plain = |octet: u8| octet.is_ascii_alphanumeric() || b"._-".contains(&octet);
        !interface.is_empty() && interface.bytes().all(plain) && !interface.starts_with('.')
    }
}

impl fmt::Display for NetworkManager {
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
        let nm = NetworkManager::NetworkManager;
        assert!(nm.has("[device]\nmanaged=true\nconnection-uuid=5-a\n"));
        assert_eq!(nm.source("[device]\nconnection-uuid=5-a\n"), Some("5-a"));
        assert!(!nm.has("[device]\nmanaged=false\n") && !nm.has("") && !nm.has("unmanaged=true"));
        let networkd = NetworkManager::Networkd;
        for (state, has) in [("configured", true), ("pending", false), ("unmanaged", false)] {
            assert_eq!(networkd.has(&format!("ADMIN_STATE={state}\n")), has, "{state}");
        }
        assert!(!networkd.has("ADMIN_STATE=linger") && !networkd.has("ADMIN"));
    }

    #[test]
    fn only_plain_names_are_written_into_files() {
        for name in ["eth1", "enp3s0f0", "a.5", "A_b-c"] {
            assert!(NetworkManager::can_name(name), "{name}");
        }
        for name in ["", "e*", "a;b", "a,b", ".x", "é", "e[1]", "!a", "a=b", "~x"] {
            assert!(!NetworkManager::can_name(name), "{name}");
        }
    }
}
