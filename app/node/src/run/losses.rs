//! Events of frames that the data plane loses at a port.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use onbeat_frer::reading::{PortLosses, PortReading};

use super::assembly::Node;
use super::events::EventSubject;
use crate::control::EventDetail;

/// Interval of reading.
const INTERVAL: Duration = Duration::from_secs(1);

/// Losses of ports at the latest event, and the time from which on there can be another one.
#[derive(Debug)]
pub(super) struct LossMonitor {
    due: Instant,
    reported: BTreeMap<String, LossReport>,
    /// By port: frames that did not leave, and when their number last increased.
    unsent: BTreeMap<String, (u64, Option<Instant>)>,
}

#[derive(Debug, Clone, Copy)]
struct LossReport {
    losses: PortLosses,
    next: Instant,
}

impl LossMonitor {
    pub(super) fn new(now: Instant) -> Self {
        Self { due: now + INTERVAL, reported: BTreeMap::new(), unsent: BTreeMap::new() }
    }

    /// When to read next.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Removes the states of other ports.
    pub(super) fn retain_ports(&mut self, is_port: impl Fn(&String) -> bool) {
        self.reported.retain(|port, _| is_port(port));
        self.unsent.retain(|port, _| is_port(port));
    }

    /// Records the frames of a port that did not leave. Those of the first reading may be of an earlier daemon.
    fn note(&mut self, now: Instant, port: &str, unsent: u64) {
        let (before, at) = self.unsent.entry(port.to_owned()).or_insert((unsent, None));
        if unsent > *before {
            *at = Some(now);
        }
        *before = unsent;
    }

    /// Whether frames to send by a port were lost lately: by one of the last two readings.
    fn is_losing(&self, now: Instant, port: &str) -> bool {
        let at = self.unsent.get(port).and_then(|(_, at)| *at);
        at.is_some_and(|at| now.duration_since(at) < 2 * INTERVAL)
    }

    /// Returns the losses since the latest event of the port, if they are to be reported. The first losses are reported at
    /// once, further ones together after `repeat`. Counters restart when a port is attached again.
    fn news(
        &mut self,
        now: Instant,
        port: &str,
        losses: PortLosses,
        repeat: Duration,
    ) -> Option<PortLosses> {
        let before = self.reported.get(port).copied();
        let base = before.map(|before| before.losses).filter(|base| losses.includes(base));
        let more = losses.since(&base.unwrap_or_default());
        if more.total() == 0 || before.is_some_and(|before| now < before.next) {
            return None;
        }
        self.reported.insert(port.to_owned(), LossReport { losses, next: now + repeat });
        Some(more)
    }
}

impl Node {
    /// Frames that the data plane lost at a port.
    pub(super) fn losses(&self, port: &str, reading: &PortReading) -> PortLosses {
        reading.losses + self.upkeep.output.losses(port)
    }

    /// Reads the frames that left by all ports, and those that did not.
    pub(super) fn read_output(&mut self) {
        let now = Instant::now();
        self.account_output(None).unwrap_or_else(|error| tracing::error!("{error}"));
        for port in &self.setup.ports {
            if let Ok(reading) = self.plane.read_port(&port.name) {
                let unsent = self.losses(&port.name, &reading).unsent();
                self.upkeep.losses.note(now, &port.name, unsent);
            }
        }
    }

    /// Whether a port loses frames to send.
    pub(super) fn is_losing(&self, port: &str) -> bool {
        self.upkeep.losses.is_losing(Instant::now(), port)
    }

    /// Reads the losses of all ports, and records events.
    pub(super) fn read_losses(&mut self, now: Instant) {
        self.upkeep.losses.due = now + INTERVAL;
        let repeat = Duration::from_nanos(self.setup.node.events.rules.repeat_ns);
        for port in &self.setup.ports {
            let reading = match self.plane.read_port(&port.name) {
                Ok(reading) => reading,
                Err(error) => {
                    tracing::error!("{error}");
                    continue;
                }
            };
            let losses = self.losses(&port.name, &reading);
            self.upkeep.losses.note(now, &port.name, losses.unsent());
            let news = self.upkeep.losses.news(now, &port.name, losses, repeat);
            if let Some(losses) = news {
                let subject = EventSubject { port: Some(&port.name), ..EventSubject::default() };
                self.events.record(&subject, EventDetail::FramesDropped { losses });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPEAT: Duration = Duration::from_secs(10);

    fn full(queue_full: u64) -> PortLosses {
        PortLosses { queue_full, ..PortLosses::default() }
    }

    #[test]
    fn the_first_losses_are_reported_at_once_and_further_ones_together() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut monitor = LossMonitor::new(start);
        let mut news = |seconds, losses| monitor.news(at(seconds), "path1", losses, REPEAT);
        assert_eq!(news(1, full(0)), None);
        assert_eq!(news(2, full(5)), Some(full(5)));
        assert_eq!(news(3, full(7)), None);
        assert_eq!(news(11, full(8)), None);
        assert_eq!(news(12, full(9)), Some(full(4)));
        assert_eq!(news(30, full(9)), None);
        // Attached again.
        assert_eq!(news(40, full(2)), Some(full(2)));
    }

    #[test]
    fn a_port_loses_frames_while_their_number_increases() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut monitor = LossMonitor::new(start);
        monitor.note(at(0), "path1", 7);
        assert!(!monitor.is_losing(at(0), "path1"), "of an earlier daemon");
        monitor.note(at(1), "path1", 8);
        monitor.note(at(2), "path1", 8);
        assert!(monitor.is_losing(at(2), "path1") && !monitor.is_losing(at(2), "path2"));
        assert!(!monitor.is_losing(at(3), "path1"));
    }
}
