//! Events of this node: stored for requests, and logged.

use std::collections::{BTreeMap, VecDeque};
use std::time::SystemTime;

use onbeat_report::rfc3339_us;

use tracing::Level;

use super::clock::monotonic_ns;
use super::journald::Journald;
use crate::control::{Event, EventDetail, EventStart};

/// The subject of an event.
#[derive(Debug, Default)]
pub(super) struct EventSubject<'a> {
    pub(super) stream: Option<&'a str>,
    pub(super) port: Option<&'a str>,
    pub(super) member: Option<usize>,
}

/// The last events, each with its number.
#[derive(Debug)]
pub(super) struct Events {
    kept: VecDeque<Event>,
    /// Maximum number of stored events.
    keep: usize,
    /// Number of the last one.
    last: u64,
    /// Number of events by name. Those that did not occur are listed, too.
    counts: BTreeMap<String, u64>,
    /// The journal of systemd, if the log is part of it.
    journald: Option<Journald>,
    /// Name of the node.
    node: String,
}

impl Events {
    pub(super) fn new(node: &str, keep: usize) -> Self {
        let counts = EventDetail::MESSAGES.map(|(name, _)| (name.to_owned(), 0)).into();
        Self {
            kept: VecDeque::new(),
            keep,
            last: 0,
            counts,
            journald: Journald::connect(),
            node: node.to_owned(),
        }
    }

    /// Sets the maximum number of stored events.
    pub(super) fn set_keep(&mut self, keep: usize) {
        self.keep = keep;
        let excess = self.kept.len().saturating_sub(keep);
        self.kept.drain(..excess);
    }

    /// Number of the last event; 0: none yet.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Number of events by name.
    pub(super) fn counts(&self) -> &BTreeMap<String, u64> {
        &self.counts
    }

    /// Stores and logs an event.
    pub(super) fn record(&mut self, subject: &EventSubject<'_>, detail: EventDetail) {
        self.last += 1;
        let event = Event {
            number: self.last,
            time: rfc3339_us(SystemTime::now()),
            monotonic_ns: monotonic_ns(),
            stream: subject.stream.map(str::to_owned),
            port: subject.port.map(str::to_owned),
            member: subject.member,
            detail,
        };
        *self.counts.entry(event.detail.name()).or_default() += 1;
        self.log(&event);
        if self.kept.len() == self.keep {
            self.kept.pop_front();
        }
        self.kept.push_back(event);
    }

    /// Logs an event: as an entry with fields where the log is the journal, otherwise as a line.
    fn log(&self, event: &Event) {
        let is_bad = event.detail.is_bad();
        let is_logged =
            if is_bad { tracing::enabled!(Level::WARN) } else { tracing::enabled!(Level::INFO) };
        let journald = self.journald.as_ref().filter(|_| is_logged);
        if journald.is_some_and(|journald| journald.send(&self.node, event)) {
            return;
        }
        if is_bad {
            tracing::warn!("{event}");
        } else {
            tracing::info!("{event}");
        }
    }

    /// Stored events from a start, and the number of earlier ones that are no longer stored; for a time, those that
    /// may have been later than it.
    pub(super) fn since(&self, since: Option<&EventStart>) -> (Vec<Event>, u64) {
        let gone = self.last - self.kept.len() as u64;
        match since {
            None => (self.kept.iter().cloned().collect(), 0),
            Some(EventStart::Number(number)) => {
                // A number beyond the last is of an earlier daemon: all events are new.
                let number = if *number > self.last { 0 } else { *number };
                let known = number.saturating_sub(gone) as usize;
                (self.kept.iter().skip(known).cloned().collect(), gone.saturating_sub(number))
            }
            Some(EventStart::Time(time)) => {
                // All are in UTC and as long, so that texts compare as times do.
                let time = time.trim_end_matches('Z');
                let events: Vec<_> =
                    self.kept.iter().filter(|event| event.time.as_str() >= time).cloned().collect();
                let missed = if events.len() == self.kept.len() { gone } else { 0 };
                (events, missed)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(count: u64, keep: usize) -> Events {
        let mut events = Events::new("a", keep);
        (0..count).for_each(|_| events.record(&EventSubject::default(), EventDetail::Started));
        events
    }

    fn numbers(events: &Events, since: Option<EventStart>) -> (Vec<u64>, u64) {
        let (events, missed) = events.since(since.as_ref());
        (events.iter().map(|event| event.number).collect(), missed)
    }

    #[test]
    fn a_repeated_query_returns_all_events_or_the_number_missed() {
        let events = events(10, 4);
        let since = |number| numbers(&events, Some(EventStart::Number(number)));
        assert_eq!(numbers(&events, None), (vec![7, 8, 9, 10], 0));
        assert_eq!(since(0), (vec![7, 8, 9, 10], 6));
        assert_eq!(since(5), (vec![7, 8, 9, 10], 1));
        assert_eq!(since(6), (vec![7, 8, 9, 10], 0));
        assert_eq!(since(9), (vec![10], 0));
        assert_eq!(since(10), (vec![], 0));
        assert_eq!(since(11), (vec![7, 8, 9, 10], 6), "the daemon restarted");
    }

    #[test]
    fn a_query_starts_at_a_time_or_a_prefix_of_it() {
        let mut events = events(3, 4);
        for (event, second) in events.kept.iter_mut().zip(["01.500000", "02.000000", "02.000001"]) {
            event.time = format!("2025-01-31T12:00:{second}Z");
        }
        let since = |time: &str| numbers(&events, Some(EventStart::Time(time.into()))).0;
        assert_eq!(since("2025-01-31T12:00:02Z"), [2, 3]);
        assert_eq!(since("2025-01-31T12:00:02.000001Z"), [3]);
        assert_eq!(since("2025-01-31"), [1, 2, 3]);
        assert_eq!(since("2025-02"), [0; 0]);
        assert_eq!(numbers(&events, Some(EventStart::Time("2025".into()))).1, 0);
        events.set_keep(2);
        assert_eq!(numbers(&events, Some(EventStart::Time("2025".into()))), (vec![2, 3], 1));
        assert_eq!(
            numbers(&events, Some(EventStart::Time("2025-01-31T12:00:02.000001".into()))).1,
            0
        );
    }
}
