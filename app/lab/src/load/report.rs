//! Specification and report of UDP senders.

use onbeat_realtime::clock::SECOND;

/// UDP traffic to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpSpec {
    /// Number of senders, each with a socket and a thread of its own.
    pub senders: usize,
    /// Bits of payload per second and sender.
    pub bits_per_second: u64,
    /// Payload of a datagram in octets.
    pub payload_octets: usize,
}

impl UdpSpec {
    /// Ten senders of 100 Mbit/s each (the XDP FRER paper, 5.3), with the datagram size of iperf.
    pub const PAPER: UdpSpec =
        UdpSpec { senders: 10, bits_per_second: 100_000_000, payload_octets: 1470 };

    /// Number of datagrams due from a sender after this number of nanoseconds.
    pub(super) fn due(&self, after_ns: u64) -> u64 {
        let bits = u128::from(after_ns) * u128::from(self.bits_per_second) / u128::from(SECOND);
        (bits / (8 * self.payload_octets.max(1) as u128)) as u64
    }
}

/// Counters of sent and received datagrams.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct UdpReport {
    /// Datagrams that the kernel accepted.
    pub sent: u64,
    /// Datagrams that the kernel refused because it had no room.
    pub refused: u64,
    /// Datagrams received.
    pub received: u64,
    /// Duration of sending in seconds.
    pub seconds: f64,
}

impl UdpReport {
    /// Adds the report of another period.
    pub fn add(&mut self, other: UdpReport) {
        self.sent += other.sent;
        self.refused += other.refused;
        self.received += other.received;
        self.seconds += other.seconds;
    }

    /// Bits of payload per second for this number of datagrams of `spec`'s size; `None` if the duration
    /// is 0.
    #[must_use]
    pub fn bits_per_second(&self, datagrams: u64, spec: UdpSpec) -> Option<f64> {
        let bits = datagrams as f64 * 8.0 * spec.payload_octets as f64;
        (self.seconds > 0.0).then_some(bits / self.seconds)
    }
}
