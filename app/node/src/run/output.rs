//! Frames that were handed to ports in the kernel and did not leave.
//!
//! A program hands a frame to all egress ports of its stream at once. The kernel skips ports that cannot send the frame,
//! without a report: such frames are those that were handed to a port, and neither left nor were refused by its driver.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use onbeat_frer::reading::PortLosses;

use super::assembly::Node;
use super::error::Result;

/// Time within which a frame that was handed to a port leaves.
const IN_FLIGHT: Duration = Duration::from_millis(1);

/// Shortest interval of reading, and the longest share of time for it.
const INTERVAL: Duration = Duration::from_secs(1);
const SHARE: u32 = 100;

/// Why the kernel skips a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SkipCause {
    InterfaceDown,
    ExceedsMtu,
}

/// Frames of a port at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OutputReading {
    /// Frames that left or were refused, read before the others.
    gone_before: u64,
    /// Frames handed to the port.
    handed: u64,
    /// Frames that left or were refused, read after the others.
    gone: u64,
}

/// The account of a port.
#[derive(Debug, Default)]
struct OutputAccount {
    /// The last reading, and the frames that were handed and not gone while none can have been skipped.
    last: Option<(OutputReading, i64)>,
    /// A cause that existed since the last reading.
    noted: Option<SkipCause>,
    losses: PortLosses,
}

/// The accounts of all ports.
#[derive(Debug)]
pub(super) struct OutputAccounts {
    due: Instant,
    ports: BTreeMap<String, OutputAccount>,
}

impl OutputAccount {
    /// Adds the frames that were skipped since the last reading.
    fn add(&mut self, reading: OutputReading, present: Option<SkipCause>) {
        let OutputReading { gone_before, handed, gone } = reading;
        let cause = present.or(self.noted.take());
        let skipped = self.losses.unsent() as i64;
        let ahead = handed as i64 - gone_before as i64 - skipped;
        let Some((last, base)) = self.last else {
            self.last = Some((reading, ahead));
            return;
        };
        // Frames in flight are no losses.
        let base = if cause.is_none() { base.min(ahead) } else { base };
        let new = (handed as i64 - gone as i64 - skipped - base).max(0) as u64;
        // Frames that have been in flight for all of an interval are lost for another cause.
        let is_quiet = (last.handed, last.gone) == (handed, gone);
        match cause {
            Some(SkipCause::InterfaceDown) => self.losses.interface_down += new,
            Some(SkipCause::ExceedsMtu) => self.losses.exceeds_mtu += new,
            None if is_quiet => self.losses.not_sent += new,
            None => {}
        }
        self.last = Some((reading, base));
    }
}

impl OutputAccounts {
    pub(super) fn new(now: Instant) -> Self {
        Self { due: now, ports: BTreeMap::new() }
    }

    /// When to read next.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Removes the accounts of other ports.
    pub(super) fn retain_ports(&mut self, is_port: impl Fn(&String) -> bool) {
        self.ports.retain(|port, _| is_port(port));
    }

    /// The frames of a port that were skipped.
    pub(super) fn losses(&self, port: &str) -> PortLosses {
        self.ports.get(port).map_or_else(PortLosses::default, |account| account.losses)
    }

    /// Records that a port's interface was down: until the next reading it may be up again.
    pub(super) fn note_down(&mut self, port: &str) {
        self.ports.entry(port.to_owned()).or_default().noted = Some(SkipCause::InterfaceDown);
    }

    /// Records that a port's MTU was too small.
    pub(super) fn note_narrow(&mut self, port: &str) {
        let account = self.ports.entry(port.to_owned()).or_default();
        account.noted.get_or_insert(SkipCause::ExceedsMtu);
    }
}

impl Node {
    /// Whether the data plane does not learn itself which frames left.
    pub(super) fn accounts_output(&self) -> bool {
        self.plane.is_in_kernel() && self.plane.output_gap().is_none()
    }

