//! Events of frames that the data plane loses at a port.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use onbeat_frer::reading::PortLosses;

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
}

#[derive(Debug, Clone, Copy)]
struct LossReport {
    losses: PortLosses,
    next: Instant,
}

impl LossMonitor {
    pub(super) fn new(now: Instant) -> Self {
        Self { due: now + INTERVAL, reported: BTreeMap::new() }
    }

    /// When to read next.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Removes the states of other ports.
    pub(super) fn retain_ports(&mut self, is_port: impl Fn(&String) -> bool) {
        self.reported.retain(|port, _| is_port(port));
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
            let news = self.upkeep.losses.news(now, &port.name, reading.losses, repeat);
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
}
