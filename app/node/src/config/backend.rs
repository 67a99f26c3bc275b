//! Data planes by name.

use std::fmt;
use std::str::FromStr;

use onbeat_link::{Backend as PortBackend, by_name};

/// What moves a node's frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backend {
    /// Programs in the kernel, which go on without the daemon.
    #[default]
    Xdp,
    /// The daemon, over packet sockets: where there is no XDP.
    Packet,
    /// The daemon, over AF_XDP sockets.
    Xsk,
}

impl Backend {
    /// Each with its name in files and on the command line, that of the port's back end.
    pub const ALL: [(&'static str, Self); 3] = [
        (PortBackend::Xdp.name(), Self::Xdp),
        (PortBackend::Packet.name(), Self::Packet),
        (PortBackend::Xsk.name(), Self::Xsk),
    ];

    /// Whether the daemon moves the frames.
    #[must_use]
    pub fn is_user_space(self) -> bool {
        self != Self::Xdp
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL[*self as usize].0)
    }
}

/// As [`by_name`].
impl FromStr for Backend {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        by_name(&Self::ALL, name)
    }
}
