//! Counters of TCP.

use std::io;

use onbeat_netdev::Namespace;

use crate::{Error, Result};

/// Segments of TCP that a namespace sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Segments {
    /// Without retransmissions.
    pub(crate) sent: u64,
    pub(crate) retransmitted: u64,
}

impl Segments {
    /// Reads the counters of a namespace (RFC 4022).
    pub(crate) fn read(namespace: &Namespace) -> Result<Self> {
        const FILE: &str = "/proc/thread-self/net/snmp";
        let text = namespace
            .run(|| std::fs::read_to_string(FILE))?
            .map_err(|error| Error::io(format!("read {FILE}"), error))?;
        Self::parse(&text).ok_or_else(|| {
            Error::io(
                format!("read {FILE}"),
                io::Error::new(io::ErrorKind::InvalidData, "no counters of TCP"),
            )
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
        let (names, values) = (lines.next()?, lines.next()?);
        let value = |wanted: &str| {
            let mut pairs = names.split(' ').zip(values.split(' '));
            pairs.find(|(name, _)| *name == wanted)?.1.parse().ok()
        };
        Some(Self { sent: value("OutSegs")?, retransmitted: value("RetransSegs")? })
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            sent: self.sent - before.sent,
            retransmitted: self.retransmitted - before.retransmitted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_tcp_are_read_by_name() {
        let text = "Ip: A B\nIp: 1 2\nTcp: RtoMin OutSegs RetransSegs InErrs\nTcp: -1 22 3 4\n";
        assert_eq!(Segments::parse(text), Some(Segments { sent: 22, retransmitted: 3 }));
        assert_eq!(Segments::parse("Tcp: OutSegs\nTcp: 22\n"), None);
    }
}