    /// Reads the output of all ports, if that is due or `now` is `None`.
    pub(super) fn account_output(&mut self, now: Option<Instant>) -> Result<()> {
        if !self.accounts_output() || now.is_some_and(|now| now < self.upkeep.output.due) {
            return Ok(());
        }
        let started = Instant::now();
        let before = self.gone()?;
        let handed = self.handed()?;
        let causes = self.skip_causes();
        let is_noted = self.upkeep.output.ports.values().any(|account| account.noted.is_some());
        if is_noted || causes.iter().any(Option::is_some) {
            std::thread::sleep(IN_FLIGHT);
        }
        let after = self.gone()?;
        for (index, port) in self.setup.ports.iter().enumerate() {
            let (Some(gone_before), Some(gone)) = (before[index], after[index]) else { continue };
            let reading = OutputReading { gone_before, handed: handed[index], gone };
            let account = self.upkeep.output.ports.entry(port.name.clone()).or_default();
            account.add(reading, causes[index]);
        }
        let interval = INTERVAL.max(started.elapsed() * SHARE);
        self.upkeep.output.due = Instant::now() + interval;
        Ok(())
    }

    /// By port: frames that left, or were refused by the driver.
    fn gone(&self) -> Result<Vec<Option<u64>>> {
        let read = |name: &String| -> Result<_> {
            let reading = self.plane.read_port(name)?;
            Ok(reading.sent.map(|sent| sent + reading.losses.not_sent))
        };
        self.setup.ports.iter().map(|port| read(&port.name)).collect()
    }

    /// By port: why the kernel skips it at present, for some frames at least.
    fn skip_causes(&self) -> Vec<Option<SkipCause>> {
        let links: Vec<_> = self
            .setup
            .ports
            .iter()
            .map(|port| self.devices.handle.link(&port.attached_interface()).ok())
            .collect();
        let mtus: Vec<_> = links.iter().map(|link| link.as_ref().map(|link| link.mtu)).collect();
        let mut causes: Vec<_> = links
            .iter()
            .map(|link| match link {
                Some(link) if link.up => None,
                _ => Some(SkipCause::InterfaceDown),
            })
            .collect();
        for narrow in self.setup.narrow_paths(mtus) {
            causes[usize::from(narrow.port.0)].get_or_insert(SkipCause::ExceedsMtu);
        }
        causes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOWN: Option<SkipCause> = Some(SkipCause::InterfaceDown);
    const NARROW: Option<SkipCause> = Some(SkipCause::ExceedsMtu);

    /// Reads an account; returns the frames lost while the interface was down, for their length, and otherwise.
    fn read(
        account: &mut OutputAccount,
        (gone_before, handed, gone): (u64, u64, u64),
        cause: Option<SkipCause>,
    ) -> [u64; 3] {
        account.add(OutputReading { gone_before, handed, gone }, cause);
        let PortLosses { interface_down, exceeds_mtu, not_sent, .. } = account.losses;
        [interface_down, exceeds_mtu, not_sent]
    }

    #[test]
    fn frames_that_neither_left_nor_were_refused_are_lost_by_the_present_cause() {
        let mut account = OutputAccount::default();
        // An earlier daemon has handed 70 frames of streams that were removed.
        assert_eq!(read(&mut account, (100, 30, 100), None), [0, 0, 0]);
        assert_eq!(read(&mut account, (150, 80, 150), DOWN), [0, 0, 0]);
        assert_eq!(read(&mut account, (150, 90, 150), DOWN), [10, 0, 0]);
        assert_eq!(read(&mut account, (160, 105, 160), NARROW), [10, 5, 0]);
        assert_eq!(read(&mut account, (160, 105, 160), None), [10, 5, 0]);
        account.noted = DOWN;
        assert_eq!(read(&mut account, (160, 106, 160), None), [11, 5, 0], "up again by now");
        assert_eq!(read(&mut account, (161, 107, 161), DOWN), [11, 5, 0]);
    }

    #[test]
    fn frames_in_flight_are_no_losses_unless_nothing_moves() {
        let mut account = OutputAccount::default();
        // 8 frames were in flight at the start, and others later.
        assert_eq!(read(&mut account, (100, 108, 110), None), [0, 0, 0]);
        assert_eq!(read(&mut account, (200, 264, 210), None), [0, 0, 0]);
        assert_eq!(read(&mut account, (300, 300, 300), None), [0, 0, 0], "none in flight");
        assert_eq!(read(&mut account, (400, 403, 400), DOWN), [3, 0, 0]);
        assert_eq!(read(&mut account, (400, 405, 400), None), [3, 0, 0]);
        assert_eq!(read(&mut account, (400, 405, 400), None), [3, 0, 2], "for an interval");
        assert_eq!(read(&mut account, (400, 405, 400), None), [3, 0, 2]);
    }
}
