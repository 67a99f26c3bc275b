//! What senders of UDP datagrams send, and what became of it.

use onbeat_realtime::clock::SECOND;

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpSpec {
    /// How many senders, each with a socket and a thread of its own.
    pub senders: usize,
    /// Bits of payload that each sends per second.
    pub bits_per_second: u64,
    /// Octets of payload of a datagram.
    pub payload_octets: usize,
}

impl UdpSpec {
    /// Ten senders of 100 Mbit/s each (the XDP FRER paper, 5.3), in datagrams of iperf's size.
    pub const PAPER: UdpSpec =
        UdpSpec { senders: 10, bits_per_second: 100_000_000, payload_octets: 1470 };

    /// Datagrams due from a sender after this number of nanoseconds.
    pub(super) fn due(&self, after_ns: u64) -> u64 {
        let bits = u128::from(after_ns) * u128::from(self.bits_per_second) / u128::from(SECOND);
        (bits / (8 * self.payload_octets.max(1) as u128)) as u64
    }
}

/// What was sent and what arrived.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct UdpReport {
    /// Datagrams that the kernel took.
    pub sent: u64,
    /// Datagrams that it refused, for want of room.
    pub refused: u64,
    /// Datagrams that a receiver got.
    pub received: u64,
    /// For how long they were sent, in seconds.
    pub seconds: f64,
}

impl UdpReport {
    /// Adds what was sent at another time.
    pub fn add(&mut self, other: UdpReport) {
        self.sent += other.sent;
        self.refused += other.refused;
        self.received += other.received;
        self.seconds += other.seconds;
    }

    /// Bits of payload per second of this number of datagrams of `spec`'s size; `None` in no time.
    #[must_use]
    pub fn bits_per_second(&self, datagrams: u64, spec: UdpSpec) -> Option<f64> {
        let bits = datagrams as f64 * 8.0 * spec.payload_octets as f64;
        (self.seconds > 0.0).then_some(bits / self.seconds)
    }
}
