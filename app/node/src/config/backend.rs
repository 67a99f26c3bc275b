//! Data planes by name.

use std::fmt;

use onbeat_link::Backend as PortBackend;

/// The data plane of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backend {
    /// BPF programs in the kernel, which run without the daemon.
    #[default]
    Xdp,
    /// The daemon, with packet sockets, if XDP is unavailable.
    Packet,
    /// The daemon, with AF_XDP sockets.
    Xsk,
}

impl Backend {
    /// All data planes with their names in files and on the command line; the names of the port's back ends.
    pub const ALL: [(&'static str, Self); 3] = [
        (PortBackend::Xdp.name(), Self::Xdp),
        (PortBackend::Packet.name(), Self::Packet),
        (PortBackend::Xsk.name(), Self::Xsk),
    ];

    /// Whether the daemon forwards the frames.
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
