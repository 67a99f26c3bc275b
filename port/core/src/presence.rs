//! Detection of a removed interface by a port that waits: a port that sends detects it by the error.

use std::io;

use onbeat_netdev::PacketSocket;

use crate::Time;

/// Interval between checks, each a system call, and the longest sleep of a port.
pub(crate) const INTERVAL_NS: u64 = 100_000_000;

/// When a port last checked whether its interface is present.
#[derive(Debug, Default)]
pub(crate) struct PresenceCheck {
    checked: Time,
}

impl PresenceCheck {
    /// Checks the interface of a bound socket, if the last check is an interval ago. The error is that of a removed
    /// interface ([`crate::Error::is_removed`]).
    pub(crate) fn check(&mut self, now: Time, socket: &PacketSocket) -> io::Result<()> {
        if now.since(self.checked) < INTERVAL_NS {
            return Ok(());
        }
        if socket.is_removed()? {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        self.checked = now;
        Ok(())
    }
}
