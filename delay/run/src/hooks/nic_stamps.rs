//! Packets that begin when the NIC received them.

use std::path::Path;

use onbeat_hooks::{TrackedClock, Packet};
use onbeat_link::raw::{CaptureSocket, NicStamps};
use onbeat_netdev::Namespace;
use onbeat_realtime::clock;
use onbeat_report::format::duration_ns;
use onbeat_report::{Counters, Outcome};

use crate::error::{Error, Result};

/// The NIC's clock is read beside the kernel's so often.
const LOOK_NS: u64 = 100_000_000;

/// A NIC that stamps every packet, until this is dropped.
pub(super) struct NicTimestamps {
    stamps: NicStamps,
    clock: TrackedClock,
    next_ns: u64,
    begun: u64,
    without: u64,
    /// The stamp is later than the driver's handing over by more than the clocks may be off.
    contrary: u64,
    /// Of the conversion, at most.
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
            Error::option(format!(
                "the NIC of {interface} stamps by a clock that the kernel does not show"
            ))
        })?;
        let clock = TrackedClock::open(number)?;
        let next_ns = clock::now_ns() + LOOK_NS;
        Ok(Self { stamps, clock, next_ns, begun: 0, without: 0, contrary: 0, error_ns: 0 })
    }

    /// Has packets begin with their stamps, where they have any that can be.
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
                ("where their time begins", self.begun),
                ("without one, or of a clock that was set", self.without),
                ("later than the driver, by more than the clocks may be off", self.contrary),
            ],
        );
        outcome.figure("stamps of the NIC", table);
        outcome.note(format!(
            "stamps of /dev/ptp{} are converted to CLOCK_MONOTONIC, and may be off by up to {}",
            self.stamps.clock().unwrap_or_default(),
            duration_ns(self.error_ns as f64)
        ));
    }
}
