//! The quality of a capture's time stamps, in bounded memory.

use crate::capture::Packet;

/// Number of packets that show a property of the stamps.
const FEWEST: u64 = 32;
/// Share of packets that follow another too closely for a wire above which the capture stamps packets in batches: one
/// in this number.
const BATCHED_ONE_IN: u64 = 20;
/// The rate of the fastest assumed link, in bits/ns: 10 Gbit/s.
const LINK_RATE: i64 = 10;
/// Octets of a frame on the wire besides those captured: preamble, FCS and gap.
const WIRE_OVERHEAD: i64 = 24;
/// Length above which a frame was merged from several, or is a jumbo frame: Ethernet with two VLAN tags.
const LONGEST_FRAME: u32 = 1522;

/// Observes the time stamps of one side.
#[derive(Debug, Clone)]
pub struct StampQuality {
    count: u64,
    /// The number of nanoseconds of which all time stamps are multiples, at most one second.
    step_ns: i64,
    last_ns: i64,
    gap_ns: Option<i64>,
    /// True if the time from packet to packet changes. The step of a strictly periodic capture is its period.
    varies: bool,
    /// Packets that follow another in less than the wire time.
    batched: u64,
    /// The end of the previous batch, and the start of this one with its number of packets.
    batch_before_ns: i64,
    batch_start_ns: i64,
    batch_packets: u64,
    /// Batches of several packets by the time since the previous batch: the power of two in nanoseconds.
    waits: [u64; 64],
    /// Packets longer than a frame.
    long: u64,
}

impl Default for StampQuality {
    fn default() -> Self {
        StampQuality {
            count: 0,
            step_ns: 1_000_000_000,
            last_ns: 0,
            gap_ns: None,
            varies: false,
            batched: 0,
            batch_before_ns: 0,
            batch_start_ns: 0,
            batch_packets: 0,
            waits: [0; 64],
            long: 0,
        }
    }
}

impl StampQuality {
    /// Adds the next packet.
    #[inline]
    pub(super) fn observe(&mut self, packet: &Packet<'_>) {
        let time_ns = packet.time_ns;
        self.count += 1;
        self.long += u64::from(packet.wire_len > LONGEST_FRAME);
        if self.step_ns > 1 {
            self.refine(time_ns);
        }
        let gap_ns = time_ns.saturating_sub(self.last_ns);
        if !self.varies {
            self.varies = self.count > 1 && *self.gap_ns.get_or_insert(gap_ns) != gap_ns;
        }
        // Coarse stamps of two packets differ from their times by a step.
        let wire_ns = (i64::from(packet.wire_len) + WIRE_OVERHEAD) * 8 / LINK_RATE;
        if self.count > 1 && (0..=wire_ns - self.step_ns).contains(&gap_ns) {
            self.batched += 1;
            self.batch_packets += 1;
        } else {
            self.end_batch(time_ns);
        }
        self.last_ns = time_ns;
    }

    #[cold]
    fn refine(&mut self, time_ns: i64) {
        let mut rest = time_ns.saturating_abs();
        while rest != 0 {
            (self.step_ns, rest) = (rest, self.step_ns % rest);
        }
    }

    #[inline]
    fn end_batch(&mut self, next_ns: i64) {
        // The first batch has none before it.
        if self.batch_packets > 0 {
            self.record_wait();
        }
        self.batch_before_ns = self.last_ns;
        self.batch_start_ns = next_ns;
    }

    #[cold]
    fn record_wait(&mut self) {
        self.batch_packets = 0;
        if self.batch_before_ns > 0 {
            let wait_ns = self.batch_start_ns.saturating_sub(self.batch_before_ns).max(1);
            self.waits[wait_ns.ilog2() as usize] += 1;
        }
    }

    /// The resolution of the time stamps, in nanoseconds, if the packets show it; otherwise 1.
    pub fn resolution_ns(&self) -> u64 {
        match self.count >= FEWEST && self.varies {
            true => self.step_ns.unsigned_abs(),
            false => 1,
        }
    }

    /// The number of nanoseconds of which all time stamps are multiples, at most a microsecond: that of a periodic
    /// capture can be its period.
    pub(super) fn least_resolution_ns(&self) -> i64 {
        if self.count >= FEWEST / 2 && self.step_ns % 1_000 == 0 { 1_000 } else { 1 }
    }

    /// The share of packets that follow another in less than the wire time, if the capture stamps packets in batches.
    pub fn batched(&self) -> Option<f64> {
        let is_batched = self.batched >= FEWEST && self.batched * BATCHED_ONE_IN >= self.count;
        is_batched.then(|| self.batched as f64 / self.count as f64)
    }

    /// The time by which stamps may be late because of batches, in nanoseconds: 19 of 20 batches started less after
    /// the previous one.
    pub fn late_ns(&self) -> u64 {
        let all: u64 = self.waits.iter().sum();
        if self.batched().is_none() || all == 0 {
            return 0;
        }
        let mut sum = 0;
        let within = |count: &u64| {
            sum += count;
            20 * sum >= 19 * all
        };
        let power = self.waits.iter().position(within).unwrap_or(62);
        2 << power.min(61)
    }

    /// The number of packets longer than a frame of Ethernet.
    pub fn long(&self) -> u64 {
        self.long
    }
}
