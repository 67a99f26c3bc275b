//! The back ends and their names.

use std::fmt;
use std::str::FromStr;

/// A back end: the method by which a port accesses its interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Backend {
    /// A packet socket: works on every interface.
    #[default]
    Packet,
    /// AF_XDP.
    Xsk,
    /// AF_XDP, with responses in the driver.
    Xdp,
    /// A packet socket with launch times.
    Txtime,
    /// The kernel module onbeat.ko.
    Module,
}

impl Backend {
    /// All back ends with their names in files and on the command line, in the order of the crate's documentation.
    pub const ALL: [(&'static str, Self); 5] = [
        ("packet", Self::Packet),
        ("xsk", Self::Xsk),
        ("xdp", Self::Xdp),
        ("txtime", Self::Txtime),
        ("module", Self::Module),
    ];

    /// The name in files and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }

    /// Returns true if it sends responses without this process.
    #[must_use]
    pub const fn answers(self) -> bool {
        matches!(self, Self::Xdp | Self::Module)
    }

    /// Returns true if the network stack also receives the frames of a port.
    #[must_use]
    pub const fn copies(self) -> bool {
        matches!(self, Self::Packet | Self::Txtime)
    }

    /// Returns true if its confirmations have the time stamps of the driver or the NIC, given a driver with any.
    #[must_use]
    pub const fn stamps(self) -> bool {
        matches!(self, Self::Packet | Self::Txtime | Self::Module)
    }

    /// Returns true if it sends at an instant without this process.
    #[must_use]
    pub const fn launches(self) -> bool {
        matches!(self, Self::Txtime | Self::Module)
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error lists the known names.
impl FromStr for Backend {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|(known, _)| *known == name);
        known
            .map(|(_, backend)| *backend)
            .ok_or_else(|| format!("use one of {}", Self::ALL.map(|(name, _)| name).join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_back_end_has_its_own_name() {
        for (name, backend) in Backend::ALL {
            assert_eq!((backend.to_string().as_str(), name.parse()), (name, Ok(backend)));
        }
    }
}
