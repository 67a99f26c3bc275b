//! Packets whose time starts at the NIC's stamp.

use std::path::Path;

use onbeat_hooks::{Packet, TrackedClock};
use onbeat_link::raw::{CaptureSocket, NicStamps};
use onbeat_netdev::Namespace;
use onbeat_realtime::clock;
use onbeat_report::format::duration_ns;
use onbeat_report::{Counters, Outcome};

use crate::error::{Error, Result};

/// Interval of reading the NIC's clock together with the kernel's.
const LOOK_NS: u64 = 100_000_000;

/// NIC time stamps of every packet, until this is dropped.
pub(super) struct NicTimestamps {
    stamps: NicStamps,
    clock: TrackedClock,
    next_ns: u64,
    begun: u64,
    without: u64,
    /// The stamp is later than the driver's by more than the error of the clocks.
    contrary: u64,
    /// Maximum error of the conversion.
    error_ns: u64,
}

impl NicTimestamps {
    pub(super) fn begin(interface: &str) -> Result<Self> {
        let stamps = NicStamps::enable(
            &Namespace::current()?,
            interface,
            Path::new(CaptureSocket::DIRECTORY),
        )?;
        let number = stamps.clock().ok_or_else(|| {
            Error::option(format!("the kernel reports no clock of the NIC of {interface}"))
        })?;
        let clock = TrackedClock::open(number)?;
        let next_ns = clock::now_ns() + LOOK_NS;
        Ok(Self { stamps, clock, next_ns, begun: 0, without: 0, contrary: 0, error_ns: 0 })
    }

    /// Starts packets at their stamps, if these are plausible.
    pub(super) fn begin_in(&mut self, packets: &mut [Packet]) -> Result<()> {
        let now_ns = clock::now_ns();
        if now_ns >= self.next_ns {
            self.clock.read()?;
            self.next_ns = now_ns + LOOK_NS;
        }
        for packet in packets {
            let stamped = packet.device_ns.and_then(|nic_ns| self.clock.monotonic_ns(nic_ns));
            let Some((stamped_ns, error_ns)) = stamped else {
                self.without += 1;
                continue;
            };
            if packet.begin_in_device(stamped_ns, error_ns) {
                self.begun += 1;
                self.error_ns = self.error_ns.max(error_ns);
            } else {
                self.contrary += 1;
            }
        }
        Ok(())
    }

    pub(super) fn fill(&self, outcome: &mut Outcome) {
        let table = Counters::named(
            ["stamps of the NIC", "packets"],
            [
                ("start of their time", self.begun),
                ("missing, or of a clock that was set", self.without),
                ("later than the driver by more than the clock error", self.contrary),
            ],
        );
        outcome.figure("stamps of the NIC", table);
        outcome.note(format!(
            "stamps of /dev/ptp{} are converted to CLOCK_MONOTONIC, with an error of up to {}",
            self.stamps.clock().unwrap_or_default(),
            duration_ns(self.error_ns as f64)
        ));
    }
}
